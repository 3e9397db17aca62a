//! Finds the functions of the runtime that the application would have used without us.
//!
//! Each way into the recorder has its own table: slot 0 the exported symbols, slots 1 and 2 layers
//! (one per loader in the process), slots 3 to 5 extension pointers (one per distinct pointer that
//! a runtime gave for the same name).

use crate::abi::functions::{COUNT, FUNCTIONS};
use crate::recording::{diag, guard};
use once_cell::race::OnceRef;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

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

/// Ways that have stand-ins: preload and layers.
const STANDING: usize = LAYERS.end;

/// The functions behind stand-ins.
static TRUE: [[AtomicPtr<c_void>; COUNT]; STANDING] =
    [const { [const { AtomicPtr::new(std::ptr::null_mut()) }; COUNT] }; STANDING];

/// Asks for a stand-in wherever a function is found from now on. Told before any is.
pub fn stand_ins(of: &'static StandIn) {
    // The same each time.
    let _ = STAND_INS.set(of);
}

/// The function behind a stand-in, NULL if there is none.
fn behind(slot: usize, function: u16) -> *mut c_void {
    let cell = TRUE.get(slot).and_then(|s| s.get(function as usize));
    cell.map_or(std::ptr::null_mut(), |cell| cell.load(Ordering::Acquire))
}

/// Fills a slot.
pub fn set(slot: usize, function: u16, found: *mut c_void) {
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
            set(slot, function, there);
            return there;
        }
    }
    for layer in LAYERS {
        let there = known(layer, function);
        if !there.is_null() {
            return there;
        }
    }
    match known(PRELOAD, function) {
        unknown if unknown.is_null() => find(PRELOAD, function),
        known => known,
    }
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
        let behind = behind(slot, self.id);
        // SAFETY: found under this function's name.
        unsafe { self.at(if behind.is_null() { found } else { behind }) }
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
    let Some(name) = FUNCTIONS.get(function as usize).map(|f| f.name) else {
        return std::ptr::null_mut();
    };
    let Some(neighbour) = (0..COUNT as u16).map(|f| known(slot, f)).find(|f| !f.is_null()) else {
        return std::ptr::null_mut();
    };
    // SAFETY: an all-zero Dl_info is valid; dladdr accepts any address.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable; a name of the dynamic linker is a C string.
    unsafe {
        if libc::dladdr(neighbour, &mut info) == 0
            || info.dli_fname.is_null()
            || !CStr::from_ptr(info.dli_fname).to_bytes().windows(6).any(|w| w == b"OpenCL")
        {
            return std::ptr::null_mut();
        }
        let loader = libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        let found = if loader.is_null() {
            std::ptr::null_mut()
        } else {
            libc::dlsym(loader, name.as_ptr())
        };
        if is_ours(found) { std::ptr::null_mut() } else { found }
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
    let found = guard::protect(std::ptr::null_mut(), || in_loaders(info.name));
    set(slot, function, found);
    known(slot, function)
}

/// Handle of the loader found by a walk, so that the walk is made once.
static LOADER: AtomicUsize = AtomicUsize::new(0);

fn in_loaders(name: &CStr) -> *mut c_void {
    // SAFETY: `name` is a C string; RTLD_NEXT looks behind us in the order that the application
    // linked.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if !next.is_null() && !is_ours(next) {
        keep(next);
        return next;
    }
    let mut loader = LOADER.load(Ordering::Acquire) as *mut c_void;
    if loader.is_null() {
        loader = loaded_loader();
        if loader.is_null() {
            loader = opened_loader();
        }
        LOADER.store(loader as usize, Ordering::Release);
    }
    if loader.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: a handle of dlopen that is never closed.
    let found = unsafe { libc::dlsym(loader, name.as_ptr()) };
    if is_ours(found) { std::ptr::null_mut() } else { found }
}

/// Keeps the library of a function in the process: what came with a plugin (dlopen, RTLD_GLOBAL)
/// would go with it, and we go on calling the addresses that we found.
fn keep(function: *const c_void) {
    static KEPT: AtomicUsize = AtomicUsize::new(0);
    // SAFETY: as in `object_of`.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable; RTLD_NOLOAD only takes another handle of what is loaded, which is
    // never given back.
    unsafe {
        if libc::dladdr(function, &mut info) != 0
            && !info.dli_fname.is_null()
            && KEPT.swap(info.dli_fbase as usize, Ordering::Relaxed) != info.dli_fbase as usize
        {
            libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        }
    }
}

/// A mapped object, told from another that came to lie at the same address later.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Object {
    base: usize,
    /// FNV-1a of its name.
    name: u64,
}

impl Object {
    /// The object that holds an address.
    pub fn of(address: *const c_void) -> Option<Self> {
        // SAFETY: an all-zero Dl_info is valid.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is writable, and dladdr accepts any address.
        if address.is_null() || unsafe { libc::dladdr(address, &mut info) } == 0 {
            return None;
        }
        let name = if info.dli_fname.is_null() {
            c""
        } else {
            // SAFETY: a name of the dynamic linker is a C string.
            unsafe { CStr::from_ptr(info.dli_fname) }
        };
        let hash = name.to_bytes().iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Some(Self { base: info.dli_fbase as usize, name: hash })
    }
}

/// The object that a slot's functions come from, or none.
pub struct Owner {
    base: AtomicUsize,
    name: AtomicU64,
}

impl Owner {
    /// Nobody's.
    pub const fn none() -> Self {
        Self { base: AtomicUsize::new(0), name: AtomicU64::new(0) }
    }

    pub fn set(&self, to: Option<Object>) {
        let (base, name) = to.map_or((0, 0), |o| (o.base, o.name));
        self.name.store(name, Ordering::Relaxed);
        self.base.store(base, Ordering::Relaxed);
    }

    pub fn get(&self) -> Option<Object> {
        let base = self.base.load(Ordering::Relaxed);
        (base != 0).then(|| Object { base, name: self.name.load(Ordering::Relaxed) })
    }

    /// Whether it had one that is no longer in the process: another object, or none, lies there.
    pub fn has_left(&self) -> bool {
        self.get().is_some_and(|o| Object::of(o.base as *const c_void) != Some(o))
    }
}

static EXTENSION_OWNERS: [[Owner; COUNT]; EXTENSIONS.end - EXTENSIONS.start] =
    [const { [const { Owner::none() }; COUNT] }; EXTENSIONS.end - EXTENSIONS.start];

fn extension_owners(slot: usize) -> Option<&'static [Owner; COUNT]> {
    slot.checked_sub(EXTENSIONS.start).and_then(|i| EXTENSION_OWNERS.get(i))
}

/// Fills a slot of extension pointers, and keeps which object the function belongs to.
pub fn set_extension(slot: usize, function: u16, to: *mut c_void, theirs: *const c_void) {
    set(slot, function, to);
    if let Some(owner) = extension_owners(slot).and_then(|o| o.get(function as usize)) {
        owner.set(Object::of(theirs));
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

/// Whether an address lies in this library.
pub fn is_ours(address: *const c_void) -> bool {
    object_of(address).is_some_and(|base| Some(base) == object_of(is_ours as *const c_void))
}

/// Base address of the object that holds `address`.
pub fn object_of(address: *const c_void) -> Option<usize> {
    if address.is_null() {
        return None;
    }
    // SAFETY: an all-zero Dl_info is valid, and dladdr accepts any address.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable.
    (unsafe { libc::dladdr(address, &mut info) } != 0).then_some(info.dli_fbase as usize)
}

/// A loader that is in the process already, outside the global scope: bundled with a Python wheel,
/// say. A library named like an OpenCL loader comes before any other that exports the API (a driver
/// that can be linked directly).
fn loaded_loader() -> *mut c_void {
    unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _: usize, out: *mut c_void) -> i32 {
        // SAFETY: `out` is the vector below, `info` is valid during the call.
        let (out, name) =
            unsafe { (&mut *out.cast::<Vec<std::ffi::CString>>(), (*info).dlpi_name) };
        if !name.is_null() {
            // SAFETY: the dynamic linker's names are C strings.
            let name = unsafe { CStr::from_ptr(name) };
            if !name.is_empty() {
                out.push(name.to_owned());
            }
        }
        0
    }
    let mut names: Vec<std::ffi::CString> = Vec::new();
    // SAFETY: `collect` has the right type and `names` outlives the call. It only copies names:
    // dlopen is not allowed in there.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut names).cast()) };
    let mut fallback = std::ptr::null_mut();
    for name in &names {
        // SAFETY: RTLD_NOLOAD only gives a handle to what is loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if handle.is_null() {
            continue;
        }
        // SAFETY: a valid handle and a C string.
        let symbol = unsafe { libc::dlsym(handle, c"clGetPlatformIDs".as_ptr()) };
        // dlsym on a handle also searches what the object depends on: it must be the object itself
        // that defines it.
        if symbol.is_null() || is_ours(symbol) || !defined_in(symbol, name) {
            // SAFETY: opened above.
            unsafe { libc::dlclose(handle) };
            continue;
        }
        let file = name.to_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
        if file.windows(6).any(|w| w == b"OpenCL") {
            return handle;
        }
        fallback = handle;
    }
    fallback
}

fn defined_in(symbol: *const c_void, object: &CStr) -> bool {
    // SAFETY: as in `object_of`.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable; dli_fname is a C string while the object stays loaded, which our
    // handle guarantees.
    unsafe {
        libc::dladdr(symbol, &mut info) != 0
            && !info.dli_fname.is_null()
            && CStr::from_ptr(info.dli_fname) == object
    }
}

/// No loader is in the process: the application found our symbols by itself (`dlsym(RTLD_DEFAULT,
/// ...)`).
fn opened_loader() -> *mut c_void {
    for name in ["libOpenCL.so.1", "libOpenCL.so"] {
        // SAFETY: loading a library runs its constructors; the OpenCL loader's are what the
        // application asks for.
        if let Ok(library) = unsafe {
            libloading::os::unix::Library::open(Some(name), libc::RTLD_NOW | libc::RTLD_LOCAL)
        } {
            return library.into_raw();
        }
    }
    diag::warn(
        "no-loader",
        "the application calls OpenCL, and no OpenCL loader (libOpenCL.so.1) is in the process or can be opened: its calls fail. Install one (Debian: apt-get install ocl-icd-libopencl1)",
    );
    std::ptr::null_mut()
}
