//! When commands ran. Method `event`: every command gets an event, whose stamps are read in batches
//! when the application itself learns that commands are complete. A thread of the recorder (the
//! reaper) reads those that the application never waits for, and so does a last look at the
//! process's end. No event is kept past the last reference of its queue or context.

mod calls;
mod markers;
mod pending;
pub mod queried_times;
mod queues;
mod reaper;
mod sampling;
mod switch;

use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::facts::map::Map;
use crate::facts::{objects, user_events};
use crate::os::locks::robust::{self, Robust};
use crate::os::shared::current::Current;
use crate::os::shared::list::List;
use crate::recording::guard::{self, Thread};
use crate::recording::{self, diag, ring};
use crate::runtime::functions as api;
use crate::runtime::waiting;
use calls::{Calls, Seen};
use clscope_trace::record::Untimed;
use clscope_trace::values::DeviceTiming;
use pending::{Entry, Pending};
pub use queues::*;
pub use sampling::Local;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Commands that may be in flight on a queue before an enqueue looks for complete ones itself.
const LOOK_AFTER: u64 = 1024;
/// Most commands in flight on a queue that are to be timed. An event costs a runtime up to a
/// kilobyte.
const MOST_PENDING: usize = 1 << 16;
/// Most events that such a look harvests, so that no single enqueue pays for all.
const LOOK_BATCH: usize = 256;

/// Other queues of which a queue knows what its commands wait for.
const OTHERS: usize = 4;
/// Ids of commands are shorter.
const QUEUE_SHIFT: u32 = 48;
/// How many queues stand behind each other at most where one of them was waited for.
const DEPTH: u32 = 4;

/// How long an enqueue that finds no room for its event waits for another thread that is just
/// making some.
const CROWDED: Duration = Duration::from_millis(50);
/// How often the last harvest of a queue looks: times that are not there at the first look are taken
/// as they are at the second.
const LAST_LOOKS: u32 = 2;
/// How long the last harvest of a queue waits for a recorder thread that is harvesting it.
const LAST_LOOK: Duration = Duration::from_millis(200);

/// A command queue.
pub struct Queue {
    pub id: u32,
    /// Index in the process's list, plus 1: fits an event's facts. 0 past 65,534 queues.
    pub index: u16,
    pub slot: usize,
    pub handle: usize,
    pub context: usize,
    pub device: usize,
    /// Whether commands of it are timed.
    pub timed: AtomicBool,
    /// Whether the application asked for profiling.
    pub app_profiling: AtomicBool,
    /// Whether we added the profiling bit.
    pub profiling_added: bool,
    /// Times that the application queries itself.
    pub reads: queried_times::Reads,
    /// Switches our profiling off for what is not timed.
    pub switch: switch::Switch,
    /// Ties the device's clock to the host's.
    markers: markers::Markers,
    /// Whether the runtime counts for each of its commands.
    pub counted: AtomicBool,
    pub out_of_order: bool,
    pub made: Made,
    /// The application's references.
    pub references: AtomicI64,
    pending: Pending,
    /// Harvests so far: while the application's own calls harvest, the reaper need not.
    harvests: AtomicU64,
    /// What `harvests` was when the reaper came by.
    harvests_seen: AtomicU64,
    /// What commands of it wait for on other queues: index of the queue above [`QUEUE_SHIFT`], and
    /// the newest command; 0 for none.
    others: [AtomicU64; OTHERS],
    /// Taken off `pending` and not complete yet; only harvesters touch it.
    backlog: Robust<VecDeque<Entry>>,
}

/// What becomes of what a runtime counted for a command.
pub type Report = fn(command: u64, bytes: Vec<u8>);

/// What becomes of when a command ran, by the device's stamps in ns; `None` where it failed.
pub type Told = fn(command: u64, ran: Option<(u64, u64)>);

/// Everything about device time of one process.
pub struct DeviceTime {
    pub timing: DeviceTiming,
    report: Report,
    told: Option<Told>,
    queues: List<Queue>,
    /// Whether profiling was ever added to a queue.
    pub adds_profiling: AtomicBool,
    /// Queues by handle: addresses of queues that are never freed, even, with [`GONE`] beside them.
    handles: Map,
    reaper: reaper::Reaper,
    /// Methods `sample` and `auto`.
    pub sampler: Option<sampling::LaunchSampler>,
    /// When each device's next markers are due.
    clocks: Robust<Vec<markers::Schedule>>,
    /// Harvesting has ended: the process exits.
    stopped: AtomicBool,
    /// Method `sync`: the command that was waited for in vain, until it is harvested; 0 for none.
    overdue: AtomicU64,
}

static CURRENT: Current<DeviceTime> = Current::none();

/// Begins anew: the first call of a process. `report` takes what runtimes count by themselves,
/// `told` when commands ran, or that they failed.
pub fn begin(timing: DeviceTiming, report: Report, told: Option<Told>) {
    CURRENT.keep(DeviceTime::new(timing, report, told));
}

/// Device time of the present process, if recording ever began.
#[inline(always)]
pub fn current() -> Option<&'static DeviceTime> {
    CURRENT.get()
}

impl DeviceTime {
    fn new(timing: DeviceTiming, report: Report, told: Option<Told>) -> Self {
        let sampler = match timing {
            DeviceTiming::Sample => Some(sampling::LaunchSampler::new(false)),
            DeviceTiming::Auto => Some(sampling::LaunchSampler::new(true)),
            _ => None,
        };
        Self {
            timing,
            report,
            told,
            sampler,
            queues: List::new(),
            adds_profiling: AtomicBool::new(false),
            handles: Map::new(),
            reaper: reaper::Reaper::new(),
            clocks: Robust::made_anew(Vec::new()),
            stopped: AtomicBool::new(false),
            overdue: AtomicU64::new(0),
        }
    }

    /// Whether harvesting has ended.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Ends harvesting: drivers are about to be torn down. What destructors enqueue from now on is
    /// not timed, and says so.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.queues.iter().for_each(|queue| queue.timed.store(false, Ordering::Relaxed));
        self.reaper.leave_opencl();
    }

    /// Commands whose time is still awaited.
    pub fn pending(&self) -> u64 {
        self.queues.iter().map(Queue::in_flight).sum()
    }
}

impl Queue {
    /// Where the next timed command will be noted.
    #[inline(always)]
    pub fn next_place(&self) -> *const i8 {
        self.pending.next_place()
    }

    /// Whether its commands have times that the application did not ask for.
    #[inline]
    pub fn hides_times(&self) -> bool {
        self.profiling_added && !self.app_profiling.load(Ordering::Relaxed)
    }

    /// Takes note that a command of it waits for a timed one, by the index of its queue.
    pub fn waits_for(&self, other: u16, command: u64) {
        let value = u64::from(other) << QUEUE_SHIFT | command;
        let known = |place: &&AtomicU64| {
            let index = place.load(Ordering::Relaxed) >> QUEUE_SHIFT;
            index == 0 || index == u64::from(other)
        };
        if other != self.index
            && let Some(place) = self.others.iter().find(known)
        {
            place.store(value, Ordering::Relaxed);
        }
    }

    /// Commands whose time is awaited.
    pub fn in_flight(&self) -> u64 {
        self.pending.len() + self.backlog.try_lock().map_or(0, |b| b.len() as u64)
    }
}

/// Takes note of a timed command: its event is ours to release.
///
/// # Safety
/// The recorder holds a reference of the event, and gives it away here.
pub unsafe fn enqueued(t: &Thread, queue: &'static Queue, event: H, command: u64, ours: bool) {
    let Some(device) = current() else { return };
    let (mut completed, mut waited_for) = (None, false);
    match device.timing {
        DeviceTiming::Callback => completed = watch(queue, event),
        DeviceTiming::Sync => waited_for = wait(device, queue.slot, event, command),
        _ => {}
    }
    // SAFETY: the caller's promise.
    let entry = unsafe { Entry::new(event, command, ours, completed) };
    if let Err(entry) = queue.pending.push(entry) {
        crowded(t, queue, entry);
    } else if waited_for {
        harvest_until(t, queue, command, recording::now());
        waited(queue);
    } else if command.is_multiple_of(64) && queue.pending.len() > LOOK_AFTER {
        look(t, queue, LOOK_BATCH);
    }
    device.reaper.wake();
}

/// The ring of pending commands is full: what is in it moves to the backlog, or the command stays
/// untimed.
#[cold]
fn crowded(t: &Thread, queue: &Queue, entry: Entry) {
    look(t, queue, LOOK_BATCH);
    let entry = match queue.pending.push(entry) {
        Ok(()) => return,
        Err(entry) => entry,
    };
    // Another thread harvests, and may have lost its processor in the middle: it is given a moment
    // rather than the time of the command given up.
    if let Some(mut backlog) = queue.backlog.try_lock_for(CROWDED)
        && backlog.len() < MOST_PENDING
    {
        while let Some(older) = queue.pending.pop() {
            backlog.push_back(older);
        }
        backlog.push_back(entry);
        return;
    }
    ring::untimed(t, entry.command(), Untimed::TooManyPending, 0, recording::now());
    if let Some(calls) = Calls::of_queue(queue) {
        // SAFETY: taken out of the queue's entries; it goes.
        guard::unseen(|| unsafe { calls.release(&entry) });
    }
}

/// Method `callback`: the runtime reports the moment of completion. The stamps are read later:
/// callbacks must not call OpenCL.
fn watch(queue: &Queue, event: H) -> Option<Arc<AtomicU64>> {
    unsafe extern "C-unwind" fn completed(_: H, _: i32, moment: *mut c_void) {
        // SAFETY: the pointer is the Arc given to clSetEventCallback; a callback comes once.
        let moment = unsafe { Arc::from_raw(moment.cast::<AtomicU64>()) };
        moment.store(recording::now(), Ordering::Release);
    }
    let set = api::clSetEventCallback.own(queue.slot)?;
    let moment = Arc::new(AtomicU64::new(0));
    let theirs = Arc::into_raw(Arc::clone(&moment)).cast_mut().cast::<c_void>();
    // SAFETY: a live event; the callback has the specified signature.
    if guard::unseen(|| unsafe { set(event, cl::CL_COMPLETE, completed as P, theirs) }) != 0 {
        // SAFETY: the runtime did not take it.
        drop(unsafe { Arc::from_raw(theirs.cast::<AtomicU64>()) });
        return None;
    }
    Some(moment)
}

/// Method `sync`: waits for the command, unless what the application has yet to do may stand before
/// it: that wait might never end. Nor is a command waited for while an earlier one is overdue.
/// Whether it has ended.
fn wait(device: &DeviceTime, slot: usize, event: H, command: u64) -> bool {
    if user_events::obstacle().is_some() || device.overdue.load(Ordering::Relaxed) != 0 {
        return false;
    }
    // SAFETY: a live event.
    let ended = unsafe { waiting::ended(slot, event, waiting::PATIENCE) };
    if !ended {
        device.overdue.store(command, Ordering::Relaxed);
        let seconds = waiting::PATIENCE.as_secs();
        diag::warn(
            "not-waited-for",
            &format!(
                "a command did not end within {seconds} s, perhaps because it waits for what the application does next: it and those behind it are timed without waiting for them, as without --device-timing sync"
            ),
        );
    }
    ended
}

/// Harvests entries from the front while `known` says that they are complete; those that turn out
/// not to be stay. For queues that finish out of order entries are checked one by one.
///
/// `observed` is when the application learnt of the completion; if it is `None`, the time after
/// each query counts.
fn harvest_while(
    t: &Thread,
    queue: &Queue,
    observed: Option<u64>,
    most: usize,
    known: impl Fn(&Calls, &Entry) -> bool,
) {
    // Whoever harvests this queue already harvests for us too, now or at the next opportunity.
    let Some(backlog) = queue.backlog.try_lock() else { return };
    harvest_locked(t, queue, backlog, observed, most, known);
}

fn harvest_locked(
    t: &Thread,
    queue: &Queue,
    mut backlog: robust::Guard<'_, VecDeque<Entry>>,
    observed: Option<u64>,
    most: usize,
    known: impl Fn(&Calls, &Entry) -> bool,
) {
    let Some(device) = current() else { return };
    if device.stopped.load(Ordering::SeqCst) {
        return;
    }
    let Some(calls) = Calls::of_queue(queue) else { return };
    let begin = recording::now();
    let mut kept = VecDeque::new();
    let mut done = 0;
    guard::unseen(|| {
        while done < most {
            let Some(mut entry) = backlog.pop_front().or_else(|| queue.pending.pop()) else {
                break;
            };
            if !known(&calls, &entry) {
                kept.push_back(entry);
                if queue.out_of_order {
                    continue;
                }
                break;
            }
            done += 1;
            let observed = observed.unwrap_or_else(recording::now);
            // SAFETY: just taken out; it is put back only where it was not released.
            if let Seen::NotYet = unsafe { calls.harvest(t, queue, &mut entry, observed) } {
                kept.push_back(entry);
                if !queue.out_of_order {
                    break;
                }
            } else if device.overdue.load(Ordering::Relaxed) == entry.command() {
                device.overdue.store(0, Ordering::Relaxed);
            }
        }
    });
    // What was looked at and is not complete goes back to the front, in its order.
    while let Some(entry) = kept.pop_back() {
        backlog.push_front(entry);
    }
    queue.harvests.fetch_add(u64::from(done > 0), Ordering::Relaxed);
    if let (Some(sampler), true) = (&device.sampler, done > 0) {
        sampler.harvested(done as u64, recording::now().wrapping_sub(begin));
    }
    queue.markers.harvest(queue, &calls);
    recording::maybe_anchor(recording::now());
}

/// The queue has finished every command that was enqueued before `limit` was the next command id.
pub fn finished(t: &Thread, queue: &Queue, limit: u64, observed: u64) {
    harvest_while(t, queue, Some(observed), usize::MAX, |_, entry| entry.command() < limit);
    harvest_others(t, queue, observed, DEPTH);
}

/// A command of the queue is known complete; on an in-order queue so is what stands before it.
pub fn harvest_until(t: &Thread, queue: &Queue, command: u64, observed: u64) {
    harvest_to(t, queue, command, observed);
    harvest_others(t, queue, observed, DEPTH);
}

fn harvest_to(t: &Thread, queue: &Queue, command: u64, observed: u64) {
    if queue.out_of_order {
        harvest_while(t, queue, Some(observed), usize::MAX, |_, entry| entry.command() == command);
    } else {
        harvest_while(t, queue, Some(observed), usize::MAX, |_, entry| entry.command() <= command);
    }
}

/// What commands of a queue have waited for is complete with them. Those that are not complete yet
/// turn out not to be.
fn harvest_others(t: &Thread, queue: &Queue, observed: u64, depth: u32) {
    for place in &queue.others {
        let value = place.load(Ordering::Relaxed);
        let Some(other) = queue_at((value >> QUEUE_SHIFT) as u16) else { continue };
        if other.in_flight() > 0 {
            harvest_to(t, other, value & ((1 << QUEUE_SHIFT) - 1), observed);
            if depth > 1 {
                harvest_others(t, other, observed, depth - 1);
            }
        } else {
            let _ = place.compare_exchange(value, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// The application learnt that the commands of these events are complete. Gives a queue of theirs.
pub fn completed(t: &Thread, events: &[H], observed: u64) -> Option<&'static Queue> {
    // One harvest per queue, up to its newest command.
    let mut newest: Vec<(&'static Queue, u64)> = Vec::new();
    for event in events {
        let Some(facts) = objects::event(*event) else { continue };
        if !facts.held {
            continue;
        }
        let Some(queue) = queue_at(facts.queue) else { continue };
        if queue.out_of_order {
            harvest_until(t, queue, facts.command, observed);
        } else if let Some((_, command)) = newest.iter_mut().find(|(q, _)| std::ptr::eq(*q, queue))
        {
            *command = facts.command.max(*command);
        } else {
            newest.push((queue, facts.command));
        }
    }
    for (queue, command) in &newest {
        harvest_until(t, queue, *command, observed);
    }
    newest.last().map(|(queue, _)| *queue)
}

/// The queue has been waited for, by a call of the application or method `sync`, and its commands
/// are harvested.
#[inline]
pub fn waited(queue: &Queue) {
    queue.markers.opportunity(queue, recording::now());
}

/// Whether the command of a blocking call that has returned is complete. Intel's runtime for CPUs
/// copies the host's bytes of some writes aside and returns, with the command still to run: it is
/// not waited for, since the application does not wait for it either.
pub fn is_complete(queue: &Queue, event: H) -> bool {
    guard::unseen(|| {
        let status = Calls::of_queue(queue).and_then(|calls| calls.status(event));
        status.is_some_and(|status| status <= cl::CL_COMPLETE)
    })
}

/// Harvests what is complete at the front of a queue, asking the runtime.
pub fn look(t: &Thread, queue: &Queue, most: usize) {
    harvest_while(t, queue, None, most, complete);
}

fn complete(calls: &Calls, entry: &Entry) -> bool {
    calls.status(entry.event()).is_some_and(|s| s <= cl::CL_COMPLETE)
}

/// As [`look`], unless the queue was harvested since the last time: polling a queue in use contends
/// with the driver's own lock.
fn look_if_left_alone(t: &Thread, queue: &Queue) {
    let harvests = queue.harvests.load(Ordering::Relaxed);
    if queue.harvests_seen.swap(harvests, Ordering::Relaxed) == harvests {
        look(t, queue, usize::MAX);
        queue.harvests_seen.store(queue.harvests.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Harvests what is complete on a queue, our own markers among it: the application is about to see
/// reference counts.
pub fn look_before_counts(t: &Thread, queue: &Queue) {
    if queue.markers.held() > 0
        && let Some(calls) = Calls::of_queue(queue)
    {
        guard::unseen(|| queue.markers.await_last(&calls));
    }
    look(t, queue, usize::MAX);
}

/// As [`look_before_counts`], on the queues of a context.
pub fn look_at_context(t: &Thread, context: Option<H>) {
    for queue in queues_of(context) {
        look_before_counts(t, queue);
    }
}

/// The application gives up its last reference: what is not complete is dropped now, so that
/// nothing of the application's is destroyed late or by us.
pub fn abandoned(t: &Thread, queue: &'static Queue) {
    // This is the last opportunity: a recorder thread that is harvesting is waited for, as long as
    // it can take.
    for _ in 0..LAST_LOOKS {
        let Some(backlog) = queue.backlog.try_lock_for(LAST_LOOK) else { return };
        harvest_locked(t, queue, backlog, None, usize::MAX, complete);
    }
    let (Some(mut backlog), Some(calls)) =
        (queue.backlog.try_lock_for(LAST_LOOK), Calls::of_queue(queue))
    else {
        return;
    };
    while let Some(entry) = backlog.pop_front().or_else(|| queue.pending.pop()) {
        ring::untimed(t, entry.command(), Untimed::QueueReleased, 0, recording::now());
        // SAFETY: taken out of the queue's entries; it goes.
        guard::unseen(|| unsafe { calls.release(&entry) });
    }
    queue.markers.abandon(&calls);
}

/// As [`abandoned`], for all queues of a context.
pub fn context_abandoned(t: &Thread, context: H) {
    for queue in queues_of(Some(context)) {
        abandoned(t, queue);
    }
}

/// Has the last look taken when the process ends in order. Behind the handlers that the runtime has
/// set while it was loaded, so that it is taken before they tear the runtime down: a queue is there
/// only then.
fn last_look_at_exit() {
    static SET: AtomicBool = AtomicBool::new(false);
    if !SET.swap(true, Ordering::Relaxed) {
        // SAFETY: a function of this library, which is never unloaded.
        unsafe { libc::atexit(last_look) };
    }
}

/// Harvests what is complete and was never asked about: the application may have waited for it in
/// a way of its own. It is asked for the status alone, which waits for nothing.
extern "C" fn last_look() {
    guard::protect((), || {
        // A child inherits the handler, not the queues.
        if recording::current().is_none_or(recording::Recording::is_anothers) {
            return;
        }
        let t = guard::thread();
        for _ in 0..LAST_LOOKS {
            queues_of(None).into_iter().for_each(|queue| look(t, queue, usize::MAX));
        }
    });
}
