//! Events as JSON objects.

use super::text::{flags, sizes};
use clscope_analysis::Trace;
use clscope_analysis::event::{Enqueued, Event, Kept, Mark, Outcome};
use clscope_analysis::host_memory::HostMemory;
use clscope_analysis::input::Definitions;
use clscope_analysis::time::{ProcessIndex, ThreadIndex};
use clscope_profile::sites::{Named, Sites};
use serde_json::{Map, Value, json};

fn enqueued_object(definitions: &Definitions, e: &Enqueued<'_>, site: Option<&Named>) -> Value {
    let c = &e.record;
    let sizes = sizes(definitions, c.geometry);
    let recorded = c.kind.is_kernel().then(|| definitions.recorded_names.get(&c.object)).flatten();
    json!({
        "command": c.id, "kind": c.kind.name(), "queue": c.queue,
        "kernel": c.kind.is_kernel().then(|| definitions.kernel_name(c.object)),
        "recorded_name": recorded,
        "object": c.object, "object2": c.object2, "bytes": c.bytes, "extra": c.extra,
        "probability": if c.kind.is_sampled() { c.probability() } else { None },
        "global": sizes.as_ref().map(|s| &s.0), "local": sizes.as_ref().and_then(|s| s.1.as_ref()), "offset": sizes.as_ref().and_then(|s| s.2.as_ref()),
        "host_memory": e.memory.map(HostMemory::text),
        "host_memory_object": match e.memory { Some(HostMemory::Given { object: object @ 1.., .. }) => Some(object), _ => None },
        "waits": e.waits().map(|w| w.map(|w| w.0)).collect::<Vec<_>>(), "flags": flags(c.flags),
        "called_from": site.map(|s| &s.frames),
    })
}

pub(super) fn object(trace: &Trace<'_>, sites: &Sites, event: &Event<'_>) -> Value {
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
