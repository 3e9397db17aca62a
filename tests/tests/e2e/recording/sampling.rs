//! Sampled timing of transfers: they are left out as launches are, with probabilities that records
//! tell, and reports give totals of all of them with intervals.

use clscope_tests::trace::End;
use clscope_tests::{Mode, Recorded, Runtime, Stage};
use clscope_trace::Untimed;
use clscope_trace::record::CommandKind;
use serde_json::Value;

/// Commands of the kind: all, and those left out by chance; every other one must have its time.
fn left_out(recorded: &Recorded, kind: CommandKind) -> (usize, usize) {
    let of_kind: Vec<_> = recorded.only().commands.iter().filter(|c| c.kind == kind).collect();
    let left = of_kind
        .iter()
        .filter(|c| matches!(c.end_state, End::Untimed(Untimed::NotSampled, _)))
        .count();
    let timed = of_kind.iter().filter(|c| c.raw().is_some()).count();
    assert_eq!(timed + left, of_kind.len(), "{kind:?}");
    (of_kind.len(), left)
}

#[test]
fn transfers_are_sampled_and_totals_stand_for_all() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let app = stage
            .app(Mode::Preload, "t", "rounds 1600 4096")
            .env("CLSCOPE_DEVICE_TIMING", "sample");
        let finished = app.run().success();
        assert_eq!(finished.stdout, "rounds 1600 right\n");
        let recorded = Recorded::read(&[&stage.trace("t")]);
        for kind in [CommandKind::WriteBuffer, CommandKind::ReadBuffer] {
            let (all, left) = left_out(&recorded, kind);
            // 16 of each size are always timed, and of the rest some by chance.
            assert!(all >= 1600 && left > 0 && all - left >= 2 * 16, "{kind:?}: {left} of {all}");
        }
        let report =
            stage.clscope(["report", "--format", "json", "t.clscope"]).run().success().stdout;
        let report: Value = serde_json::from_str(&report).unwrap();
        let transfers = report["transfers"].as_array().unwrap();
        let sampled = transfers.iter().filter(|t| t["left_out"].as_u64() > Some(0));
        assert_eq!(sampled.clone().count(), 2, "writes and reads: {report:#}");
        for transfer in sampled {
            let (count, timed) = (
                transfer["count"].as_u64().unwrap(),
                transfer["time_ns"]["count"].as_u64().unwrap(),
            );
            let estimate = &transfer["estimate"];
            assert_eq!(estimate["timed"], timed);
            let figure = |e: &Value| e["value"].as_f64().unwrap();
            let total = figure(&estimate["total_ns"]);
            let [low, high] = ["low", "high"].map(|i| estimate["total_ns"][i].as_f64().unwrap());
            assert!(low <= total && total <= high, "{estimate}");
            // More than what was timed, by what the others took.
            assert!(total > transfer["time_ns"]["total"].as_f64().unwrap(), "{transfer}");
            assert!(
                (figure(&estimate["mean_ns"]) - total / count as f64).abs() < 1.0,
                "{transfer}"
            );
            // Flame graphs stand for all as well.
            let name = transfer["name"].as_str().unwrap();
            let folded =
                stage.clscope(["export", "folded", "-o", "-", "t.clscope"]).run().success();
            let of = |line: &str| {
                line.rsplit_once(" ").filter(|l| l.0.ends_with(name))?.1.parse::<f64>().ok()
            };
            let drawn: f64 = folded.stdout.lines().filter_map(of).sum();
            assert!((drawn - total).abs() < 1e-3 * total, "{name}: {drawn} of {total}");
        }
        let whole = report["totals"]["transfer_estimate_ns"]["value"].as_f64().unwrap();
        assert!(whole > report["totals"]["transfer_ns"].as_f64().unwrap());
    }
}

/// On the fake each command takes the time it is told to, or little more where the machine is busy.
#[test]
fn the_total_of_sampled_transfers_is_what_they_took() {
    let stage = Stage::new(Runtime::FakeLoader);
    let script = stage.join("script");
    std::fs::write(&script, "span 20000\nprice 20000\n").unwrap();
    let app =
        stage.app(Mode::Preload, "t", "rounds 1600 4096").env("CLSCOPE_DEVICE_TIMING", "sample");
    app.env("FAKE_CL_SCRIPT", &script).run().success();
    let (all, left) = left_out(&Recorded::read(&[&stage.trace("t")]), CommandKind::WriteBuffer);
    // How many depends on the machine: their price is held against its time.
    assert!(left > 0, "{left} of {all}");
    let report = stage.clscope(["report", "--format", "json", "t.clscope"]).run().success().stdout;
    let report: Value = serde_json::from_str(&report).unwrap();
    let write = report["transfers"]
        .as_array()
        .unwrap()
        .iter()
        .find(|t| t["name"] == "WriteBuffer")
        .unwrap();
    let total = &write["estimate"]["total_ns"];
    assert!(total["high"].as_f64() >= Some(20_000.0 * all as f64), "{write}");
    assert!(total["value"].as_f64() >= Some(0.95 * 20_000.0 * all as f64), "{write}");
}

#[test]
fn long_transfers_are_always_timed() {
    let stage = Stage::new(Runtime::FakeLoader);
    // 8 MiB, and 64 MiB every eighth time: beside those the price of an event is nothing.
    let app =
        stage.app(Mode::Preload, "t", "rounds 160 8388608").env("CLSCOPE_DEVICE_TIMING", "sample");
    app.run().success();
    let recorded = Recorded::read(&[&stage.trace("t")]);
    let long = recorded.only().commands.iter().filter(|c| c.bytes == 64 << 20);
    assert!(long.clone().count() == 40 && long.clone().all(|c| c.raw().is_some()));
    // The shorter ones are chosen with a quarter or more.
    let (all, left) = left_out(&recorded, CommandKind::WriteBuffer);
    assert!(left < all, "{left} of {all}");
}

/// NVIDIA's driver times the events of its own in blocking transfers where the queue profiles.
#[test]
fn transfers_that_are_left_out_are_not_timed_by_the_runtime_either() {
    let stage = Stage::new(Runtime::FakeLoader);
    let (script, report) = (stage.join("script"), stage.join("report"));
    let own = |platform: &str| {
        std::fs::write(
            &script,
            format!("platform {platform}\nprofiling enqueue\nspan 20000\nprice 20000\n"),
        )
        .unwrap();
        stage.forget("t");
        let app = stage
            .app(Mode::Preload, "t", "rounds 1600 4096")
            .env("CLSCOPE_DEVICE_TIMING", "sample");
        app.env("FAKE_CL_SCRIPT", &script).env("FAKE_CL_REPORT", &report).run().success();
        let text = std::fs::read_to_string(&report).unwrap();
        let line: Vec<&str> =
            text.lines().find(|l| l.starts_with("own ")).unwrap().split(' ').collect();
        [line[1], line[3]].map(|n| n.parse::<u64>().unwrap())
    };
    // How many are left out depends on what the machine can afford. Before it is known for the
    // first time, with the 512th, few are chosen.
    let [left_out, timed] = own("NVIDIA CUDA");
    assert!(left_out > 200 && timed == 0, "{timed} of {left_out}");
    // A runtime of which nothing is known is not asked to switch.
    let [left_out, timed] = own("Some other");
    assert!(left_out > 200 && timed == left_out, "{timed} of {left_out}");
}

/// What an application queries of itself needs no sampling: its sum is the report's, to the
/// nanosecond, and what it does not query is estimated as ever.
#[test]
fn times_that_the_application_queries_are_taken_from_it() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        for mode in [Mode::Preload, Mode::Layer] {
            for (line, every) in [
                ("times_itself 3000 1", 1),
                ("times_itself 3000 1 64", 1),
                ("times_itself 3000 3", 3),
                ("times_itself 3000 0", 0),
            ] {
                stage.forget("t");
                let app = stage.app(mode, "t", line).env("CLSCOPE_DEVICE_TIMING", "sample");
                let printed = app.run().success().stdout;
                let words: Vec<u64> = printed.split(' ').filter_map(|w| w.parse().ok()).collect();
                let [told, sum] = words[..] else { panic!("{printed}") };
                let report = stage.clscope(["report", "--format", "json", "t.clscope"]).run();
                let report: Value = serde_json::from_str(&report.success().stdout).unwrap();
                let kernel = &report["kernels"][0];
                let of = |what: &str| kernel[what].as_u64().unwrap();
                let timed = kernel["time_ns"]["count"].as_u64().unwrap();
                assert_eq!((of("count"), of("left_out") + timed), (3000, 3000), "{line}: {kernel}");
                if every == 1 {
                    // What was enqueued before it first queried anything may be left out.
                    let before = if line.ends_with("64") { 64 } else { 0 };
                    assert_eq!(told, 3000);
                    assert!(of("left_out") <= before, "{line}: {kernel}");
                    let notes = report["issues"].to_string();
                    assert!(of("left_out") > 0 || !notes.contains("random part"), "{notes}");
                    let total = kernel["time_ns"]["total"].as_f64().unwrap();
                    let exact = of("left_out") > 0 || (total - sum as f64).abs() < 1.0;
                    assert!(exact, "{line}: {total} {sum}");
                } else {
                    // Those queried, the first sixteen, and some of the others by chance.
                    assert!(timed > told && of("left_out") > 0, "{line}: {timed} of {told}");
                }
            }
        }
    }
}

/// Of launches that never ran, because what they waited for never came, no time is estimated.
#[test]
fn launches_behind_one_that_never_ended_are_unfinished_with_it() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let app = stage.app(Mode::Preload, "t", "many_commands 20000 killed");
        let app = app.env("CLSCOPE_DEVICE_TIMING", "sample").env("CLSCOPE_BUDGET", "10");
        assert!(!app.run().status.success());
        let finished = stage.clscope(["report", "--format", "json", "t.clscope"]).run().success();
        let report: Value = serde_json::from_str(&finished.stdout).unwrap();
        let kernel = crate::reports::top::named(&report["kernels"], "name", &"increment".into());
        assert_eq!(kernel["count"], 22_000);
        // Up to the first that was to be timed they may have run, for all that is known.
        let [timed, left_out] = [&kernel["time_ns"]["count"], &kernel["left_out"]];
        let counted = timed.as_u64().unwrap() + left_out.as_u64().unwrap_or(0);
        assert!((2000..7000).contains(&counted), "{counted}: {kernel}");
        // A launch that was interrupted stands for hundreds: then the interval is wide.
        let total = kernel["estimate"]["total_ns"]["low"].as_f64();
        let total = total.or(kernel["time_ns"]["total"].as_f64()).unwrap();
        let wall = report["duration_ns"].as_f64().unwrap();
        assert!(total < wall, "{total} of {wall}: {kernel}");
        let unfinished = report["issues"].to_string();
        assert!(unfinished.contains("commands without an end"), "{unfinished}");
    }
}
