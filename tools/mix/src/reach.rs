//! How far an address can lie from those of other work-items, by what it is computed from: values as
//! ranges of numbers, around nothing or around a number that all work-items of a launch share. Owns
//! the arithmetic on ranges, which errs to what is wider; refuses to know a language.

/// Values that are computed one from the other, as far as they are followed: a chain that is longer
/// may be anything.
pub(crate) const DEPTH: u32 = 64;

/// Beyond this a range of addresses is no range of anything: all of a device's memory.
const FAR: u64 = 1 << 32;

/// What a value can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// An unsigned number between these two.
    Within(u64, u64),
    /// A number that all work-items share, and so much more at most.
    Around(u64),
    /// Any.
    Any,
}

use Value::{Any, Around, Within};

/// The largest number of so many bits.
const fn most(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

impl Value {
    /// Any number of so many bits.
    pub(crate) const fn of_bits(bits: u32) -> Self {
        if bits >= 64 { Any } else { Within(0, most(bits)) }
    }

    /// A number as it is written.
    pub(crate) const fn number(n: i64, bits: u32) -> Self {
        let n = n.cast_unsigned() & most(bits);
        Within(n, n)
    }

    /// The same where all work-items have it, whatever it is.
    const fn is_shared(self) -> bool {
        match self {
            Within(low, high) => low == high,
            Around(more) => more == 0,
            Any => false,
        }
    }

    const fn shared(self) -> Option<u64> {
        match self {
            Within(low, high) if low == high => Some(low),
            _ => None,
        }
    }

    /// How far it spreads.
    const fn spread(self) -> Option<u64> {
        match self {
            Within(low, high) => Some(high - low),
            Around(more) => Some(more),
            Any => None,
        }
    }

    /// Of numbers that do not fit, any.
    fn fitting(low: Option<u64>, high: Option<u64>, bits: u32) -> Self {
        match (low, high) {
            (Some(low), Some(high)) if high <= most(bits) => Within(low, high),
            _ => Self::of_bits(bits),
        }
    }

    /// Around a number that all share, unless that spreads over all that the bits hold.
    fn spreading(more: Option<u64>, bits: u32) -> Self {
        more.filter(|more| *more < most(bits)).map_or(Self::of_bits(bits), Around)
    }

    /// Around a number that all share, where neither is any.
    fn around(self, other: Self, bits: u32) -> Self {
        match (self.spread(), other.spread()) {
            (Some(a), Some(b)) => Self::spreading(a.checked_add(b), bits),
            _ => Self::of_bits(bits),
        }
    }

    pub(crate) fn plus(self, other: Self, bits: u32) -> Self {
        match (self, other) {
            (Within(a, b), Within(c, d)) => Self::fitting(a.checked_add(c), b.checked_add(d), bits),
            _ => self.around(other, bits),
        }
    }

    pub(crate) fn minus(self, other: Self, bits: u32) -> Self {
        match (self, other) {
            (Within(a, b), Within(c, d)) => Self::fitting(a.checked_sub(d), b.checked_sub(c), bits),
            _ => self.around(other, bits),
        }
    }

    pub(crate) fn times(self, other: Self, bits: u32) -> Self {
        match (self, other) {
            (Within(a, b), Within(c, d)) => Self::fitting(a.checked_mul(c), b.checked_mul(d), bits),
            (Around(more), by) | (by, Around(more)) => match by.shared() {
                Some(by) => Self::spreading(more.checked_mul(by), bits),
                None => self.of_shared(other, bits),
            },
            _ => Self::of_bits(bits),
        }
    }

    /// What is computed of two numbers that all share is shared.
    pub(crate) fn of_shared(self, other: Self, bits: u32) -> Self {
        match self.is_shared() && other.is_shared() {
            true => Around(0),
            false => Self::of_bits(bits),
        }
    }

    pub(crate) fn left(self, by: Self, bits: u32) -> Self {
        match by.shared() {
            Some(by) if by < 64 => self.times(Within(1 << by, 1 << by), bits),
            _ => self.of_shared(by, bits),
        }
    }

    /// Shifted to the right, zeros behind.
    pub(crate) fn right(self, by: Self, bits: u32) -> Self {
        match (self, by.shared()) {
            (Within(low, high), Some(by)) if by < 64 => Within(low >> by, high >> by),
            (_, Some(by)) if by < 64 && !self.is_shared() => Within(0, most(bits) >> by),
            _ => self.of_shared(by, bits),
        }
    }

    /// The same where the first bit, which is copied, is none.
    pub(crate) fn right_signed(self, by: Self, bits: u32) -> Self {
        match self {
            Within(_, high) if high <= most(bits - 1) => self.right(by, bits),
            _ => self.of_shared(by, bits),
        }
    }

    pub(crate) fn and(self, other: Self, bits: u32) -> Self {
        match (self, other) {
            (Within(_, a), Within(_, b)) => Within(0, a.min(b)),
            (Within(_, a), _) | (_, Within(_, a)) => Within(0, a),
            _ => self.of_shared(other, bits),
        }
    }

    /// Or, and either but not both.
    pub(crate) fn or(self, other: Self, bits: u32) -> Self {
        match (self, other) {
            (Within(_, a), Within(_, b)) => {
                Within(0, most(64 - (a | b).leading_zeros()).min(most(bits)))
            }
            _ => self.of_shared(other, bits),
        }
    }

    /// What is left of a division without signs.
    pub(crate) fn rest(self, by: Self, bits: u32) -> Self {
        match (self, by) {
            (Within(_, a), Within(_, by)) => Within(0, a.min(by.saturating_sub(1))),
            (_, Within(_, by)) => Within(0, by.saturating_sub(1)),
            _ => self.of_shared(by, bits),
        }
    }

    /// One or the other.
    pub(crate) fn either(self, other: Self) -> Self {
        match (self, other) {
            (Within(a, b), Within(c, d)) => Within(a.min(c), b.max(d)),
            _ => Any,
        }
    }

    /// In more or in fewer bits, with its sign where it has one.
    pub(crate) fn resized(self, from: u32, signed: bool, bits: u32) -> Self {
        match self {
            Within(_, high) if high > most(if signed { from - 1 } else { from }) => {
                Self::of_bits(bits)
            }
            Within(_, high) if high > most(bits) => Self::of_bits(bits),
            Any => Self::of_bits(if signed { bits } else { from.min(bits) }),
            same => same,
        }
    }

    /// Bytes that accesses of so many bytes at such addresses can touch; `u64::MAX`: anywhere.
    pub(crate) fn reach(self, bytes: u32) -> u64 {
        let all = self.spread().map(|more| more.saturating_add(u64::from(bytes)));
        all.filter(|all| *all < FAR).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn has(of: Value, base: u64, n: u64) -> bool {
        match of {
            Within(low, high) => (low..=high).contains(&n),
            Around(more) => n.wrapping_sub(base) <= more,
            Any => true,
        }
    }

    proptest! {
        /// Whatever the numbers of two ranges are, what is computed of them lies in the range that
        /// is computed of both.
        #[test]
        fn ranges_hold_what_is_computed(
            ends in prop::array::uniform4(any::<u32>()),
            shares in prop::array::uniform2(0.0f64..1.0),
            shift in 0u64..32,
        ) {
            let range = |a: u32, b: u32, share: f64| {
                let (low, high) = (u64::from(a.min(b)), u64::from(a.max(b)));
                let n = low + ((high - low) as f64 * share) as u64;
                (Within(low, high), n)
            };
            let ((a, x), (b, y)) = (range(ends[0], ends[1], shares[0]), range(ends[2], ends[3], shares[1]));
            let (m, by) = (u64::from(u32::MAX), Within(shift, shift));
            let each = [
                (a.plus(b, 32), x.wrapping_add(y) & m),
                (a.minus(b, 32), x.wrapping_sub(y) & m),
                (a.times(b, 32), x.wrapping_mul(y) & m),
                (a.times(b, 64), x.wrapping_mul(y)),
                (a.and(b, 32), x & y),
                (a.or(b, 32), x | y),
                (a.or(b, 32), x ^ y),
                (a.left(by, 32), x << shift & m),
                (a.right(by, 32), x >> shift),
                (a.right_signed(by, 32), u64::from(((x as u32).cast_signed() >> shift).cast_unsigned())),
                (a.either(b), x),
                (a.either(b), y),
                (a.resized(32, true, 64), i64::from((x as u32).cast_signed()).cast_unsigned()),
                (a.resized(32, false, 16), x & 0xffff),
            ];
            for (at, (range, n)) in each.into_iter().enumerate() {
                prop_assert!(has(range, 0, n), "{at}: {range:?} {n}");
            }
            if y > 0 {
                prop_assert!(has(a.rest(b, 32), 0, x % y));
            }
            // Around what all share.
            let base = 1 << 40;
            let (low, span) = match a { Within(low, high) => (low, high - low), _ => (0, 0) };
            prop_assert!(has(Around(0).plus(a, 64), base + low, base + x));
            prop_assert!(has(Around(span).times(Within(4, 4), 64), 4 * (base + low), 4 * (base + x)));
        }
    }
}
