//! What recording costs on this machine, measured with the real recorder. It is loaded as a layer
//! over functions that do nothing, in a process of its own, so that no OpenCL runtime is needed and
//! none blurs the figures. Owns the self-test; refuses to guess what a runtime charges for events:
//! that depends on it.

use crate::Surroundings;
use clscope_capture::library::LibraryError;
use clscope_opencl::signatures as f;
use clscope_profile::report::recording::{Costs, Share};
use serde::{Deserialize, Serialize};
use std::ffi::c_void;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// The first argument of the process that measures; the recorder follows. Its program calls
/// [`answer`].
pub const SUBCOMMAND: &str = "__overhead";

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum OverheadError {
    /// There is no recorder.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// It cannot be loaded.
    #[error("could not load {}", path.display())]
    Load { path: PathBuf, source: libloading::Error },
    /// It is something else.
    #[error("the library is no layer")]
    NoLayer(#[source] libloading::Error),
    /// It does not record.
    #[error("the recorder refused to record the self-test (error {code}, {functions} functions)")]
    Refused { code: i32, functions: u32 },
    /// The process that measures cannot be started.
    #[error("could not start the self-test")]
    Start(#[source] io::Error),
    /// It failed.
    #[error("the self-test with {} failed ({status}): {said}", recorder.display())]
    Failed { recorder: PathBuf, status: ExitStatus, said: String },
    /// The recorder complained.
    #[error(
        "the recorder did not record in {}: {said}; start it in another folder",
        directory.display()
    )]
    NotRecorded { directory: PathBuf, said: String },
    /// Its answer cannot be read or written.
    #[error("the self-test gave no figures")]
    Answer(#[source] serde_json::Error),
}

/// Name and version of the schema of [`Overhead`] (`overhead.schema.json`); raised when a field
/// changes its meaning or goes.
pub const SCHEMA: &str = "clscope-overhead/1";

/// What `clscope overhead --format json` prints.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Overhead {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What the self-test found.
    pub measured: Measured,
    /// What recording took of the traces that were named.
    pub recording: Option<Share>,
}

/// What the self-test found, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Measured {
    /// Two readings of the clock, one 32-byte store, one indirect call: what no recorder of both
    /// ends of a call goes below.
    pub floor_ns: f64,
    /// Added to a call that is recorded in the short form, refills of the buffer included.
    pub call_ns: f64,
    /// Added to a timed launch until it returns.
    pub launch_ns: f64,
    /// Added to the application's own wait, per launch that is harvested there.
    pub harvest_ns: f64,
    /// The first call of a process: its trace files are made.
    pub first_call_ns: f64,
    /// Loading the library.
    pub load_ns: f64,
}

impl Measured {
    /// As a share of a trace is estimated from them.
    pub fn costs(&self) -> Costs {
        Costs { call_ns: self.call_ns, command_ns: self.launch_ns + self.harvest_ns }
    }
}

/// Measures in a process of its own. `directory` is where the self-test's trace goes for the
/// moment; its file system counts.
///
/// # Errors
/// If the recorder cannot be found or loaded, or the folder cannot be written.
pub fn measure(here: Surroundings<'_>, directory: &Path) -> Result<Measured, OverheadError> {
    let recorder = here.libraries()?.recorder;
    let scratch = directory.join(format!(".clscope-overhead-{}", std::process::id()));
    let mut command = Command::new(here.program);
    command.arg(SUBCOMMAND).arg(&recorder);
    // Settings of the user's would be measured instead of the defaults.
    for setting in clscope_trace::variables::SETTINGS {
        command.env_remove(setting.name);
    }
    for name in ["LD_PRELOAD", "LD_AUDIT", "OPENCL_LAYERS"] {
        command.env_remove(name);
    }
    command
        .env(clscope_trace::variables::TRACE, &scratch)
        .env(clscope_trace::variables::DEVICE_TIMING, "event")
        .env(clscope_trace::variables::MAX_SIZE, "64M")
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    let output = command.output();
    // Ours alone: the name holds our process id.
    let _ = std::fs::remove_dir_all(&scratch);
    let output = output.map_err(OverheadError::Start)?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if !output.status.success() {
        return Err(OverheadError::Failed { recorder, status: output.status, said });
    }
    if !said.is_empty() {
        return Err(OverheadError::NotRecorded { directory: directory.to_owned(), said });
    }
    serde_json::from_slice(&output.stdout).map_err(OverheadError::Answer)
}

/// The child's side: measures, and gives one line of JSON.
///
/// # Errors
/// If the recorder cannot be loaded or does not record.
pub fn answer(recorder: &Path) -> Result<String, OverheadError> {
    serde_json::to_string(&self_test(recorder)?).map_err(OverheadError::Answer)
}

/// Places in `struct _cl_icd_dispatch` (cl_icd.h of the Khronos headers), whose order never
/// changes.
mod place {
    pub const CREATE_COMMAND_QUEUE: usize = 9;
    pub const RETAIN_MEM_OBJECT: usize = 17;
    pub const GET_EVENT_INFO: usize = 42;
    pub const RETAIN_EVENT: usize = 43;
    pub const RELEASE_EVENT: usize = 44;
    pub const GET_EVENT_PROFILING_INFO: usize = 45;
    pub const FLUSH: usize = 46;
    pub const FINISH: usize = 47;
    pub const ENQUEUE_ND_RANGE_KERNEL: usize = 59;
    pub const ENTRIES: usize = 61;
}

type Handle = *mut c_void;
/// Of a layer, which is no entry point of the API.
type InitLayer = unsafe extern "C-unwind" fn(
    u32,
    *const *const c_void,
    *mut u32,
    *mut *const *const c_void,
) -> i32;

/// The runtime below the recorder. None of it does anything that takes time.
mod stub {
    use super::{AtomicUsize, Handle, Ordering};
    use clscope_trace::codes::CL_INVALID_OPERATION;

    static EVENTS: AtomicUsize = AtomicUsize::new(0);

    pub unsafe extern "C-unwind" fn succeeds(_: Handle) -> i32 {
        0
    }
    /// For everything that the self-test does not use.
    pub unsafe extern "C-unwind" fn refuses() -> i32 {
        CL_INVALID_OPERATION
    }
    pub unsafe extern "C-unwind" fn create_queue(
        _: Handle,
        _: Handle,
        _: u64,
        code: *mut i32,
    ) -> Handle {
        if !code.is_null() {
            // SAFETY: the caller's errcode_ret.
            unsafe { *code = 0 };
        }
        0x1000 as Handle
    }
    /// An event of each launch whose caller wants one; runtimes too hand out the same addresses
    /// again.
    pub unsafe extern "C-unwind" fn launch(
        _: Handle,
        _: Handle,
        _: u32,
        _: *const usize,
        _: *const usize,
        _: *const usize,
        _: u32,
        _: *const Handle,
        event: *mut Handle,
    ) -> i32 {
        if !event.is_null() {
            let at = EVENTS.fetch_add(1, Ordering::Relaxed) % 2048;
            // SAFETY: the caller's slot.
            unsafe { *event = (0x10_0000 + at * 256) as Handle };
        }
        0
    }
    /// Every event is complete: CL_EVENT_COMMAND_EXECUTION_STATUS gives CL_COMPLETE.
    pub unsafe extern "C-unwind" fn event_info(
        _: Handle,
        _: u32,
        size: usize,
        value: Handle,
        _: *mut usize,
    ) -> i32 {
        if size >= 4 && !value.is_null() {
            // SAFETY: the caller says that `size` bytes may be written.
            unsafe { value.cast::<i32>().write_unaligned(0) };
        }
        0
    }
    pub unsafe extern "C-unwind" fn profiling_info(
        _: Handle,
        which: u32,
        size: usize,
        value: Handle,
        _: *mut usize,
    ) -> i32 {
        if size >= 8 && !value.is_null() {
            // SAFETY: as above. Later stamps are larger.
            unsafe { value.cast::<u64>().write_unaligned(1_000_000 + u64::from(which)) };
        }
        0
    }
}

fn self_test(recorder: &Path) -> Result<Measured, OverheadError> {
    let begin = Instant::now();
    // SAFETY: loading the recorder reads its settings and does nothing else.
    let library = unsafe { libloading::Library::new(recorder) }
        .map_err(|source| OverheadError::Load { path: recorder.to_owned(), source })?;
    let load_ns = begin.elapsed().as_nanos() as f64;
    let mut below = [stub::refuses as *const c_void; place::ENTRIES];
    for (at, function) in [
        (place::CREATE_COMMAND_QUEUE, stub::create_queue as *const c_void),
        (place::RETAIN_MEM_OBJECT, stub::succeeds as *const c_void),
        (place::GET_EVENT_INFO, stub::event_info as *const c_void),
        (place::RETAIN_EVENT, stub::succeeds as *const c_void),
        (place::RELEASE_EVENT, stub::succeeds as *const c_void),
        (place::GET_EVENT_PROFILING_INFO, stub::profiling_info as *const c_void),
        (place::FLUSH, stub::succeeds as *const c_void),
        (place::FINISH, stub::succeeds as *const c_void),
        (place::ENQUEUE_ND_RANGE_KERNEL, stub::launch as *const c_void),
    ] {
        below[at] = function;
    }
    let (mut entries, mut above): (u32, *const *const c_void) = (0, std::ptr::null());
    // SAFETY: the symbol of cl_layer.h, with its signature; the table lives to the end of this
    // function, and longer is not needed: the recorder copies it.
    let taken = unsafe {
        let init: libloading::Symbol<'_, InitLayer> =
            library.get(b"clInitLayer\0").map_err(OverheadError::NoLayer)?;
        init(place::ENTRIES as u32, below.as_ptr(), &mut entries, &mut above)
    };
    if taken != 0 || above.is_null() || (entries as usize) < place::ENTRIES {
        return Err(OverheadError::Refused { code: taken, functions: entries });
    }
    // SAFETY: the recorder gave a table of so many functions.
    let above = unsafe { std::slice::from_raw_parts(above, place::ENTRIES) };
    // SAFETY: both tables hold functions of their places' types: the stubs above, and the
    // recorder's.
    let mut measured = Measured { load_ns, ..unsafe { time(&below, above) } };
    // The first call makes the trace; it was made by `time`.
    measured.first_call_ns = measured.first_call_ns.max(0.0);
    Ok(measured)
}

/// Rounds of the self-test; figures are their medians, so that an interruption costs one round.
const ROUNDS: usize = 31;
/// Calls of a round: several fillings of the recorder's buffer.
const CALLS: usize = 100_000;
/// Fewer than an enqueue would look after itself: the wait behind them harvests.
const LAUNCHES: usize = 1_000;

/// Times calls of the recorder's functions against those of the stubs.
///
/// # Safety
/// Each table has [`place::ENTRIES`] places, and those that are named here hold functions of the
/// types that OpenCL gives them.
unsafe fn time(below: &[*const c_void], above: &[*const c_void]) -> Measured {
    // SAFETY: the caller's promise; so it is for the following three.
    let plain = |table: &[*const c_void]| unsafe {
        std::mem::transmute::<*const c_void, f::clRetainMemObject>(table[place::RETAIN_MEM_OBJECT])
    };
    // SAFETY: as above.
    let finish = |table: &[*const c_void]| unsafe {
        std::mem::transmute::<*const c_void, f::clFinish>(table[place::FINISH])
    };
    // SAFETY: as above.
    let launch = |table: &[*const c_void]| unsafe {
        std::mem::transmute::<*const c_void, f::clEnqueueNDRangeKernel>(
            table[place::ENQUEUE_ND_RANGE_KERNEL],
        )
    };
    // SAFETY: as above.
    let create = unsafe {
        std::mem::transmute::<*const c_void, f::clCreateCommandQueue>(
            above[place::CREATE_COMMAND_QUEUE],
        )
    };
    let clock = clscope_clock::choose();
    let mut code = 0;
    let begin = Instant::now();
    // SAFETY: handles mean nothing to the functions below, and the recorder never dereferences one.
    let queue = unsafe { create(0x10 as Handle, 0x20 as Handle, 0, &mut code) };
    let first_call_ns = begin.elapsed().as_nanos() as f64;
    let (object, kernel) = (0x2000 as Handle, 0x3000 as Handle);
    // CPU time of this thread, system calls included: waiting for a processor is not the recorder's
    // doing.
    let begin_now = clscope_clock::thread_cpu;
    let ns_each = |begin: clscope_clock::Nanoseconds, n: usize| {
        (clscope_clock::thread_cpu().0 - begin.0) as f64 / n as f64
    };

    let calls = |function: f::clRetainMemObject| {
        let function = std::hint::black_box(function);
        let begin = begin_now();
        for _ in 0..CALLS {
            // SAFETY: as above.
            std::hint::black_box(unsafe { function(object) });
        }
        ns_each(begin, CALLS)
    };
    let floor = |function: f::clRetainMemObject| {
        let function = std::hint::black_box(function);
        let mut slots = [[0u64; 4]; 128];
        let begin = begin_now();
        for i in 0..CALLS {
            let before = clscope_clock::now(clock).0;
            // SAFETY: as above.
            let result = unsafe { function(object) };
            let after = clscope_clock::now(clock).0;
            slots[i % 128] = [before, after - before, result as u64, i as u64];
            std::hint::black_box(&mut slots);
        }
        ns_each(begin, CALLS)
    };
    let launches = |launch: f::clEnqueueNDRangeKernel, finish: f::clFinish| {
        let (launch, finish) = (std::hint::black_box(launch), std::hint::black_box(finish));
        let global = 64usize;
        let begin = begin_now();
        for _ in 0..LAUNCHES {
            let none = std::ptr::null_mut();
            // SAFETY: as above; one dimension has one size.
            std::hint::black_box(unsafe {
                launch(queue, kernel, 1, none, &global, none, 0, std::ptr::null(), none.cast())
            });
        }
        let launched = ns_each(begin, LAUNCHES);
        let begin = begin_now();
        // SAFETY: as above.
        unsafe { finish(queue) };
        (launched, ns_each(begin, LAUNCHES))
    };

    let mut rounds: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(floor(plain(below)));
        let bare = calls(plain(below));
        rounds[1].push(calls(plain(above)) - bare);
        let bare = launches(launch(below), finish(below));
        let recorded = launches(launch(above), finish(above));
        rounds[2].push(recorded.0 - bare.0);
        rounds[3].push(recorded.1 - bare.1);
    }
    let [floor_ns, call_ns, launch_ns, harvest_ns] = rounds.map(|mut each| {
        each.sort_by(f64::total_cmp);
        each[ROUNDS / 2].max(0.0)
    });
    Measured { floor_ns, call_ns, launch_ns, harvest_ns, first_call_ns, load_ns: 0.0 }
}
