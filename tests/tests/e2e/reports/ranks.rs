//! Rows by rank and host: their times are the report's, their joules those of the table of energy,
//! and every form of output has them all.

use clscope_tests::{Mode, Run, Runtime, Stage, artifacts, skip};
use serde_json::Value;
use std::collections::BTreeSet;

use crate::application::real_apps::given;
use crate::energy::{LATE, Tree, emulated, number};

/// Launches and transfers on queues of which each has few: of those of one queue, chance may time
/// none.
const QUEUES: &str = r#"
import numpy as np, pyopencl as cl
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
values = np.zeros(64, dtype=np.int32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
program = cl.Program(context, "kernel void next(global int *a) { a[get_global_id(0)]++; }").build()
kernel = cl.Kernel(program, "next")
for _ in range(400):
    queue = cl.CommandQueue(context)
    for _ in range(4):
        kernel(queue, values.shape, None, buffer)
        cl.enqueue_copy(queue, values, buffer)
    queue.finish()
print(values.min(), values.max())
"#;

fn json(stage: &Stage, arguments: &[&str]) -> Value {
    let run = stage.clscope(["report", "--format", "json"]).args(arguments).run().success();
    serde_json::from_str(&run.stdout).unwrap()
}

/// Fields of CSV that has no quotes.
fn cells(line: &str) -> Vec<&str> {
    line.split(',').collect()
}

#[test]
fn sampled_commands_of_many_queues_have_a_time_by_rank() {
    let Some(python) = given("CLSCOPE_TEST_PYTHON") else { return };
    let stage = Stage::new(Runtime::Pocl);
    let script = stage.join("app.py");
    std::fs::write(&script, QUEUES).unwrap();
    let names = ["a.clscope", "b.clscope"];
    for (rank, name) in ["a", "b"].into_iter().enumerate() {
        let run = stage.program(Mode::Record, name, &python).arg(&script);
        let run = run.env("PYOPENCL_NO_CACHE", "1").env("XDG_CACHE_HOME", stage.path());
        let run = run.env("PMI_RANK", rank.to_string()).env("CLSCOPE_DEVICE_TIMING", "sample");
        // Whatever timing costs here, most is left out.
        let run = run.env("CLSCOPE_BUDGET", "0.1%");
        assert_eq!(run.run().success().stdout, "1600 1600\n");
    }
    let both = json(&stage, &["--by", "rank", names[0], names[1]]);
    let rows = both["places"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for (row, name) in rows.iter().zip(names) {
        let own = json(&stage, &["--by", "host", name]);
        let kernel = &own["kernels"][0];
        assert!(number(&kernel["left_out"]) > 0.0, "{kernel}");
        let totals = &own["totals"];
        let parts = ["kernel_estimate_ns", "transfer_estimate_ns"];
        let want: f64 = parts.iter().map(|part| number(&totals[part]["value"])).sum();
        for row in [row, &own["places"]["rows"][0]] {
            let time = &row["device_ns"];
            let found = number(&time["value"]);
            assert!((found / want - 1.0).abs() < 1e-9, "{found} of {want}: {row}");
            assert!(number(&time["low"]) <= found && found <= number(&time["high"]), "{row}");
            assert_eq!((&time["estimated"], &row["without"]), (&true.into(), &0.into()), "{row}");
            // What is not there has its reason.
            assert_eq!(row["joules"].is_null(), row["joules_absent"].is_string(), "{row}");
        }
    }
    let text = stage.clscope(["report", "--by", "rank"]).args(names).run().success().stdout;
    assert!(text.contains("2 ranks") && text.contains("imbalance: "), "{text}");
    assert!(rows[0]["joules"].is_number() || text.contains("joules of rank 0, 1 are"), "{text}");
    // CSV has the same rows, and columns for all of it.
    let run = stage.clscope(["report", "--by", "rank", "--format", "csv"]).args(names).run();
    let csv = run.success().stdout;
    let lines: Vec<Vec<&str>> = csv.lines().map(cells).collect();
    assert_eq!(lines.len(), 3, "{csv}");
    let column = |name: &str| lines[0].iter().position(|title| *title == name).unwrap();
    for (line, row) in lines[1..].iter().zip(rows) {
        assert_eq!(line[column("rank")], row["rank"].to_string());
        let ns: f64 = line[column("device_ns")].parse().unwrap();
        let want = number(&row["device_ns"]["value"]);
        // The reader of JSON may differ in the last digit.
        assert!((ns / want - 1.0).abs() < 1e-12, "{ns} of {want}");
        assert_eq!(line[column("launches")], "1600");
    }
    let run = stage.clscope(["report", "--by", "rank", "--format", "csv", "--section", "kernels"]);
    let csv = run.args(names).run().success().stdout;
    assert!(csv.starts_with("section,rank,") && csv.contains("\n\nsection,name,"), "{csv}");
    let run = stage.clscope(["report", "--by", "rank", "--format", "html"]).args(names).run();
    let page = run.success().stdout;
    for part in ["<h2>Ranks</h2>", "rank 0 on ", "rank 1 on ", "href=\"#places\""] {
        assert!(page.contains(part), "{part}");
    }
    let without = stage.clscope(["report", "--format", "html", names[0]]).run().success().stdout;
    assert!(!without.contains("#places"));
}

/// The last ranks too, and whether somebody chose so or not; without a rank there is no row.
#[test]
fn missing_ranks_of_a_job_and_traces_without_ranks_are_told() {
    let Some(python) = given("CLSCOPE_TEST_PYTHON") else { return };
    let stage = Stage::new(Runtime::Pocl);
    let sizes =
        [("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS")];
    for ((rank, size), number) in sizes.into_iter().zip(["0", "1"]) {
        let run = stage.app(Mode::Record, &format!("r{number}"), "linked 20");
        run.env(rank, number).env(size, "4").run().success();
    }
    stage.app(Mode::Record, "none", "linked 20").run().success();
    let names = ["r0.clscope", "r1.clscope"];
    let want = "no trace of rank 2 to 3 (the job has ranks 0 to 3): ";
    for format in ["table", "csv", "json", "html"] {
        let run = stage.clscope(["report", "--by", "rank", "--format", format]).args(names).run();
        let told = run.success();
        let all = told.stdout + &told.stderr;
        assert!(all.contains(want), "{format}: {all}");
    }
    let report = json(&stage, &["--by", "rank", names[0], names[1]]);
    assert_eq!(report["places"]["job_ranks"], serde_json::json!([4]));
    assert_eq!(report["processes"][0]["mpi_size"], 4);
    let mut export = stage.clscope(["export", "parquet", "-o", "data"]);
    export = export.args(names);
    export.run().success();
    for sources in [&names[..], &["data"]] {
        let run = stage.clscope(["sql", "--recipe", "imbalance"]).env("CLSCOPE_DUCKDB", &python);
        let told = run.args(sources).run().success().stderr;
        assert!(told.contains(want), "{told}");
    }
    let run = stage.clscope(["sql", "--format", "json"]).env("CLSCOPE_DUCKDB", &python);
    let query = "SELECT DISTINCT job_ranks FROM processes";
    let answer: Value =
        serde_json::from_str(&run.args([query, "data"]).run().success().stdout).unwrap();
    assert_eq!(answer, serde_json::json!([{ "job_ranks": 4 }]));
    let refused = stage.clscope(["report", "--by", "rank", "none.clscope"]).run();
    assert_eq!(refused.status.code(), Some(1), "{}", refused.stdout);
    for part in ["none.clscope has an MPI rank", "OMPI_COMM_WORLD_RANK", "--by host"] {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
    let mixed = stage.clscope(["report", "--by", "rank", names[0], "none.clscope"]).run();
    let mixed = mixed.success().stdout;
    for part in ["\n1 rank, by time", "processes without a rank have rows by host"] {
        assert!(mixed.contains(part), "{part}: {mixed}");
    }
}

#[test]
fn times_of_which_all_was_measured_are_no_estimates() {
    let stage = Stage::new(Runtime::Pocl);
    let run = stage.app(Mode::Record, "t", "linked 50").env("CLSCOPE_DEVICE_TIMING", "event");
    run.env("PMI_RANK", "0").run().success();
    let report = json(&stage, &["--by", "rank", "t.clscope"]);
    let time = &report["places"]["rows"][0]["device_ns"];
    assert_eq!(time["estimated"], false);
    assert_eq!((&time["low"], &time["high"]), (&time["value"], &time["value"]));
    let text = stage.clscope(["report", "--by", "rank", "t.clscope"]).run().success().stdout;
    let row = text.lines().find(|line| line.contains("rank 0 on")).unwrap();
    assert!(!row.contains('~'), "{text}");
}

#[test]
fn without_times_rows_say_so() {
    let stage = Stage::new(Runtime::Pocl);
    let run = stage.app(Mode::Record, "t", "linked 50").env("CLSCOPE_DEVICE_TIMING", "off");
    run.env("PMI_RANK", "0").run().success();
    let text = stage.clscope(["report", "--by", "rank", "t.clscope"]).run().success().stdout;
    assert!(text.contains("device time of rank 0 is not known: no command was timed"), "{text}");
}

#[test]
fn joules_of_all_rows_are_those_of_the_table_of_energy() {
    let stage = Stage::new(Runtime::Pocl);
    emulated(&stage);
    let report = json(&stage, &["--by", "host", "t.clscope"]);
    let [row] = &report["places"]["rows"].as_array().unwrap()[..] else { panic!("{report}") };
    let device = &report["energy"]["devices"][0];
    let groups = device["groups"].as_array().unwrap();
    // The only row has sums as they are. A machine that is busy may
    // leave too few readings of a class.
    let unknown = |class: &Value| {
        let group = class["group"].as_u64().map(|i| &groups[i as usize]);
        class["joules"].is_null() && group.is_none()
    };
    if device["classes"].as_array().unwrap().iter().any(unknown) {
        assert!(row["joules"].is_null() && row["joules_absent"].is_string(), "{row}");
        return skip("sums of joules: this machine was too busy to tell those of a class", false);
    }
    let want: f64 = groups.iter().map(|group| number(&group["joules"]["value"])).sum();
    let found = number(&row["joules"]["value"]);
    assert!((found / want - 1.0).abs() < 1e-9, "{found} of {want}: {device}");
    assert!(row["joules_absent"].is_null());
    let text = stage.clscope(["report", "--by", "host", "t.clscope"]).run().success().stdout;
    assert!(!text.contains("are not known"), "{text}");
}

/// Two ranks on each of two hosts, whose names are of UTS namespaces.
const HOSTS: &str = r#"#!/bin/sh
node=node$((OMPI_COMM_WORLD_RANK / 2))
exec unshare --uts sh -c 'hostname "$0"; exec "$@"' "$node" "$@"
"#;

#[test]
fn ranks_of_mpirun_on_two_hosts_are_one_job() {
    if !clscope_testing::need::installed("mpirun") {
        return skip("mpirun: the package openmpi-bin brings it", true);
    }
    let stage = Stage::new(Runtime::Pocl);
    let script = stage.join("on_a_host");
    std::fs::write(&script, HOSTS).unwrap();
    let may = Run::new("unshare", stage.path()).args(["--uts", "hostname", "node1"]).run();
    let hosts = may.status.success();
    if !hosts {
        skip("hosts by UTS namespaces: this user may not make any", false);
    }
    let app = artifacts().fixture("many_commands");
    let mpirun = stage.program(Mode::Bare, "bare", "mpirun");
    // Where tests run as root, as in a container of a CI.
    let mpirun =
        mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let mut run = mpirun.args(["--oversubscribe", "--bind-to", "none", "-n", "4"]);
    if hosts {
        run = run.arg("sh").arg(&script);
    }
    let run = run.arg(artifacts().clscope()).args(["record", "-q", "--sensors", "off"]);
    let run = run.args(["--device-timing", "event", "-o", "job-%q{OMPI_COMM_WORLD_RANK}", "--"]);
    let said = run.arg(app).arg("200").run().success().stdout;
    assert_eq!(said.matches("commands 200 right").count(), 4, "{said}");
    let traces: Vec<String> = (0..4).map(|rank| format!("job-{rank}.clscope")).collect();
    let arguments = |by: &'static str| -> Vec<&str> {
        ["--by", by].into_iter().chain(traces.iter().map(String::as_str)).collect()
    };
    let job = json(&stage, &arguments("rank"));
    let rows = job["places"]["rows"].as_array().unwrap();
    let ranks: BTreeSet<u64> = rows.iter().map(|row| row["rank"].as_u64().unwrap()).collect();
    assert_eq!((rows.len(), ranks), (4, (0..4).collect()), "{rows:#?}");
    assert!(rows.iter().all(|row| number(&row["launches"]) == 200.0), "{rows:#?}");
    if hosts {
        let rows = json(&stage, &arguments("host"))["places"]["rows"].clone();
        let launches = |host: &str| {
            let row = rows.as_array().unwrap().iter().find(|row| row["host"] == host);
            number(&row.unwrap_or_else(|| panic!("{rows:#}"))["launches"])
        };
        assert_eq!((launches("node0"), launches("node1")), (400.0, 400.0), "{rows:#}");
    }
    // The report of a job of which one trace is not there names the rank.
    let words = ["report", "--by", "rank", &traces[0], &traces[1], &traces[3]];
    let text = stage.clscope(words).run().success().stdout;
    assert!(text.contains("no trace of rank 2 (the job has ranks 0 to 3)"), "{text}");
    // Also where it is the last.
    let words = ["report", "--by", "rank", &traces[0], &traces[1], &traces[2]];
    let text = stage.clscope(words).run().success().stdout;
    assert!(text.contains("no trace of rank 3 (the job has ranks 0 to 3)"), "{text}");
}

#[test]
fn ranks_in_time_namespaces_are_one_job() {
    let stage = Stage::new(Runtime::Pocl);
    let apart = ["--time", "--fork", "--monotonic", "5000", "--boottime", "5000"];
    if !Run::new("unshare", stage.path()).args(apart).arg("true").run().status.success() {
        return skip("this user may not make a time namespace", false);
    }
    let app = artifacts().fixture("many_commands");
    let tree = Tree::new(&stage.join("tree"), LATE);
    let root = tree.root.display().to_string();
    let record = |trace: &'static str, words: &[&str], rank: &str| {
        let options = ["--sysfs-root", &root, "--device-timing", "event", "-o", trace, "--"];
        let run = stage.clscope(["record", "-q"]).args(options).args(words).arg(&app).arg("200");
        tree.rises(|| run.env("PMI_RANK", rank).run().success());
    };
    record("a", &[], "0");
    // `record` and its sampler stay outside: the readings of sensors are of the other clock.
    let inside: Vec<&str> = ["unshare"].into_iter().chain(apart).collect();
    record("b", &inside, "1");
    record("c", &[], "2");
    let job = json(&stage, &["--by", "rank", "a.clscope", "b.clscope", "c.clscope"]);
    let seconds = number(&job["duration_ns"]) / 1e9;
    assert!(seconds < 4_000.0, "the job seems {seconds} s long");
    assert_eq!(job["hosts"].as_array().unwrap().len(), 1, "{:#}", job["hosts"]);
    let rows = job["places"]["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| number(&row["launches"]) == 200.0), "{rows:#?}");
    let told = job["issues"].as_array().unwrap().iter();
    let told: Vec<&Value> = told.filter(|issue| issue["code"] == "other-clock").collect();
    let [issue] = &told[..] else { panic!("{:#}", job["issues"]) };
    let text = issue["text"].as_str().unwrap();
    assert!(text.contains("is 5000.0 s ahead of that of other processes"), "{text}");

    // The rank alone: what a sampler outside read lies where the application ran.
    let alone = json(&stage, &["b.clscope"]);
    assert!(number(&alone["duration_ns"]) < 4e12, "{}", alone["duration_ns"]);
    stage.clscope(["export", "chrome", "-o", "b.json", "b.clscope"]).run().success();
    let drawn: Value =
        serde_json::from_slice(&std::fs::read(stage.join("b.json")).unwrap()).unwrap();
    let drawn = drawn["traceEvents"].as_array().unwrap();
    let power = || drawn.iter().filter(|event| event["ph"] == "C");
    assert!(power().count() > 0, "no readings are drawn");
    let far = power().find(|event| number(&event["ts"]).abs() > 4e9);
    assert!(far.is_none(), "a reading is far from the application: {far:?}");
}
