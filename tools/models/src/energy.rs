//! Joules by class of instruction: a launch takes what the floor takes in its time, what busy
//! compute units add, and a fixed amount for each instruction and byte. Owns the fit of these
//! amounts to microbenchmarks, and the same model in the form of access rates; refuses to measure.
//!
//! E = P_floor T + sum of amounts, with the measured T: neither overlap nor waiting has to be
//! modelled then. With e_i = MaxPower_i / rate_i this is the access-rate form (Piispanen 2014,
//! equations 6.3 to 6.9) whenever T is the sum of all cycles over the clock.

use crate::device::{Device, name};
use crate::figure::{Evidence, Figure, Missing};
use crate::kernel::Kernel;
use crate::traffic::Traffic;
use clscope_analysis::energy::{guarded_inverse, nonnegative};
use clscope_mix::{Class, Family, Precision, SECTOR, Space};
use clscope_profile::interval::Interval;
use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What joules are for, beside the floor: (name, unit of what it is counted in).
pub const TERMS: [(&str, &str); 20] = [
    ("active", "unit seconds"),
    ("integer", "operations"),
    ("64-bit integer", "operations"),
    ("64-bit product", "operations"),
    ("integer division", "operations"),
    ("fp16", "operations"),
    ("fp32", "operations"),
    ("fp64", "operations"),
    ("division", "operations"),
    ("fp64 division", "operations"),
    ("special", "operations"),
    ("local memory", "bytes"),
    ("caches", "accesses"),
    ("last cache", "bytes"),
    ("memory", "bytes"),
    ("atomics", "operations"),
    ("local atomics", "operations"),
    ("images", "accesses"),
    ("64-bit division", "operations"),
    ("single pieces", "pieces"),
];

const N: usize = TERMS.len();

/// How much of each term there is, in the units of [`TERMS`].
pub type Amounts = [f64; N];

/// The place of a class among [`TERMS`], and whether its bytes are what counts: an access to the nearest
/// cache takes the same for 4 bytes and for 16 (H200: loads of `uint` 307 W above idle, of `uint4` 119 W,
/// at one bandwidth). What compilers take out (moves), and what has no unit of its own (branches,
/// barriers), is in the time that units are active.
fn term(class: Class) -> Option<(usize, bool)> {
    use Class as C;
    Some(match (class.family(), class) {
        (_, C::AtomicGlobal) => (15, false),
        (_, C::AtomicLocal) => (16, false),
        (_, C::LoadImage | C::StoreImage) => (17, false),
        (Family::OnChipMemory, _) if class.memory() == Some(Space::Local) => (11, true),
        (Family::OnChipMemory | Family::OffChipMemory, _) => (12, false),
        (_, C::LongArith) => (2, false),
        (_, C::LongMul) => (3, false),
        (_, C::LongDiv) => (18, false),
        (Family::IntegerArithmetic | Family::IntegerLogic | Family::IntegerComparison, _) => {
            (1, false)
        }
        (Family::IntegerDivision, _) => (4, false),
        (_, C::HalfArith | C::HalfFma | C::HalfOther) => (5, false),
        (Family::FloatArithmetic | Family::FloatComparison, _) => (6, false),
        (Family::DoubleArithmetic, _) => (7, false),
        (Family::FloatDivision, _) => (8, false),
        (Family::DoubleDivision, _) | (_, C::DoubleSpecial) => (9, false),
        // One unit does both.
        (Family::Special, _) | (_, C::Convert | C::ConvertSaturated | C::ConvertHalf) => {
            (10, false)
        }
        _ => return None,
    })
}

/// The amounts of a launch of `seconds`; `None` where its instructions were not counted.
///
/// A unit is active while it has a group, and no longer than a clock for each instruction of a warp:
/// one that waits for memory takes next to nothing. Memory gives 64 bytes at once where pieces of 32
/// stand alone.
pub fn of_launch(kernel: &Kernel, device: &Device, seconds: f64) -> Option<Amounts> {
    let mix = kernel.mix.as_ref()?;
    let units = f64::from(device.compute_units);
    let busy = kernel.groups().map_or(units, |g| units.min(g as f64)) * seconds;
    let mut of = [0.0; N];
    let mut issued = 0.0;
    for (class, tally) in &mix.classes {
        let threads = tally.threads as f64;
        if *class != Class::Move {
            // Without warps each work-item issues its own.
            issued += tally.warps.map_or(threads, |w| w as f64);
        }
        if let Some((at, bytes)) = term(*class) {
            of[at] += if bytes { tally.bytes as f64 } else { threads };
        }
    }
    let clock = device.get(name::CLOCK).ok().map(|mhz| mhz.value * 1e6);
    of[0] = clock.map_or(busy, |hertz| busy.min(issued / hertz));
    let traffic = [kernel.traffic(device).unwrap_or_default(), kernel.traffic_beside(device)];
    for Traffic { last, memory } in traffic {
        of[13] += last.bytes;
        // Each is a request of its own.
        of[19] += (last.gathered + last.scattered) / SECTOR as f64;
        of[14] += memory.bytes + memory.gathered + memory.scattered;
    }
    Some(of)
}

/// A launch, or a window of steady running, with what it took above the floor.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// What it is of: left out together where the model is judged.
    pub group: String,
    /// How much of each term there is; as many in every observation of a fit.
    pub amounts: Vec<f64>,
    /// Joules above the floor.
    pub joules: f64,
    /// Floor's joules in the same time.
    pub floor_joules: f64,
}

/// One term's joules.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// Joules of one unit.
    pub joules: Interval,
}

/// A fitted model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
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
    let n = of.first().map_or(0, |o| o.amounts.len());
    let weight = |o: &Observation| (o.joules + o.floor_joules).max(1e-300).recip();
    let x = DMatrix::from_fn(of.len(), n, |r, c| of[r].amounts[c] * weight(of[r]));
    let y = DVector::from_fn(of.len(), |r, _| of[r].joules * weight(of[r]));
    let (gram, moment) = (x.transpose() * &x, x.transpose() * &y);
    let solved = nonnegative(&gram, &moment, &vec![true; n]);
    let squares = (&x * &solved - &y).norm_squared();
    (solved, gram, squares)
}

fn product(amounts: &[f64], terms: &DVector<f64>) -> f64 {
    amounts.iter().zip(terms.iter()).map(|(a, t)| a * t).sum()
}

/// Relative error (predicted over measured, less one; floor included) of each observation by a fit
/// without its group; `None` where it has a term that nothing else has.
pub fn leave_one_out(of: &[Observation]) -> Vec<Option<f64>> {
    let error = |one: &Observation| {
        let rest: Vec<&Observation> = of.iter().filter(|o| o.group != one.group).collect();
        let seen = |at: usize| rest.iter().any(|o| o.amounts[at] > 0.0);
        if one.amounts.iter().enumerate().any(|(at, amount)| *amount > 0.0 && !seen(at)) {
            return None;
        }
        let (terms, ..) = solve(&rest);
        let whole = one.joules + one.floor_joules;
        Some((product(&one.amounts, &terms) + one.floor_joules) / whole - 1.0)
    };
    of.iter().map(error).collect()
}

/// Fits the joules of [`TERMS`].
///
/// # Errors
/// Where there are fewer observations than terms that they have, and two.
pub fn fit(of: &[Observation], floor_watts: f64) -> Result<EnergyModel, NoModel> {
    fit_named(of, floor_watts, &TERMS.map(|(name, _)| name))
}

/// Fits the joules of terms by these names, in the order of the observations' amounts.
///
/// # Errors
/// As [`fit`].
pub fn fit_named(
    of: &[Observation],
    floor_watts: f64,
    names: &[&str],
) -> Result<EnergyModel, NoModel> {
    let n = names.len();
    let seen: Vec<bool> = (0..n).map(|c| of.iter().any(|o| o.amounts[c] > 0.0)).collect();
    let needed = seen.iter().filter(|s| **s).count() + 2;
    if of.len() < needed {
        return Err(NoModel::Few { found: of.len(), needed });
    }
    let all: Vec<&Observation> = of.iter().collect();
    let (terms, gram, squares) = solve(&all);
    let freedom = (of.len() - needed + 2) as f64;
    let variance = squares / freedom.max(1.0);
    // Of the terms that are not at their bound.
    let free: Vec<usize> = (0..n).filter(|c| terms[*c] > 0.0).collect();
    let part = DMatrix::from_fn(free.len(), free.len(), |r, c| gram[(free[r], free[c])]);
    let covariance = guarded_inverse(&part) * variance;
    let mut out = BTreeMap::new();
    for (c, name) in names.iter().enumerate().filter(|(c, _)| seen[*c]) {
        let side = free.iter().position(|f| *f == c).map_or_else(
            // At its bound: as much as would change the fit by its own residual.
            || 2.0 * (variance / gram[(c, c)]).sqrt(),
            |at| 2.0 * covariance[(at, at)].max(0.0).sqrt(),
        );
        let joules = terms[c];
        let joules = Interval::estimated(joules, (joules - side).max(0.0), joules + side);
        out.insert((*name).to_owned(), Term { joules });
    }
    let errors: Vec<f64> = leave_one_out(of).into_iter().flatten().collect();
    let error = (errors.iter().map(|e| e * e).sum::<f64>() / errors.len().max(1) as f64).sqrt();
    Ok(EnergyModel { floor_watts, terms: out, error, observations: of.len() })
}

/// A part of a launch's joules.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
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

    /// Joules of a launch that lasts `seconds` on a floor of so many watts (that of the run where
    /// it is known, else the model's own), with what they are for, largest part first. The interval
    /// is twice the error that the model made on what was not in its fit.
    pub fn joules(&self, amounts: &[f64], seconds: f64, floor_watts: f64) -> (Figure, Vec<Part>) {
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

    /// Joules of a launch above the floor.
    pub fn above_floor(&self, amounts: &[f64]) -> f64 {
        let each = |((name, _), amount): (&(&str, _), &f64)| {
            self.terms.get(*name).map_or(0.0, |t| t.joules.value * amount)
        };
        TERMS.iter().zip(amounts).map(each).sum()
    }

    /// Names of terms that a launch has and no microbenchmark had.
    pub fn unknown(&self, amounts: &[f64]) -> Vec<&'static str> {
        let of = TERMS.iter().zip(amounts);
        of.filter(|((name, _), a)| **a > 0.0 && !self.terms.contains_key(*name))
            .map(|((name, _), _)| *name)
            .collect()
    }
}

/// A component of the access-rate form.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Component {
    /// A name of [`TERMS`].
    pub name: String,
    /// Watts above the floor while it is kept busy: joules of one times the rate.
    pub max_watts: f64,
    /// Cycles of one on the whole device: clock over rate.
    pub cycles: f64,
    /// Its cycles over those of all components (equation 6.9).
    pub access_rate: f64,
}

/// A launch in the form of access rates (Piispanen 2014, equations 6.3 to 6.9).
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct AccessRates {
    /// Cycles of all components, one after the other (equation 6.8), over the clock, ns.
    pub time_ns: f64,
    /// The sum of MaxPower x AccessRate (equations 6.4 to 6.7), W above the floor, in that time.
    pub runtime_watts: f64,
    /// Those of the energy model: the floor's in the measured time, runtime power's in `time_ns`, and
    /// those of `left_out`.
    pub joules: f64,
    /// The largest access rate first.
    pub components: Vec<Component>,
    /// Terms that the launch has and that have no measured rate, so that they are no components.
    pub left_out: Vec<String>,
}

/// The rate of a term on the whole device, a second, where a microbenchmark measures one.
fn rate(device: &Device, term: &str) -> Option<f64> {
    let of = |key: &str| Some(device.get(key).ok()?.value * 1e9);
    let fma = |precision| of(&name::rate(precision, "fma")).map(|flop| flop / 2.0);
    match term {
        "integer" => of(name::INTEGER),
        "64-bit integer" => of(name::LONG),
        "64-bit product" => of(name::LONG_MUL),
        "integer division" => of(name::INT_DIV),
        "fp16" => fma(Precision::Half),
        "fp32" => fma(Precision::Single),
        "fp64" => fma(Precision::Double),
        "special" => of(name::SPECIAL),
        "local memory" => of(name::LOCAL),
        "last cache" => of(name::L2),
        "memory" => of(name::DRAM),
        "images" => of(name::IMAGE),
        "64-bit division" => of(name::LONG_DIV),
        "atomics" => of(name::ATOMIC),
        "local atomics" => of(name::LOCAL_ATOMIC),
        _ => None,
    }
}

/// The form of access rates, by the energy model's joules and the measured rates of the same
/// device, for a launch that took `seconds`.
///
/// # Errors
/// Where the clock, or the joules of classes, were not measured, or no term has a rate.
pub fn access_rates(
    device: &Device,
    amounts: &[f64],
    seconds: f64,
    floor_watts: f64,
) -> Result<AccessRates, Missing> {
    let hertz = device.get(name::CLOCK)?.value * 1e6;
    let model = device.energy.as_ref().ok_or_else(|| {
        Missing::new(
            "joules by class of instruction are not known",
            "`clscope bench model` on a machine with a power sensor",
        )
    })?;
    let (mut components, mut left_out, mut total) = (Vec::new(), Vec::new(), 0.0);
    for ((term, _), amount) in TERMS.iter().zip(amounts).filter(|(_, amount)| **amount > 0.0) {
        match (rate(device, term), model.terms.get(*term)) {
            (Some(rate), Some(joules)) => {
                let cycles = hertz / rate;
                total += amount * cycles;
                components.push(Component {
                    name: (*term).to_owned(),
                    max_watts: joules.joules.value * rate,
                    cycles,
                    access_rate: amount * cycles,
                });
            }
            _ => left_out.push((*term).to_owned()),
        }
    }
    if total <= 0.0 {
        return Err(Missing::new(
            "the form of access rates has no component",
            "`clscope bench model` measures the rates of classes",
        ));
    }
    components.iter_mut().for_each(|c| c.access_rate /= total);
    components.sort_by(|a, b| b.access_rate.total_cmp(&a.access_rate));
    let runtime_watts = components.iter().map(|c| c.max_watts * c.access_rate).sum::<f64>();
    Ok(AccessRates {
        time_ns: total / hertz * 1e9,
        runtime_watts,
        joules: model.joules(amounts, seconds, floor_watts).0.value,
        components,
        left_out,
    })
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
        Observation { group: k.to_string(), amounts: amounts.to_vec(), joules, floor_joules: 50.0 }
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
            (Class::Convert, 3, 0, 0),
            (Class::Branch, 7, 0, 0),
            (Class::Move, 99, 0, 0),
        ]);
        let (items, local) = (Some(1280), Some(64));
        let kernel = Kernel { mix: Some(mix), items, local, ..Kernel::default() };
        let mut device = crate::device::tests::round();
        let named = |device: &Device, name: &str| {
            let of = of_launch(&kernel, device, 2.0).unwrap();
            of[TERMS.iter().position(|t| t.0 == name).unwrap()]
        };
        assert_eq!((named(&device, "fp32"), named(&device, "caches")), (64.0, 32.0));
        assert_eq!((named(&device, "local memory"), named(&device, "atomics")), (256.0, 5.0));
        assert_eq!((named(&device, "division"), named(&device, "special")), (6.0, 3.0));
        // Ten units with two groups each, whose clock is not known; at 1 Hz eight warp instructions,
        // moves apart, take eight seconds, and at 1 MHz next to none.
        assert_eq!(named(&device, "active"), 20.0);
        for (mhz, active) in [(1e-6, 8.0), (1.0, 8e-6)] {
            device.keep_parameter(
                name::CLOCK,
                Figure::exact(mhz, Evidence::Measured),
                "MHz",
                "test",
            );
            assert!((named(&device, "active") - active).abs() < 1e-12);
        }
    }

    /// What only one kind of kernel has says nothing about a fit without it.
    #[test]
    fn what_nothing_else_has_is_not_judged() {
        let all: Vec<Observation> = (0..3 * N).map(|k| observation(k, &[1.0; N])).collect();
        assert!(leave_one_out(&all).iter().all(|e| e.is_some_and(|e| e.abs() < 1e-6)));
        let one = |k: usize| observation(k, &[1.0; N]);
        let few = [one(0), one(1), one(2)];
        assert!(leave_one_out(&few).iter().all(Option::is_none));
    }

    /// Power x time of the access-rate form is the sum of counts x MaxPower / rate: the energy model's
    /// joules, whatever the launch took.
    #[test]
    fn access_rates_and_joules_are_one_model() {
        let joules = |j: f64| Term { joules: Interval::estimated(j, j, j) };
        let terms = [("fp32", joules(2e-12)), ("memory", joules(5e-11)), ("caches", joules(1e-9))];
        let mut device = crate::device::tests::round();
        device.energy = Some(EnergyModel {
            floor_watts: 20.0,
            terms: terms.map(|(name, term)| (name.to_owned(), term)).into(),
            error: 0.1,
            observations: 20,
        });
        let at = |name: &str| TERMS.iter().position(|t| t.0 == name).unwrap();
        let mut amounts = [0.0; N];
        (amounts[at("fp32")], amounts[at("memory")], amounts[at("caches")]) = (5e6, 1e6, 7.0);
        let lacks = access_rates(&device, &amounts, 1.0, 20.0).unwrap_err();
        assert!(lacks.what.contains("clock"), "{lacks}");
        device.keep_parameter(name::CLOCK, Figure::exact(1e3, Evidence::Measured), "MHz", "test");
        // 500 G instructions and 100 GB a second: 10 us of each.
        let of = access_rates(&device, &amounts, 20e-6, 20.0).unwrap();
        assert!((of.time_ns - 20e3).abs() < 1e-3, "{of:?}");
        assert!(of.components.iter().all(|c| (c.access_rate - 0.5).abs() < 1e-9), "{of:?}");
        // 1 W and 5 W while busy; what has no rate has joules all the same.
        assert!((of.runtime_watts - 3.0).abs() < 1e-9, "{of:?}");
        assert_eq!(of.left_out, ["caches"]);
        for seconds in [10e-6, 20e-6, 40e-6] {
            let of = access_rates(&device, &amounts, seconds, 20.0).unwrap();
            let above = of.runtime_watts * of.time_ns * 1e-9 + 7.0 * 1e-9;
            assert!((of.joules / (20.0 * seconds + above) - 1.0).abs() < 1e-9, "{of:?}");
            let model = device.energy.as_ref().unwrap();
            assert_eq!(of.joules, model.joules(&amounts, seconds, 20.0).0.value);
        }
        assert!(access_rates(&device, &[0.0; N], 1.0, 20.0).is_err());
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
