//! What equations call `$EuCoresTotalCount`, `$GpuTimestampFrequency` and so on. Owns the names and
//! where each value comes from; refuses to invent missing ones.

use clscope_oa::Generation;
use clscope_oa::topology::Topology;
use std::collections::BTreeMap;
use std::fmt;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// The driver said it.
    Driver,
    /// It is in the recording.
    Recording,
    /// The user gave it.
    User,
    /// It holds for all GPUs of this generation, by this source.
    Known(&'static str),
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Provenance::Driver => f.write_str("from the driver"),
            Provenance::Recording => f.write_str("from the recording"),
            Provenance::User => f.write_str("given by the user"),
            Provenance::Known(source) => write!(f, "known of this generation ({source})"),
        }
    }
}

/// Values by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    values: BTreeMap<String, (u64, Provenance)>,
}

/// The hardware variables of published sets, without `$`.
pub const NAMES: [&str; 12] = [
    "EuCoresTotalCount",
    "EuSlicesTotalCount",
    "EuSubslicesTotalCount",
    "EuThreadsCount",
    "SliceMask",
    "SubsliceMask",
    "DualSubsliceMask",
    "GpuTimestampFrequency",
    "GpuMinFrequency",
    "GpuMaxFrequency",
    "SkuRevisionId",
    "QueryMode",
];

impl Variables {
    /// None.
    pub fn new() -> Variables {
        Variables::default()
    }

    /// Sets a value; the name without `$`.
    pub fn set(&mut self, name: &str, value: u64, from: Provenance) -> &mut Variables {
        self.values.insert(name.to_owned(), (value, from));
        self
    }

    /// A value.
    pub fn get(&self, name: &str) -> Option<u64> {
        self.values.get(name).map(|(value, _)| *value)
    }

    /// All, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64, &Provenance)> {
        self.values.iter().map(|(name, (value, from))| (name.as_str(), *value, from))
    }

    /// Counts and masks of a GPU, and the threads per EU of its generation: 7; 6 on Broxton and
    /// Gemini Lake (`is_low_power`), 8 on DG2 and Meteor Lake. For Xe2 the last is not published.
    pub fn set_topology(
        &mut self,
        topology: &Topology,
        generation: Generation,
        is_low_power: bool,
        from: &Provenance,
    ) -> &mut Variables {
        let masks = topology.subslice_mask(generation >= Generation::Gen11);
        let values = [
            ("EuCoresTotalCount", topology.eus.into()),
            ("EuSlicesTotalCount", topology.slices().into()),
            ("EuSubslicesTotalCount", topology.subslice_count().into()),
            ("SliceMask", topology.slice_mask),
            ("SubsliceMask", masks),
            ("DualSubsliceMask", masks),
        ];
        for (name, value) in values {
            self.set(name, value, from.clone());
        }
        let threads = match generation {
            Generation::Gen9 if is_low_power => Some(6),
            Generation::Xe => Some(8),
            Generation::Xe2 => None,
            _ => Some(7),
        };
        if let Some(threads) = threads {
            self.set("EuThreadsCount", threads, Provenance::Known("igt, lib/i915/perf.c"));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_oa::topology::synthesised_i915;

    #[test]
    fn topologies_become_variables() {
        let gt2 = Topology::from_i915(&synthesised_i915(1, 3, 8)).unwrap();
        let mut variables = Variables::new();
        variables.set_topology(&gt2, Generation::Gen9, false, &Provenance::Driver);
        let got = NAMES.map(|n| variables.get(n));
        assert_eq!(got[..7], [Some(24), Some(1), Some(3), Some(7), Some(1), Some(7), Some(7)]);
        assert_eq!(got[7..], [None; 5]);
        let provenance = |name| variables.iter().find(|of| of.0 == name).unwrap().2;
        assert_eq!(provenance("SliceMask"), &Provenance::Driver);
        assert!(provenance("EuThreadsCount").to_string().contains("known of this generation"));
        for (generation, low, want) in [
            (Generation::Gen9, true, Some(6)),
            (Generation::Xe, false, Some(8)),
            (Generation::Xe2, false, None),
        ] {
            let mut variables = Variables::new();
            variables.set_topology(&gt2, generation, low, &Provenance::User);
            assert_eq!(variables.get("EuThreadsCount"), want);
        }
    }
}
