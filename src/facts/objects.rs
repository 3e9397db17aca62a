//! What the application's handles are: ids for the trace, and for queues the facts that enqueues
//! need. Look-ups take no lock; a handle that the runtime gives out again is simply defined again,
//! so nothing has to be removed.

use crate::abi::entry::H;
use crate::features::device_time::Queue;
use crate::recording;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Ids and facts of one process.
pub struct Tables {
    objects: Map,
    events: Map,
    next_object: AtomicU32,
    next_command: AtomicU64,
    queues: Map,
    launches: Map,
    pub geometries: Mutex<std::collections::HashMap<crate::facts::geometry::Key, u32>>,
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

impl Tables {
    /// Empty.
    pub fn new() -> Self {
        Self {
            objects: Map::new(),
            events: Map::new(),
            next_object: AtomicU32::new(1),
            next_command: AtomicU64::new(1),
            queues: Map::new(),
            launches: Map::new(),
            geometries: Mutex::new(std::collections::HashMap::new()),
        }
    }

    /// Where command ids are counted.
    #[inline(always)]
    pub fn counter(&self) -> *const i8 {
        self.next_command.as_ptr().cast_const().cast()
    }

    /// A new id for anything.
    pub fn new_id(&self) -> u32 {
        self.next_object.fetch_add(1, Ordering::Relaxed)
    }
}

fn tables() -> Option<&'static Tables> {
    recording::process().map(|p| &p.tables)
}

/// Id of an object, 0 if it was never seen.
#[inline(always)]
pub fn id(handle: H) -> u32 {
    tables().map_or(0, |t| t.objects.get(handle as u64) as u32)
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
    t.objects.set(handle as u64, u64::from(id) | (element << ELEMENT_SHIFT));
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
    tables().map_or(0, |t| t.objects.get(handle as u64) >> ELEMENT_SHIFT)
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
    /// Index of its queue, 0 if it has none or an unknown one.
    pub queue: u16,
}

/// Remembers the event of a command.
pub fn event_created(event: H, command: u64, queue: u16, held: bool, unprofiled: bool) {
    if let Some(t) = tables() {
        let flags = if held { HELD } else { 0 } | if unprofiled { UNPROFILED } else { 0 };
        t.events.set(
            event as u64,
            (command & COMMAND_MASK) | (u64::from(queue) << QUEUE_SHIFT) | flags,
        );
    }
}

/// We gave back our reference of an event, unless the handle is another command's by now.
pub fn event_let_go(event: H, command: u64) {
    if let Some(t) = tables() {
        let now = t.events.get(event as u64);
        if now & COMMAND_MASK == command {
            t.events.set(event as u64, now & !HELD);
        }
    }
}

/// What is known of an event.
pub fn event(event: H) -> Option<EventFacts> {
    let value = tables()?.events.get(event as u64);
    (value != 0).then_some(EventFacts {
        command: value & COMMAND_MASK,
        held: value & HELD != 0,
        unprofiled: value & UNPROFILED != 0,
        queue: (value >> QUEUE_SHIFT) as u16,
    })
}

/// Half of the command id of an event, for plain records.
#[inline(always)]
pub fn event_id(event: H) -> u32 {
    tables().map_or(0, |t| t.events.get(event as u64) as u32)
}

/// Command id of an event as a kept argument, 0 if it was never seen.
#[inline(never)]
pub fn event_word(event: H) -> u64 {
    tables().map_or(0, |t| t.events.get(event as u64) & COMMAND_MASK)
}

/// Gives a handle an id that was made elsewhere.
pub fn alias(handle: H, id: u32) {
    if let Some(t) = tables() {
        t.objects.set(handle as u64, u64::from(id));
    }
}

/// Beside a queue's address: the application has given its last reference back.
const GONE: u64 = 1;

/// The application gave the queue's handle back.
pub fn queue_gone(handle: H) {
    if let Some(t) = tables() {
        t.queues.set(handle as u64, t.queues.get(handle as u64) | GONE);
    }
}

/// The queue that had this handle until the application gave it back. It may live on, held by
/// events or command buffers, from which the application can learn its handle again.
#[cold]
pub fn former_queue(handle: H) -> Option<&'static Queue> {
    let value = tables()?.queues.get(handle as u64);
    // SAFETY: as in `queue`.
    if value & GONE != 0 { unsafe { ((value & !GONE) as *const Queue).as_ref() } } else { None }
}

/// Counts a launch of a kernel from a call site: how many there were before.
#[inline(always)]
pub fn count_launch(kernel: H, call_site: u32) -> u64 {
    // Handles are even.
    let key =
        (kernel as u64).wrapping_add(u64::from(call_site).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    tables().map_or(0, |t| t.launches.add(key, 1))
}

/// Remembers a queue. Queues are never freed: handles come back, and a thread may be in the middle
/// of using one.
pub fn queue_created(handle: H, queue: &'static Queue) {
    if let Some(t) = tables() {
        t.queues.set(handle as u64, std::ptr::from_ref(queue) as u64);
    }
}

/// Facts of a queue.
#[inline]
pub fn queue(handle: H) -> Option<&'static Queue> {
    let value = tables()?.queues.get(handle as u64);
    // SAFETY: values of this map are 0 or addresses of leaked queues, which are even, with GONE
    // beside them.
    if value & GONE == 0 { unsafe { (value as *const Queue).as_ref() } } else { None }
}

/// A lock-free map from non-zero keys to values. Keys stay for ever; their number is bounded by the
/// number of distinct addresses the runtime hands out. Growing copies under a lock while readers go
/// on with the old slots, which are kept.
struct Map {
    slots: AtomicPtr<Slots>,
    growing: AtomicBool,
    grow: Mutex<()>,
}

struct Slots {
    mask: usize,
    /// What is left of a hash: its top bits.
    shift: u32,
    used: AtomicU64,
    entries: Box<[(AtomicU64, AtomicU64)]>,
}

impl Slots {
    fn new(size: usize) -> Self {
        Self {
            mask: size - 1,
            shift: 64 - size.trailing_zeros(),
            used: AtomicU64::new(0),
            entries: (0..size).map(|_| (AtomicU64::new(0), AtomicU64::new(0))).collect(),
        }
    }

    #[inline(always)]
    fn start(&self, key: u64) -> usize {
        // Handles are aligned addresses: multiply, take the top bits (Fibonacci hashing).
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// The value's cell of a key that is there.
    #[inline(never)]
    fn find(&self, key: u64) -> Option<&AtomicU64> {
        let mut at = self.start(key);
        loop {
            let (k, v) = self.entries.get(at)?;
            match k.load(Ordering::Acquire) {
                0 => return None,
                k if k == key => return Some(v),
                _ => at = (at + 1) & self.mask,
            }
        }
    }
}

impl Map {
    fn new() -> Self {
        Self {
            slots: AtomicPtr::new(Box::into_raw(Box::new(Slots::new(256)))),
            growing: AtomicBool::new(false),
            grow: Mutex::new(()),
        }
    }

    #[inline(always)]
    fn slots(&self) -> &'static Slots {
        // SAFETY: set to leaked boxes only.
        unsafe { &*self.slots.load(Ordering::Acquire) }
    }

    #[inline(always)]
    fn get(&self, key: u64) -> u64 {
        let slots = self.slots();
        // Most keys lie where they belong; NULL finds an empty place, whose value is 0.
        // SAFETY: a start is a hash's top bits, as many as say the number of entries.
        let (k, v) = unsafe { slots.entries.get_unchecked(slots.start(key)) };
        if k.load(Ordering::Acquire) == key {
            return v.load(Ordering::Acquire);
        }
        slots.find(key).map_or(0, |v| v.load(Ordering::Acquire))
    }

    /// Adds to a value and gives the old one. An addition that meets another thread's or a growing
    /// table may be lost: for counts that steer, not for totals.
    #[inline(always)]
    fn add(&self, key: u64, more: u64) -> u64 {
        let slots = self.slots();
        let first =
            slots.entries.get(slots.start(key)).filter(|(k, _)| k.load(Ordering::Relaxed) == key);
        match first.map(|(_, v)| v).or_else(|| slots.find(key)) {
            Some(cell) => {
                let value = cell.load(Ordering::Relaxed);
                cell.store(value.wrapping_add(more), Ordering::Relaxed);
                value
            }
            None => {
                self.set(key, more);
                0
            }
        }
    }

    fn set(&self, key: u64, value: u64) {
        if key == 0 {
            return;
        }
        let slots = self.slots();
        if let Some(cell) = slots.find(key) {
            cell.store(value, Ordering::SeqCst);
            // A copy in the making may have read the old value: either we see it being made, or it
            // saw our store.
            if !self.growing.load(Ordering::SeqCst)
                && std::ptr::eq(slots, self.slots.load(Ordering::SeqCst))
            {
                return;
            }
        }
        let _growing = self.grow.lock();
        let mut slots = self.slots();
        if slots.find(key).is_none() && slots.used.load(Ordering::Relaxed) as usize * 2 > slots.mask
        {
            self.growing.store(true, Ordering::SeqCst);
            let larger = Slots::new((slots.mask + 1) * 2);
            for (k, v) in &slots.entries {
                let k = k.load(Ordering::Relaxed);
                if k != 0 {
                    insert(&larger, k, v.load(Ordering::SeqCst));
                }
            }
            self.slots.store(Box::into_raw(Box::new(larger)), Ordering::SeqCst);
            self.growing.store(false, Ordering::SeqCst);
            slots = self.slots();
        }
        insert(slots, key, value);
    }
}

/// Under the lock.
fn insert(slots: &Slots, key: u64, value: u64) {
    if let Some(cell) = slots.find(key) {
        cell.store(value, Ordering::SeqCst);
        return;
    }
    let mut at = slots.start(key);
    while let Some((k, v)) = slots.entries.get(at) {
        if k.load(Ordering::Relaxed) == 0 {
            v.store(value, Ordering::Relaxed);
            k.store(key, Ordering::Release);
            slots.used.fetch_add(1, Ordering::Relaxed);
            return;
        }
        at = (at + 1) & slots.mask;
    }
}
