//! Which captured launches of a trace there are to measure, and which transfers. Owns whose they are:
//! kernel, device, and how much of the run's time launches like them took; and the kernels of which
//! there is no capture, with the reason. Refuses to open what another user left, unless it is trusted.

use super::job::Asked;
use super::transfer;
use crate::read::{Capture, CaptureError, OwnerError, owned};
use clscope_analysis::input::Definitions;
use clscope_analysis::time::ProcessIndex;
use clscope_profile::energy::MATTERS;
use clscope_profile::energy::activity::PhysicalDevice;
use clscope_profile::energy::shapes::Tally;
use clscope_profile::error::OpenError;
use clscope_profile::measured::{Transfer, Which};
use clscope_profile::profile::{Options, Profile};
use clscope_trace::defs;
use clscope_trace::directory::{CAPTURE_FILE, CAPTURES, as_recorded};
use clscope_trace::record::CommandKind;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A captured launch, or a transfer, that can be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// Its folder; empty of a transfer.
    pub folder: PathBuf,
    /// What it is.
    pub which: Which,
    /// The kernel, or the direction, by the name that reports show.
    pub shown: String,
    /// The device that the application used.
    pub device: Asked,
    /// Seconds of the run in which the device ran launches of the kernel at this size; none where
    /// none of them has a time.
    pub seconds: Option<f64>,
    /// Time of the application's own launch, nanoseconds.
    pub duration_ns: Option<u64>,
    /// Why only what it executes can be known: what its memory held was not kept.
    pub described: Option<String>,
    /// Variables that chose its device ([`Launch::environment`](crate::capture::Launch)).
    pub environment: Option<BTreeMap<String, String>>,
}

impl Planned {
    /// Whether it is a launch of the same kernel at the same size on the same device.
    pub fn is_alike(&self, other: &Self) -> bool {
        self.which.is_alike(&other.which)
    }
}

/// What is not measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// The kernel, by the name that reports show.
    pub kernel: String,
    /// Why: a clause.
    pub why: String,
}

/// What there is to measure.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// Launches, those first whose kind took most of the run.
    pub launches: Vec<Planned>,
    /// Kernels that ran and of which nothing can be measured.
    pub left: Vec<Left>,
}

/// Why nothing can be measured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum PlanError {
    /// It is no trace.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is another user's, or cannot be looked at.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// There is no capture.
    #[error(
        "{path} has no captured launch{why}; `clscope record --capture '*' -- APP` captures the first of each kernel"
    )]
    Nothing { path: String, why: String },
    /// No capture is of the kernel.
    #[error("no captured launch of {path} is of a kernel {wanted}: there are {there}")]
    NoKernel { path: String, wanted: String, there: String },
}

impl Plan {
    /// What there is to measure in a trace, of kernels whose names match one of `kernels`, where any
    /// is given. `is_counted`: also launches of which only what they execute can be known, where there
    /// is none like them.
    ///
    /// # Errors
    /// [`PlanError`]; `trust` lets captures of other users be used.
    pub fn read(
        trace: &Path,
        kernels: &[String],
        trust: bool,
        is_counted: bool,
    ) -> Result<Self, PlanError> {
        let trace = as_recorded(trace.to_owned());
        if !trust {
            owned(&trace)?;
        }
        let profile = Profile::open(std::slice::from_ref(&trace))?;
        let view = profile.view(Options::default());
        let mut found: Vec<(Planned, ProcessIndex)> = Vec::new();
        let mut refused: BTreeMap<String, String> = BTreeMap::new();
        for (index, process) in (0u32..).map(ProcessIndex).zip(&view.trace().processes) {
            let d = &process.definitions;
            let stem = process.label.rsplit_once('/').map_or("", |(_, stem)| stem);
            for capture in &d.captures {
                let shown = d.kernel_name(capture.kernel).into_owned();
                if !capture.refused.is_empty() {
                    refused.entry(shown.clone()).or_insert_with(|| capture.refused.clone());
                    if !is_counted || capture.folder.is_empty() {
                        continue;
                    }
                }
                let folder = trace.join(CAPTURES).join(&capture.folder);
                // What was drawn and gave its place to another launch is there no more.
                if !clscope_trace::directory::is_capture_folder(&capture.folder) || !folder.is_dir()
                {
                    continue;
                }
                if !trust {
                    owned(&folder)?;
                    owned(&folder.join(CAPTURE_FILE))?;
                }
                let at = (index, stem, d);
                match planned(&folder, at, capture, view.devices()) {
                    Ok(launch) => found.push((launch, index)),
                    Err(why) => drop(refused.insert(shown, why)),
                }
            }
        }
        // Whole captures first: what is described is of use where no whole one is like it.
        let (mut found, mut described): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(launch, _)| launch.described.is_none());
        described.retain(|(launch, _)| !found.iter().any(|(whole, _)| whole.is_alike(launch)));
        found.append(&mut described);
        let (launches, processes): (Vec<Planned>, Vec<ProcessIndex>) = found.into_iter().unzip();
        let mut out = Self { launches, left: Vec::new() };
        let path = || trace.display().to_string();
        if out.launches.is_empty() {
            let why = match refused.is_empty() {
                false => reasons(&refused),
                true if has_parts(&trace) => UNFINISHED.to_owned(),
                true => String::new(),
            };
            return Err(PlanError::Nothing { path: path(), why });
        }
        if !kernels.is_empty() {
            let mut there: Vec<String> = out.launches.iter().map(|l| l.shown.clone()).collect();
            let is_meant = |l: &Planned, wanted: &String| {
                clscope_names::means(wanted, &l.which.name) || l.shown == *wanted
            };
            out.launches.retain(|l| kernels.iter().any(|wanted| is_meant(l, wanted)));
            if out.launches.is_empty() {
                there.sort();
                there.dedup();
                let (wanted, there) = (kernels.join(" or "), there.join(", "));
                return Err(PlanError::NoKernel { path: path(), wanted, there });
            }
        } else {
            out.left = left(view.devices(), &out.launches, &refused);
            let transfers =
                view.devices().iter().flat_map(|of| transfers(of, &out.launches, &processes));
            let transfers: Vec<Planned> = transfers.collect();
            out.launches.extend(transfers);
        }
        out.launches.sort_by(|a, b| {
            let seconds = |of: &Planned| of.seconds.unwrap_or(0.0);
            seconds(b).total_cmp(&seconds(a)).then_with(|| a.folder.cmp(&b.folder))
        });
        Ok(out)
    }
}

/// Kernels that are named for one reason.
const NAMED: usize = 4;

/// Why kernels have no capture, as clauses: `: of a, b, why; of c, why`.
fn reasons(refused: &BTreeMap<String, String>) -> String {
    let mut names: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, why) in refused {
        names.entry(why).or_default().push(name);
    }
    let clause = |(why, names): (&str, Vec<&str>)| {
        let more = match names.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let named = names.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        format!("of {named}{more}, {why}")
    };
    let all: Vec<String> = names.into_iter().map(clause).collect();
    format!(": {}", all.join("; "))
}

/// Why captures were begun and none is whole.
const UNFINISHED: &str = ": the application ended before it had waited for its launches";

fn has_parts(trace: &Path) -> bool {
    crate::read::captures(trace).is_ok_and(|found| !found.parts.is_empty())
}

/// A capture that can be measured; else why it cannot be, as a clause.
fn planned(
    folder: &Path,
    (process, stem, d): (ProcessIndex, &str, &Definitions),
    capture: &defs::Capture,
    devices: &[PhysicalDevice],
) -> Result<Planned, String> {
    let opened = Capture::described(folder).map_err(|error| match error {
        CaptureError::Part { .. } => "its capture is not whole".to_owned(),
        other => other.to_string(),
    })?;
    let launch = &opened.launch;
    let device = d.clock_device(capture.queue).ok_or("its device is not known")?;
    if d.queues.get(&capture.queue).is_some_and(|queue| queue.device != device) {
        return Err("it ran on a part of a device (a sub-device), which is not made again".into());
    }
    let about = d.devices.get(&device);
    let numbers = |of: &Option<Vec<u64>>| of.clone().unwrap_or_default();
    let shown = d.kernel_name(capture.kernel).into_owned();
    let here = devices.iter().find(|of| of.members.contains(&(process, device)));
    let like = here.into_iter().flat_map(|of| &of.shapes);
    let like = like.filter(|((_, shape), _)| shape.name == shown && shape.sizes == launch.global);
    let seconds = like
        .filter(|(_, tally)| tally.timed > 0)
        .map(|(_, tally)| tally.seconds / tally.timed as f64 * tally.launches as f64)
        .reduce(|a, b| a + b);
    Ok(Planned {
        folder: folder.to_owned(),
        which: Which {
            process: stem.to_owned(),
            kernel: capture.kernel,
            device,
            capture: capture.folder.clone(),
            name: launch.kernel.clone(),
            number: launch.launch,
            offset: numbers(&launch.offset),
            global: launch.global.clone(),
            local: numbers(&launch.local),
            transfer: None,
        },
        shown,
        device: Asked {
            name: launch.device.name.clone(),
            platform: launch.platform.name.clone(),
            driver: launch.device.driver.clone(),
            pci: about.and_then(|of| of.pci.clone()),
            uuid: about.and_then(|of| of.uuid.clone()),
        },
        seconds,
        duration_ns: launch.duration_ns,
        described: launch.lacks().map(str::to_owned),
        environment: launch.environment.clone(),
    })
}

/// Transfers of a device that took a part of its time that matters, as they can be made again where
/// launches of the device are measured.
fn transfers(
    device: &PhysicalDevice,
    launches: &[Planned],
    processes: &[ProcessIndex],
) -> Vec<Planned> {
    let is_here = |(launch, process): &(&Planned, &ProcessIndex)| {
        device.members.contains(&(**process, launch.which.device))
    };
    let Some((beside, _)) = launches.iter().zip(processes).find(is_here) else {
        return Vec::new();
    };
    let seconds = |tally: &Tally| match tally.timed {
        0 => 0.0,
        timed => tally.seconds / timed as f64 * tally.launches as f64,
    };
    let all: f64 = device.shapes.values().map(seconds).sum();
    let mut out = Vec::new();
    for ((_, shape), tally) in &device.shapes {
        let kind = shape.sizes.first().and_then(|kind| u8::try_from(*kind).ok());
        let kind = kind.map(CommandKind::from_u8).filter(|kind| {
            kind.direction().is_some_and(|way| way.name() == shape.name)
                && transfer::is_measurable(*kind)
        });
        let bytes = tally.bytes / tally.launches.max(1);
        let (Some(kind), true) = (kind, seconds(tally) >= MATTERS * all && bytes > 0) else {
            continue;
        };
        out.push(Planned {
            folder: PathBuf::new(),
            which: Which {
                process: beside.which.process.clone(),
                device: beside.which.device,
                name: shape.name.clone(),
                global: vec![bytes],
                transfer: Some(Transfer { command: kind.name().to_owned(), bytes }),
                ..Which::default()
            },
            shown: shape.name.clone(),
            seconds: Some(seconds(tally)),
            described: None,
            duration_ns: Some((seconds(tally) / tally.launches as f64 * 1e9) as u64),
            ..beside.clone()
        });
    }
    // In one order, whatever that of the shapes.
    out.sort_by(|a, b| a.which.transfer.cmp(&b.which.transfer));
    out
}

/// Kernels that ran and have no capture, with the reason.
fn left(
    devices: &[PhysicalDevice],
    launches: &[Planned],
    refused: &BTreeMap<String, String>,
) -> Vec<Left> {
    let kernels = devices.iter().flat_map(|device| {
        let kernel = |class: u32| device.classes.get(class as usize).is_some_and(|c| c.kernel);
        device.shapes.keys().filter(move |(class, _)| kernel(class.0)).map(|(_, shape)| shape)
    });
    let is_captured = |name: &str, sizes: &[u64]| {
        launches.iter().any(|l| l.shown == name && l.which.global == sizes)
    };
    let mut out: Vec<Left> = kernels
        .filter(|shape| !is_captured(&shape.name, &shape.sizes))
        .map(|shape| {
            let sizes: Vec<String> = shape.sizes.iter().map(u64::to_string).collect();
            let why = refused.get(&shape.name).map_or_else(
                || format!("no launch of {} work-items was captured", sizes.join("x")),
                |why| format!("not captured: {why}"),
            );
            Left { kernel: shape.name.clone(), why }
        })
        .collect();
    out.sort();
    out.dedup();
    out
}
