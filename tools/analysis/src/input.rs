//! Owns the opening of one process's files, given as byte slices: definitions by id, blocks by
//! thread and sequence number, rings. Tolerates any damage and reports what it found; refuses to
//! touch a file system or to decode records.

use crate::issue::{Issue, IssueKind};
use crate::time::ThreadIndex;
use clscope_mix::reuse::Reuse;
use clscope_trace::defs::{
    Anchor, AppendedOptions, Calibration, CallSite, Capture, ClockMarkers, Code, Context, Def,
    Defs, Device, Exit, Function, Geometry, Kernel, LocalSize, Mix, Module, Platform,
    Process as ProcessDef, Program, Queue, Replaced, Replay, Resources, Thread, Warning,
};
use clscope_trace::file::read_u32;
use clscope_trace::record::{DropReason, detail};
use clscope_trace::ring_file::control;
use clscope_trace::stream::{Block, Blocks, Rings};
use clscope_trace::{FileHeader, FileKind, variables};
use std::collections::{BTreeMap, HashMap};

/// Bytes of a file and its name for messages.
#[derive(Debug, Clone)]
pub struct File<'a> {
    /// Path or name as the user should read it.
    pub name: String,
    /// All of its bytes.
    pub bytes: &'a [u8],
}

/// The files of one process incarnation.
#[derive(Debug, Clone, Default)]
pub struct ProcessFiles<'a> {
    /// How messages name the process, for example `app.clscope/1234-0`.
    pub label: String,
    /// `PID-N.defs`.
    pub defs: Option<File<'a>>,
    /// `PID-N.SEG.clt`, in any order.
    pub segments: Vec<File<'a>>,
    /// `PID-N.ring`.
    pub ring: Option<File<'a>>,
    /// What the caller already found wrong with these files.
    pub issues: Vec<IssueKind>,
    /// Anchors read by the caller on the machine and in the boot that recorded the process: they
    /// give the tick's length where the process was killed before its second anchor.
    pub extra_anchors: Vec<Anchor>,
}

/// What ids mean. Later definitions of the same id replace earlier ones.
#[derive(Debug, Clone, Default)]
pub struct Definitions {
    /// The process itself.
    pub process: ProcessDef,
    functions: Vec<Option<Function>>,
    /// Threads by index.
    pub threads: BTreeMap<u32, Thread>,
    /// Platforms by id.
    pub platforms: BTreeMap<u32, Platform>,
    /// Devices by id.
    pub devices: BTreeMap<u32, Device>,
    /// Contexts by id.
    pub contexts: HashMap<u32, Context>,
    /// Queues by id.
    pub queues: HashMap<u32, Queue>,
    /// Numbers of queues among those of their device, from 1, by the queue's id.
    pub queue_numbers: HashMap<u32, u32>,
    /// Queues of each device so far.
    queues_of: HashMap<u32, u32>,
    /// Programs by id.
    pub programs: HashMap<u32, Program>,
    /// Options of the newest build of each program, by the program's id.
    pub build_options: HashMap<u32, String>,
    /// Kernels by id.
    pub kernels: HashMap<u32, Kernel>,
    /// Recorded names of kernels that a reader has given readable ones, by the kernel's id.
    pub recorded_names: HashMap<u32, String>,
    /// What tells kernels apart whose names others have, by the kernel's id ([`crate::distinct`]).
    pub kernel_marks: HashMap<u32, String>,
    /// Names of devices whose names others have, by the device's id.
    pub device_labels: HashMap<u32, String>,
    /// Geometries by id.
    pub geometries: HashMap<u32, Geometry>,
    /// Clock anchors in order.
    pub anchors: Vec<Anchor>,
    /// The orderly end, if there was one.
    pub exit: Option<Exit>,
    /// Warnings of the recorder, in order.
    pub warnings: Vec<Warning>,
    /// Bounds of device clocks from the recorder's markers.
    pub clock_markers: Vec<ClockMarkers>,
    /// Calibrations.
    pub calibrations: Vec<Calibration>,
    /// Launches that the recorder repeated, or why not.
    pub replays: Vec<Replay>,
    /// Executables and libraries that calls come from, by id.
    pub modules: HashMap<u32, Module>,
    /// Places that enqueues were called from, by id.
    pub call_sites: BTreeMap<u32, CallSite>,
    /// Texts and binaries of programs, in order.
    pub codes: Vec<Code>,
    /// What kernels take of devices, in order: later ones add to earlier ones.
    pub resources: Vec<Resources>,
    /// Launches whose instructions were counted, or why not.
    pub mixes: Vec<Mix>,
    /// Instructions of the longest group of a launch that was counted, by its place in `mixes`.
    pub longest_groups: BTreeMap<usize, u64>,
    /// How soon a launch that was counted touched memory again, by its place in `mixes`.
    pub reuses: BTreeMap<usize, Reuse>,
    /// Launches that were captured, or why not, in order.
    pub captures: Vec<Capture>,
    /// Kernels whose code was to be a file's, in order.
    pub replaced: Vec<Replaced>,
    /// Launches whose work-group size was to be set, in order.
    pub local_sizes: Vec<LocalSize>,
    /// Options that were appended to those of programs, in order.
    pub appended_options: Vec<AppendedOptions>,
    /// Definitions of unknown kinds.
    pub unknown: u64,
}

/// What a filter of the user's kept out of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// In words.
    pub why: String,
    /// Whether commands may be among it.
    pub commands: bool,
}

impl Definitions {
    /// The value of a setting that the recorder was given; `None` where it is empty, too.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let all = self.process.settings.iter().filter_map(|s| s.split_once('='));
        let mut given = all.filter(|(of, value)| *of == name && !value.trim().is_empty());
        given.next().map(|(_, value)| value)
    }

    /// What a filter kept out of the record, where there was one.
    pub fn left_out(&self) -> Option<LeftOut> {
        let of = |name: &str, commands: fn(&str) -> bool| {
            let value = self.setting(name)?;
            let why = format!("{name}={value} leaves calls out");
            Some(LeftOut { why, commands: commands(value) })
        };
        let groups = |value: &str| value.split(',').all(|group| group.trim() != "enqueue");
        of(variables::KERNELS, |_| true).or_else(|| of(variables::GROUPS, groups))
    }

    /// Takes up one definition.
    pub fn add(&mut self, def: Def) {
        match def {
            Def::Process(d) => self.process = d,
            Def::Function(d) => {
                let id = usize::from(d.id);
                if self.functions.len() <= id {
                    self.functions.resize_with(id + 1, || None);
                }
                self.functions[id] = Some(d);
            }
            Def::Anchor(d) => self.anchors.push(d),
            Def::Thread(d) => drop(self.threads.insert(d.index, d)),
            Def::Platform(d) => drop(self.platforms.insert(d.id, d)),
            Def::Device(d) => drop(self.devices.insert(d.id, d)),
            Def::Context(d) => drop(self.contexts.insert(d.id, d)),
            Def::Queue(d) => self.add_queue(d),
            Def::Program(d) => drop(self.programs.insert(d.id, d)),
            Def::Build(d) => drop(self.build_options.insert(d.program, d.options)),
            Def::Kernel(d) => drop(self.kernels.insert(d.id, d)),
            Def::Geometry(d) => drop(self.geometries.insert(d.id, d)),
            Def::Exit(d) => self.exit = Some(d),
            Def::Warning(d) => self.warnings.push(d),
            Def::ClockMarkers(d) => self.clock_markers.push(d),
            Def::Calibration(d) => self.calibrations.push(d),
            Def::Replay(d) => self.replays.push(d),
            Def::Module(d) => drop(self.modules.insert(d.id, d)),
            Def::CallSite(d) => drop(self.call_sites.insert(d.id, d)),
            Def::Code(d) => self.codes.push(d),
            Def::Resources(d) => self.resources.push(d),
            Def::Mix(d) => self.mixes.push(d),
            Def::Capture(d) => self.captures.push(d),
            Def::Replaced(d) => self.replaced.push(d),
            Def::LocalSize(d) => self.local_sizes.push(d),
            Def::AppendedOptions(d) => self.appended_options.push(d),
            Def::Unknown { .. } => self.unknown += 1,
        }
    }

    /// The function of that id, if it is defined.
    pub fn function(&self, id: u16) -> Option<&Function> {
        self.functions.get(usize::from(id))?.as_ref()
    }

    /// All functions in order of their ids.
    pub fn functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().flatten()
    }

    /// By function id, whether calls of it wait for devices.
    pub fn waiting(&self) -> Vec<bool> {
        let most = self.functions().map(|f| f.id).max().unwrap_or(0);
        let mut waiting = vec![false; usize::from(most) + 1];
        for function in self.functions() {
            waiting[usize::from(function.id)] = function.group == "wait";
        }
        waiting
    }

    /// The function's name, `function N` where it is not defined.
    pub fn function_name(&self, id: u16) -> std::borrow::Cow<'_, str> {
        self.function(id)
            .map_or_else(|| format!("function {id}").into(), |f| f.name.as_str().into())
    }

    fn add_queue(&mut self, queue: Queue) {
        if !self.queues.contains_key(&queue.id) {
            let number = self.queues_of.entry(queue.device).or_default();
            *number += 1;
            self.queue_numbers.insert(queue.id, *number);
        }
        self.queues.insert(queue.id, queue);
    }

    /// What outputs call a queue: its number among those of its device, with the device where the
    /// process has queues of several.
    pub fn queue_name(&self, id: u32) -> String {
        match (self.queue_numbers.get(&id), self.queues.get(&id)) {
            (Some(number), Some(queue)) if self.queues_of.len() > 1 => {
                format!("queue {number} on {}", self.device_name(queue.device))
            }
            (Some(number), _) => format!("queue {number}"),
            (None, _) => "unknown queue".to_owned(),
        }
    }

    /// The device of a queue; sub-devices lead to the device whose clock they share. `None` if it
    /// is not known.
    pub fn clock_device(&self, queue: u32) -> Option<u32> {
        let mut device = self.queues.get(&queue)?.device;
        // A hostile file may make parents a circle.
        for _ in 0..8 {
            match self.devices.get(&device).and_then(|d| d.parent) {
                Some(parent) => device = parent,
                None => break,
            }
        }
        Some(device)
    }

    /// The kernel's name, with what tells it apart where kernels of other programs have it;
    /// `kernel N` where it is not defined.
    pub fn kernel_name(&self, id: u32) -> std::borrow::Cow<'_, str> {
        let Some(kernel) = self.kernels.get(&id) else { return format!("kernel {id}").into() };
        match self.kernel_marks.get(&id) {
            Some(mark) => format!("{}{mark}", kernel.name).into(),
            None => kernel.name.as_str().into(),
        }
    }

    /// The device's name, with what tells it apart where other devices have it; `device N` where it
    /// is not defined.
    pub fn device_name(&self, id: u32) -> std::borrow::Cow<'_, str> {
        let label = self.device_labels.get(&id).map(String::as_str);
        let name = label.or_else(|| self.devices.get(&id).map(|d| d.name.as_str()));
        name.map_or_else(|| format!("device {id}").into(), Into::into)
    }
}

/// The call a thread was in when the process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InCall {
    /// Thread.
    pub thread: ThreadIndex,
    /// Function id.
    pub function: u16,
    /// Ticks at which it began.
    pub begin: u64,
}

/// One opened process.
#[derive(Debug, Clone)]
pub struct Process<'a> {
    /// How messages name it.
    pub label: String,
    /// The header of its definitions, else of any file of it.
    pub header: FileHeader,
    /// What ids mean.
    pub definitions: Definitions,
    /// Anchors of the caller; see [`ProcessFiles::extra_anchors`].
    pub extra_anchors: Vec<Anchor>,
    /// Blocks by thread and sequence number, no duplicates.
    pub(crate) blocks: Vec<Block<'a>>,
    /// Calls that were in progress at the end.
    pub in_calls: Vec<InCall>,
    /// Records dropped that no record reports.
    pub dropped_untold: u64,
    /// What was found wrong on opening.
    pub issues: Vec<IssueKind>,
}

impl<'a> Process<'a> {
    /// Whether its recorder tells of each transfer whose memory of the host OpenCL gave out.
    pub fn tells_host_memory(&self) -> bool {
        self.header.version >= detail::HOST_MEMORY_SINCE
    }

    /// Opens a process. Errors with the process's issues where not one file of it can be read.
    pub fn open(files: ProcessFiles<'a>) -> Result<Self, Vec<Issue>> {
        let ProcessFiles { label, defs, segments, ring, mut issues, extra_anchors } = files;
        let mut header: Option<FileHeader> = None;
        let mut definitions = Definitions::default();
        let mut read_defs = false;
        // The recorder makes this file before any other, and stops where it cannot write to it.
        let not_written = defs.as_ref().is_some_and(|f| f.bytes.is_empty())
            && segments.is_empty()
            && ring.is_none();
        if not_written {
            issues.push(IssueKind::NotWritten);
        } else if let Some(file) = &defs
            && let Some(found) = check(file, FileKind::Defs, &header, &mut issues)
        {
            header = Some(found);
            read_defs = true;
            let mut read = Defs::new(file.bytes);
            for def in read.by_ref() {
                definitions.add(def);
            }
            if read.torn() > 0 {
                issues.push(IssueKind::TornDefinitions { bytes: read.torn() });
            }
            if definitions.unknown > 0 {
                issues.push(IssueKind::UnknownDefinitions { count: definitions.unknown });
            }
        }
        if !read_defs && !not_written {
            issues.push(IssueKind::NoDefinitions);
        }

        let mut blocks: Vec<Block<'a>> = Vec::new();
        let mut oldest = u32::MAX;
        // The newest block of each thread in the oldest segment. Blocks are not written in the order
        // of their numbers: what is missing before it went with the segments that are gone.
        let mut cut: HashMap<u32, u32> = HashMap::new();
        for file in &segments {
            let Some(found) = check(file, FileKind::Segment, &header, &mut issues) else {
                continue;
            };
            let is_oldest = found.segment < oldest;
            oldest = oldest.min(found.segment);
            header.get_or_insert(found);
            let mut read = Blocks::new(file.bytes);
            let from = blocks.len();
            blocks.extend(read.by_ref());
            if is_oldest {
                cut.clear();
                for block in &blocks[from..] {
                    let newest = cut.entry(block.thread).or_default();
                    *newest = block.sequence.max(*newest);
                }
            }
            let damage = read.damage();
            if damage.torn_blocks > 0 {
                issues.push(IssueKind::TornBlocks {
                    file: file.name.clone(),
                    blocks: damage.torn_blocks,
                    bytes: damage.skipped_bytes,
                });
            } else if damage.skipped_bytes > 0 && !zero_tail(file.bytes, damage.skipped_bytes) {
                issues.push(IssueKind::SkippedBytes {
                    file: file.name.clone(),
                    bytes: damage.skipped_bytes,
                });
            }
        }
        let (mut in_calls, mut dropped_untold, mut next_blocks) =
            (Vec::new(), 0u64, HashMap::new());
        let mut untold: BTreeMap<Option<DropReason>, u64> = BTreeMap::new();
        if let Some(file) = &ring
            && let Some(found) = check(file, FileKind::Ring, &header, &mut issues)
        {
            header.get_or_insert(found);
            let mut rings = Rings::new(file.bytes);
            for ring in rings.by_ref() {
                dropped_untold = dropped_untold.saturating_add(ring.dropped);
                let failed = ring.failed.map(|failed| failed.min(ring.dropped));
                let (reason, others) = match failed {
                    Some(failed) => (Some(DropReason::Reentered), ring.dropped - failed),
                    None => (None, ring.dropped),
                };
                let failed = (Some(DropReason::WriteFailed), failed.unwrap_or(0));
                for (reason, records) in [failed, (reason, others)] {
                    let all = untold.entry(reason).or_default();
                    *all = all.saturating_add(records);
                }
                let thread = ThreadIndex(ring.block.thread);
                in_calls.extend(ring.in_call.map(|(function, begin)| InCall {
                    thread,
                    function,
                    begin,
                }));
                // A thread may have left full rings behind that wait to be written: the newest
                // tells.
                let next = next_blocks.entry(ring.block.thread).or_insert(0u32);
                *next = ring.block.sequence.max(*next);
                if !ring.block.payload.is_empty() {
                    blocks.push(ring.block);
                }
            }
            if rings.damaged() {
                issues.push(IssueKind::DamagedRing { file: file.name.clone() });
            }
        }
        let Some(header) = header else {
            return Err(issues
                .into_iter()
                .map(|kind| Issue { subject: label.clone(), kind })
                .collect());
        };

        // The sort is stable, so that of a segment's and a ring's copy of a block the segment's is
        // kept.
        blocks.sort_by_key(|b| (b.thread, b.sequence));
        blocks.dedup_by_key(|b| (b.thread, b.sequence));
        let rotated = oldest != u32::MAX && oldest > 0;
        if rotated {
            issues.push(IssueKind::OldestRotated { segments: oldest });
        }
        let (mut threads, mut missing) = (0, 0);
        for thread in blocks.chunk_by(|a, b| a.thread == b.thread) {
            let (first, last) = (thread[0].sequence, thread[thread.len() - 1].sequence);
            // A ring that fills block N shows that all before N were written.
            let next = next_blocks
                .get(&thread[0].thread)
                .map_or(0, |n| n.saturating_sub(last.saturating_add(1)));
            // What is whole begins here.
            let begin = match cut.get(&thread[0].thread) {
                _ if !rotated => 0,
                Some(newest) => first.max(*newest),
                None => first,
            };
            let there = thread.iter().filter(|b| b.sequence >= begin).count() as u64;
            let lost = u64::from(last - begin) + 1 - there + u64::from(next);
            threads += u64::from(lost > 0);
            missing += lost;
        }
        if missing > 0 {
            issues.push(IssueKind::MissingBlocks { threads, blocks: missing });
        }
        for (reason, records) in untold.into_iter().filter(|(_, records)| *records > 0) {
            issues.push(IssueKind::Dropped { records, reason });
        }
        let is_running = |kind: &IssueKind| matches!(kind, IssueKind::Running { .. });
        if definitions.exit.is_some() {
            // It has ended since the caller looked.
            issues.retain(|kind| !is_running(kind));
        } else if read_defs && !issues.iter().any(is_running) {
            let failure = ring.as_ref().and_then(|ring| read_u32(ring.bytes, control::FAILURE));
            let is_full = failure.is_some_and(|failure| control::FULL.contains(&failure));
            issues.push(if is_full { IssueKind::EndUnwritten } else { IssueKind::NotEnded });
        }
        issues.extend(
            definitions
                .warnings
                .iter()
                .map(|w| IssueKind::Recorder { code: w.code.clone(), text: w.text.clone() }),
        );
        Ok(Self {
            label,
            header,
            definitions,
            extra_anchors,
            blocks,
            in_calls,
            dropped_untold,
            issues,
        })
    }
}

/// The header of a file if it can be used for this process; else an issue.
fn check(
    file: &File<'_>,
    kind: FileKind,
    known: &Option<FileHeader>,
    issues: &mut Vec<IssueKind>,
) -> Option<FileHeader> {
    match FileHeader::decode_as(file.bytes, kind) {
        Err(error) => {
            issues.push(IssueKind::Unreadable { file: file.name.clone(), error });
            None
        }
        Ok(found)
            if known.as_ref().is_some_and(|k| {
                (k.pid, k.incarnation, k.clock) != (found.pid, found.incarnation, found.clock)
            }) =>
        {
            issues.push(IssueKind::OtherProcess {
                file: file.name.clone(),
                pid: found.pid,
                incarnation: found.incarnation,
            });
            None
        }
        Ok(found) => Some(found),
    }
}

/// Whether what was skipped is space reserved at the end of a segment and never written, which is
/// no damage.
fn zero_tail(bytes: &[u8], skipped: u64) -> bool {
    let from = bytes.len().saturating_sub(usize::try_from(skipped).unwrap_or(usize::MAX));
    bytes.get(from..).is_some_and(|tail| tail.iter().all(|b| *b == 0))
}
