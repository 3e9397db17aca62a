//! Launches that are kept whole (`record --capture`): what a capture holds is what the application
//! itself knows of its memory, what the application computes and is told stays the same, what
//! cannot be captured is said, and nothing half-written looks whole.

use crate::application::faults::Tmpfs;
use crate::application::real_apps::{PYOPENCL, given};
use clscope_tests::{Mode, Recorded, Run, Runtime, Stage, artifacts, skip};
use clscope_trace::hash;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Cases in which what the launch left is not copied: a queue out of order, another queue at work.
const UNCHECKED: [&str; 2] = ["order", "queues"];

/// The cases of the fixture that can be captured: name, kernel, number of the captured launch.
const CASES: [(&str, &str, u64); 14] = [
    ("buffers", "mixed", 2),
    ("parts", "overlap", 2),
    ("picture", "picture", 2),
    ("layers", "layers", 2),
    ("line", "line", 2),
    ("nothing", "nothing", 2),
    ("shared", "shared", 2),
    ("unified", "unified", 2),
    ("order", "late", 2),
    ("queues", "late", 2),
    ("gate", "gated", 2),
    ("linked", "linked", 2),
    ("headers", "headers", 2),
    ("task", "single", 2),
];

/// The fixture at work, and the folder in which it keeps what it knows.
pub(super) fn app(
    stage: &Stage,
    mode: Mode,
    trace: &str,
    case: &str,
    capture: Option<&str>,
) -> (Run, PathBuf) {
    let folder = stage.join(&format!("{trace}-{case}-known"));
    std::fs::create_dir_all(&folder).unwrap();
    let run = stage.app(mode, trace, "captured").arg(case).arg(&folder);
    let run = match capture {
        Some(text) => run.env("CLSCOPE_CAPTURE", text),
        None => run,
    };
    (run, folder)
}

/// What `clscope record` puts into a capture that is whole.
const APPLICATION: &str = "application.json";

/// Files of a folder by name, without what `clscope record` adds.
pub(super) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let all = entries.map(|e| e.unwrap().path());
    let all = all.map(|p| (name(&p), std::fs::read(&p).unwrap()));
    all.filter(|(name, _)| name != APPLICATION).collect()
}

/// Names in a trace's folder of captures.
pub(super) fn folders(trace: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(trace.join("captures")) else { return Vec::new() };
    let mut out: Vec<String> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    out.sort();
    out
}

/// What `launch.json` says, which keeps to its schema.
pub(super) fn document(folder: &Path) -> Value {
    let text = std::fs::read(folder.join("launch.json")).unwrap();
    let document = serde_json::from_slice(&text).unwrap();
    let schema = artifacts::root().join("tools/launch/launch.schema.json");
    let breaches = clscope_testing::schema::breaches(&schema, &document);
    assert!(breaches.is_empty(), "{breaches:#?}");
    document
}

/// What a capture tells of the bytes of a memory.
fn sum(bytes: &[u8]) -> String {
    format!("{:016x}", clscope_trace::checksum(bytes))
}

/// Compares a capture with what the application knows; and with itself: sizes and hashes.
#[track_caller]
fn assert_holds(capture: &Path, known: &Path, what: &str) -> Value {
    let (held, known) = (files(capture), files(known));
    let document = document(capture);
    let checked = document["checked"].as_bool().unwrap();
    for (name, bytes) in &known {
        if name.ends_with(".after") && !checked {
            assert!(!held.contains_key(name), "{what}: {name}");
            continue;
        }
        let found = held.get(name).unwrap_or_else(|| panic!("{what}: there is no {name}"));
        assert!(found == bytes, "{what}: {name} holds other bytes");
    }
    let mut named: Vec<&str> = vec!["launch.json"];
    for memory in document["memories"].as_array().unwrap() {
        for when in ["before", "after"] {
            let Some(file) = memory[when].as_str() else {
                let flags = memory["flags"].as_array().unwrap();
                let read_only = flags.contains(&"CL_MEM_READ_ONLY".into());
                let told = memory["after_missing"].is_string();
                assert!(when == "after" && (read_only || (told && !checked)), "{memory}");
                continue;
            };
            named.push(file);
            let bytes = &held[file];
            assert_eq!(memory["bytes"], bytes.len(), "{what}: {file}");
            assert_eq!(memory[format!("hash_{when}")], sum(bytes), "{what}: {file}");
            assert!(known.contains_key(file), "{what}: the application does not know {file}");
        }
    }
    for file in document["program"]["files"].as_array().unwrap() {
        let name = file["file"].as_str().unwrap();
        named.push(name);
        assert_eq!(file["bytes"], held[name].len(), "{what}: {name}");
        assert_eq!(file["hash"], hash(&held[name]), "{what}: {name}");
    }
    named.sort_unstable();
    assert_eq!(named, held.keys().collect::<Vec<_>>(), "{what}: files");
    document
}

/// Bytes of what the application knows are those of the capture, on each runtime and by each way
/// in; what it prints (sums of all it read, reference counts of its events) stays.
#[test]
fn captures_hold_what_the_application_knows() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for (at, (case, kernel, launch)) in CASES.into_iter().enumerate() {
            let bare = app(&stage, Mode::Bare, "bare", case, None).0.run().success();
            if bare.stdout.starts_with("skipped") {
                skip(&format!("{runtime:?} has no memory of the kind {case}"), case != "unified");
                continue;
            }
            // Every way for one case; the others by one way each.
            let ways = Mode::RECORDING.len();
            let modes = if case == "buffers" {
                &Mode::RECORDING[..]
            } else {
                &Mode::RECORDING[at % ways..][..1]
            };
            for mode in modes {
                let what = format!("{runtime:?} {mode:?} {case}");
                let name = format!("{mode:?}-{case}");
                let asked = format!("{kernel}:{launch}");
                let (run, known) = app(&stage, *mode, &name, case, Some(&asked));
                let with = run.run().success();
                assert_eq!(with.seen(), bare.seen(), "{what}");
                let trace = stage.trace(&name);
                assert_eq!(folders(&trace), [format!("{kernel}.{launch}")], "{what}");
                let capture = trace.join(format!("captures/{kernel}.{launch}"));
                let document = assert_holds(&capture, &known, &what);
                assert_eq!(
                    (&document["kernel"], &document["launch"]),
                    (&json!(kernel), &json!(launch))
                );
                let checked = !UNCHECKED.contains(&case);
                assert_eq!(document["checked"], checked, "{what}: {document:#}");
                let recorded = Recorded::read(&[&trace]);
                let [told] = &recorded.only().definitions.captures[..] else { panic!("{what}") };
                assert_eq!(document["command"], json!(told.command), "{what}");
                let command = recorded.only().commands.iter().find(|c| Some(c.id) == told.command);
                let command = command.unwrap_or_else(|| panic!("{what}: no such command"));
                assert_eq!(command.kernel.as_deref(), Some(kernel), "{what}");
                let [_, _, start, end] = command.raw().unwrap();
                assert_eq!(document["duration_ns"], end - start, "{what}: by the same stamps");
                let bytes: usize = files(&capture).values().map(Vec::len).sum();
                assert_eq!(told.bytes, bytes as u64, "{what}");
                assert_eq!(capture.join(APPLICATION).exists(), *mode == Mode::Record, "{what}");
                recorded.only().assert_causal();
            }
        }
    }
}

#[test]
fn what_a_capture_says_is_what_the_application_did() {
    let stage = Stage::new(Runtime::Pocl);
    let captured = |case: &str, kernel: &str| {
        let asked = format!("{kernel}:2");
        app(&stage, Mode::Preload, case, case, Some(&asked)).0.run().success();
        document(&stage.trace(case).join(format!("captures/{kernel}.2")))
    };
    let buffers = captured("buffers", "mixed");
    assert_eq!(
        (&buffers["schema"], &buffers["dimensions"], &buffers["global"]),
        (&json!(3), &json!(1), &json!([1024]))
    );
    assert_eq!((&buffers["offset"], &buffers["local"]), (&json!([64]), &json!([64])));
    assert_eq!(buffers["queue"]["properties"], json!([]), "profiling was the recorder's");
    assert_eq!(buffers["program"]["origin"], "source");
    assert_eq!(buffers["program"]["options"], "-cl-kernel-arg-info -DUNUSED=1");
    let argument = |at: usize| buffers["arguments"][at].clone();
    assert_eq!((&argument(0)["name"], &argument(0)["type"]), (&json!("in"), &json!("int*")));
    assert_eq!((&argument(3)["kind"], &argument(3)["bytes"]), (&json!("local"), &json!(256)));
    assert_eq!(argument(4)["value"], "02000000", "the second launch's number");
    assert_eq!((&argument(5)["kind"], &argument(5)["bytes"]), (&json!("value"), &json!(16)));
    assert_eq!(buffers["memories"][0]["after"], Value::Null, "no kernel writes it");
    assert_eq!(buffers["device"]["type"], "cpu");

    let parts = captured("parts", "overlap");
    assert_eq!(parts["memories"].as_array().unwrap().len(), 1, "two parts of one buffer");
    let part = &parts["memories"][0];
    assert_eq!((&part["bytes"], &part["part"]["whole"]), (&json!(6144), &json!(8192)));
    let part = |at: usize| {
        let of = &parts["arguments"][at];
        (of["memory"].clone(), of["offset"].clone(), of["size"].clone())
    };
    assert_eq!(part(0), (json!(0), json!(0), json!(4096)));
    assert_eq!(part(1), (json!(0), json!(2048), json!(4096)));
    // A runtime may add flags that the parts have from the whole.
    let flags = |at: usize| parts["arguments"][at]["flags"].as_array().unwrap().clone();
    assert!(flags(0).contains(&"CL_MEM_READ_ONLY".into()), "{:?}", flags(0));
    assert!(flags(1).contains(&"CL_MEM_READ_WRITE".into()), "{:?}", flags(1));

    let picture = captured("picture", "picture");
    let image = &picture["memories"][0]["image"];
    assert_eq!(
        (&image["type"], &image["width"], &image["height"], &image["element"]),
        (&json!("CL_MEM_OBJECT_IMAGE2D"), &json!(33), &json!(17), &json!(4))
    );
    assert_eq!((&image["order"], &image["data"]), (&json!("CL_RGBA"), &json!("CL_UNORM_INT8")));
    assert_eq!(picture["memories"][2]["image"]["type"], "CL_MEM_OBJECT_IMAGE3D");
    assert_eq!(
        (&picture["arguments"][1]["addressing"], &picture["arguments"][1]["filter"]),
        (&json!("CL_ADDRESS_CLAMP_TO_EDGE"), &json!("CL_FILTER_NEAREST"))
    );
    assert_eq!(picture["arguments"][1]["normalized"], false);

    assert_eq!(captured("nothing", "nothing")["arguments"][1]["kind"], "null");
    let shared = captured("shared", "shared");
    assert_eq!(
        (&shared["arguments"][0]["kind"], &shared["arguments"][0]["offset"]),
        (&json!("svm"), &json!(1024))
    );
    let linked = captured("linked", "linked");
    assert_eq!(linked["program"]["origin"], "linked");
    assert_eq!(linked["program"]["files"][0]["language"], "binary");
    assert!(linked["program"]["missing"].as_str().unwrap().contains("linked from 2 others"));
}

/// What was captured gives alone what it gave in the application, on the same device.
#[test]
fn captured_launches_run_alone_with_the_same_results() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for (case, kernel, launch) in CASES {
            let asked = format!("{kernel}:{launch}");
            let (run, _) = app(&stage, Mode::Preload, case, case, Some(&asked));
            if run.run().success().stdout.starts_with("skipped") {
                skip(&format!("{runtime:?} has no memory of the kind {case}"), case != "unified");
                continue;
            }
            let capture = stage.trace(case).join(format!("captures/{kernel}.{launch}"));
            let words = ["kernel", "--sensors", "off", "--repeat", "6", "--format", "json"];
            let alone = stage.clscope(words).arg(&capture).run().success().stdout;
            let found: Value = serde_json::from_str(&alone).unwrap();
            let results = &found["base"]["results"];
            let outcome = if UNCHECKED.contains(&case) { "not-checked" } else { "same" };
            assert_eq!(results["outcome"], outcome, "{runtime:?} {case}: {results:#}");
            // The application's launch is one, and is judged by single launches.
            assert_eq!(found["is_same_device"], true);
            let took = found["capture"]["duration_ns"].as_f64().unwrap_or(0.0);
            let there = &found["there"];
            assert_eq!(there.is_null(), took == 0.0 || found["base"]["time"].is_null(), "{case}");
            if let Some(low) = there["single_ns"]["low"].as_f64() {
                let within = low <= took && took <= there["single_ns"]["high"].as_f64().unwrap();
                assert_eq!((&there["is_within"], low > 0.0), (&within.into(), true), "{there:#}");
                assert!(there["coverage"].as_f64().unwrap() <= 5.0 / 7.0 + 1e-9, "{there:#}");
            }
        }
    }
}

/// The order of commands and the results are those of the application also on an out-of-order
/// queue, and where all launches are asked for.
#[test]
fn all_launches_of_all_kernels_can_be_captured() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        for case in ["order", "buffers"] {
            let bare = app(&stage, Mode::Bare, "bare", case, None).0.run().success();
            let (run, _) = app(&stage, Mode::Record, case, case, Some("*:1,2,3"));
            assert_eq!(run.run().success().seen(), bare.seen());
            let kernel = if case == "order" { "late" } else { "mixed" };
            let all = [1, 2, 3].map(|n| format!("{kernel}.{n}"));
            assert_eq!(folders(&stage.trace(case)), all);
            // What the second found is what the first left, but for what the host wrote.
            if case == "buffers" {
                let of = |n: u32| files(&stage.trace(case).join(format!("captures/mixed.{n}")));
                assert!(of(1)["memory-2.after"] == of(2)["memory-2.before"]);
                assert!(of(2)["memory-2.after"] == of(3)["memory-2.before"]);
            }
        }
    }
}

/// What cannot be captured is passed on, with the reason, and the next launch is tried.
#[test]
fn refusals_are_told_and_the_next_launch_is_tried() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let told = |case: &str, asked: &str, variables: &[(&str, &str)]| {
            let bare = app(&stage, Mode::Bare, "bare", case, None).0.run().success();
            if bare.stdout.starts_with("skipped") {
                skip(&format!("{runtime:?} has nothing of the kind {case}"), true);
                return None;
            }
            stage.forget("t");
            let (mut run, _) = app(&stage, Mode::Preload, "t", case, Some(asked));
            for (name, value) in variables {
                run = run.env(name, value);
            }
            assert_eq!(run.run().success().seen(), bare.seen(), "{runtime:?} {case}");
            let recorded = Recorded::read(&[&stage.trace("t")]);
            let of = recorded.only().definitions.captures.iter();
            Some(of.map(|c| (c.launch, c.refused.clone(), c.again)).collect::<Vec<_>>())
        };
        if let Some(fine) = told("fine", "fine", &[]) {
            assert_eq!(fine.len(), 3, "{fine:?}");
            assert!(fine.iter().all(|(_, why, again)| why.contains("fine-grained") && *again));
            assert_eq!(folders(&stage.trace("t")), [""; 0]);
        }
        if let Some(recorded) = told("recorded", "*", &[]) {
            let [(0, why, false)] = &recorded[..] else { panic!("{recorded:?}") };
            assert!(why.contains("command buffer"), "{why}");
        }
        let gate = told("gate", "gated", &[]).unwrap();
        // A user event that is not set is waited for by the copies, and by nobody else.
        let [(1, none, false)] = &gate[..] else { panic!("{gate:?}") };
        assert!(none.is_empty(), "{gate:?}");
        let limit = told("buffers", "mixed", &[("CLSCOPE_CAPTURE_LIMIT", "4K")]).unwrap();
        assert!(
            limit.len() == 3
                && limit.iter().all(|(_, why, _)| why.contains("CLSCOPE_CAPTURE_LIMIT"))
        );
        let without = told("buffers", "mixed", &[("CLSCOPE_PROGRAMS", "0")]).unwrap();
        assert!(
            without.iter().all(|(_, why, _)| why.contains("--without programs")),
            "{without:?}"
        );
    }
}

/// The limit is of all captures of a process together.
#[test]
fn the_limit_counts_what_is_captured_already() {
    let stage = Stage::new(Runtime::intel().unwrap_or(Runtime::Pocl));
    let (run, _) = app(&stage, Mode::Preload, "first", "buffers", Some("mixed"));
    run.run().success();
    let one: usize =
        files(&stage.trace("first").join("captures/mixed.1")).values().map(Vec::len).sum();
    let (run, _) = app(&stage, Mode::Preload, "t", "buffers", Some("mixed:1,2,3"));
    run.env("CLSCOPE_CAPTURE_LIMIT", (2 * one + 500).to_string()).run().success();
    assert_eq!(folders(&stage.trace("t")), ["mixed.1", "mixed.2"]);
}

fn record(stage: &Stage, options: &[&str]) -> Run {
    let known = stage.join("known");
    std::fs::create_dir_all(&known).unwrap();
    let run = stage.clscope(["record", "--sensors", "off", "-o", "t", "-f"]).args(options);
    run.arg("--").arg(artifacts().fixture("captured")).arg("buffers").arg(known)
}

#[test]
fn the_command_says_what_was_captured_and_what_was_not() {
    let stage = Stage::new(Runtime::Pocl);
    let with = record(&stage, &["--capture", "mixed:1,3", "--capture=mixt"]).run().success();
    let lines: Vec<&str> = with.stderr.lines().filter(|l| l.contains("captured: ")).collect();
    assert_eq!(lines.len(), 3, "{}", with.stderr);
    assert!(
        lines[0].starts_with("clscope: captured: launch 1 of mixed: ")
            && lines[0].contains("/captures/mixed.1 (")
    );
    assert!(lines[1].contains("/captures/mixed.3 ("), "{}", lines[1]);
    let unknown = "not captured: no kernel has the name mixt: nearest are mixed";
    assert!(lines[2].contains(unknown), "{}", lines[2]);
    assert!(with.stderr.contains(", clscope kernel "), "{}", with.stderr);

    let report = stage.clscope(["report", "--all", "t"]).run().success().stdout;
    assert!(report.contains("captured  2 launches are kept whole"), "{report}");
    assert!(report.contains("no kernel has the name mixt"), "{report}");
    let json = stage.clscope(["report", "t", "--format", "json"]).run().success().stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let captured = json["captures"]["captured"].as_array().unwrap();
    let folders: Vec<_> = captured.iter().map(|c| c["folder"].as_str().unwrap()).collect();
    assert_eq!(folders, ["mixed.1", "mixed.3"]);
    let dump = stage.clscope(["dump", "t"]).run().success().stdout;
    assert_eq!(dump.lines().filter(|l| l.contains(" Capture ")).count(), 2, "{dump}");

    // The same name again, as the old trace is replaced.
    let again = record(&stage, &["--capture", "mixed:9"]).run().success();
    assert!(
        again.stderr.contains("not captured: launch 9 of mixed never came: it had 3 launches"),
        "{}",
        again.stderr
    );
    assert!(!stage.trace("t").join("captures").exists());
    // Nothing of all that without the option.
    let plain = record(&stage, &[]).run().success();
    assert!(!plain.stderr.contains("captured"), "{}", plain.stderr);

    record(&stage, &["--capture", "mixed:2"]).run().success();
    stage.clscope(["merge", "-o", "all", "t"]).run().success();
    let merged = stage.trace("all").join("captures/mixed.2");
    assert!(files(&merged) == files(&stage.trace("t").join("captures/mixed.2")));
}

/// A kernel of a binary, as of an application's program cache: the capture runs on its own device,
/// and the command says so at once.
#[test]
fn captures_of_binaries_say_that_they_stay_on_their_device() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        // The first launch is of a kernel of source, the second of one of the same name of a
        // binary.
        let words = ["record", "--sensors", "off", "-o", "t", "--capture"];
        let recorded = |launches: &str| {
            let fixture = artifacts().fixture("faults");
            let run = stage.clscope(words).args([launches, "-f", "--"]).arg(fixture);
            run.arg("doubted-binary").run().success().stderr
        };
        let told = recorded("produce:1,2");
        let line = |n: u32| {
            let start = format!("clscope: captured: launch {n} of produce");
            told.lines().find(|line| line.starts_with(&start)).unwrap_or_else(|| panic!("{told}"))
        };
        assert!(line(2).ends_with("the program's binary alone, for this device and driver only)"));
        assert!(!line(1).contains("binary"), "{told}");
        assert!(told.contains("OPENCV_OPENCL_CACHE_ENABLE=0"), "{told}");
        let capture = stage.trace("t").join("captures/produce.2");
        let words = ["kernel", "--sensors", "off", "--repeat", "6"];
        stage.clscope(words).arg(&capture).run().success();
        let told = recorded("produce:1");
        assert!(!told.contains("binary") && !told.contains("CACHE"), "{runtime:?}: {told}");
    }
}

#[test]
fn mistakes_are_refused_with_the_form_that_is_expected() {
    let stage = Stage::new(Runtime::Pocl);
    for (options, part) in [
        (&["--capture", "mixed:0"][..], "gemm:1,5"),
        (&["--capture", ""], "gemm:1,5"),
        (&["--capture", "a:b"], "a colon in a name is written as ?"),
        (&["--capture", "a", "--without", "programs"], "--without programs"),
    ] {
        let refused = record(&stage, options).run();
        assert_eq!(refused.status.code(), Some(2), "{options:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(part), "{options:?}: {}", refused.stderr);
        assert!(!stage.trace("t").exists(), "{options:?}");
    }
    // A preloaded recorder says so and goes on without.
    let (run, _) = app(&stage, Mode::Preload, "t", "buffers", Some("mixed:0"));
    let with = run.run().success();
    assert!(with.stderr.contains("CLSCOPE_CAPTURE=mixed:0"), "{}", with.stderr);
    assert_eq!(folders(&stage.trace("t")), [""; 0]);
}

/// Without room on the disk, or without the right to make a folder, the application runs as ever,
/// the reason is in the trace, and no folder is left that looks whole.
#[test]
fn no_room_and_no_right_are_reasons() {
    let stage = Stage::new(Runtime::Pocl);
    let bare = app(&stage, Mode::Bare, "bare", "buffers", None).0.run().success();
    // The trace has room, a capture with a megabyte beside it has not.
    if let Some(disk) = Tmpfs::new(&stage.join("disk"), "size=1200k") {
        let trace = disk.0.join("t.clscope");
        let (run, _) = app(&stage, Mode::Preload, "t", "buffers", Some("mixed"));
        let with = run.env("CLSCOPE_TRACE", &trace).run().success();
        assert_eq!(with.seen(), bare.seen(), "{}", with.stderr);
        let recorded = Recorded::read(&[&trace]);
        let captures = &recorded.only().definitions.captures;
        assert_eq!(captures.len(), 3, "{captures:?}");
        assert!(
            captures.iter().all(|c| c.refused.contains("the disk has no room")),
            "{captures:?}"
        );
        assert!(folders(&trace).is_empty(), "{:?}", folders(&trace));
    }

    // A file in the place of the folder.
    let trace = stage.trace("u");
    std::fs::create_dir(&trace).unwrap();
    std::fs::write(trace.join("captures"), "").unwrap();
    let (run, _) = app(&stage, Mode::Preload, "u", "buffers", Some("mixed"));
    assert_eq!(run.run().success().seen(), bare.seen());
    let recorded = Recorded::read(&[&trace]);
    let captures = &recorded.only().definitions.captures;
    assert!(captures.len() == 3, "{captures:?}");
    assert!(captures.iter().all(|c| c.refused.contains("making the folder captures failed")));
    // A link there is not followed.
    let elsewhere = stage.join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::create_dir(stage.trace("v")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, stage.trace("v").join("captures")).unwrap();
    let (run, _) = app(&stage, Mode::Preload, "v", "buffers", Some("mixed"));
    assert_eq!(run.run().success().seen(), bare.seen());
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// A process that is ended at the moment when a capture gets its name leaves none that looks whole.
#[test]
fn a_killed_process_leaves_no_capture_that_looks_whole() {
    let stage = Stage::new(Runtime::Pocl);
    let (run, _) = app(&stage, Mode::Preload, "t", "buffers", Some("mixed"));
    let with = run.arg("killed").run();
    assert_eq!(with.seen().1, Some(libc::SIGSYS), "{}", with.stderr);
    let [left] = &folders(&stage.trace("t"))[..] else {
        panic!("{:?}", folders(&stage.trace("t")))
    };
    assert!(left.ends_with(".part"), "{left}");
    let recorded = Recorded::read(&[&stage.trace("t")]);
    assert!(recorded.only().definitions.captures.is_empty());
    // What is left does not stand in the way of the next recording.
    record(&stage, &["--capture", "mixed"]).run().success();
    assert_eq!(folders(&stage.trace("t")), ["mixed.1"]);
}

/// A kernel of OpenCV's face detection, and one of PyOpenCL, which brings its own loader.
#[test]
fn real_applications_are_captured() {
    if let Some(python) = given("CLSCOPE_TEST_PYTHON") {
        for runtime in Runtime::real() {
            let stage = Stage::new(runtime);
            let script = stage.join("app.py");
            std::fs::write(&script, PYOPENCL).unwrap();
            let run = |mode, name: &str| {
                let run = stage.program(mode, name, &python).arg(&script);
                run.env("PYOPENCL_NO_CACHE", "1")
                    .env("PYOPENCL_CTX", "0")
                    .env("XDG_CACHE_HOME", stage.path())
                    .env("CLSCOPE_CAPTURE", "tw?ce:3,20")
                    .run()
                    .success()
            };
            let bare = run(Mode::Bare, "bare");
            for mode in Mode::RECORDING {
                let name = format!("{mode:?}");
                assert_eq!(run(mode, &name).seen(), bare.seen(), "{mode:?}");
                assert_eq!(folders(&stage.trace(&name)), ["twice.20", "twice.3"], "{mode:?}");
                for (n, shift) in [(3i32, 2), (20, 19)] {
                    let held = files(&stage.trace(&name).join(format!("captures/twice.{n}")));
                    let values = |shift: i32| -> Vec<u8> {
                        (0..4096i32).flat_map(|i| (i << shift).to_ne_bytes()).collect()
                    };
                    assert!(held["memory-0.before"] == values(shift), "{mode:?} {n}");
                    assert!(held["memory-0.after"] == values(shift + 1), "{mode:?} {n}");
                }
            }
        }
    }
    let python = Path::new("/usr/bin/python3");
    let Some(photograph) = given("CLSCOPE_TEST_PHOTOGRAPH").filter(|_| python.exists()) else {
        return;
    };
    let script = artifacts::root().join("tools/setup/face_detect.py");
    let stage = Stage::new(Runtime::Pocl);
    let run = |mode, name: &str| {
        let run = stage.program(mode, name, python).arg(&script).arg(&photograph);
        run.env("OPENCV_OPENCL_DEVICE", ":CPU:")
            .env("OPENCV_OPENCL_CACHE_ENABLE", "0")
            .env("CLSCOPE_CAPTURE", "*lbp*:2,*resize*")
            .run()
            .success()
    };
    let bare = run(Mode::Bare, "bare");
    for mode in Mode::DLOPEN {
        let name = format!("{mode:?}");
        assert_eq!(run(mode, &name).seen(), bare.seen(), "{mode:?}");
        let trace = stage.trace(&name);
        let found = folders(&trace);
        assert!(found.iter().any(|f| f.contains("lbp") || f.contains("resize")), "{found:?}");
        for folder in found {
            let folder = trace.join("captures").join(folder);
            let document = document(&folder);
            let held = files(&folder);
            let memories = document["memories"].as_array().unwrap();
            assert!(!memories.is_empty(), "a kernel of OpenCV reaches memory: {document:#}");
            for memory in memories {
                let bytes = &held[memory["before"].as_str().unwrap()];
                assert_eq!(memory["hash_before"], sum(bytes), "{memory}");
            }
            assert!(document["duration_ns"].as_u64() > Some(0), "{document:#}");
        }
    }
}
