//! Owns the writing of a timeline in Chrome's trace-event format, one event at a time: memory does
//! not grow with the trace. Refuses to format JSON by hand and to show anything the trace does not
//! hold.
//!
//! Times are microseconds with three decimals, which is nanosecond precision. Host calls and device
//! commands are complete events (`X`), arrows from the enqueue call to the command are flows (`s`,
//! `f`), what belongs to a moment is an instant (`i`). Commands without an end are instants on
//! their queue: any length drawn for them would be invented.

use super::arguments::{self, Argument, Sink, command_name};
use super::drawn::{self, DeviceSpan, Drawn, NoTime};
use super::layout::{Layout, Named, Track};
use super::power::Power;
use super::values::Values;
use super::{ExportError, Summary};
use clscope_analysis::Trace;
use clscope_analysis::event::{Call, Command, Event, Kept, Mark};
use clscope_analysis::merge::Tally;
use clscope_analysis::missing::{self, Missing};
use clscope_analysis::time::{HostNs, Span};
use clscope_profile::changes;
use clscope_profile::energy::activity::Grouping;
use clscope_profile::profile::View;
use clscope_profile::sites::Named as Site;
use clscope_trace::record::flag;
use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{BufWriter, Write};

/// A timeline to be written.
pub struct Document<'v, 'a> {
    /// What was recorded, and what is known of it.
    pub view: &'v View<'a>,
    /// Its sensors.
    pub power: &'v Power,
    /// Names of the trace directories.
    pub sources: &'v [String],
}

impl Document<'_, '_> {
    /// Writes the whole document.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> Result<Summary, ExportError> {
        // The serializer writes a few bytes at a time. What is as large as the buffer of a file
        // goes past that one, and is not copied twice.
        let mut out = BufWriter::with_capacity(1 << 18, out);
        let events = Events {
            document: self,
            summary: RefCell::default(),
            tally: RefCell::default(),
            missing: RefCell::default(),
        };
        let mut serializer = serde_json::Serializer::new(&mut out);
        let mut document = serializer.serialize_map(None)?;
        document.serialize_entry("displayTimeUnit", "ns")?;
        document.serialize_entry("traceEvents", &events)?;
        let mut summary = events.summary.take();
        let (trace, alignment) = (self.view.trace(), self.view.alignment());
        summary.issues = trace.issues_after(&events.tally.take(), Some(alignment));
        summary.issues.extend(missing::issues(trace, &events.missing.take()));
        document.serialize_entry("otherData", &other_data(self, &summary))?;
        SerializeMap::end(document)?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(summary)
    }
}

fn other_data(document: &Document<'_, '_>, summary: &Summary) -> Value {
    json!({
        "clscope": env!("CARGO_PKG_VERSION"),
        "traces": document.sources,
        // What the run changed of its application; empty for a plain run.
        "changed": changes::recorded_changes(document.view.trace()).map(|c| c.lines()).unwrap_or_default(),
        "origin_ns": document.view.trace().origin().0,
        "clock": "CLOCK_MONOTONIC_RAW of the first host, from origin_ns",
        "energy": document.power.told,
        // Launches without a device span because only a random part was timed; each call says its
        // own.
        "not_sampled": summary.not_sampled,
        "warnings": summary.warnings(),
    })
}

/// The array of events; serializing it reads the trace once.
struct Events<'t, 'a> {
    document: &'t Document<'t, 'a>,
    summary: RefCell<Summary>,
    tally: RefCell<Vec<Tally>>,
    missing: RefCell<Vec<Missing>>,
}

/// One event. Fields the phase does not have are left out.
#[derive(Debug, Default, Serialize)]
struct Entry<'n> {
    ph: &'static str,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    name: &'n str,
    #[serde(skip_serializing_if = "str::is_empty")]
    cat: &'n str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// Binds the end of an arrow to the span around it.
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
    /// Scope of an instant: t thread, p process.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    /// A colour by name, for errors; chrome://tracing knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cname: Option<&'static str>,
    #[serde(skip_serializing_if = "Values::is_empty")]
    args: Values,
}

impl<'n> Entry<'n> {
    fn new(ph: &'static str, track: Track, name: &'n str, cat: &'n str) -> Self {
        Self { ph, pid: track.pid, tid: track.tid, name, cat, ..Self::default() }
    }
}

/// Microseconds. Division by 1000 gives the double nearest to the decimal with three places, and
/// the serializer prints the shortest text that reads back as that double: those three places, up
/// to some days of nanoseconds.
fn microseconds(ns: i64) -> f64 {
    ns as f64 / 1000.0
}

impl Serialize for Events<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Document { view, power, .. } = *self.document;
        let (trace, by) = (view.trace(), view.grouping());
        let mut pen = Pen {
            out: serializer.serialize_seq(None)?,
            trace,
            power,
            by,
            layout: Layout::new(trace),
            origin: trace.origin(),
            end: trace.bounds().map_or(trace.origin(), |b| b.end),
            flows: 0,
            summary: Summary::default(),
        };
        pen.new_tracks()?;
        pen.counters()?;
        pen.repeated()?;
        let mut events = trace.events(Some(view.alignment()));
        let mut missing = vec![Missing::default(); trace.processes.len()];
        // Looked at where it lies: events are large.
        while let Some(event) = &events.next() {
            missing::observe(&mut missing, event);
            pen.event(event)?;
        }
        self.missing.replace(missing);
        self.tally.replace(events.tally().to_vec());
        self.summary.replace(pen.summary);
        SerializeSeq::end(pen.out)
    }
}

struct Pen<'t, 'a, S> {
    out: S,
    trace: &'t Trace<'a>,
    power: &'t Power,
    by: Grouping<'t>,
    layout: Layout,
    origin: HostNs,
    end: HostNs,
    flows: u64,
    summary: Summary,
}

impl<'t, S: SerializeSeq> Pen<'t, '_, S> {
    fn at(&self, time: HostNs) -> Option<f64> {
        Some(microseconds(time.0.saturating_sub(self.origin.0)))
    }

    fn put(&mut self, entry: Entry<'_>) -> Result<(), S::Error> {
        self.out.serialize_element(&entry)
    }

    /// Names of tracks, before the first event on them.
    fn new_tracks(&mut self) -> Result<(), S::Error> {
        for named in self.layout.take_new() {
            let (track, names, name, order) = match named {
                Named::Group { pid, name, order } => {
                    (Track { pid, tid: pid }, ["process_name", "process_sort_index"], name, order)
                }
                Named::Track { track, name, order } => {
                    (track, ["thread_name", "thread_sort_index"], name, order)
                }
            };
            let mut entry = Entry::new("M", track, names[0], "");
            entry.args.put("name", Argument::Text(&name));
            self.put(entry)?;
            let mut entry = Entry::new("M", track, names[1], "");
            entry.args.put("sort_index", Argument::Int(order.into()));
            self.put(entry)?;
        }
        Ok(())
    }

    /// A track per sensor, in the group of its host's first process.
    fn counters(&mut self) -> Result<(), S::Error> {
        let (power, origin) = (self.power, self.origin);
        if power.counters.is_empty() {
            return Ok(());
        }
        self.new_tracks()?;
        for counter in &power.counters {
            let track = self.layout.sensors(self.trace, counter.host);
            // Readings from before the first call would make the timeline begin with emptiness.
            for (time, value) in counter.points.iter().filter(|p| p.0 >= origin) {
                let mut entry = Entry::new("C", track, &counter.name, "sensor");
                entry.ts = self.at(*time);
                // A viewer holds a value until the next one. JSON has no word for one that is not
                // known; Perfetto reads this one as such, and refuses null.
                let is_known = value.is_finite();
                let value = if is_known { Argument::Figure(*value) } else { Argument::Text("NaN") };
                entry.args.put(&counter.unit, value);
                self.put(entry)?;
            }
        }
        Ok(())
    }

    /// What the recorder repeated, on tracks of its own.
    fn repeated(&mut self) -> Result<(), S::Error> {
        let (power, trace) = (self.power, self.trace);
        for batch in &power.repeated {
            let track = self.layout.repeated(trace, batch.process, batch.queue);
            self.new_tracks()?;
            let mut entry = Entry::new("X", track, &batch.name, "repeated");
            entry.ts = self.at(batch.span.begin);
            entry.dur = Some(microseconds(batch.span.duration() as i64));
            entry.args.put("repetitions", Argument::Uint(batch.count));
            if let Some(watts) = &batch.watts {
                entry.args.put("power_W", Argument::Figure(watts.value));
            }
            self.put(entry)?;
        }
        Ok(())
    }

    fn event(&mut self, event: &Event<'_>) -> Result<(), S::Error> {
        match event {
            Event::Call(call) => self.call(call),
            Event::Command(command) => self.command(command),
            Event::InCall { process, thread, function, begin } => {
                let trace = self.trace;
                let definitions = &trace.process(*process).definitions;
                let track = self.layout.thread(trace, *process, *thread);
                self.new_tracks()?;
                let name = definitions.function_name(*function);
                let name = format!("{name} (in progress)");
                let mut entry = Entry::new("X", track, &name, "host,in progress");
                entry.ts = self.at(*begin);
                entry.dur = Some(microseconds(self.end.0.saturating_sub(begin.0).max(0)));
                entry.cname = Some("bad");
                entry.args.put(
                    "state",
                    Argument::Text(
                        "the process ended, or the trace was read, while the thread was in this call",
                    ),
                );
                self.put(entry)
            }
            Event::Mark { process, thread, at, mark } => {
                let Some(name) = drawn::mark_name(mark) else { return Ok(()) };
                let scope = if matches!(mark, Mark::Paused(_)) { "p" } else { "t" };
                let track = self.layout.thread(self.trace, *process, *thread);
                self.new_tracks()?;
                let mut entry = Entry::new("i", track, &name, "recording");
                entry.ts = self.at(*at);
                entry.s = Some(scope);
                self.put(entry)
            }
        }
    }

    fn call(&mut self, call: &Call<'_>) -> Result<(), S::Error> {
        self.summary.calls += call.count();
        let trace = self.trace;
        let definitions = &trace.process(call.process).definitions;
        let track = self.layout.thread(trace, call.process, call.thread);
        self.new_tracks()?;
        let function = definitions.function(call.function);
        let mut name = definitions.function_name(call.function);
        if let Some(run) = &call.run {
            name = format!("{name} x{}", run.count).into();
        }
        // Categories are separated by commas; viewers filter by them.
        let mut category = "host".to_owned();
        if let Some(function) = function.filter(|f| !f.group.is_empty()) {
            category = category + "," + &function.group;
        }
        let mut entry = Entry::new("X", track, &name, &category);
        entry.ts = self.at(call.span.begin);
        entry.dur = Some(microseconds(call.span.end.0.saturating_sub(call.span.begin.0)));
        if let Kept::Enqueue(enqueued) = &call.kept {
            if enqueued.has(flag::TIMED) && call.result == 0 {
                arguments::of_submission(enqueued, definitions, &mut entry.args);
            } else {
                let site = self.by.sites.get(call.process, enqueued.record.site);
                let bytes = enqueued.record.bytes;
                arguments::of_command(enqueued, definitions, site, bytes, &mut entry.args);
            }
            arguments::of_enqueue(enqueued, &mut entry.args);
        } else {
            arguments::of_call(call, definitions, &mut entry.args);
        }
        if let Some(run) = &call.run {
            entry.args.put("calls", Argument::Uint(run.count));
            for (what, ns) in [
                ("total_us", run.total_ns),
                ("shortest_us", run.shortest_ns),
                ("longest_us", run.longest_ns),
            ] {
                entry.args.put(what, Argument::Real(microseconds(ns.cast_signed())));
            }
        }
        arguments::of_result(call, &mut entry.args);
        entry.cname = (call.result != 0).then_some("terrible");
        self.put(entry)
    }

    fn site(&self, command: &Command<'_>) -> Option<&'t Site> {
        self.by.sites.get(command.process, command.enqueued.record.site)
    }

    fn command(&mut self, command: &Command<'_>) -> Result<(), S::Error> {
        match Drawn::new(&command.outcome) {
            Drawn::Span(span) => self.device_span(command, &span),
            Drawn::Instant(why) => self.without_time(command, why),
            Drawn::NotSampled => {
                self.summary.not_sampled += 1;
                Ok(())
            }
            Drawn::Nowhere => Ok(()),
        }
    }

    fn device_span(
        &mut self,
        command: &Command<'_>,
        drawn: &DeviceSpan<'_>,
    ) -> Result<(), S::Error> {
        self.summary.device_spans += 1;
        let trace = self.trace;
        let definitions = &trace.process(command.process).definitions;
        let span = drawn.span();
        let from = self.layout.thread(trace, command.process, command.thread);
        let track = self.layout.queue(trace, command.process, command.enqueued.record.queue, span);
        self.new_tracks()?;
        let name = command_name(&command.enqueued, definitions);
        let kind = command.enqueued.record.kind;
        let category = match kind {
            _ if kind.is_kernel() => "device,kernel",
            _ if kind.direction().is_some() => "device,transfer",
            _ => "device,command",
        };
        let mut entry = Entry::new("X", track, &name, category);
        entry.ts = self.at(span.begin);
        entry.dur = Some(microseconds(span.end.0.saturating_sub(span.begin.0)));
        drawn::describe(trace, (self.power, self.by), command, drawn, &mut entry.args);
        self.put(entry)?;

        self.flows += 1;
        for (ph, track, time) in [("s", from, command.call.begin), ("f", track, span.begin)] {
            let mut entry = Entry::new(ph, track, "enqueue", "flow");
            entry.ts = self.at(time);
            entry.id = Some(self.flows);
            entry.bp = (ph == "f").then_some("e");
            self.put(entry)?;
        }
        Ok(())
    }

    fn without_time(&mut self, command: &Command<'_>, why: NoTime) -> Result<(), S::Error> {
        let trace = self.trace;
        let definitions = &trace.process(command.process).definitions;
        let moment = Span { begin: command.call.end, end: command.call.end };
        let track =
            self.layout.queue(trace, command.process, command.enqueued.record.queue, moment);
        self.new_tracks()?;
        let name = format!("{} (no device time)", command_name(&command.enqueued, definitions));
        let mut entry = Entry::new("i", track, &name, "device,no device time");
        entry.ts = self.at(moment.begin);
        entry.s = Some("t");
        let (site, moved) = (self.site(command), command.moved_bytes());
        arguments::of_command(&command.enqueued, definitions, site, moved, &mut entry.args);
        arguments::of_no_time(why, &mut entry.args);
        self.put(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_print_as_three_decimals() {
        for ns in [0, 1, 10, 999, 1000, 1001, 123_456_789, 86_400_000_000_001, 864_000_000_000_007]
        {
            let text = serde_json::to_string(&microseconds(ns)).unwrap();
            let (whole, part) = text.split_once('.').unwrap();
            assert!(part.len() <= 3, "{text}");
            let back: i64 = format!("{whole}{part:0<3}").parse().unwrap();
            assert_eq!(back, ns, "{text}");
        }
    }
}
