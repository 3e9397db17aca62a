//! Owns what becomes known of memory of the host that OpenCL gives the application
//! ([`crate::facts::given`]): which calls give it out and take it back, recorded or not. Refuses to
//! say whether it is pinned: what it was made with tells a reader.

use super::calls::{ended, outermost_unrecorded};
use super::checked::parts::{Rows, three};
use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Returned, Site};
use crate::abi::signatures as f;
use crate::facts::arguments::ask;
use crate::facts::given::{self, Given};
use crate::facts::objects;
use crate::recording::guard::{self, Thread};
use crate::recording::{ring, state};
use crate::runtime::functions as api;
use clscope_trace::record::{CommandKind, Detail, detail};

/// What an enqueue has to do with such memory.
#[derive(Clone, Copy)]
pub enum Use {
    /// Nothing.
    None,
    /// It moves bytes from or to the host's memory that begins there.
    Transfer(P),
    /// It maps as many bytes.
    Map(usize),
    /// The region that was mapped there ends.
    Unmap(P),
}

impl Use {
    /// A transfer of a rectangle.
    ///
    /// # Safety
    /// `origin` and `region` are NULL or have three entries.
    #[inline(always)]
    pub unsafe fn rows(
        host: P,
        origin: *const usize,
        region: *const usize,
        pitches: (usize, usize),
    ) -> Self {
        // SAFETY: the caller's promise.
        let (origin, region) = unsafe { (three(origin), three(region)) };
        let begin = origin
            .zip(region)
            .and_then(|(origin, region)| Rows::new(origin, region, pitches))
            .map_or(0, |rows| rows.begin);
        Self::Transfer(host.cast::<u8>().wrapping_add(begin as usize).cast())
    }

    /// A region of an image is mapped, as far as its pitches tell how far it reaches.
    ///
    /// # Safety
    /// The call has succeeded with these arguments.
    pub unsafe fn map_image(image: H, region: *const usize, row: P, slice: P) -> Self {
        // SAFETY: the caller's promise.
        let Some([width, rows, slices]) = (unsafe { three(region) }) else { return Self::None };
        // SAFETY: NULL, or written by the call: a size_t.
        let pitch = |of: P| unsafe { of.cast::<usize>().as_ref() }.map_or(0, |of| *of as u64);
        let (row, slice) = (pitch(row), pitch(slice));
        let bytes = width.saturating_mul(objects::element_size(image));
        // Images that have layers of one row put them a slice apart: as far as the row is sure.
        let more = |count: u64, pitch: u64| count.saturating_sub(1).saturating_mul(pitch);
        let all = bytes.saturating_add(more(rows, row)).saturating_add(more(slices, slice));
        Self::Map(usize::try_from(all).unwrap_or(usize::MAX))
    }
}

/// Whether commands of the kind give memory out or take it back.
pub const fn changes(kind: CommandKind) -> bool {
    matches!(kind, CommandKind::MapBuffer | CommandKind::MapImage | CommandKind::UnmapMemObject)
}

/// As [`changed`], of a call that is not recorded: while recording is paused or its group filtered
/// out, or from a signal handler in the middle of another call.
#[inline(always)]
pub fn unrecorded(site: Site, code: i32, object: H, of: impl FnOnce() -> Use, returned: usize) {
    if code == 0 && (inside(site) || outermost_unrecorded()) {
        changed(site, object, of(), returned);
    }
}

/// Whether a call is in the middle of another one that came in by the same way: the application's,
/// from a signal handler.
fn inside(site: Site) -> bool {
    guard::thread().depth.get() == 1 + site.slot as u8 && state::running()
}

/// A call that has succeeded maps a region of an object, or ends that.
#[inline(never)]
pub fn changed(site: Site, object: H, of: Use, returned: usize) {
    let own = || match of {
        Use::Map(bytes) => {
            let about = api::clGetMemObjectInfo.behind(site.slot);
            let flags = ask(about, object, cl::CL_MEM_FLAGS).unwrap_or(detail::FLAGS_UNKNOWN);
            let how = Given { how: detail::MAPPED, object: objects::id(object), flags };
            given::add(returned, bytes, how);
        }
        Use::Unmap(region) => given::remove(region as usize, objects::id(object)),
        Use::None | Use::Transfer(_) => {}
    };
    guard::unseen(|| guard::protect((), own));
}

/// Writes of a transfer whose own record is next which memory it uses, if OpenCL gave it.
#[inline(always)]
pub fn tell(t: &Thread, function: u16, host: P, time: u64) {
    if let Some(given) = given::find(host as usize) {
        let values = [given.how, given.object.into(), given.flags];
        let told = Detail { function, what: detail::HOST_MEMORY, site: 0, values };
        ring::detail(t, &told, time);
    }
}

/// Memory was allocated.
fn allocated(made: P, bytes: usize, how: u64, flags: u64) {
    given::add(made as usize, bytes, Given { how, object: 0, flags });
}

/// Memory is about to be freed.
pub fn freed(address: P) {
    given::remove(address as usize, 0);
}

#[inline(never)]
pub unsafe fn clReleaseMemObject(site: Site, real: f::clReleaseMemObject, memobj: H) -> i32 {
    // Asked for before: afterwards the object may be gone.
    let last = if given::any() { last_of(site, memobj) } else { None };
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call, argument untouched.
        let code = unsafe { real(memobj) };
        forget(last, code);
        return code;
    };
    // SAFETY: as above.
    let code = guard::real_call(&entered, || unsafe { real(memobj) });
    ended(entered, site, code, memobj);
    forget(last, code);
    code
}

/// The object that is released for good with this call while regions of it are mapped, if it is.
#[cold]
#[inline(never)]
fn last_of(site: Site, memobj: H) -> Option<u32> {
    let known = objects::id(memobj);
    (given::has(known) && is_last(site, memobj)).then_some(known)
}

/// What was mapped of an object that is no more is OpenCL's again.
#[inline(always)]
fn forget(last: Option<u32>, code: i32) {
    if let (Some(object), 0) = (last, code) {
        given::remove_all(object);
    }
}

/// Whether the application has one reference of an object, which is mapped.
fn is_last(site: Site, memobj: H) -> bool {
    let own = || {
        let about = api::clGetMemObjectInfo.behind(site.slot);
        ask::<u32>(about, memobj, cl::CL_MEM_REFERENCE_COUNT) == Some(1)
    };
    guard::unseen(|| guard::protect(false, own))
}

/// Makes a call that allocates memory, and knows it from then on.
///
/// # Safety
/// `errcode` is NULL or what `call` writes its error to; `words` are those of the function.
unsafe fn allocate(
    site: Site,
    call: impl FnOnce() -> P,
    errcode: *const i32,
    given: impl FnOnce(P),
    words: impl FnOnce(u64) -> [u64; 5],
    count: usize,
) -> P {
    super::calls::begin_making();
    let (entered, made) = super::calls::passed(site, call);
    if entered.is_some() || inside(site) {
        given(made);
    }
    if let Some(entered) = entered {
        // SAFETY: the caller's promise.
        let code = unsafe { made.code(errcode) };
        let words = words(made as u64);
        super::calls::made(entered, site.function, code, words.get(..count).unwrap_or(&[]));
    }
    made
}

#[inline(never)]
pub unsafe fn clSVMAlloc(
    site: Site,
    real: f::clSVMAlloc,
    context: H,
    flags: u64,
    size: usize,
    alignment: u32,
) -> P {
    // SAFETY: the application's own call, arguments untouched.
    let call = || unsafe { real(context, flags, size, alignment) };
    let given = |made| allocated(made, size, detail::SVM, flags);
    let words = |made| [made, objects::word(context), flags, size as u64, alignment.into()];
    // SAFETY: no errcode_ret here.
    unsafe { allocate(site, call, std::ptr::null(), given, words, 5) }
}

#[inline(never)]
pub unsafe fn clSVMAllocARM(
    site: Site,
    real: f::clSVMAllocARM,
    context: H,
    flags: usize,
    size: usize,
    alignment: usize,
) -> P {
    // SAFETY: the application's own call, arguments untouched.
    let call = || unsafe { real(context, flags, size, alignment) };
    let given = |made| allocated(made, size, detail::SVM, flags as u64);
    let words =
        |made| [made, objects::word(context), flags as u64, size as u64, (alignment as u32).into()];
    // SAFETY: no errcode_ret here.
    unsafe { allocate(site, call, std::ptr::null(), given, words, 5) }
}

#[inline(never)]
pub unsafe fn clHostMemAllocINTEL(
    site: Site,
    real: f::clHostMemAllocINTEL,
    context: H,
    properties: P,
    size: usize,
    alignment: usize,
    errcode_ret: *mut i32,
) -> P {
    // SAFETY: the application's own call, arguments untouched.
    let call = || unsafe { real(context, properties, size, alignment, errcode_ret) };
    let given = |made| allocated(made, size, detail::HOST_ALLOCATION, detail::FLAGS_UNKNOWN);
    let words = |made| [made, objects::word(context), size as u64, (alignment as u32).into(), 0];
    // SAFETY: the application's errcode_ret.
    unsafe { allocate(site, call, errcode_ret, given, words, 4) }
}

#[inline(never)]
pub unsafe fn clSharedMemAllocINTEL(
    site: Site,
    real: f::clSharedMemAllocINTEL,
    context: H,
    device: H,
    properties: P,
    size: usize,
    alignment: usize,
    errcode_ret: *mut i32,
) -> P {
    // SAFETY: the application's own call, arguments untouched.
    let call = || unsafe { real(context, device, properties, size, alignment, errcode_ret) };
    let given = |made| allocated(made, size, detail::SHARED_ALLOCATION, detail::FLAGS_UNKNOWN);
    let words = |made| {
        let (context, device) = (objects::word(context), objects::word(device));
        [made, context, device, size as u64, (alignment as u32).into()]
    };
    // SAFETY: the application's errcode_ret.
    unsafe { allocate(site, call, errcode_ret, given, words, 5) }
}

/// Makes a call that frees memory. What lies there next may be anything: it is forgotten before.
fn free<R: Returned>(site: Site, context: H, address: P, call: impl FnOnce() -> R) -> R {
    freed(address);
    let (entered, returned) = super::calls::passed(site, call);
    if let Some(entered) = entered {
        // SAFETY: no errcode_ret here.
        let code = unsafe { returned.code(std::ptr::null()) };
        ended(entered, site, code, context);
    }
    returned
}

#[inline(never)]
pub unsafe fn clSVMFree(site: Site, real: f::clSVMFree, context: H, svm_pointer: P) {
    // SAFETY: the application's own call, arguments untouched.
    free(site, context, svm_pointer, || unsafe { real(context, svm_pointer) });
}

#[inline(never)]
pub unsafe fn clSVMFreeARM(site: Site, real: f::clSVMFreeARM, context: H, svm_pointer: P) {
    // SAFETY: the application's own call, arguments untouched.
    free(site, context, svm_pointer, || unsafe { real(context, svm_pointer) });
}

#[inline(never)]
pub unsafe fn clMemFreeINTEL(site: Site, real: f::clMemFreeINTEL, context: H, ptr: P) -> i32 {
    // SAFETY: the application's own call, arguments untouched.
    free(site, context, ptr, || unsafe { real(context, ptr) })
}

#[inline(never)]
pub unsafe fn clMemBlockingFreeINTEL(
    site: Site,
    real: f::clMemBlockingFreeINTEL,
    context: H,
    ptr: P,
) -> i32 {
    // SAFETY: the application's own call, arguments untouched.
    free(site, context, ptr, || unsafe { real(context, ptr) })
}
