//! Owns the way from what the user asks for to open sources of counters, each with all that its
//! figures need: metric set, variables, side effects. Refuses to read them, and to guess a metric
//! set.
#![forbid(unsafe_code)]

use super::choice::{Options, Wanted};
use super::plan::plan;
use clscope_io::text::chain;
use clscope_metrics::rpn::Undefined;
use clscope_metrics::set::MetricSet;
use clscope_metrics::variables::{Provenance, Variables};
use clscope_oa::config::{Node, Uuid, find_loaded, nodes};
use clscope_oa::cpu::{self, ProcessCounters};
use clscope_oa::device::DrmFile;
use clscope_oa::i915::I915;
use clscope_oa::xe::Xe;
use clscope_oa::{CounterSource, Counts, Generation, OaError, OaSampler, Published, open as oa};
use clscope_readings::counter_source;
use clscope_sensors::{Roots, System};
use clscope_trace::sensors::{self, Finding};

/// A source and its description in the trace.
pub struct Open {
    /// The source.
    pub source: Box<dyn CounterSource>,
    /// Its announcement; the number is given when it is written.
    pub about: sensors::CounterSource,
}

/// An OA stream and its description in the trace.
pub struct Stream {
    /// The stream.
    pub sampler: OaSampler,
    /// Its announcement.
    pub about: sensors::CounterSource,
}

/// What was found.
#[derive(Default)]
pub struct Found {
    /// Open sources.
    pub sources: Vec<Open>,
    /// All that was tried.
    pub findings: Vec<Finding>,
}

impl Found {
    fn opened(&mut self, name: String) {
        self.findings.push(Finding { name, state: "opened".to_owned(), ..Finding::default() });
    }

    fn refused(&mut self, name: String, state: &str, why: String, remedy: Option<String>) {
        self.findings.push(Finding {
            name,
            state: state.to_owned(),
            why,
            remedy: remedy.unwrap_or_default(),
        });
    }
}

/// The words for what could not be had, since the user asked for it; `None` where it was.
pub fn complaint(finding: &Finding) -> Option<String> {
    (finding.state != "opened").then(|| {
        let remedy = if finding.remedy.is_empty() {
            String::new()
        } else {
            format!("; to fix: {}", finding.remedy)
        };
        format!("warning: no {}: {}{remedy}", finding.name, finding.why)
    })
}

/// Writes down a set so that the trace can be evaluated by itself. Figures this GPU has not are
/// left out.
fn describe(
    set: &MetricSet,
    counts: &Counts,
    variables: &Variables,
    about: &mut sensors::CounterSource,
) {
    about.set = set.symbol.clone();
    about.origin = format!("{}, {}", set.chipset, set.origin);
    for (metric, outcome) in set.metrics.iter().zip(set.evaluate_all(counts, variables)) {
        if outcome.value == Err(Undefined::NotAvailable) {
            continue;
        }
        about.figures.push(metric.symbol.clone());
        about.units.push(metric.unit.clone());
        about.equations.push(metric.equation.text().to_owned());
        about.meanings.push(metric.description.clone());
    }
}

fn variables(
    generation: (Generation, bool),
    topology: Option<&clscope_oa::topology::Topology>,
    hz: u64,
    range: (Option<u64>, Option<u64>),
) -> Variables {
    let mut variables = Variables::new();
    if let Some(topology) = topology {
        variables.set_topology(topology, generation.0, generation.1, &Provenance::Driver);
    }
    for (name, value) in [
        ("GpuMinFrequency", range.0),
        ("GpuMaxFrequency", range.1),
        ("GpuTimestampFrequency", (hz > 0).then_some(hz)),
    ] {
        if let Some(value) = value {
            variables.set(name, value, Provenance::Driver);
        }
    }
    variables.set("QueryMode", 0, Provenance::Known("a stream is no query"));
    variables
}

/// One card's stream.
fn card(
    options: &Options,
    named: Option<&str>,
    node: &Node,
    roots: &Roots,
) -> Result<Stream, (String, Option<String>)> {
    let told = |e: OaError| (chain(&e), e.remedy());
    let generation = node.device_id.and_then(Generation::of_device);
    let known = generation.ok_or_else(|| {
        (
            format!(
                "the generation of the device {:#06x} is not known",
                node.device_id.unwrap_or(0)
            ),
            None,
        )
    })?;
    let path = node.path(roots);
    let device = DrmFile::open(&path).map_err(told)?;
    // Lists of registers may depend on what the GPU has.
    let topology = if node.driver == "xe" {
        Xe::new(&device, &System, roots).topology(0).ok()
    } else {
        I915::new(&device, &System, roots).topology().ok()
    };
    let is_loaded = |uuid: &Uuid| find_loaded(&System, roots, &node.card, uuid).is_ok();
    let before = variables(known, topology.as_ref(), 0, (None, None));
    let plan = plan(options, named, known.0, &before, &is_loaded).map_err(|e| (chain(&e), None))?;
    let wanted = oa::Wanted {
        period_ns: options
            .counter_period
            .map_or(1_000_000, |p| u64::try_from(p.as_nanos()).unwrap_or(u64::MAX)),
        uuid: plan.uuid,
        registers: plan.registers.as_ref(),
        poll_ns: None,
    };
    let opened = oa::open(&System, roots, node, Box::new(device), &wanted).map_err(told)?;
    let layout = known.0.widest_format().layout(Published::Tables);
    let variables =
        variables(opened.generation, opened.topology.as_ref(), opened.hz, opened.clock_range_hz);
    let mut about = sensors::CounterSource {
        pci: node.pci.clone(),
        format: layout.name.to_owned(),
        generation: format!("{:?}", opened.generation.0),
        hz: opened.hz,
        period_ns: opened.period_ns,
        uuid: plan.uuid.to_string(),
        variables: variables.iter().map(|(name, ..)| name.to_owned()).collect(),
        values: variables.iter().map(|(_, value, _)| value).collect(),
        ..counter_source(&opened.sampler)
    };
    if let Some(set) = &plan.set {
        describe(set, &Counts::zero(layout), &variables, &mut about);
    }
    Ok(Stream { sampler: opened.sampler, about })
}

/// Opens the streams of all Intel GPUs, to be read here.
pub fn intel(options: &Options, roots: &Roots, found: &mut Found) {
    let mut take = |found: &mut Found, Stream { sampler, about }| {
        found.sources.push(Open { source: Box::new(sampler), about })
    };
    streams(options, roots, found, &mut take);
}

/// Opens the streams of all Intel GPUs; `take` gets each.
pub fn streams(
    options: &Options,
    roots: &Roots,
    found: &mut Found,
    take: &mut dyn FnMut(&mut Found, Stream),
) {
    for named in options
        .counters
        .iter()
        .filter_map(|w| if let Wanted::Oa(set) = w { Some(set.as_deref()) } else { None })
    {
        let cards = nodes(&System, roots);
        if cards.is_empty() {
            let why = format!(
                "there is no GPU of the drivers i915 or xe below {}",
                roots.sys.join("class/drm").display()
            );
            found.refused("OA counters of Intel GPUs".to_owned(), "absent", why, None);
        }
        for node in &cards {
            let name = format!("OA counters of {} ({})", node.card, node.driver);
            match card(options, named, node, roots) {
                Ok(stream) => {
                    found.opened(name);
                    take(found, stream);
                }
                Err((why, remedy)) => found.refused(name, "refused", why, remedy),
            }
        }
    }
}

/// Opens perf events on the threads of a process and on all that they start.
pub fn perf(pid: u32, found: &mut Found) {
    let name = format!("perf events of process {pid}");
    match ProcessCounters::open(
        &System,
        &Roots::default(),
        &cpu::Kernel::default(),
        pid,
        &cpu::EVENTS,
    ) {
        Ok((source, problems)) => {
            let remedy = problems.iter().find_map(OaError::remedy);
            for (why, events) in cpu::by_reason(&problems) {
                found.refused(
                    format!("perf events {}", events.join(", ")),
                    "refused",
                    why,
                    remedy.clone(),
                );
            }
            let about = sensors::CounterSource { pid: Some(pid), ..counter_source(&source) };
            found.opened(name);
            found.sources.push(Open { source: Box::new(source), about });
        }
        Err(error) => found.refused(name, "refused", chain(&error), error.remedy()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_such_a_gpu_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let mut found = Found::default();
        let options = Options { counters: vec![Wanted::Oa(None)], ..Options::default() };
        intel(&options, &Roots::below(dir.path()), &mut found);
        assert!(
            found.sources.is_empty()
                && found.findings[0].state == "absent"
                && found.findings[0].why.contains("i915")
        );
    }
}
