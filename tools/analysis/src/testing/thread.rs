//! A thread of a synthetic process.

use super::*;

/// The records of one thread, cut into blocks.
#[derive(Debug, Clone)]
pub struct ThreadBuilder {
    pub(super) host: HostModel,
    pub(super) last: u64,
    pub(super) base: u64,
    pub(super) payload: Vec<u8>,
    pub(super) blocks: Vec<(u64, Vec<u8>)>,
    pub(super) block_len: usize,
}

impl ThreadBuilder {
    fn put(&mut self, at_ns: u64, duration_ns: u64, write: impl FnOnce(&mut Vec<u8>, u32, u32)) {
        let at = self.host.ticks(at_ns);
        if self.payload.len() >= self.block_len {
            self.cut();
        }
        if self.payload.is_empty() {
            self.base = self.last.max(self.host.ticks(0)).min(at);
            self.last = self.base;
        }
        let delta = at.checked_sub(self.last).expect("records of a thread come in order");
        let duration = at - self.host.ticks(at_ns - duration_ns);
        if delta >> 32 != 0 || duration >> 32 != 0 {
            words(&mut self.payload, &record::prefix(delta, duration));
        }
        write(&mut self.payload, delta as u32, duration as u32);
        self.last = at;
    }

    /// Ends the block being filled.
    pub fn cut(&mut self) {
        if !self.payload.is_empty() {
            self.blocks.push((self.base, std::mem::take(&mut self.payload)));
        }
    }

    /// A plain call from `begin` to `end`, true time in ns.
    pub fn plain(&mut self, function: u16, begin: u64, end: u64, small: u32, id: u32) -> &mut Self {
        self.put(end, end - begin, |out, delta, duration| {
            words(out, &record::plain(function, small, id, delta, duration))
        });
        self
    }

    /// Calls in a row that take a record together, `period` ns from end to end, of these lengths.
    pub fn run(&mut self, function: u16, begin: u64, period: u64, lengths: &[u64]) -> &mut Self {
        let ticks = |ns: u64| (self.host.ticks(begin + ns) - self.host.ticks(begin)) as u32;
        let longest = lengths.iter().copied().max().unwrap_or_default();
        let shortest = lengths.iter().copied().min().unwrap_or_default();
        let first = lengths.first().copied().unwrap_or_default();
        let run = record::Run {
            function,
            small: 7,
            id: 1,
            count: lengths.len() as u32,
            first: ticks(first),
            span: ticks(period * (lengths.len() as u64).saturating_sub(1)),
            total: ticks(lengths.iter().sum()),
            shortest: ticks(shortest),
            longest: ticks(longest),
        };
        self.put(begin + first, first, |out, delta, _| words(out, &record::run(&run, delta)));
        self
    }

    /// A call with a result and kept arguments.
    pub fn call(
        &mut self,
        function: u16,
        begin: u64,
        end: u64,
        result: i32,
        args: &[u64],
    ) -> &mut Self {
        self.put(end, end - begin, |out, delta, duration| {
            words(out, &record::call(function, args.len(), result, delta, duration));
            words(out, args);
        });
        self
    }

    /// An enqueue. `command` gives what the command is; its duration is taken from the times.
    pub fn enqueue(&mut self, begin: u64, end: u64, command: &CommandSpec<'_>) -> &mut Self {
        let (inline, more) = command.waits.split_at(command.waits.len().min(record::WAITS_INLINE));
        self.put(end, end - begin, |out, delta, duration| {
            let waits: Vec<u8> = inline.iter().flat_map(|w| w.to_le_bytes()).collect();
            words(out, &record::command(&command.record(u64::from(duration), &waits), delta));
            out.extend_from_slice(&waits);
            out.resize(out.len().next_multiple_of(8), 0);
            if command.site != 0 {
                words(out, &[u64::from(command.site)]);
            }
            for part in more.chunks(record::WAITS_INLINE) {
                words(out, &record::more_waits(command.id, part.len(), 0));
                out.extend(part.iter().flat_map(|w| w.to_le_bytes()));
                out.resize(out.len().next_multiple_of(8), 0);
            }
        });
        self
    }

    /// The stamps of a command, known to the host at `at`.
    pub fn timing(&mut self, at: u64, command: u64, stamps: [u64; 4]) -> &mut Self {
        self.put(at, 0, |out, delta, _| {
            let (all, n) = record::timing(command, stamps, delta);
            words(out, &all[..n]);
        });
        self
    }

    /// Stamps of a command that the application queried.
    pub fn read_timing(&mut self, at: u64, command: u64, stamps: [u64; 4]) -> &mut Self {
        self.put(at, 0, |out, delta, _| words(out, &record::read_timing(command, stamps, delta)));
        self
    }

    /// A command without time.
    pub fn untimed(&mut self, at: u64, command: u64, reason: Untimed) -> &mut Self {
        self.put(at, 0, |out, delta, _| words(out, &record::untimed(command, reason, 0, delta)));
        self
    }

    /// What was seen inside the call that follows.
    pub fn detail(&mut self, at: u64, of: &record::Detail) -> &mut Self {
        self.put(at, 0, |out, delta, _| words(out, &record::detail(of, delta)));
        self
    }

    /// Recording was paused, or went on.
    pub fn paused(&mut self, at: u64, on: bool) -> &mut Self {
        self.put(at, 0, |out, delta, _| words(out, &record::paused(on, delta)));
        self
    }

    /// Lost records.
    pub fn dropped(&mut self, at: u64, count: u64, reason: DropReason) -> &mut Self {
        self.put(at, 0, |out, delta, _| words(out, &record::dropped(count, reason, delta)));
        self
    }
}

pub(super) fn words(out: &mut Vec<u8>, words: &[u64]) {
    out.extend(words.iter().flat_map(|w| w.to_le_bytes()));
}
