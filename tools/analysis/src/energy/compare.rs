//! Owns the estimators other tools use, for comparison: the sensor integrated over each span as if
//! it responded at once, and the same on a one-second average. Refuses to be anybody's result.

use super::activity::Activity;
use super::attribution::interpolated;
use super::readings::sensor::{Rows, Series};
use super::units::Watts;

/// Energy since the first row, linear in between.
pub(crate) struct Cumulative {
    knots: Vec<(f64, f64)>,
}

impl Cumulative {
    pub(crate) fn new(rows: &Rows) -> Self {
        let mut knots: Vec<(f64, f64)> = Vec::with_capacity(rows.rows.len() + 1);
        let mut total = 0.0;
        let mut before: Option<(f64, f64)> = None;
        for row in &rows.rows {
            if row.from == row.to {
                if let Some((at, mean)) = before {
                    total += (row.to - at) * (mean + row.mean) / 2.0;
                }
                before = Some((row.to, row.mean));
            } else {
                if knots.last().is_none_or(|knot| knot.0 < row.from) {
                    knots.push((row.from, total));
                }
                total += row.mean * (row.to - row.from);
            }
            knots.push((row.to, total));
        }
        Self { knots }
    }

    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        Some((self.knots.first()?.0, self.knots.last()?.0))
    }

    /// Energy up to `time`; flat outside the rows.
    pub(crate) fn at(&self, time: f64) -> f64 {
        interpolated(&self.knots, time)
    }
}

/// Mean watts of each class by integrating the sensor over its spans; `None` for classes without
/// covered time. This is what tools do that read a sensor at the start and the end of a region:
/// right for kernels of many sensor periods, and the mix's mean for short ones.
pub fn plain_integration(activity: &Activity, series: &Series) -> Vec<Option<Watts>> {
    let rows = Rows::new(series, activity.origin);
    let cumulative = Cumulative::new(&rows);
    integrate(activity, cumulative.range(), |from, to| cumulative.at(to) - cumulative.at(from))
}

/// The same on the mean of the last second, which is what the power reading of many devices is.
pub fn second_average(activity: &Activity, series: &Series) -> Vec<Option<Watts>> {
    let rows = Rows::new(series, activity.origin);
    let cumulative = Cumulative::new(&rows);
    let range = cumulative.range().map(|(from, to)| (from + 1.0, to));
    integrate(activity, range, |from, to| {
        let middle = (from + to) / 2.0;
        (to - from) * (cumulative.at(middle) - cumulative.at(middle - 1.0))
    })
}

fn integrate(
    activity: &Activity,
    range: Option<(f64, f64)>,
    energy: impl Fn(f64, f64) -> f64,
) -> Vec<Option<Watts>> {
    let mut joules = vec![0.0; activity.classes()];
    let mut seconds = vec![0.0; activity.classes()];
    if let Some((start, end)) = range {
        for segment in &activity.segments {
            let (from, to) = (segment.from.max(start), segment.to.min(end));
            if to > from {
                joules[segment.class as usize] += segment.share * energy(from, to);
                seconds[segment.class as usize] += segment.share * (to - from);
            }
        }
    }
    joules.iter().zip(&seconds).map(|(j, s)| (*s > 0.0).then(|| Watts(j / s))).collect()
}
