//! Objects of a session: buffers, programs, kernels and events, each released when it is dropped.
//! Refuses to make any: a [`Session`](crate::Session) does.

use crate::api::{Api, Handle};
use crate::error::{ClError, checked};
use crate::memory::{Image, Sampler};
use clscope_trace::codes as cl;
use std::ffi::c_void;
use std::sync::Arc;

macro_rules! released {
    ($type:ty, $release:ident) => {
        impl Drop for $type {
            fn drop(&mut self) {
                // SAFETY: the handle is owned by this value alone.
                unsafe { (self.api.$release)(self.handle) };
            }
        }
    };
}
released!(Buffer, release_mem);
released!(Program, release_program);
released!(Kernel, release_kernel);
released!(Event, release_event);
released!(Image, release_mem);
released!(Sampler, release_sampler);

/// Device memory.
pub struct Buffer {
    pub(crate) api: Arc<Api>,
    pub(crate) handle: Handle,
    pub(crate) bytes: usize,
}

impl Buffer {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn holds(
        &self,
        call: &'static str,
        offset: usize,
        bytes: usize,
    ) -> Result<(), ClError> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        Err(ClError::Call {
            call,
            object: format!("bytes {offset} to {offset}+{bytes} of a buffer of {}", self.bytes),
            code: cl::CL_INVALID_VALUE,
        })
    }
}

/// A built program.
pub struct Program {
    pub(crate) api: Arc<Api>,
    pub(crate) handle: Handle,
}

impl Program {
    /// The device's binary, as [`Session::load`](crate::Session::load) takes it; nothing where the
    /// runtime keeps none.
    pub fn binary(&self) -> Option<Vec<u8>> {
        let mut size = 0usize;
        // SAFETY: the program has one device, so one size is written.
        let code = unsafe {
            (self.api.get_program_info)(
                self.handle,
                cl::CL_PROGRAM_BINARY_SIZES,
                size_of::<usize>(),
                (&raw mut size).cast(),
                std::ptr::null_mut(),
            )
        };
        if code != 0 || size == 0 {
            return None;
        }
        let mut binary = vec![0u8; size];
        let mut pointer = binary.as_mut_ptr();
        // SAFETY: one pointer to `size` bytes, as asked for one device.
        let code = unsafe {
            (self.api.get_program_info)(
                self.handle,
                cl::CL_PROGRAM_BINARIES,
                size_of::<*mut u8>(),
                (&raw mut pointer).cast(),
                std::ptr::null_mut(),
            )
        };
        (code == 0).then_some(binary)
    }
}

/// A kernel with its arguments.
pub struct Kernel {
    pub(crate) api: Arc<Api>,
    pub(crate) handle: Handle,
    pub(crate) name: String,
    pub(crate) largest_group: usize,
    pub(crate) private_bytes: Option<u64>,
    pub(crate) local_bytes: Option<u64>,
    pub(crate) required_group: Option<[usize; 3]>,
    pub(crate) group_multiple: Option<usize>,
}

impl Kernel {
    /// The most work-items that one of its groups may have on this device.
    pub fn largest_group(&self) -> usize {
        self.largest_group
    }

    /// Bytes of private memory per work-item as the runtime states them: more than 0 says that
    /// registers spilled.
    pub fn private_bytes(&self) -> Option<u64> {
        self.private_bytes
    }

    /// Bytes of local memory that a work-group takes, those of arguments that are set included.
    pub fn local_bytes(&self) -> Option<u64> {
        self.local_bytes
    }

    /// The work-group size that the kernel's source requires (`reqd_work_group_size`).
    pub fn required_group(&self) -> Option<[usize; 3]> {
        self.required_group
    }

    /// Work-items of a group that the device runs at once (preferred multiple of group sizes).
    pub fn group_multiple(&self) -> Option<usize> {
        self.group_multiple
    }

    /// Sets argument `index`.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn set(&self, index: u32, value: &Argument<'_>) -> Result<(), ClError> {
        let (size, pointer): (usize, *const c_void) = match value {
            Argument::Buffer(buffer) => (size_of::<Handle>(), (&raw const buffer.handle).cast()),
            Argument::Bytes(bytes) => (bytes.len(), bytes.as_ptr().cast()),
            Argument::Image(image) => (size_of::<Handle>(), (&raw const image.handle).cast()),
            Argument::Sampler(sampler) => (size_of::<Handle>(), (&raw const sampler.handle).cast()),
            Argument::Local(bytes) | Argument::Null(bytes) => (*bytes, std::ptr::null()),
        };
        // SAFETY: `pointer` holds `size` bytes for the time of the call, or is null for local
        // memory.
        let code = unsafe { (self.api.set_kernel_arg)(self.handle, index, size, pointer) };
        checked("clSetKernelArg", format_args!("argument {index} of {}", self.name), code)
    }
}

/// A kernel argument.
pub enum Argument<'a> {
    /// A buffer.
    Buffer(&'a Buffer),
    /// An image.
    Image(&'a Image),
    /// A sampler.
    Sampler(&'a Sampler),
    /// No memory object, in as many bytes as a handle has.
    Null(usize),
    /// A value, as the bytes the device takes.
    Bytes(&'a [u8]),
    /// Local memory, in bytes.
    Local(usize),
}

/// A command's event.
pub struct Event {
    pub(crate) api: Arc<Api>,
    pub(crate) handle: Handle,
}

impl Event {
    /// Nanoseconds from start to end in the device's clock; the command must have ended.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn nanoseconds(&self) -> Result<u64, ClError> {
        let end = self.stamp(cl::CL_PROFILING_COMMAND_END)?;
        Ok(end.saturating_sub(self.stamp(cl::CL_PROFILING_COMMAND_START)?))
    }

    /// QUEUED, SUBMIT, START and END in the device's clock; the command must have ended.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn stamps(&self) -> Result<[u64; 4], ClError> {
        Ok([
            self.stamp(cl::CL_PROFILING_COMMAND_QUEUED)?,
            self.stamp(cl::CL_PROFILING_COMMAND_SUBMIT)?,
            self.stamp(cl::CL_PROFILING_COMMAND_START)?,
            self.stamp(cl::CL_PROFILING_COMMAND_END)?,
        ])
    }

    fn stamp(&self, which: u32) -> Result<u64, ClError> {
        let mut value = 0u64;
        // SAFETY: a stamp is 8 bytes.
        let code = unsafe {
            (self.api.get_profiling)(
                self.handle,
                which,
                size_of::<u64>(),
                (&raw mut value).cast(),
                std::ptr::null_mut(),
            )
        };
        checked("clGetEventProfilingInfo", "a command", code)?;
        Ok(value)
    }
}
