//! The script for PyOpenCL. Refuses shared virtual memory.

use super::{ExportError, Parts, after, before, filled, origin, part_of, view};
use crate::capture::{Argument, Given, Launch, Memory, MemoryKind, flags, number};
use crate::element::bytes_of_hex;
use crate::stage::{Form, shape};
use clscope_opencl::ACCESS_FLAGS;
use clscope_trace::ids::hex;
use std::fmt::Write as _;

/// A text as a literal of Python: ASCII alone.
fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            ' '..='~' if c != '"' && c != '\\' => out.push(c),
            // Writing to a string does not fail.
            _ => drop(write!(out, "\\U{:08x}", u32::from(c))),
        }
    }
    out + "\""
}

fn tuple(of: impl IntoIterator<Item = u64>) -> String {
    of.into_iter().fold("(".to_owned(), |out, n| out + &format!("{n}, ")).trim_end().to_owned()
        + ")"
}

/// The script, without what differs from launch to launch.
const SCRIPT: &str = include_str!("reproduce.py.in");

/// The script.
pub(super) fn files(of: &Parts<'_>) -> Result<Vec<(&'static str, String)>, ExportError> {
    let launch = of.launch;
    if launch.memories.iter().any(|memory| memory.kind == MemoryKind::Svm) {
        return Err(ExportError::Unsupported {
            what: "the launch uses shared virtual memory".to_owned(),
            language: "PyOpenCL",
            next: "write one in C: --export c",
        });
    }
    let file = of.program;
    let program = match of.form {
        Form::Source => {
            format!("cl.Program(context, read(\"{file}\").tobytes().decode(errors=\"replace\"))")
        }
        Form::Il => format!("cl.Program(context, read(\"{file}\").tobytes())"),
        Form::Binary => format!("cl.Program(context, [device], [read(\"{file}\").tobytes()])"),
    };
    let optional = |sizes: &Option<Vec<u64>>| {
        sizes.as_ref().map_or_else(|| "None".to_owned(), |s| tuple(s.iter().copied()))
    };
    let memories = launch.memories.iter().map(|memory| {
        // PyOpenCL copies no image of a buffer: its buffer is copied instead.
        let of = if is_of_buffer(memory) { "b" } else { "m" };
        let region = region(memory).filter(|_| of == "m");
        let region = region.map_or_else(|| "None".to_owned(), tuple);
        let (id, made, before) = (memory.id, made(launch, memory), before(memory));
        let after = match memory.after {
            Some(_) => format!("read(\"{}\")", after(memory)),
            None => "None".to_owned(),
        };
        format!(
            "{made}\nmemories.append(({of}{id}, {region}, read(\"{before}\"), {after}, \"memory {id}\"))\n"
        )
    });
    let script = filled(
        SCRIPT,
        &[
            ("origin", origin(launch)),
            ("program", program),
            ("options", literal(&of.options())),
            ("kernel", literal(&launch.kernel)),
            ("atomics", literal(&of.atomics)),
            ("global", tuple(launch.global.iter().copied())),
            ("local", optional(&launch.local)),
            ("offset", optional(&launch.offset)),
            ("memories", memories.collect()),
            ("arguments", launch.arguments.iter().map(|argument| given(of, argument)).collect()),
        ],
    );
    Ok(vec![("reproduce.py", script)])
}

fn region(memory: &Memory) -> Option<[u64; 3]> {
    let shape = shape(memory.image.as_ref()?).ok()?;
    Some(shape.region().map(|n| n as u64))
}

fn made(launch: &Launch, memory: &Memory) -> String {
    let (id, bits) = (memory.id, flags(&memory.flags));
    let Some((image, shape)) = memory.image.as_ref().and_then(|i| Some((i, shape(i).ok()?))) else {
        return format!("m{id} = cl.Buffer(context, {bits}, {})", memory.bytes.max(1));
    };
    let layers = [shape.height, shape.depth, shape.array].into_iter().filter(|n| *n > 0);
    let sizes = tuple(std::iter::once(shape.width).chain(layers).map(|n| n as u64));
    let format = format!("cl.ImageFormat({:#x}, {:#x})", shape.order, shape.data);
    let flat = is_of_buffer(memory);
    let own = format!("cl.Buffer(context, {bits}, {})", memory.bytes.max(1));
    let (buffer, pitch) = match view(launch, memory) {
        Some((of, offset)) if of.kind == MemoryKind::Buffer => {
            let part = part(of, offset, of.bytes - offset);
            (Some(part), image.row_pitch)
        }
        Some((of, _)) => (Some(format!("m{}", of.id)), 0),
        None => (flat.then_some(own), 0),
    };
    let array = if shape.array > 0 { ", is_array=True" } else { "" };
    let pitches = if flat || pitch == 0 { String::new() } else { format!(", pitches=({pitch},)") };
    let (made, of) = match buffer {
        Some(buffer) => (format!("b{id} = {buffer}\n"), format!(", buffer=b{id}")),
        None => (String::new(), String::new()),
    };
    let bits = bits & ACCESS_FLAGS;
    format!("{made}m{id} = image(context, {bits}, {format}, shape={sizes}{array}{pitches}{of})")
}

fn is_of_buffer(memory: &Memory) -> bool {
    memory.image.as_ref().is_some_and(|image| image.kind == "CL_MEM_OBJECT_IMAGE1D_BUFFER")
}

/// A part of a buffer, or all of it.
fn part(of: &Memory, offset: u64, size: u64) -> String {
    match (offset, size) {
        (0, size) if size == of.bytes => format!("m{}", of.id),
        _ => format!("m{}.get_sub_region({offset}, {size})", of.id),
    }
}

fn given(of: &Parts<'_>, argument: &Argument) -> String {
    let index = argument.index;
    let value = match &argument.given {
        Given::Value { value, .. } => {
            let value = hex(&bytes_of_hex(value).unwrap_or_default());
            format!("bytes.fromhex(\"{value}\")")
        }
        Given::Local { bytes } => format!("cl.LocalMemory({bytes})"),
        Given::Null { .. } | Given::Svm { .. } => "None".to_owned(),
        Given::Sampler { normalized, addressing, filter } => {
            let [addressing, filter] =
                [addressing, filter].map(|name| number(name).unwrap_or_default());
            let normalized = if *normalized { "True" } else { "False" };
            format!("cl.Sampler(context, {normalized}, {addressing:#x}, {filter:#x})")
        }
        Given::Memory { memory, .. } => match part_of(of.launch, &argument.given) {
            Some((memory, offset, size)) => {
                format!("m{}.get_sub_region({offset}, {size})", memory.id)
            }
            None => format!("m{memory}"),
        },
    };
    format!("a{index} = {value}\nkernel.set_arg({index}, a{index})\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_literals() {
        assert_eq!(
            literal("a\"b\\\n\u{202e}é"),
            r#""a\U00000022b\U0000005c\U0000000a\U0000202e\U000000e9""#
        );
        assert_eq!((tuple([64]), tuple([8, 8])), ("(64,)".to_owned(), "(8, 8,)".to_owned()));
    }
}
