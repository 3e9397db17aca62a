//! Owns the report's rows by MPI rank or host: how much each did, waited and cost, and which is the
//! slowest. Refuses to compare ranks that were recorded apart: all are of traces opened together.
#![forbid(unsafe_code)]
#![allow(missing_docs)] // fields are named as in the JSON document

use crate::energy::result::{DeviceEnergy, Energy};
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use clscope_analysis::time::ProcessIndex;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What has a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PlaceBy {
    Rank,
    Host,
}

/// Rows by rank or host.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Places {
    pub by: PlaceBy,
    /// By rank, or by name of the host; processes without a rank have rows by host.
    pub rows: Vec<Place>,
    /// Largest device time of a row over the mean of all, less one: what perfect balance would
    /// save. Null for a single row, or where a device time is not known.
    pub imbalance: Option<f64>,
    /// The row with the largest device time; null likewise.
    pub slowest: Option<Slowest>,
}

/// A rank or host.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Place {
    pub rank: Option<u32>,
    /// Its host; null where a rank has processes on several.
    pub host: Option<String>,
    pub processes: u64,
    /// Traces that these processes are in.
    pub traces: u64,
    pub launches: u64,
    /// Time of its kernels and transfers on devices, estimated where sampling left some out; null
    /// where nothing is known of some.
    pub device_ns: Option<Interval>,
    /// That over the mean of all rows.
    pub of_mean: Option<f64>,
    /// Host time in calls that waited for devices.
    pub wait_ns: u128,
    /// Joules of its kernels and transfers: their mean watts times their time. Null where those of
    /// one are not known alone.
    pub joules: Option<Interval>,
}

/// Why a row is the slowest.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Slowest {
    /// Index into `rows`.
    pub row: usize,
    /// The kernel or transfer that takes it the most time above the mean of all rows; null where it
    /// is in nothing above it.
    pub name: Option<String>,
    /// How much more, in nanoseconds.
    pub more_ns: Option<f64>,
    /// Its launches over the mean of all rows: above 1 it has more of them, else they take longer.
    pub launches_of_mean: Option<f64>,
}

/// What a row adds up.
#[derive(Default)]
struct Sum {
    hosts: BTreeSet<String>,
    traces: BTreeSet<String>,
    processes: u64,
    launches: u64,
    wait_ns: u128,
    time: Known,
    joules: Known,
    /// Time and number by class.
    classes: BTreeMap<String, (f64, u64)>,
}

/// A sum of which a part may not be known. Its parts rest on the same fits, so that their ends add
/// up as they are.
struct Known(Option<Interval>);

impl Default for Known {
    fn default() -> Self {
        Self(Some(Interval::measured(0.0, 0.0, 0.0)))
    }
}

impl Known {
    fn add(&mut self, part: Option<Interval>) {
        self.0 = self.0.zip(part).map(|(a, b)| Interval {
            value: a.value + b.value,
            low: a.low + b.low,
            high: a.high + b.high,
            estimated: a.estimated || b.estimated,
        });
    }
}

/// Mean watts of a class on the device that a process knows by an id.
fn watts(energy: &Energy, at: (ProcessIndex, u32), name: &str, kernel: bool) -> Option<Interval> {
    let of = |device: &&DeviceEnergy| device.members.contains(&at);
    let device = energy.devices.iter().find(of)?;
    let kind = if kernel { "kernel" } else { "transfer" };
    device.classes.iter().find(|c| c.kind == kind && c.name == name)?.watts
}

impl Places {
    /// Ranks below the highest of which there is no process, as first and last of each gap.
    #[must_use]
    pub fn missing(&self) -> Vec<(u32, u32)> {
        let mut ranks: Vec<u32> = self.rows.iter().filter_map(|row| row.rank).collect();
        ranks.sort_unstable();
        let (mut out, mut next) = (Vec::new(), 0);
        for rank in ranks {
            if rank > next {
                out.push((next, rank - 1));
            }
            next = rank.saturating_add(1);
        }
        out
    }

    /// From a trace's sums and its joules.
    #[must_use]
    pub fn new(trace: &Trace<'_>, stats: &Stats, energy: Option<&Energy>, by: PlaceBy) -> Self {
        let mut sums: BTreeMap<(Option<u32>, String), Sum> = BTreeMap::new();
        for (index, process) in (0..).map(ProcessIndex).zip(&trace.processes) {
            let d = &process.definitions;
            let (rank, host) = (d.process.mpi_rank, d.process.host.clone());
            let key = match (by, rank) {
                (PlaceBy::Rank, Some(rank)) => (Some(rank), String::new()),
                _ => (None, host.clone()),
            };
            let sum = sums.entry(key).or_default();
            sum.hosts.insert(host);
            // A process is called by its trace and its own name.
            sum.traces.extend(process.label.rsplit_once('/').map(|(trace, _)| trace.to_owned()));
            sum.processes += 1;
            sum.wait_ns += stats.waited(index);
            let kernels = stats
                .kernels_of(index)
                .map(|(kernel, queue, of)| (d.kernel_name(kernel).into_owned(), true, queue, of));
            let transfers = stats.commands_of(index).filter_map(|(kind, queue, of)| {
                Some((kind.direction()?.name().to_owned(), false, queue, of))
            });
            for (name, kernel, queue, of) in kernels.chain(transfers) {
                sum.launches += if kernel { of.count } else { 0 };
                let total: Option<Interval> = of.total().map(Into::into);
                let known = total.filter(|_| of.covered() > 0);
                let class = sum.classes.entry(name.clone()).or_default();
                class.0 += known.map_or(0.0, |t| t.value);
                class.1 += of.count;
                sum.time.add(known);
                let device = d.clock_device(queue);
                let at = device.zip(energy);
                let watts = at.and_then(|(id, e)| watts(e, (index, id), &name, kernel));
                sum.joules.add(known.zip(watts).map(|(t, w)| w.times(t.value * 1e-9)));
            }
        }
        Self::of(&sums, by)
    }

    fn of(sums: &BTreeMap<(Option<u32>, String), Sum>, by: PlaceBy) -> Self {
        let n = sums.len() as f64;
        let times: Option<Vec<f64>> = sums.values().map(|s| Some(s.time.0?.value)).collect();
        let mean = times.as_ref().map(|t| t.iter().sum::<f64>() / n).filter(|mean| *mean > 0.0);
        let row = |((rank, _), sum): (&(Option<u32>, String), &Sum)| Place {
            rank: *rank,
            host: sum.hosts.first().filter(|_| sum.hosts.len() == 1).cloned(),
            processes: sum.processes,
            traces: sum.traces.len() as u64,
            launches: sum.launches,
            device_ns: sum.time.0,
            of_mean: sum.time.0.zip(mean).map(|(t, mean)| t.value / mean),
            wait_ns: sum.wait_ns,
            joules: sum.joules.0.filter(|_| !sum.classes.is_empty()),
        };
        let rows: Vec<Place> = sums.iter().map(row).collect();
        let largest = rows.iter().enumerate().filter_map(|(i, row)| Some((i, row.of_mean?)));
        let largest = largest.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| rows.len() > 1);
        Self {
            by,
            imbalance: largest.map(|(_, of_mean)| of_mean - 1.0),
            slowest: largest.map(|(row, _)| slowest(sums, row)),
            rows,
        }
    }
}

/// What the slowest row has more of than the mean.
fn slowest(sums: &BTreeMap<(Option<u32>, String), Sum>, row: usize) -> Slowest {
    let n = sums.len() as f64;
    let mut found = Slowest { row, name: None, more_ns: None, launches_of_mean: None };
    let Some(own) = sums.values().nth(row) else { return found };
    for (name, (time, count)) in &own.classes {
        let all = sums.values().filter_map(|sum| sum.classes.get(name));
        let (time_of_all, count_of_all) =
            all.fold((0.0, 0.0), |sum, (time, count)| (sum.0 + time, sum.1 + *count as f64));
        let more = time - time_of_all / n;
        if more > found.more_ns.unwrap_or(0.0) {
            found.name = Some(name.clone());
            found.more_ns = Some(more);
            found.launches_of_mean = (count_of_all > 0.0).then(|| *count as f64 * n / count_of_all);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(classes: &[(&str, f64, u64)], known: bool) -> Sum {
        let mut sum = Sum { processes: 1, ..Sum::default() };
        for (name, time, count) in classes {
            sum.classes.insert((*name).to_owned(), (*time, *count));
            sum.launches += count;
            sum.time.add(known.then(|| Interval::measured(*time, *time, *time)));
            sum.joules.add(None);
        }
        sum
    }

    #[test]
    fn the_slowest_rank_has_its_reason() {
        let mut sums = BTreeMap::new();
        sums.insert((Some(0), String::new()), sum(&[("a", 10.0, 10), ("b", 10.0, 1)], true));
        sums.insert((Some(1), String::new()), sum(&[("a", 40.0, 40), ("b", 12.0, 1)], true));
        sums.insert((Some(2), String::new()), sum(&[("a", 10.0, 10), ("b", 8.0, 1)], true));
        let places = Places::of(&sums, PlaceBy::Rank);
        let slowest = places.slowest.unwrap();
        assert_eq!((slowest.row, slowest.name.as_deref()), (1, Some("a")));
        assert_eq!((slowest.more_ns, slowest.launches_of_mean), (Some(20.0), Some(2.0)));
        assert!((places.imbalance.unwrap() - (52.0 / 30.0 - 1.0)).abs() < 1e-12);
        assert!(places.rows.iter().all(|row| row.joules.is_none()), "not known is not 0");
    }

    #[test]
    fn gaps_between_ranks_are_told() {
        let of = |ranks: &[u32]| {
            let key = |rank: &u32| ((Some(*rank), String::new()), Sum::default());
            Places::of(&ranks.iter().map(key).collect(), PlaceBy::Rank).missing()
        };
        assert_eq!(of(&[0, 1, 2]), []);
        assert_eq!(of(&[2, 5, 6, u32::MAX]), [(0, 1), (3, 4), (7, u32::MAX - 1)]);
        assert_eq!(of(&[]), []);
    }

    #[test]
    fn one_rank_or_an_unknown_time_has_no_balance() {
        let mut sums = BTreeMap::new();
        sums.insert((Some(0), String::new()), sum(&[("a", 10.0, 10)], true));
        assert_eq!(Places::of(&sums, PlaceBy::Rank).imbalance, None);
        sums.insert((Some(1), String::new()), sum(&[("a", 0.0, 10)], false));
        let places = Places::of(&sums, PlaceBy::Rank);
        assert_eq!((places.imbalance, places.slowest), (None, None));
        assert!(places.rows[1].device_ns.is_none() && places.rows[0].device_ns.is_some());
    }
}
