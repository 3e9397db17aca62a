//! The records of one thread, one after the other. Owns which of them are passed over, and that no
//! time runs back. Refuses to know other threads.

use super::Tally;
use crate::clock::ProcessClock;
use crate::host_memory::HostMemory;
use crate::time::{HostNs, ProcessIndex, ThreadIndex, Ticks};
use clscope_trace::record::Record;
use clscope_trace::stream::{Block, Passed, Plain, Records};

/// One thread of one process.
pub(super) struct Cursor<'t, 'a> {
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) clock: &'t ProcessClock,
    pub(super) hint: usize,
    pub(super) blocks: std::slice::Iter<'t, Block<'a>>,
    pub(super) records: Records<'a>,
    /// Next record, where it is a plain one; most are, and need no more than these few bytes.
    pub(super) plain: Option<Plain>,
    /// Next record where it is another: its ticks and its content.
    pub(super) head: Option<(u64, Record<'a>)>,
    pub(super) last: HostNs,
    /// What memory of the host the transfer uses whose record is next.
    pub(super) memory: HostMemory,
    /// What it is where nothing is told.
    pub(super) untold: HostMemory,
    pub(super) calls: Calls<'t>,
    /// What was passed over since the last call that was given.
    pub(super) passed: Option<Passed>,
}

/// Which calls that enqueue nothing are given as events.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Calls<'t> {
    /// All.
    All,
    /// None; [`Tally`] does not count them.
    None,
    /// All but plain ones whose function is not marked here, by process and function. What was
    /// passed over before a call is in [`Merge::take_passed`].
    Marked(&'t [Vec<bool>]),
}

impl Calls<'_> {
    /// Whether calls of a function are given.
    #[inline]
    pub(super) fn gives(marked: &[Vec<bool>], process: u32, function: u16) -> bool {
        marked
            .get(process as usize)
            .and_then(|of| of.get(usize::from(function)))
            .copied()
            .unwrap_or(false)
    }
}

/// Calls of a thread that were passed over, one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PassedCalls {
    pub(crate) process: ProcessIndex,
    pub(crate) thread: ThreadIndex,
    /// Nanoseconds that all of them took.
    pub(crate) ns: u64,
    /// Function and nanoseconds of the longest.
    pub(crate) longest: (u16, u64),
}

impl<'a> Cursor<'_, 'a> {
    /// Reads the next record into `plain` or `head`, and gives its time.
    #[inline]
    pub(super) fn advance(&mut self, tally: &mut Tally) -> Option<HostNs> {
        if matches!(self.calls, Calls::All)
            && let Some(plain) = self.records.next_plain()
        {
            (self.plain, self.head) = (Some(plain), None);
            return Some(self.came(plain.time, tally));
        }
        self.plain = None;
        self.advance_other(tally)
    }

    /// The time of a record that was read.
    #[inline]
    pub(super) fn came(&mut self, ticks: u64, tally: &mut Tally) -> HostNs {
        tally.records += 1;
        let mut at = self.clock.at(Ticks(ticks), &mut self.hint);
        if at < self.last {
            tally.time_ran_back += 1;
            at = self.last;
        }
        self.last = at;
        at
    }

    pub(super) fn advance_other(&mut self, tally: &mut Tally) -> Option<HostNs> {
        loop {
            let latest = match self.calls {
                Calls::All => None,
                Calls::None => self.records.pass_plain(),
                Calls::Marked(marked) => {
                    let process = self.process;
                    let passes = |function| !Calls::gives(marked, process, function);
                    let passed = self.records.pass_plain_of(passes);
                    passed.map(|passed| {
                        tally.records += passed.records;
                        self.pass(passed);
                        passed.latest
                    })
                }
            };
            if let Some(ticks) = latest {
                // No time runs back behind what was passed over.
                self.last = self.last.max(self.clock.at(Ticks(ticks), &mut self.hint));
            }
            if let Calls::Marked(_) = self.calls
                && let Some(plain) = self.records.next_plain()
            {
                (self.plain, self.head) = (Some(plain), None);
                return Some(self.came(plain.time, tally));
            }
            if let Some((ticks, record)) = self.records.next() {
                let at = self.came(ticks, tally);
                let is_call =
                    matches!(record, Record::Plain { .. } | Record::Call { .. } | Record::Run(_));
                if is_call && matches!(self.calls, Calls::None) {
                    continue;
                }
                self.head = Some((ticks, record));
                return Some(at);
            }
            tally.damaged_blocks += u64::from(self.records.damaged());
            match self.blocks.next() {
                Some(block) => self.records = block.records(),
                None => {
                    self.head = None;
                    return None;
                }
            }
        }
    }
}

impl Cursor<'_, '_> {
    /// Adds calls to those that were passed over.
    pub(super) fn pass(&mut self, more: Passed) {
        self.passed = Some(self.passed.map_or(more, |before| Passed {
            records: before.records + more.records,
            latest: more.latest,
            ticks: before.ticks.saturating_add(more.ticks),
            longest: if more.longest.1 > before.longest.1 { more.longest } else { before.longest },
        }));
    }

    /// What was passed over before the record at hand, in nanoseconds.
    pub(super) fn take_passed(&mut self) -> Option<PassedCalls> {
        let passed = self.passed.take()?;
        // A rate for so short a time, as for calls in a row.
        let end = self.clock.at(Ticks(passed.latest), &mut self.hint);
        let mut ns = |ticks: u64| {
            end.since(self.clock.at(Ticks(passed.latest.saturating_sub(ticks)), &mut self.hint))
        };
        Some(PassedCalls {
            process: ProcessIndex(self.process),
            thread: ThreadIndex(self.thread),
            ns: ns(passed.ticks),
            longest: (passed.longest.0, ns(passed.longest.1)),
        })
    }
}
