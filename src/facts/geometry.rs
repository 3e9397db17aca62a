//! NDRanges, interned: an application launches few different ones, and a record names them by id.
//! Each thread keeps the ones it used lately, so that the shared table is asked about new ones
//! only.

use super::objects;
use crate::recording;
use clscope_trace::defs;

/// Dimensions, then offset, global and local sizes; presence of offset and local size in the upper
/// bits of the first.
pub type Key = [usize; 10];
const OFFSET_GIVEN: usize = 1 << 8;
const LOCAL_GIVEN: usize = 1 << 9;

/// Geometries that a thread launched lately.
pub struct Recent([(Key, u32); 32]);

impl Recent {
    /// None.
    pub const fn new() -> Self {
        Self([([0; 10], 0); 32])
    }
}

/// The geometry of a launch, as the application gave it.
#[derive(Clone, Copy)]
pub struct Geometry {
    dimensions: u32,
    offset: *const usize,
    global: *const usize,
    local: *const usize,
}

impl Geometry {
    /// Of commands that have none.
    pub const NONE: Self = Self {
        dimensions: 0,
        offset: std::ptr::null(),
        global: std::ptr::null(),
        local: std::ptr::null(),
    };
    /// Of clEnqueueTask: one work-item.
    pub const TASK: Self = Self {
        dimensions: 1,
        offset: std::ptr::null(),
        global: &raw const ONE,
        local: &raw const ONE,
    };

    /// Of clEnqueueNDRangeKernel.
    pub fn of(
        dimensions: u32,
        offset: *const usize,
        global: *const usize,
        local: *const usize,
    ) -> Self {
        Self { dimensions, offset, global, local }
    }

    /// Whether there is one.
    #[inline(always)]
    pub fn is_some(&self) -> bool {
        (1..=3).contains(&self.dimensions) && !self.global.is_null()
    }

    /// Its id, 0 if there is none.
    ///
    /// # Safety
    /// The runtime has accepted a launch with these arguments: each given array has as many entries
    /// as there are dimensions.
    pub unsafe fn id(self, recent: &mut Recent) -> u32 {
        if !self.is_some() {
            return 0;
        }
        let dimensions = self.dimensions as usize;
        let head = dimensions
            | if self.offset.is_null() { 0 } else { OFFSET_GIVEN }
            | if self.local.is_null() { 0 } else { LOCAL_GIVEN };
        let parts = [(self.global, 4), (self.local, 7), (self.offset, 1)];
        // Factors of their own, so that no product waits for another.
        const FACTORS: [u64; 4] = [
            0x9e37_79b9_7f4a_7c15,
            0xc2b2_ae3d_27d4_eb4f,
            0x1656_67b1_9e37_79f9,
            0x27d4_eb2f_1656_67c5,
        ];
        let mut hash = head.wrapping_mul(FACTORS[3] as usize);
        for (turn, (given, _)) in parts.into_iter().enumerate() {
            for (dimension, factor) in
                FACTORS.into_iter().enumerate().take(if given.is_null() { 0 } else { dimensions })
            {
                // SAFETY: the runtime accepted the launch, so each given array has `dimensions`
                // entries.
                hash ^= unsafe { *given.add(dimension) }
                    .wrapping_mul((factor as usize).rotate_left(turn as u32 * 16));
            }
        }
        let Some(entry) = recent.0.get_mut(hash >> (usize::BITS - 5)) else { return 0 };
        // The head determines which words count; the others are 0 in the entry.
        let mut differs = entry.0[0] ^ head;
        for (given, at) in parts {
            for (dimension, known) in entry.0[at..at + 3]
                .iter()
                .enumerate()
                .take(if given.is_null() { 0 } else { dimensions })
            {
                // SAFETY: as above.
                differs |= known ^ unsafe { *given.add(dimension) };
            }
        }
        if differs != 0 {
            // SAFETY: the caller's promise.
            *entry = unsafe { self.learn(head) };
        }
        entry.1
    }

    #[cold]
    #[inline(never)]
    /// # Safety
    /// As [`id`](Self::id).
    unsafe fn learn(self, head: usize) -> (Key, u32) {
        let mut key: Key = [0; 10];
        key[0] = head;
        for (given, at) in [(self.offset, 1), (self.global, 4), (self.local, 7)] {
            for dimension in 0..if given.is_null() { 0 } else { self.dimensions as usize } {
                // SAFETY: the runtime accepted the launch, so each given array has `dimensions`
                // entries.
                key[at + dimension] = unsafe { *given.add(dimension) };
            }
        }
        let id = interned(&key);
        (key, id)
    }
}

static ONE: usize = 1;

#[cold]
fn interned(key: &Key) -> u32 {
    let Some(tables) = objects::tables() else { return 0 };
    let mut known = tables.geometries.lock();
    if let Some(id) = known.get(key) {
        return *id;
    }
    let id = known.len() as u32 + 1;
    known.insert(*key, id);
    let three = |at: usize| [key[at] as u64, key[at + 1] as u64, key[at + 2] as u64];
    let given = |bit: usize| key[0] & bit != 0;
    // The definition is written under the lock, so that no record names an id before its definition
    // is on its way.
    recording::define(
        &defs::Geometry {
            id,
            dimensions: (key[0] & 3) as u32,
            offset: given(OFFSET_GIVEN).then(|| three(1)),
            global: three(4),
            local: given(LOCAL_GIVEN).then(|| three(7)),
        }
        .into(),
    );
    id
}
