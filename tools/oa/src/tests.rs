//! The access to OA streams played through: order of calls, bytes, every errno, and the way from a
//! scripted stream to a per-kernel table that equals the script.
#![forbid(unsafe_code)]

use super::config::{ConfigId, Register, Registers, Uuid};
use super::device::StreamDevice;
use super::emulator::{Emulator, Read, Script};
use super::i915::{self, I915};
use super::sampling::{Driver, OaSampler, StreamFacts};
use super::source::{CounterSource, CounterValue};
use super::spans::{Resolution, Series, attribute};
use super::testing::{Writer, record, switch_id, timer_id};
use super::topology::synthesised_i915;
use super::uapi::request;
use super::xe::{self, Engine, Xe};
use super::{Counter, Format, Generation, Group, OaError, Published};
use clscope_sensors::files::{Roots, System};
use clscope_sensors::units::RawNs;
use std::collections::BTreeMap;
use std::path::Path;

const UUID: &str = "12994724-3a5a-4303-bb3c-ba0175d2c200";
const HZ: u64 = 12_000_000;

fn kbl() -> Script {
    Script {
        params: BTreeMap::from([(4, 0x5916), (32, 2), (51, HZ as u32), (54, 7), (57, HZ as u32)]),
        queries: BTreeMap::from([(1, synthesised_i915(1, 3, 8))]),
        tick_bits: 36,
        ..Script::default()
    }
}

fn roots() -> (tempfile::TempDir, Roots) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("proc/sys/dev/i915/perf_stream_paranoid", "1\n"),
        ("proc/sys/dev/i915/oa_max_sample_rate", "100000\n"),
        ("proc/sys/dev/xe/observation_paranoid", "1\n"),
    ] {
        put(dir.path(), path, text);
    }
    let roots = Roots::below(dir.path());
    (dir, roots)
}

fn put(dir: &Path, path: &str, text: &str) {
    let path = dir.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn options(exponent: u32) -> i915::StreamOptions {
    i915::StreamOptions {
        config: ConfigId(2),
        format: Format::A32u40A4u32B8C8,
        exponent,
        poll_ns: Some(1_000_000),
    }
}

#[test]
fn i915_is_asked_what_it_is() {
    let gpu = Emulator::new(kbl());
    let (_dir, roots) = roots();
    let i915 = I915::new(&gpu, &System, &roots);
    assert_eq!(i915.param(i915::Param::ChipsetId).unwrap(), Some(0x5916));
    assert_eq!((i915.perf_revision().unwrap(), i915.clocks().unwrap()), (7, (HZ, HZ)));
    assert_eq!(i915.topology().unwrap().eus, 24);
    // An old kernel: no revision, no OA frequency, no topology.
    *gpu.script() = Script { params: BTreeMap::from([(51, HZ as u32)]), ..Script::default() };
    assert_eq!((i915.perf_revision().unwrap(), i915.clocks().unwrap()), (1, (HZ, HZ)));
    assert!(matches!(i915.topology(), Err(OaError::Invalid { .. })));
    gpu.script().params.clear();
    assert!(matches!(i915.clocks(), Err(OaError::Unsupported { .. })));
}

#[test]
fn the_narrowest_of_three_clock_readings_is_kept() {
    let gpu = Emulator::new(kbl());
    let (_dir, roots) = roots();
    let mut stamps = [0u64, 900, 1000, 1100, 2000, 2500].into_iter();
    let mut clock = || RawNs(stamps.next().unwrap());
    let pair = I915::new(&gpu, &System, &roots).clock_pair(&mut clock).unwrap();
    assert_eq!(
        (pair.ticks, pair.bits, pair.host.mid(), pair.host.uncertainty_ns()),
        (2, 36, RawNs(1050), 50)
    );
    // On DG2 the OA unit's clock is not shifted and the engine's is.
    gpu.script().params.insert(57, 2 * HZ as u32);
    let mut clock = || RawNs(0);
    let pair = I915::new(&gpu, &System, &roots).clock_pair(&mut clock).unwrap();
    assert_eq!((pair.ticks, pair.bits), (8, 37));
    gpu.script().params.insert(57, 19_200_000);
    assert!(matches!(
        I915::new(&gpu, &System, &roots).clock_pair(&mut clock),
        Err(OaError::Clock(_))
    ));
}

#[test]
fn streams_are_opened_with_the_documented_properties() {
    let gpu = Emulator::new(kbl());
    let (_dir, roots) = roots();
    let i915 = I915::new(&gpu, &System, &roots);
    i915.open(&options(12)).unwrap();
    assert_eq!(gpu.script().opened, [(2, 1), (3, 2), (4, 10), (5, 12), (8, 1_000_000)]);
    // Kernels before revision 5 do not know the poll period.
    gpu.script().params.insert(54, 4);
    i915.open(&options(12)).unwrap();
    assert_eq!(gpu.script().opened, [(2, 1), (3, 2), (4, 10), (5, 12)]);
    let wrong = i915.open(&i915::StreamOptions { format: Format::Pec64u64, ..options(12) });
    assert!(matches!(wrong, Err(OaError::Unsupported { .. })));

    let xe = Xe::new(&gpu, &System, &roots);
    let wanted =
        xe::StreamOptions { unit: 1, config: ConfigId(4), format: Format::Pec64u64, exponent: 9 };
    xe.open(&wanted).unwrap();
    assert_eq!(gpu.script().opened, [(1, 1), (2, 1), (3, 4), (4, 0x01_0105), (5, 9)]);
    assert!(matches!(
        xe.open(&xe::StreamOptions { format: Format::HswA13, ..wanted }),
        Err(OaError::Unsupported { .. })
    ));
}

#[test]
fn every_errno_has_words_and_remedies() {
    let (_dir, roots) = roots();
    let table = [
        (libc::EBUSY, "another program has a stream", Some("fuser")),
        (libc::EACCES, "demands CAP_PERFMON", Some("paranoid=0")),
        (libc::EPERM, "demands CAP_PERFMON", Some("paranoid=0")),
        (libc::EINVAL, "refused the request as invalid", None),
        (libc::ENODEV, "not offered by this device or kernel", None),
        (libc::ENOTTY, "not offered by this device or kernel", None),
        (libc::EOPNOTSUPP, "not offered by this device or kernel", None),
        (libc::ENOMEM, "failed", None),
        (libc::EFAULT, "failed", None),
    ];
    for (code, words, remedy) in table {
        let gpu = Emulator::new(kbl());
        for number in [
            request::I915_PERF_OPEN,
            request::I915_PERF_ADD_CONFIG,
            request::I915_REG_READ,
            request::XE_OBSERVATION,
            request::XE_DEVICE_QUERY,
        ] {
            gpu.script().errors.insert(number, code);
        }
        let (i915, xe) = (I915::new(&gpu, &System, &roots), Xe::new(&gpu, &System, &roots));
        let uuid: Uuid = UUID.parse().unwrap();
        let lists = Registers::default();
        let wanted = xe::StreamOptions {
            unit: 0,
            config: ConfigId(1),
            format: Format::Pec64u64,
            exponent: 9,
        };
        let errors = [
            i915.open(&options(12)).err(),
            i915.add_config(&uuid, &lists).err(),
            i915.clock_pair(&mut || RawNs(0)).err(),
            xe.open(&wanted).err(),
            xe.add_config(&uuid, &lists).err(),
            xe.remove_config(ConfigId(1)).err(),
            xe.units().err(),
            xe.clock_pair(Engine::default(), 0).err(),
        ];
        for error in errors {
            let error = error.unwrap();
            assert!(error.to_string().contains(words), "{code}: {error}");
            assert_eq!(error.remedy().is_some(), remedy.is_some(), "{code}: {error}");
            assert!(remedy.is_none_or(|r| error.remedy().unwrap().contains(r)), "{code}: {error}");
        }
    }
}

#[test]
fn too_fast_is_not_taken_for_missing_privilege() {
    let gpu = Emulator::new(kbl());
    gpu.script().errors.insert(request::I915_PERF_OPEN, libc::EACCES);
    let (_dir, roots) = roots();
    let i915 = I915::new(&gpu, &System, &roots);
    // 2^6 ticks at 12 MHz: 187500 reports a second.
    let error = i915.open(&options(5)).err().unwrap();
    assert!(
        matches!(error, OaError::TooFast { wanted_hz: 187_500, limit_hz: 100_000, .. }),
        "{error}"
    );
    let error = i915.open(&options(12)).err().unwrap();
    assert!(matches!(&error, OaError::Denied { value, .. } if value == "1"), "{error}");
}

#[test]
fn configurations_are_found_or_loaded_once() {
    let gpu = Emulator::new(kbl());
    let (dir, roots) = roots();
    let i915 = I915::new(&gpu, &System, &roots);
    let uuid: Uuid = UUID.parse().unwrap();
    assert!(matches!(
        i915.ensure_config("card0", &uuid, None),
        Err(OaError::ConfigNotLoaded { .. })
    ));
    let a7 = "a7=fine:7,coarse:7,inc:0".parse().unwrap();
    let lists =
        Registers { mux: vec![Register { address: 0x9888, value: 1 }], ..Registers::default() }
            .with_events(&[a7])
            .unwrap();
    assert_eq!(i915.ensure_config("card0", &uuid, Some(&lists)).unwrap(), (ConfigId(2), true));
    let flex = [0x58, 0xe4, 0, 0, 0x70, 0x07, 0, 0];
    assert_eq!(
        gpu.script().configs,
        [(UUID.to_owned(), vec![vec![0x88, 0x98, 0, 0, 1, 0, 0, 0], vec![], flex.to_vec()])]
    );
    // Loaded by somebody between the look and the call: found in sysfs the second time.
    assert!(matches!(i915.add_config(&uuid, &lists), Err(OaError::AlreadyLoaded { .. })));
    put(dir.path(), &format!("sys/class/drm/card0/metrics/{UUID}/id"), "5\n");
    assert_eq!(i915.ensure_config("card0", &uuid, Some(&lists)).unwrap(), (ConfigId(5), false));
    // xe takes one list.
    *gpu.script() = Script::default();
    let xe = Xe::new(&gpu, &System, &roots);
    assert_eq!(xe.ensure_config("card1", &uuid, Some(&lists)).unwrap(), (ConfigId(1), true));
    assert_eq!(gpu.script().configs[0].1, [[&[0x88, 0x98, 0, 0, 1, 0, 0, 0][..], &flex].concat()]);
    xe.remove_config(ConfigId(1)).unwrap();
    assert_eq!(gpu.script().removed, [1]);
}

#[test]
fn xe_is_asked_what_it_is() {
    let mut units = vec![0; 8];
    units.extend(2u32.to_le_bytes());
    units.extend([0; 4]);
    for (id, engines) in [(0u32, 2u64), (1, 0)] {
        let mut unit = vec![0; 72];
        unit[8..12].copy_from_slice(&id.to_le_bytes());
        unit[12..16].copy_from_slice(&id.to_le_bytes());
        unit[24..32].copy_from_slice(&38_400_000u64.to_le_bytes());
        unit[64..72].copy_from_slice(&engines.to_le_bytes());
        units.extend(unit);
        (0..engines).for_each(|i| units.extend([4 * i as u8, 0, 0, 0, 0, 0, 0, 0]));
    }
    let mut gts = vec![1, 0, 0, 0, 0, 0, 0, 0];
    let mut gt = vec![0; 96];
    gt[12..16].copy_from_slice(&19_200_000u32.to_le_bytes());
    gts.extend(gt);
    let script = Script {
        queries: BTreeMap::from([(8, units.clone()), (3, gts)]),
        tick_bits: 64,
        ticks: 41,
        cpu_ns: 5000,
        ..Script::default()
    };
    let gpu = Emulator::new(script);
    let (_dir, roots) = roots();
    let xe = Xe::new(&gpu, &System, &roots);
    let got = xe.units().unwrap();
    assert_eq!(
        (got.len(), got[0].hz, got[0].engines.len(), got[0].engines[1].class, got[1].id),
        (2, 38_400_000, 2, 4, 1)
    );
    assert_eq!(xe.reference_hz(0).unwrap(), 19_200_000);
    assert!(matches!(xe.reference_hz(7), Err(OaError::Answer { .. })));
    let pair = xe.clock_pair(Engine::default(), 0).unwrap();
    assert_eq!((pair.ticks, pair.bits, pair.host.mid()), (42, 64, RawNs(5050)));
    // Every cut of the answer is an error, never a panic.
    for cut in 0..units.len() {
        gpu.script().queries.insert(8, units[..cut].to_vec());
        assert!(xe.units().is_err(), "{cut}");
    }
}

fn facts(driver: Driver, format: Format) -> StreamFacts {
    let generation = if driver == Driver::I915 { Generation::Gen9 } else { Generation::Xe2 };
    StreamFacts {
        name: "oa:test".to_owned(),
        driver,
        layout: format.layout(Published::Tables),
        generation,
        hz: HZ,
        shift: 0,
        period_ns: 682_666,
    }
}

fn sampler(gpu: &Emulator, driver: Driver, format: Format) -> OaSampler {
    OaSampler::new(
        Box::new(gpu.clone()),
        Box::new(gpu.clone()),
        facts(driver, format),
        Some(ConfigId(2)),
    )
}

type Seen = (RawNs, RawNs, u64, Option<u32>);

/// Reads everything: (begin, end, A0 or PEC0, context).
fn drain(sampler: &mut OaSampler, start: u64) -> (Vec<Seen>, Option<String>) {
    let mut now = start;
    let mut clock = || {
        now += 1000;
        RawNs(now)
    };
    let mut got = Vec::new();
    let result = sampler.read(&mut clock, &mut |w| {
        let CounterValue::Count(first) = w.values[2] else { panic!("{:?}", w.values[2]) };
        got.push((w.begin.unwrap().mid(), w.end.unwrap().mid(), first, w.context));
    });
    (got, result.err().map(|e| e.to_string()))
}

#[test]
fn the_table_per_kernel_equals_the_script() {
    // Kernels of 10 ms alternate: the first counts 5 events a tick in A0, the second 1. Reports
    // every 8192 ticks (exponent 12), torn at odd places, over a wrap of the 32-bit timestamp.
    let layout = Format::A32u40A4u32B8C8.layout(Published::Tables);
    let a0 = layout.slot(Counter::new(Group::A, 0)).unwrap();
    let mut writer = Writer::new(layout);
    let start = (1u64 << 32) - 1_000_000;
    writer.set_time(start);
    let kernel_ticks = 10 * HZ / 1000;
    let mut stream = record(1, &writer.report(timer_id(), 0));
    let mut at = 0;
    while at < 20 * kernel_ticks {
        let rate = |tick: u64| if (tick / kernel_ticks).is_multiple_of(2) { 5 } else { 1 };
        let events: u64 = (at..at + 8192).step_by(64).map(|t| 64 * rate(t)).sum();
        at += 8192;
        writer.add(0, 8192);
        writer.add(a0, events);
        stream.extend(record(1, &writer.report(timer_id(), 0)));
    }
    let gpu = Emulator::new(Script { ticks: start, ..kbl() });
    gpu.script().reads.extend(stream.chunks(1001).map(|c| Read::Bytes(c.to_vec())));
    let mut sampler = sampler(&gpu, Driver::I915, Format::A32u40A4u32B8C8);
    let (windows, error) = drain(&mut sampler, 1_000_000_000);
    assert_eq!(error, None);
    // Reports are placed on the host's clock: one window is 682.67 us.
    let mut series = Series::new(1);
    for (begin, end, count, _) in &windows {
        assert!((682_666..=682_667).contains(&end.since(*begin)), "{begin:?} {end:?}");
        series.push(begin.0, end.0, &[*count]).unwrap();
    }
    let origin = windows[0].0.0;
    let spans: Vec<(u64, u64)> =
        (0..20).map(|i| (origin + i * 10_000_000, origin + (i + 1) * 10_000_000)).collect();
    for (i, got) in attribute(&series, &spans).iter().enumerate() {
        let want = kernel_ticks * if i % 2 == 0 { 5 } else { 1 };
        assert_eq!((got.resolution, got.is_shared), (Resolution::Resolved, false));
        assert!(
            got.counts[0].abs_diff(want) <= got.edge_bounds[0],
            "kernel {i}: {got:?}, script {want}"
        );
    }
    let whole = series.between(origin, origin + 200_000_000)[0];
    assert!(whole.abs_diff(10 * 6 * kernel_ticks) <= 5 * 8192, "{whole}");
    assert_eq!((sampler.health().unplaced, sampler.health().lost), (0, 0));
    drop(sampler);
    assert_eq!(gpu.script().removed, [2], "what was added is removed");
}

#[test]
fn losses_and_switches_of_i915_come_through() {
    let layout = Format::A32u40A4u32B8C8.layout(Published::Tables);
    let valid = 1 << 16;
    let mut writer = Writer::new(layout);
    let mut report = |id: u32, context| {
        writer.advance(100, 10);
        record(1, &writer.report(id | valid, context))
    };
    let mut stream = report(timer_id(), 7);
    stream.extend(report(switch_id(), 8));
    stream.extend(report(switch_id(), 7));
    stream.extend(report(timer_id(), 7));
    stream.extend(record(2, &[]));
    stream.extend(report(timer_id(), 7));
    stream.extend(record(3, &[]));
    stream.extend(report(timer_id(), 7));
    stream.extend(report(timer_id(), 7));
    let gpu = Emulator::new(kbl());
    gpu.script().reads.extend([
        Read::Bytes(stream[..100].to_vec()),
        Read::Errno(libc::EINTR),
        Read::Bytes(stream[100..].to_vec()),
    ]);
    let mut sampler = sampler(&gpu, Driver::I915, Format::A32u40A4u32B8C8);
    let (windows, error) = drain(&mut sampler, 0);
    assert_eq!(error, None);
    let health = sampler.health();
    assert_eq!(
        windows.into_iter().map(|w| w.3).collect::<Vec<_>>(),
        [Some(7), Some(8), Some(7), None, Some(7)]
    );
    assert_eq!((health.windows, health.refused, health.lost, health.gaps), (5, 0, 1, 1));
}

#[test]
fn losses_of_xe_are_asked_for() {
    let layout = Format::Pec64u64.layout(Published::Tables);
    let mut writer = Writer::new(layout);
    let mut report = || {
        writer.advance(100, 10);
        Read::Bytes(writer.report(timer_id(), 0))
    };
    let gpu = Emulator::new(Script { tick_bits: 64, statuses: [1, 2].into(), ..Script::default() });
    let script = [
        report(),
        report(),
        Read::Errno(libc::EIO),
        report(),
        Read::Errno(libc::EIO),
        report(),
        report(),
    ];
    gpu.script().reads.extend(script);
    let mut sampler = sampler(&gpu, Driver::Xe(Engine::default()), Format::Pec64u64);
    let (windows, error) = drain(&mut sampler, 0);
    // The overflow ends a chain: of five reports there are three intervals.
    assert_eq!((windows.len(), error), (3, None));
    assert_eq!((sampler.health().lost, sampler.health().gaps), (1, 1));
    // EIO without a reason does not spin.
    gpu.script().reads.push_back(Read::Errno(libc::EIO));
    assert!(drain(&mut sampler, 2_000_000_000).1.unwrap().contains("disabled"));
}

#[test]
fn a_stream_that_fails_says_how() {
    for (code, words) in [
        (libc::EIO, "the OA stream is disabled (EIO)"),
        (libc::ENODEV, "reading an OA stream failed: No such device"),
        (libc::ENOSPC, "No space left"),
    ] {
        let gpu = Emulator::new(kbl());
        gpu.script().reads.push_back(Read::Errno(code));
        let (windows, error) = drain(&mut sampler(&gpu, Driver::I915, Format::A32u40A4u32B8C8), 0);
        assert!(
            windows.is_empty() && error.as_ref().is_some_and(|e| e.contains(words)),
            "{error:?}"
        );
    }
    // Without a clock windows come, but have no place.
    let gpu = Emulator::new(kbl());
    gpu.script().errors.insert(request::I915_REG_READ, libc::EINVAL);
    let mut writer = Writer::new(Format::A12.layout(Published::IgtTests));
    for _ in 0..2 {
        writer.advance(10, 1);
        gpu.script().reads.push_back(Read::Bytes(record(1, &writer.report(timer_id(), 0))));
    }
    let mut facts = facts(Driver::I915, Format::A12);
    facts.layout = Format::A12.layout(Published::IgtTests);
    let mut sampler = OaSampler::new(
        Box::new(gpu.clone()),
        Box::new(gpu.clone()) as Box<dyn StreamDevice>,
        facts,
        None,
    );
    let mut seen = Vec::new();
    let result = sampler
        .read(&mut || RawNs(1), &mut |w| seen.push((w.begin, w.end, w.values[1], w.device_ticks)));
    assert!(result.is_err());
    assert_eq!(seen, [(None, None, CounterValue::Absent, Some((10, 20)))]);
    assert_eq!(sampler.health().unplaced, 1);
    drop(sampler);
    assert_eq!(gpu.script().removed, [] as [u64; 0]);
}
