//! Captures of launches of less common kinds: programs that were compiled with headers and linked,
//! tasks, several threads; and what is refused: pipes, built-in kernels.

use crate::launches::captures::{app, document, folders};
use clscope_tests::{Mode, Recorded, Runtime, Stage};
use serde_json::{Value, json};
use std::path::Path;

/// Runs a capture alone: the document.
fn alone(stage: &Stage, capture: &Path, more: &[&str]) -> Value {
    let words = ["kernel", "--sensors", "off", "--repeat", "6", "--format", "json"];
    let ran = stage.clscope(words).arg(capture).args(more).run().success().stdout;
    serde_json::from_str(&ran).unwrap()
}

/// The headers that were given to the compiler are in the capture, under the names that the source
/// includes, and the launch runs alone from its text.
#[test]
fn a_program_compiled_with_headers_and_linked_runs_alone_from_its_source() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        app(&stage, Mode::Record, "t", "headers", Some("headers:2")).0.run().success();
        let capture = stage.trace("t").join("captures/headers.2");
        let said = document(&capture);
        let program = &said["program"];
        assert_eq!((&program["origin"], &program["missing"]), (&json!("linked"), &Value::Null));
        assert_eq!(program["options"], "-DTIMES=2 -cl-kernel-arg-info");
        let files = program["files"].as_array().unwrap();
        let names: Vec<_> = files.iter().filter_map(|file| file["include"].as_str()).collect();
        assert_eq!(names, ["deep/embedded_nine.h", "embedded_eight.h"]);
        let found = alone(&stage, &capture, &["--from", "source"]);
        assert_eq!(
            (&found["base"]["form"], &found["base"]["results"]["outcome"]),
            (&"source".into(), &"same".into())
        );
        // Another version includes them, too.
        let text = std::fs::read_to_string(capture.join("program.cl")).unwrap();
        std::fs::write(stage.join("own.cl"), text.replace("NINE * TIMES", "TIMES * NINE")).unwrap();
        let own = stage.join("own.cl").display().to_string();
        let found = alone(&stage, &capture, &[&own]);
        assert_eq!(found["changed"]["version"]["results"]["outcome"], "same");
        // So does the program that stands alone, from files.
        let folder = stage.join("bug");
        let words = ["kernel", "--export", "c", "-o", "bug"];
        stage.clscope(words).arg(&capture).run().success();
        for name in names {
            assert!(folder.join("headers").join(name).is_file(), "{name}");
        }
        let made = clscope_tests::Run::new("make", &folder).run().success();
        let program = folder.join("reproduce");
        assert!(program.is_file(), "{}", made.stdout);
        let ran = stage.runtime.select(clscope_tests::Run::new(&program, &folder)).run().success();
        assert!(ran.stdout.contains("results: as captured"), "{}", ran.stdout);
    }
}

/// A header whose name leads out of a folder is a name for the compiler, and never one of a file.
#[test]
fn names_of_headers_are_never_paths() {
    let stage = Stage::new(Runtime::Pocl);
    app(&stage, Mode::Record, "t", "headers", Some("headers")).0.run().success();
    let capture = stage.trace("t").join("captures/headers.1");
    let mut said = document(&capture);
    let header = said["program"]["files"].as_array_mut().unwrap();
    let header = header.iter_mut().find(|file| file["include"].is_string()).unwrap();
    header["include"] = "../../escaped.h".into();
    std::fs::write(capture.join("launch.json"), said.to_string()).unwrap();
    let words = ["kernel", "--export", "c", "-o", "bug"];
    let refused = stage.clscope(words).arg(&capture).run();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("includes a header as ../../escaped.h"), "{}", refused.stderr);
    assert!(!stage.join("bug").exists() && !stage.join("escaped.h").exists());
}

#[test]
fn a_task_is_a_launch_of_one_work_item() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        app(&stage, Mode::Record, "t", "task", Some("single:2")).0.run().success();
        let said = document(&stage.trace("t").join("captures/single.2"));
        assert_eq!((&said["global"], &said["local"]), (&json!([1]), &json!([1])));
        assert_eq!((&said["dimensions"], &said["offset"]), (&json!(1), &Value::Null));
    }
}

/// Four threads launch kernels of one name at once: each capture holds one thread's launch whole.
#[test]
fn launches_of_several_threads_are_captured_one_by_one() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let bare = app(&stage, Mode::Bare, "bare", "threads", None).0.run().success();
        let (run, _) = app(&stage, Mode::Record, "t", "threads", Some("many:2,17,40"));
        assert_eq!(run.run().success().seen(), bare.seen(), "{runtime:?}");
        let recorded = Recorded::read(&[&stage.trace("t")]);
        let told = &recorded.only().definitions.captures;
        let whole: Vec<_> = told.iter().filter(|c| c.refused.is_empty()).collect();
        assert_eq!(folders(&stage.trace("t")).len(), whole.len());
        // A launch for which there is no room yet hands its turn on, and says so.
        for refused in told.iter().filter(|c| !c.refused.is_empty()) {
            let said = refused.refused.contains("recorder's memory")
                || refused.refused.contains("the recorder has no");
            assert!(said && refused.again, "{}", refused.refused);
        }
        assert!(!whole.is_empty());
        for capture in whole {
            let folder = stage.trace("t").join("captures").join(&capture.folder);
            let said = document(&folder);
            let by = said["arguments"][1]["value"].as_str().unwrap();
            let by = i32::from(u8::from_str_radix(&by[..2], 16).unwrap());
            let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
            let words = |bytes: &[u8]| -> Vec<i32> {
                bytes.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word)).collect()
            };
            let before = words(&read("memory-0.before"));
            for before in &before {
                assert_eq!(before % by, 0, "of another thread: {before} by {by}");
            }
            // What it left is known where no other thread's queue had work.
            let checked = said["checked"].as_bool().unwrap();
            if checked {
                let after = words(&read("memory-0.after"));
                for (i, (before, after)) in before.iter().zip(after).enumerate() {
                    assert_eq!(after, before + by, "element {i}");
                }
            }
            let found = alone(&stage, &folder, &[]);
            let outcome = if checked { "same" } else { "not-checked" };
            assert_eq!(found["base"]["results"]["outcome"], outcome, "{runtime:?}");
        }
    }
}

/// A thread that lacks the stack which a capture takes launches as ever; another thread's launch is
/// captured in place of its own.
#[test]
fn a_thread_without_the_stack_for_it_captures_nothing() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let line = "small_stack 3 12 launch";
        let bare = stage.app(Mode::Bare, "bare", line).run().success();
        for (name, value) in [("CLSCOPE_CAPTURE", "noop:1"), ("CLSCOPE_SAMPLE", "4")] {
            stage.forget("t");
            let with = stage.app(Mode::Record, "t", line).env(name, value).run();
            assert_eq!(with.seen(), bare.seen(), "{runtime:?} {name}: {}", with.stderr);
            let recorded = Recorded::read(&[&stage.trace("t")]);
            assert_eq!(recorded.only().launches(Some("noop")), 80, "{runtime:?} {name}");
            let told = &recorded.only().definitions.captures;
            if name == "CLSCOPE_CAPTURE" {
                assert!(told.iter().any(|c| c.refused.contains("stack")), "{runtime:?}: {told:?}");
                assert!(told.iter().any(|c| c.refused.is_empty()), "{runtime:?}: {told:?}");
            }
        }
    }
}

/// What cannot be captured is passed on as it was, with the reason.
#[test]
fn pipes_and_built_in_kernels_are_refused_with_the_reason() {
    let refused = |runtime: &Runtime, case: &str, kernel: &str, why: &str| -> bool {
        let stage = Stage::new(runtime.clone());
        let bare = app(&stage, Mode::Bare, "bare", case, None).0.run().success();
        if bare.stdout.starts_with("skipped") {
            return false;
        }
        let (run, _) = app(&stage, Mode::Preload, "t", case, Some(kernel));
        assert_eq!(run.run().success().seen(), bare.seen(), "{runtime:?} {case}");
        let recorded = Recorded::read(&[&stage.trace("t")]);
        let told = &recorded.only().definitions.captures;
        assert_eq!(told.len(), 3, "{told:?}");
        for capture in told {
            assert!(capture.refused.contains(why) && capture.again, "{capture:?}");
        }
        assert_eq!(folders(&stage.trace("t")), [""; 0]);
        true
    };
    assert!(refused(&Runtime::FakeLoader, "builtin", "fake_built_in", "built-in kernel"));
    for runtime in Runtime::real() {
        let intel = matches!(runtime, Runtime::Intel(_));
        // PoCL has no pipes.
        assert_eq!(refused(&runtime, "pipe", "piped", "argument 0 is a pipe"), intel);
    }
}

/// Captures touch no memory that a launch does not, hold nothing that the application can count, and
/// take no launch that failed for one that ran.
#[test]
fn captures_are_not_seen_and_a_failed_launch_is_not_checked() {
    for runtime in Runtime::real() {
        for case in ["protected", "counted", "many", "failed"] {
            let stage = Stage::new(runtime.clone());
            let line = format!("captured_apart {case}");
            let bare = stage.app(Mode::Bare, "bare", &line).run().success();
            for (setting, value) in [("CLSCOPE_CAPTURE", "*:1,2,3"), ("CLSCOPE_SAMPLE", "4")] {
                stage.forget("t");
                let run = stage.app(Mode::Preload, "t", &line).env(setting, value).run().success();
                assert_eq!(run.seen(), bare.seen(), "{runtime:?} {case} {setting}");
                let recorded = Recorded::read(&[&stage.trace("t")]);
                let captures = &recorded.only().definitions.captures;
                assert!(!captures.is_empty(), "{runtime:?} {case} {setting}");
                match case {
                    "protected" => assert!(
                        captures.iter().all(|c| c.refused.contains("cannot be read")),
                        "{runtime:?} {setting}: {captures:?}"
                    ),
                    "failed" => {
                        let all = folders(&stage.trace("t"));
                        for folder in all.iter().filter(|name| !name.ends_with(".jsonl")) {
                            let said = document(&stage.trace("t").join("captures").join(folder));
                            assert_eq!(said["checked"], false, "{runtime:?} {setting}: {said}");
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
