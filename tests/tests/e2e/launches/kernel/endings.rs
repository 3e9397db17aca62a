//! Versions that write where they must not: a signal is told and costs that version alone, a silent
//! write behind a memory is told, too; and what an interruption leaves behind, which is nothing.

use super::captures::{SAXPY, saxpy, walk};
use super::{document, refused};
use clscope_testing::Stream;
use clscope_tests::captured::{Captured, words};
use clscope_tests::{Runtime, Stage};
use serde_json::{Value, json};

/// Writes to addresses that no process has.
const WILD: &str = "kernel void saxpy(global const float *x, global float *y, float a)
    { *(global float *)(16 + 4 * get_global_id(0)) = a; y[0] = x[0]; }";

fn source(stage: &Stage, name: &str, text: &str) -> String {
    std::fs::write(stage.join(name), text).unwrap();
    name.to_owned()
}

#[test]
fn a_version_that_crashes_is_told_and_the_other_is_measured() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let capture = saxpy(&stage.join("saxpy.1")).write();
        let wild = source(&stage, "wild.cl", WILD);
        let (found, code) = document(&stage, &capture, &[&wild]);
        assert_eq!((code, &found["changed"]), (4, &Value::Null), "{found:#}");
        let ended = &found["ended"][0];
        assert_eq!((&ended["who"], &ended["step"]), (&"other".into(), &"results".into()));
        // Where it ends is the runtime's matter: most end by a fault, some by what handles it.
        assert!(ended["how"].as_str().unwrap().starts_with("signal "), "{ended}");
        assert_eq!(found["base"]["results"]["outcome"], "same");
        assert!(found["base"]["time"]["median_ns"]["value"].as_f64().unwrap() > 0.0);
        let words = ["kernel", &capture, &wild, "--sensors", "off", "--repeat", "6"];
        let ran = stage.clscope(words).run();
        assert_eq!(ran.status.code(), Some(4), "{}", ran.stderr);
        assert!(
            ran.stderr.contains("clscope: the other version ended by signal "),
            "{}",
            ran.stderr
        );
        assert!(ran.stderr.contains("while it ran for its results"), "{}", ran.stderr);
        for part in ["The other version\n  ended by signal ", "bit for bit: 1 memory"] {
            assert!(ran.stdout.contains(part), "{part}: {}", ran.stdout);
        }
        // Of the captured version nothing is left to measure.
        let mut made = saxpy(&stage.join("wild.1"));
        made.launch["program"]["files"] = json!([]);
        let capture = made.source(WILD).write();
        let ran = stage.clscope(["kernel", &capture, "--sensors", "off"]).run();
        assert_eq!((ran.status.code(), ran.stdout.as_str()), (Some(4), ""), "{}", ran.stderr);
        for part in ["the version as captured ended by signal ", "--device", "--export c"] {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
    }
}

/// Waits for what never comes.
const HANG: &str = "kernel void saxpy(global const float *x, global volatile float *y, float a)
    { while (y[0] != -1e30f) ; }";

#[test]
fn a_version_that_does_not_end_is_left_out_after_the_limit() {
    let stage = Stage::new(Runtime::Pocl);
    let capture = saxpy(&stage.join("saxpy.1")).write();
    let hang = source(&stage, "hang.cl", HANG);
    let (found, code) = document(&stage, &capture, &[&hang, "--limit", "20"]);
    assert_eq!((code, &found["changed"]), (4, &Value::Null), "{found:#}");
    let ended = &found["ended"][0];
    assert_eq!((&ended["who"], &ended["step"]), (&"other".into(), &"results".into()));
    assert_eq!(ended["how"], "the limit of 20 s for a launch (--limit)");
    assert_eq!(found["base"]["results"]["outcome"], "same");
    refused_by_clap(&stage, &capture, "0");
}

#[track_caller]
fn refused_by_clap(stage: &Stage, capture: &str, limit: &str) {
    let ran = stage.clscope(["kernel", capture, "--limit", limit]).run();
    assert_eq!(ran.status.code(), Some(2), "{}", ran.stderr);
}

/// Groups of more than 32 write where nothing is.
#[test]
fn a_size_that_crashes_is_a_row_that_says_so() {
    let source = "kernel void size(global uint *out)
        { uint n = get_local_size(0); if (n > 32) *(global uint *)16 = n; out[get_global_id(0)] = 1; }";
    let stage = Stage::new(Runtime::Pocl);
    let mut made = Captured::new(&stage.join("size.1"), "size", &[64]).source(source);
    made.launch["local"] = json!([8]);
    made.buffer("uint*", &[0; 256], Some(&words(&[1; 64])));
    let (found, code) = document(&stage, &made.write(), &["--local", "fastest"]);
    let rows = found["tuned"]["rows"].as_array().unwrap();
    let of = |size: u64| rows.iter().find(|row| row["local"] == json!([size])).unwrap();
    assert_eq!(code, 0);
    let refused = of(64)["refused"].as_str().unwrap();
    assert!(refused.starts_with("it ended by signal "), "{refused}");
    for size in [1, 4, 16, 32] {
        assert_eq!((&of(size)["results"], &of(size)["refused"]), (&"same".into(), &Value::Null));
    }
}

/// Nothing of the runtime tells of these: they stay in memory that the process has.
#[test]
fn a_write_behind_a_memory_is_told() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let capture = saxpy(&stage.join("saxpy.1")).write();
        let behind =
            SAXPY.replace("{ size_t", "{ if (get_global_id(0) == 0) y[1024 + 9] = a; size_t");
        let behind = source(&stage, "behind.cl", &behind);
        let (found, code) = document(&stage, &capture, &[&behind]);
        let results = &found["changed"]["version"]["results"];
        assert_eq!((code, &results["outcome"]), (4, &"same".into()), "{results:#}");
        let expected = json!([{"memory": 1, "arguments": ["1"], "bytes": 40}]);
        assert_eq!(results["overruns"], expected);
        assert_eq!(found["base"]["results"]["overruns"], json!([]));
        let words = ["kernel", &capture, &behind, "--sensors", "off", "--repeat", "6"];
        let text = stage.clscope(words).run().stdout;
        let told = "wrote behind the end of memory 1 (argument 1), up to byte 40 from there";
        assert!(text.contains(told), "{text}");
        // The same of shared virtual memory.
        let capture = walk(&stage.join("walk.1")).write();
        let text = std::fs::read_to_string(stage.join("walk.1/program.cl")).unwrap();
        let far = source(
            &stage,
            "far.cl",
            &text.replace("out[0] = sum;", "out[0] = sum; first[3].value = 1;"),
        );
        let (found, code) = document(&stage, &capture, &[&far]);
        let overruns = &found["changed"]["version"]["results"]["overruns"];
        assert_eq!((code, &overruns[0]["memory"]), (4, &0.into()), "{found:#}");
    }
}

/// Wherever the run is when it is asked to end: no process of it stays.
#[test]
fn an_interruption_leaves_no_process() {
    let stage = Stage::new(Runtime::Pocl);
    let capture = saxpy(&stage.join("saxpy.1")).write();
    let endless = "kernel void saxpy(global const float *x, global float *y, float a)
        { volatile global float *v = y; while (v[0] < 1e30f) v[1] = a; }";
    let endless = source(&stage, "endless.cl", endless);
    let words = ["kernel", &capture, &endless, "--sensors", "off"];
    let mut child = stage.clscope(words).begin();
    // Its child is there before anything is launched.
    let workers = || -> Vec<String> {
        let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let read = all.filter_map(|entry| {
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            Some(String::from_utf8_lossy(&line).replace('\0', " "))
        });
        read.filter(|line| line.contains(" __kernel ") && line.contains(&capture)).collect()
    };
    while workers().is_empty() {
        std::thread::yield_now();
    }
    child.signal(libc::SIGINT);
    let said = child.lines(Stream::Err).join("\n");
    assert_eq!(child.end().code(), Some(130), "{said}");
    assert!(said.contains("clscope: interrupted"), "{said}");
    assert_eq!(workers(), Vec::<String>::new());
    // Nobody starts the child by hand.
    let ran = stage.clscope(["__kernel", &capture]).run();
    assert_eq!(ran.status.code(), Some(1), "{}", ran.stderr);
    assert!(ran.stderr.contains("is started by `clscope kernel`"), "{}", ran.stderr);
    refused(&stage, &["nothing"], &["there is nothing of this name"]);
}
