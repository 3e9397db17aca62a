//! OpenCL objects with owners: opened at run time, released when dropped, every failure an error
//! that names the call, its code and its object. [`survey`] examines loaders and drivers that may
//! not work. Refuses to measure or to judge, and never links an OpenCL library.

mod api;
mod device;
pub mod survey;

pub use device::{Device, DeviceFacts, DeviceKind, list};

use api::{Api, Handle, Status};
use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;

/// What went wrong in OpenCL.
#[derive(Debug, thiserror::Error)]
pub enum ClError {
    /// No OpenCL library could be opened.
    #[error(
        "cannot open OpenCL ({tried}): {why}; install an OpenCL loader such as ocl-icd-libopencl1"
    )]
    NoLibrary {
        /// The names tried.
        tried: String,
        /// The system's words for the last of them.
        why: String,
    },
    /// A call returned an error code.
    #[error("{call} on {object} failed: {}", code_text(*code))]
    Call {
        /// The OpenCL function.
        call: &'static str,
        /// What it was called for.
        object: String,
        /// The code it returned.
        code: i32,
    },
    /// A program did not build.
    #[error("building {program} failed: {}", code_text(*code))]
    Build {
        /// The program's name.
        program: String,
        /// The code that the build returned.
        code: i32,
        /// The compiler's words.
        log: String,
    },
}

impl ClError {
    /// Whether this device lacks the memory or registers for what was asked, as opposed to being
    /// broken.
    #[must_use]
    pub fn is_lack_of_resources(&self) -> bool {
        // MEM_OBJECT_ALLOCATION_FAILURE, OUT_OF_RESOURCES, OUT_OF_HOST_MEMORY, INVALID_BUFFER_SIZE,
        // INVALID_WORK_GROUP_SIZE
        matches!(self, ClError::Call { code: -4 | -5 | -6 | -61 | -54, .. })
    }
}

/// The name of an error code, and its number.
fn code_text(code: i32) -> String {
    let name = match code {
        -1 => "CL_DEVICE_NOT_FOUND",
        -2 => "CL_DEVICE_NOT_AVAILABLE",
        -3 => "CL_COMPILER_NOT_AVAILABLE",
        -4 => "CL_MEM_OBJECT_ALLOCATION_FAILURE",
        -5 => "CL_OUT_OF_RESOURCES",
        -6 => "CL_OUT_OF_HOST_MEMORY",
        -7 => "CL_PROFILING_INFO_NOT_AVAILABLE",
        -11 => "CL_BUILD_PROGRAM_FAILURE",
        -30 => "CL_INVALID_VALUE",
        -42 => "CL_INVALID_BINARY",
        -43 => "CL_INVALID_BUILD_OPTIONS",
        -46 => "CL_INVALID_KERNEL_NAME",
        -48 => "CL_INVALID_KERNEL",
        -49 => "CL_INVALID_ARG_INDEX",
        -51 => "CL_INVALID_ARG_SIZE",
        -52 => "CL_INVALID_KERNEL_ARGS",
        -54 => "CL_INVALID_WORK_GROUP_SIZE",
        -55 => "CL_INVALID_WORK_ITEM_SIZE",
        -61 => "CL_INVALID_BUFFER_SIZE",
        -63 => "CL_INVALID_GLOBAL_WORK_SIZE",
        -1001 => "CL_PLATFORM_NOT_FOUND_KHR",
        _ => return format!("OpenCL error {code}"),
    };
    format!("{name} ({code})")
}

fn checked(call: &'static str, object: impl fmt::Display, code: Status) -> Result<(), ClError> {
    if code == 0 { Ok(()) } else { Err(ClError::Call { call, object: object.to_string(), code }) }
}

/// Calls an info query twice: for the size, then for the bytes.
fn info(
    call: &'static str,
    what: &str,
    mut query: impl FnMut(usize, *mut c_void, *mut usize) -> Status,
) -> Result<Vec<u8>, ClError> {
    let mut size = 0usize;
    checked(call, what, query(0, std::ptr::null_mut(), &mut size))?;
    let mut bytes = vec![0u8; size];
    if size > 0 {
        checked(call, what, query(size, bytes.as_mut_ptr().cast(), std::ptr::null_mut()))?;
    }
    Ok(bytes)
}

fn text(mut bytes: Vec<u8>) -> String {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

/// The OpenCL library of this process.
#[derive(Clone)]
pub struct OpenCl(Arc<Api>);

impl OpenCl {
    /// Opens OpenCL: `path`, or else the loader of the system.
    ///
    /// # Errors
    /// [`ClError::NoLibrary`] if nothing can be opened or entry points are missing.
    pub fn open(path: Option<&str>) -> Result<OpenCl, ClError> {
        let names: Vec<&str> =
            path.map_or_else(|| vec!["libOpenCL.so.1", "libOpenCL.so"], |p| vec![p]);
        let mut why = String::new();
        for name in &names {
            match Api::open(name) {
                Ok(api) => return Ok(OpenCl(Arc::new(api))),
                Err(error) => why = error.to_string(),
            }
        }
        Err(ClError::NoLibrary { tried: names.join(", "), why })
    }
}

/// A context with one device and one in-order, profiling queue: all that measuring needs.
pub struct Session {
    api: Arc<Api>,
    context: Handle,
    queue: Handle,
    device: Device,
}

impl Session {
    /// Makes a context and a queue on `device`.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn new(device: &Device) -> Result<Session, ClError> {
        let api = Arc::clone(&device.api);
        let mut code = 0;
        // SAFETY: one valid device id; no properties and no callback.
        let context = unsafe {
            (api.create_context)(
                std::ptr::null(),
                1,
                &device.id,
                None,
                std::ptr::null_mut(),
                &mut code,
            )
        };
        checked("clCreateContext", &device.facts.name, code)?;
        const PROFILING: u64 = 1 << 1;
        // SAFETY: the context was just made with this device.
        let queue = unsafe { (api.create_queue)(context, device.id, PROFILING, &mut code) };
        if code != 0 {
            // SAFETY: the context is ours and has no other user.
            unsafe { (api.release_context)(context) };
        }
        checked("clCreateCommandQueue", &device.facts.name, code)?;
        Ok(Session { api, context, queue, device: device.clone() })
    }

    /// The device.
    #[must_use]
    pub fn facts(&self) -> &DeviceFacts {
        &self.device.facts
    }

    /// A buffer of `bytes`; `pinned` asks for host memory that the device reaches directly
    /// (CL_MEM_ALLOC_HOST_PTR).
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn buffer(&self, bytes: usize, pinned: bool) -> Result<Buffer, ClError> {
        let flags: u64 = 1 | if pinned { 1 << 4 } else { 0 };
        let mut code = 0;
        // SAFETY: the context is alive; no host pointer is given.
        let handle = unsafe {
            (self.api.create_buffer)(
                self.context,
                flags,
                bytes.max(1),
                std::ptr::null_mut(),
                &mut code,
            )
        };
        checked("clCreateBuffer", format_args!("{bytes} bytes"), code)?;
        Ok(Buffer { api: Arc::clone(&self.api), handle, bytes })
    }

    /// Builds a program from source.
    ///
    /// # Errors
    /// [`ClError::Build`] with the compiler's log, or what another call returned.
    pub fn build(&self, name: &str, source: &str, options: &str) -> Result<Program, ClError> {
        let pointer = source.as_ptr().cast();
        let length = source.len();
        let mut code = 0;
        // SAFETY: one string with its length; both outlive the call.
        let handle =
            unsafe { (self.api.create_program)(self.context, 1, &pointer, &length, &mut code) };
        checked("clCreateProgramWithSource", name, code)?;
        self.finish_build(Program { api: Arc::clone(&self.api), handle }, name, options)
    }

    /// Loads a program from a binary that [`Program::binary`] gave for this device.
    ///
    /// # Errors
    /// As for [`Session::build`]; a driver refuses binaries of another driver.
    pub fn load(&self, name: &str, binary: &[u8], options: &str) -> Result<Program, ClError> {
        let (length, pointer) = (binary.len(), binary.as_ptr());
        let (mut status, mut code) = (0, 0);
        // SAFETY: one device, one binary with its length; all outlive the call.
        let handle = unsafe {
            (self.api.create_program_binary)(
                self.context,
                1,
                &self.device.id,
                &length,
                &pointer,
                &mut status,
                &mut code,
            )
        };
        checked("clCreateProgramWithBinary", name, if code != 0 { code } else { status })?;
        self.finish_build(Program { api: Arc::clone(&self.api), handle }, name, options)
    }

    fn finish_build(
        &self,
        program: Program,
        name: &str,
        options: &str,
    ) -> Result<Program, ClError> {
        let invalid =
            || ClError::Call { call: "clBuildProgram", object: name.to_owned(), code: -43 };
        let options = CString::new(options).map_err(|_| invalid())?;
        // SAFETY: the program and device are alive; the options end in NUL; no callback, so the
        // call blocks.
        let code = unsafe {
            (self.api.build_program)(
                program.handle,
                1,
                &self.device.id,
                options.as_ptr(),
                None,
                std::ptr::null_mut(),
            )
        };
        if code == 0 {
            return Ok(program);
        }
        const BUILD_LOG: u32 = 0x1183;
        let log = info("clGetProgramBuildInfo", name, |size, value, needed| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe {
                (self.api.get_build_info)(
                    program.handle,
                    self.device.id,
                    BUILD_LOG,
                    size,
                    value,
                    needed,
                )
            }
        });
        Err(ClError::Build {
            program: name.to_owned(),
            code,
            log: log.map(text).unwrap_or_default(),
        })
    }

    /// A kernel of a built program.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn kernel(&self, program: &Program, name: &str) -> Result<Kernel, ClError> {
        let entry = CString::new(name).map_err(|_| ClError::Call {
            call: "clCreateKernel",
            object: name.to_owned(),
            code: -46,
        })?;
        let mut code = 0;
        // SAFETY: the program is built and alive; the name ends in NUL.
        let handle = unsafe { (self.api.create_kernel)(program.handle, entry.as_ptr(), &mut code) };
        checked("clCreateKernel", name, code)?;
        let mut kernel = Kernel {
            api: Arc::clone(&self.api),
            handle,
            name: name.to_owned(),
            largest_group: 1,
            private_bytes: None,
        };
        const WORK_GROUP_SIZE: u32 = 0x11B0;
        const PRIVATE_MEM_SIZE: u32 = 0x11B4;
        let query = |what: u32| {
            info("clGetKernelWorkGroupInfo", name, |size, value, needed| {
                // SAFETY: `value` has room for `size` bytes.
                unsafe {
                    (self.api.get_work_group_info)(
                        handle,
                        self.device.id,
                        what,
                        size,
                        value,
                        needed,
                    )
                }
            })
        };
        let bytes = query(WORK_GROUP_SIZE)?;
        kernel.largest_group = bytes.try_into().map_or(1, usize::from_ne_bytes);
        kernel.private_bytes =
            query(PRIVATE_MEM_SIZE).ok().and_then(|b| b.try_into().ok()).map(u64::from_ne_bytes);
        Ok(kernel)
    }

    fn timed(
        &self,
        call: &'static str,
        object: &str,
        enqueue: impl FnOnce(*mut Handle) -> Status,
    ) -> Result<Event, ClError> {
        let mut event = std::ptr::null_mut();
        checked(call, object, enqueue(&mut event))?;
        Ok(Event { api: Arc::clone(&self.api), handle: event })
    }

    /// Launches `kernel` over `global` work-items in groups of `local`.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn launch(&self, kernel: &Kernel, global: usize, local: usize) -> Result<Event, ClError> {
        self.timed("clEnqueueNDRangeKernel", &kernel.name, |event| {
            // SAFETY: one dimension; sizes outlive the call; the kernel's arguments are set.
            unsafe {
                (self.api.enqueue_kernel)(
                    self.queue,
                    kernel.handle,
                    1,
                    std::ptr::null(),
                    &global,
                    &local,
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })
    }

    /// As [`launch`](Session::launch), without an event: the runtime takes no times.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn launch_untimed(
        &self,
        kernel: &Kernel,
        global: usize,
        local: usize,
    ) -> Result<(), ClError> {
        let none = std::ptr::null_mut();
        // SAFETY: as in `launch`; no event is asked for.
        let code = unsafe {
            (self.api.enqueue_kernel)(
                self.queue,
                kernel.handle,
                1,
                std::ptr::null(),
                &global,
                &local,
                0,
                std::ptr::null(),
                none,
            )
        };
        checked("clEnqueueNDRangeKernel", &kernel.name, code)
    }

    /// Reads `into.len()` bytes at `offset`; returns when they are there.
    ///
    /// # Errors
    /// What the runtime returned, or CL_INVALID_VALUE for a range outside the buffer.
    pub fn read(&self, buffer: &Buffer, offset: usize, into: &mut [u8]) -> Result<Event, ClError> {
        buffer.holds("clEnqueueReadBuffer", offset, into.len())?;
        self.timed("clEnqueueReadBuffer", "a buffer", |event| {
            // SAFETY: the range lies in the buffer; the call blocks until `into` is written.
            unsafe {
                (self.api.enqueue_read)(
                    self.queue,
                    buffer.handle,
                    1,
                    offset,
                    into.len(),
                    into.as_mut_ptr().cast(),
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })
    }

    /// Writes `from` at `offset`; returns when `from` is no longer needed.
    ///
    /// # Errors
    /// As for [`Session::read`].
    pub fn write(&self, buffer: &Buffer, offset: usize, from: &[u8]) -> Result<Event, ClError> {
        buffer.holds("clEnqueueWriteBuffer", offset, from.len())?;
        self.timed("clEnqueueWriteBuffer", "a buffer", |event| {
            // SAFETY: the range lies in the buffer; the call blocks until `from` was read.
            unsafe {
                (self.api.enqueue_write)(
                    self.queue,
                    buffer.handle,
                    1,
                    offset,
                    from.len(),
                    from.as_ptr().cast(),
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })
    }

    /// Copies the first `bytes` of `from` to the start of `to`.
    ///
    /// # Errors
    /// As for [`Session::read`].
    pub fn copy(&self, from: &Buffer, to: &Buffer, bytes: usize) -> Result<Event, ClError> {
        from.holds("clEnqueueCopyBuffer", 0, bytes)?;
        to.holds("clEnqueueCopyBuffer", 0, bytes)?;
        self.timed("clEnqueueCopyBuffer", "a buffer", |event| {
            // SAFETY: both ranges lie in their buffers, which are not the same object.
            unsafe {
                (self.api.enqueue_copy)(
                    self.queue,
                    from.handle,
                    to.handle,
                    0,
                    0,
                    bytes,
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })
    }

    /// Fills the first `bytes` of `buffer` with `pattern` (a power of two, up to 128 bytes) and
    /// waits.
    ///
    /// # Errors
    /// As for [`Session::read`].
    pub fn fill(&self, buffer: &Buffer, pattern: &[u8], bytes: usize) -> Result<(), ClError> {
        buffer.holds("clEnqueueFillBuffer", 0, bytes)?;
        self.timed("clEnqueueFillBuffer", "a buffer", |event| {
            // SAFETY: the runtime copies the pattern before it returns; the range lies in the
            // buffer.
            unsafe {
                (self.api.enqueue_fill)(
                    self.queue,
                    buffer.handle,
                    pattern.as_ptr().cast(),
                    pattern.len(),
                    0,
                    bytes,
                    0,
                    std::ptr::null(),
                    event,
                )
            }
        })?;
        self.finish()
    }

    /// Maps the first `bytes` of `buffer`, lets `use_it` work on them, and unmaps; waits for both.
    ///
    /// # Errors
    /// As for [`Session::read`].
    pub fn map<T>(
        &self,
        buffer: &Buffer,
        write: bool,
        bytes: usize,
        use_it: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, ClError> {
        buffer.holds("clEnqueueMapBuffer", 0, bytes)?;
        let flags: u64 = if write { 1 << 1 } else { 1 };
        let mut code = 0;
        // SAFETY: the range lies in the buffer; the call blocks, so the pointer is usable when it
        // returns.
        let pointer = unsafe {
            (self.api.enqueue_map)(
                self.queue,
                buffer.handle,
                1,
                flags,
                0,
                bytes,
                0,
                std::ptr::null(),
                std::ptr::null_mut(),
                &mut code,
            )
        };
        checked("clEnqueueMapBuffer", format_args!("{bytes} bytes"), code)?;
        // SAFETY: the mapping has `bytes` bytes and no one else uses them until the unmapping
        // below.
        let result = use_it(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), bytes) });
        // SAFETY: the pointer came from the mapping above and is not used afterwards.
        let code = unsafe {
            (self.api.enqueue_unmap)(
                self.queue,
                buffer.handle,
                pointer,
                0,
                std::ptr::null(),
                std::ptr::null_mut(),
            )
        };
        checked("clEnqueueUnmapMemObject", format_args!("{bytes} bytes"), code)?;
        self.finish()?;
        Ok(result)
    }

    /// Submits what is queued, without waiting.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn flush(&self) -> Result<(), ClError> {
        // SAFETY: the queue is alive.
        checked("clFlush", &self.device.facts.name, unsafe { (self.api.flush)(self.queue) })
    }

    /// Waits for everything in the queue.
    ///
    /// # Errors
    /// What the runtime returned: an error here is often a kernel's.
    pub fn finish(&self) -> Result<(), ClError> {
        // SAFETY: the queue is alive.
        checked("clFinish", &self.device.facts.name, unsafe { (self.api.finish)(self.queue) })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: both handles are ours; buffers and programs keep the context alive by their own
        // references.
        unsafe {
            (self.api.finish)(self.queue);
            (self.api.release_queue)(self.queue);
            (self.api.release_context)(self.context);
        }
    }
}

macro_rules! released {
    ($type:ident, $release:ident) => {
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

/// Device memory.
pub struct Buffer {
    api: Arc<Api>,
    handle: Handle,
    bytes: usize,
}

impl Buffer {
    /// Its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn holds(&self, call: &'static str, offset: usize, bytes: usize) -> Result<(), ClError> {
        if offset.checked_add(bytes).is_some_and(|end| end <= self.bytes) {
            return Ok(());
        }
        Err(ClError::Call {
            call,
            object: format!("bytes {offset} to {offset}+{bytes} of a buffer of {}", self.bytes),
            code: -30,
        })
    }
}

/// A built program.
pub struct Program {
    api: Arc<Api>,
    handle: Handle,
}

impl Program {
    /// The device's binary, as [`Session::load`] takes it; nothing where the runtime keeps none.
    #[must_use]
    pub fn binary(&self) -> Option<Vec<u8>> {
        const BINARY_SIZES: u32 = 0x1165;
        const BINARIES: u32 = 0x1166;
        let mut size = 0usize;
        // SAFETY: the program has one device, so one size is written.
        let code = unsafe {
            (self.api.get_program_info)(
                self.handle,
                BINARY_SIZES,
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
                BINARIES,
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
    api: Arc<Api>,
    handle: Handle,
    name: String,
    largest_group: usize,
    private_bytes: Option<u64>,
}

impl Kernel {
    /// The most work-items that one of its groups may have on this device.
    #[must_use]
    pub fn largest_group(&self) -> usize {
        self.largest_group
    }

    /// Bytes of private memory per work-item as the runtime states them: more than 0 says that
    /// registers spilled.
    #[must_use]
    pub fn private_bytes(&self) -> Option<u64> {
        self.private_bytes
    }

    /// Sets argument `index`.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn set(&self, index: u32, value: &Argument<'_>) -> Result<(), ClError> {
        let (size, pointer): (usize, *const c_void) = match value {
            Argument::Buffer(buffer) => (size_of::<Handle>(), (&raw const buffer.handle).cast()),
            Argument::Bytes(bytes) => (bytes.len(), bytes.as_ptr().cast()),
            Argument::Local(bytes) => (*bytes, std::ptr::null()),
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
    /// A value, as the bytes the device takes.
    Bytes(&'a [u8]),
    /// Local memory, in bytes.
    Local(usize),
}

/// A command's event.
pub struct Event {
    api: Arc<Api>,
    handle: Handle,
}

impl Event {
    /// Nanoseconds from start to end in the device's clock; the command must have ended.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn nanoseconds(&self) -> Result<u64, ClError> {
        Ok(self.stamp(0x1283)?.saturating_sub(self.stamp(0x1282)?))
    }

    /// QUEUED, SUBMIT, START and END in the device's clock; the command must have ended.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn stamps(&self) -> Result<[u64; 4], ClError> {
        Ok([self.stamp(0x1280)?, self.stamp(0x1281)?, self.stamp(0x1282)?, self.stamp(0x1283)?])
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
