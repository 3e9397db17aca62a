//! Google's trace processor, which Perfetto's viewer is built on, asked about exported timelines.
//! It is a WebAssembly build that runs in Node; the set-up script fetches it. Refuses to pass for
//! it: where it is absent, the caller skips.
#![forbid(unsafe_code)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

use clscope_testing::{Limited, installed, skip};

/// The folder of the processor; `None` where there is none, which is said.
pub fn processor() -> Option<PathBuf> {
    let found = std::env::var_os("CLSCOPE_TEST_TRACE_PROCESSOR")
        .map(PathBuf::from)
        .filter(|p| p.join("trace_processor.wasm").is_file());
    if found.is_none() {
        skip(
            "CLSCOPE_TEST_TRACE_PROCESSOR names no trace processor: tools/setup/test.sh sets it",
            true,
        );
    } else if !installed("node") {
        skip("node is not installed: it runs the trace processor", true);
        return None;
    }
    found
}

/// Loads a timeline and answers queries, each with its rows.
///
/// # Panics
/// If the timeline cannot be loaded, or a query is wrong.
#[track_caller]
pub fn ask(processor: &Path, timeline: &Path, queries: &[&str]) -> Vec<Vec<Value>> {
    let folder = tempfile::tempdir().expect("a folder for the queries");
    let file = folder.path().join("queries");
    let lines: Vec<String> = queries.iter().map(|q| q.replace('\n', " ")).collect();
    std::fs::write(&file, lines.join("\n")).expect("write the queries");
    let script = crate::artifacts::root().join("tests/browser/trace-processor.mjs");
    let mut node = Command::new("node");
    node.arg(script).args([processor, timeline, &file]);
    let output = node.ended();
    assert!(output.status.success(), "{timeline:?}: {}", String::from_utf8_lossy(&output.stderr));
    let answers: Vec<Vec<Value>> = String::from_utf8_lossy(&output.stdout)
        .lines()
        // The glue says on stdout, too, what it does.
        .filter(|line| line.starts_with('['))
        .map(|line| serde_json::from_str(line).expect("rows as JSON"))
        .collect();
    assert_eq!(answers.len(), queries.len(), "one answer to each query");
    answers
}
