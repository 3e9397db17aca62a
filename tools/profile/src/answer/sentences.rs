//! Owns the sentences that are said of causes, and what is added to each. Refuses to choose causes.

use super::causes::{CAPTURED, What};
use super::data::{Answer, KernelRow};
use super::{bytes, count, percent, time};
use crate::report::Report;
use crate::report::data::{Commands, Wait};
use clscope_analysis::input::LeftOut;

/// The rows that sentences quote.
pub(super) struct Words<'r> {
    pub(super) report: &'r Report,
    pub(super) rows: &'r Answer,
    pub(super) launches: u64,
    /// What a filter kept out of the record.
    pub(super) left_out: Option<&'r LeftOut>,
}

impl Words<'_> {
    /// What is said of a cause, the name in it, and more of it.
    pub(super) fn describe_cause(
        &self,
        what: &What,
        ns: f64,
    ) -> (String, Option<String>, Option<String>) {
        let plain = |text: &str, more| (text.to_owned(), None, more);
        match what {
            What::Kernel(name) => {
                let more = self.kernel(name);
                (format!("the device runs {name}"), Some(name.clone()), more)
            }
            What::Copy(direction) => self.copy(direction),
            What::Command(kind) => {
                let name = kind.name().to_owned();
                (format!("the device runs {name} commands"), Some(name), None)
            }
            What::TakeTurns(names, by_wait_lists) => {
                let names = names.join(" and ");
                let why = match by_wait_lists {
                    true => "each waits for the other queue (wait lists)",
                    false => "the host waits for one queue before it feeds the next",
                };
                let text = format!("queues take turns and never run at once: {names}");
                (text, None, Some(why.to_owned()))
            }
            What::Shared(n) => plain(
                "other processes run on the same device meanwhile",
                Some(format!("{n} processes share it")),
            ),
            What::HeldUp(name) => (
                format!("slow launches of {name}: other work on the processors, or more to do"),
                Some(name.clone()),
                self.held_up(name),
            ),
            What::Outside if self.left_out.is_some() => {
                plain("host outside the calls that are recorded", self.why_left_out())
            }
            What::Outside => {
                plain("host outside OpenCL (no call is pending): it works or sleeps", None)
            }
            What::Call(name) => self.call(name),
            What::ShortCalls => plain("host in many short OpenCL calls", None),
            What::UserEvent => plain(
                "commands wait for a user event, which the application sets",
                Some("clSetUserEventStatus".to_owned()),
            ),
            What::OtherQueue => plain("a queue is idle behind a command of another queue", None),
            What::FirstLaunch => {
                plain("first launches of kernels: the runtime compiles or loads them", None)
            }
            What::Launching => plain(
                "launching (enqueue calls, and the runtime begins commands)",
                (self.launches > 1).then(|| {
                    let each = ns / self.launches as f64;
                    format!("{} times {}", self.launches, time(each))
                }),
            ),
            What::NotBegun => {
                plain("commands enqueued and not begun (not flushed, or held back)", None)
            }
            What::Before if self.left_out.is_some() => plain(
                "before the first command: host outside the calls that are recorded",
                self.why_left_out(),
            ),
            What::Before => plain("before the first command: host outside OpenCL", None),
            What::RotatedAway => plain(
                "not in the trace: it keeps the newest part only",
                Some("record with a larger --max-size keeps more".to_owned()),
            ),
            What::After => plain("after the last command: host outside OpenCL", None),
            What::Recording => plain("recording", self.captures()),
            What::Unknown if self.left_out.is_some_and(|of| of.commands) => {
                plain("not known, because commands were left out", self.why_left_out())
            }
            What::Unknown => plain(
                "the host waits for commands that ran at times that are not known",
                Some("record --device-timing event times all".to_owned()),
            ),
        }
    }

    fn why_left_out(&self) -> Option<String> {
        self.left_out.map(|of| of.why.clone())
    }

    /// What the host did meanwhile, mostly.
    fn waits_in(&self, name: &str) -> Option<String> {
        let ran =
            |wait: &Wait| wait.waited_for.iter().find(|of| of.name == name).map_or(0, |of| of.ns);
        let wait = self.report.waits.iter().max_by_key(|wait| ran(wait))?;
        let total = |k: &&Commands| k.name == name;
        let all: f64 = self.report.kernels.iter().filter(total).map(Commands::total).sum();
        let waits = if wait.function.name == "clGetEventInfo" { "polls" } else { "waits in" };
        (ran(wait) as f64 > 0.5 * all).then(|| format!("the host {waits} {}", wait.function.name))
    }

    fn kernel(&self, name: &str) -> Option<String> {
        let rows: Vec<&KernelRow> = self.rows.kernels.iter().filter(|k| k.name == name).collect();
        let outliers = rows.iter().find_map(|row| row.outliers.clone());
        let parts: Vec<String> = outliers.into_iter().chain(self.waits_in(name)).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Copies of captured launches' memory.
    fn captures(&self) -> Option<String> {
        let row = self.rows.copies.iter().find(|row| row.direction == CAPTURED)?;
        let all = count(row.count, "copy", "copies");
        Some(format!("{} in {all} of captured launches' memory", bytes(row.bytes as f64)))
    }

    fn held_up(&self, name: &str) -> Option<String> {
        let kernel = self.report.kernels.iter().find(|k| k.name == name)?;
        let (fast, mean) = (kernel.over?.fastest_quarter_ns, kernel.time_ns.mean?);
        Some(format!(
            "its fastest quarter takes {}, a launch {} on average",
            time(fast),
            time(mean)
        ))
    }

    fn copy(&self, direction: &'static str) -> (String, Option<String>, Option<String>) {
        let row = self.rows.copies.iter().find(|row| row.direction == direction);
        let more = row.map(|row| {
            let rate = row
                .gigabytes_per_second
                .map_or_else(String::new, |rate| format!(" at {rate:.1} GB/s"));
            let (one, many) =
                if direction == "fill" { ("fill", "fills") } else { ("copy", "copies") };
            format!("{} in {}{rate}", bytes(row.bytes as f64), count(row.count, one, many))
        });
        let what = match direction {
            "to device" => "copies to the device".to_owned(),
            "from device" => "copies from the device".to_owned(),
            "on device" => "copies inside the device".to_owned(),
            "fill" => "fills of buffers and images".to_owned(),
            _ => "copies between pointers".to_owned(),
        };
        (what, None, more)
    }

    fn call(&self, name: &str) -> (String, Option<String>, Option<String>) {
        let function = self.report.functions.iter().find(|f| f.name == name);
        let calls = function.map(|f| count(f.calls, "call", "calls"));
        let text = match name {
            "clBuildProgram" | "clCompileProgram" | "clLinkProgram" => {
                format!("host in {name}, which compiles")
            }
            "clGetEventInfo" => format!("host polls {name}, and no command runs"),
            "clFinish" | "clWaitForEvents" => {
                format!("host still in {name} when no command runs")
            }
            _ => format!("host in {name}"),
        };
        (text, Some(name.to_owned()), calls)
    }
}

/// A sentence about launches that took far longer than others, or `None`.
pub(super) fn outliers(of: &Commands) -> Option<String> {
    let total = of.time_ns.total as f64;
    let (n, most) = (of.time_ns.count, of.time_ns.max? as f64);
    if of.estimate.is_some() || n < 5 || total <= 0.0 {
        return None;
    }
    if most > 0.2 * total {
        return Some(format!("one launch of {} is {} of it", time(most), percent(most / total)));
    }
    let over = of.over.filter(|over| over.launches > 0)?;
    let few = 5 * over.launches <= n && over.total_ns > 0.4 * total;
    few.then(|| {
        let share = percent((over.total_ns / total).min(1.0));
        format!("{} of {n} launches are {share} of it", over.launches)
    })
}
