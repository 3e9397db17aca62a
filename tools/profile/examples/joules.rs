//! Joules per kernel of a trace: `cargo run -p clscope-profile --example joules -- TRACE`. Prints
//! what is not known as such; refuses to guess.

use clscope_profile::energy::result::Absence;
use clscope_profile::profile::{Options, Profile};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    print(&paths, &mut std::io::stdout().lock())
}

/// Joules of each device and kernel, a line each.
///
/// # Errors
/// If the traces cannot be read, or nothing can be written to `out`.
pub fn print(paths: &[PathBuf], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let profile = Profile::open(paths)?;
    let view = profile.view(Options::default());
    let energy = view.energy()?;
    if let Some(why) = &energy.absent {
        writeln!(out, "no joules: {why}")?;
    }
    for device in &energy.devices {
        match device.measured_joules {
            Some(joules) => writeln!(out, "{}: {joules:.3} J measured", device.device)?,
            None => writeln!(out, "{}: joules not known", device.device)?,
        }
        for class in &device.classes {
            match (class.joules, class.absence) {
                (Some(j), _) => write!(out, "  {:.3} J ({:.3} to {:.3})", j.value, j.low, j.high)?,
                (None, why) => write!(out, "  {}", why.map_or("not known", Absence::sentence))?,
            }
            writeln!(out, "  {}", class.name)?;
        }
    }
    Ok(())
}
