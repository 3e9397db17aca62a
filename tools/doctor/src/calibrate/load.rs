//! Puts a load that comes and goes on every GPU of the system's OpenCL loader, for sensors to
//! follow, and reports when it did. Runs in a child, since it loads drivers. Refuses to
//! look at sensors: see [`super::sensors`].
#![forbid(unsafe_code)]

use super::looped::{self, Looped, MOST_TURNS, MeasureError, Measurements};
use clscope_opencl::{ClError, Device, DeviceKind};
use clscope_readings::Clocks;
use clscope_sensors::Clock;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The question that a child answers with a [`Load`] of each GPU.
pub const QUESTION: &str = "load";

/// Turns of load and as many of rest. Their lengths are no multiples of each other, nor of a usual
/// update period, so that the sensor's readings meet edges at all distances.
const TURNS: u64 = 20;
const LENGTHS_MS: [u64; 5] = [97, 151, 113, 173, 131];
/// Length of one launch: edges are known to a part of it.
const LAUNCH: Duration = Duration::from_micros(500);
/// Clocks rise for this long before anything is measured.
const WARM_UP: Duration = Duration::from_millis(700);

/// A loop of single-precision products and sums that keeps every lane busy and that no compiler
/// shortens.
const SOURCE: &str = "kernel void clscope_load(global float *out, uint turns) {
    float a = (float)get_global_id(0) * 1e-6f, b = a + 0.1f, c = a + 0.2f, d = a + 0.3f;
    for (uint i = 0; i < turns; ++i) {
        a = mad(a, 0.999f, 0.1f); b = mad(b, 0.998f, 0.2f); c = mad(c, 0.997f, 0.3f); d = mad(d, 0.996f, 0.4f);
    }
    if (a + b + c + d == -1.0f) out[0] = a;
}";

/// The load of one GPU.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Load {
    /// PCI address, if the runtime reports it.
    pub pci: Option<String>,
    /// CLOCK_MONOTONIC_RAW in nanoseconds, and the load from then on: 0 or 1.
    pub edges: Vec<(u64, f64)>,
}

/// Loads every GPU in turn.
pub fn load_gpus() -> Measurements<Load> {
    looped::measure_each(|facts| facts.kind == DeviceKind::Gpu, load)
}

struct Bench {
    looped: Looped,
    global: usize,
}

impl Bench {
    fn launch(&self) -> Result<(), ClError> {
        let of = &self.looped;
        of.session.launch_untimed(&of.kernel, self.global, of.group)
    }

    /// Launches `n` times and waits.
    fn run(&self, n: u64) -> Result<(), ClError> {
        (0..n).try_for_each(|_| self.launch())?;
        self.looped.session.finish()
    }

    /// Keeps the device busy for about so long; a few launches are always waiting.
    fn busy(&self, length: Duration) -> Result<(), ClError> {
        let begin = Instant::now();
        let mut launched = Duration::ZERO;
        while launched < length {
            self.launch()?;
            self.looped.session.flush()?;
            launched += LAUNCH;
            // Never more than some milliseconds ahead, so that the end is where it is wanted.
            if let Some(ahead) = launched.checked_sub(begin.elapsed() + 6 * LAUNCH) {
                std::thread::sleep(ahead);
            }
        }
        self.looped.session.finish()
    }
}

fn load(device: &Device) -> Result<Load, MeasureError> {
    let mut edges = Vec::new();
    let looped = Looped::new(device, "clscope_load", SOURCE, 256)?;
    let bench =
        Bench { global: looped.group * 8 * device.facts.compute_units.max(1) as usize, looped };
    // Twice: clocks rise meanwhile.
    let mut wanted = 1_000u32;
    for _ in 0..2 {
        loop {
            bench.looped.turns(wanted)?;
            bench.run(1)?;
            let begin = Instant::now();
            bench.run(8)?;
            let each = begin.elapsed().as_secs_f64() / 8.0;
            if each > LAUNCH.as_secs_f64() / 2.0 {
                wanted = ((f64::from(wanted) * LAUNCH.as_secs_f64() / each) as u32).max(1);
                break;
            }
            if wanted > MOST_TURNS {
                return Err(MeasureError::NoLoop { turns: wanted, seconds: each });
            }
            wanted *= 4;
        }
        bench.looped.turns(wanted)?;
        bench.busy(WARM_UP)?;
    }
    let now = || Clocks.raw().0;
    edges.push((now(), 0.0));
    for (_, length) in (0..TURNS).zip(LENGTHS_MS.iter().cycle().skip(1)) {
        let length = Duration::from_millis(*length);
        std::thread::sleep(length);
        edges.push((now(), 1.0));
        bench.busy(length)?;
        edges.push((now(), 0.0));
    }
    // What follows late still follows.
    std::thread::sleep(Duration::from_millis(LENGTHS_MS[0]));
    Ok(Load { pci: device.facts.pci.clone(), edges })
}
