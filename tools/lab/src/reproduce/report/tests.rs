//! Numbers of documents beside ours, from results that are written here.

use super::seen::Seen;
use super::*;
use crate::reproduce::{Ours, Per, Pick, find};
use crate::sweep::{Axis, Coordinate, Place as At};
use clscope_microbench::cl::DeviceKind;
use clscope_microbench::results::{CaseResult, Timing};
use clscope_microbench::stats::{Interval, summarise};
use serde_json::json;
use std::collections::BTreeMap;

/// A small GPU of nobody's.
pub(in crate::reproduce) fn device() -> DeviceFacts {
    DeviceFacts {
        name: "a device".to_owned(),
        vendor: String::new(),
        platform: "a platform".to_owned(),
        version: String::new(),
        driver: "1".to_owned(),
        kind: DeviceKind::Gpu,
        compute_units: 4,
        max_clock_mhz: None,
        max_group: 256,
        global_bytes: 1 << 34,
        largest_buffer: 1 << 32,
        local_bytes: 0,
        cache_bytes: 0,
        has_half: false,
        has_double: false,
        has_fma: false,
        preferred_float_width: 1,
        shares_host_memory: false,
        pci: None,
        nv_capability: None,
        nv_warp: None,
        intel_units: None,
        extensions: String::new(),
    }
}

fn point(blocks: usize, width: usize, figure: &str, value: f64) -> CaseResult {
    let at = |axis, n: usize| Coordinate { axis, value: json!(n) };
    CaseResult {
        id: format!("flop/float/mad@{blocks},{width}"),
        suite: "flop",
        parameters: BTreeMap::new(),
        swept: Some(At {
            case: "flop/float/mad".to_owned(),
            at: vec![at(Axis::Blocks, blocks), at(Axis::Width, width)],
        }),
        status: Status::Measured,
        reason: None,
        build_log: None,
        timing: Some(Timing {
            groups: blocks,
            group_size: 32,
            trips: 1,
            time_ns: summarise(&[1.0, 2.0]).unwrap(),
            warm_up: 0,
            private_bytes: None,
            verified: "",
        }),
        figures: vec![Figure::new(figure, "GFLOP/s", Interval::symmetric(value, 0.5))],
        notes: Vec::new(),
        series: Vec::new(),
        counted: None,
    }
}

pub(in crate::reproduce) fn results(cases: Vec<CaseResult>) -> Results {
    Results {
        schema: clscope_microbench::results::SCHEMA,
        version: "0",
        device: device(),
        settings: BTreeMap::new(),
        cases,
        findings: vec![Finding::new(
            "latency/add",
            String::new(),
            vec![Figure::new("latency_cycles", "cycles", Interval::symmetric(4.0, 0.1))],
            "",
        )],
        power_source: "none here".to_owned(),
        meter: Vec::new(),
        interrupted: false,
    }
}

fn row(ours: Ours) -> Row {
    Row { what: "", unit: "", printed: &[], ours, times: 1.0, per: Per::Device }
}

const RATE: Pick = Pick { figure: "rate", case: "", at: &[], units: None };
const WIDE: Pick = Pick { figure: "rate", case: "/mad", at: &[(Axis::Width, "4")], units: None };

fn ours(of: Ours, per: Per, times: f64) -> Result<f64, String> {
    let mut cases = Vec::new();
    for (blocks, rate) in [(1, 10.0), (2, 10.2), (3, 20.0)] {
        cases.push(point(blocks, 1, "rate", rate));
        cases.push(point(blocks, 4, "rate", 3.0 * rate));
    }
    let of = Row { per, times, ..row(of) };
    let results = results(cases);
    let none = Err("no grid".to_owned());
    Seen { results: &[&results] }.ours(&of, &none).map(|e| e.value)
}

#[test]
fn numbers_of_ours_by_table() {
    const FOUND: [&str; 2] = ["latency/add", "latency_cycles"];
    const ONE: Pick = Pick { at: &[(Axis::Width, "1")], ..RATE };
    for (of, per, times, want) in [
        (Ours::Most(RATE), Per::Device, 1.0, 60.0),
        (Ours::Least(RATE), Per::Device, 1.0, 10.0),
        (Ours::Most(ONE), Per::Unit, 1.0, 5.0),
        (Ours::Most(WIDE), Per::Warp, 32e-3, 0.06),
        (Ours::Ratio(WIDE, ONE), Per::Device, 1.0, 3.0),
        (Ours::Level(RATE), Per::Device, 1.0, 2.0),
        (Ours::Span("rate"), Per::Device, 1.0, 10.0),
        (Ours::Found(FOUND[0], FOUND[1]), Per::Device, 2.0, 8.0),
        (Ours::FoundRatio(FOUND, FOUND), Per::Device, 1.0, 1.0),
        (Ours::FoundDifference(FOUND, FOUND), Per::Device, 1.0, 0.0),
    ] {
        let got = ours(of, per, times).unwrap();
        assert!((got - want).abs() < 1e-12, "{of:?}: {got}");
    }
}

#[test]
fn what_is_not_there_has_its_reason() {
    let none = Pick { at: &[(Axis::Width, "16")], ..RATE };
    for (of, per, why) in [
        (Ours::Most(none), Per::Device, "no such point"),
        (
            Ours::Most(Pick { figure: "power", ..RATE }),
            Per::Device,
            "no power was read; sensor: none here",
        ),
        (Ours::Found("latency/add", "peak_per_cycle"), Per::Device, "no clock was read"),
        (Ours::Most(RATE), Per::Scheduler, "schedulers"),
        (Ours::Nothing("a data sheet"), Per::Device, "a data sheet"),
    ] {
        let got = ours(of, per, 1.0).unwrap_err();
        assert!(got.contains(why), "{got}");
    }
}

/// A figure over work-groups that stays level to the end of the sweep, and one that begins at 16.
#[test]
fn ends_of_sweeps_are_told_as_what_they_are() {
    let seen = |blocks: &[usize], rates: &[f64], of: Row| {
        let at = blocks.iter().zip(rates).map(|(b, rate)| point(*b, 1, "rate", *rate));
        let results = results(at.collect());
        let seen = Seen { results: &[&results] };
        (seen.ours(&of, &Err(String::new())), seen.compared(&of))
    };
    let level = row(Ours::Level(RATE));
    let ended = seen(&[1, 2, 4], &[10.0, 10.1, 20.0], level).0.unwrap();
    assert_eq!((ended.low, ended.value, ended.high), (2.0, 2.0, 2.0));
    let never = seen(&[1, 2, 4], &[10.0, 10.1, 10.2], level).0.unwrap();
    assert_eq!((never.low, never.value, never.high), (4.0, 4.0, f64::INFINITY));
    let span = row(Ours::Span("rate"));
    let (got, compared) = seen(&[1, 132], &[10.0, 50.0], span);
    assert_eq!(got.unwrap().value, 40.0);
    assert_eq!(compared.as_deref(), Some("132 against 1"));
    let (got, compared) = seen(&[16, 132], &[10.0, 50.0], span);
    assert!(got.unwrap_err().contains("16 to 132 were measured") && compared.is_none());
}

/// The document's 39 and 38 groups on 4 units are 78 and 76 on 8.
#[test]
fn groups_are_compared_in_proportion_to_the_units() {
    const fn pick(groups: &'static [(Axis, &'static str)]) -> Pick {
        Pick { at: groups, units: Some(2), ..RATE }
    }
    let ratio = Ours::Ratio(pick(&[(Axis::Blocks, "39")]), pick(&[(Axis::Blocks, "38")]));
    let results = results(vec![point(76, 1, "rate", 10.0), point(78, 1, "rate", 15.0)]);
    let seen = Seen { results: &[&results] };
    let of = row(ratio);
    assert_eq!(seen.ours(&of, &Err(String::new())).unwrap().value, 1.5, "4 units, twice 2");
    assert_eq!(seen.compared(&of).as_deref(), Some("78 against 76 work-groups"));
}

/// A device without fma has the numbers of mad, and says so.
#[test]
fn mad_stands_beside_the_numbers_of_the_thesis() {
    let mut case = point(1, 1, "rate", 7.0);
    case.id = case.id.replace("flop/float/mad", "flop/private/float/mad/scalar");
    let report = Report::evaluate(find("000/fig4.4").unwrap(), &[&results(vec![case])]);
    assert_eq!(report.numbers[0].here.map(|e| e.value), Some(7.0), "{:?}", report.numbers);
    assert!(report.notes[0].contains("no single FMA"), "{:?}", report.notes);
}

#[test]
fn curves_have_the_axes_of_the_document() {
    let cases = || [1, 16, 2].map(|w| [3, 1].map(|b| point(b, w, "rate", (b * w) as f64))).concat();
    let part = results(cases());
    let of = find("000/fig4.7b").unwrap();
    let report = Report::evaluate(of, &[&part]);
    assert_eq!((report.state, report.x), (State::Measured, Some("work-items")));
    assert_eq!(report.y.as_deref(), Some("rate, GFLOP/s"));
    let names: Vec<&str> = report.curves.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["width 1", "width 2", "width 16"], "as numbers rise");
    let xs: Vec<f64> = report.curves[2].points.iter().map(|p| p.x).collect();
    assert_eq!(xs, [32.0, 96.0], "items of one and of three groups of 32");
    // The document's device and number stand beside ours.
    let number = &report.numbers[0];
    assert_eq!(number.printed, [Printed { device: "HD Graphics 620", value: Some(399.02) }]);
    assert!(number.here.is_none() && number.reason.is_some(), "no case is called /float/mad/");
    let all = together(&report, &[&part, &part]).unwrap();
    assert_eq!(all.cases.len(), 6, "each point once");
    let told = all.findings.iter().find(|f| f.name == "reproduce/000/fig4.7b/1").unwrap();
    assert!(told.text.contains("399.0 GFLOP/s (HD Graphics 620)"), "{}", told.text);
}

#[test]
fn states_follow_from_the_cases() {
    let of = find("000/fig4.4").unwrap();
    let state = |status, interrupted| {
        let mut case = point(1, 1, "rate", 1.0);
        if status != Status::Measured {
            case.figures.clear();
            case.reason = Some("why not".to_owned());
        }
        case.status = status;
        let report = Report::evaluate(of, &[&Results { interrupted, ..results(vec![case]) }]);
        (report.state, report.reason.unwrap_or_default())
    };
    assert_eq!(state(Status::Measured, false).0, State::Measured);
    assert_eq!(state(Status::Measured, true).0, State::CutShort);
    assert_eq!(state(Status::NotAvailable, false), (State::NotAvailable, "why not".to_owned()));
    assert_eq!(state(Status::Wrong, false), (State::Failed, "1 of 1 cases: why not".to_owned()));
}

/// Of a device of 4 units whose groups take 1, 1, 2, 2 turns of time at 1 to 4 a unit; one point is
/// measured a tenth below.
#[test]
fn the_saw_tooth_is_compared_up_to_four_groups_a_unit() {
    let worst = |cases: &[CaseResult], over| {
        let results = results(cases.to_vec());
        let of = Row { ..row(Ours::SawTooth { figure: "rate", over }) };
        Seen { results: &[&results] }.ours(&of, &Err(String::new())).map(|e| e.value)
    };
    let mut cases = Vec::new();
    for groups in 1..=20usize {
        let turns = groups.div_ceil(8) as f64;
        let low = if groups == 14 { 0.9 } else { 1.0 };
        // Beyond four groups a unit nothing is asked.
        let more = if groups > 16 { 3.0 } else { 1.0 };
        for width in [1, 4] {
            let of = point(groups, width, "rate", low * more * groups as f64 / turns);
            cases.push(of);
        }
    }
    let near = |got: Result<f64, String>, want: f64| {
        assert!((got.clone().unwrap() / want - 1.0).abs() < 1e-9, "{got:?}");
    };
    near(worst(&cases, true), 1.0 / 0.9);
    near(worst(&cases, false), 1.0);
    let few: Vec<CaseResult> = cases.iter().take(8).cloned().collect();
    assert!(worst(&few, true).unwrap_err().contains("more work-groups than compute units"));
}

/// A sensor's advice stands once below a table, not in each of its cells.
#[test]
fn reasons_of_several_numbers_are_said_once() {
    let none = Report::evaluate(find("004/tab6.1").unwrap(), &[&results(Vec::new())]);
    assert!(none.numbers.len() > 10 && none.numbers.iter().all(|n| n.reason.is_some()));
    assert_eq!(none.reasons().len(), 1, "{:?}", none.reasons());
    let one =
        Report::evaluate(find("000/fig4.4").unwrap(), &[&results(vec![point(1, 1, "rate", 1.0)])]);
    let mut all: Vec<&str> = one.numbers.iter().filter_map(|n| n.reason.as_deref()).collect();
    all.dedup();
    assert_eq!(one.reasons(), all);
}
