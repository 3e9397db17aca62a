//! Owns what is known of kernels' arguments and of the memory objects among them: the application's
//! own calls tell it while they pass. Refuses to guess: what was not seen is not known.

use super::info::{self, Info};
use super::objects;
use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::os::fork_safe::ForkSafe;
use crate::runtime::functions as api;
use std::collections::{BTreeMap, HashMap};
use std::ptr::null_mut;

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
    Shared,
}

// SAFETY: handles are never dereferenced.
unsafe impl Send for Argument {}

/// A kernel object.
#[derive(Debug, Clone, Default)]
pub struct Kernel {
    /// A number for its program and name; asked for at its first launch.
    pub identity: Option<u64>,
    pub arguments: BTreeMap<u32, Argument>,
}

#[derive(Default)]
struct Known {
    memory: HashMap<usize, Memory>,
    kernels: HashMap<usize, Kernel>,
}

static KNOWN: ForkSafe<Known> = ForkSafe::new();

/// The default where the lock cannot be had: a launch of which nothing is known is not repeated.
fn known<R: Default>(run: impl FnOnce(&mut Known) -> R) -> R {
    KNOWN.with(run).unwrap_or_default()
}

/// A memory object or sampler was made.
pub fn made(handle: H, memory: Memory) {
    if !handle.is_null() {
        known(|k| k.memory.insert(handle as usize, memory));
    }
}

/// What a handle is.
pub fn memory(handle: H) -> Option<Memory> {
    known(|k| k.memory.get(&(handle as usize)).copied())
}

/// A kernel was made: its handle may have been another's.
pub fn forget(kernel: H) {
    known(|k| k.kernels.remove(&(kernel as usize)));
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
            let same = k.kernels.get(&(from as usize)).cloned().unwrap_or_default();
            k.kernels.insert(to as usize, same);
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
            && objects::id(word as H) != 0
        {
            argument = Argument::Object(word as H);
        }
    }
    known(|k| {
        k.kernels.entry(kernel as usize).or_default().arguments.insert(index, argument);
    });
}

/// An argument was set, or announced, that points into memory which several sides share.
pub fn shared(kernel: H, index: u32, code: i32) {
    if code == 0 {
        known(|k| {
            let kernel = k.kernels.entry(kernel as usize).or_default();
            kernel.arguments.insert(index, Argument::Shared);
        });
    }
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
    let program = info::number(about, kernel, cl::CL_KERNEL_PROGRAM).unwrap_or(0);
    let name = info::text(about, kernel, cl::CL_KERNEL_FUNCTION_NAME);
    word(number(SEED, name.as_bytes()), u64::from(objects::id(program as H)))
}

/// A launch's kernel with its arguments, and a number for its program and name.
pub fn kernel(slot: usize, handle: H) -> (Kernel, u64) {
    let mut of = known(|k| k.kernels.entry(handle as usize).or_default().clone());
    let same = match of.identity {
        Some(same) => same,
        None => {
            let same = identity(slot, handle);
            of.identity = Some(same);
            known(|k| k.kernels.entry(handle as usize).or_default().identity = Some(same));
            same
        }
    };
    (of, same)
}

impl Kernel {
    /// A key of its arguments behind another number, and a number for its plain arguments. Equal
    /// keys: the same sizes of arguments.
    pub fn key(&self, slot: usize, before: u64) -> (u64, u64) {
        let (mut key, mut scalars) = (before, SEED);
        for (index, argument) in &self.arguments {
            key = word(key, u64::from(*index));
            match argument {
                Argument::Value(bytes) => {
                    key = word(key, bytes.len() as u64);
                    scalars = word(scalars, number(SEED, bytes));
                }
                Argument::Local(size) => {
                    key = word(key, *size as u64);
                    scalars = word(scalars, 0);
                }
                Argument::Object(object) => {
                    let kind = memory(*object);
                    let about = api::clGetMemObjectInfo.behind(slot);
                    let bytes = match kind {
                        Some(Memory::Buffer | Memory::Image) => {
                            ask::<usize>(about, *object, cl::CL_MEM_SIZE)
                        }
                        _ => None,
                    };
                    key = word(word(key, bytes.unwrap_or(0) as u64), kind.map_or(9, |k| k as u64));
                }
                Argument::Shared => key = word(key, 7),
            }
        }
        (key, scalars)
    }

    /// A number for the sizes of local memory that it is given, behind another number.
    pub fn local_sizes(&self, before: u64) -> u64 {
        self.arguments.iter().fold(before, |sum, (index, argument)| match argument {
            Argument::Local(size) => word(word(sum, u64::from(*index)), *size as u64),
            _ => sum,
        })
    }
}
