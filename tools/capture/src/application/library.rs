//! Owns where libclscope.so and the audit shim lie. Refuses to load them.
#![forbid(unsafe_code)]

use std::io;
use std::path::{Path, PathBuf};

/// Names a recorder outside the usual places.
pub const LIBRARY: &str = "CLSCOPE_LIBRARY";
const RECORDER: &str = "libclscope.so";
const SHIM: &str = "libclscope_audit.so";

/// Why the recorder cannot be brought in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum LibraryError {
    /// The environment names something else.
    #[error("{LIBRARY} names {}, which is no file; unset it or correct it", .0.display())]
    Named(PathBuf),
    /// It is in none of the usual places.
    #[error(
        "cannot find the recorder {RECORDER}; looked at {}. Build it with `cargo build --release`, or name it in {LIBRARY}",
        .0.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
    )]
    Missing(Vec<PathBuf>),
    /// Its path cannot be resolved.
    #[error("cannot resolve {}", path.display())]
    Resolve { path: PathBuf, source: io::Error },
    /// Its path is no text.
    #[error("the path {} is not UTF-8", .0.display())]
    NotText(PathBuf),
    /// Its path cannot stand in LD_PRELOAD.
    #[error(
        "the path {path} contains {bad:?}, which LD_PRELOAD cannot carry; copy the library elsewhere and name the copy in {LIBRARY}"
    )]
    Uncarried { path: String, bad: char },
}

/// The recorder's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libraries {
    /// libclscope.so.
    pub recorder: PathBuf,
    /// libclscope_audit.so, if it was built.
    pub shim: Option<PathBuf>,
}

/// Finds them: where `named` (the value of [`LIBRARY`]) says, else beside the program `own`.
///
/// # Errors
/// If they are not there.
pub fn find(own: &Path, named: Option<&Path>) -> Result<Libraries, LibraryError> {
    let resolved = |path: &Path| {
        std::fs::canonicalize(path)
            .map_err(|source| LibraryError::Resolve { path: path.to_owned(), source })
    };
    let recorder = match named {
        Some(path) if path.is_file() => path.to_path_buf(),
        Some(path) => return Err(LibraryError::Named(path.to_owned())),
        None => {
            let own = resolved(own)?;
            let folder = own.parent().unwrap_or(Path::new("/"));
            let places = [
                folder.join(RECORDER),
                folder.join("../lib").join(RECORDER),
                folder.join("../lib/clscope").join(RECORDER),
            ];
            match places.iter().find(|path| path.is_file()) {
                Some(path) => path.clone(),
                None => return Err(LibraryError::Missing(places.to_vec())),
            }
        }
    };
    let recorder = resolved(&recorder)?;
    let shim = recorder.with_file_name(SHIM);
    Ok(Libraries { shim: shim.is_file().then_some(shim), recorder })
}

/// Refuses a path that the loader's environment variables cannot carry: spaces and colons separate
/// entries there, and `$` begins a name that ld.so replaces (ld.so(8)).
///
/// # Errors
/// What is wrong with it.
pub fn check_path(path: &Path) -> Result<&str, LibraryError> {
    let text = path.to_str().ok_or_else(|| LibraryError::NotText(path.to_owned()))?;
    match text.chars().find(|c| c.is_whitespace() || matches!(c, ':' | ';' | '$')) {
        Some(bad) => Err(LibraryError::Uncarried { path: text.to_owned(), bad }),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_beside_itself_then_in_lib() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let own = root.join("bin/clscope");
        for folder in ["bin", "lib/clscope"] {
            std::fs::create_dir_all(root.join(folder)).unwrap();
        }
        std::fs::write(&own, "").unwrap();
        let text = find(&own, None).unwrap_err().to_string();
        for part in [
            "bin/libclscope.so",
            "lib/libclscope.so",
            "lib/clscope/libclscope.so",
            "cargo build --release",
            LIBRARY,
        ] {
            assert!(text.contains(part), "{text}");
        }
        for place in ["lib/clscope/libclscope.so", "lib/libclscope.so", "bin/libclscope.so"] {
            std::fs::write(root.join(place), "").unwrap();
            assert_eq!(
                find(&own, None).unwrap(),
                Libraries { recorder: root.join(place), shim: None }
            );
        }
        std::fs::write(root.join("bin/libclscope_audit.so"), "").unwrap();
        assert_eq!(find(&own, None).unwrap().shim, Some(root.join("bin/libclscope_audit.so")));
        assert_eq!(
            find(&own, Some(&root.join("lib/libclscope.so"))).unwrap().recorder,
            root.join("lib/libclscope.so")
        );
        assert!(find(&own, Some(&root.join("none.so"))).is_err());
    }

    #[test]
    fn paths_that_ld_so_would_split_are_refused() {
        assert!(check_path(Path::new("/opt/clscope/libclscope.so")).is_ok());
        for bad in ["/my tools/l.so", "/a:b/l.so", "/$HOME/l.so"] {
            assert!(check_path(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
