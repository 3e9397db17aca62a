//! Copies of programs that count: made of what the runtime hands out of the application's program,
//! for one device, and kept until the application gives up the program or its context. Refuses to
//! touch the application's programs, and to hand a copy to the application: nothing that it can ask
//! leads here.

use super::super::beside::program;
use super::super::beside::{Aside, Sizes, said, slot_of};
use super::verbose;
use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::abi::signatures as f;
use crate::facts::arguments::{Shared, ask};
use crate::facts::programs::{binary, build_text};
use crate::facts::{info, objects};
use crate::os::fork_safe::ForkSafe;
use crate::os::maps::{HashMap, HashSet};
use crate::recording::{self, diag, programs};
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_mix::{Counted, ptx, spirv};
use clscope_trace::defs;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// CL_DEVICE_VENDOR_ID of NVIDIA: its PCI vendor. Others are not asked for binaries: making one may
/// take a runtime long, and none gives a text that can be changed.
const NVIDIA: u32 = 0x10de;
/// Most bytes of a program that are read.
const MOST: usize = 64 << 20;

/// Process, program and device, by their ids.
type Key = (u32, u32, u32);

/// A program that counts.
pub struct Shadow {
    key: Key,
    /// Handles as numbers; never dereferenced.
    program: usize,
    context: usize,
    original: usize,
    release: f::clReleaseProgram,
    counted: Counted,
    language: &'static str,
    hash: String,
    /// What kernels take of the device, by name, as NVIDIA's assembler says.
    resources: HashMap<String, verbose::Found>,
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // SAFETY: made by us, released once, by the last that uses it.
        unsafe { (self.release)(H::from_word(self.program)) };
    }
}

#[derive(Default)]
struct Shadows {
    made: HashMap<Key, Result<Arc<Shadow>, String>>,
    /// Kernels whose resources were told.
    told: HashSet<(Key, String)>,
}

static SHADOWS: ForkSafe<Shadows> = ForkSafe::new();

/// Drops copies. Outside of the lock: releasing a program is a call of the runtime.
fn drop_where(which: impl Fn(&Shadow) -> bool) {
    let gone: Vec<Arc<Shadow>> = SHADOWS
        .with(|s| {
            let out: Vec<_> =
                s.made.values().flatten().filter(|shadow| which(shadow)).cloned().collect();
            s.made.retain(|_, made| !made.as_ref().is_ok_and(|shadow| which(shadow)));
            out
        })
        .unwrap_or_default();
    drop(gone);
}

/// The application is about to give back a program. Where kernels of it are launched later, the
/// copy is made again.
pub fn program_ends(program: H) {
    drop_where(|shadow| shadow.original == program.word());
}

/// The application is about to give back a context: it must not live on for our sake.
pub fn context_ends(context: H) {
    drop_where(|shadow| shadow.context == context.word());
}

/// A copy has failed: it is made again when it is next wanted.
pub fn forget(shadow: &Arc<Shadow>) {
    drop_where(|known| std::ptr::eq(known, Arc::as_ptr(shadow)));
}

/// The copy of a kernel's program for the device of a queue.
pub fn shadow_of(slot: usize, kernel: H, aside: &Aside) -> Result<Arc<Shadow>, String> {
    let about = api::clGetKernelInfo.behind(slot);
    let program = info::handle(about, kernel, info::KERNEL_PROGRAM);
    if program.is_null() {
        return Err("the kernel's program is not known".to_owned());
    }
    let key = (std::process::id(), objects::id(program), objects::id(aside.device));
    if let Some(Some(known)) = SHADOWS.with(|s| s.made.get(&key).cloned()) {
        return known;
    }
    let made = made(slot, program, key, aside).map(Arc::new);
    SHADOWS.with(|s| s.made.insert(key, made.clone()));
    made
}

/// What can be counted of a program.
struct Text {
    language: &'static str,
    bytes: Vec<u8>,
    /// Options of the application's build.
    options: String,
    /// It was made of the source.
    translated: bool,
}

fn text(slot: usize, program: H, device: H) -> Result<Text, String> {
    let about = api::clGetProgramInfo.behind(slot);
    let options = build_text(slot, program, device, cl::CL_PROGRAM_BUILD_OPTIONS);
    let il = info::bytes_up_to(about, program, cl::CL_PROGRAM_IL, MOST).unwrap_or_default();
    if spirv::is_spirv(&il) {
        return Ok(Text { language: "spv", bytes: il, options, translated: false });
    }
    let vendor: Option<u32> =
        ask(api::clGetDeviceInfo.behind(slot), device, cl::CL_DEVICE_VENDOR_ID);
    if vendor == Some(NVIDIA) {
        let bytes = binary(slot, program, device, MOST)?;
        if ptx::is_ptx(&bytes) {
            return Ok(Text { language: "ptx", bytes, options, translated: false });
        }
        return Err(
            "its binary is not PTX: the program was made from a binary of one device".into()
        );
    }
    let device_takes =
        info::text(api::clGetDeviceInfo.behind(slot), device, cl::CL_DEVICE_IL_VERSION);
    if device_takes.is_empty() {
        return Err(
            "the device takes no SPIR-V (clCreateProgramWithIL), and its runtime hands out no \
                    text of programs that can be counted"
                .to_owned(),
        );
    }
    let source = info::bytes_up_to(about, program, cl::CL_PROGRAM_SOURCE, MOST).unwrap_or_default();
    let end = source.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    let source = source.get(..end).unwrap_or_default();
    if source.is_empty() {
        return Err(
            "the program is neither of SPIR-V (clCreateProgramWithIL) nor of one source: it was built \
             from a binary, as where an application keeps one from its last run \
             (PYOPENCL_NO_CACHE=1, OPENCV_OPENCL_CACHE_ENABLE=0 let it build from source), or linked"
                .to_owned(),
        );
    }
    let bytes = programs::translated(&options, source)?;
    Ok(Text { language: "spv", bytes, options: String::new(), translated: true })
}

fn made(slot: usize, original: H, key: Key, aside: &Aside) -> Result<Shadow, String> {
    let Text { language, bytes, options, translated } = text(slot, original, aside.device)?;
    let accesses = config::get().mix_accesses;
    if accesses && language != "ptx" {
        diag::warn(
            "no-accesses",
            "--mix-accesses (CLSCOPE_MIX_ACCESSES) counts how warps' accesses lie in PTX alone: of this runtime's programs \
             instructions are counted without",
        );
    }
    let counted = match language {
        "ptx" => ptx::counted(&bytes, accesses),
        _ => spirv::counted(&bytes),
    };
    let counted = counted.map_err(|error| error.to_string())?;
    let release = api::clReleaseProgram.behind(slot).ok_or("the runtime lacks clReleaseProgram")?;
    // PTX is compiled for the device already: options of the language would be in vain.
    let for_build = if language == "ptx" { "" } else { options.as_str() };
    let program = built(slot, aside, language, &counted.code, for_build)?;
    let (hash, resources) = if language == "ptx" {
        let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
        let text = bytes.get(..end).unwrap_or_default();
        let found = verbose(slot, aside, text, &options);
        let kernels = counted.program.functions.iter().filter(|f| f.kernel);
        tell_untold(&verbose::untold(kernels.map(|f| f.name.as_str()), &found));
        (programs::keep(key.1, key.2, language, text), found)
    } else if translated {
        (programs::keep(key.1, key.2, language, &bytes), HashMap::default())
    } else {
        // Kept when the application made the program of it.
        (clscope_trace::hash(&bytes), HashMap::default())
    };
    Ok(Shadow {
        key,
        program: program.word(),
        context: aside.context.word(),
        original: original.word(),
        release,
        counted,
        language,
        hash,
        resources,
    })
}

/// Makes and builds a copy. `Err` holds the first line of the log.
fn built(
    slot: usize,
    aside: &Aside,
    language: &str,
    code: &[u8],
    options: &str,
) -> Result<H, String> {
    let (context, devices) = (aside.context, [aside.device]);
    let failed = match program::built(slot, context, &devices, language, code, options) {
        Ok(program) => return Ok(program),
        Err(failed) => failed,
    };
    let what = format!("the copy that counts: {}", failed.what);
    let Some(log) = failed.log else { return Err(what) };
    let line = log.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("no log");
    let line: String = line.chars().take(200).collect();
    Err(format!("{what}: {line}"))
}

/// What NVIDIA's assembler says of the application's PTX, built once more for its log.
fn verbose(
    slot: usize,
    aside: &Aside,
    text: &[u8],
    options: &str,
) -> HashMap<String, verbose::Found> {
    let options: Vec<&str> =
        options.split_whitespace().filter(|one| one.starts_with("-cl-nv-")).collect();
    let options = format!("{} -cl-nv-verbose", options.join(" "));
    // The driver's cache of builds gives no log: a text that it has not seen is built.
    let mut unique = text.to_vec();
    unique.extend(format!("\n// clscope {} {}\n", std::process::id(), recording::now()).bytes());
    let Ok(program) = built(slot, aside, "ptx", &unique, &options) else {
        return HashMap::default();
    };
    let log = build_text(slot, program, aside.device, cl::CL_PROGRAM_BUILD_LOG);
    if let Some(release) = api::clReleaseProgram.behind(slot) {
        // SAFETY: made by us, released once.
        unsafe { release(program) };
    }
    verbose::read(&log)
}

/// Says of which kernels registers stay unknown: occupancy is an upper end there.
fn tell_untold(names: &[&str]) {
    let Some(first) = names.first() else { return };
    let more =
        if names.len() > 1 { format!(" and {} more", names.len() - 1) } else { String::new() };
    diag::note(
        "no-registers",
        &format!(
            "registers and spills of {first}{more} are not known: the driver's log of the build with \
             -cl-nv-verbose does not name them, as where it is cut; a program of fewer kernels has a shorter log"
        ),
    );
}

impl Shadow {
    pub fn counted(&self) -> &Counted {
        &self.counted
    }

    pub fn language(&self) -> &'static str {
        self.language
    }

    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Tells what a kernel takes of the device beyond what the runtime said, once.
    pub fn tell_resources(&self, name: &str, kernel: u32, device: u32) {
        let Some(found) = self.resources.get(name) else { return };
        if SHADOWS.with(|s| s.told.insert((self.key, name.to_owned()))) == Some(true) {
            recording::define(
                &defs::Resources {
                    kernel,
                    device,
                    registers: found.registers,
                    spill_stores: found.spill_stores,
                    spill_loads: found.spill_loads,
                    local: found.local,
                    ..defs::Resources::default()
                }
                .into(),
            );
        }
    }

    /// A kernel of it.
    pub fn kernel(&self, slot: usize, name: &str) -> Result<Copy, String> {
        let lacks = || "the runtime lacks a function of kernels".to_owned();
        let create = api::clCreateKernel.behind(slot).ok_or_else(lacks)?;
        let release = api::clReleaseKernel.behind(slot).ok_or_else(lacks)?;
        let set = api::clSetKernelArg.behind(slot).ok_or_else(lacks)?;
        let launch = api::clEnqueueNDRangeKernel.behind(slot).ok_or_else(lacks)?;
        let name: Vec<u8> = name.bytes().filter(|b| *b != 0).chain([0]).collect();
        let mut error = 0;
        // SAFETY: a program of ours, and a C string.
        let kernel = unsafe {
            create(H::from_word(self.program), name.as_ptr().cast_mut().cast(), &mut error)
        };
        said("making the kernel that counts", error)?;
        Ok(Copy { kernel, release, set, launch })
    }

    /// Room for the counters, where a kernel takes them as its last argument.
    pub fn counters(&self, slot: usize, aside: &Aside, copy: &Copy) -> Result<Counters, String> {
        let bytes = self.counted.words() * 8;
        let buffer = aside.room(bytes)?;
        let out = Counters { buffer, bytes, release: aside.calls.release_memory };
        if self.counted.dump.is_none() {
            let zeros = vec![0u8; bytes];
            let write = api::clEnqueueWriteBuffer
                .behind(slot)
                .ok_or("the runtime lacks clEnqueueWriteBuffer")?;
            // SAFETY: a live queue and buffer of that size; the call waits.
            said("setting counters to 0", unsafe {
                write(
                    aside.queue,
                    buffer,
                    1,
                    0,
                    bytes,
                    zeros.as_ptr().cast_mut().cast(),
                    0,
                    null(),
                    null_mut(),
                )
            })?;
            let about = api::clGetKernelInfo.behind(slot);
            let arguments: u32 = ask(about, copy.kernel, cl::CL_KERNEL_NUM_ARGS)
                .ok_or("the number of arguments of the copy is not known")?;
            let last = arguments.checked_sub(1).ok_or("the copy takes no counters")?;
            said("setting the counters", copy.set_object(last, buffer))?;
        }
        Ok(out)
    }
}

/// A kernel that counts.
pub struct Copy {
    kernel: H,
    release: f::clReleaseKernel,
    set: f::clSetKernelArg,
    launch: f::clEnqueueNDRangeKernel,
}

impl Drop for Copy {
    fn drop(&mut self) {
        // SAFETY: made by us, released once.
        unsafe { (self.release)(self.kernel) };
    }
}

impl Copy {
    /// Sets an argument to a value.
    pub fn set(&self, index: u32, value: &[u8]) -> i32 {
        // SAFETY: a kernel of ours, and as many bytes as are said.
        unsafe { (self.set)(self.kernel, index, value.len(), value.as_ptr().cast_mut().cast()) }
    }

    /// Sets an argument to so many bytes of local memory.
    pub fn set_local(&self, index: u32, bytes: usize) -> i32 {
        // SAFETY: a kernel of ours; NULL stands for local memory.
        unsafe { (self.set)(self.kernel, index, bytes, null_mut()) }
    }

    pub fn set_object(&self, index: u32, object: H) -> i32 {
        self.set(index, &object.word().to_ne_bytes())
    }

    /// Sets an argument to an address of shared virtual memory, or says what it reaches beside its
    /// arguments.
    pub fn set_shared(&self, slot: usize, index: u32, shared: &Shared) -> i32 {
        match shared {
            Shared::Svm(address) => {
                let Some(set) = api::clSetKernelArgSVMPointer.behind(slot) else {
                    return cl::CL_INVALID_OPERATION;
                };
                // SAFETY: a kernel of ours, and what the application set the argument to.
                unsafe { set(self.kernel, index, *address as P) }
            }
            Shared::Listed(addresses) => {
                let Some(set) = api::clSetKernelExecInfo.behind(slot) else {
                    return cl::CL_INVALID_OPERATION;
                };
                let (name, size) =
                    (cl::CL_KERNEL_EXEC_INFO_SVM_PTRS, size_of_val(addresses.as_slice()));
                // SAFETY: a kernel of ours, and as many addresses as are said.
                unsafe { set(self.kernel, name, size, addresses.as_ptr().cast_mut().cast()) }
            }
            Shared::Other => cl::CL_INVALID_VALUE,
        }
    }

    /// Launches it, with an event where wanted.
    pub fn enqueue(&self, queue: H, sizes: &Sizes, event: Option<&mut H>) -> i32 {
        let of = |sizes: &[u64]| sizes.iter().map(|n| *n as usize).collect::<Vec<usize>>();
        let (offset, global, local) = (of(&sizes.offset), of(&sizes.global), of(&sizes.local));
        let at = |given: &[usize]| if given.is_empty() { null() } else { given.as_ptr() };
        if [&local, &offset].iter().any(|sizes| !sizes.is_empty() && sizes.len() != global.len()) {
            return cl::CL_INVALID_WORK_DIMENSION;
        }
        // SAFETY: a queue and a kernel of ours; each array is NULL or has as many sizes as
        // dimensions; the event's slot is borrowed for this call, or NULL.
        unsafe {
            (self.launch)(
                queue,
                self.kernel,
                global.len() as u32,
                at(&offset),
                at(&global),
                at(&local),
                0,
                null(),
                slot_of(event),
            )
        }
    }
}

/// Where counters are read from.
pub struct Counters {
    buffer: H,
    bytes: usize,
    release: f::clReleaseMemObject,
}

impl Drop for Counters {
    fn drop(&mut self) {
        // SAFETY: made by us, released once.
        unsafe { (self.release)(self.buffer) };
    }
}

impl Counters {
    /// The counters of the launch that is complete.
    pub fn read(&self, slot: usize, aside: &Aside, shadow: &Shadow) -> Result<Vec<u64>, String> {
        let words = self.bytes / 8;
        if let Some(dump) = &shadow.counted.dump {
            let kernel = shadow.kernel(slot, dump)?;
            said("setting the buffer for counters", kernel.set_object(0, self.buffer))?;
            let sizes = Sizes { global: vec![words as u64], ..Sizes::default() };
            said("copying the counters", kernel.enqueue(aside.queue, &sizes, None))?;
            aside.finish()?;
        }
        let mut out = vec![0u64; words];
        // SAFETY: a live queue, a buffer of that size and room for it; the call waits.
        said("reading the counters", unsafe {
            (aside.calls.read)(
                aside.queue,
                self.buffer,
                1,
                0,
                self.bytes,
                out.as_mut_ptr().cast(),
                0,
                null(),
                null_mut(),
            )
        })?;
        Ok(out)
    }
}
