//! Energy per instruction by class (kernels/classes.cl): 500 statements a turn of arithmetic,
//! division, special functions, compare and branch, global and local memory; power against working
//! groups and lanes (Piispanen 2014, table 6.1 and figure 6.4). Owns the variants, their host
//! references and the lines through the power figures; mixtures of classes are in [`mixture`].

use super::{Case, Gave, Suite, Swept, geometry, mixture};
use crate::bench::{Bench, CaseError, Measured, Settings};
use crate::cl::{ClError, DeviceFacts, DeviceKind};
use crate::fit;
use crate::job::{Arg, Fill, Job, Need, Outcome, Scalar, Trips, is_right};
use crate::results::{CaseResult, Figure, Finding};
use crate::source::Source;
use crate::sweep::{Axis, Value};
use serde_json::json;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "classes",
    about: "energy per instruction by class; power against working groups and lanes",
    wants_power: true,
    cases,
    conclude,
};

/// Statements of one turn.
pub const STATEMENTS: u32 = 500;

/// The classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Arithmetic,
    Division,
    Special,
    Other,
    Global,
    Local,
}

impl Class {
    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Arithmetic => "arithmetic",
            Class::Division => "division",
            Class::Special => "special",
            Class::Other => "other",
            Class::Global => "global",
            Class::Local => "local",
        }
    }
}

/// Table words for walks through memory, on a device.
fn table_words(device: &DeviceFacts, settings: &Settings) -> usize {
    let wanted: usize = match (settings.tiny, device.kind) {
        (true, _) => 1 << 12,
        (_, DeviceKind::Gpu) => 1 << 26,
        _ => 1 << 24,
    };
    1usize << wanted.min((device.largest_buffer / 4).max(1 << 12) as usize).ilog2()
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    pub class: Class,
    pub scalar: Scalar,
    pub groups: usize,
    pub group: usize,
    pub lanes: u32,
    pub table_words: usize,
}

impl Variant {
    fn constants(&self) -> [f64; 2] {
        match (self.class, self.scalar) {
            (Class::Division, Scalar::Int) => [f64::from(1 << 30), f64::from((1 << 30) + 12345)],
            (_, Scalar::Int) => [5.0, 3.0],
            (Class::Division, _) => [1.5, 1.5 + 1.0 / 1024.0],
            (Class::Other, _) => [1.5, 0.75],
            // An exact product, and a sum that counts until it is far beyond every check.
            (_, _) => [1.0, 0.25],
        }
    }

    /// The keeping of a device busy: `arithmetic` of `float`.
    pub fn usual(device: &DeviceFacts, settings: &Settings) -> Self {
        let (groups, group) = geometry(device, settings);
        let table_words = table_words(device, settings);
        let (class, scalar) = (Class::Arithmetic, Scalar::Float);
        Self { class, scalar, groups, group, lanes: 32, table_words }
    }

    pub fn seed(&self, e: usize) -> f64 {
        if self.scalar == Scalar::Int { (2 + e % 4) as f64 } else { 1.0 + 0.25 * (e % 4) as f64 }
    }

    /// The end of a chain of so many pairs of statements.
    pub fn reference(&self, seed: f64, steps: u64) -> f64 {
        let [p, q] = self.constants();
        if self.scalar == Scalar::Int {
            let (p, q) = (p as i32, q as i32);
            let (mut x, mut y) = (seed as i32, q);
            for _ in 0..steps {
                match self.class {
                    Class::Arithmetic => {
                        x = x.wrapping_add(y);
                        y ^= x;
                    }
                    Class::Division => x = q.wrapping_div(p.wrapping_div(x.max(1)).max(1)),
                    Class::Special => x = ((x.count_ones() as i32 + p).count_ones()) as i32 + q,
                    _ => {
                        x = if x > p { x - q } else { x + p };
                        x = if x < q { x + p } else { x - q };
                    }
                }
            }
            return f64::from(x);
        }
        let round = |v: f64| if self.scalar == Scalar::Float { f64::from(v as f32) } else { v };
        let mut x = seed;
        for _ in 0..steps {
            x = match self.class {
                Class::Arithmetic => round(round(x * p) + q),
                Class::Division => round(q / round(p / x)),
                Class::Special => round(1.0 / round(1.0 / x.sqrt()).sqrt()),
                _ => {
                    let x = if x > p { x - q } else { x + p };
                    if x < q { x + p } else { x - q }
                }
            };
        }
        x
    }

    /// Share by which the end of a chain of so many statements may differ from the host's.
    pub fn tolerance(&self, steps: f64) -> f64 {
        let memory = matches!(self.class, Class::Global | Class::Local);
        let ulp =
            if self.scalar == Scalar::Double { f64::EPSILON } else { f64::from(f32::EPSILON) };
        match self.class {
            _ if self.scalar == Scalar::Int || memory => 0.0,
            Class::Division => 2.5 * steps * ulp,
            // Every root halves the relative error it is given, so 2 ulp a step never become more
            // than 4; the rounding of the host's reference comes on top.
            Class::Special => 8.0 * ulp,
            _ => 0.0,
        }
    }

    fn compare(&self, outcome: &Outcome<'_>) -> Result<Option<String>, ClError> {
        let trips = outcome.geometry.trips;
        let size = self.scalar.bytes();
        let steps = f64::from(trips) * f64::from(STATEMENTS);
        let memory = matches!(self.class, Class::Global | Class::Local);
        let tolerance = self.tolerance(steps);
        let pairs = u64::from(trips) * u64::from(STATEMENTS) / 2;
        let long = !memory && steps > 4e6 || self.class == Class::Division && tolerance > 0.01;
        let wanted: Vec<f64> = (0..4)
            .map(|e| if long { f64::NAN } else { self.reference(self.seed(e), pairs) })
            .collect();
        let some = outcome.geometry.items().min(1 << 16);
        let bytes = outcome.read(0, 0, some * size)?;
        for (i, bytes) in bytes.chunks_exact(size).enumerate() {
            let got = self.scalar.decode(bytes).unwrap_or(f64::NAN);
            let l = i % outcome.geometry.group;
            let want = if l % 32 >= self.lanes as usize {
                self.seed(i)
            } else {
                let hops = u64::from(trips) * u64::from(STATEMENTS);
                match self.class {
                    Class::Global => f64::from(self.walk(i, hops)),
                    Class::Local => ((l as u64 + 32 * hops) & 1023) as f64,
                    _ => wanted[i % 4],
                }
            };
            if !is_right(got, want, tolerance) {
                return Ok(Some(format!(
                    "item {i} has {got} where the host gets {want} after {steps} statements"
                )));
            }
        }
        Ok(None)
    }

    pub fn hop(&self) -> u32 {
        (self.groups * self.group) as u32
    }

    pub fn walk(&self, i: usize, hops: u64) -> i32 {
        let mask = self.table_words as u64 - 1;
        ((i as u64 + u64::from(self.hop()).wrapping_mul(hops)) & mask) as i32
    }

    fn job(self, settings: &Settings) -> Job {
        let bytes = self.groups * self.group * self.scalar.bytes();
        let mut defines = self.scalar.defines(1);
        defines.push(format!("-DCLASS_{}", self.class.name().to_uppercase()));
        defines.push(format!("-DTABLE_WORDS={}u", self.table_words));
        let seeds = (0..4).flat_map(|e| self.scalar.encode(self.seed(e))).collect();
        let mut fills = vec![Fill::Pattern { buffer: 0, pattern: seeds, bytes }];
        if self.class == Class::Global {
            let args = vec![Arg::Buffer(1), Arg::uint(self.hop())];
            fills.push(Fill::Kernel {
                source: Source::Classes,
                entry: "link",
                defines: defines.clone(),
                args,
                items: self.table_words,
            });
        }
        let [p, q] = self.constants().map(|c| Arg::Value(self.scalar.encode(c)));
        let mut needs = vec![Need::Type(self.scalar)];
        if self.class == Class::Local {
            needs.push(Need::Local(4096));
        }
        let scratch = if self.class == Class::Local { 4096 } else { 16 };
        Job {
            defines,
            needs,
            may_shrink: true,
            buffers: vec![
                bytes,
                if self.class == Class::Global { 4 * self.table_words } else { 64 },
            ],
            fills,
            args: vec![
                Arg::Buffer(0),
                Arg::Buffer(1),
                Arg::Trips,
                p,
                q,
                Arg::uint(self.lanes),
                Arg::Local(scratch),
            ],
            trips: Trips::Lasting(settings.launch_ns()),
            check_trips: 2,
            ..Job::new(Source::Classes, "classes", (self.groups, self.group), move |o| {
                self.compare(o)
            })
        }
    }
}

impl Swept for Variant {
    fn axes(&self) -> &'static [Axis] {
        match self.class {
            Class::Global => &[Axis::Blocks, Axis::Tpb, Axis::Cores, Axis::Lanes, Axis::Size],
            Class::Local => &[Axis::Blocks, Axis::Tpb, Axis::Cores, Axis::Lanes],
            _ => &[Axis::Blocks, Axis::Tpb, Axis::Cores, Axis::Lanes, Axis::Precision],
        }
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let mut at = *self;
        match axis {
            // One group on each of so many units: a device with idle units gives every group its
            // own.
            Axis::Blocks | Axis::Cores => at.groups = super::count(axis, value)?,
            Axis::Tpb => at.group = super::count(axis, value)?,
            Axis::Lanes => at.lanes = super::number(axis, value, 32)? as u32,
            Axis::Size => {
                at.table_words = super::power_of_two(axis, value, 1 << 31)? / 4;
                if at.table_words == 0 {
                    return Err(super::no_value(axis, "a word of 4 bytes or more"));
                }
            }
            _ => {
                at.scalar = super::scalar(axis, value)?;
                if at.scalar == Scalar::Half {
                    return Err("there are no classes of half".to_owned());
                }
            }
        }
        Ok(Rc::new(at))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let measured = bench.measure(&self.job(&bench.settings), true)?;
        let Measured { timing, geometry, .. } = &measured;
        let lanes =
            (0..geometry.group).filter(|l| l % 32 < self.lanes as usize).count() * geometry.groups;
        let instructions = f64::from(geometry.trips) * f64::from(STATEMENTS) * lanes as f64;
        let rate = Figure::new("rate", "Ginstr/s", timing.time_ns.mean.reciprocal(instructions));
        Ok(Gave::of_kernel(measured, vec![rate]))
    }
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let base = Variant::usual(device, settings);
    let mut cases = Vec::new();
    let mut add = |id: String, variant: Variant, extra: Option<(&'static str, usize)>| {
        let mut parameters = BTreeMap::from([
            ("class", json!(variant.class.name())),
            ("type", json!(variant.scalar.name())),
        ]);
        if let Some((axis, value)) = extra {
            parameters.extend([("sweep", json!(axis)), (axis, json!(value))]);
        }
        cases.push(Case::with_axes(id, SUITE.name, Rc::new(variant)).with(parameters));
    };
    for scalar in [Scalar::Int, Scalar::Float, Scalar::Double] {
        for class in [Class::Arithmetic, Class::Division, Class::Special, Class::Other] {
            add(
                format!("classes/{}/{}", scalar.name(), class.name()),
                Variant { class, scalar, ..base },
                None,
            );
        }
    }
    for class in [Class::Global, Class::Local] {
        add(
            format!("classes/memory/{}", class.name()),
            Variant { class, scalar: Scalar::Int, ..base },
            None,
        );
    }
    let units = device.compute_units as usize;
    let mut counts: Vec<usize> = if settings.blocks.len() > 1 {
        settings.blocks.clone()
    } else {
        (1..=4).map(|quarter| (units * quarter / 4).max(1)).collect()
    };
    counts.dedup();
    for groups in counts {
        add(
            format!("classes/groups/{groups}"),
            Variant { groups, ..base },
            Some(("groups", groups)),
        );
    }
    for lanes in [1, 8, 16, 24, 32] {
        add(
            format!("classes/lanes/{lanes}"),
            Variant { lanes, ..base },
            Some(("lanes", lanes as usize)),
        );
    }
    cases.extend(mixture::cases(device, settings));
    cases.push(super::floor_case(SUITE.name, SUITE.name));
    cases
}

/// Watts for each working group and lane.
fn conclude(_: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (axis, what) in [("groups", "working group"), ("lanes", "working lane of 32")] {
        let points = super::points(results, axis, axis, "power");
        if let Some(line) = fit::line(&points, false) {
            let text = format!(
                "power grows by {:.3} W (+-{:.3}) for each {what}, from {:.1} W",
                line.slope.value,
                line.slope.half(),
                line.intercept.value
            );
            let figures = vec![
                Figure::new("slope", "W", line.slope),
                Figure::new("intercept", "W", line.intercept),
            ];
            findings.push(Finding::new(format!("classes/{axis}"), text, figures, "least squares"));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_by_table() {
        let v = |class, scalar| Variant {
            class,
            scalar,
            groups: 1,
            group: 32,
            lanes: 32,
            table_words: 64,
        };
        assert_eq!(v(Class::Arithmetic, Scalar::Float).reference(1.0, 250), 1.0 + 250.0 * 0.25);
        assert!((v(Class::Special, Scalar::Double).reference(1.75, 250) - 1.0).abs() < 1e-12);
        // popcount(2) + 5 = 6, popcount(6) + 3 = 5, then popcount(5) + 5 = 7, popcount(7) + 3 = 6:
        // a fixed point.
        assert_eq!(v(Class::Special, Scalar::Int).reference(2.0, 250), 6.0);
        assert_eq!(v(Class::Global, Scalar::Int).walk(5, 3), (5 + 96) & 63);
    }
}
