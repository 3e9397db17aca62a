//! Joules of blends of instructions (kernels/blend.cl): arithmetic, memory of each level, atomics,
//! one by one and together, on operands that keep changing. Owns the choice of blends and their host reference; refuses to fit: the model of energy does.

use super::memory::{filled, word};
use super::{Case, Gave, Suite, geometry};
use crate::bench::{Bench, CaseError, Settings};
use crate::cl::{ClError, DeviceFacts};
use crate::job::{Arg, Job, Need, Outcome, Scalar, Trips};
use crate::results::{CaseResult, Figure, Finding};
use crate::source::Source;
use serde_json::json;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "blend",
    about: "watts of blends of instructions, for joules by class",
    wants_power: true,
    cases,
    conclude,
};

/// Bytes of the working set of loads, stores and atomics: in the nearest cache, in the last one, in
/// memory.
const NEAR: usize = 16 << 10;
const LAST: usize = 8 << 20;
const FAR: usize = 1 << 30;

/// How a blend fills the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fullness {
    /// Many groups.
    Full,
    /// One group of one warp on each unit: they wait most of the time.
    Sparse,
    /// Half of the units.
    Half,
}

/// A blend: name, steps of each kind, working set, how full.
type Blend = (&'static str, &'static [(&'static str, u32)], usize, Fullness);

use Fullness::{Full, Half, Sparse};

/// Steps are such that no kind is lost beside another.
const BLENDS: [Blend; 41] = [
    ("fp32", &[("FP32", 8)], NEAR, Full),
    ("fp64", &[("FP64", 8)], NEAR, Full),
    ("fp16", &[("FP16", 8)], NEAR, Full),
    ("integer", &[("INTEGERS", 8)], NEAR, Full),
    ("logic", &[("LOGIC", 8)], NEAR, Full),
    ("rotate", &[("ROTATES", 8)], NEAR, Full),
    ("special", &[("SPECIALS", 4)], NEAR, Full),
    ("division", &[("DIVISIONS", 2)], NEAR, Full),
    ("int_division", &[("INT_DIVISIONS", 2)], NEAR, Full),
    ("double_division", &[("DOUBLE_DIVISIONS", 2)], NEAR, Full),
    ("local", &[("LOCALS", 16)], NEAR, Full),
    ("near", &[("LOADS", 16)], NEAR, Full),
    ("near_wide", &[("WIDE_LOADS", 8)], NEAR, Full),
    ("last", &[("LOADS", 16)], LAST, Full),
    ("last_wide", &[("WIDE_LOADS", 8)], LAST, Full),
    ("far", &[("LOADS", 16)], FAR, Full),
    ("far_wide", &[("WIDE_LOADS", 8)], FAR, Full),
    ("store_last", &[("STORES", 8)], LAST, Full),
    ("store_far", &[("STORES", 8)], FAR, Full),
    ("atomic", &[("ATOMICS", 4)], LAST, Full),
    ("local_atomic", &[("LOCAL_ATOMICS", 4)], NEAR, Full),
    ("fp32_integer", &[("FP32", 4), ("INTEGERS", 4)], NEAR, Full),
    ("fp32_logic", &[("FP32", 4), ("LOGIC", 4)], NEAR, Full),
    ("fp32_special", &[("FP32", 6), ("SPECIALS", 1)], NEAR, Full),
    ("fp32_local", &[("FP32", 4), ("LOCALS", 8)], NEAR, Full),
    ("fp32_near", &[("FP32", 4), ("LOADS", 8)], NEAR, Full),
    ("fp32_last", &[("FP32", 8), ("LOADS", 4)], LAST, Full),
    ("fp32_far", &[("FP32", 8), ("LOADS", 4)], FAR, Full),
    ("fp64_local", &[("FP64", 4), ("LOCALS", 8)], NEAR, Full),
    ("fp64_far", &[("FP64", 4), ("LOADS", 4)], FAR, Full),
    ("integer_local", &[("INTEGERS", 4), ("LOCALS", 8)], NEAR, Full),
    ("logic_far", &[("LOGIC", 8), ("LOADS", 4)], FAR, Full),
    ("special_far", &[("SPECIALS", 2), ("LOADS", 4)], FAR, Full),
    ("local_near", &[("LOCALS", 8), ("LOADS", 8)], NEAR, Full),
    ("load_store", &[("LOADS", 4), ("STORES", 4)], FAR, Full),
    ("wide_store", &[("WIDE_LOADS", 4), ("STORES", 4), ("FP32", 2)], FAR, Full),
    ("all", &[("FP32", 3), ("INTEGERS", 2), ("LOGIC", 1), ("LOCALS", 4), ("LOADS", 2)], LAST, Full),
    ("fp32_sparse", &[("FP32", 8)], NEAR, Sparse),
    ("last_sparse", &[("LOADS", 4), ("LOGIC", 1)], LAST, Sparse),
    ("far_sparse", &[("LOADS", 4), ("LOGIC", 1)], FAR, Sparse),
    (
        "all_half",
        &[("FP32", 3), ("INTEGERS", 2), ("LOGIC", 1), ("LOCALS", 4), ("LOADS", 2)],
        LAST,
        Half,
    ),
];

/// Numbers that never settle: x becomes 1 - r x x.
const R: f32 = 1.9;
/// The product of a generator of random numbers.
const A: u32 = 1_664_525;

#[derive(Clone, Copy, Debug)]
struct Variant {
    steps: &'static [(&'static str, u32)],
    words: usize,
    groups: usize,
    group: usize,
}

impl Variant {
    fn count_steps(&self, kind: &str) -> u32 {
        self.steps.iter().find(|(k, _)| *k == kind).map_or(0, |(_, n)| *n)
    }

    fn mask(&self) -> u32 {
        self.words as u32 - 1
    }

    /// Past what all items read at once, by an odd number of groups: each walks over the whole set.
    fn hop(&self) -> u32 {
        let all = (self.groups * self.group).next_power_of_two() as u32;
        all.wrapping_add(self.group as u32 * 33)
    }

    /// What `out[i]` has to be: x, y, z.
    fn reference(&self, i: u32, local: u32, trips: u32) -> [u32; 3] {
        let r = R;
        let mut u = [0, 1, 2, 3].map(|n| i.wrapping_add(n).wrapping_mul(2_654_435_761));
        let mut f = u.map(|u| (u >> 8) as f32 * 2f32.powi(-24) * r);
        let mut d = [u[0], u[1]].map(|u| f64::from(u >> 8) * 2f64.powi(-24) * f64::from(r));
        let (mut sum, mut at, mut place) = (0u32, i, local);
        for _ in 0..trips {
            for _ in 0..self.count_steps("FP32") {
                f = f.map(|f| (f * -r).mul_add(f, 1.0));
            }
            for _ in 0..self.count_steps("FP64") {
                d = d.map(|d| (d * -f64::from(r)).mul_add(d, 1.0));
            }
            for _ in 0..self.count_steps("INTEGERS") {
                u = u.map(|u| u.wrapping_mul(A).wrapping_add(1_013_904_223));
            }
            for _ in 0..self.count_steps("LOGIC") {
                u = u.map(|u| u ^ u << 13).map(|u| u ^ u >> 17);
            }
            for _ in 0..self.count_steps("ROTATES") {
                let [x, y, z, w] = u;
                u = [(x, y), (y, z), (z, w), (w, x)].map(|(a, b)| a.rotate_left(7).wrapping_add(b));
            }
            for _ in 0..self.count_steps("INT_DIVISIONS") {
                u = u.map(|u| u ^ ((u ^ 0x9E37_79B9) / (u >> 16 | 1)));
            }
            for _ in 0..self.count_steps("LOCALS") {
                sum ^= word(place);
                place = (place + 32) & 1023;
            }
            for _ in 0..self.count_steps("LOADS") {
                sum ^= word(at & self.mask());
                at = at.wrapping_add(self.hop());
            }
            for _ in 0..self.count_steps("WIDE_LOADS") {
                let first = 4 * (at & self.mask() >> 2);
                sum = (first..first + 4).fold(sum, |sum, w| sum ^ word(w));
                at = at.wrapping_add(self.hop());
            }
            let stepped = self.count_steps("STORES") + self.count_steps("ATOMICS");
            at = at.wrapping_add(self.hop().wrapping_mul(stepped));
            place = (place + 32 * self.count_steps("LOCAL_ATOMICS")) & 1023;
        }
        let high = |d: f64| (d.to_bits() >> 32) as u32;
        let doubles = if self.count_steps("FP64") > 0 { high(d[0]) ^ high(d[1]) } else { 0 };
        let floats = f.iter().fold(0, |all, f| all ^ f.to_bits());
        [u.iter().fold(sum, |all, u| all ^ u), floats, doubles]
    }

    fn compare(&self, outcome: &Outcome<'_>) -> Result<Option<String>, ClError> {
        let trips = outcome.geometry.trips;
        if trips > 4096 {
            // The host would take long; the short launch has shown what the kernel computes.
            return Ok(None);
        }
        let some = outcome.geometry.items().min(96);
        for (i, got) in outcome.words(0, 0, 4 * some)?.chunks_exact(4).enumerate() {
            let local = (i % outcome.geometry.group) as u32;
            let want = self.reference(i as u32, local, trips);
            if let Some(k) = (0..3).find(|k| got[*k] != want[*k]) {
                return Ok(Some(format!(
                    "word {k} of item {i} is {:#x} where the host gets {:#x} after {trips} turns",
                    got[k], want[k]
                )));
            }
        }
        Ok(None)
    }

    fn job(self, settings: &Settings) -> Job {
        let mut defines: Vec<String> =
            self.steps.iter().map(|(kind, n)| format!("-D{kind}={n}")).collect();
        let mut needs = vec![Need::Local(4096)];
        if self.count_steps("FP32") > 0 {
            needs.push(Need::Fma);
        }
        if self.count_steps("FP64") + self.count_steps("DOUBLE_DIVISIONS") > 0 {
            defines.push("-DNEEDS_DOUBLE".to_owned());
            needs.push(Need::Type(Scalar::Double));
        }
        if self.count_steps("FP16") > 0 {
            defines.push("-DNEEDS_HALF".to_owned());
            needs.push(Need::Type(Scalar::Half));
        }
        let writes = self.count_steps("STORES") + self.count_steps("ATOMICS") > 0;
        let put = if writes { 4 * self.words } else { 64 };
        let data = 4 * self.words;
        Job {
            defines,
            needs,
            buffers: vec![16 * self.groups * self.group, data, put],
            fills: vec![filled("fill", 1, self.words)],
            args: vec![
                Arg::Buffer(0),
                Arg::Buffer(1),
                Arg::Buffer(2),
                Arg::Trips,
                Arg::uint(self.mask()),
                Arg::uint(self.hop()),
                Arg::Value(R.to_ne_bytes().to_vec()),
                Arg::uint(A),
                Arg::uint(32),
            ],
            trips: Trips::Lasting(settings.launch_ns()),
            check_trips: 3,
            ..Job::new(Source::Blend, "blend", (self.groups, self.group), move |o| self.compare(o))
        }
    }
}

fn run(bench: &mut Bench<'_>, variant: Variant) -> Result<Gave, CaseError> {
    let measured = bench.measure(&variant.job(&bench.settings), true)?;
    let (timing, geometry) = (&measured.timing, measured.geometry);
    let steps: u32 = variant.steps.iter().map(|(_, n)| n).sum();
    let all = geometry.items() as f64 * f64::from(geometry.trips) * f64::from(steps);
    let rate = Figure::new("rate", "Gsteps/s", timing.time_ns.mean.reciprocal(all));
    // Of the kinds whose operations are counted one by one: a step of four components has two of
    // each.
    let of = |kind: &str, each: u32| f64::from(variant.count_steps(kind) * each);
    let divisions = of("DIVISIONS", 4) + of("DOUBLE_DIVISIONS", 2);
    let counted = of("ROTATES", 8) + of("ATOMICS", 1) + of("LOCAL_ATOMICS", 1) + divisions;
    let operations = geometry.items() as f64 * f64::from(geometry.trips) * counted;
    let single = variant.steps.len() == 1 && counted > 0.0;
    let ceiling = Figure::new("operations", "Gop/s", timing.time_ns.mean.reciprocal(operations));
    let figures = [Some(rate), single.then_some(ceiling)].into_iter().flatten().collect();
    Ok(Gave::of_kernel(measured, figures))
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let (groups, group) = geometry(device, settings);
    // The walk over a working set needs groups of a power of two.
    let group = 1usize << group.max(1).ilog2();
    let units = device.compute_units as usize;
    let most = device.largest_buffer.min(device.global_bytes / 8).max(1 << 16) as usize;
    let mut out = Vec::new();
    for (name, steps, bytes, full) in BLENDS {
        let bytes = if settings.tiny { NEAR } else { bytes.min(1 << most.ilog2()) };
        let (groups, group) = match full {
            Full => (groups, group),
            Sparse => (units, group.min(super::lanes(device).next_power_of_two().max(8))),
            Half => ((units / 2).max(1), group),
        };
        let variant = Variant { steps, words: bytes / 4, groups, group };
        let kinds: Vec<String> = steps.iter().map(|(k, n)| format!("{k}={n}")).collect();
        out.push(
            Case::new(format!("blend/{name}"), SUITE.name, move |bench| run(bench, variant))
                .with([("steps", json!(kinds)), ("bytes", json!(bytes))]),
        );
    }
    out.push(super::floor_case(SUITE.name, SUITE.name));
    out
}

fn conclude(_: &DeviceFacts, _: &[CaseResult]) -> Vec<Finding> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is stepped in a turn, as the kernel names it.
    const KINDS: [&str; 16] = [
        "FP32",
        "FP64",
        "FP16",
        "INTEGERS",
        "LOGIC",
        "ROTATES",
        "SPECIALS",
        "DIVISIONS",
        "INT_DIVISIONS",
        "DOUBLE_DIVISIONS",
        "LOCALS",
        "LOADS",
        "WIDE_LOADS",
        "STORES",
        "ATOMICS",
        "LOCAL_ATOMICS",
    ];

    #[test]
    fn blends_are_known_kinds_and_cover_them_all() {
        for kind in KINDS {
            assert!(BLENDS.iter().any(|b| b.1.iter().any(|(k, _)| *k == kind)), "{kind}");
        }
        for (name, steps, ..) in BLENDS {
            assert!(steps.iter().all(|(k, n)| KINDS.contains(k) && *n > 0), "{name}");
            assert_eq!(BLENDS.iter().filter(|b| b.0 == name).count(), 1, "{name}");
        }
    }

    #[test]
    fn operands_change() {
        let of = Variant { steps: BLENDS[0].1, words: 4096, groups: 2, group: 64 };
        let at = |trips| of.reference(5, 5, trips)[1];
        assert_ne!(at(3), at(4));
    }
}
