//! Launches over several dimensions, and what a kernel says of its arguments. Refuses to guess what
//! a compiler left out.

use crate::error::{ClError, checked, info, text};
use crate::{Event, Kernel, Session};
use clscope_trace::codes as cl;

/// Sizes of a launch; the arrays have one entry for each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first work-item; none: zeros.
    pub offset: Option<Vec<usize>>,
    /// Work-items.
    pub global: Vec<usize>,
    /// Work-items of a group; none: the runtime chooses.
    pub local: Option<Vec<usize>>,
}

/// An argument, as far as the compiler kept what the source says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArgumentInfo {
    /// Its name.
    pub name: Option<String>,
    /// Its type, as `float*`.
    pub type_name: Option<String>,
}

impl Session {
    fn enqueue(
        &self,
        kernel: &Kernel,
        range: &Range,
        event: Option<&mut crate::api::Handle>,
    ) -> Result<(), ClError> {
        let dimensions = range.global.len();
        let same =
            |sizes: &Option<Vec<usize>>| sizes.as_ref().is_none_or(|s| s.len() == dimensions);
        let object = || {
            let shown =
                |sizes: &[usize]| sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("x");
            let local = range.local.as_deref().map_or_else(|| "NULL".to_owned(), shown);
            format!("{} over {} in groups of {local}", kernel.name, shown(&range.global))
        };
        const CALL: &str = "clEnqueueNDRangeKernel";
        if !same(&range.offset) || !same(&range.local) {
            return Err(ClError::Call {
                call: CALL,
                object: object(),
                code: cl::CL_INVALID_WORK_DIMENSION,
            });
        }
        let pointer = |sizes: &Option<Vec<usize>>| {
            sizes.as_ref().map_or(std::ptr::null(), |sizes| sizes.as_ptr())
        };
        // SAFETY: each array that is given has one size for each dimension and outlives the call,
        // and so does the event's slot, where there is one.
        let code = unsafe {
            (self.api.enqueue_kernel)(
                self.queue,
                kernel.handle,
                u32::try_from(dimensions).unwrap_or(u32::MAX),
                pointer(&range.offset),
                range.global.as_ptr(),
                pointer(&range.local),
                0,
                std::ptr::null(),
                event.map_or(std::ptr::null_mut(), std::ptr::from_mut),
            )
        };
        checked(CALL, object(), code)
    }

    /// Launches `kernel`, whose arguments are set.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn launch_over(&self, kernel: &Kernel, range: &Range) -> Result<Event, ClError> {
        let mut event = std::ptr::null_mut();
        self.enqueue(kernel, range, Some(&mut event))?;
        Ok(Event { api: std::sync::Arc::clone(&self.api), handle: event })
    }

    /// As [`launch_over`](Session::launch_over), without an event: the runtime takes no times.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn launch_over_untimed(&self, kernel: &Kernel, range: &Range) -> Result<(), ClError> {
        self.enqueue(kernel, range, None)
    }
}

impl Kernel {
    /// How many arguments it has.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn argument_count(&self) -> Result<u32, ClError> {
        let bytes = info("clGetKernelInfo", &self.name, |size, value, needed| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe {
                (self.api.get_kernel_info)(self.handle, cl::CL_KERNEL_NUM_ARGS, size, value, needed)
            }
        })?;
        Ok(bytes.try_into().map_or(0, u32::from_ne_bytes))
    }

    /// What the compiler kept of an argument: programs from binaries, and those built without
    /// `-cl-kernel-arg-info`, may have nothing.
    pub fn argument(&self, index: u32) -> ArgumentInfo {
        let query = |what: u32| {
            let bytes = info("clGetKernelArgInfo", &self.name, |size, value, needed| {
                // SAFETY: `value` has room for `size` bytes.
                unsafe {
                    (self.api.get_argument_info)(self.handle, index, what, size, value, needed)
                }
            });
            bytes.ok().map(text).filter(|text| !text.is_empty())
        };
        ArgumentInfo {
            name: query(cl::CL_KERNEL_ARG_NAME),
            type_name: query(cl::CL_KERNEL_ARG_TYPE_NAME),
        }
    }
}
