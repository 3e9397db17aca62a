//! The files of metric sets. Owns the reading of a directory and the places where other projects
//! install theirs; refuses to search anywhere else, and to read anything that is not named
//! `oa-*.xml`.

use crate::builtin;
use crate::set::MetricSet;
use crate::xml::{self, XmlError};
use clscope_oa::Generation;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Where projects that ship the XML put it. Debian's packages of Mesa and igt compile it in and
/// ship none.
pub const INSTALLED: [&str; 4] = [
    "/usr/share/igt-gpu-tools/perf-configs",
    "/usr/share/intel-gpu-tools/perf-configs",
    "/usr/share/mesa/intel/perf",
    "/usr/local/share/igt-gpu-tools/perf-configs",
];

/// A directory that gives no sets.
#[derive(Debug, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum DirectoryError {
    /// It cannot be read.
    #[error("{}: cannot be read", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// It holds no such file.
    #[error("{}: holds no metric sets (files named oa-*.xml, as in Mesa's src/intel/perf)", path.display())]
    Empty { path: PathBuf },
}

/// What a directory holds.
#[derive(Debug, Default)]
pub struct Library {
    /// The sets.
    pub sets: Vec<MetricSet>,
    /// What was left out, and why.
    pub problems: Vec<String>,
}

/// The largest published file has half a megabyte.
const LARGEST: u64 = 64 << 20;

/// Reads every `oa-*.xml` of a directory, or the one file named.
///
/// # Errors
/// [`DirectoryError`].
pub fn read(path: &Path) -> Result<Library, DirectoryError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| DirectoryError::Io { path, source }
    };
    let mut files = Vec::new();
    if path.is_dir() {
        for entry in std::fs::read_dir(path).map_err(io(path))? {
            let name = entry.map_err(io(path))?.file_name();
            if name.to_str().is_some_and(|n| n.starts_with("oa-") && n.ends_with(".xml")) {
                files.push(path.join(name));
            }
        }
        files.sort();
    } else {
        files.push(path.to_owned());
    }
    if files.is_empty() {
        return Err(DirectoryError::Empty { path: path.to_owned() });
    }
    let mut library = Library::default();
    for file in files {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
        let text = match clscope_io::input::read(&file, LARGEST) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            // One that is no file, or too large, does not cost the others.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => {
                library.problems.push(format!("{name}: {error}"));
                continue;
            }
            Err(error) => return Err(io(&file)(error)),
        };
        match xml::parse(&name, &text) {
            Ok(mut found) => {
                library.sets.append(&mut found.sets);
                library.problems.append(&mut found.problems);
            }
            Err(error @ (XmlError::Syntax { .. } | XmlError::NoSet { .. })) => {
                library.problems.push(error.to_string())
            }
        }
    }
    Ok(library)
}

/// The first of [`INSTALLED`] that exists.
pub fn installed() -> Option<PathBuf> {
    INSTALLED.iter().map(PathBuf::from).find(|p| p.is_dir())
}

/// All sets there are: built in, and of a directory or file, else of what is installed. What is
/// wrong with single files is told.
///
/// # Errors
/// If the directory cannot be read.
pub fn sets(
    named: Option<&Path>,
    tell: impl Fn(&dyn std::fmt::Display),
) -> Result<Vec<MetricSet>, DirectoryError> {
    let generations = [Generation::Gen9, Generation::Gen12, Generation::Xe, Generation::Xe2];
    let mut sets: Vec<MetricSet> = generations.into_iter().filter_map(builtin::core).collect();
    if let Some(path) = named.map(Path::to_owned).or_else(installed) {
        let library = read(&path)?;
        library.problems.iter().for_each(|problem| tell(problem));
        sets.extend(library.sets);
    }
    Ok(sets)
}

impl Library {
    /// Sets by symbol (any case) or UUID, and by chipset where one is named (any case, `KBL` finds
    /// `KBLGT2`).
    pub fn find<'a>(
        &'a self,
        name: &'a str,
        chipset: Option<&'a str>,
    ) -> impl Iterator<Item = &'a MetricSet> {
        let starts = |whole: &str, part: &str| {
            whole.get(..part.len()).is_some_and(|w| w.eq_ignore_ascii_case(part))
        };
        self.sets.iter().filter(move |set| {
            let named = set.symbol.eq_ignore_ascii_case(name)
                || set.uuid.is_some_and(|u| u.as_str().eq_ignore_ascii_case(name));
            named && chipset.is_none_or(|c| starts(&set.chipset, c))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_read_file_by_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(read(dir.path()), Err(DirectoryError::Empty { .. })));
        let set = |chipset: &str| {
            format!(
                "<metrics><set symbol_name='ComputeBasic' chipset='{chipset}' hw_config_guid='12994724-3a5a-4303-bb3c-ba0175d2c200'/></metrics>"
            )
        };
        std::fs::write(dir.path().join("oa-kblgt2.xml"), set("KBLGT2")).unwrap();
        std::fs::write(dir.path().join("oa-tglgt2.xml"), set("TGLGT2")).unwrap();
        std::fs::write(dir.path().join("oa-broken.xml"), "<metrics>").unwrap();
        std::fs::write(dir.path().join("guids.xml"), "<guids/>").unwrap();
        // Neither would ever end.
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("oa-zero.xml")).unwrap();
        let _socket =
            std::os::unix::net::UnixListener::bind(dir.path().join("oa-socket.xml")).unwrap();
        let library = read(dir.path()).unwrap();
        assert_eq!((library.sets.len(), library.problems.len()), (2, 3), "{library:?}");
        assert_eq!(library.find("computebasic", None).count(), 2);
        assert_eq!(library.find("computebasic", Some("kbl")).count(), 1);
        assert_eq!(library.find("12994724-3A5A-4303-bb3c-ba0175d2c200", Some("TGLGT2")).count(), 1);
        assert_eq!(library.find("RenderBasic", None).count(), 0);
        assert_eq!(read(&dir.path().join("oa-kblgt2.xml")).unwrap().sets.len(), 1);
        assert!(matches!(read(Path::new("/nonexistent/x.xml")), Err(DirectoryError::Io { .. })));
    }
}
