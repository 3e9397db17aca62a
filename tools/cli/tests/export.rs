//! `clscope export chrome` on synthetic traces, written with the format's own encoder: the document
//! is valid and keeps the rules that viewers rely on, and shows what the trace holds.

mod common;

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_testing::{Limited, Stream};
use clscope_trace::Untimed;
use clscope_trace::defs::{Def, Queue};
use clscope_trace::record::{CommandKind, DropReason, flag};
use common::{Stage, save, stderr, stdout};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::io::Read as _;

fn export(stage: &Stage, arguments: &[&str]) -> Value {
    let output = stage.clscope().args(["export", "chrome", "-o", "-"]).args(arguments).ended();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

fn events(document: &Value) -> &Vec<Value> {
    document["traceEvents"].as_array().unwrap()
}

fn named<'v>(document: &'v Value, name: &str) -> Vec<&'v Value> {
    events(document).iter().filter(|e| e["name"] == name).collect()
}

/// Nanoseconds of a field in microseconds; fails if more than three decimals were written.
fn ns(value: &Value) -> i64 {
    let text = value.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    assert!(part.len() <= 3, "{text} has more than nanoseconds");
    format!("{whole}{part:0<3}").parse().unwrap()
}

/// The rules of the format that all three viewers rely on.
fn check(document: &Value) {
    let mut tracks_named: HashSet<(u64, u64)> = HashSet::new();
    let mut groups_named: HashSet<u64> = HashSet::new();
    let mut spans: HashMap<(u64, u64), Vec<(i64, i64)>> = HashMap::new();
    let mut arrows: HashMap<u64, (u32, u32)> = HashMap::new();
    let mut left: HashMap<u64, i64> = HashMap::new();
    for event in events(document) {
        let known =
            ["ph", "pid", "tid", "ts", "dur", "name", "cat", "id", "bp", "s", "cname", "args"];
        assert!(event.as_object().unwrap().keys().all(|k| known.contains(&k.as_str())), "{event}");
        let (pid, tid) = (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
        assert!(pid > 0 && tid > 0 && pid < 1 << 31 && tid < 1 << 31, "{event}");
        assert!(event["name"].is_string());
        let phase = event["ph"].as_str().unwrap();
        if phase == "M" {
            match event["name"].as_str().unwrap() {
                "process_name" => assert!(
                    groups_named.insert(pid) && event["args"]["name"].is_string(),
                    "{event}"
                ),
                "thread_name" => assert!(
                    tracks_named.insert((pid, tid)) && event["args"]["name"].is_string(),
                    "{event}"
                ),
                "process_sort_index" | "thread_sort_index" => {
                    assert!(event["args"]["sort_index"].is_u64(), "{event}")
                }
                other => panic!("unknown metadata {other}"),
            }
            continue;
        }
        assert!(
            tracks_named.contains(&(pid, tid)) && groups_named.contains(&pid),
            "used before it is named: {event}"
        );
        let begin = ns(&event["ts"]);
        assert!(begin >= 0, "{event}");
        match phase {
            "X" => {
                let duration = ns(&event["dur"]);
                assert!(duration >= 0);
                spans.entry((pid, tid)).or_default().push((begin, begin + duration));
            }
            "i" => assert!(["t", "p"].contains(&event["s"].as_str().unwrap())),
            "s" | "f" => {
                let arrow = arrows.entry(event["id"].as_u64().unwrap()).or_default();
                *(if phase == "s" { &mut arrow.0 } else { &mut arrow.1 }) += 1;
                assert_eq!(event["bp"] == "e", phase == "f");
                let id = event["id"].as_u64().unwrap();
                let from = *left.entry(id).or_insert(begin);
                assert!(phase == "s" || from <= begin, "an arrow runs back in time: {event}");
                let around = spans
                    .get(&(pid, tid))
                    .is_some_and(|s| s.iter().any(|(b, e)| *b <= begin && begin <= *e));
                assert!(around, "an arrow ends in no span: {event}");
            }
            other => panic!("unknown phase {other}"),
        }
    }
    assert!(arrows.values().all(|both| *both == (1, 1)), "every arrow has two ends");
    for (track, spans) in &mut spans {
        spans.sort_by_key(|(b, e)| (*b, std::cmp::Reverse(*e)));
        let mut open: Vec<i64> = Vec::new();
        for (begin, end) in spans {
            while open.last().is_some_and(|o| o <= begin) {
                open.pop();
            }
            assert!(
                open.last().is_none_or(|o| *end <= *o),
                "spans of {track:?} cross: {begin}..{end}"
            );
            open.push(*end);
        }
    }
}

/// The device clock of these tests: true time plus an epoch of its own.
fn device(ns: u64) -> u64 {
    1_700_000_000_000_000_000 + ns
}

fn small() -> ProcessBuilder {
    let mut process = ProcessBuilder::standard(HostModel::default(), 4000, 2);
    process.anchor(1_000_000);
    let launch = |id| CommandSpec::kernel(id, 1, 1);
    process
        .thread(0)
        .plain(function::SET_ARG, 1_000, 1_050, 2 | (8 << 8), 1)
        .enqueue(2_000, 3_001, &launch(1))
        .enqueue(
            3_500,
            4_000,
            &CommandSpec {
                waits: &[1],
                ..CommandSpec::transfer(2, 1, CommandKind::ReadBuffer, 4096)
            },
        )
        .timing(20_000, 1, [2_500, 3_000, 5_000, 9_007].map(device))
        .timing(20_000, 2, [3_700, 3_900, 9_100, 12_000].map(device))
        .plain(function::FINISH, 4_100, 20_100, 0, 1)
        .call(function::CREATE_BUFFER, 21_000, 21_100, -30, &[0, 1, 1 << 60]);
    process
}

#[test]
fn a_small_trace_shows_all_it_holds() {
    let stage = Stage::new();
    let mut process = small();
    process.exit(30_000, 0);
    save(&process, &stage.join("t.clscope"));
    let document = export(&stage, &["t.clscope"]);
    check(&document);
    let call = named(&document, "clEnqueueNDRangeKernel")[0];
    assert_eq!((call["pid"].as_u64(), call["tid"].as_u64()), (Some(4000), Some(4000)));
    assert_eq!(ns(&call["dur"]), 1_001);
    assert_eq!(call["args"]["command"], 1);
    let set = named(&document, "clSetKernelArg")[0];
    assert_eq!((&set["args"]["arg_index"], &set["args"]["arg_size"]), (&2.into(), &8.into()));
    let failed = named(&document, "clCreateBuffer")[0];
    assert_eq!(failed["args"]["error"], "CL_INVALID_VALUE (-30)");
    assert_eq!(failed["cname"], "terrible");
    assert_eq!(failed["args"]["flags"], "0x1");
    let read = named(&document, "ReadBuffer")[0];
    assert_eq!(read["args"]["bytes"], 4096);
    assert!(
        (ns(&read["dur"]) - 2_900).abs() < 30,
        "corrected for drift, which two commands bound badly: {}",
        read["dur"]
    );
    // What the span's name and track and the other end of the arrow say is not said again.
    for absent in ["queue", "kind", "kernel"] {
        assert!(read["args"].get(absent).is_none(), "{read}");
    }
    assert!(read["args"]["clock_error_ns"].is_u64());
    let enqueue = named(&document, "clEnqueueReadBuffer")[0];
    assert_eq!(enqueue["args"]["wait_list"], serde_json::json!([1]));
    // The queue is a track of the process, and an arrow leads there.
    assert_eq!(read["pid"], enqueue["pid"]);
    assert_ne!(read["tid"], enqueue["tid"]);
    assert_eq!(events(&document).iter().filter(|e| e["ph"] == "f").count(), 2);
    // A device span never starts before its enqueue.
    let kernel = events(&document).iter().find(|e| e["cat"] == "device,kernel").unwrap();
    assert!(ns(&kernel["ts"]) >= ns(&call["ts"]));
}

#[test]
fn a_trace_without_a_format_is_answered_with_the_formats() {
    let stage = Stage::new();
    for arguments in [&["t.clscope"][..], &["--format", "perfetto", "t.clscope"]] {
        let output = stage.clscope().arg("export").args(arguments).ended();
        let said = stderr(&output);
        assert!(
            !output.status.success() && said.contains("clscope export perfetto TRACE"),
            "{said}"
        );
        assert!(said.contains("perfetto, chrome, folded, speedscope, pprof, parquet"), "{said}");
    }
}

#[test]
fn what_never_ended_is_shown_as_such() {
    let stage = Stage::new();
    let mut process = small();
    process.in_calls.push((1, function::FINISH, 22_000));
    process
        .thread(0)
        .enqueue(22_000, 22_100, &CommandSpec::kernel(3, 1, 1))
        .enqueue(23_000, 23_100, &CommandSpec::kernel(4, 1, 1))
        .untimed(24_000, 4, Untimed::QueueReleased)
        .dropped(25_000, 7, DropReason::WriteFailed);
    process.in_ring = true;
    save(&process, &stage.join("t.clscope"));
    let document = export(&stage, &["t.clscope"]);
    check(&document);
    assert_eq!(named(&document, "clFinish (in progress)").len(), 1);
    let reasons: Vec<_> = events(&document)
        .iter()
        .filter(|e| e["cat"] == "device,no device time")
        .map(|e| e["args"]["reason"].clone())
        .collect();
    assert_eq!(reasons.len(), 2);
    assert!(
        reasons.iter().any(|r| r == Untimed::QueueReleased.text())
            && reasons.iter().any(|r| r.as_str().unwrap().contains("killed"))
    );
    assert!(
        events(&document)
            .iter()
            .any(|e| e["name"].as_str().unwrap().starts_with("7 records dropped"))
    );
    assert!(!document["otherData"]["warnings"].as_array().unwrap().is_empty());
}

#[test]
fn out_of_order_commands_get_lanes() {
    let stage = Stage::new();
    let mut process = ProcessBuilder::standard(HostModel::default(), 4000, 1);
    process.anchor(10_000_000);
    for def in &mut process.defs {
        if let Def::Queue(Queue { properties, .. }) = def {
            *properties = 1;
        }
    }
    for id in 1..=60u64 {
        process.thread(0).enqueue(id * 1_000, id * 1_000 + 500, &CommandSpec::kernel(id, 1, 1));
    }
    for id in (1..=60u64).rev() {
        // Every command runs for three and a half periods: four are always running.
        let begin = id * 1_000 + 2_000;
        process.thread(0).timing(
            100_000,
            id,
            [begin - 1_600, begin - 1_000, begin, begin + 3_500].map(device),
        );
    }
    save(&process, &stage.join("t.clscope"));
    let document = export(&stage, &["t.clscope"]);
    check(&document);
    let kernels: Vec<_> =
        events(&document).iter().filter(|e| e["cat"] == "device,kernel").collect();
    assert_eq!(kernels.len(), 60);
    let lanes: HashSet<_> = kernels.iter().map(|e| e["tid"].as_u64().unwrap()).collect();
    assert_eq!(lanes.len(), 4, "as many lanes as run at once");
    let names: Vec<_> = events(&document)
        .iter()
        .filter(|e| e["name"] == "thread_name")
        .map(|e| e["args"]["name"].to_string())
        .collect();
    assert!(
        names.iter().any(|n| n.contains("out of order"))
            && names.iter().any(|n| n.contains("lane 4")),
        "{names:?}"
    );
}

#[test]
fn several_traces_and_equal_ids_do_not_mix() {
    let stage = Stage::new();
    for (name, boot) in [("a.clscope", 1), ("b.clscope", 2)] {
        let mut process = small();
        process.host = HostModel { boot, ..HostModel::default() };
        process.exit(30_000, 0);
        save(&process, &stage.join(name));
    }
    let document = export(&stage, &["a.clscope", "b.clscope"]);
    check(&document);
    assert_eq!(named(&document, "clFinish").len(), 2);
    let pids: HashSet<_> = named(&document, "clFinish").iter().map(|e| e["pid"].as_u64()).collect();
    assert_eq!(pids.len(), 2, "the same process id on two hosts is two groups");
    assert_eq!(events(&document).iter().filter(|e| e["name"] == "process_name").count(), 2);
}

#[test]
fn a_trace_without_device_times_is_fine_and_said() {
    let stage = Stage::new();
    let mut process = ProcessBuilder::standard(HostModel::default(), 4000, 1);
    process.anchor(1_000_000);
    process.thread(0).enqueue(
        2_000,
        3_000,
        &CommandSpec { flags: 0, ..CommandSpec::kernel(1, 1, 1) },
    );
    process.exit(30_000, 0);
    save(&process, &stage.join("t.clscope"));
    let output = stage.clscope().args(["export", "chrome"]).ended();
    assert!(
        output.status.success() && stderr(&output).contains("no device span"),
        "{}",
        stderr(&output)
    );
    let document: Value =
        serde_json::from_slice(&std::fs::read(stage.join("t.json")).unwrap()).unwrap();
    check(&document);
    assert_eq!(named(&document, "clEnqueueNDRangeKernel").len(), 1);
}

#[test]
fn every_cut_of_a_trace_still_exports_to_a_valid_document() {
    let stage = Stage::new();
    let mut process = small();
    process.in_ring = true;
    let directory = stage.join("t.clscope");
    save(&process, &directory);
    for ending in ["defs", "ring"] {
        let path = directory.join(format!("4000-0.{ending}"));
        let whole = std::fs::read(&path).unwrap();
        for part in 1..8 {
            std::fs::write(&path, &whole[..whole.len() * part / 8]).unwrap();
            check(&export(&stage, &["t.clscope"]));
        }
        std::fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn launches_that_were_not_sampled_have_no_span_and_say_so() {
    let stage = Stage::new();
    let mut process = ProcessBuilder::standard(HostModel::default(), 4000, 1);
    let raw = HostModel::default().raw;
    process.anchor(1_000_000);
    process.thread(0).enqueue(2_000, 3_000, &CommandSpec::sampled(1, 1, 1, 0.25, true));
    process.thread(0).enqueue(4_000, 5_000, &CommandSpec::sampled(2, 1, 1, 0.25, false));
    process.thread(0).timing(20_000, 1, [raw + 2_500, raw + 3_000, raw + 5_000, raw + 9_000]);
    process.exit(30_000, 0);
    save(&process, &stage.join("t.clscope"));
    let output = stage.clscope().args(["export", "chrome"]).ended();
    assert!(
        stderr(&output).contains("1 launches were counted and not timed"),
        "{}",
        stderr(&output)
    );
    let document: Value =
        serde_json::from_slice(&std::fs::read(stage.join("t.json")).unwrap()).unwrap();
    check(&document);
    assert_eq!(
        (document["otherData"]["not_sampled"].as_u64(), named(&document, "matmul").len()),
        (Some(1), 1)
    );
    let calls = named(&document, "clEnqueueNDRangeKernel");
    let told: Vec<bool> = calls.iter().map(|c| c["args"]["device_time"].is_string()).collect();
    assert_eq!(told, [false, true]);
    // The probability is told of the launch that stands for others.
    let span = named(&document, "matmul")[0];
    assert_eq!(span["args"]["sampling_probability"].as_f64(), Some(0.25));
    assert!(calls[1]["args"].get("sampling_probability").is_none());
    assert!(calls[1]["args"].get("flags").is_none(), "a probability is no flags");
}

#[test]
fn a_failed_export_leaves_no_file() {
    let stage = Stage::new();
    let mut process = small();
    process.exit(30_000, 0);
    save(&process, &stage.join("t.clscope"));
    for (arguments, told) in [
        (&["t.clscope", "-o", "/proc/t.json"][..], "/proc/t.json"),
        (&["none.clscope"], "none.clscope"),
        (&["t.clscope", "-o", "no/such/folder.json"], "folder.json"),
    ] {
        let output = stage.clscope().args(["export", "chrome"]).args(arguments).ended();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            stderr(&output).starts_with("clscope: ") && stderr(&output).contains(told),
            "{}",
            stderr(&output)
        );
    }
    let left: Vec<_> = std::fs::read_dir(stage.path())
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .filter(|n| n.to_str().unwrap().contains("json"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_reader_that_stops_early_ends_the_export_quietly() {
    use std::os::unix::process::ExitStatusExt;
    let stage = Stage::new();
    let mut process = ProcessBuilder::standard(HostModel::default(), 4000, 1);
    process.anchor(1_000_000_000);
    for i in 0..20_000 {
        process.thread(0).plain(function::SET_ARG, i * 100, i * 100 + 50, 0, 1);
    }
    save(&process, &stage.join("t.clscope"));
    let mut command = stage.clscope();
    command
        .args(["export", "chrome", "-o", "-"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.begin();
    child.some(Stream::Out);
    child.close(Stream::Out);
    let output = child.output();
    assert_eq!((output.status.signal(), stderr(&output).as_str()), (Some(libc::SIGPIPE), ""));
}

// Keeps the flag that these traces rely on in view: a command is awaited only if its time was asked
// for.
#[test]
fn builders_ask_for_times() {
    assert_eq!(CommandSpec::kernel(1, 1, 1).flags & flag::TIMED, flag::TIMED);
}

#[test]
fn what_is_missing_is_in_the_file_and_in_the_dump() {
    let stage = Stage::new();
    let mut p = ProcessBuilder::standard(HostModel::default(), 9, 1);
    p.thread(0)
        .enqueue(10_000, 11_000, &CommandSpec::kernel(1, 1, 1))
        .plain(function::SET_ARG, 12_000, 12_100, 1, 1)
        .dropped(13_000, 17, DropReason::WriteFailed);
    p.exit(20_000, 1);
    save(&p, &stage.join("t.clscope"));
    let document = export(&stage, &["t"]);
    let warnings: Vec<&str> = document["otherData"]["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_str().unwrap())
        .collect();
    let dump = stderr(&stage.clscope().args(["dump", "t"]).ended());
    for wanted in ["17 records dropped", "1 command without an end"] {
        assert!(warnings.iter().any(|w| w.contains(wanted)), "{warnings:?}");
        assert!(dump.contains(wanted), "{dump}");
    }
}

/// Flame graphs have no place for what is wrong with a trace.
#[test]
fn flame_graphs_of_a_killed_or_cut_run_are_told_of_beside() {
    let stage = Stage::new();
    let mut whole = small();
    whole.exit(30_000, 0);
    save(&whole, &stage.join("whole"));
    save(&small(), &stage.join("killed"));
    save(&whole, &stage.join("cut"));
    let defs = stage.join("cut/4000-0.defs");
    let bytes = std::fs::read(&defs).unwrap();
    std::fs::write(&defs, &bytes[..bytes.len() - 5]).unwrap();
    for format in ["folded", "speedscope", "pprof"] {
        let told = |trace: &str| {
            let output = stage
                .clscope()
                .args(["export", format, trace, "-o", &format!("{trace}.x")])
                .ended();
            assert!(output.status.success(), "{format} {trace}: {}", stderr(&output));
            stderr(&output)
        };
        assert!(!told("whole").contains("warning"), "{format}: {}", told("whole"));
        let killed = told("killed");
        assert!(
            killed.contains("warning: ") && killed.contains("did not end in order"),
            "{killed}"
        );
        let cut = told("cut");
        assert!(cut.contains("bytes of the definitions are torn"), "{format}: {cut}");
    }
}

/// Files and messages call a weight what the option calls it.
#[test]
fn weights_have_one_name_each() {
    let stage = Stage::new();
    let mut none = ProcessBuilder::standard(HostModel::default(), 4000, 1);
    none.anchor(1_000_000);
    none.thread(0).plain(function::FINISH, 1_000, 2_000, 0, 1);
    none.exit(30_000, 0);
    save(&none, &stage.join("none"));
    let mut whole = small();
    whole.exit(30_000, 0);
    save(&whole, &stage.join("whole"));
    for weight in ["time", "energy", "count", "bytes"] {
        for format in ["folded", "speedscope", "pprof"] {
            let export = ["export", format, "none", "--weight", weight, "-o", "x"];
            let output = stage.clscope().args(export).ended();
            assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            let told = format!("cannot weigh none by {weight}: ");
            assert!(stderr(&output).contains(&told), "{format}: {}", stderr(&output));
        }
    }
    let export = ["export", "speedscope", "whole", "--weight", "count", "-o", "-"];
    let file: Value = serde_json::from_str(&stdout(&stage.clscope().args(export).ended())).unwrap();
    let profiles = file["profiles"].as_array().unwrap();
    let active = &profiles[file["activeProfileIndex"].as_u64().unwrap() as usize];
    assert_eq!(active["name"], "count");
    assert_eq!(profiles[0]["name"], "time");
    let export = ["export", "pprof", "whole", "-o", "whole.pb.gz"];
    assert!(stage.clscope().args(export).ended().status.success());
    let packed = std::fs::File::open(stage.join("whole.pb.gz")).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    for name in ["\x04time", "\x06energy", "\x05count", "\x05bytes"] {
        let found = bytes.windows(name.len()).any(|part| part == name.as_bytes());
        assert!(found, "{name:?} is a string of the profile");
    }
}
