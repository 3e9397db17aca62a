//! Owns the estimate of the total time of the launches of a queue that sampling left out, from the
//! progress of the queue meanwhile (its [windows](super::windows)). Refuses to take that progress
//! for a duration: the part that launches fill is measured on timed ones, and without any the
//! interval covers everything between nothing and all of it.
//!
//! The pace of a launch is the time of its window divided among the window's launches. It is known
//! for every launch, timed or not; for a timed one the window is that of its two neighbours and
//! itself, as if it had been left out. Launches are selected independently of their pace, so that
//! totals can be estimated by post-stratified ratios (Sarndal, Swensson, Wretman: Model Assisted
//! Survey Sampling, 5.6 and 7):
//!
//! * Where the **queue was full**, launches are grouped by the binary logarithm of their pace, and
//!   a group's total is its pace times the ratio of time to pace among its timed launches. Phases,
//!   warm-up and waiting show in the pace, and drop out of the error. Where it was **open** (may
//!   have been empty), the pace only forms groups.
//! * Each geometry of a kernel has a typical duration of its own; pace and groups are relative to
//!   it.
//! * Errors are the residuals', as of Poisson sampling, with the covariance of neighbours, which
//!   share a window; the interval is Hall's for skewed estimates. Its upper end leaves room for
//!   half a further launch like the most influential one (after Fay and Feuer 1997; half of it as
//!   mid-p intervals do).
//! * The time of a window beyond its typical launches is shared among its kernels in proportion to
//!   their timed launches; the shares have a variance too.
//! * **Excess**: time in which the queue was, or may have been, busy, and that neither the estimate
//!   nor the usual gaps between launches explain. It may have been untimed launches. The upper end
//!   includes it; a total beyond the windows is impossible.
//! * **Paces that no timed launch had** take the ratio of the nearest group, if the queue was full.
//!   On devices whose workers are preempted all of this excess may belong to no launch; the lower
//!   end excludes it.
//! * On other devices, where chance alone knows the total to 3 %, launches are alike, and gaps that
//!   vary by a microsecond or two are no launches: of the excess only windows count that stand out
//!   of what usually passes, unless another class is to
//!   blame (modules `usual` and `blame`).
//!   The estimate is that of chance. Launches that are timed may last a little longer than those
//!   that are not, and paces speak of the latter: the interval holds what paces say, as far as
//!   timing can change a launch.
//! * On the former, where the queue was open, a launch longer than all that chance chose may be
//!   hidden. With the probability 1/(n+1) (Good 1953; n effective launches were timed) each is one,
//!   and takes what the tail of times for which a worker is held up leads to expect (Zipf's law),
//!   up to what its window allows.

use super::blame::Blame;
use super::estimate::{Basis, Estimate, FEW, Sampled, hall, with_rare};
use super::usual::{Usual, commands};
use super::windows::{Around, Evidence, Window};
use crate::ids::IdMap;
use crate::quantile::{DEVIATION, t_975};
use std::collections::BTreeMap;

/// Timed launches from which a group of full windows, and of open ones, has an estimate of its own.
const GROUP: [usize; 2] = [6, 15];
/// Beyond so many times the pace of the last group nothing is concluded from it.
const FAR: f64 = 16.0;
/// Most that the recorder's own event adds to the span of a launch, nanoseconds (an H200: 1.98 us
/// by `doctor --calibrate`, up to 3 between launches that follow each other).
const TIMING: f64 = 3000.0;
/// The same as a share of the span: short transfers change by less.
const TIMING_SHARE: f64 = 0.05;
/// Half-width, as a share, up to which the total is known by chance alone.
const BY_CHANCE: f64 = 0.03;
/// Deviations of the gaps between launches from which on time in open windows is an outlier.
const STANDS_OUT: f64 = 4.0;

/// What launches that were left out took together, nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Left {
    /// The estimate.
    pub value: f64,
    /// Second and third cumulant of its error.
    variance: f64,
    third: f64,
    /// The variance without covariances, and the sum of squares of its parts over their degrees of
    /// freedom.
    plain: f64,
    spread: f64,
    /// Influence of the launch that decides most.
    pub heaviest: f64,
    /// How far up the excess reaches, above the estimate, and how much of it typical gaps do not
    /// explain.
    excess: f64,
    /// See there.
    pub unexplained: f64,
    /// What launches longer than all that were timed may add.
    unseen: f64,
    /// How far down it reaches because paces were extrapolated.
    down: f64,
    /// How far below and above the estimate chance alone, and what timing may have changed, leave
    /// room, where that is narrow and launches are not preempted.
    by_chance: (f64, f64),
    /// The most that they can have taken; infinite where that is not known.
    pub most: f64,
    /// Time in which they may have run although their queues may have been empty: a long launch
    /// does not show there.
    pub open: f64,
}

impl Left {
    /// Of the launches of both.
    #[must_use]
    pub fn plus(self, o: Self) -> Self {
        Self {
            value: self.value + o.value,
            variance: self.variance + o.variance,
            third: self.third + o.third,
            plain: self.plain + o.plain,
            spread: self.spread + o.spread,
            heaviest: self.heaviest.max(o.heaviest),
            excess: self.excess + o.excess,
            unexplained: self.unexplained + o.unexplained,
            unseen: self.unseen + o.unseen,
            down: self.down + o.down,
            by_chance: (self.by_chance.0 + o.by_chance.0, self.by_chance.1 + o.by_chance.1),
            most: self.most + o.most,
            open: self.open + o.open,
        }
    }

    /// The estimate with its 95 % interval.
    #[must_use]
    pub fn interval(&self) -> Estimate {
        let Self { value, variance, third, .. } = *self;
        let t = t_975(if self.spread > 0.0 {
            self.plain * self.plain / self.spread
        } else {
            f64::INFINITY
        });
        let skewness = |variance: f64, third: f64| {
            if variance > 0.0 { third / variance.powf(1.5) } else { 0.0 }
        };
        let low = value - variance.sqrt() * hall(t, skewness(variance, third));
        let more = self.heaviest / 2.0;
        let (wider, longer) = (variance + more * more, third + more.powi(3));
        let up = more - wider.sqrt() * hall(-t, skewness(wider, longer)) + self.unseen;
        // Of several queues some may be known by chance alone: what they leave room for adds up.
        let (below, above) = self.by_chance;
        let high = value + (up + above).max(self.excess);
        let low = low.min(value) - self.down - below;
        let Estimate { low, high, .. } = with_rare(Estimate { value, low, high }, value);
        let high = if self.most > value { high.min(self.most) } else { high };
        Estimate { value, low: low.max(0.0).min(value), high: high.max(value + above) }
    }
}

/// Launches of one class in one window.
struct Unit<'a> {
    window: &'a Window,
    n: f64,
    /// What they would take if they were typical.
    typical: f64,
    /// What all launches of the window would take.
    expected: f64,
    available: f64,
    full: f64,
    /// All commands of the window, and what usually passes beyond their typical time, if it is
    /// known.
    commands: f64,
    usual: Option<f64>,
}

impl Unit<'_> {
    fn stretch(&self) -> f64 {
        self.available / self.expected
    }

    fn is_full(&self) -> bool {
        self.window.is_full()
    }
}

/// Probability with which what was left out may hold more than its order allows.
const BEYOND_ORDER: f64 = 0.05;
/// Part left out up to which the timed launches show the tail of all.
const MOST_LEFT_OUT: f64 = 0.5;
/// Batches of launches that tell how a run changes, at least.
const BATCHES: usize = 6;
/// Standard deviations beyond what passes beside launches from which on time is taken for launches.
const SIGNIFICANT: f64 = 2.0;

/// The most that launches left out took together by the order of all: chance chose which were
/// timed, so that with the probability `q^k` the `k` longest of all were left out, `q` being the
/// part that was. The `k - 1` that may be longer than all timed ones took at most the windows they
/// were in, and, where most were timed, no more than [`longer`] allows. It is little where nearly
/// all were timed, and says nothing where few were. `None` where windows are not known.
fn most_by_order(units: &[Unit<'_>], lost: f64, sampled: &Sampled) -> Option<f64> {
    let (longest, q) = (sampled.longest()?, sampled.part_left_out()?);
    let many = (BEYOND_ORDER.ln() / q.ln()).ceil() - 1.0;
    let by_tail = (q <= MOST_LEFT_OUT).then(|| longer(longest, q));
    if lost > 0.0 && many > 0.0 && by_tail.is_none() {
        return None;
    }
    // Each launch of a window may be such a one, and all together have its time.
    let mut rooms: Vec<(f64, f64)> = units.iter().map(|u| (u.available, u.n)).collect();
    rooms.sort_by(|a, b| b.0.total_cmp(&a.0));
    let by_room = if lost > 0.0 { f64::INFINITY } else { longest_rooms(&rooms, many) };
    let more = by_room.min(by_tail.unwrap_or(f64::INFINITY));
    Some(sampled.left_out() as f64 * longest + if many > 0.0 { more } else { 0.0 })
}

/// What launches left out that are longer than the longest timed one may add. That `j` of them are
/// has the probability `q^j`, `q` being the part left out. How much longer follows from the tail of
/// times for which a worker is held up: that the longest is `t` times as long as the next is as
/// improbable as `1/t` (Zipf's law), so that beyond `q^j/5 %` times nothing is expected.
fn longer(longest: f64, q: f64) -> f64 {
    let each = (1..).map(|j| q.powi(j) / BEYOND_ORDER).take_while(|t| *t > 1.0);
    longest * each.sum::<f64>()
}

/// What a launch longer than the longest timed one takes where there is so much room: its mean, by
/// the same tail (Zipf's law) up to the room.
fn beyond_longest(longest: Option<f64>, room: f64) -> f64 {
    match longest {
        Some(longest) if longest < room => room.min(longest * (1.0 + (room / longest).ln())),
        _ => room,
    }
}

/// What launches longer than all timed ones may add by the tail of all of these, up to so much room
/// of one. Where most were timed, what is improbable beyond; else what is to be expected, as many
/// being longer as the part left out says. `None` where chance chose none.
fn unseen_by_tail(sampled: &Sampled, room: f64) -> Option<f64> {
    let (longest, chosen) = (sampled.longest()?, sampled.part_left_out()?);
    let q = sampled.left_out() as f64 / sampled.launches().max(1) as f64;
    if q <= MOST_LEFT_OUT {
        return Some(longer(longest, q));
    }
    Some(chosen / (1.0 - chosen) * beyond_longest(Some(longest), room))
}

/// Time of the first windows that hold so many launches together; of each: time and launches.
fn longest_rooms(rooms: &[(f64, f64)], mut launches: f64) -> f64 {
    let mut time = 0.0;
    for (available, n) in rooms {
        if launches <= 0.0 {
            break;
        }
        time += available;
        launches -= n;
    }
    time
}

/// A timed launch, as if it had been left out.
struct Case {
    y: f64,
    weight: f64,
    typical: f64,
    stretch: f64,
    full: bool,
}

impl Case {
    fn pace(&self) -> f64 {
        self.stretch * self.typical
    }
}

/// What is known of a queue.
pub struct Queue<'a> {
    /// Windows with an end.
    pub windows: &'a [Window],
    /// Timed launches with the windows that they were in.
    pub evidence: &'a [Evidence],
    /// The same of launches that were certain to be timed.
    pub certain: &'a [Evidence],
    /// Typical duration of a class and geometry.
    pub typical: &'a dyn Fn(u64, u32) -> Option<f64>,
    /// What usually passes beyond typical launches.
    pub(super) usual: Option<Usual>,
    /// Whose time that stands out may be.
    pub(super) blame: Blame,
    /// What passes around launches of each class, as seen where none was left out.
    pub(super) around: &'a IdMap<Around>,
    /// Whether the device's workers may be interrupted for long, as a CPU's are.
    pub preempted: bool,
}

impl Queue<'_> {
    /// What usually passes beyond typical launches where the queue was never empty.
    pub(super) fn usual(&self) -> Option<Usual> {
        let full = self.windows.iter().filter(|w| w.is_full());
        Usual::of(full.filter_map(|w| Some((w, w.available - self.expected(w)?))))
    }

    fn expected(&self, window: &Window) -> Option<f64> {
        if window.tainted {
            return None;
        }
        let each = window
            .counts
            .iter()
            .map(|(launch, n)| Some(n * (self.typical)(launch.class, launch.geometry)?));
        each.sum::<Option<f64>>().filter(|e| *e > 0.0)
    }

    /// What the launches of a class that were left out took, given those timed; `None` if none
    /// were.
    #[must_use]
    pub fn left(&self, class: u64, sampled: &Sampled) -> Option<Left> {
        let (middle, _) = sampled.typical()?;
        let middle = middle.max(1.0);
        let (mut units, mut lost, mut lost_n, mut out) = (Vec::new(), 0.0, 0.0, Left::default());
        for window in self.windows {
            let of_class = window.counts.iter().filter(|(launch, _)| launch.class == class);
            let (n, typical) = of_class.fold((0.0, 0.0), |(n, sum), (launch, k)| {
                (n + k, sum + k * (self.typical)(class, launch.geometry).unwrap_or(middle))
            });
            if n == 0.0 {
                continue;
            }
            out.most += window.available;
            match self.expected(window) {
                Some(expected) => units.push(Unit {
                    window,
                    n,
                    typical,
                    expected,
                    available: window.available,
                    full: window.full,
                    commands: commands(window),
                    usual: self.usual.as_ref().map(|usual| usual.of_window(window)),
                }),
                None => (lost, lost_n) = (lost + typical, lost_n + n),
            }
        }
        let seen: f64 = units.iter().map(|u| u.n).sum::<f64>() + lost_n;
        // Launches behind the last moment that is known.
        let rest = sampled.left_out() as f64 - seen;
        if rest > 0.5 {
            (lost, out.most, out.open) = (lost + rest * middle, f64::INFINITY, f64::INFINITY);
        }
        out.open += units.iter().filter(|u| !u.is_full()).map(|u| u.available).sum::<f64>();
        let of = |all: &[Evidence]| -> Vec<Case> {
            let of_class = all.iter().filter(|e| e.launch.class == class);
            of_class.filter_map(|e| self.case(e)).collect()
        };
        let mut cases = of(self.evidence);
        if (cases.len() as u64) < FEW && self.preempted {
            // Chance chose too few: those timed with certainty stand for the rest as well. Their
            // pace says whether the run went on as it began.
            cases.extend(of(self.certain));
            let weight = sampled.left_out() as f64 / cases.len() as f64;
            cases.iter_mut().for_each(|c| c.weight = weight);
        }
        let mut fill: Vec<f64> = vec![1.0; units.len()];
        let few = (cases.len() as u64) < FEW;
        if few {
            let plain = sampled.total()?;
            out.value = plain.value - sampled.known();
            // There is no variance: the interval of the model is kept as it is.
            (out.excess, out.down) = (plain.high - plain.value, plain.value - plain.low);
        } else {
            self.groups(&units, &cases, lost, &mut fill, &mut out);
        }
        // Whose the time beyond typical of a shared window was is as random as the shares.
        let shared = units.iter().zip(&fill).map(|(u, f)| {
            let share = u.typical / u.expected;
            ((f - 1.0).max(0.0) * u.expected).powi(2) * share * (1.0 - share).max(0.0)
        });
        out.variance += shared.sum::<f64>();
        // What chance alone says, where it says much and launches are not preempted.
        let by_chance = sampled
            .total()
            .filter(|plain| !self.preempted && plain.half() <= BY_CHANCE * plain.value);
        if by_chance.is_some() {
            // Each as long as those timed: what paces made of windows that hold more is excess.
            let (time, typical) = cases.iter().fold((0.0, 0.0), |(time, typical), c| {
                (time + c.weight * c.y, typical + c.weight * c.typical)
            });
            fill.fill(time / typical.max(f64::MIN_POSITIVE));
        }
        let (more, unexplained, gap) =
            self.excess(class, &units, &cases, &fill, (middle, by_chance.is_some()));
        out.unexplained = unexplained;
        let explained: f64 =
            units.iter().zip(&fill).map(|(u, f)| u.typical * f).sum::<f64>() + lost;
        out.excess = out.excess.max(if few { explained + more - out.value } else { more });
        // Launches that follow each other faster than their spans last: spans hold more than the
        // launch, and do not fit.
        if gap.is_none_or(|gap| gap < 0.0) {
            out.most = f64::INFINITY;
        }
        if let Some(plain) = by_chance {
            let of = |end: f64| end - sampled.known();
            // What the queue's progress says of those that were not timed, as far as timing can
            // change a launch.
            let changed = (TIMING * sampled.left_out() as f64).min(TIMING_SHARE * of(plain.value));
            let paced = out.value.max(of(plain.value) - changed);
            out = Left {
                value: of(plain.value),
                by_chance: (
                    plain.value - plain.low.min(paced + sampled.known()),
                    plain.high - plain.value,
                ),
                excess: out.excess,
                unexplained: out.unexplained,
                most: out.most,
                open: out.open,
                ..Left::default()
            };
        }
        if self.preempted {
            let open = || units.iter().filter(|u| !u.is_full());
            // Longer ones would show.
            let room = |u: &Unit| (u.available - u.full).max(0.0);
            let (sum, squares) =
                cases.iter().fold((0.0, 0.0), |(s, q), c| (s + c.weight, q + c.weight * c.weight));
            let effective = if squares > 0.0 { sum * sum / squares } else { 0.0 };
            let beyond = |u: &Unit| u.n * beyond_longest(sampled.longest(), room(u));
            let each = open().map(beyond).sum::<f64>() / (effective + 1.0);
            out.unseen = each.min(open().map(room).sum());
            let most = units.iter().map(|u| u.available).fold(0.0, f64::max);
            if let Some(longer) = unseen_by_tail(sampled, most).filter(|l| *l < out.unseen) {
                out.unseen = longer;
                out.open = out.open.min(longer);
            }
            out = self.narrower(class, &units, &cases, sampled, fill, out);
        }
        if let Some(most) = most_by_order(&units, lost, sampled) {
            out.most = out.most.min(most);
            let above = (out.most - out.value).max(0.0);
            (out.unexplained, out.open) = (out.unexplained.min(above), out.open.min(above));
        }
        Some(out)
    }

    /// The estimate from paces, or that of chance where its interval is narrower: the progress of a
    /// queue that was often empty tells little.
    fn narrower(
        &self,
        class: u64,
        units: &[Unit<'_>],
        cases: &[Case],
        sampled: &Sampled,
        mut fill: Vec<f64>,
        mut paced: Left,
    ) -> Left {
        let (Some((middle, _)), Some(plain)) = (sampled.typical(), sampled.total()) else {
            return paced;
        };
        let left_out = sampled.left_out() as f64;
        let value = (plain.value - sampled.known()).max(0.0);
        let mean = value / left_out;
        fill.fill(mean / middle.max(1.0));
        let (excess, unexplained, _) = self.excess(class, units, cases, &fill, (middle, false));
        let (mut below, mut above) = (plain.value - plain.low, plain.high - plain.value);
        if sampled.basis() == Some(Basis::Model) {
            // Chance says nothing about how the run changed from where all were timed.
            let (y, pace) = cases.iter().fold((0.0, 0.0), |(y, p), c| (y + c.y, p + c.pace()));
            let by_time = changed(cases.iter().map(|c| c.y - mean), left_out);
            (below, above) = (below.max(by_time), above.max(by_time));
            let changed = changed(cases.iter().map(|c| c.y - c.pace() * y / pace), left_out);
            paced.variance = paced.variance.max((changed / t_975(f64::INFINITY)).powi(2));
        }
        // Launches are left out whole.
        above = above.max(sampled.not_excluded(BEYOND_ORDER).unwrap_or(0.0) - mean);
        let chance = Left {
            value,
            by_chance: (below, above),
            excess,
            unexplained,
            unseen: paced.unseen,
            most: paced.most,
            open: paced.open,
            ..Left::default()
        };
        if chance.interval().half() < paced.interval().half() { chance } else { paced }
    }

    /// Time that launches as estimated leave beyond what passes around them where none was left
    /// out, where that is significant; `None` where too little of that was seen.
    fn beyond(&self, units: &[Unit<'_>], fill: &[f64]) -> Option<f64> {
        let (mut beyond, mut variance, mut least) = (0.0, 0.0, f64::INFINITY);
        for (u, f) in units.iter().zip(fill) {
            let (mut gaps, mut spread) = (0.0, 0.0);
            let counts = &u.window.counts;
            for (i, (launch, n)) in counts.iter().enumerate() {
                let around = self.around.get(&launch.class)?;
                let first = if i == 0 { 1.0 } else { 0.0 };
                let last = if i + 1 == counts.len() { u.window.drained.min(*n) } else { 0.0 };
                let behind = [(n - last, around.behind(false)), (last, around.behind(true))];
                least =
                    behind.iter().filter(|b| b.0 > 0.0).map(|b| b.1.seen()).fold(least, f64::min);
                for (n, of) in behind.into_iter().chain([(first, around.before)]) {
                    if n > 0.0 {
                        let (mean, variance) = of.each()?;
                        (gaps, spread) = (gaps + n * mean, spread + n * variance);
                    }
                }
            }
            (beyond, variance) = (beyond + u.available - f * u.expected - gaps, variance + spread);
        }
        // The means were measured on some only.
        variance *= 1.0 + units.len() as f64 / least;
        Some(if beyond > SIGNIFICANT * variance.sqrt() { beyond } else { 0.0 })
    }

    fn case(&self, e: &Evidence) -> Option<Case> {
        let expected = self.expected(&e.window)?;
        let available = e.window.available;
        let typical = (self.typical)(e.launch.class, e.launch.geometry)?;
        Some(Case {
            y: e.duration,
            weight: e.weight,
            typical,
            stretch: available / expected,
            full: e.window.is_full(),
        })
    }

    /// Estimates the launches group by group; `fill`: what part of its typical time a unit's
    /// launches took.
    fn groups(
        &self,
        units: &[Unit<'_>],
        cases: &[Case],
        lost: f64,
        fill: &mut [f64],
        out: &mut Left,
    ) {
        let all_units: Vec<usize> = (0..units.len()).collect();
        let all_cases: Vec<usize> = (0..cases.len()).collect();
        let full = cases.iter().filter(|c| c.full).count();
        let own = full >= GROUP[0] && cases.len() - full >= GROUP[0];
        let mut influence = vec![0.0; cases.len()];
        let kinds: &[bool] = if own { &[false, true] } else { &[full * 2 >= cases.len()] };
        for kind in kinds {
            let of = |all: &[usize], is: &dyn Fn(usize) -> bool| {
                all.iter().copied().filter(|i| !own || is(*i) == *kind).collect()
            };
            let units_of: Vec<usize> = of(&all_units, &|i| units[i].is_full());
            let cases_of: Vec<usize> = of(&all_cases, &|i| cases[i].full);
            self.kind(*kind, (units, &units_of), (cases, &cases_of), fill, &mut influence, out);
        }
        if lost > 0.0 {
            let (weight, sum) = cases
                .iter()
                .fold((0.0, 0.0), |(w, y), c| (w + c.weight * c.typical, y + c.weight * c.y));
            out.value += lost * sum / weight;
            let residuals = |c: &Case| lost / weight * (c.y - sum / weight * c.typical);
            add_errors(cases, &all_cases, residuals, &mut influence, out);
        }
        let squares: f64 = influence.iter().map(|u| u * u).sum();
        let neighbours: f64 = influence.windows(2).map(|pair| pair[0] * pair[1]).sum();
        out.plain = squares;
        out.variance = squares.max(squares + 2.0 * neighbours);
        out.heaviest = influence.iter().copied().fold(0.0, f64::max);
    }

    /// The groups of full windows, or of open ones.
    fn kind(
        &self,
        full: bool,
        (units, units_of): (&[Unit<'_>], &[usize]),
        (cases, cases_of): (&[Case], &[usize]),
        fill: &mut [f64],
        influence: &mut [f64],
        out: &mut Left,
    ) {
        let class = |stretch: f64| (stretch.max(1e-9).log2() + 0.5).floor() as i64;
        let mut by_class: BTreeMap<i64, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        units_of
            .iter()
            .for_each(|i| by_class.entry(class(units[*i].stretch())).or_default().0.push(*i));
        cases_of
            .iter()
            .for_each(|i| by_class.entry(class(cases[*i].stretch)).or_default().1.push(*i));
        // Neighbouring classes are joined until there are cases enough; what is left goes to the
        // last group, up to its last case.
        let mut groups: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        let mut group: (Vec<usize>, Vec<usize>) = Default::default();
        let mut beyond = Vec::new();
        for (u, c) in by_class.into_values() {
            if c.is_empty() && !(groups.is_empty() && group.1.is_empty()) {
                beyond.extend(u);
                continue;
            }
            group.0.append(&mut beyond);
            group.0.extend(u);
            group.1.extend(c);
            if group.1.len() >= GROUP[usize::from(!full)] {
                groups.push(std::mem::take(&mut group));
            }
        }
        match groups.last_mut() {
            Some(last) => {
                last.0.append(&mut group.0);
                last.1.append(&mut group.1);
            }
            None => groups.push(group),
        }
        let usual = gap(cases).unwrap_or(0.0).min(0.0);
        let mut last = (1.0, 1.0);
        for (u, c) in groups.iter().filter(|g| !g.1.is_empty()) {
            let sum = |of: &dyn Fn(&Case) -> f64| {
                c.iter().map(|i| cases[*i].weight * of(&cases[*i])).sum::<f64>()
            };
            let (typical, pace, time) = (sum(&|c| c.typical), sum(&Case::pace), sum(&|c| c.y));
            last = (time / typical, pace / typical);
            if u.is_empty() {
                continue;
            }
            let of_units =
                |of: &dyn Fn(&Unit<'_>) -> f64| u.iter().map(|i| of(&units[*i])).sum::<f64>();
            let (known, of_cases) = if full {
                (of_units(&|u| u.stretch() * u.typical), pace)
            } else {
                (of_units(&|u| u.typical), typical)
            };
            let ratio = time / of_cases;
            // They cannot have taken more than there was.
            let room = of_units(&|u| u.available - usual * u.n * u.expected / u.typical);
            let value = (ratio * known).min(room);
            out.value += value;
            for i in u {
                fill[*i] = value / known * if full { units[*i].stretch() } else { 1.0 };
            }
            let residual = |c: &Case| {
                known / of_cases * (c.y - ratio * if full { c.pace() } else { c.typical })
            };
            add_errors(cases, c, residual, influence, out);
        }
        for i in beyond {
            let unit = &units[i];
            let extrapolated = full && unit.stretch() <= FAR * last.1;
            fill[i] = if extrapolated { last.0 / last.1 * unit.stretch() } else { last.0 };
            out.value += fill[i] * unit.typical;
            if self.preempted {
                out.down += ((fill[i] - last.0) * unit.typical).max(0.0);
            }
        }
    }

    /// Time that neither the launches as estimated nor what usually passes between them explains,
    /// and what that is. `alike`: launches are so much alike that only windows which stand out
    /// count. Where workers are not preempted these count if the class may be to blame.
    fn excess(
        &self,
        class: u64,
        units: &[Unit<'_>],
        cases: &[Case],
        fill: &[f64],
        (middle, alike): (f64, bool),
    ) -> (f64, f64, Option<f64>) {
        let rest = |(u, f): (&Unit<'_>, &f64)| (u.stretch() - f) * u.typical / u.n;
        let mut rests: Vec<(f64, f64)> =
            units.iter().zip(fill).map(|unit| (rest(unit), unit.0.n)).collect();
        let Some(median) = quantile(&mut rests, 0.5) else { return (0.0, 0.0, None) };
        let mut off: Vec<(f64, f64)> =
            rests.iter().map(|(rest, n)| ((rest - median).abs(), *n)).collect();
        let noise = DEVIATION * quantile(&mut off, 0.5).unwrap_or(f64::INFINITY);
        let mut gaps = gaps(cases);
        let (gap, low_gap) = match (quantile(&mut gaps, 0.5), quantile(&mut gaps, 0.25)) {
            (Some(gap), Some(low)) if cases.len() as u64 >= FEW => (gap, low),
            _ => (median, quantile(&mut rests, 0.25).unwrap_or(median)),
        };
        let of_full = |gap: f64, counts: &dyn Fn(f64, &Unit<'_>) -> f64| -> f64 {
            let full = units.iter().zip(fill).filter(|(u, _)| u.is_full());
            full.map(|(u, f)| counts(u.available - (f + gap / middle) * u.expected, u)).sum()
        };
        let stands_out = |more: f64, u: &Unit| {
            if more > STANDS_OUT * noise * (u.expected / middle).sqrt() { more } else { 0.0 }
        };
        if let Some(beyond) = Beyond::of(units, fill).filter(|_| !self.preempted) {
            let each = || units.iter().zip(fill);
            let of = |(u, f): (&Unit<'_>, &f64)| {
                let more = beyond.outlier(u, u.window.busy(), *f);
                if more > 0.0 && self.blame.may_be(class, u.window, more) { more } else { 0.0 }
            };
            let most: f64 = each().map(of).sum();
            let full = each().filter(|(u, _)| u.is_full());
            let others: f64 = full.map(|(u, f)| beyond.noise(u, u.available, *f)).sum();
            let others = if alike { 0.0 } else { others.max(0.0) };
            return (most + others, most + others, Some(gap));
        }
        if self.preempted
            && let Some(more) = self.beyond(units, fill)
        {
            return (more, more, Some(gap));
        }
        // Long launches make gaps beside them look long: little is taken for usual.
        let (typical, of_full) = if alike {
            let sum = of_full(gap, &stands_out);
            (sum, sum)
        } else {
            let all = |more: f64, _: &Unit| more;
            (of_full(gap, &all).max(0.0), of_full(low_gap, &all).max(0.0))
        };
        let of_open = units.iter().zip(fill).filter(|(u, _)| !u.is_full()).map(|(u, f)| {
            // Only what stands out, and came after the last enqueue.
            stands_out(u.full - (f + median / middle) * u.expected, u)
        });
        // What the full ones show happened at the same rate in open ones, as far as there is room;
        // not that few speak for many.
        let expected = |full: bool| {
            units.iter().filter(|u| u.is_full() == full).map(|u| u.expected).sum::<f64>()
        };
        let room = units
            .iter()
            .zip(fill)
            .filter(|(u, _)| !u.is_full())
            .map(|(u, f)| (u.available - f * u.expected).max(0.0));
        let (full, open) = (expected(true), expected(false));
        let as_full = if open <= 2.0 * full && full > 0.0 { of_full * open / full } else { 0.0 };
        let of_open = of_open.sum::<f64>();
        (of_full + of_open.max(as_full.min(room.sum())), typical + of_open, Some(gap))
    }
}

/// What passes beyond launches and what usually lies between them, in windows whose commands tell
/// it.
struct Beyond {
    /// Its standard deviation for one command, by the median of deviations.
    noise: f64,
}

impl Beyond {
    /// `None` where it is not known of a window what usually passes.
    fn of(units: &[Unit<'_>], fill: &[f64]) -> Option<Self> {
        let mut off = Vec::with_capacity(units.len());
        for (u, f) in units.iter().zip(fill).filter(|(u, _)| u.is_full()) {
            off.push((Self::rest(u, u.available, *f)?.abs() / u.commands.sqrt(), 1.0));
        }
        Some(Self { noise: DEVIATION * quantile(&mut off, 0.5)? })
    }

    fn rest(u: &Unit<'_>, time: f64, fill: f64) -> Option<f64> {
        Some(time - fill * u.expected - u.usual?)
    }

    /// What stands out of so much time of a window; 0 where it may be noise.
    fn outlier(&self, u: &Unit<'_>, time: f64, fill: f64) -> f64 {
        let rest = Self::rest(u, time, fill).unwrap_or(0.0);
        if rest > STANDS_OUT * self.noise * u.commands.sqrt() { rest } else { 0.0 }
    }

    /// What does not stand out; negative where less passes than usually.
    fn noise(&self, u: &Unit<'_>, time: f64, fill: f64) -> f64 {
        let rest = Self::rest(u, time, fill).unwrap_or(0.0);
        if self.outlier(u, time, fill) > 0.0 { 0.0 } else { rest }
    }
}

/// By how much the sum of `n` launches may differ, in 95 % of the cases, from what others say that
/// came before, whose residuals are given in order: by batches of as many (a launch is as its
/// neighbours are).
fn changed(residuals: impl Iterator<Item = f64>, n: f64) -> f64 {
    let all: Vec<f64> = residuals.collect();
    let size = (n as usize).clamp(1, (all.len() / BATCHES).max(1));
    let means: Vec<f64> =
        all.chunks_exact(size).map(|c| c.iter().sum::<f64>() / size as f64).collect();
    let batches = means.len() as f64;
    if batches < 2.0 {
        return 0.0;
    }
    let mean = means.iter().sum::<f64>() / batches;
    let squares: f64 = means.iter().map(|m| (m - mean) * (m - mean)).sum();
    let variance = squares / (batches - 1.0) * (1.0 + 1.0 / batches);
    t_975(batches - 1.0) * n * variance.sqrt()
}

/// Adds the errors of a group's estimate.
fn add_errors(
    cases: &[Case],
    of: &[usize],
    residual: impl Fn(&Case) -> f64,
    influence: &mut [f64],
    out: &mut Left,
) {
    // Of weights w = (1-p)/p the error of the sum is 1/p - 1 for a launch that was chosen, and -1
    // for one that was not: its variance (1-p)/p is estimated by (1-p)/p^2 = w(w+1), and its third
    // cumulant, as Hall's transformation takes it (module `estimate`), by (1-p)(2-p)/(2 p^3) =
    // w(w+1)(w+1/2).
    let second = |c: &Case| c.weight * (c.weight + 1.0);
    let (sum, squares) = of
        .iter()
        .fold((0.0, 0.0), |(s, q), i| (s + second(&cases[*i]), q + second(&cases[*i]).powi(2)));
    let effective = sum * sum / squares;
    // The ratio was taken from the same launches: as for any variance, one degree of freedom goes.
    let correction = effective / (effective - 1.0).max(1.0);
    let mut variance = 0.0;
    for i in of {
        let (case, r) = (&cases[*i], residual(&cases[*i]));
        let z = r * (second(case) * correction).sqrt();
        influence[*i] += z;
        variance += z * z;
        out.third += r.powi(3) * second(case) * (case.weight + 0.5);
    }
    out.spread += variance * variance / (effective - 1.0).max(0.5);
}

/// What passed with timed launches beside them, in full windows if there are some.
fn gaps(cases: &[Case]) -> Vec<(f64, f64)> {
    let full = cases.iter().filter(|c| c.full).count() >= GROUP[0];
    cases.iter().filter(|c| c.full || !full).map(|c| (c.pace() - c.y, 1.0)).collect()
}

fn gap(cases: &[Case]) -> Option<f64> {
    quantile(&mut gaps(cases), 0.5)
}

/// Weighted quantile; sorts.
fn quantile(values: &mut [(f64, f64)], q: f64) -> Option<f64> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let share = q * values.iter().map(|v| v.1).sum::<f64>();
    let mut seen = 0.0;
    values.iter().find_map(|(value, weight)| {
        seen += weight;
        (seen >= share).then_some(*value)
    })
}

#[cfg(test)]
mod tests {
    use super::{BEYOND_ORDER, Left, longest_rooms, most_by_order};
    use crate::stats::estimate::Sampled;

    #[test]
    fn two_queues_leave_room_for_what_each_does() {
        let calm = Left { value: 1e6, by_chance: (1e4, 2e4), most: 2e6, ..Left::default() };
        let other = Left { value: 5e5, variance: 4e8, most: 1e6, ..Left::default() };
        let (calm_only, other_only) = (calm.interval(), other.interval());
        let both = calm.plus(other).interval();
        assert_eq!(both.value, 1.5e6);
        let sum = |of: fn(&super::Estimate) -> f64| of(&calm_only) + of(&other_only);
        assert!((both.low - sum(|e| e.low)).abs() < 1.0, "{both:?}");
        assert!((both.high - sum(|e| e.high)).abs() < 1.0, "{both:?}");
        assert_eq!((calm_only.low, calm_only.high), (9.9e5, 1.02e6));
    }

    #[test]
    fn where_nearly_all_were_timed_those_left_out_are_as_those() {
        let of = |timed: u64, left_out: u64| {
            let mut out = Sampled::default();
            let p = timed as f64 / (timed + left_out) as f64;
            (0..timed).for_each(|i| out.add(1000 + i % 7 * 100, p));
            (0..left_out).for_each(|_| out.leave_out());
            out
        };
        // 3 %: that the longest of all is among them happens less often than is allowed for.
        let most = most_by_order(&[], 0.0, &of(970, 30)).unwrap();
        assert!((30.0 * 1600.0..30.0 * 1600.0 * 1.05).contains(&most), "{most}");
        assert_eq!(most_by_order(&[], 1.0, &of(970, 30)), Some(most), "no window is needed");
        // An eighth: one may be longer, by two and a half times at most.
        let most = most_by_order(&[], 1.0, &of(140, 20)).unwrap();
        assert!((most - (20.0 + 2.5) * 1600.0).abs() < 0.1 * most, "{most}");
        // More than half: four may be longer, and how long is not known without their windows.
        assert_eq!(most_by_order(&[], 1.0, &of(490, 510)), None);
        assert!(0.5f64.powi(4) > BEYOND_ORDER && 0.5f64.powi(5) < BEYOND_ORDER);
        assert_eq!(longest_rooms(&[(90.0, 3.0), (50.0, 1.0), (40.0, 9.0)], 4.0), 140.0);
        assert_eq!(most_by_order(&[], 0.0, &of(10, 0)), None, "none was left out");
    }
}
