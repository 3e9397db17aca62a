//! One OA report: its header fields as each generation defines them, and its raw counters. Owns the
//! bits of RPT_ID; refuses to look at more than one report (that is [`crate::accumulate`]).
#![forbid(unsafe_code)]

use crate::format::{
    Block, Counter, Header, Layout, MAX_SLOTS, TICKS_SLOT, TIME_SLOT, Ticks, Width,
};

/// What decides how RPT_ID is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// Haswell.
    Gen7,
    /// Broadwell, Cherryview.
    Gen8,
    /// Skylake to Comet Lake, Broxton, Gemini Lake.
    Gen9,
    /// Ice Lake, Elkhart Lake.
    Gen11,
    /// Tiger Lake to Alder Lake, DG1.
    Gen12,
    /// Graphics 12.55 to 12.7x: DG2, Meteor Lake.
    Xe,
    /// Lunar Lake, Battlemage.
    Xe2,
}

impl Generation {
    /// By the name users know: `gen7` (or `gen7.5`) to `gen12`, `dg2`, `mtl`, `xe2`, `lnl`, `bmg`.
    pub fn by_name(name: &str) -> Option<Generation> {
        Some(match name.to_ascii_lowercase().as_str() {
            "gen7" | "gen7.5" | "hsw" => Generation::Gen7,
            "gen8" | "bdw" | "chv" => Generation::Gen8,
            "gen9" | "gen9.5" | "skl" | "kbl" | "cfl" | "bxt" | "glk" => Generation::Gen9,
            "gen11" | "icl" | "ehl" => Generation::Gen11,
            "gen12" | "tgl" | "rkl" | "adl" | "dg1" => Generation::Gen12,
            "xe" | "gen12.5" | "gen12.55" | "gen12.7" | "dg2" | "mtl" | "arl" => Generation::Xe,
            "xe2" | "lnl" | "bmg" => Generation::Xe2,
            _ => return None,
        })
    }
}

impl Generation {
    /// By a PCI device id, from the ranges of published id lists; `None` for ids that are not in
    /// them. Whether it is one of the low-power parts with six threads per EU comes with it.
    pub fn of_device(id: u32) -> Option<(Generation, bool)> {
        let known = match id {
            0x0a84 | 0x1a84 | 0x1a85 | 0x5a84 | 0x5a85 | 0x3184 | 0x3185 => {
                (Generation::Gen9, true)
            }
            0x22b0..=0x22b3 => (Generation::Gen8, false),
            _ => match id >> 8 {
                0x04 | 0x0a | 0x0c | 0x0d => (Generation::Gen7, false),
                0x16 => (Generation::Gen8, false),
                0x19 | 0x59 | 0x3e | 0x9b | 0x87 => (Generation::Gen9, false),
                0x8a | 0x45 | 0x4e => (Generation::Gen11, false),
                0x9a | 0x4c | 0x46 | 0x49 | 0xa7 => (Generation::Gen12, false),
                0x4f | 0x56 | 0x7d => (Generation::Xe, false),
                0x64 | 0xe2 => (Generation::Xe2, false),
                _ => return None,
            },
        };
        Some(known)
    }

    /// The format to ask for: all that the generation's reports can hold.
    pub fn widest_format(self) -> crate::Format {
        match self {
            Generation::Gen7 => crate::Format::HswA45B8C8,
            Generation::Gen8 | Generation::Gen9 | Generation::Gen11 | Generation::Gen12 => {
                crate::Format::A32u40A4u32B8C8
            }
            Generation::Xe => crate::Format::A24u40A14u32B8C8,
            Generation::Xe2 => crate::Format::Pec64u64,
        }
    }
}

/// Why a report was written (RPT_ID from bit 19). Several bits may be set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reason(pub u8);

impl Reason {
    const NAMES: [&'static str; 7] = [
        "timer",
        "trigger 1",
        "trigger 2",
        "context switch",
        "GO transition",
        "clock-ratio change",
        "MMIO trigger",
    ];

    /// Written because a context was switched.
    pub fn is_context_switch(self) -> bool {
        self.0 & 1 << 3 != 0
    }

    /// In words; empty where no bit is set.
    pub fn words(self) -> String {
        let set = Self::NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 != 0);
        set.map(|(_, name)| *name).collect::<Vec<_>>().join(" + ")
    }
}

/// One report's bytes, known to be long enough for its layout.
#[derive(Clone, Copy)]
pub struct Report<'a> {
    bytes: &'a [u8],
    layout: &'static Layout,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

impl<'a> Report<'a> {
    /// Over the first bytes of `bytes`; `None` where they are fewer than the layout needs.
    pub fn new(bytes: &'a [u8], layout: &'static Layout) -> Option<Report<'a>> {
        Some(Report { bytes: bytes.get(..layout.bytes)?, layout })
    }

    /// RPT_ID, whole.
    pub fn id(&self) -> u64 {
        match self.layout.header {
            Header::Bits32 => u32_at(self.bytes, 0).into(),
            Header::Bits64 => u64_at(self.bytes, 0),
        }
    }

    /// The OA timestamp as reported: 32 or 64 bits.
    pub fn timestamp(&self) -> u64 {
        match self.layout.header {
            Header::Bits32 => u32_at(self.bytes, 4).into(),
            Header::Bits64 => u64_at(self.bytes, 8),
        }
    }

    /// The context dword, whether it means anything or not.
    pub fn raw_context(&self) -> u32 {
        match self.layout.header {
            Header::Bits32 => u32_at(self.bytes, 8),
            Header::Bits64 => u32_at(self.bytes, 16),
        }
    }

    /// Whether the hardware had not finished (or begun) writing it: id and timestamp are both 0.
    pub fn is_unwritten(&self) -> bool {
        self.id() == 0 && self.timestamp() == 0
    }

    /// The context, where the report marks it as valid: bit 25 on Gen8, bit 16 from Gen9. Haswell's
    /// reports do not say.
    pub fn context(&self, generation: Generation) -> Option<u32> {
        let bit = match generation {
            Generation::Gen7 => return None,
            Generation::Gen8 => 25,
            _ => 16,
        };
        (self.id() >> bit & 1 != 0).then(|| self.raw_context())
    }

    /// Why it was written; `None` on Haswell, whose reports do not say.
    pub fn reason(&self, generation: Generation) -> Option<Reason> {
        let mask = match generation {
            Generation::Gen7 => return None,
            Generation::Gen8 | Generation::Gen9 | Generation::Gen11 => 0x3f,
            _ => 0x7f,
        };
        Some(Reason((self.id() >> 19) as u8 & mask))
    }

    /// GPU_TICKS as reported; `None` where the format has none.
    pub fn ticks(&self) -> Option<u64> {
        match self.layout.ticks {
            Ticks::None => None,
            Ticks::Bits32(at) => Some(u32_at(self.bytes, at.into()).into()),
            Ticks::Bits64(at) => Some(u64_at(self.bytes, at.into())),
        }
    }

    /// A counter's raw value; `None` where the format does not have it.
    pub fn counter(&self, counter: Counter) -> Option<u64> {
        let holds = |b: &&Block| {
            b.group == counter.group && (b.first..b.first + b.count).contains(&counter.index)
        };
        let block = self.layout.blocks.iter().find(holds)?;
        let i = usize::from(counter.index - block.first);
        let at = usize::from(block.at);
        Some(match block.width {
            Width::Bits32 => u32_at(self.bytes, at + 4 * i).into(),
            Width::Bits40 { high } => {
                let high = self.bytes.get(usize::from(high) + i).copied().unwrap_or(0);
                u64::from(u32_at(self.bytes, at + 4 * i)) | u64::from(high) << 32
            }
            Width::Bits64 => u64_at(self.bytes, at + 8 * i),
        })
    }

    /// All raw values in slot order, for [`raw_deltas`].
    pub(crate) fn read_into(&self, out: &mut [u64; MAX_SLOTS]) {
        out[TIME_SLOT] = self.timestamp();
        out[TICKS_SLOT] = self.ticks().unwrap_or(0);
        let mut rest = &mut out[2..];
        for block in self.layout.blocks {
            let count = usize::from(block.count);
            let at = usize::from(block.at);
            let (slots, more) = rest.split_at_mut(count.min(rest.len()));
            rest = more;
            let size = if block.width == Width::Bits64 { 8 } else { 4 };
            let Some(words) = self.bytes.get(at..at + size * count) else { continue };
            match block.width {
                Width::Bits32 => {
                    for (slot, word) in slots.iter_mut().zip(words.chunks_exact(4)) {
                        *slot = u32_at(word, 0).into();
                    }
                }
                Width::Bits40 { high } => {
                    let high = usize::from(high);
                    let Some(highs) = self.bytes.get(high..high + count) else { continue };
                    for ((slot, word), high) in
                        slots.iter_mut().zip(words.chunks_exact(4)).zip(highs)
                    {
                        *slot = u64::from(u32_at(word, 0)) | u64::from(*high) << 32;
                    }
                }
                Width::Bits64 => {
                    for (slot, word) in slots.iter_mut().zip(words.chunks_exact(8)) {
                        *slot = u64_at(word, 0);
                    }
                }
            }
        }
    }
}

/// `new - old` of every slot, each modulo its own width.
pub(crate) fn raw_deltas(
    layout: &Layout,
    old: &[u64; MAX_SLOTS],
    new: &[u64; MAX_SLOTS],
    out: &mut [u64; MAX_SLOTS],
) {
    let mask = |bits: u32| u64::MAX >> (64 - bits);
    out[TIME_SLOT] = new[TIME_SLOT].wrapping_sub(old[TIME_SLOT]) & mask(layout.timestamp_bits());
    let ticks = if matches!(layout.ticks, Ticks::Bits64(_)) { 64 } else { 32 };
    out[TICKS_SLOT] = new[TICKS_SLOT].wrapping_sub(old[TICKS_SLOT]) & mask(ticks);
    let mut base = 2;
    for block in layout.blocks {
        let bits = match block.width {
            Width::Bits32 => 32,
            Width::Bits40 { .. } => 40,
            Width::Bits64 => 64,
        };
        let mask = mask(bits);
        let end = base + usize::from(block.count);
        if let (Some(old), Some(new), Some(out)) =
            (old.get(base..end), new.get(base..end), out.get_mut(base..end))
        {
            for ((out, new), old) in out.iter_mut().zip(new).zip(old) {
                *out = new.wrapping_sub(*old) & mask;
            }
        }
        base = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Format, Group, Published};

    fn with_id(id: u32) -> Vec<u8> {
        let mut bytes = vec![0; 256];
        bytes[..4].copy_from_slice(&id.to_le_bytes());
        bytes[8..12].copy_from_slice(&77u32.to_le_bytes());
        bytes
    }

    #[test]
    fn header_fields_follow_the_generation() {
        let layout = Format::A32u40A4u32B8C8.layout(Published::Tables);
        let table = [
            // id, generation, context, reason
            (1 << 25, Generation::Gen8, Some(77), 0),
            (1 << 25, Generation::Gen9, None, 0),
            (1 << 16, Generation::Gen8, None, 0),
            (1 << 16, Generation::Gen9, Some(77), 0),
            (1 << 16 | 1 << 19, Generation::Gen11, Some(77), 1),
            (0x3f << 19, Generation::Gen9, None, 0x3f),
            // Bit 25 is a reason on Gen12 and part of the ratio before it.
            (0x7f << 19, Generation::Gen12, None, 0x7f),
            (0x7f << 19, Generation::Gen11, None, 0x3f),
            (1 << 22, Generation::Xe, None, 8),
            (63 << 25 | 0b11 << 9 | 63, Generation::Gen9, None, 0),
            (0x1ff, Generation::Gen12, None, 0),
        ];
        for (id, generation, context, reason) in table {
            let bytes = with_id(id);
            let report = Report::new(&bytes, layout).unwrap();
            assert_eq!(report.context(generation), context, "{id:#x} {generation:?}");
            assert_eq!(report.reason(generation), Some(Reason(reason)), "{id:#x} {generation:?}");
        }
        let bytes = with_id(u32::MAX);
        let report = Report::new(&bytes, layout).unwrap();
        assert_eq!(
            (report.context(Generation::Gen7), report.reason(Generation::Gen7)),
            (None, None)
        );
        assert_eq!(Reason(0b1001).words(), "timer + context switch");
    }

    #[test]
    fn devices_have_generations() {
        let table = [
            (0x5916, Some((Generation::Gen9, false))),
            (0x3185, Some((Generation::Gen9, true))),
            (0x0a84, Some((Generation::Gen9, true))),
            (0x0a16, Some((Generation::Gen7, false))),
            (0x9a49, Some((Generation::Gen12, false))),
            (0x56a0, Some((Generation::Xe, false))),
            (0x64a0, Some((Generation::Xe2, false))),
            (0x1234, None),
        ];
        for (id, want) in table {
            assert_eq!(Generation::of_device(id), want, "{id:#x}");
        }
        assert_eq!(Generation::by_name("KBL"), Some(Generation::Gen9));
        assert_eq!(Generation::by_name("gen13"), None);
        assert_eq!(Generation::Xe.widest_format(), Format::A24u40A14u32B8C8);
    }

    #[test]
    fn forty_bit_counters_join_their_bytes() {
        let layout = Format::A32u40A4u32B8C8.layout(Published::Tables);
        let mut bytes = vec![0; 256];
        bytes[16 + 4 * 30..][..4].copy_from_slice(&0x1234_5678u32.to_le_bytes());
        bytes[160 + 30] = 0xab;
        let report = Report::new(&bytes, layout).unwrap();
        assert_eq!(report.counter(Counter::new(Group::A, 30)), Some(0xab_1234_5678));
        assert_eq!(report.counter(Counter::new(Group::A, 29)), Some(0));
        assert_eq!(report.counter(Counter::new(Group::Pec, 0)), None);
        assert!(report.is_unwritten());
        assert!(Report::new(&bytes[..255], layout).is_none());
    }

    #[test]
    fn both_ways_to_read_a_report_agree() {
        for format in Format::ALL {
            for reading in [Published::Tables, Published::IgtTests] {
                let layout = format.layout(reading);
                let bytes: Vec<u8> = (0..layout.bytes).map(|i| (i * 37 + 11) as u8).collect();
                let report = Report::new(&bytes, layout).unwrap();
                let mut slots = [0; MAX_SLOTS];
                report.read_into(&mut slots);
                for counter in layout.counters() {
                    assert_eq!(
                        Some(slots[layout.slot(counter).unwrap()]),
                        report.counter(counter),
                        "{format:?} {counter}"
                    );
                }
                assert_eq!(slots[TIME_SLOT], report.timestamp());
                assert_eq!(report.ticks().unwrap_or(0), slots[TICKS_SLOT]);
            }
        }
    }
}
