//! Dependent products and sums, and loops with one and with two conditions: what a compiler and a
//! device fuse, and how many variables they keep in registers (Matsentidou 2020, chapters 9 to 11).
//! Owns these cases of the suite `structure` and their host references.

use super::{Case, Gave, Swept};
use crate::sweep::{Axis, Value};
use clscope_microbench::bench::{Bench, CaseError, Settings};
use clscope_microbench::cl::ClError;
use clscope_microbench::job::{Arg, Job, Need, Outcome, Scalar, Trips, is_right};
use clscope_microbench::source::Source;
use serde_json::json;
use std::rc::Rc;

/// Numbers of couples of a product and a sum in a turn, as the document has them.
const COUPLES: std::ops::RangeInclusive<usize> = 2..=10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Question {
    /// Couples of a product and a sum that depends on it: type, couples, width.
    Couples(Scalar, usize, usize),
    /// A loop with two conditions joined by AND, or with one.
    Conditions { both: bool },
}

#[derive(Clone, Copy, Debug)]
struct Variant {
    question: Question,
    groups: usize,
    group: usize,
}

/// Where x and y begin in timed launches, and in the checked one. Integers wrap: y is 0 after a few
/// turns, x stays. Floats stay where they are in timed launches, and grow in the checked one.
fn begin(scalar: Scalar) -> [[f64; 2]; 2] {
    match scalar {
        Scalar::Int => [[38.0, 28.0]; 2],
        _ => [[1.0, 0.0], [1.0, 1.0 / 128.0]],
    }
}

/// x + y after so many couples.
fn reference(scalar: Scalar, [x, y]: [f64; 2], steps: u64) -> f64 {
    if scalar == Scalar::Int {
        let (mut x, mut y) = (x as i32, y as i32);
        for _ in 0..steps {
            y = x.wrapping_mul(y);
            x = x.wrapping_add(y);
            if y == 0 {
                break;
            }
        }
        return f64::from(x.wrapping_add(y));
    }
    let (mut x, mut y) = (x, y);
    // Without a y nothing changes any more.
    for _ in 0..if y == 0.0 { 0 } else { steps } {
        y *= x;
        x += y;
    }
    x + y
}

/// One step of the loop with conditions: the generator of the kernel `steps`, whose period is 2^32.
fn step(x: u32) -> u32 {
    x.wrapping_mul(FACTOR).wrapping_add(INCREMENT)
}

/// Of the generator.
const FACTOR: u32 = 1_664_525;
const INCREMENT: u32 = 1_013_904_223;

impl Variant {
    fn compare(self, outcome: &Outcome<'_>) -> Result<Option<String>, ClError> {
        let trips = outcome.geometry.trips;
        let (scalar, width, want, tolerance) = match self.question {
            Question::Conditions { .. } => {
                // Behind 0 the generator is as far from the next 0 as it can be.
                let turns = if trips > 1 << 20 { return Ok(None) } else { trips };
                let want = (0..turns).fold(step(0), |x, _| step(x));
                (Scalar::Int, 1, f64::from(want as i32), 0.0)
            }
            Question::Couples(scalar, couples, width) => {
                let steps = u64::from(trips) * couples as u64;
                let [_, from] = begin(scalar);
                // Each step rounds twice.
                let ulp = match scalar {
                    Scalar::Int => 0.0,
                    Scalar::Half => f64::from(-10).exp2(),
                    Scalar::Float => f64::from(-23).exp2(),
                    Scalar::Double => f64::EPSILON,
                };
                let tolerance = 2.0 * steps as f64 * ulp;
                (scalar, width, reference(scalar, from, steps), tolerance)
            }
        };
        let right = |got: f64| is_right(got, want, tolerance);
        let wrong = super::structure::first_wrong(outcome, scalar, width, right)?;
        Ok(wrong.map(|(e, got)| {
            format!("element {e} is {got} where the host gets {want} after {trips} turns")
        }))
    }

    fn job(self, settings: &Settings) -> Job {
        let items = self.groups * self.group;
        let mut needs = vec![Need::Group(self.group)];
        let mut args = vec![Arg::Buffer(0), Arg::Trips];
        let mut check_args = Vec::new();
        let (entry, defines, bytes) = match self.question {
            Question::Couples(scalar, couples, width) => {
                needs.push(Need::Type(scalar));
                let [timed, checked] = begin(scalar);
                args.extend(timed.map(|c| Arg::Value(scalar.encode(c))));
                check_args = vec![(2, scalar.encode(checked[0])), (3, scalar.encode(checked[1]))];
                let mut defines = scalar.defines(width);
                defines.push(format!("-DCOUPLES={couples}"));
                ("couples", defines, items * width * scalar.bytes())
            }
            Question::Conditions { both } => {
                args.extend([step(0), FACTOR, INCREMENT].map(Arg::uint));
                let mut defines = vec!["-DCONDITIONS".to_owned()];
                if both {
                    defines.push("-DBOTH".to_owned());
                }
                ("conditions", defines, 4 * items)
            }
        };
        Job {
            defines,
            needs,
            buffers: vec![bytes],
            args,
            trips: Trips::Lasting(settings.launch_ns()),
            check_trips: 2,
            check_args,
            ..Job::new(Source::Structure, entry, (self.groups, self.group), move |o| {
                self.compare(o)
            })
        }
    }
}

impl Swept for Variant {
    fn axes(&self) -> &'static [Axis] {
        match self.question {
            Question::Couples(..) => &[Axis::Blocks, Axis::Tpb, Axis::Width, Axis::Precision],
            Question::Conditions { .. } => &[Axis::Blocks, Axis::Tpb],
        }
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let mut at = *self;
        match (axis, &mut at.question) {
            (Axis::Blocks, _) => at.groups = super::count(axis, value)?,
            (Axis::Tpb, _) => at.group = super::count(axis, value)?,
            (Axis::Width, Question::Couples(_, _, width)) => *width = super::width(axis, value)?,
            (Axis::Precision, Question::Couples(scalar, ..)) => {
                *scalar = super::scalar(axis, value)?;
            }
            _ => return Err(super::no_value(axis, "none of its axes")),
        }
        Ok(Rc::new(at))
    }

    /// The time of a turn for each couple; of loops with conditions, the time of a turn.
    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let measured = bench.measure(&self.job(&bench.settings), false)?;
        let each = match self.question {
            Question::Couples(_, couples, _) => couples as f64,
            Question::Conditions { .. } => 1.0,
        };
        Ok(super::structure::each_statement(measured, each))
    }
}

/// One group of one work-item, as in the document.
pub(super) fn cases() -> Vec<Case> {
    let case = |id: String, question| {
        let variant = Variant { question, groups: 1, group: 1 };
        Case::with_axes(format!("structure/{id}"), super::structure::SUITE.name, Rc::new(variant))
    };
    let couples = COUPLES.map(|n| {
        let parameters = [("couples", json!(n))];
        case(format!("couples/{n}"), Question::Couples(Scalar::Int, n, 1)).with(parameters)
    });
    let conditions = [("one", false), ("both", true)]
        .map(|(name, both)| case(format!("conditions/{name}"), Question::Conditions { both }));
    couples.chain(conditions).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_by_table() {
        // x = 38, y = 28: y = 1064, x = 1102; y = 1172528, x = 1173630.
        assert_eq!(reference(Scalar::Int, [38.0, 28.0], 1), 1064.0 + 1102.0);
        assert_eq!(reference(Scalar::Int, [38.0, 28.0], 2), 1_172_528.0 + 1_173_630.0);
        // Every product with the even x adds a factor 2 to y, which ends as 0; x stays above.
        let long = reference(Scalar::Int, [38.0, 28.0], 1 << 40);
        assert!(long != 0.0 && long == reference(Scalar::Int, [38.0, 28.0], 64));
        assert_eq!(reference(Scalar::Float, [1.0, 0.0], u64::MAX), 1.0);
        assert_eq!(reference(Scalar::Double, [1.0, 0.5], 2), 0.75 + 2.25);
        let grown = reference(Scalar::Half, begin(Scalar::Half)[1], 20);
        assert!((1.2..4.0).contains(&grown), "{grown} stays far from the ends of half");
    }
}
