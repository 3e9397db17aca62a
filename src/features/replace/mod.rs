//! Owns what a run changes of its application on request: kernels that run the code of a file
//! (`CLSCOPE_REPLACE`, [`code`]), work-group sizes (`CLSCOPE_LOCAL`, [`local`]), options that are
//! appended to those of programs (`CLSCOPE_APPEND_OPTIONS`, [`options`]).
//!
//! The application's objects stay its own. A kernel that is replaced has a second one beside it,
//! which is given every argument that the application's is given, and which its launches take.
//! Nothing that the application can ask leads to it. Whatever fails, the application's own kernel
//! runs, and the trace holds the reason.

mod code;
mod local;
pub mod options;
mod signature;

#[cfg(not(test))]
pub use code::program_ends;

use super::beside;
use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::facts::kernels::called;
use crate::facts::{info, objects};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashMap;
use crate::recording::{self, diag, guard};
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::record::error_text;
use clscope_trace::{defs, replace};
use code::Code;
use std::cell::Cell;
use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A kernel of the application's that is meant by a request.
struct Kernel {
    /// References that the application holds.
    references: u32,
    name: String,
    /// The kernel that runs instead, or why none does; `None` where none is asked for.
    code: Option<Code>,
    /// Whether the trace says what became of that.
    told: bool,
    /// Work-group size asked for.
    local: Option<Vec<u64>>,
    /// Launches that were looked at.
    seen: local::Seen,
}

static KERNELS: ForkSafe<HashMap<usize, Kernel>> = ForkSafe::new();
/// An argument did not reach a second kernel: from here on the application's own run.
static BROKEN: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Local size of this thread's last launch, where it was not the application's.
    static LOCAL: Cell<Option<[usize; 3]>> = const { Cell::new(None) };
}

/// Whether anything is to be changed.
pub fn wanted() -> bool {
    let wanted = config::get();
    !wanted.replace.is_empty() || !wanted.local.is_empty() || wanted.append_options.is_some()
}

/// Runs on what is known of kernels. Where that cannot be had, the application's own kernels run
/// from here on: a second one may lack an argument.
fn known<R>(run: impl FnOnce(&mut HashMap<usize, Kernel>) -> R) -> Option<R> {
    let out = KERNELS.with(run);
    if out.is_none() {
        give_up();
    }
    out
}

#[cold]
fn give_up() {
    if !BROKEN.swap(true, Ordering::AcqRel) {
        diag::warn(
            "replace-ended",
            "kernels are not replaced any more: threads of the application held what is known of them for too long; launch from fewer threads",
        );
    }
}

/// The application made a kernel. Its handle may have been another's.
pub fn kernel_made(slot: usize, kernel: H) {
    if kernel.is_null() {
        return;
    }
    let about = api::clGetKernelInfo.behind(slot);
    let name = info::text(about, kernel, cl::CL_KERNEL_FUNCTION_NAME);
    let wanted = config::get();
    let called = called(&name);
    let request = replace::first(&wanted.replace, |one| &one.kernel, |one| called.is_meant(one));
    let local = replace::first(&wanted.local, |one| &one.kernel, |one| called.is_meant(one));
    if request.is_none() && local.is_none() {
        drop(known(|all| all.remove(&kernel.word())));
        return;
    }
    let code = request.map(|one| guard::unseen(|| code::code_of(slot, kernel, &name, &one.file)));
    if let Some(Code { file, kernel: Err(why), .. }) = &code {
        diag::say(&format!(
            "{name} runs as the application made it, not the kernel of {file}: {why}"
        ));
    }
    let made = Kernel {
        references: 1,
        name,
        code,
        told: false,
        local: local.map(|one| one.sizes.clone()),
        seen: local::Seen::default(),
    };
    // Dropped outside of the lock: giving back a kernel is a call of the runtime.
    drop(known(|all| all.insert(kernel.word(), made)));
}

/// Kernels were made by one call, or refused with an error code.
///
/// # Safety
/// Without an error `kernels` is NULL, or `made` is NULL or tells how many of them were written, at
/// most `room`.
pub unsafe fn kernels_made(slot: usize, kernels: *const H, room: u32, made: *const u32, code: i32) {
    if code != 0 || kernels.is_null() {
        return;
    }
    // SAFETY: the caller's promise. Where nobody asked how many, only what was there is read.
    let count = if made.is_null() { 0 } else { unsafe { *made }.min(room) };
    for at in 0..count as usize {
        // SAFETY: written by the call.
        kernel_made(slot, unsafe { *kernels.add(at) });
    }
}

/// A kernel was cloned, with the arguments it had then.
pub fn kernel_cloned(slot: usize, from: H, to: H) {
    if to.is_null() {
        return;
    }
    let source = known(|all| {
        let source = all.get(&from.word())?;
        Some((source.name.clone(), source.local.clone(), source.code.clone()))
    });
    let Some(Some((name, local, code))) = source else {
        drop(known(|all| all.remove(&to.word())));
        return;
    };
    let code = code.map(|code| guard::unseen(|| code.cloned(slot)));
    let seen = local::Seen::default();
    let made = Kernel { references: 1, name, code, told: false, local, seen };
    drop(known(|all| all.insert(to.word(), made)));
}

/// The application takes another reference of a kernel.
pub fn kernel_retained(kernel: H, code: i32) {
    if code == 0 {
        known(|all| {
            if let Some(kernel) = all.get_mut(&kernel.word()) {
                kernel.references = kernel.references.saturating_add(1);
            }
        });
    }
}

/// The application is about to give back a reference of a kernel: with its last one goes the second
/// kernel.
pub fn kernel_ends(kernel: H) {
    let gone = known(|all| {
        let known = all.get_mut(&kernel.word())?;
        known.references = known.references.saturating_sub(1);
        if known.references == 0 { all.remove(&kernel.word()) } else { None }
    });
    drop(gone);
}

/// Gives the second kernel what the application's was given, which took it. `set` makes the call.
pub fn argument(kernel: H, code: i32, what: &dyn Display, set: impl FnOnce(H) -> Option<i32>) {
    if code != 0 {
        return;
    }
    let second = known(|all| all.get(&kernel.word())?.code.as_ref()?.kernel.clone().ok());
    let Some(Some(second)) = second else { return };
    let why = match guard::unseen(|| set(second.handle())) {
        Some(0) => return,
        Some(code) => {
            format!("{what}: it refuses what the application's kernel takes, {}", error_text(code))
        }
        None => format!("{what}: the runtime has no function to set it with"),
    };
    refuse(kernel, &why);
}

/// The second kernel cannot take the place of the application's any longer.
fn refuse(kernel: H, why: &str) {
    let gone = known(|all| {
        let known = all.get_mut(&kernel.word())?;
        let code = known.code.as_mut()?;
        known.told = false;
        let before = std::mem::replace(&mut code.kernel, Err(why.to_owned()));
        Some((before, known.name.clone(), code.file.clone()))
    });
    if let Some(Some((before, name, file))) = gone {
        drop(before);
        diag::say(&format!(
            "{name} runs as the application made it, not the kernel of {file}: {why}"
        ));
    }
}

/// What is launched in place of what the application asked for.
pub struct Instead {
    /// The second kernel, live while this is.
    kernel: Option<Arc<code::Shadow>>,
    local: Option<[usize; 3]>,
    /// The launch as it was looked at.
    at: Option<local::Launch>,
}

impl Instead {
    /// The kernel to launch, where it is not the application's.
    pub fn kernel(&self) -> Option<H> {
        self.kernel.as_ref().map(|kernel| kernel.handle())
    }

    /// Local size to launch it with, where it is not the application's.
    pub fn local(&self) -> Option<&[usize; 3]> {
        self.local.as_ref()
    }
}

/// A kernel is about to be launched: what is launched instead, `None` for just that.
///
/// # Safety
/// `dimensions` sizes lie at each of `sizes` that is not NULL, as the specification demands.
pub unsafe fn launch(
    slot: usize,
    queue: H,
    kernel: H,
    dimensions: u32,
    sizes: [*const usize; 3],
) -> Option<Instead> {
    if BROKEN.load(Ordering::Acquire) {
        return None;
    }
    let (id, from) = (objects::id(kernel), objects::next_command());
    let (second, wanted, news) = known(|all| {
        let known = all.get_mut(&kernel.word())?;
        // The kernel's id is known from its first launch on, and what was told is of that id.
        let news = (!std::mem::replace(&mut known.told, true)).then(|| {
            let code = known.code.as_ref()?;
            Some(defs::Replaced {
                kernel: id,
                from,
                file: code.file.clone(),
                program: code.program,
                refused: code.kernel.as_ref().err().cloned().unwrap_or_default(),
            })
        });
        let second = known.code.as_ref().and_then(|code| code.kernel.clone().ok());
        Some((second, known.local.clone(), news.flatten()))
    })??;
    if let Some(news) = news {
        recording::define(&news.into());
    }
    let mut out = Instead { kernel: second, local: None, at: None };
    // SAFETY: the caller's promise.
    if let (Some(wanted), Some(sizes)) = (wanted, unsafe { beside::sizes(dimensions, sizes) }) {
        let run = out.kernel().unwrap_or(kernel);
        let at = local::Launch::new(slot, queue, &sizes, wanted);
        let before = known(|all| all.get(&kernel.word()).map(|known| known.seen.find(&at)))??;
        let verdict = before.unwrap_or_else(|| {
            let verdict = local::may(slot, queue, run, &at);
            seen(kernel, id, &at, verdict)
        });
        if verdict {
            out.local = Some(at.wanted_sizes());
            out.at = Some(at);
        }
    }
    (out.kernel.is_some() || out.local.is_some()).then_some(out)
}

/// Takes note of what holds of launches like this one, and tells it.
fn seen(kernel: H, id: u32, at: &local::Launch, verdict: Result<(), String>) -> bool {
    let may = verdict.is_ok();
    known(|all| {
        if let Some(known) = all.get_mut(&kernel.word()) {
            known.seen.keep(at, may);
        }
    });
    let refused = verdict.err().unwrap_or_default();
    if !refused.is_empty() {
        let name = known(|all| all.get(&kernel.word()).map(|k| k.name.clone())).flatten();
        diag::say(&format!("the work-group size of {} stays: {refused}", name.unwrap_or_default()));
    }
    recording::define(&at.describe(id, refused).into());
    may
}

/// The launch failed as it was changed, and then went as the application asked for: so do all like
/// it from here on.
pub fn failed(kernel: H, instead: &Instead, code: i32) {
    let why = format!("the runtime refuses the launch, {}", error_text(code));
    if let Some(at) = &instead.at {
        seen(kernel, objects::id(kernel), at, Err(why));
        return;
    }
    refuse(kernel, &why);
    // Told again, before the launch itself.
    let _ = known(|all| {
        let known = all.get_mut(&kernel.word())?;
        known.told = true;
        let code = known.code.as_ref()?;
        Some(defs::Replaced {
            kernel: objects::id(kernel),
            from: objects::next_command(),
            file: code.file.clone(),
            program: code.program,
            refused: code.kernel.as_ref().err().cloned().unwrap_or_default(),
        })
    })
    .flatten()
    .map(|news| recording::define(&news.into()));
}

/// The application's call has launched: with this local size, where it is not what was asked for.
/// Looking took so many ticks.
pub fn launched(local: Option<[usize; 3]>, ticks: u64) {
    LOCAL.set(local);
    beside::took(ticks);
}

/// Local size of this thread's last launch, where it is not what the application asked for; once.
pub fn launched_with() -> Option<[usize; 3]> {
    LOCAL.take()
}

/// A kernel is put into a command buffer, where it stays the application's.
pub fn in_command_buffer(kernel: H) {
    if known(|all| all.contains_key(&kernel.word())) == Some(true) {
        diag::warn(
            "replace-command-buffer",
            "kernels in command buffers run as the application made them: CLSCOPE_REPLACE and CLSCOPE_LOCAL change launches by clEnqueueNDRangeKernel",
        );
    }
}

/// A C string of the application's, NULL for an empty one.
///
/// # Safety
/// NULL, or a C string.
unsafe fn c_text<'a>(text: P) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::ffi::CStr::from_ptr(text.cast()) }.to_bytes()
}
