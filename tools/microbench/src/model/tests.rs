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
