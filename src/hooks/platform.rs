//! Platforms and devices: they get ids when the application sees them, and a description when it
//! makes a context of them.

use super::discovery;
use crate::abi::entry::{H, P, Site};
use crate::abi::signatures as f;
use crate::facts::objects;
use crate::recording::guard;
use crate::runtime::real;

/// Gives ids to what a call has listed: the first of it.
///
/// # Safety
/// `list` is NULL or has room for `room` handles, of which the call wrote `*count` or fewer;
/// `count` is NULL or written.
unsafe fn listed(list: *mut H, room: u32, count: P) -> H {
    let mut first = H::NULL;
    if list.is_null() {
        return first;
    }
    // SAFETY: the caller's promise.
    let written = if count.is_null() { room } else { unsafe { *count.cast::<u32>() }.min(room) };
    // Without the count it is unknown how many were written: only the first surely was.
    let sure = if count.is_null() { written.min(1) } else { written };
    for i in 0..sure as usize {
        // SAFETY: within what the call wrote.
        let handle = unsafe { *list.add(i) };
        objects::seen(handle);
        if i == 0 {
            first = handle;
        }
    }
    first
}

#[inline(never)]
pub unsafe fn clGetPlatformIDs(
    site: Site,
    real: f::clGetPlatformIDs,
    num_entries: u32,
    platforms: *mut H,
    num_platforms: P,
) -> i32 {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(num_entries, platforms, num_platforms) };
    };
    // SAFETY: as above.
    let code =
        guard::real_call(&entered, || unsafe { real(num_entries, platforms, num_platforms) });
    if code == 0 {
        guard::protect((), || {
            // SAFETY: the call succeeded.
            let first = unsafe { listed(platforms, num_entries, num_platforms) };
            real::shown(site.slot, first.word());
        });
    }
    entered.plain(
        site.function,
        code,
        || 0,
        (num_entries < 1 << 21).then_some(num_entries),
        || [u64::from(num_entries)],
    );
    code
}

#[inline(never)]
pub unsafe fn clGetDeviceIDs(
    site: Site,
    real: f::clGetDeviceIDs,
    platform: H,
    device_type: u64,
    num_entries: u32,
    devices: *mut H,
    num_devices: P,
) -> i32 {
    let Some(mut entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(platform, device_type, num_entries, devices, num_devices) };
    };
    let turn = discovery::turn(platform);
    entered.start_now();
    // SAFETY: as above.
    let code = guard::real_call(&entered, || unsafe {
        real(platform, device_type, num_entries, devices, num_devices)
    });
    drop(turn);
    if code == 0 {
        // SAFETY: the call succeeded.
        guard::protect(H::NULL, || unsafe { listed(devices, num_entries, num_devices) });
    }
    entered.call(
        site.function,
        code,
        &[objects::word(platform), device_type, u64::from(num_entries)],
    );
    code
}
