//! The ring file where another process writes the segments (`clscope record`): one mapping with
//! room for many threads, made before the first record. From then on a thread takes and leaves
//! regions by loads and stores alone: no system call is made, so that an application may shut
//! itself into a sandbox. Owns which region is whose; refuses to make room: the other process adds
//! chunks before they are used up, and where it does not, there is none.

use crate::recording::ring::protocol::{self, cell};
use clscope_trace::ring_file::{CHUNK, RING_FIRST, RING_MAGIC, attendance, control, ring};
use memmap2::{MmapOptions, MmapRaw};
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Chunks of small regions at the beginning: threads that make calls before there is more room.
const SMALL_CHUNKS: usize = 4;
/// Chunks at the beginning.
const FIRST_CHUNKS: usize = 48;
/// Chunks at most.
pub const MOST_CHUNKS: usize = 1024;
/// Bits for all of them end with the control page.
const _: () = assert!(control::LEFT + MOST_CHUNKS * PARTS / 8 == RING_FIRST);
/// Regions of a chunk at most.
const PARTS: usize = CHUNK / RING_FIRST;

/// Sizes of regions: of a thread's first one, and of all that follow.
pub const SMALL: usize = RING_FIRST;
pub const LARGE: usize = CHUNK;

/// The mapped ring file.
pub struct Pool {
    map: MmapRaw,
    /// Chunks that the mapping has room for.
    most: usize,
    /// Regions that a thread of this process fills, by their first page.
    taken: Box<[AtomicBool]>,
}

/// A region: its place in the list of those taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot(usize);

impl Pool {
    /// Maps a ring file whose first bytes are written and reserved up to [`first`](Self::first), with
    /// address space for `most` chunks.
    ///
    /// # Errors
    /// The system's.
    pub fn new(file: &File, most: usize) -> io::Result<Self> {
        let most = most.clamp(FIRST_CHUNKS, MOST_CHUNKS);
        // What lies behind the end of the file is not touched before it is made.
        let map = MmapOptions::new().len(RING_FIRST + most * CHUNK).map_raw(file)?;
        let taken = (0..most * PARTS).map(|_| AtomicBool::new(false)).collect();
        let pool = Self { map, most, taken };
        for chunk in 0..FIRST_CHUNKS {
            let size = if chunk < SMALL_CHUNKS { SMALL } else { LARGE };
            let magic = u64::from(RING_MAGIC) | (size as u64) << 32;
            // SAFETY: a chunk's first header, in the mapping and in the file.
            unsafe { cell(pool.header(Slot(chunk * PARTS)), ring::MAGIC) }
                .store(magic, Ordering::Relaxed);
        }
        pool.word(control::MOST_CHUNKS).store(most as u32, Ordering::Relaxed);
        pool.word(control::CHUNKS).store(FIRST_CHUNKS as u32, Ordering::Release);
        Ok(pool)
    }

    /// Bytes that the file has at the beginning.
    pub const fn first() -> usize {
        RING_FIRST + FIRST_CHUNKS * CHUNK
    }

    /// Where the chunks end that there are now.
    pub fn end(&self) -> u64 {
        (RING_FIRST + self.chunks() * CHUNK) as u64
    }

    /// The control page.
    pub fn page(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    /// A word of the control page.
    pub fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: in the first page, which is mapped and never unmapped; the offset is aligned.
        unsafe { AtomicU32::from_ptr(self.page().add(at).cast()) }
    }

    /// A long word of the control page.
    pub fn long(&self, at: usize) -> &AtomicU64 {
        // SAFETY: as in `word`.
        unsafe { AtomicU64::from_ptr(self.page().add(at).cast()) }
    }

    fn chunks(&self) -> usize {
        (self.word(control::CHUNKS).load(Ordering::Acquire) as usize).min(self.most)
    }

    /// The header of a region.
    pub fn header(&self, slot: Slot) -> *mut u8 {
        self.map.as_mut_ptr().wrapping_add(RING_FIRST + slot.0 * RING_FIRST)
    }

    /// Takes a region of this size that is free.
    pub fn take(&self, size: usize) -> Option<Slot> {
        // The lowest ones, which were used last, are the likeliest in the caches.
        (0..self.chunks()).find_map(|chunk| {
            let first = Slot(chunk * PARTS);
            // SAFETY: a chunk's first header, in the mapping and in the file.
            let magic = unsafe { cell(self.header(first), ring::MAGIC) }.load(Ordering::Relaxed);
            if (magic >> 32) as usize != size {
                return None;
            }
            let found =
                (first.0..first.0 + CHUNK / size).map(Slot).find(|slot| self.took(*slot))?;
            self.counted(size).fetch_add(1, Ordering::Relaxed);
            Some(found)
        })
    }

    /// The word that says how many regions of this size were taken.
    fn counted(&self, size: usize) -> &AtomicU32 {
        self.word(if size == SMALL { control::SMALL_TAKEN } else { control::LARGE_TAKEN })
    }

    /// Takes a region if it is free.
    fn took(&self, slot: Slot) -> bool {
        let Some(taken) = self.taken.get(slot.0) else { return false };
        // SAFETY: a region's header.
        let free = || unsafe { protocol::is_free(self.header(slot)) };
        if taken.load(Ordering::Relaxed) || !free() || taken.swap(true, Ordering::Acquire) {
            return false;
        }
        // Another thread may have had it in between, and left it.
        let free = free();
        if !free {
            taken.store(false, Ordering::Release);
        }
        free
    }

    /// Gives a region back that nothing was written to, or whose block the thread wrote itself.
    pub fn give_back(&self, slot: Slot, size: usize) {
        // SAFETY: the header of a region that this thread has.
        unsafe { protocol::free(self.header(slot)) };
        self.counted(size).fetch_sub(1, Ordering::Relaxed);
        self.let_go(slot);
    }

    /// Leaves a region to be written.
    pub fn leave(&self, slot: Slot) {
        // SAFETY: as in `give_back`.
        unsafe { protocol::leave(self.header(slot)) };
        self.let_go(slot);
        let word = control::LEFT + slot.0 / 32 * 4;
        self.word(word).fetch_xor(1 << (slot.0 % 32), Ordering::Release);
    }

    fn let_go(&self, slot: Slot) {
        if let Some(taken) = self.taken.get(slot.0) {
            taken.store(false, Ordering::Release);
        }
    }

    /// Large regions that are free now, so many at most.
    fn free(&self, most: usize) -> usize {
        let free = |slot: &Slot| {
            self.taken.get(slot.0).is_some_and(|taken| !taken.load(Ordering::Relaxed))
                // SAFETY: a chunk's first header.
                && unsafe { protocol::is_free(self.header(*slot)) }
        };
        (SMALL_CHUNKS..self.chunks())
            .map(|chunk| Slot(chunk * PARTS))
            .filter(free)
            .take(most)
            .count()
    }

    /// Hands a file of the folder of programs over, in pieces. `false` where there is no room for it
    /// beside the records of the threads.
    pub fn send(&self, number: u64, name: &str, bytes: &[u8]) -> bool {
        let padded = name.len().next_multiple_of(8);
        let room =
            LARGE - clscope_trace::ring_file::RING_HEADER_LEN - attendance::PIECE_HEAD - padded;
        let pieces = bytes.len().div_ceil(room);
        // Half of the room is for records.
        if self.free(2 * pieces) < 2 * pieces {
            return false;
        }
        bytes.chunks(room).enumerate().all(|(at, piece)| {
            let Some(slot) = self.take(LARGE) else { return false };
            self.put_piece(slot, [number, (at * room) as u64, bytes.len() as u64], name, piece);
            true
        })
    }

    fn put_piece(&self, slot: Slot, [number, at, whole]: [u64; 3], name: &str, piece: &[u8]) {
        let header = self.header(slot);
        let padded = name.len().next_multiple_of(8);
        let used = attendance::PIECE_HEAD + padded + piece.len();
        // SAFETY: a large region of this thread's own, which has room for that.
        unsafe {
            let new = protocol::Beginning {
                thread: attendance::PIECE - 1,
                sequence: 0,
                base: 0,
                size: LARGE,
                call: 0,
                call_begin: 0,
            };
            protocol::begin(header, &new);
            let to = header.add(clscope_trace::ring_file::RING_HEADER_LEN);
            to.cast::<[u64; 4]>().write([number, at, whole, name.len() as u64]);
            let to = to.add(attendance::PIECE_HEAD);
            std::ptr::copy_nonoverlapping(name.as_ptr(), to, name.len());
            std::ptr::copy_nonoverlapping(piece.as_ptr(), to.add(padded), piece.len());
            protocol::published(header, used as u64);
        }
        self.leave(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn pool(most: usize) -> Pool {
        let file = tempfile::tempfile().unwrap();
        file.set_len(Pool::first() as u64).unwrap();
        Pool::new(&file, most).unwrap()
    }

    #[test]
    fn a_region_is_one_threads_until_it_was_left_and_written() {
        let pool = pool(MOST_CHUNKS);
        let large: Vec<Slot> = std::iter::from_fn(|| pool.take(LARGE)).collect();
        assert_eq!(large.len(), FIRST_CHUNKS - SMALL_CHUNKS);
        let small: HashSet<usize> = std::iter::from_fn(|| pool.take(SMALL)).map(|s| s.0).collect();
        assert_eq!(small.len(), SMALL_CHUNKS * PARTS);
        let new = protocol::Beginning {
            thread: 3,
            sequence: 0,
            base: 0,
            size: LARGE,
            call: 0,
            call_begin: 0,
        };
        let header = pool.header(large[2]);
        // SAFETY: a region that was taken.
        unsafe { protocol::begin(header, &new) };
        let bits = || pool.word(control::LEFT + large[2].0 / 32 * 4).load(Ordering::Relaxed);
        assert_eq!(bits(), 0);
        pool.leave(large[2]);
        assert_eq!(bits(), 1 << (large[2].0 % 32));
        assert_eq!(pool.take(LARGE), None, "it waits to be written");
        // SAFETY: as the other process does.
        unsafe { protocol::free(header) };
        assert_eq!(pool.take(LARGE), Some(large[2]));
        pool.give_back(large[2], LARGE);
        assert_eq!(pool.take(LARGE), Some(large[2]));
    }

    #[test]
    fn threads_never_have_the_same_region() {
        let pool = pool(FIRST_CHUNKS);
        std::thread::scope(|scope| {
            for thread in 0..4u32 {
                let pool = &pool;
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let Some(slot) = pool.take(LARGE) else { continue };
                        // SAFETY: a region of this thread's.
                        unsafe {
                            let base = cell(pool.header(slot), ring::BASE);
                            base.store(u64::from(thread), Ordering::Relaxed);
                            std::hint::spin_loop();
                            assert_eq!(base.load(Ordering::Relaxed), u64::from(thread));
                        }
                        pool.give_back(slot, LARGE);
                    }
                });
            }
        });
    }

    #[test]
    fn a_file_takes_no_more_than_half_of_the_room() {
        let pool = pool(MOST_CHUNKS);
        let half = (FIRST_CHUNKS - SMALL_CHUNKS) / 2;
        assert!(!pool.send(1, "a.cl", &vec![7; half * LARGE]));
        assert!(pool.send(1, "a.cl", &vec![7; 4 * LARGE]));
        assert_eq!(
            std::iter::from_fn(|| pool.take(LARGE)).count(),
            FIRST_CHUNKS - SMALL_CHUNKS - 5
        );
    }
}
