//! Joules per kernel of a trace: `cargo run -p clscope-profile --example joules -- TRACE`. Prints
//! what is not known as such; refuses to guess.

use clscope_profile::energy::result::Absence;
use clscope_profile::profile::{Options, Profile};
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let profile = Profile::open(&paths)?;
    let view = profile.view(Options::default());
    let energy = view.energy()?;
    if let Some(why) = &energy.absent {
        println!("no joules: {why}");
    }
    for device in &energy.devices {
        match device.measured_joules {
            Some(joules) => println!("{}: {joules:.3} J measured", device.device),
            None => println!("{}: joules not known", device.device),
        }
        for class in &device.classes {
            match class.joules {
                Some(j) => {
                    println!("  {:.3} J ({:.3} to {:.3})  {}", j.value, j.low, j.high, class.name)
                }
                None => {
                    println!("  {}: {}", class.name, class.absence.map_or("", Absence::sentence))
                }
            }
        }
    }
    Ok(())
}
