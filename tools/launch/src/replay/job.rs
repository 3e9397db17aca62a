//! One captured launch (or a transfer), measured inside of the process that is made for it: results against those
//! of the application, time, what it executes, joules in turns with rest. Owns which device and
//! which form of the program that is. Refuses to write anything: what was measured is returned.

use super::transfer;
use crate::capture::{Given, Launch, MemoryKind};
use crate::document::{Expected, Outcome, judge};
use crate::element::bytes_of_hex;
use crate::energy;
use crate::measure::{self, Effort, Subject};
use crate::mix;
use crate::progress::{Step, Who};
use crate::read::Capture;
use crate::run::{self, RunError, Watch};
use crate::stage::{Built, Form, Recipe, Stage, StageError};
use clscope_io::output::{Access, Whole, create_dir};
use clscope_opencl::{ChoiceError, Device, DeviceKind, choose};
use clscope_profile::measured::{self, Measured, On, SCHEMA, Which};
use clscope_profile::mixes::Argument;
use clscope_profile::mixes::KernelMix;
use clscope_trace::directory::program_file;
use clscope_trace::ids::{normal_pci, normal_uuid};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Why there are no joules of what is only counted.
pub const NOT_ASKED: &str = "no joules were asked for";
/// Launches that are timed.
pub(super) const EFFORT: Effort = Effort { launches: 30, longest_ns: 1_000_000_000 };
/// Why there are no joules of what is put back before each launch.
const RESTORING: &str =
    "not measurable by itself: putting back what it writes takes most of the energy";
/// Part of the windows' energy that restoring may take before the joules are only those of restoring.
const MOST_RESTORING: f64 = 0.5;

/// The device that the application used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// CL_DEVICE_NAME.
    pub name: String,
    /// CL_PLATFORM_NAME.
    pub platform: String,
    /// CL_DRIVER_VERSION.
    pub driver: String,
    /// Its PCI address.
    pub pci: Option<String>,
    /// Its UUID.
    pub uuid: Option<String>,
}

/// What a process is to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Folder of the capture; of no use for a transfer.
    pub folder: PathBuf,
    /// Which launch it is.
    pub which: Which,
    /// The device that the application used.
    pub device: Asked,
    /// Another device to use: a part of its name or its number.
    pub elsewhere: Option<String>,
    /// Time for joules, nanoseconds; none: no joules are measured.
    pub budget_ns: Option<u64>,
    /// Whether what the launch executes is counted.
    pub mix: bool,
    /// Whether accesses of warps to memory are counted, too (PTX alone).
    pub accesses: bool,
    /// Folders in which compilers are looked for, as `PATH` holds them.
    pub compilers: OsString,
    /// The trace's folder of programs, for what is counted and the trace has from nowhere else.
    pub programs: Option<PathBuf>,
    /// Whether performance counters are read.
    pub counters: bool,
    /// Where sensors are looked for instead of the system's sysfs.
    pub sysfs_root: Option<PathBuf>,
    /// The OpenCL library to open.
    pub opencl: Option<String>,
}

/// Why a launch is not measured.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum JobError {
    /// The device is not here.
    #[error(
        "{0} is not here: --device NAME measures on another one, --trust takes the variables that choose runtimes (OCL_ICD_VENDORS) from the trace"
    )]
    NoDevice(String),
    /// More than one device may be it.
    #[error(
        "{count} devices are called {name}, and the trace does not say which of them ran it: --device NUMBER names one"
    )]
    Several { count: usize, name: String },
    /// No device is what was asked for.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// It cannot run.
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<StageError> for JobError {
    fn from(error: StageError) -> Self {
        Self::Run(error.into())
    }
}

/// The device of a job among those that are here, and whether the application used that one, with
/// the same driver.
///
/// # Errors
/// If it is not here, or cannot be told from others.
pub fn device<'d>(all: &'d [Device], job: &Job) -> Result<(&'d Device, bool), JobError> {
    let asked = &job.device;
    let is_alike = |device: &&Device| {
        device.facts.name == asked.name && device.facts.platform == asked.platform
    };
    let is_same = |device: &Device| device.facts.driver == asked.driver;
    let normal = |of: &Option<String>, to: fn(&str) -> Option<String>| of.as_deref().and_then(to);
    let (pci, uuid) = (normal(&asked.pci, normal_pci), normal(&asked.uuid, normal_uuid));
    // One of an address is it, whichever other device has its name.
    let is_it = |device: &&Device| {
        let own_uuid = device.uuid().as_deref().and_then(normal_uuid);
        let own_pci = device.facts.pci.as_deref().and_then(normal_pci);
        match (&uuid, own_uuid, &pci, own_pci) {
            (Some(a), Some(b), ..) => *a == b,
            (_, _, Some(a), Some(b)) => *a == b,
            _ => true,
        }
    };
    if let Some(wanted) = &job.elsewhere {
        let found = choose(all, Some(wanted))?;
        return Ok((found, is_alike(&found) && is_same(found) && is_it(&found)));
    }
    let found: Vec<&Device> = all.iter().filter(is_alike).filter(is_it).collect();
    match found.as_slice() {
        [] => Err(JobError::NoDevice(format!("{} ({})", asked.name, asked.platform))),
        [one] => Ok((*one, is_same(one))),
        all => Err(JobError::Several { count: all.len(), name: asked.name.clone() }),
    }
}

/// What is known of a launch before it is measured.
pub fn unmeasured(which: &Which) -> Measured {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    Measured {
        schema: SCHEMA,
        clscope: env!("CARGO_PKG_VERSION").to_owned(),
        at_ns: now.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)),
        launch: which.clone(),
        ..Measured::default()
    }
}

/// A line that says why a launch was not measured.
pub fn failed(which: &Which, device: &Asked, why: String) -> Measured {
    let on = On {
        name: device.name.clone(),
        platform: device.platform.clone(),
        driver: device.driver.clone(),
        pci: device.pci.clone(),
        is_same: true,
    };
    Measured { on, failed: Some(why), ..unmeasured(which) }
}

/// Measures a launch on one of the devices that are here.
///
/// # Errors
/// [`JobError`]: nothing was measured.
pub fn measure(all: &[Device], job: &Job, watch: Watch<'_>) -> Result<Measured, JobError> {
    let (device, is_same) = device(all, job)?;
    let mut out = unmeasured(&job.which);
    out.on = On {
        name: device.facts.name.clone(),
        platform: device.facts.platform.clone(),
        driver: device.facts.driver.clone(),
        pci: device.facts.pci.clone(),
        is_same,
    };
    if let Some(of) = &job.which.transfer {
        return transfer::measure(device, (job, of), out, watch);
    }
    let capture = Capture::described(&job.folder).map_err(RunError::from)?;
    let mut stage = Stage::new(device, &capture, watch.progress)?;
    let (built, note) = built(&stage, is_same)?;
    out.notes.extend(note);
    out.form = Some(built.form.name().to_owned());
    if let Some(why) = capture.launch.lacks() {
        count(&stage, &built, job, &mut out);
        let why = if job.budget_ns.is_some() { why } else { NOT_ASKED };
        out.energy_missing = Some(why.to_owned());
        return Ok(out);
    }
    let computed = run::computed(&stage, &built, &built.range)?;
    out.results = results(&stage, &built, &computed)?;
    if let Some(behind) = computed.overruns.first() {
        out.notes.push(format!("it writes behind memory {}", behind.index));
    }
    let restored = run::restored(&mut stage, &built, &computed, watch.stop)?;
    drop(computed);
    count(&stage, &built, job, &mut out);
    let subject = Subject { built: &built, range: &built.range, restored: &restored, results: &[] };
    stage.enter(Step::Timing);
    let samples = measure::in_turns(&stage, std::slice::from_ref(&subject), EFFORT, watch.stop)?;
    let samples = samples.into_iter().next().unwrap_or_default();
    let time = run::time_of(&samples, !restored.is_empty());
    out.time = time.map(measured::Time::from);
    if (watch.stop)() {
        return Err(RunError::Interrupted.into());
    }
    let Some(budget_ns) = job.budget_ns else {
        out.energy_missing = Some(NOT_ASKED.to_owned());
        return Ok(out);
    };
    stage.enter(Step::Metering);
    let typical = out.time.map_or(0.0, |time| time.median_ns.value);
    let sensors = (job.sysfs_root.as_deref(), job.counters);
    let turns = energy::repeated(&stage, &subject, |of| {
        energy::turns(of, (typical, budget_ns), sensors, watch.stop)
    });
    turns?.give_to(&mut out);
    if energy::restoring_share(&out.windows).is_some_and(|share| share >= MOST_RESTORING) {
        out.windows.clear();
        out.energy_missing = Some(RESTORING.to_owned());
    }
    Ok(out)
}

/// Counts what the launch executes, where that is asked for.
fn count(stage: &Stage<'_>, built: &Built, job: &Job, out: &mut Measured) {
    if !job.mix {
        return;
    }
    stage.enter(Step::Counting);
    match mix::count(stage, built, &job.compilers, job.accesses) {
        Ok((of, kept)) => {
            if let (Some(module), Some(folder)) = (kept, &job.programs) {
                out.notes.extend(keep(folder, &of, &module));
            }
            out.mix = Some(executed(&of, &stage.capture.launch));
        }
        Err(why) => out.mix_missing = Some(why),
    }
}

/// The program that ran in the application: its binary on the same device with the same driver, else
/// what it was built from. On processors that always, where there is a text: there PoCL's binaries
/// may crash.
fn built(stage: &Stage<'_>, is_same: bool) -> Result<(Built, Option<String>), StageError> {
    let with = |form| stage.build(Who::Captured, &Recipe { form, ..Recipe::default() });
    let program = &stage.capture.launch.program;
    let has_binary = program.own_files().any(|file| file.language == "binary");
    let is_processor = stage.session.facts().kind == DeviceKind::Cpu;
    if !is_same || !has_binary || (is_processor && !program.is_binary_alone()) {
        return Ok((with(None)?, None));
    }
    match with(Some(Form::Binary)) {
        Ok(built) => Ok((built, None)),
        Err(why) => {
            let note = format!("the application's binary is not taken here: {why}");
            Ok((with(None)?, Some(note)))
        }
    }
}

/// How results stand to those of the application; none where the capture does not hold them.
fn results(
    stage: &Stage<'_>,
    built: &Built,
    computed: &run::Computed,
) -> Result<Option<String>, JobError> {
    let launch = &stage.capture.launch;
    let kinds = run::elements(launch, built, &run::pointed(stage.capture)?, &[])?;
    let after = stage.after().map_err(RunError::from)?;
    let with = Expected { name: "capture", contents: &after, is_repeatable: true };
    let runs = (&computed.first[..], &computed.again[..]);
    let judged = judge(launch, &kinds, with, runs, run::TOLERANCE);
    Ok(match judged.outcome {
        Outcome::NotChecked => None,
        Outcome::Same => Some("same".to_owned()),
        Outcome::Within => Some("within-tolerance".to_owned()),
        Outcome::Varies => Some("varies".to_owned()),
        Outcome::Differs => Some("differs".to_owned()),
    })
}

/// Keeps the module that blocks are of beside the programs of the trace, once. A note why it is not
/// kept: what depends on what is then not known of them.
fn keep(folder: &Path, of: &KernelMix, module: &[u8]) -> Option<String> {
    let path = folder.join(program_file(&of.code, &of.language)?);
    if std::fs::symlink_metadata(&path).is_ok() {
        return None;
    }
    let access = Access::within(folder.parent()?);
    let made = match create_dir(folder, access) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Whole::create(&path, access).and_then(|mut out| {
            std::io::Write::write_all(&mut out, module)?;
            out.finish()
        }),
    };
    made.err().map(|error| format!("its translation is not kept: {error}"))
}

/// What was counted, as the trace keeps it.
fn executed(of: &KernelMix, launch: &Launch) -> measured::Executed {
    let class = |(class, tally): (&clscope_mix::Class, &clscope_mix::Tally)| measured::Class {
        class: class.name().to_owned(),
        threads: tally.threads,
        warps: tally.warps,
        flop: tally.flop,
        bytes: tally.bytes,
        predicated: tally.predicated,
        transactions: tally.transactions,
    };
    let block = |(block, (threads, warps)): (&u32, &(u64, Option<u64>))| measured::Block {
        block: *block,
        threads: *threads,
        warps: *warps,
    };
    measured::Executed {
        language: of.language.clone(),
        code: of.code.clone(),
        entered: of.entered,
        longest_group: of.longest_group,
        reuse: of.mix.reuse.clone(),
        classes: of.mix.classes.iter().map(class).collect(),
        blocks: of.blocks.iter().map(block).collect(),
        loops: of.loops.iter().map(|of| of.block).collect(),
        unknown: of.unknown.iter().cloned().collect(),
        arguments: launch.arguments.iter().map(|of| argument(launch, of)).collect(),
    }
}

/// What an argument is.
fn argument(launch: &Launch, of: &crate::capture::Argument) -> Argument {
    let (kind, size, value) = match &of.given {
        Given::Value { bytes, value } => {
            let bytes_of = bytes_of_hex(value).unwrap_or_default();
            let mut word = [0u8; 8];
            let fits = word.get_mut(..bytes_of.len()).map(|to| to.copy_from_slice(&bytes_of));
            ("value", Some(*bytes), fits.map(|()| u64::from_le_bytes(word)))
        }
        Given::Local { bytes } => ("local", Some(*bytes), None),
        Given::Memory { memory, size, .. } => {
            let is_image = launch.memory(*memory).is_some_and(|of| of.kind == MemoryKind::Image);
            (if is_image { "image" } else { "buffer" }, Some(*size), None)
        }
        Given::Null { .. } => ("buffer", Some(0), None),
        Given::Sampler { .. } => ("sampler", None, None),
        Given::Svm { .. } => ("shared", None, None),
    };
    Argument { index: of.index, kind: kind.to_owned(), size, value }
}
