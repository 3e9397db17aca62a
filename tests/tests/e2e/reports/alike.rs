//! Devices and programs of one name, and what is shown of a report: rows that differ, whose sums are
//! those of all, in every output.

use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn report(stage: &Stage, arguments: &[&str]) -> Value {
    let run = stage.clscope(["report", "--format", "json"]).args(arguments).run().success();
    serde_json::from_str(&run.stdout).unwrap()
}

fn rows<'r>(report: &'r Value, section: &str) -> &'r Vec<Value> {
    report[section].as_array().unwrap()
}

#[test]
fn devices_and_programs_of_one_name_have_rows_that_differ() {
    let stage = Stage::new(Runtime::Pocl);
    let run = stage.app(Mode::Record, "t", "named_alike 4").env("POCL_DEVICES", "pthread pthread");
    assert_eq!(run.run().success().stdout, "devices 2\n");
    let all = report(&stage, &["t.clscope"]);
    let kernels = rows(&all, "kernels");
    let key = |k: &Value| (k["name"].to_string(), k["device"].to_string());
    let keys: BTreeSet<_> = kernels.iter().map(key).collect();
    // Two devices; two texts, one of them with two kinds of options.
    assert_eq!((kernels.len(), keys.len()), (6, 6), "{keys:?}");
    // The program that was made again is the first.
    let mut counts: Vec<u64> = kernels.iter().map(|k| k["count"].as_u64().unwrap()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [5, 5, 6, 6, 11, 11], "{keys:?}");
    let devices: BTreeSet<_> =
        rows(&all, "devices").iter().map(|d| d["name"].to_string()).collect();
    let queues: BTreeSet<_> =
        rows(&all, "queues").iter().map(|q| q["device"].to_string()).collect();
    let of_kernels: BTreeSet<_> = keys.iter().map(|key| key.1.clone()).collect();
    assert_eq!(devices.len(), 2, "{devices:?}");
    assert_eq!((&queues, &of_kernels), (&devices, &devices));
    // Every view and export names as many.
    let names: BTreeSet<String> =
        kernels.iter().map(|k| k["name"].as_str().unwrap().to_owned()).collect();
    for arguments in [
        &["report", "--limit", "0", "t.clscope"][..],
        &["report", "--format", "csv", "t.clscope"],
        &["report", "--format", "html", "t.clscope"],
        &["export", "folded", "t.clscope"],
        &["export", "chrome", "t.clscope", "-o", "-"],
    ] {
        let text = stage.clscope(arguments).run().success().stdout;
        for name in &names {
            assert!(text.contains(name.as_str()), "{arguments:?}: no {name}");
        }
    }
    // What is followed names them as soon as it is read.
    let top = stage.clscope(["top", "--once", "--format", "json", "t.clscope"]).run().success();
    let top: Value = serde_json::from_str(&top.stdout).unwrap();
    assert_eq!(rows(&top, "kernels").iter().map(key).collect::<BTreeSet<_>>(), keys);
    // The plain name means all of them, and one of them itself.
    let of = |name: &str| report(&stage, &["t.clscope", "--name", name]);
    assert_eq!(rows(&of("same*"), "kernels").len(), 6);
    for name in &names {
        assert_eq!(rows(&of(name), "kernels").len(), 2, "{name}");
    }
}

/// Whatever is asked for by name: the totals are the sums of the rows.
#[test]
fn totals_are_those_of_what_is_shown() {
    let stage = Stage::new(Runtime::Pocl);
    stage
        .app(Mode::Record, "t", "two_powers 5")
        .env("CLSCOPE_DEVICE_TIMING", "event")
        .run()
        .success();
    let all = report(&stage, &["t.clscope"]);
    let names = ["kernels", "functions"].map(|of| rows(&all, of).iter().map(|r| r["name"].clone()));
    let names: Vec<Value> = names.into_iter().flatten().collect();
    assert!(names.len() > 5, "{names:?}");
    let sum = |report: &Value, section: &str, field: &str| -> f64 {
        let rows = rows(report, section).iter();
        rows.map(|row| row.pointer(field).unwrap().as_f64().unwrap()).sum()
    };
    for name in names.iter().map(|name| name.as_str().unwrap()).chain(["*"]) {
        let shown = report(&stage, &["t.clscope", "--name", name]);
        let totals = &shown["totals"];
        for (section, field, total) in [
            ("kernels", "/time_ns/total", "kernel_ns"),
            ("functions", "/time_ns/total", "call_ns"),
            ("functions", "/calls", "calls"),
            ("functions", "/errors", "errors"),
            ("transfers", "/time_ns/total", "transfer_ns"),
        ] {
            let of_rows = sum(&shown, section, field);
            assert_eq!(totals[total].as_f64(), Some(of_rows), "--name {name}: {total}");
        }
        let kinds = ["kernels", "transfers", "other_commands"];
        let commands: f64 = kinds.map(|section| sum(&shown, section, "/count")).iter().sum();
        assert_eq!(totals["commands"].as_f64(), Some(commands), "--name {name}");
    }
    let whole: f64 = sum(&all, "kernels", "/time_ns/total");
    assert_eq!(all["totals"]["kernel_ns"].as_f64(), Some(whole));
}

/// What lies between traces of different times was not recorded: durations add up, and shares are
/// of them; merged or not.
#[test]
fn traces_of_different_times_count_what_was_recorded() {
    let stage = Stage::new(Runtime::FakeLoader);
    let names = ["one", "two", "three"];
    for name in names {
        stage.app(Mode::Record, name, "linked 20").run().success();
    }
    let traces = names.map(|name| format!("{name}.clscope"));
    let each: Vec<Value> = traces.iter().map(|trace| report(&stage, &[trace])).collect();
    let sum: u64 = each.iter().map(|one| one["duration_ns"].as_u64().unwrap()).sum();
    let traces: Vec<&str> = traces.iter().map(String::as_str).collect();
    stage.clscope(["merge", "-o", "all.clscope"]).args(&traces).run().success();
    for arguments in [&traces[..], &["all.clscope"]] {
        let all = report(&stage, arguments);
        let duration = all["duration_ns"].as_u64().unwrap();
        // Clocks of processes are fitted anew where several are read together.
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
        assert!(near(duration as f64, sum as f64), "{duration} of {sum}: {arguments:?}");
        let mut busy: BTreeMap<String, f64> = BTreeMap::new();
        for device in rows(&all, "devices") {
            let ns = device["busy_ns"].as_f64().unwrap_or_default();
            let share = device["busy_share"]["value"].as_f64().unwrap_or_default();
            assert!(near(share * duration as f64 + 1.0, ns + 1.0), "{device}");
            busy.insert(device["process"].to_string(), ns);
        }
        assert_eq!(busy.len(), names.len(), "{all}");
    }
}
