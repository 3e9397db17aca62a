//! Owns what a kernel's row opens to: the distribution of its lengths, its length over time, its
//! launches by size and by place, its build options. Refuses to estimate: all of it is of timed
//! launches.
#![forbid(unsafe_code)]

use super::html::cut;
use clscope_analysis::event::{Event, Outcome};
use clscope_analysis::time::ProcessIndex;
use clscope_profile::profile::View;
use std::collections::{BTreeMap, BTreeSet};

/// Points of a length over time.
const POINTS: usize = 400;
/// Sizes and places of one kernel that are kept; the rest is summed up.
const KINDS: usize = 40;

/// Launches and their time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// Timed launches.
    pub count: u64,
    /// Their time, ns.
    pub total: u128,
}

/// When a launch began, ns since the origin, and its length, ns.
type Point = (i64, u64);

/// Some launches in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Few {
    /// The shortest.
    pub low: Point,
    /// The longest.
    pub high: Point,
    /// How many.
    count: u64,
}

impl Few {
    fn and(self, other: Self) -> Self {
        Self {
            low: std::cmp::min_by_key(self.low, other.low, |p| p.1),
            high: std::cmp::max_by_key(other.high, self.high, |p| p.1),
            count: self.count + other.count,
        }
    }
}

/// Of one kernel on one device.
#[derive(Debug, Default)]
pub struct Details {
    /// Launches by quarter octave of their length: the lower end of bin n is 2^(n/4) ns.
    pub lengths: BTreeMap<u32, u64>,
    /// The shortest and the longest of every so many launches: there are few, and none that stands
    /// out is missing.
    pub over_time: Vec<Few>,
    step: u64,
    /// The kernel's name, without what else tells rows apart.
    pub kernel: String,
    /// By global and local size.
    pub sizes: BTreeMap<String, Sum>,
    /// By place in the application.
    pub places: BTreeMap<String, Sum>,
    /// Options that its programs were built with.
    pub options: BTreeSet<String>,
}

impl Details {
    fn add(&mut self, at: i64, length: u64) {
        let bin = if length == 0 { 0 } else { (4.0 * (length as f64).log2()).floor() as u32 };
        *self.lengths.entry(bin).or_default() += 1;
        self.step = self.step.max(1);
        let one = Few { low: (at, length), high: (at, length), count: 1 };
        match self.over_time.last_mut().filter(|few| few.count < self.step) {
            Some(few) => *few = few.and(one),
            None => self.over_time.push(one),
        }
        if self.over_time.len() == 2 * POINTS {
            let pairs = self.over_time.chunks(2);
            let joined = pairs.filter_map(|pair| pair.iter().copied().reduce(Few::and));
            self.over_time = joined.collect();
            self.step *= 2;
        }
    }
}

fn count(of: &mut BTreeMap<String, Sum>, key: String, length: u64) {
    let key = if of.len() < KINDS || of.contains_key(&key) { key } else { "others".to_owned() };
    let sum = of.entry(key).or_default();
    sum.count += 1;
    sum.total += u128::from(length);
}

/// A kernel and its device.
pub type Key = (String, String);

/// Of the kernels that are wanted, all in one pass.
pub fn details_of(view: &View<'_>, origin: i64, wanted: &BTreeSet<Key>) -> BTreeMap<Key, Details> {
    let trace = view.trace();
    let mut out: BTreeMap<Key, Details> = BTreeMap::new();
    let by = view.row_grouping();
    let variant = by.variant();
    let mut known: BTreeMap<(u32, u32, u32, u32), Option<Key>> = BTreeMap::new();
    for event in trace.events(Some(view.alignment())) {
        let Event::Command(command) = event else { continue };
        let record = &command.enqueued.record;
        let Outcome::Timed(times) = &command.outcome else { continue };
        let Some(placed) = times.placed.as_ref().filter(|_| record.kind.is_kernel()) else {
            continue;
        };
        let definitions = &trace.process(command.process).definitions;
        let variant = variant.map_or(0, |of| of(record));
        let of = (command.process.0, record.object, record.queue, variant);
        let key = known.entry(of).or_insert_with(|| {
            let device = definitions.clock_device(record.queue).unwrap_or(0);
            let name = by.name(trace, command.process, record.object, variant);
            let key = (name, definitions.device_name(device).into_owned());
            wanted.contains(&key).then_some(key)
        });
        let Some(key) = key else { continue };
        if !out.contains_key(key) {
            let kernel = definitions.kernel_name(record.object).into_owned();
            out.insert(key.clone(), Details { kernel, ..Details::default() });
        }
        let Some(details) = out.get_mut(key) else { continue };
        let length = times.duration();
        details.add(placed.stamps[2].0 - origin, length);
        if let Some(g) = definitions.geometries.get(&record.geometry) {
            let d = (g.dimensions as usize).min(3);
            let shown = |sizes: &[u64; 3]| {
                sizes[..d].iter().map(u64::to_string).collect::<Vec<_>>().join(" × ")
            };
            let local = g.local.as_ref().map_or("chosen by the runtime".to_owned(), shown);
            count(&mut details.sizes, format!("{}, local {local}", shown(&g.global)), length);
        }
        if let Some(site) = view.sites().get(ProcessIndex(of.0), record.site) {
            count(&mut details.places, cut(&site.name), length);
        }
        let program = definitions.kernels.get(&record.object).map(|k| k.program);
        if let Some(options) = program.and_then(|p| definitions.build_options.get(&p))
            && details.options.len() < KINDS
            && !details.options.contains(options)
        {
            details.options.insert(options.clone());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_launches_keep_few_points_and_every_length() {
        let mut details = Details::default();
        for i in 0..100_000u64 {
            // One launch that was slow, and one that was fast.
            let length = [1_000 + i % 7, 90_000, 10];
            details.add(i as i64, length[usize::from(i == 70_001) + 2 * usize::from(i == 33)]);
            count(&mut details.sizes, format!("{}", i % 100), 1);
        }
        assert!(details.over_time.len() < 2 * POINTS && details.over_time.len() >= POINTS);
        assert!(details.over_time.windows(2).all(|w| w[0].high.0 < w[1].low.0));
        assert!(details.over_time.iter().any(|few| few.high == (70_001, 90_000)));
        assert!(details.over_time.iter().any(|few| few.low == (33, 10)));
        assert_eq!(details.over_time.iter().map(|few| few.count).sum::<u64>(), 100_000);
        assert_eq!(details.lengths.values().sum::<u64>(), 100_000);
        assert_eq!(details.sizes.values().map(|s| s.count).sum::<u64>(), 100_000);
        assert_eq!(details.sizes.len(), KINDS + 1);
    }
}
