//! Other copies of this library in the process: preloaded from one file and a layer from another,
//! say. Each has its own state and sees the same calls; one of them records. They ask each other
//! through `clGetLayerInfo`, which every copy exports and a loader never asks in this way.

use crate::abi::entry::P;
use crate::os::objects::{self, is_ours};
use std::ffi::c_void;

/// What is asked: whether the copy records this process. A parameter that no specification has.
pub const RECORDS: u32 = 0x636c_7363;

type GetLayerInfo = unsafe extern "C-unwind" fn(u32, usize, P, *mut usize) -> i32;

/// Whether another copy records this process or is about to.
pub fn records() -> bool {
    let mut asked = Vec::new();
    objects::find(|object| {
        asked.extend(object.function(c"clGetLayerInfo").filter(|ask| !is_ours(*ask)));
        None::<()>
    });
    // Not while the objects are listed: another layer's function may do what it likes.
    // SAFETY: exports of that name, which libraries have that are never closed, copies of this one,
    // or that the loader has open, layers.
    asked.into_iter().any(|ask| unsafe { answers(ask) })
}

/// # Safety
/// `ask` is a function `clGetLayerInfo`.
unsafe fn answers(ask: *mut c_void) -> bool {
    // SAFETY: the function of this name has this signature in every layer.
    let ask = unsafe { std::mem::transmute::<*mut c_void, GetLayerInfo>(ask) };
    let (mut answer, mut size) = (0u32, 0usize);
    // SAFETY: room for four bytes and for their number.
    let code = unsafe { ask(RECORDS, size_of::<u32>(), (&raw mut answer).cast(), &mut size) };
    (code, size, answer) == (0, size_of::<u32>(), 1)
}
