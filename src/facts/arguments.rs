//! Owns what is known of kernels' arguments and of the memory objects among them: the application's
//! own calls tell it while they pass. Refuses to guess: what was not seen is not known.

use super::info::{self, Info};
use super::objects;
use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashMap;
use crate::runtime::functions as api;
use std::collections::BTreeMap;
use std::ptr::null_mut;
use std::sync::Arc;

/// What a handle is that may be a kernel's argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Buffer,
    Image,
    Pipe,
    Sampler,
}

/// An argument of a kernel.
#[derive(Debug, Clone)]
pub enum Argument {
    /// A plain value.
    Value(Box<[u8]>),
    /// Local memory of so many bytes, or NULL in place of an object: a size without a value.
    Local(usize),
    Object(H),
    /// It points into memory which several sides share.
    Shared(Shared),
}

/// What a kernel may reach of memory which several sides share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shared {
    /// An argument with this address of shared virtual memory (clSetKernelArgSVMPointer).
    Svm(usize),
    /// Such addresses beside the arguments (clSetKernelExecInfo).
    Listed(Vec<usize>),
    /// Any allocation of a kind (clSetKernelExecInfo of cl_intel_unified_shared_memory).
    Any(Allocated),
    /// Memory of another kind: all of the host's, or one of an extension.
    Other,
}

/// How shared memory was allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocated {
    /// clSVMAlloc.
    Svm,
    /// clDeviceMemAllocINTEL.
    Device,
    /// clHostMemAllocINTEL.
    Host,
    /// clSharedMemAllocINTEL.
    Shared,
}

impl Allocated {
    /// The kind of unified shared memory (cl_intel_unified_shared_memory).
    pub fn unified(self) -> Option<&'static str> {
        match self {
            Self::Svm => None,
            Self::Device => Some("device"),
            Self::Host => Some("host"),
            Self::Shared => Some("shared"),
        }
    }
}

/// An allocation of shared virtual memory, or of unified shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Svm {
    pub address: usize,
    pub bytes: usize,
    pub flags: u64,
    pub how: Allocated,
    /// Its context, by value.
    pub context: usize,
}

// SAFETY: handles of memory objects and samplers may be handed to the runtime by any thread.
unsafe impl Send for Argument {}

/// A kernel object.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// A number for its program and name; asked for at its first launch.
    pub identity: Option<u64>,
    /// Asked for at the first launch in runs that go by names.
    name: Option<Arc<str>>,
    pub arguments: BTreeMap<u32, Argument>,
}

#[derive(Default)]
struct Known {
    memory: HashMap<usize, Memory>,
    kernels: HashMap<usize, Kernel>,
    /// By address.
    svm: BTreeMap<usize, Svm>,
}

static KNOWN: ForkSafe<Known> = ForkSafe::new();

/// The default where the lock cannot be had: a launch of which nothing is known is not repeated.
fn known<R: Default>(run: impl FnOnce(&mut Known) -> R) -> R {
    KNOWN.with(run).unwrap_or_default()
}

/// A memory object or sampler was made.
pub fn memory_created(handle: H, memory: Memory) {
    if !handle.is_null() {
        known(|k| k.memory.insert(handle.word(), memory));
    }
}

/// What a handle is.
pub fn memory(handle: H) -> Option<Memory> {
    known(|k| k.memory.get(&handle.word()).copied())
}

/// A kernel was made: its handle may have been another's.
pub fn forget(kernel: H) {
    known(|k| k.kernels.remove(&kernel.word()));
}

/// Kernels were made by one call, or refused with an error code.
///
/// # Safety
/// Without an error `kernels` is NULL, or `made` is NULL or tells how many of them were written, at
/// most `room`.
pub unsafe fn forget_all(kernels: *const H, room: u32, made: *const u32, code: i32) {
    if code != 0 || kernels.is_null() {
        return;
    }
    // SAFETY: the caller's promise. Where nobody asked how many, only what was there is read.
    let count = if made.is_null() { 0 } else { unsafe { *made }.min(room) };
    for at in 0..count as usize {
        // SAFETY: written by the call.
        forget(unsafe { *kernels.add(at) });
    }
}

/// A kernel was cloned, with the arguments it had then.
pub fn cloned(from: H, to: H) {
    if !to.is_null() {
        known(|k| {
            let same = k.kernels.get(&from.word()).cloned().unwrap_or_default();
            k.kernels.insert(to.word(), same);
        });
    }
}

/// An argument was set, or refused with an error code.
///
/// # Safety
/// Without an error `value` is NULL or has `size` readable bytes.
pub unsafe fn argument(kernel: H, index: u32, size: usize, value: P, code: i32) {
    if code != 0 {
        return;
    }
    let mut argument = Argument::Local(size);
    if !value.is_null() {
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) };
        argument = Argument::Value(bytes.into());
        if let Ok(word) = bytes.try_into().map(usize::from_ne_bytes)
            && objects::id_of_word(word) != 0
        {
            // SAFETY: the runtime has taken the value, which an object known to it has, for that
            // object.
            argument = Argument::Object(unsafe { H::from_word(word) });
        }
    }
    known(|k| {
        k.kernels.entry(kernel.word()).or_default().arguments.insert(index, argument);
    });
}

/// An argument was set, or announced, that points into memory which several sides share.
pub fn shared(kernel: H, index: u32, what: Shared, code: i32) {
    if code == 0 {
        known(|k| {
            let kernel = k.kernels.entry(kernel.word()).or_default();
            kernel.arguments.insert(index, Argument::Shared(what));
        });
    }
}

/// What stands in place of an argument's index for what a kernel reaches beside its arguments.
pub const BESIDE: u32 = u32::MAX;

/// Such places: of lists of addresses, and of all allocations of a kind.
pub const ALL_BESIDE: [u32; 6] =
    [BESIDE, BESIDE - 1, BESIDE - 2, BESIDE - 3, BESIDE - 4, BESIDE - 5];

/// Memory was announced that a kernel reaches beside its arguments (clSetKernelExecInfo).
///
/// # Safety
/// Without an error `value` has `size` readable bytes.
pub unsafe fn reaches(kernel: H, name: u32, size: usize, value: P, code: i32) {
    if code != 0 {
        return;
    }
    let bytes: &[u8] = match value.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) },
    };
    let listed = || {
        let words = bytes.chunks_exact(size_of::<usize>());
        Shared::Listed(words.filter_map(|w| w.try_into().ok().map(usize::from_ne_bytes)).collect())
    };
    let (place, what) = match name {
        cl::CL_KERNEL_EXEC_INFO_SVM_PTRS => (BESIDE, listed()),
        cl::CL_KERNEL_EXEC_INFO_USM_PTRS_INTEL => (BESIDE - 1, listed()),
        cl::CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL => {
            (BESIDE - 2, Shared::Any(Allocated::Device))
        }
        cl::CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL => {
            (BESIDE - 3, Shared::Any(Allocated::Host))
        }
        cl::CL_KERNEL_EXEC_INFO_INDIRECT_SHARED_ACCESS_INTEL => {
            (BESIDE - 4, Shared::Any(Allocated::Shared))
        }
        _ => (BESIDE - 5, Shared::Other),
    };
    // What may be reached, and is not: a cl_bool of 0.
    if !matches!(what, Shared::Listed(_)) && bytes.iter().all(|byte| *byte == 0) {
        known(|k| {
            let kernel = k.kernels.entry(kernel.word()).or_default();
            kernel.arguments.remove(&place);
        });
        return;
    }
    shared(kernel, place, what, code);
}

/// Shared memory was allocated in a context, or not.
pub fn svm_made(context: H, address: P, bytes: usize, flags: u64, how: Allocated) {
    let address = address as usize;
    if address != 0 {
        known(|k| {
            // What lay there has been given back in a way that is not followed.
            let end = address.saturating_add(bytes);
            let left =
                k.svm.range(..end).next_back().filter(|(_, s)| s.address + s.bytes > address);
            if let Some(left) = left.map(|(at, _)| *at) {
                k.svm.remove(&left);
            }
            k.svm.insert(address, Svm { address, bytes, flags, how, context: context.word() });
        });
    }
}

/// It was given back.
pub fn svm_ended(address: P) {
    known(|k| k.svm.remove(&(address as usize)));
}

/// The allocation that an address lies in.
pub fn svm(address: usize) -> Option<Svm> {
    known(|k| {
        let (_, found) = k.svm.range(..=address).next_back()?;
        (address - found.address < found.bytes.max(1)).then_some(*found)
    })
}

/// All allocations of a kind in a context, in order of their addresses.
pub fn allocations(context: usize, how: Allocated) -> Vec<Svm> {
    known(|k| k.svm.values().filter(|s| s.how == how && s.context == context).copied().collect())
}

/// What numbers of [`number`] begin with.
pub const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// A number for some bytes behind others: FNV-1a.
pub fn number(before: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(before, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A number for a word behind others.
pub fn word(before: u64, word: u64) -> u64 {
    number(before, &word.to_le_bytes())
}

/// Numbers and handles: what is written into them is a value, whatever it is.
pub trait Plain: Copy + Default {}
impl Plain for u32 {}
impl Plain for u64 {}
impl Plain for usize {}

/// A fixed-size answer of an info function.
pub fn ask<T: Plain>(info: Option<Info>, object: H, what: u32) -> Option<T> {
    let mut value = T::default();
    // SAFETY: a live object and room for the answer, of which every value is valid.
    let code = unsafe { info?(object, what, size_of::<T>(), (&raw mut value).cast(), null_mut()) };
    (code == 0).then_some(value)
}

fn identity(slot: usize, kernel: H) -> u64 {
    let about = api::clGetKernelInfo.behind(slot);
    let program = info::handle(about, kernel, info::KERNEL_PROGRAM);
    let name = info::text(about, kernel, cl::CL_KERNEL_FUNCTION_NAME);
    word(number(SEED, name.as_bytes()), u64::from(objects::id(program)))
}

/// A kernel's name.
pub fn name(slot: usize, handle: H) -> Arc<str> {
    let told = known(|k| k.kernels.entry(handle.word()).or_default().name.clone());
    told.unwrap_or_else(|| {
        let about = api::clGetKernelInfo.behind(slot);
        let name: Arc<str> = info::text(about, handle, cl::CL_KERNEL_FUNCTION_NAME).into();
        known(|k| k.kernels.entry(handle.word()).or_default().name = Some(Arc::clone(&name)));
        name
    })
}

/// A launch's kernel with its arguments, and a number for its program and name.
///
/// # Safety
/// The application launches the kernel, so that the objects among its arguments are live, and the
/// arguments are used no longer than its call lasts.
pub unsafe fn kernel(slot: usize, handle: H) -> (Kernel, u64) {
    let mut of = known(|k| k.kernels.entry(handle.word()).or_default().clone());
    let same = match of.identity {
        Some(same) => same,
        None => {
            let same = identity(slot, handle);
            of.identity = Some(same);
            known(|k| k.kernels.entry(handle.word()).or_default().identity = Some(same));
            same
        }
    };
    (of, same)
}
