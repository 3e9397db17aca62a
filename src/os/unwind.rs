//! Walks up the calling thread's stack, frame by frame, with the unwinder that the standard library
//! brings along.

use std::ffi::c_void;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> i32,
        argument: *mut c_void,
    ) -> i32;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
}

/// What is done with a frame: an address in its code, and the lowest address of its stack; whether
/// to go on.
type Each<'a> = &'a mut dyn FnMut(usize, usize) -> bool;

/// Shows the frames, from the caller's on.
#[inline(never)]
pub fn frames(mut each: Each<'_>) {
    unsafe extern "C" fn frame(context: *mut c_void, each: *mut c_void) -> i32 {
        const GO_ON: i32 = 0;
        const STOP: i32 = 4; // _URC_NORMAL_STOP
        // SAFETY: the unwinder's context; the other is the caller's `each`, used by nobody else
        // meanwhile.
        unsafe {
            let each = &mut *each.cast::<Each<'_>>();
            let ip = _Unwind_GetIP(context);
            if ip != 0 && each(ip, _Unwind_GetCFA(context)) { GO_ON } else { STOP }
        }
    }
    // SAFETY: the function has the type that is asked for, and `each` outlives the walk.
    unsafe { _Unwind_Backtrace(frame, (&raw mut each).cast()) };
}
