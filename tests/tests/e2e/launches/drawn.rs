//! Launches that are drawn by chance and kept whole (`CLSCOPE_SAMPLE`): the log tells each place of
//! each class's sample, what it names is there, and nothing else is; a dry run copies nothing; a
//! launch that the runtime refuses is none.

use crate::launches::captures::{document, files, folders};
use clscope_tests::{Mode, Recorded, Run, Runtime, Stage};
use serde_json::Value;
use std::collections::BTreeMap;

/// The lines of the log of a trace's only process.
fn log(stage: &Stage) -> Vec<Value> {
    let names = folders(&stage.trace("t"));
    let name = names.iter().find(|name| name.ends_with(".samples.jsonl"));
    let name = name.unwrap_or_else(|| panic!("no log: {names:?}"));
    let text = std::fs::read_to_string(stage.trace("t").join("captures").join(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The last line of each place of each class's sample.
fn places(log: &[Value]) -> BTreeMap<(u64, u64), &Value> {
    let number = |line: &Value, name: &str| line[name].as_u64();
    let place = |line: &Value| Some((number(line, "class")?, number(line, "slot")?));
    log.iter().filter_map(|line| Some((place(line)?, line))).collect()
}

fn drawn(stage: &Stage, line: &str, sample: &str) -> Run {
    stage.forget("t");
    stage.app(Mode::Preload, "t", line).env("CLSCOPE_SAMPLE", sample)
}

#[test]
fn the_log_names_what_is_kept_and_what_is_missing() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let line = "rounds 400";
        let bare = stage.app(Mode::Bare, "bare", line).run().success();
        let with = drawn(&stage, line, "4").run().success();
        assert_eq!(with.seen(), bare.seen(), "{runtime:?}");
        let log = log(&stage);
        let places = places(&log);
        let mut kept: Vec<String> =
            places.values().filter_map(|l| l["captured"].as_str()).map(str::to_owned).collect();
        kept.sort();
        let there = folders(&stage.trace("t"));
        let there: Vec<String> = there.into_iter().filter(|n| !n.ends_with(".jsonl")).collect();
        assert_eq!(there, kept, "{runtime:?}: losers are gone, and none is left half-written");
        assert!(!kept.is_empty(), "{runtime:?}: {log:#?}");
        // All launches were counted, by class.
        let recorded = Recorded::read(&[&stage.trace("t")]);
        let launches = recorded.only().commands.iter().filter(|c| c.kernel.is_some()).count();
        let seen: u64 = log.iter().filter_map(|line| line["seen"].as_u64()).sum();
        assert_eq!(seen, launches as u64, "{runtime:?}");
        let classes = log.iter().filter(|line| line["kernel"].is_string()).count();
        assert_eq!(classes, log.iter().filter(|line| line["seen"].is_u64()).count());
        for (place, line) in &places {
            let told = [line["captured"].is_string(), line["missing"].is_string()];
            assert!(told[0] != told[1], "{place:?}: {line}");
            if let Some(folder) = line["captured"].as_str() {
                let said = document(&stage.trace("t").join("captures").join(folder));
                assert_eq!(said["command"], line["command"], "{line}");
            }
        }
    }
}

#[test]
fn a_dry_run_tells_what_could_be_kept_and_keeps_nothing() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let known = stage.join("known");
        std::fs::create_dir_all(&known).unwrap();
        let known = known.display();
        for (case, could) in [("buffers", true), ("fine", false)] {
            let line = format!("captured {case} {known}");
            let with = drawn(&stage, &line, "plan").run().success();
            if with.stdout.starts_with("skipped") {
                continue;
            }
            let log = log(&stage);
            let places = places(&log);
            assert_eq!(places.len(), 3, "{runtime:?} {case}: three launches");
            for line in places.values() {
                assert_eq!(line["would"] == true, could, "{runtime:?} {case}: {line}");
                assert_eq!(line["bytes"].is_u64(), could, "{line}");
                assert_eq!(line["missing"].is_string(), !could, "{line}");
            }
            assert_eq!(folders(&stage.trace("t")).len(), 1, "the log alone");
        }
    }
}

/// A launch whose memory cannot be kept is described once for each class, without any of it: nothing
/// runs it but who counts instructions.
#[test]
fn a_launch_that_is_not_kept_is_described() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let bare = stage.app(Mode::Bare, "bare", "rounds 20").run().success();
        // Room for the program, and for half of the memory.
        drawn(&stage, "rounds 20", "1").run().success();
        let whole = folders(&stage.trace("t"));
        let whole = whole.iter().find(|name| !name.ends_with(".jsonl")).unwrap();
        let files = files(&stage.trace("t").join("captures").join(whole));
        let sum = |begin: &str| {
            let own = files.iter().filter(|(name, _)| name.starts_with(begin));
            own.map(|(_, bytes)| bytes.len()).sum::<usize>()
        };
        let limit = sum("program") + sum("memory-") / 2;
        let run = drawn(&stage, "rounds 20", "1");
        let run = run.env("CLSCOPE_CAPTURE_LIMIT", limit.to_string());
        assert_eq!(run.run().success().seen(), bare.seen(), "{runtime:?}");
        let there = folders(&stage.trace("t"));
        let described: Vec<&String> = there.iter().filter(|n| n.ends_with(".described")).collect();
        assert!(!described.is_empty(), "{runtime:?}: {there:?}");
        let classes = log(&stage).iter().filter(|line| line["kernel"].is_string()).count();
        assert!(described.len() <= classes, "{there:?}");
        for folder in described {
            let folder = stage.trace("t").join("captures").join(folder);
            let names = std::fs::read_dir(&folder).unwrap().map(|of| of.unwrap().file_name());
            assert!(names.into_iter().all(|n| !n.to_string_lossy().starts_with("memory-")));
            let said = document(&folder);
            for memory in said["memories"].as_array().unwrap() {
                let why = memory["before_missing"].as_str().unwrap();
                assert!(why.contains("CLSCOPE_CAPTURE_LIMIT"), "{why}");
                assert!(memory["before"].is_null() && memory["bytes"].is_u64(), "{memory}");
            }
            let path = folder.to_str().unwrap();
            let refused = stage.clscope(["kernel", path]).run();
            assert!(!refused.status.success());
            assert!(refused.stderr.contains("without what its memory held"), "{}", refused.stderr);
        }
        // What it executes does not depend on what memory held.
        let counted = stage.clscope(["replay", "t", "--mix", "--sysfs-root", "/nowhere"]).run();
        assert!(counted.stderr.contains("1 with counts of instructions"), "{}", counted.stderr);
    }
}

#[test]
fn a_launch_that_the_runtime_refuses_is_none() {
    let stage = Stage::new(Runtime::FakeLoader);
    // An invalid size of work-groups: the application goes on.
    let run = drawn(&stage, "linked 9", "4").env("FAKE_CL_FAIL", "clEnqueueNDRangeKernel:-54@2");
    let ended = run.run();
    let recorded = Recorded::read(&[&stage.trace("t")]);
    let launches = recorded.only().commands.iter().filter(|c| c.kernel.is_some()).count();
    let log = log(&stage);
    let seen: u64 = log.iter().filter_map(|line| line["seen"].as_u64()).sum();
    assert_eq!(seen, launches as u64, "{ended:?}");
    for line in places(&log).values() {
        assert!(line["launch"].as_u64().unwrap() <= launches as u64, "{line}");
    }
}

/// Where the application is refused memory the recorder gives its own back, and the call is made
/// once more; where the recorder is refused memory the application does not notice.
#[test]
fn an_application_that_is_refused_memory_gets_the_recorders() {
    let stage = Stage::new(Runtime::FakeLoader);
    let failing = |nth: u32| format!("clCreateBuffer:-4@{nth}");
    for nth in 1..=7 {
        let run = drawn(&stage, "linked 3", "4").env("FAKE_CL_FAIL", failing(nth)).run();
        let bare =
            stage.app(Mode::Bare, "bare", "linked 3").env("FAKE_CL_FAIL", failing(nth)).run();
        // The application makes three buffers. Ahead of the first the recorder has nothing to give.
        assert_eq!(bare.status.success(), nth > 3, "{bare:?}");
        assert_eq!(run.status.success(), nth > 1, "{nth}: {run:?}");
    }
}

/// Many applications launch what they launch before they wait for the first time: memory for copies
/// is there before.
#[test]
fn memory_is_kept_of_programs_that_seldom_wait() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for line in ["late_wait 4096", "late_wait 50000000", "late_wait 50000000 out-of-order"] {
            let run = drawn(&stage, line, "4").run().success();
            assert_eq!(run.stdout, "late_wait right\n", "{runtime:?} {line}");
            let log = log(&stage);
            let kept = places(&log).values().any(|line| line["captured"].is_string());
            assert!(kept, "{runtime:?} {line}: {log:#?}");
        }
    }
}

/// Room for copies is there again when one launch's have been read, whatever other launches' copies
/// wait for: what lacked room is captured by a later launch.
#[test]
fn room_for_copies_comes_back_launch_by_launch() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let run = drawn(&stage, "many_kernels 12 8388608 12 held", "1").run().success();
        assert_eq!(run.stdout, "many_kernels right\n", "{runtime:?}");
        let log = log(&stage);
        // There may be no time for all of them.
        let lacks =
            |line: &&Value| line["missing"].as_str().is_some_and(|why| why.contains("fill"));
        let (places, kernels) = (places(&log), 13);
        let lacking = places.values().copied().filter(lacks).count();
        assert_eq!((places.len(), lacking), (kernels, 0), "{runtime:?}: {log:#?}");
        // More than there is room for at once.
        let kept = places.values().filter(|line| line["captured"].is_string()).count();
        assert!(kept > 4, "{runtime:?}: {log:#?}");
    }
}

/// The recorder's copies are told one by one, and every view has them apart from the application's.
#[test]
fn copies_have_a_row_of_their_own() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let app = drawn(&stage, "late_wait 50000000", "4");
        app.env("CLSCOPE_DEVICE_TIMING", "event").run().success();
        let report = stage.clscope(["report", "--format", "json", "t"]).run().success().stdout;
        let report: Value = serde_json::from_str(&report).unwrap();
        let copies = report["answer"]["copies"].as_array().unwrap();
        let own = copies.iter().find(|row| row["direction"] == "by clscope");
        let own = own.unwrap_or_else(|| panic!("{runtime:?}: {copies:#?}"));
        let (count, bytes) = (own["count"].as_u64().unwrap(), own["bytes"].as_u64().unwrap());
        assert!(count >= 1 && bytes >= 50_000_000, "{runtime:?}: {own}");
        // Nobody else's: the application copies 4 KiB at most at a time.
        let others = copies.iter().filter(|row| row["direction"] != "by clscope");
        let most = others.map(|row| row["bytes"].as_u64().unwrap()).max().unwrap();
        assert!(most < 1 << 20, "{copies:#?}");
        let why = report["answer"]["why"].as_array().unwrap();
        let recording = why.iter().find(|cause| cause["kind"] == "recording").unwrap();
        let ns = |value: &Value| value["time_ns"]["value"].as_f64().unwrap();
        let host = recording["time_ns"].as_f64().unwrap();
        // The queue is in order: nothing of the application's runs beside a copy.
        assert!(host >= 0.95 * ns(own), "{runtime:?}: {recording} {own}");
        let shares: f64 = why.iter().map(|cause| cause["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-6, "{shares}");
        stage.clscope(["export", "chrome", "t", "-o", "timeline.json"]).run().success();
        let drawn = std::fs::read_to_string(stage.join("timeline.json")).unwrap();
        assert!(drawn.contains("memory of a captured launch"), "{runtime:?}");
    }
}
