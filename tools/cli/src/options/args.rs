//! Options that several subcommands share, and what the libraries make of them. Refuses to act on
//! any.

use crate::parameters;
use clscope_capture::counters::choice::{self, Wanted};
use clscope_capture::sources;
use clscope_io::text::chain;
use clscope_models::device::Device;
use clscope_models::kept;
use clscope_oa::flex::Programmed;
use clscope_profile::energy::attribute::KnownFloor;
use clscope_profile::energy::{activity, attribute};
use clscope_profile::names::Form;
pub use clscope_screen::args::{Runs, TableFormat};
use clscope_sensors::gpu_power::Choice;
use clscope_trace::directory::as_recorded;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Words of an option that stand for the variants of a library's type; libraries know no options.
macro_rules! choices {
    ($(#[$about:meta])* $seen:vis enum $name:ident = $of:ty {
        $($(#[$help:meta])* $variant:ident),* $(,)?
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
        $seen enum $name { $($(#[$help])* $variant),* }

        impl From<$name> for $of {
            fn from(of: $name) -> Self {
                match of { $($name::$variant => Self::$variant),* }
            }
        }
    };
}
pub(crate) use choices;

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Text and tables for people
    Text,
    /// JSON for programs: one object, of `dump` one a line
    Json,
}

choices! {
    /// What counts as one class.
    #[derive(Default)]
    pub enum By = activity::By {
        /// The kernel's name
        #[default]
        Kernel,
        /// The kernel and its global size
        Ndrange,
        /// The kernel and where in the application it was launched from (`record --call-sites`)
        CallSite,
    }
}

/// What kernels are called.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct NameArgs {
    /// Show names of C++ and SYCL kernels with namespaces and parameters instead of shortened
    #[arg(long)]
    pub full_names: bool,
}

impl NameArgs {
    /// In an output for people. JSON keeps the names of the trace, and lists readable ones beside.
    pub fn form(self, is_json: bool) -> Form {
        match (is_json, self.full_names) {
            (true, _) => Form::Recorded,
            (false, true) => Form::Full,
            (false, false) => Form::Short,
        }
    }
}

/// Options about energy.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct EnergyArgs {
    /// How GPU power is computed: auto, pp1, pkg-pp0, pkg-pp0-dram, nvml, hwmon or meter [default:
    /// as recorded, else auto]
    #[arg(long, value_name = "FORMULA")]
    pub gpu_power: Option<Choice>,
    /// Each launch of this kernel begins an iteration (a frame, a time step): joules per iteration
    #[arg(long, value_name = "KERNEL")]
    pub iteration_kernel: Option<String>,
    /// Floating-point operations of one launch of a kernel, for GFLOP/s/W: KERNEL=2.1e9 (repeat for
    /// several kernels)
    #[arg(long, value_name = "KERNEL=COUNT", value_parser = parse_flop)]
    pub flop: Vec<(String, f64)>,
    /// Take readings from this file, stamped in CLOCK_MONOTONIC_RAW of the run, instead of the
    /// trace's
    #[arg(long, value_name = "FILE")]
    pub readings: Option<std::path::PathBuf>,
    /// Where this run repeated nothing, take the repetitions of this trace: the same application on
    /// the same device, recorded with `record --replay` (repeat for several)
    #[arg(long, value_name = "TRACE")]
    pub with: Vec<std::path::PathBuf>,
    /// What the device draws between launches, where the run does not show it: auto (the idle
    /// states that `clscope bench idle` kept of the device here), run (the run alone), watts, or a
    /// file of device parameters
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    pub idle_power: FloorArg,
}

/// The option of outputs that name the part of the run that joules are of.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct WindowArg {
    /// Energy of this part of the run only, in seconds from its beginning: 10..15
    #[arg(long, value_name = "FROM..TO", value_parser = parse_window)]
    pub window: Option<(f64, f64)>,
}

impl EnergyArgs {
    /// As the attribution takes them.
    pub fn options(&self) -> attribute::Options {
        attribute::Options {
            gpu_power: self.gpu_power,
            iteration_kernel: self.iteration_kernel.clone(),
            flop: self.flop.clone(),
            readings: self.readings.clone(),
            with: self.with.clone(),
            floors: self.idle_power.floors(),
            ..attribute::Options::default()
        }
    }

    /// The options that give these again, for another command of clscope.
    pub fn arguments(&self) -> Vec<OsString> {
        // All, so that a new one is not forgotten.
        let Self { gpu_power, iteration_kernel, flop, readings, with, idle_power } = self;
        let mut out = Vec::new();
        // In one word with its name: a value may begin with a dash.
        let mut option = |name: &str, value: &OsStr| {
            let mut word = OsString::from(format!("--{name}="));
            word.push(value);
            out.push(word);
        };
        if let Some(choice) = gpu_power {
            option("gpu-power", choice.name().as_ref());
        }
        if let Some(kernel) = iteration_kernel {
            option("iteration-kernel", kernel.as_ref());
        }
        for (kernel, count) in flop {
            option("flop", format!("{kernel}={count}").as_ref());
        }
        readings.iter().for_each(|path| option("readings", path.as_os_str()));
        with.iter().for_each(|path| option("with", path.as_os_str()));
        match idle_power {
            FloorArg::Auto => {}
            FloorArg::Run => option("idle-power", "run".as_ref()),
            // Watts of the user's own, of no device; else the file that they are from.
            FloorArg::Known(known) if known.device.is_none() => {
                option("idle-power", known.watts.to_string().as_ref());
            }
            FloorArg::Known(known) => option("idle-power", known.source.as_ref()),
        }
        out
    }
}

/// Where the floor of a run is from that does not show it.
#[derive(Debug, Clone, Default)]
pub enum FloorArg {
    /// Kept idle states of the device.
    #[default]
    Auto,
    /// Nowhere.
    Run,
    /// The user.
    Known(KnownFloor),
}

impl FloorArg {
    fn floors(&self) -> Vec<KnownFloor> {
        match self {
            Self::Auto => {
                let floor =
                    |of: &Device| floor_of(of, format!("clscope bench idle of {}", of.date));
                parameters::cache("models").map_or_else(Vec::new, |folder| {
                    kept::all(&folder).iter().filter_map(floor).collect()
                })
            }
            Self::Run => Vec::new(),
            Self::Known(floor) => vec![floor.clone()],
        }
    }
}

/// The state in which a device is between launches: the first after work.
fn floor_of(device: &Device, source: String) -> Option<KnownFloor> {
    let first = device.idle.as_ref()?.states.first()?;
    Some(KnownFloor {
        device: Some(device.name.clone()),
        watts: first.watts.value,
        half: first.watts.half(),
        source,
        asked: false,
    })
}

impl FromStr for FloorArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(watts) = text.parse::<f64>() {
            // More than any device draws is a mistake, not a floor.
            if !(watts > 0.0 && watts < 1e5) {
                return Err(format!("{watts} W is no idle power: expected 0 to 100000 W"));
            }
            let source = "--idle-power".to_owned();
            return Ok(Self::Known(KnownFloor {
                device: None,
                watts,
                half: 0.0,
                source,
                asked: true,
            }));
        }
        match text {
            "auto" => Ok(Self::Auto),
            "run" => Ok(Self::Run),
            path => {
                let device = kept::read(Path::new(path)).map_err(|e| {
                    let e = chain(&e);
                    format!("expected auto, run, watts or a file of device parameters: {e}")
                })?;
                let floor = floor_of(&device, path.to_owned());
                floor.map(|floor| Self::Known(KnownFloor { asked: true, ..floor })).ok_or_else(
                    || format!("{path} has no idle states: `clscope bench idle` measures them"),
                )
            }
        }
    }
}

pub fn parse_flop(text: &str) -> Result<(String, f64), String> {
    of_kernel(text).ok_or_else(|| {
        "expected a kernel and the operations of one launch: KERNEL=2.1e9".to_owned()
    })
}

pub fn parse_bytes(text: &str) -> Result<(String, f64), String> {
    of_kernel(text).ok_or_else(|| {
        "expected a kernel and the bytes that one launch reads and writes: KERNEL=1.2e7".to_owned()
    })
}

/// A kernel with a number of one launch.
fn of_kernel(text: &str) -> Option<(String, f64)> {
    let (name, number) = text.rsplit_once('=')?;
    let number = number.trim().parse::<f64>().ok()?;
    let is_some = !name.is_empty() && number.is_finite() && number > 0.0;
    is_some.then(|| (name.to_owned(), number))
}

/// A single word is a trace if there is one of that name, else a kernel of the newest trace.
pub fn trace_or_kernel(
    trace: Option<&PathBuf>,
    kernel: Option<&String>,
) -> (Vec<PathBuf>, Option<String>) {
    match (trace, kernel) {
        (Some(word), None) if !as_recorded(word.clone()).exists() => match word.to_str() {
            // What looks like a path is meant as one.
            Some(name) if !name.contains('/') && !name.ends_with(".clscope") => {
                (Vec::new(), Some(name.to_owned()))
            }
            _ => (vec![word.clone()], None),
        },
        (trace, kernel) => (trace.into_iter().cloned().collect(), kernel.cloned()),
    }
}

fn parse_window(text: &str) -> Result<(f64, f64), String> {
    let parse = |s: &str| s.trim().parse::<f64>().ok().filter(|x| x.is_finite());
    text.split_once("..")
        .and_then(|(a, b)| {
            Some((
                if a.is_empty() { 0.0 } else { parse(a)? },
                if b.is_empty() { f64::INFINITY } else { parse(b)? },
            ))
        })
        .filter(|(a, b)| a < b)
        .ok_or_else(|| {
            "expected two times in seconds, the first before the second: 10..15".to_owned()
        })
}

choices! {
    /// A family of sensors.
    pub enum Family = sources::Family {
        /// Whatever works: RAPL, hwmon, NVML
        Auto,
        /// None
        Off,
        /// The processor's energy counters, through powercap, perf or the helper
        Rapl,
        /// Sensors of Intel and AMD GPUs
        Hwmon,
        /// NVIDIA GPUs
        Nvml,
    }
}

/// Options about sensors.
#[derive(Debug, Clone, clap::Args)]
pub struct SensorArgs {
    /// Sensors to read (comma-separated)
    #[arg(long, value_enum, value_delimiter = ',', default_value = "auto", value_name = "LIST")]
    pub sensors: Vec<Family>,
    /// Look for sensors below this directory (its sys, dev and proc) instead of the system's
    #[arg(long, value_name = "DIR")]
    pub sysfs_root: Option<PathBuf>,
    /// Take readings from this file instead of sensors
    #[arg(long, value_name = "FILE")]
    pub readings: Option<PathBuf>,
    /// Socket of `clscope sensord`; without this, the one at /run/clscope/sensord.sock is asked where
    /// the processor's counters cannot be read or do not work
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

impl SensorArgs {
    /// As the libraries take them.
    pub fn options(&self) -> sources::Options {
        sources::Options {
            sensors: self.sensors.iter().map(|of| (*of).into()).collect(),
            gpm: None,
            sysfs_root: self.sysfs_root.clone(),
            readings: self.readings.clone(),
            socket: self.socket.clone(),
            unnamed: false,
        }
    }
}

/// A family of counters, and how often it is read.
#[derive(Debug, Clone)]
pub struct Counters {
    wanted: Wanted,
    period: Option<Duration>,
}

impl FromStr for Counters {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (wanted, period) = match text.rsplit_once('@') {
            Some((wanted, ms)) => (wanted, Some(parse_period(ms)?)),
            None => (text, None),
        };
        let wanted = wanted.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { wanted, period })
    }
}

/// Options of `record` about counters.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)] // its name is that of the options about sensors
pub struct CounterArgs {
    /// Hardware counters to read for every kernel: gpm or gpm:NAME+NAME (NVIDIA, Hopper and later),
    /// oa or oa:SET (Intel GPUs), perf (CPU devices), intel-queue or intel-queue:CONFIGURATION
    /// (Intel's own, per command); comma-separated [default: none]. oa@MS, oa:SET@MS and perf@MS
    /// have the longest time between two readings [default: 1 for oa, 10 for perf]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub counters: Vec<Counters>,
    /// Directory (or file) with XML of metric sets for oa:SET [default: what is installed]
    #[arg(long, value_name = "DIR")]
    pub metrics: Option<PathBuf>,
    /// What a programmable EU counter of oa counts instead (Gen9): a7=fine:7,coarse:7,inc:0
    #[arg(long, value_name = "EVENT")]
    pub counter: Vec<Programmed>,
}

impl CounterArgs {
    /// As the libraries take them.
    pub fn options(&self) -> choice::Options {
        choice::Options {
            counters: self.counters.iter().map(|of| of.wanted.clone()).collect(),
            metrics: self.metrics.clone(),
            counter_period: self.counters.iter().find_map(|of| of.period),
            counter: self.counter.clone(),
        }
    }
}

fn parse_period(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(ms) if (0.01..=10_000.0).contains(&ms) => Ok(Duration::from_secs_f64(ms * 1e-3)),
        _ => Err("expected milliseconds between 0.01 and 10000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_energy_can_be_given_again() {
        #[derive(Debug, clap::Parser)]
        struct Command {
            #[command(flatten)]
            energy: EnergyArgs,
        }
        use clap::Parser as _;
        let of = |words: Vec<OsString>| {
            Command::try_parse_from(std::iter::once("c".into()).chain(words)).unwrap().energy
        };
        let all = [
            "--gpu-power=pkg-pp0-dram",
            "--iteration-kernel=-odd name",
            "--flop=a=2100000000",
            "--flop=b=0.5",
            "--readings=r.clt",
            "--with=one.clscope",
            "--with=two.clscope",
            "--idle-power=31.5",
        ];
        let given = of(all.iter().map(OsString::from).collect());
        assert_eq!(given.arguments(), all);
        assert_eq!(format!("{:?}", of(given.arguments())), format!("{given:?}"));
        assert_eq!(of(vec!["--idle-power=run".into()]).arguments(), ["--idle-power=run"]);
        assert!(of(Vec::new()).arguments().is_empty());
    }

    #[test]
    fn what_is_stated_of_kernels_is_a_number_of_what_the_option_is_for() {
        for parse in [parse_flop, parse_bytes] {
            assert_eq!(parse("a=b=1.5e3"), Ok(("a=b".to_owned(), 1500.0)));
            assert!(
                ["a", "=1", "a=", "a=x", "a=-1", "a=0", "a=inf"]
                    .map(parse)
                    .iter()
                    .all(Result::is_err)
            );
        }
        assert!(parse_flop("add=abc").is_err_and(|why| why.contains("operations")));
        assert!(parse_bytes("add=abc").is_err_and(|why| why.contains("the bytes")));
    }

    #[test]
    fn a_word_that_is_no_trace_is_a_kernel_unless_it_looks_like_a_path() {
        let of = |word: &str| trace_or_kernel(Some(&word.into()), None);
        assert_eq!(of("no_such_kernel"), (vec![], Some("no_such_kernel".to_owned())));
        assert_eq!(of("no/such"), (vec!["no/such".into()], None));
        assert_eq!(of("no.clscope"), (vec!["no.clscope".into()], None));
        assert_eq!(of("/"), (vec!["/".into()], None));
        let two = trace_or_kernel(Some(&"t".into()), Some(&"k".into()));
        assert_eq!(two, (vec!["t".into()], Some("k".to_owned())));
    }

    #[test]
    fn periods_are_checked() {
        assert!(
            parse_period("0.5").is_ok()
                && parse_period("0").is_err()
                && parse_period("nan").is_err()
        );
    }
}
