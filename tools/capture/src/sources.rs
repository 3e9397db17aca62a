//! Owns which sensors are opened: the user's choice, the roots, and what was found wrong with each
//! interface. Refuses to read them.
#![forbid(unsafe_code)]

use crate::error::CaptureError;
use clscope_sensors::doctor::{self, SensorFinding, State};
use clscope_sensors::rapl::perf::{Kernel, PerfOpener, Unopened};
use clscope_sensors::replay::{Pacing, Replay};
use clscope_sensors::{Plane, Roots, SensorSource, SourceKind, System, handover};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the privileged helper listens by default.
pub const SOCKET: &str = "/run/clscope/sensord.sock";

/// Beginning of the finding's name of counters that a helper hands over.
const HELPER: &str = "RAPL through clscope sensord at";

/// How long a counter of a processor package is watched for a step. RAPL counters step about once
/// a millisecond (Intel SDM vol. 3B, 14.9); one that stands still for so long does not work.
const STEP: Duration = Duration::from_millis(30);

/// A family of sensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Whatever works: RAPL, hwmon, NVML.
    Auto,
    /// None.
    Off,
    /// The processor's energy counters, through powercap, perf or the helper.
    Rapl,
    /// Sensors of Intel and AMD GPUs.
    Hwmon,
    /// NVIDIA GPUs.
    Nvml,
}

/// Options about sensors.
#[derive(Debug, Clone)]
pub struct Options {
    /// Sensors to read (comma-separated)
    pub sensors: Vec<Family>,
    /// Whether NVML's hardware counters are read too: not unless asked for, since that costs more
    /// than reading power
    pub gpm: Option<Vec<clscope_nvml::gpm::Metric>>,
    /// Look for sensors below this directory (its sys, dev and proc) instead of the system's
    pub sysfs_root: Option<PathBuf>,
    /// Take readings from this file instead of sensors
    pub readings: Option<PathBuf>,
    /// Socket of `clscope sensord`; without it, the one at /run/clscope/sensord.sock is asked where
    /// the processor's counters cannot be read or do not work
    pub socket: Option<PathBuf>,
    /// The families are not the user's choice, so that nobody misses one by its name
    pub unnamed: bool,
}

impl Family {
    /// Name as in `--sensors`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
            Self::Rapl => "rapl",
            Self::Hwmon => "hwmon",
            Self::Nvml => "nvml",
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            sensors: vec![Family::Auto],
            gpm: None,
            sysfs_root: None,
            readings: None,
            socket: None,
            unnamed: false,
        }
    }
}

/// An application opens no perf events of whole processors.
const INSIDE: Unopened = Unopened("perf events are not read from inside an application");

/// Sources that were opened, and all that was looked at.
#[derive(Default)]
pub struct Opened {
    /// The sources.
    pub sources: Vec<Box<dyn SensorSource>>,
    /// Every interface looked at.
    pub findings: Vec<SensorFinding>,
    /// For each source that has one, its finding.
    pub finding_of: Vec<Option<usize>>,
    /// What was asked for by name and could not be had.
    pub warnings: Vec<String>,
}

/// A tree that is not the system's names event numbers that mean something else here.
const ELSEWHERE: Unopened =
    Unopened("perf events are the running system's, not those of --sysfs-root");

impl Options {
    /// Whether nothing is to be read.
    pub fn is_off(&self) -> bool {
        self.readings.is_none() && self.gpm.is_none() && self.sensors.contains(&Family::Off)
    }

    fn wants(&self, family: Family) -> bool {
        let off = self.sensors.contains(&Family::Off);
        !off && (self.sensors.contains(&family) || self.sensors.contains(&Family::Auto))
    }

    /// What is left to read where the application itself reads the host's sensors (`--snapshot`).
    pub fn beside_snapshots(&self) -> Self {
        let sensors = if self.sysfs_root.is_none() && self.wants(Family::Nvml) {
            Family::Nvml
        } else {
            Family::Off
        };
        let unnamed = !self.sensors.contains(&Family::Nvml);
        Self { sensors: vec![sensors], unnamed, ..self.clone() }
    }

    /// What was looked for in vain, where an application started by this process can read no sensor
    /// around its commands (`--snapshot`); `None` where it can.
    pub fn blind_around_commands(&self) -> Option<String> {
        let roots = self.sysfs_root.as_deref().map_or_else(Roots::default, Roots::below);
        let host = doctor::open_host(&System, &roots, &INSIDE);
        let looked = host.findings.iter().filter(|f| !matches!(f.state, State::Skipped(_)));
        let said = looked.map(|f| match &f.why {
            Some(why) => format!("{}: {why}", f.name),
            None => f.name.clone(),
        });
        host.sources.is_empty().then(|| said.collect::<Vec<_>>().join("; "))
    }

    /// Opens a replay file early: a mistake in its name or content is the user's, and no reason to
    /// run the application.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn replay(&self) -> Result<Option<Replay>, CaptureError> {
        let open = |path: &PathBuf| {
            Replay::open(path, Pacing::Live)
                .map_err(|source| CaptureError::Readings { path: path.clone(), source })
        };
        self.readings.as_ref().map(open).transpose()
    }

    /// Opens everything that was chosen and works.
    pub fn open(&self, replay: Option<Replay>) -> Opened {
        let mut opened = Opened::default();
        if let Some(replay) = replay {
            opened.add("recorded readings".to_owned(), Box::new(replay));
            return opened;
        }
        if self.is_off() {
            return opened;
        }
        if self.wants(Family::Rapl) || self.wants(Family::Hwmon) {
            self.open_host(&mut opened);
        }
        // A foreign tree describes another machine: its figures and this machine's GPUs do not
        // belong together.
        let gpm = self.gpm.is_some();
        let named = self.sensors.contains(&Family::Nvml) || gpm;
        let power = self.wants(Family::Nvml);
        if named || (self.sysfs_root.is_none() && power) {
            match clscope_nvml::load(None) {
                Ok((api, devices)) => {
                    let (mut sources, mut findings) = clscope_nvml::open(
                        &api,
                        &devices,
                        &clscope_nvml::Wanted { gpm: self.gpm.clone() },
                    );
                    if !power {
                        sources.retain(|s| is_gpm(&**s));
                        findings.retain(|f| f.kind == SourceKind::NvmlGpm);
                    }
                    // Findings of what opened come in the order of the sources.
                    let mut places = (opened.findings.len()..)
                        .zip(&findings)
                        .filter(|(_, f)| f.state == State::Opened)
                        .map(|(i, _)| i);
                    opened.finding_of.extend(sources.iter().map(|_| places.next()));
                    drop(places);
                    opened.sources.extend(sources);
                    opened.findings.extend(findings);
                }
                Err(finding) => opened.findings.push(*finding),
            }
            if gpm && !opened.sources.iter().any(|s| is_gpm(&**s)) {
                // It was asked for by name: silence would read as zeros.
                let of = |kind| opened.findings.iter().find(|f| f.kind == kind);
                let finding = of(SourceKind::NvmlGpm).or_else(|| of(SourceKind::Nvml));
                let why = finding.and_then(|f| f.why.clone());
                let why = why.unwrap_or_else(|| "no NVIDIA GPU from Hopper on".to_owned());
                opened.warnings.push(format!("no GPM counters: {why}"));
            }
        }
        opened
    }

    fn open_host(&self, opened: &mut Opened) {
        let roots = self.sysfs_root.as_deref().map_or_else(Roots::default, Roots::below);
        let perf: &dyn PerfOpener = if self.sysfs_root.is_some() { &ELSEWHERE } else { &Kernel };
        let host = doctor::open_host(&System, &roots, perf);
        let is_rapl = |f: &SensorFinding| f.kind == SourceKind::Rapl;
        let mut refused = false;
        let mut places = Vec::with_capacity(host.findings.len());
        for finding in host.findings {
            let wanted = self.wants(if is_rapl(&finding) { Family::Rapl } else { Family::Hwmon });
            refused |= is_rapl(&finding) && matches!(finding.state, State::Refused(_));
            places.push(wanted.then_some(opened.findings.len()));
            if wanted {
                opened.findings.push(finding);
            }
        }
        let mut package_works = false;
        for (mut source, finding) in host.sources.into_iter().zip(host.finding_of) {
            if let Some(place) = places.get(finding).copied().flatten() {
                if opened.findings.get(place).is_some_and(is_rapl) {
                    // Watching takes time: only where a helper could be asked instead.
                    package_works |= !self.helper_there() || counts_package(&mut *source);
                }
                opened.sources.push(source);
                opened.finding_of.push(Some(place));
            }
        }
        if !self.wants(Family::Rapl) || self.sysfs_root.is_some() {
            return;
        }
        if self.socket.is_some() || (!package_works && (refused || self.helper_there())) {
            self.ask_helper(opened);
        }
    }

    /// Whether a helper may be asked: one was named, or the usual socket exists.
    fn helper_there(&self) -> bool {
        self.socket.is_some() || Path::new(SOCKET).exists()
    }

    /// Its counters come before the host's own: where both have a domain, readers take the first.
    fn ask_helper(&self, opened: &mut Opened) {
        let socket = self.socket.as_deref().unwrap_or(Path::new(SOCKET));
        let name = format!("{HELPER} {}", socket.display());
        match handover::connect(socket) {
            Ok(passed) => {
                opened.add(name, Box::new(passed));
                opened.sources.rotate_right(1);
                opened.finding_of.rotate_right(1);
            }
            Err(error) => {
                let why = Some(clscope_io::text::chain(&error));
                opened.findings.push(SensorFinding {
                    remedy: Some("sudo clscope sensord GROUP".to_owned()),
                    ..SensorFinding::new(SourceKind::Rapl, name, State::Absent, why)
                });
            }
        }
    }
}

fn is_gpm(source: &dyn SensorSource) -> bool {
    SourceKind::of_source(source.name()) == SourceKind::NvmlGpm
}

/// Whether a source counts the energy of a processor package: it has such a counter, and the
/// counter steps.
fn counts_package(source: &mut dyn SensorSource) -> bool {
    let packages: Vec<bool> =
        source.domains().iter().map(|d| d.plane == Some(Plane::Package)).collect();
    let mut first = vec![None; packages.len()];
    let until = Instant::now() + STEP;
    while packages.contains(&true) && Instant::now() < until {
        let mut stepped = false;
        // What cannot be read does not count either.
        let _ = source.read(&mut clscope_readings::Clocks, &mut |reading| {
            let at = reading.domain.0;
            if packages.get(at) == Some(&true)
                && let Some(first) = first.get_mut(at)
            {
                let value = reading.value.magnitude();
                stepped |= *first.get_or_insert(value) != value;
            }
        });
        if stepped {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

impl Opened {
    /// Families that were asked for by name and of which nothing could be opened, with the reason:
    /// silence would leave the user to find out from a report without energy.
    pub fn missing(&self, options: &Options) -> Vec<String> {
        let none = options.readings.is_some() || options.is_off() || options.unnamed;
        let family = |f: &SensorFinding| match f.kind {
            SourceKind::Rapl => Family::Rapl,
            SourceKind::Hwmon => Family::Hwmon,
            _ => Family::Nvml,
        };
        let opened = |wanted: Family| {
            self.findings.iter().any(|f| family(f) == wanted && f.state == State::Opened)
        };
        let asked = options.sensors.iter().filter(|wanted| {
            !none && !matches!(wanted, Family::Auto | Family::Off) && !opened(**wanted)
        });
        let mut missing: Vec<String> = asked
            .map(|wanted| {
                let of = self
                    .findings
                    .iter()
                    .filter(|f| family(f) == *wanted && !matches!(f.state, State::Skipped(_)));
                let why: Vec<&str> = of.filter_map(|f| f.why.as_deref()).collect();
                format!(
                    "--sensors {}: none could be opened: {}; `clscope doctor` says what helps",
                    wanted.name(),
                    why.join("; ")
                )
            })
            .collect();
        if let Some(socket) = &options.socket {
            let shown = socket.display();
            missing.extend(match self.findings.iter().find(|f| f.name.starts_with(HELPER)) {
                Some(f) if f.state == State::Opened => None,
                Some(f) => f.why.as_ref().map(|why| format!("--socket {shown}: {why}")),
                None => Some(format!(
                    "--socket {shown}: not asked, since other options leave this machine's processor out"
                )),
            });
        }
        missing
    }

    fn add(&mut self, name: String, source: Box<dyn SensorSource>) {
        self.finding_of.push(Some(self.findings.len()));
        self.findings.push(SensorFinding::opened(name, &*source));
        self.sources.push(source);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_beside_snapshots_is_named_by_nobody() {
        let of = |sensors: &[Family]| Options { sensors: sensors.to_vec(), ..Options::default() };
        let nothing =
            Opened { sources: vec![], findings: vec![], finding_of: vec![], warnings: vec![] };
        let missed = |options: &Options| nothing.missing(&options.beside_snapshots()).len();
        assert_eq!(missed(&of(&[Family::Auto])), 0);
        assert_eq!(missed(&of(&[Family::Nvml])), 1);
    }

    #[test]
    fn an_application_that_can_read_nothing_is_told_what_was_looked_for() {
        let root = tempfile::tempdir().unwrap();
        let options = Options { sysfs_root: Some(root.path().to_owned()), ..Options::default() };
        let looked = options.blind_around_commands().expect("an empty tree");
        assert!(looked.contains("RAPL") && looked.contains("hwmon"), "{looked}");
        assert!(!looked.contains("--"), "{looked}");
        let zone = root.path().join("sys/class/powercap/intel-rapl:0");
        std::fs::create_dir_all(&zone).unwrap();
        for (name, text) in
            [("name", "package-0"), ("energy_uj", "1000"), ("max_energy_range_uj", "262143328850")]
        {
            std::fs::write(zone.join(name), text).unwrap();
        }
        assert_eq!(options.blind_around_commands(), None);
    }

    #[test]
    fn only_what_was_named_is_missed() {
        let empty = tempfile::tempdir().unwrap();
        let of = |sensors: &[Family]| {
            let options = Options {
                sensors: sensors.to_vec(),
                sysfs_root: Some(empty.path().to_owned()),
                ..Options::default()
            };
            options.open(None).missing(&options)
        };
        assert!(of(&[Family::Auto]).is_empty() && of(&[Family::Off]).is_empty());
        let missed = of(&[Family::Rapl, Family::Hwmon]);
        assert_eq!(missed.len(), 2, "{missed:?}");
        assert!(
            missed[0].starts_with("--sensors rapl: none could be opened: RAPL zone"),
            "{missed:?}"
        );
        assert!(
            missed[1].starts_with("--sensors hwmon: ") && !missed[1].contains("RAPL"),
            "{missed:?}"
        );
    }
}
