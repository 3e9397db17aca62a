//! `check` of traces that no application can be made to leave at will.

mod common;

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_testing::Limited;
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
