//! Ceilings of kinds of instruction that no other suite has by themselves (kernels/ceilings.cl):
//! products, divisions, floating-point steps of single items, 64-bit integers, conversions, roots, constant and private memory, barriers,
//! words that are scattered, atomics at their best and at their worst. Owns the kinds and their host reference; refuses to
//! say which parameter of a device each gives: `model` does.

use super::memory::{filled, word};
use super::{Case, Gave, Suite, geometry};
use crate::bench::{Bench, CaseError, Settings};
use crate::cl::{ClError, DeviceFacts, DeviceKind};
use crate::job::{Arg, Fill, Job, Need, Outcome, Scalar, TEXELS, Trips};
use crate::results::{CaseResult, Figure, Finding};
use crate::source::Source;
use clscope_models::device::name;
use serde_json::json;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "ceilings",
    about: "rates of divisions, products, 64-bit integers, conversions, atomics, barriers, constants",
    wants_power: true,
    cases,
    conclude,
};

/// What is stepped, as the kernel numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mul = 1,
    Div,
    LongAdd,
    LongMul,
    LongDiv,
    Convert,
    Root,
    Constant,
    Private,
    Barrier,
    Atomic,
    Result,
    LocalAtomic,
    Add,
    Logic,
    Image,
    Single,
    Double,
    Gather,
    Scatter,
    Apart,
    Bits,
    Store,
    Wait,
    Saturated,
    Half,
}

/// Words of the table in constant memory.
const TABLE: usize = 1024;
/// Words that atomics are spread over: 8 MiB, which the last cache of a GPU holds.
const SPREAD: usize = (name::GATHERS[2].1 / 4.0) as usize;
/// Words of which the nearest cache holds all: 16 KiB.
const NEAR: usize = (name::GATHERS[0].1 / 4.0) as usize;
/// Words of which a core of a CPU holds all: 512 KiB.
const CORE: usize = (name::GATHERS[1].1 / 4.0) as usize;
/// Words of which a last cache holds some: 128 MiB.
pub(crate) const BETWEEN: usize = 1 << 25;
/// Words of which no cache holds a tenth: 1 GiB.
const FAR: usize = (name::GATHERS[3].1 / 4.0) as usize;
/// Items of a launch that scatters: the step that leads each of them to places of its own.
const STRIDE: u32 = 1 << 24 | 1;

/// Name, kind, operations or bytes of an item in a turn, what it steps by.
type Variety = (&'static str, Kind, u32, [u32; 2]);

const VARIETIES: [Variety; 36] = [
    ("single", Kind::Single, 16, [2, 1]),
    ("double", Kind::Double, 16, [2, 1]),
    ("image", Kind::Image, 16, [0, 0]),
    ("add", Kind::Add, 16, [0, 0]),
    ("logic", Kind::Logic, 32, [0, 0]),
    ("bits", Kind::Bits, 16, [0, 0]),
    ("mul", Kind::Mul, 16, [1_664_525, 1_013_904_223]),
    ("div", Kind::Div, 4, [0, 0]),
    ("int64_add", Kind::LongAdd, 16, [0, 0]),
    ("int64_mul", Kind::LongMul, 16, [1_664_525, 1_013_904_223]),
    ("int64_div", Kind::LongDiv, 4, [0, 0]),
    ("convert", Kind::Convert, 32, [0, 0]),
    ("convert_saturated", Kind::Saturated, 16, [0, 0]),
    ("convert_half", Kind::Half, 32, [0, 0]),
    ("root", Kind::Root, 4, [0, 0]),
    ("constant", Kind::Constant, 16, [224, 0]),
    ("constant_apart", Kind::Constant, 16, [224, 32]),
    ("private", Kind::Private, 48, [0, 1]),
    ("barrier", Kind::Barrier, 8, [0, 0]),
    ("barrier_wait", Kind::Wait, 16, [0, 0]),
    ("store_last", Kind::Store, 64, [SPREAD as u32 - 1, 0]),
    ("atomic", Kind::Atomic, 4, [SPREAD as u32 - 1, 1]),
    ("atomic_word", Kind::Atomic, 4, [0, 1]),
    ("atomic_result", Kind::Result, 4, [0, 1]),
    ("gather_near", Kind::Gather, 16, [NEAR as u32 - 1, STRIDE]),
    ("gather_core", Kind::Gather, 16, [CORE as u32 - 1, STRIDE]),
    ("gather_last", Kind::Gather, 16, [SPREAD as u32 - 1, STRIDE]),
    ("gather_between", Kind::Gather, 16, [BETWEEN as u32 - 1, STRIDE]),
    ("gather_far", Kind::Gather, 16, [FAR as u32 - 1, STRIDE]),
    ("scatter_last", Kind::Scatter, 16, [SPREAD as u32 - 1, STRIDE]),
    ("scatter_far", Kind::Scatter, 16, [FAR as u32 - 1, STRIDE]),
    ("atomic_apart", Kind::Apart, 4, [SPREAD as u32 - 1, STRIDE]),
    ("atomic_few", Kind::Apart, 4, [63, STRIDE]),
    ("atomic_some", Kind::Apart, 4, [1023, STRIDE]),
    ("local_atomic", Kind::LocalAtomic, 4, [1023, 0]),
    ("local_atomic_word", Kind::LocalAtomic, 4, [0, 0]),
];

#[derive(Clone, Copy, Debug)]
struct Variant {
    kind: Kind,
    each: u32,
    by: [u32; 2],
    groups: usize,
    group: usize,
}

impl Variant {
    fn is_atomic(&self) -> bool {
        matches!(self.kind, Kind::Atomic | Kind::Result | Kind::Apart)
    }

    /// What item `i` leaves; nothing where that depends on the order of the others.
    fn reference(&self, i: u32, trips: u32) -> Option<u32> {
        let [a, b] = self.by;
        let first = i.wrapping_mul(2_654_435_761);
        let mut v = [0, 1, 2, 3].map(|k| first.wrapping_add(k));
        let first = u64::from(i).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mut long = [0, 1, 2, 3].map(|k| first.wrapping_add(k));
        let mut own: Vec<u32> = (0..32).map(|k| v[0].wrapping_add(k)).collect();
        let mut at = b.wrapping_mul(i);
        if self.kind == Kind::Image {
            (v, at) = ([0; 4], i);
        }
        let wide = u64::from(a) << 32 | u64::from(a);
        for _ in 0..trips {
            match self.kind {
                Kind::Mul => {
                    for _ in 0..4 {
                        v = v.map(|v| v.wrapping_mul(a).wrapping_add(b));
                    }
                }
                Kind::Add => {
                    for _ in 0..4 {
                        for k in 0..4 {
                            v[k] = v[k].wrapping_add(v[(k + 1) % 4]);
                        }
                    }
                }
                Kind::Logic => {
                    for _ in 0..4 {
                        v[0] = v[0] >> 5 ^ v[1];
                        v[1] = v[1] >> 3 ^ v[2];
                        v[2] = v[2] >> 7 ^ v[3];
                        v[3] = v[3] >> 11 ^ v[0];
                    }
                }
                Kind::Bits => {
                    for _ in 0..4 {
                        for k in 0..4 {
                            v[k] = v[(k + 1) % 4].wrapping_add(v[k].count_ones());
                        }
                    }
                }
                Kind::Image => {
                    for _ in 0..16 {
                        let texels = (TEXELS * TEXELS) as u32;
                        v[0] = v[0].wrapping_add(word(at & (texels - 1)));
                        at = at.wrapping_add(33 * TEXELS as u32);
                    }
                }
                Kind::Div => v = v.map(|v| v ^ ((v ^ 0x9E37_79B9) / (v >> 16 | 1))),
                Kind::LongAdd => {
                    for _ in 0..4 {
                        for k in 0..4 {
                            long[k] = long[k].wrapping_add(long[(k + 1) % 4]);
                        }
                    }
                }
                Kind::LongMul => {
                    for _ in 0..4 {
                        long = long.map(|v| v.wrapping_mul(wide).wrapping_add(u64::from(b)));
                    }
                }
                Kind::LongDiv => {
                    long = long.map(|v| v ^ ((v ^ 0x9E37_79B9_7F4A_7C15) / (v >> 32 | 1)));
                }
                Kind::Convert => {
                    for _ in 0..4 {
                        v = v.map(|v| v ^ (v >> 1) as f32 as u32);
                    }
                }
                Kind::Saturated => {
                    for _ in 0..4 {
                        v = v.map(|v| v.wrapping_add(u32::from(((v >> 1) as f32 * 1e-7) as u8)));
                    }
                }
                Kind::Constant => {
                    let row = (at & (TABLE as u32 - 32)) + if b > 0 { i & 15 } else { 0 };
                    for k in 0..16 {
                        v[k as usize % 4] ^= word(row + k);
                    }
                    at = at.wrapping_add(a);
                }
                Kind::Private => {
                    for v in &mut v {
                        at = at.wrapping_mul(5).wrapping_add(1);
                        let to = (at & 31) as usize;
                        own[to] = own[to].wrapping_add(*v);
                        *v ^= own[(at >> 5 & 31) as usize];
                    }
                }
                Kind::LocalAtomic
                | Kind::Half
                | Kind::Root
                | Kind::Single
                | Kind::Double
                | Kind::Barrier
                | Kind::Wait
                | Kind::Store
                | Kind::Atomic
                | Kind::Result
                | Kind::Gather
                | Kind::Scatter
                | Kind::Apart => {}
            }
        }
        match self.kind {
            Kind::LongAdd | Kind::LongMul | Kind::LongDiv => {
                let all = (0..).zip(long).map(|(k, v): (u64, u64)| v.wrapping_mul(2 * k + 1));
                Some((all.fold(0, |all, v| all ^ v) >> 32) as u32)
            }
            Kind::LocalAtomic => {
                // All items of the group add to one word, or each to its own.
                let group = self.group as u32;
                let (from, to) = match a {
                    0 => (i / group * group, i / group * group + group),
                    _ => (i, i + 1),
                };
                let of_item =
                    |i: u32| i.wrapping_mul(2_654_435_761).wrapping_mul(4).wrapping_add(6);
                let sum = (from..to).fold(0u32, |sum, i| sum.wrapping_add(of_item(i)));
                Some(sum.wrapping_mul(trips))
            }
            // Roots and sums settle at the same value wherever they begin, neighbours exchange, and this
            // language has no numbers in half precision.
            Kind::Half
            | Kind::Root
            | Kind::Single
            | Kind::Double
            | Kind::Barrier
            | Kind::Result => None,
            _ => {
                let all = (0..).zip(v).map(|(k, v): (u32, u32)| v.wrapping_mul(2 * k + 1));
                Some(all.fold(0, |all, v| all ^ v))
            }
        }
    }

    fn compare(&self, outcome: &Outcome<'_>) -> Result<Option<String>, ClError> {
        let geometry = outcome.geometry;
        let some = geometry.items().min(96);
        for (i, got) in (0..).zip(outcome.words(0, 0, some)?) {
            let Some(want) = self.reference(i, geometry.trips) else { break };
            if got != want {
                return Ok(Some(format!("item {i} has {got:#x} where the host gets {want:#x}")));
            }
        }
        if self.is_atomic() {
            let each = outcome.words(2, 0, self.by[0] as usize + 1)?;
            let got = each.into_iter().fold(0, u32::wrapping_add);
            let want = geometry.items() as u32 * geometry.trips * 4;
            if got != want {
                return Ok(Some(format!("{got} atomics were counted, and {want} were done")));
            }
        }
        Ok(None)
    }

    fn of_image(self, settings: &Settings) -> Job {
        Job {
            defines: vec!["-DIMAGE".to_owned()],
            buffers: vec![4 * self.groups * self.group],
            args: vec![Arg::Buffer(0), Arg::Image, Arg::Trips],
            trips: Trips::Lasting(settings.launch_ns()),
            check_trips: 3,
            ..Job::new(Source::Ceilings, "images", (self.groups, self.group), move |o| {
                self.compare(o)
            })
        }
    }

    fn job(self, settings: &Settings) -> Job {
        if self.kind == Kind::Image {
            return self.of_image(settings);
        }
        let scatters = matches!(self.kind, Kind::Gather | Kind::Scatter | Kind::Store);
        let put = if self.is_atomic() || scatters { 4 * (self.by[0] as usize + 1) } else { 64 };
        let mut defines = vec![format!("-DKIND={}", self.kind as u32)];
        let mut needs = Vec::new();
        if matches!(self.kind, Kind::Root | Kind::Double) {
            defines.push("-DNEEDS_DOUBLE".to_owned());
            needs.push(Need::Type(Scalar::Double));
        }
        if matches!(self.kind, Kind::Barrier | Kind::Wait | Kind::LocalAtomic | Kind::Half) {
            needs.push(Need::Local(4096));
        }
        let zeros = Fill::Pattern { buffer: 2, pattern: vec![0; 4], bytes: put };
        Job {
            defines,
            needs,
            buffers: vec![4 * self.groups * self.group, 4 * TABLE, put],
            fills: vec![filled("fill", 1, TABLE), zeros],
            args: vec![
                Arg::Buffer(0),
                Arg::Buffer(1),
                Arg::Buffer(2),
                Arg::Trips,
                Arg::uint(self.by[0]),
                Arg::uint(self.by[1]),
            ],
            trips: Trips::Lasting(settings.launch_ns()),
            check_trips: 3,
            ..Job::new(Source::Ceilings, "ceilings", (self.groups, self.group), move |o| {
                self.compare(o)
            })
        }
    }
}

fn run(bench: &mut Bench<'_>, variant: Variant) -> Result<Gave, CaseError> {
    let measured = bench.measure(&variant.job(&bench.settings), false)?;
    let (timing, geometry) = (&measured.timing, measured.geometry);
    let all = geometry.items() as f64 * f64::from(geometry.trips) * f64::from(variant.each);
    let rate = timing.time_ns.mean.reciprocal(all);
    let figure = match variant.kind {
        Kind::Private | Kind::Store => Figure::new("bandwidth", "GB/s", rate),
        // Of one warp at a time each, one after the other.
        Kind::Wait => {
            let each = all / geometry.items() as f64;
            Figure::new("latency", "ns", timing.time_ns.mean.times(each.recip()))
        }
        _ => Figure::new("operations", "Gop/s", rate),
    };
    Ok(Gave::of_kernel(measured, vec![figure]))
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let (groups, wanted) = geometry(device, settings);
    // Neighbours exchange, in pairs, and groups fit the scratch memory.
    let group = (1usize << wanted.max(1).ilog2()).clamp(2, 1024);
    // What of a GPU nothing else measures.
    let all = VARIETIES.into_iter().filter(|(_, kind, ..)| {
        device.kind == DeviceKind::Gpu || !matches!(kind, Kind::Store | Kind::Wait)
    });
    let each = all.map(|(name, kind, each, by)| {
        let last = if settings.tiny { by[0].min(SPREAD as u32 - 1) } else { by[0] };
        let by = match kind {
            // The next words that no item has.
            Kind::Store => [last, (groups * group) as u32],
            _ => [last, by[1]],
        };
        // One warp a compute unit waits for nobody else.
        let wait = (device.compute_units.max(1) as usize, super::lanes(device));
        let (groups, group) = if kind == Kind::Wait { wait } else { (groups, group) };
        let variant = Variant { kind, each, by, groups, group };
        Case::new(format!("ceilings/{name}"), SUITE.name, move |bench| run(bench, variant))
            .with([("kind", json!(name))])
    });
    each.collect()
}

fn conclude(_: &DeviceFacts, _: &[CaseResult]) -> Vec<Finding> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_changes_with_every_turn() {
        for (name, kind, each, by) in VARIETIES {
            let of = Variant { kind, each, by, groups: 2, group: 64 };
            let (some, more) = (of.reference(5, 3), of.reference(5, 4));
            match kind {
                Kind::Half
                | Kind::Root
                | Kind::Single
                | Kind::Double
                | Kind::Barrier
                | Kind::Result => {
                    assert_eq!(some, None, "{name}");
                }
                Kind::Atomic
                | Kind::Gather
                | Kind::Scatter
                | Kind::Apart
                | Kind::Wait
                | Kind::Store => {
                    assert_eq!(some, more, "{name}")
                }
                _ => assert_ne!(some, more, "{name}"),
            }
        }
    }
}
