//! `clscope list-counters`: which counters this machine has, what each family needs, and the
//! figures of metric sets. Owns the printing; refuses to open streams: it looks, and leaves other
//! programs' measurements alone.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use clscope_io::text::Page;
use clscope_metrics::set::MetricSet;
use clscope_metrics::{builtin, directory};
use clscope_nvml::gpm;
use clscope_oa::config::{Node, loaded, nodes};
use clscope_oa::cpu::{EVENTS, Kernel, ProcessCounters};
use clscope_oa::{CounterSource, Generation, OaError};
use clscope_sensors::{Roots, System};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

/// Options of `clscope list-counters`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope list-counters                        what there is, and what is missing
  clscope list-counters oa --set core          figures of a metric set
  clscope list-counters oa --metrics ~/mesa/src/intel/perf
  clscope record --counters oa:ComputeBasic -- ./app")]
pub struct Args {
    /// Families to list [default: all]
    #[arg(value_enum)]
    family: Vec<Family>,
    /// Figures of this metric set, by name or UUID
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Directory (or file) with XML of metric sets [default: what is installed]
    #[arg(long, value_name = "DIR")]
    metrics: Option<PathBuf>,
    /// Look for GPUs below this directory (its sys and dev) instead of the system's
    #[arg(long, value_name = "DIR")]
    sysfs_root: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Family {
    /// NVIDIA GPUs from Hopper on, through NVML
    Gpm,
    /// Intel GPUs, through i915 and xe
    Oa,
    /// perf events of CPU devices
    Perf,
}

/// Runs the command.
///
/// # Errors
/// If the metric sets cannot be read, or a set that was named does not exist.
pub fn run(args: &Args) -> Result<()> {
    let mut out = Page::default();
    let wants = |family| args.family.is_empty() || args.family.contains(&family);
    if args.set.is_none() {
        if wants(Family::Gpm) {
            nvidia(&mut out);
        }
        if wants(Family::Oa) {
            intel(args, &mut out)?;
            line(
                &mut out,
                "intel-queue: Intel's OpenCL runtime counts for each command (record --counters intel-queue), where it offers such queues",
            );
        }
        if wants(Family::Perf) {
            perf(&mut out);
        }
    } else if wants(Family::Oa) {
        figures(args, &mut out)?;
    }
    let mut screen = crate::output::screen();
    screen.write_all(out.into_string().as_bytes()).context("could not write the list")?;
    screen.flush().context("could not write the list")
}

fn line(out: &mut Page, text: impl std::fmt::Display) {
    let _ = writeln!(out, "{text}");
}

fn nvidia(out: &mut Page) {
    line(
        out,
        "gpm: NVIDIA GPUs from Hopper on (record --counters gpm, or gpm:fp32+dram-bandwidth for these alone); means per kernel by regression over snapshots of 100 ms",
    );
    match clscope_nvml::load(None) {
        Ok((api, devices)) => {
            for device in &devices {
                let state = match api.gpm_supported(device.index) {
                    Ok(true) => "works".to_owned(),
                    Ok(false) => "absent: this GPU has no GPM counters".to_owned(),
                    Err(error) => format!("refused: {error}"),
                };
                line(out, format_args!("  {} ({}): {state}", device.name, device.pci));
            }
        }
        Err(finding) => line(out, format_args!("  absent: {}", finding.why.unwrap_or_default())),
    }
    let names: Vec<String> = gpm::METRICS
        .iter()
        .map(|m| format!("{} ({})", m.name, if m.is_bandwidth { "MiB/s" } else { "%" }))
        .collect();
    line(out, format_args!("  counters: {}", names.join(", ")));
}

/// All sets there are: built in, and of the directory.
fn sets(args: &Args) -> Result<Vec<MetricSet>> {
    let generations = [Generation::Gen9, Generation::Gen12, Generation::Xe, Generation::Xe2];
    let mut sets: Vec<MetricSet> = generations.into_iter().filter_map(builtin::core).collect();
    if let Some(path) = args.metrics.clone().or_else(directory::installed) {
        let library = directory::read(&path)?;
        library.problems.iter().for_each(crate::output::say);
        sets.extend(library.sets);
    }
    Ok(sets)
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
    line(
        out,
        format_args!(
            "  {} ({}, {}): {known}; {built_in}",
            node.card,
            node.driver,
            node.pci.as_deref().unwrap_or("no PCI address")
        ),
    );
    let configurations = loaded(&System, roots, &node.card);
    if configurations.is_empty() {
        line(
            out,
            "    no configuration is loaded: record loads what it needs where it has CAP_PERFMON",
        );
    }
    for (uuid, id) in configurations {
        let name = name_of(uuid.as_str(), sets)
            .unwrap_or_else(|| "of a set that no file describes".to_owned());
        line(out, format_args!("    loaded: {uuid} (number {}), {name}", id.0));
    }
}

fn intel(args: &Args, out: &mut Page) -> Result<()> {
    line(
        out,
        "oa: Intel GPUs (record --counters oa or oa:SET); counts of intervals, interpolated or by regression; decoded as specified",
    );
    let roots = args.sysfs_root.as_deref().map_or_else(Roots::default, Roots::below);
    let sets = sets(args)?;
    let cards = nodes(&System, &roots);
    if cards.is_empty() {
        line(
            out,
            format_args!(
                "  absent: there is no GPU of the drivers i915 or xe below {}",
                roots.sys.join("class/drm").display()
            ),
        );
    }
    cards.iter().for_each(|node| card(node, &roots, &sets, out));
    for set in &sets {
        let uuid = set.uuid.map_or(String::new(), |u| format!(" {u}"));
        line(
            out,
            format_args!(
                "  set {} ({}, {}):{uuid} {} figures",
                set.symbol,
                set.chipset,
                set.origin,
                set.metrics.len()
            ),
        );
    }
    Ok(())
}

fn figures(args: &Args, out: &mut Page) -> Result<()> {
    let Some(wanted) = &args.set else { return Ok(()) };
    let sets = sets(args)?;
    let named = |s: &&MetricSet| {
        s.symbol.eq_ignore_ascii_case(wanted)
            || s.uuid.is_some_and(|u| u.as_str().eq_ignore_ascii_case(wanted))
    };
    let mut any = false;
    for set in sets.iter().filter(named) {
        any = true;
        line(out, format_args!("{} ({}, {})", set.symbol, set.chipset, set.origin));
        for metric in &set.metrics {
            line(
                out,
                format_args!("  {:<28} {:<9} {}", metric.symbol, metric.unit, metric.description),
            );
        }
    }
    if !any {
        let mut names: Vec<&str> = sets.iter().map(|s| s.symbol.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        bail!(
            "there is no metric set {wanted:?}; there are: {}. --metrics DIR reads others",
            names.join(", ")
        );
    }
    Ok(())
}

fn perf(out: &mut Page) {
    line(
        out,
        "perf: CPU devices (record --counters perf); user-mode events of the application's threads, by regression",
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
        line(out, format_args!("  works: {}", works.join(", ")));
    }
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for problem in &problems {
        if let OaError::Perf { what, reason, .. } = problem {
            match told.iter_mut().find(|(why, _)| why == reason) {
                Some((_, events)) => events.push(what),
                None => told.push((reason.clone(), vec![what])),
            }
        }
    }
    for (why, events) in told {
        line(out, format_args!("  absent: {}: {why}", events.join(", ")));
    }
    if let Some(remedy) = problems.iter().find_map(OaError::remedy) {
        line(out, format_args!("  to fix: {remedy}"));
    }
}
