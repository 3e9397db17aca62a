//! Owns what a kernel's row opens to: the distribution of its lengths, its length over time, its
//! launches by size and by place, its build options. Refuses to estimate: launches are all of them,
//! times are those of the timed ones, and both numbers are there.

use super::html::cut;
use clscope_analysis::event::{Event, Outcome};
use clscope_analysis::time::ProcessIndex;
use clscope_profile::profile::View;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Points of a length over time.
const POINTS: usize = 400;
/// Sizes and places of one kernel that are kept; the rest is summed up.
const KINDS: usize = 40;

/// Launches and the time of those that were timed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Sum {
    /// All launches.
    pub count: u64,
    /// Those of them that were timed.
    pub timed: u64,
    /// Time of the timed ones, ns.
    pub total: u128,
}

impl Sum {
    fn add(&mut self, length: Option<u64>) {
        self.plus(Self {
            count: 1,
            timed: length.is_some().into(),
            total: length.map_or(0, u128::from),
        });
    }

    fn plus(&mut self, other: Self) {
        self.count += other.count;
        self.timed += other.timed;
        self.total += other.total;
    }
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
    /// All of its launches.
    pub all: Sum,
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
    /// A timed launch.
    fn length(&mut self, length: u64) {
        let bin = if length == 0 { 0 } else { (4.0 * (length as f64).log2()).floor() as u32 };
        *self.lengths.entry(bin).or_default() += 1;
    }

    /// A timed launch whose place in time is known.
    fn point(&mut self, at: i64, length: u64) {
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

/// What has no name in a trace.
const UNKNOWN: &str = "not recorded";

/// Sums by name: the largest, and the rest as one. Empty where nothing has a name.
fn largest(named: BTreeMap<String, Sum>) -> BTreeMap<String, Sum> {
    if named.keys().all(|name| name == UNKNOWN) {
        return BTreeMap::new();
    }
    let mut rows: Vec<(String, Sum)> = named.into_iter().collect();
    rows.sort_by_key(|(_, sum)| std::cmp::Reverse((sum.total, sum.count)));
    let mut out = BTreeMap::new();
    for (i, (name, sum)) in rows.into_iter().enumerate() {
        let name = if i < KINDS { name } else { "others".to_owned() };
        out.entry(name).or_insert_with(Sum::default).plus(sum);
    }
    out
}

/// Sums by a process's ids, of which a trace has as many as definitions.
type ById = HashMap<(u32, u32), Sum>;

/// The same by what the ids stand for.
fn by_name(sums: &ById, name: impl Fn(u32, u32) -> Option<String>) -> BTreeMap<String, Sum> {
    let mut named: BTreeMap<String, Sum> = BTreeMap::new();
    for ((process, id), sum) in sums {
        let name = name(*process, *id).unwrap_or_else(|| UNKNOWN.to_owned());
        named.entry(name).or_default().plus(*sum);
    }
    largest(named)
}

/// A kernel and its device.
pub type Key = (String, String);

/// Of the kernels that are wanted, all in one pass.
pub fn details_of(view: &View<'_>, origin: i64, wanted: &BTreeSet<Key>) -> BTreeMap<Key, Details> {
    let trace = view.trace();
    let mut keys: BTreeMap<Key, usize> = BTreeMap::new();
    let mut out: Vec<(Details, ById, ById)> = Vec::new();
    let by = view.grouping();
    let variant = by.variant();
    // What decides the row, so that names are looked up once.
    let mut known: HashMap<(u32, u32, u32, u32), Option<usize>> = HashMap::new();
    for event in trace.events(Some(view.alignment())) {
        let Event::Command(command) = event else { continue };
        let record = &command.enqueued.record;
        if !record.kind.is_kernel() {
            continue;
        }
        let process = command.process.0;
        let definitions = &trace.process(command.process).definitions;
        let variant = variant.map_or(0, |of| of(record));
        let of = (process, record.object, record.queue, variant);
        let at = *known.entry(of).or_insert_with(|| {
            let device = definitions.queues.get(&record.queue).map_or(0, |queue| queue.device);
            let name = by.name(trace, command.process, record.object, variant);
            let key = (name, definitions.device_name(device).into_owned());
            wanted.contains(&key).then(|| {
                *keys.entry(key).or_insert_with(|| {
                    let kernel = definitions.kernel_name(record.object).into_owned();
                    let details = Details { kernel, ..Details::default() };
                    out.push((details, ById::new(), ById::new()));
                    out.len() - 1
                })
            })
        });
        let Some((details, sizes, places)) = at.and_then(|at| out.get_mut(at)) else { continue };
        let times = match &command.outcome {
            Outcome::Timed(times) => Some(times),
            _ => None,
        };
        let length = times.map(|times| times.duration());
        details.all.add(length);
        sizes.entry((process, record.geometry)).or_default().add(length);
        places.entry((process, record.site)).or_default().add(length);
        if let Some(length) = length {
            details.length(length);
            if let Some(placed) = times.and_then(|times| times.placed.as_ref()) {
                details.point(placed.stamps[2].0.saturating_sub(origin), length);
            }
        }
        let program = definitions.kernels.get(&record.object).map(|k| k.program);
        if let Some(options) = program.and_then(|p| definitions.build_options.get(&p))
            && details.options.len() < KINDS
            && !details.options.contains(options)
        {
            details.options.insert(options.clone());
        }
    }
    let size = |process: u32, id: u32| {
        let g = trace.process(ProcessIndex(process)).definitions.geometries.get(&id)?;
        let d = (g.dimensions as usize).min(3);
        let shown = |sizes: &[u64; 3]| {
            sizes[..d].iter().map(u64::to_string).collect::<Vec<_>>().join(" × ")
        };
        let local = g.local.as_ref().map_or("chosen by the runtime".to_owned(), shown);
        Some(format!("{}, local {local}", shown(&g.global)))
    };
    let place = |process: u32, id: u32| {
        view.sites().get(ProcessIndex(process), id).map(|site| cut(&site.name))
    };
    let named = |(key, at): (Key, usize)| {
        let (details, sizes, places) = out.get_mut(at).map(std::mem::take)?;
        let (sizes, places) = (by_name(&sizes, size), by_name(&places, place));
        Some((key, Details { sizes, places, ..details }))
    };
    keys.into_iter().filter_map(named).collect()
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
            let length = length[usize::from(i == 70_001) + 2 * usize::from(i == 33)];
            details.length(length);
            details.point(i as i64, length);
        }
        assert!(details.over_time.len() < 2 * POINTS && details.over_time.len() >= POINTS);
        assert!(details.over_time.windows(2).all(|w| w[0].high.0 < w[1].low.0));
        assert!(details.over_time.iter().any(|few| few.high == (70_001, 90_000)));
        assert!(details.over_time.iter().any(|few| few.low == (33, 10)));
        assert_eq!(details.over_time.iter().map(|few| few.count).sum::<u64>(), 100_000);
        assert_eq!(details.lengths.values().sum::<u64>(), 100_000);
    }

    #[test]
    fn of_many_sizes_the_largest_stay_and_no_launch_is_lost() {
        let mut sums = ById::new();
        for i in 0..100_000u32 {
            // Of each kind every second one was timed; kind 99 takes longest, and id 7 has no name.
            let length = (i / 100 % 2 == 0).then_some(u64::from(i % 100));
            sums.entry((0, i % 100)).or_default().add(length);
        }
        let named = by_name(&sums, |_, id| (id != 7).then(|| format!("size {id}")));
        assert_eq!(named.len(), KINDS + 1);
        assert!(named.contains_key("size 99") && !named.contains_key("size 0"), "{named:?}");
        let all = named.values().fold(Sum::default(), |mut all, sum| {
            all.plus(*sum);
            all
        });
        assert_eq!(all, Sum { count: 100_000, timed: 50_000, total: 500 * (0..100).sum::<u128>() });
        assert_eq!(named["size 99"], Sum { count: 1_000, timed: 500, total: 500 * 99 });
        assert!(by_name(&sums, |_, _| None).is_empty(), "nothing is named");
    }
}
