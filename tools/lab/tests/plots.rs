//! Every plot, from made-up results: drawn where its data is there, whole, and of numbers alone.

use clscope_lab::output::plot::{page, plots};
use clscope_microbench::cl::{DeviceFacts, DeviceKind};
use clscope_microbench::results::{CaseResult, Figure, Finding, Results, SCHEMA, Status};
use clscope_microbench::stats::Interval;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn device() -> DeviceFacts {
    DeviceFacts {
        name: "a device".to_owned(),
        driver: "1".to_owned(),
        kind: DeviceKind::Gpu,
        compute_units: 4,
        max_group: 256,
        ..DeviceFacts::default()
    }
}

fn case(
    suite: &'static str,
    parameters: &[(&'static str, Value)],
    figures: &[(&str, f64)],
) -> CaseResult {
    // An interval that is not known must not reach the picture.
    let figure = |&(name, value): &(&str, f64)| {
        Figure::new(name, "u", Interval::symmetric(value, f64::INFINITY))
    };
    CaseResult {
        id: format!("{suite}/{parameters:?}"),
        suite,
        parameters: BTreeMap::from_iter(parameters.iter().cloned()),
        swept: None,
        status: Status::Measured,
        reason: None,
        build_log: None,
        timing: None,
        figures: figures.iter().map(figure).collect(),
        notes: Vec::new(),
        series: Vec::new(),
        counted: None,
    }
}

fn results() -> Results {
    let mut cases = Vec::new();
    for n in [1, 2, 4] {
        let x = f64::from(n);
        cases.push(case("flop", &[("groups", json!(n))], &[("rate", x)]));
        cases.push(case(
            "flop",
            &[("type", json!("float")), ("shape", json!("private"))],
            &[("rate", 1000.0 * x)],
        ));
        let power = [("type", json!("float")), ("operation", json!("fma")), ("width", json!(n))];
        cases.push(case("power", &power, &[("power", 100.0 + x), ("efficiency", x)]));
        cases.push(case(
            "memory",
            &[("pattern", json!("copy")), ("width", json!(n))],
            &[("bandwidth", 100.0 * x)],
        ));
        let transfer = [
            ("memory", json!("pinned")),
            ("direction", json!("to_host")),
            ("bytes", json!(1 << (4 * n))),
        ];
        cases.push(case("transfer", &transfer, &[("time", 1000.0 * x)]));
        for axis in ["groups", "lanes"] {
            cases.push(case(
                "classes",
                &[("sweep", json!(axis)), (axis, json!(n))],
                &[("power", 50.0 * x)],
            ));
        }
        cases.push(case(
            "classes",
            &[("class", json!("local"))],
            &[("dynamic_energy_per_instruction", x)],
        ));
        let chain = [("kind", json!("stream")), ("ilp", json!(1))];
        cases.push(case(
            "latency",
            &chain,
            &[("items_per_unit", 32.0 * x), ("latency", 100.0 * x), ("throughput", 1.0 / x)],
        ));
        let alpha = [("kind", json!("stream")), ("sweep", json!("alpha")), ("alpha", json!(n))];
        cases.push(case("latency", &alpha, &[("latency", 100.0 * x)]));
        for sweep in ["groups", "waves", "group_size", "registers", "vector_int", "split_float"] {
            cases.push(case(
                "structure",
                &[("sweep", json!(sweep)), ("at", json!(n))],
                &[("time_per_statement", x)],
            ));
        }
    }
    let step = Figure::new("at", "groups", Interval::estimated(2.5, 2.0, 3.0));
    let finding = Finding {
        name: "structure/waves/step".to_owned(),
        text: "a step".to_owned(),
        figures: vec![step],
        confidence: Some(0.999),
        method: "a test",
    };
    Results {
        schema: SCHEMA,
        version: "0",
        device: device(),
        settings: BTreeMap::new(),
        cases,
        findings: vec![finding],
        power_source: "none".to_owned(),
        interrupted: false,
        meter: Vec::new(),
    }
}

#[test]
fn every_plot_is_drawn_from_its_data() {
    let results = results();
    let plots = plots(&results).expect("draws");
    let names: Vec<&str> = plots.iter().map(|p| p.name.as_str()).collect();
    let all = [
        "throughput",
        "roofline",
        "watts",
        "efficiency",
        "memory",
        "transfer",
        "power_groups",
        "power_lanes",
        "latency",
        "concurrency",
        "contention",
        "cusp",
        "groups",
        "waves",
        "group_size",
        "registers",
        "vectors",
        "pairs",
        "energy",
    ];
    assert_eq!(names, all);
    for plot in &plots {
        assert!(
            plot.svg.starts_with("<svg") && plot.svg.trim_end().ends_with("</svg>"),
            "{}",
            plot.name
        );
        assert!(
            plot.svg.contains(&plot.title) && plot.svg.contains("a device, driver 1"),
            "{}",
            plot.name
        );
        assert!(!plot.svg.contains("NaN") && !plot.svg.contains("inf"), "{}", plot.name);
    }
    // Only the sweep that has a change point has a mark: dashes are many short paths.
    let dashes = |name: &str| {
        plots.iter().find(|p| p.name == name).map_or(0, |p| p.svg.matches("#6E6E6E").count())
    };
    assert!(
        dashes("waves") > dashes("registers") + 10,
        "{} {}",
        dashes("waves"),
        dashes("registers")
    );
    let page = page(&results, &plots);
    assert!(all.iter().all(|name| page.contains(&format!("<figure id=\"{name}\">"))));
}

#[test]
fn without_data_there_is_no_plot() {
    let empty = Results { cases: Vec::new(), ..results() };
    assert!(plots(&empty).expect("nothing to draw").is_empty());
}
