//! Files of device parameters: where `clscope bench model` keeps them, and which is of a device.
//! Owns the names in their folder and the choice; refuses another device's or driver's file unless
//! the user insists, and to follow a link out of the folder.

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
    /// It would take the place of parameters of another driver.
    #[error(
        "{} keeps parameters that were measured under driver {driver}; `clscope bench model --show --format json` prints them, and --force replaces them",
        path.display()
    )]
    Kept {
        /// The file.
        path: PathBuf,
        /// The driver of what is kept.
        driver: String,
    },
    /// The parameters have no form.
    #[error("cannot write the device's parameters")]
    Json(#[source] serde_json::Error),
}

/// The parameters of all devices in a folder. What is no such file is left out: no one asked for it
/// by name.
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
        Ok(()) => Ok(device),
        Err(_) if force => Ok(Device { forced: true, ..device }),
        Err(source) => Err(FileError::Other { path: path.to_owned(), source }),
    }
}

/// What is kept of a device in a file, if there is anything; of another driver where `force` says
/// so. A file that is unusable is told of, and left out.
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
            Err(Refused::Driver { .. }) if force => Some(Device { forced: true, ..device }),
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

/// Whether a file may take the place of what is kept at `path`: not of parameters that were
/// measured under another driver, which nobody could measure again, unless `force` says so.
///
/// # Errors
/// Whose they are.
pub fn replaceable(path: &Path, device: &Device, force: bool) -> Result<(), FileError> {
    let Ok(bytes) = input::read_inside(path, MOST_BYTES) else { return Ok(()) };
    let Ok(kept) = Device::read(&bytes) else { return Ok(()) };
    // `bench idle` alone keeps a file without parameters.
    if force || kept.parameters.is_empty() || kept.driver.trim() == device.driver.trim() {
        return Ok(());
    }
    Err(FileError::Kept { path: path.to_owned(), driver: kept.driver })
}

/// The kept parameters whose device's name holds `part`, in whatever case.
pub fn named(folder: &Path, part: &str) -> Vec<Device> {
    let part = part.to_lowercase();
    all(folder).into_iter().filter(|d| d.name.to_lowercase().contains(&part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::round;

    #[test]
    fn what_is_forced_says_so_and_no_file_keeps_that() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("round.json");
        write(&round(), &path).unwrap();
        assert!(matches!(read_of(&path, "Square", "2", false), Err(FileError::Other { .. })));
        let forced = read_of(&path, "Square", "2", true).unwrap();
        assert_eq!(forced.forced().as_deref(), Some("parameters of Round, driver 1.0"));
        assert_eq!(read_of(&path, "Round", "1.0", true).unwrap().forced(), None);
        let told = std::cell::Cell::new(0);
        let tell = |_: &str| told.set(told.get() + 1);
        assert!(kept(&path, "Round", "2", true, &tell).unwrap().forced);
        assert!(kept(&path, "Round", "2", false, &tell).is_none() && told.get() == 1);
        assert!(!forced.text().unwrap().contains("forced"));
    }

    #[test]
    fn another_drivers_parameters_are_not_overwritten_and_all_are_found_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("round.json");
        assert!(replaceable(&path, &round(), false).is_ok(), "nothing is kept");
        write(&round(), &path).unwrap();
        assert!(replaceable(&path, &round(), false).is_ok());
        let newer = Device { driver: "2.0".to_owned(), ..round() };
        let why = replaceable(&path, &newer, false).unwrap_err().to_string();
        assert!(why.contains("driver 1.0") && why.contains("--force"), "{why}");
        assert!(replaceable(&path, &newer, true).is_ok());
        assert_eq!(named(folder.path(), "rou").len(), 1);
        assert!(named(folder.path(), "H100").is_empty());
    }
}
