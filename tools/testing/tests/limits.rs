//! A child that does not do what is awaited is killed with its children, and the failure says what
//! was awaited; a test that never ends takes its process with it.

use clscope_testing::{Limited, Stream, Watch};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(50);
/// Set for the child of the watchdog's own test.
const HANG: &str = "CLSCOPE_TESTING_HANG";

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// What a wait that must fail says.
fn failure<T>(wait: impl FnOnce() -> T) -> String {
    let panic = catch_unwind(AssertUnwindSafe(wait)).err().expect("the wait fails");
    panic.downcast_ref::<String>().expect("a formatted message").clone()
}

#[test]
fn a_child_that_never_ends_is_killed_and_named() {
    let said = failure(|| sh("echo begun; sleep 1000").ended_within(SHORT));
    assert!(said.contains("waited 50ms for its end") && said.contains("sleep 1000"), "{said}");
    let piped = || {
        // The line and the half one in one piece: on a busy machine the second of two may come
        // late.
        let mut command = sh("echo err >&2; printf 'line\\nhalf'; sleep 1000");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).begin()
    };
    let mut running = piped();
    assert_eq!(running.line(Stream::Out).as_deref(), Some("line"));
    assert_eq!(running.line(Stream::Err).as_deref(), Some("err"));
    let mut running = running.limit(SHORT);
    let said = failure(|| running.line(Stream::Out));
    assert!(said.contains("for a line on Out") && said.contains("half"), "{said}");
    let said = failure(|| piped().limit(SHORT).output());
    assert!(said.contains("for the end of its output"), "{said}");
    let said = failure(|| piped().limit(SHORT).end());
    assert!(said.contains("for its end"), "{said}");
}

#[test]
fn the_whole_group_is_killed() {
    let mut running = sh("sleep 1000 & echo $!; wait").stdout(Stdio::piped()).begin();
    let grandchild = running.line(Stream::Out).expect("its process id");
    drop(running);
    // Whoever adopts it may not have reaped it yet.
    let state = std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
    let state = state.rsplit(')').next().map_or("", str::trim);
    assert!(state.is_empty() || state.starts_with('Z') || killed(&grandchild), "{state}");
}

/// Whether SIGKILL is pending for a process that did not run since.
fn killed(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status.lines().find_map(|l| l.strip_prefix("ShdPnd:"));
    pending.is_none_or(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|m| m & 1 << 8 != 0))
}

#[test]
fn what_a_child_prints_and_how_it_ends_come_through() {
    let output = sh("echo out; echo err >&2; exit 3").ended();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!((&*output.stdout, &*output.stderr), (&b"out\n"[..], &b"err\n"[..]));
    let mut running = sh("read a; echo \"got $a\"; read b; echo rest; exit 4")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .begin();
    running.write(b"one\n");
    assert_eq!(running.line(Stream::Out).as_deref(), Some("got one"));
    // The end of its input ends the second read.
    let output = running.output();
    assert_eq!((output.status.code(), &*output.stdout), (Some(4), &b"rest\n"[..]));
    // More than a pipe holds.
    let mut running = sh("head -c 300000 /dev/zero; exit 5").stdout(Stdio::piped()).begin();
    running.some(Stream::Out);
    assert_eq!(running.end().code(), Some(5));
    let mut running = sh("kill -TERM $$").stdout(Stdio::piped()).begin();
    assert_eq!(running.line(Stream::Out), None);
    assert_eq!(running.end().code(), None);
}

#[test]
fn a_test_that_never_ends_is_ended_by_name() {
    const NAME: &str = "a_test_that_never_ends_is_ended_by_name";
    if std::env::var_os(HANG).is_some() {
        let _watch = Watch::new(NAME, SHORT);
        let _child = Command::new("sleep").arg("1000").begin();
        loop {
            std::thread::park();
        }
    }
    let own = std::env::current_exe().expect("this test");
    let output = Command::new(own).args(["--exact", NAME]).env(HANG, "1").ended();
    assert_eq!(output.status.code(), Some(101));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains(&format!("{NAME}: not ended after 50ms")), "{said}");
}
