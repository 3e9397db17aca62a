//! A queue of our own, and the buffers that a kernel may write, saved before and restored after.
//! Refuses to know what is run in between.

use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::abi::error::ErrorCode;
use crate::abi::signatures as f;
use crate::facts::info;
use crate::runtime::functions as api;
use std::ptr::{null, null_mut};

/// The functions that this takes.
#[derive(Clone, Copy)]
pub struct Calls {
    pub copy: f::clEnqueueCopyBuffer,
    pub read: f::clEnqueueReadBuffer,
    pub finish: f::clFinish,
    pub flush: f::clFlush,
    pub wait: f::clWaitForEvents,
    pub release_event: f::clReleaseEvent,
    release_queue: f::clReleaseCommandQueue,
    pub release_memory: f::clReleaseMemObject,
    create_queue: f::clCreateCommandQueue,
    pub create_buffer: f::clCreateBuffer,
    profiling: f::clGetEventProfilingInfo,
}

impl Calls {
    pub fn of(slot: usize) -> Option<Self> {
        Some(Self {
            copy: api::clEnqueueCopyBuffer.behind(slot)?,
            read: api::clEnqueueReadBuffer.behind(slot)?,
            finish: api::clFinish.behind(slot)?,
            flush: api::clFlush.behind(slot)?,
            wait: api::clWaitForEvents.behind(slot)?,
            release_event: api::clReleaseEvent.behind(slot)?,
            release_queue: api::clReleaseCommandQueue.behind(slot)?,
            release_memory: api::clReleaseMemObject.behind(slot)?,
            create_queue: api::clCreateCommandQueue.behind(slot)?,
            create_buffer: api::clCreateBuffer.behind(slot)?,
            profiling: api::clGetEventProfilingInfo.behind(slot)?,
        })
    }
}

/// Where a runtime writes an event that is wanted; NULL for one that is not.
pub fn slot_of(event: Option<&mut H>) -> *mut H {
    event.map_or(null_mut(), std::ptr::from_mut)
}

/// The outcome of a call as a sentence.
pub fn said(what: &str, code: i32) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{what} failed with {}", ErrorCode(code))) }
}

/// A buffer that a kernel may write.
pub struct Saved {
    pub buffer: H,
    copy: H,
    pub bytes: usize,
}

/// What exists while something is run beside the application's command.
pub struct Aside {
    pub calls: Calls,
    pub queue: H,
    pub context: H,
    pub device: H,
    pub saved: Vec<Saved>,
}

/// Bytes that are saved at most.
const MOST_SAVED: u64 = 8 << 30;

impl Drop for Aside {
    fn drop(&mut self) {
        // SAFETY: made by us, released once; nothing is in flight behind the last clFinish.
        unsafe {
            (self.calls.finish)(self.queue);
            for saved in &self.saved {
                (self.calls.release_memory)(saved.copy);
            }
            (self.calls.release_queue)(self.queue);
        }
    }
}

impl Aside {
    /// A queue beside the application's, of its context and device.
    pub fn new(slot: usize, calls: Calls, theirs: H) -> Result<Self, String> {
        let about = api::clGetCommandQueueInfo.behind(slot);
        let context = info::handle(about, theirs, info::QUEUE_CONTEXT);
        let device = info::handle(about, theirs, info::QUEUE_DEVICE);
        if context.is_null() || device.is_null() {
            return Err("the queue's context or device is not known".to_owned());
        }
        let mut code = 0;
        // SAFETY: a live context and device of it.
        let mut queue = unsafe {
            (calls.create_queue)(context, device, cl::CL_QUEUE_PROFILING_ENABLE, &mut code)
        };
        if code != 0 {
            // SAFETY: as above.
            queue = unsafe { (calls.create_queue)(context, device, 0, &mut code) };
        }
        said("making a queue", code)?;
        Ok(Self { calls, queue, context, device, saved: Vec::new() })
    }

    /// A buffer of our own.
    pub fn room(&self, bytes: usize) -> Result<H, String> {
        let mut code = 0;
        // SAFETY: a live context.
        let made = unsafe {
            (self.calls.create_buffer)(
                self.context,
                cl::CL_MEM_READ_WRITE,
                bytes,
                null_mut(),
                &mut code,
            )
        };
        said(&format!("making room for {bytes} bytes"), code)?;
        Ok(made)
    }

    /// Saves buffers: how many bytes.
    pub fn save(&mut self, buffers: &[(H, usize)]) -> Result<u64, String> {
        let whole: u64 = buffers.iter().map(|b| b.1 as u64).sum();
        if whole > MOST_SAVED {
            return Err(format!("{whole} bytes that it may write are too many to save"));
        }
        for &(buffer, bytes) in buffers {
            let copy = self.room(bytes)?;
            self.saved.push(Saved { buffer, copy, bytes });
            // SAFETY: live buffers of that size.
            said("saving a buffer", unsafe {
                (self.calls.copy)(self.queue, buffer, copy, 0, 0, bytes, 0, null(), null_mut())
            })?;
        }
        self.finish()?;
        Ok(whole)
    }

    pub fn finish(&self) -> Result<(), String> {
        // SAFETY: a live queue.
        said("waiting for what was run beside the application", unsafe {
            (self.calls.finish)(self.queue)
        })
    }

    /// Puts every buffer back, whatever was tried.
    pub fn put_back(&self) -> Result<(), String> {
        let restored = self.restore(|_| true, None);
        let finished = self.finish();
        said("restoring the buffers", restored)?;
        finished
    }

    /// Enqueues the copies of some back, by their index; the last one gives its event, where wanted.
    pub fn restore(&self, which: impl Fn(usize) -> bool, event: Option<&mut H>) -> i32 {
        let event = slot_of(event);
        let last = (0..self.saved.len()).rev().find(|at| which(*at));
        for (at, s) in self.saved.iter().enumerate().filter(|(at, _)| which(*at)) {
            let event = if Some(at) == last { event } else { null_mut() };
            // SAFETY: live buffers of that size; the event's slot is borrowed for this call, or NULL.
            let code = unsafe {
                (self.calls.copy)(self.queue, s.copy, s.buffer, 0, 0, s.bytes, 0, null(), event)
            };
            if code != 0 {
                return code;
            }
        }
        0
    }

    /// Device time of a complete command, in ns.
    pub fn length(&self, event: H) -> Option<u64> {
        let stamp = |what: u32| {
            let mut value = 0u64;
            // SAFETY: a complete event and room for the answer.
            let code = unsafe {
                (self.calls.profiling)(event, what, 8, (&raw mut value).cast(), null_mut())
            };
            (code == 0).then_some(value)
        };
        stamp(cl::CL_PROFILING_COMMAND_END)?.checked_sub(stamp(cl::CL_PROFILING_COMMAND_START)?)
    }
}
