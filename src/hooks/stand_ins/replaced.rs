//! Owns the stand-ins that change the application's call on request (`CLSCOPE_REPLACE`,
//! `CLSCOPE_LOCAL`, `CLSCOPE_APPEND_OPTIONS`). A changed launch that fails is made once more as the
//! application wrote it, and options are tried on another program before, so that nothing fails for
//! the change. [`crate::hooks::stand_ins`] puts them in place, in runs that ask for it. Refuses to decide
//! what is changed: `features::replace` does.

use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Returned};
use crate::abi::functions::id;
use crate::abi::signatures as f;
use crate::features::replace::{self, Instead, options};
use crate::hooks::stand_ins::tell::{outermost, recorded};
use crate::recording::{self, guard};
use crate::runtime::real::Function;
use std::cell::Cell;
use std::ptr::null_mut;

thread_local! {
    /// A launch is under way: what an inner layer sees of it is changed already.
    static LAUNCHING: Cell<bool> = const { Cell::new(false) };
}

/// The function that a stand-in stands for, or its answer where there is none.
macro_rules! real {
    ($name:ident, $slot:expr) => {{
        // Stored before the stand-in was handed out.
        // SAFETY: id and type are of one function.
        let function = unsafe { Function::<f::$name>::new(id::$name) };
        match function.stood_for($slot) {
            Some(real) => real,
            None => return <i32 as Returned>::missing(),
        }
    }};
}

/// Makes a launch that `look` decides about: `call` is given the kernel and the local size, where
/// they are not the application's.
fn launching<const S: usize>(
    kernel: H,
    look: impl FnOnce() -> Option<Instead>,
    call: impl Fn(Option<H>, Option<&[usize; 3]>) -> i32,
) -> i32 {
    struct Back;
    impl Drop for Back {
        fn drop(&mut self) {
            LAUNCHING.set(false);
        }
    }
    if LAUNCHING.replace(true) {
        return call(None, None);
    }
    // Also where a call of the application's is cancelled.
    let _back = Back;
    let begun = recording::now();
    let instead = guard::unseen(|| guard::protect(None, look));
    let took = recording::now().wrapping_sub(begun);
    let mut local = instead.as_ref().and_then(|instead| instead.local().copied());
    let mut code = match &instead {
        Some(instead) => call(instead.kernel(), instead.local()),
        None => call(None, None),
    };
    if let Some(instead) = &instead
        && code != 0
    {
        let changed = code;
        code = call(None, None);
        local = None;
        if code == 0 {
            guard::unseen(|| guard::protect((), || replace::failed(kernel, instead, changed)));
        }
    }
    if recorded(S) {
        replace::launched(local, took);
    }
    guard::unseen(|| guard::protect((), || drop(instead)));
    code
}

/// clEnqueueNDRangeKernel.
pub unsafe extern "C-unwind" fn launch<const S: usize>(
    queue: H,
    kernel: H,
    dimensions: u32,
    offset: *const usize,
    global: *const usize,
    local: *const usize,
    count: u32,
    list: *const H,
    event: *mut H,
) -> i32 {
    let real = real!(clEnqueueNDRangeKernel, S);
    // SAFETY: the application's own arguments.
    let look = || unsafe { replace::launch(S, queue, kernel, dimensions, [offset, global, local]) };
    launching::<S>(kernel, look, |instead, size| {
        let (kernel, local) = (instead.unwrap_or(kernel), size.map_or(local, |size| size.as_ptr()));
        // SAFETY: the application's call; a kernel of ours has the same arguments, and there are as
        // many sizes as dimensions.
        unsafe { real(queue, kernel, dimensions, offset, global, local, count, list, event) }
    })
}

/// clEnqueueTask.
pub unsafe extern "C-unwind" fn task<const S: usize>(
    queue: H,
    kernel: H,
    count: u32,
    list: *const H,
    event: *mut H,
) -> i32 {
    let real = real!(clEnqueueTask, S);
    // SAFETY: no sizes are given: only another kernel may take its place.
    let look = || unsafe { replace::launch(S, queue, kernel, 0, [std::ptr::null(); 3]) };
    launching::<S>(kernel, look, |instead, _| {
        // SAFETY: the application's call; a kernel of ours has the same arguments.
        unsafe { real(queue, instead.unwrap_or(kernel), count, list, event) }
    })
}

/// Builds a program with more options, or where it cannot be built so as the application asked.
///
/// # Safety
/// `options` is NULL or a C string. `call` makes the real call on a program with the options it is
/// given, and with the application's callback where told so.
unsafe fn building<const S: usize>(
    program: H,
    options: P,
    call: impl Fn(H, P, bool) -> i32,
) -> i32 {
    if !outermost(S) {
        return call(program, options, true);
    }
    // SAFETY: the caller's promise.
    let longer = guard::protect(None, || unsafe { options::longer(program, options) });
    let Some(mut longer) = longer else { return call(program, options, true) };
    let more: P = longer.as_mut_ptr().cast();
    let may = guard::unseen(|| {
        // SAFETY: the caller's promise.
        guard::protect(false, || unsafe {
            options::tried(S, program, options, |twin| call(twin, more, false))
        })
    });
    call(program, if may { more } else { options }, true)
}

/// clBuildProgram.
pub unsafe extern "C-unwind" fn build<const S: usize>(
    program: H,
    count: u32,
    devices: *const H,
    options: P,
    notify: P,
    data: P,
) -> i32 {
    let real = real!(clBuildProgram, S);
    // SAFETY: the application's own arguments, with its options or longer ones, on its program or
    // one of the same source.
    unsafe {
        building::<S>(program, options, |program, options, back| {
            let (notify, data) = if back { (notify, data) } else { (null_mut(), null_mut()) };
            real(program, count, devices, options, notify, data)
        })
    }
}

/// clCompileProgram.
pub unsafe extern "C-unwind" fn compile<const S: usize>(
    program: H,
    count: u32,
    devices: *const H,
    options: P,
    headers: u32,
    texts: *const H,
    names: P,
    notify: P,
    data: P,
) -> i32 {
    let real = real!(clCompileProgram, S);
    // SAFETY: as above.
    unsafe {
        building::<S>(program, options, |program, options, back| {
            let (notify, data) = if back { (notify, data) } else { (null_mut(), null_mut()) };
            real(program, count, devices, options, headers, texts, names, notify, data)
        })
    }
}

/// clGetProgramBuildInfo: options are those that the application gave.
pub unsafe extern "C-unwind" fn build_info<const S: usize>(
    program: H,
    device: H,
    what: u32,
    size: usize,
    value: P,
    written: P,
) -> i32 {
    let real = real!(clGetProgramBuildInfo, S);
    let asked = what == cl::CL_PROGRAM_BUILD_OPTIONS && outermost(S);
    let own = guard::protect(None, || if asked { options::own(program) } else { None });
    let Some(own) = own else {
        // SAFETY: the application's own call.
        return unsafe { real(program, device, what, size, value, written) };
    };
    // Handles are the runtime's to refuse.
    // SAFETY: the application's own call, of which only the size is asked.
    let code = unsafe { real(program, device, what, 0, null_mut(), null_mut()) };
    if code != 0 {
        return code;
    }
    let length = own.len() + 1;
    if !value.is_null() {
        if size < length {
            return cl::CL_INVALID_VALUE;
        }
        // SAFETY: the application gives room for `size` bytes.
        unsafe {
            let to = value.cast::<u8>();
            to.copy_from_nonoverlapping(own.as_ptr(), own.len());
            to.add(own.len()).write(0);
        }
    }
    if !written.is_null() {
        // SAFETY: the application gives room for a size.
        unsafe { written.cast::<usize>().write(length) };
    }
    0
}
