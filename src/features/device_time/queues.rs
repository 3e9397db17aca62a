//! The application's queues by their handles. None is ever freed: handles come back, and a thread may
//! be in the middle of using one.

use super::pending::Pending;
use super::{
    DeviceTime, LAST_LOOK, OTHERS, Queue, current, last_look_at_exit, markers, queried_times,
    switch,
};
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::objects;
use crate::os::locks::robust::Robust;
use clscope_trace::values::DeviceTiming;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

/// Beside a queue's address: the application has given its last reference back.
const GONE: u64 = 1;

/// What is asked when a queue is made known.
pub struct NewQueue {
    pub slot: usize,
    pub handle: H,
    pub context: H,
    pub device: H,
    pub properties: u64,
    pub profiling_added: bool,
    /// Whether the platform is known to switch profiling with clSetCommandQueueProperty, command by
    /// command.
    pub switches: bool,
    /// Whether markers bound the clock of its device better than its commands do.
    pub markers: bool,
    /// Whether its device is a processor, whose runtimes give events nearly for nothing.
    pub is_processor: bool,
    pub made: Made,
}

/// How the application made a queue.
#[derive(Clone)]
pub enum Made {
    /// clCreateCommandQueue with these properties.
    Plain(u64),
    /// clCreateCommandQueueWithProperties, with the array (terminating 0 included) or NULL.
    WithProperties(Option<Vec<u64>>),
    /// Before recording began.
    Unknown,
}

/// Makes a queue known.
pub fn queue_created(device: &DeviceTime, new: NewQueue) -> &'static Queue {
    last_look_at_exit();
    if let (Some(sampler), false) = (&device.sampler, new.is_processor) {
        sampler.set_dear();
    }
    if new.profiling_added {
        device.adds_profiling.store(true, Ordering::Relaxed);
    }
    let place = device.queues.reserve();
    let queue: &'static Queue = Box::leak(Box::new(Queue {
        id: objects::new_id(),
        index: u16::try_from(place + 1).unwrap_or(0),
        slot: new.slot,
        handle: new.handle.word(),
        context: new.context.word(),
        device: new.device.word(),
        timed: AtomicBool::new(
            device.timing != DeviceTiming::Off
                && !device.stopped()
                && (new.profiling_added || new.properties & cl::CL_QUEUE_PROFILING_ENABLE != 0),
        ),
        app_profiling: AtomicBool::new(new.properties & cl::CL_QUEUE_PROFILING_ENABLE != 0),
        profiling_added: new.profiling_added,
        reads: queried_times::Reads::default(),
        switch: switch::Switch::new(new.switches),
        markers: markers::Markers::new(new.markers && device.timing != DeviceTiming::Off),
        counted: AtomicBool::new(false),
        out_of_order: new.properties & cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0,
        made: new.made,
        references: AtomicI64::new(1),
        pending: Pending::new(),
        harvests: AtomicU64::new(0),
        harvests_seen: AtomicU64::new(0),
        others: [const { AtomicU64::new(0) }; OTHERS],
        backlog: Robust::made_anew(VecDeque::new()),
    }));
    device.queues.put(place, queue);
    // Queues are never freed: handles come back, and a thread may be in the middle of using one.
    device.handles.set(new.handle.word() as u64, std::ptr::from_ref(queue) as u64);
    if let Some(device) = current().filter(|_| queue.timed.load(Ordering::Relaxed)) {
        device.reaper.begin();
    }
    queue
}

/// Facts of a queue.
#[inline(always)]
pub fn queue(handle: H) -> Option<&'static Queue> {
    queue_of_word(handle.word())
}

/// Facts of the queue whose handle has this value.
#[inline]
pub fn queue_of_word(handle: usize) -> Option<&'static Queue> {
    let value = current()?.handles.get(handle as u64);
    // SAFETY: values of this map are 0 or addresses of leaked queues, which are even, with GONE
    // beside them.
    if value & GONE == 0 { unsafe { (value as *const Queue).as_ref() } } else { None }
}

/// The application gave the queue's handle back.
pub fn queue_gone(handle: H) {
    if let Some(device) = current() {
        device.handles.set(handle.word() as u64, device.handles.get(handle.word() as u64) | GONE);
    }
}

/// The queue that had this handle until the application gave it back. It may live on, held by
/// events or command buffers, from which the application can learn its handle again.
#[cold]
pub fn former_queue(handle: H) -> Option<&'static Queue> {
    let value = current()?.handles.get(handle.word() as u64);
    // SAFETY: as in `queue_of_word`.
    if value & GONE != 0 { unsafe { ((value & !GONE) as *const Queue).as_ref() } } else { None }
}

/// The queue of an event's facts.
pub fn queue_at(index: u16) -> Option<&'static Queue> {
    current()?.queues.get(usize::from(index).checked_sub(1)?)
}

/// Runs a query of an event's reference count while no recorder thread releases one: the answer and
/// what is known of our own belong together.
pub fn steady<R>(queue: u16, ask: impl FnOnce() -> R) -> R {
    let queue = queue_at(queue);
    let _held = queue.and_then(|q| q.backlog.try_lock_for(LAST_LOOK));
    ask()
}

/// Queues of a context, or all.
pub(super) fn queues_of(context: Option<H>) -> Vec<&'static Queue> {
    let Some(device) = current() else { return Vec::new() };
    let ours = |q: &&Queue| q.in_flight() + q.markers.held() > 0;
    device
        .queues
        .iter()
        .filter(|q| context.is_none_or(|c| q.context == c.word()) && ours(q))
        .collect()
}
