//! Traces read back through the analysis, as plain values that tests compare. Refuses to interpret:
//! times are those of the analysis, names those of the trace's definitions.
#![forbid(unsafe_code)]

use clscope_analysis::event::{Event, Kept, Mark, Outcome};
use clscope_analysis::host_memory::HostMemory;
use clscope_analysis::input::{Definitions, File, ProcessFiles};
use clscope_analysis::issue::{Issue, Unfinished};
use clscope_analysis::{Trace, time};
use clscope_trace::directory::{self, Role};
use clscope_trace::record::{CommandKind, flag};
use clscope_trace::{Untimed, defs};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Everything in one or several traces.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Its processes by file name, with commands and calls in time order.
    pub processes: Vec<Process>,
    /// What the analysis found wrong.
    pub issues: Vec<Issue>,
}

/// One process.
#[derive(Debug, Clone)]
pub struct Process {
    /// `TRACE/PID-N`.
    pub label: String,
    /// What ids mean.
    pub definitions: Definitions,
    /// Host calls.
    pub calls: Vec<Call>,
    /// Commands in order of their ids, which is the order of their enqueues on one thread.
    pub commands: Vec<Command>,
    /// Names of functions that threads were in at the end.
    pub in_calls: Vec<String>,
    /// Records dropped, told and untold.
    pub dropped: u64,
}

/// A host call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Function.
    pub name: String,
    /// Thread index.
    pub thread: u32,
    /// When, in ns of the common timeline.
    pub begin: i64,
    /// See `begin`.
    pub end: i64,
    /// Error code.
    pub result: i32,
    /// How many calls in a row it stands for.
    pub times: usize,
    /// Kept arguments by name.
    pub arguments: BTreeMap<String, u64>,
}

/// A command.
#[derive(Debug, Clone)]
pub struct Command {
    /// Its id.
    pub id: u64,
    /// What it does.
    pub kind: CommandKind,
    /// Kernel name of a launch.
    pub kernel: Option<String>,
    /// Queue id.
    pub queue: u32,
    /// Global sizes of a launch.
    pub global: Option<[u64; 3]>,
    /// Local sizes of a launch, if given.
    pub local: Option<[u64; 3]>,
    /// Dimensions of a launch.
    pub dimensions: u32,
    /// Bytes moved.
    pub bytes: u64,
    /// Which memory of the host it uses, if it uses any.
    pub memory: Option<HostMemory>,
    /// Whether the call was blocking.
    pub blocking: bool,
    /// Whether the application asked for the event.
    pub app_event: bool,
    /// Ids of the commands it waits for; `None` for events whose command was not seen.
    pub waits: Vec<Option<u64>>,
    /// The call that enqueued it.
    pub function: String,
    /// When that call began.
    pub begin: i64,
    /// When that call ended.
    pub end: i64,
    /// How it ended.
    pub end_state: End,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// Stamps of the device's clock; start and end on the common timeline, and the bound of their
    /// error, in ns.
    Timed {
        /// QUEUED, SUBMIT, START, END.
        raw: [u64; 4],
        /// START on the timeline.
        start: i64,
        /// END on the timeline.
        end: i64,
        /// Error bound.
        bound: u64,
    },
    /// Without times.
    Untimed(Untimed, i32),
    /// Its end was never seen.
    Unfinished(Unfinished),
}

impl Command {
    /// Its raw stamps.
    pub fn raw(&self) -> Option<[u64; 4]> {
        match self.end_state {
            End::Timed { raw, .. } => Some(raw),
            _ => None,
        }
    }
}

impl Recorded {
    /// Reads traces.
    ///
    /// # Panics
    /// If one is no folder, or a file in it cannot be read.
    #[track_caller]
    pub fn read(traces: &[&Path]) -> Self {
        let mut contents: BTreeMap<String, Files> = BTreeMap::new();
        for trace in traces {
            let name = trace.file_name().expect("a trace's name").to_string_lossy().into_owned();
            let listed = directory::list(trace);
            let listed = listed.unwrap_or_else(|e| panic!("{}: {e}", trace.display()));
            for (file, role) in listed {
                let Some(stem) = role.stem() else { continue };
                let files = contents.entry(format!("{name}/{stem}")).or_default();
                let path = trace.join(&file);
                let bytes =
                    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                match role {
                    Role::Defs(_) => files.defs = Some(bytes),
                    Role::Ring(_) => files.ring = Some(bytes),
                    _ => files.segments.push((file, bytes)),
                }
            }
        }
        let files = contents.iter().map(|(label, files)| files.as_process(label)).collect();
        Self::collect(&Trace::open(files))
    }

    fn collect(trace: &Trace<'_>) -> Self {
        let alignment = trace.align();
        let mut processes: Vec<Process> = trace.processes.iter().map(Process::new).collect();
        let mut enqueuers: Vec<HashMap<u64, String>> = vec![HashMap::new(); processes.len()];
        let mut events = trace.events(Some(&alignment));
        for event in events.by_ref() {
            match event {
                Event::Call(call) => {
                    let index = call.process.0 as usize;
                    let process = &mut processes[index];
                    let name = process.definitions.function_name(call.function).into_owned();
                    if let Some(id) = call.command() {
                        enqueuers[index].insert(id.0, name.clone());
                    }
                    let arguments = process
                        .definitions
                        .function(call.function)
                        .map(|f| arguments(&call, f))
                        .unwrap_or_default();
                    let (begin, end) = ns(call.span);
                    process.calls.push(Call {
                        name,
                        thread: call.thread.0,
                        begin,
                        end,
                        result: call.result,
                        times: call.count() as usize,
                        arguments,
                    });
                }
                Event::Command(command) => {
                    let process = &mut processes[command.process.0 as usize];
                    let made = command_of(&process.definitions, &command);
                    process.commands.push(made);
                }
                Event::InCall { process, function, .. } => {
                    let process = &mut processes[process.0 as usize];
                    process.in_calls.push(process.definitions.function_name(function).into_owned());
                }
                Event::Mark { process, mark: Mark::Dropped { count, .. }, .. } => {
                    processes[process.0 as usize].dropped += count
                }
                Event::Mark { .. } => {}
            }
        }
        let issues = trace.issues_after(events.tally(), Some(&alignment));
        for (process, enqueuers) in processes.iter_mut().zip(enqueuers) {
            process.commands.sort_by_key(|c| c.id);
            for command in &mut process.commands {
                command.function = enqueuers.get(&command.id).cloned().unwrap_or_default();
            }
        }
        Self { processes, issues }
    }

    /// The only process.
    ///
    /// # Panics
    /// If there are more or none.
    #[track_caller]
    pub fn only(&self) -> &Process {
        let labels: Vec<_> =
            self.processes.iter().map(|p| (&p.label, &p.definitions.process.arguments)).collect();
        assert_eq!(self.processes.len(), 1, "{labels:?} {:?}", self.issues);
        &self.processes[0]
    }

    /// Stable names of what is wrong, sorted.
    pub fn issue_codes(&self) -> Vec<&str> {
        let mut codes: Vec<_> = self.issues.iter().map(|i| i.kind.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    /// Launches of all processes.
    pub fn launches(&self) -> usize {
        self.processes.iter().map(|p| p.launches(None)).sum()
    }
}

impl Process {
    fn new(process: &clscope_analysis::input::Process<'_>) -> Self {
        Self {
            label: process.label.clone(),
            definitions: process.definitions.clone(),
            calls: Vec::new(),
            commands: Vec::new(),
            in_calls: Vec::new(),
            dropped: process.dropped_untold,
        }
    }

    /// How many launches there were, of one kernel or of all.
    pub fn launches(&self, kernel: Option<&str>) -> usize {
        self.commands
            .iter()
            .filter(|c| c.kind.is_kernel() && (kernel.is_none() || c.kernel.as_deref() == kernel))
            .count()
    }

    /// How often a function was called.
    pub fn count(&self, function: &str) -> usize {
        self.calls.iter().filter(|c| c.name == function).map(|c| c.times).sum()
    }

    /// How many records there are of calls of a function: of a run of identical calls one.
    pub fn records(&self, function: &str) -> usize {
        self.calls.iter().filter(|c| c.name == function).count()
    }

    /// Every command has its times.
    ///
    /// # Panics
    /// If one has not; it is in the message.
    #[track_caller]
    pub fn assert_all_timed(&self) {
        for command in &self.commands {
            assert!(command.raw().is_some(), "not timed: {command:?}");
        }
    }

    /// No device span begins before its enqueue, and in-order queues overlap only where the raw
    /// stamps do.
    ///
    /// # Panics
    /// If one does.
    #[track_caller]
    pub fn assert_causal(&self) {
        let mut last: HashMap<u32, (i64, u64, u64)> = HashMap::new();
        for command in &self.commands {
            let End::Timed { raw, start, end, .. } = command.end_state else { continue };
            assert!(start >= command.begin, "starts before its enqueue: {command:?}");
            assert!(end >= start, "ends before it starts: {command:?}");
            let out_of_order =
                self.definitions.queues.get(&command.queue).is_some_and(|q| q.properties & 1 != 0);
            if let Some((before, raw_before, id)) =
                last.insert(command.queue, (end, raw[3], command.id))
                && !out_of_order
            {
                assert!(
                    start >= before || raw[2] < raw_before,
                    "overlaps command {id} only in the output: {command:?}"
                );
            }
        }
    }
}

#[derive(Default)]
struct Files {
    defs: Option<Vec<u8>>,
    segments: Vec<(String, Vec<u8>)>,
    ring: Option<Vec<u8>>,
}

impl Files {
    fn as_process(&self, label: &str) -> ProcessFiles<'_> {
        let file = |kind: &str, bytes| File { name: format!("{label}.{kind}"), bytes };
        ProcessFiles {
            label: label.to_owned(),
            defs: self.defs.as_deref().map(|b| file("defs", b)),
            segments: self
                .segments
                .iter()
                .map(|(name, bytes)| File { name: name.clone(), bytes })
                .collect(),
            ring: self.ring.as_deref().map(|b| file("ring", b)),
            issues: Vec::new(),
            extra_anchors: Vec::new(),
        }
    }
}

fn ns(span: time::Span) -> (i64, i64) {
    (span.begin.0, span.end.0)
}

fn arguments(
    call: &clscope_analysis::event::Call<'_>,
    function: &defs::Function,
) -> BTreeMap<String, u64> {
    if matches!(call.kept, Kept::Enqueue(_)) {
        return BTreeMap::new();
    }
    call.arguments(function).map(|a| (a.argument.name.clone(), a.value)).collect()
}

fn command_of(
    definitions: &Definitions,
    command: &clscope_analysis::event::Command<'_>,
) -> Command {
    let record = &command.enqueued.record;
    let geometry = definitions.geometries.get(&record.geometry);
    let (begin, end) = ns(command.call);
    Command {
        id: record.id,
        kind: record.kind,
        kernel: record
            .kind
            .is_kernel()
            .then(|| definitions.kernel_name(record.object).into_owned()),
        queue: record.queue,
        global: geometry.map(|g| g.global),
        local: geometry.and_then(|g| g.local),
        dimensions: geometry.map_or(0, |g| g.dimensions),
        bytes: record.bytes,
        memory: command.enqueued.memory,
        blocking: record.flags & flag::BLOCKING != 0,
        app_event: record.flags & flag::APP_EVENT != 0,
        waits: command.enqueued.waits().map(|w| w.map(|id| id.0)).collect(),
        function: String::new(),
        begin,
        end,
        end_state: match command.outcome {
            Outcome::Timed(times) => {
                let placed = times.placed.expect("events were read with an alignment");
                End::Timed {
                    raw: times.raw.map(|s| s.0),
                    start: placed.stamps[2].0,
                    end: placed.stamps[3].0,
                    bound: placed.bound_ns,
                }
            }
            Outcome::Untimed { reason, detail } => End::Untimed(reason, detail),
            Outcome::Unfinished(reason) => End::Unfinished(reason),
        },
    }
}
