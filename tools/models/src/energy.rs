//! Joules by class of instruction: a launch takes what the floor takes in its time, what busy compute
//! units add, and a fixed amount for each instruction and byte. Owns the fit of these amounts to
//! microbenchmarks, and the same model in the form of access rates; refuses to measure.
//!
//! E = P_floor T + sum of amounts, with the measured T: neither overlap nor waiting has to be modelled
//! then. With e_i = MaxPower_i / rate_i this is the access-rate form (Piispanen 2014, equations 6.3 to
//! 6.9) whenever T is the sum of all cycles over the clock.

use crate::figure::{Evidence, Figure};
use crate::kernel::Traffic;
use clscope_analysis::energy::{guarded_inverse, nonnegative};
use clscope_mix::{Class, Family, Mix, Space};
use clscope_profile::interval::Interval;
use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What joules are for, beside the floor: (name, unit of what it is counted in).
pub const TERMS: [(&str, &str); 18] = [
    ("active", "unit seconds"),
    ("issue", "warp instructions"),
    ("integer", "operations"),
    ("logic", "operations"),
    ("integer division", "operations"),
    ("fp16", "operations"),
    ("fp32", "operations"),
    ("fp64", "operations"),
    ("division", "operations"),
    ("fp64 division", "operations"),
    ("special", "operations"),
    ("local memory", "bytes"),
    ("caches", "bytes"),
    ("last cache", "bytes"),
    ("memory", "bytes"),
    ("atomics", "operations"),
    ("local atomics", "operations"),
    ("other", "instructions"),
];

const N: usize = TERMS.len();

/// How much of each term there is, in the units of [`TERMS`].
pub type Amounts = [f64; N];

/// The place of a class among [`TERMS`], and whether its bytes are what counts.
fn term(class: Class) -> (usize, bool) {
    match (class.family(), class) {
        (_, Class::AtomicGlobal) => (15, false),
        (_, Class::AtomicLocal) => (16, false),
        (Family::OnChipMemory, _) if class.memory() == Some(Space::Local) => (11, true),
        (Family::OffChipMemory, _) => (12, true),
        (Family::IntegerArithmetic, _) => (2, false),
        (Family::IntegerLogic | Family::IntegerComparison, _) => (3, false),
        (Family::IntegerDivision, _) => (4, false),
        (_, Class::HalfArith | Class::HalfFma | Class::HalfOther) => (5, false),
        (Family::FloatArithmetic | Family::FloatComparison, _) => (6, false),
        (Family::DoubleArithmetic, _) => (7, false),
        (Family::FloatDivision, _) => (8, false),
        (Family::DoubleDivision, _) => (9, false),
        (Family::Special, _) => (10, false),
        _ => (17, false),
    }
}

/// The amounts of a launch. `busy_units` is how many compute units are at work, `seconds` how long.
#[must_use]
pub fn amounts(mix: &Mix, seconds: f64, busy_units: f64, traffic: Traffic) -> Amounts {
    let mut of = [0.0; N];
    of[0] = seconds * busy_units;
    for (class, tally) in &mix.classes {
        let threads = tally.threads as f64;
        // Without warps each work-item issues its own.
        of[1] += tally.warps.map_or(threads, |w| w as f64);
        let (at, bytes) = term(*class);
        of[at] += if bytes { tally.bytes as f64 } else { threads };
    }
    // What memories and caches move, not what is asked of them.
    of[11] = of[11].max(if mix.passes().is_some() { mix.bank_bytes() as f64 } else { 0.0 });
    of[12] += mix.scattered_bytes().map_or(0.0, |beyond| beyond.max(0.0));
    (of[13], of[14]) = (traffic.last, traffic.memory);
    of
}

/// A launch, or a window of steady running, with what it took above the floor.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// What it is of: left out together where the model is judged.
    pub group: String,
    /// Amounts.
    pub amounts: Amounts,
    /// Joules above the floor.
    pub joules: f64,
    /// Floor's joules in the same time.
    pub floor_joules: f64,
}

/// One term's joules.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Term {
    /// Joules of one unit.
    pub joules: Interval,
}

/// A fitted model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EnergyModel {
    /// Power while nothing runs and clocks are up, W.
    pub floor_watts: f64,
    /// By name of [`TERMS`]; a term that no observation has is absent.
    pub terms: BTreeMap<String, Term>,
    /// Root mean square of the relative errors of observations, floor included, each predicted by a
    /// fit without its group.
    pub error: f64,
    /// Observations.
    pub observations: usize,
}

/// Why there is no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoModel {
    /// Too few observations.
    #[error("{found} observations are fewer than the {needed} that a fit of their terms needs")]
    Few {
        /// Observations.
        found: usize,
        /// Fewest.
        needed: usize,
    },
}

/// Least squares of relative errors with no term below 0.
fn solve(of: &[&Observation]) -> (DVector<f64>, DMatrix<f64>, f64) {
    let weight = |o: &Observation| (o.joules + o.floor_joules).max(1e-300).recip();
    let x = DMatrix::from_fn(of.len(), N, |r, c| of[r].amounts[c] * weight(of[r]));
    let y = DVector::from_fn(of.len(), |r, _| of[r].joules * weight(of[r]));
    let (gram, moment) = (x.transpose() * &x, x.transpose() * &y);
    let solved = nonnegative(&gram, &moment, &[true; N]);
    let squares = (&x * &solved - &y).norm_squared();
    (solved, gram, squares)
}

fn product(amounts: &Amounts, terms: &DVector<f64>) -> f64 {
    amounts.iter().zip(terms.iter()).map(|(a, t)| a * t).sum()
}

/// Relative error (predicted over measured, less one; floor included) of each observation by a fit
/// without its group.
#[must_use]
pub fn leave_one_out(of: &[Observation]) -> Vec<f64> {
    of.iter()
        .map(|one| {
            let rest: Vec<&Observation> = of.iter().filter(|o| o.group != one.group).collect();
            let (terms, ..) = solve(&rest);
            let whole = one.joules + one.floor_joules;
            (product(&one.amounts, &terms) + one.floor_joules) / whole - 1.0
        })
        .collect()
}

/// Fits.
///
/// # Errors
/// Where there are fewer observations than terms that they have, and two.
pub fn fit(of: &[Observation], floor_watts: f64) -> Result<EnergyModel, NoModel> {
    let seen: Vec<bool> = (0..N).map(|c| of.iter().any(|o| o.amounts[c] > 0.0)).collect();
    let needed = seen.iter().filter(|s| **s).count() + 2;
    if of.len() < needed {
        return Err(NoModel::Few { found: of.len(), needed });
    }
    let all: Vec<&Observation> = of.iter().collect();
    let (terms, gram, squares) = solve(&all);
    let freedom = (of.len() - needed + 2) as f64;
    let variance = squares / freedom.max(1.0);
    // Of the terms that are not at their bound.
    let free: Vec<usize> = (0..N).filter(|c| terms[*c] > 0.0).collect();
    let part = DMatrix::from_fn(free.len(), free.len(), |r, c| gram[(free[r], free[c])]);
    let covariance = guarded_inverse(&part) * variance;
    let mut out = BTreeMap::new();
    for (c, (name, _)) in TERMS.iter().enumerate().filter(|(c, _)| seen[*c]) {
        let side = free.iter().position(|f| *f == c).map_or_else(
            // At its bound: as much as would change the fit by its own residual.
            || 2.0 * (variance / gram[(c, c)]).sqrt(),
            |at| 2.0 * covariance[(at, at)].max(0.0).sqrt(),
        );
        let joules = terms[c];
        let joules = Interval::estimated(joules, (joules - side).max(0.0), joules + side);
        out.insert((*name).to_owned(), Term { joules });
    }
    let errors = leave_one_out(of);
    let error = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len() as f64).sqrt();
    Ok(EnergyModel { floor_watts, terms: out, error, observations: of.len() })
}

/// A part of a launch's joules.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Part {
    /// `floor`, or a name of [`TERMS`].
    pub name: String,
    /// Joules.
    pub joules: f64,
    /// Of the whole.
    pub share: f64,
}

impl EnergyModel {
    /// Whether its numbers are such as measurements give.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let sound = |t: &Term| {
            let Interval { value, low, high, .. } = t.joules;
            [value, low, high].iter().all(|x| x.is_finite() && *x >= 0.0)
                && low <= value
                && value <= high
        };
        self.floor_watts.is_finite()
            && self.floor_watts >= 0.0
            && self.error.is_finite()
            && self.terms.values().all(sound)
    }

    /// Joules of a launch that lasts `seconds` on a floor of so many watts (that of the run where it is
    /// known, else the model's own), with what they are for, largest part first. The interval is twice
    /// the error that the model made on what was not in its fit.
    #[must_use]
    pub fn joules(&self, amounts: &Amounts, seconds: f64, floor_watts: f64) -> (Figure, Vec<Part>) {
        let floor = floor_watts * seconds;
        let mut parts = vec![Part { name: "floor".to_owned(), joules: floor, share: 0.0 }];
        for ((name, _), amount) in TERMS.iter().zip(amounts) {
            let Some(term) = self.terms.get(*name).filter(|t| t.joules.value * amount > 0.0) else {
                continue;
            };
            let joules = term.joules.value * amount;
            parts.push(Part { name: (*name).to_owned(), joules, share: 0.0 });
        }
        let sum: f64 = parts.iter().map(|p| p.joules).sum();
        parts.iter_mut().for_each(|p| p.share = if sum > 0.0 { p.joules / sum } else { 0.0 });
        parts.sort_by(|a, b| b.joules.total_cmp(&a.joules));
        let side = 2.0 * self.error * sum;
        let figure =
            Figure::new(sum, (sum - side).max(floor.min(sum)), sum + side, Evidence::Modelled);
        (figure, parts)
    }

    /// Names of terms that a launch has and no microbenchmark had.
    #[must_use]
    pub fn unknown(&self, amounts: &Amounts) -> Vec<&'static str> {
        let of = TERMS.iter().zip(amounts);
        of.filter(|((name, _), a)| **a > 0.0 && !self.terms.contains_key(*name))
            .map(|((name, _), _)| *name)
            .collect()
    }
}

/// A component of the access-rate form.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Component {
    /// Watts above idle while it is kept busy.
    pub max_watts: f64,
    /// Cycles of one instruction.
    pub cycles: f64,
}

/// Total cycles (equation 6.8), and runtime power: the sum of MaxPower x AccessRate (equations 6.4
/// to 6.7 and 6.9, with AccessRate = count x cycles / total cycles).
#[must_use]
pub fn access_rates(of: &[(Component, f64)]) -> (f64, f64) {
    let total: f64 = of.iter().map(|(c, count)| count * c.cycles).sum();
    if total <= 0.0 {
        return (0.0, 0.0);
    }
    let watts = of.iter().map(|(c, count)| c.max_watts * count * c.cycles / total).sum();
    (total, watts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::tests::mix;
    use proptest::prelude::*;

    fn observation(k: usize, terms: &[f64]) -> Observation {
        let mut amounts = [0.0; N];
        for (c, amount) in amounts.iter_mut().enumerate() {
            // Every observation is mostly one term, with something of two others.
            *amount = match (k + c) % N {
                0 => 100.0,
                1 => 7.0,
                4 => 3.0,
                _ => 0.0,
            } * (1.0 + (k / N) as f64);
        }
        let joules = amounts.iter().zip(terms).map(|(a, t)| a * t).sum();
        Observation { group: k.to_string(), amounts, joules, floor_joules: 50.0 }
    }

    #[test]
    fn what_made_the_joules_is_found_again() {
        let terms: Vec<f64> = (0..N).map(|c| 1.0 + c as f64).collect();
        let all: Vec<Observation> = (0..3 * N).map(|k| observation(k, &terms)).collect();
        let model = fit(&all, 100.0).unwrap();
        for (c, (name, _)) in TERMS.iter().enumerate() {
            assert!((model.terms[*name].joules.value / terms[c] - 1.0).abs() < 1e-6, "{name}");
        }
        assert!(model.error < 1e-6 && model.is_sound());
        let (figure, parts) = model.joules(&all[0].amounts, 0.5, model.floor_watts);
        assert!((figure.value - all[0].joules - 50.0).abs() < 1e-3);
        assert!((parts.iter().map(|p| p.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(matches!(fit(&all[..10], 1.0), Err(NoModel::Few { found: 10, .. })));
    }

    #[test]
    fn classes_go_to_their_terms() {
        let mix = mix(&[
            (Class::SingleFma, 64, 128, 0),
            (Class::LoadGlobal, 32, 0, 128),
            (Class::LoadLocal, 32, 0, 256),
            (Class::AtomicGlobal, 5, 0, 20),
            (Class::SingleDiv, 6, 6, 0),
            (Class::Branch, 7, 0, 0),
        ]);
        let of = amounts(&mix, 2.0, 10.0, Traffic { last: 99.0, memory: 77.0 });
        let named = |name: &str| of[TERMS.iter().position(|t| t.0 == name).unwrap()];
        assert_eq!((named("active"), named("fp32"), named("caches")), (20.0, 64.0, 128.0));
        assert_eq!((named("local memory"), named("memory"), named("atomics")), (256.0, 77.0, 5.0));
        assert_eq!((named("division"), named("other"), named("issue")), (6.0, 7.0, 7.0));
        assert_eq!((named("last cache"), named("logic")), (99.0, 0.0));
    }

    /// Power x time of the access-rate form is the sum of counts x MaxPower / rate, if the time is
    /// all cycles over the clock.
    #[test]
    fn access_rates_and_joules_are_one_model() {
        let hertz = 1.15e9;
        let of = [
            (Component { max_watts: 20.0, cycles: 2.0 }, 4e9),
            (Component { max_watts: 35.0, cycles: 32.0 }, 1e8),
            (Component { max_watts: 12.0, cycles: 1.0 }, 9e9),
        ];
        let (cycles, watts) = access_rates(&of);
        assert!((cycles - (8e9 + 3.2e9 + 9e9)).abs() < 1.0);
        let joules: f64 = of.iter().map(|(c, n)| n * c.max_watts * c.cycles / hertz).sum();
        assert!((watts * cycles / hertz - joules).abs() < 1e-9 * joules);
        assert_eq!(access_rates(&[]), (0.0, 0.0));
    }

    proptest! {
        /// No instruction ever gives energy back, whatever was measured.
        #[test]
        fn terms_are_never_negative(noise in prop::collection::vec(-0.9f64..0.9, 2 * N)) {
            let terms: Vec<f64> = (0..N).map(|c| (c % 3) as f64).collect();
            let mut all: Vec<Observation> = (0..2 * N).map(|k| observation(k, &terms)).collect();
            for (o, noise) in all.iter_mut().zip(&noise) {
                o.joules += noise * 50.0;
            }
            let model = fit(&all, 10.0).unwrap();
            prop_assert!(model.is_sound(), "{model:?}");
            for o in &all {
                let (figure, _) = model.joules(&o.amounts, 1.0, model.floor_watts);
                prop_assert!(figure.value >= 10.0 && figure.low <= figure.value);
            }
        }
    }
}
