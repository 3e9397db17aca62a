//! The search for a work-group size: candidates by the limits of device and kernel, a first timing
//! of all, then the best beside the captured one in turns. Refuses to name a best where noise may
//! explain it, and to time a size whose results are others without saying so.

use crate::capture::{Given, Launch};
use crate::document::{Expected, Outcome, Time, Tried, Tuned, judge};
use crate::element::Element;
use crate::measure::{self, Effort, Subject};
use crate::progress::{Ended, Step, Who};
use crate::run::{Computed, RunError, computed, time_of};
use crate::stage::{Built, Stage, StageError};
use clscope_compare::outcome;
use clscope_opencl::Range;

/// Most sizes that are tried.
const MOST: usize = 48;
/// Sizes that are timed in turns with the captured one, after a first timing.
const FINALISTS: usize = 6;

/// What sizes have to keep to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Work-items in each dimension.
    pub global: Vec<usize>,
    /// Fewest work-items of a group.
    pub least: usize,
    /// Most work-items of a group.
    pub group: usize,
    /// Most in each dimension.
    pub dimensions: Vec<usize>,
    /// Whether the global size must be a multiple in each dimension.
    pub must_divide: bool,
    /// Work-items that the device runs at once.
    pub multiple: usize,
}

/// Sizes to try, the most promising first: groups that are multiples of what the device runs at
/// once, then larger ones. Gives also how many there were.
pub fn candidates(of: &Bounds) -> (Vec<Vec<usize>>, usize) {
    let one = |dimension: usize| -> Vec<usize> {
        let global = of.global.get(dimension).copied().unwrap_or(1);
        let most = of.dimensions.get(dimension).copied().unwrap_or(1).min(of.group).min(global);
        let fits = |n: &usize| !of.must_divide || global.is_multiple_of(*n);
        (1..=most)
            .filter(|n| n.is_power_of_two() || global.is_multiple_of(*n))
            .filter(fits)
            .collect()
    };
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for dimension in 0..of.global.len() {
        let sizes = one(dimension);
        all = all
            .iter()
            .flat_map(|before| sizes.iter().map(move |n| [&before[..], &[*n]].concat()))
            .filter(|local| local.iter().product::<usize>() <= of.group)
            .collect();
    }
    let items = |local: &[usize]| local.iter().product::<usize>();
    all.retain(|local| items(local) >= of.least);
    let rank = |local: &Vec<usize>| {
        let whole = items(local).is_multiple_of(of.multiple.max(1));
        let powers = local.iter().all(|n| n.is_power_of_two());
        // Long in the first dimension, where neighbours lie in memory.
        (
            !whole,
            !powers,
            std::cmp::Reverse(items(local)),
            std::cmp::Reverse(local.first().copied()),
        )
    };
    all.sort_by_key(rank);
    let found = all.len();
    // Sizes of all lengths, not the longest alone: every so many of all is taken.
    let step = found.div_ceil(MOST).max(1);
    (all.into_iter().step_by(step).collect(), found)
}

/// Bounds for a built kernel, and notes on what is left out.
///
/// # Errors
/// Where there is nothing to search.
fn bounds(stage: &Stage<'_>, built: &Built) -> Result<(Bounds, Vec<String>), RunError> {
    let launch = &stage.capture.launch;
    let nothing = |why: String| RunError::NothingToTune { kernel: launch.kernel.clone(), why };
    if let Some([x, y, z]) = built.kernel.required_group() {
        return Err(nothing(format!("it requires groups of {x}x{y}x{z}")));
    }
    let mut notes = Vec::new();
    let (mut least, mut group) = (1, built.kernel.largest_group());
    if let Some(captured) = local_limit(launch, built) {
        let captured = captured.map_err(nothing)?;
        if captured < group {
            notes.push(format!(
                "groups of more than {captured} work-items are left out: local memory was captured for that many"
            ));
            group = captured;
        }
        if captured > 1 {
            notes.push(format!(
                "groups of fewer than {captured} work-items are left out: there would be more groups, and what each writes for itself would reach behind its memory"
            ));
            least = captured;
        }
    }
    let bounds = Bounds {
        global: built.range.global.clone(),
        least,
        group,
        dimensions: stage.limits.group_sizes.clone(),
        must_divide: !stage.may_be_uneven(built),
        multiple: built.kernel.group_multiple().unwrap_or(1),
    };
    Ok((bounds, notes))
}

/// Work-items that arguments of local memory were sized for; nothing where there are none.
fn local_limit(launch: &Launch, built: &Built) -> Option<Result<usize, String>> {
    launch.arguments.iter().find(|a| matches!(a.given, Given::Local { .. }))?;
    let of = built.range.local.as_ref();
    let why = "it takes local memory of a size that the application chose, and the runtime chose the groups";
    Some(of.map(|local| local.iter().product()).ok_or_else(|| why.to_owned()))
}

/// What a search goes by.
pub(crate) struct With<'r> {
    /// Types of the memories' elements.
    pub(crate) kinds: &'r [Element],
    /// Whether the launch may write a memory.
    pub(crate) written: &'r [bool],
    /// Whether a second run of the captured size gave the same.
    pub(crate) is_repeatable: bool,
    /// Memories to restore before each launch.
    pub(crate) restored: &'r [usize],
    /// How much is timed.
    pub(crate) effort: Effort,
    /// ULPs that are tolerated.
    pub(crate) tolerance: u64,
    /// Versions that ended an earlier process: they are not tried again.
    pub(crate) ended: &'r [Ended],
}

/// Searches. `base` is what the captured size gave.
///
/// # Errors
/// [`RunError`]; a size that the runtime refuses is a row that says so.
pub(crate) fn local(
    stage: &Stage<'_>,
    built: &Built,
    base: &Computed,
    with: &With<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Tuned, RunError> {
    let (bounds, mut notes) = bounds(stage, built)?;
    let (mut sizes, found) = candidates(&bounds);
    if sizes.len() < found {
        notes.push(format!("{} of {found} sizes were tried", sizes.len()));
    }
    let captured = built.range.local.clone();
    sizes.retain(|local| Some(local) != captured.as_ref());
    // The runtime's own choice, where the application made one.
    let mut ranges: Vec<Range> =
        captured.iter().map(|_| Range { local: None, ..built.range.clone() }).collect();
    ranges
        .extend(sizes.into_iter().map(|local| Range { local: Some(local), ..built.range.clone() }));
    let expected: Vec<Option<Vec<u8>>> =
        base.first.iter().zip(with.written).map(|(b, w)| w.then(|| b.clone())).collect();
    let is_repeatable = with.is_repeatable;
    let other = Expected { name: "base", contents: &expected, is_repeatable };
    let launch = &stage.capture.launch;
    let mut rows = vec![Tried::new(captured)];
    let mut kept = Vec::new();
    for range in ranges {
        if stop() {
            return Err(RunError::Interrupted);
        }
        let mut row = Tried::new(range.local.clone());
        let who = Who::Groups(range.local.clone());
        if let Some(ended) = with.ended.iter().find(|ended| ended.who == who) {
            row.refused = Some(format!("it {ended}"));
            rows.push(row);
            continue;
        }
        match computed(stage, built, &range) {
            Ok(ran) => {
                let runs = (&ran.first[..], &ran.again[..]);
                row.results = Some(judge(launch, with.kinds, other, runs, with.tolerance).outcome);
                // What the captured size does, too, is no fault of this one.
                let of_its_own = ran.overruns.iter().find(|of| {
                    base.overruns.iter().all(|base| base.index != of.index || base.bytes < of.bytes)
                });
                match of_its_own.and_then(|of| Some((launch.memories.get(of.index)?.id, of.bytes)))
                {
                    Some((memory, bytes)) => {
                        row.refused = Some(format!(
                            "it writes behind the end of memory {memory}, up to byte {bytes}"
                        ));
                    }
                    None => kept.push((rows.len(), range)),
                }
            }
            Err(StageError::Cl(error)) => row.refused = Some(error.to_string()),
            Err(StageError::Sizes { why, .. }) => row.refused = Some(why),
            Err(other) => return Err(other.into()),
        }
        rows.push(row);
    }
    let timed = |which: &[(usize, Range)], effort: Effort| {
        let subjects: Vec<Subject<'_>> = std::iter::once(&built.range)
            .chain(which.iter().map(|(_, range)| range))
            .map(|range| Subject { built, range, restored: with.restored, results: &[] })
            .collect();
        measure::in_turns(stage, &subjects, effort, stop)
    };
    let put =
        |row: &mut Tried, samples: &[f64]| row.time = time_of(samples, !with.restored.is_empty());
    stage.enter(Step::Timing);
    // First all of them, a few times each.
    let few = Effort { launches: Effort::LEAST, ..with.effort };
    let samples = timed(&kept, few)?;
    for (row, of) in std::iter::once(0).chain(kept.iter().map(|(row, _)| *row)).zip(&samples) {
        put(&mut rows[row], of);
    }
    let median =
        |row: &Tried| row.time.as_ref().map_or(f64::INFINITY, |t: &Time| t.median_ns.value);
    kept.sort_by(|(a, _), (b, _)| median(&rows[*a]).total_cmp(&median(&rows[*b])));
    // Sizes with other results are shown, and never the best.
    let right = |row: &Tried| {
        matches!(
            row.results,
            Some(Outcome::Same | Outcome::Within | Outcome::Varies | Outcome::NotChecked)
        )
    };
    kept.retain(|(row, _)| right(&rows[*row]));
    kept.truncate(FINALISTS);
    let samples = timed(&kept, with.effort)?;
    let base_samples = samples.first().cloned().unwrap_or_default();
    put(&mut rows[0], &base_samples);
    for ((row, _), of) in kept.iter().zip(samples.iter().skip(1)) {
        let row = &mut rows[*row];
        put(row, of);
        row.change = measure::ratio(&base_samples, of, kept.len());
        row.outcome = row.change.map_or(outcome::Outcome::NotJudged, |change| change.outcome());
    }
    let faster =
        kept.iter().map(|(row, _)| *row).filter(|row| rows[*row].outcome == outcome::Outcome::Less);
    let best = faster.min_by(|a, b| median(&rows[*a]).total_cmp(&median(&rows[*b])));
    if stop() {
        return Err(RunError::Interrupted);
    }
    Ok(Tuned { rows, best, notes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bounds(global: &[usize], group: usize, must_divide: bool) -> Bounds {
        Bounds {
            global: global.to_vec(),
            least: 1,
            group,
            dimensions: vec![group; 3],
            must_divide,
            multiple: 8,
        }
    }

    #[test]
    fn candidates_by_table() {
        let sorted = |of: &Bounds| {
            let (mut all, found) = candidates(of);
            assert_eq!(all.len(), found);
            all.sort();
            all.into_iter().flatten().collect::<Vec<_>>()
        };
        // Powers of two and divisors; where the size must be divided, these alone.
        assert_eq!(sorted(&bounds(&[12], 16, true)), [1, 2, 3, 4, 6, 12]);
        assert_eq!(sorted(&bounds(&[12], 16, false)), [1, 2, 3, 4, 6, 8, 12]);
        assert_eq!(sorted(&bounds(&[7], 64, true)), [1, 7]);
        assert_eq!(sorted(&Bounds { least: 4, ..bounds(&[12], 6, true) }), [4, 6]);
        let (all, _) = candidates(&bounds(&[64, 64], 64, true));
        assert_eq!(all[0], [64, 1]);
        let (few, found) = candidates(&bounds(&[4096, 4096, 64], 1024, true));
        assert!(few.len() <= MOST && found > MOST, "{} of {found}", few.len());
    }

    proptest! {
        #[test]
        fn candidates_keep_to_the_bounds(
            global in prop::collection::vec(1usize..5000, 1..4), group in 1usize..2048, must_divide: bool,
        ) {
            let of = bounds(&global, group, must_divide);
            let (all, _) = candidates(&of);
            prop_assert!(!all.is_empty() && all.len() <= MOST);
            for local in all {
                prop_assert!(local.iter().product::<usize>() <= group);
                for (l, g) in local.iter().zip(&global) {
                    prop_assert!(l <= g && (!must_divide || g % l == 0));
                }
            }
        }
    }
}
