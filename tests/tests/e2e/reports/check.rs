//! `clscope check`: each seeded fault is found at its place, what only looks like one is not, and
//! real applications raise no false alarm.

use crate::application::real_apps::{PYOPENCL, given};
use clscope_tests::{Mode, Runtime, Stage, artifacts, skip};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

/// The rule that a fault of the fixture breaks; those of runtimes that check handles break another,
/// too.
const FAULTS: [(&str, &str); 39] = [
    ("never-released", "never-released"),
    ("event-never-released", "event-never-released"),
    ("event-unused", "event-unused"),
    ("use-after-release", "use-after-release"),
    ("still-mapped", "still-mapped"),
    ("failed-call", "failed-call"),
    ("failed-query", "failed-query"),
    ("failed-device-query", "failed-query"),
    ("failed-wait", "failed-wait"),
    ("unset-arguments", "unset-arguments"),
    ("redundant-wait", "redundant-wait"),
    ("wait-before-blocking", "wait-before-blocking"),
    ("blocking-write", "blocking-write"),
    ("race-queues", "data-race"),
    ("race-out-of-order", "data-race"),
    ("race-ranges", "data-race"),
    ("race-parts", "data-race"),
    ("race-map", "data-race"),
    ("race-image", "data-race"),
    ("race-rectangle", "data-race"),
    ("race-svm", "data-race"),
    ("race-host", "data-race"),
    ("race-binary", "data-race"),
    ("freed-in-use", "freed-in-use"),
    ("race-by-function", "data-race"),
    ("race-by-pointer", "data-race"),
    ("race-by-macro", "data-race"),
    ("race-rows", "data-race"),
    ("race-boxes", "data-race"),
    ("race-copies", "data-race"),
    ("race-host-pointer", "data-race"),
    ("race-unmapped", "data-race"),
    ("used-while-mapped", "used-while-mapped"),
    ("read-while-mapped", "used-while-mapped"),
    ("leaked-svm", "never-released"),
    ("released-event", "use-after-release"),
    ("released-argument", "use-after-release"),
    ("set-released", "use-after-release"),
    ("unmapped-host", "freed-in-use"),
];
/// Faults that may end the process: what is wrong with the call is found all the same.
const DEADLY: [(&str, &str, &str); 17] = [
    ("released-twice", "use-after-release", "memory object that was released already"),
    ("released-kernel", "use-after-release", "clSetKernelArg names a kernel"),
    ("released-queue", "use-after-release", "clFlush names a command queue"),
    ("released-program", "use-after-release", "clBuildProgram names a program"),
    ("released-context", "use-after-release", "clCreateBuffer names a context"),
    ("released-sampler", "use-after-release", "clGetSamplerInfo names a sampler"),
    ("sampler-twice", "use-after-release", "sampler that was released already"),
    ("waited-event", "use-after-release", "clWaitForEvents names an event"),
    ("listed-event", "use-after-release", "clEnqueueMarkerWithWaitList names an event"),
    ("asked-queue", "use-after-release", "clGetCommandQueueInfo names a command queue"),
    ("launched-queue", "use-after-release", "clEnqueueNDRangeKernel names a command queue"),
    ("one-of-many", "use-after-release", "clSetKernelArg names a kernel"),
    ("many-twice", "use-after-release", "kernel that was released already"),
    ("migrated", "use-after-release", "clEnqueueMigrateMemObjects names a memory object"),
    ("no-list", "failed-wait", "a wait list of 1 that is NULL"),
    ("null-event", "failed-wait", "a wait list whose event of index 0 is NULL"),
    ("null-waited", "failed-wait", "a wait list whose event of index 0 is NULL"),
];

fn document(text: &str) -> Value {
    assert_eq!(clscope_testing::schema::text_breaches(text), Vec::<String>::new());
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// What a run of the fixture was found to do wrong, and the exit code.
fn checked(stage: &Stage, fault: &str) -> (Value, Option<i32>) {
    let app = artifacts().fixture("faults").display().to_string();
    let words = ["check", "--fail-on", "performance", "--format", "json", "--to", "found.json"];
    let ran = stage.clscope(words.iter().chain(&["--", &app, fault])).run();
    assert_eq!(ran.stdout, format!("faults {fault}\n"), "{}", ran.stderr);
    let text = std::fs::read_to_string(stage.join("found.json")).unwrap();
    (document(&text), ran.status.code())
}

fn rules(of: &Value) -> BTreeSet<String> {
    let findings = of["findings"].as_array().unwrap();
    findings.iter().map(|f| f["rule"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn each_seeded_fault_is_found_and_what_is_none_is_not() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let (clean, code) = checked(&stage, "clean");
        assert_eq!(clean["findings"], Value::Array(Vec::new()), "{runtime:?}: {clean:#}");
        assert_eq!((code, &clean["checked_run"]), (Some(0), &true.into()));
        // What the allocator keeps is not seen, which is said of whom it concerns alone.
        let notes = clean["notes"].to_string();
        assert!(notes.contains("transfers without blocking: whether"), "{notes}");
        // What is ordered needs no knowledge of what kernels write.
        assert!(!notes.contains("whether that is a data race"), "{notes}");
        for (fault, rule) in FAULTS {
            let (found, code) = checked(&stage, fault);
            if fault == "event-unused" {
                let notes = found["notes"].to_string();
                assert!(!notes.contains("without blocking: whether"), "{notes}");
            }
            assert_eq!(code, Some(3), "{fault} on {runtime:?}: {found:#}");
            let expected = BTreeSet::from([rule.to_owned()]);
            let mut found_rules = rules(&found);
            // Some runtimes know their handles, and refuse stale ones.
            if rule == "use-after-release" {
                found_rules.retain(|r| {
                    !["failed-query", "failed-call", "failed-wait"].contains(&r.as_str())
                });
            }
            assert_eq!(found_rules, expected, "{fault} on {runtime:?}: {found:#}");
            let finding =
                found["findings"].as_array().unwrap().iter().find(|f| f["rule"] == rule).unwrap();
            assert_eq!(finding["count"], 1, "{fault}: {finding:#}");
            let place = finding["place"].as_str();
            if rule != "use-after-release" {
                let place = place.unwrap_or_else(|| panic!("{fault} has no place: {finding:#}"));
                assert!(place.contains("faults.c:"), "{fault}: {place}");
            }
            if rule == "data-race" {
                assert!(finding["other_place"].as_str().unwrap().contains("faults.c:"), "{fault}");
            }
        }
    }
}

#[test]
fn what_a_call_names_is_judged_also_where_the_process_dies_in_it() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for (fault, rule, text) in DEADLY {
            let app = artifacts().fixture("faults").display().to_string();
            let words = ["check", "-o", "deadly", "--format", "json", "--to", "found.json"];
            let ran = stage.clscope(words.iter().chain(&["--", &app, fault])).run();
            assert_eq!(ran.status.code(), Some(3), "{fault} on {runtime:?}: {}", ran.stderr);
            let found = document(&std::fs::read_to_string(stage.join("found.json")).unwrap());
            let all = found["findings"].as_array().unwrap();
            let finding =
                all.iter().find(|f| f["rule"] == rule && f["text"].to_string().contains(text));
            let finding = finding.unwrap_or_else(|| panic!("{fault} on {runtime:?}: {found:#}"));
            assert_eq!(finding["count"], 1, "{fault} on {runtime:?}: {finding:#}");
            let died = ran.stdout != format!("faults {fault}\n");
            let says = finding["text"].as_str().unwrap().contains("the process died in this call");
            assert_eq!(says, died, "{fault} on {runtime:?}: {finding:#}");
            let text =
                stage.clscope(["check", "--fail-on", "none", "deadly"]).run().success().stdout;
            let first = text.lines().next().unwrap();
            assert_eq!(first.contains("what came after was not judged"), died, "{fault}: {first}");
            assert_eq!(found["ended_inside"].is_array(), died, "{fault}: {found:#}");
            // Some runtimes refuse the call.
            let these = "use-after-release,failed-wait,failed-call";
            let nothing = ["check", "--without", these, "deadly"];
            let code = stage.clscope(nothing).run().status.code();
            assert_eq!(code, Some(if died { 4 } else { 0 }), "{fault} on {runtime:?}");
            std::fs::remove_dir_all(stage.join("deadly.clscope")).unwrap();
        }
    }
}

/// The recorder cannot see what the allocator keeps: the transfers are named that may be why.
#[test]
fn transfers_that_were_under_way_at_a_death_are_told() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let app = artifacts().fixture("faults").display().to_string();
        let words = ["check", "--format", "json", "--to", "found.json", "--", &app, "abort"];
        let ran = stage.clscope(words).run();
        let found = document(&std::fs::read_to_string(stage.join("found.json")).unwrap());
        // It ends as the application does.
        assert_eq!(ran.status.signal(), Some(6), "{runtime:?}: {found:#}");
        let notes = found["notes"].to_string();
        assert!(
            notes.contains("might still use memory of the host: WriteBuffer at main"),
            "{notes}"
        );
    }
}

#[test]
fn writes_that_the_source_hides_are_no_alarm_and_are_told() {
    for runtime in Runtime::real() {
        let (found, code) = checked(&Stage::new(runtime), "hidden-writes");
        assert_eq!((code, &found["findings"]), (Some(0), &Value::Array(Vec::new())), "{found:#}");
        let notes = found["notes"].to_string();
        for told in [
            "argument 0 of by_ifdef (used inside #if or #ifdef)",
            "argument 0 of by_shadow (its name is declared again in the kernel)",
            "argument 0 of by_macro (used by way of a macro)",
        ] {
            assert!(notes.contains(told), "{told}: {notes}");
        }
        assert!(!notes.contains("by_zero"), "{notes}");
    }
}

/// Of programs that come as binaries runtimes do not tell what their kernels write: what others
/// write that they have is a race all the same (`race-binary`), two of them are not.
#[test]
fn commands_that_may_race_are_counted_with_what_helps() {
    for runtime in Runtime::real() {
        let (found, code) = checked(&Stage::new(runtime), "doubted-binary");
        assert_eq!((code, &found["findings"]), (Some(0), &Value::Array(Vec::new())), "{found:#}");
        let notes = found["notes"].to_string();
        for told in [
            "1 command is ordered by nothing with others that have the same memory",
            "argument 0 of produce (program ",
            "(of a binary or SPIR-V, and the runtime does not say)",
            "OpenCV: OPENCV_OPENCL_CACHE_ENABLE=0",
        ] {
            assert!(notes.contains(told), "{told}: {notes}");
        }
        assert!(!notes.contains("declare what is only read"), "{notes}");
    }
}

/// No call is wrong: the device refuses the second launch. A runtime of our own does so on request.
#[test]
fn a_command_that_fails_on_the_device_is_found() {
    let stage = Stage::new(Runtime::FakeDriver);
    std::fs::write(stage.join("fails"), "auto\nerror -5\nauto\n").unwrap();
    let app = artifacts().fixture("linked").display().to_string();
    let words = ["check", "--format", "json", "--to", "found.json", "--", &app, "3"];
    let ran = stage.clscope(words).env("FAKE_CL_SCRIPT", stage.join("fails")).run();
    assert_eq!(ran.status.code(), Some(3), "{}", ran.stderr);
    let found = document(&std::fs::read_to_string(stage.join("found.json")).unwrap());
    let findings = found["findings"].as_array().unwrap();
    let finding = findings.iter().find(|f| f["rule"] == "failed-command");
    let finding = finding.unwrap_or_else(|| panic!("{found:#}"));
    assert_eq!(finding["count"], 1, "{finding:#}");
    assert!(finding.to_string().contains("CL_OUT_OF_RESOURCES"), "{finding:#}");
    let clean = stage.clscope(["check", "--format", "json", "--", &app, "3"]).run();
    assert!(!clean.stdout.contains("failed-command"), "{}", clean.stdout);
}

#[test]
fn exit_codes_tell_findings_from_the_applications_own_end() {
    let stage = Stage::new(Runtime::Pocl);
    let app = artifacts().fixture("faults").display().to_string();
    let code = |words: &[&str]| stage.clscope(words).run().status.code();
    // A warning is no error, unless it is asked for.
    assert_eq!(code(&["check", "--", &app, "never-released"]), Some(0));
    assert_eq!(code(&["check", "--fail-on", "warning", "--", &app, "never-released"]), Some(3));
    assert_eq!(code(&["check", "--", &app, "race-queues"]), Some(3));
    assert_eq!(code(&["check", "--fail-on", "none", "--", &app, "race-queues"]), Some(0));
    assert_eq!(code(&["check", "--without", "data-race", "--", &app, "race-queues"]), Some(0));
    assert_eq!(code(&["check", "--without", "no-such-rule", "--", &app]), Some(2));
    // The application's own code, where nothing is found; a command that cannot be run.
    assert_eq!(code(&["check", "--", &app, "no-such-fault"]), Some(2));
    assert_eq!(code(&["check", "--", "/no/such/program"]), Some(127));
    assert_eq!(code(&["check", "no-such-trace"]), Some(1));
}

#[test]
fn a_trace_is_judged_afterwards_and_one_of_another_run_says_what_it_lacks() {
    let stage = Stage::new(Runtime::Pocl);
    let app = artifacts().fixture("faults").display().to_string();
    let recorded = |name: &str, more: &[&str]| {
        let words = [&["record", "-q", "-o", name], more, &["--", &app, "race-queues"]].concat();
        stage.clscope(words).run().success();
    };
    recorded("with", &["--check"]);
    recorded("without", &[]);
    let told = stage.clscope(["check", "with"]).run();
    assert_eq!(told.status.code(), Some(3));
    for part in
        ["data-race", "kernel produce writes what kernel consume reads", "faults.c:", "remedy:"]
    {
        assert!(told.stdout.contains(part), "{part}: {}", told.stdout);
    }
    // What a finding costs is said to be unknown where it is.
    for (fault, cost) in [
        ("event-unused", "cost not known"),
        ("wait-before-blocking", "cost not known"),
        ("blocking-write", "of host time"),
    ] {
        let text = stage.clscope(["check", "--", &app, fault]).run().stdout;
        assert!(text.contains("(1 time, ") && text.contains(cost), "{text}");
    }
    let told = stage.clscope(["check", "without"]).run();
    assert_eq!(told.status.code(), Some(0), "{}", told.stdout);
    assert!(told.stdout.contains("recorded without --check"), "{}", told.stdout);
    // A run that is not checked pays nothing: it has none of the records.
    let details = |name: &str| {
        let dump = stage.clscope(["dump", name]).run().success().stdout;
        dump.lines().filter(|line| line.contains("  detail ")).count()
    };
    assert!(details("with") > 10);
    assert_eq!(details("without"), 0);
}

/// What orders two kernels, or releases an object, may be among calls that are not in the trace.
#[test]
fn no_finding_rests_on_a_call_that_was_not_recorded() {
    let every_call = "which need every call, judge nothing: data-race, use-after-release";
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let app = artifacts().fixture("faults").display().to_string();
        let checked = |fault: &str, setting: (&str, &str)| {
            let words =
                ["check", "--fail-on", "performance", "--format", "json", "--to", "f", "--"];
            let run = stage.clscope(words.iter().chain(&[app.as_str(), fault]));
            let ran = run.env(setting.0, setting.1).run();
            let found = std::fs::read_to_string(stage.join("f"));
            (document(&found.unwrap_or_else(|error| panic!("{error}: {}", ran.stderr))), ran)
        };
        let filters = [
            ("CLSCOPE_GROUPS", "enqueue,object,refcount,argument"),
            ("CLSCOPE_GROUPS", "enqueue,object,wait,query"),
            ("CLSCOPE_KERNELS", "consume"),
        ];
        for (name, value) in filters {
            let (found, _) = checked("clean", (name, value));
            assert_eq!(found["findings"], Value::Array(Vec::new()), "{name}={value}: {found:#}");
            let notes = found["notes"].to_string();
            let told = format!("{name}={value} leaves calls out: these rules, {every_call}");
            assert!(notes.contains(&told), "{told}: {notes}");
        }
        // What a recorded call tells by itself is found all the same.
        let (found, _) = checked("failed-call", filters[2]);
        assert_eq!(rules(&found), BTreeSet::from(["failed-call".to_owned()]), "{found:#}");
        // Recording is paused where the host waits; what is before it was judged.
        let command = artifacts().clscope().display().to_string();
        for fault in ["unseen-wait", "unseen-end"] {
            let (found, ran) = checked(fault, ("CLSCOPE", &command));
            assert_eq!(ran.stdout, format!("faults {fault}\n"), "{}", ran.stderr);
            assert_eq!(found["findings"], Value::Array(Vec::new()), "{fault}: {found:#}");
            let notes = found["notes"].to_string();
            assert!(notes.contains("recording was paused: from there on these rules"), "{notes}");
        }
    }
}

#[test]
fn a_checked_application_is_answered_as_without() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let bare = stage.app(Mode::Bare, "b", "faults clean").run().success();
        let with = stage
            .app(Mode::Preload, "t", "faults clean")
            .env("CLSCOPE_CHECK", "1")
            .env("CLSCOPE_CALL_SITES", "4")
            .run()
            .success();
        assert_eq!(with.seen(), bare.seen());
    }
}

/// An application with its arguments, and what it needs of its environment.
type Words = (Vec<String>, Vec<(&'static str, String)>);

/// Real applications.
fn real(stage: &Stage) -> Vec<Words> {
    let mut out = Vec::new();
    let programs: [(&str, &[&str]); 3] = [
        ("/usr/bin/clinfo", &["--raw"]),
        // It asks for contexts of types that the platform lacks.
        ("/usr/bin/clinfo", &[]),
        ("/usr/bin/clpeak", &["--kernel-latency"]),
    ];
    for (program, options) in programs {
        let words = std::iter::once(&program).chain(options).map(|w| (*w).to_owned()).collect();
        match Path::new(program).exists() {
            true => out.push((words, Vec::new())),
            false => skip(&format!("{program} is not installed"), true),
        }
    }
    if let Some(python) = given("CLSCOPE_TEST_PYTHON") {
        let script = stage.join("app.py");
        std::fs::write(&script, PYOPENCL).unwrap();
        let words = vec![python.display().to_string(), script.display().to_string()];
        let cache = stage.path().display().to_string();
        out.push((words, vec![("PYOPENCL_NO_CACHE", "1".to_owned()), ("XDG_CACHE_HOME", cache)]));
    }
    if let (true, Some(photograph)) =
        (stage.runtime == Runtime::Pocl, given("CLSCOPE_TEST_PHOTOGRAPH"))
    {
        let script = artifacts::root().join("tools/setup/face_detect.py").display().to_string();
        let words = vec!["/usr/bin/python3".to_owned(), script, photograph.display().to_string()];
        let device = ("OPENCV_OPENCL_DEVICE", ":CPU:".to_owned());
        out.push((words, vec![device, ("OPENCV_OPENCL_CACHE_ENABLE", "0".to_owned())]));
    }
    out
}

/// What each finding says was looked at one by one: these applications do so.
const TRUE_OF_THEM: [&str; 7] = [
    "never-released",
    "event-never-released",
    "event-unused",
    "failed-query",
    "redundant-wait",
    "wait-before-blocking",
    "blocking-write",
];

#[test]
fn real_applications_raise_no_false_alarm() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for (words, variables) in real(&stage) {
            let own =
                ["check", "--fail-on", "none", "--format", "json", "--to", "found.json", "--"];
            let own = own.iter().map(|word| (*word).to_owned());
            let mut run = stage.clscope(own.chain(words.iter().cloned()));
            for (name, value) in variables {
                run = run.env(name, value);
            }
            run.run().success();
            let found = document(&std::fs::read_to_string(stage.join("found.json")).unwrap());
            assert_eq!(found["checked_run"], true, "{words:?}");
            let others: Vec<String> =
                rules(&found).into_iter().filter(|r| !TRUE_OF_THEM.contains(&r.as_str())).collect();
            assert_eq!(others, Vec::<String>::new(), "{words:?} on {runtime:?}: {found:#}");
        }
    }
}
