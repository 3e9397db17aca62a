//! What works on a machine, what does not, why, and the one step that fixes it, as values; what
//! devices, sensors and the recorder cost there, measured. Refuses to parse a command line, to read
//! the environment and to print. Refuses to load a driver into its own process: drivers are tried
//! in children, so that one that crashes is a finding.
//!
//! | module | what it holds |
//! |---|---|
//! | [`child`] | the process in which loaders and drivers are tried |
//! | [`loaders`], [`machine`], [`sensors`] | the parts of an examination |
//! | [`calibrate`] | what is in a device's own times, how sensors update and follow |
//! | [`overhead`] | what recording costs |

pub mod calibrate;
pub mod child;
pub mod loaders;
pub mod machine;
pub mod overhead;
pub mod sensors;

use serde::Serialize;
use std::ffi::OsString;
use std::path::PathBuf;

/// What an examination has to know of the program that asks for it.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The program, which is started again to try drivers: its children answer with
    /// [`child::answer`] and [`overhead::answer`].
    pub program: &'a std::path::Path,
    /// The environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl Surroundings<'_> {
    /// A variable that is set to something.
    fn set(&self, name: &str) -> Option<OsString> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    /// The recorder's files.
    ///
    /// # Errors
    /// If they are in none of the usual places.
    pub fn libraries(
        &self,
    ) -> Result<clscope_capture::library::Libraries, clscope_capture::library::LibraryError> {
        let named = (self.variable)(clscope_capture::library::LIBRARY).map(PathBuf::from);
        clscope_capture::library::find(self.program, named.as_deref())
    }
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It works.
    Ok,
    /// A fact, neither good nor bad.
    Info,
    /// Something is missing that clscope can do without.
    Warning,
    /// Recording will not work, or not see devices.
    Error,
}

/// One line of the examination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// Part of the examination: `recorder`, `loader`, `driver`, `device`, `clock`, `files`,
    /// `sensor`, `calibration`.
    pub section: &'static str,
    /// What was looked at.
    pub what: String,
    /// How it stands.
    pub status: Status,
    /// What was found.
    pub detail: String,
    /// The one command or step that fixes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Finding {
    /// A finding without a remedy.
    pub fn new(
        section: &'static str,
        what: impl Into<String>,
        status: Status,
        detail: impl Into<String>,
    ) -> Self {
        Self { section, what: what.into(), status, detail: detail.into(), fix: None }
    }

    /// Of what works.
    pub fn ok(section: &'static str, what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(section, what, Status::Ok, detail)
    }

    /// Of a fact.
    pub fn info(section: &'static str, what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(section, what, Status::Info, detail)
    }

    /// Of what clscope can do without.
    pub fn warning(
        section: &'static str,
        what: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(section, what, Status::Warning, detail)
    }

    /// Of what keeps recording from working.
    pub fn error(
        section: &'static str,
        what: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(section, what, Status::Error, detail)
    }

    /// With its remedy.
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// The whole examination: what `clscope doctor --format json` prints.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Examination {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Version of clscope.
    pub clscope: &'static str,
    /// The worst of the findings.
    pub status: Status,
    /// What was found, section by section.
    pub findings: Vec<Finding>,
}

/// Name and version of the schema of an examination (`doctor.schema.json`); raised when a field
/// changes its meaning or goes.
pub const SCHEMA: &str = "clscope-doctor/1";

/// What is to be examined.
pub struct Wanted<'o> {
    /// Which sensors, and where they are.
    pub sensors: &'o clscope_capture::sources::Options,
    /// What is to be measured beside it.
    pub calibrate: &'o [calibrate::Part],
}

/// Examines everything. Takes a second, and some more with calibrations.
pub fn examine(here: Surroundings<'_>, wanted: &Wanted<'_>) -> Examination {
    let mut findings = machine::recorder(here);
    findings.extend(loaders::examine(here));
    findings.extend(machine::clock());
    findings.extend(machine::files());
    let (found, sources) = sensors::examine(wanted.sensors);
    findings.extend(found);
    if !wanted.calibrate.is_empty() {
        findings.extend(calibrate::run(here, wanted.calibrate, sources));
    }
    let status = findings.iter().map(|f| f.status).max().unwrap_or(Status::Ok);
    Examination { schema: SCHEMA, clscope: env!("CARGO_PKG_VERSION"), status, findings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_outrank_all() {
        assert!(
            Status::Error > Status::Warning
                && Status::Warning > Status::Info
                && Status::Info > Status::Ok
        );
    }
}
