//! Joules of one kernel in words: what was measured, what the energy model has, and what they are
//! for. Refuses to judge the model by what is hardly known.

use super::words::{Sentence, doubt, joules};
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
        let text = Sentence::default().joules("launch", of_launch).put(" a launch");
        let mut text = text.put(&doubt(of_launch, joules));
        let is_share = of_launch.evidence == Evidence::Modelled;
        if is_share {
            text = text.put(", the energy model's share of a sum that was measured");
        }
        if let (Some(floor), Some(seconds)) = (of.floor_watts, seconds) {
            let least = floor.times(seconds);
            let idle =
                |text: Sentence| text.put("idle power (").watts("idle power", floor).put(")");
            // Less by no more than the figure is open.
            let is_all = (of_launch.value..=of_launch.high).contains(&least.value);
            text = if is_all {
                idle(text.put(", about what ")).put(" takes in its time")
            } else if least.value > of_launch.value {
                let text = text.put(", less than the ").joules("idle power", least).put(" that ");
                idle(text).put(" takes in its time")
            } else {
                idle(text.put(", ").share("idle power", least.over(of_launch)).put(" of it "))
            };
        }
        if let Some(modelled) = out.modelled_joules.filter(|_| !is_share) {
            text = text.put("; the energy model has ").joules("energy model", modelled);
            let off = modelled.value / of_launch.value - 1.0;
            // What is hardly known judges no model.
            if half(of_launch) < VAGUE {
                text = text.put(&format!(" ({:+.0} %)", off * 100.0));
            }
        }
        out.statements.push(Statement::new("joules", of_launch.evidence, text));
    } else if let Some(modelled) = out.modelled_joules {
        let text = Sentence::default().joules("energy model", modelled).put(" a launch");
        let text = text.put(&doubt(modelled, joules)).put(" by the energy model");
        out.statements.push(Statement::new("joules", Evidence::Modelled, text));
    }
    if of.joules.is_none() {
        let why = of.unmetered.clone();
        let why =
            why.unwrap_or_else(|| "`clscope record --replay` repeats it by itself".to_owned());
        out.missing.push(Missing::new(super::NO_JOULES, why));
    }
    let large = out.joule_parts.iter().filter(|p| p.share >= 0.02).take(6);
    let parts = large.map(|p| {
        let share = Figure::exact(p.share, Evidence::Modelled);
        Sentence::from(p.name.as_str()).put(" ").share(&p.name, share)
    });
    let parts = Sentence::list(parts, ", ");
    if !parts.is_empty() {
        out.statements.push(Statement::new("joules", Evidence::Modelled, parts));
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
        Ok((energy::access_rates(device, &amounts, seconds, floor)?, took))
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
    let large = found.components.iter().filter(|c| c.access_rate >= 0.02).take(6);
    let modelled = |value| Figure::exact(value, Evidence::Modelled);
    let parts = large.map(|c| {
        let text = Sentence::from(c.name.as_str()).put(" ").share(&c.name, modelled(c.access_rate));
        text.put(" of ").watts("at most", modelled(c.max_watts))
    });
    let text = Sentence::from("all cycles one after another take ")
        .time("cycles", modelled(found.time_ns))
        .put(" of ")
        .time("launch", took)
        .put(", at ")
        .watts("above idle", modelled(found.runtime_watts))
        .put(" above idle: ")
        .join(Sentence::list(parts, ", "));
    let text = match found.left_out.is_empty() {
        true => text,
        false => text
            .put("; without a measured rate or joules, left out: ")
            .put(&found.left_out.join(", ")),
    };
    out.statements.push(Statement::new("rates", Evidence::Modelled, text));
    out.access_rates = Some(found);
}
