//! The shape of results.json and results.csv, pinned by goldens: a change here is a change for
//! everybody who reads them. `UPDATE_GOLDENS=1` writes them anew.

use clscope_lab::output::csv::write_csv;
use clscope_lab::output::plot::{page, plots};
use clscope_lab::reproduce::{self, On, Report, Reported};
use clscope_microbench::cl::{DeviceFacts, DeviceKind};
use clscope_microbench::results::{CaseResult, Figure, Finding, Results, SCHEMA, Status, Timing};
use clscope_microbench::stats::{Interval, summarise};
use clscope_testing::schema;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::Path;

fn example() -> Results {
    let device = DeviceFacts {
        name: "a <device> & more".to_owned(),
        vendor: "a vendor".to_owned(),
        platform: "a platform".to_owned(),
        version: "OpenCL 3.0".to_owned(),
        driver: "1.2".to_owned(),
        kind: DeviceKind::Gpu,
        compute_units: 4,
        max_clock_mhz: Some(1000),
        max_group: 256,
        global_bytes: 1 << 30,
        largest_buffer: 1 << 28,
        local_bytes: 65536,
        cache_bytes: 1 << 20,
        has_half: false,
        has_double: true,
        has_fma: true,
        preferred_float_width: 1,
        shares_host_memory: true,
        pci: Some("0000:00:02.0".to_owned()),
        nv_capability: None,
        nv_warp: None,
        intel_units: Some(24),
        extensions: String::new(),
    };
    let timing = Timing {
        groups: 4,
        group_size: 256,
        trips: 100,
        time_ns: summarise(&[10.0, 11.0, 9.0]).expect("samples"),
        warm_up: 2,
        private_bytes: Some(0),
        verified: "a short launch",
    };
    let case = |id: &str, status| CaseResult {
        id: id.to_owned(),
        suite: "flop",
        parameters: BTreeMap::from([("groups", json!(4)), ("sweep", json!("groups"))]),
        swept: None,
        status,
        reason: None,
        build_log: None,
        timing: None,
        figures: Vec::new(),
        notes: Vec::new(),
        series: Vec::new(),
        counted: None,
    };
    let rate = |value| Figure::new("rate", "GFLOP/s", Interval::symmetric(value, 0.5));
    let one = Figure::new("power", "W", Interval::symmetric(1.5, f64::INFINITY));
    let measured = CaseResult {
        timing: Some(timing),
        figures: vec![rate(1.5), one],
        notes: vec!["held back by the power limit".to_owned()],
        series: Vec::new(),
        counted: None,
        ..case("flop/one", Status::Measured)
    };
    let more = CaseResult {
        parameters: BTreeMap::from([("groups", json!(8))]),
        figures: vec![rate(3.0)],
        ..case("flop/two", Status::Measured)
    };
    let missing = CaseResult {
        reason: Some("the device has no half arithmetic".to_owned()),
        build_log: Some("error: half".to_owned()),
        ..case("flop/half", Status::NotAvailable)
    };
    let wrong = CaseResult {
        reason: Some("wrong result: \"4\", not 5".to_owned()),
        ..case("flop/wrong", Status::Wrong)
    };
    Results {
        schema: SCHEMA,
        version: "0",
        device,
        settings: BTreeMap::from([("full", json!(false))]),
        cases: vec![measured, more, missing, wrong],
        findings: vec![Finding {
            name: "flop/saw_tooth".to_owned(),
            text: "repeats every 4 groups".to_owned(),
            figures: vec![Figure::new("period", "groups", Interval::symmetric(4.0, 0.0))],
            confidence: Some(0.999),
            method: "autocorrelation",
        }],
        power_source: "none".to_owned(),
        interrupted: true,
        meter: Vec::new(),
    }
}

#[track_caller]
fn golden(name: &str, got: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    clscope_testing::golden(&folder.join(name), got);
}

#[test]
fn json_keeps_its_shape() {
    golden("results.json", &(serde_json::to_string_pretty(&example()).expect("serialises") + "\n"));
}

/// `UPDATE_GOLDENS=1` writes it anew: raise the version where something changes its meaning or
/// goes.
#[test]
fn the_committed_schema_is_that_of_the_types_and_results_keep_to_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench.schema.json");
    schema::committed_type::<Results>(&path, SCHEMA);
    let mut results = serde_json::to_value(example()).expect("serialises");
    let breaches = schema::breaches(&path, &results);
    assert!(breaches.is_empty(), "{breaches:#?}");
    results["cases"][0].as_object_mut().expect("an object").remove("status");
    assert!(!schema::breaches(&path, &results).is_empty(), "the status is missed");
}

#[test]
fn the_committed_schema_of_experiments_is_that_of_the_types_and_they_keep_to_it() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reproduced.schema.json");
    schema::committed_type::<Reported>(&path, reproduce::SCHEMA);
    let part = example();
    let experiments: Vec<Report> =
        reproduce::all().map(|e| Report::evaluate(e, &[&part])).collect();
    let of = Reported {
        schema: reproduce::SCHEMA,
        version: "0",
        device: Some(On::describe(&part.device)),
        experiments,
        interrupted: false,
    };
    let mut of = serde_json::to_value(of).expect("serialises");
    let breaches = schema::breaches(&path, &of);
    assert!(breaches.is_empty(), "{breaches:#?}");
    of["experiments"][0].as_object_mut().expect("an object").remove("state");
    assert!(!schema::breaches(&path, &of).is_empty(), "the state is missed");
}

#[test]
fn csv_keeps_its_shape() {
    let mut csv = Vec::new();
    write_csv(&example(), &mut csv).expect("writes");
    golden("results.csv", &String::from_utf8(csv).expect("text"));
}

/// A run of many cases does not make a page that nobody can open; the page says where the rest is.
#[test]
fn the_page_stays_small() {
    let mut results = example();
    let one = results.cases[0].clone();
    results
        .cases
        .extend((0..40_000).map(|n| CaseResult { id: format!("flop/{n}"), ..one.clone() }));
    let page = page(&results, &plots(&example()).expect("draws"));
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
    assert!(page.contains("more cases are in results.csv") && page.ends_with("</body></html>\n"));
}

/// The page needs nothing from elsewhere, and names from drivers cannot break it.
#[test]
fn the_page_stands_alone() {
    let results = example();
    let plots = plots(&results).expect("draws");
    assert_eq!(plots.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["throughput"]);
    let page = page(&results, &plots);
    assert!(page.contains("a &lt;device&gt; &amp; more") && !page.contains("<device>"));
    let elsewhere = ["src=", "@import", "<script", "url(http"];
    assert!(elsewhere.iter().all(|word| !page.contains(word)));
    // Every link leads to a place of the page.
    let links: Vec<&str> =
        page.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert!(links.len() >= 5, "{links:?}");
    for link in links {
        let place = link.strip_prefix('#').expect(link);
        assert!(page.contains(&format!("id=\"{place}\"")), "{link}");
    }
    assert!(page.contains("name=\"viewport\""), "phones would shrink it");
    let order = ["<nav>", "id=\"findings\"", "id=\"plots\"", "id=\"figures\""];
    let places: Vec<usize> = order.iter().map(|word| page.find(word).expect(word)).collect();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("<svg") && page.contains("ended early") && page.contains("not known"));
}
