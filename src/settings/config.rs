//! The only reader of the environment: once, when the library is loaded. Opens nothing.

use crate::features::{counters, replay};
use crate::recording::diag;
use clscope_trace::settings as s;
use once_cell::sync::OnceCell;
use std::ffi::OsString;
use std::path::PathBuf;

/// How device time is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceTiming {
    /// Events, harvested when the application waits.
    Event,
    /// Events, each with a completion callback.
    Callback,
    /// Each command is waited for.
    Sync,
    /// Events for a random part of the launches, within a budget.
    Sample,
    /// Events, and `sample` from when timing costs more than the budget.
    Auto,
    /// Not at all.
    Off,
}

impl DeviceTiming {
    /// Its name in settings and traces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Callback => "callback",
            Self::Sync => "sync",
            Self::Sample => "sample",
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }
}

/// The settings in force.
#[derive(Debug)]
pub struct Config {
    pub enable: bool,
    pub trace: Option<PathBuf>,
    pub device_timing: DeviceTiming,
    pub start_paused: bool,
    pub max_size: Option<u64>,
    pub quiet: bool,
    /// Share of the application's time that sampled timing may cost.
    pub budget: f64,
    pub kernels: Vec<String>,
    pub groups: Vec<String>,
    /// Launches to be repeated for slow sensors.
    pub replay: Option<replay::Wanted>,
    /// Frames that are recorded of the place of each enqueue.
    pub call_sites: u8,
    /// Markers may be enqueued where they bound a device's clock.
    pub clock_markers: bool,
    /// Sensors are read around each command.
    pub snapshot: bool,
    /// Counters that this process reads itself.
    pub counters: Vec<counters::Wanted>,
    /// Sensors are sampled in this process.
    pub sensors: bool,
    /// Where they are looked for, if not in the system's trees.
    pub sysfs_root: Option<PathBuf>,
    /// Settings as they were given, for the trace.
    pub given: Vec<String>,
    /// What could not be understood: told when recording begins.
    pub complaints: Vec<String>,
    /// Variables of others that the trace tells of.
    others: Vec<(&'static str, String)>,
}

/// Variables of others: how we were injected, and what launchers of MPI tell.
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

static CONFIG: OnceCell<Config> = OnceCell::new();

/// The settings; read at load, or now where the constructor has not run yet.
pub fn get() -> &'static Config {
    CONFIG.get_or_init(|| read(|name| std::env::var_os(name)))
}

/// Runs when the library is loaded.
#[ctor::ctor]
fn at_load() {
    // An application may change its environment (or overwrite its memory) before the first OpenCL
    // call.
    get();
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
    let quiet = flag(s::QUIET, false);
    let snapshot = flag(s::SNAPSHOT, false);
    let clock_markers = flag(s::CLOCK_MARKERS, true);
    let device_timing = match text(s::DEVICE_TIMING).as_deref() {
        None | Some("auto") => DeviceTiming::Auto,
        Some("event") => DeviceTiming::Event,
        Some("sample") => DeviceTiming::Sample,
        Some("callback") => DeviceTiming::Callback,
        Some("sync") => DeviceTiming::Sync,
        Some("off") => DeviceTiming::Off,
        Some(other) => {
            complaints.push(format!(
                "{}={other} is no device-timing method: using auto",
                s::DEVICE_TIMING
            ));
            DeviceTiming::Auto
        }
    };
    // Each command is waited for in any case: leaving times out would save nothing.
    let device_timing = if snapshot && device_timing == DeviceTiming::Auto {
        DeviceTiming::Event
    } else {
        device_timing
    };
    let max_size = text(s::MAX_SIZE).and_then(|v| {
        let parsed = size(&v);
        if parsed.is_none() {
            complaints
                .push(format!("{}={v} is no size (as 500M or 2G): no limit is set", s::MAX_SIZE));
        }
        parsed
    });
    let budget = match text(s::BUDGET).map(|v| (v.trim_end_matches('%').trim().parse::<f64>(), v)) {
        Some((Ok(percent), _)) if percent > 0.0 && percent <= 100.0 => percent / 100.0,
        Some((_, v)) => {
            complaints.push(format!("{}={v} is no percentage above 0: using 1", s::BUDGET));
            0.01
        }
        None => 0.01,
    };
    let sensors = match text(s::SENSORS).as_deref() {
        None | Some("auto") => true,
        Some("off") => false,
        Some(other) => {
            complaints.push(format!("{}={other} is neither auto nor off: using auto", s::SENSORS));
            true
        }
    };
    let replay = text(s::REPLAY).and_then(|v| {
        let parsed = replay::parse(&v);
        if parsed.is_none() {
            complaints.push(format!("{}={v} is no number of batches (as 8, or 8:1000 for a second each): nothing is repeated", s::REPLAY));
        }
        parsed
    });
    let call_sites = match text(s::CALL_SITES).map(|v| (v.parse::<u8>(), v)) {
        None => 0,
        Some((Ok(frames), _)) if usize::from(frames) <= crate::features::call_sites::MOST => frames,
        Some((_, v)) => {
            complaints.push(format!(
                "{}={v} is no number of frames up to {}: using 1",
                s::CALL_SITES,
                crate::features::call_sites::MOST
            ));
            1
        }
    };
    let mut counters = Vec::new();
    for one in text(s::COUNTERS)
        .iter()
        .flat_map(|all| all.split(','))
        .map(str::trim)
        .filter(|one| !one.is_empty())
    {
        match counters::parse(one) {
            Some(counters::Wanted::Perf | counters::Wanted::Oa(_)) if !snapshot => {
                complaints.push(format!(
                    "{}={one} counts around commands: set {}=1, too",
                    s::COUNTERS,
                    s::SNAPSHOT
                ));
            }
            Some(wanted) => counters.push(wanted),
            None => complaints.push(format!(
                "{}={one} is none of perf, oa, oa:UUID, intel-queue and intel-queue:NUMBER",
                s::COUNTERS
            )),
        }
    }
    let list = |name: &str| {
        text(name)
            .map(|v| v.split(',').map(|p| p.trim().to_owned()).filter(|p| !p.is_empty()).collect())
            .unwrap_or_default()
    };
    Config {
        enable,
        trace: lookup(s::TRACE).filter(|v| !v.is_empty()).map(PathBuf::from),
        device_timing,
        start_paused,
        max_size,
        quiet,
        budget,
        kernels: list(s::KERNELS),
        groups: list(s::GROUPS),
        replay,
        call_sites,
        clock_markers,
        snapshot,
        counters,
        sensors,
        sysfs_root: lookup(s::SYSFS_ROOT).filter(|v| !v.is_empty()).map(PathBuf::from),
        given,
        complaints,
        others: OTHERS.iter().filter_map(|name| text(name).map(|value| (*name, value))).collect(),
    }
}

/// `500M`, `2G`, `4096`: binary multiples, as in `dd` and `ulimit`.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let scale = match text.get(digits.len()..)?.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1u64,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(scale).filter(|n| *n > 0)
}

/// Whether `name` matches one of the patterns (`*` any characters, `?` one); all match where there
/// are none.
pub fn matches(patterns: &[String], name: &str) -> bool {
    fn glob(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => {
                glob(rest, name) || name.split_first().is_some_and(|(_, tail)| glob(pattern, tail))
            }
            (Some((b'?', rest)), Some((_, tail))) => glob(rest, tail),
            (Some((p, rest)), Some((n, tail))) => p == n && glob(rest, tail),
            _ => false,
        }
    }
    patterns.is_empty() || patterns.iter().any(|p| glob(p.as_bytes(), name.as_bytes()))
}

/// Tells what was not understood, when recording begins.
pub fn complain() {
    for text in &get().complaints {
        diag::warn("bad-setting", text);
    }
}
