//! Owns `CLSCOPE_REPLAY`: launches and transfers are repeated before the application's own, in
//! batches long enough for a sensor, at moments that `schedule` chooses, with the buffers that a
//! kernel may write saved before and restored after (`stage`), so that the application's command
//! finds everything as if nothing had run. Refuses launches of which it cannot know what they write
//! (`known`), with the reason in the trace; refuses to read sensors.
//!
//! Everything runs on a queue of our own, made for one repetition and released after it. The
//! application's queues are waited for before, unless a user event is outstanding: that wait might
//! never end. Threads that come with another command meanwhile wait a while, so that it does not
//! run beside what is repeated.

pub mod known;
mod schedule;
mod stage;

use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::{kernels, objects, user_events};
use crate::os::fork_safe::ForkSafe;
use crate::os::threads;
use crate::recording;
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::defs::Replay;
use clscope_trace::record::{CommandKind, size_class};
use known::{Argument, Kernel, Memory, SEED, ask, word};
use schedule::{QUIET_MS, Refusal, Schedule, Turn};
use stage::{Calls, Stage, quiet, said};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A command as the application wrote it.
pub struct Command<'a> {
    pub queue: H,
    pub waits: (u32, *const H),
    pub what: What<'a>,
    /// Enqueues it on another queue, without waiting, with an event where wanted.
    pub run: &'a dyn Fn(H, *mut H) -> i32,
    /// Whether a queue still is the application's.
    pub live: &'a dyn Fn(H) -> bool,
}

/// What a command does.
pub enum What<'a> {
    Launch { kernel: H, dimensions: u32, sizes: [*const usize; 3] },
    Transfer { kind: CommandKind, bytes: u64, of: &'a [H] },
}

static SCHEDULE: ForkSafe<Option<Schedule>> = ForkSafe::new();
/// A thread repeats something; others wait a while with their commands.
static BUSY: AtomicBool = AtomicBool::new(false);
/// Ticks that repetitions took, of all threads: 0 in runs without.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Queues that this thread has enqueued on, each with the way by which it did: they are waited
    /// for, too.
    static QUEUES: RefCell<Vec<(usize, usize)>> = const { RefCell::new(Vec::new()) };
    /// Ticks that repetitions took of the call that is under way.
    static OWN: Cell<u64> = const { Cell::new(0) };
}

/// Begin of the call that is under way, without what was repeated in it.
#[inline(always)]
pub fn without(begin: u64, end: u64) -> u64 {
    if TAKEN.load(Ordering::Relaxed) == 0 {
        begin
    } else {
        begin.saturating_add(OWN.take()).min(end)
    }
}

/// Sizes of a launch, one number per dimension; empty where there are none.
///
/// # Safety
/// NULL, or an array of `dimensions` sizes.
unsafe fn numbers(of: *const usize, dimensions: u32) -> Vec<u64> {
    if of.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    (0..dimensions as usize).map(|d| unsafe { *of.add(d) as u64 }).collect()
}

/// Repeats a command whose turn it is, or notes why not.
///
/// # Safety
/// Arguments of a command by the specification, live during the call.
pub unsafe fn command(slot: usize, command: &Command<'_>) {
    let Some(wanted) = config::get().replay else { return };
    if !(command.live)(command.queue) {
        return;
    }
    OWN.set(0);
    // Not for long: the thread may be the runtime's own, which the repetitions wait for.
    let mut waited = 0;
    while BUSY.load(Ordering::Acquire) && waited < 1000 {
        threads::pause(1000);
        waited += 1;
    }
    QUEUES.with_borrow_mut(|queues| {
        let own = (slot, command.queue as usize);
        if !queues.contains(&own) && queues.len() < 64 {
            queues.push(own);
        }
    });
    let mut out = Replay { queue: objects::id(command.queue), ..Replay::default() };
    let mut kernel = None;
    match &command.what {
        What::Launch { kernel: handle, dimensions, sizes: [offset, global, local] } => {
            if !(1..=3).contains(dimensions)
                || global.is_null()
                || objects::id(*handle) == 0
                || kernels::filtered_out(*handle)
            {
                return;
            }
            out.kernel = objects::id(*handle);
            out.command = CommandKind::NdRange as u8;
            // SAFETY: the caller's promise.
            let offset = unsafe {
                out.global = numbers(*global, *dimensions);
                out.local = numbers(*local, *dimensions);
                numbers(*offset, *dimensions)
            };
            let geometry = out.global.iter().chain(&out.local).chain(&offset);
            let geometry = geometry.fold(word(SEED, u64::from(*dimensions)), |k, n| word(k, *n));
            let (of, key, scalars) = known::kernel(slot, *handle, geometry);
            (out.key, out.scalars) = (key, scalars);
            kernel = Some((*handle, of));
        }
        What::Transfer { kind, bytes, of } => {
            if of.iter().any(|handle| objects::id(*handle) == 0) || *bytes == 0 {
                return;
            }
            (out.command, out.bytes) = (*kind as u8, *bytes);
            out.key = word(word(SEED, *kind as u64), u64::from(size_class(*bytes)));
        }
    }
    let now = recording::now();
    let at = seconds(now);
    let is_kernel = kernel.is_some();
    let turn = SCHEDULE
        .with(|s| {
            s.get_or_insert_with(|| Schedule::new(wanted, at, now)).turn(out.key, is_kernel, at)
        })
        .unwrap_or(Turn::Pass);
    if turn == Turn::Pass || BUSY.swap(true, Ordering::AcqRel) {
        return;
    }
    out.before = objects::next_command();
    let mut refusal = Refusal::None;
    if user_events::outstanding() != Some(false) {
        refusal = Refusal::Now;
        out.refused = "a user event is not set: waiting for what runs might never end".to_owned();
    } else if let Err(why) = repeat(slot, command, kernel, turn, now, &mut out) {
        refusal = Refusal::Ever;
        out.refused = why;
        out.batches.clear();
    }
    let took = recording::now().wrapping_sub(now);
    let bursts = out.batches.iter().filter(|b| !b.restores_only).count() as u32;
    let news = SCHEDULE
        .with(|s| s.as_mut().is_none_or(|s| s.spent(out.key, seconds(took), bursts, refusal)))
        .unwrap_or(true);
    TAKEN.fetch_add(took, Ordering::Relaxed);
    OWN.set(took);
    BUSY.store(false, Ordering::Release);
    // A trial that showed that it is not worth a batch is no news.
    if !out.batches.is_empty() || (!out.refused.is_empty() && news) {
        recording::define(&out.into());
    }
}

/// Buffers that the kernel may write; `Err` says what it may write that cannot be saved.
fn written(slot: usize, handle: H, kernel: &Kernel) -> Result<Vec<(H, usize)>, String> {
    let count: u32 = ask(api::clGetKernelInfo.behind(slot), handle, cl::CL_KERNEL_NUM_ARGS)
        .ok_or("its number of arguments is not known")?;
    let mut out: Vec<(H, usize)> = Vec::new();
    for index in (0..count).chain([u32::MAX]) {
        let object = match kernel.arguments.get(&index) {
            None if index == u32::MAX => continue,
            None => return Err(format!("argument {index} was set before recording began")),
            Some(Argument::Shared) if index == u32::MAX => {
                return Err("it may use shared virtual memory (clSetKernelExecInfo)".to_owned());
            }
            Some(Argument::Shared) => {
                return Err(format!("argument {index} points to shared virtual memory"));
            }
            Some(Argument::Value(..)) => continue,
            Some(Argument::Object(object)) => *object,
        };
        let memory = known::memory(object);
        let flags = || ask::<u64>(api::clGetMemObjectInfo.behind(slot), object, cl::CL_MEM_FLAGS);
        match memory {
            Some(Memory::Sampler) => {}
            Some(Memory::Buffer | Memory::Image)
                if flags().is_some_and(|f| f & cl::CL_MEM_READ_ONLY != 0) => {}
            Some(Memory::Buffer) => {
                let size: usize =
                    ask(api::clGetMemObjectInfo.behind(slot), object, cl::CL_MEM_SIZE)
                        .ok_or("a buffer's size is not known")?;
                if !out.iter().any(|(known, _)| *known == object) {
                    out.push((object, size));
                }
            }
            Some(Memory::Image) => {
                return Err(format!("argument {index} is an image that it may write"));
            }
            Some(Memory::Pipe) => return Err(format!("argument {index} is a pipe")),
            None => {
                return Err(format!(
                    "argument {index} is an object of a kind that cannot be saved"
                ));
            }
        }
    }
    Ok(out)
}

/// Waits for all that this thread has enqueued, and for the command's wait list.
fn settle(slot: usize, calls: &Calls, command: &Command<'_>) -> Result<(), String> {
    let queues = QUEUES.with_borrow_mut(|queues| {
        queues.retain(|(_, queue)| (command.live)(*queue as H));
        queues.clone()
    });
    // SAFETY: the application's queues, which it has not given back, of the runtime that the calls
    // are of, and its wait list, live during its call.
    unsafe {
        if command.waits.0 > 0 && !command.waits.1.is_null() {
            said("waiting for its wait list", (calls.wait)(command.waits.0, command.waits.1))?;
        }
        for (_, queue) in queues.into_iter().filter(|(of, _)| *of == slot) {
            said("waiting for the queue", (calls.finish)(queue as H))?;
        }
    }
    Ok(())
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / recording::ticks_of(1_000_000_000) as f64
}

fn repeat(
    slot: usize,
    command: &Command<'_>,
    kernel: Option<(H, Kernel)>,
    turn: Turn,
    begun: u64,
    out: &mut Replay,
) -> Result<(), String> {
    let calls = Calls::of(slot).ok_or("the runtime lacks a function that is needed")?;
    let buffers = match &kernel {
        Some((handle, of)) => written(slot, *handle, of)?,
        None => Vec::new(),
    };
    settle(slot, &calls, command)?;
    let (mut stage, context) = Stage::new(slot, calls, command.queue, command.run)?;
    out.saved = stage.save(context, &buffers)?;
    let result = batches_of(&mut stage, turn, begun, out);
    // Whatever happened, the application's command finds the buffers as they were.
    let back = stage.put_back();
    result.and(back)
}

/// Tries the command, and repeats it where it is its turn.
fn batches_of(
    stage: &mut Stage<'_>,
    turn: Turn,
    begun: u64,
    out: &mut Replay,
) -> Result<(), String> {
    let Turn::Repeat { batches, milliseconds, quiet: rest, unsettled } = turn else {
        return Ok(());
    };
    let key = out.key;
    let tried = |alone: u64, restores| {
        SCHEDULE.with(|s| s.as_mut().map(|s| s.tried(key, alone as f64 * 1e-9, restores)));
    };
    let first = stage.first()?;
    let now = recording::now();
    let spent = seconds(now.wrapping_sub(begun));
    let afforded = SCHEDULE
        .with(|s| s.as_ref().is_none_or(|s| s.affords(4e-9 * first as f64, spent, seconds(now))))
        .unwrap_or(false);
    if !afforded {
        // It is so long that sensors follow the application's own.
        tried(first, false);
        return Ok(());
    }
    stage.compare()?;
    let (alone, restoring) = stage.alone()?;
    tried(if alone > 0 { alone } else { first }, stage.restores() || stage.settles());
    if batches == 0 {
        return Ok(());
    }
    if rest {
        out.quiet = quiet(QUIET_MS);
    }
    if unsettled {
        stage.unsettle();
    }
    let each = stage.per_restoration(alone, restoring);
    out.per_restoration = if stage.restores() { each as u32 } else { 0 };
    for _ in 0..batches {
        out.batches.push(stage.batch(milliseconds, 2, Some(each))?);
        if stage.restores() {
            out.batches.push(stage.batch(milliseconds, 2, None)?);
        }
    }
    out.stamped_ns = stage.stamped();
    Ok(())
}
