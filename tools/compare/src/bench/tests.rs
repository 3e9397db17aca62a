//! Outcomes on pairs of results that are written here figure by figure.

use super::*;
use serde_json::json;

fn figure(name: &str, unit: &str, value: f64, half: f64) -> serde_json::Value {
    json!({"name": name, "unit": unit, "value": value, "low": value - half, "high": value + half})
}

fn case(id: &str, figures: Vec<serde_json::Value>) -> serde_json::Value {
    json!({"id": id, "suite": "flop", "parameters": {"width": 1}, "status": "measured",
        "timing": {"groups": 4, "group_size": 64}, "figures": figures})
}

fn run(cases: Vec<serde_json::Value>) -> Run {
    let document = json!({
        "schema": "clscope-bench/1", "version": "0", "interrupted": false, "power_source": "none",
        "device": {"name": "d", "platform": "p", "driver": "1"}, "settings": {"full": false},
        "cases": cases, "findings": [{"name": "f", "figures": [figure("at", "groups", 4.0, 0.0)]}],
    });
    Run::read("a.json", document.to_string().as_bytes()).unwrap()
}

fn row<'d>(diff: &'d Diff, figure: &str) -> &'d Row {
    diff.rows.iter().find(|r| r.figure.as_deref() == Some(figure)).expect(figure)
}

#[test]
fn what_is_worse_follows_from_the_unit() {
    let all = |rate, time, watts| {
        run(vec![case(
            "c",
            vec![
                figure("rate", "GFLOP/s", rate, 0.1),
                figure("time", "ns", time, 0.1),
                figure("power", "W", watts, 0.1),
                figure("share_of_peak", "%", rate, 0.1),
            ],
        )])
    };
    let base = [all(100.0, 100.0, 100.0)];
    let diff = Diff::new(&base, &[all(80.0, 130.0, 150.0)], Some(0.03));
    for (name, worse) in [("rate", true), ("time", true), ("power", false), ("share_of_peak", true)]
    {
        assert_eq!((row(&diff, name).worse, row(&diff, name).breaks), (worse, worse), "{name}");
    }
    assert_eq!(row(&diff, "power").outcome, Outcome::More);
    assert_eq!(row(&diff, "at").outcome, Outcome::Same);
    let better = Diff::new(&base, &[all(130.0, 80.0, 50.0)], Some(0.03));
    assert!(better.rows.iter().all(|r| !r.worse && !r.breaks));
    // Without a limit nothing breaks one; beyond a wider one neither.
    assert_eq!(Diff::new(&base, &[all(80.0, 130.0, 150.0)], None).broken().count(), 0);
    assert_eq!(Diff::new(&base, &[all(80.0, 130.0, 150.0)], Some(0.5)).broken().count(), 0);
}

#[test]
fn a_change_that_the_intervals_do_not_bear_out_breaks_no_limit() {
    let of = |value, half| run(vec![case("c", vec![figure("rate", "GB/s", value, half)])]);
    let diff = Diff::new(&[of(100.0, 20.0)], &[of(90.0, 20.0)], Some(0.03));
    assert!(diff.broken().next().is_none());
    assert_eq!(row(&diff, "rate").outcome, Outcome::Unclear);
    let sure = Diff::new(&[of(100.0, 0.1)], &[of(90.0, 0.1)], Some(0.03));
    assert_eq!(sure.broken().count(), 1);
    // The interval holds the change, and is wider than the change of the estimates is uncertain.
    let change = row(&sure, "rate").change.unwrap();
    assert!((change.value + 0.1).abs() < 1e-9 && change.low < -0.1 && change.high < 0.0);
}

#[test]
fn what_cannot_be_compared_is_named_with_the_reason() {
    let open = json!({"name": "open", "unit": "W", "value": 1.0, "low": null, "high": null});
    let unknown = json!({"name": "unknown", "unit": "W", "value": null, "low": null, "high": null});
    let base = run(vec![
        case(
            "c",
            vec![
                figure("unit", "ns", 1.0, 0.1),
                figure("zero", "W", 0.0, 0.1),
                figure("gone", "W", 1.0, 0.1),
                open.clone(),
                unknown.clone(),
            ],
        ),
        case("twice", vec![figure("t", "ns", 1.0, 0.1), figure("t", "ns", 2.0, 0.1)]),
        case("bad", vec![figure("b", "ns", 1.0, 0.1)]),
    ]);
    let mut other = case("p", vec![figure("p", "ns", 1.0, 0.1)]);
    other["parameters"]["width"] = json!(2);
    let new = run(vec![
        case(
            "c",
            vec![
                figure("unit", "us", 1.0, 0.1),
                figure("zero", "W", 0.0, 0.1),
                figure("added", "W", 1.0, 0.1),
                open,
                unknown,
            ],
        ),
        case("twice", vec![figure("t", "ns", 1.0, 0.1)]),
        json!({"id": "bad", "status": "wrong", "reason": "wrong result: 4", "figures": []}),
        other,
    ]);
    let diff = Diff::new(std::slice::from_ref(&base), &[new], Some(0.03));
    for (name, outcome, why) in [
        ("unit", Outcome::NotJudged, "units differ: ns | us"),
        ("zero", Outcome::NotJudged, "not above 0"),
        ("open", Outcome::NotJudged, "no end"),
        ("unknown", Outcome::NotJudged, "not known"),
        ("gone", Outcome::Gone, "without this figure"),
        ("added", Outcome::Added, "in the base"),
        ("t", Outcome::NotJudged, "several t of twice"),
        ("b", Outcome::Gone, "wrong result: 4"),
        ("p", Outcome::Added, "not run"),
    ] {
        let row = row(&diff, name);
        let said = row.why.as_deref().unwrap_or_default();
        assert!(row.outcome == outcome && said.contains(why), "{name}: {row:?}");
        assert!(!row.breaks, "{name}");
    }
    // The case as a whole breaks the limit: it is wrong now.
    let broken: Vec<&str> = diff.broken().map(|r| r.id.as_str()).collect();
    assert_eq!(broken, ["bad"]);
    let mut elsewhere = base.clone();
    elsewhere.cases.get_mut("c").unwrap().parameters.insert("width".into(), json!(2));
    let diff = Diff::new(&[base], &[elsewhere], None);
    assert!(row(&diff, "unit").why.as_deref().unwrap().contains("parameters differ"));
}

#[test]
fn documents_of_other_versions_and_of_no_kind_are_refused() {
    let refused = |text: &str| Run::read("a", text.as_bytes()).unwrap_err().to_string();
    assert!(refused("{\"schema\": \"clscope-bench/99\"}").contains("clscope-bench/99"));
    for text in ["", "{}", "[]", "{\"schema\": \"clscope-bench/1\"}", &"[".repeat(100_000)] {
        assert!(refused(text).contains("no results of `clscope-lab`"));
    }
}

#[test]
fn what_differs_between_the_sides_is_told_first() {
    let base = run(Vec::new());
    let mut new = base.clone();
    new.origin.device = "e".into();
    new.origin.driver = "2".into();
    new.settings.insert("full".into(), json!(true));
    let diff = Diff::new(&[base], &[new], None);
    let what: Vec<&str> = diff.differences.iter().map(|d| d.what.as_str()).collect();
    assert_eq!(what, ["device", "driver", "setting full"]);
    assert!(diff.notes.iter().any(|n| n.contains("0.75 %")));
    // A processor runs other programs, too.
    let busy = Run { is_processor: true, ..run(Vec::new()) };
    let side = std::slice::from_ref(&busy);
    let diff = Diff::new(side, side, None);
    assert!(diff.notes.iter().any(|n| n.contains(": 5 % is assumed")), "{:?}", diff.notes);
}
