//! Owns the writing of a timeline in Perfetto's own format, one packet at a time: memory grows with
//! the number of names and with how far commands overlap, not with the trace. Refuses to show
//! anything the trace does not hold.
//!
//! Device commands are GPU render stages with their kernel, work-groups and wait list; the calls
//! that enqueue or await them name their ids, from which viewers draw arrows. Times are those of
//! CLOCK_MONOTONIC_RAW of the first host, with snapshots of its other clocks beside them. Each
//! further host is a machine, whose snapshots put its CLOCK_MONOTONIC and wall clock beside these
//! times. Commands without an end are instants: any length drawn for them would be invented.

mod commands;
mod counters;
mod numbers;
mod packets;
mod totals;
mod tracks;
mod waits;

use crate::Summary;
use crate::arguments::{self, Argument, Sink};
use crate::drawn;
use crate::power::Power;
use crate::proto::Message;
use crate::repeated;
use clscope_analysis::event::{Call, Event, Kept};
use clscope_analysis::missing::{self, Missing};
use clscope_analysis::time::{HostNs, ProcessIndex, Span};
use clscope_profile::profile::View;
use clscope_profile::sites::Named as Site;
use clscope_trace::record::flag;
use numbers::*;
use packets::{Annotations, Packets};
use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};
use tracks::TrackTree;
use waits::Waiting;

/// Which host calls are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostCalls {
    /// All.
    #[default]
    All,
    /// Those that enqueue commands.
    Enqueue,
    /// Those that wait for commands.
    Wait,
    /// None.
    None,
}

/// What has a track of its own among device commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tracks {
    /// Each command queue.
    #[default]
    Queue,
    /// Each device.
    Device,
    /// Each kernel, and each kind of transfer, on each device.
    Kernel,
}

/// What is shown, and how.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Seconds from the beginning of the trace before which nothing is shown.
    pub from: Option<f64>,
    /// Seconds from the beginning of the trace after which nothing is shown.
    pub to: Option<f64>,
    /// Host calls.
    pub host_calls: HostCalls,
    /// Tracks of device commands.
    pub tracks: Tracks,
}

/// A timeline to be written.
pub struct Document<'v, 'a> {
    /// What was recorded, and what is known of it. Its figures of times are asked for where sampling
    /// left launches out alone, since they take a pass over the trace.
    pub view: &'v View<'a>,
    /// Its sensors.
    pub power: &'v Power,
    /// Names of the trace directories.
    pub sources: &'v [String],
    /// What is shown.
    pub options: Options,
}

impl Document<'_, '_> {
    /// Writes the whole document.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<Summary> {
        let bounds = self.view.trace().bounds().unwrap_or_default();
        let at = |seconds: Option<f64>, otherwise: i64| {
            seconds.map_or(HostNs(otherwise), |s| {
                HostNs(bounds.begin.0.saturating_add((s * 1e9).round() as i64))
            })
        };
        let mut pen = Pen {
            document: self,
            out: Packets::new(out, self.view.trace().timeline.hosts.len()),
            layout: TrackTree::new(self.view.trace(), self.options.tracks),
            window: Span {
                begin: at(self.options.from, i64::MIN),
                end: at(self.options.to, i64::MAX),
            },
            last: HashMap::new(),
            waiting: HashMap::new(),
            summary: Summary::default(),
        };
        pen.clocks()?;
        pen.processes()?;
        counters::write(&mut pen)?;
        let mut events = self.view.trace().events(Some(self.view.alignment()));
        let mut missing = vec![Missing::default(); self.view.trace().processes.len()];
        for event in events.by_ref() {
            missing::observe(&mut missing, &event);
            pen.event(event)?;
        }
        pen.end_waits()?;
        // Behind what a sequence's clock counts up: before it, every other event would be out of
        // order.
        pen.repeated()?;
        let mut summary = std::mem::take(&mut pen.summary);
        summary.issues =
            self.view.trace().issues_after(events.tally(), Some(self.view.alignment()));
        summary.issues.extend(missing::issues(self.view.trace(), &missing));
        pen.about(&summary, bounds.begin)?;
        let report = (summary.not_sampled > 0).then(|| self.view.times());
        pen.totals(report.as_ref(), bounds.begin.max(pen.window.begin))?;
        Ok(summary)
    }
}

struct Pen<'t, 'a, W> {
    document: &'t Document<'t, 'a>,
    out: Packets<W>,
    layout: TrackTree,
    window: Span,
    /// The newest command of each queue: what a clFinish of it waits for.
    last: HashMap<(u32, u32), u64>,
    /// The last clWaitForEvents of each thread, by process and thread.
    waiting: HashMap<(u32, u32), Waiting<'a>>,
    summary: Summary,
}

/// A number for a command that no other of the trace has; those of the first process keep theirs.
fn event_id(process: ProcessIndex, command: u64) -> u64 {
    command ^ u64::from(process.0) << 40
}

impl<W: Write> Pen<'_, '_, W> {
    /// Whether something is at least partly in the window.
    fn shows(&self, span: Span) -> bool {
        span.end >= self.window.begin && span.begin <= self.window.end
    }

    /// The packets that follow are of a process's host.
    fn of_process(&mut self, process: ProcessIndex) {
        let host = self.document.view.trace().timeline.host_of.get(process.0 as usize);
        self.out.of_host(host.copied().unwrap_or(0));
    }

    /// The other clocks of each host beside the one that times are in, so that the trace can be put
    /// beside those of other tools.
    fn clocks(&mut self) -> io::Result<()> {
        let trace = self.document.view.trace();
        let timeline = &trace.timeline;
        for host in 0..timeline.hosts.len() {
            // One CLOCK_MONOTONIC_RAW and one CLOCK_MONOTONIC a host: not those of time namespaces.
            let first = |index: &usize| {
                timeline.raw_clock_of(*index).is_some_and(|c| c.host == host && c.is_first())
            };
            let of_host: Vec<_> = (0..trace.processes.len()).filter(first).collect();
            let Some(clock) = of_host.first().and_then(|i| timeline.raw_clock_of(*i)) else {
                continue;
            };
            let anchors: Vec<_> =
                of_host.iter().flat_map(|i| &trace.processes[*i].definitions.anchors).collect();
            let ends = [anchors.iter().min_by_key(|a| a.raw), anchors.iter().max_by_key(|a| a.raw)];
            let mut hint = 0;
            self.out.of_host(host);
            for anchor in ends.into_iter().flatten() {
                // A host that could not be placed has no snapshot.
                let Some(at) = timeline.raw(clock, anchor.raw, &mut hint) else { continue };
                self.out.put(|m, _| {
                    m.nested(PACKET_CLOCK_SNAPSHOT, |m| {
                        for (id, ns) in [
                            (CLOCK_MONOTONIC_RAW, at.0.max(0) as u64),
                            (CLOCK_MONOTONIC, anchor.monotonic),
                            (CLOCK_REALTIME, anchor.realtime),
                        ] {
                            m.nested(SNAPSHOT_CLOCKS, |m| {
                                m.uint(CLOCK_ID, id);
                                m.uint(CLOCK_TIMESTAMP, ns);
                            });
                        }
                        m.uint(SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_RAW);
                    });
                })?;
            }
        }
        Ok(())
    }

    /// Processes, their threads, and the devices that they use.
    fn processes(&mut self) -> io::Result<()> {
        let trace = self.document.view.trace();
        for (index, process) in (0u32..).zip(&trace.processes) {
            let (pid, uuid) = self.layout.process(index);
            let name = crate::layout::process_name(trace, index);
            let arguments = &process.definitions.process.arguments;
            self.of_process(ProcessIndex(index));
            self.out.put(|m, _| {
                m.nested(PACKET_TRACK, |m| {
                    m.uint(TRACK_UUID, uuid);
                    m.nested(TRACK_PROCESS, |m| {
                        m.uint(PROCESS_PID, pid.into());
                        arguments.iter().for_each(|a| m.text(PROCESS_COMMAND_LINE, a));
                        m.text(PROCESS_NAME, &name);
                    });
                });
            })?;
            self.out.names().numbered(INTERNED_CONTEXTS, u64::from(index) + 1, |m| {
                m.uint(CONTEXT_PID, pid.into());
                m.uint(CONTEXT_API, API_OPEN_CL);
            });
        }
        for host in 0..trace.timeline.hosts.len().max(1) {
            let devices = self.layout.devices.iter().filter(|d| d.host == host);
            let shown: Vec<_> =
                devices.map(|d| (d.name.clone(), d.vendor.clone(), d.pci.clone())).collect();
            if shown.is_empty() {
                continue;
            }
            self.out.of_host(host);
            self.out.put(|m, _| {
                m.nested(PACKET_GPUS, |m| {
                    for (name, vendor, pci) in &shown {
                        m.nested(GPUS_GPU, |m| {
                            m.text(GPU_NAME, name);
                            m.text(GPU_VENDOR, vendor);
                            if let Some(pci) = pci {
                                m.text(GPU_PCI, pci);
                            }
                        });
                    }
                });
            })?;
        }
        Ok(())
    }

    /// The track of a host thread, described before its first use.
    fn thread(&mut self, process: ProcessIndex, thread: u32) -> io::Result<u64> {
        let (uuid, new) = self.layout.thread(process.0, thread);
        if new {
            let (pid, _) = self.layout.process(process.0);
            let known =
                self.document.view.trace().process(process).definitions.threads.get(&thread);
            let (tid, name) = known.map_or((0, ""), |t| (t.tid, t.name.as_str()));
            self.out.put(|m, _| {
                m.nested(PACKET_TRACK, |m| {
                    m.uint(TRACK_UUID, uuid);
                    m.nested(TRACK_THREAD, |m| {
                        m.uint(THREAD_PID, pid.into());
                        // One that was never defined still needs an id of its own.
                        let made_up = crate::layout::FIRST_MADE_UP.saturating_add(thread);
                        let tid = if tid == 0 { made_up } else { tid };
                        m.uint(THREAD_TID, tid.into());
                        if !name.is_empty() {
                            m.text(THREAD_NAME, name);
                        }
                    });
                });
            })?;
            // Most calls are of the first thread.
            self.out.of_track(uuid)?;
        }
        Ok(uuid)
    }

    /// A track of no process: its number.
    fn track(&mut self, name: &str, more: impl FnOnce(&mut Message)) -> io::Result<u64> {
        let uuid = self.layout.unique();
        self.out.put(|m, _| {
            m.nested(PACKET_TRACK, |m| {
                m.uint(TRACK_UUID, uuid);
                m.text(TRACK_NAME, name);
                more(m);
            });
        })?;
        Ok(uuid)
    }

    /// An ordinary track below a process's.
    fn child(&mut self, process: ProcessIndex, name: &str) -> io::Result<u64> {
        let (uuid, new) = self.layout.child(process.0, name);
        if new {
            let (_, parent) = self.layout.process(process.0);
            self.out.put(|m, _| {
                m.nested(PACKET_TRACK, |m| {
                    m.uint(TRACK_UUID, uuid);
                    m.uint(TRACK_PARENT, parent);
                    m.text(TRACK_NAME, name);
                });
            })?;
        }
        Ok(uuid)
    }

    /// What the recorder repeated, on tracks of its own.
    fn repeated(&mut self) -> io::Result<()> {
        for batch in &self.document.power.repeated {
            if !self.shows(batch.span) {
                continue;
            }
            self.of_process(batch.process);
            let definitions = &self.document.view.trace().process(batch.process).definitions;
            let name = format!("{}: {}", definitions.queue_name(batch.queue), repeated::TITLE);
            let track = self.child(batch.process, &name)?;
            self.at(batch.span.begin, TYPE_BEGIN, track, &batch.name, "repeated", |to| {
                to.put("repetitions", Argument::Uint(batch.count));
                if let Some(watts) = &batch.watts {
                    to.put("power_W", Argument::Figure(watts.value));
                }
            })?;
            self.end(batch.span.end, track)?;
        }
        Ok(())
    }

    fn draw(&mut self, event: &Event<'_>) -> io::Result<()> {
        self.of_process(match event {
            Event::Call(call) => call.process,
            Event::Command(command) => command.process,
            Event::InCall { process, .. } | Event::Mark { process, .. } => *process,
        });
        match event {
            Event::Call(call) => self.call(call, &BTreeSet::new()),
            Event::Command(command) => self.command(command),
            Event::InCall { process, thread, function, begin } => {
                if !self.shows(Span { begin: *begin, end: HostNs(i64::MAX) }) {
                    return Ok(());
                }
                let track = self.thread(*process, thread.0)?;
                let definitions = &self.document.view.trace().process(*process).definitions;
                let name = format!("{} (in progress)", definitions.function_name(*function));
                // A slice without an end.
                self.at(*begin, TYPE_BEGIN, track, &name, "host", |_| {})
            }
            Event::Mark { process, thread, at, mark } => {
                let Some(name) = drawn::mark_name(mark) else { return Ok(()) };
                if !self.shows(Span { begin: *at, end: *at }) {
                    return Ok(());
                }
                let track = self.thread(*process, thread.0)?;
                self.at(*at, TYPE_INSTANT, track, &name, "recording", |_| {})
            }
        }
    }

    /// An event of an ordinary track.
    fn at(
        &mut self,
        at: HostNs,
        kind: u64,
        track: u64,
        name: &str,
        category: &str,
        tell: impl FnOnce(&mut Annotations<'_>),
    ) -> io::Result<()> {
        let track = self.out.named(track);
        self.out.at(at, |m, names| {
            let (name, category) = (
                names.intern(INTERNED_EVENT_NAMES, name),
                names.intern(INTERNED_CATEGORIES, category),
            );
            m.nested(PACKET_TRACK_EVENT, |event| {
                event.uint(EVENT_TYPE, kind);
                track.iter().for_each(|track| event.uint(EVENT_TRACK, *track));
                event.uint(EVENT_NAME, name);
                event.uint(EVENT_CATEGORIES, category);
                tell(&mut Annotations { event, names });
            });
        })
    }

    fn end(&mut self, at: HostNs, track: u64) -> io::Result<()> {
        let track = self.out.named(track);
        self.out.at(at, |m, _| {
            m.nested(PACKET_TRACK_EVENT, |m| {
                m.uint(EVENT_TYPE, TYPE_END);
                track.iter().for_each(|track| m.uint(EVENT_TRACK, *track));
            });
        })
    }

    /// A host call; `awaited`: commands that a clWaitForEvents waited for.
    fn call(&mut self, call: &Call<'_>, awaited: &BTreeSet<u64>) -> io::Result<()> {
        let document = self.document;
        let definitions = &document.view.trace().process(call.process).definitions;
        let function = definitions.function(call.function);
        let mut waited = None;
        let mut blocking = false;
        if let Kept::Enqueue(enqueued) = &call.kept {
            blocking = enqueued.has(flag::BLOCKING);
            if let Some(id) = call.command() {
                self.last.insert((call.process.0, enqueued.record.queue), id.0);
                waited = blocking.then_some(id.0);
            }
        } else if let Some(function) = function.filter(|f| f.name == "clFinish") {
            waited = call
                .arguments(function)
                .find(|a| a.argument.name == "command_queue")
                .and_then(|a| u32::try_from(a.value).ok())
                .and_then(|queue| self.last.get(&(call.process.0, queue)).copied());
        }
        let enqueues = matches!(call.kept, Kept::Enqueue(_));
        let waits = blocking || function.is_some_and(|f| f.group == "wait" && f.name != "clFlush");
        let wanted = match document.options.host_calls {
            HostCalls::All => true,
            HostCalls::Enqueue => enqueues,
            HostCalls::Wait => waits,
            HostCalls::None => false,
        };
        if !wanted || !self.shows(call.span) {
            return Ok(());
        }
        self.summary.calls = self.summary.calls.saturating_add(call.count());
        let track = self.thread(call.process, call.thread.0)?;
        let name = definitions.function_name(call.function);
        let group = function.map_or("host", |f| f.group.as_str());
        let category = if call.result == 0 { group } else { "error" };
        self.at(call.span.begin, TYPE_BEGIN, track, &name, category, |to| {
            if let Kept::Enqueue(enqueued) = &call.kept {
                let site = document.view.sites().get(call.process, enqueued.record.site);
                // Its frames are a call stack here.
                if enqueued.has(flag::TIMED) && call.result == 0 {
                    arguments::of_submission(enqueued, definitions, to);
                } else {
                    arguments::of_command(enqueued, definitions, None, enqueued.record.bytes, to);
                }
                arguments::of_enqueue(enqueued, to);
                if let Some(site) = site {
                    callstack(site, to.event);
                }
            } else {
                arguments::of_call(call, definitions, to);
            }
            arguments::of_run(call, to);
            arguments::of_result(call, to);
            let submitted = call.command().map(|id| event_id(call.process, id.0));
            let waited: Vec<u64> =
                waited.iter().chain(awaited).map(|id| event_id(call.process, *id)).collect();
            if submitted.is_some() || !waited.is_empty() {
                to.event.nested(EVENT_CORRELATION, |m| {
                    submitted.iter().for_each(|id| m.uint(CORRELATION_SUBMITTED, *id));
                    waited.iter().for_each(|id| m.uint(CORRELATION_WAITED, *id));
                });
                to.event.uint(EVENT_API, API_OPEN_CL);
            }
        })?;
        self.end(call.span.end, track)
    }

    /// One instant on a track of its own: how the trace came to be, and what is wrong with it.
    fn about(&mut self, summary: &Summary, at: HostNs) -> io::Result<()> {
        self.out.of_host(0);
        let uuid = self.track("clscope", |_| {})?;
        let warnings = summary.warnings();
        let document = self.document;
        let changed = clscope_profile::changes::recorded_changes(document.view.trace())
            .map(|c| c.lines())
            .unwrap_or_default();
        let name = format!("clscope {}", env!("CARGO_PKG_VERSION"));
        self.at(at.max(self.window.begin), TYPE_INSTANT, uuid, &name, "recording", |to| {
            let sources: Vec<&str> = document.sources.iter().map(String::as_str).collect();
            to.put("traces", Argument::Lines(&sources));
            let changed = changed.iter().map(String::as_str).collect::<Vec<&str>>();
            if !changed.is_empty() {
                to.put("changed", Argument::Lines(&changed));
            }
            to.put("energy", Argument::Text(&document.power.told.to_string()));
            to.put("not_sampled", Argument::Uint(summary.not_sampled));
            let warnings: Vec<&str> = warnings.iter().map(String::as_str).collect();
            to.put("warnings", Argument::Lines(&warnings));
        })
    }
}

/// The frames of a call site, the outermost first.
fn callstack(site: &Site, event: &mut Message) {
    event.nested(EVENT_CALLSTACK, |m| {
        for frame in site.frames.iter().rev() {
            m.nested(CALLSTACK_FRAMES, |m| {
                m.text(FRAME_FUNCTION, frame.function.as_deref().unwrap_or(&frame.text));
                if let Some(file) = &frame.file {
                    m.text(FRAME_FILE, file);
                }
                if let Some(line) = frame.line {
                    m.uint(FRAME_LINE, line.into());
                }
            });
        }
    });
}
