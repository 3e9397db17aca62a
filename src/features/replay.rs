//! Owns `CLSCOPE_REPLAY`: the first launch of each kernel (by program and name) with each global
//! size is repeated before the application's own, in batches long enough for a slow sensor, with
//! the buffers that it may write saved before and restored after, so that the application's launch
//! finds everything as if nothing had run. Refuses launches of which it cannot know what they
//! write, with the reason in the trace; refuses to read sensors.
//!
//! Between launches buffers are restored only where that matters: a launch that leaves what it may
//! write as the launch before left it (two are tried, and what they leave is compared) finds the
//! same every time. Others each follow a restoration, and batches of restorations alone measure
//! what that took.
//!
//! Everything runs on a queue of our own, made for one launch and released after it. The
//! application's queue is waited for before, unless a user event is outstanding: that wait might
//! never end.

use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::abi::signatures as f;
use crate::facts::objects;
use crate::facts::{info, kernels, user_events};
use crate::os::fork_safe::ForkSafe;
use crate::recording;
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::defs::{Replay, ReplayBatch};
use clscope_trace::values::Replay as Wanted;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ptr::{null, null_mut};

/// What a handle is that may be a kernel's argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Buffer,
    Image,
    Pipe,
    Sampler,
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy)]
enum Argument {
    Value,
    Object(H),
    Shared,
}

// SAFETY: handles are never dereferenced.
unsafe impl Send for Argument {}

#[derive(Default)]
struct Known {
    memory: HashMap<usize, Memory>,
    arguments: HashMap<usize, BTreeMap<u32, Argument>>,
    /// Program, name and global size of what was repeated, or could not be.
    done: HashSet<(u32, String, Vec<u64>)>,
}

static KNOWN: ForkSafe<Known> = ForkSafe::new();

/// The default where the lock cannot be had: a launch of which nothing is known is not repeated.
fn known<R: Default>(run: impl FnOnce(&mut Known) -> R) -> R {
    KNOWN.with(run).unwrap_or_default()
}

/// A memory object or sampler was made.
pub fn made(handle: H, memory: Memory) {
    if !handle.is_null() {
        known(|k| k.memory.insert(handle as usize, memory));
    }
}

/// A kernel was made: its handle may have been another's.
pub fn forget(kernel: H) {
    known(|k| k.arguments.remove(&(kernel as usize)));
}

/// An argument was set, or refused with an error code.
///
/// # Safety
/// Without an error `value` is NULL or has `size` readable bytes.
pub unsafe fn argument(kernel: H, index: u32, size: usize, value: P, code: i32) {
    if code != 0 {
        return;
    }
    let mut argument = Argument::Value;
    if size == size_of::<H>() && !value.is_null() {
        // SAFETY: the caller's promise.
        let word = unsafe { value.cast::<H>().read_unaligned() };
        if objects::id(word) != 0 {
            argument = Argument::Object(word);
        }
    }
    known(|k| k.arguments.entry(kernel as usize).or_default().insert(index, argument));
}

/// An argument was set, or announced, that points into memory which several sides share.
pub fn shared(kernel: H, index: u32, code: i32) {
    if code == 0 {
        known(|k| k.arguments.entry(kernel as usize).or_default().insert(index, Argument::Shared));
    }
}

/// A launch as the application wrote it.
pub struct Launch {
    pub queue: H,
    pub kernel: H,
    pub dimensions: u32,
    pub offset: *const usize,
    pub global: *const usize,
    pub local: *const usize,
    pub waits: (u32, *const H),
}

/// Repeats a launch that was not seen before, or notes why not.
///
/// # Safety
/// Arguments of a launch by the specification, live during the call.
pub unsafe fn launch(slot: usize, launch: &Launch) {
    let Some(wanted) = config::get().replay else { return };
    if !(1..=3).contains(&launch.dimensions)
        || launch.global.is_null()
        || kernels::filtered_out(launch.kernel)
    {
        return;
    }
    // SAFETY: an array of `dimensions` sizes, by the caller's promise.
    let global: Vec<u64> =
        (0..launch.dimensions as usize).map(|d| unsafe { *launch.global.add(d) as u64 }).collect();
    let kernel = objects::id(launch.kernel);
    // Not by the object: some applications make a new one for each launch.
    let info = api::clGetKernelInfo.behind(slot);
    let name = info::text(info, launch.kernel, cl::CL_KERNEL_FUNCTION_NAME);
    let program = info::number(info, launch.kernel, cl::CL_KERNEL_PROGRAM).unwrap_or(0);
    if !known(|k| k.done.insert((objects::id(program as H), name, global.clone()))) {
        return;
    }
    let mut out = Replay { kernel, queue: objects::id(launch.queue), global, ..Replay::default() };
    if let Err(why) = repeat(slot, launch, wanted, &mut out) {
        out.refused = why;
        out.batches.clear();
    }
    recording::define(&out.into());
}

/// A fixed-size answer of an info function.
fn ask<T: Plain>(info: Option<info::Info>, object: H, what: u32) -> Option<T> {
    let mut value = T::default();
    // SAFETY: a live object and room for the answer, of which every value is valid.
    let code = unsafe { info?(object, what, size_of::<T>(), (&raw mut value).cast(), null_mut()) };
    (code == 0).then_some(value)
}

/// Numbers and handles: what is written into them is a value, whatever it is.
trait Plain: Copy + Default {}
impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for usize {}

/// The functions that a replay calls.
#[derive(Clone, Copy)]
struct Calls {
    copy: f::clEnqueueCopyBuffer,
    read: f::clEnqueueReadBuffer,
    launch: f::clEnqueueNDRangeKernel,
    finish: f::clFinish,
    flush: f::clFlush,
    wait: f::clWaitForEvents,
    release_event: f::clReleaseEvent,
    release_queue: f::clReleaseCommandQueue,
    release_memory: f::clReleaseMemObject,
    create_queue: f::clCreateCommandQueue,
    create_buffer: f::clCreateBuffer,
}

impl Calls {
    fn of(slot: usize) -> Option<Self> {
        Some(Self {
            copy: api::clEnqueueCopyBuffer.behind(slot)?,
            read: api::clEnqueueReadBuffer.behind(slot)?,
            launch: api::clEnqueueNDRangeKernel.behind(slot)?,
            finish: api::clFinish.behind(slot)?,
            flush: api::clFlush.behind(slot)?,
            wait: api::clWaitForEvents.behind(slot)?,
            release_event: api::clReleaseEvent.behind(slot)?,
            release_queue: api::clReleaseCommandQueue.behind(slot)?,
            release_memory: api::clReleaseMemObject.behind(slot)?,
            create_queue: api::clCreateCommandQueue.behind(slot)?,
            create_buffer: api::clCreateBuffer.behind(slot)?,
        })
    }
}

/// Buffers that the kernel may write; `Err` names what it may write that cannot be saved.
fn written(slot: usize, launch: &Launch) -> Result<Vec<(H, usize)>, String> {
    let arguments =
        known(|k| k.arguments.get(&(launch.kernel as usize)).cloned().unwrap_or_default());
    let count: u32 = ask(api::clGetKernelInfo.behind(slot), launch.kernel, cl::CL_KERNEL_NUM_ARGS)
        .ok_or("its number of arguments is not known")?;
    let mut out: Vec<(H, usize)> = Vec::new();
    for index in (0..count).chain([u32::MAX]) {
        let object = match arguments.get(&index) {
            None if index == u32::MAX => continue,
            None => {
                return Err(format!(
                    "argument {index} was set before recording began, or on the kernel it was cloned from"
                ));
            }
            Some(Argument::Shared) if index == u32::MAX => {
                return Err("it may use shared virtual memory (clSetKernelExecInfo)".to_owned());
            }
            Some(Argument::Shared) => {
                return Err(format!("argument {index} points to shared virtual memory"));
            }
            Some(Argument::Value) => continue,
            Some(Argument::Object(object)) => *object,
        };
        let memory = known(|k| k.memory.get(&(object as usize)).copied());
        let flags = || ask::<u64>(api::clGetMemObjectInfo.behind(slot), object, cl::CL_MEM_FLAGS);
        match memory {
            Some(Memory::Sampler) => {}
            Some(Memory::Buffer) if flags().is_some_and(|f| f & cl::CL_MEM_READ_ONLY != 0) => {}
            Some(Memory::Image) if flags().is_some_and(|f| f & cl::CL_MEM_READ_ONLY != 0) => {}
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

/// What exists for the length of one replay.
struct Stage {
    calls: Calls,
    queue: H,
    /// Original, copy, bytes.
    saved: Vec<(H, H, usize)>,
    /// Whether each launch needs the buffers restored.
    restores: bool,
}

/// Bytes read back at a time, and in all at most, to compare what two launches left.
const PIECE: usize = 4 << 20;
const MOST_COMPARED: u64 = 4 << 30;

impl Drop for Stage {
    fn drop(&mut self) {
        // SAFETY: made by us, released once; nothing is in flight behind the last clFinish.
        unsafe {
            (self.calls.finish)(self.queue);
            for (_, copy, _) in &self.saved {
                (self.calls.release_memory)(*copy);
            }
            (self.calls.release_queue)(self.queue);
        }
    }
}

fn repeat(slot: usize, launch: &Launch, wanted: Wanted, out: &mut Replay) -> Result<(), String> {
    let calls = Calls::of(slot).ok_or("the runtime lacks a function that is needed")?;
    if user_events::outstanding() != Some(false) {
        return Err("a user event is not set: waiting for what runs might never end".to_owned());
    }
    let buffers = written(slot, launch)?;
    let said = |what: &str, code: i32| {
        if code == 0 { Ok(()) } else { Err(format!("{what} failed with error {code}")) }
    };
    // SAFETY: the application's queue and wait list, live during its call.
    unsafe {
        if launch.waits.0 > 0 && !launch.waits.1.is_null() {
            said(
                "waiting for the launch's wait list",
                (calls.wait)(launch.waits.0, launch.waits.1),
            )?;
        }
        said("waiting for the queue", (calls.finish)(launch.queue))?;
    }
    let context =
        ask::<usize>(api::clGetCommandQueueInfo.behind(slot), launch.queue, cl::CL_QUEUE_CONTEXT)
            .ok_or("the queue's context is not known")? as H;
    let device =
        ask::<usize>(api::clGetCommandQueueInfo.behind(slot), launch.queue, cl::CL_QUEUE_DEVICE)
            .ok_or("the queue's device is not known")? as H;
    let mut code = 0;
    // SAFETY: a live context and device of it.
    let queue = unsafe { (calls.create_queue)(context, device, 0, &mut code) };
    said("making a queue", code)?;
    let mut stage = Stage { calls, queue, saved: Vec::new(), restores: true };
    for (buffer, size) in buffers {
        // SAFETY: a live context.
        let copy = unsafe {
            (calls.create_buffer)(context, cl::CL_MEM_READ_WRITE, size, null_mut(), &mut code)
        };
        said(&format!("making room for a copy of {size} bytes"), code)?;
        stage.saved.push((buffer, copy, size));
        // SAFETY: live buffers of that size.
        said("saving a buffer", unsafe {
            (calls.copy)(queue, buffer, copy, 0, 0, size, 0, null(), null_mut())
        })?;
        out.saved += size as u64;
    }
    let result = stage.batches(launch, wanted, out);
    // Whatever happened, the application's launch finds the buffers as they were.
    let restored = stage.restore(null_mut());
    // SAFETY: a live queue.
    let finished = unsafe { (calls.finish)(queue) };
    result?;
    said("restoring the buffers", if restored == 0 { finished } else { restored })
}

impl Stage {
    /// Enqueues the copies back; the last one gives its event.
    fn restore(&self, event: *mut H) -> i32 {
        let mut code = 0;
        for (i, (buffer, copy, size)) in self.saved.iter().enumerate() {
            let event = if i + 1 == self.saved.len() { event } else { null_mut() };
            // SAFETY: live buffers of that size.
            code = unsafe {
                (self.calls.copy)(self.queue, *copy, *buffer, 0, 0, *size, 0, null(), event)
            };
            if code != 0 {
                break;
            }
        }
        code
    }

    /// What the buffers hold, in a number: equal contents give equal numbers, others hardly ever.
    /// `None` where that cannot be told.
    fn contents(&self) -> Option<u64> {
        if self.saved.iter().map(|s| s.2 as u64).sum::<u64>() > MOST_COMPARED {
            return None;
        }
        let mut words: Vec<u64> = Vec::new();
        words.try_reserve_exact(PIECE / 8).ok()?;
        words.resize(PIECE / 8, 0);
        let mut sum = 0u64;
        for (buffer, _, size) in &self.saved {
            let mut offset = 0;
            while offset < *size {
                let length = PIECE.min(size - offset);
                // What a last, shorter piece leaves of the one before is part of neither launch's
                // alone: zeros.
                if let Some(last) = words.get_mut(length / 8) {
                    *last = 0;
                }
                // SAFETY: a live buffer of that size and room for a piece; a blocking call, so that
                // nothing is written after it.
                let code = unsafe {
                    (self.calls.read)(
                        self.queue,
                        *buffer,
                        1,
                        offset,
                        length,
                        words.as_mut_ptr().cast(),
                        0,
                        null(),
                        null_mut(),
                    )
                };
                if code != 0 {
                    return None;
                }
                for word in words.iter().take(length.div_ceil(8)) {
                    sum = (sum.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
                }
                offset += length;
            }
        }
        Some(sum)
    }

    /// Launches twice without a restoration between and returns whether the second left everything
    /// as the first had.
    fn repeats_itself(&self, launch: &Launch) -> Result<bool, i32> {
        let mut left = [None; 2];
        for slot in &mut left {
            let finished = match self.bare(launch, null_mut()) {
                // SAFETY: a live queue.
                0 => unsafe { (self.calls.finish)(self.queue) },
                code => code,
            };
            if finished != 0 {
                return Err(finished);
            }
            *slot = self.contents();
        }
        Ok(left[0].is_some() && left[0] == left[1])
    }

    fn once(&self, launch: &Launch, restores_only: bool, event: *mut H) -> i32 {
        if restores_only {
            return self.restore(event);
        }
        match if self.restores { self.restore(null_mut()) } else { 0 } {
            0 => self.bare(launch, event),
            code => code,
        }
    }

    fn bare(&self, launch: &Launch, event: *mut H) -> i32 {
        // SAFETY: the application's own arguments, live during its call, on a queue of its context
        // and device.
        unsafe {
            (self.calls.launch)(
                self.queue,
                launch.kernel,
                launch.dimensions,
                launch.offset,
                launch.global,
                launch.local,
                0,
                null(),
                event,
            )
        }
    }

    fn batches(&mut self, launch: &Launch, wanted: Wanted, out: &mut Replay) -> Result<(), String> {
        // These warm up, too: compilers, caches, clocks.
        let steady = self
            .repeats_itself(launch)
            .map_err(|code| format!("the repeated launch failed with error {code}"))?;
        self.restores = !self.saved.is_empty() && !steady;
        for _ in 0..wanted.batches {
            out.batches.push(self.batch(launch, wanted, false)?);
            if self.restores {
                out.batches.push(self.batch(launch, wanted, true)?);
            }
        }
        Ok(())
    }

    /// Enqueues until the time is over, two stretches of a few launches in flight, so that the
    /// device never waits for us.
    fn batch(
        &self,
        launch: &Launch,
        wanted: Wanted,
        restores_only: bool,
    ) -> Result<ReplayBatch, String> {
        let begin = recording::now();
        let until = begin + recording::ticks_of(wanted.milliseconds * 1_000_000);
        // Enqueued, known complete, and enqueued before each mark.
        let (mut count, mut complete) = (0u64, 0u64);
        let mut stretches: [(H, u64); 2] = [(null_mut(), 0); 2];
        let mut failed;
        let mut turn = false;
        loop {
            let [even, odd] = &mut stretches;
            let (mark, behind) = if turn { odd } else { even };
            turn = !turn;
            failed = self.await_mark(mark);
            complete += std::mem::take(behind);
            let now = recording::now();
            if failed != 0 || now >= until {
                break;
            }
            // As many as fill some milliseconds, by what they took so far.
            let stretch = (now - begin)
                .checked_div(complete)
                .map_or(1, |each| (recording::ticks_of(5_000_000) / each.max(1)).clamp(1, 1000));
            for i in 0..stretch {
                let event = if i + 1 == stretch { &raw mut *mark } else { null_mut() };
                failed = self.once(launch, restores_only, event);
                if failed != 0 {
                    break;
                }
                count += 1;
                *behind += 1;
            }
            // SAFETY: a live queue.
            unsafe { (self.calls.flush)(self.queue) };
        }
        // SAFETY: a live queue.
        let finished = unsafe { (self.calls.finish)(self.queue) };
        let end = recording::now();
        for (mark, _) in &mut stretches {
            self.await_mark(mark);
        }
        match if failed != 0 { failed } else { finished } {
            0 => Ok(ReplayBatch { begin, end, count, restores_only }),
            code => Err(format!("a repeated launch failed with error {code}")),
        }
    }

    fn await_mark(&self, mark: &mut H) -> i32 {
        if mark.is_null() {
            return 0;
        }
        // SAFETY: an event of ours, released once.
        unsafe {
            let code = (self.calls.wait)(1, mark);
            (self.calls.release_event)(*mark);
            *mark = null_mut();
            code
        }
    }
}
