//! Owns which memory a kernel may write: buffers, images and shared virtual memory, by its
//! arguments as the application set them. Refuses what cannot be known, or saved and put back, with
//! the reason.
#![forbid(unsafe_code)]

use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::{self, Argument, Kernel, Memory, Shared, ask};
use crate::facts::images;
use crate::runtime::functions as api;

/// Where memory is.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    Buffer(H),
    /// An image and its texels: width, height or number of lines, depth or number of layers.
    Image(H, [usize; 3]),
    /// The address of an allocation of shared virtual memory.
    Svm(usize),
}

impl Place {
    /// A number that no other place has.
    fn word(self) -> usize {
        match self {
            Self::Buffer(handle) | Self::Image(handle, _) => handle.word(),
            Self::Svm(address) => address,
        }
    }
}

/// Memory that a kernel may write.
#[derive(Debug, Clone, Copy)]
pub struct Writable {
    pub place: Place,
    pub bytes: usize,
}

/// What the kernel may write; `Err` says what it may write that cannot be saved.
pub fn written(slot: usize, handle: H, kernel: &Kernel) -> Result<Vec<Writable>, String> {
    let count: u32 = ask(api::clGetKernelInfo.behind(slot), handle, cl::CL_KERNEL_NUM_ARGS)
        .ok_or("its number of arguments is not known")?;
    let mut out: Vec<Writable> = Vec::new();
    for index in (0..count).chain([arguments::BESIDE]) {
        let found = match kernel.arguments.get(&index) {
            None if index == arguments::BESIDE => continue,
            None => Err("was set before recording began".to_owned()),
            Some(Argument::Value(_) | Argument::Local(_)) => continue,
            Some(Argument::Shared(shared)) => all_shared(shared),
            Some(Argument::Object(object)) => {
                memory(slot, *object).map(|found| found.into_iter().collect())
            }
        };
        let found = found.map_err(|why| match index {
            arguments::BESIDE => format!("memory of clSetKernelExecInfo {why}"),
            _ => format!("argument {index} {why}"),
        })?;
        for of in found {
            if !out.iter().any(|known| known.place.word() == of.place.word()) {
                out.push(of);
            }
        }
    }
    Ok(out)
}

/// A memory object, where it may be written.
fn memory(slot: usize, object: H) -> Result<Option<Writable>, String> {
    let about = api::clGetMemObjectInfo.behind(slot);
    let read_only = || {
        let flags = ask::<u64>(about, object, cl::CL_MEM_FLAGS);
        flags.is_some_and(|flags| flags & cl::CL_MEM_READ_ONLY != 0)
    };
    match arguments::memory(object) {
        Some(Memory::Sampler) => Ok(None),
        Some(Memory::Buffer | Memory::Image) if read_only() => Ok(None),
        Some(Memory::Buffer) => {
            let bytes = ask(about, object, cl::CL_MEM_SIZE).ok_or("has an unknown size")?;
            Ok(Some(Writable { place: Place::Buffer(object), bytes }))
        }
        Some(Memory::Image) => {
            let of = images::extent(slot, object)?;
            let bytes = usize::try_from(of.bytes()).map_err(|_| "is too large to save")?;
            Ok(Some(Writable { place: Place::Image(object, of.region), bytes }))
        }
        Some(Memory::Pipe) => Err("is a pipe".to_owned()),
        None => Err("is an object of a kind that cannot be saved".to_owned()),
    }
}

/// The allocations behind addresses of shared virtual memory.
fn all_shared(shared: &Shared) -> Result<Vec<Writable>, String> {
    match shared {
        Shared::Svm(0) => Ok(Vec::new()),
        Shared::Svm(address) => Ok(vec![allocation(*address)?]),
        Shared::Listed(addresses) => addresses.iter().map(|at| allocation(*at)).collect(),
        Shared::Other => {
            Err("is memory of the host or of an extension, whose extent is not known".to_owned())
        }
    }
}

fn allocation(address: usize) -> Result<Writable, String> {
    let of = arguments::svm(address).ok_or(
        "points to shared virtual memory that clSVMAlloc did not give, or gave before recording began",
    )?;
    if of.flags & cl::CL_MEM_SVM_FINE_GRAIN_BUFFER != 0 {
        return Err(
            "points to fine-grained shared virtual memory: the host may write it at any time"
                .to_owned(),
        );
    }
    Ok(Writable { place: Place::Svm(of.address), bytes: of.bytes })
}
