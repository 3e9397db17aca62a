//! The types of `launch.json`, which describes a captured launch. This is the specification of the
//! format: the recorder writes it, and fields are only ever added. Refuses to open files.
//!
//! A capture is a folder `TRACE/captures/KERNEL.N`, where `N` counts launches of the kernel's name
//! from one. It is written under a name that ends in `.part` and renamed when it is whole. Beside
//! `launch.json` it holds the program's files and the bytes of each memory before and after the
//! launch; a folder whose name ends in `.described` has no bytes of memory. All numbers are JSON integers; what is unknown is null; enumerations have their names of
//! the specification.

use clscope_opencl::ACCESS_FLAGS;
use clscope_trace::codes as cl;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub use clscope_trace::directory::{CAPTURE_FILE as FILE, CAPTURE_SCHEMA as SCHEMA};
pub use clscope_trace::names::number;

/// A captured launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Launch {
    /// [`SCHEMA`].
    pub schema: u32,
    /// Version of the recorder.
    pub clscope: String,
    /// Name of the kernel.
    pub kernel: String,
    /// Number of the launch, from 1, of this kernel's name in the process.
    pub launch: u64,
    /// The command's id in the trace.
    pub command: Option<u64>,
    /// The process.
    pub process: Option<Process>,
    /// Variables that choose OpenCL's runtimes and devices
    /// ([`OF_OPENCL`](clscope_trace::variables::OF_OPENCL)), as the process had them at its first
    /// OpenCL call; null in captures of recorders that did not keep them.
    #[serde(default)]
    pub environment: Option<BTreeMap<String, String>>,
    /// The platform it ran on.
    pub platform: Platform,
    /// The device it ran on.
    pub device: Device,
    /// The program.
    pub program: Program,
    /// 1 to 3.
    pub dimensions: u32,
    /// The first work-item; null: the application gave NULL.
    pub offset: Option<Vec<u64>>,
    /// Work-items.
    pub global: Vec<u64>,
    /// Work-items of a group; null: the application gave NULL.
    pub local: Option<Vec<u64>>,
    /// The command queue.
    pub queue: Option<Queue>,
    /// Each memory once, so that aliases stay aliases.
    pub memories: Vec<Memory>,
    /// The arguments.
    pub arguments: Vec<Argument>,
    /// Time of the application's own launch by the device's stamps, nanoseconds.
    pub duration_ns: Option<u64>,
    /// Why there is no time.
    #[serde(default)]
    pub duration_missing: Option<String>,
    /// Whether all that the launch could write was copied behind it, so that results can be
    /// compared; recorders that do not say so always did.
    #[serde(default = "always")]
    pub checked: bool,
}

fn always() -> bool {
    true
}

/// The process that made the launch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Process {
    /// Process id.
    pub pid: u64,
    /// Which of the processes that had this id one after the other by exec.
    pub incarnation: u64,
}

/// A platform.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Platform {
    /// CL_PLATFORM_NAME.
    pub name: String,
    /// CL_PLATFORM_VENDOR.
    pub vendor: String,
    /// CL_PLATFORM_VERSION.
    pub version: String,
}

/// A device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Device {
    /// CL_DEVICE_NAME.
    pub name: String,
    /// CL_DEVICE_VENDOR.
    pub vendor: String,
    /// CL_DEVICE_VERSION.
    pub version: String,
    /// CL_DRIVER_VERSION.
    pub driver: String,
    /// `cpu`, `gpu`, `accelerator` or another type.
    #[serde(rename = "type")]
    pub kind: String,
}

/// A program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Program {
    /// `source`, `il`, `binary`, `built-in` or `linked`.
    pub origin: String,
    /// Build options.
    pub options: String,
    /// Its texts and binaries, as far as they are known.
    pub files: Vec<ProgramFile>,
    /// Why a text is absent.
    #[serde(default)]
    pub missing: Option<String>,
}

/// A text or binary of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ProgramFile {
    /// Its name in the folder.
    pub file: String,
    /// Of a header of clCompileProgram the name by which the source includes it; null: it is the
    /// program.
    #[serde(default)]
    pub include: Option<String>,
    /// `opencl-c`, `spirv` or `binary`.
    pub language: String,
    /// Its size.
    pub bytes: u64,
    /// Hash of its bytes ([`hash`](fn@clscope_trace::hash)).
    pub hash: String,
}

impl Program {
    /// The program itself, in every form that is known.
    pub fn own_files(&self) -> impl Iterator<Item = &ProgramFile> {
        self.files.iter().filter(|file| file.include.is_none())
    }

    /// Whether the device's binary is all there is of it: no other device runs it.
    pub fn is_binary_alone(&self) -> bool {
        self.own_files().all(|file| file.language == "binary")
    }

    /// Whether the application made it from a binary, as of a cache of programs, which hides its
    /// text.
    pub fn is_cached(&self) -> bool {
        self.origin == "binary" && self.is_binary_alone()
    }

    /// Headers: the name by which the source includes each, and its file.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &ProgramFile)> {
        self.files.iter().filter_map(|file| Some((file.include.as_deref()?, file)))
    }
}

/// A command queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Queue {
    /// Its properties: a number in hexadecimal, or names.
    pub properties: serde_json::Value,
}

/// How programs that are known to keep built programs are told not to use them.
pub const CACHES: &str = "OpenCV: OPENCV_OPENCL_CACHE_ENABLE=0, PyOpenCL: PYOPENCL_NO_CACHE=1";

/// What a memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MemoryKind {
    /// A buffer.
    Buffer,
    /// An image.
    Image,
    /// Shared virtual memory of coarse grain.
    Svm,
    /// A pipe: captures hold none.
    Pipe,
}

/// A memory that the launch could reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Memory {
    /// Its number in this capture.
    pub id: u32,
    /// What it is.
    pub kind: MemoryKind,
    /// Its size; of an image that of all texels without padding.
    pub bytes: u64,
    /// `cl_mem_flags` by their names.
    pub flags: Vec<String>,
    /// File with its bytes before the launch; null: they were not kept, and the launch is only
    /// described.
    pub before: Option<String>,
    /// Why they were not.
    #[serde(default)]
    pub before_missing: Option<String>,
    /// File with its bytes after the launch; null: it could not be written, and equals `before`, or
    /// there is a reason in `after_missing`.
    pub after: Option<String>,
    /// Why what the launch left in it is not known.
    #[serde(default)]
    pub after_missing: Option<String>,
    /// Of a buffer of which arguments name a part only: where the part begins, and how large the
    /// whole is. Offsets of arguments count from the part's beginning.
    #[serde(default)]
    pub part: Option<Part>,
    /// Checksum of the bytes before ([`checksum`](fn@clscope_trace::checksum)) as 16 hexadecimal
    /// digits; before schema 2 their [`hash`](fn@clscope_trace::hash).
    #[serde(default)]
    pub hash_before: Option<String>,
    /// The same of the bytes after.
    #[serde(default)]
    pub hash_after: Option<String>,
    /// Where shared virtual memory lay.
    #[serde(default)]
    pub address: Option<u64>,
    /// Of unified shared memory (cl_intel_unified_shared_memory) `device`, `host` or `shared`; null: it
    /// is none. It runs alone as shared virtual memory.
    #[serde(default)]
    pub usm: Option<String>,
    /// What an image is.
    #[serde(default)]
    pub image: Option<Image>,
    /// When commands had last used it; null in captures of recorders that did not tell, and where
    /// it was not followed.
    #[serde(default)]
    pub used: Option<Used>,
}

/// Which part of a buffer a memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Part {
    /// Where it begins.
    pub offset: u64,
    /// Bytes of the whole buffer.
    pub whole: u64,
}

/// When a memory was last used before the launch, by commands that were enqueued: how much else a
/// cache may hold since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Used {
    /// The kernel, or the kind of the command as in `clscope dump`; null: no command had used it.
    #[serde(default)]
    pub by: Option<String>,
    /// Bytes of all memories that later commands could use, each time anew; at most, since a kernel
    /// need not touch all of a memory. Null: no command had used it.
    #[serde(default)]
    pub bytes_since: Option<u64>,
}

/// Format and extent of an image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Image {
    /// CL_MEM_OBJECT_IMAGE2D and its like.
    #[serde(rename = "type")]
    pub kind: String,
    /// Texels.
    pub width: u64,
    /// Texels; 0 or 1 where the type has no height.
    pub height: u64,
    /// Texels; 0 or 1 where the type has no depth.
    pub depth: u64,
    /// Images of an array; 0 where it is none.
    pub array: u64,
    /// Bytes, as the application gave it.
    #[serde(default)]
    pub row_pitch: u64,
    /// Bytes, as the application gave it.
    #[serde(default)]
    pub slice_pitch: u64,
    /// Mip levels.
    #[serde(default)]
    pub mips: u64,
    /// Samples of a texel.
    #[serde(default)]
    pub samples: u64,
    /// CL_RGBA and its like.
    pub order: String,
    /// CL_UNORM_INT8 and its like.
    pub data: String,
    /// Bytes of a texel.
    pub element: u64,
    /// The memory, a buffer or an image, that this one is another view of.
    #[serde(default)]
    pub of_memory: Option<u32>,
    /// Where in it the view begins, in bytes.
    #[serde(default)]
    pub of_offset: Option<u64>,
}

/// An argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Argument {
    /// Its number, from 0.
    pub index: u32,
    /// Its name, where the compiler kept it.
    #[serde(default)]
    pub name: Option<String>,
    /// Its type, where the compiler kept it.
    #[serde(default, rename = "type")]
    pub type_name: Option<String>,
    /// Its access qualifier.
    #[serde(default)]
    pub access: Option<String>,
    /// What was given.
    #[serde(flatten)]
    pub given: Given,
}

/// What was given as an argument.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Given {
    /// A value.
    Value {
        /// Its size.
        bytes: u64,
        /// Its bytes, in hexadecimal.
        value: String,
    },
    /// Local memory.
    Local {
        /// Its size.
        bytes: u64,
    },
    /// A buffer, a part of one, or an image.
    Memory {
        /// The memory's id.
        memory: u32,
        /// Where a part begins, in bytes.
        #[serde(default)]
        offset: u64,
        /// Bytes of the part, or of the whole.
        size: u64,
        /// `cl_mem_flags` of the object that was given.
        #[serde(default)]
        flags: Vec<String>,
    },
    /// NULL in the place of a memory.
    Null {
        /// Size that was given.
        bytes: u64,
    },
    /// A sampler.
    Sampler {
        /// Whether coordinates are normalized.
        normalized: bool,
        /// CL_ADDRESS_CLAMP and its like.
        addressing: String,
        /// CL_FILTER_NEAREST and its like.
        filter: String,
    },
    /// An address in shared virtual memory.
    Svm {
        /// The memory's id.
        memory: u32,
        /// Bytes from its begin.
        #[serde(default)]
        offset: u64,
    },
}

impl Launch {
    /// The memory with an id.
    pub fn memory(&self, id: u32) -> Option<&Memory> {
        self.memories.iter().find(|memory| memory.id == id)
    }

    /// Why it is not known what a memory held, of a launch that is only described.
    pub fn lacks(&self) -> Option<&str> {
        let without = self.memories.iter().find(|memory| memory.before.is_none())?;
        Some(without.before_missing.as_deref().unwrap_or("what its memory held was not kept"))
    }

    /// The arguments that a memory was given as.
    pub fn arguments_of(&self, id: u32) -> impl Iterator<Item = &Argument> {
        self.arguments.iter().filter(move |argument| {
            matches!(argument.given,
                Given::Memory { memory, .. } | Given::Svm { memory, .. } if memory == id)
        })
    }
}

/// The bits of `cl_mem_flags` by their names that matter to a kernel: its access, and where the
/// memory lies. Host pointers and host access are the application's affair.
pub fn flags(names: &[String]) -> u64 {
    let bit = |name: &String| match name.as_str() {
        "CL_MEM_READ_WRITE" => cl::CL_MEM_READ_WRITE,
        "CL_MEM_WRITE_ONLY" => cl::CL_MEM_WRITE_ONLY,
        "CL_MEM_READ_ONLY" => cl::CL_MEM_READ_ONLY,
        "CL_MEM_ALLOC_HOST_PTR" => cl::CL_MEM_ALLOC_HOST_PTR,
        _ => 0,
    };
    let bits = names.iter().map(bit).fold(0, |all, bit| all | bit);
    // No access given means both.
    if bits & ACCESS_FLAGS == 0 { bits | cl::CL_MEM_READ_WRITE } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumerations_and_flags_have_their_numbers() {
        assert_eq!(number("CL_RGBA"), Some(0x10B5));
        assert_eq!(number("CL_MEM_OBJECT_IMAGE2D"), Some(0x10F1));
        assert_eq!(number("CL_FILTER_NEAREST"), Some(0x1140));
        assert_eq!(number("CL_NOTHING"), None);
        let flags = |names: &[&str]| {
            super::flags(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(flags(&[]), 1);
        assert_eq!(flags(&["CL_MEM_COPY_HOST_PTR"]), 1);
        assert_eq!(flags(&["CL_MEM_READ_ONLY", "CL_MEM_HOST_NO_ACCESS"]), 4);
        assert_eq!(flags(&["CL_MEM_WRITE_ONLY", "CL_MEM_ALLOC_HOST_PTR"]), 18);
    }
}
