//! Files of the trace behind descriptors that the application may close or reuse: daemons close
//! what they do not know. A number is checked to be still our file before it is used, else the file
//! is opened again. Where the process may have few descriptors none is kept: a file is opened for
//! each write, and the application has them all.
//!
//! Names are looked up in the trace directory itself, whatever its path leads to meanwhile.

use crate::os::descriptors::{descriptors_to_spare, raised};
use crate::os::locks::lock::Mutex;
use crate::os::plain_write;
use crate::recording::files::access;
use clscope_io::output::{Access, closed, own_directory};
use clscope_trace::ring_file::attendance;
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

/// A descriptor that may be taken away.
struct Descriptor {
    file: Mutex<Option<ManuallyDrop<File>>>,
    /// Of the file that is kept, -1 of none: for those who take no lock.
    number: AtomicI32,
    identity: (u64, u64),
}

impl Descriptor {
    fn new(file: File) -> io::Result<Self> {
        let facts = file.metadata()?;
        let kept = descriptors_to_spare().then(|| ManuallyDrop::new(raised(file)));
        let number = AtomicI32::new(kept.as_ref().map_or(-1, |file| file.as_raw_fd()));
        Ok(Self { identity: (facts.dev(), facts.ino()), file: Mutex::new(kept), number })
    }

    fn is(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|m| (m.dev(), m.ino()) == self.identity)
    }

    /// Runs `job` on the file, opened by `again` if it is not kept or its descriptor is not ours
    /// any more.
    fn with<R>(
        &self,
        again: impl FnOnce() -> io::Result<File>,
        job: impl FnOnce(&File) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut kept = self.file.lock();
        if let Some(file) = kept.as_ref().filter(|file| self.is(file)) {
            return job(file);
        }
        let file = again()?;
        if !self.is(&file) {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the trace file was replaced"));
        }
        if kept.is_none() {
            return job(&file);
        }
        // The old number is somebody else's now: it must not be closed.
        let file = kept.insert(ManuallyDrop::new(raised(file)));
        self.number.store(file.as_raw_fd(), Ordering::Release);
        job(file)
    }

    /// Its descriptor, if one is kept and is still the file's. Takes no lock.
    fn number(&self) -> Option<RawFd> {
        let number = self.number.load(Ordering::Acquire);
        // SAFETY: an all-zero stat is valid and writable.
        let mut facts: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: as above; any number may be asked for.
        let known = number >= 0 && unsafe { libc::fstat(number, &mut facts) } == 0;
        (known && (facts.st_dev, facts.st_ino) == self.identity).then_some(number)
    }

    /// Closes the descriptor: from here on the file is opened for each use. The caller has just made
    /// it.
    fn let_go(&self) {
        self.number.store(-1, Ordering::Release);
        drop(self.file.lock().take().map(ManuallyDrop::into_inner));
    }

    /// Closes the descriptor, if it is still the file's.
    fn close(self) {
        if let Some(file) = self.file.into_inner() {
            let still = file.metadata().is_ok_and(|m| (m.dev(), m.ino()) == self.identity);
            if still {
                drop(ManuallyDrop::into_inner(file));
            }
        }
    }
}

/// The trace directory.
pub struct Folder {
    path: PathBuf,
    held: Descriptor,
}

impl Folder {
    /// A directory that is there, ours, no link, and not open to what others put into it, unless
    /// the trace is shared.
    ///
    /// # Errors
    /// What it is instead, or why it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Arc<Self>> {
        own_directory(path)?;
        let directory = Self::directory(path)?;
        let found = directory.metadata()?;
        // It may have been replaced in between.
        // SAFETY: no preconditions.
        if found.uid() != unsafe { libc::geteuid() } {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        if access() == Access::Private {
            closed(&found)?;
        }
        Ok(Arc::new(Self { path: path.to_owned(), held: Descriptor::new(directory)? }))
    }

    /// A directory in another, made where it is missing; ours, and no link. The caller is
    /// [`undisturbed`](crate::os::undisturbed::undisturbed).
    ///
    /// # Errors
    /// What is there instead, or the system's.
    pub fn inside(outer: &Self, name: &str) -> io::Result<Self> {
        let held = outer.with(|directory| {
            let (at, name) = (directory.as_raw_fd(), CString::new(name)?);
            // SAFETY: a descriptor that is open during the call, and a C string.
            if unsafe { libc::mkdirat(at, name.as_ptr(), access().directory()) } != 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::AlreadyExists {
                    return Err(error);
                }
            }
            let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
            // SAFETY: as above.
            let opened = unsafe { libc::openat(at, name.as_ptr(), flags) };
            if opened < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: just made, with no other owner.
            Ok(unsafe { File::from_raw_fd(opened) })
        })?;
        // SAFETY: no preconditions.
        if held.metadata()?.uid() != unsafe { libc::geteuid() } {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Self { path: outer.path.join(name), held: Descriptor::new(held)? })
    }

    /// Gives the descriptor back, if it is still the directory's.
    pub fn close(self) {
        self.held.close();
    }

    fn directory(path: &Path) -> io::Result<File> {
        // With a slash behind it, a link would be looked through.
        let bare: PathBuf = path.components().collect();
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        OpenOptions::new().read(true).custom_flags(flags).open(bare)
    }

    fn with<R>(&self, job: impl FnOnce(&File) -> io::Result<R>) -> io::Result<R> {
        self.held.with(|| Self::directory(&self.path), job)
    }

    /// Opens a file of this name, for reading and writing. Never through a link.
    fn file(&self, name: &str, flags: i32) -> io::Result<File> {
        let name = CString::new(name)?;
        let flags = flags | libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        self.with(|directory| {
            // SAFETY: a descriptor that is open during the call, and a C string.
            let made = unsafe {
                libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, access().file())
            };
            if made < 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: just made, with no other owner.
            Ok(unsafe { File::from_raw_fd(made) })
        })
    }

    /// Makes a file that was not there. The caller is
    /// [`undisturbed`](crate::os::undisturbed::undisturbed).
    ///
    /// # Errors
    /// `AlreadyExists`, and the system's others.
    pub fn create(&self, name: &str) -> io::Result<File> {
        self.file(name, libc::O_CREAT | libc::O_EXCL)
    }

    /// Whether another process of the same boot writes what rings hold to the segments of this trace.
    /// The caller is [`undisturbed`](crate::os::undisturbed::undisturbed).
    pub fn is_attended(&self, boot: &[u8; 16]) -> bool {
        let same = |text: Vec<u8>| {
            let id: String = boot.iter().map(|byte| format!("{byte:02x}")).collect();
            *boot != [0; 16] && text.starts_with(id.as_bytes())
        };
        let locked = |file: &File| {
            // SAFETY: a descriptor that is open during the call.
            let free = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) } == 0;
            !free && io::Error::last_os_error().kind() == io::ErrorKind::WouldBlock
        };
        self.read(attendance::FILE, 64).is_ok_and(same)
            && self.file(attendance::FILE, 0).is_ok_and(|file| locked(&file))
    }

    /// All of a file of this name, if it has no more bytes than `most`. The caller is
    /// [`undisturbed`](crate::os::undisturbed::undisturbed).
    ///
    /// # Errors
    /// `NotFound`, and the system's others.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = self.file(name, 0)?;
        let length = file.metadata()?.len();
        if length > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    /// Opens a file to append to it, made where it is missing. The caller is
    /// [`undisturbed`](crate::os::undisturbed::undisturbed).
    ///
    /// # Errors
    /// The system's.
    pub fn append(&self, name: &str) -> io::Result<File> {
        self.file(name, libc::O_CREAT | libc::O_APPEND)
    }

    /// Takes a name away.
    pub fn remove(&self, name: &str) {
        self.unlink(name, 0);
    }

    /// Takes the name of an empty folder away.
    pub fn remove_folder(&self, name: &str) {
        self.unlink(name, libc::AT_REMOVEDIR);
    }

    fn unlink(&self, name: &str, flags: i32) {
        let Ok(name) = CString::new(name) else { return };
        let _ = self.with(|directory| {
            // SAFETY: as in `file`.
            unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), flags) };
            Ok(())
        });
    }

    /// Bytes that its file system has for this process.
    ///
    /// # Errors
    /// The system's.
    pub fn free(&self) -> io::Result<u64> {
        self.with(|directory| {
            // SAFETY: all-zero is a value of it.
            let mut found: libc::statvfs = unsafe { std::mem::zeroed() };
            // SAFETY: a descriptor that is open during the call, and room for the answer.
            match unsafe { libc::fstatvfs(directory.as_raw_fd(), &mut found) } {
                0 => Ok(found.f_bavail.saturating_mul(found.f_frsize)),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }

    /// Gives a file another name, in place of what has it; a folder also in place of an empty one.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (CString::new(from)?, CString::new(to)?);
        self.with(|directory| {
            let at = directory.as_raw_fd();
            // SAFETY: as in `file`.
            match unsafe { libc::renameat(at, from.as_ptr(), at, to.as_ptr()) } {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            }
        })
    }
}

/// A file of the trace.
pub struct ReopenedFile {
    folder: Arc<Folder>,
    name: String,
    held: Descriptor,
}

impl ReopenedFile {
    /// Makes it. The caller is [`undisturbed`](crate::os::undisturbed::undisturbed).
    ///
    /// # Errors
    /// `AlreadyExists`, and the system's others.
    pub fn create(folder: &Arc<Folder>, name: String) -> io::Result<Self> {
        let held = Descriptor::new(folder.create(&name)?)?;
        Ok(Self { folder: Arc::clone(folder), name, held })
    }

    /// Its path, for messages.
    pub fn path(&self) -> PathBuf {
        self.folder.path.join(&self.name)
    }

    /// Runs `job` on the file. The caller is
    /// [`undisturbed`](crate::os::undisturbed::undisturbed).
    ///
    /// # Errors
    /// Those of `job`, and why the file cannot be opened again.
    pub fn with<R>(&self, job: impl FnOnce(&File) -> io::Result<R>) -> io::Result<R> {
        self.held.with(|| self.folder.file(&self.name, 0), job)
    }

    /// Its descriptor for what takes no lock and may be left in the middle, with room for `end`
    /// bytes in the file. `None` where there is none at the moment, or the process may not write as
    /// much: [`with`](Self::with) finds out why.
    pub fn number(&self, end: u64) -> Option<RawFd> {
        plain_write::fits(end).then(|| self.held.number()).flatten()
    }

    /// Gives the descriptor back that was just made, and keeps none.
    pub fn let_go(&self) {
        self.held.let_go();
    }

    /// Writes all of `bytes` at `offset`. The caller is
    /// [`undisturbed`](crate::os::undisturbed::undisturbed).
    ///
    /// # Errors
    /// The system's.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.with(|f| f.write_all_at(bytes, offset))
    }

    /// Gives the descriptor back, if it is still the file's.
    pub fn close(self) {
        self.held.close();
    }
}
