//! What running a capture gave, as a document. Owns its shape and the outcome on results; refuses
//! to run anything and to print.

use crate::application::AsThere;
use crate::application_launch::ApplicationLaunch;
use crate::capture::Launch;
use crate::compare::{Place, difference};
use crate::element::Element;
use crate::progress::Ended;
use crate::stage::Overrun;
use clscope_compare::outcome::{self, Change};
use clscope_opencl::DeviceFacts;
use clscope_profile::interval::Interval;
use clscope_profile::mixes;
use serde::Serialize;

/// Name and version of the document.
pub const SCHEMA: &str = "clscope-kernel/3";

/// What running a capture gave.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of this program.
    pub version: &'static str,
    /// What was captured.
    pub capture: Captured,
    /// The device it ran on here.
    pub device: DeviceFacts,
    /// Whether it is the device and driver that it was captured on.
    pub is_same_device: bool,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
    /// The launch as captured.
    pub base: Version,
    /// The application's own launch beside launches of the captured version; null where it has no
    /// time, or ran on another device or driver.
    #[schemars(default)]
    pub there: Option<ApplicationLaunch>,
    /// The captured version repeated as it stood in the application, beside the application's other
    /// launches like it; null where these are not known, or ran on another device or driver.
    #[schemars(default)]
    pub as_there: Option<AsThere>,
    /// Another version beside it, if one was asked for.
    pub changed: Option<Changed>,
    /// Versions that ended the process in which they ran, and are not among the others.
    pub ended: Vec<Ended>,
    /// The search for a work-group size, if it was asked for.
    pub tuned: Option<Tuned>,
}

/// What was captured.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Captured {
    /// The folder.
    pub folder: String,
    /// Name of the kernel.
    pub kernel: String,
    /// Number of the launch, from 1.
    pub launch: u64,
    /// Platform, device and driver.
    pub platform: String,
    /// Name of the device.
    pub device: String,
    /// Version of the driver.
    pub driver: String,
    /// Time of the application's own launch by the device's stamps, ns.
    pub duration_ns: Option<u64>,
    /// Why there is no such time.
    pub duration_missing: Option<String>,
}

impl Captured {
    /// Of a description.
    pub fn describe(folder: &std::path::Path, launch: &Launch) -> Self {
        Self {
            folder: folder.display().to_string(),
            kernel: launch.kernel.clone(),
            launch: launch.launch,
            platform: launch.platform.name.clone(),
            device: launch.device.name.clone(),
            driver: launch.device.driver.clone(),
            duration_ns: launch.duration_ns,
            duration_missing: launch.duration_missing.clone(),
        }
    }
}

/// A version of the launch, and what it gave.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Version {
    /// The program's file.
    pub program: String,
    /// `source`, `il` or `binary`.
    pub form: &'static str,
    /// Build options.
    pub options: String,
    /// The first work-item; null: zeros.
    pub offset: Option<Vec<usize>>,
    /// Work-items.
    pub global: Vec<usize>,
    /// Work-items of a group; null: the runtime chose.
    pub local: Option<Vec<usize>>,
    /// What it computed.
    pub results: Results,
    /// Time of a launch; null where the runtime's stamps say nothing.
    pub time: Option<Time>,
    /// Joules of a launch.
    pub energy: Option<Energy>,
    /// Why there are no joules.
    pub energy_missing: Option<String>,
    /// Performance counters of the device while it ran, where they were asked for.
    pub counters: Vec<Counter>,
    /// What one launch executes, where it was asked for.
    pub mix: Option<mixes::document::Kernel>,
    /// Why it is not known.
    pub mix_missing: Option<String>,
}

/// Another version beside the captured one.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Changed {
    /// The version.
    pub version: Version,
    /// Relative change of its time against the version as captured: 0.05 is five percent longer.
    /// Null where a time is missing.
    pub time_change: Option<Change>,
    /// What that change is.
    pub time_outcome: outcome::Outcome,
}

/// A search for a work-group size.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Tuned {
    /// Sizes that were tried, the captured one first.
    pub rows: Vec<Tried>,
    /// Number of the row of the fastest size with the same results, from 0; null where none is
    /// faster than the captured one beyond noise.
    pub best: Option<usize>,
    /// What was left out.
    pub notes: Vec<String>,
}

/// A work-group size that was tried.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Tried {
    /// Work-items of a group; null: the runtime chose.
    pub local: Option<Vec<usize>>,
    /// Outcome on its results against those of the captured size; null of that itself, and where
    /// the runtime refused the size.
    pub results: Option<Outcome>,
    /// Time of a launch.
    pub time: Option<Time>,
    /// Relative change of time against the captured size, of the sizes that were timed in turns
    /// with it at last. Intervals are wide enough for all of them together.
    pub change: Option<Change>,
    /// What that change is.
    pub outcome: outcome::Outcome,
    /// Why there is nothing of it: the runtime refused it, or it ended the process in which it ran.
    pub refused: Option<String>,
}

impl Tried {
    /// A row of which nothing is known yet.
    pub(crate) const fn new(local: Option<Vec<usize>>) -> Self {
        let outcome = outcome::Outcome::NotJudged;
        Self { local, results: None, time: None, change: None, outcome, refused: None }
    }
}

/// Time of a launch by the device's stamps.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Time {
    /// Median, ns.
    pub median_ns: Interval,
    /// Shortest, ns.
    pub min_ns: f64,
    /// Longest, ns.
    pub max_ns: f64,
    /// Timed launches.
    pub launches: usize,
    /// Whether the memories that the launch changes were restored before each.
    pub restored: bool,
}

impl From<Time> for clscope_profile::measured::Time {
    fn from(of: Time) -> Self {
        Self { median_ns: of.median_ns, launches: of.launches, restored: of.restored }
    }
}

/// Joules of a launch.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Energy {
    /// Joules, with what the device draws without work.
    pub joules: Interval,
    /// Joules above the power that the device drew just before, without work.
    pub joules_above_idle: Option<Interval>,
    /// Mean watts while it ran.
    pub watts: Interval,
    /// Launches that were metered together.
    pub launches: usize,
    /// How long, ns.
    pub metered_ns: f64,
    /// The sensor.
    pub sensor: String,
}

/// A performance counter.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Counter {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Mean while the launch was repeated.
    pub mean: Interval,
}

/// What is said of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Every byte is the same.
    Same,
    /// Floating-point elements differ, by no more ULPs than are tolerated.
    Within,
    /// Something differs by more.
    Differs,
    /// Two runs of the same version, or of what it is compared with, differ from each other, so
    /// that the difference says nothing.
    Varies,
    /// The launch can write no memory that was captured.
    NotChecked,
}

/// What a version computed, against what was expected.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Results {
    /// `capture`, or `base`: what the version as captured gave here.
    pub compared_with: &'static str,
    /// The outcome.
    pub outcome: Outcome,
    /// ULPs that are tolerated.
    pub tolerance_ulps: u64,
    /// Greatest difference in ULPs; null where what differs is no floating-point value, or a NaN
    /// stands against a number.
    pub ulps: Option<u64>,
    /// Whether a second run gave the same bytes.
    pub is_repeatable: bool,
    /// Memories that were compared.
    pub memories: Vec<MemoryResult>,
    /// Writes behind the end of a memory. The 4096 bytes that lie there are watched.
    pub overruns: Vec<Behind>,
}

/// A write behind the end of a memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Behind {
    /// The memory's id in the capture.
    pub memory: u32,
    /// Numbers and names of the arguments that it was given as.
    pub arguments: Vec<String>,
    /// Bytes from its end to behind the last one that was changed, of those that are watched.
    pub bytes: u64,
}

/// A memory that was compared.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct MemoryResult {
    /// Its id in the capture.
    pub memory: u32,
    /// Numbers and names of the arguments that it was given as.
    pub arguments: Vec<String>,
    /// Type of its elements; `byte` where it is not known.
    pub element: &'static str,
    /// Its size.
    pub bytes: u64,
    /// Its elements.
    pub elements: u64,
    /// Elements that differ.
    pub differing: u64,
    /// Bytes that differ.
    pub differing_bytes: u64,
    /// As of all results.
    pub ulps: Option<u64>,
    /// Greatest difference of two values; null where that is no number.
    pub greatest: Option<f64>,
    /// The first elements that differ.
    pub first: Vec<Differing>,
}

/// An element that differs.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Differing {
    /// Its number, from 0.
    pub element: u64,
    /// What was expected.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl From<Place> for Differing {
    fn from(Place { element, values: [expected, found] }: Place) -> Self {
        Self { element, expected, found }
    }
}

impl Document {
    /// The results that the run is about: of the other version, where there is one.
    pub fn results(&self) -> &Results {
        self.changed.as_ref().map_or(&self.base.results, |changed| &changed.version.results)
    }

    /// Whether results differ, or the other version is surely slower, by more than is allowed.
    pub fn is_bad(&self, fail_over: Option<f64>) -> bool {
        let slower = fail_over.zip(self.changed.as_ref()).is_some_and(|(limit, changed)| {
            changed.time_outcome == outcome::Outcome::More
                && changed.time_change.is_some_and(|change| change.value > limit)
        });
        slower || self.results().outcome == Outcome::Differs
    }
}

/// Contents of a run's memories, in the order of the capture.
pub type Contents = [Vec<u8>];

/// What a run is compared with.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'e> {
    /// As [`Results::compared_with`].
    pub name: &'static str,
    /// Contents; nothing of memories that are not compared.
    pub contents: &'e [Option<Vec<u8>>],
    /// Whether a second run of what gave them gave the same, as far as that is known.
    pub is_repeatable: bool,
}

/// Numbers and names of the arguments that a memory was given as.
fn arguments(launch: &Launch, memory: u32) -> Vec<String> {
    let argument = |a: &crate::capture::Argument| match &a.name {
        Some(name) => format!("{} {name}", a.index),
        None => a.index.to_string(),
    };
    launch.arguments_of(memory).map(argument).collect()
}

impl Results {
    /// With the writes behind memories.
    pub fn with_overruns(mut self, launch: &Launch, all: &[Overrun]) -> Self {
        let behind = |of: &Overrun| {
            let memory = launch.memories.get(of.index)?.id;
            Some(Behind { memory, arguments: arguments(launch, memory), bytes: of.bytes })
        };
        self.overruns = all.iter().filter_map(behind).collect();
        self
    }
}

/// Judges a run; `again` is a second one.
pub fn judge(
    launch: &Launch,
    elements: &[Element],
    expected: Expected<'_>,
    (found, again): (&Contents, &Contents),
    tolerance_ulps: u64,
) -> Results {
    let mut out = Results {
        compared_with: expected.name,
        outcome: Outcome::NotChecked,
        tolerance_ulps,
        ulps: Some(0),
        is_repeatable: true,
        memories: Vec::new(),
        overruns: Vec::new(),
    };
    let contents = expected.contents.iter().zip(found).zip(again);
    for ((memory, element), ((expected, found), again)) in
        launch.memories.iter().zip(elements).zip(contents)
    {
        let Some(expected) = expected else { continue };
        out.is_repeatable &= found == again;
        let of = difference(expected, found, *element);
        out.ulps = out.ulps.zip(of.ulps).map(|(most, ulps)| most.max(ulps));
        out.memories.push(MemoryResult {
            memory: memory.id,
            arguments: arguments(launch, memory.id),
            element: element.name(),
            bytes: memory.bytes,
            elements: of.elements,
            differing: of.differing,
            differing_bytes: of.bytes,
            ulps: of.ulps,
            greatest: of.greatest,
            first: of.first.into_iter().map(Differing::from).collect(),
        });
    }
    let differs = out.memories.iter().any(|m| m.differing > 0);
    out.outcome = match (out.memories.is_empty(), differs, out.ulps) {
        (true, ..) => Outcome::NotChecked,
        (_, false, _) => Outcome::Same,
        (_, _, Some(ulps)) if ulps <= tolerance_ulps && tolerance_ulps > 0 => Outcome::Within,
        _ if !out.is_repeatable || !expected.is_repeatable => Outcome::Varies,
        _ => Outcome::Differs,
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn launch() -> Launch {
        let memory = |id: u32, after: bool| {
            json!({"id": id, "kind": "buffer", "bytes": 8, "flags": [], "before": "b",
                   "after": after.then_some("a"), "hash_before": "", "hash_after": after.then_some("")})
        };
        serde_json::from_value(json!({
            "schema": 1, "clscope": "0", "kernel": "k", "launch": 1, "command": null, "process": null,
            "platform": {"name": "", "vendor": "", "version": ""},
            "device": {"name": "", "vendor": "", "version": "", "driver": "", "type": "cpu"},
            "program": {"origin": "source", "options": "", "files": []},
            "dimensions": 1, "offset": null, "global": [1], "local": null, "queue": null,
            "memories": [memory(0, true), memory(1, false)],
            "arguments": [{"index": 0, "name": "out", "kind": "memory", "memory": 0, "offset": 0, "size": 8}],
            "duration_ns": null,
        }))
        .unwrap()
    }

    fn outcome(expected: [f32; 2], found: [f32; 2], again: [f32; 2], tolerance: u64) -> Outcome {
        let bytes = |of: [f32; 2]| of.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let contents = [Some(bytes(expected)), None];
        let with = Expected { name: "capture", contents: &contents, is_repeatable: true };
        // What is not compared may be anything.
        let (found, again) = (vec![bytes(found), vec![1; 8]], vec![bytes(again), vec![2; 8]]);
        let of =
            judge(&launch(), &[Element::Float, Element::Byte], with, (&found, &again), tolerance);
        assert_eq!(of.memories.len(), 1);
        assert_eq!(of.memories[0].arguments, ["0 out"]);
        of.outcome
    }

    #[test]
    fn outcomes_by_table() {
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        let (a, b, c) = ([1.0, 2.0], [next, 2.0], [9.0, 2.0]);
        assert_eq!(outcome(a, a, a, 16), Outcome::Same);
        assert_eq!(outcome(a, a, c, 16), Outcome::Same);
        assert_eq!(outcome(a, b, b, 1), Outcome::Within);
        assert_eq!(outcome(a, b, b, 0), Outcome::Differs);
        assert_eq!(outcome(a, c, c, 16), Outcome::Differs);
        assert_eq!(outcome(a, c, b, 16), Outcome::Varies);
        let none = judge(
            &launch(),
            &[Element::Byte; 2],
            Expected { name: "base", contents: &[None, None], is_repeatable: false },
            (&[vec![], vec![]], &[vec![], vec![]]),
            1,
        );
        assert_eq!(none.outcome, Outcome::NotChecked);
    }
}
