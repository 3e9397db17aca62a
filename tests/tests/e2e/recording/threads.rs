//! Threads: a race for the first call, thousands that come and go, one that outlives main. What
//! each did is in the trace.

use clscope_tests::{Mode, Recorded, Runtime, Stage};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn threads_that_race_for_the_first_call_are_all_recorded() {
    for runtime in Runtime::real() {
        for mode in Mode::RECORDING {
            let (finished, recorded) =
                Stage::new(runtime.clone()).record(mode, "threads first 8 10");
            assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr);
            let process = recorded.only();
            assert_eq!(process.launches(Some("vector_add")), 80, "{mode:?}");
            // One by each thread for the race, one by each app_open.
            assert_eq!(process.count("clGetPlatformIDs"), 16, "{mode:?}");
            process.assert_all_timed();
            process.assert_causal();
        }
    }
}

#[test]
fn ten_thousand_short_threads_lose_nothing() {
    let stage = Stage::new(Runtime::Pocl);
    let (finished, recorded) = stage.record(Mode::Preload, "threads short 10000 10");
    assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr);
    let process = recorded.only();
    let mut per_thread: BTreeMap<u32, usize> = BTreeMap::new();
    for call in process.calls.iter().filter(|c| c.name == "clRetainMemObject") {
        *per_thread.entry(call.thread).or_default() += call.times;
    }
    assert_eq!(per_thread.len(), 10000);
    assert!(per_thread.values().all(|n| *n == 10));
    assert_eq!(process.dropped, 0);
    // Rings are handed on from thread to thread: the trace must not grow by one for each.
    let bytes: u64 = std::fs::read_dir(stage.trace("t"))
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 64 << 20, "{bytes} bytes for 200,000 calls");
}

/// What nobody waits for is timed on a thread of ours, which has a ring like any other.
#[test]
fn the_recorders_own_threads_are_not_counted_among_the_applications() {
    for runtime in Runtime::real() {
        for mode in Mode::RECORDING {
            let stage = Stage::new(runtime.clone());
            let mut talk = stage.app(mode, "t", "stepwise").talk();
            talk.hear();
            let trace = stage.trace("t");
            // It comes when it comes; the time of a test is limited.
            while {
                talk.tell("leave 20");
                let recorded = Recorded::read(&[&trace]);
                !recorded.only().definitions.threads.values().any(|t| t.name == "clscope-reaper")
            } {}
            assert!(talk.end().success());
            let shown = trace.display().to_string();
            let told = stage.clscope(["report", "--format", "json", &shown]).run().success().stdout;
            let report: serde_json::Value = serde_json::from_str(&told).unwrap();
            assert_eq!(report["processes"][0]["threads"], 1, "{mode:?} {runtime:?}");
            let text = stage.clscope(["report", "--all", &shown]).run().success().stdout;
            assert!(text.contains(" 1 thread,"), "{mode:?}: {text}");
        }
    }
}

#[test]
fn threads_with_their_own_queues_are_kept_apart() {
    for runtime in Runtime::real() {
        let (_, recorded) = Stage::new(runtime).record(Mode::Preload, "threads calls 6 500");
        let process = recorded.only();
        assert_eq!(process.launches(Some("increment")), 3000);
        let mut per_queue: BTreeMap<u32, usize> = BTreeMap::new();
        for command in process.commands.iter().filter(|c| c.kernel.as_deref() == Some("increment"))
        {
            *per_queue.entry(command.queue).or_default() += 1;
        }
        assert_eq!(per_queue.values().copied().collect::<Vec<_>>(), [500; 6]);
        process.assert_all_timed();
    }
}

#[test]
fn threads_on_one_queue_lose_nothing() {
    for runtime in Runtime::real() {
        let (_, recorded) = Stage::new(runtime).record(Mode::Preload, "threads shared 6 1000");
        let process = recorded.only();
        assert_eq!(process.launches(Some("noop")), 6000);
        process.assert_all_timed();
        // Each thread's own: what one does must not be told of another.
        let mut per_thread: BTreeMap<u32, usize> = BTreeMap::new();
        for call in process.calls.iter().filter(|c| c.name == "clEnqueueNDRangeKernel") {
            *per_thread.entry(call.thread).or_default() += 1;
        }
        assert_eq!(per_thread.values().copied().collect::<Vec<_>>(), [1000; 6]);
    }
}

#[test]
fn a_threads_records_are_in_order() {
    let (_, recorded) = Stage::new(Runtime::Pocl).record(Mode::Preload, "threads cheap 4 20000");
    // What the threads of `threads cheap` do, over and over: the reader sorts by time, and records
    // of another order would show as another round.
    const ROUND: [&str; 4] =
        ["clSetKernelArg", "clGetKernelInfo", "clRetainMemObject", "clReleaseMemObject"];
    let mut last: BTreeMap<u32, i64> = BTreeMap::new();
    let mut rounds: BTreeMap<u32, usize> = BTreeMap::new();
    let workers: BTreeSet<u32> = recorded
        .only()
        .calls
        .iter()
        .filter(|c| c.name == "clGetKernelInfo")
        .map(|c| c.thread)
        .collect();
    assert_eq!(workers.len(), 4);
    for call in &recorded.only().calls {
        let before = last.insert(call.thread, call.end).unwrap_or(i64::MIN);
        assert!(call.begin >= before, "a thread makes one call after the other: {call:?}");
        if workers.contains(&call.thread) && ROUND.contains(&call.name.as_str()) {
            let done = rounds.entry(call.thread).or_default();
            assert_eq!(call.name, ROUND[*done % 4], "call {done} of thread {}", call.thread);
            *done += 1;
        }
    }
    assert_eq!(rounds.into_values().collect::<Vec<_>>(), [4 * 20000; 4]);
}

#[test]
fn calls_at_the_end_of_threads_are_recorded() {
    let (_, recorded) = Stage::new(Runtime::Pocl).record(Mode::Preload, "threads late 200 5");
    assert_eq!(recorded.only().count("clRetainMemObject"), 200 * (5 + 3));
}
