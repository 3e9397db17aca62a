//! What platforms and devices tell of themselves: their definitions, and what is known of runtimes
//! beyond the specification.
#![forbid(unsafe_code)]

use super::{info, objects};
use crate::abi::constants as cl;
use crate::abi::entry::{H, Site};
use crate::os::locks::fork_safe::ForkSafe;
use crate::recording;
use crate::runtime::functions as api;
use clscope_trace::defs;
use clscope_trace::ids::{self, PciAddress};

/// Ids that are described already.
static DESCRIBED: ForkSafe<(u32, Vec<u32>)> = ForkSafe::new();

/// Whether this process describes `id` for the first time.
fn first(id: u32) -> bool {
    let pid = recording::current().map_or(0, |recording| recording.pid);
    let new = DESCRIBED.with(|described| {
        // A forked child has its own ids and definitions.
        if described.0 != pid {
            *described = (pid, Vec::new());
        }
        let new = id != 0 && !described.1.contains(&id);
        if new {
            described.1.push(id);
        }
        new
    });
    new.unwrap_or(false)
}

/// PCI address of a device, `dddd:bb:dd.f`, if it reports one.
pub fn pci(site: Site, handle: H) -> Option<String> {
    let number = |name| info::number(api::clGetDeviceInfo.own(site.slot), handle, name);
    let extensions =
        info::text(api::clGetDeviceInfo.own(site.slot), handle, cl::CL_DEVICE_EXTENSIONS);
    let has = |name: &str| extensions.split_whitespace().any(|e| e == name);
    // Only extensions that a device lists are queried: some drivers answer unknown queries with a
    // crash.
    let address = if has("cl_khr_pci_bus_info") {
        info::bytes(api::clGetDeviceInfo.own(site.slot), handle, cl::CL_DEVICE_PCI_BUS_INFO_KHR)
            .and_then(|b| {
                let field = |i: usize| {
                    b.get(i * 4..i * 4 + 4).and_then(|c| c.try_into().ok()).map(u32::from_le_bytes)
                };
                let (domain, bus, device, function) = (field(0)?, field(1)?, field(2)?, field(3)?);
                Some(PciAddress { domain, bus, device, function })
            })
    } else if has("cl_nv_device_attribute_query") {
        let (bus, slot) =
            (number(cl::CL_DEVICE_PCI_BUS_ID_NV), number(cl::CL_DEVICE_PCI_SLOT_ID_NV));
        let domain = number(cl::CL_DEVICE_PCI_DOMAIN_ID_NV).unwrap_or(0);
        bus.zip(slot).map(|(bus, slot)| PciAddress::of_slot(domain as u32, bus as u32, slot as u32))
    } else {
        None
    };
    address.map(|address| address.to_string())
}

/// Id of a device, which is described if it is new.
pub fn device(site: Site, handle: H) -> u32 {
    if handle.is_null() {
        return 0;
    }
    let (device, _) = objects::seen(handle);
    if !first(device) {
        return device;
    }
    let text = |name| info::text(api::clGetDeviceInfo.own(site.slot), handle, name);
    let number = |name| info::number(api::clGetDeviceInfo.own(site.slot), handle, name);
    let platform = platform(site, platform_of(site, handle));
    let parent = info::handle(api::clGetDeviceInfo.own(site.slot), handle, info::DEVICE_PARENT);
    let parent = (!parent.is_null()).then(|| self::device(site, parent));
    let extensions = text(cl::CL_DEVICE_EXTENSIONS);
    let has = |name: &str| extensions.split_whitespace().any(|e| e == name);
    let uuid = has("cl_khr_device_uuid")
        .then(|| info::bytes(api::clGetDeviceInfo.own(site.slot), handle, cl::CL_DEVICE_UUID_KHR))
        .flatten();
    recording::define(
        &defs::Device {
            id: device,
            platform,
            name: text(cl::CL_DEVICE_NAME),
            vendor: text(cl::CL_DEVICE_VENDOR),
            driver: text(cl::CL_DRIVER_VERSION),
            version: text(cl::CL_DEVICE_VERSION),
            device_type: number(cl::CL_DEVICE_TYPE).unwrap_or(0),
            compute_units: number(cl::CL_DEVICE_MAX_COMPUTE_UNITS).unwrap_or(0) as u32,
            clock_mhz: number(cl::CL_DEVICE_MAX_CLOCK_FREQUENCY).unwrap_or(0) as u32,
            global_memory: number(cl::CL_DEVICE_GLOBAL_MEM_SIZE).unwrap_or(0),
            timer_resolution: number(cl::CL_DEVICE_PROFILING_TIMER_RESOLUTION).unwrap_or(0),
            pci: pci(site, handle),
            parent,
            uuid: uuid.map(|bytes| ids::hex(&bytes)),
        }
        .into(),
    );
    device
}

/// Platform of a device, NULL if the query fails.
pub fn platform_of(site: Site, device: H) -> H {
    info::handle(api::clGetDeviceInfo.own(site.slot), device, info::DEVICE_PLATFORM)
}

/// Name of a device's platform: what is known of runtimes beyond the specification goes by it.
fn name_of(site: Site, device: H) -> String {
    info::text(
        api::clGetPlatformInfo.own(site.slot),
        platform_of(site, device),
        cl::CL_PLATFORM_NAME,
    )
}

/// Whether the device is a processor.
pub fn is_processor(site: Site, device: H) -> bool {
    let kind = info::number(api::clGetDeviceInfo.own(site.slot), device, cl::CL_DEVICE_TYPE);
    kind.is_some_and(|kind| kind & cl::CL_DEVICE_TYPE_CPU != 0)
}

/// Whether the device is of NVIDIA's runtime, of whose driver (580) two things were measured that
/// are known of no other: clSetCommandQueueProperty switches profiling for the commands that
/// follow, also with others in flight, and a marker's QUEUED and SUBMIT bound the device's clock
/// more closely than other commands do.
pub fn is_nvidia(site: Site, device: H) -> bool {
    name_of(site, device) == "NVIDIA CUDA"
}

/// Whether an enqueue that fails over its wait list leaves a live event in the slot. Nobody would
/// release it, and Intel's runtime for CPUs (2026.2) aborts at the process's end over such events
/// whose queue is gone.
pub fn failures_leave_events(site: Site, device: H) -> bool {
    name_of(site, device) == "Intel(R) OpenCL"
}

/// Id of a platform, which is described if it is new.
fn platform(site: Site, handle: H) -> u32 {
    if handle.is_null() {
        return 0;
    }
    let (platform, _) = objects::seen(handle);
    if first(platform) {
        let text = |name| info::text(api::clGetPlatformInfo.own(site.slot), handle, name);
        recording::define(
            &defs::Platform {
                id: platform,
                name: text(cl::CL_PLATFORM_NAME),
                vendor: text(cl::CL_PLATFORM_VENDOR),
                version: text(cl::CL_PLATFORM_VERSION),
            }
            .into(),
        );
    }
    platform
}
