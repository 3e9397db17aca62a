//! Lists and ranges of sizes on the command line. Owns their notation; refuses empty and endless
//! ones.
#![forbid(unsafe_code)]

use std::str::FromStr;

/// Sizes in the order given: `8`, `1,2,4`, `1..4` (1 to 3), `1..=4`, `1-4`, each range with `:STEP`
/// behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<usize>);

/// A range with more members than this is a slip of the pen.
const MOST: usize = 100_000;

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        let mut sizes = Vec::new();
        for part in text.split(',') {
            let number = |t: &str| {
                t.trim().parse::<usize>().map_err(|_| format!("`{t}` in `{text}` is no number"))
            };
            let (range, step) =
                part.split_once(':').map_or(Ok((part, 1)), |(r, s)| number(s).map(|s| (r, s)))?;
            let bounds =
                match (range.split_once("..="), range.split_once(".."), range.split_once('-')) {
                    (Some((a, b)), _, _) | (None, None, Some((a, b))) => (number(a)?, number(b)?),
                    (None, Some((a, b)), _) => (number(a)?, number(b)?.saturating_sub(1)),
                    _ => number(range).map(|n| (n, n))?,
                };
            if bounds.0 == 0
                || step == 0
                || bounds.1 < bounds.0
                || (bounds.1 - bounds.0) / step >= MOST
            {
                return Err(format!(
                    "`{part}` holds no sizes: they begin at 1 and ranges go upwards"
                ));
            }
            sizes.extend((bounds.0..=bounds.1).step_by(step));
        }
        Ok(Sizes(sizes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_by_table() {
        for (text, want) in [
            ("8", vec![8]),
            ("1,2,4", vec![1, 2, 4]),
            ("1..4", vec![1, 2, 3]),
            ("1..=4,16", vec![1, 2, 3, 4, 16]),
            ("2-8:3", vec![2, 5, 8]),
        ] {
            assert_eq!(text.parse(), Ok(Sizes(want)), "{text}");
        }
        for text in ["", "0", "a", "4..2", "1..9:0", "1..", "1..99999999", "-3", "3..3"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }
}
