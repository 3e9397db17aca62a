//! `clscope kernel`: a captured launch gives alone, on each runtime, what it gave in its
//! application; what differs is told to the element; other versions are compared in results and
//! time; damaged and hostile captures are refused.

mod captures;
mod endings;
mod exports;
mod joules;
mod order;
mod sizes;
mod standing;

use captures::{SAXPY, gcd, saxpy, shift, sums, turn, turns_of_gcd, view, view_of_part, walk};
use clscope_tests::captured::Captured;
use clscope_tests::{Runtime, Stage};
use serde_json::{Value, json};

/// Runs a capture without joules; the document and the exit code.
fn document(stage: &Stage, capture: &str, more: &[&str]) -> (Value, i32) {
    let words = ["kernel", capture, "--format", "json", "--sensors", "off", "--repeat", "16"];
    let ran = stage.clscope(words.iter().chain(more)).run();
    assert_eq!(clscope_testing::schema::text_breaches(&ran.stdout), Vec::<String>::new());
    let read = serde_json::from_str(&ran.stdout);
    let document = read.unwrap_or_else(|e| panic!("{e}: {}\n{}", ran.stdout, ran.stderr));
    (document, ran.status.code().unwrap())
}

/// As captured, bit for bit.
#[track_caller]
fn same(stage: &Stage, capture: &str, memories: usize) -> Value {
    let (found, code) = document(stage, capture, &[]);
    let results = &found["base"]["results"];
    assert_eq!(results["outcome"], "same", "{:?}: {results:#}", stage.runtime);
    assert_eq!(results["memories"].as_array().unwrap().len(), memories);
    assert_eq!((code, &results["is_repeatable"]), (0, &true.into()));
    found
}

/// The command's words about what it refused.
#[track_caller]
fn refused(stage: &Stage, words: &[&str], parts: &[&str]) {
    let ran = stage.clscope(["kernel", "--sensors", "off"].iter().chain(words)).run();
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
        let text = stage.clscope(["kernel", &capture, "--sensors", "off"]).run().success().stdout;
        for part in [
            "launch 1 of saxpy",
            "the same as captured, bit for bit: 1 memory",
            "1024 work-items",
            "groups of 64",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // No runtime of the tests has a sensor or a counter that belongs to its device alone.
        let words = ["kernel", &capture, "--counters", "--repeat", "6"];
        let text = stage.clscope(words).run().success().stdout;
        assert!(text.contains("note: no performance counters"), "{text}");
        assert!(text.contains("  energy   "), "{text}");
        // On the device itself only that is noted which a capture made by hand lacks.
        let mut here = saxpy(&stage.join("here.1"));
        here.launch["platform"]["name"] = found["device"]["platform"].clone();
        here.launch["device"]["name"] = found["device"]["name"].clone();
        here.launch["device"]["driver"] = found["device"]["driver"].clone();
        here.launch["duration_ns"] = 1_000_000.into();
        let found = same(&stage, &here.write(), 1);
        assert_eq!(found["is_same_device"], true);
        let notes = found["notes"].as_array().unwrap();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].as_str().unwrap().contains("the capture is in no trace"), "{notes:?}");
        assert_eq!(found["capture"]["duration_ns"], 1_000_000);
    }
}

/// Parts of one buffer that overlap: what one argument writes the other reads.
#[test]
fn parts_of_a_buffer_stay_aliases() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        same(&stage, &shift(&stage.join("shift.1")).write(), 1);
    }
}

/// An image is read through a sampler whose addressing shows, another is written, a third is an
/// array.
#[test]
fn images_and_samplers_give_what_was_captured() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        same(&stage, &turn(&stage.join("turn.1")).write(), 2);
        same(&stage, &view(&stage.join("view.1")).write(), 1);
        // PoCL makes no image of a part of a buffer.
        if stage.runtime != Runtime::Pocl {
            same(&stage, &view_of_part(&stage.join("view.2")).write(), 1);
        }
    }
}

/// Local memory, a structure by value, a null pointer, an offset, two dimensions, and build
/// options.
#[test]
fn local_memory_structures_and_offsets_give_what_was_captured() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let capture = sums(&stage.join("sums.1")).write();
        let found = same(&stage, &capture, 1);
        // It writes what it does not read: the same from its own results.
        assert_eq!(found["base"]["offset"], json!([8, 1]));
        // Options that change the result, and groups that do.
        let (found, code) = document(&stage, &capture, &["--options", "-DGROW=11"]);
        let changed = &found["changed"]["version"];
        assert_eq!((code, &changed["results"]["outcome"]), (3, &"differs".into()));
        assert_eq!(changed["results"]["memories"][0]["differing"], 8);
        assert_eq!(changed["options"], "-DGROW=11");
        refused(&stage, &[&capture, "--local", "3x1"], &["no multiple of the local size 3"]);
    }
}

/// A list whose links are addresses in shared virtual memory, which lies elsewhere when it is run.
#[test]
fn shared_virtual_memory_is_followed_to_where_it_lies() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let found = same(&stage, &walk(&stage.join("walk.1")).write(), 2);
        assert!(
            found["notes"][1].as_str().unwrap().starts_with("2 words that hold addresses"),
            "{found:#}"
        );
    }
}

#[test]
fn intermediate_language_runs_where_it_is_taken() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let capture = gcd(&stage.join("gcd.1")).write();
        match runtime {
            Runtime::Pocl => {
                refused(&stage, &[&capture], &["takes no SPIR-V", "source behind the capture"])
            }
            _ => {
                assert_eq!(same(&stage, &capture, 1)["base"]["form"], "il");
                let (found, code) = document(&stage, &capture, &["--mix"]);
                assert_eq!((code, &found["base"]["results"]["outcome"]), (0, &"same".into()));
                let executed = &found["base"]["mix"]["executed"];
                assert_eq!(
                    (&executed["work_items"], &executed["language"]),
                    (&32.into(), &"spv".into())
                );
                // One remainder for each turn of the algorithm, two words read and one written.
                let classes = executed["classes"].as_array().unwrap();
                let remainders = classes.iter().find(|of| of["class"] == "int-div").unwrap();
                assert_eq!(remainders["instructions"], turns_of_gcd(), "{executed:#}");
                let global = executed["bytes"].as_array().unwrap();
                let global = global.iter().find(|of| of["space"] == "global").unwrap();
                assert_eq!((&global["read"], &global["written"]), (&256.into(), &128.into()));
            }
        }
        // Source is counted where a compiler translates it; else that is said.
        let source = saxpy(&stage.join("saxpy.1")).write();
        let (found, _) = document(&stage, &source, &["--mix"]);
        let base = &found["base"];
        match base["mix_missing"].as_str() {
            Some(missing) => {
                assert!(missing.contains("hands out no PTX") && base["mix"].is_null(), "{missing}");
            }
            None => assert_eq!(base["mix"]["executed"]["language"], "spv", "{base:#}"),
        }
        refused(&stage, &[&capture, "--from", "binary"], &["no program as binary"]);
    }
}

/// A binary is of one device and driver: what lacks elsewhere is said, and a source that is given
/// stands in its place.
#[test]
fn binaries_of_another_device_need_a_source() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let mut made = saxpy(&stage.join("saxpy.1"));
        made.launch["program"]["files"] = json!([]);
        made.launch["program"]["origin"] = "binary".into();
        let made = made.program("program.bin", "binary", b"no binary of this device");
        let capture = made.write();
        let told = [
            "does not take the captured binary (",
            "CL_INVALID_BINARY (-42)",
            "which was made for D (P, driver 1): the capture has neither source nor SPIR-V",
            "source behind the capture",
            "OPENCV_OPENCL_CACHE_ENABLE=0, PyOpenCL: PYOPENCL_NO_CACHE=1",
        ];
        refused(&stage, &[&capture], &told);
        std::fs::write(stage.join("own.cl"), SAXPY).unwrap();
        let own = ["own.cl"];
        let (found, code) = document(&stage, &capture, &own);
        let base = &found["base"];
        assert_eq!((code, &found["changed"]), (0, &Value::Null));
        assert_eq!(
            (&base["results"]["outcome"], &base["program"], &base["results"]["compared_with"]),
            (&"same".into(), &"own.cl".into(), &"capture".into())
        );
        let notes = found["notes"].to_string();
        assert!(notes.contains("own.cl stands in its place"), "{notes}");
        refused(
            &stage,
            &[&[&capture[..]], &own[..], &["--fail-on", "3%"]].concat(),
            &["--fail-on needs the captured version beside the other"],
        );
        // With a source beside it, it was the user who asked for the binary.
        let capture = made.source(SAXPY).write();
        refused(&stage, &[&capture, "--from", "binary"], &["leave out --from binary"]);
        same(&stage, &capture, 1);
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
    assert_eq!((code, &results["outcome"], &results["ulps"]), (0, &"within".into(), &3.into()));
    let memory = &results["memories"][0];
    assert_eq!((&memory["differing"], &memory["first"][0]["element"]), (&1.into(), &10.into()));
    assert_eq!(memory["first"][0]["found"], "50.0");
    let (found, code) = document(&stage, &capture, &["--tolerance", "0"]);
    assert_eq!((code, &found["base"]["results"]["outcome"]), (3, &"differs".into()));
    // As integers there are no ULPs, and no tolerance.
    let (found, code) = document(&stage, &capture, &["--as", "1=uint"]);
    let results = &found["base"]["results"];
    assert_eq!((code, &results["ulps"], &results["outcome"]), (3, &Value::Null, &"differs".into()));
    let text = stage.clscope(["kernel", &capture, "--sensors", "off"]).run().success().stdout;
    for part in [
        "within 3 ULPs of captured",
        "memory 1 (argument 1): 1 of 1024 floats differ",
        "float 10: expected 50.00001, found 50.0",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    refused(
        &stage,
        &[&capture, "--as", "2=float"],
        &["argument 2 is no memory of saxpy; its memories are arguments 0, 1"],
    );
}

/// Without the compiler's word the captured source tells what arguments point to, as far as it
/// shows it; else bytes are compared, which is said.
#[test]
fn types_of_arguments_are_those_of_the_captured_source() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let off = |name: &str, from: &str, to: &str| {
            let mut made = saxpy(&stage.join(name));
            made.launch["program"]["files"] = json!([]);
            let mut made = made.source(&SAXPY.replace(from, to));
            // One ULP off.
            let mut after = std::fs::read(made.folder.join("memory-1.after")).unwrap();
            after[40] += 1;
            std::fs::write(made.folder.join("memory-1.after"), &after).unwrap();
            made.launch["memories"][1]["hash_after"] = clscope_tests::captured::hash(&after).into();
            for argument in made.launch["arguments"].as_array_mut().unwrap() {
                argument.as_object_mut().unwrap().remove("type");
            }
            document(&stage, &made.write(), &[]).0
        };
        let typed = off("typed.1", "kernel void", "typedef float real; kernel void");
        let results = &typed["base"]["results"];
        assert_eq!((&results["outcome"], &results["ulps"]), (&"within".into(), &1.into()));
        let named = "typedef float real; kernel void saxpy(global const real*x, global real * restrict y, real a)\n{";
        let own = "kernel void saxpy(global const float *x, global float *y, float a)\n{";
        let typed = off("named.1", own, named);
        let results = &typed["base"]["results"];
        // Some runtimes tell the types of what they built from source unasked, as it spells them.
        assert_eq!(results["memories"][0]["element"], "float", "{runtime:?}");
        let hidden =
            "#define real float\nkernel void saxpy(global const real*x, global real *y, real a)\n{";
        let bytes = off("macro.1", own, hidden);
        let results = &bytes["base"]["results"];
        if results["memories"][0]["element"] == "byte" {
            assert_eq!((&results["outcome"], &results["ulps"]), (&"differs".into(), &Value::Null));
            let notes = bytes["notes"].to_string();
            assert!(notes.contains("argument 1 points to is not known"), "{notes}");
        } else {
            // A runtime that keeps types has seen what the macro stands for.
            assert_eq!(results["memories"][0]["element"], "float", "{runtime:?}");
        }
    }
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
        let (found, code) = document(&stage, &capture, &[&right, "--local", "32"]);
        let changed = &found["changed"];
        let results = &changed["version"]["results"];
        assert_eq!(
            (code, &results["outcome"], &results["compared_with"]),
            (0, &"same".into(), &"base".into())
        );
        assert_eq!(
            (&changed["version"]["program"], &changed["version"]["local"]),
            (&right.into(), &json!([32]))
        );
        assert!(changed["time_change"]["value"].is_number(), "{changed:#}");
        let wrong = write("wrong.cl", &SAXPY.replace("y[i] = a", "if (i % 2) y[i] = a"));
        let (found, code) = document(&stage, &capture, &[&wrong]);
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
        let (found, code) = document(&stage, &capture, &[&slow, "--fail-on", "50%"]);
        assert_eq!((code, &found["changed"]["time_outcome"]), (3, &"more".into()), "{found:#}");
        assert_eq!(found["changed"]["version"]["results"]["outcome"], "same");
        let (_, code) = document(&stage, &capture, &[&slow]);
        assert_eq!(code, 0);
        // What does not build: the compiler's words, without what moves the cursor.
        let broken =
            write("broken.cl", "kernel void saxpy(global float *x) { undeclared\u{1b}[2J(x); }");
        refused(&stage, &[&capture, &broken], &["building broken.cl failed", "undeclared"]);
        let other = write("other.cl", "kernel void saxpy(global float *x) { x[0] = 1; }");
        refused(&stage, &[&capture, &other], &["takes 1 arguments, 3 were captured"]);
        refused(&stage, &[&capture, "none.cl"], &["cannot read the source none.cl"]);
        refused(&stage, &[&capture, "--local", "48"], &["no multiple of the local size 48"]);
        refused(&stage, &[&capture, "--local", "16x2"], &["--local has 2 sizes"]);
        refused(&stage, &[&capture, "--fail-on", "3%"], &["--fail-on is about another version"]);
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
    check(
        &|m| m.launch["global"] = json!([u64::MAX / 2]),
        &["cannot run", "work-items take", "--global"],
    );
    check(
        &|m| {
            m.launch["global"] = json!([u64::MAX]);
            m.launch["offset"] = json!([64]);
        },
        &["more than the device counts", "--global"],
    );
    check(&|m| m.launch["global"] = json!([1, 1]), &["global has 2 sizes for 1 dimensions"]);
    check(&|m| m.launch["local"] = json!([0]), &["a local size is 0"]);
    check(&|m| m.launch["dimensions"] = 4.into(), &["it has 4 dimensions"]);
    // Words.
    check(&|m| m.launch["schema"] = 4.into(), &["has version 4 of the format"]);
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
        &["no program as source", "source behind the capture"],
    );
    check(&|m| memory(m, "kind", "pipe".into()), &["is a pipe"]);
    check(&|m| memory(m, "kind", "image".into()), &["has no format"]);
    // Images of several levels or samples.
    for field in ["mips", "samples"] {
        let mut made = turn(&stage.join(&format!("turn.{field}")));
        made.launch["memories"][0]["image"][field] = 2.into();
        refused(&stage, &[&made.write()], &["mip levels or several samples"]);
    }
    std::fs::write(stage.join("saxpy.1/launch.json"), "{").unwrap();
    refused(&stage, &["saxpy.1"], &["cannot be understood"]);
    // The system's word stands in the sentence, and not once more behind it.
    let ran = stage.clscope(["kernel", "saxpy.1"]).run();
    assert_eq!(ran.stderr.matches("EOF while parsing").count(), 1, "{}", ran.stderr);
    std::fs::remove_file(stage.join("saxpy.2/launch.json")).unwrap();
    std::os::unix::fs::symlink(&secret, stage.join("saxpy.2/launch.json")).unwrap();
    let ran = stage.clscope(["kernel", "saxpy.2"]).run();
    assert_eq!((ran.status.code(), ran.stderr.lines().count()), (Some(1), 1), "{}", ran.stderr);
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
