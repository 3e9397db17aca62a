//! Bad input to what writes and asks files of a trace: no room, a run that goes on, parts that
//! other versions or other ranks wrote, no engine. Each is told or answered, and what was there
//! stays.

use clscope_tests::{Mode, Run, Runtime, Stage};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use crate::application::faults::Tmpfs;
use crate::exports::data::{export, python, recipes, report, sql};

/// Each format with the name of its output.
const FORMATS: [(&str, &str); 6] = [
    ("chrome", "t.json"),
    ("perfetto", "t.pftrace"),
    ("folded", "t.folded"),
    ("speedscope", "t.speedscope.json"),
    ("pprof", "t.pb.gz"),
    ("parquet", "data"),
];

/// All files at a path and below, hidden ones too.
fn files(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![at.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.exists() {
            found.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    found
}

/// Runs a command that may write no file beyond so many bytes, with pipes for what it says.
#[track_caller]
fn within(run: Run, most: u64) -> Output {
    run.resource_limit(libc::RLIMIT_FSIZE, most).begin().output()
}

#[test]
fn without_room_nothing_is_left_of_an_export_and_what_was_there_stays() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "linked 300").run().success();
    let folder = stage.join("out");
    std::fs::create_dir(&folder).unwrap();
    for (format, name) in FORMATS {
        let target = folder.join(name);
        let run = || stage.clscope(["export", format, "t.clscope", "-o"]).arg(&target);
        let refused = |most: u64| {
            let ended = within(run(), most);
            let told = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(1), "{format} within {most}: {told}");
            assert!(told.contains(name) && told.contains("too large"), "{format}: {told}");
        };
        refused(1);
        let left: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
        assert!(left.is_empty(), "{format}: {left:?}");
        run().run().success();
        let whole = files(&folder);
        let largest = whole.values().map(Vec::len).max().unwrap();
        refused(largest as u64 / 2);
        assert!(files(&folder) == whole, "{format}: {:?}", files(&folder).keys());
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::create_dir(&folder).unwrap();
    }
    // A question's tables are of its own.
    let Some(python) = python(&stage) else { return };
    let run = stage.clscope(["sql", "SELECT 1", "t.clscope"]).env("CLSCOPE_DUCKDB", python);
    let ended = within(run.env("TMPDIR", &folder), 1);
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains("TMPDIR"), "{told}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the tables are gone");
}

#[test]
fn a_full_disk_leaves_no_table() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(disk) = Tmpfs::new(&stage.join("disk"), "size=32k") else { return };
    stage.app(Mode::Record, "t", "linked 300").run().success();
    for target in [disk.0.join("data"), disk.0.clone()] {
        let told = stage.clscope(["export", "parquet", "t.clscope", "-o"]).arg(&target).run();
        assert_eq!(told.status.code(), Some(1), "{}", told.stderr);
        assert!(told.stderr.contains("No space left"), "{}", told.stderr);
        let left: Vec<_> = std::fs::read_dir(&disk.0).unwrap().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn an_interrupted_export_leaves_all_tables_or_none() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "many_commands 100000").run().success();
    let folder = stage.join("out");
    std::fs::create_dir(&folder).unwrap();
    let entries = || {
        let entries = std::fs::read_dir(&folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut export = stage.clscope(["export", "parquet", "t.clscope", "-o", "out/data"]).begin();
    // Before it begins to write, the signal ends it as any program, and nothing is there.
    let limit = Instant::now() + Duration::from_secs(300);
    while entries().is_empty() {
        assert!(Instant::now() < limit, "it begins to write");
        std::thread::yield_now();
    }
    export.signal(libc::SIGINT);
    assert!(export.wait());
    let ended = export.output();
    let told = String::from_utf8(ended.stderr).unwrap();
    if ended.status.success() {
        // It was done before the signal came.
        assert_eq!(entries(), ["data"], "{told}");
    } else {
        assert_eq!(ended.status.code(), Some(1), "{told}");
        assert!(told.contains("interrupted: nothing was added or changed"), "{told}");
        assert_eq!(entries(), [""; 0], "{told}");
    }
    let tables = |target: &str| {
        stage.clscope(["export", "parquet", "t.clscope", "-o", target]).run().success();
        files(&stage.join(target)).into_values().collect::<Vec<_>>()
    };
    assert!(tables("out/data") == tables("whole"));
}

#[test]
fn tables_of_a_run_that_goes_on_hold_what_it_did_so_far() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let Some(python) = python(&stage) else { return };
        let mut app = stage.app(Mode::Preload, "t", "stepwise").talk();
        let _pid = app.hear();
        let mut launched = 0;
        for more in [40, 2000] {
            launched += more;
            app.tell(&more.to_string());
            export(&stage, &["t.clscope"]);
            let query = "SELECT count(*)::BIGINT AS n, sum(duration_ns)::BIGINT AS ns \
                         FROM commands WHERE name = 'vector_add'";
            let of_tables = sql(&stage, &python, &[query, "data"]);
            assert_eq!(of_tables[0]["n"], launched);
            assert_eq!(of_tables, sql(&stage, &python, &[query, "t.clscope"]));
            let run =
                stage.clscope(["sql", query, "t.clscope"]).env("CLSCOPE_DUCKDB", &python).run();
            let told = run.success().stderr;
            assert!(told.contains("still runs: all figures are as of"), "{told}");
            let kernel = report(&stage, &["t.clscope"])["kernels"][0].clone();
            assert_eq!(of_tables[0]["ns"], kernel["time_ns"]["total"]);
        }
        assert_eq!(app.end().code(), Some(0));
    }
}

#[test]
fn parts_with_columns_of_other_versions_are_asked_and_parts_of_another_schema_are_not() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(python) = python(&stage) else { return };
    stage.app(Mode::Record, "t", "linked 30").env("PMI_RANK", "0").run().success();
    export(&stage, &["t.clscope"]);
    let all = "SELECT count(*)::BIGINT AS n FROM commands";
    let own = sql(&stage, &python, &[all, "data"])[0]["n"].as_i64().unwrap();
    // The same rows from a rank whose clscope knew a column more and one less.
    let other = |select: &str, more: &str, rank: u32, options: &str| {
        let rows = "read_parquet('data/commands/*.parquet', union_by_name = true)";
        let copy = format!(
            "COPY (SELECT {select} REPLACE ({rank}::INTEGER AS rank){more} FROM {rows}) \
             TO 'data/commands/p@other@{rank}.parquet' ({options})"
        );
        let run = Run::new(&python, stage.path());
        let statement = "import sys, duckdb; duckdb.sql(sys.argv[1])";
        run.args(["-c", statement, &copy]).run().success();
    };
    other("* EXCLUDE (energy_low_j)", ", 7 AS column_of_later", 1, "FORMAT parquet");
    let query = "SELECT count(*)::BIGINT AS n, count(column_of_later)::BIGINT AS later, \
                 count(DISTINCT rank)::BIGINT AS ranks FROM commands";
    let rows = sql(&stage, &python, &[query, "data"]);
    assert_eq!(
        [&rows[0]["n"], &rows[0]["later"], &rows[0]["ranks"]].map(|n| n.as_i64().unwrap()),
        [2 * own, own, 2]
    );
    for recipe in recipes() {
        sql(&stage, &python, &["--recipe", &recipe, "data"]);
    }
    // Its own part is written anew beside the other.
    export(&stage, &["t.clscope"]);
    assert_eq!(sql(&stage, &python, &[all, "data"])[0]["n"], 2 * own);
    // A column of the same name may mean something else.
    other("*", "", 2, "FORMAT parquet, KV_METADATA {'clscope.schema': '99'}");
    let run = stage.clscope(["sql", all, "data"]).env("CLSCOPE_DUCKDB", &python).run();
    assert!(!run.status.success(), "{}", run.stdout);
    for part in ["schema 99", "p@other@2.parquet"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}

#[test]
fn traces_with_the_number_of_another_are_kept_apart_and_named() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(python) = python(&stage) else { return };
    let names = ["a.clscope", "b.clscope"];
    for (name, launches) in [("a", 20), ("b", 30)] {
        let run = stage.app(Mode::Record, name, &format!("linked {launches}"));
        run.env("PMI_RANK", "3").run().success();
        export(&stage, &[&format!("{name}.clscope")]);
    }
    let kernels = "SELECT count(*)::BIGINT AS n FROM commands \
                   WHERE kind = 'NDRangeKernel' GROUP BY process, rank ORDER BY n";
    let rows = sql(&stage, &python, &[kernels, "data"]);
    let rows: Vec<&Value> = rows.iter().map(|row| &row["n"]).collect();
    assert_eq!(rows, [20, 30]);
    let text = stage.clscope(["report", "--by", "rank"]).args(names).run().success().stdout;
    assert!(text.contains("rank 3 is in 2 traces"), "{text}");
    let one = stage.clscope(["report", "--by", "rank", "a.clscope"]).run().success().stdout;
    assert!(!one.contains("is in 2 traces"), "{one}");
    // Queries by rank say the same, of traces and of tables; others do not.
    let told = |query: &[&str], sources: &[&str]| {
        let run = stage.clscope(["sql"]).env("CLSCOPE_DUCKDB", &python).args(query).args(sources);
        run.run().success().stderr
    };
    for sources in [&names[..], &["data"]] {
        let told = told(&["--recipe", "imbalance"], sources);
        for part in
            ["rank 3 is in 2 traces", "no trace of rank 0 to 2: the answer is of the others"]
        {
            assert!(told.contains(part), "{part} of {sources:?}: {told}");
        }
    }
    assert!(!told(&["SELECT count(*) FROM commands"], &["data"]).contains("rank"));
    assert!(!told(&["--recipe", "imbalance"], &["a.clscope"]).contains("is in 2 traces"));
}

#[test]
fn without_an_engine_the_package_is_named_before_anything_is_written() {
    let stage = Stage::new(Runtime::FakeLoader);
    stage.app(Mode::Preload, "t", "linked 5").run().success();
    let nowhere = stage.join("nowhere");
    std::fs::create_dir(&nowhere).unwrap();
    let run = stage.clscope(["sql", "SELECT 1", "t.clscope"]);
    let run = run.env("PATH", &nowhere).env("TMPDIR", &nowhere).run();
    assert_eq!(run.status.code(), Some(1));
    for part in ["pip install duckdb-cli", "pip install duckdb", "CLSCOPE_DUCKDB"] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    assert_eq!(std::fs::read_dir(&nowhere).unwrap().count(), 0);
}

#[test]
fn what_is_no_engine_is_told_with_what_brings_one() {
    let stage = Stage::new(Runtime::FakeLoader);
    stage.app(Mode::Preload, "t", "linked 5").run().success();
    // One that repeats the question, one that ends at once, one that goes on for ever, and a Python
    // that cannot import it.
    let engines = [
        ("repeats", "#!/bin/sh\ncat\n"),
        ("ends", "#!/bin/sh\n"),
        ("goes-on", "#!/bin/sh\nexec yes\n"),
        (
            "python-without",
            "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'duckdb'\" >&2; exit 1\n",
        ),
    ];
    for (name, script) in engines {
        use std::os::unix::fs::PermissionsExt;
        let path = stage.join(name);
        std::fs::write(&path, script).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let run = stage.clscope(["sql", "SELECT 1", "t.clscope", "--format", "csv"]);
        let run = run.env("CLSCOPE_DUCKDB", &path).run();
        assert_eq!((run.status.code(), run.stdout.as_str()), (Some(1), ""), "{name}");
        for part in [name, "does not answer as DuckDB does", "pip install duckdb-cli"] {
            assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
        }
    }
}

#[test]
fn queries_write_nothing() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(python) = python(&stage) else { return };
    stage.app(Mode::Record, "t", "linked 5").run().success();
    export(&stage, &["t.clscope"]);
    let before = files(stage.path());
    for query in [
        "COPY (SELECT 1) TO 'written.csv'",
        "SELECT 1) TO 'written.csv'; --",
        "SELECT 1); COPY (SELECT 2) TO 'written.csv'; SELECT (3",
        "SELECT 1; COPY (SELECT 2) TO 'written.csv'",
        "ATTACH 'written.db'",
        "EXPORT DATABASE 'written'",
        "INSTALL httpfs",
        "PRAGMA enable_profiling",
        "SET threads = 1",
        "CREATE TABLE written AS SELECT 1",
        "SELECT * FROM enable_logging(storage = 'file', storage_path = 'written')",
        "SELECT * FROM query('COPY (SELECT 1) TO ''written.csv''')",
    ] {
        for source in ["t.clscope", "data"] {
            let run = stage.clscope(["sql", query, source]).env("CLSCOPE_DUCKDB", &python).run();
            assert_eq!(run.status.code(), Some(1), "{query}: {}", run.stdout);
            let told = ["a query is one statement", "DuckDB refused the query"];
            assert!(told.iter().any(|told| run.stderr.contains(told)), "{query}: {}", run.stderr);
        }
    }
    assert!(files(stage.path()) == before);
    // What gives rows in another way is a query.
    for query in
        ["FROM commands", "DESCRIBE commands", "SHOW TABLES", "SELECT 1; -- one", "VALUES (1)"]
    {
        let run = stage.clscope(["sql", query, "data", "--format", "csv"]);
        let rows = run.env("CLSCOPE_DUCKDB", &python).run().success().stdout;
        assert!(rows.ends_with('\n') && !rows.ends_with("\n\n"), "{query}: {rows:?}");
        assert!(rows.lines().count() > 1, "{query}: {rows}");
    }
}

#[test]
fn a_table_that_is_not_there_is_no_empty_one() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(python) = python(&stage) else { return };
    stage.app(Mode::Record, "t", "linked 5").run().success();
    let tables = ["export", "parquet", "-o", "data", "--tables", "commands,processes"];
    stage.clscope(tables).arg("t.clscope").run().success();
    let ask = |query: &str, source: &str| {
        stage.clscope(["sql", query, source]).env("CLSCOPE_DUCKDB", &python).run()
    };
    let none = ask("SELECT count(*) FROM counters", "data");
    assert_eq!((none.status.code(), none.stdout.as_str()), (Some(1), ""));
    let remedy = "the folder data has no table counters: `clscope export parquet --tables counters";
    assert!(none.stderr.contains(remedy), "{}", none.stderr);
    let unknown = ask("SELECT * FROM colours", "data");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(unknown.stderr.contains("there are commands, calls"), "{}", unknown.stderr);
    // The trace has no counters: it was not asked for any.
    let empty = ask("SELECT count(*) FROM counters", "t.clscope").success();
    assert!(empty.stderr.contains("the table counters has no row: `clscope record --counters"));
}
