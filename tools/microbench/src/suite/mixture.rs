//! Mixtures of classes in one kernel, five pairs of statements each, and an application of
//! transfers, launches and rests (Piispanen 2014, chapter 6): what an energy model is judged by, and
//! what draws most. Owns the choice of mixtures and their host reference; the chains are those of
//! [`super::classes`].

use super::classes::{Class, STATEMENTS, SUITE, Variant};
use super::{Case, Gave, Swept};
use crate::bench::{Bench, CaseError, Settings};
use crate::cl::{ClError, DeviceFacts};
use crate::job::{Arg, Fill, Job, Need, Outcome, Scalar, Trips, is_right};
use crate::power::Window;
use crate::results::Figure;
use crate::source::Source;
use crate::sweep::{Axis, Value};
use clscope_clock::monotonic_raw;
use serde_json::json;
use std::rc::Rc;
use std::time::Duration;

/// The kinds of statements of table 6.1, in the order in which a kernel stores their chains: type
/// and class, as in the names of cases.
pub const KINDS: [&str; 14] = [
    "int/arithmetic",
    "int/division",
    "int/special",
    "int/other",
    "float/arithmetic",
    "float/division",
    "float/special",
    "float/other",
    "double/arithmetic",
    "double/division",
    "double/special",
    "double/other",
    "memory/global",
    "memory/local",
];
/// The first kind that needs double precision, and the first that does not again.
const DOUBLE: [usize; 2] = [8, 12];
const GLOBAL: usize = 12;

/// Pairs of statements of a mixture; each is a place in [`KINDS`].
pub type Pairs = [usize; 5];
/// How often a turn has all of them.
const REPEATED: u64 = STATEMENTS as u64 / 10;

/// Those that there are by name.
const MIXTURES: [(&str, Pairs); 4] = [
    ("arithmetic", [0, 4, 0, 4, 3]),
    ("special", [4, 6, 2, 5, 3]),
    ("memory", [13, 13, 4, 0, 12]),
    ("all", [0, 4, 6, 13, 12]),
];

/// The kinds that a device has.
pub fn kinds(device: &DeviceFacts) -> Vec<usize> {
    let has = |k: &usize| device.has_double || !(DOUBLE[0]..DOUBLE[1]).contains(k);
    (0..KINDS.len()).filter(has).collect()
}

/// A mixture on a device.
#[derive(Clone, Copy, Debug)]
pub struct Mixture {
    pairs: Pairs,
    base: Variant,
}

impl Mixture {
    /// One that keeps the device busy.
    pub fn new(pairs: Pairs, device: &DeviceFacts, settings: &Settings) -> Self {
        Self { pairs, base: Variant::usual(device, settings) }
    }

    /// The kernel's options that make it.
    pub fn defines(pairs: Pairs) -> Vec<String> {
        let macro_of = |k: usize| KINDS[k].replace('/', "_").to_uppercase();
        (1..).zip(pairs).map(|(n, k)| format!("-DPAIR_{n}={}", macro_of(k))).collect()
    }

    /// The loop of one kind.
    fn chain(&self, kind: usize) -> Variant {
        let scalar = match kind {
            4..8 => Scalar::Float,
            8..12 => Scalar::Double,
            _ => Scalar::Int,
        };
        let class = match (kind, kind % 4) {
            (12, _) => Class::Global,
            (13, _) => Class::Local,
            (_, 0) => Class::Arithmetic,
            (_, 1) => Class::Division,
            (_, 2) => Class::Special,
            _ => Class::Other,
        };
        Variant { class, scalar, ..self.base }
    }

    /// What a kind's chain ends with in item `i` of a group's item `l`, and how far off it may be.
    fn reference(&self, kind: usize, i: usize, l: usize, trips: u32) -> (f64, f64) {
        let chain = self.chain(kind);
        let count = self.pairs.iter().filter(|k| **k == kind).count() as u64;
        let steps = count * REPEATED * u64::from(trips);
        let end = match chain.class {
            Class::Global => f64::from(chain.walk(i, 2 * steps)),
            Class::Local => ((l as u64 + 64 * steps) & 1023) as f64,
            _ => chain.reference(chain.seed(i % 4), steps),
        };
        // Doubles are stored as floats.
        let rounding = if chain.scalar == Scalar::Double { f64::from(f32::EPSILON) } else { 0.0 };
        (end, chain.tolerance(2.0 * steps as f64) + rounding)
    }

    fn compare(&self, outcome: &Outcome<'_>) -> Result<Option<String>, ClError> {
        let trips = outcome.geometry.trips;
        if trips > 4096 {
            // The host would take long; the short launch has shown what the kernel computes.
            return Ok(None);
        }
        let some = outcome.geometry.items().min(96);
        let ends = outcome.read(0, 0, 4 * KINDS.len() * some)?;
        for (i, ends) in ends.chunks_exact(4 * KINDS.len()).enumerate() {
            let l = i % outcome.geometry.group;
            if l % 32 >= self.base.lanes as usize {
                continue;
            }
            for kind in self.pairs {
                let floats = (4..DOUBLE[1]).contains(&kind);
                let of = if floats { Scalar::Float } else { Scalar::Int };
                let got = of.decode(&ends[4 * kind..]).unwrap_or(f64::NAN);
                let (want, tolerance) = self.reference(kind, i, l, trips);
                if !is_right(got, want, tolerance) {
                    let kind = KINDS[kind];
                    let text = format!("{kind} of item {i} ends at {got}, the host gets {want}");
                    return Ok(Some(text));
                }
            }
        }
        Ok(None)
    }

    /// What is launched.
    pub fn job(self, settings: &Settings) -> Job {
        let Variant { groups, group, lanes, table_words, .. } = self.base;
        let has = |kinds: [usize; 2]| self.pairs.iter().any(|k| (kinds[0]..kinds[1]).contains(k));
        let mut defines = Self::defines(self.pairs);
        let words = if has([GLOBAL, GLOBAL + 1]) { table_words } else { 16 };
        defines.push(format!("-DTABLE_WORDS={words}u"));
        let mut needs = vec![Need::Local(4096)];
        if has(DOUBLE) {
            defines.push("-DNEEDS_DOUBLE".to_owned());
            needs.push(Need::Type(Scalar::Double));
        }
        let link = Fill::Kernel {
            source: Source::Classes,
            entry: "link",
            defines: defines.clone(),
            args: vec![Arg::Buffer(1), Arg::uint(self.base.hop())],
            items: words,
        };
        let ints: Vec<u8> = [5, 3, 1 << 30, (1 << 30) + 12345_i32].map(i32::to_ne_bytes).concat();
        let floats: Vec<u8> =
            [1.0, 0.25, 1.5, 1.5 + 1.0 / 1024.0_f32].map(f32::to_ne_bytes).concat();
        Job {
            defines,
            needs,
            may_shrink: true,
            buffers: vec![groups * group * 4 * KINDS.len(), 4 * words],
            fills: vec![link],
            args: vec![
                Arg::Buffer(0),
                Arg::Buffer(1),
                Arg::Trips,
                Arg::Value(ints),
                Arg::Value(floats),
                Arg::uint(lanes),
                Arg::Local(4096),
            ],
            trips: Trips::Lasting(settings.launch_ns()),
            check_trips: 2,
            ..Job::new(Source::Classes, "mixture", (groups, group), move |o| self.compare(o))
        }
    }
}

impl Swept for Mixture {
    fn axes(&self) -> &'static [Axis] {
        &[Axis::Blocks, Axis::Tpb, Axis::Cores, Axis::Lanes]
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let mut at = *self;
        match axis {
            Axis::Lanes => at.base.lanes = super::number(axis, value, 32)? as u32,
            Axis::Tpb => at.base.group = super::count(axis, value)?,
            _ => at.base.groups = super::count(axis, value)?,
        }
        Ok(Rc::new(at))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let measured = bench.measure(&self.job(&bench.settings), true)?;
        let geometry = measured.geometry;
        let works = |l: &usize| l % 32 < self.base.lanes as usize;
        let items = ((0..geometry.group).filter(works).count() * geometry.groups) as f64;
        let statements = f64::from(geometry.trips) * f64::from(STATEMENTS) * items;
        let rate = measured.timing.time_ns.mean.reciprocal(statements);
        Ok(Gave::of_kernel(measured, vec![Figure::new("rate", "Ginstr/s", rate)]))
    }
}

/// What an application does each turn: bytes to the device and back, launches of a mixture, rest.
#[derive(Clone, Copy)]
struct Application {
    mixture: Mixture,
    bytes: usize,
    launches: usize,
    rest_ms: u64,
}

impl Application {
    fn run(self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let job = self.mixture.job(&bench.settings);
        let measured = bench.measure(&job, false)?;
        // What was counted is a launch, and the window of power has turns.
        bench.counted = None;
        let buffers = bench.buffers(&job.buffers)?;
        let (buffer, mut memory) =
            (bench.session.buffer(self.bytes, false)?, vec![1u8; self.bytes]);
        let mut turn = |bench: &mut Bench<'_>| -> Result<(), CaseError> {
            bench.session.write(&buffer, 0, &memory)?;
            let Job { source, entry, defines, args, .. } = &job;
            let (geometry, times) = (measured.geometry, self.launches);
            bench.in_a_row(*source, entry, defines, args, &buffers, geometry, times)?;
            bench.session.read(&buffer, 0, &mut memory)?;
            std::thread::sleep(Duration::from_millis(self.rest_ms));
            Ok(())
        };
        let (begun, goal) = (monotonic_raw().0, bench.settings.window_ns());
        while monotonic_raw().0 - begun < Window::settles_after(goal) {
            turn(bench)?;
        }
        let (from, mut turns) = (Window::settled(), 0);
        while bench.metered && (turns < 3 || monotonic_raw().0 - begun < goal) {
            bench.check_stop()?;
            turn(bench)?;
            turns += 1;
        }
        let window = bench.metered.then(|| from.closes(turns));
        Ok(Gave { window, ..Gave::of_kernel(measured, Vec::new()) })
    }
}

/// The mixtures by name, and the application.
pub(super) fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let named = |pairs: Pairs| json!(pairs.map(|k| KINDS[k]));
    let mut out: Vec<Case> = MIXTURES
        .into_iter()
        .map(|(name, pairs)| {
            let mixture = Mixture::new(pairs, device, settings);
            let parameters = [("mixture", named(pairs))];
            let id = format!("{}/mixture/{name}", SUITE.name);
            Case::with_axes(id, SUITE.name, Rc::new(mixture)).with(parameters)
        })
        .collect();
    let [.., (_, pairs)] = MIXTURES;
    let mixture = Mixture::new(pairs, device, settings);
    let bytes = if settings.tiny { 1 << 12 } else { 1 << 22 };
    let of =
        Application { mixture, bytes, launches: 4, rest_ms: if settings.tiny { 0 } else { 20 } };
    out.push(
        Case::new(format!("{}/application", SUITE.name), SUITE.name, move |bench| of.run(bench))
            .with([
                ("mixture", named(pairs)),
                ("bytes", json!(of.bytes)),
                ("launches", json!(of.launches)),
                ("rest_ms", json!(of.rest_ms)),
            ]),
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_the_loops_of_their_names() {
        let device =
            DeviceFacts { has_double: true, largest_buffer: 1 << 20, ..DeviceFacts::default() };
        assert_eq!(kinds(&device).len(), KINDS.len());
        assert_eq!(kinds(&DeviceFacts::default()).len(), KINDS.len() - 4);
        for (kind, name) in KINDS.iter().enumerate() {
            let of = Mixture::new([kind; 5], &device, &Settings::default());
            let chain = of.chain(kind);
            let (first, class) = name.split_once('/').unwrap();
            assert_eq!(chain.class.name(), class);
            assert!(first == "memory" || chain.scalar.name() == first, "{name}");
            // Five pairs of one kind are the loop of that kind.
            if first != "memory" {
                let end = chain.reference(chain.seed(1), 2 * u64::from(STATEMENTS) / 2);
                assert_eq!(of.reference(kind, 1, 1, 2).0, end, "{name}");
            }
        }
        assert_eq!(Mixture::defines([0, 4, 6, 13, 12])[3], "-DPAIR_4=MEMORY_LOCAL");
    }
}
