//! `report`, `dump` and `merge` as programs: what goes to stdout and what to stderr, which trace is
//! taken, and that one bad file costs no other.

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_testing::Limited;
use clscope_trace::defs::{Def, Kernel};
use clscope_trace::record::CommandKind;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes a trace with the processes of these pids, each with ten launches and a read.
fn trace(dir: &Path, name: &str, pids: &[u32]) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir(&path).unwrap();
    for pid in pids {
        let host = HostModel::default();
        let mut p = ProcessBuilder::standard(host, *pid, 1);
        for i in 0..10u64 {
            let t = 1_000 + i * 20_000;
            let raw = host.raw + t;
            p.thread(0)
                .enqueue(t, t + 900, &CommandSpec::kernel(2 * i + 1, 1, 1))
                .enqueue(
                    t + 1_000,
                    t + 1_900,
                    &CommandSpec::transfer(2 * i + 2, 1, CommandKind::ReadBuffer, 4096),
                )
                .plain(function::FINISH, t + 2_000, t + 15_000, 0, 1)
                .timing(t + 15_000, 2 * i + 1, [raw + 100, raw + 1_000, raw + 2_000, raw + 8_000])
                .timing(
                    t + 15_000,
                    2 * i + 2,
                    [raw + 1_200, raw + 2_000, raw + 8_000, raw + 9_000 + i],
                );
        }
        p.exit(300_000, 0);
        let bytes = p.build();
        fs::write(path.join(format!("{pid}-0.defs")), &bytes.defs).unwrap();
        fs::write(path.join(format!("{pid}-0.0.clt")), &bytes.segment).unwrap();
    }
    path
}

fn clscope(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_clscope")).args(arguments).current_dir(dir).ended()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(dir: &Path, trace: &Path) -> (serde_json::Value, Output) {
    let out = clscope(dir, &["report", "--format", "json", trace.to_str().unwrap()]);
    (checked(&out), out)
}

/// A report, which must keep to the committed schema.
fn checked(out: &Output) -> serde_json::Value {
    let report = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", text(&out.stderr)));
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../profile/report.schema.json");
    let breaches = clscope_testing::schema::breaches(&schema, &report);
    assert!(breaches.is_empty(), "{breaches:#?}");
    report
}

#[test]
fn without_a_name_the_only_trace_is_reported_on_stdout_alone() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path(), "app.clscope", &[7]);
    let first = clscope(dir.path(), &["report"]);
    assert!(first.status.success());
    assert_eq!(text(&first.stderr), "");
    let said = text(&first.stdout);
    for wanted in
        ["WHY IT TAKES", "KERNELS", "matmul", "COPIES", "clFinish", "clscope report --all"]
    {
        assert!(said.contains(wanted), "{wanted} in\n{said}");
    }
    assert!(said.lines().count() <= 40 && said.lines().all(|line| line.len() <= 80), "{said}");
    // Who chooses rows or columns gets the tables; the first screen is the same in a file.
    let chosen = clscope(dir.path(), &["report", "--sort", "name"]);
    assert!(text(&chosen.stdout).starts_with("clscope report of"), "{}", text(&chosen.stdout));
    assert!(clscope(dir.path(), &["report", "-o", "first.txt"]).status.success());
    assert_eq!(fs::read(dir.path().join("first.txt")).unwrap(), first.stdout);
    let out = clscope(dir.path(), &["report", "--all"]);
    assert!(out.status.success());
    assert_eq!(text(&out.stderr), "");
    let said = text(&out.stdout);
    for wanted in
        ["clscope report of app.clscope", "matmul", "ReadBuffer (DtoH)", "clFinish", "clock bound"]
    {
        assert!(said.contains(wanted), "{wanted} in\n{said}");
    }
    assert!(said.is_ascii());
}

#[test]
fn no_trace_and_wrong_names_are_errors_with_a_next_step() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, wanted) in [
        (&["report"][..], "clscope record"),
        (&["dump", "none.clscope"][..], "none.clscope"),
        (&["merge", "none.clscope", "-o", "out.clscope"][..], "none.clscope"),
        (&["report", "--format", "xml"][..], "possible values"),
    ] {
        let out = clscope(dir.path(), arguments);
        assert!(!out.status.success() && out.stdout.is_empty(), "{arguments:?}");
        assert!(text(&out.stderr).contains(wanted), "{arguments:?}: {}", text(&out.stderr));
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn one_bad_file_is_told_and_costs_no_other() {
    let good = tempfile::tempdir().unwrap();
    let path = trace(good.path(), "good.clscope", &[7, 8]);
    let defs = fs::read(path.join("8-0.defs")).unwrap();
    let segment = fs::read(path.join("8-0.0.clt")).unwrap();
    let mut newer = defs.clone();
    newer[12] = 9;
    let cases: Vec<(&str, &str, Vec<u8>, &str)> = vec![
        ("empty definitions", "8-0.defs", Vec::new(), "unreadable-file"),
        (
            "foreign definitions",
            "8-0.defs",
            b"#!/bin/sh\necho no trace\n".to_vec(),
            "unreadable-file",
        ),
        ("newer definitions", "8-0.defs", newer, "unreadable-file"),
        ("truncated definitions", "8-0.defs", defs[..defs.len() - 9].to_vec(), "torn-definitions"),
        ("empty segment", "8-0.0.clt", Vec::new(), "unreadable-file"),
        ("truncated segment", "8-0.0.clt", segment[..segment.len() - 9].to_vec(), "torn-blocks"),
        ("definitions for a segment", "8-0.0.clt", defs.clone(), "unreadable-file"),
        (
            "another process's segment",
            "8-0.0.clt",
            fs::read(path.join("7-0.0.clt")).unwrap(),
            "other-process",
        ),
    ];
    for (what, name, content, code) in cases {
        let dir = tempfile::tempdir().unwrap();
        let path = trace(dir.path(), "t.clscope", &[7, 8]);
        fs::write(path.join(name), content).unwrap();
        let (report, out) = json(dir.path(), &path);
        let codes: Vec<&str> = report["issues"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["code"].as_str().unwrap())
            .collect();
        assert!(out.status.success() && codes.contains(&code), "{what}: {codes:?}");
        assert!(text(&out.stderr).contains("8-0"), "{what}: {}", text(&out.stderr));
        let launches: u64 = report["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|k| k["name"] == "matmul")
            .map(|k| k["count"].as_u64().unwrap())
            .sum();
        assert!(launches >= 10, "{what}: the other process's launches are all there");
    }
}

#[test]
fn a_trace_of_which_nothing_can_be_read_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.clscope");
    fs::create_dir(&path).unwrap();
    for name in ["7-0.defs", "7-0.ring"] {
        fs::write(path.join(name), [0x5a; 300]).unwrap();
    }
    for arguments in [
        &["report"][..],
        &["report", "--format", "json"],
        &["dump"],
        &["export", "chrome", "-o", "t.json"],
    ] {
        let out = clscope(dir.path(), arguments);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(
            out.stdout.is_empty()
                && said.contains("nothing of t.clscope could be read")
                && said.contains("7-0.defs"),
            "{said}"
        );
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no file of nothing");
}

#[test]
fn what_was_asked_for_and_is_not_there_is_said() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path(), "app.clscope", &[7]);
    for (arguments, wanted) in [
        (&["--name", "zzz"][..], "matches --name zzz"),
        (&["--section", "counters"], "no hardware counters"),
        (&["--counters", "gpu-busy"], "no hardware counters"),
        (&["--by", "call-site"], "record --call-sites"),
    ] {
        let out = clscope(dir.path(), &[&["report", "--all", "app"], arguments].concat());
        assert!(
            out.status.success() && text(&out.stderr).contains(wanted),
            "{arguments:?}: {}",
            text(&out.stderr)
        );
    }
    let plain = clscope(dir.path(), &["report", "--section", "kernels"]);
    assert_eq!(
        plain.stdout,
        clscope(dir.path(), &["report", "--section", "kernels", "--by", "call-site"]).stdout
    );
}

#[test]
fn merged_traces_report_as_the_sum() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (trace(dir.path(), "a.clscope", &[7]), trace(dir.path(), "b.clscope", &[8]));
    let out = clscope(
        dir.path(),
        &["merge", a.to_str().unwrap(), b.to_str().unwrap(), "-o", "all.clscope"],
    );
    assert!(out.status.success(), "{}", text(&out.stderr));
    let (merged, _) = json(dir.path(), &dir.path().join("all.clscope"));
    let both = clscope(dir.path(), &["report", "--format", "json", "a.clscope", "b.clscope"]);
    let both = checked(&both);
    assert_eq!(merged["kernels"], both["kernels"]);
    assert_eq!(merged["kernels"][0]["count"], 20);
    let lines = clscope(dir.path(), &["dump", "--format", "json", "all.clscope"]);
    let events =
        text(&lines.stdout).lines().filter(|l| l.contains("\"event\":\"command\"")).count();
    assert_eq!(events, 40);
}

#[test]
fn csv_has_one_header_and_one_row_per_kernel() {
    let dir = tempfile::tempdir().unwrap();
    trace(dir.path(), "app.clscope", &[7]);
    let out = clscope(dir.path(), &["report", "--format", "csv"]);
    let lines: Vec<String> = text(&out.stdout).lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].starts_with("section,name,device")
            && lines[1].starts_with("kernels,matmul,Test Device")
    );
}

#[test]
fn busy_time_holds_the_launches_of_every_object_of_a_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let host = HostModel::default();
    let mut p = ProcessBuilder::standard(host, 7000, 1);
    if let Some(Def::Process(of)) = p.defs.first_mut() {
        of.device_timing = "sample".into();
    }
    // A second kernel object of the same name, as an application has that creates one for each
    // frame. Not one of its launches is timed.
    let name = p.defs.iter().find_map(|d| match d {
        Def::Kernel(k) if k.id == 1 => Some(k.name.clone()),
        _ => None,
    });
    p.define(Kernel { id: 5, program: 1, name: name.expect("a kernel") });
    for i in 0..400u64 {
        let (id, at) = (i + 1, 10_000 + i * 20_000);
        let kernel = if i % 4 == 1 && i >= 32 { 5 } else { 1 };
        let timed = i < 32 || i % 8 == 3;
        let probability = if i < 32 { 1.0 } else { 0.125 };
        let launch = CommandSpec::sampled(id, 1, kernel, probability, timed);
        p.thread(0).enqueue(at, at + 1_000, &launch);
        p.thread(0).plain(function::FINISH, at + 2_000, at + 18_000, 0, 1);
        if timed {
            let stamps = [500, 1_500, 2_000, 12_000].map(|t| host.raw + at + t);
            p.thread(0).timing(at + 18_100, id, stamps);
        }
    }
    p.exit(9_000_000, 0);
    let path = dir.path().join("t.clscope");
    fs::create_dir(&path).unwrap();
    let bytes = p.build();
    fs::write(path.join("7000-0.defs"), &bytes.defs).unwrap();
    fs::write(path.join("7000-0.0.clt"), &bytes.segment).unwrap();
    let (report, _) = json(dir.path(), &path);
    let kernels = report["totals"]["kernel_estimate_ns"]["value"].as_f64().unwrap();
    let busy = |of: &str| report[of][0]["busy_estimate_ns"]["value"].as_f64();
    assert!((kernels / 4e6 - 1.0).abs() < 0.01, "{kernels}");
    assert_eq!(busy("devices"), Some(kernels));
    assert_eq!(busy("queues"), Some(kernels));
    assert_eq!(report["devices"][0]["busy_without"], 0);
}
