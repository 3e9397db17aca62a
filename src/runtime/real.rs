//! Finds the functions of the runtime that the application would have used without us.
//!
//! Each way into the recorder has its own table: slot 0 the exported symbols, slots 1 and 2 layers
//! (one per loader in the process), slots 3 to 5 extension pointers (one per distinct pointer that
//! a runtime gave for the same name).

use super::loaders;
use super::owners::{Object, Owner};
use crate::abi::functions::{COUNT, FUNCTIONS};
use crate::recording::guard;
use once_cell::race::OnceRef;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Slot of the exported symbols.
pub const PRELOAD: usize = 0;
/// Slots of layers.
pub const LAYERS: std::ops::Range<usize> = 1..3;
/// Slots of extension pointers.
pub const EXTENSIONS: std::ops::Range<usize> = 3..6;
/// Number of slots.
pub const SLOTS: usize = 6;

static REAL: [[AtomicPtr<c_void>; COUNT]; SLOTS] =
    [const { [const { AtomicPtr::new(std::ptr::null_mut()) }; COUNT] }; SLOTS];

/// What a slot holds, without looking any further: for rows of the table.
///
/// # Safety
/// `slot` is below SLOTS, `function` below COUNT.
#[inline(always)]
pub unsafe fn known_of_row(slot: usize, function: u16) -> *mut c_void {
    // SAFETY: the caller's promise.
    let cell = unsafe { REAL.get_unchecked(slot).get_unchecked(function as usize) };
    cell.load(Ordering::Relaxed)
}

/// What stands in for a function in a slot, if anything does.
pub type StandIn = fn(usize, u16) -> Option<*mut c_void>;

static STAND_INS: OnceRef<'static, StandIn> = OnceRef::new();

/// The functions behind stand-ins.
static TRUE: [[AtomicPtr<c_void>; COUNT]; SLOTS] =
    [const { [const { AtomicPtr::new(std::ptr::null_mut()) }; COUNT] }; SLOTS];

/// Asks for a stand-in wherever a function is found from now on. Told before any is.
///
/// # Safety
/// What it gives for a function has that function's signature and contract.
pub unsafe fn stand_ins(of: &'static StandIn) {
    // The same each time.
    let _ = STAND_INS.set(of);
}

/// The function behind a stand-in, NULL if there is none.
fn behind(slot: usize, function: u16) -> *mut c_void {
    let cell = TRUE.get(slot).and_then(|s| s.get(function as usize));
    cell.map_or(std::ptr::null_mut(), |cell| cell.load(Ordering::Acquire))
}

/// Fills a slot.
///
/// # Safety
/// `found` is NULL or that function of a runtime, and lives as long as the slot is used.
pub unsafe fn set(slot: usize, function: u16, found: *mut c_void) {
    let mut to = found;
    if let (false, Some(cell), Some(of)) =
        (found.is_null(), TRUE.get(slot).and_then(|s| s.get(function as usize)), STAND_INS.get())
        && let Some(stand_in) = of(slot, function)
    {
        cell.store(found, Ordering::Release);
        to = stand_in;
    }
    if let Some(cell) = REAL.get(slot).and_then(|s| s.get(function as usize)) {
        cell.store(to, Ordering::Relaxed);
    }
}

/// What a slot holds, without looking any further.
pub fn known(slot: usize, function: u16) -> *mut c_void {
    REAL.get(slot)
        .and_then(|s| s.get(function as usize))
        .map_or(std::ptr::null_mut(), |c| c.load(Ordering::Relaxed))
}

/// What a slot holds, the function itself where another stands in for it.
pub fn known_behind(slot: usize, function: u16) -> *mut c_void {
    let known = known(slot, function);
    let behind = behind(slot, function);
    if known.is_null() || behind.is_null() { known } else { behind }
}

/// The real function for a call of our own in the same runtime as `slot`: extension slots hold only
/// what was asked for, so core functions come from the way that is in use.
pub fn own(slot: usize, function: u16) -> *mut c_void {
    let here = known(slot, function);
    if !here.is_null() {
        return here;
    }
    if EXTENSIONS.contains(&slot) {
        let there = beside(slot, function);
        if !there.is_null() {
            // SAFETY: found under this function's name.
            unsafe { set(slot, function, there) };
            return there;
        }
    }
    for layer in LAYERS {
        let there = known(layer, function);
        if !there.is_null() {
            return there;
        }
    }
    let found = match known(PRELOAD, function) {
        unknown if unknown.is_null() => find(PRELOAD, function),
        known => known,
    };
    let other = OTHERS.get(function as usize).is_some_and(|other| other.load(Ordering::Relaxed));
    if other && !passed_on() { std::ptr::null_mut() } else { found }
}

/// Functions among the exported ones that are of another library than answers clGetPlatformIDs: of
/// the loader behind a preloaded implementation that has not all of them.
static OTHERS: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// A platform that the application was shown by the exported functions, 0 before it was.
static SHOWN: AtomicUsize = AtomicUsize::new(0);

/// The application was shown a platform, which is how handles of its implementation look.
pub fn shown(slot: usize, platform: usize) {
    if slot == PRELOAD {
        let _ = SHOWN.compare_exchange(0, platform, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Whether a loader can pass on calls about the implementation's handles.
fn passed_on() -> bool {
    loaders::has_table(SHOWN.load(Ordering::Relaxed))
}

/// A function of the runtime, with its type.
pub struct Function<F> {
    id: u16,
    signature: PhantomData<F>,
}

impl<F: Copy> Function<F> {
    /// The function of that id.
    ///
    /// # Safety
    /// `F` is a function pointer of that function's signature.
    pub const unsafe fn new(id: u16) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        Self { id, signature: PhantomData }
    }

    /// As [`own`].
    pub fn own(&self, slot: usize) -> Option<F> {
        // SAFETY: found under this function's name.
        unsafe { self.at(own(slot, self.id)) }
    }

    /// As [`own`](Self::own), the function itself where another stands in for it.
    pub fn behind(&self, slot: usize) -> Option<F> {
        let found = own(slot, self.id);
        // The slot's own, or another way's, which may have a stand-in, too.
        let held_by = std::iter::once(slot)
            .chain(0..SLOTS)
            .find(|slot| !found.is_null() && known(*slot, self.id) == found);
        // SAFETY: found under this function's name.
        unsafe { self.at(held_by.map_or(found, |slot| known_behind(slot, self.id))) }
    }

    /// The function that a stand-in in this slot stands for.
    pub fn stood_for(&self, slot: usize) -> Option<F> {
        // SAFETY: found under this function's name.
        unsafe { self.at(behind(slot, self.id)) }
    }

    /// The function at an address, `None` for NULL.
    ///
    /// # Safety
    /// `address` is NULL or that of a function of this name.
    pub unsafe fn at(&self, address: *mut c_void) -> Option<F> {
        // SAFETY: a pointer of the size of `F` (see `new`), to a function of this type.
        (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
    }
}

/// The function in the loader that the slot's other functions come from, where they come from a
/// loader: with two in a process each must get its own handles back.
#[cold]
fn beside(slot: usize, function: u16) -> *mut c_void {
    let name = FUNCTIONS.get(function as usize).map(|f| f.name);
    let neighbour = (0..COUNT as u16).map(|f| known_behind(slot, f)).find(|f| !f.is_null());
    match name.zip(neighbour) {
        Some((name, neighbour)) => loaders::beside(neighbour, name).unwrap_or(std::ptr::null_mut()),
        None => std::ptr::null_mut(),
    }
}

/// Looks for the real function of a slot; NULL if there is none.
#[cold]
#[inline(never)]
pub fn find(slot: usize, function: u16) -> *mut c_void {
    if slot != PRELOAD {
        return std::ptr::null_mut();
    }
    let Some(info) = FUNCTIONS.get(function as usize) else { return std::ptr::null_mut() };
    let found = guard::protect(None, || loaders::function(info.name));
    if let (Some(found), Some(other)) = (found, OTHERS.get(function as usize)) {
        other.store(!found.same, Ordering::Relaxed);
    }
    let address = found.map_or(std::ptr::null_mut(), |found| found.address);
    // SAFETY: found under this function's name.
    unsafe { set(slot, function, address) };
    known(slot, function)
}

static EXTENSION_OWNERS: [[Owner; COUNT]; EXTENSIONS.end - EXTENSIONS.start] =
    [const { [const { Owner::none() }; COUNT] }; EXTENSIONS.end - EXTENSIONS.start];

fn extension_owners(slot: usize) -> Option<&'static [Owner; COUNT]> {
    slot.checked_sub(EXTENSIONS.start).and_then(|i| EXTENSION_OWNERS.get(i))
}

/// Fills a slot of extension pointers, and keeps which object the function belongs to.
///
/// # Safety
/// As [`set`], for `to`.
pub unsafe fn set_extension(slot: usize, function: u16, to: *mut c_void, theirs: *const c_void) {
    // SAFETY: the caller's promise.
    unsafe { set(slot, function, to) };
    if let Some(owner) = extension_owners(slot).and_then(|o| o.get(function as usize)) {
        owner.set(Object::find(theirs));
    }
}

/// A slot of extension pointers whose function belongs to a library that has left the process;
/// emptied of all that came from libraries that have left.
pub fn left_extension(function: u16) -> Option<usize> {
    let left = |slot: &usize| {
        extension_owners(*slot).and_then(|o| o.get(function as usize)).is_some_and(Owner::has_left)
    };
    let slot = EXTENSIONS.clone().find(left)?;
    let cells = REAL.get(slot)?;
    for (cell, owner) in cells.iter().zip(extension_owners(slot)?) {
        if owner.has_left() {
            cell.store(std::ptr::null_mut(), Ordering::Relaxed);
            owner.set(None);
        }
    }
    Some(slot)
}
