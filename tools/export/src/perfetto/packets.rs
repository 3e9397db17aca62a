//! Owns packets: a sequence of them for each host, with names interned on first use. Refuses to
//! know what an event means.
//!
//! Most packets come in order of their times. A sequence has a clock of its own for them, of which
//! a time is the distance from the one before; a packet that goes back is in CLOCK_MONOTONIC_RAW.

use super::numbers::*;
use crate::arguments::{Argument, Sink};
use crate::proto::Message;
use clscope_analysis::time::HostNs;
use std::collections::HashMap;
use std::io::{self, Write};

/// Most texts that are interned as values: a trace may hold any number of them, and the reader
/// keeps them all.
const MOST_TEXTS: usize = 1 << 16;

/// The clock of a sequence: the first of the numbers that the format leaves to sequences.
const CLOCK_OF_SEQUENCE: u64 = 64;

/// Names by kind, each with its number; numbers begin at 1.
#[derive(Debug, Default)]
pub struct Names {
    known: Vec<(u32, HashMap<String, u64>)>,
    /// Entries that no packet has brought yet.
    new: Message,
}

impl Names {
    /// The number of a name among those of `kind`, which is the field of the message that brings
    /// them.
    pub fn intern(&mut self, kind: u32, name: &str) -> u64 {
        self.with(kind, name, |_| {})
    }

    /// The same, with what a new entry says besides its name.
    pub fn with(&mut self, kind: u32, name: &str, more: impl FnOnce(&mut Message)) -> u64 {
        let known = self.known(kind);
        if let Some(id) = known.get(name) {
            return *id;
        }
        let id = known.len() as u64 + 1;
        known.insert(name.to_owned(), id);
        self.new.nested(kind, |m| {
            m.uint(INTERNED_ID, id);
            m.text(INTERNED_NAME, name);
            more(m);
        });
        id
    }

    /// Those of a kind. There are few kinds.
    fn known(&mut self, kind: u32) -> &mut HashMap<String, u64> {
        let at = self.known.iter().position(|(k, _)| *k == kind).unwrap_or(self.known.len());
        if at == self.known.len() {
            self.known.push((kind, HashMap::new()));
        }
        &mut self.known[at].1
    }

    /// The number of a text that is a value, where it is worth one: not of addresses, of which no
    /// two are the same, nor of texts as short as a number.
    fn text(&mut self, text: &str) -> Option<u64> {
        if text.len() <= 3 || text.starts_with("0x") {
            return None;
        }
        match self.known(INTERNED_TEXTS) {
            known if known.len() < MOST_TEXTS => Some(self.intern(INTERNED_TEXTS, text)),
            known => known.get(text).copied(),
        }
    }

    /// An entry without a name, under a number of the caller's.
    pub fn numbered(&mut self, kind: u32, id: u64, more: impl FnOnce(&mut Message)) {
        self.new.nested(kind, |m| {
            m.uint(INTERNED_ID, id);
            more(m);
        });
    }
}

/// Writes packets.
pub struct Packets<W> {
    out: W,
    packet: Message,
    head: Message,
    /// Names of each host's sequence; a sequence begins with its first packet.
    hosts: Vec<Names>,
    /// Where the clock of each sequence stands, ns; `None` where the sequence did not begin.
    clocks: Vec<Option<u64>>,
    /// The usual track of each sequence.
    tracks: Vec<Option<u64>>,
    host: usize,
}

impl<W: Write> Packets<W> {
    /// Packets of so many hosts, the first one's to begin with.
    pub fn new(out: W, hosts: usize) -> Self {
        let hosts = hosts.max(1);
        Self {
            out,
            packet: Message::default(),
            head: Message::default(),
            hosts: std::iter::repeat_with(Names::default).take(hosts).collect(),
            clocks: vec![None; hosts],
            tracks: vec![None; hosts],
            host: 0,
        }
    }

    /// The packets that follow are of this host.
    pub fn of_host(&mut self, host: usize) {
        self.host = host.min(self.hosts.len() - 1);
    }

    /// The names of the present host's sequence.
    pub fn names(&mut self) -> &mut Names {
        &mut self.hosts[self.host]
    }

    /// Events of the present host are of this track where they name none, if they are of none yet.
    pub fn of_track(&mut self, track: u64) -> io::Result<()> {
        self.begin()?;
        let usual = &mut self.tracks[self.host];
        if usual.is_none() {
            *usual = Some(track);
            self.defaults(Some(track))?;
        }
        Ok(())
    }

    /// What an event says of its track; nothing where that is the usual one.
    pub fn named(&self, track: u64) -> Option<u64> {
        (self.tracks[self.host] != Some(track)).then_some(track)
    }

    fn defaults(&mut self, track: Option<u64>) -> io::Result<()> {
        self.packet.nested(PACKET_DEFAULTS, |m| {
            m.uint(DEFAULTS_CLOCK, CLOCK_OF_SEQUENCE);
            if let Some(track) = track {
                m.nested(DEFAULTS_EVENT, |m| m.uint(DEFAULTS_EVENT_TRACK, track));
            }
        });
        self.send()
    }

    /// Begins the present host's sequence, once.
    fn begin(&mut self) -> io::Result<()> {
        if self.clocks[self.host].is_some() {
            return Ok(());
        }
        self.clocks[self.host] = Some(0);
        self.packet.uint(PACKET_FLAGS, FLAG_CLEARED);
        self.packet.nested(PACKET_CLOCK_SNAPSHOT, |m| {
            for id in [CLOCK_MONOTONIC_RAW, CLOCK_OF_SEQUENCE] {
                m.nested(SNAPSHOT_CLOCKS, |m| {
                    m.uint(CLOCK_ID, id);
                    m.uint(CLOCK_TIMESTAMP, 0);
                    if id == CLOCK_OF_SEQUENCE {
                        m.uint(CLOCK_INCREMENTAL, 1);
                    }
                });
            }
            m.uint(SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_RAW);
        });
        self.send()?;
        self.defaults(None)
    }

    /// A packet of a moment that is out of order: of one of several series, written one after the
    /// other. It leaves the sequence's clock where it stands.
    pub fn aside(
        &mut self,
        at: HostNs,
        write: impl FnOnce(&mut Message, &mut Names),
    ) -> io::Result<()> {
        self.put(|m, names| {
            m.uint(PACKET_TIMESTAMP, at.0.max(0) as u64);
            m.uint(PACKET_CLOCK, CLOCK_MONOTONIC_RAW);
            write(m, names);
        })
    }

    /// A packet of a moment, ns of CLOCK_MONOTONIC_RAW.
    pub fn at(
        &mut self,
        at: HostNs,
        write: impl FnOnce(&mut Message, &mut Names),
    ) -> io::Result<()> {
        self.begin()?;
        let ns = at.0.max(0) as u64;
        let clock = &mut self.clocks[self.host];
        let Some(later) = ns.checked_sub(clock.unwrap_or(0)) else {
            return self.aside(at, write);
        };
        *clock = Some(ns);
        self.put(|m, names| {
            m.uint(PACKET_TIMESTAMP, later);
            write(m, names);
        })
    }

    /// One packet of the present host, with the names that are new in it.
    pub fn put(&mut self, write: impl FnOnce(&mut Message, &mut Names)) -> io::Result<()> {
        self.begin()?;
        let names = &mut self.hosts[self.host];
        write(&mut self.packet, names);
        if !names.new.is_empty() {
            self.packet.uint(PACKET_FLAGS, FLAG_NEEDS_STATE);
            self.packet.bytes(PACKET_INTERNED, names.new.as_slice());
            names.new.clear();
        }
        // Not told of each that it needs names or defaults (a flag that lets readers of traces with
        // gaps leave it out): a file has none.
        self.send()
    }

    fn send(&mut self) -> io::Result<()> {
        self.packet.uint(PACKET_SEQUENCE, self.host as u64 + 1);
        // Without one a packet is of the machine that wrote the trace.
        if self.host > 0 {
            self.packet.uint(PACKET_MACHINE, self.host as u64);
        }
        self.head.bytes(TRACE_PACKET, self.packet.as_slice());
        self.out.write_all(self.head.as_slice())?;
        self.head.clear();
        self.packet.clear();
        Ok(())
    }
}

/// Arguments of an event on a track.
pub struct Annotations<'m> {
    /// The event.
    pub event: &'m mut Message,
    /// Names.
    pub names: &'m mut Names,
}

impl Annotations<'_> {
    fn text(m: &mut Message, names: &mut Names, text: &str) {
        match names.text(text) {
            Some(id) => m.uint(ANNOTATION_TEXT_ID, id),
            None => m.text(ANNOTATION_TEXT, text),
        }
    }
}

impl Sink for Annotations<'_> {
    fn put(&mut self, name: &str, value: Argument<'_>) {
        let Self { event, names } = self;
        let id = names.intern(INTERNED_ANNOTATION_NAMES, name);
        event.nested(EVENT_ANNOTATIONS, |m| {
            m.uint(ANNOTATION_NAME, id);
            match value {
                Argument::Uint(x) => m.uint(ANNOTATION_UINT, x),
                Argument::Int(x) => m.int(ANNOTATION_INT, x),
                Argument::Bool(x) => m.uint(ANNOTATION_BOOL, x.into()),
                Argument::Real(x) | Argument::Figure(x) => m.double(ANNOTATION_DOUBLE, x),
                Argument::Text(x) => Self::text(m, names, x),
                Argument::Sizes(x) => x
                    .iter()
                    .for_each(|x| m.nested(ANNOTATION_ARRAY, |m| m.uint(ANNOTATION_UINT, *x))),
                Argument::Lines(x) => {
                    x.iter().for_each(|x| m.nested(ANNOTATION_ARRAY, |m| Self::text(m, names, x)))
                }
                Argument::Commands(x) => x.iter().for_each(|x| {
                    m.nested(ANNOTATION_ARRAY, |m| match x {
                        Some(id) => m.uint(ANNOTATION_UINT, *id),
                        None => m.text(ANNOTATION_TEXT, "unknown"),
                    });
                }),
            }
        });
    }
}

/// Arguments of a launch, which have no lists: sizes are one argument for each dimension.
pub struct LaunchArguments<'m> {
    /// The launch.
    pub launch: &'m mut Message,
    /// Names.
    pub names: &'m mut Names,
    /// Whether the launch holds its sizes already.
    pub sized: bool,
}

impl LaunchArguments<'_> {
    fn write_argument(&mut self, name: &str, write: impl FnOnce(&mut Message, &mut Names)) {
        let id = self.names.intern(INTERNED_ARGUMENT_NAMES, name);
        self.launch.nested(LAUNCH_ARGUMENTS, |m| {
            m.uint(ARGUMENT_NAME, id);
            write(m, self.names);
        });
    }
}

impl Sink for LaunchArguments<'_> {
    fn put(&mut self, name: &str, value: Argument<'_>) {
        let text = |x: &str, m: &mut Message, names: &mut Names| match names.text(x) {
            Some(id) => m.uint(ARGUMENT_TEXT_ID, id),
            None => m.text(ARGUMENT_TEXT, x),
        };
        match value {
            Argument::Sizes(_) if self.sized && matches!(name, "global_size" | "local_size") => {}
            Argument::Uint(x) => self.write_argument(name, |m, _| m.uint(ARGUMENT_UINT, x)),
            Argument::Int(x) => self.write_argument(name, |m, _| m.int(ARGUMENT_INT, x)),
            Argument::Bool(x) => self.write_argument(name, |m, _| m.uint(ARGUMENT_UINT, x.into())),
            Argument::Real(x) | Argument::Figure(x) => {
                self.write_argument(name, |m, _| m.double(ARGUMENT_DOUBLE, x));
            }
            Argument::Text(x) => self.write_argument(name, |m, names| text(x, m, names)),
            Argument::Lines(x) => {
                let all = x.join(" < ");
                self.write_argument(name, |m, names| text(&all, m, names));
            }
            Argument::Sizes(sizes) => {
                for (dimension, size) in ["x", "y", "z"].iter().zip(sizes) {
                    self.write_argument(&format!("{name}_{dimension}"), |m, _| {
                        m.uint(ARGUMENT_UINT, *size)
                    });
                }
            }
            // The arrows say it.
            Argument::Commands(_) => {}
        }
    }
}
