//! Command buffers: the queue that their commands run on, and one answer that our profiling bit
//! would change. A command buffer may be enqueued on other queues than it was made for if their
//! properties are the same (cl_khr_command_buffer, "compatible"), and not all runtimes look. With
//! the bit added to all queues, two that the application made different are the same to the
//! runtime: where it would have refused them, which an empty buffer on queues of our own shows, we
//! do.

use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Returned, Site};
use crate::abi::functions::id;
use crate::abi::signatures as f;
use crate::facts::{objects, platforms};
use crate::features::device_time::{self, Queue};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashMap;
use crate::recording::guard;
use crate::runtime::functions as api;
use crate::runtime::real;
use crate::runtime::waiting;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

/// Queues that command buffers were made for, by handle.
static MADE_FOR: ForkSafe<HashMap<usize, Vec<usize>>> = ForkSafe::new();

/// The runtimes' functions behind our refusal, one for each slot of extension pointers.
static TRUE: [AtomicPtr<std::ffi::c_void>; 3] = [const { AtomicPtr::new(null_mut()) }; 3];

/// Whether these runtimes refuse queues of other properties.
static REFUSES: [AtomicU8; 3] = [const { AtomicU8::new(UNKNOWN) }; 3];
const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

#[inline(never)]
pub unsafe fn clCreateCommandBufferKHR(
    site: Site,
    real: f::clCreateCommandBufferKHR,
    num_queues: usize,
    queues: *const H,
    properties: P,
    errcode_ret: *mut i32,
) -> H {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(num_queues, queues, properties, errcode_ret) };
    };
    // SAFETY: as above.
    let buffer =
        guard::real_call(&entered, || unsafe { real(num_queues, queues, properties, errcode_ret) });
    // SAFETY: errcode_ret is NULL or was written.
    let code = unsafe { buffer.code(errcode_ret) };
    let mut buffer_id = 0;
    if code == 0 {
        buffer_id = objects::created(buffer, 0);
        if num_queues as u32 > 0 && !queues.is_null() {
            // SAFETY: the call succeeded, so the list is as long as it says.
            let queues = unsafe { std::slice::from_raw_parts(queues, num_queues as u32 as usize) };
            let queues = queues.iter().map(|q| q.word()).collect();
            MADE_FOR.with(|made_for| made_for.insert(buffer.word(), queues));
        }
    }
    entered.call(site.function, code, &[u64::from(buffer_id), u64::from(num_queues as u32)]);
    buffer
}

/// The queue that a command buffer was made for, NULL if it was never seen.
pub fn queue_of_command_buffer(buffer: H) -> H {
    let first = MADE_FOR.with(|made_for| made_for.get(&buffer.word())?.first().copied());
    // SAFETY: the application enqueues the buffer, which holds its queues.
    first.flatten().map_or(H::NULL, |queue| unsafe { H::from_word(queue) })
}

/// What to call in a slot of extension pointers for the runtime's function: the function itself but
/// for one.
pub fn stand_in(slot: usize, function: u16, theirs: P) -> P {
    let at = slot
        .checked_sub(real::EXTENSIONS.start)
        .filter(|_| function == id::clEnqueueCommandBufferKHR);
    let Some((at, cell)) = at.and_then(|at| Some((at, TRUE.get(at)?))) else { return theirs };
    cell.store(theirs, Ordering::Release);
    let ours: f::clEnqueueCommandBufferKHR = match at {
        0 => checked::<0>,
        1 => checked::<1>,
        _ => checked::<2>,
    };
    ours as P
}

/// Whether a slot holds the runtime's function, or our stand-in for it.
pub fn stands_for(slot: usize, function: u16, theirs: P) -> bool {
    let cell = slot.checked_sub(real::EXTENSIONS.start).and_then(|at| TRUE.get(at));
    function == id::clEnqueueCommandBufferKHR
        && cell.is_some_and(|cell| cell.load(Ordering::Acquire) == theirs)
}

unsafe extern "C-unwind" fn checked<const AT: usize>(
    num_queues: usize,
    queues: *mut H,
    buffer: H,
    num_events: usize,
    event_list: *const H,
    event: *mut H,
) -> i32 {
    // The word's upper half is the caller's garbage.
    let count = num_queues as u32;
    if count > 0 && !queues.is_null() {
        // SAFETY: the application's list is as long as it says.
        let given = unsafe { std::slice::from_raw_parts(queues, count as usize) };
        if guard::protect(false, || {
            differing(buffer, given).is_some_and(|queue| refuses(AT, queue))
        }) {
            return cl::CL_INCOMPATIBLE_COMMAND_QUEUE_KHR;
        }
    }
    let theirs = TRUE.get(AT).map_or(null_mut(), |cell| cell.load(Ordering::Acquire));
    // SAFETY: the function of that name, stored before this one was handed out.
    match unsafe { api::clEnqueueCommandBufferKHR.at(theirs) } {
        // SAFETY: the application's own call.
        Some(real) => unsafe { real(num_queues, queues, buffer, num_events, event_list, event) },
        None => cl::CL_INVALID_OPERATION,
    }
}

/// A queue that differs from the one that the buffer was made for, to the application, in the bit
/// that we add.
fn differing(buffer: H, given: &[H]) -> Option<&'static Queue> {
    let made_for = MADE_FOR.with(|made_for| made_for.get(&buffer.word()).cloned()).flatten();
    let made_for = made_for.filter(|m| m.len() == given.len())?;
    made_for.iter().zip(given).find_map(|(a, b)| {
        let (a, b) = (device_time::queue_of_word(*a)?, device_time::queue(*b)?);
        let differ =
            a.app_profiling.load(Ordering::Relaxed) != b.app_profiling.load(Ordering::Relaxed);
        (differ && (a.profiling_added || b.profiling_added)).then_some(b)
    })
}

/// Whether the runtime behind a slot refuses such queues. What cannot be found out counts as no:
/// the runtime decides.
fn refuses(at: usize, queue: &Queue) -> bool {
    let Some(known) = REFUSES.get(at) else { return false };
    if known.load(Ordering::Relaxed) == UNKNOWN {
        let found = guard::unseen(|| tried(at, queue)).unwrap_or(false);
        known.store(if found { YES } else { NO }, Ordering::Relaxed);
    }
    known.load(Ordering::Relaxed) == YES
}

/// Enqueues an empty command buffer, made for a queue without profiling, on one with it; both are
/// ours.
fn tried(at: usize, queue: &Queue) -> Option<bool> {
    let site = Site { slot: queue.slot, function: id::clEnqueueCommandBufferKHR };
    // SAFETY: those of a live queue, in the middle of a call that names it.
    let [context, device] = [queue.context, queue.device].map(|word| unsafe { H::from_word(word) });
    let platform = Some(platforms::platform_of(site, device)).filter(|p| !p.is_null())?;
    let address = api::clGetExtensionFunctionAddressForPlatform.own(queue.slot)?;
    // SAFETY: a platform and a C string.
    let extension = |name: &CStr| unsafe { address(platform, name.as_ptr().cast_mut().cast()) };
    let create_queue = api::clCreateCommandQueue.own(queue.slot)?;
    let release_event = api::clReleaseEvent.own(queue.slot)?;
    let release_queue = api::clReleaseCommandQueue.own(queue.slot)?;
    // SAFETY: addresses of the functions of these names, and calls on objects that were just made
    // here.
    unsafe {
        let create = api::clCreateCommandBufferKHR.at(extension(c"clCreateCommandBufferKHR"))?;
        let finalize =
            api::clFinalizeCommandBufferKHR.at(extension(c"clFinalizeCommandBufferKHR"))?;
        let release = api::clReleaseCommandBufferKHR.at(extension(c"clReleaseCommandBufferKHR"))?;
        let enqueue = api::clEnqueueCommandBufferKHR.at(TRUE.get(at)?.load(Ordering::Acquire))?;
        let queues = [0, cl::CL_QUEUE_PROFILING_ENABLE]
            .map(|properties| create_queue(context, device, properties, null_mut()));
        let [plain, mut profiled] = queues;
        let mut found = None;
        if !plain.is_null() && !profiled.is_null() {
            let buffer = create(1, &plain, null_mut(), null_mut());
            if !buffer.is_null() {
                if finalize(buffer) == 0 {
                    let mut event = H::NULL;
                    let code = enqueue(1, &mut profiled, buffer, 0, std::ptr::null(), &mut event);
                    found = Some(code == cl::CL_INCOMPATIBLE_COMMAND_QUEUE_KHR);
                    if !event.is_null() {
                        waiting::ended(queue.slot, event, waiting::SHORT_PATIENCE);
                        release_event(event);
                    }
                }
                release(buffer);
            }
        }
        for queue in queues.into_iter().filter(|q| !q.is_null()) {
            release_queue(queue);
        }
        found
    }
}
