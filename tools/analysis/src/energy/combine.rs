//! Readings of one or several sensors as one quantity: running totals between their readings, sums
//! of totals as rates over windows, integrals of samples. Refuses to know what is measured.

use super::units::HostNs;

/// Readings in order of time.
pub type Points<'p> = &'p [(HostNs, f64)];

/// A running total at any time between its readings: linear. `None` outside of them.
pub fn energy_at(points: &[(HostNs, f64)], time: HostNs) -> Option<f64> {
    let next = points.partition_point(|p| p.0 < time);
    let (after, before) = (points.get(next)?, next.checked_sub(1).and_then(|i| points.get(i)));
    Some(match before {
        _ if after.0 == time => after.1,
        Some(before) => {
            before.1
                + (after.1 - before.1) * time.0.saturating_sub(before.0.0) as f64
                    / after.0.0.saturating_sub(before.0.0) as f64
        }
        None => return None,
    })
}

/// Windows in which nobody has read anything, before they are taken as one. A file may say that
/// years lie between two readings: the number of windows is bounded by that of the readings.
const STILL: i64 = 20;

/// Sum of several running totals with signs, as mean rates over windows of `window` seconds in the
/// time that all of them cover. Totals are in order of time; a value that is not a number parts two
/// recordings, each of which counts from its own start: no window reaches from one to the next.
pub fn combined(terms: &[(f64, Points<'_>)], window: f64) -> Vec<(HostNs, HostNs, f64)> {
    let step = ((window * 1e9) as i64).max(1);
    let mut out = Vec::new();
    for common in common_stretches(terms) {
        windows_of(&common, step, &mut out);
    }
    out
}

/// The same over the windows from each reading of the first to its next, where totals are read
/// together around what is measured.
pub fn combined_between_readings(terms: &[(f64, Points<'_>)]) -> Vec<(HostNs, HostNs, f64)> {
    let mut out = Vec::new();
    for common in common_stretches(terms) {
        let Some((_, first)) = common.terms.first() else { continue };
        // The others are read just before or behind: the ends are those that all have.
        let times = first.iter().map(|p| HostNs(p.0.0.clamp(common.from.0, common.to.0)));
        let mut before: Option<(HostNs, f64)> = None;
        for at in times {
            let Some(energy) = common.energy(at) else { continue };
            if let Some((from, joules)) = before.filter(|(from, _)| *from < at) {
                out.push((from, at, (energy - joules) / at.seconds_since(from)));
            }
            before = Some((at, energy));
        }
    }
    out
}

/// Readings of one recording of each term, and the time that all of them cover.
struct Common<'p> {
    terms: Vec<(f64, Points<'p>)>,
    from: HostNs,
    to: HostNs,
}

impl Common<'_> {
    fn energy(&self, time: HostNs) -> Option<f64> {
        self.terms.iter().map(|(sign, s)| energy_at(s, time).map(|e| sign * e)).sum()
    }
}

/// The stretches of time that recordings of all terms cover, in order.
fn common_stretches<'p>(terms: &[(f64, Points<'p>)]) -> Vec<Common<'p>> {
    let mut out: Vec<Common<'p>> = Vec::new();
    for (at, (sign, points)) in terms.iter().enumerate() {
        let parts = points.split(|p| p.1.is_nan()).filter_map(|part| {
            let (from, to) = (part.first()?.0, part.last()?.0);
            (from < to).then_some((from, to, part))
        });
        if at == 0 {
            out.extend(parts.map(|(from, to, p)| Common { terms: vec![(*sign, p)], from, to }));
            continue;
        }
        let parts: Vec<_> = parts.collect();
        let mut both = Vec::new();
        let mut first = 0;
        for known in &out {
            while parts.get(first).is_some_and(|part| part.1 <= known.from) {
                first += 1;
            }
            for (from, to, part) in parts[first..].iter().take_while(|part| part.0 < known.to) {
                let mut terms = known.terms.clone();
                terms.push((*sign, *part));
                both.push(Common { terms, from: known.from.max(*from), to: known.to.min(*to) });
            }
        }
        out = both;
    }
    out
}

/// Windows of so many nanoseconds within one stretch.
fn windows_of(common: &Common<'_>, step: i64, out: &mut Vec<(HostNs, HostNs, f64)>) {
    // The next reading of any term.
    let next = |time: i64| {
        common
            .terms
            .iter()
            .filter_map(|(_, s)| s.get(s.partition_point(|p| p.0.0 <= time)))
            .map(|p| p.0.0)
            .min()
    };
    let last = common.to.0;
    let mut from = common.from.0;
    let mut before = common.energy(HostNs(from));
    while let Some(mut to) = from.checked_add(step).filter(|to| *to <= last) {
        let still = next(from).unwrap_or(last).min(last).saturating_sub(from) / step;
        if still > STILL {
            to = from + still * step;
        }
        let after = common.energy(HostNs(to));
        if let (Some(a), Some(b)) = (before, after) {
            out.push((HostNs(from), HostNs(to), (b - a) / HostNs(to).seconds_since(HostNs(from))));
        }
        (before, from) = (after, to);
    }
}

/// Integral of samples of a rate between two times, by trapezoids; `None` where they do not reach.
pub fn integral(points: Points<'_>, from: HostNs, to: HostNs) -> Option<f64> {
    if points.first()?.0 > from || points.last()?.0 < to {
        return None;
    }
    let mut total = 0.0;
    for pair in points.windows(2) {
        let (a, b) = (pair[0].0.0.max(from.0), pair[1].0.0.min(to.0));
        if b > a {
            total += HostNs(b).seconds_since(HostNs(a)) * (pair[0].1 + pair[1].1) / 2.0;
        }
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WINDOW: f64 = 0.05;

    /// Readings of a counter of so many watts, a millisecond apart.
    fn counter(watts: f64) -> Vec<(HostNs, f64)> {
        (0..3_000).map(|ms| (HostNs(ms * 1_000_000), watts * ms as f64 * 1e-3)).collect()
    }

    fn whole(windows: &[(HostNs, HostNs, f64)]) -> f64 {
        windows.iter().map(|w| w.2 * (w.1.0 - w.0.0) as f64 * 1e-9).sum()
    }

    #[test]
    fn years_between_two_readings_make_no_windows() {
        let (mut pkg, mut pp0) = (counter(20.0), counter(8.0));
        let ten_years = 315_360_000 * 1_000_000_000;
        for (points, watts) in [(&mut pkg, 20.0), (&mut pp0, 8.0)] {
            points.push((HostNs(ten_years), watts * 315_360_000.0));
            points.push((HostNs(ten_years + 50_000_000), watts * 315_360_000.05));
        }
        let windows = combined(&[(1.0, &pkg), (-1.0, &pp0)], WINDOW);
        assert!(windows.len() < 100, "{}", windows.len());
        assert!(windows.windows(2).all(|pair| pair[0].1 == pair[1].0), "no time is left out");
        assert!(windows.iter().all(|w| (w.2 - 12.0).abs() < 1e-3));
        assert!((whole(&windows) / (12.0 * 315_360_000.0) - 1.0).abs() < 1e-6);
        // The ends of what a time can be.
        for points in [&mut pkg, &mut pp0] {
            points.insert(0, (HostNs(i64::MIN), 0.0));
            points.push((HostNs(i64::MAX), 1e30));
        }
        assert!(combined(&[(1.0, &pkg), (-1.0, &pp0)], WINDOW).len() < 200);
    }

    /// Readings of one recording: from so many milliseconds on, so many, at so many watts.
    fn recording(from: i64, count: i64, watts: f64) -> impl Iterator<Item = (HostNs, f64)> {
        let at = move |ms: i64| HostNs((from + ms) * 1_000_000);
        let parted = [(HostNs(from * 1_000_000 - 1), f64::NAN)];
        parted.into_iter().chain((0..count).map(move |ms| (at(ms), watts * ms as f64 * 1e-3)))
    }

    proptest! {
        /// A sum over several recordings is the weighted mean of the sums over each, whatever lies
        /// between them and however the terms' recordings differ in their ends.
        #[test]
        fn recordings_are_summed_each_by_itself(
            recordings in prop::collection::vec(
                (100i64..900, 300i64..900, 1.0f64..50.0, 0.0f64..1.0, 0i64..40, 0i64..40), 1..6,
            ),
        ) {
            let (mut pkg, mut pp0) = (Vec::new(), Vec::new());
            let (mut from, mut each) = (0, Vec::new());
            for (gap, length, watts, share, early, late) in recordings {
                from += gap;
                let parts = (
                    recording(from, length, watts).collect::<Vec<_>>(),
                    recording(from + early, length - early - late, watts * share).collect::<Vec<_>>(),
                );
                each.push((combined(&[(1.0, &parts.0), (-1.0, &parts.1)], WINDOW), watts * (1.0 - share)));
                pkg.extend(parts.0);
                pp0.extend(parts.1);
                from += length;
            }
            let all = combined(&[(1.0, &pkg), (-1.0, &pp0)], WINDOW);
            prop_assert_eq!(&all, &each.iter().flat_map(|e| e.0.clone()).collect::<Vec<_>>());
            for (windows, watts) in each {
                prop_assert!(windows.iter().all(|w| (w.2 - watts).abs() < 1e-6 * (1.0 + watts)));
            }
            let between = combined_between_readings(&[(1.0, &pkg), (-1.0, &pp0)]);
            prop_assert!(between.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            prop_assert!(whole(&between) >= whole(&all) - 1e-9);
        }

        /// Of totals with whole windows nothing is lost.
        #[test]
        fn windows_add_up_to_the_totals(
            steps in prop::collection::vec(0.0f64..5.0, 100..400),
            other in prop::collection::vec(0.0f64..5.0, 100..400),
            sign in prop::sample::select(vec![1.0, -1.0]),
        ) {
            let total = |steps: &[f64]| {
                let mut sum = 0.0;
                let points = (0..).zip(steps).map(|(i, step)| {
                    sum += step;
                    (HostNs(i * 10_000_000), sum)
                });
                points.collect::<Vec<_>>()
            };
            let (a, b) = (total(&steps), total(&other));
            let windows = combined(&[(1.0, &a), (sign, &b)], WINDOW);
            let (Some(first), Some(last)) = (windows.first(), windows.last()) else { return Ok(()) };
            let change = |points: Points<'_>| {
                Some(energy_at(points, last.1)? - energy_at(points, first.0)?)
            };
            let expected = change(&a).unwrap() + sign * change(&b).unwrap();
            prop_assert!((whole(&windows) - expected).abs() < 1e-6 * (1.0 + expected.abs()));
        }

        /// An integral is additive, and that of a constant is its product with time.
        #[test]
        fn integrals_add_up(
            values in prop::collection::vec(0.0f64..100.0, 3..50), cut in 0.0f64..1.0, level in 0.0f64..100.0
        ) {
            let points: Vec<_> = (0..).zip(&values).map(|(i, v)| (HostNs(i * 1_000_000), *v)).collect();
            let (from, to) = (points[0].0, points[points.len() - 1].0);
            // At a sample: between two the trapezoid takes their mean.
            let middle = points[((values.len() - 1) as f64 * cut) as usize].0;
            let parts = integral(&points, from, middle).unwrap() + integral(&points, middle, to).unwrap();
            prop_assert!((integral(&points, from, to).unwrap() - parts).abs() < 1e-9);
            let flat: Vec<_> = points.iter().map(|p| (p.0, level)).collect();
            let seconds = (to.0 - from.0) as f64 * 1e-9;
            prop_assert!((integral(&flat, from, to).unwrap() - level * seconds).abs() < 1e-9);
            prop_assert_eq!(integral(&points, from, HostNs(to.0 + 1)), None);
        }
    }
}
