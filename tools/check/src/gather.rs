//! The pass over a trace: hands every call, command and detail to the rules, with its place.
#![forbid(unsafe_code)]

use crate::document::{Document, Finding, Findings, SCHEMA};
use crate::events::Events;
use crate::failures;
use crate::lifetimes::Lifetimes;
use crate::race::source::accesses;
use crate::race::{Kernels, Races};
use crate::seen::Seen;
use crate::waits::Waits;
use clscope_analysis::event::{Event, Kept, Mark};
use clscope_analysis::input::Definitions;
use clscope_analysis::issue::IssueKind;
use clscope_analysis::time::ProcessIndex;
use clscope_profile::profile::View;
use clscope_profile::programs::Code;
use clscope_trace::record::detail;
use clscope_trace::settings;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What the rules know of one process.
struct Process {
    findings: Findings,
    lifetimes: Lifetimes,
    events: Events,
    waits: Waits,
    races: Option<Races>,
    /// Places that threads told for the call whose record follows.
    places: HashMap<u32, u32>,
    /// Nothing that ends a life can have been missed.
    complete: bool,
}

/// Looks for what is against the rules. Reads all records.
#[must_use]
pub fn check(view: &View<'_>, traces: Vec<String>) -> Document {
    let trace = view.trace();
    let sites = view.sites();
    let programs = view.programs();
    let mut notes = Vec::new();
    let mut processes: Vec<Process> = trace
        .processes
        .iter()
        .map(|process| {
            let definitions = &process.definitions;
            let checked = is_checked(definitions);
            let complete = process.dropped_untold == 0
                && definitions.exit.is_some()
                && !process.issues.iter().any(lacks);
            Process {
                findings: Findings::default(),
                lifetimes: Lifetimes::default(),
                events: Events::new(checked),
                waits: Waits::default(),
                races: checked.then(|| Races::new(kernels(definitions, &programs))),
                places: HashMap::new(),
                complete,
            }
        })
        .collect();
    let mut inside: BTreeMap<ProcessIndex, BTreeSet<String>> = BTreeMap::new();
    for event in trace.events(None) {
        match &event {
            Event::Call(call) => {
                let Some(state) = processes.get_mut(call.process.0 as usize) else { continue };
                let definitions = &trace.process(call.process).definitions;
                let function = definitions.function_name(call.function);
                let told = state.places.remove(&call.thread.0);
                let site = match &call.kept {
                    Kept::Enqueue(enqueued) if enqueued.record.site != 0 => enqueued.record.site,
                    _ => told.unwrap_or(0),
                };
                let place = sites.get(call.process, site).map(|site| site.name.as_str());
                let seen = Seen { definitions, call, function: &function, place };
                state.call(&seen);
            }
            Event::Command(command) => {
                let Some(state) = processes.get_mut(command.process.0 as usize) else { continue };
                let definitions = &trace.process(command.process).definitions;
                let record = &command.enqueued.record;
                let name = match record.kind.is_kernel() {
                    true => definitions.kernel_name(record.object),
                    false => record.kind.name().into(),
                };
                let function = definitions.function_name(record.function);
                let place = sites.get(command.process, record.site).map(|s| s.name.as_str());
                failures::command(command, &name, &function, place, &mut state.findings);
            }
            Event::Mark { process, thread, mark, .. } => {
                let Some(state) = processes.get_mut(process.0 as usize) else { continue };
                match mark {
                    Mark::Dropped { .. } | Mark::Paused(_) | Mark::Unknown { .. } => {
                        state.complete = false;
                    }
                    Mark::Detail(of) if of.what == detail::PLACE => {
                        state.places.insert(thread.0, of.site);
                    }
                    Mark::Detail(of) => {
                        if of.what == detail::WAITED {
                            state.events.used(of.values[0]);
                        }
                        if let Some(races) = &mut state.races {
                            races.detail(thread.0, *of);
                        }
                    }
                }
            }
            // What a call did in which the process died is in no record.
            Event::InCall { process, function, .. } => {
                let function = trace.process(*process).definitions.function_name(*function);
                inside.entry(*process).or_default().insert(function.into_owned());
            }
        }
    }
    for (process, functions) in inside {
        let functions: Vec<String> = functions.into_iter().collect();
        notes.push(format!(
            "{}: the record ends inside {}: what was wrong with that call is not told; it may be why the process died",
            trace.process(process).label,
            functions.join(" and ")
        ));
    }
    let checked_run = !processes.is_empty() && processes.iter().all(|p| p.races.is_some());
    let mut findings = Vec::new();
    for (state, process) in processes.into_iter().zip(&trace.processes) {
        if !state.complete {
            notes.push(format!(
                "{}: the process was killed, paused, or lost records: what was never released is not told",
                process.label
            ));
        }
        if let Some(note) = state.races.as_ref().and_then(Races::notes) {
            notes.push(format!("{}: {note}", process.label));
        }
        findings.extend(state.finish(&process.label));
    }
    if !checked_run {
        notes.push(
            "the run was recorded without --check: data races are not looked for, nor events that nothing uses, and places are known of enqueues alone: clscope check -- APP, or record --check"
                .to_owned(),
        );
    }
    let cost = |f: &Finding| (f.lost_ns.unwrap_or(0), f.count);
    findings.sort_by(|a, b| {
        let by_rule = b.severity.cmp(&a.severity).then_with(|| a.rule.cmp(b.rule));
        by_rule.then_with(|| cost(b).cmp(&cost(a)))
    });
    Document {
        schema: SCHEMA,
        traces,
        checked_run,
        display_names: view.display_names(),
        findings,
        notes,
    }
}

impl Process {
    fn call(&mut self, seen: &Seen<'_>) {
        failures::call(seen, &mut self.findings);
        self.lifetimes.call(seen, &mut self.findings);
        self.events.call(seen, &mut self.findings);
        self.waits.call(seen, &mut self.findings);
        if let Some(races) = &mut self.races {
            races.call(seen, &mut self.findings);
        }
    }

    fn finish(mut self, label: &str) -> Vec<Finding> {
        self.lifetimes.finish(self.complete, &mut self.findings);
        self.events.finish(self.complete, &mut self.findings);
        self.findings.finish(label).collect()
    }
}

/// Whether something that was recorded is not there.
fn lacks(issue: &IssueKind) -> bool {
    use IssueKind as I;
    let lost = matches!(
        issue,
        I::OldestRotated { .. }
            | I::NoDefinitions
            | I::TornDefinitions { .. }
            | I::UnknownDefinitions { .. }
            | I::InputOutput { .. }
            | I::SkippedBytes { .. }
    );
    lost || issue.means_loss()
}

/// Whether a process was recorded with `--check`.
fn is_checked(definitions: &Definitions) -> bool {
    let on = |value: &str| ["1", "true", "on", "yes"].contains(&value);
    let given = definitions.process.settings.iter().filter_map(|s| s.split_once('='));
    given.filter(|(name, _)| *name == settings::CHECK).any(|(_, value)| on(value))
}

/// What kernels do with their arguments, by their programs' sources.
fn kernels(definitions: &Definitions, programs: &[Code]) -> Kernels {
    let mut sources: HashMap<u32, Option<String>> = HashMap::new();
    let mut out = Kernels::new();
    for kernel in definitions.kernels.values() {
        let source = sources.entry(kernel.program).or_insert_with(|| {
            let of = definitions.codes.iter().filter(|c| c.language == "cl");
            let hash = &of.clone().find(|c| c.program == kernel.program)?.hash;
            let code = programs.iter().find(|p| p.language == "cl" && p.hash == *hash)?;
            String::from_utf8(code.read().ok()?).ok()
        });
        let name = definitions.recorded_names.get(&kernel.id).unwrap_or(&kernel.name);
        let options = definitions.build_options.get(&kernel.program).map_or("", String::as_str);
        let found = source.as_deref().and_then(|source| accesses(source, options, name));
        out.insert(kernel.id, found);
    }
    out
}
