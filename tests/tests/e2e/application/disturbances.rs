//! What happens to a thread or a process in the middle of our work is the application's affair:
//! cancellation, forks, limits that it lowers, threads that race for the first call. It goes as
//! without us.

use clscope_tests::{Mode, Recorded, Runtime, Stage};

/// Kinds of calls in which no runtime here has a cancellation point of its own, and how often each
/// is made.
const UNCANCELLED: &str =
    "cancel 300 platforms info retain setarg buffer kernel queue userevent event launch write";

#[test]
fn a_cancelled_thread_ends_where_it_would_without_us() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        for line in [UNCANCELLED, "cancel 20 context"] {
            let bare = stage.app(Mode::Bare, "bare", line).run().success();
            for mode in Mode::RECORDING {
                stage.forget("t");
                let with = stage.app(mode, "t", line).run();
                assert_eq!(with.seen(), bare.seen(), "{mode:?} {line}: {}", with.stderr);
                let recorded = Recorded::read(&[&stage.trace("t")]);
                assert_eq!(
                    recorded.only().launches(Some("vector_add")),
                    5,
                    "{mode:?}: what follows is recorded"
                );
            }
        }
    }
}

/// A runtime's own start has cancellation points; the fake library has none.
#[test]
fn a_thread_is_not_cancelled_in_the_first_call_of_a_process() {
    let stage = Stage::new(Runtime::FakeLoader);
    let bare = stage.app(Mode::Bare, "bare", "cancel 50 first").run().success();
    for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
        stage.forget("t");
        let with = stage.app(mode, "t", "cancel 50 first").run();
        assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
        let recorded = Recorded::read(&[&stage.trace("t")]);
        assert_eq!(recorded.only().count("clGetPlatformIDs"), 51, "{mode:?}");
    }
}

/// The fake runtime, as loader and behind one, with the ways of recording that each allows.
fn of_the_fake() -> [(Runtime, &'static [Mode]); 2] {
    [
        // A layer needs a loader that knows of layers.
        (Runtime::FakeLoader, &[Mode::Preload, Mode::Audit, Mode::Record]),
        (Runtime::FakeDriver, &Mode::RECORDING),
    ]
}

#[test]
fn a_child_forked_while_another_thread_is_in_our_midst_goes_on() {
    for (runtime, modes) in of_the_fake() {
        let stage = Stage::new(runtime.clone());
        for kind in ["context", "kernel", "userevent", "launch"] {
            let line = format!("fork_held {kind} 40");
            let line = line.as_str();
            let bare = stage.app(Mode::Bare, "bare", line).run().success();
            for mode in modes {
                stage.forget("t");
                let with = stage.app(*mode, "t", line).env("CLSCOPE_KERNELS", "inc*").run();
                assert_eq!(
                    with.seen(),
                    bare.seen(),
                    "{runtime:?} {mode:?} {line}: {}",
                    with.stderr
                );
            }
        }
    }
}

#[test]
fn a_limit_of_file_sizes_that_the_application_lowers_does_not_end_it() {
    for runtime in Runtime::real().into_iter().chain([Runtime::FakeDriver]) {
        let stage = Stage::new(runtime.clone());
        for bytes in [0, 20_000] {
            let line = format!("lower_limit {bytes} 20000");
            // What it prints is written before; our messages would meet the limit, too.
            let bare = stage.app(Mode::Bare, "bare", &line).run().success();
            for mode in Mode::RECORDING {
                stage.forget("t");
                let with = stage.app(mode, "t", &line).run();
                assert_eq!(
                    with.seen(),
                    bare.seen(),
                    "{runtime:?} {mode:?} {bytes}: {}",
                    with.stderr
                );
            }
        }
    }
}

#[test]
fn threads_that_race_for_a_platforms_first_discovery_come_through() {
    for runtime in Runtime::real() {
        for mode in Mode::RECORDING {
            for _ in 0..5 {
                let (finished, recorded) = Stage::new(runtime.clone()).record(mode, "discover 4");
                assert_eq!(finished.status.code(), Some(0), "{mode:?}: {}", finished.stderr);
                assert_eq!(finished.stdout, "contexts 4\n", "{mode:?}");
                let devices = &recorded.only().definitions.devices;
                assert!(!devices.is_empty(), "{mode:?}");
                assert!(devices.values().all(|d| !d.name.is_empty()), "{mode:?}: {devices:?}");
            }
        }
    }
}

/// A signal's handler that leaves a call by siglongjmp runs nothing of ours: what comes afterwards
/// is recorded all the same, and what a handler calls in the middle of a call is not.
#[test]
fn calls_after_one_that_was_left_by_siglongjmp_are_recorded() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        for how in ["same", "deeper", "stack", "inside"] {
            let line = format!("jump_out {how} 20 1000");
            let bare = stage.app(Mode::Bare, "bare", &line).run().success();
            for mode in Mode::RECORDING {
                let (with, recorded) = stage.record(mode, &line);
                assert_eq!(with.seen(), bare.seen(), "{mode:?} {how}: {}", with.stderr);
                let process = recorded.only();
                assert_eq!(process.count("clRetainMemObject"), 20_000, "{mode:?} {how}");
                // A call that was left, or three pairs of calls in the middle of one.
                let lost = if how == "inside" { 20 * 6 } else { 20 };
                assert_eq!(process.dropped, lost, "{mode:?} {how}");
                let trace = stage.trace("t").display().to_string();
                let told = stage.clscope(["report", "--all", &trace]).run().success().stderr;
                let reason = if how == "inside" { "signal handler" } else { "siglongjmp" };
                assert!(told.contains(reason), "{mode:?} {how}: {told}");
            }
        }
    }
}

/// What is held back in one thread goes to another, whose stack no handler may leave by siglongjmp.
/// So a thread that records call after call holds nothing back, and a handler may leave the
/// recorder itself.
#[test]
fn signals_stay_with_their_thread_and_may_leave_the_recorder() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        for line in ["alarms mask 300", "alarms jump 100"] {
            let bare = stage.app(Mode::Bare, "bare", line).run().success();
            for mode in Mode::RECORDING {
                let (with, recorded) = stage.record(mode, line);
                assert_eq!(with.seen(), bare.seen(), "{mode:?} {line}: {}", with.stderr);
                let process = recorded.only();
                let made: usize = with
                    .stderr
                    .lines()
                    .find_map(|l| l.strip_prefix("calls "))
                    .map_or(0, |n| n.trim().parse().expect("a number"));
                let jumps = if line.contains("jump") { 100 } else { 0 };
                let count = process.count("clCreateSubBuffer");
                // A call that was left may have been recorded just before.
                assert!((made..=made + jumps).contains(&count), "{mode:?} {line}: {count} {made}");
                assert!(process.dropped <= jumps as u64, "{mode:?} {line}: {}", process.dropped);
                let trace = stage.trace("t").display().to_string();
                let told = stage.clscope(["report", "--all", &trace]).run().success().stderr;
                assert!(!told.contains("missing"), "{mode:?} {line}: {told}");
            }
        }
    }
}

/// A handler may leave the recorder while its thread has locks: no other thread waits for them, and
/// what comes afterwards is recorded for all. With a runtime that has none itself.
#[test]
fn locks_that_a_handler_left_taken_hold_nobody_up() {
    for (runtime, modes) in of_the_fake() {
        let stage = Stage::new(runtime.clone());
        let line = "jump_anywhere 3 300 2000";
        let bare = stage.app(Mode::Bare, "bare", line).run().success();
        for mode in modes {
            for places in ["0", "4"] {
                stage.forget("t");
                let with = stage.app(*mode, "t", line).env("CLSCOPE_CALL_SITES", places);
                let with = with.env("CLSCOPE_KERNELS", "no*").limit(60).run();
                assert_eq!(with.seen(), bare.seen(), "{runtime:?} {mode:?}: {}", with.stderr);
                let recorded = Recorded::read(&[&stage.trace("t")]);
                let process = recorded.only();
                // Those behind the jumps, none of which is missing.
                let count = process.count("clRetainContext");
                assert!(count >= 3 * 2020, "{runtime:?} {mode:?}: {count}");
                assert!(process.dropped <= 900, "{runtime:?} {mode:?}: {}", process.dropped);
            }
        }
    }
}

#[test]
fn nothing_is_written_through_links_nor_into_anothers_directory() {
    for runtime in Runtime::real() {
        nothing_is_written_through_links_beside(runtime);
    }
}

fn nothing_is_written_through_links_beside(runtime: Runtime) {
    let stage = Stage::new(runtime);
    let bare = stage.app(Mode::Bare, "bare", "linked 3").run().success();
    let secret = stage.join("secret");
    std::fs::write(&secret, "mine").unwrap();
    // The name under which meta.json is written first is planted with the process's own id.
    let app = clscope_tests::artifacts().fixture("linked");
    let script = format!(
        "mkdir t.clscope && for n in .meta.$$-0.json meta.json $$-0.defs $$-0.ring; do \
         ln -s '{}' t.clscope/$n; done; exec '{}' 3",
        secret.display(),
        app.display()
    );
    let with = stage.program(Mode::Preload, "t", "sh").args(["-c", &script]).run();
    assert_eq!(with.seen(), bare.seen(), "{}", with.stderr);
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), "mine");
    // A directory that is a link.
    stage.forget("t");
    std::fs::create_dir(stage.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(stage.join("elsewhere"), stage.trace("t")).unwrap();
    for mode in [Mode::Preload, Mode::Layer, Mode::Audit] {
        let with = stage.app(mode, "t", "linked 3").run();
        assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
        assert!(with.stderr.contains("t.clscope"), "{mode:?} says it: {}", with.stderr);
        assert_eq!(std::fs::read_dir(stage.join("elsewhere")).unwrap().count(), 0, "{mode:?}");
    }
}

/// A directory that another user prepared, or that anybody may write to, is theirs to plant names
/// in and to read: nothing is written there, and the application runs on.
#[test]
fn nothing_is_written_where_other_users_may_put_files() {
    for runtime in Runtime::real().into_iter().chain([Runtime::FakeDriver]) {
        nothing_is_written_where_others_may(&Stage::new(runtime));
    }
}

fn nothing_is_written_where_others_may(stage: &Stage) {
    use std::os::unix::fs::{PermissionsExt, chown};
    let bare = stage.app(Mode::Bare, "bare", "linked 3").run().success();
    let directory = stage.trace("t");
    let mut ways = vec![(0o777, None), (0o1777, None)];
    std::fs::create_dir(&directory).unwrap();
    match chown(&directory, Some(12_345), None) {
        Ok(()) => ways.push((0o755, Some(12_345))),
        Err(error) => clscope_tests::skip(&format!("cannot give a directory away: {error}"), false),
    }
    for (mode, owner) in ways {
        for way in [Mode::Preload, Mode::Layer, Mode::Audit] {
            stage.forget("t");
            std::fs::create_dir(&directory).unwrap();
            std::fs::set_permissions(&directory, PermissionsExt::from_mode(mode)).unwrap();
            if let Some(owner) = owner {
                chown(&directory, Some(owner), None).unwrap();
            }
            let with = stage.app(way, "t", "linked 3").run();
            assert_eq!(with.seen(), bare.seen(), "{way:?} {mode:o}: {}", with.stderr);
            let reason = match owner {
                Some(owner) => format!("user with id {owner}"),
                None => format!("its mode is {mode:04o}"),
            };
            let told = with.stderr.contains("t.clscope") && with.stderr.contains(&reason);
            assert!(told, "{way:?} {mode:o}: {}", with.stderr);
            assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "{way:?} {mode:o}");
        }
    }
    // Shared on purpose.
    stage.forget("t");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).unwrap();
    let with = stage.app(Mode::Preload, "t", "linked 3").env("CLSCOPE_SHARED", "1").run();
    assert_eq!(with.seen(), bare.seen(), "{}", with.stderr);
    assert_eq!(Recorded::read(&[&directory]).only().launches(None), 3);
}

/// What a process can do with six descriptors it can do recorded. Programs are compiled before:
/// PoCL's linker needs more.
#[test]
fn an_application_that_may_have_few_descriptors_has_them_all() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let app = clscope_tests::artifacts().fixture("linked");
        stage.app(Mode::Bare, "bare", "linked 3").run().success();
        let script = format!("ulimit -n 6; exec '{}' 3", app.display());
        let bare = stage.program(Mode::Bare, "bare", "sh").args(["-c", &script]).run().success();
        for mode in Mode::RECORDING {
            stage.forget("t");
            let with = stage.program(mode, "t", "sh").args(["-c", &script]).run();
            assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
            let recorded = Recorded::read(&[&stage.trace("t")]);
            assert_eq!(recorded.only().launches(None), 3, "{mode:?}");
        }
    }
}

/// Where the application runs is its own affair: the trace is named by its whole path.
#[test]
fn applications_in_a_directory_that_takes_no_files_are_recorded_elsewhere() {
    let stage = Stage::new(Runtime::Pocl);
    let app = clscope_tests::artifacts().fixture("linked");
    let command = clscope_tests::artifacts().clscope();
    for script in [
        // Root writes to a directory whatever its mode; /proc takes no file of anybody's.
        "cd /proc && exec",
        "mkdir gone && cd gone && rmdir ../gone && exec",
    ] {
        let bare = format!("{script} '{}' 3", app.display());
        let bare = stage.program(Mode::Bare, "bare", "sh").args(["-c", &bare]).run().success();
        stage.forget("t");
        let with = format!(
            "{script} '{}' record -q -f -o '{}' -- '{}' 3",
            command.display(),
            stage.trace("t").display(),
            app.display()
        );
        let with = stage.program(Mode::Bare, "t", "sh").args(["-c", &with]).run();
        assert_eq!(with.seen(), bare.seen(), "{script}: {}", with.stderr);
        let recorded = Recorded::read(&[&stage.trace("t")]);
        assert_eq!(recorded.only().launches(None), 3, "{script}");
    }
}

/// The closing line is on a line of its own whatever the application wrote before it, to a file or
/// to a pipe that both streams lead to. A pipe does not show its last byte: an empty line may be
/// added there.
#[test]
fn the_closing_line_of_a_recording_begins_a_line() {
    let stage = Stage::new(Runtime::Pocl);
    let command = clscope_tests::artifacts().clscope();
    let said = |words: &str, streams: &str| {
        stage.forget("t");
        let script =
            format!("{{ '{}' record -f -o t -- sh -c \"{words}\" {streams}", command.display());
        stage.program(Mode::Bare, "t", "sh").args(["-c", &script]).run().success();
        std::fs::read_to_string(stage.join("said")).unwrap()
    };
    for (words, before) in
        [("printf partial >&2", "partial\n"), ("echo whole >&2", "whole\n"), ("true", "")]
    {
        let text = said(words, "; } 2>said");
        let rest = text.strip_prefix(before).unwrap_or_else(|| panic!("{text:?}"));
        assert!(rest.starts_with("clscope: ") && !rest.contains("\n\n"), "{text:?}");
    }
    for words in ["printf partial >&2", "printf partial", "echo whole", "true"] {
        for streams in ["2>&1; } | cat >said", "2>&1 >&2; } 2>&1 | cat >said"] {
            let text = said(words, streams);
            let own: Vec<&str> = text.lines().filter(|l| l.contains("clscope: ")).collect();
            assert!(!own.is_empty(), "{words}: {text:?}");
            assert!(own.iter().all(|l| l.starts_with("clscope: ")), "{words}: {text:?}");
            assert!(!text.contains("\n\n\n"), "{words}: {text:?}");
        }
    }
}

/// A container or chroot may lack /proc: the application runs there, and so does its recording.
#[test]
fn applications_in_a_world_without_proc_are_recorded() {
    use clscope_tests::{Limited, skip};
    let allowed = std::process::Command::new("unshare")
        .args(["-m", "sh", "-c", "umount -l /proc && test ! -e /proc/self"])
        .ended()
        .status
        .success();
    if !allowed {
        return skip("unshare may not take /proc away here (it needs CAP_SYS_ADMIN)", false);
    }
    let app = clscope_tests::artifacts().fixture("linked");
    let script = r#"umount -l /proc && exec "$0" "$@""#;
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        // Compiled before: a runtime's compiler may need /proc for itself.
        stage.app(Mode::Bare, "bare", "linked 3").run().success();
        let without = |mode: Mode| {
            stage.program(mode, "t", "unshare").args(["-m", "sh", "-c", script]).arg(&app).arg("3")
        };
        let bare = without(Mode::Bare).run();
        // Intel's runtime finds no device without it.
        let runs = bare.status.success();
        assert!(runs || runtime != Runtime::Pocl, "{}", bare.stderr);
        let launches = if runs { 3 } else { 0 };
        for mode in [Mode::Preload, Mode::Layer, Mode::Audit] {
            stage.forget("t");
            let with = without(mode).run();
            assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
            let recorded = Recorded::read(&[&stage.trace("t")]);
            assert_eq!(recorded.only().launches(None), launches, "{mode:?} {runtime:?}");
        }
        stage.forget("t");
        let command = clscope_tests::artifacts().clscope();
        let with = stage
            .program(Mode::Bare, "t", "unshare")
            .args(["-m", "sh", "-c", script])
            .arg(&command)
            .args(["record", "-q", "-f", "-o"])
            .arg(stage.trace("t"))
            .arg("--")
            .arg(&app)
            .arg("3")
            .run();
        assert_eq!(with.seen(), bare.seen(), "record: {}", with.stderr);
        let recorded = Recorded::read(&[&stage.trace("t")]);
        assert_eq!(recorded.only().launches(None), launches, "record {runtime:?}");
    }
}
