//! Memory objects: what their images hold, their destructors; native kernels and SVM frees, which
//! carry callbacks.

use super::calls::ended;
use super::enqueue::{self, What};
use super::given;
use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Site};
use crate::abi::signatures as f;
use crate::facts::geometry::Geometry;
use crate::facts::objects;
use crate::features::device_time;
use crate::hooks::callbacks::{self, NativeArguments};
use crate::recording::guard;
use clscope_trace::record::CommandKind;

/// Bytes of an element of an image of this cl_image_format; 0 if the format is not known to us.
///
/// # Safety
/// `format` is NULL, or points to a cl_image_format.
pub unsafe fn element_size(format: P) -> u64 {
    if format.is_null() {
        return 0;
    }
    // SAFETY: the caller's promise; a cl_image_format is two cl_uint.
    let (order, kind) = unsafe { (*format.cast::<u32>(), *format.cast::<u32>().add(1)) };
    let channels = match order {
        cl::CL_R | cl::CL_A | cl::CL_Rx | cl::CL_INTENSITY | cl::CL_LUMINANCE | cl::CL_DEPTH => 1,
        cl::CL_RG | cl::CL_RA | cl::CL_RGx => 2,
        cl::CL_RGB | cl::CL_RGBx | cl::CL_sRGB | cl::CL_sRGBx => 3,
        cl::CL_RGBA | cl::CL_BGRA | cl::CL_ARGB | cl::CL_sRGBA | cl::CL_sBGRA | cl::CL_ABGR => 4,
        _ => return 0,
    };
    match kind {
        cl::CL_SNORM_INT8 | cl::CL_UNORM_INT8 | cl::CL_SIGNED_INT8 | cl::CL_UNSIGNED_INT8 => {
            channels
        }
        cl::CL_SNORM_INT16
        | cl::CL_UNORM_INT16
        | cl::CL_SIGNED_INT16
        | cl::CL_UNSIGNED_INT16
        | cl::CL_HALF_FLOAT => channels * 2,
        cl::CL_SIGNED_INT32 | cl::CL_UNSIGNED_INT32 | cl::CL_FLOAT => channels * 4,
        cl::CL_UNORM_SHORT_565 | cl::CL_UNORM_SHORT_555 => 2,
        cl::CL_UNORM_INT_101010 | cl::CL_UNORM_INT_101010_2 => 4,
        _ => 0,
    }
}

/// Registers a callback for the end of an object.
///
/// # Safety
/// As the function's specification says.
pub unsafe fn destructor(
    site: Site,
    real: unsafe extern "C-unwind" fn(H, P, P) -> i32,
    object: H,
    pfn_notify: P,
    user_data: P,
) -> i32 {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(object, pfn_notify, user_data) };
    };
    let pair = callbacks::on_object(pfn_notify, user_data);
    // SAFETY: the application's call with its callback wrapped.
    let code = guard::real_call(&entered, || unsafe { real(object, pair.function, pair.data) });
    if code != 0 {
        // SAFETY: a call that failed calls nothing back.
        unsafe { pair.refused() };
    }
    ended(entered, site, code, object);
    code
}

#[inline(never)]
pub unsafe fn clSetMemObjectDestructorCallback(
    site: Site,
    real: f::clSetMemObjectDestructorCallback,
    memobj: H,
    pfn_notify: P,
    user_data: P,
) -> i32 {
    // SAFETY: see `destructor`.
    unsafe { destructor(site, real, memobj, pfn_notify, user_data) }
}

#[inline(never)]
pub unsafe fn clSetMemObjectDestructorAPPLE(
    site: Site,
    real: f::clSetMemObjectDestructorAPPLE,
    memobj: H,
    pfn_notify: P,
    user_data: P,
) -> i32 {
    // SAFETY: see `destructor`.
    unsafe { destructor(site, real, memobj, pfn_notify, user_data) }
}

/// A command without memory object, size and geometry.
fn describe_command(site: Site, kind: CommandKind, waits: (u32, *const H), event: *mut H) -> What {
    What {
        site,
        kind,
        object: H::NULL,
        object2: H::NULL,
        bytes: 0,
        blocking: false,
        waits,
        event,
        extra: 0,
        geometry: Geometry::NONE,
    }
}

#[inline(never)]
pub unsafe fn clEnqueueNativeKernel(
    site: Site,
    real: f::clEnqueueNativeKernel,
    command_queue: H,
    user_func: P,
    args: P,
    cb_args: usize,
    num_mem_objects: u32,
    mem_list: *const H,
    args_mem_loc: P,
    num_events: u32,
    event_list: *const H,
    event: *mut H,
) -> i32 {
    // What the runtime would refuse goes through unchanged and unread, so that it is refused for its
    // own reason.
    let odd = user_func.is_null()
        || device_time::queue(command_queue).is_none()
        || (args.is_null() && (cb_args > 0 || num_mem_objects > 0))
        || (!args.is_null() && cb_args == 0);
    let wrapped = (!odd)
        .then(|| {
            guard::protect(None, || {
                // SAFETY: by the specification's rules, checked above as far as pointers go.
                Some(unsafe {
                    NativeArguments::new(user_func, args, cb_args, args_mem_loc, num_mem_objects)
                })
            })
        })
        .flatten();
    let (function, block, size, locations) =
        wrapped.as_ref().map_or((user_func, args, cb_args, args_mem_loc), |w| w.parts(cb_args));
    let words = || vec![objects::word(command_queue), cb_args as u64, u64::from(num_mem_objects)];
    let call = |event| {
        // SAFETY: the application's call with its function and arguments wrapped; the runtime
        // copies the block.
        unsafe {
            real(
                command_queue,
                function,
                block,
                size,
                num_mem_objects,
                mem_list,
                locations,
                num_events,
                event_list,
                event,
            )
        }
    };
    // SAFETY: the application's arguments, passed on.
    unsafe {
        enqueue::run(
            describe_command(site, CommandKind::NativeKernel, (num_events, event_list), event),
            command_queue,
            false,
            words,
            call,
        )
    }
}

#[inline(never)]
pub unsafe fn clEnqueueSVMFree(
    site: Site,
    real: f::clEnqueueSVMFree,
    command_queue: H,
    count: u32,
    pointers: P,
    pfn_free_func: P,
    user_data: P,
    num_events: u32,
    event_list: *const H,
    event: *mut H,
) -> i32 {
    let pair = callbacks::svm_free(pfn_free_func, user_data);
    let is_read = !pointers.is_null() && device_time::queue(command_queue).is_some();
    if pfn_free_func.is_null() && is_read {
        for at in 0..count as usize {
            // SAFETY: the application's list, which the call is about to read.
            given::freed(unsafe { pointers.cast::<P>().add(at).read_unaligned() });
        }
    }
    let words = || vec![objects::word(command_queue), u64::from(count)];
    let call = |event| {
        // SAFETY: the application's call with its callback wrapped.
        unsafe {
            real(
                command_queue,
                count,
                pointers,
                pair.function,
                pair.data,
                num_events,
                event_list,
                event,
            )
        }
    };
    // SAFETY: the application's arguments, passed on.
    let code = unsafe {
        enqueue::run(
            describe_command(site, CommandKind::SvmFree, (num_events, event_list), event),
            command_queue,
            false,
            words,
            call,
        )
    };
    if code != 0 {
        // SAFETY: a call that failed calls nothing back.
        unsafe { pair.refused() };
    }
    code
}

#[inline(never)]
pub unsafe fn clEnqueueSVMFreeARM(
    site: Site,
    real: f::clEnqueueSVMFreeARM,
    command_queue: H,
    count: usize,
    pointers: P,
    pfn_free_func: P,
    user_data: P,
    num_events: usize,
    event_list: *const H,
    event: *mut H,
) -> i32 {
    // SAFETY: the same function under another name; whole words and cl_uint are passed alike.
    unsafe {
        let real = std::mem::transmute::<f::clEnqueueSVMFreeARM, f::clEnqueueSVMFree>(real);
        clEnqueueSVMFree(
            site,
            real,
            command_queue,
            count as u32,
            pointers,
            pfn_free_func,
            user_data,
            num_events as u32,
            event_list,
            event,
        )
    }
}
