//! One process's files as the [`Drainer`](super::Drainer) sees them: by reads and writes, which the
//! process's mappings share.
#![forbid(unsafe_code)]

use crate::system;
use clscope_io::mapped;
use clscope_io::output::{Access, create_dir, create_new};
use clscope_trace::defs::{self, Def, Defs};
use clscope_trace::directory::{PROGRAMS, is_program_file};
use clscope_trace::file::{BlockHeader, HEADER_LEN, checksum, read_u32, read_u64};
use clscope_trace::ring_file::{
    CHUNK, RING_FIRST, RING_HEADER_LEN, RING_MAGIC, attendance, control, ring,
};
use clscope_trace::variables::BEHIND;
use clscope_trace::{FileHeader, FileKind};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Free regions that there are at least: of small ones, and of large ones, which a thread fills in a
/// fifth of a millisecond at most.
const SMALL_FREE: u32 = 64;
const LARGE_FREE: u32 = 128;
/// Room that there is at least for definitions, and how much is made at a time.
const DEFS_FREE: u64 = 512 * 1024;
const DEFS_MORE: u64 = 1 << 20;
/// Between two signs of life.
const BEAT: Duration = Duration::from_millis(100);
/// How long a process that asked something is looked at more often.
const ASKS: Duration = Duration::from_millis(50);
/// Most bytes of a file that comes in pieces.
const LONGEST: u64 = 64 << 20;

/// What a look at a process came to.
pub(super) enum Wrote {
    Nothing,
    Something,
    /// The process writes by itself from here on.
    Gone,
}

pub(super) struct Process {
    trace: PathBuf,
    stem: String,
    access: Access,
    header: FileHeader,
    ring: File,
    defs: File,
    /// The control page as it was last.
    page: Box<[u8; RING_FIRST]>,
    /// Bits of regions that were left and taken.
    taken: Box<[u8]>,
    /// Regions freed: small, large.
    freed: [u32; 2],
    /// Chunks of small and of large regions.
    chunks: [u32; 2],
    /// Of the definitions.
    read: u64,
    /// Threads by their index, with what the system calls them.
    threads: BTreeMap<u32, defs::Thread>,
    segment: Option<Segment>,
    pieces: BTreeMap<u64, Piece>,
    /// Whether its numbers of threads are the system's as this process sees them.
    same_numbers: bool,
    /// Signs of life given, and when the last one was.
    beats: u64,
    beat_at: Option<Instant>,
    looks: Looks,
    /// Whether it said that records were dropped because this process came late.
    dropped: bool,
    /// The question that was answered last, and when.
    answered: u32,
    asked_at: Option<Instant>,
}

/// How late this process came to rings that were all full.
#[derive(Default)]
struct Looks {
    /// When it looked last, and how long it wrote then.
    last: Option<Instant>,
    wrote: Duration,
    /// How often all were full, the longest time since the look before, and how much of that it
    /// wrote.
    late: u32,
    longest: Duration,
    writing: Duration,
}

impl Looks {
    fn begun(&mut self, now: Instant, are_full: bool) {
        let since = self.last.replace(now).map_or(Duration::ZERO, |last| now - last);
        if are_full {
            self.late += 1;
            if since >= self.longest {
                (self.longest, self.writing) = (since, self.wrote.min(since));
            }
        }
    }

    /// What the user can read of it.
    fn text(&self) -> Option<String> {
        let Self { late, longest, writing, .. } = self;
        let cure = match *writing > *longest / 2 {
            true => "record to a faster disk",
            false => "leave a processor to `clscope record`",
        };
        let often = match late {
            1 => "once".to_owned(),
            _ => format!("{late} times, the longest given"),
        };
        (*late > 0).then(|| {
            format!(
                "`clscope record` came back after {} ms, of which it wrote for {} ms, and found all rings full ({often}): {cure}",
                longest.as_millis(),
                writing.as_millis(),
            )
        })
    }
}

struct Segment {
    file: File,
    number: u32,
    end: u64,
}

/// A file that comes in pieces.
struct Piece {
    file: File,
    bytes: u64,
}

impl Process {
    /// A process that leaves its rings to be written. `None` of others, and of one that has not
    /// said so yet.
    pub(super) fn open(trace: &Path, stem: &str, access: Access) -> Option<Self> {
        let open = |ending: &str| {
            let path = trace.join(format!("{stem}.{ending}"));
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
                .open(path)
                .ok()
                .filter(|file| file.metadata().is_ok_and(|found| found.is_file()))
        };
        let ring = open("ring")?;
        let mut page = Box::new([0; RING_FIRST]);
        ring.read_exact_at(&mut *page, 0).ok()?;
        let header = FileHeader::decode_as(&*page, FileKind::Ring).ok()?;
        if read_u32(&*page, control::WRITER) != Some(control::WRITER_BESIDE) {
            return None;
        }
        let same_numbers = header.pid_ns == 0 || header.pid_ns == mapped::own_namespace();
        let mut made = Self {
            trace: trace.to_owned(),
            stem: stem.to_owned(),
            access,
            header,
            ring,
            defs: open("defs")?,
            page,
            taken: vec![0; RING_FIRST - control::LEFT].into(),
            freed: [0; 2],
            chunks: [0; 2],
            read: HEADER_LEN as u64,
            threads: BTreeMap::new(),
            segment: None,
            pieces: BTreeMap::new(),
            same_numbers,
            beats: 0,
            beat_at: None,
            looks: Looks::default(),
            dropped: false,
            answered: 0,
            asked_at: None,
        };
        for chunk in 0..made.word(control::CHUNKS) {
            let mut size = [0; 4];
            let at = RING_FIRST as u64 + u64::from(chunk) * CHUNK as u64;
            made.ring.read_exact_at(&mut size, at + ring::SIZE as u64).ok()?;
            made.chunks[kind(u32::from_le_bytes(size) as usize)] += 1;
        }
        Some(made)
    }

    pub(super) fn pid(&self) -> u32 {
        self.header.pid
    }

    fn word(&self, at: usize) -> u32 {
        read_u32(&*self.page, at).unwrap_or(0)
    }

    fn long(&self, at: usize) -> u64 {
        read_u64(&*self.page, at).unwrap_or(0)
    }

    /// Writes what threads have left, and makes room.
    ///
    /// # Errors
    /// What could not be written: it stays in the ring file, and is tried again.
    pub(super) fn drain(&mut self) -> io::Result<Wrote> {
        self.ring.read_exact_at(&mut *self.page, 0)?;
        if self.word(control::WRITER) != control::WRITER_BESIDE {
            return Ok(Wrote::Gone);
        }
        let asked = self.word(control::ASKED);
        let is_asked = asked != self.answered;
        if is_asked {
            self.look_for_sandbox();
            self.answered = asked;
            self.asked_at = Some(Instant::now());
            self.ring.write_all_at(&asked.to_le_bytes(), control::ANSWERED as u64)?;
        }
        if self.beat_at.is_none_or(|at| at.elapsed() >= BEAT) {
            self.beats += 1;
            self.beat_at = Some(Instant::now());
            self.look_for_sandbox();
            let _ = self.ring.write_all_at(&self.beats.to_le_bytes(), control::BEAT as u64);
        }
        let (used, begun) = (self.used(), Instant::now());
        self.looks.begun(begun, used[1] >= self.chunks[1]);
        let written = self.write_all_left();
        self.looks.wrote = begun.elapsed();
        let made = self.make_room(used);
        self.name_threads();
        let done = written.and_then(|wrote| made.map(|()| wrote));
        let failure = done.as_ref().err().map_or(0, |error| error.raw_os_error().unwrap_or(-1));
        if failure as u32 != self.word(control::FAILURE) {
            let _ = self.ring.write_all_at(&failure.to_le_bytes(), control::FAILURE as u64);
        }
        done
    }

    fn write_all_left(&mut self) -> io::Result<Wrote> {
        let mut wrote = Wrote::Nothing;
        for at in 0..self.taken.len() {
            let changed = self.page[control::LEFT + at] ^ self.taken[at];
            for bit in (0..8).filter(|bit| changed & (1 << bit) != 0) {
                self.take(at * 8 + bit)?;
                self.taken[at] ^= 1 << bit;
                wrote = Wrote::Something;
            }
        }
        Ok(wrote)
    }

    /// Writes a region that was left, and frees it.
    fn take(&mut self, slot: usize) -> io::Result<()> {
        let at = (RING_FIRST + slot * RING_FIRST) as u64;
        let mut region = vec![0; RING_HEADER_LEN];
        self.ring.read_exact_at(&mut region, at)?;
        let word = |at| read_u32(&region, at).unwrap_or(0);
        let (size, thread) = (word(ring::SIZE) as usize, word(ring::THREAD));
        let used = word(ring::POSITION) as usize;
        let sequence = word(ring::POSITION + 4);
        let base = read_u64(&region, ring::BASE).unwrap_or(0);
        let dropped = read_u64(&region, ring::DROPPED).unwrap_or(0);
        if word(ring::MAGIC) != RING_MAGIC
            || size > CHUNK
            || used > size.saturating_sub(RING_HEADER_LEN)
            || thread & attendance::LEFT == 0
        {
            // Damaged from outside: readers say so.
            return Ok(());
        }
        let mut payload = vec![0; used];
        self.ring.read_exact_at(&mut payload, at + RING_HEADER_LEN as u64)?;
        let thread = thread & !attendance::LEFT;
        let mut keep = 0;
        if thread == attendance::PIECE {
            // A text that cannot be kept costs no record.
            let _ = self.add_piece(&payload);
        } else if let Some(index) = thread.checked_sub(1) {
            if used > 0 {
                self.write_block(index, sequence, base, &payload)?;
            }
            let drained = u64::from(sequence) + u64::from(used > 0);
            self.ring.write_all_at(&drained.to_le_bytes(), at + ring::DRAINED as u64)?;
            // No block tells of these: the header does.
            keep = if dropped > 0 { thread } else { 0 };
        }
        if keep == 0 {
            self.ring.write_all_at(&[0; 8], at + ring::THREAD as u64)?;
            self.freed[kind(size)] += 1;
            return Ok(());
        }
        self.ring.write_all_at(&keep.to_le_bytes(), at + ring::THREAD as u64)
    }

    fn write_block(
        &mut self,
        thread: u32,
        sequence: u32,
        base: u64,
        payload: &[u8],
    ) -> io::Result<()> {
        let header = BlockHeader {
            thread,
            sequence,
            length: payload.len() as u32,
            base,
            checksum: checksum(payload),
        };
        let framed = [&header.encode(), payload].concat();
        let limit = self.long(control::SEGMENT);
        if self.segment.as_ref().is_none_or(|s| s.end + framed.len() as u64 > limit) {
            self.next_segment()?;
        }
        let Some(segment) = &mut self.segment else { return Ok(()) };
        segment.file.write_all_at(&framed, segment.end)?;
        segment.end += framed.len() as u64;
        Ok(())
    }

    fn next_segment(&mut self) -> io::Result<()> {
        let number = self.segment.as_ref().map_or(0, |segment| segment.number + 1);
        let path = |number: u32| self.trace.join(format!("{}.{number}.clt", self.stem));
        let file = create_new(&path(number), self.access)?;
        let header = FileHeader { kind: FileKind::Segment, segment: number, ..self.header.clone() };
        if let Err(error) = file.write_all_at(&header.encode(), 0) {
            // One that is not begun must not stand in the way of the next attempt.
            let _ = std::fs::remove_file(path(number));
            return Err(error);
        }
        let keep = self.word(control::SEGMENTS);
        if keep > 0
            && let Some(oldest) = number.checked_sub(keep - 1)
        {
            let _ = std::fs::remove_file(path(oldest));
        }
        self.segment = Some(Segment { file, number, end: HEADER_LEN as u64 });
        Ok(())
    }

    /// Adds a piece to a file of the folder of programs, which appears under its name when it is
    /// whole.
    fn add_piece(&mut self, payload: &[u8]) -> io::Result<()> {
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let word = |at: usize| read_u64(payload, at * 8).ok_or_else(damaged);
        let (number, at, whole, length) = (word(0)?, word(1)?, word(2)?, word(3)? as usize);
        let rest = payload.get(attendance::PIECE_HEAD..).ok_or_else(damaged)?;
        let name = rest.get(..length).and_then(|name| std::str::from_utf8(name).ok());
        let name = name.filter(|name| is_program_file(name)).ok_or_else(damaged)?;
        let piece = rest.get(length.next_multiple_of(8)..).ok_or_else(damaged)?;
        if whole > LONGEST || at.saturating_add(piece.len() as u64) > whole {
            return Err(damaged());
        }
        let folder = self.trace.join(PROGRAMS);
        let temporary = folder.join(format!(".{}-{number}", self.stem));
        let file = match self.pieces.entry(number) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                match create_dir(&folder, self.access) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    _ => {}
                }
                free.insert(Piece { file: create_new(&temporary, self.access)?, bytes: 0 })
            }
        };
        file.file.write_all_at(piece, at)?;
        file.bytes += piece.len() as u64;
        if file.bytes == whole {
            self.pieces.remove(&number);
            std::fs::rename(&temporary, folder.join(name))?;
        }
        Ok(())
    }

    /// Regions that threads fill or have left: small, large.
    fn used(&self) -> [u32; 2] {
        let taken = [self.word(control::SMALL_TAKEN), self.word(control::LARGE_TAKEN)];
        [0, 1].map(|kind| taken[kind].wrapping_sub(self.freed[kind]))
    }

    /// Makes room before it runs out. `waited` were in use before this look.
    fn make_room(&mut self, waited: [u32; 2]) -> io::Result<()> {
        let used = self.used();
        for (small, least) in [(true, SMALL_FREE), (false, LARGE_FREE)] {
            let (kind, parts) = if small { (0, (CHUNK / RING_FIRST) as u32) } else { (1, 1) };
            // This process came late before, and will again: twice as many as were in use.
            let wanted = (used[kind].saturating_add(least)).max(waited[kind].saturating_mul(2));
            let wanted = wanted.div_ceil(parts);
            let room =
                self.word(control::MOST_CHUNKS).saturating_sub(self.chunks[0] + self.chunks[1]);
            for _ in 0..wanted.saturating_sub(self.chunks[kind]).min(room).min(LARGE_FREE) {
                self.add_chunk(small)?;
            }
        }
        let (end, room) = (self.long(control::DEFS_END), self.long(control::DEFS_ROOM));
        let most = self.long(control::MOST_DEFS);
        if room.saturating_sub(end) < DEFS_FREE && room < most {
            let next = (room + DEFS_MORE).min(most);
            system::reserve(&self.defs, room, next - room)?;
            self.ring.write_all_at(&next.to_le_bytes(), control::DEFS_ROOM as u64)?;
        }
        Ok(())
    }

    fn add_chunk(&mut self, small: bool) -> io::Result<()> {
        let mut writer = [0; 4];
        self.ring.read_exact_at(&mut writer, control::WRITER as u64)?;
        if u32::from_le_bytes(writer) != control::WRITER_BESIDE {
            // It maps regions of its own behind the last chunk.
            return Ok(());
        }
        let chunks = self.chunks[0] + self.chunks[1];
        let at = RING_FIRST as u64 + u64::from(chunks) * CHUNK as u64;
        system::reserve(&self.ring, at, CHUNK as u64)?;
        let size = if small { RING_FIRST } else { CHUNK };
        let magic = u64::from(RING_MAGIC) | (size as u64) << 32;
        self.ring.write_all_at(&magic.to_le_bytes(), at)?;
        self.ring.write_all_at(&(chunks + 1).to_le_bytes(), control::CHUNKS as u64)?;
        self.chunks[usize::from(!small)] += 1;
        Ok(())
    }

    /// Asks the system for the names of threads that were defined since the last time, and takes note
    /// of what the process says about this one.
    fn name_threads(&mut self) {
        let end = self.long(control::DEFS_END);
        let Some(length) = end.checked_sub(self.read).filter(|length| *length > 0) else { return };
        let mut bytes = vec![0; length as usize];
        if self.defs.read_exact_at(&mut bytes, self.read).is_err() {
            return;
        }
        let mut read = Defs::behind(&bytes);
        for def in read.by_ref() {
            if let Def::Warning(warning) = &def {
                self.dropped |= warning.code == BEHIND;
            }
            let Def::Thread(mut thread) = def else { continue };
            let comm = format!("/proc/{}/task/{}/comm", self.header.pid, thread.tid);
            if self.same_numbers
                && thread.name.is_empty()
                && let Ok(name) = std::fs::read_to_string(comm)
            {
                thread.name = name.trim_end_matches('\n').to_owned();
                self.threads.insert(thread.index, thread);
            }
        }
        self.read = end - read.rest() as u64;
    }

    /// Whether it certainly does not use its files any more.
    pub(super) fn has_ended(&self) -> bool {
        mapped::has(self.header.pid, self.header.pid_ns, &self.ring) == Some(false)
    }

    /// Completes the definitions of a process that has ended, and takes away what lies behind them.
    pub(super) fn finish(&mut self) {
        if self.ring.read_exact_at(&mut *self.page, 0).is_err() {
            return;
        }
        let end = self.long(control::DEFS_END);
        if self.word(control::WRITER) != control::WRITER_BESIDE || end < HEADER_LEN as u64 {
            return;
        }
        let mut bytes = Vec::new();
        for thread in std::mem::take(&mut self.threads).into_values() {
            defs::encode(&thread.into(), &mut bytes);
        }
        match self.word(control::UNRECORDED) {
            0 => {}
            children => {
                let text = format!(
                    "{children} forked {} made OpenCL calls in a sandbox (seccomp), where no trace can be made: these calls are not recorded",
                    if children == 1 { "child" } else { "children" }
                );
                let code = "sandboxed-child".to_owned();
                defs::encode(&defs::Warning { code, text }.into(), &mut bytes);
            }
        }
        if let Some(text) = self.looks.text().filter(|_| self.dropped) {
            defs::encode(&defs::Warning { code: "behind-by".to_owned(), text }.into(), &mut bytes);
        }
        if self.defs.set_len(end).is_ok() {
            let _ = self.defs.write_all_at(&bytes, end);
        }
        self.trim_ring();
        let left: BTreeSet<u64> = std::mem::take(&mut self.pieces).into_keys().collect();
        for number in left {
            let name = format!(".{}-{number}", self.stem);
            let _ = std::fs::remove_file(self.trace.join(PROGRAMS).join(name));
        }
    }

    /// Takes the chunks away behind the last region that holds anything.
    fn trim_ring(&self) {
        let place = |chunk: u32| RING_FIRST as u64 + u64::from(chunk) * CHUNK as u64;
        let is_used = |chunk: &u32| {
            (0..CHUNK as u64).step_by(RING_FIRST).any(|at| {
                let mut thread = [1; 4];
                let read =
                    self.ring.read_exact_at(&mut thread, place(*chunk) + at + ring::THREAD as u64);
                // Behind the first header of a large region lie its records.
                read.is_err() || (thread != [0; 4] && (at == 0 || !self.is_large(*chunk)))
            })
        };
        let used = (0..self.chunks[0] + self.chunks[1]).rev().find(is_used);
        let _ = self.ring.set_len(used.map_or(RING_FIRST as u64, |chunk| place(chunk + 1)));
    }

    fn is_large(&self, chunk: u32) -> bool {
        let mut size = [0; 4];
        let at = RING_FIRST as u64 + u64::from(chunk) * CHUNK as u64 + ring::SIZE as u64;
        self.ring.read_exact_at(&mut size, at).is_ok() && u32::from_le_bytes(size) as usize == CHUNK
    }

    /// Leaves it to the process to write by itself. Whether it cannot: it is in a sandbox.
    pub(super) fn hand_back(&mut self) -> bool {
        self.look_for_sandbox();
        let in_sandbox = self.word(control::SANDBOXED) != 0;
        if !in_sandbox {
            let gone = control::WRITER_GONE.to_le_bytes();
            let _ = self.ring.write_all_at(&gone, control::WRITER as u64);
        }
        in_sandbox
    }

    /// Whether the process asked something a moment ago, and so will ask more.
    pub(super) fn asks(&self) -> bool {
        self.asked_at.is_some_and(|at| at.elapsed() < ASKS)
    }

    /// Tells the process if a thread of it is in a sandbox: it must not find out by itself.
    fn look_for_sandbox(&mut self) {
        if !self.same_numbers || self.word(control::SANDBOXED) != 0 {
            return;
        }
        let own = std::fs::read_to_string("/proc/self/status").map_or((0, 0), |t| filters(&t));
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.header.pid));
        let entered = threads.into_iter().flatten().flatten().any(|thread| {
            std::fs::read_to_string(thread.path().join("status"))
                .is_ok_and(|text| filters(&text) > own)
        });
        if entered {
            let yes = 1u32.to_le_bytes();
            self.page[control::SANDBOXED..control::SANDBOXED + 4].copy_from_slice(&yes);
            let _ = self.ring.write_all_at(&yes, control::SANDBOXED as u64);
        }
    }
}

/// How many seccomp filters a thread has, and its mode, by its status: a container gives filters to
/// all that runs in it, so that only more of them than this process has say something. Kernels
/// before 5.9 do not count them.
fn filters(status: &str) -> (u32, u32) {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    (field("Seccomp_filters:"), field("Seccomp:"))
}

/// Whether a region is a small one (0) or a large one (1).
fn kind(size: usize) -> usize {
    usize::from(size != RING_FIRST)
}

#[cfg(test)]
mod tests;
