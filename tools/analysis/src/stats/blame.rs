//! Owns whose a time may be that a window holds beyond its commands and what usually lies between
//! them: a class is acquitted where timed commands of others took so much longer so often, or so
//! much passed beside timed commands so often, that it is theirs, or nobody's, with 95 %. Refuses to
//! share the time out: what happens again and again has one cause, and may be all one class's.

use super::usual::{Usual, commands};
use super::windows::{Evidence, Window};
use crate::ids::IdMap;

/// Part of the time by which a timed command has to be longer to count as another one like it.
const LIKE: f64 = 0.5;
/// Probability from which on a class may be to blame.
const MAY: f64 = 0.05;

/// What timed commands show of each class.
#[derive(Debug, Clone, Default)]
pub struct Blame(IdMap<Seen>);

/// Of the timed commands of one class, in order, nanoseconds.
#[derive(Debug, Clone, Default)]
struct Seen {
    /// By how much they were longer than typical ones.
    longer: Vec<f64>,
    /// The longest of them.
    longest: f64,
    /// By how much more than usual passed beside those that were alone between their timed
    /// neighbours, while the queue was not empty: no command can have taken it.
    beside: Vec<f64>,
}

impl Blame {
    /// Of commands that were certain to be timed, in their order, and of those that chance chose;
    /// `typical` gives the usual length of a class and geometry, `usual` what usually passes in a
    /// window beside its commands.
    pub fn of(
        (certain, chosen): (&[Evidence], &[Evidence]),
        typical: &dyn Fn(u64, u32) -> Option<f64>,
        usual: Option<&Usual>,
    ) -> Self {
        let mut all: IdMap<Seen> = IdMap::default();
        // The first of a class is late for reasons of its own.
        let mut classes: IdMap<()> = IdMap::default();
        let later = certain.iter().filter(|e| classes.insert(e.launch.class, ()).is_some());
        for e in later.chain(chosen) {
            let Some(length) = typical(e.launch.class, e.launch.geometry) else { continue };
            let seen = all.entry(e.launch.class).or_default();
            seen.longer.push(e.duration - length);
            seen.longest = seen.longest.max(e.duration);
            let window = &e.window;
            if let Some(usual) = usual.filter(|_| commands(window) == 1.0 && !window.tainted) {
                seen.beside.push(window.busy() - e.duration - usual.of_window(window));
            }
        }
        for seen in all.values_mut() {
            seen.longer.sort_by(f64::total_cmp);
            seen.beside.sort_by(f64::total_cmp);
        }
        Self(all)
    }

    /// Share of the commands of a class that are about so much longer than usual, and of those
    /// beside which about so much passes. One of which no timed command was longer counts as if
    /// half of one had been (Jeffreys' prior), and less the further that is beyond the longest of
    /// them (Zipf's law, as of the tail of what holds a launch up); what was never seen beside one
    /// acquits nobody.
    fn shares(&self, class: u64, more: f64) -> (f64, f64) {
        let Some(Seen { longer, longest, beside }) = self.0.get(&class) else { return (0.5, 0.0) };
        let like = |of: &[f64]| (of.len() - of.partition_point(|by| *by <= LIKE * more)) as f64;
        let unseen = 0.5 * (longest / more.max(*longest).max(f64::MIN_POSITIVE));
        let own = (like(longer) + unseen) / (longer.len() as f64 + 1.0);
        (own, like(beside) / beside.len().max(1) as f64)
    }

    /// Whether time that stands out of a window may be a class's.
    pub fn may_be(&self, class: u64, window: &Window, more: f64) -> bool {
        let (mut own, mut all) = (0.0, 0.0);
        for (launch, n) in &window.counts {
            let (longer, beside) = self.shares(launch.class, more);
            all += n * (longer + beside);
            own += if launch.class == class { n * longer } else { 0.0 };
        }
        own >= MAY * all
    }
}

#[cfg(test)]
mod tests {
    use super::super::windows::Launch;
    use super::*;

    fn evidence(class: u64, durations: impl Iterator<Item = f64>) -> Vec<Evidence> {
        let launch = Launch { class, geometry: 0 };
        durations
            .map(|duration| Evidence { launch, duration, weight: 9.0, window: Window::default() })
            .collect()
    }

    #[test]
    fn a_class_is_acquitted_where_another_was_often_seen_to_last_so_long() {
        // Of 500 transfers 20 take a millisecond longer; launches never do.
        let transfers = (0..500).map(|i| if i % 25 == 0 { 1.2e6 } else { 2e5 });
        let all = [evidence(1, (0..500).map(|_| 1e4)), evidence(2, transfers)].concat();
        let usual = |class, _| Some(if class == 1 { 1e4 } else { 2e5 });
        let blame = Blame::of((&[], &all), &usual, None);
        let counts =
            vec![(Launch { class: 1, geometry: 0 }, 1.0), (Launch { class: 2, geometry: 0 }, 1.0)];
        let window = Window { counts, ..Window::default() };
        assert!(blame.may_be(2, &window, 1e6) && !blame.may_be(1, &window, 1e6));
        // What no timed command shows may be anyone's that was nearly as long.
        assert!(blame.may_be(2, &window, 9e6) && !blame.may_be(1, &window, 9e6));
        let lengths = |length: f64| (0..500).map(move |_| length);
        let all = [evidence(1, lengths(1e4)), evidence(2, lengths(2e4))].concat();
        let usual = |class, _| Some(if class == 1 { 1e4 } else { 2e4 });
        let even = Blame::of((&[], &all), &usual, None);
        assert!(even.may_be(2, &window, 9e6) && even.may_be(1, &window, 9e6));
        // A class alone is to blame.
        let alone =
            Window { counts: vec![(Launch { class: 1, geometry: 0 }, 4.0)], ..Window::default() };
        assert!(blame.may_be(1, &alone, 1e6));
    }

    #[test]
    fn a_class_is_acquitted_where_as_much_passed_beside_timed_commands() {
        // Twelve transfers and twelve launches in a hundred were held up before they began, for a
        // quarter of a millisecond and for 60 us.
        let of = |class, length: f64, late: f64| {
            evidence(class, (0..100).map(move |_| length)).into_iter().enumerate().map(
                move |(i, mut e)| {
                    let available = length + if i % 8 == 0 { late } else { 2_000.0 };
                    let counts = vec![(e.launch, 1.0)];
                    e.window = Window { available, full: available, counts, ..Window::default() };
                    e
                },
            )
        };
        let all: Vec<Evidence> = of(1, 1e4, 6e4).chain(of(2, 2e5, 2.5e5)).collect();
        let typical = |class, _| Some(if class == 1 { 1e4 } else { 2e5 });
        let usual = Usual::of(all.iter().map(|e| (&e.window, 2_000.0)));
        let blame = Blame::of((&[], &all), &typical, usual.as_ref());
        let alone = |class| {
            let counts = vec![(Launch { class, geometry: 0 }, 1.0)];
            Window { counts, ..Window::default() }
        };
        assert!(!blame.may_be(1, &alone(1), 5e4) && !blame.may_be(2, &alone(2), 2e5));
        // What passes beside transfers says nothing about launches.
        assert!(blame.may_be(1, &alone(1), 2e5));
        // Without windows that tell it, nothing is acquitted.
        let blame = Blame::of((&[], &all), &typical, None);
        assert!(blame.may_be(1, &alone(1), 5e4));
    }
}
