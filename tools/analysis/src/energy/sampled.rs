//! Owns the placing of launches that were not timed: with sampled device timing every launch is
//! known, in order, but only some have stamps. Between two timed launches of an in-order queue the
//! others must fit, each about as long as the timed launches of its class. Commands of an
//! out-of-order queue may run at once: there the starts must fit between those of timed ones, and
//! lengths are kept. Refuses launches whose class was never timed: they stay unplaced.

use super::activity::{Span, Timing};
use super::units::{ClassId, DeviceIndex, HostNs};
use crate::ids::IdMap;
use crate::quantile::median;

/// One launch on a queue, in the order of enqueueing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// What was launched.
    pub class: ClassId,
    /// What within its class is about as long: of kernels their geometry, of transfers their size.
    pub alike: u32,
    /// How many launches a timed one stands for: one over the probability with which it was chosen.
    pub weight: f64,
    /// On which device.
    pub device: DeviceIndex,
    /// When the host enqueued it: it did not start before.
    pub enqueued: HostNs,
    /// Start and end, when it was timed.
    pub timed: Option<(HostNs, HostNs)>,
}

impl Launch {
    fn span(&self, start: HostNs, end: HostNs, timing: Timing) -> Span {
        Span { class: self.class, device: self.device, start, end, timing }
    }
}

/// Mean and standard deviation of a class's timed lengths, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Length {
    count: u64,
    weights: f64,
    mean: f64,
    squares: f64,
    longest: f64,
}

/// By how much the longest timed launch exceeds the mean where launches of a class differ: one that
/// was not timed may have been as long.
const DIFFER: f64 = 1.25;

impl Length {
    /// West's update of a weighted mean (Communications of the ACM 22, 1979, page 532).
    fn add(&mut self, value: f64, weight: f64) {
        self.count += 1;
        self.weights += weight;
        let before = value - self.mean;
        self.mean += before * weight / self.weights;
        self.squares += weight * before * (value - self.mean);
        self.longest = self.longest.max(value);
    }

    /// By how much longer than the mean one may have been, as far as timed ones show.
    fn longer(self) -> f64 {
        if self.longest > DIFFER * self.mean { self.longest - self.mean } else { 0.0 }
    }

    fn sd(self) -> f64 {
        // One timed launch has no spread: assume it is as large as the length.
        if self.count > 1 { (self.squares / self.weights).sqrt() } else { self.mean }
    }
}

/// Lengths of timed launches.
struct Lengths {
    /// By class and what within it is alike.
    alike: IdMap<Length>,
    /// By class.
    classes: IdMap<Length>,
}

impl Lengths {
    fn of_timed(launches: impl Iterator<Item = Launch>) -> Self {
        let (mut alike, mut classes) = (IdMap::<Length>::default(), IdMap::<Length>::default());
        for launch in launches {
            if let Some((start, end)) = launch.timed {
                let length = end.since(start) as f64;
                let is_weight = launch.weight.is_finite() && launch.weight >= 1.0;
                let weight = if is_weight { launch.weight } else { 1.0 };
                alike.entry(key(&launch)).or_default().add(length, weight);
                classes.entry(u64::from(launch.class.0)).or_default().add(length, weight);
            }
        }
        Self { alike, classes }
    }

    /// Length of those that are like a launch; where none of them was timed, of its class.
    fn get(&self, launch: &Launch) -> Option<Length> {
        let of_class = || self.classes.get(&u64::from(launch.class.0));
        self.alike.get(&key(launch)).or_else(of_class).copied()
    }

    /// The same of a launch that was looked up before.
    fn known(&self, launch: &Launch) -> Length {
        self.get(launch).unwrap_or_default()
    }
}

fn key(launch: &Launch) -> u64 {
    (u64::from(launch.class.0) << 32) | u64::from(launch.alike)
}

/// Places the untimed launches of one queue between its timed ones, and gives each span away when it
/// is known: those of very many launches need no room at once. Returns how many were left out, because
/// nothing of their class was timed.
///
/// In order: from one timed launch to the next the others are laid end to end at the mean length of
/// what is alike, none before it was enqueued. What is too long for the stretch is shrunk to fit. What
/// is left over in a queue that had work all the time makes launches longer, up to the longest of
/// theirs that was timed, but for what usually lies between two; the rest is spread evenly as gaps.
/// Launches after the last timed one follow each other.
///
/// Out of order: from one timed launch each follows the one before it as closely as the next timed
/// one's start asks for, none before it was enqueued: where the timed ones run one after the other, so
/// do the others, and where they overlap, the others do as much.
pub fn place(
    launches: impl Iterator<Item = Launch> + Clone,
    is_in_order: bool,
    mut placed: impl FnMut(Span),
) -> u64 {
    let placed: &mut dyn FnMut(Span) = &mut placed;
    let lengths = Lengths::of_timed(launches.clone());
    let queue = Queue { is_in_order, lengths, between: usually_between(launches.clone()) };
    let (mut stretch, mut before, mut unplaced) = (Vec::new(), None, 0);
    for launch in launches {
        match launch.timed {
            Some((start, end)) => {
                queue.lay(&stretch, before, Some(start), placed);
                stretch.clear();
                placed(launch.span(start, end, Timing::Timed));
                before = launch.timed;
            }
            None if queue.lengths.get(&launch).is_some() => stretch.push(launch),
            None => unplaced += 1,
        }
    }
    queue.lay(&stretch, before, None, placed);
    unplaced
}

/// What usually lies between two launches of a queue that had work, nanoseconds, by timed ones that
/// follow each other; `None` where none do.
fn usually_between(launches: impl Iterator<Item = Launch> + Clone) -> Option<f64> {
    let pairs = launches.clone().zip(launches.skip(1));
    median(pairs.filter_map(|(before, after)| {
        let ((_, end), (start, _)) = (before.timed?, after.timed?);
        (after.enqueued <= end).then(|| start.since(end) as f64)
    }))
}

/// A queue, as far as it is known beforehand.
struct Queue {
    is_in_order: bool,
    lengths: Lengths,
    /// What usually lies between two launches, nanoseconds.
    between: Option<f64>,
}

/// How the launches of a stretch follow each other.
#[derive(Clone, Copy)]
struct Pace {
    /// When the first may start.
    from: f64,
    /// Lengths over the mean ones, and the part by which they are longer, up to the longest.
    scale: f64,
    longer: f64,
    /// Before each.
    gap: f64,
    /// Part of a launch's length behind which the next one starts.
    step: f64,
}

impl Queue {
    /// Lays out the launches of one stretch between two timed ones, `before` and the one that starts
    /// at `until`.
    fn lay(
        &self,
        stretch: &[Launch],
        before: Option<(HostNs, HostNs)>,
        until: Option<HostNs>,
        placed: &mut dyn FnMut(Span),
    ) {
        let Some(first) = stretch.first() else { return };
        // Offsets from here are small enough for f64 to be exact to the nanosecond.
        let (origin, from) = match before {
            Some((_, end)) if self.is_in_order => (end, 0.0),
            Some((start, end)) => (start, end.since(start) as f64),
            None => (first.enqueued, 0.0),
        };
        let room = until.map_or(f64::INFINITY, |until| until.since(origin) as f64);
        let mut pace = Pace { from, scale: 1.0, longer: 0.0, gap: 0.0, step: 1.0 };
        let mut busy = from;
        let end = self.walk(stretch, origin, pace, |_, _, length| busy += length);
        // An enqueue bound may be what leaves no room: then lengths shrink to what remains after it.
        let part = (busy - (end - room)) / busy;
        if end > room && self.is_in_order {
            pace.scale = part.clamp(0.01, 1.0);
        } else if end > room && busy > 0.0 {
            pace.step = part.max(0.0);
            pace.from *= pace.step;
        } else if self.is_in_order && end < room && room.is_finite() && end <= busy * (1.0 + 1e-9) {
            let gaps = (stretch.len() + 1) as f64;
            let between = self.between.unwrap_or(f64::INFINITY);
            let longer: f64 =
                stretch.iter().map(|launch| self.lengths.known(launch).longer()).sum();
            let more = (room - end - gaps * between).clamp(0.0, longer);
            pace.longer = if longer > 0.0 { more / longer } else { 0.0 };
            pace.gap = (room - end - more) / gaps;
        }
        let most = if self.is_in_order { room } else { f64::INFINITY };
        self.walk(stretch, origin, pace, |launch, start, length| {
            let at = |ns: f64| HostNs(origin.0.saturating_add(ns.min(most).round() as i64));
            let timing = Timing::Estimated { sd_ns: self.lengths.known(launch).sd() };
            placed(launch.span(at(start), at(start + length), timing));
        });
    }

    /// Goes through a stretch, and returns when the next launch may start.
    fn walk(
        &self,
        stretch: &[Launch],
        origin: HostNs,
        pace: Pace,
        mut visit: impl FnMut(&Launch, f64, f64),
    ) -> f64 {
        let mut now = pace.from;
        for launch in stretch {
            let enqueued = launch.enqueued.0.saturating_sub(origin.0) as f64;
            let (start, of) = ((now + pace.gap).max(enqueued), self.lengths.known(launch));
            let length = of.mean * pace.scale + of.longer() * pace.longer;
            visit(launch, start, length);
            now = start + pace.step * length;
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(class: u32, enqueued: i64, timed: Option<(i64, i64)>) -> Launch {
        Launch {
            class: ClassId(class),
            alike: 0,
            weight: 1.0,
            device: DeviceIndex(0),
            enqueued: HostNs(enqueued),
            timed: timed.map(|(start, end)| (HostNs(start), HostNs(end))),
        }
    }

    /// Where launches of an in-order queue, or of another, are, and how many are left out.
    fn spans(launches: &[Launch], is_in_order: bool) -> (Vec<(i64, i64)>, u64) {
        let mut spans = Vec::new();
        let add = |span: Span| spans.push((span.start.0, span.end.0));
        let unplaced = place(launches.iter().copied(), is_in_order, add);
        (spans, unplaced)
    }

    fn times(launches: &[Launch]) -> Vec<(i64, i64)> {
        spans(launches, true).0
    }

    #[test]
    fn launches_that_differ_fill_a_queue_that_had_work() {
        // All enqueued at once, one behind the other: short ones of 100, then long ones of 600.
        let short = |at: i64| launch(0, 0, Some((at, at + 100)));
        let mut launches: Vec<Launch> = (0..20).map(|i| short(100 * i)).collect();
        launches.push(launch(0, 0, Some((2_000, 2_600))));
        launches.extend([launch(0, 0, None), launch(0, 0, None)]);
        launches.push(launch(0, 0, Some((3_800, 4_400))));
        let placed = times(&launches);
        assert_eq!(placed[21..23], [(2_600, 3_200), (3_200, 3_800)]);
        // Where the second was enqueued late, the queue may have been empty.
        launches[22].enqueued = HostNs(3_700);
        assert!(times(&launches)[21].1 < 2_800);
        // Launches that are all alike leave gaps.
        let mut alike: Vec<Launch> = (0..20).map(|i| short(100 * i)).collect();
        alike.extend([launch(0, 0, None), launch(0, 0, Some((2_500, 2_600)))]);
        assert_eq!(times(&alike)[20], (2_200, 2_300));
    }

    #[test]
    fn untimed_launches_fill_the_stretch_between_timed_ones() {
        type Case = (&'static str, Vec<Launch>, Vec<(i64, i64)>);
        let cases: [Case; 4] = [
            (
                "exact fit",
                vec![
                    launch(0, 0, Some((0, 100))),
                    launch(0, 1, None),
                    launch(0, 2, None),
                    launch(0, 3, Some((300, 400))),
                ],
                vec![(0, 100), (100, 200), (200, 300), (300, 400)],
            ),
            (
                "shrunk",
                vec![
                    launch(0, 0, Some((0, 100))),
                    launch(0, 1, None),
                    launch(0, 2, None),
                    launch(0, 3, Some((200, 300))),
                ],
                vec![(0, 100), (100, 150), (150, 200), (200, 300)],
            ),
            (
                "spread",
                vec![
                    launch(0, 0, Some((0, 100))),
                    launch(0, 1, None),
                    launch(0, 2, Some((220, 320))),
                ],
                vec![(0, 100), (110, 210), (220, 320)],
            ),
            (
                "not before it was enqueued",
                vec![
                    launch(0, 0, Some((0, 100))),
                    launch(0, 150, None),
                    launch(0, 160, Some((300, 400))),
                ],
                vec![(0, 100), (150, 250), (300, 400)],
            ),
        ];
        for (name, launches, expected) in cases {
            assert_eq!(times(&launches), expected, "{name}");
        }
    }

    #[test]
    fn untimed_launches_of_an_out_of_order_queue_run_as_the_timed_ones_do() {
        type Case = (&'static str, Vec<Launch>, Vec<(i64, i64)>);
        let cases: [Case; 4] = [
            (
                "one after the other",
                vec![
                    launch(0, 0, Some((0, 100))),
                    launch(0, 1, None),
                    launch(0, 2, Some((200, 300))),
                ],
                vec![(0, 100), (100, 200), (200, 300)],
            ),
            (
                "two at once",
                vec![
                    launch(0, 0, Some((0, 100))),
                    launch(0, 1, None),
                    launch(0, 2, None),
                    launch(0, 3, Some((150, 250))),
                ],
                vec![(0, 100), (50, 150), (100, 200), (150, 250)],
            ),
            (
                "not before they were enqueued, and not later for a timed one that waited",
                vec![
                    launch(0, 0, Some((0, 100))),
                    launch(0, 500, None),
                    launch(0, 510, None),
                    launch(0, 520, Some((900, 1_000))),
                ],
                vec![(0, 100), (500, 600), (600, 700), (900, 1_000)],
            ),
            (
                "a timed one that overtook them",
                vec![
                    launch(0, 0, Some((300, 400))),
                    launch(0, 1, None),
                    launch(0, 2, Some((100, 200))),
                ],
                vec![(300, 400), (300, 400), (100, 200)],
            ),
        ];
        for (name, launches, expected) in cases {
            let mut placed = spans(&launches, false).0;
            let mut expected = expected;
            placed.sort_unstable();
            expected.sort_unstable();
            assert_eq!(placed, expected, "{name}");
        }
        let none = spans(&[launch(0, 0, Some((0, 10))), launch(1, 1, None)], false);
        assert_eq!((none.1, none.0.len()), (1, 1));
    }

    #[test]
    fn launches_are_as_long_as_timed_ones_of_their_geometry() {
        let sized = |launch: Launch, alike, weight| Launch { alike, weight, ..launch };
        let launches = [
            sized(launch(0, 0, Some((0, 1_000))), 1, 1.0),
            sized(launch(0, 1, None), 2, 1.0),
            // One that stands for itself, before sampling began, and one that stands for three.
            sized(launch(0, 2, Some((1_100, 1_150))), 2, 1.0),
            sized(launch(0, 3, Some((1_200, 1_210))), 2, 3.0),
            sized(launch(0, 2_000, None), 2, 1.0),
            sized(launch(0, 3_000, None), 1, 1.0),
            // No launch of this size was timed: as long as those of its class.
            sized(launch(0, 5_000, None), 3, 1.0),
        ];
        let (placed, unplaced) = spans(&launches, true);
        assert_eq!(unplaced, 0);
        let length = |at: usize| placed[at].1 - placed[at].0;
        assert_eq!((length(1), length(4), length(5)), (20, 20, 1_000));
        assert_eq!(length(6), (1_000 + 50 + 3 * 10) / 5);
    }

    #[test]
    fn a_class_never_timed_is_left_out_and_counted() {
        let launches = [launch(0, 0, Some((0, 10))), launch(1, 1, None), launch(0, 2, None)];
        assert_eq!(spans(&launches, true), (vec![(0, 10), (10, 20)], 1));
    }
}
