//! The report's text against a committed golden, and its JSON against the text's figures.

use super::*;
use clscope_analysis::Trace;
use clscope_analysis::stats::Stats;
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, ProcessBytes, function};
use clscope_profile::energy::activity::{self, Grouping};
use clscope_profile::sites::Sites;
use clscope_trace::Untimed;
use clscope_trace::record::CommandKind;

/// Two launches and a transfer per round, a failing call, a command without time, one that never
/// ends.
pub(super) fn sample() -> ProcessBytes {
    let host = HostModel::default();
    let mut p = ProcessBuilder::standard(host, 4242, 2);
    for i in 0..100u64 {
        let (t, id) = (10_000 + i * 100_000, i * 4 + 1);
        let stamp =
            |queued, submit, start, end| [queued, submit, start, end].map(|ns| host.raw + t + ns);
        p.thread(0)
            .plain(function::SET_ARG, t, t + 120 + i, 1 | (8 << 8), 1)
            .enqueue(
                t + 300,
                t + 1_300,
                &CommandSpec::transfer(id, 1, CommandKind::WriteBuffer, 1 << 16),
            )
            .enqueue(t + 1_500, t + 2_500, &CommandSpec::kernel(id + 1, 1, 1))
            .enqueue(t + 2_700, t + 3_700, &CommandSpec::kernel(id + 2, 1, 2))
            .plain(function::FINISH, t + 4_000, t + 90_000, 0, 1)
            .timing(t + 90_100, id, stamp(700, 1_400, 5_000, 12_000 + i))
            .timing(t + 90_200, id + 1, stamp(1_900, 3_000, 13_000, 50_000 + 10 * i))
            .timing(t + 90_300, id + 2, stamp(3_100, 4_000, 52_000, 88_000));
    }
    let end = 10_100_000;
    p.thread(1).call(function::CREATE_BUFFER, end, end + 500, -61, &[0, 1, 1 << 40]);
    p.thread(1).enqueue(end + 600, end + 900, &CommandSpec::kernel(900, 2, 1)).untimed(
        end + 1_000,
        900,
        Untimed::QueueReleased,
    );
    p.thread(1).enqueue(
        end + 1_100,
        end + 1_400,
        &CommandSpec::transfer(901, 2, CommandKind::ReadBuffer, 4096),
    );
    p.exit(10_200_000, 1);
    p.build()
}

pub(super) fn report(bytes: &ProcessBytes) -> Report {
    let trace = Trace::open(vec![bytes.files("app.clscope/4242-0")]);
    let alignment = trace.align();
    let stats = Stats::of_trace(&trace, &alignment);
    Report::new(
        vec!["app.clscope".into()],
        &trace,
        &alignment,
        &stats,
        Grouping { by: activity::By::Kernel, sites: &Sites::default() },
    )
}

fn shown() -> Shown {
    Shown {
        sections: Section::ALL.to_vec(),
        most: 15,
        limited: false,
        pattern: None,
        names: Rc::default(),
        counters: Vec::new(),
        width: 100,
    }
}

/// Makes the answer of a report of these bytes anew.
pub(super) fn answer_anew(report: &mut Report, bytes: &ProcessBytes) {
    let trace = Trace::open(vec![bytes.files("app.clscope/4242-0")]);
    let stats = Stats::of_trace(&trace, &trace.align());
    report.answer_anew(&trace, &stats);
}

#[track_caller]
pub(super) fn golden(name: &str, text: &str) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/goldens");
    clscope_testing::golden(&folder.join(name), text);
}

#[test]
fn the_text_is_as_committed_and_fits_100_columns() {
    let report = report(&sample());
    let text = text::render(&report, &shown());
    golden("report.txt", &text);
    assert!(text.lines().all(|l| l.chars().count() <= 100));
    let findings: Vec<String> = report
        .issues
        .iter()
        .map(|i| format!("{} {} {}\n    {}\n", i.severity, i.code, i.text, i.remedy.unwrap_or("-")))
        .collect();
    golden("findings.txt", &findings.concat());
}

#[test]
fn csv_is_as_committed() {
    let mut out = Vec::new();
    csv(&report(&sample()), &shown(), &mut out).unwrap();
    golden("report.csv", std::str::from_utf8(&out).unwrap());
}

#[test]
fn json_holds_the_figures() {
    let json = serde_json::to_value(report(&sample())).unwrap();
    assert_eq!(json["schema"], clscope_profile::report::data::SCHEMA);
    assert_eq!(json["kernels"][0]["name"], "matmul");
    assert_eq!(
        (&json["kernels"][0]["count"], &json["kernels"][0]["untimed"]),
        (&101.into(), &1.into())
    );
    assert_eq!(
        json["kernels"][0]["time_ns"]["total"],
        (0..100).map(|i| 37_000 + 10 * i).sum::<u64>()
    );
    assert_eq!(json["transfers"][0]["bytes"], 6_553_600);
    assert_eq!(json["totals"]["errors"], 1);
    assert_eq!(
        json["transfers"][1]["time_ns"]["mean"],
        serde_json::Value::Null,
        "what has no time is null, not 0"
    );
}

#[test]
fn rows_are_sorted_and_filtered_as_asked() {
    let mut r = report(&sample());
    sort(&mut r, Sort::Name);
    assert!(r.functions.is_sorted_by(|a, b| a.name <= b.name));
    sort(&mut r, Sort::Count);
    assert!(r.functions.is_sorted_by(|a, b| a.calls >= b.calls));
    let only = Shown {
        sections: vec![Section::Kernels, Section::Functions],
        pattern: Some("mat*".into()),
        ..shown()
    };
    let text = text::render(&r, &only);
    assert!(text.contains("matmul") && !text.contains("reduce") && !text.contains("clFinish"));
}

#[test]
fn what_is_missing_is_said_above_the_figures() {
    let whole = sampled();
    let text = text::render(&report(&whole), &shown());
    assert!(text.contains("counts are exact") && !text.contains("records are missing"), "{text}");
    let mut cut = whole;
    cut.segment.truncate(cut.segment.len() - 100);
    let text = text::render(&report(&cut), &shown());
    assert!(
        !text.contains("counts are exact")
            && text.contains("records are missing: counts and totals are of what is there"),
        "{text}"
    );
}

/// No kernel, transfer or gap has a time: their sums are unknown, and no 0.
#[test]
fn what_was_not_timed_took_no_0_ns() {
    let mut p = ProcessBuilder::standard(HostModel::default(), 4242, 1);
    p.thread(0)
        .enqueue(10_000, 10_900, &CommandSpec::kernel(1, 1, 1))
        .enqueue(11_000, 11_900, &CommandSpec::transfer(2, 1, CommandKind::ReadBuffer, 4096))
        .untimed(20_000, 1, Untimed::QueueReleased)
        .untimed(20_000, 2, Untimed::QueueReleased);
    p.exit(50_000, 0);
    let text = text::render(&report(&p.build()), &shown());
    for wanted in
        ["Kernels by device time: 1 launch, none timed\n", "Transfers: 4.00KiB, none timed\n"]
    {
        assert!(text.contains(wanted), "{text}");
    }
    assert!(!text.contains(" 0ns"), "{text}");
    let queue = text.lines().skip_while(|l| !l.starts_with("Queues")).nth(2).unwrap();
    let unknown: Vec<&str> = queue.split_whitespace().take(9).collect();
    assert_eq!(unknown, ["2", "-", "-", "-", "-", "-", "-", "-", "-"], "{text}");
    assert!(queue.ends_with("queue 1: ReadBuffer"), "{text}");
}

#[test]
fn an_empty_trace_says_why_it_has_no_spans() {
    let mut p = ProcessBuilder::standard(HostModel::default(), 1, 1);
    p.exit(1_000, 0);
    let r = report(&p.build());
    assert!(
        r.issues.iter().any(|i| i.code == "no-device-spans" && i.text.contains("no OpenCL call"))
    );
    let text = text::render(&r, &shown());
    assert!(text.starts_with("clscope report of app.clscope\n  command"), "{text}");
}

/// 2000 launches of one kernel of which some are timed, 30 of another that are all timed; both with
/// a known span bias.
pub(super) fn sampled() -> ProcessBytes {
    let host = HostModel::default();
    let mut p = ProcessBuilder::standard(host, 4242, 1);
    if let Some(clscope_trace::defs::Def::Process(process)) = p.defs.first_mut() {
        process.device_timing = "sample".into();
        process.settings = vec!["CLSCOPE_BUDGET=2".into()];
    }
    p.define(clscope_trace::defs::Calibration {
        name: "span-bias-ns".into(),
        device: 1,
        value: 1_900.0,
        uncertainty: 100.0,
    });
    for i in 0..2_000u64 {
        let (t, id) = (10_000 + i * 20_000, i * 2 + 1);
        let stamps = |at: u64, ns: u64| {
            [at + 200, at + 600, at + 2_000, at + 2_000 + ns].map(|ns| host.raw + ns)
        };
        let timed = i < 32 || i % 40 == 7;
        let probability = if i < 32 { 1.0 } else { 0.025 };
        p.thread(0).enqueue(t, t + 900, &CommandSpec::sampled(id, 1, 1, probability, timed));
        if i < 30 {
            p.thread(0).enqueue(
                t + 1_000,
                t + 1_900,
                &CommandSpec::sampled(id + 1, 1, 2, 1.0, true),
            );
        }
        p.thread(0).plain(function::FINISH, t + 2_000, t + 18_000, 0, 1);
        if timed {
            p.thread(0).timing(t + 18_100, id, stamps(t, 5_000 + 37 * (i % 97)));
        }
        if i < 30 {
            p.thread(0).timing(t + 18_200, id + 1, stamps(t + 9_000, 3_000));
        }
    }
    p.exit(40_200_000, 0);
    p.build()
}

#[test]
fn estimates_are_marked_and_bias_is_stated_beside_the_figures() {
    let report = report(&sampled());
    let text = text::render(&report, &shown());
    golden("sampled.txt", &text);
    let json = serde_json::to_value(&report).unwrap();
    let matmul = &json["kernels"][0];
    assert_eq!(
        (&matmul["name"], &matmul["count"], &matmul["time_ns"]["count"]),
        (&"matmul".into(), &2000.into(), &81.into())
    );
    let truth: u64 = (0..2_000).map(|i| 5_000 + 37 * (i % 97)).sum();
    let total = &matmul["estimate"]["total_ns"];
    let (low, high) = (total["low"].as_f64().unwrap(), total["high"].as_f64().unwrap());
    assert!(low < truth as f64 && (truth as f64) < high, "{low} {truth} {high}");
    let (estimate, corrected) =
        (total["value"].as_f64().unwrap(), matmul["corrected_total_ns"]["value"].as_f64().unwrap());
    assert!(
        (estimate - corrected - 2_000.0 * 1_900.0).abs() < 1.0,
        "the correction stands beside the total, not in it"
    );
    assert_eq!(
        json["kernels"][1]["estimate"],
        serde_json::Value::Null,
        "what was all timed is exact"
    );
    assert_eq!(
        (&json["queues"][0]["busy_ns"], &json["queues"][0]["idle_ns"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    assert!(json["idle"].as_array().unwrap().is_empty(), "gaps between samples are no idleness");
    assert!(json["idle_absent"][0].as_str().unwrap().contains("Test Device are not known"));
    // The only queue's commands ran one by one: its device was busy for as long as they took.
    let device = &json["devices"][0];
    let busy = &device["busy_estimate_ns"];
    let (low, high) = (busy["low"].as_f64().unwrap(), busy["high"].as_f64().unwrap());
    let truth = (truth + 30 * 3_000) as f64;
    assert!(low < truth && truth < high && high < 1.1 * low, "{low} {truth} {high}");
    assert_eq!(
        (&device["busy_ns"], &device["busy_absent"]),
        (&serde_json::Value::Null, &serde_json::Value::Null)
    );
    let sampling = serde_json::json!({ "launches": 2030, "timed": 111, "left_out": 1919, "budget_percent": 2.0, "on_cpu_device": false });
    assert_eq!(json["sampling"], sampling);
}

#[test]
fn samples_of_a_cpu_are_warned_of() {
    let mut p = sampled();
    // The last definition of an id counts.
    clscope_trace::defs::encode(
        &clscope_trace::defs::Device { id: 1, device_type: 2, ..Default::default() }.into(),
        &mut p.defs,
    );
    let known = report(&p);
    assert!(known.sampling.as_ref().is_some_and(|s| s.on_cpu_device));
    let queue = clscope_trace::defs::Queue {
        id: 1,
        context: 1,
        device: 1,
        properties: 1,
        profiling_added: true,
    };
    clscope_trace::defs::encode(&queue.into(), &mut p.defs);
    let report = report(&p);
    let device = &report.devices[0];
    assert!(device.busy_ns.is_none() && device.busy_estimate_ns.is_none(), "{device:?}");
    assert!(device.busy_absent.as_ref().is_some_and(|why| why.contains("out-of-order")));
    let shown_text = text::render(&report, &shown());
    assert!(shown_text.contains("busy time is not known: an out-of-order queue"), "{shown_text}");
}

#[test]
fn waits_name_what_ran_meanwhile() {
    let host = HostModel::default();
    let mut p = ProcessBuilder::standard(host, 4242, 1);
    for (id, kernel, ns) in [(1, 1, 20_000), (2, 2, 5_000)] {
        let at = 10_000 + id * 100_000;
        p.thread(0).enqueue(at, at + 900, &CommandSpec::sampled(id, 1, kernel, 1.0, true));
        p.thread(0).plain(function::FINISH, at + 2_000, at + 42_000, 0, 1);
        // The recorder reads the times where the wait ends.
        p.thread(0).timing(
            at + 42_000,
            id,
            [at + 200, at + 600, at + 10_000, at + 10_000 + ns]
                .map(|t| HostModel::default().raw + t),
        );
    }
    p.exit(400_000, 0);
    let r = report(&p.build());
    let [wait] = &r.waits[..] else { panic!("{:?}", r.waits) };
    assert_eq!(
        (wait.function.name.as_str(), wait.function.time_ns.total, wait.share_of_waits),
        ("clFinish", 80_000, Some(1.0))
    );
    // Where the clocks stand is known to a fraction of a microsecond.
    let near = |ns: u64, truth: u64| ns.abs_diff(truth) <= 200;
    let [long, short] = &wait.waited_for[..] else { panic!("{:?}", wait.waited_for) };
    assert_eq!((long.name.as_str(), short.name.as_str()), ("matmul", "reduce"));
    assert!(
        near(long.ns, 20_000) && near(short.ns, 5_000) && near(wait.nothing_ns.unwrap(), 55_000),
        "{wait:?}"
    );
    let text = text::render(&r, &shown());
    assert!(text.contains("clFinish: matmul 25.0%, reduce 6.2%, no timed command 68.8%"), "{text}");
    let mut rows = Vec::new();
    csv(&r, &Shown { sections: vec![Section::Waits], ..shown() }, &mut rows).unwrap();
    assert!(String::from_utf8(rows).unwrap().contains("waits,clFinish,2,80000,matmul,"));
}
