//! What is said of kernels and devices whose figures are written here.

use super::*;
use crate::device::name;
use crate::device::tests::round;
use crate::facts::{Sized, Transfers};
use crate::hockney::{Link, Segment};
use crate::idle::{State, States};
use crate::kernel::Kernel;
use crate::kernel::tests::mix;
use clscope_mix::Class;
use clscope_profile::interval::Interval;
use clscope_trace::record::Direction;

const ALL: Options<'static> = Options { least_share: 0.0, wanted: &|_| true };

fn measured(value: f64) -> Figure {
    Figure::exact(value, Evidence::Measured)
}

fn kernel(name: &str, ns: f64) -> Kernel {
    Kernel {
        name: name.to_owned(),
        device: "Round".to_owned(),
        compute_units: Some(10),
        launches: 4,
        total_ns: Some(4.0 * ns),
        time_ns: Some(measured(ns)),
        items: Some(64 * 1024),
        local: Some(64),
        sizes: 1,
        ..Kernel::default()
    }
}

fn on(kernels: Vec<Kernel>) -> OnDevice {
    OnDevice { name: "Round".to_owned(), kernels, ..OnDevice::default() }
}

fn said<'e>(of: &'e Explanatory, topic: &str) -> Vec<&'e str> {
    of.statements.iter().filter(|s| s.topic == topic).map(|s| s.text.as_str()).collect()
}

#[test]
fn the_resource_that_binds_is_named_with_its_share_and_a_lever() {
    let mut k = kernel("copy", 130e3);
    k.mix = Some(mix(&[(Class::LoadGlobal, 2_500_000, 0, 10_000_000)]));
    k.dram_bytes = Some(measured(10e6));
    let of = device(&on(vec![k.clone()]), Some(&round()), ALL);
    let found = &of.kernels[0];
    assert_eq!(found.limit, Some(Resource::Memory));
    assert!((found.reached.unwrap() - 100.0 / 130.0).abs() < 1e-9);
    assert!(said(found, "verdict")[0].contains("bound by memory: at 77 %"), "{found:?}");
    let gain = found.levers[0].saves_ns.unwrap();
    assert!(gain.value > 0.0 && gain.value <= 4.0 * 130e3, "{gain:?}");
    // Without what memory moved, the same time is told with its condition.
    k.dram_bytes = None;
    let of = device(&on(vec![k]), Some(&round()), ALL);
    assert_eq!(of.kernels[0].limit, Some(Resource::MemoryIfMissed));
}

#[test]
fn without_parameters_and_mix_it_says_what_geometry_and_times_tell() {
    let mut k = kernel("small", 5e3);
    (k.items, k.launches) = (Some(4 * 64), 1000);
    let of = device(&on(vec![k]), None, ALL);
    let found = &of.kernels[0];
    assert_eq!(found.limit, None);
    assert!(said(found, "groups")[0].contains("4 groups for 10 compute units: 40 %"), "{found:?}");
    assert!(said(found, "launch")[0].contains("1000 launches of 5.00 us"), "{found:?}");
    assert!(said(found, "verdict").is_empty(), "no verdict without a bound");
    assert!(found.missing.iter().any(|m| m.remedy.contains("--mix")));
    assert!(of.missing[0].remedy.contains("bench model"));
    assert!(found.statements.iter().all(|s| s.evidence != Evidence::Modelled), "{found:?}");
}

#[test]
fn scattered_accesses_are_told_with_what_lying_together_would_save() {
    let mut k = kernel("scatter", 900e3);
    k.mix = Some(mix(&[
        (Class::LoadGlobal, 320_000, 0, 1_280_000),
        (Class::StoreLocal, 320_000, 0, 1_280_000),
    ]));
    let explained =
        |k: &Kernel| device(&on(vec![k.clone()]), Some(&round()), ALL).kernels[0].clone();
    let found = explained(&k);
    assert!(said(&found, "accesses").is_empty());
    assert!(found.missing.iter().any(|m| m.remedy.contains("--mix-accesses")), "{found:?}");
    for (class, transactions) in [(Class::LoadGlobal, 320_000), (Class::StoreLocal, 10_000)] {
        let tally = k.mix.as_mut().unwrap().classes.get_mut(&class).unwrap();
        tally.transactions = Some(transactions);
    }
    let found = explained(&k);
    let said = said(&found, "accesses");
    assert!(said[0].contains("takes 32.0 pieces of 32 bytes; items"), "{said:?}");
    assert!(said[0].ends_with("would take 4.0"), "{said:?}");
    assert!(said[1].ends_with("takes 1.0 passes through its banks"), "{said:?}");
    assert!(!found.missing.iter().any(|m| m.remedy.contains("--mix-accesses")), "{found:?}");
    let lever = found.levers.iter().find(|l| l.text.contains("neighbouring words")).unwrap();
    assert!(lever.text.ends_with("88 % of them less"), "{lever:?}");
    assert!((lever.saves_ns.unwrap().value - 4.0 * 900e3 * 0.875).abs() < 1.0);
}

#[test]
fn short_kernels_are_told_to_be_launches() {
    let of = device(&on(vec![kernel("tiny", 3e3)]), Some(&round()), ALL);
    let found = &of.kernels[0];
    assert_eq!(found.limit, Some(Resource::Launch));
    assert!(found.levers.iter().any(|l| l.text.contains("4 launches in one")), "{found:?}");
}

#[test]
fn kernels_that_do_not_matter_are_counted_and_left_out() {
    let some = vec![kernel("long", 1e6), kernel("short", 1e3)];
    let of = device(&on(some), None, Options { least_share: 0.01, ..ALL });
    assert_eq!((of.kernels.len(), of.more_kernels), (1, 1));
    assert!(of.more_share < 0.01);
    let wanted = Options { least_share: 0.0, wanted: &|name| name == "short" };
    let of = device(&on(vec![kernel("long", 1e6), kernel("short", 1e3)]), None, wanted);
    assert_eq!(of.kernels[0].kernel, "short");
}

#[test]
fn transfers_are_fitted_by_their_own_sizes() {
    let mut sizes = std::collections::BTreeMap::new();
    for (bytes, count) in [(64, 1000), (4096, 500), (1 << 20, 3)] {
        let ns = (10e3 + bytes as f64 / 10.0) * count as f64;
        sizes.insert(bytes, Sized { count, timed: count, ns, blocking: count });
    }
    let mut of = on(vec![kernel("k", 1e6)]);
    of.transfers.insert(Direction::HostToDevice, Transfers { sizes });
    let mut device_file = round();
    let link = |memory: &str, rate| Link {
        direction: "to_device".to_owned(),
        memory: memory.to_owned(),
        segments: vec![Segment { from_bytes: 0.0, latency_ns: 2e3, gigabytes_per_second: rate }],
        misfit: 0.02,
        watts: None,
    };
    device_file.links = vec![link("pageable", 10.0), link("pinned", 50.0)];
    let found = device(&of, Some(&device_file), ALL);
    let moved = &found.transfers[0];
    assert!((moved.latency_ns.unwrap() / 10e3 - 1.0).abs() < 0.01, "{moved:?}");
    assert!((moved.gigabytes_per_second.unwrap() - 10.0).abs() < 0.1);
    assert!(moved.levers.iter().any(|l| l.text.contains("instead of 1503")), "{moved:?}");
    assert!(moved.levers.iter().any(|l| l.text.contains("CL_MEM_ALLOC_HOST_PTR")), "{moved:?}");
}

#[test]
fn gaps_are_priced_by_the_devices_states() {
    let mut of = on(vec![kernel("k", 1e6)]);
    (of.busy_s, of.gaps) = (Some(2.0), vec![4.0; 5]);
    let state = |watts, hold_s| State {
        watts: Interval::estimated(watts, watts, watts),
        clock_mhz: None,
        hold_s,
    };
    let mut device_file = round();
    device_file.idle = Some(States {
        states: vec![state(120.0, Some(10.0)), state(80.0, None)],
        watched_s: 60.0,
        runs: 3,
    });
    let found = device(&of, Some(&device_file), ALL);
    assert!(found.idle[0].text.contains("idle 91 % of 22.0 s"), "{:?}", found.idle);
    assert!(found.idle[1].text.contains("2.40 kJ"), "{:?}", found.idle);
    // 20 s in one: 10 s at 120 W and 10 s at 80 W.
    let saved = found.idle_levers[0].saves_joules.unwrap();
    assert!((saved.value - 400.0).abs() < 1e-6, "{saved:?}");
}

#[test]
fn counters_and_the_ceiling_give_bytes() {
    let mut k = kernel("copy", 100e3);
    k.dram_share = Some(measured(0.45));
    let mut device_file = round();
    device_file.keep_parameter(name::DRAM_COUNTER, measured(90.0), "%", "test");
    let found = device(&on(vec![k]), Some(&device_file), ALL);
    // Half of the ceiling's 100 GB/s for 100 us.
    assert!((found.kernels[0].dram_bytes.unwrap().value - 5e6).abs() < 1.0);
}
