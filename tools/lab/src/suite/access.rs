//! Single accesses to memory, timed by a clock inside the kernel while others load it
//! (kernels/clock.cl; Volkov 2016, section 6.6). Owns the percentiles and what is taken off them;
//! refuses a clock that does not wait for what was loaded.

use super::clock::{SUITE, with_clock};
use super::{Case, Gave, Swept};
use crate::sweep::{Axis, Value};
use clscope_microbench::bench::{Bench, CaseError, Measured, Settings};
use clscope_microbench::cl::{DeviceFacts, DeviceKind};
use clscope_microbench::job::{Arg, Fill, Job, Need, Trips, words};
use clscope_microbench::results::{Figure, Point, Series};
use clscope_microbench::source::Source;
use clscope_microbench::stats::{self, Interval};
use clscope_microbench::suite::latency::{scattered, table_words};
use clscope_microbench::suite::residency::Level;
use serde_json::json;
use std::rc::Rc;

/// Accesses of a turn; one of them is timed.
const LINKS: f64 = 8.0;
/// Turns of a launch whose times are kept.
const KEPT: u32 = 1 << 14;
/// The argument that says where the chains begin.
const START: usize = 4;
/// Launches whose times are joined.
const LAUNCHES: usize = 16;
/// The percentiles of the document's table 6.6, with those of its ends that are no single samples.
const PERCENTILES: [(f64, &str); 7] = [
    (0.0, "latency_min"),
    (0.05, "latency_5"),
    (0.25, "latency_25"),
    (0.5, "latency_50"),
    (0.75, "latency_75"),
    (0.95, "latency_95"),
    (1.0, "latency_max"),
];

#[derive(Clone, Copy, Debug)]
struct Variant {
    level: Level,
    table_words: usize,
    max_group: usize,
}

/// What was timed: cycles of accesses, and of nothing, of each launch; nanoseconds of these
/// launches.
struct Seen {
    measured: Measured,
    taken: Vec<Vec<f64>>,
    empty: Vec<Vec<f64>>,
    times: Vec<f64>,
}

impl Variant {
    fn job(self, defines: Vec<String>, pad: usize, groups: usize, bench: &Bench<'_>) -> Job {
        let mask = self.table_words as u32 - 1;
        let hop = (groups * self.level.group) as u32;
        // A processor reads ahead what streams: there the chain is random.
        let random = bench.facts().kind == DeviceKind::Cpu;
        let lanes = super::lanes(bench.facts()).min(self.level.group) as u32;
        let lay = ["-DKIND_STREAM", "-DILP=1", "-DCONFLICT=1"].map(str::to_owned).to_vec();
        let expected = move |i: u32, trips: u32| {
            (0..trips.saturating_mul(LINKS as u32)).fold(i & mask, |at, _| match random {
                true => scattered(at) & mask,
                false => at.wrapping_add(hop) & mask,
            })
        };
        Job {
            defines,
            needs: vec![Need::Local(pad as u64), Need::Group(self.level.group)],
            buffers: vec![
                4 * groups * self.level.group,
                4 * self.table_words,
                4 * KEPT as usize,
                4 * KEPT as usize,
            ],
            fills: vec![Fill::Kernel {
                source: Source::Latency,
                entry: "lay",
                defines: lay,
                args: vec![
                    Arg::Buffer(1),
                    Arg::uint(mask),
                    Arg::uint(hop),
                    Arg::uint(random.into()),
                ],
                items: self.table_words,
            }],
            args: vec![
                Arg::Buffer(0),
                Arg::Buffer(1),
                Arg::Trips,
                Arg::uint(mask),
                Arg::uint(0),
                Arg::uint(lanes),
                Arg::Buffer(2),
                Arg::Buffer(3),
                Arg::Local(pad),
            ],
            trips: Trips::Fixed(self.trips(groups, &bench.settings)),
            check_trips: 2,
            ..Job::new(Source::Clock, "accesses", (groups, self.level.group), move |outcome| {
                let long = outcome.geometry.trips > 64;
                let some = if long { 4 } else { 512 }.min(outcome.geometry.items());
                let words = outcome.words(0, 0, some)?.into_iter().zip(0u32..);
                let wrong = words.filter(|(got, i)| *got != expected(*i, outcome.geometry.trips));
                let told = |i| format!("work-item {i} ended at another word than the host");
                Ok(wrong.map(|(_, i)| told(i)).next())
            })
        }
    }

    /// Turns of a launch: enough for its percentiles, and no more than read the table a few times.
    fn trips(self, groups: usize, settings: &Settings) -> u32 {
        let turn = groups.saturating_mul(self.level.group).saturating_mul(LINKS as usize).max(1);
        let walk = u32::try_from(self.table_words.saturating_mul(4) / turn).unwrap_or(KEPT);
        let most = if settings.tiny { 64 } else { KEPT / 8 };
        settings.iterations.unwrap_or_else(|| walk.clamp(most / 8, most)).min(KEPT)
    }

    fn measured(
        self,
        bench: &mut Bench<'_>,
        defines: &[String],
        pad: usize,
    ) -> Result<Seen, CaseError> {
        let groups = self.level.groups(bench, pad)?;
        let job = self.job(defines.to_vec(), pad, groups, bench);
        // The turns are this case's own choice: --iterations is in them.
        let asked = bench.settings.iterations.take();
        let measured = bench.measure(&job, false);
        bench.settings.iterations = asked;
        let measured = measured?;
        let buffers = bench.buffers(&job.buffers)?;
        let kept = measured.geometry.trips as usize;
        let mut taken = [Vec::new(), Vec::new()];
        let mut times = Vec::new();
        let geometry = measured.geometry;
        // Launches begin at different words: what the one before has read last is in caches.
        let walked = (geometry.items() as u32).wrapping_mul(geometry.trips * LINKS as u32);
        for n in 0..LAUNCHES as u32 {
            let mut args = job.args.clone();
            args[START] = Arg::uint(walked.wrapping_mul(n + 1));
            let time =
                bench.probe(job.source, job.entry, &job.defines, &args, &buffers, geometry)?;
            times.push(time);
            for (n, out) in taken.iter_mut().enumerate() {
                let mut bytes = vec![0; 4 * kept];
                bench.session.read(&buffers[2 + n], 0, &mut bytes)?;
                out.push(words(&bytes).into_iter().map(f64::from).collect::<Vec<f64>>());
            }
        }
        let [taken, empty] = taken;
        Ok(Seen { measured, taken, empty, times })
    }
}

/// Shares of samples over cycles, in bins that hold them from the smallest up to the 99th
/// percentile.
fn distribution(sorted: &[f64]) -> Vec<Point> {
    let (Some(low), Some(high)) = (sorted.first(), stats::quantile(sorted, 0.99)) else {
        return Vec::new();
    };
    let bins = 60usize;
    let width = ((high - low) / bins as f64).max(1.0).ceil();
    let mut counts = vec![0usize; bins + 1];
    for x in sorted {
        let bin = ((x - low) / width) as usize;
        if let Some(count) = counts.get_mut(bin) {
            *count += 1;
        }
    }
    let last = counts.iter().rposition(|c| *c > 0).map_or(0, |n| n + 1);
    let share = |count: usize| Interval::symmetric(100.0 * count as f64 / sorted.len() as f64, 0.0);
    let place =
        |(n, count): (usize, &usize)| Point { x: low + (n as f64 + 0.5) * width, y: share(*count) };
    counts[..last].iter().enumerate().map(place).collect()
}

impl Swept for Variant {
    fn axes(&self) -> &'static [Axis] {
        &[Axis::Occupancy]
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let items = super::count(axis, value)?;
        Ok(Rc::new(Variant { level: Level::occupied(items, self.max_group)?, ..*self }))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let own = 4 * super::lanes(bench.facts());
        let Seen { measured, mut taken, empty, times } = with_clock(bench, |bench, defines| {
            if defines.iter().any(|d| d == "-DCLOCK_KHR") {
                // It says nothing of what has arrived when it is read.
                let log = Some("cl_khr_kernel_clock does not wait for loads".to_owned());
                return Err(CaseError::NotAvailable { reason: String::new(), log });
            }
            self.level.first_that_fits(bench, own, |bench, pad| self.measured(bench, &defines, pad))
        })?;
        // What reading the clock and keeping the order cost; it is in every interval.
        let mut empty = empty.concat();
        empty.sort_by(f64::total_cmp);
        let cost = stats::quantile(&empty, 0.5).ok_or(CaseError::Interrupted)?;
        for launch in &mut taken {
            for x in launch.iter_mut() {
                *x = (*x - cost).max(0.0);
            }
            launch.sort_by(f64::total_cmp);
        }
        let mut all = taken.concat();
        all.sort_by(f64::total_cmp);
        let median = stats::quantile(&all, 0.5).ok_or(CaseError::Interrupted)?;
        if median < cost / 4.0 {
            let reason = format!(
                "accesses take too few cycles beside reading the clock, {cost:.0}: they cannot be told from it"
            );
            return Err(CaseError::lacks(reason));
        }
        let mut figures = Vec::new();
        for (share, name) in PERCENTILES {
            let cycles = if share == 0.0 || share == 1.0 {
                stats::quantile(&all, share).map(Interval::seen_once)
            } else {
                // Of each launch: their spread is that of the percentile.
                let each: Vec<f64> =
                    taken.iter().filter_map(|launch| stats::quantile(launch, share)).collect();
                stats::mean(&each)
            };
            // Less than reading the clock costs is not known.
            let known = cycles.filter(|c| c.value > 0.0);
            figures.extend(known.map(|c| Figure::new(name, "cycles", c)));
        }
        let geometry = measured.geometry;
        let accesses = f64::from(geometry.trips) * LINKS * geometry.items() as f64;
        let units = f64::from(bench.facts().compute_units.max(1));
        let exact = |value: f64| Interval::symmetric(value, 0.0);
        // The load is that of the launches whose accesses were timed.
        let time = stats::summarise(&times).ok_or(CaseError::Interrupted)?.mean;
        let mean = stats::mean(&all).ok_or(CaseError::Interrupted)?;
        figures.extend([
            Figure::new("latency_mean", "cycles", mean),
            Figure::new("clock_cost", "cycles", Interval::seen_once(cost)),
            Figure::new("samples", "", exact(all.len() as f64)),
            Figure::new("bandwidth", "GB/s", time.reciprocal(4.0 * accesses)),
            Figure::new("items_per_unit", "items", exact(geometry.items() as f64 / units)),
        ]);
        let series = vec![Series {
            name: "latencies".to_owned(),
            x: "cycles",
            y: "% of the accesses",
            points: distribution(&all),
        }];
        Ok(Gave { series, ..Gave::of_kernel(measured, figures) })
    }
}

/// The cases: at the fewest and the most work-items on a unit.
pub(super) fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let table_words = table_words(device, settings, 1);
    let max_group = device.max_group;
    let lane = super::lanes(device);
    let mut cases = Vec::new();
    for (name, items) in [("alone", lane), ("loaded", (32 * lane).min(max_group))] {
        let Ok(level) = Level::occupied(items, max_group) else { continue };
        let variant = Rc::new(Variant { level, table_words, max_group });
        let parameters = [("occupancy", json!(items))];
        let id = format!("{}/access/{name}", SUITE.name);
        cases.push(Case::with_axes(id, SUITE.name, variant).with(parameters));
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_holds_nearly_all_samples() {
        let sorted: Vec<f64> = (0..1000).map(|n| 300.0 + f64::from(n) / 10.0).collect();
        let points = distribution(&sorted);
        let sum: f64 = points.iter().map(|p| p.y.value).sum();
        assert!((98.0..=100.0).contains(&sum), "{sum}");
        assert!(points.is_sorted_by(|a, b| a.x < b.x) && points[0].x >= 300.0);
        assert_eq!(distribution(&[7.0; 5]).len(), 1);
        assert!(distribution(&[]).is_empty());
    }
}
