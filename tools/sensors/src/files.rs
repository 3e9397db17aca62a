//! The only door to the file system: a trait, so that refusals can be played, and roots that can be
//! moved, so that emulated trees work. Read-only by construction: nothing here can write.

use crate::error::SensorError;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where the system's trees are mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
}

impl Default for Roots {
    fn default() -> Roots {
        Roots { sys: "/sys".into(), dev: "/dev".into(), proc: "/proc".into() }
    }
}

impl Roots {
    /// All three below one directory, as tests and recorded trees lay them out.
    pub fn below(root: &Path) -> Roots {
        Roots { sys: root.join("sys"), dev: root.join("dev"), proc: root.join("proc") }
    }
}

/// A file that can be read again from its start.
pub trait ReadAt: Send {
    /// Fills `buf` from `offset`; returns how much there was.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, offset)
    }
}

/// Read-only access to files.
pub trait Files: Send + Sync {
    /// The whole file as text.
    ///
    /// # Errors
    /// The system's.
    fn text(&self, path: &Path) -> io::Result<String>;

    /// Opens for repeated reading.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>>;

    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// The system's.
    fn list(&self, path: &Path) -> io::Result<Vec<String>>;

    /// The file name of what a symbolic link points at.
    ///
    /// # Errors
    /// The system's; `InvalidInput` where it is no link.
    fn link_target_name(&self, path: &Path) -> io::Result<String>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

/// The kernel's number for sysfs (linux/magic.h).
const SYSFS_MAGIC: libc::c_long = 0x6265_6572;

/// Whether the file lies on sysfs, which regenerates an attribute at every read from offset 0.
fn on_sysfs(file: &File) -> bool {
    // SAFETY: statfs is plain data; all-zero is a valid value of it.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open for as long as `file` lives; `stat` is writable and of the
    // right type.
    let rc = unsafe { libc::fstatfs(file.as_raw_fd(), &mut stat) };
    #[allow(clippy::unnecessary_cast)] // f_type differs between C libraries
    let kind = stat.f_type as libc::c_long;
    rc == 0 && kind == SYSFS_MAGIC
}

/// A file that is opened anew for each read: emulated trees replace files by renaming, and a kept
/// descriptor would show the old one for ever.
struct Reopened(PathBuf);

impl ReadAt for Reopened {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&File::open(&self.0)?, buf, offset)
    }
}

impl Files for System {
    fn text(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        let file = File::open(path)?;
        let is_plain = file.metadata()?.is_file();
        if is_plain && !on_sysfs(&file) {
            Ok(Box::new(Reopened(path.to_owned())))
        } else {
            Ok(Box::new(file))
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut names: Vec<String> = std::fs::read_dir(path)?
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        Ok(names)
    }

    fn link_target_name(&self, path: &Path) -> io::Result<String> {
        let target = std::fs::read_link(path)?;
        target
            .file_name()
            .and_then(|name| name.to_str())
            .map(str::to_owned)
            .ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))
    }
}

/// Turns a failure to open into the typed error, with `remedy` where access was refused.
pub(crate) fn open_error(
    what: &'static str,
    path: &Path,
    source: io::Error,
    detail: &str,
    remedy: &str,
) -> SensorError {
    match source.kind() {
        io::ErrorKind::NotFound => {
            SensorError::NotFound { what, path: path.to_owned(), remedy: None }
        }
        io::ErrorKind::PermissionDenied => SensorError::Denied {
            what,
            path: path.to_owned(),
            detail: detail.to_owned(),
            remedy: remedy.to_owned(),
        },
        _ => SensorError::Io { what, path: path.to_owned(), source },
    }
}

/// Turns a failure to read something that was open into the typed error.
pub(crate) fn read_error(what: &'static str, path: &Path, source: io::Error) -> SensorError {
    let gone = source.kind() == io::ErrorKind::NotFound
        || matches!(source.raw_os_error(), Some(libc::ENODEV | libc::ENXIO));
    if gone {
        SensorError::Vanished { what, path: path.to_owned() }
    } else {
        SensorError::Io { what, path: path.to_owned(), source }
    }
}

/// Reads a whole number from the start of an attribute file. An empty file is read once more:
/// emulated trees are written in two steps (cut, then filled), sysfs never shows one.
pub(crate) fn read_number(
    what: &'static str,
    file: &dyn ReadAt,
    path: &Path,
) -> Result<i64, SensorError> {
    let mut buf = [0u8; 64];
    let mut n = 0;
    for _ in 0..2 {
        n = file.read_at(&mut buf, 0).map_err(|e| read_error(what, path, e))?;
        if n > 0 {
            break;
        }
    }
    let text = buf.get(..n).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("\u{fffd}");
    text.trim().parse().map_err(|_| SensorError::malformed(what, path, text, "a whole number"))
}

/// As [`read_number`], for counters that never are negative.
pub(crate) fn read_count(
    what: &'static str,
    file: &dyn ReadAt,
    path: &Path,
) -> Result<u64, SensorError> {
    let number = read_number(what, file, path)?;
    u64::try_from(number).map_err(|_| {
        SensorError::malformed(what, path, &number.to_string(), "a number of at least 0")
    })
}

/// The trimmed text of a small file.
pub(crate) fn small_text(
    files: &dyn Files,
    what: &'static str,
    path: &Path,
) -> Result<String, SensorError> {
    match files.text(path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(source) => Err(open_error(what, path, source, "file permissions", "run as root")),
    }
}
