//! What the tests of the command share: a folder of their own, tiny C programs, a stand-in for the
//! recorder, and the command itself. The stand-in is an empty library: these tests are about
//! `clscope`, not about what is recorded.
#![allow(dead_code)] // each test file uses its own part

use clscope_analysis::testing::ProcessBuilder;
use clscope_testing::Limited;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes a synthetic process as the recorder leaves it.
pub fn save(builder: &ProcessBuilder, directory: &Path) {
    let bytes = builder.build();
    std::fs::create_dir_all(directory).unwrap();
    let file = |ending: &str| directory.join(format!("{}-0.{ending}", builder.pid));
    std::fs::write(file("defs"), bytes.defs).unwrap();
    std::fs::write(file("0.clt"), bytes.segment).unwrap();
    if !bytes.ring.is_empty() {
        std::fs::write(file("ring"), bytes.ring).unwrap();
    }
}

/// A folder with a stand-in recorder in it.
pub struct Stage {
    folder: tempfile::TempDir,
}

impl Stage {
    pub fn new() -> Self {
        let stage = Self { folder: tempfile::tempdir().unwrap() };
        stage.compile("lib/libclscope.so", "void clscope_stand_in(void) {}", &["-shared", "-fPIC"]);
        stage
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Compiles a C program or library into the folder.
    pub fn compile(&self, name: &str, source: &str, flags: &[&str]) -> PathBuf {
        let target = self.join(name);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        let file = self.join(&format!("{}.c", name.replace('/', "_")));
        std::fs::write(&file, source).unwrap();
        let output = Command::new("gcc")
            .args(["-O1", "-Wall", "-o"])
            .arg(&target)
            .arg(&file)
            .args(flags)
            .ended();
        assert!(output.status.success(), "gcc: {}", String::from_utf8_lossy(&output.stderr));
        target
    }

    /// The command, in the folder, with the stand-in as recorder and nothing of the caller's
    /// environment that matters.
    pub fn clscope(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clscope"));
        command.current_dir(self.path()).env("CLSCOPE_LIBRARY", self.join("lib/libclscope.so"));
        // Calibrations of the machine that runs the tests would show in reports.
        command.env("CLSCOPE_CALIBRATION", self.join("calibration.json"));
        for name in [
            "LD_PRELOAD",
            "LD_AUDIT",
            "OPENCL_LAYERS",
            "GLIBC_TUNABLES",
            "CLSCOPE_TRACE",
            "CLSCOPE_ENABLE",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// `clscope record ARGUMENTS`, run to its end.
    pub fn record(&self, arguments: &[&str]) -> Output {
        self.clscope().arg("record").args(arguments).ended()
    }

    /// The traces in the folder.
    pub fn traces(&self) -> Vec<PathBuf> {
        let mut found: Vec<_> = std::fs::read_dir(self.path())
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|p| p.extension().is_some_and(|e| e == "clscope"))
            .collect();
        found.sort();
        found
    }

    /// meta.json of a trace in the folder.
    pub fn meta(&self, trace: &str) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.join(trace).join("meta.json")).unwrap()).unwrap()
    }
}

/// Runs a command to its end. A document that it prints keeps to its committed schema.
#[track_caller]
pub fn ended(command: &mut Command) -> Output {
    let output = command.ended();
    let breaches = clscope_testing::schema::text_breaches(&String::from_utf8_lossy(&output.stdout));
    assert!(breaches.is_empty(), "{command:?} breaks its schema: {breaches:#?}");
    output
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
