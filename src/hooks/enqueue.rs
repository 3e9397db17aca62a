//! The way of every enqueue through the features: where it comes from, whether it is recorded and
//! timed, and what is kept of it.

use super::checked::stale::{self, Of};
use super::given::{self, Use};
use super::launching_thread::{here, launches, sampling};
use super::stand_ins::snapshot;
use super::{checked, queue};
use crate::abi::entry::{H, P, Site};
use crate::facts::kernels;
use crate::features::call_sites;
use crate::features::device_time;
pub use crate::features::launch::{Enqueue, Plan, What, tells_size};
use crate::features::{beside, capture, launch, replace};
use crate::recording;
use crate::recording::guard::{self, Entered};
use crate::settings::config;
use clscope_trace::record::CommandKind;
use std::ptr::null_mut;

/// Decides before the call. A queue that was never seen (made before recording began, or by a call
/// that we missed) is described now.
#[inline(never)]
pub fn plan(
    entered: &mut Entered,
    site: Site,
    queue: H,
    kind: CommandKind,
    object: H,
    bytes: u64,
) -> Plan {
    // A runtime may refuse questions about a queue that only a command buffer still holds.
    let known = device_time::queue(queue)
        .or_else(|| {
            // Some runtimes do not survive a question about a queue that is gone.
            guard::protect((), || stale::named(site.function, Of::Object(queue)));
            queue::adopted(site, queue)
        })
        .or_else(|| device_time::former_queue(queue));
    let record = !kind.is_kernel() || !kernels::filtered_out(object);
    let call_site = match call_sites::current() {
        Some(sites) if record && entered.recorded() => called_from(entered, sites, site),
        _ => 0,
    };
    let function = site.function;
    let enqueue = Enqueue { function, kind, object, bytes, call_site, record };
    launch::plan(known, &enqueue, || sampling(entered.thread))
}

/// The plan of a command that gives no event.
pub fn plan_without_event(entered: &Entered, site: Site, queue: H) -> Plan {
    let call_site = match call_sites::current() {
        Some(sites) if entered.recorded() => here(entered, sites, site),
        _ => 0,
    };
    Plan::without_event(device_time::queue(queue), call_site)
}

/// Finding the place of a call is none of the call's time.
#[inline(never)]
fn called_from(entered: &mut Entered, sites: &'static call_sites::Sites, site: Site) -> u32 {
    let call_site = here(entered, sites, site);
    entered.start_now();
    call_site
}

/// As [`enqueued`], of a call that may have to do with memory of the host: a transfer from there or
/// to there, or one that gives it out or takes it back. `returned` is the memory it gave.
///
/// # Safety
/// The call has succeeded with these arguments.
#[inline(always)]
pub unsafe fn enqueued_with(
    entered: Entered,
    what: &What,
    plan: &Plan,
    memory: Use,
    returned: usize,
) {
    let host = if let Use::Transfer(host) = memory { host } else { null_mut() };
    // SAFETY: the caller's promise.
    unsafe { enqueued(entered, what, plan, host) };
    if let Use::Map(_) | Use::Unmap(_) = memory {
        given::changed(what.site, what.object, memory, returned);
    }
}

/// Records the command and ends the call. The plan is not moved: it was just written, in pieces
/// that a copy would read in one. `host` is the host's memory that a transfer uses, else NULL.
///
/// # Safety
/// The call has succeeded with these arguments.
#[inline(never)]
pub unsafe fn enqueued(entered: Entered, what: &What, plan: &Plan, host: P) {
    let end = recording::now();
    // SAFETY: the caller's promise.
    unsafe {
        match beside::nothing_ran() {
            true => write(entered, what, plan, host, |entered| (entered.begin(), end)),
            false => record_without_own_time(entered, what, plan, host, end),
        }
    }
}

/// As [`enqueued`], where the recorder did something else within the call: that is none of the
/// call's time, and what was launched may differ from what was asked for.
///
/// # Safety
/// The call has succeeded with these arguments.
#[cold]
#[inline(never)]
unsafe fn record_without_own_time(entered: Entered, what: &What, plan: &Plan, host: P, end: u64) {
    let times = beside::without((entered.begin(), end), entered.thread.last.get());
    let local = replace::launched_with();
    let mut geometry = what.geometry;
    if let Some(local) = &local {
        geometry = geometry.with_local(local);
    }
    // SAFETY: the caller's promise; the sizes live until the call has ended.
    unsafe { write(entered, &What { geometry, ..*what }, plan, host, |_| times) }
}

/// # Safety
/// The call has succeeded with these arguments.
#[inline(always)]
unsafe fn write(
    entered: Entered,
    what: &What,
    plan: &Plan,
    host: P,
    times: impl FnOnce(&Entered) -> (u64, u64),
) {
    let times = times(&entered);
    launch::ahead(entered.thread, plan);
    entered.with(|t| {
        let geometry = || match what.geometry.is_some() {
            // SAFETY: the runtime has read the arguments; the thread's own geometries, used by
            // nobody else meanwhile.
            true => unsafe { what.geometry.id(&mut (*launches(t)).geometries) },
            false => 0,
        };
        if !host.is_null() {
            given::tell(t, what.site.function, host, times.1);
        }
        // SAFETY: the caller's promise.
        let command = unsafe { launch::record(t, what, plan, times, geometry, || sampling(t)) };
        if plan.records() && config::get().tells_ids {
            tell_features(command, what, plan);
        }
    });
}

/// Tells features the id of the command that this thread has enqueued.
#[cold]
#[inline(never)]
fn tell_features(command: u64, what: &What, plan: &Plan) {
    snapshot::command(command);
    let Some(queue) = plan.queue().filter(|_| capture::wanted()) else { return };
    use CommandKind as K;
    // What a blocking call gave back shows that it has ended; a blocking write shows nothing, since a
    // runtime may have copied the host's bytes aside.
    let gave = matches!(
        what.kind,
        K::ReadBuffer | K::ReadBufferRect | K::ReadImage | K::MapBuffer | K::MapImage
    );
    let of = capture::Enqueued {
        command,
        queue: queue.handle,
        context: queue.context,
        out_of_order: queue.out_of_order,
        has_ended: what.blocking && gave,
        is_taken: what.blocking && !gave && what.waits.0 == 0,
    };
    guard::unseen(|| guard::protect((), || capture::enqueued(&of)));
}

/// An enqueue whose arguments a hook changes: `call` makes the real call with the event slot it is
/// given.
///
/// # Safety
/// The arguments are the application's; `call` passes them on.
pub unsafe fn run(
    mut what: What,
    queue: H,
    blocking: bool,
    words: impl FnOnce() -> Vec<u64>,
    mut call: impl FnMut(*mut H) -> i32,
) -> i32 {
    let Some(mut entered) = guard::enter(what.site) else { return call(what.event) };
    let mut plan = plan(&mut entered, what.site, queue, what.kind, what.object, 0);
    what.blocking = blocking;
    let slot = plan.slot(what.event);
    let mut code = guard::real_call(&entered, || call(slot));
    if code != 0 && plan.failed(what.site, code, blocking) {
        code = guard::real_call(&entered, || call(what.event));
    }
    if code == 0 {
        // SAFETY: the call has succeeded.
        unsafe { enqueued(entered, &what, &plan, null_mut()) };
    } else {
        checked::failed(what.site.function, plan.call_site());
        entered.call(what.site.function, code, &words());
    }
    code
}
