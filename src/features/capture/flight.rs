//! Owns a launch whose memory has been copied on the device, until the copies are in files of the
//! trace: it asks whether they have run, and reads them piece by piece. It waits for a bounded time,
//! and only for reads of the recorder's own memory. Refuses to say when it is looked after.

use super::calls::{Calls, Fate, Own};
use super::description::{Description, MEMORY};
use super::memories::set;
use super::pool::Region;
use super::requests::Wanted;
use super::sample::Draw;
use crate::abi::entry::H;
use crate::abi::error::ErrorCode;
use crate::os::locks::lock::clock;
use crate::os::threads;
use crate::recording;
use crate::recording::files::captures::Written;
use clscope_trace::defs::{self, DeviceCopy};
use std::sync::Arc;
use std::time::Instant;

/// Bytes that are read at once: a multiple of what sums go in steps of.
const PIECE: usize = 4 << 20;

/// A copy that is to be written to a file.
pub struct Part {
    /// Which memory of the launch's.
    pub memory: usize,
    pub is_after: bool,
    pub is_shared: bool,
    /// Where it begins in the pool.
    pub at: usize,
    pub bytes: u64,
}

/// A file that is being written.
struct Writing {
    file: Written,
    /// Bytes that it has.
    done: u64,
    /// The read that is under way, 0 for none, and its bytes.
    read: usize,
    bytes: usize,
}

/// Who asked for a launch.
pub enum Asked {
    /// Nobody any more.
    Nobody,
    /// Requests by number, those that this launch stands for.
    Numbers(Vec<Wanted>),
    /// A sample.
    Draw(Draw),
}

/// A launch that is captured.
pub struct Flight {
    pub calls: Calls,
    /// Which pool its copies lie in, and where.
    pub pool: (usize, usize),
    pub region: Region,
    /// A queue of the recorder's own.
    pub reader: usize,
    pub buffer: Own,
    pub shared: Own,
    /// The application's queue, by value.
    pub queue: usize,
    /// Events of the copies that are not known to have ended, and bytes of each.
    pub copies: Vec<(usize, u64)>,
    pub parts: Vec<Part>,
    next: usize,
    writing: Option<Writing>,
    piece: Vec<u8>,
    pub kernel: Arc<str>,
    pub def: defs::Capture,
    /// Its folder, and what its `launch.json` will say.
    pub files: Option<Description>,
    pub asked: Asked,
    /// Why what it left is not checked.
    pub unchecked: Option<&'static str>,
    /// Bytes that it has of the limit of all captures.
    pub reserved: u64,
    /// Bytes that it was begun with, of those that are under way.
    pub pending: u64,
    /// The draw that it was begun for.
    pub draw: Option<Draw>,
    /// Host time that this took, in ticks.
    pub took: u64,
}

/// How far a flight is.
pub enum Far {
    /// Something of it has not ended.
    Pending,
    /// All is in files.
    Whole,
    /// It came to nothing.
    Refused(String),
}

impl Flight {
    /// One whose copies are about to be made.
    #[expect(clippy::too_many_arguments, reason = "what a launch has, once")]
    pub fn new(
        calls: Calls,
        pool: (usize, usize),
        (region, reader): (Region, usize),
        (buffer, shared): (Own, Own),
        queue: usize,
        kernel: Arc<str>,
        def: defs::Capture,
        asked: Asked,
    ) -> Self {
        Self {
            calls,
            pool,
            region,
            reader,
            buffer,
            shared,
            queue,
            copies: Vec::new(),
            parts: Vec::new(),
            next: 0,
            writing: None,
            piece: Vec::new(),
            kernel,
            def,
            files: None,
            asked,
            unchecked: None,
            reserved: 0,
            pending: 0,
            draw: None,
            took: 0,
        }
    }

    /// Where a part begins in the recorder's memory.
    pub fn own(&self, is_shared: bool, at: usize) -> Own {
        if is_shared { self.shared.behind(at) } else { self.buffer.behind(at) }
    }

    /// Gives up contents after the launch.
    pub fn uncheck(&mut self, why: &'static str) {
        if self.unchecked.is_none() {
            self.unchecked = Some(why);
        }
    }

    /// Whether its copies have ended; an error of one is why it comes to nothing.
    pub fn copied(&mut self) -> Result<bool, String> {
        while let Some((word, bytes)) = self.copies.last().copied() {
            let mut failed = None;
            // SAFETY: an event of the recorder's.
            let event = unsafe { H::from_word(word) };
            // SAFETY: as above.
            match unsafe { self.calls.fate(event) } {
                Fate::Pending => return Ok(false),
                Fate::Complete => {
                    // SAFETY: as above, complete.
                    if let Some((start, end)) = unsafe { self.calls.span(event) } {
                        self.def.copies.push(DeviceCopy { start, end, bytes });
                    }
                    self.def.seen = recording::now();
                }
                Fate::Failed(code) => failed = Some(code),
            }
            // SAFETY: given back once.
            unsafe { self.calls.release_event(event) };
            self.copies.pop();
            if let Some(code) = failed {
                return Err(format!(
                    "a copy of its memory ended with {}: what it waits for may have failed",
                    ErrorCode(code)
                ));
            }
        }
        Ok(true)
    }

    /// Goes on, and waits for reads until then.
    pub fn go_on(&mut self, until: Option<Instant>) -> Far {
        match self.advance(until) {
            Ok(true) => Far::Whole,
            Ok(false) => Far::Pending,
            Err(why) => Far::Refused(why),
        }
    }

    fn advance(&mut self, until: Option<Instant>) -> Result<bool, String> {
        if !self.copied()? {
            return Ok(false);
        }
        loop {
            if self.writing.is_none() {
                let Some(part) = self.parts.get(self.next) else { return Ok(true) };
                if part.is_after && self.unchecked.is_some() {
                    self.next += 1;
                    continue;
                }
                let name = name_of(part);
                let files = self.files.as_mut().ok_or("there is no folder")?;
                let file = files.capture.file(&name)?;
                self.writing = Some(Writing { file, done: 0, read: 0, bytes: 0 });
            }
            if !self.write(until)? {
                return Ok(false);
            }
        }
    }

    /// Goes on with the file that is being written: whether it is whole, or the next read can begin.
    fn write(&mut self, until: Option<Instant>) -> Result<bool, String> {
        let (Some(part), Some(writing)) = (self.parts.get(self.next), &mut self.writing) else {
            return Ok(true);
        };
        if writing.read != 0 {
            // SAFETY: an event of the recorder's.
            let event = unsafe { H::from_word(writing.read) };
            let mut pause = 10;
            loop {
                // SAFETY: as above.
                match unsafe { self.calls.fate(event) } {
                    Fate::Complete => break,
                    Fate::Failed(code) => {
                        return Err(format!("reading the copy ended with {}", ErrorCode(code)));
                    }
                    Fate::Pending if until.is_none_or(|until| clock() >= until) => {
                        return Ok(false);
                    }
                    Fate::Pending => threads::pause(pause),
                }
                pause = (pause * 2).min(200);
            }
            // SAFETY: given back once.
            unsafe { self.calls.release_event(event) };
            writing.read = 0;
            writing.file.add(self.piece.get(..writing.bytes).unwrap_or_default())?;
            writing.done += writing.bytes as u64;
        }
        if writing.done < part.bytes {
            // The next piece takes a while: not beyond the time that there is.
            if until.is_none_or(|until| clock() >= until) {
                return Ok(false);
            }
            let bytes = PIECE.min(usize::try_from(part.bytes - writing.done).unwrap_or(PIECE));
            let at = part.at + writing.done as usize;
            let own = if part.is_shared { self.shared } else { self.buffer };
            let from = own.behind(at);
            if self.piece.len() < bytes {
                let more = bytes - self.piece.len();
                let room = self.piece.try_reserve_exact(more);
                room.map_err(|_| "there is no memory to read it to")?;
                self.piece.resize(bytes, 0);
            }
            let to = self.piece.get_mut(..bytes).unwrap_or_default();
            // SAFETY: a queue of the recorder's own in the context of its memory, which holds the
            // part; the piece stays where it is until the read has ended, or is left behind.
            let read = unsafe { self.calls.read(H::from_word(self.reader), from, to) };
            let event =
                read.map_err(|code| format!("reading the copy failed with {}", ErrorCode(code)))?;
            (writing.read, writing.bytes) = (event.word(), bytes);
            return Ok(true);
        }
        let Some(writing) = self.writing.take() else { return Ok(true) };
        let (name, index, is_after) = (name_of(part), part.memory, part.is_after);
        let files = self.files.as_mut().ok_or("there is no folder")?;
        let hash = files.capture.end(writing.file);
        if let Some(about) = files.memories.get_mut(index) {
            let (file, sum) =
                if is_after { ("after", "hash_after") } else { ("before", "hash_before") };
            set(about, file, name);
            set(about, sum, hash);
        }
        self.next += 1;
        Ok(true)
    }

    /// Leaves its files as they are, and open: closing them is a system call, which a sandbox may
    /// forbid. `clscope record` takes them away at the end.
    pub fn leave(&mut self) {
        std::mem::forget(self.files.take());
        if let Some(Writing { file, .. }) = self.writing.take_if(|writing| writing.read == 0) {
            std::mem::forget(file);
        }
    }

    /// Lets go of what the runtime may still be at.
    pub fn let_go(&mut self) {
        for (word, _) in self.copies.drain(..) {
            // SAFETY: events of the recorder's, given back once.
            unsafe { self.calls.release_event(H::from_word(word)) };
        }
        if let Some(writing) = self.writing.take()
            && writing.read != 0
        {
            // The runtime may write there at any time.
            std::mem::forget(std::mem::take(&mut self.piece));
            // SAFETY: as above.
            unsafe { self.calls.release_event(H::from_word(writing.read)) };
        }
    }
}

/// The name of a part's file.
fn name_of(part: &Part) -> String {
    format!("{MEMORY}{}.{}", part.memory, if part.is_after { "after" } else { "before" })
}
