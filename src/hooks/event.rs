//! Events: where the application learns that commands are complete is where their stamps are read;
//! and what it asks about events is answered as if we held none.

use super::calls::ended;
use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Returned, Site};
use crate::abi::signatures as f;
use crate::facts::info;
use crate::facts::objects::{self, EventFacts};
use crate::facts::user_events;
use crate::features::{capture, device_time};
use crate::hooks::{callbacks, launching_thread};
use crate::recording;
use crate::recording::guard::{self, Entered};
use crate::runtime::functions as api;
use std::sync::atomic::Ordering;

#[inline(never)]
pub unsafe fn clWaitForEvents(
    site: Site,
    real: f::clWaitForEvents,
    count: u32,
    list: *const H,
) -> i32 {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(count, list) } };
    let thread = entered.thread;
    // SAFETY: as above.
    let code = guard::real_call(&entered, || unsafe { real(count, list) });
    let end = recording::now();
    entered.call_at(site.function, code, &[u64::from(count)], end);
    // An event may have ended in an error; all have ended all the same.
    if matches!(code, 0 | cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) && !list.is_null() {
        // SAFETY: the runtime has read `count` events there.
        let events = unsafe { std::slice::from_raw_parts(list, count as usize) };
        let waited = || {
            device_time::completed(thread, events, end).into_iter().for_each(device_time::waited);
            ended_events(events);
        };
        guard::unseen(|| guard::protect((), waited));
    }
    code
}

/// Captures are told of commands that the application knows to have ended.
fn ended_events(events: &[H]) {
    if !capture::wanted() {
        return;
    }
    for facts in events.iter().filter_map(|event| objects::event(*event)) {
        if let Some(queue) = device_time::queue_at(facts.queue) {
            capture::complete(queue.handle, queue.context, facts.command);
        }
    }
}

#[inline(never)]
pub unsafe fn clFinish(site: Site, real: f::clFinish, queue: H) -> i32 {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(queue) } };
    let thread = entered.thread;
    let limit = objects::next_command();
    // SAFETY: as above.
    let code = guard::real_call(&entered, || unsafe { real(queue) });
    // The moment the host knew: before our own work.
    let end = recording::now();
    entered.plain_at(
        site.function,
        code,
        || objects::id(queue),
        Some(0),
        || [objects::word(queue)],
        end,
    );
    if let (0, Some(queue)) = (code, device_time::queue(queue)) {
        let finished = || {
            device_time::finished(thread, queue, limit, end);
            device_time::waited(queue);
            if capture::wanted() {
                capture::finished(queue.handle, queue.context, limit);
            }
        };
        guard::unseen(|| guard::protect((), finished));
    }
    code
}

#[inline(never)]
pub unsafe fn clFlush(site: Site, real: f::clFlush, queue: H) -> i32 {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(queue) } };
    // SAFETY: as above.
    let code = guard::real_call(&entered, || unsafe { real(queue) });
    ended(entered, site, code, queue);
    code
}

/// Ends a query of an event that returned a code at a time.
#[inline(always)]
fn ended_event_query(entered: Entered, site: Site, returned: (i32, u64), event: H, name: u32) {
    let ((code, end), small) = (returned, (name < 1 << 16).then_some(name));
    let long = || [objects::event_word(event), u64::from(name)];
    entered.plain_at(site.function, code, || objects::event_id(event), small, long, end);
}

#[inline(never)]
pub unsafe fn clGetEventInfo(
    site: Site,
    real: f::clGetEventInfo,
    event: H,
    param_name: u32,
    size: usize,
    value: P,
    size_ret: P,
) -> i32 {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(event, param_name, size, value, size_ret) };
    };
    let thread = entered.thread;
    // SAFETY: as above.
    let ask =
        || guard::real_call(&entered, || unsafe { real(event, param_name, size, value, size_ret) });
    let mut facts = objects::event(event);
    let code = match facts {
        Some(known) if param_name == cl::CL_EVENT_REFERENCE_COUNT && known.queue != 0 => {
            device_time::steady(known.queue, || {
                facts = objects::event(event);
                ask()
            })
        }
        _ => ask(),
    };
    let end = recording::now();
    let mut complete = false;
    if code == 0 && !value.is_null() {
        match param_name {
            cl::CL_EVENT_REFERENCE_COUNT if facts.is_some_and(|f| f.held) => {
                let count = value.cast::<u32>();
                // SAFETY: the runtime has just written a cl_uint there, wherever that is. Ours is
                // one of the references.
                unsafe { count.write_unaligned(count.read_unaligned().saturating_sub(1)) };
            }
            cl::CL_EVENT_COMMAND_EXECUTION_STATUS => {
                // SAFETY: the runtime has just written a cl_int there.
                complete = unsafe { value.cast::<i32>().read_unaligned() } <= cl::CL_COMPLETE
            }
            _ => {}
        }
    }
    ended_event_query(entered, site, (code, end), event, param_name);
    if complete && capture::wanted() {
        guard::unseen(|| guard::protect((), || ended_events(&[event])));
    }
    if complete && facts.is_some_and(|f| f.held) {
        guard::unseen(|| guard::protect(None, || device_time::completed(thread, &[event], end)));
    }
    code
}

/// Whether the application asked for no times of this command, and its queue has them all the same;
/// and what is known of the event, if it is the one that was. The runtime says of which queue it is:
/// it gives the address of an event that is gone to another, which need not have been seen.
fn hides_times(site: Site, event: H, known: Option<EventFacts>) -> (bool, Option<EventFacts>) {
    if !device_time::current().is_some_and(|times| times.adds_profiling.load(Ordering::Relaxed)) {
        return (false, known);
    }
    guard::protect((false, None), || {
        let handle = info::handle(api::clGetEventInfo.own(site.slot), event, info::EVENT_QUEUE);
        let queue = match (handle.is_null(), known) {
            (true, Some(facts)) => device_time::queue_at(facts.queue),
            _ => device_time::queue(handle).or_else(|| device_time::former_queue(handle)),
        };
        let Some(queue) = queue else { return (false, None) };
        let known = known.filter(|facts| facts.queue == queue.index);
        let hides = match known {
            Some(facts) => facts.unprofiled,
            // Made past the recorder, or while nothing was recorded.
            None => queue.hides_times(),
        };
        (hides && !super::queue::answers_without_profiling(site, queue), known)
    })
}

#[inline(never)]
pub unsafe fn clGetEventProfilingInfo(
    site: Site,
    real: f::clGetEventProfilingInfo,
    event: H,
    param_name: u32,
    size: usize,
    value: P,
    size_ret: P,
) -> i32 {
    let Some(mut entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(event, param_name, size, value, size_ret) };
    };
    let (unprofiled, known) = hides_times(site, event, objects::event(event));
    // What the recorder asks is no part of the call.
    entered.start_now();
    let code = if unprofiled {
        // The application created this queue without profiling: it must not be answered, nor its
        // buffers be written to.
        let mut unused = 0u64;
        // SAFETY: a valid query into the recorder's buffer, only to let the runtime refuse a bad
        // event for its own reason.
        match guard::real_call(&entered, || unsafe {
            real(
                event,
                cl::CL_PROFILING_COMMAND_QUEUED,
                8,
                (&raw mut unused).cast(),
                std::ptr::null_mut(),
            )
        }) {
            0 => cl::CL_PROFILING_INFO_NOT_AVAILABLE,
            code => code,
        }
    } else {
        // SAFETY: as above.
        guard::real_call(&entered, || unsafe { real(event, param_name, size, value, size_ret) })
    };
    let end = recording::now();
    let thread = entered.thread;
    ended_event_query(entered, site, (code, end), event, param_name);
    if let (0, false, Some(facts), true) = (code, unprofiled, known, size >= 8 && !value.is_null())
        && facts.queue != 0
        && device_time::current().is_some_and(|d| d.sampler.is_some())
    {
        // SAFETY: the runtime has just written a cl_ulong there, wherever that is.
        let value = unsafe { value.cast::<u64>().read_unaligned() };
        let local = || launching_thread::sampling(thread);
        let told = || {
            device_time::queried_times::queried(
                thread,
                local,
                (event, facts),
                (param_name, value),
                end,
            )
        };
        guard::unseen(|| guard::protect((), told));
    }
    code
}

#[inline(never)]
pub unsafe fn clSetEventCallback(
    site: Site,
    real: f::clSetEventCallback,
    event: H,
    callback_type: i32,
    pfn_notify: P,
    user_data: P,
) -> i32 {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(event, callback_type, pfn_notify, user_data) };
    };
    let pair = callbacks::event_status(pfn_notify, user_data);
    let counts = !pfn_notify.is_null();
    if counts {
        user_events::callback_set();
    }
    // SAFETY: the application's call with its callback wrapped.
    let code = guard::real_call(&entered, || unsafe {
        real(event, callback_type, pair.function, pair.data)
    });
    if code != 0 {
        if counts {
            user_events::callback_over();
        }
        // SAFETY: a call that failed calls nothing back.
        unsafe { pair.refused() };
    }
    entered.call(site.function, code, &[objects::event_word(event), callback_type as u64]);
    code
}

#[inline(never)]
pub unsafe fn clReleaseEvent(site: Site, real: f::clReleaseEvent, event: H) -> i32 {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(event) } };
    // The handle may be another event's by the time the record is written.
    let facts = objects::event(event);
    let command = facts.map_or(0, |facts| facts.command);
    if let Some(facts) = facts.filter(|facts| facts.awaited) {
        let thread = entered.thread;
        guard::unseen(|| {
            guard::protect((), || device_time::queried_times::released(thread, event, facts))
        });
    }
    // SAFETY: as above.
    let code = guard::real_call(&entered, || unsafe { real(event) });
    entered.plain(site.function, code, || command as u32, Some(0), || [command]);
    code
}

#[inline(never)]
pub unsafe fn clCreateUserEvent(
    site: Site,
    real: f::clCreateUserEvent,
    context: H,
    errcode_ret: *mut i32,
) -> H {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(context, errcode_ret) } };
    // SAFETY: as above.
    let event = guard::real_call(&entered, || unsafe { real(context, errcode_ret) });
    // SAFETY: errcode_ret is NULL or was written.
    let code = unsafe { event.code(errcode_ret) };
    let mut command = 0;
    if code == 0 {
        command = super::calls::foreign_event(event);
        user_events::created(event);
    }
    entered.call(site.function, code, &[command, objects::word(context)]);
    event
}

#[inline(never)]
pub unsafe fn clSetUserEventStatus(
    site: Site,
    real: f::clSetUserEventStatus,
    event: H,
    status: i32,
) -> i32 {
    // SAFETY: the application's own call.
    let Some(entered) = guard::enter(site) else { return unsafe { real(event, status) } };
    let command = objects::event_word(event);
    // SAFETY: as above.
    let code = guard::real_call(&entered, || unsafe { real(event, status) });
    if code == 0 {
        user_events::ended(event);
    }
    entered.call(site.function, code, &[command, status as u64]);
    code
}
