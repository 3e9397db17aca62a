//! Failures of ours are ours: no room, no permission, a limit. The application runs on as without
//! us, and the loss is said once and is in the trace.

use clscope_tests::{Limited, Mode, Recorded, Runtime, Stage, artifacts, skip};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

fn root() -> bool {
    // SAFETY: geteuid has no preconditions.
    unsafe { libc::geteuid() == 0 }
}

/// A small file system of its own, unmounted at the end.
pub struct Tmpfs(pub std::path::PathBuf);

impl Tmpfs {
    pub fn new(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let mounted = root()
            && Command::new("mount")
                .args(["-t", "tmpfs", "-o", size, "tmpfs"])
                .arg(at)
                .ended()
                .status
                .success();
        if !mounted {
            skip("a small file system cannot be mounted here (it needs root)", false);
        }
        mounted.then(|| Self(at.to_owned()))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).ended();
    }
}

#[test]
fn a_full_disk_stops_recording_and_not_the_application() {
    for (size, line) in [
        ("size=32k", "linked 10"),
        ("size=512k", "threads cheap 2 100000"),
        ("size=2m", "threads cheap 2 400000"),
    ] {
        let stage = Stage::new(Runtime::Pocl);
        let Some(disk) = Tmpfs::new(&stage.join("disk"), size) else { return };
        let bare = stage.app(Mode::Bare, "bare", line).run().success();
        for mode in [Mode::Preload, Mode::Layer] {
            let trace = disk.0.join(format!("{mode:?}.clscope"));
            let with = stage.app(mode, "t", line).env("CLSCOPE_TRACE", &trace).run();
            assert_eq!(with.seen(), bare.seen(), "{mode:?} {size}: {}", with.stderr);
            let said = with.stderr.lines().filter(|l| l.starts_with("clscope")).count();
            assert_eq!(said, 1, "{mode:?} {size}: once, and no more\n{}", with.stderr);
            if size != "size=32k" {
                let recorded = Recorded::read(&[&trace]);
                let process = recorded.only();
                assert!(
                    process.dropped > 0 || !process.definitions.warnings.is_empty(),
                    "{mode:?} {size}: the loss is in the trace"
                );
                assert!(
                    process.count("clSetKernelArg") > 100,
                    "{mode:?} {size}: what had room is there"
                );
            }
            let _ = std::fs::remove_dir_all(&trace);
        }
    }
}

#[test]
fn what_a_full_disk_did_not_take_is_counted() {
    counts_what_is_missing("threads cheap 2 20000");
}

/// Threads that begin on the full disk have no file of their own to count in.
#[test]
fn what_threads_did_that_a_full_disk_left_without_a_ring_is_counted() {
    counts_what_is_missing("threads cheap 200 200");
}

fn counts_what_is_missing(line: &str) {
    let stage = Stage::new(Runtime::Pocl);
    let Some(disk) = Tmpfs::new(&stage.join("disk"), "size=768k") else { return };
    stage.app(Mode::Preload, "whole", line).run().success();
    let whole = Recorded::read(&[&stage.trace("whole")]);
    let trace = disk.0.join("t.clscope");
    stage.app(Mode::Preload, "t", line).env("CLSCOPE_TRACE", &trace).run().success();
    let cut = Recorded::read(&[&trace]);
    let calls = |of: &Recorded| of.only().calls.iter().map(|c| c.times).sum::<usize>();
    let (all, kept, dropped) = (calls(&whole), calls(&cut), cut.only().dropped as usize);
    assert!(kept < all / 2, "{kept} of {all} calls had room: the disk is too large for this test");
    // Other records than calls are dropped too, a few in thousands here.
    assert!(
        (all..all + all / 100).contains(&(kept + dropped)),
        "{kept} calls kept and {dropped} records dropped of {all} calls"
    );
    let reasons = format!("{:?}", cut.issues);
    assert!(
        reasons.contains("Dropped") && !reasons.contains("Reentered"),
        "no signal handler was in this: {reasons}"
    );
}

/// The end of a process is a definition: where the disk took no more of these, nobody says that the
/// process was killed.
#[test]
fn an_end_that_a_full_disk_did_not_take_is_no_kill() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(disk) = Tmpfs::new(&stage.join("disk"), "size=3m") else { return };
    for mode in [Mode::Preload, Mode::Record] {
        let trace = disk.0.join("t.clscope");
        let app = artifacts().fixture("made_often");
        let run = match mode {
            Mode::Record => stage.clscope(["record", "-o"]).arg(&trace).arg("--").arg(app),
            _ => stage.app(mode, "t", "made_often").env("CLSCOPE_TRACE", &trace),
        };
        Runtime::Pocl.select(run).args(["kernel", "60000"]).run().success();
        let issues = Recorded::read(&[&trace]).issues;
        let is = |code| issues.iter().any(|issue| issue.kind.code() == code);
        assert!(is("end-unwritten") && !is("not-ended"), "{mode:?}: {issues:#?}");
        let page = stage.clscope(["report", "--format", "html"]).arg(&trace).run().success().stdout;
        let said = issues.iter().find(|issue| issue.kind.code() == "end-unwritten").unwrap();
        assert!(
            page.contains(&format!("<td>{}</td>", said.kind)) && !page.contains("it was killed")
        );
        std::fs::remove_dir_all(&trace).unwrap();
    }
}

/// Under `record` a warning comes once, however many processes have it: at the end, where it is not
/// written over. What somebody can still act upon comes at once, and what the trace cannot hold.
#[test]
fn a_warning_of_the_recorder_is_said_once() {
    let app = artifacts().fixture("linked");
    let record = |stage: &Stage, inject: &str, script: &str, quiet: Option<&str>| {
        stage.forget("t");
        let script = script.replace("APP", &app.display().to_string());
        let mut run = stage.clscope(["record", "-o", "t", "--inject", inject, "--", "sh", "-c"]);
        run = run.arg(script).env("CLSCOPE_BUDGET", "0");
        if let Some(quiet) = quiet {
            run = run.env("CLSCOPE_QUIET", quiet);
        }
        run.run().success().stderr
    };
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for inject in ["preload", "layer", "preload,audit"] {
            let script = "APP 3 && APP 3 && echo over >&2";
            let said = record(&stage, inject, script, None);
            let (during, after) = said.split_once("over\n").unwrap_or_else(|| panic!("{said}"));
            assert!(!during.contains("clscope: "), "{runtime:?} {inject}: {said}");
            assert_eq!(after.matches("CLSCOPE_BUDGET=0").count(), 1, "{inject}: {said}");
            assert!(after.contains("(2 processes or times)"), "{inject}: {said}");
            // Who asks for it has it at once from each as well.
            let said = record(&stage, inject, script, Some("0"));
            assert_eq!(said.matches("CLSCOPE_BUDGET=0").count(), 3, "{inject}: {said}");
        }
        // No trace, so nothing that could be said later.
        let said =
            record(&stage, "preload", "rm -r t.clscope && echo >t.clscope && exec APP 3", None);
        assert_eq!(said.matches("recording is off").count(), 1, "{runtime:?}: {said}");
        std::fs::remove_file(stage.trace("t")).unwrap();
    }
    let stage = Stage::new(Runtime::FakeLoader);
    let Some(disk) = Tmpfs::new(&stage.join("disk"), "size=2m") else { return };
    let app = artifacts().fixture("threads");
    let script = format!("'{}' cheap 2 400000 && echo over >&2", app.display());
    let with = stage
        .clscope(["record", "--sensors", "off", "-o", "disk/t", "--", "sh", "-c", &script])
        .run()
        .success();
    drop(disk);
    let (during, after) = with.stderr.split_once("over\n").unwrap_or_else(|| panic!("{with:?}"));
    assert_eq!(during.matches("records are being dropped").count(), 1, "{}", with.stderr);
    assert!(!after.contains("are being dropped"), "{}", with.stderr);
    assert!(after.contains(" records were dropped"), "the loss is counted: {}", with.stderr);
}

/// Who writes the trace got no processor while the application ran: no advice about the disk, and by
/// how much it came late.
#[test]
fn records_that_were_dropped_for_want_of_a_processor_are_told_with_figures() {
    let stage = Stage::new(Runtime::FakeLoader);
    let app = artifacts().fixture("threads");
    let script = format!("kill -STOP $PPID; '{}' cheap 2 1000000; kill -CONT $PPID", app.display());
    let run = stage
        .clscope([
            "record",
            "--sensors",
            "off",
            "--without",
            "joined-calls",
            "-o",
            "t",
            "--",
            "sh",
            "-c",
            &script,
        ])
        .run()
        .success();
    let said = &run.stderr;
    assert!(
        said.contains("records were dropped, because `clscope record` came too late"),
        "{said}"
    );
    assert!(!said.contains("Free space"), "{said}");
    // After two seconds the application's process writes by itself.
    if !said.contains("writes its trace itself") {
        assert!(said.contains("`clscope record` came back after "), "{said}");
        assert!(said.contains("leave a processor to `clscope record`"), "{said}");
    }
}

#[test]
fn a_disk_that_the_application_fills_is_no_trap() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(disk) = Tmpfs::new(&stage.join("disk"), "size=4m") else { return };
    let bare = stage.app(Mode::Bare, "bare", "threads cheap 2 200000").run().success();
    // Nothing is left but a few pages.
    std::fs::write(disk.0.join("filler"), vec![1u8; (4 << 20) - (96 << 10)]).unwrap();
    let with = stage
        .app(Mode::Preload, "t", "threads cheap 2 200000")
        .env("CLSCOPE_TRACE", disk.0.join("t.clscope"))
        .run();
    assert_eq!(
        with.seen(),
        bare.seen(),
        "a mapped page that cannot be had would be SIGBUS: {}",
        with.stderr
    );
}

#[test]
fn a_limit_of_file_sizes_stops_recording_and_not_the_application() {
    for limit in [0, 4096, 100_000, 1_000_000] {
        for runtime in [Runtime::Pocl, Runtime::FakeDriver] {
            let stage = Stage::new(runtime);
            // The runtime's caches are filled by the first run.
            stage.app(Mode::Bare, "bare", "threads cheap 2 100000").run().success();
            let limited = |mode| {
                stage
                    .app(mode, "t", "threads cheap 2 100000")
                    .resource_limit(libc::RLIMIT_FSIZE, limit)
                    .run()
            };
            let bare = limited(Mode::Bare);
            // `record` itself is limited, too: it may fail, and is not ended by the signal.
            let record = limited(Mode::Record);
            if bare.status.signal().is_none() {
                assert_eq!(record.status.signal(), None, "{limit}: {}", record.stderr);
            }
            if limit > 0 && record.status.code() != bare.status.code() {
                assert!(record.stderr.contains("cannot"), "{limit}: {}", record.stderr);
            }
            // What the harness catches the output in is a file too.
            if limit == 0 {
                assert_eq!(limited(Mode::Preload).status.code(), bare.status.code(), "{limit}");
                continue;
            }
            let with = limited(Mode::Preload);
            assert_eq!(with.seen(), bare.seen(), "{limit}: {}", with.stderr);
            // With the smallest limits the runtime's own files end the application, without us as
            // well.
            assert!(
                !bare.status.success() || with.stderr.contains("clscope"),
                "{limit}: it is said\n{}",
                with.stderr
            );
        }
    }
}

/// The limit is the application's alone, in blocks of 512 bytes; what it prints goes through a
/// pipe, which has no such limit.
fn record_limited(stage: &Stage, inject: &str, blocks: u32, line: &str) -> String {
    stage.forget("t");
    let (name, arguments) = line.split_once(' ').unwrap();
    let app = artifacts().fixture(name);
    let script = format!(
        "(ulimit -f {blocks}; exec '{}' {arguments} 2>&1 >/dev/null) | cat >&2",
        app.display()
    );
    let run = stage.clscope([
        "record",
        "-o",
        "t",
        "--sensors",
        "off",
        "--inject",
        inject,
        "--",
        "sh",
        "-c",
    ]);
    run.arg(script).run().success().stderr
}

#[test]
fn a_process_whose_trace_could_not_be_written_is_told_apart_from_none() {
    for runtime in Runtime::real().into_iter().chain([Runtime::FakeDriver]) {
        let stage = Stage::new(runtime.clone());
        for inject in ["preload", "layer", "preload,audit"] {
            let said = record_limited(&stage, inject, 0, "discover 2");
            let told = |text: &str| said.matches(text).count();
            assert_eq!(told("recording is off, the application runs on"), 1, "{inject}: {said}");
            assert_eq!(told("1 process called OpenCL and could not be recorded"), 1, "{said}");
            assert!(!said.contains("no OpenCL call was seen"), "{runtime:?} {inject}: {said}");
            for command in ["report", "dump"] {
                let out = stage.clscope([command, "t.clscope"]).run();
                assert_eq!(out.status.code(), Some(1), "{command}: {}", out.stderr);
                assert!(
                    out.stderr.contains("called OpenCL, and its trace could not be written"),
                    "{command}: {}",
                    out.stderr
                );
                assert!(!out.stderr.contains("header needs"), "{command}: {}", out.stderr);
            }
        }
    }
}

#[test]
fn of_dropped_records_nobody_says_that_none_was_a_command() {
    let stage = Stage::new(Runtime::FakeDriver);
    for inject in ["preload", "layer", "preload,audit"] {
        let said = record_limited(&stage, inject, 128, "threads cheap 2 20000");
        assert!(said.contains(" records were dropped"), "{inject}: {said}");
        assert!(!said.contains("no device command was seen"), "{inject}: {said}");
        assert!(said.contains("no device command is in the trace"), "{inject}: {said}");
    }
    // Where all was kept, none was made.
    let said = record_limited(&stage, "preload", 1 << 20, "threads cheap 2 20000");
    assert!(said.contains("no device command was seen: the application enqueued none"), "{said}");
}

/// Runs as nobody where the tests run as root: root may write everywhere.
#[test]
fn a_directory_without_permission_is_said_and_does_not_stop_the_application() {
    let stage = Stage::new(Runtime::FakeLoader);
    // Everything that the program needs must be open to everybody.
    std::fs::set_permissions(stage.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let closed = stage.join("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o555)).unwrap();
    let copies = stage.join("copies");
    std::fs::create_dir(&copies).unwrap();
    let a = artifacts();
    for file in [a.recorder(), a.fixture("linked"), a.fixture("fake/libOpenCL.so.1")] {
        std::fs::copy(&file, copies.join(file.file_name().unwrap())).unwrap();
    }
    let run = |recording: bool, trace: &Path| {
        let mut run = if root() {
            stage
                .program(Mode::Bare, "bare", "setpriv")
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(copies.join("linked"))
        } else {
            stage.program(Mode::Bare, "bare", copies.join("linked"))
        };
        run = run.env("LD_LIBRARY_PATH", &copies).folder(&closed);
        if recording {
            run = run.env("LD_PRELOAD", copies.join("libclscope.so"));
            if !trace.as_os_str().is_empty() {
                run = run.env("CLSCOPE_TRACE", trace);
            }
        }
        run.run()
    };
    let bare = run(false, Path::new(""));
    assert_eq!(bare.status.code(), Some(0), "{}", bare.stderr);
    for trace in [
        Path::new(""),
        Path::new("t.clscope"),
        Path::new("/proc/no/such.clscope"),
        Path::new("/dev/null/t.clscope"),
    ] {
        let with = run(true, trace);
        assert_eq!(with.seen(), bare.seen(), "{}: {}", trace.display(), with.stderr);
        let lines: Vec<_> = with.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "said once: {lines:?}");
        assert!(lines[0].starts_with("clscope"), "{lines:?}");
    }
    // `record -q` is silent unless something fails.
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    if root() {
        let quiet = stage.clscope(["record", "-q", "-o", "t", "--"]).args(user);
        let quiet = quiet.arg(copies.join("linked")).env("LD_LIBRARY_PATH", &copies).run();
        assert_eq!(quiet.stderr.matches("recording is off").count(), 1, "{}", quiet.stderr);
    }
}

#[test]
fn a_trace_path_that_is_a_file_is_said() {
    let stage = Stage::new(Runtime::Pocl);
    std::fs::write(stage.trace("t"), "mine").unwrap();
    let with = stage.app(Mode::Preload, "t", "linked 3").run().success();
    assert!(with.stderr.contains("t.clscope"), "{}", with.stderr);
    assert_eq!(std::fs::read_to_string(stage.trace("t")).unwrap(), "mine");
}

#[test]
fn few_descriptors_do_not_stop_the_application() {
    let stage = Stage::new(Runtime::FakeDriver);
    let bare = stage.app(Mode::Bare, "bare", "threads cheap 2 20000").run().success();
    // Below a handful of spare ones it is the runtime that gets none.
    for descriptors in [3, 12, 16, 24] {
        let limited = |mode| {
            stage
                .app(mode, "t", "threads cheap 2 20000")
                .resource_limit(libc::RLIMIT_NOFILE, descriptors)
                .run()
        };
        let without = limited(Mode::Bare);
        if without.status.success() {
            let with = limited(Mode::Preload);
            assert_eq!(with.seen(), bare.seen(), "{descriptors} descriptors: {}", with.stderr);
        }
    }
}

/// The command itself needs no more than the application does: it leaves the sensors out and says
/// so.
#[test]
fn record_runs_an_application_with_five_descriptors() {
    let stage = Stage::new(Runtime::FakeLoader);
    let limited =
        |mode, name| stage.app(mode, name, "linked 3").resource_limit(libc::RLIMIT_NOFILE, 5).run();
    let bare = limited(Mode::Bare, "bare").success();
    let with = limited(Mode::Record, "t");
    assert_eq!(with.seen(), bare.seen(), "{}", with.stderr);
    let told = "sensors are not read: this process may open 5 files";
    assert!(with.stderr.contains(told), "{}", with.stderr);
    assert_eq!(Recorded::read(&[&stage.trace("t")]).only().launches(None), 3);
    // Where not even a start beside us is possible, it runs in our place, and no trace is left.
    stage.forget("t");
    let limited =
        |mode| stage.app(mode, "t", "linked 3").resource_limit(libc::RLIMIT_NOFILE, 4).run();
    let (bare, with) = (limited(Mode::Bare), limited(Mode::Record));
    assert_eq!(with.seen(), bare.seen(), "{}", with.stderr);
    assert!(with.stderr.contains("ulimit -n"), "{}", with.stderr);
    assert!(!stage.trace("t").exists());
}

/// What the application, or somebody else, does to the trace while it is written, is no matter of
/// the application's: it runs on, and what was moved is found whole where it was moved to.
#[test]
fn a_trace_that_is_moved_or_deleted_in_the_middle_of_the_run() {
    for runtime in Runtime::real().into_iter().chain([Runtime::FakeDriver]) {
        for mode in Mode::RECORDING {
            let stage = Stage::new(runtime.clone());
            let (trace, moved) = (stage.trace("t"), stage.trace("moved"));
            let mut app = stage.app(mode, "t", "stepwise").talk();
            let _pid = app.hear();
            app.tell("10");
            std::fs::rename(&trace, &moved).unwrap();
            app.tell("5000");
            app.tell("20");
            assert_eq!(app.end().code(), Some(0), "{mode:?} {runtime:?}: moved");
            let recorded = Recorded::read(&[&moved]);
            assert_eq!(recorded.only().launches(Some("vector_add")), 5030, "{mode:?} {runtime:?}");
            assert!(!trace.join("meta.json").exists(), "{mode:?}: nothing is made anew");

            let mut app = stage.app(mode, "t", "stepwise").talk();
            let _pid = app.hear();
            app.tell("10");
            std::fs::remove_dir_all(&trace).unwrap();
            app.tell("5000");
            app.tell("20");
            assert_eq!(app.end().code(), Some(0), "{mode:?} {runtime:?}: deleted");
            assert!(!trace.exists(), "{mode:?} {runtime:?}: it stays deleted");
        }
    }
}

/// Daemons and sandboxes give up what they do not need once they have begun. What the trace needs
/// was made before.
#[test]
fn what_an_application_gives_up_after_its_first_calls_costs_no_record() {
    for runtime in Runtime::real() {
        for what in ["rights", "descriptors"] {
            if what == "rights" && !root() {
                skip("rights can be given up by root alone", false);
                continue;
            }
            let stage = Stage::new(runtime.clone());
            let line = format!("give_up {what} 300000");
            let bare = stage.app(Mode::Bare, "bare", &line).run().success();
            for mode in Mode::RECORDING {
                let (with, recorded) = stage.record(mode, &line);
                assert_eq!(with.seen(), bare.seen(), "{mode:?} {what}: {}", with.stderr);
                assert_eq!(with.stderr, bare.stderr, "{mode:?} {what}");
                let process = recorded.only();
                assert_eq!(process.count("clRetainMemObject"), 300_000, "{mode:?} {what}");
                assert_eq!(process.dropped, 0, "{mode:?} {what}");
            }
        }
    }
}

#[test]
fn an_application_that_has_no_memory_left_runs_on() {
    for runtime in [Runtime::real(), vec![Runtime::FakeDriver]].concat() {
        let stage = Stage::new(runtime.clone());
        let line = "give_up memory 300000";
        let bare = stage.app(Mode::Bare, "bare", line).run().success();
        for mode in Mode::RECORDING {
            let (with, recorded) = stage.record(mode, line);
            assert_eq!(with.seen(), bare.seen(), "{mode:?} {runtime:?}: {}", with.stderr);
            assert!(recorded.only().launches(None) == 1, "{mode:?}: what came before is there");
        }
    }
}

#[test]
fn the_traces_size_is_kept_below_a_limit_and_the_newest_part_is_there() {
    let stage = Stage::new(Runtime::Pocl);
    let with = stage
        .app(Mode::Preload, "t", "threads cheap 2 500000")
        .env("CLSCOPE_MAX_SIZE", "8M")
        .run()
        .success();
    assert!(with.stdout.contains("0 wrong"));
    let bytes: u64 = std::fs::read_dir(stage.trace("t"))
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes <= 10 << 20, "{bytes} bytes, of which definitions and rings are a part");
    let recorded = Recorded::read(&[&stage.trace("t")]);
    assert_eq!(recorded.only().count("clReleaseContext"), 1, "the last call is there");
    assert!(
        recorded.issue_codes().contains(&"oldest-part-rotated"),
        "{:?}",
        recorded.issue_codes()
    );
    // What went with the oldest part is not lost.
    assert!(!recorded.issue_codes().contains(&"missing-blocks"), "{:?}", recorded.issue_codes());
}

/// The time of what rotated away is called that, and is nobody's to mend.
#[test]
fn time_that_rotated_away_is_not_the_applications() {
    let stage = Stage::new(Runtime::FakeLoader);
    let run = stage.app(Mode::Preload, "t", "enqueue_bench 1000000 1000 bare");
    run.env("CLSCOPE_MAX_SIZE", "8M").run().success();
    let trace = stage.trace("t").display().to_string();
    let told = stage.clscope(["report", "--format", "json", &trace]).run().success().stdout;
    let report: serde_json::Value = serde_json::from_str(&told).unwrap();
    let share = |kind: &str| {
        let causes = report["answer"]["why"].as_array().unwrap();
        causes.iter().find(|c| c["kind"] == kind).map(|c| c["share"].as_f64().unwrap())
    };
    assert!(share("rotated-away").is_some_and(|share| share > 0.5), "{report:#}");
    assert_eq!(share("before-first-command"), None, "{report:#}");
    let advice = report["answer"]["advice"].to_string();
    assert!(!advice.contains("start OpenCL's work sooner"), "{advice}");
    let text = stage.clscope(["report", &trace]).run().success().stdout;
    assert!(text.contains("it keeps the newest part only"), "{text}");
}
