//! The runtime's functions that captures call: to copy out of the application's memory into memory
//! of the recorder's own, and to read that. None of them launches anything, and no destination is
//! an object of the application's.

use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::abi::signatures as f;
use crate::facts::info as facts;
use crate::runtime::functions as api;
use crate::runtime::waiting;
use std::ffi::CStr;
use std::ptr::{null, null_mut};

/// The functions, of the runtime behind one way in.
#[derive(Clone, Copy)]
pub struct Calls {
    copy: f::clEnqueueCopyBuffer,
    read: f::clEnqueueReadBuffer,
    fill: Option<f::clEnqueueFillBuffer>,
    image: Option<f::clEnqueueCopyImageToBuffer>,
    svm: Option<Svm>,
    unified: Option<Unified>,
    flush: f::clFlush,
    event_info: f::clGetEventInfo,
    profiling: f::clGetEventProfilingInfo,
    release_event: f::clReleaseEvent,
    create_queue: f::clCreateCommandQueue,
    release_queue: f::clReleaseCommandQueue,
    create_buffer: f::clCreateBuffer,
    release_memory: f::clReleaseMemObject,
}

/// What shared virtual memory takes.
#[derive(Clone, Copy)]
struct Svm {
    alloc: f::clSVMAlloc,
    free: f::clSVMFree,
    copy: f::clEnqueueSVMMemcpy,
    fill: f::clEnqueueSVMMemFill,
}

/// What unified shared memory takes.
#[derive(Clone, Copy)]
struct Unified {
    alloc: f::clDeviceMemAllocINTEL,
    free: f::clMemFreeINTEL,
    copy: f::clEnqueueMemcpyINTEL,
}

/// Where bytes are copied from.
#[derive(Debug, Clone, Copy)]
pub enum Origin {
    /// A buffer, and where the bytes begin in it.
    Buffer(H, usize),
    /// An image's texels: width, height or number of lines, depth or number of layers.
    Image(H, [usize; 3]),
    /// An address of shared virtual memory.
    Svm(usize),
    /// An address of unified shared memory (cl_intel_unified_shared_memory).
    Unified(usize),
}

/// Memory of the recorder's own that a copy goes to, and where in it.
#[derive(Debug, Clone, Copy)]
pub enum Own {
    /// In the buffer whose handle has this value.
    Buffer(usize, usize),
    /// At an address of its shared virtual memory.
    Svm(usize),
    /// At an address of its unified shared memory.
    Unified(usize),
}

impl Own {
    /// So many bytes behind it.
    pub fn behind(self, bytes: usize) -> Self {
        match self {
            Self::Buffer(buffer, at) => Self::Buffer(buffer, at + bytes),
            Self::Svm(at) => Self::Svm(at + bytes),
            Self::Unified(at) => Self::Unified(at + bytes),
        }
    }
}

/// What has become of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It has not ended.
    Pending,
    /// It has.
    Complete,
    /// It ended with an error.
    Failed(i32),
}

impl Calls {
    /// Those behind a way in, with those of a device's extensions; `None` where the runtime lacks one.
    pub fn with_unified(slot: usize, device: H) -> Option<Self> {
        Some(Self { unified: Unified::find(slot, device), ..Self::find(slot)? })
    }

    /// Those behind a way in; `None` where the runtime lacks one.
    pub fn find(slot: usize) -> Option<Self> {
        Some(Self {
            copy: api::clEnqueueCopyBuffer.behind(slot)?,
            read: api::clEnqueueReadBuffer.behind(slot)?,
            fill: api::clEnqueueFillBuffer.behind(slot),
            image: api::clEnqueueCopyImageToBuffer.behind(slot),
            svm: Svm::find(slot),
            unified: None,
            flush: api::clFlush.behind(slot)?,
            event_info: api::clGetEventInfo.behind(slot)?,
            profiling: api::clGetEventProfilingInfo.behind(slot)?,
            release_event: api::clReleaseEvent.behind(slot)?,
            create_queue: api::clCreateCommandQueue.behind(slot)?,
            release_queue: api::clReleaseCommandQueue.behind(slot)?,
            create_buffer: api::clCreateBuffer.behind(slot)?,
            release_memory: api::clReleaseMemObject.behind(slot)?,
        })
    }

    /// Copies bytes, behind the events of a list; an image's texels lie without padding then. Gives
    /// the command's event.
    ///
    /// # Safety
    /// A live queue of the context of both; so many bytes on both sides; live events.
    pub unsafe fn copy(
        &self,
        queue: H,
        from: Origin,
        to: Own,
        bytes: usize,
        (count, list): (u32, *const H),
    ) -> Result<H, i32> {
        let mut event = H::NULL;
        // SAFETY: the caller's promise; the event's slot is borrowed for this call.
        let code = unsafe {
            match (from, to) {
                (Origin::Buffer(from, at), Own::Buffer(to, there)) => {
                    let to = H::from_word(to);
                    (self.copy)(queue, from, to, at, there, bytes, count, list, &mut event)
                }
                (Origin::Image(from, region), Own::Buffer(to, there)) => match self.image {
                    Some(copy) => {
                        let (origin, region) = ([0usize; 3], region.as_ptr());
                        let (at, to) = (origin.as_ptr(), H::from_word(to));
                        copy(queue, from, to, at, region, there, count, list, &mut event)
                    }
                    None => cl::CL_INVALID_OPERATION,
                },
                (Origin::Svm(from), Own::Svm(to)) => match self.svm {
                    Some(svm) => {
                        let (to, from) = (to as P, from as P);
                        (svm.copy)(queue, 0, to, from, bytes, count, list, &mut event)
                    }
                    None => cl::CL_INVALID_OPERATION,
                },
                (Origin::Unified(from), Own::Unified(to)) => match self.unified {
                    Some(of) => {
                        let (to, from, count) = (to as P, from as P, count as usize);
                        (of.copy)(queue, 0, to, from, bytes, count, list, &mut event)
                    }
                    None => cl::CL_INVALID_OPERATION,
                },
                _ => cl::CL_INVALID_VALUE,
            }
        };
        if code == 0 && !event.is_null() { Ok(event) } else { Err(code) }
    }

    /// Begins to read bytes of the recorder's own memory to the host. Gives the command's event.
    ///
    /// # Safety
    /// A live queue of its context, and `to` stays where it is until the command has ended.
    pub unsafe fn read(&self, queue: H, from: Own, to: &mut [u8]) -> Result<H, i32> {
        let (mut event, bytes, to) = (H::NULL, to.len(), to.as_mut_ptr().cast());
        // SAFETY: the caller's promise.
        let code = unsafe {
            match (from, self.svm) {
                (Own::Buffer(from, at), _) => {
                    let from = H::from_word(from);
                    (self.read)(queue, from, 0, at, bytes, to, 0, null(), &mut event)
                }
                (Own::Svm(from), Some(svm)) => {
                    (svm.copy)(queue, 0, to, from as P, bytes, 0, null(), &mut event)
                }
                (Own::Svm(_), None) => cl::CL_INVALID_OPERATION,
                (Own::Unified(from), _) => match self.unified {
                    Some(of) => (of.copy)(queue, 0, to, from as P, bytes, 0, null(), &mut event),
                    None => cl::CL_INVALID_OPERATION,
                },
            }
        };
        if code != 0 || event.is_null() {
            return Err(code);
        }
        // SAFETY: a live queue.
        unsafe { (self.flush)(queue) };
        Ok(event)
    }

    /// A buffer of the recorder's own.
    ///
    /// # Safety
    /// A live context.
    pub unsafe fn buffer(&self, context: H, bytes: usize) -> Result<H, i32> {
        let mut code = 0;
        let flags = cl::CL_MEM_READ_WRITE;
        // SAFETY: the caller's promise.
        let made = unsafe { (self.create_buffer)(context, flags, bytes, null_mut(), &mut code) };
        if made.is_null() { Err(code) } else { Ok(made) }
    }

    /// Shared virtual memory of the recorder's own.
    ///
    /// # Safety
    /// A live context.
    pub unsafe fn shared(&self, context: H, bytes: usize) -> Option<usize> {
        // SAFETY: the caller's promise.
        let made = unsafe { (self.svm?.alloc)(context, cl::CL_MEM_READ_WRITE, bytes, 0) };
        (!made.is_null()).then_some(made as usize)
    }

    /// Unified shared memory of the recorder's own, on a device.
    ///
    /// # Safety
    /// A live context and a device of it.
    pub unsafe fn unified(&self, context: H, device: H, bytes: usize) -> Option<usize> {
        let mut code = 0;
        // SAFETY: the caller's promise.
        let made =
            unsafe { (self.unified?.alloc)(context, device, null_mut(), bytes, 0, &mut code) };
        (code == 0 && !made.is_null()).then_some(made as usize)
    }

    /// Begins to write all of memory of the recorder's own, so that it really exists. Gives the
    /// command's event; `None` where the runtime has no such command.
    ///
    /// # Safety
    /// A live queue of its context, and so many bytes.
    pub unsafe fn touch(&self, queue: H, at: Own, bytes: usize) -> Result<Option<H>, i32> {
        let (mut event, zero) = (H::NULL, 0u32);
        let pattern: P = (&raw const zero).cast_mut().cast();
        // SAFETY: the caller's promise; the pattern is read during the call.
        let code = unsafe {
            match (at, self.fill, self.svm) {
                (Own::Buffer(buffer, at), Some(fill), _) => {
                    let buffer = H::from_word(buffer);
                    fill(queue, buffer, pattern, 4, at, bytes, 0, null(), &mut event)
                }
                (Own::Svm(address), _, Some(svm)) => {
                    (svm.fill)(queue, address as P, pattern, 4, bytes, 0, null(), &mut event)
                }
                _ => return Ok(None),
            }
        };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: as above.
        unsafe { (self.flush)(queue) };
        Ok((!event.is_null()).then_some(event))
    }

    /// A queue of the recorder's own.
    ///
    /// # Safety
    /// A live context and a device of it.
    pub unsafe fn queue(&self, context: H, device: H) -> Result<H, i32> {
        let mut code = 0;
        // SAFETY: the caller's promise.
        let made = unsafe { (self.create_queue)(context, device, 0, &mut code) };
        if made.is_null() { Err(code) } else { Ok(made) }
    }

    /// What has become of a command.
    ///
    /// # Safety
    /// A live event.
    pub unsafe fn fate(&self, event: H) -> Fate {
        // SAFETY: the caller's promise.
        match unsafe { waiting::status(self.event_info, event) } {
            Some(cl::CL_COMPLETE) => Fate::Complete,
            Some(status) if status > cl::CL_COMPLETE => Fate::Pending,
            Some(status) => Fate::Failed(status),
            None => Fate::Failed(cl::CL_INVALID_EVENT),
        }
    }

    /// When a complete command began and ended by the device's clock, in ns.
    ///
    /// # Safety
    /// A live event of a complete command.
    pub unsafe fn span(&self, event: H) -> Option<(u64, u64)> {
        let stamp = |what: u32| {
            let mut value = 0u64;
            let to: P = (&raw mut value).cast();
            // SAFETY: the caller's promise, and room for the answer.
            let code = unsafe { (self.profiling)(event, what, 8, to, null_mut()) };
            (code == 0).then_some(value)
        };
        let begin = stamp(cl::CL_PROFILING_COMMAND_START)?;
        let end = stamp(cl::CL_PROFILING_COMMAND_END)?;
        (begin > 0 && end >= begin).then_some((begin, end))
    }

    /// Gives back the event of a command of the recorder's own.
    ///
    /// # Safety
    /// The recorder's, given back once.
    pub unsafe fn release_event(&self, event: H) {
        // SAFETY: the caller's promise.
        unsafe { (self.release_event)(event) };
    }

    /// Gives back a queue of the recorder's own.
    ///
    /// # Safety
    /// As [`release_event`](Self::release_event).
    pub unsafe fn release_queue(&self, queue: H) {
        // SAFETY: the caller's promise.
        unsafe { (self.release_queue)(queue) };
    }

    /// Gives back memory of the recorder's own.
    ///
    /// # Safety
    /// As [`release_event`](Self::release_event); nothing uses shared virtual memory any more.
    pub unsafe fn release(&self, context: H, memory: Own) {
        // SAFETY: the caller's promise.
        unsafe {
            match memory {
                Own::Buffer(buffer, _) => {
                    (self.release_memory)(H::from_word(buffer));
                }
                Own::Svm(address) => {
                    if let Some(svm) = self.svm {
                        (svm.free)(context, address as P);
                    }
                }
                Own::Unified(address) => {
                    if let Some(of) = self.unified {
                        (of.free)(context, address as P);
                    }
                }
            }
        }
    }
}

impl Unified {
    fn find(slot: usize, device: H) -> Option<Self> {
        let platform =
            facts::handle(api::clGetDeviceInfo.behind(slot), device, facts::DEVICE_PLATFORM);
        let find = api::clGetExtensionFunctionAddressForPlatform.behind(slot)?;
        // SAFETY: the platform of a live device, and a C string.
        let found = |name: &CStr| unsafe { find(platform, name.as_ptr().cast_mut().cast()) };
        // SAFETY: what the runtime gives for a name has that function's type.
        unsafe {
            Some(Self {
                alloc: api::clDeviceMemAllocINTEL.at(found(c"clDeviceMemAllocINTEL"))?,
                free: api::clMemFreeINTEL.at(found(c"clMemFreeINTEL"))?,
                copy: api::clEnqueueMemcpyINTEL.at(found(c"clEnqueueMemcpyINTEL"))?,
            })
        }
    }
}

impl Svm {
    fn find(slot: usize) -> Option<Self> {
        Some(Self {
            alloc: api::clSVMAlloc.behind(slot)?,
            free: api::clSVMFree.behind(slot)?,
            copy: api::clEnqueueSVMMemcpy.behind(slot)?,
            fill: api::clEnqueueSVMMemFill.behind(slot)?,
        })
    }
}
