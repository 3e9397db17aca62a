//! The only reader of the environment: once, when the library is loaded. Opens nothing.
#![forbid(unsafe_code)]

use clscope_trace::replace::{self, LocalSize, Replacement};
use clscope_trace::values::{self, BadValue, Capture, Counters, DeviceTiming, Sample};
use clscope_trace::variables as s;
use once_cell::race::OnceBox;
use std::ffi::OsString;
use std::path::PathBuf;

/// Which of the recorder's messages go to stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quiet {
    /// All.
    No,
    /// What whoever started the application cannot say once it has ended.
    Later,
    /// None.
    Silent,
}

/// The settings in force.
#[derive(Debug)]
pub struct Config {
    pub enable: bool,
    pub trace: Option<PathBuf>,
    pub device_timing: DeviceTiming,
    pub start_paused: bool,
    pub max_size: Option<u64>,
    pub quiet: Quiet,
    /// Share of the application's time that sampled timing may cost.
    pub budget: f64,
    pub kernels: Vec<String>,
    pub groups: Vec<String>,
    /// Frames that are recorded of the place of each enqueue.
    pub call_sites: u8,
    /// Markers may be enqueued where they bound a device's clock.
    pub clock_markers: bool,
    /// Others may read the trace, as far as the umask lets them.
    pub shared: bool,
    /// The application's arguments are recorded.
    pub arguments: bool,
    /// Identical calls in a row share a record.
    pub collapse: bool,
    /// Texts and binaries of programs are kept.
    pub programs: bool,
    /// Launches that are kept whole.
    pub captures: Vec<Capture>,
    /// Launches that are drawn by chance.
    pub sample: Option<Sample>,
    /// Most bytes that they take.
    pub capture_limit: u64,
    /// Features are told the ids of commands.
    pub tells_ids: bool,
    /// Kernels that run other code.
    pub replace: Vec<Replacement>,
    /// Work-group sizes of kernels.
    pub local: Vec<LocalSize>,
    /// Options added to those of programs of source.
    pub append_options: Option<String>,
    /// What checks of the application need is recorded.
    pub check: bool,
    /// Sensors are read around each command.
    pub snapshot: bool,
    /// Counters that this process reads itself.
    pub counters: Vec<Counters>,
    /// Sensors are sampled in this process.
    pub sensors: bool,
    /// Where they are looked for, if not in the system's trees.
    pub sysfs_root: Option<PathBuf>,
    /// Settings as they were given, for the trace.
    pub given: Vec<String>,
    /// What could not be parsed: reported when recording begins.
    pub complaints: Vec<String>,
    /// Foreign variables that the trace records.
    others: Vec<(&'static str, String)>,
}

impl Config {
    /// Whether launches are kept whole.
    pub fn captures(&self) -> bool {
        !self.captures.is_empty() || self.sample.is_some()
    }
}

/// Foreign variables: how the recorder was injected, and what MPI launchers set.
const OTHERS: &[&str] = &[
    "LD_PRELOAD",
    "LD_AUDIT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
];

/// A variable of others as it was when the library was loaded.
pub fn seen(name: &str) -> Option<&'static str> {
    get().others.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
}

/// Variables that choose OpenCL's devices, as the application has set them.
static OF_OPENCL: OnceBox<Vec<(&'static str, String)>> = OnceBox::new();

/// The variables that choose OpenCL's runtimes and devices ([`s::OF_OPENCL`]) as they were when this
/// was asked for the first time: at the first OpenCL call, whose runtime reads them then. Those that
/// are too long, or no text, are left out.
pub fn of_opencl() -> &'static [(&'static str, String)] {
    let value = |name| {
        #[expect(clippy::disallowed_methods, reason = "the only reader of the environment")]
        let value = std::env::var_os(name)?.into_string().ok()?;
        (value.len() <= s::LONGEST_OF_OPENCL).then_some(value)
    };
    let all = || s::OF_OPENCL.iter().filter_map(|name| Some((*name, value(name)?))).collect();
    OF_OPENCL.get_or_init(|| Box::new(all()))
}

/// Threads that come at once read the environment each, and one's settings stay: nobody waits for
/// another, whom a child does not have.
static CONFIG: OnceBox<Config> = OnceBox::new();

/// The settings; read at load, or now where the constructor has not run yet.
pub fn get() -> &'static Config {
    #[expect(clippy::disallowed_methods, reason = "the only reader of the environment")]
    CONFIG.get_or_init(|| Box::new(read(|name| std::env::var_os(name))))
}

fn read(lookup: impl Fn(&str) -> Option<OsString>) -> Config {
    let mut given = Vec::new();
    let mut complaints = Vec::new();
    for setting in s::SETTINGS {
        if let Some(value) = lookup(setting.name) {
            given.push(format!("{}={}", setting.name, value.to_string_lossy()));
        }
    }
    let text = |name: &str| {
        lookup(name).map(|v| v.to_string_lossy().into_owned()).filter(|v| !v.is_empty())
    };
    let mut flag = |name: &str, default: bool| match text(name).as_deref() {
        None => default,
        Some("0" | "false" | "off" | "no") => false,
        Some("1" | "true" | "on" | "yes") => true,
        Some(other) => {
            complaints
                .push(format!("{name}={other} is neither 0 nor 1: using {}", u8::from(default)));
            default
        }
    };
    let enable = flag(s::ENABLE, true);
    let start_paused = flag(s::START_PAUSED, false);
    let later = text(s::QUIET).as_deref() == Some(s::QUIET_LATER);
    let quiet = match later {
        true => Quiet::Later,
        false if flag(s::QUIET, false) => Quiet::Silent,
        false => Quiet::No,
    };
    let snapshot = flag(s::SNAPSHOT, false);
    let check = flag(s::CHECK, false);
    let clock_markers = flag(s::CLOCK_MARKERS, true);
    let shared = flag(s::SHARED, false);
    let arguments = flag(s::ARGUMENTS, true);
    let collapse = flag(s::COLLAPSE, true);
    let programs = flag(s::PROGRAMS, true);
    let mut understood = Understood { complaints, text: &text };
    let device_timing =
        understood.parsed(s::DEVICE_TIMING, "using auto", str::parse).unwrap_or(DeviceTiming::Auto);
    // Each command is waited for in any case: leaving times out would save nothing.
    let device_timing = if snapshot && device_timing == DeviceTiming::Auto {
        DeviceTiming::Event
    } else {
        device_timing
    };
    let max_size = understood.parsed(s::MAX_SIZE, "no limit is set", values::size);
    let budget = understood.parsed(s::BUDGET, "using 1", values::percent).unwrap_or(0.01);
    let captures =
        understood.parsed(s::CAPTURE, "nothing is captured", values::captures).unwrap_or_default();
    let sample = understood.parsed(s::SAMPLE, "no launch is drawn", str::parse);
    let limit = if sample.is_some() { values::DRAWN_LIMIT } else { values::CAPTURE_LIMIT };
    let capture_limit =
        understood.parsed(s::CAPTURE_LIMIT, "using the default", values::size).unwrap_or(limit);
    let replace = understood.parsed(s::REPLACE, "nothing is replaced", replace::all::<Replacement>);
    let replace = replace.unwrap_or_default();
    let local = understood.parsed(s::LOCAL, "no size is set", replace::all::<LocalSize>);
    let is_changed = !replace.is_empty() || local.is_some();
    let (captures, sample) = match (captures, sample) {
        (captures, sample) if !is_changed || (captures.is_empty() && sample.is_none()) => {
            (captures, sample)
        }
        _ => {
            understood.complaints.push(format!(
                "{} and {} keep the application's own launches, and {} and {} change them: nothing is captured",
                s::CAPTURE,
                s::SAMPLE,
                s::REPLACE,
                s::LOCAL
            ));
            (Vec::new(), None)
        }
    };
    let call_sites = match understood.given(s::CALL_SITES, values::frames) {
        None => 0,
        Some(Ok(frames)) => frames,
        Some(Err((given, why))) => {
            understood.complain(s::CALL_SITES, &given, &why, "using 1");
            1
        }
    };
    let mut complaints = understood.complaints;
    let sensors = match text(s::SENSORS).as_deref() {
        None | Some("auto") => true,
        Some("off") => false,
        Some(other) => {
            complaints.push(format!("{}={other} is neither auto nor off: using auto", s::SENSORS));
            true
        }
    };
    let mut counters = Vec::new();
    for one in text(s::COUNTERS).iter().flat_map(|all| values::list(all)) {
        match one.parse::<Counters>() {
            Ok(wanted) if wanted.around_commands() && !snapshot => {
                complaints.push(format!(
                    "{}={one} counts around commands: set {}=1, too",
                    s::COUNTERS,
                    s::SNAPSHOT
                ));
            }
            Ok(wanted) => counters.push(wanted),
            Err(why) => complaints.push(format!("{}={one}: {why}", s::COUNTERS)),
        }
    }
    let list = |name: &str| {
        text(name).map(|v| values::list(&v).map(str::to_owned).collect()).unwrap_or_default()
    };
    Config {
        enable,
        trace: lookup(s::TRACE).filter(|v| !v.is_empty()).map(PathBuf::from),
        device_timing,
        start_paused,
        max_size,
        quiet,
        budget,
        kernels: text(s::KERNELS)
            .map(|v| values::kernels(&v).map(str::to_owned).collect())
            .unwrap_or_default(),
        groups: list(s::GROUPS),
        call_sites,
        clock_markers,
        shared,
        arguments,
        collapse,
        programs,
        tells_ids: snapshot || !captures.is_empty() || sample.is_some(),
        captures,
        sample,
        capture_limit,
        replace,
        local: local.unwrap_or_default(),
        append_options: text(s::APPEND_OPTIONS),
        check,
        snapshot,
        counters,
        sensors,
        sysfs_root: lookup(s::SYSFS_ROOT).filter(|v| !v.is_empty()).map(PathBuf::from),
        given,
        complaints,
        others: OTHERS.iter().filter_map(|name| text(name).map(|value| (*name, value))).collect(),
    }
}

/// Reads settings, and keeps what could not be understood.
struct Understood<'a> {
    complaints: Vec<String>,
    text: &'a dyn Fn(&str) -> Option<String>,
}

impl Understood<'_> {
    /// A setting as it was given, understood or with the reason why not.
    fn given<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, BadValue>,
    ) -> Option<Result<T, (String, BadValue)>> {
        (self.text)(name).map(|text| parse(&text).map_err(|why| (text, why)))
    }

    /// A setting that is given and understood; of others it is said what holds instead.
    fn parsed<T>(
        &mut self,
        name: &str,
        instead: &str,
        parse: impl FnOnce(&str) -> Result<T, BadValue>,
    ) -> Option<T> {
        match self.given(name, parse)? {
            Ok(value) => Some(value),
            Err((given, why)) => {
                self.complain(name, &given, &why, instead);
                None
            }
        }
    }

    fn complain(&mut self, name: &str, given: &str, why: &BadValue, instead: &str) {
        self.complaints.push(format!("{name}={given}: {why}; {instead}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(given: &[(&str, &str)]) -> Config {
        read(|name| given.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn nothing_set_is_what_the_table_says() {
        let config = with(&[]);
        assert!(config.enable && config.clock_markers && config.sensors && config.collapse);
        assert!(
            !config.start_paused && config.quiet == Quiet::No && !config.snapshot && !config.check
        );
        assert_eq!((config.device_timing, config.budget), (DeviceTiming::Auto, 0.01));
        assert_eq!((config.max_size, config.call_sites), (None, 0));
        assert!(config.programs);
        assert!(config.captures.is_empty() && config.sample.is_none() && !config.tells_ids);
        assert_eq!(config.capture_limit, 1 << 30);
        assert!(config.complaints.is_empty() && config.given.is_empty());
    }

    #[test]
    fn values_are_understood() {
        let config = with(&[
            (s::DEVICE_TIMING, "sync"),
            (s::MAX_SIZE, "3MB"),
            (s::BUDGET, "2%"),
            (s::CALL_SITES, "4"),
            (s::KERNELS, "a*, b,,"),
            (s::SNAPSHOT, "1"),
            (s::COUNTERS, "perf,intel-queue:2"),
            (s::PROGRAMS, "0"),
            (s::CAPTURE, "gemm:2,b*"),
            (s::SAMPLE, "plan"),
            (s::CAPTURE_LIMIT, "5M"),
        ]);
        assert_eq!((config.captures.len(), config.capture_limit), (2, 5 << 20));
        assert_eq!((config.sample, config.tells_ids), (Some(Sample::Plan), true));
        assert!(!config.programs);
        assert_eq!((config.device_timing, config.budget), (DeviceTiming::Sync, 0.02));
        assert!(config.replace.is_empty() && config.local.is_empty());
        assert_eq!(config.append_options, None);
        assert_eq!(config.max_size, Some(3 << 20));
        assert_eq!((config.call_sites, config.kernels), (4, vec!["a*".to_owned(), "b".to_owned()]));
        assert_eq!(config.counters, [Counters::Perf, Counters::IntelQueue(2)]);
        assert!(config.complaints.is_empty(), "{:?}", config.complaints);
        assert_eq!(config.given.len(), 11);
    }

    #[test]
    fn what_is_not_understood_is_told_and_replaced() {
        let config = with(&[
            (s::DEVICE_TIMING, "always"),
            (s::MAX_SIZE, "much"),
            (s::BUDGET, "0"),
            (s::CALL_SITES, "99"),
            (s::QUIET, "perhaps"),
            (s::SENSORS, "on"),
            (s::COUNTERS, "perf, cupti"),
            (s::CAPTURE, "gemm:0"),
            (s::SAMPLE, "5"),
            (s::CAPTURE_LIMIT, "all"),
        ]);
        assert!(config.captures.is_empty() && config.capture_limit == 1 << 30);
        assert_eq!((config.device_timing, config.budget), (DeviceTiming::Auto, 0.01));
        assert_eq!((config.max_size, config.call_sites), (None, 1));
        assert!(config.quiet == Quiet::No && config.sensors && config.counters.is_empty());
        for name in [
            s::DEVICE_TIMING,
            s::MAX_SIZE,
            s::BUDGET,
            s::CALL_SITES,
            s::QUIET,
            s::SENSORS,
            s::CAPTURE,
            s::SAMPLE,
            s::CAPTURE_LIMIT,
        ] {
            let told = config.complaints.iter().filter(|c| c.starts_with(&format!("{name}=")));
            assert_eq!(told.count(), 1, "{name}: {:?}", config.complaints);
        }
        // One waits for snapshots, one is nothing at all.
        let told = config.complaints.iter().filter(|c| c.starts_with(s::COUNTERS));
        assert_eq!(told.count(), 2, "{:?}", config.complaints);
    }

    #[test]
    fn what_is_changed_of_the_application_is_read() {
        let config = with(&[
            (s::REPLACE, "a*=/f.cl,b=g.spv"),
            (s::LOCAL, "a=64x1"),
            (s::APPEND_OPTIONS, "-w"),
            (s::CAPTURE, "a"),
        ]);
        assert_eq!((config.replace.len(), config.local.len()), (2, 1));
        assert_eq!(config.append_options.as_deref(), Some("-w"));
        // What would be captured is not what runs.
        assert!(config.captures.is_empty());
        assert_eq!(config.complaints.len(), 1, "{:?}", config.complaints);
        let config = with(&[(s::REPLACE, "a"), (s::LOCAL, "a=0x1")]);
        assert!(config.replace.is_empty() && config.local.is_empty());
        assert_eq!(config.complaints.len(), 2, "{:?}", config.complaints);
    }

    #[test]
    fn snapshots_wait_for_each_command_so_none_is_left_out() {
        let config = with(&[(s::SNAPSHOT, "1")]);
        assert_eq!(config.device_timing, DeviceTiming::Event);
    }

    #[test]
    fn messages_are_said_at_once_later_or_never() {
        for (value, quiet) in [("0", Quiet::No), ("1", Quiet::Silent), ("later", Quiet::Later)] {
            let config = with(&[(s::QUIET, value)]);
            assert_eq!(config.quiet, quiet);
            assert!(config.complaints.is_empty(), "{:?}", config.complaints);
        }
    }
}
