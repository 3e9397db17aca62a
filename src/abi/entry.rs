//! Types used in rows of the table, and the error code in a returned value.

use clscope_trace::defs::ArgumentKind;
use clscope_trace::record::RESULT_UNKNOWN;
use std::ffi::{CStr, c_void};

/// An OpenCL handle. Never dereferenced by the recorder, so that functions which look one up or hand it
/// to the runtime are safe: whether it is live is the application's promise to the runtime, made by the
/// call in which it came, or the recorder's own where it holds a reference. What reads or writes
/// through a pointer that it is given is `unsafe`, or takes a reference instead.
pub type H = *mut c_void;
/// Any other pointer, a function pointer among them: passed on as it is.
pub type P = *mut c_void;

/// What is known of an entry point besides its row.
pub struct FunctionInfo {
    pub name: &'static CStr,
    pub origin: &'static str,
    pub group: &'static str,
    /// It has a hook of its own: it is watched also while nothing is recorded.
    pub hooked: bool,
    pub arguments: &'static [(&'static str, ArgumentKind)],
    pub small: &'static [(u8, u8)],
    pub object: Option<u8>,
}

/// Where a call came in: which table of real functions, which function.
#[derive(Clone, Copy)]
pub struct Site {
    pub slot: usize,
    pub function: u16,
}

/// The error code in a return value, 0 for success.
pub trait Returned: Copy {
    /// The error code. `errcode` is the application's `errcode_ret`, or NULL.
    ///
    /// # Safety
    /// `errcode` is NULL or points to what the runtime has just written.
    unsafe fn code(self, errcode: *const i32) -> i32;
    /// What a call returns when its real function does not exist.
    fn missing() -> Self;
}

impl Returned for i32 {
    #[inline(always)]
    unsafe fn code(self, _: *const i32) -> i32 {
        self
    }
    fn missing() -> Self {
        // What a loader answers for a function that the driver lacks.
        super::constants::CL_INVALID_OPERATION
    }
}

impl Returned for () {
    #[inline(always)]
    unsafe fn code(self, _: *const i32) -> i32 {
        0
    }
    fn missing() -> Self {}
}

impl Returned for H {
    #[inline(always)]
    unsafe fn code(self, errcode: *const i32) -> i32 {
        if !self.is_null() {
            0
        } else if errcode.is_null() {
            RESULT_UNKNOWN
        } else {
            // SAFETY: not NULL, and the runtime has written it (caller's contract).
            match unsafe { *errcode } {
                0 => RESULT_UNKNOWN,
                code => code,
            }
        }
    }
    fn missing() -> Self {
        std::ptr::null_mut()
    }
}
