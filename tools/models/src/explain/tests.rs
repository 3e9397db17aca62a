//! What is said of kernels and devices whose figures are written here.

use super::*;
use crate::device::name;
use crate::device::tests::round;
use crate::facts::{Sized, Transfers};
use crate::hockney::{Link, Segment};
use crate::idle::{State, States};
use crate::kernel::Kernel;
use crate::kernel::tests::mix;
use clscope_analysis::host_memory::Class as HostClass;
use clscope_mix::Class;
use clscope_profile::interval::Interval;
use clscope_trace::record::Direction;

const ALL: Options<'static> = Options { least_share: 0.0, access_rates: false, wanted: &|_| true };

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
    assert_eq!((found.limit, found.sure), (Some(Resource::Launch), Some(Sure::Likely)));
    assert!(said(found, "groups")[0].contains("4 groups for 10 compute units: 40 %"), "{found:?}");
    assert!(said(found, "launch")[0].contains("1000 launches of 5.00 us"), "{found:?}");
    assert!(found.bounds.is_empty() && found.reached.is_none(), "no figure without a ceiling");
    assert!(found.missing.iter().any(|m| m.remedy.contains("--mix")));
    assert!(of.missing[0].remedy.contains("bench model"));
    let mut others = found.statements.iter().filter(|s| s.topic != "verdict");
    assert!(others.all(|s| s.evidence != Evidence::Modelled), "{found:?}");
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
    assert!(found.missing.iter().any(|m| m.remedy.contains("--mix=accesses")), "{found:?}");
    for (class, transactions) in [(Class::LoadGlobal, 320_000), (Class::StoreLocal, 10_000)] {
        let tally = k.mix.as_mut().unwrap().classes.get_mut(&class).unwrap();
        tally.transactions = Some(transactions);
    }
    let found = explained(&k);
    let said = said(&found, "accesses");
    assert!(said[0].contains("takes 32.0 pieces of 32 bytes; items"), "{said:?}");
    assert!(said[0].ends_with("would take 4.0"), "{said:?}");
    assert!(said[1].ends_with("takes 1.0 passes through its banks"), "{said:?}");
    assert!(!found.missing.iter().any(|m| m.remedy.contains("--mix=accesses")), "{found:?}");
    let lever = found.levers.iter().find(|l| l.text.contains("neighbouring words")).unwrap();
    assert!(lever.text.ends_with("88 % of them less"), "{lever:?}");
    // No more than the nearest cache takes for all pieces: 10.24 MB at 1000 GB/s, a launch.
    let saves = lever.saves_ns.unwrap();
    assert!((saves.value - 4.0 * 10_240.0 * 0.875).abs() < 1.0, "{saves:?}");
    assert_eq!((lever.evidence, saves.low), (Evidence::Modelled, 0.0));
    // Nor can what launching takes be saved; and without ceilings nobody knows.
    k.time_ns = Some(measured(7e3));
    let found = explained(&k);
    let lever = found.levers.iter().find(|l| l.text.contains("neighbouring words")).unwrap();
    assert!((lever.saves_ns.unwrap().value - 4.0 * 5e3 * 0.875).abs() < 1.0, "{lever:?}");
    let bare = device(&on(vec![k]), None, ALL);
    let lever = bare.kernels[0].levers.iter().find(|l| l.text.contains("neighbouring")).unwrap();
    assert_eq!(lever.saves_ns, None);
}

#[test]
fn short_kernels_are_told_to_be_launches() {
    let of = device(&on(vec![kernel("tiny", 3e3)]), Some(&round()), ALL);
    let found = &of.kernels[0];
    assert_eq!(found.limit, Some(Resource::Launch));
    assert!(found.levers.iter().any(|l| l.text.contains("4 launches in one")), "{found:?}");
    let mut once = kernel("once", 3e3);
    once.launches = 1;
    let of = device(&on(vec![once]), Some(&round()), ALL);
    assert!(!of.kernels[0].levers.iter().any(|l| l.text.contains("in one")), "{of:?}");
}

#[test]
fn idle_lanes_save_no_more_than_their_resource_takes() {
    let mut k = kernel("uneven", 900e3);
    let mut m = mix(&[(Class::SingleArith, 16_000, 16_000, 0)]);
    m.classes.get_mut(&Class::SingleArith).unwrap().warps = Some(1000);
    k.mix = Some(m);
    let mut device_file = round();
    device_file.keep_parameter(name::ISSUE, measured(10.0), "ns", "test");
    let found = device(&on(vec![k]), Some(&device_file), ALL).kernels[0].clone();
    let lever = found.levers.iter().find(|l| l.text.contains("idle lanes")).unwrap();
    // 1000 instructions on 10 units at 10 ns: 1 us a launch, of which half is idle.
    assert!((lever.saves_ns.unwrap().value - 4.0 * 1000.0 * 0.5).abs() < 1.0, "{lever:?}");
    assert_eq!(lever.evidence, Evidence::Modelled);
    // Of one item the other lanes are idle whatever it does.
    let mut one = mix(&[(Class::SingleArith, 1000, 1000, 0)]);
    one.classes.get_mut(&Class::SingleArith).unwrap().warps = Some(1000);
    let one = Kernel { mix: Some(one), items: Some(1), local: Some(1), ..kernel("one", 900e3) };
    let found = device(&on(vec![one]), Some(&device_file), ALL).kernels[0].clone();
    assert!(!found.levers.iter().any(|l| l.text.contains("idle lanes")), "{found:?}");
}

#[test]
fn what_starting_costs_is_no_verdict_on_work_that_nobody_counted() {
    let mut device_file = round();
    device_file.keep_parameter(name::GROUP, measured(200.0), "ns", "test");
    // 1024 groups on 10 units: 20 us of 100.
    let k = kernel("unknown", 100e3);
    let found = device(&on(vec![k.clone()]), Some(&device_file), ALL).kernels[0].clone();
    let verdict = said(&found, "verdict")[0];
    assert!(verdict.starts_with("likely memory if caches served nothing: neither"), "{verdict}");
    let next = found.next.map(|next| next.resource);
    assert_eq!((next, found.reached), (Some(Resource::Latency), None));
    assert!(found.decide.as_ref().is_some_and(|d| d.contains("record --mix")), "{found:?}");
    assert!(found.missing.iter().any(|m| m.remedy.contains("--mix")), "{found:?}");
    // From a quarter of its time on, launching is said, in words and as a value alike.
    let k = Kernel { time_ns: Some(measured(7e3)), items: Some(640), ..k };
    let found = device(&on(vec![k]), Some(&device_file), ALL).kernels[0].clone();
    assert_eq!(found.limit, Some(Resource::Launch));
    assert!(said(&found, "verdict")[0].starts_with("likely launching: 29 %"), "{found:?}");
}

#[test]
fn conditions_stand_beside_the_bounds_that_have_them() {
    let mut k = kernel("logic", 100e3);
    k.mix = Some(mix(&[
        (Class::IntLogic, 10_000_000, 0, 0),
        (Class::LoadGlobal, 250_000, 0, 1_000_000),
    ]));
    let mut device_file = round();
    device_file.keep_parameter(name::INTEGER, measured(50.0), "GOP/s", "test");
    let found = device(&on(vec![k]), Some(&device_file), ALL).kernels[0].clone();
    let bounds = said(&found, "bounds")[0];
    assert!(
        bounds.starts_with("needs at least 2.00 us launching | 1.00 us the nearest"),
        "{bounds}"
    );
    let (certain, conditional) = bounds.split_once("; ").unwrap();
    assert!(!certain.contains("integer"), "{bounds}");
    assert!(conditional.contains("200 us integer arithmetic if the compiler merged"), "{bounds}");
    // Twice of what there is time for is likely, and no share of the time.
    assert_eq!((found.limit, found.sure), (Some(Resource::Integer), Some(Sure::Likely)));
    assert_eq!(found.reached, None);
    let verdict = said(&found, "verdict")[0];
    assert!(verdict.contains("the compiler merged some"), "{verdict}");
    assert!(found.decide.is_some() && found.levers.iter().all(|l| l.saves_ns.is_none()));
}

#[test]
fn warps_that_were_not_launched_are_not_resident() {
    let mut device_file = round();
    (device_file.capability, device_file.compute_units) = (Some((9, 0)), 10);
    let mut k = kernel("few", 900e3);
    (k.items, k.local) = (Some(64 * 30), Some(64));
    k.mix = Some(mix(&[(Class::SingleArith, 16_000, 16_000, 0)]));
    let found = device(&on(vec![k.clone()]), Some(&device_file), ALL).kernels[0].clone();
    let text = said(&found, "occupancy")[0];
    assert!(text.starts_with("6.0 warps a compute unit, 9.4 %"), "{text}");
    assert!(text.contains("limited by groups launched") && text.contains("64 would fit"), "{text}");
    assert!(
        found.levers.iter().any(|l| l.text.starts_with("more groups, or smaller")),
        "{found:?}"
    );
    k.items = Some(64 * 3000);
    let found = device(&on(vec![k]), Some(&device_file), ALL).kernels[0].clone();
    assert!(said(&found, "occupancy")[0].contains("64 warps resident, 100 %"), "{found:?}");
}

/// With an energy model of 10 nJ a byte of memory, on a floor of 50 W.
fn priced() -> Device {
    let joules = Interval::estimated(1e-8, 1e-8, 1e-8);
    let model = crate::energy::EnergyModel {
        floor_watts: 50.0,
        terms: [("memory".to_owned(), crate::energy::Term { joules })].into(),
        error: 0.1,
        observations: 20,
    };
    Device { energy: Some(model), ..round() }
}

#[test]
fn joules_stand_on_the_floor_of_the_run_and_judge_the_model_only_where_known() {
    let mut k = kernel("copy", 1e6);
    k.mix = Some(mix(&[(Class::LoadGlobal, 2_500_000, 0, 10_000_000)]));
    k.dram_bytes = Some(measured(10e6));
    (k.floor_watts, k.joules) =
        (Some(measured(100.0)), Some(Figure::new(0.25, 0.24, 0.26, Evidence::Measured)));
    let explained =
        |k: &Kernel| device(&on(vec![k.clone()]), Some(&priced()), ALL).kernels[0].clone();
    let found = explained(&k);
    let floor = found.joule_parts.iter().find(|p| p.name == "floor").unwrap();
    assert!((floor.joules - 0.1).abs() < 1e-9, "{floor:?}");
    assert!((found.modelled_joules.unwrap().value - 0.2).abs() < 1e-9, "{found:?}");
    assert!(said(&found, "joules")[0].contains("the energy model has 200 mJ (-20 %)"), "{found:?}");
    k.joules = Some(Figure::new(0.25, 0.15, 0.35, Evidence::Measured));
    let text = said(&explained(&k), "joules")[0].to_owned();
    assert!(text.ends_with("the energy model has 200 mJ"), "{text}");
    // Less than the floor alone takes.
    k.joules = Some(Figure::new(0.05, 0.049, 0.051, Evidence::Measured));
    let text = said(&explained(&k), "joules")[0].to_owned();
    assert!(text.contains("less than the 100 mJ that idle power (100 W) takes"), "{text}");
    // By less than the figure is open.
    k.joules = Some(Figure::new(0.0999, 0.098, 0.102, Evidence::Measured));
    let text = said(&explained(&k), "joules")[0].to_owned();
    assert!(text.contains(", about what idle power (100 W) takes"), "{text}");
}

#[test]
fn access_rates_are_told_on_request() {
    let mut k = kernel("copy", 1e6);
    k.mix = Some(mix(&[(Class::LoadGlobal, 2_500_000, 0, 10_000_000)]));
    k.dram_bytes = Some(measured(10e6));
    k.joules = Some(measured(0.25));
    let mut device_file = priced();
    let asked = Options { access_rates: true, ..ALL };
    let of = |file: &Device, options| {
        device(&on(vec![k.clone()]), Some(file), options).kernels[0].clone()
    };
    assert!(of(&device_file, asked).missing.iter().any(|m| m.what.contains("clock")));
    device_file.keep_parameter(name::CLOCK, measured(1000.0), "MHz", "test");
    assert_eq!(of(&device_file, ALL).access_rates, None);
    let found = of(&device_file, asked);
    // 10 MB at 100 GB/s, and 1 W while memory is busy.
    let rates = found.access_rates.as_ref().unwrap();
    assert!(
        (rates.time_ns - 100e3).abs() < 1.0 && (rates.runtime_watts - 1000.0).abs() < 1e-6,
        "{rates:?}"
    );
    let text = said(&found, "rates")[0];
    assert!(text.starts_with("all cycles one after another take 100 us of 1.00 ms"), "{text}");
    assert!(text.ends_with("left out: active, caches, last cache"), "{text}");
}

#[test]
fn joules_that_are_not_known_are_told_with_what_gives_them() {
    let mut k = kernel("copy", 1e6);
    let lacks = |k: &Kernel, of: Option<&str>| {
        let of = OnDevice { unmetered: of.map(str::to_owned), ..on(vec![k.clone()]) };
        let missing = device(&of, None, ALL).kernels[0].missing.clone();
        missing.into_iter().find(|m| m.what.contains("joules")).map(|m| m.remedy)
    };
    assert!(lacks(&k, None).unwrap().contains("record --replay"));
    k.unmetered = Some("the readings know it only as a sum with others".to_owned());
    assert!(lacks(&k, None).unwrap().contains("only as a sum"));
    // What the device says is not said again of each kernel.
    k.unmetered = Some("no sensor".to_owned());
    assert_eq!(lacks(&k, Some("no sensor")), None);
    k.joules = Some(measured(1.0));
    assert_eq!(lacks(&k, None), None);
}

#[test]
fn kernels_that_do_not_matter_are_counted_and_left_out() {
    let some = vec![kernel("long", 1e6), kernel("short", 1e3)];
    let of = device(&on(some), None, Options { least_share: 0.01, ..ALL });
    assert_eq!((of.kernels.len(), of.more_kernels), (1, 1));
    assert!(of.more_share < 0.01);
    let wanted = Options { least_share: 0.0, access_rates: false, wanted: &|name| name == "short" };
    let of = device(&on(vec![kernel("long", 1e6), kernel("short", 1e3)]), None, wanted);
    assert_eq!(of.kernels[0].kernel, "short");
}

/// A device of one kind of transfers: (bytes, how many) that take `ns` each.
fn moving(sizes: &[(u64, u64)], ns: impl Fn(f64) -> f64) -> OnDevice {
    let sizes = sizes.iter().map(|&(bytes, count)| {
        let all = ns(bytes as f64) * count as f64;
        (bytes, Sized { count, timed: count, ns: all, blocking: count })
    });
    let mut of = on(vec![kernel("k", 1e6)]);
    let transfers = Transfers { sizes: sizes.collect(), ..Transfers::default() };
    let by_memory = [(HostClass::Unknown, transfers.clone())].into();
    of.transfers.insert(Direction::HostToDevice, Transfers { by_memory, ..transfers });
    of
}

/// A device file with pageable memory of 10 GB/s and pinned memory of 50, the host's wait 14 us.
fn linked() -> Device {
    let link = |memory: &str, rate| Link {
        direction: "to_device".to_owned(),
        memory: memory.to_owned(),
        segments: vec![Segment { from_bytes: 0.0, latency_ns: 14e3, gigabytes_per_second: rate }],
        misfit: 0.02,
        watts: None,
    };
    Device { links: vec![link("pageable", 10.0), link("pinned", 50.0)], ..round() }
}

fn offers(of: &Moved, part: &str) -> bool {
    of.levers.iter().any(|l| l.text.contains(part))
}

#[test]
fn transfers_are_fitted_by_their_own_sizes() {
    let some = [(64, 1000), (4096, 500), (1 << 20, 3)];
    let found = device(&moving(&some, |b| 10e3 + b / 10.0), Some(&linked()), ALL);
    let moved = &found.transfers[0];
    assert!((moved.latency_ns.unwrap() / 10e3 - 1.0).abs() < 0.01, "{moved:?}");
    assert!((moved.gigabytes_per_second.unwrap() - 10.0).abs() < 0.1);
    assert!(offers(moved, "instead of 1503"), "{moved:?}");
    let text = &moved.statements.iter().find(|s| s.topic == "latency").unwrap();
    assert_eq!(text.evidence, Evidence::Modelled);
    assert!(text.text.starts_with("by size: 10.0 us + size / 10.0 GB/s"), "{text:?}");
    // Each piece stands with its own numbers.
    let cost = |b: f64| if b < 65_536.0 { 2e3 + b / 4.0 } else { 9e3 + b / 50.0 };
    let sizes: Vec<(u64, u64)> = (4..26).map(|e| (1 << e, 1)).collect();
    let found = device(&moving(&sizes, cost), None, ALL);
    let text = &found.transfers[0].statements[1].text;
    assert!(text.contains("2.00 us + size / 4.00 GB/s, from 64.0 KiB on 9.00 us + size"), "{text}");
    assert_eq!(found.transfers[0].segments.len(), 2);
}

#[test]
fn what_a_fit_misses_is_not_told_by_it() {
    let some = [(64, 1000), (4096, 500), (65_536, 40), (1 << 20, 3)];
    let odd = |b: f64| if b == 4096.0 { 900e3 } else { 10e3 + b / 10.0 };
    let found = device(&moving(&some, odd), Some(&linked()), ALL);
    let moved = &found.transfers[0];
    assert!(moved.misfit.unwrap() > 0.25, "{moved:?}");
    assert_eq!((moved.latency_ns, moved.segments.len()), (None, 0));
    assert!(moved.statements.iter().all(|s| s.topic != "latency" && s.topic != "batching"));
    assert!(!offers(moved, "would save the latencies"), "{moved:?}");
    assert!(moved.missing.iter().any(|m| m.remedy.contains("do not follow")), "{moved:?}");
}

#[test]
fn one_transfer_never_saves_what_its_bytes_take() {
    // Of two sizes latency and bandwidth cannot be told apart; the host's latency is not the
    // device's.
    let found = device(&moving(&[(1 << 20, 200), (1 << 21, 2)], |b| b / 8.0), Some(&linked()), ALL);
    assert!(!offers(&found.transfers[0], "would save the latencies"), "{found:?}");
    // Latency is most of the time, and the bytes still take theirs.
    let some = [(1000, 1000), (2000, 1000), (3000, 1000)];
    let found = device(&moving(&some, |b| 200.0 + b / 10.0), None, ALL);
    let lever = &found.transfers[0].levers[0];
    let (all, least) = (3.0 * 400e3, 6e6 / 10.0);
    assert!((all - least - lever.saves_ns.unwrap().value).abs() < 0.01 * all, "{lever:?}");
}

/// As [`moving`], of one class of host memory.
fn moving_of(class: HostClass, sizes: &[(u64, u64)], ns: impl Fn(f64) -> f64) -> OnDevice {
    let mut of = moving(sizes, ns);
    let transfers = of.transfers.get_mut(&Direction::HostToDevice).unwrap();
    let all = transfers.by_memory.remove(&HostClass::Unknown).unwrap();
    transfers.by_memory.insert(class, all);
    of
}

/// Pinned memory is offered for the application's own memory alone, on devices that have memory of
/// their own, where transfers are nearer to the measured times of pageable memory than of pinned.
#[test]
fn pinned_memory_is_offered_where_copies_are_pageable_and_by_its_ratio() {
    let own = HostClass::Application;
    let found = |of: &OnDevice, file: &Device| device(of, Some(file), ALL).transfers.remove(0);
    // Device times of pageable transfers: 9 GB/s without the host's wait.
    let some = [(1 << 24, 4)];
    let moved = found(&moving_of(own, &some, |b| b / 9.0), &linked());
    let lever = moved.levers.iter().find(|l| l.text.contains("CL_MEM_ALLOC_HOST_PTR")).unwrap();
    assert!(lever.text.contains("for 4 of 4 from the application's own memory"), "{lever:?}");
    let all = 4.0 * (1u64 << 24) as f64;
    let kept = (56e3 + all / 50.0) / (56e3 + all / 10.0);
    let saved = lever.saves_ns.unwrap();
    assert!((saved.value - all / 9.0 * (1.0 - kept)).abs() < 1.0, "{saved:?}");
    assert!(saved.low > 0.0 && saved.low < saved.value && saved.value < saved.high);
    assert!(saved.high <= all / 9.0, "no more than they take: {saved:?}");
    assert_eq!((lever.over.count, lever.over.what), (4, "transfers"));
    // Of other memory, or of memory that is not known, nothing is offered.
    for class in [HostClass::Pinned, HostClass::Mapped, HostClass::Unknown] {
        let moved = found(&moving_of(class, &some, |b| b / 9.0), &linked());
        assert!(!offers(&moved, "CL_MEM_ALLOC_HOST_PTR"), "{moved:?}");
    }
    // As fast as pinned memory: it was pinned by other means. Between the two the nearer one decides.
    for (rate, is_pageable) in [(52.0, false), (30.0, false), (20.0, true), (4.0, true)] {
        let moved = found(&moving_of(own, &some, |b| b / rate), &linked());
        assert_eq!(offers(&moved, "pinned"), is_pageable, "{rate}: {moved:?}");
    }
    // Where pinned memory is no faster, nothing is offered, however slow the transfers were.
    let mut same = linked();
    same.links[1].segments = same.links[0].segments.clone();
    let moved = found(&moving_of(own, &some, |b| b / 2.0), &same);
    assert!(!offers(&moved, "pinned"), "{moved:?}");
    // Small ones wait for the host, and not for the bytes.
    let moved = found(&moving_of(own, &[(256, 1000)], |_| 9e3), &linked());
    assert!(!offers(&moved, "pinned"), "{moved:?}");
    // A CPU copies within one memory.
    let cpu = Device { kind: "cpu".to_owned(), ..linked() };
    let moved = found(&moving_of(own, &some, |b| b / 9.0), &cpu);
    assert!(!offers(&moved, "pinned") && moved.missing.iter().all(|m| !m.what.contains("pinned")));
}

/// As [`moving`] from pageable memory, half of it pinned.
fn half_pinned() -> OnDevice {
    let mut of = moving(&[(1 << 24, 8)], |b| b / 9.0);
    let transfers = of.transfers.get_mut(&Direction::HostToDevice).unwrap();
    let of_class = |ns: f64| {
        let one = Sized { count: 4, timed: 4, ns: ns * 4.0, blocking: 4 };
        Transfers { sizes: [(1 << 24, one)].into(), ..Transfers::default() }
    };
    let bytes = f64::from(1 << 24);
    let classes = [
        (HostClass::Pinned, of_class(bytes / 50.0)),
        (HostClass::Application, of_class(bytes / 9.0)),
    ];
    transfers.by_memory = classes.into();
    transfers.sizes = transfers.of_memory(&[HostClass::Pinned, HostClass::Application]).sizes;
    of
}

#[test]
fn pinned_memory_is_offered_to_what_does_not_use_it() {
    let mut of = half_pinned();
    let found = device(&of, Some(&linked()), ALL);
    let moved = &found.transfers[0];
    let rows = moved.host_memory.unwrap();
    let counts = [rows.pinned, rows.mapped, rows.application, rows.unknown].map(|row| row.count);
    assert_eq!((counts, rows.pinned.bytes), ([4, 0, 4, 0], 4.0 * f64::from(1 << 24)));
    let said = &moved.statements.iter().find(|s| s.topic == "memory").unwrap();
    assert_eq!(said.evidence, Evidence::Measured);
    assert!(
        said.text.starts_with("4 transfers (64.0 MiB) from mapped memory that OpenCL"),
        "{said:?}"
    );
    assert!(
        said.text.ends_with("4 transfers (64.0 MiB) from the application's own memory"),
        "{said:?}"
    );
    let lever = moved.levers.iter().find(|l| l.text.contains("CL_MEM_ALLOC_HOST_PTR")).unwrap();
    assert!(lever.text.contains("for 4 of 8 from the application's own memory"), "{lever:?}");
    // By the time of those four alone.
    let bytes = 4.0 * f64::from(1 << 24);
    let kept = (56e3 + bytes / 50.0) / (56e3 + bytes / 10.0);
    let saved = lever.saves_ns.unwrap();
    assert!((saved.value - bytes / 9.0 * (1.0 - kept)).abs() < 1.0, "{saved:?}");
    assert!(!moved.missing.iter().any(|m| m.what.contains("memory of the host")), "{moved:?}");

    let transfers = of.transfers.get_mut(&Direction::HostToDevice).unwrap();
    let own = transfers.by_memory.remove(&HostClass::Application).unwrap();
    transfers.by_memory.insert(HostClass::Unknown, own.clone());
    let found = device(&of, Some(&linked()), ALL);
    let moved = &found.transfers[0];
    assert!(!offers(moved, "CL_MEM_ALLOC_HOST_PTR"), "{moved:?}");
    assert!(moved.missing.iter().any(|m| m.what.contains("4 of 8 transfers use")), "{moved:?}");

    // Nothing is left to be pinned.
    let transfers = of.transfers.get_mut(&Direction::HostToDevice).unwrap();
    transfers.by_memory.remove(&HostClass::Unknown);
    transfers.by_memory.insert(HostClass::Mapped, own);
    let found = device(&of, Some(&linked()), ALL);
    assert!(!offers(&found.transfers[0], "CL_MEM_ALLOC_HOST_PTR"), "{found:?}");
}

#[test]
fn gaps_are_priced_by_the_devices_states() {
    let mut of = on(vec![kernel("k", 1e6)]);
    (of.busy_s, of.gaps) = (Some(2.0), vec![4.0; 5]);
    let state = |watts, hold_ns| State {
        watts: Interval::estimated(watts, watts, watts),
        clock_mhz: None,
        hold_ns,
    };
    let mut device_file = round();
    device_file.idle = Some(States {
        states: vec![state(120.0, Some(10e9)), state(80.0, None)],
        watched_ns: 60e9,
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

#[test]
fn what_counters_saw_comes_before_what_is_modelled() {
    // 10 million sums of 32 bits: by the ceiling nearly all of the time.
    let mut k = kernel("sums", 110e3);
    k.mix = Some(mix(&[(Class::SingleArith, 100_000_000, 100_000_000, 0)]));
    let mut device_file = round();
    device_file.keep_parameter("rate.fp32.add", measured(1000.0), "GFLOP/s", "test");
    let limit =
        |k: &Kernel| device(&on(vec![k.clone()]), Some(&device_file), ALL).kernels.remove(0);
    let limit_of = |k: &Kernel| limit(k).limit;
    let modelled = limit(&k);
    assert_eq!(modelled.limit, Some(Resource::Fp32), "{modelled:?}");
    // The unit is seen to rest, and another one to be busy.
    k.busy = [(Resource::Fp32, measured(0.2)), (Resource::Integer, measured(0.85))].into();
    k.units_busy = Some(measured(0.97));
    let found = limit(&k);
    assert_eq!((found.limit, found.sure), (Some(Resource::Integer), Some(Sure::Certain)));
    assert!((found.reached.unwrap() - 0.85).abs() < 1e-9);
    assert!(said(&found, "verdict")[0].contains("measured, it was busy for 85 %"), "{found:?}");
    let busy = "measured: busy part of the time: compute units 97 %, integer arithmetic 85 %, FP32 arithmetic 20 %";
    assert_eq!(said(&found, "busy"), [busy]);
    // Units that have no work wait for others.
    k.busy = [(Resource::Fp32, measured(0.02))].into();
    k.units_busy = Some(measured(0.1));
    let found = limit(&k);
    assert_eq!(found.limit, Some(Resource::IdleUnits), "{found:?}");
    assert!(said(&found, "verdict")[0].contains("no work for 90 % of the time"), "{found:?}");
    // That groups are uneven is said where they were counted.
    for (times, limit) in [(1.2, Resource::IdleUnits), (40.0, Resource::UnevenGroups)] {
        let k = Kernel { longest_group: Some(times), ..k.clone() };
        assert_eq!(limit_of(&k), Some(limit));
    }
    // Memory's share says which level served the bytes, with the device's ceiling or without.
    k.mix = Some(mix(&[(Class::LoadGlobal, 2_500_000, 0, 10_000_000)]));
    (k.busy, k.units_busy) = ([].into(), None);
    k.dram_share = Some(measured(0.05));
    let found = limit(&k);
    assert!(found.limit != Some(Resource::MemoryIfMissed), "{found:?}");
    k.dram_share = Some(measured(0.9));
    let found = limit(&k);
    assert_eq!(
        (found.limit, found.sure),
        (Some(Resource::Memory), Some(Sure::Certain)),
        "{found:?}"
    );
}

#[test]
fn one_long_group_among_short_ones_is_what_others_wait_for() {
    // 1024 groups of 2 warps, of 32 sums each but one; a sum waits 4 ns for the one before.
    let mut device_file = round();
    device_file.keep_parameter(name::LATENCY_ADD, measured(4.0), "ns", "test");
    let mut k = kernel("tail", 400e3);
    k.mix = Some(mix(&[(Class::SingleArith, 64 * 1024 * 32, 64 * 1024 * 32, 0)]));
    let took = |k: &Kernel| device(&on(vec![k.clone()]), Some(&device_file), ALL).kernels.remove(0);
    let even = took(&k);
    assert!(even.limit != Some(Resource::UnevenGroups), "{even:?}");
    // A warp of the mean waits 128 ns. The longest group takes 3000 times that.
    k.longest_group = Some(3000.0);
    let uneven = took(&k);
    assert_eq!((uneven.limit, uneven.sure), (Some(Resource::UnevenGroups), Some(Sure::Likely)));
    let bound = uneven.bounds.iter().find(|b| b.resource == Resource::UnevenGroups).unwrap();
    assert!((bound.ns.value - 384e3).abs() < 1.0, "{bound:?}");
    assert!(uneven.levers.iter().any(|l| l.text.contains("the longest first")), "{uneven:?}");
    // Groups that differ little are no reason.
    k.longest_group = Some(1.9);
    assert!(took(&k).bounds.iter().all(|b| b.resource != Resource::UnevenGroups));
}
