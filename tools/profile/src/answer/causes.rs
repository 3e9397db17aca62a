//! Owns what the wall time of a run went to: every nanosecond of each process has one cause, so that
//! shares add up to 1. Time in which commands of several processes ran on one device is shared
//! among them. Where sampled timing left commands out, their time is the estimated one, and what is
//! left between them is divided as the host's time is. Refuses to advise.

use super::data::{Answer, Cause};
use super::sentences::Words;
use crate::report::Report;
use crate::report::data::Commands;
use clscope_analysis::Trace;
use clscope_analysis::clock::ProcessClock;
use clscope_analysis::input::{Definitions, Process};
use clscope_analysis::issue::IssueKind;
use clscope_analysis::stats::busy::{Held, IdleCause};
use clscope_analysis::stats::{Stats, WaitedFor, WallParts};
use clscope_analysis::time::{ProcessIndex, Ticks};
use clscope_trace::defs::Capture;
use clscope_trace::record::{CommandKind, Direction};
use std::collections::{BTreeMap, BTreeSet};

/// Part of a device's busy time that the smaller of two queues has to have before it matters that
/// they take turns.
const SMALLER_QUEUE: f64 = 0.15;
/// Queues overlap where they do for more than this part of the busy time.
const OVERLAP: f64 = 0.03;
/// Part of the busy time in which a queue has to wait for another before that is why.
const HELD: f64 = 0.3;
/// Times of the median from which on a launch counts as far longer.
pub(crate) const OVER: f64 = 1.5;
/// Fewer launches than these do not show what is usual.
const ENOUGH: u64 = 20;
/// Times of its fastest quarter that a launch takes on average, on a processor and of one size, from
/// which on launches were held up.
const HELD_UP: f64 = 1.5;
/// Mean length of a stretch from which on a command that was not begun was not launched slowly, but
/// not submitted.
const NOT_BEGUN_NS: f64 = 1e6;

/// What a nanosecond went to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    Kernel(String),
    Copy(&'static str),
    Command(CommandKind),
    TakeTurns(Vec<String>, bool),
    Shared(usize),
    HeldUp(String),
    Outside,
    Call(String),
    ShortCalls,
    UserEvent,
    OtherQueue,
    FirstLaunch,
    Launching,
    NotBegun,
    Before,
    RotatedAway,
    After,
    Recording,
    Unknown,
}

impl What {
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Kernel(_) => "kernel",
            Self::Copy(_) => "copy",
            Self::Command(_) => "command",
            Self::TakeTurns(..) => "queues-take-turns",
            Self::Shared(_) => "shared-device",
            Self::HeldUp(_) => "held-up-launches",
            Self::Outside => "host",
            Self::Call(_) => "call",
            Self::ShortCalls => "short-calls",
            Self::UserEvent => "user-event",
            Self::OtherQueue => "other-queue",
            Self::FirstLaunch => "first-launch",
            Self::Launching => "launching",
            Self::NotBegun => "not-begun",
            Self::Before => "before-first-command",
            Self::RotatedAway => "rotated-away",
            Self::After => "after-last-command",
            Self::Recording => "recording",
            Self::Unknown => "unknown",
        }
    }

    fn is_run(&self) -> bool {
        matches!(self, Self::Kernel(_) | Self::Copy(_) | Self::Command(_))
    }

    /// Whether the host's own time is in it, of which recording takes a part.
    fn is_host(&self) -> bool {
        matches!(self, Self::Outside | Self::Call(_) | Self::ShortCalls | Self::Launching)
    }
}

/// The wall time, divided.
#[derive(Debug, Default)]
pub struct Divided {
    /// The base of all shares.
    pub wall_ns: f64,
    /// Of how many processes it is the sum.
    pub processes: usize,
    /// The largest first.
    pub causes: Vec<Cause>,
    /// Share of each.
    pub shares: BTreeMap<What, f64>,
    /// Share in which any command ran.
    pub busy: f64,
    /// Whether a filter kept commands out of the record.
    pub left_out: bool,
}

/// Nanoseconds by what they went to.
#[derive(Debug, Default)]
struct Sums {
    ns: BTreeMap<What, f64>,
    estimated: bool,
    /// Stretches of launching.
    launches: u64,
}

impl Sums {
    fn add(&mut self, what: What, ns: f64) {
        if ns > 0.0 {
            *self.ns.entry(what).or_default() += ns;
        }
    }

    fn sum(&self, of: impl Fn(&What) -> bool) -> f64 {
        self.ns.iter().filter(|(what, _)| of(what)).map(|(_, ns)| ns).sum()
    }

    /// Takes `ns` off what is `of`, in proportion, and gives them to another.
    fn move_to(&mut self, to: What, ns: f64, of: impl Fn(&What) -> bool) {
        let all = self.sum(&of);
        let ns = ns.min(all);
        if all <= 0.0 || ns <= 0.0 {
            return;
        }
        for (what, own) in &mut self.ns {
            if of(what) {
                *own *= 1.0 - ns / all;
            }
        }
        self.ns.retain(|_, ns| *ns > 0.0);
        self.add(to, ns);
    }

    /// Takes `ns` off what is `of`, and gives them to others, both in proportion.
    fn give_to(&mut self, ns: f64, of: impl Fn(&What) -> bool, to: impl Fn(&What) -> bool) {
        let (all, others) = (self.sum(&of), self.sum(&to));
        let ns = ns.min(all);
        if others <= 0.0 || ns <= 0.0 {
            return;
        }
        for (what, own) in &mut self.ns {
            match () {
                () if of(what) => *own *= 1.0 - ns / all,
                () if to(what) => *own *= 1.0 + ns / others,
                () => {}
            }
        }
    }

    fn merge(&mut self, other: Self) {
        other.ns.into_iter().for_each(|(what, ns)| self.add(what, ns));
        self.estimated |= other.estimated;
        self.launches += other.launches;
    }
}

/// What the recorder's copies of captured launches' memory are called.
pub(super) const CAPTURED: &str = "by clscope";

/// What copies in a direction are called.
pub(super) fn direction(of: Direction) -> &'static str {
    match of {
        Direction::HostToDevice => "to device",
        Direction::DeviceToHost => "from device",
        Direction::DeviceToDevice => "on device",
        Direction::Fill => "fill",
        Direction::Unknown => "copies",
    }
}

/// The processes whose time is divided: those with commands, or all where none has any.
pub(super) fn processes(trace: &Trace<'_>, stats: &Stats) -> Vec<ProcessIndex> {
    let all: Vec<ProcessIndex> = (0u32..).take(trace.processes.len()).map(ProcessIndex).collect();
    let has_commands = |p: &ProcessIndex| stats.queues.range((*p, 0)..=(*p, u32::MAX)).count() > 0;
    let with: Vec<ProcessIndex> = all.iter().copied().filter(has_commands).collect();
    if with.is_empty() { all } else { with }
}

/// Divides the wall time of a trace's processes.
pub fn divide(report: &Report, trace: &Trace<'_>, stats: &Stats, rows: &Answer) -> Divided {
    let those = processes(trace, stats);
    let waiting: BTreeSet<&str> =
        report.waits.iter().map(|wait| wait.function.name.as_str()).collect();
    let (mut sums, mut wall_ns, mut processes) = (Sums::default(), 0.0, 0);
    let mut left_out = None;
    for process in those {
        left_out = left_out.or_else(|| trace.process(process).definitions.left_out());
        let Some(parts) = stats.wall(process) else { continue };
        let own = OfProcess { process, parts, trace, stats, waiting: &waiting };
        let (of, ns) = own.sums();
        sums.merge(of);
        (wall_ns, processes) = (wall_ns + ns, processes + 1);
    }
    share_devices(&mut sums, trace, stats);
    let is_whole = !left_out.as_ref().is_some_and(|of| of.commands);
    if is_whole {
        hold_up(&mut sums, report, trace, rows);
    }
    let recording = (report.recording.recording_ns + capturing_ns(trace)).min(0.5 * wall_ns);
    sums.move_to(What::Recording, recording, What::is_host);
    // Bounds of clocks, and commands that came too late to be placed.
    let whole: f64 = sums.sum(|_| true);
    if whole <= 0.0 {
        return Divided::default();
    }
    let shares: BTreeMap<What, f64> =
        sums.ns.iter().map(|(what, ns)| (what.clone(), ns / whole)).collect();
    let words = Words { report, rows, launches: sums.launches, left_out: left_out.as_ref() };
    let mut causes: Vec<Cause> = shares
        .iter()
        .map(|(what, share)| {
            let (text, name, more) = words.describe_cause(what, share * wall_ns);
            let estimated =
                sums.estimated && !matches!(what, What::Before | What::RotatedAway | What::After);
            Cause {
                kind: what.kind(),
                text,
                name,
                more,
                share: *share,
                ns: share * wall_ns,
                estimated,
            }
        })
        .collect();
    causes.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.text.cmp(&b.text)));
    let runs = |what: &What| {
        let turns = matches!(what, What::TakeTurns(..) | What::Shared(_) | What::HeldUp(_));
        turns || what.is_run()
    };
    let busy = shares.iter().filter(|(what, _)| runs(what)).map(|(_, share)| share).sum();
    Divided { wall_ns, processes, causes, shares, busy, left_out: !is_whole }
}

/// Host time that capturing took of all processes.
fn capturing_ns(trace: &Trace<'_>) -> f64 {
    let processes = trace.processes.iter().zip(&trace.timeline.clocks);
    let of = |(process, clock): (&Process<'_>, &ProcessClock)| {
        let told = process.definitions.captures.iter().filter(|capture| capture.begun > 0);
        let ns = |capture: &Capture| {
            let [begin, end] = [0, capture.took]
                .map(|took| clock.at(Ticks(capture.begun.saturating_add(took)), &mut 0));
            end.since(begin) as f64
        };
        told.map(ns).sum::<f64>()
    };
    processes.map(of).sum()
}

/// One process.
struct OfProcess<'s, 't, 'a> {
    process: ProcessIndex,
    parts: WallParts,
    trace: &'t Trace<'a>,
    stats: &'t Stats,
    waiting: &'s BTreeSet<&'s str>,
}

impl OfProcess<'_, '_, '_> {
    fn definitions(&self) -> &Definitions {
        &self.trace.process(self.process).definitions
    }

    /// Its nanoseconds, and how many they are.
    fn sums(&self) -> (Sums, f64) {
        let mut out = Sums::default();
        let issues = &self.trace.process(self.process).issues;
        let rotated = issues.iter().any(|kind| matches!(kind, IssueKind::OldestRotated { .. }));
        let left_out = self.leaves_commands_out();
        let unknown = |what| if left_out { What::Unknown } else { what };
        let before = if rotated { What::RotatedAway } else { unknown(What::Before) };
        for (function, ns) in &self.parts.before {
            let what = function.map_or(before.clone(), |f| self.call(f));
            out.add(what, *ns as f64);
        }
        for (function, ns) in &self.parts.after {
            let what = function.map_or(unknown(What::After), |f| self.call(f));
            out.add(what, *ns as f64);
        }
        let queues = || self.stats.queues.range((self.process, 0)..=(self.process, u32::MAX));
        out.add(What::Recording, self.parts.copied_ns as f64);
        let untimed = left_out || self.stats.without_time(self.process).is_some();
        // Commands that failed never ran: nothing divides the time in which the host waited for them.
        let none_ran = queues().next().is_some() && self.parts.extent_ns == 0;
        if queues().any(|(_, q)| q.left_out > 0) || untimed {
            out.estimated = true;
            self.add_estimated(&mut out, if untimed { What::Unknown } else { What::Launching });
        } else if none_ran {
            self.add_estimated(&mut out, What::Outside);
        } else {
            self.add_exact(&mut out);
        }
        (out, self.parts.wall_ns as f64)
    }

    /// Whether a filter kept commands out of the record.
    fn leaves_commands_out(&self) -> bool {
        self.definitions().left_out().is_some_and(|of| of.commands)
    }

    fn call(&self, function: u16) -> What {
        let d = self.definitions();
        let name = d.function_name(function);
        let enqueues = d.function(function).is_some_and(|f| f.group == "enqueue");
        match (enqueues, self.waiting.contains(name.as_ref())) {
            (_, true) if self.leaves_commands_out() => What::Unknown,
            (true, false) => What::Launching,
            _ => What::Call(name.into_owned()),
        }
    }

    /// Time of what ran, by what it was: where several ran at once, kernels come first.
    fn run(&self) -> [Vec<(What, f64)>; 3] {
        let d = self.definitions();
        let mut out = [const { Vec::new() }; 3];
        for (what, .., sums) in self.stats.classes_of(self.process) {
            let ns = sums.total().map_or(0.0, |total| total.value);
            let (at, what) = match what {
                WaitedFor::Kernel(_, kernel) => {
                    (0, What::Kernel(d.kernel_name(kernel).into_owned()))
                }
                WaitedFor::Command(kind) => match kind.direction() {
                    Some(of) => (1, What::Copy(direction(of))),
                    None => (2, What::Command(kind)),
                },
            };
            out[at].push((what, ns));
        }
        out
    }

    fn add_exact(&self, out: &mut Sums) {
        let busy = [self.parts.kernels_ns, self.parts.transfers_ns, self.parts.others_ns];
        let mut run = Sums::default();
        for (each, ns) in self.run().into_iter().zip(busy) {
            let whole: f64 = each.iter().map(|(_, ns)| ns).sum();
            for (what, own) in each.into_iter().filter(|_| whole > 0.0) {
                run.add(what, own / whole * ns as f64);
            }
        }
        match self.turns() {
            Some(by_wait_lists) => {
                let mut each: Vec<_> = run.ns.into_iter().collect();
                each.sort_by(|a, b| b.1.total_cmp(&a.1));
                let ns = each.iter().map(|(_, ns)| ns).sum();
                let names = each.into_iter().take(2).map(|(what, _)| name_of(&what)).collect();
                out.add(What::TakeTurns(names, by_wait_lists), ns);
            }
            None => out.merge(run),
        }
        for (cause, ns) in &self.parts.idle {
            let times = self.parts.times.get(cause).copied().unwrap_or(1);
            let what = self.idle(*cause, *ns as f64 / times.max(1) as f64);
            if what == What::Launching {
                out.launches += times;
            }
            out.add(what, *ns as f64);
        }
    }

    fn idle(&self, cause: IdleCause, mean: f64) -> What {
        match cause {
            IdleCause::HostCall(function) => self.call(function),
            IdleCause::OtherCalls => What::ShortCalls,
            IdleCause::Application => What::Outside,
            IdleCause::Held(Held::UserEvent) => What::UserEvent,
            IdleCause::Held(Held::OtherQueue) => What::OtherQueue,
            IdleCause::FirstLaunch => What::FirstLaunch,
            IdleCause::Queued if mean > NOT_BEGUN_NS => What::NotBegun,
            IdleCause::Launch | IdleCause::Queued => What::Launching,
        }
    }

    /// Whether the queues of a device never run at once although each has much to do, and whether
    /// wait lists are why; else the host waits for one before it feeds the next.
    fn turns(&self) -> Option<bool> {
        let queues = self.stats.queues.range((self.process, 0)..=(self.process, u32::MAX));
        let queues: Vec<_> = queues.map(|(_, q)| q).filter(|q| q.busy.busy() > 0).collect();
        let mut busy: Vec<f64> = queues.iter().map(|q| q.busy.busy() as f64).collect();
        let union = self.parts.busy_ns() as f64;
        busy.sort_by(|a, b| b.total_cmp(a));
        let overlap = busy.iter().sum::<f64>() - union;
        if busy.get(1).is_none_or(|second| *second < SMALLER_QUEUE * union)
            || overlap > OVERLAP * union
        {
            return None;
        }
        let held: f64 = queues.iter().map(|q| q.held_by_queues_ns as f64).sum();
        if held > HELD * union {
            return Some(true);
        }
        let commands = queues.iter().map(|q| q.count).min().unwrap_or(0);
        let waits = self.stats.functions_of(self.process).filter(|(id, _)| {
            self.waiting.contains(self.definitions().function_name(*id).as_ref())
        });
        let waits: u64 = waits.map(|(_, sums)| sums.time.count()).sum();
        let waited = self.stats.waited(self.process) as f64;
        (waits >= commands && waited > 0.5 * union).then_some(false)
    }

    /// Of a process of which some commands have no time. `beyond`: what the host waited for while no
    /// command ran that has one; for its own sake where nothing could run.
    fn add_estimated(&self, out: &mut Sums, beyond: What) {
        let waits_for_nothing = beyond == What::Outside;
        let p = &self.parts;
        let known: u64 = p.before.values().chain(p.after.values()).sum();
        let between = p.wall_ns.saturating_sub(known + p.copied_ns) as f64;
        let run: Vec<(What, f64)> = self.run().into_iter().flatten().collect();
        let whole: f64 = run.iter().map(|(_, ns)| ns).sum();
        let busy = whole.min(between);
        for (what, ns) in run.into_iter().filter(|_| whole > 0.0) {
            out.add(what, ns / whole * busy);
        }
        // What is left, as the host's time is divided.
        let mut host: BTreeMap<What, f64> = BTreeMap::new();
        let (mut calls, mut waits) = (0.0, 0.0);
        for (id, sums) in self.stats.functions_of(self.process) {
            let before = p.before.get(&Some(id)).copied().unwrap_or(0);
            let after = p.after.get(&Some(id)).copied().unwrap_or(0);
            let ns = sums.time.total() as f64 - (before + after) as f64;
            if ns <= 0.0 {
                continue;
            }
            calls += ns;
            let waits_for_device =
                self.waiting.contains(self.definitions().function_name(id).as_ref());
            match waits_for_device && !waits_for_nothing {
                true => waits += ns,
                false => *host.entry(self.call(id)).or_default() += ns,
            }
        }
        // The host waits until a command has begun, too.
        *host.entry(beyond).or_default() += (waits - busy).max(0.0);
        let outside = if self.leaves_commands_out() { What::Unknown } else { What::Outside };
        *host.entry(outside).or_default() += (between - calls).max(0.0);
        let sum: f64 = host.values().sum();
        let left = between - busy;
        for (what, ns) in host {
            if sum > 0.0 {
                out.add(what, ns / sum * left);
            }
        }
        if sum <= 0.0 {
            out.add(What::Unknown, left);
        }
        let classes = self.stats.classes_of(self.process);
        out.launches += classes.map(|(.., sums)| sums.count).sum::<u64>();
    }
}

fn name_of(what: &What) -> String {
    match what {
        What::Kernel(name) => name.clone(),
        What::Copy(direction) => copies(direction),
        What::Command(kind) => kind.name().to_owned(),
        other => other.kind().to_owned(),
    }
}

fn copies(direction: &str) -> String {
    match direction {
        "fill" => "fills".to_owned(),
        "copies" => "copies".to_owned(),
        other => format!("copies {other}"),
    }
}

/// What processes took of each other on devices that they shared.
fn share_devices(sums: &mut Sums, trace: &Trace<'_>, stats: &Stats) {
    for device in stats.shared_devices(trace) {
        let what = What::Shared(device.processes.len());
        sums.move_to(what.clone(), device.overlap_ns as f64, What::is_run);
        // While a command of a process was on its way and not begun, others ran in the share of the
        // time that they ran in at any time.
        let mut behind = 0.0;
        for process in &device.processes {
            let Some(parts) = stats.wall(*process) else { continue };
            let own = parts.busy_ns();
            let idle = parts.wall_ns.saturating_sub(own) as f64;
            let others = device.together_ns.saturating_sub(own) as f64;
            let on_its_way: u64 = [IdleCause::Launch, IdleCause::Queued]
                .iter()
                .filter_map(|cause| parts.idle.get(cause))
                .sum();
            behind += on_its_way as f64 * (others / idle.max(1.0)).min(1.0);
        }
        sums.move_to(what, behind, |what| matches!(what, What::Launching | What::NotBegun));
    }
}

/// Launches of one size on a processor that took far longer than usual: something else ran there.
fn hold_up(sums: &mut Sums, report: &Report, trace: &Trace<'_>, rows: &Answer) {
    let devices = trace.processes.iter().flat_map(|p| p.definitions.devices.values());
    let on_processors = { devices }.all(|device| device.is_cpu());
    let shared = sums.ns.keys().any(|what| matches!(what, What::Shared(_)));
    if !on_processors || shared {
        return;
    }
    // Commands of the application's own hold each other up where several run at once.
    let busy: Option<u64> = report.devices.iter().map(|device| device.busy_ns).sum();
    let ran = report.totals.kernel_ns.saturating_add(report.totals.transfer_ns) as f64;
    let mut at_once = busy.map_or(0.0, |busy| (ran - busy as f64).max(0.0));
    for row in rows.kernels.iter().filter(|row| row.sizes == 1 && !row.sizes_are_more) {
        let same = |k: &&Commands| k.name == row.name && k.estimate.is_none();
        let Some(kernel) = report.kernels.iter().find(same) else { continue };
        let (total, n) = (kernel.time_ns.total as f64, kernel.time_ns.count);
        let Some(over) = kernel.over.filter(|_| n >= ENOUGH) else { continue };
        let fast = n as f64 * over.fastest_quarter_ns;
        let excess = total - fast;
        if total > HELD_UP * fast {
            let is = |what: &What| matches!(what, What::Kernel(name) if *name == row.name);
            let ns = sums.sum(is) * excess / total;
            let own = ns.min(at_once);
            at_once -= own;
            sums.give_to(own, is, |what| what.is_run() && !is(what));
            sums.move_to(What::HeldUp(row.name.clone()), ns - own, is);
        }
    }
}
