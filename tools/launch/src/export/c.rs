//! The program in C99 and its makefile.

use super::{Parts, after, before, filled, origin, part_of, view};
use crate::capture::{Argument, Given, Launch, Memory, MemoryKind, flags, number};
use crate::element::bytes_of_hex;
use crate::stage::{Form, shape};
use clscope_opencl::ACCESS_FLAGS;
use clscope_trace::codes as cl;
use std::fmt::Write as _;

/// A text as a literal of C: ASCII alone, and no trigraphs.
fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if !b"\"\\?".contains(&byte) => out.push(char::from(byte)),
            // Writing to a string does not fail. Three digits: no further one belongs to it.
            _ => drop(write!(out, "\\{byte:03o}")),
        }
    }
    out + "\""
}

fn sizes(name: &str, of: Option<&Vec<u64>>) -> String {
    match of {
        None => format!("static const size_t *const {name} = NULL;\n"),
        Some(all) => {
            let all: Vec<String> = all.iter().map(|n| format!("{n}u")).collect();
            format!(
                "static const size_t {name}_[] = {{{}}}, *const {name} = {name}_;\n",
                all.join(", ")
            )
        }
    }
}

/// The program, without what differs from launch to launch.
const PROGRAM: &str = include_str!("reproduce.c.in");

const MAKEFILE: &str = "CFLAGS ?= -O2

reproduce: reproduce.c
\t$(CC) -std=c99 $(CFLAGS) reproduce.c -o reproduce -lOpenCL
";

/// The program and the makefile.
pub(super) fn files(of: &Parts<'_>) -> Vec<(&'static str, String)> {
    let launch = of.launch;
    let uses_svm = launch.memories.iter().any(|memory| memory.kind == MemoryKind::Svm);
    let version = match of.form {
        Form::Il => "210",
        _ if uses_svm => "200",
        _ => "120",
    };
    let contents = launch.memories.iter().enumerate().map(|(index, memory)| {
        let (id, bytes, before) = (memory.id, memory.bytes, before(memory));
        let after = memory.after.as_ref().map_or_else(String::new, |_| {
            let after = after(memory);
            format!("memories[{index}].after = contents(\"{after}\", {bytes});\n")
        });
        let made = made(launch, index, memory);
        format!(
            "/* memory {id} */\nmemories[{index}].before = contents(\"{before}\", {bytes});\n{after}{made}\n"
        )
    });
    let mut arguments: Vec<String> =
        launch.arguments.iter().map(|argument| given(launch, argument)).collect();
    if uses_svm {
        let svm = launch.memories.iter().enumerate().filter(|(_, m)| m.kind == MemoryKind::Svm);
        let pointers: Vec<String> = svm.map(|(i, _)| format!("memories[{i}].svm")).collect();
        arguments.push(format!(
            "void *reached[] = {{{}}};\nCHECK(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof reached, reached));",
            pointers.join(", ")
        ));
    }
    let create = match of.form {
        Form::Source => {
            "clCreateProgramWithSource(context, 1, (const char **)&text, &length, &code)"
        }
        Form::Il => "clCreateProgramWithIL(context, text, length, &code)",
        Form::Binary => {
            "clCreateProgramWithBinary(context, 1, &device, &length, (const unsigned char **)&text, NULL, &code)"
        }
    };
    let sizes = [
        sizes("global", Some(&launch.global)),
        sizes("local", launch.local.as_ref()),
        sizes("offset", launch.offset.as_ref()),
    ];
    let program = filled(
        PROGRAM,
        &[
            ("origin", origin(launch)),
            ("version", version.to_owned()),
            ("uses svm", if uses_svm { "#define USES_SVM\n".to_owned() } else { String::new() }),
            ("atomics", literal(&of.atomics)),
            ("dimensions", launch.dimensions.to_string()),
            ("count", launch.memories.len().to_string()),
            ("sizes", sizes.concat()),
            ("memories", launch.memories.iter().map(described).collect()),
            ("contents", indented(&contents.collect::<String>())),
            ("bytes", of.bytes.to_string()),
            ("program", of.program.to_owned()),
            ("create", create.to_owned()),
            ("options", literal(&of.options())),
            ("kernel", literal(&launch.kernel)),
            ("arguments", indented(&arguments.join("\n"))),
        ],
    );
    vec![("reproduce.c", program), ("Makefile", MAKEFILE.to_owned())]
}

/// Lines, as they stand inside a function.
fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("    {line}\n")).collect()
}

fn described(memory: &Memory) -> String {
    let shape = memory.image.as_ref().and_then(|image| shape(image).ok());
    let (row, slice) = shape.map_or((0, 0), |shape| shape.pitches());
    let [w, h, d] = shape.map_or([0; 3], |shape| shape.region());
    format!(
        "    {{\"memory {}\", {}u, {}, {{{w}u, {h}u, {d}u}}, {row}u, {slice}u, NULL, NULL, {}u, NULL, NULL}},\n",
        memory.id,
        memory.bytes,
        u8::from(shape.is_some()),
        memory.address.unwrap_or(0)
    )
}

/// How a memory is made.
fn made(launch: &Launch, index: usize, memory: &Memory) -> String {
    let (bits, bytes) = (flags(&memory.flags), memory.bytes.max(1));
    let access = bits & ACCESS_FLAGS;
    let m = format!("memories[{index}]");
    let Some(shape) = memory.image.as_ref().and_then(|image| shape(image).ok()) else {
        return match memory.kind {
            MemoryKind::Svm => format!(
                "{m}.svm = clSVMAlloc(context, {access}, {bytes}, 0);\nCHECK({m}.svm ? CL_SUCCESS : CL_OUT_OF_RESOURCES);"
            ),
            _ => format!(
                "{m}.object = clCreateBuffer(context, {bits}, {bytes}, NULL, &code);\nCHECK(code);"
            ),
        };
    };
    let is_of_buffer = shape.kind == cl::CL_MEM_OBJECT_IMAGE1D_BUFFER;
    let (own, object) = (format!("view_{index}"), |id| {
        let place = place(launch, id);
        format!("memories[{place}].object")
    });
    let (made, buffer) = match view(launch, memory) {
        Some((of, offset)) if of.kind == MemoryKind::Buffer && offset > 0 => {
            let (object, size) = (object(of.id), of.bytes - offset);
            let part = format!(
                "cl_buffer_region part_of_{index} = {{{offset}, {size}}};\ncl_mem {own} = clCreateSubBuffer({object}, 0, CL_BUFFER_CREATE_TYPE_REGION, &part_of_{index}, &code);\nCHECK(code);\n"
            );
            (part, own)
        }
        Some((of, _)) => (String::new(), object(of.id)),
        None if is_of_buffer => (
            format!(
                "cl_mem {own} = clCreateBuffer(context, {bits}, {bytes}, NULL, &code);\nCHECK(code);\n"
            ),
            own,
        ),
        None => (String::new(), "NULL".to_owned()),
    };
    let of_buffer = view(launch, memory).is_some_and(|(of, _)| of.kind == MemoryKind::Buffer);
    let row_pitch = memory.image.as_ref().map_or(0, |image| image.row_pitch);
    let pitch = if of_buffer && !is_of_buffer { row_pitch } else { 0 };
    format!(
        "{made}cl_image_format format_{index} = {{{:#x}, {:#x}}};\ncl_image_desc image_{index} = {{.image_type = {:#x}, .image_width = {}, .image_height = {}, .image_depth = {}, .image_array_size = {}, .image_row_pitch = {pitch}, .buffer = {buffer}}};\n{m}.object = clCreateImage(context, {access}, &format_{index}, &image_{index}, NULL, &code);\nCHECK(code);",
        shape.order, shape.data, shape.kind, shape.width, shape.height, shape.depth, shape.array
    )
}

/// Where a memory stands in the table.
fn place(launch: &Launch, id: u32) -> usize {
    launch.memories.iter().position(|m| m.id == id).unwrap_or(launch.memories.len())
}

/// How an argument is set.
fn given(launch: &Launch, argument: &Argument) -> String {
    let index = argument.index;
    match &argument.given {
        Given::Value { bytes, value } => {
            let value = bytes_of_hex(value).unwrap_or_default();
            let list: Vec<String> = value.iter().map(|byte| format!("{byte:#04x}")).collect();
            // A pointer into shared memory may be in it.
            format!(
                "unsigned char value_{index}[] = {{{}}};\nmove_addresses(value_{index}, sizeof value_{index});\nCHECK(clSetKernelArg(kernel, {index}, {bytes}, value_{index}));",
                list.join(", ")
            )
        }
        Given::Local { bytes } | Given::Null { bytes } => {
            format!("CHECK(clSetKernelArg(kernel, {index}, {bytes}, NULL));")
        }
        Given::Sampler { normalized, addressing, filter } => {
            let [addressing, filter] =
                [addressing, filter].map(|name| number(name).unwrap_or_default());
            let normalized = u8::from(*normalized);
            format!(
                "cl_sampler sampler_{index} = clCreateSampler(context, {normalized}, {addressing:#x}, {filter:#x}, &code);\nCHECK(code);\nCHECK(clSetKernelArg(kernel, {index}, sizeof sampler_{index}, &sampler_{index}));"
            )
        }
        Given::Memory { memory, flags: own, .. } => match part_of(launch, &argument.given) {
            Some((memory, offset, size)) => {
                let bits = if own.is_empty() { 0 } else { flags(own) & ACCESS_FLAGS };
                let place = place(launch, memory.id);
                format!(
                    "cl_buffer_region region_{index} = {{{offset}, {size}}};\ncl_mem part_{index} = clCreateSubBuffer(memories[{place}].object, {bits}, CL_BUFFER_CREATE_TYPE_REGION, &region_{index}, &code);\nCHECK(code);\nCHECK(clSetKernelArg(kernel, {index}, sizeof part_{index}, &part_{index}));"
                )
            }
            None => format!(
                "CHECK(clSetKernelArg(kernel, {index}, sizeof(cl_mem), &memories[{}].object));",
                place(launch, *memory)
            ),
        },
        Given::Svm { memory, offset } => format!(
            "CHECK(clSetKernelArgSVMPointer(kernel, {index}, (char *)memories[{}].svm + {offset}));",
            place(launch, *memory)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_literals() {
        assert_eq!(literal("a\"b\\\n??/1é"), r#""a\042b\134\012\077\077/1\303\251""#);
        assert_eq!(sizes("local", None), "static const size_t *const local = NULL;\n");
    }
}
