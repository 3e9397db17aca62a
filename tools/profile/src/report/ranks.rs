//! Owns what makes ranks others than those of one whole job: numbers that are missing or doubled.
//! Refuses to know figures.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};

/// Gaps between ranks, and ranks, that are named.
const NAMED: usize = 8;

/// A rank of which there are processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// All of them are of one host.
    pub one_host: bool,
    /// Traces that they are in.
    pub traces: u64,
}

/// Numbers below the highest that no process has, as first and last of each gap.
fn missing(ranks: &[Rank]) -> Vec<(u32, u32)> {
    let (mut out, mut next) = (Vec::new(), 0);
    for Rank { rank, .. } in ranks {
        if *rank > next {
            out.push((next, rank - 1));
        }
        next = rank.saturating_add(1);
    }
    out
}

/// Some of them, and that there are more.
#[must_use]
pub fn listed(mut list: Vec<String>) -> String {
    if list.len() > NAMED {
        list.truncate(NAMED);
        list.push("others".to_owned());
    }
    list.join(", ")
}

/// Ranks from their processes: rank, host, and what tells its trace from others.
#[must_use]
pub fn gathered(processes: impl IntoIterator<Item = (u32, String, String)>) -> Vec<Rank> {
    let mut of: BTreeMap<u32, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    for (rank, host, trace) in processes {
        let (hosts, traces) = of.entry(rank).or_default();
        hosts.insert(host);
        traces.insert(trace);
    }
    let rank = |(rank, (hosts, traces)): (u32, (BTreeSet<_>, BTreeSet<_>))| Rank {
        rank,
        one_host: hosts.len() == 1,
        traces: traces.len() as u64,
    };
    of.into_iter().map(rank).collect()
}

/// What is to be said of these ranks. `others` is what a missing one means for figures.
#[must_use]
pub fn doubts(mut ranks: Vec<Rank>, others: &str) -> Vec<String> {
    ranks.sort_unstable();
    let mut out = Vec::new();
    let gaps = missing(&ranks).into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    let gaps = listed(gaps.collect());
    if !gaps.is_empty() {
        out.push(format!("no trace of rank {gaps}: {others}"));
    }
    let hosts = ranks.iter().filter(|r| !r.one_host).map(|r| r.rank.to_string());
    let hosts = listed(hosts.collect());
    if !hosts.is_empty() {
        out.push(format!("more than one host has rank {hosts}: are the traces of one job?"));
    }
    let traces = ranks.iter().filter(|r| r.one_host && r.traces > 1);
    let traces =
        listed(traces.map(|r| format!("rank {} is in {} traces", r.rank, r.traces)).collect());
    if !traces.is_empty() {
        out.push(format!("{traces}: are they of one job?"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ranks: &[u32]) -> Vec<Rank> {
        ranks.iter().map(|rank| Rank { rank: *rank, one_host: true, traces: 1 }).collect()
    }

    #[test]
    fn gaps_between_ranks_are_told() {
        assert_eq!(missing(&of(&[0, 1, 2])), []);
        assert_eq!(missing(&of(&[2, 5, 6, u32::MAX])), [(0, 1), (3, 4), (7, u32::MAX - 1)]);
        assert_eq!(missing(&of(&[])), []);
        assert_eq!(doubts(of(&[2, 1, 0]), ""), [""; 0]);
        assert_eq!(
            doubts(of(&[3, 0]), "others are there"),
            ["no trace of rank 1 to 2: others are there"]
        );
        let far: Vec<u32> = (0..40).map(|n| 2 * n).collect();
        assert!(doubts(of(&far), "")[0].contains("1, 3, 5, 7, 9, 11, 13, 15, others:"));
    }

    #[test]
    fn doubled_ranks_are_told() {
        let two = Rank { rank: 0, one_host: true, traces: 2 };
        assert_eq!(doubts(vec![two], ""), ["rank 0 is in 2 traces: are they of one job?"]);
        let process = |host: &str, trace: &str| (0, host.to_owned(), trace.to_owned());
        assert_eq!(gathered([process("h", "a"), process("h", "b"), process("h", "a")]), [two]);
        let hosts = Rank { rank: 0, one_host: false, traces: 2 };
        assert_eq!(
            doubts(vec![hosts], ""),
            ["more than one host has rank 0: are the traces of one job?"]
        );
        assert_eq!(gathered([process("h", "a"), process("i", "b")]), [hosts]);
    }
}
