//! Owns the one unsafe call of this crate: mapping a file. Refuses to interpret it.

use std::fs::File;
use std::io;

/// Maps a file that is not empty for reading.
pub fn file(file: &File) -> io::Result<memmap2::Mmap> {
    // SAFETY: a mapping can change under us when a process still records into the file: recorders
    // append to segments and definitions, and refill rings. The bytes are only ever read as plain
    // integers by decoders that check what they read and take any content; a file that is cut while
    // it is read raises SIGBUS, which only somebody who truncates the trace by hand can cause.
    unsafe { memmap2::Mmap::map(file) }
}
