//! An application recorded once: the order of the steps from finding the recorder to the last line
//! about the trace. Refuses to come between the application and its user: its streams, signals and
//! exit code are its own; to parse a command line, to read the environment and to print: what is to
//! be said goes through [`Voice`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`plan`] | what is wanted, checked |
//! | [`meter`] | readings of an external meter |
//! | [`summary`] | what was recorded, as lines |
#![forbid(unsafe_code)]

mod alone;
mod conclude;
mod error;
mod measure;
pub mod meter;
pub mod plan;
pub mod summary;

pub use alone::Alone;
pub use error::RecordError;
pub use plan::{Plan, Voice};

use clscope_capture::counters::{prepare, sampler as counter_sampler};
use clscope_capture::drainer::Drainer;
use clscope_capture::error::CaptureError;
use clscope_capture::launch::{self, End};
use clscope_capture::meta::{Exit, Host, Meta, MetaFile, Moment};
use clscope_capture::program::{Credentials, NotRunnable, Program};
use clscope_capture::system::{self, Held};
use clscope_capture::{directory, elf, environment, sampler};
use clscope_io::text::chain;
use clscope_profile::calibration;
use clscope_sensors::gpu_power::Choice;
use clscope_trace::variables;
use conclude::{conclude, settle};
use std::collections::BTreeMap;
use std::ffi::OsString;
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
    /// It cannot be recorded; that was said. It is to be run without the recorder.
    Alone(Box<Alone>),
}

/// There where NVIDIA's driver is loaded.
const NVIDIA: &str = "/proc/driver/nvidia/version";

/// Records the application once.
///
/// # Errors
/// If what is wanted cannot be meant, or, where a trace is required, if none can be made. Once the
/// application has run nothing is an error: that is said.
pub fn record(plan: &Plan<'_>) -> Result<Ran, RecordError> {
    let program = match find(plan)? {
        Ok(program) => program,
        Err(ran) => return Ok(ran),
    };
    let why = match Ready::new(plan, &program).and_then(|ready| ready.start(plan, &program)) {
        Ok(Ok(started)) => return started.finish(plan, &program),
        Ok(Err(error)) => return Ok(not_runnable(plan, &error)),
        Err(error) if plan.require_trace || error.is_of_the_request() => return Err(error),
        Err(error) => error,
    };
    Ok(Ran::Alone(Box::new(Alone::after(&why, program, plan))))
}

/// An application for which there is no place to record it to.
///
/// # Errors
/// As [`record`].
pub fn leave_alone(plan: &Plan<'_>, why: CaptureError) -> Result<Ran, RecordError> {
    if plan.require_trace {
        return Err(why.into());
    }
    Ok(match find(plan)? {
        Ok(program) => Ran::Alone(Box::new(Alone::after(&why.into(), program, plan))),
        Err(ran) => ran,
    })
}

/// Finds the application. The inner error is what became of it where it is not to be recorded.
fn find(plan: &Plan<'_>) -> Result<Result<Program, Ran>, RecordError> {
    let Some(name) = plan.command.first() else { return Err(RecordError::NoApplication) };
    if let Some(mistake) = plan.counters.mistake(plan.snapshot) {
        return Err(RecordError::Refused(mistake.to_string()));
    }
    let variable = plan.here.variable;
    let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
    let (user, group) = system::credentials();
    let program =
        match Program::find(name, variable("PATH").as_deref(), Credentials { user, group }) {
            Ok(program) => program,
            Err(error) => return Ok(Err(not_runnable(plan, &error))),
        };
    if let Some(ranks) = plan.ranks
        && !ranks.include_this(text)?
    {
        let error = launch::replace(&program, plan.command)?;
        return Ok(Err(not_runnable(plan, &error)));
    }
    Ok(Ok(program))
}

/// All that a recording needs before the application is started. Dropped before that, it takes back
/// what it made.
struct Ready {
    trace: PathBuf,
    /// The application's variables.
    set: BTreeMap<&'static str, OsString>,
    meta: Meta,
    meta_file: Option<MetaFile>,
    sampler: Option<sampler::Running>,
    counters: Option<counter_sampler::Running>,
    prepared: Option<prepare::Prepared>,
    drainer: Option<Drainer>,
    meter: Option<meter::Running>,
    /// `--snapshot` finds no sensor that it can read; that was said.
    is_blind: bool,
    /// Options for joules have nothing to read; that was said.
    is_unread: bool,
}

impl Drop for Ready {
    fn drop(&mut self) {
        let Some(meta_file) = self.meta_file.take() else { return };
        // Nothing ran, so nothing of value is in there.
        if let Some(sampler) = self.sampler.take() {
            sampler.abandon();
        }
        if let Some(counters) = self.counters.take() {
            counters.finish();
        }
        drop((self.prepared.take(), self.drainer.take()));
        if let Some(meter) = self.meter.take() {
            let _ = meter.finish();
        }
        for file in [sampler::FILE, counter_sampler::FILE] {
            let _ = std::fs::remove_file(self.trace.join(file));
        }
        meta_file.discard();
    }
}

impl Ready {
    /// Makes the trace, and starts what reads beside the application.
    fn new(plan: &Plan<'_>, program: &Program) -> Result<Self, RecordError> {
        let variable = plan.here.variable;
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        let libraries = plan.here.libraries()?;
        let sanitizer = program.elf.as_ref().and_then(elf::Elf::sanitizer);
        let ways = environment::plan(&plan.ways, &libraries, system::glibc_version(), sanitizer);
        if let Some(reason) = ways.refused.first() {
            return Err(RecordError::Refused(reason.to_string()));
        }
        program
            .obstacles
            .iter()
            .for_each(|obstacle| plan.tell(format_args!("warning: {}", obstacle.text)));

        let mut set = environment::variables(
            &ways.ways,
            &libraries,
            program.elf.as_ref(),
            variable,
            |entry| environment::serves_opencl(&program.image, program.elf.as_ref(), entry),
            |preload| {
                program
                    .elf
                    .as_ref()
                    .map_or(0, |elf| environment::thread_storage(&program.image, elf, preload))
            },
        )?;
        system::fail_beyond_file_size();
        let trace = directory::create(plan.output, &program.path, plan.force, plan.access, &text)?;
        let mut settings = plan.settings.clone();
        settings.insert(variables::TRACE, trace.as_os_str().to_owned());
        let meta = Meta {
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
            environment: environment::OF_OPENCL
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), text(name)?)))
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
        // Also the proof, before anything runs, that the directory takes files.
        let meta_file = MetaFile::create(&trace, &meta)?;
        set.extend(settings);
        let mut ready = Self {
            trace,
            set,
            meta,
            meta_file: Some(meta_file),
            sampler: None,
            counters: None,
            prepared: None,
            drainer: None,
            meter: None,
            is_blind: false,
            is_unread: false,
        };
        ready.start_readers(plan)?;
        Ok(ready)
    }

    /// Starts what reads sensors and counters, or makes them readable to the application.
    fn start_readers(&mut self, plan: &Plan<'_>) -> Result<(), RecordError> {
        let (trace, wanted, say) = (&self.trace, &plan.counters, plan.voice.say);
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
        let blind =
            (plan.snapshot && inside.is_empty()).then(|| plan.sensors.blind_around_commands());
        if let Some(looked) = blind.flatten() {
            plan.tell(snapshot_without_sensor(&looked));
            self.is_blind = true;
        }
        sensors.gpm = wanted.gpm();
        let meter = plan.meter.as_ref().map(meter::Running::start).transpose();
        self.meter =
            meter.map_err(|why| RecordError::Refused(format!("--meter {}", chain(&why))))?;
        self.sampler = sampler::start(trace, &sensors, plan.idle_window, say)?;

        let root = plan.sensors.sysfs_root.as_deref();
        // One reader of a stream: the application, if it reads around its commands, or this process.
        match plan.snapshot {
            true => self.prepared = prepare::prepare(trace, wanted, root)?,
            false => self.counters = counter_sampler::start(trace, wanted, root, say)?,
        }
        if let Some(prepared) = &self.prepared {
            prepared.warnings.iter().for_each(|warning| say(warning));
        }
        if let Some(counters) = &self.counters {
            counters.wait_open();
        }
        // Without it the application's processes write their trace themselves.
        match Drainer::start(trace, plan.access, say) {
            Ok(drainer) => self.drainer = drainer,
            Err(error) => plan.tell(format_args!(
                "warning: an application that shuts itself into a sandbox may be ended by it: {}",
                chain(&error)
            )),
        }
        // Before it may take longer for nothing.
        self.is_unread = !plan.snapshot
            && plan.meter.is_none()
            && plan.options_for_energy()
            && self.sampler.as_ref().is_none_or(|sampler| sampler.reads_energy() == Some(false));
        if self.is_unread {
            plan.options_without_energy().for_each(|text| plan.tell(text));
        }
        Ok(())
    }

    /// Starts the application. The inner error means that it cannot be run.
    fn start(
        mut self,
        plan: &Plan<'_>,
        program: &Program,
    ) -> Result<Result<Started, NotRunnable>, RecordError> {
        if let Some(sampler) = &self.sampler {
            sampler.application_starts();
        }
        let at = Instant::now();
        let running = match launch::start(program, plan.command, &self.set)? {
            Ok(running) => running,
            Err(error) => return Ok(Err(error)),
        };
        if self.drainer.is_some() {
            // Files of each process of the application are open here. Its own limit is as it was.
            system::raise_descriptors();
        }
        if let Some(counters) = &self.counters {
            counters.application(running.pid());
        }
        // From here on there is a trace to keep.
        Ok(Ok(Started { meta_file: self.meta_file.take(), ready: self, running, at }))
    }
}

/// A recording whose application runs.
struct Started {
    ready: Ready,
    meta_file: Option<MetaFile>,
    running: launch::Running,
    /// When the application was started.
    at: Instant,
}

impl Started {
    /// Waits for the application's end, and says what was recorded.
    fn finish(self, plan: &Plan<'_>, program: &Program) -> Result<Ran, RecordError> {
        let Self { mut ready, meta_file, running, at } = self;
        let say = plan.voice.say;
        let trace = &ready.trace;
        let (status, held) = running.wait()?;
        let (end, wall) = (End::of_status(status), at.elapsed());
        if let Some(drainer) = &ready.drainer {
            drainer.finish_ended();
        }
        let mut contents = settle(trace, plan, &held, &mut ready.meta);
        let reads_energy = ready.sampler.take().is_some_and(|sampler| {
            sampler.application_ended();
            sampler.finish()
        });
        if let Some(counters) = ready.counters.take() {
            counters.finish();
        }
        drop((ready.prepared.take(), ready.drainer.take()));
        ready.meta.end = Some(Moment::now());
        ready.meta.exit = Some(match end {
            End::Code(code) => Exit::Code(code),
            End::Signal(number, _) => Exit::Signal { number, name: system::signal_name(number) },
        });
        if let Some(Err(error)) = meta_file.map(|mut file| file.write(&ready.meta)) {
            say(&chain(&error));
        }
        let is_metered = ready.meter.take().is_some_and(|meter| add_meter(plan, trace, meter));
        if ready.is_blind {
            contents.warnings.remove(variables::NO_SNAPSHOT);
        }
        if contents.commands > 0 {
            measure::measure(plan, trace, &held, &ready.meta.still_running, wall);
        }
        conclude(plan, trace, &contents, program, end);
        if !reads_energy
            && !is_metered
            && !ready.is_unread
            && !plan.snapshot
            && contents.commands > 0
        {
            plan.options_without_energy().for_each(|text| plan.tell(text));
        }
        let trace = std::mem::take(&mut ready.trace);
        Ok(Ran::Ended { trace, end, wall, held: Box::new(held) })
    }
}

/// Adds the readings of a meter, and says how; whether there are any. What fails costs them alone,
/// and can be tried again.
fn add_meter(plan: &Plan<'_>, trace: &Path, running: meter::Running) -> bool {
    let format = plan.meter.as_ref().map(|m| m.format.clone()).unwrap_or_default();
    let finished = running.finish().map_err(meter::Failure::from);
    let added = finished.and_then(|(what, of)| meter::attach(trace, &what, &of, &format));
    match added {
        Ok(said) => {
            said.iter().for_each(|text| plan.tell(format_args!("meter: {text}")));
            true
        }
        Err(why) => {
            let (trace, table) = (directory::shown_path(trace), meter::TABLE);
            plan.tell(format_args!(
                "warning: --meter: no readings were added: {}; to try again: clscope meter {trace}/{table} {trace} --meter-format ...",
                chain(&why)
            ));
            false
        }
    }
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
