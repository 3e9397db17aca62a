//! What devices of a kind typically do in a cycle of a compute unit: enough to say which of a kernel's
//! causes are the nearest, where no ceiling of the device was measured. Refuses to be a figure: what
//! it says of a time or a share is not shown.

use super::{Device, name};
use crate::facts::OnDevice;
use crate::figure::{Evidence, Figure};

/// Of a compute unit in a cycle, of a GPU and of a CPU: operations, or bytes.
const A_CYCLE: [(&str, f64, f64); 37] = [
    (name::DRAM, 12.0, 4.0),
    (name::DRAM_COPY, 12.0, 3.0),
    (name::L1, 100.0, 35.0),
    (name::L2, 32.0, 8.0),
    (name::LOCAL, 100.0, 7.0),
    (name::PRIVATE, 4.0, 5.0),
    ("rate.fp16.add", 120.0, 4.0),
    ("rate.fp16.fma", 240.0, 8.0),
    ("rate.fp32.add", 120.0, 4.0),
    ("rate.fp32.fma", 240.0, 8.0),
    ("rate.fp32.div", 12.0, 0.5),
    ("rate.fp64.add", 16.0, 4.0),
    ("rate.fp64.fma", 32.0, 8.0),
    ("rate.fp64.div", 2.0, 0.2),
    (name::ITEMS_SINGLE, 120.0, 2.0),
    (name::ITEMS_DOUBLE, 16.0, 2.0),
    (name::INTEGER, 80.0, 8.0),
    (name::LOGIC, 80.0, 8.0),
    (name::INT_MUL, 40.0, 1.5),
    (name::INT_DIV, 4.0, 0.3),
    (name::LONG, 40.0, 6.0),
    (name::LONG_MUL, 12.0, 1.0),
    (name::LONG_DIV, 1.0, 0.1),
    (name::CONVERT, 24.0, 2.0),
    (name::SPECIAL, 16.0, 0.15),
    (name::SPECIAL_DOUBLE, 4.0, 0.2),
    (name::CONSTANT, 16.0, 1.0),
    (name::CONSTANT_APART, 4.0, 1.0),
    (name::IMAGE, 5.0, 0.07),
    (name::BARRIER, 16.0, 1.0),
    (name::ATOMIC, 4.0, 0.05),
    (name::ATOMIC_APART, 0.4, 0.05),
    (name::ATOMIC_SOME, 0.05, 0.02),
    (name::ATOMIC_FEW, 0.01, 0.01),
    (name::ATOMIC_WORD, 0.005, 0.01),
    (name::LOCAL_ATOMIC, 32.0, 0.2),
    (name::LOCAL_ATOMIC_WORD, 1.0, 0.1),
];

/// Cycles, of a GPU and of a CPU.
const CYCLES: [(&str, f64, f64); 6] = [
    (name::LATENCY_ADD, 4.0, 3.0),
    (name::LATENCY_SPECIAL, 18.0, 30.0),
    (name::LATENCY_LOCAL, 30.0, 6.0),
    (name::LATENCY_MEMORY, 650.0, 5.0),
    (name::LATENCY_RANDOM, 1000.0, 150.0),
    (name::ISSUE, 0.25, 0.0),
];

/// Nanoseconds of an empty launch, of a GPU and of a CPU.
const LAUNCH: (f64, f64) = (4000.0, 1000.0);

/// Clock of a device that states none, MHz.
const CLOCK_MHZ: f64 = 1500.0;

impl Device {
    /// A device of which nothing is known but what OpenCL says: its units and clock.
    pub fn typical(like: Self, clock_mhz: Option<u32>) -> Self {
        let mut out = Self { typical: true, ..like };
        let is_cpu = out.is_cpu();
        out.lanes = out.lanes.or((!is_cpu).then_some(32));
        let ghz = 1e-3 * clock_mhz.map_or(CLOCK_MHZ, f64::from);
        let of = |gpu: f64, cpu: f64| if is_cpu { cpu } else { gpu };
        let all = ghz * f64::from(out.compute_units.max(1));
        let rates = A_CYCLE.map(|(key, gpu, cpu)| (key, of(gpu, cpu) * all));
        let times = CYCLES.map(|(key, gpu, cpu)| (key, of(gpu, cpu) / ghz));
        let launch = [(name::LAUNCH, of(LAUNCH.0, LAUNCH.1))];
        for (key, value) in rates.into_iter().chain(times).chain(launch).filter(|of| of.1 > 0.0) {
            out.keep_parameter(key, Figure::exact(value, Evidence::Modelled), "", "typical");
        }
        out
    }
}

impl OnDevice {
    /// The device by what OpenCL says of it, where nothing of it was measured.
    pub(crate) fn typical(&self) -> Device {
        let like = Device {
            name: self.model.clone(),
            platform: self.platform.clone(),
            driver: self.driver.clone(),
            kind: if self.is_cpu { "cpu" } else { "gpu" }.to_owned(),
            compute_units: self.compute_units.unwrap_or(0),
            ..Device::default()
        };
        Device::typical(like, self.clock_mhz)
    }
}
