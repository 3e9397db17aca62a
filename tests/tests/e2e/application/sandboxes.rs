//! An application that shuts itself into a sandbox goes on when it is recorded by `clscope record`:
//! from then on its calls lead to no system call that it and its runtime do not make. Where nobody
//! runs beside and calls fail, it goes on as well, and what is lost is said.

use clscope_tests::{Mode, Recorded, Run, Runtime, Stage};
use clscope_trace::file::read_u32;
use clscope_trace::ring_file::control;

/// What the recorder, or the C library for it, could ask of the system.
const CALLS: &[&str] = &[
    "pwrite64",
    "fallocate",
    "getpid",
    "gettid",
    "prlimit64",
    "madvise",
    "mmap",
    "munmap",
    "mprotect",
    "brk",
    "clone3",
    "clone",
    "sched_getaffinity",
    "sched_yield",
    "statx",
    "newfstatat",
    "fstat",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigtimedwait",
    "sigaltstack",
    "set_robust_list",
    "prctl",
    "openat",
    "close",
    "fcntl",
    "ftruncate",
    "mkdirat",
    "renameat",
    "unlinkat",
    "flock",
    "getrandom",
    "mincore",
    "clock_nanosleep",
    "nanosleep",
    "clock_gettime",
    "pread64",
    "read",
    "readlink",
    "getppid",
    "geteuid",
    "memfd_create",
];
/// What an application does in there.
const WHAT: &[&str] = &[
    "calls", "launches", "kernels", "events", "map", "user", "build", "context", "threads", "fork",
    "leave",
];

/// Exit code, signal and output of a run.
type Seen = (Option<i32>, Option<i32>, String);

/// The application bare, if it is right there.
fn bare(stage: &Stage, line: &str) -> Option<Seen> {
    let bare = stage.app(Mode::Bare, "bare", line).run();
    let (code, signal, out) = bare.seen();
    (code == Some(0)).then(|| (code, signal, out.to_owned()))
}

/// What differs from bare in one way in.
fn difference(stage: &Stage, mode: Mode, line: &str, bare: &Seen) -> Option<String> {
    differs(stage, line, bare, stage.app(mode, "t", line)).map(|what| format!("{mode:?}: {what}"))
}

/// What differs from bare in a run.
fn differs(stage: &Stage, line: &str, bare: &Seen, run: Run) -> Option<String> {
    stage.forget("t");
    let with = run.run();
    let same = with.seen() == (bare.0, bare.1, bare.2.as_str());
    (!same).then(|| format!("{line}: {:?}\n{}", with.seen(), with.stderr))
}

/// Nor is it where launches are drawn to be captured: before each it is found out whether the
/// process is in a sandbox.
#[test]
fn nothing_is_captured_in_a_sandbox() {
    let stage = Stage::new(Runtime::FakeLoader);
    let mut wrong = Vec::new();
    for what in WHAT {
        let line = format!("sandboxed kill others {what}");
        let bare = bare(&stage, &line).unwrap_or_else(|| panic!("{line} is right bare"));
        let run = stage.app(Mode::Record, "t", &line).env("CLSCOPE_SAMPLE", "4");
        wrong.extend(differs(&stage, &line, &bare, run));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each kernel that is launched in there alone is named with the reason why nothing is captured of it,
/// by whatever asks for captures.
#[test]
fn kernels_of_a_sandbox_are_named_where_captures_are_asked_for() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let line = "sandboxed kill none kernels 400";
        let (code, _, out) = bare(&stage, line).expect("it is right bare");
        let program = clscope_tests::artifacts().fixture("sandboxed").display().to_string();
        for option in ["--replay=5s", "--mix", "--capture=*", "--replay=plan"] {
            let words = ["record", "-f", "-o", "t", "--sensors", "off", option, "--", &program];
            let run = stage.clscope(words).args(line.split(' ').skip(1)).run();
            assert_eq!(run.seen(), (code, None, out.as_str()), "{option}: {}", run.stderr);
            let json = stage.clscope(["report", "t", "--format", "json"]).run().success().stdout;
            let report: serde_json::Value = serde_json::from_str(&json).unwrap();
            let refused = report["captures"]["refused"].as_array().unwrap();
            let page = stage.clscope(["report", "--all", "t"]).run().success().stdout;
            let page = page.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
            for kernel in ["noop", "increment"] {
                let is_said = |row: &&serde_json::Value| {
                    row["kernel"] == kernel && row["reason"].as_str().unwrap().contains("sandbox")
                };
                assert!(refused.iter().any(|row| is_said(&row)), "{option} {kernel}: {refused:#?}");
                let named = |part: &str| part.contains(kernel) && part.contains("sandbox");
                assert!(page.split("not captured: ").any(named), "{option} {kernel}: {page}");
                assert!(run.stderr.lines().any(named), "{option} {kernel}: {}", run.stderr);
            }
        }
    }
}

/// A filter that kills at whatever is not needed, for each thing that an application does.
#[test]
fn nothing_is_asked_of_the_system_in_a_sandbox() {
    let stage = Stage::new(Runtime::FakeLoader);
    let mut wrong = Vec::new();
    for what in WHAT {
        let line = format!("sandboxed kill others {what}");
        let bare = bare(&stage, &line).unwrap_or_else(|| panic!("{line} is right bare"));
        wrong.extend(difference(&stage, Mode::Record, &line, &bare));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// How often an application is run bare before a call is taken for the recorder's: threads of a
/// runtime make some calls (Intel's: `sched_yield`) in few of its runs.
const BARE_RUNS: usize = 60;

/// Each call by itself, on real runtimes, which make more of them.
#[test]
fn no_call_of_the_list_is_made_in_a_sandbox() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let mut wrong = Vec::new();
        let mut tried = 0;
        for (call, what) in CALLS.iter().zip(WHAT.iter().cycle()) {
            let line = format!("sandboxed kill {call} {what} 3000");
            let Some(right) = bare(&stage, &line) else { continue };
            tried += 1;
            let found = difference(&stage, Mode::Record, &line, &right);
            wrong.extend(found.filter(|_| (0..BARE_RUNS).all(|_| bare(&stage, &line).is_some())));
        }
        assert!(tried > CALLS.len() / 2, "{tried} were right bare");
        assert!(wrong.is_empty(), "{:?}: {}", stage.runtime, wrong.join("\n"));
    }
}

/// A filter that lets calls fail: whoever writes, the application goes on.
#[test]
fn calls_that_fail_in_a_sandbox_disturb_nobody() {
    let stage = Stage::new(Runtime::FakeLoader);
    let mut wrong = Vec::new();
    for what in WHAT {
        let line = format!("sandboxed error others {what}");
        let Some(bare) = bare(&stage, &line) else { continue };
        for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
            wrong.extend(difference(&stage, mode, &line, &bare));
        }
    }
    let driver = Stage::new(Runtime::FakeDriver);
    for what in ["calls", "launches", "leave"] {
        let line = format!("sandboxed error pwrite64 {what}");
        let bare = bare(&driver, &line);
        wrong.extend(bare.and_then(|bare| difference(&driver, Mode::Layer, &line, &bare)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// By whichever way the recorder comes in.
#[test]
fn every_way_of_record_is_as_quiet() {
    let stage = Stage::new(Runtime::FakeDriver);
    let program = clscope_tests::artifacts().fixture("sandboxed");
    for way in ["preload", "layer", "preload,audit"] {
        for what in WHAT {
            let line = format!("sandboxed kill others {what}");
            let Some((code, signal, out)) = bare(&stage, &line) else {
                panic!("{line} is right bare")
            };
            let with = stage
                .clscope(["record", "-q", "-f", "-o", "t", "--inject", way, "--"])
                .arg(&program)
                .args(line.split(' ').skip(1))
                .run();
            assert_eq!(with.seen(), (code, signal, out.as_str()), "{way} {line}: {}", with.stderr);
        }
    }
}

/// All that was done in there is in the trace, though its process could write nothing.
#[test]
fn what_happens_in_a_sandbox_is_recorded() {
    let stage = Stage::new(Runtime::FakeLoader);
    let (_, recorded) = stage.record(Mode::Record, "sandboxed kill others threads 40000");
    let set = recorded.only().count("clSetKernelArg");
    // Those of opening, and of 40 threads.
    assert_eq!(set, 7 + 40 * 10_000);
    assert_eq!(recorded.only().dropped, 0);
    let (_, recorded) = stage.record(Mode::Record, "sandboxed kill others launches");
    assert_eq!(recorded.only().launches(None), 5 + 1500 + 5);
    let (_, recorded) = stage.record(Mode::Record, "sandboxed kill others build");
    assert_eq!(recorded.only().count("clBuildProgram"), 2);
}

/// Where nobody runs beside and nothing can be written, the trace says what is missing.
#[test]
fn what_cannot_be_written_in_a_sandbox_is_counted() {
    let stage = Stage::new(Runtime::FakeLoader);
    let (finished, recorded) = stage.record(Mode::Preload, "sandboxed error others calls 400000");
    assert_eq!(finished.status.code(), Some(0));
    let process = recorded.only();
    let missing = 7 + 400_000 - process.count("clSetKernelArg") as u64;
    // The launches at the end are missing as well.
    let others = process.dropped.checked_sub(missing);
    assert!(missing > 0, "nothing was dropped");
    assert!(others.is_some_and(|others| others < 100), "{missing} missing, {others:?} others");
}

/// Waits until `clscope record` has told the only process of a trace that it is in a sandbox.
fn wait_until_seen(trace: &std::path::Path) {
    let seen = || {
        let entries = std::fs::read_dir(trace).into_iter().flatten().flatten();
        let mut rings =
            entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "ring"));
        let bytes = rings.next().and_then(|ring| std::fs::read(ring).ok()).unwrap_or_default();
        read_u32(&bytes, control::SANDBOXED) == Some(1)
    };
    while !seen() {
        std::thread::yield_now();
    }
}

/// A forked child would have to make files: its calls are not recorded, and the trace says so.
#[test]
fn a_child_that_is_forked_in_a_sandbox_makes_its_calls() {
    let stage = Stage::new(Runtime::FakeLoader);
    let mut app = stage.app(Mode::Record, "t", "sandboxed kill others child 1000").talk();
    assert!(app.hear().ends_with("right"));
    assert_eq!(app.hear(), "in");
    wait_until_seen(&stage.trace("t"));
    assert!(app.tell("go").ends_with("right"));
    assert_eq!(app.end().code(), Some(0));
    let recorded = Recorded::read(&[&stage.trace("t")]);
    assert_eq!(recorded.only().count("clSetKernelArg"), 7 + 1000);
    let text = stage.clscope(["report", "--all", "t.clscope"]).run().success().stderr;
    assert!(text.contains("1 forked child made OpenCL calls in a sandbox"), "{text}");
}

/// Killed, `clscope record` leaves an application behind that goes on as before; what its rings do
/// not hold is counted.
#[test]
fn an_application_in_a_sandbox_outlives_record() {
    let stage = Stage::new(Runtime::FakeLoader);
    // With a limit of its address space a process maps less room for records.
    let app = stage.app(Mode::Record, "t", "sandboxed kill others child 700000");
    let mut app = app.resource_limit(libc::RLIMIT_AS, 16 << 30).talk();
    assert!(app.hear().ends_with("right"));
    assert_eq!(app.hear(), "in");
    wait_until_seen(&stage.trace("t"));
    // SAFETY: a process that this test has started.
    assert_eq!(unsafe { libc::kill(app.pid() as i32, libc::SIGKILL) }, 0);
    assert!(app.tell("go").ends_with("right"), "it goes on");
    let recorded = Recorded::read(&[&stage.trace("t")]);
    let missing = 7 + 700_000 - recorded.only().count("clSetKernelArg") as u64;
    let others = recorded.only().dropped.checked_sub(missing);
    assert!(missing > 0 && others.is_some_and(|others| others < 100), "{missing}, {others:?}");
}

/// Options that look at each call ask for nothing but that signals be held back.
#[test]
fn places_of_calls_are_found_in_a_sandbox() {
    let stage = Stage::new(Runtime::FakeLoader);
    for option in ["--check", "--call-sites"] {
        for (call, what) in CALLS.iter().zip(["launches", "build", "events"].iter().cycle()) {
            if *call == "rt_sigprocmask" {
                continue;
            }
            let line = format!("sandboxed kill {call} {what} 300");
            let Some((code, signal, out)) = bare(&stage, &line) else { continue };
            let program = clscope_tests::artifacts().fixture("sandboxed");
            let with = stage
                .clscope(["record", "-q", "-f", "-o", "t", option, "--"])
                .arg(&program)
                .args(line.split(' ').skip(1))
                .run();
            assert_eq!(with.seen(), (code, signal, out.as_str()), "{option} {line}");
        }
    }
}
