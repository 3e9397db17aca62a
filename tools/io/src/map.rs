//! Owns the mapping of files that grow. Reads files whose mapping could end this process. Refuses to
//! interpret them.

use crate::input;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt;

/// Most bytes of a file that is read.
const READ: u64 = 1 << 30;

/// Bytes of a file.
pub enum Bytes {
    /// Mapped.
    Mapped(memmap2::Mmap),
    /// Read.
    Read(Vec<u8>),
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}

/// Bytes of a file that grows and is never cut: mapped, where that is possible and safe. A part of a
/// file that was never written has no place on the disk, and a look at it through a mapping needs
/// one: on a full disk (tmpfs) that is SIGBUS. Such a file is read.
///
/// # Errors
/// If it cannot be read, or must be read and is larger than 1 GiB.
pub fn file(file: &File) -> io::Result<Bytes> {
    let found = file.metadata()?;
    if found.blocks().saturating_mul(512) < found.len() || found.len() == 0 {
        return read(file);
    }
    // SAFETY: a mapping can change under us when a process still records into the file: recorders
    // append to segments. The bytes are only ever read as plain integers by decoders that check what
    // they read and take any content; a file that is cut while it is read raises SIGBUS, which only
    // somebody who truncates the trace by hand can cause.
    match unsafe { memmap2::Mmap::map(file) } {
        Ok(map) => Ok(Bytes::Mapped(map)),
        // A file system without mappings.
        Err(_) => read(file),
    }
}

/// Bytes of a file that may be cut: definitions have room behind their end while they grow.
///
/// # Errors
/// If it cannot be read, or is larger than 1 GiB.
pub fn read(file: &File) -> io::Result<Bytes> {
    input::bytes(file, READ).map(Bytes::Read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn what_has_parts_without_a_place_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str, at: u64| {
            let path = folder.path().join(name);
            let made = File::create_new(&path).unwrap();
            made.write_all_at(&[7; 8192], at).unwrap();
            file(&File::open(&path).unwrap()).unwrap()
        };
        let (whole, sparse) = (of("whole", 0), of("sparse", 1 << 20));
        assert!(matches!(sparse, Bytes::Read(_)), "it has holes");
        assert_eq!((sparse.len(), sparse[0], sparse[1 << 20]), ((1 << 20) + 8192, 0, 7));
        assert_eq!(&whole[..], &[7; 8192]);
    }
}
