//! Every variant of every suite on a real runtime, in sizes that take a moment: built, run and compared with its host reference. Where no
//! OpenCL device is installed there is nothing to compare, and the test says so.

use clscope_microbench::bench::Settings;
use clscope_microbench::cl::{Device, DeviceKind, OpenCl, list};
use clscope_microbench::results::{CaseResult, Results, Status};
use clscope_microbench::run::{Choice, Watch, run};
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
    let opencl = OpenCl::open(None).ok()?;
    let all = list(&opencl).ok()?;
    let found = all.into_iter().find(|d| d.facts.kind == DeviceKind::Cpu && d.facts.max_group > 1);
    if found.is_none() {
        eprintln!("no OpenCL CPU device: nothing to compare with");
    }
    found
}

fn tiny() -> Settings {
    Settings { tiny: true, repeat: 1, ..Settings::default() }
}

fn suites(names: &[&str]) -> Choice {
    Choice { suites: names.iter().map(|&n| n.to_owned()).collect(), no_sensors: true, ..Choice::default() }
}

fn all_right(results: &Results) {
    for case in &results.cases {
        match case.status {
            Status::Measured => assert!(case.id.ends_with("/floor") || !case.figures.is_empty(), "{} gave nothing", case.id),
            // The only reasons for which a CPU device may decline.
            Status::NotAvailable => {
                let reason = case.reason.as_deref().unwrap_or_default();
                assert!(reason.starts_with("the device has no") || reason.contains("are needed"), "{}: {reason}", case.id);
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
    check(&["flop"], &Settings { validate: true, ..tiny() });
}

#[test]
fn flop_agrees_with_the_host_when_fused() {
    let _turn = turn();
    let Some(device) = device() else { return };
    let choice = Choice { cases: vec!["private/*/mad/".to_owned()], ..suites(&["flop"]) };
    let settings = Settings { enable_fma: true, ..tiny() };
    let results = run(&device, &settings, &choice, &mut Quiet { stop_after: usize::MAX, ended: 0 }).expect("the device opens");
    all_right(&results);
}

#[test]
fn memory_and_transfers_agree_with_the_host() {
    check(&["memory", "transfer"], &Settings { validate: true, ..tiny() });
}

#[test]
fn power_and_classes_agree_with_the_host() {
    check(&["power", "classes"], &tiny());
}

#[test]
fn latency_agrees_with_the_host() {
    check(&["latency"], &tiny());
}

#[test]
fn structure_agrees_with_the_host() {
    check(&["structure"], &tiny());
}

/// An ended run keeps what it has, and says that it was ended.
#[test]
fn an_interruption_keeps_what_was_measured() {
    let _turn = turn();
    let Some(device) = device() else { return };
    let mut watch = Quiet { stop_after: 3, ended: 0 };
    let results = run(&device, &tiny(), &suites(&["memory"]), &mut watch).expect("the device opens");
    assert!(results.interrupted);
    let measured = results.cases.iter().filter(|c| c.status == Status::Measured).count();
    assert_eq!(measured, 3);
    assert!(results.cases.len() <= 4);
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
        let results = run(&device, &settings, &choice, &mut Quiet { stop_after: usize::MAX, ended: 0 }).expect("the device opens");
        assert!(results.cases.len() == 1 && results.cases[0].status == Status::Measured, "{:?}", results.cases);
    };
    go();
    let files: Vec<_> = std::fs::read_dir(directory.path()).expect("made").map(|f| f.expect("listed").path()).collect();
    assert_eq!(files.len(), 1);
    go();
    for spoil in [0, 10] {
        let mut bytes = std::fs::read(&files[0]).expect("read");
        bytes.truncate(bytes.len() * spoil / 11);
        std::fs::write(&files[0], bytes).expect("written");
        go();
    }
}
