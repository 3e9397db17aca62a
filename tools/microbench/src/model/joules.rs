//! Owns joules of operations, and of links, from what was measured. Refuses to measure.

use super::{Cases, held_back, measured};
use crate::results::CaseResult;
use crate::suite::blend;
use clscope_mix::Space;
use clscope_models::device::{Device, Parameter, name};
use clscope_models::energy::{self, Observation};
use clscope_models::hockney::{self, Link};
use clscope_models::traffic::{Moved, Traffic};

pub(super) fn links(of: &[CaseResult]) -> Vec<Link> {
    let mut out = Vec::new();
    for direction in ["to_device", "to_host"] {
        for memory in ["pageable", "pinned", "mapped"] {
            let ours = of.iter().filter(|r| {
                r.parameter("memory") == Some(memory) && r.parameter("direction") == Some(direction)
            });
            let points: Vec<(f64, f64)> = ours
                .filter_map(|r| Some((r.number("bytes")?, r.figure("time")?.estimate.value)))
                .collect();
            if let Some((segments, misfit)) = hockney::fit(&points) {
                let (direction, memory) = (direction.to_owned(), memory.to_owned());
                out.push(Link { direction, memory, segments, misfit, watts: None });
            }
        }
    }
    out
}

/// Watts while transfers follow each other, from the windows of power.
pub(super) fn watts_of_links(cases: &Cases<'_>, links: &mut [Link]) {
    for link in links {
        let id = format!("transfer/continuous/{}/{}", link.memory, link.direction);
        let found = cases.0.iter().find(|c| c.id == id && !held_back(c));
        let watts = found.and_then(|c| Some(measured(c.figure("power")?.estimate)));
        link.watts = watts.map(|watts| Parameter::measured(watts, "W", &id));
    }
}

/// Fits joules by class to every case whose power and mix are known; gives the relative errors of
/// what is left out in turn.
pub(super) fn energy_model(cases: &Cases<'_>, out: &mut Device) -> Vec<f64> {
    let absent = |why: String, out: &mut Device| drop(out.absent.insert("energy".to_owned(), why));
    let floor = cases.0.iter().filter(|c| crate::suite::is_floor(&c.id));
    let Some(floor) =
        floor.filter_map(|c| Some(c.figure("power")?.estimate.value)).reduce(f64::min)
    else {
        let why = format!("no power was read: {}", out.power_source);
        absent(why, out);
        return Vec::new();
    };
    // GB/s of one percent of the counter of memory bandwidth.
    let per_percent = match (out.get(name::DRAM), out.get(name::DRAM_COUNTER)) {
        (Ok(ceiling), Ok(percent)) => Some(ceiling.value / percent.value),
        _ => None,
    };
    let units = f64::from(out.compute_units);
    let observations: Vec<Observation> = cases
        .0
        .iter()
        .filter(|c| !crate::suite::is_floor(&c.id) && !held_back(c) && !blend::is_still(&c.id))
        .filter_map(|case| {
            let (mix, timing) = (&case.counted.as_ref()?.mix, case.timing.as_ref()?);
            let watts = case.figure("power")?.estimate.value;
            // Clocks and gaps in the window of power may differ from those of the short launches.
            let seconds = case.figure("steady_time")?.estimate.value * 1e-9;
            let busy = units.min(timing.groups as f64);
            let percent = case.figure("counter/gpm/dram-bandwidth").map(|f| f.estimate.value);
            let asked = mix.bytes(Space::Global) as f64;
            let (through_last, through_memory) = levels(case);
            let memory = match (per_percent, percent) {
                (Some(scale), Some(percent)) => scale * percent * 1e9 * seconds,
                _ => through_memory * asked,
            };
            let (last, memory) = (Moved::dense(through_last * asked), Moved::dense(memory));
            let traffic = Traffic { last, memory };
            Some(Observation {
                group: group(case),
                amounts: energy::amounts(mix, seconds, busy, traffic).to_vec(),
                joules: ((watts - floor) * seconds).max(0.0),
                floor_joules: floor * seconds,
            })
        })
        .collect();
    if observations.is_empty() {
        let why = "no kernel's instructions could be counted: the runtime gives no PTX, and SPIR-V takes \
                   clang, llvm-spirv and a device that reads it";
        let why = why.to_owned();
        absent(why, out);
        return Vec::new();
    }
    match energy::fit(&observations, floor) {
        Ok(model) => out.energy = Some(model),
        Err(why) => absent(why.to_string(), out),
    }
    energy::leave_one_out(&observations)
}

/// Shares of the bytes asked for that go through the last cache, and through memory where no
/// counter tells: by the working set where it is known, else all where a case goes through buffers
/// that no cache holds.
pub(super) fn levels(case: &CaseResult) -> (f64, f64) {
    let beyond = |limit: f64, bytes: f64| f64::from(u8::from(bytes > limit));
    if let Some(bytes) = case.number("bytes").filter(|_| case.suite != "memory") {
        return (beyond(NEAREST, bytes), beyond(LAST, bytes));
    }
    let through = case.id.starts_with("memory/") && !case.id.starts_with("memory/local")
        || case.id == "classes/memory/global";
    let share = f64::from(u8::from(through));
    (share, share)
}

/// Working sets beyond these bytes go past the nearest cache of a compute unit, and past the last
/// one, on all devices with power sensors that are known; those of the suites lie far from both.
const NEAREST: f64 = 256.0 * 1024.0;
const LAST: f64 = 64.0 * 1024.0 * 1024.0;

/// Cases of one kind are left out together.
pub(super) fn group(case: &CaseResult) -> String {
    if case.suite == blend::SUITE.name {
        return case.id.clone();
    }
    case.id.rsplit_once('/').map_or_else(|| case.id.clone(), |(begin, _)| begin.to_owned())
}
