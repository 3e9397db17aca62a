//! `clscope-lab` as a process, on the machine's own OpenCL: what it lists, what it leaves when it
//! is interrupted. Without a device there is nothing to measure, and the tests say so.

use clscope_testing::{Limited, Stream};
use std::path::Path;
use std::process::{Command, Stdio};

fn lab(cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clscope-lab"));
    command.env("XDG_CACHE_HOME", cache);
    command
}

fn has_device(cache: &Path) -> bool {
    let listed = lab(cache).arg("--list").ended();
    let some = listed.status.success() && listed.stdout.starts_with(b"Suites:");
    if !some {
        clscope_testing::skip("there is no OpenCL device to measure", true);
    }
    some
}

/// What `timeout` sends keeps what was measured until then, and says that the run was ended.
#[test]
fn a_termination_keeps_the_results() {
    let place = tempfile::tempdir().expect("a temporary directory");
    if !has_device(place.path()) {
        return;
    }
    let out = place.path().join("out");
    let mut command = lab(place.path());
    command.args(["flop/private", "--sensors", "off", "--repeat", "1000", "-o"]).arg(&out);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).begin();
    while !child.line(Stream::Err).expect("it measures").contains("measuring") {}
    child.signal(libc::SIGTERM);
    let said = child.lines(Stream::Err);
    assert!(said.iter().any(|line| line.contains("interrupted")), "{said:?}");
    assert_eq!(child.end().code(), Some(130));
    let results = std::fs::read(out.join("results.json")).expect("written");
    let results: serde_json::Value = serde_json::from_slice(&results).expect("JSON");
    assert_eq!(results["interrupted"], true);
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench.schema.json");
    let breaches = clscope_testing::schema::breaches(&schema, &results);
    assert!(breaches.is_empty(), "{breaches:#?}");
    assert!(out.join("index.html").exists() && out.join("results.csv").exists());
}

#[test]
fn lists_and_sources_need_no_measuring() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let sources = lab(place.path()).arg("--dump-kernel").ended();
    assert!(
        sources.status.success()
            && String::from_utf8_lossy(&sources.stdout).contains("kernel SIZED void flop(")
    );
    let unknown = lab(place.path()).arg("nosuchsuite").ended();
    assert!(
        !unknown.status.success()
            && String::from_utf8_lossy(&unknown.stderr).contains("the suites are flop, memory")
    );
    if has_device(place.path()) {
        let listed = lab(place.path()).args(["--list", "power/*fma/vect4"]).ended();
        let text = String::from_utf8_lossy(&listed.stdout).into_owned();
        assert!(text.contains("power/float/fma/vect4") && !text.contains("fma/vect2"), "{text}");
    }
}
