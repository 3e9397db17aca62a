//! The findings as a document. Refuses to find any.

use crate::rules::{Rule, Severity};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the field `schema` says.
pub const SCHEMA: &str = "clscope-check/1";
/// Subjects that a finding lists; more are counted.
pub const LISTED: usize = 8;

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Trace directories.
    pub traces: Vec<String>,
    /// What the run changed of its application on request (`record --replace`, `--options`,
    /// `--local`), a sentence each: what was found is of the application so changed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub changed: Vec<String>,
    /// Whether the run was recorded with `--check`: without it, data races are not looked for and
    /// places are known of enqueues alone.
    pub checked_run: bool,
    /// Readable names of kernels, by their names in this document, which are those of the trace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub display_names: BTreeMap<String, String>,
    /// Calls in which processes died or were ended: what came after was not judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub ended_inside: Vec<EndedInside>,
    /// What was found: errors first, by rule, then by what it cost and how often.
    pub findings: Vec<Finding>,
    /// What could not be judged, and why.
    pub notes: Vec<String>,
}

/// A call that a thread was in when the record of its process ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct EndedInside {
    /// The process.
    pub process: String,
    /// The function of the call.
    pub function: String,
    /// Where in the application that call stands, where it was told ahead of the call.
    pub place: Option<String>,
}

/// What is against one rule at one place.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// Its rule's name.
    pub rule: &'static str,
    /// How much it matters.
    pub severity: Severity,
    /// What the rule says.
    pub title: &'static str,
    /// The process.
    pub process: String,
    /// What happened, on what.
    pub text: String,
    /// The function of the call.
    pub function: Option<String>,
    /// Where in the application that call stands.
    pub place: Option<String>,
    /// The other call of a pair, where there is one.
    pub other_place: Option<String>,
    /// How often.
    pub count: u64,
    /// Host time that it cost, ns, as far as that is known.
    pub lost_ns: Option<u64>,
    /// Objects, commands or arguments that it was about, some of them.
    pub subjects: Vec<String>,
    /// Where the specification says it.
    pub specification: &'static str,
    /// What to do.
    pub remedy: &'static str,
}

impl Document {
    /// Findings that matter at least so much.
    pub fn at_least(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |f| f.severity >= severity)
    }

    /// How many findings of a severity there are.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|f| f.severity == severity).count()
    }
}

/// What makes two observations one finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The rule.
    pub rule: Rule,
    /// What happened.
    pub text: String,
    /// The function.
    pub function: Option<String>,
    /// The place.
    pub place: Option<String>,
    /// The other place.
    pub other_place: Option<String>,
}

impl Key {
    /// Of a rule.
    pub fn new(rule: Rule, text: String) -> Self {
        Self { rule, text, function: None, place: None, other_place: None }
    }

    /// With the other call of a pair.
    pub fn and(mut self, other_place: Option<&str>) -> Self {
        self.other_place = other_place.map(str::to_owned);
        self
    }

    /// With the call that it is about.
    pub fn at(mut self, function: &str, place: Option<&str>) -> Self {
        self.function = Some(function.to_owned());
        self.place = place.map(str::to_owned);
        self
    }
}

/// Findings of one process while they are gathered: equal ones are counted.
#[derive(Debug, Default)]
pub struct Findings {
    all: BTreeMap<Key, (u64, Option<u64>, Vec<String>)>,
    /// Calls are missing from here on: rules that rest on every call find nothing any more.
    gap: bool,
}

impl Findings {
    /// From here on calls may be missing: what rests on every call is not added any more.
    pub fn gap_begins(&mut self) {
        self.gap = true;
    }

    /// Calls are missing, and it is not known since when: what rests on every call is taken back,
    /// and none of it is added any more.
    pub fn gap_anywhere(&mut self) {
        self.gap = true;
        self.all.retain(|key, _| !key.rule.needs_every_call());
    }

    /// Whether findings of a rule are added.
    pub fn takes(&self, rule: Rule) -> bool {
        !(self.gap && rule.needs_every_call())
    }

    /// Adds one observation.
    pub fn add(&mut self, key: Key, lost_ns: Option<u64>, subject: Option<String>) {
        self.add_many(key, 1, lost_ns, subject);
    }

    /// Adds several equal observations.
    pub fn add_many(
        &mut self,
        key: Key,
        count: u64,
        lost_ns: Option<u64>,
        subject: Option<String>,
    ) {
        if !self.takes(key.rule) {
            return;
        }
        let (n, lost, subjects) = self.all.entry(key).or_default();
        *n += count;
        if let Some(ns) = lost_ns {
            *lost = Some(lost.unwrap_or(0).saturating_add(ns));
        }
        if let Some(subject) = subject
            && subjects.len() < LISTED
            && !subjects.contains(&subject)
        {
            subjects.push(subject);
        }
    }

    /// The findings, for a process.
    pub fn finish(self, process: &str) -> impl Iterator<Item = Finding> {
        self.all.into_iter().map(move |(key, (count, lost_ns, subjects))| Finding {
            rule: key.rule.id(),
            severity: key.rule.severity(),
            title: key.rule.title(),
            process: process.to_owned(),
            text: key.text,
            function: key.function,
            place: key.place,
            other_place: key.other_place,
            count,
            lost_ns,
            subjects,
            specification: key.rule.section(),
            remedy: key.rule.remedy(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(of: Findings) -> Vec<&'static str> {
        of.finish("p").map(|finding| finding.rule).collect()
    }

    fn seen(of: &mut Findings, rule: Rule) {
        of.add(Key::new(rule, "something".to_owned()), None, None);
    }

    #[test]
    fn what_rests_on_every_call_is_found_before_a_gap_alone() {
        let mut of = Findings::default();
        seen(&mut of, Rule::DataRace);
        of.gap_begins();
        seen(&mut of, Rule::UseAfterRelease);
        seen(&mut of, Rule::FailedCall);
        assert_eq!(rules(of), ["data-race", "failed-call"]);
    }

    #[test]
    fn where_calls_are_missing_anywhere_nothing_rests_on_them() {
        let mut of = Findings::default();
        seen(&mut of, Rule::DataRace);
        seen(&mut of, Rule::FailedCall);
        of.gap_anywhere();
        seen(&mut of, Rule::NeverReleased);
        assert_eq!(rules(of), ["failed-call"]);
    }
}
