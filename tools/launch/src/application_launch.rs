//! The application's own launch beside those that were run alone. One launch is compared with
//! single launches, never with a median: owns the range in which a single launch lies, and what
//! that range can tell. Refuses to compare devices.

use crate::document::Time;
use clscope_analysis::quantile::NORMAL_95;
use clscope_compare::outcome::{RUN_TO_RUN, RUN_TO_RUN_OF_PROCESSORS};
use clscope_opencl::DeviceKind;
use clscope_profile::interval::Interval;
use serde::Serialize;

/// Chance that a single launch lies in the range, where there are enough to know one so wide.
const COVERAGE: f64 = 0.95;

/// The application's own launch, compared with single launches of the captured version.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ApplicationLaunch {
    /// What it took by the device's stamps, ns.
    pub duration_ns: u64,
    /// The median alone over that, less 1.
    pub change: f64,
    /// The median here, and the range in which a single launch of another process lies, ns: that of
    /// the launches here, and a spread between processes that is assumed.
    pub single_ns: Interval,
    /// The chance that a single launch here lies in the range of the launches here.
    pub coverage: f64,
    /// Relative standard deviation between processes that is assumed in the range.
    pub assumed_between: f64,
    /// Whether the application's launch lies in the range.
    pub is_within: bool,
    /// The smallest relative difference that one launch shows here: the wider side of the range.
    pub least_shown: f64,
}

impl ApplicationLaunch {
    /// Of the samples of one process; `None` of a launch without a time, and of too few samples.
    ///
    /// The range of n samples is that of two order statistics, whatever the distribution: from the
    /// j-th smallest to the j-th largest the next one falls with probability (n + 1 - 2j) / (n + 1)
    /// (Wilks 1941). Both ends are moved outwards by what processes differ.
    pub fn compare(
        duration_ns: u64,
        samples: &[f64],
        time: &Time,
        kind: DeviceKind,
    ) -> Option<Self> {
        let there = duration_ns as f64;
        let median = time.median_ns.value;
        if duration_ns == 0 || samples.len() < 2 || median <= 0.0 {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let out = (((1.0 - COVERAGE) / 2.0 * (n + 1) as f64) as usize).max(1);
        let (first, last) = (sorted.get(out - 1)?, sorted.get(n - out)?);
        let between = match kind {
            DeviceKind::Cpu => RUN_TO_RUN_OF_PROCESSORS,
            _ => RUN_TO_RUN,
        };
        let (low, high) = (first * (1.0 - NORMAL_95 * between), last * (1.0 + NORMAL_95 * between));
        Some(Self {
            duration_ns,
            change: median / there - 1.0,
            single_ns: Interval::estimated(median, low, high),
            coverage: (n + 1 - 2 * out) as f64 / (n + 1) as f64,
            assumed_between: between,
            is_within: (low..=high).contains(&there),
            least_shown: (high / median - 1.0).max(1.0 - low / median),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::median;
    use proptest::prelude::*;

    fn time(samples: &[f64]) -> Time {
        let median_ns = median(samples).unwrap();
        Time { median_ns, min_ns: 0.0, max_ns: 1.0, launches: samples.len(), restored: false }
    }

    #[test]
    fn a_launch_is_judged_by_single_launches() {
        let samples: Vec<f64> = (0..99).map(|n| 1000.0 + f64::from(n)).collect();
        let of =
            |ns, kind| ApplicationLaunch::compare(ns, &samples, &time(&samples), kind).unwrap();
        // j = 2: the second smallest and largest of 99; 96 of 100 lie between them.
        let found = of(1010, DeviceKind::Gpu);
        assert_eq!((found.coverage, found.is_within), (0.96, true));
        assert!((found.single_ns.low - 1001.0 * (1.0 - 1.96 * 0.0075)).abs() < 1e-9, "{found:?}");
        assert!((found.single_ns.high - 1097.0 * (1.0 + 1.96 * 0.0075)).abs() < 1e-9, "{found:?}");
        assert!((found.change - (1049.0 / 1010.0 - 1.0)).abs() < 1e-12);
        assert!(!of(1300, DeviceKind::Gpu).is_within && !of(900, DeviceKind::Gpu).is_within);
        // Processes differ more on a processor.
        assert!(!of(1180, DeviceKind::Gpu).is_within && of(1180, DeviceKind::Cpu).is_within);
        assert!(of(1010, DeviceKind::Cpu).least_shown > found.least_shown);
        assert_eq!(ApplicationLaunch::compare(0, &samples, &time(&samples), DeviceKind::Gpu), None);
        assert_eq!(ApplicationLaunch::compare(5, &[1.0], &time(&[1.0]), DeviceKind::Gpu), None);
    }

    proptest! {
        #[test]
        fn each_single_launch_of_few_lies_in_their_range(of in prop::collection::vec(1f64..1e9, 2..38)) {
            let time = time(&of);
            for one in &of {
                prop_assert!(ApplicationLaunch::compare(one.round() as u64, &of, &time, DeviceKind::Cpu).unwrap().is_within);
            }
        }
    }
}
