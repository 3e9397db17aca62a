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

/// What became of the launches of one queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placed {
    /// A span for every launch that could be placed, in order.
    pub spans: Vec<Span>,
    /// Launches left out: their class was never timed, so that nothing is known of their length.
    pub unplaced: u64,
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

/// Places the untimed launches of one out-of-order queue between its timed ones.
///
/// From one timed launch each follows the one before it as closely as the next timed one's start
/// asks for, none before it was enqueued: where the timed ones run one after the other, so do the
/// others, and where they overlap, the others do as much.
pub fn place_overlapping(launches: &[Launch]) -> Placed {
    let lengths = Lengths::of_timed(launches.iter().copied());
    let mut placed = Placed { spans: Vec::with_capacity(launches.len()), unplaced: 0 };
    let mut stretch: Vec<Launch> = Vec::new();
    for launch in launches {
        match launch.timed {
            Some((start, end)) => {
                follow(&stretch, &lengths, Some(start), &mut placed);
                stretch.clear();
                stretch.push(*launch);
                placed.spans.push(Span {
                    class: launch.class,
                    device: launch.device,
                    start,
                    end,
                    timing: Timing::Timed,
                });
            }
            None if lengths.get(launch).is_some() => stretch.push(*launch),
            None => placed.unplaced += 1,
        }
    }
    follow(&stretch, &lengths, None, &mut placed);
    placed
}

/// Lays out the untimed launches of one stretch, which begins with the timed one before it if there
/// is one, up to the start of the next.
fn follow(stretch: &[Launch], lengths: &Lengths, until: Option<HostNs>, placed: &mut Placed) {
    let Some(first) = stretch.first() else { return };
    let origin = first.timed.map_or(first.enqueued, |(start, _)| start).0;
    let room = until.map_or(f64::INFINITY, |until| until.since(HostNs(origin)) as f64);
    let mut busy = 0.0;
    let walk = |scale: f64, visit: &mut dyn FnMut(&Launch, f64, f64)| {
        let mut now = 0.0_f64;
        for launch in stretch {
            let (start, length) = match launch.timed {
                Some((start, end)) => (0.0, end.since(start) as f64),
                None => (
                    now.max(launch.enqueued.0.saturating_sub(origin) as f64),
                    lengths.known(launch).mean,
                ),
            };
            visit(launch, start, length);
            now = start + scale * length;
        }
        now
    };
    let end = walk(1.0, &mut |_, _, length| busy += length);
    let scale =
        if end > room && busy > 0.0 { ((busy - (end - room)) / busy).max(0.0) } else { 1.0 };
    walk(scale, &mut |launch, start, length| {
        if launch.timed.is_none() {
            placed.spans.push(Span {
                class: launch.class,
                device: launch.device,
                start: HostNs(origin.saturating_add(start.round() as i64)),
                end: HostNs(origin.saturating_add((start + length).round() as i64)),
                timing: Timing::Estimated { sd_ns: lengths.known(launch).sd() },
            });
        }
    });
}

/// Places the untimed launches of one in-order queue between its timed ones.
///
/// From one timed launch to the next the others are laid end to end at the mean length of what is
/// alike, none before it was enqueued. What is too long for the stretch is shrunk to fit. What is
/// left over in a queue that had work all the time makes launches longer, up to the longest of
/// theirs that was timed, but for what usually lies between two; the rest is spread evenly as gaps.
/// Launches after the last timed one follow each other.
pub fn place(launches: &[Launch]) -> Placed {
    let mut spans = Vec::with_capacity(launches.len());
    let unplaced = place_each(launches.iter().copied(), |span| spans.push(span));
    Placed { spans, unplaced }
}

/// As [`place`], with each span given away when it is known: those of very many launches need no
/// room at once. Gives how many were left out.
pub fn place_each(
    launches: impl Iterator<Item = Launch> + Clone,
    mut placed: impl FnMut(Span),
) -> u64 {
    let placed: &mut dyn FnMut(Span) = &mut placed;
    let mut unplaced = 0;
    let lengths = Lengths::of_timed(launches.clone());
    let between = usually_between(launches.clone());
    let mut stretch: Vec<Launch> = Vec::new();
    let mut free_from = None;
    for launch in launches {
        match launch.timed {
            Some((start, end)) => {
                let until = Some((start, between));
                fill(&stretch, &lengths, free_from, until, placed);
                stretch.clear();
                placed(Span {
                    class: launch.class,
                    device: launch.device,
                    start,
                    end,
                    timing: Timing::Timed,
                });
                free_from = Some(end);
            }
            None if lengths.get(&launch).is_some() => stretch.push(launch),
            None => unplaced += 1,
        }
    }
    fill(&stretch, &lengths, free_from, None, placed);
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

/// Lays out one stretch between `from` and `until`, with what usually lies between two launches.
fn fill(
    stretch: &[Launch],
    lengths: &Lengths,
    from: Option<HostNs>,
    until: Option<(HostNs, Option<f64>)>,
    placed: &mut dyn FnMut(Span),
) {
    let Some(first) = stretch.first() else { return };
    // Offsets from here are small enough for f64 to be exact to the nanosecond.
    let origin = from.unwrap_or(first.enqueued).0;
    let room = until.map(|(until, _)| until.since(HostNs(origin)) as f64);
    let walk = |(scale, more): (f64, f64), gap: f64, visit: &mut dyn FnMut(&Launch, f64, f64)| {
        let mut now = 0.0_f64;
        for launch in stretch {
            let start = (now + gap).max(launch.enqueued.0.saturating_sub(origin) as f64);
            let of = lengths.known(launch);
            let length = of.mean * scale + of.longer() * more;
            visit(launch, start, length);
            now = start + length;
        }
        now
    };
    let mut busy = 0.0;
    let end = walk((1.0, 0.0), 0.0, &mut |_, _, length| busy += length);
    // An enqueue bound may be what leaves no room: then lengths shrink to what remains after it.
    let (scale, gap) = match room {
        Some(room) if end > room => ((((busy - (end - room)) / busy).clamp(0.01, 1.0), 0.0), 0.0),
        Some(room) if end < room && end <= busy * (1.0 + 1e-9) => {
            let gaps = (stretch.len() + 1) as f64;
            let between = until.and_then(|until| until.1).unwrap_or(f64::INFINITY);
            let longer: f64 = stretch.iter().map(|launch| lengths.known(launch).longer()).sum();
            let more = (room - end - gaps * between).clamp(0.0, longer);
            let part = if longer > 0.0 { more / longer } else { 0.0 };
            ((1.0, part), (room - end - more) / gaps)
        }
        _ => ((1.0, 0.0), 0.0),
    };
    walk(scale, gap, &mut |launch, start, length| {
        let (start, end) = match room {
            Some(room) => (start.min(room), (start + length).min(room)),
            None => (start, start + length),
        };
        placed(Span {
            class: launch.class,
            device: launch.device,
            start: HostNs(origin.saturating_add(start.round() as i64)),
            end: HostNs(origin.saturating_add(end.round() as i64)),
            timing: Timing::Estimated { sd_ns: lengths.known(launch).sd() },
        });
    });
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

    fn times(placed: &Placed) -> Vec<(i64, i64)> {
        placed.spans.iter().map(|span| (span.start.0, span.end.0)).collect()
    }

    #[test]
    fn launches_that_differ_fill_a_queue_that_had_work() {
        // All enqueued at once, one behind the other: short ones of 100, then long ones of 600.
        let short = |at: i64| launch(0, 0, Some((at, at + 100)));
        let mut launches: Vec<Launch> = (0..20).map(|i| short(100 * i)).collect();
        launches.push(launch(0, 0, Some((2_000, 2_600))));
        launches.extend([launch(0, 0, None), launch(0, 0, None)]);
        launches.push(launch(0, 0, Some((3_800, 4_400))));
        let placed = times(&place(&launches));
        assert_eq!(placed[21..23], [(2_600, 3_200), (3_200, 3_800)]);
        // Where the second was enqueued late, the queue may have been empty.
        launches[22].enqueued = HostNs(3_700);
        assert!(times(&place(&launches))[21].1 < 2_800);
        // Launches that are all alike leave gaps.
        let mut alike: Vec<Launch> = (0..20).map(|i| short(100 * i)).collect();
        alike.extend([launch(0, 0, None), launch(0, 0, Some((2_500, 2_600)))]);
        assert_eq!(times(&place(&alike))[20], (2_200, 2_300));
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
            assert_eq!(times(&place(&launches)), expected, "{name}");
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
            let mut placed = times(&place_overlapping(&launches));
            let mut expected = expected;
            placed.sort_unstable();
            expected.sort_unstable();
            assert_eq!(placed, expected, "{name}");
        }
        let none = place_overlapping(&[launch(0, 0, Some((0, 10))), launch(1, 1, None)]);
        assert_eq!((none.unplaced, none.spans.len()), (1, 1));
    }

    #[test]
    fn launches_are_as_long_as_timed_ones_of_their_geometry() {
        let sized = |launch: Launch, alike, weight| Launch { alike, weight, ..launch };
        let placed = place(&[
            sized(launch(0, 0, Some((0, 1_000))), 1, 1.0),
            sized(launch(0, 1, None), 2, 1.0),
            // One that stands for itself, before sampling began, and one that stands for three.
            sized(launch(0, 2, Some((1_100, 1_150))), 2, 1.0),
            sized(launch(0, 3, Some((1_200, 1_210))), 2, 3.0),
            sized(launch(0, 2_000, None), 2, 1.0),
            sized(launch(0, 3_000, None), 1, 1.0),
            // No launch of this size was timed: as long as those of its class.
            sized(launch(0, 5_000, None), 3, 1.0),
        ]);
        assert_eq!(placed.unplaced, 0);
        let length = |at: usize| placed.spans[at].end.0 - placed.spans[at].start.0;
        assert_eq!((length(1), length(4), length(5)), (20, 20, 1_000));
        assert_eq!(length(6), (1_000 + 50 + 3 * 10) / 5);
    }

    #[test]
    fn a_class_never_timed_is_left_out_and_counted() {
        let placed = place(&[launch(0, 0, Some((0, 10))), launch(1, 1, None), launch(0, 2, None)]);
        assert_eq!(placed.unplaced, 1);
        assert_eq!(times(&placed), [(0, 10), (10, 20)]);
    }
}
