//! `clscope dump`: everything a trace holds, one line each: definitions in the order they were
//! written, then events in time order. For people and for `grep`; `--format json` gives one object
//! a line. Refuses to sum up.
#![forbid(unsafe_code)]

use crate::report::{refuse_unreadable, warn};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use clscope_analysis::Trace;
use clscope_analysis::event::{Call, Command, Enqueued, Event, Kept, Mark, Outcome};
use clscope_analysis::input::Definitions;
use clscope_analysis::missing::{self, Missing};
use clscope_analysis::time::{HostNs, ProcessIndex, ThreadIndex};
use clscope_io::text::Shown;
use clscope_profile::changes;
use clscope_profile::counters::snapshots;
use clscope_profile::sites::{Named, Sites};
use clscope_profile::trace_files::TraceFiles;
use clscope_trace::defs::{ArgumentKind, ClockMarker, Def, Defs, Mix};
use clscope_trace::record::{error_text as error, flag};
use serde_json::{Map, Value, json};
use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

/// Options of `clscope dump`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope dump | less
  clscope dump run.clscope | grep clCreateBuffer
  clscope dump --format json | jq 'select(.event == \"command\")'")]
pub struct Args {
    /// Trace directories; the newest of the working directory if none is named
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Lines for people, or one JSON object a line
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text.
    Text,
    /// JSON lines. Times are nanoseconds on the timeline.
    Json,
}

/// Runs the command.
///
/// # Errors
/// If there is no such trace, or the output cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let files = TraceFiles::open(&args.traces)?;
    let mut out = match args.format {
        Format::Text => crate::output::screen(),
        Format::Json => crate::output::json(),
    };
    let (lines, issues) =
        write(&files, args.format, &mut out).context("could not write the dump")?;
    out.flush().context("could not write the dump")?;
    drop(out);
    if lines == 0 && refuse_unreadable(&issues) {
        bail!("nothing of {} could be read", files.names().join(", "));
    }
    warn(&issues);
    Ok(())
}

/// Writes the lines; returns how many, and what is wrong with the trace.
fn write(
    files: &TraceFiles,
    format: Format,
    out: &mut impl Write,
) -> Result<(u64, Vec<crate::report::Finding>)> {
    let mut lines = 0;
    let trace = files.trace();
    for text in changes::of(&trace).iter().flat_map(changes::Changes::lines) {
        lines += 1;
        match format {
            Format::Text => writeln!(out, "changed: {}", Shown(&text))?,
            Format::Json => line(out, &json!({ "event": "changed", "text": text }))?,
        }
    }
    for (label, bytes) in files.definitions() {
        // An unreadable header was reported on opening.
        if clscope_trace::FileHeader::decode_as(bytes, clscope_trace::FileKind::Defs).is_err() {
            continue;
        }
        for def in Defs::new(bytes) {
            lines += 1;
            match format {
                Format::Text => writeln!(out, "{:>24}  {}", Shown(label), one_line(&def))?,
                Format::Json => line(
                    out,
                    &json!({ "event": "definition", "process": label, "definition": definition(&def) }),
                )?,
            }
        }
    }
    let sites = Sites::of(&trace);
    let alignment = trace.align();
    let origin = trace.origin();
    let around = snapshots::read(&trace, files.sensors());
    let mut events = trace.events(Some(&alignment));
    let mut text = String::new();
    let mut missing = vec![Missing::default(); trace.processes.len()];
    for event in events.by_ref() {
        missing::observe(&mut missing, &event);
        lines += 1;
        match format {
            Format::Text => {
                text.clear();
                describe(&trace, &sites, &event, origin, &mut text);
                writeln!(out, "{text}")?;
                if let Event::Command(command) = &event {
                    counted(&trace, command, &around, out)?;
                }
            }
            Format::Json => {
                let mut value = object(&trace, &sites, &event);
                if let (Event::Command(command), Some(of)) = (&event, value.as_object_mut()) {
                    let own: Vec<Value> = around
                        .iter()
                        .filter_map(|a| a.value(command.process.0 as usize, command))
                        .collect();
                    if !own.is_empty() {
                        of.insert("counters".to_owned(), own.into());
                    }
                }
                line(out, &value)?;
            }
        }
    }
    let mut issues = trace.issues_after(events.tally(), Some(&alignment));
    issues.extend(missing::issues(&trace, &missing));
    Ok((lines, issues.iter().map(Into::into).collect()))
}

/// What was read around a command, a line for each source.
fn counted(
    trace: &Trace<'_>,
    command: &Command<'_>,
    around: &[snapshots::Around],
    out: &mut impl Write,
) -> Result<()> {
    for source in around {
        if let Some(text) = source.text(command.process.0 as usize, command) {
            let who = who(trace, command.process, command.thread);
            writeln!(out, "{:>16}  {who:>15}  counters of command {}: {text}", "", command.id().0)?;
        }
    }
    Ok(())
}

fn line(out: &mut impl Write, value: &Value) -> Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    Ok(out.write_all(b"\n")?)
}

/// A definition in one line: its kind, then its fields as JSON writes them, which keeps the many
/// lines of a build log in one. What is absent is left out.
fn one_line(def: &Def) -> String {
    let fields = definition(def);
    let Value::Object(mut fields) = fields else { return fields.to_string() };
    let mut out =
        fields.remove("kind").and_then(|k| k.as_str().map(str::to_owned)).unwrap_or_default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let _ = write!(out, " {name}={value}");
    }
    out
}

fn who(trace: &Trace<'_>, process: ProcessIndex, thread: ThreadIndex) -> String {
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

fn flags(bits: u8) -> Vec<&'static str> {
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

fn sizes(
    definitions: &Definitions,
    geometry: u32,
) -> Option<(String, Option<String>, Option<String>)> {
    let g = definitions.geometries.get(&geometry)?;
    let n = (g.dimensions as usize).clamp(1, 3);
    let join = |v: &[u64; 3]| v[..n].iter().map(u64::to_string).collect::<Vec<_>>().join("x");
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

fn describe(trace: &Trace<'_>, sites: &Sites, event: &Event<'_>, origin: HostNs, out: &mut String) {
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

fn enqueued_object(definitions: &Definitions, e: &Enqueued<'_>, site: Option<&Named>) -> Value {
    let c = &e.record;
    let sizes = sizes(definitions, c.geometry);
    json!({
        "command": c.id, "kind": c.kind.name(), "queue": c.queue,
        "kernel": c.kind.is_kernel().then(|| definitions.kernel_name(c.object)),
        "object": c.object, "object2": c.object2, "bytes": c.bytes, "extra": c.extra,
        "probability": if c.kind.is_sampled() { c.probability() } else { None },
        "global": sizes.as_ref().map(|s| &s.0), "local": sizes.as_ref().and_then(|s| s.1.as_ref()), "offset": sizes.as_ref().and_then(|s| s.2.as_ref()),
        "waits": e.waits().map(|w| w.map(|w| w.0)).collect::<Vec<_>>(), "flags": flags(c.flags),
        "called_from": site.map(|s| &s.frames),
    })
}

fn object(trace: &Trace<'_>, sites: &Sites, event: &Event<'_>) -> Value {
    let place = |process: ProcessIndex, thread: ThreadIndex| {
        let p = trace.process(process);
        (p.label.as_str(), p.definitions.threads.get(&thread.0).map(|t| t.tid))
    };
    match event {
        Event::Call(call) => {
            let definitions = &trace.process(call.process).definitions;
            let (label, tid) = place(call.process, call.thread);
            let arguments: Map<String, Value> = definitions
                .function(call.function)
                .map(|f| {
                    call.arguments(f).map(|a| (a.argument.name.clone(), a.value.into())).collect()
                })
                .unwrap_or_default();
            let enqueue = if let Kept::Enqueue(e) = &call.kept {
                Some(enqueued_object(definitions, e, sites.get(call.process, e.record.site)))
            } else {
                None
            };
            json!({
                "event": "call", "process": label, "thread": call.thread.0, "tid": tid, "function": definitions.function_name(call.function),
                "begin_ns": call.span.begin.0, "end_ns": call.span.end.0, "result": call.result, "arguments": arguments, "enqueue": enqueue,
                "run": call.run.map(|r| json!({
                    "count": r.count, "total_ns": r.total_ns, "shortest_ns": r.shortest_ns, "longest_ns": r.longest_ns, "first_ns": r.first_ns,
                })),
            })
        }
        Event::Command(command) => {
            let definitions = &trace.process(command.process).definitions;
            let (label, tid) = place(command.process, command.thread);
            let (mut times, mut why) = (Value::Null, Value::Null);
            match &command.outcome {
                Outcome::Timed(t) => {
                    times = json!({
                        "device_ns": t.raw.map(|s| s.0), "observed_ns": t.observed.0,
                        "host_ns": t.placed.map(|p| p.stamps.map(|s| s.0)), "bound_ns": t.placed.map(|p| p.bound_ns), "moved_ns": t.placed.map(|p| p.clamped_ns),
                    });
                }
                Outcome::Untimed { reason, .. } => why = reason.text().into(),
                Outcome::Unfinished(reason) => why = reason.text().into(),
            }
            json!({
                "event": "command", "process": label, "thread": command.thread.0, "tid": tid, "enqueue_begin_ns": command.call.begin.0,
                "enqueue_end_ns": command.call.end.0, "enqueue": enqueued_object(definitions, &command.enqueued, sites.get(command.process, command.enqueued.record.site)), "times": times, "no_time": why,
            })
        }
        Event::InCall { process, thread, function, begin } => {
            let (label, tid) = place(*process, *thread);
            let name = trace.process(*process).definitions.function_name(*function);
            json!({ "event": "in_call", "process": label, "thread": thread.0, "tid": tid, "function": name, "begin_ns": begin.0 })
        }
        Event::Mark { process, thread, at, mark } => {
            let (label, tid) = place(*process, *thread);
            let what = match mark {
                Mark::Dropped { count, reason } => {
                    json!({ "dropped": count, "reason": reason.text() })
                }
                Mark::Paused(on) => json!({ "paused": on }),
                Mark::Detail(of) => {
                    json!({ "detail": of.what, "site": of.site, "values": of.values })
                }
                Mark::Unknown { kind } => json!({ "unknown_kind": kind }),
            };
            json!({ "event": "mark", "process": label, "thread": thread.0, "tid": tid, "at_ns": at.0, "mark": what })
        }
    }
}

/// A definition as an object: its kind and its fields.
fn definition(def: &Def) -> Value {
    macro_rules! fields {
        ($kind:literal, $d:ident, $($field:ident),*) => { json!({ "kind": $kind, $(stringify!($field): $d.$field),* }) };
    }
    match def {
        Def::Process(d) => fields!(
            "Process",
            d,
            pid,
            ppid,
            executable,
            arguments,
            directory,
            host,
            mpi_rank,
            mpi_size,
            recorder,
            injection,
            device_timing,
            rings_survive,
            settings
        ),
        Def::Function(d) => {
            let arguments: Vec<Value> = d
                .arguments
                .iter()
                .map(|a| json!({ "name": a.name, "kind": format!("{:?}", a.kind) }))
                .collect();
            let small: Vec<Value> =
                d.small.iter().map(|s| json!({ "argument": s.argument, "bits": s.bits })).collect();
            json!({ "kind": "Function", "id": d.id, "name": d.name, "origin": d.origin, "group": d.group, "arguments": arguments, "small": small, "object": d.object })
        }
        Def::Anchor(d) => fields!("Anchor", d, ticks, raw, monotonic, realtime, width),
        Def::Thread(d) => fields!("Thread", d, index, tid, name),
        Def::Platform(d) => fields!("Platform", d, id, name, vendor, version),
        Def::Device(d) => fields!(
            "Device",
            d,
            id,
            platform,
            name,
            vendor,
            driver,
            version,
            device_type,
            compute_units,
            clock_mhz,
            global_memory,
            timer_resolution,
            pci,
            parent,
            uuid
        ),
        Def::Context(d) => fields!("Context", d, id, devices),
        Def::Queue(d) => fields!("Queue", d, id, context, device, properties, profiling_added),
        Def::Program(d) => fields!("Program", d, id, context, origin, hash, bytes),
        Def::Build(d) => fields!("Build", d, program, function, options, result, log),
        Def::Kernel(d) => fields!("Kernel", d, id, program, name),
        Def::Geometry(d) => fields!("Geometry", d, id, dimensions, offset, global, local),
        Def::Exit(d) => fields!("Exit", d, ticks, pending),
        Def::Warning(d) => fields!("Warning", d, code, text),
        Def::Calibration(d) => fields!("Calibration", d, name, device, value, uncertainty),
        Def::Replay(d) => {
            let mut line = fields!(
                "Replay",
                d,
                kernel,
                queue,
                global,
                local,
                bytes,
                key,
                scalars,
                before,
                stamped_ns,
                per_restoration,
                quiet,
                refused,
                saved
            );
            line["command"] = clscope_trace::record::CommandKind::from_u8(d.command).name().into();
            let batches =
                d.batches.iter().map(|b| json!({ "begin": b.begin, "end": b.end, "count": b.count, "restores_only": b.restores_only }));
            line["batches"] = batches.collect();
            line
        }
        Def::Module(d) => fields!("Module", d, id, path, build_id, base, begin, end),
        Def::CallSite(d) => {
            let frames: Vec<Value> = d
                .frames
                .iter()
                .map(|f| json!({ "module": f.module, "address": f.address }))
                .collect();
            json!({ "kind": "CallSite", "id": d.id, "frames": frames })
        }
        Def::ClockMarkers(d) => {
            let one = |m: &ClockMarker| json!({ "before": m.before, "after": m.after, "queued": m.queued, "submit": m.submit });
            json!({ "kind": "ClockMarkers", "queue": d.queue, "markers": d.markers.iter().map(one).collect::<Vec<_>>() })
        }
        Def::Code(d) => fields!("Code", d, program, device, language, hash, bytes, missing),
        Def::Resources(d) => fields!(
            "Resources",
            d,
            kernel,
            device,
            work_group,
            multiple,
            local,
            private,
            required,
            registers,
            spill_stores,
            spill_loads
        ),
        Def::Mix(d) => mix(d),
        Def::Capture(d) => fields!(
            "Capture", d, kernel, queue, launch, command, folder, bytes, refused, again, took
        ),
        Def::Replaced(d) => fields!("Replaced", d, kernel, from, file, program, refused),
        Def::LocalSize(d) => {
            fields!("LocalSize", d, kernel, device, global, asked, wanted, refused)
        }
        Def::AppendedOptions(d) => {
            fields!("AppendedOptions", d, program, options, refused, log)
        }
        Def::Unknown { kind } => json!({ "kind": "Unknown", "number": kind }),
    }
}

fn mix(d: &Mix) -> Value {
    let arguments = d
        .arguments
        .iter()
        .map(|a| json!({ "index": a.index, "kind": a.kind, "size": a.size, "value": a.value }));
    let classes = d.classes.iter().map(|c| {
        json!({ "class": c.class, "threads": c.threads, "warps": c.warps, "flop": c.flop, "bytes": c.bytes, "predicated": c.predicated })
    });
    let blocks = d
        .blocks
        .iter()
        .map(|b| json!({ "block": b.block, "threads": b.threads, "warps": b.warps }));
    json!({
        "kind": "Mix",
        "kernel": d.kernel,
        "queue": d.queue,
        "device": d.device,
        "offset": d.offset,
        "global": d.global,
        "local": d.local,
        "before": d.before,
        "refused": d.refused,
        "arguments": arguments.collect::<Vec<_>>(),
        "language": d.language,
        "code": d.code,
        "entered": d.entered,
        "classes": classes.collect::<Vec<_>>(),
        "blocks": blocks.collect::<Vec<_>>(),
        "unknown": d.unknown,
        "took": d.took,
        "counted_ns": d.counted_ns,
        "saved": d.saved,
        "loops": d.loops,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
    use std::fs;

    fn dump(format: Format) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.clscope");
        fs::create_dir(&path).unwrap();
        let host = HostModel::default();
        let mut p = ProcessBuilder::standard(host, 9, 1);
        p.thread(0)
            .plain(function::SET_ARG, 1_000, 1_500, 2 | (8 << 8), 1)
            .enqueue(2_000, 3_000, &CommandSpec { waits: &[1, 0], ..CommandSpec::kernel(7, 1, 1) })
            .call(function::CREATE_BUFFER, 4_000, 5_000, -61, &[0, 1, 4096])
            .timing(
                9_000,
                7,
                [host.raw + 2_100, host.raw + 2_200, host.raw + 3_000, host.raw + 8_000],
            );
        p.in_calls.push((0, function::FINISH, 9_500));
        let bytes = p.build();
        fs::write(path.join("9-0.defs"), &bytes.defs).unwrap();
        fs::write(path.join("9-0.0.clt"), &bytes.segment).unwrap();
        fs::write(path.join("9-0.ring"), &bytes.ring).unwrap();
        let files = TraceFiles::open(&[path]).unwrap();
        let mut out = Vec::new();
        let (lines, issues) = write(&files, format, &mut out).unwrap();
        assert_eq!(lines as usize, out.iter().filter(|b| **b == b'\n').count());
        assert_eq!(
            issues.iter().map(|i| i.code.as_str()).collect::<Vec<_>>(),
            ["not-ended", "ended-in-call"]
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn every_line_says_what_happened() {
        let text = dump(Format::Text);
        for wanted in [
            "     0.000000000              9/9  clSetKernelArg(kernel=#1, arg_index=2, arg_size=8) = 0  500 ns\n",
            "     0.000001000              9/9  clEnqueueNDRangeKernel(command 7: NDRangeKernel queue=#1 kernel=matmul global=1024 local=64 waits=[1 ?] timed) = 0  1000 ns\n",
            "     0.000003000              9/9  clCreateBuffer(return=#0, flags=0x1, size=4096) = CL_INVALID_BUFFER_SIZE (-61)  1000 ns\n",
            "  command 7 ran 5000 ns: QUEUED 5000002100 SUBMIT +100 START +900 END +5900; on the timeline from 0.00000",
            "  still in clFinish at the end\n",
            "t.clscope/9-0  Kernel id=2 name=\"reduce\" program=1\n",
        ] {
            assert!(text.contains(wanted), "{wanted}\nin\n{text}");
        }
    }

    #[test]
    fn json_lines_hold_the_same() {
        let lines: Vec<Value> =
            dump(Format::Json).lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let of = |event: &str| lines.iter().filter(|l| l["event"] == event).collect::<Vec<_>>();
        assert_eq!((of("call").len(), of("command").len(), of("in_call").len()), (3, 1, 1));
        assert_eq!(of("call")[1]["enqueue"]["waits"], json!([1, null]));
        assert_eq!(of("command")[0]["times"]["device_ns"][3], 5_000_008_000u64);
        assert!(
            of("definition")
                .iter()
                .any(|d| d["definition"]["kind"] == "Geometry"
                    && d["definition"]["global"][0] == 1024)
        );
    }
}
