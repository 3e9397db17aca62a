//! Owns queues of Intel's runtime that count for each command (`CLSCOPE_COUNTERS=intel-queue`):
//! made in place of the ones that the application asks for, with its properties, where the device's
//! platform has that entry point. Refuses queues whose properties could not all be kept. If the
//! runtime refuses, the application gets the queue it asked for, and the reason is reported.

use crate::abi::constants as cl;
use crate::abi::entry::{H, P, Site};
use crate::facts::platforms;
use crate::recording::{diag, guard};
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_trace::values::{Counters, DeviceTiming};
use std::ffi::CStr;

/// Bits that the runtime's function takes.
const TAKEN: u64 = cl::CL_QUEUE_PROFILING_ENABLE;
const NAME: &CStr = c"clCreatePerfCountersCommandQueueINTEL";

/// Not of the registry.
type Create = unsafe extern "C-unwind" fn(H, H, u64, u32, *mut i32) -> H;

/// The configuration that queues are to count by, where they are wanted.
pub fn wanted() -> Option<u32> {
    config::get().counters.iter().find_map(|w| {
        if let Counters::IntelQueue(configuration) = w { Some(*configuration) } else { None }
    })
}

/// A queue that counts, in place of one with these properties; `None` for the application's own.
/// `pairs` are all properties, where the application gave a list.
pub fn create(site: Site, context: H, device: H, bits: u64, pairs: &[u64]) -> Option<H> {
    let configuration = wanted()?;
    guard::unseen(|| {
        match guard::protect(Err("a failure of our own".to_owned()), || {
            make(site, (context, device), bits, pairs, configuration)
        }) {
            Ok(queue) => Some(queue),
            Err(why) => {
                diag::warn(
                    "no-intel-queue",
                    &format!(
                        "a queue was made without counters of the runtime's own (intel-queue): {why}"
                    ),
                );
                None
            }
        }
    })
}

fn make(
    site: Site,
    (context, device): (H, H),
    bits: u64,
    pairs: &[u64],
    configuration: u32,
) -> Result<H, String> {
    if config::get().device_timing == DeviceTiming::Off {
        return Err("they are read with device times, which are off".to_owned());
    }
    if bits & !TAKEN != 0
        || pairs
            .chunks_exact(2)
            .any(|pair| pair.first() != Some(&u64::from(cl::CL_QUEUE_PROPERTIES)))
    {
        return Err("such queues are in order and have no other properties than profiling, and the application asks for more".to_owned());
    }
    let platform = platforms::platform_of(site, device);
    let mut found = std::ptr::null_mut();
    if let Some(find) = api::clGetExtensionFunctionAddressForPlatform.own(site.slot)
        && !platform.is_null()
    {
        // SAFETY: a live platform and a C string.
        found = unsafe { find(platform, NAME.as_ptr().cast_mut().cast()) };
    }
    if found.is_null() {
        return Err(
            "the runtime of its device has no clCreatePerfCountersCommandQueueINTEL".to_owned()
        );
    }
    let mut code = 0;
    // SAFETY: found under that name; the application's own context and device.
    let queue = unsafe {
        std::mem::transmute::<P, Create>(found)(
            context,
            device,
            bits | cl::CL_QUEUE_PROFILING_ENABLE,
            configuration,
            &mut code,
        )
    };
    if queue.is_null() {
        let name = clscope_trace::names::error(code).unwrap_or("an error of its own");
        let help = "the device needs an activated metric set (Intel's libigdmd and libigdml) and access: dev.i915.perf_stream_paranoid=0, or privilege";
        return Err(format!(
            "clCreatePerfCountersCommandQueueINTEL with configuration {configuration} gave {name} ({code}); {help}"
        ));
    }
    Ok(queue)
}
