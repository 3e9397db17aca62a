//! Several traces as one directory, which everything that reads traces reads as one. Owns the names
//! in it: processes of different hosts and pid namespaces may share a pid. Files are linked, or
//! copied where that is not possible; the directory is its owner's alone, and appears whole or not
//! at all. Refuses to change what is in a file, but for names that must change (`renamed.rs`), and
//! to bring what is no regular file.

use crate::error::MergeError;
use crate::measured::{self, MEASURED, Measured};
use clscope_io::input;
use clscope_io::output::{Access, create_dir, create_new};
use clscope_trace::FileHeader;
use clscope_trace::directory::{CAPTURES, PROGRAMS, Role, as_recorded, list, with_ending};
use clscope_trace::file::HEADER_LEN;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The directory.
    pub directory: PathBuf,
    /// Processes in it.
    pub processes: u64,
    /// Processes that came with a second trace, too, and were taken once: name and trace.
    pub doubles: Vec<(String, String)>,
}

/// Says what a call of the system was for.
trait Attempt<T> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, MergeError>;
}

impl<T> Attempt<T> for io::Result<T> {
    fn attempt(self, what: impl FnOnce() -> String) -> Result<T, MergeError> {
        self.map_err(|source| MergeError::System { attempt: what(), source })
    }
}

/// Removes a half-made directory unless it was given its name.
struct Unfinished<'p>(Option<&'p Path>);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Most bytes of a `meta.json`.
const META: u64 = 16 << 20;

/// What distinguishes two processes, from the header of one of their files.
type Identity = ([u8; 16], [u8; 16], u64, u32, u32, u64);

fn identity(path: &Path) -> Option<Identity> {
    let mut head = [0; HEADER_LEN];
    input::open_inside(path).ok()?.read_exact(&mut head).ok()?;
    let h = FileHeader::decode(&head).ok()?;
    Some((h.boot, h.host, h.pid_ns, h.pid, h.incarnation, h.created))
}

/// Files of one process: their roles and paths.
type Files = Vec<(Role, PathBuf)>;

struct Source {
    name: String,
    /// Texts and binaries of programs: names, which tell their content, and paths.
    programs: Vec<(String, PathBuf)>,
    /// Captured launches: names and folders.
    captures: Vec<(String, PathBuf)>,
    /// What was measured of them.
    measured: Vec<Measured>,
    meta: Option<serde_json::Value>,
    processes: BTreeMap<String, Files>,
    sensors: Vec<PathBuf>,
}

fn read_source(path: &Path) -> Result<Source, MergeError> {
    let shown = path.display();
    let mut out = Source {
        name: shown.to_string(),
        programs: crate::programs::files(path)
            .attempt(|| format!("could not list the programs of {shown}"))?,
        captures: crate::captures::folders(path)
            .attempt(|| format!("could not list the captures of {shown}"))?,
        measured: measured::read(path)
            .attempt(|| format!("could not read what was measured of {shown}"))?
            .0,
        meta: None,
        processes: BTreeMap::new(),
        sensors: Vec::new(),
    };
    for (name, role) in list(path).attempt(|| format!("could not list the trace {shown}"))? {
        let file = path.join(name);
        match role {
            Role::Meta => {
                out.meta = input::read_inside(&file, META)
                    .ok()
                    .and_then(|text| serde_json::from_slice(&text).ok())
            }
            Role::Sensors => out.sensors.push(file),
            role => {
                let stem = role.stem().unwrap_or_default().to_owned();
                out.processes.entry(stem).or_default().push((role, file));
            }
        }
    }
    if out.processes.is_empty() {
        return Err(MergeError::NotATrace { path: path.to_owned() });
    }
    out.sensors.sort();
    Ok(out)
}

/// A name of the form PID-N that is not taken: the process's own, else with the next free N.
fn free_name(stem: &str, taken: &BTreeSet<String>) -> String {
    let pid = stem.split('-').next().unwrap_or(stem);
    let mut name = stem.to_owned();
    let mut n = 0u64;
    while taken.contains(&name) {
        name = format!("{pid}-{n}");
        n += 1;
    }
    name
}

/// A name of a capture that is not taken: its own, else with the next free number behind it.
fn free_capture(name: &str, taken: &BTreeSet<String>) -> String {
    let launch = name.split('-').next().unwrap_or(name);
    let mut own = name.to_owned();
    let mut n = 2u64;
    while taken.contains(&own) {
        own = format!("{launch}-{n}");
        n += 1;
    }
    own
}

fn file_name(role: &Role, stem: &str) -> String {
    match role {
        Role::Defs(_) => format!("{stem}.defs"),
        Role::Ring(_) => format!("{stem}.ring"),
        Role::Segment(_, n) => format!("{stem}.{n}.clt"),
        Role::Sensors => "sensors.clt".to_owned(),
        Role::Meta => "meta.json".to_owned(),
    }
}

fn bring(from: &Path, to: &Path) -> Result<(), MergeError> {
    let failed = || format!("could not copy {} to {}", from.display(), to.display());
    let source = input::open_inside(from).attempt(failed)?;
    // A link costs nothing; another file system, or one without links, needs a copy.
    if fs::hard_link(from, to).is_ok() {
        let file = |found: fs::Metadata| (found.dev(), found.ino());
        let linked = fs::symlink_metadata(to).attempt(failed)?;
        // What was looked at is what was linked.
        if file(linked) == file(source.metadata().attempt(failed)?) {
            return Ok(());
        }
        fs::remove_file(to).attempt(failed)?;
    }
    let mut copy = create_new(to, Access::Private).attempt(failed)?;
    io::copy(&mut &source, &mut copy).attempt(failed)?;
    Ok(())
}

/// A process's definitions, with the names that its captures have from here on.
fn bring_renamed(
    from: &Path,
    to: &Path,
    names: &BTreeMap<String, String>,
) -> Result<(), MergeError> {
    let failed = || format!("could not copy {} to {}", from.display(), to.display());
    let length = fs::symlink_metadata(from).attempt(failed)?.len();
    let file = input::read_inside(from, length).attempt(failed)?;
    let mut copy = create_new(to, Access::Private).attempt(failed)?;
    copy.write_all(&crate::renamed::captures(&file, names)).attempt(failed)
}

/// Whether two files hold the same bytes; neither is taken into memory.
fn same(a: &Path, b: &Path) -> io::Result<bool> {
    let (a, b) = (input::open_inside(a)?, input::open_inside(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let [mut a, mut b] = [a, b].map(|file| BufReader::with_capacity(1 << 16, file));
    loop {
        let (left, right) = (a.fill_buf()?, b.fill_buf()?);
        let length = left.len().min(right.len());
        if left[..length] != right[..length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(left.len() == right.len());
        }
        a.consume(length);
        b.consume(length);
    }
}

/// Makes the directory `output` (`.clscope` is added) of the traces.
///
/// # Errors
/// If a source is no trace, the target exists, or a file cannot be copied. Nothing is left behind
/// then.
pub fn merge(traces: &[PathBuf], output: &Path) -> Result<Merged, MergeError> {
    let target = &with_ending(output);
    if fs::symlink_metadata(target).is_ok() {
        return Err(MergeError::Exists { path: target.clone() });
    }
    let name = target.file_name().ok_or_else(|| MergeError::NoName { path: target.clone() })?;
    let sources = traces
        .iter()
        .map(|t| read_source(&as_recorded(t.clone())))
        .collect::<Result<Vec<_>, _>>()?;
    let temporary =
        target.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    create_dir(&temporary, Access::Private).attempt(|| {
        format!(
            "could not make a directory beside {}: choose another place with -o",
            target.display()
        )
    })?;
    let mut unfinished = Unfinished(Some(&temporary));

    let (mut names, mut known) = (BTreeSet::new(), BTreeSet::new());
    let (mut processes, mut doubles) = (0u64, Vec::new());
    let mut series: Vec<&Path> = Vec::new();
    let mut code: BTreeSet<String> = BTreeSet::new();
    let mut captures: BTreeSet<String> = BTreeSet::new();
    let mut measured: Vec<Measured> = Vec::new();
    for source in &sources {
        let mut new = Vec::new();
        for (stem, files) in &source.processes {
            let who = files.iter().find_map(|(_, path)| identity(path));
            match who.is_none_or(|who| known.insert(who)) {
                true => new.push((stem, files)),
                false => doubles.push((stem.clone(), source.name.clone())),
            }
        }
        let (mut folders, mut renamed) = (Vec::new(), BTreeMap::new());
        // A trace that is there already brings nothing more.
        for (name, path) in source.captures.iter().filter(|_| !new.is_empty()) {
            let own = free_capture(name, &captures);
            if own != *name {
                renamed.insert(name.clone(), own.clone());
            }
            captures.insert(own.clone());
            folders.push((own, path));
        }
        let mut stems: BTreeMap<&str, String> = BTreeMap::new();
        for (stem, files) in new {
            let own = free_name(stem, &names);
            stems.insert(stem, own.clone());
            for (role, path) in files {
                let to = temporary.join(file_name(role, &own));
                match role {
                    Role::Defs(_) if !renamed.is_empty() => bring_renamed(path, &to, &renamed)?,
                    _ => bring(path, &to)?,
                }
            }
            names.insert(own);
            processes += 1;
        }
        measured.extend(source.measured.iter().filter_map(|row| {
            let mut row = row.clone();
            row.launch.process = stems.get(row.launch.process.as_str())?.clone();
            if let Some(own) = renamed.get(&row.launch.capture) {
                row.launch.capture.clone_from(own);
            }
            Some(row)
        }));
        let outer = temporary.join(CAPTURES);
        for (own, path) in folders {
            if !outer.exists() {
                create_dir(&outer, Access::Private)
                    .attempt(|| format!("could not make {}", outer.display()))?;
            }
            let folder = outer.join(own);
            create_dir(&folder, Access::Private)
                .attempt(|| format!("could not make {}", folder.display()))?;
            let files = crate::captures::files(path)
                .attempt(|| format!("could not list {}", path.display()))?;
            for (name, file) in files {
                bring(&file, &folder.join(name))?;
            }
        }
        for (name, path) in &source.programs {
            let folder = temporary.join(PROGRAMS);
            if code.is_empty() {
                create_dir(&folder, Access::Private)
                    .attempt(|| format!("could not make {}", folder.display()))?;
            }
            if code.insert(name.clone()) {
                bring(path, &folder.join(name))?;
            }
        }
        for path in &source.sensors {
            // Ranks of one host that were recorded together bring the same series.
            let mut known = false;
            for other in &series {
                known |=
                    same(path, other).attempt(|| format!("could not read {}", path.display()))?;
            }
            if !known {
                let own = if series.is_empty() {
                    "sensors.clt".to_owned()
                } else {
                    format!("sensors-{}.clt", series.len())
                };
                bring(path, &temporary.join(own))?;
                series.push(path);
            }
        }
    }
    if !measured.is_empty() {
        measured.sort_by_key(|row| row.at_ns);
        let path = temporary.join(MEASURED);
        let failed = || format!("could not write {}", path.display());
        let mut file = create_new(&path, Access::Private).attempt(failed)?;
        for row in &measured {
            let mut line = serde_json::to_vec(row).map_err(io::Error::from).attempt(failed)?;
            line.push(b'\n');
            file.write_all(&line).attempt(failed)?;
        }
    }
    let meta = serde_json::json!({
        "clscope": env!("CARGO_PKG_VERSION"),
        "merged": sources.iter().map(|s| serde_json::json!({ "trace": s.name, "meta": s.meta })).collect::<Vec<_>>(),
    });
    create_new(&temporary.join("meta.json"), Access::Private)
        .and_then(|mut file| {
            let mut text = serde_json::to_vec_pretty(&meta)?;
            text.push(b'\n');
            file.write_all(&text)
        })
        .attempt(|| format!("could not write into {}", temporary.display()))?;
    fs::rename(&temporary, target)
        .attempt(|| format!("could not give the merged trace its name {}", target.display()))?;
    unfinished.0 = None;
    Ok(Merged { directory: target.clone(), processes, doubles })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace_files::TraceFiles;
    use clscope_analysis::testing::{HostModel, ProcessBuilder, function};

    fn trace(dir: &Path, name: &str, boot: u8) -> PathBuf {
        let path = dir.join(name);
        fs::create_dir(&path).unwrap();
        let mut p = ProcessBuilder::standard(HostModel { boot, ..HostModel::default() }, 9, 1);
        p.thread(0).plain(function::FINISH, 1_000, 2_000, 0, 1);
        p.exit(3_000, 0);
        p.define(clscope_trace::defs::Capture { folder: "k.1".into(), ..Default::default() });
        let bytes = p.build();
        fs::write(path.join("9-0.defs"), &bytes.defs).unwrap();
        fs::write(path.join("9-0.0.clt"), &bytes.segment).unwrap();
        fs::write(path.join("sensors.clt"), [boot / 2]).unwrap();
        fs::write(path.join("meta.json"), r#"{"a":1}"#).unwrap();
        let programs = path.join(PROGRAMS);
        fs::create_dir(&programs).unwrap();
        fs::write(programs.join(format!("{:032x}.cl", boot / 2)), "kernel").unwrap();
        for (capture, file) in [("k.1", "launch.json"), ("1-0-1.part", "launch.json")] {
            let folder = path.join(CAPTURES).join(capture);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(file), [boot]).unwrap();
        }
        path
    }

    #[test]
    fn processes_of_several_hosts_keep_apart_and_doubles_go() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, c) = (
            trace(dir.path(), "a.clscope", 2),
            trace(dir.path(), "b.clscope", 3),
            trace(dir.path(), "c.clscope", 4),
        );
        let output = dir.path().join("all.clscope");
        let traces = [a.clone(), b, a, c];
        let merged = merge(&traces, &output).unwrap();
        assert_eq!((&merged.directory, merged.processes), (&output, 3));
        assert!(matches!(&merged.doubles[..], [(stem, _)] if stem == "9-0"), "{merged:?}");
        let files = TraceFiles::open(std::slice::from_ref(&output)).unwrap();
        let opened = files.trace();
        assert_eq!(
            opened.processes.iter().map(|p| p.label.as_str()).collect::<Vec<_>>(),
            ["all.clscope/9-0", "all.clscope/9-1", "all.clscope/9-2"]
        );
        assert_eq!(opened.events(None).count(), 3);
        assert_eq!(files.sensors().count(), 2, "the same series once");
        assert_eq!(files.directories[0].meta.as_ref().unwrap()["merged"][3]["meta"]["a"], 1);
        let programs = fs::read_dir(output.join(PROGRAMS)).unwrap().count();
        assert_eq!(programs, 2, "equal texts once");
        for (capture, boot) in [("k.1", 2), ("k.1-2", 3), ("k.1-3", 4)] {
            let file = output.join(CAPTURES).join(capture).join("launch.json");
            assert_eq!(fs::read(file).unwrap(), [boot], "{capture}");
        }
        assert_eq!(fs::read_dir(output.join(CAPTURES)).unwrap().count(), 3, "whole ones alone");
        // Each process names its own.
        let told = opened.processes.iter().map(|p| p.definitions.captures[0].folder.as_str());
        assert_eq!(told.collect::<Vec<_>>(), ["k.1", "k.1-2", "k.1-3"]);
        assert!(merge(&traces, &output).unwrap_err().to_string().contains("exists already"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "nothing temporary is left");
    }

    #[test]
    fn a_wrong_source_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let a = trace(dir.path(), "a.clscope", 2);
        let error = merge(&[a, dir.path().join("none")], &dir.path().join("o")).unwrap_err();
        assert!(error.to_string().contains("none"), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
