//! Measurements that clscope can make of a run, and which of them would decide an open verdict.
//! Refuses to advise one that the trace holds, or that the device cannot give.

use crate::device::Device;
use crate::figure::Missing;
use crate::kernel::Kernel;
use crate::roofline::Resource;
use clscope_mix::{Class, Space};

/// A measurement of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measurement {
    /// Device timestamps.
    Timing,
    /// What kernels execute.
    Mix,
    /// How their accesses lie.
    Accesses,
    /// Counters of NVIDIA's GPUs.
    Gpm,
    /// Counters of Intel's GPUs.
    Oa,
    /// Counters of CPUs.
    Perf,
    /// The same work in groups of another size.
    Groups,
}

impl Measurement {
    /// Every one.
    pub const ALL: [Self; 7] =
        [Self::Timing, Self::Mix, Self::Accesses, Self::Gpm, Self::Oa, Self::Perf, Self::Groups];

    /// The options of `clscope record` that make it.
    pub const fn options(self) -> &'static str {
        match self {
            Self::Timing => "--device-timing event",
            Self::Mix => "--mix",
            Self::Accesses => "--mix=accesses",
            Self::Gpm => "--counters gpm",
            Self::Oa => "--counters oa",
            Self::Perf => "--counters perf",
            Self::Groups => "--local KERNEL=SIZE",
        }
    }

    /// The command, and what it shows.
    pub fn sentence(self) -> String {
        let shows = match self {
            Self::Timing => "times launches and transfers",
            Self::Mix => "counts what kernels execute",
            Self::Accesses => "counts how accesses lie",
            Self::Gpm | Self::Oa => "shows which units and memories are busy",
            Self::Perf => "shows instructions and cache misses",
            Self::Groups => "changes the groups: what only waits follows them",
        };
        format!("`clscope record {}` {shows}", self.options())
    }

    /// Whether it can be made of the kernel on the device.
    fn applies(self, of: &Kernel, device: &Device) -> bool {
        let is_of = |vendor: &str| device.platform.contains(vendor);
        let mix = of.mix.as_ref();
        let is_gpu = device.kind == "gpu";
        match self {
            Self::Timing | Self::Mix => true,
            Self::Accesses => {
                let spaces = [Space::Global, Space::Local, Space::Private, Space::Constant];
                let reaches = |c: &Class| c.memory().is_some_and(|of| spaces.contains(&of));
                is_gpu && is_of("NVIDIA") && mix.is_none_or(|mix| mix.classes.keys().any(reaches))
            }
            // Since compute capability 9.0 (NVML, GPM metrics).
            Self::Gpm => is_gpu && is_of("NVIDIA") && device.capability.is_none_or(|c| c >= (9, 0)),
            Self::Oa => is_gpu && is_of("Intel"),
            Self::Perf => device.is_cpu(),
            Self::Groups => of.resources.required.is_none() && of.items.is_none_or(|n| n > 1),
        }
    }
}

/// Why something has no times: the runtime gave none, where the trace holds others'.
pub(super) fn untimed(is_held: bool, what: &str) -> Missing {
    match is_held {
        true => Missing::new(what, "the runtime gave no device timestamps of them"),
        false => Missing::new(what, Measurement::Timing.sentence()),
    }
}

/// The measurement that would show best whether a resource is the limit: the command, and what it
/// shows. What counts comes before ceilings, and both before a change of the kernel.
pub(super) fn deciding(of: &Kernel, device: &Device, limit: Resource) -> String {
    use Measurement::{Accesses, Gpm, Groups, Mix, Oa, Perf};
    let best: &[Measurement] = match limit {
        _ if of.mix.is_none() && of.uncounted.is_none() => &[Mix, Gpm, Oa, Perf, Accesses, Groups],
        _ if device.typical && of.mix.is_some() => return BENCH.to_owned(),
        Resource::Atomics | Resource::LocalMemory | Resource::Cache => {
            &[Accesses, Gpm, Oa, Perf, Groups]
        }
        Resource::Latency
        | Resource::Groups
        | Resource::FewGroups
        | Resource::UnevenGroups
        | Resource::IdleUnits
        | Resource::Launch
        | Resource::Barriers => &[Groups, Gpm, Oa, Perf, Accesses],
        _ => &[Gpm, Oa, Perf, Accesses, Groups],
    };
    let left = best.iter().copied().find(|m| !of.held.contains(m) && m.applies(of, device));
    match (left, limit) {
        (Some(left), _) => left.sentence(),
        _ if device.typical => BENCH.to_owned(),
        (_, Resource::UnevenGroups | Resource::IdleUnits | Resource::FewGroups) => {
            "without half of its groups (in the source) it takes as long, if the longest one is the limit".to_owned()
        }
        (_, Resource::Latency) => {
            "with two independent items of work in each work-item (in the source) it takes less than twice as long, if it waits".to_owned()
        }
        (_, Resource::Launch) => {
            "with twice the work-items in each launch it takes less than twice as long, if launching is the limit".to_owned()
        }
        (_, limit) => {
            format!("with half of that work (in the source) it takes half as long, if {} is the limit", limit.name())
        }
    }
}

/// The command that measures ceilings.
const BENCH: &str = "`clscope bench model` measures the ceilings of the device";
