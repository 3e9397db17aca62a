//! Every variant of every suite on a real runtime, in sizes that take a moment: built, run and
//! compared with its host reference. Where no OpenCL device is installed there is nothing to
//! compare, and the test says so.

use clscope_microbench::bench::{Bench, CaseError, Settings};
use clscope_microbench::cl::{Device, DeviceKind, OpenCl, Session, list};
use clscope_microbench::job::{Arg, Geometry, Scalar};
use clscope_microbench::model::{Effort, measure};
use clscope_microbench::results::{CaseResult, Results, Status};
use clscope_microbench::run::{Choice, Watch, run};
use clscope_microbench::source::Source;
use clscope_microbench::suite::flop::{Op, Shape, Variant};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Quiet {
    stop_after: usize,
    ended: usize,
}

impl Watch for Quiet {
    fn begin(&mut self, _: &str, _: usize, _: usize) {}
    fn end(&mut self, _: &CaseResult) {
        self.ended += 1;
    }
    fn stop(&self) -> bool {
        self.ended >= self.stop_after
    }
}

/// One run at a time: PoCL 3.1 was seen to crash while several threads build programs.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn device() -> Option<Device> {
    let all = OpenCl::open(None).ok().and_then(|opencl| list(&opencl).ok()).unwrap_or_default();
    let found = all.into_iter().find(|d| d.facts.kind == DeviceKind::Cpu && d.facts.max_group > 1);
    if found.is_none() {
        clscope_testing::skip("there is no OpenCL CPU device to compare with", true);
    }
    found
}

fn tiny() -> Settings {
    Settings { tiny: true, repeat: Some(1), ..Settings::default() }
}

fn suites(names: &[&str]) -> Choice {
    Choice {
        suites: names.iter().map(|&n| n.to_owned()).collect(),
        sensors: clscope_microbench::power::Metering { off: true, ..Default::default() },
        ..Choice::default()
    }
}

fn all_right(results: &Results) {
    for case in &results.cases {
        match case.status {
            Status::Measured => assert!(
                // What alone has power has no figure without a sensor.
                case.id.ends_with("/floor")
                    || case.id == "classes/application"
                    || !case.figures.is_empty(),
                "{} gave nothing",
                case.id
            ),
            // The only reasons for which a CPU device may decline.
            Status::NotAvailable => {
                let reason = case.reason.as_deref().unwrap_or_default();
                assert!(
                    reason.starts_with("the device has no") || reason.contains("are needed"),
                    "{}: {reason}",
                    case.id
                );
            }
            other => panic!("{}: {other:?}: {:?}", case.id, case.reason),
        }
    }
}

fn check(names: &[&str], settings: &Settings) {
    let _turn = turn();
    let Some(device) = device() else { return };
    let mut watch = Quiet { stop_after: usize::MAX, ended: 0 };
    let results = run(&device, settings, &suites(names), &mut watch).expect("the device opens");
    assert!(!results.cases.is_empty() && watch.ended == results.cases.len());
    all_right(&results);
}

#[test]
fn flop_agrees_with_the_host() {
    check(&["flop"], &tiny());
}

#[test]
fn memory_and_transfers_agree_with_the_host() {
    check(&["memory", "transfer"], &tiny());
}

#[test]
fn classes_and_blends_agree_with_the_host() {
    check(&["classes", "blend"], &tiny());
}

#[test]
fn latency_agrees_with_the_host() {
    check(&["latency"], &tiny());
}

/// What bounds kernels is measured with an interval, or absent with the reason.
#[test]
fn parameters_of_the_device_have_intervals() {
    let _turn = turn();
    let Some(device) = device() else { return };
    let effort = Effort {
        quick: true,
        sensors: clscope_microbench::power::Metering { off: true, ..Default::default() },
        tiny: true,
        cache: None,
        compilers: None,
        date: "2026-01-01".into(),
    };
    let mut watch = Quiet { stop_after: usize::MAX, ended: 0 };
    let measured = measure(&device, &effort, &mut watch).expect("the device opens").device;
    for name in [
        "bandwidth.dram",
        "bandwidth.l1",
        "bandwidth.local",
        "rate.fp32.fma",
        "latency.add",
        "launch.period",
    ] {
        // A busy machine may hide the plateaus of caches, and tiny sizes do: then that is said.
        let Some(figure) = measured.parameters.get(name).map(|p| p.figure()) else {
            assert!(name.starts_with("bandwidth.") && measured.absent.contains_key(name), "{name}");
            continue;
        };
        assert!(
            0.0 <= figure.low && figure.low <= figure.value && figure.value <= figure.high,
            "{name}: {figure:?}"
        );
    }
    assert!(measured.absent.contains_key("idle") && measured.energy.is_none());
}

/// An ended run keeps what it has, and says that it was ended.
#[test]
fn an_interruption_keeps_what_was_measured() {
    let _turn = turn();
    let Some(device) = device() else { return };
    let mut watch = Quiet { stop_after: 3, ended: 0 };
    let results =
        run(&device, &tiny(), &suites(&["memory"]), &mut watch).expect("the device opens");
    assert!(results.interrupted);
    let measured = results.cases.iter().filter(|c| c.status == Status::Measured).count();
    assert_eq!(measured, 3);
    assert!(results.cases.len() <= 4);
}

/// What a compiler refuses is reported with its words, what is computed wrongly is an error, and
/// both leave the rest alone.
#[test]
fn refusals_and_wrong_results_are_told_apart() {
    let _turn = turn();
    let Some(device) = device() else { return };
    let never = || false;
    let mut bench = Bench::new(Session::new(&device).expect("a session"), tiny(), &never);
    let variant = Variant { shape: Shape::Private, scalar: Scalar::Float, op: Op::Mad, width: 1 };
    let mut refused = variant.job(1, 16, &tiny());
    refused.defines.push("-DSTEP=nonsense".to_owned());
    refused.defines[0] = "-DSCALAR=nosuchtype".to_owned();
    match bench.measure(&refused, false) {
        Err(CaseError::NotAvailable { log: Some(log), .. }) => {
            assert!(log.contains("nosuchtype"), "{log}")
        }
        other => panic!("{:?}", other.err()),
    }
    let mut wrong = variant.job(1, 16, &tiny());
    wrong.check_args = vec![(3, Scalar::Float.encode(1.0)), (4, Scalar::Float.encode(0.5))];
    assert!(matches!(bench.measure(&wrong, false), Err(CaseError::Wrong(_))));
    assert!(bench.measure(&variant.job(1, 16, &tiny()), false).is_ok());
}

/// Every source builds for a size of groups that it is told, and runs with it.
#[test]
fn kernels_can_be_made_for_a_size() {
    let _turn = turn();
    let Some(device) = device() else { return };
    let never = || false;
    let mut bench = Bench::new(Session::new(&device).expect("a session"), tiny(), &never);
    let buffers = bench.buffers(&[4096]).expect("room");
    let sized = |group: usize| vec![format!("-DGROUP={group}")];
    let args = [Arg::Buffer(0), Arg::Trips];
    let of = |group| Geometry { groups: 2, group, trips: 1 };
    bench
        .probe(Source::Structure, "steps", &sized(16), &args, &buffers, of(16))
        .expect("the size it is made for");
    assert!(
        bench.probe(Source::Structure, "steps", &sized(16), &args, &buffers, of(8)).is_err(),
        "another size is an error"
    );
    let latency = [sized(16), vec!["-DKIND_ADD".to_owned(), "-DILP=1".to_owned()]].concat();
    let args = [Arg::Buffer(0), Arg::Trips, Arg::Local(64)];
    bench
        .probe(Source::Latency, "resident", &latency, &args, &buffers, of(16))
        .expect("the size it is made for");
}

/// A second run takes its programs from the cache, and a spoilt file there does no harm.
#[test]
fn binaries_are_cached() {
    let _turn = turn();
    let Some(device) = device() else { return };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let settings = Settings { cache: Some(directory.path().to_owned()), ..tiny() };
    let choice = Choice { cases: vec!["private/float/mad/scalar".to_owned()], ..suites(&["flop"]) };
    let go = || {
        let results =
            run(&device, &settings, &choice, &mut Quiet { stop_after: usize::MAX, ended: 0 })
                .expect("the device opens");
        assert!(
            results.cases.len() == 1 && results.cases[0].status == Status::Measured,
            "{:?}",
            results.cases
        );
    };
    go();
    let files: Vec<_> = std::fs::read_dir(directory.path())
        .expect("made")
        .map(|f| f.expect("listed").path())
        .collect();
    assert_eq!(files.len(), 1);
    go();
    for spoil in [0, 10] {
        let mut bytes = std::fs::read(&files[0]).expect("read");
        bytes.truncate(bytes.len() * spoil / 11);
        std::fs::write(&files[0], bytes).expect("written");
        go();
    }
}
