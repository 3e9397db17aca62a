//! Programs of the recorder's own: made of a text or a binary, and built. Refuses to touch the
//! application's.

use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::abi::error::ErrorCode;
use crate::facts::info;
use crate::facts::programs::build_text;
use crate::runtime::functions as api;
use std::ptr::null_mut;

/// Most bytes of a text about a build that are read.
const MOST: usize = 64 << 20;

/// The outcome of a call as a sentence.
fn said(what: &str, code: i32) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("{what} failed with {}", ErrorCode(code))) }
}

/// Why there is no program.
pub struct Failed {
    /// What failed, with the error code.
    pub what: String,
    /// The log, where the build failed.
    pub log: Option<String>,
    /// The build's error code; 0 where it did not come to that.
    pub code: i32,
}

impl From<String> for Failed {
    fn from(what: String) -> Self {
        Self { what, log: None, code: 0 }
    }
}

/// A program of ours, given back when it goes.
pub struct Owned {
    pub handle: H,
    slot: usize,
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(release) = api::clReleaseProgram.behind(self.slot) {
            // SAFETY: made by us, released once.
            unsafe { release(self.handle) };
        }
    }
}

/// A program of the same source as one of the application's, not built yet.
pub fn twin(slot: usize, theirs: H) -> Result<Owned, String> {
    let about = api::clGetProgramInfo.behind(slot);
    let context = info::handle(about, theirs, info::PROGRAM_CONTEXT);
    if context.is_null() {
        return Err("the context of the program is not known".to_owned());
    }
    let source = info::bytes_up_to(about, theirs, cl::CL_PROGRAM_SOURCE, MOST).unwrap_or_default();
    let end = source.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    let source = source.get(..end).filter(|text| !text.is_empty());
    let source = source.ok_or("the source of the program is not known")?;
    Ok(Owned { handle: made(slot, context, &[], "cl", source)?, slot })
}

/// The log of a build that failed, of the first device that has one.
pub fn log(slot: usize, program: H) -> String {
    let about = api::clGetProgramInfo.behind(slot);
    let devices = info::handles(about, program, info::PROGRAM_DEVICES);
    let mut logs =
        devices.into_iter().map(|d| build_text(slot, program, d, cl::CL_PROGRAM_BUILD_LOG));
    logs.find(|log| !log.trim().is_empty()).unwrap_or_default()
}

/// Makes a program of a text or a binary, in its language as [`clscope_trace::defs::Code`] names
/// it, and builds it for devices of the context. The caller makes no other call of the
/// application's meanwhile.
pub fn built(
    slot: usize,
    context: H,
    devices: &[H],
    language: &str,
    code: &[u8],
    options: &str,
) -> Result<H, Failed> {
    let program = Owned { handle: made(slot, context, devices, language, code)?, slot };
    let code = build(slot, program.handle, devices, options)?;
    if code == 0 {
        let handle = program.handle;
        // The caller's from here on.
        std::mem::forget(program);
        return Ok(handle);
    }
    let log = log(slot, program.handle);
    let what = format!("building it failed with {}", ErrorCode(code));
    Err(Failed { what, log: Some(log), code })
}

/// Builds a program of ours: the error code.
pub fn build(slot: usize, program: H, devices: &[H], options: &str) -> Result<i32, String> {
    let lacks = || "the runtime lacks clBuildProgram".to_owned();
    let build = api::clBuildProgram.behind(slot).ok_or_else(lacks)?;
    let options: Vec<u8> = options.bytes().filter(|b| *b != 0).chain([0]).collect();
    // SAFETY: a program of ours, its devices, and a C string; without a callback the call waits.
    Ok(unsafe {
        build(
            program,
            devices.len() as u32,
            devices.as_ptr(),
            options.as_ptr().cast_mut().cast(),
            null_mut(),
            null_mut(),
        )
    })
}

fn made(slot: usize, context: H, devices: &[H], language: &str, code: &[u8]) -> Result<H, String> {
    let lacks = |name: &str| format!("the runtime lacks {name}");
    let mut error = 0;
    let program = match language {
        "cl" => {
            let create = api::clCreateProgramWithSource
                .behind(slot)
                .ok_or_else(|| lacks("clCreateProgramWithSource"))?;
            let (length, mut text) = (code.len(), code.as_ptr());
            // SAFETY: a live context, and one text of that length.
            unsafe { create(context, 1, (&raw mut text).cast(), &length, &mut error) }
        }
        "spv" => {
            let create = api::clCreateProgramWithIL
                .behind(slot)
                .ok_or_else(|| lacks("clCreateProgramWithIL"))?;
            // SAFETY: a live context, and IL of that length.
            unsafe { create(context, code.as_ptr().cast_mut().cast(), code.len(), &mut error) }
        }
        _ => {
            let create = api::clCreateProgramWithBinary
                .behind(slot)
                .ok_or_else(|| lacks("clCreateProgramWithBinary"))?;
            let lengths = vec![code.len(); devices.len()];
            let mut texts: Vec<*const u8> = vec![code.as_ptr(); devices.len()];
            let mut status = vec![0i32; devices.len()];
            let (texts, status): (P, _) = (texts.as_mut_ptr().cast(), status.as_mut_ptr());
            // SAFETY: a live context, devices of it, and for each a binary of that length.
            unsafe {
                create(
                    context,
                    devices.len() as u32,
                    devices.as_ptr(),
                    lengths.as_ptr(),
                    texts,
                    status,
                    &mut error,
                )
            }
        }
    };
    said("making it", error)?;
    Ok(program)
}
