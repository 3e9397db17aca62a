//! Owns builders of synthetic traces, written with the format's own encoder: what a recorder would
//! have left, byte for byte. For tests and benchmarks only.

mod thread;

use clscope_trace::defs::{
    self, Anchor, Argument, ArgumentKind, Def, Device, Function, Kernel, Process, Queue, Small,
    Thread,
};
use clscope_trace::file::{BlockHeader, FileHeader, FileKind, HEADER_LEN};
use clscope_trace::record::{self, Command, CommandKind, DropReason, Untimed, Waits, flag};
use clscope_trace::ring_file::{RING_FIRST, RING_HEADER_LEN, RING_MAGIC, ring};
use clscope_trace::{Clock, VERSION, checksum};
pub use thread::ThreadBuilder;

/// Function ids of [`ProcessBuilder::standard`].
pub mod function {
    #![allow(missing_docs)] // the names say it
    pub const SET_ARG: u16 = 1;
    pub const ENQUEUE_KERNEL: u16 = 2;
    pub const ENQUEUE_READ: u16 = 3;
    pub const ENQUEUE_WRITE: u16 = 4;
    pub const FINISH: u16 = 5;
    pub const CREATE_BUFFER: u16 = 6;
}

/// Where the clocks of a synthetic host stand: ticks and the kernel's clocks as functions of true
/// time.
#[derive(Debug, Clone, Copy)]
pub struct HostModel {
    /// Boot id byte.
    pub boot: u8,
    /// Kind of host clock.
    pub clock: Clock,
    /// Ticks per nanosecond.
    pub rate: f64,
    /// CLOCK_MONOTONIC_RAW at true time 0, ns.
    pub raw: u64,
    /// CLOCK_REALTIME at true time 0, ns.
    pub realtime: u64,
    /// By which a time namespace moves CLOCK_MONOTONIC and CLOCK_MONOTONIC_RAW, ns.
    pub moved: i64,
}

impl Default for HostModel {
    fn default() -> Self {
        Self {
            boot: 1,
            clock: Clock::MonotonicRaw,
            rate: 1.0,
            raw: 5_000_000_000,
            realtime: 1_700_000_000_000_000_000,
            moved: 0,
        }
    }
}

impl HostModel {
    /// Ticks at a true time in nanoseconds.
    pub fn ticks(&self, ns: u64) -> u64 {
        match self.clock {
            Clock::MonotonicRaw => (self.raw + ns).wrapping_add_signed(self.moved),
            _ => 1_000_000 + (ns as f64 * self.rate).round() as u64,
        }
    }

    /// All clocks read together.
    pub fn anchor(&self, ns: u64) -> Anchor {
        let monotonic = (self.raw / 2 + ns).wrapping_add_signed(self.moved);
        Anchor {
            ticks: self.ticks(ns),
            raw: (self.raw + ns).wrapping_add_signed(self.moved),
            monotonic,
            realtime: self.realtime + ns,
            width: 100,
        }
    }
}

/// What a synthetic command is.
#[derive(Debug, Clone, Copy)]
pub struct CommandSpec<'a> {
    /// Enqueuing function.
    pub function: u16,
    /// Id.
    pub id: u64,
    /// Queue id.
    pub queue: u32,
    /// Kernel id or memory object.
    pub object: u32,
    /// Geometry id.
    pub geometry: u32,
    /// Kind.
    pub kind: CommandKind,
    /// Flags.
    pub flags: u8,
    /// Further argument, or the launch's probability.
    pub extra: u32,
    /// Bytes.
    pub bytes: u64,
    /// Wait list.
    pub waits: &'a [u32],
    /// Result of the call.
    pub result: i32,
    /// Call site, 0 for none.
    pub site: u32,
}

impl<'a> CommandSpec<'a> {
    /// A timed launch of a kernel.
    pub const fn kernel(id: u64, queue: u32, kernel: u32) -> Self {
        Self {
            function: function::ENQUEUE_KERNEL,
            id,
            queue,
            object: kernel,
            geometry: 1,
            kind: CommandKind::NdRange,
            flags: flag::TIMED,
            extra: 0,
            bytes: 0,
            waits: &[],
            result: 0,
            site: 0,
        }
    }

    /// A launch that was chosen for timing with this probability, or left out.
    pub fn sampled(id: u64, queue: u32, kernel: u32, probability: f32, timed: bool) -> Self {
        let flags = if timed { flag::TIMED } else { flag::NOT_SAMPLED };
        Self {
            flags,
            extra: record::probability_bits(probability),
            ..Self::kernel(id, queue, kernel)
        }
    }

    /// A timed read or write of a buffer.
    pub const fn transfer(id: u64, queue: u32, kind: CommandKind, bytes: u64) -> Self {
        let function = if matches!(kind, CommandKind::ReadBuffer) {
            function::ENQUEUE_READ
        } else {
            function::ENQUEUE_WRITE
        };
        Self { function, object: 9, geometry: 0, kind, bytes, ..Self::kernel(id, queue, 0) }
    }

    fn record<'w>(&self, duration: u64, waits: &'w [u8]) -> Command<'w> {
        Command {
            function: self.function,
            duration,
            result: self.result,
            id: self.id,
            queue: self.queue,
            object: self.object,
            object2: 0,
            geometry: self.geometry,
            kind: self.kind,
            flags: self.flags,
            extra: self.extra,
            bytes: self.bytes,
            waits: Waits(waits),
            site: self.site,
        }
    }
}

/// One process incarnation.
#[derive(Debug, Clone)]
pub struct ProcessBuilder {
    /// Its host.
    pub host: HostModel,
    /// Process id.
    pub pid: u32,
    /// Definitions, written in order.
    pub defs: Vec<Def>,
    threads: Vec<ThreadBuilder>,
    /// Threads whose last block stays in the ring.
    pub in_ring: bool,
    /// The block before the last of each thread waits in a region of its own, behind the newest in
    /// the file.
    pub waiting: bool,
    /// Calls in progress at the end: thread, function, begin in true ns.
    pub in_calls: Vec<(u32, u16, u64)>,
    /// Version of the format that its files say.
    pub version: (u16, u16),
}

/// The files of a process as bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessBytes {
    /// `PID-N.defs`.
    pub defs: Vec<u8>,
    /// `PID-N.0.clt`.
    pub segment: Vec<u8>,
    /// `PID-N.ring`.
    pub ring: Vec<u8>,
}

impl ProcessBytes {
    /// As the analysis takes them.
    pub fn files(&self, label: &str) -> crate::input::ProcessFiles<'_> {
        fn file<'b>(name: &str, bytes: &'b [u8]) -> crate::input::File<'b> {
            crate::input::File { name: name.to_owned(), bytes }
        }
        crate::input::ProcessFiles {
            label: label.to_owned(),
            defs: Some(file("1-0.defs", &self.defs)),
            segments: vec![file("1-0.0.clt", &self.segment)],
            ring: (!self.ring.is_empty()).then(|| file("1-0.ring", &self.ring)),
            ..Default::default()
        }
    }
}

impl ProcessBuilder {
    /// A process with definitions of the standard functions, a device, two queues, two kernels and
    /// `threads` threads.
    pub fn standard(host: HostModel, pid: u32, threads: u32) -> Self {
        use ArgumentKind as K;
        let argument = |name: &str, kind| Argument { name: name.into(), kind };
        let functions = [
            (
                function::SET_ARG,
                "clSetKernelArg",
                "kernel",
                vec![
                    argument("kernel", K::Object),
                    argument("arg_index", K::Unsigned),
                    argument("arg_size", K::Bytes),
                ],
            ),
            (function::ENQUEUE_KERNEL, "clEnqueueNDRangeKernel", "enqueue", vec![]),
            (function::ENQUEUE_READ, "clEnqueueReadBuffer", "enqueue", vec![]),
            (function::ENQUEUE_WRITE, "clEnqueueWriteBuffer", "enqueue", vec![]),
            (function::FINISH, "clFinish", "wait", vec![argument("command_queue", K::Object)]),
            (
                function::CREATE_BUFFER,
                "clCreateBuffer",
                "memory",
                vec![
                    argument("return", K::Object),
                    argument("flags", K::Flags),
                    argument("size", K::Bytes),
                ],
            ),
        ];
        let mut defs: Vec<Def> = vec![
            Process {
                pid,
                ppid: 1,
                executable: "/usr/bin/app".into(),
                arguments: vec!["app".into(), "--fast".into()],
                directory: "/tmp".into(),
                host: format!("host{}", host.boot),
                device_timing: "event".into(),
                recorder: "0.1.0".into(),
                injection: "preload".into(),
                rings_survive: true,
                ..Default::default()
            }
            .into(),
        ];
        defs.extend(functions.into_iter().map(|(id, name, group, arguments)| {
            let small = if id == function::SET_ARG {
                vec![Small { argument: 1, bits: 8 }, Small { argument: 2, bits: 13 }]
            } else {
                vec![]
            };
            Function {
                id,
                name: name.into(),
                origin: "1.0".into(),
                group: group.into(),
                arguments,
                small,
                object: Some(0),
            }
            .into()
        }));
        defs.push(host.anchor(0).into());
        defs.extend((0..threads).map(|index| {
            Thread { index, tid: pid + index, name: format!("thread-{index}") }.into()
        }));
        defs.push(
            Device {
                id: 1,
                platform: 1,
                name: "Test Device".into(),
                vendor: "Test".into(),
                driver: "1.0".into(),
                compute_units: 4,
                ..Default::default()
            }
            .into(),
        );
        defs.extend(
            (1..3).map(|id| Queue { id, context: 1, device: 1, ..Default::default() }.into()),
        );
        defs.push(Kernel { id: 1, program: 1, name: "matmul".into() }.into());
        defs.push(Kernel { id: 2, program: 1, name: "reduce".into() }.into());
        defs.push(
            clscope_trace::defs::Geometry {
                id: 1,
                dimensions: 1,
                offset: None,
                global: [1024, 1, 1],
                local: Some([64, 1, 1]),
            }
            .into(),
        );
        let thread = ThreadBuilder {
            host,
            last: 0,
            base: 0,
            payload: Vec::new(),
            blocks: Vec::new(),
            block_len: 4096,
        };
        Self {
            host,
            pid,
            defs,
            threads: vec![thread; threads as usize],
            in_ring: false,
            waiting: false,
            in_calls: Vec::new(),
            version: VERSION,
        }
    }

    /// A thread, to add records to.
    pub fn thread(&mut self, index: u32) -> &mut ThreadBuilder {
        &mut self.threads[index as usize]
    }

    /// Bytes after which a block is cut.
    pub fn block_len(&mut self, bytes: usize) -> &mut Self {
        for thread in &mut self.threads {
            thread.block_len = bytes;
        }
        self
    }

    /// Adds a definition.
    pub fn define(&mut self, def: impl Into<Def>) -> &mut Self {
        self.defs.push(def.into());
        self
    }

    /// Adds an anchor at a true time.
    pub fn anchor(&mut self, ns: u64) -> &mut Self {
        let anchor = self.host.anchor(ns);
        self.define(anchor)
    }

    /// Ends the process in order at a true time.
    pub fn exit(&mut self, ns: u64, pending: u64) -> &mut Self {
        self.anchor(ns);
        let ticks = self.host.ticks(ns);
        self.define(defs::Exit { ticks, pending })
    }

    fn header(&self, kind: FileKind) -> [u8; HEADER_LEN] {
        FileHeader {
            version: self.version,
            kind,
            pid: self.pid,
            ppid: 1,
            pid_ns: 0,
            incarnation: 0,
            segment: 0,
            clock: self.host.clock,
            host: [self.host.boot; 16],
            boot: [self.host.boot; 16],
            created: self.host.ticks(0),
        }
        .encode()
    }

    /// The files.
    pub fn build(&self) -> ProcessBytes {
        let mut out = ProcessBytes {
            defs: self.header(FileKind::Defs).to_vec(),
            segment: self.header(FileKind::Segment).to_vec(),
            ring: Vec::new(),
        };
        for def in &self.defs {
            defs::encode(def, &mut out.defs);
        }
        let mut rings = Vec::new();
        let mut blocks = Vec::new();
        for (index, thread) in self.threads.iter().enumerate() {
            let mut thread = thread.clone();
            thread.cut();
            let in_call = self.in_calls.iter().find(|c| c.0 as usize == index);
            let last = if self.in_ring || in_call.is_some() { thread.blocks.pop() } else { None };
            let count = thread.blocks.len();
            let waits = if self.waiting && last.is_some() { thread.blocks.pop() } else { None };
            blocks.extend(
                thread
                    .blocks
                    .into_iter()
                    .enumerate()
                    .map(|(sequence, (base, payload))| (base, index, sequence, payload)),
            );
            if self.in_ring || in_call.is_some() {
                let (base, payload) = last.unwrap_or((self.host.ticks(0), Vec::new()));
                rings.push(self.ring(index as u32, count as u32, base, &payload, in_call.copied()));
                rings.extend(waits.map(|(base, payload)| {
                    self.ring(index as u32, count as u32 - 1, base, &payload, None)
                }));
            }
        }
        // Blocks of several threads interleave as they were written.
        blocks.sort_by_key(|(base, ..)| *base);
        for (base, thread, sequence, payload) in blocks {
            let header = BlockHeader {
                thread: thread as u32,
                sequence: sequence as u32,
                length: payload.len() as u32,
                base,
                checksum: checksum(&payload),
            };
            out.segment.extend_from_slice(&header.encode());
            out.segment.extend_from_slice(&payload);
            out.segment.resize(out.segment.len().next_multiple_of(8), 0);
        }
        if !rings.is_empty() {
            out.ring = self.header(FileKind::Ring).to_vec();
            out.ring.resize(RING_FIRST, 0);
            out.ring.extend(rings.concat());
        }
        out
    }

    fn ring(
        &self,
        thread: u32,
        sequence: u32,
        base: u64,
        payload: &[u8],
        in_call: Option<(u32, u16, u64)>,
    ) -> Vec<u8> {
        let mut region = vec![0u8; RING_HEADER_LEN];
        region.extend_from_slice(payload);
        region.resize(region.len().next_multiple_of(RING_FIRST), 0);
        let size = region.len() as u32;
        let mut narrow =
            |at: usize, value: u32| region[at..at + 4].copy_from_slice(&value.to_le_bytes());
        narrow(ring::MAGIC, RING_MAGIC);
        narrow(ring::SIZE, size);
        narrow(ring::THREAD, thread + 1);
        let mut wide =
            |at: usize, value: u64| region[at..at + 8].copy_from_slice(&value.to_le_bytes());
        wide(ring::BASE, base);
        wide(ring::POSITION, (u64::from(sequence) << 32) | payload.len() as u64);
        wide(ring::DRAINED, u64::from(sequence));
        if let Some((_, function, begin)) = in_call {
            wide(ring::CALL, u64::from(function) + 1);
            wide(ring::CALL_BEGIN, self.host.ticks(begin));
        }
        region
    }
}
