//! A queue of our own, and the memory that a kernel may write, saved before and restored after.
//! Refuses to know what is run in between.

use super::written::{Place, Writable};
use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
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
    image_to_buffer: Option<f::clEnqueueCopyImageToBuffer>,
    buffer_to_image: Option<f::clEnqueueCopyBufferToImage>,
    svm: Option<Svm>,
}

/// What shared virtual memory takes.
#[derive(Clone, Copy)]
struct Svm {
    alloc: f::clSVMAlloc,
    free: f::clSVMFree,
    copy: f::clEnqueueSVMMemcpy,
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
            image_to_buffer: api::clEnqueueCopyImageToBuffer.behind(slot),
            buffer_to_image: api::clEnqueueCopyBufferToImage.behind(slot),
            svm: Svm::of(slot),
        })
    }
}

impl Svm {
    fn of(slot: usize) -> Option<Self> {
        Some(Self {
            alloc: api::clSVMAlloc.behind(slot)?,
            free: api::clSVMFree.behind(slot)?,
            copy: api::clEnqueueSVMMemcpy.behind(slot)?,
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

/// Memory that a kernel may write, and where what it held is kept.
pub struct Saved {
    pub of: Writable,
    held: Place,
}

/// A buffer of our own, given back when it is dropped.
pub struct Room<'a> {
    calls: &'a Calls,
    pub buffer: H,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        // SAFETY: made by us, released once.
        unsafe { (self.calls.release_memory)(self.buffer) };
    }
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
                match (saved.held, self.calls.svm) {
                    (Place::Svm(copy), Some(svm)) => (svm.free)(self.context, copy as P),
                    (Place::Buffer(copy), _) => {
                        (self.calls.release_memory)(copy);
                    }
                    (Place::Svm(_), None) | (Place::Image(..), _) => {}
                }
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

    /// As [`room`](Self::room), given back when it is dropped.
    pub fn short_room(&self, bytes: usize) -> Result<Room<'_>, String> {
        Ok(Room { calls: &self.calls, buffer: self.room(bytes)? })
    }

    /// Room for what such memory holds.
    fn held(&self, of: Writable) -> Result<Place, String> {
        let Place::Svm(_) = of.place else { return Ok(Place::Buffer(self.room(of.bytes)?)) };
        let svm = self.calls.svm.ok_or("the runtime lacks functions of shared virtual memory")?;
        // SAFETY: a live context.
        let made = unsafe { (svm.alloc)(self.context, cl::CL_MEM_READ_WRITE, of.bytes, 0) };
        if made.is_null() {
            return Err(format!("making room for {} bytes of shared memory failed", of.bytes));
        }
        Ok(Place::Svm(made as usize))
    }

    /// Saves memory: how many bytes.
    pub fn save(&mut self, memory: &[Writable]) -> Result<u64, String> {
        let whole: u64 = memory.iter().map(|of| of.bytes as u64).sum();
        if whole > MOST_SAVED {
            return Err(format!("{whole} bytes that it may write are too many to save"));
        }
        for &of in memory {
            let held = self.held(of)?;
            self.saved.push(Saved { of, held });
            let what = match of.place {
                Place::Buffer(_) => "saving a buffer",
                Place::Image(..) => "saving an image",
                Place::Svm(_) => "saving shared virtual memory",
            };
            said(what, self.copy(of.place, held, of.bytes, None))?;
        }
        self.finish()?;
        Ok(whole)
    }

    /// Enqueues a copy of all of one place to another of so many bytes, with its event where
    /// wanted. Between an image and a buffer texels lie without padding.
    pub fn copy(&self, from: Place, to: Place, bytes: usize, event: Option<&mut H>) -> i32 {
        let Calls { copy, image_to_buffer, buffer_to_image, svm, .. } = self.calls;
        let (queue, origin, none, event) = (self.queue, [0usize; 3], null(), slot_of(event));
        let origin = origin.as_ptr();
        // SAFETY: live memory of that size, an image of such a region; the event's slot is borrowed
        // for this call, or NULL.
        unsafe {
            match (from, to) {
                (Place::Buffer(from), Place::Buffer(to)) => {
                    copy(queue, from, to, 0, 0, bytes, 0, none, event)
                }
                (Place::Image(from, region), Place::Buffer(to)) => {
                    let Some(copy) = image_to_buffer else { return cl::CL_INVALID_OPERATION };
                    copy(queue, from, to, origin, region.as_ptr(), 0, 0, none, event)
                }
                (Place::Buffer(from), Place::Image(to, region)) => {
                    let Some(copy) = buffer_to_image else { return cl::CL_INVALID_OPERATION };
                    copy(queue, from, to, 0, origin, region.as_ptr(), 0, none, event)
                }
                (Place::Svm(from), Place::Svm(to)) => {
                    let Some(svm) = svm else { return cl::CL_INVALID_OPERATION };
                    (svm.copy)(queue, 0, to as P, from as P, bytes, 0, none, event)
                }
                _ => cl::CL_INVALID_VALUE,
            }
        }
    }

    /// Reads a part of a place that is no image, and waits for it. The part fits into the words.
    pub fn read(&self, from: Place, offset: usize, bytes: usize, to: &mut [u64]) -> i32 {
        let bytes = bytes.min(size_of_val(to));
        let (queue, to) = (self.queue, to.as_mut_ptr().cast());
        // SAFETY: live memory with that part and room for it; a blocking call, so that nothing is
        // written after it.
        unsafe {
            match (from, self.calls.svm) {
                (Place::Buffer(from), _) => {
                    (self.calls.read)(queue, from, 1, offset, bytes, to, 0, null(), null_mut())
                }
                (Place::Svm(address), Some(svm)) => {
                    (svm.copy)(queue, 1, to, (address + offset) as P, bytes, 0, null(), null_mut())
                }
                (Place::Svm(_), None) | (Place::Image(..), _) => cl::CL_INVALID_OPERATION,
            }
        }
    }

    pub fn finish(&self) -> Result<(), String> {
        // SAFETY: a live queue.
        said("waiting for what was run beside the application", unsafe {
            (self.calls.finish)(self.queue)
        })
    }

    /// Puts all memory back, whatever was tried.
    pub fn put_back(&self) -> Result<(), String> {
        let restored = self.restore(|_| true, None);
        let finished = self.finish();
        said("restoring what it may have written", restored)?;
        finished
    }

    /// Enqueues the copies of some back, by their index; the last one gives its event, where
    /// wanted.
    pub fn restore(&self, which: impl Fn(usize) -> bool, mut event: Option<&mut H>) -> i32 {
        let last = (0..self.saved.len()).rev().find(|at| which(*at));
        for (at, saved) in self.saved.iter().enumerate().filter(|(at, _)| which(*at)) {
            let event = if Some(at) == last { event.take() } else { None };
            let code = self.copy(saved.held, saved.of.place, saved.of.bytes, event);
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
