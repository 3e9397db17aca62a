//! Owns repetitions that were no part of the run: of captured launches, measured when it had ended
//! (`clscope replay`), and of other runs (`report --with`). Refuses those of another device, and
//! their idle power: of a launch only its energy above idle is used.

use crate::energy::activity::PhysicalDevice;
use crate::energy::alone::replayed::{self, Found, Repetition, Restoring};
use crate::energy::alone::shapes::Shape;
use crate::energy::attribute::Options;
use crate::energy::result::DeviceEnergy;
use crate::energy::{power, recorded_formula};
use crate::error::ReadingsError;
use crate::interval::Interval;
use crate::measured::{self, Which};
use crate::profile::{self, Profile};
use crate::trace_files::TraceFiles;
use clscope_analysis::Trace;
use clscope_analysis::input::Definitions;
use clscope_analysis::quantile::NORMAL_95;
use clscope_analysis::time::ProcessIndex;
use clscope_trace::defs;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What is known of one device apart from the run.
pub struct Source {
    /// The trace.
    pub path: PathBuf,
    /// The device's name.
    pub device: String,
    /// It is the run's own trace: captured launches, measured afterwards.
    pub is_own: bool,
    found: Vec<Found>,
}

/// What is known apart from a run.
#[derive(Default)]
pub struct External {
    /// What was repeated, the run's own captured launches first.
    pub sources: Vec<Source>,
    /// Why captured launches of the run have no joules, by the names of their kernels.
    pub unmeasured: BTreeMap<String, String>,
}

impl External {
    /// Of these traces, and of those that the caller named beside them.
    ///
    /// # Errors
    /// If one of the latter is no trace, or nothing was repeated in it.
    pub fn collect(
        files: &TraceFiles,
        trace: &Trace<'_>,
        devices: &[PhysicalDevice],
        of: &profile::Options,
    ) -> Result<Self, ReadingsError> {
        let mut sources = measured(files, trace, devices);
        for path in &of.energy.with {
            sources.extend(read_sources(path, of)?);
        }
        Ok(Self { sources, unmeasured: unmeasured(files, trace) })
    }
}

/// What was repeated in another trace, attributed as this run is.
///
/// # Errors
/// If it is no trace, or nothing was repeated in it.
pub fn read_sources(path: &Path, of: &profile::Options) -> Result<Vec<Source>, ReadingsError> {
    let profile = Profile::open(&[path.to_owned()])
        .map_err(|source| ReadingsError::With { path: path.to_owned(), source })?;
    let energy = Options {
        gpu_power: of.energy.gpu_power,
        // One file may hold what sensors read during both runs.
        readings: of.energy.readings.clone(),
        ..Options::default()
    };
    // This run's names, so that equal kernels have equal ones.
    let (form, names) = (of.form, of.names.clone());
    let view =
        profile.view(profile::Options { by: of.by, energy, form, names, ..Default::default() });
    let (devices, readings, known) = (view.devices(), view.readings()?, view.energy()?);
    let recorded = recorded_formula(profile.files());
    let choice = of.energy.gpu_power.or(recorded.choice).unwrap_or_default();
    let mut out = Vec::new();
    for device in devices {
        let Ok(power) = power::power_of(device, devices, readings, choice) else {
            continue;
        };
        let floor = known.devices.iter().find(|d| d.members == device.members).and_then(floor);
        let with_idle = |mut found: Found| {
            for of in &mut found.repetitions {
                if let Some(floor) = floor {
                    let open = floor.half() / NORMAL_95 * of.of_launches().1;
                    (of.idle, of.error) = (Some(floor.value), of.error.hypot(open));
                }
                of.at = None;
            }
            found
        };
        let found = replayed::repetitions_on(device, &power).into_iter();
        let found: Vec<Found> =
            found.filter(|f| !f.repetitions.is_empty()).map(with_idle).collect();
        if !found.is_empty() {
            let device = device.label.clone();
            out.push(Source { path: path.to_owned(), device, is_own: false, found });
        }
    }
    for mut own in measured(profile.files(), view.trace(), devices) {
        (own.path, own.is_own) = (path.to_owned(), false);
        out.push(own);
    }
    match out.is_empty() {
        true => Err(ReadingsError::NothingRepeated { path: path.to_owned() }),
        false => Ok(out),
    }
}

fn floor(of: &DeviceEnergy) -> Option<Interval> {
    of.floors.first()?.watts
}

/// Captured launches of these traces that were measured when the application had ended, on the
/// device that it used.
fn measured(files: &TraceFiles, trace: &Trace<'_>, devices: &[PhysicalDevice]) -> Vec<Source> {
    let (mut out, mut capture) = (Vec::<Source>::new(), 0);
    for directory in &files.directories {
        for row in directory.measured().iter().filter(|row| row.has_joules()) {
            let launch = &row.launch;
            let Some(label) = directory.label(&launch.process) else { continue };
            let Some(index) = (0u32..).zip(&trace.processes).find(|(_, p)| p.label == label) else {
                continue;
            };
            let member = (ProcessIndex(index.0), launch.device);
            let Some(device) = devices.iter().find(|d| d.members.contains(&member)) else {
                continue;
            };
            let Some(shape) = shape(&index.1.definitions, launch) else { continue };
            let is_here = |l: &Source| l.device == device.label && l.path == directory.path;
            let at = out.iter().position(is_here).unwrap_or_else(|| {
                let (path, device) = (directory.path.clone(), device.label.clone());
                out.push(Source { path, device, is_own: true, found: Vec::new() });
                out.len() - 1
            });
            let found = &mut out[at].found;
            let of = found.iter().position(|of| of.shape == shape).unwrap_or_else(|| {
                found.push(Found::of_shape(shape));
                found.len() - 1
            });
            capture += 1;
            let stamped = row.time.map(|time| time.median_ns.value * 1e-9);
            for window in &row.windows {
                found[of].repetitions.push(Repetition {
                    error: error(window),
                    watts: window.watts.value,
                    seconds: window.seconds,
                    launches: window.launches as f64,
                    stamped,
                    restoring: window
                        .restoring
                        .map(|r| Restoring { watts: r.watts.value, seconds: r.seconds }),
                    idle: Some(window.idle_watts.value),
                    at: None,
                    capture,
                });
            }
        }
    }
    out
}

/// Standard error of the joules above idle of a window's launches, by its readings: of work, of rest
/// beside it, and of restoring.
fn error(of: &measured::Window) -> f64 {
    let launches = of.launches as f64;
    let restoring = of.restoring.map_or((0.0, 0.0), |r| {
        let seconds = r.seconds * launches;
        (r.watts.half() * seconds, seconds)
    });
    let idle = of.idle_watts.half() * (of.seconds - restoring.1).max(0.0);
    (of.watts.half() * of.seconds).hypot(idle).hypot(restoring.0) / NORMAL_95
}

/// What a measured launch or transfer is; `None` of a transfer of which nothing is known.
fn shape(definitions: &Definitions, of: &Which) -> Option<Shape> {
    let Some(transfer) = &of.transfer else {
        let name = definitions.kernel_name(of.kernel).into_owned();
        return Some(Shape { name, sizes: of.global.clone() });
    };
    let kind = transfer.kind()?;
    Some(Shape::transfer(kind, kind.direction()?, transfer.bytes))
}

/// Why captured launches have no joules, by the names of their kernels: what was refused, what
/// failed, and what was not measured.
fn unmeasured(files: &TraceFiles, trace: &Trace<'_>) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for directory in &files.directories {
        let of_directory = trace.processes.iter().filter(|p| {
            let stem = p.label.rsplit_once('/').map_or("", |(_, stem)| stem);
            directory.label(stem) == Some(p.label.as_str())
        });
        for process in of_directory {
            let d = &process.definitions;
            let is_there = |of: &&defs::Capture| !of.folder.is_empty() || !of.refused.is_empty();
            for capture in d.captures.iter().filter(is_there) {
                let name = d.kernel_name(capture.kernel).into_owned();
                let why = match capture.refused.as_str() {
                    "" => "its captured launches were not measured; `clscope replay` measures them"
                        .to_owned(),
                    why => format!("not captured: {why}"),
                };
                out.entry(name).or_insert(why);
            }
            let stem = process.label.rsplit_once('/').map_or("", |(_, stem)| stem);
            let rows = directory.measured().iter().filter(|row| row.launch.process == stem);
            for row in rows.filter(|row| !row.has_joules()) {
                let why = match (&row.failed, &row.energy_missing, row.on.is_same) {
                    (Some(why), ..) | (None, Some(why), _) => why.clone(),
                    (None, None, false) => {
                        format!("it was measured on another device, {}", row.on.name)
                    }
                    (None, None, true) => continue,
                };
                if let Some(shape) = shape(d, &row.launch) {
                    out.insert(shape.name, why);
                }
            }
        }
    }
    out
}

/// Whether it is the same device, or one whose own run had no other of the name.
fn is_for(source: &Source, device: &PhysicalDevice) -> bool {
    source.device == device.label || (!source.is_own && source.device == device.name)
}

/// Adds to a device's own repetitions those of launches that were not repeated in its own run. Gives
/// the traces that they are from.
pub fn use_sources<'l>(
    found: &mut Vec<Found>,
    device: &PhysicalDevice,
    sources: &'l [Source],
) -> Vec<&'l Path> {
    let mut used = Vec::new();
    // Captures of one source have nothing to do with those of another.
    let mut next =
        1 + found.iter().flat_map(|f| &f.repetitions).map(|r| r.capture).max().unwrap_or(0);
    for source in sources.iter().filter(|source| is_for(source, device)) {
        let first = next;
        for more in &source.found {
            let runs = device.shapes.keys().any(|(_, shape)| *shape == more.shape);
            let known = |f: &Found| f.shape == more.shape && !f.repetitions.is_empty();
            if !runs || found.iter().any(known) {
                continue;
            }
            let mut more = more.clone();
            more.external = true;
            for of in &mut more.repetitions {
                of.capture += first;
                next = next.max(of.capture + 1);
            }
            found.retain(|f| f.shape != more.shape);
            found.push(more);
            if used.last() != Some(&source.path.as_path()) {
                used.push(source.path.as_path());
            }
        }
    }
    used
}

/// Notes on the sources of a device of which nothing was used.
pub fn unused(device: &PhysicalDevice, sources: &[Source], used: &[&Path]) -> Vec<String> {
    let idle = sources.iter().filter(|of| !of.is_own && is_for(of, device));
    let idle = idle.filter(|of| !used.contains(&of.path.as_path()));
    let note = |source: &Source| {
        let runs = |of: &Found| device.shapes.keys().any(|(_, shape)| *shape == of.shape);
        let why = match source.found.iter().any(runs) {
            true => "this run repeated the same kernels itself, or another trace of --with did",
            false => {
                "none of its kernels and copies ran here with arguments of the same size. Is it a trace of the same application?"
            }
        };
        format!("{} (--with) is not used: {why}", source.path.display())
    };
    idle.map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::activity::Kind;
    use crate::energy::alone::shapes::{Shape, Tally};
    use clscope_analysis::energy::ClassId;

    fn shape(name: &str) -> Shape {
        Shape { name: name.into(), sizes: vec![64] }
    }

    /// Errors of independent readings add in squares; what restoring took is not at rest.
    #[test]
    fn a_window_is_as_well_known_as_its_own_readings() {
        let restoring =
            measured::Restoring { watts: Interval::symmetric(150.0, 3.0), seconds: 0.005 };
        let window = |restoring| measured::Window {
            seconds: 2.0,
            launches: 100,
            watts: Interval::symmetric(300.0, 2.0),
            idle_watts: Interval::symmetric(100.0, 1.0),
            restoring,
        };
        let near = |of: f64, squares: f64| assert!((of * NORMAL_95 - squares.sqrt()).abs() < 1e-9);
        near(error(&window(None)), 4.0 * 4.0 + 2.0 * 2.0);
        near(error(&window(Some(restoring))), 4.0 * 4.0 + 1.5 * 1.5 + 1.5 * 1.5);
    }

    #[test]
    fn a_launch_is_used_by_its_energy_above_idle() {
        let repetition = Repetition {
            watts: 200.0,
            seconds: 1.0,
            launches: 100.0,
            stamped: None,
            restoring: None,
            error: 0.0,
            idle: Some(80.0),
            at: None,
            capture: 0,
        };
        let source = |name: &str| Source {
            path: "other".into(),
            device: "gpu".into(),
            is_own: false,
            found: vec![Found::of_repetitions(shape(name), vec![repetition])],
        };
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        device.shapes.insert((ClassId(0), shape("k")), Tally::default());
        let (same, absent) = ([source("k")], [source("absent")]);
        let mut found = Vec::new();
        assert_eq!(use_sources(&mut found, &device, &absent), Vec::<&Path>::new());
        let [note] = &unused(&device, &absent, &[])[..] else { panic!("one note") };
        assert!(
            note.starts_with("other (--with) is not used") && note.contains("same application"),
            "{note}"
        );
        assert!(unused(&device, &absent, &[Path::new("other")]).is_empty());
        assert_eq!(use_sources(&mut found, &device, &same), [Path::new("other")]);
        let [moved] = &found[..] else { panic!("{found:?}") };
        assert!(moved.external);
        assert_eq!(moved.repetitions[0].dynamic(120.0), repetition.dynamic(80.0));
        // What the run repeated itself is its own.
        let mut found = vec![Found::of_repetitions(shape("k"), vec![repetition])];
        assert!(use_sources(&mut found, &device, &same).is_empty() && !found[0].external);
        // Those of another device are not used.
        (device.name, device.label) = ("another".into(), "another".into());
        let mut found = Vec::new();
        assert!(use_sources(&mut found, &device, &same).is_empty() && found.is_empty());
    }
}
