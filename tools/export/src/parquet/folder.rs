//! Owns where parts lie: `TABLE/PART.parquet`, or `TABLE/host=H/rank=R/PART.parquet`, as engines
//! expect partitions. Every rank may add its own to one folder. Refuses a folder that holds
//! something else, or parts of another schema.

use super::schema::{SCHEMA, Table};
use crate::ExportError;
use clscope_io::input;
use clscope_io::output::{Access, Whole, create_dir, own_directory};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The file that says what the folder is.
const MARKER: &str = "clscope-data.json";
/// Most bytes of it.
const MARKER_BYTES: u64 = 1 << 16;
/// What engines read as null in the name of a partition.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Whether a path is a folder of tables.
#[must_use]
pub fn is_folder(path: &Path) -> bool {
    path.join(MARKER).is_file()
}

/// Whether a folder's tables are of the schema that this version writes and asks.
///
/// # Errors
/// If they are of another, or the folder does not say.
pub fn known_schema(path: &Path) -> Result<(), ExportError> {
    let bytes = input::read_inside(&path.join(MARKER), MARKER_BYTES)?;
    let found: Option<serde_json::Value> = serde_json::from_slice(&bytes).ok();
    let found = found.and_then(|f| f.get("schema")?.as_u64());
    if found == Some(SCHEMA.into()) {
        return Ok(());
    }
    Err(ExportError::OtherSchema { path: path.to_owned(), found, own: SCHEMA })
}

/// A folder of tables.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder, or takes one that holds parts of this schema.
    ///
    /// # Errors
    /// If it is somebody else's, holds something else, or cannot be made.
    pub fn open(path: &Path) -> Result<Self, ExportError> {
        directory(path)?;
        let marker = path.join(MARKER);
        match known_schema(path) {
            Ok(()) => {}
            Err(ExportError::Write(error)) if error.kind() == ErrorKind::NotFound => {
                // Ranks that begin at the same moment may each write the mark; hidden files are
                // theirs on the way.
                let foreign = std::fs::read_dir(path)?.filter_map(Result::ok).any(|entry| {
                    let name = entry.file_name();
                    name != MARKER && !name.as_encoded_bytes().starts_with(b".")
                });
                if foreign && !marker.exists() {
                    return Err(ExportError::ForeignFolder { path: path.to_owned() });
                }
                let mut out = Whole::create(&marker, Access::Umask)?;
                let version = env!("CARGO_PKG_VERSION");
                writeln!(out, "{{\"schema\": {SCHEMA}, \"clscope\": \"{version}\"}}")?;
                out.finish()?;
            }
            Err(error) => return Err(error),
        }
        Ok(Self { path: path.to_owned() })
    }

    /// The path of a part, whose folder is made.
    ///
    /// # Errors
    /// If its folder cannot be made.
    pub fn part(
        &self,
        table: &Table,
        host: &str,
        rank: Option<u32>,
        part: &str,
    ) -> Result<PathBuf, ExportError> {
        let mut path = self.path.join(table.name);
        directory(&path)?;
        if table.by_rank {
            let host = if host.is_empty() { NULL.to_owned() } else { escaped(host, '%') };
            let rank = rank.map_or_else(|| NULL.to_owned(), |rank| rank.to_string());
            for level in [format!("host={host}"), format!("rank={rank}")] {
                path.push(level);
                directory(&path)?;
            }
        }
        Ok(path.join(format!("{}.parquet", escaped(part, '~'))))
    }
}

fn directory(path: &Path) -> std::io::Result<()> {
    match create_dir(path, Access::Umask) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => own_directory(path),
        other => other,
    }
}

/// Whatever a trace calls itself, as a part of a file's name: other bytes than letters, digits and
/// `._-` as two hexadecimal digits behind `mark`. A slash becomes a dash, a long name is cut.
fn escaped(text: &str, mark: char) -> String {
    let mut out = String::new();
    for byte in text.bytes().take(100) {
        match byte {
            b'/' => out.push('-'),
            b'.' if out.is_empty() => out.push_str(&format!("{mark}2E")),
            b'.' | b'_' | b'-' => out.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            _ => out.push_str(&format!("{mark}{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::schema::{COMMANDS, META};

    #[test]
    fn names_cannot_leave_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = Folder::open(&root.path().join("data")).unwrap();
        let path = folder.part(&COMMANDS, "../ü b", Some(3), "../../x.clscope/1-0").unwrap();
        let below = path.strip_prefix(root.path().join("data")).unwrap();
        let want = "commands/host=%2E.-%C3%BC%20b/rank=3/~2E.-..-x.clscope-1-0.parquet";
        assert_eq!(below, Path::new(want));
        let path = folder.part(&COMMANDS, "", None, "p").unwrap();
        assert!(path.ends_with(format!("host={NULL}/rank={NULL}/p.parquet")), "{path:?}");
        assert!(folder.part(&META, "h", Some(1), "p").unwrap().ends_with("data/meta/p.parquet"));
        // Parts of another trace are added.
        Folder::open(&root.path().join("data")).unwrap();
    }

    #[test]
    fn other_folders_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let refused = || Folder::open(root.path()).unwrap_err().to_string();
        std::fs::write(root.path().join("mine.txt"), "").unwrap();
        assert!(refused().contains("no data set"), "{}", refused());
        std::fs::write(root.path().join(MARKER), "{\"schema\": 99}").unwrap();
        assert!(refused().contains("schema 99"), "{}", refused());
        std::fs::write(root.path().join(MARKER), "junk").unwrap();
        assert!(refused().contains("schema"), "{}", refused());
        let link = root.path().join("link");
        std::os::unix::fs::symlink(root.path(), &link).unwrap();
        assert!(Folder::open(&link).unwrap_err().to_string().contains("symbolic link"));
    }
}
