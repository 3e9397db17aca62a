//! The pass over a trace: hands every call, command and detail to the rules, with its place.

use crate::document::{Document, EndedInside, Finding, Findings, Key, SCHEMA};
use crate::events::Events;
use crate::failures;
use crate::lifetimes::Lifetimes;
use crate::race::source::accesses;
use crate::race::{Kernels, Races};
use crate::rules::Rule;
use crate::seen::{At, Seen};
use crate::waits::Waits;
use clscope_analysis::event::{Event, Kept, Mark};
use clscope_analysis::input::Definitions;
use clscope_analysis::issue::IssueKind;
use clscope_profile::changes::{Changes, recorded_changes};
use clscope_profile::profile::View;
use clscope_profile::programs::Code;
use clscope_trace::record::{Detail, detail};
use clscope_trace::variables;
use std::collections::HashMap;

/// What the rules know of one process.
struct Process {
    findings: Findings,
    lifetimes: Lifetimes,
    events: Events,
    waits: Waits,
    races: Option<Races>,
    /// Places that threads told for the call whose record follows.
    places: HashMap<u32, u32>,
    /// What threads said of the call that they began.
    names: HashMap<u32, Vec<Detail>>,
    /// Objects that threads set as arguments in the call whose record follows.
    set: HashMap<u32, u32>,
    /// Why calls are missing, where some are.
    gap: Option<Gap>,
    /// The process ended in order.
    ended: bool,
    /// A thread was inside a call when it ended.
    is_inside: bool,
}

/// Calls that were not recorded.
struct Gap {
    why: String,
    /// What is before them was recorded whole.
    has_beginning: bool,
}

impl Gap {
    fn note(&self) -> String {
        let rules = Rule::ALL.iter().filter(|rule| rule.needs_every_call()).map(|rule| rule.id());
        let since = if self.has_beginning { "from there on " } else { "" };
        let rules = rules.collect::<Vec<_>>().join(", ");
        format!("{}: {since}these rules, which need every call, judge nothing: {rules}", self.why)
    }
}

/// Looks for what is against the rules. Reads all records.
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
            let lost = process.dropped_untold > 0 || process.issues.iter().any(lacks);
            let lost = lost.then(|| LOST.to_owned());
            let mut state = Process {
                findings: Findings::default(),
                lifetimes: Lifetimes::default(),
                events: Events::new(checked),
                waits: Waits::default(),
                races: checked.then(|| Races::new(kernels(definitions, &programs))),
                places: HashMap::new(),
                names: HashMap::new(),
                set: HashMap::new(),
                gap: None,
                ended: definitions.exit.is_some(),
                is_inside: false,
            };
            if let Some(why) = lost.or_else(|| partly(definitions)) {
                state.gap_anywhere(&why);
            }
            state
        })
        .collect();
    let mut inside: Vec<EndedInside> = Vec::new();
    for event in trace.events(None) {
        match &event {
            Event::Call(call) => {
                let Some(state) = processes.get_mut(call.process.0 as usize) else { continue };
                let definitions = &trace.process(call.process).definitions;
                let function = definitions.function_name(call.function);
                let told = state.places.remove(&call.thread.0);
                let names = state.names.remove(&call.thread.0).unwrap_or_default();
                let site = match &call.kept {
                    Kept::Enqueue(enqueued) if enqueued.record.site != 0 => enqueued.record.site,
                    _ => told.unwrap_or(0),
                };
                let place = sites.get(call.process, site).map(|site| site.name.as_str());
                let seen = Seen { definitions, call, function: &function, place };
                let told = names.iter().filter(|told| told.function == call.function);
                let list = told.clone().find_map(|told| failures::wait_list(told.values));
                state.call(&seen, list.as_deref());
                told.for_each(|told| state.read_detail(&seen.at(), told.values));
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
                    Mark::Paused(true) => state.gap_begins("recording was paused"),
                    // It had not begun: what was called before is not known.
                    Mark::Paused(false) if state.gap.is_none() => {
                        state.gap_anywhere("recording began paused");
                    }
                    Mark::Paused(false) => {}
                    // When a thread lost records is known no better than since its last one.
                    Mark::Dropped { .. } => state.gap_anywhere(LOST),
                    Mark::Unknown { .. } => {
                        state.gap_anywhere(
                            "there are records of kinds that this version does not know",
                        );
                    }
                    Mark::Detail(of) if of.what == detail::PLACE => {
                        state.places.insert(thread.0, of.site);
                    }
                    Mark::Detail(of) if of.what == detail::NAMES => {
                        if of.site != 0 {
                            state.places.entry(thread.0).or_insert(of.site);
                        }
                        state.names.entry(thread.0).or_default().push(*of);
                    }
                    Mark::Detail(of) => {
                        if of.what == detail::WAITED {
                            state.events.waited(thread.0, of.values[0]);
                        }
                        if of.what == detail::ARGUMENT {
                            state.set.insert(thread.0, of.values[1] as u32);
                        }
                        if let Some(races) = &mut state.races {
                            races.detail(thread.0, *of);
                        }
                    }
                }
            }
            // What a call did in which the process died is in no record, but for what was told
            // ahead.
            Event::InCall { process, thread, function, begin } => {
                let Some(state) = processes.get_mut(process.0 as usize) else { continue };
                let of = trace.process(*process);
                let name = of.definitions.function_name(*function);
                let names = state.names.remove(&thread.0).unwrap_or_default();
                let told = names.iter().filter(|told| told.function == *function);
                let site = told.clone().map(|told| told.site).find(|site| *site != 0);
                let place =
                    site.and_then(|site| sites.get(*process, site)).map(|s| s.name.as_str());
                let at = At { function: &name, place, begin: *begin, died: true };
                told.for_each(|told| state.died(&at, &of.definitions, told.values));
                if let Some(races) = &mut state.races {
                    races.died(thread.0, &at, &mut state.findings);
                }
                state.is_inside = true;
                inside.push(EndedInside {
                    process: of.label.clone(),
                    function: name.into_owned(),
                    place: place.map(str::to_owned),
                });
            }
        }
    }
    let checked_run = !processes.is_empty() && processes.iter().all(|p| p.races.is_some());
    let mut findings = Vec::new();
    for (mut state, process) in processes.into_iter().zip(&trace.processes) {
        if let Some(gap) = &state.gap {
            notes.push(format!("{}: {}", process.label, gap.note()));
        } else if state.ended && state.is_inside {
            notes.push(format!(
                "{}: it ended while a thread was inside a call, so that objects which were never released are not listed",
                process.label
            ));
        } else if !state.ended {
            notes.push(format!(
                "{}: the process did not end in order, so that objects which were never released are not listed",
                process.label
            ));
        }
        if let Some(note) = state.races.as_ref().filter(|_| !state.ended).and_then(Races::why_ended)
        {
            notes.push(format!("{}: {note}", process.label));
        }
        let races = state.races.as_ref();
        let seen = races.into_iter().flat_map(|races| [races.notes(), races.unseen()]);
        notes.extend(seen.flatten().map(|note| format!("{}: {note}", process.label)));
        state.ended &= !state.is_inside;
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
        changed: recorded_changes(trace).iter().flat_map(Changes::lines).collect(),
        checked_run,
        display_names: view.display_names(),
        ended_inside: inside,
        findings,
        notes,
    }
}

/// Why calls are missing where records are.
const LOST: &str = "records were lost";

impl Process {
    /// Calls are missing from here on.
    fn gap_begins(&mut self, why: &str) {
        self.findings.gap_begins();
        self.gap.get_or_insert_with(|| Gap { why: why.to_owned(), has_beginning: true });
    }

    /// Calls are missing, and it is not known since when.
    fn gap_anywhere(&mut self, why: &str) {
        self.findings.gap_anywhere();
        self.gap = Some(Gap { why: why.to_owned(), has_beginning: false });
    }

    fn call(&mut self, seen: &Seen<'_>, list: Option<&str>) {
        self.lifetimes.begins();
        let told = self.findings.takes(Rule::UseAfterRelease);
        let gone = seen.launched().filter(|_| told).is_some_and(|kernel| {
            let name = seen.definitions.kernel_name(kernel);
            self.launched(&seen.at(), kernel, &name)
        });
        // What such a launch is refused for has been said.
        if !gone {
            failures::call(seen, list, &mut self.findings);
        }
        if let Some(object) = self.set.remove(&seen.call.thread.0) {
            self.lifetimes.used(&seen.at(), "argument", object, &mut self.findings);
        }
        self.lifetimes.call(seen, &mut self.findings);
        self.events.call(seen, &mut self.findings);
        self.waits.call(seen, &mut self.findings);
        if let Some(races) = &mut self.races {
            races.call(seen, &mut self.findings);
        }
    }

    /// A kernel is launched; whether one of its arguments was released.
    fn launched(&mut self, at: &At<'_>, kernel: u32, name: &str) -> bool {
        let objects = self.races.as_ref().map(|races| races.arguments(kernel)).unwrap_or_default();
        let gone =
            objects.into_iter().map(|id| self.lifetimes.argument(at, name, id, &mut self.findings));
        gone.fold(false, |any, one| any | one)
    }

    /// What was told ahead of a call that returned, where its record does not tell it.
    fn read_detail(&mut self, at: &At<'_>, [kind, id, _]: [u64; 3]) {
        match kind {
            detail::OBJECT => self.lifetimes.check_named(at, id as u32, &mut self.findings),
            detail::EVENT => self.events.check_named(at, id as u32, &mut self.findings),
            _ => {}
        }
    }

    /// What was told ahead of a call in which the process died.
    fn died(&mut self, at: &At<'_>, definitions: &Definitions, told: [u64; 3]) {
        let [kind, id, _] = told;
        match kind {
            detail::OBJECT => self.lifetimes.named(at, id as u32, &mut self.findings),
            detail::EVENT => self.events.named(at, id as u32, &mut self.findings),
            detail::LAUNCHED => {
                self.launched(at, id as u32, &definitions.kernel_name(id as u32));
            }
            _ => {
                if let Some(list) = failures::wait_list(told) {
                    let text = at.says(&format!("{} has {list}", at.function));
                    let key = Key::new(Rule::FailedWait, text).at(at.function, at.place);
                    self.findings.add(key, None, None);
                }
            }
        }
    }

    fn finish(mut self, label: &str) -> Vec<Finding> {
        self.lifetimes.finish(self.ended, &mut self.findings);
        self.events.finish(self.ended, &mut self.findings);
        if let Some(races) = self.races.as_ref().filter(|_| self.ended) {
            races.finish(&mut self.findings);
        }
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
            | I::NotWritten
            | I::TornDefinitions { .. }
            | I::UnknownDefinitions { .. }
            | I::InputOutput { .. }
            | I::SkippedBytes { .. }
    );
    lost || issue.means_loss()
}

/// Whether a setting is on.
fn is_on(definitions: &Definitions, setting: &str) -> bool {
    let on = |value: &str| ["1", "true", "on", "yes"].contains(&value);
    definitions.setting(setting).is_some_and(on)
}

/// Whether a process was recorded with `--check`.
fn is_checked(definitions: &Definitions) -> bool {
    is_on(definitions, variables::CHECK)
}

/// Why some calls alone were recorded from the beginning, where that was asked for.
fn partly(definitions: &Definitions) -> Option<String> {
    if is_on(definitions, variables::START_PAUSED) {
        return Some("recording began paused".to_owned());
    }
    definitions.left_out().map(|of| of.why)
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
