//! Extension functions: pointers that runtimes hand out are replaced by ours, which call them.

use super::command_buffer;
use crate::abi::entry::{H, P, Site};
use crate::abi::functions::{COUNT, FUNCTIONS};
use crate::abi::signatures as f;
use crate::facts::objects;
use crate::os::objects::is_ours;
use crate::recording::{diag, guard};
use crate::runtime::real;
use once_cell::race::OnceRef;
use std::ffi::CStr;

/// The function to hand out for a slot and a function.
pub type Address = fn(usize, u16) -> P;

static ADDRESS: OnceRef<'static, Address> = OnceRef::new();

/// Where addresses of the library's own functions come from. Told before any is needed.
pub fn addresses(of: &'static Address) {
    // The same each time.
    let _ = ADDRESS.set(of);
}

/// The pointer to give to the application in place of `theirs`.
///
/// # Safety
/// `name` is the C string that the runtime has just found a function under.
pub unsafe fn replacement(name: P, theirs: P) -> P {
    if theirs.is_null() || name.is_null() || is_ours(theirs) {
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
        real::known_behind(*s, function) == theirs
            || command_buffer::stands_for(*s, function, theirs)
    };
    let slot = slots
        .clone()
        .find(held)
        .or_else(|| slots.clone().find(|s| real::known(*s, function).is_null()))
        .or_else(|| real::left_extension(function));
    let Some(slot) = slot else {
        diag::warn(
            "function-left-out",
            &format!(
                "{} is known by more addresses in this process than the {} that can be told apart: calls through another one are not recorded",
                name.to_string_lossy(),
                slots.len()
            ),
        );
        return theirs;
    };
    let to = command_buffer::stand_in(slot, function, theirs);
    // SAFETY: the runtime gave `theirs` under the function's name (caller's promise).
    unsafe { real::set_extension(slot, function, to, theirs) };
    ADDRESS.get().map_or(theirs, |address| address(slot, function))
}

#[inline(never)]
pub unsafe fn clGetExtensionFunctionAddress(
    site: Site,
    real: f::clGetExtensionFunctionAddress,
    name: P,
) -> P {
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
) -> P {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(platform, name) } };
    // SAFETY: as above.
    let theirs = guard::real_call(&entered, || unsafe { real(platform, name) });
    // SAFETY: the runtime has read the name.
    let ours = guard::protect(theirs, || unsafe { replacement(name, theirs) });
    entered.call(site.function, 0, &[theirs as u64, objects::word(platform)]);
    ours
}
