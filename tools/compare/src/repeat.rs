//! Owns the figures of one application that was run several times: mean and spread of each over the
//! runs, and joules per kernel from the readings of all runs together. Refuses to start anything.

#![allow(missing_docs)] // fields are named as in the JSON document

use clscope_analysis::quantile::student;
use clscope_profile::interval::Interval;
use clscope_profile::report::Report;
use serde::Serialize;
use std::collections::BTreeMap;

/// Name and version of the document.
pub const SCHEMA: &str = "clscope-stat/2";

/// What one run showed.
pub struct Measured {
    /// From the application's start to its end, seconds.
    pub wall: f64,
    /// CPU time of the application and its children, seconds: in user mode, in the kernel.
    pub cpu: (f64, f64),
    /// Its report, with energy.
    pub report: Report,
}

/// A figure over several runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Spread {
    /// Mean, with the 95 % interval of the mean by Student's t; of a single run without an
    /// interval.
    pub mean: Interval,
    /// Standard deviation between runs; null of a single one.
    pub sd: Option<f64>,
    pub min: f64,
    pub max: f64,
    /// Runs that have the figure.
    pub runs: usize,
}

impl Spread {
    /// Of values; `None` of nothing.
    pub fn compute(values: &[f64]) -> Option<Self> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let extreme = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of);
        let (min, max) = (extreme(f64::min)?, extreme(f64::max)?);
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        let sd = (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt());
        let mean = match sd {
            Some(sd) => {
                let half = student(0.975, n - 1.0) * sd / n.sqrt();
                // Of times and joules, of which none is below 0: few runs leave a wide interval.
                let low = if min >= 0.0 { (mean - half).max(0.0) } else { mean - half };
                Interval::measured(mean, low, mean + half)
            }
            None => Interval::measured(mean, f64::NEG_INFINITY, f64::INFINITY),
        };
        Some(Self { mean, sd, min, max, runs: values.len() })
    }
}

/// Energy of a device, or of what else a counter covers.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Energy {
    /// The counter.
    pub sensor: String,
    /// Joules while the application lived.
    pub joules: Spread,
    pub mean_watts: Spread,
    /// Largest error of one run's joules by the counter's steps at both ends.
    pub within_joules: f64,
}

/// A kernel, or a kind of transfer.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Row {
    pub name: String,
    /// `kernel` or `transfer`.
    pub kind: &'static str,
    pub device: Option<String>,
    /// Launches of a run.
    pub launches: Spread,
    /// Device time of a launch, mean of each run.
    pub launch_ns: Option<Spread>,
    /// Device time of a run.
    pub total_ns: Option<Spread>,
    /// From the readings of all runs together; null where they do not tell it apart.
    pub joules_per_launch: Option<Interval>,
}

/// The document.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Repeated {
    /// [`SCHEMA`].
    pub schema: &'static str,
    pub command: Vec<String>,
    /// Runs that were measured.
    pub runs: usize,
    pub wall_ns: Spread,
    pub user_ns: Spread,
    pub system_ns: Spread,
    /// Kernels' time on devices; estimated totals where sampling left launches out.
    pub kernel_ns: Option<Spread>,
    pub transfer_ns: Option<Spread>,
    pub energy: Vec<Energy>,
    /// Why there are no joules; null where there are.
    pub no_energy: Option<String>,
    /// Readable names of kernels, by their names in this document, which are those of the trace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub display_names: BTreeMap<String, String>,
    /// By device time.
    pub rows: Vec<Row>,
    /// What joins kernels whose joules are known as a sum alone, and what would tell them apart.
    pub next: Option<String>,
}

const NS: f64 = 1e9;

/// The figures of `runs`; `all` is the report of all of them together. `None` without a run.
pub fn repeated(command: Vec<String>, runs: &[Measured], all: Option<&Report>) -> Option<Repeated> {
    let over = |of: &dyn Fn(&Measured) -> Option<f64>| {
        let values: Vec<f64> = runs.iter().filter_map(of).collect();
        Spread::compute(&values)
    };
    let energy = all.and_then(|all| all.energy.as_ref());
    Some(Repeated {
        schema: SCHEMA,
        display_names: BTreeMap::new(),
        command,
        runs: runs.len(),
        wall_ns: over(&|r| Some(NS * r.wall))?,
        user_ns: over(&|r| Some(NS * r.cpu.0))?,
        system_ns: over(&|r| Some(NS * r.cpu.1))?,
        kernel_ns: over(&|r| total(&r.report, true)),
        transfer_ns: over(&|r| total(&r.report, false)),
        energy: counters(runs),
        no_energy: energy.and_then(|e| e.absent.clone()),
        rows: rows(runs, all),
        next: energy.and_then(|e| e.devices.iter().find_map(|d| d.next.clone())),
    })
}

/// Device time of all kernels or transfers, if anything ran.
fn total(report: &Report, kernels: bool) -> Option<f64> {
    let (of, exact, estimated) = match kernels {
        true => (&report.kernels, report.totals.kernel_ns, report.totals.kernel_estimate_ns),
        false => (&report.transfers, report.totals.transfer_ns, report.totals.transfer_estimate_ns),
    };
    let timed = of.iter().any(|row| row.time_ns.count > 0);
    timed.then(|| estimated.map_or(exact as f64, |e| e.value))
}

fn counters(runs: &[Measured]) -> Vec<Energy> {
    let mut found: BTreeMap<&str, Vec<(f64, f64, f64)>> = BTreeMap::new();
    for run in runs {
        for of in run.report.energy.iter().flat_map(|e| &e.application) {
            let figures = (of.joules, of.joules / of.seconds, of.within);
            found.entry(&of.sensor).or_default().push(figures);
        }
    }
    let spread = |of: &[(f64, f64, f64)], which: fn(&(f64, f64, f64)) -> f64| {
        Spread::compute(&of.iter().map(which).collect::<Vec<_>>())
    };
    let energy = |(sensor, of): (&str, Vec<_>)| {
        Some(Energy {
            sensor: sensor.to_owned(),
            joules: spread(&of, |f| f.0)?,
            mean_watts: spread(&of, |f| f.1)?,
            within_joules: of.iter().map(|f| f.2).fold(0.0, f64::max),
        })
    };
    found.into_iter().filter_map(energy).collect()
}

type Key = (&'static str, String, Option<String>);

fn rows(runs: &[Measured], all: Option<&Report>) -> Vec<Row> {
    // Launches, their mean and their total, in each run that has the row.
    let mut found: BTreeMap<Key, [Vec<f64>; 3]> = BTreeMap::new();
    for run in runs {
        let kinds = [("kernel", &run.report.kernels), ("transfer", &run.report.transfers)];
        for (kind, row) in
            kinds.into_iter().flat_map(|(kind, of)| of.iter().map(move |r| (kind, r)))
        {
            let key = (kind, row.name.clone(), row.device.clone());
            let [launches, mean, total] = found.entry(key).or_default();
            launches.push(row.count as f64);
            if row.time_ns.count > 0 {
                mean.push(row.mean());
                total.push(row.total());
            }
        }
    }
    let mut rows: Vec<Row> = found
        .into_iter()
        .filter_map(|((kind, name, device), [launches, mean, total])| {
            let known = all.and_then(|all| joules(all, kind, &name, device.as_deref()));
            Some(Row {
                launches: Spread::compute(&launches)?,
                launch_ns: Spread::compute(&mean),
                total_ns: Spread::compute(&total),
                joules_per_launch: known,
                name,
                kind,
                device,
            })
        })
        .collect();
    let time = |row: &Row| row.total_ns.map_or(0.0, |t| t.mean.value);
    rows.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| a.name.cmp(&b.name)));
    rows
}

/// Joules of a launch where all runs together tell them.
fn joules(all: &Report, kind: &str, name: &str, device: Option<&str>) -> Option<Interval> {
    let devices = all.energy.iter().flat_map(|e| &e.devices);
    let mut of = devices.filter(|d| device.is_none_or(|name| d.device == name));
    let class = of.find_map(|d| d.classes.iter().find(|c| c.kind == kind && c.name == name))?;
    class.joules_per_launch
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_those_of_the_mean() {
        let of = Spread::compute(&[10.0, 12.0, 11.0, 11.0]).unwrap();
        assert_eq!((of.mean.value, of.min, of.max, of.runs), (11.0, 10.0, 12.0, 4));
        let sd = (2.0f64 / 3.0).sqrt();
        assert!((of.sd.unwrap() - sd).abs() < 1e-12);
        // 3.182 is Student's t of three degrees of freedom.
        assert!((of.mean.half() - 3.182 * sd / 2.0).abs() < 2e-3, "{of:?}");
        let one = Spread::compute(&[5.0]).unwrap();
        assert_eq!((one.mean.value, one.sd, one.mean.estimated), (5.0, None, false));
        assert_eq!(Spread::compute(&[]), None);
    }
}
