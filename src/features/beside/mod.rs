//! What is done beside the application's own command: what a command is, and how long it took, which
//! is none of the call's time. Refuses to choose what is done and when: features that capture or
//! replace launches do.

pub mod program;

use crate::abi::entry::H;
use crate::facts::arguments;
use clscope_trace::record::CommandKind;
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// A command as the application wrote it.
pub struct Command<'a> {
    pub queue: H,
    pub waits: (u32, *const H),
    pub what: What<'a>,
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

/// Ticks that this took, of all threads: 0 in runs without.
static TAKEN: AtomicU64 = AtomicU64::new(0);

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

/// A call has begun: nothing was run in it yet.
pub fn begin() {
    OWN.set(0);
    BEHIND.set(0);
}

/// A command is about to be enqueued: whether its queue is known as the application's.
pub fn arrived(command: &Command<'_>) -> bool {
    begin();
    (command.live)(command.queue.word())
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
