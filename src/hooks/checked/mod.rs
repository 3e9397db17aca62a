//! Owns `CLSCOPE_CHECK`: what `clscope check` judges by and no other record tells. It is written
//! inside the call that it is about, ahead of that call's own record. Stand-ins call it
//! ([`crate::hooks::stand_ins`]), so that other runs pay nothing. Refuses to judge.

mod details;
pub mod host_memory;
pub mod parts;
pub mod stale;

pub use details::{memory, place, tell, wanted};

use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Site};
use crate::facts::arguments::ask;
use crate::facts::{info, objects, programs};
use crate::runtime::functions as api;
use clscope_trace::record::detail;
use stale::Of;
use std::ptr::null_mut;

/// An enqueue failed whose place is known.
pub fn failed(function: u16, site: u32) {
    if site != 0 && wanted() {
        tell(function, detail::PLACE, site, [0; 3]);
    }
}

/// A kernel's argument was set, or refused with an error code.
///
/// # Safety
/// Without an error, and with one that calls the object invalid, `value` is NULL or has `size`
/// readable bytes.
pub unsafe fn argument(function: u16, kernel: H, index: u32, size: usize, value: P, code: i32) {
    // For what the object is no more the runtime has looked at the value, too.
    let refused = matches!(code, cl::CL_INVALID_MEM_OBJECT | cl::CL_INVALID_SAMPLER);
    if (code != 0 && !refused) || size != size_of::<H>() {
        return;
    }
    let mut object = 0;
    if !value.is_null() {
        // SAFETY: the caller's promise.
        let handle = unsafe { value.cast::<H>().read_unaligned() };
        object = objects::id(handle);
        stale::named(function, Of::Object(handle));
    }
    let kernel = u64::from(objects::id(kernel));
    let which = kernel | u64::from(index) << 32;
    tell(function, detail::ARGUMENT, 0, [which, object.into(), refused.into()]);
}

/// A call is about to name each object of a list.
///
/// # Safety
/// `list` is NULL or has `count` objects.
pub unsafe fn names_all(function: u16, count: u32, list: *const H) {
    if stale::looks() && !list.is_null() {
        for at in 0..count as usize {
            // SAFETY: the caller's promise.
            stale::named(function, Of::Object(unsafe { list.add(at).read_unaligned() }));
        }
    }
}

/// A call is about to be made with this wait list.
///
/// # Safety
/// `list` is NULL or has `count` events.
pub unsafe fn waits(function: u16, count: u32, list: *const H) {
    stale::waits(function, count, list.is_null());
    if stale::looks() && !list.is_null() {
        let mut null = None;
        for at in 0..count {
            // SAFETY: the caller's promise.
            let event = unsafe { list.add(at as usize).read_unaligned() };
            if event.is_null() {
                null.get_or_insert(at);
            } else {
                stale::named(function, Of::Event(event));
            }
        }
        if let Some(at) = null {
            stale::waits_for_none(function, at);
        }
    }
}

/// Events were waited for.
///
/// # Safety
/// Without an error `list` has `count` events.
pub unsafe fn waited(function: u16, count: u32, list: *const H, code: i32) {
    let ended = matches!(code, 0 | cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    if ended && !list.is_null() {
        for at in 0..count as usize {
            // SAFETY: the runtime has read them.
            let event = unsafe { *list.add(at) };
            tell(function, detail::WAITED, 0, [objects::event_word(event), 0, 0]);
        }
    }
}

/// The status of an event was asked for.
///
/// # Safety
/// Without an error `value` is NULL or what is asked for was written there.
pub unsafe fn asked(function: u16, event: H, name: u32, value: P, code: i32) {
    if code != 0 || name != cl::CL_EVENT_COMMAND_EXECUTION_STATUS || value.is_null() {
        return;
    }
    // SAFETY: the caller's promise: a cl_int.
    if unsafe { value.cast::<i32>().read_unaligned() } <= cl::CL_COMPLETE {
        tell(function, detail::WAITED, 0, [objects::event_word(event), 0, 0]);
    }
}

/// A command uses this part of a buffer; a copy, from `offset` to `other`.
pub fn range(function: u16, offset: usize, size: usize, other: usize) {
    if wanted() {
        tell(function, detail::RANGE, 0, [offset as u64, size as u64, other as u64]);
    }
}

/// A sub-buffer was made, or refused.
///
/// # Safety
/// Where one was made `info` is as its kind says.
pub unsafe fn part(function: u16, made: H, kind: u32, info: P) {
    if made.is_null() || kind != cl::CL_BUFFER_CREATE_TYPE_REGION || info.is_null() {
        return;
    }
    let at = info.cast::<usize>();
    // SAFETY: a cl_buffer_region is two size_t.
    let (offset, size) = unsafe { (at.read_unaligned(), at.add(1).read_unaligned()) };
    tell(function, detail::PART, 0, [offset as u64, size as u64, 0]);
}

/// A command frees shared virtual memory.
///
/// # Safety
/// `list` is NULL or has `count` addresses.
pub unsafe fn frees(function: u16, count: u32, list: P, code: i32) {
    if code != 0 || list.is_null() || !wanted() {
        return;
    }
    for at in 0..count as usize {
        // SAFETY: the runtime has read them.
        let address = unsafe { list.cast::<P>().add(at).read_unaligned() };
        memory(function, address, 0, detail::FREES);
    }
}

/// Shared virtual memory was allocated, or not.
pub fn svm_made(function: u16, address: P, bytes: usize, flags: u64) {
    if !address.is_null() {
        tell(function, detail::SVM_MADE, 0, [address as u64, bytes as u64, flags]);
    }
}

/// The host freed it.
pub fn svm_freed(function: u16, address: P) {
    if !address.is_null() {
        tell(function, detail::SVM_FREED, 0, [address as u64, 0, 0]);
    }
}

/// An argument was set to an address, or refused with an error code.
pub fn svm_argument(function: u16, kernel: H, index: u32, address: P, code: i32) {
    if code == 0 {
        let kernel = u64::from(objects::id(kernel)) | u64::from(index) << 32;
        tell(function, detail::SVM_ARGUMENT, 0, [kernel, address as u64, 0]);
    }
}

/// What a kernel reaches beside its arguments was announced, or refused with an error code.
///
/// # Safety
/// Without an error `value` has `size` readable bytes.
pub unsafe fn reaches(function: u16, kernel: H, name: u32, size: usize, value: P, code: i32) {
    if code != 0 || name != cl::CL_KERNEL_EXEC_INFO_SVM_PTRS || value.is_null() {
        return;
    }
    let index = detail::BESIDE as u32;
    svm_argument(function, kernel, index, null_mut(), 0);
    for at in 0..size / size_of::<P>() {
        // SAFETY: the runtime has read them.
        let address = unsafe { value.cast::<P>().add(at).read_unaligned() };
        if !address.is_null() {
            svm_argument(function, kernel, index, address, 0);
        }
    }
}

/// A kernel was made of a program that is no source: what the runtime says of its parameters.
pub fn parameters(site: Site, kernel: H, id: u32) {
    let about = api::clGetKernelInfo.own(site.slot);
    let of = info::handle(about, kernel, info::KERNEL_PROGRAM);
    if !wanted() || programs::origin(of) == Some("source") {
        return;
    }
    let Some(info) = api::clGetKernelArgInfo.own(site.slot) else { return };
    let count = ask::<u32>(about, kernel, cl::CL_KERNEL_NUM_ARGS).unwrap_or(0);
    for index in 0..count {
        let number = |name: u32| {
            let mut value = 0u64;
            // SAFETY: a live kernel, and room for the largest answer.
            let code = unsafe {
                info(kernel, index, name, size_of::<u64>(), (&raw mut value).cast(), null_mut())
            };
            (code == 0).then_some(value)
        };
        // Of one that is not told nothing is: there is no argument information.
        let (Some(address), Some(access), Some(kind)) = (
            number(cl::CL_KERNEL_ARG_ADDRESS_QUALIFIER),
            number(cl::CL_KERNEL_ARG_ACCESS_QUALIFIER),
            number(cl::CL_KERNEL_ARG_TYPE_QUALIFIER),
        ) else {
            return;
        };
        let which = u64::from(id) | u64::from(index) << 32;
        let words = [which, address & 0xffff_ffff | access << 32, kind];
        tell(site.function, detail::PARAMETER, 0, words);
    }
}
