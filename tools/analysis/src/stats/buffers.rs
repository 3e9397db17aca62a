//! Owns the buffers that a process made, by size and flags, with the copies that used them. Refuses
//! to keep them one by one beyond some hundred thousand objects and a thousand kinds: of more it
//! says so.

use crate::event::{Call, Command, Outcome};
use crate::ids::IdMap;
use crate::input::Definitions;
use clscope_trace::record::Direction;
use std::collections::HashMap;

/// Buffers that are known by their ids.
const MOST: usize = 1 << 18;
/// Kinds that are kept.
const MOST_KINDS: usize = 1 << 10;

/// Copies of buffers of one kind in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Copied {
    /// How many.
    pub count: u64,
    /// Bytes of all.
    pub bytes: u64,
    /// Nanoseconds of those with a time.
    pub ns: u64,
    /// How many of them have a time.
    pub timed: u64,
}

impl Copied {
    fn add(&mut self, bytes: u64, ns: Option<u64>) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.ns = self.ns.saturating_add(ns.unwrap_or(0));
        self.timed += u64::from(ns.is_some());
    }
}

/// Buffers of one size with the same flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BufferSums {
    /// `cl_mem_flags`.
    pub flags: u64,
    /// Bytes of each.
    pub size: u64,
    /// How many were made.
    pub made: u64,
    /// Copies to them from the host.
    pub to_device: Copied,
    /// Copies from them to the host.
    pub from_device: Copied,
}

/// The buffers of a process.
#[derive(Debug, Clone, Default)]
pub struct Buffers {
    /// In the order in which they came.
    pub kinds: Vec<BufferSums>,
    /// Whether there were more buffers or kinds than are kept.
    pub is_cut: bool,
    index: HashMap<(u64, u64), usize>,
    /// Kind of each buffer by its id.
    known: IdMap<usize, u32>,
}

/// The functions that make buffers.
pub const MAKING: [&str; 2] = ["clCreateBuffer", "clCreateBufferWithProperties"];

impl Buffers {
    /// A call of one of [`MAKING`].
    pub(super) fn made(&mut self, call: &Call<'_>, definitions: &Definitions) {
        let Some(function) = definitions.function(call.function) else { return };
        let value = |name: &str| {
            call.arguments(function).find(|a| a.argument.name == name).map(|a| a.value)
        };
        let (Some(flags), Some(size)) = (value("flags"), value("size")) else { return };
        let id = value("return").and_then(|id| u32::try_from(id).ok()).filter(|id| *id != 0);
        let Some(id) = id.filter(|_| call.result == 0) else { return };
        let next = self.kinds.len();
        let at = match self.index.get(&(flags, size)) {
            Some(at) => *at,
            None if next < MOST_KINDS => {
                self.kinds.push(BufferSums { flags, size, ..BufferSums::default() });
                self.index.insert((flags, size), next);
                next
            }
            None => {
                self.is_cut = true;
                return;
            }
        };
        self.kinds[at].made += call.count();
        match self.known.len() < MOST {
            true => drop(self.known.insert(id, at)),
            false => self.is_cut = true,
        }
    }

    /// A command with its outcome.
    pub(super) fn used(&mut self, command: &Command<'_>) {
        let record = &command.enqueued.record;
        let way = record.kind.direction();
        let copies = matches!(way, Some(Direction::HostToDevice | Direction::DeviceToHost));
        if !copies || command.never_ran() {
            return;
        }
        let kind = self.known.get(&record.object).and_then(|at| self.kinds.get_mut(*at));
        let Some(kind) = kind else { return };
        let ns = match &command.outcome {
            Outcome::Timed(times) => Some(times.duration()),
            Outcome::Untimed { .. } | Outcome::Unfinished(_) => None,
        };
        match way {
            Some(Direction::HostToDevice) => kind.to_device.add(record.bytes, ns),
            _ => kind.from_device.add(record.bytes, ns),
        }
    }
}
