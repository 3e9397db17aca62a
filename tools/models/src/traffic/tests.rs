//! What caches serve, miss and keep, and what takes how long.

use super::*;
use crate::figure::Evidence;
use crate::kernel::tests::mix;
use clscope_mix::{Follows, Mix};

#[test]
fn caches_serve_what_is_asked_for_again_and_what_they_keep() {
    let mut device = crate::device::tests::round();
    device.keep_parameter(name::L2_BYTES, Figure::exact(1e6, Evidence::Measured), "B", "test");
    let of = |items: u64, loaded: u64, footprint: Option<f64>| Kernel {
        items: Some(items),
        mix: Some(mix(&[
            (Class::LoadGlobal, loaded / 4, 0, loaded),
            (Class::StoreGlobal, items, 0, 4 * items),
        ])),
        footprint,
        ..Kernel::default()
    };
    // To a thousandth: of a set that is many times as large some is always found again.
    let traffic = |k: &Kernel| {
        let t = k.traffic(&device).unwrap();
        (t.last.bytes, 1e3 * (t.memory.bytes / 1e3).round())
    };
    // A copy of 4 MB, and one that the last cache keeps.
    assert_eq!(traffic(&of(1_000_000, 4_000_000, Some(8e6))), (8e6, 8e6));
    assert_eq!(traffic(&of(50_000, 200_000, Some(4e5))), (4e5, 0.0));
    // The same in place: loaded and stored. Counters bound it, and do not replace it.
    let both = Kernel { in_place: 4e6, ..of(1_000_000, 4_000_000, Some(4e6)) };
    assert_eq!(traffic(&both), (8e6, 8e6));
    let counted = |low, high| Kernel {
        dram_bytes: Some(Figure::new(5e6, low, high, Evidence::Measured)),
        ..both.clone()
    };
    assert_eq!(traffic(&counted(3e6, 9e6)), (8e6, 8e6));
    assert_eq!(traffic(&counted(4e6, 6e6)), (8e6, 6e6));
    // A product: 1000 loads an item of 12 MB in all.
    let product = of(1_000_000, 4_000_000_000, Some(1.2e7));
    assert_eq!(traffic(&product), (1.2e7, 1.2e7));
    assert_eq!(traffic(&Kernel { footprint: None, ..product.clone() }), (1.2e7, 1.2e7));
    // A scattered access moves whole pieces, unless the next ones of its item find the rest of
    // them.
    let mut few = of(1_000_000, 4_000_000, Some(8e6));
    let tell = |k: &mut Kernel, class, pieces: u64| {
        k.mix.as_mut().unwrap().classes.get_mut(&class).unwrap().transactions = Some(pieces);
    };
    tell(&mut few, Class::LoadGlobal, 1_000_000);
    assert_eq!(few.cached().unwrap().value, 8e6, "of stores they are not known");
    tell(&mut few, Class::StoreGlobal, 125_000);
    assert_eq!(few.cached().unwrap().value, 36e6);
    assert_eq!(traffic(&few), (36e6, 8e6));
    let mut many = of(1_000_000, 40_000_000, Some(44e6));
    tell(&mut many, Class::LoadGlobal, 10_000_000);
    tell(&mut many, Class::StoreGlobal, 125_000);
    assert_eq!((many.cached().unwrap().value, traffic(&many)), (324e6, (44e6, 44e6)));
    // Counters know better.
    let counted = Figure::exact(3e7, Evidence::Measured);
    assert_eq!(traffic(&Kernel { dram_bytes: Some(counted), ..product }), (3e7, 3e7));
    assert_eq!(Kernel::default().traffic(&device), None);
}
#[test]
fn caches_miss_what_is_touched_again_too_late() {
    use clscope_mix::reuse::{Histogram, Reuse};
    let mut device = crate::device::tests::round();
    let mut keep = |name, value| {
        device.keep_parameter(name, Figure::exact(value, Evidence::Measured), "B", "test");
    };
    keep(name::L1_BYTES, 1000.0 * f64::from(device_units()));
    keep(name::L2_BYTES, 1e6);
    keep(name::L2_KEPT, 1e6);
    // 40 MB of pieces: half for the first time, the others after 4096 to 8192 touches.
    let mut mix = mix(&[(Class::LoadGlobal, 1_250_000, 0, 5_000_000)]);
    mix.classes.get_mut(&Class::LoadGlobal).unwrap().transactions = Some(1_250_000);
    let again = |power: usize| [vec![0; power], vec![500]].concat();
    let seen = |near: usize, far: usize| Kernel {
        items: Some(1_250_000),
        mix: Some(Mix {
            reuse: Some(Reuse {
                near: Histogram { first: 500, again: again(near) },
                far: Histogram { first: 500, again: again(far) },
                passes: 0,
                lines: None,
                hottest: None,
            }),
            ..mix.clone()
        }),
        ..Kernel::default()
    };
    let of = |near, far| seen(near, far).traffic(&device).unwrap();
    // However small a part of the nearest cache is certain, it misses no more than all.
    for near in 0..20 {
        let (of, most) =
            (of(near, near), seen(near, near).beyond_nearest_at_most(&device).unwrap());
        assert!(of.last.bytes <= most && most <= 40e6, "{near}: {of:?} {most}");
    }
    // Both caches serve what comes again at once; neither what comes late.
    let soon = of(0, 0);
    assert!((soon.last.bytes - 20e6).abs() < 1e6 && (soon.memory.bytes - 20e6).abs() < 1e6);
    let late = of(12, 24);
    assert!(late.last.bytes == 40e6 && (late.memory.bytes - 40e6).abs() < 1.0);
    let between = of(12, 12);
    assert!(between.last.bytes == 40e6 && (between.memory.bytes - 20e6).abs() < 1.0);
    // Each lane has a piece of its own.
    assert_eq!((late.last.gathered, late.last.scattered), (40e6, 0.0));
    assert!((late.memory.gathered - 40e6).abs() < 1.0);
    let dense = Moved::dense(40e6).ns(&device, 100.0, MEMORY);
    assert!((late.memory.ns(&device, 100.0, MEMORY) - dense).abs() < 1.0);
    keep_rate(&mut device, name::GATHER_MEMORY, 1.0);
    let apart = late.memory.ns(&device, 100.0, MEMORY);
    assert!(dense == 4e5 && (apart - 1.25e6).abs() < 1.0);
}

#[test]
fn a_cache_that_replaces_at_random_misses_more_the_larger_the_set() {
    // Of an H200: 64 and 128 MB through 33 MB.
    assert!((passed_over(2.0) - 0.77).abs() < 0.05 && (passed_over(4.0) - 0.94).abs() < 0.05);
    let all = (0..400).map(|n| passed_over(0.01 * f64::from(n)));
    assert!(all.clone().zip(all.skip(1)).all(|(a, b)| (0.0..=1.0).contains(&a) && a <= b));
    assert_eq!(
        (passed_over(f64::NAN), passed_over(1.0), passed_over(f64::INFINITY)),
        (0.0, 0.0, 1.0)
    );
}

/// Accesses that follow from what was loaded, of a table and beside it: they take the rate of their own
/// buffer's size, as far as the address reaches, of caches or of memory, and what waits for one
/// another takes that size's latency.
#[test]
fn what_was_loaded_leads_into_its_buffer() {
    let mut device = crate::device::tests::made("cpu", &[1.0]);
    device.compute_units = 1;
    for (key, value) in [
        (name::GATHER_NEAR, 4.0),
        (name::GATHER_CORE, 2.0),
        (name::GATHER_LAST, 1.0),
        (name::GATHER_MEMORY, 0.1),
        (name::L1_BYTES, 32768.0),
        (name::L2_BYTES, 64e6),
        (name::LATENCY_LOCAL, 2.0),
        (name::LATENCY_RANDOM, 128.0),
        (name::ITEMS_SINGLE, 1e-3),
    ] {
        keep_rate(&mut device, key, value);
    }
    let of = |bytes: f64, reach: u64, gathers: Option<Follows>| {
        let load = clscope_mix::Instruction {
            bytes: 4,
            reach: Some(reach),
            gathers,
            argument: Some(1),
            writes: vec![1],
            reads: vec![1],
            ..clscope_mix::Instruction::new(Class::LoadGlobal)
        };
        let turns = clscope_mix::Block { instructions: vec![load] };
        Kernel {
            items: Some(1),
            local: Some(1),
            mix: Some(mix(&[(Class::LoadGlobal, 1000, 0, 4000)])),
            blocks: vec![(turns, 1000.0)],
            buffers: [(0, 1e9), (1, bytes)].into(),
            footprint: Some(1e9 + bytes),
            ..Kernel::default()
        }
    };
    let any = u64::MAX;
    let each = |bytes, reach| of(bytes, reach, Some(Follows::Computed)).gathering(&device);
    assert_eq!(each(16384.0, any), [250.0, 0.0, 0.0]);
    assert_eq!(each(8e9, 1024), [250.0, 0.0, 0.0]);
    assert_eq!(each((8u64 << 20) as f64, any), [0.0, 1000.0, 0.0]);
    assert_eq!(each(8e9, any), [0.0, 0.0, 10_000.0]);
    assert_eq!(of(8e9, any, None).gathering(&device), [0.0; 3]);
    let waits = |bytes, gathers| {
        let bounds = crate::roofline::bounds(&of(bytes, any, gathers), &device);
        bounds.by_resource(crate::roofline::Resource::Latency).unwrap().ns.value
    };
    let [near, between, far] =
        [8192.0, (1u64 << 20) as f64, 8e9].map(|set| waits(set, Some(Follows::Computed)));
    assert!(near < between && between < far, "{near} {between} {far}");
    // A search begins in the nearest cache, and ends anywhere.
    let search = waits(8e9, Some(Follows::Chosen));
    assert!(2.0 * near < search && 2.0 * search < far, "{search}");
    assert!((far / near - 64.0).abs() < 1e-6 && (waits(8e9, None) - near).abs() < 1e-6);
}

/// 134 MB side by side, and as many stores of single words into 16 MB: neighbours of a word come
/// from other warps, and its piece is fetched once.
#[test]
fn what_lies_alone_is_fetched_once() {
    use clscope_mix::reuse::{Histogram, Reuse};
    let mut device = crate::device::tests::round();
    device.keep_parameter(name::L1_BYTES, Figure::exact(1e6, Evidence::Measured), "B", "test");
    device.keep_parameter(name::L2_BYTES, Figure::exact(1e7, Evidence::Measured), "B", "test");
    let words = 1u64 << 22;
    let mut mix = mix(&[
        (Class::LoadGlobal, 8 * words, 0, 32 * words),
        (Class::StoreGlobal, words, 0, 4 * words),
    ]);
    for class in [Class::LoadGlobal, Class::StoreGlobal] {
        mix.classes.get_mut(&class).unwrap().transactions = Some(words);
    }
    let touches =
        Histogram { first: 9 * words / 8, again: [vec![0; 16], vec![7 * words / 8]].concat() };
    mix.reuse =
        Some(Reuse { near: touches.clone(), far: touches, passes: 0, lines: None, hottest: None });
    let kernel = Kernel { items: Some(words), mix: Some(mix), ..Kernel::default() };
    let memory = kernel.traffic(&device).unwrap().memory;
    let single = memory.gathered + memory.scattered;
    assert!((single / (4.0 * words as f64) - 1.0).abs() < 0.01, "{memory:?}");
    assert!((memory.streamed() / (32.0 * words as f64) - 1.0).abs() < 0.01, "{memory:?}");
}

fn device_units() -> u32 {
    crate::device::tests::round().compute_units
}

fn keep_rate(device: &mut Device, name: &str, rate: f64) {
    device.keep_parameter(name, Figure::exact(rate, Evidence::Measured), "Gop/s", "test");
}
