//! Rows of readings and of windows of counters: what a record of either holds many of. Refuses to
//! interpret a value; its series or source says what it means.

use crate::field::Field;

/// Bytes of one row of readings.
pub const ROW: usize = 24;
/// Bytes of a row of windows before its counts.
pub const WINDOW_HEAD: usize = 48;
/// A count that is not known.
pub const NO_COUNT: u64 = u64::MAX;

/// Windows of one source of counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CounterWindows<'a> {
    /// The source.
    pub source: u32,
    /// Counts in each.
    pub width: u32,
    pub(super) rows: &'a [u8],
}

/// One window: counters between two moments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CounterWindow {
    /// Beginning and end, ns of CLOCK_MONOTONIC_RAW; `None` where they are not known.
    pub host: Option<(u64, u64)>,
    /// The same in ticks of the device, where it has any.
    pub ticks: Option<(u64, u64)>,
    /// Each end is known to this many ns.
    pub within_ns: u32,
    /// Something is missing inside: the counts are right, but not whose they are.
    pub broken: bool,
    /// The device's context that ran throughout.
    pub context: Option<u32>,
    /// Low half of the id of the command that was waited for between the two readings; 0 where the
    /// window is no snapshot.
    pub command: u32,
    /// Other commands were under way meanwhile: theirs is in the counts.
    pub shared: bool,
    /// Counts; `None` where not known.
    pub counts: Vec<Option<u64>>,
}

impl CounterWindow {
    /// Appends the row's bytes.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let (host, ticks) = (self.host.unwrap_or_default(), self.ticks.unwrap_or_default());
        let flags = [self.broken, self.context.is_some(), self.host.is_some(), self.shared];
        let flags = flags.iter().rev().fold(0, |bits, flag| bits << 1 | u32::from(*flag));
        [host.0, host.1, ticks.0, ticks.1].iter().for_each(|n| n.put(out));
        [self.within_ns, flags, self.context.unwrap_or(0), self.command]
            .iter()
            .for_each(|n| n.put(out));
        self.counts.iter().for_each(|n| n.unwrap_or(NO_COUNT).put(out));
    }
}

impl<'a> CounterWindows<'a> {
    /// From rows that [`CounterWindow::append_to`] wrote.
    pub fn new(source: u32, width: u32, rows: &'a [u8]) -> Self {
        Self { source, width, rows }
    }

    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = CounterWindow> + 'a {
        let length = WINDOW_HEAD + 8 * self.width as usize;
        self.rows.chunks_exact(length).filter_map(|mut row| {
            let from = &mut row;
            let host = (u64::get(from)?, u64::get(from)?);
            let ticks = (u64::get(from)?, u64::get(from)?);
            let (within_ns, flags, context) = (u32::get(from)?, u32::get(from)?, u32::get(from)?);
            let command = u32::get(from)?;
            let mut counts = Vec::with_capacity(from.len() / 8);
            while let Some(count) = u64::get(from) {
                counts.push((count != NO_COUNT).then_some(count));
            }
            Some(CounterWindow {
                host: (flags & 4 != 0).then_some(host),
                ticks: (ticks != (0, 0)).then_some(ticks),
                within_ns,
                broken: flags & 1 != 0,
                context: (flags & 2 != 0).then_some(context),
                command,
                shared: flags & 8 != 0,
                counts,
            })
        })
    }
}

/// Readings of one series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readings<'a> {
    /// The series.
    pub series: u32,
    /// Rows of [`ROW`] bytes.
    pub(super) rows: &'a [u8],
}

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// When, ns of CLOCK_MONOTONIC_RAW.
    pub time: u64,
    /// The value; see [`Quantity`](super::Quantity).
    pub value: u64,
    /// The reading happened within this many ns of `time`; the greatest number means that much or
    /// more.
    pub bracket_ns: u32,
    /// Length in microseconds of the span that ends at `time` and of which the value is the mean; 0
    /// if it is none.
    pub mean_over_us: u32,
}

impl Reading {
    /// Appends the row's bytes.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        self.time.put(out);
        self.value.put(out);
        self.bracket_ns.put(out);
        self.mean_over_us.put(out);
    }
}

impl<'a> Readings<'a> {
    /// From rows that [`Reading::append_to`] wrote.
    pub fn new(series: u32, rows: &'a [u8]) -> Self {
        Self { series, rows }
    }

    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = Reading> + 'a {
        self.rows.chunks_exact(ROW).filter_map(|mut row| {
            let from = &mut row;
            Some(Reading {
                time: u64::get(from)?,
                value: u64::get(from)?,
                bracket_ns: u32::get(from)?,
                mean_over_us: u32::get(from)?,
            })
        })
    }
}
