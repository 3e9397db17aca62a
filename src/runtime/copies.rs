//! Other copies of this library in the process: preloaded from one file and a layer from another,
//! say. Each has its own state and sees the same calls; one of them records. They ask each other
//! through `clGetLayerInfo`, which every copy exports and a loader never asks in this way.

use super::loaders;
use crate::abi::entry::P;
use crate::os::objects;
use std::ffi::{CString, c_void};

/// What is asked: whether the copy records this process. A parameter that no specification has.
pub const RECORDS: u32 = 0x636c_7363;

type GetLayerInfo = unsafe extern "C-unwind" fn(u32, usize, P, *mut usize) -> i32;

/// The file of another copy that records this process or is about to, if there is one.
pub fn recording() -> Option<CString> {
    objects::files().into_iter().find(|file| {
        let Some(library) = loaders::loaded(file) else { return false };
        let ask = loaders::defined(&library, c"clGetLayerInfo");
        // A look-up in a handle also searches what the object depends on.
        let own = objects::holding(ask, |_, name| name == file.as_c_str()).unwrap_or(false);
        // SAFETY: another copy's own export, as was looked up.
        own && unsafe { answers(ask) }
    })
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
