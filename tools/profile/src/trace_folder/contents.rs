//! What a trace directory holds, counted without interpreting it: how much was recorded, what the
//! recorder warned of. Refuses to analyse: see [`crate::report`].

use crate::captures::{self, Captures, Collector, Launches};
use clscope_io::{input::open_inside, map};
use clscope_trace::defs::{Def, Defs};
use clscope_trace::directory::{self, Role};
use clscope_trace::stream::{Blocks, Rings};
use clscope_trace::{FileHeader, FileKind, Record};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

/// More bytes than this are not counted: a second of reading after each run would be felt.
const COUNTED_BYTES: u64 = 1 << 29;

/// What a trace directory holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Processes with definitions.
    pub processes: u64,
    /// Processes that made OpenCL calls and whose trace could not be written.
    pub without_trace: u64,
    /// Host calls, commands included; `None` where the trace is too large to count at once.
    pub calls: Option<u64>,
    /// Commands.
    pub commands: u64,
    /// Commands with device times.
    pub timed: u64,
    /// Records that were dropped.
    pub dropped: u64,
    /// Launches that were captured, or why not.
    pub captures: Captures,
    /// Bytes of all files.
    pub bytes: u64,
    /// The recorder's warnings: text by code, and how often the code came.
    pub warnings: BTreeMap<String, (String, u64)>,
    /// Files that could not be read, with the reason.
    pub unreadable: Vec<String>,
    /// Processes that end without having said so, and their pid namespace.
    pub unended: Vec<(u32, u64)>,
}

/// Looks into a trace directory.
pub fn contents(directory: &Path) -> Contents {
    let mut found = Contents { bytes: size(directory), ..Contents::default() };
    let mut files = match directory::list(directory) {
        Ok(files) => files,
        Err(e) => {
            found.unreadable.push(format!("{}: {e}", directory.display()));
            Vec::new()
        }
    };
    let programs = crate::programs::files(directory).unwrap_or_default();
    let bytes = |(_, path): &(String, PathBuf)| std::fs::metadata(path).map_or(0, |m| m.len());
    found.bytes += programs.iter().map(bytes).sum::<u64>();
    for (_, folder) in captures::folders(directory).unwrap_or_default() {
        let files = captures::files(&folder).unwrap_or_default();
        found.bytes += files.iter().map(bytes).sum::<u64>();
    }
    let mut captures = Collector::default();
    // Segments before rings: a block that moved from one to the other is whole in the segment.
    files.sort_by_key(|(_, role)| matches!(role, Role::Ring(_)));
    let length = |name: &str| {
        let meta = directory.join(name).symlink_metadata();
        meta.ok().filter(std::fs::Metadata::is_file).map_or(0, |m| m.len())
    };
    let empty = |name: &str| {
        let meta = directory.join(name).symlink_metadata();
        meta.is_ok_and(|m| m.is_file() && m.len() == 0)
    };
    let refused = files.iter().filter(|(name, role)| matches!(role, Role::Defs(_)) && empty(name));
    found.without_trace = refused.count() as u64;
    let data = files.iter().filter(|(_, role)| !matches!(role, Role::Defs(_)));
    let small = data.map(|(name, _)| length(name)).sum::<u64>() <= COUNTED_BYTES;
    found.calls = small.then_some(0);
    // Blocks of a process in segments, so that a ring's copy is not counted again.
    let mut seen: HashSet<(String, u32, u32)> = HashSet::new();
    // A part of a recording has fewer launches than the application made.
    let mut launches = Launches::new();
    let mut whole = small;
    for (name, role) in files.into_iter().filter(|(name, _)| length(name) > 0) {
        let (kind, process) = match role {
            Role::Defs(stem) => (FileKind::Defs, stem),
            Role::Segment(stem, _) => (FileKind::Segment, stem),
            Role::Ring(stem) => (FileKind::Ring, stem),
            Role::Sensors | Role::Meta => continue,
        };
        if kind != FileKind::Defs && !small {
            continue;
        }
        let path = directory.join(&name);
        let bytes = open_inside(&path).and_then(|file| match kind {
            FileKind::Segment => map::file(&file),
            _ => map::read(&file),
        });
        let bytes = match &bytes {
            Ok(bytes) => &bytes[..],
            Err(e) => {
                found.unreadable.push(format!("{name}: {e}"));
                continue;
            }
        };
        let header = match FileHeader::decode_as(bytes, kind) {
            Ok(header) => header,
            Err(e) => {
                found.unreadable.push(format!("{name}: {e}"));
                continue;
            }
        };
        let mut counts = BTreeMap::new();
        match kind {
            FileKind::Defs => {
                found.add_defs(bytes, &header, &process, &mut captures);
            }
            FileKind::Ring => {
                for ring in Rings::new(bytes) {
                    found.dropped = found.dropped.saturating_add(ring.dropped);
                    if !ring.block.payload.is_empty()
                        && seen.insert((process.clone(), ring.block.thread, ring.block.sequence))
                    {
                        for (_, record) in ring.block.records() {
                            found.add_record(&record);
                            whole &= count_launch(&mut counts, &record);
                        }
                    }
                }
            }
            _ => {
                for block in Blocks::new(bytes) {
                    if seen.insert((process.clone(), block.thread, block.sequence)) {
                        for (_, record) in block.records() {
                            found.add_record(&record);
                            whole &= count_launch(&mut counts, &record);
                        }
                    }
                }
            }
        }
        for (kernel, n) in counts {
            *launches.entry((process.clone(), kernel)).or_default() += n;
        }
    }
    whole &= found.dropped == 0 && found.unreadable.is_empty();
    found.captures = captures.finish(whole.then_some(&launches));
    found
}

/// Counts a launch by its kernel; whether the application's launches go on being recorded.
fn count_launch(counts: &mut BTreeMap<u32, u64>, record: &Record<'_>) -> bool {
    if let Record::Command(c) = record
        && c.result == 0
        && c.kind.is_kernel()
    {
        *counts.entry(c.object).or_default() += 1;
    }
    !matches!(record, Record::Paused(_))
}

/// Bytes of all files in a directory.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}

impl Contents {
    /// Takes up what a process defines.
    fn add_defs(
        &mut self,
        bytes: &[u8],
        header: &FileHeader,
        process: &str,
        captures: &mut Collector,
    ) {
        self.processes += 1;
        let mut ended = false;
        let (mut kernels, mut captured, mut settings) = (BTreeMap::new(), Vec::new(), Vec::new());
        for def in Defs::new(bytes) {
            match def {
                Def::Process(p) => settings = p.settings,
                Def::Kernel(k) => drop(kernels.insert(k.id, k.name)),
                Def::Capture(c) => captured.push(c),
                Def::Exit(_) => ended = true,
                Def::Warning(w) => self.warnings.entry(w.code).or_insert((w.text, 0)).1 += 1,
                _ => {}
            }
        }
        let shown = |id: u32| kernels.get(&id).cloned().unwrap_or_else(|| format!("kernel {id}"));
        let named = kernels.iter().map(|(id, name)| (*id, name.clone()));
        captures.process(process, &settings, named, &captured, shown);
        if !ended {
            self.unended.push((header.pid, header.pid_ns));
        }
    }

    fn add_record(&mut self, record: &Record<'_>) {
        match record {
            Record::Plain { .. } | Record::Call { .. } => *self.calls.get_or_insert(0) += 1,
            Record::Run(run) => {
                let calls = self.calls.get_or_insert(0);
                *calls = calls.saturating_add(u64::from(run.count));
            }
            Record::Command(c) => {
                *self.calls.get_or_insert(0) += 1;
                // A call that failed enqueued nothing.
                self.commands += u64::from(c.result == 0);
            }
            Record::Timing { .. } | Record::ReadTiming { .. } => self.timed += 1,
            Record::Dropped { count, .. } => self.dropped = self.dropped.saturating_add(*count),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_missing_directory_has_no_processes() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(contents(folder.path()), Contents { calls: Some(0), ..Contents::default() });
        assert_eq!(contents(&folder.path().join("none")).unreadable.len(), 1);
    }

    #[test]
    fn a_process_whose_definitions_could_not_be_written_is_counted_apart() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("1-0.defs"), "").unwrap();
        let found = contents(folder.path());
        assert_eq!((found.processes, found.without_trace), (0, 1));
        assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
    }

    #[test]
    fn foreign_files_are_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("1-0.defs"), "not a trace").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "x").unwrap();
        let found = contents(folder.path());
        assert_eq!((found.processes, found.unreadable.len()), (0, 1));
        assert!(
            found.unreadable[0].starts_with("1-0.defs: not a clscope trace"),
            "{:?}",
            found.unreadable
        );
    }
}
