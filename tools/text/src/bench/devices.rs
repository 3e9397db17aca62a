//! The OpenCL devices of this machine with their numbers. Refuses to look for them.

use clscope_microbench::cl::Device;
use std::io::{self, Write};

/// The devices with their numbers.
///
/// # Errors
/// Where it cannot be written.
pub fn devices(out: &mut impl Write, all: &[Device]) -> io::Result<()> {
    for (number, device) in all.iter().enumerate() {
        let f = &device.facts;
        writeln!(
            out,
            "{number}  {} | {} | {} | {} compute units",
            f.name, f.platform, f.version, f.compute_units
        )?;
    }
    if all.is_empty() {
        writeln!(out, "no OpenCL device; `clscope doctor` says why")?;
    }
    Ok(())
}
