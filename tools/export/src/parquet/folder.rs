//! Owns where parts lie: `TABLE/PART.parquet`, or `TABLE/PART@HOST@RANK.parquet`. Every rank may add its own to one folder, where they appear together and
//! whole. Refuses a folder that holds something else, or parts of another schema.

use super::schema::{SCHEMA, Table};
use crate::ExportError;
use clscope_io::input;
use clscope_io::output::{Access, Whole, create_dir, own_directory, replaceable};
use std::fs::Permissions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The file that says what the folder is.
const MARKER: &str = "clscope-data.json";
/// Most bytes of it.
const MARKER_BYTES: u64 = 1 << 16;
/// Most bytes of a part of a file's name.
const MOST_NAME: usize = 100;

/// Whether a path is a folder of tables.
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

/// A folder of tables. Parts are written to a hidden folder, and get their places together at the
/// end: a folder that an export did not finish has none of its parts.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Beside a new folder, inside one that is there.
    stage: TempDir,
    /// Parts below both.
    parts: Vec<PathBuf>,
}

impl Folder {
    /// Begins parts of a folder that is to be made, or holds parts of this schema.
    ///
    /// # Errors
    /// If it is somebody else's, holds something else, or nothing can be made there.
    pub fn open(path: &Path) -> Result<Self, ExportError> {
        let is_new = match std::fs::symlink_metadata(path) {
            Ok(_) => {
                usable(path)?;
                false
            }
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(error) => return Err(error.into()),
        };
        let name = path.file_name().filter(|_| is_new);
        let mut prefix = std::ffi::OsString::from(".");
        prefix.push(name.unwrap_or("clscope".as_ref()));
        prefix.push(".");
        let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let at = if name.is_some() { beside.unwrap_or(Path::new(".")) } else { path };
        let stage = tempfile::Builder::new()
            .prefix(&prefix)
            .suffix(".partial")
            .permissions(Permissions::from_mode(Access::Umask.directory()))
            .tempdir_in(at)?;
        Ok(Self { path: path.to_owned(), stage, parts: Vec::new() })
    }

    /// The path of a part for now; its folder is made.
    ///
    /// # Errors
    /// If its folder cannot be made.
    pub fn part(
        &mut self,
        table: &Table,
        host: &str,
        rank: Option<u32>,
        part: &str,
    ) -> Result<PathBuf, ExportError> {
        let mut place = PathBuf::from(table.name);
        directories(self.stage.path(), &place)?;
        let mut name = escaped(part);
        if table.by_rank {
            let rank = rank.map_or_else(String::new, |rank| rank.to_string());
            name += &format!("@{}@{rank}", escaped(host));
        }
        place.push(format!("{name}.parquet"));
        let path = self.stage.path().join(&place);
        self.parts.push(place);
        Ok(path)
    }

    /// Gives all parts their places, in the stead of what has them. They must be whole.
    ///
    /// # Errors
    /// If a place is not this export's to take, or cannot be made: then none was taken.
    pub fn finish(self) -> Result<(), ExportError> {
        if std::fs::symlink_metadata(&self.path).is_err() {
            mark(self.stage.path())?;
            match std::fs::rename(self.stage.path(), &self.path) {
                Ok(()) => {
                    // It is where it belongs, and no more to be removed.
                    let _ = self.stage.keep();
                    return Ok(());
                }
                // Another rank was first.
                Err(error) if self.path.is_dir() => drop(error),
                Err(error) => return Err(error.into()),
            }
        }
        if !usable(&self.path)? {
            mark(&self.path)?;
        }
        for part in &self.parts {
            if let Some(folder) = part.parent() {
                directories(&self.path, folder)?;
            }
            replaceable(&self.path.join(part))?;
        }
        for part in &self.parts {
            std::fs::rename(self.stage.path().join(part), self.path.join(part))?;
        }
        Ok(())
    }
}

/// Whether a folder that is there says that it holds tables. One that does not may be empty but for
/// hidden files: ranks that begin at the same moment have theirs on the way.
fn usable(path: &Path) -> Result<bool, ExportError> {
    own_directory(path)?;
    match known_schema(path) {
        Ok(()) => Ok(true),
        Err(ExportError::Write(error)) if error.kind() == ErrorKind::NotFound => {
            let foreign = std::fs::read_dir(path)?.filter_map(Result::ok).any(|entry| {
                let name = entry.file_name();
                name != MARKER && !name.as_encoded_bytes().starts_with(b".")
            });
            // Another rank may have written the mark since.
            match foreign && !path.join(MARKER).exists() {
                true => Err(ExportError::ForeignFolder { path: path.to_owned() }),
                false => Ok(false),
            }
        }
        Err(error) => Err(error),
    }
}

fn mark(folder: &Path) -> Result<(), ExportError> {
    let mut out = Whole::create(&folder.join(MARKER), Access::Umask)?;
    let version = env!("CARGO_PKG_VERSION");
    writeln!(out, "{{\"schema\": {SCHEMA}, \"clscope\": \"{version}\"}}")?;
    Ok(out.finish()?)
}

/// Makes the levels of `place` below `root`, where they are not there.
fn directories(root: &Path, place: &Path) -> std::io::Result<()> {
    let mut path = root.to_owned();
    place.components().try_for_each(|level| {
        path.push(level);
        directory(&path)
    })
}

fn directory(path: &Path) -> std::io::Result<()> {
    match create_dir(path, Access::Umask) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => own_directory(path),
        other => other,
    }
}

/// Whatever a trace calls itself, as a part of a file's name: other bytes than letters, digits and
/// `._-` as two hexadecimal digits behind a tilde. A slash becomes a dash, a long name is cut.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if out.len() >= MOST_NAME {
            break;
        }
        match byte {
            b'/' => out.push('-'),
            b'.' if out.is_empty() => out.push_str("~2E"),
            // Engines leave out what begins with an underscore.
            b'_' if out.is_empty() => out.push_str("~5F"),
            b'.' | b'_' | b'-' => out.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => out.push(byte.into()),
            _ => out.push_str(&format!("~{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parquet::schema::table;

    #[test]
    fn names_cannot_leave_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let mut folder = Folder::open(&root.path().join("data")).unwrap();
        let path =
            folder.part(table("commands"), "../ü b", Some(3), "../../x.clscope/1-0").unwrap();
        let below = path.strip_prefix(folder.stage.path()).unwrap();
        let want = "commands/~2E.-..-x.clscope-1-0@~2E.-~C3~BC~20b@3.parquet";
        assert_eq!(below, Path::new(want));
        let path = folder.part(table("commands"), "", None, "p").unwrap();
        assert!(path.ends_with("commands/p@@.parquet"), "{path:?}");
        assert!(folder.part(table("meta"), "h", Some(1), "p").unwrap().ends_with("meta/p.parquet"));
    }

    /// Names in a folder, in order.
    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn parts_appear_together_or_not_at_all() {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        let part = |name: &str, text: &str| {
            let mut folder = Folder::open(&data).unwrap();
            std::fs::write(folder.part(table("meta"), "", None, name).unwrap(), text).unwrap();
            folder
        };
        // Given up, nothing is left; so is one whose process says nothing more.
        drop(part("a", "half"));
        assert_eq!(names(root.path()), [""; 0]);
        // Two that begin before the folder is there both get in.
        let (first, second) = (part("a", "a"), part("b", "b"));
        assert_eq!(names(root.path()).len(), 2);
        first.finish().unwrap();
        second.finish().unwrap();
        assert_eq!(names(root.path()), ["data"]);
        assert_eq!(names(&data), [MARKER, "meta"]);
        assert_eq!(names(&data.join("meta")), ["a.parquet", "b.parquet"]);
        // A part is replaced, unless the export is given up.
        drop(part("a", "half"));
        part("a", "anew").finish().unwrap();
        assert_eq!(std::fs::read_to_string(data.join("meta/a.parquet")).unwrap(), "anew");
        // A place that is somebody else's keeps all where it was.
        let link = data.join("meta/z.parquet");
        std::os::unix::fs::symlink(root.path().join("precious"), &link).unwrap();
        let mut folder = part("a", "third");
        std::fs::write(folder.part(table("meta"), "", None, "z").unwrap(), "z").unwrap();
        assert!(folder.finish().unwrap_err().to_string().contains("symbolic link"));
        assert_eq!(std::fs::read_to_string(data.join("meta/a.parquet")).unwrap(), "anew");
        assert_eq!(names(&data), [MARKER, "meta"]);
        assert!(!root.path().join("precious").exists());
        // An empty folder that is there is filled; its owner chose who may read it.
        let empty = root.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        let mut folder = Folder::open(&empty).unwrap();
        std::fs::write(folder.part(table("meta"), "", None, "a").unwrap(), "a").unwrap();
        assert_eq!(names(&empty).len(), 1);
        folder.finish().unwrap();
        assert_eq!(names(&empty), [MARKER, "meta"]);
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
