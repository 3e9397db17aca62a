//! Lines of what was measured, added to a trace's file. Owns that a line is there whole or not at
//! all, whatever ends this process or fills the disk. Refuses to read them back.

use clscope_capture::system;
use clscope_io::output::{self, Access};
use clscope_profile::measured::{MEASURED, Measured};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes that are looked at in one step for the end of the last whole line.
const STEP: u64 = 1 << 16;

/// The file, to which lines are added.
#[derive(Debug)]
pub struct MeasuredFile {
    path: PathBuf,
    file: File,
    /// Where the next line begins.
    end: u64,
}

/// Why a line is not there.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {path}{}", what_helps(.source))]
pub struct MeasuredFileError {
    path: String,
    source: io::Error,
}

/// What to do about a trace that this user may not write to.
fn what_helps(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "; take a copy of the trace (cp -r), which is yours, and measure that"
        }
        _ => "",
    }
}

impl MeasuredFile {
    /// Opens the file of a trace, or makes it. What an earlier process left of a line is taken away.
    ///
    /// # Errors
    /// If it cannot be made or written, is another user's, or is no regular file.
    pub fn open(trace: &Path) -> Result<Self, MeasuredFileError> {
        let path = trace.join(MEASURED);
        let failed = |source| MeasuredFileError { path: path.display().to_string(), source };
        let file = open(&path, Access::within(trace)).map_err(failed)?;
        system::lock(&file).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                failed(io::Error::other("another clscope measures launches of this trace"))
            }
            _ => failed(error),
        })?;
        let end = whole(&file).map_err(failed)?;
        file.set_len(end).map_err(failed)?;
        Ok(Self { path, file, end })
    }

    /// Adds a line.
    ///
    /// # Errors
    /// If there is no room for all of it: then none of it is there.
    pub fn add(&mut self, row: &Measured) -> Result<(), MeasuredFileError> {
        let mut line = Vec::new();
        let written =
            serde_json::to_writer(&mut line, row).map_err(io::Error::from).and_then(|()| {
                line.write_all(b"\n")?;
                self.file.write_all_at(&line, self.end)
            });
        match written {
            Ok(()) => {
                self.end += line.len() as u64;
                Ok(())
            }
            Err(source) => {
                // Where that fails, too, the next who opens it does.
                let _ = self.file.set_len(self.end);
                Err(MeasuredFileError { path: self.path.display().to_string(), source })
            }
        }
    }
}

fn open(path: &Path, access: Access) -> io::Result<File> {
    let there = || {
        let mut options = OpenOptions::new();
        options.read(true).write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        options.open(path)
    };
    let file = match output::create_new(path, access) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => there()?,
        made => return made,
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(output::Refused::Not("regular file").into());
    }
    match (found.uid(), output::user()) {
        (owner, user) if owner == user => Ok(file),
        (owner, user) => Err(output::Refused::Foreign { owner, user }.into()),
    }
}

/// Where the last whole line ends.
fn whole(file: &File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut bytes = Vec::new();
    while end > 0 {
        let from = end.saturating_sub(STEP);
        bytes.resize((end - from) as usize, 0);
        file.read_exact_at(&mut bytes, from)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_profile::measured::{SCHEMA, Which, read};

    fn row(note: &str) -> Measured {
        Measured {
            schema: SCHEMA,
            launch: Which { global: vec![1], ..Which::default() },
            notes: vec![note.to_owned()],
            ..Measured::default()
        }
    }

    #[test]
    fn what_is_left_of_a_line_is_taken_away_and_whole_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(MEASURED);
        let long = "x".repeat(2 * STEP as usize);
        let rows = [row("a"), row(&long), row("c")];
        let mut kept = MeasuredFile::open(folder.path()).unwrap();
        rows.iter().for_each(|row| kept.add(row).unwrap());
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 1, 10, STEP as usize + 7, whole.len() - 1, whole.len()] {
            drop(kept);
            std::fs::write(&path, &whole[..cut]).unwrap();
            let before = whole[..cut].iter().filter(|byte| **byte == b'\n').count();
            kept = MeasuredFile::open(folder.path()).unwrap();
            kept.add(&rows[2]).unwrap();
            assert!(
                MeasuredFile::open(folder.path())
                    .unwrap_err()
                    .to_string()
                    .contains("measured.jsonl")
            );
            let (found, wrong) = read(folder.path()).unwrap();
            assert_eq!((found.len(), wrong), (before + 1, Vec::new()), "{cut}");
            assert_eq!(found.last(), Some(&rows[2]));
        }
    }

    #[test]
    fn links_and_folders_in_its_place_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(MEASURED);
        let other = folder.path().join("other");
        std::fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(MeasuredFile::open(folder.path()).is_err());
        assert_eq!(std::fs::read(&other).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(MeasuredFile::open(folder.path()).is_err());
    }
}
