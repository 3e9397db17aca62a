//! Names of the API's constants as `launch.json` writes them, and what it says of platform, device
//! and queue.
#![forbid(unsafe_code)]

use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::ask;
use crate::facts::info;
use crate::runtime::functions as api;
use clscope_trace::names;
use serde_json::{Value, json};

/// The name of a constant of the API; what has none is written in hexadecimal.
pub fn name_of(value: u32) -> String {
    names::value(u64::from(value)).map_or_else(|| format!("{value:#x}"), str::to_owned)
}

/// Of which kind some bits are.
#[derive(Clone, Copy)]
pub enum Bits {
    Memory,
    Queue,
}

const MEMORY: [(u64, &str); 12] = [
    (cl::CL_MEM_READ_WRITE, "CL_MEM_READ_WRITE"),
    (cl::CL_MEM_WRITE_ONLY, "CL_MEM_WRITE_ONLY"),
    (cl::CL_MEM_READ_ONLY, "CL_MEM_READ_ONLY"),
    (cl::CL_MEM_USE_HOST_PTR, "CL_MEM_USE_HOST_PTR"),
    (cl::CL_MEM_ALLOC_HOST_PTR, "CL_MEM_ALLOC_HOST_PTR"),
    (cl::CL_MEM_COPY_HOST_PTR, "CL_MEM_COPY_HOST_PTR"),
    (cl::CL_MEM_HOST_WRITE_ONLY, "CL_MEM_HOST_WRITE_ONLY"),
    (cl::CL_MEM_HOST_READ_ONLY, "CL_MEM_HOST_READ_ONLY"),
    (cl::CL_MEM_HOST_NO_ACCESS, "CL_MEM_HOST_NO_ACCESS"),
    (cl::CL_MEM_SVM_FINE_GRAIN_BUFFER, "CL_MEM_SVM_FINE_GRAIN_BUFFER"),
    (cl::CL_MEM_SVM_ATOMICS, "CL_MEM_SVM_ATOMICS"),
    (cl::CL_MEM_KERNEL_READ_AND_WRITE, "CL_MEM_KERNEL_READ_AND_WRITE"),
];

const QUEUE: [(u64, &str); 4] = [
    (cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, "CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE"),
    (cl::CL_QUEUE_PROFILING_ENABLE, "CL_QUEUE_PROFILING_ENABLE"),
    (cl::CL_QUEUE_ON_DEVICE, "CL_QUEUE_ON_DEVICE"),
    (cl::CL_QUEUE_ON_DEVICE_DEFAULT, "CL_QUEUE_ON_DEVICE_DEFAULT"),
];

/// The names of bits; those without one together in hexadecimal.
pub fn bits(kind: Bits, value: u64) -> Value {
    let table: &[(u64, &str)] = match kind {
        Bits::Memory => &MEMORY,
        Bits::Queue => &QUEUE,
    };
    let mut out: Vec<Value> =
        table.iter().filter(|(bit, _)| value & bit != 0).map(|(_, name)| json!(name)).collect();
    let rest = table.iter().fold(value, |rest, (bit, _)| rest & !bit);
    if rest != 0 {
        out.push(json!(format!("{rest:#x}")));
    }
    Value::Array(out)
}

/// Whether a device is a processor.
pub fn is_processor(slot: usize, device: H) -> bool {
    let of = api::clGetDeviceInfo.behind(slot);
    let kind: u64 = ask(of, device, cl::CL_DEVICE_TYPE).unwrap_or(0);
    kind & cl::CL_DEVICE_TYPE_CPU != 0
}

/// Whether a device's memory is the host's.
pub fn is_hosts(slot: usize, device: H) -> bool {
    let of = api::clGetDeviceInfo.behind(slot);
    let unified: u32 = ask(of, device, cl::CL_DEVICE_HOST_UNIFIED_MEMORY).unwrap_or(0);
    is_processor(slot, device) || unified != 0
}

/// What a device and its platform say of themselves.
pub fn device(slot: usize, device: H) -> (Value, Value) {
    let of = api::clGetDeviceInfo.behind(slot);
    let text = |name| info::text(of, device, name);
    let kind: u64 = ask(of, device, cl::CL_DEVICE_TYPE).unwrap_or(0);
    let kinds = [
        (cl::CL_DEVICE_TYPE_CPU, "cpu"),
        (cl::CL_DEVICE_TYPE_GPU, "gpu"),
        (cl::CL_DEVICE_TYPE_ACCELERATOR, "accelerator"),
        (cl::CL_DEVICE_TYPE_CUSTOM, "custom"),
    ];
    let kind = kinds.iter().find(|(bit, _)| kind & bit != 0).map_or("other", |(_, name)| *name);
    let platform = info::handle(of, device, info::DEVICE_PLATFORM);
    let about = api::clGetPlatformInfo.behind(slot);
    let told = |name| info::text(about, platform, name);
    (
        json!({
            "name": told(cl::CL_PLATFORM_NAME),
            "vendor": told(cl::CL_PLATFORM_VENDOR),
            "version": told(cl::CL_PLATFORM_VERSION),
        }),
        json!({
            "name": text(cl::CL_DEVICE_NAME),
            "vendor": text(cl::CL_DEVICE_VENDOR),
            "version": text(cl::CL_DEVICE_VERSION),
            "driver": text(cl::CL_DRIVER_VERSION),
            "type": kind,
        }),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_have_the_names_of_the_specification() {
        assert_eq!(
            bits(Bits::Memory, cl::CL_MEM_READ_ONLY | cl::CL_MEM_COPY_HOST_PTR | 1 << 40),
            json!(["CL_MEM_READ_ONLY", "CL_MEM_COPY_HOST_PTR", "0x10000000000"])
        );
        assert_eq!(bits(Bits::Queue, 0), json!([]));
        assert_eq!(bits(Bits::Queue, 3).as_array().map(Vec::len), Some(2));
        assert_eq!(name_of(0x10b5), "CL_RGBA");
        assert_eq!(name_of(0xffff_0001), "0xffff0001");
    }
}
