//! Owns what an application does already, as far as advice depends on it. Refuses to advise.

use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use std::collections::{BTreeMap, BTreeSet};

/// What an application does.
#[derive(Debug, Clone, Default)]
pub struct Habits {
    /// Calls of each function.
    pub functions: BTreeMap<String, u64>,
    /// Functions in which it was blocked on a device.
    pub blocking: BTreeSet<String>,
    /// Whether several threads called OpenCL.
    pub has_threads: bool,
    /// Whether several queues of one device had commands.
    pub has_queues: bool,
    /// Whether all devices with commands are processors.
    pub on_processors: bool,
    /// How many processes there are.
    pub processes: u64,
}

impl Habits {
    /// Of all that was recorded, whatever of it is shown.
    pub fn gather(trace: &Trace<'_>, stats: &Stats) -> Self {
        let functions = stats.functions(trace).into_iter();
        let mut queues: BTreeMap<_, u64> = BTreeMap::new();
        for ((process, queue), _) in stats.queues.iter().filter(|(_, sums)| sums.count > 0) {
            let device = trace.process(*process).definitions.clock_device(*queue);
            *queues.entry((*process, device)).or_default() += 1;
        }
        let mut used = queues.keys().filter_map(|(process, device)| {
            trace.process(*process).definitions.devices.get(&(*device)?)
        });
        let on_processors = used.all(|device| device.is_cpu()) && !queues.is_empty();
        let threads = |p: &clscope_analysis::input::Process<'_>| {
            p.definitions.threads.values().filter(|t| !t.is_recorders()).count()
        };
        Self {
            functions: functions.map(|(name, f)| (name, f.time.count())).collect(),
            blocking: stats.waits(trace).into_keys().collect(),
            has_threads: trace.processes.iter().any(|p| threads(p) > 1),
            has_queues: queues.values().any(|n| *n > 1),
            on_processors,
            processes: trace.processes.len() as u64,
        }
    }

    pub(super) fn calls(&self, function: &str) -> u64 {
        self.functions.get(function).copied().unwrap_or(0)
    }

    pub(super) fn does(&self, function: &str) -> bool {
        self.calls(function) > 0
    }

    /// Whether it copies in calls that block.
    pub(super) fn copies_block(&self) -> bool {
        self.blocking.iter().any(|f| is_copy(f))
    }
}

/// Whether a function copies or maps.
pub(super) fn is_copy(function: &str) -> bool {
    function.starts_with("clEnqueue")
        && ["Read", "Write", "Map", "Copy"].iter().any(|part| function.contains(part))
}
