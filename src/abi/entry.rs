//! Types used in rows of the table, and the error code in a returned value.

use clscope_trace::defs::ArgumentKind;
use clscope_trace::record::RESULT_UNKNOWN;
use std::ffi::{CStr, c_void};

/// An OpenCL handle, with the promise that the runtime may be handed it: it is NULL, or came from the
/// application in a call, which promises the runtime that the object is live, or from the runtime.
/// Functions that ask the runtime about a handle are safe for that reason. The recorder never
/// dereferences one. What it keeps beyond the call are [words](H::word), which look an object up and
/// are no handles: whoever makes one of a word again says why the object still lives.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct H(*mut c_void);

impl H {
    /// No object.
    pub const NULL: Self = Self(std::ptr::null_mut());

    /// The handle that has this value.
    ///
    /// # Safety
    /// NULL, or the handle of an object that is live for as long as the runtime is asked about it.
    #[inline(always)]
    pub const unsafe fn from_word(word: usize) -> Self {
        Self(word as *mut c_void)
    }

    /// Its value: a key that finds the object while it lives.
    #[inline(always)]
    pub fn word(self) -> usize {
        self.0 as usize
    }

    /// Whether it is no object.
    #[inline(always)]
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

/// Any other pointer, a function pointer among them: passed on as it is.
pub type P = *mut c_void;

/// What is known of an entry point.
pub struct FunctionInfo {
    pub name: &'static CStr,
    pub origin: &'static str,
    pub group: &'static str,
    /// It has a hook of its own: it is watched also while nothing is recorded.
    pub hooked: bool,
    pub arguments: &'static [ArgumentInfo],
}

/// An argument that the trace keeps.
pub struct ArgumentInfo {
    pub name: &'static str,
    pub kind: ArgumentKind,
    /// How much of it a plain record holds: a number up to 21 bits, an object all of its id, others
    /// nothing.
    pub bits: u8,
}

/// Width of an object's id.
pub const ID_BITS: u8 = 32;

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
    /// The memory that it returned, 0 where it returns none.
    #[inline(always)]
    fn address(self) -> usize {
        0
    }
}

impl Returned for i32 {
    #[inline(always)]
    unsafe fn code(self, _: *const i32) -> i32 {
        self
    }
    fn missing() -> Self {
        // What a loader answers for a function that the driver lacks.
        clscope_trace::codes::CL_INVALID_OPERATION
    }
}

impl Returned for () {
    #[inline(always)]
    unsafe fn code(self, _: *const i32) -> i32 {
        0
    }
    fn missing() -> Self {}
}

impl Returned for P {
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
    #[inline(always)]
    fn address(self) -> usize {
        self as usize
    }
}

impl Returned for H {
    #[inline(always)]
    unsafe fn code(self, errcode: *const i32) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { self.0.code(errcode) }
    }
    fn missing() -> Self {
        Self::NULL
    }
}
