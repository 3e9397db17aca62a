//! Follows the files of one process: definitions, segments, rings. Each record is added to the sums
//! once, also where a ring held the first part of a block that a segment has whole later. Refuses
//! to keep bytes.

use crate::blocks::Tail;
use crate::spans::Busy;
use crate::sums::Sums;
use clscope_analysis::input::Definitions;
use clscope_io::input;
use clscope_profile::live_ring;
use clscope_trace::defs::{Anchor, Defs};
use clscope_trace::directory::Role;
use clscope_trace::file::HEADER_LEN;
use clscope_trace::record::{Record, Run};
use clscope_trace::stream::{Block, Rings};
use clscope_trace::{Clock, FileHeader, FileKind};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Most bytes of definitions that are taken into memory at once: more than the longest has.
const DEFINITIONS: u64 = 80 << 20;
/// Blocks of a thread that may be missing before those before them are given up.
const MISSING: usize = 1 << 12;
/// Readings without a new block after which a segment that is not the newest is done.
const QUIET: u32 = 5;

/// How far a block was read that is still being filled.
#[derive(Debug, Clone, Copy)]
struct Partial {
    bytes: usize,
    /// What the next record's delta is counted from.
    time: u64,
    /// The run at `bytes`, which may grow: what of it was counted.
    run: Option<Run>,
}

/// What was read of one thread.
#[derive(Debug, Default)]
struct Thread {
    /// All blocks before this one were read.
    below: u32,
    /// Blocks read out of order.
    read: BTreeSet<u32>,
    partial: BTreeMap<u32, Partial>,
    /// The block that the ring holds: those before it are in segments.
    ring: u32,
}

impl Thread {
    fn done(&mut self, sequence: u32) {
        self.partial.remove(&sequence);
        self.read.insert(sequence);
        if self.read.len() > MISSING
            && let Some(first) = self.read.first()
        {
            self.below = *first;
        }
        while self.read.remove(&self.below) {
            self.below += 1;
        }
        self.partial = self.partial.split_off(&self.below);
    }

    fn is_done(&self, sequence: u32) -> bool {
        sequence < self.below || self.read.contains(&sequence)
    }
}

#[derive(Debug, Default)]
struct Segment {
    tail: Tail,
    quiet: u32,
}

/// A call that a thread is in.
#[derive(Debug, Clone, Copy)]
pub struct InCall {
    pub thread: u32,
    pub function: u16,
    /// Ticks at which it began.
    pub begin: u64,
}

/// The way from ticks to nanoseconds of CLOCK_MONOTONIC_RAW, near an anchor.
#[derive(Debug, Clone, Copy)]
pub struct Clockwork {
    pub ticks: u64,
    pub raw: u64,
    pub ns_per_tick: f64,
}

impl Clockwork {
    /// The time at some ticks.
    pub fn at(&self, ticks: u64) -> i64 {
        let distance = ticks.wrapping_sub(self.ticks) as i64;
        (self.raw as i64).saturating_add((distance as f64 * self.ns_per_tick) as i64)
    }
}

/// One process of a trace, followed.
#[derive(Debug, Default)]
pub struct Process {
    pub header: Option<FileHeader>,
    pub definitions: Definitions,
    pub sums: Sums,
    /// As of the last reading.
    pub clock: Option<Clockwork>,
    /// Per device.
    pub busy: BTreeMap<u32, Busy>,
    pub in_calls: Vec<InCall>,
    /// Bytes of the trace that were read.
    pub bytes: u64,
    /// Records dropped that no record tells of.
    pub dropped_untold: u64,
    /// Blocks that could not be decoded.
    pub damaged: u64,
    /// Files that could not be read, with the reason.
    pub unreadable: BTreeMap<String, String>,
    definitions_at: u64,
    segments: BTreeMap<u32, Segment>,
    threads: HashMap<u32, Thread>,
}

impl Process {
    /// Bytes of its definitions that were read.
    pub fn definitions_at(&self) -> u64 {
        self.definitions_at
    }

    /// Reads what is new in the process's files of a directory. `now` gives the anchor of this
    /// moment for a process of this machine.
    pub fn poll(
        &mut self,
        directory: &Path,
        files: &[(String, Role)],
        now: &dyn Fn(&FileHeader) -> Option<Anchor>,
    ) {
        // The first definition says how the process times its commands; those that the newest
        // records use stand before them, so that none is missing after a second look.
        self.read_all(directory, files, |role| matches!(role, Role::Defs(_)));
        self.sums.sampling = self.definitions.process.may_sample();
        // Stamps are checked against the host's clock.
        self.sums.clock = self.clock_at(self.header.as_ref().and_then(now));
        // What moves from a ring to a segment meanwhile is seen twice then, not missed.
        self.read_all(directory, files, |role| !matches!(role, Role::Defs(_)));
        self.read_all(directory, files, |role| matches!(role, Role::Defs(_)));
        self.clock = self.clock_at(self.header.as_ref().and_then(now));
        self.settle();
    }

    fn read_all(&mut self, directory: &Path, files: &[(String, Role)], of: fn(&Role) -> bool) {
        for (name, role) in files.iter().filter(|(_, role)| of(role)) {
            let path = directory.join(name);
            let result = match role {
                Role::Defs(_) => self.read_definitions(&path),
                Role::Ring(_) => self.read_ring(&path),
                Role::Segment(_, number) => self.read_segment(&path, *number, files),
                Role::Sensors | Role::Meta => Ok(()),
            };
            self.note(name, result);
        }
    }

    fn note(&mut self, name: &str, result: io::Result<()>) {
        match result {
            Ok(()) => drop(self.unreadable.remove(name)),
            // Segments go while they are looked at (--max-size).
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => drop(self.unreadable.insert(name.to_owned(), error.to_string())),
        }
    }

    /// How ticks become CLOCK_MONOTONIC_RAW: by an anchor just read on the machine that records,
    /// else by the trace's own. `None` where two anchors are missing.
    fn clock_at(&self, now: Option<Anchor>) -> Option<Clockwork> {
        let anchors = &self.definitions.anchors;
        let last = now.as_ref().or(anchors.last())?;
        if self.header.as_ref().is_some_and(|h| h.clock == Clock::MonotonicRaw) {
            return Some(Clockwork { ticks: last.ticks, raw: last.raw, ns_per_tick: 1.0 });
        }
        let first = anchors.first()?;
        let ticks = last.ticks.checked_sub(first.ticks).filter(|t| *t > 0)?;
        let ns = last.raw.checked_sub(first.raw).filter(|n| *n > 0)?;
        let ns_per_tick = ns as f64 / ticks as f64;
        Some(Clockwork { ticks: last.ticks, raw: last.raw, ns_per_tick })
    }

    /// Checks that a file is of this process.
    fn accept(&mut self, bytes: &[u8], kind: FileKind) -> io::Result<()> {
        let found = FileHeader::decode_as(bytes, kind).map_err(io::Error::other)?;
        let header = self.header.get_or_insert_with(|| found.clone());
        if (header.pid, header.incarnation, header.clock)
            != (found.pid, found.incarnation, found.clock)
        {
            return Err(io::Error::other(format!(
                "it is of process {} (incarnation {})",
                found.pid, found.incarnation
            )));
        }
        Ok(())
    }

    fn read_definitions(&mut self, path: &Path) -> io::Result<()> {
        let file = input::open_inside(path)?;
        let length = file.metadata()?.len();
        let first = self.definitions_at == 0;
        if length <= self.definitions_at {
            return Ok(());
        }
        let most = (length - self.definitions_at).min(DEFINITIONS);
        let mut bytes = vec![0; most as usize];
        file.read_exact_at(&mut bytes, self.definitions_at)?;
        if first {
            self.accept(&bytes, FileKind::Defs)?;
        }
        let behind = if first { HEADER_LEN } else { 0 };
        let mut read = Defs::behind(bytes.get(behind..).unwrap_or(&[]));
        for def in read.by_ref() {
            self.definitions.add(def);
        }
        // One that is torn is being written.
        let taken = (bytes.len() - read.rest()) as u64;
        self.definitions_at += taken;
        self.bytes += taken;
        Ok(())
    }

    fn read_ring(&mut self, path: &Path) -> io::Result<()> {
        let copy = live_ring::read(path)?;
        self.accept(&copy, FileKind::Ring)?;
        self.in_calls.clear();
        self.dropped_untold = 0;
        for ring in Rings::new(&copy) {
            let thread = ring.block.thread;
            self.dropped_untold = self.dropped_untold.saturating_add(ring.dropped);
            self.in_calls.extend(ring.in_call.map(|(function, begin)| InCall {
                thread,
                function,
                begin,
            }));
            let known = self.threads.entry(thread).or_default();
            known.ring = known.ring.max(ring.block.sequence);
            self.feed(&ring.block, false);
        }
        Ok(())
    }

    /// Whether a thread has a block in a segment that was not read yet.
    fn is_behind(&self) -> bool {
        self.threads.values().any(|t| t.below < t.ring)
    }

    fn read_segment(
        &mut self,
        path: &Path,
        number: u32,
        files: &[(String, Role)],
    ) -> io::Result<()> {
        let newer = files.iter().filter(|(_, r)| matches!(r, Role::Segment(_, n) if *n > number));
        let is_old = newer.count() > 1;
        let behind = self.is_behind();
        if !self.segments.contains_key(&number) {
            let mut head = [0; HEADER_LEN];
            input::open_inside(path)?.read_exact_at(&mut head, 0)?;
            self.accept(&head, FileKind::Segment)?;
        }
        let mut segment = self.segments.remove(&number).unwrap_or_default();
        if is_old && segment.quiet > QUIET {
            self.segments.insert(number, segment);
            return Ok(());
        }
        let result = segment.tail.follow(path, behind, &mut |header, payload| {
            let block = Block {
                thread: header.thread,
                sequence: header.sequence,
                base: header.base,
                payload,
            };
            self.feed(&block, true);
        });
        segment.quiet = if matches!(result, Ok(0)) { segment.quiet + 1 } else { 0 };
        self.segments.insert(number, segment);
        self.bytes += result?;
        Ok(())
    }

    /// Adds the records of a block that were not added before. `whole`: nothing comes behind them.
    fn feed(&mut self, block: &Block<'_>, whole: bool) {
        let thread = self.threads.entry(block.thread).or_default();
        if thread.is_done(block.sequence) {
            return;
        }
        let partial = thread.partial.get(&block.sequence).copied();
        let mut at = partial.unwrap_or(Partial { bytes: 0, time: block.base, run: None });
        // Between the write of a block and the next, the ring shows none of it.
        let Some(rest) = block.payload.get(at.bytes..).filter(|r| whole || !r.is_empty()) else {
            return;
        };
        let mut counted = at.run.take();
        // The delta of a run that is read again is in its time already. What preceded it, such as
        // the upper half of that delta, is not read again.
        let delta = counted.and(clscope_trace::file::read_u32(rest, 4)).unwrap_or(0);
        let base = at.time.wrapping_sub(u64::from(delta));
        let mut records = Block { payload: rest, base, ..*block }.records();
        let mut last = None;
        for (ticks, record) in records.by_ref() {
            self.sums.add(ticks, &record, counted.take());
            last = Some((ticks, record));
        }
        if records.damaged() {
            self.damaged += 1;
        }
        let Some(thread) = self.threads.get_mut(&block.thread) else { return };
        if whole {
            thread.done(block.sequence);
            return;
        }
        at.bytes = block.payload.len();
        if let Some((ticks, record)) = last {
            at.time = ticks;
            if let Record::Run(run) = record {
                at.time = ticks.wrapping_sub(u64::from(run.span));
                at.bytes -= Run::WORDS * 8;
                at.run = Some(run);
            }
        }
        thread.partial.insert(block.sequence, at);
    }

    /// Nanoseconds from its first record to the last reading of its clock; `None` where that is not
    /// known.
    pub fn lasted_ns(&self) -> Option<f64> {
        let clock = self.clock?;
        let (first, last) = match self.sums.extent {
            Some(extent) if self.definitions.exit.is_some() => extent,
            _ => (self.header.as_ref()?.created, clock.ticks),
        };
        let ns = clock.at(last).saturating_sub(clock.at(first));
        (ns > 0).then_some(ns as f64)
    }

    /// Puts what ran to the devices it ran on.
    fn settle(&mut self) {
        for ran in self.sums.ran.drain(..) {
            let Some(device) = self.definitions.clock_device(ran.queue) else { continue };
            let Some(clock) = &self.clock else { continue };
            let seen = clock.at(ran.seen);
            self.busy.entry(device).or_default().add(ran.span.0, ran.span.1, seen);
        }
        self.busy.values_mut().for_each(Busy::settle);
    }
}
