//! From a part of an experiment to the cases of a device. Owns the values that the device takes;
//! refuses to run them: that is [`crate::run`].
#![forbid(unsafe_code)]

use super::{Part, Span};
use crate::cl::{Device, DeviceFacts};
use crate::run::{self, Choice};
use crate::settings::Settings;
use crate::suite::{Case, Suite, is_floor};
use crate::sweep::{self, Along, Axis, SweepError, Value};

/// The settings of a part: the user's, and what the document says where the user says nothing.
#[must_use]
pub fn settings(part: &Part, asked: &Settings) -> Settings {
    Settings {
        power: asked.power || part.power,
        iterations: asked.iterations.or(part.iterations),
        ..asked.clone()
    }
}

/// Work-groups at both sides of the rounds of the compute units.
fn rounds(units: usize) -> Vec<usize> {
    let mut all = vec![
        units / 2,
        units,
        units + 1,
        2 * units,
        2 * units + 1,
        3 * units,
        3 * units + 1,
        4 * units,
    ];
    all.retain(|n| *n > 0);
    all.dedup();
    all
}

/// The values of an axis: the user's, else those of the experiment that the case takes.
fn along(axis: Axis, span: Span, device: &DeviceFacts, case: &Case, asked: &[Along]) -> Along {
    if let Some(own) = asked.iter().find(|a| a.axis == axis && !a.values.is_empty()) {
        return own.clone();
    }
    let values: Vec<Value> = match span {
        Span::Usual => Vec::new(),
        Span::Numbers(numbers) => numbers.iter().copied().map(Value::Number).collect(),
        Span::Types(types) => types.iter().copied().map(Value::Type).collect(),
        Span::Rounds => {
            rounds(device.compute_units as usize).into_iter().map(Value::Number).collect()
        }
    };
    let takes = |v: &Value| {
        let fits = axis != Axis::Tpb || v.number().is_none_or(|n| n <= device.max_group);
        fits && case.swept.as_ref().is_some_and(|s| s.at(axis, *v).is_ok())
    };
    Along { axis, values: values.into_iter().filter(takes).collect() }
}

/// The cases of a part on a device; `asked` are axes whose values the user chose.
///
/// # Errors
/// Where a case does not exist at a value that the user chose.
pub fn cases(
    part: &Part,
    device: &Device,
    settings: &Settings,
    asked: &[Along],
) -> Result<Vec<(&'static Suite, Vec<Case>)>, SweepError> {
    let names: Vec<String> = part.cases.iter().map(|c| (*c).to_owned()).collect();
    let mut suites: Vec<String> =
        names.iter().filter_map(|c| c.split('/').next()).map(str::to_owned).collect();
    suites.dedup();
    let choice = Choice { suites, cases: names, ..Choice::default() };
    if part.along.is_empty() {
        return Ok(run::cases(device, settings, &choice));
    }
    let all = Settings { full: true, ..settings.clone() };
    let mut out = Vec::new();
    for (suite, found) in run::cases(device, &all, &choice) {
        let mut points = Vec::new();
        for case in found {
            if is_floor(&case.id) {
                points.push(case);
            } else if choice.cases.contains(&case.id) {
                let axes: Vec<Along> = part
                    .along
                    .iter()
                    .map(|(axis, span)| along(*axis, *span, &device.facts, &case, asked))
                    .collect();
                points.extend(sweep::grid(&case, &device.facts, settings, &axes)?);
            }
        }
        out.push((suite, points));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_small_and_rise() {
        assert_eq!(rounds(132), [66, 132, 133, 264, 265, 396, 397, 528]);
        assert_eq!(rounds(1), [1, 2, 3, 4]);
        assert!(rounds(2).is_sorted());
    }
}
