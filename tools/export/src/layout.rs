//! Owns which track an event is drawn on: ids of processes and threads as viewers want them, and
//! the names and order of tracks. Refuses to write.
//!
//! Each process is a group: its threads, below them a track per queue and lane of the devices that
//! it uses, below those the sensors of its host. Real process and thread ids are shown where they
//! are unique over all traces opened together; the rest, and queues, get numbers above any real id,
//! and names that say what they are.

use super::lanes::Lanes;
use clscope_analysis::Trace;
use clscope_analysis::ids::IdMap;
use clscope_analysis::time::{ProcessIndex, Span, ThreadIndex};
use std::collections::{HashMap, HashSet};

/// Linux gives ids up to 2^22.
pub const FIRST_MADE_UP: u32 = (1 << 22) + 1;
/// Threads come first in a group, then queues, then sensors.
const QUEUES: u32 = 1 << 20;

/// Ids of the processes of a trace: their own where those are unique, else numbers above any real
/// id. `by_host`: they need only be unique on their host.
pub fn process_ids(trace: &Trace<'_>, by_host: bool) -> Vec<u32> {
    let mut of_hosts: HashMap<usize, Numbers> = HashMap::new();
    let hosts = trace.timeline.host_of.iter().copied().chain(std::iter::repeat(0));
    let ids = trace.processes.iter().zip(hosts).map(|(process, host)| {
        of_hosts.entry(if by_host { host } else { 0 }).or_default().take(process.header.pid)
    });
    ids.collect()
}

/// Numbers in use, and where those that are made up go on.
#[derive(Debug, Default)]
struct Numbers {
    used: HashSet<u32>,
    made_up: u32,
}

impl Numbers {
    /// `wanted` where it is free, else a number above any real id.
    fn take(&mut self, wanted: u32) -> u32 {
        // Viewers give 0 a meaning of its own (the idle process).
        if wanted != 0 && self.used.insert(wanted) { wanted } else { self.make_up() }
    }

    /// A number above any real id that is free. A damaged trace may name any number as an id, the
    /// last one too: the search begins again behind the real ids, and ends, since no trace has as
    /// many tracks as there are numbers.
    fn make_up(&mut self) -> u32 {
        loop {
            let number = FIRST_MADE_UP.checked_add(self.made_up).unwrap_or_else(|| {
                self.made_up = 0;
                FIRST_MADE_UP
            });
            self.made_up += 1;
            if self.used.insert(number) {
                return number;
            }
        }
    }
}

/// What people call a process: its program and id, rank and host where there are several.
pub fn process_name(trace: &Trace<'_>, index: u32) -> String {
    let Some(process) = trace.processes.get(index as usize) else { return "process".to_owned() };
    let definition = &process.definitions.process;
    let mut name = format!("{} ({})", program(&definition.executable), process.header.pid);
    if let Some(rank) = definition.mpi_rank {
        name.push_str(&format!(" rank {rank}"));
    }
    if trace.timeline.hosts.len() > 1 && !definition.host.is_empty() {
        name.push_str(&format!(" on {}", definition.host));
    }
    name
}

/// A track in the terms of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Track {
    /// Group.
    pub pid: u32,
    /// Track in it.
    pub tid: u32,
}

/// A property of a track that the viewer needs before its first event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    /// A group, with its place among groups.
    Group {
        /// Its id.
        pid: u32,
        /// Its name.
        name: String,
        /// Its place.
        order: u32,
    },
    /// A track, with its place in its group.
    Track {
        /// Its id.
        track: Track,
        /// Its name.
        name: String,
        /// Its place.
        order: u32,
    },
}

/// All tracks so far.
#[derive(Debug, Default)]
pub struct Layout {
    pids: Vec<u32>,
    /// By process and thread.
    threads: IdMap<Track>,
    queues: HashMap<(u32, u32), QueueTracks>,
    /// Of what the recorder repeated of their commands.
    repeated: HashMap<(u32, u32), Track>,
    numbers: Numbers,
    /// Names that were not yet taken by [`take_new`](Self::take_new).
    new: Vec<Named>,
}

#[derive(Debug)]
struct QueueTracks {
    pid: u32,
    order: u32,
    name: String,
    lanes: Lanes,
    tracks: Vec<Track>,
}

impl Layout {
    /// With a group for every process and a track for every thread that is defined.
    pub fn new(trace: &Trace<'_>) -> Self {
        let pids = process_ids(trace, false);
        let numbers = Numbers { used: pids.iter().copied().collect(), made_up: 0 };
        let mut out = Self { pids, numbers, ..Self::default() };
        for (index, process) in (0u32..).zip(&trace.processes) {
            let pid = out.group(ProcessIndex(index));
            out.new.push(Named::Group { pid, name: process_name(trace, index), order: index });
            for thread in process.definitions.threads.keys() {
                out.thread(trace, ProcessIndex(index), ThreadIndex(*thread));
            }
        }
        out
    }

    /// The track that sensors of a host are drawn on: in the group of its first process.
    pub fn sensors(&mut self, trace: &Trace<'_>, host: usize) -> Track {
        let first = trace.timeline.host_of.iter().position(|h| *h == host).unwrap_or(0);
        let pid = self.group(ProcessIndex(u32::try_from(first).unwrap_or(0)));
        Track { pid, tid: pid }
    }

    /// Names that came up since the last call.
    pub fn take_new(&mut self) -> Vec<Named> {
        std::mem::take(&mut self.new)
    }

    /// The group of a process.
    pub fn group(&self, process: ProcessIndex) -> u32 {
        self.pids.get(process.0 as usize).copied().unwrap_or(FIRST_MADE_UP)
    }

    /// The track of a host thread.
    pub fn thread(
        &mut self,
        trace: &Trace<'_>,
        process: ProcessIndex,
        thread: ThreadIndex,
    ) -> Track {
        let key = u64::from(process.0) << 32 | u64::from(thread.0);
        if let Some(track) = self.threads.get(&key) {
            return *track;
        }
        let pid = self.group(process);
        let definitions = &trace.process(process).definitions;
        let known = definitions.threads.get(&thread.0);
        // The main thread has the process's id, and so may have it too.
        let real = known.map_or(0, |t| t.tid);
        let tid = if real != 0
            && real == trace.process(process).header.pid
            && !self.threads.values().any(|t| *t == Track { pid, tid: pid })
        {
            pid
        } else {
            self.numbers.take(real)
        };
        let track = Track { pid, tid };
        self.threads.insert(key, track);
        let name = match known {
            Some(t) if !t.name.is_empty() => format!("{} ({})", t.name, t.tid),
            Some(t) => format!("thread {}", t.tid),
            None => format!("thread {}", thread.0),
        };
        self.new.push(Named::Track { track, name, order: thread.0 });
        track
    }

    /// The track for a span on a queue: its first lane that is free over the span.
    pub fn queue(
        &mut self,
        trace: &Trace<'_>,
        process: ProcessIndex,
        queue: u32,
        span: Span,
    ) -> Track {
        let key = (process.0, queue);
        if !self.queues.contains_key(&key) {
            let made = self.make_queue(trace, process, queue);
            self.queues.insert(key, made);
        }
        let numbers = &mut self.numbers;
        let Some(tracks) = self.queues.get_mut(&key) else { return Track { pid: 0, tid: 0 } };
        let lane = tracks.lanes.place(span);
        while tracks.tracks.len() <= lane {
            let track = Track { pid: tracks.pid, tid: numbers.make_up() };
            let number = tracks.tracks.len();
            let name = if number == 0 {
                tracks.name.clone()
            } else {
                format!("{} lane {}", tracks.name, number + 1)
            };
            let order = tracks.order.saturating_add(u32::try_from(number).unwrap_or(u32::MAX));
            self.new.push(Named::Track { track, name, order });
            tracks.tracks.push(track);
        }
        tracks.tracks[lane]
    }

    /// The track for what the recorder repeated of a queue's commands.
    pub fn repeated(&mut self, trace: &Trace<'_>, process: ProcessIndex, queue: u32) -> Track {
        let key = (process.0, queue);
        if let Some(track) = self.repeated.get(&key) {
            return *track;
        }
        let of = self.make_queue(trace, process, queue);
        let track = Track { pid: of.pid, tid: self.numbers.make_up() };
        let name = format!("{}: {}", of.name, crate::repeated::TITLE);
        // Behind the queue's own lanes.
        self.new.push(Named::Track { track, name, order: of.order.saturating_add(999) });
        self.repeated.insert(key, track);
        track
    }

    fn make_queue(&self, trace: &Trace<'_>, process: ProcessIndex, queue: u32) -> QueueTracks {
        let definitions = &trace.process(process).definitions;
        let known = definitions.queues.get(&queue);
        let device = known.map_or(0, |q| q.device);
        let in_order = known.is_none_or(|q| !q.is_out_of_order());
        let device = definitions.device_name(device);
        let order = if in_order { "" } else { ", out of order" };
        let name = match definitions.queue_numbers.get(&queue) {
            Some(number) => format!("queue {number}{order} on {device}"),
            None => format!("unknown queue{order} on {device}"),
        };
        QueueTracks {
            pid: self.group(process),
            order: QUEUES.saturating_add(queue.saturating_mul(1000)),
            name,
            lanes: Lanes::default(),
            tracks: Vec::new(),
        }
    }
}

/// The last part of an executable's path.
fn program(executable: &str) -> &str {
    let name = executable.rsplit('/').next().unwrap_or(executable);
    if name.is_empty() { "process" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_whatever_ids_a_trace_names() {
        let wanted = [7, 7, 0, u32::MAX, u32::MAX, FIRST_MADE_UP, FIRST_MADE_UP + 2, 8];
        let mut numbers = Numbers::default();
        let given: Vec<u32> = wanted.iter().map(|id| numbers.take(*id)).collect();
        assert_eq!(given.iter().collect::<HashSet<_>>().len(), wanted.len(), "{given:?}");
        assert!(!given.contains(&0));
        assert_eq!((given[0], given[3], given[7]), (7, u32::MAX, 8), "a free id is kept");
    }

    #[test]
    fn made_up_numbers_begin_again_behind_the_last() {
        let mut numbers = Numbers::default();
        numbers.take(FIRST_MADE_UP);
        numbers.made_up = u32::MAX - FIRST_MADE_UP;
        let given = [numbers.make_up(), numbers.make_up()];
        assert_eq!(given, [u32::MAX, FIRST_MADE_UP + 1]);
    }
}
