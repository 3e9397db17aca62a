//! OpenCL loaders in the process, and the functions that they define. Looks first behind us in the
//! order that the application linked, then among what was opened later, and opens a loader itself
//! where there is none.
//!
//! Nothing here takes the dynamic linker's lock in a thread of the application's: a library's
//! constructor may hold it and wait for that thread. The one exception opens a loader, where the
//! application would have found none.

use super::owners;
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::objects::{self, Object};
use crate::os::threads;
use crate::recording::diag;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What every implementation of OpenCL exports.
const SIGN: &CStr = c"clGetPlatformIDs";

/// Places behind us of what the program started with: the first, and the end, which is 0 before it
/// is known.
static BEHIND: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Takes note of what the program starts with, when this library is loaded; or at the first call,
/// where another library's constructor makes it before.
pub fn note_start() -> Range<usize> {
    let [first, end] = &BEHIND;
    if end.load(Ordering::Acquire) == 0 {
        let (mut ours, mut c_library, mut count) = (0, 0, 0);
        objects::find(|object| {
            count = object.place + 1;
            if holds_us(object) {
                ours = object.place;
            }
            if object.holds(libc::abort as *const c_void as usize) {
                c_library = object.place;
            }
            None::<()>
        });
        // What is preloaded comes before what the program is linked to. What is opened comes last:
        // then nothing lies behind us.
        let behind = if ours < c_library { ours + 1..count } else { count..count };
        first.store(behind.start, Ordering::Relaxed);
        end.store(behind.end, Ordering::Release);
    }
    first.load(Ordering::Relaxed)..end.load(Ordering::Acquire)
}

fn holds_us(object: &Object<'_>) -> bool {
    object.holds(note_start as *const c_void as usize)
}

/// A function of another library than this one.
#[derive(Clone, Copy)]
pub struct Found {
    pub address: *mut c_void,
    /// Whether it is of the implementation that answers clGetPlatformIDs, or stands before it.
    pub same: bool,
}

/// The function of this name that the application would have got without us.
pub fn function(name: &CStr) -> Option<Found> {
    let find = || linked(name).or_else(|| opened(name));
    let served = || linked(SIGN).or_else(|| opened(SIGN)).is_some();
    find().or_else(|| if !served() && open() { find() } else { None })
}

/// The function in the first library behind us that the program started with.
fn linked(name: &CStr) -> Option<Found> {
    let behind = note_start();
    let mut answers = None;
    objects::find(|object| {
        if !behind.contains(&object.place) {
            return None;
        }
        if answers.is_none() && object.function(SIGN).is_some() {
            answers = Some(object.place);
        }
        let address = object.function(name)?;
        Some(Found { address, same: answers.is_none_or(|place| place == object.place) })
    })
}

/// The function in a library that was opened later: bundled with a Python wheel, say. One that is
/// named like an OpenCL loader comes before any other that exports the API (a driver that can be
/// linked directly).
fn opened(name: &CStr) -> Option<Found> {
    let behind = note_start();
    // Where we were opened ourselves, the loader was there before.
    let from = if behind.is_empty() { 0 } else { behind.end };
    let search = |named: bool| {
        objects::find(|object| {
            let serves = object.place >= from
                && names_a_loader(object.name) == named
                && !holds_us(object)
                && object.function(SIGN).is_some();
            serves.then(|| Some((object.function(name)?, object.name.to_owned())))
        })
    };
    let (address, file) = search(true).or_else(|| search(false))??;
    keep(address, file);
    Some(Found { address, same: true })
}

/// The function of this name in the loader that defines `neighbour`, if that is one.
pub fn beside(neighbour: *const c_void, name: &CStr) -> Option<*mut c_void> {
    let (address, file) = objects::find(|object| {
        object.holds(neighbour as usize).then(|| {
            let loader = names_a_loader(object.name) && !holds_us(object);
            Some((loader.then(|| object.function(name)).flatten()?, object.name.to_owned()))
        })
    })??;
    keep(address, file);
    Some(address)
}

fn names_a_loader(file: &CStr) -> bool {
    let file = file.to_bytes().rsplit(|b| *b == b'/').next().unwrap_or_default();
    file.windows(6).any(|w| w == b"OpenCL")
}

/// Libraries that are kept.
static KEPT: ForkSafe<Vec<owners::Object>> = ForkSafe::new();

/// Keeps the library of a function in the process: what came with a plugin would go with it, and we
/// go on calling the addresses that we found. A thread of our own opens it once more, since that
/// takes the linker's lock; the program keeps it meanwhile, as it is using it.
fn keep(function: *const c_void, file: CString) {
    let Some(object) = owners::Object::find(function) else { return };
    let new = KEPT.with(|kept| {
        let new = !kept.contains(&object);
        if new {
            kept.push(object);
        }
        new
    });
    if new == Some(true) && !file.is_empty() {
        // Without a thread it stays as long as the application leaves it.
        let _ = threads::spawn(c"clscope-keep", move || {
            let _is_loaded = open_file(&file, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        });
    }
}

/// Opens a library, for good.
fn open_file(file: &CStr, how: c_int) -> bool {
    #[expect(clippy::disallowed_methods, reason = "the only place that opens libraries")]
    // SAFETY: a C string. Loading a library runs its constructors; an OpenCL loader's are what the
    // application asks for.
    let handle = unsafe { libc::dlopen(file.as_ptr(), how) };
    !handle.is_null()
}

/// Opens a loader where none is in the process: the application found our symbols by itself
/// (`dlsym(RTLD_DEFAULT, ...)`).
fn open() -> bool {
    let how = libc::RTLD_NOW | libc::RTLD_LOCAL;
    let opened = [c"libOpenCL.so.1", c"libOpenCL.so"].into_iter().any(|name| open_file(name, how));
    if !opened {
        diag::warn(
            "no-loader",
            "the application calls OpenCL, and no OpenCL loader (libOpenCL.so.1) is in the process or can be opened: its calls fail. Install one (Debian: apt-get install ocl-icd-libopencl1)",
        );
    }
    opened
}

/// Whether a handle begins as loaders want it: with the address of a table of functions. Others
/// are known to the library alone that gave them out.
pub fn has_table(handle: usize) -> bool {
    let word = |at: usize| {
        let there = at != 0 && at.is_multiple_of(8) && !crate::os::memory::is_unmapped(at);
        // SAFETY: aligned, in a page that is mapped; only mappings without any rights are not
        // readable, and no handle is an address in one.
        there.then(|| unsafe { (at as *const usize).read() })
    };
    // Some drivers leave the first entry, clGetPlatformIDs, out.
    let entry = |table: usize, at: usize| word(table.checked_add(at * size_of::<usize>())?);
    word(handle)
        .is_some_and(|table| (1..7).all(|at| entry(table, at).is_some_and(objects::is_code)))
}
