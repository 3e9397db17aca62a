//! What NVIDIA's assembler says of kernels in the log of a build with `-cl-nv-verbose`. Refuses to
//! guess: a line that is not understood tells nothing.
#![forbid(unsafe_code)]

use crate::os::maps::HashMap;

/// What a kernel takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Found {
    pub registers: Option<u64>,
    /// Bytes a work-item.
    pub spill_stores: Option<u64>,
    /// Bytes a work-item.
    pub spill_loads: Option<u64>,
    /// Bytes of local memory a work-group, without local arguments.
    pub local: Option<u64>,
}

/// The number in front of some words: `32` of `Used 32 registers` for `registers`.
fn before(line: &str, words: &str) -> Option<u64> {
    let (head, _) = line.split_once(words)?;
    head.trim_end().rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Kernels by name.
pub fn read(log: &str) -> HashMap<String, Found> {
    let mut out: HashMap<String, Found> = HashMap::default();
    let mut current: Option<String> = None;
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            current = rest.split('\'').next().map(str::to_owned);
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            // Of functions that kernels call, too.
            let name = name.trim().trim_matches('\'');
            current = Some(name.to_owned());
        }
        let Some(name) = &current else { continue };
        let found = Found {
            registers: before(line, " registers"),
            spill_stores: before(line, " bytes spill stores"),
            spill_loads: before(line, " bytes spill loads"),
            local: before(line, " bytes smem"),
        };
        if found != Found::default() {
            let known = out.entry(name.clone()).or_default();
            known.registers = found.registers.or(known.registers);
            known.spill_stores = found.spill_stores.or(known.spill_stores);
            known.spill_loads = found.spill_loads.or(known.spill_loads);
            known.local = found.local.or(known.local);
            // The assembler leaves out what is 0.
            if found.registers.is_some() {
                known.local = known.local.or(Some(0));
            }
        }
    }
    out
}

/// Kernels whose registers the log does not tell, of those that a program has.
pub fn untold<'n>(
    kernels: impl Iterator<Item = &'n str>,
    found: &HashMap<String, Found>,
) -> Vec<&'n str> {
    kernels.filter(|name| found.get(*name).is_none_or(|f| f.registers.is_none())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_apart() {
        let log = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'gemm' for 'sm_90'\n\
            ptxas info    : Function properties for gemm\n\
            ptxas         .     8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads\n\
            ptxas info    : Used 32 registers, used 1 barriers, 2052 bytes smem, 380 bytes cmem[0]\n\
            ptxas info    : Compiling entry function 'collatz' for 'sm_90'\n\
            ptxas info    : Function properties for collatz\n    \
            0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 10 registers, 360 bytes cmem[0]\n";
        let found = read(log);
        assert_eq!(found.len(), 2);
        let gemm = Found {
            registers: Some(32),
            spill_stores: Some(4),
            spill_loads: Some(12),
            local: Some(2052),
        };
        assert_eq!(found["gemm"], gemm);
        assert_eq!(found["collatz"].registers, Some(10));
        assert_eq!((found["collatz"].spill_stores, found["collatz"].local), (Some(0), Some(0)));
        // A log that is cut tells nothing of what it would have gone on with.
        let cut = read(log.split_once("ptxas info    : Used 10").unwrap().0);
        assert_eq!(untold(["gemm", "collatz", "scan"].into_iter(), &cut), ["collatz", "scan"]);
        assert!(untold(["gemm", "collatz"].into_iter(), &found).is_empty());
        assert!(read("").is_empty() && read("Used x registers").is_empty());
    }
}
