//! Runs a capture: as captured, and beside it another version if one is asked for. Owns the order:
//! results first, then times in turns, then joules. Refuses to print.

mod elements;

use crate::application::{self, Known};
use crate::application_launch::ApplicationLaunch;
use crate::capture::Launch;
use crate::document::{
    Captured, Changed, Counter, Document, Energy, Expected, Results, SCHEMA, Time, Version, judge,
};
use crate::element::Element;
use crate::energy::{self, Drawn};
use crate::imitate;
use crate::measure::{self, Compared, Effort, Subject};
use crate::mix;
use crate::order::{self, Against};
use crate::progress::{At, Ended, Step, Who};
use crate::read::Capture;
use crate::stage::{Built, Overrun, Recipe, Stage, StageError};
use crate::tune;
use clscope_clock::monotonic_raw;
use clscope_compare::outcome;
use clscope_opencl::{Device, DeviceFacts, Range};
use clscope_profile::mixes::document::Kernel;
use elements::untyped;
pub(crate) use elements::{elements, pointed};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Greatest difference in ULPs that is tolerated where nothing else is said: the loosest bound that
/// the specification of OpenCL C gives a function of single precision (`pow`; section "Relative
/// error as ULPs", full profile).
pub const TOLERANCE: u64 = 16;

/// What is wanted of a run.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Of the captured program.
    pub base: Recipe,
    /// Another version.
    pub changed: Option<Recipe>,
    /// Whether what a launch executes is counted.
    pub mix: bool,
    /// Folders in which compilers are looked for, as `PATH` holds them.
    pub compilers: OsString,
    /// Whether work-group sizes are searched.
    pub tune: bool,
    /// ULPs that are tolerated.
    pub tolerance: u64,
    /// Types of arguments that the user knows better.
    pub types: Vec<(u32, Element)>,
    /// How much is timed.
    pub effort: Effort,
    /// Whether joules are measured.
    pub energy: bool,
    /// Whether performance counters are read, too.
    pub counters: bool,
    /// Where sensors are looked for instead of the system's sysfs.
    pub sysfs_root: Option<PathBuf>,
    /// Versions that ended an earlier process in which they ran: they are left out.
    pub ended: Vec<Ended>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            base: Recipe::default(),
            changed: None,
            mix: false,
            compilers: OsString::new(),
            tune: false,
            tolerance: TOLERANCE,
            types: Vec::new(),
            effort: Effort::default(),
            energy: true,
            counters: false,
            sysfs_root: None,
            ended: Vec::new(),
        }
    }
}

/// Why a run gave nothing.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum RunError {
    /// The launch cannot be put on the device, or failed there.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// There is no such argument.
    #[error("argument {index} is no memory of {kernel}; {known}")]
    NoArgument { index: u32, kernel: String, known: String },
    /// No work-group size can be searched.
    #[error("there is no work-group size of {kernel} to search: {why}")]
    NothingToTune { kernel: String, why: String },
    /// The user ended it.
    #[error("the run was ended")]
    Interrupted,
}

impl From<crate::read::CaptureError> for RunError {
    fn from(error: crate::read::CaptureError) -> Self {
        Self::Stage(error.into())
    }
}

impl From<clscope_opencl::ClError> for RunError {
    fn from(error: clscope_opencl::ClError) -> Self {
        Self::Stage(error.into())
    }
}

/// Whether a capture is of this device with this driver.
pub fn is_of(launch: &Launch, device: &DeviceFacts) -> bool {
    launch.device.name == device.name
        && launch.platform.name == device.platform
        && launch.device.driver == device.driver
}

/// What a version computed.
pub(crate) struct Computed {
    /// Contents after a run from the captured contents.
    pub(crate) first: Vec<Vec<u8>>,
    /// Those after another.
    pub(crate) again: Vec<Vec<u8>>,
    /// Memories that it changed, with the bytes from the first to behind the last that differ; all
    /// where runs differ among themselves.
    changed: Vec<(usize, std::ops::Range<usize>)>,
    /// Whether a run from its own results gives them once more.
    is_fixed: bool,
    /// Writes behind memories, by memory.
    pub(crate) overruns: Vec<Overrun>,
}

pub(crate) fn computed(
    stage: &Stage<'_>,
    built: &Built,
    range: &Range,
) -> Result<Computed, StageError> {
    stage.enter(Step::Results);
    let memories = 0..stage.before().len();
    let mut overruns: Vec<Overrun> = Vec::new();
    let mut ran = |restore: bool| -> Result<Vec<Vec<u8>>, StageError> {
        stage.guard()?;
        if restore {
            memories.clone().try_for_each(|index| stage.restore(index).map(drop))?;
        }
        stage.launch(built, range)?;
        stage.session.finish()?;
        // From other contents than those captured a version may write where it never would.
        if restore {
            overruns.extend(stage.overruns()?);
        }
        memories.clone().map(|index| Ok(stage.read(index)?)).collect()
    };
    let (first, again) = (ran(true)?, ran(true)?);
    let pairs = first.iter().zip(&again).zip(stage.before()).enumerate();
    let changed = pairs
        .filter_map(|(index, ((one, other), before))| {
            let span = if one == other { span(one, before)? } else { 0..before.len() };
            Some((index, span))
        })
        .collect();
    // A counter that goes on from where it is leads behind what it counts: no such run.
    let is_fixed = built.atomics.is_none() && first == again && again == ran(false)?;
    // The furthest of each memory.
    overruns.sort_unstable_by_key(|of| (of.index, std::cmp::Reverse(of.bytes)));
    overruns.dedup_by_key(|of| of.index);
    Ok(Computed { first, again, changed, is_fixed, overruns })
}

/// From the first to behind the last byte in which two contents differ; none where they are alike.
fn span(one: &[u8], other: &[u8]) -> Option<std::ops::Range<usize>> {
    let differ = |(a, b): (&u8, &u8)| a != b;
    let first = one.iter().zip(other).position(differ)?;
    let last = one.iter().zip(other).rposition(differ)?;
    Some(first..last + 1)
}

/// Memories to restore before each launch of a version that is timed: none where a run from its own
/// results gives them once more, and no difference shows between its time and that of a run from
/// restored contents. Before the former its results are copied to the same places: what a copy does to
/// the device and its caches is no difference of the launch.
pub(crate) fn restored(
    stage: &mut Stage<'_>,
    built: &Built,
    of: &Computed,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<usize>, StageError> {
    /// How often it is timed at most, and nanoseconds after which it is no more.
    const LOOKS: usize = 10;
    const LONGEST_NS: u64 = 2_000_000_000;
    stage.keep_copies(&of.changed);
    stage.enter(Step::Timing);
    let changed: Vec<usize> = of.changed.iter().map(|(index, _)| *index).collect();
    if changed.is_empty() || !of.is_fixed {
        return Ok(changed);
    }
    stage.keep_results(&changed, &of.first);
    let subjects = [[&changed[..], &[]], [&[], &changed[..]]];
    let subjects = subjects.map(|[restored, results]| Subject {
        built,
        range: &built.range,
        restored,
        results,
    });
    let few = Effort { launches: Effort::LEAST, ..Effort::default() };
    let begun = monotonic_raw().0;
    let mut compared = Compared::default();
    for _ in 0..LOOKS {
        let samples = measure::in_turns(stage, &subjects, few, stop)?;
        if let [with, without] = &samples[..] {
            compared.add(with, without);
        }
        let is_late = monotonic_raw().0 - begun > LONGEST_NS;
        if compared.settled().is_some() || is_late || stop() {
            break;
        }
    }
    stage.keep_results(&[], &[]);
    // Where no difference shows, restoring would cost more than it mends.
    let differ = compared.settled().or(compared.last()) == Some(true);
    Ok(if differ { changed } else { Vec::new() })
}

pub(crate) fn time_of(samples: &[f64], restored: bool) -> Option<Time> {
    let median = measure::median(samples)?;
    let extreme = |of: fn(f64, f64) -> f64| samples.iter().copied().reduce(of);
    let (min_ns, max_ns) = (extreme(f64::min)?, extreme(f64::max)?);
    // Stamps that are all the same say nothing.
    (max_ns > 0.0).then_some(Time {
        median_ns: median,
        min_ns,
        max_ns,
        launches: samples.len(),
        restored,
    })
}

fn version(built: &Built, results: Results) -> Version {
    Version {
        program: built.name.clone(),
        form: built.form.name(),
        options: built.options.clone(),
        offset: built.range.offset.clone(),
        global: built.range.global.clone(),
        local: built.range.local.clone(),
        results,
        time: None,
        energy: None,
        energy_missing: None,
        counters: Vec::new(),
        mix: None,
        mix_missing: None,
    }
}

/// Counts what a launch of a version executes.
fn put_mix(version: &mut Version, stage: &Stage<'_>, built: &Built, path: &OsStr) {
    match mix::count(stage, built, path, false).map(|(of, _)| of) {
        Ok(of) => version.mix = Some(Kernel::of_mix(&of)),
        Err(why) => version.mix_missing = Some(why),
    }
}

fn put_energy(version: &mut Version, sensor: Option<&str>, drawn: Result<Drawn, String>) {
    match (drawn, sensor) {
        (Ok(of), Some(sensor)) => {
            version.energy = Some(Energy {
                joules: of.joules,
                joules_above_idle: of.above_idle,
                watts: of.watts,
                launches: of.launches,
                metered_ns: of.window_ns as f64,
                sensor: sensor.to_owned(),
            });
            version.counters = of
                .counters
                .into_iter()
                .map(|(name, unit, mean)| Counter { name, unit, mean })
                .collect();
        }
        (Ok(_), None) => version.energy_missing = Some("it is not known what measured".to_owned()),
        (Err(why), _) => version.energy_missing = Some(why),
    }
}

/// Notes that concern the whole run.
pub(crate) fn notes(stage: &Stage<'_>, facts: &DeviceFacts) -> Vec<String> {
    let launch = &stage.capture.launch;
    let mut out = Vec::new();
    if !is_of(launch, facts) {
        let (of, here) = (&launch.device, facts);
        out.push(format!(
            "captured on {} ({}, driver {}), run on {} ({}, driver {}): results and times may differ for that",
            of.name, launch.platform.name, of.driver, here.name, here.platform, here.driver
        ));
    }
    for memory in stage.unguarded() {
        out.push(format!(
            "a write behind memory {memory} would not be seen: the device has no room for more behind it"
        ));
    }
    if stage.moved_words > 0 {
        out.push(format!(
            "{} words that hold addresses of captured shared virtual memory were changed to where it lies now",
            stage.moved_words
        ));
    }
    out
}

fn not_known(why: &str) -> String {
    format!("how launches like it ran in the application is not known: {why}")
}

/// Why the application's launches are not compared, or not with launches that stood alike.
fn not_compared(
    of: &application::Application,
    found: Option<&application::AsThere>,
) -> Option<String> {
    let least = Effort::LEAST;
    match found {
        None => Some(format!(
            "the application has {} other launches like it with a time, of {}: its median needs {least}",
            of.timed, of.launches
        )),
        Some(found) if found.here.is_none() => Some(format!(
            "how launches like it stood in their queue is not known of {least}, since commands before them have no time (record --device-timing event): they are not imitated"
        )),
        Some(_) => None,
    }
}

/// Who follows a run.
#[derive(Clone, Copy)]
pub struct Watch<'w> {
    /// Told which version is doing what, before it does.
    pub progress: &'w dyn Fn(&At),
    /// Told when joules begin to be measured, and for how many nanoseconds at most.
    pub metering: &'w dyn Fn(u64),
    /// Asked between launches, several times a second, whether to end.
    pub stop: &'w dyn Fn() -> bool,
}

/// The captured version. Where its program cannot be had on this device, a source that was given
/// takes its place, and a note says so.
fn base(stage: &Stage<'_>, wanted: &Wanted) -> Result<(Built, Option<String>), StageError> {
    let why = match stage.build(Who::Captured, &wanted.base) {
        Err(why @ (StageError::NoProgram { .. } | StageError::Elsewhere { .. })) => why,
        built => return Ok((built?, None)),
    };
    let Some(recipe) = wanted.changed.as_ref() else { return Err(why) };
    let Some((name, _)) = &recipe.source else { return Err(why) };
    let note = format!(
        "the captured program was not built here, so {name} stands in its place and is compared with nothing but what was captured: {}",
        match &why {
            StageError::Elsewhere { device, why, .. } =>
                format!("{device} does not take the captured binary ({why})"),
            StageError::NoProgram { why, .. } => why.clone(),
            other => other.to_string(),
        }
    );
    Ok((stage.build(Who::Captured, recipe)?, Some(note)))
}

/// Runs a capture on a device.
///
/// # Errors
/// [`RunError`].
pub fn run(
    device: &Device,
    capture: &Capture,
    wanted: &Wanted,
    watch: Watch<'_>,
) -> Result<Document, RunError> {
    let Watch { progress, metering, stop } = watch;
    let launch = &capture.launch;
    let mut stage = Stage::new(device, capture, progress)?;
    let (base, instead) = base(&stage, wanted)?;
    let kinds = elements(launch, &base, &pointed(capture)?, &wanted.types)?;
    let has_ended = wanted.ended.iter().any(|ended| ended.who == Who::Other);
    let recipe = wanted.changed.as_ref().filter(|_| !has_ended && instead.is_none());
    let changed = recipe.map(|recipe| stage.build(Who::Other, recipe)).transpose()?;
    let computed_base = computed(&stage, &base, &base.range)?;
    let captured = stage.after()?;
    let runs = (&computed_base.first[..], &computed_base.again[..]);
    let with = Expected { name: "capture", contents: &captured, is_repeatable: true };
    let mut results = judge(launch, &kinds, with, runs, wanted.tolerance)
        .with_overruns(launch, &computed_base.overruns);
    let with = Against { expected: &captured, found: &computed_base.first, kinds: &kinds };
    let order = order::settle(&stage, &base, &mut results, &with, stop)?;
    let is_written: Vec<bool> = captured.iter().map(Option::is_some).collect();
    drop(captured);
    let mut notes = notes(&stage, &device.facts);
    notes.extend(instead);
    untyped(launch, &results, &mut notes);
    notes.extend(order);
    let mut document = Document {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        capture: Captured::describe(&capture.folder, launch),
        device: device.facts.clone(),
        is_same_device: is_of(launch, &device.facts),
        notes,
        base: version(&base, results),
        there: None,
        as_there: None,
        changed: None,
        ended: wanted.ended.iter().filter(|of| of.who == Who::Other).cloned().collect(),
        tuned: None,
    };
    let mut to_restore = restored(&mut stage, &base, &computed_base, stop)?;
    if let Some(built) = &changed {
        let other = computed(&stage, built, &built.range)?;
        let expected: Vec<Option<Vec<u8>>> = computed_base
            .first
            .iter()
            .zip(&is_written)
            .map(|(bytes, written)| written.then(|| bytes.clone()))
            .collect();
        let runs = (&other.first[..], &other.again[..]);
        let is_repeatable = document.base.results.is_repeatable;
        let with = Expected { name: "base", contents: &expected, is_repeatable };
        let mut results = judge(launch, &kinds, with, runs, wanted.tolerance)
            .with_overruns(launch, &other.overruns);
        let with = Against { expected: &expected, found: &other.first, kinds: &kinds };
        let order = order::settle(&stage, built, &mut results, &with, stop)?;
        untyped(launch, &results, &mut document.notes);
        document.notes.extend(order);
        // What one of the two needs is done for both, so that they are alike.
        to_restore.extend(restored(&mut stage, built, &other, stop)?);
        to_restore.sort_unstable();
        to_restore.dedup();
        document.changed = Some(Changed {
            version: version(built, results),
            time_change: None,
            time_outcome: outcome::Outcome::NotJudged,
        });
    }
    if wanted.mix {
        stage.enter(Step::Counting);
        put_mix(&mut document.base, &stage, &base, &wanted.compilers);
        if let (Some(of), Some(built)) = (&mut document.changed, &changed) {
            put_mix(&mut of.version, &stage, built, &wanted.compilers);
        }
    }
    if wanted.tune {
        let with = tune::With {
            kinds: &kinds,
            written: &is_written,
            is_repeatable: document.base.results.is_repeatable,
            restored: &to_restore,
            effort: wanted.effort,
            tolerance: wanted.tolerance,
            ended: &wanted.ended,
        };
        document.tuned = Some(tune::local(&stage, &base, &computed_base, &with, stop)?);
    }
    let subjects: Vec<Subject<'_>> = std::iter::once(&base)
        .chain(&changed)
        .map(|built| Subject { built, range: &built.range, restored: &to_restore, results: &[] })
        .collect();
    stage.enter(Step::Timing);
    let samples = measure::in_turns(&stage, &subjects, wanted.effort, stop)?;
    if stop() {
        return Err(RunError::Interrupted);
    }
    let times: Vec<Option<Time>> =
        samples.iter().map(|of| time_of(of, !to_restore.is_empty())).collect();
    let long = |time: &Option<Time>| time.as_ref().map_or(0.0, |t| t.median_ns.value);
    let times_ns: Vec<f64> = times.iter().map(long).collect();
    let change = match &samples[..] {
        [base, new] => measure::ratio(base, new, 1),
        _ => None,
    };
    let mut times = times.into_iter();
    document.base.time = times.next().flatten();
    if let (Some(ns), Some(time), Some(of), true) =
        (launch.duration_ns, &document.base.time, samples.first(), document.is_same_device)
    {
        document.there = ApplicationLaunch::compare(ns, of, time, device.facts.kind);
    }
    if document.is_same_device {
        let subject =
            Subject { built: &base, range: &base.range, restored: &to_restore, results: &[] };
        let effort = (wanted.effort, times_ns.first().copied().unwrap_or(0.0));
        match application::known(capture) {
            Ok(Known::Launches(of)) => {
                document.as_there = imitate::as_there(&mut stage, &subject, &of, effort, stop)?;
                document.notes.extend(not_compared(&of, document.as_there.as_ref()));
            }
            Ok(Known::Nothing(why)) => document.notes.push(not_known(&why)),
            Err(error) => document.notes.push(not_known(&error.to_string())),
        }
        if stop() {
            return Err(RunError::Interrupted);
        }
    }
    if let Some(changed) = &mut document.changed {
        changed.version.time = times.next().flatten();
        changed.time_change = change;
        if let Some(change) = change {
            changed.time_outcome = change.outcome();
        }
    }
    if wanted.energy {
        stage.enter(Step::Metering);
        let of = (metering, stop);
        let sensors = (wanted.sysfs_root.as_deref(), wanted.counters);
        let watched = energy::watch(&stage, &subjects, &times_ns, sensors, of)?;
        if stop() {
            return Err(RunError::Interrupted);
        }
        let versions = std::iter::once(&mut document.base)
            .chain(document.changed.as_mut().map(|changed| &mut changed.version));
        for (version, drawn) in versions.zip(watched.drawn) {
            put_energy(version, watched.sensor.as_deref(), drawn);
        }
        if wanted.counters && document.base.counters.is_empty() {
            document.notes.push(
                "no performance counters: none of this device could be read here (NVIDIA's GPM)"
                    .to_owned(),
            );
        }
    } else {
        document.base.energy_missing = Some("not asked for (--sensors off)".to_owned());
        if let Some(changed) = &mut document.changed {
            changed.version.energy_missing.clone_from(&document.base.energy_missing);
        }
    }
    Ok(document)
}
