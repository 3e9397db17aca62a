//! Levels of memory and the cost of launching: bandwidth over the size of a working set that is
//! read again and again (kernels/memory.cl, `again`), launches and work-groups of nothing. Owns the
//! sweep, its host reference, and the plateaus that are read from it.

use super::{Case, Gave, Suite, Swept, default_group, geometry};
use crate::bench::{Bench, CaseError, Measured, Settings};
use crate::cl::{ClError, DeviceFacts, DeviceKind};
use crate::job::{Arg, Fill, Geometry, Job, Outcome, Trips};
use crate::results::{CaseResult, Figure, Finding};
use crate::source::Source;
use crate::stats::{self, Interval, Summary};
use crate::suite::memory::{WORDS, word};
use crate::sweep::{Axis, Value};
use serde_json::json;
use std::rc::Rc;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "levels",
    about: "bandwidth by working set, from the nearest cache to memory; cost of launches and groups",
    wants_power: true,
    cases,
    conclude,
};

/// Launches of nothing that are timed in a row.
const LAUNCHES: usize = 512;

/// How a working set is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// 16 bytes an item.
    Items,
    /// A vector of 64 bytes by one item of each group: for CPUs whose compilers make no vectors of
    /// items.
    Vectors,
    /// A word an item, side by side: for those that do.
    Along,
}

impl Shape {
    /// Words of an element.
    const fn width(self) -> usize {
        match self {
            Self::Items => 4,
            Self::Vectors => 16,
            Self::Along => 1,
        }
    }

    const fn entry(self) -> &'static str {
        match self {
            Self::Along => "along",
            _ => "again",
        }
    }
}

/// One working set.
#[derive(Clone, Copy, Debug)]
struct Variant {
    /// Elements: a power of two.
    elements: usize,
    shape: Shape,
    groups: usize,
    group: usize,
}

impl Variant {
    fn mask(self) -> u32 {
        self.elements as u32 - 1
    }

    /// Between two accesses of an item: past what all items of the launch read at once, so that no
    /// group finds in a cache what another has just read, but not far past it, so that all of the set
    /// is read before any of it is read again; by an odd number of groups, which are a power of two of
    /// items, so that each walks over the whole set.
    fn hop(self) -> u32 {
        (self.group * ((self.groups + 33) | 1)) as u32
    }

    fn sum(self, i: u32, lane: u32, trips: u32) -> u32 {
        let at = |j: u32| i.wrapping_add(j.wrapping_mul(self.hop())) & self.mask();
        (0..trips).fold(0, |sum: u32, j| {
            sum.wrapping_add(word(at(j).wrapping_mul(self.shape.width() as u32).wrapping_add(lane)))
        })
    }

    fn compare(self, outcome: &Outcome<'_>) -> Result<Option<String>, ClError> {
        let trips = outcome.geometry.trips;
        // Long launches take the host too long; the short one has shown that all is read.
        let some = if trips > 4096 { 4 } else { 256 }.min(outcome.geometry.items());
        for (k, got) in outcome.words(0, 0, self.shape.width() * some)?.into_iter().enumerate() {
            let (i, lane) = ((k / self.shape.width()) as u32, (k % self.shape.width()) as u32);
            let want = self.sum(i, lane, trips);
            if got != want {
                return Ok(Some(format!(
                    "lane {lane} of item {i} is {got:#x} where the host gets {want:#x}"
                )));
            }
        }
        Ok(None)
    }

    fn job(self, settings: &Settings) -> Job {
        let bytes = self.elements * 4 * self.shape.width();
        let defines = vec![
            "-DSCALAR=uint".to_owned(),
            format!("-DWIDTH={}", self.shape.width()),
            "-DLOCAL_WORDS=64".to_owned(),
            "-DCONFLICT=1".to_owned(),
        ];
        let fill = Fill::Kernel {
            source: Source::Memory,
            entry: "fill",
            defines: defines.clone(),
            args: vec![Arg::Buffer(1)],
            items: bytes / 4,
        };
        Job {
            defines,
            buffers: vec![self.groups * self.group * 4 * self.shape.width(), bytes],
            fills: vec![fill],
            args: vec![
                Arg::Buffer(0),
                Arg::Buffer(1),
                Arg::Trips,
                Arg::uint(self.mask()),
                Arg::uint(self.hop()),
            ],
            trips: Trips::Lasting(settings.launch_ns()),
            check_trips: 5,
            ..Job::new(Source::Memory, self.shape.entry(), (self.groups, self.group), move |o| {
                self.compare(o)
            })
        }
    }
}

impl Swept for Variant {
    fn axes(&self) -> &'static [Axis] {
        &[Axis::Size, Axis::Blocks, Axis::Tpb]
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let mut at = *self;
        match axis {
            Axis::Size => {
                at.elements = super::power_of_two(axis, value, 1 << 32)? / (4 * at.shape.width());
                if at.elements == 0 {
                    return Err(super::no_value(axis, "an element or more"));
                }
            }
            Axis::Blocks => at.groups = super::count(axis, value)?,
            // The walk over a working set needs groups of a power of two.
            _ => at.group = super::power_of_two(axis, value, super::MOST_ITEMS)?,
        }
        Ok(Rc::new(at))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let measured = bench.measure(&self.job(&bench.settings), false)?;
        let Measured { timing, geometry, .. } = &measured;
        let bytes =
            geometry.items() as f64 * f64::from(geometry.trips) * 4.0 * self.shape.width() as f64;
        let rate = Figure::new("bandwidth", "GB/s", timing.time_ns.mean.reciprocal(bytes));
        Ok(Gave::of_kernel(measured, vec![rate]))
    }
}

/// A launch without work: as the device's clock sees it, from one to the next, and with a wait.
fn launches(bench: &mut Bench<'_>, groups: usize, group: usize) -> Result<Gave, CaseError> {
    let buffers = bench.buffers(&[64])?;
    let geometry = Geometry { groups, group, trips: 0 };
    let args = [Arg::Buffer(0), Arg::uint(0)];
    let defines = WORDS.map(str::to_owned);
    let times = if bench.settings.tiny { 4 } else { LAUNCHES };
    let repeat = if bench.settings.tiny { 2 } else { 8 };
    let (mut spans, mut periods, mut waits) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..repeat {
        bench.check_stop()?;
        let row = |bench: &mut Bench<'_>, n| {
            bench.in_a_row(Source::Memory, "nothing", &defines, &args, &buffers, geometry, n)
        };
        periods.push(row(bench, times)?);
        for _ in 0..8 {
            waits.push(row(bench, 1)?);
            spans.push(bench.probe(
                Source::Memory,
                "nothing",
                &defines,
                &args,
                &buffers,
                geometry,
            )?);
        }
    }
    let of = |name: &str, values: &[f64]| {
        let summary = settled(values)?;
        // A launch that the system held up is no cost of launching.
        let median = summary.median;
        let around = around(median, summary.mean);
        Ok::<_, CaseError>(Figure::new(name, "ns", Interval { value: median, ..around }))
    };
    let figures = vec![of("empty", &spans)?, of("period", &periods)?, of("wait", &waits)?];
    Ok(Gave { figures, ..Gave::default() })
}

/// The values without the slow first ones, of which there are at most half, and two are left.
fn settled(values: &[f64]) -> Result<Summary, CaseError> {
    let most = (values.len() / 2).min(values.len().saturating_sub(2));
    let warm = stats::warm_up(values).min(most);
    let summary = stats::summarise(&values[warm..]).filter(|s| s.mean.low.is_finite());
    summary.ok_or_else(|| CaseError::NotAvailable {
        reason: format!("{} times are too few to tell an interval from", values.len()),
        log: None,
    })
}

/// The interval of a mean, moved to hold the median.
fn around(median: f64, mean: Interval) -> Interval {
    Interval::estimated(median, mean.low.min(median), mean.high.max(median))
}

/// Groups without work: the time of one after another on one compute unit.
fn groups(bench: &mut Bench<'_>, each: usize, group: usize) -> Result<Gave, CaseError> {
    let buffers = bench.buffers(&[64])?;
    let units = bench.facts().compute_units as usize;
    let args = [Arg::Buffer(0), Arg::uint(0)];
    let defines = WORDS.map(str::to_owned);
    let repeat = if bench.settings.tiny { 2 } else { 12 };
    let mut points = [Vec::new(), Vec::new()];
    for _ in 0..repeat {
        bench.check_stop()?;
        // The difference between many and twice as many is without the launch itself.
        for (n, times) in points.iter_mut().zip([each, 2 * each]) {
            let geometry = Geometry { groups: units * times, group, trips: 0 };
            n.push(bench.probe(Source::Memory, "nothing", &defines, &args, &buffers, geometry)?);
        }
    }
    let [one, two] = [settled(&points[0])?.mean, settled(&points[1])?.mean];
    let each = two.minus(one).times(1.0 / each as f64);
    if each.value <= 0.0 {
        return Err(CaseError::lacks(
            "twice as many groups take no longer than their launch varies",
        ));
    }
    Ok(Gave { figures: vec![Figure::new("group", "ns", each)], ..Gave::default() })
}

fn sizes(device: &DeviceFacts, settings: &Settings) -> Vec<usize> {
    let last = match (settings.tiny, device.kind) {
        (true, _) => 16,
        (_, DeviceKind::Gpu) => 30,
        _ => 28,
    };
    let most = device.largest_buffer.min(device.global_bytes / 8).max(1 << 16);
    (12..=last).filter(|e| 1u64 << e <= most).map(|e| 1usize << e).collect()
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let (groups_of, wanted) = geometry(device, settings);
    // The walk over a working set needs groups of a power of two.
    let group = 1usize << wanted.max(1).ilog2();
    let shapes: &[Shape] = match device.kind {
        DeviceKind::Cpu => &[Shape::Vectors, Shape::Along],
        _ => &[Shape::Items],
    };
    let each = sizes(device, settings).into_iter().flat_map(|bytes| {
        shapes.iter().map(move |shape| {
            let elements = bytes / (4 * shape.width());
            let group = if *shape == Shape::Vectors { 1 } else { group.min(elements) };
            let variant = Variant { elements, shape: *shape, groups: groups_of, group };
            let id = match shape {
                Shape::Along => format!("levels/working_set/{bytes}/along"),
                _ => format!("levels/working_set/{bytes}"),
            };
            Case::with_axes(id, SUITE.name, Rc::new(variant)).with([
                ("sweep", json!("working_set")),
                ("bytes", json!(bytes)),
                ("width", json!(shape.width())),
            ])
        })
    });
    let mut out: Vec<Case> = each.collect();
    let small = default_group(device, settings).min(64);
    let units = device.compute_units as usize;
    out.push(Case::new("levels/launch", SUITE.name, move |bench| launches(bench, units, small)));
    let each = match (settings.tiny, device.kind) {
        (true, _) => 4,
        (_, DeviceKind::Gpu) => 4096,
        _ => 256,
    };
    out.push(Case::new("levels/groups", SUITE.name, move |bench| groups(bench, each, small)));
    out.push(super::floor_case(SUITE.name, SUITE.name));
    out
}

/// A stretch of sizes with one bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plateau {
    /// Largest working set of it, bytes.
    pub bytes: f64,
    /// Median bandwidth, GB/s, with the range of its sizes.
    pub bandwidth: Interval,
}

/// Neighbours of a plateau differ by less than this share.
const LEVEL: f64 = 0.08;

/// The levels that a sweep of (bytes, GB/s) shows, nearest first: runs of three sizes or more, each
/// as fast as the one before. Sizes between lie on the way from one level to the next.
pub fn plateaus(points: &[(f64, f64)]) -> Vec<Plateau> {
    let mut out = Vec::new();
    let alike = |a: &(f64, f64), b: &(f64, f64)| (a.1 / b.1 - 1.0).abs() < LEVEL;
    for here in points.chunk_by(alike).filter(|run| run.len() >= 3) {
        let values: Vec<f64> = here.iter().map(|p| p.1).collect();
        let Some(median) = stats::median(&values) else { continue };
        let fold = |f: fn(f64, f64) -> f64, start| values.iter().copied().fold(start, f);
        // It may lean towards the next one: what still has nearly all of its bandwidth is inside.
        let most = values.iter().copied().fold(0.0, f64::max);
        let inside = here.iter().rev().find(|p| p.1 >= 0.95 * most);
        out.push(Plateau {
            bytes: inside.map_or(0.0, |p| p.0),
            bandwidth: Interval::estimated(
                median,
                fold(f64::min, f64::INFINITY),
                fold(f64::max, 0.0),
            ),
        });
    }
    out
}

/// (bytes, GB/s) of a run, in order of bytes.
pub fn sweep(results: &[CaseResult]) -> Vec<(f64, f64)> {
    let mut points = super::points(results, "working_set", "bytes", "bandwidth");
    // Of several ways to read a set, the fastest.
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    points.dedup_by_key(|p| p.0);
    points
}

fn conclude(_: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let found = plateaus(&sweep(results));
    let figures: Vec<Figure> = found
        .iter()
        .flat_map(|p| {
            let bytes = Interval::symmetric(p.bytes, 0.0);
            [Figure::new("bandwidth", "GB/s", p.bandwidth), Figure::new("up_to", "B", bytes)]
        })
        .collect();
    let text: Vec<String> = found
        .iter()
        .map(|p| {
            format!("{:.0} GB/s up to {}", p.bandwidth.value, clscope_io::text::bytes(p.bytes))
        })
        .collect();
    if text.is_empty() {
        return Vec::new();
    }
    vec![Finding::new(
        "levels/plateaus",
        format!("working sets: {}", text.join(", ")),
        figures,
        "runs of sizes with one bandwidth",
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_of_the_working_set_is_read() {
        // Groups begin side by side, and each goes on by an odd number of them.
        let v = Variant { elements: 1024, shape: Shape::Items, groups: 4, group: 64 };
        let mut seen = vec![false; 1024];
        for i in 0..64u32 {
            for j in 0..16u32 {
                seen[((i + j * v.hop()) & v.mask()) as usize] = true;
            }
        }
        assert!(seen.iter().all(|s| *s));
        assert_eq!(v.sum(3, 1, 1), word(13));
    }

    #[test]
    fn two_times_or_more_have_an_interval_however_slow_the_first_were() {
        for count in 2..20 {
            for slow in 0..=count {
                let times: Vec<f64> =
                    (0..count).map(|i| if i < slow { 1e9 } else { 100.0 + i as f64 }).collect();
                assert!(settled(&times).is_ok(), "{times:?}");
            }
        }
        assert!(settled(&[1.0]).is_err() && settled(&[]).is_err());
    }

    #[test]
    fn plateaus_are_the_levels() {
        let points: Vec<(f64, f64)> = (12..=30)
            .map(|e| {
                let gbs = match e {
                    ..=17 => 33_000.0,
                    18..=24 => 9_000.0,
                    25 | 26 => 6_000.0 - f64::from(e - 25) * 800.0,
                    _ => 4_300.0,
                };
                (f64::from(1 << e), gbs * (1.0 + 0.01 * f64::from(e % 3)))
            })
            .collect();
        let found = plateaus(&points);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0].bytes, f64::from(1 << 17));
        let last = found.last().unwrap().bandwidth;
        assert!((last.value / 4_300.0 - 1.0).abs() < 0.05, "{last:?}");
        assert!(plateaus(&[]).is_empty());
    }
}
