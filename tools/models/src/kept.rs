//! Files of device parameters: where `clscope bench model` keeps them, and which is of a device.
//! Owns the names in their folder and the choice; refuses another device's or driver's file unless the
//! user insists, and to follow a link out of the folder.
#![forbid(unsafe_code)]

use crate::device::{Device, MOST_BYTES, Refused};
use clscope_io::input;
use clscope_io::output::{Access, Whole, own_directory};
use clscope_io::text::chain;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Most files of parameters that are looked through.
const MOST_KEPT: usize = 64;

/// A file of parameters cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read the device parameters in {}", path.display())]
    Unread {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is no such file.
    #[error("cannot read the device parameters in {}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Refused,
    },
    /// It is of another device or driver.
    #[error("cannot use {}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// Which.
        source: Refused,
    },
    /// Its folder cannot be made, or is not the user's own.
    #[error("cannot make the directory {}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It cannot be made.
    #[error("cannot write {}; choose another place", path.display())]
    Made {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It cannot be written.
    #[error("cannot write {}", path.display())]
    Written {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The parameters have no form.
    #[error("cannot write the device's parameters")]
    Json(#[source] serde_json::Error),
}

/// The parameters of all devices in a folder. What is no such file is left out: no one asked for it by
/// name.
#[must_use]
pub fn all(folder: &Path) -> Vec<Device> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .take(MOST_KEPT)
        .collect();
    files.sort();
    let read = |path: PathBuf| Device::read(&input::read_inside(&path, MOST_BYTES).ok()?).ok();
    files.into_iter().filter_map(read).collect()
}

/// Reads a file that the user named.
///
/// # Errors
/// If it cannot be read, or is no such file.
pub fn read(path: &Path) -> Result<Device, FileError> {
    let bytes = input::read(path, MOST_BYTES)
        .map_err(|source| FileError::Unread { path: path.to_owned(), source })?;
    Device::read(&bytes).map_err(|source| FileError::Syntax { path: path.to_owned(), source })
}

/// Reads a file that the user named, of this device and driver; of another where `force` says so.
///
/// # Errors
/// As of [`read`], and if it is of another device or driver.
pub fn read_of(path: &Path, name: &str, driver: &str, force: bool) -> Result<Device, FileError> {
    let device = read(path)?;
    match device.check(name, driver) {
        Err(source) if !force => Err(FileError::Other { path: path.to_owned(), source }),
        _ => Ok(device),
    }
}

/// What is kept of a device in a file, if there is anything; of another driver where `force` says so. A
/// file that is unusable is told of, and left out.
pub fn kept(
    path: &Path,
    name: &str,
    driver: &str,
    force: bool,
    tell: &dyn Fn(&str),
) -> Option<Device> {
    if !path.exists() {
        return None;
    }
    let found = input::read_inside(path, MOST_BYTES)
        .map_err(|error| error.to_string())
        .and_then(|bytes| Device::read(&bytes).map_err(|error| chain(&error)));
    match found {
        // `bench idle` alone keeps a file without parameters.
        Ok(device) if device.parameters.is_empty() => None,
        Ok(device) => match device.check(name, driver) {
            Ok(()) => Some(device),
            Err(Refused::Driver { .. }) if force => Some(device),
            Err(why) => {
                tell(&format!("warning: not using {}: {why}", path.display()));
                None
            }
        },
        Err(why) => {
            tell(&format!("warning: cannot use {}: {why}", path.display()));
            None
        }
    }
}

/// Makes the folder that a file is kept in; it must be the user's own, and no link.
///
/// # Errors
/// If it cannot be made, or is somebody else's.
pub fn make_folder(path: &Path) -> Result<(), FileError> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let made = std::fs::create_dir_all(folder).and_then(|()| own_directory(folder));
    made.map_err(|source| FileError::Folder { path: folder.to_owned(), source })
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// If it cannot be made or written.
pub fn write(device: &Device, path: &Path) -> Result<(), FileError> {
    let text = device.text().map_err(FileError::Json)?;
    let mut out = Whole::create(path, Access::Umask)
        .map_err(|source| FileError::Made { path: path.to_owned(), source })?;
    out.write_all(text.as_bytes())
        .and_then(|()| out.finish())
        .map_err(|source| FileError::Written { path: path.to_owned(), source })
}
