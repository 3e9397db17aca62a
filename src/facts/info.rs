//! The recorder's own info queries: names and facts of objects that are seen for the first time.
//! None is recorded, and none may fail: what a runtime does not report stays empty.

use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::abi::signatures as f;
use crate::recording::guard;
use crate::runtime::functions as api;

/// clGetPlatformInfo and its kin, which have one signature.
pub type Info = f::clGetPlatformInfo;

/// Bytes of one info of an object.
pub fn bytes(info: Option<Info>, object: H, name: u32) -> Option<Vec<u8>> {
    bytes_up_to(info, object, name, 1 << 20)
}

/// Bytes of one info of an object, if they are no more than `most`.
pub fn bytes_up_to(info: Option<Info>, object: H, name: u32, most: usize) -> Option<Vec<u8>> {
    let info = info.filter(|_| !object.is_null())?;
    let mut size = 0usize;
    let length: P = (&raw mut size).cast();
    // SAFETY: a live object of the application; only the size is asked.
    if guard::unseen(|| unsafe { info(object, name, 0, std::ptr::null_mut(), length) }) != 0
        || size == 0
        || size > most
    {
        return None;
    }
    let mut out = vec![0u8; size];
    // SAFETY: room for `size` bytes.
    (guard::unseen(|| unsafe {
        info(object, name, size, out.as_mut_ptr().cast(), std::ptr::null_mut())
    }) == 0)
        .then_some(out)
}

/// A string.
pub fn text(info: Option<Info>, object: H, name: u32) -> String {
    let bytes = bytes(info, object, name).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned()
}

/// An integer of up to 8 bytes.
pub fn number(info: Option<Info>, object: H, name: u32) -> Option<u64> {
    let bytes = bytes(info, object, name)?;
    let mut word = [0u8; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(u64::from_le_bytes(word))
}

/// Facts of a kernel on a device: up to three words, those that are not given 0.
pub fn work_group(slot: usize, kernel: H, device: H, name: u32) -> Option<[u64; 3]> {
    let ask = api::clGetKernelWorkGroupInfo.own(slot)?;
    let mut out = [0u64; 3];
    let (size, to) = (size_of_val(&out), out.as_mut_ptr().cast());
    // SAFETY: a live kernel and device, and room for as much as is said.
    let code =
        guard::unseen(|| unsafe { ask(kernel, device, name, size, to, std::ptr::null_mut()) });
    (code == 0).then_some(out)
}

/// A list of words: sizes, for one.
pub fn words(info: Option<Info>, object: H, name: u32) -> Vec<usize> {
    let bytes = bytes(info, object, name).unwrap_or_default();
    let words = bytes.chunks_exact(size_of::<usize>()).filter_map(|c| c.try_into().ok());
    words.map(usize::from_le_bytes).collect()
}

/// An info whose value is a handle, or a list of them.
#[derive(Clone, Copy)]
pub struct HandleInfo(u32);

pub const CONTEXT_DEVICES: HandleInfo = HandleInfo(cl::CL_CONTEXT_DEVICES);
pub const DEVICE_PARENT: HandleInfo = HandleInfo(cl::CL_DEVICE_PARENT_DEVICE);
pub const DEVICE_PLATFORM: HandleInfo = HandleInfo(cl::CL_DEVICE_PLATFORM);
pub const EVENT_QUEUE: HandleInfo = HandleInfo(cl::CL_EVENT_COMMAND_QUEUE);
pub const KERNEL_PROGRAM: HandleInfo = HandleInfo(cl::CL_KERNEL_PROGRAM);
pub const MEMORY_CONTEXT: HandleInfo = HandleInfo(cl::CL_MEM_CONTEXT);
pub const MEMORY_PARENT: HandleInfo = HandleInfo(cl::CL_MEM_ASSOCIATED_MEMOBJECT);
pub const PROGRAM_CONTEXT: HandleInfo = HandleInfo(cl::CL_PROGRAM_CONTEXT);
pub const PROGRAM_DEVICES: HandleInfo = HandleInfo(cl::CL_PROGRAM_DEVICES);
pub const QUEUE_CONTEXT: HandleInfo = HandleInfo(cl::CL_QUEUE_CONTEXT);
pub const QUEUE_DEVICE: HandleInfo = HandleInfo(cl::CL_QUEUE_DEVICE);

/// A handle, NULL where there is none or the runtime does not tell. Objects hold those that they
/// are made of.
pub fn handle(info: Option<Info>, object: H, name: HandleInfo) -> H {
    handles(info, object, name).first().copied().unwrap_or(H::NULL)
}

/// A list of handles.
pub fn handles(info: Option<Info>, object: H, name: HandleInfo) -> Vec<H> {
    let words = words(info, object, name.0);
    // SAFETY: the runtime gave them as the handles of objects that a live object holds.
    words.into_iter().map(|word| unsafe { H::from_word(word) }).collect()
}
