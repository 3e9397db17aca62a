//! Numbers as people read them. Refuses to choose what is said.

use crate::figure::Figure;

/// Three digits.
pub(super) fn short(value: f64) -> String {
    match value.abs() {
        a if !a.is_finite() => "?".to_owned(),
        a if a >= 99.95 => format!("{value:.0}"),
        a if a >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn prefixed(value: f64, unit: &str, prefixes: &[(f64, &str)]) -> String {
    let (scale, prefix) = prefixes
        .iter()
        .copied()
        .find(|(scale, _)| value.abs() >= 0.9995 * scale)
        .or(prefixes.last().copied())
        .unwrap_or((1.0, ""));
    format!("{} {prefix}{unit}", short(value / scale))
}

const LARGE: [(f64, &str); 5] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")];

/// A time in nanoseconds.
pub(super) fn time(ns: f64) -> String {
    prefixed(ns * 1e-9, "s", &[(1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")])
}

/// Joules.
pub(super) fn joules(joules: f64) -> String {
    prefixed(joules, "J", &[(1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")])
}

/// Bytes, in powers of ten.
pub(super) fn bytes(bytes: f64) -> String {
    if bytes < 1e3 { format!("{bytes:.0} B") } else { prefixed(bytes, "B", &LARGE) }
}

/// A count with a unit.
pub(super) fn many(value: f64, unit: &str) -> String {
    if value < 1e4 { format!("{value:.0} {unit}") } else { prefixed(value, unit, &LARGE) }
}

/// Percent of a share.
pub(super) fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p >= 9.95 || p == 0.0 { format!("{p:.0} %") } else { format!("{p:.1} %") }
}

/// The half of an interval over its value, behind the value; nothing where it has none.
pub(super) fn doubt(of: Figure) -> String {
    let side = (of.high - of.low) / 2.0 / of.value;
    if side.is_finite() && side > 5e-4 { format!(" (+-{})", percent(side)) } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Evidence;

    #[test]
    fn numbers_have_three_digits_and_their_unit() {
        assert_eq!(time(2.653e6), "2.65 ms");
        assert_eq!(time(999.9), "1.00 us");
        assert_eq!(time(3.2e9), "3.20 s");
        assert_eq!((bytes(64.0), bytes(7.3e10)), ("64 B".to_owned(), "73.0 GB".to_owned()));
        assert_eq!(many(17.18e9, "FLOP"), "17.2 GFLOP");
        assert_eq!(many(412.0, "gaps"), "412 gaps");
        assert_eq!(joules(0.0021), "2.10 mJ");
        assert_eq!((percent(0.82), percent(0.012)), ("82 %".to_owned(), "1.2 %".to_owned()));
        assert_eq!(doubt(Figure::new(10.0, 9.0, 11.0, Evidence::Measured)), " (+-10 %)");
        assert_eq!(doubt(Figure::exact(10.0, Evidence::Measured)), "");
    }
}
