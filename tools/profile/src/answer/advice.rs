//! Owns what helps against each cause, with what it saves at most and the command that shows more.
//! Refuses to advise what the application does already, and against causes too small to matter.

use super::causes::{Divided, What};
use super::data::{Advice, Pattern};
use super::habits::{Habits, is_copy};
use super::{bytes, count};
use crate::report::Report;
use clscope_analysis::stats::sketch::RELATIVE_ERROR;
use clscope_io::shorten;
use clscope_io::text::shell_word;

/// Characters of a name that is typed whole.
const LONG_NAME: usize = 40;
/// Part of the wall time from which on a cause gets advice.
const MATTERS: f64 = 0.05;
/// Pieces of advice.
const MOST: usize = 4;
/// Part of a kernel's time that work on it saves, as far as anybody can say beforehand.
const OF_A_KERNEL: f64 = 0.5;
/// So many launches of one kernel are many, as in the models.
const MANY_LAUNCHES: u64 = 100;
/// Fewer waits are no habit.
const OFTEN: u64 = 10;
/// Copies for each launch from which on copies, not launches, are many.
const COPIES: u64 = 4;
/// A launch shorter than this takes about as long to begin as to run.
const SHORT_NS: f64 = 20_000.0;

/// What to do, the largest gain first.
pub fn advise(
    divided: &Divided,
    report: &Report,
    habits: &Habits,
    patterns: &[Pattern],
) -> Vec<Advice> {
    let causes = divided.shares.iter().filter(|(_, share)| **share >= MATTERS);
    let advisor = Advisor { divided, report, habits, patterns };
    let mut out: Vec<Advice> =
        causes.filter_map(|(what, share)| advisor.against(what, *share)).collect();
    out.extend(short_kernels(report, divided));
    out.sort_by(|a, b| b.gain.unwrap_or(0.0).total_cmp(&a.gain.unwrap_or(0.0)));
    // One piece of advice against two causes is one.
    let mut seen: Vec<(&'static str, String)> = Vec::new();
    out.retain(|advice| {
        let new = !seen.iter().any(|(_, text)| *text == advice.text);
        seen.push((advice.against, advice.text.clone()));
        new
    });
    out.truncate(MOST);
    out
}

fn advice(what: &What, text: String, gain: Option<f64>, command: Option<&str>) -> Advice {
    let command = command.map(str::to_owned);
    Advice { against: what.kind(), text, name: None, gain, command }
}

struct Advisor<'r> {
    divided: &'r Divided,
    report: &'r Report,
    habits: &'r Habits,
    patterns: &'r [Pattern],
}

impl Advisor<'_> {
    fn against(&self, what: &What, share: f64) -> Option<Advice> {
        let say = |text: String, gain: Option<f64>, command: Option<&str>| {
            Some(advice(what, text, gain, command))
        };
        let habits = self.habits;
        match what {
            What::Kernel(name) => Some(Advice {
                against: what.kind(),
                text: format!("make {name} faster: see what bounds it"),
                name: Some(name.clone()),
                gain: Some(OF_A_KERNEL * share),
                command: Some(format!("clscope explain {}", quoted(name))),
            }),
            What::Copy("fill") => say(
                "fill less: once, or in the kernel that uses the data".to_owned(),
                Some(share),
                None,
            ),
            What::Copy(_) => say(self.moving(), Some(share), Some("clscope bench model")),
            What::Command(_) => None,
            What::TakeTurns(..) => {
                let smaller = self.smaller_queue();
                say(
                    "let the queues overlap: split the work, so that one queue copies or prepares the next part while the other runs this one".to_owned(),
                    smaller.map(|part| part * share),
                    Some("clscope view"),
                )
            }
            What::Shared(n) => say(
                format!("give each of the {n} processes a device of its own, or start fewer of them"),
                Some(share),
                Some("clscope view"),
            ),
            What::HeldUp(_) => say(
                "leave the processors to the device: run fewer threads and processes meanwhile, or use a sub-device (clCreateSubDevices) of fewer units".to_owned(),
                Some(share),
                None,
            ),
            What::Outside => {
                let both = share.min(self.divided.busy);
                let second = match habits.has_threads {
                    true => "",
                    false => ", or in a second thread",
                };
                match both >= MATTERS {
                    true => say(
                        format!("overlap: prepare the next input while the device works{second}"),
                        Some(both),
                        Some("clscope view"),
                    ),
                    false => say(
                        "the host is the limit: it works or sleeps outside OpenCL; profile it as any other program (perf, py-spy)".to_owned(),
                        Some(share),
                        None,
                    ),
                }
            }
            What::Call(name) => self.against_call(what, name, share),
            What::ShortCalls => say(
                "make objects and set arguments once, and keep them".to_owned(),
                Some(share),
                Some("clscope report --section functions"),
            ),
            What::UserEvent => say(
                "call clSetUserEventStatus sooner: commands behind the event wait for it".to_owned(),
                Some(share),
                Some("clscope view"),
            ),
            What::OtherQueue => say(
                "start the command that the other queue waits for sooner, or split it".to_owned(),
                Some(share),
                Some("clscope view"),
            ),
            What::FirstLaunch => say(
                "keep the runtime's cache of compiled kernels, or launch each kernel once before time counts".to_owned(),
                Some(share),
                None,
            ),
            What::Launching => {
                let (text, command) = self.fewer();
                say(text, Some(share), Some(command))
            }
            What::NotBegun if !habits.does("clFlush") => say(
                "call clFlush after enqueueing: the runtime may hold commands back until then".to_owned(),
                Some(share),
                None,
            ),
            What::NotBegun => None,
            What::Before => say(
                "start OpenCL's work sooner: the program does other things first".to_owned(),
                None,
                Some("clscope view"),
            ),
            What::RotatedAway | What::After | What::Recording => None,
            What::Unknown if self.divided.left_out => say(
                "record all calls: without --kernels and CLSCOPE_GROUPS".to_owned(),
                None,
                None,
            ),
            What::Unknown => say(
                "record with --device-timing event: it times all commands".to_owned(),
                None,
                None,
            ),
        }
    }

    fn against_call(&self, what: &What, name: &str, share: f64) -> Option<Advice> {
        let say = |text: String, gain: Option<f64>, command: Option<&str>| {
            Some(advice(what, text, gain, command))
        };
        let habits = self.habits;
        match name {
            "clBuildProgram" | "clCompileProgram" | "clLinkProgram" => {
                let text = match (habits.does("clCreateProgramWithBinary"), habits.calls(name)) {
                    (false, _) => {
                        "compile once: keep binaries (CL_PROGRAM_BINARIES, clCreateProgramWithBinary)"
                    }
                    (true, calls) if calls > 4 * habits.processes => "build each program once",
                    (true, _) => return None,
                };
                say(text.to_owned(), Some(share), None)
            }
            "clGetEventInfo" => say(
                "do not poll: wait for the event, or let a callback say that it is complete"
                    .to_owned(),
                None,
                Some("clscope view"),
            ),
            "clFinish" | "clWaitForEvents" if habits.calls(name) < OFTEN * habits.processes => None,
            "clFinish" | "clWaitForEvents" => say(
                "enqueue the next commands before you wait, so that the device has work meanwhile"
                    .to_owned(),
                Some(share),
                Some("clscope view"),
            ),
            _ if is_copy(name) => say(self.moving(), Some(share), Some("clscope bench model")),
            "clCreateContext" | "clCreateContextFromType" | "clGetPlatformIDs" => {
                let gain = share * self.beyond_longest(name);
                match habits.calls(name) > habits.processes && gain >= MATTERS {
                    true => {
                        say(format!("call {name} once, and keep what it gives"), Some(gain), None)
                    }
                    false => None,
                }
            }
            "clSetKernelArg" => say(
                "set an argument when it changes: a kernel keeps the others".to_owned(),
                Some(share),
                Some("clscope report --section functions"),
            ),
            // What others do is done anew each time.
            _ if habits.calls(name) > 2 * habits.processes
                && ["clCreate", "clGet"].iter().any(|begin| name.starts_with(begin)) =>
            {
                let gain = share * self.beyond_longest(name);
                let text = format!("call {name} less often: keep what it gives");
                match gain >= MATTERS {
                    true => say(text, Some(gain), Some("clscope report --section functions")),
                    false => None,
                }
            }
            _ => None,
        }
    }

    /// Part of a function's time that is not that of its longest call in each process: the first one
    /// may load the runtime, and is needed.
    fn beyond_longest(&self, name: &str) -> f64 {
        let of = self.report.functions.iter().find(|f| f.name == name);
        let figures = of.and_then(|f| Some((f.time_ns.total as f64, f.time_ns.max? as f64)));
        let Some((total, longest)) = figures.filter(|(total, _)| *total > 0.0) else { return 1.0 };
        (1.0 - longest * self.habits.processes as f64 / total).max(0.0)
    }

    /// What helps where commands take long to begin, and the command that shows more.
    fn fewer(&self) -> (String, &'static str) {
        let launches: u64 = self.report.kernels.iter().map(|kernel| kernel.count).sum();
        let copies: u64 = self.report.transfers.iter().map(|of| of.count).sum();
        let moved: u64 = self.report.transfers.iter().map(|of| of.bytes).sum();
        if copies > MANY_LAUNCHES && copies > COPIES * launches {
            let (each, all) =
                (bytes(moved as f64 / copies as f64), count(copies, "copy", "copies"));
            let text = format!("fewer and larger copies: join them ({all} of {each} on average)");
            return (text, "clscope bench model");
        }
        let text = match self.patterns.iter().find(|of| of.kind == "wait-for-each-launch") {
            Some(of) => {
                format!("enqueue several launches before you wait: the application {}", of.text)
            }
            None => "fewer and larger launches: join kernels, enlarge the NDRange, enqueue ahead of the device".to_owned(),
        };
        (text, "clscope overhead")
    }

    /// What helps where copies take long.
    fn moving(&self) -> String {
        let habits = self.habits;
        let ways = [
            (true, "leave data on the device"),
            (!habits.on_processors, "pinned memory"),
            (habits.copies_block(), "copies that do not block"),
            (!habits.has_queues && !habits.on_processors, "a second queue for copies"),
            (habits.on_processors, "map buffers: the device shares the host's memory"),
        ];
        let ways: Vec<&str> = ways.iter().filter(|(is, _)| *is).map(|(_, way)| *way).collect();
        format!("move less: {}", ways.join(", "))
    }

    /// Part of the busy time that all queues but the busiest had.
    fn smaller_queue(&self) -> Option<f64> {
        let busy: Vec<f64> =
            self.report.queues.iter().filter_map(|q| q.busy_ns).map(|ns| ns as f64).collect();
        let (all, most) = (busy.iter().sum::<f64>(), busy.iter().copied().reduce(f64::max)?);
        (all > 0.0).then(|| (all - most) / all)
    }
}

/// Kernels whose launches take no longer than launching, where that is not said yet.
fn short_kernels(report: &Report, divided: &Divided) -> Option<Advice> {
    let launching = divided.shares.get(&What::Launching).copied().unwrap_or(0.0);
    let kernel = report.kernels.iter().find(|k| {
        let median = k.estimate.as_ref().and_then(|e| e.median_ns).map(|m| m.value);
        let median = median.or(k.time_ns.median);
        k.count >= MANY_LAUNCHES && median.is_some_and(|ns| ns * (1.0 + RELATIVE_ERROR) < SHORT_NS)
    })?;
    let share = divided.shares.get(&What::Kernel(kernel.name.clone())).copied()?;
    (launching < MATTERS && share >= MATTERS).then(|| Advice {
        against: "kernel",
        text: format!(
            "give each launch of {} more work: it takes about as long to begin",
            kernel.name
        ),
        name: Some(kernel.name.clone()),
        gain: None,
        command: Some("clscope overhead".to_owned()),
    })
}

/// A name as one word of a shell; a pattern that fits it where it is long.
fn quoted(name: &str) -> String {
    let long: String;
    let name = match shorten::middle(name, LONG_NAME) {
        short if short == name => name,
        short => {
            long = short.replacen("...", "*", 1);
            &long
        }
    };
    shell_word(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::activity::{By, Grouping};
    use crate::report::data::Commands;
    use crate::sites::Sites;
    use clscope_analysis::Trace;
    use clscope_analysis::align::Alignment;
    use clscope_analysis::stats::Stats;
    use std::collections::BTreeMap;

    fn calls(names: &[&str]) -> Habits {
        Habits {
            functions: names.iter().map(|n| ((*n).to_owned(), 3)).collect(),
            processes: 1,
            ..Habits::default()
        }
    }

    fn against(what: What, habits: &Habits) -> String {
        let by = Grouping { by: By::Kernel, sites: &Sites::default() };
        let (trace, stats) = (Trace::default(), Stats::default());
        let report = Report::new(Vec::new(), &trace, &Alignment::default(), &stats, by);
        let shares = BTreeMap::from([(what.clone(), 0.4)]);
        let divided = Divided { busy: 0.4, shares, ..Divided::default() };
        let advice = advise(&divided, &report, habits, &[]);
        advice.into_iter().next().map_or_else(String::new, |advice| advice.text)
    }

    #[test]
    fn nothing_is_advised_that_the_application_does_already() {
        let copy = What::Copy("to device");
        let build = What::Call("clBuildProgram".into());
        let cases = [
            (What::NotBegun, calls(&["clFlush"]), "clFlush"),
            (What::Outside, Habits { has_threads: true, ..calls(&[]) }, "second thread"),
            (build, calls(&["clCreateProgramWithBinary"]), "binaries"),
            (copy.clone(), Habits { has_queues: true, ..calls(&[]) }, "second queue"),
            (copy, calls(&[]), "do not block"),
        ];
        for (what, habits, piece) in cases {
            let less = against(what.clone(), &habits);
            assert!(!less.contains(piece), "{what:?}: {less}");
        }
        let blocks = Habits { blocking: ["clEnqueueReadBuffer".to_owned()].into(), ..calls(&[]) };
        assert!(against(What::Copy("from device"), &blocks).contains("do not block"));
        assert!(against(What::NotBegun, &calls(&[])).contains("clFlush"));
        assert!(against(What::Call("clBuildProgram".into()), &calls(&[])).contains("binaries"));
        assert!(against(What::Outside, &calls(&[])).contains("second thread"));
    }

    /// What is proposed runs as it is printed: it needs no application to be named.
    #[test]
    fn commands_need_nothing_more() {
        let calls_of =
            ["clBuildProgram", "clGetEventInfo", "clFinish", "clSetKernelArg", "clCreateBuffer"];
        let whats = [
            What::Kernel("k".into()),
            What::Copy("to device"),
            What::Copy("fill"),
            What::TakeTurns(vec![], false),
            What::Shared(2),
            What::HeldUp("k".into()),
            What::Outside,
            What::ShortCalls,
            What::UserEvent,
            What::OtherQueue,
            What::FirstLaunch,
            What::Launching,
            What::NotBegun,
            What::Before,
            What::Unknown,
        ];
        let by = Grouping { by: By::Kernel, sites: &Sites::default() };
        let (trace, stats) = (Trace::default(), Stats::default());
        let report = Report::new(Vec::new(), &trace, &Alignment::default(), &stats, by);
        for what in whats.into_iter().chain(calls_of.map(|name| What::Call(name.into()))) {
            let shares = BTreeMap::from([(what, 0.4)]);
            let divided = Divided { busy: 0.4, shares, ..Divided::default() };
            for command in advise(&divided, &report, &calls(&calls_of), &[])
                .iter()
                .filter_map(|of| of.command.as_deref())
            {
                let words: Vec<&str> = command.split(' ').collect();
                let takes_nothing = matches!(
                    words[1..],
                    ["explain", _]
                        | ["view"]
                        | ["overhead"]
                        | ["bench", "model"]
                        | ["report", "--section", _]
                );
                assert!(takes_nothing, "{command}");
            }
        }
    }

    #[test]
    fn waits_after_each_launch_and_small_copies_are_named() {
        let by = Grouping { by: By::Kernel, sites: &Sites::default() };
        let (trace, stats) = (Trace::default(), Stats::default());
        let mut report = Report::new(Vec::new(), &trace, &Alignment::default(), &stats, by);
        let shares = BTreeMap::from([(What::Launching, 0.4)]);
        let divided = Divided { busy: 0.4, shares, ..Divided::default() };
        let pattern = Pattern {
            kind: "wait-for-each-launch",
            text: "waits in clFinish 20 times for 20 launches".into(),
            times: 20,
            time_ns: None,
        };
        let text = |report: &Report, patterns: &[Pattern]| {
            advise(&divided, report, &calls(&[]), patterns)[0].text.clone()
        };
        assert!(text(&report, &[]).contains("fewer and larger launches"));
        let waits = text(&report, std::slice::from_ref(&pattern));
        assert!(waits.contains("before you wait") && waits.contains("clFinish 20"), "{waits}");
        let copies = Commands { count: 1000, bytes: 4000, ..Commands::default() };
        report.transfers.push(copies);
        let small = text(&report, &[pattern]);
        assert!(small.contains("1000 copies of 4 B"), "{small}");
    }

    #[test]
    fn each_cause_that_has_a_remedy_gets_advice_of_its_own() {
        let cases = [
            (What::UserEvent, "clSetUserEventStatus"),
            (What::OtherQueue, "other queue"),
            (What::FirstLaunch, "cache of compiled kernels"),
            (What::Launching, "larger launches"),
            (What::TakeTurns(vec![], true), "overlap"),
            (What::Shared(4), "device of its own"),
            (What::HeldUp("k".into()), "processors"),
            (What::Copy("fill"), "fill less"),
            (What::Call("clSetKernelArg".into()), "when it changes"),
            (What::Kernel("a b".into()), "faster"),
        ];
        for (what, part) in cases {
            let text = against(what.clone(), &calls(&[]));
            assert!(text.contains(part), "{what:?}: {text}");
        }
    }

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        let long = quoted(&format!("{}_end", "long_".repeat(100)));
        assert!(
            long.starts_with("'long_") && long.ends_with("_end'") && long.contains('*'),
            "{long}"
        );
        assert_eq!((quoted("k<a>").as_str(), quoted("a'b").as_str()), ("'k<a>'", "'a'\\''b'"));
    }
}
