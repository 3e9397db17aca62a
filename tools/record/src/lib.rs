//! An application recorded once: the order of the steps from finding the recorder to the last line
//! about the trace. Refuses to come between the application and its user: its streams, signals and
//! exit code are its own; to parse a command line, to read the environment and to print: what is to
//! be said goes through [`Voice`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | what is wanted, checked |
//! | [`summary`] | what was recorded, as lines |
#![forbid(unsafe_code)]

mod conclude;
mod error;
pub mod plan;
pub mod summary;

pub use error::RecordError;
pub use plan::{Plan, Voice};

use clscope_capture::compiler::Compiler;
use clscope_capture::counters::{prepare, sampler as counter_sampler};
use clscope_capture::launch::{self, End};
use clscope_capture::meta::{Exit, Host, Meta, MetaFile, Moment};
use clscope_capture::program::{Credentials, NotRunnable, Program};
use clscope_capture::system::{self, Held};
use clscope_capture::{control, directory, elf, environment, sampler};
use clscope_io::text::chain;
use clscope_profile::calibration;
use clscope_sensors::gpu_power::Choice;
use clscope_trace::settings;
use conclude::{conclude, settle};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What became of one recording.
pub enum Ran {
    /// The application ran.
    Ended {
        /// Its trace.
        trace: PathBuf,
        /// How it ended.
        end: End,
        /// From its start to its end.
        wall: Duration,
        /// Signals that were held back meanwhile.
        held: Box<Held>,
    },
    /// It could not be started; that was said. The exit code for it.
    NotRunnable(u8),
}

/// There where NVIDIA's driver is loaded.
const NVIDIA: &str = "/proc/driver/nvidia/version";

/// Records the application once.
///
/// # Errors
/// If it cannot be recorded. Once it has run nothing is an error: that is said.
pub fn record(plan: &Plan<'_>) -> Result<Ran, RecordError> {
    let Some(name) = plan.command.first() else { return Err(RecordError::NoApplication) };
    let wanted = &plan.counters;
    if let Some(mistake) = wanted.mistake(plan.snapshot) {
        return Err(RecordError::Refused(mistake.to_string()));
    }
    let variable = plan.here.variable;
    let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
    let (user, group) = system::credentials();
    let path = variable("PATH");
    let program = match Program::find(name, path.as_deref(), Credentials { user, group }) {
        Ok(program) => program,
        Err(error) => return Ok(not_runnable(plan, &error)),
    };
    if let Some(ranks) = plan.ranks
        && !ranks.include_this(text)?
    {
        let error = launch::replace(&program, plan.command)?;
        return Ok(not_runnable(plan, &error));
    }
    let libraries = plan.here.libraries()?;
    let sanitizer = program.elf.as_ref().and_then(elf::Elf::sanitizer);
    let ways = environment::plan(&plan.ways, &libraries, system::glibc_version(), sanitizer);
    if let Some(reason) = ways.refused.first() {
        return Err(RecordError::Refused(reason.to_string()));
    }
    if plan.verbose {
        ways.left_out.iter().for_each(|reason| plan.tell(format_args!("left out {reason}")));
    }
    program
        .obstacles
        .iter()
        .for_each(|obstacle| plan.tell(format_args!("warning: {}", obstacle.text)));

    let trace = directory::create(plan.output, &program.path, plan.force, plan.access, &text)?;
    let mut settings = plan.settings.clone();
    settings.insert(settings::TRACE, trace.as_os_str().to_owned());
    let mut set = environment::variables(
        &ways.ways,
        &libraries,
        program.elf.as_ref(),
        variable,
        |preload| {
            program
                .elf
                .as_ref()
                .map_or(0, |elf| environment::thread_storage(&program.image, elf, preload))
        },
    )?;
    let mut meta = Meta {
        format: clscope_trace::VERSION,
        clscope: env!("CARGO_PKG_VERSION"),
        command: plan.shown_command.clone(),
        program: program.path.display().to_string(),
        directory: std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default(),
        injection: ways.ways.iter().map(|way| way.name()).collect(),
        settings: settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_string_lossy().into_owned()))
            .collect(),
        host: Host::this(),
        start: Moment::now(),
        end: None,
        exit: None,
        still_running: Vec::new(),
        gpu_power: plan.gpu_power.map(|choice| match choice {
            Choice::Auto => "auto".to_owned(),
            Choice::Fixed(formula) => formula.name().to_owned(),
        }),
        calibration: calibration_entries(plan),
        obstacles: program.obstacles.iter().map(|o| o.code.to_owned()).collect(),
    };
    if let Some(amount) = plan.replay {
        plan.tell(format!(
            "--replay adds {amount}: launches and transfers are repeated, buffers restored"
        ));
    }
    system::fail_beyond_file_size();
    // Also the proof, before anything runs, that the directory takes files.
    let mut meta_file = MetaFile::create(&trace, &meta)?;
    set.extend(settings);
    let sensors = plan.sensors.clone();
    let mut sensors = match plan.snapshot {
        true => {
            let beside = sensors.beside_snapshots();
            if !beside.is_off() && Path::new(NVIDIA).exists() {
                plan.tell(
                    "--snapshot: NVIDIA's driver has a new reading of power every 20 ms or more, too slow to be read around a call: \
                     `clscope record --replay` gives the joules of a launch there",
                );
            }
            beside
        }
        false => sensors,
    };
    // In time for a person to stop it, not behind a long run.
    let inside = plan.counters.inside(plan.snapshot);
    let blind = (plan.snapshot && inside.is_empty()).then(|| plan.sensors.blind_around_commands());
    let blind = blind.flatten();
    if let Some(looked) = &blind {
        plan.tell(snapshot_without_sensor(looked));
    }
    sensors.gpm = wanted.gpm();
    let say = plan.voice.say;
    let sampler = match sampler::start(&trace, &sensors, plan.idle_window, say) {
        Ok(sampler) => sampler,
        Err(error) => {
            let _ = std::fs::remove_file(trace.join("sensors.clt"));
            meta_file.discard();
            return Err(error.into());
        }
    };

    let root = plan.sensors.sysfs_root.as_deref();
    // One reader of a stream: the application, if it reads around its commands, or this process.
    let prepared = if plan.snapshot { prepare::prepare(&trace, wanted, root)? } else { None };
    if let Some(prepared) = &prepared {
        prepared.warnings.iter().for_each(|warning| say(warning));
    }
    let counters = match plan.snapshot {
        true => None,
        false => counter_sampler::start(&trace, wanted, root, say)?,
    };
    if let Some(counters) = &counters {
        counters.wait_open();
    }
    let compiler = match plan.settings.contains_key(settings::MIX) {
        true => Some(Compiler::start(&trace, plan.access, path.as_deref())?),
        false => None,
    };
    // Before it may take longer for nothing.
    let unread = !plan.snapshot
        && plan.options_for_energy()
        && sampler.as_ref().is_none_or(|sampler| sampler.reads_energy() == Some(false));
    if unread {
        plan.options_without_energy().for_each(|text| plan.tell(text));
    }
    if let Some(sampler) = &sampler {
        sampler.application_starts();
    }
    let started = Instant::now();
    let running = match launch::start(&program, plan.command, &set)? {
        Ok(running) => running,
        Err(error) => {
            // Nothing ran, so nothing of value is in there.
            if let Some(sampler) = sampler {
                sampler.abandon();
                let _ = std::fs::remove_file(trace.join("sensors.clt"));
            }
            if let Some(counters) = counters {
                counters.finish();
                let _ = std::fs::remove_file(trace.join(counter_sampler::FILE));
            }
            drop(compiler);
            meta_file.discard();
            return Ok(not_runnable(plan, &error));
        }
    };
    if let Some(counters) = &counters {
        counters.application(running.pid());
    }
    let (status, held) = running.wait(plan.duration, || match control::stop_all(&trace) {
        Ok(()) => plan.tell("recording was stopped after --duration; the application runs on"),
        Err(error) => say(&format_args!(
            "recording could not be stopped as --duration asked: {}",
            chain(&error)
        )),
    })?;
    let (end, wall) = (End::of_status(status), started.elapsed());
    let mut contents = settle(&trace, plan, &held, &mut meta);
    let reads_energy = sampler.is_some_and(|sampler| {
        sampler.application_ended();
        sampler.finish()
    });
    if let Some(counters) = counters {
        counters.finish();
    }
    drop((prepared, compiler));
    meta.end = Some(Moment::now());
    meta.exit = Some(match end {
        End::Code(code) => Exit::Code(code),
        End::Signal(number, _) => Exit::Signal { number, name: system::signal_name(number) },
    });
    // The application has run and its trace is there: from here on nothing may change the exit
    // code.
    if let Err(error) = meta_file.write(&meta) {
        say(&chain(&error));
    }
    if blind.is_some() {
        contents.warnings.remove(settings::NO_SNAPSHOT);
    }
    conclude(plan, &trace, &contents, &program, end);
    if !reads_energy && !unread && !plan.snapshot && contents.commands > 0 {
        plan.options_without_energy().for_each(|text| plan.tell(text));
    }
    Ok(Ran::Ended { trace, end, wall, held: Box::new(held) })
}

/// What is said where no sensor can be read around commands, given what was looked for.
fn snapshot_without_sensor(looked: &str) -> String {
    format!(
        "warning: --snapshot: no sensor can be read around commands, so this run will tell no joules: {looked}; `clscope doctor` says what helps; \
         `clscope record --replay` gives joules of launches by sensors that are too slow for this"
    )
}

/// What was calibrated on this host. A file that cannot be read costs the corrected figures, not
/// the recording.
fn calibration_entries(plan: &Plan<'_>) -> Vec<serde_json::Value> {
    let Some(path) = calibration::place(plan.here.variable) else { return Vec::new() };
    match calibration::Store::load(&path) {
        Ok(store) => {
            let own = store.of_host(&clscope_readings::host::name());
            own.iter().filter_map(|entry| serde_json::to_value(entry).ok()).collect()
        }
        Err(error) => {
            plan.tell(format_args!("warning: no calibrations are used: {}", chain(&error)));
            Vec::new()
        }
    }
}

fn not_runnable(plan: &Plan<'_>, error: &NotRunnable) -> Ran {
    (plan.voice.say)(&format_args!("cannot run {error}"));
    Ran::NotRunnable(error.code())
}
