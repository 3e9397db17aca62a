//! Numbers as people read them, and sentences that keep each number that they say as a value.
//! Refuses to choose what is said.

use super::Number;
use crate::figure::{Evidence, Figure};
use clscope_io::text::bytes;
use clscope_profile::interval::Spoken;

/// A sentence, and the numbers in it by themselves.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sentence {
    pub(super) text: String,
    pub(super) numbers: Vec<Number>,
}

impl From<&str> for Sentence {
    fn from(text: &str) -> Self {
        Self::default().put(text)
    }
}

impl From<String> for Sentence {
    fn from(text: String) -> Self {
        Self { text, numbers: Vec::new() }
    }
}

impl Sentence {
    /// Words.
    pub(super) fn put(mut self, text: &str) -> Self {
        self.text.push_str(text);
        self
    }

    /// Another one behind it.
    pub(super) fn join(mut self, other: Self) -> Self {
        self.text.push_str(&other.text);
        self.numbers.extend(other.numbers);
        self
    }

    /// Several with `between` them.
    pub(super) fn list(all: impl IntoIterator<Item = Self>, between: &str) -> Self {
        let mut out = Self::default();
        for (n, one) in all.into_iter().enumerate() {
            out = out.put(if n == 0 { "" } else { between }).join(one);
        }
        out
    }

    /// A number as `text` shows it.
    fn keep(mut self, name: &str, unit: &'static str, value: Figure, text: &str) -> Self {
        self.text.push_str(text);
        self.numbers.push(Number { name: name.to_owned(), unit, value });
        self
    }

    /// A time in nanoseconds.
    pub(super) fn time(self, name: &'static str, ns: Figure) -> Self {
        self.keep(name, "ns", ns, &time(ns.value))
    }

    /// A share of something, in percent.
    pub(super) fn share(self, name: &str, of: Figure) -> Self {
        self.keep(name, "share", of, &percent(of.value))
    }

    /// Bytes, with the half of their interval where they have one.
    pub(super) fn bytes(self, name: &'static str, of: Figure) -> Self {
        let text = bytes(of.value) + &doubt(of, bytes);
        self.keep(name, "bytes", of, &text)
    }

    /// Joules.
    pub(super) fn joules(self, name: &'static str, of: Figure) -> Self {
        self.keep(name, "J", of, &joules(of.value))
    }

    /// Watts.
    pub(super) fn watts(self, name: &'static str, of: Figure) -> Self {
        self.keep(name, "W", of, &format!("{:.0} W", of.value))
    }

    /// A rate in gigabytes per second.
    pub(super) fn rate(self, name: &'static str, of: Figure) -> Self {
        self.keep(name, "GB/s", of, &format!("{} GB/s", short(of.value)))
    }

    /// A large count with its unit.
    pub(super) fn many(self, name: &'static str, of: Figure, unit: &'static str) -> Self {
        self.keep(name, unit, of, &many(of.value, unit))
    }

    /// A count of things.
    pub(super) fn count(self, n: u64, one: &'static str, more: &'static str) -> Self {
        self.keep(more, more, Figure::counted(n), &clscope_io::text::count(n, one, more))
    }

    /// A whole number by itself.
    pub(super) fn whole(self, name: &'static str, n: u64) -> Self {
        self.keep(name, name, Figure::counted(n), &n.to_string())
    }

    /// A number with one digit behind the point.
    pub(super) fn tenths(self, name: &'static str, unit: &'static str, of: Figure) -> Self {
        self.keep(name, unit, of, &format!("{:.1}", of.value))
    }

    /// Whether nothing is said.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

/// A share, none of it and no more than all.
pub(super) fn within_all(of: Figure) -> Figure {
    let within = |share: f64| share.clamp(0.0, 1.0);
    Figure { value: within(of.value), low: within(of.low), high: within(of.high), ..of }
}

/// A count of which nothing is uncertain, or a share of two of them.
pub(super) const fn counted(value: f64) -> Figure {
    Figure::exact(value, Evidence::Counted)
}

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

/// A count with a unit.
pub(super) fn many(value: f64, unit: &str) -> String {
    if value < 1e4 { format!("{value:.0} {unit}") } else { prefixed(value, unit, &LARGE) }
}

/// Percent of a share.
pub(super) fn percent(share: f64) -> String {
    let p = share * 100.0;
    if p >= 9.95 || p == 0.0 { format!("{p:.0} %") } else { format!("{p:.1} %") }
}

/// What stands behind a value, as in the report; nothing where that is less than a tenth of a percent.
pub(super) fn doubt(of: Figure, shown: impl Fn(f64) -> String) -> String {
    let share = of.interval().longer() / of.value;
    match share {
        share if !share.is_finite() || share <= 5e-4 => String::new(),
        share if share > 1.0 => format!(" ({} to {})", shown(of.low), shown(of.high)),
        share => {
            let half = Spoken::Within(share).plus_minus().unwrap_or_default();
            format!(" (+-{})", half.replace('%', " %"))
        }
    }
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
        assert_eq!(many(17.18e9, "FLOP"), "17.2 GFLOP");
        assert_eq!(many(412.0, "gaps"), "412 gaps");
        assert_eq!(joules(0.0021), "2.10 mJ");
        assert_eq!((percent(0.82), percent(0.012)), ("82 %".to_owned(), "1.2 %".to_owned()));
        assert_eq!(doubt(Figure::new(10.0, 9.0, 11.0, Evidence::Measured), bytes), " (+-10 %)");
        assert_eq!(doubt(Figure::exact(10.0, Evidence::Measured), bytes), "");
        // More than the value itself is no half-width of what is above 0.
        let wide = Figure::new(4e8, 3.3e7, 1.4e9, Evidence::Measured);
        assert_eq!(doubt(wide, bytes), " (31.5 MiB to 1.30 GiB)");
    }
}
