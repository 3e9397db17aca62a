//! The sampler's files, `sensors.clt` and, of counters, `sensors-counters.clt`: what sensors there
//! were, what they read, what became of them, what reading them cost. Owns the bytes inside its
//! blocks; refuses to interpret readings. Header and blocks are those of every data file (the
//! crate's page), with kind 4, clock 2 (CLOCK_MONOTONIC_RAW in ns, always), thread 0 and base 0.
//!
//! # Records
//! A block's payload is a sequence of records, each padded with zeros to a multiple of 8:
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | u16 | kind, below; readers skip and count kinds they do not know |
//! | 2 | u16 | reserved, 0 |
//! | 4 | u32 | bytes of content, padding not counted |
//! | 8 | | content: the fields of the struct of that name in order, encoded as in definitions ([`crate::defs`]) |
//!
//! | kind | content |
//! |---|---|
//! | 1 [`Series`] | announces a series, before its first reading |
//! | 2 [`Readings`] | u32 series, u32 count, then `count` rows of 24 bytes: u64 time in ns, u64 value, u32 half-width of the time's bracket in ns (all ones: that much or more), u32 length of the span of which the value is the mean, in microseconds (0: none) |
//! | 3 [`Event`] | something that happened to a sensor or to the run |
//! | 4 [`Anchor`] | the kernel's clocks read together |
//! | 5 [`Updates`] | how often a series was seen to update |
//! | 6 [`Cost`] | what sampling cost so far; the last one counts |
//! | 7 [`SourceCost`] | the same of one source |
//! | 8 [`Finding`] | an interface that was looked for: works, or why not |
//! | 9 [`CounterSource`] | announces a source of counters, before its first window |
//! | 10 [`CounterWindows`] | u32 source, u32 width, u32 count, u32 0, then `count` rows of 48 + 8 * `width` bytes: u64 begin and end in ns, u64 begin and end in ticks of the device (0, 0: none), u32 half-width of the bracket of the ends in ns, u32 flags (1: something is missing inside; 2: a context is known; 4: the times in ns are known; 8: other commands were under way), u32 context, u32 command (low half of the id of the command that the window was read around; 0: none), and `width` u64 counts (all ones: not known) |
//! | 11 [`CounterReport`] | what a runtime's own counters said of one command, as the runtime gave it |
//!
//! # Values
//! A reading's value is a u64 whose meaning is the series' [`Quantity`]: microjoules since the
//! first reading of the series, wraps undone (energy); microwatts (power); an f64's bits (clock in
//! MHz, percent, MiB/s); an i64's bits (temperature in thousandths of a degree Celsius); bits
//! (flags). Rows are in the order in which they were read, which for a driver that stamps its
//! readings itself need not be that of their times.

use crate::field::Field;
use crate::file::BlockHeader;
use crate::stream::{Block, Blocks};

mod rows;

pub use rows::{CounterWindow, CounterWindows, NO_COUNT, ROW, Reading, Readings, WINDOW_HEAD};

/// Name of the file in a trace directory in which `clscope record` leaves, as records of this
/// module, the sources of counters that an application is to read around its commands.
pub const COUNTER_PLAN: &str = "counters.plan";
/// Longest content that a reader believes.
pub const MAX_CONTENT: usize = 1 << 24;

macro_rules! quantities {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $unit:literal;)*) => {
        /// What a series measures.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        #[repr(u8)]
        pub enum Quantity {
            $($(#[$doc])* $name = $value,)*
            /// Of a newer writer.
            #[default]
            Unknown = 255,
        }
        impl Quantity {
            /// The unit of its values, for people.
            pub const fn unit(self) -> &'static str { match self { $(Quantity::$name => $unit,)* Quantity::Unknown => "?" } }
            /// From its number.
            pub const fn from_u8(value: u8) -> Self { match value { $($value => Quantity::$name,)* _ => Quantity::Unknown } }
        }
    };
}
quantities! {
    /// Energy.
    Energy = 1, "uJ";
    /// Power.
    Power = 2, "uW";
    /// A clock.
    Clock = 3, "MHz";
    /// A temperature.
    Temperature = 4, "mC";
    /// A share.
    Percent = 5, "%";
    /// A rate of bytes.
    Bandwidth = 6, "MiB/s";
    /// A set of flags.
    Flags = 7, "bits";
}

impl Quantity {
    /// A stored value as a number of [`unit`](Self::unit).
    pub fn number(self, value: u64) -> f64 {
        match self {
            Self::Clock | Self::Percent | Self::Bandwidth => f64::from_bits(value),
            Self::Temperature => value as i64 as f64,
            Self::Energy | Self::Power | Self::Flags | Self::Unknown => value as f64,
        }
    }
}

impl Field for Quantity {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u8).put(out);
    }
    fn get(from: &mut &[u8]) -> Option<Self> {
        u8::get(from).map(Self::from_u8)
    }
}

/// A struct of fields in order; what the bytes lack at their end reads as the default.
macro_rules! contents {
    ($($(#[$doc:meta])* $kind:literal $name:ident { $($(#[$fdoc:meta])* $field:ident: $t:ty,)* })*) => {
        $($(#[$doc])* #[derive(Debug, Clone, Default, PartialEq)] pub struct $name { $($(#[$fdoc])* pub $field: $t,)* })*

        /// One record.
        #[derive(Debug, Clone, PartialEq)]
        #[allow(missing_docs)] // each variant is the struct of its name
        pub enum Record<'a> { $($name($name),)* Readings(Readings<'a>), CounterWindows(CounterWindows<'a>), /// A kind this version does not know.
            Unknown { /// Its number.
                kind: u16 } }

        $(impl From<$name> for Record<'_> { fn from(value: $name) -> Self { Record::$name(value) } })*

        impl Record<'_> {
            fn kind(&self) -> u16 {
                match self { $(Record::$name(_) => $kind,)* Record::Readings(_) => READINGS, Record::CounterWindows(_) => WINDOWS, Record::Unknown { kind } => *kind }
            }
            fn put_content(&self, out: &mut Vec<u8>) {
                match self {
                    $(Record::$name(d) => { $(d.$field.put(out);)* })*
                    Record::Readings(r) => {
                        r.series.put(out);
                        ((r.rows.len() / ROW) as u32).put(out);
                        out.extend_from_slice(r.rows);
                    }
                    Record::CounterWindows(w) => {
                        let count = w.rows.len() / (WINDOW_HEAD + 8 * w.width as usize);
                        [w.source, w.width, count as u32, 0].iter().for_each(|n| n.put(out));
                        out.extend_from_slice(w.rows);
                    }
                    Record::Unknown { .. } => {}
                }
            }
        }

        fn content<'a>(kind: u16, mut from: &'a [u8]) -> Option<Record<'a>> {
            Some(match kind {
                $($kind => Record::$name($name {
                    $($field: if from.is_empty() { <$t>::default() } else { <$t as Field>::get(&mut from)? },)*
                }),)*
                READINGS => {
                    let (series, count) = (u32::get(&mut from)?, u32::get(&mut from)? as usize);
                    Record::Readings(Readings { series, rows: from.get(..count.checked_mul(ROW)?)? })
                }
                WINDOWS => {
                    let (source, width, count) = (u32::get(&mut from)?, u32::get(&mut from)?, u32::get(&mut from)? as usize);
                    u32::get(&mut from)?;
                    let length = (width as usize).checked_mul(8)?.checked_add(WINDOW_HEAD)?;
                    Record::CounterWindows(CounterWindows { source, width, rows: from.get(..count.checked_mul(length)?)? })
                }
                kind => Record::Unknown { kind },
            })
        }
    };
}
contents! {
    /// A series.
    1 Series {
        /// Number of the series in this file.
        id: u32,
        /// The source that reads it: `powercap`, `nvml:ring:0`.
        source: String,
        /// Name within the source: `package-0/dram`.
        name: String,
        /// What it measures.
        quantity: Quantity,
        /// The part of the machine: `PKG`, `PP0`, `PP1`, `DRAM`, `PSYS`, `GPU`, `GPU card`, ... ;
        /// empty if none.
        plane: String,
        /// CPU package it belongs to.
        package: Option<u32>,
        /// PCI address of its device, `dddd:bb:dd.f`.
        pci: Option<String>,
        /// UUID of its device as the vendor writes it.
        uuid: Option<String>,
        /// Name of its device.
        device: Option<String>,
        /// What the figure includes or leaves out.
        includes: Option<String>,
        /// Averaging window that the source states, in ns.
        window_ns: Option<u64>,
        /// For energy, what a count of the sensor's register is worth: numerator and denominator in
        /// microjoules; 0 else.
        count_numerator: u64,
        /// See above.
        count_denominator: u64,
    }
    /// Something that happened.
    3 Event {
        /// When, ns.
        time: u64,
        /// Stable name: `works`, `dead`, `stalled`, `jumped`, `repeats`, `trouble`, `lost`,
        /// `application-started`, `application-ended`.
        code: String,
        /// The series it is about, if it is about one.
        series: Option<u32>,
        /// The source it is about; empty if none.
        source: String,
        /// In words, with the next step where there is one.
        text: String,
    }
    /// The kernel's clocks at one moment, ns.
    4 Anchor {
        /// CLOCK_MONOTONIC_RAW.
        raw: u64,
        /// CLOCK_MONOTONIC.
        monotonic: u64,
        /// CLOCK_REALTIME.
        realtime: u64,
    }
    /// How often a series was seen to update.
    5 Updates {
        /// The series.
        series: u32,
        /// Period in ns, and the half-width of its 95 % interval.
        period_ns: f64,
        /// See above.
        period_error_ns: f64,
        /// Jitter of an update about its place in the grid, ns.
        jitter_ns: f64,
        /// Time between reads from then on, ns.
        every_ns: u64,
        /// Why there is no estimate; empty if there is one.
        none: String,
    }
    /// What sampling cost.
    6 Cost {
        /// When this was summed up, ns.
        time: u64,
        /// Time since sampling began, ns.
        wall_ns: u64,
        /// CPU time of the sampling thread, ns.
        cpu_ns: u64,
    }
    /// What sampling one source cost and gave.
    7 SourceCost {
        /// The source.
        source: String,
        /// Reads made.
        reads: u64,
        /// Reads that failed, wholly or in part.
        failures: u64,
        /// CPU time of its reads, ns.
        cpu_ns: u64,
        /// Time spent in its reads, ns.
        wall_ns: u64,
        /// Time between reads at the end, ns.
        every_ns: u64,
        /// Readings seen twice and left out.
        duplicates: u64,
        /// Readings that came later than newer ones.
        late: u64,
        /// Readings known to be missing.
        missing: u64,
        /// Readings refused as not plausible.
        refused: u64,
        /// Whether it was given up.
        lost: bool,
    }
    /// An interface that was looked for.
    8 Finding {
        /// The interface, for people.
        name: String,
        /// `works`, `opened`, `absent`, `refused`, `dead` or `skipped`.
        state: String,
        /// Why it is not used; empty if it is.
        why: String,
        /// The one command that helps; empty if none does.
        remedy: String,
    }
    /// A source of counters, with the figures that are formed of them.
    9 CounterSource {
        /// Number of the source in this file.
        id: u32,
        /// `oa:i915:card0`, `perf:1234`.
        name: String,
        /// PCI address of its device, `dddd:bb:dd.f`.
        pci: Option<String>,
        /// Process whose threads it counts, for CPU devices.
        pid: Option<u32>,
        /// Its counters, in the order of the windows' counts.
        counters: Vec<String>,
        /// Of OA: the report format, as the kernel calls it, and the generation. Empty else.
        format: String,
        /// See above.
        generation: String,
        /// Frequency of the device's ticks, Hz; 0 if there are none.
        hz: u64,
        /// Length of its windows, ns; 0 if it varies.
        period_ns: u64,
        /// The metric set, its UUID, and where it comes from; empty if none.
        set: String,
        /// See above.
        uuid: String,
        /// See above.
        origin: String,
        /// Figures of the set: names, units, equations in the set's notation, and descriptions.
        figures: Vec<String>,
        /// See above.
        units: Vec<String>,
        /// See above.
        equations: Vec<String>,
        /// See above.
        meanings: Vec<String>,
        /// Variables of the equations, without their dollar signs, and their values.
        variables: Vec<String>,
        /// See above.
        values: Vec<u64>,
        /// What measuring does to the device; empty if nothing.
        side_effect: String,
    }
    /// What a runtime's own counters said of one command.
    11 CounterReport {
        /// The source.
        source: u32,
        /// The command's id.
        command: u64,
        /// The bytes as the runtime gave them.
        bytes: Vec<u8>,
    }
}

const READINGS: u16 = 2;
const WINDOWS: u16 = 10;

/// Appends a record to a block's payload.
pub fn encode(record: &Record<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    record.kind().put(out);
    0u16.put(out);
    0u32.put(out);
    record.put_content(out);
    let length = (out.len() - start - 8) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    out.resize(out.len().next_multiple_of(8), 0);
}

/// A block ready to be appended to the file.
pub fn block(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let header = BlockHeader {
        thread: 0,
        sequence,
        length: payload.len() as u32,
        base: 0,
        checksum: crate::checksum(payload),
    };
    let mut out = Vec::with_capacity(crate::file::BLOCK_HEADER_LEN + payload.len() + 8);
    out.extend_from_slice(&header.encode());
    out.extend_from_slice(payload);
    out.resize(out.len().next_multiple_of(8), 0);
    out
}

/// Iterates over the records of a whole file, header included; the header is taken as checked.
/// Damage costs the block it is in; [`damage`](Self::damage) tells.
#[derive(Debug, Clone)]
pub struct Records<'a> {
    blocks: Blocks<'a>,
    payload: &'a [u8],
    damaged: u64,
}

impl<'a> Records<'a> {
    /// Over the bytes of a file.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { blocks: Blocks::new(bytes), payload: &[], damaged: 0 }
    }

    /// Over the payload of one block.
    pub fn of_block(payload: &'a [u8]) -> Self {
        Self { blocks: Blocks::new(&[]), payload, damaged: 0 }
    }

    /// Blocks torn, damaged or not readable to their end, so far.
    pub fn damage(&self) -> u64 {
        self.blocks.damage().torn_blocks + self.damaged
    }

    fn record(&mut self) -> Option<Record<'a>> {
        let mut from = self.payload;
        let kind = u16::get(&mut from)?;
        u16::get(&mut from)?;
        let length = u32::get(&mut from)? as usize;
        if length > MAX_CONTENT {
            return None;
        }
        let record = content(kind, from.get(..length)?)?;
        self.payload = from.get(length.next_multiple_of(8)..).unwrap_or(&[]);
        Some(record)
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        loop {
            while self.payload.is_empty() {
                let Block { payload, .. } = self.blocks.next()?;
                self.payload = payload;
            }
            match self.record() {
                Some(record) => return Some(record),
                None => {
                    self.damaged += 1;
                    self.payload = &[];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::HEADER_LEN;

    fn rows() -> Vec<u8> {
        let mut rows = Vec::new();
        for i in 0..5u64 {
            Reading { time: i * 1000, value: i << 40, bracket_ns: 7, mean_over_us: 0 }
                .append_to(&mut rows);
        }
        rows
    }

    fn samples(rows: &[u8]) -> Vec<Record<'_>> {
        vec![
            Series {
                id: 3,
                source: "powercap".into(),
                quantity: Quantity::Energy,
                package: Some(1),
                ..Default::default()
            }
            .into(),
            Record::Readings(Readings::new(3, rows)),
            Event { time: 9, code: "stalled".into(), series: Some(3), ..Default::default() }.into(),
            Anchor { raw: 1, monotonic: 2, realtime: 3 }.into(),
            Updates { series: 3, period_ns: 1e6, ..Default::default() }.into(),
            Cost { time: 1, wall_ns: 2, cpu_ns: 3 }.into(),
            SourceCost { source: "x".into(), lost: true, ..Default::default() }.into(),
            Finding { name: "RAPL".into(), state: "absent".into(), ..Default::default() }.into(),
            CounterSource {
                id: 1,
                name: "oa".into(),
                counters: vec!["A7".into()],
                values: vec![24],
                ..Default::default()
            }
            .into(),
            CounterReport { source: 1, command: 7, bytes: vec![1, 2, 3] }.into(),
            // Any bytes are a row of as many counts as they have room for.
            Record::CounterWindows(CounterWindows::new(
                1,
                ((rows.len() - WINDOW_HEAD) / 8) as u32,
                rows,
            )),
        ]
    }

    #[test]
    fn windows_round_trip_with_what_is_not_known() {
        let whole = CounterWindow {
            host: Some((10, 20)),
            ticks: Some((1, 2)),
            command: 77,
            shared: true,
            within_ns: 3,
            broken: true,
            context: Some(0),
            counts: vec![Some(0), None, Some(u64::MAX - 1)],
        };
        let bare = CounterWindow { counts: vec![None; 3], ..Default::default() };
        let mut rows = Vec::new();
        [&whole, &bare].iter().for_each(|w| w.append_to(&mut rows));
        let mut payload = Vec::new();
        encode(&Record::CounterWindows(CounterWindows::new(7, 3, &rows)), &mut payload);
        let mut bytes = vec![0; HEADER_LEN];
        bytes.extend(block(0, &payload));
        let read: Vec<_> = Records::new(&bytes).collect();
        let [Record::CounterWindows(windows)] = read[..] else { panic!("{read:?}") };
        assert_eq!((windows.source, windows.width), (7, 3));
        assert_eq!(windows.iter().collect::<Vec<_>>(), [whole, bare]);
    }

    fn file(rows: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_LEN];
        for (i, pair) in samples(rows).chunks(3).enumerate() {
            let mut payload = Vec::new();
            pair.iter().for_each(|r| encode(r, &mut payload));
            bytes.extend(block(i as u32, &payload));
        }
        bytes
    }

    #[test]
    fn records_round_trip() {
        let rows = rows();
        let bytes = file(&rows);
        let mut read = Records::new(&bytes);
        assert_eq!(read.by_ref().collect::<Vec<_>>(), samples(&rows));
        assert_eq!(read.damage(), 0);
        let Record::Readings(readings) = samples(&rows)[1].clone() else {
            panic!("readings stand second")
        };
        assert_eq!(readings.iter().map(|r| r.value >> 40).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn every_flip_and_cut_costs_at_most_its_block() {
        let rows = rows();
        let bytes = file(&rows);
        let whole = samples(&rows);
        for at in HEADER_LEN..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 0x41;
            let read: Vec<_> = Records::new(&bad).collect();
            assert!(
                read.iter().all(|r| whole.contains(r)) && read.len() + 3 >= whole.len(),
                "flip at {at}"
            );
            let read: Vec<_> = Records::new(&bytes[..at]).collect();
            assert_eq!(read, whole[..read.len()], "cut at {at}");
        }
    }

    #[test]
    fn newer_kinds_are_skipped_and_older_contents_read_with_defaults() {
        let mut payload = Vec::new();
        77u16.put(&mut payload);
        0u16.put(&mut payload);
        8u32.put(&mut payload);
        1u64.put(&mut payload);
        1u16.put(&mut payload);
        0u16.put(&mut payload);
        4u32.put(&mut payload);
        5u32.put(&mut payload);
        0u32.put(&mut payload);
        let mut bytes = vec![0; HEADER_LEN];
        bytes.extend(block(0, &payload));
        let read: Vec<_> = Records::new(&bytes).collect();
        assert_eq!(
            read,
            [Record::Unknown { kind: 77 }, Series { id: 5, ..Default::default() }.into()]
        );
    }

    #[test]
    fn hostile_counts_are_no_readings() {
        for (kind, words) in [
            (READINGS, [1, u32::MAX, 0, 0]),
            (WINDOWS, [1, 1, u32::MAX, 0]),
            (WINDOWS, [1, u32::MAX, 1, 0]),
        ] {
            let mut payload = Vec::new();
            kind.put(&mut payload);
            0u16.put(&mut payload);
            16u32.put(&mut payload);
            words.iter().for_each(|w| w.put(&mut payload));
            let mut bytes = vec![0; HEADER_LEN];
            bytes.extend(block(0, &payload));
            let mut read = Records::new(&bytes);
            assert_eq!(read.next(), None);
            assert_eq!(read.damage(), 1);
        }
    }
}
