//! Programs: where they came from, how they were built, and what the compiler said when it failed.

use super::calls::{define, outermost_unrecorded, passed};
use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Returned, Site};
use crate::abi::signatures as f;
use crate::facts::{compiled, info, kernels, objects};
use crate::hooks::callbacks;
use crate::recording;
use crate::recording::files::programs;
use crate::recording::guard::{self, Entered};
use crate::recording::state;
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::defs;
use std::ffi::CStr;

/// Longest build log kept, in bytes.
const LONGEST_LOG: usize = 64 * 1024;

/// Keeps what a program was made of. Binaries are kept one by one: each is of one device, and those
/// of equal devices are equal.
fn keep(program: u32, origin: &str, parts: &[Vec<u8>]) {
    match origin {
        "source" => drop(programs::keep(program, 0, "cl", &parts.concat())),
        "il" => drop(programs::keep(program, 0, "spv", &parts.concat())),
        "binary" => {
            for (at, part) in parts.iter().enumerate() {
                if parts.iter().take(at).all(|before| before != part) {
                    let language = if clscope_mix::ptx::is_ptx(part) { "ptx" } else { "bin" };
                    programs::keep(program, 0, language, part);
                }
            }
        }
        // Names of built-in kernels; a linked program has no bytes of its own.
        _ => {}
    }
}

/// Ends the creation of a program.
fn made(
    site: Site,
    (entered, program): (Option<Entered>, H),
    code: i32,
    (context, count): (H, u64),
    origin: &str,
    content: impl FnOnce() -> Vec<Vec<u8>>,
    programs: Option<u32>,
) -> H {
    let end = recording::now();
    let mut program_id = 0;
    if code == 0 && (entered.is_some() || outermost_unrecorded()) {
        guard::unseen(|| {
            guard::protect((), || {
                program_id = objects::created(program, 0);
                let parts = content();
                let bytes = parts.iter().map(|p| p.len() as u64).sum();
                define(defs::Program {
                    id: program_id,
                    context: objects::id(context),
                    origin: origin.to_owned(),
                    hash: if bytes == 0 {
                        String::new()
                    } else {
                        clscope_trace::hash(&parts.concat())
                    },
                    bytes,
                });
                keep(program_id, origin, &parts);
                let id = program_id.to_ne_bytes();
                let own = if bytes == 0 { &id[..] } else { &[] };
                let all: Vec<&[u8]> =
                    parts.iter().map(Vec::as_slice).chain(std::iter::once(own)).collect();
                kernels::program_has(program_id, &all);
            });
        });
    }
    if let Some(entered) = entered {
        let mut all = vec![u64::from(program_id), objects::word(context), count];
        all.extend(programs.map(u64::from));
        entered.call_at(site.function, code, &all, end);
    }
    program
}

#[inline(never)]
pub unsafe fn clCreateProgramWithSource(
    site: Site,
    real: f::clCreateProgramWithSource,
    context: H,
    count: u32,
    strings: P,
    lengths: *const usize,
    errcode_ret: *mut i32,
) -> H {
    // SAFETY: the application's own call.
    let call = passed(site, || unsafe { real(context, count, strings, lengths, errcode_ret) });
    // SAFETY: errcode_ret is NULL or was written.
    let code = unsafe { call.1.code(errcode_ret) };
    let content = || {
        (0..count as usize)
            .map(|i| {
                // SAFETY: the call succeeded: there are `count` strings, each as long as `lengths`
                // says, or ending in NUL.
                unsafe {
                    let text = *strings.cast::<*const u8>().add(i);
                    let length = if lengths.is_null() { 0 } else { *lengths.add(i) };
                    if length == 0 {
                        CStr::from_ptr(text.cast()).to_bytes().to_vec()
                    } else {
                        std::slice::from_raw_parts(text, length).to_vec()
                    }
                }
            })
            .collect()
    };
    made(site, call, code, (context, u64::from(count)), "source", content, None)
}

#[inline(never)]
pub unsafe fn clCreateProgramWithBinary(
    site: Site,
    real: f::clCreateProgramWithBinary,
    context: H,
    num_devices: u32,
    device_list: *const H,
    lengths: *const usize,
    binaries: P,
    binary_status: *mut i32,
    errcode_ret: *mut i32,
) -> H {
    // SAFETY: the application's own call.
    let call = passed(site, || unsafe {
        real(context, num_devices, device_list, lengths, binaries, binary_status, errcode_ret)
    });
    // SAFETY: errcode_ret is NULL or was written.
    let code = unsafe { call.1.code(errcode_ret) };
    let content = || {
        (0..num_devices as usize)
            // SAFETY: the call succeeded: there are `num_devices` binaries of these lengths.
            .map(|i| unsafe {
                std::slice::from_raw_parts(*binaries.cast::<*const u8>().add(i), *lengths.add(i))
                    .to_vec()
            })
            .collect()
    };
    made(site, call, code, (context, u64::from(num_devices)), "binary", content, None)
}

#[inline(never)]
pub unsafe fn clCreateProgramWithIL(
    site: Site,
    real: f::clCreateProgramWithIL,
    context: H,
    il: P,
    length: usize,
    errcode_ret: *mut i32,
) -> H {
    // SAFETY: the application's own call.
    let call = passed(site, || unsafe { real(context, il, length, errcode_ret) });
    // SAFETY: errcode_ret is NULL or was written.
    let code = unsafe { call.1.code(errcode_ret) };
    // SAFETY: the call succeeded, so the IL is readable.
    let content = || vec![unsafe { std::slice::from_raw_parts(il.cast::<u8>(), length).to_vec() }];
    made(site, call, code, (context, length as u64), "il", content, None)
}

#[inline(never)]
pub unsafe fn clCreateProgramWithILKHR(
    site: Site,
    real: f::clCreateProgramWithILKHR,
    context: H,
    il: P,
    length: usize,
    errcode_ret: *mut i32,
) -> H {
    // SAFETY: the same function under another name.
    unsafe { clCreateProgramWithIL(site, real, context, il, length, errcode_ret) }
}

#[inline(never)]
pub unsafe fn clCreateProgramWithBuiltInKernels(
    site: Site,
    real: f::clCreateProgramWithBuiltInKernels,
    context: H,
    num_devices: u32,
    device_list: *const H,
    kernel_names: P,
    errcode_ret: *mut i32,
) -> H {
    // SAFETY: the application's own call.
    let call = passed(site, || unsafe {
        real(context, num_devices, device_list, kernel_names, errcode_ret)
    });
    // SAFETY: errcode_ret is NULL or was written.
    let code = unsafe { call.1.code(errcode_ret) };
    // SAFETY: the call succeeded, so the names are a C string.
    let content = || vec![unsafe { CStr::from_ptr(kernel_names.cast()) }.to_bytes().to_vec()];
    made(site, call, code, (context, u64::from(num_devices)), "built-in", content, None)
}

/// Notes how a program was built. The log is asked for only where the build failed: it can be long,
/// and asking is a call.
///
/// # Safety
/// As [`text_of`].
unsafe fn built(site: Site, program: H, options: P, result: i32) {
    let mut log = String::new();
    if result != 0 {
        let real = api::clGetProgramBuildInfo.own(site.slot);
        for device in
            info::handles(api::clGetProgramInfo.own(site.slot), program, info::PROGRAM_DEVICES)
        {
            let Some(build_info) = real else { break };
            let mut size = 0usize;
            // SAFETY: a live program and one of its devices; only the size is asked.
            let asked = guard::unseen(|| unsafe {
                build_info(
                    program,
                    device,
                    cl::CL_PROGRAM_BUILD_LOG,
                    0,
                    std::ptr::null_mut(),
                    (&raw mut size).cast(),
                )
            });
            if asked != 0 || size == 0 || size > 1 << 28 {
                continue;
            }
            let mut bytes = vec![0u8; size];
            // SAFETY: room for `size` bytes.
            if guard::unseen(|| unsafe {
                build_info(
                    program,
                    device,
                    cl::CL_PROGRAM_BUILD_LOG,
                    size,
                    bytes.as_mut_ptr().cast(),
                    std::ptr::null_mut(),
                )
            }) == 0
            {
                bytes.truncate(LONGEST_LOG);
                log = String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned();
                break;
            }
        }
    }
    // SAFETY: the caller's promise.
    let options = unsafe { text_of(options) };
    kernels::program_has(objects::id(program), &[options.as_bytes()]);
    define(defs::Build {
        program: objects::id(program),
        function: site.function,
        options,
        result,
        log,
    });
}

/// The options of a build.
///
/// # Safety
/// `options` is NULL, or a C string.
unsafe fn text_of(options: P) -> String {
    if options.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(options.cast()) }.to_string_lossy().into_owned()
}

/// Whether what programs are compiled from is followed: in runs that capture launches.
fn followed() -> bool {
    config::get().captures() && state::running()
}

/// Error codes for which options or program may not have been readable.
fn readable(code: i32) -> bool {
    !matches!(code, cl::CL_INVALID_PROGRAM | cl::CL_INVALID_VALUE | cl::CL_INVALID_CONTEXT)
}

#[inline(never)]
pub unsafe fn clBuildProgram(
    site: Site,
    real: f::clBuildProgram,
    program: H,
    num_devices: u32,
    device_list: *const H,
    options: P,
    pfn_notify: P,
    user_data: P,
) -> i32 {
    let Some(entered) = guard::enter(site) else {
        // SAFETY: the application's own call.
        return unsafe { real(program, num_devices, device_list, options, pfn_notify, user_data) };
    };
    let pair = callbacks::on_object(pfn_notify, user_data);
    // SAFETY: the application's call with its callback wrapped.
    let code = guard::real_call(&entered, || unsafe {
        real(program, num_devices, device_list, options, pair.function, pair.data)
    });
    let end = recording::now();
    // Whether a failed build calls back differs between runtimes: the pair is left to them.
    if readable(code) {
        // SAFETY: the runtime has read the options as a C string.
        guard::unseen(|| guard::protect((), || unsafe { built(site, program, options, code) }));
    }
    entered.call_at(site.function, code, &[objects::word(program), u64::from(num_devices)], end);
    code
}

#[inline(never)]
pub unsafe fn clCompileProgram(
    site: Site,
    real: f::clCompileProgram,
    program: H,
    num_devices: u32,
    device_list: *const H,
    options: P,
    num_headers: u32,
    headers: *const H,
    header_names: P,
    pfn_notify: P,
    user_data: P,
) -> i32 {
    let pair = if guard::thread().outside() {
        callbacks::on_object(pfn_notify, user_data)
    } else {
        callbacks::untouched(pfn_notify, user_data)
    };
    let unit = followed().then(|| {
        let lost = Err("reading its texts failed".to_owned());
        // SAFETY: the application's own arguments, live during its call.
        let read =
            || unsafe { compiled::read(site.slot, program, num_headers, headers, header_names) };
        guard::unseen(|| guard::protect(lost, read))
    });
    // SAFETY: the application's call with its callback wrapped.
    let call = || unsafe {
        real(
            program,
            num_devices,
            device_list,
            options,
            num_headers,
            headers,
            header_names,
            pair.function,
            pair.data,
        )
    };
    let (entered, code) = passed(site, call);
    let end = recording::now();
    if let Some(mut unit) = unit.filter(|_| code == 0) {
        guard::unseen(|| {
            guard::protect((), || {
                if let Ok(unit) = &mut unit {
                    // SAFETY: the runtime has read the options as a C string.
                    unit.options = unsafe { text_of(options) };
                }
                compiled::compiled(program, unit);
            });
        });
    }
    if let Some(entered) = entered {
        if readable(code) {
            // SAFETY: as above.
            guard::unseen(|| guard::protect((), || unsafe { built(site, program, options, code) }));
        }
        entered.call_at(
            site.function,
            code,
            &[objects::word(program), u64::from(num_devices), u64::from(num_headers)],
            end,
        );
    }
    code
}

#[inline(never)]
pub unsafe fn clLinkProgram(
    site: Site,
    real: f::clLinkProgram,
    context: H,
    num_devices: u32,
    device_list: *const H,
    options: P,
    num_programs: u32,
    programs: *const H,
    pfn_notify: P,
    user_data: P,
    errcode_ret: *mut i32,
) -> H {
    let pair = if guard::thread().outside() {
        callbacks::on_object(pfn_notify, user_data)
    } else {
        callbacks::untouched(pfn_notify, user_data)
    };
    // SAFETY: the application's call with its callback wrapped.
    let call = || unsafe {
        real(
            context,
            num_devices,
            device_list,
            options,
            num_programs,
            programs,
            pair.function,
            pair.data,
            errcode_ret,
        )
    };
    let (entered, program) = passed(site, call);
    // SAFETY: errcode_ret is NULL or was written.
    let code = unsafe { program.code(errcode_ret) };
    if code == 0 && followed() {
        let from = match programs.is_null() {
            true => &[],
            // SAFETY: the call succeeded: there are as many programs.
            false => unsafe { std::slice::from_raw_parts(programs, num_programs as usize) },
        };
        guard::unseen(|| {
            // SAFETY: the runtime has read the options as a C string.
            guard::protect((), || compiled::linked(program, from, &unsafe { text_of(options) }));
        });
    }
    let recorded = entered.is_some();
    let count = (context, u64::from(num_devices));
    made(site, (entered, program), code, count, "link", Vec::new, Some(num_programs));
    if recorded && code == 0 {
        // SAFETY: as above.
        guard::unseen(|| guard::protect((), || unsafe { built(site, program, options, code) }));
    }
    program
}

#[inline(never)]
pub unsafe fn clSetProgramReleaseCallback(
    site: Site,
    real: f::clSetProgramReleaseCallback,
    program: H,
    pfn_notify: P,
    user_data: P,
) -> i32 {
    // SAFETY: the functions that register destructors have one signature and one rule.
    unsafe { super::memory::destructor(site, real, program, pfn_notify, user_data) }
}
