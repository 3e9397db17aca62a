//! Data segments: when one is cut, and where a block lies in it.

use super::Files;
use crate::os::plain_write;
use crate::os::undisturbed::undisturbed;
use crate::recording::Recording;
use crate::recording::files::reopened_file::ReopenedFile;
use crate::recording::ring::regions::LARGEST;
use clscope_trace::file::{BLOCK_HEADER_LEN, BlockHeader, HEADER_LEN};
use clscope_trace::{FileHeader, FileKind, checksum};
use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Segments are cut at this size when the trace is unlimited: one segment is one mapping of the
/// reader.
const SEGMENT: u64 = 1 << 30;

/// A data segment.
pub struct Segment {
    kept: ReopenedFile,
    end: AtomicU64,
    /// Up to where space is reserved; `u64::MAX` where the file system refuses.
    reserved: AtomicU64,
    limit: u64,
}

/// Space is reserved in such steps before large blocks are written: the file system then finds a
/// place once for four blocks instead of once for each page, which takes a quarter off the price of
/// writing (ext4).
const RESERVE: u64 = 1 << 20;

impl Segment {
    /// Reserves space for what is about to be written in `from..to`, and some more. The file's
    /// length stays as it is.
    fn reserve(&self, file: RawFd, from: u64, to: u64) {
        let reserved = self.reserved.load(Ordering::Relaxed);
        if to <= reserved || to - from < LARGEST as u64 / 2 {
            return;
        }
        let (begin, end) = (from.max(reserved), (to + RESERVE).min(self.limit.max(to)));
        let done = plain_write::reserve(file, begin, end - begin);
        // What a nearly full disk refuses may still take the block itself.
        self.reserved.fetch_max(if done { end } else { u64::MAX }, Ordering::Relaxed);
    }

    /// Writes a block to its place. Signals' handlers may run meanwhile, and leave: writing it
    /// again is writing the same.
    fn write(&self, framed: &[u8], at: u64) -> io::Result<()> {
        let end = at + framed.len() as u64;
        match self.kept.number(end + RESERVE) {
            Some(file) => {
                self.reserve(file, at, end);
                plain_write::write_at(file, framed, at)
            }
            None => undisturbed(|| {
                self.kept.with(|file| {
                    self.reserve(file.as_raw_fd(), at, end);
                    file.write_all_at(framed, at)
                })
            }),
        }
    }
}

/// The segments of one process.
pub struct Segments {
    current: Option<Arc<Segment>>,
    number: u32,
    /// Size at which a segment is cut.
    limit: u64,
    /// How many are kept, the newest.
    keep: Option<u32>,
}

impl Segments {
    /// None is made yet.
    pub fn new(max_size: Option<u64>) -> Self {
        let (limit, keep) = Self::cut(max_size);
        Self { current: None, number: 0, limit, keep }
    }

    /// The size at which a segment is cut, and how many are kept beside the one that is written.
    pub fn cut(max_size: Option<u64>) -> (u64, Option<u32>) {
        match max_size {
            None => (SEGMENT, None),
            // Eight parts: at least seven eighths of the limit hold the newest records.
            Some(bytes) => ((bytes / 8).max(LARGEST as u64), Some(7)),
        }
    }

    /// Makes the first, while that may be done: the application may give up its rights, or its
    /// descriptors, before there is a block to write. What fails here is tried again, and said,
    /// then.
    pub fn begin(&mut self, files: &Files) {
        let _ = self.current(files, 0);
    }

    /// The segment to write `bytes` to.
    fn current(&mut self, files: &Files, bytes: u64) -> io::Result<Arc<Segment>> {
        if let Some(segment) = &self.current
            && segment.end.load(Ordering::Relaxed) + bytes <= self.limit
        {
            return Ok(Arc::clone(segment));
        }
        undisturbed(|| self.next(files))
    }

    fn next(&mut self, files: &Files) -> io::Result<Arc<Segment>> {
        let mut number = match &self.current {
            Some(_) => self.number + 1,
            None => self.number,
        };
        let name = |number: u32| format!("{}.{number}.clt", files.stem);
        let make = |number: u32| -> io::Result<ReopenedFile> {
            let kept = ReopenedFile::create(&files.folder, name(number))?;
            let header =
                FileHeader { kind: FileKind::Segment, segment: number, ..files.header.clone() };
            // One that is not begun must not stand in the way of the next attempt.
            kept.write_at(&header.encode(), 0)
                .inspect_err(|_| files.folder.remove(&name(number)))?;
            Ok(kept)
        };
        let mut made = make(number);
        // Those that another process made for this one.
        while files.pool.is_some()
            && matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists)
        {
            number += 1;
            made = make(number);
        }
        let kept = match (made, &self.current, self.keep) {
            (Ok(kept), ..) => kept,
            // No file can be made any more, and the last one may still grow.
            (Err(_), Some(last), None) => return Ok(Arc::clone(last)),
            (Err(error), ..) => return Err(error),
        };
        self.number = number;
        if let Some(oldest) = self.keep.and_then(|keep| self.number.checked_sub(keep)) {
            files.folder.remove(&name(oldest));
        }
        let segment = Arc::new(Segment {
            kept,
            end: AtomicU64::new(HEADER_LEN as u64),
            reserved: AtomicU64::new(0),
            limit: self.limit,
        });
        // Its descriptor is closed, unless a thread writes to it at this moment.
        if let Some(old) = self.current.replace(Arc::clone(&segment)).and_then(Arc::into_inner) {
            old.kept.close();
        }
        Ok(segment)
    }
}

/// Where a thread's block is to lie, from before it is written until the next begins: one that was
/// left in the middle by a handler's jump is written to the same place again.
#[derive(Default)]
pub struct Place {
    /// Whether the rest says something. Set last, and taken back first.
    known: AtomicBool,
    /// ReopenedFile by a count of its own: by the frame that was left, if there is one.
    segment: Cell<*const Segment>,
    at: Cell<u64>,
    length: Cell<u64>,
    sequence: Cell<u32>,
}

impl Place {
    /// The place of this block, if it has been in the middle of being written.
    fn unfinished(&self, sequence: u32, length: u64) -> Option<(&Segment, u64)> {
        let same = self.known.load(Ordering::Acquire)
            && self.sequence.get() == sequence
            && self.length.get() == length;
        // SAFETY: the frame that made it known has been left without dropping its count, or this
        // thread would have forgotten the place.
        same.then(|| (unsafe { &*self.segment.get() }, self.at.get()))
    }

    fn keep(&self, segment: &Arc<Segment>, at: u64, length: u64, sequence: u32) {
        self.known.store(false, Ordering::Release);
        self.segment.set(Arc::as_ptr(segment));
        self.at.set(at);
        self.length.set(length);
        self.sequence.set(sequence);
        self.known.store(true, Ordering::Release);
    }

    fn forget(&self) {
        self.known.store(false, Ordering::Release);
    }
}

/// Writes a block whose payload lies behind `BLOCK_HEADER_LEN` free bytes in `framed`: one
/// `pwrite`.
pub fn write_block(
    recording: &Recording,
    framed: &mut [u8],
    thread: u32,
    sequence: u32,
    base: u64,
    place: &Place,
) -> io::Result<()> {
    let (head, payload) = framed.split_at_mut(BLOCK_HEADER_LEN);
    let header = BlockHeader {
        thread,
        sequence,
        length: payload.len() as u32,
        base,
        checksum: checksum(payload),
    };
    head.copy_from_slice(&header.encode());
    let length = framed.len() as u64;
    if let Some((segment, at)) = place.unfinished(sequence, length) {
        let written = segment.write(framed, at);
        place.forget();
        return written;
    }
    let segment = match recording.segment.lock() {
        Some(mut segments) => segments.current(&recording.files, length)?,
        // Not while this very thread makes one: a handler's calls are not recorded.
        None => return Err(io::ErrorKind::WouldBlock.into()),
    };
    let at = segment.end.fetch_add(length, Ordering::Relaxed);
    place.keep(&segment, at, length, sequence);
    let written = segment.write(framed, at);
    place.forget();
    written
}
