//! Owns the report's rows by MPI rank or host: how much each did, waited and cost, and which is the
//! slowest. Refuses to compare ranks that were recorded apart: all are of traces opened together.
#![allow(missing_docs)] // fields are named as in the JSON document

use super::ranks::{self, Rank, Ranks};
use super::shared_joules;
use crate::energy::result::Energy;
use crate::interval::Interval;
use clscope_analysis::Trace;
use clscope_analysis::stats::{CommandSums, Stats, WaitedFor};
use clscope_analysis::time::ProcessIndex;
use clscope_trace::record::CommandKind;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What has a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PlaceBy {
    Rank,
    Host,
}

/// Rows by rank or host.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Places {
    pub by: PlaceBy,
    /// By rank, or by name of the host; processes without a rank have rows by host.
    pub rows: Vec<Place>,
    /// Numbers of MPI ranks of the jobs that these processes are of, as launchers gave them.
    pub job_ranks: BTreeSet<u32>,
    /// Largest device time of a row over the mean of all, less one: what perfect balance would
    /// save. Null for a single row, or where a device time is not known.
    pub imbalance: Option<f64>,
    /// The row with the largest device time; null likewise.
    pub slowest: Option<Slowest>,
}

/// A rank or host.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Place {
    pub rank: Option<u32>,
    /// Its host; null where a rank has processes on several.
    pub host: Option<String>,
    pub processes: u64,
    /// Traces that these processes are in.
    pub traces: u64,
    pub launches: u64,
    /// Time of its kernels and transfers on devices, estimated where sampling left some out; null
    /// where none was timed.
    pub device_ns: Option<Interval>,
    /// Kernels and transfers that this time does not hold: they were not timed, nor others like
    /// them from which it could be estimated.
    pub without: u64,
    /// That over the mean of all rows.
    pub of_mean: Option<f64>,
    /// Host time in calls that waited for devices.
    pub wait_ns: u128,
    /// Joules of its kernels and transfers: those of each on a device, shared by the time that each
    /// row ran it there. Null where those of one are not known.
    pub joules: Option<Interval>,
    /// Why there are none; null where there are, or where it ran nothing.
    pub joules_absent: Option<String>,
}

/// Why a row is the slowest.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
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

/// What estimates are made for together, as in the report's tables: launches by the kernel's name,
/// however many objects have it; transfers by kind and size.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    ran: Ran,
    size: Option<(CommandKind, u32)>,
}

/// What joules are known of: a kernel or a direction of transfers, on a device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ran {
    /// Index into the energy's devices; `None` for one without a sensor.
    pub metered: Option<usize>,
    pub device: String,
    pub kernel: bool,
    pub name: String,
}

/// What a row adds up.
#[derive(Default)]
pub(super) struct Sum {
    hosts: BTreeSet<String>,
    traces: BTreeSet<String>,
    processes: u64,
    launches: u64,
    wait_ns: u128,
    time: Option<Interval>,
    left_out: u64,
    without: u64,
    /// Time and number; time is `None` where nothing is known of it.
    pub classes: BTreeMap<Ran, (Option<Interval>, u64)>,
}

impl Sum {
    fn collect(
        trace: &Trace<'_>,
        stats: &Stats,
        metered: &BTreeMap<(ProcessIndex, u32), usize>,
        processes: &[ProcessIndex],
    ) -> Self {
        let mut sum = Self::default();
        let mut classes: BTreeMap<Class, CommandSums> = BTreeMap::new();
        for index in processes {
            let process = trace.process(*index);
            let d = &process.definitions;
            sum.hosts.insert(d.process.host.clone());
            // A process is called by its trace and its own name.
            sum.traces.extend(process.label.rsplit_once('/').map(|(trace, _)| trace.to_owned()));
            sum.processes += 1;
            sum.wait_ns += stats.waited(*index);
            for (what, part, queue, of) in stats.classes_of(*index) {
                let (name, size) = match what {
                    WaitedFor::Kernel(_, kernel) => (d.kernel_name(kernel).into_owned(), None),
                    WaitedFor::Command(kind) => match kind.direction() {
                        Some(way) => (way.name().to_owned(), Some((kind, part))),
                        None => continue,
                    },
                };
                sum.launches += if size.is_none() { of.count } else { 0 };
                let id = d.clock_device(queue);
                let ran = Ran {
                    metered: id.and_then(|id| metered.get(&(*index, id)).copied()),
                    device: id.map_or_else(String::new, |id| d.device_name(id).into_owned()),
                    kernel: size.is_none(),
                    name,
                };
                classes.entry(Class { ran, size }).or_default().merge(of);
            }
        }
        for (class, of) in classes {
            sum.add(class.ran, &of);
        }
        sum
    }

    /// Adds a class of commands.
    fn add(&mut self, ran: Ran, of: &CommandSums) {
        let total = of.total();
        self.time = plus(self.time, total);
        self.left_out += of.left_out();
        self.without += of.count - of.failed - total.map_or(0, |_| of.covered());
        let own = self.classes.entry(ran).or_default();
        *own = (plus(own.0, total), own.1 + of.count);
    }

    fn device_ns(&self) -> Option<Interval> {
        let estimated = self.left_out > 0;
        self.time.map(|time| Interval { estimated, ..time })
    }
}

/// What is known of two sums.
fn plus(a: Option<Interval>, b: Option<Interval>) -> Option<Interval> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.plus(b)),
        (a, b) => a.or(b),
    }
}

impl Place {
    /// What it is called.
    pub fn name(&self) -> String {
        match (self.rank, &self.host) {
            (Some(rank), Some(host)) => format!("rank {rank} on {host}"),
            (Some(rank), None) => format!("rank {rank} on several hosts"),
            (None, host) => host.clone().unwrap_or_default(),
        }
    }
}

impl Places {
    /// What makes the table another than that of one whole job, and why figures are absent.
    pub fn doubts(&self) -> Vec<String> {
        let ranks = self.rows.iter().filter_map(|row| {
            Some(Rank { rank: row.rank?, one_host: row.host.is_some(), traces: row.traces })
        });
        let ranks = Ranks { ranks: ranks.collect(), job_ranks: self.job_ranks.clone() };
        let mut out = ranks::doubts(ranks, "the mean is that of the ranks shown");
        let without_rank = self.rows.iter().filter(|row| row.rank.is_none());
        if self.by == PlaceBy::Rank && without_rank.count() > 0 {
            out.push("processes without a rank have rows by host".to_owned());
        }
        let named = |of: &dyn Fn(&Place) -> bool| {
            let short = |row: &Place| row.rank.map_or_else(|| row.name(), |rank| rank.to_string());
            let list = self.rows.iter().filter(|row| of(row)).map(short).collect();
            let what = if self.by == PlaceBy::Rank { "rank " } else { "" };
            format!("{what}{}", ranks::listed(list))
        };
        let without = |row: &Place| row.device_ns.is_some() && row.without > 0;
        let left: u64 = self.rows.iter().filter(|row| without(row)).map(|row| row.without).sum();
        if left > 0 {
            let of = named(&without);
            out.push(format!("device time of {of} is without {left} commands that were not timed"));
        }
        let untimed = |row: &Place| row.device_ns.is_none() && row.without > 0;
        if self.rows.iter().any(untimed) {
            let of = named(&untimed);
            out.push(format!("device time of {of} is not known: no command was timed"));
        }
        let reasons: BTreeSet<&String> =
            self.rows.iter().filter_map(|row| row.joules_absent.as_ref()).collect();
        for why in reasons {
            let of = named(&|row| row.joules_absent.as_ref() == Some(why));
            out.push(format!("joules of {of} are not known: {why}"));
        }
        out
    }

    /// From a trace's sums and its joules.
    pub fn new(trace: &Trace<'_>, stats: &Stats, energy: Option<&Energy>, by: PlaceBy) -> Self {
        let mut processes: BTreeMap<(Option<u32>, String), Vec<ProcessIndex>> = BTreeMap::new();
        for (index, process) in (0..).map(ProcessIndex).zip(&trace.processes) {
            let of = &process.definitions.process;
            let key = match (by, of.mpi_rank) {
                (PlaceBy::Rank, Some(rank)) => (Some(rank), String::new()),
                _ => (None, of.host.clone()),
            };
            processes.entry(key).or_default().push(index);
        }
        let processes_of = trace.processes.iter().map(|process| &process.definitions.process);
        let job_ranks =
            processes_of.filter_map(|of| ranks::possible(of.mpi_rank?, of.mpi_size)).collect();
        let devices = energy.iter().flat_map(|energy| &energy.devices).enumerate();
        let metered = devices.flat_map(|(i, device)| device.members.iter().map(move |m| (*m, i)));
        let metered = metered.collect();
        let sum = |(key, of): ((Option<u32>, String), Vec<ProcessIndex>)| {
            (key.0, Sum::collect(trace, stats, &metered, &of))
        };
        let (ranks, sums): (Vec<_>, Vec<_>) = processes.into_iter().map(sum).unzip();
        Self { job_ranks, ..Self::build(&ranks, &sums, energy, by) }
    }

    fn build(ranks: &[Option<u32>], sums: &[Sum], energy: Option<&Energy>, by: PlaceBy) -> Self {
        let times: Option<Vec<f64>> = sums.iter().map(|s| Some(s.time?.value)).collect();
        let mean = times.map(|t| t.iter().sum::<f64>() / t.len() as f64).filter(|mean| *mean > 0.0);
        let joules = shared_joules::joules_of_rows(sums, energy);
        let row = |((rank, sum), joules): ((&Option<u32>, &Sum), Result<Interval, String>)| {
            let (joules, absent) = match joules {
                Ok(joules) => (Some(joules), None),
                Err(why) => (None, Some(why)),
            };
            Place {
                rank: *rank,
                host: sum.hosts.first().filter(|_| sum.hosts.len() == 1).cloned(),
                processes: sum.processes,
                traces: sum.traces.len() as u64,
                launches: sum.launches,
                device_ns: sum.device_ns(),
                without: sum.without,
                of_mean: sum.time.zip(mean).map(|(t, mean)| t.value / mean),
                wait_ns: sum.wait_ns,
                joules: joules.filter(|_| !sum.classes.is_empty()),
                joules_absent: absent,
            }
        };
        let rows: Vec<Place> = ranks.iter().zip(sums).zip(joules).map(row).collect();
        let largest = rows.iter().enumerate().filter_map(|(i, row)| Some((i, row.of_mean?)));
        let largest = largest.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| rows.len() > 1);
        Self {
            by,
            imbalance: largest.map(|(_, of_mean)| of_mean - 1.0),
            slowest: largest.map(|(row, _)| slowest(sums, row)),
            rows,
            job_ranks: BTreeSet::new(),
        }
    }
}

/// Time and number of commands of a name, on all devices.
fn by_name(sum: &Sum) -> BTreeMap<&str, (f64, f64)> {
    let mut out: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for (ran, (time, count)) in &sum.classes {
        let own = out.entry(&ran.name).or_default();
        *own = (own.0 + time.map_or(0.0, |t| t.value), own.1 + *count as f64);
    }
    out
}

/// What the slowest row has more of than the mean.
fn slowest(sums: &[Sum], row: usize) -> Slowest {
    let n = sums.len() as f64;
    let mut found = Slowest { row, name: None, more_ns: None, launches_of_mean: None };
    let mut all: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for sum in sums {
        for (name, (time, count)) in by_name(sum) {
            let own = all.entry(name).or_default();
            *own = (own.0 + time, own.1 + count);
        }
    }
    for (name, (time, count)) in sums.get(row).map(by_name).unwrap_or_default() {
        let (time_of_all, count_of_all) = all.get(name).copied().unwrap_or_default();
        let more = time - time_of_all / n;
        if more > found.more_ns.unwrap_or(0.0) {
            found.name = Some(name.to_owned());
            found.more_ns = Some(more);
            found.launches_of_mean = (count_of_all > 0.0).then(|| count * n / count_of_all);
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn ran(name: &str) -> Ran {
        Ran { metered: Some(0), device: "d".to_owned(), kernel: true, name: name.to_owned() }
    }

    /// Times in nanoseconds of one launch each; 0 for one that was not timed.
    pub fn sum(classes: &[(&str, &[u64])]) -> Sum {
        let hosts = BTreeSet::from(["h".to_owned()]);
        let mut sum = Sum { processes: 1, hosts, ..Sum::default() };
        for (name, times) in classes {
            let mut of = CommandSums::default();
            times.iter().for_each(|t| of.add(0, (*t > 0).then_some(*t), false, false, None));
            sum.launches += of.count;
            sum.add(ran(name), &of);
        }
        sum
    }

    fn places(sums: &[Sum]) -> Places {
        let ranks: Vec<Option<u32>> = (0..sums.len() as u32).map(Some).collect();
        Places::build(&ranks, sums, None, PlaceBy::Rank)
    }

    #[test]
    fn the_slowest_rank_has_its_reason() {
        let places = places(&[
            sum(&[("a", &[10; 10]), ("b", &[10])]),
            sum(&[("a", &[10; 40]), ("b", &[12])]),
            sum(&[("a", &[10; 10]), ("b", &[8])]),
        ]);
        let slowest = places.slowest.unwrap();
        assert_eq!((slowest.row, slowest.name.as_deref()), (1, Some("a")));
        assert_eq!((slowest.more_ns, slowest.launches_of_mean), (Some(200.0), Some(2.0)));
        assert!((places.imbalance.unwrap() - (412.0 / 210.0 - 1.0)).abs() < 1e-12);
        assert!(places.rows.iter().all(|row| row.joules.is_none()), "not known is not 0");
    }

    #[test]
    fn one_rank_or_an_unknown_time_has_no_balance() {
        assert_eq!(places(&[sum(&[("a", &[10])])]).imbalance, None);
        let places = places(&[sum(&[("a", &[10])]), sum(&[("a", &[0; 10])])]);
        assert_eq!((places.imbalance, places.slowest.as_ref()), (None, None));
        assert!(places.rows[1].device_ns.is_none() && places.rows[0].device_ns.is_some());
        assert_eq!((places.rows[1].without, places.rows[0].without), (10, 0));
        let doubts = places.doubts();
        assert!(doubts[0].starts_with("device time of rank 1 is not known"), "{doubts:?}");
        assert!(doubts[1].starts_with("joules of rank 0, 1 are not known: "), "{doubts:?}");
        assert_eq!(doubts.len(), 2);
    }

    #[test]
    fn what_was_not_timed_is_counted_and_what_was_is_exact() {
        let places = places(&[sum(&[("a", &[10, 0, 10]), ("b", &[0, 0]), ("c", &[5])])]);
        let [row] = &places.rows[..] else { panic!("{places:?}") };
        assert_eq!(row.device_ns, Some(Interval::measured(25.0, 25.0, 25.0)));
        assert_eq!((row.without, row.launches), (3, 6));
        let doubts = places.doubts();
        assert_eq!(doubts[0], "device time of rank 0 is without 3 commands that were not timed");
    }

    /// Objects of one name, of most of which chance timed no launch, are estimated together.
    #[test]
    fn launches_of_a_name_are_estimated_together() {
        let mut all = CommandSums::default();
        for object in 0..50 {
            let mut of = CommandSums::default();
            for _ in 0..10 {
                let timed = object % 10 == 0;
                of.add(0, timed.then_some(100), !timed, true, Some(0.1));
            }
            all.merge(&of);
        }
        let mut one = sum(&[]);
        one.add(ran("a"), &all);
        let places = places(&[one]);
        let time = places.rows[0].device_ns.unwrap();
        assert!(time.estimated && (time.value / 50_000.0 - 1.0).abs() < 1e-9, "{time:?}");
    }
}
