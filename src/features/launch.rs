//! What every enqueue does: decide about an event, record the command, take note of what is to be
//! timed. Which features take part in an enqueue is decided in `hooks::enqueue`.

use super::device_time::{self, Local, Queue};
use crate::abi::changes;
use crate::abi::entry::{H, Site};
use crate::abi::functions::id;
use crate::abi::signatures as f;
use crate::facts::geometry::Geometry;
use crate::facts::objects::Timing;
use crate::facts::{objects, platforms};
use crate::recording::guard::{self, Thread};
use crate::recording::ring;
use crate::runtime::functions as api;
use clscope_trace::record::{Command, CommandKind, Untimed, Waits, flag};
use clscope_trace::values::DeviceTiming;
use std::sync::atomic::Ordering;

/// What is to be done about the time of one command.
pub struct Plan {
    queue: Option<&'static Queue>,
    /// Our event slot.
    event: H,
    /// Whether the slot was passed in place of NULL.
    ours: bool,
    /// Whether it may be.
    slot_allowed: bool,
    timed: bool,
    /// Left out by the sampling method.
    left_out: bool,
    /// The application is expected to query its time.
    awaited: bool,
    /// Left out, and a transfer: NVIDIA's driver gives it an event of its own, and times that where
    /// the queue profiles.
    own_event: bool,
    /// Probability that decided about it, 0 for certainty.
    probability: f32,
    repeated: bool,
    /// Why it is not timed, if the flags do not show it.
    why: Option<Untimed>,
    record: bool,
    /// Where the call comes from, 0 if that is not recorded.
    call_site: u32,
}

/// Whether sampled timing may leave transfers of the kind out: those whose size is a plain
/// argument. Regions are read after the call alone, when the runtime has found them valid.
pub const fn tells_size(kind: CommandKind) -> bool {
    use CommandKind as K;
    matches!(
        kind,
        K::ReadBuffer
            | K::WriteBuffer
            | K::CopyBuffer
            | K::FillBuffer
            | K::SvmMemcpy
            | K::SvmMemFill
            | K::UsmMemcpy
            | K::UsmFill
    )
}

/// A command that is about to be enqueued.
pub struct Enqueue {
    pub function: u16,
    pub kind: CommandKind,
    pub object: H,
    /// Of a transfer whose kind [tells them](tells_size).
    pub bytes: u64,
    /// Where the call comes from, 0 if that is not recorded.
    pub call_site: u32,
    /// Whether it is recorded at all.
    pub record: bool,
}

/// Decides before the call. `local` gives the calling thread's counts for sampling.
#[inline(always)]
pub fn plan<'a>(
    known: Option<&'static Queue>,
    enqueue: &Enqueue,
    local: impl FnOnce() -> &'a Local,
) -> Plan {
    let Enqueue { kind, record, .. } = *enqueue;
    let timed = known.is_some_and(|q| q.timed.load(Ordering::Relaxed));
    let device = device_time::current();
    let why = if timed { None } else { why_not(known, device) };
    let mut plan = Plan {
        queue: known,
        // This one function refuses NULL: the application must see that.
        slot_allowed: enqueue.function != id::clEnqueueMarker,
        timed: timed && record,
        why,
        record,
        call_site: enqueue.call_site,
        ..Plan::EMPTY
    };
    let may = kind.is_kernel() || tells_size(kind);
    if let (true, true, Some(sampler)) = (plan.timed, may, device.and_then(|d| d.sampler.as_ref()))
    {
        let (timed, probability) = match kind.is_kernel() {
            true => {
                let nth = objects::count_launch(enqueue.object, enqueue.call_site);
                sampler.decide(local(), nth)
            }
            false => sampler.decide_transfer(local(), kind, enqueue.bytes),
        };
        (plan.timed, plan.left_out, plan.probability) = (timed, !timed, probability);
        plan.own_event = !timed && !kind.is_kernel();
        plan.awaited =
            sampler.leaves_out() && known.is_some_and(|q| q.index != 0 && q.reads.expected());
        if !timed {
            plan.why = None;
        }
    }
    plan
}

/// Why commands of a queue are not timed, if the process's method does not say it.
#[inline(never)]
fn why_not(
    queue: Option<&'static Queue>,
    device: Option<&'static device_time::DeviceTime>,
) -> Option<Untimed> {
    let switched =
        || queue.is_some_and(|q| q.profiling_added || q.app_profiling.load(Ordering::Relaxed));
    match device {
        // No record of it.
        Some(d) if d.timing == DeviceTiming::Off => None,
        Some(d) if d.stopped() => Some(Untimed::Exiting),
        _ if switched() => Some(Untimed::ProfilingSwitchedOff),
        _ => Some(Untimed::NotAvailable),
    }
}

impl Plan {
    const EMPTY: Self = Self {
        queue: None,
        event: H::NULL,
        ours: false,
        slot_allowed: false,
        timed: false,
        left_out: false,
        awaited: false,
        own_event: false,
        probability: 0.0,
        repeated: false,
        why: Some(Untimed::NotAvailable),
        record: true,
        call_site: 0,
    };

    /// For functions that give no event.
    pub fn without_event(queue: Option<&'static Queue>, call_site: u32) -> Self {
        let off = device_time::current().is_some_and(|d| d.timing == DeviceTiming::Off);
        let why = if off { None } else { Some(Untimed::NoEvent) };
        Self { queue, call_site, why, ..Self::EMPTY }
    }

    /// Its queue, where that is known.
    pub fn queue(&self) -> Option<&'static Queue> {
        self.queue
    }

    /// Where the call comes from, 0 if that is not recorded.
    pub fn call_site(&self) -> u32 {
        self.call_site
    }

    /// Whether the command is recorded.
    #[inline(always)]
    pub fn records(&self) -> bool {
        self.record
    }

    /// The event slot to pass: the application's, or ours where it passed NULL.
    #[inline(always)]
    pub fn slot(&mut self, asked: *mut H) -> *mut H {
        self.awaited &= !asked.is_null();
        if let (Some(queue), true) = (self.queue, self.timed || !asked.is_null() || self.own_event)
        {
            queue.switch.turn(queue, self.timed);
        }
        if self.timed && self.slot_allowed && asked.is_null() {
            self.ours = true;
            &raw mut self.event
        } else {
            asked
        }
    }

    /// Gives back what a failed call left in our slot. Whether it is to be repeated as the
    /// application wrote it.
    #[cold]
    pub fn failed(&mut self, site: Site, code: i32, blocking: bool) -> bool {
        let left = std::mem::replace(&mut self.event, H::NULL);
        if !left.is_null()
            && self.queue.is_some_and(|q| {
                // SAFETY: the device of a live queue, in the middle of a call about it.
                platforms::failures_leave_events(site, unsafe { H::from_word(q.device) })
            })
        {
            // SAFETY: a failed call left it to us.
            unsafe { on_event(api::clReleaseEvent.own(site.slot), left) };
        }
        if !self.ours || blocking || !changes::event_can_cause(code) {
            return false;
        }
        self.ours = false;
        self.timed = false;
        self.repeated = true;
        self.why = Some(Untimed::EventRefused);
        true
    }
}

/// A successful enqueue. The order of the fields matters: two adjacent words that are 0 for a
/// launch would be merged into one vector store, which delays the loads that follow.
#[repr(C)]
pub struct What {
    pub object: H,
    pub object2: H,
    pub event: *mut H,
    pub bytes: u64,
    pub geometry: Geometry,
    pub site: Site,
    pub waits: (u32, *const H),
    pub extra: u32,
    pub kind: CommandKind,
    pub blocking: bool,
}

/// Asks for the memory that is about to be written: a runtime's enqueue runs for microseconds and
/// leaves little of the recorder in the caches, and the atomic additions on the way would wait for
/// one line after the other.
#[inline(always)]
pub fn ahead(t: &Thread, plan: &Plan) {
    fetch(t.cursor.get().cast());
    fetch(t.cursor.get().wrapping_add(8).cast());
    fetch(objects::counter());
    if let (true, Some(queue)) = (plan.timed, plan.queue) {
        fetch(queue.next_place());
    }
}

/// Asks for a cache line, where the processor can be asked.
#[inline(always)]
fn fetch(at: *const i8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint, for any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Records a command and takes note of its event. Gives its id.
///
/// # Safety
/// The call has succeeded with these arguments.
#[inline(always)]
pub unsafe fn record<'a>(
    t: &Thread,
    what: &What,
    plan: &Plan,
    (begin, end): (u64, u64),
    geometry: impl FnOnce() -> u32,
    local: impl FnOnce() -> &'a Local,
) -> u64 {
    // SAFETY: the application's slot was written by the successful call.
    let theirs = if what.event.is_null() { H::NULL } else { unsafe { *what.event } };
    let command = objects::new_command();
    let queue = plan.queue;
    let app_profiling = queue.is_some_and(|q| q.app_profiling.load(Ordering::Relaxed));
    if plan.record {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let flags = bit(!theirs.is_null(), flag::APP_EVENT)
            | bit(what.blocking, flag::BLOCKING)
            | bit(plan.timed, flag::TIMED)
            | bit(plan.left_out, flag::NOT_SAMPLED)
            | bit(plan.awaited, flag::READ)
            | bit(app_profiling, flag::APP_PROFILING)
            | bit(plan.repeated, flag::REPEATED);
        let (count, list) = what.waits;
        let list = if count == 0 || list.is_null() {
            None
        } else {
            // SAFETY: the successful call has read them.
            Some(unsafe { WaitList::copy(what.waits) })
        };
        let (object, object2) = (
            objects::id(what.object),
            if what.object2.is_null() { 0 } else { objects::id(what.object2) },
        );
        let geometry = geometry();
        let written = || Command {
            function: what.site.function,
            duration: end.wrapping_sub(begin),
            result: 0,
            id: command,
            queue: queue.map_or(0, |q| q.id),
            object,
            object2,
            geometry,
            kind: what.kind,
            flags,
            extra: if what.kind.is_sampled() { plan.probability.to_bits() } else { what.extra },
            bytes: what.bytes,
            waits: Waits(list.as_ref().map_or(&[], WaitList::bytes)),
            site: plan.call_site,
        };
        ring::command(t, written, end);
        if let (false, Some(why)) = (plan.timed, plan.why) {
            ring::untimed(t, command, why, 0, end);
        }
    }
    let transfer = tells_size(what.kind);
    if let (true, Some(sampler)) =
        (transfer || what.kind.is_kernel(), device_time::current().and_then(|d| d.sampler.as_ref()))
    {
        // The duration of a transfer's call does not show the price of its event.
        let ticks = if transfer { u64::MAX } else { end.wrapping_sub(begin) };
        sampler.launched(local(), plan.timed && !plan.awaited, ticks, end);
        if !plan.timed {
            sampler.left_out();
        }
    }
    if let (1.., false, Some(queue)) = (what.waits.0, what.waits.1.is_null(), queue) {
        // SAFETY: the successful call has read them.
        let list = unsafe { std::slice::from_raw_parts(what.waits.1, what.waits.0 as usize) };
        for facts in list.iter().filter_map(|event| objects::event(*event)).filter(|e| e.held) {
            queue.waits_for(facts.queue, facts.command);
        }
    }
    // A call that has waited, of a command without a time: what stands before it has ended.
    let unseen = |timed: bool| {
        if let (true, false, Some(queue)) = (what.blocking, timed, queue) {
            device_time::harvest_until(t, queue, command, end);
        }
    };
    let event = if plan.ours { plan.event } else { theirs };
    if event.is_null() {
        unseen(false);
        return command;
    }
    let timed = plan.timed && !plan.awaited && (plan.ours || held(what.site, event));
    if !plan.ours {
        let unprofiled = queue.is_some_and(Queue::hides_times);
        let timing = match timed {
            _ if plan.awaited => {
                queue.inspect(|q| q.reads.marked());
                Timing::Awaited { chosen: plan.timed }
            }
            true => Timing::Held,
            false => Timing::Nobody,
        };
        objects::event_created(event, command, queue.map_or(0, |q| q.index), timing, unprofiled);
    }
    if let (true, Some(queue)) = (timed, queue) {
        // Asked before the event is handed over: afterwards any thread may harvest and release it.
        let complete = what.blocking && device_time::is_complete(queue, event);
        // SAFETY: the event of the recorder's slot, or one that `held` has taken a reference of.
        unsafe { device_time::enqueued(t, queue, event, command, plan.ours) };
        if complete {
            device_time::harvest_until(t, queue, command, end);
            device_time::waited(queue);
        }
    }
    unseen(timed);
    command
}

/// Takes a reference of the application's event for ourselves.
fn held(site: Site, event: H) -> bool {
    // SAFETY: a live event.
    unsafe { on_event(api::clRetainEvent.own(site.slot), event) }
}

/// Calls clRetainEvent or clReleaseEvent on a live event: the call that made it has not returned to
/// the application yet.
///
/// # Safety
/// A release gives back a reference of the recorder's.
unsafe fn on_event(function: Option<f::clRetainEvent>, event: H) -> bool {
    // SAFETY: a live event (caller's contract).
    function.is_some_and(|function| guard::unseen(|| unsafe { function(event) }) == 0)
}

/// Low halves of the command ids of a wait list, on the stack where it is short.
struct WaitList {
    inline: [u8; 64],
    length: usize,
    many: Vec<u8>,
}

impl WaitList {
    /// # Safety
    /// `count` events lie there, or the list is NULL.
    unsafe fn copy((count, list): (u32, *const H)) -> Self {
        let mut out = Self { inline: [0; 64], length: 0, many: Vec::new() };
        if list.is_null() || count == 0 {
            return out;
        }
        // SAFETY: the caller's promise.
        let events = unsafe { std::slice::from_raw_parts(list, count as usize) };
        let ids = events.iter().map(|event| (objects::event_word(*event) as u32).to_le_bytes());
        if events.len() * 4 > out.inline.len() {
            out.many = ids.flatten().collect();
            return out;
        }
        for (place, id) in out.inline.chunks_exact_mut(4).zip(ids) {
            place.copy_from_slice(&id);
        }
        out.length = events.len() * 4;
        out
    }

    fn bytes(&self) -> &[u8] {
        if self.many.is_empty() {
            self.inline.get(..self.length).unwrap_or(&[])
        } else {
            &self.many
        }
    }
}
