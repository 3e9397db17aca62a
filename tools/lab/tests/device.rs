//! Suites of the documents on a real runtime, in sizes that take a moment: built, run and compared
//! with their host references. Where no OpenCL device is installed there is nothing to compare, and
//! the test says so.

use clscope_lab::run::{Choice, Watch, cases, run_cases};
use clscope_microbench::cl::{DeviceKind, OpenCl, list};
use clscope_microbench::power::Metering;
use clscope_microbench::results::{CaseResult, Status};
use clscope_microbench::settings::Settings;

struct Quiet;

impl Watch for Quiet {
    fn begin(&mut self, _: &str, _: usize, _: usize) {}
    fn end(&mut self, _: &CaseResult) {}
    fn stop(&self) -> bool {
        false
    }
}

/// One test: PoCL 3.1 was seen to crash while several threads build programs.
#[test]
fn power_and_structure_agree_with_the_host() {
    let all = OpenCl::open(None).ok().and_then(|opencl| list(&opencl).ok()).unwrap_or_default();
    let found = all.into_iter().find(|d| d.facts.kind == DeviceKind::Cpu && d.facts.max_group > 1);
    let Some(device) = found else {
        clscope_testing::skip("there is no OpenCL CPU device to compare with", true);
        return;
    };
    let choice = Choice {
        suites: vec!["power".to_owned(), "structure".to_owned()],
        sensors: Metering { off: true, ..Metering::default() },
        ..Choice::default()
    };
    let settings = Settings { tiny: true, repeat: Some(1), ..Settings::default() };
    let chosen = cases(&device, &settings, &choice);
    let results = run_cases(&device, &settings, &choice, &chosen, &mut Quiet);
    let results = results.expect("the device opens");
    for suite in &choice.suites {
        assert!(results.cases.iter().any(|case| case.suite == suite), "{suite}");
    }
    for case in &results.cases {
        let reason = case.reason.as_deref().unwrap_or_default();
        match case.status {
            Status::Measured => assert!(
                // What alone has power has no figure without a sensor.
                case.id.ends_with("/floor") || !case.figures.is_empty(),
                "{} gave nothing",
                case.id
            ),
            // The only reasons for which a CPU device may decline.
            Status::NotAvailable => assert!(
                reason.starts_with("the device has no")
                    || reason.contains("are needed")
                    // Without sensors there is no power to watch.
                    || case.id == "power/after_load" && reason.starts_with("no power was read"),
                "{}: {reason}",
                case.id
            ),
            other => panic!("{}: {other:?}: {reason}", case.id),
        }
    }
}
