//! Everything the recorder adds is undone, and each call reaches the real function exactly once:
//! counted by the fake library.

use clscope_tests::{Mode, Runtime, Stage};
use std::collections::BTreeMap;

/// A report of the fake library.
#[derive(Debug, Default)]
struct Report {
    calls: BTreeMap<String, u64>,
    /// Kind: created, live, held, peak.
    objects: BTreeMap<String, BTreeMap<String, u64>>,
    misuse: Vec<String>,
    commands: String,
}

fn run(stage: &Stage, mode: Mode, line: &str, settings: &[(&str, &str)]) -> Report {
    let path = stage.join(&format!("{mode:?}.report"));
    let mut app = stage.app(mode, "t", line).env("FAKE_CL_REPORT", &path);
    for (name, value) in settings {
        app = app.env(name, value);
    }
    app.run().success();
    let mut report = Report::default();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["call", name, count] => {
                report.calls.insert(name.to_owned(), count.parse().unwrap());
            }
            ["objects", kind, ref rest @ ..] => {
                let fields = rest
                    .chunks_exact(2)
                    .map(|p| (p[0].to_owned(), p[1].parse().unwrap()))
                    .collect();
                report.objects.insert(kind.to_owned(), fields);
            }
            ["misuse", ..] => report.misuse.push(line.to_owned()),
            ["commands", ..] => report.commands = line.to_owned(),
            // Events: ours are among them.
            _ => {}
        }
    }
    report
}

/// Events that the recorder holds at most: the capacity of its queue of commands in flight.
const MOST_HELD: u64 = 4096;

/// Functions that the recorder calls for itself in these runs; the guide's table has them, and
/// more.
const EXTRA: [&str; 12] = [
    "clRetainEvent",
    "clReleaseEvent",
    "clGetEventInfo",
    "clGetEventProfilingInfo",
    "clGetPlatformInfo",
    "clGetDeviceInfo",
    "clGetContextInfo",
    "clGetKernelInfo",
    "clGetKernelWorkGroupInfo",
    "clGetProgramInfo",
    "clGetProgramBuildInfo",
    "clGetCommandQueueInfo",
];

const APPS: [&str; 12] = [
    "linked 100",
    "poll_only 100",
    "flush_only 100",
    "never_wait 100",
    "user_event_gate 20",
    "release_early done",
    "release_early flight",
    "release_early gate",
    "callback_calls",
    "many_commands 2000",
    "many_commands 2000 events",
    "multi_queue 4 50 out-of-order",
];

#[test]
fn extra_calls_are_in_the_table_of_own_calls() {
    let guide = clscope_tests::artifacts::root().join("tools/guide/changes.md");
    let guide = std::fs::read_to_string(guide).unwrap();
    for name in EXTRA {
        assert!(guide.contains(&format!("| `{name}` | every run |")), "{name}");
    }
}

#[test]
fn each_call_reaches_the_real_function_exactly_once() {
    for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
        for line in APPS {
            let stage = Stage::new(Runtime::FakeLoader);
            let (bare, with) = (run(&stage, Mode::Bare, line, &[]), run(&stage, mode, line, &[]));
            let polls = line.starts_with("poll_only");
            for name in bare.calls.keys().chain(with.calls.keys()) {
                let (once, found) = (
                    bare.calls.get(name).copied().unwrap_or(0),
                    with.calls.get(name).copied().unwrap_or(0),
                );
                if EXTRA.contains(&name.as_str()) {
                    assert!(
                        found >= once || polls,
                        "{mode:?} {line}: {name} {found} times, bare {once}"
                    );
                } else {
                    assert_eq!(found, once, "{mode:?} {line}: {name}");
                }
            }
            assert_eq!(with.commands, bare.commands, "{mode:?} {line}");
        }
    }
}

#[test]
fn every_handle_is_released() {
    for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
        for line in APPS {
            let stage = Stage::new(Runtime::FakeLoader);
            let (bare, with) = (run(&stage, Mode::Bare, line, &[]), run(&stage, mode, line, &[]));
            assert_eq!(with.misuse, Vec::<String>::new(), "{mode:?} {line}");
            for (kind, fields) in &with.objects {
                let of_bare = |field: &str| {
                    bare.objects.get(kind).and_then(|o| o.get(field)).copied().unwrap_or(0)
                };
                for field in ["live", "held"] {
                    assert_eq!(
                        fields[field],
                        of_bare(field),
                        "{mode:?} {line}: {kind} {field}: {with:?}"
                    );
                }
                if kind != "event" {
                    assert_eq!(fields["created"], of_bare("created"), "{mode:?} {line}: {kind}");
                }
            }
        }
    }
}

#[test]
fn every_method_of_timing_releases_what_it_takes() {
    for method in ["event", "callback", "sync", "off", "sample", "auto"] {
        for line in APPS {
            let stage = Stage::new(Runtime::FakeLoader);
            let with = run(&stage, Mode::Preload, line, &[("CLSCOPE_DEVICE_TIMING", method)]);
            assert_eq!(with.misuse, Vec::<String>::new(), "{method} {line}");
            for (kind, fields) in &with.objects {
                assert_eq!((fields["live"], fields["held"]), (0, 0), "{method} {line}: {kind}");
            }
        }
    }
}

#[test]
fn with_timing_off_nothing_is_asked_of_the_runtime() {
    let stage = Stage::new(Runtime::FakeLoader);
    let bare = run(&stage, Mode::Bare, "linked 100", &[]);
    let with = run(&stage, Mode::Preload, "linked 100", &[("CLSCOPE_DEVICE_TIMING", "off")]);
    for name in ["clGetEventInfo", "clGetEventProfilingInfo", "clReleaseEvent", "clRetainEvent"] {
        assert_eq!(with.calls.get(name), bare.calls.get(name), "{name}");
    }
}

#[test]
fn the_number_of_events_held_is_bounded() {
    let stage = Stage::new(Runtime::FakeLoader);
    // Nothing completes before the last wait, so the recorder could hold them all.
    let script = stage.join("script");
    std::fs::write(&script, "complete wait\nauto\n").unwrap();
    let settings = [("FAKE_CL_SCRIPT", script.to_str().unwrap())];
    let bare = run(&stage, Mode::Bare, "many_commands 200000", &settings);
    let with = run(&stage, Mode::Preload, "many_commands 200000", &settings);
    let own = bare.objects.get("event").map_or(0, |events| events["peak"]);
    let events = &with.objects["event"];
    assert_eq!((events["live"], events["held"]), (0, 0));
    // It holds as many as its queue of commands in flight has room for (and the application's own
    // at that time), and the one that is about to find it full.
    assert!((MOST_HELD..=MOST_HELD + own + 1).contains(&events["peak"]), "{events:?}, own {own}");
}

#[test]
fn a_failure_of_the_runtime_is_passed_on_once() {
    for (function, code) in [
        ("clCreateBuffer", -4),
        ("clEnqueueNDRangeKernel", -54),
        ("clCreateKernel", -46),
        ("clBuildProgram", -11),
        ("clCreateContext", -2),
    ] {
        let stage = Stage::new(Runtime::FakeLoader);
        let fail = format!("{function}:{code}");
        let seen = |mode: Mode| {
            let report = stage.join(&format!("{mode:?}.report"));
            let app = stage
                .app(mode, "t", "linked 3")
                .env("FAKE_CL_FAIL", &fail)
                .env("FAKE_CL_REPORT", &report)
                .run();
            let text = std::fs::read_to_string(report).unwrap();
            let calls = text
                .lines()
                .find(|l| l.starts_with(&format!("call {function} ")))
                .unwrap()
                .to_owned();
            (app.status.code(), app.stdout.clone(), calls)
        };
        let bare = seen(Mode::Bare);
        assert_ne!(bare.0, Some(0), "{fail}");
        for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
            assert_eq!(seen(mode), bare, "{mode:?} {fail}");
        }
    }
}

/// An error that our event may have caused is tried once more as the application wrote it, and then
/// it is the application's.
#[test]
fn an_enqueue_that_our_event_may_have_broken_is_repeated_without_it() {
    let stage = Stage::new(Runtime::FakeLoader);
    // The third launch fails, its repetition succeeds: the application sees a success.
    let with = stage
        .app(Mode::Preload, "t", "linked 5")
        .env("FAKE_CL_FAIL", "clEnqueueNDRangeKernel:-5@3")
        .run()
        .success();
    assert!(with.stdout.contains("right"));
    let recorded = clscope_tests::Recorded::read(&[&stage.trace("t")]);
    assert_eq!(recorded.launches(), 5);
    // Where every launch fails, the application gets the runtime's error.
    let with = stage
        .app(Mode::Preload, "u", "linked 5")
        .env("FAKE_CL_FAIL", "clEnqueueNDRangeKernel:-5")
        .run();
    assert_eq!(with.status.code(), Some(3));
    assert!(with.stderr.contains("gave -5"), "{}", with.stderr);
}

/// Of captures, too, whatever the application does while copies of its memory are under way.
#[test]
fn captures_give_back_all_that_they_hold() {
    for (setting, value) in [("CLSCOPE_CAPTURE", "*:1,2,3,50"), ("CLSCOPE_SAMPLE", "4")] {
        for line in APPS.into_iter().chain(["captured_apart many"]) {
            let stage = Stage::new(Runtime::FakeLoader);
            let bare = run(&stage, Mode::Bare, line, &[]);
            let with = run(&stage, Mode::Preload, line, &[(setting, value)]);
            assert_eq!(with.misuse, Vec::<String>::new(), "{setting} {line}");
            for (kind, fields) in &with.objects {
                let of_bare = bare.objects.get(kind).and_then(|of| of.get("held")).copied();
                assert_eq!(
                    fields["held"],
                    of_bare.unwrap_or(0),
                    "{setting} {line}: {kind} {with:?}"
                );
            }
            let launches = |of: &Report| of.calls.get("clEnqueueNDRangeKernel").copied();
            assert_eq!(launches(&with), launches(&bare), "{setting} {line}");
        }
    }
}
