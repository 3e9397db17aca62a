//! Owns meta.json: what was run, when, with what, and how it ended. Written whole under a temporary
//! name and renamed. Refuses to hold anything that readers need to decode the trace: the files of
//! each process explain themselves.
#![forbid(unsafe_code)]

use crate::error::{Attempt, CaptureError};
use clscope_io::output::{Access, create_new};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

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
        Self {
            realtime_ns: clscope_clock::realtime().0,
            monotonic_raw_ns: clscope_clock::monotonic_raw().0,
        }
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
    /// Boot id: traces with the same one share a clock.
    pub boot_id: String,
    /// Processor architecture.
    pub architecture: &'static str,
}

impl Host {
    /// This one. What cannot be read is empty.
    pub fn this() -> Self {
        let read = |path: &str| {
            std::fs::read_to_string(path).map(|s| s.trim().to_owned()).unwrap_or_default()
        };
        Self {
            name: clscope_readings::host::name(),
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
    pub settings: BTreeMap<String, String>,
    /// Variables by which OpenCL's loaders, runtimes and devices are chosen
    /// ([`OF_OPENCL`](crate::environment::OF_OPENCL)), as far as they were set: what is measured later
    /// of captured launches is measured under the same.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The machine.
    pub host: Host,
    /// Before the application was started.
    pub start: Moment,
    /// After the last process of the trace ended; absent while it runs, and for ever if `clscope
    /// record` was killed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<Moment>,
    /// How the application ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Ids of processes that went on recording after the application ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub still_running: Vec<u32>,
    /// How GPU power is to be formed, if the user said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_power: Option<String>,
    /// What was calibrated on this host before (`clscope doctor --calibrate`); reports take the
    /// span bias from here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<serde_json::Value>,
    /// Why the recorder could not be expected to see the application.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub obstacles: Vec<String>,
}

/// The file in a trace directory. Room for its last version is taken at once, since an application
/// may fill the disk.
#[derive(Debug)]
pub struct MetaFile {
    directory: PathBuf,
    reserved: Option<PathBuf>,
}

/// More than any but the longest command lines need.
const RESERVED_BYTES: usize = 4096;

impl MetaFile {
    /// Writes the first version and reserves the room for the last.
    ///
    /// # Errors
    /// If the directory does not take files: then nothing can be recorded there.
    pub fn create(directory: &Path, meta: &Meta) -> Result<Self, CaptureError> {
        let mut file = Self { directory: directory.to_path_buf(), reserved: None };
        if let Err(error) = file.write(meta) {
            // A directory made for nothing would only be in the way.
            let _ = std::fs::remove_dir(directory);
            return Err(error);
        }
        let path = directory.join(format!(".meta.json.{}", std::process::id()));
        let reserved = create_new(&path, Access::within(directory))
            .and_then(|mut file| file.write_all(&[b'\n'; RESERVED_BYTES]));
        file.reserved = reserved.is_ok().then_some(path);
        Ok(file)
    }

    /// Writes a version: whole, or the one before stays.
    ///
    /// # Errors
    /// If the directory does not take it.
    pub fn write(&mut self, meta: &Meta) -> Result<(), CaptureError> {
        let path = self.directory.join("meta.json");
        let reserved = self.reserved.take();
        let temporary = reserved
            .clone()
            .unwrap_or_else(|| self.directory.join(format!(".meta.json.{}", std::process::id())));
        let write = || -> std::io::Result<()> {
            let mut text = serde_json::to_vec_pretty(meta)?;
            text.push(b'\n');
            // Written over what is reserved, not after cutting it, which would give the room away.
            let mut file = match &reserved {
                Some(path) => OpenOptions::new()
                    .write(true)
                    .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                    .open(path)?,
                None => create_new(&temporary, Access::within(&self.directory))?,
            };
            file.write_all(&text)?;
            file.set_len(text.len() as u64)?;
            std::fs::rename(&temporary, &path)
        };
        write().attempt(|| {
            let _ = std::fs::remove_file(&temporary);
            format!("cannot write {}", path.display())
        })
    }

    /// Takes back what was written, after an application that could not be started.
    pub fn discard(self) {
        let _ = self.reserved.map(std::fs::remove_file);
        let _ = std::fs::remove_file(self.directory.join("meta.json"))
            .and_then(|()| std::fs::remove_dir(&self.directory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_replace_each_other_and_leave_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.clscope");
        std::fs::create_dir(&path).unwrap();
        let mut meta = Meta {
            format: (1, 0),
            clscope: "0",
            command: vec!["x".repeat(3 * RESERVED_BYTES)],
            program: String::new(),
            directory: String::new(),
            injection: Vec::new(),
            settings: std::collections::BTreeMap::new(),
            environment: BTreeMap::new(),
            host: Host::this(),
            start: Moment::now(),
            end: None,
            exit: None,
            still_running: Vec::new(),
            gpu_power: None,
            calibration: Vec::new(),
            obstacles: Vec::new(),
        };
        let mut file = MetaFile::create(&path, &meta).unwrap();
        let read = || {
            serde_json::from_slice::<serde_json::Value>(
                &std::fs::read(path.join("meta.json")).unwrap(),
            )
            .unwrap()
        };
        assert_eq!(read()["command"][0].as_str().map(str::len), Some(3 * RESERVED_BYTES));
        meta.command = vec!["short".into()];
        meta.exit = Some(Exit::Code(3));
        file.write(&meta).unwrap();
        assert_eq!(
            (read()["command"][0].as_str(), read()["exit"]["code"].as_u64()),
            (Some("short"), Some(3))
        );
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 1);
        MetaFile::create(&path, &meta).unwrap().discard();
        assert!(!path.exists());
    }
}
