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

/// Memory that a kernel may write, and what it held.
pub struct Saved {
    pub of: Writable,
    held: Held,
}

/// Where what it held is kept.
enum Held {
    Buffer(H),
    Svm(usize),
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
                match (&saved.held, self.calls.svm) {
                    (Held::Buffer(copy), _) => {
                        (self.calls.release_memory)(*copy);
                    }
                    (Held::Svm(copy), Some(svm)) => (svm.free)(self.context, *copy as P),
                    (Held::Svm(_), None) => {}
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

    /// Room for what such memory holds.
    fn held(&self, of: Writable) -> Result<Held, String> {
        let Place::Svm(_) = of.place else { return Ok(Held::Buffer(self.room(of.bytes)?)) };
        let svm = self.calls.svm.ok_or("the runtime lacks functions of shared virtual memory")?;
        // SAFETY: a live context.
        let made = unsafe { (svm.alloc)(self.context, cl::CL_MEM_READ_WRITE, of.bytes, 0) };
        if made.is_null() {
            return Err(format!("making room for {} bytes of shared memory failed", of.bytes));
        }
        Ok(Held::Svm(made as usize))
    }

    /// Saves memory: how many bytes.
    pub fn save(&mut self, memory: &[Writable]) -> Result<u64, String> {
        let whole: u64 = memory.iter().map(|of| of.bytes as u64).sum();
        if whole > MOST_SAVED {
            return Err(format!("{whole} bytes that it may write are too many to save"));
        }
        for &of in memory {
            let saved = Saved { of, held: self.held(of)? };
            let code = self.copy_out(&saved);
            self.saved.push(saved);
            said(
                match of.place {
                    Place::Buffer(_) => "saving a buffer",
                    Place::Image(..) => "saving an image",
                    Place::Svm(_) => "saving shared virtual memory",
                },
                code,
            )?;
        }
        self.finish()?;
        Ok(whole)
    }

    /// Enqueues the copy of what memory holds.
    fn copy_out(&self, saved: &Saved) -> i32 {
        let bytes = saved.of.bytes;
        match (saved.of.place, &saved.held) {
            // SAFETY: live buffers of that size.
            (Place::Buffer(buffer), Held::Buffer(copy)) => unsafe {
                (self.calls.copy)(self.queue, buffer, *copy, 0, 0, bytes, 0, null(), null_mut())
            },
            (Place::Image(image, region), Held::Buffer(copy)) => {
                self.image_to_buffer(image, region, *copy)
            }
            (Place::Svm(address), Held::Svm(copy)) => self.copy_svm(*copy, address, bytes, None),
            _ => cl::CL_INVALID_VALUE,
        }
    }

    fn image_to_buffer(&self, image: H, region: [usize; 3], to: H) -> i32 {
        let Some(copy) = self.calls.image_to_buffer else { return cl::CL_INVALID_OPERATION };
        let (origin, none) = ([0usize; 3], null_mut());
        // SAFETY: a live image with such a region, and a buffer with room for its texels.
        unsafe { copy(self.queue, image, to, origin.as_ptr(), region.as_ptr(), 0, 0, null(), none) }
    }

    fn copy_svm(&self, to: usize, from: usize, bytes: usize, event: Option<&mut H>) -> i32 {
        let Some(svm) = self.calls.svm else { return cl::CL_INVALID_OPERATION };
        let (to, from) = (to as P, from as P);
        // SAFETY: two live allocations of that size; the event's slot is borrowed for this call, or
        // NULL.
        unsafe { (svm.copy)(self.queue, 0, to, from, bytes, 0, null(), slot_of(event)) }
    }

    /// A buffer that holds what memory holds now, and whether it is the caller's to give back: the
    /// memory itself where it is a buffer. `None` for what is no object.
    pub fn readable(&self, saved: &Saved) -> Result<Option<(H, bool)>, String> {
        match saved.of.place {
            Place::Buffer(buffer) => Ok(Some((buffer, false))),
            Place::Image(image, region) => {
                let room = self.room(saved.of.bytes)?;
                let code = self.image_to_buffer(image, region, room);
                if let Err(why) = said("copying an image", code) {
                    // SAFETY: made by us, released once.
                    unsafe { (self.calls.release_memory)(room) };
                    return Err(why);
                }
                Ok(Some((room, true)))
            }
            Place::Svm(_) => Ok(None),
        }
    }

    /// Reads a part of shared virtual memory, and waits for it.
    pub fn read_svm(&self, address: usize, to: &mut [u64], bytes: usize) -> i32 {
        let Some(svm) = self.calls.svm else { return cl::CL_INVALID_OPERATION };
        let (room, from) = (to.as_mut_ptr().cast(), address as P);
        let bytes = bytes.min(size_of_val(to));
        // SAFETY: a live allocation with that part and room for it; a blocking call.
        unsafe { (svm.copy)(self.queue, 1, room, from, bytes, 0, null(), null_mut()) }
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

    /// Enqueues the copies of some back, by their index; the last one gives its event, where wanted.
    pub fn restore(&self, which: impl Fn(usize) -> bool, mut event: Option<&mut H>) -> i32 {
        let last = (0..self.saved.len()).rev().find(|at| which(*at));
        for (at, saved) in self.saved.iter().enumerate().filter(|(at, _)| which(*at)) {
            let event = if Some(at) == last { event.take() } else { None };
            let code = self.copy_back(saved, event);
            if code != 0 {
                return code;
            }
        }
        0
    }

    /// Enqueues the copy of what was saved to where it was.
    fn copy_back(&self, saved: &Saved, event: Option<&mut H>) -> i32 {
        let bytes = saved.of.bytes;
        match (saved.of.place, &saved.held) {
            (Place::Buffer(buffer), Held::Buffer(copy)) => {
                let event = slot_of(event);
                // SAFETY: live buffers of that size; the event's slot is borrowed for this call, or
                // NULL.
                unsafe {
                    (self.calls.copy)(self.queue, *copy, buffer, 0, 0, bytes, 0, null(), event)
                }
            }
            (Place::Image(image, region), Held::Buffer(copy)) => {
                let Some(back) = self.calls.buffer_to_image else {
                    return cl::CL_INVALID_OPERATION;
                };
                let (origin, event) = ([0usize; 3], slot_of(event));
                // SAFETY: a live image with such a region, and a buffer that holds its texels; the
                // event's slot as above.
                unsafe {
                    back(
                        self.queue,
                        *copy,
                        image,
                        0,
                        origin.as_ptr(),
                        region.as_ptr(),
                        0,
                        null(),
                        event,
                    )
                }
            }
            (Place::Svm(address), Held::Svm(copy)) => self.copy_svm(address, *copy, bytes, event),
            _ => cl::CL_INVALID_VALUE,
        }
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
