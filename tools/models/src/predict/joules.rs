//! Joules of a launch that was changed: idle power for the new time, and what is above it by the
//! energy model of both launches, or by the work. Refuses another clock, whose voltage is not known.

use super::Change;
use crate::device::Device;
use crate::energy;
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::Kernel;

/// A time as it is when what was measured of another one is taken for its value: what the change
/// alone leaves open.
fn by_change(took: Figure, measured: Figure) -> Figure {
    let end = |end: f64, of: f64| if of > 0.0 { end * measured.value / of } else { end };
    let (low, high) = (end(took.low, measured.low), end(took.high, measured.high));
    Figure { low: low.min(took.value), high: high.max(took.value), ..took }
}

/// Joules of the changed launch.
///
/// # Errors
/// Which measurement is missing.
pub(super) fn joules(
    (kernel, of): (&Kernel, &Kernel),
    (device, after): (Option<&Device>, Option<&Device>),
    change: &Change<'_>,
    (before_ns, after_ns): (Figure, Figure),
    reasons: &mut Vec<String>,
) -> Result<Figure, Missing> {
    if change.clock_mhz.is_some() {
        return Err(Missing::new(
            "joules at another clock are not known, since voltage follows the clock",
            "record at that clock",
        ));
    }
    let model = |d: Option<&Device>| d.and_then(|d| d.energy.clone());
    // The run's floor is that of its own device.
    let floor = |own: bool, d: Option<&Device>| {
        let of_run = kernel.floor_watts.filter(|_| own).map(|w| w.value);
        of_run.or_else(|| Some(model(d)?.floor_watts))
    };
    let own = change.device.is_none();
    let by_model = |k: &Kernel, d: Option<&Device>, own: bool, ns: f64| {
        let seconds = ns * 1e-9;
        let amounts = energy::of_launch(k, d?, seconds)?;
        Some(model(d)?.joules(&amounts, seconds, floor(own, d)?).0)
    };
    let took = by_change(after_ns, before_ns);
    let at_ends =
        |of: &dyn Fn(f64) -> Option<Figure>| Some([of(took.low)?, of(took.value)?, of(took.high)?]);
    let old = by_model(kernel, device, true, before_ns.value);
    let new = at_ends(&|ns| by_model(of, after, own, ns));
    // What takes longer than its work does more than was counted, or does less at once.
    let [shorter, longer] = [took.low, took.high].map(|end| end / took.value);
    // No launch takes less than the floor does in the shortest time.
    let least = floor(own, after).map_or(0.0, |watts| watts * after_ns.low * 1e-9);
    let found = |low: f64, value: f64, high: f64| {
        let value = value.max(least);
        Ok(Figure::new(value, low.clamp(least, value), high.max(value), Evidence::Modelled))
    };
    match (kernel.joules, old, new) {
        (Some(measured), Some(old), Some([low, new, high])) if old.value > 0.0 => {
            reasons.push("joules change as the energy model says".to_owned());
            let [low, value, high] = [low, new, high].map(|new| new.value / old.value);
            found(
                measured.low * low * shorter,
                measured.value * value,
                measured.high * high * longer,
            )
        }
        (None, _, Some([low, new, high])) => {
            reasons.push("joules are the energy model's, without a measurement".to_owned());
            found(low.low * shorter, new.value, high.high * longer)
        }
        (Some(measured), ..) if own => {
            let floor = kernel.floor_watts.ok_or_else(|| {
                Missing::new("idle power is not known", "record with idle time before and after")
            })?;
            reasons.push("energy above idle grows with the work-items".to_owned());
            let idle = |ns: f64| floor.value * ns * 1e-9;
            let grown = |joules: f64, times: f64, ns: f64| {
                let above = (joules - idle(before_ns.value)).max(0.0);
                above * change.scale.unwrap_or(1.0) * times + idle(ns)
            };
            found(
                grown(measured.low, shorter, took.low),
                grown(measured.value, 1.0, took.value),
                grown(measured.high, longer, took.high),
            )
        }
        _ => Err(match (&kernel.unmetered, model(after).is_some()) {
            (_, true) => kernel.counted().err().unwrap_or_else(Missing::mix),
            (Some(why), _) => Missing::new("joules of the kernel are not known", why.clone()),
            _ => Missing::new(
                "joules by class of instruction are not known",
                "`clscope bench model` on a machine with a power sensor",
            ),
        }),
    }
}
