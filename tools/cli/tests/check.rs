//! `check` of traces that no application can be made to leave at will.

mod common;

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_testing::Limited;
use clscope_trace::record::flag;
use common::{Stage, save};

#[test]
fn the_call_in_which_a_process_died_is_named_as_not_judged() {
    let stage = Stage::new();
    let mut process = ProcessBuilder::standard(HostModel::default(), 4000, 1);
    process.anchor(1_000_000_000);
    process.thread(0).enqueue(10_000, 11_000, &CommandSpec::kernel(1, 1, 1));
    process.in_calls.push((0, function::FINISH, 50_000));
    process.in_ring = true;
    save(&process, &stage.join("t.clscope"));
    let told = stage.clscope().args(["check", "t.clscope"]).ended();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let first =
        "t.clscope/4000-0 died or was ended inside clFinish: what came after was not judged";
    assert!(words.starts_with(first), "{told}");
}

/// The application returned from main while other threads still worked: what they had made by then
/// is no leak, and one line says where they were.
#[test]
fn threads_that_are_inside_calls_at_the_end_share_a_line_and_leak_nothing() {
    let stage = Stage::new();
    let mut process = ProcessBuilder::standard(HostModel::default(), 4000, 3);
    process.anchor(1_000_000_000);
    for thread in 0..3u32 {
        let id = 1 + u64::from(thread);
        let spec = CommandSpec { flags: flag::APP_EVENT, ..CommandSpec::kernel(id, 1, 1) };
        process.thread(thread).enqueue(10_000 * id, 10_000 * id + 1_000, &spec);
    }
    process.in_calls.push((1, function::FINISH, 50_000));
    process.in_calls.push((2, function::FINISH, 60_000));
    process.in_ring = true;
    process.exit(70_000, 0);
    save(&process, &stage.join("t.clscope"));
    let told = stage.clscope().args(["check", "t.clscope"]).ended();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = "t.clscope/4000-0 died or was ended inside clFinish in 2 threads: what came after";
    assert!(words.starts_with(first) && !words.contains("never-released"), "{told}");
    assert!(words.contains("inside a call, so that objects which were never released"), "{told}");
}
