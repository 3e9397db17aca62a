//! Owns what helps against a cause of idleness, a set-up or transfers that take long. Refuses to
//! advise what the application does already.
#![forbid(unsafe_code)]

use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use std::collections::{BTreeMap, BTreeSet};

/// What an enqueue call takes at least, ns, before fewer commands help by themselves.
const LONG_CALL_NS: f64 = 20_000.0;

/// What an application does, as far as advice depends on it.
#[derive(Debug, Clone, Default)]
pub struct Habits {
    /// Functions that it called, with calls and mean time.
    functions: BTreeMap<String, (u64, f64)>,
    /// Functions in which it was blocked on a device.
    blocking: BTreeSet<String>,
    /// Whether several threads called OpenCL.
    has_threads: bool,
    /// Whether several queues of one device had commands.
    has_queues: bool,
    processes: u64,
}

impl Habits {
    /// Of all that was recorded, whatever of it is shown.
    pub fn gather(trace: &Trace<'_>, stats: &Stats) -> Self {
        let functions = stats.functions(trace).into_iter();
        let each =
            functions.map(|(name, f)| (name, (f.time.count(), f.time.mean().unwrap_or(0.0))));
        let mut queues: BTreeMap<_, u64> = BTreeMap::new();
        for ((process, queue), _) in stats.queues.iter().filter(|(_, sums)| sums.count > 0) {
            let device = trace.process(*process).definitions.clock_device(*queue);
            *queues.entry((*process, device)).or_default() += 1;
        }
        let threads = |p: &clscope_analysis::input::Process<'_>| {
            p.definitions.threads.values().filter(|t| !t.is_recorders()).count()
        };
        Self {
            functions: each.collect(),
            blocking: stats.waits(trace).into_keys().collect(),
            has_threads: trace.processes.iter().any(|p| threads(p) > 1),
            has_queues: queues.values().any(|n| *n > 1),
            processes: trace.processes.len() as u64,
        }
    }

    fn calls(&self, function: &str) -> u64 {
        self.functions.get(function).map_or(0, |f| f.0)
    }

    fn does(&self, function: &str) -> bool {
        self.calls(function) > 0
    }

    fn enqueue_takes_long(&self) -> bool {
        let enqueues = self.functions.iter().filter(|(name, _)| name.starts_with("clEnqueue"));
        let mut those = enqueues.filter(|(name, _)| !self.blocking.contains(*name));
        those.any(|(_, (_, mean))| *mean >= LONG_CALL_NS)
    }

    /// What helps against a cause of idle time.
    pub fn against(&self, cause: &str) -> String {
        const GAPS: &str =
            "look at the gaps in the timeline: the call that fills them is above the queue";
        match cause {
            "host outside OpenCL" if self.has_threads => "prepare the next input while the device works".to_owned(),
            "host outside OpenCL" => {
                "prepare the next input while the device works, or in a second thread".to_owned()
            }
            "launch of the next command" if self.enqueue_takes_long() => {
                "fewer, larger commands: the enqueue call itself takes long".to_owned()
            }
            "launch of the next command" => {
                "enqueue the next command before the one in front of it is done: the runtime needs time to begin one".to_owned()
            }
            "next command enqueued but not started" if self.does("clFlush") => {
                "see the columns of the command queues, which say whether the runtime or the device held it back".to_owned()
            }
            "next command enqueued but not started" => {
                "`clFlush` after enqueueing; see the columns of the command queues".to_owned()
            }
            "next command waited for a user event" => {
                "call `clSetUserEventStatus` sooner".to_owned()
            }
            "next command waited for another queue" => {
                "start the command of the other queue sooner, or split it".to_owned()
            }
            "first launch of a kernel (compiling or loading it)" => {
                "launch each kernel once at the start, before time counts; keep the runtime's cache of compiled kernels".to_owned()
            }
            "host in clBuildProgram" => match self.loads_binaries() {
                true => "build at the start, before time counts".to_owned(),
                false => "compile at the start; keep binaries".to_owned(),
            },
            "host in clFinish" if !self.does("clWaitForEvents") => {
                "enqueue ahead; wait for an event instead of the queue".to_owned()
            }
            "host in clFinish" | "host in clWaitForEvents" => {
                "enqueue the next commands before you wait".to_owned()
            }
            cause => match cause.strip_prefix("host in ") {
                Some(function) if is_transfer(function) => self.moving(self.blocking.contains(function)),
                _ => GAPS.to_owned(),
            },
        }
    }

    /// What helps where the host is blocked and devices are idle.
    pub fn against_waiting(&self) -> String {
        let ways = [
            (true, "enqueue ahead"),
            (!self.does("clWaitForEvents"), "wait for the event of what is needed next"),
            (self.blocking.iter().any(|f| is_transfer(f)), "transfers that do not block"),
        ];
        let ways: Vec<&str> = ways.iter().filter(|(is, _)| *is).map(|(_, way)| *way).collect();
        ways.join(", ")
    }

    fn loads_binaries(&self) -> bool {
        self.does("clCreateProgramWithBinary")
    }

    /// What helps against a long time of compiling, or `None` where nothing is known to.
    pub fn against_compiling(&self) -> Option<&'static str> {
        (!self.loads_binaries())
            .then_some("build programs once, and keep their binaries (CL_PROGRAM_BINARIES)")
    }

    /// The same of the rest of setting OpenCL up.
    pub fn against_setting_up(&self) -> Option<&'static str> {
        let contexts = self.calls("clCreateContext") + self.calls("clCreateContextFromType");
        let queues =
            self.calls("clCreateCommandQueue") + self.calls("clCreateCommandQueueWithProperties");
        (contexts > self.processes || queues > 4 * self.processes)
            .then_some("make platforms, contexts and queues once, and keep them for all work")
    }

    /// What helps where transfers take long; `blocks`: they block the host.
    pub fn moving(&self, blocks: bool) -> String {
        let ways = [
            (blocks, "transfers that do not block"),
            (!self.has_queues, "a second queue, in which copies run beside kernels"),
            (true, "pinned memory"),
        ];
        let ways: Vec<&str> = ways.iter().filter(|(is, _)| *is).map(|(_, way)| *way).collect();
        ways.join(", ")
    }
}

fn is_transfer(function: &str) -> bool {
    ["Read", "Write", "Map"].iter().any(|part| function.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Causes, the habit that makes a piece of advice vain, and the piece.
    fn vain() -> Vec<(&'static str, Habits, &'static str)> {
        let calls = |names: &[&str]| Habits {
            functions: names.iter().map(|n| ((*n).to_owned(), (3, 100.0))).collect(),
            processes: 1,
            ..Habits::default()
        };
        let (read, enqueue) = ("host in clEnqueueReadBuffer", "clEnqueueNDRangeKernel");
        vec![
            ("next command enqueued but not started", calls(&["clFlush"]), "clFlush"),
            ("host outside OpenCL", Habits { has_threads: true, ..calls(&[]) }, "second thread"),
            ("launch of the next command", calls(&[enqueue]), "takes long"),
            ("host in clWaitForEvents", calls(&["clWaitForEvents"]), "wait for an event"),
            ("host in clFinish", calls(&["clWaitForEvents"]), "wait for an event"),
            ("host in clBuildProgram", calls(&["clCreateProgramWithBinary"]), "binaries"),
            (read, calls(&[]), "do not block"),
            (read, Habits { has_queues: true, ..calls(&[]) }, "second queue"),
        ]
    }

    #[test]
    fn nothing_is_advised_that_the_application_does_already() {
        for (cause, habits, piece) in vain() {
            let advice = habits.against(cause);
            assert!(!advice.contains(piece) && !advice.is_empty(), "{cause}: {advice}");
        }
        let one = |function: &str| Habits {
            functions: BTreeMap::from([(function.to_owned(), (1, 1e6))]),
            processes: 1,
            ..Habits::default()
        };
        assert_eq!(one("clCreateProgramWithBinary").against_compiling(), None);
        assert_eq!(one("clCreateContext").against_setting_up(), None);
    }

    #[test]
    fn each_cause_has_advice_of_its_own() {
        let habits =
            Habits { blocking: ["clEnqueueReadBuffer".to_owned()].into(), ..Habits::default() };
        let causes = [
            ("next command waited for a user event", "clSetUserEventStatus"),
            ("next command waited for another queue", "other queue"),
            ("first launch of a kernel (compiling or loading it)", "once at the start"),
            ("next command enqueued but not started", "clFlush"),
            ("host in clEnqueueReadBuffer", "do not block"),
            ("host in clReleaseMemObject", "timeline"),
        ];
        for (cause, part) in causes {
            assert!(habits.against(cause).contains(part), "{cause}: {}", habits.against(cause));
        }
    }
}
