//! Owns the findings: in plain words what stands out of a report, what helps, and a link to the
//! section that shows it. Every figure is the report's, or a sum or a share of its figures; an
//! estimate has its interval. Refuses to read the trace.
#![forbid(unsafe_code)]

use super::advice::Habits;
use super::html::{Html, bytes, joules, time};
use super::of_time;
use super::tables::{count, percent, told};
use clscope_models::explain::{MANY_LAUNCHES, SHORT_LAUNCH_NS};
use clscope_profile::interval::Interval;
use clscope_profile::report::Report;
use clscope_profile::report::data::{Commands, Finding, Function};
use std::collections::{BTreeMap, BTreeSet};

/// Issues that are listed.
const ISSUES: usize = 100;
/// Part of the run from which on host time, waiting, or a kernel stands out.
const MUCH: f64 = 0.2;
/// Part of the run, of a device's time or of its joules from which on other things do.
const SOME: f64 = 0.1;
/// Part of the time between first and last command from which on idle devices do, as in the models.
const IDLE: f64 = 0.05;
/// Part of the same from which on the device is the limit, as the guide has it.
const LIMIT: f64 = 0.9;

/// One of them.
struct Said {
    /// Of CSS.
    class: &'static str,
    text: String,
    /// What helps.
    remedy: Option<String>,
    /// Section, by its id and its heading.
    to: (&'static str, &'static str),
}

const KERNELS: (&str, &str) = ("kernels", "Kernels");
const ENERGY: (&str, &str) = ("energy", "Energy");
const IDLE_CAUSES: (&str, &str) = ("idle", "Idle causes");
const TRANSFERS: (&str, &str) = ("transfers", "Transfers");
const WAITS: (&str, &str) = ("waits", "Host waits");
const CALLS: (&str, &str) = ("functions", "API calls");
const RECORDING: (&str, &str) = ("recording", "Recording");

/// Functions that prepare a run.
const SETTING_UP: [&str; 10] = [
    "clGetPlatformIDs",
    "clIcdGetPlatformIDsKHR",
    "clCreateContext",
    "clCreateContextFromType",
    "clCreateCommandQueue",
    "clCreateCommandQueueWithProperties",
    "clCreateProgramWithSource",
    "clBuildProgram",
    "clCompileProgram",
    "clLinkProgram",
];
/// Those of them that compile.
const COMPILING: [&str; 3] = ["clBuildProgram", "clCompileProgram", "clLinkProgram"];

/// Writes them.
pub fn findings(page: &mut Html, report: &Report, habits: &Habits) {
    let mut said = Vec::new();
    let wall = report.own_ns().map(|ns| ns as f64).filter(|ns| *ns > 0.0);
    if let Some(wall) = wall {
        kernel(report, wall, &mut said);
        waits(report, wall, habits, &mut said);
        host(report, wall, habits, &mut said);
    }
    idle(report, habits, &mut said);
    transfers(report, habits, &mut said);
    short(report, &mut said);
    energy(report, &mut said);
    timing(report, &mut said);
    failures(report, &mut said);
    page.raw("<section id=\"findings\"><h2>Findings</h2>\n<ul class=\"findings\">\n");
    for Said { class, text, remedy, to: (id, heading) } in &said {
        page.raw("<li class=\"").raw(class).raw("\">").prose(text);
        if let Some(remedy) = remedy {
            page.raw(" <span class=\"soft\">What helps: ").prose(remedy).raw(".</span>");
        }
        page.raw(" <a href=\"#").raw(id).raw("\">").raw(heading).raw("</a></li>\n");
    }
    if said.is_empty() {
        page.raw("<li>Nothing stands out.</li>");
    }
    page.raw("</ul></section>\n");
}

fn exact(ns: f64) -> Interval {
    Interval::around(ns, 0.0)
}

/// Time of all of a row; `None` where none of it is known.
fn total(of: &Commands) -> Option<Interval> {
    let estimate = of.estimate.as_ref().map(|e| e.total_ns);
    estimate.unwrap_or((of.time_ns.count > 0).then(|| exact(of.time_ns.total as f64)))
}

/// Time from the first to the last command of all devices, and their idle time in it.
fn extent(report: &Report) -> Option<(f64, f64)> {
    let used = report.devices.iter().filter(|d| d.extent_ns > 0);
    let sum = used.map(|d| Some((d.extent_ns as f64, d.idle_ns? as f64)));
    let sum = sum.reduce(|a, b| Some((a?.0 + b?.0, a?.1 + b?.1)));
    sum.flatten()
}

/// Whether devices hardly ever waited.
fn is_busy(report: &Report) -> bool {
    extent(report).is_some_and(|(extent, idle)| idle < (1.0 - LIMIT) * extent)
}

/// The kernel that matters.
fn kernel(report: &Report, wall: f64, out: &mut Vec<Said>) {
    let Some((of, took)) = report.kernels.first().and_then(|k| Some((k, total(k)?))) else {
        return;
    };
    if took.value < MUCH * wall {
        return;
    }
    let share = match of.estimate.as_ref().and_then(|e| e.share.as_ref()) {
        Some(share) => format!(", {} of all kernels' time", told(share, percent)),
        None => {
            of.share.map_or_else(String::new, |s| format!(", {} of all kernels' time", percent(s)))
        }
    };
    let limit = if is_busy(report) { "the device is the limit: " } else { "" };
    out.push(Said {
        class: "",
        text: format!(
            "{} took {} in {} launches{share}.",
            of.name,
            told(&took, time),
            count(of.count as f64)
        ),
        remedy: Some(format!(
            "{limit}work on this kernel first; twice as fast, it saves {} at most",
            told(&took.times(0.5), time)
        )),
        to: KERNELS,
    });
}

/// The host blocked on devices.
fn waits(report: &Report, wall: f64, habits: &Habits, out: &mut Vec<Said>) {
    let waited: f64 = report.waits.iter().map(|w| w.function.time_ns.total as f64).sum();
    let Some(longest) = report.waits.first().filter(|_| waited > MUCH * wall) else { return };
    let f = &longest.function;
    let ran = longest.waited_for.first().map_or_else(String::new, |first| {
        let about = if first.interval_ns.is_some() { "about " } else { "" };
        format!(", while {} ran for {about}{}", first.name, time(first.ns as f64))
    });
    let remedy = match (longest.nothing_ns, is_busy(report)) {
        (None, _) => {
            "see first which commands ran: `record --device-timing event` times all".to_owned()
        }
        (_, true) => {
            "the device is busy meanwhile: let the host do its own work before it waits".to_owned()
        }
        (_, false) => habits.against_waiting(),
    };
    out.push(Said {
        class: "",
        text: format!(
            "The host was blocked on devices for {}, {} {}, all threads together; {} of it in {} calls of {}{ran}.",
            time(waited),
            percent(waited / wall),
            of_time(report),
            time(f.time_ns.total as f64),
            count(f.calls as f64),
            f.name
        ),
        remedy: Some(remedy),
        to: WAITS,
    });
}

/// What else the host's time went to.
fn host(report: &Report, wall: f64, habits: &Habits, out: &mut Vec<Said>) {
    let ns = |f: &Function| f.time_ns.total as f64;
    let is_wait = |f: &Function| report.waits.iter().any(|w| w.function.name == f.name);
    let set_up: Vec<&Function> =
        report.functions.iter().filter(|f| SETTING_UP.contains(&f.name.as_str())).collect();
    let setting_up: f64 = set_up.iter().map(|f| ns(f)).sum();
    if setting_up > SOME * wall {
        let longest: Vec<String> =
            set_up.iter().take(3).map(|f| format!("{} {}", f.name, time(ns(f)))).collect();
        let compiling: f64 =
            set_up.iter().filter(|f| COMPILING.contains(&f.name.as_str())).map(|f| ns(f)).sum();
        let remedy = match compiling > 0.5 * setting_up {
            true => habits.against_compiling(),
            false => habits.against_setting_up(),
        };
        out.push(Said {
            class: "",
            text: format!(
                "Setting OpenCL up took {}, {} {}: {}.",
                time(setting_up),
                percent(setting_up / wall),
                of_time(report),
                longest.join(", ")
            ),
            remedy: remedy.map(str::to_owned),
            to: CALLS,
        });
    }
    let launches: f64 = report.kernels.iter().map(|k| k.count as f64).sum();
    let kernels = report.totals.kernel_estimate_ns.unwrap_or(exact(report.totals.kernel_ns as f64));
    let timed = report.kernels.iter().any(|k| k.time_ns.count > 0);
    for f in report.functions.iter().take(3).filter(|f| ns(f) > MUCH * wall) {
        if is_wait(f) || SETTING_UP.contains(&f.name.as_str()) {
            continue;
        }
        let mut text = format!(
            "{}: {} of host time in {} calls, {} {}.",
            f.name,
            time(ns(f)),
            count(f.calls as f64),
            percent(ns(f) / wall),
            of_time(report)
        );
        let mean = kernels.times(1.0 / launches.max(1.0));
        let mut remedy = None;
        if let Some(call) = f.time_ns.mean.filter(|_| timed && f.name == "clEnqueueNDRangeKernel")
            && call > 0.5 * mean.value
        {
            text += &format!(
                " A call takes {} on average, a launch {} on the device: enqueueing is the limit, or near to it.",
                time(call),
                told(&mean, time)
            );
            remedy =
                Some("fewer and larger launches: join kernels, enlarge the NDRange".to_owned());
        }
        out.push(Said { class: "", text, remedy, to: CALLS });
    }
}

/// Devices that waited.
fn idle(report: &Report, habits: &Habits, out: &mut Vec<Said>) {
    let Some((extent, idle)) = extent(report).filter(|(all, idle)| *idle > IDLE * all) else {
        return;
    };
    let Some(first) = report.idle.first() else { return };
    let causes = report.idle.iter().take(3).map(|of| {
        let share = of.share.map_or_else(String::new, |share| format!(" ({})", percent(share)));
        format!("{} {}{share}", of.cause, time(of.ns as f64))
    });
    out.push(Said {
        class: "",
        text: format!(
            "Devices were idle for {} of {} from first to last command ({}), before the next one began: {}.",
            time(idle),
            time(extent),
            percent(idle / extent),
            causes.collect::<Vec<_>>().join(", ")
        ),
        remedy: Some(habits.against(&first.cause)),
        to: IDLE_CAUSES,
    });
}

/// Time that data took.
fn transfers(report: &Report, habits: &Habits, out: &mut Vec<Said>) {
    let of = |estimate: Option<Interval>, ns: u128| estimate.unwrap_or(exact(ns as f64));
    let totals = &report.totals;
    let moved = of(totals.transfer_estimate_ns, totals.transfer_ns);
    let all = moved.value + of(totals.kernel_estimate_ns, totals.kernel_ns).value;
    if moved.value <= SOME * all {
        return;
    }
    let rows = report.transfers.iter().take(2).filter_map(|t| {
        let rate = t.gigabytes_per_second.map_or_else(String::new, |r| format!(" at {r:.2} GB/s"));
        let took = told(&total(t)?, time);
        let direction = t.direction.unwrap_or_default();
        Some(format!("{} {} {direction} in {took}{rate}", t.name, bytes(t.bytes as f64)))
    });
    let ways = habits.moving(false);
    out.push(Said {
        class: "",
        text: format!(
            "Transfers took {}, {} of the time of kernels and transfers: {}.",
            told(&moved, time),
            percent(moved.value / all),
            rows.collect::<Vec<_>>().join("; ")
        ),
        remedy: Some(format!(
            "leave data on the device, {ways}; `clscope bench transfer` measures what the link can"
        )),
        to: TRANSFERS,
    });
}

/// Kernels whose launches take no longer than launching.
fn short(report: &Report, out: &mut Vec<Said>) {
    let median = |k: &Commands| match &k.estimate {
        Some(e) => e.median_ns,
        None => k.time_ns.median.map(exact),
    };
    let short: Vec<(&Commands, Interval)> = (report.kernels.iter())
        .filter(|k| k.count >= MANY_LAUNCHES)
        .filter_map(|k| Some((k, median(k).filter(|m| m.value < SHORT_LAUNCH_NS)?)))
        .collect();
    if short.is_empty() {
        return;
    }
    let each = short.iter().take(3).map(|(k, median)| {
        format!("{} ({} launches, median {})", k.name, count(k.count as f64), told(median, time))
    });
    let more = match short.len().saturating_sub(3) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    out.push(Said {
        class: "",
        text: format!(
            "Launches that are short: {}{more}. Launching and waiting may take longer than such work.",
            each.collect::<Vec<_>>().join(", ")
        ),
        remedy: Some("join kernels, or give each launch more work".to_owned()),
        to: KERNELS,
    });
}

/// Where joules went, and which cannot be told apart.
fn energy(report: &Report, out: &mut Vec<Said>) {
    for device in report.energy.iter().flat_map(|e| &e.devices) {
        let Some(all) = device.own_joules().filter(|j| *j > 0.0) else { continue };
        let without = match device.own_joules() == device.measured_joules {
            true => "",
            false => " without repetitions",
        };
        let known = device.classes.iter().filter_map(|c| Some((c, c.joules.as_ref()?)));
        let most = known.max_by(|a, b| a.1.value.total_cmp(&b.1.value));
        if let Some((class, of)) = most.filter(|(_, of)| of.value > MUCH * all) {
            let watts = class.watts.map_or_else(String::new, |w| {
                format!(", at {} while it ran", told(&w, |w| format!("{w:.1} W")))
            });
            out.push(Said {
                class: "",
                text: format!(
                    "{} took {}, {} of the {} measured on {}{without}{watts}.",
                    class.name,
                    told(of, joules),
                    percent(of.value / all),
                    joules(all),
                    device.device
                ),
                remedy: None,
                to: ENERGY,
            });
        }
        let gaps = device.gaps.as_ref().and_then(|gaps| Some((gaps.seconds, gaps.joules?)));
        if let Some((seconds, spent)) = gaps.filter(|(_, spent)| *spent > SOME * all) {
            let floor = device.floors.iter().find(|f| f.state == 0).and_then(|f| f.watts);
            let drawn = spent / seconds;
            // Where the floor is all that gaps took, its interval is theirs.
            let (took, floor) = match floor.filter(|w| w.low <= drawn && drawn <= w.high) {
                Some(w) => {
                    let floor = told(&w, |w| format!("{w:.1} W"));
                    let took = w.times(spent / w.value);
                    (told(&took, joules), format!(", at a floor of {floor}"))
                }
                None => (format!("about {}", joules(spent)), String::new()),
            };
            out.push(Said {
                class: "",
                text: format!(
                    "Gaps between launches took {took} in {}, {} of the {} measured on {}{without}{floor}.",
                    time(seconds * 1e9),
                    percent(spent / all),
                    joules(all),
                    device.device
                ),
                remedy: Some(
                    "enqueue ahead, so that the run ends sooner: the floor is drawn as long as it lasts"
                        .to_owned(),
                ),
                to: ENERGY,
            });
        }
        for group in device.groups.iter().filter(|g| g.names.len() > 1) {
            out.push(Said {
                class: "warning",
                text: format!(
                    "The joules of {} are known as a sum only, {}: they always ran in the same proportion.",
                    group.names.join(", "),
                    told(&group.joules, joules)
                ),
                remedy: device.next.clone(),
                to: ENERGY,
            });
        }
    }
}

/// The recorder's reasons to sample: they are part of what is said of sampling.
fn sampled_issues(report: &Report) -> impl Iterator<Item = &Finding> {
    let issues = report.issues.iter().filter(|_| report.sampling.is_some());
    issues.filter(|i| i.code == "sampled-timing")
}

/// Which commands have a device time, and which times are doubtful.
fn timing(report: &Report, out: &mut Vec<Said>) {
    let mut say = |class, text: String, remedy: Option<&str>, to| {
        out.push(Said { class, text, remedy: remedy.map(str::to_owned), to });
    };
    let every = "`record --device-timing event` times all";
    if let Some(sampling) = &report.sampling {
        let cpu = match sampling.on_cpu_device {
            true => {
                " On a processor few launches that are preempted may take most of the time: intervals may be too narrow."
            }
            false => "",
        };
        let why: BTreeSet<&str> = sampled_issues(report).map(|i| i.text.as_str()).collect();
        let why: String = why.iter().map(|why| format!(" Why: {why}.")).collect();
        let text = format!(
            "A random part of the commands was timed, {} of {} launches; totals are estimates, and why devices were idle is not known.{cpu}{why}",
            count(sampling.timed as f64),
            count(sampling.launches as f64)
        );
        say(if why.is_empty() { "" } else { "warning" }, text, Some(every), KERNELS);
    }
    let rows = report.kernels.iter().chain(&report.transfers).chain(&report.other_commands);
    let doubtful = |k: &&Commands| k.estimate.as_ref().is_some_and(|e| e.doubtful);
    let names: Vec<&str> = rows.clone().filter(doubtful).map(|k| k.name.as_str()).collect();
    if !names.is_empty() {
        let more = if names.len() > 3 { ", ..." } else { "" };
        let names = names.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let text = format!(
            "Few timed launches decide about the totals of {names}{more}: their intervals may be wrong."
        );
        say("warning", text, Some(every), KERNELS);
    }
    if report.kernels.iter().all(|k| k.time_ns.count == 0) && !report.kernels.is_empty() {
        let text = "No launch has a device time: what kernels took is not known.".to_owned();
        say("warning", text, None, RECORDING);
        return;
    }
    let untimed: u64 = rows.map(|c| c.untimed.saturating_sub(c.left_out)).sum();
    if untimed > 0 {
        let text = format!(
            "{} of {} commands {} no device time, and sampling is not why: the notes on the recording say more.",
            count(untimed as f64),
            count(report.totals.commands as f64),
            if untimed == 1 { "has" } else { "have" }
        );
        say("warning", text, None, RECORDING);
    }
}

/// Calls that failed, and what the reader of the trace found.
fn failures(report: &Report, out: &mut Vec<Said>) {
    if report.totals.errors > 0 {
        let failed = report.functions.iter().flat_map(|f| {
            f.error_codes.iter().map(move |(code, n)| {
                let name = clscope_trace::names::error(*code);
                let name = name.map_or_else(|| format!("error {code}"), str::to_owned);
                format!("{} with {name} ({})", f.name, count(*n as f64))
            })
        });
        let (n, s) = (report.totals.errors, if report.totals.errors == 1 { "" } else { "s" });
        out.push(Said {
            class: "warning",
            text: format!(
                "{} API call{s} failed: {}.",
                count(n as f64),
                failed.take(5).collect::<Vec<_>>().join(", ")
            ),
            remedy: Some("`clscope check` names the rule of each".to_owned()),
            to: CALLS,
        });
    }
    let mut said: BTreeMap<(&str, &str), (&Finding, usize)> = BTreeMap::new();
    let told = |i: &&Finding| sampled_issues(report).any(|of| std::ptr::eq(of, *i));
    for issue in report.issues.iter().filter(|i| i.severity != "note" && !told(i)) {
        said.entry((&issue.code, &issue.text)).or_insert((issue, 0)).1 += 1;
    }
    for (issue, n) in said.values().take(ISSUES) {
        let others = if *n > 1 { format!(" (and {} more)", n - 1) } else { String::new() };
        out.push(Said {
            class: if issue.severity == "error" { "error" } else { "warning" },
            text: format!("{}{others}: {}.", issue.subject, issue.text),
            remedy: issue.remedy.map(str::to_owned),
            to: RECORDING,
        });
    }
}
