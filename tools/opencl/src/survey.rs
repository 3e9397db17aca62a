//! What an OpenCL loader or driver reports about itself, as values that a child process can print.
//! Owns the calls into libraries that may crash or hang; refuses to keep any of them open for use,
//! and to decide what an answer means. Call it in a child process that may crash.

use crate::signatures as f;
use clscope_trace::codes as cl;
use libloading::Library;
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, c_void};
use std::path::PathBuf;

/// What a child found out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Why nothing could be found out.
    pub error: Option<String>,
    /// Path of the library that a name led to.
    pub path: Option<PathBuf>,
    /// Name and version of the loader, if it reports them.
    pub loader: Option<String>,
    /// Why there are no platforms.
    pub platforms_error: Option<String>,
    /// Platforms.
    pub platforms: Vec<Platform>,
}

/// A platform.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // CL_PLATFORM_* of the same names
pub struct Platform {
    pub name: String,
    pub vendor: String,
    pub version: String,
    /// Why it has no devices.
    pub error: Option<String>,
    pub devices: Vec<Device>,
}

/// A device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // CL_DEVICE_* of the same names
pub struct Device {
    pub name: String,
    /// CPU, GPU, ...
    pub kind: String,
    pub version: String,
    pub driver: String,
    pub compute_units: u32,
    /// Bytes.
    pub global_memory: u64,
    /// Nanoseconds.
    pub timer_resolution: u64,
}

fn open(name: &OsStr) -> std::result::Result<Library, Answer> {
    // SAFETY: loading runs the library's constructors, which may do anything; that is why this is a
    // child that nobody depends on.
    unsafe { Library::new(name) }.map_err(|error| {
        let mut text = error.to_string();
        if let Some(source) = std::error::Error::source(&error) {
            text = source.to_string();
        }
        Answer { error: Some(text), ..Answer::default() }
    })
}

/// Where the dynamic linker finds a library by its bare name.
pub fn path_of(name: &OsStr) -> Answer {
    let library = match open(name) {
        Ok(library) => library,
        Err(answer) => return answer,
    };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let stem = name.to_string_lossy();
    let path = maps.lines().filter_map(|line| Some(&line[line.find('/')?..])).find(|path| {
        let file = path.rsplit('/').next().unwrap_or(path);
        // The mapped file may be what a link leads to: libOpenCL.so.1.0.0.
        file.starts_with(&*stem) || file.starts_with("libOpenCL")
    });
    let answer = Answer { path: path.map(PathBuf::from), ..Answer::default() };
    drop(library);
    answer
}

/// Whether a library looks like an OpenCL driver (cl_khr_icd).
pub fn driver(name: &OsStr) -> Answer {
    match open(name) {
        Err(answer) => answer,
        Ok(library) => {
            // cl_khr_icd: a driver exports this, or gives it out through
            // clGetExtensionFunctionAddress.
            // SAFETY: the symbols are only looked up, not called.
            let known = unsafe {
                [&b"clIcdGetPlatformIDsKHR\0"[..], b"clGetExtensionFunctionAddress\0"]
                    .iter()
                    .any(|symbol| library.get::<*const c_void>(symbol).is_ok())
            };
            let error = (!known)
                .then(|| "it is no OpenCL driver: it exports neither clIcdGetPlatformIDsKHR nor clGetExtensionFunctionAddress".to_owned());
            Answer { error, ..Answer::default() }
        }
    }
}

/// Of loaders alone: no entry point of the API.
type GetLoaderInfo = unsafe extern "C-unwind" fn(u32, usize, *mut c_void, *mut usize) -> i32;

/// Reads a value through one of OpenCL's size-then-data queries.
fn bytes(mut query: impl FnMut(usize, *mut c_void, *mut usize) -> i32) -> Option<Vec<u8>> {
    let mut size = 0;
    if query(0, std::ptr::null_mut(), &mut size) != 0 || size > 1 << 20 {
        return None;
    }
    let mut out = vec![0u8; size];
    (query(size, out.as_mut_ptr().cast(), std::ptr::null_mut()) == 0).then_some(out)
}

fn text(value: Option<Vec<u8>>) -> String {
    let bytes = value.unwrap_or_default();
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

fn number(value: Option<Vec<u8>>) -> u64 {
    let bytes = value.unwrap_or_default();
    let mut wide = [0; 8];
    let length = bytes.len().min(8);
    wide[..length].copy_from_slice(&bytes[..length]);
    u64::from_le_bytes(wide)
}

fn failed(function: &str, code: i32) -> String {
    // CL_PLATFORM_NOT_FOUND_KHR has no better name for people.
    let name = clscope_trace::names::error(code).map_or(String::new(), |n| format!("{n} "));
    format!("{function} gave {name}({code})")
}

/// Name, platforms and devices of the OpenCL loader at a path.
pub fn examine(path: &OsStr) -> Answer {
    let library = match open(path) {
        Ok(library) => library,
        Err(answer) => return answer,
    };
    let mut out = Answer { path: Some(PathBuf::from(path)), ..Answer::default() };
    // SAFETY: the types are those of the specification's functions of these names.
    let (ids, platform_info, devices, device_info) = unsafe {
        match (
            library.get::<f::clGetPlatformIDs>(b"clGetPlatformIDs\0"),
            library.get::<f::clGetPlatformInfo>(b"clGetPlatformInfo\0"),
            library.get::<f::clGetDeviceIDs>(b"clGetDeviceIDs\0"),
            library.get::<f::clGetDeviceInfo>(b"clGetDeviceInfo\0"),
        ) {
            (Ok(a), Ok(b), Ok(c), Ok(d)) => (*a, *b, *c, *d),
            _ => {
                out.error = Some(
                    "it lacks clGetPlatformIDs or one of its like, so it is no OpenCL loader"
                        .to_owned(),
                );
                return out;
            }
        }
    };
    // SAFETY: as above; the buffer and its size agree (see `bytes`); a function that a loader gives
    // out under a name has the type that cl_loader_info gives to the name, and NULL becomes None.
    unsafe {
        // The Khronos loader exports it, ocl-icd gives it out as an extension.
        let exported = library.get::<GetLoaderInfo>(b"clGetICDLoaderInfoOCLICD\0").ok().map(|f| *f);
        let given = || {
            let extension = library
                .get::<f::clGetExtensionFunctionAddress>(b"clGetExtensionFunctionAddress\0")
                .ok()?;
            let address = extension(c"clGetICDLoaderInfoOCLICD".as_ptr());
            std::mem::transmute::<*mut c_void, Option<GetLoaderInfo>>(address)
        };
        if let Some(info) = exported.or_else(given) {
            let get = |what| text(bytes(|size, data, needed| info(what, size, data, needed)));
            out.loader = Some(
                format!("{} {}", get(cl::CL_ICDL_NAME), get(cl::CL_ICDL_VERSION)).trim().to_owned(),
            )
            .filter(|name| !name.is_empty());
        }
    }
    let info = |query: f::clGetDeviceInfo, object: *mut c_void, what: u32| {
        // SAFETY: `object` is a handle that the loader gave; the buffer and its size agree.
        bytes(|size, data, needed| unsafe { query(object, what, size, data, needed) })
    };
    let mut count = 0;
    // SAFETY: asks for the count only.
    let code = unsafe { ids(0, std::ptr::null_mut(), &mut count) };
    if code != 0 || count == 0 {
        out.platforms_error = Some(if code != 0 {
            failed("clGetPlatformIDs", code)
        } else {
            "there are none".to_owned()
        });
        return out;
    }
    let mut handles = vec![std::ptr::null_mut(); count as usize];
    // SAFETY: the array has room for `count` handles.
    unsafe { ids(count, handles.as_mut_ptr(), std::ptr::null_mut()) };
    for platform in handles.into_iter().filter(|h| !h.is_null()) {
        let mut found = Platform {
            name: text(info(platform_info, platform, cl::CL_PLATFORM_NAME)),
            vendor: text(info(platform_info, platform, cl::CL_PLATFORM_VENDOR)),
            version: text(info(platform_info, platform, cl::CL_PLATFORM_VERSION)),
            ..Platform::default()
        };
        let mut count = 0;
        // SAFETY: asks for the count only.
        let code = unsafe {
            devices(platform, cl::CL_DEVICE_TYPE_ALL, 0, std::ptr::null_mut(), &mut count)
        };
        if code != 0 || count == 0 {
            found.error = Some(if code != 0 {
                failed("clGetDeviceIDs", code)
            } else {
                "it has no device".to_owned()
            });
        } else {
            let mut handles = vec![std::ptr::null_mut(); count as usize];
            // SAFETY: the array has room for `count` handles.
            unsafe {
                devices(
                    platform,
                    cl::CL_DEVICE_TYPE_ALL,
                    count,
                    handles.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            found.devices = handles
                .into_iter()
                .filter(|h| !h.is_null())
                .map(|device| Device {
                    name: text(info(device_info, device, cl::CL_DEVICE_NAME)),
                    kind: kind(number(info(device_info, device, cl::CL_DEVICE_TYPE))).to_owned(),
                    version: text(info(device_info, device, cl::CL_DEVICE_VERSION)),
                    driver: text(info(device_info, device, cl::CL_DRIVER_VERSION)),
                    compute_units: number(info(
                        device_info,
                        device,
                        cl::CL_DEVICE_MAX_COMPUTE_UNITS,
                    )) as u32,
                    global_memory: number(info(device_info, device, cl::CL_DEVICE_GLOBAL_MEM_SIZE)),
                    timer_resolution: number(info(
                        device_info,
                        device,
                        cl::CL_DEVICE_PROFILING_TIMER_RESOLUTION,
                    )),
                })
                .collect();
        }
        out.platforms.push(found);
    }
    // Unloading a driver with threads of its own is asking for a crash.
    std::mem::forget(library);
    out
}

const fn kind(bits: u64) -> &'static str {
    match bits & !cl::CL_DEVICE_TYPE_DEFAULT {
        cl::CL_DEVICE_TYPE_CPU => "CPU",
        cl::CL_DEVICE_TYPE_GPU => "GPU",
        cl::CL_DEVICE_TYPE_ACCELERATOR => "accelerator",
        cl::CL_DEVICE_TYPE_CUSTOM => "custom",
        _ => "device",
    }
}
