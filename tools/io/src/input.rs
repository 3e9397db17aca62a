//! Opening files that come from elsewhere. Owns what may be opened at all: regular files, never a
//! pipe, a device or a socket, which block or do not end; and how many bytes are taken into memory.
//! Refuses to interpret a byte.
//!
//! A file that the user names is opened through symbolic links. One that is found in a directory
//! ([`open_inside`]) is not: recordings hold none, and a directory that was unpacked from an
//! archive must not lead to the reader's own files.
#![forbid(unsafe_code)]

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Most bytes of a file of text that is read whole: descriptions, metric sets, settings.
pub const TEXT: u64 = 64 << 20;

/// Files up to this size are read whatever they take on the disk, in bytes.
const SMALL: u64 = 64 << 20;
/// Larger ones may be so many times what they take on the disk: file systems compress, and a file
/// of nothing but a hole of a terabyte would be searched for hours.
const DENSITY: u64 = 16;

/// Why a file is not read, although it is there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum Refused {
    /// It is no regular file.
    #[error("it is {0}, and only regular files are read")]
    NotAFile(&'static str),
    /// It is nearly all hole.
    #[error("it has {size} bytes and takes {taken} on the disk: what is not there is not read")]
    Hole { size: u64, taken: u64 },
    /// It is larger than such a file can be.
    #[error("it has {size} bytes, and at most {most} are read of such a file")]
    TooLarge { size: u64, most: u64 },
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, refused)
    }
}

/// What something is, with its article.
pub fn kind(file: FileType) -> &'static str {
    match file {
        f if f.is_file() => "a file",
        f if f.is_dir() => "a directory",
        f if f.is_fifo() => "a pipe (FIFO)",
        f if f.is_socket() => "a socket",
        f if f.is_char_device() || f.is_block_device() => "a device",
        f if f.is_symlink() => "a symbolic link",
        _ => "no regular file",
    }
}

fn regular(file: FileType) -> io::Result<()> {
    if file.is_file() { Ok(()) } else { Err(Refused::NotAFile(kind(file)).into()) }
}

fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    // Pipes open at once for reading with O_NONBLOCK; regular files do not know the difference.
    let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    // What was looked at by name may be something else by now.
    regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Opens a regular file that the user named, for reading; symbolic links are followed.
///
/// # Errors
/// The system's, and [`Refused::NotAFile`] inside an `InvalidInput`.
pub fn open(path: &Path) -> io::Result<File> {
    // Some devices act on being opened: they are turned away before.
    regular(std::fs::metadata(path)?.file_type())?;
    open_with(path, 0)
}

/// Opens a regular file that was found in a directory of somebody's; a symbolic link is refused,
/// and so is a large file that is nearly all hole.
///
/// # Errors
/// As [`open`], and [`Refused::Hole`].
pub fn open_inside(path: &Path) -> io::Result<File> {
    regular(std::fs::symlink_metadata(path)?.file_type())?;
    let file = open_with(path, libc::O_NOFOLLOW)?;
    let found = file.metadata()?;
    // Some file systems do not say what a file takes.
    let (size, taken) = (found.len(), found.blocks().saturating_mul(512));
    if size > SMALL && taken > 0 && size / DENSITY > taken {
        return Err(Refused::Hole { size, taken }.into());
    }
    Ok(file)
}

/// All bytes of an open file, if they are no more than `most`. A file that grows meanwhile is held
/// to the bound, too.
///
/// # Errors
/// The system's, and [`Refused::TooLarge`] inside an `InvalidInput`.
pub fn bytes(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    if size > most {
        return Err(Refused::TooLarge { size, most }.into());
    }
    let mut out = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut out)?;
    match out.len() as u64 {
        size if size > most => Err(Refused::TooLarge { size, most }.into()),
        _ => Ok(out),
    }
}

/// All bytes of a file that the user named.
///
/// # Errors
/// As [`open`] and [`bytes`].
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bytes(&open(path)?, most)
}

/// All bytes of a file that was found in a directory.
///
/// # Errors
/// As [`open_inside`] and [`bytes`].
pub fn read_inside(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    bytes(&open_inside(path)?, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_testing::Limited;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn refusal(error: &io::Error) -> Option<&Refused> {
        error.get_ref()?.downcast_ref()
    }

    #[test]
    fn what_blocks_or_does_not_end_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).ended().status;
        assert!(made.success());
        let socket = folder.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        let device = folder.path().join("device");
        symlink("/dev/zero", &device).unwrap();
        for (path, what) in [
            (&pipe, "a pipe (FIFO)"),
            (&socket, "a socket"),
            (&device, "a device"),
            (&folder.path().to_owned(), "a directory"),
        ] {
            let error = read(path, TEXT).unwrap_err();
            assert_eq!(refusal(&error), Some(&Refused::NotAFile(what)), "{error}");
            assert!(open_inside(path).is_err());
        }
    }

    #[test]
    fn links_are_followed_only_where_the_user_named_them() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "text").unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(read(&link, 4).unwrap(), b"text");
        assert_eq!(read_inside(&file, 4).unwrap(), b"text");
        let error = open_inside(&link).unwrap_err();
        assert_eq!(refusal(&error), Some(&Refused::NotAFile("a symbolic link")), "{error}");
        assert_eq!(open(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn nothing_larger_than_the_bound_is_taken_into_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        // A hole: no disk, and no memory either.
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let error = read(&path, TEXT).unwrap_err();
        assert_eq!(refusal(&error), Some(&Refused::TooLarge { size: 1 << 40, most: TEXT }));
        // With a beginning that looks like something.
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().write_all(&[1; 4096]).unwrap();
        let error = open_inside(&path).unwrap_err();
        assert!(
            matches!(refusal(&error), Some(Refused::Hole { size: 0x100_0000_0000, .. })),
            "{error}"
        );
        // The file system says 0, and there is more.
        let error = read(Path::new("/proc/self/maps"), 10).unwrap_err();
        assert_eq!(refusal(&error), Some(&Refused::TooLarge { size: 11, most: 10 }));
    }
}
