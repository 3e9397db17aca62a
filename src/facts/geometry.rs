//! NDRanges, interned: an application launches few different ones, and a record names them by id.
//! Each thread keeps the ones it used lately, so that the shared table is asked about new ones
//! only.

use super::objects;
use crate::recording;
use clscope_trace::defs;
use std::sync::atomic::Ordering;

/// A geometry by value.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Dimensions; presence of offset and local size in the upper bits.
    head: usize,
    offset: [usize; 3],
    global: [usize; 3],
    local: [usize; 3],
}

impl Key {
    const EMPTY: Self = Self { head: 0, offset: [0; 3], global: [0; 3], local: [0; 3] };
}

const OFFSET_GIVEN: usize = 1 << 8;
const LOCAL_GIVEN: usize = 1 << 9;

/// Geometries that a thread launched lately.
pub struct Recent([(Key, u32); 32]);

impl Recent {
    /// None.
    pub const fn new() -> Self {
        Self([(Key::EMPTY, 0); 32])
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
    pub fn read_ndrange(
        dimensions: u32,
        offset: *const usize,
        global: *const usize,
        local: *const usize,
    ) -> Self {
        Self { dimensions, offset, global, local }
    }

    /// The same with another local size.
    pub fn with_local(self, local: &[usize; 3]) -> Self {
        Self { local: local.as_ptr(), ..self }
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
        let parts = [self.global, self.local, self.offset];
        // Factors of their own, so that no product waits for another.
        const FACTORS: [u64; 4] = [
            0x9e37_79b9_7f4a_7c15,
            0xc2b2_ae3d_27d4_eb4f,
            0x1656_67b1_9e37_79f9,
            0x27d4_eb2f_1656_67c5,
        ];
        let mut hash = head.wrapping_mul(FACTORS[3] as usize);
        for (turn, given) in parts.into_iter().enumerate() {
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
        let known = &entry.0;
        let mut differs = known.head ^ head;
        for (given, known) in parts.into_iter().zip([known.global, known.local, known.offset]) {
            for (dimension, known) in
                known.iter().enumerate().take(if given.is_null() { 0 } else { dimensions })
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

    /// # Safety
    /// As [`id`](Self::id).
    #[cold]
    #[inline(never)]
    unsafe fn learn(self, head: usize) -> (Key, u32) {
        let mut key = Key { head, ..Key::EMPTY };
        let parts = [
            (self.offset, &mut key.offset),
            (self.global, &mut key.global),
            (self.local, &mut key.local),
        ];
        for (given, sizes) in parts {
            let dimensions = if given.is_null() { 0 } else { self.dimensions as usize };
            for (dimension, size) in sizes.iter_mut().enumerate().take(dimensions) {
                // SAFETY: the runtime accepted the launch, so each given array has `dimensions`
                // entries.
                *size = unsafe { *given.add(dimension) };
            }
        }
        let id = interned(&key);
        (key, id)
    }
}

/// The size of clEnqueueTask.
pub static ONE: usize = 1;

#[cold]
fn interned(key: &Key) -> u32 {
    let Some(tables) = objects::tables() else { return 0 };
    let sizes = (key.head, [key.offset, key.global, key.local]);
    let id = tables.geometries.with(|known| {
        if let Some(id) = known.get(&sizes) {
            return *id;
        }
        // No id is given twice, also where the table had to begin anew.
        let id = tables.next_geometry.fetch_add(1, Ordering::Relaxed);
        define(id, key);
        known.insert(sizes, id);
        id
    });
    id.unwrap_or(0)
}

/// Writes the definition: under the lock, so that no record names an id before its definition is on
/// its way.
fn define(id: u32, key: &Key) {
    let given = |bit: usize| key.head & bit != 0;
    recording::define(
        &defs::Geometry {
            id,
            dimensions: (key.head & 3) as u32,
            offset: given(OFFSET_GIVEN).then(|| key.offset.map(|n| n as u64)),
            global: key.global.map(|n| n as u64),
            local: given(LOCAL_GIVEN).then(|| key.local.map(|n| n as u64)),
        }
        .into(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometries_are_told_apart_by_all_that_was_given() {
        objects::begin();
        let mut recent = Recent::new();
        let (a, b) = ([64usize, 32, 1], [8usize, 8, 1]);
        let given = |dimensions,
                     offset: Option<&[usize; 3]>,
                     global: &[usize; 3],
                     local: Option<&[usize; 3]>| {
            let at = |sizes: Option<&[usize; 3]>| sizes.map_or(std::ptr::null(), |s| s.as_ptr());
            Geometry::read_ndrange(dimensions, at(offset), at(Some(global)), at(local))
        };
        let all = [
            given(1, None, &a, None),
            given(2, None, &a, None),
            given(2, None, &a, Some(&b)),
            given(2, Some(&b), &a, None),
            given(2, Some(&[0; 3]), &a, None),
            given(3, None, &a, None),
        ];
        // SAFETY: arrays of three sizes.
        let mut ids = |geometry: &Geometry| unsafe { geometry.id(&mut recent) };
        let first: Vec<u32> = all.iter().map(&mut ids).collect();
        let again: Vec<u32> = all.iter().map(&mut ids).collect();
        assert_eq!(first, again);
        let mut different = first.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), all.len(), "{first:?}");
        assert!(!first.contains(&0));
        assert_eq!(ids(&Geometry::NONE), 0);
        assert_eq!(ids(&given(4, None, &a, None)), 0);
    }
}
