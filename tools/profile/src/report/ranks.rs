//! Owns what makes ranks others than those of one whole job: numbers that are missing or doubled.
//! Refuses to know figures.

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

/// A process with a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankProcess {
    /// Its rank.
    pub rank: u32,
    /// Ranks of its job, where the launcher gave them.
    pub job_ranks: Option<u32>,
    /// Its host.
    pub host: String,
    /// What tells its trace from others.
    pub trace: String,
}

/// Ranks of which there are processes, and of what jobs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ranks {
    /// Each once.
    pub ranks: Vec<Rank>,
    /// Numbers of ranks of their jobs, as launchers gave them; several are of several jobs.
    pub job_ranks: BTreeSet<u32>,
}

/// Numbers below the highest, or below the number of ranks of the job, that no process has, as
/// first and last of each gap.
fn missing(ranks: &[Rank], job_ranks: Option<u32>) -> Vec<(u32, u32)> {
    let (mut out, mut next) = (Vec::new(), 0);
    for Rank { rank, .. } in ranks {
        if *rank > next {
            out.push((next, rank - 1));
        }
        next = rank.saturating_add(1);
    }
    match job_ranks {
        Some(job_ranks) if job_ranks > next => out.push((next, job_ranks - 1)),
        _ => {}
    }
    out
}

/// Some of them, and that there are more.
pub fn listed(mut list: Vec<String>) -> String {
    if list.len() > NAMED {
        list.truncate(NAMED);
        list.push("others".to_owned());
    }
    list.join(", ")
}

/// Ranks from their processes.
pub fn gathered(processes: impl IntoIterator<Item = RankProcess>) -> Ranks {
    let mut of: BTreeMap<u32, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    let mut job_ranks = BTreeSet::new();
    for process in processes {
        let (hosts, traces) = of.entry(process.rank).or_default();
        hosts.insert(process.host);
        traces.insert(process.trace);
        job_ranks.extend(possible(process.rank, process.job_ranks));
    }
    let rank = |(rank, (hosts, traces)): (u32, (BTreeSet<_>, BTreeSet<_>))| Rank {
        rank,
        one_host: hosts.len() == 1,
        traces: traces.len() as u64,
    };
    Ranks { ranks: of.into_iter().map(rank).collect(), job_ranks }
}

/// The number of ranks that a launcher gave, unless it cannot be that of the job of this rank: the
/// variables of one launcher inside the job of another are of two.
pub fn possible(rank: u32, job_ranks: Option<u32>) -> Option<u32> {
    job_ranks.filter(|job_ranks| *job_ranks > rank)
}

/// What is to be said of these ranks. `others` is what a missing one means for figures. Ranks may
/// be missing because somebody chose so: it is no fault.
pub fn doubts(of: Ranks, others: &str) -> Vec<String> {
    let Ranks { mut ranks, job_ranks } = of;
    let mut out = Vec::new();
    if ranks.is_empty() {
        return out;
    }
    ranks.sort_unstable();
    let one = job_ranks.first().copied().filter(|_| job_ranks.len() == 1);
    let gaps = missing(&ranks, one).into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first} to {last}"),
    });
    let gaps = listed(gaps.collect());
    match one {
        _ if gaps.is_empty() => {}
        Some(all) => {
            let last = all.saturating_sub(1);
            out.push(format!("no trace of rank {gaps} (the job has ranks 0 to {last}): {others}"));
        }
        None => out.push(format!("no trace of rank {gaps}: {others}")),
    }
    if job_ranks.len() > 1 {
        let sizes = listed(job_ranks.iter().map(u32::to_string).collect());
        out.push(format!("the traces are of jobs of {sizes} ranks: are they of one job?"));
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

    fn make_ranks(ranks: &[u32]) -> Vec<Rank> {
        ranks.iter().map(|rank| Rank { rank: *rank, one_host: true, traces: 1 }).collect()
    }

    fn doubts(ranks: Vec<Rank>, job_ranks: &[u32], others: &str) -> Vec<String> {
        super::doubts(Ranks { ranks, job_ranks: job_ranks.iter().copied().collect() }, others)
    }

    #[test]
    fn gaps_between_ranks_are_told() {
        assert_eq!(missing(&make_ranks(&[0, 1, 2]), None), []);
        assert_eq!(
            missing(&make_ranks(&[2, 5, 6, u32::MAX]), None),
            [(0, 1), (3, 4), (7, u32::MAX - 1)]
        );
        assert_eq!(missing(&make_ranks(&[]), None), []);
        assert_eq!(doubts(make_ranks(&[2, 1, 0]), &[], ""), [""; 0]);
        assert_eq!(
            doubts(make_ranks(&[3, 0]), &[], "others are there"),
            ["no trace of rank 1 to 2: others are there"]
        );
        let far: Vec<u32> = (0..40).map(|n| 2 * n).collect();
        assert!(
            doubts(make_ranks(&far), &[], "")[0].contains("1, 3, 5, 7, 9, 11, 13, 15, others:")
        );
    }

    #[test]
    fn the_last_ranks_of_a_job_are_missed_too() {
        assert_eq!(missing(&make_ranks(&[0, 1]), Some(4)), [(2, 3)]);
        assert_eq!(missing(&make_ranks(&[0, 1]), Some(2)), []);
        // Rows by host are of no rank.
        assert_eq!(doubts(make_ranks(&[]), &[4, 8], ""), [""; 0]);
        assert_eq!(missing(&make_ranks(&[u32::MAX]), Some(u32::MAX)), [(0, u32::MAX - 1)]);
        assert_eq!(
            doubts(make_ranks(&[0, 13]), &[64], "others are there"),
            ["no trace of rank 1 to 12, 14 to 63 (the job has ranks 0 to 63): others are there"]
        );
        // Which job lacks which rank is not known.
        assert_eq!(
            doubts(make_ranks(&[0, 1]), &[4, 8], ""),
            ["the traces are of jobs of 4, 8 ranks: are they of one job?"]
        );
        // Slurm's number of tasks beside the rank of another launcher.
        assert_eq!(
            [possible(3, Some(1)), possible(0, Some(1)), possible(0, None)],
            [None, Some(1), None]
        );
    }

    #[test]
    fn doubled_ranks_are_told() {
        let two = Rank { rank: 0, one_host: true, traces: 2 };
        assert_eq!(doubts(vec![two], &[], ""), ["rank 0 is in 2 traces: are they of one job?"]);
        let process = |host: &str, trace: &str| RankProcess {
            rank: 0,
            job_ranks: None,
            host: host.to_owned(),
            trace: trace.to_owned(),
        };
        assert_eq!(
            gathered([process("h", "a"), process("h", "b"), process("h", "a")]).ranks,
            [two]
        );
        let hosts = Rank { rank: 0, one_host: false, traces: 2 };
        assert_eq!(
            doubts(vec![hosts], &[], ""),
            ["more than one host has rank 0: are the traces of one job?"]
        );
        assert_eq!(gathered([process("h", "a"), process("i", "b")]).ranks, [hosts]);
    }
}
