//! Applications that poll: identical calls in a row share a record, and every figure is as if each
//! had one of its own.

use clscope_tests::{Mode, Recorded, Runtime, Stage};
use clscope_trace::codes::CL_EVENT_COMMAND_EXECUTION_STATUS;
use serde_json::Value;

const POLLS: usize = 100_000;

#[test]
fn identical_calls_in_a_row_share_records_and_all_are_counted() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let line = format!("polls {POLLS} 2");
        let bare = stage.app(Mode::Bare, "bare", &line).run().success();
        for mode in Mode::RECORDING {
            let (with, recorded) = stage.record(mode, &line);
            assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
            let process = recorded.only();
            assert_eq!(process.count("clGetEventInfo"), 2 * POLLS + 2, "{mode:?} {runtime:?}");
            // Each run ends after 2^32 ticks, a second or more: what a slow machine polls in.
            let records = process.records("clGetEventInfo");
            assert!(records < POLLS / 10, "{mode:?}: {records} records");
            assert_eq!(process.dropped, 0, "{mode:?}");
            for call in process.calls.iter().filter(|c| c.name == "clGetEventInfo") {
                let asked = call.arguments["param_name"];
                assert!(
                    call.times == 1 || asked == u64::from(CL_EVENT_COMMAND_EXECUTION_STATUS),
                    "{call:?}"
                );
                assert!(call.end >= call.begin, "{call:?}");
            }
        }
    }
}

#[test]
fn each_call_has_a_record_where_that_is_asked_for() {
    let stage = Stage::new(Runtime::Pocl);
    let line = format!("polls {POLLS}");
    let trace = stage.trace("t");
    let app = clscope_tests::artifacts().fixture("polls");
    stage
        .clscope(["record", "-q", "-f", "--without", "joined-calls", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(app)
        .arg(POLLS.to_string())
        .run()
        .success();
    let recorded = Recorded::read(&[&trace]);
    assert_eq!(recorded.only().records("clGetEventInfo"), POLLS + 2);
    stage.app(Mode::Preload, "p", &line).env("CLSCOPE_COLLAPSE", "0").run().success();
    let recorded = Recorded::read(&[&stage.trace("p")]);
    assert_eq!(recorded.only().records("clGetEventInfo"), POLLS + 2);
}

#[test]
fn a_run_survives_the_process_up_to_its_last_call() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        for mode in Mode::RECORDING {
            for polls in [POLLS, POLLS + 1, POLLS + 2] {
                let (_, recorded) = stage.record(mode, &format!("polls {polls} 2 kill"));
                let process = recorded.only();
                assert_eq!(process.count("clGetEventInfo"), 2 * polls, "{mode:?}");
                assert_eq!(process.dropped, 0, "{mode:?}");
            }
        }
    }
}

#[test]
fn reports_dumps_and_timelines_show_a_run_as_one() {
    let stage = Stage::new(Runtime::Pocl);
    let (_, recorded) = stage.record(Mode::Preload, &format!("polls {POLLS}"));
    let records = recorded.only().records("clGetEventInfo");
    let trace = stage.trace("t");
    let run = |arguments: &[&str]| {
        let mut all = arguments.to_vec();
        let path = trace.to_str().unwrap();
        all.push(path);
        stage.clscope(all).run().success().stdout
    };
    let report: Value = serde_json::from_str(&run(&["report", "--format", "json"])).unwrap();
    let row = report["functions"]
        .as_array()
        .expect("host calls")
        .iter()
        .find(|row| row["name"] == "clGetEventInfo")
        .expect("a row of the function");
    assert_eq!(row["calls"], POLLS + 2, "{row}");
    let dump = run(&["dump", "--format", "json"]);
    let (mut calls, mut lines) = (0, 0);
    for line in dump.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line["function"] == "clGetEventInfo" {
            lines += 1;
            let counted = &line["run"]["count"];
            calls += counted.as_u64().unwrap_or(1) as usize;
            if !counted.is_null() {
                let of = |what: &str| line["run"][what].as_u64().unwrap();
                assert!(of("shortest_ns") <= of("longest_ns"), "{line}");
                assert!(of("total_ns") >= of("longest_ns"), "{line}");
                let span = line["end_ns"].as_i64().unwrap() - line["begin_ns"].as_i64().unwrap();
                assert!(of("total_ns") <= span as u64 + 1000, "{line}");
            }
        }
    }
    assert_eq!((calls, lines), (POLLS + 2, records));
    let text = run(&["dump"]);
    assert!(text.contains("such calls in a row"), "{}", text.lines().next().unwrap_or_default());
    let out = stage.join("timeline.json");
    stage
        .clscope(["export", "chrome", trace.to_str().unwrap(), "-o", out.to_str().unwrap()])
        .run()
        .success();
    let timeline: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    let slices: Vec<&Value> = timeline["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["name"].as_str().is_some_and(|n| n.starts_with("clGetEventInfo")))
        .collect();
    assert_eq!(slices.len(), records);
    let drawn: u64 = slices.iter().map(|e| e["args"]["calls"].as_u64().unwrap_or(1)).sum();
    assert_eq!(drawn as usize, POLLS + 2);
    // The page counts the calls, and each record is one span of it.
    let page = run(&["report", "--format", "html"]);
    let page = page.split("<section id=\"functions\">").nth(1).expect("a table of functions");
    let calls = format!("data-v=\"{}\"", POLLS + 2);
    let row = page.split("<tr").find(|r| r.contains("clGetEventInfo") && r.contains("data-v"));
    assert!(row.is_some_and(|row| row.contains(&calls)), "{row:?}");
}

#[test]
fn a_run_is_one_slice_in_the_trace_processor() {
    let Some(processor) = clscope_tests::viewer::processor() else { return };
    let stage = Stage::new(Runtime::Pocl);
    let (_, recorded) = stage.record(Mode::Preload, &format!("polls {POLLS}"));
    stage.clscope(["export", "perfetto", "t.clscope", "-o", "t.pftrace"]).run().success();
    let answers = clscope_tests::viewer::ask(
        &processor,
        &stage.join("t.pftrace"),
        &[
            "select name, value from stats where value > 0 and severity != 'info'",
            "select s.ts ts, s.dur dur, extract_arg(s.arg_set_id, 'debug.calls') calls from slice s where s.name like 'clGetEventInfo%' order by ts",
        ],
    );
    assert!(answers[0].is_empty(), "imported with warnings: {:?}", answers[0]);
    let number = |value: &Value| value.as_i64().or_else(|| value.as_str()?.parse().ok());
    let mut want: Vec<(i64, i64, usize)> = recorded
        .only()
        .calls
        .iter()
        .filter(|call| call.name == "clGetEventInfo")
        .map(|call| (call.begin, call.end - call.begin, call.times))
        .collect();
    want.sort_unstable();
    let found: Vec<_> = answers[1]
        .iter()
        .map(|s| {
            let calls = number(&s["calls"]).unwrap_or(1) as usize;
            (number(&s["ts"]).unwrap(), number(&s["dur"]).unwrap(), calls)
        })
        .collect();
    assert_eq!(found, want);
}
