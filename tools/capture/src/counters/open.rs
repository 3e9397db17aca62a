//! Owns the way from what the user asks for to open sources of counters, each with all that its
//! figures need: metric set, variables, side effects. Refuses to read them, and to guess a metric
//! set.

use super::choice::{Options, Wanted};
use clscope_metrics::rpn::Undefined;
use clscope_metrics::set::MetricSet;
use clscope_metrics::variables::{Provenance, Variables};
use clscope_metrics::{builtin, directory};
use clscope_oa::config::{Node, Registers, Uuid, find_loaded, nodes};
use clscope_oa::cpu::{self, ProcessCounters};
use clscope_oa::device::DrmFile;
use clscope_oa::i915::I915;
use clscope_oa::xe::Xe;
use clscope_oa::{CounterSource, Counts, Generation, OaError, OaSampler, Reading, open as oa};
use clscope_readings::counter_source;
use clscope_sensors::{Roots, System};
use clscope_trace::sensors::{self, Finding};
use std::path::Path;

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

/// An error with its whole chain of causes.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        text.push_str(&format!(": {e}"));
        cause = e.source();
    }
    text
}

/// A GPU's metric set, the configuration it needs, and the registers to load that with.
#[derive(Debug)]
struct Plan {
    set: Option<MetricSet>,
    uuid: Uuid,
    registers: Option<Registers>,
}

/// The sets a user may mean by a name: those of the directory.
fn library(metrics: Option<&Path>) -> Result<Vec<MetricSet>, String> {
    let Some(path) = metrics.map(Path::to_owned).or_else(directory::installed) else {
        return Ok(Vec::new());
    };
    directory::read(&path).map(|l| l.sets).map_err(|e| words(&e))
}

fn plan(
    options: &Options,
    named: Option<&str>,
    generation: Generation,
    variables: &Variables,
    is_loaded: &dyn Fn(&Uuid) -> bool,
) -> Result<Plan, String> {
    let registers = |set: &MetricSet| -> Option<Registers> {
        if set.lists.is_empty() { None } else { set.registers(variables).ok() }
    };
    let mut plan = match named {
        None => {
            let set = builtin::core(generation).ok_or_else(|| {
                format!("no metric set is built in for {generation:?}: name one of a directory, --counters oa:SET --metrics DIR")
            })?;
            let fitting: Vec<Uuid> = builtin::fitting_configurations(generation)
                .iter()
                .filter_map(|(_, u)| u.parse().ok())
                .collect();
            let loaded = fitting.iter().find(|u| is_loaded(u)).copied();
            match (loaded, registers(&set)) {
                (Some(uuid), _) if options.counter.is_empty() => {
                    Plan { set: Some(set), uuid, registers: None }
                }
                (_, Some(registers)) => {
                    Plan { uuid: Uuid::of(&registers), registers: Some(registers), set: Some(set) }
                }
                (_, None) => {
                    let uuid = set.uuid.or(fitting.first().copied());
                    let uuid = uuid.ok_or_else(|| {
                        format!("what is built in for {generation:?} needs a configuration of a directory: --counters oa:SET --metrics DIR")
                    })?;
                    Plan { set: Some(set), uuid, registers: None }
                }
            }
        }
        Some(name) => {
            let sets = library(options.metrics.as_deref())?;
            let fits = |s: &&MetricSet| {
                s.symbol.eq_ignore_ascii_case(name)
                    || s.uuid.is_some_and(|u| u.as_str().eq_ignore_ascii_case(name))
            };
            let mut found: Vec<&MetricSet> = sets.iter().filter(fits).collect();
            // A set of one name is there for every GPU: the one whose configuration is loaded is
            // this GPU's.
            if let Some(loaded) = found.iter().position(|s| s.uuid.is_some_and(|u| is_loaded(&u))) {
                found = vec![found[loaded]];
            }
            match (&found[..], name.parse::<Uuid>()) {
                ([set], _) => {
                    let uuid = set.uuid.ok_or_else(|| {
                        format!("the set {} names no configuration (UUID)", set.symbol)
                    })?;
                    Plan { set: Some((*set).clone()), uuid, registers: registers(set) }
                }
                // A configuration by itself: its counts as they come.
                ([], Ok(uuid)) => Plan { set: None, uuid, registers: None },
                ([], Err(_)) => {
                    return Err(format!(
                        "there is no metric set {name:?}: `clscope list-counters` lists those there are, --metrics DIR reads others"
                    ));
                }
                (several, _) => {
                    let chips: Vec<&str> = several.iter().map(|s| s.chipset.as_str()).collect();
                    return Err(format!(
                        "the set {name} is there for {}: name the file of this GPU with --metrics, or its UUID",
                        chips.join(", ")
                    ));
                }
            }
        }
    };
    if !options.counter.is_empty() {
        if generation != Generation::Gen9 {
            return Err(format!(
                "--counter: the event codes that are published are Gen9's, and this GPU is {generation:?}"
            ));
        }
        let registers = plan
            .registers
            .take()
            .ok_or("--counter needs the set's registers, to load them with the counter changed: name a directory with --metrics")?;
        let registers = registers.with_events(&options.counter).map_err(|e| words(&e))?;
        plan.uuid = Uuid::of(&registers);
        plan.registers = Some(registers);
    }
    Ok(plan)
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
    let told = |e: OaError| (words(&e), e.remedy());
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
    let plan = plan(options, named, known.0, &before, &is_loaded).map_err(|why| (why, None))?;
    let wanted = oa::Wanted {
        period_ns: options
            .counter_period
            .map_or(1_000_000, |p| u64::try_from(p.as_nanos()).unwrap_or(u64::MAX)),
        uuid: plan.uuid,
        registers: plan.registers.as_ref(),
        format: None,
        generation: None,
        only_context: None,
        poll_ns: None,
    };
    let opened = oa::open(&System, roots, node, Box::new(device), &wanted).map_err(told)?;
    let layout = known.0.widest_format().layout(Reading::Tables);
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
        Err(error) => found.refused(name, "refused", words(&error), error.remedy()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(text: &str) -> Uuid {
        text.parse().unwrap()
    }

    #[test]
    fn a_loaded_configuration_comes_first_and_registers_after_it() {
        let options = Options::default();
        let variables = Variables::new();
        let basic = uuid("12994724-3a5a-4303-bb3c-ba0175d2c200");
        let got = plan(&options, None, Generation::Gen9, &variables, &|u| *u == basic).unwrap();
        assert_eq!((got.uuid, got.registers), (basic, None));
        // Not loaded: the EU counters alone can be programmed without any published list.
        let got = plan(&options, None, Generation::Gen9, &variables, &|_| false).unwrap();
        let registers = got.registers.unwrap();
        assert_eq!(got.uuid, Uuid::of(&registers));
        assert!(!registers.flex.is_empty() && registers.mux.is_empty());
        let got = plan(&options, None, Generation::Gen12, &variables, &|_| false).unwrap();
        assert_eq!(
            (got.uuid.as_str(), got.registers),
            ("397a46d9-03dd-4696-8196-270362e1c575", None)
        );
        for (generation, words) in [(Generation::Gen8, "built in"), (Generation::Xe, "--metrics")] {
            let why = plan(&options, None, generation, &variables, &|_| false).unwrap_err();
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn a_programmed_counter_changes_the_configuration() {
        let options = Options {
            counter: vec!["a7=fine:0,coarse:7,inc:7".parse().unwrap()],
            ..Options::default()
        };
        let basic = uuid("12994724-3a5a-4303-bb3c-ba0175d2c200");
        let plain =
            plan(&Options::default(), None, Generation::Gen9, &Variables::new(), &|_| false)
                .unwrap();
        let got =
            plan(&options, None, Generation::Gen9, &Variables::new(), &|u| *u == basic).unwrap();
        assert!(got.uuid != basic && got.uuid != plain.uuid);
        // The example of the Gen9.5 thesis (Duarte 2018): 1904 with its fine filter.
        let example = Options {
            counter: vec!["a7=fine:7,coarse:7,inc:0".parse().unwrap()],
            ..Options::default()
        };
        let got = plan(&example, None, Generation::Gen9, &Variables::new(), &|_| false).unwrap();
        assert_eq!(got.registers.unwrap().flex[0].value & 0xfff, 1904);
        assert!(
            plan(&options, None, Generation::Gen12, &Variables::new(), &|_| true)
                .unwrap_err()
                .contains("Gen9")
        );
    }

    #[test]
    fn sets_by_name_come_from_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let set = |chip: &str, uuid: &str| {
            format!(
                r#"<metrics><set name="Basic" chipset="{chip}" symbol_name="Basic" hw_config_guid="{uuid}">
                <counter name="A" symbol_name="A" data_type="uint64" semantic_type="event" units="events" description="d" equation="A 1 READ"/>
                </set></metrics>"#
            )
        };
        let (one, two) =
            ("12994724-3a5a-4303-bb3c-ba0175d2c200", "397a46d9-03dd-4696-8196-270362e1c575");
        std::fs::write(dir.path().join("oa-kblgt2.xml"), set("KBLGT2", one)).unwrap();
        std::fs::write(dir.path().join("oa-tglgt2.xml"), set("TGLGT2", two)).unwrap();
        let options = Options { metrics: Some(dir.path().to_owned()), ..Options::default() };
        let ask = |name: &str, loaded: &str| {
            plan(&options, Some(name), Generation::Gen9, &Variables::new(), &|u| {
                u.as_str() == loaded
            })
        };
        assert_eq!(ask("basic", two).unwrap().uuid, uuid(two));
        assert!(ask("Basic", "").unwrap_err().contains("KBLGT2, TGLGT2"));
        assert!(ask("Other", "").unwrap_err().contains("list-counters"));
        // A configuration without description: raw counts.
        let bare = ask("99c1a40e-a090-4354-86e3-4d068bb1917e", "").unwrap();
        assert!(bare.set.is_none());
        assert_eq!(ask(one, "").unwrap().set.unwrap().chipset, "KBLGT2");
    }

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
