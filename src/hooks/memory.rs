//! Memory objects: what their images hold, their destructors; native kernels and SVM frees, which
//! carry callbacks.

use crate::abi::entry::{H, P, Site};
use crate::facts::geometry::Geometry;
use crate::facts::objects;
use crate::features::launch::{self, What};
use crate::hooks::callbacks::{self, NativeArguments};
use crate::recording::guard;
use clscope_trace::record::CommandKind;
use std::ptr::null_mut;

/// Bytes of an element of an image of this cl_image_format; 0 if the format is not known to us.
pub fn element_size(format: P) -> u64 {
    if format.is_null() {
        return 0;
    }
    // SAFETY: a cl_image_format is two cl_uint; the runtime has accepted it.
    let (order, kind) = unsafe { (*format.cast::<u32>(), *format.cast::<u32>().add(1)) };
    let channels = match order {
        // R, A, Rx, INTENSITY, LUMINANCE, DEPTH
        0x10B0 | 0x10B1 | 0x10BA | 0x10B8 | 0x10B9 | 0x10BD => 1,
        // RG, RA, RGx
        0x10B2 | 0x10B3 | 0x10BB => 2,
        // RGB, RGBx, sRGB, sRGBx
        0x10B4 | 0x10BC | 0x10BF | 0x10C0 => 3,
        // RGBA, BGRA, ARGB, sRGBA, sBGRA, ABGR
        0x10B5 | 0x10B6 | 0x10B7 | 0x10C1 | 0x10C2 | 0x10C3 => 4,
        _ => return 0,
    };
    match kind {
        // SNORM_INT8, UNORM_INT8, SIGNED_INT8, UNSIGNED_INT8
        0x10D0 | 0x10D2 | 0x10D7 | 0x10DA => channels,
        // SNORM_INT16, UNORM_INT16, SIGNED_INT16, UNSIGNED_INT16, HALF_FLOAT
        0x10D1 | 0x10D3 | 0x10D8 | 0x10DB | 0x10DD => channels * 2,
        // SIGNED_INT32, UNSIGNED_INT32, FLOAT
        0x10D9 | 0x10DC | 0x10DE => channels * 4,
        // UNORM_SHORT_565, UNORM_SHORT_555
        0x10D4 | 0x10D5 => 2,
        // UNORM_INT_101010, UNORM_INT_101010_2
        0x10D6 | 0x10E0 => 4,
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
        pair.refused();
    }
    entered.plain(site.function, code, || objects::id(object), Some(0), || [objects::word(object)]);
    code
}

#[inline(never)]
pub unsafe fn clSetMemObjectDestructorCallback(
    site: Site,
    real: unsafe extern "C-unwind" fn(H, P, P) -> i32,
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
    real: unsafe extern "C-unwind" fn(H, P, P) -> i32,
    memobj: H,
    pfn_notify: P,
    user_data: P,
) -> i32 {
    // SAFETY: see `destructor`.
    unsafe { destructor(site, real, memobj, pfn_notify, user_data) }
}

/// A command without memory object, size and geometry.
fn what(site: Site, kind: CommandKind, waits: (u32, *const H), event: *mut H) -> What {
    What {
        site,
        kind,
        object: null_mut(),
        object2: null_mut(),
        bytes: 0,
        blocking: false,
        waits,
        event,
        extra: 0,
        geometry: Geometry::NONE,
    }
}

type NativeKernel =
    unsafe extern "C-unwind" fn(H, P, P, usize, u32, *const H, P, u32, *const H, *mut H) -> i32;

#[expect(
    clippy::too_many_arguments,
    reason = "the function's own, with site and real function in front"
)]
#[inline(never)]
pub unsafe fn clEnqueueNativeKernel(
    site: Site,
    real: NativeKernel,
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
    // What the runtime would refuse goes through unchanged, so that it is refused for its own
    // reason.
    let odd = user_func.is_null()
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
    launch::run(
        what(site, CommandKind::NativeKernel, (num_events, event_list), event),
        command_queue,
        false,
        words,
        |event| {
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
        },
    )
}

type SvmFree = unsafe extern "C-unwind" fn(H, u32, P, P, P, u32, *const H, *mut H) -> i32;

#[expect(
    clippy::too_many_arguments,
    reason = "the function's own, with site and real function in front"
)]
#[inline(never)]
pub unsafe fn clEnqueueSVMFree(
    site: Site,
    real: SvmFree,
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
    let words = || vec![objects::word(command_queue), u64::from(count)];
    let code = launch::run(
        what(site, CommandKind::SvmFree, (num_events, event_list), event),
        command_queue,
        false,
        words,
        |event| {
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
        },
    );
    if code != 0 {
        pair.refused();
    }
    code
}

type SvmFreeArm = unsafe extern "C-unwind" fn(H, usize, P, P, P, usize, *const H, *mut H) -> i32;

#[expect(
    clippy::too_many_arguments,
    reason = "the function's own, with site and real function in front"
)]
#[inline(never)]
pub unsafe fn clEnqueueSVMFreeARM(
    site: Site,
    real: SvmFreeArm,
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
        let real: SvmFree = std::mem::transmute::<SvmFreeArm, SvmFree>(real);
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
