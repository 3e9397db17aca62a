//! What a trace directory holds, counted without interpreting it: how much was recorded, what the
//! recorder warned of. Refuses to analyse: see [`crate::report`].
#![forbid(unsafe_code)]

use crate::added::Added;
use crate::captures::{self, Captures, Collector, Launches};
use crate::map;
use clscope_io::input::open_inside;
use clscope_trace::defs::{Anchor, Def, Defs, Replay};
use clscope_trace::directory::{self, Role};
use clscope_trace::record::CommandKind;
use clscope_trace::settings::REPLAY;
use clscope_trace::stream::{Blocks, Rings};
use clscope_trace::values;
use clscope_trace::{FileHeader, FileKind, Record};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

/// More bytes than this are not counted: a second of reading after each run would be felt.
const COUNTED_BYTES: u64 = 1 << 29;

/// What a trace directory holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Processes with definitions.
    pub processes: u64,
    /// Processes that made OpenCL calls and whose trace could not be written.
    pub without_trace: u64,
    /// Host calls, commands included; `None` where the trace is too large to count at once.
    pub calls: Option<u64>,
    /// Commands.
    pub commands: u64,
    /// Commands with device times.
    pub timed: u64,
    /// Records that were dropped.
    pub dropped: u64,
    /// Launches that were captured, or why not.
    pub captures: Captures,
    /// What `--replay` repeated, or why not.
    pub repeated: Repeated,
    /// Launches whose instructions were counted.
    pub counted: u64,
    /// Why others were not, and how many.
    pub uncounted: BTreeMap<String, u64>,
    /// Bytes of all files.
    pub bytes: u64,
    /// The recorder's warnings: text by code, and how often the code came.
    pub warnings: BTreeMap<String, (String, u64)>,
    /// Files that could not be read, with the reason.
    pub unreadable: Vec<String>,
    /// Processes that end without having said so, and their pid namespace.
    pub unended: Vec<(u32, u64)>,
}

/// What the recorder repeated.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Repeated {
    /// Kernels by name, and kinds of transfers.
    pub names: BTreeSet<String>,
    /// Batches of them, without those that restore buffers only.
    pub batches: usize,
    /// What was refused, and why.
    pub refused: BTreeSet<(String, String)>,
    /// Kernels and kinds of transfers that ran and are neither, and why; empty where the trace is
    /// too large to count at once.
    pub rest: BTreeMap<String, Unrepeated>,
    /// Ticks that one takes, of all that were tried or repeated.
    pub alone: BTreeMap<String, u64>,
    /// What the application was held for repetitions, in ns, and the length of the run with it: of
    /// the process of which that is the most. `None` where the clock's rate is not known.
    pub added: Option<(u64, u64)>,
    /// How much was to be repeated, as the trace tells.
    pub wanted: Option<String>,
}

/// Why commands were not repeated that nothing forbids to repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unrepeated {
    /// They came once.
    Once,
    /// Transfers of that kind are not.
    Kind,
    /// They are too small a part of the time.
    Small,
    /// Their turn did not come within the added time, which was used up.
    NoTurn,
    /// They came so often, and had no turn at any of these, although time was left.
    Few(u64),
    /// Transfers, where each kernel is repeated at its first sight.
    AtSight,
}

impl Unrepeated {
    /// Place among the reasons that are told.
    #[must_use]
    pub const fn rank(self) -> u8 {
        match self {
            Self::Few(_) => 0,
            Self::NoTurn => 1,
            Self::AtSight => 2,
            Self::Small => 3,
            Self::Once => 4,
            Self::Kind => 5,
        }
    }
}

/// Kinds of transfers that the recorder repeats.
const KINDS: [CommandKind; 4] = [
    CommandKind::ReadBuffer,
    CommandKind::WriteBuffer,
    CommandKind::CopyBuffer,
    CommandKind::FillBuffer,
];

/// Commands of one name that ran.
struct Ran {
    name: String,
    count: u64,
    /// Of a transfer.
    kind: Option<CommandKind>,
}

/// Begin and end of all that ran for a repetition, the rest before it included, in ticks.
fn held(replay: &Replay) -> Option<(u64, u64)> {
    let ran = || replay.batches.iter().chain(&replay.trials);
    let quiet = Some(replay.quiet).filter(|quiet| *quiet > 0);
    let begin = ran().map(|b| b.begin).chain(quiet).min()?;
    Some((begin, ran().map(|b| b.end).max()?.max(begin)))
}

impl Repeated {
    /// What a process was held for, given the first and the last reading of its clocks.
    fn add_held(&mut self, replays: &[Replay], anchors: Option<(Anchor, Anchor)>) {
        let Some((first, last)) = anchors.filter(|(a, b)| b.ticks > a.ticks && b.raw > a.raw)
        else {
            return;
        };
        let length = (last.raw - first.raw) as f64;
        let rate = length / (last.ticks - first.ticks) as f64;
        let ticks = replays.iter().filter_map(held).map(|(begin, end)| end - begin);
        let added = (rate * ticks.fold(0, u64::saturating_add) as f64) as u64;
        if self.added.is_none_or(|(most, _)| most < added) {
            self.added = Some((added, length as u64));
        }
    }

    /// Added time, and what might have been; `None` where that is not known.
    #[must_use]
    pub fn added(&self) -> Option<Added> {
        let (wanted, (added, run)) = (self.wanted()?, self.added?);
        Added::of(wanted, added as f64 * 1e-9, run.saturating_sub(added) as f64 * 1e-9)
    }

    fn wanted(&self) -> Option<values::Replay> {
        self.wanted.as_ref()?.parse().ok()
    }

    fn add(&mut self, replay: &Replay, name: String) {
        for ran in replay.batches.iter().chain(&replay.trials).filter(|b| !b.restores_only) {
            let each = ran.end.saturating_sub(ran.begin) / ran.count.max(1);
            self.alone.entry(name.clone()).and_modify(|a| *a = each.min(*a)).or_insert(each);
        }
        let batches = replay.batches.iter().filter(|b| !b.restores_only).count();
        if !replay.refused.is_empty() {
            self.refused.insert((name, replay.refused.clone()));
        } else if batches > 0 {
            self.names.insert(name);
            self.batches += batches;
        }
    }

    /// What ran and is not told of yet.
    fn add_rest(&mut self, ran: impl Iterator<Item = Ran>) {
        let mut all: BTreeMap<String, (u64, Option<CommandKind>)> = BTreeMap::new();
        for of in ran {
            let known = all.entry(of.name).or_insert((0, of.kind));
            known.0 = known.0.saturating_add(of.count);
        }
        let time = |name: &String, (count, kind): (u64, Option<CommandKind>)| {
            let weight = if kind.is_some() { values::Replay::TRANSFER } else { 1.0 };
            Some(weight * count as f64 * *self.alone.get(name)? as f64)
        };
        let whole: f64 = all.iter().filter_map(|(name, of)| time(name, *of)).sum();
        let is_told = |name: &String| {
            self.names.contains(name) || self.refused.iter().any(|(refused, _)| refused == name)
        };
        let is_at_sight = matches!(self.wanted(), Some(values::Replay::Batches { .. }));
        let is_left = self.added().is_some_and(|added| !added.is_used_up());
        let why = |name: &String, of: (u64, Option<CommandKind>)| match of {
            (_, Some(_)) if is_at_sight => Unrepeated::AtSight,
            (_, Some(kind)) if !KINDS.contains(&kind) => Unrepeated::Kind,
            (1, _) => Unrepeated::Once,
            _ if time(name, of).is_some_and(|own| own < values::Replay::LEAST_SHARE * whole) => {
                Unrepeated::Small
            }
            (count, _) if is_left => Unrepeated::Few(count),
            _ => Unrepeated::NoTurn,
        };
        let rest = all.iter().filter(|(name, _)| !is_told(name));
        self.rest = rest.map(|(name, of)| (name.clone(), why(name, *of))).collect();
    }
}

/// Looks into a trace directory.
pub fn contents(directory: &Path) -> Contents {
    let mut found = Contents { bytes: size(directory), ..Contents::default() };
    let mut files = match directory::list(directory) {
        Ok(files) => files,
        Err(e) => {
            found.unreadable.push(format!("{}: {e}", directory.display()));
            Vec::new()
        }
    };
    let programs = crate::programs::files(directory).unwrap_or_default();
    let bytes = |(_, path): &(String, PathBuf)| std::fs::metadata(path).map_or(0, |m| m.len());
    found.bytes += programs.iter().map(bytes).sum::<u64>();
    for (_, folder) in captures::folders(directory).unwrap_or_default() {
        let files = captures::files(&folder).unwrap_or_default();
        found.bytes += files.iter().map(bytes).sum::<u64>();
    }
    let mut captures = Collector::default();
    // Segments before rings: a block that moved from one to the other is whole in the segment.
    files.sort_by_key(|(_, role)| matches!(role, Role::Ring(_)));
    let length = |name: &str| {
        let meta = directory.join(name).symlink_metadata();
        meta.ok().filter(std::fs::Metadata::is_file).map_or(0, |m| m.len())
    };
    let empty = |name: &str| {
        let meta = directory.join(name).symlink_metadata();
        meta.is_ok_and(|m| m.is_file() && m.len() == 0)
    };
    let refused = files.iter().filter(|(name, role)| matches!(role, Role::Defs(_)) && empty(name));
    found.without_trace = refused.count() as u64;
    let data = files.iter().filter(|(_, role)| !matches!(role, Role::Defs(_)));
    let small = data.map(|(name, _)| length(name)).sum::<u64>() <= COUNTED_BYTES;
    found.calls = small.then_some(0);
    // Blocks of a process in segments, so that a ring's copy is not counted again.
    let mut seen: HashSet<(String, u32, u32)> = HashSet::new();
    // A part of a recording has fewer launches than the application made.
    let mut launches = Launches::new();
    let (mut kernels, mut transfers) = (HashMap::new(), HashMap::new());
    let mut whole = small;
    for (name, role) in files.into_iter().filter(|(name, _)| length(name) > 0) {
        let (kind, process) = match role {
            Role::Defs(stem) => (FileKind::Defs, stem),
            Role::Segment(stem, _) => (FileKind::Segment, stem),
            Role::Ring(stem) => (FileKind::Ring, stem),
            Role::Sensors | Role::Meta => continue,
        };
        if kind != FileKind::Defs && !small {
            continue;
        }
        let path = directory.join(&name);
        let bytes = open_inside(&path).and_then(|file| match kind {
            FileKind::Segment => map::file(&file),
            _ => map::read(&file),
        });
        let bytes = match &bytes {
            Ok(bytes) => &bytes[..],
            Err(e) => {
                found.unreadable.push(format!("{name}: {e}"));
                continue;
            }
        };
        let header = match FileHeader::decode_as(bytes, kind) {
            Ok(header) => header,
            Err(e) => {
                found.unreadable.push(format!("{name}: {e}"));
                continue;
            }
        };
        let mut counts = BTreeMap::new();
        match kind {
            FileKind::Defs => {
                let named = found.add_defs(bytes, &header, &process, &mut captures);
                kernels.extend(named.into_iter().map(|(id, name)| ((process.clone(), id), name)));
            }
            FileKind::Ring => {
                for ring in Rings::new(bytes) {
                    found.dropped = found.dropped.saturating_add(ring.dropped);
                    if !ring.block.payload.is_empty()
                        && seen.insert((process.clone(), ring.block.thread, ring.block.sequence))
                    {
                        for (_, record) in ring.block.records() {
                            found.add_record(&record);
                            whole &= count_launch(&mut counts, &record);
                            if let Some(kind) = transfer(&record) {
                                *transfers.entry(kind).or_default() += 1;
                            }
                        }
                    }
                }
            }
            _ => {
                for block in Blocks::new(bytes) {
                    if seen.insert((process.clone(), block.thread, block.sequence)) {
                        for (_, record) in block.records() {
                            found.add_record(&record);
                            whole &= count_launch(&mut counts, &record);
                            if let Some(kind) = transfer(&record) {
                                *transfers.entry(kind).or_default() += 1;
                            }
                        }
                    }
                }
            }
        }
        for (kernel, n) in counts {
            *launches.entry((process.clone(), kernel)).or_default() += n;
        }
    }
    let ran = launches.iter().filter_map(|(key, count)| {
        Some(Ran { name: kernels.get(key).cloned()?, count: *count, kind: None })
    });
    let moved = transfers.into_iter().map(|(kind, count)| Ran {
        name: kind.name().to_owned(),
        count,
        kind: Some(kind),
    });
    found.repeated.add_rest(ran.chain(moved));
    whole &= found.dropped == 0 && found.unreadable.is_empty();
    found.captures = captures.finish(whole.then_some(&launches));
    found
}

/// Counts a launch by its kernel; whether the application's launches go on being recorded.
fn count_launch(counts: &mut BTreeMap<u32, u64>, record: &Record<'_>) -> bool {
    if let Record::Command(c) = record
        && c.result == 0
        && c.kind.is_kernel()
    {
        *counts.entry(c.object).or_default() += 1;
    }
    !matches!(record, Record::Paused(_))
}

/// The kind of a transfer that ran.
fn transfer(record: &Record<'_>) -> Option<CommandKind> {
    match record {
        Record::Command(c) if c.result == 0 && c.kind.direction().is_some() => Some(c.kind),
        _ => None,
    }
}

/// Bytes of all files in a directory.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|e| e.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}

impl Contents {
    /// Kernels of the process by id.
    fn add_defs(
        &mut self,
        bytes: &[u8],
        header: &FileHeader,
        process: &str,
        captures: &mut Collector,
    ) -> BTreeMap<u32, String> {
        self.processes += 1;
        let mut ended = false;
        let (mut kernels, mut captured, mut settings) = (BTreeMap::new(), Vec::new(), Vec::new());
        let (mut replays, mut anchors) = (Vec::new(), None);
        for def in Defs::new(bytes) {
            match def {
                Def::Process(p) => settings = p.settings,
                Def::Kernel(k) => drop(kernels.insert(k.id, k.name)),
                Def::Capture(c) => captured.push(c),
                Def::Replay(r) => replays.push(r),
                Def::Anchor(at) => {
                    anchors = Some((anchors.map_or(at.clone(), |(first, _)| first), at));
                }
                Def::Mix(m) if m.refused.is_empty() => self.counted += 1,
                Def::Mix(m) => *self.uncounted.entry(m.refused).or_default() += 1,
                Def::Exit(_) => ended = true,
                Def::Warning(w) => self.warnings.entry(w.code).or_insert((w.text, 0)).1 += 1,
                _ => {}
            }
        }
        let shown = |id: u32| kernels.get(&id).cloned().unwrap_or_else(|| format!("kernel {id}"));
        let named = kernels.iter().map(|(id, name)| (*id, name.clone()));
        captures.process(process, &settings, named, &captured, shown);
        for replay in &replays {
            let transfer = || CommandKind::from_u8(replay.command).name().to_owned();
            let name = if replay.kernel == 0 { transfer() } else { shown(replay.kernel) };
            self.repeated.add(replay, name);
        }
        self.repeated.add_held(&replays, anchors);
        let of = |s: &String| s.strip_prefix(REPLAY)?.strip_prefix('=').map(str::to_owned);
        self.repeated.wanted = self.repeated.wanted.take().or_else(|| settings.iter().find_map(of));
        if !ended {
            self.unended.push((header.pid, header.pid_ns));
        }
        kernels
    }

    fn add_record(&mut self, record: &Record<'_>) {
        match record {
            Record::Plain { .. } | Record::Call { .. } => *self.calls.get_or_insert(0) += 1,
            Record::Run(run) => {
                let calls = self.calls.get_or_insert(0);
                *calls = calls.saturating_add(u64::from(run.count));
            }
            Record::Command(c) => {
                *self.calls.get_or_insert(0) += 1;
                // A call that failed enqueued nothing.
                self.commands += u64::from(c.result == 0);
            }
            Record::Timing { .. } | Record::ReadTiming { .. } => self.timed += 1,
            Record::Dropped { count, .. } => self.dropped = self.dropped.saturating_add(*count),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_missing_directory_has_no_processes() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(contents(folder.path()), Contents { calls: Some(0), ..Contents::default() });
        assert_eq!(contents(&folder.path().join("none")).unreadable.len(), 1);
    }

    #[test]
    fn a_process_whose_definitions_could_not_be_written_is_counted_apart() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("1-0.defs"), "").unwrap();
        let found = contents(folder.path());
        assert_eq!((found.processes, found.without_trace), (0, 1));
        assert!(found.unreadable.is_empty(), "{:?}", found.unreadable);
    }

    #[test]
    fn why_commands_were_not_repeated_is_told_of_each() {
        let batch = |end: u64, count| clscope_trace::defs::ReplayBatch {
            begin: 0,
            end,
            count,
            ..Default::default()
        };
        let mut of = Repeated::default();
        let tried = |end, count| Replay { trials: vec![batch(end, count)], ..Replay::default() };
        let repeated = Replay { batches: vec![batch(10_000, 10)], ..Replay::default() };
        of.add(&repeated, "main".into());
        of.add(&tried(900, 1), "late".into());
        of.add(&tried(1_000, 1), "late".into());
        of.add(&tried(10, 1), "tiny".into());
        let refused = Replay { refused: "it reads a pipe".into(), ..Replay::default() };
        of.add(&refused, "pipe".into());
        let kernel = |name: &str, count| Ran { name: name.into(), count, kind: None };
        let moved =
            |kind: CommandKind, count| Ran { name: kind.name().into(), count, kind: Some(kind) };
        let ran = [
            kernel("main", 300),
            kernel("late", 200),
            kernel("late", 1),
            kernel("tiny", 100),
            kernel("once", 1),
            kernel("pipe", 7),
            moved(CommandKind::ReadBuffer, 9),
            moved(CommandKind::WriteImage, 9),
        ];
        of.add_rest(ran.into_iter());
        let why: Vec<(&str, Unrepeated)> = of.rest.iter().map(|(n, w)| (&**n, *w)).collect();
        use Unrepeated::{Kind, NoTurn, Once, Small};
        let read = (CommandKind::ReadBuffer.name(), NoTurn);
        let mut expected = [
            read,
            (CommandKind::WriteImage.name(), Kind),
            ("late", NoTurn),
            ("once", Once),
            ("tiny", Small),
        ];
        expected.sort();
        assert_eq!(why, expected);
    }

    #[test]
    fn few_launches_are_no_want_of_added_time() {
        let of = |wanted: &str, held: u64| {
            // Ticks of half a nanosecond.
            let anchor = |s: u64| Anchor {
                ticks: s * 2_000_000_000,
                raw: s * 1_000_000_000,
                monotonic: 0,
                realtime: 0,
                width: 0,
            };
            let batch = clscope_trace::defs::ReplayBatch {
                begin: 1_000,
                end: 1_000 + held * 2_000_000_000,
                count: 10,
                restores_only: false,
            };
            let replay = Replay { batches: vec![batch], ..Replay::default() };
            let mut of = Repeated { wanted: Some(wanted.to_owned()), ..Repeated::default() };
            of.add(&replay, "main".into());
            of.add_held(&[replay], Some((anchor(1), anchor(31))));
            let ran = |name: &str, count, kind| Ran { name: name.into(), count, kind };
            let read = CommandKind::ReadBuffer;
            let all = [
                ran("main", 300, None),
                ran("late", 3, None),
                ran("once", 1, None),
                ran(read.name(), 9, Some(read)),
            ];
            of.add_rest(all.into_iter());
            let added = of.added().map(|added| (added.seconds, added.of));
            let why = |name: &str| of.rest.get(name).copied();
            (added, why("late"), why("once"), why(read.name()))
        };
        use Unrepeated::{AtSight, Few, NoTurn, Once};
        let left = (Some((2.0, 20.0)), Some(Few(3)), Some(Once), Some(Few(9)));
        assert_eq!(of("auto", 2), left);
        let none_left = (Some((19.0, 20.0)), Some(NoTurn), Some(Once), Some(NoTurn));
        assert_eq!(of("auto", 19), none_left);
        let (added, _, _, read) = of("8:300", 5);
        assert_eq!((added, read), (None, Some(AtSight)));
    }

    #[test]
    fn foreign_files_are_told() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("1-0.defs"), "not a trace").unwrap();
        std::fs::write(folder.path().join("notes.txt"), "x").unwrap();
        let found = contents(folder.path());
        assert_eq!((found.processes, found.unreadable.len()), (0, 1));
        assert!(
            found.unreadable[0].starts_with("1-0.defs: not a clscope trace"),
            "{:?}",
            found.unreadable
        );
    }
}
