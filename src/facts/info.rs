//! The recorder's own info queries: names and facts of objects that are seen for the first time.
//! None is recorded, and none may fail: what a runtime does not report stays empty.

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

/// A list of handles.
pub fn handles(info: Option<Info>, object: H, name: u32) -> Vec<H> {
    let bytes = bytes(info, object, name).unwrap_or_default();
    bytes
        .chunks_exact(8)
        .filter_map(|c| c.try_into().ok())
        .map(|c| u64::from_le_bytes(c) as H)
        .collect()
}
