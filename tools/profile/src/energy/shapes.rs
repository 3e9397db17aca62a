//! Owns what launches and transfers are told apart by where the recorder repeats some of them: their
//! shapes, how many of each a run holds, and what was repeated of each. Refuses to say what a
//! repetition means for joules: `evidence` does.
#![forbid(unsafe_code)]

use clscope_analysis::Trace;
use clscope_analysis::energy::HostNs;
use clscope_analysis::input::Definitions;
use clscope_analysis::time::ProcessIndex;
use clscope_trace::defs::Replay;
use clscope_trace::record::{CommandKind, size_class};

/// What launches and transfers are told apart by where some of them are repeated: name of the
/// kernel and global size, or direction, kind and order of magnitude.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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
    /// Ids of the first and the last one.
    pub extent: Option<(u64, u64)>,
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
    /// The application's own one has this id or a later one.
    pub before: u64,
    /// Why it was not repeated; empty where it was.
    pub refused: String,
    /// Bytes of buffers saved and restored.
    pub saved: u64,
    /// Seconds of rest before the first batch, in which the application was held.
    pub rest: f64,
    /// Batches: begin, end, launches or restorations, whether the latter.
    pub batches: Vec<(HostNs, HostNs, u64, bool)>,
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
        let sizes = vec![kind as u64, u64::from(size_class(bytes))];
        return Shape { name: way.name().to_owned(), sizes };
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
        Some(way) => {
            let sizes = vec![kind as u64, u64::from(size_class(replay.bytes))];
            (Shape { name: way.name().to_owned(), sizes }, way.name().to_owned())
        }
        None => {
            let name = definitions.kernel_name(replay.kernel).into_owned();
            let global = &replay.global[..replay.global.len().min(3)];
            let shown = shown(&name, global);
            (Shape { name, sizes: global.to_vec() }, shown)
        }
    };
    let first = replay.batches.iter().map(|b| b.begin).min();
    let rest = first
        .filter(|_| replay.quiet > 0)
        .map_or(0.0, |first| (at(first).0.saturating_sub(at(replay.quiet).0)).max(0) as f64 * 1e-9);
    Repeated {
        name,
        rest,
        shape,
        stamped: (replay.stamped_ns > 0).then_some(replay.stamped_ns as f64 * 1e-9),
        per_restoration: replay.per_restoration,
        before: replay.before,
        refused: replay.refused.clone(),
        saved: replay.saved,
        batches: replay
            .batches
            .iter()
            .map(|b| (at(b.begin), at(b.end), b.count, b.restores_only))
            .filter(|b| b.1 > b.0)
            .collect(),
    }
}
