//! Tests of `model`.

use super::*;
use crate::results;
use std::collections::BTreeMap;

fn case(id: &str, status: Status) -> CaseResult {
    let rate = Interval::symmetric(10.0, 0.1);
    CaseResult {
        id: format!("flop/private/{id}"),
        suite: "flop",
        parameters: BTreeMap::new(),
        swept: None,
        status,
        reason: None,
        build_log: None,
        timing: None,
        figures: vec![results::Figure::new("rate", "GFLOP/s", rate)],
        series: Vec::new(),
        notes: Vec::new(),
        counted: None,
    }
}

#[test]
fn types_without_fused_operations_are_measured_by_both_in_turn() {
    let cases = [
        case("float/fma/scalar", Status::NotAvailable),
        case("float/add/scalar", Status::Measured),
        case("double/fma/vect2", Status::Measured),
        case("double/add/scalar", Status::Measured),
        // A type that the device lacks altogether.
        case("half/fma/scalar", Status::NotAvailable),
        case("half/add/scalar", Status::NotAvailable),
    ];
    let measured = cases.iter().filter(|c| c.status == Status::Measured).collect();
    assert_eq!(unfused(&Cases(measured)), ["flop/private/float/mad/"]);
}

/// A clock that was read once has no interval, and no place in the file of a device.
#[test]
fn what_was_read_once_is_not_known() {
    let with_clock = |low, high| {
        let mut case = case("float/fma/scalar", Status::Measured);
        let clock = Interval::estimated(1980.0, low, high);
        case.figures.push(results::Figure::new("clock", "MHz", clock));
        case
    };
    let known = |case: &CaseResult| {
        Cases(vec![case]).figures("flop/private/float/fma/", "clock").next().is_some()
    };
    assert!(!known(&with_clock(0.0, f64::INFINITY)));
    assert!(known(&with_clock(1900.0, f64::INFINITY)) && known(&with_clock(0.0, 2100.0)));
}

/// Of a rate that no case gave the file says why.
#[test]
fn what_no_case_gave_has_its_reason() {
    let missed = |id: &&str| CaseResult {
        id: (*id).to_owned(),
        reason: Some(format!("{id} was not tried")),
        ..case("", Status::NotAvailable)
    };
    let cases: Vec<CaseResult> = RATES.iter().flat_map(|of| of.1.iter().map(missed)).collect();
    let mut out = Device::default();
    absent(cases.iter(), &mut out);
    for (key, ids) in RATES {
        let why = out.absent.get(key).unwrap_or_else(|| panic!("{key} has none"));
        assert!(ids.iter().any(|id| why.starts_with(id)), "{key}: {why}");
    }
}

#[test]
fn nobody_is_sent_to_measure_the_clock_of_a_cpu_again() {
    let mut out = Device { kind: "cpu".to_owned(), ..Device::default() };
    ceilings(&Cases(Vec::new()), &mut out);
    let missing = out.get(name::CLOCK).unwrap_err();
    assert!(missing.remedy.contains("reads no clock of CPUs"), "{missing}");
}
