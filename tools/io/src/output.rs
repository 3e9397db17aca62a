//! Making files and directories where others may write too. Owns that what is made is new, is ours,
//! and appears whole: a name that is taken already is never written through, whether by a file, a
//! link or a pipe. Refuses to delete what it did not make.
//!
//! The last part of a path is safe against links and files planted there. The directories above it
//! are the user's choice: who can rename those can take everything in them.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Who may read what is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Its owner alone: 0600 and 0700.
    #[default]
    Private,
    /// Whom the process's umask lets: 0666 and 0777 without its bits.
    Umask,
}

impl Access {
    /// What a directory is for: where it lets others in, so do the files that are made in it. One
    /// that cannot be looked at is private.
    pub fn within(directory: &Path) -> Self {
        let open = std::fs::metadata(directory).is_ok_and(|found| found.mode() & 0o055 != 0);
        if open { Self::Umask } else { Self::Private }
    }

    /// Mode of a file.
    pub fn file(self) -> u32 {
        if self == Access::Private { 0o600 } else { 0o666 }
    }

    /// Mode of a directory.
    pub fn directory(self) -> u32 {
        if self == Access::Private { 0o700 } else { 0o777 }
    }
}

/// Why nothing is written to a place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum Refused {
    /// It belongs to another user.
    #[error("it belongs to the user with id {owner}, not to the one who runs this ({user})")]
    Foreign { owner: u32, user: u32 },
    /// Others may change what is in it.
    #[error(
        "other users may write to it (its mode is {mode:04o}): `chmod o-w` takes that from them; where \
         the file system keeps no modes, --shared accepts it"
    )]
    Open { mode: u32 },
    /// It is a symbolic link, which may lead anywhere.
    #[error("it is a symbolic link: name what it leads to")]
    Link,
    /// It is there and no regular file, or no directory where one is needed.
    #[error("it is there already and is no {0}")]
    Not(&'static str),
    /// The path ends in no name.
    #[error("it names no file")]
    NoName,
}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        io::Error::new(io::ErrorKind::PermissionDenied, refused)
    }
}

/// The effective user of this process.
pub fn user() -> u32 {
    // SAFETY: geteuid takes nothing, cannot fail and touches no memory of ours.
    unsafe { libc::geteuid() }
}

/// Makes a file that was not there, open for reading and writing. Symbolic links at its name count
/// as being there, also broken ones.
///
/// # Errors
/// `AlreadyExists`, and the system's others.
pub fn create_new(path: &Path, access: Access) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(access.file()).open(path)
}

/// Makes a directory that was not there.
///
/// # Errors
/// `AlreadyExists`, and the system's others.
pub fn create_dir(path: &Path, access: Access) -> io::Result<()> {
    DirBuilder::new().mode(access.directory()).create(path)
}

/// Whether a directory that is there may be filled: a directory itself, no link, and ours.
///
/// # Errors
/// The system's, and [`Refused`] inside a `PermissionDenied`.
pub fn own_directory(path: &Path) -> io::Result<()> {
    // With a slash behind it, a link would be looked through.
    let bare: PathBuf = path.components().collect();
    let found = std::fs::symlink_metadata(bare)?;
    if found.file_type().is_symlink() {
        return Err(Refused::Link.into());
    }
    if !found.is_dir() {
        return Err(Refused::Not("directory").into());
    }
    owned(found.uid())
}

/// Whether a directory is its owner's, and his group's, alone to change: in another one anybody can
/// put files under names that are ours to give, and take ours away.
///
/// # Errors
/// [`Refused::Open`] inside a `PermissionDenied`.
pub fn closed(directory: &std::fs::Metadata) -> io::Result<()> {
    match directory.mode() & 0o7777 {
        mode if mode & 0o002 != 0 => Err(Refused::Open { mode }.into()),
        _ => Ok(()),
    }
}

/// Whether a file may take a name: nothing has it, or a regular file of this user's.
///
/// # Errors
/// The system's, and [`Refused`] inside a `PermissionDenied`.
pub fn replaceable(target: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(target) {
        Ok(found) if found.file_type().is_symlink() => Err(Refused::Link.into()),
        Ok(found) if !found.is_file() => Err(Refused::Not("regular file").into()),
        Ok(found) => owned(found.uid()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn owned(owner: u32) -> io::Result<()> {
    match user() {
        user if user == owner => Ok(()),
        user => Err(Refused::Foreign { owner, user }.into()),
    }
}

/// A file under a temporary name beside its own; it is removed again unless it is finished.
#[derive(Debug)]
pub struct Whole {
    target: PathBuf,
    temporary: PathBuf,
    out: Option<BufWriter<File>>,
}

/// Tries at a temporary name: each is taken only if somebody means to be in the way.
const NAMES: u32 = 100;

impl Whole {
    /// Opens a new file in the directory of `target`. What `target` is now may be absent, or a
    /// regular file of this user's, which [`finish`](Self::finish) replaces.
    ///
    /// # Errors
    /// The system's, and [`Refused`] inside a `PermissionDenied`.
    pub fn create(target: &Path, access: Access) -> io::Result<Self> {
        let name = target.file_name().ok_or(Refused::NoName)?;
        replaceable(target)?;
        for number in 0..NAMES {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(format!(".{}.{number}", std::process::id()));
            let temporary = target.with_file_name(hidden);
            match create_new(&temporary, access) {
                Ok(file) => {
                    let out = Some(BufWriter::with_capacity(1 << 18, file));
                    return Ok(Self { target: target.to_owned(), temporary, out });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Gives the file its name, in the place of what had it.
    ///
    /// # Errors
    /// The system's; the temporary file is removed then.
    pub fn finish(mut self) -> io::Result<()> {
        let Some(mut out) = self.out.take() else { return Ok(()) };
        let done = out.flush().and_then(|()| std::fs::rename(&self.temporary, &self.target));
        done.inspect_err(|_| drop(std::fs::remove_file(&self.temporary)))
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.as_mut().map_or(Ok(0), |out| out.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if self.out.is_some() {
            // Nobody asked for half a file; one that cannot be removed is hidden.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn refusal(error: &io::Error) -> Option<&Refused> {
        error.get_ref()?.downcast_ref()
    }

    #[test]
    fn what_is_made_is_private_unless_asked() {
        let folder = tempfile::tempdir().unwrap();
        let (file, directory) = (folder.path().join("f"), folder.path().join("d"));
        create_new(&file, Access::Private).unwrap();
        create_dir(&directory, Access::Private).unwrap();
        assert_eq!((mode(&file), mode(&directory)), (0o600, 0o700));
        let again = create_new(&file, Access::Private).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(Access::within(&directory), Access::Private);
        std::fs::set_permissions(&directory, std::fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(Access::within(&directory), Access::Umask);
        assert_eq!(Access::within(&folder.path().join("none")), Access::Private);
    }

    #[test]
    fn a_directory_that_others_may_write_to_is_told_from_one_of_a_group() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, refused) in [(0o700, false), (0o775, false), (0o777, true), (0o1777, true)] {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
            let found = closed(&std::fs::metadata(folder.path()).unwrap());
            let expected = refused.then_some(Refused::Open { mode });
            assert_eq!(found.err().as_ref().and_then(refusal), expected.as_ref(), "{mode:o}");
        }
    }

    #[test]
    fn a_planted_link_is_never_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, target) = (folder.path().join("victim"), folder.path().join("out.json"));
        std::fs::write(&victim, "precious").unwrap();
        // At the name itself.
        symlink(&victim, &target).unwrap();
        let error = Whole::create(&target, Access::Umask).unwrap_err();
        assert_eq!(refusal(&error), Some(&Refused::Link));
        assert_eq!(
            create_new(&target, Access::Private).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        assert!(own_directory(&target).is_err());
        std::fs::remove_file(&target).unwrap();
        // At every temporary name that can be foreseen but one.
        for number in 0..NAMES - 1 {
            let name = format!(".out.json.{}.{number}", std::process::id());
            symlink(&victim, folder.path().join(name)).unwrap();
        }
        let mut whole = Whole::create(&target, Access::Umask).unwrap();
        whole.write_all(b"new").unwrap();
        whole.finish().unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    }

    #[test]
    fn half_a_file_is_removed_and_what_was_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        std::fs::write(&target, "before").unwrap();
        let mut whole = Whole::create(&target, Access::Umask).unwrap();
        whole.write_all(b"half").unwrap();
        drop(whole);
        assert_eq!(std::fs::read(&target).unwrap(), b"before");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_another_user_owns_or_is_no_file_is_refused() {
        // The root directory is root's: foreign to everybody else, and for root a directory of its
        // own.
        let root = own_directory(Path::new("/"));
        assert_eq!(root.is_ok(), user() == 0, "{root:?}");
        let error = owned(user().wrapping_add(1)).unwrap_err();
        assert!(matches!(refusal(&error), Some(Refused::Foreign { .. })), "{error}");
        let error = Whole::create(Path::new("/dev/null"), Access::Umask).unwrap_err();
        assert_eq!(refusal(&error), Some(&Refused::Not("regular file")));
        assert_eq!(
            refusal(&Whole::create(Path::new("/"), Access::Umask).unwrap_err()),
            Some(&Refused::NoName)
        );
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        create_dir(&real, Access::Private).unwrap();
        symlink(&real, &link).unwrap();
        own_directory(&real).unwrap();
        for path in [link.clone(), link.join("")] {
            assert_eq!(refusal(&own_directory(&path).unwrap_err()), Some(&Refused::Link));
        }
    }
}
