//! The layer ABI of loaders: cl_layer.h, and for loaders from 2026 clInitLayerWithProperties of the
//! registry.

use crate::abi::constants as cl;
use crate::abi::entry::P;
use crate::abi::functions::COUNT;
use crate::abi::table::DISPATCH;
use crate::os::locks::fork_safe::ForkSafe;
use crate::recording::{diag, guard, state};
use crate::runtime::{copies, owners, real};
use crate::shell::exports;
use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

const CL_LAYER_API_VERSION_100: u32 = 100;
const NAME: &[u8] = b"clscope\0";
/// Most entries of a dispatch table that the layer can replace; newer ones are passed through.
const ENTRIES: usize = 512;

/// One loader's way through us, by the index of its slot among [`real::LAYERS`].
struct Slot {
    /// The table that the loader calls: ours.
    table: [AtomicPtr<c_void>; ENTRIES],
    /// What it called without us.
    below: [AtomicPtr<c_void>; ENTRIES],
    /// The object that the loader is; none before the slot's first use.
    loader: owners::Owner,
}

static OURS: [Slot; 2] = [const {
    Slot {
        table: [const { AtomicPtr::new(std::ptr::null_mut()) }; ENTRIES],
        below: [const { AtomicPtr::new(std::ptr::null_mut()) }; ENTRIES],
        loader: owners::Owner::none(),
    }
}; 2];
/// Loaders may come in several threads at once.
static TAKING: ForkSafe<()> = ForkSafe::new();

/// What the loader asks before it takes us.
///
/// # Safety
/// As in the specification of clGetLayerInfo.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clGetLayerInfo(
    param_name: u32,
    size: usize,
    value: P,
    size_ret: *mut usize,
) -> i32 {
    let version = CL_LAYER_API_VERSION_100.to_ne_bytes();
    let records = u32::from(state::begun()).to_ne_bytes();
    let answer: &[u8] = match param_name {
        cl::CL_LAYER_API_VERSION => &version,
        cl::CL_LAYER_NAME => NAME,
        copies::RECORDS => &records,
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
pub unsafe extern "C-unwind" fn clInitLayer(
    entries: u32,
    target: *const *mut c_void,
    entries_ret: *mut u32,
    layer: *mut *const c_void,
) -> i32 {
    exports::ready();
    guard::protect(cl::CL_INVALID_VALUE, || {
        if target.is_null() || entries_ret.is_null() || layer.is_null() {
            return cl::CL_INVALID_VALUE;
        }
        // SAFETY: the loader's promise.
        let below = unsafe { std::slice::from_raw_parts(target, entries as usize) };
        // SAFETY: the loader's promise.
        let Some(place) = TAKING.with(|()| unsafe { take(below) }).flatten() else {
            diag::warn(
                "loader-left-out",
                "more OpenCL loaders with layers are open in this process than the two that can be told apart: calls through another one are not recorded. Record with --inject preload,audit",
            );
            // SAFETY: checked above.
            unsafe { (*entries_ret, *layer) = (entries, target.cast()) };
            return 0;
        };
        // SAFETY: checked above.
        unsafe {
            (*entries_ret, *layer) = (entries.min(ENTRIES as u32), place.table.as_ptr().cast())
        };
        0
    })
}

/// Gives a loader that calls `below` a slot, unless there is none for it. A process forked in the
/// middle of it finds a slot half filled, which the next one that asks for it fills again.
///
/// # Safety
/// `below` is a loader's table in the order of `struct _cl_icd_dispatch`.
unsafe fn take(below: &[*mut c_void]) -> Option<&'static Slot> {
    let index = choose(below)?;
    let (place, slot) = (OURS.get(index)?, real::LAYERS.clone().nth(index)?);
    place.take(below);
    for (at, (cell, function)) in place.table.iter().zip(below).enumerate() {
        let ours = match DISPATCH.get(at) {
            Some(id) if (*id as usize) < COUNT && !function.is_null() => {
                // SAFETY: the caller's promise: the table has the order of `DISPATCH`.
                unsafe { real::set(slot, *id, *function) };
                exports::address(slot, *id)
            }
            _ => *function,
        };
        cell.store(ours, Ordering::Relaxed);
    }
    Some(place)
}

impl Slot {
    /// Keeps whose slot it is.
    fn take(&self, below: &[*mut c_void]) {
        for (cell, function) in self.below.iter().zip(below) {
            cell.store(*function, Ordering::Relaxed);
        }
        self.loader.set(loader_of(below));
    }

    /// Whether it leads to these functions already. Then it can serve any loader that calls them.
    fn leads_to(&self, below: &[*mut c_void]) -> bool {
        self.loader.get().is_some()
            && self
                .below
                .iter()
                .zip(below)
                .all(|(known, now)| std::ptr::eq(known.load(Ordering::Relaxed), *now))
    }
}

/// The slot for a loader that calls `below`: the one that leads there already; the one whose
/// loader lay at the same place under the same name, and so has been opened anew; one never used;
/// one whose loader has left the process. An address alone says nothing: a loader that is closed
/// and opened again may come back to where it was, and another library may lie there.
fn choose(below: &[*mut c_void]) -> Option<usize> {
    let loader = loader_of(below);
    let first = |wanted: &dyn Fn(&Slot) -> bool| OURS.iter().position(wanted);
    first(&|slot| slot.leads_to(below))
        .or_else(|| first(&|slot| loader.is_some() && slot.loader.get() == loader))
        .or_else(|| first(&|slot| slot.loader.get().is_none()))
        .or_else(|| first(&|slot| slot.loader.has_left()))
}

/// The object that the first function of a table lies in.
fn loader_of(below: &[*mut c_void]) -> Option<owners::Object> {
    below.iter().find(|f| !f.is_null()).and_then(|f| owners::Object::find(*f))
}

/// As [`clInitLayer`], for loaders that pass properties; we know none, and a layer may ignore what
/// it does not know.
///
/// # Safety
/// As [`clInitLayer`].
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clInitLayerWithProperties(
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
pub extern "C-unwind" fn clDeinitLayer() -> i32 {
    0
}
