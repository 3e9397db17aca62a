//! Kernels: those that were made get ids and names.

use super::calls::passed;
use super::checked;
use crate::abi::entry::{H, P, Returned, Site};
use crate::abi::signatures as f;
use crate::facts::kernels;
use crate::facts::objects;
use crate::recording;
use crate::recording::guard::{self, Entered};

/// Ends a creation whose kernel is to be named; also while recording is paused, since launches may
/// follow later.
fn made(site: Site, entered: Option<Entered>, kernel: H, program: u32, code: i32, words: &[u64]) {
    let end = recording::now();
    let mut kernel_id = 0;
    if code == 0 && (entered.is_some() || super::calls::outermost_unrecorded()) {
        guard::unseen(|| guard::protect((), || kernel_id = kernels::named(site, kernel, program)));
        if entered.is_some() {
            described(site, kernel, kernel_id);
        }
    }
    if let Some(entered) = entered {
        let mut all = vec![u64::from(kernel_id)];
        all.extend_from_slice(words);
        entered.call_at(site.function, code, &all, end);
    }
}

/// Tells checked runs of a kernel's parameters.
fn described(site: Site, kernel: H, id: u32) {
    if checked::wanted() {
        guard::unseen(|| guard::protect((), || checked::parameters(site, kernel, id)));
    }
}

#[inline(never)]
pub unsafe fn clCreateKernel(
    site: Site,
    real: f::clCreateKernel,
    program: H,
    kernel_name: P,
    errcode_ret: *mut i32,
) -> H {
    // SAFETY: the application's own call.
    let (entered, kernel) = passed(site, || unsafe { real(program, kernel_name, errcode_ret) });
    // SAFETY: errcode_ret is NULL or was written.
    let code = unsafe { kernel.code(errcode_ret) };
    made(site, entered, kernel, objects::id(program), code, &[objects::word(program)]);
    kernel
}

#[inline(never)]
pub unsafe fn clCreateKernelsInProgram(
    site: Site,
    real: f::clCreateKernelsInProgram,
    program: H,
    num_kernels: u32,
    kernels: *mut H,
    num_kernels_ret: P,
) -> i32 {
    // The count is needed to know which kernels were made; the recorder's slot asks for it where
    // the application does not.
    let mut counted = 0u32;
    let count: P =
        if num_kernels_ret.is_null() { (&raw mut counted).cast() } else { num_kernels_ret };
    // SAFETY: the application's own call.
    let (entered, code) = passed(site, || unsafe { real(program, num_kernels, kernels, count) });
    if code == 0
        && !kernels.is_null()
        && (entered.is_some() || super::calls::outermost_unrecorded())
    {
        // SAFETY: the runtime has written the count and as many kernels, at most as many as there
        // was room for.
        let made = unsafe { *count.cast::<u32>() }.min(num_kernels);
        guard::unseen(|| {
            guard::protect((), || {
                for i in 0..made as usize {
                    // SAFETY: as above.
                    let kernel = unsafe { *kernels.add(i) };
                    let id = kernels::named(site, kernel, objects::id(program));
                    if entered.is_some() {
                        described(site, kernel, id);
                    }
                }
            });
        });
    }
    if let Some(entered) = entered {
        entered.call(site.function, code, &[objects::word(program), u64::from(num_kernels)]);
    }
    code
}

#[inline(never)]
pub unsafe fn clCloneKernel(
    site: Site,
    real: f::clCloneKernel,
    source: H,
    errcode_ret: *mut i32,
) -> H {
    // SAFETY: the application's own call.
    let (entered, kernel) = passed(site, || unsafe { real(source, errcode_ret) });
    // SAFETY: errcode_ret is NULL or was written.
    let code = unsafe { kernel.code(errcode_ret) };
    made(site, entered, kernel, 0, code, &[objects::word(source)]);
    kernel
}
