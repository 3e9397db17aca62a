//! Which memory of the host transfers use is told in every way in, by what the runtime was asked
//! for; what was mapped while nothing was recorded counts; where more is mapped than is kept,
//! nothing is claimed.

use clscope_analysis::host_memory::HostMemory;
use clscope_tests::{Mode, Recorded, Runtime, Stage};
use serde_json::Value;

/// Of each transfer of a trace of the fixture, in order, what it used, but for the command's own
/// name of more than one kind.
fn used(recorded: &Recorded) -> Vec<&'static str> {
    let transfers = recorded.only().commands.iter().filter(|c| c.kind.uses_host_memory());
    transfers.map(|c| c.memory.map_or("none", HostMemory::text)).collect()
}

/// What the application says of them, in the listing's words.
fn said(stdout: &str) -> Vec<&'static str> {
    let words = stdout.lines().map(|line| match line {
        "own" => "application",
        "pinned" => "mapped,alloc-host-ptr",
        "used" => "mapped,use-host-ptr",
        "svm" => "svm",
        "any" => "unknown",
        other => panic!("{other}"),
    });
    words.collect()
}

#[test]
fn transfers_say_which_memory_of_the_host_they_use() {
    for runtime in Runtime::real() {
        for mode in Mode::RECORDING {
            let (finished, recorded) = Stage::new(runtime.clone()).record(mode, "host_memory");
            assert_eq!(finished.status.code(), Some(0), "{mode:?} {}", finished.stderr);
            let said = said(&finished.stdout);
            assert!(said.contains(&"svm") && said.len() > 20, "{said:?}");
            assert_eq!(used(&recorded), said, "{runtime:?} {mode:?}");
            let dropped: u64 = recorded.processes.iter().map(|p| p.dropped).sum();
            assert_eq!(dropped, 0);
        }
    }
}

#[test]
fn readers_tell_transfers_of_mapped_memory_from_others() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let run = stage.app(Mode::Record, "t", "host_memory").run().success();
        let of = |word: &str| run.stdout.lines().filter(|line| *line == word).count() as u64;
        let dump = stage.clscope(["dump", "t.clscope"]).run().success().stdout;
        let listed = |text: &str| dump.lines().filter(|line| line.contains(text)).count() as u64;
        assert_eq!(listed(" host=mapped,alloc-host-ptr of=#"), of("pinned"));
        assert_eq!(listed(" host=application "), of("own"));
        assert_eq!(listed("detail 17"), 0, "it is on the line of its transfer");
        let explained = stage.clscope(["explain", "t.clscope", "--format", "json"]);
        let explained: Value = serde_json::from_str(&explained.run().success().stdout).unwrap();
        let moved = explained["devices"][0]["transfers"].as_array().unwrap();
        let sum = |class: &str| {
            let counts = moved.iter().map(|m| m["host_memory"][class]["count"].as_u64().unwrap());
            counts.sum::<u64>()
        };
        assert_eq!(sum("pinned"), of("pinned"));
        assert_eq!(sum("mapped"), of("used") + of("svm"));
        assert_eq!(sum("application"), of("own"));
        assert_eq!(sum("unknown"), of("any"));
        let text = stage.clscope(["explain", "t.clscope"]).run().success().stdout;
        assert!(text.contains("to the application's own memory"), "{text}");
    }
}

#[test]
fn what_was_mapped_while_recording_was_paused_is_known() {
    let stage = Stage::new(Runtime::Pocl);
    let program = clscope_tests::artifacts().fixture("host_memory");
    let run = stage.clscope(["record", "-q", "-f", "-o", "t", "--start-paused", "--"]);
    let mut app = run.arg(program).arg("talk").talk();
    assert_eq!(app.hear(), "ready");
    assert_eq!(app.tell("map"), "mapped");
    let trace = stage.trace("t");
    let start = stage.clscope(["ctl".as_ref(), trace.as_os_str(), "start".as_ref()]);
    start.run().success();
    let mut all = vec![app.tell("go on")];
    while all.len() < 4 {
        all.push(app.hear());
    }
    assert!(app.end().success());
    let recorded = Recorded::read(&[&trace]);
    let used = used(&recorded);
    assert_eq!(used[..4], said(&all.join("\n")), "{used:?}");
    assert!(used[2..4].iter().all(|u| *u == "mapped,alloc-host-ptr"), "{used:?}");
}
