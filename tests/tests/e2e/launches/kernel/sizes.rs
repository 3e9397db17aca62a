//! `clscope kernel --local fastest`: sizes keep to the limits, and those with other results are never
//! the best.

use super::captures::{saxpy, sums};
use super::{document, refused};
use clscope_tests::captured::{Captured, words};
use clscope_tests::{Runtime, Stage};
use serde_json::{Value, json};

fn rows(document: &Value) -> &Vec<Value> {
    document["tuned"]["rows"].as_array().unwrap()
}

#[test]
fn sizes_are_tried_and_compared_with_the_captured_one() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let capture = saxpy(&stage.join("saxpy.1")).write();
        let (found, code) = document(&stage, &capture, &["--local", "fastest"]);
        let rows = rows(&found);
        assert_eq!((code, &rows[0]["local"]), (0, &json!([64])));
        assert!(rows.len() > 6, "{rows:#?}");
        let mut sizes = Vec::new();
        for row in &rows[1..] {
            if row["refused"].is_null() {
                assert_eq!(row["results"], "same", "{row:#}");
                assert!(row["time"]["median_ns"]["value"].as_f64().unwrap() > 0.0, "{row:#}");
            }
            sizes.extend(row["local"][0].as_u64());
        }
        // All divisors of 1024 are powers of two; the captured one is not tried again.
        assert!(sizes.iter().all(|n| 1024 % n == 0 && *n != 64), "{sizes:?}");
        match found["tuned"]["best"].as_u64() {
            Some(best) => assert_eq!(rows[best as usize]["outcome"], "less"),
            None => assert!(rows.iter().all(|row| row["outcome"] != "less"), "{rows:#?}"),
        }
        let words = ["kernel", &capture, "--local", "fastest", "--sensors", "off", "--repeat", "8"];
        let text = stage.clscope(words).run().success().stdout;
        assert!(text.contains("Work-group sizes"), "{text}");
        assert!(
            text.contains("as captured") && text.contains("against the captured size")
                || text.contains("no size is faster"),
            "{text}"
        );
    }
}

#[test]
fn sizes_that_change_results_are_never_the_best() {
    let source =
        "kernel void size(global uint *out) { out[get_global_id(0)] = get_local_size(0); }";
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let mut made = Captured::new(&stage.join("size.1"), "size", &[96]).source(source);
        made.launch["local"] = json!([3]);
        made.buffer("uint*", &[0; 384], Some(&words(&[3; 96])));
        let (found, code) = document(&stage, &made.write(), &["--local", "fastest"]);
        assert_eq!((code, &found["tuned"]["best"]), (0, &Value::Null));
        let differ = rows(&found)[1..].iter().filter(|r| r["refused"].is_null());
        assert!(differ.clone().count() > 5);
        assert!(differ.clone().all(|row| row["results"] == "differs"), "{found:#}");
    }
}

#[test]
fn local_memory_and_required_sizes_are_kept_to() {
    let stage = Stage::new(Runtime::Pocl);
    let capture = sums(&stage.join("sums.1")).write();
    let (found, _) = document(&stage, &capture, &["--local", "fastest"]);
    for row in rows(&found).iter().filter(|row| row["local"].is_array()) {
        let items: u64 =
            row["local"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product();
        assert!(items <= 4, "{row:#}");
    }
    assert!(found["tuned"]["notes"][0].as_str().unwrap().contains("more than 4 work-items"));
    assert!(found["tuned"]["notes"][1].as_str().unwrap().contains("fewer than 4 work-items"));
    let source = "__attribute__((reqd_work_group_size(8, 1, 1)))
    kernel void one(global uint *out) { out[get_global_id(0)] = 1; }";
    let mut required = Captured::new(&stage.join("one.1"), "one", &[64]).source(source);
    required.launch["local"] = json!([8]);
    required.buffer("uint*", &[0; 256], Some(&words(&[1; 64])));
    refused(&stage, &[&required.write(), "--local", "fastest"], &["it requires groups of 8x1x1"]);
}

/// Other sizes make another version: what fewer work-items leave undone is a difference, and groups
/// of the runtime's choice give the same.
#[test]
fn other_sizes_are_judged_against_the_captured_ones() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let capture = saxpy(&stage.join("saxpy.1")).write();
        let (found, code) = document(&stage, &capture, &["--global", "512"]);
        let changed = &found["changed"]["version"];
        assert_eq!((code, &changed["global"]), (3, &json!([512])));
        assert_eq!(changed["results"]["outcome"], "differs");
        let memory = &changed["results"]["memories"][0];
        assert_eq!(
            (&memory["differing"], &memory["first"][0]["element"]),
            (&512.into(), &512.into())
        );
        let (found, code) = document(&stage, &capture, &["--local", "null"]);
        let changed = &found["changed"]["version"];
        assert_eq!((code, &changed["local"]), (0, &Value::Null));
        assert_eq!(changed["results"]["outcome"], "same");
        refused(&stage, &[&capture, "--global", "32x32"], &["--global has 2 sizes"]);
    }
}

/// PoCL ends the process that asks for more than there is: it is not asked.
#[test]
fn more_local_memory_than_there_is_is_refused_before_the_launch() {
    let source = "kernel void saxpy(global float *y, global const float *x, float a)
    { local float all[20000000]; all[get_local_id(0)] = x[get_global_id(0)];
      barrier(CLK_LOCAL_MEM_FENCE); y[get_global_id(0)] = all[0] * a; }";
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let capture = saxpy(&stage.join("saxpy.1")).write();
        std::fs::write(stage.join("big.cl"), source).unwrap();
        let told = [
            "a group takes 80000000 bytes of local memory, 80000000 of them declared",
            "CL_DEVICE_LOCAL_MEM_SIZE",
        ];
        refused(&stage, &[&capture, "big.cl"], &told);
    }
}
