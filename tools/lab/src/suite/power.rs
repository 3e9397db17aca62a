//! Power of arithmetic: the FLOP kernels with turns scaled so that run time is alike over SIMD
//! widths and spans many updates of the sensor (Duarte 2018, algorithm 8). Owns the choice of
//! variants; the kernel, its check and its count are those of the FLOP suite.

use super::{Case, Gave, Suite, best, geometry};
use clscope_microbench::bench::{Bench, CaseError, Settings};
use clscope_microbench::cl::DeviceFacts;
use clscope_microbench::idle;
use clscope_microbench::job::Scalar;
use clscope_microbench::results::{CaseResult, Finding};
use clscope_microbench::suite::flop::{Launched, Op, Shape, Variant};
use serde_json::json;
use std::rc::Rc;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "power",
    about: "watts and operations per joule of arithmetic by SIMD width",
    wants_power: true,
    cases,
    conclude,
};

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let (groups, group) = geometry(device, settings);
    let mut cases = Vec::new();
    for scalar in [Scalar::Float, Scalar::Double, Scalar::Half, Scalar::Int] {
        for op in [Op::Mad, Op::Fma, Op::Add, Op::Mul, Op::Sub, Op::Div] {
            for width in [1, 2, 4, 8, 16] {
                let quick = match scalar {
                    Scalar::Float | Scalar::Double => op == Op::Fma || op == Op::Add && width == 1,
                    Scalar::Half => op == Op::Fma && width == 2,
                    Scalar::Int => op == Op::Mad && width == 1,
                };
                let exists = scalar != Scalar::Int || op != Op::Fma;
                if !exists || !(settings.full || quick) {
                    continue;
                }
                let variant = Variant { shape: Shape::Private, scalar, op, width };
                let parameters = [
                    ("type", json!(scalar.name())),
                    ("operation", json!(op.name())),
                    ("width", json!(width)),
                ];
                let launched = Launched { variant, groups, group, power: true };
                let id = variant.id().replacen("flop/private", SUITE.name, 1);
                cases.push(Case::with_axes(id, SUITE.name, Rc::new(launched)).with(parameters));
            }
        }
    }
    cases.push(super::floor_case(SUITE.name, SUITE.name));
    // The clocks of the floor are those of a device that rests already: this comes last, and loads
    // it again.
    cases.push(after_load(settings));
    cases
}

/// What a device draws after a load, until it rests: its operating states and how long each lasts
/// (Piispanen 2014, section 6.1.1.3).
fn after_load(settings: &Settings) -> Case {
    let (load_s, watch_s) = match (settings.tiny, settings.full) {
        (true, _) => (0.01, 0.4),
        (_, true) => (10.0, 60.0),
        _ => (3.0, 24.0),
    };
    let parameters = [("load_s", json!(load_s)), ("watch_s", json!(watch_s))];
    let run = move |bench: &mut Bench<'_>| {
        if !bench.metered {
            return Err(CaseError::lacks("no power was read: no sensor sees the device"));
        }
        idle::load(bench, load_s)?;
        Ok(Gave { after: idle::pieces(bench, watch_s)?, ..Gave::default() })
    };
    let id = format!("{}/after_load", SUITE.name);
    Case { by_name: true, ..Case::new(id, SUITE.name, run).with(parameters) }
}

/// The most efficient width of each type.
fn conclude(_: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for scalar in Scalar::ALL {
        let ours = results.iter().filter(|r| r.parameter("type") == Some(scalar.name()));
        if let Some((case, figure)) = best(ours, "efficiency") {
            let text = format!(
                "most efficient in {}: {} with {:.2} {}",
                scalar.name(),
                case.id,
                figure.estimate.value,
                figure.unit
            );
            let figures = vec![figure.clone()];
            findings.push(Finding::new(
                format!("power/best/{}", scalar.name()),
                text,
                figures,
                "largest mean",
            ));
        }
    }
    findings
}
