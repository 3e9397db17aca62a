//! Events as lines for people.

use clscope_analysis::Trace;
use clscope_analysis::event::{Call, Command, Enqueued, Event, Kept, Mark, Outcome};
use clscope_analysis::host_memory::HostMemory;
use clscope_analysis::input::Definitions;
use clscope_analysis::time::{HostNs, ProcessIndex, ThreadIndex};
use clscope_profile::sites::{Named, Sites};
use clscope_trace::defs::ArgumentKind;
use clscope_trace::record::{error_text as error, flag};
use clscope_trace::replace;
use std::fmt::Write as _;

pub(super) fn who(trace: &Trace<'_>, process: ProcessIndex, thread: ThreadIndex) -> String {
    let p = trace.process(process);
    let tid = p
        .definitions
        .threads
        .get(&thread.0)
        .map_or_else(|| format!("#{}", thread.0), |t| t.tid.to_string());
    format!("{}/{tid}", p.header.pid)
}

/// Seconds since the timeline's origin with all nanoseconds.
fn clock(at: HostNs, origin: HostNs) -> String {
    let ns = at.0.saturating_sub(origin.0);
    format!(
        "{}{}.{:09}",
        if ns < 0 { "-" } else { "" },
        ns.unsigned_abs() / 1_000_000_000,
        ns.unsigned_abs() % 1_000_000_000
    )
}

fn result(code: i32) -> String {
    if code == 0 { "0".to_owned() } else { error(code) }
}

const FLAGS: [(u8, &str); 7] = [
    (flag::APP_EVENT, "event"),
    (flag::BLOCKING, "blocking"),
    (flag::TIMED, "timed"),
    (flag::APP_PROFILING, "app-profiling"),
    (flag::NOT_SAMPLED, "not-sampled"),
    (flag::REPEATED, "repeated"),
    (flag::READ, "read-by-application"),
];

pub(super) fn flags(bits: u8) -> Vec<&'static str> {
    FLAGS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect()
}

fn value(kind: ArgumentKind, value: u64) -> String {
    match kind {
        ArgumentKind::Signed => (value as i64).to_string(),
        ArgumentKind::Flags | ArgumentKind::Pointer | ArgumentKind::Enum => format!("{value:#x}"),
        ArgumentKind::Bool => (value != 0).to_string(),
        ArgumentKind::Object | ArgumentKind::Event => format!("#{value}"),
        ArgumentKind::Unsigned | ArgumentKind::Bytes => value.to_string(),
    }
}

pub(super) fn sizes(
    definitions: &Definitions,
    geometry: u32,
) -> Option<(String, Option<String>, Option<String>)> {
    let g = definitions.geometries.get(&geometry)?;
    let n = (g.dimensions as usize).clamp(1, 3);
    let join = |v: &[u64; 3]| replace::shown(&v[..n]);
    Some((join(&g.global), g.local.as_ref().map(join), g.offset.as_ref().map(join)))
}

/// The command of an enqueue, after its name.
fn enqueued(definitions: &Definitions, e: &Enqueued<'_>, site: Option<&Named>, out: &mut String) {
    let c = &e.record;
    let _ = write!(out, "command {}: {} queue=#{}", c.id, c.kind.name(), c.queue);
    if c.kind.is_kernel() {
        let _ = write!(out, " kernel={}", definitions.kernel_name(c.object));
    } else if c.object != 0 {
        let _ = write!(out, " object=#{}", c.object);
    }
    if c.object2 != 0 {
        let _ = write!(out, " to=#{}", c.object2);
    }
    if let Some((global, local, offset)) = sizes(definitions, c.geometry) {
        let _ = write!(out, " global={global}");
        local.map(|l| write!(out, " local={l}"));
        offset.map(|o| write!(out, " offset={o}"));
    }
    if c.bytes != 0 {
        let _ = write!(out, " bytes={}", c.bytes);
    }
    if let Some(memory) = e.memory {
        let _ = write!(out, " host={}", memory.text());
        if let HostMemory::Given { object: object @ 1.., .. } = memory {
            let _ = write!(out, " of=#{object}");
        }
    }
    if c.extra != 0 {
        let _ = match c.probability().filter(|_| c.kind.is_sampled()) {
            Some(p) => write!(out, " probability={p:.6}"),
            None => write!(out, " extra={:#x}", c.extra),
        };
    }
    if e.wait_count() > 0 {
        let ids: Vec<String> =
            e.waits().map(|w| w.map_or_else(|| "?".to_owned(), |w| w.0.to_string())).collect();
        let _ = write!(out, " waits=[{}]", ids.join(" "));
    }
    let _ = write!(out, " {}", flags(c.flags).join(","));
    if let Some(site) = site {
        let _ = write!(out, " from {}", site.name);
    }
}

pub(super) fn describe(
    trace: &Trace<'_>,
    sites: &Sites,
    event: &Event<'_>,
    origin: HostNs,
    out: &mut String,
) {
    match event {
        Event::Call(call) => call_line(trace, sites, call, origin, out),
        Event::Command(command) => command_line(trace, command, origin, out),
        Event::InCall { process, thread, function, begin } => {
            let name = trace.process(*process).definitions.function_name(*function);
            let _ = write!(
                out,
                "{:>16}  {:>15}  still in {name} at the end",
                clock(*begin, origin),
                who(trace, *process, *thread)
            );
        }
        Event::Mark { process, thread, at, mark } => {
            let _ =
                write!(out, "{:>16}  {:>15}  ", clock(*at, origin), who(trace, *process, *thread));
            let _ = match mark {
                Mark::Dropped { count, reason } => {
                    write!(out, "{count} records dropped: {}", reason.text())
                }
                Mark::Paused(true) => write!(out, "recording paused"),
                Mark::Paused(false) => write!(out, "recording went on"),
                Mark::Detail(of) => {
                    let [first, second, third] = of.values;
                    write!(
                        out,
                        "detail {} site=#{} values={first:#x},{second:#x},{third:#x}",
                        of.what, of.site
                    )
                }
                Mark::Unknown { kind } => write!(out, "record of unknown kind {kind}"),
            };
        }
    }
}

fn call_line(trace: &Trace<'_>, sites: &Sites, call: &Call<'_>, origin: HostNs, out: &mut String) {
    let definitions = &trace.process(call.process).definitions;
    let name = definitions.function_name(call.function);
    let _ = write!(
        out,
        "{:>16}  {:>15}  {name}(",
        clock(call.span.begin, origin),
        who(trace, call.process, call.thread)
    );
    match (&call.kept, definitions.function(call.function)) {
        (Kept::Enqueue(e), _) => {
            enqueued(definitions, e, sites.get(call.process, e.record.site), out)
        }
        (_, Some(function)) => {
            for (i, a) in call.arguments(function).enumerate() {
                let _ = write!(
                    out,
                    "{}{}={}",
                    if i == 0 { "" } else { ", " },
                    a.argument.name,
                    value(a.argument.kind, a.value)
                );
            }
        }
        (Kept::Plain { small, id }, None) => drop(write!(out, "#{id}, {small:#x}")),
        (Kept::Words(words), None) => drop(write!(out, "{:x?}", words.iter().collect::<Vec<_>>())),
    }
    let _ = write!(out, ") = {}  {} ns", result(call.result), call.span.duration());
    if let Some(run) = &call.run {
        let _ = write!(
            out,
            " for {} such calls in a row: {} ns inside, each {} to {} ns, the first {} ns",
            run.count, run.total_ns, run.shortest_ns, run.longest_ns, run.first_ns
        );
    }
}

fn command_line(trace: &Trace<'_>, command: &Command<'_>, origin: HostNs, out: &mut String) {
    let at = match &command.outcome {
        Outcome::Timed(times) => times.observed,
        _ => command.call.end,
    };
    let _ = write!(
        out,
        "{:>16}  {:>15}  command {} ",
        clock(at, origin),
        who(trace, command.process, command.thread),
        command.id().0
    );
    let _ = match &command.outcome {
        Outcome::Timed(t) => {
            let [queued, submit, start, end] = t.raw.map(|s| s.0);
            let _ = write!(
                out,
                "ran {} ns: QUEUED {queued} SUBMIT +{} START +{} END +{}",
                end - start,
                submit - queued,
                start - queued,
                end - queued
            );
            match &t.placed {
                Some(p) => write!(
                    out,
                    "; on the timeline from {} +-{} ns",
                    clock(p.stamps[2], origin),
                    p.bound_ns
                ),
                None => Ok(()),
            }
        }
        Outcome::Untimed { reason, detail: 0 } => write!(out, "has no time: {}", reason.text()),
        Outcome::Untimed { reason, detail } => {
            write!(out, "has no time: {} ({})", reason.text(), result(*detail))
        }
        Outcome::Unfinished(reason) => write!(out, "has no end: {}", reason.text()),
    };
}
