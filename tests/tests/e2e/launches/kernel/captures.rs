//! Captures whose every byte is known, one for each kind of argument.

use clscope_tests::artifacts;
use clscope_tests::captured::{Captured, floats, words};
use serde_json::json;
use std::path::Path;

/// y = a * x + y.
pub const SAXPY: &str = "kernel void saxpy(global const float *x, global float *y, float a)
{ size_t i = get_global_id(0); y[i] = a * x[i] + y[i]; }";

/// Values whose products and sums are exact, fused or not.
pub fn saxpy(folder: &Path) -> Captured {
    let x: Vec<f32> = (0..1024u16).map(f32::from).collect();
    let y: Vec<f32> = x.iter().map(|v| 2.0 * v).collect();
    let after: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 3.0 * x + y).collect();
    let mut made = Captured::new(folder, "saxpy", &[1024]).source(SAXPY);
    made.launch["local"] = json!([64]);
    made.buffer("float*", &floats(&x), None);
    made.buffer("float*", &floats(&y), Some(&floats(&after)));
    made.value(&3.0f32.to_le_bytes());
    made
}

/// Parts of one buffer that overlap: what one argument writes the other reads.
pub fn shift(folder: &Path) -> Captured {
    let source = "kernel void shift(global uint *to, global const uint *from)
        { if (get_global_id(0) == 0) for (uint i = 0; i < 96; i++) to[i] = from[i] + 1; }";
    let before: Vec<u32> = (0..160).collect();
    let mut after = before.clone();
    (0..96).for_each(|i| after[32 + i] = after[i] + 1);
    let mut made = Captured::new(folder, "shift", &[4]).source(source);
    let id = made.memory("buffer", "CL_MEM_READ_WRITE", &words(&before), Some(&words(&after)));
    for (offset, flag) in [(128, "CL_MEM_READ_WRITE"), (0, "CL_MEM_READ_ONLY")] {
        made.argument(
            "memory",
            json!({"memory": id, "offset": offset, "size": 512, "flags": [flag], "type": "uint*"}),
        );
    }
    made
}

/// An image is read through a sampler whose addressing shows, another is written, a third is an
/// array.
pub fn turn(folder: &Path) -> Captured {
    let source = "kernel void turn(read_only image2d_t from, write_only image2d_t to, read_only image2d_array_t more, sampler_t s, global float *out)
    { int x = get_global_id(0), y = get_global_id(1);
      write_imageui(to, (int2)(x, y), read_imageui(from, s, (int2)(x + 1, y)) + (uint4)(1, 0, 0, 0));
      out[y * 5 + x] = read_imagef(more, s, (int4)(x, y, 1, 0)).x; }";
    let (width, height) = (5u64, 3u64);
    let from: Vec<u8> = (0..width * height * 4).map(|n| n as u8).collect();
    let mut to = Vec::new();
    for (y, x) in (0..3usize).flat_map(|y| (0..5usize).map(move |x| (y, x))) {
        // Outside of the image the border is 0.
        let texel =
            (x + 1 < 5).then(|| from[(y * 5 + x + 1) * 4..][..4].to_vec()).unwrap_or(vec![0; 4]);
        to.extend([texel[0] + 1, texel[1], texel[2], texel[3]]);
    }
    let layers: Vec<f32> = (0..30u8).map(|n| f32::from(n) / 4.0).collect();
    let mut made = Captured::new(folder, "turn", &[width, height]).source(source);
    let mut image =
        |flag: &str, before: &[u8], after: Option<&[u8]>, layers: u64, format: [&str; 2]| {
            let id = made.memory("image", flag, before, after);
            let kind =
                if layers > 0 { "CL_MEM_OBJECT_IMAGE2D_ARRAY" } else { "CL_MEM_OBJECT_IMAGE2D" };
            made.launch["memories"][id as usize]["image"] = json!({
                "type": kind, "width": width, "height": height, "depth": 1, "array": layers,
                "row_pitch": 0, "slice_pitch": 0, "mips": 0, "samples": 0,
                "order": format[0], "data": format[1], "element": 4,
            });
            made.argument(
                "memory",
                json!({"memory": id, "offset": 0, "size": before.len(), "flags": [flag]}),
            );
        };
    image("CL_MEM_READ_ONLY", &from, None, 0, ["CL_RGBA", "CL_UNSIGNED_INT8"]);
    image("CL_MEM_WRITE_ONLY", &[9; 60], Some(&to), 0, ["CL_RGBA", "CL_UNSIGNED_INT8"]);
    image("CL_MEM_READ_ONLY", &floats(&layers), None, 2, ["CL_R", "CL_FLOAT"]);
    made.argument("sampler", json!({"normalized": false, "addressing": "CL_ADDRESS_CLAMP", "filter": "CL_FILTER_NEAREST"}));
    made.buffer("float*", &[0; 60], Some(&floats(&layers[15..])));
    made
}

/// Local memory, a structure by value, a null pointer, an offset, two dimensions, and build
/// options.
pub fn sums(folder: &Path) -> Captured {
    let source = "typedef struct { uint add; uint times; } two;
    kernel void sums(global uint *out, local uint *sum, two by, global const uint *none)
    { uint x = get_local_id(0);
      sum[x] = (get_global_id(0) + GROW * get_global_id(1)) * by.times + by.add + (none ? 1000 : 0);
      barrier(CLK_LOCAL_MEM_FENCE);
      if (x == 0) { uint all = 0; for (uint i = 0; i < get_local_size(0); i++) all += sum[i];
        out[get_group_id(0) + get_num_groups(0) * (get_global_id(1) - get_global_offset(1))] = all; } }";
    let group =
        |g: u32, y: u32| (0..4).map(|i| (8 + 4 * g + i + 10 * (y + 1)) * 3 + 5).sum::<u32>();
    let after: Vec<u32> = (0..2).flat_map(|y| (0..4).map(move |g| group(g, y))).collect();
    let mut made = Captured::new(folder, "sums", &[16, 2]).source(source);
    made.launch["local"] = json!([4, 1]);
    made.launch["offset"] = json!([8, 1]);
    made.launch["program"]["options"] = "-DGROW=10".into();
    made.buffer("uint*", &[0; 32], Some(&words(&after)));
    made.argument("local", json!({"bytes": 16}));
    made.value(&words(&[5, 3]));
    made.argument("null", json!({"bytes": 8}));
    made
}

/// A list whose links are addresses in shared virtual memory.
pub fn walk(folder: &Path) -> Captured {
    let source = "typedef struct node { ulong next; uint value; uint pad; } node;
    kernel void walk(global node *first, global uint *out)
    { uint sum = 0; global node *n = first;
      while (n) { sum += n->value; n->value += 1; n = (global node *)(uintptr_t)n->next; }
      out[0] = sum; }";
    let base = 0x7f00_1234_0000u64;
    let list = |add: u32| -> Vec<u8> {
        let node = |next: u64, value: u32| {
            let mut bytes = next.to_le_bytes().to_vec();
            bytes.extend(words(&[value + add, 0]));
            bytes
        };
        [node(base + 32, 1), node(0, 100), node(base + 16, 10)].concat()
    };
    let mut made = Captured::new(folder, "walk", &[1]).source(source);
    let id = made.memory("svm", "CL_MEM_READ_WRITE", &list(0), Some(&list(1)));
    made.launch["memories"][0]["address"] = base.into();
    made.argument("svm", json!({"memory": id, "offset": 0}));
    made.buffer("uint*", &[0; 4], Some(&words(&[111])));
    made
}

/// What the greatest common divisors of `gcd` are of.
fn pairs() -> Vec<u32> {
    (0..64).map(|n| 1 + n * n % 97).collect()
}

/// Turns of Euclid's algorithm for all of them.
pub fn turns_of_gcd() -> u64 {
    let turns = |pair: &[u32]| {
        let (mut a, mut b, mut n) = (pair[0], pair[1], 0);
        while b != 0 {
            (a, b) = (b, a % b);
            n += 1;
        }
        n
    };
    pairs().chunks(2).map(turns).sum()
}

/// A program in SPIR-V.
pub fn gcd(folder: &Path) -> Captured {
    let spirv = std::fs::read(artifacts::root().join("tests/fixtures/mix/kernels.spv")).unwrap();
    let divisor = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let pairs = pairs();
    let after: Vec<u32> = pairs.chunks(2).map(|p| divisor(p[0], p[1])).collect();
    let mut made = Captured::new(folder, "gcd", &[32]).program("program.spv", "spirv", &spirv);
    made.launch["program"]["origin"] = "il".into();
    made.buffer("uint*", &words(&pairs), None);
    made.buffer("uint*", &[0; 128], Some(&words(&after)));
    made
}
/// An image that is a view of a buffer, which is no argument itself.
pub fn view(folder: &Path) -> Captured {
    view_from(folder, 0)
}

/// The same of the buffer's end.
pub fn view_of_part(folder: &Path) -> Captured {
    view_from(folder, 128)
}

fn view_from(folder: &Path, offset: u8) -> Captured {
    let source = "kernel void view(read_only image1d_buffer_t from, global uint *out)
    { int i = get_global_id(0); out[i] = read_imageui(from, i).y; }";
    let all: Vec<u8> = (0..=255).collect();
    let from = usize::from(offset);
    let after: Vec<u32> = (0..16).map(|i| u32::from(offset) + 4 * i + 1).collect();
    let mut made = Captured::new(folder, "view", &[16]).source(source);
    let whole = made.memory("buffer", "CL_MEM_READ_ONLY", &all, None);
    let id = made.memory("image", "CL_MEM_READ_ONLY", &all[from..from + 128], None);
    made.launch["memories"][id as usize]["image"] = json!({
        "type": "CL_MEM_OBJECT_IMAGE1D_BUFFER", "width": 32, "height": 0, "depth": 0, "array": 0,
        "row_pitch": 0, "slice_pitch": 0, "mips": 0, "samples": 0,
        "order": "CL_RGBA", "data": "CL_UNSIGNED_INT8", "element": 4,
        "of_memory": whole, "of_offset": offset,
    });
    let flags = json!(["CL_MEM_READ_ONLY"]);
    made.argument("memory", json!({"memory": id, "offset": 0, "size": 128, "flags": flags}));
    made.buffer("uint*", &[0; 64], Some(&words(&after)));
    made
}
