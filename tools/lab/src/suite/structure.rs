//! The structure of a device (kernels/structure.cl): how time changes with groups, group sizes,
//! vectors, live variables and sharing. Owns the sweeps, their host references, and the change
//! points that are read from them (Matsentidou 2020, chapters 7 to 12).

mod findings;

use super::{Case, Gave, Suite, Swept};
use crate::sweep::{Axis, Value};
use clscope_microbench::bench::{Bench, CaseError, Measured, Settings};
use clscope_microbench::change::{self, Change};
use clscope_microbench::cl::{ClError, DeviceFacts, DeviceKind};
use clscope_microbench::job::{Arg, Check, Fill, Job, Need, Outcome, Scalar, Trips};
use clscope_microbench::results::{CaseResult, Figure, Finding};
use clscope_microbench::source::Source;
use clscope_microbench::stats::Interval;
use clscope_microbench::suite::memory::filled;
use findings::conclude;
use serde_json::json;
use std::rc::Rc;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "structure",
    about: "pipeline depth, cores, saw-tooth, fusion, vector units, registers, store and load delay, races",
    wants_power: false,
    cases,
    conclude,
};

/// A question: one kernel at one place of a sweep.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Question {
    /// Groups of this size, so many of them.
    Steps,
    /// Independent products and sums: (pairs, width, split).
    Pairs(Scalar, usize, usize, bool),
    /// So many live variables.
    Registers(usize),
    Store,
    Load,
    /// Words between groups, words between items.
    AddOnes(usize, usize),
}

#[derive(Clone, Copy, Debug)]
struct Variant {
    question: Question,
    groups: usize,
    group: usize,
}

impl Variant {
    /// Statements of one turn of an item's loop.
    fn statements(&self) -> f64 {
        match self.question {
            Question::Steps => 16.0,
            Question::Pairs(_, pairs, _, _) => 8.0 * pairs as f64,
            Question::Registers(live) => live as f64,
            Question::Store | Question::Load | Question::AddOnes(..) => 1.0,
        }
    }

    fn check(self) -> Check {
        Box::new(move |outcome| self.compare(outcome))
    }

    fn compare(&self, outcome: &Outcome<'_>) -> Result<Option<String>, ClError> {
        let items = outcome.geometry.items();
        let trips = outcome.geometry.trips;
        if let Question::Pairs(scalar, pairs, width, split) = self.question {
            return pairs_compare(outcome, scalar, pairs, width, split);
        }
        let some = items.min(4096);
        let length = match self.question {
            Question::AddOnes(gap, spread) => {
                (self.groups - 1) * gap + (self.group - 1) * spread + 1
            }
            _ => some,
        };
        let words = outcome.words(0, 0, length)?;
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        for i in 0..some {
            let (at, want) = match self.question {
                Question::Steps if trips > 4096 => continue,
                Question::Steps => (
                    i,
                    (0..16 * trips)
                        .fold(i as u32 + 1, |x, _| (x ^ 0x9e37_79b9).wrapping_mul(1_664_525)),
                ),
                Question::Registers(live) if trips > 256 && live > 0 => continue,
                Question::Registers(live) => (i, registers(i as u32, live, trips)),
                Question::Store => (i, trips - 1),
                Question::Load => (i, i as u32),
                Question::AddOnes(gap, spread) => {
                    let at = (i / self.group) * gap + (i % self.group) * spread;
                    let got = word(at);
                    let shared = gap == 0 && self.groups > 1 || spread == 0 && self.group > 1;
                    // Lost additions are what a race does; more than all of them, or none, is
                    // wrong.
                    let right = if shared {
                        got >= 1 && u64::from(got) <= u64::from(trips) * items as u64
                    } else {
                        got == trips
                    };
                    if right {
                        continue;
                    }
                    (at, trips)
                }
                Question::Pairs(..) => continue,
            };
            if word(at) != want {
                return Ok(Some(format!(
                    "word {at} is {} where the host gets {want} after {trips} turns",
                    word(at)
                )));
            }
        }
        Ok(None)
    }

    fn job(self, settings: &Settings) -> Job {
        let items = self.groups * self.group;
        let mut defines = Vec::new();
        let mut needs = vec![Need::Group(self.group)];
        let mut args = vec![Arg::Buffer(0), Arg::Trips];
        let mut bytes = 4 * items;
        let mut fills = Vec::new();
        let entry = match self.question {
            Question::Steps => "steps",
            Question::Pairs(scalar, pairs, width, split) => {
                needs.push(Need::Type(scalar));
                defines = scalar.defines(width);
                defines.push(format!("-DPAIRS={pairs}"));
                if split {
                    defines.push("-DSPLIT".to_owned());
                }
                bytes = items * width * scalar.bytes();
                let (p, q) = constants(scalar);
                args.extend([Arg::Value(scalar.encode(p)), Arg::Value(scalar.encode(q))]);
                "pairs"
            }
            Question::Registers(live) => {
                defines.push(format!("-DLIVE={live}"));
                args.push(Arg::uint(3));
                "registers"
            }
            Question::Store => "store",
            Question::Load => {
                // Every word leads to itself: the load is dependent and stays in the nearest cache.
                fills.push(filled("own", 0, items));
                "load"
            }
            Question::AddOnes(gap, spread) => {
                bytes = 4 * ((self.groups - 1) * gap + (self.group - 1) * spread + 1);
                fills.push(Fill::Pattern { buffer: 0, pattern: vec![0; 4], bytes });
                args.extend([Arg::uint(gap as u32), Arg::uint(spread as u32)]);
                "add_ones"
            }
        };
        Job {
            defines,
            needs,
            buffers: vec![bytes],
            fills,
            args,
            trips: Trips::Lasting(settings.launch_ns()),
            check_trips: 3,
            ..Job::new(Source::Structure, entry, (self.groups, self.group), self.check())
        }
    }
}

/// The factor and the addend of the pairs: 1 and 0.25, so that floats count their steps; small odd
/// numbers for integers.
fn constants(scalar: Scalar) -> (f64, f64) {
    if scalar == Scalar::Int { (3.0, 5.0) } else { (1.0, 0.25) }
}

fn pairs_compare(
    outcome: &Outcome<'_>,
    scalar: Scalar,
    pairs: usize,
    width: usize,
    split: bool,
) -> Result<Option<String>, ClError> {
    let steps = 8 * u64::from(outcome.geometry.trips);
    // Beyond 2^20 quarter steps single precision rounds, and only the short launch is compared.
    if steps > 1 << 16 {
        return Ok(None);
    }
    let (p, q) = constants(scalar);
    let want = if scalar == Scalar::Int {
        let (p, q) = (p as i32, q as i32);
        let sum = (0..pairs as i32).fold(0i32, |sum, k| {
            let (mut x, mut y) = (k + 1, k + 2);
            for _ in 0..steps {
                x = x.wrapping_mul(p);
                if split { y = y.wrapping_add(q) } else { x = x.wrapping_add(q) }
            }
            sum.wrapping_add(x).wrapping_add(if split { y } else { 0 })
        });
        f64::from(sum)
    } else {
        (0..pairs)
            .map(|k| (k + 1) as f64 + if split { (k + 2) as f64 } else { 0.0 } + q * steps as f64)
            .sum()
    };
    let wrong = first_wrong(outcome, scalar, width, |got| got == want)?;
    Ok(wrong.map(|(e, got)| {
        format!("element {e} is {got} where the host gets {want} after {steps} steps")
    }))
}

/// The first element that is not `right`, of at most 4096, with its place.
pub(super) fn first_wrong(
    outcome: &Outcome<'_>,
    scalar: Scalar,
    width: usize,
    right: impl Fn(f64) -> bool,
) -> Result<Option<(usize, f64)>, ClError> {
    let elements = (outcome.geometry.items() * width).min(4096);
    let bytes = outcome.read(0, 0, elements * scalar.bytes())?;
    let got = bytes.chunks_exact(scalar.bytes()).map(|b| scalar.decode(b).unwrap_or(f64::NAN));
    Ok(got.enumerate().find(|(_, got)| !right(*got)))
}

fn registers(i: u32, live: usize, trips: u32) -> u32 {
    let mut x: Vec<u32> = (0..live as u32).map(|k| i.wrapping_add(k)).collect();
    for _ in 0..trips {
        for k in 0..live {
            x[k] = x[k].wrapping_mul(3).wrapping_add(x[(k + 1) % live]);
        }
    }
    x.into_iter().fold(0, u32::wrapping_add)
}

impl Swept for Variant {
    fn axes(&self) -> &'static [Axis] {
        match self.question {
            Question::Pairs(..) => &[Axis::Blocks, Axis::Tpb, Axis::Width, Axis::Precision],
            Question::AddOnes(..) => &[Axis::Cores],
            _ => &[Axis::Blocks, Axis::Tpb],
        }
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let mut at = *self;
        match (axis, &mut at.question) {
            (Axis::Blocks, _) => at.groups = super::count(axis, value)?,
            (Axis::Tpb, _) => at.group = super::count(axis, value)?,
            (Axis::Width, Question::Pairs(_, _, width, _)) => *width = super::width(axis, value)?,
            (Axis::Precision, Question::Pairs(scalar, ..)) => *scalar = super::scalar(axis, value)?,
            (_, Question::AddOnes(gap, spread)) => {
                // With words between items, those of a neighbouring group fall between them only up
                // to as many groups.
                let most = if *gap > 0 && *gap < *spread { *spread } else { 1 << 12 };
                super::count(axis, value)?;
                at.groups = super::number(axis, value, most)?;
            }
            _ => return Err(super::no_value(axis, "none of its axes")),
        }
        Ok(Rc::new(at))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let measured = bench.measure(&self.job(&bench.settings), false)?;
        Ok(each_statement(measured, self.statements()))
    }
}

/// The time of a statement, of so many in a turn, and the private memory of an item.
pub(super) fn each_statement(measured: Measured, statements: f64) -> Gave {
    let Measured { timing, geometry, .. } = &measured;
    let each = timing.time_ns.mean.times(1.0 / (f64::from(geometry.trips) * statements));
    let mut figures = vec![Figure::new("time_per_statement", "ns", each)];
    if let Some(bytes) = timing.private_bytes {
        figures.push(Figure::known("private_bytes", "B", bytes as f64));
    }
    Gave::of_kernel(measured, figures)
}

/// About `count` whole numbers from 1 to `last`, all of them where they are few.
fn walk(last: usize, count: usize) -> Vec<usize> {
    let step = last.div_ceil(count).max(1);
    let mut all: Vec<usize> = (1..=last).step_by(step).collect();
    if all.last() != Some(&last) {
        all.push(last);
    }
    all
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let units = device.compute_units as usize;
    let lane = device.nv_warp.unwrap_or(32) as usize;
    let fine = match (settings.tiny, settings.full) {
        (true, _) => 4,
        (_, true) => 256,
        _ => 40,
    };
    let mut cases = Vec::new();
    let mut add = |sweep: &'static str, at: usize, label: String, variant: Variant| {
        let parameters = [("sweep", json!(sweep)), ("at", json!(at))];
        let id = format!("structure/{sweep}/{label}");
        cases.push(Case::with_axes(id, SUITE.name, Rc::new(variant)).with(parameters));
    };
    // GPUs keep 16 or 32 groups on a unit: far enough to see them full, and more than once.
    let last = if device.kind == DeviceKind::Gpu { 72 * units } else { (3 * units + 2).max(72) };
    let all_groups =
        if settings.blocks.is_empty() { walk(last, fine) } else { settings.blocks.clone() };
    for &groups in &all_groups {
        add(
            "groups",
            groups,
            groups.to_string(),
            Variant { question: Question::Steps, groups, group: 1 },
        );
    }
    // Full groups, near the rounds of the units: where the saw-tooth jumps.
    let full = 256.min(device.max_group);
    let mut rounds: Vec<usize> = walk(4 * units + 1, fine);
    rounds.extend((1..=4).flat_map(|r| [r * units, r * units + 1]));
    rounds.sort_unstable();
    rounds.dedup();
    for &groups in &rounds {
        add(
            "waves",
            groups,
            groups.to_string(),
            Variant { question: Question::Steps, groups, group: full },
        );
    }
    for group in walk(device.max_group.min(1024), fine) {
        add(
            "group_size",
            group,
            group.to_string(),
            Variant { question: Question::Steps, groups: 1, group },
        );
    }
    for scalar in [Scalar::Float, Scalar::Int] {
        // Independent integer products and sums would fold: a compiler may take eight of them at
        // once.
        for split in if scalar == Scalar::Float { &[false, true][..] } else { &[false] } {
            let (name, word) = match (scalar, split) {
                (Scalar::Float, false) => ("fused_float", "float"),
                (Scalar::Float, true) => ("split_float", "float"),
                _ => ("fused_int", "int"),
            };
            for pairs in [1, 2, 3, 4, 6, 8] {
                let question = Question::Pairs(scalar, pairs, 1, *split);
                add(
                    name,
                    pairs,
                    format!("{word}{pairs}"),
                    Variant { question, groups: 1, group: lane.min(device.max_group) },
                );
            }
        }
        let name = if scalar == Scalar::Float { "vector_float" } else { "vector_int" };
        for width in [1, 2, 4, 8, 16] {
            let question = Question::Pairs(scalar, 1, width, false);
            add(name, width, width.to_string(), Variant { question, groups: 1, group: 1 });
        }
    }
    for live in [2, 4, 8, 12, 16, 17, 18, 24, 32, 48, 64, 96, 128, 160, 192, 224, 248, 256] {
        if settings.tiny && live > 18 {
            continue;
        }
        add(
            "registers",
            live,
            live.to_string(),
            Variant {
                question: Question::Registers(live),
                groups: 1,
                group: lane.min(device.max_group),
            },
        );
    }
    for groups in [1, 64] {
        add(
            "store",
            groups,
            groups.to_string(),
            Variant { question: Question::Store, groups, group: 1 },
        );
        add(
            "load",
            groups,
            groups.to_string(),
            Variant { question: Question::Load, groups, group: 1 },
        );
    }
    let group = lane.min(device.max_group);
    for (label, gap, spread) in [
        ("shared_word", 0, 0),
        ("shared_in_group", 1, 0),
        ("neighbours", group, 1),
        ("same_line_between_groups", 1, 16),
        ("apart", 64 * group, 64),
    ] {
        // With 16 words between items a neighbouring group's words fall between them only up to 16
        // groups.
        let groups = if label == "same_line_between_groups" { units.min(16) } else { units };
        add(
            "sharing",
            gap,
            label.to_owned(),
            Variant { question: Question::AddOnes(gap, spread), groups, group },
        );
    }
    cases.extend(super::couples::cases());
    cases
}
