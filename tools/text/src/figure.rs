//! Owns how figures are written: digits, prefixes, thousands, and a dash for what is not known.

use clscope_profile::interval::{Interval, Spoken};

/// A number with as many digits as people want to read.
pub fn number(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => "?".to_owned(),
        a if a >= 1000.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a >= 0.1 || a == 0.0 => format!("{x:.3}"),
        _ => format!("{x:.3e}"),
    }
}

/// A number with its thousands apart.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Three significant digits with an SI prefix.
pub fn si(value: f64, unit: &str) -> String {
    let (scaled, prefix) = match value.abs() {
        0.0 => (0.0, ""),
        x if x < 1e-6 => (value * 1e9, "n"),
        x if x < 1e-3 => (value * 1e6, "u"),
        x if x < 1.0 => (value * 1e3, "m"),
        x if x < 1e4 => (value, ""),
        _ => (value * 1e-3, "k"),
    };
    let text = match scaled.abs() {
        x if x < 9.995 => format!("{scaled:.2}"),
        x if x < 99.95 => format!("{scaled:.1}"),
        _ => format!("{scaled:.0}"),
    };
    format!("{text}{prefix}{unit}")
}

/// A count with a unit, three significant digits.
pub fn short(value: f64) -> String {
    let (value, unit) = match value {
        v if v < 999.5 => (v, ""),
        v if v < 999.5e3 => (v / 1e3, "k"),
        v if v < 999.5e6 => (v / 1e6, "M"),
        v => (v / 1e9, "G"),
    };
    match value {
        v if unit.is_empty() && v.fract() == 0.0 => format!("{v:.0}"),
        v if v < 9.995 => format!("{v:.2}{unit}"),
        v if v < 99.95 => format!("{v:.1}{unit}"),
        v => format!("{v:.0}{unit}"),
    }
}

/// Joules with a unit, three significant digits.
pub fn joules(value: f64) -> String {
    match value.abs() {
        v if v >= 0.9995 || v == 0.0 => format!("{}J", short(value)),
        v if v >= 0.9995e-3 => format!("{}mJ", short(value * 1e3)),
        _ => format!("{}uJ", short(value * 1e6)),
    }
}

/// What stands in the column `+-` of a figure: nothing of one that is exact.
pub fn plus_minus(of: &Interval) -> String {
    of.spoken().plus_minus().unwrap_or_default()
}

/// A figure without its interval, which stands in a column of its own; as a bound where it reaches
/// down to nothing.
pub fn or_bound(of: &Interval, shown: impl Fn(f64) -> String) -> String {
    match of.spoken() {
        Spoken::AtMost(most) => format!("<{}", shown(most)),
        _ => shown(of.value),
    }
}

/// What is not known is a dash.
pub fn dash(of: Option<String>) -> String {
    of.unwrap_or_else(|| "-".to_owned())
}

/// The first of some names, and how many more there are.
pub(crate) fn some_names(all: &[impl AsRef<str>], most: usize) -> Vec<String> {
    let mut names: Vec<String> = all.iter().take(most).map(|n| n.as_ref().to_owned()).collect();
    if all.len() > most {
        names.push(format!("{} more", all.len() - most));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_threes() {
        let numbers = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (n, text) in numbers {
            assert_eq!(thousands(n), text);
        }
    }
}
