//! Owns what stands behind the joules of one kernel or direction of transfers (`report
//! --explain-energy`): what the run's own readings say of it and what windows say in which it ran
//! alone, and each of both with what the fit makes of it. Refuses to estimate: the figures are those of the report.

use super::activity::PhysicalDevice;
use super::alone::replayed::{Found, Repetition, alone, idle};
use super::result::Class;
use super::rows::is_known;
use crate::interval::Interval;
pub use clscope_analysis::energy::Reading;
use clscope_analysis::energy::{self as fit, Attribution, ClassId, HostNs, Problem};
use serde::Serialize;

/// What decides about the joules of a kernel or transfer.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explained {
    /// The kernel, or the direction of transfers.
    pub kernel: String,
    /// All of the sum that the run's readings know it in; itself where they know it alone.
    pub names: Vec<String>,
    /// Why there is nothing to explain; null where there is.
    pub absent: Option<String>,
    /// Joules above idle of a launch, from all that is known: as in the report.
    pub joules_per_launch: Option<Interval>,
    /// What they are at most, where the report has no more.
    pub joules_per_launch_below: Option<f64>,
    /// The same by the readings of the run alone; null where they know a sum only.
    pub run_joules_per_launch: Option<Interval>,
    /// The same by windows in which the kernel alone ran; null where there are none.
    pub alone_joules_per_launch: Option<Interval>,
    /// Joules above idle of `names` while the sensor was read, by the readings of the run.
    pub run_joules: Option<Interval>,
    /// Windows in which it ran alone, over and over.
    pub windows: Vec<Window>,
    /// Readings of the run, in order of time.
    pub readings: Vec<Reading>,
    /// Indices of the readings that move its power most, the strongest first.
    pub strongest: Vec<usize>,
    /// Root mean square of measured less predicted power.
    pub residual_watts: Option<f64>,
    /// Correlation of a reading's residual with the next one's.
    pub residual_correlation: Option<f64>,
}

/// A window in which the kernel ran alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// Its length.
    #[serde(rename = "length_ns", serialize_with = "crate::interval::as_ns")]
    pub seconds: f64,
    /// Launches in it.
    pub launches: f64,
    /// Mean power.
    pub watts: f64,
    /// Joules above idle of a launch, restoring of memory taken off; null where windows leave no
    /// figure.
    pub joules_per_launch: Option<f64>,
    /// What the fit makes of it, of launches like all of the run's; null where the window was not
    /// used, or has no figure.
    pub predicted_joules_per_launch: Option<f64>,
    /// By how much the class's power above idle is higher with this window than if it were what the
    /// fit makes of it; null where the window was not used.
    pub pull_watts: Option<f64>,
}

impl Explained {
    /// Why there is nothing to explain.
    pub(super) fn absent(kernel: &str, why: &str) -> Self {
        Self { kernel: kernel.to_owned(), absent: Some(why.to_owned()), ..Self::default() }
    }
}

/// Readings that are named as the strongest.
const STRONGEST: usize = 10;

/// A figure as the report decides: not where its interval is wider than half of it. What was seen
/// once has none.
fn figure(of: Interval) -> Option<Interval> {
    (of.longer().is_infinite() || is_known(&of)).then_some(of)
}

/// What the report has of joules above idle of a launch: a figure, or what they are at most.
fn of_report(row: &Class) -> (Option<Interval>, Option<f64>) {
    let Some((each, all)) = row.joules_per_launch.zip(row.joules) else { return (None, None) };
    // As many launches as the report's own figures are of.
    let share = each.value / all.value;
    (
        row.dynamic_joules.map(|joules| joules.times(share)),
        row.dynamic_joules_below.map(|joules| joules * share),
    )
}

/// Explains the row of this name, of a kernel or else of transfers; `rows`: of the report.
pub(super) fn explain(
    kernel: &str,
    device: &PhysicalDevice,
    (problem, result): (&Problem<'_>, &Attribution),
    found: &[Found],
    rows: &[Class],
    origin: i64,
) -> Option<Explained> {
    let named = device.classes.iter().enumerate();
    let named = named.filter(|(_, class)| !class.repetition && class.name == kernel);
    let (at, _) = named.max_by_key(|(_, class)| class.kernel)?;
    let class = ClassId(at as u32);
    let (joules_per_launch, joules_per_launch_below) = rows.get(at).map_or((None, None), of_report);
    let mut out = Explained {
        kernel: kernel.to_owned(),
        joules_per_launch,
        joules_per_launch_below,
        ..Explained::default()
    };
    let idle = idle(result);
    let is_own =
        |f: &&Found| device.shapes.keys().any(|(of, shape)| *of == class && f.shape == *shape);
    let windows: Vec<Repetition> =
        found.iter().filter(is_own).flat_map(|found| found.repetitions.iter().copied()).collect();
    // Launches of several sizes have no joules in common, and the report's figure is their mean's.
    let is_one = found.iter().filter(is_own).count() == 1;
    let alone = alone(&windows, idle).filter(|_| is_one);
    out.alone_joules_per_launch = alone.and_then(|found| figure(found.0.at_least(0.0)));
    let is_figure = out.alone_joules_per_launch.is_some() || !is_one;
    let decision = match fit::readings_of(problem, class, HostNs(origin)) {
        Ok(Some(decision)) => Some(decision),
        Ok(None) => {
            out.absent = Some("it did not run while the sensor was read".to_owned());
            None
        }
        Err(why) => {
            out.absent = Some(why.to_string());
            None
        }
    };
    let used = decision.iter().flat_map(|of| &of.windows);
    let used: Vec<(&fit::Worker, &fit::AloneWindow)> =
        used.map(|of| (&problem.workers[of.worker], of)).collect();
    out.windows = windows
        .iter()
        .map(|of| {
            let is_it =
                |w: &fit::Worker| (w.capture, w.seconds, w.at) == (of.capture, of.seconds, of.at);
            let row = used.iter().find(|(worker, _)| is_it(worker));
            let joules = is_figure.then(|| of.dynamic(idle.0));
            // What the fit leaves of the window, by launches.
            let left = row.map(|(worker, row)| (worker.joules - row.predicted) / of.launches);
            Window {
                seconds: of.seconds,
                launches: of.launches,
                watts: of.watts,
                joules_per_launch: joules,
                predicted_joules_per_launch: joules.zip(left).map(|(joules, left)| joules - left),
                pull_watts: row.map(|(_, row)| row.pull),
            }
        })
        .collect();
    let Some(decision) = decision else { return Some(out) };
    let name = |c: &ClassId| device.classes.get(c.0 as usize).map(|c| c.name.clone());
    out.names = decision.classes.iter().filter_map(name).collect();
    // The run alone: the same without workers.
    let of_run = fit::attribute(&Problem { workers: &[], ..problem.clone() }).ok();
    let group =
        of_run.as_ref().and_then(|run| run.groups.iter().find(|g| g.classes.contains(&class)));
    if let Some((run, group)) = of_run.as_ref().zip(group) {
        out.run_joules = figure(group.dynamic);
        let row = &run.classes[at];
        let per_span = device.launches_per_span().get(at).copied().unwrap_or(1.0);
        let covered = row.launches * per_span * row.covered.0 / row.busy.0.max(f64::MIN_POSITIVE);
        out.run_joules_per_launch = row
            .dynamic
            .filter(|_| covered > 0.0)
            .and_then(|joules| figure(joules.times(1.0 / covered)));
    }
    out.readings = decision.readings;
    let mut order: Vec<usize> = (0..out.readings.len()).collect();
    let pull = |i: &usize| out.readings[*i].pull_watts.abs();
    order.sort_by(|a, b| pull(b).total_cmp(&pull(a)));
    order.truncate(STRONGEST);
    out.strongest = order;
    out.residual_watts = Some(result.residual.0);
    out.residual_correlation = Some(result.residual_correlation);
    Some(out)
}
