//! The names in a trace directory `NAME.clscope/`: which file has what role, and how a directory's
//! name is written. Owns the one reading of a directory; refuses to open the files.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Ending of a trace directory's name.
pub const EXTENSION: &str = "clscope";

/// Folder of a trace directory that keeps texts and binaries of programs.
pub const PROGRAMS: &str = "programs";

/// Name in [`PROGRAMS`] of a program's text or binary, by its hash and language (see
/// [`defs::Code`](crate::defs::Code)); `None` for what the recorder never writes, since a trace may
/// come from anywhere.
pub fn program_file(hash: &str, language: &str) -> Option<String> {
    let hash_is_one = hash.len() == 32 && hash.bytes().all(|b| b.is_ascii_hexdigit());
    let known = ["cl", "spv", "ptx", "bin"].contains(&language);
    (hash_is_one && known).then(|| format!("{hash}.{language}"))
}

/// Whether a file name is one of [`program_file`].
pub fn is_program_file(name: &str) -> bool {
    name.split_once('.').is_some_and(|(hash, language)| program_file(hash, language).is_some())
}

/// File of a trace directory with what was measured of captured launches when the application had
/// ended, one line of JSON each: `clscope replay` writes it.
pub const MEASURED: &str = "measured.jsonl";

/// File of a trace directory with the table of an external power meter as it was: `clscope record
/// --meter` and `clscope meter` write it.
pub const METER: &str = "meter.csv";

/// Ending of a process's log of the launches that were drawn, in the folder of captures.
pub const SAMPLES: &str = ".samples.jsonl";

/// Folder of a trace directory that keeps captured launches, each in a folder of its own.
pub const CAPTURES: &str = "captures";
/// File of a captured launch that describes it.
pub const CAPTURE_FILE: &str = "launch.json";
/// Version of [`CAPTURE_FILE`]'s format.
pub const CAPTURE_SCHEMA: u32 = 3;
/// File of a captured launch that tells how launches like it ran in the application: `clscope
/// record` adds it.
pub const CAPTURE_APPLICATION: &str = "application.json";
/// Ending of the name of a captured launch that is not whole.
pub const PART: &str = ".part";
/// Ending of the name of a launch that is described, without what its memory held.
pub const DESCRIBED: &str = ".described";
/// Most characters of a kernel's name in the name of its capture.
const KERNEL_IN_NAME: usize = 64;

/// Name in [`CAPTURES`] of the launch of that number of a kernel: characters of the kernel's name
/// that a file name need not have are replaced. `turn` tells captures apart whose names would be
/// the same, as of several processes: 0 for the first.
pub fn capture_folder(kernel: &str, launch: u64, turn: u32) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    let mut name: String = kernel.chars().take(KERNEL_IN_NAME).map(plain).collect();
    if name.is_empty() {
        name.push_str("kernel");
    }
    match turn {
        0 => format!("{name}.{launch}"),
        turn => format!("{name}.{launch}-{}", u64::from(turn) + 1),
    }
}

/// Whether a name is one of [`capture_folder`], also of a launch that is only described.
pub fn is_capture_folder(name: &str) -> bool {
    let name = name.strip_suffix(DESCRIBED).unwrap_or(name);
    let digits =
        |text: &str| (1..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    name.split_once('.').is_some_and(|(kernel, rest)| {
        let (launch, turn) = rest.split_once('-').unwrap_or((rest, "2"));
        (1..=KERNEL_IN_NAME).contains(&kernel.len())
            && kernel.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && digits(launch)
            && digits(turn)
    })
}

/// What role a file of a trace has by its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Definitions of the process incarnation of this stem (`PID-N`).
    Defs(String),
    /// A data segment.
    Segment(String, u32),
    /// The rings.
    Ring(String),
    /// Sensor readings.
    Sensors,
    /// `meta.json`.
    Meta,
}

impl Role {
    /// The role that a file name means, `None` for files that are no part of a trace.
    pub fn from_name(name: &str) -> Option<Role> {
        if name == "meta.json" {
            return Some(Role::Meta);
        }
        if name.starts_with("sensors") && name.ends_with(".clt") {
            return Some(Role::Sensors);
        }
        let (stem, ending) = name.split_once('.')?;
        let (pid, incarnation) = stem.split_once('-')?;
        let number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !number(pid) || !number(incarnation) {
            return None;
        }
        match ending.split_once('.') {
            None if ending == "defs" => Some(Role::Defs(stem.to_owned())),
            None if ending == "ring" => Some(Role::Ring(stem.to_owned())),
            Some((segment, "clt")) => Some(Role::Segment(stem.to_owned(), segment.parse().ok()?)),
            _ => None,
        }
    }

    /// Stem of a process's file.
    pub fn stem(&self) -> Option<&str> {
        match self {
            Role::Defs(stem) | Role::Segment(stem, _) | Role::Ring(stem) => Some(stem),
            Role::Sensors | Role::Meta => None,
        }
    }
}

/// The path, with the ending that `record -o NAME` adds where only that exists.
pub fn as_recorded(path: PathBuf) -> PathBuf {
    let full = with_ending(&path);
    if path.is_dir() || !full.is_dir() { path } else { full }
}

/// `NAME.clscope` for `NAME`, `NAME/` and `NAME.clscope`.
pub fn with_ending(path: &Path) -> PathBuf {
    // `.`, `..` and `/` are no names.
    let Some(name) = path.file_name() else { return path.to_owned() };
    let mut name = name.to_owned();
    if path.extension().is_none_or(|x| x != EXTENSION) {
        name.push(".");
        name.push(EXTENSION);
    }
    path.with_file_name(name)
}

/// The files of a trace in `path`, each with its role; other files are left out. Rings come first,
/// segments of a process in their order.
///
/// Reading in this order, what a running process moves from its ring to a segment meanwhile is seen
/// twice, not missed.
///
/// # Errors
/// If the directory cannot be listed.
pub fn list(path: &Path) -> io::Result<Vec<(String, Role)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(role) = Role::from_name(&name) {
            entries.push((name, role));
        }
    }
    entries.sort_by(|a, b| match (&a.1, &b.1) {
        (Role::Ring(a), Role::Ring(b)) => a.cmp(b),
        (Role::Ring(_), _) => Ordering::Less,
        (_, Role::Ring(_)) => Ordering::Greater,
        (Role::Segment(s, n), Role::Segment(t, m)) if s == t => n.cmp(m),
        _ => a.0.cmp(&b.0),
    });
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_roles() {
        assert_eq!(Role::from_name("12-0.defs"), Some(Role::Defs("12-0".into())));
        assert_eq!(Role::from_name("12-3.17.clt"), Some(Role::Segment("12-3".into(), 17)));
        assert_eq!(Role::from_name("12-3.ring"), Some(Role::Ring("12-3".into())));
        assert_eq!(Role::from_name("sensors.clt"), Some(Role::Sensors));
        assert_eq!(Role::from_name("meta.json"), Some(Role::Meta));
        for other in ["12.defs", "a-b.defs", "12-0.txt", "12-0.x.clt", "-.ring", "notes.md", ""] {
            assert_eq!(Role::from_name(other), None, "{other}");
        }
    }

    #[test]
    fn programs_have_no_names_that_lead_elsewhere() {
        let hash = "0123456789abcdef0123456789abcdef";
        assert_eq!(program_file(hash, "cl").as_deref(), Some(&*format!("{hash}.cl")));
        assert!(is_program_file(&format!("{hash}.ptx")) && !is_program_file(hash));
        for (hash, language) in
            [("../../etc/passwd", "cl"), (hash, "sh"), (hash, "/cl"), ("", "cl")]
        {
            assert_eq!(program_file(hash, language), None, "{hash}.{language}");
        }
    }

    #[test]
    fn captures_have_plain_names() {
        for (kernel, launch, turn, name) in [
            ("gemm", 3, 0, "gemm.3"),
            ("gemm", 3, 1, "gemm.3-2"),
            ("../a b::c<é>", 1, 0, "___a_b__c___.1"),
            ("", u64::MAX, u32::MAX, "kernel.18446744073709551615-4294967296"),
        ] {
            assert_eq!(capture_folder(kernel, launch, turn), name);
            assert!(is_capture_folder(name), "{name}");
        }
        assert_eq!(capture_folder(&"x".repeat(900), 1, 0).len(), 66);
        for other in ["", "a", ".1", "a.", "a.b", "a.1-", "a.1.part", "../a.1", "a/b.1", "a.-2"] {
            assert!(!is_capture_folder(other), "{other}");
        }
    }

    #[test]
    fn a_trace_is_found_by_the_name_it_was_given() {
        for (name, full) in [
            ("a", "a.clscope"),
            ("a/", "a.clscope"),
            ("x/v1.2", "x/v1.2.clscope"),
            ("a.clscope/", "a.clscope"),
            ("..", ".."),
            (".", "."),
        ] {
            assert_eq!(with_ending(Path::new(name)), Path::new(full), "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        let (name, full) = (dir.path().join("run1"), dir.path().join("run1.clscope"));
        assert_eq!(
            as_recorded(name.clone()),
            name,
            "what does not exist is told of by the name given"
        );
        fs::create_dir(&full).unwrap();
        assert_eq!(as_recorded(name.clone()), full);
        fs::create_dir(&name).unwrap();
        assert_eq!(as_recorded(name.clone()), name, "what was named comes first");
    }
}
