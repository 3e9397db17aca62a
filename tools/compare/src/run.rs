//! Owns what is taken from one run: its report, how far each kernel's mean is known from that run
//! alone, and what it ran with. Refuses to compare.

use crate::integrity::Integrity;
use crate::outcome::Sample;
use clscope_analysis::event::{Event, Outcome};
use clscope_analysis::quantile::NORMAL_95;
use clscope_profile::energy::result::{Class, Window};
use clscope_profile::error::ReadingsError;
use clscope_profile::interval::Interval;
use clscope_profile::profile::View;
use clscope_profile::report::Report;
use clscope_profile::report::data::Commands;
use clscope_trace::record::size_class;
use std::collections::{BTreeMap, BTreeSet};

/// Batches of which means are formed: enough for their spread to be known, few enough for each to
/// be longer than what makes neighbours alike.
const BATCHES: usize = 32;

/// Means of equally long batches of consecutive values, in bounded memory: where there are twice
/// as many batches as wanted, neighbours are joined.
#[derive(Debug, Clone, Default)]
struct Batches {
    size: u64,
    sums: Vec<f64>,
    open: (f64, u64),
    total: f64,
}

impl Batches {
    fn add(&mut self, value: f64) {
        self.size = self.size.max(1);
        self.total += value;
        self.open.0 += value;
        self.open.1 += 1;
        if self.open.1 < self.size {
            return;
        }
        self.sums.push(self.open.0);
        self.open = (0.0, 0);
        if self.sums.len() == 2 * BATCHES {
            self.sums = self.sums.chunks_exact(2).map(|pair| pair.iter().sum()).collect();
            self.size *= 2;
        }
    }

    /// Relative standard error of the mean; `None` from fewer than three batches.
    fn error(&self) -> Option<f64> {
        let n = self.sums.len() as f64;
        let mean = self.sums.iter().sum::<f64>() / n;
        if n < 3.0 || mean <= 0.0 {
            return None;
        }
        let spread = self.sums.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Some((spread / n).sqrt() / mean)
    }
}

/// Launches of a kernel by what makes them alike: process and geometry.
type Strata = BTreeMap<(u32, u32), Batches>;

/// Relative standard error of the mean of all launches, of which those of a stratum are alike: what
/// differs between strata is no noise. A stratum of too few launches is as noisy as the others;
/// `None` where all are.
fn error(strata: &Strata) -> Option<f64> {
    let known: Vec<(f64, f64)> =
        strata.values().filter_map(|b| Some((b.total, b.error()?))).collect();
    let (of_known, all) =
        (known.iter().map(|k| k.0).sum::<f64>(), strata.values().map(|b| b.total).sum::<f64>());
    // Less than half would speak for the rest.
    if of_known < 0.5 * all || of_known <= 0.0 {
        return None;
    }
    let variance = known.iter().map(|(total, error)| (total / of_known * error).powi(2));
    Some(variance.sum::<f64>().sqrt())
}

/// A kernel, or a kind of transfer, on a device.
pub type Key = (String, String);

/// What a kernel ran with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct With {
    /// Global and local sizes.
    pub sizes: BTreeSet<String>,
    /// Build options of its programs.
    pub options: BTreeSet<String>,
}

/// One run.
pub struct Run {
    /// Its report.
    pub report: Report,
    /// What each kernel ran with.
    pub kernels: BTreeMap<Key, With>,
    /// What of it is missing.
    pub integrity: Integrity,
    /// Whether it ran anything on a processor, which other programs use at any time.
    pub on_processor: bool,
    batches: BTreeMap<Key, Strata>,
    places: BTreeMap<Key, Place>,
}

/// Where a kernel is in a report, of which it has thousands of rows at worst.
#[derive(Debug, Clone, Default)]
struct Place {
    /// Among its kernels.
    row: Option<usize>,
    /// What its class says of joules.
    joules: Option<Sample>,
    /// The same at 50 degrees Celsius, and the device.
    at_reference: Option<(Sample, String)>,
    /// Whether joules are known as a sum with those of others alone.
    in_a_sum: bool,
}

fn places(report: &Report) -> BTreeMap<Key, Place> {
    let mut out: BTreeMap<Key, Place> = BTreeMap::new();
    for (row, kernel) in report.kernels.iter().enumerate() {
        let key = (kernel.name.clone(), kernel.device.clone().unwrap_or_default());
        out.entry(key).or_default().row.get_or_insert(row);
    }
    let mut told: BTreeSet<&str> = BTreeSet::new();
    let mut classes: BTreeSet<(&str, &str)> = BTreeSet::new();
    for device in report.energy.iter().flat_map(|e| &e.devices) {
        // Of devices of one name the first is told.
        let is_first = told.insert(&device.device);
        for class in device.classes.iter().filter(|c| c.kind == "kernel") {
            let place = out.entry((class.name.clone(), device.device.clone())).or_default();
            place.in_a_sum |= in_a_sum(class);
            if is_first && classes.insert((&device.device, &class.name)) {
                let sample = |of: Interval| Some(Sample::own(of.value, of.relative()? / NORMAL_95));
                place.joules = class.joules_per_launch.and_then(sample);
                place.at_reference = class
                    .per_launch_at_reference
                    .and_then(sample)
                    .map(|of| (Sample { common: class.load, ..of }, device.identity.clone()));
            }
        }
    }
    out
}

impl Run {
    /// From a profile; reads its records once more.
    ///
    /// # Errors
    /// If a file of readings that the user named cannot be read.
    pub fn of_view(view: &View<'_>) -> Result<Self, ReadingsError> {
        // Not counters: nothing of them is compared, and attributing them takes longest.
        let mut report = view.times();
        report.energy = Some(view.energy()?.clone());
        let trace = view.trace();
        let mut kernels: BTreeMap<Key, With> = BTreeMap::new();
        let mut batches: BTreeMap<Key, Strata> = BTreeMap::new();
        // Names are looked up once for each kernel and geometry, not for each launch.
        let mut known: BTreeMap<(u32, u32, u32, u32), Key> = BTreeMap::new();
        let mut events = trace.events(Some(view.alignment()));
        for event in &mut events {
            let Event::Command(command) = event else { continue };
            let record = &command.enqueued.record;
            let of = (command.process.0, record.object, record.geometry, record.queue);
            let definitions = &trace.process(command.process).definitions;
            let key = if record.kind.is_kernel() {
                known
                    .entry(of)
                    .or_insert_with(|| {
                        let device =
                            definitions.queues.get(&record.queue).map_or(0, |queue| queue.device);
                        let key = (
                            definitions.kernel_name(record.object).into_owned(),
                            definitions.device_name(device).into_owned(),
                        );
                        let with = kernels.entry(key.clone()).or_default();
                        if let Some(g) = definitions.geometries.get(&record.geometry) {
                            let d = (g.dimensions as usize).min(3);
                            let local = g.local.map(|l| format!("{:?}", &l[..d]));
                            let local = local.as_deref().unwrap_or("chosen by the runtime");
                            with.sizes.insert(format!("{:?}, local {local}", &g.global[..d]));
                        }
                        let program = definitions.kernels.get(&record.object).map(|k| k.program);
                        let options = program.and_then(|p| definitions.build_options.get(&p));
                        with.options.extend(options.cloned());
                        key
                    })
                    .clone()
            } else {
                let direction = record.kind.direction().map_or("", |d| d.name());
                (record.kind.name().to_owned(), direction.to_owned())
            };
            if let Outcome::Timed(times) = &command.outcome {
                // Transfers of a size are alike.
                let like = match record.kind.is_kernel() {
                    true => record.geometry,
                    false => size_class(record.bytes),
                };
                let strata = batches.entry(key).or_default();
                let stratum = strata.entry((command.process.0, like)).or_default();
                stratum.add(times.duration() as f64);
            }
        }
        let integrity = Integrity::judge(
            report.traces.join(", "),
            trace.processes.len(),
            &trace.issues_after(events.tally(), None),
        );
        let on_processor = view.stats().devices.keys().any(|(process, id)| {
            let devices = &trace.process(*process).definitions.devices;
            devices.get(id).is_some_and(|device| device.is_cpu())
        });
        let places = places(&report);
        Ok(Self { report, kernels, integrity, on_processor, batches, places })
    }

    /// The part of the run that its joules are of; `None`: all of it.
    pub fn window(&self) -> Option<Window> {
        self.report.energy.iter().flat_map(|energy| &energy.devices).find_map(|d| d.window)
    }

    /// A kernel's row in the report.
    pub fn kernel(&self, key: &Key) -> Option<&Commands> {
        self.report.kernels.get(self.places.get(key)?.row?)
    }

    /// Mean time of a row of the report, ns.
    pub fn time(&self, row: &Commands, key: &Key) -> Option<Sample> {
        let value = row.mean();
        let estimated = row.estimate.as_ref().and_then(|e| e.mean_ns).and_then(|m| m.relative());
        let error = match (estimated, self.batches.get(key).and_then(error)) {
            // An interval of 95 %.
            (Some(relative), own) => (relative / NORMAL_95).max(own.unwrap_or(0.0)),
            (None, Some(own)) => own,
            // Too few launches for a spread: half of their range.
            (None, None) => {
                let (low, high) = (row.time_ns.min? as f64, row.time_ns.max? as f64);
                (high - low) / 2.0 / value.max(1.0)
            }
        };
        (value > 0.0).then_some(Sample::own(value, error))
    }

    /// Joules of a launch of a kernel.
    pub fn energy(&self, key: &Key) -> Option<Sample> {
        self.places.get(key)?.joules
    }

    /// The same as if it had run at 50 degrees Celsius, and the device that it ran on.
    pub fn energy_at_reference(&self, key: &Key) -> Option<(Sample, &str)> {
        let (sample, device) = self.places.get(key)?.at_reference.as_ref()?;
        Some((*sample, device))
    }

    /// Whether joules of a kernel are known as a sum with those of others alone.
    pub fn is_in_a_sum(&self, key: &Key) -> bool {
        self.places.get(key).is_some_and(|place| place.in_a_sum)
    }

    /// How many kernels have joules as a sum alone, and what tells them apart; `None` where there
    /// are none.
    pub fn sums_only(&self) -> Option<String> {
        let devices = self.report.energy.iter().flat_map(|e| &e.devices);
        let (mut kernels, mut next) = (0, None);
        for device in devices {
            let here = device.classes.iter().filter(|c| in_a_sum(c)).count();
            kernels += here;
            next = next.or(device.next.as_deref().filter(|_| here > 0));
        }
        let next =
            next.unwrap_or("`clscope report` shows the sums; a longer run may separate them");
        (kernels > 0).then(|| {
            let of = if kernels == 1 { "kernel" } else { "kernels" };
            format!("joules of {kernels} {of} are measured as a sum only: {next}")
        })
    }

    /// Why joules of some kernels are not known, and what to do about it, as far as the report
    /// tells; `None` where it does not.
    pub fn no_joules(&self) -> Option<String> {
        let energy = self.report.energy.as_ref()?;
        let failed = || {
            let mut devices = energy.devices.iter();
            devices.find_map(|d| d.failed.clone().or_else(|| d.next.clone()))
        };
        let unmeasured = || energy.unmeasured.first().map(|u| u.why.clone());
        energy.absent.clone().or_else(|| self.sums_only()).or_else(failed).or_else(unmeasured)
    }
}

/// Whether a class of commands is a kernel whose joules are known as a sum with others alone.
fn in_a_sum(class: &Class) -> bool {
    class.kind == "kernel" && class.joules_per_launch.is_none() && class.is_in_sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_show_a_drift_that_single_values_hide() {
        let (mut steady, mut drifting) = (Batches::default(), Batches::default());
        for i in 0..6400 {
            let noise = f64::from(i * 7919 % 101) / 101.0;
            steady.add(100.0 + noise);
            drifting.add(100.0 + noise + f64::from(i) / 64.0);
        }
        assert!(steady.sums.len() >= BATCHES && steady.sums.len() < 2 * BATCHES);
        let (steady, drifting) = (steady.error().unwrap(), drifting.error().unwrap());
        assert!(steady < 1e-3 && drifting > 10.0 * steady, "{steady} {drifting}");
        assert!(Batches::default().error().is_none());
    }

    #[test]
    fn launches_of_several_sizes_are_not_noise() {
        let mut strata = Strata::new();
        for i in 0..300u32 {
            let size = i % 3;
            let value = f64::from(size + 1) * 100.0 + f64::from(i * 7919 % 101) / 101.0;
            strata.entry((0, size)).or_default().add(value);
        }
        assert!(error(&strata).unwrap() < 1e-3);
        strata.entry((0, 9)).or_default().add(1e6);
        assert!(error(&strata).is_none(), "most of the time is of one launch");
    }
}
