//! What can go wrong with NVML, in words, with what helps. Absence of the library is a value here,
//! not a failure of the program.
#![forbid(unsafe_code)]

use clscope_sensors::SensorError;
use thiserror::Error;

/// A failed NVML call or an absent NVML.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum NvmlError {
    /// The library cannot be loaded: no NVIDIA driver here, or it is hidden from this process.
    #[error("NVML cannot be loaded (tried {}): {reason}", tried.join(", "))]
    Absent { tried: Vec<String>, reason: String },
    /// This driver's library has no such function.
    #[error("{call}: this driver's NVML has no such function")]
    NoFunction { call: &'static str },
    /// A call returned an error.
    #[error("{call}: {words} (code {code})")]
    Call { call: &'static str, code: u32, words: String },
    /// A call succeeded and gave something that cannot be.
    #[error("{call}: {what}")]
    Malformed { call: &'static str, what: String },
    /// GPM gave no new snapshot for much longer than its period.
    #[error(
        "GPM gave no new snapshot for {for_ms} ms: another tool may hold the counters, or the GPU is reset"
    )]
    NoSnapshot { for_ms: u64 },
}

/// nvmlReturn_t values that are distinguished (nvml.h).
pub mod code {
    /// NVML_ERROR_NOT_SUPPORTED.
    pub const NOT_SUPPORTED: u32 = 3;
    /// NVML_ERROR_NO_PERMISSION.
    pub const NO_PERMISSION: u32 = 4;
    /// NVML_ERROR_NOT_FOUND: for samples, nothing newer.
    pub const NOT_FOUND: u32 = 6;
    /// NVML_ERROR_INSUFFICIENT_SIZE.
    pub const INSUFFICIENT_SIZE: u32 = 7;
    /// NVML_ERROR_DRIVER_NOT_LOADED.
    pub const DRIVER_NOT_LOADED: u32 = 9;
    /// NVML_ERROR_GPU_IS_LOST.
    pub const GPU_IS_LOST: u32 = 15;
    /// NVML_ERROR_RESET_REQUIRED.
    pub const RESET_REQUIRED: u32 = 16;
    /// NVML_ERROR_LIB_RM_VERSION_MISMATCH.
    pub const VERSION_MISMATCH: u32 = 18;
    /// NVML_ERROR_NO_DATA.
    pub const NO_DATA: u32 = 21;
}

impl NvmlError {
    /// The one step that helps, if any does.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            NvmlError::Absent { .. } => Some(
                "install the NVIDIA driver, or run the container with --gpus all and NVIDIA_DRIVER_CAPABILITIES=utility,compute",
            ),
            NvmlError::NoFunction { .. } => Some("update the NVIDIA driver"),
            NvmlError::NoSnapshot { .. } => {
                Some("stop other tools that read GPM (DCGM: dcgmi dmon)")
            }
            NvmlError::Malformed { .. } => None,
            NvmlError::Call { code, .. } => match *code {
                code::DRIVER_NOT_LOADED => Some("sudo modprobe nvidia"),
                code::VERSION_MISMATCH => {
                    Some("reboot: the loaded kernel module and the library differ in version")
                }
                code::NO_PERMISSION => Some("ask the administrator for access to /dev/nvidia*"),
                code::GPU_IS_LOST | code::RESET_REQUIRED => Some("sudo nvidia-smi --gpu-reset"),
                _ => None,
            },
        }
    }

    /// Whether trying again cannot succeed.
    pub fn is_fatal(&self) -> bool {
        match self {
            NvmlError::Absent { .. } | NvmlError::NoFunction { .. } => true,
            NvmlError::Malformed { .. } | NvmlError::NoSnapshot { .. } => false,
            NvmlError::Call { code, .. } => matches!(
                *code,
                code::NOT_SUPPORTED
                    | code::NO_PERMISSION
                    | code::DRIVER_NOT_LOADED
                    | code::GPU_IS_LOST
                    | code::RESET_REQUIRED
            ),
        }
    }
}

impl From<NvmlError> for SensorError {
    fn from(error: NvmlError) -> SensorError {
        SensorError::Foreign {
            what: "NVIDIA GPU (NVML)",
            message: error.to_string(),
            remedy: error.remedy().map(str::to_owned),
            fatal: error.is_fatal(),
        }
    }
}
