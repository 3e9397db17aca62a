//! The operations that the FLOP and the class suite count, against those that the simulator
//! oclgrind counts in the same kernels. Without oclgrind there is nothing to compare with, and the
//! test says so.

use clscope_microbench::bench::{Bench, Settings};
use clscope_microbench::cl::{OpenCl, Session, list};
use clscope_microbench::job::{Scalar, Trips};
use clscope_microbench::results::CaseResult;
use clscope_microbench::run::{Choice, Watch, run};
use clscope_microbench::suite::classes;
use clscope_microbench::suite::flop::{Op, STATEMENTS, Shape, Variant};
use clscope_testing::Limited;
use std::process::Command;

const VARIANT: &str = "CLSCOPE_TEST_VARIANT";
const ITEMS: u64 = 4;
const TRIPS: u32 = 2;

/// Variants and the instructions that one of their statements must be. A vector is one instruction
/// of the simulator's.
const TABLE: [(Variant, &[&str]); 8] = [
    (Variant { shape: Shape::Private, scalar: Scalar::Float, op: Op::Add, width: 1 }, &["fadd"]),
    (
        Variant { shape: Shape::Private, scalar: Scalar::Float, op: Op::Sub, width: 4 },
        &["fsub", "fadd"],
    ),
    (Variant { shape: Shape::Private, scalar: Scalar::Double, op: Op::Mul, width: 2 }, &["fmul"]),
    (Variant { shape: Shape::Private, scalar: Scalar::Float, op: Op::Div, width: 1 }, &["fdiv"]),
    (
        Variant { shape: Shape::Private, scalar: Scalar::Float, op: Op::Mad, width: 1 },
        &["fmul", "fadd"],
    ),
    (Variant { shape: Shape::Private, scalar: Scalar::Int, op: Op::Mul, width: 1 }, &["mul"]),
    (
        Variant { shape: Shape::Unroll, scalar: Scalar::Float, op: Op::Mad, width: 1 },
        &["fmul", "fadd"],
    ),
    (Variant { shape: Shape::Loop, scalar: Scalar::Float, op: Op::Add, width: 1 }, &["fadd"]),
];

/// Not a test of its own: what runs inside the simulator, which preloads its OpenCL.
#[test]
fn worker() {
    let Ok(number) = std::env::var(VARIANT) else { return };
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    let library = preloaded
        .split(':')
        .find(|p| p.contains("oclgrind"))
        .expect("the simulator preloads its library");
    let device = list(&OpenCl::open(Some(library)).expect("it opens")).expect("it lists").remove(0);
    let (variant, _) = TABLE[number.parse::<usize>().expect("a number")];
    let settings = Settings { tiny: true, repeat: Some(1), ..Settings::default() };
    let never = || false;
    let mut bench = Bench::new(Session::new(&device).expect("a session"), settings.clone(), &never);
    let mut job = variant.job(1, ITEMS as usize, &settings);
    job.trips = Trips::Fixed(TRIPS);
    bench.measure(&job, false).expect("right results");
}

const CLASS: &str = "CLSCOPE_TEST_CLASS";

/// Classes and the instructions that their statements must be.
const CLASSES: [(&str, &[&str]); 5] = [
    ("classes/float/arithmetic", &["fmul", "fadd"]),
    ("classes/double/arithmetic", &["fmul", "fadd"]),
    ("classes/int/arithmetic", &["add", "xor"]),
    ("classes/int/division", &["sdiv"]),
    ("classes/float/division", &["fdiv"]),
];

struct Never;

impl Watch for Never {
    fn begin(&mut self, _: &str, _: usize, _: usize) {}
    fn end(&mut self, _: &CaseResult) {}
    fn stop(&self) -> bool {
        false
    }
}

/// As `worker`: one class; says how many turns the last launch had.
#[test]
fn class_worker() {
    let Ok(name) = std::env::var(CLASS) else { return };
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    let library = preloaded
        .split(':')
        .find(|p| p.contains("oclgrind"))
        .expect("the simulator preloads its library");
    let device = list(&OpenCl::open(Some(library)).expect("it opens")).expect("it lists").remove(0);
    let settings = Settings {
        tiny: true,
        repeat: Some(1),
        blocks: vec![1],
        tpb: vec![ITEMS as usize],
        ..Settings::default()
    };
    let choice = Choice {
        suites: vec!["classes".to_owned()],
        cases: vec![name.clone()],
        sensors: clscope_microbench::power::Metering { off: true, ..Default::default() },
    };
    let results = run(&device, &settings, &choice, &mut Never).expect("the device opens");
    let case = results.cases.iter().find(|c| c.id == name).expect("it was chosen");
    let timing = case.timing.as_ref().unwrap_or_else(|| panic!("{:?}", case.reason));
    println!("TURNS {} ITEMS {}", timing.trips, timing.groups * timing.group_size);
}

#[test]
fn classes_are_what_a_simulator_counts() {
    if !clscope_testing::installed("oclgrind") {
        clscope_testing::skip("oclgrind is not installed", true);
        return;
    }
    let own = std::env::current_exe().expect("this test");
    for (name, instructions) in CLASSES {
        let run = Command::new("oclgrind")
            .arg("--inst-counts")
            .arg(&own)
            .args(["--exact", "class_worker", "--nocapture"])
            .env(CLASS, name)
            .ended();
        let output = String::from_utf8_lossy(&run.stdout).into_owned()
            + &String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{name}: {output}");
        let said = output
            .split("TURNS ")
            .nth(1)
            .and_then(|rest| rest.lines().next())
            .expect("the worker says");
        let (turns, items) = said.split_once(" ITEMS ").expect("the worker says both");
        let lanes =
            turns.parse::<u64>().expect("a number") * items.parse::<u64>().expect("a number");
        let found = histogram(&output, "classes");
        let executed: u64 = found
            .iter()
            .filter(|(name, _)| instructions.contains(&name.as_str()))
            .map(|row| row.1)
            .sum();
        let want = lanes * u64::from(classes::STATEMENTS);
        // The loop counts its turns with the instructions of one class.
        let loops = if instructions.contains(&"add") { lanes } else { 0 };
        assert!(
            (want..=want + loops).contains(&executed),
            "{name}: {executed} instead of {want}: {found:?}"
        );
    }
}

/// The last histogram of the kernel: instruction and how often it was executed.
fn histogram(output: &str, kernel: &str) -> Vec<(String, u64)> {
    let head = format!("Instructions executed for kernel '{kernel}':");
    let Some(last) = output.rsplit(head.as_str()).next().filter(|l| l.len() < output.len()) else {
        return Vec::new();
    };
    let rows = last.lines().skip(1).take_while(|line| line.contains(" - "));
    let parsed = rows.filter_map(|line| {
        let (count, name) = line.trim().split_once(" - ")?;
        Some((name.trim().to_owned(), count.replace(',', "").parse().ok()?))
    });
    parsed.collect()
}

#[test]
fn operations_are_those_that_a_simulator_counts() {
    if !clscope_testing::installed("oclgrind") {
        clscope_testing::skip("oclgrind is not installed", true);
        return;
    }
    let own = std::env::current_exe().expect("this test");
    for (number, (variant, instructions)) in TABLE.iter().enumerate() {
        let run = Command::new("oclgrind")
            .arg("--inst-counts")
            .arg(&own)
            .args(["--exact", "worker", "--nocapture"])
            .env(VARIANT, number.to_string())
            .ended();
        let output = String::from_utf8_lossy(&run.stdout).into_owned()
            + &String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{}: {output}", variant.id());
        let found = histogram(&output, "flop");
        let executed: u64 = found
            .iter()
            .filter(|(name, _)| instructions.contains(&name.as_str()))
            .map(|row| row.1)
            .sum();
        let per_statement = variant.op.operations() as u64;
        let statements = ITEMS * u64::from(TRIPS) * u64::from(STATEMENTS);
        // A loop may count its turns with the same instructions; at most one a turn.
        let loops = if variant.scalar == Scalar::Int { ITEMS * u64::from(TRIPS) } else { 0 };
        let want = statements * per_statement;
        assert!(
            (want..=want + loops).contains(&executed),
            "{}: {executed} instead of {want}: {found:?}",
            variant.id()
        );
        assert_eq!(variant.operations(TRIPS) * ITEMS as f64, (want * variant.width as u64) as f64);
    }
}
