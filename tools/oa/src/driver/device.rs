//! The boundary to the kernel: a trait that makes calls and reads streams, and its real
//! implementation. Owns the only unsafe lines of the counters' access; refuses calls that did not
//! come from [`crate::uapi`].

use crate::error::OaError;
use crate::uapi::{Block, Call};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A DRM node or a stream opened on it.
pub trait StreamDevice: Send {
    /// Makes the call; the answer is in it afterwards.
    ///
    /// # Errors
    /// The kernel's errno.
    fn call(&self, call: &mut Call) -> io::Result<i32>;

    /// Makes a call whose result is a new stream.
    ///
    /// # Errors
    /// The kernel's errno.
    fn open_stream(&self, call: &mut Call) -> io::Result<Box<dyn StreamDevice>>;

    /// Reads from a stream.
    ///
    /// # Errors
    /// The kernel's errno: `WouldBlock` where there is nothing yet.
    fn read(&self, buf: &mut [u8]) -> io::Result<usize>;
}

/// Takes a new descriptor to the number that it is to have: inside an application, out of the way
/// of its own.
pub type Place = fn(File) -> File;

/// A real node, or a stream opened on it.
pub struct DrmFile {
    file: File,
    place: Place,
}

impl DrmFile {
    /// Opens `/dev/dri/renderD128` or the like.
    ///
    /// # Errors
    /// [`OaError::Open`].
    pub fn open(path: &Path) -> Result<DrmFile, OaError> {
        Self::open_placed(path, |file| file)
    }

    /// As [`DrmFile::open`], its descriptor and those of its streams at numbers that `place`
    /// chooses.
    ///
    /// # Errors
    /// [`OaError::Open`].
    pub fn open_placed(path: &Path, place: Place) -> Result<DrmFile, OaError> {
        let opened =
            File::options().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path);
        opened
            .map(|file| DrmFile { file: place(file), place })
            .map_err(|source| OaError::Open { path: path.to_owned(), source })
    }
}

/// Writes the addresses of everything a block points to into it.
fn resolve(block: &mut Block) {
    for link in &mut block.links {
        resolve(&mut link.block);
        let address = link.block.bytes.as_mut_ptr() as usize as u64;
        if let Some(to) = block.bytes.get_mut(link.at..link.at + 8) {
            to.copy_from_slice(&address.to_ne_bytes());
        }
    }
}

impl StreamDevice for DrmFile {
    fn call(&self, call: &mut Call) -> io::Result<i32> {
        let refused = || io::Error::from_raw_os_error(libc::EINVAL);
        if call.answered {
            return Err(refused());
        }
        let request = libc::Ioctl::from(call.request as libc::Ioctl);
        let size = (call.request >> 16 & 0x3fff) as usize;
        let block = &mut call.argument;
        // Calls of streams carry no size in their number; their structures are fixed by `uapi`.
        if size != 0 && size != block.bytes.len() || !block.is_consistent() {
            return Err(refused());
        }
        resolve(block);
        let argument = block.bytes.as_mut_ptr() as usize as u64;
        loop {
            // SAFETY: the descriptor is open while `self` lives. The argument points
            // to a buffer that lives in `call` over the call and is as long as the request's number
            // says (checked above, or fixed by the builder in `uapi`, the only maker of calls);
            // every pointer in it was just set to a buffer that `call` owns, whose length is the
            // one the structure counts (checked by `is_consistent`) or the one the interface fixes.
            let rc = unsafe { libc::ioctl(self.file.as_raw_fd(), request, argument) };
            if rc >= 0 {
                return Ok(rc);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    fn open_stream(&self, call: &mut Call) -> io::Result<Box<dyn StreamDevice>> {
        // The results of other calls are no descriptors.
        if !call.opens_stream() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let fd = self.call(call)?;
        // SAFETY: the call is one that returns a new descriptor (checked above), and nothing else
        // owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        set_nonblocking(&fd)?;
        Ok(Box::new(DrmFile { file: (self.place)(File::from(fd)), place: self.place }))
    }

    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(buf)
    }
}

/// xe has no flag for it at open.
fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: plain fcntl on an open descriptor.
    let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
    let rc = if flags < 0 {
        flags
    } else {
        // SAFETY: as above.
        unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) }
    };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uapi;

    /// A file that is no DRM node answers ENOTTY: the call reaches the kernel and its errno comes
    /// back.
    #[test]
    fn the_real_call_reaches_the_kernel() {
        let null = DrmFile::open(Path::new("/dev/null")).unwrap();
        let uuid = "12994724-3a5a-4303-bb3c-ba0175d2c200".parse().unwrap();
        for mut call in [
            uapi::get_param(51),
            uapi::perf_add_config(&uuid, &[], &[], &[]),
            uapi::xe_query(8, vec![]),
        ] {
            let error = null.call(&mut call).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::ENOTTY), "{error}");
        }
        let mut answered = uapi::get_param(51);
        answered.answer(&[8], 0, &[1]);
        assert_eq!(null.call(&mut answered).unwrap_err().raw_os_error(), Some(libc::EINVAL));
        let refusal = |mut call| null.open_stream(&mut call).err().and_then(|e| e.raw_os_error());
        assert_eq!(refusal(uapi::perf_open(0, &[])), Some(libc::ENOTTY));
        assert_eq!(refusal(uapi::xe_open(&[])), Some(libc::ENOTTY));
        assert_eq!(refusal(uapi::get_param(51)), Some(libc::EINVAL));
        assert_eq!(refusal(uapi::xe_remove_config(1)), Some(libc::EINVAL));
        assert_eq!(null.read(&mut [0; 8]).unwrap(), 0);
        assert!(matches!(
            DrmFile::open(Path::new("/nonexistent/renderD128")),
            Err(OaError::Open { .. })
        ));
    }

    #[test]
    fn pointers_lead_to_the_buffers() {
        let mut call = uapi::xe_open(&[(1, 0), (2, 1)]);
        let block = &mut call.argument;
        resolve(block);
        let first = &block.links[0].block;
        let address = u64::from_ne_bytes(block.bytes[24..32].try_into().unwrap());
        assert_eq!(address, first.bytes.as_ptr() as usize as u64);
        let next = u64::from_ne_bytes(first.bytes[..8].try_into().unwrap());
        assert_eq!(next, first.links[0].block.bytes.as_ptr() as usize as u64);
    }
}
