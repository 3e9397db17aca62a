//! Sources and binaries that a trace keeps, as text for people.

use clscope_io::text::count;
use clscope_profile::programs::Code;
use std::io::{self, Write};

/// Each with its kernels, its options, and why it is not kept.
///
/// # Errors
/// Where it cannot be written.
pub fn list(out: &mut impl Write, programs: &[Code]) -> io::Result<()> {
    if programs.is_empty() {
        writeln!(
            out,
            "The trace names no program: the application made none while it was recorded."
        )?;
    }
    for code in programs {
        writeln!(
            out,
            "{}.{}  {} bytes, of {}",
            code.hash,
            code.language,
            code.bytes,
            count(code.programs, "program", "programs")
        )?;
        let kernels: Vec<&str> = code.kernels.iter().map(String::as_str).collect();
        if !kernels.is_empty() {
            writeln!(out, "    kernels: {}", kernels.join(", "))?;
        }
        for options in &code.options {
            writeln!(out, "    options: {options}")?;
        }
        if !code.missing.is_empty() {
            writeln!(out, "    not kept: {}", code.missing)?;
        }
    }
    Ok(())
}
