//! Verdicts on kernels that each have one limit built in (`tests/fixtures/apps/limits.c`), on what
//! was counted and measured of them on a device, with the parameters that `bench model` measured
//! there: files of `tools/models/tests/limits/`.

use clscope_mix::{Class, Mix, Tally};
use clscope_models::device::{Device, name};
use clscope_models::explain::{self, Options, Sure};
use clscope_models::facts::OnDevice;
use clscope_models::kernel::{Kernel, Resources};
use clscope_models::{Evidence, Figure};
use serde::Deserialize;

const ALL: Options<'static> = Options { least_share: 0.0, access_rates: false, wanted: &|_| true };

/// What was measured on one device.
#[derive(Deserialize)]
struct Measured {
    device: serde_json::Value,
    kernels: Vec<Row>,
}

/// One kernel of it.
#[derive(Deserialize)]
struct Row {
    name: String,
    /// Limits of which one is built in.
    limits: Vec<String>,
    launches: u64,
    items: u64,
    local: u64,
    time_ns: f64,
    footprint: Option<f64>,
    registers: Option<u64>,
    local_bytes: Option<u64>,
    /// Of the counter, of what it calls 100 %.
    dram_bytes: Option<f64>,
    classes: Vec<Count>,
}

/// Instructions of one class.
#[derive(Deserialize)]
struct Count {
    class: String,
    threads: u64,
    warps: Option<u64>,
    flop: u64,
    bytes: u64,
    transactions: Option<u64>,
}

fn kernel(row: &Row) -> Kernel {
    let mut mix = Mix::default();
    for c in &row.classes {
        let class = Class::of_name(&c.class).unwrap_or_else(|| panic!("{}", c.class));
        let (threads, warps, transactions) = (c.threads, c.warps, c.transactions);
        let tally =
            Tally { threads, warps, flop: c.flop, bytes: c.bytes, transactions, predicated: 0 };
        mix.classes.insert(class, tally);
    }
    let measured = |value| Figure::exact(value, Evidence::Measured);
    Kernel {
        name: row.name.clone(),
        launches: row.launches,
        total_ns: Some(row.time_ns * row.launches as f64),
        time_ns: Some(measured(row.time_ns)),
        items: Some(row.items),
        local: Some(row.local),
        sizes: 1,
        mix: Some(mix),
        footprint: row.footprint,
        dram_bytes: row.dram_bytes.map(measured),
        resources: Resources {
            registers: row.registers,
            local_bytes: row.local_bytes,
            ..Resources::default()
        },
        ..Kernel::default()
    }
}

/// The verdict on each kernel: name, whether it is right, what was said.
fn judged(text: &str) -> (Device, Vec<(String, bool, String)>) {
    let measured: Measured = serde_json::from_str(text).unwrap();
    let device = Device::read(measured.device.to_string().as_bytes()).unwrap();
    let judge = |row: &Row| {
        let of = kernel(row);
        let on = OnDevice { kernels: vec![of], ..OnDevice::default() };
        let found = explain::device(&on, Some(&device), ALL).kernels.remove(0);
        let limit = serde_json::to_value(found.limit).unwrap();
        let limit = limit.as_str().unwrap_or("none").to_owned();
        let verdict = found.statements.iter().find(|s| s.topic == "verdict").unwrap();
        assert!(found.sure != Some(Sure::Likely) || found.decide.is_some() || limit == "launch");
        let is_right = row.limits.contains(&limit);
        assert!(found.sure != Some(Sure::Certain) || is_right, "{}: {}", row.name, verdict.text);
        (row.name.clone(), is_right, format!("{limit}: {}", verdict.text))
    };
    let rows = measured.kernels.iter().map(judge).collect();
    (device, rows)
}

/// At least so many of a hundred verdicts are right, and none of those that are called certain is
/// wrong.
fn mostly_right(text: &str, least: usize) {
    let (device, rows) = judged(text);
    assert!(rows.len() >= 16 && device.get(name::INT_DIV).is_ok(), "{} rows", rows.len());
    let wrong: Vec<String> =
        rows.iter().filter(|r| !r.1).map(|(name, _, said)| format!("{name}: {said}")).collect();
    let right = rows.len() - wrong.len();
    assert!(100 * right >= least * rows.len(), "{right} of {}: {wrong:#?}", rows.len());
}

#[test]
fn causes_that_are_built_in_are_named_on_a_cpu() {
    mostly_right(include_str!("limits/intel.json"), 90);
}

#[test]
fn causes_that_are_built_in_are_named_on_a_gpu() {
    mostly_right(include_str!("limits/h200.json"), 90);
}
