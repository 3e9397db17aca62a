//! Owns the separation of processes that take turns on one device. Runtimes that slice time among
//! contexts stamp a command that was set aside as if it had run all the while: its span then holds
//! the other process's slice. What ran in between, whole and no longer than usual, shows whose turn
//! it was. Refuses to touch commands of one process: those may really run side by side.

use super::activity::Span;
use super::units::HostNs;
use crate::interval::as_ns;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// A span this many times as long as usual was set aside meanwhile, if another process ran.
const STRETCHED: i64 = 2;
/// Fewest commands of a class that show its usual length.
const LEAST: usize = 4;
/// Share of the device's busy time in which commands of several processes may overlap without a
/// word.
const WORTH_SAYING: f64 = 0.01;

/// Processes whose commands still overlap for more than this share of the time they did by their
/// stamps are not separated.
const LEFT: f64 = 0.3;

/// Half-width, as a share, of figures for what changing over between processes takes, where turns
/// are separated. (Two processes on an H200: 0.9 to 2.8 %.)
pub const SEPARATED: f64 = 0.03;
/// The same where turns are not. (Two processes on an H200: 0.3 to 9 %.)
pub const OVERLAP: f64 = 0.10;

/// Several processes on one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Shared {
    #[allow(missing_docs)] // the JSON document's name says it
    pub processes: usize,
    /// Time in which their commands overlap by their stamps.
    #[serde(rename = "overlap_ns", serialize_with = "as_ns")]
    pub overlap_seconds: f64,
    /// The same once turns are separated.
    #[serde(rename = "left_ns", serialize_with = "as_ns")]
    pub left_seconds: f64,
    /// Whether the stamps show whose turn it was. Where not, each process counts for an equal
    /// share.
    pub separated: bool,
}

/// Usual length of each process's classes: the median of its spans; those seen too rarely are not
/// in it.
fn usual(spans: impl Iterator<Item = (u32, u32, i64)>) -> HashMap<(u32, u32), i64> {
    let mut lengths: HashMap<(u32, u32), Vec<i64>> = HashMap::new();
    spans
        .for_each(|(owner, class, length)| lengths.entry((owner, class)).or_default().push(length));
    lengths.retain(|_, lengths| lengths.len() >= LEAST);
    lengths
        .into_iter()
        .map(|(key, mut lengths)| {
            let middle = lengths.len() / 2;
            (key, *lengths.select_nth_unstable(middle).1)
        })
        .collect()
}

/// Seconds in which commands of more than one process run, and how many processes those are of.
/// Spans in order of start.
fn overlap(spans: &[Span], owners: &[u32]) -> (f64, usize) {
    let (mut total, mut of) = (0, HashSet::new());
    // The two processes that run longest from here, by their ends.
    let [mut last, mut other]: [Option<(u32, i64)>; 2] = [None; 2];
    let mut counted = i64::MIN;
    for (span, &owner) in spans.iter().zip(owners) {
        let (start, end) = (span.start.0, span.end.0);
        let until = [last, other]
            .into_iter()
            .flatten()
            .filter(|o| o.0 != owner)
            .map(|o| o.1)
            .max()
            .unwrap_or(i64::MIN);
        let (from, to) = (start.max(counted), end.min(until));
        if to > from {
            total = to.saturating_sub(from).saturating_add(total);
            counted = to;
            of.insert(owner);
            of.extend(
                [last, other]
                    .into_iter()
                    .flatten()
                    .filter(|o| o.0 != owner && o.1 > start)
                    .map(|o| o.0),
            );
        }
        match last {
            Some((o, e)) if o == owner => last = Some((o, e.max(end))),
            Some(l) if end > l.1 => (last, other) = (Some((owner, end)), Some(l)),
            Some(_) => match other {
                Some((o, e)) if o != owner && e > end => {}
                Some((o, e)) if o == owner => other = Some((o, e.max(end))),
                _ => other = Some((owner, end)),
            },
            None => last = Some((owner, end)),
        }
    }
    (total as f64 * 1e-9, of.len())
}

/// Takes off each span that was set aside what another process's whole commands took meanwhile. A
/// span may come out in several pieces. Spans in order of start, before and after. `None` where
/// processes hardly overlap: nothing was changed then.
pub fn separate(spans: &mut Vec<Span>, owners: &mut Vec<u32>) -> Option<Shared> {
    if spans.len() != owners.len() || owners.iter().all(|o| owners.first() == Some(o)) {
        return None;
    }
    let (before, processes) = overlap(spans, owners);
    let busy: i64 =
        spans.iter().map(|s| s.end.0.saturating_sub(s.start.0)).fold(0, i64::saturating_add);
    if before <= WORTH_SAYING * busy as f64 * 1e-9 {
        return None;
    }
    let length = |s: &Span| s.end.0.saturating_sub(s.start.0);
    let usual = usual(spans.iter().zip(owners.iter()).map(|(s, &o)| (o, s.class.0, length(s))));
    // Usual length of those that were set aside.
    let aside: Vec<Option<i64>> = (spans.iter().zip(owners.iter()))
        .map(|(s, o)| {
            usual
                .get(&(*o, s.class.0))
                .copied()
                .filter(|&usual| length(s) > STRETCHED.saturating_mul(usual.max(1)))
        })
        .collect();
    // Turns: whole commands of one process with nothing of another's between.
    let mut turns: Vec<(u32, i64, i64)> = Vec::new();
    for ((span, &owner), _) in
        spans.iter().zip(owners.iter()).zip(&aside).filter(|(_, aside)| aside.is_none())
    {
        match turns.last_mut() {
            Some(turn) if turn.0 == owner => turn.2 = turn.2.max(span.end.0),
            _ => turns.push((owner, span.start.0, span.end.0)),
        }
    }
    let mut pieces: Vec<(Span, u32)> = Vec::with_capacity(spans.len() + spans.len() / 8);
    let mut first = 0;
    for ((span, &owner), aside) in spans.iter().zip(owners.iter()).zip(&aside) {
        // Turns before the one that began last before this span have, with rare exceptions, ended.
        while turns.get(first + 1).is_some_and(|t| t.1 <= span.start.0) {
            first += 1;
        }
        let Some(usual) = *aside else {
            pieces.push((*span, owner));
            continue;
        };
        let (mut from, own) = (span.start, pieces.len());
        for turn in turns[first.saturating_sub(1).min(turns.len())..]
            .iter()
            .take_while(|t| t.1 < span.end.0)
        {
            if turn.0 == owner || turn.2 <= from.0 {
                continue;
            }
            if turn.1 > from.0 {
                pieces.push((Span { start: from, end: HostNs(turn.1), ..*span }, owner));
            }
            from.0 = turn.2.min(span.end.0);
        }
        if span.end > from {
            pieces.push((Span { start: from, ..*span }, owner));
        }
        // What is still longer than usual went by while the device changed over: off the ends that
        // face another's turn.
        let mut over = pieces[own..]
            .iter()
            .map(|p| length(&p.0))
            .fold(0, i64::saturating_add)
            .saturating_sub(usual);
        for (piece, _) in &mut pieces[own..] {
            let less = over.clamp(0, length(piece));
            match piece.start == span.start {
                true => piece.end.0 -= less / 2,
                false => piece.start.0 += less,
            }
            over -= if piece.start == span.start { less / 2 } else { less };
        }
    }
    pieces.sort_by_key(|p| p.0.start);
    *spans = pieces.iter().map(|p| p.0).collect();
    *owners = pieces.iter().map(|p| p.1).collect();
    let (left_seconds, _) = overlap(spans, owners);
    let separated = left_seconds <= LEFT * before;
    Some(Shared { processes, overlap_seconds: before, left_seconds, separated })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::{ClassId, DeviceIndex, Timing};

    fn span(class: u32, start: i64, end: i64) -> Span {
        Span {
            class: ClassId(class),
            device: DeviceIndex(0),
            start: HostNs(start),
            end: HostNs(end),
            timing: Timing::Timed,
        }
    }

    /// Two processes in turns of 20 commands of 100 ns; the last command of each turn is set aside
    /// half done.
    fn turns(count: i64) -> (Vec<Span>, Vec<u32>) {
        let (mut spans, mut owners) = (Vec::new(), Vec::new());
        for turn in 0..count {
            let begin = turn * 2000;
            for i in 0..20 {
                let (from, to) = (begin + i * 100 - 50 * i64::from(i > 0), begin + i * 100 + 50);
                // The first goes on from the turn before last; the last is seen to end two turns
                // later.
                if i > 0 {
                    spans.push(span((turn % 2) as u32, from, to));
                    owners.push((turn % 2) as u32);
                }
            }
            spans.push(span((turn % 2) as u32, begin + 1950, begin + 4050));
            owners.push((turn % 2) as u32);
        }
        let mut order: Vec<usize> = (0..spans.len()).collect();
        order.sort_by_key(|&i| spans[i].start);
        (order.iter().map(|&i| spans[i]).collect(), order.iter().map(|&i| owners[i]).collect())
    }

    #[test]
    fn what_was_set_aside_loses_the_other_process_s_turn() {
        let (mut spans, mut owners) = turns(40);
        let busy = |spans: &[Span], owners: &[u32], of: u32| -> i64 {
            spans
                .iter()
                .zip(owners)
                .filter(|(_, o)| **o == of)
                .map(|(s, _)| s.end.0 - s.start.0)
                .sum()
        };
        assert!(busy(&spans, &owners, 0) > 20 * 3900);
        let shared = separate(&mut spans, &mut owners).expect("they overlap all the time");
        assert_eq!(shared.processes, 2);
        assert!(
            shared.overlap_seconds > 39.0 * 1900e-9
                && shared.left_seconds < 0.1 * shared.overlap_seconds,
            "{shared:?}"
        );
        for of in [0, 1] {
            let busy = busy(&spans, &owners, of) as f64;
            assert!(
                (busy / (20.0 * 2000.0) - 1.0).abs() < 0.1,
                "process {of} was busy for {busy} ns"
            );
        }
        assert!(spans.is_sorted_by_key(|s| s.start) && spans.len() == owners.len());
    }

    #[test]
    fn one_process_is_left_alone_and_so_are_those_apart() {
        let (mut spans, mut owners) = turns(10);
        owners.fill(3);
        let kept = spans.clone();
        assert_eq!(separate(&mut spans, &mut owners), None);
        let (mut apart, mut of) = (
            (0..100).map(|i| span(0, i * 100, i * 100 + 90)).collect::<Vec<_>>(),
            (0..100).collect::<Vec<u32>>(),
        );
        assert_eq!(separate(&mut apart, &mut of), None);
        assert_eq!(spans, kept);
    }

    #[test]
    fn overlaps_of_three_processes_are_counted_once() {
        let spans = [
            span(0, 0, 100),
            span(0, 10, 50),
            span(0, 20, 60),
            span(0, 200, 300),
            span(0, 250, 350),
        ];
        let (seconds, processes) = overlap(&spans, &[0, 1, 2, 0, 0]);
        assert_eq!(((seconds * 1e9).round(), processes), (50.0, 3));
    }
}
