//! Memory throughput (kernels/memory.cl): streams, strides and scattered reads over buffers larger
//! than the caches, the copy loop of the Gen9.5 thesis (Duarte 2018), and local memory. Owns the
//! variants, their host references and the counting of bytes.

use super::{Case, Gave, Suite, Swept, default_group};
use crate::bench::{Bench, CaseError, Measured, Settings};
use crate::cl::{ClError, DeviceFacts, DeviceKind};
use crate::job::{Arg, Fill, Job, Need, Outcome, Trips};
use crate::results::{CaseResult, Figure, Finding};
use crate::source::Source;
use crate::stats;
use crate::sweep::{Axis, Value};
use serde_json::json;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The suite.
pub const SUITE: Suite = Suite {
    name: "memory",
    about: "bandwidth of global and local memory by access pattern and SIMD width",
    wants_power: true,
    cases,
    conclude,
};

/// What word `w` of the source holds.
pub fn word(w: u32) -> u32 {
    w.wrapping_mul(2_654_435_761)
}

/// What the kernels of words are built with, where they stand beside those of another file.
pub const WORDS: [&str; 4] = ["-DSCALAR=uint", "-DWIDTH=1", "-DLOCAL_WORDS=64", "-DCONFLICT=1"];

/// Fills a buffer: `fill` puts [`word`] into each, `own` its own place.
pub fn filled(entry: &'static str, buffer: usize, items: usize) -> Fill {
    let defines = WORDS.map(str::to_owned).to_vec();
    Fill::Kernel { source: Source::Memory, entry, defines, args: vec![Arg::Buffer(buffer)], items }
}

/// The access patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// The loop of the Gen9.5 thesis: the same element again and again.
    CopyLoop,
    /// Every element once, to its place in another buffer.
    Copy,
    /// Writes alone.
    Write,
    /// Reads alone.
    Read,
    /// Reads, neighbours this many elements apart.
    Stride(u32),
    /// Reads through a permutation.
    Random,
    /// Local memory, neighbours this many words apart.
    Local(u32),
}

impl Pattern {
    fn entry(self) -> &'static str {
        match self {
            Pattern::CopyLoop => "copy_loop",
            Pattern::Copy => "copy",
            Pattern::Write => "put",
            Pattern::Read => "get",
            Pattern::Stride(_) => "strided",
            Pattern::Random => "scattered",
            Pattern::Local(_) => "shared_reads",
        }
    }

    fn name(self) -> String {
        match self {
            Pattern::CopyLoop => "copy_loop".to_owned(),
            Pattern::Copy => "copy".to_owned(),
            Pattern::Write => "write".to_owned(),
            Pattern::Read => "read".to_owned(),
            Pattern::Stride(by) => format!("stride{by}"),
            Pattern::Random => "random".to_owned(),
            Pattern::Local(1) => "local".to_owned(),
            Pattern::Local(by) => format!("local_conflict{by}"),
        }
    }
}

/// One variant.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The pattern.
    pub pattern: Pattern,
    /// Words of an element.
    pub width: usize,
    /// Elements of a work-item (turns of the loop).
    pub trips: u32,
    /// Work-groups.
    pub groups: usize,
    /// Work-items of a group.
    pub group: usize,
}

/// Words of local memory that the local pattern uses.
const LOCAL_WORDS: u32 = 4096;
/// Work-items that a check looks at, besides the last ones.
const LOOKED_AT: usize = 4096;

impl Variant {
    /// Its name.
    pub fn id(&self) -> String {
        let width =
            if self.width == 1 { "scalar".to_owned() } else { format!("vect{}", self.width) };
        format!("memory/{}/{width}/x{}", self.pattern.name(), self.trips)
    }

    fn items(&self) -> usize {
        self.groups * self.group
    }

    fn elements(&self) -> usize {
        if matches!(self.pattern, Pattern::CopyLoop | Pattern::Local(_)) {
            self.items()
        } else {
            self.items() * self.trips as usize
        }
    }

    /// Bytes that a launch of `trips` turns moves, both directions counted.
    pub fn bytes(&self, trips: u32) -> f64 {
        let element = 4.0 * self.width as f64;
        let moved = self.items() as f64 * f64::from(trips) * element;
        match self.pattern {
            Pattern::Copy | Pattern::CopyLoop => 2.0 * moved,
            Pattern::Local(_) => 16.0 * moved,
            // The sums that the readers leave are a matter of 1 / trips, and counted: they are
            // moved too.
            Pattern::Read | Pattern::Stride(_) | Pattern::Random => {
                moved + self.items() as f64 * element
            }
            Pattern::Write => moved,
        }
    }

    /// What work-item `i` leaves in lane `lane` of its element, for the patterns that reduce.
    fn sum(&self, i: u32, lane: u32, trips: u32) -> u32 {
        let n = self.items() as u32;
        let total = n.wrapping_mul(self.trips);
        let width = self.width as u32;
        let at = |e: u32| match self.pattern {
            Pattern::Stride(by) => (e % (total / by)) * by + e / (total / by),
            Pattern::Random => {
                let mask = total.wrapping_sub(1);
                let mut e = (e & mask).wrapping_mul(0x9E37_79B1) & mask;
                e ^= e >> 7;
                e.wrapping_mul(0x85EB_CA6B) & mask
            }
            _ => e,
        };
        (0..trips).fold(0u32, |sum, j| {
            sum.wrapping_add(word(
                at(i.wrapping_add(j.wrapping_mul(n))).wrapping_mul(width).wrapping_add(lane),
            ))
        })
    }

    fn local(&self, l: u32, trips: u32, by: u32) -> u32 {
        let start =
            |j: u32| l.wrapping_mul(by).wrapping_add(j.wrapping_mul(593)) & (LOCAL_WORDS / 2 - 1);
        let round = |j: u32| (0..16).fold(0u32, |sum, k| sum.wrapping_add(word(start(j) + 37 * k)));
        (0..trips).fold(0u32, |sum, j| sum.wrapping_add(round(j)))
    }

    fn compare(&self, outcome: &Outcome<'_>) -> Result<Option<String>, ClError> {
        let trips = outcome.geometry.trips;
        let results = match self.pattern {
            Pattern::Copy | Pattern::Write => self.elements(),
            _ => self.items(),
        };
        let some = LOOKED_AT.min(results);
        for first in [0, (results - some) / 2, results - some] {
            let words = outcome.words(0, 4 * first * self.width, some * self.width)?;
            for (k, got) in words.into_iter().enumerate() {
                let (i, lane) = ((first + k / self.width) as u32, (k % self.width) as u32);
                let own = i.wrapping_mul(self.width as u32).wrapping_add(lane);
                let want = match self.pattern {
                    Pattern::Copy | Pattern::CopyLoop => word(own),
                    Pattern::Write => i,
                    // Local results repeat from group to group; long ones are left to the short
                    // launch.
                    Pattern::Local(_) if trips > 4096 => continue,
                    Pattern::Local(by) => self.local(i % outcome.geometry.group as u32, trips, by),
                    _ => self.sum(i, lane, trips),
                };
                if got != want {
                    return Ok(Some(format!(
                        "lane {lane} of element {i} is {got:#x} where the host gets {want:#x}"
                    )));
                }
            }
        }
        Ok(None)
    }

    fn job(self, settings: &Settings) -> Job {
        let bytes = self.elements() * 4 * self.width;
        let mut defines = vec!["-DSCALAR=uint".to_owned(), format!("-DWIDTH={}", self.width)];
        let mut args = vec![Arg::Buffer(0), Arg::Buffer(1), Arg::Trips];
        let mut needs = Vec::new();
        defines.push(format!("-DLOCAL_WORDS={LOCAL_WORDS}"));
        let (mut trips, mut check_trips) = (Trips::Fixed(self.trips), self.trips);
        let conflict = if let Pattern::Local(by) = self.pattern { by } else { 1 };
        defines.push(format!("-DCONFLICT={conflict}"));
        match self.pattern {
            Pattern::Stride(by) => args.push(Arg::uint(by)),
            Pattern::Local(_) => {
                args.push(Arg::Local(4 * LOCAL_WORDS as usize));
                needs.push(Need::Local(4 * u64::from(LOCAL_WORDS)));
                (trips, check_trips) = (Trips::Lasting(settings.launch_ns()), 5);
            }
            Pattern::CopyLoop => (trips, check_trips) = (Trips::Lasting(settings.launch_ns()), 3),
            _ => {}
        }
        Job {
            defines: defines.clone(),
            needs,
            buffers: vec![bytes, bytes],
            fills: vec![
                Fill::Pattern { buffer: 0, pattern: vec![0xA5; 4], bytes },
                Fill::Kernel {
                    source: Source::Memory,
                    entry: "fill",
                    defines,
                    args: vec![Arg::Buffer(1)],
                    items: bytes / 4,
                },
            ],
            args,
            trips,
            check_trips,
            ..Job::new(Source::Memory, self.pattern.entry(), (self.groups, self.group), move |o| {
                self.compare(o)
            })
        }
    }
}

impl Variant {
    /// Whether each element is visited once: then the launch is as large as what it moves.
    fn streams(&self) -> bool {
        !matches!(self.pattern, Pattern::CopyLoop | Pattern::Local(_))
    }

    /// With as many groups as move so many bytes in all.
    fn moving(mut self, bytes: usize) -> Result<Self, String> {
        let items = bytes / (4 * self.width) / self.trips as usize;
        if items == 0 {
            return Err(format!(
                "{} bytes are moved at least",
                4 * self.width * self.trips as usize
            ));
        }
        self.group = self.group.min(items);
        self.groups = items / self.group;
        Ok(self)
    }
}

impl Swept for Variant {
    fn axes(&self) -> &'static [Axis] {
        match self.pattern {
            Pattern::Stride(_) => &[Axis::Blocks, Axis::Tpb, Axis::Size, Axis::Stride],
            Pattern::Local(_) => &[Axis::Blocks, Axis::Tpb, Axis::Stride],
            Pattern::CopyLoop => &[Axis::Blocks, Axis::Tpb, Axis::Width],
            _ => &[Axis::Blocks, Axis::Tpb, Axis::Width, Axis::Size],
        }
    }

    fn at(&self, axis: Axis, value: Value) -> Result<Rc<dyn Swept>, String> {
        let mut at = *self;
        // Strides and permutations visit every element once only where there are 2^n of them.
        let bound = if matches!(self.pattern, Pattern::Stride(_) | Pattern::Random) {
            super::power_of_two
        } else {
            super::number
        };
        match axis {
            Axis::Blocks => at.groups = bound(axis, value, super::MOST_ITEMS)?,
            Axis::Tpb if self.streams() => {
                // As many bytes as before.
                at.group = super::power_of_two(axis, value, self.items())?;
                at.groups = self.items() / at.group;
            }
            Axis::Tpb => at.group = super::count(axis, value)?,
            Axis::Width => {
                at.width = super::width(axis, value)?;
                if self.streams() {
                    at = at.moving(4 * self.width * self.elements())?;
                }
            }
            Axis::Size => at = at.moving(super::power_of_two(axis, value, 1 << 32)?)?,
            _ => {
                let by = super::power_of_two(axis, value, 1 << 16)?;
                at.pattern = match self.pattern {
                    Pattern::Local(_) if by > 64 => {
                        return Err(super::no_value(axis, "a power of two up to 64 here"));
                    }
                    Pattern::Local(_) => Pattern::Local(by as u32),
                    _ if by > self.elements() => {
                        return Err(super::no_value(axis, "no more than there are elements"));
                    }
                    _ => Pattern::Stride(by as u32),
                };
            }
        }
        Ok(Rc::new(at))
    }

    fn run(&self, bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
        let measured = bench.measure(&self.job(&bench.settings), false)?;
        let Measured { timing, geometry, .. } = &measured;
        let rate = Figure::new(
            "bandwidth",
            "GB/s",
            timing.time_ns.mean.reciprocal(self.bytes(geometry.trips)),
        );
        Ok(Gave::of_kernel(measured, vec![rate]))
    }
}

/// Bytes of each of the two big buffers: a power of two, well above the caches, within a quarter of
/// the memory.
pub fn stream_bytes(device: &DeviceFacts, settings: &Settings) -> usize {
    let wanted: u64 = match (settings.tiny, device.kind) {
        (true, _) => 1 << 18,
        (_, DeviceKind::Gpu) => 1 << 30,
        _ => (8 * device.cache_bytes).clamp(64 << 20, 256 << 20),
    };
    let most = device.largest_buffer.min(device.global_bytes / 8).max(1 << 16);
    let bytes = wanted.min(most);
    1usize << bytes.ilog2()
}

fn variants(device: &DeviceFacts, settings: &Settings) -> Vec<Variant> {
    // Sizes that are no power of two would leave elements without a work-item.
    let group = 1usize
        << settings
            .tpb
            .last()
            .copied()
            .unwrap_or_else(|| default_group(device, settings))
            .max(1)
            .ilog2();
    let bytes = stream_bytes(device, settings);
    let mut variants = Vec::new();
    let mut stream = |pattern: Pattern, width: usize, trips: u32| {
        let items = bytes / (4 * width) / trips as usize;
        let group = group.min(items.max(1));
        variants.push(Variant { pattern, width, trips, groups: (items / group).max(1), group });
    };
    let thorough = settings.full || settings.tiny;
    let widths: &[usize] = &[1, 2, 4, 8, 16];
    for &width in widths {
        stream(Pattern::Copy, width, 1);
        if thorough || width == 4 {
            stream(Pattern::Copy, width, 4);
            stream(Pattern::Write, width, 1);
        }
        if thorough || matches!(width, 1 | 4) {
            stream(Pattern::Read, width, 16);
        }
    }
    let strides: &[u32] = if thorough { &[2, 4, 8, 16, 32, 64, 256, 1024] } else { &[2, 4, 8, 32] };
    for &by in strides {
        stream(Pattern::Stride(by), 1, 16);
    }
    for &width in if thorough { &[1, 2, 4, 8, 16][..] } else { &[1, 4] } {
        stream(Pattern::Random, width, 16);
    }
    let (groups, _) = super::geometry(device, settings);
    for &width in widths {
        variants.push(Variant { pattern: Pattern::CopyLoop, width, trips: 3, groups, group });
    }
    for by in [1, 2, 4, 8, 16, 32] {
        variants.push(Variant { pattern: Pattern::Local(by), width: 1, trips: 5, groups, group });
    }
    variants
}

/// The runtime's own copy between buffers of the device, to compare with.
fn vendor_copy(bench: &mut Bench<'_>) -> Result<Gave, CaseError> {
    let bytes = stream_bytes(bench.facts(), &bench.settings);
    let buffers = bench.buffers(&[bytes, bytes])?;
    let mut samples = Vec::new();
    for _ in 0..bench.settings.repeat() + 2 {
        bench.check_stop()?;
        let event = bench.session.copy(&buffers[1], &buffers[0], 0, bytes)?;
        bench.session.finish()?;
        samples.push(event.nanoseconds()? as f64);
    }
    samples.drain(..2);
    let summary = stats::summarise(&samples).ok_or(CaseError::Interrupted)?;
    let rate = Figure::new("bandwidth", "GB/s", summary.mean.reciprocal(2.0 * bytes as f64));
    Ok(Gave { figures: vec![rate], ..Gave::default() })
}

fn cases(device: &DeviceFacts, settings: &Settings) -> Vec<Case> {
    let mut cases: Vec<Case> = variants(device, settings)
        .into_iter()
        .map(|variant| {
            let mut parameters = BTreeMap::from([
                ("pattern", json!(variant.pattern.name())),
                ("width", json!(variant.width)),
                ("elements_per_item", json!(variant.trips)),
            ]);
            if let Pattern::Stride(by) | Pattern::Local(by) = variant.pattern {
                parameters.insert("stride", json!(by));
            }
            Case::with_axes(variant.id(), SUITE.name, Rc::new(variant)).with(parameters)
        })
        .collect();
    let parameters = [("pattern", json!("runtime_copy"))];
    cases.push(Case::new("memory/runtime_copy", SUITE.name, vendor_copy).with(parameters));
    cases
}

/// The best copy beside the runtime's own.
fn conclude(_: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let best = |of: &[&str]| {
        let is_of = |r: &&CaseResult| r.parameter("pattern").is_some_and(|p| of.contains(&p));
        super::best(results.iter().filter(is_of), "bandwidth")
    };
    let mut findings = Vec::new();
    if let Some((case, figure)) = best(&["copy", "read", "write"]) {
        let text =
            format!("best streaming bandwidth {:.1} GB/s ({})", figure.estimate.value, case.id);
        let figures = vec![figure.clone()];
        findings.push(Finding::new("memory/best_stream", text, figures, "largest mean"));
    }
    if let (Some((case, own)), Some((_, theirs))) = (best(&["copy"]), best(&["runtime_copy"])) {
        let share = own.estimate.over(theirs.estimate).times(100.0);
        let text = format!(
            "{} reaches {:.1} GB/s, {:.1} % of the {:.1} GB/s of the runtime's own copy",
            case.id, own.estimate.value, share.value, theirs.estimate.value
        );
        let figures = vec![Figure::new("share", "%", share)];
        findings.push(Finding::new("memory/copy_share", text, figures, "ratio of means"));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variant(pattern: Pattern) -> Variant {
        Variant { pattern, width: 1, trips: 4, groups: 16, group: 16 }
    }

    /// Strides and permutations must visit every element once: only then is the byte count true.
    #[test]
    fn every_element_is_read_once() {
        let all = (0..1024).fold(0u32, |sum, w| sum.wrapping_add(word(w)));
        for pattern in [Pattern::Read, Pattern::Stride(8), Pattern::Random] {
            let v = variant(pattern);
            let total = (0..256).fold(0u32, |sum, i| sum.wrapping_add(v.sum(i, 0, 4)));
            assert_eq!(total, all, "{pattern:?}");
        }
    }

    #[test]
    fn bytes_by_table() {
        for (pattern, want) in [
            (Pattern::Copy, 8192.0),
            (Pattern::Write, 4096.0),
            (Pattern::Read, 5120.0),
            (Pattern::Local(2), 65536.0),
        ] {
            assert_eq!(variant(pattern).bytes(4), want, "{pattern:?}");
        }
    }
}
