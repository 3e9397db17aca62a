//! The options of `clscope record`, and the recorder's settings that follow from them. Refuses what
//! cannot be meant before anything runs.

use super::change;
use crate::args::{CounterArgs, SensorArgs, choices};
use crate::output::{own_line, progress, say};
use anyhow::Result;
use clscope_capture::environment;
use clscope_capture::ranks::Ranks;
use clscope_doctor::Surroundings;
use clscope_io::output::Access;
use clscope_record::{Plan, Voice, meter};
use clscope_trace::{values, variables};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

/// Device-timing method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DeviceTiming {
    /// Every command, until that costs more than the budget; from then on as sample
    Auto,
    /// A random part of the launches and transfers, within the budget; totals are estimates with
    /// intervals
    Sample,
    /// Events are harvested when the application waits
    Event,
    /// A completion callback on each command
    Callback,
    /// Each command is waited for
    Sync,
    /// No device times
    Off,
}

/// What a trace has by default, and can be left out of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// APP's arguments: they may hold passwords
    Arguments,
    /// Sources and binaries of APP's programs
    Programs,
    /// Markers, of which eight follow on NVIDIA's runtime when APP has waited for a queue, up to
    /// once a second; they halve the bound within which device times are placed on the host's clock
    ClockMarkers,
    /// The record that identical calls in a row share from the fifth on: each has its own then
    JoinedCalls,
}

/// What is counted of kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mix {
    /// Instructions
    Instructions,
    /// Also how the accesses of warps lie: pieces of 32 bytes of global memory that each touches,
    /// passes through the banks of local memory. NVIDIA's devices only; the copy that counts takes
    /// 1 to 90 times as long as the kernel
    Accesses,
}

choices! {
    /// A way into the application.
    pub enum Way = environment::Way {
        /// LD_PRELOAD: applications linked to OpenCL, bundled loaders
        Preload,
        /// OPENCL_LAYERS: whatever goes through a loader that knows layers
        Layer,
        /// LD_AUDIT: look-ups in loaders that know no layers
        Audit,
    }
}

/// Options of `clscope record`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)] // its name is that of `stat`'s own options
#[command(
    override_usage = "clscope record [OPTIONS] [--] APP [ARGS]...",
    before_help = "Examples:
  clscope record -- ./app --size 512           leaves app-DATE-TIME.clscope here
  clscope record -o run1 -- python3 detect.py  leaves run1.clscope
  clscope record --device-timing off -- ./app  host calls only
  clscope record --mix -- ./app                with the instructions of each kernel: clscope mix
  clscope record --capture gemm:3 -- ./app     with the third launch of gemm, whole: clscope kernel
  clscope record --call-sites -- ./app         with the place of each launch: report --by call-site
  mpirun -n 4 clscope record -o 'job-%q{OMPI_COMM_WORLD_RANK}' -- ./solver
  mpirun -n 64 clscope record --ranks every:8 -o 'job-%q{PMIX_RANK}' -- ./solver"
)]
pub struct Args {
    /// Trace directory; `.clscope` is added, %h is the host, %p the process id, %q{NAME} an
    /// environment variable [default: APP-DATE-TIME.clscope]
    #[arg(short, long, value_name = "NAME")]
    output: Option<OsString>,
    /// Replace the trace that is in the directory
    #[arg(short, long)]
    force: bool,
    /// Fail where no trace can be made. By default APP runs unrecorded then: one line says why, and
    /// the exit code is APP's
    #[arg(long)]
    require_trace: bool,
    /// How device times are taken [default: auto]
    #[arg(long, value_name = "METHOD", value_enum)]
    device_timing: Option<DeviceTiming>,
    /// Share of the application's own time, in percent, that sampled device timing may cost
    /// [default: 1]
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    budget: Option<String>,
    /// Ways in which the recorder is brought in, comma-separated [default: all that work]
    #[arg(long, value_name = "WAYS", value_enum, value_delimiter = ',')]
    inject: Vec<Way>,
    /// Record and time only launches of these kernels (comma-separated, * and ? allowed)
    #[arg(long, value_name = "NAMES", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    kernels: Option<String>,
    /// Keep only the newest part of the trace, below this size (K, M, G; 2M or more)
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    max_size: Option<String>,
    /// Record only these MPI ranks: 0,13 or every:8 (0, 8, 16, ...). The others run APP as if this
    /// command were not there
    #[arg(long, value_name = "RANKS")]
    ranks: Option<Ranks>,
    /// Record nothing until `clscope ctl TRACE start`
    #[arg(long)]
    start_paused: bool,
    /// Joules of every kernel, also where APP always runs them in the same proportions: capture
    /// some launches of each, and measure them when APP has ended, each in a process of its own.
    /// Reads and writes of buffers that take much time are measured, too.
    /// AMOUNT is how long for: auto (the larger of 20 s and 5 % of the run, at most 180 s) or 30s;
    /// later leaves it to `clscope replay`; plan captures nothing, and says which share of the
    /// kernels' time could be captured, and why not the rest
    #[arg(long, value_name = "AMOUNT", num_args = 0..=1, default_missing_value = "auto", value_parser = parse_replay)]
    replay: Option<values::Measuring>,
    /// Keep what --replay and --mix captured: it holds APP's data. By default it is deleted when it
    /// has been measured
    #[arg(long)]
    keep_captures: bool,
    /// Record with each enqueue where in the application it was called from: FRAMES return
    /// addresses outside of OpenCL, 1 if not given. Adds 8 bytes and, for stacks seen before, 30 to
    /// 40 ns to a launch; a new stack is unwound, some microseconds. `report --by call-site` then
    /// gives each place a row of kernels and joules
    #[arg(long, value_name = "FRAMES", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u8).range(1..=16))]
    call_sites: Option<u8>,
    /// Let others read the trace, as far as the umask does; else it is yours alone (directory 0700,
    /// files 0600)
    #[arg(long)]
    shared: bool,
    /// Leave these out of the trace (comma-separated)
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',')]
    without: Vec<Part>,
    /// Count the instructions of kernels, for `clscope mix`: capture one launch of each, and run
    /// it once more when APP has ended, from a copy of the program that counts
    #[arg(long, value_name = "WHAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "instructions")]
    mix: Option<Mix>,
    /// Keep the Nth launch (1 if not given) of each kernel of this name (* and ? allowed) whole, in
    /// the trace's folder captures: program, arguments, and what its buffers and images hold before
    /// and after. More launches: gemm:1,5. May be given several times. The launch is APP's own;
    /// `clscope kernel` runs it again. CLSCOPE_CAPTURE_LIMIT has the most bytes of all together
    #[arg(long, value_name = "KERNEL[:N]", value_parser = parse_captures)]
    capture: Vec<String>,
    #[command(flatten)]
    change: change::Args,
    /// Record what `clscope check` needs: memory objects among kernels' arguments, what waits are
    /// for, and the places of calls that make something or fail. Implies --call-sites=4
    #[arg(long)]
    check: bool,
    /// Read sensors, --counters (oa, perf) and the GPU's clock in the application before and after
    /// each command, and wait for the command: for long kernels
    #[arg(long)]
    snapshot: bool,
    /// Wait at most this long for processes that outlive APP and still record
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = parse_seconds)]
    wait: Duration,
    #[command(flatten)]
    sensors: SensorArgs,
    /// Add the readings of an external power meter: a CSV with columns of time and power, which a
    /// logger writes to FILE meanwhile, or which COMMAND prints. The report then has its power as
    /// `meter`, and GPU power by it with --gpu-power meter
    #[arg(long, value_name = "FILE|COMMAND")]
    meter: Option<String>,
    /// How the meter's table is read, such as power=Watts,zone=+01:00 or place=load: `clscope meter
    /// --help` has all
    #[arg(long, value_name = "KEY=VALUE,...", requires = "meter")]
    meter_format: Option<clscope_sensors::meter::Format>,
    #[command(flatten)]
    counters: CounterArgs,
    /// Read sensors this long before APP starts and after it has ended, to measure power at rest
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = parse_seconds)]
    idle_window: Duration,
    /// How GPU power is computed, for the report: auto, pp1, pkg-pp0, pkg-pp0-dram, nvml, hwmon or
    /// meter [default: auto]
    #[arg(long, value_name = "FORMULA")]
    gpu_power: Option<clscope_sensors::gpu_power::Choice>,
    /// Print no messages, unless something fails
    #[arg(short, long)]
    quiet: bool,
    /// The application and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "APP")]
    command: Vec<OsString>,
}

/// The recorder keeps eight segments, each of which takes the largest block: it could not keep to
/// less.
const LEAST_SIZE: u64 = 2 << 20;
/// Frames of a place in a checked run: wrappers of C++ and Python stand around the calls.
const CHECK_FRAMES: &str = "4";

/// Bytes with an optional K, M or G; handed on as written once it is known to be right.
fn parse_size(text: &str) -> Result<String, String> {
    match values::size(text) {
        Ok(LEAST_SIZE..) => Ok(text.to_owned()),
        Ok(_) => Err("the recorder cannot keep a trace below 2M".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// A percentage, with or without its sign; handed on as written once it is known to be right.
fn parse_percent(text: &str) -> Result<String, values::BadValue> {
    values::percent(text).map(|_| text.to_owned())
}

/// When and how long to measure.
fn parse_replay(text: &str) -> Result<values::Measuring, String> {
    text.parse().map_err(|why| format!("{why}; put -- before the application"))
}

/// Launches to capture; handed on as written once they are known to be right.
fn parse_captures(text: &str) -> Result<String, values::BadValue> {
    values::captures(text).map(|_| text.to_owned())
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .ok_or_else(|| "expected a number of seconds, 0 or more".to_owned())
}

impl Args {
    /// The same for one run of several: its trace has a place of its own, and messages are those of
    /// failures.
    pub fn for_one_run(&self, output: OsString) -> Self {
        Self { output: Some(output), quiet: true, ..self.clone() }
    }

    /// For a run that is to be checked, with a trace of this name.
    ///
    /// # Errors
    /// If there is no application.
    pub fn checked(output: OsString, require_trace: bool, command: &[OsString]) -> Result<Self> {
        #[derive(clap::Parser)]
        struct Alone {
            #[command(flatten)]
            args: Args,
        }
        let words = ["record", "--check", "--sensors", "off", "--quiet", "-o"].map(OsString::from);
        let words = words.into_iter().chain([output, "--".into()]).chain(command.iter().cloned());
        let args = <Alone as clap::Parser>::try_parse_from(words)?.args;
        Ok(Self { require_trace, ..args })
    }

    /// Refuses to leave programs out where an option runs them again. It ends this process as the
    /// other mistakes of the command line do.
    pub fn refuse_mistakes(&self) {
        let needs = [
            (self.replay.is_some(), "--replay"),
            (self.mix.is_some(), "--mix"),
            (!self.capture.is_empty(), "--capture"),
        ];
        if let (true, Some((_, option))) =
            (self.leaves_out(Part::Programs), needs.iter().find(|(given, _)| *given))
        {
            let text = format!("{option} cannot be used with --without programs: it runs them\n");
            clap::Error::raw(clap::error::ErrorKind::ArgumentConflict, text).exit();
        }
    }

    fn leaves_out(&self, part: Part) -> bool {
        self.without.contains(&part)
    }

    /// Where the trace is to be, if the user said.
    pub fn output(&self) -> Option<&OsString> {
        self.output.as_ref()
    }

    /// Whether only some ranks are to be recorded.
    pub fn chooses_ranks(&self) -> bool {
        self.ranks.is_some()
    }

    /// When captured launches are measured for their joules.
    pub fn replay(&self) -> Option<values::Measuring> {
        self.replay
    }

    /// APP and its arguments, as far as they may be told.
    pub fn shown_command(&self) -> Vec<String> {
        let told = self.command.iter().take(self.words());
        told.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// The recorder's variables, in exactly the terms of the table of settings, but for the trace's
    /// place.
    fn settings(&self) -> BTreeMap<&'static str, OsString> {
        use clap::ValueEnum;
        let on = |is: bool| is.then(|| OsString::from("1"));
        let text = |of: &Option<String>| of.as_ref().map(OsString::from);
        let listed = |of: String| (!of.is_empty()).then(|| OsString::from(of));
        let method = self.device_timing.and_then(|m| m.to_possible_value());
        let frames = self.call_sites.map(|frames| frames.to_string().into());
        let sample = match (self.replay, self.mix) {
            (Some(values::Measuring::Plan), _) => Some("plan".into()),
            (Some(_), _) => Some("4".into()),
            // Counts of one launch are those of all that do the same.
            (None, Some(_)) => Some("1".into()),
            (None, None) => None,
        };
        let root = self.sensors.sysfs_root.as_ref().filter(|_| self.snapshot);
        let is_unset = std::env::var_os(variables::QUIET).is_none();
        let settings = [
            (variables::DEVICE_TIMING, method.map(|m| m.get_name().into())),
            (variables::KERNELS, text(&self.kernels)),
            (variables::BUDGET, text(&self.budget)),
            (variables::MAX_SIZE, text(&self.max_size)),
            (variables::CHECK, on(self.check)),
            (variables::CALL_SITES, frames.or(self.check.then(|| CHECK_FRAMES.into()))),
            (variables::CAPTURE, listed(self.capture.join(","))),
            (variables::SAMPLE, sample),
            // What this command samples itself, the application need not.
            (variables::SENSORS, Some("off".into())),
            (variables::SHARED, on(self.shared)),
            (variables::SNAPSHOT, on(self.snapshot)),
            (variables::SYSFS_ROOT, root.map(OsString::from)),
            (variables::COUNTERS, listed(self.counters.options().inside(self.snapshot))),
            (variables::START_PAUSED, on(self.start_paused)),
            (variables::QUIET, on(self.quiet).or(is_unset.then(|| variables::QUIET_LATER.into()))),
        ];
        let given = settings.into_iter().filter_map(|(name, value)| Some((name, value?)));
        let mut set: BTreeMap<&'static str, OsString> = given.collect();
        for part in &self.without {
            let setting = match part {
                Part::Arguments => variables::ARGUMENTS,
                Part::Programs => variables::PROGRAMS,
                Part::ClockMarkers => variables::CLOCK_MARKERS,
                Part::JoinedCalls => variables::COLLAPSE,
            };
            set.insert(setting, "0".into());
        }
        self.change.settings(&mut set);
        set
    }

    /// As the library takes them.
    pub(super) fn plan<'a>(&'a self, here: Surroundings<'a>) -> Plan<'a> {
        Plan {
            command: &self.command,
            shown_command: self.shown_command(),
            output: self.output.as_deref(),
            force: self.force,
            require_trace: self.require_trace,
            access: if self.shared { Access::Umask } else { Access::Private },
            settings: self.settings(),
            ways: self.inject.iter().map(|way| (*way).into()).collect(),
            ranks: self.ranks.as_ref(),
            counters: self.counters.options(),
            sensors: self.sensors.options(),
            meter: self.meter.as_ref().map(|what| meter::Wanted {
                what: what.clone(),
                format: self.meter_format.clone().unwrap_or_default(),
            }),
            snapshot: self.snapshot,
            gpu_power: self.gpu_power,
            replay: self.replay(),
            mix: self.mix.is_some(),
            mix_accesses: self.mix == Some(Mix::Accesses),
            keep_captures: self.keep_captures,
            captures: !self.capture.is_empty(),
            idle_window: self.idle_window,
            wait: self.wait,
            voice: Voice { say: |text| say(text), progress, own_line, quiet: self.quiet },
            here,
        }
    }

    /// How many words of the command line are recorded.
    fn words(&self) -> usize {
        if self.leaves_out(Part::Arguments) { 1 } else { usize::MAX }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_seconds_are_checked() {
        for good in ["2097152", "500M", "2G", "2048k", "3MB"] {
            assert_eq!(parse_size(good).as_deref(), Ok(good));
        }
        for bad in ["", "0", "200K", "M", "-1", "1T", "1.5G", "3XB", "18446744073709551615G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "-1", "x", "inf", "nan"] {
            assert!(parse_seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn device_timing_methods_are_those_of_the_recorder() {
        use clap::ValueEnum;
        let mut known = values::DeviceTiming::ALL.to_vec();
        for method in DeviceTiming::value_variants() {
            let name = method.to_possible_value().unwrap();
            let method = name.get_name().parse().expect("a method of the recorder's parser");
            known.retain(|one| *one != method);
        }
        assert_eq!(known, [], "methods that the option does not know");
    }
}
