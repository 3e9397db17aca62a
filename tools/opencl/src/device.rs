//! What a device reports about itself. Owns the queries and their decoding; refuses to guess: what
//! a device does not say is absent.

use crate::OpenCl;
use crate::api::{Api, Handle};
use crate::error::{ClError, checked, info, text};
use clscope_trace::codes as cl;
use clscope_trace::ids::PciAddress;
use serde::Serialize;
use std::sync::Arc;

/// Kinds of devices that differ in how they are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeviceKind {
    /// CL_DEVICE_TYPE_CPU.
    Cpu,
    /// CL_DEVICE_TYPE_GPU.
    Gpu,
    /// Anything else.
    #[default]
    Other,
}

/// The facts a result is read with.
#[derive(Clone, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct DeviceFacts {
    /// CL_DEVICE_NAME.
    pub name: String,
    /// CL_DEVICE_VENDOR.
    pub vendor: String,
    /// CL_PLATFORM_NAME.
    pub platform: String,
    /// CL_DEVICE_VERSION.
    pub version: String,
    /// CL_DRIVER_VERSION.
    pub driver: String,
    /// What it is.
    pub kind: DeviceKind,
    /// CL_DEVICE_MAX_COMPUTE_UNITS.
    pub compute_units: u32,
    /// CL_DEVICE_MAX_CLOCK_FREQUENCY, MHz; absent where the device reports 0.
    pub max_clock_mhz: Option<u32>,
    /// CL_DEVICE_MAX_WORK_GROUP_SIZE.
    pub max_group: usize,
    /// CL_DEVICE_GLOBAL_MEM_SIZE, bytes.
    pub global_bytes: u64,
    /// CL_DEVICE_MAX_MEM_ALLOC_SIZE, bytes.
    pub largest_buffer: u64,
    /// CL_DEVICE_LOCAL_MEM_SIZE, bytes.
    pub local_bytes: u64,
    /// CL_DEVICE_GLOBAL_MEM_CACHE_SIZE, bytes.
    pub cache_bytes: u64,
    /// Whether half arithmetic is there (cl_khr_fp16).
    pub has_half: bool,
    /// Whether double arithmetic is there (cl_khr_fp64 or CL_DEVICE_DOUBLE_FP_CONFIG).
    pub has_double: bool,
    /// Whether single FMA is there at all (CL_FP_FMA).
    pub has_fma: bool,
    /// CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT.
    pub preferred_float_width: u32,
    /// CL_DEVICE_HOST_UNIFIED_MEMORY.
    pub shares_host_memory: bool,
    /// PCI address as "0000:00:02.0", where an extension gives it.
    pub pci: Option<String>,
    /// NVIDIA's compute capability, where cl_nv_device_attribute_query gives it.
    pub nv_capability: Option<(u32, u32)>,
    /// NVIDIA's warp size, from the same extension.
    pub nv_warp: Option<u32>,
    /// Intel's EUs: slices x sub-slices x EUs, from cl_intel_device_attribute_query.
    pub intel_units: Option<u32>,
    /// CL_DEVICE_EXTENSIONS.
    pub extensions: String,
}

/// A device that can be opened.
#[derive(Clone)]
pub struct Device {
    pub(super) api: Arc<Api>,
    pub(super) id: Handle,
    /// What it reports about itself.
    pub facts: DeviceFacts,
}

/// What a launch may ask of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// CL_DEVICE_IMAGE_SUPPORT.
    pub has_images: bool,
    /// CL_DEVICE_MAX_WORK_ITEM_SIZES, one for each dimension.
    pub group_sizes: Vec<usize>,
    /// CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT: global sizes need not be multiples of the local
    /// ones, where the program is built for it.
    pub has_uneven_groups: bool,
    /// CL_DEVICE_SVM_CAPABILITIES; 0 where there is no SVM.
    pub svm: u64,
    /// CL_DEVICE_ADDRESS_BITS.
    pub address_bits: Option<u32>,
    /// CL_DEVICE_IL_VERSION; empty where no intermediate language is taken.
    pub languages: String,
}

impl Device {
    /// Its UUID in hexadecimal, where an extension gives it.
    pub fn uuid(&self) -> Option<String> {
        let query = Query { api: &self.api, id: self.id };
        let has = self.facts.extensions.split_whitespace().any(|e| e == "cl_khr_device_uuid");
        let bytes = has.then(|| query.bytes(cl::CL_DEVICE_UUID_KHR).ok()).flatten()?;
        Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// What a launch may ask of it.
    pub fn limits(&self) -> Limits {
        let query = Query { api: &self.api, id: self.id };
        let sizes = query.bytes(cl::CL_DEVICE_MAX_WORK_ITEM_SIZES).unwrap_or_default();
        let (sizes, _) = sizes.as_chunks::<{ size_of::<usize>() }>();
        Limits {
            has_images: query.u32(cl::CL_DEVICE_IMAGE_SUPPORT).unwrap_or(0) != 0,
            group_sizes: sizes.iter().map(|size| usize::from_ne_bytes(*size)).collect(),
            has_uneven_groups: query.u32(cl::CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT).unwrap_or(0)
                != 0,
            svm: query.u64(cl::CL_DEVICE_SVM_CAPABILITIES).unwrap_or(0),
            address_bits: query.u32(cl::CL_DEVICE_ADDRESS_BITS),
            languages: query.text(cl::CL_DEVICE_IL_VERSION),
        }
    }
}

struct Query<'a> {
    api: &'a Api,
    id: Handle,
}

impl Query<'_> {
    fn bytes(&self, what: u32) -> Result<Vec<u8>, ClError> {
        info("clGetDeviceInfo", &format!("query {what:#x}"), |size, value, needed| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe { (self.api.get_device_info)(self.id, what, size, value, needed) }
        })
    }
    fn text(&self, what: u32) -> String {
        self.bytes(what).map(text).unwrap_or_default()
    }
    fn u32(&self, what: u32) -> Option<u32> {
        self.bytes(what).ok()?.try_into().ok().map(u32::from_ne_bytes)
    }
    fn u64(&self, what: u32) -> Option<u64> {
        self.bytes(what).ok()?.try_into().ok().map(u64::from_ne_bytes)
    }
    fn u32s<const N: usize>(&self, what: u32) -> Option<[u32; N]> {
        let bytes = self.bytes(what).ok()?;
        let mut words =
            bytes.chunks_exact(4).filter_map(|c| c.try_into().ok().map(u32::from_ne_bytes));
        let mut out = [0; N];
        for slot in &mut out {
            *slot = words.next()?;
        }
        Some(out)
    }

    fn facts(&self, platform: &str) -> DeviceFacts {
        let extensions = self.text(cl::CL_DEVICE_EXTENSIONS);
        let has = |name: &str| extensions.split_whitespace().any(|e| e == name);
        let kind = match self.u64(cl::CL_DEVICE_TYPE).unwrap_or(0) {
            t if t & cl::CL_DEVICE_TYPE_GPU != 0 => DeviceKind::Gpu,
            t if t & cl::CL_DEVICE_TYPE_CPU != 0 => DeviceKind::Cpu,
            _ => DeviceKind::Other,
        };
        // cl_khr_pci_bus_info gives {domain, bus, device, function}; NVIDIA's own query bus and
        // slot << 3 | function.
        let khr_pci = || {
            let [domain, bus, device, function] = self.u32s::<4>(cl::CL_DEVICE_PCI_BUS_INFO_KHR)?;
            Some(PciAddress { domain, bus, device, function })
        };
        let nv_pci = || {
            let slot = self.u32(cl::CL_DEVICE_PCI_SLOT_ID_NV)?;
            Some(PciAddress::of_slot(
                self.u32(cl::CL_DEVICE_PCI_DOMAIN_ID_NV).unwrap_or(0),
                self.u32(cl::CL_DEVICE_PCI_BUS_ID_NV)?,
                slot,
            ))
        };
        let has_nv = has("cl_nv_device_attribute_query");
        let pci = has("cl_khr_pci_bus_info")
            .then(khr_pci)
            .flatten()
            .or_else(|| has_nv.then(nv_pci).flatten());
        let intel_units = has("cl_intel_device_attribute_query")
            .then(|| {
                Some(
                    self.u32(cl::CL_DEVICE_NUM_SLICES_INTEL)?
                        * self.u32(cl::CL_DEVICE_NUM_SUB_SLICES_PER_SLICE_INTEL)?
                        * self.u32(cl::CL_DEVICE_NUM_EUS_PER_SUB_SLICE_INTEL)?,
                )
            })
            .flatten();
        DeviceFacts {
            name: self.text(cl::CL_DEVICE_NAME),
            vendor: self.text(cl::CL_DEVICE_VENDOR),
            platform: platform.to_owned(),
            version: self.text(cl::CL_DEVICE_VERSION),
            driver: self.text(cl::CL_DRIVER_VERSION),
            kind,
            compute_units: self.u32(cl::CL_DEVICE_MAX_COMPUTE_UNITS).unwrap_or(1).max(1),
            max_clock_mhz: self.u32(cl::CL_DEVICE_MAX_CLOCK_FREQUENCY).filter(|&mhz| mhz > 0),
            max_group: self
                .u64(cl::CL_DEVICE_MAX_WORK_GROUP_SIZE)
                .and_then(|n| usize::try_from(n).ok())
                .unwrap_or(1)
                .max(1),
            global_bytes: self.u64(cl::CL_DEVICE_GLOBAL_MEM_SIZE).unwrap_or(0),
            largest_buffer: self.u64(cl::CL_DEVICE_MAX_MEM_ALLOC_SIZE).unwrap_or(0),
            local_bytes: self.u64(cl::CL_DEVICE_LOCAL_MEM_SIZE).unwrap_or(0),
            cache_bytes: self.u64(cl::CL_DEVICE_GLOBAL_MEM_CACHE_SIZE).unwrap_or(0),
            has_half: has("cl_khr_fp16"),
            has_double: has("cl_khr_fp64")
                || self.u64(cl::CL_DEVICE_DOUBLE_FP_CONFIG).is_some_and(|config| config != 0),
            has_fma: self
                .u64(cl::CL_DEVICE_SINGLE_FP_CONFIG)
                .is_some_and(|config| config & cl::CL_FP_FMA != 0),
            preferred_float_width: self
                .u32(cl::CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT)
                .unwrap_or(1),
            shares_host_memory: self.u32(cl::CL_DEVICE_HOST_UNIFIED_MEMORY).unwrap_or(0) != 0,
            pci: pci.map(|address| address.to_string()),
            nv_capability: has_nv
                .then(|| {
                    Some((
                        self.u32(cl::CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV)?,
                        self.u32(cl::CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV)?,
                    ))
                })
                .flatten(),
            nv_warp: has_nv.then(|| self.u32(cl::CL_DEVICE_WARP_SIZE_NV)).flatten(),
            intel_units,
            extensions,
        }
    }
}

/// No device is meant.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum ChoiceError {
    /// There is none.
    #[error("no OpenCL device here; `clscope doctor` says why")]
    NoDevice,
    /// None has the name or number.
    #[error("no device is called {wanted}; `clscope bench devices` names {there}")]
    Unknown { wanted: String, there: usize },
}

/// The device that a number or a part of a name means; without one the first GPU, else the first.
///
/// # Errors
/// If there is none.
pub fn choose<'a>(all: &'a [Device], wanted: Option<&str>) -> Result<&'a Device, ChoiceError> {
    let Some(wanted) = wanted else {
        // A run takes minutes: the GPU is what people mean, where there is one.
        let gpu = all.iter().find(|d| d.facts.kind == DeviceKind::Gpu);
        return gpu.or(all.first()).ok_or(ChoiceError::NoDevice);
    };
    let found = match wanted.parse::<usize>() {
        Ok(number) => all.get(number),
        Err(_) => all.iter().find(|d| d.facts.name.to_lowercase().contains(&wanted.to_lowercase())),
    };
    found.ok_or_else(|| ChoiceError::Unknown { wanted: wanted.to_owned(), there: all.len() })
}

/// Every device of every platform, in the loader's order.
///
/// # Errors
/// What the loader returned. A platform without devices is no error.
pub fn list(cl: &OpenCl) -> Result<Vec<Device>, ClError> {
    let api = &cl.0;
    let mut count = 0;
    // SAFETY: only the count is asked for.
    checked("clGetPlatformIDs", "the loader", unsafe {
        (api.get_platform_ids)(0, std::ptr::null_mut(), &mut count)
    })?;
    let mut platforms = vec![std::ptr::null_mut(); count as usize];
    // SAFETY: room for `count` handles.
    checked("clGetPlatformIDs", "the loader", unsafe {
        (api.get_platform_ids)(count, platforms.as_mut_ptr(), std::ptr::null_mut())
    })?;
    let mut devices = Vec::new();
    for platform in platforms {
        let name = info("clGetPlatformInfo", "a platform", |size, value, needed| {
            // SAFETY: `value` has room for `size` bytes.
            unsafe { (api.get_platform_info)(platform, cl::CL_PLATFORM_NAME, size, value, needed) }
        });
        let name = name.map(text).unwrap_or_default();
        let mut count = 0;
        // SAFETY: only the count is asked for.
        if unsafe {
            (api.get_device_ids)(
                platform,
                cl::CL_DEVICE_TYPE_ALL,
                0,
                std::ptr::null_mut(),
                &mut count,
            )
        } != 0
        {
            continue; // CL_DEVICE_NOT_FOUND: a driver without its hardware
        }
        let mut ids = vec![std::ptr::null_mut(); count as usize];
        // SAFETY: room for `count` handles.
        let code = unsafe {
            (api.get_device_ids)(
                platform,
                cl::CL_DEVICE_TYPE_ALL,
                count,
                ids.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        checked("clGetDeviceIDs", &name, code)?;
        for id in ids {
            let facts = Query { api, id }.facts(&name);
            devices.push(Device { api: Arc::clone(api), id, facts });
        }
    }
    Ok(devices)
}
