//! The layer ABI of loaders: cl_layer.h, and for loaders from 2026 clInitLayerWithProperties of the
//! registry.

use crate::abi::constants as cl;
use crate::abi::entry::P;
use crate::abi::functions::{COUNT, DISPATCH};
use crate::recording::guard;
use crate::runtime::real;
use crate::shell::{exports, lifecycle};
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

const CL_LAYER_API_VERSION_100: u32 = 100;
const NAME: &[u8] = b"clscope\0";
/// Most entries of a dispatch table that the layer can replace; newer ones are passed through.
const ENTRIES: usize = 512;

static TABLES: [[AtomicPtr<c_void>; ENTRIES]; 2] =
    [const { [const { AtomicPtr::new(std::ptr::null_mut()) }; ENTRIES] }; 2];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// What the loader asks before it takes us.
///
/// # Safety
/// As in the specification of clGetLayerInfo.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetLayerInfo(
    param_name: u32,
    size: usize,
    value: P,
    size_ret: *mut usize,
) -> i32 {
    let version = CL_LAYER_API_VERSION_100.to_ne_bytes();
    let answer: &[u8] = match param_name {
        cl::CL_LAYER_API_VERSION => &version,
        cl::CL_LAYER_NAME => NAME,
        _ => return cl::CL_INVALID_VALUE,
    };
    if !value.is_null() {
        if size < answer.len() {
            return cl::CL_INVALID_VALUE;
        }
        // SAFETY: `size` bytes may be written (caller's contract).
        unsafe { std::ptr::copy_nonoverlapping(answer.as_ptr(), value.cast(), answer.len()) };
    }
    if !size_ret.is_null() {
        // SAFETY: the caller's pointer.
        unsafe { *size_ret = answer.len() };
    }
    0
}

/// Puts us between a loader and what is below it.
///
/// # Safety
/// `target` is a table of `entries` function pointers in the order of `struct _cl_icd_dispatch`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clInitLayer(
    entries: u32,
    target: *const *mut c_void,
    entries_ret: *mut u32,
    layer: *mut *const c_void,
) -> i32 {
    lifecycle::ready();
    guard::protect(cl::CL_INVALID_VALUE, || {
        if target.is_null() || entries_ret.is_null() || layer.is_null() {
            return cl::CL_INVALID_VALUE;
        }
        // SAFETY: the loader's promise.
        let below = unsafe { std::slice::from_raw_parts(target, entries as usize) };
        let index = take_slot();
        let (Some(table), Some(slot)) = (TABLES.get(index), real::LAYERS.clone().nth(index)) else {
            // More loaders than the recorder has tables for: this one runs unrecorded. SAFETY:
            // checked above.
            unsafe { (*entries_ret, *layer) = (entries, target.cast()) };
            return 0;
        };
        for (at, (cell, function)) in table.iter().zip(below).enumerate() {
            let ours = match DISPATCH.get(at) {
                Some(id) if (*id as usize) < COUNT && !function.is_null() => {
                    real::set(slot, *id, *function);
                    exports::address(slot, *id)
                }
                _ => *function,
            };
            cell.store(ours, Ordering::Relaxed);
        }
        // SAFETY: checked above.
        unsafe { (*entries_ret, *layer) = (entries.min(ENTRIES as u32), table.as_ptr().cast()) };
        0
    })
}

/// A free slot: one never used, or one whose loader has left the process.
fn take_slot() -> usize {
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    if next < TABLES.len() {
        return next;
    }
    real::LAYERS
        .clone()
        .position(|slot| {
            real::object_of(real::known(slot, crate::abi::functions::id::clGetPlatformIDs))
                .is_none()
        })
        .unwrap_or(usize::MAX)
}

/// As [`clInitLayer`], for loaders that pass properties; we know none, and a layer may ignore what
/// it does not know.
///
/// # Safety
/// As [`clInitLayer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clInitLayerWithProperties(
    entries: u32,
    target: *const *mut c_void,
    entries_ret: *mut u32,
    layer: *mut *const c_void,
    _properties: *const u64,
) -> i32 {
    // SAFETY: handed on.
    unsafe { clInitLayer(entries, target, entries_ret, layer) }
}

/// The loader is done with us. Our tables stay valid: the library is never unloaded.
#[unsafe(no_mangle)]
pub extern "C" fn clDeinitLayer() -> i32 {
    0
}
