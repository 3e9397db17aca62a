//! Owns counters that are read inside the application around its commands (`CLSCOPE_SNAPSHOT` with
//! `CLSCOPE_COUNTERS`), the GPU's own clock before and after each, and their file. Counts belong to
//! the command that was waited for between two readings; where another was under way meanwhile,
//! they say so. Refuses to choose a metric set (`clscope record` leaves its choice in the trace
//! directory) and to wait long for a report: a count that did not come is not known.

mod timer;

use crate::abi::constants as cl;
use crate::abi::entry::{H, Site};
use crate::abi::functions::id;
use crate::facts::{info, platforms};
use crate::os::descriptors::{descriptors_to_spare, raised};
use crate::os::locks::lock::Mutex;
use crate::os::shared::current::Current;
use crate::os::undisturbed::undisturbed;
use crate::recording::files::Appended;
use crate::recording::{Recording, diag, guard};
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_oa::config::{Node, Uuid, find_loaded, nodes};
use clscope_oa::cpu::{EVENTS, Kernel, ProcessCounters, by_reason};
use clscope_oa::device::DrmFile;
use clscope_oa::open::{self as oa, GpuClock};
use clscope_oa::{CounterSource, CounterWindow, OaError, Published};
use clscope_readings::{Blocks, Clocks, counter_source};
use clscope_sensors::{Clock as _, Roots, System};
use clscope_trace::sensors::{
    self, COUNTER_PLAN, CounterReport, CounterWindows, Event, Finding, Record, Records,
};
use clscope_trace::values::Counters as Wanted;
use std::time::Duration;
use timer::{Read, Timer, TimerSlot};

/// Longest time between reports of a stream unless `clscope record` sets another: a reading waits
/// for one.
const PERIOD_NS: u64 = 500_000;
/// How often i915 looks for reports while somebody waits for them; its least.
const POLL_NS: u64 = 100_000;
/// Longest wait for a report that must come, beside two periods.
const PATIENCE_NS: u64 = 20_000_000;
/// Rows are written when they take this many bytes, or are this old.
const MOST_BYTES: usize = 256 << 10;
const MOST_NS: u64 = 1_000_000_000;
/// How long a thread waits for another that is just reading.
const LOCK: Duration = Duration::from_millis(200);

const INTEL: u64 = 0x8086;

/// A source that is read around commands.
struct Slot {
    source: Box<dyn CounterSource>,
    id: u32,
    /// How far apart its reports are, where it hands them over in a stream: a reading waits for the
    /// next.
    period_ns: Option<u64>,
    failed: bool,
}

/// What a source counted since a command was begun.
struct Sum {
    window: sensors::CounterWindow,
    any: bool,
}

/// A command between its two readings.
struct Around {
    thread: usize,
    sums: Vec<Sum>,
    shared: bool,
    /// Its device's timer, and the two readings.
    timer: Option<(u32, Read)>,
    timer_after: Option<Read>,
}

struct State {
    file: Blocks,
    payload: Vec<u8>,
    written_ns: u64,
    next_id: u32,
    slots: Vec<Slot>,
    timers: Vec<TimerSlot>,
    /// Numbers in the file of configurations of Intel's queues.
    queues: Vec<(u32, u32)>,
    under_way: Vec<Around>,
    /// Commands that are over, whose ids are not known yet.
    over: Vec<Around>,
}

static CURRENT: Current<Mutex<State>> = Current::none();

fn roots() -> Roots {
    config::get().sysfs_root.as_deref().map_or_else(Roots::default, Roots::below)
}

/// Opens what is asked for, at the first OpenCL call of a process.
pub fn begin(recording: &Recording) {
    // A forked child's parent goes on with its own.
    CURRENT.set(None);
    let wanted = config::get();
    let queues = wanted.counters.iter().any(|w| matches!(w, Wanted::IntelQueue(_)));
    if !wanted.snapshot && !queues {
        return;
    }
    let name = format!("sensors-counters-{}.clt", recording.files.stem);
    let file = Appended::create(&recording.files, name.clone());
    let file = match file.and_then(|file| Blocks::over(Box::new(file))) {
        Ok(file) => file,
        Err(error) => {
            diag::warn(
                "no-counters",
                &format!("counters are not read: cannot write {name}: {error}"),
            );
            return;
        }
    };
    let mut state = State {
        file,
        payload: Vec::new(),
        written_ns: now(),
        next_id: 0,
        slots: Vec::new(),
        timers: Vec::new(),
        queues: Vec::new(),
        under_way: Vec::new(),
        over: Vec::new(),
    };
    if wanted.snapshot && descriptors_to_spare() {
        for family in &wanted.counters {
            match family {
                Wanted::Perf => state.perf(recording.pid),
                Wanted::Oa(uuid) => state.oa(recording, uuid.as_deref()),
                Wanted::IntelQueue(_) => {}
            }
        }
    }
    state.flush(now());
    CURRENT.keep(Mutex::new(state));
}

fn now() -> u64 {
    clscope_clock::monotonic_raw().0
}

/// An error with what helps.
fn words(error: &OaError) -> String {
    let remedy = error.remedy().map_or_else(String::new, |r| format!("; to fix: {r}"));
    let cause = std::error::Error::source(error).map_or_else(String::new, |c| format!(": {c}"));
    format!("{error}{cause}{remedy}")
}

impl State {
    fn announce(&mut self, mut about: sensors::CounterSource) -> u32 {
        about.id = self.next_id;
        self.next_id += 1;
        let id = about.id;
        sensors::encode(&about.into(), &mut self.payload);
        id
    }

    fn perf(&mut self, pid: u32) {
        match ProcessCounters::open(&System, &Roots::default(), &Kernel(raised), pid, &EVENTS) {
            Ok((source, problems)) => {
                let id = self
                    .announce(sensors::CounterSource { pid: Some(pid), ..counter_source(&source) });
                self.slots.push(Slot {
                    source: Box::new(source),
                    id,
                    period_ns: None,
                    failed: false,
                });
                self.missing(&problems);
            }
            Err(error) => diag::warn(
                "no-perf-counters",
                &format!("perf events are not read around commands: {}", words(&error)),
            ),
        }
    }

    /// Notes events that this machine has not.
    fn missing(&mut self, problems: &[OaError]) {
        for (why, events) in by_reason(problems) {
            let remedy = problems.iter().find_map(OaError::remedy).unwrap_or_default();
            let finding = Finding {
                name: format!("perf events {}", events.join(", ")),
                state: "refused".to_owned(),
                why,
                remedy,
            };
            sensors::encode(&finding.into(), &mut self.payload);
        }
    }

    fn oa(&mut self, recording: &Recording, uuid: Option<&str>) {
        let roots = roots();
        let plan = std::fs::read(recording.files.directory.join(COUNTER_PLAN)).unwrap_or_default();
        let chosen = Records::new(&plan)
            .filter_map(|r| if let Record::CounterSource(about) = r { Some(about) } else { None });
        let chosen: Vec<sensors::CounterSource> = chosen.collect();
        let nodes = nodes(&System, &roots);
        let wanted: Vec<(&Node, sensors::CounterSource)> = match uuid {
            // What was refused to `clscope record` is not in the plan, and was reported.
            None => {
                let of = |about: sensors::CounterSource| {
                    Some((
                        nodes
                            .iter()
                            .find(|n| about.name == format!("oa:{}:{}", n.driver, n.card))?,
                        about,
                    ))
                };
                chosen.into_iter().filter_map(of).collect()
            }
            Some(uuid) => nodes
                .iter()
                .map(|n| {
                    (n, sensors::CounterSource { uuid: uuid.to_owned(), ..Default::default() })
                })
                .collect(),
        };
        for (node, about) in wanted {
            let card = node.card.clone();
            if let Err(error) = self.stream(&roots, node, about) {
                diag::warn(
                    "no-oa-counters",
                    &format!(
                        "OA counters of {card} are not read around commands: {}",
                        words(&error)
                    ),
                );
            }
        }
    }

    fn stream(
        &mut self,
        roots: &Roots,
        node: &Node,
        mut about: sensors::CounterSource,
    ) -> Result<(), OaError> {
        let path = node.path(roots);
        let device = DrmFile::open_placed(&path, raised)?;
        let clock = DrmFile::open_placed(&path, raised)
            .and_then(|d| GpuClock::open(&System, roots, node, Box::new(d)));
        let uuid = about.uuid.parse::<Uuid>().map_err(|_| OaError::Unsupported {
            what: "opening an OA stream",
            reason: format!("{:?} is no UUID of a configuration", about.uuid),
        })?;
        find_loaded(&System, roots, &node.card, &uuid)?;
        let period_ns = if about.period_ns == 0 { PERIOD_NS } else { about.period_ns };
        let wanted = oa::Wanted { period_ns, uuid, registers: None, poll_ns: Some(POLL_NS) };
        let opened = oa::open(&System, roots, node, Box::new(device), &wanted)?;
        if about.format.is_empty() {
            // Not from `clscope record`: nothing but the configuration is known yet.
            about = sensors::CounterSource {
                uuid: about.uuid,
                format: opened
                    .generation
                    .0
                    .widest_format()
                    .layout(Published::Tables)
                    .name
                    .to_owned(),
                generation: format!("{:?}", opened.generation.0),
                pci: node.pci.clone(),
                ..counter_source(&opened.sampler)
            };
        }
        (about.hz, about.period_ns) = (opened.hz, opened.period_ns);
        let id = self.announce(about);
        self.slots.push(Slot {
            source: Box::new(opened.sampler),
            id,
            period_ns: Some(opened.period_ns),
            failed: false,
        });
        if let Ok(clock) = clock {
            // The clock of the GPU whose counters are read is that of every command, unless its
            // runtime offers one.
            let id = self.timer_about(&format!("timer:{}:{}", node.driver, node.card), clock.hz);
            self.timers.push(TimerSlot { device: 0, timer: Some((id, Timer::Driver(clock))) });
        }
        Ok(())
    }

    fn timer_about(&mut self, name: &str, hz: u64) -> u32 {
        self.announce(sensors::CounterSource { name: name.to_owned(), hz, ..Default::default() })
    }

    /// Reads every source; what was counted since the last reading goes to all commands under way.
    /// Streams are read until they have come to `until`; gives which have not, in time.
    fn read(&mut self, until: u64) -> Vec<bool> {
        let mut clock = Clocks;
        let mut late = vec![false; self.slots.len()];
        for (index, slot) in self.slots.iter_mut().enumerate().filter(|(_, s)| !s.failed) {
            let patience = slot.period_ns.map_or(0, |p| PATIENCE_NS + 2 * p);
            let mut come = 0;
            loop {
                let under_way = &mut self.under_way;
                let mut take = |window: &CounterWindow<'_>| {
                    come = window.end.map_or(come, |end| end.mid().0);
                    under_way
                        .iter_mut()
                        .filter_map(|a| a.sums.get_mut(index))
                        .for_each(|sum| sum.add(window));
                };
                if let Err(error) = slot.source.read(&mut clock, &mut take) {
                    let fatal = error.is_fatal();
                    let text = format!(
                        "counters of {} could not be read around a command: {error}",
                        slot.source.name()
                    );
                    let (code, source) = (
                        if fatal { "lost" } else { "trouble" }.to_owned(),
                        slot.source.name().to_owned(),
                    );
                    sensors::encode(
                        &Event {
                            time: clock.raw().0,
                            code,
                            series: None,
                            source,
                            text: text.clone(),
                        }
                        .into(),
                        &mut self.payload,
                    );
                    diag::warn("counters-failed", &text);
                    slot.failed = fatal;
                    break;
                }
                let now = clock.raw().0;
                let Some(period) = slot.period_ns.filter(|_| come < until) else { break };
                if now > until.saturating_add(patience) {
                    // What is missing at this end is in the next command's counts.
                    if let Some(late) = late.get_mut(index) {
                        *late = true;
                    }
                    self.under_way
                        .iter_mut()
                        .filter_map(|a| a.sums.get_mut(index))
                        .for_each(|sum| sum.window.broken = true);
                    break;
                }
                std::thread::sleep(Duration::from_nanos((period / 4).clamp(20_000, 500_000)));
            }
        }
        late
    }

    /// The timer that reads a device's time.
    fn timer(&mut self, slot: usize, device: H) -> Option<(u32, Read)> {
        let known = self.timers.iter().position(|t| t.device == device.word());
        let index = known.unwrap_or_else(|| {
            let timer =
                self.runtime_timer(slot, device).or_else(|| self.driver_timer(slot, device));
            self.timers.push(TimerSlot { device: device.word(), timer });
            self.timers.len() - 1
        });
        let found = self.timers.get(index).and_then(|t| t.timer.as_ref());
        let found = found.or_else(|| {
            self.timers.iter().filter(|t| t.device == 0).find_map(|t| t.timer.as_ref())
        });
        found.and_then(|(id, timer)| Some((*id, timer.read(device)?)))
    }

    fn runtime_timer(&mut self, slot: usize, device: H) -> Option<(u32, Timer)> {
        let timer = Timer::Runtime(api::clGetDeviceAndHostTimer.behind(slot)?);
        // A device without one answers with an error, or with 0.
        timer.read(device).filter(|r| r.ticks != 0)?;
        Some((self.timer_about("timer:clGetDeviceAndHostTimer", 1_000_000_000), timer))
    }

    /// Of an Intel GPU, where it is the only one that a driver has.
    fn driver_timer(&mut self, slot: usize, device: H) -> Option<(u32, Timer)> {
        let site = Site { slot, function: id::clGetDeviceAndHostTimer };
        let number = |name| info::number(api::clGetDeviceInfo.own(site.slot), device, name);
        if number(cl::CL_DEVICE_TYPE)? & cl::CL_DEVICE_TYPE_GPU == 0
            || number(cl::CL_DEVICE_VENDOR_ID)? != INTEL
        {
            return None;
        }
        let roots = roots();
        let nodes = nodes(&System, &roots);
        let pci = platforms::pci(site, device);
        let node = match (&nodes[..], pci) {
            ([one], None) => one,
            (many, Some(pci)) => many.iter().find(|n| n.pci.as_deref() == Some(&pci))?,
            _ => return None,
        };
        let path = node.path(&roots);
        let device = DrmFile::open_placed(&path, raised).ok()?;
        let clock = GpuClock::open(&System, &roots, node, Box::new(device)).ok()?;
        Some((
            self.timer_about(&format!("timer:{}:{}", node.driver, node.card), clock.hz),
            Timer::Driver(clock),
        ))
    }

    fn flush(&mut self, at: u64) {
        self.written_ns = at;
        self.file.append(&self.payload);
        self.payload.clear();
    }

    fn tick(&mut self) {
        let now = now();
        if self.payload.len() >= MOST_BYTES || now.saturating_sub(self.written_ns) >= MOST_NS {
            self.flush(now);
        }
    }

    fn row(&mut self, source: u32, window: &sensors::CounterWindow) {
        let mut row = Vec::with_capacity(sensors::WINDOW_HEAD + 8 * window.counts.len());
        window.append_to(&mut row);
        let width = window.counts.len() as u32;
        sensors::encode(
            &Record::CounterWindows(CounterWindows::new(source, width, &row)),
            &mut self.payload,
        );
    }

    /// Writes down what was read around a command.
    fn write(&mut self, around: &Around, command: u64) {
        let (command, shared) = (command as u32, around.shared);
        let ids: Vec<u32> = self.slots.iter().map(|s| s.id).collect();
        for (id, sum) in ids.into_iter().zip(&around.sums).filter(|(_, sum)| sum.any) {
            self.row(id, &sensors::CounterWindow { command, shared, ..sum.window.clone() });
        }
        if let (Some((id, before)), Some(after)) = (around.timer, around.timer_after) {
            let within_ns =
                u32::try_from(before.within_ns.max(after.within_ns)).unwrap_or(u32::MAX);
            let (host, ticks) =
                (Some((before.host_ns, after.host_ns)), Some((before.ticks, after.ticks)));
            self.row(
                id,
                &sensors::CounterWindow {
                    host,
                    ticks,
                    within_ns,
                    command,
                    shared,
                    ..Default::default()
                },
            );
        }
    }
}

impl Sum {
    fn add(&mut self, of: &CounterWindow<'_>) {
        let window = &mut self.window;
        let mut next = clscope_readings::counter_window(of);
        window.broken |= next.broken;
        window.within_ns = window.within_ns.max(next.within_ns);
        if !self.any {
            self.any = true;
            next.broken = window.broken;
            next.within_ns = window.within_ns;
            *window = next;
            return;
        }
        window.host = window.host.zip(next.host).map(|(all, last)| (all.0, last.1));
        window.ticks = window.ticks.zip(next.ticks).map(|(all, last)| (all.0, last.1));
        window.context = window.context.filter(|c| next.context == Some(*c));
        for (sum, more) in window.counts.iter_mut().zip(next.counts) {
            *sum = sum.zip(more).map(|(sum, more)| sum.wrapping_add(more));
        }
    }
}

fn this_thread() -> usize {
    std::ptr::from_ref(guard::thread()) as usize
}

/// Runs `run` on what is read, unless another thread has it for long. On the application's threads,
/// whose handlers must not leave it in the middle: signals wait.
fn with(patience: Duration, run: impl FnOnce(&mut State)) {
    let Some(state) = CURRENT.get() else { return };
    undisturbed(|| {
        if let Some(mut state) = state.try_lock_for(patience) {
            run(&mut state);
        }
    });
}

/// A command is about to be enqueued on a queue of this device, NULL if unknown.
pub fn before(slot: usize, device: H) {
    with(LOCK, |state| state.before(slot, device));
}

/// It was enqueued and is complete.
pub fn after(slot: usize, device: H) {
    with(LOCK, |state| state.after(slot, device));
}

/// The command has this id.
pub fn command(id: u64) {
    with(LOCK, |state| state.command(id));
}

/// What a runtime's own counters, of this configuration, said of a command.
pub fn report(command: u64, configuration: u32, bytes: Vec<u8>) {
    with(LOCK, |state| state.report(command, configuration, bytes));
}

/// The process ends in order.
pub fn end() {
    with(Duration::from_millis(20), |state| state.flush(now()));
}

impl State {
    fn before(&mut self, slot: usize, device: H) {
        let thread = this_thread();
        // Of a call that failed, or a command that could not be waited for.
        self.under_way.retain(|a| a.thread != thread);
        self.over.retain(|a| a.thread != thread);
        let late = self.read(now());
        let shared = !self.under_way.is_empty();
        self.under_way.iter_mut().for_each(|a| a.shared = true);
        let timer = if device.is_null() { None } else { self.timer(slot, device) };
        let begun = |broken| Sum {
            window: sensors::CounterWindow { broken, ..Default::default() },
            any: false,
        };
        let sums = late.into_iter().map(begun).collect();
        self.under_way.push(Around { thread, sums, shared, timer, timer_after: None });
    }

    fn after(&mut self, slot: usize, device: H) {
        let thread = this_thread();
        let timed = self.under_way.iter().any(|a| a.thread == thread && a.timer.is_some());
        let timer = if timed { self.timer(slot, device) } else { None };
        self.read(now());
        let Some(index) = self.under_way.iter().position(|a| a.thread == thread) else { return };
        let mut around = self.under_way.swap_remove(index);
        // Counts since the last reading of a failed source belong to no command.
        around.timer_after = timer
            .filter(|(id, _)| around.timer.is_some_and(|(i, _)| i == *id))
            .map(|(_, read)| read);
        self.over.push(around);
    }

    fn command(&mut self, id: u64) {
        let thread = this_thread();
        let Some(index) = self.over.iter().position(|a| a.thread == thread) else { return };
        let around = self.over.swap_remove(index);
        self.write(&around, id);
        self.tick();
    }

    fn report(&mut self, command: u64, configuration: u32, bytes: Vec<u8>) {
        let known = self.queues.iter().find(|(of, _)| *of == configuration).map(|(_, id)| *id);
        let source = known.unwrap_or_else(|| {
            let (name, set) =
                (format!("intel-queue:{configuration}"), format!("configuration {configuration}"));
            let id = self.announce(sensors::CounterSource { name, set, ..Default::default() });
            self.queues.push((configuration, id));
            id
        });
        sensors::encode(&CounterReport { source, command, bytes }.into(), &mut self.payload);
        self.tick();
    }
}
