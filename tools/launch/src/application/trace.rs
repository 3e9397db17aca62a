//! Launches like the captured ones, found in the trace that the captures belong to. Owns what makes
//! two launches alike, and how one stood in its queue, by the stamps of its device alone, whose
//! clock need not be known for that. Refuses to compare times.

use super::{Application, Before, MOST_ROWS, Row, SCHEMA};
use clscope_analysis::Trace;
use clscope_analysis::event::{Call, Command, Event, Kept};
use clscope_analysis::ids::IdMap;
use clscope_analysis::input::Definitions;
use clscope_analysis::time::HostNs;
use clscope_trace::defs::Geometry;
use clscope_trace::record::{CommandKind, flag};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Most commands of all devices that are looked at: 24 bytes each.
const MOST_COMMANDS: usize = 8 << 20;
/// Most launches of all captured kernels that are looked at.
const MOST_LAUNCHES: usize = 1 << 20;
/// Most entries of what came before.
const MOST_BEFORE: usize = 3;

/// What makes launches alike.
#[derive(Debug, Clone, PartialEq)]
struct Like {
    kernel: String,
    /// Hash of the program, and the options that it was built with.
    program: (String, String),
    geometry: Option<Geometry>,
    device: u32,
}

impl Like {
    fn identify(d: &Definitions, kernel: u32, geometry: u32, device: u32) -> Option<Self> {
        let known = d.kernels.get(&kernel)?;
        let name = d.recorded_names.get(&kernel).unwrap_or(&known.name);
        let hash = d.programs.get(&known.program).map(|p| p.hash.clone()).unwrap_or_default();
        let options = d.build_options.get(&known.program).cloned().unwrap_or_default();
        let of = d.geometries.get(&geometry).map(|g| Geometry { id: 0, ..g.clone() });
        Some(Self { kernel: name.clone(), program: (hash, options), geometry: of, device })
    }
}

/// A captured launch.
struct Target {
    folder: String,
    process: usize,
    like: Like,
}

/// A launch that is like a captured one.
struct Launch {
    target: usize,
    id: u64,
    thread: u32,
    enqueued: HostNs,
    is_flushed: bool,
    wait_ns: Option<u64>,
}

/// A command of a device.
#[derive(Clone, Copy)]
struct Ran {
    id: u64,
    /// QUEUED, START and END.
    stamps: Option<[u64; 3]>,
    kind: CommandKind,
    object: u32,
}

/// What a function does that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Flush,
    Wait,
}

fn roles(d: &Definitions) -> HashMap<u16, Role> {
    let role = |name: &str| match name {
        "clFlush" => Some(Role::Flush),
        "clFinish" | "clWaitForEvents" => Some(Role::Wait),
        _ => None,
    };
    d.functions().filter_map(|f| Some((f.id, role(&f.name)?))).collect()
}

/// The launches like each captured one, by the names of the captures' folders. Reads all records
/// twice; a trace without captures not at all.
pub fn of_trace(trace: &Trace<'_>) -> Vec<(String, Application)> {
    let targets = targets(trace);
    if targets.is_empty() {
        return Vec::new();
    }
    let mut pass = Pass::new(trace, &targets);
    for event in trace.events(None) {
        match &event {
            Event::Call(call) => pass.call(call),
            Event::Command(command) => pass.command(command),
            _ => {}
        }
    }
    let found = pass.finish();
    targets.into_iter().map(|target| target.folder).zip(found).collect()
}

fn targets(trace: &Trace<'_>) -> Vec<Target> {
    let mut wanted: HashMap<(usize, u64), &str> = HashMap::new();
    for (index, process) in trace.processes.iter().enumerate() {
        let whole = process.definitions.captures.iter().filter(|c| !c.folder.is_empty());
        wanted.extend(whole.filter_map(|c| Some(((index, c.command?), c.folder.as_str()))));
    }
    let mut out = Vec::new();
    if wanted.is_empty() {
        return out;
    }
    for event in trace.commands(None) {
        let Event::Command(command) = &event else { continue };
        let process = command.process.0 as usize;
        let Some(folder) = wanted.get(&(process, command.id().0)) else { continue };
        let d = &trace.process(command.process).definitions;
        let record = &command.enqueued.record;
        let like = d
            .clock_device(record.queue)
            .and_then(|device| Like::identify(d, record.object, record.geometry, device));
        if let Some(like) = like {
            out.push(Target { folder: (*folder).to_owned(), process, like });
        }
    }
    out.sort_by(|a, b| a.folder.cmp(&b.folder));
    out
}

/// The pass over all records.
struct Pass<'p, 't> {
    trace: &'p Trace<'t>,
    targets: &'p [Target],
    roles: Vec<HashMap<u16, Role>>,
    /// Targets that a kernel, a geometry and a device are of, by process.
    alike: HashMap<(usize, u32, u32, u32), Vec<usize>>,
    launches: Vec<Launch>,
    /// Launches of a thread behind which it has not waited yet.
    open: HashMap<(usize, u32), Vec<usize>>,
    /// Commands by process and device.
    ran: BTreeMap<(usize, u32), Vec<Ran>>,
    commands: usize,
}

impl<'p, 't> Pass<'p, 't> {
    fn new(trace: &'p Trace<'t>, targets: &'p [Target]) -> Self {
        Self {
            trace,
            targets,
            roles: trace.processes.iter().map(|p| roles(&p.definitions)).collect(),
            alike: HashMap::new(),
            launches: Vec::new(),
            open: HashMap::new(),
            ran: BTreeMap::new(),
            commands: 0,
        }
    }

    fn call(&mut self, call: &Call<'_>) {
        let process = call.process.0 as usize;
        let thread = (process, call.thread.0);
        let role = self.roles.get(process).and_then(|roles| roles.get(&call.function));
        match (role, &call.kept) {
            (Some(Role::Flush), _) => {
                for at in self.open.get(&thread).into_iter().flatten() {
                    self.launches[*at].is_flushed = true;
                }
            }
            (Some(Role::Wait), _) => self.waits(thread, call.span.begin),
            (None, Kept::Enqueue(enqueued)) if call.result == 0 => {
                if enqueued.has(flag::BLOCKING) {
                    self.waits(thread, call.span.begin);
                }
                let record = &enqueued.record;
                if record.kind.is_kernel() {
                    let (kernel, geometry) = (record.object, record.geometry);
                    self.launch(thread, record.queue, kernel, geometry, record.id, call.span.end);
                }
            }
            _ => {}
        }
    }

    fn waits(&mut self, thread: (usize, u32), at: HostNs) {
        for index in self.open.remove(&thread).unwrap_or_default() {
            let launch = &mut self.launches[index];
            launch.wait_ns = Some(at.since(launch.enqueued));
        }
    }

    fn launch(
        &mut self,
        thread: (usize, u32),
        queue: u32,
        kernel: u32,
        geometry: u32,
        id: u64,
        enqueued: HostNs,
    ) {
        let process = thread.0;
        let Some(of) = self.trace.processes.get(process) else { return };
        let Some(device) = of.definitions.clock_device(queue) else { return };
        let targets = self.targets;
        let alike = self.alike.entry((process, kernel, geometry, device)).or_insert_with(|| {
            let like = Like::identify(&of.definitions, kernel, geometry, device);
            let is_like = |t: &Target| t.process == process && like.as_ref() == Some(&t.like);
            let all = targets.iter().enumerate();
            all.filter(|(_, target)| is_like(target)).map(|(index, _)| index).collect()
        });
        for target in alike.iter().copied() {
            if self.launches.len() < MOST_LAUNCHES {
                self.open.entry(thread).or_default().push(self.launches.len());
                self.launches.push(Launch {
                    target,
                    id,
                    thread: thread.1,
                    enqueued,
                    is_flushed: false,
                    wait_ns: None,
                });
            }
        }
    }

    fn command(&mut self, command: &Command<'_>) {
        let process = command.process.0 as usize;
        let record = &command.enqueued.record;
        let definitions = &self.trace.process(command.process).definitions;
        let Some(device) = definitions.clock_device(record.queue) else { return };
        let is_wanted = |t: &Target| t.process == process && t.like.device == device;
        if self.commands < MOST_COMMANDS && self.targets.iter().any(is_wanted) {
            self.commands += 1;
            let stamps = command.timed().map(|t| [t.raw[0].0, t.raw[2].0, t.raw[3].0]);
            let (kind, object) = (record.kind, record.object);
            let ran = Ran { id: record.id, stamps, kind, object };
            self.ran.entry((process, device)).or_default().push(ran);
        }
    }

    fn finish(mut self) -> Vec<Application> {
        let captured: BTreeSet<(usize, u64)> = self
            .trace
            .processes
            .iter()
            .enumerate()
            .flat_map(|(at, p)| p.definitions.captures.iter().map(move |c| (at, c)))
            .filter_map(|(at, c)| Some((at, c.command?)))
            .collect();
        // Of each command of a process what it took, how it stood, and what was before it.
        let mut stood: BTreeMap<usize, IdMap<Stood>> = BTreeMap::new();
        for ((process, _), ran) in &mut self.ran {
            ran.sort_unstable_by_key(|of| of.id);
            let all = stood.entry(*process).or_default();
            let mut latest = 0;
            let mut last: Option<Ran> = None;
            for of in ran.iter() {
                let rest = match (last, of.stamps) {
                    (Some(Ran { stamps: Some(_), .. }), Some([queued, ..])) => {
                        Some((queued as i64).wrapping_sub(latest as i64))
                    }
                    _ => None,
                };
                let duration = of.stamps.map(|[_, start, end]| end.saturating_sub(start));
                all.insert(of.id, Stood { duration, rest, before: last });
                if let Some([.., end]) = of.stamps {
                    latest = latest.max(end);
                }
                last = Some(*of);
            }
        }
        let mut out: Vec<Gathered> = self.targets.iter().map(|_| Gathered::default()).collect();
        // The order of enqueues, whatever the order of threads.
        self.launches.sort_by_key(|launch| (launch.id, launch.thread));
        for launch in &self.launches {
            let process = self.targets[launch.target].process;
            let found = stood.get(&process).and_then(|all| all.get(&launch.id));
            let before = found.and_then(|of| of.before);
            let is_captured = |id: u64| captured.contains(&(process, id));
            if is_captured(launch.id) || before.is_some_and(|of| is_captured(of.id)) {
                continue;
            }
            let to = &mut out[launch.target];
            to.launches += 1;
            if let Some(duration_ns) = found.and_then(|of| of.duration) {
                let (is_flushed, wait_ns) = (launch.is_flushed, launch.wait_ns);
                let rest_ns = found.and_then(|of| of.rest);
                to.rows.push(Row { duration_ns, rest_ns, is_flushed, wait_ns });
            }
            if let Some(before) = before {
                let d = &self.trace.processes[process].definitions;
                let what = match before.kind.is_kernel() {
                    true => clscope_names::short(&d.kernel_name(before.object)),
                    false => before.kind.name().to_owned(),
                };
                *to.before.entry(what).or_default() += 1;
            }
        }
        out.into_iter().map(Gathered::finish).collect()
    }
}

/// How a command stood.
struct Stood {
    duration: Option<u64>,
    rest: Option<i64>,
    before: Option<Ran>,
}

/// What was found of a captured launch.
#[derive(Default)]
struct Gathered {
    launches: u64,
    rows: Vec<Row>,
    before: BTreeMap<String, u64>,
}

impl Gathered {
    fn finish(self) -> Application {
        let timed = self.rows.len();
        let kept = timed.min(MOST_ROWS);
        let rows = (0..kept).map(|n| self.rows[n * timed / kept]).collect();
        let mut before: Vec<Before> =
            self.before.into_iter().map(|(what, launches)| Before { what, launches }).collect();
        before.sort_by(|a, b| b.launches.cmp(&a.launches).then(a.what.cmp(&b.what)));
        before.truncate(MOST_BEFORE);
        Application { schema: SCHEMA, launches: self.launches, timed: timed as u64, rows, before }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
    use clscope_trace::defs;

    #[test]
    fn launches_like_the_captured_one_are_found_as_they_stood() {
        let host = HostModel::default();
        let mut p = ProcessBuilder::standard(host, 9, 1);
        let geometry = |id: u32, global: u64| defs::Geometry {
            id,
            dimensions: 1,
            offset: None,
            global: [global, 1, 1],
            local: Some([64, 1, 1]),
        };
        // The same sizes under another number are the same; others are not.
        p.define(geometry(2, 1024)).define(geometry(3, 2048));
        p.define(defs::Capture {
            kernel: 1,
            queue: 1,
            launch: 3,
            command: Some(4),
            folder: "matmul.3".into(),
            ..Default::default()
        });
        let kernel = |id: u64| CommandSpec::kernel(id, 1, 1);
        let on = |geometry: u32, id: u64| CommandSpec { geometry, ..kernel(id) };
        let stamps = |queued: u64, start: u64, end: u64| {
            [queued, queued + 1, start, end].map(|at| host.raw + at)
        };
        let thread = p.thread(0);
        thread
            .enqueue(1_000, 1_100, &CommandSpec::transfer(1, 1, CommandKind::WriteBuffer, 64))
            .enqueue(2_500, 2_700, &kernel(2))
            .enqueue(2_800, 2_900, &on(2, 3))
            .plain(function::FINISH, 3_700, 9_000, 0, 1)
            .enqueue(10_000, 10_100, &kernel(4))
            .enqueue(11_000, 11_100, &kernel(5))
            .enqueue(12_000, 12_100, &on(3, 6))
            .enqueue(13_000, 13_100, &CommandSpec { flags: flag::NOT_SAMPLED, ..kernel(7) })
            .enqueue(14_000, 14_100, &kernel(8))
            .enqueue(15_000, 15_100, &CommandSpec::kernel(9, 1, 2));
        for (id, of) in [
            (1, stamps(1_050, 1_100, 2_000)),
            (2, stamps(2_600, 3_000, 4_000)),
            (3, stamps(2_850, 4_100, 5_500)),
            (4, stamps(10_050, 10_060, 10_070)),
            (5, stamps(11_050, 11_060, 11_070)),
            (6, stamps(12_050, 12_060, 12_070)),
            (8, stamps(14_050, 14_100, 14_800)),
            (9, stamps(15_050, 15_060, 15_070)),
        ] {
            thread.timing(20_000 + id, id, of);
        }
        let bytes = p.build();
        let trace = Trace::open(vec![bytes.files("t/9-0")]);
        let found = of_trace(&trace);
        assert_eq!(found.len(), 1);
        let (folder, of) = &found[0];
        assert_eq!(folder, "matmul.3");
        // The captured one and the one behind it are left out, and the one of another size.
        assert_eq!((of.launches, of.timed), (4, 3));
        let row = |duration_ns, rest_ns, wait_ns| Row {
            duration_ns,
            rest_ns,
            is_flushed: false,
            wait_ns,
        };
        assert_eq!(
            of.rows,
            [
                row(1_000, Some(600), Some(1_000)),
                row(1_400, Some(2_850 - 4_000), Some(800)),
                // What was before it has no time, and nothing was waited for.
                row(700, None, None),
            ]
        );
        let before = |what: &str, launches| Before { what: what.to_owned(), launches };
        // Of the third and the fourth: a launch of the other size, and one without a time.
        assert_eq!(of.before, [before("matmul", 3), before("WriteBuffer", 1)]);
    }

    #[test]
    fn a_trace_without_captures_is_not_read() {
        let bytes = ProcessBuilder::standard(HostModel::default(), 9, 1).build();
        assert!(of_trace(&Trace::open(vec![bytes.files("t/9-0")])).is_empty());
    }
}
