//! A context with one device and one queue: what is made in it and what is enqueued to it. Refuses
//! to wait where a call does not say so, and to hold more than one device.

use crate::api::{Api, Handle, Status};
use crate::error::{ClError, checked, info, text};
use crate::{Buffer, Device, DeviceFacts, Event, Kernel, Program};
use clscope_trace::codes as cl;
use std::cell::RefCell;
use std::ffi::CString;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A context with one device and one in-order, profiling queue: all that measuring needs.
pub struct Session {
    pub(crate) api: Arc<Api>,
    pub(crate) context: Handle,
    pub(crate) queue: Handle,
    pub(crate) device: Device,
    work: RefCell<Work>,
}

/// Pauses below this are none, to who asks when a device worked.
const PAUSE: Duration = Duration::from_millis(1);

/// When a queue had work, as the host sees it.
#[derive(Default)]
struct Work {
    spans: Vec<(Instant, Instant)>,
    /// Since when, of work that was not waited for.
    open: Option<Instant>,
}

impl Work {
    fn begins(&mut self) {
        if self.open.is_none() {
            let now = Instant::now();
            self.open = match self.spans.last() {
                Some((_, end)) if now - *end < PAUSE => self.spans.pop().map(|(begin, _)| begin),
                _ => Some(now),
            };
        }
    }

    fn ends(&mut self) {
        self.spans.extend(self.open.take().map(|begin| (begin, Instant::now())));
    }
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
        // SAFETY: the context was just made with this device.
        let queue = unsafe {
            (api.create_queue)(context, device.id, cl::CL_QUEUE_PROFILING_ENABLE, &mut code)
        };
        if code != 0 {
            // SAFETY: the context is ours and has no other user.
            unsafe { (api.release_context)(context) };
        }
        checked("clCreateCommandQueue", &device.facts.name, code)?;
        Ok(Session { api, context, queue, device: device.clone(), work: RefCell::default() })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The device.
    pub fn facts(&self) -> &DeviceFacts {
        &self.device.facts
    }

    /// When the queue had work, as the host saw it: from a command to the end of a wait for all of
    /// them. Pauses of less than a millisecond are left out.
    pub fn worked(&self) -> Vec<(Instant, Instant)> {
        self.work.borrow().spans.clone()
    }

    /// A buffer of `bytes`; `pinned` asks for host memory that the device reaches directly
    /// (CL_MEM_ALLOC_HOST_PTR).
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn buffer(&self, bytes: usize, pinned: bool) -> Result<Buffer, ClError> {
        let pinned = if pinned { cl::CL_MEM_ALLOC_HOST_PTR } else { 0 };
        self.buffer_with(bytes, cl::CL_MEM_READ_WRITE | pinned)
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

    pub(crate) fn finish_build(
        &self,
        program: Program,
        name: &str,
        options: &str,
    ) -> Result<Program, ClError> {
        let invalid = || ClError::Call {
            call: "clBuildProgram",
            object: name.to_owned(),
            code: cl::CL_INVALID_BUILD_OPTIONS,
        };
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
        Err(self.build_error(&program, name, code))
    }

    /// The error of a program that did not build, with the compiler's words.
    pub(crate) fn build_error(&self, program: &Program, name: &str, code: Status) -> ClError {
        let log = info("clGetProgramBuildInfo", name, |size, value, needed| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe {
                (self.api.get_build_info)(
                    program.handle,
                    self.device.id,
                    cl::CL_PROGRAM_BUILD_LOG,
                    size,
                    value,
                    needed,
                )
            }
        });
        ClError::Build { program: name.to_owned(), code, log: log.map(text).unwrap_or_default() }
    }

    /// A kernel of a built program.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn kernel(&self, program: &Program, name: &str) -> Result<Kernel, ClError> {
        let entry = CString::new(name).map_err(|_| ClError::Call {
            call: "clCreateKernel",
            object: name.to_owned(),
            code: cl::CL_INVALID_KERNEL_NAME,
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
            local_bytes: None,
            required_group: None,
            group_multiple: None,
        };
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
        let number = |what: u32| query(what).ok()?.try_into().ok().map(u64::from_ne_bytes);
        let bytes = query(cl::CL_KERNEL_WORK_GROUP_SIZE)?;
        kernel.largest_group = bytes.try_into().map_or(1, usize::from_ne_bytes);
        kernel.private_bytes = number(cl::CL_KERNEL_PRIVATE_MEM_SIZE);
        kernel.local_bytes = number(cl::CL_KERNEL_LOCAL_MEM_SIZE);
        let multiple = number(cl::CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE);
        kernel.group_multiple = multiple.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        // Zeros say that the kernel requires none.
        kernel.required_group = query(cl::CL_KERNEL_COMPILE_WORK_GROUP_SIZE)
            .ok()
            .and_then(|bytes| {
                let (words, _) = bytes.as_chunks::<{ size_of::<usize>() }>();
                let sizes: Vec<usize> = words.iter().map(|w| usize::from_ne_bytes(*w)).collect();
                <[usize; 3]>::try_from(sizes).ok()
            })
            .filter(|sizes| sizes[0] > 0);
        Ok(kernel)
    }

    pub(crate) fn timed(
        &self,
        call: &'static str,
        object: &str,
        enqueue: impl FnOnce(*mut Handle) -> Status,
    ) -> Result<Event, ClError> {
        let mut event = std::ptr::null_mut();
        self.work.borrow_mut().begins();
        checked(call, object, enqueue(&mut event))?;
        Ok(Event { api: Arc::clone(&self.api), handle: event })
    }

    /// As [`timed`](Session::timed), of a call on a buffer that blocks: the queue is in order, so
    /// that nothing is left behind it.
    fn blocking(
        &self,
        call: &'static str,
        enqueue: impl FnOnce(*mut Handle) -> Status,
    ) -> Result<Event, ClError> {
        let event = self.timed(call, "a buffer", enqueue);
        self.work.borrow_mut().ends();
        event
    }

    /// Launches `kernel` over `global` work-items in groups of `local`.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn launch(&self, kernel: &Kernel, global: usize, local: usize) -> Result<Event, ClError> {
        let enqueue = |event| self.enqueue_line(kernel, global, local, event);
        self.timed("clEnqueueNDRangeKernel", &kernel.name, enqueue)
    }

    fn enqueue_line(
        &self,
        kernel: &Kernel,
        global: usize,
        local: usize,
        event: *mut Handle,
    ) -> Status {
        // SAFETY: one dimension; sizes outlive the call; the kernel's arguments are set; the event
        // is NULL or a place for one.
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
        self.work.borrow_mut().begins();
        let code = self.enqueue_line(kernel, global, local, std::ptr::null_mut());
        checked("clEnqueueNDRangeKernel", &kernel.name, code)
    }

    /// Reads `into.len()` bytes at `offset`; returns when they are there.
    ///
    /// # Errors
    /// What the runtime returned, or CL_INVALID_VALUE for a range outside the buffer.
    pub fn read(&self, buffer: &Buffer, offset: usize, into: &mut [u8]) -> Result<Event, ClError> {
        buffer.holds("clEnqueueReadBuffer", offset, into.len())?;
        self.blocking("clEnqueueReadBuffer", |event| {
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
        self.blocking("clEnqueueWriteBuffer", |event| {
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

    /// Copies `bytes` of `from`, from `at` on, to the same place of `to`.
    ///
    /// # Errors
    /// As for [`Session::read`].
    pub fn copy(
        &self,
        from: &Buffer,
        to: &Buffer,
        at: usize,
        bytes: usize,
    ) -> Result<Event, ClError> {
        from.holds("clEnqueueCopyBuffer", at, bytes)?;
        to.holds("clEnqueueCopyBuffer", at, bytes)?;
        self.timed("clEnqueueCopyBuffer", "a buffer", |event| {
            // SAFETY: both ranges lie in their buffers, which are not the same object.
            unsafe {
                (self.api.enqueue_copy)(
                    self.queue,
                    from.handle,
                    to.handle,
                    at,
                    at,
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
        let flags = if write { cl::CL_MAP_WRITE } else { cl::CL_MAP_READ };
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
        let code = unsafe { (self.api.finish)(self.queue) };
        self.work.borrow_mut().ends();
        checked("clFinish", &self.device.facts.name, code)
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
