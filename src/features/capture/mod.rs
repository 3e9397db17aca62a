//! Owns `CLSCOPE_CAPTURE`: a launch of the application is kept whole, in a folder of the trace:
//! program, arguments, sizes, and what its memory holds before and after. The launch is the
//! application's own, made once, with its arguments; the application's queues are waited for before
//! it, and the launch behind it. What cannot be captured is passed on untouched, with the reason in
//! the trace, and the next launch of the kernel is tried, some times. Refuses to launch anything
//! itself, and to change memory.
//!
//! Everything is read on a queue of our own, made for one capture and released after it. The layout
//! of `launch.json` is documented in the crate `clscope-launch`, which reads it.

mod info;
mod memories;
mod program;
mod read;
mod recent;
mod requests;

use super::beside::{self, Alone, Aside, Calls, Command, Sizes, What};
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::abi::error::ErrorCode;
use crate::facts::arguments::{self, ask};
use crate::facts::{kernels, objects};
use crate::os::fork_safe::ForkSafe;
use crate::os::local::Local;
use crate::recording::{self, captures::Capture};
use crate::runtime::functions as api;
use crate::runtime::waiting;
use crate::settings::config;
use clscope_trace::defs;
use clscope_trace::directory::{CAPTURE_FILE, CAPTURE_SCHEMA};
use clscope_trace::record::CommandKind;
use info::{Bits, bits};
use memories::{Memory, Reach, set};
use program::Program;
use requests::Requests;
use serde_json::{Value, json};
use std::sync::Arc;

static REQUESTS: ForkSafe<Requests> = ForkSafe::new();

/// What a definition tells when the launch's command has its id.
struct Told {
    def: defs::Capture,
    kernel: Arc<str>,
    whole: Option<(Capture, Value)>,
}

/// Of the launch that a thread is making.
static TOLD: Local<Option<Told>> = Local::new();

/// A launch of a kernel that is followed, between what came before it and what comes behind.
pub struct Launch {
    kernel: Arc<str>,
    def: defs::Capture,
    /// Whether this launch was to be captured.
    due: bool,
    work: Option<Work>,
}

/// A capture that is under way.
struct Work {
    alone: Alone,
    aside: Aside,
    memories: Vec<Memory>,
    /// What `launch.json` says of each.
    about: Vec<Value>,
    document: Value,
    capture: Capture,
}

impl Launch {
    /// Whether the launch needs an event.
    pub fn wants_event(&self) -> bool {
        self.work.is_some()
    }
}

/// A command is about to be enqueued: what is to be done about it, if it is a launch of a kernel
/// that is followed. `added`: queue properties that the recorder added to the application's.
///
/// # Safety
/// Arguments of a command by the specification, live during the call.
pub unsafe fn before(slot: usize, command: &Command<'_>, added: u64) -> Option<Launch> {
    if config::get().captures.is_empty() {
        return None;
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
            // SAFETY: the caller's promise.
            let launch = |sizes| unsafe { launch(slot, command, (kernel, &name), &sizes, added) };
            let out = sizes.and_then(launch);
            // SAFETY: the caller's promise.
            let (of, _) = unsafe { arguments::kernel(slot, kernel) };
            recent::launched(slot, &of, &name);
            out
        }
    }
}

/// A command that does not come by [`before`] has used memories; without `bytes` all of each.
pub fn used(slot: usize, kind: CommandKind, bytes: Option<u64>, of: &[H]) {
    if !config::get().captures.is_empty() {
        recent::used(slot, &recent::By::Command(kind), bytes, of);
    }
}

/// A launch is about to be enqueued.
///
/// # Safety
/// As [`before`].
unsafe fn launch(
    slot: usize,
    command: &Command<'_>,
    (handle, kernel): (H, &Arc<str>),
    sizes: &Sizes,
    added: u64,
) -> Option<Launch> {
    if kernels::filtered_out(handle) {
        return None;
    }
    let (wanted, kernel) = (config::get(), Arc::clone(kernel));
    let (number, due) = REQUESTS.with(|r| r.launched(&wanted.captures, &kernel)).flatten()?;
    let def = defs::Capture {
        kernel: objects::id(handle),
        queue: objects::id(command.queue),
        launch: number,
        ..defs::Capture::default()
    };
    let mut out = Launch { kernel, def, due, work: None };
    if due {
        let now = recording::now();
        let work = match (beside::may_not_wait(), Alone::take(now)) {
            (Some(why), _) => Err(why),
            (None, None) => Err("another thread's launch was captured at that time".to_owned()),
            // SAFETY: the caller's promise.
            (None, Some(alone)) => unsafe {
                begun(slot, command, handle, sizes, alone, added, &out)
            },
        };
        match work {
            Ok(work) => out.work = Some(work),
            Err(why) => out.def.refused = why,
        }
    }
    Some(out)
}

/// Gathers what the launch takes, and reads what its memory holds.
///
/// # Safety
/// As [`before`].
unsafe fn begun(
    slot: usize,
    command: &Command<'_>,
    handle: H,
    sizes: &Sizes,
    mut alone: Alone,
    added: u64,
    of: &Launch,
) -> Result<Work, String> {
    if !config::get().programs {
        return Err("programs are not kept (--no-programs), and a capture holds one".to_owned());
    }
    let calls = Calls::of(slot).ok_or("the runtime lacks a function that is needed")?;
    let aside = Aside::new(slot, calls, command.queue)?;
    // SAFETY: the caller's promise.
    let (kernel, _) = unsafe { arguments::kernel(slot, handle) };
    let reach = Reach::of(slot, handle, &kernel)?;
    // A runtime may compile to hand out a binary: nothing runs meanwhile.
    beside::settle(slot, &calls, command)?;
    let program = Program::of(slot, handle, aside.device)?;
    let bytes = reach.memories.iter().fold(program.bytes(), |sum, memory| {
        let times = if memory.read_only() { 1 } else { 2 };
        sum.saturating_add(memory.bytes.saturating_mul(times))
    });
    let mut capture = room(bytes)?;
    let mut files = Vec::new();
    for form in &program.forms {
        let hash = capture.write(&form.file, &form.bytes)?;
        let mut file = json!({
            "file": form.file,
            "language": form.language,
            "bytes": form.bytes.len(),
            "hash": hash,
        });
        if let Some(name) = &form.include {
            set(&mut file, "include", name.as_str());
        }
        files.push(file);
    }
    let mut about = Vec::new();
    for (id, memory) in reach.memories.iter().enumerate() {
        let name = format!("memory-{id}.before");
        let hash = read::read(slot, &aside, memory, &mut capture, &name)?;
        let mut told = json!({
            "id": id,
            "bytes": memory.bytes,
            "flags": bits(Bits::Memory, memory.flags),
            "before": name,
            "hash_before": hash,
            "after": null,
            "hash_after": null,
            "used": memory.last_use(slot),
        });
        memories::merge(&mut told, memory.about.clone());
        about.push(told);
    }
    let (platform, device) = info::device(slot, aside.device);
    let properties: u64 =
        ask(api::clGetCommandQueueInfo.behind(slot), command.queue, cl::CL_QUEUE_PROPERTIES)
            .unwrap_or(0);
    let given = |of: &[u64]| if of.is_empty() { Value::Null } else { json!(of) };
    let document = json!({
        "schema": CAPTURE_SCHEMA,
        "clscope": env!("CARGO_PKG_VERSION"),
        "kernel": &*of.kernel,
        "launch": of.def.launch,
        "process": process(),
        "platform": platform,
        "device": device,
        "program": {
            "origin": program.origin,
            "options": program.options,
            "files": files,
            "missing": program.missing,
        },
        "dimensions": sizes.global.len(),
        "offset": given(&sizes.offset),
        "global": given(&sizes.global),
        "local": given(&sizes.local),
        "queue": { "properties": bits(Bits::Queue, properties & !added) },
        "arguments": reach.arguments,
    });
    alone.pause();
    Ok(Work { alone, aside, memories: reach.memories, about, document, capture })
}

/// Room for a capture of so many bytes, within the limit and on the disk.
fn room(bytes: u64) -> Result<Capture, String> {
    let limit = config::get().capture_limit;
    let turn = REQUESTS.with(|r| {
        let left = limit.saturating_sub(r.bytes);
        r.begun += 1;
        if bytes <= left { Ok(r.begun) } else { Err(left) }
    });
    match turn {
        Some(Ok(turn)) => Capture::begin(turn, bytes),
        Some(Err(left)) => Err(format!(
            "it takes {bytes} bytes, and {left} are left of the limit of {limit} \
             (--capture-limit raises it)"
        )),
        None => Err("other threads were capturing at that time".to_owned()),
    }
}

/// The process, by the names of its files.
fn process() -> Value {
    recording::current().map_or(
        Value::Null,
        |r| json!({ "pid": r.files.header.pid, "incarnation": r.files.header.incarnation }),
    )
}

/// The launch was made, or refused with an error code. `event`: its event, where there is one.
pub fn after(slot: usize, launch: Launch, event: Option<&H>, code: i32) {
    let Launch { kernel, mut def, due, work } = launch;
    if code != 0 {
        REQUESTS.with(|r| r.failed(&kernel));
        return;
    }
    let mut whole = None;
    if let Some(mut work) = work {
        work.alone.resume();
        let done = completed(slot, &mut work, event);
        let Work { alone, aside, capture, document, .. } = work;
        drop(aside);
        def.took = alone.took();
        drop(alone);
        match done {
            Ok(()) => whole = Some((capture, document)),
            Err(why) => def.refused = why,
        }
    }
    if due {
        TOLD.with(|told| *told = Some(Told { def, kernel, whole }));
    }
}

/// Waits for the launch and reads what it left.
fn completed(slot: usize, work: &mut Work, event: Option<&H>) -> Result<(), String> {
    let event = event.ok_or("the launch gave no event to wait for")?;
    // SAFETY: a live event.
    unsafe { waiting::ended(slot, *event, waiting::PATIENCE) };
    let status: Option<u32> =
        ask(api::clGetEventInfo.behind(slot), *event, cl::CL_EVENT_COMMAND_EXECUTION_STATUS);
    match status.map(|status| status as i32) {
        Some(status) if status < 0 => {
            return Err(format!("the launch failed with {}", ErrorCode(status)));
        }
        Some(0) => {}
        _ => {
            let seconds = waiting::PATIENCE.as_secs();
            return Err(format!("the launch did not end within {seconds} s"));
        }
    }
    let duration = work.aside.length(*event);
    set(&mut work.document, "duration_ns", duration);
    let missing = duration.is_none().then_some(
        "the runtime gives no times of the launch: its queue does not profile (--device-timing off, \
         or a launch that was left out of the sample)",
    );
    set(&mut work.document, "duration_missing", missing);
    for (id, memory) in work.memories.iter().enumerate().filter(|(_, m)| !m.read_only()) {
        let name = format!("memory-{id}.after");
        let hash = read::read(slot, &work.aside, memory, &mut work.capture, &name)?;
        if let Some(about) = work.about.get_mut(id) {
            set(about, "after", name);
            set(about, "hash_after", hash);
        }
    }
    let about = std::mem::take(&mut work.about);
    set(&mut work.document, "memories", about);
    Ok(())
}

/// The command that this thread enqueued last has this id: its capture is ended, and told.
pub fn command(id: u64) {
    let Some(told) = TOLD.with(Option::take).flatten() else { return };
    let Told { mut def, kernel, whole } = told;
    def.command = Some(id);
    if let Some((capture, document)) = whole {
        match ended(capture, document, &kernel, &def) {
            Ok((folder, bytes)) => (def.folder, def.bytes) = (folder, bytes),
            Err(why) => def.refused = why,
        }
    }
    def.again = REQUESTS
        .with(|r| {
            if def.refused.is_empty() {
                r.bytes = r.bytes.saturating_add(def.bytes);
                r.captured(&kernel, def.launch);
                false
            } else {
                r.refused(&kernel, def.launch)
            }
        })
        .unwrap_or(false);
    recording::define(&def.into());
}

/// Writes `launch.json`, and gives the folder the name of a whole one: the name, and its bytes.
fn ended(
    mut capture: Capture,
    mut document: Value,
    kernel: &str,
    def: &defs::Capture,
) -> Result<(String, u64), String> {
    set(&mut document, "command", def.command);
    let mut text = serde_json::to_vec_pretty(&document).map_err(|error| error.to_string())?;
    text.push(b'\n');
    capture.write(CAPTURE_FILE, &text)?;
    let bytes = capture.bytes();
    Ok((capture.whole(kernel, def.launch)?, bytes))
}

/// A launch of a kernel was put into a command buffer: it is not seen when it is enqueued.
pub fn in_command_buffer(slot: usize, kernel: H, code: i32) {
    let asked = &config::get().captures;
    if code != 0 || asked.is_empty() || objects::id(kernel) == 0 {
        return;
    }
    let name = arguments::name(slot, kernel);
    if REQUESTS.with(|r| r.buffered(asked, &name)) == Some(true) {
        let def = defs::Capture {
            kernel: objects::id(kernel),
            refused: "it is launched from a command buffer (clCommandNDRangeKernelKHR)".to_owned(),
            ..defs::Capture::default()
        };
        recording::define(&def.into());
    }
}
