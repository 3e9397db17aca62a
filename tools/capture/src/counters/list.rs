//! Which counters this machine has, and what each family needs, as
//! text. Refuses to open streams: it looks, and leaves other programs' measurements alone.
#![forbid(unsafe_code)]

use crate::Tell;
use clscope_io::text::Page;
use clscope_metrics::builtin;
use clscope_metrics::directory::{DirectoryError, sets};
use clscope_metrics::set::MetricSet;
use clscope_nvml::gpm;
use clscope_oa::config::{Node, loaded, nodes};
use clscope_oa::cpu::{EVENTS, Kernel, ProcessCounters, by_reason};
use clscope_oa::{CounterSource, Generation, OaError};
use clscope_sensors::{Roots, System};
use std::fmt::Write as _;
use std::path::Path;

/// Appends a line.
macro_rules! put {
    ($to:expr, $($what:tt)*) => {{ let _ = writeln!($to, $($what)*); }};
}

/// What is listed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// NVIDIA's counters.
    pub gpm: bool,
    /// Intel's.
    pub oa: bool,
    /// Those of CPU devices.
    pub perf: bool,
    /// Directory, or file, with XML of metric sets; else what is installed.
    pub metrics: Option<&'a Path>,
    /// GPUs are looked for below this directory instead of the system's.
    pub sysfs_root: Option<&'a Path>,
}

/// What there is, and what is missing.
///
/// # Errors
/// If metric sets cannot be read.
pub fn list(wanted: &Wanted<'_>, tell: Tell) -> Result<String, DirectoryError> {
    let mut out = Page::default();
    if wanted.gpm {
        nvidia(&mut out);
    }
    if wanted.oa {
        intel(wanted, tell, &mut out)?;
        put!(
            out,
            "intel-queue: Intel's OpenCL runtime counts for each command (record --counters intel-queue), where it offers such queues"
        );
    }
    if wanted.perf {
        perf(&mut out);
    }
    Ok(out.into_string())
}

fn nvidia(out: &mut Page) {
    put!(
        out,
        "gpm: NVIDIA GPUs from Hopper on (record --counters gpm, or gpm:fp32+dram-bandwidth for these alone); means per kernel by regression over snapshots of 100 ms"
    );
    match clscope_nvml::load(None) {
        Ok((api, devices)) => {
            for device in &devices {
                let state = match api.gpm_supported(device.index) {
                    Ok(true) => "works".to_owned(),
                    Ok(false) => "absent: this GPU has no GPM counters".to_owned(),
                    Err(error) => format!("refused: {error}"),
                };
                put!(out, "  {} ({}): {state}", device.name, device.pci);
            }
        }
        Err(finding) => put!(out, "  absent: {}", finding.why.unwrap_or_default()),
    }
    let names: Vec<String> = gpm::METRICS
        .iter()
        .map(|m| format!("{} ({})", m.name, if m.is_bandwidth { "MiB/s" } else { "%" }))
        .collect();
    put!(out, "  counters: {}", names.join(", "));
}

/// Name of a configuration, where a set or a published list has one.
fn name_of(uuid: &str, sets: &[MetricSet]) -> Option<String> {
    let own = sets
        .iter()
        .find(|s| s.uuid.is_some_and(|u| u.as_str() == uuid))
        .map(|s| format!("{} of {}", s.symbol, s.chipset));
    let published = [Generation::Gen9, Generation::Gen12]
        .into_iter()
        .flat_map(builtin::fitting_configurations)
        .find(|(_, known)| *known == uuid)
        .map(|(name, _)| (*name).to_owned());
    own.or(published)
}

fn card(node: &Node, roots: &Roots, sets: &[MetricSet], out: &mut Page) {
    let generation = node.device_id.and_then(Generation::of_device).map(|(g, _)| g);
    let known = generation.map_or("generation not known".to_owned(), |g| format!("{g:?}"));
    let built_in = match generation.map(|g| (g, builtin::core(g))) {
        Some((_, Some(set))) => format!("set {} ({}) is built in", set.symbol, set.chipset),
        Some((g, None)) => format!("no set is built in for {g:?}: name one with --counters oa:SET"),
        None => "no set is built in".to_owned(),
    };
    put!(
        out,
        "  {} ({}, {}): {known}; {built_in}",
        node.card,
        node.driver,
        node.pci.as_deref().unwrap_or("no PCI address")
    );
    let configurations = loaded(&System, roots, &node.card);
    if configurations.is_empty() {
        put!(
            out,
            "    no configuration is loaded: record loads what it needs where it has CAP_PERFMON"
        );
    }
    for (uuid, id) in configurations {
        let name = name_of(uuid.as_str(), sets)
            .unwrap_or_else(|| "of a set that no file describes".to_owned());
        put!(out, "    loaded: {uuid} (number {}), {name}", id.0);
    }
}

fn intel(wanted: &Wanted<'_>, tell: Tell, out: &mut Page) -> Result<(), DirectoryError> {
    put!(
        out,
        "oa: Intel GPUs (record --counters oa or oa:SET); counts of intervals, interpolated or by regression; decoded as specified"
    );
    let roots = wanted.sysfs_root.map_or_else(Roots::default, Roots::below);
    let sets = sets(wanted.metrics, tell)?;
    let cards = nodes(&System, &roots);
    if cards.is_empty() {
        put!(
            out,
            "  absent: there is no GPU of the drivers i915 or xe below {}",
            roots.sys.join("class/drm").display()
        );
    }
    cards.iter().for_each(|node| card(node, &roots, &sets, out));
    for set in &sets {
        let uuid = set.uuid.map_or(String::new(), |u| format!(" {u}"));
        put!(
            out,
            "  set {} ({}, {}):{uuid} {} figures",
            set.symbol,
            set.chipset,
            set.origin,
            set.metrics.len()
        );
    }
    Ok(())
}

fn perf(out: &mut Page) {
    put!(
        out,
        "perf: CPU devices (record --counters perf); user-mode events of the application's threads, by regression"
    );
    let (works, problems) = match ProcessCounters::open(
        &System,
        &Roots::default(),
        &Kernel::default(),
        std::process::id(),
        &EVENTS,
    ) {
        Ok((source, problems)) => {
            (source.counters().iter().map(|c| c.name.clone()).collect(), problems)
        }
        Err(error) => (Vec::new(), vec![error]),
    };
    if !works.is_empty() {
        put!(out, "  works: {}", works.join(", "));
    }
    for (why, events) in by_reason(&problems) {
        put!(out, "  absent: {}: {why}", events.join(", "));
    }
    if let Some(remedy) = problems.iter().find_map(OaError::remedy) {
        put!(out, "  to fix: {remedy}");
    }
}
