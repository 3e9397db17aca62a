//! Regions of the ring file: made once, and used by one thread after the other.

use crate::os::locks::lock::Mutex;
use crate::os::shared::slots::Slots;
use crate::os::undisturbed::undisturbed;
use crate::recording::Recording;
use crate::recording::ring::pool::{self, Pool, Slot};
use crate::recording::ring::protocol;
use clscope_trace::ring_file::RING_FIRST;
use memmap2::MmapRaw;
use std::io;

/// Sizes a ring grows through, in bytes. The last is a block of 16,376 plain records.
pub const SIZES: [usize; 3] = [4096, 64 * 1024, LARGEST];
/// Largest ring.
pub const LARGEST: usize = 256 * 1024;

/// Regions of the largest size that lie ready, at most, besides those that a lock is needed for.
const READY: usize = 16;

/// A region of the ring file.
pub struct Region {
    at: *mut u8,
    size: usize,
    of: Of,
}

/// What a region is a part of.
enum Of {
    /// A mapping of its own.
    Own(#[expect(dead_code, reason = "kept mapped")] MmapRaw),
    Pool(Slot),
}

// SAFETY: the memory is mapped for all threads; who has the region is the only one to use it.
unsafe impl Send for Region {}

impl Region {
    /// Its header, at its beginning.
    pub fn header(&self) -> *mut u8 {
        self.at
    }

    /// Whether the process that writes the segments may take it.
    pub fn is_of_pool(&self) -> bool {
        matches!(self.of, Of::Pool(_))
    }

    /// Bytes of header and records.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// All regions of a process.
pub struct Regions {
    /// Large ones that no thread uses, for those with a full ring.
    ready: Slots<Region, READY>,
    rest: Mutex<Rest>,
}

struct Rest {
    end: u64,
    // Boxed as threads have them.
    #[expect(clippy::vec_box, reason = "taken and given back as they are")]
    free: Vec<Box<Region>>,
}

impl Regions {
    /// None yet.
    pub fn new() -> Self {
        let rest = Rest { end: RING_FIRST as u64, free: Vec::new() };
        Self { ready: Slots::new(), rest: Mutex::new(rest) }
    }

    /// A large region that no thread uses, if one lies ready. Takes no lock.
    pub fn ready(&self) -> Option<Box<Region>> {
        self.ready.take(0)
    }

    /// Makes large regions until so many more lie ready, as long as there is room for them.
    pub fn prepare(&self, recording: &Recording, more: u32) {
        for _ in 0..more {
            let Ok(region) = self.made(recording, LARGEST) else { return };
            self.give_back(recording, region);
        }
    }

    /// A region of this size that no thread uses.
    ///
    /// # Errors
    /// Why no other can be made.
    pub fn take(&self, recording: &Recording, size: usize) -> io::Result<Box<Region>> {
        if let Some(pool) = &recording.files.pool {
            let sizes =
                if size == pool::SMALL { [pool::SMALL, pool::LARGE] } else { [pool::LARGE; 2] };
            let found = sizes.into_iter().find_map(|size| Some((size, pool.take(size)?)));
            if let Some((size, slot)) = found {
                return Ok(Box::new(Region { at: pool.header(slot), size, of: Of::Pool(slot) }));
            }
            if recording.files.is_attended() && !recording.files.takes_over(crate::recording::now())
            {
                return Err(io::ErrorKind::StorageFull.into());
            }
        }
        if size == LARGEST
            && let Some(ready) = self.ready()
        {
            return Ok(ready);
        }
        let free = undisturbed(|| {
            let mut rest = self.rest.lock();
            // The one that was given back last is the likeliest in the caches.
            let at = rest.free.iter().rposition(|r| r.size == size)?;
            Some(rest.free.swap_remove(at))
        });
        free.map_or_else(|| self.made(recording, size), Ok)
    }

    fn made(&self, recording: &Recording, size: usize) -> io::Result<Box<Region>> {
        undisturbed(|| {
            let mut rest = self.rest.lock();
            // Nobody adds chunks any more where there is a pool.
            let at = rest.end.max(recording.files.pool.as_ref().map_or(0, Pool::end));
            let map = recording.files.map_region(at, size)?;
            rest.end = at + size as u64;
            Ok(Box::new(Region { at: map.as_mut_ptr(), size, of: Of::Own(map) }))
        })
    }

    /// Leaves a region of the pool to the process that writes the segments.
    pub fn leave(&self, recording: &Recording, region: &Region) {
        if let (Of::Pool(slot), Some(pool)) = (&region.of, &recording.files.pool) {
            pool.leave(*slot);
        }
    }

    /// Marks a region free for the next thread.
    pub fn give_back(&self, recording: &Recording, region: Box<Region>) {
        if let (Of::Pool(slot), Some(pool)) = (&region.of, &recording.files.pool) {
            return pool.give_back(*slot, region.size);
        }
        // SAFETY: the region's header; its thread has left it.
        unsafe { protocol::free(region.header()) };
        let kept = if region.size == LARGEST { self.ready.put(region) } else { Err(region) };
        if let Err(region) = kept {
            undisturbed(|| self.rest.lock().free.push(region));
        }
    }
}
