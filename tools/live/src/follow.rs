//! Owns a trace directory that is followed: its processes and sensors, and what changed since the
//! reading before. Refuses to look at processes themselves: whether one runs, the caller says.

use crate::document::{
    Device, Document, Function, Host, InCall, Kernel, Meter, Process as ProcessRow, Totals,
    Transfer,
};
use crate::error::LiveError;
use crate::process::Process;
use crate::sensors::Sensors;
use crate::spans::Busy;
use crate::sums::Class;
use clscope_analysis::distinct;
use clscope_analysis::stats::CommandSums;
use clscope_analysis::time::{HostNs, Span};
use clscope_profile::interval::Interval;
use clscope_profile::names::Names;
use clscope_readings::host;
use clscope_trace::FileHeader;
use clscope_trace::defs::Anchor;
use clscope_trace::directory::{self, Role};
use clscope_trace::record::CommandKind;
use clscope_trace::replace::Requests;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What is counted up, by name, to tell rates from.
#[derive(Debug, Default)]
struct Counted {
    /// CLOCK_MONOTONIC_RAW, ns.
    at: u64,
    calls: u64,
    launches: u64,
    bytes: u64,
    kernels: BTreeMap<(String, String), (u64, f64)>,
    transfers: BTreeMap<CommandKind, u64>,
    functions: BTreeMap<String, u64>,
    /// Time that commands took, with what is estimated, per process and device.
    devices: BTreeMap<(String, u32), f64>,
}

/// Commands of one name.
#[derive(Debug, Default)]
struct Merged {
    enqueued: u64,
    bytes: u64,
    parts: Vec<CommandSums>,
    /// Their queues, by process and id, with the most nanoseconds that an in-order one can have
    /// run.
    queues: BTreeMap<(String, u32), Option<f64>>,
}

impl Merged {
    fn add(&mut self, enqueued: u64, bytes: u64, known: &CommandSums) {
        self.enqueued += enqueued;
        self.bytes = self.bytes.saturating_add(bytes);
        self.parts.push(known.clone());
    }

    /// The most nanoseconds that they can have run one after the other, where that is known.
    fn most_ns(&self) -> Option<f64> {
        self.queues.values().copied().sum()
    }
}

/// A trace directory, followed.
#[derive(Debug)]
pub struct Follower {
    path: PathBuf,
    /// Stems of the only processes that are looked at; all where empty.
    only: Vec<String>,
    processes: BTreeMap<(u64, String), Process>,
    sensors: BTreeMap<String, Sensors>,
    unreadable: BTreeMap<String, String>,
    boot: [u8; 16],
    before: Option<Counted>,
    now: Counted,
    /// Bytes of definitions whose names were told apart.
    defined: u64,
}

impl Follower {
    /// Follows a trace directory; of its processes only those of these stems (`PID-N`), where any
    /// are given.
    ///
    /// # Errors
    /// If it cannot be listed, or holds no file of a trace.
    pub fn open(path: &Path, only: Vec<String>) -> Result<Self, LiveError> {
        let out = Self {
            path: path.to_owned(),
            only,
            processes: BTreeMap::new(),
            sensors: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            boot: host::boot_id(),
            before: None,
            now: Counted::default(),
            defined: 0,
        };
        let files = out.list()?;
        match files.iter().any(|(_, role)| role.stem().is_some()) {
            true => Ok(out),
            false => Err(LiveError::Empty { path: path.to_owned() }),
        }
    }

    /// What was asked to be changed of the application, as options of `clscope record`, as far as
    /// processes are known; names of files and kernels are in it as they are.
    pub fn changes(&self) -> Vec<String> {
        let mut out = BTreeSet::new();
        for process in self.processes.values() {
            let asked = Requests::of_settings(&process.definitions.process.settings);
            let files = asked.replacements.iter();
            out.extend(files.map(|one| format!("--replace {}={}", one.kernel, one.file)));
            out.extend(asked.local_sizes.iter().map(|one| format!("--local {one}")));
            if !asked.append_options.is_empty() {
                out.insert(format!("--options {}", asked.append_options));
            }
        }
        out.into_iter().collect()
    }

    fn list(&self) -> Result<Vec<(String, Role)>, LiveError> {
        directory::list(&self.path)
            .map_err(|source| LiveError::List { path: self.path.clone(), source })
    }

    /// Reads what was recorded since the last time, and says what is known. `state` tells how the
    /// process of a stem stands; one whose trace says that it ended is not asked for. Files that
    /// cannot be read are told of in the document.
    ///
    /// # Errors
    /// If the directory cannot be listed any more.
    pub fn poll(&mut self, state: &dyn Fn(&str) -> &'static str) -> Result<Document, LiveError> {
        self.read()?;
        Ok(self.document(state))
    }

    fn read(&mut self) -> Result<(), LiveError> {
        let files = self.list()?;
        let mut by_stem: BTreeMap<(u64, String), Vec<(String, Role)>> = BTreeMap::new();
        for (name, role) in files {
            let Some(stem) = role.stem().map(str::to_owned) else {
                if role == Role::Sensors {
                    let result = self.sensors.entry(name.clone()).or_default();
                    match result.poll(&self.path.join(&name)) {
                        Ok(_) => drop(self.unreadable.remove(&name)),
                        Err(error) => drop(self.unreadable.insert(name, error.to_string())),
                    }
                }
                continue;
            };
            if self.only.is_empty() || self.only.contains(&stem) {
                let pid = stem.split('-').next().and_then(|p| p.parse().ok()).unwrap_or(0);
                by_stem.entry((pid, stem)).or_default().push((name, role));
            }
        }
        let boot = self.boot;
        let here = |header: &FileHeader| -> Option<Anchor> {
            (boot != [0; 16] && boot == header.boot && clscope_clock::choose() == header.clock)
                .then(|| clscope_clock::anchor(header.clock))
        };
        for (key, files) in by_stem {
            let process = self.processes.entry(key).or_default();
            // What lies behind the last reading; of what was before the first, nothing is known.
            let window = process.clock.map_or(u64::MAX, |clock| clock.ticks);
            process.sums.begin_window(window);
            process.poll(&self.path, &files, &here);
            if process.definitions.exit.is_some() {
                process.sums.end();
            }
        }
        let defined = self.processes.values().map(Process::definitions_at).sum();
        let mut before = Some(std::mem::take(&mut self.now)).filter(|b| b.at > 0);
        if std::mem::replace(&mut self.defined, defined) != defined {
            let definitions = self.processes.values_mut().map(|p| (0, &mut p.definitions));
            let has_changed = distinct::mark(&mut definitions.collect::<Vec<_>>());
            // Counts are by name: of others there is no rate yet.
            before = before.filter(|_| !has_changed);
        }
        self.before = before;
        self.now.at = clscope_clock::monotonic_raw().0;
        Ok(())
    }

    fn document(&mut self, state: &dyn Fn(&str) -> &'static str) -> Document {
        let interval = self.before.as_ref().map(|b| self.now.at.saturating_sub(b.at));
        let interval = interval.filter(|ns| *ns > 0);
        let mut out = Document {
            interval_ns: interval,
            ..Document::waiting(self.path.display().to_string())
        };
        let mut spans = Vec::new();
        for ((_, stem), process) in &self.processes {
            let row = row(stem, process, state);
            if let (Some(clock), Some(header)) = (&process.clock, &process.header) {
                // Of what has ended, from the first call to the end of the last or of what ran, as
                // `report` has it; how long ago that was says nothing of the run.
                let known = process.sums.extent.filter(|_| row.state == "ended");
                let (first, last) = known.unwrap_or((header.created, clock.ticks));
                let (begin, end) = (clock.at(first), clock.at(last));
                let ran = process.busy.values().filter_map(Busy::until).max();
                let end = end.max(ran.filter(|_| known.is_some()).unwrap_or(end));
                spans.push(Span { begin: HostNs(begin), end: HostNs(end) });
            }
            if row.state == "ended" && process.definitions.exit.is_none() {
                out.problems.push(format!(
                    "{stem}: it was killed, crashed, or called _exit or exec: what it did last may be missing"
                ));
            }
            out.problems
                .extend(process.unreadable.iter().map(|(name, why)| format!("{name}: {why}")));
            if process.damaged > 0 {
                out.problems.push(format!("{stem}: {} blocks are damaged", process.damaged));
            }
            out.processes.push(row);
        }
        let recorded = Span::join(spans);
        out.duration_ns = (!recorded.is_empty()).then(|| recorded.iter().map(Span::duration).sum());
        if out.has_ended() {
            out.interval_ns = None;
        }
        self.now = Counted { at: self.now.at, ..Counted::default() };
        let seconds = out.interval_ns.map(|ns| ns as f64 * 1e-9);
        self.commands(&mut out, seconds);
        self.host(&mut out, seconds);
        self.devices(&mut out, seconds);
        self.totals(&mut out, seconds);
        for sensors in self.sensors.values() {
            out.meters.extend(sensors.meters.values().map(|meter| Meter {
                source: meter.series.source.clone(),
                name: meter.series.name.clone(),
                plane: meter.series.plane.clone(),
                device: meter.series.device.clone(),
                watts: seconds.and(meter.watts()),
                joules: None,
            }));
        }
        out.problems.extend(self.unreadable.iter().map(|(name, why)| format!("{name}: {why}")));
        out
    }

    /// What something grew by each second.
    fn rate(
        &self,
        seconds: Option<f64>,
        now: u64,
        before: impl Fn(&Counted) -> u64,
    ) -> Option<f64> {
        let before = before(self.before.as_ref()?);
        Some(now.saturating_sub(before) as f64 / seconds?)
    }

    fn commands(&mut self, out: &mut Document, seconds: Option<f64>) {
        let mut kernels: BTreeMap<(String, String), Merged> = BTreeMap::new();
        let mut others: BTreeMap<CommandKind, Merged> = BTreeMap::new();
        for ((_, stem), process) in &self.processes {
            let d = &process.definitions;
            let lasted = process.lasted_ns();
            for (class, sums) in process.sums.classes() {
                let (Class::Kernel(_, queue) | Class::Other(_, queue, _)) = class;
                let merged = match class {
                    Class::Kernel(kernel, _) => {
                        let device = d.queues.get(queue).map_or(0, |q| q.device);
                        let device = d.device_name(device).into_owned();
                        kernels.entry((d.kernel_name(*kernel).into_owned(), device)).or_default()
                    }
                    Class::Other(kind, ..) => others.entry(*kind).or_default(),
                };
                merged.add(sums.enqueued, sums.bytes, &sums.known);
                let in_order = d.queues.get(queue).is_some_and(|q| !q.is_out_of_order());
                merged.queues.insert((stem.clone(), *queue), lasted.filter(|_| in_order));
            }
        }
        for ((name, device), merged) in kernels {
            let mut sums = CommandSums::default();
            merged.parts.iter().for_each(|part| sums.merge(part));
            let total = total(&sums, merged.most_ns());
            let launches = merged.enqueued;
            self.now.launches += launches;
            let key = (name, device);
            let device_ns = total.map_or(0.0, |total| total.value);
            let before = |b: &Counted| b.kernels.get(&key).copied().unwrap_or_default();
            let rate = self.rate(seconds, launches, |b| before(b).0);
            let grown = self.before.as_ref().map(|b| (device_ns - before(b).1).max(0.0));
            let time_share = grown.zip(seconds).map(|(ns, seconds)| ns * 1e-9 / seconds);
            self.now.kernels.insert(key.clone(), (launches, device_ns));
            out.kernels.push(Kernel {
                name: key.0,
                device: key.1,
                launches,
                timed: sums.time.count(),
                left_out: sums.left_out(),
                share: None,
                timed_ns: ns(sums.time.total()),
                total_ns: total,
                mean_ns: total.map(|t| t.value / sums.covered().max(1) as f64),
                p95_ns: match sums.estimated() {
                    Some(sampled) => sampled.quantile(0.95).map(|q| q.value),
                    None => sums.time.quantile(0.95),
                },
                max_ns: sums.time.max(),
                launches_per_second: rate,
                time_share,
                joules: None,
                joules_per_launch: None,
                watts: None,
                why: None,
            });
        }
        out.share_kernels();
        let value = |total: &Option<Interval>| total.map_or(-1.0, |t| t.value);
        out.kernels.sort_by(|a, b| {
            let order = value(&b.total_ns).total_cmp(&value(&a.total_ns));
            order.then_with(|| b.launches.cmp(&a.launches)).then_with(|| a.name.cmp(&b.name))
        });
        out.display_names = Names::new(out.kernels.iter().map(|k| k.name.as_str())).display();
        for (kind, merged) in others {
            let most = merged.most_ns();
            let sums = CommandSums::together(merged.parts);
            let rate = self
                .rate(seconds, merged.bytes, |b| b.transfers.get(&kind).copied().unwrap_or(0))
                .filter(|_| merged.bytes > 0);
            self.now.transfers.insert(kind, merged.bytes);
            out.transfers.push(Transfer {
                kind: kind.name().to_owned(),
                direction: kind.direction().map(|d| d.name().to_owned()),
                count: merged.enqueued,
                timed: sums.time.count(),
                bytes: merged.bytes,
                timed_ns: ns(sums.time.total()),
                total_ns: total(&sums, most),
                bytes_per_second: rate,
            });
        }
        out.transfers.sort_by(|a, b| value(&b.total_ns).total_cmp(&value(&a.total_ns)));
    }

    fn host(&mut self, out: &mut Document, seconds: Option<f64>) {
        /// Calls of a name: calls, errors, nanoseconds, and those since the last reading.
        #[derive(Default)]
        struct Calls {
            calls: u64,
            errors: u64,
            ns: Option<f64>,
            window_ns: Option<f64>,
        }
        let mut functions: BTreeMap<String, Calls> = BTreeMap::new();
        let (mut inside, mut blocked) = (0.0, 0.0);
        for process in self.processes.values() {
            let d = &process.definitions;
            let tick = process.clock.map(|c| c.ns_per_tick);
            let waits = |id: u16| d.function(id).is_some_and(|f| f.group == "wait");
            for (id, sums) in process.sums.functions.iter().enumerate().filter(|(_, s)| s.calls > 0)
            {
                let id = u16::try_from(id).unwrap_or(u16::MAX);
                let of = functions.entry(d.function_name(id).into_owned()).or_default();
                of.calls = of.calls.saturating_add(sums.calls);
                of.errors += sums.errors;
                let Some(tick) = tick else { continue };
                *of.ns.get_or_insert(0.0) += sums.ticks as f64 * tick;
                *of.window_ns.get_or_insert(0.0) += sums.window as f64 * tick;
                inside += sums.window as f64 * tick;
                blocked += if waits(id) { sums.window } else { sums.blocked } as f64 * tick;
            }
            let ended = process.definitions.exit.is_some();
            if let Some(clock) = process.clock.filter(|_| !ended) {
                let from = process.sums.window;
                for call in &process.in_calls {
                    // One that takes longer than a reading's distance, whatever it is, waits.
                    let since = call.begin.max(from);
                    let now = clock.ticks.saturating_sub(since) as f64 * clock.ns_per_tick;
                    inside += now;
                    blocked += if waits(call.function) || call.begin < from { now } else { 0.0 };
                }
            }
        }
        let share = |ns: f64| seconds.map(|s| ns * 1e-9 / s);
        out.host = Host { opencl_share: share(inside), blocked_share: share(blocked) };
        for (name, of) in functions {
            self.now.calls = self.now.calls.saturating_add(of.calls);
            let rate =
                self.rate(seconds, of.calls, |b| b.functions.get(&name).copied().unwrap_or(0));
            self.now.functions.insert(name.clone(), of.calls);
            out.functions.push(Function {
                name,
                calls: of.calls,
                errors: of.errors,
                total_ns: of.ns.map(|ns| ns as u64),
                calls_per_second: rate,
                time_share: of.window_ns.and_then(share),
            });
        }
        out.functions.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    }

    fn devices(&mut self, out: &mut Document, seconds: Option<f64>) {
        // Of what has ended there is no last interval, and the whole is known.
        let whole = out.duration_ns.filter(|ns| *ns > 0 && out.has_ended()).map(|ns| ns as f64);
        for ((_, stem), process) in &self.processes {
            let d = &process.definitions;
            let gone = out.processes.iter().any(|p| p.label == *stem && p.state == "ended");
            let mut in_flight: BTreeMap<u32, u64> = BTreeMap::new();
            for device in process.sums.in_flight().filter_map(|queue| d.clock_device(queue)) {
                *in_flight.entry(device).or_default() += 1;
            }
            let mut took: BTreeMap<u32, (f64, u64)> = BTreeMap::new();
            let mut queues: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
            for (class, sums) in process.sums.classes() {
                let (Class::Kernel(_, queue) | Class::Other(_, queue, _)) = class;
                let Some(device) = d.clock_device(*queue) else { continue };
                let of = took.entry(device).or_default();
                of.0 += sums.known.total().map_or(0.0, |t| t.value);
                of.1 += sums.known.left_out();
                queues.entry(device).or_default().insert(*queue);
            }
            // Commands of several queues may overlap, so that their times are no busy time.
            let one_by_one = |device: u32| {
                let of = queues.get(&device);
                let in_order = |q: &u32| d.queues.get(q).is_some_and(|q| !q.is_out_of_order());
                of.is_some_and(|of| of.len() == 1 && of.iter().all(in_order))
            };
            for (device, (total, left_out)) in took {
                let key = (stem.clone(), device);
                let estimated = left_out > 0;
                let before = self.before.as_ref().and_then(|b| b.devices.get(&key)).copied();
                self.now.devices.insert(key, total);
                // Nothing is on its way to where nothing runs.
                let waiting = in_flight.get(&device).copied().filter(|_| !gone).unwrap_or(0);
                let busy = process.busy.get(&device);
                let share = match (seconds, busy) {
                    (Some(s), _) if estimated => {
                        before.map(|b| ((total - b) * 1e-9 / s).clamp(0.0, 1.0))
                    }
                    (Some(s), Some(busy)) => process.clock.and_then(|clock| {
                        // What runs now shows when it is done.
                        let now = clock.raw as i64;
                        let end = if waiting > 0 { busy.until()?.min(now) } else { now };
                        Some(busy.share(end - (s * 1e9) as i64, end))
                    }),
                    (Some(_), None) if waiting == 0 => Some(0.0),
                    (None, _) if estimated => {
                        whole.filter(|_| one_by_one(device)).map(|ns| (total / ns).clamp(0.0, 1.0))
                    }
                    (None, Some(busy)) => {
                        whole.map(|ns| (busy.total_ns as f64 / ns).clamp(0.0, 1.0))
                    }
                    _ => None,
                };
                out.devices.push(Device {
                    process: stem.clone(),
                    id: device,
                    name: d.device_name(device).into_owned(),
                    busy_share: share,
                    busy_is_estimated: estimated,
                    busy_ns: busy.filter(|_| !estimated).map(|b| b.total_ns),
                    in_flight: waiting,
                });
            }
        }
    }

    fn totals(&mut self, out: &mut Document, seconds: Option<f64>) {
        let each = || self.processes.values();
        let bytes = each().map(|p| p.bytes).sum();
        self.now.bytes = bytes;
        let (calls, launches) = (self.now.calls, self.now.launches);
        out.totals = Totals {
            calls,
            commands: each().map(|p| p.sums.commands).sum(),
            timed: each().map(|p| p.sums.timed).sum(),
            launches,
            in_flight: out.devices.iter().map(|d| d.in_flight).sum(),
            dropped: each().fold(0, |sum, p| {
                sum.saturating_add(p.sums.dropped).saturating_add(p.dropped_untold)
            }),
            bytes,
            calls_per_second: self.rate(seconds, calls, |b| b.calls),
            launches_per_second: self.rate(seconds, launches, |b| b.launches),
            bytes_per_second: self.rate(seconds, bytes, |b| b.bytes),
        };
    }
}

/// Time of commands: an estimate is no more than `most_ns`, which their queues can have run.
fn total(sums: &CommandSums, most_ns: Option<f64>) -> Option<Interval> {
    let of = Interval { estimated: sums.left_out() > 0, ..sums.total()? };
    let most = most_ns.filter(|_| of.estimated);
    Some(most.map_or(of, |most| of.map(|ns| ns.min(most))))
}

fn ns(total: u128) -> u64 {
    u64::try_from(total).unwrap_or(u64::MAX)
}

fn row(stem: &str, process: &Process, state: &dyn Fn(&str) -> &'static str) -> ProcessRow {
    let d = &process.definitions;
    let ended = d.exit.is_some();
    let state = if ended { "ended" } else { state(stem) };
    let in_calls = process.in_calls.iter().filter(|_| !ended).map(|call| InCall {
        thread: call.thread,
        function: d.function_name(call.function).into_owned(),
        ns: process.clock.filter(|_| state != "ended").map(|clock| {
            (clock.ticks.saturating_sub(call.begin) as f64 * clock.ns_per_tick) as u64
        }),
    });
    ProcessRow {
        label: stem.to_owned(),
        pid: process.header.as_ref().map_or(0, |h| h.pid),
        host: d.process.host.clone(),
        executable: d.process.executable.clone(),
        arguments: d.process.arguments.clone(),
        mpi_rank: d.process.mpi_rank,
        state,
        in_calls: in_calls.collect(),
    }
}
