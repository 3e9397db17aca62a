//! Extension functions: pointers that runtimes hand out are replaced by ours, which call them.

use super::command_buffer;
use crate::abi::entry::{H, P, Site};
use crate::abi::functions::{COUNT, FUNCTIONS};
use crate::abi::signatures as f;
use crate::facts::objects;
use crate::recording::guard;
use crate::runtime::real;
use crate::shell::exports;
use std::ffi::CStr;

/// What the audit shim asks: the function to bind in place of the one at `bound` that a loader
/// defines as `name`.
///
/// # Safety
/// `name` is a C string, `bound` the address of that function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clscope_bind(name: P, bound: H) -> H {
    // SAFETY: the caller's promise.
    guard::protect(bound, || unsafe { replacement(name, bound) })
}

/// The pointer to give to the application in place of `theirs`.
///
/// # Safety
/// `name` is the C string that the runtime has just found a function under.
unsafe fn replacement(name: P, theirs: H) -> H {
    if theirs.is_null() || name.is_null() || real::is_ours(theirs) {
        return theirs;
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name.cast()) };
    let Some(function) = FUNCTIONS.iter().position(|f| f.name == name).filter(|i| *i < COUNT)
    else {
        return theirs;
    };
    let function = function as u16;
    // One slot per distinct pointer: two platforms may both have the function.
    let slots = real::EXTENSIONS.clone();
    let held = |s: &usize| {
        real::known(*s, function) == theirs || command_buffer::stands_for(*s, function, theirs)
    };
    let slot = slots
        .clone()
        .find(held)
        .or_else(|| slots.clone().find(|s| real::known(*s, function).is_null()));
    match slot {
        Some(slot) => {
            real::set(slot, function, command_buffer::stand_in(slot, function, theirs));
            exports::address(slot, function)
        }
        None => theirs,
    }
}

#[inline(never)]
pub unsafe fn clGetExtensionFunctionAddress(
    site: Site,
    real: f::clGetExtensionFunctionAddress,
    name: P,
) -> H {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(name) } };
    // SAFETY: as above.
    let theirs = guard::real_call(&entered, || unsafe { real(name) });
    // SAFETY: the runtime has read the name.
    let ours = guard::protect(theirs, || unsafe { replacement(name, theirs) });
    entered.call(site.function, 0, &[theirs as u64]);
    ours
}

#[inline(never)]
pub unsafe fn clGetExtensionFunctionAddressForPlatform(
    site: Site,
    real: f::clGetExtensionFunctionAddressForPlatform,
    platform: H,
    name: P,
) -> H {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(platform, name) } };
    // SAFETY: as above.
    let theirs = guard::real_call(&entered, || unsafe { real(platform, name) });
    // SAFETY: the runtime has read the name.
    let ours = guard::protect(theirs, || unsafe { replacement(name, theirs) });
    entered.call(site.function, 0, &[theirs as u64, objects::word(platform)]);
    ours
}
