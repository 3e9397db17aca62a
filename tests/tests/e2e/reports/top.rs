//! `clscope top`: what it shows of a running application is what the report says of the same trace,
//! its keys act, and it gives the terminal back. On real OpenCL applications.

use clscope_tests::artifacts::root;
use clscope_tests::{Mode, Run, Runtime, Stage, Talk, artifacts, skip};
use serde_json::Value;
use std::path::Path;

/// `clscope top ARGUMENTS --once --format json`.
#[track_caller]
fn top(stage: &Stage, arguments: &[&str]) -> Value {
    let run = stage.clscope(["top", "--once", "--format", "json", "--interval", "0.1"]);
    let finished = run.args(arguments).run().success();
    serde_json::from_str(&finished.stdout).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// A row of that name.
#[track_caller]
pub fn named<'v>(rows: &'v Value, field: &str, name: &Value) -> &'v Value {
    let found = rows.as_array().unwrap().iter().find(|row| row[field] == *name);
    found.unwrap_or_else(|| panic!("{name} is not in {rows}"))
}

#[track_caller]
fn assert_equal(top: &Value, report: &Value) {
    for field in ["calls", "commands", "timed"] {
        assert_eq!(top["totals"][field], report["totals"][field], "{field}");
    }
    let rows = report["kernels"].as_array().unwrap();
    assert_eq!(top["kernels"].as_array().unwrap().len(), rows.len());
    for row in rows {
        let own = named(&top["kernels"], "name", &row["name"]);
        assert_eq!(own["launches"], row["count"]);
        assert_eq!(own["timed_ns"], row["time_ns"]["total"], "{own} {row}");
        assert_eq!(own["left_out"], row["left_out"]);
    }
    for row in report["transfers"].as_array().unwrap() {
        let own = named(&top["transfers"], "kind", &row["name"]);
        assert_eq!((&own["count"], &own["bytes"]), (&row["count"], &row["bytes"]));
        assert_eq!(own["timed_ns"], row["time_ns"]["total"]);
    }
    for row in report["functions"].as_array().unwrap() {
        let own = named(&top["functions"], "name", &row["name"]);
        assert_eq!((&own["calls"], &own["errors"]), (&row["calls"], &row["errors"]));
    }
}

/// What was recorded lasted as long by both, however long ago it ended.
#[track_caller]
fn assert_lasted(top: &Value, report: &Value) {
    let [ours, theirs] = [top, report].map(|of| number(&of["duration_ns"]) as f64);
    assert!((ours - theirs).abs() <= 1e6 + 0.01 * theirs, "{ours} ns, by the report {theirs} ns");
    for row in report["devices"].as_array().unwrap() {
        let own = named(&top["devices"], "name", &row["name"]);
        let share = row["busy_share"]["value"].as_f64().zip(own["busy_share"].as_f64());
        let (theirs, ours) = share.unwrap_or_else(|| panic!("{own} {row}"));
        assert!((ours - theirs).abs() <= 0.02, "{ours} {theirs}");
    }
}

fn report(stage: &Stage) -> Value {
    let finished = stage.clscope(["report", "t.clscope", "--format", "json", "--limit", "0"]).run();
    serde_json::from_str(&finished.success().stdout).unwrap()
}

#[test]
fn at_the_end_it_says_what_the_report_says() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        for line in ["threads short 200", "many_commands 3000", "multi_queue"] {
            let (finished, _) = stage.record(Mode::Record, line);
            finished.success();
            let shown = top(&stage, &["t.clscope"]);
            assert_equal(&shown, &report(&stage));
            assert_lasted(&shown, &report(&stage));
            assert!(shown["interval_ns"].is_null(), "what has ended has no rates");
            assert_eq!(shown["processes"][0]["state"], "ended");
            // How busy devices were is of the whole, where every command was timed.
            let devices = shown["devices"].as_array().unwrap();
            for device in devices {
                let share = device["busy_share"].as_f64().unwrap_or_else(|| panic!("{device}"));
                // It places times by what it has read so far, the report by all of it.
                let busy = number(&device["busy_ns"]) as f64;
                let off = share * number(&shown["duration_ns"]) as f64 - busy;
                let is_near = off.abs() < 1e3 + 0.01 * busy;
                assert!(is_near && share > 0.0 && share <= 1.0, "{off} ns: {device}");
            }
            let text = stage.clscope(["top", "t.clscope", "--once"]).run().success().stdout;
            assert_eq!(text.contains("% of the run"), !devices.is_empty(), "{line}: {text}");
            assert!(line.starts_with("threads") || !devices.is_empty(), "{line}: {text}");
        }
    }
}

/// Of a run of which sampling timed a part, totals at the end are the report's estimates.
#[test]
fn sampled_totals_at_the_end_are_the_reports() {
    let stage = Stage::new(Runtime::Pocl);
    let run = stage.app(Mode::Record, "t", "many_commands 20000");
    // So small a budget that some are left out, however slow the machine is.
    run.env("CLSCOPE_DEVICE_TIMING", "sample").env("CLSCOPE_BUDGET", "0.01").run().success();
    let (shown, report) = (top(&stage, &["t.clscope"]), report(&stage));
    assert_equal(&shown, &report);
    let mut estimated = 0;
    let rows = report["kernels"].as_array().unwrap().iter();
    for row in rows.filter(|row| row["left_out"].as_u64() > Some(0)) {
        let own = named(&shown["kernels"], "name", &row["name"]);
        assert_eq!(own["total_ns"], row["estimate"]["total_ns"], "{own} {row}");
        estimated += 1;
    }
    assert!(estimated > 0, "nothing was left out: {report}");
    let text = stage.clscope(["top", "t.clscope", "--once"]).run().success().stdout;
    // The share, and the sides of the interval.
    let row = text.lines().find(|line| line.ends_with("increment")).unwrap();
    assert!(row.contains('~') && row.matches('%').count() == 2, "{text}");
}

/// `stepwise` under `clscope record`, and its process id.
pub fn stepwise(stage: &Stage) -> (Talk, String) {
    let run = stage.clscope(["record", "-q", "-f", "-o", "t", "--"]);
    let run = run.arg(artifacts().fixture("stepwise")).env("CLSCOPE_DEVICE_TIMING", "event");
    let mut talk = run.talk();
    let pid = talk.hear();
    (talk, pid)
}

#[test]
fn a_running_application_is_shown_as_it_is_now() {
    let stage = Stage::new(Runtime::Pocl);
    let (mut app, pid) = stepwise(&stage);
    app.tell("10");
    let first = top(&stage, &[&pid]);
    let launches =
        |of: &Value| named(&of["kernels"], "name", &"vector_add".into())["launches"].clone();
    assert_eq!(launches(&first), 10);
    assert_eq!(first["processes"][0]["state"], "recording");
    assert_eq!(number(&first["processes"][0]["pid"]).to_string(), pid);
    assert_eq!(first["totals"]["launches_per_second"], 0.0, "it waits to be told");
    app.tell("32");
    assert_eq!(launches(&top(&stage, &["t"])), 42, "by the name of its trace");
    let record = app.pid().to_string();
    assert_eq!(launches(&top(&stage, &[&record])), 42, "by the id of `clscope record`");
    stage.clscope(["ctl", &pid, "stop"]).run().success();
    assert_eq!(top(&stage, &[&pid])["processes"][0]["state"], "paused");
    stage.clscope(["ctl", &pid, "start"]).run().success();
    app.tell("5");
    assert!(app.end().success());
    let last = top(&stage, &[]);
    assert_eq!(launches(&last), 47, "the newest trace");
    assert_equal(&last, &report(&stage));
}

#[test]
fn a_killed_application_is_shown_to_its_last_call() {
    let stage = Stage::new(Runtime::Pocl);
    let (mut app, pid) = stepwise(&stage);
    app.tell("25");
    Run::new("/bin/sh", stage.path()).args(["-c", &format!("kill -9 {pid}")]).run().success();
    assert!(!app.end().success());
    // Long enough that the time since would show in what was recorded.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let shown = top(&stage, &["t.clscope"]);
    assert_lasted(&shown, &report(&stage));
    assert!(shown["problems"].to_string().contains("it was killed, crashed"), "{shown}");
    assert_eq!(shown["totals"]["in_flight"], 0);
    assert_eq!(named(&shown["kernels"], "name", &"vector_add".into())["launches"], 25);
    assert_eq!(shown["processes"][0]["state"], "ended");
}

#[test]
fn an_application_that_is_started_keeps_its_exit_code() {
    let stage = Stage::new(Runtime::Pocl);
    let app = artifacts().fixture("threads");
    let run = stage.clscope(["top", "--once", "--format", "json", "-o", "t", "--"]).arg(&app);
    let finished = run.args(["short", "50"]).env("CLSCOPE_DEVICE_TIMING", "event").run().success();
    assert_equal(&serde_json::from_str(&finished.stdout).unwrap(), &report(&stage));
    let run = stage.clscope(["top", "--once", "-o", "u", "--", "/bin/sh", "-c", "exit 7"]);
    let finished = run.run();
    assert!(finished.stderr.contains("no OpenCL call"), "{}", finished.stderr);
}

#[test]
fn what_cannot_be_shown_is_said_with_the_next_step() {
    let stage = Stage::new(Runtime::Pocl);
    let said = |arguments: &[&str]| {
        let finished = stage.clscope(["top"]).args(arguments).run();
        assert_eq!(
            finished.status.code(),
            Some(if arguments.contains(&"--interval") { 2 } else { 1 })
        );
        finished.stderr
    };
    assert!(said(&["t.clscope"]).contains("--once"), "no terminal");
    assert!(said(&["--once", "none"]).contains("name a trace directory"));
    assert!(said(&["--once", "4194303"]).contains("not running"));
    assert!(said(&["--once"]).contains("clscope record"));
    assert!(said(&["--once", "--interval", "0"]).contains("0.1 to 3600"));
}

/// Joules of kernels are those of the report, also with another floor.
#[test]
fn joules_are_the_reports() {
    let stage = Stage::new(Runtime::Pocl);
    crate::energy::emulated(&stage);
    for floor in ["auto", "12"] {
        let shown = top(&stage, &["t.clscope", "--idle-power", floor]);
        let report =
            stage.clscope(["report", "t.clscope", "--format", "json", "--idle-power", floor]);
        let report: Value = serde_json::from_str(&report.run().success().stdout).unwrap();
        let classes = &report["energy"]["devices"][0]["classes"];
        let kernels = shown["kernels"].as_array().unwrap();
        assert!(kernels.iter().any(|k| k["watts"]["value"].is_f64()), "{shown}");
        assert!(shown["joules_age_ns"].is_null(), "what has ended does not grow old: {shown}");
        for kernel in kernels {
            let class = named(classes, "name", &kernel["name"]);
            for field in ["joules", "joules_per_launch", "watts"] {
                assert_eq!(kernel[field], class[field], "--idle-power {floor}: {kernel}");
            }
            assert_eq!(kernel["why"], class["why"], "{kernel}");
        }
    }
    let text = stage.clscope(["top", "t.clscope", "--once"]).run().success().stdout;
    assert!(text.contains("+-") && !text.contains(" old"), "{text}");
}

/// A terminal of its own for a command, and keys.
fn typed(stage: &Stage, size: &str, steps: &[&str], command: &[&str]) -> Run {
    let script = root().join("tests/fixtures/top_keys.py");
    let run = Run::new("/usr/bin/python3", stage.path()).arg(script).arg(size).args(steps);
    let run = run.arg("--").arg(artifacts().clscope()).arg("top").args(command);
    stage.runtime.select(run).env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8")
}

#[test]
fn keys_act_and_the_terminal_is_given_back() {
    if !Path::new("/usr/bin/python3").exists() {
        return skip("/usr/bin/python3 is not there", true);
    }
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let run = stage.clscope(["record", "-q", "-f", "-o", "t", "--"]);
        let mut app = run.arg(artifacts().fixture("stepwise")).talk();
        let pid = app.hear();
        app.tell("10");
        let steps = [
            "see recording",
            "see vector_add",
            "type a",
            "see function",
            "type x",
            "see direction",
            "type p",
            "see since",
            "type k",
            "type /none",
            "see filter: none",
            "key escape",
            "see vector_add",
            "type r",
            "see recording paused",
            "type r",
            "see recording resumed",
            // Two keys faster than the trace is read.
            "type rr",
            "see recording resumed",
            "size 50x10",
            "see vector_add",
            "size 20x5",
            "see too",
            "size 120x40",
            "type ?",
            "see arrows,",
            "type ?",
            "type w",
            "see wrote t.html",
            "type w",
            "see wrote t-2.html",
            "type n",
            "see vector_add",
            "type c",
            "see vector_add",
            "type e",
            "see vector_add",
            "type t",
            "type  ",
            "see FROZEN",
            "type  ",
            "see vector_add",
            "type q",
        ];
        let finished = typed(&stage, "80x24", &steps, &[&pid, "--interval", "0.2"]).run().success();
        assert!(finished.stdout.contains(r"\x1b[?1049l"), "it leaves the other screen");
        for page in ["t.html", "t-2.html"] {
            let page = std::fs::read_to_string(stage.join(page)).unwrap();
            assert!(page.contains("vector_add"));
        }
        assert!(app.end().success(), "the application goes on");
    }
}

#[test]
fn colours_and_terminals_are_a_persons_choice() {
    if !Path::new("/usr/bin/python3").exists() {
        return skip("/usr/bin/python3 is not there", true);
    }
    let stage = Stage::new(Runtime::Pocl);
    let (finished, _) = stage.record(Mode::Record, "threads short 50");
    finished.success();
    let steps = ["see ended", "key ctrl-c"];
    let coloured = typed(&stage, "80x24", &steps, &["t"]).run().success().stdout;
    assert!(coloured.contains(r"\x1b[38;5;"), "{coloured}");
    let plain = typed(&stage, "80x24", &steps, &["t"]).env("NO_COLOR", "1").run().success().stdout;
    assert!(!plain.contains(r"\x1b[38;5;"), "{plain}");
    let dumb = typed(&stage, "80x24", &["see --once"], &["t"]).env("TERM", "dumb").run();
    assert_eq!(dumb.status.code(), Some(1), "{}", dumb.stdout);
    // An application that is started here: what it prints comes when the screen has gone.
    let app = artifacts().fixture("threads");
    let steps = ["see ended", "type q"];
    let app = app.to_str().unwrap();
    let shown = typed(&stage, "80x24", &steps, &["-o", "u", "--", app, "short", "50"]).run();
    let text = shown.success().stdout;
    assert!(text.contains(r"\x1b[?1049l") && stage.trace("u").is_dir(), "{text}");
}
