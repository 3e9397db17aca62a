//! Kernels without loops, as applications have them, over occupancy (kernels/occupancy.cl): a sum
//! of vectors, a permutation, a change of sign, Black-Scholes (Volkov 2016, sections 3.8 and 3.10).
//! Owns the kernels, their host references and the bytes that each moves.

use super::{Case, Gave, Suite, Swept};
use crate::sweep::{Axis, Value};
use clscope_microbench::bench::{Bench, CaseError, Measured, Settings};
use clscope_microbench::cl::{ClError, DeviceFacts, DeviceKind};
use clscope_microbench::job::{Arg, Fill, Job, Need, Outcome, Trips};
use clscope_microbench::results::{CaseResult, Figure, Finding};
use clscope_microbench::source::Source;
use clscope_microbench::stats::Interval;
use clscope_microbench::suite::residency::{Level, resident};
use serde_json::json;
use std::rc::Rc;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "occupancy",
    about: "kernels without loops over occupancy: sum, permutation, change of sign, Black-Scholes",
    wants_power: false,
    cases,
    conclude,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Add,
    /// Whether it moves anything.
    Permute(bool),
    /// Whether it writes.
    ChangeSign(bool),
    /// Whether with fast mathematics.
    BlackScholes(bool),
}

const ALL: [(What, &str); 7] = [
    (What::Add, "vector_add"),
    (What::Permute(false), "permute/identity"),
    (What::Permute(true), "permute/random"),
    (What::ChangeSign(false), "abs/positive"),
    (What::ChangeSign(true), "abs/negative"),
    (What::BlackScholes(false), "black_scholes/exact"),
    (What::BlackScholes(true), "black_scholes/fast"),
];

/// The odd factor and the offset of a permutation that scatters.
const SCATTER: (u32, u32) = (2_654_435_761, 1_013_904_223);

#[derive(Clone, Copy, Debug)]
struct Variant {
    what: What,
    /// Elements of an array: a power of two.
    elements: usize,
    group: usize,
}

/// As in the kernels.
fn fraction(i: u32) -> f32 {
    (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 16_777_216.0
}

/// Where an element of a permutation comes from, as in the kernels.
fn source(i: u32, mask: u32, moves: bool) -> u32 {
    if !moves {
        return i;
    }
    let x = i.wrapping_mul(SCATTER.0).wrapping_add(SCATTER.1) & mask;
    (x ^ (x >> 9)).wrapping_mul(SCATTER.0) & mask
}

/// The normal distribution up to `d`, as in the kernels, in double precision.
fn normal(d: f64) -> f64 {
    let k = 1.0 / (1.0 + 0.231_641_9 * d.abs());
    let sum = [1.330_274_429, -1.821_255_978, 1.781_477_937, -0.356_563_782, 0.319_381_53];
    let sum = sum.into_iter().fold(0.0, |sum, of| sum * k + of);
    let tail = 0.398_942_28 * (-0.5 * d * d).exp() * k * sum;
    if d > 0.0 { 1.0 - tail } else { tail }
}

/// The prices of a call and a put.
fn prices(i: u32) -> [f64; 2] {
    let f = f64::from(fraction(i));
    let (s, x, t) = (5.0 + 25.0 * f, 1.0 + 99.0 * f, 0.25 + 9.75 * f);
    let d1 = ((s / x).ln() + (0.02 + 0.5 * 0.09) * t) / (0.3 * t.sqrt());
    let (n1, n2) = (normal(d1), normal(d1 - 0.3 * t.sqrt()));
    let later = x * (-0.02 * t).exp();
    [s * n1 - later * n2, later * (1.0 - n2) - s * (1.0 - n1)]
}

impl Variant {
    /// Arrays that it has, of which the last ones are results.
    fn arrays(self) -> (usize, usize) {
        match self.what {
            What::Add | What::Permute(_) => (3, 1),
            What::ChangeSign(_) => (1, 1),
            What::BlackScholes(_) => (5, 2),
        }
    }

    /// Bytes that a work-item reads and writes, as the document counts them.
    fn bytes(self) -> usize {
        match self.what {
            What::ChangeSign(writes) => {
                if writes {
                    8
                } else {
                    4
                }
            }
            _ => 4 * self.arrays().0,
        }
    }

    fn entry(self) -> &'static str {
        match self.what {
            What::Add => "vector_add",
            What::Permute(_) => "permute",
            What::ChangeSign(_) => "change_sign",
            What::BlackScholes(_) => "black_scholes",
        }
    }

    /// What must be in result `n` at an element, of its magnitude where the sign depends on how
    /// often it was changed.
    fn expected(self, n: usize, i: u32) -> f64 {
        match self.what {
            What::Add => f64::from(fraction(i) + fraction(i)),
            What::Permute(moves) => f64::from(fraction(source(i, self.elements as u32 - 1, moves))),
            What::ChangeSign(_) => f64::from(fraction(i)),
            What::BlackScholes(_) => prices(i)[n],
        }
    }

    fn compare(self, outcome: &Outcome<'_>) -> Result<Option<String>, ClError> {
        let (arrays, results) = self.arrays();
        let items = outcome.geometry.items();
        for n in 0..results {
            let some = 512.min(items);
            for from in [0, items - some] {
                let words = outcome.words(arrays - results + n, 4 * from, some)?;
                for (k, word) in words.into_iter().enumerate() {
                    let got = f64::from(f32::from_bits(word));
                    let want = self.expected(n, (from + k) as u32);
                    let close = match self.what {
                        What::BlackScholes(_) => (got - want).abs() <= 1e-3 * (1.0 + want.abs()),
                        // The checked launch is the first after the fill.
                        What::ChangeSign(writes) => got == if writes { -want } else { want },
                        _ => got == want,
                    };
                    if !close {
                        return Ok(Some(format!(
                            "element {} is {got} where the host has {want}",
                            from + k
                        )));
                    }
                }
            }
        }
        Ok(None)
    }

    fn job(self, pad: usize) -> Job {
        let (arrays, results) = self.arrays();
        let options: Vec<String> = match self.what {
            What::BlackScholes(true) => vec!["-cl-fast-relaxed-math".to_owned()],
            _ => Vec::new(),
        };
        let fill = |entry, args| Fill::Kernel {
            source: Source::Occupancy,
            entry,
            defines: options.clone(),
            args,
            items: self.elements,
        };
        let inputs = if results == arrays { arrays } else { arrays - results };
        let mut fills: Vec<Fill> =
            (0..inputs).map(|n| fill("fractions", vec![Arg::Buffer(n)])).collect();
        if let What::Permute(moves) = self.what {
            let (factor, offset) = if moves { SCATTER } else { (1, 0) };
            let words = [self.elements as u32 - 1, factor, offset].map(Arg::uint);
            let args = std::iter::once(Arg::Buffer(1)).chain(words).collect();
            fills[1] = fill("lay", args);
        }
        let mut args: Vec<Arg> = (0..arrays).map(Arg::Buffer).collect();
        if let What::ChangeSign(writes) = self.what {
            let least = if writes { f32::MAX } else { -f32::MAX };
            args.push(Arg::Value(least.to_ne_bytes().to_vec()));
        }
        args.push(Arg::Local(pad));
        Job {
            defines: options,
            needs: vec![Need::Local(pad as u64), Need::Group(self.group)],
            buffers: vec![4 * self.elements; arrays],
            fills,
            args,
            trips: Trips::Fixed(1),
            check_trips: 1,
            ..Job::new(
                Source::Occupancy,
                self.entry(),
                (self.elements / self.group, self.group),
                move |o| self.compare(o),
            )
        }
    }
}

impl Swept for Variant {
    fn axes(&self) -> &'static [Axis] {
        &[Axis::Tpb, Axis::Size]
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let mut at = *self;
        if axis == Axis::Tpb {
            at.group = super::count(axis, value)?;
        } else {
            at.elements = super::power_of_two(axis, value, 1 << 31)? / 4;
            if at.elements < 1 << 10 {
                return Err(super::no_value(axis, "4096 bytes or more"));
            }
        }
        Ok(Rc::new(at))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let units = bench.facts().compute_units as f64;
        let level = Level { group: self.group, fill_units: true, share: 1, exactly: false };
        if self.group > self.elements {
            let reason =
                format!("an array of {} elements is no group of {}", self.elements, self.group);
            return Err(CaseError::lacks(reason));
        }
        let (measured, groups) = level.first_that_fits(bench, 4, |bench, pad| {
            let groups = resident(bench, self.group, pad)?;
            Ok((bench.measure(&self.job(pad), false)?, groups))
        })?;
        let Measured { timing, geometry, .. } = &measured;
        let items = geometry.items() as f64;
        let exact = |value: f64| Interval::symmetric(value, 0.0);
        let bytes = self.bytes() as f64 * items;
        let figures = vec![
            Figure::new("bandwidth", "GB/s", timing.time_ns.mean.reciprocal(bytes)),
            Figure::new("throughput", "Gitem/s", timing.time_ns.mean.reciprocal(items)),
            Figure::new("items_per_unit", "items", exact((groups * self.group) as f64 / units)),
            Figure::new("resident_groups", "groups", exact(groups as f64)),
        ];
        Ok(Gave::of_kernel(measured, figures))
    }
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let wanted: usize = match (settings.tiny, device.kind) {
        (true, _) => 1 << 12,
        (_, DeviceKind::Gpu) => 1 << 26,
        _ => 1 << 22,
    };
    let room = (device.largest_buffer / 4).min(device.global_bytes / 32).max(1 << 10);
    let elements = 1usize << wanted.min(usize::try_from(room).unwrap_or(wanted)).ilog2();
    let group = super::default_group(device, settings);
    let case = |(what, name): (What, &str)| {
        let variant = Variant { what, elements, group };
        let parameters =
            [("kernel", json!(name)), ("bytes", json!(4 * elements)), ("group_size", json!(group))];
        let id = format!("{}/{name}", SUITE.name);
        Case::with_axes(id, SUITE.name, Rc::new(variant)).with(parameters)
    };
    ALL.into_iter().map(case).collect()
}

/// How much slower scattered reads, writes and exact mathematics are.
fn conclude(_: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let of = |name: &str| {
        let case = results.iter().find(|r| r.parameter("kernel") == Some(name))?;
        case.estimate("throughput")
    };
    let pairs = [
        ("permute", "permute/identity", "permute/random", "a permutation that scatters"),
        ("abs", "abs/positive", "abs/negative", "writing an element back"),
        ("black_scholes", "black_scholes/fast", "black_scholes/exact", "exact mathematics"),
    ];
    let finding = |(name, fast, slow, what): (&str, &str, &str, &str)| {
        let ratio = of(fast)?.over(of(slow)?);
        Some(Finding::new(
            format!("{}/{name}", SUITE.name),
            format!("{what} takes {:.2} times as long (+-{:.2})", ratio.value, ratio.half()),
            vec![Figure::new("ratio", "", ratio)],
            "quotient of means",
        ))
    };
    pairs.into_iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_that_scatters_reaches_every_element_once() {
        let mask = (1u32 << 12) - 1;
        let mut seen = vec![false; 1 << 12];
        for i in 0..=mask {
            let at = source(i, mask, true) as usize;
            assert!(!std::mem::replace(&mut seen[at], true), "{at} is read twice");
        }
        // Neighbours do not lie in one line of memory.
        let far =
            (0..mask).filter(|i| source(*i, mask, true).abs_diff(source(i + 1, mask, true)) >= 32);
        assert!(far.count() > 4000);
    }

    /// Put-call parity, and a textbook's price.
    #[test]
    fn prices_are_those_of_black_and_scholes() {
        for i in [0u32, 1, 77, 4095] {
            let f = f64::from(fraction(i));
            let (s, x, t) = (5.0 + 25.0 * f, 1.0 + 99.0 * f, 0.25 + 9.75 * f);
            let [call, put] = prices(i);
            assert!((call - put - (s - x * (-0.02 * t).exp())).abs() < 1e-9);
            assert!(call > -1e-6 && call < s && put > -1e-6);
        }
        assert!((normal(0.0) - 0.5).abs() < 1e-6 && (normal(1.96) - 0.975).abs() < 1e-4);
    }
}
