//! Definitions as JSON objects, and in one line each.
#![forbid(unsafe_code)]

use clscope_trace::defs::{Capture, ClockMarker, Def, Mix, ReplayBatch};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// A definition in one line: its kind, then its fields as JSON writes them, which keeps the many
/// lines of a build log in one. What is absent is left out.
pub(super) fn one_line(fields: Value) -> String {
    let Value::Object(mut fields) = fields else { return fields.to_string() };
    let mut out =
        fields.remove("kind").and_then(|k| k.as_str().map(str::to_owned)).unwrap_or_default();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        let _ = write!(out, " {name}={value}");
    }
    out
}

/// A definition as an object: its kind and its fields.
pub(super) fn definition(def: &Def) -> Value {
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
            let one = |b: &ReplayBatch| json!({ "begin": b.begin, "end": b.end, "count": b.count, "restores_only": b.restores_only });
            line["batches"] = d.batches.iter().map(one).collect();
            line["trials"] = d.trials.iter().map(one).collect();
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
        Def::Capture(d) => capture(d),
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

fn capture(d: &Capture) -> Value {
    let copies =
        d.copies.iter().map(|c| json!({ "start": c.start, "end": c.end, "bytes": c.bytes }));
    json!({
        "kind": "Capture",
        "kernel": d.kernel,
        "queue": d.queue,
        "launch": d.launch,
        "command": d.command,
        "folder": d.folder,
        "bytes": d.bytes,
        "refused": d.refused,
        "again": d.again,
        "took": d.took,
        "copies": copies.collect::<Vec<_>>(),
        "begun": d.begun,
        "seen": d.seen,
    })
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
    let transactions =
        d.transactions.iter().map(|t| json!({ "class": t.class, "transactions": t.transactions }));
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
        "transactions": transactions.collect::<Vec<_>>(),
    })
}
