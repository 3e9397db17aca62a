//! Layouts of OA reports: which counter stands at which byte, and how wide it is. Owns the tables;
//! refuses to guess: where two published descriptions of a format differ, both are here and the
//! caller chooses.
//!
//! Sources: the kernel's `oa_formats` (sizes, hardware select), the offsets of igt's tests, and the
//! report tables 2.1 to 2.4 of the Gen9.5 thesis (Duarte 2018). Decoded as specified: none of it
//! was checked on a device.
#![forbid(unsafe_code)]

use std::fmt;

/// A family of counters, as metric equations name them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// Aggregating counters.
    A,
    /// Boolean counters, also those of media units.
    B,
    /// Boolean counters behind a second stage.
    C,
    /// Performance event counters of Xe2 and of media units.
    Pec,
}

impl Group {
    /// The name in equations.
    pub fn name(self) -> &'static str {
        match self {
            Group::A => "A",
            Group::B => "B",
            Group::C => "C",
            Group::Pec => "PEC",
        }
    }
}

/// One counter of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter {
    /// Its family.
    pub group: Group,
    /// Its number.
    pub index: u8,
}

impl Counter {
    /// `A7` is `Counter::new(Group::A, 7)`.
    pub const fn new(group: Group, index: u8) -> Counter {
        Counter { group, index }
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.group.name(), self.index)
    }
}

/// How a run of counters is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// One dword each.
    Bits32,
    /// A dword each, and bits 39:32 in one byte each from `high`.
    Bits40 {
        /// Byte offset of the first high byte.
        high: u16,
    },
    /// A qword each.
    Bits64,
}

/// A run of counters with consecutive numbers at consecutive places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Family.
    pub group: Group,
    /// First number.
    pub first: u8,
    /// How many.
    pub count: u8,
    /// Byte offset of the first.
    pub at: u16,
    /// How each is stored.
    pub width: Width,
}

/// The four words in front of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// u32 id, u32 timestamp, u32 context.
    Bits32,
    /// u64 id, u64 timestamp, u32 context in dword 4.
    Bits64,
}

/// Where GPU_TICKS stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticks {
    /// The format has none.
    None,
    /// A dword at this byte.
    Bits32(u16),
    /// A qword at this byte.
    Bits64(u16),
}

/// A report's layout.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The kernel's name of the format.
    pub name: &'static str,
    /// Bytes of a report.
    pub bytes: usize,
    /// Shape of id, timestamp and context.
    pub header: Header,
    /// Where GPU_TICKS stands.
    pub ticks: Ticks,
    /// The counters.
    pub blocks: &'static [Block],
    /// What is not certain about this layout.
    pub doubt: Option<&'static str>,
}

/// The most values of any layout: time, ticks, and 64 + 16 counters.
pub const MAX_SLOTS: usize = 82;
/// Slot of the timestamp in [`crate::Counts`].
pub const TIME_SLOT: usize = 0;
/// Slot of GPU_TICKS.
pub const TICKS_SLOT: usize = 1;

impl Layout {
    /// How many values a report of this layout has, timestamp and ticks included.
    pub fn slots(&self) -> usize {
        2 + self.blocks.iter().map(|b| usize::from(b.count)).sum::<usize>()
    }

    /// The index of a counter in [`crate::Counts`]; `None` where the format does not have it.
    pub fn slot(&self, counter: Counter) -> Option<usize> {
        let mut base = 2;
        for block in self.blocks {
            if block.group == counter.group
                && (block.first..block.first + block.count).contains(&counter.index)
            {
                return Some(base + usize::from(counter.index - block.first));
            }
            base += usize::from(block.count);
        }
        None
    }

    /// All counters, in slot order.
    pub fn counters(&self) -> impl Iterator<Item = Counter> + '_ {
        self.blocks.iter().flat_map(|b| {
            (b.first..b.first + b.count).map(|index| Counter { group: b.group, index })
        })
    }

    /// How many bits the timestamp has.
    pub fn timestamp_bits(&self) -> u32 {
        if self.header == Header::Bits64 { 64 } else { 32 }
    }
}

/// Which of two published layouts to follow where they differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Published {
    /// Tables 2.1 to 2.4 of the Gen9.5 thesis: GPU_TICKS in dword 3, counters packed behind it.
    #[default]
    Tables,
    /// The offsets in igt's tests, where the A block of short formats starts at byte 12.
    IgtTests,
}

const fn run(group: Group, first: u8, count: u8, at: u16) -> Block {
    Block { group, first, count, at, width: Width::Bits32 }
}

const fn run40(first: u8, count: u8) -> Block {
    Block {
        group: Group::A,
        first,
        count,
        at: 16 + 4 * first as u16,
        width: Width::Bits40 { high: 160 + first as u16 },
    }
}

const fn run64(group: Group, first: u8, count: u8, at: u16) -> Block {
    Block { group, first, count, at, width: Width::Bits64 }
}

const fn short(
    name: &'static str,
    bytes: usize,
    ticks: Ticks,
    blocks: &'static [Block],
    doubt: Option<&'static str>,
) -> Layout {
    Layout { name, bytes, header: Header::Bits32, ticks, blocks, doubt }
}

const fn long(
    name: &'static str,
    bytes: usize,
    blocks: &'static [Block],
    doubt: Option<&'static str>,
) -> Layout {
    Layout { name, bytes, header: Header::Bits64, ticks: Ticks::Bits64(24), blocks, doubt }
}

use Group::{A, B, C, Pec};
const B8: Block = run(B, 0, 8, 192);
const C8: Block = run(C, 0, 8, 224);
const HSW: Option<&str> =
    Some("Haswell: offsets from igt's tests alone; the format has no GPU_TICKS");
const OVERLAP: Option<&str> = Some(
    "igt's tests give offsets that overlap; this reading packs the blocks, as the size of the report demands",
);
const OVERLAPS: Option<&str> =
    Some("offsets of igt's tests, in which two blocks overlap by a dword");
const DWORD3: Option<&str> = Some(
    "unresolved: the Gen9.5 thesis has GPU_TICKS in dword 3, igt's tests have the A block there",
);

static HSW_A13: Layout = short("A13", 64, Ticks::None, &[run(A, 0, 13, 12)], HSW);
static HSW_A29: Layout = short("A29", 128, Ticks::None, &[run(A, 0, 29, 12)], HSW);
static HSW_A13_B8_C8: Layout = short(
    "A13_B8_C8",
    128,
    Ticks::None,
    &[run(A, 0, 13, 12), run(B, 0, 8, 64), run(C, 0, 8, 96)],
    HSW,
);
static HSW_B4_C8: Layout =
    short("B4_C8", 64, Ticks::None, &[run(B, 0, 4, 16), run(C, 0, 8, 32)], HSW);
static HSW_A45_B8_C8: Layout =
    short("A45_B8_C8", 256, Ticks::None, &[run(A, 0, 45, 12), B8, C8], HSW);
static HSW_B4_C8_A16: Layout = short(
    "B4_C8_A16",
    128,
    Ticks::None,
    &[run(B, 0, 4, 16), run(C, 0, 8, 32), run(A, 29, 16, 64)],
    OVERLAP,
);
static HSW_B4_C8_A16_IGT: Layout = short(
    "B4_C8_A16",
    128,
    Ticks::None,
    &[run(B, 0, 4, 16), run(C, 0, 8, 32), run(A, 29, 16, 60)],
    OVERLAPS,
);
static HSW_C4_B8: Layout =
    short("C4_B8", 64, Ticks::None, &[run(C, 0, 4, 16), run(B, 0, 8, 32)], OVERLAP);
static HSW_C4_B8_IGT: Layout =
    short("C4_B8", 64, Ticks::None, &[run(C, 0, 4, 16), run(B, 0, 8, 28)], OVERLAPS);

// From Gen8 on all descriptions agree; byte 28 for B0 is Haswell's alone.
static C4_B8: Layout =
    short("C4_B8", 64, Ticks::Bits32(12), &[run(C, 0, 4, 16), run(B, 0, 8, 32)], None);
static A12: Layout = short("A12", 64, Ticks::Bits32(12), &[run(A, 7, 12, 16)], DWORD3);
static A12_IGT: Layout = short("A12", 64, Ticks::None, &[run(A, 7, 12, 12)], DWORD3);
static A12_B8_C8: Layout = short(
    "A12_B8_C8",
    128,
    Ticks::Bits32(12),
    &[run(A, 7, 12, 16), run(B, 0, 8, 64), run(C, 0, 8, 96)],
    DWORD3,
);
static A12_B8_C8_IGT: Layout = short(
    "A12_B8_C8",
    128,
    Ticks::None,
    &[run(A, 7, 12, 12), run(B, 0, 8, 64), run(C, 0, 8, 96)],
    DWORD3,
);
const FORMAT_5: &[Block] = &[run40(0, 32), run(A, 32, 4, 144), B8, C8];
static A32U40: Layout = short("A32u40_A4u32_B8_C8", 256, Ticks::Bits32(12), FORMAT_5, None);
static OAR_A32U40: Layout = short("OAR_A32u40_A4u32_B8_C8", 256, Ticks::Bits32(12), FORMAT_5, None);
static A24U40: Layout = short(
    "A24u40_A14u32_B8_C8",
    256,
    Ticks::Bits32(12),
    // A36 and A37 stand where the high bytes of A0-A3 and of A24-A27 would be.
    &[
        run(A, 0, 4, 16),
        run40(4, 20),
        run(A, 24, 4, 112),
        run40(28, 4),
        run(A, 32, 4, 144),
        run(A, 36, 1, 160),
        run(A, 37, 1, 184),
        B8,
        C8,
    ],
    None,
);
static OAM_64: Layout = long(
    "OAM_MPEC8u64_B8_C8",
    192,
    &[run64(Pec, 0, 8, 32), run(B, 0, 8, 96), run(C, 0, 8, 128)],
    None,
);
static OAM_32: Layout = long(
    "OAM_MPEC8u32_B8_C8",
    128,
    &[run(Pec, 0, 8, 32), run(B, 0, 8, 64), run(C, 0, 8, 96)],
    None,
);
static OAC: Layout = long(
    "OAC_A24u64_B8_C8",
    320,
    &[run64(A, 28, 8, 160), run(B, 0, 8, 224), run(C, 0, 8, 256)],
    Some(
        "which A counters the first sixteen qwords hold is not published: only A28 to A35 are decoded",
    ),
);
static PEC64U64: Layout = long("PEC64u64", 576, &[run64(Pec, 0, 64, 32)], None);

/// What is known of a format.
struct Row {
    /// The layout by the thesis' tables and by igt's tests.
    layouts: [&'static Layout; 2],
    i915: Option<u64>,
    select: u32,
    /// Type and counter size of xe's word.
    xe: Option<u64>,
}

macro_rules! formats {
    ($($name:ident: $tables:ident $igt:ident, $i915:expr, $select:literal, $xe:expr;)*) => {
        /// A report format the kernel can be asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "the kernel's names; the layouts say what each holds")]
        pub enum Format { $($name),* }

        impl Format {
            /// Every format there is a layout for.
            pub const ALL: [Format; [$(Format::$name),*].len()] = [$(Format::$name),*];

            const fn row(self) -> Row {
                match self {
                    $(Format::$name => Row { layouts: [&$tables, &$igt], i915: $i915, select: $select, xe: $xe },)*
                }
            }
        }
    };
}

formats! {
    HswA13: HSW_A13 HSW_A13, Some(1), 0, None;
    HswA29: HSW_A29 HSW_A29, Some(2), 1, None;
    HswA13B8C8: HSW_A13_B8_C8 HSW_A13_B8_C8, Some(3), 2, None;
    HswB4C8: HSW_B4_C8 HSW_B4_C8, Some(4), 4, None;
    HswA45B8C8: HSW_A45_B8_C8 HSW_A45_B8_C8, Some(5), 5, None;
    HswB4C8A16: HSW_B4_C8_A16 HSW_B4_C8_A16_IGT, Some(6), 6, None;
    HswC4B8: HSW_C4_B8 HSW_C4_B8_IGT, Some(7), 7, None;
    C4B8: C4_B8 C4_B8, Some(7), 7, Some(0);
    A12: A12 A12_IGT, Some(8), 0, Some(0);
    A12B8C8: A12_B8_C8 A12_B8_C8_IGT, Some(9), 2, Some(0);
    A32u40A4u32B8C8: A32U40 A32U40, Some(10), 5, Some(0);
    OarA32u40A4u32B8C8: OAR_A32U40 OAR_A32U40, Some(11), 5, Some(1);
    A24u40A14u32B8C8: A24U40 A24U40, Some(12), 5, Some(0);
    OamMpec8u64B8C8: OAM_64 OAM_64, Some(13), 1, Some(4);
    OamMpec8u32B8C8: OAM_32 OAM_32, Some(14), 2, Some(4);
    OacA24u64B8C8: OAC OAC, None, 1, Some(3);
    Pec64u64: PEC64U64 PEC64U64, None, 1, Some(5 | 1 << 16);
}

impl Format {
    /// The layout, following `reading` where descriptions differ.
    pub fn layout(self, reading: Published) -> &'static Layout {
        let [tables, igt] = self.row().layouts;
        if reading == Published::IgtTests { igt } else { tables }
    }

    /// The value of i915's OA_FORMAT property (i915_drm.h, enum drm_i915_oa_format).
    pub fn i915_value(self) -> Option<u64> {
        self.row().i915
    }

    /// The format of an i915 value; `haswell` decides what 7 means.
    pub fn from_i915(value: u64, haswell: bool) -> Option<Format> {
        let matches =
            |f: &&Format| f.i915_value() == Some(value) && f.is_haswell() == (haswell || value < 7);
        Format::ALL.iter().find(matches).copied()
    }

    /// Whether only Haswell has it.
    pub fn is_haswell(self) -> bool {
        self <= Format::HswC4B8
    }

    /// The hardware's counter select (OACONTROL), by which the Gen9.5 thesis names formats.
    pub fn select(self) -> u32 {
        self.row().select
    }

    /// xe's format word: type 7:0, select 15:8, counter size 23:16, BC report 31:24.
    pub fn xe_word(self) -> Option<u64> {
        Some(self.row().xe? | u64::from(self.select()) << 8)
    }

    /// By the kernel's name, in any case; an `HSW_` in front asks for Haswell's where both have the
    /// name.
    pub fn by_name(name: &str) -> Option<Format> {
        let (haswell, bare) = match name.get(..4) {
            Some(p) if p.eq_ignore_ascii_case("HSW_") => (true, name.get(4..)?),
            _ => (false, name),
        };
        let named = |f: &&Format| {
            f.layout(Published::Tables).name.eq_ignore_ascii_case(bare)
                && (!haswell || f.is_haswell())
        };
        // Haswell's come first in the table: without the prefix the later one is meant.
        Format::ALL.iter().rev().find(named).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_layouts() -> Vec<&'static Layout> {
        Format::ALL
            .iter()
            .flat_map(|f| [f.layout(Published::Tables), f.layout(Published::IgtTests)])
            .collect()
    }

    fn places(layout: &Layout) -> Vec<(usize, usize)> {
        let mut at = match layout.header {
            Header::Bits32 => vec![(0, 12)],
            Header::Bits64 => vec![(0, 20)],
        };
        match layout.ticks {
            Ticks::None => {}
            Ticks::Bits32(p) => at.push((p.into(), 4)),
            Ticks::Bits64(p) => at.push((p.into(), 8)),
        }
        for block in layout.blocks {
            for i in 0..usize::from(block.count) {
                let base = usize::from(block.at);
                match block.width {
                    Width::Bits32 => at.push((base + 4 * i, 4)),
                    Width::Bits40 { high } => {
                        at.extend([(base + 4 * i, 4), (usize::from(high) + i, 1)])
                    }
                    Width::Bits64 => at.push((base + 8 * i, 8)),
                }
            }
        }
        at
    }

    #[test]
    fn layouts_fit_and_overlap_only_where_said() {
        for layout in all_layouts() {
            assert!(
                layout.slots() <= MAX_SLOTS && layout.bytes <= 640 && layout.bytes % 64 == 0,
                "{}",
                layout.name
            );
            let mut used = vec![0u8; layout.bytes];
            for (at, n) in places(layout) {
                used[at..at + n].iter_mut().for_each(|b| *b += 1);
            }
            let overlaps = used.iter().any(|n| *n > 1);
            assert_eq!(overlaps, layout.doubt == OVERLAPS, "{}", layout.name);
        }
    }

    #[test]
    fn the_reference_tables_hold() {
        // Byte offsets of tables 2.1 to 2.4, by counter select.
        let table = [
            (Format::A12, 0b000, [(A, 7, 16), (A, 18, 60)]),
            (Format::A12B8C8, 0b010, [(B, 0, 64), (C, 7, 124)]),
            (Format::C4B8, 0b111, [(C, 0, 16), (B, 0, 32)]),
            (Format::A32u40A4u32B8C8, 0b101, [(A, 35, 156), (C, 7, 252)]),
        ];
        for (format, select, wants) in table {
            assert_eq!(format.select(), select);
            let layout = format.layout(Published::Tables);
            assert_eq!(layout.ticks, Ticks::Bits32(12));
            for (group, index, at) in wants {
                let block = layout
                    .blocks
                    .iter()
                    .find(|b| b.group == group && (b.first..b.first + b.count).contains(&index))
                    .unwrap();
                assert_eq!(
                    block.at + 4 * u16::from(index - block.first),
                    at,
                    "{format:?} {group:?}{index}"
                );
            }
        }
    }

    #[test]
    fn only_haswells_c4_b8_has_b_at_two_places() {
        let b = |format: Format, reading| {
            let layout = format.layout(reading);
            layout.blocks.iter().find(|block| block.group == B).map(|block| block.at)
        };
        assert_eq!(b(Format::HswC4B8, Published::Tables), Some(32));
        assert_eq!(b(Format::HswC4B8, Published::IgtTests), Some(28));
        for reading in [Published::Tables, Published::IgtTests] {
            assert_eq!(b(Format::C4B8, reading), Some(32), "{reading:?}");
            assert_eq!(Format::C4B8.layout(reading).doubt, None, "{reading:?}");
        }
    }

    #[test]
    fn numbers_and_names_lead_back() {
        for format in Format::ALL {
            if let Some(value) = format.i915_value() {
                assert_eq!(Format::from_i915(value, format.is_haswell()), Some(format));
            }
            let prefix = if format.is_haswell() { "hsw_" } else { "" };
            assert_eq!(
                Format::by_name(&format!("{prefix}{}", format.layout(Published::Tables).name)),
                Some(format)
            );
        }
        assert_eq!(Format::from_i915(10, true), None);
        assert_eq!(Format::from_i915(0, false), None);
        assert_eq!(Format::by_name("é"), None);
        assert_eq!(Format::A32u40A4u32B8C8.xe_word(), Some(0x0500));
        assert_eq!(Format::Pec64u64.xe_word(), Some(0x01_0105));
        let layout = Format::A24u40A14u32B8C8.layout(Published::Tables);
        for (i, counter) in layout.counters().enumerate() {
            assert_eq!(layout.slot(counter), Some(i + 2));
        }
        assert_eq!(layout.slot(Counter::new(A, 38)), None);
        assert_eq!(
            layout
                .slot(Counter::new(A, 37))
                .zip(layout.slot(Counter::new(B, 0)))
                .map(|(a, b)| b - a),
            Some(1)
        );
    }
}
