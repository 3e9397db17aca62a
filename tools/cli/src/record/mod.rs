//! Owns `clscope record`: the order of the steps from finding the recorder to the last line on
//! stderr. Refuses to come between the application and its user: its streams, signals and exit code
//! are its own.
#![forbid(unsafe_code)]

mod args;
mod change;
mod conclude;
mod summary;

pub use args::Args;

use crate::output::say;
use anyhow::{Result, bail};
use clscope_capture::compiler::Compiler;
use clscope_capture::counters::{prepare, sampler as counter_sampler};
use clscope_capture::launch::{self, End};
use clscope_capture::meta::{Exit, Host, Meta, MetaFile, Moment};
use clscope_capture::program::{Credentials, NotRunnable, Program};
use clscope_capture::system::{self, Held};
use clscope_capture::{control, directory, elf, environment, sampler};
use clscope_profile::calibration;
use clscope_sensors::gpu_power::Choice;
use conclude::{conclude, settle};
use std::path::PathBuf;
use std::process::ExitCode;
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
    /// It could not be started; that was reported.
    NotRunnable(ExitCode),
}

/// Runs the application and reports what was recorded. The exit code is the application's; where a
/// signal ended it, this process ends by the same.
pub fn run(args: &Args) -> Result<ExitCode> {
    match record(args)? {
        Ran::Ended { end, held, .. } => Ok(end_alike(end, held)),
        Ran::NotRunnable(code) => Ok(code),
    }
}

/// Ends as the application did.
pub fn end_alike(end: End, held: Box<Held>) -> ExitCode {
    match end {
        End::Code(code) => ExitCode::from(code),
        End::Signal(signal, _) => {
            drop(held);
            system::die_by(signal);
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
    }
}

/// Records the application once.
pub fn record(args: &Args) -> Result<Ran> {
    let Some(name) = args.command.first() else {
        bail!("name the application: clscope record -- APP")
    };
    let wanted = args.counters.options();
    if let Some(mistake) = wanted.mistake(args.snapshot) {
        bail!("{mistake}");
    }
    let (user, group) = system::credentials();
    let program =
        match Program::find(name, std::env::var_os("PATH").as_deref(), Credentials { user, group })
        {
            Ok(program) => program,
            Err(error) => return Ok(Ran::NotRunnable(not_runnable(&error))),
        };
    if let Some(ranks) = &args.ranks
        && !ranks.include_this(|name| std::env::var(name).ok())?
    {
        let error = launch::replace(&program, &args.command)?;
        return Ok(Ran::NotRunnable(not_runnable(&error)));
    }
    let libraries = crate::surroundings(|here| Ok(here.libraries()?))?;
    let sanitizer = program.elf.as_ref().and_then(elf::Elf::sanitizer);
    let ways: Vec<environment::Way> = args.inject.iter().map(|way| (*way).into()).collect();
    let plan = environment::plan(&ways, &libraries, system::glibc_version(), sanitizer);
    if let Some(reason) = plan.refused.first() {
        bail!("{reason}");
    }
    if args.verbose {
        plan.left_out.iter().for_each(|reason| args.tell(format_args!("left out {reason}")));
    }
    program
        .obstacles
        .iter()
        .for_each(|obstacle| args.tell(format_args!("warning: {}", obstacle.text)));

    let trace = directory::create(
        args.output.as_deref(),
        &program.path,
        args.force,
        args.access(),
        &|name| std::env::var(name).ok(),
    )?;
    let settings = args.settings(&trace);
    let mut set = environment::variables(
        &plan.ways,
        &libraries,
        program.elf.as_ref(),
        |name| std::env::var_os(name),
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
        command: args.shown_command(),
        program: program.path.display().to_string(),
        directory: std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default(),
        injection: plan.ways.iter().map(|way| way.name()).collect(),
        settings: settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.to_string_lossy().into_owned()))
            .collect(),
        host: Host::this(),
        start: Moment::now(),
        end: None,
        exit: None,
        still_running: Vec::new(),
        gpu_power: args.gpu_power.map(|choice| match choice {
            Choice::Auto => "auto".to_owned(),
            Choice::Fixed(formula) => formula.name().to_owned(),
        }),
        calibration: calibration_entries(args),
        obstacles: program.obstacles.iter().map(|o| o.code.to_owned()).collect(),
    };
    if let Some(amount) = args.replay() {
        args.tell(format!(
            "--replay adds {amount}: launches and transfers are repeated, buffers restored"
        ));
    }
    clscope_capture::system::fail_beyond_file_size();
    // Also the proof, before anything runs, that the directory takes files.
    let mut meta_file = MetaFile::create(&trace, &meta)?;
    set.extend(settings);
    let sensors = args.sensors.options();
    let mut sensors = if args.snapshot { sensors.beside_snapshots() } else { sensors };
    sensors.gpm = wanted.gpm();
    let sampler = match sampler::start(&trace, &sensors, args.idle_window, |text| say(text)) {
        Ok(sampler) => sampler,
        Err(error) => {
            let _ = std::fs::remove_file(trace.join("sensors.clt"));
            meta_file.discard();
            return Err(error.into());
        }
    };

    let root = args.sensors.sysfs_root.as_deref();
    // One reader of a stream: the application, if it reads around its commands, or this process.
    let prepared = if args.snapshot { prepare::prepare(&trace, &wanted, root)? } else { None };
    if let Some(prepared) = &prepared {
        prepared.warnings.iter().for_each(say);
    }
    let counters = if args.snapshot {
        None
    } else {
        counter_sampler::start(&trace, &wanted, root, |text| say(text))?
    };
    if let Some(counters) = &counters {
        counters.wait_open();
    }
    let path = std::env::var_os("PATH");
    let compiler = match &args.mix {
        Some(_) => Some(Compiler::start(&trace, args.access(), path.as_deref())?),
        None => None,
    };
    if let Some(sampler) = &sampler {
        sampler.application_starts();
    }
    let started = Instant::now();
    let running = match launch::start(&program, &args.command, &set)? {
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
            return Ok(Ran::NotRunnable(not_runnable(&error)));
        }
    };
    if let Some(counters) = &counters {
        counters.application(running.pid());
    }
    let (status, held) = running.wait(args.duration, || match control::stop_all(&trace) {
        Ok(()) => args.tell("recording was stopped after --duration; the application runs on"),
        Err(error) => {
            say(format_args!("recording could not be stopped as --duration asked: {error:#}"))
        }
    })?;
    let (end, wall) = (End::of(status), started.elapsed());
    let contents = settle(&trace, args, &held, &mut meta);
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
        say(format_args!("{error:#}"));
    }
    conclude(args, &trace, &contents, &program, end);
    if !reads_energy && !args.snapshot && contents.commands > 0 {
        args.options_without_energy().for_each(|text| args.tell(text));
    }
    Ok(Ran::Ended { trace, end, wall, held: Box::new(held) })
}

/// What was calibrated on this host. A file that cannot be read costs the corrected figures, not
/// the recording.
fn calibration_entries(args: &Args) -> Vec<serde_json::Value> {
    let Some(path) = calibration::place(&|name| std::env::var_os(name)) else { return Vec::new() };
    match calibration::Store::load(&path) {
        Ok(store) => {
            let own = store.of_host(&clscope_readings::host::name());
            own.iter().filter_map(|entry| serde_json::to_value(entry).ok()).collect()
        }
        Err(error) => {
            args.tell(format_args!(
                "warning: no calibrations are used: {}",
                clscope_io::text::chain(&error)
            ));
            Vec::new()
        }
    }
}

fn not_runnable(error: &NotRunnable) -> ExitCode {
    say(format_args!("cannot run {error}"));
    ExitCode::from(error.code())
}
