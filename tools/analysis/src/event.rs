//! Owns what the timeline is made of: host calls, commands with their outcome, marks. Values that
//! borrow from the mapped files; refuses to order them ([`crate::merge`]) or to sum them up
//! ([`crate::stats`]).

use crate::host_memory::HostMemory;
use crate::issue::Unfinished;
use crate::time::{CommandId, DeviceNs, HostNs, ProcessIndex, Span, ThreadIndex};
use clscope_trace::Untimed;
use clscope_trace::defs::{Argument, Function};
use clscope_trace::record::{self, DropReason, Waits, Words, flag};

/// One event of the timeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// A host call; it comes at its end.
    Call(Call<'a>),
    /// A command with its outcome; it comes when its outcome is known: at its enqueue if none was
    /// asked for, when the host knew it complete, or after all records if it is unfinished.
    Command(Command<'a>),
    /// A call that was in progress when the process ended; after all records.
    InCall {
        /// Process.
        process: ProcessIndex,
        /// Thread.
        thread: ThreadIndex,
        /// Function id.
        function: u16,
        /// When it began.
        begin: HostNs,
    },
    /// Something that belongs to a moment.
    Mark {
        /// Process.
        process: ProcessIndex,
        /// Thread.
        thread: ThreadIndex,
        /// When.
        at: HostNs,
        /// What.
        mark: Mark,
    },
}

/// What belongs to a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mark {
    /// Records were lost.
    Dropped {
        /// How many.
        count: u64,
        /// Why.
        reason: DropReason,
    },
    /// Recording was paused (`true`) or went on.
    Paused(bool),
    /// What a checked run saw inside the call that follows on the thread. What memory of the host a
    /// transfer uses stands with the transfer ([`Enqueued::memory`]).
    Detail(record::Detail),
    /// A record of a kind this version does not know.
    Unknown {
        /// Its number.
        kind: u8,
    },
}

/// A host call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// Process.
    pub process: ProcessIndex,
    /// Thread.
    pub thread: ThreadIndex,
    /// Function id: names are in the process's definitions.
    pub function: u16,
    /// When.
    pub span: Span,
    /// Error code, 0 success, [`record::RESULT_UNKNOWN`] for a failure without a code.
    pub result: i32,
    /// What was kept of its arguments; see [`Call::arguments`].
    pub kept: Kept<'a>,
    /// Where it stands for identical calls in a row, from the beginning of the first to the end of
    /// the last: what is known of them.
    pub run: Option<Run>,
}

/// Identical calls in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub count: u64,
    /// Nanoseconds that all of them took.
    pub total_ns: u64,
    /// Nanoseconds of the shortest.
    pub shortest_ns: u64,
    /// Nanoseconds of the longest.
    pub longest_ns: u64,
    /// Nanoseconds of the first.
    pub first_ns: u64,
}

/// What was kept of a call's arguments.
#[derive(Debug, Clone, PartialEq)]
pub enum Kept<'a> {
    /// Packed small arguments and the id of one object.
    Plain {
        /// Packed as in the function's definition.
        small: u32,
        /// Object, 0 if none.
        id: u32,
    },
    /// One word per argument of the function's definition.
    Words(Words<'a>),
    /// The call enqueued a command, or tried to (see [`Call::result`]).
    Enqueue(Enqueued<'a>),
}

/// The command of an enqueue call.
#[derive(Debug, Clone, PartialEq)]
pub struct Enqueued<'a> {
    /// The record: id, queue, kind, kernel or objects, geometry, bytes.
    pub record: record::Command<'a>,
    /// Further parts of the wait list.
    pub more_waits: Vec<Waits<'a>>,
    /// The host's memory that a transfer uses, `None` for other commands.
    pub memory: Option<HostMemory>,
}

impl Enqueued<'_> {
    /// The commands it waits for, in order; `None` for an event whose command was never seen.
    pub fn waits(&self) -> impl Iterator<Item = Option<CommandId>> + '_ {
        let own = self.record.id;
        let parts = std::iter::once(&self.record.waits).chain(&self.more_waits);
        parts.flat_map(|w| w.iter()).map(move |low| resolve_wait(low, own))
    }

    /// Length of the wait list.
    pub fn wait_count(&self) -> usize {
        self.record.waits.len() + self.more_waits.iter().map(Waits::len).sum::<usize>()
    }

    /// Whether a bit of [`flag`] is set.
    pub fn has(&self, bit: u8) -> bool {
        self.record.flags & bit != 0
    }

    /// Whether the application asked for the event.
    pub fn app_event(&self) -> bool {
        self.has(flag::APP_EVENT)
    }
}

/// The newest command before `own` whose id has these low 32 bits.
pub fn resolve_wait(low: u32, own: u64) -> Option<CommandId> {
    if low == 0 {
        return None;
    }
    let id = (own & !0xffff_ffff) | u64::from(low);
    let id = if id >= own { id.checked_sub(1 << 32)? } else { id };
    Some(CommandId(id))
}

/// One kept argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KeptArgument<'d> {
    /// Name and kind.
    pub argument: &'d Argument,
    /// Value.
    pub value: u64,
}

impl Call<'_> {
    /// The kept arguments with their names, given the definition of this call's function. For an
    /// enqueue this is empty: its record has fields of their own.
    pub fn arguments<'d>(
        &'d self,
        function: &'d Function,
    ) -> impl Iterator<Item = KeptArgument<'d>> + 'd {
        let (plain, words) = match &self.kept {
            Kept::Plain { small, id } => (Some((*small, *id)), None),
            Kept::Words(words) => (None, Some(words)),
            Kept::Enqueue(_) => (None, None),
        };
        let object = plain.and_then(|(_, id)| function.object.map(|index| (index, u64::from(id))));
        let small = plain.into_iter().flat_map(move |(small, _)| {
            let mut rest = u64::from(small);
            function.small.iter().map(move |s| {
                let bits = u32::from(s.bits).min(63);
                let value = rest & ((1 << bits) - 1);
                rest >>= bits;
                (s.argument, value)
            })
        });
        let long = words.into_iter().flat_map(|w| {
            w.iter().enumerate().map(|(i, v)| (u8::try_from(i).unwrap_or(u8::MAX), v))
        });
        object.into_iter().chain(small).chain(long).filter_map(|(index, value)| {
            Some(KeptArgument { argument: function.arguments.get(usize::from(index))?, value })
        })
    }

    /// How many calls it stands for.
    pub fn count(&self) -> u64 {
        self.run.map_or(1, |run| run.count)
    }

    /// Nanoseconds inside the function: of a run without those between its calls.
    pub fn inside_ns(&self) -> u64 {
        self.run.map_or(self.span.duration(), |run| run.total_ns)
    }

    /// The command that the call enqueued, if it succeeded in that.
    pub fn command(&self) -> Option<CommandId> {
        match &self.kept {
            Kept::Enqueue(e) if self.result == 0 && e.record.id != 0 => {
                Some(CommandId(e.record.id))
            }
            _ => None,
        }
    }
}

/// A command with its outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Command<'a> {
    /// Process.
    pub process: ProcessIndex,
    /// Thread that enqueued it.
    pub thread: ThreadIndex,
    /// The enqueue call.
    pub call: Span,
    /// What was enqueued.
    pub enqueued: Enqueued<'a>,
    /// How it ended.
    pub outcome: Outcome,
    /// Of one whose stamps are no times: what passed on the host from the begin of its enqueue to
    /// when it was known complete.
    pub at_most_ns: Option<u64>,
}

impl Command<'_> {
    /// Its id.
    pub fn id(&self) -> CommandId {
        CommandId(self.enqueued.record.id)
    }

    /// Its device times, if it has them.
    pub fn timed(&self) -> Option<&DeviceTimes> {
        match &self.outcome {
            Outcome::Timed(times) => Some(times),
            _ => None,
        }
    }

    /// Bytes that it moved: none where it never ran.
    pub fn moved_bytes(&self) -> u64 {
        if self.never_ran() { 0 } else { self.enqueued.record.bytes }
    }

    /// Whether it failed, or never began.
    pub fn never_ran(&self) -> bool {
        matches!(self.outcome, Outcome::Untimed { reason, .. } if reason.never_ran())
    }
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// With device times.
    Timed(DeviceTimes),
    /// Without, for a reason that was recorded or follows from the flags.
    Untimed {
        /// Why.
        reason: Untimed,
        /// Error or execution status that goes with it, 0 if none.
        detail: i32,
    },
    /// Its end was never seen.
    Unfinished(Unfinished),
}

/// The four stamps of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeviceTimes {
    /// QUEUED, SUBMIT, START, END in the device's clock.
    pub raw: [DeviceNs; 4],
    /// When the host knew it complete.
    pub observed: HostNs,
    /// Its place on the host's timeline; `None` while events are read without an alignment.
    pub placed: Option<Placed>,
}

impl DeviceTimes {
    /// Whether QUEUED can be a time of the command, whose enqueue call began at `begin`.
    pub fn queued_is_known(&self, begin: HostNs) -> bool {
        crate::align::queued_is_known(self.raw.map(|s| s.0), begin, self.observed)
    }

    /// END - START in device nanoseconds.
    pub fn duration(&self) -> u64 {
        self.raw[3].0.saturating_sub(self.raw[2].0)
    }
}

/// A command on the host's timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// QUEUED, SUBMIT, START, END. START is not before the enqueue call began.
    pub stamps: [HostNs; 4],
    /// Bound of the clock error of START and END in nanoseconds.
    pub bound_ns: u64,
    /// How far the span was moved to lie within what the host saw, 0 if not at all.
    pub clamped_ns: i64,
}

impl Placed {
    /// START to END.
    pub fn span(&self) -> Span {
        Span { begin: self.stamps[2], end: self.stamps[3] }
    }
}
