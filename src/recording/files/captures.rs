//! Folders of captured launches in the trace's folder `captures`. Each is written under a name that
//! says that it is not whole, and renamed when it is: a process that is killed leaves no folder
//! that looks whole. Owns their names and the room they take; refuses to know what is in them.
#![forbid(unsafe_code)]

use crate::os::undisturbed::undisturbed;
use crate::recording;
use crate::recording::files::reopened_file::Folder;
use clscope_trace::Checksum;
use clscope_trace::directory::{CAPTURES, DESCRIBED, PART, capture_folder};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Most captures of the same name in a trace.
const MOST_OF_A_NAME: u32 = 10_000;
/// Bytes that a file system keeps beside a capture: the trace goes on.
const LEFT_FREE: u64 = 1 << 20;

/// A capture that is being written. Dropped before it is [`whole`](Self::whole) it is removed.
pub struct Capture {
    captures: Option<Folder>,
    folder: Option<Folder>,
    /// Its name as long as it is not whole.
    part: String,
    /// Names of its files; bytes of those that are whole.
    files: Vec<(String, u64)>,
}

/// A file of a capture.
pub struct Written {
    file: File,
    length: u64,
    sum: Checksum,
}

impl Capture {
    /// Begins one that will take so many bytes, and leaves so many on the disk. `turn` is another
    /// number for each of the process.
    ///
    /// # Errors
    /// Why it cannot be written: no room, or the system's reason.
    pub fn begin(turn: u64, bytes: u64, left: u64) -> Result<Self, String> {
        let left = left.saturating_add(LEFT_FREE);
        let failed = |what: &str, error: io::Error| format!("{what} failed: {error}");
        let recording = recording::current().ok_or("nothing is recorded any more")?;
        let captures = undisturbed(|| Folder::inside(&recording.files.folder, CAPTURES))
            .map_err(|error| failed("making the folder captures", error))?;
        let mut out = Self {
            captures: None,
            folder: None,
            part: format!("{}-{turn}{PART}", recording.files.stem),
            files: Vec::new(),
        };
        let free = undisturbed(|| captures.free());
        let folder = undisturbed(|| Folder::inside(&captures, &out.part));
        out.captures = Some(captures);
        out.folder = Some(folder.map_err(|error| failed("making its folder", error))?);
        match free {
            Ok(free) if free < bytes.saturating_add(left) => Err(format!(
                "the disk has no room: {free} bytes are free, {bytes} are needed, and {left} are to stay free"
            )),
            _ => Ok(out),
        }
    }

    fn folder(&self) -> io::Result<&Folder> {
        self.folder.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Makes a file, to be written piece by piece.
    ///
    /// # Errors
    /// The system's.
    pub fn file(&mut self, name: &str) -> Result<Written, String> {
        let file = self.folder().and_then(|folder| undisturbed(|| folder.create(name)));
        let file = file.map_err(|error| format!("{name} cannot be written: {error}"))?;
        self.files.push((name.to_owned(), 0));
        Ok(Written { file, length: 0, sum: Checksum::new() })
    }

    /// Ends a file: the checksum of its bytes, as hex.
    pub fn end(&mut self, file: Written) -> String {
        if let Some((_, bytes)) = self.files.last_mut() {
            *bytes = file.length;
        }
        format!("{:016x}", file.sum.sum())
    }

    /// Writes a file.
    ///
    /// # Errors
    /// The system's.
    pub fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), String> {
        let mut file = self.file(name)?;
        file.add(bytes)?;
        self.end(file);
        Ok(())
    }

    /// Takes the other files away.
    pub fn keep(&mut self, is_kept: impl Fn(&str) -> bool) {
        let Some(folder) = &self.folder else { return };
        self.files.retain(|(name, _)| {
            let is_kept = is_kept(name);
            if !is_kept {
                undisturbed(|| folder.remove(name));
            }
            is_kept
        });
    }

    /// Gives it the name that says that it is whole, or that it describes a launch alone.
    ///
    /// # Errors
    /// The system's; then it is removed.
    pub fn whole(mut self, kernel: &str, launch: u64, is_described: bool) -> Result<Whole, String> {
        let ending = if is_described { DESCRIBED } else { "" };
        let Some(captures) = &self.captures else { return Err("it has no folder".to_owned()) };
        for turn in 0..MOST_OF_A_NAME {
            let folder = capture_folder(kernel, launch, turn) + ending;
            match undisturbed(|| captures.rename(&self.part, &folder)) {
                Ok(()) => {
                    self.close();
                    let files = std::mem::take(&mut self.files).into_iter();
                    let (files, sizes): (Vec<_>, Vec<_>) = files.unzip();
                    let bytes = sizes.into_iter().fold(0, u64::saturating_add);
                    return Ok(Whole { folder, files, bytes });
                }
                // Another process, or a kernel of a similar name, has it.
                Err(error) if taken(&error) => {}
                Err(error) => return Err(format!("naming its folder failed: {error}")),
            }
        }
        Err("too many captures have its name".to_owned())
    }

    fn close(&mut self) {
        for folder in [self.folder.take(), self.captures.take()].into_iter().flatten() {
            undisturbed(|| folder.close());
        }
    }
}

/// Appends to a file beside the captures.
///
/// # Errors
/// The system's.
pub fn append(name: &str, bytes: &[u8]) -> io::Result<()> {
    let recording = recording::current().ok_or(io::ErrorKind::NotFound)?;
    undisturbed(|| {
        let captures = Folder::inside(&recording.files.folder, CAPTURES)?;
        let written = captures.append(name).and_then(|mut file| file.write_all(bytes));
        captures.close();
        written
    })
}

/// A capture that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// Its name in the folder of captures.
    pub folder: String,
    /// Names of its files.
    pub files: Vec<String>,
    /// Bytes of all of them.
    pub bytes: u64,
}

impl Whole {
    /// Takes it away.
    pub fn remove(&self) {
        let Some(recording) = recording::current().filter(|r| !r.files.is_sandboxed()) else {
            return;
        };
        undisturbed(|| {
            let Ok(captures) = Folder::inside(&recording.files.folder, CAPTURES) else { return };
            if let Ok(folder) = Folder::inside(&captures, &self.folder) {
                self.files.iter().for_each(|name| folder.remove(name));
                folder.close();
            }
            captures.remove_folder(&self.folder);
            captures.close();
        });
    }
}

/// Whether a folder could not be renamed because there is one of the name.
fn taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::NotADirectory
    )
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let (Some(captures), Some(folder)) = (&self.captures, &self.folder) {
            undisturbed(|| {
                self.files.iter().for_each(|(name, _)| folder.remove(name));
                captures.remove_folder(&self.part);
            });
        }
        self.close();
    }
}

impl Written {
    /// Appends a piece; all but the last have a multiple of [`Checksum::STEP`] bytes. Of zeros nothing
    /// is written but the length: writing takes most of a capture's time, and results that no launch
    /// has written yet are zeros.
    ///
    /// # Errors
    /// The system's.
    pub fn add(&mut self, piece: &[u8]) -> Result<(), String> {
        let end = self.length + piece.len() as u64;
        undisturbed(|| match is_zero(piece) {
            true => self.file.set_len(end),
            false => self.file.write_all_at(piece, self.length),
        })
        .map_err(|error| format!("it cannot be written: {error}"))?;
        self.sum.add(piece);
        self.length = end;
        Ok(())
    }
}

/// Whether all of it is zeros: it begins with one, and each byte is like the next.
fn is_zero(piece: &[u8]) -> bool {
    piece
        .split_last()
        .zip(piece.split_first())
        .is_none_or(|((last, head), (_, tail))| *last == 0 && head == tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_zeros_take_no_room_and_files_are_as_long_and_read_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let step = Checksum::STEP * 4096;
        let pieces = [vec![0; step], vec![7; step], vec![0; step], vec![0; 5], vec![]];
        let name = folder.path().join("memory");
        let file = File::options().read(true).write(true).create_new(true).open(&name).unwrap();
        let mut written = Written { file, length: 0, sum: Checksum::new() };
        pieces.iter().for_each(|piece| written.add(piece).unwrap());
        let whole = pieces.concat();
        assert!(std::fs::read(&name).unwrap() == whole);
        assert_eq!(written.sum.sum(), clscope_trace::checksum(&whole));
        let blocks = std::os::unix::fs::MetadataExt::blocks(&written.file.metadata().unwrap());
        assert!(blocks * 512 < 2 * step as u64, "{blocks} blocks");
        assert!(is_zero(&[]) && is_zero(&[0]) && is_zero(&[0; 9]));
        assert!(!is_zero(&[1]) && !is_zero(&[0, 1, 0]) && !is_zero(&[1, 1, 1]));
    }
}
