//! What goes wrong in OpenCL: the call, its object, its code. Owns the checking of return codes and
//! the two calls of every info query. Refuses to decide what an error means to the caller.
#![forbid(unsafe_code)]

use crate::api::Status;
use clscope_trace::codes as cl;
use std::ffi::c_void;
use std::fmt;

/// What went wrong in OpenCL.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum ClError {
    /// No OpenCL library could be opened.
    #[error(
        "cannot open OpenCL ({tried}): {why}; install an OpenCL loader such as ocl-icd-libopencl1"
    )]
    NoLibrary { tried: String, why: String },
    /// The library is older than a function.
    #[error("this OpenCL library has no {call}, which {object} needs; install a newer loader")]
    Missing { call: &'static str, object: String },
    /// A call returned an error code.
    #[error("{call} on {object} failed: {}", code_text(*code))]
    Call { call: &'static str, object: String, code: i32 },
    /// A program did not build.
    #[error("building {program} failed: {}", code_text(*code))]
    Build { program: String, code: i32, log: String },
}

impl ClError {
    /// Whether this device lacks the memory or registers for what was asked, as opposed to being
    /// broken.
    pub fn is_lack_of_resources(&self) -> bool {
        const LACKS: [i32; 5] = [
            cl::CL_MEM_OBJECT_ALLOCATION_FAILURE,
            cl::CL_OUT_OF_RESOURCES,
            cl::CL_OUT_OF_HOST_MEMORY,
            cl::CL_INVALID_BUFFER_SIZE,
            cl::CL_INVALID_WORK_GROUP_SIZE,
        ];
        matches!(self, ClError::Call { code, .. } if LACKS.contains(code))
    }
}

/// The name of an error code, and its number.
fn code_text(code: i32) -> String {
    match clscope_trace::names::error(code) {
        Some(name) => format!("{name} ({code})"),
        None => format!("OpenCL error {code}"),
    }
}

pub(crate) fn checked(
    call: &'static str,
    object: impl fmt::Display,
    code: Status,
) -> Result<(), ClError> {
    if code == 0 { Ok(()) } else { Err(ClError::Call { call, object: object.to_string(), code }) }
}

/// Calls an info query twice: for the size, then for the bytes.
pub(crate) fn info(
    call: &'static str,
    what: &str,
    mut query: impl FnMut(usize, *mut c_void, *mut usize) -> Status,
) -> Result<Vec<u8>, ClError> {
    let mut size = 0usize;
    checked(call, what, query(0, std::ptr::null_mut(), &mut size))?;
    let mut bytes = vec![0u8; size];
    if size > 0 {
        checked(call, what, query(size, bytes.as_mut_ptr().cast(), std::ptr::null_mut()))?;
    }
    Ok(bytes)
}

pub(crate) fn text(mut bytes: Vec<u8>) -> String {
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
