//! Owns what the user asks for: families of counters, their metric set, how often, and programmed
//! EU counters. Refuses to open anything.
#![forbid(unsafe_code)]

use clscope_nvml::gpm::{METRICS, Metric};
use clscope_oa::flex::Programmed;
use clscope_trace::values::Counters;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A family of counters, and for some what of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// NVIDIA GPUs from Hopper on, through NVML: these metrics, or all where the list is empty.
    Gpm(Vec<Metric>),
    /// Intel GPUs, through the streams of i915 and xe; the metric set by name or UUID, else what is
    /// built in.
    Oa(Option<String>),
    /// perf events of the application's threads, for CPU devices.
    Perf,
    /// Queues of Intel's runtime that count for each command, of a configuration.
    IntelQueue(u32),
}

/// A choice of counters that cannot be understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadCounters {
    /// No counter of a GPU's performance monitor has this name.
    #[error("{0:?} is no GPM counter: there are {all}; as gpm:fp32+dram-bandwidth", all = gpm_names())]
    Gpm(String),
    /// No source has this name.
    #[error(
        "expected gpm, perf, oa, oa:SET or intel-queue; `clscope list-counters` lists what each has"
    )]
    Source,
}

fn gpm_names() -> String {
    METRICS.iter().map(|m| m.name).collect::<Vec<_>>().join(", ")
}

fn gpm(name: &str) -> Result<Metric, BadCounters> {
    clscope_nvml::gpm::by_name(name).ok_or_else(|| BadCounters::Gpm(name.to_owned()))
}

impl FromStr for Wanted {
    type Err = BadCounters;

    fn from_str(text: &str) -> Result<Self, BadCounters> {
        match text.split_once(':').map_or((text, None), |(family, set)| (family, Some(set))) {
            ("gpm", None) => Ok(Self::Gpm(Vec::new())),
            ("gpm", Some(names)) => {
                names.split('+').map(gpm).collect::<Result<_, _>>().map(Self::Gpm)
            }
            // The recorder takes the UUID of a configuration, which the set's is found to be.
            ("oa", set) if set != Some("") => Ok(Self::Oa(set.map(str::to_owned))),
            _ => match text.parse() {
                Ok(Counters::Perf) => Ok(Self::Perf),
                Ok(Counters::IntelQueue(configuration)) => Ok(Self::IntelQueue(configuration)),
                _ => Err(BadCounters::Source),
            },
        }
    }
}

/// Which counters are read, and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Hardware counters to read for every kernel: gpm or gpm:NAME+NAME (NVIDIA, Hopper and later),
    /// oa or oa:SET (Intel GPUs), perf (CPU devices), intel-queue or intel-queue:CONFIGURATION
    /// (Intel's own, per command); comma-separated [default: none]
    pub counters: Vec<Wanted>,
    /// Directory (or file) with XML of metric sets for oa:SET [default: what is installed]
    pub metrics: Option<PathBuf>,
    /// Longest time between two reports of oa, or two readings of perf [default: 1 for oa, 10 for
    /// perf]
    pub counter_period: Option<Duration>,
    /// What a programmable EU counter of oa counts instead (Gen9): a7=fine:7,coarse:7,inc:0
    pub counter: Vec<Programmed>,
}

impl Options {
    /// NVML's metrics, where they are wanted; empty for all. Its sampler of power reads them.
    pub fn gpm(&self) -> Option<Vec<Metric>> {
        self.counters
            .iter()
            .find_map(|w| if let Wanted::Gpm(metrics) = w { Some(metrics.clone()) } else { None })
    }

    /// Whether any is wanted that has a file of its own.
    pub fn windows(&self) -> bool {
        self.counters.iter().any(|w| matches!(w, Wanted::Oa(_) | Wanted::Perf))
    }

    /// What the recorder is to read inside the application, in the terms of its setting; empty if
    /// nothing.
    pub fn inside(&self, snapshot: bool) -> String {
        let of = |w: &Wanted| match w {
            Wanted::Perf if snapshot => Some("perf".to_owned()),
            Wanted::Oa(_) if snapshot => Some("oa".to_owned()),
            Wanted::IntelQueue(configuration) => Some(format!("intel-queue:{configuration}")),
            _ => None,
        };
        self.counters.iter().filter_map(of).collect::<Vec<_>>().join(",")
    }

    /// What must be said before the application runs: options that mean nothing together.
    pub fn mistake(&self, snapshot: bool) -> Option<&'static str> {
        let oa = self.counters.iter().any(|w| matches!(w, Wanted::Oa(_)));
        match () {
            () if snapshot && self.gpm().is_some() => Some(
                "--counters gpm cannot be read around commands: NVIDIA's driver takes a snapshot every 100 ms, so no reading belongs to one command; without --snapshot kernels are separated by regression",
            ),
            () if !self.counter.is_empty() && !oa => {
                Some("--counter programs a counter of Intel GPUs: add --counters oa")
            }
            () if self.metrics.is_some() && !oa => {
                Some("--metrics names sets for Intel GPUs: add --counters oa:SET")
            }
            () if self.counter_period.is_some() && !self.windows() => {
                Some("a period in milliseconds is for --counters oa@MS and perf@MS")
            }
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_sets_are_parsed() {
        let table = [
            ("gpm", Wanted::Gpm(Vec::new())),
            (
                "gpm:fp32+DRAM-bandwidth",
                Wanted::Gpm(
                    METRICS.into_iter().filter(|m| [12, 10].contains(&m.id)).rev().collect(),
                ),
            ),
            ("perf", Wanted::Perf),
            ("oa", Wanted::Oa(None)),
            ("oa:ComputeBasic", Wanted::Oa(Some("ComputeBasic".into()))),
        ];
        for (text, want) in table {
            assert_eq!(text.parse(), Ok(want));
        }
        assert_eq!("intel-queue:2".parse(), Ok(Wanted::IntelQueue(2)));
        for bad in ["intel-queue:x", "", "oa:", "gpm:x", "gpm:fp32+", "perf:cycles", "cupti"] {
            assert!(bad.parse::<Wanted>().is_err(), "{bad}");
        }
    }

    #[test]
    fn options_that_mean_nothing_are_told() {
        let of =
            |counters: &[Wanted]| Options { counters: counters.to_vec(), ..Options::default() };
        assert_eq!(of(&[Wanted::Oa(None)]).mistake(false), None);
        let period = Options {
            counter_period: Some(Duration::from_millis(1)),
            ..of(&[Wanted::Gpm(Vec::new())])
        };
        assert!(period.mistake(false).is_some());
        let programmed = Options {
            counter: vec!["a7=fine:7,coarse:7,inc:0".parse().unwrap()],
            ..of(&[Wanted::Perf])
        };
        assert!(of(&[Wanted::Gpm(Vec::new())]).mistake(true).unwrap().contains("100 ms"));
        assert_eq!(of(&[Wanted::Perf, Wanted::Oa(None)]).mistake(true), None);
        assert!(programmed.mistake(false).unwrap().contains("--counters oa"));
    }
}
