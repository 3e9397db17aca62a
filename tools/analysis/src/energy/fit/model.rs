//! Owns where the model of the regression falls short of a device and a sensor: samples whose noise
//! depends on what ran, powers that depend on neighbouring commands, and rows of a single kernel
//! that contradict the fit to all. Refuses to solve anything.

#![forbid(unsafe_code)]

use super::super::activity::Activity;
use super::super::company::company;
use super::super::design::Columns;
use super::super::response::Response;
use super::super::sensor::{RowKind, Rows};
use super::super::variance::{cosines, long_run};
use super::Solution;

/// Strength of the neighbours' effect, as a share of the largest power, that is assumed before the
/// data are seen.
const COMPANY_BELIEF: f64 = 0.2;

/// The columns with one more: the effect of neighbouring commands on powers.
pub(super) fn with_company(
    activity: &Activity,
    columns: &Columns,
    rows: &Rows,
    groups: &[Vec<usize>],
    first: &Solution,
    response: &Response,
) -> Option<Columns> {
    if groups.len() < 2 || columns.noisy {
        return None;
    }
    let mut power = vec![first.floors.first().copied().unwrap_or(0.0); activity.classes()];
    for (group, gross) in groups.iter().zip(&first.gross) {
        group.iter().for_each(|&class| power[class] = *gross);
    }
    let floor = first.floors.iter().copied().fold(0.0, f64::max);
    let design = company(activity, rows, &power, floor, response)?;
    let mut columns = columns.clone();
    columns.directions.push((COMPANY_BELIEF, design));
    Some(columns)
}

/// Halfway from powers that add up to powers that depend on their neighbours as far as the run
/// itself shows. The true ones lie between: the effect lasts longer than the one time constant that
/// is fitted, which gives it too much. Anywhere between is as likely.
pub(super) fn between(plain: Solution, beside: &Solution, own: &[f64]) -> Solution {
    let shift: Vec<f64> =
        plain.gross.iter().zip(&beside.gross).map(|(a, b)| (b - a) / 2.0).collect();
    let moved = |of: &[f64]| of.iter().zip(&shift).map(|(p, s)| (p + s).max(0.0)).collect();
    Solution {
        dynamic: moved(&plain.dynamic),
        gross: moved(&plain.gross),
        model: own.iter().zip(&shift).map(|(own, s)| own.max(s * s / 3.0)).collect(),
        ..plain
    }
}

/// Fewest samples for which their noise is modelled.
const ROWS_TO_WEIGH: usize = 100;

/// Rows weighted by their noise, where it depends on what ran. A power sensor that takes a sample
/// now and then meets one kernel or another: where several take turns its samples scatter by their
/// powers' difference, although their mean over the sensor's window is known. (On an H200 residuals
/// are 6 W where one kernel runs and 14 W where four do.) The variance is fitted as `a + b V`, with
/// `V` the variance of power within the window by the first solution.
pub(super) fn weighted(
    columns: &Columns,
    rows: &Rows,
    groups: &[Vec<usize>],
    first: &Solution,
) -> Option<Rows> {
    if rows.kind != RowKind::Instant || rows.rows.len() < ROWS_TO_WEIGH {
        return None;
    }
    let spread: Vec<f64> = (0..rows.rows.len())
        .map(|i| {
            let (shares, states) = (columns.classes.row(i), columns.state_row(i));
            let (mut mean, mut square, mut busy) = (0.0, 0.0, 0.0);
            for (group, power) in groups.iter().zip(&first.gross) {
                let share: f64 = group.iter().map(|&class| shares[class]).sum();
                (mean, square, busy) =
                    (mean + share * power, square + share * power * power, busy + share);
            }
            let idle = (1.0 - busy).max(0.0);
            let whole: f64 = states.iter().sum::<f64>().max(f64::MIN_POSITIVE);
            let floor: f64 = states.iter().zip(&first.floors).map(|(s, f)| s / whole * f).sum();
            (square + idle * floor * floor - (mean + idle * floor).powi(2)).max(0.0)
        })
        .collect();
    // Squared residuals scatter as much as they are: relative least squares, by three rounds.
    let (mut a, mut b) =
        (first.residuals.iter().map(|e| e * e).sum::<f64>() / spread.len() as f64, 0.0);
    for _ in 0..3 {
        let mut sums = [0.0; 5];
        for (v, e) in spread.iter().zip(&first.residuals) {
            let w = (a + b * v).max(f64::MIN_POSITIVE).powi(-2);
            for (sum, term) in sums.iter_mut().zip([w, w * v, w * v * v, w * e * e, w * v * e * e])
            {
                *sum += term;
            }
        }
        let [s, sv, svv, se, sve] = sums;
        let determinant = s * svv - sv * sv;
        let (level, slope) = if determinant > 1e-12 * s * svv {
            ((se * svv - sve * sv) / determinant, (sve * s - se * sv) / determinant)
        } else {
            (se / s, 0.0)
        };
        // No row is taken for a hundred times better than the average: what one kernel's own power
        // does is not in the model.
        let mean = se / s;
        (a, b) = (level.max(mean / 20.0), slope.max(0.0));
        if !(a.is_finite() && b.is_finite()) {
            return None;
        }
    }
    if b <= 0.0 {
        return None;
    }
    let mut out = rows.clone();
    for (row, v) in out.rows.iter_mut().zip(&spread) {
        row.scale = (a / (a + b * v)).sqrt();
    }
    Some(out)
}

/// Share of a row that makes it one of a group's own.
const OWN: f64 = 0.7;
/// Fewest rows of its own that say something of a group.
const OWN_ROWS: usize = 20;

/// Variance of each group's rate beyond noise: what the rows in which it hardly shares the sensor's
/// window would have its rate differ by. Powers do not add up exactly: voltage follows the load, a
/// kernel starts with what another left in caches. (On an H200 kernels drew up to 2 % more in such
/// rows than the fit to all gave them.) Zero where that is within noise.
pub(super) fn model_error(
    columns: &Columns,
    rows: &Rows,
    groups: &[Vec<usize>],
    solution: &Solution,
) -> Vec<f64> {
    let one = |group: &Vec<usize>| -> f64 {
        let mut own: Vec<(f64, f64)> = Vec::new();
        for (i, e) in solution.residuals.iter().enumerate() {
            let shares = columns.classes.row(i);
            let share: f64 = group.iter().map(|&class| shares[class]).sum();
            if share > OWN {
                own.push((share * rows.rows[i].scale, e * rows.rows[i].scale));
            }
        }
        if own.len() < OWN_ROWS {
            return 0.0;
        }
        let weight: f64 = own.iter().map(|(z, _)| z * z).sum();
        let shift = own.iter().map(|(z, e)| z * e).sum::<f64>() / weight;
        let scores: Vec<f64> = own.iter().map(|(z, e)| z * (e - z * shift)).collect();
        let noise = long_run(&scores, 1, cosines(own.len()))[(0, 0)] / (weight * weight);
        (shift * shift - noise).max(0.0)
    };
    groups.iter().map(one).collect()
}
