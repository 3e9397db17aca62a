//! Pauses and resumes recording in running processes, through the control word of their ring files,
//! and brings what they recorded to the disk. The application gets no signal and runs no code of
//! clscope's for it: its next OpenCL call sees the word. Refuses to print.
#![forbid(unsafe_code)]

use crate::error::{Attempt, CaptureError};
use crate::running::{parent, processes};
use clscope_io::output::{Access, create_new};
use clscope_io::{input, mapped};
use clscope_trace::directory::Role;
use clscope_trace::ring_file::control;
use clscope_trace::{FileHeader, FileKind};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlCommand {
    /// Record from the next OpenCL call on.
    Start,
    /// Pass calls on without recording them.
    Stop,
    /// Write everything recorded so far to the disk, so that it survives a crash of the machine.
    Flush,
    /// Report what is being recorded.
    Status,
}

/// How a process stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It records.
    Recording,
    /// It passes calls on.
    Paused,
    /// It has ended: its control word is not read.
    Ended,
}

impl State {
    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Paused => "paused",
            Self::Ended => "ended",
        }
    }
}

/// Sets the control word of one ring file, and returns the state of its process.
pub fn apply(ring: &Path, command: ControlCommand) -> Result<State, CaptureError> {
    let change = matches!(command, ControlCommand::Start | ControlCommand::Stop);
    // Only what is looked at is written to: a ring file, no link to another file, no device.
    let opened = || format!("cannot open {}", ring.display());
    input::open_inside(ring).attempt(opened)?;
    let file = OpenOptions::new()
        .read(true)
        .write(change)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(ring)
        .attempt(opened)?;
    let mut head = [0u8; control::WORD + 4];
    file.read_exact_at(&mut head, 0).attempt(|| "its ring file is shorter than a header")?;
    let header = FileHeader::decode_as(&head[..control::WORD], FileKind::Ring)
        .map_err(|source| CaptureError::Ring { path: ring.to_owned(), source })?;
    if !is_alive(&header, &file) {
        return Ok(State::Ended);
    }
    let word = u32::from_le_bytes([head[128], head[129], head[130], head[131]]);
    let was_paused = word & control::PAUSED != 0;
    let next = match command {
        ControlCommand::Stop => control::PAUSED,
        ControlCommand::Start if was_paused => control::RESUMED,
        _ => return Ok(if was_paused { State::Paused } else { State::Recording }),
    };
    // One aligned store for everybody who has the page mapped.
    file.write_all_at(&next.to_le_bytes(), control::WORD as u64)
        .attempt(|| format!("cannot write {}", ring.display()))?;
    Ok(if next == control::PAUSED { State::Paused } else { State::Recording })
}

/// Whether the process that made a ring file still has it mapped. Where that cannot be seen
/// (another namespace, another user), it counts as running: a control word that is not read does no
/// harm.
fn is_alive(header: &FileHeader, ring: &File) -> bool {
    mapped::has(header.pid, header.pid_ns, ring).unwrap_or(true)
}

/// What processes of a trace begin with that come later.
pub fn tell_later_ones(trace: &Path, command: ControlCommand) -> Result<(), CaptureError> {
    let text = if command == ControlCommand::Stop {
        control::BEGIN_PAUSED
    } else {
        control::BEGIN_RECORDING
    };
    let path = trace.join(control::FILE);
    let temporary = trace.join(format!(".{}.{}", control::FILE, std::process::id()));
    // Readers see all of it or nothing.
    let written = create_new(&temporary, Access::within(trace))
        .and_then(|mut file| writeln!(file, "{text}"))
        .and_then(|()| fs::rename(&temporary, &path));
    written.attempt(|| {
        format!("cannot write {}: processes yet to come would not know", path.display())
    })
}

/// Writes the files of a ring's process to the disk, and returns what was written.
pub fn flush(ring: &Path) -> Result<String, CaptureError> {
    let directory = ring.parent().unwrap_or(Path::new("."));
    let stem = ring.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let (mut files, mut bytes) = (0, 0);
    for path in entries(directory)? {
        let role = path.file_name().and_then(|n| n.to_str()).and_then(Role::from_name);
        let Some(role) = role.filter(|r| r.stem().is_none_or(|s| s == stem)) else { continue };
        // A segment may have gone since it was listed (--max-size).
        let Ok(file) = input::open_inside(&path) else { continue };
        // Pages that a process has mapped and changed belong to the file like all others.
        file.sync_all()
            .attempt(|| format!("{} could not be brought to the disk", path.display()))?;
        files += usize::from(role.stem().is_some());
        bytes += file.metadata().map_or(0, |m| m.len());
    }
    // Names of new files are in the directory.
    File::open(directory)
        .and_then(|d| d.sync_all())
        .attempt(|| format!("{} could not be brought to the disk", directory.display()))?;
    let size = clscope_io::text::bytes(bytes as f64);
    Ok(format!("{size} in {files} files on the disk"))
}

/// The ring files of a trace.
pub fn rings_in(trace: &Path) -> Result<Vec<PathBuf>, CaptureError> {
    let mut found: Vec<PathBuf> = entries(trace)?
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "ring"))
        .collect();
    if found.is_empty() {
        return Err(refused!(
            "{} holds no ring file: no process has recorded into it yet, or it could not map files",
            trace.display()
        ));
    }
    found.sort();
    Ok(found)
}

/// The ring files of a process: those it has mapped, wherever they are, else those of the processes
/// that it started (as `clscope record` does), else those named after it in traces here.
pub fn rings_of(pid: u32) -> Result<Vec<PathBuf>, CaptureError> {
    let maps = mapped::files(pid).unwrap_or_default();
    let is_ring = |path: &Path| path.extension().is_some_and(|e| e == "ring") && path.exists();
    let rings = |maps: &[(u64, PathBuf)]| -> Vec<PathBuf> {
        maps.iter().map(|(_, path)| path.clone()).filter(|path| is_ring(path)).collect()
    };
    let mut found = rings(&maps);
    if found.is_empty() && !maps.is_empty() {
        let started = descendants(pid).into_iter();
        found = started.flat_map(|pid| rings(&mapped::files(pid).unwrap_or_default())).collect();
    }
    if found.is_empty() {
        let prefix = format!("{pid}-");
        let traces = entries(Path::new("."))?
            .into_iter()
            .filter(|p| p.extension().is_some_and(|e| e == "clscope"));
        for path in traces.filter_map(|t| entries(&t).ok()).flatten() {
            let named = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix));
            if named && path.extension().is_some_and(|e| e == "ring") {
                found.push(path);
            }
        }
    }
    found.sort();
    found.dedup();
    if found.is_empty() {
        let why = if maps.is_empty() {
            "is not running, or belongs to another user"
        } else {
            "has made no OpenCL call under the recorder yet"
        };
        return Err(refused!(
            "process {pid} {why}, and no trace in this directory is of it: name its trace directory"
        ));
    }
    Ok(found)
}

/// The processes that a process started, and those that these did.
fn descendants(of: u32) -> Vec<u32> {
    let parents: Vec<(u32, u32)> =
        processes().filter_map(|pid| Some((pid, parent(pid)?))).collect();
    let mut out = vec![of];
    let mut at = 0;
    while let Some(parent) = out.get(at).copied() {
        let new = parents.iter().filter(|(pid, of)| *of == parent && !out.contains(pid));
        let new: Vec<u32> = new.map(|(pid, _)| *pid).collect();
        out.extend(new);
        at += 1;
    }
    out.split_off(1)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>, CaptureError> {
    let list = fs::read_dir(directory)
        .attempt(|| format!("cannot read the directory {}", directory.display()))?;
    Ok(list.filter_map(|e| e.ok().map(|e| e.path())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_that_record_nothing_are_told_with_the_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let error = |e: CaptureError| clscope_io::text::chain(&e);
        assert!(error(rings_in(folder.path()).unwrap_err()).contains("no process has recorded"));
        assert!(
            error(rings_in(&folder.path().join("none")).unwrap_err())
                .contains("cannot read the directory")
        );
        assert!(error(rings_of(std::process::id()).unwrap_err()).contains("no OpenCL call"));
        assert!(error(rings_of(u32::MAX).unwrap_err()).contains("not running"));
    }

    #[test]
    fn a_ring_that_nobody_maps_is_of_an_ended_process() {
        let folder = tempfile::tempdir().unwrap();
        let ring = folder.path().join("1-0.ring");
        let header = FileHeader {
            version: clscope_trace::VERSION,
            kind: FileKind::Ring,
            pid: std::process::id(),
            ppid: 0,
            pid_ns: 0,
            incarnation: 0,
            segment: 0,
            clock: clscope_trace::Clock::MonotonicRaw,
            host: [0; 16],
            boot: [0; 16],
            created: 0,
        };
        let mut bytes = header.encode().to_vec();
        bytes.resize(4096, 0);
        fs::write(&ring, &bytes).unwrap();
        for command in [ControlCommand::Status, ControlCommand::Stop, ControlCommand::Start] {
            assert_eq!(apply(&ring, command).unwrap(), State::Ended);
        }
        // Another namespace's process cannot be seen: its word is set.
        let header = FileHeader { pid_ns: 1, ..header };
        bytes[..128].copy_from_slice(&header.encode()[..128]);
        fs::write(&ring, &bytes).unwrap();
        assert_eq!(apply(&ring, ControlCommand::Status).unwrap(), State::Recording);
        assert_eq!(apply(&ring, ControlCommand::Stop).unwrap(), State::Paused);
        assert_eq!(apply(&ring, ControlCommand::Status).unwrap(), State::Paused);
        assert_eq!(apply(&ring, ControlCommand::Start).unwrap(), State::Recording);
        assert!(flush(&ring).unwrap().contains("1 files"));
        fs::write(&ring, [0; 64]).unwrap();
        assert!(apply(&ring, ControlCommand::Status).is_err());
    }
}
