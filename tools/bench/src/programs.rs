//! Runs generated programs bare and recorded, in every way of recording, and shrinks each that comes
//! out otherwise to a few lines. Fails when there is one. Programs whose bare runs differ are
//! counted, and say nothing.
#![forbid(unsafe_code)]

use crate::process::Places;
use anyhow::{Result, bail};
use clscope_testing::programs::{
    Batch, Outcome, Setting, WAYS, Way, difference, differs, generate_batch, shrink,
};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Programs in one process.
const BATCH: u64 = 16;
/// How long one process may take.
const LIMIT: Duration = Duration::from_secs(30);
/// Runs in which a program must differ once, while it is shrunk.
const TRIES: usize = 3;

/// Which programs are run how.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    places: Places,
    /// Stop after so long
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u64,
    /// First seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Ways of recording, comma-separated: plain, event, callback, sync, off, sample, snapshot,
    /// check, capture, call-sites, counters, layer, preload, bounded, changed, all, replay, mix
    /// [default: all]
    #[arg(long, value_name = "WAYS", value_delimiter = ',')]
    ways: Vec<String>,
    /// The .icd file of the runtime [default: the machine's]
    #[arg(long, value_name = "FILE")]
    icd: Option<PathBuf>,
    /// Say of programs whose bare runs differ in what
    #[arg(long)]
    unsettled: bool,
}

/// Runs.
///
/// # Errors
/// If a program came out otherwise when it was recorded.
pub fn run(args: &Args) -> Result<()> {
    let ways: Vec<Way> = if args.ways.is_empty() {
        WAYS.to_vec()
    } else {
        let named = |name: &String| WAYS.into_iter().find(|way| way.name == name);
        if let Some(unknown) = args.ways.iter().find(|name| named(name).is_none()) {
            bail!("no way of recording is named {unknown}: see --help");
        }
        args.ways.iter().filter_map(named).collect()
    };
    let scratch = args.places.scratch()?;
    let program = args.places.fixture("programs")?;
    let mut variables = vec![("CLSCOPE_LIBRARY".to_owned(), args.places.recorder()?.into())];
    variables.extend(args.icd.iter().map(|icd| ("OCL_ICD_VENDORS".to_owned(), icd.into())));
    let setting = Setting {
        fixtures: program.parent().map(PathBuf::from).unwrap_or_default(),
        clscope: args.places.clscope()?,
        scratch: scratch.path().canonicalize()?,
        variables,
        limit: LIMIT,
    };
    let until = Instant::now() + Duration::from_secs(args.seconds);
    let (mut programs, mut runs, mut unsettled, mut found) = (0, 0, 0, 0);
    let mut first = args.seed;
    while Instant::now() < until {
        let batch = generate_batch(first..first + BATCH);
        first += BATCH;
        for (part, bare) in settled(&setting, batch, args.unsettled, &mut unsettled) {
            programs += part.programs.len();
            for way in &ways {
                runs += 1;
                let recorded = setting.run(&part, Some(*way));
                if recorded == bare || recorded.lacked_memory() {
                    continue;
                }
                println!("seeds from {}, {}:", part.programs[0].seed, way.name);
                print!("{}", difference("bare", &bare, "recorded", &recorded));
                let Some(finding) = differs(&setting, &part, *way, 4 * TRIES) else {
                    println!("not seen again");
                    continue;
                };
                found += 1;
                let small = shrink(&setting, finding, TRIES);
                println!("shrunk, record {}:\n{}", way.options.join(" "), small.batch.text());
                print!("{}", difference("bare", &small.bare, "recorded", &small.recorded));
            }
        }
    }
    println!(
        "{programs} programs, {runs} recorded runs of up to {} programs, {found} found, {unsettled} unsettled when bare",
        BATCH
    );
    if found > 0 {
        bail!("{found} programs come out otherwise when they are recorded");
    }
    Ok(())
}

/// The parts of a batch whose bare outcome is determined: all of it, or halves of halves.
fn settled(
    setting: &Setting,
    batch: Batch,
    says: bool,
    unsettled: &mut usize,
) -> Vec<(Batch, Outcome)> {
    match setting.bare(&batch, 2) {
        Ok(bare) => vec![(batch, bare)],
        Err(difference) if batch.programs.len() == 1 => {
            *unsettled += 1;
            if says {
                println!("unsettled:\n{}{difference}", batch.text());
            }
            Vec::new()
        }
        Err(_) => {
            let (first, last) = batch.programs.split_at(batch.programs.len() / 2);
            let halves = [first, last].map(|half| batch.with(half.to_vec()));
            halves.into_iter().flat_map(|half| settled(setting, half, says, unsettled)).collect()
        }
    }
}
