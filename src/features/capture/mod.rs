//! Owns `CLSCOPE_CAPTURE` and `CLSCOPE_SAMPLE`: a launch of the application is kept whole, in a
//! folder of the trace: program, arguments, sizes, and what its memory holds before and after. The
//! launch is the application's own, made once, with its arguments. Refuses to launch anything, to
//! change memory of the application's, and to wait for what the application does not wait for.
//!
//! What a launch can reach is copied on the device, by commands ahead of the launch in the
//! application's own queue, into memory of the recorder's own (`pool`); what it leaves, by commands
//! behind it. Once the application itself has waited, the copies are read on a queue of the
//! recorder's own (`flight`). What cannot be captured is passed on untouched, with the reason in the
//! trace.
//!
//! The layout of `launch.json` is documented in the crate `clscope-launch`, which reads it.

mod begin;
mod calls;
mod description;
mod flight;
mod info;
pub mod lifetimes;
mod log;
mod look;
mod memories;
mod pool;
mod program;
mod recent;
mod requests;
mod room;
mod sample;
mod traffic;

use super::beside::{self, Command, What};
use crate::abi::entry::H;
use crate::facts::arguments;
use crate::facts::{info as facts, kernels, objects};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::local::Local;
use crate::recording::{self, guard};
use crate::runtime::functions as api;
use crate::settings::config;
use begin::{After, Begun, Behind, Coming};
use clscope_trace::defs;
use clscope_trace::record::CommandKind;
use clscope_trace::values::Sample;
use flight::{Asked, Flight};
use lifetimes::{await_memory, grow};
use look::Effort;
use pool::Pool;
use requests::Requests;
use room::{CRAMPED, SANDBOXED, UNOPENED, WAS_FREE, is_free, why_not_now};
use sample::{Draw, Samples, Seen};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
pub use traffic::Enqueued;
use traffic::Traffic;

/// How long a wait of the application's is drawn out for reading copies.
const SLICE: Duration = Duration::from_millis(20);
/// How long the end of a context, or of the process, is.
const LAST_SLICE: Duration = Duration::from_secs(2);

/// What is known of one incarnation of the process.
#[derive(Default)]
struct State {
    /// Whose this is: its recording's address.
    owner: usize,
    requests: Requests,
    samples: Option<Samples>,
    pools: Vec<Pool>,
    traffic: Traffic,
    #[expect(clippy::vec_box, reason = "handed from thread to thread by their boxes")]
    flights: Vec<Box<Flight>>,
    /// A thread is looking after the flights.
    is_looking: bool,
    /// Bytes that captures have taken or will take.
    bytes: u64,
    /// Captures that were begun.
    begun: u64,
}

impl State {
    /// The pool of a context.
    fn pool(&mut self, slot: usize, context: H) -> Option<&mut Pool> {
        let at = (slot, context.word());
        if !self.pools.iter().any(|pool| pool.is(at)) {
            self.pools.push(Pool::new(slot, context));
        }
        self.pools.iter_mut().find(|pool| pool.is(at))
    }

    /// The samples, where they are asked for.
    fn samples(&mut self) -> Option<&mut Samples> {
        let places = if config::get().sample? == Sample::One { 1 } else { 4 };
        Some(self.samples.get_or_insert_with(|| Samples::new(recording::now(), places)))
    }
}

static STATE: ForkSafe<State> = ForkSafe::new();

/// Flights that are under way: nothing is looked for where there are none.
static FLYING: AtomicUsize = AtomicUsize::new(0);

/// Runs on the process's state; `None` where another thread has it for too long.
fn state<R>(run: impl FnOnce(&mut State) -> R) -> Option<R> {
    let owner = recording::current().map_or(0, |recording| std::ptr::from_ref(recording) as usize);
    STATE.with(|state| {
        if state.owner != owner {
            // A forked child's parent goes on with it: its objects and files are not the child's to
            // give back.
            std::mem::forget(std::mem::take(state));
            FLYING.store(0, Ordering::Relaxed);
            state.owner = owner;
        }
        run(state)
    })
}

/// Whether this run captures, and records this process.
pub fn wanted() -> bool {
    config::get().captures() && recording::state::running()
}

fn seconds(ticks: u64) -> f64 {
    ticks as f64 / recording::ticks_of(1_000_000_000) as f64
}

/// What is told when the launch's command has its id.
enum Told {
    /// Copies are under way.
    Flight(Box<Flight>),
    Refused(defs::Capture, Arc<str>, Asked),
}

/// Of the launch that a thread is making.
static TOLD: Local<Option<Told>> = Local::new();

/// Why a launch is not captured.
enum Refusal {
    /// It cannot be.
    Never(String),
    /// Behind the application's next wait it could.
    Later(String),
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Never(why)
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self::Never(why.to_owned())
    }
}

/// A launch that was to be captured.
enum Due {
    Flight(Box<Flight>, Vec<Behind>),
    Refused(defs::Capture, Asked),
}

/// A launch of a kernel that is followed, between what came before it and what comes behind.
pub struct Launch {
    kernel: Arc<str>,
    seen: Option<Seen>,
    due: Option<Due>,
    /// Events that it waits for in place of the application's list; none: that list.
    waits: Vec<H>,
}

impl Launch {
    /// The wait list to launch with, where it is not the application's.
    pub fn waits(&self) -> Option<(u32, *const H)> {
        (!self.waits.is_empty()).then_some((self.waits.len() as u32, self.waits.as_ptr()))
    }
}

/// A command is about to be enqueued: what is to be done about it, if it is a launch of a kernel
/// that is followed. `added`: queue properties that the recorder added to the application's.
///
/// # Safety
/// Arguments of a command by the specification, live during the call.
pub unsafe fn before(slot: usize, command: &Command<'_>, added: u64) -> Option<Launch> {
    if !wanted() {
        return None;
    }
    if FLYING.load(Ordering::Relaxed) > 0 {
        let begun = recording::now();
        look::look(Effort::None);
        beside::took(recording::now().wrapping_sub(begun));
    }
    match command.what {
        What::Transfer { kind, bytes, of } => {
            recent::used(slot, &recent::By::Command(kind), Some(bytes), of);
            None
        }
        What::Launch { kernel, .. } if objects::id(kernel) == 0 => None,
        What::Launch { kernel, dimensions, sizes } => {
            // SAFETY: the caller's promise.
            let sizes = unsafe { beside::sizes(dimensions, sizes) };
            let name = arguments::name(slot, kernel);
            let of = |sizes| {
                let of = Coming { slot, command, handle: kernel, kernel: &name, sizes, added };
                // SAFETY: the caller's promise.
                unsafe { launch(&of) }
            };
            let out = sizes.as_ref().and_then(of);
            // SAFETY: the caller's promise.
            let (of, _) = unsafe { arguments::kernel(slot, kernel) };
            recent::launched(slot, &of, &name);
            out
        }
    }
}

/// A command that does not come by [`before`] has used memories; without `bytes` all of each.
pub fn used(slot: usize, kind: CommandKind, bytes: Option<u64>, of: &[H]) {
    if wanted() {
        recent::used(slot, &recent::By::Command(kind), bytes, of);
    }
}

/// A launch is about to be enqueued.
///
/// # Safety
/// As [`before`].
unsafe fn launch(of: &Coming<'_>) -> Option<Launch> {
    if kernels::filtered_out(of.handle) {
        return None;
    }
    end_at_exit();
    let (config, begun) = (config::get(), recording::now());
    let (device, built) = match config.sample {
        Some(_) => {
            let about = api::clGetCommandQueueInfo.behind(of.slot);
            let device = facts::handle(about, of.command.queue, facts::QUEUE_DEVICE);
            (device, kernels::built_from(of.handle))
        }
        None => (H::NULL, 0),
    };
    let (number, asked, seen) = state(|s| {
        let now = seconds(begun);
        let whose = (Arc::clone(of.kernel), built, device.word());
        let launched = |all: &mut Samples| all.launched(whose, of.sizes.number(), now);
        let seen = s.samples().map(launched);
        let (number, due) = s.requests.launched(&config.captures, of.kernel)?;
        let asked = match (due, seen.and_then(|seen| seen.draw)) {
            (true, _) => Asked::Numbers(s.requests.taken(of.kernel, number)),
            (false, Some(draw)) => Asked::Draw(draw),
            (false, None) => Asked::Nobody,
        };
        Some((number, asked, seen))
    })
    .flatten()?;
    let is_asked = !matches!(asked, Asked::Nobody);
    let free = match is_asked || seen.is_some_and(|seen| seen.is_new) {
        true => is_free(),
        false => None,
    };
    if let Some(seen) = seen.filter(|seen| seen.is_new) {
        let ids = (objects::id(of.handle), objects::id(of.command.queue));
        log::class(seen.class, of.kernel, ids, of.sizes);
    }
    let mut out = Launch { kernel: Arc::clone(of.kernel), seen, due: None, waits: Vec::new() };
    if !is_asked {
        return Some(out);
    }
    let draw = seen.and_then(|seen| seen.draw);
    // SAFETY: the caller's promise.
    unsafe { due(of, (number, free), asked, &mut out) };
    let draw = draw.filter(|_| config.sample != Some(Sample::Plan));
    if let (Some(Due::Refused(def, _)), Some(draw), Some(true)) = (&mut out.due, draw, free) {
        // SAFETY: as above.
        let folder = unsafe { begin::describe(of, number, &draw, &def.refused) };
        def.folder = folder.unwrap_or_default();
    }
    let took = recording::now().wrapping_sub(begun);
    if let Some(Due::Flight(flight, _)) = &mut out.due {
        flight.took = took;
    }
    beside::took(took);
    Some(out)
}

/// A launch is to be captured.
///
/// # Safety
/// As [`before`].
unsafe fn due(
    of: &Coming<'_>,
    (number, free): (u64, Option<bool>),
    asked: Asked,
    out: &mut Launch,
) {
    let def = defs::Capture {
        kernel: objects::id(of.handle),
        queue: objects::id(of.command.queue),
        launch: number,
        ..defs::Capture::default()
    };
    match free {
        Some(true) => {}
        Some(false) => {
            let def = defs::Capture { refused: SANDBOXED.to_owned(), ..def };
            out.due = Some(Due::Refused(def, asked));
            return;
        }
        None => return later(of, def, asked, (why_not_now().to_owned(), 0.0), out),
    }
    // What a draw would take is found first: there may be no time for it.
    if let Asked::Draw(draw) = &asked {
        // SAFETY: the caller's promise.
        let planned = unsafe { begin::planned(of) };
        let is_plan = config::get().sample == Some(Sample::Plan);
        let now = seconds(recording::now());
        // Where the state cannot be had, nothing is captured.
        let wait = |bytes: u64| {
            state(|s| s.samples.as_ref().map(|all| all.affords(draw, bytes, now))).flatten()
        };
        let is_behind =
            || state(|s| s.samples.as_ref().is_some_and(|all| all.is_behind(draw))) == Some(true);
        match planned {
            Ok(bytes) if is_plan => {
                log::slot(draw, json!({ "would": true, "bytes": bytes }));
                return;
            }
            Ok(_) if is_behind() => {
                let why = "a kernel without any capture comes first".to_owned();
                return later(of, def, asked, (why, 0.0), out);
            }
            Ok(bytes) => match wait(bytes) {
                Some(wait) if wait <= 0.0 => {}
                wait => {
                    let why = format!(
                        "copying its {bytes} bytes takes longer than captures may \
                         (--capture takes them all the same)"
                    );
                    return later(of, def, asked, (why, wait.unwrap_or(0.0)), out);
                }
            },
            Err(Refusal::Never(why) | Refusal::Later(why)) => {
                out.due = Some(Due::Refused(defs::Capture { refused: why, ..def }, asked));
                return;
            }
        }
    }
    let after = match &asked {
        Asked::Draw(draw) if draw.slot == 0 => After::Small,
        Asked::Draw(_) => After::No,
        _ => After::Yes,
    };
    // SAFETY: the caller's promise.
    match unsafe { begin::begun(of, number, asked, after) } {
        Ok(Begun { flight, behind, waits }) => {
            out.waits = waits;
            out.due = Some(Due::Flight(flight, behind));
        }
        Err((asked, Refusal::Never(why))) => {
            out.due = Some(Due::Refused(defs::Capture { refused: why, ..def }, asked));
        }
        Err((asked, Refusal::Later(why))) => later(of, def, asked, (why, 0.0), out),
    }
}

/// There is no room for a launch before the application's next wait, or no time before some seconds
/// have gone by.
fn later(
    of: &Coming<'_>,
    def: defs::Capture,
    asked: Asked,
    (why, wait): (String, f64),
    out: &mut Launch,
) {
    match asked {
        Asked::Numbers(taken) => {
            let is_news = state(|s| s.requests.later(of.kernel, taken));
            if is_news == Some(true) {
                let def = defs::Capture { refused: why, again: true, ..def };
                out.due = Some(Due::Refused(def, Asked::Nobody));
            }
        }
        Asked::Draw(draw) => {
            let now = seconds(recording::now());
            let moved = |all: &mut Samples| all.moved(&draw, wait, now);
            let moved = state(|s| s.samples.as_mut().is_some_and(moved));
            if moved == Some(true) {
                // A later line tells of the launch that it moves to, if one comes; meanwhile the
                // place has what it held.
                if !is_held(&draw) {
                    log::slot(&draw, json!({ "missing": why, "moved": true }));
                }
                let def = defs::Capture { refused: why, again: true, ..def };
                out.due = Some(Due::Refused(def, Asked::Nobody));
            } else {
                let asked = Asked::Draw(draw);
                out.due = Some(Due::Refused(defs::Capture { refused: why, ..def }, asked));
            }
        }
        Asked::Nobody => {}
    }
}

/// The launch was made, or refused with an error code.
pub fn after(launch: Launch, code: i32) {
    let Launch { kernel, seen, due, .. } = launch;
    if code != 0 {
        state(|s| {
            s.requests.failed(&kernel);
            if let (Some(seen), Some(samples)) = (seen, &mut s.samples) {
                samples.failed(&kernel, seen.class, seen.draw);
            }
        });
    }
    let asked = match due {
        None => return,
        Some(Due::Flight(mut flight, behind)) if code == 0 => {
            let begun = recording::now();
            // SAFETY: behind the launch, in the application's call.
            unsafe { begin::copy_behind(&mut flight, behind) };
            let took = recording::now().wrapping_sub(begun);
            flight.took = flight.took.saturating_add(took);
            beside::took_behind(took);
            TOLD.with(|told| *told = Some(Told::Flight(flight)));
            return;
        }
        Some(Due::Refused(def, asked)) if code == 0 => {
            TOLD.with(|told| *told = Some(Told::Refused(def, kernel, asked)));
            return;
        }
        Some(Due::Flight(mut flight, _)) => {
            let asked = std::mem::replace(&mut flight.asked, Asked::Nobody);
            look::abandon(flight);
            asked
        }
        Some(Due::Refused(_, asked)) => asked,
    };
    if let Asked::Numbers(taken) = asked {
        state(|s| s.requests.put_back(&kernel, taken));
    }
}

/// A command of the application's has been enqueued: it has an id.
pub fn enqueued(of: &Enqueued) {
    state(|s| s.traffic.enqueued(of));
    match TOLD.with(Option::take).flatten() {
        Some(Told::Flight(mut flight)) => {
            flight.def.command = Some(of.command);
            let is_copying = flight.parts.iter().any(|part| part.is_after);
            state(|s| s.traffic.watch(of.command, of.queue, of.context, is_copying));
            look::keep(flight);
        }
        Some(Told::Refused(mut def, kernel, asked)) => {
            def.command = Some(of.command);
            refuse(def, &kernel, asked);
        }
        None => {}
    }
    if of.has_ended {
        waited(of.context);
    }
}

/// Whether the place of a draw has a capture.
fn is_held(draw: &Draw) -> bool {
    state(|s| s.samples.as_ref().is_some_and(|all| all.holds(draw))) == Some(true)
}

/// A launch is not captured: who asked for it, and the trace, are told.
fn refuse(mut def: defs::Capture, kernel: &str, asked: Asked) {
    match asked {
        Asked::Numbers(taken) => {
            def.again = state(|s| s.requests.refused(kernel, taken)).unwrap_or(false);
        }
        Asked::Draw(draw) => {
            state(|s| s.samples.as_mut().map(|all| all.refused(&draw)));
            // What its place holds is of the launches before, which is worth more than nothing.
            if !is_held(&draw) {
                let time = seconds(recording::now());
                log::slot(
                    &draw,
                    json!({ "command": def.command, "missing": def.refused, "seconds": time }),
                );
            }
        }
        Asked::Nobody => {}
    }
    recording::define(&def.into());
}

/// The application has waited for all of a queue: commands with ids below `limit`.
pub fn finished(queue: usize, context: usize, limit: u64) {
    state(|s| s.traffic.finished(queue, limit));
    waited(context);
}

/// The application has learnt that a command of a queue has ended.
pub fn complete(queue: usize, context: usize, command: u64) {
    state(|s| s.traffic.complete(queue, command));
    waited(context);
}

/// The application has waited: copies are read, and pools grow where nothing runs.
fn waited(context: usize) {
    look::look(Effort::Some(SLICE));
    let is_drained = state(|s| {
        if let Some(samples) = &mut s.samples {
            samples.waited();
        }
        s.traffic.is_drained(context)
    });
    if is_drained == Some(true) {
        grow(context);
    }
    await_memory(context);
}

/// Has captures ended when the process ends in order. Behind the handlers that the runtime has set
/// while it was loaded, so that they end before those tear the runtime down: there is a launch only
/// then.
fn end_at_exit() {
    static SET: AtomicBool = AtomicBool::new(false);
    if !SET.swap(true, Ordering::Relaxed) {
        // SAFETY: a function of this library, which is never unloaded.
        unsafe { libc::atexit(end) };
    }
}

/// The process ends in order: what can be read is, and the log gets its end.
extern "C" fn end() {
    guard::protect((), || {
        // A child inherits the handler, not the captures.
        if recording::current().is_none_or(recording::Recording::is_anothers) {
            return;
        }
        guard::unseen(|| look::look(Effort::Last(None, LAST_SLICE)));
        let seen = state(|s| s.samples.as_ref().map(Samples::seen)).flatten();
        log::end(&seen.unwrap_or_default());
    });
}

/// A command ran, by the device's stamps.
pub fn timed(command: u64, start: u64, end: u64) {
    if FLYING.load(Ordering::Relaxed) > 0 {
        state(|s| {
            if let Some(known) = s.traffic.watched(command) {
                known.stamps = Some((start, end));
            }
        });
    }
}

/// A launch of a kernel was put into a command buffer: it is not seen when it is enqueued.
pub fn in_command_buffer(slot: usize, kernel: H, code: i32) {
    let config = config::get();
    if code != 0 || !wanted() || objects::id(kernel) == 0 {
        return;
    }
    let name = arguments::name(slot, kernel);
    let all = config.sample.is_some();
    if state(|s| s.requests.buffered(&config.captures, &name, all)) == Some(true) {
        let def = defs::Capture {
            kernel: objects::id(kernel),
            refused: "it is launched from a command buffer (clCommandNDRangeKernelKHR)".to_owned(),
            ..defs::Capture::default()
        };
        recording::define(&def.into());
    }
}
