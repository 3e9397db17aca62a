//! Programs that `clscope kernel --export` writes run without clscope, and check what was captured.

use super::captures::{gcd, saxpy, shift, sums, turn, view, view_of_part, walk};
use super::refused;
use crate::application::real_apps::given;
use clscope_tests::captured::{Captured, words};
use clscope_tests::{Finished, Run, Runtime, Stage};
use std::path::{Path, PathBuf};

type Make = fn(&Path) -> Captured;

/// Every capture that a runtime can run.
fn all(runtime: &Runtime) -> Vec<(&'static str, Make)> {
    let mut out: Vec<(&str, Make)> = vec![
        ("saxpy", saxpy),
        ("shift", shift),
        ("turn", turn),
        ("view", view),
        ("sums", sums),
        ("walk", walk),
    ];
    if *runtime != Runtime::Pocl {
        out.push(("gcd", gcd));
        out.push(("part", view_of_part));
    }
    out
}

/// Exports a capture; the folder of the program.
fn exported(stage: &Stage, name: &str, make: Make, language: &str) -> PathBuf {
    let mut made = make(&stage.join(&format!("{name}.1")));
    // A name that would end a comment or a literal.
    made.launch["device"]["name"] = "*/ \"\\ \n#error".into();
    let capture = made.write();
    let folder = stage.join(&format!("{name}-{language}"));
    let shown = folder.display().to_string();
    let words = ["kernel", &capture, "--export", language, "-o", &shown];
    let ran = stage.clscope(words).run().success();
    assert!(ran.stderr.contains("reproduce"), "{}", ran.stderr);
    folder
}

/// What a program prints of right and of wrong results.
#[track_caller]
fn checks(right: &Finished, wrong: &Finished) {
    assert_eq!(right.status.code(), Some(0), "{}{}", right.stdout, right.stderr);
    for part in ["device: ", "results: as captured", "time: "] {
        assert!(right.stdout.contains(part), "{part}: {}", right.stdout);
    }
    assert_eq!(wrong.status.code(), Some(1), "{}{}", wrong.stdout, wrong.stderr);
    assert!(wrong.stdout.contains("bytes differ, the first at "), "{}", wrong.stdout);
}

/// Changes a byte of what was captured after the launch.
fn spoil(folder: &Path) {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let after = files.iter().find(|f| f.extension().is_some_and(|e| e == "after")).unwrap();
    let mut bytes = std::fs::read(after).unwrap();
    bytes[8] ^= 1;
    std::fs::write(after, bytes).unwrap();
}

/// Work-items append their numbers, in whatever order.
fn append(folder: &Path) -> Captured {
    let source = "kernel void append(global uint *count, global uint *list)
        { list[atomic_inc(count)] = get_global_id(0); }";
    let mut made = Captured::new(folder, "append", &[64]).source(source);
    made.buffer("uint*", &[0; 16], Some(&words(&[64, 0, 0, 0])));
    made.buffer("uint*", &[0; 256], Some(&words(&[64; 64])));
    made
}

#[test]
fn results_that_an_order_may_decide_are_said_to_be() {
    const NOTE: &str =
        "note: its source uses atomics (atomic_inc): the order of work-items may decide results";
    let stage = Stage::new(Runtime::Pocl);
    for (name, make, says) in [("append", append as Make, true), ("saxpy", saxpy, false)] {
        let folder = exported(&stage, name, make, "c");
        spoil(&folder);
        let made = Run::new("make", &folder).env("CFLAGS", "-O1 -Wall -Werror").run();
        assert!(made.status.success(), "{name}: {}{}", made.stdout, made.stderr);
        let ran = stage.runtime.select(Run::new(folder.join("reproduce"), &folder)).run();
        assert_eq!(ran.status.code(), Some(1), "{name}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout.contains(NOTE), says, "{name}: {}", ran.stdout);
        let Some(python) = given("CLSCOPE_TEST_PYTHON") else { continue };
        let folder = exported(&stage, &format!("{name}-python"), make, "pyopencl");
        spoil(&folder);
        let ran = Run::new(python, &folder).arg("reproduce.py");
        let ran = stage.runtime.select(ran).env("XDG_CACHE_HOME", stage.path()).run();
        assert_eq!(ran.status.code(), Some(1), "{name}: {}{}", ran.stdout, ran.stderr);
        assert_eq!(ran.stdout.contains(NOTE), says, "{name}: {}", ran.stdout);
    }
}

#[test]
fn programs_in_c_run_alone() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for (name, make) in all(&runtime) {
            let folder = exported(&stage, name, make, "c");
            let made = Run::new("make", &folder).env("CFLAGS", "-O1 -Wall -Werror").run();
            assert!(made.status.success(), "{name}: {}{}", made.stdout, made.stderr);
            let run = || stage.runtime.select(Run::new(folder.join("reproduce"), &folder)).run();
            let right = run();
            spoil(&folder);
            checks(&right, &run());
        }
    }
}

#[test]
fn scripts_for_pyopencl_run_alone() {
    let Some(python) = given("CLSCOPE_TEST_PYTHON") else { return };
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for (name, make) in all(&runtime) {
            if name == "walk" {
                let capture = make(&stage.join("walk.1")).write();
                refused(
                    &stage,
                    &[&capture, "--export", "pyopencl"],
                    &["uses shared virtual memory", "--export c"],
                );
                continue;
            }
            let folder = exported(&stage, name, make, "pyopencl");
            let run = || {
                let run = Run::new(&python, stage.path()).arg(folder.join("reproduce.py"));
                stage.runtime.select(run).env("XDG_CACHE_HOME", stage.path()).run()
            };
            let right = run();
            spoil(&folder);
            checks(&right, &run());
        }
    }
}

#[test]
fn nothing_is_written_over_and_a_damaged_capture_leaves_nothing() {
    let stage = Stage::new(Runtime::Pocl);
    let capture = saxpy(&stage.join("saxpy.1")).write();
    stage.clscope(["kernel", &capture, "--export", "c"]).run().success();
    assert!(stage.join("saxpy.1-c/reproduce.c").is_file());
    refused(&stage, &[&capture, "--export", "c"], &["cannot write saxpy.1-c", "-o"]);
    std::fs::write(stage.join("saxpy.1/program.cl"), "changed").unwrap();
    refused(&stage, &[&capture, "--export", "pyopencl"], &["program.cl has 7 bytes"]);
    assert!(!stage.join("saxpy.1-pyopencl").exists());
}
