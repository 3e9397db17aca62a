//! Owns how joules of a kernel or transfer on a device are shared between the rows that ran it
//! there: by time. Refuses to share a sum of several kernels between rows, which may have run other
//! shares of them.

use super::places::{Ran, Sum};
use crate::energy::result::{Class, DeviceEnergy, Energy};
use crate::interval::Interval;
use std::collections::{BTreeMap, BTreeSet};

/// Members of a sum that are named.
const NAMED: usize = 4;

/// Joules of each row, or why they are not known. Those of fits err together: their ends add up.
pub(super) fn joules_of_rows(
    sums: &[Sum],
    energy: Option<&Energy>,
) -> Vec<Result<Interval, String>> {
    let shares = Shares::collect(sums, energy);
    let of = |(row, sum): (usize, &Sum)| {
        let mut all = Interval::measured(0.0, 0.0, 0.0);
        // A sum counts once in the row that has all of it.
        let mut counted = BTreeSet::new();
        for ran in sum.classes.keys() {
            let (device, class) = known(energy, ran)?;
            let part = match (class.joules, class.group.and_then(|i| device.groups.get(i))) {
                (Some(joules), _) => joules_of(joules, shares.time(row, ran)?),
                (None, None) => {
                    return Err(format!("the power of {} was not measured", ran.name));
                }
                (None, Some(group)) if shares.rows_of(ran.metered, class.group) > 1 => {
                    let names = named(&group.names);
                    return Err(format!(
                        "the power of {names} is measured as a sum only, and rows may have other shares of it: `record --replay` separates them"
                    ));
                }
                (None, Some(_)) if !counted.insert((ran.metered, class.group)) => continue,
                (None, Some(group)) => group.joules,
            };
            all = all.join(part);
        }
        Ok(all)
    };
    sums.iter().enumerate().map(of).collect()
}

/// A share of a figure; both have doubts of their own. All of it is as it was.
fn joules_of(joules: Interval, share: Interval) -> Interval {
    if share == Interval::exact(1.0) {
        return joules;
    }
    let value = joules.value * share.value;
    let side = |joules: f64, own: f64| (joules * share.value).hypot(own);
    let (below, above) = (share.value - share.low, share.high - share.value);
    let low = value - side(joules.value - joules.low, joules.value * below);
    let high = value + side(joules.high - joules.value, joules.value * above);
    Interval::estimated(value, low, high).at_least(0.0)
}

fn named(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(" + ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} + {more} more"),
    }
}

/// The row of the table of energy that something has.
fn known<'e>(
    energy: Option<&'e Energy>,
    ran: &Ran,
) -> Result<(&'e DeviceEnergy, &'e Class), String> {
    let energy = energy.ok_or("nobody asked for energy")?;
    if let Some(why) = &energy.absent {
        return Err(why.clone());
    }
    let Some(device) = ran.metered.and_then(|i| energy.devices.get(i)) else {
        let told = energy.unmeasured.iter().find(|of| of.device == ran.device);
        let why = told.map_or("no sensor", |of| of.why.as_str());
        return Err(format!("{}: {why}", ran.device));
    };
    if let Some(why) = &device.failed {
        return Err(format!("{}: {why}", ran.device));
    }
    if let Some(window) = device.window {
        return Err(format!("joules are of {} alone (--window)", window.in_words()));
    }
    let kind = if ran.kernel { "kernel" } else { "transfer" };
    let class = device.classes.iter().find(|c| c.kind == kind && c.name == ran.name);
    let untold = || format!("the power of {} was not measured", ran.name);
    Ok((device, class.ok_or_else(untold)?))
}

/// Who ran what.
struct Shares {
    /// Of each class the share of each row that ran it; `None` where its time is not known.
    times: BTreeMap<Ran, BTreeMap<usize, Option<Interval>>>,
    /// Rows that ran any class of a sum.
    rows: BTreeMap<(Option<usize>, Option<usize>), BTreeSet<usize>>,
}

impl Shares {
    fn collect(sums: &[Sum], energy: Option<&Energy>) -> Self {
        let mut out = Self { times: BTreeMap::new(), rows: BTreeMap::new() };
        for (row, sum) in sums.iter().enumerate() {
            for (ran, (time, _)) in &sum.classes {
                out.times.entry(ran.clone()).or_default().insert(row, *time);
                if let Ok((_, class)) = known(energy, ran) {
                    out.rows.entry((ran.metered, class.group)).or_default().insert(row);
                }
            }
        }
        for of_rows in out.times.values_mut() {
            let times: Option<Vec<Interval>> = of_rows.values().copied().collect();
            let others = times.as_ref().map(|times| Interval::sum_and_others(times).1);
            for (i, own) in of_rows.values_mut().enumerate() {
                let others = others.as_ref().and_then(|others| others.get(i));
                *own = own.zip(others).and_then(|(own, others)| own.share(*others));
            }
        }
        out
    }

    fn time(&self, row: usize, ran: &Ran) -> Result<Interval, String> {
        let of_rows = self.times.get(ran);
        if of_rows.is_some_and(|rows| rows.len() == 1) {
            return Ok(Interval::exact(1.0));
        }
        let share = of_rows.and_then(|rows| *rows.get(&row)?);
        share.ok_or_else(|| format!("not every row that ran {} has times of it", ran.name))
    }

    fn rows_of(&self, device: Option<usize>, group: Option<usize>) -> usize {
        self.rows.get(&(device, group)).map_or(0, BTreeSet::len)
    }
}

#[cfg(test)]
mod tests {
    use super::super::places::tests::{ran, sum};
    use super::*;
    use crate::energy::result::Group;

    fn class(name: &str, joules: Option<f64>, group: Option<usize>) -> Class {
        let joules = joules.map(|j| Interval::estimated(j, 0.5 * j, 1.5 * j));
        Class { name: name.to_owned(), kind: "kernel", joules, group, ..Class::default() }
    }

    fn energy(classes: Vec<Class>) -> Energy {
        let names = classes.iter().filter(|c| c.joules.is_none()).map(|c| c.name.clone());
        let joules = Interval::estimated(90.0, 80.0, 100.0);
        let names = names.collect();
        let idle = Interval::exact(0.0);
        let group = Group { names, busy_seconds: 1.0, busy_open: 0.0, joules, watts: joules, idle };
        let groups = vec![group];
        let device = DeviceEnergy { classes, groups, ..DeviceEnergy::default() };
        Energy { devices: vec![device], ..Energy::default() }
    }

    fn values(sums: &[Sum], energy: &Energy) -> Vec<Result<(f64, f64, f64), String>> {
        let rows = joules_of_rows(sums, Some(energy)).into_iter();
        rows.map(|row| row.map(|j| (j.value, j.low, j.high))).collect()
    }

    #[test]
    fn joules_are_shared_by_time_and_add_up() {
        let energy = energy(vec![class("a", Some(100.0), None)]);
        let sums = [sum(&[("a", &[30])]), sum(&[("a", &[10])])];
        let rows = values(&sums, &energy);
        assert_eq!(rows, [Ok((75.0, 37.5, 112.5)), Ok((25.0, 12.5, 37.5))]);
        // All of it is as the report has it.
        assert_eq!(values(&sums[..1], &energy), [Ok((100.0, 50.0, 150.0))]);
    }

    #[test]
    fn a_sum_counts_once_in_the_only_row_that_has_it() {
        let classes = vec![class("a", None, Some(0)), class("b", None, Some(0))];
        let energy = energy(classes);
        let both = sum(&[("a", &[30]), ("b", &[1])]);
        assert_eq!(values(&[both], &energy), [Ok((90.0, 80.0, 100.0))]);
        let rows = values(&[sum(&[("a", &[30])]), sum(&[("b", &[10])])], &energy);
        for row in rows {
            let why = row.unwrap_err();
            assert!(why.contains("a + b is measured as a sum only"), "{why}");
        }
    }

    #[test]
    fn what_is_not_known_has_its_reason() {
        let why = |energy: &Energy, of: &Sum| {
            super::joules_of_rows(std::slice::from_ref(of), Some(energy)).remove(0).unwrap_err()
        };
        let one = sum(&[("a", &[30])]);
        let known = energy(vec![class("b", Some(1.0), None)]);
        assert_eq!(why(&known, &one), "the power of a was not measured");
        let none = Energy { absent: Some("no sensor here".to_owned()), ..Energy::default() };
        assert_eq!(why(&none, &one), "no sensor here");
        let other = Energy::default();
        assert_eq!(why(&other, &one), "d: no sensor");
        let mut failed = known.clone();
        failed.devices[0].failed = Some("too few readings".to_owned());
        assert_eq!(why(&failed, &one), "d: too few readings");
        // One row knows no time of it, so that no row knows its share.
        let shared = energy(vec![class("a", Some(1.0), None)]);
        let rows = super::joules_of_rows(&[one, sum(&[("a", &[0])])], Some(&shared));
        assert!(rows.iter().all(Result::is_err), "{rows:?}");
        assert_eq!(ran("a").metered, Some(0));
    }
}
