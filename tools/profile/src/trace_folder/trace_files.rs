//! Owns finding the files of traces, and hands their bytes to the analysis. Refuses to decode
//! records.

use crate::calibration;
use crate::error::OpenError;
use crate::live_ring;
use crate::measured::{self, MEASURED, Measured};
use clscope_analysis::Trace;
use clscope_analysis::input::{File, ProcessFiles};
use clscope_analysis::issue::{Issue, IssueKind};
use clscope_io::map::{self, Bytes};
use clscope_io::{input, mapped};
use clscope_readings::host;
use clscope_trace::defs::{Anchor, Def, Defs};
use clscope_trace::directory::{self, EXTENSION, Role, as_recorded};
use clscope_trace::file::HEADER_LEN;
use clscope_trace::{Clock, FileHeader, FileKind};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Most bytes of a `meta.json`: it holds a command line and calibrations.
const META: u64 = 16 << 20;
#[derive(Default)]
struct ProcessMaps {
    label: String,
    defs: Option<(String, Bytes)>,
    segments: Vec<(String, Bytes)>,
    ring: Option<(String, Bytes)>,
    issues: Vec<IssueKind>,
}

/// One trace directory, mapped.
#[derive(Default)]
pub struct Directory {
    /// Its path as the user named it, or as it was found.
    pub path: PathBuf,
    /// Contents of `meta.json`, if there is one that can be read.
    pub meta: Option<serde_json::Value>,
    processes: Vec<ProcessMaps>,
    sensors: Vec<(String, Bytes)>,
    /// What was measured of its captured launches, oldest first.
    measured: Vec<Measured>,
    /// Files of no process that are there and could not be read, and parts of them: role, name and
    /// why.
    unread: Vec<(Option<Role>, String, String)>,
}

/// Traces opened for reading; keeps the files mapped.
pub struct TraceFiles {
    /// The directories in the order given.
    pub directories: Vec<Directory>,
}

impl TraceFiles {
    /// Opens the traces named, or the newest of the working directory if none is.
    ///
    /// # Errors
    /// If a path is no trace directory, or there is none. A damaged file is no error: the analysis
    /// tells of it.
    pub fn open(paths: &[PathBuf]) -> Result<Self, OpenError> {
        let paths = if paths.is_empty() { vec![newest(Path::new("."))?] } else { paths.to_vec() };
        let directories = paths
            .into_iter()
            .map(|path| Directory::open(as_recorded(path)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Self { directories })
    }

    /// The traces as one, with what was found wrong in it.
    pub fn trace(&self) -> Trace<'_> {
        fn file((name, bytes): &(String, Bytes)) -> File<'_> {
            File { name: name.clone(), bytes: &bytes[..] }
        }
        let mut live = LiveClock::default();
        let processes = self.directories.iter().flat_map(|d| &d.processes).map(|p| {
            let defs = p.defs.as_ref().map(file);
            ProcessFiles {
                label: p.label.clone(),
                extra_anchors: defs
                    .as_ref()
                    .and_then(|f| live.anchor_for(f.bytes))
                    .into_iter()
                    .collect(),
                defs,
                segments: p.segments.iter().map(file).collect(),
                ring: p.ring.as_ref().map(file),
                issues: p.issues.clone(),
            }
        });
        let mut trace = Trace::open(processes.collect());
        for (_, file, error) in self.directories.iter().flat_map(|d| &d.unread) {
            let kind = IssueKind::InputOutput { file: file.clone(), error: error.clone() };
            let directory = file.rsplit_once('/').map_or(&**file, |(directory, _)| directory);
            trace.issues.push(Issue { subject: directory.to_owned(), kind });
        }
        for of_trace in &self.directories {
            let calibrations = of_trace.calibrations();
            for process in trace
                .processes
                .iter_mut()
                .filter(|p| of_trace.processes.iter().any(|own| own.label == p.label))
            {
                calibration::apply(&calibrations, &mut process.definitions);
                let stem = process.label.rsplit_once('/').map_or("", |(_, stem)| stem).to_owned();
                // What was captured and gave its place to another launch, or was deleted when it had
                // been measured, is there no more.
                let folders = of_trace.path.join(directory::CAPTURES);
                for capture in &mut process.definitions.captures {
                    if !folders.join(&capture.folder).is_dir() {
                        capture.folder.clear();
                    }
                }
                measured::apply(&of_trace.measured, &stem, &mut process.definitions);
            }
        }
        trace
    }

    /// Sensor files of all directories: name and bytes.
    pub fn sensors(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.directories
            .iter()
            .flat_map(|d| &d.sensors)
            .map(|(name, bytes)| (name.as_str(), &bytes[..]))
    }

    /// Sensor files that could not be read: name and why.
    pub fn unread_sensors(&self) -> impl Iterator<Item = (&str, &str)> {
        let files = self.directories.iter().flat_map(|d| &d.unread);
        let sensors = files.filter(|(role, ..)| *role == Some(Role::Sensors));
        sensors.map(|(_, name, why)| (name.as_str(), why.as_str()))
    }

    /// Definition files of all processes: label of the process and bytes.
    pub fn definitions(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let processes = self.directories.iter().flat_map(|d| &d.processes);
        processes.filter_map(|p| Some((p.label.as_str(), &p.defs.as_ref()?.1[..])))
    }

    /// Names of the directories, for headings.
    pub fn names(&self) -> Vec<String> {
        self.directories.iter().map(|d| d.path.display().to_string()).collect()
    }
}

impl Directory {
    /// What was measured of captured launches after the run, oldest first.
    pub fn measured(&self) -> &[Measured] {
        &self.measured
    }

    /// The label that a process of this directory has in the trace, by its stem.
    pub fn label(&self, stem: &str) -> Option<&str> {
        let labels = self.processes.iter().map(|process| process.label.as_str());
        labels.into_iter().find(|label| label.rsplit_once('/').is_some_and(|(_, of)| of == stem))
    }

    /// What `clscope record` wrote down of each recording in it: of itself, or of all traces that it
    /// was merged from.
    pub fn recordings(&self) -> Vec<&serde_json::Value> {
        let mut out = Vec::new();
        let mut open: Vec<&serde_json::Value> = self.meta.iter().collect();
        while let Some(meta) = open.pop() {
            match meta.get("merged").and_then(|merged| merged.as_array()) {
                // The last is looked at first.
                Some(parts) => open.extend(parts.iter().rev().filter_map(|part| part.get("meta"))),
                None if meta.is_object() => out.push(meta),
                None => {}
            }
        }
        out
    }

    /// What `clscope record` found calibrated on its host; nothing where there was no calibration,
    /// no `record`, or where recordings of several hosts were merged.
    pub fn calibrations(&self) -> Vec<calibration::Entry> {
        let recordings = self.recordings();
        let host = |meta: &&serde_json::Value| meta.pointer("/host/name").cloned();
        if recordings.windows(2).any(|pair| host(&pair[0]) != host(&pair[1])) {
            return Vec::new();
        }
        let entries = recordings.into_iter().filter_map(|m| m.get("calibration")).cloned();
        let entries = entries.filter_map(|e| serde_json::from_value::<Vec<_>>(e).ok());
        entries.flatten().collect()
    }

    fn open(path: PathBuf) -> Result<Self, OpenError> {
        let kind = fs::metadata(&path).map_err(|source| OpenError::Missing {
            near: match suggestions(parent(&path)) {
                _ if source.kind() != std::io::ErrorKind::NotFound => String::new(),
                near if near.is_empty() => " (`clscope record -- APP` makes one)".to_owned(),
                near => near,
            },
            path: path.clone(),
            source,
        })?;
        if !kind.is_dir() {
            return Err(not_a_directory(&path, kind.file_type()));
        }
        let shown = path
            .file_name()
            .map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned());
        let mut out = Self { path: path.clone(), ..Self::default() };
        let mut processes: BTreeMap<(u64, String), ProcessMaps> = BTreeMap::new();
        let entries = directory::list(&path)
            .map_err(|source| OpenError::List { path: path.clone(), source })?;
        if !entries.iter().any(|(_, role)| role.stem().is_some()) {
            return Err(OpenError::Empty(empty_directory(&path, !entries.is_empty())));
        }
        // Before anything is read: what ends in the meantime is seen to have ended.
        for (name, role) in entries.iter().filter(|(_, role)| matches!(role, Role::Ring(_))) {
            if let Some(stem) = role.stem()
                && is_running(&path.join(name))
            {
                let as_of = humantime::format_rfc3339_seconds(std::time::SystemTime::now());
                let process = processes.entry(key(stem)).or_default();
                process.issues.push(IssueKind::Running { as_of: as_of.to_string() });
            }
        }
        for (name, role) in entries {
            let file = path.join(&name);
            let label = format!("{shown}/{name}");
            if role == Role::Meta {
                let text = input::read_inside(&file, META).map_err(|e| e.to_string());
                match text.and_then(|t| serde_json::from_slice(&t).map_err(|e| e.to_string())) {
                    Ok(meta) => out.meta = Some(meta),
                    Err(why) => out.unread.push((Some(role), label, why)),
                }
                continue;
            }
            // Rings may belong to a process that still runs and writes: a copy holds still.
            let bytes = match role {
                Role::Ring(_) => live_ring::read(&file).map(Bytes::Read),
                Role::Defs(_) => input::open_inside(&file).and_then(|file| map::read(&file)),
                _ => input::open_inside(&file).and_then(|file| map::file(&file)),
            };
            let Some(stem) = role.stem() else {
                match bytes {
                    Ok(bytes) => out.sensors.push((label, bytes)),
                    Err(why) => out.unread.push((Some(role), label, why.to_string())),
                }
                continue;
            };
            let process = processes.entry(key(stem)).or_default();
            process.label = format!("{shown}/{stem}");
            match (bytes, &role) {
                (Err(error), _) => process
                    .issues
                    .push(IssueKind::InputOutput { file: label, error: error.to_string() }),
                (Ok(bytes), Role::Defs(_)) => process.defs = Some((label, bytes)),
                (Ok(bytes), Role::Ring(_)) => process.ring = Some((label, bytes)),
                (Ok(bytes), _) => process.segments.push((label, bytes)),
            }
        }
        out.processes = processes.into_values().collect();
        let (rows, wrong) = match measured::read(&path) {
            Ok(found) => found,
            Err(why) => (Vec::new(), vec![why.to_string()]),
        };
        let label = format!("{shown}/{MEASURED}");
        out.unread.extend(wrong.into_iter().map(|why| (None, label.clone(), why)));
        out.measured = rows;
        Ok(out)
    }
}

/// Processes in order of their numbers.
fn key(stem: &str) -> (u64, String) {
    let pid = stem.split('-').next().and_then(|p| p.parse().ok()).unwrap_or(0);
    (pid, stem.to_owned())
}

/// Whether the process that made a ring file is seen to have it mapped.
fn is_running(ring: &Path) -> bool {
    let mut head = [0; HEADER_LEN];
    let Ok(file) = input::open_inside(ring) else { return false };
    if file.read_exact_at(&mut head, 0).is_err() {
        return false;
    }
    FileHeader::decode_as(&head, FileKind::Ring)
        .is_ok_and(|header| mapped::has(header.pid, header.pid_ns, &file) == Some(true))
}

/// Trace directories directly inside `directory`, newest first.
pub fn traces_in(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.path().extension().is_some_and(|x| x == EXTENSION) && e.path().is_dir())
        .map(|e| {
            let modified = |p: &Path| fs::metadata(p).and_then(|m| m.modified()).ok();
            let time = modified(&e.path().join("meta.json"))
                .max(modified(&e.path()))
                .unwrap_or(std::time::UNIX_EPOCH);
            (time, e.path())
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found
        .into_iter()
        .map(|(_, path)| path.strip_prefix(".").map(Path::to_owned).unwrap_or(path))
        .collect()
}

/// Whether a trace has a file of a process with more in it than the head that every file has. A
/// recording of an application that failed before its first OpenCL call has none.
fn holds_something(trace: &Path) -> bool {
    let has_more = |name: &str| {
        fs::metadata(trace.join(name)).is_ok_and(|file| file.len() > HEADER_LEN as u64)
    };
    let entries = directory::list(trace).unwrap_or_default();
    entries.iter().any(|(name, role)| role.stem().is_some() && has_more(name))
}

/// The newest trace of a directory that holds something; where all are empty, the newest.
///
/// # Errors
/// If there is none.
pub fn newest(directory: &Path) -> Result<PathBuf, OpenError> {
    let all = traces_in(directory);
    let held = all.iter().find(|trace| holds_something(trace));
    held.or(all.first()).cloned().ok_or_else(|| OpenError::NoneHere {
        directory: directory.canonicalize().unwrap_or_else(|_| directory.to_owned()),
    })
}

/// The trace of a directory that was begun last, whether or not it holds something yet.
///
/// # Errors
/// If there is none.
pub fn last_begun(directory: &Path) -> Result<PathBuf, OpenError> {
    traces_in(directory).into_iter().next().map_or_else(|| newest(directory), Ok)
}

fn suggestions(directory: &Path) -> String {
    let near = traces_in(directory);
    if near.is_empty() {
        return String::new();
    }
    let names: Vec<String> = near.iter().take(5).map(|p| p.display().to_string()).collect();
    format!(" (there are: {})", names.join(", "))
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn not_a_directory(path: &Path, kind: fs::FileType) -> OpenError {
    let inside = path.file_name().and_then(|n| n.to_str()).and_then(Role::from_name).is_some();
    let next = match path.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(parent) => format!("name its directory, {}", parent.display()),
        None => "name the directory that holds it, `.`".to_owned(),
    };
    let path = path.to_owned();
    match inside && kind.is_file() {
        true => OpenError::OneFile { path, next },
        false => OpenError::NotADirectory { path, kind: input::kind(kind) },
    }
}

fn empty_directory(path: &Path, some: bool) -> String {
    let inner = suggestions(path);
    if !inner.is_empty() {
        format!("{} is no trace but holds some{inner}: name one of them", path.display())
    } else if some {
        format!(
            "the trace {} holds no process: the application made no OpenCL call, the recorder was not loaded, or could not write here (another user?); see `clscope doctor`",
            path.display()
        )
    } else {
        format!(
            "the directory {} holds no clscope trace: it has no PID-N.defs, .clt or .ring file",
            path.display()
        )
    }
}

/// Reads this machine's clocks for processes that were killed before their second anchor, if they
/// ran in this boot.
#[derive(Default)]
struct LiveClock {
    here: Option<[u8; 16]>,
}

impl LiveClock {
    fn anchor_for(&mut self, defs: &[u8]) -> Option<Anchor> {
        let header = FileHeader::decode(defs).ok()?;
        if header.clock == Clock::MonotonicRaw
            || Defs::new(defs).filter(|d| matches!(d, Def::Anchor(_))).take(2).count() == 2
        {
            return None;
        }
        let boot = *self.here.get_or_insert_with(host::boot_id);
        (boot != [0; 16] && boot == header.boot && clscope_clock::choose() == header.clock)
            .then(|| clscope_clock::anchor(header.clock))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_paths_are_told_with_the_next_step() {
        let dir = tempfile::tempdir().unwrap();
        let error = |p: &Path| TraceFiles::open(&[p.to_owned()]).err().unwrap().to_string();
        assert!(newest(dir.path()).unwrap_err().to_string().contains("clscope record"));
        assert!(error(&dir.path().join("b.clscope")).contains("clscope record"));
        assert!(error(dir.path()).contains("holds no clscope trace"));
        let trace = dir.path().join("a.clscope");
        fs::create_dir(&trace).unwrap();
        assert_eq!(newest(dir.path()).unwrap(), trace);
        assert!(error(dir.path()).contains("a.clscope"));
        assert!(error(&dir.path().join("b.clscope")).contains("a.clscope"));
        // An application that was recorded as what it is called.
        fs::write(dir.path().join("a"), "").unwrap();
        assert_eq!(as_recorded(dir.path().join("a")), trace);
        let file = dir.path().join("notes");
        fs::write(&file, "").unwrap();
        assert!(error(&file).contains("notes is a file, and a trace is a directory"));
        assert!(error(Path::new("/dev/null")).contains("/dev/null is a device, and a trace is"));
        fs::write(trace.join("meta.json"), "{}").unwrap();
        assert!(error(&trace).contains("no process"));
        fs::write(trace.join("7-0.defs"), "").unwrap();
        assert!(error(&trace.join("7-0.defs")).contains("name its directory"));
        let other = dir.path().join("0.clscope");
        fs::create_dir(&other).unwrap();
        fs::write(other.join("7-0.defs"), [7; HEADER_LEN + 1]).unwrap();
        fs::File::open(&other).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(newest(dir.path()).unwrap(), other, "the newer one holds no more than a head");
        assert_eq!(last_begun(dir.path()).unwrap(), trace);
        fs::remove_dir_all(&other).unwrap();
        for (bytes, code) in [("", "not-written"), ("no trace", "unreadable-file")] {
            fs::write(trace.join("7-0.defs"), bytes).unwrap();
            let files = TraceFiles::open(std::slice::from_ref(&trace)).unwrap();
            let issues = files.trace().issues;
            assert!(issues.iter().any(|i| i.kind.code() == code), "{code}: {issues:?}");
        }
    }
}
