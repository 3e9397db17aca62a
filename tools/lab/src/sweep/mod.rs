//! Sweeps: any case along the axes that it has, one or two at once. Owns the usual values of axes,
//! and the cases of a grid; refuses to know what a case does: each says which axes it has, and
//! becomes another case at a value of one ([`Swept`]).

mod notation;
mod walk;

pub use clscope_microbench::sweep::{Axis, Coordinate, Place, Value};
pub use notation::{Axes, NotationError, Sizes};
pub(crate) use walk::{ENOUGH, Need, Peaks, conclude, cusp, needed};
pub use walk::{Walk, shown, value_at, walks};

use crate::suite::{Case, Swept};
use clscope_microbench::cl::DeviceFacts;
use clscope_microbench::job::Scalar;
use clscope_microbench::settings::Settings;
use std::rc::Rc;

/// One axis of a sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Along {
    /// Which.
    pub axis: Axis,
    /// The values; empty: the usual ones of the axis on the device.
    pub values: Vec<Value>,
}

/// Most points of the sweep of one case.
pub const MOST_POINTS: usize = 4096;

/// Why there is no sweep.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[allow(missing_docs)] // fields are named in the messages
pub enum SweepError {
    /// The case has no such axis.
    #[error("{case} has no axis {axis}; its axes are: {}", if has.is_empty() { "none".to_owned() } else { has.join(", ") })]
    NoAxis { case: String, axis: &'static str, has: Vec<&'static str> },
    /// The case does not exist at a value.
    #[error("{case} cannot be run at {axis} {value}: {why}")]
    NoValue { case: String, axis: &'static str, value: String, why: String },
    /// The same axis twice, more than two, or too many points.
    #[error("{0}")]
    Shape(String),
}

fn powers(from: usize, to: usize) -> Vec<usize> {
    std::iter::successors(Some(from.max(1)), |n| n.checked_mul(2))
        .take_while(|n| *n <= to)
        .collect()
}

/// The usual values of an axis on a device: `of` may state bounds of its own.
pub fn usual(axis: Axis, device: &DeviceFacts, settings: &Settings, of: &dyn Swept) -> Vec<Value> {
    let units = (device.compute_units as usize).max(1);
    if axis == Axis::Precision {
        return Scalar::ALL
            .into_iter()
            .filter(|s| of.at(axis, Value::Type(*s)).is_ok())
            .map(Value::Type)
            .collect();
    }
    let numbers: Vec<usize> = match axis {
        Axis::Blocks if !settings.blocks.is_empty() => settings.blocks.clone(),
        Axis::Tpb if !settings.tpb.is_empty() => settings.tpb.clone(),
        Axis::Blocks => {
            // A coarse walk over four rounds of the units, and both sides of each round, where the
            // saw-tooth falls.
            let last = 4 * units + 1;
            let step = if settings.full { 1 } else { last.div_ceil(64) };
            let ends = (1..=4).flat_map(|round| [round * units, round * units + 1]);
            let mut all: Vec<usize> = (1..=last).step_by(step).chain(ends).collect();
            all.sort_unstable();
            all.dedup();
            all
        }
        Axis::Tpb => powers(1, device.max_group.max(1)),
        Axis::Width => vec![1, 2, 4, 8, 16],
        Axis::Alpha => vec![0, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048],
        Axis::Occupancy => {
            // Beyond what one group may have, several share a unit.
            powers(crate::suite::lanes(device), 2 * device.max_group.max(1))
        }
        Axis::Size => {
            let most = device.largest_buffer.min(device.global_bytes / 8).max(1 << 16);
            powers(1 << 12, usize::try_from(most).unwrap_or(usize::MAX).min(1 << 28))
        }
        Axis::Lanes => vec![1, 2, 4, 8, 12, 16, 20, 24, 28, 32],
        Axis::Cores => {
            // One by itself, which differences are taken from, and eighths of all.
            let eighths = (1..=8).map(|eighth| (units * eighth / 8).max(1));
            let mut all: Vec<usize> = std::iter::once(1).chain(eighths).collect();
            all.dedup();
            all
        }
        Axis::Stride => powers(1, 1024),
        Axis::Precision => Vec::new(),
    };
    // Values that the case does not take are no part of its walk; one that the user names is an
    // error instead.
    let values = numbers.into_iter().map(Value::Number);
    let values: Vec<Value> = values.filter(|v| of.at(axis, *v).is_ok()).collect();
    if settings.tiny { values.into_iter().take(3).collect() } else { values }
}

/// What two axes choose both, if they do: the second would undo the first.
fn both_choose(a: Axis, b: Axis) -> Option<&'static str> {
    let are = |x, y| (a, b) == (x, y) || (b, a) == (x, y);
    if are(Axis::Blocks, Axis::Cores) || are(Axis::Blocks, Axis::Size) {
        Some("the number of work-groups")
    } else if are(Axis::Tpb, Axis::Occupancy) {
        Some("the work-items of a group")
    } else {
        None
    }
}

/// The cases of a sweep of `case`, in the order of the axes; the last one runs fastest.
///
/// # Errors
/// [`SweepError`].
pub fn grid(
    case: &Case,
    device: &DeviceFacts,
    settings: &Settings,
    along: &[Along],
) -> Result<Vec<Case>, SweepError> {
    if along.is_empty() || along.len() > 2 || along.len() == 2 && along[0].axis == along[1].axis {
        let why = "one axis, or two that differ, are swept at a time".to_owned();
        return Err(SweepError::Shape(why));
    }
    if let [first, second] = along
        && let Some(what) = both_choose(first.axis, second.axis)
    {
        let why = format!(
            "{} and {} both choose {what}: sweep one at a time",
            first.axis.name(),
            second.axis.name()
        );
        return Err(SweepError::Shape(why));
    }
    let swept = case.swept.as_deref();
    let mut points: Vec<(Rc<dyn Swept>, Vec<Coordinate>)> = Vec::new();
    for (depth, Along { axis, values }) in along.iter().enumerate() {
        let axes = swept.map(|s| s.axes()).unwrap_or_default();
        let Some(swept) = swept.filter(|_| axes.contains(axis)) else {
            return Err(SweepError::NoAxis {
                case: case.id.clone(),
                axis: axis.name(),
                has: axes.iter().map(|a| a.name()).collect(),
            });
        };
        let values = match values.is_empty() {
            true => usual(*axis, device, settings, swept),
            false => values.clone(),
        };
        let mut next = Vec::new();
        let start: Vec<(Option<&dyn Swept>, &[Coordinate])> = match depth {
            0 => vec![(None, &[])],
            _ => points.iter().map(|(s, at)| (Some(s.as_ref()), at.as_slice())).collect(),
        };
        for (from, at) in start {
            for value in &values {
                let point =
                    from.unwrap_or(swept).at(*axis, *value).map_err(|why| SweepError::NoValue {
                        case: case.id.clone(),
                        axis: axis.name(),
                        value: value.to_string(),
                        why,
                    })?;
                let mut at = at.to_vec();
                at.push(Coordinate { axis: *axis, value: value.json() });
                next.push((point, at));
            }
        }
        points = next;
    }
    if points.is_empty() || points.len() > MOST_POINTS {
        let why = format!(
            "the sweep of {} has {} points; 1 to {MOST_POINTS} are run",
            case.id,
            points.len()
        );
        return Err(SweepError::Shape(why));
    }
    let made = |(swept, at): (Rc<dyn Swept>, Vec<Coordinate>)| {
        let place: Vec<String> = at
            .iter()
            .map(|c| {
                let value = c.value.as_str().map_or_else(|| c.value.to_string(), str::to_owned);
                format!("{}={value}", c.axis.name())
            })
            .collect();
        let mut out =
            Case::with_axes(format!("{}@{}", case.id, place.join(",")), case.suite, swept);
        out.parameters = case.parameters.clone();
        // What the case says of itself holds here only as far as no axis says otherwise.
        out.parameters.remove("sweep");
        out.parameters.remove("at");
        for Coordinate { axis, value } in &at {
            out.parameters.insert(axis.parameter(), value.clone());
        }
        out.place = Some(Place { case: case.id.clone(), at });
        out
    };
    Ok(points.into_iter().map(made).collect())
}

#[cfg(test)]
mod tests;
