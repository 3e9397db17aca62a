//! Owns the answer as data: what `answer` in JSON holds, and what the first screen, the page and the
//! Python module show. Shares are of the run's wall time, in every list; what is not known is null.
#![allow(missing_docs)] // fields are named as in the JSON document

use crate::energy::result::Window;
use crate::interval::Interval;
use clscope_io::text::shell_word;
use serde::Serialize;
use std::iter::once;

/// Why the run takes its time, what to do, and the rows that matter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Answer {
    /// The run in a line.
    pub run: Run,
    /// Causes, the largest first. Their shares add up to 1; empty where nothing was recorded.
    pub why: Vec<Cause>,
    /// What to do, the largest gain first.
    pub advice: Vec<Advice>,
    pub kernels: Vec<KernelRow>,
    pub copies: Vec<CopyRow>,
    pub host: Vec<HostRow>,
    pub energy: Vec<EnergyRow>,
    /// The longest gaps between commands.
    pub gaps: Vec<GapRow>,
    /// Buffers by size and flags, those with the most copied bytes first.
    #[schemars(default)]
    pub buffers: Vec<BufferRow>,
    /// What the application does again and again.
    #[schemars(default)]
    pub patterns: Vec<Pattern>,
}

/// What was run, and on what.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Run {
    /// Program and arguments; of several processes those of the first, of several programs their
    /// names.
    pub command: String,
    pub processes: usize,
    /// The base of all shares: time recorded, without repetitions; of several processes that
    /// enqueued commands the sum, as launches, times and joules of the rows are. Null where nothing
    /// was recorded, or no clock is known.
    pub wall_ns: Option<f64>,
    /// How many processes that is the sum of.
    pub wall_processes: usize,
    /// Devices that ran commands.
    pub devices: Vec<String>,
    /// Part of the wall time in which a device ran commands.
    pub busy: Option<Interval>,
    /// Mean power of the devices with a sensor; null where energy is of a part of the run.
    pub watts: Option<Interval>,
}

/// What a part of the wall time went to.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Cause {
    /// Stable name: `kernel`, `copy`, `command`, `queues-take-turns`, `shared-device`,
    /// `held-up-launches`, `host`, `call`, `short-calls`, `user-event`, `other-queue`,
    /// `first-launch`, `launching`, `not-begun`, `before-first-command`, `rotated-away`,
    /// `after-last-command`, `recording`, `unknown`.
    pub kind: &'static str,
    /// In words.
    pub text: String,
    /// The kernel, function or direction that `text` names.
    pub name: Option<String>,
    /// More of it: counts, sizes, what the host did meanwhile.
    pub more: Option<String>,
    /// Of the wall time.
    pub share: f64,
    #[serde(rename = "time_ns")]
    pub ns: f64,
    /// Whether sampled timing stands behind it.
    pub estimated: bool,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Advice {
    /// The cause it is against.
    pub against: &'static str,
    pub text: String,
    /// The kernel or function that `text` names.
    pub name: Option<String>,
    /// Part of the wall time that it saves at most; null where that is not known.
    pub gain: Option<f64>,
    /// The command that shows more.
    pub command: Option<String>,
}

/// A kernel.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct KernelRow {
    pub name: String,
    /// Null where all ran on one device.
    pub device: Option<String>,
    /// Global size, and the local one where the application set it: `1920x1080 by 16x16`.
    pub size: Option<String>,
    /// How many sizes it was launched with; at least, where `sizes_are_more`.
    pub sizes: usize,
    pub sizes_are_more: bool,
    /// Whether the row is of the launches of `size` alone: medians of its sizes differ more than
    /// twofold.
    pub of_size: bool,
    pub share: Option<f64>,
    pub time_ns: Option<Interval>,
    pub launches: u64,
    /// Launches without a device time that sampling did not leave out: `time_ns` lacks theirs.
    #[schemars(default)]
    pub untimed: u64,
    pub median_ns: Option<Interval>,
    /// Null of fewer than 20 launches.
    pub p95_ns: Option<Interval>,
    pub joules_per_launch: Option<Interval>,
    /// At most, where `joules_per_launch` is not known.
    pub joules_per_launch_below: Option<f64>,
    pub watts: Option<Interval>,
    /// Launches that take far longer than the others, by number.
    pub outliers: Option<String>,
}

/// Copies in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CopyRow {
    /// `to device`, `from device`, `on device`, `fill` or `copies`; `by clscope`: the recorder's
    /// copies of captured launches' memory.
    pub direction: &'static str,
    pub share: Option<f64>,
    pub time_ns: Option<Interval>,
    pub count: u64,
    /// Copies without a device time, likewise.
    #[schemars(default)]
    pub untimed: u64,
    pub bytes: u64,
    pub gigabytes_per_second: Option<f64>,
    pub joules_per_copy: Option<Interval>,
    /// At most, where `joules_per_copy` is not known.
    pub joules_per_copy_below: Option<f64>,
}

/// Calls of one function.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct HostRow {
    pub function: String,
    /// Of the wall time; several threads may add up to more than 1.
    pub share: f64,
    pub time_ns: f64,
    pub calls: u64,
    pub median_ns: Option<f64>,
    /// What the host waited for there, in which part of the time; null of calls that do not wait.
    pub waited_for: Option<String>,
}

/// Energy of a device.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct EnergyRow {
    pub device: String,
    /// The part of the run that all of this is of; null: all of it. Then kernels and copies, whose
    /// times are of the run, have no joules beside them.
    pub window: Option<Window>,
    /// The time that all of this is of, where readings leave out a part of the run or window; null
    /// where they do not.
    #[schemars(default)]
    pub measured_ns: Option<f64>,
    /// What the application took: the sum of `parts`.
    pub joules: Interval,
    pub watts: Option<Interval>,
    /// What it draws when it runs nothing.
    pub idle_watts: Option<Interval>,
    pub parts: Vec<EnergyPart>,
}

/// A part of a device's energy. All of them add up to what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct EnergyPart {
    /// `idle`: idle power all of the time, whether commands ran or not; `kernels`, `copies`: what
    /// they added to it; `sum`: what `names` added to it, of which only the sum is measurable;
    /// `not-assigned`: the rest. Where idle power is not known, there is no `idle`, and it is in the
    /// others.
    pub kind: &'static str,
    /// The kernels and copies of a `sum`.
    pub names: Vec<String>,
    pub joules: Interval,
    /// Of the row's joules.
    pub share: Interval,
}

/// A gap between commands.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct GapRow {
    /// Since the first record of its process.
    pub at_ns: f64,
    #[serde(rename = "time_ns")]
    pub ns: f64,
    /// The command before it, and the one after it.
    pub before: Option<String>,
    pub after: Option<String>,
    /// What most of it went to.
    pub cause: String,
    /// The thread that enqueued the command after it; null where only one enqueued.
    #[schemars(default)]
    pub thread: Option<String>,
    /// Where in the application that was (`record --call-sites`).
    #[schemars(default)]
    pub called_from: Option<String>,
}

/// Buffers of one size with the same flags.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BufferRow {
    /// Size of each.
    pub bytes: u64,
    /// `cl_mem_flags` by their names, without `CL_MEM_`.
    pub flags: String,
    /// How many were made.
    pub made: u64,
    /// Copies from the host; null where there were none.
    pub to_device: Option<BufferCopies>,
    /// Copies to the host; null where there were none.
    pub from_device: Option<BufferCopies>,
}

impl BufferRow {
    /// Bytes that were copied, either way.
    pub fn copied(&self) -> u64 {
        let both = [self.to_device, self.from_device];
        both.into_iter().flatten().fold(0, |sum, of| sum.saturating_add(of.bytes))
    }
}

/// Copies between buffers of one kind and the host.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct BufferCopies {
    pub count: u64,
    pub bytes: u64,
    /// Of those that have a time; null where none has.
    pub time_ns: Option<f64>,
    /// How many have one.
    pub timed: u64,
}

/// What an application does again and again.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Pattern {
    /// Stable name: `builds`, `buffers`, `polling`, `wait-for-each-launch`.
    pub kind: &'static str,
    pub text: String,
    pub times: u64,
    /// Host time in the calls.
    pub time_ns: Option<f64>,
}

/// The words of a command, as they are typed, with the traces that it is about; `None` where it
/// takes one and they are several.
pub fn words_with(traces: &[String], command: &str) -> Option<Vec<String>> {
    let takes = ["clscope explain", "clscope check", "clscope view", "clscope report"];
    let start = takes.into_iter().find(|start| command.starts_with(start));
    if takes[..2].iter().any(|one| start == Some(one)) && traces.len() > 1 {
        return None;
    }
    let Some(start) = start else { return Some(vec![command.to_owned()]) };
    let rest = Some(command[start.len()..].trim_start()).filter(|rest| !rest.is_empty());
    let traces = traces.iter().map(|trace| shell_word(trace));
    Some(once(start.to_owned()).chain(traces).chain(rest.map(str::to_owned)).collect())
}

impl Answer {
    /// The first causes, as many as lines are there, and the share of the rest with those of them
    /// that are more than nothing in the digits that are shown. Shares still add up.
    pub fn first_causes(&self, most: usize) -> (Vec<&Cause>, Option<(f64, Vec<&Cause>)>) {
        let much = |cause: &&Cause| cause.share >= MUCH;
        let first: Vec<&Cause> = self.why.iter().take_while(much).take(most).collect();
        let rest: Vec<&Cause> = self.why.iter().skip(first.len()).collect();
        let share = rest.iter().map(|cause| cause.share).sum();
        let named: Vec<&Cause> = rest.iter().copied().filter(|of| of.share >= NONE).collect();
        // One that is left needs no more room than the line of all others.
        match rest[..] {
            [] => (first, None),
            [one] if first.len() < most || one.share >= MUCH => {
                (first.into_iter().chain([one]).collect(), None)
            }
            _ => (first, Some((share, named))),
        }
    }
}

/// Part of the wall time from which on a cause has a line of its own.
const MUCH: f64 = 0.005;
/// Below this a share is shown as 0.0 %.
pub const NONE: f64 = 0.0005;
/// What stands in the place of causes of which each is below [`NONE`].
pub const EACH_BELOW: &str = "each below 0.1 %";

impl Cause {
    /// In few words, with `name` where it has one.
    pub fn in_few_words(&self, name: impl Fn(&str) -> String) -> String {
        match (self.kind, self.name.as_deref()) {
            ("kernel" | "call" | "command", Some(own)) => name(own),
            ("host", _) => "host outside OpenCL".to_owned(),
            ("short-calls", _) => "short calls".to_owned(),
            ("copy", _) => self.text.clone(),
            (kind, _) => kind.replace('-', " "),
        }
    }
}
