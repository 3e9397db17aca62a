//! `clscope kernel`: a captured launch gives alone, on each runtime, what it gave in its application;
//! what differs is told to the element; other versions are compared in results and time; damaged and
//! hostile captures are refused.

use clscope_tests::captured::{Captured, floats, words};
use clscope_tests::{Runtime, Stage, artifacts};
use serde_json::{Value, json};
use std::path::Path;

/// y = a * x + y.
const SAXPY: &str = "kernel void saxpy(global const float *x, global float *y, float a)
{ size_t i = get_global_id(0); y[i] = a * x[i] + y[i]; }";

/// Values whose products and sums are exact, fused or not.
fn saxpy(folder: &Path) -> Captured {
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

/// Runs a capture without joules; the document and the exit code.
fn document(stage: &Stage, capture: &str, more: &[&str]) -> (Value, i32) {
    let words = ["kernel", capture, "--format", "json", "--no-energy", "--repeat", "8"];
    let ran = stage.clscope(words.iter().chain(more)).run();
    assert_eq!(clscope_tests::schema::breaches(&ran.stdout), Vec::<String>::new());
    let read = serde_json::from_str(&ran.stdout);
    let document = read.unwrap_or_else(|e| panic!("{e}: {}\n{}", ran.stdout, ran.stderr));
    (document, ran.status.code().unwrap())
}

/// As captured, bit for bit.
#[track_caller]
fn same(stage: &Stage, capture: &str, memories: usize) -> Value {
    let (found, code) = document(stage, capture, &[]);
    let results = &found["base"]["results"];
    assert_eq!(results["verdict"], "same", "{:?}: {results:#}", stage.runtime);
    assert_eq!(results["memories"].as_array().unwrap().len(), memories);
    assert_eq!((code, &results["is_repeatable"]), (0, &true.into()));
    found
}

/// The command's words about what it refused.
#[track_caller]
fn refused(stage: &Stage, words: &[&str], parts: &[&str]) {
    let ran = stage.clscope(["kernel", "--no-energy"].iter().chain(words)).run();
    assert_eq!(ran.status.code(), Some(1), "{words:?}: {}{}", ran.stdout, ran.stderr);
    for part in parts {
        assert!(ran.stderr.contains(part), "{words:?} lacks {part}: {}", ran.stderr);
    }
    assert!(ran.stderr.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", ran.stderr);
}

#[test]
fn buffers_and_values_give_what_was_captured() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let capture = saxpy(&stage.join("saxpy.1")).write();
        let found = same(&stage, &capture, 1);
        assert_eq!(found["base"]["local"], json!([64]));
        assert_eq!(found["base"]["results"]["memories"][0]["element"], "float");
        // It reads what it writes: each launch begins with the captured contents.
        assert_eq!(found["base"]["time"]["restored"], true);
        assert!(found["base"]["time"]["median_ns"]["value"].as_f64().unwrap() > 0.0);
        assert_eq!((&found["is_same_device"], &found["changed"]), (&false.into(), &Value::Null));
        assert!(found["notes"][0].as_str().unwrap().starts_with("captured on D (P, driver 1)"));
        let text = stage.clscope(["kernel", &capture, "--no-energy"]).run().success().stdout;
        for part in [
            "launch 1 of saxpy",
            "the same as captured, bit for bit: 1 memory",
            "1024 work-items",
            "groups of 64",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // On the device itself nothing is noted.
        let mut here = saxpy(&stage.join("here.1"));
        here.launch["platform"]["name"] = found["device"]["platform"].clone();
        here.launch["device"]["name"] = found["device"]["name"].clone();
        here.launch["device"]["driver"] = found["device"]["driver"].clone();
        here.launch["duration_ns"] = 1_000_000.into();
        let found = same(&stage, &here.write(), 1);
        assert_eq!((&found["is_same_device"], &found["notes"]), (&true.into(), &json!([])));
        assert_eq!(found["capture"]["duration_ns"], 1_000_000);
    }
}

/// Parts of one buffer that overlap: what one argument writes the other reads.
#[test]
fn parts_of_a_buffer_stay_aliases() {
    let source = "kernel void shift(global uint *to, global const uint *from)
        { if (get_global_id(0) == 0) for (uint i = 0; i < 96; i++) to[i] = from[i] + 1; }";
    let before: Vec<u32> = (0..160).collect();
    let mut after = before.clone();
    (0..96).for_each(|i| after[32 + i] = after[i] + 1);
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let mut made = Captured::new(&stage.join("shift.1"), "shift", &[4]).source(source);
        let id = made.memory("buffer", "CL_MEM_READ_WRITE", &words(&before), Some(&words(&after)));
        for (offset, flag) in [(128, "CL_MEM_READ_WRITE"), (0, "CL_MEM_READ_ONLY")] {
            made.argument("memory", json!({"memory": id, "offset": offset, "size": 512, "flags": [flag], "type": "uint*"}));
        }
        same(&stage, &made.write(), 1);
    }
}

/// An image is read through a sampler whose addressing shows, another is written, a third is an array.
#[test]
fn images_and_samplers_give_what_was_captured() {
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
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let mut made =
            Captured::new(&stage.join("turn.1"), "turn", &[width, height]).source(source);
        let mut image = |flag: &str,
                         before: &[u8],
                         after: Option<&[u8]>,
                         layers: u64,
                         format: [&str; 2]| {
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
        same(&stage, &made.write(), 2);
    }
}

/// Local memory, a structure by value, a null pointer, an offset, two dimensions, and build options.
#[test]
fn local_memory_structures_and_offsets_give_what_was_captured() {
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
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let mut made = Captured::new(&stage.join("sums.1"), "sums", &[16, 2]).source(source);
        made.launch["local"] = json!([4, 1]);
        made.launch["offset"] = json!([8, 1]);
        made.launch["program"]["options"] = "-DGROW=10".into();
        made.buffer("uint*", &[0; 32], Some(&words(&after)));
        made.argument("local", json!({"bytes": 16}));
        made.value(&words(&[5, 3]));
        made.argument("null", json!({"bytes": 8}));
        let capture = made.write();
        let found = same(&stage, &capture, 1);
        // It writes what it does not read: the same from its own results.
        assert_eq!(found["base"]["offset"], json!([8, 1]));
        // Options that change the result, and groups that do.
        let (found, code) = document(&stage, &capture, &["--options", "-DGROW=11"]);
        let changed = &found["changed"]["version"];
        assert_eq!((code, &changed["results"]["verdict"]), (3, &"differs".into()));
        assert_eq!(changed["results"]["memories"][0]["differing"], 8);
        assert_eq!(changed["options"], "-DGROW=11");
        refused(&stage, &[&capture, "--local", "3x1"], &["no multiple of the local size 3"]);
    }
}

/// A list whose links are addresses in shared virtual memory, which lies elsewhere when it is run.
#[test]
fn shared_virtual_memory_is_followed_to_where_it_lies() {
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
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let mut made = Captured::new(&stage.join("walk.1"), "walk", &[1]).source(source);
        let id = made.memory("svm", "CL_MEM_READ_WRITE", &list(0), Some(&list(1)));
        made.launch["memories"][0]["address"] = base.into();
        made.argument("svm", json!({"memory": id, "offset": 0}));
        made.buffer("uint*", &[0; 4], Some(&words(&[111])));
        let found = same(&stage, &made.write(), 2);
        assert!(
            found["notes"][1].as_str().unwrap().starts_with("2 words that hold addresses"),
            "{found:#}"
        );
    }
}

#[test]
fn intermediate_language_runs_where_it_is_taken() {
    let spirv = std::fs::read(artifacts::root().join("tests/fixtures/mix/kernels.spv")).unwrap();
    let gcd = |mut a: u32, mut b: u32| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let pairs: Vec<u32> = (0..64).map(|n| 1 + n * n % 97).collect();
    let after: Vec<u32> = pairs.chunks(2).map(|p| gcd(p[0], p[1])).collect();
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let mut made = Captured::new(&stage.join("gcd.1"), "gcd", &[32]).program(
            "program.spv",
            "spirv",
            &spirv,
        );
        made.launch["program"]["origin"] = "il".into();
        made.buffer("uint*", &words(&pairs), None);
        made.buffer("uint*", &[0; 128], Some(&words(&after)));
        let capture = made.write();
        match runtime {
            Runtime::Pocl => refused(&stage, &[&capture], &["takes no SPIR-V", "--source FILE"]),
            _ => assert_eq!(same(&stage, &capture, 1)["base"]["form"], "il"),
        }
        refused(&stage, &[&capture, "--from", "binary"], &["no program as binary"]);
    }
}

#[test]
fn differences_are_told_to_the_element_and_in_ulps() {
    let stage = Stage::new(Runtime::Pocl);
    let mut made = saxpy(&stage.join("off.1"));
    let read = |name: &str| std::fs::read(made.folder.join(name)).unwrap();
    let mut after = read("memory-1.after");
    after[40] += 3;
    std::fs::write(made.folder.join("memory-1.after"), &after).unwrap();
    made.launch["memories"][1]["hash_after"] = clscope_tests::captured::hash(&after).into();
    let capture = made.write();
    let (found, code) = document(&stage, &capture, &[]);
    let results = &found["base"]["results"];
    assert_eq!((code, &results["verdict"], &results["ulps"]), (0, &"within".into(), &3.into()));
    let memory = &results["memories"][0];
    assert_eq!((&memory["differing"], &memory["first"][0]["element"]), (&1.into(), &10.into()));
    assert_eq!(memory["first"][0]["found"], "50.0");
    let (found, code) = document(&stage, &capture, &["--tolerance", "0"]);
    assert_eq!((code, &found["base"]["results"]["verdict"]), (3, &"differs".into()));
    // As integers there are no ULPs, and no tolerance.
    let (found, code) = document(&stage, &capture, &["--as", "1=uint"]);
    let results = &found["base"]["results"];
    assert_eq!((code, &results["ulps"], &results["verdict"]), (3, &Value::Null, &"differs".into()));
    let text = stage.clscope(["kernel", &capture, "--no-energy"]).run().success().stdout;
    for part in [
        "within 3 ULPs of captured",
        "memory 1 (argument 1): 1 of 1024 floats differ",
        "float 10: expected 50.00001, found 50.0",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    refused(&stage, &[&capture, "--as", "2=float"], &["argument 2 is no memory", "0, 1"]);
}

#[test]
fn another_version_is_compared_with_the_captured_one() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let capture = saxpy(&stage.join("saxpy.1")).write();
        let write = |name: &str, text: &str| {
            std::fs::write(stage.join(name), text).unwrap();
            name.to_owned()
        };
        let right = write("right.cl", &SAXPY.replace("a * x[i] + y[i]", "y[i] + x[i] * a"));
        let (found, code) = document(&stage, &capture, &["--source", &right, "--local", "32"]);
        let changed = &found["changed"];
        let results = &changed["version"]["results"];
        assert_eq!(
            (code, &results["verdict"], &results["compared_with"]),
            (0, &"same".into(), &"base".into())
        );
        assert_eq!(
            (&changed["version"]["program"], &changed["version"]["local"]),
            (&right.into(), &json!([32]))
        );
        assert!(changed["time_change"]["value"].is_number(), "{changed:#}");
        let wrong = write("wrong.cl", &SAXPY.replace("y[i] = a", "if (i % 2) y[i] = a"));
        let (found, code) = document(&stage, &capture, &["--source", &wrong]);
        let memory = &found["changed"]["version"]["results"]["memories"][0];
        // Element 0 is 0 in both.
        assert_eq!(
            (code, &memory["differing"], &memory["first"][0]["element"]),
            (3, &511.into(), &2.into())
        );
        // Work of its own: slower beyond any noise, whatever the machine.
        let slow = "kernel void saxpy(global const float *x, global float *y, float a)
            { size_t i = get_global_id(0); volatile uint n = 0; while (n < 20000) n++; y[i] = a * x[i] + y[i]; }";
        let slow = write("slow.cl", slow);
        let (found, code) = document(&stage, &capture, &["--source", &slow, "--fail-over", "50%"]);
        assert_eq!((code, &found["changed"]["time_verdict"]), (3, &"more".into()), "{found:#}");
        assert_eq!(found["changed"]["version"]["results"]["verdict"], "same");
        let (_, code) = document(&stage, &capture, &["--source", &slow]);
        assert_eq!(code, 0);
        // What does not build: the compiler's words, without what moves the cursor.
        let broken =
            write("broken.cl", "kernel void saxpy(global float *x) { undeclared\u{1b}[2J(x); }");
        refused(
            &stage,
            &[&capture, "--source", &broken],
            &["building broken.cl failed", "undeclared"],
        );
        let other = write("other.cl", "kernel void saxpy(global float *x) { x[0] = 1; }");
        refused(&stage, &[&capture, "--source", &other], &["takes 1 arguments, 3 were captured"]);
        refused(&stage, &[&capture, "--source", "none.cl"], &["cannot read the source none.cl"]);
        refused(&stage, &[&capture, "--local", "48"], &["no multiple of the local size 48"]);
        refused(&stage, &[&capture, "--local", "16x2"], &["--local has 2 sizes"]);
        refused(
            &stage,
            &[&capture, "--fail-over", "3%"],
            &["--fail-over is about another version"],
        );
    }
}

#[test]
fn a_trace_with_one_capture_is_enough_and_several_are_listed() {
    let stage = Stage::new(Runtime::Pocl);
    let captures = stage.join("run.clscope/captures");
    saxpy(&captures.join("saxpy.1")).write();
    saxpy(&captures.join("saxpy.2.part")).write();
    same(&stage, "run", 1);
    saxpy(&captures.join("saxpy.2")).write();
    refused(&stage, &["run.clscope"], &["has 2 captures", "captures/saxpy.1 ", "captures/saxpy.2"]);
    refused(
        &stage,
        &["run.clscope/captures/saxpy.2.part"],
        &["is not whole", "record the application again"],
    );
    std::fs::create_dir_all(stage.join("empty.clscope/captures")).unwrap();
    refused(&stage, &["empty"], &["its folder of captures is empty", "record --capture"]);
    std::fs::create_dir(stage.join("plain")).unwrap();
    refused(&stage, &["plain"], &["neither launch.json nor captures"]);
    refused(&stage, &["nothing"], &["there is nothing of this name"]);
}

#[test]
fn damaged_and_hostile_captures_are_refused() {
    let stage = Stage::new(Runtime::Pocl);
    let secret = stage.join("secret");
    std::fs::write(&secret, [7; 4096]).unwrap();
    let mut number = 0;
    let mut check = |change: &dyn Fn(&mut Captured), parts: &[&str]| {
        number += 1;
        let mut made = saxpy(&stage.join(&format!("saxpy.{number}")));
        change(&mut made);
        refused(&stage, &[&made.write()], parts);
    };
    let memory =
        |made: &mut Captured, field: &str, value: Value| made.launch["memories"][1][field] = value;
    // Files.
    check(
        &|m| std::fs::write(m.folder.join("memory-1.before"), [1; 4096]).unwrap(),
        &["memory-1.before", "its hash differs"],
    );
    check(
        &|m| std::fs::write(m.folder.join("memory-1.before"), [1; 9]).unwrap(),
        &["has 9 bytes", "says 4096"],
    );
    check(
        &|m| std::fs::remove_file(m.folder.join("memory-1.after")).unwrap(),
        &["cannot read memory-1.after"],
    );
    check(&|m| memory(m, "before", "../secret".into()), &["../secret leads out of the folder"]);
    check(
        &|m| memory(m, "before", secret.display().to_string().into()),
        &["leads out of the folder"],
    );
    check(
        &|m| {
            std::fs::remove_file(m.folder.join("memory-1.before")).unwrap();
            std::os::unix::fs::symlink(&secret, m.folder.join("memory-1.before")).unwrap();
        },
        &["cannot read memory-1.before"],
    );
    check(
        &|m| {
            std::os::unix::fs::symlink(stage.path(), m.folder.join("out")).unwrap();
            memory(m, "before", "out/secret".into());
        },
        &["a part of its path is no folder"],
    );
    check(
        &|m| m.launch["program"]["files"][0]["file"] = "/etc/passwd".into(),
        &["leads out of the folder"],
    );
    // Sizes.
    check(&|m| memory(m, "bytes", u64::MAX.into()), &["bytes together"]);
    check(&|m| memory(m, "bytes", (1u64 << 40).into()), &["allocates at most", "--device"]);
    check(&|m| m.launch["arguments"][1]["offset"] = u64::MAX.into(), &["are not in memory 1"]);
    check(&|m| m.launch["global"] = json!([u64::MAX]), &["cannot run"]);
    check(&|m| m.launch["global"] = json!([1, 1]), &["global has 2 sizes for 1 dimensions"]);
    check(&|m| m.launch["local"] = json!([0]), &["a local size is 0"]);
    check(&|m| m.launch["dimensions"] = 4.into(), &["it has 4 dimensions"]);
    // Words.
    check(&|m| m.launch["schema"] = 2.into(), &["has version 2 of the format"]);
    check(
        &|m| m.launch["kernel"] = "no\u{1b}[31mthing".into(),
        &["clCreateKernel", "no\\u{1b}[31mthing"],
    );
    check(&|m| m.launch["arguments"][0]["memory"] = 9.into(), &["there is no memory 9"]);
    check(&|m| m.launch["arguments"][2]["value"] = "zz".into(), &["no 4 bytes in hexadecimal"]);
    check(
        &|m| m.launch["arguments"][0]["kind"] = "strange".into(),
        &["cannot be understood", "strange"],
    );
    check(
        &|m| m.launch["program"]["files"] = json!([]),
        &["no program as source", "--source FILE"],
    );
    check(&|m| memory(m, "kind", "pipe".into()), &["is a pipe"]);
    check(&|m| memory(m, "kind", "image".into()), &["has no format"]);
    std::fs::write(stage.join("saxpy.1/launch.json"), "{").unwrap();
    refused(&stage, &["saxpy.1"], &["cannot be understood"]);
}

/// The fake library has no images, no samplers and no shared virtual memory.
#[test]
fn what_a_device_lacks_is_said() {
    let stage = Stage::new(Runtime::FakeLoader);
    let mut made = saxpy(&stage.join("saxpy.1"));
    made.argument("sampler", json!({"normalized": false, "addressing": "CL_ADDRESS_CLAMP", "filter": "CL_FILTER_NEAREST"}));
    refused(&stage, &[&made.write()], &["has no images", "--device"]);
    refused(&stage, &["saxpy.1", "--device", "nowhere"], &["no device is called nowhere"]);
}
