//! A file of sensors' records while it is written: the header, then blocks, each appended whole.
//! Refuses to stop anything when a write fails: it keeps the reason and goes on without the file.

use crate::host;
use clscope_io::output::{Access, create_new};
use clscope_trace::file::{Clock, FileHeader, FileKind};
use clscope_trace::sensors;
use std::io::{Result, Write};
use std::path::Path;

/// The file.
pub struct Blocks {
    file: Option<Box<dyn Write + Send>>,
    sequence: u32,
    failed: Option<std::io::Error>,
}

impl Blocks {
    /// Makes the file, which must not be there, as private as its directory.
    ///
    /// # Errors
    /// If it cannot be made or begun.
    pub fn create(path: &Path) -> Result<Self> {
        let access = Access::within(path.parent().unwrap_or(Path::new(".")));
        Self::over(Box::new(create_new(path, access)?))
    }

    /// Begins a file behind a writer, each of whose calls appends whole.
    ///
    /// # Errors
    /// If the header cannot be made or written.
    pub fn over(mut file: Box<dyn Write + Send>) -> Result<Self> {
        let header = FileHeader {
            version: clscope_trace::VERSION,
            kind: FileKind::Sensors,
            pid: std::process::id(),
            ppid: std::os::unix::process::parent_id(),
            // Unknown without /proc.
            pid_ns: host::pid_namespace().unwrap_or(0),
            incarnation: 0,
            segment: 0,
            clock: Clock::MonotonicRaw,
            host: host::machine_id(),
            boot: host::boot_id(),
            created: clscope_clock::monotonic_raw().0,
        };
        file.write_all(&header.encode())?;
        Ok(Self { file: Some(file), sequence: 0, failed: None })
    }

    /// Appends encoded records as one block, by one call, so that a kill leaves whole blocks.
    pub fn append(&mut self, records: &[u8]) {
        let Some(file) = self.file.as_mut().filter(|_| !records.is_empty()) else { return };
        if let Err(error) = file.write_all(&sensors::block(self.sequence, records)) {
            self.file = None;
            self.failed = Some(error);
        }
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Why nothing more is written, if that is so.
    pub fn failure(&self) -> Option<&std::io::Error> {
        self.failed.as_ref()
    }
}
