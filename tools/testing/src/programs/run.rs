//! Runs a batch bare and recorded, and says where they differ. Owns the ways of recording that are
//! tried. Refuses to take one bare run for the truth: a batch whose bare runs differ, or do not end,
//! says nothing about recording.

use super::Batch;
use crate::Limited as _;
use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Options of `record` under which programs must come out as they do bare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// Its short name.
    pub name: &'static str,
    /// The options.
    pub options: &'static [&'static str],
}

const fn way(name: &'static str, options: &'static [&'static str]) -> Way {
    Way { name, options }
}

/// Every way of recording.
pub const WAYS: [Way; 18] = [
    way("plain", &[]),
    way("event", &["--device-timing", "event"]),
    way("callback", &["--device-timing", "callback"]),
    way("sync", &["--device-timing", "sync"]),
    way("off", &["--device-timing", "off"]),
    way("sample", &["--device-timing", "sample"]),
    way("snapshot", &["--snapshot"]),
    way("check", &["--check"]),
    way("capture", &["--capture", "*:1,2"]),
    way("call-sites", &["--call-sites=3", "--without=joined-calls"]),
    way("counters", &["--counters", "perf"]),
    way("layer", &["--inject", "layer"]),
    way("preload", &["--inject", "preload"]),
    way("bounded", &["--max-size", "2M", "--device-timing", "callback"]),
    way("changed", &["--local", "add=8", "--kernels", "a*"]),
    way("all", &["--check", "--capture", "*:1", "--snapshot", "--device-timing", "callback"]),
    way("replay", &["--replay=later"]),
    way("mix", &["--mix"]),
];

/// What `record` rightly says of a machine whose processor has no counters.
const ABOUT_MACHINE: &str = "clscope: warning: no perf events";

/// What a run looks like from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code, or 128 and the signal; none if it did not end.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it complained of.
    pub stderr: String,
}

impl Outcome {
    /// Whether an allocation failed that the device allows. What else runs on it decides that: such
    /// a run is compared with none.
    pub fn lacked_memory(&self) -> bool {
        self.stdout.lines().any(|line| line.ends_with(" no memory"))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => writeln!(out, "ended with {code}")?,
            None => writeln!(out, "did not end")?,
        }
        write!(out, "{}", self.stdout)?;
        if !self.stderr.is_empty() {
            write!(out, "--- stderr\n{}", self.stderr)?;
        }
        Ok(())
    }
}

/// Where programs are run.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Folder of `programs` and `programs_open`.
    pub fixtures: PathBuf,
    /// The command, beside its recorder.
    pub clscope: PathBuf,
    /// For files and traces, of this setting alone.
    pub scratch: PathBuf,
    /// Variables that choose the runtime.
    pub variables: Vec<(String, OsString)>,
    /// How long one run may take.
    pub limit: Duration,
}

impl Setting {
    /// Runs a batch; `None` is bare.
    ///
    /// # Panics
    /// If the scratch folder cannot be written, or a program cannot be started.
    pub fn run(&self, batch: &Batch, way: Option<Way>) -> Outcome {
        let file = self.scratch.join("programs.txt");
        std::fs::write(&file, batch.text()).expect("a file for the programs");
        self.run_file(&file, matches!(batch.life, "open" | "constructor" | "close"), way)
    }

    /// Runs a file of programs.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn run_file(&self, file: &Path, opened: bool, way: Option<Way>) -> Outcome {
        let program = self.fixtures.join(if opened { "programs_open" } else { "programs" });
        let trace = self.scratch.join("trace.clscope");
        let mut command = match way {
            None => Command::new(&program),
            Some(way) => {
                let mut command = Command::new(&self.clscope);
                command.args(["record", "-q", "-f", "-o"]).arg(&trace).args(way.options);
                command.arg("--").arg(&program);
                command
            }
        };
        command.arg(file).current_dir(&self.scratch).stdin(Stdio::null());
        for name in ["LD_PRELOAD", "LD_AUDIT", "OPENCL_LAYERS"] {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        // Files: what outlives the program must not keep this waiting.
        let streams = ["stdout", "stderr"].map(|name| self.scratch.join(name));
        let [out, err] =
            streams.clone().map(|path| File::create(path).expect("a file for what it prints"));
        command.stdout(out).stderr(err);
        let mut child = command.begin().limit(self.limit);
        let ended = child.wait();
        child.kill();
        let status = child.status();
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        let [stdout, mut stderr] = streams.map(|path| {
            String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
        });
        if way.is_some() {
            stderr = stderr
                .split_inclusive('\n')
                .filter(|line| !line.starts_with(ABOUT_MACHINE))
                .collect();
        }
        Outcome { code: ended.then_some(code).flatten(), stdout, stderr }
    }

    /// The bare outcome, if it is determined: `times` runs that end alike.
    ///
    /// # Errors
    /// Two runs that differ, or one that did not end, in words.
    pub fn bare(&self, batch: &Batch, times: usize) -> Result<Outcome, String> {
        let first = self.run(batch, None);
        if first.lacked_memory() {
            return Err("bare: the device had no memory left".to_owned());
        }
        // A runtime that fails by itself hides what comes after; 143 is SIGTERM.
        let sound = |code: i32| code == 0 || (9..13).contains(&code) || code == 143;
        if !first.code.is_some_and(sound) {
            return Err(format!("bare: {first}"));
        }
        for _ in 1..times {
            let again = self.run(batch, None);
            if again != first {
                return Err(difference("bare", &first, "bare again", &again));
            }
        }
        Ok(first)
    }
}

/// The lines in which two outcomes differ.
pub fn difference(name: &str, one: &Outcome, other_name: &str, other: &Outcome) -> String {
    let (one, other) = (one.to_string(), other.to_string());
    let (left, right): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    let mut text = String::new();
    let mut shown = 0;
    for n in 0..left.len().max(right.len()) {
        let pair = (left.get(n).copied().unwrap_or(""), right.get(n).copied().unwrap_or(""));
        if pair.0 != pair.1 && shown < 12 {
            shown += 1;
            text += &format!("  {name}: {}\n  {other_name}: {}\n", pair.0, pair.1);
        }
    }
    text
}
