//! Tables: an export to Parquet, read back by DuckDB, holds what the report says; ranks have
//! partitions of their own, and each may add its own to one folder.

use clscope_tests::artifacts::root;
use clscope_tests::{Mode, Run, Runtime, Stage, artifacts, skip};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Prints what a query gives, as JSON: a list of rows.
const ASK: &str = "
import json, sys
import duckdb
rows = duckdb.sql(sys.argv[1]).fetchall()
print(json.dumps(rows, default=str))
";

/// The Python of the tests, if it has DuckDB.
pub fn python(stage: &Stage) -> Option<PathBuf> {
    let found = std::env::var_os("CLSCOPE_TEST_PYTHON").map(PathBuf::from);
    let works = |python: &PathBuf| {
        let run = Run::new(python, stage.path()).args(["-c", "import duckdb"]).run();
        run.status.success()
    };
    let found = found.filter(works);
    if found.is_none() {
        skip("DuckDB for Python: CLSCOPE_TEST_PYTHON names no Python that has it", true);
    }
    found
}

/// The rows that a query of the stage's folders gives.
#[track_caller]
pub fn ask(stage: &Stage, python: &PathBuf, query: &str) -> Vec<Vec<Value>> {
    let run = Run::new(python, stage.path()).args(["-c", ASK, query]).run().success();
    serde_json::from_str(&run.stdout).unwrap()
}

#[track_caller]
pub fn report(stage: &Stage, traces: &[&str]) -> Value {
    let run = stage.clscope(["report", "--format", "json"]).args(traces).run().success();
    serde_json::from_str(&run.stdout).unwrap()
}

#[track_caller]
pub fn export(stage: &Stage, traces: &[&str]) {
    stage.clscope(["export", "parquet", "-o", "data"]).args(traces).run().success();
}

#[test]
fn tables_read_by_duckdb_hold_the_reports_sums() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let Some(python) = python(&stage) else { return };
        stage.app(Mode::Record, "t", "linked 300").run().success();
        export(&stage, &["t.clscope"]);
        let report = report(&stage, &["t.clscope"]);
        let kernels = ask(
            &stage,
            &python,
            "SELECT name, count(*)::BIGINT, count(duration_ns)::BIGINT, sum(duration_ns)::BIGINT \
             FROM 'data/commands/*.parquet' WHERE kind = 'NDRangeKernel' GROUP BY name",
        );
        let expected = report["kernels"].as_array().unwrap();
        assert!(!expected.is_empty() && kernels.len() == expected.len(), "{kernels:?}");
        for kernel in expected {
            let row = kernels.iter().find(|row| row[0] == kernel["name"]).unwrap();
            let time = &kernel["time_ns"];
            assert_eq!(
                row[1..],
                [&kernel["count"], &time["count"], &time["total"]].map(Value::clone)
            );
        }
        // The sums of the export's own table are the same.
        let own = ask(
            &stage,
            &python,
            "SELECT name, count, timed_ns FROM 'data/kernels/*.parquet' WHERE section = 'kernel'",
        );
        for row in own {
            let kernel = expected.iter().find(|k| k["name"] == row[0]).unwrap();
            assert_eq!([&row[1], &row[2]], [&kernel["count"], &kernel["time_ns"]["total"]]);
        }
        let calls = ask(
            &stage,
            &python,
            "SELECT function, sum(calls)::BIGINT, sum(duration_ns)::BIGINT \
             FROM 'data/calls/*.parquet' GROUP BY function",
        );
        let functions = report["functions"].as_array().unwrap();
        assert_eq!(calls.len(), functions.len());
        for function in functions {
            let row = calls.iter().find(|row| row[0] == function["name"]).unwrap();
            assert_eq!([&row[1], &row[2]], [&function["calls"], &function["time_ns"]["total"]]);
        }
        // Each command has the call that enqueued it, and a place behind it.
        let joined = ask(
            &stage,
            &python,
            "SELECT count(*)::BIGINT, count(*) FILTER (c.start_ns < k.begin_ns)::BIGINT \
             FROM 'data/commands/*.parquet' c JOIN 'data/calls/*.parquet' k \
             USING (process, command) WHERE c.outcome = 'timed'",
        );
        assert_eq!(joined, [[report["totals"]["timed"].clone(), 0.into()]]);
        let processes = ask(
            &stage,
            &python,
            "SELECT p.host, c.host, c.rank, p.rank FROM 'data/processes/*.parquet' p \
             JOIN (SELECT DISTINCT process, host, rank \
             FROM 'data/commands/*.parquet') c \
             USING (process)",
        );
        let [one] = &processes[..] else { panic!("{processes:?}") };
        assert!(one[0] == one[1] && one[2].is_null() && one[3].is_null(), "{one:?}");
        // Without a sensor there are no joules, and no zeros.
        let joules =
            ask(&stage, &python, "SELECT count(energy_j)::BIGINT FROM 'data/commands/*.parquet'");
        if report["energy"]["devices"].as_array().is_none_or(Vec::is_empty) {
            assert_eq!(joules, [[0]]);
        }
        // Once more: parts are replaced, not added.
        export(&stage, &["t.clscope"]);
        let rows = ask(&stage, &python, "SELECT count(*)::BIGINT FROM 'data/commands/*.parquet'");
        assert_eq!(rows, [[report["totals"]["commands"].clone()]]);
    }
}

#[test]
fn joules_of_commands_are_their_watts_and_all_add_up_to_what_was_measured() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(python) = python(&stage) else { return };
    crate::energy::emulated(&stage);
    export(&stage, &["t.clscope"]);
    let report = report(&stage, &["t.clscope"]);
    let device = &report["energy"]["devices"][0];
    let measured = device["measured_joules"].as_f64().unwrap();
    let sum = ask(&stage, &python, "SELECT sum(joules) FROM 'data/energy/*.parquet'");
    let sum = sum[0][0].as_f64().unwrap();
    assert!((sum / measured - 1.0).abs() < 1e-9, "{sum} of {measured}");
    let rows = ask(
        &stage,
        &python,
        "SELECT name, sum(duration_ns)::DOUBLE, sum(energy_j), sum(energy_low_j), \
         sum(energy_high_j) FROM 'data/commands/*.parquet' \
         WHERE kind = 'NDRangeKernel' GROUP BY name",
    );
    let mut known = 0;
    for class in device["classes"].as_array().unwrap().iter().filter(|c| c["kind"] == "kernel") {
        let row = rows.iter().find(|row| row[0] == class["name"]).unwrap();
        for (at, end) in [(2, "value"), (3, "low"), (4, "high")] {
            let Some(watts) = class["watts"][end].as_f64() else {
                assert!(row[at].is_null(), "{row:?} {class}");
                continue;
            };
            known += 1;
            let want = watts * row[1].as_f64().unwrap() * 1e-9;
            let found = row[at].as_f64().unwrap();
            // Single precision, many times.
            assert!((found - want).abs() <= 1e-5 * want.abs(), "{end}: {found} for {want}");
        }
    }
    assert!(known > 0, "{device}");
    let watts = ask(
        &stage,
        &python,
        "SELECT count(*)::BIGINT FROM 'data/power/*.parquet' WHERE unit = 'W' AND value > 0",
    );
    assert!(watts[0][0].as_u64().unwrap() > 1, "{watts:?}");
}

#[test]
fn ranks_add_their_parts_to_one_folder() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(python) = python(&stage) else { return };
    for (rank, variable) in [(0, "OMPI_COMM_WORLD_RANK"), (1, "PMI_RANK"), (2, "SLURM_PROCID")] {
        let (name, line) = (format!("rank{rank}"), format!("linked {}", 10 * (rank + 1)));
        stage.app(Mode::Record, &name, &line).env(variable, rank.to_string()).run().success();
        export(&stage, &[&format!("{name}.clscope")]);
    }
    let rows = ask(
        &stage,
        &python,
        "SELECT rank::BIGINT, count(*) FILTER (kind = 'NDRangeKernel')::BIGINT \
         FROM 'data/commands/*.parquet' \
         GROUP BY rank ORDER BY rank",
    );
    assert_eq!(rows, [[0, 10], [1, 20], [2, 30]]);
    let names = ["rank0.clscope", "rank1.clscope", "rank2.clscope"];
    let all: u64 = report(&stage, &names)["totals"]["commands"].as_u64().unwrap();
    let rows = ask(&stage, &python, "SELECT count(*)::BIGINT FROM 'data/commands/*.parquet'");
    assert_eq!(rows, [[all]]);
    let ranks = ask(&stage, &python, "SELECT rank FROM 'data/processes/*.parquet' ORDER BY rank");
    assert_eq!(ranks, [[0], [1], [2]]);
    // The guide's queries run as they stand.
    let guide = std::fs::read_to_string(root().join("tools/guide/data.md")).unwrap();
    let queries = guide.split("\n\n").filter(|block| block.starts_with("    SELECT"));
    let mut asked = 0;
    for query in queries {
        asked += 1;
        assert!(!ask(&stage, &python, query).is_empty(), "{query}");
    }
    assert!(asked >= 3, "{asked}");
}

#[test]
fn what_is_no_place_for_tables_is_refused() {
    let stage = Stage::new(Runtime::FakeLoader);
    stage.app(Mode::Preload, "t", "linked 5").run().success();
    let refused = |arguments: &[&str]| {
        let run = stage.clscope(["export", "parquet", "t.clscope"]).args(arguments).run();
        assert!(!run.status.success(), "{arguments:?}");
        run.stderr
    };
    std::fs::create_dir(stage.join("mine")).unwrap();
    std::fs::write(stage.join("mine/notes.txt"), "").unwrap();
    let told = refused(&["-o", "mine"]);
    assert!(told.contains("mine") && told.contains("name a new folder"), "{told}");
    assert_eq!(std::fs::read_dir(stage.join("mine")).unwrap().count(), 1);
    std::fs::write(stage.join("file"), "").unwrap();
    assert!(refused(&["-o", "file"]).contains("directory"));
    assert!(refused(&["-o", "-"]).contains("-o"));
    assert!(refused(&["--tables", "commands,colours"]).contains("colours"));
    // Some tables alone.
    stage
        .clscope(["export", "parquet", "t.clscope", "-o", "some", "--tables", "meta,waits"])
        .run()
        .success();
    let mut found: Vec<String> = std::fs::read_dir(stage.join("some"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, ["clscope-data.json", "meta", "waits"]);
}

/// The module's own tests record PyOpenCL with the command of this build and read the trace back.
#[test]
fn the_python_module_records_and_reads() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let Some(python) = python(&stage) else { return };
        let products = artifacts().clscope();
        let folders = std::env::join_paths(
            std::iter::once(products.parent().unwrap().to_owned())
                .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
        );
        let module = root().join("tools/python");
        let run = Run::new(&python, stage.path())
            .args(["-B", "-m", "unittest", "discover", "-v", "-s"])
            .arg(module.join("tests"));
        let run = stage.runtime.select(run).env("PATH", folders.unwrap());
        let run = run.env("PYTHONPATH", module).env("PYOPENCL_NO_CACHE", "1");
        let run = run.env("PYOPENCL_CTX", "0").env("XDG_CACHE_HOME", stage.path()).run().success();
        assert!(run.stderr.contains("test_tables_hold_the_same") && run.stderr.contains("OK"));
        assert!(!run.stderr.contains("skipped"), "{}", run.stderr);
    }
}

/// The guide's example analyses a real application.
#[test]
fn the_example_in_python_analyses_a_face_detection() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(python) = python(&stage) else { return };
    let photograph = std::env::var_os("CLSCOPE_TEST_PHOTOGRAPH").map(PathBuf::from);
    let Some(photograph) = photograph.filter(|path| path.is_file()) else {
        return skip("the photograph: CLSCOPE_TEST_PHOTOGRAPH names no file", true);
    };
    let module = root().join("tools/python");
    let products = artifacts().clscope().parent().unwrap().to_owned();
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths(std::iter::once(products).chain(std::env::split_paths(&old)));
    let run = Run::new(&python, stage.path()).arg("-B");
    let run = run.arg(module.join("examples/face_detection.py")).arg(photograph);
    let run = stage.runtime.select(run).env("PATH", path.unwrap()).env("PYTHONPATH", &module);
    let run = run.env("MPLBACKEND", "Agg").env("XDG_CACHE_HOME", stage.path());
    let run = run.env("OPENCV_OPENCL_DEVICE", ":CPU:").env("OPENCV_OPENCL_CACHE_ENABLE", "0");
    let told = run.run().success().stdout;
    for part in [" ms in kernels:", "runLBPClassifierStumpSimple", "clFinish: ", "face.html"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let page = std::fs::read_to_string(stage.join("face.html")).unwrap();
    assert!(page.contains("runLBPClassifierStumpSimple"));
}

/// `--ranks` records some ranks; the others run as if nothing were there.
#[test]
fn chosen_ranks_are_recorded_and_the_others_run_bare() {
    let stage = Stage::new(Runtime::FakeLoader);
    let record = |rank: &str, ranks: &str| {
        let run = stage.clscope(["record", "-q", "-f", "--ranks", ranks, "-o", "r%q{PMI_RANK}"]);
        let shown = "env | grep -c -e CLSCOPE_TRACE -e LD_PRELOAD; exit 7";
        run.args(["--", "sh", "-c", shown]).env("PMI_RANK", rank).run()
    };
    for (rank, ranks, recorded) in
        [("0", "every:2", true), ("1", "every:2", false), ("2", "0,2", true), ("3", "0,2", false)]
    {
        let run = record(rank, ranks);
        assert_eq!(run.status.code(), Some(7), "{}", run.stderr);
        assert_eq!(run.stdout.trim() != "0", recorded, "{rank} of {ranks}: {}", run.stdout);
        assert_eq!(stage.trace(&format!("r{rank}")).is_dir(), recorded, "{rank} of {ranks}");
    }
    let none = stage.clscope(["record", "--ranks", "0", "--", "true"]).run();
    assert!(!none.status.success() && none.stderr.contains("mpirun"), "{}", none.stderr);
    let wrong = record("0", "all");
    assert!(!wrong.status.success() && wrong.stderr.contains("every:8"), "{}", wrong.stderr);
    let missing = stage
        .clscope(["record", "--ranks", "1", "--", "no-such-application"])
        .env("PMI_RANK", "0")
        .run();
    assert_eq!(missing.status.code(), Some(127), "{}", missing.stderr);
}

#[test]
fn the_report_has_rows_by_rank_and_names_the_slowest() {
    let stage = Stage::new(Runtime::Pocl);
    let launches = [20, 20, 200, 20];
    let names: Vec<String> =
        (0..launches.len()).map(|rank| format!("rank{rank}.clscope")).collect();
    for (rank, launches) in launches.iter().enumerate() {
        let run = stage.app(Mode::Record, &format!("rank{rank}"), &format!("linked {launches}"));
        run.env("OMPI_COMM_WORLD_RANK", rank.to_string()).run().success();
    }
    let run = stage.clscope(["report", "--by", "rank", "--format", "json"]).args(&names).run();
    let report: Value = serde_json::from_str(&run.success().stdout).unwrap();
    let rows = report["places"]["rows"].as_array().unwrap();
    let found: Vec<u64> = rows.iter().map(|row| row["launches"].as_u64().unwrap()).collect();
    assert_eq!(found, launches);
    let ranks: Vec<u64> = rows.iter().map(|row| row["rank"].as_u64().unwrap()).collect();
    assert_eq!(ranks, [0, 1, 2, 3]);
    let time: f64 = rows.iter().map(|row| row["device_ns"]["value"].as_f64().unwrap()).sum();
    let totals = &report["totals"];
    let all = totals["kernel_ns"].as_f64().unwrap() + totals["transfer_ns"].as_f64().unwrap();
    assert!((time / all - 1.0).abs() < 1e-9, "{time} of {all}");
    let waits: u64 = rows.iter().map(|row| row["wait_ns"].as_u64().unwrap()).sum();
    let list = report["waits"].as_array().unwrap();
    let want: u64 = list.iter().map(|wait| wait["time_ns"]["total"].as_u64().unwrap()).sum();
    assert_eq!(waits, want);
    // Nobody measured joules.
    assert!(rows.iter().all(|row| row["joules"].is_null()), "{rows:?}");
    let slowest = &report["places"]["slowest"];
    let largest = rows.iter().enumerate().max_by(|a, b| {
        let time = |row: &Value| row["device_ns"]["value"].as_f64().unwrap();
        time(a.1).total_cmp(&time(b.1))
    });
    assert_eq!(slowest["row"].as_u64().unwrap() as usize, largest.unwrap().0);
    let text = stage.clscope(["report", "--by", "rank"]).args(&names).run().success().stdout;
    assert!(text.contains("4 ranks") && text.contains("imbalance"), "{text}");
    assert!(!text.contains("no trace of rank"), "{text}");
    // Where a trace is missing, the mean is of those that are here.
    let some = [&names[0], &names[2], &names[3]];
    let text = stage.clscope(["report", "--by", "rank"]).args(some).run().success().stdout;
    assert!(text.contains("no trace of rank 1: the mean"), "{text}");
    let hosts = stage.clscope(["report", "--by", "host", "--format", "json"]).args(&names).run();
    let hosts: Value = serde_json::from_str(&hosts.success().stdout).unwrap();
    let [host] = &hosts["places"]["rows"].as_array().unwrap()[..] else { panic!("{hosts}") };
    assert_eq!((host["launches"].as_u64(), host["processes"].as_u64()), (Some(260), Some(4)));
    assert!(hosts["places"]["imbalance"].is_null());
}

/// As `tools/bench/ranks.sh`, which does it with 64 ranks of a million launches.
#[test]
fn sums_of_ranks_with_many_launches_are_those_of_the_report() {
    let stage = Stage::new(Runtime::FakeLoader);
    let Some(python) = python(&stage) else { return };
    let names: Vec<String> = (0..8).map(|rank| format!("rank{rank}.clscope")).collect();
    for (rank, name) in names.iter().enumerate() {
        let line = format!("enqueue_bench {} 1000 bare", 20_000 + 1000 * rank);
        let run = stage.app(Mode::Preload, &format!("rank{rank}"), &line);
        let run = run.env("CLSCOPE_DEVICE_TIMING", "event").env("PMI_RANK", rank.to_string());
        run.run().success();
        export(&stage, &[name]);
    }
    let run = stage.clscope(["report", "--by", "rank", "--format", "json"]).args(&names).run();
    let report: Value = serde_json::from_str(&run.success().stdout).unwrap();
    let query = "SELECT rank, count(*) FILTER (kind = 'NDRangeKernel')::BIGINT AS launches, \
                 sum(duration_ns)::BIGINT AS ns FROM commands GROUP BY rank ORDER BY rank";
    let asked = sql(&stage, &python, &[query, "data"]);
    let rows = report["places"]["rows"].as_array().unwrap();
    assert_eq!((rows.len(), asked.len()), (names.len(), names.len()));
    for (rank, (row, asked)) in rows.iter().zip(&asked).enumerate() {
        assert_eq!(
            (row["rank"].as_u64(), asked["rank"].as_u64()),
            (Some(rank as u64), Some(rank as u64))
        );
        assert!(row["launches"].as_u64() >= Some(20_000 + 1000 * rank as u64), "{row}");
        assert_eq!(row["launches"], asked["launches"], "rank {rank}");
        assert_eq!(row["device_ns"]["value"].as_f64(), asked["ns"].as_f64(), "rank {rank}");
    }
}

/// The names of all recipes.
pub fn recipes() -> Vec<String> {
    let files = std::fs::read_dir(root().join("tools/query/recipes")).unwrap();
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    files.map(|file| name(file.unwrap().path())).collect()
}

/// What `clscope sql` answers, as JSON.
#[track_caller]
pub fn sql(stage: &Stage, python: &PathBuf, arguments: &[&str]) -> Vec<Value> {
    let run =
        stage.clscope(["sql", "--format", "json"]).env("CLSCOPE_DUCKDB", python).args(arguments);
    serde_json::from_str(&run.run().success().stdout).unwrap()
}

#[test]
fn questions_in_sql_are_answered_of_traces_and_of_tables() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let Some(python) = python(&stage) else { return };
        stage.app(Mode::Record, "t", "linked 300").run().success();
        export(&stage, &["t.clscope"]);
        let report = report(&stage, &["t.clscope"]);
        let of_trace = sql(&stage, &python, &["--recipe", "kernels", "t.clscope"]);
        let of_tables = sql(&stage, &python, &["--recipe", "kernels", "data"]);
        assert_eq!(of_trace, of_tables);
        let kernels = report["kernels"].as_array().unwrap();
        assert_eq!(of_trace.len(), kernels.len());
        for kernel in kernels {
            let row = of_trace.iter().find(|row| row["name"] == kernel["name"]).unwrap();
            let expected = [&kernel["count"], &kernel["time_ns"]["total"]];
            assert_eq!([&row["launches"], &row["timed_ns"]], expected);
        }
        for recipe in recipes() {
            sql(&stage, &python, &["--recipe", &recipe, "data"]);
        }
        // What is not finite has no form in JSON.
        let ratio = "SELECT 'nan'::DOUBLE AS a, sum(duration_ns) / 0.0 AS b, [-'inf'::DOUBLE] AS c, 'NaN' AS d FROM commands";
        let rows = sql(&stage, &python, &[ratio, "data"]);
        assert_eq!(rows, [json!({"a": null, "b": null, "c": [null], "d": "NaN"})]);
        // The time in which anything ran is no more than the sum of all, and no less than the
        // longest.
        let overlap = sql(&stage, &python, &["--recipe", "overlap", "data"]);
        let weighed = |row: &Value| row["at_once"].as_i64().unwrap() * row["ns"].as_i64().unwrap();
        let all = "SELECT sum(duration_ns)::BIGINT AS ns FROM commands WHERE outcome = 'timed'";
        let all = sql(&stage, &python, &[all, "data"]);
        assert_eq!(overlap.iter().map(weighed).sum::<i64>(), all[0]["ns"].as_i64().unwrap());
    }
}

/// Runs that were exported one by one lie where they ran: what overlaps is what overlaps in each.
#[test]
fn parts_of_different_times_do_not_overlap() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(python) = python(&stage) else { return };
    let mut each: BTreeMap<i64, i64> = BTreeMap::new();
    let mut add = |rows: &[Value], sign: i64| {
        for row in rows {
            let [at_once, ns] = ["at_once", "ns"].map(|field| row[field].as_i64().unwrap());
            *each.entry(at_once).or_default() += sign * ns;
        }
    };
    for name in ["a", "b", "c"] {
        stage.app(Mode::Record, name, "multi_queue 3 40").run().success();
        let trace = format!("{name}.clscope");
        export(&stage, &[&trace]);
        add(&sql(&stage, &python, &["--recipe", "overlap", &trace]), 1);
    }
    add(&sql(&stage, &python, &["--recipe", "overlap", "data"]), -1);
    assert!(!each.is_empty() && each.values().all(|ns| *ns == 0), "{each:?}");
}

#[test]
fn what_cannot_be_asked_is_told_and_names_are_escaped() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(python) = python(&stage) else { return };
    stage.app(Mode::Record, "t", "linked 3").run().success();
    let ask = |arguments: &[&str]| {
        stage.clscope(["sql"]).env("CLSCOPE_DUCKDB", &python).args(arguments).run()
    };
    for (query, part) in [
        ("SELECT nme FROM commands", "\"nme\" not found"),
        ("DROP VIEW commands", "a query is one statement that gives rows"),
        ("t.clscope", "the query comes first"),
    ] {
        let run = ask(&[query, "t.clscope"]);
        assert!(!run.status.success() && run.stderr.contains(part), "{query}: {}", run.stderr);
    }
    let none = stage.clscope(["sql", "SELECT 1", "t.clscope"]);
    let none = none.env("CLSCOPE_DUCKDB", "/nonexistent").run();
    assert!(none.stderr.contains("cannot run /nonexistent"), "{}", none.stderr);
    let hostile = "SELECT chr(27) || '[31m' AS a, '=1+1' AS b, NULL AS c";
    let text = ask(&[hostile, "t.clscope"]).success().stdout;
    assert!(!text.contains('\u{1b}') && text.trim_end().ends_with('-'), "{text:?}");
    let csv = ask(&[hostile, "t.clscope", "--format", "csv"]).success().stdout;
    assert!(!csv.contains('\u{1b}') && csv.contains("'=1+1,"), "{csv:?}");
    // What lies in the working directory is no part of the engine.
    std::fs::write(stage.join("duckdb.py"), "open('was_run', 'w')\n").unwrap();
    ask(&["SELECT 1", "t.clscope"]).success();
    assert!(!stage.join("was_run").exists());
    // Names of folders are no patterns.
    stage.clscope(["export", "parquet", "t.clscope", "-o", "run[1]"]).run().success();
    ask(&["SELECT count(*) FROM commands", "run[1]"]).success();
    // Tables of another schema may mean something else.
    std::fs::write(stage.join("run[1]/clscope-data.json"), "{\"schema\": 99}").unwrap();
    let other = ask(&["SELECT 1", "run[1]"]);
    assert!(!other.status.success() && other.stderr.contains("schema 99"), "{}", other.stderr);
    // Tables that were written for a question are gone after it; why one has no row is told.
    let empty = ask(&["SELECT * FROM sites", "t.clscope"]).success();
    assert_eq!(empty.stdout.lines().count(), 1, "{}", empty.stdout);
    assert!(empty.stderr.contains("sites has no row: `clscope record --call-sites`"));
}

/// A folder of five ranks, one of which has joules, asked through another engine on a cluster of
/// two workers, one of which is killed while it works.
fn asked_through(engine: &str) {
    let Some(python) = std::env::var_os("CLSCOPE_TEST_ENGINES") else {
        skip("Spark and Dask: tools/setup/engines.sh installs them, and runs this", false);
        return;
    };
    let mut stage = Stage::new(Runtime::Pocl);
    stage.limit(900);
    for rank in 0..4 {
        let line = format!("linked {}", 500 * (rank + 1));
        let run = stage.app(Mode::Record, &format!("rank{rank}"), &line);
        run.env("PMI_RANK", rank.to_string()).run().success();
        export(&stage, &[&format!("rank{rank}.clscope")]);
    }
    crate::energy::emulated(&stage);
    export(&stage, &["t.clscope"]);
    let script = root().join("tools/query/engines/compare.py");
    let own_network = ["--net", "ip", "link", "add", "type", "veth"];
    let own_network = Run::new("unshare", stage.path()).args(own_network).run();
    let run = Run::new(python, stage.path()).arg("-B").arg(script).args(["data", "--clscope"]);
    let mut run = run.arg(artifacts().clscope()).args(["--engine", engine]);
    if own_network.status.success() {
        run = run.arg("--namespaces");
    } else {
        skip("workers in namespaces of their own: this user may not make any", false);
    }
    let told = run.limit(840).run().success().stdout;
    assert_eq!(told.matches(" rows are equal").count(), recipes().len(), "{told}");
    assert!(!told.contains("energy: 0 rows"), "{told}");
    assert!(told.contains("a worker of 2 killed during"), "{told}");
}

/// Tables of two ranks as other readers have them: pyarrow, Polars and DuckDB count and add up the
/// same, and the files say units, order, schema and statistics.
#[test]
fn tables_are_read_by_others() {
    let mut stage = Stage::new(Runtime::Pocl);
    let engines = std::env::var_os("CLSCOPE_TEST_ENGINES").map(PathBuf::from);
    let Some(python) = engines.or_else(|| python(&stage)) else { return };
    stage.limit(300);
    for rank in 0..2 {
        let line = format!("multi_queue 2 {}", 20 * (rank + 1));
        let run = stage.app(Mode::Record, &format!("rank{rank}"), &line);
        run.env("PMI_RANK", rank.to_string()).run().success();
        export(&stage, &[&format!("rank{rank}.clscope")]);
    }
    let script = root().join("tests/fixtures/tables.py");
    let run = Run::new(python, stage.path()).arg("-B").arg(script).arg("data");
    let told = run.limit(200).run().success().stdout;
    for reader in ["pyarrow", "polars", "duckdb"] {
        if told.contains(&format!("no {reader}")) {
            skip(&format!("{reader}: CLSCOPE_TEST_PYTHON does not have it"), true);
        } else {
            assert!(told.contains(&format!("{reader}: 12 tables")), "{told}");
        }
    }
}

#[test]
fn dask_gives_what_sql_gives() {
    asked_through("dask");
}

#[test]
fn spark_gives_what_sql_gives() {
    asked_through("spark");
}
