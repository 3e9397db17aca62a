//! Owns repetitions of other runs (`report --with`): an application that was recorded with
//! `--replay` once lends them to its later runs on the same device. Refuses to lend across devices,
//! and to lend a floor: a launch is lent by what it adds to the floor of its own run.
#![forbid(unsafe_code)]

use super::activity::PhysicalDevice;
use super::attribute::Options;
use super::replayed::{self, Found};
use super::result::DeviceEnergy;
use super::{power, recorded_formula};
use crate::error::ReadingsError;
use crate::profile::{self, Profile};
use std::path::{Path, PathBuf};

/// What one run knows of one device.
pub struct Lender {
    /// The trace.
    pub path: PathBuf,
    /// The device's name.
    pub device: String,
    found: Vec<Found>,
    /// Its floor in watts, with its standard error; 0 where it is not known.
    floor: (f64, f64),
}

/// Everything that a trace can lend, attributed as the borrower's is.
///
/// # Errors
/// If it is no trace, or nothing was repeated in it.
pub fn lenders(path: &Path, of: &profile::Options) -> Result<Vec<Lender>, ReadingsError> {
    let profile = Profile::open(&[path.to_owned()])
        .map_err(|source| ReadingsError::With { path: path.to_owned(), source })?;
    let energy = Options {
        gpu_power: of.energy.gpu_power,
        energy_by: of.energy.energy_by,
        energy_sensor: of.energy.energy_sensor.clone(),
        // One file may hold what sensors read during both runs.
        readings: of.energy.readings.clone(),
        ..Options::default()
    };
    // The borrower's names, so that equal kernels have equal ones.
    let (form, names) = (of.form, of.names.clone());
    let view =
        profile.view(profile::Options { by: of.by, energy, form, names, ..Default::default() });
    let (devices, readings, known) = (view.devices(), view.readings()?, view.energy()?);
    let recorded = recorded_formula(profile.files());
    let choice = of.energy.gpu_power.or(recorded.choice).unwrap_or_default();
    let sensor = of.energy.energy_sensor.as_deref();
    let mut out = Vec::new();
    for device in devices {
        let Ok(power) = power::power_of(device, devices, readings, choice, sensor) else {
            continue;
        };
        let mut found = replayed::repetitions_on(device, &power);
        found.retain(|f| !f.repetitions.is_empty());
        let floor = known.devices.iter().find(|d| d.members == device.members).map(floor);
        if !found.is_empty() {
            let (device, floor) = (device.label.clone(), floor.unwrap_or_default());
            out.push(Lender { path: path.to_owned(), device, found, floor });
        }
    }
    match out.is_empty() {
        true => Err(ReadingsError::NothingRepeated { path: path.to_owned() }),
        false => Ok(out),
    }
}

fn floor(of: &DeviceEnergy) -> (f64, f64) {
    let watts = of.floors.first().and_then(|f| f.watts);
    watts.map_or((0.0, 0.0), |w| (w.value, (w.high - w.low) / 4.0))
}

/// Whether it is the same device, or one whose own run had no other of the name.
fn is_lender(lender: &Lender, device: &PhysicalDevice) -> bool {
    lender.device == device.label || lender.device == device.name
}

/// Adds to a device's own repetitions those of launches that were not repeated in its own run.
/// Their power is moved from the lender's floor to that of the run. Gives the lenders that were
/// needed.
pub fn borrow<'l>(
    found: &mut Vec<Found>,
    device: &PhysicalDevice,
    lenders: &'l [Lender],
    floor: f64,
) -> Vec<&'l Path> {
    let mut used = Vec::new();
    for lender in lenders.iter().filter(|l| is_lender(l, device)) {
        let moved = if lender.floor.0 > 0.0 && floor > 0.0 { floor - lender.floor.0 } else { 0.0 };
        for lent in &lender.found {
            let runs = device.shapes.keys().any(|(_, shape)| *shape == lent.shape);
            let known = |f: &Found| f.shape == lent.shape && !f.repetitions.is_empty();
            if !runs || found.iter().any(known) {
                continue;
            }
            let mut lent = lent.clone();
            lent.borrowed = true;
            for repetition in &mut lent.repetitions {
                repetition.watts += moved;
                if let Some(restoring) = &mut repetition.restoring {
                    restoring.watts += moved;
                }
            }
            found.retain(|f| f.shape != lent.shape);
            found.push(lent);
            if used.last() != Some(&lender.path.as_path()) {
                used.push(lender.path.as_path());
            }
        }
    }
    used
}

/// Notes on the lenders of a device of which nothing was used.
pub fn unused(device: &PhysicalDevice, lenders: &[Lender], used: &[&Path]) -> Vec<String> {
    let idle = lenders.iter().filter(|l| is_lender(l, device));
    let idle = idle.filter(|l| !used.contains(&l.path.as_path()));
    let note = |lender: &Lender| {
        let runs = |found: &Found| device.shapes.keys().any(|(_, shape)| *shape == found.shape);
        let why = match lender.found.iter().any(runs) {
            true => "this run repeated the same itself, or another trace of --with did",
            false => {
                "no kernel or transfer that it repeats ran here with the same arguments' sizes: is it a trace of the same application?"
            }
        };
        format!("nothing of {} was used: {why}", lender.path.display())
    };
    idle.map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::activity::Kind;
    use crate::energy::shapes::{Shape, Tally};
    use clscope_analysis::energy::ClassId;
    use clscope_analysis::energy::evidence::Repetition;

    fn shape(name: &str) -> Shape {
        Shape { name: name.into(), sizes: vec![64] }
    }

    #[test]
    fn a_launch_is_lent_by_what_it_adds_to_its_floor() {
        let repetition = Repetition {
            watts: 200.0,
            seconds: 1.0,
            launches: 100.0,
            stamped: None,
            restoring: None,
            weight: 1.0,
        };
        let lender = |name: &str| Lender {
            path: "lent".into(),
            device: "gpu".into(),
            found: vec![Found::of_repetitions(shape(name), vec![repetition])],
            floor: (80.0, 1.0),
        };
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        device.shapes.insert((ClassId(0), shape("k")), Tally::default());
        let (lent, other) = ([lender("k")], [lender("absent")]);
        let mut found = Vec::new();
        assert_eq!(borrow(&mut found, &device, &other, 120.0), Vec::<&Path>::new());
        let [note] = &unused(&device, &other, &[])[..] else { panic!("one note") };
        assert!(note.contains("nothing of lent") && note.contains("same application"), "{note}");
        assert!(unused(&device, &other, &[Path::new("lent")]).is_empty());
        assert_eq!(borrow(&mut found, &device, &lent, 120.0), [Path::new("lent")]);
        let [moved] = &found[..] else { panic!("{found:?}") };
        assert!(moved.borrowed);
        assert_eq!(moved.repetitions[0].dynamic(120.0), repetition.dynamic(80.0));
        // What the run repeated itself is its own.
        let mut found = vec![Found::of_repetitions(shape("k"), vec![repetition])];
        assert!(borrow(&mut found, &device, &lent, 120.0).is_empty() && !found[0].borrowed);
        // Nor is anything lent to another device.
        (device.name, device.label) = ("another".into(), "another".into());
        let mut found = Vec::new();
        assert!(borrow(&mut found, &device, &lent, 120.0).is_empty() && found.is_empty());
    }
}
