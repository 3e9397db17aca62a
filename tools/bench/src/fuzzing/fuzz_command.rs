//! `fuzz-command`: whole trace directories through the command itself, each run a process of its
//! own with a limit of memory and of time. Beside damaged bytes ([`crate::fuzz`]) it makes
//! directories that are sound in every byte and unreasonable in what they say
//! ([`crate::unreasonable`]). Fails on a run that ends by a signal, panics, takes more than ten
//! seconds of processor time or more memory than 500 MB. An input follows from the seed and its number alone, so that one can be
//! made again; a failing one is kept.

use crate::captured::captured;
use crate::folder::{Files, read, write};
use crate::fuzz::{Course, damaged, made, mend};
use crate::process::{self, Ended};
use crate::random::Random;
use crate::unreasonable;
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Options of `fuzz-command`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub course: Course,
    /// The command [default: clscope beside this program]
    #[arg(long, value_name = "FILE")]
    pub clscope: Option<PathBuf>,
    #[arg(long, value_name = "NUMBER")]
    pub input: Option<u64>,
    /// Most processor time of a run that is no failure; other work on the machine does not count.
    /// 10 is the aim of a release build
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub patience: u64,
    /// Count sums that overflow and go on: in a build with overflow checks they end the command, in
    /// a release they wrap
    #[arg(long)]
    pub count_overflows: bool,
}

/// Longest run by the wall clock: one that waits for something takes no processor time.
pub const HANGS: Duration = Duration::from_secs(120);
/// Most resident memory of a run, in bytes.
const MEMORY: u64 = 500 << 20;
/// Address space of a run, in bytes: mapped files and stacks count here, and cost no memory.
const ADDRESS_SPACE: u64 = 2 << 30;

/// How the command is asked; `TRACE` stands for the input, `CAPTURE` for the folder of a captured
/// launch, `OUT` for a name beside it. `view` serves what `report` and `export` write, until it is
/// ended; `stat` reads traces that it has just made.
const RUNS: &[&[&str]] = &[
    &["report", "TRACE"],
    &["report", "--format", "json", "TRACE"],
    &["report", "--format", "csv", "TRACE"],
    &["report", "--format", "html", "TRACE"],
    &["report", "--by", "call-site", "TRACE"],
    &["report", "--by", "ndrange", "TRACE"],
    &["report", "--gpu-power", "pkg-pp0-dram", "TRACE"],
    &["report", "--window", "0..1", "TRACE"],
    &["dump", "TRACE"],
    &["dump", "--format", "json", "TRACE"],
    &["export", "chrome", "TRACE", "-o", "OUT.json"],
    &["export", "perfetto", "TRACE", "-o", "OUT.pftrace"],
    &["export", "folded", "TRACE", "-o", "OUT.folded"],
    &["export", "speedscope", "TRACE", "-o", "OUT.speedscope.json"],
    &["export", "pprof", "TRACE", "-o", "OUT.pb.gz"],
    &["export", "parquet", "TRACE", "-o", "OUT.data"],
    &["merge", "TRACE", "-o", "OUT.clscope"],
    &["ctl", "TRACE", "status"],
    &["top", "--once", "TRACE"],
    &["top", "--once", "--format", "json", "TRACE"],
    &["mix", "TRACE"],
    &["mix", "--format", "json", "TRACE"],
    &["explain", "TRACE"],
    &["explain", "--format", "json", "--by", "ndrange", "--limit", "0", "TRACE"],
    &["roofline", "--energy", "TRACE", "-o", "OUT.svg"],
    &["what-if", "TRACE", "k*", "--local", "64", "--global", "2x"],
    &["overhead", "TRACE"],
    &["programs", "TRACE", "--output", "OUT.sources"],
    &["check", "TRACE"],
    &["check", "--format", "json", "TRACE"],
    // A trace beside itself, as ranks of one host are.
    &["report", "TRACE", "OUT.copy.clscope"],
    &["diff", "TRACE", "OUT.copy.clscope"],
    &["diff", "--format", "html", "TRACE", "OUT.copy.clscope"],
    // It compiles and runs nothing: what is exported is the description and the memory.
    &["kernel", "CAPTURE", "--export", "c", "-o", "OUT.alone"],
    &["kernel", "CAPTURE", "--export", "pyopencl", "-o", "OUT.alone"],
];

/// How one run ended.
#[derive(Debug)]
pub struct Ran {
    /// What it took.
    pub ended: Ended,
    /// What it said on stderr, its beginning.
    pub said: String,
}

impl Ran {
    fn status(&self) -> ExitStatus {
        ExitStatus::from_raw(self.ended.status)
    }

    /// Whether a check of arithmetic ended it.
    fn overflowed(&self) -> bool {
        self.status().code() == Some(101) && self.said.contains("with overflow")
    }

    /// What is wrong with it, if anything is.
    pub fn fault(&self, patience: Duration) -> Option<String> {
        if self.ended.hung {
            return Some(format!("no end within {} s", HANGS.as_secs()));
        }
        if self.ended.cpu > patience {
            return Some(format!("{:.1} s", self.ended.cpu.as_secs_f64()));
        }
        if let Some(signal) = self.status().signal() {
            return Some(format!("ended by signal {signal}"));
        }
        // 101 is what a panic leaves, 3 a judgement that fails a CI job.
        if !matches!(self.status().code(), Some(0..=3)) || self.said.contains("panicked at") {
            return Some(self.status().to_string());
        }
        let memory = self.ended.memory;
        (memory > MEMORY).then(|| format!("{} MB of memory", memory >> 20))
    }
}

/// Runs a program to its end, or to that of the patience: then it is killed.
///
/// # Errors
/// If it cannot be started.
pub fn limited(mut command: Command) -> Result<Ran> {
    let said = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said.try_clone()?);
    let limit = libc::rlimit { rlim_cur: ADDRESS_SPACE, rlim_max: ADDRESS_SPACE };
    let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: between fork and exec only setrlimit is called, which is async-signal-safe, with
    // values that were copied into the closure.
    unsafe {
        command.pre_exec(move || {
            if libc::setrlimit(libc::RLIMIT_AS, &limit) != 0
                || libc::setrlimit(libc::RLIMIT_CORE, &no_core) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        })
    };
    let child = command.spawn().with_context(|| format!("could not start {command:?}"))?;
    let ended = process::wait(child.id(), HANGS)?;
    let mut head = vec![0; 4096];
    let length = std::os::unix::fs::FileExt::read_at(&said, &mut head, 0)?;
    head.truncate(length);
    let said = String::from_utf8_lossy(&head).into_owned();
    Ok(Ran { ended, said })
}

/// One input: files of a trace directory.
fn input(corpus: &[Files], seed: u64, number: u64) -> (Files, Random) {
    let mut random = Random(seed.rotate_left(32) ^ number);
    random.next();
    let mut files = match random.below(8) {
        0..=3 => corpus[random.below(corpus.len())].clone(),
        _ => unreasonable::directory(&mut random),
    };
    if random.below(3) > 0 {
        files = damaged(&files, corpus, &mut random);
    } else {
        files.iter_mut().for_each(|(name, bytes)| mend(name, bytes));
    }
    (files, random)
}

/// Makes inputs and gives them to the command.
///
/// # Errors
/// If a run fails in a way that none may.
pub fn run(args: &Args) -> Result<()> {
    let program = process::program("clscope", args.clscope.as_ref())?;
    let corpus = made();
    let scratch = tempfile::tempdir()?;
    let end = Instant::now() + Duration::from_secs(args.course.seconds);
    let numbers = args.input.map_or(1..=u64::MAX, |number| number..=number);
    let (mut inputs, mut runs, mut overflows) = (0u64, 0u64, 0u64);
    let (mut slowest, mut largest) = (Duration::ZERO, 0u64);
    for number in numbers {
        if args.input.is_none() && Instant::now() >= end {
            break;
        }
        let (files, mut random) = input(&corpus, args.course.seed, number);
        let (trace, out) = (scratch.path().join("t.clscope"), scratch.path().join("out"));
        write(&trace, &files)?;
        let chosen = random.below(RUNS.len());
        for (which, arguments) in RUNS.iter().enumerate() {
            if args.input.is_none() && which != chosen {
                continue;
            }
            if arguments.contains(&"OUT.copy.clscope") {
                write(&out.with_extension("copy.clscope"), &files)?;
            }
            let capture = scratch.path().join("captures").join("k.1");
            if arguments.contains(&"CAPTURE") {
                write(&capture, &captured(&mut random))?;
            }
            let mut command = Command::new(&program);
            command
                .current_dir(scratch.path())
                .env("CLSCOPE_CALIBRATION", scratch.path().join("calibration.json"));
            for argument in arguments.iter() {
                match *argument {
                    "TRACE" => command.arg(&trace),
                    "CAPTURE" => command.arg(&capture),
                    other => match other.strip_prefix("OUT.") {
                        Some(ending) => command.arg(out.with_extension(ending)),
                        None => command.arg(OsStr::new(other)),
                    },
                };
            }
            let ran = limited(command)?;
            runs += 1;
            largest = largest.max(ran.ended.memory);
            slowest = slowest.max(ran.ended.cpu);
            if args.count_overflows && ran.overflowed() {
                overflows += 1;
                continue;
            }
            if let Some(fault) = ran.fault(Duration::from_secs(args.patience)) {
                let kept = args
                    .course
                    .keep
                    .join(format!("fuzz-command-{}-{number}.clscope", args.course.seed));
                write(&kept, &files)?;
                if capture.is_dir() {
                    write(&kept.join("capture"), &read(&capture)?)?;
                }
                bail!(
                    "`clscope {}` on input {number} of seed {}: {fault}; kept in {}: {}",
                    arguments.join(" "),
                    args.course.seed,
                    kept.display(),
                    ran.said.lines().next().unwrap_or_default()
                );
            }
        }
        inputs += 1;
        for entry in std::fs::read_dir(scratch.path())?.flatten() {
            let path = entry.path();
            if path.is_dir() { std::fs::remove_dir_all(path)? } else { std::fs::remove_file(path)? }
        }
    }
    println!(
        "{inputs} directories in {runs} runs of the command from seed {}: no crash{}; slowest {:.2} s, most memory {} MB",
        args.course.seed,
        match overflows {
            0 => String::new(),
            n => format!(" but {n} sums that overflowed"),
        },
        slowest.as_secs_f64(),
        largest >> 20
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Ran {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        limited(command).unwrap()
    }

    #[test]
    fn faults_are_told_from_refusals() {
        for (script, fault) in [
            ("exit 0", None),
            ("exit 1", None),
            ("exit 101", Some("exit status: 101")),
            ("kill -ABRT $$", Some("ended by signal 6")),
            ("echo \"thread 'x' panicked at y\" >&2; exit 1", Some("exit status: 1")),
        ] {
            assert_eq!(shell(script).fault(PATIENCE).as_deref(), fault, "{script}");
        }
        let overflow = shell("echo 'attempt to add with overflow' >&2; exit 101");
        assert!(overflow.overflowed() && !shell("exit 101").overflowed());
        let with = |change: fn(&mut Ended)| {
            let mut ran = shell("exit 0");
            change(&mut ran.ended);
            ran
        };
        let slow = with(|ended| ended.cpu = PATIENCE * 2);
        assert!(slow.fault(PATIENCE).is_some());
        let hung = with(|ended| ended.hung = true);
        assert!(hung.fault(PATIENCE).is_some());
        let large = with(|ended| ended.memory = MEMORY + 1);
        assert!(large.fault(PATIENCE).is_some());
        assert!(shell("exit 0").ended.memory > 0);
    }

    #[test]
    fn an_input_follows_from_its_number() {
        let corpus = made();
        let of = |seed, number| input(&corpus, seed, number).0;
        assert!(of(3, 5) == of(3, 5));
        assert!((1..20).any(|n| of(3, n) != of(4, n)));
    }
}
