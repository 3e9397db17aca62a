//! What the library does where it is loaded and not used: nothing that can be seen.

use clscope_tests::{Mode, Run, Runtime, Stage, artifacts, skip};
use std::path::Path;

#[test]
fn a_process_without_opencl_opens_nothing_and_leaves_nothing() {
    let stage = Stage::new(Runtime::Pocl);
    if !Path::new("/usr/bin/strace").exists() {
        return skip("strace is not installed", true);
    }
    let opened = |mode: Mode, name: &str| {
        // One file for each process: in one for all, calls of several are torn into halves.
        let logs = stage.join(&format!("{name}.strace"));
        std::fs::create_dir(&logs).unwrap();
        let run = stage
            .program(mode, name, "/usr/bin/strace")
            .args([
                "-ff",
                "-qq",
                "-e",
                "trace=open,openat,openat2,creat,mkdir,mkdirat,socket,connect,clone,clone3,fork,vfork,memfd_create",
                "-o",
            ])
            .arg(logs.join("of"));
        run.args(["/bin/sh", "-c", "/bin/true; exec /bin/echo hello"]).run().success();
        let texts = std::fs::read_dir(logs)
            .unwrap()
            .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
        let mut lines: Vec<String> =
            texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        assert!(lines.iter().any(|l| l.contains("libc.so.6")), "{lines:#?}");
        lines.retain(|l| {
            !l.contains("/proc/")
                && !l.starts_with("clone")
                && !l.starts_with("vfork")
                && !l.contains("+++")
                && !l.contains("---")
        });
        lines
    };
    let bare = opened(Mode::Bare, "bare");
    for mode in [Mode::Preload, Mode::Audit] {
        let name = format!("{mode:?}");
        let with = opened(mode, &name);
        // ld.so opens the library, the shim and what they need: shared objects, read-only.
        let ours: Vec<_> = with
            .iter()
            .filter(|l| !bare.contains(l))
            .filter(|l| !(l.contains(".so") && l.contains("O_RDONLY")))
            .collect();
        assert!(ours.is_empty(), "{mode:?}: {ours:#?}");
        assert!(!stage.trace(&name).exists(), "{mode:?}: a trace of nothing");
    }
}

#[test]
fn a_layer_that_is_loaded_and_not_used_leaves_nothing() {
    let stage = Stage::new(Runtime::Pocl);
    stage.program(Mode::Layer, "t", "/bin/echo").arg("hello").run().success();
    assert!(!stage.trace("t").exists());
}

#[test]
fn a_recorder_that_is_switched_off_leaves_nothing() {
    for mode in [Mode::Preload, Mode::Layer, Mode::Audit] {
        let stage = Stage::new(Runtime::Pocl);
        let bare = stage.app(Mode::Bare, "bare", "linked 10").run().success();
        let with = stage.app(mode, "t", "linked 10").env("CLSCOPE_ENABLE", "0").run();
        assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
        assert!(!stage.trace("t").exists(), "{mode:?}");
    }
}

#[test]
fn without_a_setting_the_trace_is_named_after_the_program() {
    let stage = Stage::new(Runtime::Pocl);
    let run = Run::new(artifacts().fixture("linked"), stage.path())
        .env("LD_PRELOAD", artifacts().recorder());
    let finished = stage.runtime.select(run).run().success();
    assert!(stage.join(&format!("linked-{}.clscope", finished.pid)).is_dir());
}

#[test]
fn wrong_settings_are_said_and_do_not_stop_the_application() {
    let stage = Stage::new(Runtime::Pocl);
    for (name, value) in [
        ("CLSCOPE_DEVICE_TIMING", "sundial"),
        ("CLSCOPE_MAX_SIZE", "large"),
        ("CLSCOPE_ENABLE", "perhaps"),
    ] {
        let with = stage.app(Mode::Preload, "t", "linked 10").env(name, value).run().success();
        assert!(
            with.stderr.contains(name) && with.stderr.contains(value),
            "{name}: {}",
            with.stderr
        );
        let quiet = stage
            .app(Mode::Preload, "t", "linked 10")
            .env(name, value)
            .env("CLSCOPE_QUIET", "1")
            .run()
            .success();
        assert_eq!(quiet.stderr, "", "{name}");
    }
}

#[test]
fn a_program_without_standard_error_gets_no_message_into_its_files() {
    let stage = Stage::new(Runtime::Pocl);
    // With descriptor 2 closed, the next file the application opens gets that number.
    let with = stage
        .app(Mode::Preload, "t", "linked 10")
        .env("CLSCOPE_DEVICE_TIMING", "sundial")
        .without_stderr()
        .run();
    assert_eq!(with.status.code(), Some(0));
    for entry in std::fs::read_dir(stage.trace("t")).unwrap() {
        let path = entry.unwrap().path();
        // Programs have a folder.
        let bytes = if path.is_file() { std::fs::read(path).unwrap() } else { Vec::new() };
        assert!(!bytes.starts_with(b"clscope:"), "a message went into a file of the trace");
    }
}
