//! What recording took of a run, from the numbers of records and the cost of one. Refuses to guess
//! what a runtime charges for events: that depends on it.

use serde::Serialize;

/// What one record costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    /// Nanoseconds of a plain call.
    pub call_ns: f64,
    /// Nanoseconds of a timed launch, its harvest included and the runtime's own charge left out.
    pub command_ns: f64,
}

/// Where it was not measured: between what `clscope-bench cost` gave on a quiet and on a busy
/// machine.
const TYPICAL: Costs = Costs { call_ns: 25.0, command_ns: 250.0 };

/// What recording took of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Share {
    /// Nanoseconds on all threads together.
    pub recording_ns: f64,
    /// Of the time from the first to the last record.
    pub of_wall: Option<f64>,
    /// Nanoseconds taken for a plain call.
    pub call_ns: f64,
    /// Nanoseconds taken for a command.
    pub command_ns: f64,
}

impl Share {
    /// Of a trace with so many calls, the enqueues among them, commands, and timed commands; costs
    /// as measured, or typical ones. A command that is not timed is taken for two plain calls: its
    /// record is longer, and nothing else is done.
    pub fn of_costs(
        calls: u64,
        commands: u64,
        timed: u64,
        duration_ns: Option<u64>,
        measured: Option<Costs>,
    ) -> Self {
        let Costs { call_ns, command_ns } = measured.unwrap_or(TYPICAL);
        let (plain, untimed) = (calls.saturating_sub(commands), commands.saturating_sub(timed));
        let recording_ns =
            plain as f64 * call_ns + untimed as f64 * 2.0 * call_ns + timed as f64 * command_ns;
        let of_wall = duration_ns.filter(|d| *d > 0).map(|d| recording_ns / d as f64);
        Self { recording_ns, of_wall, call_ns, command_ns }
    }
}
