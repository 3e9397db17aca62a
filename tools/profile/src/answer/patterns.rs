//! Owns what an application does again and again although once, or less often, would do: builds of
//! one text, buffers of one kind, a wait after each launch, questions whether a command is complete.
//! Refuses to judge what it costs beyond the time in these calls.

use super::data::{BufferRow, Pattern};
use super::{bytes, count, time};
use crate::report::Report;
use clscope_analysis::Trace;
use clscope_analysis::stats::buffers::MAKING;
use std::collections::BTreeMap;

/// Fewer times are no pattern.
const OFTEN: u64 = 10;
/// Fewer builds of one text are none.
const BUILDS: u64 = 3;
/// Launches for each wait or buffer, up to which it belongs to each launch.
const PER_LAUNCH: f64 = 1.25;

/// Patterns, those that take the most of the host's time first.
pub fn patterns(report: &Report, trace: &Trace<'_>, buffers: &[BufferRow]) -> Vec<Pattern> {
    let launches: u64 = report.kernels.iter().map(|kernel| kernel.count).sum();
    let calls = |name: &str| report.functions.iter().find(|f| f.name == name);
    let mut out = Vec::new();
    out.extend(builds(report, trace));
    for row in buffers.iter().filter(|row| row.made >= OFTEN) {
        let made = count(row.made, "buffer", "buffers");
        let per_launch = 1.0 / PER_LAUNCH..=PER_LAUNCH;
        let each = match per_launch.contains(&(launches as f64 / row.made as f64)) {
            true => ", one for each launch",
            false => "",
        };
        let making = MAKING.into_iter().filter_map(calls);
        let ns = making.map(|f| f.time_ns.total).sum::<u128>() as f64;
        let all: u64 = buffers.iter().map(|row| row.made).sum();
        out.push(Pattern {
            kind: "buffers",
            text: format!("makes {made} of {} {}{each}", bytes(row.bytes as f64), row.flags),
            times: row.made,
            time_ns: Some(ns * row.made as f64 / all.max(1) as f64),
        });
    }
    for wait in &report.waits {
        let f = &wait.function;
        let ns = f.time_ns.total as f64;
        if f.name == "clGetEventInfo" && f.calls >= OFTEN {
            out.push(Pattern {
                kind: "polling",
                text: format!("waits by asking: clGetEventInfo {} times in {}", f.calls, time(ns)),
                times: f.calls,
                time_ns: Some(ns),
            });
        } else if f.calls >= OFTEN
            && f.name != "clFlush"
            && (launches as f64) <= PER_LAUNCH * f.calls as f64
            && launches >= OFTEN
        {
            out.push(Pattern {
                kind: "wait-for-each-launch",
                text: format!(
                    "waits in {} {} times for {}",
                    f.name,
                    f.calls,
                    count(launches, "launch", "launches")
                ),
                times: f.calls,
                time_ns: Some(ns),
            });
        }
    }
    out.sort_by(|a, b| b.time_ns.unwrap_or(0.0).total_cmp(&a.time_ns.unwrap_or(0.0)));
    out
}

/// Programs of one text, where it is built again and again.
fn builds(report: &Report, trace: &Trace<'_>) -> Option<Pattern> {
    let mut texts: BTreeMap<&str, (u64, Vec<&str>)> = BTreeMap::new();
    for d in trace.processes.iter().map(|process| &process.definitions) {
        for program in d.programs.values().filter(|p| p.origin == "source" && !p.hash.is_empty()) {
            let Some(options) = d.build_options.get(&program.id) else { continue };
            let (programs, known) = texts.entry(program.hash.as_str()).or_default();
            *programs += 1;
            known.push(options.as_str());
        }
    }
    let (programs, mut options) = texts.into_values().max_by_key(|(programs, _)| *programs)?;
    // Processes of one job build it once each.
    let once = trace.processes.len().max(1) as u64;
    if programs < BUILDS * once {
        return None;
    }
    options.sort_unstable();
    options.dedup();
    let with = match options.len() {
        1 => "the same options".to_owned(),
        n => format!("{n} different options"),
    };
    let ns = report.functions.iter().find(|f| f.name == "clBuildProgram");
    Some(Pattern {
        kind: "builds",
        text: format!("builds one text {programs} times, with {with}"),
        times: programs,
        time_ns: ns.map(|f| f.time_ns.total as f64),
    })
}
