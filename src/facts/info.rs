//! Info queries of our own: names and facts of what is seen for the first time. All unseen, all
//! tolerant: what a runtime does not tell stays empty.

use crate::abi::entry::{H, P, Site};
use crate::recording::guard;
use crate::runtime::real;

/// Signature of clGetPlatformInfo and its kin.
type Info = unsafe extern "C-unwind" fn(H, u32, usize, P, *mut usize) -> i32;

/// Bytes of one info of an object.
pub fn bytes(site: Site, function: u16, object: H, name: u32) -> Option<Vec<u8>> {
    let real = real::own(site.slot, function);
    if real.is_null() || object.is_null() {
        return None;
    }
    // SAFETY: all functions asked here have this signature.
    let info: Info = unsafe { std::mem::transmute(real) };
    let mut size = 0usize;
    // SAFETY: a live object of the application; only the size is asked.
    if guard::unseen(|| unsafe { info(object, name, 0, std::ptr::null_mut(), &mut size) }) != 0
        || size == 0
        || size > 1 << 20
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
pub fn text(site: Site, function: u16, object: H, name: u32) -> String {
    let bytes = bytes(site, function, object, name).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned()
}

/// An integer of up to 8 bytes.
pub fn number(site: Site, function: u16, object: H, name: u32) -> Option<u64> {
    let bytes = bytes(site, function, object, name)?;
    let mut word = [0u8; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(u64::from_le_bytes(word))
}

/// A list of handles.
pub fn handles(site: Site, function: u16, object: H, name: u32) -> Vec<H> {
    let bytes = bytes(site, function, object, name).unwrap_or_default();
    bytes
        .chunks_exact(8)
        .filter_map(|c| c.try_into().ok())
        .map(|c| u64::from_le_bytes(c) as H)
        .collect()
}
