//! NDRanges, interned: an application launches few different ones, and a record names them by id.
//! Each thread keeps the ones it used lately, so that the shared table is asked about new ones
//! only.

use crate::features::call_sites::Stacks;
use crate::features::device_time::Local;
use crate::recording;
use crate::recording::guard::Thread;
use clscope_trace::defs;

/// Dimensions, then offset, global and local sizes; presence of offset and local size in the upper
/// bits of the first.
pub type Key = [usize; 10];
const OFFSET_GIVEN: usize = 1 << 8;
const LOCAL_GIVEN: usize = 1 << 9;

/// What a thread keeps between launches: geometries used lately, the stacks it enqueued from, and
/// its counts for sampling.
pub struct Cache {
    entries: [(Key, u32); 32],
    pub stacks: Stacks,
    pub sampling: Local,
}

/// The calling thread's cache, made at its first use.
#[inline(always)]
#[expect(
    clippy::mut_from_ref,
    reason = "the thread's own, and no caller calls another while it holds it"
)]
pub fn cache(t: &Thread) -> &mut Cache {
    if t.geometries.get().is_null() {
        make(t);
    }
    // SAFETY: this thread's own cache, made above.
    unsafe { &mut *t.geometries.get() }
}

#[cold]
#[inline(never)]
fn make(t: &Thread) {
    let made =
        Cache { entries: [([0; 10], 0); 32], stacks: Stacks::default(), sampling: Local::new() };
    t.geometries.set(Box::into_raw(Box::new(made)));
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

    /// Its id, 0 if there is none. Only for calls that succeeded, whose arguments the runtime has
    /// read.
    pub fn id(self, t: &Thread) -> u32 {
        if !(1..=3).contains(&self.dimensions) || self.global.is_null() {
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
        let Some(entry) = cache(t).entries.get_mut(hash >> (usize::BITS - 5)) else { return 0 };
        // The head tells which words count; in the entry the others are 0.
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
            *entry = self.learn(head);
        }
        entry.1
    }

    #[cold]
    #[inline(never)]
    fn learn(self, head: usize) -> (Key, u32) {
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

/// The thread ends.
pub fn forget(t: &Thread) {
    let cache = t.geometries.replace(std::ptr::null_mut());
    if !cache.is_null() {
        // SAFETY: made by `id` on this thread.
        drop(unsafe { Box::from_raw(cache) });
    }
}

#[cold]
fn interned(key: &Key) -> u32 {
    let Some(process) = recording::process() else { return 0 };
    let mut known = process.tables.geometries.lock();
    if let Some(id) = known.get(key) {
        return *id;
    }
    let id = known.len() as u32 + 1;
    known.insert(*key, id);
    let three = |at: usize| [key[at] as u64, key[at + 1] as u64, key[at + 2] as u64];
    let given = |bit: usize| key[0] & bit != 0;
    // The definition is written under the lock, so that no record names an id before its definition
    // is on its way.
    process.files.define(
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
