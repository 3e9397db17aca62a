//! What is predicted of kernels and devices whose figures are written here.

use super::*;
use crate::device::tests::{made, round};
use crate::kernel::Resources;
use crate::kernel::tests::{counted, launched, mix};
use clscope_mix::Class;
use proptest::prelude::*;

fn kernel() -> Kernel {
    Kernel {
        name: "k".to_owned(),
        device: "Round".to_owned(),
        compute_units: Some(10),
        launches: 5,
        time_ns: Some(Figure::new(102e3, 101e3, 103e3, Evidence::Measured)),
        items: Some(64 * 1000),
        local: Some(64),
        mix: Some(mix(&[(Class::LoadGlobal, 2_500_000, 0, 10_000_000)])),
        dram_bytes: Some(Figure::exact(1e7, Evidence::Measured)),
        ..Kernel::default()
    }
}

#[test]
fn twice_the_work_takes_twice_as_long_beyond_the_launch() {
    let device = round();
    let change = Change { scale: Some(2.0), ..Change::default() };
    let p = predict(&kernel(), Some(&device), &change).unwrap();
    assert!((p.ns.value - 202e3).abs() < 1.0, "{p:?}");
    assert!(p.ns.low < 202e3 && 202e3 < p.ns.high && p.ns.evidence == Evidence::Modelled);
    assert!(p.joules.is_none() && p.missing.iter().any(|m| m.what.contains("joules")), "{p:?}");
}

/// Items that wait for a chain of their own take as long beside others, until a unit has no room
/// for more of them; by the code's dependences, and where these are not known.
#[test]
fn a_chain_takes_as_long_beside_another_one() {
    let mut device = round();
    (device.capability, device.lanes) = (Some((9, 0)), Some(32));
    let latencies =
        [(name::LATENCY_ADD, 2.0), (name::LATENCY_MEMORY, 500.0), (name::LATENCY_LOCAL, 20.0)];
    for (key, ns) in latencies {
        device.keep_parameter(key, Figure::exact(ns, Evidence::Measured), "ns", "test");
    }
    let load = clscope_mix::Instruction {
        bytes: 4,
        writes: vec![1],
        reads: vec![1],
        ..clscope_mix::Instruction::new(Class::LoadGlobal)
    };
    let chain = clscope_mix::Block { instructions: vec![load] };
    for blocks in [vec![(chain, 10_000.0)], Vec::new()] {
        let one = Kernel {
            items: Some(32),
            local: Some(32),
            mix: Some(mix(&[(Class::LoadGlobal, 32 * 10_000, 0, 4 * 32 * 10_000)])),
            time_ns: Some(Figure::exact(5e6, Evidence::Measured)),
            dram_bytes: None,
            footprint: Some(1e9),
            blocks,
            ..kernel()
        };
        for by in [2.0, 8.0] {
            let change = Change { scale: Some(by), ..Change::default() };
            let of = predict(&one, Some(&device), &change).unwrap().ns;
            assert!(of.value > 4e6 && of.value < 6.5e6, "{by}: {of:?}");
            assert!(of.low <= 5e6 && 5e6 <= of.high, "{by}: {of:?}");
        }
    }
}

/// Scattered reads of twice as many bytes may leave a cache that held the first ones, and atomics
/// may meet that did not.
#[test]
fn intervals_hold_what_changes_with_the_set_and_with_who_meets() {
    let mut device = round();
    device.kind = "cpu".to_owned();
    let level = |bytes, gigabytes_per_second| crate::device::Level { bytes, gigabytes_per_second };
    device.levels = vec![level(1e6, 100.0), level(8e6, 50.0), level(16e6, 10.0)];
    for key in [name::L2, name::L2_BYTES] {
        device.parameters.remove(key);
    }
    for (key, rate) in [(name::ATOMIC, 10.0), (name::ATOMIC_WORD, 0.5)] {
        device.keep_parameter(key, Figure::exact(rate, Evidence::Measured), "Gop/s", "test");
    }
    let change = Change { scale: Some(2.0), ..Change::default() };
    let gather = Kernel { footprint: Some(8e6), dram_bytes: None, ..kernel() };
    let of = predict(&gather, Some(&device), &change).unwrap().ns;
    assert!(of.high >= 2.0 * 5.0 * 0.9 * 101e3 && of.low <= 202e3, "{of:?}");
    let meeting = Kernel {
        mix: Some(mix(&[(Class::AtomicGlobal, 1_000_000, 0, 4_000_000)])),
        footprint: Some(4e3),
        ..gather
    };
    let of = predict(&meeting, Some(&device), &change).unwrap().ns;
    // 2M atomics on words of their own, and on one.
    assert!(of.low <= 0.21e6 && of.high >= 3.9e6, "{of:?}");
}

#[test]
fn another_device_and_another_clock_move_the_bound_that_binds() {
    let device = round();
    let mut fast = round();
    fast.keep_parameter(name::DRAM, Figure::exact(400.0, Evidence::Measured), "GB/s", "test");
    let on = Change { device: Some(&fast), ..Change::default() };
    let p = predict(&kernel(), Some(&device), &on).unwrap();
    // A quarter of what memory takes, and what else there is.
    assert!(p.ns.value >= 27e3 && p.ns.value < 0.5 * 102e3 && p.ns.low <= 27e3, "{p:?}");
    let slower = Change { clock_mhz: Some(500.0), ..Change::default() };
    assert!(predict(&kernel(), Some(&device), &slower).is_err(), "the clock is not known");
    let mut clocked = round();
    clocked.keep_parameter(name::CLOCK, Figure::exact(1000.0, Evidence::Measured), "MHz", "test");
    let p = predict(&kernel(), Some(&clocked), &slower).unwrap();
    assert!((p.ns.value - 102e3).abs() < 10e3, "memory does not follow: {p:?}");
    assert!(predict(&kernel(), None, &on).is_err());
}

#[test]
fn without_mix_or_device_only_size_can_change() {
    let bare = Kernel { mix: None, dram_bytes: None, ..kernel() };
    let change = Change { scale: Some(4.0), ..Change::default() };
    let p = predict(&bare, None, &change).unwrap();
    assert!((p.ns.value - 408e3).abs() < 1.0 && p.ns.low <= 102e3, "{p:?}");
    assert_eq!(p.missing.len(), 3, "{p:?}");
    let untimed = Kernel { time_ns: None, ..kernel() };
    assert!(predict(&untimed, None, &change).is_err());
}

#[test]
fn joules_follow_the_floor_and_the_work() {
    let kernel = Kernel {
        joules: Some(Figure::new(0.03, 0.029, 0.031, Evidence::Measured)),
        floor_watts: Some(Figure::exact(100.0, Evidence::Measured)),
        ..kernel()
    };
    let change = Change { scale: Some(2.0), ..Change::default() };
    let joules = predict(&kernel, Some(&round()), &change).unwrap().joules.unwrap();
    // Above the floor 0.0198 J, twice; floor 100 W for 202 us.
    assert!((joules.value - (2.0 * 0.0198 + 0.0202)).abs() < 1e-6, "{joules:?}");
}

#[test]
fn small_groups_take_the_time_of_starting_them() {
    let mut device = round();
    device.keep_parameter(name::GROUP, Figure::exact(500.0, Evidence::Measured), "ns", "test");
    let to = |local| Change { local: Some(local), ..Change::default() };
    let at = |kernel: &Kernel, local| predict(kernel, Some(&device), &to(local)).unwrap().ns;
    // 1000 groups of 64 start in 50 us; memory takes 100 us. 4000 of 16 start in 200 us.
    let small = at(&kernel(), 16);
    assert!(small.value > 170e3 && small.value < 250e3 && small.high > 200e3, "{small:?}");
    let larger = at(&kernel(), 128);
    assert!(larger.value > 80e3 && larger.value <= 102e3, "{larger:?}");
    // Of a launch that starting groups kept busy, larger groups show the work that is left.
    let started = Kernel {
        local: Some(16),
        time_ns: Some(Figure::exact(202e3, Evidence::Measured)),
        ..kernel()
    };
    let larger = at(&started, 64);
    assert!(larger.value > 80e3 && larger.value < 120e3 && larger.high > 120e3, "{larger:?}");
}

#[test]
fn groups_that_all_fit_at_once_have_no_half_empty_wave() {
    let of = Kernel { items: Some(64 * 31), local: Some(64), ..kernel() };
    let mut device = round();
    device.capability = Some((9, 0));
    // 31 groups of 64 on 10 units, or 62 of 32: 4 and 7 on the fullest, of 3.1 and 6.2.
    let lost = |kernel: &Kernel| in_waves(kernel, Some(&device)).unwrap().lost;
    assert!((lost(&of) - (1.0 - 3.1 / 4.0)).abs() < 1e-9);
    assert!((lost(&Kernel { local: Some(32), ..of }) - (1.0 - 6.2 / 7.0)).abs() < 1e-9);
}

#[test]
fn groups_that_cannot_be_launched_are_refused_with_the_reason() {
    let to = |local| Change { local: Some(local), ..Change::default() };
    let refused = |kernel: &Kernel, local| {
        predict(kernel, Some(&round()), &to(local)).unwrap_err().to_string()
    };
    assert!(refused(&kernel(), 1 << 17).contains("fewer than a group"));
    let many = Kernel { items: Some(1 << 24), ..kernel() };
    assert!(refused(&many, 1 << 20).contains("no device"));
    let of = |resources| Kernel { resources, ..kernel() };
    let small = of(Resources { most_items: Some(256), ..Resources::default() });
    assert!(refused(&small, 512).contains("256 items at most"));
    let fixed = of(Resources { required: Some(64), ..Resources::default() });
    assert!(refused(&fixed, 128).contains("reqd_work_group_size"));
    let mut device = round();
    device.capability = Some((9, 0));
    let wide = of(Resources { registers: Some(255), ..Resources::default() });
    assert!(predict(&wide, Some(&device), &to(1024)).is_err());
    // What can be launched has its conditions.
    let of = predict(&small, Some(&round()), &to(128)).unwrap();
    assert_eq!(of.warnings.len(), 1, "{:?}", of.warnings);
    let of = predict(&small, Some(&round()), &to(96)).unwrap();
    assert!(of.warnings[1].contains("no multiple of 96"), "{:?}", of.warnings);
}

#[test]
fn local_memory_changes_how_many_groups_fit_and_refuses_what_none_can_have() {
    let to = |bytes| Change { local_bytes: Some(bytes), ..Change::default() };
    let mut device = round();
    let why = predict(&kernel(), Some(&device), &to(1 << 12)).unwrap_err();
    assert!(why.to_string().contains("is not known"), "{why}");
    (device.capability, device.lanes) = (Some((9, 0)), Some(32));
    let why = predict(&kernel(), Some(&device), &to(1 << 16)).unwrap_err();
    assert!(why.to_string().contains("49152 bytes"), "{why}");
    // Groups of 64 items: 32 fit with little local memory, 4 with 48 KiB.
    let little = predict(&kernel(), Some(&device), &to(1 << 10)).unwrap();
    let much = predict(&kernel(), Some(&device), &to(48 << 10)).unwrap();
    assert!(much.ns.high > 2.0 * little.ns.high, "{little:?} {much:?}");
    assert!(much.reasons.iter().any(|r| r.contains("warps fit instead of")), "{much:?}");
    let unknown = Kernel { local: None, ..kernel() };
    assert!(predict(&unknown, Some(&device), &to(1 << 10)).is_err());
}

#[test]
fn local_memory_takes_the_cache_from_what_is_read_again() {
    let to = |bytes| Change { local_bytes: Some(bytes), ..Change::default() };
    let mut device = round();
    (device.capability, device.lanes) = (Some((9, 0)), Some(32));
    // 1M items read 64 bytes of their own 8 times over, in pieces that a warp has to itself:
    // what is on a unit at once touches 128 KiB.
    let items = 1u64 << 20;
    let mut counted = mix(&[(Class::LoadGlobal, 32 * items, 0, 128 * items)]);
    counted.classes.get_mut(&Class::LoadGlobal).unwrap().transactions = Some(16 * items);
    let of = Kernel {
        items: Some(items),
        local: Some(256),
        mix: Some(counted),
        footprint: Some(64.0 * items as f64),
        ..kernel()
    };
    let at = |bytes| {
        let of = Kernel {
            resources: Resources { local_bytes: Some(bytes), ..of.resources },
            ..of.clone()
        };
        let traffic = of.traffic(&device).unwrap();
        (of.first_cache(&device).unwrap() / 1024.0, traffic.last.bytes)
    };
    assert_eq!(at(1 << 10).0, 256.0 - 16.0);
    // 24 KiB for each of 8 groups leave 28: nothing is held until it is read again.
    assert_eq!(at(24 << 10), (28.0, 512.0 * items as f64));
    assert!(at(1 << 10).1 < 0.3 * at(24 << 10).1, "{:?}", at(1 << 10));
    let little =
        Kernel { resources: Resources { local_bytes: Some(1 << 10), ..of.resources }, ..of };
    let more = predict(&little, Some(&device), &to(24 << 10)).unwrap();
    assert!(more.ns.value > 1.2 * little.time_ns.unwrap().value, "{more:?}");
    assert!(more.reasons.iter().any(|r| r.contains("first cache instead of 240")), "{more:?}");
    // What is read once has nothing to lose.
    let once = Kernel {
        footprint: Some(128.0 * items as f64),
        mix: None,
        bytes: Some(128.0 * items as f64),
        ..little
    };
    let same = predict(&once, Some(&device), &to(24 << 10)).unwrap();
    assert!(same.ns.value < 1.1 * once.time_ns.unwrap().value, "{same:?}");
}

#[test]
fn clocks_that_the_device_does_not_reach_are_refused_unless_forced() {
    let mut device = round();
    device.keep_parameter(name::CLOCK, Figure::exact(1000.0, Evidence::Measured), "MHz", "test");
    let to = |forced| Change { clock_mhz: Some(5000.0), forced, ..Change::default() };
    let why = predict(&kernel(), Some(&device), &to(false)).unwrap_err();
    assert!(why.to_string().contains("above the 1000 MHz"), "{why}");
    assert!(predict(&kernel(), Some(&device), &to(true)).is_ok());
    // The runtime states the clock that it may reach.
    let stated = Kernel { clock_mhz: Some(6000), ..kernel() };
    assert!(predict(&stated, Some(&device), &to(false)).is_ok());
}

#[test]
fn joules_are_never_below_the_floor_of_the_shortest_time() {
    let kernel = Kernel {
        joules: Some(Figure::new(0.0105, 0.0005, 0.0205, Evidence::Measured)),
        floor_watts: Some(Figure::exact(100.0, Evidence::Measured)),
        ..kernel()
    };
    let change = Change { scale: Some(2.0), ..Change::default() };
    let p = predict(&kernel, Some(&round()), &change).unwrap();
    let joules = p.joules.unwrap();
    assert!(joules.low >= 100.0 * p.ns.low * 1e-9 * (1.0 - 1e-12), "{p:?}");
    assert!(joules.low <= joules.value);
}

#[test]
fn what_becomes_the_limit_is_named() {
    // At a tenth of the clock issue takes ten times as long, and memory as long as before.
    let mut device = round();
    device.keep_parameter(name::ISSUE, Figure::exact(1.0, Evidence::Measured), "ns", "test");
    device.keep_parameter(name::CLOCK, Figure::exact(1000.0, Evidence::Measured), "MHz", "test");
    let mut kernel = kernel();
    let tally = clscope_mix::Tally {
        threads: 12_800_000,
        warps: Some(400_000),
        ..clscope_mix::Tally::default()
    };
    kernel.mix.as_mut().unwrap().classes.insert(Class::Move, tally);
    let at = |mhz| {
        let change = Change { clock_mhz: Some(mhz), ..Change::default() };
        predict(&kernel, Some(&device), &change).unwrap()
    };
    let (same, slow) = (at(1000.0), at(100.0));
    assert_eq!((same.measured_limit, same.limit), (Some(Resource::Memory), Some(Resource::Memory)));
    assert!(same.reasons.iter().any(|r| r == "its limit stays memory"), "{:?}", same.reasons);
    assert_eq!(slow.limit, Some(Resource::Issue), "{slow:?}");
    let becomes = "its limit becomes instruction issue, and is memory now";
    assert!(slow.reasons.iter().any(|r| r == becomes), "{:?}", slow.reasons);
}

#[test]
fn a_fuller_last_wave_is_faster() {
    // 1000 groups of 64 on 10 units: 100 waves of one group a unit; 1001 would need 101.
    let mut kernel = kernel();
    kernel.items = Some(64 * 1001);
    let change = Change { local: Some(128), ..Change::default() };
    let p = predict(&kernel, Some(&round()), &change).unwrap();
    assert!(p.ns.low <= p.ns.value && p.ns.value <= p.ns.high, "{p:?}");
    assert!(p.reasons.iter().any(|r| r.contains("last wave")), "{p:?}");
}

fn classes() -> impl Strategy<Value = Vec<u64>> {
    proptest::collection::vec(prop_oneof![3 => Just(0u64), 1 => 1u64..64], Class::ALL.len() - 1)
}

proptest! {
    /// What is not changed takes what was measured, and the less is changed the nearer both ends
    /// come to the measured ones, however short the launch is beside launching.
    #[test]
    fn no_change_is_what_was_measured(
        counts in classes(),
        groups in 1u64..4096,
        ns in 10f64..1e9,
        doubt in 0f64..0.3,
        speed in proptest::collection::vec(0.5f64..5e3, 40),
        is_gpu in any::<bool>(),
        watts in 1f64..500.0,
        power in 1f64..3.0,
    ) {
        let device = made(if is_gpu { "gpu" } else { "cpu" }, &speed);
        let took = Figure::new(ns, ns * (1.0 - doubt), ns * (1.0 + doubt), Evidence::Measured);
        let joules = watts * power * ns * 1e-9;
        let kernel = Kernel {
            time_ns: Some(took),
            joules: Some(Figure::new(joules, 0.9 * joules, 1.2 * joules, Evidence::Measured)),
            floor_watts: Some(Figure::exact(watts, Evidence::Measured)),
            ..launched(counted(&counts, 64 * groups), groups, ns)
        };
        let near = |a: f64, b: f64, within: f64| (a - b).abs() <= within * b.abs();
        for on in [None, Some(&device)] {
            let to = |scale| predict(&kernel, on, &Change { scale: Some(scale), ..Change::default() }).unwrap();
            let same = to(1.0);
            prop_assert!(near(same.ns.value, ns, 1e-9), "{same:?}");
            prop_assert!(near(same.ns.low, took.low, 1e-9) && near(same.ns.high, took.high, 1e-9), "{same:?}");
            let had = same.joules.unwrap();
            prop_assert!(near(had.value, joules, 1e-6) && near(had.high, 1.2 * joules, 1e-6), "{had:?}");
            for by in [0.001, 0.5, 1.0001, 1.5, 2.0, 1000.0] {
                let of = to(by).ns;
                prop_assert!(0.0 <= of.low && of.low <= of.value && of.value <= of.high, "{by}: {of:?}");
                prop_assert!(of.high.is_finite(), "{by}: {of:?}");
            }
        }
        let local = Change { local: Some(64), ..Change::default() };
        if let Ok(same) = predict(&kernel, Some(&device), &local) {
            prop_assert!(near(same.ns.low, took.low, 1e-9) && near(same.ns.high, took.high, 1e-9), "{same:?}");
        }
        let on = Change { device: Some(&device), ..Change::default() };
        if let Ok(same) = predict(&kernel, Some(&device), &on) {
            prop_assert!(near(same.ns.low, took.low, 1e-9) && near(same.ns.high, took.high, 1e-9), "{same:?}");
        }
    }

    /// Both ends are of the one model: where all that a launch does is known and the device is
    /// full, work that grows a thousandfold grows at both ends, however much of the launch was
    /// launching.
    #[test]
    fn both_ends_grow_with_the_work(
        counts in classes(),
        ns in 10f64..1e9,
        speed in proptest::collection::vec(0.5f64..5e3, 40),
        is_gpu in any::<bool>(),
    ) {
        prop_assume!(counts.iter().any(|c| *c > 0));
        let device = made(if is_gpu { "gpu" } else { "cpu" }, &speed);
        let kernel = launched(counted(&counts, 64 << 20), 1 << 20, ns);
        let to = |scale| predict(&kernel, Some(&device), &Change { scale: Some(scale), ..Change::default() }).unwrap();
        prop_assume!(to(2.0).reasons.iter().any(|r| r.contains("by the bounds")));
        let (large, larger) = (to(1e3).ns, to(1e6).ns);
        prop_assert!(larger.low > 100.0 * large.low, "{large:?} {larger:?}");
    }
}
