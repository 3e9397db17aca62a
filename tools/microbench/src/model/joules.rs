//! Owns joules of operations, and of links, from what was measured. Refuses to measure.

use super::{Cases, held_back, measured};
use crate::results::CaseResult;
use crate::suite::{blend, ceilings, classes, flop, transfer};
use clscope_models::device::{Device, Parameter};
use clscope_models::energy::{self, Observation};
use clscope_models::hockney::{self, Link};
use clscope_models::kernel::Kernel;
use clscope_models::{Evidence, Figure};

pub(super) fn links(of: &[CaseResult]) -> Vec<Link> {
    let mut out = Vec::new();
    for direction in ["to_device", "to_host"] {
        for memory in ["pageable", "pinned", "mapped"] {
            let points = transfer::times(of, memory, direction);
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
        let watts = found.and_then(|c| Some(measured(c.estimate("power")?)));
        link.watts = watts.map(|watts| Parameter::measured(watts, "W", &id));
    }
}

/// Fits joules by class to every case whose power and mix are known; gives the relative errors of
/// what is left out in turn.
pub(super) fn energy_model(cases: &Cases<'_>, out: &mut Device) -> Vec<f64> {
    let absent = |why: String, out: &mut Device| drop(out.absent.insert("energy".to_owned(), why));
    let floor = cases.0.iter().filter(|c| crate::suite::is_floor(&c.id));
    let Some(floor) = floor.filter_map(|c| c.value("power")).reduce(f64::min) else {
        let why = format!("no power was read: {}", out.power_source);
        absent(why, out);
        return Vec::new();
    };
    let ours = cases.0.iter().filter(|c| !crate::suite::is_floor(&c.id) && !held_back(c));
    let ours = ours.filter(|c| changes(c));
    let observations: Vec<Observation> =
        ours.filter_map(|case| observation(case, floor, out)).collect();
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
    energy::leave_one_out(&observations).into_iter().flatten().collect()
}

/// What a case took, with what it did.
fn observation(case: &CaseResult, floor: f64, device: &Device) -> Option<Observation> {
    let (counted, timing) = (case.counted.as_ref()?, case.timing.as_ref()?);
    let watts = case.value("power")?;
    // Clocks and gaps in the window of power may differ from those of the short launches.
    let seconds = case.value("steady_time")? * 1e-9;
    let kernel = Kernel {
        items: Some((timing.groups * timing.group_size) as u64),
        local: Some(timing.group_size as u64),
        footprint: Some(counted.buffer_bytes as f64),
        mix: Some(counted.mix.clone()),
        dram_share: case
            .figure("counter/gpm/dram-bandwidth")
            .map(|percent| measured(percent.estimate.times(0.01))),
        time_ns: Some(Figure::exact(seconds * 1e9, Evidence::Measured)),
        ..Kernel::default()
    };
    Some(Observation {
        group: group(case),
        amounts: energy::of_launch(&kernel.on(device), device, seconds)?.to_vec(),
        joules: ((watts - floor) * seconds).max(0.0),
        floor_joules: floor * seconds,
    })
}

/// Whether its operands keep changing, as those of applications do. On an H200 FP32 that settles takes
/// 4 pJ an operation and FP32 that does not 9, FP64 6 and 23; GEMM and stencils of applications are
/// like the latter.
fn changes(case: &CaseResult) -> bool {
    let settle = [flop::SUITE.name, classes::SUITE.name].contains(&case.suite);
    !settle && !["ceilings/single", "ceilings/double"].contains(&case.id.as_str())
}

/// Cases of one kind are left out together.
pub(super) fn group(case: &CaseResult) -> String {
    if [blend::SUITE.name, ceilings::SUITE.name].contains(&case.suite) {
        return case.id.clone();
    }
    case.id.rsplit_once('/').map_or_else(|| case.id.clone(), |(begin, _)| begin.to_owned())
}
