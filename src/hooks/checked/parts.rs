//! Owns what a checked run tells of rectangles and regions of images: which bytes of a buffer or of
//! the host, which elements of an image a transfer uses. Refuses to guess: where a size or pitch is
//! not known nothing is told.

use crate::abi::entry::{H, P};
use crate::facts::objects;
use crate::hooks::checked::details::{memory, tell, wanted};
use clscope_trace::record::detail;

/// Which of the objects of a command is meant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Its only one, or its source.
    First,
    /// What it copies to.
    Second,
}

/// Three sizes.
///
/// # Safety
/// `of` is NULL or has three entries.
pub(in crate::hooks) unsafe fn three(of: *const usize) -> Option<[u64; 3]> {
    // SAFETY: the caller's promise.
    (!of.is_null()).then(|| unsafe { [*of, *of.add(1), *of.add(2)].map(|size| size as u64) })
}

/// Rows of bytes.
pub(in crate::hooks) struct Rows {
    pub(in crate::hooks) begin: u64,
    width: u64,
    rows: u64,
    slices: u64,
    row: u64,
    slice: u64,
}

impl Rows {
    /// Of a region with such pitches, 0 for those that are as small as they can be.
    pub(in crate::hooks) fn new(
        origin: [u64; 3],
        region: [u64; 3],
        pitches: (usize, usize),
    ) -> Option<Self> {
        let [width, rows, slices] = region;
        let or = |given: usize, least: u64| if given == 0 { least } else { given as u64 };
        let row = or(pitches.0, width);
        let slice = or(pitches.1, rows.checked_mul(row)?);
        let [x, y, z] = origin;
        let begin = z.checked_mul(slice)?.checked_add(y.checked_mul(row)?)?.checked_add(x)?;
        let counts = u32::try_from(rows).is_ok() && u32::try_from(slices).is_ok();
        counts.then_some(Self { begin, width, rows, slices, row, slice })
    }

    /// Says of the range told before that it is the first row.
    fn tell(&self, function: u16) {
        if (self.rows, self.slices) != (1, 1) {
            let counts = self.rows | self.slices << 32;
            tell(function, detail::ROWS, 0, [counts, self.row, self.slice]);
        }
    }
}

/// A command uses a rectangle of a buffer.
///
/// # Safety
/// `origin` and `region` are NULL or have three entries.
pub unsafe fn rows(
    function: u16,
    side: Side,
    origin: *const usize,
    region: *const usize,
    pitches: (usize, usize),
) {
    if !wanted() {
        return;
    }
    // SAFETY: the caller's promise.
    let (Some(origin), Some(region)) = (unsafe { three(origin) }, unsafe { three(region) }) else {
        return;
    };
    if let Some(of) = Rows::new(origin, region, pitches) {
        let what = if side == Side::First { detail::RANGE } else { detail::RANGE_TO };
        tell(function, what, 0, [of.begin, of.width, 0]);
        of.tell(function);
    }
}

/// A command uses a rectangle of the host's memory.
///
/// # Safety
/// As [`rows`].
pub unsafe fn host_rows(
    function: u16,
    host: P,
    origin: *const usize,
    region: *const usize,
    pitches: (usize, usize),
    how: u64,
) {
    if !wanted() {
        return;
    }
    // SAFETY: the caller's promise.
    let (Some(origin), Some(region)) = (unsafe { three(origin) }, unsafe { three(region) }) else {
        return;
    };
    host_part(function, host, Rows::new(origin, region, pitches), how);
}

fn host_part(function: u16, host: P, of: Option<Rows>, how: u64) {
    let Some(of) = of else { return };
    let Some(address) = (host as u64).checked_add(of.begin).filter(|_| !host.is_null()) else {
        return;
    };
    if let Ok(width) = usize::try_from(of.width) {
        memory(function, address as P, width, how);
        of.tell(function);
    }
}

/// A transfer of an image uses such a region of the host's memory.
///
/// # Safety
/// As [`rows`].
pub unsafe fn host_image(
    function: u16,
    image: H,
    host: P,
    region: *const usize,
    pitches: (usize, usize),
    how: u64,
) {
    if !wanted() {
        return;
    }
    // SAFETY: the caller's promise.
    let Some([width, rows, slices]) = (unsafe { three(region) }) else { return };
    let element = objects::element_size(image);
    // Whether a second pitch is that of rows depends on whether the image is an array.
    if element == 0 || (slices == 1 && rows > 1 && pitches.1 != 0) {
        return;
    }
    let Some(width) = width.checked_mul(element) else { return };
    host_part(function, host, Rows::new([0; 3], [width, rows, slices], pitches), how);
}

/// A command uses a region of an image, or was refused.
///
/// # Safety
/// `origin` and `region` are NULL or have three entries, but for a command that was refused.
pub unsafe fn of_image(
    function: u16,
    side: Side,
    refused: bool,
    origin: *const usize,
    region: *const usize,
) {
    if refused || !wanted() {
        return;
    }
    // SAFETY: the caller's promise.
    let (Some(origin), Some(region)) = (unsafe { three(origin) }, unsafe { three(region) }) else {
        return;
    };
    let what = if side == Side::First { detail::BOX } else { detail::BOX_TO };
    let [x, y, z] = [0, 1, 2].map(|i: usize| {
        let (from, size) = (*origin.get(i)?, *region.get(i)?);
        let small = u32::try_from(from).is_ok() && u32::try_from(size).is_ok();
        small.then_some(from | size << 32)
    });
    if let (Some(x), Some(y), Some(z)) = (x, y, z) {
        tell(function, what, 0, [x, y, z]);
    }
}

/// A command copies between a region of an image and bytes of a buffer without gaps, or was
/// refused.
///
/// # Safety
/// As [`of_image`].
pub unsafe fn packed(
    function: u16,
    side: Side,
    image: H,
    refused: bool,
    offset: usize,
    region: *const usize,
) {
    if refused || !wanted() {
        return;
    }
    // SAFETY: the caller's promise.
    let Some(region) = (unsafe { three(region) }) else { return };
    let bytes = region.into_iter().try_fold(objects::element_size(image), u64::checked_mul);
    if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
        let what = if side == Side::First { detail::RANGE } else { detail::RANGE_TO };
        tell(function, what, 0, [offset as u64, bytes, 0]);
    }
}
