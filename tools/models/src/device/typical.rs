//! What devices of a kind typically do in a cycle of a compute unit: enough to say which of a kernel's
//! causes are the nearest, where no ceiling of the device was measured. Refuses to be a figure: what
//! it says of a time or a share is not shown.

use super::{Device, name};
use crate::facts::OnDevice;
use crate::figure::{Evidence, Figure};

/// Of a compute unit in a cycle, of a GPU and of a CPU: operations, or bytes. Two digits of what
/// `clscope bench model` measured: of an NVIDIA H200 (`tests/limits/h200.json`), and the geometric
/// mean of PoCL 3.1 and Intel's runtime on an Intel Xeon (`pocl.json`, `intel.json`); of what these
/// lack that on an AMD EPYC (`pocl_shared.json`, `intel_shared.json`). FP16 of the GPU is twice FP32, as NVIDIA states for Hopper without tensor
/// cores (*H100 Tensor Core GPU Architecture*). A test holds them to these files.
const A_CYCLE: [(&str, f64, f64); 38] = [
    (name::DRAM, 18.0, 5.7),
    (name::DRAM_COPY, 16.0, 3.2),
    (name::L1, 130.0, 35.0),
    (name::L2, 40.0, 32.0),
    (name::STORE_LAST, 17.0, 0.0),
    (name::LOCAL, 130.0, 7.2),
    (name::PRIVATE, 2.9, 4.7),
    ("rate.fp16.add", 250.0, 3.9),
    ("rate.fp16.fma", 510.0, 4.8),
    ("rate.fp32.add", 120.0, 1.5),
    ("rate.fp32.fma", 250.0, 8.3),
    ("rate.fp32.div", 13.0, 0.6),
    ("rate.fp64.add", 63.0, 1.5),
    ("rate.fp64.fma", 130.0, 8.0),
    ("rate.fp64.div", 6.8, 0.21),
    (name::ITEMS_SINGLE, 120.0, 2.1),
    (name::ITEMS_DOUBLE, 58.0, 2.0),
    (name::INTEGER, 120.0, 9.8),
    (name::LOGIC, 63.0, 9.4),
    (name::INT_MUL, 64.0, 1.3),
    (name::INT_DIV, 4.3, 0.35),
    (name::LONG, 58.0, 6.8),
    (name::LONG_MUL, 15.0, 0.92),
    (name::LONG_DIV, 1.0, 0.1),
    (name::CONVERT, 32.0, 2.7),
    (name::SPECIAL, 16.0, 0.15),
    (name::SPECIAL_DOUBLE, 4.5, 0.19),
    (name::CONSTANT, 32.0, 1.1),
    (name::CONSTANT_APART, 4.0, 1.1),
    (name::IMAGE, 5.2, 0.066),
    (name::BARRIER, 16.0, 1.1),
    (name::ATOMIC, 3.7, 0.054),
    (name::ATOMIC_APART, 0.4, 0.036),
    (name::ATOMIC_SOME, 0.045, 0.035),
    (name::ATOMIC_FEW, 0.013, 0.036),
    (name::ATOMIC_WORD, 0.0051, 0.01),
    (name::LOCAL_ATOMIC, 32.0, 0.23),
    (name::LOCAL_ATOMIC_WORD, 1.0, 0.11),
];

/// Cycles, of the same devices.
const CYCLES: [(&str, f64, f64); 7] = [
    (name::LATENCY_ADD, 4.2, 2.8),
    (name::LATENCY_SPECIAL, 17.0, 33.0),
    (name::LATENCY_LOCAL, 29.0, 6.9),
    (name::LATENCY_BARRIER, 14.0, 0.0),
    (name::LATENCY_MEMORY, 690.0, 5.1),
    (name::LATENCY_RANDOM, 1100.0, 150.0),
    (name::ISSUE, 0.25, 0.0),
];

/// Nanoseconds of an empty launch, of the same devices.
const LAUNCH: (f64, f64) = (5500.0, 790.0);

/// Clocks of these devices, MHz, and of devices that state none: measured of the H200; of the Xeon
/// from additions, which take 4 cycles there (Intel, *Optimization Reference Manual*).
const CLOCK_MHZ: (f64, f64) = (1980.0, 3000.0);

impl Device {
    /// A device of which nothing is known but what OpenCL says: its units and clock.
    pub fn typical(like: Self, clock_mhz: Option<u32>) -> Self {
        let mut out = Self { typical: true, ..like };
        let is_cpu = out.is_cpu();
        out.lanes = out.lanes.or((!is_cpu).then_some(32));
        let of = |gpu: f64, cpu: f64| if is_cpu { cpu } else { gpu };
        let ghz = 1e-3 * clock_mhz.map_or(of(CLOCK_MHZ.0, CLOCK_MHZ.1), f64::from);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is typical is what the files of measured devices say, to two digits.
    #[test]
    fn what_is_typical_was_measured() {
        let read = |text: &str| -> Device {
            let all: serde_json::Value = serde_json::from_str(text).unwrap();
            Device::read(all["device"].to_string().as_bytes()).unwrap()
        };
        let gpu = read(include_str!("../../tests/limits/h200.json"));
        let cpus = [
            read(include_str!("../../tests/limits/pocl.json")),
            read(include_str!("../../tests/limits/intel.json")),
            read(include_str!("../../tests/limits/pocl_shared.json")),
            read(include_str!("../../tests/limits/intel_shared.json")),
        ];
        let near = |key: &str, is: f64, was: f64| {
            assert!((is / was - 1.0).abs() <= 0.051, "{key}: {is}, and {was} was measured");
        };
        let of = |device: &Device, key: &str| device.get(key).ok().map(|figure| figure.value);
        let units = |device: &Device, mhz: f64| f64::from(device.compute_units) * 1e-3 * mhz;
        let mean = |key: &str| {
            let own = cpus.chunks(2).map(|two| two.iter().filter_map(|d| of(d, key)));
            let own: Vec<f64> =
                own.map(Iterator::collect).find(|own: &Vec<f64>| !own.is_empty())?;
            Some((own.iter().map(|v| v.ln()).sum::<f64>() / own.len() as f64).exp())
        };
        let cpu = |key: &str| Some(mean(key)? / units(&cpus[0], CLOCK_MHZ.1));
        for (key, of_gpu, of_cpu) in A_CYCLE {
            let (own, times) = match key.strip_prefix("rate.fp16.") {
                Some(operation) => (format!("rate.fp32.{operation}"), 2.0),
                None => (key.to_owned(), 1.0),
            };
            near(key, of_gpu, times * of(&gpu, &own).unwrap() / units(&gpu, CLOCK_MHZ.0));
            match cpu(key) {
                Some(rate) => near(key, of_cpu, rate),
                None => assert_eq!(of_cpu, 0.0, "{key}"),
            }
        }
        for (key, of_gpu, of_cpu) in CYCLES {
            near(key, of_gpu, of(&gpu, key).unwrap() * 1e-3 * CLOCK_MHZ.0);
            match mean(key) {
                Some(ns) => near(key, of_cpu, ns * 1e-3 * CLOCK_MHZ.1),
                None => assert_eq!(of_cpu, 0.0, "{key}"),
            }
        }
        near(name::LAUNCH, LAUNCH.0, of(&gpu, name::LAUNCH).unwrap());
        near(name::LAUNCH, LAUNCH.1, mean(name::LAUNCH).unwrap());
    }
}
