//! Models of latency hiding on grids of cases that one of them made.

use super::*;
use crate::reproduce::MAXWELL;
use crate::reproduce::report::tests::{device, results};
use crate::sweep::{Coordinate, Place as At};
use clscope_microbench::cl::DeviceFacts;
use clscope_microbench::results::Figure;
use serde_json::json;
use std::collections::BTreeMap;

/// A case of so many warps on each of 4 units at 1 GHz: turns a cycle and unit, cycles of a turn.
fn case(id: &str, alpha: Option<usize>, n: usize, turns: f64, latency: f64) -> CaseResult {
    let exact = |value| Interval::symmetric(value, 0.0);
    let swept = alpha.map(|a| At {
        case: id.to_owned(),
        at: vec![Coordinate { axis: Axis::Alpha, value: json!(a) }],
    });
    CaseResult {
        id: format!("{id}@{n}"),
        suite: "latency",
        parameters: BTreeMap::new(),
        swept,
        status: Status::Measured,
        reason: None,
        build_log: None,
        timing: None,
        figures: vec![
            Figure::new("throughput", "Gop/s", exact(turns * 32.0 * 4.0)),
            Figure::new("latency", "ns", exact(latency)),
            Figure::new("items_per_unit", "items", exact(32.0 * n as f64)),
        ],
        notes: Vec::new(),
        series: Vec::new(),
        counted: None,
    }
}

/// What a device would give that does exactly what the basic model says.
fn perfect() -> Vec<CaseResult> {
    let w = MAXWELL;
    let mut out = Vec::new();
    for n in [1, 2, 4, 8, 16, 18, 24, 32, 48, 64] {
        let warps = n as f64;
        let access = w.throughput(warps, 0.0);
        out.push(case("latency/stream/ilp1/filled32", None, n, access, warps / access));
        let add = (warps / w.add_latency).min(w.add_throughput);
        out.push(case("latency/add/ilp1/filled32", None, n, add, warps / add));
        for alpha in [0, 1, 8, 32, 64, 512] {
            let turns = w.throughput(warps, alpha as f64);
            out.push(case("latency/stream/ilp1/filled32", Some(alpha), n, turns, warps / turns));
        }
    }
    out
}

fn fitted(cases: Vec<CaseResult>) -> Result<Fitted, String> {
    let device = DeviceFacts { max_clock_mhz: Some(1000), ..device() };
    Fitted::fit(&[&Results { device, ..results(cases) }])
}

#[test]
fn a_device_of_the_basic_model_gives_its_parameters_and_the_errors_of_the_others() {
    let of = fitted(perfect()).unwrap();
    for (input, want) in [
        (Input::MemoryLatency, 368.0),
        (Input::MemoryThroughput, 0.0814),
        (Input::AddLatency, 6.0),
        (Input::AddThroughput, 4.0),
        (Input::IssueThroughput, 4.0),
    ] {
        let got = of.input(input).unwrap();
        assert!((got / want - 1.0).abs() < 1e-9, "{input:?}: {got}");
    }
    for over in [true, false] {
        let own = of.worst_of(Model::Basic, over, None).unwrap();
        assert!((own - 1.0).abs() < 1e-9, "{own}");
    }
    // Section 7.9: the models before are over by more than 1.7 between the extremes.
    for model in [Model::HongKim, Model::Overlap, Model::ZhangOwens, Model::Sim] {
        let over = of.worst_of(model, true, None).unwrap();
        assert!(over > 1.7, "{model:?}: {over}");
    }
    let at = of.worst().into_iter().find(|w| w.model == Model::Sim.name()).unwrap().over_at;
    assert!(at[0] > 1.0 && at[0] < 512.0, "at some alpha between: {at:?}");
    assert!(of.method.contains("clock 1000 MHz, stated"), "{}", of.method);
}

#[test]
fn curves_are_those_of_the_grid() {
    let of = fitted(perfect()).unwrap();
    let curves = of.estimates(&[Some(30)], &[Model::Basic, Model::HongKim]);
    let names: Vec<&str> = curves.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["measured, 32 additions", "Volkov 2016, basic", "Hong and Kim 2009"]);
    for (a, b) in curves[0].points.iter().zip(&curves[1].points) {
        assert!(a.x == b.x && (a.y.value / b.y.value - 1.0).abs() < 1e-9, "{a:?} {b:?}");
    }
    // In additions of work-items: no more than all that a unit can do.
    let most = curves[0].points.iter().map(|p| p.y.value).fold(0.0, f64::max);
    let all = of.lanes * of.inputs.workload.add_throughput;
    assert!((0.05 * all..=1.0001 * all).contains(&most), "{most} of {all}");
    // What is worst at one number of additions is no worse than what is worst at all.
    for model in [Model::HongKim, Model::Sim, Model::Basic] {
        let [all, some] = [None, Some(32)].map(|alpha| of.worst_of(model, true, alpha).unwrap());
        assert!(some <= all, "{}: {some} {all}", model.name());
    }
    let ratios = of.ratios(&[Model::Basic]);
    assert_eq!(ratios.len(), 2, "the largest and the smallest");
    let xs: Vec<f64> = ratios[0].points.iter().map(|p| p.x).collect();
    assert_eq!(xs, [1.0, 8.0, 32.0, 64.0, 512.0], "without additions there is no mix");
}

/// Accesses alone and additions alone are ends of the grid: a curve each, and what stands at the
/// most warps is in the document's units.
#[test]
fn ends_of_the_grid_are_instructions_of_one_kind() {
    let of = fitted(perfect()).unwrap();
    let models = [Model::Basic, Model::HuangRoundRobin];
    let curves = of.estimates(&[Some(0), None], &models);
    let names: Vec<&str> = curves.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names[0], "measured, accesses alone");
    assert_eq!(names[4], "Volkov 2016, basic, additions alone");
    let w = of.inputs.workload;
    let last = |n: usize| curves[n].points.last().unwrap().y.value;
    for (n, want) in [
        (0, 32.0 * w.memory_throughput),
        (1, 32.0 * w.memory_throughput),
        // Round-robin knows no limit of throughput (section 7.5: 341 additions on Maxwell).
        (2, 32.0 * 64.0 / w.memory_latency),
        (3, 32.0 * w.add_throughput),
        (4, 32.0 * w.add_throughput),
        (5, 32.0 * 64.0 / w.add_latency),
    ] {
        assert!((last(n) / want - 1.0).abs() < 1e-6, "{}: {} for {want}", names[n], last(n));
    }
    // 4 units at 1 GHz, 4 bytes an item.
    let bytes = of.at_full(AtFull::Measured, Some(0)).unwrap();
    assert!((bytes / (w.memory_throughput * 32.0 * 4.0 * 4.0) - 1.0).abs() < 1e-9, "{bytes}");
    let [measured, estimate] = [AtFull::Measured, AtFull::Estimate(Model::Basic)]
        .map(|a| of.at_full(a, Some(32)).unwrap());
    assert!((measured / estimate - 1.0).abs() < 1e-9 && measured > 1.0, "{measured} {estimate}");
    let over = of.at_full(AtFull::Quotient(Model::HuangRoundRobin), None).unwrap();
    assert!((over / (64.0 / w.add_latency / w.add_throughput) - 1.0).abs() < 1e-6, "{over}");
    let unclocked = Fitted::fit(&[&results(perfect())]).unwrap();
    assert!(unclocked.at_full(AtFull::Measured, Some(32)).unwrap_err().contains("no clock"));
    assert!(unclocked.at_full(AtFull::Measured, Some(0)).unwrap() > 0.0, "bytes need none");
}

#[test]
fn what_is_missing_is_named() {
    let why = |cases: Vec<CaseResult>| fitted(cases).err().unwrap();
    let without = |begin: &str, alpha: bool| {
        let mut all = perfect();
        all.retain(|c| !(c.id.starts_with(begin) && c.swept.is_some() == alpha));
        all
    };
    assert!(why(without("latency/add", false)).contains("latency/add/ilp1"));
    assert!(why(without("latency/stream", true)).contains("no point of the grid"));
    // Without a clock there are no cycles, and no model that counts them; quotients stay.
    let of = Fitted::fit(&[&results(perfect())]).unwrap();
    let no_clock = |why: String| assert!(why.contains("no clock"), "{why}");
    no_clock(of.input(Input::MemoryLatency).unwrap_err());
    no_clock(of.worst_of(Model::HuangGreedy, true, None).unwrap_err());
    let known = fitted(perfect()).unwrap();
    let models = [Model::Basic, Model::HongKim, Model::Baghsorkhi, Model::ZhangOwens, Model::Sim];
    for model in models {
        for over in [true, false] {
            let (a, b) = (
                of.worst_of(model, over, None).unwrap(),
                known.worst_of(model, over, None).unwrap(),
            );
            assert!((a / b - 1.0).abs() < 1e-9, "{model:?}: {a} {b}");
        }
    }
}

#[test]
fn quotients_do_not_depend_on_the_clock() {
    let at = |mhz| {
        let device = DeviceFacts { max_clock_mhz: Some(mhz), ..device() };
        Fitted::fit(&[&Results { device, ..results(perfect()) }]).unwrap()
    };
    let (slow, fast) = (at(500), at(2000));
    for model in [Model::HongKim, Model::Baghsorkhi, Model::Sim, Model::HuangRoundRobin] {
        let of = |f: &Fitted| f.worst_of(model, true, None).unwrap();
        assert!((of(&slow) / of(&fast) - 1.0).abs() < 1e-9, "{model:?}");
    }
    // The greedy policy counts single cycles: it must be the one that needs a clock.
    let greedy = |f: &Fitted| {
        let curves = f.estimates(&[Some(512)], &[Model::HuangGreedy]);
        let last = |n: usize| curves[n].points.last().unwrap().y.value;
        last(1) / last(0)
    };
    assert!(
        (greedy(&slow) / greedy(&fast) - 1.0).abs() > 1e-9,
        "{} {}",
        greedy(&slow),
        greedy(&fast)
    );
}
