//! What the models say of a trace, as a value: for each kernel what it does, what could be the
//! limit and which is, where its joules go, and what a change would give; for transfers and idle
//! time the same. Every statement names its evidence; what is not known stands beside what would
//! tell.
//!
//! `tools/models/explain.schema.json` describes the JSON document (draft 2020-12); a test makes it
//! of these types. Its version is raised when a field changes its meaning or goes; new fields may
//! come at any time. Times are nanoseconds, shares between 0 and 1; what is not known is null.

mod advice;
mod candidates;
mod idle;
mod joules;
mod kernel;
mod measurement;
mod transfers;
mod verdict;
mod words;

use crate::device::Device;
use crate::energy::{AccessRates, Part};
use crate::facts::OnDevice;
use crate::figure::{Evidence, Figure, Missing};
use crate::hockney::Segment;
use crate::roofline::{Bound, Resource};
use crate::split;
use serde::Serialize;
use std::collections::BTreeMap;
use words::Sentence;

pub use measurement::Measurement;
pub use transfers::{HostMemory, Portion};
pub use verdict::{Cause, cause};

/// Name and version of this schema.
pub const SCHEMA: &str = "clscope-explain/3";

/// Launches shorter than this may take less than launching and waiting, ns: where no empty kernel
/// was measured on the device.
pub const SHORT_LAUNCH_NS: f64 = 20e3;
/// Launches from which on that matters.
pub const MANY_LAUNCHES: u64 = 100;

/// What a kernel without joules lacks.
const NO_JOULES: &str = "joules of a launch are not known";

/// The document.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Explanation {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Trace directories.
    pub traces: Vec<String>,
    /// Readable names of kernels, by their names in this document, which are those of the trace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub display_names: BTreeMap<String, String>,
    /// Busiest first.
    pub devices: Vec<Explained>,
}

/// A number that a sentence says.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Number {
    /// What it is of.
    pub name: String,
    /// `ns`, `bytes`, `GB/s`, `J`, `W`, `share` (of 1; sentences say it in percent), or what is
    /// counted.
    pub unit: &'static str,
    /// The value with its interval and what it rests on.
    #[serde(flatten)]
    pub value: Figure,
}

/// A sentence with what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Statement {
    /// What it is about: `does`, `bounds`, `verdict`, `occupancy`, `groups`, `wave`, `divergence`,
    /// `launch`, `joules`, `rates`, `time`, `latency`, `batching`, `memory`, `gaps`, `states`.
    pub topic: &'static str,
    /// In words.
    pub text: String,
    /// The numbers that the words say, in their order.
    #[schemars(default)]
    pub numbers: Vec<Number>,
    /// On what it rests.
    pub evidence: Evidence,
}

impl Statement {
    fn new(topic: &'static str, evidence: Evidence, of: impl Into<Sentence>) -> Self {
        let Sentence { text, numbers } = of.into();
        Self { topic, text, numbers, evidence }
    }
}

/// What a saving is the sum over: every one of its kind in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Over {
    /// How many.
    pub count: u64,
    /// `launches` of the kernel, `transfers` of the direction, or `gaps` of the device.
    pub what: &'static str,
}

impl Over {
    const fn launches(count: u64) -> Self {
        Self { count, what: "launches" }
    }

    const fn transfers(count: u64) -> Self {
        Self { count, what: "transfers" }
    }

    const fn gaps(count: u64) -> Self {
        Self { count, what: "gaps" }
    }

    /// As text says it.
    pub fn words(self) -> String {
        match self.count {
            1 => format!("of the only {}", self.what.trim_end_matches("es").trim_end_matches('s')),
            n => format!("of all {n} {}", self.what),
        }
    }
}

/// Something that could be changed.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Lever {
    /// In words.
    pub text: String,
    /// The numbers that the words say, in their order.
    #[schemars(default)]
    pub numbers: Vec<Number>,
    /// What it would save at most of all that `over` names together, ns.
    #[serde(rename = "saves_ns")]
    pub saves_ns: Option<Figure>,
    /// Joules that it would save of them together.
    pub saves_joules: Option<Figure>,
    /// What the savings are sums over.
    pub over: Over,
    /// On what it rests.
    pub evidence: Evidence,
}

impl Lever {
    /// One of which nobody knows what it saves.
    fn new(over: Over, evidence: Evidence, of: impl Into<Sentence>) -> Self {
        let Sentence { text, numbers } = of.into();
        Self { text, numbers, saves_ns: None, saves_joules: None, over, evidence }
    }

    /// With the time that it saves.
    fn saving(self, saves_ns: Option<Figure>) -> Self {
        Self { saves_ns, ..self }
    }
}

/// One device.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Explained {
    /// CL_DEVICE_NAME.
    pub device: String,
    /// CL_DRIVER_VERSION.
    pub driver: String,
    /// Date of the device's file of parameters; null without one.
    pub parameters: Option<String>,
    /// Whose parameters these are, where `--force` took another device's or driver's; null
    /// otherwise.
    pub forced: Option<String>,
    /// Those that matter, longest first.
    pub kernels: Vec<Explanatory>,
    /// Kernels that are left out.
    pub more_kernels: usize,
    /// Their share of all kernels' time.
    pub more_share: f64,
    /// By direction.
    pub transfers: Vec<Moved>,
    /// Of time between commands.
    pub idle: Vec<Statement>,
    /// What could be done about it.
    pub idle_levers: Vec<Lever>,
    /// What is not known of the device, and the command that tells.
    pub missing: Vec<Missing>,
}

/// One kernel.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Explanatory {
    /// Its name.
    pub kernel: String,
    /// Launches.
    pub launches: u64,
    /// Mean time of one, first ones with them.
    pub time_ns: Option<Figure>,
    /// First launches that took much longer than those after them, or the only launch, which may
    /// include compilation; null where others confirm the first. Bounds, savings and what is reached
    /// are then of the mean time without that.
    pub first_launches: Option<FirstLaunches>,
    /// Of the time of all kernels of the device.
    pub share: Option<f64>,
    /// Work-items of a launch; null where launches differ.
    pub items: Option<u64>,
    /// Items of a group; null likewise, or where the runtime chose.
    pub local: Option<u64>,
    /// Floating-point operations of a launch.
    pub flop: Option<Figure>,
    /// Bytes asked of memory by a launch.
    pub requested_bytes: Option<Figure>,
    /// Bytes that memory moved for a launch.
    pub dram_bytes: Option<Figure>,
    /// Least times by resource, longest first.
    pub bounds: Vec<Bound>,
    /// Time of a launch as the bounds make it likely.
    pub modelled_time_ns: Option<Figure>,
    /// The resource that the time is spent on; null only where the time is not known.
    pub limit: Option<Resource>,
    /// How sure that is; null where `limit` is.
    #[schemars(default)]
    pub sure: Option<Sure>,
    /// How much of that resource's ceiling is reached, at most 1; null where the ceiling does not
    /// say.
    pub reached: Option<f64>,
    /// The resource that explains the time best after it.
    #[schemars(default)]
    pub next: Option<Nearest>,
    /// What would decide where the verdict is not certain: the measurement that the trace does not
    /// hold and its machine can give, or a change of the kernel where there is none. Null where the
    /// verdict is certain, or the runtime gave no times.
    #[schemars(default)]
    pub decide: Option<String>,
    /// Joules of a launch.
    pub joules: Option<Figure>,
    /// Joules as the energy model has them.
    pub modelled_joules: Option<Figure>,
    /// What they are for.
    pub joule_parts: Vec<Part>,
    /// The same in the form of access rates, where that is asked for; null otherwise, or with the
    /// reason in `missing`.
    pub access_rates: Option<AccessRates>,
    /// Sentences, in the order of reading.
    pub statements: Vec<Statement>,
    /// Changes, the largest gain first.
    pub levers: Vec<Lever>,
    /// What is not known, and the command that tells.
    pub missing: Vec<Missing>,
}

/// How sure a verdict is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sure {
    /// What was measured or counted needs at least 70 % of the time, whatever happens.
    Certain,
    /// It needs at least 70 % of the time under the condition that the verdict says, or nothing else
    /// was counted.
    Conditional,
    /// Of all resources it explains the time best, and no bound comes within 70 %, or its bound
    /// depends on what was not counted or measured; `next` may be as near.
    Likely,
}

/// A resource and the share of the time that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Nearest {
    /// Which.
    pub resource: Resource,
    /// Of the time of a launch, at least, and at most 1.
    pub share: f64,
    /// Of the time of a launch, at most, where that depends on operands, addresses or what caches
    /// serve; else `share`.
    #[schemars(default)]
    pub most_share: f64,
}

/// Launches that took longer than the others and do not stand for them: first ones of a program and
/// geometry, those that the recorder held up, or the only launch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FirstLaunches {
    /// How many first ones.
    pub launches: u64,
    /// How many that began when the recorder had let the device rest: it read copies of captured
    /// launches' memory.
    pub held_up: u64,
    /// Launches beside each, at least: fewer than two confirm no time.
    pub others: u64,
    /// What they took beyond the median of the others, all together; none of it at least where
    /// fewer than two launches show that.
    pub excess_ns: Figure,
    /// Mean time of all launches without that.
    pub later_ns: Figure,
}

/// Transfers of one direction.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Moved {
    /// `host to device`, ...
    pub direction: &'static str,
    /// How many.
    pub count: u64,
    /// Bytes of all.
    pub bytes: f64,
    /// Device time of all.
    pub time_ns: Option<f64>,
    /// Which memory of the host they use; null where they use none.
    pub host_memory: Option<HostMemory>,
    /// Latency of small ones, fitted to the trace's own sizes; null where the fit misses them by a
    /// quarter or more.
    pub latency_ns: Option<f64>,
    /// Bandwidth of large ones, fitted likewise, GB/s.
    pub gigabytes_per_second: Option<f64>,
    /// The fit's pieces, by size; none where the two before are null.
    pub segments: Vec<Segment>,
    /// Root mean square of the fit's relative errors.
    pub misfit: Option<f64>,
    /// Sentences.
    pub statements: Vec<Statement>,
    /// Changes.
    pub levers: Vec<Lever>,
    /// What is not known, and the command that tells.
    pub missing: Vec<Missing>,
}

/// What is explained.
#[derive(Clone, Copy)]
pub struct Options<'o> {
    /// Kernels below this share of the device's time are left out.
    pub least_share: f64,
    /// Joules also in the form of access rates.
    pub access_rates: bool,
    /// Only kernels that this holds for.
    pub wanted: &'o dyn Fn(&str) -> bool,
}

/// Explains what ran on a device, by its parameters where they are known.
pub fn device(of: &OnDevice, parameters: Option<&Device>, options: Options<'_>) -> Explained {
    let total: f64 = of.kernels.iter().filter_map(|k| k.total_ns).sum();
    let share = |ns: Option<f64>| ns.filter(|_| total > 0.0).map(|ns| ns / total);
    let (mut kernels, mut more, mut more_share) = (Vec::new(), 0, 0.0);
    let (shares, apart) = parameters.map(|p| split::all(of, p)).unwrap_or_default();
    let typical = of.typical();
    for kernel in of.kernels.iter().filter(|k| (options.wanted)(&k.name)) {
        let share = share(kernel.total_ns);
        // One whose time is not known may be any size.
        if share.is_some_and(|s| s < options.least_share) {
            more += 1;
            more_share += share.unwrap_or(0.0);
            continue;
        }
        let kernel = &split::with_share(kernel, &shares);
        let mut explained = kernel::explain(kernel, parameters, &typical, share);
        if options.access_rates {
            joules::access_rates(kernel, parameters, &mut explained);
        }
        // What holds for the whole device is said once.
        explained
            .missing
            .retain(|m| m.what != NO_JOULES || of.unmetered.as_ref() != Some(&m.remedy));
        kernels.push(explained);
    }
    let (idle, idle_levers) = idle::explain(of, parameters);
    let mut missing = apart;
    if parameters.is_none() {
        missing.push(Missing::device(&of.name));
    }
    if let Some(why) = &of.unmetered {
        missing.push(Missing::new("joules are not known", why.clone()));
    }
    Explained {
        device: of.name.clone(),
        driver: of.driver.clone(),
        parameters: parameters.map(|p| p.date.clone()),
        forced: parameters.and_then(Device::forced),
        kernels,
        more_kernels: more,
        more_share,
        transfers: transfers::explain(of, parameters),
        idle,
        idle_levers,
        missing,
    }
}

#[cfg(test)]
mod tests;
