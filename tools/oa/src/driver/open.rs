//! From a card to a running sampler in one step: generation, clocks, topology, configuration,
//! stream. Owns the order and the choices (format, exponent); refuses to go on where a fact is
//! missing: the error names it.
#![forbid(unsafe_code)]

use crate::config::{ConfigId, Node, Registers, Uuid};
use crate::device::StreamDevice;
use crate::error::OaError;
use crate::format::Published;
use crate::i915::{self, I915};
use crate::report::Generation;
use crate::sampling::{Driver, OaSampler, StreamFacts};
use crate::time::{ClockPair, engine_shift, exponent_for};
use crate::topology::Topology;
use crate::xe::{self, Xe};
use clscope_sensors::files::{Files, Roots};
use clscope_sensors::units::Clock;

/// What is to be sampled.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Longest period between reports, nanoseconds; the hardware's are powers of two of its clock.
    pub period_ns: u64,
    /// The configuration.
    pub uuid: Uuid,
    /// Its registers, to load it where it is not loaded (needs privilege).
    pub registers: Option<&'a Registers>,
    /// How often the kernel looks for reports, nanoseconds, for who waits for them; i915's default
    /// is 5 ms.
    pub poll_ns: Option<u64>,
}

/// A running sampler and what its metrics need to know.
pub struct Opened {
    /// The source of counters.
    pub sampler: OaSampler,
    /// The generation, and whether it is a low-power part with six threads per EU.
    pub generation: (Generation, bool),
    /// The topology; `None` where the driver does not say.
    pub topology: Option<Topology>,
    /// Frequency of the OA timestamp, Hz.
    pub hz: u64,
    /// The period there is, nanoseconds.
    pub period_ns: u64,
    /// Lowest and highest clock of the GPU, Hz, where sysfs has them.
    pub clock_range_hz: (Option<u64>, Option<u64>),
    /// The configuration in force, and whether it was loaded for this.
    pub config: (ConfigId, bool),
}

const WHAT: &str = "opening an OA stream";

fn megahertz(files: &dyn Files, roots: &Roots, card: &str, names: [&str; 2]) -> Option<u64> {
    let base = roots.sys.join("class/drm").join(card);
    let read = |name: &&str| files.text(&base.join(name)).ok()?.trim().parse::<u64>().ok();
    names.iter().find_map(read).map(|mhz| mhz * 1_000_000)
}

/// The unit that watches a render engine, else a compute engine, with that engine.
fn unit_of(xe: &Xe<'_>) -> Result<(xe::Unit, xe::Engine), OaError> {
    let units = xe.units()?;
    let of_class = |class: u16| {
        units.iter().find_map(|u| Some((u.clone(), *u.engines.iter().find(|e| e.class == class)?)))
    };
    of_class(0).or_else(|| of_class(4)).ok_or_else(|| OaError::Unsupported {
        what: WHAT,
        reason: "xe lists no OA unit with a render or compute engine".to_owned(),
    })
}

/// The clock of a GPU by itself: needs no privilege and no stream.
pub struct GpuClock {
    device: Box<dyn StreamDevice>,
    driver: Driver,
    /// The OA unit of xe.
    unit: u32,
    shift: u32,
    /// Frequency of its ticks, Hz: those of the OA timestamp.
    pub hz: u64,
}

impl GpuClock {
    /// Of a card whose node is open.
    ///
    /// # Errors
    /// Where the driver does not report its rate.
    pub fn open(
        files: &dyn Files,
        roots: &Roots,
        node: &Node,
        device: Box<dyn StreamDevice>,
    ) -> Result<GpuClock, OaError> {
        let (driver, unit, hz, shift) = if node.driver == "xe" {
            let xe = Xe::new(&*device, files, roots);
            let (unit, engine) = unit_of(&xe)?;
            let shift = engine_shift(unit.hz, xe.reference_hz(engine.gt)?)?;
            (Driver::Xe(engine), unit.id, unit.hz, shift)
        } else {
            let (hz, engine_hz) = I915::new(&*device, files, roots).clocks()?;
            (Driver::I915, 0, hz, engine_shift(hz, engine_hz)?)
        };
        Ok(GpuClock { device, driver, unit, shift, hz })
    }

    /// Host and GPU clock at this moment.
    ///
    /// # Errors
    /// The driver's.
    pub fn pair(&self, clock: &mut dyn Clock) -> Result<ClockPair, OaError> {
        self.driver.clock_pair(&*self.device, self.shift, clock)
    }
}

/// Opens a sampler on a card whose node is open. The stream keeps the GPU awake while it lives; a
/// configuration that was loaded for it is unloaded when it is dropped.
///
/// # Errors
/// Whatever is missing or refused, with its remedy.
pub fn open(
    files: &dyn Files,
    roots: &Roots,
    node: &Node,
    device: Box<dyn StreamDevice>,
    wanted: &Wanted<'_>,
) -> Result<Opened, OaError> {
    let generation = node.device_id.and_then(Generation::of_device).ok_or_else(|| {
        let id = node.device_id.map_or("unknown".to_owned(), |id| format!("{id:#06x}"));
        let reason = format!("the generation of the device {id} is not known");
        OaError::Unsupported { what: WHAT, reason }
    })?;
    let format = generation.0.widest_format();
    let range = [
        ["gt_min_freq_mhz", "device/tile0/gt0/freq0/min_freq"],
        ["gt_max_freq_mhz", "device/tile0/gt0/freq0/max_freq"],
    ];
    let [low, high] = range.map(|names| megahertz(files, roots, &node.card, names));
    let GpuClock { device, driver, unit, shift, hz } = GpuClock::open(files, roots, node, device)?;
    let (exponent, period) = exponent_for(wanted.period_ns, hz).ok_or_else(|| {
        OaError::Unsupported { what: WHAT, reason: "the OA clock's frequency is 0".to_owned() }
    })?;
    let (card, uuid, registers) = (&node.card, &wanted.uuid, wanted.registers);
    let (stream, topology, config) = match driver {
        Driver::Xe(engine) => {
            let xe = Xe::new(&*device, files, roots);
            let config = xe.ensure_config(card, uuid, registers)?;
            let options = xe::StreamOptions { unit, config: config.0, format, exponent };
            let unload = || config.1.then(|| xe.remove_config(config.0));
            let stream = xe.open(&options).inspect_err(|_| drop(unload()))?;
            (stream, xe.topology(engine.gt).ok(), config)
        }
        Driver::I915 => {
            let i915 = I915::new(&*device, files, roots);
            let config = i915.ensure_config(card, uuid, registers)?;
            let poll_ns = wanted.poll_ns;
            let options = i915::StreamOptions { config: config.0, format, exponent, poll_ns };
            let unload = || config.1.then(|| i915.remove_config(config.0));
            let stream = i915.open(&options).inspect_err(|_| drop(unload()))?;
            (stream, i915.topology().ok(), config)
        }
    };
    let facts = StreamFacts {
        name: format!("oa:{}:{}", node.driver, node.card),
        driver,
        layout: format.layout(Published::Tables),
        generation: generation.0,
        hz,
        shift,
        period_ns: period,
    };
    let added = config.1.then_some(config.0);
    let sampler = OaSampler::new(device, stream, facts, added);
    Ok(Opened {
        sampler,
        generation,
        topology,
        hz,
        period_ns: period,
        clock_range_hz: (low, high),
        config,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::{Emulator, Script};
    use crate::source::CounterSource;
    use crate::topology::synthesised_i915;
    use crate::uapi::request;
    use clscope_sensors::files::System;
    use std::collections::BTreeMap;

    fn node(driver: &str, device_id: u32) -> Node {
        Node {
            card: "card0".into(),
            render: None,
            driver: driver.into(),
            pci: None,
            device_id: Some(device_id),
        }
    }

    fn wanted(registers: Option<&Registers>) -> Wanted<'_> {
        let uuid = "12994724-3a5a-4303-bb3c-ba0175d2c200".parse().unwrap();
        Wanted { period_ns: 1_000_000, uuid, registers, poll_ns: None }
    }

    fn kbl() -> Emulator {
        Emulator::new(Script {
            params: BTreeMap::from([(51, 12_000_000), (54, 7), (57, 12_000_000)]),
            queries: BTreeMap::from([(1, synthesised_i915(1, 3, 8))]),
            tick_bits: 36,
            ..Script::default()
        })
    }

    #[test]
    fn i915_is_opened_in_one_step() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::below(dir.path());
        let card = dir.path().join("sys/class/drm/card0");
        std::fs::create_dir_all(&card).unwrap();
        std::fs::write(card.join("gt_max_freq_mhz"), "1050\n").unwrap();
        let gpu = kbl();
        let registers = Registers::default();
        let opened = open(
            &System,
            &roots,
            &node("i915", 0x5916),
            Box::new(gpu.clone()),
            &wanted(Some(&registers)),
        )
        .unwrap();
        assert_eq!(gpu.script().opened, [(2, 1), (3, 2), (4, 10), (5, 12)]);
        assert_eq!(
            (opened.generation, opened.hz, opened.period_ns),
            ((Generation::Gen9, false), 12_000_000, 682_666)
        );
        assert_eq!(
            (opened.topology.map(|t| t.eus), opened.clock_range_hz, opened.config),
            (Some(24), (None, Some(1_050_000_000)), (ConfigId(2), true))
        );
        assert_eq!(opened.sampler.name(), "oa:i915:card0");
        drop(opened.sampler);
        assert_eq!(gpu.script().removed, [2]);
    }

    #[test]
    fn what_was_loaded_for_nothing_is_unloaded() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::below(dir.path());
        let gpu = kbl();
        gpu.script().errors.insert(request::I915_PERF_OPEN, libc::EBUSY);
        let registers = Registers::default();
        let result = open(
            &System,
            &roots,
            &node("i915", 0x5916),
            Box::new(gpu.clone()),
            &wanted(Some(&registers)),
        );
        assert!(matches!(result.err(), Some(OaError::Busy { .. })));
        assert_eq!(gpu.script().removed, [2]);
        let result = open(&System, &roots, &node("i915", 0x5916), Box::new(kbl()), &wanted(None));
        assert!(matches!(result.err(), Some(OaError::ConfigNotLoaded { .. })));
        let result = open(&System, &roots, &node("i915", 0x1234), Box::new(kbl()), &wanted(None));
        assert!(result.err().unwrap().to_string().contains("device 0x1234"));
    }

    #[test]
    fn xe_is_opened_on_the_unit_of_its_render_engine() {
        let mut units = vec![0; 8];
        units.extend(2u64.to_le_bytes());
        // A media unit first: engine class 2; then the one with the render engine.
        for (id, class) in [(0u32, 2u8), (1, 0)] {
            let mut unit = vec![0; 72];
            unit[8..12].copy_from_slice(&id.to_le_bytes());
            unit[24..32].copy_from_slice(&19_200_000u64.to_le_bytes());
            unit[64] = 1;
            units.extend(unit);
            units.extend([class, 0, 0, 0, 0, 0, 0, 0]);
        }
        let mut gts = vec![0; 8 + 96];
        gts[8 + 12..8 + 16].copy_from_slice(&19_200_000u32.to_le_bytes());
        let gpu = Emulator::new(Script {
            queries: BTreeMap::from([(8, units), (3, gts)]),
            tick_bits: 64,
            ..Script::default()
        });
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::below(dir.path());
        let metrics =
            dir.path().join("sys/class/drm/card0/metrics/12994724-3a5a-4303-bb3c-ba0175d2c200");
        std::fs::create_dir_all(&metrics).unwrap();
        std::fs::write(metrics.join("id"), "3").unwrap();
        let opened =
            open(&System, &roots, &node("xe", 0x64a0), Box::new(gpu.clone()), &wanted(None))
                .unwrap();
        assert_eq!(gpu.script().opened, [(1, 1), (2, 1), (3, 3), (4, 0x01_0105), (5, 13)]);
        assert_eq!(
            (opened.period_ns, opened.config, opened.topology),
            (853_333, (ConfigId(3), false), None)
        );
        drop(opened.sampler);
        assert_eq!(gpu.script().removed, [] as [u64; 0]);
        // A GPU without a render or compute engine has nothing for OpenCL.
        gpu.script().queries.insert(8, vec![0; 16]);
        let result = open(&System, &roots, &node("xe", 0x64a0), Box::new(gpu), &wanted(None));
        assert!(matches!(result.err(), Some(OaError::Unsupported { .. })));
    }
}
