//! A power virus: the mixture of classes that draws most, found by search. Generation after
//! generation is run and metered; each begins at the best of those before. Owns the search; refuses
//! to meter: that is [`crate::run`], by whichever sensor is chosen.

use crate::run::{self, Choice, Until, Watch};
use crate::suite::mixture::{KINDS, Mixture, Pairs, kinds};
use crate::suite::{self, Case, Suite, classes};
use clscope_microbench::cl::{ClError, Device};
use clscope_microbench::results::{CaseResult, Finding, Results, Status};
use clscope_microbench::settings::Settings;
use clscope_microbench::stats::Interval;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Seconds where the user names none.
pub const SECONDS: f64 = 60.0;
/// How long power is watched in each mixture, ns, where the user does not say.
const WINDOW_NS: u64 = 500_000_000;
/// Kinds that are tried in the place of others: those that draw most.
const PROMISING: usize = 5;

/// Each kind once, with how often it is there, in the order of [`KINDS`].
fn counted(pairs: &Pairs) -> BTreeMap<usize, usize> {
    let mut out = BTreeMap::new();
    for kind in pairs {
        *out.entry(*kind).or_default() += 1;
    }
    out
}

fn id(pairs: &Pairs) -> String {
    let one = |(kind, n): (usize, usize)| format!("{}*{n}", KINDS[kind].replace('/', "-"));
    let all: Vec<String> = counted(pairs).into_iter().map(one).collect();
    format!("{}/virus/{}", classes::SUITE.name, all.join("+"))
}

fn sorted(mut pairs: Pairs) -> Pairs {
    pairs.sort_unstable();
    pairs
}

/// Mixtures that differ from one in a pair, of promising kinds.
fn neighbours(of: Pairs, promising: &[usize]) -> Vec<Pairs> {
    let change = |at: usize| {
        promising.iter().map(move |kind| {
            let mut other = of;
            other[at] = *kind;
            sorted(other)
        })
    };
    // Pairs are in order: of those that are alike, one is changed.
    let first = |at: &usize| of[..*at].iter().all(|k| *k != of[*at]);
    (0..of.len()).filter(first).flat_map(change).collect()
}

/// Searches for so many seconds: all mixtures that were run, and a finding that names the best.
/// Without a finding no power was read, and `power_source` says why.
///
/// # Errors
/// If the device cannot be opened at all.
pub fn search(
    device: &Device,
    settings: &Settings,
    choice: &Choice,
    seconds: f64,
    watch: &mut dyn Watch,
) -> Result<Results, ClError> {
    static SUITE: Suite = classes::SUITE;
    let settings = Settings {
        repeat: Some(settings.repeat().min(3)),
        window_ns: settings.window_ns.or(Some(WINDOW_NS)),
        ..settings.clone()
    };
    let mut watch =
        Until { inner: watch, end: Some(Instant::now() + Duration::from_secs_f64(seconds)) };
    let mut next: Vec<Pairs> = kinds(&device.facts).into_iter().map(|k| [k; 5]).collect();
    let mut seen: BTreeSet<Pairs> = next.iter().copied().collect();
    let mut tried: BTreeMap<Pairs, Interval> = BTreeMap::new();
    let generation = |of: &[Pairs], watch: &mut Until<'_>| {
        let mut cases: Vec<Case> = of.iter().map(|p| case(p, device, &settings)).collect();
        // Clocks are up behind the first.
        cases.insert(1.min(cases.len()), suite::floor_of(&SUITE));
        run::run_cases(device, &settings, choice, &[(&SUITE, cases)], watch)
    };
    let mut out = generation(&next, &mut watch)?;
    let mut best = None;
    loop {
        for pairs in &next {
            let name = id(pairs);
            let power = out.cases.iter().find(|c| c.id == name).and_then(|c| c.figure("power"));
            tried.extend(power.map(|f| (*pairs, f.estimate)));
        }
        let most = tried.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
        let Some((pairs, watts)) = most.map(|(p, w)| (*p, *w)) else { break };
        best = Some((pairs, watts));
        next = following(pairs, &tried);
        next.retain(|pairs| seen.insert(*pairs));
        if next.is_empty() || watch.stop() {
            break;
        }
        let found = generation(&next, &mut watch)?;
        // The floor of the first speaks for all.
        out.meter.extend(found.meter);
        out.cases.extend(found.cases.into_iter().filter(|c| !suite::is_floor(&c.id)));
    }
    out.interrupted = watch.inner.stop();
    // What the end of the time kept from running is none of the search.
    out.cases.retain(|c| c.status != Status::Interrupted);
    out.cases.sort_by(|a, b| {
        let watts = |c: &CaseResult| c.value("power").unwrap_or(0.0);
        watts(b).total_cmp(&watts(a))
    });
    if let Some((pairs, watts)) = best {
        out.findings.push(finding(&out, pairs, watts, tried.len()));
    }
    Ok(out)
}

/// What is tried behind the best mixture so far.
fn following(best: Pairs, tried: &BTreeMap<Pairs, Interval>) -> Vec<Pairs> {
    let single = tried.iter().filter(|(p, _)| p.iter().all(|k| *k == p[0]));
    let mut single: Vec<(usize, f64)> = single.map(|(p, w)| (p[0], w.value)).collect();
    single.sort_by(|a, b| b.1.total_cmp(&a.1));
    let promising: Vec<usize> = single.iter().take(PROMISING).map(|s| s.0).collect();
    let mut next = neighbours(best, &promising);
    if counted(&best).len() == 1 {
        // Units may work beside each other: more than one pair may have to change.
        let further = next.iter().flat_map(|p| neighbours(*p, &promising));
        let further: Vec<Pairs> = further.collect();
        next.extend(further);
    }
    next
}

fn case(pairs: &Pairs, device: &Device, settings: &Settings) -> Case {
    let mixture = Mixture::new(*pairs, &device.facts, settings);
    let parameters = [("mixture", json!(pairs.map(|k| KINDS[k])))];
    Case::with_axes(id(pairs), classes::SUITE.name, Rc::new(mixture)).with(parameters)
}

fn finding(of: &Results, pairs: Pairs, watts: Interval, tried: usize) -> Finding {
    let name = id(&pairs);
    let case = of.cases.iter().find(|c| c.id == name);
    let above = case.and_then(|c| c.figure("dynamic_power")).cloned();
    let words = counted(&pairs).into_iter().map(|(kind, n)| format!("{n} of {}", KINDS[kind]));
    let words: Vec<String> = words.collect();
    let more = above
        .as_ref()
        .map_or_else(String::new, |a| format!(", {:.1} W above idle", a.estimate.value));
    let text = format!(
        "power virus: {:.1} W (+-{:.1}){more}, by five pairs of statements: {}; the most of {tried} mixtures. `clscope-lab --dump-kernel` prints its kernel, `mixture`; build it with {}",
        watts.value,
        watts.half(),
        words.join(", "),
        Mixture::defines(pairs).join(" ")
    );
    let power = case.and_then(|c| c.figure("power")).cloned();
    Finding {
        // Tables print the findings of a suite by this.
        name: format!("{}/virus", classes::SUITE.name),
        text,
        figures: power.into_iter().chain(above).collect(),
        confidence: None,
        method: "the best of each kind, then changes of one pair of the best mixture",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From every kind alone the search reaches a mixture that draws most, where each kind draws
    /// something and kinds beside each other draw more.
    #[test]
    fn neighbours_lead_to_every_mixture_of_promising_kinds() {
        let promising = [0, 4, 6, 12, 13];
        let mut known = BTreeSet::from([[0; 5]]);
        let mut fresh: Vec<Pairs> = known.iter().copied().collect();
        while let Some(pairs) = fresh.pop() {
            fresh.extend(neighbours(pairs, &promising).into_iter().filter(|n| known.insert(*n)));
        }
        // Five of five kinds, in any number.
        assert_eq!(known.len(), 126);
        assert_eq!(id(&[0, 0, 0, 13, 13]), "classes/virus/int-arithmetic*3+memory-local*2");
    }
}
