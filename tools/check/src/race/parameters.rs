//! What a runtime says of the parameters of kernels whose source is not in the trace, as of
//! programs that came as binaries. Refuses to guess: a pointer to what is not constant may be read
//! or written.

use super::source::{Access, Why};
use clscope_trace::codes as cl;
use clscope_trace::record::Detail;
use std::collections::{BTreeMap, HashMap};

/// Parameters of kernels, by kernel id.
#[derive(Default)]
pub struct Parameters(HashMap<u32, BTreeMap<u32, Access>>);

impl Parameters {
    /// What a runtime says of one.
    pub fn read_detail(&mut self, of: &Detail) {
        let [which, qualifiers, kind] = of.values;
        let access = match (qualifiers as u32, (qualifiers >> 32) as u32) {
            (_, cl::CL_KERNEL_ARG_ACCESS_READ_ONLY) | (cl::CL_KERNEL_ARG_ADDRESS_CONSTANT, _) => {
                Access::Reads
            }
            (_, cl::CL_KERNEL_ARG_ACCESS_WRITE_ONLY) => Access::Writes,
            _ if kind & cl::CL_KERNEL_ARG_TYPE_CONST != 0 => Access::Reads,
            _ => Access::Unknown(Why::Untold),
        };
        self.0.entry(which as u32).or_default().insert((which >> 32) as u32, access);
    }

    /// What a kernel does with an argument.
    pub fn access(&self, kernel: u32, index: u32) -> Access {
        let found = self.0.get(&kernel).and_then(|all| all.get(&index));
        found.copied().unwrap_or(Access::Unknown(Why::Untold))
    }

    /// A kernel has the parameters of another.
    pub fn cloned(&mut self, from: u32, to: u32) {
        let same = self.0.get(&from).cloned().unwrap_or_default();
        self.0.insert(to, same);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qualifiers_say_by_table() {
        let mut of = Parameters::default();
        for (index, (address, access, kind), want) in [
            (0, (0x119B, 0x11A3, 1), Access::Reads),
            (1, (0x119B, 0x11A3, 0), Access::Unknown(Why::Untold)),
            (2, (0x119D, 0x11A3, 0), Access::Reads),
            (3, (0x119B, 0x11A0, 0), Access::Reads),
            (4, (0x119B, 0x11A1, 0), Access::Writes),
            (5, (0x119B, 0x11A2, 0), Access::Unknown(Why::Untold)),
            // restrict and volatile.
            (6, (0x119B, 0x11A3, 6), Access::Unknown(Why::Untold)),
        ] {
            let values = [7 | index << 32, address | access << 32, kind];
            of.read_detail(&Detail { function: 0, what: 0, site: 0, values });
            assert_eq!(of.access(7, index as u32), want, "{index}");
        }
        assert_eq!(
            (of.access(7, 9), of.access(8, 0)),
            (Access::Unknown(Why::Untold), Access::Unknown(Why::Untold))
        );
        of.cloned(7, 8);
        assert_eq!(of.access(8, 4), Access::Writes);
    }
}
