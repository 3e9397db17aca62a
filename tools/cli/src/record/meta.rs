//! Owns meta.json: what was run, when, with what, and how it ended. Written whole under a temporary name and renamed.
//! Refuses to hold anything that readers need to decode the trace: the files of each process explain themselves.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use serde::Serialize;
use std::path::Path;

/// Both clocks at one moment, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Moment {
    /// CLOCK_REALTIME.
    pub realtime_ns: u64,
    /// CLOCK_MONOTONIC_RAW.
    pub monotonic_raw_ns: u64,
}

impl Moment {
    /// Now.
    pub fn now() -> Self {
        Self { realtime_ns: clscope_clock::realtime().0, monotonic_raw_ns: clscope_clock::monotonic_raw().0 }
    }
}

/// How the application ended.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Exit code.
    Code(u8),
    /// Signal.
    Signal {
        /// Its number.
        number: i32,
        /// Its name.
        name: String,
    },
}

/// The machine.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Kernel release.
    pub kernel: String,
    /// Boot id, to tell which traces share a clock.
    pub boot_id: String,
    /// Processor architecture.
    pub architecture: &'static str,
}

impl Host {
    /// This one. What cannot be read is empty.
    pub fn this() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).map(|s| s.trim().to_owned()).unwrap_or_default();
        Self {
            name: crate::system::host_name(),
            kernel: read("/proc/sys/kernel/osrelease"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            architecture: std::env::consts::ARCH,
        }
    }
}

/// The file's content.
#[derive(Debug, Clone, Serialize)]
pub struct Meta {
    /// Version of the trace format, major and minor.
    pub format: (u16, u16),
    /// Version of this command.
    pub clscope: &'static str,
    /// APP and its arguments.
    pub command: Vec<String>,
    /// The file that was executed.
    pub program: String,
    /// Working directory.
    pub directory: String,
    /// Ways in which the recorder was brought in.
    pub injection: Vec<&'static str>,
    /// Settings of the recorder, as set for it.
    pub settings: std::collections::BTreeMap<String, String>,
    /// The machine.
    pub host: Host,
    /// Before the application was started.
    pub start: Moment,
    /// After the last process of the trace ended; absent while it runs, and for ever if `clscope record` was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Moment>,
    /// How the application ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Ids of processes that went on recording after the application ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub still_running: Vec<u32>,
    /// Why the recorder could not be expected to see the application.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<String>,
}

impl Meta {
    /// Writes it into the trace directory.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let (temporary, path) = (directory.join(format!(".meta.json.{}", std::process::id())), directory.join("meta.json"));
        let write = || -> std::io::Result<()> {
            let mut text = serde_json::to_vec_pretty(self)?;
            text.push(b'\n');
            std::fs::write(&temporary, text)?;
            std::fs::rename(&temporary, &path)
        };
        write().with_context(|| {
            let _ = std::fs::remove_file(&temporary);
            format!("cannot write {}", path.display())
        })
    }
}
