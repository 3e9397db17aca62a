//! Command queues: created with profiling added, described, and answered for as if we had added
//! nothing.

mod twin;

use twin::Twin;
pub use twin::answers_without_profiling;

use crate::abi::changes;
use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Returned, Site};
use crate::abi::signatures as f;
use crate::facts::{contexts, info, objects, platforms};
use crate::features::capture;
use crate::features::device_time::{self, Made, NewQueue, Queue};
use crate::features::intel_queue;
use crate::hooks::calls::{define, ended, ended_query};
use crate::hooks::checked::stale::{self, Of};
use crate::os::memory::readable::{PAGE, is_there};
use crate::recording;
use crate::recording::guard::{self, Entered};
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::defs;
use clscope_trace::values::DeviceTiming;
use std::sync::atomic::Ordering;

/// The key in a list of properties.
const PROPERTIES: u64 = cl::CL_QUEUE_PROPERTIES as u64;
/// A longer properties array is not one.
const MOST_PROPERTIES: usize = 64;

/// Whether profiling may be added to these properties.
fn wants_profiling(properties: u64) -> bool {
    takes_times() && properties & (cl::CL_QUEUE_PROFILING_ENABLE | cl::CL_QUEUE_ON_DEVICE) == 0
}

fn takes_times() -> bool {
    device_time::current().is_some_and(|device| device.timing != DeviceTiming::Off)
}

/// Makes a new queue known and ends the call.
fn created(
    site: Site,
    entered: Entered,
    queue: H,
    code: i32,
    new: (H, H, u64, Made, bool),
    words: &[u64],
) {
    let end = recording::now();
    let mut queue_id = 0;
    if let (0, Some(times)) = (code, device_time::current()) {
        guard::protect((), || {
            let (context, device, properties, how, profiling_added) = new;
            let nvidia = platforms::is_nvidia(site, device);
            let made = device_time::queue_created(
                times,
                NewQueue {
                    slot: site.slot,
                    handle: queue,
                    context,
                    device,
                    properties,
                    profiling_added,
                    switches: profiling_added && nvidia,
                    markers: config::get().clock_markers && nvidia,
                    is_processor: platforms::is_processor(site, device),
                    made: how,
                },
            );
            queue_id = made.id;
            describe(site, made, context, device, properties);
        });
    }
    let mut all = vec![u64::from(queue_id)];
    all.extend_from_slice(words);
    entered.call_at(site.function, code, &all, end);
}

/// A queue with the runtime's counters takes the place of the one that the application asked for.
///
/// # Safety
/// `errcode_ret` is NULL or writable.
unsafe fn counting(
    site: Site,
    entered: Entered,
    queue: H,
    new: (H, H, u64, Made),
    errcode_ret: *mut i32,
    words: &[u64],
) {
    if !errcode_ret.is_null() {
        // SAFETY: the caller's promise.
        unsafe { *errcode_ret = 0 };
    }
    let (context, device, properties, made) = new;
    // This queue takes the place of the application's: queries of its properties are masked as for
    // one with profiling added.
    created(site, entered, queue, 0, (context, device, properties, made, true), words);
    if let Some(known) = device_time::queue(queue) {
        known.switch.give_up(known);
        known.counted.store(true, Ordering::Relaxed);
    }
}

fn describe(site: Site, queue: &Queue, context: H, device: H, properties: u64) {
    // Kept arguments name queues through the object table as well.
    objects::alias(queue.handle, queue.id);
    define(defs::Queue {
        id: queue.id,
        context: contexts::adopted(site, context),
        device: platforms::device(site, device),
        properties,
        profiling_added: queue.profiling_added,
    });
}

/// A queue that is used and was never seen created: made before recording began, or by a way that
/// we do not catch.
#[cold]
pub fn adopted(site: Site, queue: H) -> Option<&'static Queue> {
    guard::protect(None, || {
        let times = device_time::current()?;
        // An invalid handle is the runtime's to refuse: it answers no query about it.
        let about = api::clGetCommandQueueInfo.own(site.slot);
        let context = info::handle(about, queue, info::QUEUE_CONTEXT);
        let device = info::handle(about, queue, info::QUEUE_DEVICE);
        if context.is_null() || device.is_null() {
            return None;
        }
        let properties = info::number(about, queue, cl::CL_QUEUE_PROPERTIES)?;
        // The application gave this one back, and has learnt of it again from an event or through a
        // command buffer that holds it: it asks about the queue that it made.
        let former = device_time::former_queue(queue).filter(|f| {
            f.profiling_added && (f.context, f.device) == (context.word(), device.word())
        });
        let ours = former.is_some_and(|f| !f.app_profiling.load(Ordering::Relaxed));
        let properties =
            if ours { properties & !cl::CL_QUEUE_PROFILING_ENABLE } else { properties };
        let new = NewQueue {
            slot: site.slot,
            handle: queue,
            context,
            device,
            properties,
            profiling_added: former.is_some(),
            switches: false,
            markers: false,
            is_processor: platforms::is_processor(site, device),
            made: former.map_or(Made::Unknown, |f| f.made.clone()),
        };
        let made = device_time::queue_created(times, new);
        // How many references the application holds is not known: it never is taken for the last.
        // Of one that it gave back, it holds none.
        made.references.store(if former.is_some() { 0 } else { i64::MAX / 2 }, Ordering::Relaxed);
        describe(site, made, context, device, properties);
        Some(made)
    })
}

/// What is known of a queue that the application asks about.
fn asked_about(site: Site, queue: H) -> Option<&'static Queue> {
    let again = || {
        device_time::former_queue(queue)?;
        // Some runtimes do not survive a question about a queue that is gone.
        guard::protect((), || stale::named(site.function, Of::Object(queue)));
        guard::unseen(|| adopted(site, queue))
    };
    device_time::queue(queue).or_else(again)
}

#[inline(never)]
pub unsafe fn clCreateCommandQueue(
    site: Site,
    real: f::clCreateCommandQueue,
    context: H,
    device: H,
    properties: u64,
    errcode_ret: *mut i32,
) -> H {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(context, device, properties, errcode_ret) };
    };
    if let Some(queue) = intel_queue::create(site, context, device, properties, &[]) {
        let words = [objects::word(context), objects::word(device), properties];
        // SAFETY: the application's errcode_ret is NULL or writable.
        unsafe {
            counting(
                site,
                entered,
                queue,
                (context, device, properties, Made::Plain(properties)),
                errcode_ret,
                &words,
            )
        };
        return queue;
    }
    let bits = |added| {
        if added { properties | cl::CL_QUEUE_PROFILING_ENABLE } else { properties }
    };
    // SAFETY: the application's call, or with one more property.
    let call = |added| unsafe { real(context, device, bits(added), errcode_ret) };
    // SAFETY: errcode_ret is NULL or was written.
    let (queue, code, added) =
        unsafe { with_or_without(&entered, wants_profiling(properties), errcode_ret, call) };
    let words = [objects::word(context), objects::word(device), properties];
    created(
        site,
        entered,
        queue,
        code,
        (context, device, properties, Made::Plain(properties), added),
        &words,
    );
    queue
}

/// Makes a queue with the profiling bit, where it is to be added, and once more without, as the
/// application wrote its call, where the bit may be why that failed. Gives the queue, the code, and
/// whether the bit was added in the end.
///
/// # Safety
/// `errcode` is NULL, or what `call` writes.
#[inline(always)]
unsafe fn with_or_without(
    entered: &Entered,
    added: bool,
    errcode: *const i32,
    call: impl Fn(bool) -> H,
) -> (H, i32, bool) {
    let make = |added| {
        let queue = guard::real_call(entered, || call(added));
        // SAFETY: the caller's promise.
        (queue, unsafe { queue.code(errcode) }, added)
    };
    match make(added) {
        (_, code, true) if code != 0 && repeats(code) => make(false),
        made => made,
    }
}

/// Whether a failed creation is to be repeated; an unknown code may be one that the profiling bit
/// caused.
fn repeats(code: i32) -> bool {
    code == clscope_trace::record::RESULT_UNKNOWN || changes::profiling_can_cause(code)
}

#[inline(never)]
pub unsafe fn clCreateCommandQueueWithProperties(
    site: Site,
    real: f::clCreateCommandQueueWithProperties,
    context: H,
    device: H,
    properties: P,
    errcode_ret: *mut i32,
) -> H {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(context, device, properties, errcode_ret) };
    };
    // SAFETY: the specification wants NULL or a zero-terminated array.
    let theirs = unsafe { array(properties) };
    let asked = theirs
        .as_deref()
        .and_then(|a| a.chunks_exact(2).find(|pair| pair.first() == Some(&PROPERTIES)));
    let bits = asked.and_then(|pair| pair.get(1)).copied().unwrap_or(0);
    let pairs = theirs.as_deref().and_then(|a| a.split_last()).map_or(&[][..], |(_, pairs)| pairs);
    let counted =
        theirs.as_ref().and_then(|_| intel_queue::create(site, context, device, bits, pairs));
    if let Some(queue) = counted {
        let words = [objects::word(context), objects::word(device)];
        let made = Made::WithProperties(theirs.filter(|_| !properties.is_null()));
        // SAFETY: the application's errcode_ret is NULL or writable.
        unsafe {
            counting(site, entered, queue, (context, device, bits, made), errcode_ret, &words)
        };
        return queue;
    }
    // An array that never ends is passed on for the runtime to refuse.
    let mut ours = match &theirs {
        Some(array) if wants_profiling(bits) => with_profiling(array),
        _ => Vec::new(),
    };
    // The application's own array is never written to: ours is a copy.
    let copy: P = ours.as_mut_ptr().cast();
    let array = |added| if added { copy } else { properties };
    // SAFETY: the application's call, or with a copy of its array that has one more property.
    let call = |added| unsafe { real(context, device, array(added), errcode_ret) };
    // SAFETY: errcode_ret is NULL or was written.
    let (queue, code, added) =
        unsafe { with_or_without(&entered, !ours.is_empty(), errcode_ret, call) };
    let words = [objects::word(context), objects::word(device)];
    let array = theirs.filter(|_| !properties.is_null());
    created(
        site,
        entered,
        queue,
        code,
        (context, device, bits, Made::WithProperties(array), added),
        &words,
    );
    queue
}

#[inline(never)]
pub unsafe fn clCreateCommandQueueWithPropertiesKHR(
    site: Site,
    real: f::clCreateCommandQueueWithPropertiesKHR,
    context: H,
    device: H,
    properties: P,
    errcode_ret: *mut i32,
) -> H {
    // SAFETY: the same function under another name.
    unsafe {
        clCreateCommandQueueWithProperties(site, real, context, device, properties, errcode_ret)
    }
}

/// The application's properties with their terminating 0; empty for NULL, `None` for an array
/// without end.
///
/// # Safety
/// `properties` is NULL or a zero-terminated array of pairs.
unsafe fn array(properties: P) -> Option<Vec<u64>> {
    let mut out = Vec::new();
    if properties.is_null() {
        return Some(out);
    }
    let at = properties.cast::<u64>();
    // A runtime stops at the first key that it refuses, and what is behind that need not be there:
    // so we do not trust the next page.
    let there = |i: usize| {
        let place = at as usize + i * 8;
        i == 0 || place % PAGE >= 8 || is_there(place)
    };
    for i in 0..2 * MOST_PROPERTIES {
        if !there(i) {
            return None;
        }
        // SAFETY: the first, or before the terminating 0, or in the page of the one before.
        let word = unsafe { at.add(i).read_unaligned() };
        out.push(word);
        if word == 0 && i % 2 == 0 {
            return Some(out);
        }
    }
    None
}

/// A copy of the array with the profiling bit in it.
fn with_profiling(array: &[u64]) -> Vec<u64> {
    let mut out: Vec<u64> = array.split_last().map(|(_, pairs)| pairs.to_vec()).unwrap_or_default();
    match out.chunks_exact_mut(2).find(|pair| pair.first() == Some(&PROPERTIES)) {
        Some([_, bits]) => *bits |= cl::CL_QUEUE_PROFILING_ENABLE,
        _ => out.extend([PROPERTIES, cl::CL_QUEUE_PROFILING_ENABLE]),
    }
    out.push(0);
    out
}

#[inline(never)]
pub unsafe fn clRetainCommandQueue(site: Site, real: f::clRetainCommandQueue, queue: H) -> i32 {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(queue) } };
    // SAFETY: as above.
    let code = guard::real_call(&entered, || unsafe { real(queue) });
    if code == 0
        && let Some(known) = asked_about(site, queue)
    {
        known.references.fetch_add(1, Ordering::Relaxed);
    }
    ended(entered, site, code, queue);
    code
}

#[inline(never)]
pub unsafe fn clReleaseCommandQueue(site: Site, real: f::clReleaseCommandQueue, queue: H) -> i32 {
    // SAFETY: the application's own call.
    let Some(mut entered) = guard::enter(site) else { return unsafe { real(queue) } };
    let known = device_time::queue(queue);
    let id = objects::id(queue);
    if let Some(known) = known
        && known.references.fetch_sub(1, Ordering::Relaxed) == 1
    {
        guard::protect((), || device_time::abandoned(entered.thread, known));
        // The handle may come back as another queue, or be used wrongly: either way it is not this
        // one any more.
        device_time::queue_gone(queue);
        guard::protect((), || capture::lifetimes::queue_ends(queue.word()));
        entered.start_now();
    }
    // SAFETY: the application's own call.
    let code = guard::real_call(&entered, || unsafe { real(queue) });
    entered.plain(site.function, code, || id, Some(0), || [u64::from(id)]);
    code
}

/// Takes our bit out of an answer.
///
/// # Safety
/// A cl_command_queue_properties lies at `value`, aligned or not.
unsafe fn without_profiling(value: P) {
    let bits = value.cast::<u64>();
    // SAFETY: the caller's promise.
    unsafe { bits.write_unaligned(bits.read_unaligned() & !cl::CL_QUEUE_PROFILING_ENABLE) };
}

#[inline(never)]
pub unsafe fn clGetCommandQueueInfo(
    site: Site,
    real: f::clGetCommandQueueInfo,
    queue: H,
    param_name: u32,
    size: usize,
    value: P,
    size_ret: P,
) -> i32 {
    let Some(mut entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(queue, param_name, size, value, size_ret) };
    };
    let known = asked_about(site, queue);
    if let (cl::CL_QUEUE_REFERENCE_COUNT, Some(known)) = (param_name, known) {
        // Events of complete commands hold their queue in some runtimes: ours must not be seen.
        guard::protect((), || device_time::look_before_counts(entered.thread, known));
        entered.start_now();
    }
    let code = match (known.filter(|q| q.profiling_added), param_name) {
        (Some(known), cl::CL_QUEUE_PROPERTIES_ARRAY) => {
            let twin = guard::unseen(|| Twin::create(site, known));
            let asked = twin.as_ref().map_or(queue, |t| t.queue);
            // SAFETY: the application's own question, about a queue that was made exactly as it
            // asked.
            guard::real_call(&entered, || unsafe { real(asked, param_name, size, value, size_ret) })
        }
        _ => {
            // SAFETY: the application's own call.
            let code = guard::real_call(&entered, || unsafe {
                real(queue, param_name, size, value, size_ret)
            });
            if code == 0
                && param_name == cl::CL_QUEUE_PROPERTIES
                && !value.is_null()
                && known.is_some_and(Queue::hides_times)
            {
                // SAFETY: the runtime has just written a cl_command_queue_properties there.
                unsafe { without_profiling(value) };
            }
            code
        }
    };
    ended_query(entered, site, code, queue, param_name);
    code
}

#[inline(never)]
pub unsafe fn clSetCommandQueueProperty(
    site: Site,
    real: f::clSetCommandQueueProperty,
    queue: H,
    properties: u64,
    enable: u32,
    old_properties: P,
) -> i32 {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(queue, properties, enable, old_properties) };
    };
    if let Some(known) =
        asked_about(site, queue).filter(|_| properties & cl::CL_QUEUE_PROFILING_ENABLE != 0)
    {
        // From here on the application controls profiling.
        known.switch.give_up(known);
    }
    // SAFETY: as above.
    let code =
        guard::real_call(&entered, || unsafe { real(queue, properties, enable, old_properties) });
    if let (0, Some(known)) = (code, device_time::queue(queue)) {
        if known.hides_times() && !old_properties.is_null() {
            // SAFETY: the runtime has just written there.
            unsafe { without_profiling(old_properties) };
        }
        if properties & cl::CL_QUEUE_PROFILING_ENABLE != 0 {
            // What the application switches off stays off: its commands are untimed from here on,
            // and say so.
            known.app_profiling.store(enable != 0, Ordering::Relaxed);
            known.timed.store(enable != 0 && takes_times(), Ordering::Relaxed);
        }
    }
    entered.call(site.function, code, &[objects::word(queue), properties, u64::from(enable)]);
    code
}

/// The queue a command buffer goes to: the first given, else the one it was made for.
///
/// # Safety
/// `queues` is NULL or has `count` entries.
pub unsafe fn command_buffer_queue(count: usize, queues: *mut H, command_buffer: H) -> H {
    if count as u32 > 0 && !queues.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { *queues };
    }
    crate::hooks::command_buffer::queue_of_command_buffer(command_buffer)
}
