//! Programs of generated steps come out the same recorded as bare: output, exit code, nothing on
//! standard error. 200 seeds on each runtime; each process of them is recorded plainly and in some
//! of the other ways, so that every way sees some. `clscope-bench programs` runs as many as wanted.
//! That such programs see what they are for is tested as well: each fault of a wrong recorder
//! (`tests/fixtures/programs/faulty.c`) shows within these seeds.
#![forbid(unsafe_code)]

use clscope_testing::programs::{
    Batch, Outcome, Setting, WAYS, Way, difference, differs, generate_batch, shrink,
};
use clscope_tests::{Runtime, Stage, artifacts};
use std::collections::BTreeSet;
use std::time::Duration;

/// How many programs a process runs, how many seeds there are, and in how many ways besides the
/// plain one each process is recorded.
const BATCH: u64 = 40;
const SEEDS: u64 = 200;
const WAYS_EACH: usize = 3;

fn setting(stage: &Stage) -> Setting {
    let found = artifacts();
    let mut variables = vec![
        ("CLSCOPE_CALIBRATION".to_owned(), stage.join("calibration.json").into()),
        ("POCL_CACHE_DIR".to_owned(), found.cache.join("pocl").into()),
    ];
    match &stage.runtime {
        Runtime::Intel(icd) => variables.push(("OCL_ICD_VENDORS".to_owned(), icd.into())),
        _ => variables
            .push(("OCL_ICD_VENDORS".to_owned(), "/etc/OpenCL/vendors/pocl.icd".to_owned().into())),
    }
    Setting {
        fixtures: found.fixtures.clone(),
        clscope: found.clscope(),
        scratch: stage.path().to_owned(),
        variables,
        limit: Duration::from_secs(60),
    }
}

/// What differs, shrunk, or how many programs had no determined outcome.
fn compare(setting: &Setting, batch: &Batch, ways: &[Way]) -> Result<usize, String> {
    let bare = match setting.bare(batch, 2) {
        Ok(bare) => bare,
        Err(_) if batch.programs.len() == 1 => return Ok(1),
        Err(_) => {
            let (first, last) = batch.programs.split_at(batch.programs.len() / 2);
            let mut unsettled = 0;
            for half in [first, last] {
                unsettled += compare(setting, &batch.with(half.to_vec()), ways)?;
            }
            return Ok(unsettled);
        }
    };
    for way in ways {
        let recorded = setting.run(batch, Some(*way));
        if recorded == bare || recorded.lacked_memory() {
            continue;
        }
        let mut shown = difference("bare", &bare, "recorded", &recorded);
        if let Some(finding) = differs(setting, batch, *way, 10) {
            let small = shrink(setting, finding, 3);
            shown = difference("bare", &small.bare, "recorded", &small.recorded);
            shown = format!("{}\n{shown}", small.batch.text());
        }
        return Err(format!("record {}:\n{shown}", way.options.join(" ")));
    }
    Ok(0)
}

fn all_seeds(runtime: Runtime) {
    let stage = Stage::new(runtime);
    let setting = setting(&stage);
    let (mut unsettled, mut next) = (0, 1);
    let others = &WAYS[1..];
    for first in (1..=SEEDS).step_by(BATCH as usize) {
        let mut ways = vec![WAYS[0]];
        for _ in 0..WAYS_EACH {
            ways.push(others[next % others.len()]);
            next += 1;
        }
        let batch = generate_batch(first..first + BATCH);
        match compare(&setting, &batch, &ways) {
            Ok(more) => unsettled += more,
            Err(found) => panic!("seeds from {first} on {:?}, {found}", stage.runtime),
        }
    }
    // Else the generator, not the recorder, would be what is tested.
    assert!(unsettled <= 4, "{unsettled} of {SEEDS} programs had no determined outcome when bare");
}

#[test]
fn generated_programs_on_pocl() {
    all_seeds(Runtime::Pocl);
}

#[test]
fn generated_programs_on_intels_runtime() {
    if let Some(intel) = Runtime::intel() {
        all_seeds(intel);
    }
}

/// The faults that the wrong recorder knows.
fn faults() -> BTreeSet<&'static str> {
    let source = include_str!("../../../fixtures/programs/faulty.c");
    source.split("is(\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

#[test]
fn generated_programs_show_each_fault_of_a_wrong_recorder() {
    const BATCH: u64 = 10;
    let stage = Stage::new(Runtime::Pocl);
    let setting = setting(&stage);
    let wrong = |fault: Option<&str>| {
        let mut setting = setting.clone();
        // Some of them hang, which a program that takes a moment shows soon.
        setting.limit = Duration::from_secs(if fault.is_some() { 4 } else { 60 });
        let library = setting.fixtures.join("libfaulty.so");
        setting.variables.push(("LD_PRELOAD".to_owned(), library.into()));
        setting.variables.extend(fault.map(|fault| ("FAULT".to_owned(), fault.into())));
        setting
    };
    let mut hidden = faults();
    assert!(hidden.len() >= 40, "{hidden:?}");
    for first in (1..=SEEDS).step_by(BATCH as usize) {
        if hidden.is_empty() {
            break;
        }
        let batch = generate_batch(first..first + BATCH);
        let Ok(bare) = setting.bare(&batch, 2) else { continue };
        let seen = |fault: Option<&str>| -> Option<Outcome> {
            Some(wrong(fault).run(&batch, None)).filter(|outcome| *outcome != bare)
        };
        if let Some(outcome) = seen(None) {
            panic!("no fault: {}", difference("bare", &bare, "passed on", &outcome));
        }
        hidden.retain(|fault| seen(Some(fault)).is_none());
    }
    assert!(hidden.is_empty(), "{SEEDS} programs do not show: {hidden:?}");
}
