//! A folder of a test's own, the ways in which the recorder is brought into a program there, and
//! the runtimes that programs are run on.
#![forbid(unsafe_code)]

use crate::{Finished, Recorded, Run, artifacts};
use clscope_testing::{Limited, Watch};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How the recorder comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Not at all.
    Bare,
    /// `LD_PRELOAD`.
    Preload,
    /// `OPENCL_LAYERS`.
    Layer,
    /// `LD_PRELOAD` and `LD_AUDIT`.
    Audit,
    /// `clscope record`.
    Record,
}

impl Mode {
    /// Every way that records.
    pub const RECORDING: [Mode; 4] = [Mode::Preload, Mode::Layer, Mode::Audit, Mode::Record];
    /// The ways that see an application that opens its loader by `dlopen`.
    pub const DLOPEN: [Mode; 3] = [Mode::Layer, Mode::Audit, Mode::Record];
}

/// Path of the system's OpenCL loader. By its name alone, `dlopen` gives any library of that name
/// that is loaded already.
///
/// # Panics
/// Where none is installed.
pub fn system_loader() -> String {
    let listed = Command::new("/sbin/ldconfig").arg("-p").ended().stdout;
    let listed = String::from_utf8_lossy(&listed);
    let found =
        listed.lines().filter(|l| l.contains("libOpenCL.so.1 ")).find_map(|l| l.split_once("=> "));
    found.expect("libOpenCL.so.1 is installed").1.trim().to_owned()
}

/// The OpenCL that programs find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Runtime {
    /// PoCL through the system's loader.
    Pocl,
    /// Intel's runtime for CPUs through the system's loader; the path is its .icd file.
    Intel(PathBuf),
    /// The fake library in the loader's place.
    FakeLoader,
    /// The fake library as a driver of the system's loader.
    FakeDriver,
}

impl Runtime {
    /// PoCL, and Intel's runtime where `CLSCOPE_TEST_INTEL_ICD` names its .icd file.
    pub fn real() -> Vec<Runtime> {
        let mut out = vec![Runtime::Pocl];
        out.extend(Runtime::intel());
        out
    }

    /// Intel's runtime, if it is installed.
    pub fn intel() -> Option<Runtime> {
        let icd =
            std::env::var_os("CLSCOPE_TEST_INTEL_ICD").map(PathBuf::from).filter(|p| p.is_file());
        if icd.is_none() {
            crate::skip("Intel's CPU runtime: CLSCOPE_TEST_INTEL_ICD names no file", true);
        }
        icd.map(Runtime::Intel)
    }

    /// Lets a program find it.
    pub fn select(&self, run: Run) -> Run {
        let fixtures = &artifacts().fixtures;
        let cache = artifacts().cache.display().to_string();
        let run = run.env("POCL_CACHE_DIR", format!("{cache}/pocl"));
        match self {
            Runtime::Pocl => run.env("OCL_ICD_VENDORS", "/etc/OpenCL/vendors/pocl.icd"),
            Runtime::Intel(icd) => run.env("OCL_ICD_VENDORS", icd),
            Runtime::FakeLoader => run.env("LD_LIBRARY_PATH", fixtures.join("fake")),
            Runtime::FakeDriver => run.env("OCL_ICD_VENDORS", fixtures.join("fake/fake.icd")),
        }
    }
}

/// A folder in which programs run and leave traces.
#[derive(Debug)]
pub struct Stage {
    folder: tempfile::TempDir,
    /// The runtime of its programs.
    pub runtime: Runtime,
    _watch: Watch,
}

impl Stage {
    /// A new folder. The test that makes it has a limited time from then on.
    ///
    /// # Panics
    /// If the system gives none.
    pub fn new(runtime: Runtime) -> Self {
        // Built first: that takes longer than a test may.
        artifacts();
        let folder = tempfile::tempdir().expect("a folder for the test");
        Self { folder, runtime, _watch: Watch::test() }
    }

    /// Another limit for the whole test than [`TEST_LIMIT`](clscope_testing::watch::TEST_LIMIT).
    pub fn limit(&mut self, seconds: u64) {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        self._watch = Watch::new(&name, Duration::from_secs(seconds));
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// A path in the folder.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A program with the recorder brought in by `mode`, which writes to the trace `NAME.clscope`
    /// of the folder.
    pub fn program(&self, mode: Mode, name: &str, program: impl AsRef<OsStr>) -> Run {
        let a = artifacts();
        let trace = self.trace(name);
        let run = match mode {
            Mode::Record => Run::new(a.clscope(), self.path())
                .args(["record", "-q", "-f", "-o"])
                .arg(&trace)
                .arg("--")
                .arg(program),
            _ => Run::new(program, self.path()),
        };
        // Complete timing: what the default method leaves out depends on what the machine can
        // afford.
        let run = self.runtime.select(run).env("CLSCOPE_DEVICE_TIMING", "event");
        match mode {
            Mode::Bare | Mode::Record => run,
            Mode::Preload => run.env("LD_PRELOAD", a.recorder()).env("CLSCOPE_TRACE", trace),
            Mode::Layer => run.env("OPENCL_LAYERS", a.recorder()).env("CLSCOPE_TRACE", trace),
            Mode::Audit => run
                .env("LD_PRELOAD", a.recorder())
                .env("LD_AUDIT", a.shim())
                .env("CLSCOPE_TRACE", trace),
        }
    }

    /// A fixture by name, with arguments after it: `"threads short 100"`.
    pub fn app(&self, mode: Mode, name: &str, line: &str) -> Run {
        let mut words = line.split_whitespace();
        let program = words.next().expect("a fixture's name");
        self.program(mode, name, artifacts().fixture(program)).args(words)
    }

    /// Runs a fixture and reads its trace.
    ///
    /// # Panics
    /// If there is no trace.
    #[track_caller]
    pub fn record(&self, mode: Mode, line: &str) -> (Finished, Recorded) {
        self.forget("t");
        let trace = self.trace("t");
        let finished = self.app(mode, "t", line).run();
        assert!(
            trace.is_dir(),
            "{mode:?} {line}: no trace\n--- stdout\n{}--- stderr\n{}",
            finished.stdout,
            finished.stderr
        );
        let recorded = Recorded::read(&[&trace]);
        (finished, recorded)
    }

    /// Path of the trace of that name.
    pub fn trace(&self, name: &str) -> PathBuf {
        self.join(&format!("{name}.clscope"))
    }

    /// Takes away the trace of that name.
    ///
    /// # Panics
    /// If that fails.
    pub fn forget(&self, name: &str) {
        let trace = self.trace(name);
        if trace.exists() {
            std::fs::remove_dir_all(trace).expect("remove the trace of an earlier run");
        }
    }

    /// The command, with arguments, and room for all columns and names.
    pub fn clscope<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Run {
        let run = Run::new(artifacts().clscope(), self.path()).env("COLUMNS", "1000");
        self.runtime.select(run).args(arguments)
    }
    /// A run of `clscope-lab`, with binaries of kernels in the stage's own folder.
    pub fn lab<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Run {
        let run = Run::new(artifacts().lab(), self.path()).env("COLUMNS", "1000");
        let run = run.env("XDG_CACHE_HOME", self.join("cache"));
        self.runtime.select(run).args(arguments)
    }
}
