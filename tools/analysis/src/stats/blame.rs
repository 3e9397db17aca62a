//! Owns whose a time may be that a window holds beyond its commands and what usually lies between
//! them: a class is acquitted where timed commands of others took so much longer so often that it
//! is theirs with 95 %. Refuses to share the time out: what happens again and again has one cause,
//! and may be all one class's.

use super::windows::{Evidence, Window};
use crate::ids::IdMap;

/// Part of the time by which a timed command has to be longer to count as another one like it.
const LIKE: f64 = 0.5;
/// Probability from which on a class may be to blame.
const MAY: f64 = 0.05;

/// By how much timed commands of each class were longer than typical ones, in order.
#[derive(Debug, Clone, Default)]
pub struct Blame(IdMap<Vec<f64>>);

impl Blame {
    /// Of timed commands; `typical` gives the usual length of a class and geometry.
    pub fn of(evidence: &[Evidence], typical: &dyn Fn(u64, u32) -> Option<f64>) -> Self {
        let mut all: IdMap<Vec<f64>> = IdMap::default();
        for e in evidence {
            if let Some(usual) = typical(e.launch.class, e.launch.geometry) {
                all.entry(e.launch.class).or_default().push(e.duration - usual);
            }
        }
        all.values_mut().for_each(|of| of.sort_by(f64::total_cmp));
        Self(all)
    }

    /// Share of the commands of a class that are about so much longer than usual. One of which no
    /// timed command was counts as if half of one had been (Jeffreys' prior).
    fn longer(&self, class: u64, more: f64) -> f64 {
        let of = self.0.get(&class).map_or(&[][..], Vec::as_slice);
        let longer = of.len() - of.partition_point(|by| *by <= LIKE * more);
        (longer as f64 + 0.5) / (of.len() as f64 + 1.0)
    }

    /// Whether time that stands out of a window may be a class's.
    pub fn may_be(&self, class: u64, window: &Window, more: f64) -> bool {
        let (mut own, mut all) = (0.0, 0.0);
        for (launch, n) in &window.counts {
            let part = n * self.longer(launch.class, more);
            all += part;
            own += if launch.class == class { part } else { 0.0 };
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
        let blame = Blame::of(&all, &usual);
        let counts =
            vec![(Launch { class: 1, geometry: 0 }, 1.0), (Launch { class: 2, geometry: 0 }, 1.0)];
        let window = Window { counts, ..Window::default() };
        assert!(blame.may_be(2, &window, 1e6) && !blame.may_be(1, &window, 1e6));
        // What no timed command shows may be anyone's.
        assert!(blame.may_be(2, &window, 9e6) && blame.may_be(1, &window, 9e6));
        // A class alone is to blame.
        let alone =
            Window { counts: vec![(Launch { class: 1, geometry: 0 }, 4.0)], ..Window::default() };
        assert!(blame.may_be(1, &alone, 1e6));
    }
}
