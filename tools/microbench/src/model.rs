//! The parameters of a device: runs the microbenchmarks that give them and makes the file of their
//! results. Owns which case gives which parameter; refuses to measure anything itself.

use crate::bench::{DISTURBED, Settings};
use crate::cl::{ClError, Device as Cl, DeviceFacts, DeviceKind};
use crate::idle::{self, Watching};
use crate::power::Metering;
use crate::results::{CaseResult, Results, Status};
use crate::run::{self, Choice, Watch};
use crate::stats::Interval;
use crate::suite::{ceilings, levels};
use clscope_mix::Precision;
use clscope_models::device::{Device, Level, SCHEMA, name};
use clscope_models::{Evidence, Figure};

mod joules;
mod rounds;

use joules::{energy_model, links, watts_of_links};

/// What of it is run with power watched.
const METERED: [&str; 23] = [
    "flop/private/float/fma/",
    "flop/private/float/add/scalar",
    "flop/private/float/mul/scalar",
    "flop/private/double/fma/",
    "flop/private/double/add/scalar",
    "flop/private/half/fma/scalar",
    "flop/private/half/fma/vect2",
    "flop/private/half/add/scalar",
    "flop/private/int/add/scalar",
    "flop/private/int/mad/scalar",
    "memory/copy/vect4/x1",
    "memory/copy/scalar/x1",
    "memory/read/vect4/x16",
    "memory/read/scalar/x16",
    "memory/write/vect4/x1",
    "memory/random/scalar",
    "memory/local/",
    "memory/local_conflict2/",
    "levels/",
    "classes/float/special",
    "blend/",
    "ceilings/",
    "transfer/continuous/",
];

/// What a quick run takes of the suites that it leaves out: what gives ceilings.
const QUICK: [&str; 6] = [
    "classes/float/special",
    "blend/rotate",
    "blend/atomic",
    "blend/local_atomic",
    "blend/division",
    "blend/double_division",
];

/// What is run without: latencies, transfers.
const UNMETERED: [&str; 9] = [
    "latency/add/ilp1/",
    "latency/special/ilp1/single",
    "latency/local/ilp1/single",
    "latency/stream/ilp1/",
    "latency/random/ilp1/single",
    "transfer/pageable/",
    "transfer/pinned/",
    "transfer/mapped/",
    "memory/read/vect4/x16",
];

/// What a CPU does in vectors, which its compiler need not make of work-items: their widest.
const OF_CPU: [&str; 7] = [
    "flop/private/float/add/vect16",
    "flop/private/float/mul/vect16",
    "flop/private/double/add/vect16",
    "flop/private/double/mul/vect16",
    "flop/private/int/add/vect16",
    "flop/private/int/mul/vect16",
    "memory/local/",
];

/// How long power is watched in each case, ns: readings come every 20 ms.
const WINDOW_NS: u64 = 400_000_000;

/// How thorough to be.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Fewer cases, no power, no idle states.
    pub quick: bool,
    /// Sensors that are read.
    pub sensors: Metering,
    /// Tiny sizes: for tests.
    pub tiny: bool,
    /// Where binaries are kept.
    pub cache: Option<std::path::PathBuf>,
    /// Folders in which compilers are looked for, to count kernels of runtimes that give no PTX.
    pub compilers: Option<std::ffi::OsString>,
    /// Today, UTC.
    pub date: String,
}

/// Everything that a run gave.
pub struct Measured {
    /// The file.
    pub device: Device,
    /// The results that it was made of, one for each part of the run.
    pub results: Vec<Results>,
    /// Relative errors of the energy model on what was not in its fit.
    pub energy_errors: Vec<f64>,
}

/// Measures a device.
///
/// # Errors
/// If the device cannot be opened at all. What a case could not measure is absent, with the reason.
pub fn measure(cl: &Cl, effort: &Effort, watch: &mut dyn Watch) -> Result<Measured, ClError> {
    let metered = !effort.quick && !effort.sensors.off;
    let settings = Settings {
        tiny: effort.tiny,
        repeat: effort.quick.then_some(5),
        counters: metered,
        mix: metered,
        cache: effort.cache.clone(),
        compilers: effort.compilers.clone(),
        window_ns: (!effort.tiny).then_some(WINDOW_NS),
        agree: !effort.tiny,
        ..Settings::default()
    };
    let patterns = |of: &[&str]| of.iter().map(|p| (*p).to_owned()).collect();
    let mut cases: Vec<String> = patterns(&METERED);
    if effort.quick {
        // Joules need every class; ceilings do not.
        cases.retain(|c| {
            !["vect2", "random", "classes/", "conflict", "blend/", "continuous"]
                .iter()
                .any(|p| c.contains(p))
        });
        cases.extend(QUICK.map(str::to_owned));
    }
    if cl.facts.kind == DeviceKind::Cpu {
        cases.extend(OF_CPU.map(str::to_owned));
    }
    let suites = |of: &[&str]| of.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
    let with = Choice {
        suites: suites(&["flop", "memory", "levels", "classes", "blend", "ceilings", "transfer"]),
        cases,
        sensors: effort.sensors.clone(),
    };
    let first = run::run(cl, &settings, &with, watch)?;
    let unfused = unfused(&Cases::collect(std::slice::from_ref(&first)));
    let mut chosen = suites(&["latency", "transfer"]);
    chosen.extend(unfused.first().map(|_| "flop".to_owned()));
    let without = Choice {
        suites: chosen,
        cases: patterns(&UNMETERED).into_iter().chain(unfused).collect(),
        sensors: Metering { off: true, ..Metering::default() },
    };
    let plain = Settings { counters: false, mix: false, ..settings };
    let second =
        if first.interrupted { None } else { Some(run::run(cl, &plain, &without, watch)?) };
    let mut results = vec![first];
    results.extend(second);
    let (mut device, energy_errors) = build_device(&results, cl, effort);
    if plain.agree {
        let suites = with.suites.iter().chain(&without.suites).cloned().collect::<Vec<_>>();
        let mut again = |cases: Vec<String>| {
            let sensors = Metering { off: true, ..Metering::default() };
            let choice = Choice { suites: suites.clone(), cases, sensors };
            let found = run::run(cl, &plain, &choice, watch)?;
            let is_whole = !found.interrupted;
            Ok(is_whole.then(|| build_device(std::slice::from_ref(&found), cl, effort).0))
        };
        rounds::settle(&mut device, &mut again)?;
    }
    idle_states(cl, effort, watch, &mut device);
    Ok(Measured { device, results, energy_errors })
}

fn idle_states(cl: &Cl, effort: &Effort, watch: &mut dyn Watch, device: &mut Device) {
    if effort.quick || effort.sensors.off || effort.tiny || watch.stop() {
        let why = "not watched in a quick run, or without sensors: `clscope bench idle`";
        device.absent.insert("idle".to_owned(), why.to_owned());
        return;
    }
    watch.begin("idle", 0, 1);
    let watching = Watching { load_s: 2.0, watch_s: 12.0, runs: 1 };
    let watcher = std::cell::RefCell::new(watch);
    match idle::watch(cl, watching, &effort.sensors, &|| watcher.borrow().stop()) {
        Ok((states, _)) => device.idle = Some(states),
        Err(why) => drop(device.absent.insert("idle".to_owned(), why.to_string())),
    }
}

fn measured(of: Interval) -> Figure {
    // Where the interval of a time reaches 0, its rate has no upper end; as many times as the lower
    // end is below the value is a bound in the same proportion.
    let high = if of.high.is_finite() { of.high } else { of.value * of.value / of.low.max(1e-300) };
    Figure::new(of.value, of.low.max(0.0), high, Evidence::Measured)
}

struct Cases<'r>(Vec<&'r CaseResult>);

impl<'r> Cases<'r> {
    fn collect(results: &'r [Results]) -> Self {
        let all = results.iter().flat_map(|r| &r.cases);
        Self(all.filter(|c| c.status == Status::Measured).collect())
    }

    /// The largest figure of a name among cases whose id begins so, and the case.
    fn most(&self, begin: &str, figure: &str) -> Option<(&'r CaseResult, Interval)> {
        largest(self.figures(begin, figure))
    }

    /// The largest figure of a name among cases of these ids.
    fn fastest(&self, ids: &[&str], figure: &str) -> Option<(&'r CaseResult, Interval)> {
        let ours = self.0.iter().copied().filter(|c| ids.contains(&c.id.as_str()));
        let all = ours.filter_map(|c| Some((c, c.estimate(figure)?)));
        largest(all.filter(|of| is_known(&of.1)))
    }

    fn least(&self, begin: &str, figure: &str) -> Option<(&'r CaseResult, Interval)> {
        self.figures(begin, figure).min_by(|a, b| a.1.value.total_cmp(&b.1.value))
    }

    fn figures(
        &self,
        begin: &str,
        figure: &str,
    ) -> impl Iterator<Item = (&'r CaseResult, Interval)> {
        let ours = self.0.iter().copied().filter(move |c| c.id.starts_with(begin));
        ours.filter_map(move |c| Some((c, c.estimate(figure)?))).filter(|of| is_known(&of.1))
    }
}

fn largest<'r>(
    of: impl Iterator<Item = (&'r CaseResult, Interval)>,
) -> Option<(&'r CaseResult, Interval)> {
    of.max_by(|a, b| a.1.value.total_cmp(&b.1.value))
}

/// Whether an interval says anything: one reading alone may lie anywhere.
fn is_known(of: &Interval) -> bool {
    of.low > 0.0 || of.high.is_finite()
}

/// The file of a device of which nothing is measured yet; `date` is UTC, as `2026-11-22`.
pub fn unmeasured(facts: &DeviceFacts, date: &str) -> Device {
    let kind = match facts.kind {
        DeviceKind::Gpu => "gpu",
        DeviceKind::Cpu => "cpu",
        DeviceKind::Other => "other",
    };
    Device {
        schema: SCHEMA.to_owned(),
        name: facts.name.clone(),
        platform: facts.platform.clone(),
        driver: facts.driver.clone(),
        kind: kind.to_owned(),
        date: date.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        compute_units: facts.compute_units,
        lanes: facts.nv_warp,
        capability: facts.nv_capability,
        ..Device::default()
    }
}

/// The file of a run's results, and the errors of its energy model.
fn build_device(results: &[Results], cl: &Cl, effort: &Effort) -> (Device, Vec<f64>) {
    let mut out = Device {
        quick: effort.quick,
        power_source: results.first().map(|r| r.power_source.clone()).unwrap_or_default(),
        ..unmeasured(&cl.facts, &effort.date)
    };
    let cases = Cases::collect(results);
    ceilings(&cases, &mut out);
    latencies(&cases, &mut out);
    let second = results.last().map(|r| r.cases.as_slice()).unwrap_or_default();
    out.links = links(second);
    watts_of_links(&cases, &mut out.links);
    let errors = energy_model(&cases, &mut out);
    absent(results.iter().flat_map(|of| &of.cases), &mut out);
    (out, errors)
}

/// The types of floating point by their names in cases.
const TYPES: [(Precision, &str); 3] =
    [(Precision::Half, "half"), (Precision::Single, "float"), (Precision::Double, "double")];

/// The cases whose ceiling stands in for that of fused operations, of types that the device has
/// without these.
fn unfused(first: &Cases<'_>) -> Vec<String> {
    let rate = |scalar: &str, operation: &str| {
        first.most(&format!("flop/private/{scalar}/{operation}/"), "rate")
    };
    TYPES
        .into_iter()
        .filter(|(_, scalar)| rate(scalar, "add").is_some() && rate(scalar, "fma").is_none())
        .map(|(_, scalar)| format!("flop/private/{scalar}/mad/"))
        .collect()
}

/// Rates of operations: each is that of the fastest of these cases.
const RATES: [(&str, &[&str]); 32] = [
    (name::LOGIC, &["ceilings/logic"]),
    (name::BITS, &["ceilings/bits"]),
    (name::ATOMIC, &["blend/atomic", "ceilings/atomic"]),
    // Of `blend`, whose atomics add nothing, compilers for CPUs make loads.
    (name::LOCAL_ATOMIC, &["ceilings/local_atomic"]),
    (name::ATOMIC_FEW, &["ceilings/atomic_few"]),
    (name::ATOMIC_SOME, &["ceilings/atomic_some"]),
    (name::ATOMIC_APART, &["ceilings/atomic_apart"]),
    (name::GATHER_NEAR, &["ceilings/gather_near"]),
    (name::GATHER_CORE, &["ceilings/gather_core"]),
    (name::GATHER_LAST, &["ceilings/gather_last"]),
    (name::GATHER_MEMORY, &["ceilings/gather_far"]),
    (name::SCATTER_LAST, &["ceilings/scatter_last"]),
    (name::SCATTER_MEMORY, &["ceilings/scatter_far"]),
    (name::ATOMIC_WORD, &["ceilings/atomic_word"]),
    (name::ATOMIC_RESULT, &["ceilings/atomic_result"]),
    (name::LOCAL_ATOMIC_WORD, &["ceilings/local_atomic_word"]),
    (name::INT_DIV, &["ceilings/div"]),
    (name::LONG, &["ceilings/int64_add"]),
    (name::LONG_MUL, &["ceilings/int64_mul"]),
    (name::LONG_DIV, &["ceilings/int64_div"]),
    (name::CONVERT, &["ceilings/convert"]),
    (name::CONVERT_SATURATED, &["ceilings/convert_saturated"]),
    (name::CONVERT_HALF, &["ceilings/convert_half"]),
    (name::ITEMS_SINGLE, &["ceilings/single"]),
    (name::ITEMS_DOUBLE, &["ceilings/double"]),
    (name::SPECIAL_DOUBLE, &["ceilings/root"]),
    (name::CONSTANT, &["ceilings/constant", "ceilings/constant_apart"]),
    (name::CONSTANT_APART, &["ceilings/constant_apart"]),
    (name::BARRIER, &["ceilings/barrier"]),
    (name::IMAGE, &["ceilings/image"]),
    ("rate.fp32.div", &["blend/division"]),
    ("rate.fp64.div", &["blend/double_division"]),
];

/// Parameters that are the largest figure of the cases whose ids begin so, with its unit.
const SINGLE: [(&str, &str, &str, &str); 10] = [
    (name::DRAM_COPY, "memory/copy/", "bandwidth", "GB/s"),
    (name::LOCAL, "memory/local/", "bandwidth", "GB/s"),
    (name::PRIVATE, "ceilings/private", "bandwidth", "GB/s"),
    (name::STORE_LAST, "ceilings/store_last", "bandwidth", "GB/s"),
    (name::LATENCY_BARRIER, "ceilings/barrier_wait", "latency", "ns"),
    (name::SPECIAL, "classes/float/special", "rate", "Gop/s"),
    (name::LAUNCH, "levels/launch", "empty", "ns"),
    (name::LAUNCH_PERIOD, "levels/launch", "period", "ns"),
    (name::LAUNCH_WAIT, "levels/launch", "wait", "ns"),
    (name::GROUP, "levels/groups", "group", "ns"),
];

fn ceilings(cases: &Cases<'_>, out: &mut Device) {
    let put = |key: &str, found: Option<(&CaseResult, Interval)>, unit: &str, out: &mut Device| {
        if let Some((case, estimate)) = found {
            out.keep_parameter(key, measured(estimate), unit, &source_of(case));
        }
    };
    let streams = ["memory/copy", "memory/read", "memory/write"];
    let best = largest(streams.iter().filter_map(|begin| cases.most(begin, "bandwidth")));
    put(name::DRAM, best, "GB/s", out);
    for (precision, scalar) in TYPES {
        for operation in ["fma", "mad", "add", "mul"] {
            let begin = format!("flop/private/{scalar}/{operation}/");
            put(&name::rate(precision, operation), cases.most(&begin, "rate"), "GFLOP/s", out);
        }
    }
    for (precision, id) in
        [(Precision::Single, "ceilings/single"), (Precision::Double, "ceilings/double")]
    {
        // Two FLOP of each.
        let items = cases.fastest(&[id], "operations").map(|(case, rate)| (case, rate.times(2.0)));
        for key in ["fma", "mad"].map(|operation| name::rate(precision, operation)) {
            // Of a type that the device has no such operations of, there are none.
            let known = out.get(&key).map_or(f64::INFINITY, |rate| rate.value);
            put(&key, items.filter(|(_, rate)| rate.value > known), "GFLOP/s", out);
        }
    }
    for (key, operation) in [(name::INT_MUL, "mul"), (name::INTEGER, "add")] {
        let plain = cases.most(&format!("flop/private/int/{operation}/"), "rate");
        let ceiling = cases.fastest(&[&format!("ceilings/{operation}")], "operations");
        put(key, largest(plain.into_iter().chain(ceiling)), "Gop/s", out);
    }
    for (key, ids) in RATES {
        put(key, cases.fastest(ids, "operations"), "Gop/s", out);
    }
    if let Some((source, bytes)) = kept_at_random(cases) {
        out.keep_parameter(name::L2_KEPT, bytes, "B", &source);
    }
    let clock = cases.figures("flop/private/float/fma/", "clock").next();
    put(name::CLOCK, clock, "MHz", out);
    if out.is_cpu() {
        let why = "clscope reads no clock of CPUs".to_owned();
        out.absent.entry(name::CLOCK.to_owned()).or_insert(why);
    }
    if let Some((ceiling, (case, counted))) = best.zip(dram_counter(cases)) {
        let at_ceiling = counted.times(ceiling.1.value);
        out.keep_parameter(name::DRAM_COUNTER, measured(at_ceiling), "%", &case.id);
    }
    let all: Vec<CaseResult> = cases.0.iter().map(|c| (*c).clone()).collect();
    let sweep = levels::sweep(&all);
    let level = |&(bytes, gigabytes_per_second): &(f64, f64)| Level { bytes, gigabytes_per_second };
    out.levels = sweep.iter().map(level).collect();
    let found = levels::plateaus(&sweep);
    let source = "levels/working_set";
    // A ceiling is the best that a plateau shows.
    let best = |of: Interval| Figure::new(of.high, of.value, of.high, Evidence::Measured);
    let dram = out.get(name::DRAM).map(|f| f.value).ok();
    // Noise may leave none; where nothing was measured, its reason takes the place of this one.
    let unseen = || "no plateau was seen over the sizes of working sets".to_owned();
    let first = found.first().ok_or_else(unseen).and_then(|first| match dram {
        // Something else than the cache limits it: other work on the machine, or the loop.
        Some(dram) if first.bandwidth.high < dram => Err(format!(
            "working sets of any size were read at {:.1} GB/s at most, and memory gives {dram:.1}: \
             measure again on a machine that does nothing else",
            first.bandwidth.high
        )),
        _ => Ok(first),
    });
    match first {
        Ok(first) => {
            out.keep_parameter(name::L1, best(first.bandwidth), "GB/s", source);
            if found.len() > 1 {
                let bytes = Figure::exact(first.bytes, Evidence::Measured);
                out.keep_parameter(name::L1_BYTES, bytes, "B", source);
            } else {
                let why = "all working sets have one bandwidth".to_owned();
                out.absent.insert(name::L1_BYTES.to_owned(), why);
            }
        }
        Err(why) => {
            for key in [name::L1, name::L1_BYTES] {
                out.absent.insert(key.to_owned(), why.clone());
            }
        }
    }
    // The last plateau is memory, unless the sweep ends inside the caches.
    let dram = dram.unwrap_or(f64::INFINITY);
    let inner = found.iter().skip(1).rev().find(|p| p.bandwidth.value > 1.25 * dram);
    match inner {
        Some(plateau) => {
            out.keep_parameter(name::L2, best(plateau.bandwidth), "GB/s", source);
            let bytes = out.last_cache().unwrap_or(plateau.bytes);
            let bytes = Figure::exact(bytes, Evidence::Measured);
            out.keep_parameter(name::L2_BYTES, bytes, "B", source);
        }
        None => {
            let why = "no plateau between the nearest cache and memory was seen".to_owned();
            out.absent.insert(name::L2.to_owned(), why);
        }
    }
    for (key, begin, figure, unit) in SINGLE {
        put(key, cases.most(begin, figure), unit, out);
    }
    if let Some(slot) = issue_slot(cases, out) {
        out.keep_parameter(name::ISSUE, slot, "ns", "the shortest of flop and classes");
    }
}

/// Bytes that the last cache holds of words that are touched at random. Of a set that is larger, the
/// share that it holds is loaded as fast as from a set that it holds, and the rest as from memory:
/// 1 / r = h / r_cache + (1 - h) / r_memory, h = bytes / set.
fn kept_at_random(cases: &Cases<'_>) -> Option<(String, Figure)> {
    let of = |id: &str| cases.fastest(&[id], "operations");
    let (case, between) = of("ceilings/gather_between")?;
    let (cache, memory) = (of("ceilings/gather_last")?.1.value, of("ceilings/gather_far")?.1.value);
    // Where memory is as fast as the cache, nothing tells them apart.
    if memory > 0.8 * cache {
        return None;
    }
    let set = 4.0 * ceilings::BETWEEN as f64;
    let held = |rate: f64| {
        let share = (memory.recip() - rate.recip()) / (memory.recip() - cache.recip());
        set * share.clamp(0.0, 1.0)
    };
    let (value, low, high) = (held(between.value), held(between.low), held(between.high));
    Some((source_of(case), Figure::new(value, low, high, Evidence::Measured)))
}

/// Where a parameter is from, and whether no two of its measurements agreed.
fn source_of(case: &CaseResult) -> String {
    match case.notes.iter().any(|note| note.starts_with(DISTURBED)) {
        true => format!("{}, {DISTURBED}", case.id),
        false => case.id.clone(),
    }
}

/// What the counter of memory bandwidth reads for each GB/s: of the case whose reading moved least,
/// among those that ran as fast while they were watched as while they were timed.
fn dram_counter<'r>(cases: &Cases<'r>) -> Option<(&'r CaseResult, Interval)> {
    let all = ["memory/copy", "memory/read", "memory/write"];
    let all = all.iter().flat_map(|begin| cases.figures(begin, "bandwidth"));
    let counted = all.filter(|(case, _)| !held_back(case)).filter_map(|(case, bandwidth)| {
        let percent = case.estimate("counter/gpm/dram-bandwidth")?;
        let timed = case.timing.as_ref()?.time_ns.mean.value;
        let watched = case.value("steady_time").unwrap_or(timed);
        // Bytes a second in the window that the counter saw.
        Some((case, percent.times(watched / timed / bandwidth.value)))
    });
    counted.min_by(|a, b| (a.1.half() / a.1.value).total_cmp(&(b.1.half() / b.1.value)))
}

/// Whether clocks were lowered while its power was watched.
fn held_back(case: &CaseResult) -> bool {
    case.notes.iter().any(|note| note.starts_with("held back"))
}

/// Nanoseconds of one warp instruction on one compute unit, where most of them are issued: the
/// smallest over the kernels of arithmetic.
fn issue_slot(cases: &Cases<'_>, out: &Device) -> Option<Figure> {
    let units = f64::from(out.compute_units.max(1));
    let each = cases.0.iter().filter(|c| c.id.starts_with("flop/") || c.id.starts_with("classes/"));
    each.filter_map(|case| {
        let warps = case.counted.as_ref()?.mix.total().warps.filter(|w| *w > 0)? as f64;
        let time = case.timing.as_ref()?.time_ns.mean.times(units / warps);
        Some(measured(time))
    })
    .min_by(|a, b| a.value.total_cmp(&b.value))
}

fn latencies(cases: &Cases<'_>, out: &mut Device) {
    for (key, kind) in [
        (name::LATENCY_ADD, "add"),
        (name::LATENCY_SPECIAL, "special"),
        (name::LATENCY_LOCAL, "local"),
        (name::LATENCY_MEMORY, "stream"),
        (name::LATENCY_RANDOM, "random"),
    ] {
        if let Some((case, estimate)) = cases.least(&format!("latency/{kind}/ilp1/"), "latency") {
            out.keep_parameter(key, measured(estimate), "ns", &case.id);
        }
    }
    if let Some((case, items)) = cases.most("latency/add/ilp1/", "items_per_unit") {
        out.keep_parameter(name::RESIDENT, measured(items), "items", &case.id);
    }
}

/// Why parameters are absent, by the cases that would have given them.
fn absent<'r>(cases: impl Iterator<Item = &'r CaseResult> + Clone, out: &mut Device) {
    let reason = |begin: &str| {
        let mut ours =
            cases.clone().filter(|c| c.id.starts_with(begin) && c.status != Status::Measured);
        ours.find_map(|c| c.reason.clone())
    };
    let rates = TYPES.into_iter().flat_map(|(p, scalar)| {
        ["fma", "add", "mul"].map(|o| (name::rate(p, o), format!("flop/private/{scalar}/{o}/")))
    });
    let ceilings = RATES.into_iter().flat_map(|(key, ids)| ids.iter().map(move |id| (key, *id)));
    let single = SINGLE.into_iter().map(|(key, begin, ..)| (key, begin));
    let others = [
        (name::INT_MUL, "ceilings/mul"),
        (name::DRAM, "memory/"),
        (name::L2_KEPT, "ceilings/gather_between"),
        (name::L1, "levels/working_set"),
        (name::LATENCY_LOCAL, "latency/local/"),
    ];
    let others =
        ceilings.chain(single).chain(others).map(|(key, begin)| (key.to_owned(), begin.to_owned()));
    for (key, begin) in rates.chain(others) {
        if !out.parameters.contains_key(&key)
            && let Some(why) = reason(&begin)
        {
            out.absent.insert(key, why);
        }
    }
}

#[cfg(test)]
mod tests;
