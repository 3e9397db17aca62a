//! What stand-ins tell captures, checks and what runs beside the application: of objects that were
//! made, of commands that are about to be enqueued.

use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Returned};
use crate::facts::arguments::{self, Allocated, ask};
use crate::facts::programs;
use crate::features::beside::{self, Command, What};
use crate::features::{capture, device_time};
use crate::hooks::checked;
use crate::hooks::checked::stale::{self, Of};
use crate::recording::guard;
use crate::runtime::functions as api;
use clscope_trace::record::CommandKind as K;

/// Whether the call that is under way is the application's own and came in by this way, recorded or
/// not.
pub(super) fn outermost(slot: usize) -> bool {
    let t = guard::thread();
    !t.writing.get() && (t.outside() || t.depth.get() == 1 + slot as u8)
}

/// Whether it is recorded, too.
pub(super) fn recorded(slot: usize) -> bool {
    outermost(slot) && !guard::thread().outside()
}

/// The application has made a program, of such an origin.
pub(super) fn program_created(made: H, origin: &'static str) {
    programs::program_created(made, origin);
    guard::unseen(|| capture::lifetimes::program_made(made));
}

/// The application has built a program, or tried to.
pub(super) fn program_built(program: H) {
    guard::unseen(|| capture::lifetimes::program_made(program));
}

/// The application has made a buffer or an image.
pub(super) fn capture_made(slot: usize, made: H, context: H, bytes: usize) {
    if !made.is_null() {
        guard::unseen(|| capture::lifetimes::made(slot, context, bytes, None));
    }
}

/// The application has made unified shared memory, or not.
pub(super) fn unified_made(slot: usize, context: H, made: P, bytes: usize, how: Allocated) {
    arguments::svm_made(context, made, bytes, 0, how);
    if !made.is_null() {
        guard::unseen(|| capture::lifetimes::made(slot, context, bytes, Some(how)));
    }
}

/// The application has made an image, of as many bytes as the runtime says.
pub(super) fn image_made(slot: usize, made: H, context: H) {
    if !made.is_null() && capture::wanted() {
        let about = api::clGetMemObjectInfo.behind(slot);
        let bytes = guard::unseen(|| ask::<usize>(about, made, cl::CL_MEM_SIZE)).unwrap_or(0);
        capture_made(slot, made, context, bytes);
    }
}

/// Whether a call that makes memory was refused it, and the recorder has given some back.
pub(super) fn lacked<const S: usize>(made: impl Returned, error: *const i32) -> bool {
    if !outermost(S) {
        return false;
    }
    // SAFETY: NULL, or written by the call.
    let code = unsafe { made.code(error) };
    code != 0 && guard::unseen(|| guard::protect(false, || capture::lifetimes::gives_back(code)))
}

/// Of a mapping: the application writes.
pub(super) const WRITING: u64 = cl::CL_MAP_WRITE | cl::CL_MAP_WRITE_INVALIDATE_REGION;

/// Whether the call that is under way is recorded in a checked run. Asked in a stand-in of any way:
/// the recorder's own calls and inner layers' are of another depth.
pub(super) fn is_checked_call() -> bool {
    checked::wanted() && !guard::thread().outside()
}

/// A reference was taken in a checked run, or refused with an error code.
pub(super) fn retained(of: Of, code: i32) {
    if is_checked_call() {
        stale::retained(of, code);
    }
}

/// Tells a checked run of a command ahead of its call; whether it may be looked at further.
pub(super) fn arrived<const S: usize>(function: u16, command: &Command<'_>) -> bool {
    stale::named(function, Of::Object(command.queue));
    // What the runtime refuses it does not read.
    if !beside::arrived(command) {
        return false;
    }
    // SAFETY: the application's own list, which the call is about to read.
    unsafe { checked::waits(function, command.waits.0, command.waits.1) }
    match command.what {
        What::Launch { kernel, .. } => {
            stale::named(function, Of::Object(kernel));
            stale::launched(function, kernel);
        }
        What::Transfer { of, .. } => {
            of.iter().for_each(|memory| stale::named(function, Of::Object(*memory)));
        }
    }
    true
}

/// Properties that the recorder added to those that the application gave a queue.
pub(super) fn added(queue: H) -> u64 {
    if device_time::queue(queue).is_some_and(device_time::Queue::hides_times) {
        cl::CL_QUEUE_PROFILING_ENABLE
    } else {
        0
    }
}

/// Whether the handle with this value still is a queue of the application's.
pub(super) fn live(queue: usize) -> bool {
    device_time::queue_of_word(queue).is_some()
}

/// A transfer as the application wrote it.
pub(super) fn transfer(
    queue: H,
    waits: (u32, *const H),
    kind: K,
    bytes: u64,
    of: &[H],
) -> Option<Command<'_>> {
    Some(Command { queue, waits, what: What::Transfer { kind, bytes, of }, live: &live })
}
