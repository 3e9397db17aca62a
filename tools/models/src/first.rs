//! Launches that say little of what a change of the kernel would save: first ones that take much
//! longer than those after them, since some runtimes compile or prepare a kernel within its device
//! time, and those that began when the recorder had let the device rest. Owns the choice of which
//! launches these are, and how far others confirm it; refuses to leave any out of a total.

use crate::figure::Figure;
use crate::kernel::First;
use clscope_analysis::Trace;
use clscope_analysis::event::{Command, Outcome};
use clscope_analysis::time::{HostNs, Span, Ticks};
use clscope_trace::defs::Capture;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How many times the median of those after it a first launch takes to be set apart.
const LONGER: f64 = 10.0;
/// Share of all launches' time below which it is not worth a word.
const LEAST_SHARE: f64 = 0.01;
/// Launches after the first that confirm each other: one alone may be an outlier itself.
const CONFIRMED: usize = 2;
/// Most of them that are looked at.
const MOST_LATER: usize = 255;
/// Most programs and geometries of a kernel that are looked at.
const MOST_STARTS: usize = 256;

/// What a runtime compiles for: process, program, geometry.
type Of = (u32, u32, u32);

/// Launches of one program and geometry, ns.
#[derive(Debug, Default)]
struct Start {
    /// Of the first, and whether it was held up; `None` where it was not timed for certain.
    first: Option<(u64, bool)>,
    /// Later ones that were held up, and those that were not.
    held_up: Vec<u64>,
    later: Vec<u64>,
}

/// What is set apart of a start, ns.
#[derive(Debug, Clone, Copy, Default)]
struct Apart {
    launches: u64,
    held_up: u64,
    excess: f64,
}

impl Start {
    /// What the first took beyond the others, where that is much, and what those did that were held up.
    fn apart(&self) -> Option<Apart> {
        let mut later = self.later.clone();
        later.sort_unstable();
        // Of an even number the upper one, so that half of the others are no longer.
        let median = *later.get(later.len() / 2)? as f64;
        let longer = |ns: u64| ns as f64 - median;
        let (first, first_held) = match self.first {
            Some((ns, _)) if ns as f64 > LONGER * median => (Some(ns), None),
            Some((ns, true)) => (None, Some(ns)),
            _ => (None, None),
        };
        let held = || self.held_up.iter().copied().chain(first_held);
        let of_held = held().map(longer).sum::<f64>().max(0.0);
        Some(Apart {
            launches: first.iter().len() as u64,
            held_up: if of_held > 0.0 { held().count() as u64 } else { 0 },
            excess: first.map_or(0.0, longer) + of_held,
        })
    }

    /// Launches that were timed.
    fn timed(&self) -> usize {
        usize::from(self.first.is_some()) + self.held_up.len() + self.later.len()
    }
}

/// All launches of a kernel.
#[derive(Debug, Default)]
pub(crate) struct Starts(HashMap<Of, Start>);

impl Starts {
    /// Adds a launch, in the order in which they were enqueued, with its device time where it was
    /// timed for certain, and whether it was held up.
    pub(crate) fn add(&mut self, of: Of, ns: Option<u64>, is_held_up: bool) {
        if let Some(start) = self.0.get_mut(&of) {
            let all = if is_held_up { &mut start.held_up } else { &mut start.later };
            if let Some(ns) = ns.filter(|_| all.len() < MOST_LATER) {
                all.push(ns);
            }
        } else if self.0.len() < MOST_STARTS {
            let first = ns.map(|ns| (ns, is_held_up));
            self.0.insert(of, Start { first, ..Start::default() });
        }
    }

    /// What sets first launches apart, and those that were held up, by the mean of all and how many
    /// that is of. The only launch of a kernel may be one as well.
    pub(crate) fn first(&self, mean: Figure, launches: f64) -> Option<First> {
        if launches <= 1.0 && self.0.values().map(Start::timed).sum::<usize>() == 1 {
            let excess_ns = Figure::new(0.0, 0.0, mean.high, mean.evidence);
            let later_ns = Figure { low: 0.0, ..mean };
            return Some(First { launches: 1, held_up: 0, others: 0, excess_ns, later_ns });
        }
        let found = || self.0.values().filter_map(|start| Some((start, start.apart()?)));
        let found = || found().filter(|(_, apart)| apart.excess > 0.0);
        let excess: f64 = found().map(|of| of.1.excess).sum();
        let others = found().map(|of| of.0.later.len()).min()?;
        if launches <= 0.0 || excess < LEAST_SHARE * mean.value * launches {
            return None;
        }
        // What one launch alone shows may be no excess at all.
        let confirmed = found().filter(|of| of.0.later.len() >= CONFIRMED);
        let confirmed: f64 = confirmed.map(|of| of.1.excess).sum();
        let without = |ns: f64, excess: f64| (ns - excess / launches).max(0.0);
        let later_ns = Figure {
            value: without(mean.value, excess),
            low: without(mean.low, excess),
            high: without(mean.high, confirmed),
            ..mean
        };
        let excess_ns = Figure::new(excess, confirmed, excess, mean.evidence);
        let launches = found().map(|of| of.1.launches).sum();
        let held_up = found().map(|of| of.1.held_up).sum();
        Some(First { launches, held_up, others: others as u64, excess_ns, later_ns })
    }
}

/// A device that rested so long, ns, begins later: an H200 by 15 us behind 20 ms. Judged.
const RESTED: u64 = 1_000_000;

/// When the recorder read copies of captured launches' memory in a process, while the device rested.
pub(crate) struct Readings {
    when: Vec<Span>,
    /// Commands that were captured: copies ran right before them.
    captured: HashSet<u64>,
    /// When the host knew the last command of a device complete.
    ended: BTreeMap<u32, HostNs>,
}

impl Readings {
    /// Of each process of a trace.
    pub(crate) fn of_all(trace: &Trace<'_>) -> Vec<Self> {
        let each = trace.processes.iter().zip(&trace.timeline.clocks);
        each.map(|(process, clock)| {
            let captures = || process.definitions.captures.iter().filter(|c| !c.copies.is_empty());
            let mut hint = 0;
            let mut at = |ticks: u64| clock.at(Ticks(ticks), &mut hint);
            let when = captures().filter(|c| c.seen > c.begun);
            // Copies are kept behind the moment at which all were seen to have ended.
            let kept = |c: &Capture| c.seen.saturating_add(c.took);
            let when = when.map(|c| Span { begin: at(c.begun), end: at(kept(c)) }).collect();
            let captured = captures().filter_map(|c| c.command).collect();
            Self { when: Span::join(when), captured, ended: BTreeMap::new() }
        })
        .collect()
    }

    /// Whether a command began when the device had rested, and the recorder read for most of that.
    pub(crate) fn has_held_up(&mut self, device: u32, command: &Command) -> bool {
        let Outcome::Timed(times) = &command.outcome else { return false };
        let (id, begin) = (command.enqueued.record.id, command.call.begin);
        self.is_behind_rest(device, id, Span { begin, end: times.observed })
    }

    /// The same of a command by its number, and from its enqueue to when the host knew it complete.
    fn is_behind_rest(&mut self, device: u32, id: u64, of: Span) -> bool {
        let Some(begin) = self.ended.insert(device, of.end) else { return false };
        let rest = Span { begin, end: of.begin };
        let is_behind_copies = self.captured.contains(&id);
        rest.duration() >= RESTED
            && !is_behind_copies
            && rest.within(&self.when) > rest.duration() / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Evidence;
    use proptest::prelude::*;

    const COMPILED: Of = (0, 1, 1);

    fn of(launches: &[(Of, u64)]) -> Option<First> {
        let mut starts = Starts::default();
        launches.iter().for_each(|(of, ns)| starts.add(*of, Some(*ns), false));
        let n = launches.len() as f64;
        let mean = launches.iter().map(|(_, ns)| *ns as f64).sum::<f64>() / n;
        starts.first(Figure::exact(mean, Evidence::Measured), n)
    }

    #[test]
    fn a_first_launch_beyond_the_others_is_set_apart() {
        // 25 ms of compilation in the mean of five launches of 3.4 us.
        let launches = [125_000_000, 3_400, 3_000, 3_400, 3_800].map(|ns| (COMPILED, ns));
        let first = of(&launches).unwrap();
        assert_eq!((first.launches, first.others, first.excess_ns.value), (1, 4, 124_996_600.0));
        assert_eq!(first.excess_ns.low, first.excess_ns.high);
        assert!((first.later_ns.value - 3_400.0).abs() < 1.0, "{first:?}");
        assert_eq!(first.later_ns.evidence, Evidence::Measured);
        // The same launches in another order are a slow one among others.
        let mut turned = launches;
        turned.swap(0, 3);
        assert_eq!(of(&turned), None);
    }

    #[test]
    fn launches_that_vary_and_those_without_others_stay_in_the_mean() {
        assert_eq!(of(&[30_000, 3_400, 3_000, 3_800].map(|ns| (COMPILED, ns))), None);
        // Nor is another size a first launch of this one.
        let sizes = [((0, 1, 1), 9_000_000), ((0, 1, 2), 10), ((0, 1, 3), 10), ((0, 1, 4), 10)];
        assert_eq!(of(&sizes), None);
        // Too little of the whole to be worth a word.
        let mut many = vec![(COMPILED, 50); 100_000];
        many[0].1 = 40_000;
        assert_eq!(of(&many), None);
    }

    #[test]
    fn each_program_and_geometry_has_its_first_launch() {
        let one = [4_000_000, 1_000, 1_000].map(|ns| ((0, 1, 1), ns));
        let other = [6_000_000, 2_000, 2_000].map(|ns| ((0, 2, 1), ns));
        let first = of(&[one, other].concat()).unwrap();
        assert_eq!((first.launches, first.excess_ns.value), (2, 9_997_000.0));
        assert!((first.later_ns.value - 1_500.0).abs() < 1e-6, "{first:?}");
    }

    #[test]
    fn a_first_launch_that_was_not_timed_says_nothing() {
        let mut starts = Starts::default();
        for ns in [None, Some(9_000_000), Some(10), Some(10)] {
            starts.add(COMPILED, ns, false);
        }
        assert_eq!(starts.first(Figure::exact(2_250_005.0, Evidence::Measured), 4.0), None);
    }

    /// A rest of the application's own is none of the recorder's, nor one of another device.
    #[test]
    fn only_rests_in_which_the_recorder_read_hold_up() {
        const MS: i64 = 1_000_000;
        let ms = |begin: i64, end: i64| Span { begin: HostNs(MS * begin), end: HostNs(MS * end) };
        let mut of = Readings {
            when: vec![ms(10, 30)],
            captured: HashSet::from([4]),
            ended: BTreeMap::new(),
        };
        let commands = [
            (1, 1, 0, 5),
            (1, 2, 9, 12),
            (1, 3, 28, 29),
            (2, 9, 29, 30),
            (1, 4, 31, 32),
            (1, 5, 50, 51),
        ];
        let found =
            commands.map(|(device, id, begin, end)| of.is_behind_rest(device, id, ms(begin, end)));
        assert_eq!(found, [false, false, true, false, false, false]);
    }

    proptest! {
        /// What launches take longer that were held up is no time of the kernel, as long as there are others.
        #[test]
        fn launches_that_were_held_up_do_not_stand_for_the_others(
            longer in proptest::collection::vec(2u64..9, 0..6),
            others in 2usize..9,
        ) {
            let mut starts = Starts::default();
            let all: Vec<(u64, bool)> = longer
                .iter()
                .map(|times| (1_000 * times, true))
                .chain(std::iter::repeat_n((1_000, false), others + 1))
                .collect();
            all.iter().for_each(|(ns, is)| starts.add(COMPILED, Some(*ns), *is));
            let n = all.len() as f64;
            let mean = all.iter().map(|of| of.0 as f64).sum::<f64>() / n;
            let found = starts.first(Figure::exact(mean, Evidence::Measured), n);
            let Some(found) = found else {
                prop_assert!(longer.is_empty());
                return Ok(());
            };
            prop_assert_eq!((found.launches, found.held_up), (0, longer.len() as u64));
            prop_assert!((found.later_ns.value - 1_000.0).abs() < 1e-6, "{found:?}");
        }

        /// What no other launch confirms has all between in its interval: of two launches that
        /// differ much, and of one.
        #[test]
        fn what_no_other_launch_confirms_is_not_certain(
            later in proptest::collection::vec(1u64..100, 0..5),
            times in 1u64..100_000,
        ) {
            let first = later.iter().copied().max().unwrap_or(1) * times;
            let all: Vec<(Of, u64)> =
                std::iter::once(first).chain(later.iter().copied()).map(|ns| (COMPILED, ns)).collect();
            let mean = all.iter().map(|(_, ns)| *ns as f64).sum::<f64>() / all.len() as f64;
            let Some(found) = of(&all) else {
                prop_assert!(!later.is_empty() && times <= 1000);
                return Ok(());
            };
            prop_assert_eq!(found.others, later.len() as u64);
            let Figure { low, value, high, .. } = found.later_ns;
            prop_assert!(low <= value && value <= high && high <= mean, "{found:?}");
            match later.len() {
                0 => prop_assert!(low == 0.0 && high == mean),
                1 => prop_assert!(value <= 2.0 * later[0] as f64 && high == mean, "{found:?}"),
                _ => prop_assert!(low == high),
            }
        }
    }
}
