//! Owns taking several of a run's sums as one, where repetitions show that chance told them apart.
//! Refuses to weigh evidence: the analysis does.
#![forbid(unsafe_code)]

use clscope_analysis::energy::GroupEnergy;

/// Groups that were told apart by chance differ from what repetitions say in both directions, so
/// that no more than this share is left of all differences in their sum.
const CANCELS: f64 = 0.3;

/// Whether groups were told apart by chance, given by how much each differs from what repetitions
/// say of it, in joules, and whether that is within what both leave open.
pub fn is_chance(differences: &[(f64, bool)]) -> bool {
    let off: f64 = differences.iter().map(|d| d.0).sum();
    let all: f64 = differences.iter().map(|d| d.0.abs()).sum();
    differences.len() > 1 && differences.iter().any(|d| !d.1) && off.abs() <= CANCELS * all
}

/// Several groups as one. Errors of groups that were told apart by chance are opposite: added by
/// squares they are more than the sum's.
pub fn sum_of(groups: &[GroupEnergy]) -> Option<GroupEnergy> {
    let mut sum = groups.first()?.clone();
    let mut half = sum.joules.half().powi(2);
    for group in groups.get(1..)? {
        sum.classes.extend(&group.classes);
        sum.busy.0 += group.busy.0;
        sum.joules.value += group.joules.value;
        sum.idle.0 += group.idle.0;
        sum.dynamic.0 += group.dynamic.0;
        sum.with_floor |= group.with_floor;
        half += group.joules.half().powi(2);
    }
    let half = half.sqrt();
    let value = sum.joules.value;
    sum.joules.low = (value - half).max(0.0);
    sum.joules.high = value + half;
    let busy = sum.busy.0.max(f64::MIN_POSITIVE);
    sum.watts.value = value / busy;
    sum.watts.low = sum.joules.low / busy;
    sum.watts.high = sum.joules.high / busy;
    sum.relative_half_width = half / value.max(f64::MIN_POSITIVE);
    sum.integrated = None;
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;
    use clscope_analysis::energy::{ClassId, Joules, Method, Seconds};

    #[test]
    fn groups_that_repetitions_contradict_in_both_directions_are_one() {
        // CLBlast on an H200, a fifth of the launches timed.
        assert!(is_chance(&[(-15.2, false), (-241.0, false), (269.0, true)]));
        // One kernel that draws less in the run than repeated: the run is right.
        assert!(!is_chance(&[(-20.0, false)]));
        assert!(!is_chance(&[(-20.0, false), (3.0, true)]));
        // All of them differ alike, as where a floor is off; or none by more than its interval.
        assert!(!is_chance(&[(-20.0, false), (-15.0, false)]));
        assert!(!is_chance(&[(-20.0, true), (18.0, true)]));
    }

    #[test]
    fn a_sum_of_groups_has_all_of_them() {
        let group = |class: u32, joules: f64, half: f64| GroupEnergy {
            classes: vec![ClassId(class)],
            busy: Seconds(2.0),
            watts: Interval::exact(0.0),
            joules: Interval::symmetric(joules, half),
            idle: Joules(20.0),
            dynamic: Joules(joules - 20.0),
            method: Method::Regressed,
            integrated: None,
            relative_half_width: half / joules,
            needed: Seconds(0.0),
            with_floor: false,
        };
        let sum = sum_of(&[group(0, 100.0, 3.0), group(3, 200.0, 4.0)]).expect("two groups");
        assert_eq!(sum.classes, [ClassId(0), ClassId(3)]);
        let (joules, watts) = (sum.joules, sum.watts);
        assert_eq!((joules.value, joules.low, joules.high), (300.0, 295.0, 305.0));
        assert_eq!((sum.idle.0, sum.dynamic.0, sum.busy.0, watts.value), (40.0, 260.0, 4.0, 75.0));
        assert!(sum_of(&[]).is_none());
    }
}
