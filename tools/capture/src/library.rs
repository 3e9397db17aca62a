//! Owns where libclscope.so and the audit shim lie. Refuses to load them.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Names a recorder outside the usual places.
pub const LIBRARY: &str = "CLSCOPE_LIBRARY";
const RECORDER: &str = "libclscope.so";
const SHIM: &str = "libclscope_audit.so";

/// The recorder's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Libraries {
    /// libclscope.so.
    pub recorder: PathBuf,
    /// libclscope_audit.so, if it was built.
    pub shim: Option<PathBuf>,
}

/// Finds them: where the environment names a place, else beside this program.
pub fn find() -> Result<Libraries> {
    let own = std::env::current_exe()
        .and_then(std::fs::canonicalize)
        .context("cannot find the path of this program")?;
    find_from(&own, std::env::var_os(LIBRARY).map(PathBuf::from).as_deref())
}

fn find_from(own: &Path, named: Option<&Path>) -> Result<Libraries> {
    let recorder = match named {
        Some(path) if path.is_file() => path.to_path_buf(),
        Some(path) => {
            bail!("{LIBRARY} names {}, which is no file; unset it or correct it", path.display())
        }
        None => {
            let folder = own.parent().unwrap_or(Path::new("/"));
            let places = [
                folder.join(RECORDER),
                folder.join("../lib").join(RECORDER),
                folder.join("../lib/clscope").join(RECORDER),
            ];
            match places.iter().find(|path| path.is_file()) {
                Some(path) => path.clone(),
                None => bail!(
                    "cannot find the recorder {RECORDER}; looked at {}. Build it with `cargo build --release`, or name it in {LIBRARY}",
                    places.iter().map(|p| p.display().to_string()).collect::<Vec<_>>().join(", ")
                ),
            }
        }
    };
    let recorder = std::fs::canonicalize(&recorder)
        .with_context(|| format!("cannot resolve {}", recorder.display()))?;
    let shim = recorder.with_file_name(SHIM);
    Ok(Libraries { shim: shim.is_file().then_some(shim), recorder })
}

/// Refuses a path that the loader's environment variables cannot carry: spaces and colons separate
/// entries there, and `$` begins a name that ld.so replaces (ld.so(8)).
pub fn check_path(path: &Path) -> Result<&str> {
    let text =
        path.to_str().with_context(|| format!("the path {} is not UTF-8", path.display()))?;
    if let Some(bad) = text.chars().find(|c| c.is_whitespace() || matches!(c, ':' | ';' | '$')) {
        bail!(
            "the path {text} contains {bad:?}, which LD_PRELOAD cannot carry; copy the library elsewhere and name the copy in {LIBRARY}"
        );
    }
    Ok(text)
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
        let text = format!("{:#}", find_from(&own, None).unwrap_err());
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
                find_from(&own, None).unwrap(),
                Libraries { recorder: root.join(place), shim: None }
            );
        }
        std::fs::write(root.join("bin/libclscope_audit.so"), "").unwrap();
        assert_eq!(find_from(&own, None).unwrap().shim, Some(root.join("bin/libclscope_audit.so")));
        assert_eq!(
            find_from(&own, Some(&root.join("lib/libclscope.so"))).unwrap().recorder,
            root.join("lib/libclscope.so")
        );
        assert!(find_from(&own, Some(&root.join("none.so"))).is_err());
    }

    #[test]
    fn paths_that_ld_so_would_split_are_refused() {
        assert!(check_path(Path::new("/opt/clscope/libclscope.so")).is_ok());
        for bad in ["/my tools/l.so", "/a:b/l.so", "/$HOME/l.so"] {
            assert!(check_path(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
