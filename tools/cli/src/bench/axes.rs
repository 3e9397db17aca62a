//! The axes of a sweep on the command line. Owns their notation; refuses to know which case has
//! which axis.
#![forbid(unsafe_code)]

use super::list::Sizes;
use clscope_microbench::job::Scalar;
use clscope_microbench::sweep::{Along, Axis, Value};
use std::str::FromStr;

/// Axes in the order given, each with its values behind `=` where they are not the usual ones:
/// `blocks`, `width,precision`, `blocks=1..=8,16,width=1,4`. What follows a comma is an axis, or a
/// further value of the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes(pub Vec<Along>);

fn values(axis: Axis, text: &str) -> Result<Vec<Value>, String> {
    let text = text.trim();
    if axis == Axis::Precision {
        let scalar = Scalar::ALL.into_iter().find(|s| s.name() == text);
        let scalar =
            scalar.ok_or_else(|| format!("`{text}` is none of float, double, half and int"))?;
        return Ok(vec![Value::Type(scalar)]);
    }
    // The one axis on which nothing is a place: no additions at all.
    if axis == Axis::Alpha && text == "0" {
        return Ok(vec![Value::Number(0)]);
    }
    Ok(text.parse::<Sizes>()?.0.into_iter().map(Value::Number).collect())
}

impl FromStr for Axes {
    type Err = String;

    fn from_str(text: &str) -> Result<Axes, String> {
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
                    let names: Vec<&str> = Axis::ALL.iter().map(|a| a.name()).collect();
                    return Err(format!(
                        "`{}` is no axis; the axes are {}",
                        name.trim(),
                        names.join(", ")
                    ));
                }
            }
        }
        match out.as_slice() {
            [_] => Ok(Axes(out)),
            [a, b] if a.axis != b.axis => Ok(Axes(out)),
            _ => Err("one axis, or two that differ, are swept at a time".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_by_table() {
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
}
