//! Owns the sums of a trace: kernels, transfers, API functions, queues, devices, what has no time
//! and why. One pass, in bounded memory: it grows with the number of kernels, functions and queues,
//! not with events. Durations are exact in count, total, least and most; percentiles are within
//! [`sketch::RELATIVE_ERROR`]. Launches that sampled timing left out are estimated beside them,
//! with intervals ([`estimate`]). Refuses to scale or correct in silence: exact sums hold what was
//! timed and nothing else, and what has no time for another reason is counted, never estimated.

pub mod beside;
pub mod buffers;
pub mod busy;
pub mod command_buffers;
pub mod commands;
pub mod estimate;
mod plain;
mod query;
pub mod sizes;
pub mod sketch;
mod sums;
mod thread;
mod waits;
pub mod wall;

use crate::Trace;
use crate::align::Alignment;
use crate::event::{Call, Command, Event, Kept, Mark, Outcome};
use crate::ids::IdMap;
use crate::issue::Unfinished;
use crate::merge::Tally;
use crate::missing::{self, Missing};
use crate::time::{HostNs, ProcessIndex, Span, ThreadIndex};
use beside::{Beside, Copied, Repeated};
use buffers::{Buffers, MAKING};
use busy::held::Holds;
pub use busy::host_path::HostPath;
use busy::{Busy, Held, Lead};
use clscope_trace::Untimed;
use clscope_trace::record::flag;
use command_buffers::{CommandBuffers, InCommandBuffers};
pub use commands::{Bias, CommandSums};
use estimate::Sampled;
use estimate::unproven::Unproven;
use estimate::windows::{Launch, Timed, What, Windows};
use plain::PlainSums;
pub use query::{SharedDevice, Times};
use sizes::Sizes;
use sketch::Distribution;
use std::collections::BTreeMap;
pub use sums::{BusyUnknown, CallSums, DeviceSums, NamedWait, QueueSums, WaitSums, WaitedFor};
use thread::ThreadState;
use waits::Waits;
pub use wall::WallParts;
use wall::{Union, Wall};

/// Name of the calibration that holds a device's span bias.
pub const SPAN_BIAS: &str = "span-bias-ns";

/// CL_EVENT_COMMAND_EXECUTION_STATUS, which an application that polls asks for.
const EXECUTION_STATUS: u32 = 0x11d3;

/// Class of commands: process, what they are, queue id, and their part ([`WaitedFor::find_part`]).
type Key = (ProcessIndex, WaitedFor, u32, u32);

/// The key by which launches of a kernel are separated: a number of each, 0 for all.
pub type Variant = fn(&clscope_trace::record::Command<'_>) -> u32;

/// The sums of a trace, with the ids of its processes.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    sums: BTreeMap<Key, CommandSums>,
    functions: Vec<Vec<CallSums>>,
    /// Per process.
    waits: Vec<Waits>,
    /// Per process and queue.
    pub queues: BTreeMap<(ProcessIndex, u32), QueueSums>,
    /// Per process and device (parents of sub-devices).
    pub devices: BTreeMap<(ProcessIndex, u32), DeviceSums>,
    /// Per process.
    pub missing: Vec<Missing>,
    /// Per process, from the first begin to the last end of anything.
    pub spans: Vec<Option<Span>>,
    /// Host calls.
    pub calls: u64,
    /// Commands.
    pub command_count: u64,
    /// Commands with device times.
    pub timed: u64,
    /// What the merge found, per process.
    pub tally: Vec<Tally>,
    /// When the recorder repeated commands, per process.
    pub repeated: Vec<Repeated>,
    /// When recording was paused, per process.
    pub paused: Vec<Repeated>,
    /// The recorder's copies of captured launches' memory, per process.
    pub copied: Vec<Vec<Copied>>,
    /// Kernels that ran in command buffers.
    pub in_command_buffers: InCommandBuffers,
    /// Sizes of launches by process and kernel id.
    pub sizes: BTreeMap<(ProcessIndex, u32), Sizes>,
    /// Buffers of each process.
    pub buffers: Vec<Buffers>,
    /// Per process.
    walls: Vec<Wall>,
    /// What each device ran for all processes together, by host and name; empty of one process.
    together: BTreeMap<(usize, String), Union>,
}

/// Whether calls of a function are followed one by one although they neither enqueue nor wait: each
/// may take long, and nobody calls them very often.
fn may_be_long(function: &clscope_trace::defs::Function) -> bool {
    const LONG: [&str; 7] = [
        "clGetPlatformIDs",
        "clIcdGetPlatformIDsKHR",
        "clGetDeviceIDs",
        "clGetProgramInfo",
        "clReleaseContext",
        "clReleaseProgram",
        "clReleaseMemObject",
    ];
    ["build", "object"].contains(&function.group.as_str()) || LONG.contains(&function.name.as_str())
}

/// Adds what a call took, or each call of a run.
fn add_durations(time: &mut Distribution, call: &Call<'_>) {
    match &call.run {
        Some(run) => time.add_summary(run.count, run.total_ns, run.shortest_ns, run.longest_ns),
        None => time.add(call.span.duration()),
    }
}

/// State of the pass that the result does not need.
#[derive(Default)]
struct Pass<'a> {
    threads: IdMap<ThreadState>,
    processes: Vec<OfProcess<'a>>,
    /// Queue -> clock device.
    queue_devices: IdMap<u32>,
    variant: Option<Variant>,
    /// In-order queues of such processes.
    windows: IdMap<Windows>,
    /// The same queues, with why the first of their commands was not seen to end.
    unproven: IdMap<(Unproven, Option<Unfinished>)>,
    command_buffers: CommandBuffers,
    /// Since when recording is paused, by process.
    paused: BTreeMap<u32, HostNs>,
    /// Device of a process -> what it is to all processes; empty of one process.
    together: IdMap<(usize, String)>,
}

/// The same of one process.
struct OfProcess<'a> {
    holds: Holds<'a>,
    /// Whether a call of a function waits, by id.
    waiting: Vec<bool>,
    /// Ids of clGetEventInfo and clFinish.
    poll: Option<u16>,
    finish: Option<u16>,
    /// The functions that make buffers.
    making: Vec<u16>,
    /// Whether its method may leave launches out.
    sampling: bool,
    /// What the recorder ran itself.
    beside: Beside,
}

impl Pass<'_> {
    /// Every queue of the process had to share the device with the recorder.
    fn interrupt(&mut self, process: ProcessIndex) {
        let of_process = |queue: &u64| (*queue >> 32) as u32 == process.0;
        for (_, windows) in self.windows.iter_mut().filter(|(queue, _)| of_process(queue)) {
            windows.interrupted();
        }
    }
}

fn key(process: ProcessIndex, id: u32) -> u64 {
    (u64::from(process.0) << 32) | u64::from(id)
}

impl Stats {
    /// Reads all events of a trace once.
    pub fn of_trace(trace: &Trace<'_>, alignment: &Alignment) -> Self {
        Self::with(trace, alignment, None, 1, |_| {})
    }

    /// As [`of_trace`](Self::of_trace), with the launches of a kernel separated by a key where there
    /// is one, on so many threads, this one included. Every event but
    /// host calls that neither enqueue nor wait is shown to `also`: one reading of the records for
    /// both.
    pub fn with(
        trace: &Trace<'_>,
        alignment: &Alignment,
        variant: Option<Variant>,
        threads: usize,
        mut also: impl FnMut(&Event<'_>),
    ) -> Self {
        let repeated = Repeated::of_all(trace);
        let copied = Copied::of_all(trace, alignment);
        let both = repeated.iter().zip(&copied);
        let mut out = Self {
            functions: vec![Vec::new(); trace.processes.len()],
            missing: vec![Missing::default(); trace.processes.len()],
            waits: trace.processes.iter().map(|p| Waits::new(&p.definitions)).collect(),
            buffers: vec![Buffers::default(); trace.processes.len()],
            walls: both.map(|(r, c)| Wall::beside(r, &Copied::when(c))).collect(),
            spans: vec![None; trace.processes.len()],
            paused: vec![Repeated::default(); trace.processes.len()],
            repeated,
            copied,
            ..Self::default()
        };
        let mut pass = Pass { variant, ..Pass::default() };
        let mut marked = Vec::with_capacity(trace.processes.len());
        for (index, process) in trace.processes.iter().enumerate() {
            let d = &process.definitions;
            let sampling = d.process.may_sample();
            let process = ProcessIndex(index as u32);
            for queue in d.queues.values() {
                let clock = d.clock_device(queue.id).unwrap_or(queue.device);
                let key = key(process, queue.id);
                pass.queue_devices.insert(key, clock);
                if sampling && !queue.is_out_of_order() {
                    pass.windows.insert(key, Windows::default());
                    pass.unproven.insert(key, <_>::default());
                }
            }
            if trace.processes.len() > 1 {
                for device in d.devices.values().filter(|device| device.parent.is_none()) {
                    let of = query::across_processes(trace, process, device.id);
                    pass.together.insert(key(process, device.id), of);
                }
            }
            let id = |name| d.functions().find(|f| f.name == name).map(|f| f.id);
            let of = OfProcess {
                holds: Holds::new(d),
                waiting: d.waiting(),
                poll: id("clGetEventInfo"),
                finish: id("clFinish"),
                making: MAKING.into_iter().filter_map(id).collect(),
                sampling,
                beside: if sampling { Beside::collect(d) } else { Beside::default() },
            };
            // What is to be told in the order of all threads: waits, and the ends of windows.
            let is_told = |f: &&clscope_trace::defs::Function| {
                command_buffers::RECORDING.contains(&f.name.as_str()) || may_be_long(f)
            };
            let told = d.functions().filter(is_told).map(|f| f.id);
            let mut of_process = of.waiting.clone();
            told.chain(of.poll).chain(of.finish).for_each(|id| of_process[usize::from(id)] = true);
            marked.push(of_process);
            pass.processes.push(of);
        }
        let (plain, tally) = plain::sums_and(trace, &marked, threads, || {
            let mut events = trace.marked(alignment, &marked);
            // Looked at where it lies: events are large.
            while let Some(event) = &events.next() {
                if let Some(passed) = events.take_passed() {
                    let thread = thread_key(passed.process, passed.thread);
                    let state = pass.threads.entry(thread).or_default();
                    state.pass(passed.longest, passed.ns);
                }
                out.add(event, &mut pass);
                if let Event::Call(call) = event {
                    let d = &trace.process(call.process).definitions;
                    let index = call.process.0 as usize;
                    if pass.processes[call.process.0 as usize].making.contains(&call.function) {
                        out.buffers[index].made(call, d);
                    }
                    pass.command_buffers.add(call, d, &mut out.in_command_buffers);
                }
                also(event);
            }
            events.tally().to_vec()
        });
        out.tally = tally;
        out.waits.iter_mut().for_each(Waits::finish);
        out.add_plain(plain);
        out.take_unproven(trace, pass.unproven);
        out.put_left(trace, pass.windows);
        for busy in out
            .queues
            .values_mut()
            .map(|q| &mut q.busy)
            .chain(out.devices.values_mut().map(|d| &mut d.busy))
        {
            busy.finish();
        }
        out.walls.iter_mut().for_each(Wall::finish);
        // Ticks of unknown length are no time.
        let spans = out.spans.iter_mut().zip(&trace.timeline.clocks);
        spans.for_each(|(span, clock)| _ = span.take_if(|_| !clock.is_known()));
        out
    }

    fn add(&mut self, event: &Event<'_>, pass: &mut Pass<'_>) {
        missing::observe(&mut self.missing, event);
        match event {
            Event::Call(call) => self.add_call(call, pass),
            Event::Command(command) => self.add_command(command, pass),
            Event::Mark { process, at, mark: Mark::Paused(true), .. } => {
                pass.paused.entry(process.0).or_insert(*at);
            }
            Event::Mark { process, at, mark: Mark::Paused(false), .. } => {
                if let Some(begin) = pass.paused.remove(&process.0) {
                    self.pause(*process, Span { begin, end: *at });
                }
            }
            Event::Mark { .. } | Event::InCall { .. } => {}
        }
    }

    /// Recording was paused then: what ran is not known.
    fn pause(&mut self, process: ProcessIndex, span: Span) {
        let index = process.0 as usize;
        let more = Repeated::joined(vec![span]);
        let all = Repeated::any([&self.paused[index], &more].into_iter());
        let wall = &mut self.walls[index];
        wall.pause(&all);
        let of = (process, 0)..=(process, u32::MAX);
        let queues = self.queues.range_mut(of.clone()).map(|(_, queue)| &mut queue.busy);
        let devices = self.devices.range_mut(of).map(|(_, device)| &mut device.busy);
        queues.chain(devices).for_each(|busy| busy.pause(&all, wall.recorders()));
        self.paused[index] = all;
    }

    /// Adds the calls that were summed apart from the others.
    fn add_plain(&mut self, plain: PlainSums) {
        for (of, more) in self.functions.iter_mut().zip(plain.functions) {
            if of.len() < more.len() {
                of.resize_with(more.len(), CallSums::default);
            }
            of.iter_mut().zip(more).for_each(|(sums, time)| sums.time.merge(&time));
        }
        self.calls = self.calls.saturating_add(plain.calls);
        for (process, span) in (0u32..).zip(plain.spans) {
            span.into_iter().for_each(|span| self.extend(ProcessIndex(process), span));
        }
        for (tally, records) in self.tally.iter_mut().zip(plain.ran_back) {
            tally.time_ran_back += records;
        }
    }

    /// What the windows of the queues show of launches that were left out.
    fn put_left(&mut self, trace: &Trace<'_>, windows: IdMap<Windows>) {
        for (queue, windows) in windows {
            let (process, queue) = (ProcessIndex((queue >> 32) as u32), queue as u32);
            let d = &trace.process(process).definitions;
            let device = d.queues.get(&queue).and_then(|q| d.devices.get(&q.device));
            let preempted = device.is_some_and(|d| d.is_cpu());
            let is_own = |of: &Key| of.0 == process && of.2 == queue;
            let own = self.sums.iter().filter(|(of, _)| is_own(of));
            let own = own.filter_map(|(of, sums)| Some((of.1.class(of.3), sums.estimated()?)));
            let sampled: BTreeMap<u64, &Sampled> = own.collect();
            let left = windows.left(&sampled, preempted);
            for (of, sums) in self.sums.iter_mut().filter(|(of, _)| is_own(of)) {
                sums.left = left.get(&of.1.class(of.3)).copied();
            }
        }
    }

    fn extend(&mut self, process: ProcessIndex, span: Span) {
        let old = self.spans[process.0 as usize].get_or_insert(span);
        *old = old.hull(span);
    }

    fn add_call(&mut self, call: &Call<'_>, pass: &mut Pass<'_>) {
        self.calls = self.calls.saturating_add(call.count());
        self.extend(call.process, call.span);
        let functions = &mut self.functions[call.process.0 as usize];
        let index = usize::from(call.function);
        if functions.len() <= index {
            functions.resize_with(index + 1, CallSums::default);
        }
        let duration = call.inside_ns();
        add_durations(&mut functions[index].time, call);
        if call.result != 0 {
            *functions[index].errors.entry(call.result).or_default() += 1;
        }
        Self::add_to_windows(call, pass);
        let process = call.process.0 as usize;
        let of = &mut pass.processes[process];
        let blocking = matches!(&call.kept, Kept::Enqueue(e) if e.has(flag::BLOCKING));
        let polls = of.poll == Some(call.function)
            && matches!(call.kept, Kept::Plain { small: EXECUTION_STATUS, .. });
        let thread = pass.threads.entry(thread_key(call.process, call.thread)).or_default();
        let polled = std::mem::replace(&mut thread.polled, polls.then_some(call.span.end));
        let waits = &mut self.waits[process];
        if call.command().is_some() {
            waits.enqueued();
        }
        if polls {
            // The host waits from the first call to the last, whatever it does between them.
            let begin = polled.map_or(call.span.begin, |last| last.min(call.span.begin));
            let span = Span { begin, end: call.span.end };
            let inside = span.duration();
            let time = waits.time(call.function);
            match &call.run {
                Some(run) => time.add_summary(
                    run.count,
                    inside,
                    run.shortest_ns,
                    run.longest_ns.max(inside / run.count.max(1)),
                ),
                None => time.add(inside),
            }
            waits.waited(call.function, 0, span);
        } else if blocking || of.waiting.get(index).copied().unwrap_or(false) {
            add_durations(waits.time(call.function), call);
            let queue = match &call.kept {
                Kept::Enqueue(e) => e.record.queue,
                Kept::Plain { id, .. } if of.finish == Some(call.function) => *id,
                _ => 0,
            };
            waits.waited(call.function, queue, call.span);
        }
        if polled.is_none() || !polls {
            thread.until(call.span.begin);
        }
        let between = call.span.duration().saturating_sub(duration);
        let wall = &mut self.walls[process];
        if call.command().is_some() {
            let lead = Lead::at(call.span.begin, thread.take_path());
            of.holds.enqueued(call, lead);
            wall.enqueued(call.span, call.function);
        } else {
            of.holds.called(call);
            wall.called(call.span, call.function);
        }
        let begin = if polls { polled.unwrap_or(call.span.begin) } else { call.span.begin };
        thread.call(
            Span { begin, end: call.span.end },
            call.function,
            if polls { 0 } else { between },
        );
    }

    fn add_to_windows(call: &Call<'_>, pass: &mut Pass<'_>) {
        match &call.kept {
            Kept::Enqueue(e) if call.command().is_some() => {
                let is_beside = pass.processes[call.process.0 as usize].beside.is_at(e.record.id);
                if is_beside {
                    pass.interrupt(call.process);
                }
                if let Some(windows) = pass.windows.get_mut(&key(call.process, e.record.queue)) {
                    let launch = || {
                        let what = WaitedFor::identify(call.process, &e.record);
                        let is_kernel = e.record.kind.is_kernel();
                        Launch {
                            class: what.class(WaitedFor::find_part(&e.record, pass.variant)),
                            geometry: if is_kernel { e.record.geometry } else { 0 },
                        }
                    };
                    let sampled = e.record.kind.is_sampled();
                    let what = if e.has(flag::READ) {
                        // Whether the application will query it is not known yet.
                        What::Unknown
                    } else if e.has(flag::TIMED) {
                        What::Timed(
                            e.record.id,
                            sampled.then(|| (launch(), e.record.probability().unwrap_or(1.0))),
                        )
                    } else if e.has(flag::NOT_SAMPLED) && sampled {
                        What::LeftOut(launch())
                    } else {
                        What::Unknown
                    };
                    if let Some((unproven, _)) =
                        pass.unproven.get_mut(&key(call.process, e.record.queue))
                    {
                        match what {
                            What::Timed(id, _) => unproven.timed(id),
                            What::LeftOut(launch) => unproven.left_out(launch.class),
                            What::Unknown => {}
                        }
                    }
                    if e.has(flag::BLOCKING) {
                        windows.blocked(call.thread, call.span, what);
                    } else {
                        windows.enqueued(call.thread, call.span, what);
                    }
                }
                if is_beside {
                    pass.interrupt(call.process);
                }
            }
            // The queue is its only argument, and an object.
            Kept::Plain { id, .. }
                if pass.processes[call.process.0 as usize].finish == Some(call.function)
                    && call.result == 0 =>
            {
                if let Some(windows) = pass.windows.get_mut(&key(call.process, *id)) {
                    windows.finished(call.span);
                }
            }
            _ => {}
        }
    }

    fn add_command(&mut self, command: &Command<'_>, pass: &mut Pass<'_>) {
        self.command_count += 1;
        let record = &command.enqueued.record;
        let (process, queue) = (command.process, record.queue);
        let clock_device = pass.queue_devices.get(&key(process, queue)).copied().unwrap_or(0);
        let time = if let Outcome::Timed(times) = &command.outcome { Some(times) } else { None };
        let ran = time.and_then(|t| Some(t.placed?.span()));
        let of_process = &mut pass.processes[process.0 as usize];
        let sampling = of_process.sampling;
        let lead = of_process.holds.ended(command, ran.map(|span| (span.begin, span.end)));
        self.timed += u64::from(time.is_some());
        let duration = time.map(|t| t.duration());
        if command.enqueued.has(flag::TIMED)
            && !command.enqueued.has(flag::READ)
            && let Some(windows) = pass.windows.get_mut(&key(process, queue))
        {
            let timed = time.and_then(|t| {
                let span = t.placed?.span();
                Some(Timed { start: span.begin, end: span.end, duration: t.duration() })
            });
            windows.completed(record.id, timed);
            if let Some((unproven, why)) = pass.unproven.get_mut(&key(process, queue)) {
                match command.outcome {
                    Outcome::Unfinished(reason) => {
                        unproven.unfinished(record.id);
                        why.get_or_insert(reason);
                    }
                    Outcome::Timed(_) | Outcome::Untimed { .. } => unproven.ended(record.id),
                }
            }
        }
        let left_out =
            matches!(command.outcome, Outcome::Untimed { reason: Untimed::NotSampled, .. });
        let failed = command.never_ran();
        if record.kind.is_kernel() {
            let sizes = self.sizes.entry((process, record.object)).or_default();
            sizes.add(record.geometry, duration, failed);
        }
        let what = WaitedFor::identify(process, record);
        let part = WaitedFor::find_part(record, pass.variant);
        let sums = self.sums.entry((process, what, queue, part)).or_default();
        let probability = record.probability();
        match failed {
            true => sums.add_failed(),
            false => sums.add(record.bytes, duration, left_out, sampling, probability),
        }
        command.at_most_ns.into_iter().for_each(|ns| sums.at_most.add(ns));
        if sampling && !left_out && duration.is_some() && probability.is_none() {
            self.missing[process.0 as usize].bad_probabilities += 1;
        }
        self.buffers[process.0 as usize].used(command);
        let chosen = if sampling { probability.unwrap_or(1.0) } else { 1.0 };
        self.waits[process.0 as usize].ended(what, queue, left_out, chosen, ran);
        let (wall, paused) = (&self.walls[process.0 as usize], &self.paused[process.0 as usize]);
        let busy = || {
            let mut busy = Busy::beside(wall.recorders());
            busy.pause(paused, wall.recorders());
            busy
        };
        let new_queue = || QueueSums { busy: busy(), ..<_>::default() };
        let new_device = || DeviceSums { busy: busy(), ..<_>::default() };
        let sums = self.queues.entry((process, queue)).or_insert_with(new_queue);
        sums.count += 1;
        if left_out {
            sums.left_out += 1;
            self.devices.entry((process, clock_device)).or_insert_with(new_device).left_out += 1;
        }
        let Some(times) = time else { return };
        let [queued, submit, start, end] = times.raw.map(|s| s.0);
        if times.queued_is_known(command.call.begin) {
            sums.queue_wait.add(submit - queued);
        }
        sums.submit_wait.add(start - submit);
        sums.execution.add(end - start);
        if let Some(placed) = &times.placed {
            let span = placed.span();
            sums.notice.add(times.observed.since(span.end));
            if let Some((Held::OtherQueue, until)) = lead.held {
                let from = sums.last_end.map_or(lead.enqueue, |end| end.max(lead.enqueue));
                sums.held_by_queues_ns += until.min(span.begin).since(from);
            }
            sums.place([start, end], span);
            sums.busy.add(span, lead);
            let device = self.devices.entry((process, clock_device)).or_insert_with(new_device);
            device.busy.add(span, lead);
            device.bounds.add(placed.bound_ns);
            if let Some(of) = pass.together.get(&key(process, clock_device)) {
                match self.together.get_mut(of) {
                    Some(union) => union.add(span),
                    None => self.together.entry(of.clone()).or_default().add(span),
                }
            }
            let kind = record.kind;
            let is_transfer = kind.direction().is_some();
            self.walls[process.0 as usize].ran(span, lead, kind.is_kernel(), is_transfer);
            self.extend(process, span);
        }
    }
}

fn thread_key(process: ProcessIndex, thread: ThreadIndex) -> u64 {
    key(process, thread.0)
}
