//! Owns memory of the recorder's own on the device, into which launches' memory is copied, with the
//! queues on which it is read back: one pool for each context. It grows inside the application's own
//! clCreateBuffer, and behind waits of the application's that have left nothing to run: making
//! memory may wait for all that runs. It is given back where the application is refused memory, and
//! with the context. Refuses to be used for anything of the application's.

mod ranges;

use super::calls::{Calls, Fate, Own};
use super::room;
use crate::abi::entry::H;
use crate::facts::arguments::Allocated;
use crate::facts::info;
use crate::runtime::functions as api;
use crate::runtime::waiting;
use crate::settings::config;
use ranges::Ranges;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Bytes of which a second copy is made without being asked for.
pub const SMALL: u64 = 32 << 20;
/// Launches that a pool made ahead has room for, if they reach all of the application's buffers,
/// within [`AHEAD`]. Many programs launch what they launch before they wait for the first time.
const LAUNCHES: u64 = 32;
/// Bytes that a pool may have ahead of any launch for so many, and for one: where the device has its
/// memory in the host, and elsewhere.
const AHEAD: [[u64; 2]; 2] = [[32 << 20, 256 << 20], [4 << 30, 8 << 30]];
/// Where regions of a pool begin.
const ALIGNED: usize = 512;
/// Pools are made so large that this part of them is never used.
const ROUNDED: usize = 64 << 10;

/// Pools that hold memory: nothing is looked for where there are none.
static HELD: AtomicUsize = AtomicUsize::new(0);

/// Memory of one kind: a buffer, or shared virtual memory.
#[derive(Default)]
struct Memory {
    /// Its handle or address, 0 for none.
    at: usize,
    bytes: usize,
    /// What is handed out.
    used: Ranges,
    /// It is being written for the first time: this command's event, 0 for none.
    touched: usize,
    /// What was asked for and was not there.
    wanted: u64,
    /// What copies of all that the application has of this kind would take.
    all: u64,
}

/// What a launch takes of a pool: begin and length in the buffer and in shared virtual memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    /// Which of the pool's memories it lies in, one after the other.
    epoch: u64,
    pub buffer: (usize, usize),
    pub shared: (usize, usize),
}

impl Region {
    /// Whether it takes no memory: the launch has none.
    pub fn is_empty(&self) -> bool {
        self.buffer.1 + self.shared.1 == 0
    }
}

/// The recorder's memory in a context.
pub struct Pool {
    slot: usize,
    pub context: usize,
    /// Queues of the recorder's own, by device.
    queues: Vec<(usize, usize)>,
    buffer: Memory,
    shared: Memory,
    /// Whether its shared memory is unified shared memory, as the application's first was.
    is_unified: bool,
    /// Counts up when memory is given back.
    epoch: u64,
    /// Bytes that the application has made in this context.
    pub seen: u64,
    /// A growth was refused: no other is tried for less.
    refused: u64,
    /// The most that is made ahead of launches, of many and of one, once that is known.
    ahead: Option<[u64; 2]>,
    /// Lives while another is away whose place this keeps.
    away: Weak<()>,
}

/// Memory whose first writing is waited for, by events that are retained.
pub struct Awaited {
    slot: usize,
    events: [Option<usize>; 2],
}

impl Awaited {
    /// Waits for each of them, for so long at most, and gives them back.
    pub fn wait(self, patience: Duration) {
        for event in self.events.into_iter().flatten() {
            // SAFETY: an event of the recorder's that was retained, and is given back once.
            unsafe {
                let event = H::from_word(event);
                waiting::ended(self.slot, event, patience);
                if let Some(release) = api::clReleaseEvent.behind(self.slot) {
                    release(event);
                }
            }
        }
    }
}

/// Why a pool has no room.
pub enum Lacking {
    /// It can have it behind the next wait of the application's that leaves nothing to run.
    Later(String),
    /// It cannot.
    Never(String),
}

/// Why so many bytes are too many.
pub fn too_large(bytes: u64, most: u64) -> String {
    format!(
        "a copy of its memory takes {bytes} bytes, more than the {most} that may be taken of what is \
         free"
    )
}

/// What copies of a memory take: before a launch and after, or before alone, where it is large and
/// nobody asked for a launch by name.
fn copies(bytes: u64) -> u64 {
    let one = rounded(bytes);
    let has_both = 2 * one <= SMALL || !config::get().captures.is_empty();
    if has_both { one.saturating_mul(2) } else { one }
}

/// So many bytes or more, in steps of an eighth of the next power of two. Few growths lead there, and
/// a fifth of it at most is not needed.
fn stepped(bytes: u64) -> u64 {
    let power = bytes.checked_next_power_of_two().unwrap_or(u64::MAX);
    bytes.checked_next_multiple_of((power / 8).max(1)).unwrap_or(u64::MAX)
}

/// So many bytes as regions take.
pub fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(ALIGNED as u64)
}

impl Memory {
    fn own(&self, is_shared: bool, is_unified: bool) -> Own {
        match (is_shared, is_unified) {
            (false, _) => Own::Buffer(self.at, 0),
            (true, false) => Own::Svm(self.at),
            (true, true) => Own::Unified(self.at),
        }
    }

    /// Whether its first writing is over.
    fn is_ready(&mut self, calls: &Calls) -> bool {
        if self.touched == 0 {
            return true;
        }
        // SAFETY: an event of the recorder's.
        let event = unsafe { H::from_word(self.touched) };
        // SAFETY: as above.
        match unsafe { calls.fate(event) } {
            Fate::Pending => false,
            fate => {
                // SAFETY: given back once.
                unsafe { calls.release_event(event) };
                self.touched = 0;
                if fate != Fate::Complete {
                    // It does not really exist.
                    self.bytes = 0;
                }
                true
            }
        }
    }

    /// Hands out so many bytes: where they begin.
    fn take(&mut self, bytes: u64) -> Option<(usize, usize)> {
        let bytes = usize::try_from(bytes).ok()?;
        self.used.take(bytes, self.bytes).map(|at| (at, bytes))
    }
}

impl Pool {
    /// An empty one.
    pub fn new(slot: usize, context: H) -> Self {
        Self {
            slot,
            context: context.word(),
            queues: Vec::new(),
            buffer: Memory::default(),
            shared: Memory::default(),
            is_unified: false,
            epoch: 0,
            seen: 0,
            refused: u64::MAX,
            ahead: None,
            away: Weak::new(),
        }
    }

    /// The devices of its context.
    fn devices(&self) -> Vec<H> {
        // SAFETY: the application makes memory in it, or has waited for a command of it.
        let context = unsafe { H::from_word(self.context) };
        info::handles(api::clGetContextInfo.behind(self.slot), context, info::CONTEXT_DEVICES)
    }

    /// The most that is made ahead of launches, of many and of one.
    fn ahead(&mut self) -> [u64; 2] {
        let known = self.ahead.unwrap_or_else(|| {
            let devices = self.devices();
            let is_host = devices.iter().any(|device| super::info::is_hosts(self.slot, *device));
            let free = devices.iter().map(|device| room::most(self.slot, *device, self.seen)).min();
            let [hosts, others] = AHEAD;
            let limits = if is_host { hosts } else { others };
            limits.map(|limit| limit.min(free.unwrap_or(0)))
        });
        self.ahead = Some(known);
        known
    }

    /// Whether it is that one.
    pub fn is(&self, (_, context): (usize, usize)) -> bool {
        self.context == context
    }

    /// Takes it out of its place, to grow or to be released. What stays there has no memory and does not grow; it counts
    /// what the application makes until what is returned is put back, or dropped.
    pub fn leave(&mut self) -> (Self, Arc<()>) {
        let token = Arc::new(());
        let left = |of: &Memory| Memory { all: of.all, ..Memory::default() };
        let place = Self {
            queues: Vec::new(),
            buffer: left(&self.buffer),
            shared: left(&self.shared),
            away: Arc::downgrade(&token),
            ..*self
        };
        (std::mem::replace(self, place), token)
    }

    /// Whether this keeps the place of what left with that token.
    pub fn is_place_of(&self, token: &Arc<()>) -> bool {
        std::ptr::eq(self.away.as_ptr(), Arc::as_ptr(token))
    }

    /// Puts what had left back into its place, with what was counted there.
    pub fn put_back(&mut self, grown: Self) {
        let place = std::mem::replace(self, grown);
        (self.is_unified, self.seen, self.ahead) = (place.is_unified, place.seen, place.ahead);
        for (of, left) in [(&mut self.buffer, place.buffer), (&mut self.shared, place.shared)] {
            of.all = left.all;
            of.wanted = of.wanted.max(left.wanted);
        }
        if place.epoch != self.epoch {
            // The application was refused memory meanwhile.
            self.release(false);
        }
    }

    /// Hands out room, with a queue to read it by.
    ///
    /// # Errors
    /// Why there is none.
    pub fn take(
        &mut self,
        calls: &Calls,
        device: H,
        (buffer, shared): (u64, u64),
    ) -> Result<(Region, usize), Lacking> {
        let all = buffer.saturating_add(shared);
        let most = room::most(self.slot, device, self.seen);
        if all > most {
            return Err(Lacking::Never(too_large(all, most)));
        }
        if all >= self.refused {
            return Err(Lacking::Never(format!(
                "the runtime refused {all} bytes for a copy of its memory"
            )));
        }
        let queue = self.queues.iter().find(|(of, _)| *of == device.word()).map(|(_, q)| *q);
        let ready = self.buffer.is_ready(calls) && self.shared.is_ready(calls);
        let region = (queue.is_some() && ready).then(|| self.region(buffer, shared)).flatten();
        match (region, queue) {
            (Some(region), Some(queue)) => Ok((region, queue)),
            _ => {
                self.buffer.wanted = self.buffer.wanted.max(buffer);
                self.shared.wanted = self.shared.wanted.max(shared);
                let full = self.buffer.bytes as u64 >= buffer && self.shared.bytes as u64 >= shared;
                Err(Lacking::Later(match (queue.is_some() && full, ready) {
                    (true, true) => "other launches' copies fill the recorder's memory".to_owned(),
                    (true, false) => {
                        "the device had not yet prepared the recorder's memory for copies"
                            .to_owned()
                    }
                    (false, _) => format!(
                        "the recorder has no {all} bytes for a copy of its memory before the \
                         application's next wait"
                    ),
                }))
            }
        }
    }

    /// Room in both kinds of memory, or in none.
    fn region(&mut self, buffer: u64, shared: u64) -> Option<Region> {
        let buffer = self.buffer.take(buffer)?;
        let Some(shared) = self.shared.take(shared) else {
            self.buffer.used.give_back(buffer);
            return None;
        };
        Some(Region { epoch: self.epoch, buffer, shared })
    }

    /// Whether a region still lies in the pool's memory.
    pub fn holds(&self, region: &Region) -> bool {
        region.epoch == self.epoch
    }

    /// Takes room back.
    pub fn give_back(&mut self, region: &Region) {
        if self.holds(region) {
            self.buffer.used.give_back(region.buffer);
            self.shared.used.give_back(region.shared);
        }
    }

    /// The memory that a region lies in.
    pub fn own(&self, is_shared: bool) -> Own {
        let of = if is_shared { &self.shared } else { &self.buffer };
        of.own(is_shared, self.is_unified)
    }

    /// Whether it is known how much is made ahead, for which the system is asked once.
    pub fn knows_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// The application has made memory of so many bytes: a buffer or image, or shared memory. Where the
    /// system may not be asked how much there is, none is made ahead.
    pub fn made(&mut self, bytes: u64, how: Option<Allocated>, may_ask: bool) {
        let is_shared = how.is_some();
        if let (Some(how), 0) = (how, self.shared.all) {
            self.is_unified = how != Allocated::Svm;
        }
        self.seen = self.seen.saturating_add(bytes);
        let [many, one] = if may_ask { self.ahead() } else { *self.ahead.insert([0, 0]) };
        let of = if is_shared { &mut self.shared } else { &mut self.buffer };
        of.all = of.all.saturating_add(copies(bytes));
        // Room for some launches that nothing waits between; of larger ones for one.
        let many = stepped(of.all.saturating_mul(LAUNCHES)).min(many);
        let ahead = many.max(stepped(of.all).min(one));
        if ahead > of.bytes as u64 {
            // At least twice as much as before: the application waits for each growth.
            let twice = (of.bytes as u64).saturating_mul(2).min(one);
            of.wanted = of.wanted.max(ahead).max(twice);
        }
    }

    /// It has given memory back.
    pub fn freed(&mut self, bytes: u64, is_shared: bool) {
        self.seen = self.seen.saturating_sub(bytes);
        let of = if is_shared { &mut self.shared } else { &mut self.buffer };
        of.all = of.all.saturating_sub(copies(bytes));
    }

    /// The functions that it takes.
    fn calls(&self, devices: &[H]) -> Option<Calls> {
        match devices.first() {
            Some(device) if self.is_unified => Calls::with_unified(self.slot, *device),
            _ => Calls::find(self.slot),
        }
    }

    /// Whether nothing is handed out.
    fn is_idle(&self) -> bool {
        self.buffer.used.is_empty() && self.shared.used.is_empty()
    }

    /// Whether nothing is handed out, and it is where it belongs.
    pub fn is_resting(&self) -> bool {
        self.away.strong_count() == 0 && self.is_idle()
    }

    /// Whether it would grow.
    pub fn would_grow(&self) -> bool {
        self.is_resting()
            && (self.buffer.wanted > self.buffer.bytes as u64
                || self.shared.wanted > self.shared.bytes as u64)
    }

    /// Whether a launch lacked its memory because that was being written for the first time.
    pub fn is_awaited(&self) -> bool {
        [&self.buffer, &self.shared]
            .iter()
            .any(|of| of.touched != 0 && of.wanted > 0 && of.wanted <= of.bytes as u64)
    }

    /// The end of that; what launches lacked counts as waited for.
    pub fn awaited(&mut self) -> Awaited {
        let retain = api::clRetainEvent.behind(self.slot);
        let events = [&mut self.buffer, &mut self.shared].map(|of| {
            // What is wanted beyond its memory is for the next growth.
            if of.wanted <= of.bytes as u64 {
                of.wanted = 0;
            }
            let retain = retain.filter(|_| of.touched != 0)?;
            // SAFETY: the recorder's live event.
            let held = unsafe { retain(H::from_word(of.touched)) };
            (held == 0).then_some(of.touched)
        });
        Awaited { slot: self.slot, events }
    }

    /// Grows to what was asked for, as far as that may be taken.
    pub fn grow(&mut self) {
        // SAFETY: as for its devices.
        let context = unsafe { H::from_word(self.context) };
        let devices = self.devices();
        let Some(calls) = &self.calls(&devices) else { return };
        for device in &devices {
            if self.queues.iter().all(|(of, _)| *of != device.word()) {
                // SAFETY: a device of the context.
                if let Ok(queue) = unsafe { calls.queue(context, *device) } {
                    self.queues.push((device.word(), queue.word()));
                }
            }
        }
        let free = |d: &H| room::most(self.slot, *d, self.seen);
        let most = devices.iter().map(free).min().unwrap_or(0);
        let before = self.buffer.bytes + self.shared.bytes;
        for is_shared in [false, true] {
            let of = if is_shared { &self.shared } else { &self.buffer };
            let wanted = of.wanted;
            if wanted > of.bytes as u64 && wanted <= most {
                self.replace(calls, context, is_shared, wanted);
            }
        }
        let now = self.buffer.bytes + self.shared.bytes;
        (self.buffer.wanted, self.shared.wanted) = (0, 0);
        match (before, now) {
            (0, 1..) => _ = HELD.fetch_add(1, Ordering::Relaxed),
            (1.., 0) => _ = HELD.fetch_sub(1, Ordering::Relaxed),
            _ => {}
        }
    }

    fn replace(&mut self, calls: &Calls, context: H, is_shared: bool, wanted: u64) {
        self.drop_memory(calls, is_shared);
        let bytes = (wanted as usize).next_multiple_of(ROUNDED);
        // SAFETY: a live context.
        let made = unsafe {
            match is_shared {
                false => calls.buffer(context, bytes).ok().map(H::word),
                true if !self.is_unified => calls.shared(context, bytes),
                true => {
                    let device = self.queues.first().map_or(H::NULL, |(of, _)| H::from_word(*of));
                    calls.unified(context, device, bytes)
                }
            }
        };
        let Some(at) = made else {
            self.refused = self.refused.min(wanted);
            return;
        };
        let of = if is_shared { &mut self.shared } else { &mut self.buffer };
        (of.at, of.bytes) = (at, bytes);
        let own = of.own(is_shared, self.is_unified);
        let Some((_, queue)) = self.queues.first() else { return };
        // SAFETY: a queue of the recorder's own in this context, and memory of that size.
        match unsafe { calls.touch(H::from_word(*queue), own, bytes) } {
            Ok(event) => {
                of.touched = event.map_or(0, H::word);
                // A kernel may be launched right behind, and never again.
                // SAFETY: the recorder's live event.
                let _ = event.is_some_and(|event| unsafe {
                    waiting::ended(self.slot, event, waiting::SHORT_PATIENCE)
                });
            }
            Err(_) => {
                self.refused = self.refused.min(wanted);
                self.drop_memory(calls, is_shared);
            }
        }
    }

    /// Gives memory back; shared virtual memory that a command may still use is left to the context.
    fn drop_memory(&mut self, calls: &Calls, is_shared: bool) {
        // SAFETY: a live context, or one that lives on by what the recorder holds of it.
        let context = unsafe { H::from_word(self.context) };
        let is_idle = self.is_idle();
        let of = if is_shared { &mut self.shared } else { &mut self.buffer };
        let is_idle = is_idle && of.is_ready(calls);
        if of.at != 0 && (is_idle || !is_shared) {
            // SAFETY: the recorder's own, given back once; a buffer lives on for its commands.
            unsafe { calls.release(context, of.own(is_shared, self.is_unified)) };
        }
        if of.touched != 0 {
            // SAFETY: the recorder's event, given back once.
            unsafe { calls.release_event(H::from_word(of.touched)) };
        }
        *of = Memory { wanted: of.wanted, all: of.all, ..Memory::default() };
    }

    /// Gives all memory back; with `queues` those, too.
    pub fn release(&mut self, queues: bool) {
        // SAFETY: devices of a context that lives.
        let device = self.queues.first().map(|(of, _)| unsafe { H::from_word(*of) });
        let Some(calls) = &self.calls(device.as_slice()) else { return };
        if self.buffer.bytes + self.shared.bytes > 0 {
            HELD.fetch_sub(1, Ordering::Relaxed);
        }
        self.drop_memory(calls, false);
        self.drop_memory(calls, true);
        self.epoch += 1;
        if queues {
            for (_, queue) in self.queues.drain(..) {
                // SAFETY: the recorder's own, given back once.
                unsafe { calls.release_queue(H::from_word(queue)) };
            }
        }
    }
}

/// Whether any pool may hold memory.
pub fn any() -> bool {
    HELD.load(Ordering::Relaxed) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_has_one_pool_while_it_grows() {
        // SAFETY: a value that nothing is asked about.
        let mut place = Pool::new(0, unsafe { H::from_word(8) });
        place.ahead = Some([0, 0]);
        place.made(7000, None, true);
        place.buffer.wanted = 1 << 20;
        assert!(place.would_grow());
        let (mut grown, token) = place.leave();
        assert!(place.is_place_of(&token) && !grown.is_place_of(&token));
        // Meanwhile the application makes memory, gives some back, and a launch lacks more.
        place.made(5000, None, true);
        place.made(300, None, true);
        place.freed(300, false);
        place.buffer.wanted = 9 << 20;
        assert!(!place.would_grow(), "one grows at a time");
        (grown.buffer.at, grown.buffer.bytes, grown.buffer.wanted) = (1, 1 << 20, 0);
        place.put_back(grown);
        drop(token);
        assert_eq!((place.seen, place.buffer.all), (12_000, copies(7000) + copies(5000)));
        assert_eq!((place.buffer.at, place.buffer.bytes), (1, 1 << 20));
        assert!(place.would_grow(), "what was lacking meanwhile is made next");
        // Where what left does not come back, another grows.
        drop(place.leave());
        place.buffer.wanted = 1 << 20;
        assert!(place.would_grow());
    }

    #[test]
    fn memory_made_ahead_grows_seldom_and_holds_a_launch() {
        let limits = [32u64 << 20, 256 << 20];
        for size in [64u64, 4096, 65_536, 1 << 20, 4 << 20, 100 << 20, 1 << 30] {
            // SAFETY: a value that nothing is asked about.
            let mut pool = Pool::new(0, unsafe { H::from_word(8) });
            pool.ahead = Some(limits);
            let (mut growths, mut first) = (0, 0);
            for _ in 0..1000 {
                pool.made(size, None, true);
                if pool.would_grow() {
                    growths += 1;
                    (pool.buffer.bytes, pool.buffer.wanted) = (pool.buffer.wanted as usize, 0);
                    first = if first == 0 { pool.buffer.bytes as u64 } else { first };
                }
                let all = pool.buffer.all.min(limits[1]);
                assert!(pool.buffer.bytes as u64 >= all && pool.buffer.bytes as u64 <= limits[1]);
            }
            let doublings = (limits[1] as f64 / first as f64).log2().ceil();
            assert!(f64::from(growths) <= doublings + 1.0, "{size}: {growths} growths");
        }
    }

    #[test]
    fn steps_hold_what_is_asked_and_a_quarter_more_at_most() {
        for bytes in [1u64, 2, 3, 4, 5, 97, 4096, 100_000, (64 << 20) + 1, u64::MAX / 3, u64::MAX] {
            let step = stepped(bytes);
            assert!(step >= bytes && step as f64 <= 1.25 * bytes as f64 + 1.0, "{bytes}: {step}");
        }
    }
}
