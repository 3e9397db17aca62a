//! Parameters that are measured in rounds, one behind the other, until two rounds agree: what
//! disturbs a machine for seconds disturbs all series of launches of one case. Owns what becomes of
//! rounds that differ; refuses to choose cases otherwise than by their parameters.

use crate::bench::DISTURBED;
use clscope_models::device::{Device, Parameter};
use std::collections::{BTreeMap, BTreeSet};

/// Rounds at most: as many series as a case has at most (`bench`).
const ROUNDS: usize = 5;
/// Share by which two rounds may differ and agree, beside their intervals: as two series may
/// (`bench`).
const AGREE: f64 = 0.03;

/// Whether two rounds gave the same.
fn agree(a: &Parameter, b: &Parameter) -> bool {
    (a.value / b.value).ln().abs() <= AGREE.ln_1p() || a.low <= b.high && b.low <= a.high
}

/// Whether `a` is the better of two: a shorter time, or more of all else.
fn is_better(a: &Parameter, b: &Parameter) -> bool {
    if a.unit == "ns" { a.value < b.value } else { a.value > b.value }
}

/// One parameter of all rounds, with an interval that holds those that agree; of rounds of which no
/// two do, all, and that they were disturbed. `None` before the first round.
fn join_rounds(rounds: &[Parameter]) -> Option<(Parameter, bool)> {
    let pairs = rounds.iter().enumerate().flat_map(|(at, a)| {
        rounds[at + 1..].iter().filter(|b| agree(a, b)).map(move |b| vec![a, b])
    });
    let better = |of: &[&Parameter]| {
        of.iter().copied().reduce(|a, b| if is_better(b, a) { b } else { a }).cloned()
    };
    let best = pairs.reduce(|a, b| match better(&a).zip(better(&b)) {
        Some((of_a, of_b)) if is_better(&of_b, &of_a) => b,
        _ => a,
    });
    let agreed = best.is_some();
    let all = best.unwrap_or_else(|| rounds.iter().collect());
    let mut out = better(&all)?;
    out.low = all.iter().fold(out.low, |low, p| low.min(p.low));
    out.high = all.iter().fold(out.high, |high, p| high.max(p.high));
    if !agreed && rounds.len() > 1 && !out.source.ends_with(DISTURBED) {
        out.source += &format!(", {DISTURBED}");
    }
    Some((out, agreed))
}

/// The case that gave a parameter.
fn find_case(of: &Parameter) -> String {
    of.source.split(", ").next().unwrap_or_default().to_owned()
}

/// Measures again what a device's file has until each parameter was the same twice. `again` runs
/// cases by the beginnings of their ids; `None` where the user stopped it.
///
/// # Errors
/// Those of `again`.
pub(super) fn settle<E>(
    device: &mut Device,
    again: &mut dyn FnMut(Vec<String>) -> Result<Option<Device>, E>,
) -> Result<(), E> {
    let mut found: BTreeMap<String, Vec<Parameter>> =
        device.parameters.iter().map(|(key, p)| (key.clone(), vec![p.clone()])).collect();
    let mut open: BTreeSet<String> = found.keys().cloned().collect();
    for _ in 1..ROUNDS {
        let cases: BTreeSet<String> =
            open.iter().filter_map(|key| found.get(key)?.last()).map(find_case).collect();
        if cases.is_empty() {
            break;
        }
        let Some(round) = again(cases.into_iter().collect())? else { break };
        // What a round of part of the cases does not give, or by another case, is not settled so.
        open.retain(|key| {
            let Some((of, p)) = found.get_mut(key).zip(round.parameters.get(key)) else {
                return false;
            };
            let is_same = of.iter().any(|other| find_case(other) == find_case(p));
            if is_same {
                of.push(p.clone());
            }
            is_same && join_rounds(of).is_some_and(|(_, agreed)| !agreed)
        });
    }
    for (key, of) in found {
        if let Some((parameter, _)) = join_rounds(&of) {
            device.parameters.insert(key, parameter);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_models::device::name;
    use clscope_models::{Evidence, Figure};
    use proptest::prelude::*;

    fn round(rate: f64, wait: f64) -> Device {
        let mut out = Device::default();
        let of = |value: f64| Figure::new(value, 0.99 * value, 1.01 * value, Evidence::Measured);
        out.keep_parameter(name::LOGIC, of(rate), "Gop/s", "ceilings/logic");
        out.keep_parameter(name::LAUNCH, of(wait), "ns", "levels/launch");
        out
    }

    proptest! {
        /// What two rounds agree on is measured no further; of others the interval holds each, and
        /// the file says that they were disturbed.
        #[test]
        fn a_parameter_is_what_two_rounds_agree_on_or_disturbed(
            slow in proptest::collection::vec(0usize..4, ROUNDS),
        ) {
            // Each round is slower by another power of two, or by the same.
            let all: Vec<Device> =
                slow.iter().map(|s| (1u32 << s) as f64).map(|by| round(100.0 / by, 10.0 * by)).collect();
            let mut device = all[0].clone();
            let mut runs = 1;
            settle::<()>(&mut device, &mut |cases| {
                assert_eq!(cases, ["ceilings/logic", "levels/launch"]);
                runs += 1;
                Ok(all.get(runs - 1).cloned())
            }).unwrap();
            let seen = &slow[..runs];
            let twice = |s: &usize| seen.iter().filter(|o| *o == s).count() > 1;
            let agreed = seen.iter().filter(|s| twice(s)).min();
            prop_assert!(agreed.is_some() || runs == ROUNDS);
            for (key, value) in [(name::LOGIC, 100.0), (name::LAUNCH, 10.0)] {
                let p = &device.parameters[key];
                prop_assert_eq!(p.source.contains(DISTURBED), agreed.is_none());
                let each: Vec<&usize> = match agreed {
                    Some(s) => vec![s],
                    None => seen.iter().collect(),
                };
                for s in each {
                    let by = f64::from(1u32 << s);
                    let v = if key == name::LOGIC { value / by } else { value * by };
                    prop_assert!(p.low <= v && v <= p.high, "{p:?} {v}");
                }
            }
        }
    }
}
