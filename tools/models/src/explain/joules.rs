//! Joules of one kernel in words: what was measured, what the energy model has, and what they are
//! for. Refuses to judge the model by what is hardly known.

use super::words::{doubt, joules, percent, time};
use super::{Explanatory, Statement};
use crate::device::Device;
use crate::energy;
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::Kernel;

/// What a launch takes, what the energy model has for it, and where that goes.
pub(super) fn explain(of: &Kernel, device: Option<&Device>, out: &mut Explanatory) {
    let seconds = of.time_ns.map(|t| t.value * 1e-9);
    let model = device.and_then(|d| Some((d, d.energy.as_ref()?)));
    let amounts = device.zip(seconds).and_then(|(d, s)| energy::of_launch(of, d, s));
    if let (Some((_, model)), Some(amounts), Some(seconds)) = (model, amounts, seconds) {
        let floor = of.floor_watts.map_or(model.floor_watts, |w| w.value);
        let (figure, parts) = model.joules(&amounts, seconds, floor);
        (out.modelled_joules, out.joule_parts) = (Some(figure), parts);
        for term in model.unknown(&amounts) {
            out.missing.push(Missing::new(
                format!("joules of {term} are not in the energy model"),
                "no microbenchmark of the device has them",
            ));
        }
    }
    if let Some(of_launch) = of.joules {
        let mut text = format!("{} a launch{}", joules(of_launch.value), doubt(of_launch, joules));
        let is_share = of_launch.evidence == Evidence::Modelled;
        if is_share {
            text += ", the energy model's share of a sum that was measured";
        }
        if let (Some(floor), Some(seconds)) = (of.floor_watts, seconds) {
            let least = floor.value * seconds;
            // Less by no more than the figure is open.
            let is_all = (of_launch.value..=of_launch.high).contains(&least);
            text += &if is_all {
                format!(", about what idle power ({:.0} W) takes in its time", floor.value)
            } else if least > of_launch.value {
                format!(
                    ", less than the {} that idle power ({:.0} W) takes in its time",
                    joules(least),
                    floor.value
                )
            } else {
                let share = percent(least / of_launch.value);
                format!(", {share} of it idle power ({:.0} W)", floor.value)
            };
        }
        if let Some(modelled) = out.modelled_joules.filter(|_| !is_share) {
            let off = modelled.value / of_launch.value - 1.0;
            // What is hardly known judges no model.
            let off = if half(of_launch) < VAGUE {
                format!(" ({:+.0} %)", off * 100.0)
            } else {
                String::new()
            };
            text += &format!("; the energy model has {}{off}", joules(modelled.value));
        }
        out.statements.push(Statement::new("joules", of_launch.evidence, text));
    } else if let Some(modelled) = out.modelled_joules {
        out.statements.push(Statement::new(
            "joules",
            Evidence::Modelled,
            format!(
                "{} a launch{} by the energy model",
                joules(modelled.value),
                doubt(modelled, joules)
            ),
        ));
    }
    if of.joules.is_none() {
        let why = of.unmetered.clone();
        let why =
            why.unwrap_or_else(|| "`clscope record --replay` repeats it by itself".to_owned());
        out.missing.push(Missing::new(super::NO_JOULES, why));
    }
    let parts: Vec<String> = out
        .joule_parts
        .iter()
        .filter(|p| p.share >= 0.02)
        .take(6)
        .map(|p| format!("{} {}", p.name, percent(p.share)))
        .collect();
    if !parts.is_empty() {
        out.statements.push(Statement::new("joules", Evidence::Modelled, parts.join(", ")));
    }
}

/// From this half of an interval on, as a share of the value, joules are no measure for a model.
const VAGUE: f64 = 0.3;

/// Half of an interval as a share of the value; infinite where an end is not known.
fn half(of: Figure) -> f64 {
    let half = (of.high - of.low) / 2.0 / of.value.abs();
    if half.is_nan() { f64::INFINITY } else { half }
}

/// Joules in the form of access rates, beside the default one.
pub(super) fn access_rates(of: &Kernel, device: Option<&Device>, out: &mut Explanatory) {
    let of = &device.map_or_else(|| of.clone(), |d| of.clone().on(d));
    let found = (|| {
        let device = device.ok_or_else(|| Missing::device(&of.device))?;
        of.counted()?;
        let took = of.time_ns.ok_or_else(|| {
            Missing::new("its launches were not timed", "`clscope record` with device timing on")
        })?;
        let seconds = took.value * 1e-9;
        let model = device.energy.as_ref().map_or(0.0, |m| m.floor_watts);
        let floor = of.floor_watts.map_or(model, |w| w.value);
        let amounts = energy::of_launch(of, device, seconds).unwrap_or_default();
        Ok((energy::access_rates(device, &amounts, seconds, floor)?, took.value))
    })();
    let (found, took) = match found {
        Ok(found) => found,
        Err(why) => {
            out.missing.push(why);
            out.missing.sort();
            out.missing.dedup();
            return;
        }
    };
    let parts: Vec<String> = found
        .components
        .iter()
        .filter(|c| c.access_rate >= 0.02)
        .take(6)
        .map(|c| format!("{} {} of {:.0} W", c.name, percent(c.access_rate), c.max_watts))
        .collect();
    let left_out = if found.left_out.is_empty() {
        String::new()
    } else {
        format!("; without a measured rate or joules, left out: {}", found.left_out.join(", "))
    };
    let text = format!(
        "all cycles one after another take {} of {}, at {:.0} W above idle: {}{left_out}",
        time(found.time_ns),
        time(took),
        found.runtime_watts,
        parts.join(", ")
    );
    out.statements.push(Statement::new("rates", Evidence::Modelled, text));
    out.access_rates = Some(found);
}
