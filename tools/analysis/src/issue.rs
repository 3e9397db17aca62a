//! Owns what can be wrong with a trace, in words: what happened, on what, and the next step.
//! Refuses to print.

use clscope_trace::record::DropReason;
use clscope_trace::{Error, Untimed};
use std::fmt;

/// How much an issue matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Explains a figure; nothing is missing.
    Note,
    /// Something is missing or less sure.
    Warning,
    /// A file or a whole process could not be used.
    Error,
}

/// One finding about one process (or file) of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Issue {
    /// The process's label, or the file's path where no process could be made of it.
    pub subject: String,
    /// What it is.
    pub kind: IssueKind,
}

/// Why a command has no END.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unfinished {
    /// The process was killed or called `_exit` while it was in flight.
    Killed,
    /// The process ended in order with it in flight, or never waited for it.
    Exited,
    /// Records were dropped, and its completion may be among them.
    Lost,
    /// The process still ran when the trace was read.
    Running,
}

impl Unfinished {
    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Killed => "the process was killed or called _exit meanwhile",
            Self::Exited => "the process ended while their times were still awaited",
            Self::Lost => "records were lost, and their times may be among them",
            Self::Running => "the process still ran when the trace was read",
        }
    }
}

/// Everything that can be found. The fields are counts unless they say otherwise; `as_of` is when
/// the trace was read, RFC 3339.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs)] // the texts are their documentation
pub enum IssueKind {
    #[error("{} was left out: {error}", name(.file))]
    Unreadable { file: String, error: Error },
    #[error("{} could not be read: {error}", name(.file))]
    InputOutput { file: String, error: String },
    #[error("there is no readable .defs file, so nothing has a name")]
    NoDefinitions,
    #[error("the process called OpenCL, and its trace could not be written")]
    NotWritten,
    #[error("the last {bytes} bytes of the definitions are torn: some names are missing")]
    TornDefinitions { bytes: usize },
    #[error("{} of a kind this version does not know", plural(*.count, "definition"))]
    UnknownDefinitions { count: u64 },
    #[error("{} was left out: its header says it belongs to process {pid}, incarnation {incarnation}", name(.file))]
    OtherProcess { file: String, pid: u32, incarnation: u32 },
    #[error(
        "no clock anchor: its times cannot be placed, and are shown as if one tick were one nanosecond"
    )]
    NoAnchors,
    #[error(
        "a single clock anchor: the tick's length is unknown, and times are shown as if one tick were one nanosecond"
    )]
    NoRate,
    #[error("{} contradicted the others and were left out", plural(*.count, "clock anchor"))]
    BadAnchors { count: u64 },
    #[error("{}: {} torn, {bytes} bytes skipped", name(.file), plural(*.blocks, "block"))]
    TornBlocks { file: String, blocks: u64, bytes: u64 },
    #[error("{}: {bytes} bytes belong to no block", name(.file))]
    SkippedBytes { file: String, bytes: u64 },
    #[error("{}: a ring could not be read", name(.file))]
    DamagedRing { file: String },
    #[error("{} missing, of {}", plural(*.blocks, "block"), plural(*.threads, "thread"))]
    MissingBlocks { threads: u64, blocks: u64 },
    #[error("the oldest {} rotated away to keep the size limit", plural(u64::from(*.segments), "segment"))]
    OldestRotated { segments: u32 },
    #[error("{} could not be decoded to the end", plural(*.blocks, "block"))]
    DamagedBlocks { blocks: u64 },
    #[error("{} earlier than the one before, moved up to it", plural(*.records, "record"))]
    TimeRanBack { records: u64 },
    #[error("{} of a kind this version does not know", plural(*.records, "record"))]
    UnknownRecords { records: u64 },
    #[error("{} dropped{}", plural(*.records, "record"), dropped(*.reason))]
    Dropped { records: u64, reason: Option<DropReason> },
    #[error("the process did not end in order (killed, crashed, _exit, exec) or still runs")]
    NotEnded,
    #[error("how the process ended is not in the trace: the disk was full")]
    EndUnwritten,
    #[error("the process still runs: all figures are as of {as_of}")]
    Running { as_of: String },
    #[error("thread {thread} was inside {function} when the record ends")]
    InCall { thread: u32, function: String },
    #[error("{} without an end: {}", plural(*.commands, "command"), .reason.text())]
    Unfinished { commands: u64, reason: Unfinished },
    #[error("{} without device time: {}", plural(*.commands, "command"), .reason.text())]
    Untimed { commands: u64, reason: Untimed },
    #[error("{} of commands that are not in the trace", plural(*.timings, "device time"))]
    OrphanTimings { timings: u64 },
    #[error("{} left untimed, because their profiling timestamps can be no times (out of order, equal, or of another unit than nanoseconds): by the host's clock each took at most {:.3} ms", plural(*.commands, "command"), *.most_ns as f64 / 1e6)]
    ImpossibleStamps { commands: u64, most_ns: u64 },
    #[error("{} with a sampling probability that is none", plural(*.commands, "launch").replace("launchs", "launches"))]
    BadProbabilities { commands: u64 },
    #[error("{device}: its clock could not be aligned with the host's")]
    Unaligned { device: String },
    #[error("{device}: QUEUED is not proved to be taken inside the enqueue call")]
    QueuedNotUsed { device: String },
    #[error("{device}: its clock stepped {}", plural(*.steps, "time"))]
    ClockSteps { device: String, steps: u64 },
    #[error("{device}: {} of host and device contradict all others", plural(*.bounds, "time"))]
    FalseBounds { device: String, bounds: u64 },
    #[error("{} outside what the host saw, by at most {most_ns} ns", plural(*.spans, "device span"))]
    Clamped { spans: u64, most_ns: u64 },
    #[error("{why}{}", if *.commands { ": what devices did beside the recorded commands is not known" } else { "" })]
    CallsLeftOut { why: String, commands: bool },
    #[error("recording was paused for {:.3} s, which are in no figure", *.ns as f64 / 1e9)]
    Paused { ns: u64 },
    #[error("no device spans: {why}")]
    NoDeviceSpans { why: &'static str },
    #[error("host {host} {}", placed(*.bound_ns))]
    OtherHost { host: String, bound_ns: Option<u64> },
    #[error("its monotonic clock is {:.1} s {} that of other processes of the host, as in a time namespace; it was placed by the wall clock, readings within {:.1} us", .apart_ns.unsigned_abs() as f64 / 1e9, if *.apart_ns < 0 { "behind" } else { "ahead of" }, *.bound_ns as f64 / 1e3)]
    OtherClock { apart_ns: i64, bound_ns: u64 },
    #[error("{text}")]
    Recorder { code: String, text: String },
}

impl IssueKind {
    /// A stable name for programs.
    pub fn code(&self) -> &str {
        match self {
            Self::Unreadable { .. } => "unreadable-file",
            Self::InputOutput { .. } => "input-output",
            Self::NoDefinitions => "no-definitions",
            Self::NotWritten => "not-written",
            Self::TornDefinitions { .. } => "torn-definitions",
            Self::UnknownDefinitions { .. } => "unknown-definitions",
            Self::OtherProcess { .. } => "other-process",
            Self::NoAnchors => "no-anchors",
            Self::NoRate => "no-clock-rate",
            Self::BadAnchors { .. } => "bad-anchors",
            Self::TornBlocks { .. } => "torn-blocks",
            Self::SkippedBytes { .. } => "skipped-bytes",
            Self::DamagedRing { .. } => "damaged-ring",
            Self::MissingBlocks { .. } => "missing-blocks",
            Self::OldestRotated { .. } => "oldest-part-rotated",
            Self::DamagedBlocks { .. } => "damaged-blocks",
            Self::TimeRanBack { .. } => "time-ran-back",
            Self::UnknownRecords { .. } => "unknown-records",
            Self::Dropped { .. } => "dropped-records",
            Self::NotEnded => "not-ended",
            Self::EndUnwritten => "end-unwritten",
            Self::Running { .. } => "still-running",
            Self::InCall { .. } => "ended-in-call",
            Self::Unfinished { .. } => "unfinished-commands",
            Self::Untimed { .. } => "untimed-commands",
            Self::OrphanTimings { .. } => "orphan-timings",
            Self::ImpossibleStamps { .. } => "impossible-stamps",
            Self::BadProbabilities { .. } => "bad-probabilities",
            Self::Unaligned { .. } => "unaligned-device",
            Self::QueuedNotUsed { .. } => "queued-not-used",
            Self::ClockSteps { .. } => "clock-steps",
            Self::FalseBounds { .. } => "false-bounds",
            Self::Clamped { .. } => "clamped-spans",
            Self::CallsLeftOut { .. } => "calls-left-out",
            Self::Paused { .. } => "paused",
            Self::NoDeviceSpans { .. } => "no-device-spans",
            Self::OtherHost { .. } => "other-host",
            Self::OtherClock { .. } => "other-clock",
            Self::Recorder { code, .. } => code,
        }
    }

    /// How much it matters.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Unreadable { .. }
            | Self::InputOutput { .. }
            | Self::NoDefinitions
            | Self::NotWritten
            | Self::NoAnchors
            | Self::NoRate => Severity::Error,
            Self::OldestRotated { .. }
            | Self::QueuedNotUsed { .. }
            | Self::ClockSteps { .. }
            | Self::FalseBounds { .. }
            | Self::Paused { .. }
            | Self::OtherHost { .. }
            | Self::OtherClock { .. } => Severity::Note,
            Self::Untimed {
                reason: Untimed::NotSampled | Untimed::TimingOff | Untimed::NoEvent,
                ..
            } => Severity::Note,
            _ => Severity::Warning,
        }
    }

    /// Whether records are missing from the trace because of it.
    pub const fn means_loss(&self) -> bool {
        matches!(
            self,
            Self::TornBlocks { .. }
                | Self::DamagedRing { .. }
                | Self::MissingBlocks { .. }
                | Self::DamagedBlocks { .. }
                | Self::EndUnwritten
                | Self::Unreadable { .. }
        )
    }

    /// The next step, where there is one.
    pub fn remedy(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unreadable { error: Error::Newer { .. }, .. } => "use a newer clscope to read it",
            Self::Unreadable { error: Error::Foreign { .. }, .. } => {
                "it does not belong here: move it out of the trace directory"
            }
            Self::Unreadable { .. } | Self::NoDefinitions | Self::TornDefinitions { .. } => {
                "the other files were read; record again if this part matters"
            }
            Self::InputOutput { .. } => "check that the file exists and may be read",
            Self::NotWritten => {
                "the recorder's message, when the process ran, says why: mostly a full disk or a limit of file sizes; mend that, or name another place with -o, and record again"
            }
            Self::OtherProcess { .. } => {
                "a file was renamed or copied in from another trace; merge traces with `clscope merge`"
            }
            Self::NoAnchors | Self::NoRate => {
                "record again for longer, or analyse the trace on the machine it was recorded on before a reboot"
            }
            Self::BadAnchors { .. } => {
                "the kernel's clock misbehaved while recording; treat long times with care"
            }
            Self::TornBlocks { .. }
            | Self::SkippedBytes { .. }
            | Self::DamagedBlocks { .. }
            | Self::DamagedRing { .. } => {
                "usual when the process was killed in the middle of a write or the disk filled; else the file was damaged later"
            }
            Self::MissingBlocks { .. } => {
                "totals are too low by what they held; record again with more disk space"
            }
            Self::OldestRotated { .. } => "raise --max-size to keep more",
            Self::UnknownRecords { .. } | Self::UnknownDefinitions { .. } => {
                "a newer recorder wrote them: use the clscope of that version"
            }
            Self::Dropped { reason: Some(DropReason::WriteFailed), .. } => {
                "a warning says whether the disk was full or `clscope record` came too late; mend that and record again"
            }
            Self::Dropped { .. } => "counts and totals are too low by them",
            Self::Unfinished { reason: Unfinished::Running, .. } => {
                "read the trace again when the process has ended"
            }
            Self::Unfinished { reason: Unfinished::Exited, .. } => {
                "let the application wait for its commands (clFinish) before it ends"
            }
            Self::Untimed { reason: Untimed::QueueReleased, .. } => {
                "let the application call clFinish before it releases the queue, or record with --device-timing sync"
            }
            Self::Untimed { reason: Untimed::TimingOff, .. } => "record with --device-timing event",
            Self::Untimed { reason: Untimed::NotAvailable | Untimed::QueryFailed, .. } => {
                "record with --device-timing sync for host-side times"
            }
            Self::Untimed { reason, .. } if reason.never_ran() => {
                "the application's commands failed: see the API errors"
            }
            Self::OrphanTimings { .. } => {
                "their enqueue calls lie in a part of the trace that is missing"
            }
            Self::ImpossibleStamps { .. } => "record with --device-timing sync for host-side times",
            Self::BadProbabilities { .. } => {
                "they count as certain; the recorder or the file is damaged, so mistrust the estimates"
            }
            Self::Unaligned { .. } => {
                "its spans are placed between enqueue and completion, with that as their bound"
            }
            Self::Clamped { .. } => {
                "they were moved inside the time between enqueue and completion; their durations were kept"
            }
            Self::NotEnded => "all that was complete by then is here",
            Self::EndUnwritten => "free space, or record with --max-size",
            Self::Running { .. } => "`clscope top` follows it",
            Self::InCall { .. } => "if the process hung or crashed, look there first",
            Self::QueuedNotUsed { .. } => {
                "only its START and END bound the clock, so that the bound is wider"
            }
            Self::FalseBounds { .. } => "they were left out of the alignment of the clocks",
            Self::ClockSteps { .. } => "each stretch between steps was aligned by itself",
            Self::OtherHost { .. } => {
                "order between hosts is only as good as their wall clocks agree (NTP, PTP)"
            }
            Self::OtherClock { .. } => {
                "its times are right unless the wall clock was set between the processes"
            }
            Self::CallsLeftOut { .. } => "record all of them for shares, idle time and joules",
            Self::Paused { .. }
            | Self::NoDeviceSpans { .. }
            | Self::TimeRanBack { .. }
            | Self::Recorder { .. }
            | Self::Unfinished { .. }
            | Self::Untimed { .. } => {
                return None;
            }
        })
    }
}

/// `n noun` or `n nouns`.
fn plural(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A file's name: its directory is the subject's.
fn name(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn dropped(reason: Option<DropReason>) -> String {
    reason.map_or_else(
        || {
            " just before the end: the trace could not be written (disk full, a limit, or `clscope record` was behind or gone), or the calls came from a signal handler in the middle of another call".to_owned()
        },
        |reason| format!(": {}", reason.text()),
    )
}

fn placed(bound_ns: Option<u64>) -> String {
    bound_ns.map_or_else(
        || "could not be placed: it lacks clock anchors".to_owned(),
        |ns| format!("was placed by wall clocks, readings within {:.1} us", ns as f64 / 1e3),
    )
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.kind)
    }
}
