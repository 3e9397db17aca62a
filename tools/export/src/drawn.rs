//! Owns how a device command is drawn, the same in every format of timelines: as a span, as an
//! instant with the reason for having no device time, or not at all. Refuses to know a format.

use crate::arguments::{self, Sink};
use crate::power::Power;
use clscope_analysis::Trace;
use clscope_analysis::event::{Command, DeviceTimes, Mark, Outcome, Placed};
use clscope_analysis::time::Span;
use clscope_profile::energy::activity::Grouping;
use clscope_trace::Untimed;

/// How a command is drawn.
#[derive(Debug, Clone, Copy)]
pub enum Drawn<'c> {
    /// From the device's start to its end.
    Span(DeviceSpan<'c>),
    /// At the end of the enqueue call: any length would be invented.
    Instant(NoTime),
    /// Not: only a random part of the launches was timed. It is counted.
    NotSampled,
    /// Not: timing was off, which the report says once for all.
    Nowhere,
}

/// The device time of a command, and its place on the timeline.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSpan<'c> {
    /// As the device reported it.
    pub times: &'c DeviceTimes,
    /// Its place.
    pub placed: &'c Placed,
}

/// Why a command has no device time.
#[derive(Debug, Clone, Copy)]
pub struct NoTime {
    /// The reason in words.
    pub reason: &'static str,
    /// Error or execution status that goes with it; 0 if none.
    pub status: i32,
}

impl<'c> Drawn<'c> {
    /// By its outcome.
    pub fn new(outcome: &'c Outcome) -> Self {
        let instant = |reason, status| Self::Instant(NoTime { reason, status });
        match outcome {
            Outcome::Timed(times) => match &times.placed {
                Some(placed) => Self::Span(DeviceSpan { times, placed }),
                None => instant("it could not be placed on the timeline", 0),
            },
            Outcome::Untimed { reason: Untimed::NotSampled, .. } => Self::NotSampled,
            Outcome::Untimed { reason: Untimed::TimingOff, .. } => Self::Nowhere,
            Outcome::Untimed { reason, detail } => instant(reason.text(), *detail),
            Outcome::Unfinished(reason) => instant(reason.text(), 0),
        }
    }
}

impl DeviceSpan<'_> {
    /// On the host's timeline.
    pub fn span(&self) -> Span {
        self.placed.span()
    }
}

/// What a timeline says of a command with device time: what it is, its joules and counters, its
/// times.
pub fn describe(
    trace: &Trace<'_>,
    (power, by): (&Power, Grouping<'_>),
    command: &Command<'_>,
    span: &DeviceSpan<'_>,
    to: &mut impl Sink,
) {
    let definitions = &trace.process(command.process).definitions;
    let site = by.sites.get(command.process, command.enqueued.record.site);
    arguments::of_device_command(&command.enqueued, definitions, site, to);
    power.describe(trace, command, by, span.span().duration(), to);
    arguments::of_span(&command.enqueued, span, to);
}

/// The words for what happened to the recording; `None` for what belongs to the issues.
pub fn mark_name(mark: &Mark) -> Option<String> {
    match mark {
        Mark::Dropped { count, reason } => {
            Some(format!("{count} records dropped: {}", reason.text()))
        }
        Mark::Paused(true) => Some("recording paused".to_owned()),
        Mark::Paused(false) => Some("recording resumed".to_owned()),
        Mark::Unknown { .. } | Mark::Detail(_) => None,
    }
}
