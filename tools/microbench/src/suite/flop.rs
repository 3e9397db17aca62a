//! Arithmetic throughput (kernels/flop.cl): four shapes, five widths, six operations, four types.
//! Owns the variants, their host references and the counting of operations.

use super::{Case, Gave, Suite, Swept, geometry};
use crate::bench::{Bench, CaseError, Measured, Settings};
use crate::cl::{ClError, DeviceFacts};
use crate::half;
use crate::job::{Arg, Fill, Job, Need, Outcome, Scalar, Trips, is_right};
use crate::results::{CaseResult, Figure, Finding};
use crate::source::Source;
use crate::sweep::{Axis, Value};
use serde_json::json;
use std::rc::Rc;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "flop",
    about: "arithmetic throughput by shape, operation, type and SIMD width",
    wants_power: true,
    cases,
    conclude,
};

/// Statements of one turn of the kernels' loops.
pub const STATEMENTS: u32 = 64;

/// The operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// x + k.
    Add,
    /// x - k.
    Sub,
    /// x * k.
    Mul,
    /// k / x.
    Div,
    /// x * p + q, not fused.
    Mad,
    /// fma(x, p, q).
    Fma,
}

/// All, with their names in case ids.
const OPS: [(Op, &str); 6] = [
    (Op::Fma, "fma"),
    (Op::Mad, "mad"),
    (Op::Add, "add"),
    (Op::Sub, "sub"),
    (Op::Mul, "mul"),
    (Op::Div, "div"),
];

impl Op {
    /// Its name in case ids.
    pub fn name(self) -> &'static str {
        super::name_in(&OPS, self)
    }

    /// Operations that a statement counts for.
    pub fn operations(self) -> f64 {
        if matches!(self, Op::Mad | Op::Fma) { 2.0 } else { 1.0 }
    }

    /// The constants of timed launches and of the checked one, which must tell how many steps were
    /// made.
    fn constants(self, scalar: Scalar) -> ([f64; 2], [f64; 2]) {
        match (self, scalar) {
            (Op::Mad, Scalar::Int) => ([3.0, 1.0], [3.0, 1.0]),
            (Op::Div, Scalar::Int) => (
                [f64::from(1 << 30), f64::from((1 << 30) + 12345)],
                [f64::from(1 << 30), f64::from((1 << 30) + 12345)],
            ),
            (Op::Add | Op::Sub | Op::Mul, Scalar::Int) => ([5.0, 3.0], [5.0, 3.0]),
            (Op::Add | Op::Sub, _) => ([0.5, -0.25], [0.5, -0.25]),
            (Op::Mul, _) => ([1.25, 0.8], [1.25, 0.8]),
            (Op::Div, _) => ([1.5, 1.5], [1.5, 1.5 + 1.0 / 64.0]),
            // 0.5 and 1.0: every start tends to 2. With 1 and 0.25 the result counts the steps.
            (Op::Mad | Op::Fma, _) => ([0.5, 1.0], [1.0, 0.25]),
        }
    }
}

/// The shapes of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One statement.
    Single,
    /// A loop over global memory.
    Loop,
    /// The same, 64 statements a turn.
    Unroll,
    /// 64 statements a turn on a private variable.
    Private,
}

/// All, with their names in case ids.
const SHAPES: [(Shape, &str); 4] = [
    (Shape::Private, "private"),
    (Shape::Unroll, "unroll"),
    (Shape::Loop, "loop"),
    (Shape::Single, "single"),
];

impl Shape {
    /// Its name in case ids.
    pub fn name(self) -> &'static str {
        super::name_in(&SHAPES, self)
    }
}

/// One variant of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// The shape.
    pub shape: Shape,
    /// The type.
    pub scalar: Scalar,
    /// The operation.
    pub op: Op,
    /// Elements of a vector.
    pub width: usize,
}

/// Rounds to the type after every operation, as the device does.
fn rounded(scalar: Scalar, value: f64) -> f64 {
    match scalar {
        Scalar::Half => half::to_f64(half::from_f64(value)),
        Scalar::Float => f64::from(value as f32),
        Scalar::Double | Scalar::Int => value,
    }
}

impl Variant {
    /// Its name.
    pub fn id(&self) -> String {
        let width =
            if self.width == 1 { "scalar".to_owned() } else { format!("vect{}", self.width) };
        format!("flop/{}/{}/{}/{width}", self.shape.name(), self.scalar.name(), self.op.name())
    }

    /// Operations of one work-item in `trips` turns.
    pub fn operations(&self, trips: u32) -> f64 {
        let statements = if self.shape == Shape::Single {
            1.0
        } else {
            f64::from(trips) * f64::from(STATEMENTS)
        };
        statements * self.op.operations() * self.width as f64
    }

    /// fma() is for floating point; the compiler may fold a loop of integer sums over memory.
    fn exists(&self) -> bool {
        self.scalar != Scalar::Int
            || self.op != Op::Fma && (self.shape == Shape::Private || self.op == Op::Mad)
    }

    /// Starting value of element `e`.
    fn seed(&self, e: usize) -> f64 {
        match self.scalar {
            Scalar::Int => (2 + e % 4) as f64,
            _ => 1.0 + 0.25 * (e % 4) as f64,
        }
    }

    /// What the statements make of `seed` on the host: exact but for division.
    pub fn reference(&self, seed: f64, trips: u32, constants: [f64; 2]) -> f64 {
        let steps =
            if self.shape == Shape::Single { 1 } else { u64::from(trips) * u64::from(STATEMENTS) };
        if self.scalar == Scalar::Int {
            return f64::from(self.integer(seed as i32, steps, constants.map(|c| c as i32)));
        }
        let [p, q] = constants.map(|c| rounded(self.scalar, c));
        let round = |v| rounded(self.scalar, v);
        let private = self.shape == Shape::Private;
        // In the other shapes the second operand comes from memory, where every element is 1.
        let mut x = seed;
        for step in 0..steps {
            let k = if !private {
                1.0
            } else if step % 2 == 0 {
                p
            } else {
                q
            };
            let addend = if private { q } else { 1.0 };
            x = match self.op {
                Op::Add => round(x + k),
                Op::Sub => round(x - k),
                Op::Mul => round(x * k),
                Op::Div => round(if private { k / x } else { x / k }),
                Op::Mad => round(round(x * p) + addend),
                Op::Fma => match self.scalar {
                    Scalar::Float => f64::from((x as f32).mul_add(p as f32, addend as f32)),
                    Scalar::Double => x.mul_add(p, addend),
                    _ => round(x * p + addend),
                },
            };
        }
        x
    }

    fn integer(&self, seed: i32, steps: u64, [p, q]: [i32; 2]) -> i32 {
        let (mut x, mut y) = (seed, q);
        for step in 0..steps {
            let even = step % 2 == 0;
            match self.op {
                Op::Mad | Op::Fma => {
                    x = x.wrapping_mul(p).wrapping_add(if self.shape == Shape::Private {
                        q
                    } else {
                        1
                    })
                }
                Op::Div if self.shape == Shape::Private => {
                    x = (if even { p } else { q }).wrapping_div(x.max(1))
                }
                // The loops over memory take 1 from memory.
                Op::Div => {}
                _ if self.shape != Shape::Private => {
                    x = match self.op {
                        Op::Add => x.wrapping_add(1),
                        Op::Sub => x.wrapping_sub(1),
                        _ => x,
                    };
                }
                op => {
                    let apply = |a: i32, b: i32| match op {
                        Op::Add => a.wrapping_add(b),
                        Op::Sub => a.wrapping_sub(b),
                        _ => a.wrapping_mul(b),
                    };
                    if even { y = apply(y, x) } else { x = apply(x, y) }
                }
            }
        }
        x
    }

    fn compare(
        &self,
        outcome: &Outcome<'_>,
        constants: [f64; 2],
    ) -> Result<Option<String>, ClError> {
        let trips = outcome.geometry.trips;
        let steps = self.operations(trips) / self.width as f64;
        let size = self.scalar.bytes();
        let elements = outcome.geometry.items() * self.width;
        let exact = self.op != Op::Div || self.scalar == Scalar::Int;
        let seeds: Vec<f64> = (0..4).map(|e| self.seed(e)).collect();
        let wanted: Vec<f64> = seeds.iter().map(|&s| self.reference(s, trips, constants)).collect();
        // 2.5 ulp a step (OpenCL C, table of relative errors), which the alternation of k / x keeps
        // from growing faster.
        let tolerance = if exact { 0.0 } else { 2.5 * steps * ulp(self.scalar) };
        // Pieces from the front, the middle and the end; a small result whole.
        const PIECE: usize = 1 << 21;
        let total = elements * size;
        let starts = if total <= 3 * PIECE {
            vec![0]
        } else {
            vec![0, total / 2 / 128 * 128, total - PIECE]
        };
        let length = if starts.len() == 1 { total } else { PIECE };
        for start in starts {
            let piece = outcome.read(0, start, length)?;
            for (k, bytes) in piece.chunks_exact(size).enumerate() {
                let e = start / size + k;
                let (got, want) = (self.scalar.decode(bytes).unwrap_or(f64::NAN), wanted[e % 4]);
                if !is_right(got, want, tolerance) {
                    return Ok(Some(format!(
                        "element {e} is {got} where the host gets {want} after {steps} statements from {}",
                        self.seed(e)
                    )));
                }
            }
        }
        Ok(None)
    }

    /// The job that measures it.
    pub fn job(self, groups: usize, group: usize, settings: &Settings) -> Job {
        let bytes = groups * group * self.width * self.scalar.bytes();
        let mut defines = self.scalar.defines(self.width);
        defines.push(format!("-DOP_{}", self.op.name().to_uppercase()));
        defines.push(format!("-DSHAPE_{}", self.shape.name().to_uppercase()));
        let mut needs = vec![Need::Type(self.scalar)];
        if self.op == Op::Fma && self.scalar == Scalar::Float {
            needs.push(Need::Fma);
        }
        let seeds: Vec<u8> = (0..4).flat_map(|e| self.scalar.encode(self.seed(e))).collect();
        let mut fills = vec![Fill::Pattern { buffer: 0, pattern: seeds, bytes }];
        let private = self.shape == Shape::Private;
        if !private {
            fills.push(Fill::Pattern { buffer: 1, pattern: self.scalar.encode(1.0), bytes });
        }
        let (timed, checked) = self.op.constants(self.scalar);
        let encode = |c: f64| self.scalar.encode(c);
        let single = self.shape == Shape::Single;
        let check_trips = if single { 1 } else { 3 };
        Job {
            defines,
            needs,
            may_shrink: true,
            buffers: vec![bytes, if private { self.width * 8 } else { bytes }],
            fills,
            args: vec![
                Arg::Buffer(0),
                Arg::Buffer(1),
                Arg::Trips,
                Arg::Value(encode(timed[0])),
                Arg::Value(encode(timed[1])),
            ],
            trips: if single { Trips::Fixed(1) } else { Trips::Lasting(settings.launch_ns()) },
            check_trips,
            check_args: vec![(3, encode(checked[0])), (4, encode(checked[1]))],
            ..Job::new(Source::Flop, "flop", (groups, group), move |o| self.compare(o, checked))
        }
    }
}

fn ulp(scalar: Scalar) -> f64 {
    match scalar {
        Scalar::Half => f64::from(-10).exp2(),
        Scalar::Float => f64::from(-23).exp2(),
        _ => f64::EPSILON,
    }
}

/// A variant at a geometry; with power or without.
#[derive(Clone, Copy)]
pub struct Launched {
    /// What is launched.
    pub variant: Variant,
    /// Work-groups.
    pub groups: usize,
    /// Work-items of a group.
    pub group: usize,
    /// Whether power is watched.
    pub power: bool,
}

impl Swept for Launched {
    fn axes(&self) -> &'static [Axis] {
        &[Axis::Blocks, Axis::Tpb, Axis::Width, Axis::Precision]
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let mut at = *self;
        match axis {
            Axis::Blocks => at.groups = super::count(axis, value)?,
            Axis::Tpb => at.group = super::count(axis, value)?,
            Axis::Width => at.variant.width = super::width(axis, value)?,
            _ => {
                at.variant.scalar = super::scalar(axis, value)?;
                if !at.variant.exists() {
                    let (op, shape) = (at.variant.op.name(), at.variant.shape.name());
                    return Err(format!("{op} in the shape {shape} is of floating point alone"));
                }
            }
        }
        Ok(Rc::new(at))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let Launched { variant, groups, group, power } = *self;
        let measured = bench.measure(&variant.job(groups, group, &bench.settings), power)?;
        let Measured { timing, geometry, .. } = &measured;
        let operations = variant.operations(geometry.trips) * geometry.items() as f64;
        let unit = if variant.scalar == Scalar::Int { "GOP/s" } else { "GFLOP/s" };
        let rate = Figure::new("rate", unit, timing.time_ns.mean.reciprocal(operations));
        Ok(Gave::of_kernel(measured, vec![rate]))
    }
}

fn variants(settings: &Settings) -> Vec<Variant> {
    let mut variants = Vec::new();
    for (shape, _) in SHAPES {
        for scalar in Scalar::ALL {
            for (op, _) in OPS {
                for width in [1, 2, 4, 8, 16] {
                    let quick = match shape {
                        // The ceilings over all widths; every other operation once.
                        Shape::Private => {
                            matches!(op, Op::Fma | Op::Mad) && matches!(width, 1 | 4)
                                || width == 1
                                || op == Op::Fma && scalar != Scalar::Int
                        }
                        _ => width == 1 && op == Op::Mad && scalar == Scalar::Float,
                    };
                    let variant = Variant { shape, scalar, op, width };
                    if variant.exists() && (settings.full || settings.tiny || quick) {
                        variants.push(variant);
                    }
                }
            }
        }
    }
    variants
}

/// The numbers of work-groups of the sweep: every one up to three rounds of the compute units, if
/// the user names none.
fn sweep(device: &DeviceFacts, settings: &Settings) -> Vec<usize> {
    if settings.blocks.len() > 1 {
        return settings.blocks.clone();
    }
    if settings.tiny || !settings.blocks.is_empty() {
        return Vec::new();
    }
    let units = device.compute_units as usize;
    let last = 3 * units + 2;
    let step = if settings.full { 1 } else { last.div_ceil(48) };
    // Quick: a coarse walk, and both sides of every round, where the saw-tooth falls.
    let mut groups: Vec<usize> = (1..=last)
        .step_by(step)
        .chain((1..=3).flat_map(|round| [round * units, round * units + 1]))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let (groups, group) = geometry(device, settings);
    let mut cases = Vec::new();
    for variant in variants(settings) {
        let parameters = [
            ("shape", json!(variant.shape.name())),
            ("type", json!(variant.scalar.name())),
            ("operation", json!(variant.op.name())),
            ("width", json!(variant.width)),
        ];
        let launched = Launched { variant, groups, group, power: false };
        cases.push(Case::with_axes(variant.id(), SUITE.name, Rc::new(launched)).with(parameters));
    }
    let variant = Variant { shape: Shape::Private, scalar: Scalar::Float, op: Op::Mad, width: 1 };
    let sizes = if settings.tpb.len() > 1 { settings.tpb.clone() } else { vec![group] };
    for group in sizes {
        for groups in sweep(device, settings) {
            let parameters = [
                ("sweep", json!("groups")),
                ("groups", json!(groups)),
                ("group_size", json!(group)),
            ];
            let launched = Launched { variant, groups, group, power: false };
            let id = format!("flop/sweep/{group}/{groups}");
            cases.push(Case::with_axes(id, SUITE.name, Rc::new(launched)).with(parameters));
        }
    }
    cases
}

/// The best of each type, and the saw-tooth.
fn conclude(device: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for scalar in Scalar::ALL {
        // A single statement is a test of memory and overheads, not of arithmetic.
        let of_type = results.iter().filter(|r| {
            r.parameter("type") == Some(scalar.name()) && r.parameter("shape") != Some("single")
        });
        if let Some((case, rate)) = super::best(of_type, "rate") {
            let text = format!(
                "best {} rate {:.1} {} ({})",
                scalar.name(),
                rate.estimate.value,
                rate.unit,
                case.id
            );
            let figures = vec![rate.clone()];
            findings.push(Finding::new(
                format!("flop/best/{}", scalar.name()),
                text,
                figures,
                "largest mean",
            ));
        }
    }
    let times = super::points(results, "groups", "groups", "rate");
    let every = times.windows(2).all(|w| w[1].0 - w[0].0 == 1.0);
    if let Some(found) = every.then(|| crate::change::period(&times)).flatten() {
        let text = format!(
            "throughput over work-groups repeats every {} groups; the device states {} compute units",
            found.after, device.compute_units
        );
        let period = Figure::known("period", "groups", found.after);
        findings.push(Finding {
            name: "flop/saw_tooth".to_owned(),
            text,
            figures: vec![period],
            confidence: Some(found.confidence),
            method: "autocorrelation of differences against shuffled ones",
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_by_table() {
        let v = |shape, scalar, op| Variant { shape, scalar, op, width: 1 };
        let p = Shape::Private;
        let table = [
            (v(p, Scalar::Float, Op::Mad), 1.0, [0.5, 1.0], 2.0),
            (v(p, Scalar::Float, Op::Fma), 1.0, [1.0, 0.25], 17.0),
            (v(p, Scalar::Double, Op::Add), 1.0, [0.5, -0.25], 9.0),
            (v(p, Scalar::Half, Op::Sub), 1.0, [0.5, -0.25], -7.0),
            (v(Shape::Single, Scalar::Float, Op::Div), 1.5, [2.0, 2.0], 1.5),
            (v(Shape::Loop, Scalar::Double, Op::Add), 1.0, [0.5, 0.5], 65.0),
        ];
        for (variant, seed, constants, want) in table {
            assert_eq!(variant.reference(seed, 1, constants), want, "{}", variant.id());
        }
        // Fibonacci, modulo 2^32: x and y feed each other 64 times.
        let fibonacci = v(p, Scalar::Int, Op::Add).reference(1.0, 1, [0.0, 0.0]);
        let (mut a, mut b) = (1u32, 0u32);
        for _ in 0..32 {
            b = b.wrapping_add(a);
            a = a.wrapping_add(b);
        }
        assert_eq!(fibonacci, f64::from(a as i32));
        // A product that is not exact is rounded before the sum, where it is not fused.
        let of = |op| v(p, Scalar::Float, op).reference(1.0, 1, [1.1, 0.7]);
        assert_ne!(of(Op::Mad), of(Op::Fma));
    }

    #[test]
    fn operations_are_counted() {
        let v = Variant { shape: Shape::Private, scalar: Scalar::Float, op: Op::Fma, width: 4 };
        assert_eq!(v.operations(10), 10.0 * 64.0 * 2.0 * 4.0);
        assert_eq!(Variant { shape: Shape::Single, op: Op::Div, ..v }.operations(10), 4.0);
    }

    #[test]
    fn variants_are_unique_and_complete() {
        let all = variants(&Settings { full: true, ..Settings::default() });
        let mut ids: Vec<String> = all.iter().map(Variant::id).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), all.len());
        // Three float types in everything; int in five private operations and in mad for the rest.
        assert_eq!(all.len(), 3 * 4 * 6 * 5 + 5 * (5 + 3));
    }
}
