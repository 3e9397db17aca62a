//! Differences between two contents of a memory: exact, and in ULPs where elements are
//! floating-point values. Values in, values out: refuses to decide how much is too much.

use crate::element::Element;

/// Differing elements that are shown.
pub const SHOWN: usize = 5;

/// An element that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its number, from 0.
    pub element: u64,
    /// What was expected, and what is there.
    pub values: [String; 2],
}

/// What differs between two contents of the same size.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Difference {
    /// Elements that were compared; a rest that is no whole element counts as bytes.
    pub elements: u64,
    /// Elements with other bytes.
    pub differing: u64,
    /// Bytes that differ.
    pub bytes: u64,
    /// Of floating-point elements, the most representable values between the two (units in the last
    /// place); both zeros are one value, and any NaN equals any other. Nothing where elements are
    /// no floating-point values and differ, and where a NaN stands against a number.
    pub ulps: Option<u64>,
    /// Greatest difference of two values, where all are numbers.
    pub greatest: Option<f64>,
    /// The first elements that differ.
    pub first: Vec<Place>,
}

/// Compares contents; those of different sizes differ in every byte that only one has.
pub fn difference(expected: &[u8], found: &[u8], element: Element) -> Difference {
    let size = element.bytes();
    let common = expected.len().min(found.len());
    let longer = expected.len().max(found.len()) - common;
    let mut out = Difference {
        elements: common.div_ceil(size) as u64,
        ulps: Some(0),
        greatest: Some(0.0),
        ..Difference::default()
    };
    if longer > 0 {
        (out.bytes, out.differing, out.ulps, out.greatest) =
            (longer as u64, longer as u64, None, None);
    }
    if expected == found {
        return out;
    }
    let pairs = expected[..common].chunks(size).zip(found[..common].chunks(size));
    for (number, (a, b)) in pairs.enumerate().filter(|(_, (a, b))| a != b) {
        out.differing += 1;
        out.bytes += a.iter().zip(b).filter(|(a, b)| a != b).count() as u64;
        let kind = if a.len() == size { element } else { Element::Byte };
        if out.first.len() < SHOWN {
            out.first
                .push(Place { element: number as u64, values: [kind.shown(a), kind.shown(b)] });
        }
        let apart = distance(kind, a, b);
        out.ulps = out.ulps.zip(apart).map(|(most, apart)| most.max(apart));
        let values = kind.value(a).zip(kind.value(b)).map(|(a, b)| (a - b).abs());
        let bits_alone = apart == Some(0);
        out.greatest = match (out.greatest, values) {
            (greatest, _) if bits_alone => greatest,
            (Some(most), Some(apart)) if apart.is_finite() => Some(most.max(apart)),
            _ => None,
        };
    }
    out
}

/// Whether two contents hold the same elements, in another order. Of bytes whose meaning is not
/// known nobody can tell.
pub fn is_reordered(expected: &[u8], found: &[u8], element: Element) -> bool {
    if element == Element::Byte || expected.len() != found.len() || expected == found {
        return false;
    }
    // Elements at places where both are the same take no part in it.
    let size = element.bytes();
    let apart = |(a, b): &(&[u8], &[u8])| a != b;
    let pairs: Vec<_> = expected.chunks(size).zip(found.chunks(size)).filter(apart).collect();
    let (mut before, mut after): (Vec<&[u8]>, Vec<&[u8]>) = pairs.into_iter().unzip();
    before.sort_unstable();
    after.sort_unstable();
    before == after
}

fn distance(kind: Element, a: &[u8], b: &[u8]) -> Option<u64> {
    let (a, b) = (kind.ordered(a)?, kind.ordered(b)?);
    match (a.is_nan, b.is_nan) {
        (true, true) => Some(0),
        (false, false) => Some(a.rank.abs_diff(b.rank)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn floats(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn elements_in_another_order_are_told() {
        let (a, b) = (floats(&[1.0, 2.0, 2.0]), floats(&[2.0, 1.0, 2.0]));
        assert!(is_reordered(&a, &b, Element::Float));
        assert!(!is_reordered(&a, &a, Element::Float));
        assert!(!is_reordered(&a, &floats(&[2.0, 1.0, 1.0]), Element::Float));
        assert!(!is_reordered(&a, &b[..8], Element::Float));
        // Bytes may be parts of anything.
        assert!(!is_reordered(&[1, 2], &[2, 1], Element::Byte));
    }

    #[test]
    fn ulps_by_table() {
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        for (a, b, want) in [
            (1.0, 1.0, Some(0)),
            (1.0, next, Some(1)),
            (0.0, -0.0, Some(0)),
            (f32::from_bits(1), -f32::from_bits(1), Some(2)),
            (f32::MAX, f32::INFINITY, Some(1)),
            (f32::NAN, -f32::NAN, Some(0)),
            (f32::NAN, 1.0, None),
            (1.0, 2.0, Some(1 << 23)),
        ] {
            let found = difference(&floats(&[5.0, a]), &floats(&[5.0, b]), Element::Float);
            assert_eq!(found.ulps, want, "{a} {b}");
            assert_eq!(found.elements, 2);
        }
        let apart = difference(&f64::MIN.to_le_bytes(), &f64::MAX.to_le_bytes(), Element::Double);
        assert!(apart.ulps.unwrap() > 1 << 63 && apart.greatest.is_none(), "{apart:?}");
    }

    #[test]
    fn places_and_numbers_are_told() {
        let (mut a, b) = (vec![0u8; 20], vec![0u8; 20]);
        a[4] = 1;
        a[5] = 1;
        a[19] = 7;
        let int = Element::Integer { bytes: 4, signed: true };
        let found = difference(&a, &b, int);
        assert_eq!((found.elements, found.differing, found.bytes), (5, 2, 3));
        assert_eq!(found.first[0], Place { element: 1, values: ["257".into(), "0".into()] });
        assert_eq!((found.ulps, found.greatest), (None, Some(f64::from(7 << 24))));
        // A rest that is no element, and contents of other sizes.
        let found = difference(&[0, 0, 0, 0, 1], &[0, 0, 0, 0, 2], Element::Float);
        assert_eq!((found.differing, found.ulps), (1, None));
        let found = difference(&[0; 8], &[0; 5], Element::Float);
        assert_eq!((found.bytes, found.ulps), (3, None));
        let same = difference(&a, &a, Element::Byte);
        assert_eq!((same.differing, same.ulps, same.greatest), (0, Some(0), Some(0.0)));
    }

    proptest! {
        #[test]
        fn a_difference_is_symmetric_and_counts_bytes(
            a in prop::collection::vec(any::<u8>(), 0..64),
            b in prop::collection::vec(any::<u8>(), 0..64),
            kind in prop::sample::select(vec![
                Element::Byte, Element::Half, Element::Float, Element::Double,
                Element::Integer { bytes: 4, signed: true }]),
        ) {
            let (one, other) = (difference(&a, &b, kind), difference(&b, &a, kind));
            prop_assert_eq!((one.differing, one.bytes, one.ulps), (other.differing, other.bytes, other.ulps));
            prop_assert_eq!(one.differing == 0, a == b);
            prop_assert!(one.bytes >= one.differing);
        }
    }
}
