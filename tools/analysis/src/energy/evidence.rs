//! Owns the estimate that takes evidence of two kinds: what a run's own readings know of sums over
//! classes, and what repeated launches know of single ones. Both enter one generalised
//! least-squares estimate, so that a class has one figure and the figures add up to what the run
//! measured. Refuses to repeat anything, and to call a figure known that the run contradicts.
//!
//! A launch is known by its *dynamic* energy: what it adds to the floor. A batch of `n` repetitions
//! of length `T` at mean power `W` gives `(W - F) T / n`, whether or not gaps lie between them: in
//! a gap the device is at the floor. The floor's part of a launch is the floor times its length.
//!
//! The estimate of a group of classes with dynamic energies `x`, of which the run knows the sum `D`
//! with standard error `r`, and repetitions know `m` with covariance `C`: the `x` that minimises
//! `(x - m)' C^-1 (x - m) + (1'x - D)^2 / r^2` (Aitken 1935; the same as one step of a Kalman
//! filter), with `x >= 0`. `C` holds each class's own error, and one common to all: kernels in a
//! mix draw up to 2 % less than the same kernels alone. Where `D` and `1'm` differ by more than
//! both allow, the difference enters `C`, so that the intervals say so.

#![forbid(unsafe_code)]

/// One batch of repetitions, its power read once the sensor had settled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetition {
    /// Mean power of the device, in watts.
    pub watts: f64,
    /// From the first begin to the last end, in seconds.
    pub seconds: f64,
    /// Launches in it.
    pub launches: f64,
    /// Mean length of those of which stamps were taken, in seconds.
    pub stamped: Option<f64>,
    /// What restoring buffers took of each launch's time.
    pub restoring: Option<Restoring>,
    /// Share of the run's launches that it stands for: those nearest to its moment. What a launch
    /// takes may change as a run goes on.
    pub weight: f64,
}

/// A launch's part of the restorations between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restoring {
    /// Mean power of the device while it does nothing else, in watts.
    pub watts: f64,
    /// Seconds for each launch.
    pub seconds: f64,
}

impl Repetition {
    /// Length of a launch with the gap behind it, restoring taken off.
    #[must_use]
    pub fn period(&self) -> f64 {
        self.seconds / self.launches - self.restoring.map_or(0.0, |r| r.seconds)
    }

    /// What a launch adds to a floor, in joules.
    #[must_use]
    pub fn dynamic(&self, floor: f64) -> f64 {
        (self.watts - floor) * self.seconds / self.launches
            - self.restoring.map_or(0.0, |r| (r.watts - floor) * r.seconds)
    }

    fn usable(&self) -> bool {
        self.launches >= 1.0 && self.seconds > 0.0 && self.watts.is_finite() && self.period() > 0.0
    }
}

/// Launches of one kind (a kernel with its geometry, a transfer of about one size) in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shape {
    /// Launches in the run.
    pub launches: f64,
    /// Mean length of those that were timed and met nothing else, in seconds.
    pub length: Option<f64>,
    /// Batches of them.
    pub repetitions: Vec<Repetition>,
}

/// What repetitions say of one class in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// Dynamic energy of all its launches, in joules.
    pub dynamic: f64,
    /// Its standard error.
    pub sd: f64,
    /// Mean length of a launch, its gap left out, in seconds.
    pub length: f64,
    /// Batches it rests on.
    pub batches: usize,
    /// Whether buffers were restored in them: then the length is a difference of two.
    pub restored: bool,
    /// Part of the class's time that shapes with repetitions stand for.
    pub share: f64,
    /// Whether launches of the run are about as long as the repeated ones. Where a scalar argument
    /// decides how much a launch does, batches may be of one of its values only.
    pub stands: bool,
}

/// Standard deviation between batches of one kind where few are seen, as a share, and the number of
/// batches that this belief weighs as much as.
const BETWEEN: f64 = 0.015;
const BETWEEN_WEIGHT: f64 = 4.0;
/// What more batches of one kind do not average away: temperature, another state of caches.
const SYSTEMATIC: f64 = 0.008;
/// Restoring between launches may draw this share more or less than restoring alone.
const BESIDE: f64 = 0.015;
/// Shapes that were not repeated are taken to draw what the class's others do, give or take this.
const OTHERS: f64 = 0.2;
/// Share by which launches on restored buffers differ from those on settled ones where that is no
/// chance.
const SETTLES: f64 = 0.05;
/// Lengths by stamps, in the run and in a batch, are the same up to so many seconds and such a
/// share.
const STAMPS: f64 = 2e-6;
const SAME_LENGTH: f64 = 0.05;
/// Most that a launch's length in the run may make of its length in a batch.
const STRETCH: f64 = 2.0;
/// Length of the run's launches over that of the repeated ones, or the inverse, beyond which the
/// latter do not stand for the former.
const STANDS: f64 = 1.5;

/// What repetitions say of a class, given its shapes and the floor with its standard error. `None`
/// where none of its shapes was repeated.
#[must_use]
pub fn belief(shapes: &[Shape], floor: (f64, f64)) -> Option<Belief> {
    let (mut dynamic, mut variance, mut time, mut launches) = (0.0, 0.0, 0.0, 0.0);
    let (mut seen, mut batches, mut floors, mut restored) = (0.0, 0, 0.0, false);
    let mut strange = 0.0;
    let whole: f64 = shapes.iter().map(|s| s.launches).sum();
    // Time of shapes, as far as it is known.
    let length = |s: &Shape| {
        s.length.or_else(|| {
            let usable = || s.repetitions.iter().filter(|r| r.usable());
            let count = usable().count();
            (count > 0).then(|| usable().map(Repetition::period).sum::<f64>() / count as f64)
        })
    };
    let all: f64 = shapes.iter().map(|s| s.launches * length(s).unwrap_or(0.0)).sum();
    for shape in shapes {
        let Chosen { weighted, doubt } = chosen(shape, floor.0);
        let n = weighted.len() as f64;
        let weights: f64 = weighted.iter().map(|(_, weight)| weight).sum();
        if weights <= 0.0 {
            continue;
        }
        let mean = |of: &dyn Fn(&Repetition) -> f64| {
            weighted.iter().map(|(r, weight)| weight / weights * of(r)).sum::<f64>()
        };
        // What a mean with these weights varies by, over what one batch does: 1/n of equal ones.
        let concentration = weighted.iter().map(|(_, w)| (w / weights).powi(2)).sum::<f64>();
        let (energy, period) = (mean(&|r| r.dynamic(floor.0)), mean(&|r| r.period()));
        // In the run a launch may take longer than in a batch (other data, colder caches). What its
        // stamps hold of the runtime's own work, those of a batch hold, too. Small differences say
        // nothing: a launch that nothing follows at once is stamped otherwise.
        let known = shape.length.is_some() && weighted.iter().all(|(r, _)| r.stamped.is_some());
        let longer = match shape.length {
            Some(own) if known => {
                let more = own - mean(&|r| r.stamped.unwrap_or(0.0));
                let blurred = STAMPS + SAME_LENGTH * period;
                more.signum() * (more.abs() - blurred).max(0.0)
            }
            _ => 0.0,
        };
        let whole_stretch = (period + longer) / period;
        let stretch = whole_stretch.clamp(1.0 / STRETCH, STRETCH);
        // Launches so much longer or shorter are other ones: what is beyond is as open.
        let beyond = whole_stretch / stretch - 1.0;
        // Where lengths in the run are known, batches may differ by length, and batches of two
        // kinds that lengths decide between differ by more.
        let expected = |r: &Repetition| match doubt {
            Some(doubt) => doubt.energy(r),
            None if known => energy / period * r.period(),
            None => energy,
        };
        let scatter: f64 = weighted
            .iter()
            .map(|(r, _)| (r.dynamic(floor.0) - expected(r)) / energy.abs().max(f64::MIN_POSITIVE))
            .map(|off| off * off)
            .sum();
        let between = (scatter + BETWEEN_WEIGHT * BETWEEN * BETWEEN) / (n - 1.0 + BETWEEN_WEIGHT)
            * concentration;
        let restoring =
            mean(&|r| r.restoring.map_or(0.0, |x| BESIDE * (x.watts - floor.0).abs() * x.seconds));
        let own = energy * stretch;
        let relative =
            between + SYSTEMATIC * SYSTEMATIC + (0.25 * (stretch - 1.0)).powi(2) + beyond.powi(2);
        if !(1.0 / STANDS..=STANDS).contains(&whole_stretch) {
            strange += shape.launches * own.abs();
        }
        let between_kinds = doubt.map_or(0.0, |d| d.part * (d.restored - d.bare));
        let of_shape = own * own * relative + (restoring * stretch).powi(2) + between_kinds.powi(2);
        dynamic += shape.launches * own;
        variance += shape.launches * shape.launches * of_shape;
        // A floor that is off is off for all of them.
        floors += shape.launches * period * stretch * floor.1;
        time += shape.launches * period * stretch;
        seen += shape.launches * length(shape).unwrap_or(period);
        launches += shape.launches;
        batches += weighted.len();
        restored |= weighted.iter().any(|(r, _)| r.restoring.is_some());
    }
    if batches == 0 || launches <= 0.0 || seen <= 0.0 {
        return None;
    }
    // Gaps are at the floor, and lengths are close to those in the run: what a wrong floor takes
    // from a launch it gives to the floor's part of it. A tenth of it is left for gaps.
    variance += (0.1 * floors).powi(2);
    let more = if all > seen { all / seen } else { 1.0 };
    variance = variance * more * more + (OTHERS * (more - 1.0) * dynamic).powi(2);
    Some(Belief {
        dynamic: dynamic * more,
        sd: variance.sqrt(),
        length: time * more / whole.max(launches),
        batches,
        restored,
        share: 1.0 / more,
        stands: strange <= 0.5 * dynamic.abs(),
    })
}

/// The batches that stand for a shape's launches, each with its weight.
struct Chosen<'a> {
    weighted: Vec<(&'a Repetition, f64)>,
    /// Where batches with and without restoration stand for it together.
    doubt: Option<Doubt>,
}

/// Two kinds of batches, of which each stands for a part of the launches.
#[derive(Clone, Copy)]
struct Doubt {
    /// Standard error of the part.
    part: f64,
    /// Mean dynamic energies of a launch, in joules.
    restored: f64,
    bare: f64,
}

impl Doubt {
    /// What a batch of its kind is expected to show.
    fn energy(&self, of: &Repetition) -> f64 {
        if of.restoring.is_some() { self.restored } else { self.bare }
    }
}

fn by_weight(of: Vec<&Repetition>) -> Vec<(&Repetition, f64)> {
    of.into_iter().map(|r| (r, r.weight)).collect()
}

/// Where some batches had buffers restored before each launch and others none, since a second
/// launch left them alike: those without, which need nothing taken off. Where the two differ in
/// energy, a launch finds in order what the one before put in order, and has less to do; or
/// restoring takes the launch's data out of the caches. Then the length of the run's own launches
/// decides, as far as the two differ in length: between the two, each kind stands for a part, so
/// that the mean length is the run's. Else those that were restored.
fn chosen(shape: &Shape, floor: f64) -> Chosen<'_> {
    let (restored, bare): (Vec<&Repetition>, Vec<&Repetition>) =
        shape.repetitions.iter().filter(|r| r.usable()).partition(|r| r.restoring.is_some());
    if restored.is_empty() || bare.is_empty() {
        let one = if bare.is_empty() { restored } else { bare };
        return Chosen { weighted: by_weight(one), doubt: None };
    }
    let mean = |of: &[&Repetition], what: &dyn Fn(&Repetition) -> f64| {
        of.iter().map(|r| what(r)).sum::<f64>() / of.len() as f64
    };
    let taken_off =
        |r: &Repetition| r.restoring.map_or(0.0, |x| BESIDE * (x.watts - floor).abs() * x.seconds);
    let (with, without) =
        (mean(&restored, &|r| r.dynamic(floor)), mean(&bare, &|r| r.dynamic(floor)));
    let blurred = SETTLES * without.abs() + 2.0 * mean(&restored, &taken_off);
    if (with - without).abs() <= blurred {
        return Chosen { weighted: by_weight(bare), doubt: None };
    }
    let stamped = |of: &[&Repetition]| {
        let known: Option<Vec<f64>> = of.iter().map(|r| r.stamped).collect();
        known.map(|lengths| lengths.iter().sum::<f64>() / lengths.len() as f64)
    };
    let (Some(own), Some(short), Some(long)) = (shape.length, stamped(&bare), stamped(&restored))
    else {
        return Chosen { weighted: by_weight(restored), doubt: None };
    };
    let same = |a: f64| STAMPS + SAME_LENGTH * a;
    if (long - short).abs() <= same(long.max(short)) {
        return Chosen { weighted: by_weight(restored), doubt: None };
    }
    let part = ((own - short) / (long - short)).clamp(0.0, 1.0);
    let mut weighted = Vec::new();
    for (kind, part) in [(restored, part), (bare, 1.0 - part)] {
        let all: f64 = kind.iter().map(|r| r.weight).sum();
        let count = kind.len() as f64;
        let share = |r: &Repetition| if all > 0.0 { r.weight / all } else { 1.0 / count };
        if part > 0.0 {
            weighted.extend(kind.into_iter().map(|r| (r, part * share(r))));
        }
    }
    let doubt =
        Doubt { part: 0.5 * same(own) / (long - short).abs(), restored: with, bare: without };
    Chosen { weighted, doubt: Some(doubt) }
}

/// A class of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Busy seconds in the run.
    pub busy: f64,
    /// What is known of its dynamic energy apart from the run: joules and their standard error.
    pub known: Option<(f64, f64)>,
}

/// What both kinds of evidence say of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled {
    /// Dynamic energy of each member with its standard error, in joules.
    pub members: Vec<(f64, f64)>,
    /// Sum that repetitions alone say, where all members that matter were repeated.
    pub predicted: Option<f64>,
    /// The run's sum over what was predicted, less one.
    pub differs: f64,
    /// Whether the two differ by no more than their errors allow.
    pub agrees: bool,
    /// By how much they may differ, in joules: half-width of the 95 % interval of the difference.
    pub allowed: f64,
}

/// Kernels in a mix draw less than alone, by about so much: an error common to all members.
const COMMON: f64 = 0.01;
/// What a run knows of a sum may be off by this share, and by so many watts while the members run,
/// beyond its own interval: a device that pauses between launches draws less in the first that
/// follow than it does later. (Six applications on an H200: -7 to +2 %.)
const RUN: f64 = 0.03;
const RUN_WATTS: f64 = 0.5;
/// The same of what the others leave of the sum to members without evidence, as a share of the sum:
/// all that is wrong with it is theirs. (Face detection and PyOpenCL's arrays on an H200: -20 to
/// +17 %; a kernel got five times what it takes.)
const LEFT: f64 = 0.08;
/// Half-width of a 95 % interval over its standard error.
const INTERVAL: f64 = 2.0;
/// Members without evidence that have less than this share of a group's time do not keep the rest
/// from being compared with the run.
const MINOR: f64 = 0.05;

/// Brings the sum that a run knows (joules above the floor, standard error) and what is known of
/// its members together. Members of which nothing is known share what is left by their time.
#[must_use]
pub fn reconcile(sum: (f64, f64), members: &[Member]) -> Reconciled {
    let total = sum.0.max(0.0);
    let known: f64 = members.iter().filter_map(|m| m.known).map(|k| k.0).sum();
    let busy: f64 = members.iter().map(|m| m.busy).sum();
    // Where nothing else is known the run's own error is all there is.
    let beside = if known > 0.0 { (RUN * total).hypot(RUN_WATTS * busy) } else { 0.0 };
    let error = sum.1.hypot(beside).max(1e-9 * sum.0.abs()).max(f64::MIN_POSITIVE);
    let open: f64 = members.iter().filter(|m| m.known.is_none()).map(|m| m.busy).sum();
    // As many watts as the group's mean, or what repetitions leave where that is more.
    let rate = if open > 0.0 {
        let mean = total / busy.max(f64::MIN_POSITIVE);
        let left = (total - known) / open;
        left.clamp(0.2 * mean, 2.0 * mean)
    } else {
        0.0
    };
    let mean: Vec<f64> =
        members.iter().map(|m| m.known.map_or(rate * m.busy, |k| k.0.max(0.0))).collect();
    // Of a member without evidence no less is open than of the sum that it has a part of.
    let unknown = |m: &Member, x: f64| x.abs().max(error * m.busy / open.max(f64::MIN_POSITIVE));
    let mut own: Vec<f64> = members
        .iter()
        .zip(&mean)
        .map(|(m, x)| m.known.map_or(unknown(m, *x), |k| k.1).powi(2).max(f64::MIN_POSITIVE))
        .collect();
    let mut common = vec![0.0; members.len()];
    for ((c, m), x) in common.iter_mut().zip(members).zip(&mean) {
        *c = if m.known.is_some() { COMMON * x } else { 0.0 };
    }
    let predicted: f64 = mean.iter().sum();
    let spread =
        |own: &[f64], common: &[f64]| own.iter().sum::<f64>() + common.iter().sum::<f64>().powi(2);
    let off = total - predicted;
    let enough = known > 0.0 && open <= MINOR * busy;
    let allowed = INTERVAL * (spread(&own, &common) + error * error).sqrt();
    let agrees = !enough || off.abs() <= allowed;
    // What of the difference each had by its own error alone.
    let shared: f64 = common.iter().sum();
    let whole = spread(&own, &common) + error * error;
    let parts: Vec<f64> =
        own.iter().zip(&common).map(|(v, c)| (v + c * shared) / whole * off.abs()).collect();
    if !agrees {
        // Who is wrong is not known: each by as much as all, and all together, by what is beyond
        // their errors.
        let share = (off.abs() - allowed) / predicted.max(f64::MIN_POSITIVE);
        for (v, x) in own.iter_mut().zip(&mean) {
            *v += (share * x).powi(2);
        }
        for (c, x) in common.iter_mut().zip(&mean) {
            *c += share.abs() * x;
        }
    }
    let mut found = posterior(total, error, &mean, &own, &common);
    for (((of, member), said), part) in found.iter_mut().zip(members).zip(&mean).zip(&parts) {
        if member.known.is_none() && known > 0.0 {
            let left = LEFT * total.max(error);
            of.1 = of.1.hypot(left * member.busy / open.max(f64::MIN_POSITIVE));
        }
        if !agrees {
            // Two that contradict each other cannot both be right: the interval holds both,
            // whatever each claims of itself, and is as wide as they lie apart wherever the value
            // comes to lie between them: a larger contradiction moves it from one towards the
            // other, which tells nothing. The same of what its own error alone made of it, of
            // which a larger contradiction leaves it less.
            let run = said * (total / predicted.max(f64::MIN_POSITIVE)).min(STRETCH);
            let from_said = (of.0 - said).abs().max(*part);
            let reach = from_said.max((of.0 - run).abs()).max((run - said).abs());
            of.1 = of.1.max(reach / INTERVAL);
        }
    }
    Reconciled {
        members: found,
        predicted: enough.then_some(predicted),
        differs: if predicted > 0.0 { off / predicted } else { 0.0 },
        agrees,
        allowed,
    }
}

/// The estimate of the module's head; members that would fall below zero stay at it.
fn posterior(total: f64, error: f64, mean: &[f64], own: &[f64], common: &[f64]) -> Vec<(f64, f64)> {
    let mut free = vec![true; mean.len()];
    loop {
        let of = |i: usize| if free[i] { 1.0 } else { 0.0 };
        let sum = |v: &dyn Fn(usize) -> f64| (0..mean.len()).map(|i| of(i) * v(i)).sum::<f64>();
        let (all, shared) = (sum(&|i| mean[i]), sum(&|i| common[i]));
        let spread = sum(&|i| own[i]) + shared * shared + error * error;
        // C 1 for each member.
        let pull = |i: usize| own[i] + common[i] * shared;
        let found: Vec<(f64, f64)> = (0..mean.len())
            .map(|i| {
                if !free[i] {
                    return (0.0, own[i].sqrt());
                }
                let value = mean[i] + pull(i) * (total - all) / spread;
                let variance = own[i] + common[i] * common[i] - pull(i) * pull(i) / spread;
                (value, variance.max(0.0).sqrt())
            })
            .collect();
        match (0..mean.len()).find(|&i| free[i] && found[i].0 < 0.0) {
            Some(i) => free[i] = false,
            None => return found,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn batch(watts: f64, period: f64) -> Repetition {
        Repetition {
            watts,
            seconds: 0.4,
            launches: 0.4 / period,
            stamped: None,
            restoring: None,
            weight: 1.0,
        }
    }

    #[test]
    fn a_gap_between_repetitions_does_not_count_as_the_kernel() {
        // 3 us at 300 W and 1 us at the floor, again and again.
        let shape = Shape {
            launches: 1e6,
            length: None,
            repetitions: vec![batch((3.0 * 300.0 + 100.0) / 4.0, 4e-6); 6],
        };
        let found = belief(&[shape], (100.0, 0.0)).expect("six batches");
        assert!((found.dynamic / (1e6 * 200.0 * 3e-6) - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn restoring_is_taken_off() {
        let mut with = batch((10.0 * 250.0 + 2.0 * 150.0) / 12.0, 12e-6);
        with.restoring = Some(Restoring { watts: 150.0, seconds: 2e-6 });
        let shape = Shape { launches: 10.0, length: None, repetitions: vec![with; 4] };
        let found = belief(&[shape], (100.0, 0.0)).expect("four batches");
        assert!((found.dynamic / (10.0 * 150.0 * 10e-6) - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found.length / 10e-6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn launches_on_data_that_settles_are_known_by_restored_ones() {
        let bare = batch(200.0, 10e-6);
        let mut restored = batch((300.0 * 10.0 + 150.0 * 5.0) / 15.0, 15e-6);
        restored.restoring = Some(Restoring { watts: 150.0, seconds: 5e-6 });
        let of = |repetitions: Vec<Repetition>| {
            belief(&[Shape { launches: 1.0, length: None, repetitions }], (100.0, 0.0))
        };
        let found = of(vec![bare, restored, bare, restored]).expect("four batches");
        assert!((found.dynamic / (200.0 * 10e-6) - 1.0).abs() < 1e-9, "{found:?}");
        // The same each time: those that need nothing taken off.
        let mut alike = batch((201.0 * 10.0 + 150.0 * 5.0) / 15.0, 15e-6);
        alike.restoring = restored.restoring;
        let found = of(vec![bare, alike, bare]).expect("three batches");
        assert!((found.dynamic / (100.0 * 10e-6) - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn lengths_decide_between_batches_with_caches_warm_and_cold() {
        // Restoring takes the data out of the caches: 60 us at 220 W, 33 us at 150 W without.
        let mut warm = batch(150.0, 33e-6);
        warm.stamped = Some(33e-6);
        let mut cold = batch((220.0 * 60.0 + 300.0 * 15.0) / 75.0, 75e-6);
        cold.stamped = Some(60e-6);
        cold.restoring = Some(Restoring { watts: 300.0, seconds: 15e-6 });
        let of = |length: Option<f64>| {
            let repetitions = vec![warm, cold, warm, cold];
            belief(&[Shape { launches: 1.0, length, repetitions }], (120.0, 0.0)).expect("four")
        };
        let (least, most) = (30.0 * 33e-6, 100.0 * 60e-6);
        let holds = |found: Belief, want: f64| {
            let off = (found.dynamic - want).abs();
            assert!(off < 1e-9 + 0.02 * want, "{found:?} {want}");
            assert!(found.sd > 0.005 * want && found.sd < 0.4 * want, "{found:?}");
        };
        holds(of(Some(33e-6)), least);
        holds(of(Some(60e-6)), most);
        // A third of the launches finds the caches cold.
        holds(of(Some(42e-6)), least + (most - least) / 3.0);
        // Without lengths, or of two that are as long, restored ones count.
        holds(of(None), most);
    }

    #[test]
    fn a_launch_that_takes_longer_in_the_run_costs_more() {
        let mut one = batch(300.0, 10e-6);
        one.stamped = Some(12e-6);
        let of = |length| Shape { launches: 1.0, length: Some(length), repetitions: vec![one; 5] };
        let found = belief(&[of(20e-6)], (100.0, 1.0)).expect("five batches");
        assert!((found.dynamic / (200.0 * 15.5e-6) - 1.0).abs() < 1e-9, "{found:?}");
        let found = belief(&[of(10e-6)], (100.0, 1.0)).expect("five batches");
        assert!((found.dynamic / (200.0 * 10e-6) - 1.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn batches_of_much_shorter_launches_stand_for_none_of_the_others() {
        let mut one = batch(300.0, 10e-3);
        one.stamped = Some(10e-3);
        let of = |length| {
            let shape = Shape { launches: 1.0, length: Some(length), repetitions: vec![one; 3] };
            belief(&[shape], (100.0, 1.0)).expect("three batches")
        };
        assert!(of(10e-3).stands && of(14e-3).stands);
        for (length, rate) in [(20e-3, 200.0), (50e-3, 150.0), (200e-3, 250.0), (2.5e-3, 100.0)] {
            let found = of(length);
            assert!(!found.stands, "{length}: {found:?}");
            let truth = rate * length;
            assert!((found.dynamic - truth).abs() <= 2.0 * found.sd, "{length}: {found:?}");
        }
    }

    #[test]
    fn a_batch_stands_for_the_launches_around_it() {
        // 400 W at first sight, 300 W from soon afterwards on.
        let mut first = batch(400.0, 10e-6);
        first.weight = 0.1;
        let mut later = batch(300.0, 10e-6);
        later.weight = 0.9;
        let shape = Shape { launches: 1.0, length: None, repetitions: vec![first, later] };
        let found = belief(&[shape], (100.0, 0.0)).expect("two batches");
        assert!((found.dynamic / (210.0 * 10e-6) - 1.0).abs() < 1e-9, "{found:?}");
        let half = 2.0 * found.sd / found.dynamic;
        assert!((0.2..0.6).contains(&half), "two that differ by a third: {half}");
    }

    #[test]
    fn shapes_without_repetitions_are_counted_at_the_others_rate() {
        let repeated =
            Shape { launches: 5.0, length: Some(1e-3), repetitions: vec![batch(200.0, 1e-3); 5] };
        let other = Shape { launches: 5.0, length: Some(2e-3), repetitions: Vec::new() };
        let found = belief(&[repeated.clone(), other], (100.0, 0.0)).expect("one shape");
        assert!((found.dynamic - 100.0 * 15e-3).abs() < 1e-9, "{found:?}");
        assert!(found.sd / found.dynamic > 0.1 && (found.share - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(belief(&[Shape { repetitions: Vec::new(), ..repeated }], (1.0, 0.0)), None);
    }

    #[test]
    fn parts_add_up_to_what_the_run_knows() {
        let members = [
            Member { busy: 2.0, known: Some((100.0, 3.0)) },
            Member { busy: 1.0, known: Some((50.0, 1.0)) },
            Member { busy: 0.05, known: None },
        ];
        let found = reconcile((153.0, 0.2), &members);
        let whole: f64 = found.members.iter().map(|m| m.0).sum();
        assert!((whole - 153.0).abs() < 0.1 && found.agrees, "{found:?}");
        assert!(found.members[2].0 >= 0.0 && found.members[2].0 < 6.0);
    }

    #[test]
    fn what_is_left_of_a_sum_is_not_known_better_than_the_sum() {
        // The run's sum is 15 % higher than its parts, which is no fault of the last.
        let members = [
            Member { busy: 1.0, known: Some((300.0, 4.0)) },
            Member { busy: 0.5, known: Some((150.0, 2.0)) },
            Member { busy: 0.05, known: None },
        ];
        let (truth, found) = (12.0, reconcile((531.0, 3.0), &members));
        let (value, sd) = found.members[2];
        assert!(value - 1.96 * sd < truth && value > 40.0, "{found:?}");
        assert!(found.members[0].1 < 8.0, "{found:?}");
    }

    #[test]
    fn what_the_run_contradicts_is_not_called_known() {
        let members = [
            Member { busy: 1.0, known: Some((100.0, 1.0)) },
            Member { busy: 1.0, known: Some((100.0, 1.0)) },
        ];
        let found = reconcile((160.0, 1.0), &members);
        assert!(!found.agrees && (found.differs + 0.2).abs() < 1e-9, "{found:?}");
        assert!(found.members.iter().all(|m| (m.0 - 80.0).abs() < 1.0 && m.1 > 5.0), "{found:?}");
    }

    #[test]
    fn nothing_is_negative() {
        let members = [
            Member { busy: 1.0, known: Some((100.0, 30.0)) },
            Member { busy: 1.0, known: Some((1.0, 30.0)) },
        ];
        let found = reconcile((60.0, 0.1), &members);
        assert!(found.members.iter().all(|m| m.0 >= 0.0), "{found:?}");
        assert!((found.members.iter().map(|m| m.0).sum::<f64>() - 60.0).abs() < 0.5);
    }

    #[test]
    fn intervals_hold_as_often_as_they_say() {
        let mut random = clscope_testing::Random::new(1);
        let (mut inside, mut all, mut width) = (0, 0, 0.0);
        for _ in 0..2000 {
            // Five kernels, batches that differ by 1.5 %, and a mix that draws 1 % less or more
            // than its kernels alone.
            let floor = 120.0 + random.normal();
            let mix = 1.0 + 0.01 * random.normal();
            let mut members = Vec::new();
            let mut truth = Vec::new();
            for k in 0..5 {
                let (watts, period) = (150.0 + 60.0 * f64::from(k), 20e-6 * f64::from(k + 1));
                let launches = 10_000.0;
                let offset = 1.0 + 0.006 * random.normal();
                let repetitions = (0..5)
                    .map(|_| {
                        let dynamic = (watts - 120.0) * offset * (1.0 + 0.015 * random.normal());
                        batch(120.0 + dynamic, period)
                    })
                    .collect();
                let shape = Shape { launches, length: None, repetitions };
                let b = belief(&[shape], (floor, 1.0)).expect("five batches");
                members.push(Member { busy: launches * period, known: Some((b.dynamic, b.sd)) });
                truth.push((watts - 120.0) * mix * launches * period);
            }
            let busy: f64 = members.iter().map(|m| m.busy).sum();
            let sum = truth.iter().sum::<f64>() * (1.0 + 0.003 * random.normal())
                + (120.0 - floor) * busy;
            let found = reconcile((sum, 0.003 * sum), &members);
            for ((value, sd), (want, m)) in found.members.iter().zip(truth.iter().zip(&members)) {
                // A floor that is off moves what is dynamic, and the floor's part by as much back.
                let want = want + (120.0 - floor) * m.busy;
                inside += usize::from((value - want).abs() <= 1.96 * sd);
                width += 1.96 * sd / want;
                all += 1;
            }
        }
        let share = inside as f64 / f64::from(all);
        assert!((0.93..=0.995).contains(&share), "{share} of {all}");
        assert!(width / f64::from(all) < 0.05, "{}", width / f64::from(all));
    }

    /// Joules of a member with their standard error.
    fn known() -> impl Strategy<Value = (f64, f64)> {
        (10.0f64..1000.0, 0.001f64..0.2).prop_map(|(joules, share)| (joules, share * joules))
    }

    fn members(known: &[(f64, f64)]) -> Vec<Member> {
        known.iter().map(|&known| Member { busy: 1.0, known: Some(known) }).collect()
    }

    /// Whether no standard error is smaller than before.
    fn none_narrower(before: &Reconciled, after: &Reconciled) -> bool {
        let mut pairs = before.members.iter().zip(&after.members);
        pairs.all(|(before, after)| after.1 >= before.1 * (1.0 - 1e-9))
    }

    proptest! {
        /// Intervals never shrink for want of evidence: where the run agrees, a larger error of any
        /// repetition or of the run's sum narrows no member's interval.
        #[test]
        fn more_doubt_narrows_no_interval(
            known in prop::collection::vec(known(), 1..6),
            off in -1.0f64..1.0, error in 0.001f64..0.1,
            which in any::<prop::sample::Index>(), more in 1.0f64..20.0,
        ) {
            let predicted: f64 = known.iter().map(|k| k.0).sum();
            let sum = (predicted + off * COMMON * predicted, error * predicted);
            let before = reconcile(sum, &members(&known));
            let mut doubted = known.clone();
            doubted[which.index(known.len())].1 *= more;
            let member = reconcile(sum, &members(&doubted));
            let run = reconcile((sum.0, sum.1 * more), &members(&known));
            for after in [member, run] {
                prop_assert!(before.agrees && after.agrees, "{before:?} {after:?}");
                prop_assert!(after.members.iter().all(|m| m.0 > 0.0), "{after:?}");
                prop_assert!(none_narrower(&before, &after), "{before:?} {after:?}");
            }
        }

        /// Evidence that is put in the place of other evidence hides no contradiction: the further
        /// the run's sum lies beyond what repetitions say, the wider every interval.
        #[test]
        fn contradiction_narrows_no_interval(
            known in prop::collection::vec(known(), 1..6),
            error in 0.001f64..0.1, off in 0.0f64..2.0, further in 0.0f64..2.0,
        ) {
            let predicted: f64 = known.iter().map(|k| k.0).sum();
            let at = |off: f64| {
                reconcile((predicted * (1.0 + off), error * predicted), &members(&known))
            };
            let (near, far) = (at(off), at(off + further));
            prop_assert!(none_narrower(&near, &far), "{near:?} {far:?}");
        }
    }

    #[test]
    fn intervals_widen_while_values_move_towards_the_runs_sum() {
        let three = [
            (781.0958177486998, 107.5161562334279),
            (301.7075248802178, 0.30170752488021785),
            (523.7934693823812, 0.5237934693823812),
        ];
        // One of small error moves from what repetitions say to what the run says; one of large
        // error has most of the difference at first, and less of a larger one.
        let one = [(682.6519814741812, 8.191379298712679)];
        let two = [(663.7056261304116, 20.55741877359719), (266.33554553426734, 49.67350870597726)];
        for (known, error, off, further) in [
            (&three[..], 0.023732642222956436, 0.17815074852331086, 0.03726655476325457),
            (&one[..], 0.08525752251301498, 0.2039259808836131, 0.04234164985004062),
            (&two[..], 0.02509579100331653, 0.1678855688617006, 0.01512360850352771),
        ] {
            let predicted: f64 = known.iter().map(|k| k.0).sum();
            let at =
                |off: f64| reconcile((predicted * (1.0 + off), error * predicted), &members(known));
            let mut near = at(off);
            for step in 1..=50 {
                let far = at(off + f64::from(step) * further);
                assert!(none_narrower(&near, &far), "{step}: {near:?} {far:?}");
                near = far;
            }
        }
    }

    #[test]
    fn what_others_leave_is_known_no_better_than_the_sum() {
        // The others account for all of it: what is left is nothing, give or take the sum's error.
        let members =
            [Member { busy: 9.0, known: Some((100.0, 0.5)) }, Member { busy: 1.0, known: None }];
        for sum in [(99.0, 2.0), (100.0, 2.0), (-3.0, 5.0)] {
            let found = reconcile(sum, &members);
            assert!(found.members[1].1 >= sum.1 * 0.5, "{sum:?}: {found:?}");
        }
    }

    #[test]
    fn where_two_contradict_each_other_the_interval_holds_both() {
        let members = [Member { busy: 10.0, known: Some((137.0, 1.0)) }];
        let found = reconcile((212.0, 2.0), &members);
        assert!(!found.agrees);
        let (value, sd) = found.members[0];
        assert!(value - 2.0 * sd <= 137.0 && value + 2.0 * sd >= 212.0, "{value} +- {sd}");
    }
}
