//! `clscope record` against tiny programs: the application's streams, exit code and signals come
//! through, its environment carries the recorder, and what cannot work is said before or after,
//! never silently.

mod common;

use clscope_testing::{Limited, Running, Stream};
use common::{Stage, stderr, stdout};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

#[test]
fn streams_and_exit_code_are_the_applications() {
    let stage = Stage::new();
    let mut child = stage
        .clscope()
        .args(["record", "-o", "t", "--", "sh", "-c", "cat; echo err >&2; exit 42"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .begin();
    child.write(b"one\ntwo\n");
    let output = child.output();
    assert_eq!(output.status.code(), Some(42));
    assert_eq!(stdout(&output), "one\ntwo\n");
    let errors = stderr(&output);
    let mut lines = errors.lines();
    assert_eq!(lines.next(), Some("err"));
    // A pipe does not show whether the application's last line has ended: an empty one may follow.
    let own = |line: &str| line.is_empty() || line.starts_with("clscope: ");
    assert!(lines.all(own), "{errors}");
    assert!(errors.contains("no OpenCL call was seen"), "{errors}");
    let meta = stage.meta("t.clscope");
    assert_eq!(meta["exit"]["code"], 42);
    assert_eq!(meta["command"][2], "cat; echo err >&2; exit 42");
    assert!(meta["end"]["monotonic_raw_ns"].as_u64() > meta["start"]["monotonic_raw_ns"].as_u64());
}

#[test]
fn quiet_is_quiet() {
    let stage = Stage::new();
    let output = stage.record(&["-q", "--", "true"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
}

#[test]
fn every_exit_code_comes_through() {
    let stage = Stage::new();
    for code in [0, 1, 2, 77, 126, 127, 128, 255] {
        let output =
            stage.record(&["-q", "-f", "-o", "t", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!(output.status.code(), Some(code));
    }
}

#[test]
fn death_by_a_signal_is_reproduced() {
    let stage = Stage::new();
    for (name, number) in [
        ("TERM", 15),
        ("KILL", 9),
        ("SEGV", 11),
        ("ABRT", 6),
        ("INT", 2),
        ("QUIT", 3),
        ("USR1", 10),
        ("PIPE", 13),
    ] {
        let output = stage.record(&[
            "-f",
            "-o",
            "t",
            "--",
            "sh",
            "-c",
            &format!("ulimit -c 0; kill -{name} $$"),
        ]);
        assert_eq!(output.status.signal(), Some(number), "{name}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(&format!("was ended by SIG{name}")),
            "{}",
            stderr(&output)
        );
        assert_eq!(stage.meta("t.clscope")["exit"]["signal"]["number"], number);
    }
    assert!(!stage.join("core").exists());
}

#[test]
fn signals_sent_to_the_command_reach_the_application_once_and_in_order() {
    let stage = Stage::new();
    let source = r#"
        #include <signal.h>
        #include <stdio.h>
        int main(void) {
            sigset_t all;
            int s = 0;
            sigfillset(&all);
            sigprocmask(SIG_BLOCK, &all, 0);
            setvbuf(stdout, 0, _IOLBF, 0);
            puts("ready");
            while (s != SIGUSR2) { sigwait(&all, &s); printf("%d\n", s); }
            return 5;
        }"#;
    let app = stage.compile("count", source, &[]);
    let mut child =
        stage.clscope().args(["record", "-q", "--"]).arg(&app).stdout(Stdio::piped()).begin();
    assert_eq!(child.line(Stream::Out).as_deref(), Some("ready"));
    for signal in [
        libc::SIGTERM,
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGUSR1,
        libc::SIGALRM,
        libc::SIGUSR2,
    ] {
        child.signal(signal);
        // A signal passed on twice would be read in the place of the next.
        assert_eq!(child.line(Stream::Out), Some(signal.to_string()));
    }
    assert_eq!(child.line(Stream::Out), None);
    assert_eq!(child.end().code(), Some(5));
}

#[test]
fn a_signal_that_ends_the_application_ends_the_command_alike() {
    let stage = Stage::new();
    let mut child = stage
        .clscope()
        .args(["record", "-q", "--", "sh", "-c", "echo ready; exec sleep 1000"])
        .stdout(Stdio::piped())
        .begin();
    assert_eq!(child.line(Stream::Out).as_deref(), Some("ready"));
    child.signal(libc::SIGTERM);
    assert_eq!(child.end().signal(), Some(libc::SIGTERM));
}

#[test]
fn the_signal_state_is_handed_on_as_it_came() {
    let stage = Stage::new();
    let source = r#"
        #include <signal.h>
        #include <stdio.h>
        int main(void) {
            sigset_t blocked;
            sigprocmask(SIG_BLOCK, 0, &blocked);
            for (int s = 1; s < 32; s++) {
                struct sigaction a;
                if (sigaction(s, 0, &a)) continue;
                if (a.sa_handler == SIG_IGN) printf("ignored %d\n", s);
                if (sigismember(&blocked, s)) printf("blocked %d\n", s);
            }
            return 0;
        }"#;
    let app = stage.compile("state", source, &[]);
    let app = app.to_str().unwrap();
    let clscope = env!("CARGO_BIN_EXE_clscope");
    for before in ["", "trap '' PIPE;", "trap '' HUP INT;", "trap '' CHLD QUIT;"] {
        let run = |command: &str| {
            let script = format!("{before} {command}");
            let output = stage
                .clscope()
                .get_envs()
                .fold(&mut std::process::Command::new("sh"), |c, (name, value)| match value {
                    Some(value) => c.env(name, value),
                    None => c.env_remove(name),
                })
                .current_dir(stage.path())
                .args(["-c", &script])
                .ended();
            stdout(&output)
        };
        let bare = run(app);
        assert_eq!(run(&format!("{clscope} record -q -f -o t -- {app}")), bare, "after {before:?}");
    }
}

#[test]
fn what_cannot_be_run_gives_the_exit_code_of_shells() {
    let stage = Stage::new();
    let output = stage.record(&["--", "surely-no-such-program"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(stderr(&output).contains("no such program in PATH"), "{}", stderr(&output));
    std::fs::write(stage.join("plain"), "#!/bin/sh\n").unwrap();
    let output = stage.record(&["--", "./plain"]);
    assert_eq!(output.status.code(), Some(126));
    assert!(stderr(&output).contains("chmod +x"), "{}", stderr(&output));
    assert_eq!(stage.record(&["--", "/"]).status.code(), Some(126));
    std::fs::write(stage.join("orphan"), "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(stage.join("orphan"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = stage.record(&["--", "./orphan"]);
    assert_eq!(output.status.code(), Some(126));
    assert!(stderr(&output).contains("/no/such/interpreter does not exist"), "{}", stderr(&output));
    assert!(stage.traces().is_empty(), "nothing ran, nothing is left");
}

#[test]
fn a_script_without_an_interpreter_line_runs_as_in_a_shell() {
    let stage = Stage::new();
    std::fs::write(stage.join("script"), "echo hello $1; exit 9\n").unwrap();
    std::fs::set_permissions(stage.join("script"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = stage.record(&["-q", "--", "./script", "you"]);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(9), "hello you\n"));
}

#[test]
fn the_environment_carries_the_recorder() {
    let stage = Stage::new();
    std::fs::write(stage.join("lib/libclscope_audit.so"), "").unwrap();
    let output = stage
        .clscope()
        .env("OPENCL_LAYERS", "/other/layer.so")
        .args([
            "record",
            "-o",
            "t",
            "--device-timing",
            "sync",
            "--kernels",
            "a*,b",
            "--max-size",
            "5M",
            "--inject",
            "layer",
            "--",
            "env",
        ])
        .ended();
    let text = stdout(&output);
    let value = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).map(str::to_owned)
    };
    let library = stage.join("lib/libclscope.so").canonicalize().unwrap();
    assert_eq!(value("OPENCL_LAYERS"), Some(format!("/other/layer.so:{}", library.display())));
    assert_eq!(value("LD_PRELOAD"), None);
    assert_eq!(value("LD_AUDIT"), None);
    assert_eq!(
        value("CLSCOPE_TRACE"),
        Some(stage.join("t.clscope").canonicalize().unwrap().display().to_string())
    );
    assert_eq!(value("CLSCOPE_DEVICE_TIMING").as_deref(), Some("sync"));
    assert_eq!(value("CLSCOPE_KERNELS").as_deref(), Some("a*,b"));
    assert_eq!(value("CLSCOPE_MAX_SIZE").as_deref(), Some("5M"));
    assert_eq!(value("CLSCOPE_QUIET").as_deref(), Some("later"));
}

#[test]
fn the_library_is_loaded_into_the_application() {
    let stage = Stage::new();
    stage.compile(
        "lib/libclscope.so",
        "int write(int,const void*,unsigned long);\n__attribute__((constructor)) static void on(void){write(1,\"loaded\\n\",7);}",
        &["-shared", "-fPIC"],
    );
    assert_eq!(
        stdout(&stage.record(&["-q", "--inject", "preload", "--", "/bin/true"])),
        "loaded\n"
    );
}

#[test]
fn a_missing_recorder_is_told_before_anything_runs() {
    let stage = Stage::new();
    let output = stage
        .clscope()
        .env("CLSCOPE_LIBRARY", "/none.so")
        .args(["record", "--require-trace", "--", "touch", "ran"])
        .ended();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/none.so"), "{}", stderr(&output));
    assert!(!stage.join("ran").exists());
}

#[test]
fn a_trace_is_never_mixed_or_replaced_unasked() {
    let stage = Stage::new();
    assert!(stage.record(&["-q", "-o", "t", "--", "true"]).status.success());
    let output = stage.record(&["--require-trace", "-o", "t", "--", "touch", "ran"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("--force"), "{}", stderr(&output));
    assert!(!stage.join("ran").exists());
    assert!(stage.record(&["-q", "--force", "-o", "t", "--", "true"]).status.success());
    assert_eq!(stage.traces().len(), 1);
}

#[test]
fn default_names_do_not_collide() {
    let stage = Stage::new();
    for _ in 0..3 {
        assert!(stage.record(&["-q", "--", "true"]).status.success());
    }
    let traces = stage.traces();
    assert_eq!(traces.len(), 3);
    assert!(
        traces.iter().all(|t| t.file_name().unwrap().to_str().unwrap().starts_with("true-2")),
        "{traces:?}"
    );
}

#[test]
fn an_unwritable_place_is_told_before_anything_runs() {
    let stage = Stage::new();
    // /proc refuses new directories to everybody, root included.
    let output = stage.record(&["--require-trace", "-o", "/proc/x", "--", "touch", "ran"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(text.contains("/proc/x.clscope") && text.contains("-o"), "{text}");
    assert!(!stage.join("ran").exists());
}

/// What the last line gives to type shows which library the application could not load.
#[test]
fn an_application_without_opencl_is_told_in_two_short_lines_how_to_see_why() {
    let stage = Stage::new();
    let source = "extern int absent(void); int runtime(void) { return absent(); }";
    stage.compile("libruntime.so", source, &["-shared", "-fPIC"]);
    let source =
        "#include <dlfcn.h>\nint main(void) { dlopen(\"./libruntime.so\", RTLD_NOW); return 0; }";
    stage.compile("it's an app", source, &["-ldl"]);
    for variable in [None, Some("OCL_ICD_VENDORS"), Some("OCL_ICD_FILENAMES")] {
        let mut command = stage.clscope();
        command.args(["record", "-f", "-o", "t", "--", "./it's an app", "a b"]);
        command.env_remove("OCL_ICD_VENDORS").env_remove("OCL_ICD_FILENAMES");
        command.envs(variable.map(|name| (name, "runtime.icd")));
        let output = command.ended();
        let text = stderr(&output);
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let [why, look] = lines[..] else { panic!("{text}") };
        assert!(why.contains("no OpenCL call was seen") && why.len() <= 100, "{why}");
        assert_eq!(variable.is_some_and(|name| why.contains(name)), variable.is_some(), "{why}");
        let typed = look.strip_prefix("clscope: to see which: ").unwrap();
        let mut shell = std::process::Command::new("sh");
        let shown = shell.args(["-c", typed]).current_dir(stage.path()).ended();
        let shown = stdout(&shown);
        assert!(shown.contains("libruntime.so") && shown.contains("absent"), "{typed}: {shown}");
    }
}

#[test]
fn a_static_application_runs_and_is_told_why_nothing_was_seen() {
    let stage = Stage::new();
    let app = stage.compile("static", "int main(void) { return 3; }", &["-static"]);
    let output = stage.record(&["--", app.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    let text = stderr(&output);
    assert!(
        text.contains("warning:")
            && text.contains("statically linked")
            && text.contains("no OpenCL call was seen"),
        "{text}"
    );
}

#[test]
fn a_script_run_by_a_static_interpreter_is_told_too() {
    let stage = Stage::new();
    let app = stage.compile("static", "int main(void) { return 3; }", &["-static"]);
    std::fs::write(stage.join("script"), format!("#!{}\n", app.display())).unwrap();
    std::fs::set_permissions(stage.join("script"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = stage.record(&["--", "./script"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("statically linked"), "{}", stderr(&output));
}

#[test]
fn a_setuid_application_of_another_user_is_told() {
    let stage = Stage::new();
    let app = stage.compile("setuid", "int main(void) { return 0; }", &[]);
    // Only root may give a file away; everybody else has a setuid file of root's at hand.
    let target = if std::os::unix::fs::chown(&app, Some(65534), None).is_ok() {
        std::fs::set_permissions(&app, std::fs::Permissions::from_mode(0o4755)).unwrap();
        app.to_str().unwrap().to_owned()
    } else {
        "/bin/su".to_owned()
    };
    let output = stage.record(&["--", &target, "--help"]);
    assert!(stderr(&output).contains("is setuid"), "{}", stderr(&output));
}

#[test]
fn usage_errors_suggest() {
    let stage = Stage::new();
    for (arguments, expected) in [
        (&["recrod"][..], "'record'"),
        (&["record", "--ouptut", "x", "--", "true"], "'--output'"),
        (&["record", "--device-timing", "evnt", "--", "true"], "event"),
        (&["record"], "APP"),
        (&["record", "--max-size", "lots", "--", "true"], "500M"),
    ] {
        let output = stage.clscope().args(arguments).ended();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    assert_eq!(
        stdout(&stage.clscope().arg("--version").ended()),
        format!("clscope {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn options_of_the_application_are_its_own() {
    let stage = Stage::new();
    for arguments in [&["-q", "--", "echo", "-q", "--force"][..], &["-q", "echo", "-q", "--force"]]
    {
        assert_eq!(stdout(&stage.record(arguments)), "-q --force\n");
    }
}

#[test]
fn help_begins_with_examples() {
    let stage = Stage::new();
    for arguments in [&["--help"][..], &["record", "--help"]] {
        let output = stage.clscope().args(arguments).ended();
        assert!(stdout(&output).starts_with("Examples:\n"), "{arguments:?}");
    }
}

#[test]
fn every_setting_is_listed() {
    let stage = Stage::new();
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = plain(&stdout(&stage.clscope().arg("settings").ended()));
    for setting in clscope_trace::variables::SETTINGS {
        let is_told = text.contains(setting.name) && text.contains(&plain(setting.help));
        assert!(is_told, "{}: {text}", setting.name);
    }
}

/// Starts an application that leaves a process behind which holds a file of the trace open, as a
/// recorded daemon does. Returns when the application has ended and the command is past it.
fn leave_a_daemon(stage: &Stage, wait: &str) -> (Running, u32) {
    use clscope_trace::{Clock, FileHeader, FileKind, VERSION};
    let script =
        "exec 3>$CLSCOPE_TRACE/x.ring; sleep 1000 <&- >/dev/null 2>&1 & echo $!; read line";
    let mut child = stage
        .clscope()
        .args(["record", "-o", "t", "--wait", wait, "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .begin();
    let pid: u32 = child.line(Stream::Out).unwrap().parse().unwrap();
    let header = FileHeader {
        version: VERSION,
        kind: FileKind::Defs,
        pid,
        ppid: 1,
        pid_ns: 0,
        incarnation: 0,
        segment: 0,
        clock: Clock::MonotonicRaw,
        host: [0; 16],
        boot: [0; 16],
        created: 0,
    };
    std::fs::write(stage.join(&format!("t.clscope/{pid}-0.defs")), header.encode()).unwrap();
    child.write(b"\n");
    child.close_input();
    (child, pid)
}

fn end(pid: u32) {
    // SAFETY: the process sleeps far longer than the test, so the id is still its own.
    unsafe { libc::kill(pid as i32, libc::SIGKILL) };
}

#[test]
fn a_process_that_goes_on_recording_is_not_waited_for_for_ever() {
    let stage = Stage::new();
    let (child, pid) = leave_a_daemon(&stage, "0.1");
    let output = child.output();
    end(pid);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).contains(&format!("still recording: process {pid}")),
        "{}",
        stderr(&output)
    );
    assert_eq!(stage.meta("t.clscope")["still_running"][0], pid);
}

#[test]
fn the_end_of_the_last_process_ends_the_wait() {
    let stage = Stage::new();
    let (mut child, pid) = leave_a_daemon(&stage, "1000");
    let line = child.line(Stream::Err).unwrap();
    assert!(line.contains("waiting up to 1000 s for 1 more process"), "{line}");
    end(pid);
    assert_eq!(child.end().code(), Some(0));
    assert!(stage.meta("t.clscope").get("still_running").is_none());
}

#[test]
fn a_signal_ends_the_wait() {
    let stage = Stage::new();
    let (mut child, pid) = leave_a_daemon(&stage, "1000");
    assert!(child.line(Stream::Err).is_some());
    child.signal(libc::SIGINT);
    assert_eq!(child.end().code(), Some(0));
    end(pid);
    assert_eq!(stage.meta("t.clscope")["still_running"][0], pid);
}
