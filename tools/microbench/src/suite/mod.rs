//! The suites: which cases there are for a device, and what follows from their results. Owns the
//! vocabulary of cases; refuses to run them: the runner does.

pub mod blend;
pub mod ceilings;
pub mod classes;
pub mod flop;
pub mod latency;
pub mod levels;
pub mod memory;
pub mod mixture;
pub mod residency;
pub mod transfer;

use crate::bench::{Bench, CaseError, Measured, Settings};
use crate::cl::{DeviceFacts, DeviceKind};
use crate::power::Window;
use crate::results::{CaseResult, Figure, Finding, Series, Timing};
use crate::sweep::{Axis, Place, Value as At};
use serde_json::Value;
use std::collections::BTreeMap;
use std::rc::Rc;

/// What a case gave.
#[derive(Default)]
pub struct Gave {
    /// Geometry and times, where one kernel was measured.
    pub timing: Option<Timing>,
    /// Figures known without sensors.
    pub figures: Vec<Figure>,
    /// When it ran.
    pub span: Option<Window>,
    /// When power was watched.
    pub window: Option<Window>,
    /// What it gave along something that is not swept.
    pub series: Vec<Series>,
    /// When power was watched after a load, piece by piece.
    pub after: Vec<Window>,
    /// Observations for the reader.
    pub notes: Vec<String>,
}

impl Gave {
    /// Of one measured kernel, with the figures made of it.
    pub fn of_kernel(measured: Measured, figures: Vec<Figure>) -> Self {
        let Measured { timing, span, window, notes, .. } = measured;
        Self { timing: Some(timing), figures, span: Some(span), window, notes, ..Gave::default() }
    }
}

/// Runs one case.
pub type Run = Box<dyn Fn(&mut Bench<'_>) -> Result<Gave, CaseError>>;

/// A case that can be varied along axes.
pub trait Swept {
    /// The axes it has.
    fn axes(&self) -> &'static [Axis];
    /// The same at a value of an axis.
    ///
    /// # Errors
    /// Why it does not exist there.
    fn at(&self, axis: Axis, value: At) -> Result<Rc<dyn Swept>, String>;
    /// Runs it.
    ///
    /// # Errors
    /// Why there is no figure.
    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError>;
}

/// Why a value is none of an axis.
pub fn no_value(axis: Axis, wanted: &str) -> String {
    format!("{} is {wanted}", axis.name())
}

/// A number on an axis, within bounds.
///
/// # Errors
/// In words, where it is none.
pub fn number(axis: Axis, value: At, most: usize) -> Result<usize, String> {
    match value.number() {
        Some(n) if n <= most => Ok(n),
        _ => Err(no_value(axis, &format!("a number up to {most} here"))),
    }
}

/// Work-groups or work-items: one or more, as many as are no slip of the pen.
///
/// # Errors
/// In words, where it is none.
pub fn count(axis: Axis, value: At) -> Result<usize, String> {
    match number(axis, value, MOST_ITEMS)? {
        0 => Err(no_value(axis, "1 or more")),
        n => Ok(n),
    }
}

/// As [`number`], for values that are powers of two here.
///
/// # Errors
/// In words, where it is none.
pub fn power_of_two(axis: Axis, value: At, most: usize) -> Result<usize, String> {
    number(axis, value, most)
        .ok()
        .filter(|n| n.is_power_of_two())
        .ok_or_else(|| no_value(axis, &format!("a power of two up to {most} here")))
}

/// A width that OpenCL C has.
///
/// # Errors
/// In words, where it is none.
pub fn width(axis: Axis, value: At) -> Result<usize, String> {
    power_of_two(axis, value, 16)
}

/// A type.
///
/// # Errors
/// In words, where it is none.
pub fn scalar(axis: Axis, value: At) -> Result<crate::job::Scalar, String> {
    match value {
        At::Type(scalar) => Ok(scalar),
        At::Number(_) => Err(no_value(axis, "half, float, double or int")),
    }
}

/// More work-groups or work-items than this are a slip of the pen.
pub const MOST_ITEMS: usize = 1 << 24;

/// One case.
pub struct Case {
    /// Unique name, suite first.
    pub id: String,
    /// The suite.
    pub suite: &'static str,
    /// What tells it from its neighbours.
    pub parameters: BTreeMap<&'static str, Value>,
    /// How to run it.
    pub run: Run,
    /// The same elsewhere on its axes, where it has any.
    pub swept: Option<Rc<dyn Swept>>,
    /// Where it is in a sweep.
    pub place: Option<Place>,
    /// It takes half a minute: it runs where it is chosen, or everything is.
    pub by_name: bool,
}

impl Case {
    /// A case without axes.
    pub fn new(
        id: impl Into<String>,
        suite: &'static str,
        run: impl Fn(&mut Bench<'_>) -> Result<Gave, CaseError> + 'static,
    ) -> Case {
        Case {
            id: id.into(),
            suite,
            parameters: BTreeMap::new(),
            run: Box::new(run),
            swept: None,
            place: None,
            by_name: false,
        }
    }

    /// A case that has axes.
    pub fn with_axes(id: String, suite: &'static str, swept: Rc<dyn Swept>) -> Case {
        let same = Rc::clone(&swept);
        Case { swept: Some(swept), ..Case::new(id, suite, move |bench| same.run(bench)) }
    }

    /// With what tells it from its neighbours.
    pub fn with(mut self, parameters: impl IntoIterator<Item = (&'static str, Value)>) -> Case {
        self.parameters.extend(parameters);
        self
    }
}

/// A suite.
pub struct Suite {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it measures.
    pub about: &'static str,
    /// Whether power is part of it: sensors are started then.
    pub wants_power: bool,
    /// Its cases on a device.
    pub cases: fn(&DeviceFacts, &Settings) -> Vec<Case>,
    /// What follows from its results.
    pub conclude: fn(&DeviceFacts, &[CaseResult]) -> Vec<Finding>,
}

/// The suites that give the parameters of a device, in the order they run.
pub static SUITES: [Suite; 8] = [
    flop::SUITE,
    memory::SUITE,
    levels::SUITE,
    transfer::SUITE,
    classes::SUITE,
    latency::SUITE,
    blend::SUITE,
    ceilings::SUITE,
];

/// The name of a value in a table.
pub(crate) fn name_in<T: PartialEq>(table: &[(T, &'static str)], of: T) -> &'static str {
    table.iter().find(|row| row.0 == of).map_or("", |row| row.1)
}

/// The case with the largest figure of a name, and the figure.
pub fn best<'r>(
    of: impl Iterator<Item = &'r CaseResult>,
    figure: &str,
) -> Option<(&'r CaseResult, &'r Figure)> {
    let known = of.filter_map(|case| Some((case, case.figure(figure)?)));
    known.max_by(|a, b| a.1.estimate.value.total_cmp(&b.1.estimate.value))
}

/// A figure over a parameter, in the order of that, of the cases of a sweep that a suite makes.
pub fn points(of: &[CaseResult], sweep: &str, x: &str, figure: &str) -> Vec<(f64, f64)> {
    let ours = of.iter().filter(|case| case.parameter("sweep") == Some(sweep));
    let mut points: Vec<(f64, f64)> =
        ours.filter_map(|case| Some((case.number(x)?, case.value(figure)?))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// Work-groups and their size: those of the settings, or what keeps this kind of device busy.
pub fn geometry(device: &DeviceFacts, settings: &Settings) -> (usize, usize) {
    let group = settings.tpb.last().copied().unwrap_or_else(|| default_group(device, settings));
    let per_unit = match (settings.tiny, device.kind) {
        (true, _) => 1,
        // Many waves of groups: the last, partly filled one costs little then, whatever the
        // occupancy.
        (_, DeviceKind::Gpu) => 64,
        _ => 8,
    };
    let groups =
        settings.blocks.last().copied().unwrap_or(device.compute_units as usize * per_unit);
    (groups.max(1), group.max(1))
}

/// The size of groups where the user names none.
pub fn default_group(device: &DeviceFacts, settings: &Settings) -> usize {
    let wanted = if settings.tiny { 16 } else { 256 };
    wanted.min(device.max_group)
}

/// Work-items that a device runs in step: NVIDIA's warp; of other GPUs 32 are assumed, of CPUs one.
pub fn lanes(device: &DeviceFacts) -> usize {
    let usual = if device.kind == DeviceKind::Cpu { 1 } else { 32 };
    device.nv_warp.unwrap_or(usual).max(1) as usize
}

/// Whether a case is a floor: nothing runs in it, and dynamic energy stands on its power.
pub fn is_floor(id: &str) -> bool {
    id.ends_with("/floor")
}

/// The floor of all cases of a suite.
pub fn floor_of(suite: &Suite) -> Case {
    floor_case(suite.name, suite.name)
}

/// The floor of a suite. It runs behind the suite's loads, so that clocks are still up: the floor
/// of a context, not deep idle. It is that of the cases whose names begin with `of`.
pub fn floor_case(suite: &'static str, of: &str) -> Case {
    Case::new(format!("{of}/floor"), suite, |bench| {
        Ok(Gave { window: Some(bench.floor()?), ..Gave::default() })
    })
}
