//! Owns the beginning of a capture: what the launch takes is gathered and written, room is taken, and
//! the copies of its memory are enqueued ahead of it, and behind it. Refuses to choose launches.

use super::super::beside::{Command, Sizes};
use super::calls::{Calls, Origin};
use super::description::{Description, Launched};
use super::flight::{Asked, Flight, Part};
use super::info::{self, Bits, bits};
use super::memories::{self, Memory, Reach, set};
use super::pool::{Lacking, SMALL, rounded};
use super::program::Program;
use super::sample::Draw;
use super::{Refusal, state};
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::abi::error::ErrorCode;
use crate::facts::arguments::{self, ask};
use crate::facts::info as facts;
use crate::recording;
use crate::recording::files::captures::Capture;
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::defs;
use clscope_trace::directory::CAPTURE_SCHEMA;
use serde_json::{Value, json};
use std::sync::Arc;

/// A copy that is made once more behind the launch.
pub struct Behind {
    from: Origin,
    part: Part,
}

/// A capture that has begun.
pub struct Begun {
    pub flight: Box<Flight>,
    /// What is to be copied behind the launch.
    pub behind: Vec<Behind>,
    /// Events that the launch has to wait for, in place of its list; none: its list.
    pub waits: Vec<H>,
}

/// Whether what a launch leaves is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// It is not.
    No,
    /// Where that takes little memory.
    Small,
    /// It is.
    Yes,
}

/// What is known of a launch when it comes.
pub struct Coming<'a> {
    pub slot: usize,
    pub command: &'a Command<'a>,
    pub handle: H,
    pub kernel: &'a Arc<str>,
    pub sizes: &'a Sizes,
    /// Queue properties that the recorder added to the application's.
    pub added: u64,
}

/// The launch's memory, and where its queue is.
struct Gathered {
    context: H,
    device: H,
    out_of_order: bool,
    properties: u64,
    reach: Reach,
    program: Arc<Program>,
}

impl Gathered {
    /// # Safety
    /// The application launches the kernel, so that what its arguments name is live.
    unsafe fn new(of: &Coming<'_>) -> Result<Self, Refusal> {
        if !config::get().programs {
            return Err(
                "programs are not kept (--without programs), and a capture holds one".into()
            );
        }
        let about = api::clGetCommandQueueInfo.behind(of.slot);
        let queue = of.command.queue;
        let context = facts::handle(about, queue, facts::QUEUE_CONTEXT);
        let device = facts::handle(about, queue, facts::QUEUE_DEVICE);
        if context.is_null() || device.is_null() {
            return Err("the queue's context or device is not known".into());
        }
        let properties: u64 = ask(about, queue, cl::CL_QUEUE_PROPERTIES).unwrap_or(0);
        let out_of_order = properties & cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0;
        // SAFETY: the caller's promise.
        let (kernel, _) = unsafe { arguments::kernel(of.slot, of.handle) };
        let reach = Reach::find(of.slot, context, of.handle, &kernel)?;
        let program = Program::find(of.slot, of.handle, device)?;
        Ok(Self { context, device, out_of_order, properties, reach, program })
    }

    /// Bytes in the recorder's buffer and in its shared virtual memory, with what the launch leaves
    /// or without.
    fn bytes(&self, is_checked: bool) -> (u64, u64) {
        let of = |is_shared: bool| {
            let all = self.reach.memories.iter().filter(|m| m.is_shared() == is_shared);
            all.fold(0u64, |sum, memory| {
                let times = if is_checked && !memory.read_only() { 2 } else { 1 };
                sum.saturating_add(rounded(memory.bytes).saturating_mul(times))
            })
        };
        (of(false), of(true))
    }

    /// Bytes of the files, with what the launch leaves or without.
    fn bytes_of_files(&self, is_checked: bool) -> u64 {
        self.reach.memories.iter().fold(self.program.bytes(), |sum, memory| {
            let times = if memory.read_only() || !is_checked { 1 } else { 2 };
            sum.saturating_add(memory.bytes.saturating_mul(times))
        })
    }
}

/// What a capture of a launch would take, in bytes.
///
/// # Errors
/// Why it cannot be captured.
///
/// # Safety
/// The application launches the kernel, so that what its arguments name is live.
pub unsafe fn planned(of: &Coming<'_>) -> Result<u64, Refusal> {
    // SAFETY: the caller's promise.
    let gathered = unsafe { Gathered::new(of) }?;
    let (buffer, shared) = gathered.bytes(false);
    let bytes = buffer.saturating_add(shared);
    let seen =
        state(|s| s.pools.iter().find(|p| p.context == gathered.context.word()).map(|p| p.seen));
    let most = super::room::most(of.slot, gathered.device, seen.flatten().unwrap_or(0));
    match bytes <= most {
        true => Ok(bytes),
        false => Err(super::pool::too_large(bytes, most).into()),
    }
}

/// Begins to capture a launch: its copies ahead are enqueued.
///
/// # Errors
/// Why it is not captured, with what it was asked for.
///
/// # Safety
/// Arguments of a command by the specification, live during the call.
pub unsafe fn begun(
    of: &Coming<'_>,
    launch: u64,
    asked: Asked,
    after: After,
) -> Result<Begun, (Asked, Refusal)> {
    // SAFETY: the caller's promise.
    let gathered = match unsafe { Gathered::new(of) } {
        Ok(gathered) => gathered,
        Err(why) => return Err((asked, why)),
    };
    let Some(calls) = Calls::with_unified(of.slot, gathered.device) else {
        return Err((asked, "the runtime lacks a function that is needed".into()));
    };
    let queue = of.command.queue.word();
    let context = gathered.context.word();
    let others = state(|s| s.traffic.others_run(queue, context)).unwrap_or(true);
    let (both, shared) = gathered.bytes(true);
    let is_small = both.saturating_add(shared) <= SMALL;
    let unchecked = match after {
        After::No => Some("what the launch left was not asked for"),
        After::Small if !is_small => Some("a second copy of its memory would be large"),
        _ if gathered.out_of_order => {
            Some("its queue is out of order: later commands need not wait for a copy")
        }
        _ if others => Some("another queue of the context may have been at work"),
        _ => None,
    };
    let bytes = gathered.bytes(unchecked.is_none());
    let (device, slot) = (gathered.device, of.slot);
    let taken = state(|s| {
        let gone = || Lacking::Never("the recorder has no memory in its context".to_owned());
        let pool = s.pool(slot, gathered.context).ok_or_else(gone)?;
        let (region, reader) = pool.take(&calls, device, bytes)?;
        Ok((region, reader, pool.own(false), pool.own(true)))
    });
    let (region, reader, buffer, shared) = match taken {
        Some(Ok(taken)) => taken,
        Some(Err(Lacking::Later(why))) => return Err((asked, Refusal::Later(why))),
        Some(Err(Lacking::Never(why))) => return Err((asked, Refusal::Never(why))),
        None => return Err((asked, "other threads were capturing at that time".into())),
    };
    let def = defs::Capture {
        kernel: crate::facts::objects::id(of.handle),
        queue: crate::facts::objects::id(of.command.queue),
        launch,
        begun: recording::now(),
        ..defs::Capture::default()
    };
    let kernel = Arc::clone(of.kernel);
    let places = (buffer, shared);
    let mut flight = Box::new(Flight::new(
        calls,
        (slot, context),
        (region, reader),
        places,
        queue,
        kernel,
        def,
        asked,
    ));
    flight.unchecked = unchecked;
    flight.pending = bytes.0.saturating_add(bytes.1);
    if let Asked::Draw(draw) = &flight.asked {
        flight.draw = Some(*draw);
    }
    state(|s| s.samples.as_mut().map(|all| all.pends(flight.draw, flight.pending, true)));
    let bytes = gathered.bytes_of_files(flight.unchecked.is_none());
    let is_drawn = flight.draw.is_some();
    let copied = begin_files(of, &gathered, launch, (bytes, is_drawn)).and_then(|files| {
        (flight.files, flight.reserved) = (Some(files), bytes);
        // SAFETY: the caller's promise.
        unsafe { copy(of, &gathered, &mut flight) }
    });
    match copied {
        Ok((behind, waits)) => Ok(Begun { flight, behind, waits }),
        Err(why) => {
            let asked = std::mem::replace(&mut flight.asked, Asked::Nobody);
            flight.files = None;
            // Copies that were enqueued keep their place until they have ended.
            super::look::abandon(flight);
            Err((asked, why.into()))
        }
    }
}

/// Describes a launch of which nothing is copied, for a reason. The name of its folder.
///
/// # Safety
/// The application launches the kernel, so that what its arguments name is live.
pub unsafe fn describe(of: &Coming<'_>, number: u64, draw: &Draw, why: &str) -> Option<String> {
    super::look::is_unknown(draw).then_some(())?;
    // SAFETY: the caller's promise.
    let gathered = unsafe { Gathered::new(of) }.ok()?;
    let bytes = gathered.program.bytes();
    let files = begin_files(of, &gathered, number, (bytes, true)).ok()?;
    state(|s| s.bytes = s.bytes.saturating_sub(bytes));
    let launch = Launched { kernel: of.kernel, number, command: None };
    super::look::describe(draw, files, launch, why)
}

/// Writes what is known of a launch before it runs. `bytes`: of all files that it will have, and
/// whether it was drawn.
fn begin_files(
    of: &Coming<'_>,
    gathered: &Gathered,
    launch: u64,
    (bytes, is_drawn): (u64, bool),
) -> Result<Description, String> {
    let capture = room(bytes, is_drawn)?;
    write_program(of, gathered, launch, capture)
        .inspect_err(|_| _ = state(|s| s.bytes = s.bytes.saturating_sub(bytes)))
}

fn write_program(
    of: &Coming<'_>,
    gathered: &Gathered,
    launch: u64,
    mut capture: Capture,
) -> Result<Description, String> {
    let Gathered { reach, program, device, properties, .. } = gathered;
    let mut files = Vec::new();
    for form in &program.forms {
        capture.write(&form.file, &form.bytes)?;
        let mut file = json!({
            "file": form.file,
            "language": form.language,
            "bytes": form.bytes.len(),
            "hash": clscope_trace::hash(&form.bytes),
        });
        if let Some(name) = &form.include {
            set(&mut file, "include", name.as_str());
        }
        files.push(file);
    }
    let about = |(id, memory): (usize, &Memory)| {
        let mut told = json!({
            "id": id,
            "bytes": memory.bytes,
            "flags": bits(Bits::Memory, memory.flags),
            "before": null,
            "hash_before": null,
            "after": null,
            "hash_after": null,
            "used": memory.last_use(of.slot),
        });
        memories::merge(&mut told, memory.about.clone());
        told
    };
    let memories = reach.memories.iter().enumerate().map(about).collect();
    let (platform, device) = info::device(of.slot, *device);
    let given = |of: &[u64]| if of.is_empty() { Value::Null } else { json!(of) };
    let document = json!({
        "schema": CAPTURE_SCHEMA,
        "clscope": env!("CARGO_PKG_VERSION"),
        "kernel": &**of.kernel,
        "launch": launch,
        "process": process(),
        "environment": environment(),
        "platform": platform,
        "device": device,
        "program": {
            "origin": program.origin,
            "options": program.options,
            "files": files,
            "missing": program.missing,
        },
        "dimensions": of.sizes.global.len(),
        "offset": given(&of.sizes.offset),
        "global": given(&of.sizes.global),
        "local": given(&of.sizes.local),
        "queue": { "properties": bits(Bits::Queue, properties & !of.added) },
        "arguments": reach.arguments,
    });
    Ok(Description { capture, document, memories })
}

/// Enqueues the copies ahead of the launch.
///
/// # Safety
/// As [`begun`].
unsafe fn copy(
    of: &Coming<'_>,
    gathered: &Gathered,
    flight: &mut Flight,
) -> Result<(Vec<Behind>, Vec<H>), String> {
    let (mut at, mut there) = (flight.region.buffer.0, flight.region.shared.0);
    let mut place = |memory: usize, of: &Memory, is_after: bool| {
        let is_shared = of.is_shared();
        let top = if is_shared { &mut there } else { &mut at };
        let part = Part { memory, is_after, is_shared, at: *top, bytes: of.bytes };
        *top += rounded(of.bytes) as usize;
        part
    };
    let mut behind = Vec::new();
    for (id, memory) in gathered.reach.memories.iter().enumerate() {
        let part = place(id, memory, false);
        // SAFETY: the application's wait list and memory, live during its call.
        unsafe { enqueue(of.command.queue, flight, memory.origin(), &part, of.command.waits) }?;
        flight.parts.push(part);
    }
    if flight.unchecked.is_none() {
        let written = gathered.reach.memories.iter().enumerate().filter(|(_, m)| !m.read_only());
        behind.extend(
            written.map(|(id, memory)| Behind {
                from: memory.origin(),
                part: place(id, memory, true),
            }),
        );
    }
    let mut waits = Vec::new();
    if gathered.out_of_order && !flight.copies.is_empty() {
        let (count, list) = of.command.waits;
        if count > 0 && !list.is_null() {
            // SAFETY: the application's list.
            waits.extend_from_slice(unsafe { std::slice::from_raw_parts(list, count as usize) });
        }
        // SAFETY: events of the recorder's, which the flight holds.
        waits.extend(flight.copies.iter().map(|(word, _)| unsafe { H::from_word(*word) }));
    }
    Ok((behind, waits))
}

/// Enqueues one copy.
///
/// # Safety
/// The application's live queue, memory and wait list.
unsafe fn enqueue(
    queue: H,
    flight: &mut Flight,
    from: Origin,
    part: &Part,
    waits: (u32, *const H),
) -> Result<(), String> {
    let (to, bytes) = (flight.own(part.is_shared, part.at), part.bytes as usize);
    if bytes == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise; the pool has room for the part.
    let event = unsafe { flight.calls.copy(queue, from, to, bytes, waits) };
    let event =
        event.map_err(|code| format!("copying its memory failed with {}", ErrorCode(code)))?;
    flight.copies.push((event.word(), bytes as u64));
    Ok(())
}

/// Enqueues the copies behind the launch. Where one fails, what the launch left is not checked.
///
/// # Safety
/// In the application's call, behind its launch.
pub unsafe fn copy_behind(flight: &mut Flight, behind: Vec<Behind>) {
    // SAFETY: the queue of the call that is under way.
    let queue = unsafe { H::from_word(flight.queue) };
    for Behind { from, part } in behind {
        // SAFETY: the caller's promise: the launch's memory is live.
        match unsafe { enqueue(queue, flight, from, &part, (0, std::ptr::null())) } {
            Ok(()) => flight.parts.push(part),
            Err(_) => flight.uncheck("copying what the launch left failed"),
        }
    }
}

/// Room for a capture of so many bytes, within the limit and on the disk. One that nobody asked for
/// by name takes no more than a quarter of what is free there.
fn room(bytes: u64, is_drawn: bool) -> Result<Capture, String> {
    let limit = config::get().capture_limit;
    let turn = state(|s| {
        let left = limit.saturating_sub(s.bytes);
        s.begun += 1;
        if bytes > left {
            return Err(left);
        }
        s.bytes += bytes;
        Ok(s.begun)
    });
    match turn {
        Some(Ok(turn)) => {
            let left = if is_drawn { bytes.saturating_mul(3) } else { 0 };
            Capture::begin(turn, bytes, left).inspect_err(|_| {
                state(|s| s.bytes = s.bytes.saturating_sub(bytes));
            })
        }
        Some(Err(left)) => Err(format!(
            "it takes {bytes} bytes, and {left} are left of the limit of {limit} \
             (CLSCOPE_CAPTURE_LIMIT raises it)"
        )),
        None => Err("other threads were capturing at that time".to_owned()),
    }
}

/// The variables that chose the runtime and its devices.
fn environment() -> Value {
    let all = config::of_opencl().iter();
    Value::Object(all.map(|(name, value)| ((*name).to_owned(), json!(value))).collect())
}

/// The process, by the names of its files.
fn process() -> Value {
    recording::current().map_or(
        Value::Null,
        |r| json!({ "pid": r.files.header.pid, "incarnation": r.files.header.incarnation }),
    )
}
