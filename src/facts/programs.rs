//! What programs are made of: what the application made them from, and what the runtime hands out
//! of them. Refuses to keep any of it.

use super::{compiled, info};
use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::abi::error::ErrorCode;
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashMap;
use crate::runtime::functions as api;
use std::ptr::null_mut;

/// Longest text about a build, in bytes.
const LONGEST: usize = 64 << 20;

/// What the application made programs from, by handle: followed in runs that ask for it.
static ORIGINS: ForkSafe<HashMap<usize, &'static str>> = ForkSafe::new();

/// A program was made: from `source`, `il`, a `binary`, names of kernels (`built-in`) or others
/// (`linked`).
pub fn program_created(program: H, origin: &'static str) {
    if !program.is_null() {
        ORIGINS.with(|known| known.insert(program.word(), origin));
        compiled::forget(program);
    }
}

/// What the application made a program from, where that was seen.
pub fn origin(program: H) -> Option<&'static str> {
    ORIGINS.with(|known| known.get(&program.word()).copied()).flatten()
}

/// The binary of a program for a device.
///
/// # Errors
/// Why there is none, or none of up to `most` bytes.
pub fn binary(slot: usize, program: H, device: H, most: usize) -> Result<Vec<u8>, String> {
    let about = api::clGetProgramInfo.behind(slot);
    let devices = info::handles(about, program, info::PROGRAM_DEVICES);
    let at = devices.iter().position(|of| *of == device).ok_or("the program has no such device")?;
    let sizes = info::words(about, program, cl::CL_PROGRAM_BINARY_SIZES);
    let size = sizes.get(at).copied().unwrap_or(0);
    if size == 0 || size > most {
        return Err(format!("the runtime gives a binary of {size} bytes"));
    }
    let mut out = vec![0u8; size];
    // Where there is no pointer, nothing is written.
    let mut places: Vec<P> = vec![null_mut(); devices.len()];
    if let Some(place) = places.get_mut(at) {
        *place = out.as_mut_ptr().cast();
    }
    let ask = about.ok_or("the runtime lacks clGetProgramInfo")?;
    // SAFETY: a live program, a pointer for each of its devices, room for the binary of one.
    let code = unsafe {
        ask(
            program,
            cl::CL_PROGRAM_BINARIES,
            size_of_val(&*places),
            places.as_mut_ptr().cast(),
            null_mut(),
        )
    };
    match code {
        0 => Ok(out),
        code => Err(format!("asking for the program's binary failed with {}", ErrorCode(code))),
    }
}

/// A text about a program's build for a device; empty where there is none.
pub fn build_text(slot: usize, program: H, device: H, what: u32) -> String {
    let Some(ask) = api::clGetProgramBuildInfo.behind(slot) else { return String::new() };
    let mut size = 0usize;
    // SAFETY: a live program and one of its devices; only the size is asked.
    let code = unsafe { ask(program, device, what, 0, null_mut(), (&raw mut size).cast()) };
    if code != 0 || size == 0 || size > LONGEST {
        return String::new();
    }
    let mut bytes = vec![0u8; size];
    // SAFETY: room for as many bytes.
    let code = unsafe { ask(program, device, what, size, bytes.as_mut_ptr().cast(), null_mut()) };
    let end = if code == 0 { bytes.iter().position(|b| *b == 0).unwrap_or(size) } else { 0 };
    bytes.truncate(end);
    String::from_utf8_lossy(&bytes).into_owned()
}
