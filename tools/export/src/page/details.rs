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

/// Of one kernel on one device.
#[derive(Debug, Default)]
pub struct Details {
    /// Launches by quarter octave of their length: the lower end of bin n is 2^(n/4) ns.
    pub lengths: BTreeMap<u32, u64>,
    /// Time since the origin and length, ns; every so many launches, so that there are few.
    pub over_time: Vec<(i64, u64)>,
    step: u64,
    seen: u64,
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
        if self.seen.is_multiple_of(self.step) {
            self.over_time.push((at, length));
        }
        self.seen += 1;
        if self.over_time.len() == 2 * POINTS {
            let mut keep = false;
            self.over_time.retain(|_| {
                keep = !keep;
                keep
            });
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
    let mut known: BTreeMap<(u32, u32, u32), Option<Key>> = BTreeMap::new();
    for event in trace.events(Some(view.alignment())) {
        let Event::Command(command) = event else { continue };
        let record = &command.enqueued.record;
        let Outcome::Timed(times) = &command.outcome else { continue };
        let Some(placed) = times.placed.as_ref().filter(|_| record.kind.is_kernel()) else {
            continue;
        };
        let definitions = &trace.process(command.process).definitions;
        let of = (command.process.0, record.object, record.queue);
        let key = known.entry(of).or_insert_with(|| {
            let device = definitions.clock_device(record.queue).unwrap_or(0);
            let name = definitions.kernel_name(record.object).into_owned();
            let key = (name, definitions.device_name(device).into_owned());
            wanted.contains(&key).then_some(key)
        });
        let Some(key) = key else { continue };
        if !out.contains_key(key) {
            out.insert(key.clone(), Details::default());
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
            details.add(i as i64, 1_000 + i % 7);
            count(&mut details.sizes, format!("{}", i % 100), 1);
        }
        assert!(details.over_time.len() < 2 * POINTS && details.over_time.len() >= POINTS);
        assert!(details.over_time.windows(2).all(|w| w[0].0 < w[1].0));
        assert_eq!(details.lengths.values().sum::<u64>(), 100_000);
        assert_eq!(details.sizes.values().map(|s| s.count).sum::<u64>(), 100_000);
        assert_eq!(details.sizes.len(), KINDS + 1);
    }
}
