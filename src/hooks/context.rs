//! Contexts.

use super::calls::{ended, ended_query};
use super::discovery;
use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Returned, Site};
use crate::abi::signatures as f;
use crate::facts::contexts;
use crate::facts::objects;
use crate::features::{capture, device_time};
use crate::hooks::callbacks;
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashMap;
use crate::recording::guard::{self, Entered};

/// The application's references of each context. Contexts are few and their calls rare.
static REFERENCES: ForkSafe<HashMap<usize, i64>> = ForkSafe::new();

/// Changes the application's reference count of a context; the new count, if the context is known.
fn references(context: H, change: i64) -> Option<i64> {
    let changed = REFERENCES.with(|counts| {
        let count = counts.get_mut(&context.word())?;
        *count += change;
        let now = *count;
        if now <= 0 {
            counts.remove(&context.word());
        }
        Some(now)
    });
    changed.flatten()
}

/// # Safety
/// `errcode` is NULL, or was written by the call.
unsafe fn created(site: Site, entered: Entered, context: H, errcode: *mut i32, words: &[u64]) {
    // SAFETY: the caller's promise.
    let code = unsafe { context.code(errcode) };
    let end = crate::recording::now();
    let mut context_id = 0;
    if code == 0 {
        guard::protect((), || {
            context_id = objects::created(context, 0);
            REFERENCES.with(|counts| counts.insert(context.word(), 1));
            contexts::describe(site, context, context_id);
        });
    }
    let mut all = vec![u64::from(context_id)];
    all.extend_from_slice(words);
    entered.call_at(site.function, code, &all, end);
}

#[inline(never)]
pub unsafe fn clCreateContext(
    site: Site,
    real: f::clCreateContext,
    properties: P,
    num_devices: u32,
    devices: *const H,
    pfn_notify: P,
    user_data: P,
    errcode_ret: *mut i32,
) -> H {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        let context =
            unsafe { real(properties, num_devices, devices, pfn_notify, user_data, errcode_ret) };
        super::calls::created_unrecorded(context, || 0);
        return context;
    };
    let pair = callbacks::context_notify(pfn_notify, user_data);
    // SAFETY: the application's call with its callback wrapped.
    let context = guard::real_call(&entered, || unsafe {
        real(properties, num_devices, devices, pair.function, pair.data, errcode_ret)
    });
    if context.is_null() {
        // SAFETY: a call that failed calls nothing back.
        unsafe { pair.refused() };
    }
    // SAFETY: errcode_ret is NULL or was written.
    unsafe { created(site, entered, context, errcode_ret, &[u64::from(num_devices)]) };
    context
}

/// The platform that a context's properties name, NULL for the runtime's own choice.
///
/// # Safety
/// `properties` is NULL or a list of pairs that ends with a 0.
unsafe fn named_platform(properties: *const isize) -> H {
    if properties.is_null() {
        return H::NULL;
    }
    for pair in 0.. {
        // SAFETY: the pairs before were no end of the list.
        let (name, value) = unsafe { (*properties.add(2 * pair), properties.add(2 * pair + 1)) };
        match name {
            0 => break,
            // SAFETY: a name has a value, here the application's platform.
            name if name == cl::CL_CONTEXT_PLATFORM as isize => unsafe {
                return H::from_word(*value as usize);
            },
            _ => {}
        }
    }
    H::NULL
}

#[inline(never)]
pub unsafe fn clCreateContextFromType(
    site: Site,
    real: f::clCreateContextFromType,
    properties: P,
    device_type: u64,
    pfn_notify: P,
    user_data: P,
    errcode_ret: *mut i32,
) -> H {
    let Some(mut entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        let context = unsafe { real(properties, device_type, pfn_notify, user_data, errcode_ret) };
        super::calls::created_unrecorded(context, || 0);
        return context;
    };
    let pair = callbacks::context_notify(pfn_notify, user_data);
    // SAFETY: the application's list of properties.
    let turn = discovery::turn(unsafe { named_platform(properties.cast()) });
    entered.start_now();
    // SAFETY: the application's call with its callback wrapped.
    let context = guard::real_call(&entered, || unsafe {
        real(properties, device_type, pair.function, pair.data, errcode_ret)
    });
    drop(turn);
    if context.is_null() {
        // SAFETY: a call that failed calls nothing back.
        unsafe { pair.refused() };
    }
    // SAFETY: errcode_ret is NULL or was written.
    unsafe { created(site, entered, context, errcode_ret, &[device_type]) };
    context
}

#[inline(never)]
pub unsafe fn clRetainContext(site: Site, real: f::clRetainContext, context: H) -> i32 {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(context) } };
    // SAFETY: as above.
    let code = guard::real_call(&entered, || unsafe { real(context) });
    if code == 0 {
        references(context, 1);
    }
    ended(entered, site, code, context);
    code
}

#[inline(never)]
pub unsafe fn clReleaseContext(site: Site, real: f::clReleaseContext, context: H) -> i32 {
    // SAFETY: the application's own call.
    let Some(mut entered) = guard::enter(site) else { return unsafe { real(context) } };
    if references(context, -1).is_some_and(|left| left <= 0) {
        guard::protect((), || device_time::context_abandoned(entered.thread, context));
        guard::unseen(|| guard::protect((), || capture::lifetimes::context_ends(context.word())));
        entered.start_now();
    }
    // SAFETY: the application's own call.
    let code = guard::real_call(&entered, || unsafe { real(context) });
    ended(entered, site, code, context);
    code
}

#[inline(never)]
pub unsafe fn clTerminateContextKHR(site: Site, real: f::clTerminateContextKHR, context: H) -> i32 {
    // SAFETY: the application's own call.
    let Some(mut entered) = guard::enter(site) else { return unsafe { real(context) } };
    guard::protect((), || device_time::context_abandoned(entered.thread, context));
    entered.start_now();
    // SAFETY: the application's own call.
    let code = guard::real_call(&entered, || unsafe { real(context) });
    ended(entered, site, code, context);
    code
}

#[inline(never)]
pub unsafe fn clGetContextInfo(
    site: Site,
    real: f::clGetContextInfo,
    context: H,
    param_name: u32,
    size: usize,
    value: P,
    size_ret: P,
) -> i32 {
    let Some(mut entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(context, param_name, size, value, size_ret) };
    };
    if param_name == cl::CL_CONTEXT_REFERENCE_COUNT {
        // Events of complete commands hold their context in some runtimes: ours must not be seen.
        guard::protect((), || device_time::look_at_context(entered.thread, Some(context)));
        let word = context.word();
        guard::unseen(|| guard::protect((), || capture::lifetimes::context_counted(word)));
        entered.start_now();
    }
    // SAFETY: as above.
    let code =
        guard::real_call(&entered, || unsafe { real(context, param_name, size, value, size_ret) });
    ended_query(entered, site, code, context, param_name);
    code
}

#[inline(never)]
pub unsafe fn clSetContextDestructorCallback(
    site: Site,
    real: f::clSetContextDestructorCallback,
    context: H,
    pfn_notify: P,
    user_data: P,
) -> i32 {
    // SAFETY: the three functions have one signature and one rule.
    unsafe { super::memory::destructor(site, real, context, pfn_notify, user_data) }
}
