//! What is wanted of a recording. Owns how it is said; refuses to know options.

use crate::meter;
use clscope_capture::Tell;
use clscope_capture::counters::choice;
use clscope_capture::environment::Way;
use clscope_capture::ranks::Ranks;
use clscope_capture::sources;
use clscope_doctor::Surroundings;
use clscope_io::output::Access;
use clscope_sensors::gpu_power::Choice;
use clscope_trace::{values, variables};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::time::Duration;

/// How people are told.
#[derive(Debug, Clone, Copy)]
pub struct Voice {
    /// Takes a message.
    pub say: Tell,
    /// Shows how far something is that takes its time, in place of what it showed before; nothing:
    /// it is over.
    pub progress: fn(Option<&dyn Display>),
    /// Moves on to a line of its own, where the application may have ended in the middle of one.
    pub own_line: fn(),
    /// Say only what fails.
    pub quiet: bool,
}

/// What is wanted.
pub struct Plan<'a> {
    /// The application and its arguments.
    pub command: &'a [OsString],
    /// The same, as far as they may be told.
    pub shown_command: Vec<String>,
    /// Name of the trace directory.
    pub output: Option<&'a OsStr>,
    /// Replace the trace that is there.
    pub force: bool,
    /// Run nothing where no trace can be made.
    pub require_trace: bool,
    /// Who may read what is made.
    pub access: Access,
    /// The recorder's settings, but for the trace's place.
    pub settings: BTreeMap<&'static str, OsString>,
    /// Ways into the application; all that work where none is named.
    pub ways: Vec<Way>,
    /// The only ranks that are recorded.
    pub ranks: Option<&'a Ranks>,
    /// Counters that are read.
    pub counters: choice::Options,
    /// Sensors that are read.
    pub sensors: sources::Options,
    /// An external meter whose readings are added.
    pub meter: Option<meter::Wanted>,
    /// The application reads them around its commands.
    pub snapshot: bool,
    /// How GPU power is computed.
    pub gpu_power: Option<Choice>,
    /// How long captured launches are measured for when the application has ended, for their joules.
    pub replay: Option<values::Measuring>,
    /// Instructions of captured launches are to be counted.
    pub mix: bool,
    /// Accesses of their warps to memory, too.
    pub mix_accesses: bool,
    /// Launches that were captured to be measured are kept.
    pub keep_captures: bool,
    /// Launches were asked to be captured by name.
    pub captures: bool,
    /// Sensors are read so long before and after.
    pub idle_window: Duration,
    /// How long processes are waited for that outlive the application.
    pub wait: Duration,
    /// How people are told.
    pub voice: Voice,
    /// This program and its environment.
    pub here: Surroundings<'a>,
}

impl Plan<'_> {
    /// A message that is no failure.
    pub(crate) fn tell(&self, text: impl Display) {
        if !self.voice.quiet {
            (self.voice.say)(&text);
        }
    }

    /// Whether anything of the application is to be changed.
    pub(crate) fn changes(&self) -> bool {
        [variables::REPLACE, variables::LOCAL, variables::APPEND_OPTIONS]
            .iter()
            .any(|name| self.settings.contains_key(name))
    }

    /// Whether an option is for joules.
    pub(crate) fn options_for_energy(&self) -> bool {
        self.replay.is_some() || self.gpu_power.is_some()
    }

    /// What options that are for joules come to where no energy or power is read.
    pub(crate) fn options_without_energy(&self) -> impl Iterator<Item = String> {
        let why = match self.sensors.is_off() {
            true => "--sensors off",
            false => "no sensor of energy or power could be read; `clscope doctor` says why",
        };
        // A dry run measures nothing anyhow.
        let measured = self.replay.filter(|wanted| *wanted != values::Measuring::Plan);
        let replay = measured.map(|_| ("--replay", "no joules of what it captured"));
        let formula = self.gpu_power.map(|_| ("--gpu-power", "nothing it applies to"));
        [replay, formula]
            .into_iter()
            .flatten()
            .map(move |(option, what)| format!("warning: {option} has {what}: {why}"))
    }
}
