//! Running something beside the application's own command, so that the application finds everything
//! as if nothing had run: what a command is, waiting for what runs before it, which memory a kernel
//! may write, and one thread at a time. Owns the time that this takes, which is none of the call's;
//! refuses to choose what is run and when: features that repeat, count or replace launches do.
//!
//! The application's queues are waited for before, unless a user event is outstanding: that wait
//! might never end. Threads that come with another command meanwhile wait a while, so that it does
//! not run at the same time.

mod aside;
pub mod program;
mod written;

pub use aside::{Aside, Calls, Saved, said, slot_of};
pub use written::{Place, Writable, written};

use crate::abi::entry::H;
use crate::facts::arguments;
use crate::facts::user_events;
use crate::os::fork_safe::{Flag, Taken};
use crate::os::local::Local;
use crate::os::threads;
use crate::recording;
use crate::runtime::functions as api;
use crate::runtime::waiting;
use clscope_trace::record::CommandKind;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Enqueues a command on another queue, without waiting, with an event where wanted.
pub type Enqueue<'a> = dyn Fn(H, Option<&mut H>) -> i32 + 'a;

/// A command as the application wrote it.
pub struct Command<'a> {
    pub queue: H,
    pub waits: (u32, *const H),
    pub what: What<'a>,
    pub run: &'a Enqueue<'a>,
    /// Whether a queue still is the application's.
    pub live: &'a dyn Fn(usize) -> bool,
}

/// What a command does.
pub enum What<'a> {
    Launch { kernel: H, dimensions: u32, sizes: [*const usize; 3] },
    Transfer { kind: CommandKind, bytes: u64, of: &'a [H] },
}

/// Sizes of a launch, one number per dimension; empty where the application gave none.
#[derive(Debug, Clone, Default)]
pub struct Sizes {
    pub offset: Vec<u64>,
    pub global: Vec<u64>,
    pub local: Vec<u64>,
}

/// A thread runs something; others wait a while with their commands.
static BUSY: Flag = Flag::new();
/// Ticks that this took, of all threads: 0 in runs without.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Queues that each thread has enqueued on, with the way by which it did: they are waited for, too.
static QUEUES: Local<Vec<(usize, usize)>> = Local::new();

thread_local! {
    /// Ticks that it took of the call that is under way: before the application's command, and
    /// behind it.
    static OWN: Cell<u64> = const { Cell::new(0) };
    static BEHIND: Cell<u64> = const { Cell::new(0) };
}

/// Whether nothing was run in any call: always in runs without.
#[inline(always)]
pub fn nothing_ran() -> bool {
    TAKEN.load(Ordering::Relaxed) == 0
}

/// Begin and end of the call that is under way, without what was run in it: as if the call had
/// begun behind what came before the command, and ended before what came behind. `last` is the time
/// of the thread's record before.
pub fn without((begin, end): (u64, u64), last: u64) -> (u64, u64) {
    let end = end.saturating_sub(BEHIND.take()).max(begin).max(last);
    (begin.saturating_add(OWN.take()).min(end), end)
}

/// So many ticks of the call that is under way, before its command, were not the application's: one
/// at least.
pub fn took(ticks: u64) {
    let ticks = ticks.max(1);
    TAKEN.fetch_add(ticks, Ordering::Relaxed);
    OWN.set(OWN.get().saturating_add(ticks));
}

/// So many ticks of the call that is under way, behind its command, were not the application's.
pub fn took_behind(ticks: u64) {
    TAKEN.fetch_add(ticks.max(1), Ordering::Relaxed);
    BEHIND.set(BEHIND.get().saturating_add(ticks));
}

/// A command is about to be enqueued: whether something may run beside it.
pub fn arrived(slot: usize, command: &Command<'_>) -> bool {
    if !(command.live)(command.queue.word()) {
        return false;
    }
    OWN.set(0);
    BEHIND.set(0);
    // Not for long: the thread may be the runtime's own, which is waited for.
    let mut waited = 0;
    while BUSY.is_taken() && waited < 1000 {
        threads::pause(1000);
        waited += 1;
    }
    let known = QUEUES.with(|queues| {
        let own = (slot, command.queue.word());
        if !queues.contains(&own) {
            // Where there are many, those that were given back go first.
            if queues.len() >= 64 && queues.len().is_power_of_two() {
                queues.retain(|(_, queue)| (command.live)(*queue));
            }
            queues.push(own);
        }
    });
    // A queue that nobody remembers would not be waited for.
    known.is_some()
}

/// The right to run something, of one thread at a time. What it takes is none of the call's time.
pub struct Alone {
    /// Since when time is taken; `None` while the application's command is enqueued.
    since: Option<u64>,
    /// Ticks that were taken before.
    before: u64,
    _taken: Taken,
}

impl Alone {
    /// `None` while another thread has it.
    pub fn take(begun: u64) -> Option<Self> {
        let taken = BUSY.take()?;
        Some(Self { since: Some(begun), before: 0, _taken: taken })
    }

    /// Ticks that it has taken.
    pub fn took(&self) -> u64 {
        self.before + self.since.map_or(0, |since| recording::now().wrapping_sub(since))
    }

    /// The application's command is about to be enqueued: its time is the call's.
    pub fn pause(&mut self) {
        let Some(since) = self.since.take() else { return };
        let took = recording::now().wrapping_sub(since);
        self.before += took;
        TAKEN.fetch_add(took, Ordering::Relaxed);
        OWN.set(OWN.get().saturating_add(took));
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.pause();
    }
}

/// Why nothing may be waited for at this moment.
pub fn may_not_wait() -> Option<String> {
    user_events::obstacle().map(|why| format!("{why}: waiting for what runs might never end"))
}

/// Sizes of a launch; `None` where they are none.
///
/// # Safety
/// Each is NULL, or an array of `dimensions` sizes.
pub unsafe fn sizes(dimensions: u32, [offset, global, local]: [*const usize; 3]) -> Option<Sizes> {
    if !(1..=3).contains(&dimensions) || global.is_null() {
        return None;
    }
    let numbers = |of: *const usize| -> Vec<u64> {
        let count = if of.is_null() { 0 } else { dimensions as usize };
        // SAFETY: the caller's promise.
        (0..count).map(|d| unsafe { *of.add(d) as u64 }).collect()
    };
    Some(Sizes { offset: numbers(offset), global: numbers(global), local: numbers(local) })
}

impl Sizes {
    /// A number for them.
    pub fn number(&self) -> u64 {
        let all = self.global.iter().chain(&self.local).chain(&self.offset);
        let head = arguments::word(arguments::SEED, self.global.len() as u64);
        all.fold(head, |sum, size| arguments::word(sum, *size))
    }
}

/// Waits for all that this thread has enqueued, and for the command's wait list, as long as there is
/// patience.
pub fn settle(slot: usize, calls: &Calls, command: &Command<'_>) -> Result<(), String> {
    let queues = QUEUES.with(|queues| {
        queues.retain(|(_, queue)| (command.live)(*queue));
        queues.clone()
    });
    let queues = queues.ok_or("the thread's queues are not known")?;
    let overdue = || {
        let seconds = waiting::PATIENCE.as_secs();
        Err(format!("what runs before it did not end within {seconds} s"))
    };
    // SAFETY: the application's queues, which it has not given back, of the runtime that the calls
    // are of, its wait list, live during its call, and markers of our own.
    unsafe {
        for (_, queue) in queues.into_iter().filter(|(of, _)| *of == slot) {
            let mut last = H::NULL;
            let marker = api::clEnqueueMarker.behind(slot).ok_or("the runtime has no markers")?;
            said("marking the queue's end", marker(H::from_word(queue), &mut last))?;
            let ended = waiting::ended(slot, last, waiting::PATIENCE);
            (calls.release_event)(last);
            if !ended {
                return overdue();
            }
        }
        if command.waits.0 > 0 && !command.waits.1.is_null() {
            let list = std::slice::from_raw_parts(command.waits.1, command.waits.0 as usize);
            if !list.iter().all(|event| waiting::ended(slot, *event, waiting::PATIENCE)) {
                return overdue();
            }
        }
    }
    Ok(())
}
