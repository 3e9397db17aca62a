//! Damaged, foreign and newer traces through the command: a word about what is wrong, what can be
//! read, never a crash.

use clscope_testing::Random;
use clscope_tests::{Finished, Mode, Runtime, Stage};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;

/// A stage with a recorded trace `t.clscope`.
fn recorded() -> Stage {
    let stage = Stage::new(Runtime::FakeLoader);
    stage.app(Mode::Preload, "t", "threads calls 2 300").run().success();
    stage
}

fn files(stage: &Stage, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(stage.trace("t")).unwrap().map(|e| e.unwrap().path());
    entries.filter(|p| p.to_string_lossy().ends_with(ending)).collect()
}

/// Every reading command but those that need more than a trace.
const READING: [&[&str]; 19] = [
    &["report", "t.clscope"],
    &["report", "--all", "t.clscope"],
    &["dump", "t.clscope"],
    &["export", "chrome", "t.clscope", "-o", "t.json"],
    &["report", "--format", "html", "t.clscope"],
    &["export", "perfetto", "t.clscope", "-o", "t.pftrace"],
    &["export", "folded", "t.clscope", "-o", "t.folded"],
    &["export", "speedscope", "t.clscope", "-o", "t.speedscope.json"],
    &["export", "pprof", "t.clscope", "-o", "t.pb.gz"],
    &["export", "parquet", "t.clscope", "-o", "t.data"],
    &["merge", "t.clscope", "-o", "merged.clscope"],
    &["ctl", "t.clscope", "status"],
    &["top", "--once", "t.clscope"],
    &["mix", "t.clscope"],
    &["explain", "t.clscope"],
    &["programs", "t.clscope"],
    &["check", "--fail-on", "none", "t.clscope"],
    &["diff", "t.clscope", "t.clscope"],
    &["kernel", "t.clscope", "--export", "c", "-o", "alone"],
];

/// None may die by a signal or a panic. What the first three gave: report, dump and timeline.
#[track_caller]
fn read(stage: &Stage, what: &str) -> [Finished; 3] {
    let all = READING.map(|arguments| {
        for left in ["t.data", "merged.clscope", "alone"] {
            let _ = std::fs::remove_dir_all(stage.join(left));
        }
        let finished = stage.clscope(arguments).run();
        assert_eq!(finished.status.signal(), None, "{what} {arguments:?}: {}", finished.stderr);
        assert!(
            matches!(finished.status.code(), Some(0 | 1)),
            "{what} {arguments:?}: {} {}",
            finished.status,
            finished.stderr
        );
        if finished.status.code() == Some(1) {
            assert!(finished.stderr.contains("clscope"), "{what} {arguments:?}: an error is said");
        }
        finished
    });
    let [report, dump, timeline, ..] = all;
    [report, dump, timeline]
}

#[test]
fn files_cut_at_any_length_are_read_as_far_as_they_go() {
    for ending in [".defs", ".clt", ".ring"] {
        let stage = recorded();
        let file = files(&stage, ending).pop().unwrap_or_else(|| panic!("no file {ending}"));
        let whole = std::fs::read(&file).unwrap();
        for length in [
            0,
            1,
            8,
            64,
            127,
            128,
            129,
            200,
            4095,
            4096,
            5000,
            whole.len() / 2,
            whole.len().saturating_sub(1),
        ] {
            if length < whole.len() {
                std::fs::write(&file, &whole[..length]).unwrap();
                let [report, ..] = read(&stage, &format!("{ending} cut to {length}"));
                // A ring file without rings is what a process leaves that was killed before its
                // first record.
                assert!(
                    !report.stderr.is_empty() || ending == ".ring" && length >= 128,
                    "{ending} cut to {length} is said"
                );
            }
        }
    }
}

#[test]
fn flipped_bytes_are_noticed_and_harmless() {
    for ending in [".defs", ".ring"] {
        let stage = recorded();
        let file = files(&stage, ending).pop().unwrap();
        let whole = std::fs::read(&file).unwrap();
        // A fixed sequence: the same bytes on every run.
        let mut random = Random::new(12345);
        for _ in 0..25 {
            let at = random.below(whole.len().min(40_000) as u64) as usize;
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << random.below(8);
            std::fs::write(&file, &damaged).unwrap();
            read(&stage, &format!("{ending} byte {at}"));
        }
    }
}

#[test]
fn foreign_files_are_said_to_be_foreign() {
    let stage = recorded();
    for ending in [".defs", ".ring"] {
        for file in files(&stage, ending) {
            std::fs::write(file, "this is a text, and no trace at all, although it is long enough for a header of a hundred and twenty-eight bytes or so ....").unwrap();
        }
    }
    for segment in files(&stage, ".clt") {
        std::fs::remove_file(segment).unwrap();
    }
    let [report, ..] = read(&stage, "foreign");
    assert!(
        report.status.code() == Some(1) && report.stderr.contains("not a clscope trace file"),
        "{}",
        report.stderr
    );
}

#[test]
fn a_trace_of_a_newer_format_says_so() {
    let stage = recorded();
    for ending in [".defs", ".ring", ".clt"] {
        for file in files(&stage, ending) {
            let mut bytes = std::fs::read(&file).unwrap();
            bytes[12] = 9;
            let sum = clscope_trace::checksum(&bytes[..120]);
            bytes[120..128].copy_from_slice(&sum.to_le_bytes());
            std::fs::write(&file, bytes).unwrap();
        }
    }
    let [report, ..] = read(&stage, "newer");
    assert!(report.stderr.contains("format version 9"), "{}", report.stderr);
    assert!(report.stderr.contains("newer clscope"), "{}", report.stderr);
}

#[test]
fn paths_that_are_no_trace_are_said_to_be_none() {
    let stage = Stage::new(Runtime::FakeLoader);
    std::fs::create_dir(stage.join("empty.clscope")).unwrap();
    std::fs::write(stage.join("file"), "text").unwrap();
    for (path, word) in
        [("no-such", "no-such"), ("empty.clscope", "empty.clscope"), ("file", "file")]
    {
        for command in [&["report"][..], &["dump"], &["export", "chrome"]] {
            let finished = stage.clscope(command.iter().copied().chain([path])).run();
            assert_eq!(finished.status.code(), Some(1), "{command:?} {path}");
            assert!(
                finished.stderr.contains(word) && finished.stderr.lines().count() == 1,
                "{command:?}: {}",
                finished.stderr
            );
        }
    }
    let none = Stage::new(Runtime::FakeLoader);
    let finished = none.clscope(["report"]).run();
    assert!(finished.stderr.contains("clscope record"), "the next step: {}", finished.stderr);
}

#[test]
fn the_newest_trace_of_the_directory_is_taken() {
    let stage = recorded();
    let finished = stage.clscope(["report", "--all"]).run().success();
    assert!(finished.stdout.contains("t.clscope"), "{}", finished.stdout);
}
