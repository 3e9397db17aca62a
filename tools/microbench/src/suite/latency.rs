//! Latency hiding (kernels/latency.cl): chains of dependent instructions at every occupancy that
//! local memory and the size of groups can set. Owns the levels, the check that as many groups were
//! resident as meant, and the tables of latency, peak throughput and concurrency needed (Volkov
//! 2016, tables 6.1 to 6.4).

use super::residency::Level;
use super::{Case, Gave, Suite, Swept};
use crate::bench::{Bench, CaseError, Measured, Settings};
use crate::change;
use crate::cl::{ClError, DeviceFacts, DeviceKind};
use crate::job::{Arg, Fill, Geometry, Job, Need, Outcome, Trips};
use crate::results::{CaseResult, Figure, Finding};
use crate::source::Source;
use crate::stats::Interval;
use crate::sweep::{Axis, Value};
use clscope_models::device::name;
use clscope_models::stations::Curve;
use serde_json::json;
use std::collections::BTreeMap;
use std::rc::Rc;

mod findings;

use findings::conclude;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "latency",
    about: "latency hiding: latency, peak throughput and concurrency needed, by instruction and occupancy",
    wants_power: true,
    cases,
    conclude,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Add,
    /// An addition behind a barrier of the group.
    Barrier,
    /// An addition behind a branch on its operand.
    Branch,
    /// A product and a sum whose other operands lie so many registers apart: banks of registers.
    Operands(u32),
    /// An addition in a loop that is not unrolled: with its counter and its branch.
    Loop,
    Special,
    Local,
    LocalConflict,
    Stream,
    /// Neighbours read every other word.
    Stride,
    /// Four words an access.
    Wide,
    Random,
}

const KINDS: [(Kind, &str); 14] = [
    (Kind::Add, "add"),
    (Kind::Barrier, "barrier"),
    (Kind::Branch, "branch"),
    (Kind::Operands(1), "operands1"),
    (Kind::Operands(2), "operands2"),
    (Kind::Operands(4), "operands4"),
    (Kind::Loop, "loop"),
    (Kind::Special, "special"),
    (Kind::Local, "local"),
    (Kind::LocalConflict, "local2"),
    (Kind::Stream, "stream"),
    (Kind::Stride, "stride2"),
    (Kind::Wide, "stream4"),
    (Kind::Random, "random"),
];

impl Kind {
    /// Whether it adds.
    fn is_sum(self) -> bool {
        matches!(self, Kind::Add | Kind::Barrier | Kind::Branch | Kind::Operands(_) | Kind::Loop)
    }

    /// Whether there is one chain of it alone, in few work-items: it has a latency and no peak.
    fn is_single(self) -> bool {
        matches!(self, Kind::Branch | Kind::Operands(_))
    }

    /// Whether it reads global memory.
    fn is_global(self) -> bool {
        matches!(self, Kind::Stream | Kind::Stride | Kind::Wide | Kind::Random)
    }
}

#[derive(Clone, Copy, Debug)]
struct Variant {
    kind: Kind,
    ilp: u32,
    alpha: Option<u32>,
    level: Level,
    table_words: usize,
    local_words: u32,
    /// Items that the device lets into a group.
    max_group: usize,
}

/// Instructions of one turn and chain.
const LINKS: u32 = 16;

/// Lines that a chain through memory touches at least on a CPU: 16 MiB, so that no cache of a core's own has
/// those of the launch before.
const OWN_LINES: u32 = 1 << 18;

impl Variant {
    fn step(&self) -> f32 {
        match self.kind {
            Kind::Operands(_) => 1.0,
            kind if kind.is_sum() => 0.25,
            _ => 0.0,
        }
    }

    fn is_global(&self) -> bool {
        self.kind.is_global()
    }

    /// Words of an access.
    fn words(&self) -> usize {
        if self.kind == Kind::Wide { 4 } else { 1 }
    }

    /// Accesses that the table has room for.
    fn elements(&self) -> usize {
        self.table_words / self.words()
    }

    /// Words between neighbours in memory.
    fn stride(&self) -> u32 {
        if self.kind == Kind::Stride { 2 } else { 1 }
    }

    fn conflict(&self) -> u32 {
        match self.kind {
            Kind::LocalConflict => 2,
            Kind::Operands(apart) => apart,
            _ => 1,
        }
    }

    fn mask(&self) -> u32 {
        if self.is_global() { self.elements() as u32 - 1 } else { self.local_words - 1 }
    }

    fn next(&self, at: u32, hop: u32) -> u32 {
        match self.kind {
            Kind::Random => scattered(at) & self.mask(),
            Kind::Stream | Kind::Stride | Kind::Wide => at.wrapping_add(hop) & self.mask(),
            _ => at.wrapping_add(32 * self.conflict()) & self.mask(),
        }
    }

    fn reference(&self, i: u32, geometry: Geometry, hop: u32) -> u32 {
        let links = u64::from(geometry.trips) * u64::from(LINKS);
        let l = i % geometry.group as u32;
        match self.kind {
            kind if kind.is_sum() || kind == Kind::Special => {
                let mut sum = 0.0f32;
                for k in 0..self.ilp {
                    let mut x = ((i + k) % 4 + 1) as f32;
                    for _ in 0..links {
                        x = if self.kind.is_sum() { self.step() - x } else { 1.0 / x.sqrt() };
                    }
                    sum += x;
                }
                sum.to_bits()
            }
            _ => (0..self.ilp).fold(0u32, |sum, k| {
                let start = if self.is_global() {
                    i.wrapping_add(k.wrapping_mul(geometry.items() as u32))
                        .wrapping_mul(self.stride())
                } else {
                    l.wrapping_mul(self.conflict()).wrapping_add(k * 64)
                };
                sum.wrapping_add((0..links).fold(start & self.mask(), |at, _| self.next(at, hop)))
            }),
        }
    }

    fn compare(&self, outcome: &Outcome<'_>, hop: u32) -> Result<Option<String>, ClError> {
        let geometry = outcome.geometry;
        // A chain of hundreds of thousands of links takes the host as long as the device; a few
        // items speak for all.
        let some = if geometry.trips > 64 { 4 } else { 512 }.min(geometry.items());
        for (i, got) in (0..).zip(outcome.words(0, 0, some)?) {
            let want = self.reference(i, geometry, hop);
            let close = || {
                self.kind == Kind::Special
                    && (f32::from_bits(got) / f32::from_bits(want) - 1.0).abs() < 1e-5
            };
            if got != want && !close() {
                return Ok(Some(format!(
                    "item {i} ended at {got:#x} where the host ends at {want:#x} after {} turns",
                    geometry.trips
                )));
            }
        }
        Ok(None)
    }

    /// Turns of so many items that read half of the table: more than caches hold, so that a launch
    /// finds nothing that the one before has left there.
    fn walk(&self, items: usize) -> u32 {
        let words = (self.ilp * LINKS * self.stride()) as usize * self.words();
        let turn = items.saturating_mul(4 * words).max(1);
        u32::try_from(4 * self.table_words / 2 / turn).unwrap_or(u32::MAX)
    }

    fn job(self, pad: usize, settings: &Settings, groups: usize, kind: DeviceKind) -> Job {
        let hop = (groups * self.level.group) as u32 * self.ilp * self.stride();
        let name = match self.kind {
            Kind::LocalConflict => "LOCAL",
            Kind::Stride | Kind::Wide => "STREAM",
            Kind::Operands(_) => "OPERANDS",
            kind => KINDS.iter().find(|k| k.0 == kind).map_or("ADD", |k| k.1),
        };
        let mut defines = vec![
            format!("-DKIND_{}", name.to_uppercase()),
            format!("-DILP={}", self.ilp),
            format!("-DCONFLICT={}", self.conflict()),
            format!("-DSTRIDE={}", self.stride()),
        ];
        if self.kind == Kind::Special && kind == DeviceKind::Gpu {
            // Nothing beside the instruction that takes care of the smallest numbers.
            defines.push("-cl-denorms-are-zero".to_owned());
        }
        if self.kind == Kind::Wide {
            defines.push("-DWIDE".to_owned());
        }
        if let Some(alpha) = self.alpha {
            defines.push(format!("-DALPHA={alpha}"));
        }
        let table = if self.is_global() { self.table_words } else { 16 };
        let mut fills = Vec::new();
        if let Kind::Operands(_) = self.kind {
            let pattern = 1f32.to_ne_bytes().to_vec();
            fills.push(Fill::Pattern { buffer: 1, pattern, bytes: 64 });
        }
        if self.is_global() {
            let random = u32::from(self.kind == Kind::Random);
            let args =
                vec![Arg::Buffer(1), Arg::uint(self.mask()), Arg::uint(hop), Arg::uint(random)];
            fills.push(Fill::Kernel {
                source: Source::Latency,
                entry: "lay",
                defines: defines.clone(),
                args,
                items: self.elements(),
            });
        }
        Job {
            defines,
            needs: vec![Need::Local(pad as u64), Need::Group(self.level.group)],
            buffers: vec![4 * groups * self.level.group, 4 * table],
            fills,
            args: vec![
                Arg::Buffer(0),
                Arg::Buffer(1),
                Arg::Trips,
                Arg::uint(self.mask()),
                Arg::Value(self.step().to_ne_bytes().to_vec()),
                Arg::Local(pad),
            ],
            trips: match (self.kind, kind) {
                (Kind::Stream | Kind::Stride | Kind::Wide, DeviceKind::Gpu) => Trips::Walking {
                    ns: settings.launch_ns(),
                    least: self.walk(groups * self.level.group),
                },
                (Kind::Random, DeviceKind::Cpu) => {
                    Trips::Walking { ns: settings.launch_ns(), least: OWN_LINES / LINKS }
                }
                _ => Trips::Lasting(settings.launch_ns()),
            },
            check_trips: 2,
            ..Job::new(Source::Latency, "chain", (groups, self.level.group), move |o| {
                self.compare(o, hop)
            })
        }
    }
}

/// The measurement with so much local memory, and how many groups it ran.
fn launched(
    bench: &mut Bench<'_>,
    variant: Variant,
    pad: usize,
) -> Result<(Measured, usize), CaseError> {
    let groups = variant.level.groups(bench, pad)?;
    let job = variant.job(pad, &bench.settings, groups, bench.facts().kind);
    Ok((bench.measure(&job, false)?, groups))
}

impl Swept for Variant {
    fn axes(&self) -> &'static [Axis] {
        match (self.is_global(), self.ilp, self.kind) {
            (true, 1, _) => &[Axis::Alpha, Axis::Occupancy, Axis::Tpb, Axis::Size],
            (true, ..) => &[Axis::Occupancy, Axis::Tpb, Axis::Size],
            // Additions between additions are no mix.
            (_, 1, kind) if !kind.is_sum() => &[Axis::Alpha, Axis::Occupancy, Axis::Tpb],
            _ => &[Axis::Occupancy, Axis::Tpb],
        }
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let mut at = *self;
        match axis {
            Axis::Alpha => at.alpha = Some(super::number(axis, value, 1 << 20)? as u32),
            Axis::Occupancy => {
                let items = super::count(axis, value)?;
                at.level = Level::occupied(items, self.max_group)?;
            }
            Axis::Tpb => at.level.group = super::count(axis, value)?,
            _ => {
                at.table_words = super::power_of_two(axis, value, 1 << 31)? / 4;
                if at.table_words < 16 {
                    return Err(super::no_value(axis, "64 bytes or more"));
                }
            }
        }
        Ok(Rc::new(at))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let units = bench.facts().compute_units as usize;
        let own = 4 * self.local_words as usize;
        let (measured, groups) =
            self.level.first_that_fits(bench, own, |bench, pad| launched(bench, *self, pad))?;
        let Measured { timing, geometry, .. } = &measured;
        let links = f64::from(geometry.trips) * f64::from(LINKS);
        let exact = |value: f64| Interval::symmetric(value, 0.0);
        let instructions = links * f64::from(self.ilp) * geometry.items() as f64;
        let figures = vec![
            Figure::new("latency", "ns", timing.time_ns.mean.times(1.0 / links)),
            Figure::new("throughput", "Gop/s", timing.time_ns.mean.reciprocal(instructions)),
            Figure::new("items_per_unit", "items", exact(geometry.items() as f64 / units as f64)),
            Figure::new("resident_groups", "groups", exact(groups as f64)),
        ];
        Ok(Gave::of_kernel(measured, figures))
    }
}

fn levels(device: &DeviceFacts, settings: &Settings) -> Vec<Level> {
    let lane = super::lanes(device);
    let multiples: &[usize] = if settings.full {
        &[1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32]
    } else {
        &[1, 2, 4, 8, 16, 32]
    };
    let level = |fill_units| {
        move |m: &usize| Level { group: lane * m, fill_units, share: 1, exactly: false }
    };
    let mut levels: Vec<Level> = [1, 2].iter().map(level(false)).collect();
    levels.extend(multiples.iter().map(level(true)));
    if settings.tiny {
        levels.truncate(3);
    }
    levels
}

/// Where a random chain leads, before its mask: as in the kernel that lays the table.
pub fn scattered(at: u32) -> u32 {
    at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223)
}

/// Words of a table of accesses of so many words: more than caches hold, as far as the device has
/// room; a power of two.
pub fn table_words(device: &DeviceFacts, settings: &Settings, words: usize) -> usize {
    let wanted: usize = match (settings.tiny, device.kind) {
        (true, _) => 1 << 10,
        (_, DeviceKind::Gpu) => 1 << 26,
        _ => (name::RANDOM_BYTES / 4.0) as usize,
    };
    1 << (words * wanted).min((device.largest_buffer / 4).max(1 << 10) as usize).ilog2()
}

/// The additions for each memory access.
fn alphas(settings: &Settings) -> Vec<u32> {
    match (settings.tiny, settings.full) {
        (true, _) => vec![0, 3, 20],
        (_, true) => {
            (0..=12).flat_map(|e| [1u32 << e, 3 << e >> 1]).filter(|&a| a > 0).chain([0]).collect()
        }
        _ => vec![0, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512, 1024, 2048],
    }
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let max_group = device.max_group;
    let mut cases = Vec::new();
    let all = levels(device, settings);
    let mut add = |id: String, variant: Variant, name: &str| {
        let mut parameters = BTreeMap::from([
            ("kind", json!(name)),
            ("ilp", json!(variant.ilp)),
            ("group_size", json!(variant.level.group)),
            ("filled", json!(variant.level.fill_units)),
        ]);
        if let Some(alpha) = variant.alpha {
            parameters.extend([("sweep", json!("alpha")), ("alpha", json!(alpha))]);
        }
        cases.push(Case::with_axes(id, SUITE.name, Rc::new(variant)).with(parameters));
    };
    for (kind, name) in KINDS {
        // As many accesses of four words as of one: caches keep as small a part of them.
        let table_words = table_words(device, settings, if kind == Kind::Wide { 4 } else { 1 });
        let local_words = if matches!(kind, Kind::Local | Kind::LocalConflict) { 2048 } else { 4 };
        // Barriers of several chains are one; a loop holds one chain.
        let one = kind.is_single() || matches!(kind, Kind::Barrier | Kind::Loop);
        let all_ilp: &[u32] = if one { &[1] } else { &[1, 2, 4] };
        for &ilp in all_ilp {
            for &level in all.iter().filter(|l| !kind.is_single() || !l.fill_units) {
                // Quick: independent chains where nothing else hides latency, and with the most
                // items: memory may reach its peak with both alone.
                let full = all.iter().rfind(|l| l.fill_units && l.group <= max_group);
                let quick = ilp == 1 || !level.fill_units || full == Some(&level);
                if quick || settings.full || settings.tiny {
                    let filled = if level.fill_units { "filled" } else { "single" };
                    let variant = Variant {
                        kind,
                        ilp,
                        alpha: None,
                        level,
                        table_words,
                        local_words,
                        max_group,
                    };
                    add(format!("latency/{name}/ilp{ilp}/{filled}{}", level.group), variant, name);
                }
            }
        }
        if matches!(kind, Kind::Stream | Kind::Random) {
            let Some(&level) = all.iter().rev().find(|l| l.group <= 256) else { continue };
            for alpha in alphas(settings) {
                let variant = Variant {
                    kind,
                    ilp: 1,
                    alpha: Some(alpha),
                    level,
                    table_words,
                    local_words,
                    max_group,
                };
                add(format!("latency/{name}/alpha{alpha}"), variant, name);
            }
        }
    }
    cases
}
