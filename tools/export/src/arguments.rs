//! Owns what a timeline tells of a call or a command besides its times: named values, the same in
//! every format. Refuses to know a format: each has a [`Sink`].

use crate::drawn::{DeviceSpan, NoTime};
use clscope_analysis::event::{Call, Enqueued, KeptArgument};
use clscope_analysis::input::Definitions;
use clscope_profile::sites::Named as Site;
use clscope_trace::defs::ArgumentKind;
use clscope_trace::names;
use clscope_trace::record::{error_text, flag};

/// A value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Argument<'v> {
    /// A count, an id, nanoseconds or bytes.
    Uint(u64),
    /// A signed number.
    Int(i64),
    /// Yes or no.
    Bool(bool),
    /// An exact number.
    Real(f64),
    /// An estimate: four digits of it mean something.
    Figure(f64),
    /// Words.
    Text(&'v str),
    /// Sizes by dimension.
    Sizes(&'v [u64]),
    /// A list of lines, or of names.
    Lines(&'v [&'v str]),
    /// Ids of commands; `None` where it is not known.
    Commands(&'v [Option<u64>]),
}

/// What takes arguments.
pub trait Sink {
    /// Takes one.
    fn put(&mut self, name: &str, value: Argument<'_>);
}

/// Four significant digits: more are noise, and cost bytes in every span. What is not finite is not
/// known, and `null` in JSON.
pub fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

/// The kernel's name, or what the command does.
pub fn command_name<'d>(
    enqueued: &Enqueued<'_>,
    definitions: &'d Definitions,
) -> std::borrow::Cow<'d, str> {
    let record = &enqueued.record;
    if record.kind.is_kernel() && record.object != 0 {
        definitions.kernel_name(record.object)
    } else {
        record.kind.name().into()
    }
}

/// What a command is, where it has no span of its own, and what it moves. Its kind is in the name of
/// the call that enqueues it.
pub fn of_command(
    enqueued: &Enqueued<'_>,
    definitions: &Definitions,
    site: Option<&Site>,
    bytes: u64,
    to: &mut impl Sink,
) {
    let record = &enqueued.record;
    to.put("command", Argument::Uint(record.id));
    if let Some(number) = definitions.queue_numbers.get(&record.queue) {
        to.put("queue", Argument::Uint((*number).into()));
    }
    if record.kind.is_kernel() {
        to.put("kernel", Argument::Text(&definitions.kernel_name(record.object)));
    }
    of_work(enqueued, definitions, site, bytes, to);
}

/// Which command a call enqueues that has a span of its own: that one says the rest.
pub fn of_submission(enqueued: &Enqueued<'_>, definitions: &Definitions, to: &mut impl Sink) {
    let record = &enqueued.record;
    to.put("command", Argument::Uint(record.id));
    if record.kind.is_kernel() {
        to.put("kernel", Argument::Text(&definitions.kernel_name(record.object)));
    }
}

/// What of a command neither the name of its span says nor that of the span's track.
fn of_work(
    enqueued: &Enqueued<'_>,
    definitions: &Definitions,
    site: Option<&Site>,
    bytes: u64,
    to: &mut impl Sink,
) {
    use Argument::{Figure, Lines, Sizes, Text, Uint};
    let record = &enqueued.record;
    if record.kind.is_kernel() {
        if let Some(recorded) = definitions.recorded_names.get(&record.object) {
            to.put("recorded_name", Text(recorded));
        }
    } else if record.object != 0 {
        to.put("object", Uint(record.object.into()));
    }
    if record.object2 != 0 {
        to.put("destination", Uint(record.object2.into()));
    }
    if let Some(geometry) = definitions.geometries.get(&record.geometry) {
        let dimensions = (geometry.dimensions as usize).min(3);
        to.put("global_size", Sizes(&geometry.global[..dimensions]));
        // Absent means that the runtime chose.
        if let Some(local) = &geometry.local {
            to.put("local_size", Sizes(&local[..dimensions]));
        }
        if let Some(offset) = &geometry.offset {
            to.put("global_offset", Sizes(&offset[..dimensions]));
        }
    }
    if bytes > 0 {
        to.put("bytes", Uint(bytes));
    }
    // Of one that was not chosen it weighs nothing.
    let probability = record.probability().filter(|_| enqueued.has(flag::TIMED));
    if let Some(probability) = probability.filter(|p| *p < 1.0) {
        to.put("sampling_probability", Figure(probability));
    }
    if let Some(site) = site {
        let lines: Vec<&str> = site.frames.iter().map(|f| f.text.as_str()).collect();
        to.put("called_from", Lines(&lines));
    }
}

/// What the enqueue call of a command tells besides the command.
pub fn of_enqueue(enqueued: &Enqueued<'_>, to: &mut impl Sink) {
    // Nearly no call is blocking: what is not said is not so.
    if enqueued.has(flag::BLOCKING) {
        to.put("blocking", Argument::Bool(true));
    }
    if enqueued.has(flag::NOT_SAMPLED) && !enqueued.has(flag::READ) {
        // There is no span for it: the call is all that is drawn.
        to.put("device_time", Argument::Text("not sampled"));
    }
    if enqueued.record.extra != 0 && !enqueued.record.kind.is_sampled() {
        to.put("flags", Argument::Text(&format!("{:#x}", enqueued.record.extra)));
    }
    let waits: Vec<Option<u64>> = enqueued.waits().map(|id| id.map(|id| id.0)).collect();
    if !waits.is_empty() {
        to.put("wait_list", Argument::Commands(&waits));
    }
}

/// The kept arguments of a call that enqueues nothing.
pub fn of_call(call: &Call<'_>, definitions: &Definitions, to: &mut impl Sink) {
    let Some(function) = definitions.function(call.function) else { return };
    for kept in call.arguments(function) {
        argument(&kept, definitions, to);
    }
}

/// What identical calls in a row took, where the span is of several.
pub fn of_run(call: &Call<'_>, to: &mut impl Sink) {
    let Some(run) = &call.run else { return };
    to.put("calls", Argument::Uint(run.count));
    for (name, ns) in [
        ("total_ns", run.total_ns),
        ("shortest_ns", run.shortest_ns),
        ("longest_ns", run.longest_ns),
    ] {
        to.put(name, Argument::Uint(ns));
    }
}

/// The error of a call that failed.
pub fn of_result(call: &Call<'_>, to: &mut impl Sink) {
    if call.result != 0 {
        to.put("error", Argument::Text(&error_text(call.result)));
    }
}

/// Why a command has no device time.
pub fn of_no_time(why: NoTime, to: &mut impl Sink) {
    to.put("reason", Argument::Text(why.reason));
    if why.status != 0 {
        to.put("status", Argument::Text(&error_text(why.status)));
    }
}

/// What a command with device time is, beside the names of its span and track.
pub fn of_device_command(
    enqueued: &Enqueued<'_>,
    definitions: &Definitions,
    site: Option<&Site>,
    to: &mut impl Sink,
) {
    to.put("command", Argument::Uint(enqueued.record.id));
    of_work(enqueued, definitions, site, enqueued.record.bytes, to);
}

/// How a command was placed, and what it waited for.
pub fn of_span(enqueued: &Enqueued<'_>, drawn: &DeviceSpan<'_>, to: &mut impl Sink) {
    use Argument::{Int, Real, Uint};
    let (record, placed, span) = (&enqueued.record, drawn.placed, drawn.span());
    if record.bytes > 0 && span.duration() > 0 && record.kind.direction().is_some() {
        // Bytes per nanosecond are gigabytes per second.
        let rate = record.bytes as f64 / span.duration() as f64;
        to.put("GB_per_s", Real((rate * 1000.0).round() / 1000.0));
    }
    to.put("clock_error_ns", Uint(placed.bound_ns));
    if placed.clamped_ns != 0 {
        to.put("moved_ns", Int(placed.clamped_ns));
    }
    // As the device reported them.
    let [queued, submit, start, _] = drawn.times.raw.map(|stamp| stamp.0);
    let between = |from: u64, to: u64| Int(to.wrapping_sub(from).cast_signed());
    // A runtime that does not know when it queued a command gives 0.
    if queued > 0 {
        to.put("queued_to_submit_ns", between(queued, submit));
    }
    to.put("submit_to_start_ns", between(submit, start));
    to.put("end_to_host_ns", Int(drawn.times.observed.0.saturating_sub(span.end.0)));
    // As the device reported it, where the drawn length is corrected for the drift of its clock.
    if drawn.times.duration() != span.duration() {
        to.put("device_duration_ns", Uint(drawn.times.duration()));
    }
}

fn argument(kept: &KeptArgument<'_>, definitions: &Definitions, to: &mut impl Sink) {
    use Argument::{Bool, Int, Text, Uint};
    let (name, value) = (&kept.argument.name, kept.value);
    match kept.argument.kind {
        ArgumentKind::Unsigned | ArgumentKind::Bytes | ArgumentKind::Event => {
            to.put(name, Uint(value));
        }
        ArgumentKind::Signed => to.put(name, Int(value as i64)),
        ArgumentKind::Flags | ArgumentKind::Pointer => to.put(name, Text(&format!("{value:#x}"))),
        ArgumentKind::Enum => match names::value(value) {
            Some(known) => to.put(name, Text(known)),
            None => to.put(name, Text(&format!("{value:#x}"))),
        },
        ArgumentKind::Bool => to.put(name, Bool(value != 0)),
        ArgumentKind::Object => match u32::try_from(value) {
            Ok(id) if name == "kernel" && definitions.kernels.contains_key(&id) => {
                to.put(name, Text(&format!("{} ({id})", definitions.kernel_name(id))));
            }
            _ => to.put(name, Uint(value)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_kept() {
        for (value, want) in [
            (123_456.0, 123_500.0),
            (0.000_123_456, 0.000_123_5),
            (0.0, 0.0),
            (-1.23456, -1.235),
            (1e308, 1e308),
        ] {
            let shown = rounded(value);
            assert!((shown - want).abs() <= 1e-9 * want.abs(), "{value}: {shown}");
        }
        for unknown in [f64::NAN, f64::INFINITY] {
            assert!(!rounded(unknown).is_finite(), "what is not known is no 0");
        }
    }
}
