//! Owns what launches and transfers are told apart by where the recorder repeats some of them:
//! their shapes, how many of each a run holds, and what was repeated of each. Refuses to say what a
//! repetition means for joules: `workers` does.

use clscope_analysis::Trace;
use clscope_analysis::energy::HostNs;
use clscope_analysis::input::Definitions;
use clscope_analysis::time::ProcessIndex;
use clscope_trace::defs::{Replay, ReplayBatch};
use clscope_trace::record::{CommandKind, Direction, size_class};

/// What launches and transfers are told apart by where some of them are repeated: name of the
/// kernel and global size, or direction, kind and order of magnitude.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// The kernel's name, or the direction.
    pub name: String,
    /// Global size; or kind and class of size.
    pub sizes: Vec<u64>,
}

/// What a run holds of one shape in one class.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Tally {
    /// Commands.
    pub launches: u64,
    /// Those that were timed.
    pub timed: u64,
    /// Seconds of those.
    pub seconds: f64,
    /// Bytes of all, where they are transfers.
    pub bytes: u64,
}

impl Tally {
    /// Adds another.
    pub(in crate::energy) fn add(&mut self, other: &Self) {
        self.launches += other.launches;
        self.timed += other.timed;
        self.seconds += other.seconds;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

/// A launch that the recorder repeated. What it repeated is a class of its own: `NAME (repeated)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeated {
    /// The kernel's class.
    pub name: String,
    /// What it is.
    pub shape: Shape,
    /// Mean seconds of those of which stamps were taken.
    pub stamped: Option<f64>,
    /// Launches for each restoration.
    pub per_restoration: u32,
    /// Why it was not repeated; empty where it was.
    pub refused: String,
    /// Bytes of buffers saved and restored.
    pub saved: u64,
    /// Batches: begin, end, launches or restorations, whether the latter.
    pub batches: Vec<Ran>,
    /// What ran outside the batches: launches that were tried, and copies of saved buffers.
    pub trials: Vec<Ran>,
}

/// Trials below are left out: their times are the host's, of which launching is a large part then.
const LEAST_TRIAL_NS: i64 = 300_000;

/// Begin, end, launches or restorations, whether the latter.
pub type Ran = (HostNs, HostNs, u64, bool);

impl Shape {
    /// Of a transfer.
    pub fn transfer(kind: CommandKind, way: Direction, bytes: u64) -> Self {
        let sizes = vec![kind as u64, u64::from(size_class(bytes))];
        Self { name: way.name().to_owned(), sizes }
    }
}

/// What a command is told apart by where some are repeated.
pub fn shape(
    trace: &Trace<'_>,
    process: ProcessIndex,
    kind: CommandKind,
    kernel: u32,
    geometry: u32,
    bytes: u64,
) -> Shape {
    if let Some(way) = kind.direction() {
        return Shape::transfer(kind, way, bytes);
    }
    let definitions = &trace.process(process).definitions;
    let sizes = definitions
        .geometries
        .get(&geometry)
        .map(|g| g.global[..(g.dimensions as usize).min(3)].to_vec());
    Shape {
        name: definitions.kernel_name(kernel).into_owned(),
        sizes: sizes.unwrap_or_else(|| vec![1]),
    }
}

/// What the recorder noted of a command that it repeated. `shown` names a class of launches, `at`
/// places ticks on the host's clock.
pub fn repeated(
    definitions: &Definitions,
    replay: &Replay,
    shown: impl Fn(&str, &[u64]) -> String,
    mut at: impl FnMut(u64) -> HostNs,
) -> Repeated {
    let kind = replay.kind();
    let (shape, name) = match kind.direction() {
        Some(way) => (Shape::transfer(kind, way, replay.bytes), way.name().to_owned()),
        None => {
            let name = definitions.kernel_name(replay.kernel).into_owned();
            let global = &replay.global[..replay.global.len().min(3)];
            let shown = shown(&name, global);
            (Shape { name, sizes: global.to_vec() }, shown)
        }
    };
    let mut ran = |batches: &[ReplayBatch]| -> Vec<Ran> {
        let placed = batches.iter().map(|b| (at(b.begin), at(b.end), b.count, b.restores_only));
        placed.filter(|b| b.1 > b.0).collect()
    };
    let (batches, trials) = (ran(&replay.batches), ran(&replay.trials));
    let trials = trials.into_iter().filter(|t| t.1.0.saturating_sub(t.0.0) >= LEAST_TRIAL_NS);
    Repeated {
        name,
        shape,
        stamped: (replay.stamped_ns > 0).then_some(replay.stamped_ns as f64 * 1e-9),
        per_restoration: replay.per_restoration,
        refused: replay.refused.clone(),
        saved: replay.saved,
        batches,
        trials: trials.collect(),
    }
}
