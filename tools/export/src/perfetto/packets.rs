//! Owns packets: a sequence of them for each host, with names interned on first use. Refuses to know
//! what an event means.
#![forbid(unsafe_code)]

use super::numbers::*;
use crate::arguments::{Argument, Sink};
use crate::proto::Message;
use std::collections::HashMap;
use std::io::{self, Write};

/// Most texts that are interned as values: a trace may hold any number of them, and the reader keeps
/// them all.
const MOST_TEXTS: usize = 1 << 16;

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
    pub fn of(&mut self, kind: u32, name: &str) -> u64 {
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

    /// The number of a text that is a value, where it is worth one: not of addresses, of which no two
    /// are the same, nor of texts as short as a number.
    fn text(&mut self, text: &str) -> Option<u64> {
        if text.len() <= 3 || text.starts_with("0x") {
            return None;
        }
        match self.known(INTERNED_TEXTS) {
            known if known.len() < MOST_TEXTS => Some(self.of(INTERNED_TEXTS, text)),
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
    begun: Vec<bool>,
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
            begun: vec![false; hosts],
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

    /// One packet of the present host, after one with the names that are new in it.
    pub fn put(&mut self, write: impl FnOnce(&mut Message, &mut Names)) -> io::Result<()> {
        if !std::mem::replace(&mut self.begun[self.host], true) {
            self.packet.uint(PACKET_FLAGS, FLAG_CLEARED);
            self.packet.nested(PACKET_DEFAULTS, |m| m.uint(DEFAULTS_CLOCK, CLOCK_MONOTONIC_RAW));
            self.send()?;
        }
        let names = &mut self.hosts[self.host];
        write(&mut self.packet, names);
        if !names.new.is_empty() {
            let event = std::mem::take(&mut self.packet);
            self.packet.uint(PACKET_FLAGS, FLAG_NEEDS_STATE);
            self.packet.bytes(PACKET_INTERNED, names.new.as_slice());
            names.new.clear();
            self.send()?;
            self.packet = event;
        }
        self.packet.uint(PACKET_FLAGS, FLAG_NEEDS_STATE);
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
        // Nearly no call is blocking: what is not said is not so.
        if value == Argument::Bool(false) {
            return;
        }
        let Self { event, names } = self;
        let id = names.of(INTERNED_ANNOTATION_NAMES, name);
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
    fn one(&mut self, name: &str, write: impl FnOnce(&mut Message, &mut Names)) {
        let id = self.names.of(INTERNED_ARGUMENT_NAMES, name);
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
            // The event says it: its name, its kernel, its stage.
            Argument::Text(_) if matches!(name, "kernel" | "kind") => {}
            Argument::Sizes(_) if self.sized && matches!(name, "global_size" | "local_size") => {}
            Argument::Uint(x) => self.one(name, |m, _| m.uint(ARGUMENT_UINT, x)),
            Argument::Int(x) => self.one(name, |m, _| m.int(ARGUMENT_INT, x)),
            Argument::Bool(x) => self.one(name, |m, _| m.uint(ARGUMENT_UINT, x.into())),
            Argument::Real(x) | Argument::Figure(x) => {
                self.one(name, |m, _| m.double(ARGUMENT_DOUBLE, x));
            }
            Argument::Text(x) => self.one(name, |m, names| text(x, m, names)),
            Argument::Lines(x) => {
                let all = x.join(" < ");
                self.one(name, |m, names| text(&all, m, names));
            }
            Argument::Sizes(sizes) => {
                for (dimension, size) in ["x", "y", "z"].iter().zip(sizes) {
                    self.one(&format!("{name}_{dimension}"), |m, _| m.uint(ARGUMENT_UINT, *size));
                }
            }
            // The arrows say it.
            Argument::Commands(_) => {}
        }
    }
}
