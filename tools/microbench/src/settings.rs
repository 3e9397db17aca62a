//! What the user asked for: how thorough a run is, how long its launches and windows last. Owns the
//! defaults; refuses to know of a device.

use std::path::PathBuf;

/// What the user asked for, and how thorough to be.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Everything, not the quick choice.
    pub full: bool,
    /// Tiny sizes: for simulators and tests.
    pub tiny: bool,
    /// Work-groups to run; empty: what fits the device.
    pub blocks: Vec<usize>,
    /// Work-items of a group; empty: what fits the device.
    pub tpb: Vec<usize>,
    /// Timed launches of a case; none: 10.
    pub repeat: Option<usize>,
    /// Turns of a kernel's loop instead of as many as last a few milliseconds.
    pub iterations: Option<u32>,
    /// Launches that are thrown away before the timed ones, instead of those that are seen to be
    /// slower.
    pub warm_up: Option<usize>,
    /// How long power is watched, nanoseconds.
    pub window_ns: Option<u64>,
    /// Watch power in every case that times a kernel.
    pub power: bool,
    /// Read performance counters: every case that times a kernel then runs it for a window of
    /// steady running too.
    pub counters: bool,
    /// Count what kernels execute, where the runtime gives their PTX, or compilers their SPIR-V.
    pub mix: bool,
    /// Folders in which `clang` and `llvm-spirv` are looked for, as in `PATH`; none: SPIR-V is not
    /// made.
    pub compilers: Option<std::ffi::OsString>,
    /// Launches are timed again until two times agree.
    pub agree: bool,
    /// Where binaries are kept.
    pub cache: Option<PathBuf>,
}

impl Settings {
    /// Timed launches of a case.
    pub fn repeat(&self) -> usize {
        self.repeat.unwrap_or(10).max(1)
    }

    /// How long a timed launch should last, nanoseconds.
    pub fn launch_ns(&self) -> u64 {
        match (self.tiny, self.full) {
            (true, _) => 50_000,
            (_, true) => 10_000_000,
            _ => 3_000_000,
        }
    }

    /// How long power is watched, nanoseconds.
    pub fn window_ns(&self) -> u64 {
        if let Some(ns) = self.window_ns {
            return ns;
        }
        match (self.tiny, self.full) {
            (true, _) => 2_000_000,
            (_, true) => 4_000_000_000,
            _ => 1_200_000_000,
        }
    }
}
