//! From a part of an experiment to the cases of a device. Owns the values that the device takes,
//! and what stands in where it lacks an instruction; refuses to run them: that is [`crate::run`].

use super::{Part, Span, of_units};
use crate::run::{self, Choice};
use crate::suite::{Case, Suite, is_floor};
use crate::sweep::{self, Along, Axis, SweepError, Value};
use clscope_microbench::cl::{Device, DeviceFacts};
use clscope_microbench::settings::Settings;

/// The settings of a part: the user's, and what the document says where the user says nothing.
pub fn settings(part: &Part, asked: &Settings) -> Settings {
    // Kernels without a loop have no turns to set.
    let loops = !part.cases.iter().all(|c| c.starts_with("occupancy/"));
    Settings {
        power: asked.power || part.power,
        iterations: asked.iterations.or(part.iterations).filter(|_| loops),
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

/// Powers of two up to the compute units, and those.
fn powers(units: usize) -> Vec<usize> {
    let mut all: Vec<usize> = std::iter::successors(Some(1usize), |n| n.checked_mul(2))
        .take_while(|n| *n < units)
        .collect();
    all.push(units.max(1));
    all
}

/// The case that is measured where an experiment names `case`: products and sums of single
/// precision are `mad` on a device without an instruction for both.
pub(super) fn stands_in(case: &str, device: &DeviceFacts) -> String {
    if device.has_fma { case.to_owned() } else { case.replace(FMA, MAD) }
}

const FMA: &str = "/float/fma/";
const MAD: &str = "/float/mad/";

/// What is said where [`stands_in`] changed a case of a part.
pub(super) fn changed(part: &Part, device: &DeviceFacts) -> Option<String> {
    let without = !device.has_fma && part.cases.iter().any(|c| c.contains(FMA));
    without.then(|| {
        "the device has no single FMA (CL_FP_FMA): mad is measured, a product and a sum".to_owned()
    })
}

/// The values of an axis: the user's, else those of the experiment that the case takes.
pub(super) fn along(
    axis: Axis,
    span: Span,
    device: &DeviceFacts,
    case: &Case,
    asked: &[Along],
) -> Along {
    if let Some(own) = asked.iter().find(|a| a.axis == axis && !a.values.is_empty()) {
        return own.clone();
    }
    let units = (device.compute_units as usize).max(1);
    let numbers = |all: Vec<usize>| all.into_iter().map(Value::Number).collect();
    let values: Vec<Value> = match span {
        Span::Usual => Vec::new(),
        Span::Numbers(numbers) => numbers.iter().copied().map(Value::Number).collect(),
        Span::Types(types) => types.iter().copied().map(Value::Type).collect(),
        Span::Rounds => numbers(rounds(units)),
        Span::Powers => numbers(powers(units)),
        Span::OfUnits(of, all) => numbers(all.iter().map(|n| of_units(*n, of, units)).collect()),
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
    let names: Vec<String> = part.cases.iter().map(|c| stands_in(c, &device.facts)).collect();
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

    #[test]
    fn numbers_of_groups_grow_with_the_device() {
        assert_eq!(powers(1), [1]);
        assert_eq!(powers(4), [1, 2, 4]);
        assert_eq!(powers(132), [1, 2, 4, 8, 16, 32, 64, 128, 132]);
        for (number, units, want) in
            [(38, 4, 38), (39, 132, 1287), (1, 132, 1), (64, 2, 64), (39, 6, 58)]
        {
            assert_eq!(of_units(number, 4, units), want, "{number} on {units}");
        }
    }

    #[test]
    fn a_device_without_fma_measures_mad() {
        let device = |has_fma| DeviceFacts { has_fma, ..DeviceFacts::default() };
        let of = |case| stands_in(case, &device(false));
        assert_eq!(of("power/float/fma/scalar"), "power/float/mad/scalar");
        assert_eq!(of("power/double/fma/scalar"), "power/double/fma/scalar");
        assert_eq!(stands_in("power/float/fma/scalar", &device(true)), "power/float/fma/scalar");
        // What stands in is a case, too.
        for part in crate::reproduce::all().flat_map(crate::reproduce::Experiment::parts) {
            assert_eq!(
                changed(part, &device(false)).is_some(),
                part.cases.iter().any(|c| of(c) != *c),
            );
        }
    }
}
