//! Several traces as one: processes of one host, and of two hosts whose clocks are far apart, on
//! one timeline in the right order.

use clscope_tests::{Mode, Recorded, Runtime, Stage};
use clscope_trace::defs::{Def, Defs, encode};
use clscope_trace::file::HEADER_LEN;
use clscope_trace::{FileHeader, FileKind};
use std::path::Path;

/// Two runs, one after the other.
fn two() -> Stage {
    let stage = Stage::new(Runtime::FakeLoader);
    stage.app(Mode::Preload, "first", "linked 5").run().success();
    stage.app(Mode::Preload, "second", "linked 7").run().success();
    stage
}

/// Begin of the first call and end of the last, of the process with so many launches.
fn span(recorded: &Recorded, launches: usize) -> (i64, i64) {
    let process = recorded.processes.iter().find(|p| p.launches(None) == launches).unwrap();
    (
        process.calls.iter().map(|c| c.begin).min().unwrap(),
        process.calls.iter().map(|c| c.end).max().unwrap(),
    )
}

#[track_caller]
fn assert_in_order(recorded: &Recorded) {
    assert_eq!(recorded.processes.len(), 2);
    let (first, second) = (span(recorded, 5), span(recorded, 7));
    assert!(first.1 < second.0, "one ran after the other: {first:?} {second:?}");
}

#[test]
fn two_processes_of_one_host_are_in_the_right_order() {
    let stage = two();
    assert_in_order(&Recorded::read(&[&stage.trace("second"), &stage.trace("first")]));
}

#[test]
fn merged_traces_hold_what_the_parts_held() {
    let stage = two();
    stage
        .clscope(["merge", "first.clscope", "second.clscope", "-o", "both.clscope"])
        .run()
        .success();
    let both = Recorded::read(&[&stage.trace("both")]);
    assert_in_order(&both);
    assert_eq!(both.launches(), 12);
    let report = stage.clscope(["report", "both.clscope", "--format", "json"]).run().success();
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    let launches: u64 = report["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|k| k["launches"].as_u64().or(k["count"].as_u64()))
        .sum();
    assert_eq!(launches, 12, "{report}");
}

/// Rewrites a process's definitions as if another machine, started at another time, had recorded
/// it: its ticks and raw clock stand elsewhere, its wall clock is right.
pub fn move_to_another_host(trace: &Path, raw_shift: u64) {
    for entry in std::fs::read_dir(trace).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_file() || path.extension().is_none_or(|e| e == "json") {
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let mut header = FileHeader::decode(&bytes).unwrap();
        header.host = [7; 16];
        header.boot = [9; 16];
        if header.kind == FileKind::Defs {
            let mut moved = header.encode().to_vec();
            for def in Defs::new(&bytes) {
                let def = match def {
                    Def::Anchor(mut anchor) => {
                        anchor.raw += raw_shift;
                        anchor.monotonic += raw_shift;
                        Def::Anchor(anchor)
                    }
                    Def::Process(mut process) => {
                        process.host = "elsewhere".to_owned();
                        Def::Process(process)
                    }
                    def => def,
                };
                encode(&def, &mut moved);
            }
            bytes = moved;
        } else {
            bytes[..HEADER_LEN].copy_from_slice(&header.encode());
        }
        std::fs::write(&path, bytes).unwrap();
    }
}

#[test]
fn two_hosts_are_aligned_by_their_wall_clocks() {
    for shift in [3_600_000_000_000, 86_400_000_000_000] {
        for moved in ["first", "second"] {
            let stage = two();
            move_to_another_host(&stage.trace(moved), shift);
            let both = Recorded::read(&[&stage.trace("first"), &stage.trace("second")]);
            assert_in_order(&both);
            let report = stage
                .clscope(["report", "--all", "first.clscope", "second.clscope"])
                .run()
                .success();
            assert!(
                (report.stdout + &report.stderr).contains("elsewhere"),
                "the report names the host"
            );
            stage
                .clscope(["export", "chrome", "first.clscope", "second.clscope", "-o", "both.json"])
                .run()
                .success();
            let timeline: serde_json::Value =
                serde_json::from_slice(&std::fs::read(stage.join("both.json")).unwrap()).unwrap();
            let last = timeline["traceEvents"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|e| e["ts"].as_f64())
                .fold(0.0, f64::max);
            assert!(last < 600e6, "{last} us: two runs of seconds, not hours apart");
        }
    }
}
