//! What sensors there are, whether they work, why not, and the one command that helps: as data, for
//! the command line to print. Also opens all of the host's own sources in one go, without counting
//! any plane twice. Refuses to wait: working or not is decided by readings the caller brings about.
#![forbid(unsafe_code)]

use crate::error::SensorError;
use crate::files::{Files, Roots};
use crate::gt_clock::GtClock;
use crate::hwmon::Hwmon;
use crate::kind::SourceKind;
use crate::liveness::{Liveness, Verdict};
use crate::rapl::perf::{PerfOpener, PerfPower};
use crate::rapl::powercap::Powercap;
use crate::source::{Plane, SensorSource};
use crate::units::Clock;

/// Where an interface stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Not on this machine.
    Absent,
    /// There, and access is refused or it cannot be read: why.
    Refused(String),
    /// Opened; whether its domains work is not known yet.
    Opened,
    /// Opened, and domains were seen to work.
    Works,
    /// Opened, and no domain of it ever moved.
    Dead(String),
    /// Left alone: why (another interface gives the same; the user did not ask for it).
    Skipped(String),
}

/// What is known about one interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensorFinding {
    /// The interface, for people.
    pub name: String,
    /// What it is.
    pub kind: SourceKind,
    /// Where it stands.
    pub state: State,
    /// The reason in full, where it does not work.
    pub why: Option<String>,
    /// The one command that helps, if there is one.
    pub remedy: Option<String>,
    /// Its domains.
    pub domains: Vec<String>,
    /// Domains that exist and do not work: name or error, in words.
    pub problems: Vec<String>,
}

impl SensorFinding {
    /// An interface of which nothing else is known than where it stands.
    pub fn new(kind: SourceKind, name: String, state: State, why: Option<String>) -> SensorFinding {
        let (domains, problems) = (Vec::new(), Vec::new());
        SensorFinding { name, kind, state, why, remedy: None, domains, problems }
    }

    /// An interface that was opened.
    pub fn opened(name: String, source: &dyn SensorSource) -> SensorFinding {
        let kind = SourceKind::of_source(source.name());
        let domains = source.domains().iter().map(|d| d.name.clone()).collect();
        SensorFinding { domains, ..SensorFinding::new(kind, name, State::Opened, None) }
    }

    /// An interface that could not be.
    pub fn refused(kind: SourceKind, name: String, error: &SensorError) -> SensorFinding {
        let why = error.to_string();
        let state = match error {
            SensorError::NotFound { .. } => State::Absent,
            _ => State::Refused(why.clone()),
        };
        let remedy = error.remedy().map(str::to_owned);
        SensorFinding { remedy, ..SensorFinding::new(kind, name, state, Some(why)) }
    }

    fn skipped(name: &str, why: &str) -> SensorFinding {
        let state = State::Skipped(why.to_owned());
        SensorFinding::new(SourceKind::Rapl, name.to_owned(), state, Some(why.to_owned()))
    }

    fn with_problems(mut self, problems: &[SensorError]) -> SensorFinding {
        self.problems = problems.iter().map(ToString::to_string).collect();
        // What opened works without help; what did not names it.
        self.remedy = problems.iter().find_map(SensorError::remedy).map(str::to_owned);
        self
    }
}

/// The host's sources that could be opened, each with its finding's index.
pub struct Opened {
    /// The sources.
    pub sources: Vec<Box<dyn SensorSource>>,
    /// Every interface looked at.
    pub findings: Vec<SensorFinding>,
    /// For each source, its finding.
    pub finding_of: Vec<usize>,
}

impl Opened {
    fn add(&mut self, source: Box<dyn SensorSource>, name: &str, problems: &[SensorError]) {
        self.finding_of.push(self.findings.len());
        self.findings
            .push(SensorFinding::opened(name.to_owned(), &*source).with_problems(problems));
        self.sources.push(source);
    }
}

/// Opens RAPL (powercap, else perf: the same counters by two doors, so one of them) and hwmon. An interface that opens only domains that are not needed does not keep
/// the next one shut: a machine whose powercap has no package zone is asked through perf too.
pub fn open_host(files: &dyn Files, roots: &Roots, perf: &dyn PerfOpener) -> Opened {
    const SAME: &str = "another interface gives the same counters";
    let rapl = |name: &str, error: &SensorError| {
        SensorFinding::refused(SourceKind::Rapl, name.to_owned(), error)
    };
    let mut opened = Opened { sources: Vec::new(), findings: Vec::new(), finding_of: Vec::new() };
    let mut has_package = false;
    let counts_package = |source: &dyn SensorSource| {
        source.domains().iter().any(|d| d.plane == Some(Plane::Package))
    };
    match Powercap::open(files, roots) {
        Ok((source, problems)) => {
            has_package |= counts_package(&source);
            opened.add(Box::new(source), "RAPL through powercap", &problems);
        }
        Err(error) => opened.findings.push(rapl("RAPL through powercap", &error)),
    }
    if has_package {
        opened.findings.push(SensorFinding::skipped("RAPL through perf", SAME));
    } else {
        match PerfPower::open(files, roots, perf) {
            Ok((source, problems)) => {
                opened.add(Box::new(source), "RAPL through perf", &problems);
            }
            Err(error) => opened.findings.push(rapl("RAPL through perf", &error)),
        }
    }
    match Hwmon::open(files, roots) {
        Ok((sources, problems)) => {
            for source in sources {
                let name = format!("GPU sensors through {}", source.name());
                opened.add(Box::new(source), &name, &[]);
            }
            if let Some(finding) = opened.findings.last_mut() {
                *finding = finding.clone().with_problems(&problems);
            }
        }
        Err(error) => {
            let mut finding = SensorFinding::refused(
                SourceKind::Hwmon,
                "GPU sensors through hwmon".to_owned(),
                &error,
            );
            if matches!(error, SensorError::Unsupported { .. }) {
                finding.state = State::Absent;
            }
            opened.findings.push(finding);
        }
    }
    // Nobody misses it where there is no such GPU.
    for source in GtClock::open(files, roots) {
        let name = format!("GPU clock through {}", source.name());
        opened.add(Box::new(source), &name, &[]);
    }
    opened
}

/// Watches sources until it is known which of their domains work.
pub struct Observation {
    live: Vec<Vec<Liveness>>,
    errors: Vec<Option<String>>,
}

impl Observation {
    /// Of these sources.
    pub fn new(sources: &[Box<dyn SensorSource>]) -> Observation {
        Observation {
            live: sources.iter().map(|s| s.domains().iter().map(Liveness::new).collect()).collect(),
            errors: vec![None; sources.len()],
        }
    }

    /// Reads every source once. Call it several times over [`Liveness::OBSERVE_NS`] or a little
    /// more. Returns whether everything is decided.
    pub fn read(&mut self, sources: &mut [Box<dyn SensorSource>], clock: &mut dyn Clock) -> bool {
        for ((source, live), error) in sources.iter_mut().zip(&mut self.live).zip(&mut self.errors)
        {
            let result = source.read(clock, &mut |reading| {
                if let Some(live) = live.get_mut(reading.domain.0) {
                    live.observe(reading.stamp.mid(), reading.value);
                }
            });
            if let Err(e) = result {
                error.get_or_insert(e.to_string());
            }
        }
        self.live.iter().flatten().all(|l| l.verdict() != Verdict::Undecided)
    }

    /// Writes the verdicts into the findings of the sources: `finding_of[i]` is source i's.
    pub fn conclude(&self, findings: &mut [SensorFinding], finding_of: &[usize]) {
        for ((live, error), index) in self.live.iter().zip(&self.errors).zip(finding_of) {
            let Some(finding) = findings.get_mut(*index) else { continue };
            let names = finding.domains.clone();
            let mut dead = Vec::new();
            for (live, name) in live.iter().zip(&names) {
                if let Verdict::Dead { observed_ns, all_zero } = live.verdict() {
                    let what = if all_zero { "reads 0" } else { "stands still" };
                    dead.push(format!(
                        "{name} {what} for {:.1} s: present, not working",
                        observed_ns as f64 * 1e-9
                    ));
                }
            }
            let works = live.iter().any(|l| l.verdict() == Verdict::Works);
            let all_dead = !live.is_empty() && dead.len() == live.len();
            finding.problems.extend(error.clone());
            if works {
                finding.state = State::Works;
            } else if all_dead {
                let why = dead.join("; ");
                finding.why = Some(why.clone());
                finding.state = State::Dead(why);
            }
            finding.problems.extend(dead);
        }
    }
}
