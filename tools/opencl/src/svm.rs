//! Shared virtual memory of coarse grain. Refuses to give out its address for use: the host reads
//! and writes through mappings that last as long as a call.

use crate::api::{Api, Handle};
use crate::error::{ClError, checked};
use crate::memory::ACCESS_FLAGS;
use crate::signatures::clSVMFree;
use crate::{Kernel, Session};
use clscope_trace::codes as cl;
use std::ffi::c_void;
use std::sync::Arc;

/// An allocation of shared virtual memory.
pub struct Svm {
    api: Arc<Api>,
    context: Handle,
    free: clSVMFree,
    pointer: *mut c_void,
    bytes: usize,
}

impl Svm {
    /// Where it lies, on the host and on the device.
    pub fn address(&self) -> u64 {
        self.pointer as usize as u64
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Svm {
    fn drop(&mut self) {
        // SAFETY: the allocation is owned by this value alone; its context was retained for it.
        unsafe {
            (self.free)(self.context, self.pointer);
            (self.api.release_context)(self.context);
        }
    }
}

fn missing(call: &'static str) -> ClError {
    ClError::Missing { call, object: "shared virtual memory".to_owned() }
}

impl Session {
    /// Shared virtual memory of coarse grain, with the given `cl_svm_mem_flags`.
    ///
    /// # Errors
    /// What the runtime returned; CL_OUT_OF_RESOURCES where it gave no memory and no reason.
    pub fn svm(&self, bytes: usize, flags: u64) -> Result<Svm, ClError> {
        let alloc = self.api.svm_alloc.ok_or_else(|| missing("clSVMAlloc"))?;
        let free = self.api.svm_free.ok_or_else(|| missing("clSVMFree"))?;
        // SAFETY: the context is alive; alignment 0 is the default one.
        let pointer = unsafe { alloc(self.context, flags & ACCESS_FLAGS, bytes.max(1), 0) };
        if pointer.is_null() {
            let object = format!("{bytes} bytes");
            return Err(ClError::Call {
                call: "clSVMAlloc",
                object,
                code: cl::CL_OUT_OF_RESOURCES,
            });
        }
        // SAFETY: the context is alive.
        unsafe { (self.api.retain_context)(self.context) };
        Ok(Svm { api: Arc::clone(&self.api), context: self.context, free, pointer, bytes })
    }

    /// Maps all of it, lets `use_it` work on the bytes, and unmaps; waits for both.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn map_svm<T>(
        &self,
        svm: &Svm,
        write: bool,
        use_it: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, ClError> {
        let map = self.api.svm_map.ok_or_else(|| missing("clEnqueueSVMMap"))?;
        let unmap = self.api.svm_unmap.ok_or_else(|| missing("clEnqueueSVMUnmap"))?;
        let flags = if write { cl::CL_MAP_WRITE } else { cl::CL_MAP_READ };
        let (none, no_event) = (std::ptr::null(), std::ptr::null_mut());
        // SAFETY: the allocation is alive and has so many bytes; the call blocks.
        let code =
            unsafe { map(self.queue, 1, flags, svm.pointer, svm.bytes.max(1), 0, none, no_event) };
        checked("clEnqueueSVMMap", format_args!("{} bytes", svm.bytes), code)?;
        // SAFETY: mapped for the host until the call below; nobody else has the pointer.
        let result =
            use_it(unsafe { std::slice::from_raw_parts_mut(svm.pointer.cast(), svm.bytes) });
        // SAFETY: mapped above, and not used afterwards.
        let code = unsafe { unmap(self.queue, svm.pointer, 0, std::ptr::null(), no_event) };
        checked("clEnqueueSVMUnmap", format_args!("{} bytes", svm.bytes), code)?;
        self.finish()?;
        Ok(result)
    }
}

impl Kernel {
    /// Sets argument `index` to the address of shared virtual memory, `offset` bytes from its
    /// begin.
    ///
    /// # Errors
    /// What the runtime returned, or CL_INVALID_ARG_VALUE for an offset behind its end.
    pub fn set_svm(&self, index: u32, svm: &Svm, offset: usize) -> Result<(), ClError> {
        const CALL: &str = "clSetKernelArgSVMPointer";
        let set = self.api.set_argument_svm.ok_or_else(|| missing(CALL))?;
        let object = || format!("argument {index} of {}", self.name);
        if offset > svm.bytes {
            return Err(ClError::Call {
                call: CALL,
                object: object(),
                code: cl::CL_INVALID_ARG_VALUE,
            });
        }
        // SAFETY: the address lies in the allocation, or just behind it.
        let code = unsafe { set(self.handle, index, svm.pointer.cast::<u8>().add(offset).cast()) };
        checked(CALL, object(), code)
    }

    /// Says which shared virtual memory the kernel reaches beside its arguments.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn reaches(&self, svm: &[&Svm]) -> Result<(), ClError> {
        const CALL: &str = "clSetKernelExecInfo";
        let set = self.api.set_exec_info.ok_or_else(|| missing(CALL))?;
        let pointers: Vec<*mut c_void> = svm.iter().map(|one| one.pointer).collect();
        // SAFETY: an array of so many bytes of pointers, which outlives the call.
        let code = unsafe {
            set(
                self.handle,
                cl::CL_KERNEL_EXEC_INFO_SVM_PTRS,
                size_of_val(&pointers[..]),
                pointers.as_ptr().cast(),
            )
        };
        checked(CALL, &self.name, code)
    }
}
