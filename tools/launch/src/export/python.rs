//! The script for PyOpenCL. Refuses shared virtual memory.

use super::{ExportError, Parts, after, before, origin, part_of, view};
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

const HEAD: &str = r#"import os
import sys

import numpy as np
import pyopencl as cl

HERE = os.path.dirname(os.path.abspath(__file__))
os.chdir(HERE)
image = getattr(cl, "create_image", cl.Image)  # the former name, where there is only that


def read(name):
    with open(os.path.join(HERE, name), "rb") as file:
        return np.frombuffer(file.read(), np.uint8)


platform = cl.get_platforms()[int(sys.argv[1]) if len(sys.argv) > 1 else 0]
device = platform.get_devices()[int(sys.argv[2]) if len(sys.argv) > 2 else 0]
print("device:", device.name.strip(), "of", platform.name.strip())
context = cl.Context([device])
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
"#;

const TAIL: &str = r#"

def launch():
    for memory, region, before, _, _ in memories:
        if region:
            cl.enqueue_copy(queue, memory, before, origin=(0, 0, 0), region=region)
        else:
            cl.enqueue_copy(queue, memory, before)
    event = cl.enqueue_nd_range_kernel(queue, kernel, GLOBAL, LOCAL, global_work_offset=OFFSET)
    event.wait()
    return event.profile.end - event.profile.start


launch()
wrong = 0
for memory, region, before, after, name in memories:
    if after is None:
        continue
    found = np.empty_like(before)
    if region:
        cl.enqueue_copy(queue, found, memory, origin=(0, 0, 0), region=region)
    else:
        cl.enqueue_copy(queue, found, memory)
    differing = np.flatnonzero(found != after)
    wrong += len(differing)
    if len(differing):
        at = differing[0]
        print(f"{name}: {len(differing)} bytes differ, the first at {at}: captured {after[at]}, found {found[at]}")
print("results:", "differ" if wrong else "as captured")
if wrong and ATOMICS:
    print(f"note: {ATOMICS}: the order of work-items may decide results")
times = sorted(launch() for _ in range(11))
print(f"time: {times[5] / 1e3:.3f} us (median of 11 launches)")
sys.exit(1 if wrong else 0)
"#;

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
    let mut out = format!(
        "#!/usr/bin/env python3\n# {}\n# Needs PyOpenCL and NumPy: python3 reproduce.py [PLATFORM [DEVICE]], numbers from 0.\n# Exit code: 0 where the results are those captured, 1 where they differ.\n{HEAD}",
        origin(launch)
    );
    let mut line = |text: String| out += &format!("{text}\n");
    let options = literal(&of.options());
    let file = of.program;
    line(match of.form {
        Form::Source => format!(
            "program = cl.Program(context, read(\"{file}\").tobytes().decode(errors=\"replace\"))"
        ),
        Form::Il => format!("program = cl.Program(context, read(\"{file}\").tobytes())"),
        Form::Binary => {
            format!("program = cl.Program(context, [device], [read(\"{file}\").tobytes()])")
        }
    });
    line(format!("program.build(options={options}, cache_dir=False)"));
    line(format!("kernel = cl.Kernel(program, {})", literal(&launch.kernel)));
    line(
        "# What the program has of atomics, by which the order of work-items may decide results."
            .to_owned(),
    );
    line(format!("ATOMICS = {}", literal(&of.atomics)));
    line(format!("GLOBAL = {}", tuple(launch.global.iter().copied())));
    let optional = |sizes: &Option<Vec<u64>>| {
        sizes.as_ref().map_or_else(|| "None".to_owned(), |s| tuple(s.iter().copied()))
    };
    line(format!("LOCAL = {}", optional(&launch.local)));
    line(format!("OFFSET = {}", optional(&launch.offset)));
    line("\n# What is copied, the region of an image, bytes before and after the launch.\nmemories = []".to_owned());
    for memory in &launch.memories {
        line(made(launch, memory));
        // PyOpenCL copies no image of a buffer: its buffer is copied instead.
        let of = if is_of_buffer(memory) { "b" } else { "m" };
        let region = region(memory).filter(|_| of == "m");
        let region = region.map_or_else(|| "None".to_owned(), tuple);
        let after = match memory.after {
            Some(_) => format!("read(\"{}\")", after(memory)),
            None => "None".to_owned(),
        };
        line(format!(
            "memories.append(({of}{id}, {region}, read(\"{}\"), {after}, \"memory {id}\"))",
            before(memory),
            id = memory.id
        ));
    }
    for argument in &launch.arguments {
        line(given(of, argument));
    }
    out += TAIL;
    Ok(vec![("reproduce.py", out)])
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
    format!("a{index} = {value}\nkernel.set_arg({index}, a{index})")
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
