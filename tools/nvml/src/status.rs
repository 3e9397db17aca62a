//! NVML's polled quantities: the energy counter, instant power, and the state that explains them
//! (clocks, temperature, reasons, memory power). Owns which call feeds which domain; a call the
//! device does not support is left out at opening, and said.
#![forbid(unsafe_code)]

use crate::api::{Api, ClockDomain, DeviceInfo, Field, Scope};
use crate::error::NvmlError;
use crate::ring::key;
use clscope_sensors::source::{
    Domain, POWER_LIMIT, Pace, Plane, Quantity, Range, SensorSource, TakeReading, Value, read_each,
};
use clscope_sensors::{Clock, EnergyUnit, Microwatts, SensorError};
use std::sync::Arc;

/// One polled quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// nvmlDeviceGetTotalEnergyConsumption: steps of 100 ms, 3 to 4 ms a call where it was
    /// measured.
    Energy,
    /// Field 186: instant power, new every 100 ms, a microsecond a call.
    InstantPower,
    /// Field 185, scope memory: 1 s average.
    MemoryPower,
    /// Field 185, scope module: 1 s average.
    ModulePower,
    /// SM clock.
    SmClock,
    /// Memory clock.
    MemoryClock,
    /// GPU temperature.
    Temperature,
    /// Clocks event reasons.
    Reasons,
    /// The power limit in force: no figure of a kernel may exceed it.
    PowerLimit,
}

impl Item {
    fn domain(self, device: &DeviceInfo) -> Domain {
        let average = Quantity::Power { window_ns: Some(1_000_000_000) };
        let (name, quantity, plane) = match self {
            Item::Energy => (
                "energy",
                Quantity::Energy { unit: EnergyUnit::MILLIJOULE, range: Range::Endless },
                Some(Plane::Gpu),
            ),
            Item::InstantPower => {
                ("power-instant", Quantity::Power { window_ns: None }, Some(Plane::Gpu))
            }
            Item::MemoryPower => ("memory-power-average", average, Some(Plane::GpuMemory)),
            Item::ModulePower => ("module-power-average", average, Some(Plane::GpuCard)),
            Item::SmClock => ("sm-clock", Quantity::Clock, None),
            Item::MemoryClock => ("memory-clock", Quantity::Clock, None),
            Item::Temperature => ("temperature", Quantity::Temperature, None),
            Item::Reasons => ("clock-reasons", Quantity::Flags, None),
            Item::PowerLimit => (POWER_LIMIT, Quantity::Power { window_ns: None }, None),
        };
        Domain { plane, device: Some(key(device)), ..Domain::new(name, quantity) }
    }

    fn read(self, api: &dyn Api, device: &DeviceInfo) -> Result<Value, NvmlError> {
        let index = device.index;
        let power = |field, scope| {
            let milliwatts = api.field(index, field, scope)?;
            // Unknown values come as all ones or as nothing at all.
            if milliwatts > 100_000_000 {
                return Err(NvmlError::Malformed {
                    call: "nvmlDeviceGetFieldValues",
                    what: format!("{milliwatts} mW"),
                });
            }
            Ok(Value::Power(Microwatts(milliwatts * 1000)))
        };
        Ok(match self {
            Item::Energy => Value::Counter(api.total_energy_mj(index)?),
            Item::InstantPower => power(Field::PowerInstant, Scope::Gpu)?,
            Item::MemoryPower => power(Field::PowerAverage, Scope::Memory)?,
            Item::ModulePower => power(Field::PowerAverage, Scope::Module)?,
            Item::SmClock => Value::Megahertz(f64::from(api.clock_mhz(index, ClockDomain::Sm)?)),
            Item::MemoryClock => {
                Value::Megahertz(f64::from(api.clock_mhz(index, ClockDomain::Memory)?))
            }
            Item::Temperature => Value::Millicelsius(i64::from(api.temperature_c(index)?) * 1000),
            Item::Reasons => Value::Bits(api.clock_reasons(index)?),
            Item::PowerLimit => {
                let milliwatts = u64::from(api.power_limit_mw(index)?);
                Value::Power(Microwatts(milliwatts * 1000))
            }
        })
    }
}

/// Some items of one device, polled together.
pub struct Polled {
    name: String,
    api: Arc<dyn Api>,
    device: DeviceInfo,
    items: Vec<Item>,
    domains: Vec<Domain>,
    pace: Pace,
}

impl Polled {
    /// Opens those of `items` that answer; the second value lists those that do not, and why.
    ///
    /// # Errors
    /// Where not one answers.
    pub fn open(
        api: Arc<dyn Api>,
        device: &DeviceInfo,
        label: &str,
        items: &[Item],
        pace: Pace,
    ) -> Result<(Polled, Vec<(Item, NvmlError)>), NvmlError> {
        let (mut works, mut problems) = (Vec::new(), Vec::new());
        for item in items {
            match item.read(&*api, device) {
                // A scope the board does not have reads 0 watts.
                Ok(Value::Power(Microwatts(0))) if *item == Item::ModulePower => {
                    let what = "module power reads 0: this board has no such sensor".to_owned();
                    problems.push((
                        *item,
                        NvmlError::Malformed { call: "nvmlDeviceGetFieldValues", what },
                    ));
                }
                Ok(_) => works.push(*item),
                Err(error) => problems.push((*item, error)),
            }
        }
        if works.is_empty() {
            let none =
                NvmlError::Malformed { call: "nvml", what: format!("nothing of {label} to read") };
            return Err(problems.into_iter().next().map_or(none, |(_, error)| error));
        }
        let polled = Polled {
            name: format!("nvml:{label}:{}", device.index.0),
            api,
            device: device.clone(),
            domains: works.iter().map(|item| item.domain(device)).collect(),
            items: works,
            pace,
        };
        Ok((polled, problems))
    }

    /// The energy counter, read every `every_ns`: 1 s is enough as a check of the samples; 100 ms
    /// where there are no samples, at 3 to 4 % of a core.
    ///
    /// # Errors
    /// Where the device has none (before Volta).
    pub fn energy(
        api: Arc<dyn Api>,
        device: &DeviceInfo,
        every_ns: u64,
    ) -> Result<Polled, NvmlError> {
        let pace = Pace {
            fastest_ns: every_ns,
            slowest_ns: every_ns.max(10_000_000_000),
            adaptive: false,
        };
        Polled::open(api, device, "energy", &[Item::Energy], pace).map(|(polled, _)| polled)
    }

    /// Instant power; its period is found by the sampler.
    ///
    /// # Errors
    /// Where the device has none.
    pub fn instant(api: Arc<dyn Api>, device: &DeviceInfo) -> Result<Polled, NvmlError> {
        let pace = Pace { fastest_ns: 5_000_000, slowest_ns: 1_000_000_000, adaptive: true };
        Polled::open(api, device, "instant", &[Item::InstantPower], pace).map(|(polled, _)| polled)
    }

    /// The power limit, every second: people change it, hardly ever.
    ///
    /// # Errors
    /// Where the device has none.
    pub fn limit(api: Arc<dyn Api>, device: &DeviceInfo) -> Result<Polled, NvmlError> {
        let pace = Pace { fastest_ns: 1_000_000_000, slowest_ns: 10_000_000_000, adaptive: false };
        Polled::open(api, device, "limit", &[Item::PowerLimit], pace).map(|(polled, _)| polled)
    }

    /// Clocks, temperature, reasons, memory and module power, every 200 ms.
    ///
    /// # Errors
    /// Where the device answers none of them.
    pub fn state(
        api: Arc<dyn Api>,
        device: &DeviceInfo,
    ) -> Result<(Polled, Vec<(Item, NvmlError)>), NvmlError> {
        let items = [
            Item::SmClock,
            Item::MemoryClock,
            Item::Temperature,
            Item::Reasons,
            Item::MemoryPower,
            Item::ModulePower,
        ];
        let pace = Pace { fastest_ns: 200_000_000, slowest_ns: 1_000_000_000, adaptive: false };
        Polled::open(api, device, "state", &items, pace)
    }
}

impl SensorSource for Polled {
    fn about(&self) -> (&str, &[Domain], Pace) {
        (&self.name, &self.domains, self.pace)
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeReading<'_>) -> Result<(), SensorError> {
        read_each(&self.items, clock, out, |item| {
            item.read(&*self.api, &self.device).map_err(SensorError::from)
        })
    }
}
