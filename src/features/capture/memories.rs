//! Owns what a launch reaches: its arguments as the application set them, and the memory behind
//! them, each range once, so that sub-buffers which overlap stay so; of a buffer that is named by
//! parts the rest is left out. Refuses what cannot be known or read, with the reason.

use super::calls::Origin;
use super::info::{Bits, bits, name_of};
use super::recent;
use crate::abi::constants as cl;
use crate::abi::entry::{H, P};
use crate::facts::arguments::{self, Allocated, Argument, Kernel, Memory as Kind, Shared, ask};
use crate::facts::info::Info;
use crate::facts::{images, info};
use crate::os::memory::readable::is_readable;
use crate::runtime::functions as api;
use clscope_trace::ids::hex;
use serde_json::{Value, json};
use std::ptr::null_mut;

/// Where memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A buffer that is no part of another, and where the range begins in it.
    Buffer(H, usize),
    /// Width, height or number of lines, depth or number of layers; and where the texels of a line
    /// that is a view of a buffer lie: some runtimes copy no such image.
    Image(H, [usize; 3], Option<(H, usize)>),
    /// An address of shared virtual memory, or of unified shared memory.
    Svm(usize, Allocated),
}

/// An allocation that the launch reaches.
pub struct Memory {
    pub source: Source,
    pub bytes: u64,
    pub flags: u64,
    /// What `launch.json` says of it beside its contents.
    pub about: Value,
}

impl Memory {
    /// Whether no kernel may write it.
    pub fn read_only(&self) -> bool {
        self.flags & cl::CL_MEM_READ_ONLY != 0
    }

    /// Whether it is shared virtual memory.
    pub fn is_shared(&self) -> bool {
        matches!(self.source, Source::Svm(..))
    }

    /// What is copied of it.
    pub fn origin(&self) -> Origin {
        match self.source {
            Source::Buffer(buffer, at) => Origin::Buffer(buffer, at),
            Source::Image(_, _, Some((buffer, at))) => Origin::Buffer(buffer, at),
            Source::Image(image, region, None) => Origin::Image(image, region),
            Source::Svm(address, Allocated::Svm) => Origin::Svm(address),
            Source::Svm(address, _) => Origin::Unified(address),
        }
    }

    /// What `launch.json` says of when commands had used it.
    pub fn last_use(&self, slot: usize) -> Value {
        match self.source {
            Source::Buffer(object, _) | Source::Image(object, ..) => {
                recent::describe_last_use(slot, object)
            }
            Source::Svm(..) => Value::Null,
        }
    }
}

/// A range of a buffer that is no part of another: its handle, and where it begins and ends.
type Range = (usize, usize, usize);

/// What a launch reaches.
#[derive(Default)]
pub struct Reach {
    pub memories: Vec<Memory>,
    pub arguments: Vec<Value>,
    /// Ranges of buffers that arguments name; those that overlap are one.
    ranges: Vec<Range>,
}

/// Joins ranges of the same buffer that overlap.
fn joined(mut all: Vec<Range>) -> Vec<Range> {
    all.sort_unstable();
    let mut out: Vec<Range> = Vec::new();
    for (buffer, begin, end) in all {
        match out.last_mut() {
            Some((of, first, last)) if *of == buffer && (begin < *last || begin == *first) => {
                *last = (*last).max(end);
            }
            _ => out.push((buffer, begin, end)),
        }
    }
    out
}

/// The buffer that one is a part of, or itself; where it begins there, and its size.
fn placed(slot: usize, object: H) -> Result<(H, usize, usize), &'static str> {
    let about = api::clGetMemObjectInfo.behind(slot);
    let size: usize = ask(about, object, cl::CL_MEM_SIZE).ok_or("has an unknown size")?;
    let parent = info::handle(about, object, info::MEMORY_PARENT);
    if parent.is_null() {
        return Ok((object, 0, size));
    }
    let offset: usize = ask(about, object, cl::CL_MEM_OFFSET).ok_or("has an unknown offset")?;
    Ok((parent, offset, size))
}

/// Ranges that an argument names.
fn named(slot: usize, object: H) -> Option<Range> {
    let of = match arguments::memory(object)? {
        Kind::Buffer => object,
        // A view of a buffer; of an image the texels are read.
        Kind::Image => {
            let about = api::clGetMemObjectInfo.behind(slot);
            let parent = info::handle(about, object, info::MEMORY_PARENT);
            (arguments::memory(parent) == Some(Kind::Buffer)).then_some(parent)?
        }
        Kind::Pipe | Kind::Sampler => return None,
    };
    let (buffer, offset, size) = placed(slot, of).ok()?;
    Some((buffer.word(), offset, offset.saturating_add(size)))
}

/// A text that the compiler kept of an argument, where it did.
fn argument_text(slot: usize, kernel: H, index: u32, name: u32) -> Option<String> {
    let ask = api::clGetKernelArgInfo.behind(slot)?;
    let mut text = [0u8; 256];
    let mut size = 0usize;
    let (to, told): (P, P) = (text.as_mut_ptr().cast(), (&raw mut size).cast());
    // SAFETY: a live kernel, and room for as many bytes as are said.
    let code = unsafe { ask(kernel, index, name, text.len(), to, told) };
    let text = text.get(..size).filter(|_| code == 0)?;
    let text = String::from_utf8_lossy(text);
    let text = text.trim_end_matches('\0');
    (!text.is_empty()).then(|| text.to_owned())
}

/// A number that the compiler kept of an argument.
fn argument_number(slot: usize, kernel: H, index: u32, name: u32) -> Option<u32> {
    let ask = api::clGetKernelArgInfo.behind(slot)?;
    let mut number = 0u32;
    let to: P = (&raw mut number).cast();
    // SAFETY: as above.
    let code = unsafe { ask(kernel, index, name, size_of::<u32>(), to, null_mut()) };
    (code == 0).then_some(number)
}

impl Reach {
    /// What a launch of a kernel reaches, in a context.
    ///
    /// # Errors
    /// What it reaches that cannot be captured.
    pub fn find(slot: usize, context: H, handle: H, kernel: &Kernel) -> Result<Self, String> {
        let count: u32 = ask(api::clGetKernelInfo.behind(slot), handle, cl::CL_KERNEL_NUM_ARGS)
            .ok_or("its number of arguments is not known")?;
        let objects = (0..count).filter_map(|index| match kernel.arguments.get(&index)? {
            Argument::Object(object) => named(slot, *object),
            _ => None,
        });
        let mut out = Self { ranges: joined(objects.collect()), ..Self::default() };
        for index in 0..count {
            let mut about = json!({ "index": index });
            let text = |name| argument_text(slot, handle, index, name);
            if let Some(name) = text(cl::CL_KERNEL_ARG_NAME) {
                set(&mut about, "name", name);
            }
            if let Some(name) = text(cl::CL_KERNEL_ARG_TYPE_NAME) {
                set(&mut about, "type", name);
            }
            let number = |name| argument_number(slot, handle, index, name);
            let access = number(cl::CL_KERNEL_ARG_ACCESS_QUALIFIER)
                .filter(|access| *access != cl::CL_KERNEL_ARG_ACCESS_NONE);
            if let Some(access) = access {
                set(&mut about, "access", name_of(access));
            }
            let local = number(cl::CL_KERNEL_ARG_ADDRESS_QUALIFIER)
                .map(|space| space == cl::CL_KERNEL_ARG_ADDRESS_LOCAL);
            let argument = kernel
                .arguments
                .get(&index)
                .ok_or_else(|| format!("argument {index} was set before recording began"))?;
            let said = out
                .argument(slot, argument, local)
                .map_err(|why| format!("argument {index} {why}"))?;
            merge(&mut about, said);
            out.arguments.push(about);
        }
        for place in arguments::ALL_BESIDE {
            let Some(Argument::Shared(shared)) = kernel.arguments.get(&place) else { continue };
            let addresses = match shared {
                Shared::Listed(addresses) => addresses.clone(),
                Shared::Any(how) => {
                    let all = arguments::allocations(context.word(), *how);
                    all.into_iter().map(|of| of.address).collect()
                }
                _ => {
                    return Err("it may use memory of the host or of an extension that is not \
                                followed (clSetKernelExecInfo)"
                        .to_owned());
                }
            };
            for address in addresses {
                out.svm(address).map_err(|why| format!("memory of clSetKernelExecInfo {why}"))?;
            }
        }
        Ok(out)
    }

    /// What an argument says beside its name. `local`: whether it is of local memory, where known.
    fn argument(
        &mut self,
        slot: usize,
        argument: &Argument,
        local: Option<bool>,
    ) -> Result<Value, String> {
        let object = match argument {
            Argument::Value(bytes) => {
                return Ok(json!({ "kind": "value", "bytes": bytes.len(), "value": hex(bytes) }));
            }
            // Both are set by a size without a value. Where nothing tells them apart, setting it
            // again sets the same.
            Argument::Local(size) => {
                let local = local.unwrap_or(*size != size_of::<H>());
                return Ok(json!({ "kind": if local { "local" } else { "null" }, "bytes": size }));
            }
            Argument::Shared(Shared::Svm(0)) => {
                return Ok(json!({ "kind": "null", "bytes": size_of::<H>() }));
            }
            Argument::Shared(Shared::Svm(address)) => {
                let mut found = self.svm(*address)?;
                set(&mut found, "kind", "svm");
                return Ok(found);
            }
            Argument::Shared(_) => {
                return Err("points to memory of an extension that is not followed".to_owned());
            }
            Argument::Object(object) => *object,
        };
        match arguments::memory(object) {
            Some(Kind::Buffer) => self.buffer(slot, object),
            Some(Kind::Image) => self.image(slot, object),
            Some(Kind::Sampler) => sampler(slot, object),
            Some(Kind::Pipe) => Err("is a pipe".to_owned()),
            None => Err("is an object of a kind that cannot be captured".to_owned()),
        }
    }

    /// The place among the memories of one that lies there.
    fn known(&self, source: Source) -> Option<usize> {
        let place = |source| match source {
            Source::Buffer(of, at) => (of.word(), at),
            Source::Image(of, ..) => (of.word(), 0),
            Source::Svm(address, _) => (address, 0),
        };
        self.memories.iter().position(|m| place(m.source) == place(source))
    }

    fn add(&mut self, memory: Memory) -> usize {
        self.memories.push(memory);
        self.memories.len() - 1
    }

    fn buffer(&mut self, slot: usize, object: H) -> Result<Value, String> {
        let about = api::clGetMemObjectInfo.behind(slot);
        let flags: u64 = ask(about, object, cl::CL_MEM_FLAGS).ok_or("has unknown flags")?;
        let (whole, offset, size) = placed(slot, object)?;
        let range = self.ranges.iter().find(|(of, begin, end)| {
            *of == whole.word() && *begin <= offset && offset.saturating_add(size) <= *end
        });
        let (_, begin, end) = *range.ok_or("is a part of a buffer that is not known")?;
        let id = self.range(slot, whole, (begin, end))?;
        Ok(json!({
            "kind": "memory",
            "memory": id,
            "offset": offset - begin,
            "size": size,
            "flags": bits(Bits::Memory, flags),
        }))
    }

    /// A range of a buffer that is no part of another.
    fn range(
        &mut self,
        slot: usize,
        object: H,
        (begin, end): (usize, usize),
    ) -> Result<usize, String> {
        let source = Source::Buffer(object, begin);
        if let Some(known) = self.known(source) {
            return Ok(known);
        }
        let about = api::clGetMemObjectInfo.behind(slot);
        let bytes: usize = ask(about, object, cl::CL_MEM_SIZE).ok_or("has an unknown size")?;
        let flags: u64 = ask(about, object, cl::CL_MEM_FLAGS).ok_or("has unknown flags")?;
        let svm: u32 = ask(about, object, cl::CL_MEM_USES_SVM_POINTER).unwrap_or(0);
        if svm != 0 && flags & cl::CL_MEM_USE_HOST_PTR != 0 {
            let host: usize = ask(about, object, cl::CL_MEM_HOST_PTR).unwrap_or(0);
            if arguments::svm(host).is_none_or(|s| s.flags & cl::CL_MEM_SVM_FINE_GRAIN_BUFFER != 0)
            {
                return Err(FINE.to_owned());
            }
        }
        check_readable(about, object, flags, (begin, end - begin))?;
        let mut kind = json!({ "kind": "buffer" });
        if end - begin < bytes {
            set(&mut kind, "part", json!({ "offset": begin, "whole": bytes }));
        }
        Ok(self.add(Memory { source, bytes: (end - begin) as u64, flags, about: kind }))
    }

    fn image(&mut self, slot: usize, object: H) -> Result<Value, String> {
        let about = api::clGetMemObjectInfo.behind(slot);
        let flags: u64 = ask(about, object, cl::CL_MEM_FLAGS).ok_or("has unknown flags")?;
        let of = api::clGetImageInfo.behind(slot);
        let extent = images::extent(slot, object)?;
        let (region, element, texels) = (extent.region, extent.element, extent.bytes());
        let size = |name| ask::<usize>(of, object, name).unwrap_or(0);
        let number = |name| ask::<u32>(of, object, name).unwrap_or(0);
        let format = info::bytes(of, object, cl::CL_IMAGE_FORMAT).unwrap_or_default();
        let word = |at: usize| {
            format.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_ne_bytes)
        };
        let (order, data) = word(0).zip(word(4)).ok_or("has an unknown format")?;
        // An image may be another view of a buffer's or image's memory.
        let parent = info::handle(about, object, info::MEMORY_PARENT);
        let is_line = extent.kind == cl::CL_MEM_OBJECT_IMAGE1D_BUFFER && !parent.is_null();
        let line = if is_line { Some(placed(slot, parent)?) } else { None };
        let source = Source::Image(object, region, line.map(|(whole, at, _)| (whole, at)));
        let id = match self.known(source) {
            Some(known) => known,
            None => {
                let view = match arguments::memory(parent) {
                    _ if parent.is_null() => None,
                    Some(Kind::Buffer) => {
                        let of = self.buffer(slot, parent)?;
                        Some((field(&of, "memory"), field(&of, "offset")))
                    }
                    Some(Kind::Image) => {
                        Some((field(&self.image(slot, parent)?, "memory"), json!(0)))
                    }
                    _ => return Err("is a view of an object that is not known".to_owned()),
                };
                let mut image = json!({
                    "type": name_of(extent.kind),
                    "width": size(cl::CL_IMAGE_WIDTH),
                    "height": size(cl::CL_IMAGE_HEIGHT),
                    "depth": size(cl::CL_IMAGE_DEPTH),
                    "array": size(cl::CL_IMAGE_ARRAY_SIZE),
                    "row_pitch": size(cl::CL_IMAGE_ROW_PITCH),
                    "slice_pitch": size(cl::CL_IMAGE_SLICE_PITCH),
                    "mips": number(cl::CL_IMAGE_NUM_MIP_LEVELS),
                    "samples": number(cl::CL_IMAGE_NUM_SAMPLES),
                    "order": name_of(order),
                    "data": name_of(data),
                    "element": element,
                });
                if let Some((memory, offset)) = view {
                    set(&mut image, "of_memory", memory);
                    set(&mut image, "of_offset", offset);
                }
                let all = ask(about, object, cl::CL_MEM_SIZE).ok_or("has an unknown size")?;
                check_readable(about, object, flags, (0, all))?;
                let about = json!({ "kind": "image", "image": image });
                self.add(Memory { source, bytes: texels, flags, about })
            }
        };
        Ok(json!({
            "kind": "memory",
            "memory": id,
            "offset": 0,
            "size": texels,
            "flags": bits(Bits::Memory, flags),
        }))
    }

    /// The memory behind an address of shared virtual memory.
    fn svm(&mut self, address: usize) -> Result<Value, String> {
        let of = arguments::svm(address).ok_or(
            "points to shared memory that was not seen to be allocated: of the host (system SVM), \
             or from before recording began",
        )?;
        if of.flags & cl::CL_MEM_SVM_FINE_GRAIN_BUFFER != 0 {
            return Err(FINE.to_owned());
        }
        let source = Source::Svm(of.address, of.how);
        let id = match self.known(source) {
            Some(known) => known,
            None => self.add(Memory {
                source,
                bytes: of.bytes as u64,
                flags: of.flags,
                about: json!({ "kind": "svm", "address": of.address, "usm": of.how.unified() }),
            }),
        };
        Ok(json!({ "memory": id, "offset": address - of.address }))
    }
}

/// A copy reads all of a memory, where a kernel may touch a part: of the application's own bytes
/// (`CL_MEM_USE_HOST_PTR`) each must be readable.
fn check_readable(
    about: Option<Info>,
    object: H,
    flags: u64,
    (begin, bytes): (usize, usize),
) -> Result<(), String> {
    if flags & cl::CL_MEM_USE_HOST_PTR == 0 {
        return Ok(());
    }
    let host: usize = ask(about, object, cl::CL_MEM_HOST_PTR).ok_or("has unknown host memory")?;
    match is_readable(host.saturating_add(begin), bytes) {
        true => Ok(()),
        false => Err(UNREADABLE.to_owned()),
    }
}

const UNREADABLE: &str = "is of host memory that cannot be read: it is protected (mprotect), or goes \
                          on behind the end of its file";
const FINE: &str = "is of fine-grained shared memory, which the host may write at any time";

fn sampler(slot: usize, object: H) -> Result<Value, String> {
    let of = api::clGetSamplerInfo.behind(slot);
    let word = |name| ask::<u32>(of, object, name).ok_or("is a sampler that is not known");
    Ok(json!({
        "kind": "sampler",
        "normalized": word(cl::CL_SAMPLER_NORMALIZED_COORDS)? != 0,
        "addressing": name_of(word(cl::CL_SAMPLER_ADDRESSING_MODE)?),
        "filter": name_of(word(cl::CL_SAMPLER_FILTER_MODE)?),
    }))
}

/// A field of an object.
fn field(of: &Value, name: &str) -> Value {
    of.get(name).cloned().unwrap_or_default()
}

/// Adds a field to an object.
pub fn set(of: &mut Value, name: &str, value: impl Into<Value>) {
    if let Value::Object(fields) = of {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Adds the fields of another object.
pub fn merge(of: &mut Value, more: Value) {
    if let (Value::Object(fields), Value::Object(more)) = (of, more) {
        fields.extend(more);
    }
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn ranges_that_overlap_are_one_and_those_that_touch_are_not() {
        let all = vec![(1, 0, 4096), (1, 2048, 6144), (1, 6144, 7000), (2, 0, 8), (1, 9000, 9001)];
        let of = [(1, 0, 6144), (1, 6144, 7000), (1, 9000, 9001), (2, 0, 8)];
        assert_eq!(joined(all), of);
        assert_eq!(joined(vec![(1, 0, 8192), (1, 4096, 8192), (1, 0, 4096)]), [(1, 0, 8192)]);
        assert_eq!(joined(Vec::new()), []);
    }
}
