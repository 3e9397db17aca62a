//! The recorder waits in the application's threads for nothing that the application does not wait
//! for: not for commands behind a call that has come back, not for threads of its own while a
//! library is opened, not for what a callback has to do first. And where the application waits in
//! ways of its own, all its commands have times.

use clscope_tests::{Mode, Recorded, Runtime, Stage, artifacts};

/// What recording in every way leaves as it was.
fn goes_as_bare(runtime: &Runtime, line: &str, modes: &[Mode]) -> Vec<Recorded> {
    let stage = Stage::new(runtime.clone());
    let bare = stage.app(Mode::Bare, "bare", line).run().success();
    let record = |mode: &Mode| {
        stage.forget("t");
        let with = stage.app(*mode, "t", line).run();
        assert_eq!(with.seen(), bare.seen(), "{runtime:?} {mode:?} {line}: {}", with.stderr);
        Recorded::read(&[&stage.trace("t")])
    };
    modes.iter().map(record).collect()
}

/// Intel's runtime lets blocking writes of rectangles return with the command still to run.
#[test]
fn a_blocking_transfer_comes_back_when_it_would_without_us() {
    for runtime in Runtime::real() {
        for recorded in goes_as_bare(&runtime, "staged", &[Mode::Preload, Mode::Record]) {
            assert_eq!(recorded.only().launches(None), 8, "{runtime:?}");
            recorded.only().assert_all_timed();
        }
    }
}

#[test]
fn a_librarys_constructor_has_opencl_work_done() {
    for runtime in Runtime::real() {
        // Intel's runtime opens libraries wherever it makes a context: from another thread than the
        // constructor's that never ends, recorded or not.
        let threads: &[&str] = match runtime {
            Runtime::Intel(_) => &[],
            _ => &["constructor thread", "constructor threads 4", "constructor many 200000"],
        };
        for line in ["constructor self"].iter().chain(threads) {
            for recorded in
                goes_as_bare(&runtime, line, &[Mode::Preload, Mode::Layer, Mode::Record])
            {
                let process = recorded.only();
                assert!(process.count("clEnqueueFillBuffer") > 0, "{runtime:?} {line}");
                let repeated = if line.contains("many") { 200_000 } else { 0 };
                let seen = process.count("clRetainMemObject") + process.dropped as usize;
                assert_eq!(seen, repeated, "{runtime:?} {line}");
            }
        }
    }
}

/// The fake library opens no libraries: the first call of all may be made while one is opened.
#[test]
fn a_thread_of_a_constructor_makes_the_first_call() {
    let modes = [Mode::Preload, Mode::Audit, Mode::Record];
    for recorded in goes_as_bare(&Runtime::FakeLoader, "constructor first", &modes) {
        assert_eq!(recorded.only().count("clEnqueueFillBuffer"), 1);
    }
}

#[test]
fn commands_of_an_application_that_waits_by_callbacks_have_times() {
    for runtime in Runtime::real() {
        for kind in ["last", "each", "release", "marker", "cross", "chain", "exit"] {
            let line = format!("by_callback {kind}");
            for recorded in goes_as_bare(&runtime, &line, &[Mode::Preload, Mode::Record]) {
                let process = recorded.only();
                assert_eq!(process.launches(Some("spin")), 5, "{runtime:?} {kind}");
                let spins = process.commands.iter().filter(|c| c.kernel.as_deref() == Some("spin"));
                let timed = spins.filter(|c| c.raw().is_some()).count();
                assert_eq!(timed, 5, "{runtime:?} {kind}: {:?}", process.commands);
            }
        }
    }
}

/// Methods that wait by their nature see what may stand before a command, or give up.
#[test]
fn methods_that_wait_do_not_wait_for_what_the_application_has_yet_to_do() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for line in ["callback_lock", "callback_lock native"] {
            let bare = stage.app(Mode::Bare, "bare", line).run().success();
            for (name, value) in [
                ("CLSCOPE_DEVICE_TIMING", "sync"),
                ("CLSCOPE_SNAPSHOT", "1"),
                ("CLSCOPE_CAPTURE", "vector_add"),
            ] {
                stage.forget("t");
                let with = stage.app(Mode::Preload, "t", line).env(name, value).run();
                assert_eq!(with.seen(), bare.seen(), "{runtime:?} {name} {line}: {}", with.stderr);
            }
        }
    }
}

/// A preloaded library answers OpenCL's calls itself, with handles that no loader knows, while a
/// loader is in the process.
#[test]
fn an_implementation_that_is_preloaded_is_recorded() {
    let stage = Stage::new(Runtime::Pocl);
    let front = artifacts().fixture("fake").join("libfront.so");
    let run = |name: &str, command: &[&str]| {
        let run = match command {
            [] => stage.program(Mode::Bare, name, artifacts().fixture("linked")),
            words => stage
                .clscope(words)
                .arg(stage.trace(name))
                .arg("--")
                .arg(artifacts().fixture("linked")),
        };
        stage.runtime.select(run.env("LD_PRELOAD", &front)).arg("10").run().success()
    };
    let bare = run("bare", &[]);
    let with = run("t", &["record", "-o"]);
    assert_eq!(with.stdout, bare.stdout, "{}", with.stderr);
    let recorded = Recorded::read(&[&stage.trace("t")]);
    assert_eq!(recorded.only().launches(Some("vector_add")), 10);
    recorded.only().assert_all_timed();
}
