//! A whole run: chooses suites and cases, runs them one by one, turns sensor readings into power
//! figures and writes nothing. Owns the order and what an interruption leaves; refuses to print.

use crate::bench::{Bench, CaseError, Settings};
use crate::cl::{ClError, Device, Session};
use crate::idle;
use crate::job::Scalar;
use crate::peak;
use crate::power::{Metering, Power, Sensors, Window};
use crate::results::{CaseResult, Figure, Results, SCHEMA, Status};
use crate::stats::Interval;
use crate::suite::{Case, Gave, SUITES, Suite, is_floor};
use clscope_io::text::chain;
use clscope_trace::names::pattern;
use serde_json::json;
use std::collections::BTreeMap;

/// Who watches a run.
pub trait Watch {
    /// A case begins: number `done` of `total`.
    fn begin(&mut self, id: &str, done: usize, total: usize);
    /// A case ended; power is not known yet.
    fn end(&mut self, result: &CaseResult);
    /// Whether to stop.
    fn stop(&self) -> bool;
}

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Suites by name; empty: all.
    pub suites: Vec<String>,
    /// Only cases whose id contains one of these parts; empty: all. `*` matches anything.
    pub cases: Vec<String>,
    /// Sensors that are read.
    pub sensors: Metering,
}

/// Whether `id` is meant by `pattern`: a part of it, with `*` for anything in between and `?` for
/// one character.
pub fn matches(id: &str, pattern: &str) -> bool {
    pattern::matches(&format!("*{pattern}*"), id)
}

/// The suites and cases of a choice on a device, of all suites.
pub fn cases(
    all: &'static [Suite],
    device: &Device,
    settings: &Settings,
    choice: &Choice,
) -> Vec<(&'static Suite, Vec<Case>)> {
    let wanted =
        |suite: &&Suite| choice.suites.is_empty() || choice.suites.iter().any(|s| s == suite.name);
    let chosen = |case: &Case| {
        choice.cases.is_empty() && (settings.full || !case.by_name)
            || is_floor(&case.id)
            || choice.cases.iter().any(|p| matches(&case.id, p))
    };
    all.iter()
        .filter(wanted)
        .map(|suite| {
            (
                suite,
                (suite.cases)(&device.facts, settings)
                    .into_iter()
                    .filter(chosen)
                    .collect::<Vec<Case>>(),
            )
        })
        .map(|(suite, cases)| (suite, with_floors(cases)))
        .filter(|(_, cases)| !cases.is_empty())
        .collect()
}

/// Cases with the floors that they stand on: the floor of a name is that of the cases below it.
pub fn with_floors(mut cases: Vec<Case>) -> Vec<Case> {
    let others: Vec<String> =
        cases.iter().filter(|c| !is_floor(&c.id)).map(|c| c.id.clone()).collect();
    cases.retain(|c| match c.id.strip_suffix("floor").filter(|_| is_floor(&c.id)) {
        Some(stem) => others.iter().any(|id| id.starts_with(stem)),
        None => true,
    });
    cases
}

struct Pending {
    case: usize,
    span: Option<Window>,
    window: Option<Window>,
    after: Vec<Window>,
}

/// Runs a choice on a device.
///
/// # Errors
/// If the device cannot be opened at all; the error of a case is in its result.
pub fn run(
    device: &Device,
    settings: &Settings,
    choice: &Choice,
    watch: &mut dyn Watch,
) -> Result<Results, ClError> {
    run_cases(device, settings, choice, &cases(&SUITES, device, settings, choice), watch)
}

/// Runs cases on a device.
///
/// # Errors
/// As [`run`].
pub fn run_cases(
    device: &Device,
    settings: &Settings,
    choice: &Choice,
    suites: &[(&'static Suite, Vec<Case>)],
    watch: &mut dyn Watch,
) -> Result<Results, ClError> {
    let total = suites.iter().map(|(_, cases)| cases.len()).sum();
    let wants = !choice.sensors.off
        && (settings.counters
            || settings.power
            || suites.iter().any(|(suite, _)| suite.wants_power));
    let started = wants.then(|| Sensors::start(&choice.sensors, settings.counters)).transpose();
    let unstarted = started.as_ref().err().map(|why| chain(why));
    let sensors = started.ok().flatten();
    let session = Session::new(device)?;
    let mut results = Results {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        device: device.facts.clone(),
        settings: described(settings, choice),
        cases: Vec::new(),
        findings: Vec::new(),
        power_source: "not asked for".to_owned(),
        meter: Vec::new(),
        interrupted: false,
    };
    let mut pending = Vec::new();
    let flag = std::cell::Cell::new(false);
    let mut done = 0;
    let session = {
        // The watcher is asked through a cell-free path: it is borrowed only between cases, the
        // flag inside them.
        let shared = std::cell::RefCell::new(&mut *watch);
        let stop = || {
            if shared.borrow().stop() {
                flag.set(true);
            }
            flag.get()
        };
        let mut bench = Bench::new(session, settings.clone(), &stop);
        bench.metered =
            settings.tiny || sensors.as_ref().is_some_and(|s| s.may_meter(device.facts.kind));
        for (suite, cases) in suites {
            for case in cases {
                if flag.get() {
                    break;
                }
                shared.borrow_mut().begin(&case.id, done, total);
                let (result, gave) = run_case(&mut bench, suite, case);
                done += 1;
                shared.borrow_mut().end(&result);
                results.cases.push(result);
                if let Some(gave) = gave {
                    pending.push(Pending {
                        case: results.cases.len() - 1,
                        span: gave.span,
                        window: gave.window,
                        after: gave.after,
                    });
                }
            }
        }
        bench.session
    };
    results.interrupted = flag.get();
    if let Some(sensors) = sensors {
        let power = sensors.finish(&session);
        results.power_source = power.source().map_or_else(none, str::to_owned);
        results.meter.extend(power.meter_table().map(str::to_owned));
        resolve(&mut results, &pending, &power);
    } else if let Some(why) = unstarted {
        results.power_source = none(&why);
    }
    unwatched(&mut results, &pending);
    shares(&mut results);
    for (suite, cases) in suites {
        // Points of a sweep say nothing of what the suite asks.
        if cases.iter().any(|c| c.place.is_some()) {
            continue;
        }
        let ours: Vec<CaseResult> = results
            .cases
            .iter()
            .filter(|c| c.suite == suite.name && c.status == Status::Measured)
            .cloned()
            .collect();
        results.findings.extend((suite.conclude)(&device.facts, &ours));
    }
    Ok(results)
}

fn described(settings: &Settings, choice: &Choice) -> BTreeMap<&'static str, serde_json::Value> {
    BTreeMap::from([
        ("full", json!(settings.full)),
        ("blocks", json!(settings.blocks)),
        ("tpb", json!(settings.tpb)),
        ("repeat", json!(settings.repeat())),
        ("iterations", json!(settings.iterations)),
        ("warm_up", json!(settings.warm_up)),
        ("window_ns", json!(settings.window_ns)),
        ("power", json!(settings.power)),
        ("counters", json!(settings.counters)),
        ("suites", json!(choice.suites)),
        ("choose", json!(choice.cases)),
    ])
}

fn run_case(bench: &mut Bench<'_>, suite: &Suite, case: &Case) -> (CaseResult, Option<Gave>) {
    let mut result = CaseResult {
        id: case.id.clone(),
        suite: suite.name,
        parameters: case.parameters.clone(),
        swept: case.place.clone(),
        status: Status::Measured,
        reason: None,
        build_log: None,
        timing: None,
        figures: Vec::new(),
        notes: Vec::new(),
        series: Vec::new(),
        counted: None,
    };
    bench.counted = None;
    match (case.run)(bench) {
        Ok(mut gave) => {
            result.timing = gave.timing.take();
            result.figures = std::mem::take(&mut gave.figures);
            result.notes = std::mem::take(&mut gave.notes);
            result.series = std::mem::take(&mut gave.series);
            result.counted = bench.counted.take();
            (result, Some(gave))
        }
        Err(error) => {
            result.reason = Some(error.to_string());
            (result.status, result.build_log) = match error {
                CaseError::NotAvailable { log, .. } => (Status::NotAvailable, log),
                CaseError::Wrong(_) => (Status::Wrong, None),
                CaseError::Cl(_) => (Status::Failed, None),
                CaseError::Interrupted => (Status::Interrupted, None),
            };
            (result, None)
        }
    }
}

/// The rate in the window in which power was watched: clocks there may be other than in the short
/// launches that were timed. Of a transfer that is repeated, bytes.
fn steady_rate(case: &CaseResult, window: Window) -> Option<Figure> {
    let (rate, operations) = match (case.figure("rate"), case.timing.as_ref()) {
        (Some(rate), Some(timing)) => (rate, rate.estimate.value * timing.time_ns.mean.value),
        // A GB/s is a byte a nanosecond.
        _ if case.suite == "transfer" => {
            let bandwidth = case.figure("bandwidth")?;
            (bandwidth, bandwidth.estimate.value * case.value("time")?)
        }
        _ => return None,
    };
    let per_ns = window.launches_per_ns()? * operations;
    // A window counts tens of launches by the host's clock: a launch more or less at its ends.
    let estimate = Interval::symmetric(per_ns, per_ns / window.launches.max(1) as f64);
    Some(Figure::new("steady_rate", rate.unit, estimate))
}

/// Adds clocks, throttling and power to the cases.
fn resolve(results: &mut Results, pending: &[Pending], power: &Power) {
    // The floor of the case's own suite, else any: clocks and heat differ between suites.
    let floors: Vec<(&str, Interval)> = pending
        .iter()
        .map(|p| (&results.cases[p.case], p))
        .filter(|(case, _)| is_floor(&case.id))
        .filter_map(|(case, p)| Some((case.suite, power.watts(p.window?)?)))
        .collect();
    let floor_of =
        |suite: &str| floors.iter().find(|f| f.0 == suite).or(floors.first()).map(|f| f.1);
    for p in pending {
        let case = &mut results.cases[p.case];
        if !p.after.is_empty() {
            idle::after(case, power, &p.after);
        }
        let span = p.window.or(p.span);
        if let Some(clock) = span.and_then(|s| power.clock_mhz(s)) {
            case.figures.push(Figure::new("clock", "MHz", clock));
        }
        let throttled =
            span.and_then(|s| power.reasons(s)).unwrap_or(0) & clscope_nvml::reasons::THROTTLED;
        case.notes.extend(clscope_nvml::reasons::words(throttled));
        // Operations of a cycle, at the clock of the same launches: of those in the window of power
        // where there is one.
        let watched = p.window.and_then(|window| steady_rate(case, window));
        let rate = watched.as_ref().or_else(|| case.figure("rate"));
        if let (Some(clock), Some(rate)) = (case.figure("clock"), rate) {
            let unit = if rate.unit == "GFLOP/s" { "FLOP/cycle" } else { "op/cycle" };
            let per_cycle = rate.estimate.over(clock.estimate).times(1e3);
            case.figures.push(Figure::new("rate_per_cycle", unit, per_cycle));
        }
        let Some(window) = p.window else { continue };
        // Of a launch, gaps between batches included: what power times it is joules of.
        if let (Some(rate), true) = (window.launches_per_ns(), case.timing.is_some()) {
            let doubt = rate.recip() / window.launches.max(1) as f64;
            let time = Interval::symmetric(rate.recip(), doubt);
            case.figures.push(Figure::new("steady_time", "ns", time));
        }
        for (name, unit, mean) in power.counters(window) {
            case.figures.push(Figure::new(format!("counter/{name}"), unit, mean));
        }
        let Some(watts) = power.watts(window) else {
            if power.has_sensor() {
                case.notes
                    .push("no power: the sensor gave too few readings in the window".to_owned());
            }
            continue;
        };
        case.figures.push(Figure::new("power", "W", watts));
        let dynamic =
            floor_of(case.suite).filter(|_| !is_floor(&case.id)).map(|floor| watts.minus(floor));
        case.figures.extend(dynamic.map(|of| Figure::new("dynamic_power", "W", of)));
        let Some(rate) = watched else { continue };
        case.figures.push(rate.clone());
        let (per_watt, energy, dynamic_energy) = match rate.unit {
            "GFLOP/s" => ("GFLOP/s/W", "energy_per_operation", "dynamic_energy_per_operation"),
            "GB/s" => ("GB/s/W", "energy_per_byte", "dynamic_energy_per_byte"),
            "Ginstr/s" => {
                ("Ginstr/s/W", "energy_per_instruction", "dynamic_energy_per_instruction")
            }
            _ => ("GOP/s/W", "energy_per_operation", "dynamic_energy_per_operation"),
        };
        case.figures.push(Figure::new("efficiency", per_watt, rate.estimate.over(watts)));
        // Watts per 1e9 operations a second are nanojoules; a thousand of them picojoules.
        case.figures.push(Figure::new(energy, "pJ", watts.over(rate.estimate).times(1000.0)));
        if let Some(dynamic) = dynamic {
            case.figures.push(Figure::new(
                dynamic_energy,
                "pJ",
                dynamic.over(rate.estimate).times(1000.0),
            ));
        }
    }
}

/// A case that is power alone gave nothing where none was read.
fn unwatched(results: &mut Results, pending: &[Pending]) {
    for p in pending.iter().filter(|p| !p.after.is_empty()) {
        let case = &mut results.cases[p.case];
        if case.figures.is_empty() {
            case.status = Status::NotAvailable;
            case.reason = Some(format!("no power was read; sensor: {}", results.power_source));
        }
    }
}

/// Adds the share of the peak to every floating-point rate.
fn shares(results: &mut Results) {
    for case in &mut results.cases {
        let Some(rate) = case.figure("rate").filter(|f| f.unit == "GFLOP/s").map(|f| f.estimate)
        else {
            continue;
        };
        let scalar = Scalar::ALL.into_iter().find(|s| case.parameter("type") == Some(s.name()));
        let Some(scalar) = scalar.filter(|_| matches!(case.suite, "flop" | "power")) else {
            continue;
        };
        let Some(peak) = peak::peak_of(&results.device, scalar) else { continue };
        let observed = case.value("clock");
        let (mhz, name) = match (observed, results.device.max_clock_mhz) {
            (Some(mhz), _) => (mhz, "share_of_peak"),
            (None, Some(mhz)) => (f64::from(mhz), "share_of_peak_at_stated_clock"),
            (None, None) => continue,
        };
        let peak = peak.operations_per_cycle * mhz * 1e-3;
        case.figures.push(Figure::new(name, "%", rate.times(100.0 / peak)));
    }
}

/// A document's text for a sensor that is not there.
fn none(why: &str) -> String {
    format!("none: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_by_table() {
        let id = "flop/private/float/mad/vect4";
        for (pattern, want) in [
            ("mad", true),
            ("flop/*/vect4", true),
            ("float*double", false),
            ("", true),
            ("vect4*mad", false),
            ("fma", false),
        ] {
            assert_eq!(matches(id, pattern), want, "{pattern}");
        }
    }
}
