//! Tests of `facts`.

use super::*;
use clscope_profile::interval::Interval;

#[test]
fn joules_that_readings_do_not_tell_apart_name_what_does() {
    let of = |why| result::Class { absence: Some(why), ..result::Class::default() };
    let once = unknown(&of(Absence::InSum), false);
    assert!(
        once.contains("only its sum with others") && once.contains("`clscope record --replay`"),
        "{once}"
    );
    let told = unknown(&of(Absence::Wide), true);
    assert!(told.contains("`clscope report --section energy` says why"), "{told}");
}

#[test]
fn counters_of_a_class_become_shares_and_bytes_of_its_kernel() {
    let class = |values: &[(&str, f64, f64)]| counters::Class {
        name: "k".to_owned(),
        kind: "kernel",
        launches: 1.0,
        busy_seconds: 1.0,
        covered_seconds: 1.0,
        values: values
            .iter()
            .map(|(name, mean, side)| {
                let mean = Interval {
                    value: *mean,
                    low: mean - side,
                    high: mean + side,
                    estimated: false,
                };
                let mean = Some(mean);
                ((*name).to_owned(), counters::Value { mean, only_with: None, why: None })
            })
            .collect(),
        clocks: None,
    };
    let fresh =
        || Kernel { time_ns: Some(Figure::exact(1e6, Evidence::Measured)), ..Kernel::default() };
    // A GPU's monitor: percent. What is not known to 15 points says nothing.
    let mut k = fresh();
    let gpm = [
        ("dram-bandwidth", 60.0, 2.0),
        ("sm-busy", 98.0, 1.0),
        ("fp32", 71.0, 3.0),
        ("fp64", 30.0, 40.0),
    ];
    counted_by(&class(&gpm), &mut k);
    assert!((k.dram_share.unwrap().value - 0.6).abs() < 1e-12);
    assert!((k.units_busy.unwrap().low - 0.97).abs() < 1e-12);
    let busy: Vec<_> = k.busy.iter().map(|(r, f)| (*r, (f.value * 100.0).round())).collect();
    assert_eq!(busy, [(Resource::Fp32, 71.0)]);
    assert_eq!(k.at_least, None);
    // Events of a CPU's threads: lines a second, of which a launch has its millisecond.
    let mut k = fresh();
    counted_by(&class(&[("cache-misses", 1e9, 1e8), ("L1-dcache-load-misses", 5e9, 0.0)]), &mut k);
    let least = k.at_least.unwrap();
    assert!((least.memory.bytes - 0.9e9 * 64.0 * 1e-3).abs() < 1.0, "{least:?}");
    assert!((least.last.bytes - 5e9 * 64.0 * 1e-3).abs() < 1.0, "{least:?}");
    assert!(k.busy.is_empty() && k.units_busy.is_none());
    // One event alone does not say which cache served what.
    let mut k = fresh();
    counted_by(&class(&[("cache-misses", 1e9, 0.0)]), &mut k);
    assert_eq!(k.at_least, None);
}
