//! Which part of its memory a command uses, and whether two parts certainly have something in
//! common: bytes, rows of bytes, or boxes of an image's elements. Refuses to say so of parts that
//! are not known.

/// Most rows that are looked at one by one; of more it is not known what they meet.
const MOST_ROWS: u64 = 1 << 16;

/// How the bytes of a part lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One after the other.
    Bytes,
    /// In rows of `width` bytes.
    Rows(Rows),
    /// A box of an image's elements: for each dimension the first and how many.
    Box([[u32; 2]; 3]),
    /// Not all of them, and which is not known.
    Some,
}

/// Rows that lie in slices, none on another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    /// Bytes of a row.
    pub width: u64,
    /// Rows of a slice.
    pub rows: u64,
    /// Slices.
    pub slices: u64,
    /// Bytes from row to row.
    pub row: u64,
    /// Bytes from slice to slice.
    pub slice: u64,
}

impl Rows {
    /// Rows of this many bytes, as a trace tells them: `rows | slices << 32`, pitch of rows, of
    /// slices. `None` where they would lie on each other.
    pub fn decode(width: u64, [counts, row, slice]: [u64; 3]) -> Option<Self> {
        let (rows, slices) = (counts & 0xffff_ffff, counts >> 32);
        let of = Self { width, rows, slices, row, slice };
        let all = of.rows.checked_sub(1)?.checked_mul(row)?.checked_add(width)?;
        let apart = (rows < 2 || width <= row) && (slices < 2 || all <= slice);
        (apart && width > 0 && slices > 0).then_some(of)
    }

    /// Bytes from the first to one past the last; `None` where there are more than can be counted.
    fn extent(&self) -> Option<u64> {
        let last = (self.slices - 1).checked_mul(self.slice)?;
        last.checked_add((self.rows - 1).checked_mul(self.row)?)?.checked_add(self.width)
    }

    /// Whether one of them has a byte in `begin..end`, counted from the first row.
    fn meet(&self, begin: u64, end: u64) -> bool {
        let within =
            |begin: u64, end: u64, count: u64, pitch: u64, width: u64| -> Option<(u64, bool)> {
                // The last that begins at or before `begin`, and whether the next one begins before
                // `end`.
                let at = begin.checked_div(pitch).unwrap_or(0).min(count - 1);
                let from = at * pitch;
                let hits = begin < from + width;
                (hits || (at + 1 < count && from + pitch < end)).then_some((at, hits))
            };
        let all = (self.rows - 1) * self.row + self.width;
        let Some((slice, inside)) = within(begin, end, self.slices, self.slice, all) else {
            return false;
        };
        // The first row of the next slice.
        if slice + 1 < self.slices && (slice + 1) * self.slice < end {
            return true;
        }
        let from = slice * self.slice;
        inside
            && within(begin - from, (end - from).min(all), self.rows, self.row, self.width)
                .is_some()
    }
}

/// Bytes of a memory object, from the first to one past the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The first.
    pub begin: u64,
    /// One past the last.
    pub end: u64,
    /// Which of them.
    pub shape: Shape,
}

impl Range {
    /// All of an object.
    pub const WHOLE: Self = Self { begin: 0, end: u64::MAX, shape: Shape::Bytes };
    /// A part that is not known.
    pub const SOME: Self = Self { shape: Shape::Some, ..Self::WHOLE };

    /// Bytes one after the other.
    pub const fn new(begin: u64, size: u64) -> Self {
        Self { begin, end: begin.saturating_add(size), shape: Shape::Bytes }
    }

    /// Rows, the first of which begins there; a part that is not known where they make no sense.
    pub fn rows(begin: u64, width: u64, told: [u64; 3]) -> Self {
        let known = Rows::decode(width, told)
            .and_then(|of| Some((of, begin.checked_add(of.extent()?)?)))
            .map(|(of, end)| Self { begin, end, shape: Shape::Rows(of) });
        known.unwrap_or(Self::SOME)
    }

    /// A box of an image, as a trace tells it.
    pub fn boxed(told: [u64; 3]) -> Self {
        let part = told.map(|word| [word as u32, (word >> 32) as u32]);
        Self { shape: Shape::Box(part), ..Self::WHOLE }
    }

    /// Whether the bytes from the first to the last meet.
    pub const fn overlaps(self, other: Self) -> bool {
        self.begin < other.end && other.begin < self.end
    }

    /// Whether both certainly have something in common.
    pub fn meets(self, other: Self) -> bool {
        self.overlaps(other)
            && match (self.shape, other.shape) {
                (Shape::Bytes, Shape::Bytes) => true,
                (Shape::Box(one), Shape::Box(two)) => {
                    let cut = |([a, m], [b, n]): ([u32; 2], [u32; 2])| {
                        let ends = |from: u32, size: u32| u64::from(from) + u64::from(size);
                        u64::from(a) < ends(b, n) && u64::from(b) < ends(a, m)
                    };
                    one.into_iter().zip(two).all(cut)
                }
                (Shape::Rows(rows), Shape::Bytes) => meet_bytes(self.begin, rows, other),
                (Shape::Bytes, Shape::Rows(rows)) => meet_bytes(other.begin, rows, self),
                (Shape::Rows(one), Shape::Rows(two)) => {
                    let count = |of: Rows| of.rows.saturating_mul(of.slices);
                    match count(one) <= count(two) {
                        true => meet_rows((self.begin, one), (other.begin, two)),
                        false => meet_rows((other.begin, two), (self.begin, one)),
                    }
                }
                (Shape::Box(_), _) => other == Self::WHOLE,
                (_, Shape::Box(_)) => self == Self::WHOLE,
                (Shape::Some, _) | (_, Shape::Some) => false,
            }
    }

    /// The same part of what is itself a part of something.
    pub fn inside(self, part: Self) -> Self {
        let end = part.begin.saturating_add(self.end).min(part.end);
        Self { begin: part.begin.saturating_add(self.begin).min(end), end, shape: self.shape }
    }
}

fn meet_bytes(begin: u64, rows: Rows, bytes: Range) -> bool {
    bytes.end > begin && rows.meet(bytes.begin.saturating_sub(begin), bytes.end - begin)
}

/// Rows that begin at an address each; the first are the fewer.
fn meet_rows((begin, few): (u64, Rows), (other, many): (u64, Rows)) -> bool {
    if few.rows.saturating_mul(few.slices) > MOST_ROWS {
        return false;
    }
    (0..few.slices).any(|slice| {
        (0..few.rows).any(|row| {
            let from = begin.saturating_add(slice * few.slice + row * few.row);
            meet_bytes(other, many, Range::new(from, few.width))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn bytes(of: Range) -> BTreeSet<u64> {
        match of.shape {
            Shape::Rows(r) => (0..r.slices)
                .flat_map(|s| (0..r.rows).map(move |y| s * r.slice + y * r.row))
                .flat_map(|from| (0..r.width).map(move |x| of.begin + from + x))
                .collect(),
            _ => (of.begin..of.end).collect(),
        }
    }

    fn any_rows() -> impl Strategy<Value = Range> {
        (0_u64..40, 1_u64..6, 1_u64..5, 1_u64..4, 0_u64..7, 0_u64..9).prop_map(
            |(begin, width, rows, slices, gap, more)| {
                let row = width + gap;
                let slice = (rows - 1) * row + width + more;
                Range::rows(begin, width, [rows | slices << 32, row, slice])
            },
        )
    }

    proptest! {
        #[test]
        fn rows_meet_where_they_have_a_byte_in_common(
            one in any_rows(), two in any_rows(), begin in 0_u64..200, size in 1_u64..30,
        ) {
            let plain = Range::new(begin, size);
            prop_assert_eq!(one.meets(plain), !bytes(one).is_disjoint(&bytes(plain)));
            prop_assert_eq!(plain.meets(one), one.meets(plain));
            prop_assert_eq!(one.meets(two), !bytes(one).is_disjoint(&bytes(two)));
        }

        #[test]
        fn nothing_told_is_too_strange(
            a: [u64; 5], b: [u64; 5],
        ) {
            let of = |[begin, width, x, y, z]: [u64; 5]| Range::rows(begin, width, [x, y, z]);
            let small = |[begin, width, x, y, z]: [u64; 5]| {
                Range::rows(begin, width % 99, [x & 0x3_0000_0003, y % 999, z])
            };
            let _ = (of(a).meets(of(b)), small(a).meets(small(b)), small(a).meets(of(b)));
        }
    }

    #[test]
    fn boxes_meet_in_all_three_dimensions() {
        let of = |x: u64, y: u64, w: u64, h: u64| Range::boxed([x | w << 32, y | h << 32, 1 << 32]);
        assert!(of(0, 0, 4, 4).meets(of(3, 3, 1, 1)));
        assert!(!of(0, 0, 4, 4).meets(of(4, 0, 4, 4)));
        assert!(!of(0, 0, 4, 4).meets(of(0, 4, 4, 4)));
        assert!(of(0, 0, 4, 4).meets(Range::WHOLE) && Range::WHOLE.meets(of(9, 9, 1, 1)));
        assert!(!of(0, 0, 4, 4).meets(Range::new(0, 64)) && !Range::SOME.meets(of(0, 0, 4, 4)));
    }

    #[test]
    fn rows_on_each_other_are_not_known() {
        assert_eq!(Range::rows(0, 8, [2 | 1 << 32, 4, 0]), Range::SOME);
        assert_eq!(Range::rows(0, 8, [2 | 2 << 32, 8, 12]), Range::SOME);
        assert_eq!(Range::rows(0, 8, [0, 8, 12]), Range::SOME);
        assert_ne!(Range::rows(0, 8, [2 | 1 << 32, 8, 0]), Range::SOME);
    }
}
