//! What the application makes and gives back, as far as captures need it: memory in a context,
//! programs, queues, contexts. Refuses to look at launches.
#![forbid(unsafe_code)]

use super::super::beside;
use super::look::{self, Effort};
use super::pool::{self, Pool};
use super::{
    CRAMPED, FLYING, LAST_SLICE, SLICE, UNOPENED, is_free, program, state, wanted, why_not_now,
};
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::{Allocated, ask};
use crate::facts::info as facts;
use crate::os::threads;
use crate::recording::{self, guard};
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::values::Sample;
use std::sync::atomic::{AtomicU64, Ordering};

/// The application has made memory in a context, inside its own call; `how` where it is shared.
pub fn made(slot: usize, context: H, bytes: usize, how: Option<Allocated>) {
    if !wanted() || config::get().sample == Some(Sample::Plan) {
        return;
    }
    let may_ask = state(|s| s.pool(slot, context).is_some_and(|pool| pool.knows_ahead()));
    let may_ask = may_ask == Some(true) || is_free() == Some(true);
    let would = state(|s| {
        let pool = s.pool(slot, context)?;
        pool.made(bytes as u64, how, may_ask);
        Some(pool.would_grow())
    });
    if would.flatten() == Some(true) {
        grow(context.word());
    }
}

/// The application gives a program back.
pub fn program_released(slot: usize, program: H) {
    if wanted() {
        program::released(slot, program);
    }
}

/// The application has made a program, or built it.
pub fn program_made(program: H) {
    if wanted() {
        program::made(program);
    }
}

/// The application gives an object back: its memory, where that is the last reference of it.
pub fn released(slot: usize, object: H) {
    if !wanted() || !pool::any() {
        return;
    }
    let about = api::clGetMemObjectInfo.behind(slot);
    let is_part = !facts::handle(about, object, facts::MEMORY_PARENT).is_null();
    if is_part || ask::<u32>(about, object, cl::CL_MEM_REFERENCE_COUNT) != Some(1) {
        return;
    }
    let context = facts::handle(about, object, facts::MEMORY_CONTEXT);
    let bytes: usize = ask(about, object, cl::CL_MEM_SIZE).unwrap_or(0);
    state(|s| {
        let of = (slot, context.word());
        if let Some(pool) = s.pools.iter_mut().find(|pool| pool.is(of)) {
            pool.freed(bytes as u64, false);
        }
    });
}

/// The application was refused memory, or a command for lack of it: whether the recorder has given
/// memory back, so that the call may be made once more.
pub fn gives_back(code: i32) -> bool {
    let lacks =
        [cl::CL_MEM_OBJECT_ALLOCATION_FAILURE, cl::CL_OUT_OF_RESOURCES, cl::CL_OUT_OF_HOST_MEMORY];
    if !lacks.contains(&code) || !pool::any() {
        return false;
    }
    state(|s| {
        // A thread that reads copies needs them for a moment longer.
        if s.is_looking {
            return false;
        }
        s.pools.iter_mut().for_each(|pool| pool.release(false));
        true
    })
    .unwrap_or(false)
}

/// The application asks for a context's count of references: queues and memory of the recorder's hold
/// their context in some runtimes, and must not be seen.
pub fn context_counted(context: usize) {
    let is_it = move |pool: &Pool| pool.context == context;
    if !wanted() || state(|s| s.pools.iter().any(is_it)) != Some(true) {
        return;
    }
    let give_back = move || {
        look::look(Effort::Some(SLICE));
        apart(|pool| is_it(pool) && pool.is_resting(), |pool| pool.release(true));
    };
    match is_free() {
        Some(true) => give_back(),
        // Another thread has the stack that this one lacks.
        None if why_not_now() == CRAMPED => {
            let job = move || guard::unseen(|| guard::protect((), give_back));
            let _gave = threads::answer(c"clscope-count", 2 * SLICE, job);
        }
        // No file is needed for it.
        None if why_not_now() == UNOPENED => give_back(),
        _ => {}
    }
}

/// The application gives a context back for good.
pub fn context_ends(context: usize) {
    if !wanted() {
        return;
    }
    look::look(Effort::Last(Some(context), LAST_SLICE));
    let gone = state(|s| {
        let (gone, kept) =
            std::mem::take(&mut s.pools).into_iter().partition(|p: &Pool| p.context == context);
        s.pools = kept;
        let gone: Vec<Pool> = gone;
        gone
    });
    for mut pool in gone.unwrap_or_default() {
        pool.release(true);
    }
}

/// The application has given a queue back for good.
pub fn queue_ends(queue: usize) {
    if wanted() {
        state(|s| s.traffic.forget(queue));
    }
}

/// Ticks that the recorder's memory took since a capture told of them.
static TOOK: AtomicU64 = AtomicU64::new(0);

/// That took from then on until now: none of the time of the application's call, if one is under way.
fn took(begun: u64) {
    let ticks = recording::now().wrapping_sub(begun);
    TOOK.fetch_add(ticks, Ordering::Relaxed);
    beside::took_behind(ticks);
}

/// Ticks of host time that making memory, and waiting for it, took since they were taken last.
pub(super) fn take_took() -> u64 {
    TOOK.swap(0, Ordering::Relaxed)
}

/// A command failed, or never began since what it waits for had failed: what follows it in its queue
/// may run all the same, so that a copy of what it leaves holds what it was given.
pub fn failed(command: u64) {
    if FLYING.load(Ordering::Relaxed) > 0 {
        state(|s| {
            if let Some(launch) = s.traffic.watched(command) {
                launch.unchecked = Some("the launch failed on the device, or never began");
            }
        });
    }
}

/// Waits for a moment until memory of a context's pool exists that a launch lacked: once for each such
/// launch. The pool stays where it is.
pub(super) fn await_memory(context: usize) {
    let is_it = |pool: &Pool| pool.context == context && pool.is_awaited();
    if state(|s| s.pools.iter().any(is_it)) != Some(true) || is_free() != Some(true) {
        return;
    }
    let awaited = state(|s| s.pools.iter_mut().find(|pool| is_it(pool)).map(Pool::awaited));
    if let Some(awaited) = awaited.flatten() {
        let begun = recording::now();
        awaited.wait(SLICE);
        took(begun);
    }
}

/// Grows the pools of a context that would: outside of the state, since making memory takes a while.
pub(super) fn grow(context: usize) {
    let is_it = |pool: &Pool| pool.context == context && pool.would_grow();
    if state(|s| s.pools.iter().any(is_it)) != Some(true) || is_free() != Some(true) {
        return;
    }
    let begun = recording::now();
    apart(is_it, Pool::grow);
    took(begun);
}

/// Does something with a pool, which takes a while, outside of the state: its place is kept.
fn apart(is_it: impl Fn(&Pool) -> bool, run: impl FnOnce(&mut Pool)) {
    let taken = state(|s| s.pools.iter_mut().find(|pool| is_it(pool)).map(Pool::leave));
    let Some((mut pool, token)) = taken.flatten() else { return };
    run(&mut pool);
    let mut pool = Some(pool);
    state(|s| {
        let place = s.pools.iter_mut().find(|place| place.is_place_of(&token));
        if let Some(place) = place
            && let Some(pool) = pool.take()
        {
            place.put_back(pool);
        }
    });
    // The application gave the context back meanwhile, or another thread had the state for too long.
    if let Some(mut pool) = pool {
        pool.release(true);
    }
}
