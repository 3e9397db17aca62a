//! `clscope export perfetto` on real applications: whatever the trace holds is found again in
//! Google's trace processor, to the nanosecond, and nothing is imported with a warning.

use clscope_tests::trace::End;
use clscope_tests::viewer::{ask, processor};
use clscope_tests::{Mode, Process, Recorded, Runtime, Stage, artifacts, skip};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A face detection, recorded as `t.clscope`.
pub fn face_detection(stage: &Stage) -> Option<()> {
    let photograph = std::env::var_os("CLSCOPE_TEST_PHOTOGRAPH")
        .map(PathBuf::from)
        .filter(|p| p.exists() && Path::new("/usr/bin/python3").exists());
    let Some(photograph) = photograph else {
        skip("CLSCOPE_TEST_PHOTOGRAPH names no file: tools/setup/test.sh sets it", true);
        return None;
    };
    let script = artifacts::root().join("tools/setup/face_detect.py");
    stage
        .program(Mode::Record, "t", "/usr/bin/python3")
        .arg(script)
        .arg(photograph)
        .env("OPENCV_OPENCL_DEVICE", ":CPU:")
        .env("OPENCV_OPENCL_CACHE_ENABLE", "0")
        .run()
        .success();
    Some(())
}

fn number(value: &Value) -> i64 {
    value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_else(|| panic!("{value}"))
}

const WARNINGS: &str =
    "select name, severity, value from stats where value > 0 and severity != 'info'";
const SPANS: &str = "select ts, dur, name from gpu_slice order by ts, dur, name";
const CALLS: &str = "select s.ts ts, s.dur dur, s.name name, t.tid tid, p.pid pid from slice s join thread_track k on s.track_id = k.id join thread t using (utid) join process p using (upid) where s.dur >= 0 and s.category != 'recording'";
/// Which host call leads to which command, by the ids that both hold.
const SUBMITTED: &str = "select extract_arg(h.arg_set_id, 'debug.command') call, extract_arg(g.arg_set_id, 'command') command from flow f join slice h on f.slice_out = h.id join gpu_slice g on f.slice_in = g.id join thread_track k on h.track_id = k.id";
const WAITED: &str = "select extract_arg(a.arg_set_id, 'command') before, extract_arg(b.arg_set_id, 'command') after from flow f join gpu_slice a on f.slice_out = a.id join gpu_slice b on f.slice_in = b.id";
const FINISHED: &str = "select extract_arg(g.arg_set_id, 'command') command, h.name name from flow f join gpu_slice g on f.slice_out = g.id join slice h on f.slice_in = h.id join thread_track k on h.track_id = k.id";

fn main_process(recorded: &Recorded) -> &Process {
    recorded.processes.iter().max_by_key(|p| p.commands.len()).unwrap()
}

/// Compares everything that a timeline shows of one process with the trace.
#[track_caller]
fn assert_all_found(process: &Process, answers: &[Vec<Value>]) {
    let [warnings, spans, calls, submitted, waited, finished, ..] = answers else {
        panic!("{answers:?}")
    };
    assert!(warnings.is_empty(), "imported with warnings: {warnings:?}");
    let placed = |id: u64| {
        let of = process.commands.iter().find(|c| c.id == id);
        of.filter(|c| matches!(c.end_state, End::Timed { .. }))
    };
    let mut want: Vec<(i64, i64, String)> = process
        .commands
        .iter()
        .filter_map(|c| match c.end_state {
            End::Timed { start, end, .. } => {
                let kind = || c.kind.name().to_owned();
                Some((start, end - start, c.kernel.clone().unwrap_or_else(kind)))
            }
            _ => None,
        })
        .collect();
    want.sort();
    let found: Vec<_> = spans
        .iter()
        .map(|s| (number(&s["ts"]), number(&s["dur"]), s["name"].as_str().unwrap().to_owned()))
        .collect();
    assert_eq!(found, want);
    let mut want: Vec<_> =
        process.calls.iter().map(|c| (c.begin, c.end - c.begin, c.name.clone())).collect();
    let mut found: Vec<_> = calls
        .iter()
        .map(|c| (number(&c["ts"]), number(&c["dur"]), c["name"].as_str().unwrap().to_owned()))
        .collect();
    want.sort();
    found.sort();
    assert_eq!(found, want);
    let (pid, threads) = (process.definitions.process.pid, &process.definitions.threads);
    let tids: BTreeSet<i64> = threads.values().map(|t| i64::from(t.tid)).collect();
    assert!(
        calls
            .iter()
            .all(|c| number(&c["pid"]) == i64::from(pid) && tids.contains(&number(&c["tid"]))),
        "real ids"
    );
    // An arrow from each enqueue to its command.
    let timed: BTreeSet<i64> =
        process.commands.iter().filter(|c| c.raw().is_some()).map(|c| c.id as i64).collect();
    let arrows: BTreeSet<i64> = submitted.iter().map(|f| number(&f["command"])).collect();
    assert!(submitted.iter().all(|f| number(&f["command"]) == number(&f["call"])));
    assert_eq!(arrows, timed);
    // An arrow for each event of a wait list.
    let mut want: Vec<(i64, i64)> = process
        .commands
        .iter()
        .filter(|c| c.raw().is_some())
        .flat_map(|c| c.waits.iter().flatten().map(|w| (*w, c.id)))
        .filter(|(before, _)| placed(*before).is_some())
        .map(|(before, after)| (before as i64, after as i64))
        .collect();
    let mut found: Vec<_> =
        waited.iter().map(|w| (number(&w["before"]), number(&w["after"]))).collect();
    want.sort_unstable();
    want.dedup();
    found.sort_unstable();
    assert_eq!(found, want);
    // A blocking call waits for its own command.
    let mut want: Vec<i64> = process
        .commands
        .iter()
        .filter(|c| c.blocking && c.raw().is_some())
        .map(|c| c.id as i64)
        .collect();
    let mut found: Vec<i64> = finished
        .iter()
        .filter(|f| f["name"] != "clFinish")
        .map(|f| number(&f["command"]))
        .collect();
    want.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, want);
}

#[test]
fn a_face_detection_is_found_again_in_the_trace_processor() {
    let Some(processor) = processor() else { return };
    let stage = Stage::new(Runtime::Pocl);
    let Some(()) = face_detection(&stage) else { return };
    let export = |options: &[&str], file: &str| {
        let run = stage.clscope(["export", "perfetto", "t.clscope", "-o", file]).args(options);
        run.run().success();
        stage.join(file)
    };
    let recorded = Recorded::read(&[&stage.trace("t")]);
    let process = main_process(&recorded);
    assert_eq!(recorded.processes.len(), 1, "{:?}", recorded.issues);
    let whole = export(&[], "t.pftrace");
    // Chrome's JSON is several times as long.
    stage.clscope(["export", "chrome", "t.clscope", "-o", "t.json"]).run().success();
    let bytes = |path: PathBuf| std::fs::metadata(path).unwrap().len();
    let (ours, json) = (bytes(whole.clone()), bytes(stage.join("t.json")));
    assert!(ours * 10 < json * 3, "{ours} bytes, {json} as JSON");
    let answers = ask(
        &processor,
        &whole,
        &[
            WARNINGS,
            SPANS,
            CALLS,
            SUBMITTED,
            WAITED,
            FINISHED,
            "select distinct t.name name from gpu_slice g join track t on g.track_id = t.id order by 1",
            "select name, vendor from gpu",
            "select count(*) n from slice s join track t on s.track_id = t.id where t.name = 'clscope'",
            "select clock_name, clock_value, ts from clock_snapshot",
        ],
    );
    assert_all_found(process, &answers);
    let queues: BTreeSet<u32> =
        process.commands.iter().filter(|c| c.raw().is_some()).map(|c| c.queue).collect();
    assert_eq!(answers[6].len(), queues.len(), "a track for each queue: {:?}", answers[6]);
    let device = process.definitions.devices.values().next().unwrap();
    assert_eq!(answers[7][0]["name"], device.name.as_str());
    assert_eq!(number(&answers[8][0]["n"]), 1, "how the trace came to be");
    let anchor = &process.definitions.anchors[0];
    let wall = answers[9].iter().find(|c| c["clock_name"] == "REALTIME").unwrap();
    assert_eq!(number(&wall["clock_value"]), anchor.realtime as i64);

    // Arguments of commands have names of their own.
    let keys = "select distinct a.key key from gpu_slice g join args a using (arg_set_id)";
    let rows = ask(&processor, &whole, &[keys]);
    let keys: BTreeSet<&str> = rows[0].iter().map(|r| r["key"].as_str().unwrap()).collect();
    assert!(keys.contains("clock_error_ns") && keys.contains("queued_to_submit_ns"), "{keys:?}");

    // The same, compressed, is the same.
    let packed = export(&[], "t.pftrace.gz");
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&packed) * 2 < size(&whole));
    assert_eq!(ask(&processor, &packed, &[SPANS])[0], answers[1]);
    // Much smaller than the same as JSON.
    stage.clscope(["export", "chrome", "t.clscope", "-o", "t.json"]).run().success();
    assert!(size(&whole) * 2 < size(&stage.join("t.json")));
}

#[test]
fn a_timeline_may_show_a_part() {
    let Some(processor) = processor() else { return };
    let stage = Stage::new(Runtime::Pocl);
    let Some(()) = face_detection(&stage) else { return };
    let recorded = Recorded::read(&[&stage.trace("t")]);
    let process = main_process(&recorded);
    let shown = |options: &[&str]| -> (Vec<Vec<Value>>, usize, usize) {
        let run = stage.clscope(["export", "perfetto", "t.clscope", "-o", "p.pftrace"]);
        run.args(options).run().success();
        let tracks =
            "select distinct t.name name from gpu_slice g join track t on g.track_id = t.id";
        let answers = ask(&processor, &stage.join("p.pftrace"), &[WARNINGS, SPANS, CALLS, tracks]);
        assert!(answers[0].is_empty(), "{options:?}: {:?}", answers[0]);
        let (spans, calls) = (answers[1].len(), answers[2].len());
        (answers, spans, calls)
    };
    let timed = process.commands.iter().filter(|c| c.raw().is_some()).count();
    let enqueues = process.calls.iter().filter(|c| c.name.starts_with("clEnqueue")).count();
    let (_, spans, calls) = shown(&["--host-calls", "enqueue"]);
    assert_eq!((spans, calls), (timed, enqueues));
    let waits = process.calls.iter().filter(|c| matches!(&*c.name, "clFinish" | "clWaitForEvents"));
    let blocking = process.commands.iter().filter(|c| c.blocking).count();
    assert_eq!(shown(&["--host-calls", "wait"]).2, waits.count() + blocking);
    assert_eq!(shown(&["--host-calls", "none"]).2, 0);
    // Each kernel and each kind of transfer has its track.
    let names: BTreeMap<String, usize> = process
        .commands
        .iter()
        .filter(|c| c.raw().is_some())
        .map(|c| (c.kernel.clone().unwrap_or_else(|| c.kind.name().to_owned()), 0))
        .collect();
    let (answers, ..) = shown(&["--tracks", "kernel"]);
    let tracks: BTreeSet<&str> = answers[3].iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(tracks, names.keys().map(String::as_str).collect());
    assert!(shown(&["--tracks", "device"]).0[3].iter().all(|t| t["name"] == "commands"));
    // A window: what lies in it, and nothing else.
    let origin = process.calls.iter().map(|c| c.begin).min().unwrap();
    let last = process.calls.iter().map(|c| c.end).max().unwrap();
    let middle = (last - origin) / 2;
    let from = format!("{}", middle as f64 * 1e-9);
    let (answers, ..) = shown(&["--from", &from]);
    let begins = answers[1].iter().chain(&answers[2]).map(|s| number(&s["ts"]) + number(&s["dur"]));
    assert!(begins.min().unwrap() >= origin + middle - 1_000);
    let wrong =
        stage.clscope(["export", "perfetto", "t.clscope", "--from", "2", "--to", "1"]).run();
    assert!(
        !wrong.status.success() && wrong.stderr.contains("--from 2 and --to 1"),
        "{}",
        wrong.stderr
    );
    // Behind the end nothing is written, and the run's span is told.
    let beyond = ["export", "perfetto", "t.clscope", "--from", "86400", "-o", "late.pftrace"];
    let beyond = stage.clscope(beyond).run();
    assert_eq!(beyond.status.code(), Some(1), "{}", beyond.stderr);
    assert!(beyond.stderr.contains("what was recorded spans 0 to "), "{}", beyond.stderr);
    assert!(!stage.join("late.pftrace").exists());
}

/// An application that waits for its launches one after the other, with three in flight: the arrow
/// of the n-th wait comes from the n-th launch.
#[test]
fn a_wait_for_an_event_is_led_to_by_its_command() {
    let Some(processor) = processor() else { return };
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let run = stage.app(Mode::Record, "t", "times_itself 40 0 3");
        run.env("CLSCOPE_DEVICE_TIMING", "event").run().success();
        stage.clscope(["export", "perfetto", "t.clscope", "-o", "t.pftrace"]).run().success();
        let waits = "select s.ts ts from slice s where s.name = 'clWaitForEvents' order by s.ts";
        let arrows = "select h.ts ts, extract_arg(g.arg_set_id, 'command') command from flow f join gpu_slice g on f.slice_out = g.id join slice h on f.slice_in = h.id where h.name = 'clWaitForEvents' order by h.ts";
        let answers = ask(&processor, &stage.join("t.pftrace"), &[WARNINGS, waits, arrows, SPANS]);
        assert!(answers[0].is_empty(), "imported with warnings: {:?}", answers[0]);
        let recorded = Recorded::read(&[&stage.trace("t")]);
        let process = main_process(&recorded);
        let launches: Vec<i64> =
            process.commands.iter().filter(|c| c.kernel.is_some()).map(|c| c.id as i64).collect();
        let waits: Vec<i64> = answers[1].iter().map(|w| number(&w["ts"])).collect();
        assert_eq!((launches.len(), waits.len()), (40, 40));
        for arrow in &answers[2] {
            let nth = waits.iter().position(|ts| *ts == number(&arrow["ts"])).unwrap();
            assert_eq!(number(&arrow["command"]), launches[nth], "{nth}: {:?}", answers[2]);
        }
        // Where something else told of a command before its wait, there is no arrow: on a busy
        // machine one wait may find all three complete. Of the first nothing tells before.
        assert!(!answers[2].is_empty(), "{:?}", answers[2]);
        assert_eq!(number(&answers[2][0]["command"]), launches[0], "{:?}", answers[2]);
        let timed = process.commands.iter().filter(|c| c.raw().is_some()).count();
        assert_eq!(answers[3].len(), timed, "every command is found again");
    }
}

/// Joules and watts come along: of each launch as arguments, of sensors as counters.
#[test]
fn joules_are_found_again() {
    let Some(processor) = processor() else { return };
    let stage = Stage::new(Runtime::Pocl);
    crate::energy::emulated(&stage);
    stage.clscope(["export", "perfetto", "t.clscope", "-o", "t.pftrace"]).run().success();
    let report = stage.clscope(["report", "t.clscope", "--format", "json"]).run().success();
    let report: Value = serde_json::from_str(&report.stdout).unwrap();
    let joules = "select g.name name, count(*) n, sum(g.dur) ns, sum(extract_arg(g.arg_set_id, 'energy_J')) joules from gpu_slice g group by 1";
    let counters = "select t.name name, count(*) n, max(c.value) most from counter c join track t on c.track_id = t.id group by 1";
    let answers = ask(&processor, &stage.join("t.pftrace"), &[WARNINGS, joules, counters]);
    assert!(answers[0].is_empty(), "{:?}", answers[0]);
    let classes = report["energy"]["devices"][0]["classes"].as_array().unwrap();
    let kernels: Vec<_> = classes.iter().filter(|c| c["kind"] == "kernel").collect();
    assert_eq!(kernels.len(), 2, "{classes:?}");
    for class in kernels {
        let row = answers[1].iter().find(|r| r["name"] == class["name"]).unwrap();
        // On a busy machine the readings may not tell the kernels apart: then neither has joules.
        let watts = class["watts"]["value"].as_f64();
        let want = watts.map(|w| w * number(&row["ns"]) as f64 * 1e-9);
        match (row["joules"].as_f64(), want) {
            (Some(found), Some(want)) => {
                assert!((found - want).abs() <= 1e-6 * want.abs(), "{class}: {found}, not {want}");
            }
            (found, want) => assert_eq!(found, want, "{class}"),
        }
    }
    assert!(answers[2].iter().any(|c| number(&c["n"]) > 1), "{:?}", answers[2]);
}

#[test]
fn each_host_is_a_machine_on_one_timeline() {
    let Some(processor) = processor() else { return };
    let stage = Stage::new(Runtime::Pocl);
    let mut pids = Vec::new();
    for name in ["first", "second"] {
        stage.app(Mode::Record, name, "many_commands 200").run().success();
        pids.push(Recorded::read(&[&stage.trace(name)]).only().definitions.process.pid);
    }
    crate::exports::merging::move_to_another_host(&stage.trace("second"), 86_400_000_000_000);
    let both = Recorded::read(&[&stage.trace("first"), &stage.trace("second")]);
    let command = ["export", "perfetto", "first.clscope", "second.clscope", "-o", "b.pftrace"];
    stage.clscope(command).run().success();
    let answers = ask(
        &processor,
        &stage.join("b.pftrace"),
        &[
            WARNINGS,
            SPANS,
            "select pid, machine_id machine from process where name is not null order by machine",
            "select t.machine_id machine, count(*) n from gpu_slice g join track t on g.track_id = t.id group by 1 order by 1",
            "select machine_id machine, count(*) n from gpu group by 1 order by 1",
            "select machine_id machine, ts, clock_value value from clock_snapshot where clock_name = 'REALTIME' order by ts",
            SUBMITTED,
        ],
    );
    assert!(answers[0].is_empty(), "imported with warnings: {:?}", answers[0]);
    let mut want: Vec<(i64, i64)> = Vec::new();
    let mut of_host = Vec::new();
    for process in &both.processes {
        let before = want.len();
        want.extend(process.commands.iter().filter_map(|c| match c.end_state {
            End::Timed { start, end, .. } => Some((start, end - start)),
            _ => None,
        }));
        of_host.push((want.len() - before) as i64);
    }
    want.sort_unstable();
    let found: Vec<_> = answers[1].iter().map(|s| (number(&s["ts"]), number(&s["dur"]))).collect();
    assert_eq!(found, want, "all on the first host's timeline");
    let column = |rows: &[Value], name: &str| -> Vec<i64> {
        rows.iter().map(|r| number(&r[name])).collect()
    };
    assert_eq!(column(&answers[2], "machine"), [0, 1]);
    assert_eq!(column(&answers[2], "pid"), pids.iter().map(|p| i64::from(*p)).collect::<Vec<_>>());
    assert_eq!((column(&answers[3], "machine"), column(&answers[3], "n")), (vec![0, 1], of_host));
    assert_eq!(
        (column(&answers[4], "machine"), column(&answers[4], "n")),
        (vec![0, 1], vec![1, 1])
    );
    assert_eq!(answers[6].len(), want.len(), "an arrow from each enqueue to its command");
    // Wall clocks agree, so that wall time less timeline is the same on both.
    let offsets: Vec<i64> =
        answers[5].iter().map(|r| number(&r["value"]) - number(&r["ts"])).collect();
    let machines: BTreeSet<i64> = column(&answers[5], "machine").into_iter().collect();
    assert_eq!(machines, BTreeSet::from([0, 1]));
    let (least, most) = (offsets.iter().min().unwrap(), offsets.iter().max().unwrap());
    assert!(most - least < 10_000_000, "{offsets:?}");
}

const TOTALS: &str = "select s.name name, extract_arg(s.arg_set_id, 'debug.launches') launches, extract_arg(s.arg_set_id, 'debug.timed') timed, extract_arg(s.arg_set_id, 'debug.total_ns') ns, extract_arg(s.arg_set_id, 'debug.total_low_ns') low, extract_arg(s.arg_set_id, 'debug.total_high_ns') high, extract_arg(s.arg_set_id, 'debug.energy_J') joules, extract_arg(s.arg_set_id, 'debug.energy_low_J') least, extract_arg(s.arg_set_id, 'debug.sum_of[1]') second from slice s join track t on s.track_id = t.id where t.name = 'totals of the run'";

/// What spans do not add up to is on a track of its own: the report's figures, found by SQL.
#[test]
fn totals_that_spans_do_not_add_up_to_are_on_a_track() {
    let Some(processor) = processor() else { return };
    let stage = Stage::new(Runtime::Pocl);
    let asked = |more: &[&str]| {
        let export = ["export", "perfetto", "t.clscope", "-o", "t.pftrace"];
        stage.clscope(export).args(more).run().success();
        let report = ["report", "t.clscope", "--format", "json"];
        let report = stage.clscope(report).args(more).run().success();
        let report: Value = serde_json::from_str(&report.stdout).unwrap();
        let mut answers = ask(&processor, &stage.join("t.pftrace"), &[WARNINGS, TOTALS]);
        assert!(answers[0].is_empty(), "imported with warnings: {:?}", answers[0]);
        (report, answers.pop().unwrap())
    };
    let near = |a: &Value, b: &Value| {
        let [a, b] = [a, b].map(|of| of.as_f64().unwrap_or_else(|| panic!("{a} {b}")));
        (a - b).abs() <= 1e-9 * b.abs()
    };
    // All launches timed, and no sensor: nothing is missing from the sums over spans.
    stage.app(Mode::Record, "t", "rounds 5").env("CLSCOPE_DEVICE_TIMING", "event").run().success();
    assert_eq!(asked(&[]).1.len(), 0);
    std::fs::remove_dir_all(stage.join("t.clscope")).unwrap();
    let run = stage.app(Mode::Preload, "t", "rounds 1600 4096");
    run.env("CLSCOPE_DEVICE_TIMING", "sample").run().success();
    let (report, rows) = asked(&[]);
    let mut found = 0;
    for row in ["kernels", "transfers"].iter().flat_map(|list| report[*list].as_array().unwrap()) {
        let own =
            rows.iter().find(|own| own["name"] == row["name"] && own["launches"] == row["count"]);
        if row["left_out"] == 0 {
            continue;
        }
        let own = own.unwrap_or_else(|| panic!("{row} is none of {rows:?}"));
        assert_eq!(own["timed"], row["time_ns"]["count"]);
        let total = &row["estimate"]["total_ns"];
        for (ours, theirs) in [("ns", "value"), ("low", "low"), ("high", "high")] {
            assert!(near(&own[ours], &total[theirs]), "{own} {total}");
        }
        found += 1;
    }
    assert!(found > 0, "{report:#}");
    // Joules that several have together: the same frame again and again, and a sensor whose errors
    // are larger than what tells its kernels apart.
    std::fs::remove_dir_all(stage.join("t.clscope")).unwrap();
    let frames = stage.app(Mode::Record, "t", "frames 60 0 fixed finish in-order 10");
    frames.env("CLSCOPE_DEVICE_TIMING", "event").run().success();
    let spans = crate::energy::spans(&stage);
    let readings = crate::energy::counted_roughly(&spans, |_| 30.0, 10.0, 4e9, (5e7, 0.05));
    std::fs::write(stage.join("readings"), readings).unwrap();
    let (report, rows) = asked(&["--readings", "readings"]);
    let groups = report["energy"]["devices"][0]["groups"].as_array().unwrap();
    let of_several = |group: &&Value| group["names"].as_array().unwrap().len() > 1;
    let sums: Vec<&Value> = groups.iter().filter(of_several).collect();
    assert!(!sums.is_empty(), "{groups:?}");
    let told: Vec<&Value> = rows.iter().filter(|row| !row["second"].is_null()).collect();
    assert_eq!(told.len(), sums.len(), "{rows:?} {groups:?}");
    for (own, group) in told.iter().zip(&sums) {
        assert_eq!(
            (&own["name"], &own["second"]),
            (&"joules known only as a sum".into(), &group["names"][1])
        );
        assert!(near(&own["joules"], &group["joules"]["value"]), "{own} {group}");
        assert!(near(&own["least"], &group["joules"]["low"]), "{own} {group}");
    }
}
