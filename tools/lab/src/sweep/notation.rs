//! Sizes and axes as text: lists, ranges, and the axes of a sweep with their values. Owns their
//! notation; refuses empty and endless lists, and to know which case has which axis.

use super::{Along, Axis, Value};
use clscope_microbench::job::Scalar;
use std::str::FromStr;

/// A text is no notation of sizes or axes; it says why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotationError(String);

/// Sizes in the order given: `8`, `1,2,4`, `1..4` (1 to 3), `1..=4`, `1-4`, each range with `:STEP`
/// behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<usize>);

/// A range with more members than this is a slip of the pen.
const MOST: usize = 100_000;

impl FromStr for Sizes {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Sizes, NotationError> {
        let mut sizes = Vec::new();
        for part in text.split(',') {
            let number = |t: &str| {
                t.trim()
                    .parse::<usize>()
                    .map_err(|_| NotationError(format!("`{t}` in `{text}` is no number")))
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
                return Err(NotationError(format!(
                    "`{part}` holds no sizes: they begin at 1 and ranges go upwards"
                )));
            }
            sizes.extend((bounds.0..=bounds.1).step_by(step));
        }
        Ok(Sizes(sizes))
    }
}

/// Axes in the order given, each with its values behind `=` where they are not the usual ones:
/// `blocks`, `width,precision`, `blocks=1..=8,16,width=1,4`. What follows a comma is an axis, or a
/// further value of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes(pub Vec<Along>);

fn values(axis: Axis, text: &str) -> Result<Vec<Value>, NotationError> {
    let text = text.trim();
    if axis == Axis::Precision {
        let scalar = Scalar::ALL.into_iter().find(|s| s.name() == text);
        let scalar = scalar.ok_or_else(|| {
            NotationError(format!("`{text}` is none of float, double, half and int"))
        })?;
        return Ok(vec![Value::Type(scalar)]);
    }
    // The one axis on which nothing is a place: no additions at all.
    if axis == Axis::Alpha && text == "0" {
        return Ok(vec![Value::Number(0)]);
    }
    Ok(text.parse::<Sizes>()?.0.into_iter().map(Value::Number).collect())
}

impl FromStr for Axes {
    type Err = NotationError;

    fn from_str(text: &str) -> Result<Axes, NotationError> {
        let mut out: Vec<Along> = Vec::new();
        for part in text.split(',') {
            let (name, list) = match part.split_once('=') {
                // The range 1..=8 has the sign, too.
                Some((name, _)) if name.ends_with("..") => (part, None),
                Some((name, list)) => (name, Some(list)),
                None => (part, None),
            };
            match (Axis::named(name.trim()), out.last_mut()) {
                (Some(axis), _) => {
                    let values = list.map_or(Ok(Vec::new()), |list| values(axis, list))?;
                    out.push(Along { axis, values });
                }
                (None, Some(Along { axis, values: known })) if !known.is_empty() => {
                    known.extend(values(*axis, part)?);
                }
                (None, _) => {
                    let names: Vec<&str> = Axis::all().map(Axis::name).collect();
                    return Err(NotationError(format!(
                        "`{}` is no axis; the axes are {}",
                        name.trim(),
                        names.join(", ")
                    )));
                }
            }
        }
        match out.as_slice() {
            [_] => Ok(Axes(out)),
            [a, b] if a.axis != b.axis => Ok(Axes(out)),
            _ => Err(NotationError("one axis, or two that differ, are swept at a time".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_by_table() {
        let along = |axis, numbers: &[usize]| Along {
            axis,
            values: numbers.iter().map(|&n| Value::Number(n)).collect(),
        };
        for (text, want) in [
            ("blocks", vec![along(Axis::Blocks, &[])]),
            ("width,blocks", vec![along(Axis::Width, &[]), along(Axis::Blocks, &[])]),
            (
                "blocks=1..=3,8,width=1,4",
                vec![along(Axis::Blocks, &[1, 2, 3, 8]), along(Axis::Width, &[1, 4])],
            ),
            ("blocks=8,1..=3", vec![along(Axis::Blocks, &[8, 1, 2, 3])]),
            ("alpha=0,16", vec![along(Axis::Alpha, &[0, 16])]),
        ] {
            assert_eq!(text.parse(), Ok(Axes(want)), "{text}");
        }
        let types = "precision=float,double".parse::<Axes>().unwrap();
        assert_eq!(types.0[0].values, [Value::Type(Scalar::Float), Value::Type(Scalar::Double)]);
        for text in [
            "",
            "colour",
            "blocks,",
            "blocks,3",
            "blocks=",
            "blocks=0",
            "blocks,blocks",
            "precision=quad",
            "blocks,width,tpb",
            "3",
        ] {
            assert!(text.parse::<Axes>().is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_by_table() {
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
