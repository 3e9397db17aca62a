//! A GPU's timer beside the host's clock, read through the runtime or the driver.

use crate::abi::entry::H;
use crate::abi::signatures as f;
use clscope_clock::monotonic_raw;
use clscope_oa::open::GpuClock;
use clscope_readings::Clocks;

/// The source of a GPU's time.
pub(super) enum Timer {
    /// `clGetDeviceAndHostTimer`.
    Runtime(f::clGetDeviceAndHostTimer),
    /// The driver.
    Driver(GpuClock),
}

/// The timer of a device, with its number in the file; `None` where it has none.
pub(super) struct TimerSlot {
    pub device: usize,
    pub timer: Option<(u32, Timer)>,
}

/// A reading of a timer.
#[derive(Clone, Copy)]
pub(super) struct Read {
    pub ticks: u64,
    pub host_ns: u64,
    pub within_ns: u64,
}

impl Timer {
    pub fn read(&self, device: H) -> Option<Read> {
        match self {
            Timer::Runtime(ask) => {
                let (mut ticks, mut host) = (0u64, 0u64);
                let before = monotonic_raw().0;
                // SAFETY: a live device of the application, and room for two cl_ulongs.
                let code = unsafe { ask(device, (&raw mut ticks).cast(), (&raw mut host).cast()) };
                let after = monotonic_raw().0;
                (code == 0).then_some(Read {
                    ticks,
                    host_ns: before + (after - before) / 2,
                    within_ns: (after - before).div_ceil(2),
                })
            }
            Timer::Driver(clock) => {
                let pair = clock.pair(&mut Clocks).ok()?;
                Some(Read {
                    ticks: pair.ticks,
                    host_ns: pair.host.mid().0,
                    within_ns: pair.host.uncertainty_ns(),
                })
            }
        }
    }
}
