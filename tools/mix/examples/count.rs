//! Writes the counting form of a program to standard output, to be tried with `ptxas` or
//! `spirv-val`: `cargo run --example count FILE`.

use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a file of PTX or SPIR-V")?;
    let bytes = std::fs::read(&path)?;
    let counted = if clscope_mix::spirv::is_spirv(&bytes) {
        clscope_mix::spirv::counted(&bytes)?
    } else {
        clscope_mix::ptx::counted(&bytes, true, None)?
    };
    Ok(std::io::stdout().write_all(&counted.code)?)
}
