//! What the application's handles are: ids for the trace. Look-ups take no lock; a handle that the
//! runtime gives out again is simply defined again, so nothing has to be removed.
#![forbid(unsafe_code)]

use super::map::Map;
use crate::abi::entry::H;
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::current::Current;
use crate::os::shared::maps::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Dimensions of a launch, with its offset, global and local size.
type Geometry = (usize, [[usize; 3]; 3]);

/// Ids and facts of one process.
pub struct Tables {
    objects: Map,
    events: Map,
    next_object: AtomicU32,
    next_command: AtomicU64,
    launches: Map,
    /// By head, offset, global and local size.
    pub(super) geometries: ForkSafe<HashMap<Geometry, u32>>,
    pub(super) next_geometry: AtomicU32,
}

/// Bits of an object's value above its id: bytes of an image element.
const ELEMENT_SHIFT: u32 = 32;
/// Bits of an event's value that hold the command id; then the queue's index, then flags.
const COMMAND_MASK: u64 = (1 << 44) - 1;
const QUEUE_SHIFT: u32 = 44;
/// The recorder holds a reference of the event.
const HELD: u64 = 1 << 62;
/// The queue was given the profiling bit by us.
const UNPROFILED: u64 = 1 << 61;
/// The application is expected to query its time, which is not recorded yet.
const AWAITED: u64 = 1 << 60;
/// Awaited, and chosen for timing: if the application does not query it, the recorder does.
const CHOSEN: u64 = 1 << 63;

impl Tables {
    fn new() -> Self {
        Self {
            objects: Map::new(),
            events: Map::new(),
            next_object: AtomicU32::new(1),
            next_command: AtomicU64::new(1),
            launches: Map::new(),
            geometries: ForkSafe::new(),
            next_geometry: AtomicU32::new(1),
        }
    }

    /// Where command ids are counted.
    #[inline(always)]
    fn counter(&self) -> *const i8 {
        self.next_command.as_ptr().cast_const().cast()
    }

    /// A new id for anything.
    fn new_id(&self) -> u32 {
        self.next_object.fetch_add(1, Ordering::Relaxed)
    }
}

static TABLES: Current<Tables> = Current::none();

/// Begins anew: the first call of a process.
pub fn begin() {
    TABLES.keep(Tables::new());
}

#[inline(always)]
pub(super) fn tables() -> Option<&'static Tables> {
    TABLES.get()
}

/// A new id for anything, 0 before recording began.
pub fn new_id() -> u32 {
    tables().map_or(0, Tables::new_id)
}

/// Where command ids are counted, for a hint.
#[inline(always)]
pub fn counter() -> *const i8 {
    tables().map_or(std::ptr::null(), Tables::counter)
}

/// Id of an object, 0 if it was never seen.
#[inline(always)]
pub fn id(handle: H) -> u32 {
    tables().map_or(0, |t| t.objects.get(handle.word() as u64) as u32)
}

/// Id of the object whose handle has this value, 0 if none was seen.
pub fn id_of_word(word: usize) -> u32 {
    tables().map_or(0, |t| t.objects.get(word as u64) as u32)
}

/// Id of an object as a kept argument: for the long form, which is not in a hurry.
#[inline(never)]
pub fn word(handle: H) -> u64 {
    u64::from(id(handle))
}

/// Gives a new object an id. `element` is the size of an image's element in bytes, 0 for what is no
/// image.
#[inline(never)]
pub fn created(handle: H, element: u64) -> u32 {
    let Some(t) = tables() else { return 0 };
    if handle.is_null() {
        return 0;
    }
    let id = t.new_id();
    t.objects.set(handle.word() as u64, u64::from(id) | (element << ELEMENT_SHIFT));
    id
}

/// Id of an object that may have been seen before; `true` if it is new.
pub fn seen(handle: H) -> (u32, bool) {
    match id(handle) {
        0 => (created(handle, 0), !handle.is_null()),
        known => (known, false),
    }
}

/// Bytes of an image's element, 0 if unknown.
pub fn element_size(handle: H) -> u64 {
    tables().map_or(0, |t| t.objects.get(handle.word() as u64) >> ELEMENT_SHIFT)
}

/// The next command id: commands with a smaller one were enqueued before now.
pub fn next_command() -> u64 {
    tables().map_or(0, |t| t.next_command.load(Ordering::Acquire))
}

/// A new command id.
#[inline]
pub fn new_command() -> u64 {
    tables().map_or(0, |t| t.next_command.fetch_add(1, Ordering::Relaxed))
}

/// What is known of an event.
#[derive(Clone, Copy)]
pub struct EventFacts {
    /// Id of its command.
    pub command: u64,
    /// Whether we hold a reference, which the application must not see.
    pub held: bool,
    /// Whether the application created its queue without profiling and we added it.
    pub unprofiled: bool,
    /// Whether the application is expected to query its time.
    pub awaited: bool,
    /// Awaited, and chosen for timing.
    pub chosen: bool,
    /// Index of its queue, 0 if it has none or an unknown one.
    pub queue: u16,
}

/// Who records the time of a command with an event of the application's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// Nobody.
    Nobody,
    /// The recorder, which holds a reference.
    Held,
    /// The application queries it.
    Awaited {
        /// If it does not, the recorder does.
        chosen: bool,
    },
}

/// Remembers the event of a command.
pub fn event_created(event: H, command: u64, queue: u16, timing: Timing, unprofiled: bool) {
    if let Some(t) = tables() {
        let timing = match timing {
            Timing::Nobody => 0,
            Timing::Held => HELD,
            Timing::Awaited { chosen: false } => AWAITED,
            Timing::Awaited { chosen: true } => AWAITED | CHOSEN,
        };
        let flags = timing | if unprofiled { UNPROFILED } else { 0 };
        t.events.set(
            event.word() as u64,
            (command & COMMAND_MASK) | (u64::from(queue) << QUEUE_SHIFT) | flags,
        );
    }
}

/// We gave back our reference of an event, unless the handle is another command's by now.
pub fn event_let_go(event: H, command: u64) {
    if let Some(t) = tables() {
        let now = t.events.get(event.word() as u64);
        if now & COMMAND_MASK == command {
            t.events.set(event.word() as u64, now & !HELD);
        }
    }
}

/// The time of an awaited command is recorded, or will not be by the application. `false` where
/// another thread was first, or the handle is another command's by now. `held`: the recorder has
/// taken a reference, and will record it.
pub fn event_answered(event: H, command: u64, held: bool) -> bool {
    let Some(t) = tables() else { return false };
    let now = t.events.get(event.word() as u64);
    if now & COMMAND_MASK != command || now & AWAITED == 0 {
        return false;
    }
    let next = now & !(AWAITED | CHOSEN) | if held { HELD } else { 0 };
    t.events.set(event.word() as u64, next);
    true
}

/// What is known of an event.
pub fn event(event: H) -> Option<EventFacts> {
    let value = tables()?.events.get(event.word() as u64);
    (value != 0).then_some(EventFacts {
        command: value & COMMAND_MASK,
        held: value & HELD != 0,
        unprofiled: value & UNPROFILED != 0,
        awaited: value & AWAITED != 0,
        chosen: value & CHOSEN != 0,
        queue: (value >> QUEUE_SHIFT) as u16,
    })
}

/// Half of the command id of an event, for plain records.
#[inline(always)]
pub fn event_id(event: H) -> u32 {
    tables().map_or(0, |t| t.events.get(event.word() as u64) as u32)
}

/// Command id of an event as a kept argument, 0 if it was never seen.
#[inline(never)]
pub fn event_word(event: H) -> u64 {
    tables().map_or(0, |t| t.events.get(event.word() as u64) & COMMAND_MASK)
}

/// Gives a handle an id that was made elsewhere.
pub fn alias(handle: usize, id: u32) {
    if let Some(t) = tables() {
        t.objects.set(handle as u64, u64::from(id));
    }
}

/// Counts a launch of a kernel from a call site: how many there were before.
#[inline(always)]
pub fn count_launch(kernel: H, call_site: u32) -> u64 {
    // Handles are even.
    let key = (kernel.word() as u64)
        .wrapping_add(u64::from(call_site).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    tables().map_or(0, |t| t.launches.add(key, 1))
}
