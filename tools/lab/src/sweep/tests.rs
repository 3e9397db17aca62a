//! Which cases a sweep makes of those of the suites, and which axes it refuses.

use super::*;
use crate::suite::SUITES;
use clscope_microbench::cl::DeviceKind;

fn device() -> DeviceFacts {
    DeviceFacts {
        kind: DeviceKind::Gpu,
        compute_units: 4,
        max_group: 256,
        global_bytes: 1 << 32,
        largest_buffer: 1 << 30,
        local_bytes: 1 << 16,
        has_double: true,
        ..DeviceFacts::default()
    }
}

fn case(id: &str) -> Case {
    let all = Settings { full: true, ..Settings::default() };
    let mut cases = SUITES.iter().flat_map(|s| (s.cases)(&device(), &all));
    cases.find(|c| c.id == id).unwrap_or_else(|| panic!("there is no {id}"))
}

fn swept(id: &str, along: &[Along]) -> Result<Vec<Case>, SweepError> {
    grid(&case(id), &device(), &Settings::default(), along)
}

fn numbers(axis: Axis, values: &[usize]) -> Along {
    Along { axis, values: values.iter().map(|&n| Value::Number(n)).collect() }
}

fn usual_of(axis: Axis) -> Along {
    Along { axis, values: Vec::new() }
}

#[test]
fn two_axes_make_a_grid_in_order() {
    let along = [
        Along { axis: Axis::Precision, values: vec![Value::Type(Scalar::Double)] },
        numbers(Axis::Blocks, &[1, 2, 6]),
    ];
    let cases = swept("flop/private/float/mad/scalar", &along).unwrap();
    let ids: Vec<&str> = cases.iter().map(|c| c.id.as_str()).collect();
    let id = |n| format!("flop/private/float/mad/scalar@precision=double,blocks={n}");
    assert_eq!(ids, [id(1), id(2), id(6)], "every value of a range is a point");
    assert_eq!(cases[2].parameters["type"], "double", "shares of the peak are those of the type");
    assert_eq!(cases[2].parameters["groups"], 6);
    assert_eq!(cases[2].place.as_ref().unwrap().at[1].value, 6);
}

#[test]
fn a_case_without_an_axis_names_those_it_has() {
    let none = swept("flop/private/float/mad/scalar", &[usual_of(Axis::Alpha)]);
    let said = none.err().unwrap().to_string();
    assert!(said.contains("no axis alpha; its axes are: blocks, tpb, width, precision"), "{said}");
    let none = swept("levels/launch", &[usual_of(Axis::Size)]).err().unwrap().to_string();
    assert!(none.ends_with("its axes are: none"), "{none}");
    // Nothing that the user names is left out without a word.
    let lanes = swept("classes/float/arithmetic", &[numbers(Axis::Lanes, &[8, 33])]);
    assert!(lanes.err().unwrap().to_string().contains("at lanes 33: lanes is a number up to 32"));
    let fma = Along { axis: Axis::Precision, values: vec![Value::Type(Scalar::Int)] };
    assert!(swept("flop/private/float/fma/scalar", &[fma]).is_err());
    for along in [vec![], vec![usual_of(Axis::Tpb); 2], vec![usual_of(Axis::Tpb); 3]] {
        assert!(matches!(swept("levels/working_set/4096", &along), Err(SweepError::Shape(_))));
    }
    let many = numbers(Axis::Blocks, &(1..=MOST_POINTS + 1).collect::<Vec<_>>());
    assert!(matches!(swept("structure/store/1", &[many]), Err(SweepError::Shape(_))));
}

/// Whatever axis a case says that it has, it has usual values there and becomes a case at each.
#[test]
fn every_case_can_be_swept_along_each_of_its_axes() {
    let all = Settings { full: true, ..Settings::default() };
    let mut seen = std::collections::BTreeSet::new();
    for case in SUITES.iter().flat_map(|s| (s.cases)(&device(), &all)) {
        for &axis in case.swept.as_ref().map(|s| s.axes()).unwrap_or_default() {
            let points = grid(&case, &device(), &Settings::default(), &[usual_of(axis)]);
            let points = points.unwrap_or_else(|e| panic!("{}: {e}", case.id));
            assert!(points.len() > 1, "{} along {}", case.id, axis.name());
            seen.insert(axis);
        }
    }
    assert_eq!(seen.len(), Axis::all().len(), "no case has one of the axes: {seen:?}");
}

#[test]
fn several_groups_share_a_unit_beyond_the_largest_group() {
    let points = swept("latency/add/ilp1/filled32", &[usual_of(Axis::Occupancy)]).unwrap();
    let at: Vec<u64> =
        points.iter().filter_map(|p| p.place.as_ref()?.at[0].value.as_u64()).collect();
    assert_eq!(at, [32, 64, 128, 256, 512]);
    let odd = swept("latency/add/ilp1/filled32", &[numbers(Axis::Occupancy, &[257])]);
    assert!(odd.err().unwrap().to_string().contains("no multiple"));
}

/// The guide's examples name cases and axes that there are.
#[test]
fn the_guides_sweeps_exist() {
    let guide = include_str!("../../../guide/bench.md");
    let mut seen = 0;
    for line in guide.lines().filter_map(|l| l.strip_prefix("    clscope-lab ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, "--sweep", axes, ..] = words.as_slice() else { continue };
        if axes.starts_with("AXIS") {
            continue;
        }
        let along: Vec<Along> =
            axes.split(',').map(|name| usual_of(Axis::named(name).expect(name))).collect();
        let points = swept(id, &along).unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(points.len() > 1, "{line}");
        seen += 1;
    }
    assert!(seen > 5, "{seen} sweeps in the guide");
}

#[test]
fn axes_that_choose_the_same_are_not_swept_together() {
    for (a, b) in
        [(Axis::Cores, Axis::Blocks), (Axis::Blocks, Axis::Size), (Axis::Tpb, Axis::Occupancy)]
    {
        assert!(both_choose(a, b).is_some() && both_choose(b, a).is_some());
    }
    assert!(both_choose(Axis::Blocks, Axis::Width).is_none());
}

/// Transfers of every size are one sweep over sizes; what differs otherwise is not taken together.
#[test]
fn cases_that_differ_in_what_is_swept_alone_are_one_sweep() {
    let ids = |pattern: &str, axis| {
        let all = Settings { full: true, ..Settings::default() };
        let cases = SUITES.iter().flat_map(|s| (s.cases)(&device(), &all));
        let cases = cases.filter(|c| crate::run::matches(&c.id, pattern)).collect();
        let kept = crate::run::apart(cases, &[usual_of(axis)], &[]);
        kept.into_iter().map(|c| c.id).collect::<Vec<String>>()
    };
    assert_eq!(ids("transfer/pinned/to_device", Axis::Size).len(), 1);
    assert_eq!(ids("transfer/pinned", Axis::Size).len(), 2, "both directions");
    assert_eq!(ids("memory/stride", Axis::Stride).len(), 1);
    assert_eq!(ids("flop/private/float/fma", Axis::Width), ["flop/private/float/fma/scalar"]);
    assert_eq!(ids("flop/private/float/fma", Axis::Blocks).len(), 5);
    assert_eq!(ids("structure/sharing", Axis::Cores).len(), 5, "which say nothing of groups");
}
