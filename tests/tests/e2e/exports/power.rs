//! Power over time: no view draws it where readings are missing.

use super::data::{ask, python};
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_tests::{Runtime, Stage, viewer};
use clscope_trace::sensors::{self, Quantity, Reading, Readings, Record, Series};
use clscope_trace::{Clock, FileHeader, FileKind, VERSION};
use serde_json::Value;

const MS: u64 = 1_000_000;
/// From when to when nothing is known of the counter, ms: it stands still, and it is read no more.
const HOLES: [(i64, i64); 2] = [(3_000, 6_000), (9_990, 20_000)];

/// A trace of 20 s with a counter of 40 W.
fn write_trace(stage: &Stage) {
    let host = HostModel::default();
    let mut process = ProcessBuilder::standard(host, 7, 1);
    process.anchor(0);
    for (id, at) in (1..20).map(|s| (s, s * 1000 * MS)) {
        process
            .thread(0)
            .enqueue(at, at + 1_000, &CommandSpec::kernel(id, 1, 1))
            .timing(at + 9 * MS, id, [at, at + 100, at + MS, at + 2 * MS])
            .plain(function::FINISH, at + 2_000, at + 10 * MS, 0, 1);
    }
    process.exit(20_000 * MS, 0);
    let bytes = process.build();
    let folder = stage.trace("t");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("7-0.defs"), bytes.defs).unwrap();
    std::fs::write(folder.join("7-0.0.clt"), bytes.segment).unwrap();
    let header = FileHeader {
        version: VERSION,
        kind: FileKind::Sensors,
        pid: 1,
        ppid: 1,
        pid_ns: 0,
        incarnation: 0,
        segment: 0,
        clock: Clock::MonotonicRaw,
        host: [host.boot; 16],
        boot: [host.boot; 16],
        created: host.raw,
    };
    let series = Series {
        id: 0,
        quantity: Quantity::Energy,
        source: "powercap".into(),
        name: "package-0".into(),
        plane: "PKG".into(),
        ..Series::default()
    };
    let still = |ms: &u64| *ms as i64 > HOLES[0].0 && *ms as i64 <= HOLES[0].1;
    let mut value = 0;
    let mut rows = Vec::new();
    for ms in (0..10_000).step_by(10) {
        value += if still(&ms) { 0 } else { 400_000 };
        Reading { time: host.raw + ms * MS, value, ..Reading::default() }.append_to(&mut rows);
    }
    let mut payload = Vec::new();
    sensors::encode(&series.into(), &mut payload);
    sensors::encode(&Record::Readings(Readings::new(0, &rows)), &mut payload);
    let file = [header.encode().to_vec(), sensors::block(0, &payload)].concat();
    std::fs::write(folder.join("sensors.clt"), file).unwrap();
}

/// From when on, in ns of the run, which power is drawn; none where it is not known.
type Drawn = Vec<(i64, Option<f64>)>;

#[track_caller]
fn assert_drawn(view: &str, mut drawn: Drawn) {
    // Where one ends another may begin.
    drawn.sort_by_key(|point| (point.0, point.1.is_some()));
    assert!(drawn.len() > 100, "{view}: {drawn:?}");
    for ms in (30..19_990).step_by(10) {
        let held = drawn.iter().take_while(|point| point.0 <= ms * MS as i64).last();
        let value = held.and_then(|point| point.1);
        // A mean is drawn to its last reading at the latest.
        let is_hole = |margin: i64| HOLES.iter().any(|(a, b)| *a + margin < ms && ms < *b - margin);
        match value {
            None => assert!(is_hole(-30), "{view}: nothing is drawn at {ms} ms"),
            Some(watts) => {
                assert!(!is_hole(20), "{view}: {watts} W are drawn at {ms} ms");
                assert!((watts - 40.0).abs() < 0.1, "{view}: {watts} W at {ms} ms");
            }
        }
    }
}

#[test]
fn no_view_draws_power_where_readings_are_missing() {
    let stage = Stage::new(Runtime::FakeLoader);
    write_trace(&stage);
    let row = |of: &Value, at: &str, value: &str| (of[at].as_i64().unwrap(), of[value].as_f64());

    stage.clscope(["export", "chrome", "t.clscope", "-o", "t.json"]).run().success();
    let document: Value =
        serde_json::from_slice(&std::fs::read(stage.join("t.json")).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let counters: Vec<&Value> = events.iter().filter(|e| e["ph"] == "C").collect();
    let origin = events.iter().filter(|e| e["ph"] == "X").filter_map(|e| e["ts"].as_f64());
    assert!(origin.fold(f64::INFINITY, f64::min) < 1.0, "times are from the first call");
    let first = 1_000 * MS as i64;
    let known = |value: &Value| match value.as_str() {
        Some(word) => word.parse::<f64>().ok().filter(|_| word != "NaN"),
        None => Some(value.as_f64().unwrap()),
    };
    let chrome: Drawn = counters
        .iter()
        .map(|e| ((e["ts"].as_f64().unwrap() * 1e3).round() as i64 + first, known(&e["args"]["W"])))
        .collect();
    assert!(chrome.iter().all(|point| point.0 >= first));
    let before = (0..first).step_by(10 * MS as usize).map(|at| (at, Some(40.0)));
    assert_drawn("chrome", before.clone().chain(chrome).collect());

    if let Some(processor) = viewer::processor() {
        stage.clscope(["export", "perfetto", "t.clscope", "-o", "t.pftrace"]).run().success();
        for file in ["t.json", "t.pftrace"] {
            let query = "select ts, value from counter order by ts";
            let wrong = "select name from stats where value > 0 and severity = 'error'";
            let answers = viewer::ask(&processor, &stage.join(file), &[query, wrong]);
            assert!(answers[1].is_empty(), "{file}: {:?}", answers[1]);
            let least = answers[0].iter().filter_map(|of| of["ts"].as_i64()).min().unwrap();
            let shift = |(at, value): (i64, Option<f64>)| (at - least + first, value);
            let found = answers[0].iter().map(|of| shift(row(of, "ts", "value")));
            assert_drawn(file, before.clone().chain(found).collect());
        }
    }

    if let Some(python) = python(&stage) {
        stage.clscope(["export", "parquet", "-o", "data", "t.clscope"]).run().success();
        let query = "SELECT time_ns, until_ns, value FROM 'data/power/*.parquet' ORDER BY time_ns";
        let rows = ask(&stage, &python, query);
        let at = |of: &Value| of.as_i64().unwrap() + first;
        let found = rows.iter().flat_map(|of| [(at(&of[0]), of[2].as_f64()), (at(&of[1]), None)]);
        assert_drawn("parquet", found.collect());
    }

    // A sum over a hole is not known either.
    let top = stage.clscope(["top", "--once", "--format", "json", "t.clscope"]).run().success();
    let top: Value = serde_json::from_str(&top.stdout).unwrap();
    assert_eq!(
        (top["meters"].as_array().unwrap().len(), &top["meters"][0]["joules"]),
        (1, &Value::Null)
    );
}
