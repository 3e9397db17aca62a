//! Owns what keeps a device's energy adding up to what was measured, once repetitions have given
//! classes their figures: joules that go from or to the floor between launches, rests before
//! repetitions, and what is then in no row or in several. Refuses to estimate any class.
#![forbid(unsafe_code)]

use super::activity::PhysicalDevice;
use super::evidence::absence;
use super::result::{Basis, Class, DeviceEnergy, Floor, Group};
use super::shapes::Repeated;
use crate::interval::Interval;
use clscope_analysis::energy::HostNs;

/// Share of a run's energy from which on it is told that launches shared the floor.
const BESIDE: f64 = 0.01;
/// Share of the application's energy that may belong to nothing without a note.
const UNEXPLAINED: f64 = 0.05;

/// Share of what the application adds to the floor that may belong to nothing without a note.
const OF_DYNAMIC: f64 = 0.1;
/// Share of the application's energy up to which what belongs to nothing is never noted.
const NOTABLE: f64 = 0.005;

/// Where what repetitions and the run make of it together is not what was measured, a note says so,
/// and what is missing or too much is open of each class that repetitions tell: which of them draws
/// otherwise in the run than repeated is not known.
pub(super) fn unexplained(out: &mut DeviceEnergy, groups: &mut [Group], parts: f64) {
    let Some((all, own)) = out.measured_joules.zip(out.own_joules()).filter(|of| of.1 > 0.0) else {
        return;
    };
    let rest = all - parts;
    if (rest / own).abs() <= UNEXPLAINED {
        return;
    }
    let percent = 100.0 * (rest / own).abs();
    let what = match rest > 0.0 {
        true => format!("{percent:.1} % of the application's energy is not assigned"),
        false => format!(
            "kernels, copies and idle power add up to {percent:.1} % more than was measured"
        ),
    };
    out.notes.push(format!(
        "{what}, because a kernel draws another power here than repeated alone, or idle power differs: intervals of repeated kernels include this"
    ));
    let told = |class: &Class| matches!(class.basis, Basis::Alone | Basis::Remainder);
    // Of floors as much as of rows.
    let share = (rest / own).abs();
    for class in out.classes.iter_mut().filter(|c| told(c)) {
        for figure in [&mut class.joules, &mut class.joules_per_launch, &mut class.watts] {
            *figure = figure.map(|of| above_none(of.widened(share)));
        }
        let more = class.joules.map_or(0.0, |joules| share * joules.value);
        class.dynamic_joules = class.dynamic_joules.map(|of| of.open_by(more));
        class.idle_joules = class.idle_joules.map(|of| above_none(of.widened(share)));
        let relative = class.joules.and_then(|j| j.relative());
        class.absence = relative.map_or(class.absence, absence);
        if let Some(group) = class.group.and_then(|at| groups.get_mut(at)) {
            group.joules = above_none(group.joules.widened(share));
            group.watts = above_none(group.watts.widened(share));
        }
    }
}

/// A note where what belongs to nothing is little beside the application's energy, and much beside
/// what it adds to the floor: dynamic figures are open by that.
pub(super) fn beside_dynamic(out: &mut DeviceEnergy) {
    let floor = out.floors.first().and_then(|f| f.watts).map_or(0.0, |watts| watts.value);
    let Some((rest, own)) = out.unattributed_joules.zip(out.own_joules()) else { return };
    // Of the application alone, and while the sensor was read: neither of repetitions nor of rests.
    let busy: f64 = out.classes.iter().map(|c| c.covered_seconds).sum();
    let idle = |of: fn(&Floor) -> f64| out.floors.iter().map(of).sum::<f64>();
    let seconds = idle(|f| f.idle_seconds) + busy;
    let dynamic = own - idle(|f| f.joules.unwrap_or(0.0)) - floor * busy;
    if !floor.is_finite() || floor <= 0.0 || seconds <= 0.0 || rest.abs() > UNEXPLAINED * own {
        return;
    }
    if rest.abs() <= OF_DYNAMIC * dynamic || rest.abs() <= NOTABLE * own {
        return;
    }
    let of = match dynamic > rest.abs() {
        true => format!("{:.0} % of the {dynamic:.0} J above idle", 100.0 * rest.abs() / dynamic),
        false => "more than all energy above idle".to_owned(),
    };
    out.notes.push(format!(
        "{of} is not assigned, as if idle power were {:.1} W {}: energy above idle is uncertain by as much",
        rest.abs() / seconds,
        if rest > 0.0 { "higher" } else { "lower" }
    ));
}

/// A figure that is not below 0.
fn above_none(of: Interval) -> Interval {
    Interval { low: of.low.max(0.0), ..of }
}

/// Seconds of the rests before repetitions that began in a part of the run.
pub(super) fn rests(device: &PhysicalDevice, window: Option<(HostNs, HostNs)>) -> f64 {
    let inside = |at: HostNs| window.is_none_or(|(from, to)| from <= at && at <= to);
    let begun = |r: &&Repeated| r.batches.first().is_none_or(|batch| inside(batch.0));
    device.replays.iter().filter(begun).map(|r| r.rest).sum()
}

/// Joules of the rests before repetitions, in which the device stood still and the application was
/// held: they are the repetitions', and no longer the floors' and gaps'.
pub(super) fn rests_taken_off(
    out: &mut DeviceEnergy,
    rested: f64,
    repeated_seconds: f64,
    floor: f64,
) -> f64 {
    let rest = rested.min(out.floors.first().map_or(0.0, |f| f.idle_seconds));
    if repeated_seconds <= 0.0 || rest <= 0.0 || floor <= 0.0 {
        return 0.0;
    }
    if let Some(first) = out.floors.first_mut() {
        first.idle_seconds -= rest;
        first.joules = first.joules.map(|joules| (joules - floor * rest).max(0.0));
    }
    if let Some(gaps) = &mut out.gaps {
        gaps.joules = gaps.joules.map(|joules| (joules - floor * rest).max(0.0));
        gaps.seconds = (gaps.seconds - rest).max(0.0);
    }
    floor * rest
}

/// Gives the floor between launches the joules that launches of known length leave to it, or takes
/// them off. Where launches ran beside each other each counts with the floor for its own length,
/// and the floor that they share is in all of them: the joules that are so counted more than once
/// are returned, and are no floor's between launches.
pub(super) fn floors_moved(
    out: &mut DeviceEnergy,
    moved: f64,
    floor: f64,
    overlapped: bool,
) -> f64 {
    let Some(first) = out.floors.first_mut() else { return 0.0 };
    if overlapped && moved < 0.0 {
        if -moved > BESIDE * out.measured_joules.unwrap_or(0.0) {
            out.notes.push(format!(
                "launches ran at the same time, and each includes idle power for its own length: {:.0} J of idle power are counted more than once",
                -moved
            ));
        }
        return -moved;
    }
    // More than there was cannot be taken off; the rest is unattributed.
    first.joules = first.joules.map(|joules| (joules + moved).max(0.0));
    if floor > 0.0 && moved > 0.0 {
        first.idle_seconds += moved / floor;
    }
    0.0
}

#[cfg(test)]
mod tests {
    use super::super::activity::Kind;
    use super::super::rows;
    use super::*;
    use crate::energy::power::Power;
    use clscope_analysis::Trace;
    use clscope_analysis::energy::{ResponseModel, Series};

    fn device() -> DeviceEnergy {
        let device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        let series = Series::Instant(Vec::new());
        let power = Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06);
        let mut out = rows::unknown(&Trace::open(Vec::new()), &device, &power);
        out.measured_joules = Some(1000.0);
        out.floors = vec![Floor {
            state: 0,
            name: "between launches",
            watts: None,
            idle_seconds: 1.0,
            joules: Some(100.0),
        }];
        out
    }

    fn class(joules: f64) -> Class {
        Class {
            joules: Some(Interval::around(joules, 1.0)),
            joules_per_launch: Some(Interval::around(joules / 10.0, 0.1)),
            watts: Some(Interval::around(100.0, 0.1)),
            basis: Basis::Alone,
            ..Class::default()
        }
    }

    #[test]
    fn the_floor_between_launches_stays_where_launches_share_theirs() {
        let mut out = device();
        assert_eq!(floors_moved(&mut out, -264.0, 100.0, true), 264.0);
        assert_eq!((out.floors[0].joules, out.notes.len()), (Some(100.0), 1));
        assert!(out.notes[0].contains("264 J of idle power are counted more than once"));
        let mut out = device();
        assert_eq!(floors_moved(&mut out, -40.0, 100.0, false), 0.0);
        assert_eq!((out.floors[0].joules, out.notes.len()), (Some(60.0), 0));
    }

    #[test]
    fn what_is_in_no_row_is_open_of_what_was_repeated() {
        let mut out = device();
        out.classes = vec![class(700.0), class(200.0)];
        unexplained(&mut out, &mut [], 1000.0);
        assert_eq!((out.classes[0].is_precise(), out.notes.len()), (true, 0));
        unexplained(&mut out, &mut [], 880.0);
        for class in &out.classes {
            let relative = class.joules.unwrap().relative().unwrap();
            assert!((0.12..0.13).contains(&relative), "{relative}");
            assert!(!class.is_precise() && class.absence.is_none());
            assert!(class.watts.unwrap().relative().unwrap() >= 0.12);
        }
        assert!(out.notes[0].starts_with("12.0 %"), "{:?}", out.notes);
    }

    #[test]
    fn what_is_little_of_all_may_be_much_of_what_is_added_to_the_floor() {
        // 1000 J, of which so many seconds at 100 W are the floor's.
        let with = |seconds: f64, rest: f64| {
            let mut out = device();
            out.floors[0].watts = Some(Interval::around(100.0, 1.0));
            out.classes = vec![Class { covered_seconds: seconds - 1.0, ..Class::default() }];
            out.unattributed_joules = Some(rest);
            beside_dynamic(&mut out);
            out.notes
        };
        let notes = with(9.0, -18.0);
        assert!(notes[0].contains("18 % of the 100 J"), "{notes:?}");
        assert!(notes[0].contains("2.0 W lower"), "{notes:?}");
        let notes = with(11.0, -18.0);
        assert!(notes[0].contains("more than all energy above idle"), "{notes:?}");
        // Little of both, and much of all, of which another note speaks.
        assert_eq!((with(9.0, 4.0), with(9.0, 60.0)), (vec![], vec![]));
    }
}
