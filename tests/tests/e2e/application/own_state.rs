//! What a thread and a process have of their own stays theirs when they are recorded: how
//! floating-point numbers are rounded and what traps, `errno`, descriptors, threads, the counts of
//! their objects.

use clscope_tests::{Finished, Mode, Run, Runtime, Stage, artifacts};

/// Ways of `clscope record`.
const WAYS: [&str; 5] = ["--capture=*", "--mix", "--replay=5s", "--check", "--device-timing=auto"];

fn command(stage: &Stage, way: &str, line: &str) -> Run {
    let mut words = line.split(' ');
    let program = artifacts().fixture(words.next().unwrap()).display().to_string();
    let record = ["record", "-q", "-f", "-o", "t", "--sensors=off", way, "--", &program];
    stage.clscope(record).args(words)
}

fn recorded(stage: &Stage, way: &str, line: &str) -> Finished {
    command(stage, way, line).run()
}

#[track_caller]
fn same(runtime: Runtime, lines: &[&str]) {
    let stage = Stage::new(runtime);
    for line in lines {
        let bare = stage.app(Mode::Bare, "bare", line).run();
        assert_eq!(bare.status.code(), Some(0), "bare {line}: {}", bare.stderr);
        for way in WAYS {
            let with = recorded(&stage, way, line);
            let runtime = &stage.runtime;
            assert_eq!(with.seen(), bare.seen(), "{way} {line} {runtime:?}: {}", with.stderr);
        }
    }
}

#[test]
fn what_a_thread_computes_with_is_the_applications() {
    // Runtimes raise flags of their own, now and then.
    let on_any = ["own_state traps", "own_state rounding"];
    same(Runtime::FakeLoader, &["own_state flags", "own_state errno"]);
    for runtime in Runtime::real().into_iter().chain([Runtime::FakeLoader]) {
        same(runtime, &on_any);
    }
}

#[test]
fn what_is_refused_is_not_read() {
    for runtime in Runtime::real() {
        same(runtime, &["own_state refusals"]);
    }
}

#[test]
fn references_are_counted_alike_on_any_stack() {
    for runtime in Runtime::real() {
        same(runtime, &["own_state count"]);
    }
}

/// Whatever was at an event's address before, and whoever made it.
#[test]
fn times_are_answered_as_the_application_asked_for_them() {
    for runtime in Runtime::real() {
        same(runtime, &["behind"]);
    }
}

/// A file that captures open would be one of them.
#[test]
fn nothing_takes_the_place_of_a_closed_standard_descriptor() {
    for runtime in Runtime::real() {
        let opens_none = runtime != Runtime::Pocl;
        let stage = Stage::new(runtime);
        let with = recorded(&stage, "--capture=*", "own_state descriptors");
        assert_eq!(with.status.code(), Some(0), "{}", with.stderr);
        // PoCL opens the code of a kernel at its first launch.
        assert!(!opens_none || with.stdout == "none was open\n", "{}", with.stdout);
        let json = stage.clscope(["report", "t", "--format", "json"]).run().success().stdout;
        let report: serde_json::Value = serde_json::from_str(&json).unwrap();
        for kernel in ["increment", "spin"] {
            let refused = report["captures"]["refused"].as_array().unwrap();
            let is_said = |row: &&serde_json::Value| {
                row["kernel"] == kernel && row["reason"].as_str().unwrap().contains("</dev/null")
            };
            assert!(refused.iter().any(|row| is_said(&row)), "{kernel}: {refused:#?}");
        }
    }
}

/// Asking a runtime about a program may take more than an application has.
#[test]
fn an_application_whose_memory_is_limited_has_it() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let line = "linked 50";
        for (of, most) in [(libc::RLIMIT_DATA, 300 << 20), (libc::RLIMIT_AS, 1200 << 20)] {
            let bare = stage.app(Mode::Bare, "bare", line).resource_limit(of, most).run();
            for way in WAYS {
                let with = command(&stage, way, line).resource_limit(of, most).run();
                let runtime = &stage.runtime;
                assert_eq!(with.seen(), bare.seen(), "{way} {of} {runtime:?}: {}", with.stderr);
            }
        }
    }
}

#[test]
fn an_application_that_may_have_few_threads_has_them_all() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let limited = |mode| {
            let app = stage.app(mode, "t", "own_state threads");
            app.resource_limit(libc::RLIMIT_NPROC, 255).run().success()
        };
        let bare = limited(Mode::Bare);
        for mode in Mode::RECORDING {
            stage.forget("t");
            assert_eq!(limited(mode).stdout, bare.stdout, "{mode:?} {:?}", stage.runtime);
        }
    }
}
