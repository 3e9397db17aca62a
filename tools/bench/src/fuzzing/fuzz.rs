//! `fuzz`: damaged traces through everything that reads them. It starts from whole traces (made in
//! [`crate::fuzz_made`]), damages them - flipped bits, cuts, copied and
//! lost ranges, interesting numbers - and mends the checksums of half of them, so that the damage
//! gets past the first gate; half of them are changed in their fields too ([`crate::fuzz_fields`]).
//! Fails on a panic, and on an input that takes more than seconds. A seed names a run; a failing
//! input is kept.
#![forbid(unsafe_code)]

use crate::folder::{Files, processes, write};
use crate::fuzz_command::HANGS;
use crate::fuzz_fields;
pub use crate::fuzz_made::made;
use crate::random::Random;
use anyhow::{Result, bail};
use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use clscope_trace::file::{BLOCK_HEADER_LEN, BLOCK_MAGIC, BlockHeader, HEADER_LEN};
use clscope_trace::{checksum, defs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Options of every fuzzer.
#[derive(Debug, clap::Args)]
pub struct Course {
    /// How long
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Names the sequence of inputs
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where a failing input is kept
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub keep: PathBuf,
}

/// An input that takes longer is a failure: reading must not blow up on small files.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Damages, reads, prints.
///
/// # Errors
/// If an input makes a reader panic, crash or take too long.
pub fn run(args: &Course) -> Result<()> {
    let corpus = made();
    let current = watched(args.seed);
    let make = |random: &mut Random| {
        current.fetch_add(1, Ordering::Relaxed);
        damaged(&corpus[random.below(corpus.len())], &corpus, random)
    };
    let keep = |input: &Files, name: &Path| write(&name.with_extension("clscope"), input);
    let kind = ("fuzz", "damaged traces");
    args.run(kind, PATIENCE, make, |input, _| analyse(input), keep)
}

impl Course {
    /// Makes inputs and takes each, until the time is over; prints how many. `kind` begins the names
    /// of inputs that are kept, `what` says what inputs are.
    ///
    /// # Errors
    /// On the first input that panics or takes longer than the patience: it is kept under the name
    /// that is told.
    pub fn run<T>(
        &self,
        (kind, what): (&str, &str),
        patience: Duration,
        mut make: impl FnMut(&mut Random) -> T,
        take: impl Fn(&T, &mut Random),
        keep: impl Fn(&T, &Path) -> Result<()>,
    ) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(self.seconds);
        let mut random = Random(self.seed);
        let (mut inputs, mut slowest) = (0u64, Duration::ZERO);
        while Instant::now() < end {
            let input = make(&mut random);
            let mut run = || {
                let begin = Instant::now();
                let taken = catch_unwind(AssertUnwindSafe(|| take(&input, &mut random)));
                (taken, begin.elapsed())
            };
            let (mut fate, mut took) = run();
            if fate.is_ok() && took > patience {
                // A machine that stood still does not make the input a slow one.
                (fate, took) = run();
            }
            slowest = slowest.max(took);
            inputs += 1;
            if fate.is_err() || took > patience {
                let kept = self.keep.join(format!("{kind}-{}-{inputs}", self.seed));
                keep(&input, &kept)?;
                let fault = if fate.is_err() { "panic" } else { "too slow" };
                bail!(
                    "input {inputs} of seed {}: {fault}; kept as {}.*",
                    self.seed,
                    kept.display()
                );
            }
        }
        println!(
            "{inputs} {what} from seed {}: no panic; slowest {:.1} ms",
            self.seed,
            slowest.as_secs_f64() * 1e3
        );
        Ok(())
    }
}

/// A counter of inputs; where it does not move for [`HANGS`], the program ends and names the input:
/// nothing else can end a loop in this process.
fn watched(seed: u64) -> &'static AtomicU64 {
    static CURRENT: AtomicU64 = AtomicU64::new(0);
    std::thread::spawn(move || {
        loop {
            let before = CURRENT.load(Ordering::Relaxed);
            std::thread::sleep(HANGS);
            if before == CURRENT.load(Ordering::Relaxed) {
                eprintln!("input {before} of seed {seed}: no end within {:?}", HANGS);
                std::process::exit(1);
            }
        }
    });
    &CURRENT
}

/// Everything that the libraries do with a trace.
pub fn analyse(input: &Files) {
    let trace = Trace::open(processes(input));
    let alignment = trace.align();
    let stats = Stats::of_trace(&trace, &alignment);
    let mut events = trace.events(Some(&alignment));
    let count = events.by_ref().count();
    let issues = trace.issues_after(events.tally(), Some(&alignment));
    let said: usize = issues.iter().map(|i| i.to_string().len()).sum();
    std::hint::black_box((
        stats.kernels(&trace).len(),
        stats.functions(&trace).len(),
        stats.waits(&trace).len(),
        stats.idle_causes(&trace).len(),
        stats.issues(&trace, &alignment).len(),
        trace.bounds(),
        count,
        said,
    ));
}

/// A damaged copy: in its fields, in its bytes, or in both.
pub fn damaged(whole: &Files, corpus: &[Files], random: &mut Random) -> Files {
    let mut files = whole.clone();
    let kind = random.below(4);
    if kind < 3 {
        for _ in 0..=random.below(8) {
            let which = random.below(files.len());
            // Most often a number of the same trace: times near to each other, ids that exist.
            let donor =
                if random.below(4) == 0 { &corpus[random.below(corpus.len())] } else { whole };
            let (_, other) = &donor[random.below(donor.len())];
            let (name, bytes) = &mut files[which];
            fuzz_fields::change(name, bytes, other, random);
        }
    }
    if kind < 2 {
        return files;
    }
    for _ in 0..=random.below(6) {
        let which = random.below(files.len());
        let donor = &corpus[random.below(corpus.len())];
        let (_, other) = &donor[random.below(donor.len())];
        damage(&mut files[which].1, other, random);
    }
    if random.below(2) == 0 {
        for (name, bytes) in &mut files {
            mend(name, bytes);
        }
    }
    if random.below(20) == 0 {
        files.swap_remove(random.below(files.len()));
    }
    files
}

/// One hurt. Lengths stay below a few megabytes.
pub fn damage(bytes: &mut Vec<u8>, other: &[u8], random: &mut Random) {
    const NUMBERS: [u64; 12] = [
        0,
        1,
        7,
        8,
        255,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        1 << 32,
        i64::MAX as u64,
        u64::MAX,
    ];
    if bytes.is_empty() {
        bytes.extend_from_slice(other);
        return;
    }
    let at = random.below(bytes.len());
    let scale = [8, 64, 4096][random.below(3)];
    let length = 1 + random.below(scale);
    let range = at..bytes.len().min(at + length);
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 => bytes.truncate(at),
        3 => drop(bytes.drain(range)),
        4 if bytes.len() < 4 << 20 => {
            let copy = bytes[range].to_vec();
            let to = random.below(bytes.len());
            drop(bytes.splice(to..to, copy));
        }
        5 if !other.is_empty() => {
            let from = random.below(other.len());
            for (to, value) in bytes[range].iter_mut().zip(&other[from..]) {
                *to = *value;
            }
        }
        6 => bytes[range].fill(0),
        _ => {
            // A number where numbers stand: at a multiple of four.
            let at = at / 4 * 4;
            let value = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            for (to, value) in bytes[at..].iter_mut().zip(&value[..width]) {
                *to = *value;
            }
        }
    }
}

/// Makes the checksums of a damaged file right, as far as its frames still stand.
pub fn mend(name: &str, bytes: &mut [u8]) {
    if let Some(head) = bytes.first_chunk_mut::<HEADER_LEN>() {
        let sum = checksum(&head[..120]);
        head[120..].copy_from_slice(&sum.to_le_bytes());
    }
    let number = |bytes: &[u8], at: usize| {
        bytes.get(at..).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b))
    };
    let mut at = HEADER_LEN;
    if name.ends_with(".defs") {
        while let Some(length) = number(bytes, at) {
            let end = at.saturating_add(defs::FRAME_LEN).saturating_add(length as usize);
            let Some(frame) = bytes.get_mut(at..end) else { break };
            let sum = defs::frame_checksum(&frame[..8], &frame[defs::FRAME_LEN..]);
            frame[8..16].copy_from_slice(&sum.to_le_bytes());
            at = end;
        }
    } else if name.ends_with(".clt") {
        while let Some(magic) = number(bytes, at) {
            let (Some(length), true) = (number(bytes, at + 12), magic == BLOCK_MAGIC) else {
                at += 8;
                continue;
            };
            let end = at.saturating_add(BLOCK_HEADER_LEN).saturating_add(length as usize);
            let Some(block) = bytes.get_mut(at..end) else {
                at += 8;
                continue;
            };
            let (head, payload) = block.split_at_mut(BLOCK_HEADER_LEN);
            let field = |at: usize| number(head, at).unwrap_or(0);
            let base = u64::from(field(16)) | u64::from(field(20)) << 32;
            let header = BlockHeader {
                thread: field(4),
                sequence: field(8),
                length,
                base,
                checksum: checksum(payload),
            };
            head.copy_from_slice(&header.encode());
            at = end.next_multiple_of(8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_traces_are_sound_and_stay_so_when_mended() {
        for mut files in made() {
            for (name, bytes) in &mut files {
                let before = bytes.clone();
                mend(name, bytes);
                assert!(*bytes == before, "mending changed the sound file {name}");
            }
        }
    }

    #[test]
    fn damage_is_the_same_for_the_same_seed() {
        let corpus = made();
        let [a, b] = [7, 7].map(|seed| damaged(&corpus[1], &corpus, &mut Random(seed)));
        assert!(a == b);
        assert!(a != damaged(&corpus[1], &corpus, &mut Random(8)));
    }

    // A part of every test run; the command runs for longer.
    #[test]
    fn damaged_traces_never_panic() {
        let corpus = made();
        let mut random = Random(42);
        for _ in 0..1_000 {
            analyse(&damaged(&corpus[random.below(corpus.len())], &corpus, &mut random));
        }
    }
}
