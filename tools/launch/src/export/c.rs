//! The program in C99 and its makefile.

use super::{Parts, after, before, origin, part_of, view};
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

const HEAD: &str = r#"#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(code) check((code), __LINE__)

static void check(cl_int code, int line)
{
    if (code == CL_SUCCESS)
        return;
    fprintf(stderr, "line %d: OpenCL error %d\n", line, code);
    exit(2);
}

static unsigned char *contents(const char *name, size_t bytes)
{
    unsigned char *out = malloc(bytes + 1);
    FILE *file = fopen(name, "rb");
    if (!out || !file || fread(out, 1, bytes, file) != bytes) {
        fprintf(stderr, "cannot read %s: run it in its own folder\n", name);
        exit(2);
    }
    fclose(file);
    out[bytes] = 0;
    return out;
}

/* A memory of the launch: a buffer, an image with its region, or shared virtual memory. */
struct memory {
    const char *name;
    size_t bytes;
    int is_image;
    size_t region[3];
    size_t row, slice;
    cl_mem object;
    void *svm;
    uint64_t address; /* where shared memory lay */
    unsigned char *before, *after;
};

static cl_command_queue queue;
static cl_kernel kernel;
"#;

const MIDDLE: &str = r#"
/* Addresses of shared memory that lies elsewhere now. */
static void move_addresses(unsigned char *bytes, size_t length)
{
    for (size_t at = 0; at + 8 <= length; at += 8) {
        uint64_t word;
        memcpy(&word, bytes + at, 8);
        for (size_t i = 0; i < MEMORIES; i++) {
            struct memory *m = &memories[i];
            if (!m->svm || !m->address || word < m->address || word - m->address > m->bytes)
                continue;
            word = word - m->address + (uint64_t)(uintptr_t)m->svm;
            memcpy(bytes + at, &word, 8);
            break;
        }
    }
}

static void move_all(void)
{
    int any = 0;
    for (size_t i = 0; i < MEMORIES; i++)
        any |= memories[i].svm && memories[i].address;
    for (size_t i = 0; any && i < MEMORIES; i++) {
        move_addresses(memories[i].before, memories[i].bytes);
        if (memories[i].after)
            move_addresses(memories[i].after, memories[i].bytes);
    }
}

static void transfer(struct memory *m, unsigned char *host, int to_device)
{
    const size_t origin[3] = {0, 0, 0};
    if (!m->bytes)
        return;
    if (m->svm) {
#ifdef USES_SVM
        cl_map_flags flags = to_device ? CL_MAP_WRITE : CL_MAP_READ;
        CHECK(clEnqueueSVMMap(queue, CL_TRUE, flags, m->svm, m->bytes, 0, NULL, NULL));
        memcpy(to_device ? m->svm : host, to_device ? host : m->svm, m->bytes);
        CHECK(clEnqueueSVMUnmap(queue, m->svm, 0, NULL, NULL));
        CHECK(clFinish(queue));
#endif
    } else if (m->is_image && to_device) {
        CHECK(clEnqueueWriteImage(queue, m->object, CL_TRUE, origin, m->region, m->row, m->slice, host, 0, NULL, NULL));
    } else if (m->is_image) {
        CHECK(clEnqueueReadImage(queue, m->object, CL_TRUE, origin, m->region, m->row, m->slice, host, 0, NULL, NULL));
    } else if (to_device) {
        CHECK(clEnqueueWriteBuffer(queue, m->object, CL_TRUE, 0, m->bytes, host, 0, NULL, NULL));
    } else {
        CHECK(clEnqueueReadBuffer(queue, m->object, CL_TRUE, 0, m->bytes, host, 0, NULL, NULL));
    }
}

static double launch(void)
{
    cl_event event;
    cl_ulong start = 0, end = 0;
    for (size_t i = 0; i < MEMORIES; i++)
        transfer(&memories[i], memories[i].before, 1);
    CHECK(clEnqueueNDRangeKernel(queue, kernel, DIMENSIONS, offset, global, local, 0, NULL, &event));
    CHECK(clFinish(queue));
    CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, NULL));
    CHECK(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
    clReleaseEvent(event);
    return (double)(end - start);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    cl_platform_id platforms[16];
    cl_device_id devices[16], device;
    cl_uint count, platform = argc > 1 ? (cl_uint)atoi(argv[1]) : 0, which = argc > 2 ? (cl_uint)atoi(argv[2]) : 0;
    char name[256] = "";
    cl_int code;
    CHECK(clGetPlatformIDs(16, platforms, &count));
    if (platform >= count || platform >= 16) {
        fprintf(stderr, "there are %u platforms\n", count);
        return 2;
    }
    CHECK(clGetDeviceIDs(platforms[platform], CL_DEVICE_TYPE_ALL, 16, devices, &count));
    if (which >= count || which >= 16) {
        fprintf(stderr, "the platform has %u devices\n", count);
        return 2;
    }
    device = devices[which];
    clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name - 1, name, NULL);
    printf("device: %s\n", name);
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    CHECK(code);
    queue = clCreateCommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &code);
    CHECK(code);
"#;

const TAIL: &str = r#"
    launch();
    size_t wrong = 0;
    for (size_t i = 0; i < MEMORIES; i++) {
        struct memory *m = &memories[i];
        if (!m->after)
            continue;
        unsigned char *found = malloc(m->bytes + 1);
        if (!found)
            return 2;
        transfer(m, found, 0);
        size_t differing = 0, first = 0;
        for (size_t at = m->bytes; at-- > 0;)
            if (found[at] != m->after[at]) {
                differing++;
                first = at;
            }
        if (differing)
            printf("%s: %zu bytes differ, the first at %zu: captured %u, found %u\n", m->name, differing, first, m->after[first], found[first]);
        wrong += differing;
        free(found);
    }
    printf("results: %s\n", wrong ? "differ" : "as captured");
    if (wrong && *atomics)
        printf("note: %s: the order of work-items may decide results\n", atomics);
    double times[11];
    for (int i = 0; i < 11; i++)
        times[i] = launch();
    qsort(times, 11, sizeof times[0], ascending);
    printf("time: %.3f us (median of 11 launches)\n", times[5] / 1e3);
    return wrong ? 1 : 0;
}
"#;

/// The program and the makefile.
pub(super) fn files(of: &Parts<'_>) -> Vec<(&'static str, String)> {
    let launch = of.launch;
    let uses_svm = launch.memories.iter().any(|memory| memory.kind == MemoryKind::Svm);
    let version = match of.form {
        Form::Il => 210,
        _ if uses_svm => 200,
        _ => 120,
    };
    let mut out = format!(
        "/* {}\n * make && ./reproduce [PLATFORM [DEVICE]], numbers from 0.\n * Exit code: 0 where the results are those captured, 1 where they differ, 2 where OpenCL failed. */\n",
        origin(launch)
    );
    out += &format!(
        "#define CL_TARGET_OPENCL_VERSION {version}\n#define CL_USE_DEPRECATED_OPENCL_1_2_APIS\n"
    );
    if uses_svm {
        out += "#define USES_SVM\n";
    }
    out += HEAD;
    out += "/* What the program has of atomics, by which the order of work-items may decide results. */\n";
    out += &format!("static const char *const atomics = {};\n", literal(&of.atomics));
    out += &format!(
        "#define DIMENSIONS {}\n#define MEMORIES {}\n",
        launch.dimensions,
        launch.memories.len()
    );
    out += &sizes("global", Some(&launch.global));
    out += &sizes("local", launch.local.as_ref());
    out += &sizes("offset", launch.offset.as_ref());
    // No array of C is empty.
    out += "static struct memory memories[MEMORIES + 1] = {\n";
    launch.memories.iter().for_each(|memory| out += &described(memory));
    out += "    {0}};\n";
    out += MIDDLE;
    let mut line = |text: String| out += &format!("    {text}\n");
    for (index, memory) in launch.memories.iter().enumerate() {
        let id = memory.id;
        line(format!("/* memory {id} */"));
        line(format!(
            "memories[{index}].before = contents(\"{}\", {});",
            before(memory),
            memory.bytes
        ));
        if memory.after.is_some() {
            line(format!(
                "memories[{index}].after = contents(\"{}\", {});",
                after(memory),
                memory.bytes
            ));
        }
        made(launch, index, memory).into_iter().for_each(&mut line);
    }
    line("move_all();".to_owned());
    program(of).into_iter().for_each(&mut line);
    line(format!("kernel = clCreateKernel(program, {}, &code);", literal(&launch.kernel)));
    line("CHECK(code);".to_owned());
    for argument in &launch.arguments {
        given(of, argument).into_iter().for_each(&mut line);
    }
    if uses_svm {
        let svm = launch.memories.iter().enumerate().filter(|(_, m)| m.kind == MemoryKind::Svm);
        let pointers: Vec<String> = svm.map(|(i, _)| format!("memories[{i}].svm")).collect();
        line(format!("void *reached[] = {{{}}};", pointers.join(", ")));
        line("CHECK(clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof reached, reached));".to_owned());
    }
    out += TAIL;
    let makefile = "CFLAGS ?= -O2\n\nreproduce: reproduce.c\n\t$(CC) -std=c99 $(CFLAGS) reproduce.c -o reproduce -lOpenCL\n";
    vec![("reproduce.c", out), ("Makefile", makefile.to_owned())]
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

fn made(launch: &Launch, index: usize, memory: &Memory) -> Vec<String> {
    let bits = flags(&memory.flags);
    let m = format!("memories[{index}]");
    let Some(shape) = memory.image.as_ref().and_then(|image| shape(image).ok()) else {
        return match memory.kind {
            MemoryKind::Svm => vec![
                format!(
                    "{m}.svm = clSVMAlloc(context, {}, {}, 0);",
                    bits & ACCESS_FLAGS,
                    memory.bytes.max(1)
                ),
                format!("CHECK({m}.svm ? CL_SUCCESS : CL_OUT_OF_RESOURCES);"),
            ],
            _ => vec![
                format!(
                    "{m}.object = clCreateBuffer(context, {bits}, {}, NULL, &code);",
                    memory.bytes.max(1)
                ),
                "CHECK(code);".to_owned(),
            ],
        };
    };
    let mut out = Vec::new();
    let mut buffer = "NULL".to_owned();
    let mut pitch = 0;
    match view(launch, memory) {
        Some((of, offset)) if of.kind == MemoryKind::Buffer => {
            let place = place(launch, of.id);
            if offset == 0 {
                buffer = format!("memories[{place}].object");
            } else {
                out.push(format!(
                    "cl_buffer_region part_of_{index} = {{{offset}, {}}};",
                    of.bytes - offset
                ));
                out.push(format!(
                "cl_mem view_{index} = clCreateSubBuffer(memories[{place}].object, 0, CL_BUFFER_CREATE_TYPE_REGION, &part_of_{index}, &code);"
            ));
                out.push("CHECK(code);".to_owned());
                buffer = format!("view_{index}");
            }
            pitch = memory.image.as_ref().map_or(0, |image| image.row_pitch);
        }
        Some((of, _)) => buffer = format!("memories[{}].object", place(launch, of.id)),
        None if shape.kind == cl::CL_MEM_OBJECT_IMAGE1D_BUFFER => {
            out.push(format!(
                "cl_mem view_{index} = clCreateBuffer(context, {bits}, {}, NULL, &code);",
                memory.bytes.max(1)
            ));
            out.push("CHECK(code);".to_owned());
            buffer = format!("view_{index}");
        }
        None => {}
    }
    if shape.kind == cl::CL_MEM_OBJECT_IMAGE1D_BUFFER {
        pitch = 0;
    }
    out.push(format!(
        "cl_image_format format_{index} = {{{:#x}, {:#x}}};",
        shape.order, shape.data
    ));
    out.push(format!(
        "cl_image_desc image_{index} = {{.image_type = {:#x}, .image_width = {}, .image_height = {}, .image_depth = {}, .image_array_size = {}, .image_row_pitch = {pitch}, .buffer = {buffer}}};",
        shape.kind, shape.width, shape.height, shape.depth, shape.array
    ));
    out.push(format!(
        "{m}.object = clCreateImage(context, {}, &format_{index}, &image_{index}, NULL, &code);",
        bits & ACCESS_FLAGS
    ));
    out.push("CHECK(code);".to_owned());
    out
}

/// Where a memory stands in the table.
fn place(launch: &Launch, id: u32) -> usize {
    launch.memories.iter().position(|m| m.id == id).unwrap_or(launch.memories.len())
}

fn program(of: &Parts<'_>) -> Vec<String> {
    let file = of.program;
    let create = match of.form {
        Form::Source => {
            "clCreateProgramWithSource(context, 1, (const char **)&text, &length, &code)"
        }
        Form::Il => "clCreateProgramWithIL(context, text, length, &code)",
        Form::Binary => {
            "clCreateProgramWithBinary(context, 1, &device, &length, (const unsigned char **)&text, NULL, &code)"
        }
    };
    vec![
        format!("size_t length = {};", of.bytes),
        format!("unsigned char *text = contents(\"{file}\", length);"),
        format!("cl_program program = {create};"),
        "CHECK(code);".to_owned(),
        format!("code = clBuildProgram(program, 1, &device, {}, NULL, NULL);", literal(&of.options())),
        "if (code != CL_SUCCESS) {".to_owned(),
        "    static char log[1 << 16];".to_owned(),
        "    clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);".to_owned(),
        "    fprintf(stderr, \"%s\\n\", log);".to_owned(),
        "    CHECK(code);".to_owned(),
        "}".to_owned(),
    ]
}

fn given(of: &Parts<'_>, argument: &Argument) -> Vec<String> {
    let launch = of.launch;
    let index = argument.index;
    let place = |id: u32| place(launch, id);
    match &argument.given {
        Given::Value { bytes, value } => {
            let value = bytes_of_hex(value).unwrap_or_default();
            let list: Vec<String> = value.iter().map(|byte| format!("{byte:#04x}")).collect();
            vec![
                format!("unsigned char value_{index}[] = {{{}}};", list.join(", ")),
                // A pointer into shared memory may be in it.
                format!("move_addresses(value_{index}, sizeof value_{index});"),
                format!("CHECK(clSetKernelArg(kernel, {index}, {bytes}, value_{index}));"),
            ]
        }
        Given::Local { bytes } => {
            vec![format!("CHECK(clSetKernelArg(kernel, {index}, {bytes}, NULL));")]
        }
        Given::Null { bytes } => {
            vec![format!("CHECK(clSetKernelArg(kernel, {index}, {bytes}, NULL));")]
        }
        Given::Sampler { normalized, addressing, filter } => {
            let [addressing, filter] =
                [addressing, filter].map(|name| number(name).unwrap_or_default());
            vec![
                format!(
                    "cl_sampler sampler_{index} = clCreateSampler(context, {}, {addressing:#x}, {filter:#x}, &code);",
                    u8::from(*normalized)
                ),
                "CHECK(code);".to_owned(),
                format!(
                    "CHECK(clSetKernelArg(kernel, {index}, sizeof sampler_{index}, &sampler_{index}));"
                ),
            ]
        }
        Given::Memory { memory, flags: own, .. } => match part_of(launch, &argument.given) {
            Some((memory, offset, size)) => {
                let bits = if own.is_empty() { 0 } else { flags(own) & ACCESS_FLAGS };
                vec![
                    format!("cl_buffer_region region_{index} = {{{offset}, {size}}};"),
                    format!(
                        "cl_mem part_{index} = clCreateSubBuffer(memories[{}].object, {bits}, CL_BUFFER_CREATE_TYPE_REGION, &region_{index}, &code);",
                        place(memory.id)
                    ),
                    "CHECK(code);".to_owned(),
                    format!(
                        "CHECK(clSetKernelArg(kernel, {index}, sizeof part_{index}, &part_{index}));"
                    ),
                ]
            }
            None => vec![format!(
                "CHECK(clSetKernelArg(kernel, {index}, sizeof(cl_mem), &memories[{}].object));",
                place(*memory)
            )],
        },
        Given::Svm { memory, offset } => vec![format!(
            "CHECK(clSetKernelArgSVMPointer(kernel, {index}, (char *)memories[{}].svm + {offset}));",
            place(*memory)
        )],
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
