//! Joules of kernels and transfers of which measurement knows only the sum, told apart by the
//! energy model: a prior for each member, and the measured sum as a constraint on all of them. Owns
//! the priors and the update; refuses where a member has no prior, and never changes the sum.
//!
//! Joules of member i are F T_i + d_i: the floor's watts F, busy seconds T_i, and joules above the
//! floor d_i. Prior: d_i normal about the model's value with the error that the model made on what
//! was not in its fit ([`EnergyModel::error`], a share of the whole), F normal as the run knows it.
//! The measured sum S = F sum(T_i) + sum(d_i) with its own error is one linear observation of both,
//! so that the posterior is normal as well (Gelman et al., Bayesian Data Analysis, 3rd edition,
//! section 14.8). Where model and sum contradict each other, the priors widen until they do not.

use crate::device::Device;
use crate::energy::{self, EnergyModel, TERMS};
use crate::facts::{self, OnDevice};
use crate::figure::{Figure, Missing};
use crate::kernel::Kernel;
use clscope_analysis::quantile::NORMAL_95;
use clscope_profile::energy::result::{Basis, DeviceEnergy};
use clscope_profile::interval::Interval;
use clscope_trace::record::Direction;
use nalgebra::{DMatrix, DVector};

/// What some kernels and transfers took together.
#[derive(Debug, Clone, PartialEq)]
pub struct Sum {
    /// At least two.
    pub members: Vec<Member>,
    /// Joules of all, floor included.
    pub joules: Interval,
    /// Watts of the floor in their time.
    pub floor: Interval,
}

/// A kernel, or a direction of transfers.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// As the report names it.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Launches.
    pub launches: f64,
    /// Seconds of all, while the sensor was read.
    pub seconds: f64,
}

/// Joules of one member.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// As the report names it.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Of all launches, floor included.
    pub joules: Interval,
    /// Above the floor.
    pub dynamic: Interval,
    /// By launch.
    pub per_launch: Interval,
}

/// Sums of a device whose members are not known alone.
pub fn sums(of: &DeviceEnergy) -> Vec<Sum> {
    let floor = of.floors.iter().find(|f| f.state == 0).and_then(|f| f.watts);
    let Some(floor) = floor else { return Vec::new() };
    let groups = of.groups.iter().enumerate();
    let apart = groups.filter(|(_, g)| g.names.len() > 1);
    apart
        .filter_map(|(at, group)| {
            let members: Vec<Member> = of
                .classes
                .iter()
                .filter(|c| c.group == Some(at) && c.joules.is_none())
                .map(|c| Member {
                    name: c.name.clone(),
                    is_kernel: c.kind == "kernel",
                    launches: c.launches,
                    seconds: c.covered_seconds,
                })
                .collect();
            let whole = members.len() == group.names.len();
            whole.then_some(Sum { members, joules: group.joules, floor })
        })
        .collect()
}

/// Watts above the floor while a member runs, by the model.
fn watts(of: &Member, on: &OnDevice, device: &Device, model: &EnergyModel) -> Result<f64, Missing> {
    let lacking = |why: String| Missing::new(format!("joules of {} in a sum", of.name), why);
    if of.is_kernel {
        let kernel = on.kernels.iter().find(|k| k.name == of.name);
        let kernel = kernel.ok_or_else(|| lacking("its launches have no times".to_owned()))?;
        let kernel = kernel.clone().on(device);
        kernel.counted()?;
        let seconds = kernel.time_ns.map(|t| t.value * 1e-9).filter(|s| *s > 0.0);
        let seconds = seconds.ok_or_else(|| lacking("its launches have no times".to_owned()))?;
        let amounts = energy::of_launch(&kernel, device, seconds)
            .ok_or_else(|| lacking("its instructions were not counted".to_owned()))?;
        return Ok(model.above_floor(&amounts) / seconds);
    }
    let direction = on.transfers.iter().find(|(d, _)| d.name() == of.name);
    let (direction, transfers) =
        direction.ok_or_else(|| lacking("it is no direction that models know".to_owned()))?;
    if *direction == Direction::DeviceToDevice {
        let memory = TERMS.iter().position(|(name, _)| *name == "memory");
        let each = memory.and_then(|at| model.terms.get(TERMS.get(at)?.0));
        let each = each.ok_or_else(|| lacking("the model has no joules of memory".to_owned()))?;
        let ns = transfers.ns().filter(|ns| *ns > 0.0);
        let ns = ns.ok_or_else(|| lacking("they were not timed".to_owned()))?;
        // Read and written.
        return Ok(2.0 * transfers.bytes() * each.joules.value / (ns * 1e-9));
    }
    let links = facts::link_direction(*direction).into_iter().flat_map(|wanted| {
        device.links.iter().filter(move |l| l.direction == wanted && l.memory != "mapped")
    });
    let known: Vec<f64> = links.filter_map(|l| Some(l.watts.as_ref()?.value)).collect();
    if known.is_empty() {
        return Err(lacking(
            "`clscope bench model` of this version measures watts of transfers".to_owned(),
        ));
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    Ok((mean - model.floor_watts).max(0.0))
}

/// Tells a sum apart.
///
/// # Errors
/// Where the device has no energy model, or a member no prior.
pub fn split(sum: &Sum, on: &OnDevice, device: &Device) -> Result<Vec<Share>, Missing> {
    let model = device.energy.as_ref().ok_or_else(|| {
        Missing::new("the device's joules by class", "`clscope bench model` measures them")
    })?;
    let priors = sum.members.iter().map(|m| watts(m, on, device, model));
    let priors = priors.collect::<Result<Vec<f64>, Missing>>()?;
    let error = model.error;
    let priors: Vec<(f64, f64, f64)> = sum
        .members
        .iter()
        .zip(&priors)
        .map(|(m, watts)| {
            let (dynamic, idle) = (watts * m.seconds, sum.floor.value.max(0.0) * m.seconds);
            (dynamic, error * (dynamic + idle), m.seconds)
        })
        .collect();
    let found = posterior(sum.joules, sum.floor, &priors);
    Ok(sum
        .members
        .iter()
        .zip(found)
        .map(|(m, (joules, dynamic))| Share {
            name: m.name.clone(),
            is_kernel: m.is_kernel,
            joules,
            dynamic,
            per_launch: joules.times(1.0 / m.launches.max(1.0)),
        })
        .collect())
}

/// Tells all sums of a device apart, with the reasons of those that cannot be.
pub fn all(on: &OnDevice, device: &Device) -> (Vec<Share>, Vec<Missing>) {
    let (mut shares, mut missing) = (Vec::new(), Vec::new());
    for sum in &on.sums {
        match split(sum, on, device) {
            Ok(found) => shares.extend(found),
            Err(why) => missing.push(why),
        }
    }
    (shares, missing)
}

/// A kernel with its share of a sum as joules of a launch, where none are known of it alone.
pub fn with_share(kernel: &Kernel, shares: &[Share]) -> Kernel {
    let share = shares.iter().find(|s| s.is_kernel && s.name == kernel.name);
    let share = share.filter(|_| kernel.joules.is_none());
    let joules = share.map(|s| Figure::measured(s.per_launch).modelled()).or(kernel.joules);
    Kernel { joules, ..kernel.clone() }
}

/// Puts shares into the rows of a report, which say that a model stands behind them.
pub fn put_into_device(shares: &[Share], into: &mut DeviceEnergy) {
    let watts = into.floors.first().and_then(|f| f.watts);
    let (floor, rest) = watts.map_or((0.0, 0.0), |watts| (watts.longer(), watts.low));
    let mut separated = Vec::new();
    for class in into.classes.iter_mut().filter(|c| c.joules.is_none()) {
        let is_it = |s: &&Share| s.name == class.name && s.is_kernel == (class.kind == "kernel");
        let Some(share) = shares.iter().find(is_it) else { continue };
        let seconds = class.covered_seconds.max(f64::MIN_POSITIVE);
        // No lower than idle power's lower end, as every row.
        let within =
            |of: Interval| of.within(rest * seconds / share.joules.value * of.value, of.high);
        let joules = within(share.joules);
        (class.joules, class.watts) = (Some(joules), Some(joules.times(1.0 / seconds)));
        class.joules_per_launch = Some(within(share.per_launch));
        class.joules_per_launch_below = None;
        // Where nothing above the floor is as likely, only its upper end says something.
        if share.dynamic.low > 0.0 {
            class.dynamic_joules = Some(share.dynamic);
            let idle = share.joules.value - share.dynamic.value;
            class.idle_joules =
                Some(Interval::estimated(idle, idle, idle).open_by(floor * seconds));
        } else {
            class.dynamic_joules_below = Some(share.dynamic.high.max(0.0));
        }
        (class.basis, class.absence) = (Basis::Model, None);
        class.needed_seconds = None;
        separated.push(class.name.as_str());
    }
    if !separated.is_empty() {
        into.notes.push(format!(
            "the energy model separates {}: the intervals of their joules hold its error",
            separated.join(" and ")
        ));
    }
}

/// Joules, and those above the floor, of members with (joules above the floor by the model,
/// standard deviation, seconds), of which `sum` is measured on a floor of so many watts.
fn posterior(
    sum: Interval,
    floor_watts: Interval,
    priors: &[(f64, f64, f64)],
) -> Vec<(Interval, Interval)> {
    let n = priors.len();
    let mean = DVector::from_fn(n + 1, |i, _| priors.get(i).map_or(floor_watts.value, |p| p.0));
    let spread = |i: usize| priors.get(i).map_or(floor_watts.half() / NORMAL_95, |p| p.1);
    let mut prior =
        DMatrix::from_fn(n + 1, n + 1, |r, c| if r == c { spread(r) * spread(r) } else { 0.0 });
    let seconds: f64 = priors.iter().map(|p| p.2).sum();
    let seen = DVector::from_fn(n + 1, |i, _| if i < n { 1.0 } else { seconds });
    let noise = (sum.half() / NORMAL_95).powi(2);
    let off = sum.value - seen.dot(&mean);
    let known = (seen.transpose() * &prior * &seen)[0];
    // Members that are off by more than twice what is known of them are known that much less.
    let beyond = off * off / (known + noise).max(f64::MIN_POSITIVE) / (NORMAL_95 * NORMAL_95);
    if beyond > 1.0 {
        for i in 0..n {
            prior[(i, i)] *= beyond;
        }
    }
    let known = (seen.transpose() * &prior * &seen)[0];
    let gain = &prior * &seen / (known + noise).max(f64::MIN_POSITIVE);
    let mean = mean + &gain * off;
    let covariance = &prior - &gain * (seen.transpose() * &prior);
    let floor = mean[n];
    // Nothing takes less than the floor in its time, nor more than that leaves of the sum.
    let least = floor_watts.low.max(0.0);
    let most = sum.high - least * seconds;
    let bounds = |time: f64| (least * time, least * time + most);
    let mut found: Vec<(Interval, Interval)> = priors
        .iter()
        .enumerate()
        .map(|(i, &(_, _, time))| {
            let own = covariance[(i, i)];
            let whole = own + 2.0 * time * covariance[(i, n)] + time * time * covariance[(n, n)];
            let deviation = |variance: f64| variance.max(0.0).sqrt();
            (
                truncated(mean[i] + floor * time, deviation(whole), bounds(time)),
                truncated(mean[i], deviation(own), (0.0, most)),
            )
        })
        .collect();
    let whole = priors.iter().enumerate().map(|(i, p)| mean[i] + floor * p.2).sum();
    let bounds: Vec<(f64, f64)> = priors.iter().map(|p| bounds(p.2)).collect();
    conserve(&mut found, &bounds, whole);
    found
}

/// Moves members, each within its bounds, so that they add up to `sum` again.
fn conserve(of: &mut [(Interval, Interval)], bounds: &[(f64, f64)], sum: f64) {
    let off = sum - of.iter().map(|(whole, _)| whole.value).sum::<f64>();
    let room = |(whole, _): &(Interval, Interval), (low, high): (f64, f64)| {
        if off > 0.0 { (high - whole.value).max(0.0) } else { (whole.value - low).max(0.0) }
    };
    let rooms: Vec<f64> = of.iter().zip(bounds).map(|(of, at)| room(of, *at)).collect();
    let all: f64 = rooms.iter().sum();
    for ((whole, dynamic), room) in of.iter_mut().zip(&rooms).filter(|(_, room)| **room > 0.0) {
        for part in [whole, dynamic] {
            part.value += off * room / all;
            (part.low, part.high) = (part.low.min(part.value), part.high.max(part.value));
        }
    }
}

/// Mean and central 95 % of a normal distribution of which nothing lies outside `low` and `high`.
fn truncated(mean: f64, deviation: f64, (low, high): (f64, f64)) -> Interval {
    let nearest = mean.max(low).min(high.max(low));
    if deviation <= 0.0 || high <= low {
        return Interval::estimated(nearest, nearest, nearest);
    }
    // Where the mean lies outside, what is left of the distribution falls off the faster.
    let outside = (mean - nearest).abs() / deviation;
    let reach = 8.0 * deviation / outside.max(1.0);
    let (from, to) = ((nearest - reach).max(low), (nearest + reach).min(high));
    let step = (to - from) / f64::from(STEPS);
    let weight = |x: f64| {
        let away = |x: f64| ((x - mean) / deviation).powi(2) / 2.0;
        (away(nearest) - away(x)).exp()
    };
    let points = (0..STEPS).map(|k| from + (f64::from(k) + 0.5) * step);
    let (mut all, mut moment) = (0.0, 0.0);
    for x in points.clone() {
        all += weight(x);
        moment += weight(x) * x;
    }
    // The ends lie within a step.
    let end = |share: f64| {
        let mut below = 0.0;
        for x in points.clone() {
            let within = (share * all - below) / weight(x);
            if within <= 1.0 {
                return x + (within - 0.5) * step;
            }
            below += weight(x);
        }
        to
    };
    let value = moment / all;
    Interval::estimated(value, end(0.025).min(value), end(0.975).max(value))
}

/// Points of the distribution of [`truncated`].
const STEPS: u32 = 400;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::tests::round;
    use crate::energy::Term;
    use crate::facts::{Sized, Transfers};
    use crate::hockney::{Link, Segment};
    use crate::kernel::tests::mix;
    use crate::{Evidence, Figure};
    use clscope_mix::Class;
    use clscope_profile::energy::result::{Absence, Class as Row, Floor, Group};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Two kernels of 1 ms and uploads of 1 ms, 1000 each, on a floor of 100 W.
    fn report() -> DeviceEnergy {
        let row = |name: &str, kind| Row {
            name: name.to_owned(),
            kind,
            launches: 1000.0,
            busy_seconds: 1.0,
            covered_seconds: 1.0,
            absence: Some(Absence::InSum),
            group: Some(0),
            ..Row::default()
        };
        let classes =
            vec![row("a", "kernel"), row("b", "kernel"), row("host to device", "transfer")];
        DeviceEnergy {
            device: "Round".to_owned(),
            groups: vec![Group {
                names: classes.iter().map(|c| c.name.clone()).collect(),
                busy_seconds: 3.0,
                busy_open: 0.0,
                joules: Interval::estimated(630.0, 624.0, 636.0),
                watts: Interval::estimated(210.0, 208.0, 212.0),
                idle: Interval::exact(300.0),
            }],
            classes,
            floors: vec![Floor {
                state: 0,
                name: "between launches",
                watts: Some(FLOOR),
                idle_seconds: 1.0,
                joules: Some(FLOOR),
            }],
            ..DeviceEnergy::default()
        }
    }

    fn ran(of: &DeviceEnergy) -> OnDevice {
        // By the model `a` takes 200 W above the floor, `b` 100.
        let kernel = |name: &str, operations| Kernel {
            name: name.to_owned(),
            time_ns: Some(Figure::exact(1e6, Evidence::Measured)),
            launches: 1000,
            mix: Some(mix(&[(Class::SingleFma, operations, 0, 0)])),
            ..Kernel::default()
        };
        let one = Sized { count: 1000, timed: 1000, ns: 1e9, ..Sized::default() };
        let up = Transfers { sizes: BTreeMap::from([(1 << 20, one)]), ..Transfers::default() };
        OnDevice {
            kernels: vec![kernel("a", 200_000_000), kernel("b", 100_000_000)],
            transfers: BTreeMap::from([(Direction::HostToDevice, up)]),
            sums: sums(of),
            ..OnDevice::default()
        }
    }

    fn measured(with_links: bool) -> Device {
        let of = |joules: f64| Term { joules: Interval::measured(joules, joules, joules) };
        let watts = Figure::new(110.0, 109.0, 111.0, Evidence::Measured);
        let watts = crate::device::Parameter::measured(watts, "W", "test");
        let link = Link {
            direction: "to_device".to_owned(),
            memory: "pinned".to_owned(),
            segments: vec![Segment { from_bytes: 0.0, latency_ns: 1.0, gigabytes_per_second: 1.0 }],
            misfit: 0.0,
            watts: with_links.then_some(watts),
        };
        Device {
            energy: Some(EnergyModel {
                floor_watts: 100.0,
                terms: BTreeMap::from([("fp32".to_owned(), of(1e-9))]),
                error: 0.2,
                observations: 9,
            }),
            links: vec![link],
            ..round()
        }
    }

    #[test]
    fn rows_of_a_sum_get_shares_that_add_up_and_say_so() {
        let mut report = report();
        let on = ran(&report);
        let (shares, missing) = all(&on, &measured(true));
        assert!(missing.is_empty(), "{missing:?}");
        put_into_device(&shares, &mut report);
        let watts: Vec<f64> = report.classes.iter().map(|c| c.watts.unwrap().value).collect();
        // 300, 200 and 110 W by the model, 630 J in 3 s by the sensor.
        assert!((watts.iter().sum::<f64>() - 630.0).abs() < 0.5, "{watts:?}");
        for (watts, model) in watts.iter().zip([300.0, 200.0, 110.0]) {
            assert!((watts - model).abs() < 15.0, "{watts} {model}");
        }
        for class in &report.classes {
            assert_eq!((class.absence, class.basis), (None, Basis::Model));
            let of_launch = class.joules_per_launch.unwrap();
            assert!((of_launch.value - class.joules.unwrap().value / 1000.0).abs() < 1e-9);
            assert!(of_launch.low < of_launch.value && of_launch.high > of_launch.value);
            let idle = class.idle_joules.filter(|_| class.dynamic_joules.is_some());
            assert!(idle.is_none_or(|of| of.low < of.value && of.value < of.high), "{idle:?}");
        }
        let shared = with_share(&on.kernels[0], &shares).joules.unwrap();
        assert_eq!(shared.evidence, Evidence::Modelled);
        // What was measured of a kernel alone stays.
        let known = Figure::new(1.0, 0.9, 1.1, Evidence::Measured);
        let own = Kernel { joules: Some(known), ..on.kernels[0].clone() };
        assert_eq!(with_share(&own, &shares).joules, Some(known));
    }

    #[test]
    fn a_sum_with_a_member_of_which_the_model_knows_nothing_stays_one() {
        let mut report = report();
        let on = ran(&report);
        let (shares, missing) = all(&on, &measured(false));
        assert!(shares.is_empty() && missing[0].what.contains("host to device"), "{missing:?}");
        let mut uncounted = ran(&report);
        uncounted.kernels[1].mix = None;
        assert!(split(&on.sums[0], &uncounted, &measured(true)).is_err());
        assert!(split(&on.sums[0], &on, &round()).unwrap_err().to_string().contains("bench model"));
        put_into_device(&shares, &mut report);
        assert!(report.classes.iter().all(|c| c.joules.is_none()));
    }

    const FLOOR: Interval = Interval::measured(100.0, 99.0, 101.0);

    #[test]
    fn the_sum_stays_and_members_keep_the_proportions_of_the_model() {
        // 100 W for 3 s, and 60 J above it, of which the model has 20 and 40.
        let sum = Interval::estimated(360.0, 355.0, 365.0);
        let of = posterior(sum, FLOOR, &[(20.0, 10.0, 1.0), (40.0, 20.0, 2.0)]);
        let whole: f64 = of.iter().map(|(joules, _)| joules.value).sum();
        assert!((whole - 360.0).abs() < 1e-6, "{whole}");
        assert!((of[0].0.value - 120.0).abs() < 1.0 && (of[1].1.value - 40.0).abs() < 1.0);
        // Each knows less than the sum and more than the prior.
        assert!(of[0].0.half() > 5.0 && of[0].0.half() < 1.96 * 10.0, "{of:?}");
    }

    #[test]
    fn a_member_that_the_model_puts_below_the_floor_is_at_it_or_above() {
        // 100 W for 2 s, and 10 J above it; the model has 60 J for the first alone.
        let sum = Interval::estimated(210.0, 209.0, 211.0);
        let of = posterior(sum, FLOOR, &[(60.0, 20.0, 1.0), (0.0, 20.0, 1.0)]);
        let [(first, _), (second, above)] = &of[..] else { panic!("{of:?}") };
        assert!((first.value + second.value - 210.0).abs() < 0.1, "{of:?}");
        assert!(second.low >= 99.0 && second.value > second.low && second.high < 112.0, "{of:?}");
        assert!(above.low >= 0.0 && first.value > second.value && first.low < 110.0, "{of:?}");
        assert!(first.high <= 211.0 - 99.0 + 1e-9, "{of:?}");
    }

    #[test]
    fn a_truncated_normal_has_its_known_moments() {
        let near = |a: f64, b: f64| (a - b).abs() < 5e-3;
        let whole = truncated(10.0, 1.0, (-100.0, 100.0));
        assert!(near(whole.value, 10.0) && near(whole.high, 11.96) && near(whole.low, 8.04));
        // Half of one: mean sqrt(2/pi), and 97.5 % of |x| lie below 2.2414.
        let half = truncated(0.0, 1.0, (0.0, 100.0));
        assert!(near(half.value, 0.797_88) && near(half.high, 2.2414), "{half:?}");
        // Far out it is an exponential of so many deviations.
        let tail = truncated(-30.0, 1.0, (0.0, 100.0));
        assert!((tail.value * 30.0 - 1.0).abs() < 0.01, "{tail:?}");
        assert_eq!(truncated(5.0, 1.0, (1.0, 1.0)).value, 1.0);
    }

    #[test]
    fn a_sum_that_the_model_contradicts_is_kept_and_its_members_are_known_less() {
        let sum = Interval::estimated(700.0, 695.0, 705.0);
        let agreeing = posterior(sum, FLOOR, &[(200.0, 20.0, 1.0), (200.0, 20.0, 2.0)]);
        let contradicting = posterior(sum, FLOOR, &[(50.0, 20.0, 1.0), (50.0, 20.0, 2.0)]);
        let whole: f64 = contradicting.iter().map(|(joules, _)| joules.value).sum();
        assert!((whole - 700.0).abs() < 1.0, "{whole}");
        assert!(contradicting[0].0.half() > 3.0 * agreeing[0].0.half(), "{contradicting:?}");
        // The truth is that both take 200 J above the floor.
        assert!(contradicting[0].0.low < 300.0 && contradicting[0].0.high > 300.0);
    }

    proptest! {
        #[test]
        fn joules_are_conserved_and_within_what_physics_allows(
            members in prop::collection::vec((0.0..500.0f64, 0.01..200.0f64, 0.001..10.0f64), 2..8),
            excess in 0.0..1.0f64,
        ) {
            let seconds: f64 = members.iter().map(|m| m.2).sum();
            let value = 100.0 * seconds * (1.0 + excess);
            // Known well beside what the priors leave open: then the sum is what measurement says.
            let sum = Interval::estimated(value, value * (1.0 - 1e-9), value * (1.0 + 1e-9));
            let of = posterior(sum, FLOOR, &members);
            let whole: f64 = of.iter().map(|(joules, _)| joules.value).sum();
            prop_assert!((whole / value - 1.0).abs() < 1e-6, "{} {}", whole, value);
            for ((joules, _), member) in of.iter().zip(&members) {
                prop_assert!(joules.low <= joules.value && joules.value <= joules.high);
                prop_assert!(joules.low >= 99.0 * member.2 * (1.0 - 1e-9), "{:?}", joules);
                prop_assert!(joules.high <= value - 99.0 * (seconds - member.2) + 1e-6 * value);
            }
        }

        #[test]
        fn intervals_hold_what_the_priors_are_right_about(seed in 0u64..64) {
            // 400 draws of members about the model's values, summed as a sensor would.
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut uniform = move || {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) as f64 / (1u64 << 53) as f64
            };
            let mut normal = move || (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            let priors = [(80.0, 20.0, 1.0), (40.0, 15.0, 0.5), (120.0, 30.0, 2.0)];
            let (mut held, mut all) = (0, 0);
            for _ in 0..400 {
                let truth: Vec<f64> = priors.iter().map(|p| p.0 + p.1 * normal()).collect();
                let floor = 100.0 + 0.5 * normal();
                let sum = truth.iter().sum::<f64>() + floor * 3.5 + 2.0 * normal();
                let sum = Interval::estimated(sum, sum - 3.92, sum + 3.92);
                let known = Interval::measured(100.0, 100.0 - 0.98, 100.0 + 0.98);
                for (((joules, _), own), p) in posterior(sum, known, &priors).iter().zip(&truth).zip(&priors) {
                    let whole = own + floor * p.2;
                    all += 1;
                    held += i32::from(joules.low <= whole && whole <= joules.high);
                }
            }
            let share = f64::from(held) / f64::from(all);
            prop_assert!((0.92..=0.985).contains(&share), "{}", share);
        }
    }
}
