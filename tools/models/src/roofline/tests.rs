//! Bounds and rooflines against those of the documents, and laws of both.

use super::*;
use crate::device::tests::round;
use crate::kernel::tests::mix;
use clscope_mix::Class;
use clscope_mix::reuse::Reuse;
use proptest::prelude::*;

fn exact(value: f64) -> Option<Figure> {
    Some(Figure::exact(value, Evidence::Measured))
}

/// The example of the guide: 2048 x 2048 in groups of 16 x 16 on an H200.
fn sgemm() -> (Kernel, Device) {
    let n = 2048u64.pow(3);
    let items = 2048 * 2048;
    let mut m = mix(&[
        (Class::SingleFma, n, 2 * n, 0),
        (Class::LoadLocal, 2 * n, 0, 8 * n),
        (Class::LoadGlobal, 2 * n / 16, 0, 8 * n / 16),
    ]);
    m.classes.insert(
        Class::IntArith,
        clscope_mix::Tally {
            threads: 40 * items,
            warps: Some(40 * items / 32),
            ..Default::default()
        },
    );
    let kernel = Kernel {
        name: "sgemm".to_owned(),
        items: Some(items),
        local: Some(256),
        launches: 3,
        time_ns: exact(2.65e6),
        total_ns: Some(7.95e6),
        mix: Some(m),
        ..Kernel::default()
    };
    let mut device = Device { compute_units: 132, lanes: Some(32), ..round() };
    device.capability = Some((9, 0));
    for (name, value) in [
        (name::LOCAL, 33.1e3),
        (name::DRAM, 4320.0),
        (name::L1, 33.0e3),
        (name::L2, 9.0e3),
        ("rate.fp32.fma", 66.4e3),
    ] {
        device.keep_parameter(name, Figure::exact(value, Evidence::Measured), "", "test");
    }
    (kernel, device)
}

#[test]
fn a_matrix_product_is_bound_by_local_memory() {
    let (kernel, device) = sgemm();
    let bounds = bounds(&kernel, &device);
    let ms = |r| bounds.by_resource(r).unwrap().ns.value * 1e-6;
    assert!((ms(Resource::LocalMemory) - 2.076).abs() < 0.01, "{}", ms(Resource::LocalMemory));
    assert!((ms(Resource::Fp32) - 0.2587).abs() < 0.001);
    assert!((ms(Resource::MemoryIfMissed) - 0.994).abs() < 0.01);
    let binding = bounds.binding().unwrap();
    assert_eq!(binding.resource, Resource::LocalMemory);
    assert!((binding.ns.value / 2.65e6 - 0.78).abs() < 0.01);
    assert_eq!(bounds.occupancy.unwrap().warps, 64);
}

#[test]
fn what_is_absent_is_named_and_the_rest_is_said() {
    let (mut kernel, device) = sgemm();
    kernel.mix = None;
    let some = bounds(&kernel, &device);
    assert_eq!(some.binding().unwrap().resource, Resource::Launch);
    assert!(some.missing.iter().any(|m| m.remedy.contains("--mix")), "{:?}", some.missing);
    kernel.dram_bytes = exact(8.64e9);
    let some = bounds(&kernel, &device);
    assert_eq!(some.binding().unwrap().resource, Resource::Memory);
    assert!((some.binding().unwrap().ns.value - 2e6).abs() < 1.0);
    assert!(some.by_resource(Resource::MemoryIfMissed).is_none());
}

#[test]
fn the_likely_time_lies_between_the_certain_bounds_and_all_of_them() {
    let (kernel, device) = sgemm();
    let of = bounds(&kernel, &device);
    let time = likely(&kernel, &device, &of).unwrap();
    // Local memory for 2.08 ms, partly beside all else; it took 2.65.
    assert!(time.value > 2.078e6 && time.value < 2.65e6, "{time:?}");
    assert!(time.low >= 2.07e6 && time.low <= time.value && time.value <= time.high, "{time:?}");
    let nothing = Kernel { mix: None, ..kernel };
    assert_eq!(likely(&nothing, &device, &bounds(&nothing, &device)), None);
}

#[test]
fn few_groups_leave_units_idle() {
    let (mut kernel, device) = sgemm();
    let whole = bounds(&kernel, &device).by_resource(Resource::Fp32).unwrap().ns.value;
    kernel.items = Some(66 * 256);
    let half = bounds(&kernel, &device).by_resource(Resource::Fp32).unwrap().ns.value;
    assert!((half / whole - 2.0).abs() < 1e-9);
}

#[test]
fn points_lie_under_the_roof_that_is_theirs() {
    let (mut kernel, device) = sgemm();
    kernel.dram_bytes = exact(0.3e9);
    let of = roofline(std::slice::from_ref(&kernel), Some(&device), false);
    assert_eq!(of.points.len(), 2, "{of:?}");
    let requested = &of.points[0];
    assert_eq!(requested.bytes, "requested");
    assert!((requested.intensity.value - 4.0).abs() < 1e-9);
    assert!((requested.rate.value - 6483.0).abs() < 1.0);
    let dram = &of.points[1];
    assert!(dram.roof.unwrap() <= 66.4e3 && dram.reached.unwrap() < 0.12);
    let bare = roofline(std::slice::from_ref(&kernel), None, false);
    assert!(bare.points.len() == 2 && bare.roofs.is_empty());
    assert!(bare.missing[0].remedy.contains("bench model"));
}

#[test]
fn stated_operations_have_a_place_too_and_joules_their_own_picture() {
    let (mut kernel, device) = sgemm();
    (kernel.mix, kernel.flop, kernel.bytes) = (None, Some(1e9), Some(1e8));
    let of = roofline(std::slice::from_ref(&kernel), Some(&device), false);
    assert_eq!(of.points[0].intensity, Figure::exact(10.0, Evidence::Given));
    let energy = roofline(std::slice::from_ref(&kernel), Some(&device), true);
    assert!(energy.points.is_empty() && energy.missing.len() >= 2, "{energy:?}");
    kernel.joules = exact(0.5);
    let energy = roofline(std::slice::from_ref(&kernel), Some(&device), true);
    assert!((energy.points[0].rate.value - 2.0).abs() < 1e-9);
}

#[test]
fn what_counters_cannot_tell_from_nothing_has_no_dot() {
    let (mut kernel, device) = sgemm();
    kernel.dram_bytes = Some(Figure::new(0.3e9, 0.0, 0.7e9, Evidence::Measured));
    let of = roofline(std::slice::from_ref(&kernel), Some(&device), false);
    assert_eq!(of.points.len(), 1, "{of:?}");
    assert!(of.missing.iter().any(|m| m.what.contains("reaches 0")), "{:?}", of.missing);
}

#[test]
fn a_dot_above_its_roof_is_told_and_its_bytes_keep_their_evidence() {
    let (mut kernel, device) = sgemm();
    // 4320 GB/s move 11.4 GB in 2.65 ms.
    kernel.dram_bytes = exact(1.1 * 4320.0 * 2.65e6);
    let of = roofline(std::slice::from_ref(&kernel), Some(&device), false);
    let [requested, dram] = &of.points[..] else { panic!("{of:?}") };
    assert!(dram.above && (dram.reached.unwrap() - 1.1).abs() < 1e-6, "{dram:?}");
    assert!(!requested.above);
    assert_eq!((dram.bytes_evidence, dram.flop_evidence), (Evidence::Measured, Evidence::Counted));
    assert_eq!(requested.bytes_evidence, Evidence::Counted);
}

#[test]
fn additions_are_no_roof_of_what_may_be_fused() {
    let (kernel, mut device) = sgemm();
    device.parameters.remove("rate.fp32.fma");
    let of = roofline(std::slice::from_ref(&kernel), Some(&device), false);
    assert!(of.roofs.iter().all(|r| r.kind != "rate"), "{:?}", of.roofs);
    assert!(of.points.iter().all(|p| p.roof.is_none()), "{:?}", of.points);
    assert!(of.missing.iter().any(|m| m.what.contains("rate.fp32.fma")), "{:?}", of.missing);
}

proptest! {
    /// More work never needs less time, and a faster device never more.
    #[test]
    fn bounds_are_monotone(flop in 1u64..1 << 50, bytes in 1u64..1 << 50, more in 1u64..1 << 40, faster in 1.0f64..8.0) {
        let kernel = |flop, bytes| Kernel {
            items: Some(1 << 20),
            local: Some(64),
            mix: Some(mix(&[(Class::SingleFma, flop / 2, flop, 0), (Class::LoadGlobal, bytes / 4, 0, bytes)])),
            ..Kernel::default()
        };
        let slow = round();
        let mut fast = round();
        for p in fast.parameters.values_mut().filter(|p| p.unit != "ns") {
            (p.value, p.low, p.high) = (p.value * faster, p.low * faster, p.high * faster);
        }
        let of = |k: &Kernel, d: &Device| bounds(k, d).binding().unwrap().ns.value;
        prop_assert!(of(&kernel(flop + more, bytes + more), &slow) >= of(&kernel(flop, bytes), &slow));
        prop_assert!(of(&kernel(flop, bytes), &fast) <= of(&kernel(flop, bytes), &slow) * (1.0 + 1e-12));
        for bound in bounds(&kernel(flop, bytes), &slow).bounds {
            prop_assert!(bound.ns.value > 0.0 && bound.ns.low <= bound.ns.value && bound.ns.value <= bound.ns.high);
        }
    }
}

#[test]
fn a_device_without_fused_operations_has_the_ceiling_of_both_in_turn() {
    let (kernel, mut device) = sgemm();
    let flop = kernel.flop().unwrap().value;
    let fused = bounds(&kernel, &device).by_resource(Resource::Fp32).unwrap().ns.value;
    assert!((fused - flop / 66.4e3).abs() < 1.0);
    for operation in ["rate.fp32.fma", "rate.fp32.add"] {
        device.parameters.remove(operation);
    }
    // Neither is known: no bound, no roof, and what would tell.
    let of = bounds(&kernel, &device);
    assert!(of.by_resource(Resource::Fp32).is_none() && !of.missing.is_empty(), "{of:?}");
    let keep = |device: &mut Device, operation: &str, value| {
        let figure = Figure::exact(value, Evidence::Measured);
        device.keep_parameter(operation, figure, "GFLOP/s", "test");
    };
    // Nor do additions alone tell.
    keep(&mut device, "rate.fp32.add", 20e3);
    assert!(bounds(&kernel, &device).by_resource(Resource::Fp32).is_none());
    let roofs = |device: &Device| -> Vec<(String, f64)> {
        let of = roofline(std::slice::from_ref(&kernel), Some(device), false);
        let rates = of.roofs.iter().filter(|r| r.kind == "rate");
        rates.map(|r| (r.name.clone(), r.value.value)).collect()
    };
    assert_eq!(roofs(&device), []);
    keep(&mut device, "rate.fp32.mad", 30e3);
    let of = bounds(&kernel, &device);
    let bound = of.by_resource(Resource::Fp32).unwrap();
    assert!((bound.ns.value - flop / 30e3).abs() < 1.0 && bound.certain, "{bound:?}");
    let named = [("FP32 multiply + add".to_owned(), 30e3), ("FP32 add".to_owned(), 20e3)];
    assert_eq!(roofs(&device), named);
    let of = roofline(std::slice::from_ref(&kernel), Some(&device), false);
    let compute = of.points[0].roof.unwrap();
    assert!(compute <= 30e3 && of.missing.iter().all(|m| !m.what.contains("fma")), "{of:?}");
    // Where both are known, fused ones are the ceiling.
    keep(&mut device, "rate.fp32.fma", 66.4e3);
    assert_eq!(roofs(&device)[0], ("FP32 FMA".to_owned(), 66.4e3));
}

/// What a unit does takes slots of issuing, and no time beside them.
#[test]
fn issuing_is_no_resource_beside_the_units() {
    let kernel = Kernel {
        items: Some(32_000),
        local: Some(320),
        mix: Some(mix(&[(Class::SingleFma, 32_000_000, 64_000_000, 0)])),
        ..Kernel::default()
    };
    // 64 MFLOP at 1000 GFLOP/s are 64 us; 1 M instructions of warps on ten units as long at 0.64 ns.
    let time = |slot: Option<f64>| {
        let mut device = round();
        if let Some(slot) = slot {
            let slot = Figure::exact(slot, Evidence::Measured);
            device.keep_parameter(name::ISSUE, slot, "ns", "test");
        }
        likely(&kernel, &device, &bounds(&kernel, &device)).unwrap().value
    };
    let alone = time(None);
    assert!((alone - 66e3).abs() < 1.0, "{alone}");
    assert!((time(Some(0.32)) - alone).abs() < 1e-6 && (time(Some(0.64)) - alone).abs() < 1e-6);
    assert!((time(Some(1.28)) - 130e3).abs() < 1.0, "{}", time(Some(1.28)));
}

/// A kernel of a million items on the device of the guide, of which each loads and stores so many
/// words of an array of so many bytes, as warps that index it alike or apart.
fn with_array(bytes: u64, words: u64, apart: bool) -> (Kernel, Device) {
    let (_, mut device) = sgemm();
    for (name, value) in [
        (name::L1, 33e3),
        (name::L2, 10e3),
        (name::DRAM, 4.6e3),
        (name::L2_BYTES, 67e6),
        (name::STORE_LAST, 4.5e3),
        (name::PRIVATE, 755.0),
        (name::GATHER_NEAR, 870.0),
        (name::GATHER_LAST, 160.0),
        (name::GATHER_MEMORY, 40.0),
        (name::SCATTER_LAST, 77.0),
        (name::SCATTER_MEMORY, 16.0),
    ] {
        device.keep_parameter(name, Figure::exact(value, Evidence::Measured), "", "test");
    }
    let items = 1u64 << 20;
    let of = |class| (class, items * words, 0, 4 * items * words);
    let mut mix = mix(&[of(Class::LoadPrivate), of(Class::StorePrivate)]);
    for tally in mix.classes.values_mut() {
        tally.transactions = if apart { Some(tally.threads) } else { tally.warps };
    }
    let mut kernel =
        Kernel { items: Some(items), local: Some(256), mix: Some(mix), ..Kernel::default() };
    kernel.resources.private_bytes = Some(bytes);
    (kernel, device)
}

#[test]
fn private_arrays_take_longer_the_larger_they_are_and_the_more_their_indices_differ() {
    let of = |bytes, apart| {
        let (kernel, device) = with_array(bytes, 64, apart);
        let bounds = bounds(&kernel, &device);
        let found = bounds.by_resource(Resource::PrivateMemory).unwrap().clone();
        assert!(found.ns.value <= found.likely, "{found:?}");
        found.likely
    };
    let sizes = [32, 64, 128, 256, 512, 1024, 4096];
    for apart in [false, true] {
        let all = sizes.map(|bytes| of(bytes, apart));
        assert!(all.windows(2).all(|two| two[0] <= two[1] * 1.0001), "{all:?}");
    }
    assert!(sizes.iter().all(|bytes| of(*bytes, true) > 4.0 * of(*bytes, false)));
    // A word of each lane goes to the last cache: 134 MB stored at 4.5 TB/s, 64 of a lane.
    assert!((of(32, false) / (4.0 * 64.0 * 1_048_576.0 / 4.5e3) - 1.0).abs() < 0.2);
}

#[test]
fn arrays_that_registers_hold_are_moves() {
    let (mut kernel, device) = with_array(0, 64, true);
    let before = kernel.mix.as_ref().unwrap().total();
    kernel.keep_arrays_in_registers();
    let after = kernel.mix.as_ref().unwrap();
    assert_eq!(after.classes.keys().copied().collect::<Vec<_>>(), [Class::Move]);
    assert_eq!((after.total().threads, after.total().warps), (before.threads, before.warps));
    assert_eq!(kernel.requested().unwrap().value, 0.0);
    assert!(bounds(&kernel, &device).by_resource(Resource::PrivateMemory).is_none());
    // Nothing is known of a runtime that does not say, and of arrays that lie in memory.
    for bytes in [None, Some(64)] {
        let (mut kernel, _) = with_array(64, 64, true);
        kernel.resources.private_bytes = bytes;
        let before = kernel.clone();
        kernel.keep_arrays_in_registers();
        assert_eq!(kernel, before);
    }
}

#[test]
fn registers_that_are_spilled_are_stored_and_loaded_once_at_least() {
    let of = |bytes: u64| {
        let (mut kernel, device) = with_array(bytes, 1, false);
        let items = kernel.items.unwrap();
        kernel.mix = Some(mix(&[(Class::SingleFma, 1000 * items, 2000 * items, 0)]));
        kernel.spilled = Some(bytes);
        let bounds = bounds(&kernel, &device);
        let found = bounds.by_resource(Resource::PrivateMemory).unwrap().clone();
        (found.ns.value, found.likely, found.most.unwrap().value)
    };
    let all = [16, 64, 256, 520].map(of);
    assert!(all.iter().all(|(least, likely, most)| least < likely && likely < most), "{all:?}");
    assert!(all.windows(2).all(|two| two[0].0 < two[1].0), "{all:?}");
}

#[test]
fn lanes_that_rest_take_the_turn_of_their_warp() {
    let (mut kernel, device) = sgemm();
    let of =
        |kernel: &Kernel| bounds(kernel, &device).by_resource(Resource::Fp32).unwrap().ns.value;
    let full = of(&kernel);
    let tally = kernel.mix.as_mut().unwrap().classes.get_mut(&Class::SingleFma).unwrap();
    tally.warps = Some(4 * tally.threads / 32);
    assert!((of(&kernel) / full - 4.0).abs() < 1e-9);
    let tally = kernel.mix.as_mut().unwrap().classes.get_mut(&Class::SingleFma).unwrap();
    tally.warps = None;
    assert!((of(&kernel) / full - 1.0).abs() < 1e-9);
}

/// 4 M atomics, a piece of each, on a device as an H200: however they queue, they take no less than
/// where none does, as long as the longest queue from some length on, and no longer than one by one.
#[test]
fn atomics_take_as_long_as_their_longest_queue() {
    let (_, mut device) = with_array(32, 1, false);
    for (name, rate) in [
        (name::ATOMIC, 980.0),
        (name::ATOMIC_APART, 105.0),
        (name::ATOMIC_WORD, 1.366),
        (name::ATOMIC_FEW, 3.45),
        (name::ATOMIC_SOME, 11.9),
    ] {
        device.keep_parameter(name, Figure::exact(rate, Evidence::Measured), "Gop/s", "test");
    }
    let all = 1u64 << 22;
    let of = |turns: Option<u64>| {
        let mut mix = mix(&[(Class::AtomicGlobal, all, 0, 4 * all)]);
        mix.classes.values_mut().for_each(|tally| tally.transactions = Some(all));
        mix.reuse = turns.map(|n| Reuse { hottest: Some(n), ..Reuse::default() });
        let kernel = Kernel { items: Some(1 << 20), mix: Some(mix), ..Kernel::default() };
        let bounds = bounds(&kernel, &device);
        bounds.by_resource(Resource::Atomics).unwrap().clone()
    };
    let spread = of(Some(all / 64));
    assert!((spread.likely / (all as f64 / 105.0) - 1.0).abs() < 0.25, "{spread:?}");
    let half = of(Some(all / 2));
    assert!((half.likely / (all as f64 / 2.0 / 1.366) - 1.0).abs() < 1e-9, "{half:?}");
    let turns: Vec<f64> = (0..=22).map(|power| of(Some(1 << power)).likely).collect();
    assert!(turns.windows(2).all(|two| two[0] <= two[1]), "{turns:?}");
    let unknown = of(None);
    assert!(spread.likely <= unknown.likely && unknown.likely <= of(Some(all)).likely);
}
