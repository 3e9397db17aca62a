//! Owns one repetition: a queue of our own, the memory that a kernel may write, saved before and
//! restored after, and batches long enough for a sensor with nothing between what is repeated.
//! Refuses to choose what is repeated and when.
//!
//! Between launches only those buffers are restored that need it: two launches are tried, and what
//! they leave is compared. What the first left as it was is only read; what the second left as the
//! first did is written without regard to what was there. Batches of restorations alone tell what
//! restoring takes.

use super::super::beside::{Aside, Calls, Enqueue, Place, Saved, Writable, said};
use crate::abi::entry::H;
use crate::os::threads;
use crate::recording;
use clscope_trace::defs::ReplayBatch;

/// What is to be done about a saved buffer.
#[derive(Clone, Copy)]
struct Need {
    /// Whether it is restored between launches.
    restored: bool,
    /// Whether the first launch changed it and the second left it so: written whatever was there,
    /// or put in order by the first, so that the second had less to do.
    settled: bool,
}

/// What exists for the length of one repetition.
pub struct Stage<'a> {
    aside: Aside,
    /// Of each saved buffer.
    needs: Vec<Need>,
    /// Sum of the lengths by stamps of some repetitions, in ns, and how many.
    stamped: (u64, u64),
    /// What they held before the first launch and after, where that is known.
    before: Option<Vec<u64>>,
    after: Option<Vec<u64>>,
    /// What is repeated.
    command: &'a Enqueue<'a>,
    /// What ran outside the batches: launches that were tried, and copies of saved buffers.
    pub trials: Vec<ReplayBatch>,
}

/// Bytes of a buffer that are read back to compare what two launches left: all of a small one, of
/// others as many pieces, its head and its tail among them. Saving and comparing take the time that
/// a batch could have: 16 MiB are read in some milliseconds.
const PIECE: usize = 512 << 10;
const PIECES: usize = 32;
/// Buffers beyond are restored without a comparison.
const MOST_BUFFERS: usize = 64;
/// Buffers below this may hold counts that a kernel goes by: it is never launched again and again
/// without restoring them.
const SMALL: usize = 64 << 10;
/// What takes so long is tried once.
const LONG_NS: u64 = 20_000_000;
/// Most launches behind one restoration.
const MOST_PER_RESTORATION: u64 = 8;
/// Share of a launch's time that its part of a restoration may take before several launches share
/// one.
const RESTORING: f64 = 0.15;

impl<'a> Stage<'a> {
    /// A queue beside the application's.
    pub fn new(
        slot: usize,
        calls: Calls,
        theirs: H,
        command: &'a Enqueue<'a>,
    ) -> Result<Self, String> {
        Ok(Self {
            aside: Aside::new(slot, calls, theirs)?,
            needs: Vec::new(),
            stamped: (0, 0),
            before: None,
            after: None,
            command,
            trials: Vec::new(),
        })
    }

    /// Saves memory: how many bytes.
    pub fn save(&mut self, memory: &[Writable]) -> Result<u64, String> {
        self.needs = vec![Need { restored: true, settled: false }; memory.len()];
        let begin = recording::now();
        let saved = self.aside.save(memory);
        self.tried(begin, true);
        saved
    }

    /// Notes something that ran from `begin` until now: a launch, or copies of buffers where there
    /// are any.
    fn tried(&mut self, begin: u64, restores_only: bool) {
        if !restores_only || !self.aside.saved.is_empty() {
            let end = recording::now();
            self.trials.push(ReplayBatch { begin, end, count: 1, restores_only });
        }
    }

    fn finish(&self) -> Result<(), String> {
        self.aside.finish()
    }

    /// Puts every buffer back, whatever was tried.
    pub fn put_back(&mut self) -> Result<(), String> {
        let begin = recording::now();
        let back = self.aside.put_back();
        self.tried(begin, true);
        back
    }

    /// Enqueues those back that need it; the last one gives its event.
    fn restore(&self, event: Option<&mut H>) -> i32 {
        self.aside.restore(|at| self.needs.get(at).is_none_or(|need| need.restored), event)
    }

    /// What each buffer holds, in a number: equal contents give equal numbers, others hardly ever.
    /// `None` where that cannot be told.
    fn contents(&self) -> Option<Vec<u64>> {
        if self.aside.saved.len() > MOST_BUFFERS {
            return None;
        }
        let mut words: Vec<u64> = Vec::new();
        words.try_reserve_exact(PIECE / 8).ok()?;
        words.resize(PIECE / 8, 0);
        self.aside.saved.iter().map(|s| self.sum(s, &mut words)).collect()
    }

    fn sum(&self, of: &Saved, words: &mut [u64]) -> Option<u64> {
        let Writable { place, bytes } = of.of;
        // What an image holds is read from a copy without padding.
        let room = match place {
            Place::Image(..) => Some(self.aside.short_room(bytes).ok()?),
            Place::Buffer(_) | Place::Svm(_) => None,
        };
        let from = room.as_ref().map_or(place, |room| Place::Buffer(room.buffer));
        if room.is_some() && self.aside.copy(place, from, bytes, None) != 0 {
            return None;
        }
        let mut sum = 0u64;
        for (offset, length) in pieces(bytes) {
            // What a last, shorter piece leaves of the one before is part of neither launch's
            // alone: zeros.
            if let Some(last) = words.get_mut(length / 8) {
                *last = 0;
            }
            if self.aside.read(from, offset, length, words) != 0 {
                return None;
            }
            for word in words.iter().take(length.div_ceil(8)) {
                sum = (sum.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
            }
        }
        Some(sum)
    }

    fn once(&mut self) -> Result<(), String> {
        let begin = recording::now();
        said("the repeated command", (self.command)(self.aside.queue, None))?;
        let finished = self.finish();
        self.tried(begin, false);
        finished
    }

    /// Launches once: how long that took the host, in ns. Keeps what the buffers held before and
    /// after.
    pub fn first(&mut self) -> Result<u64, String> {
        self.before = self.contents();
        let begin = recording::now();
        self.once()?;
        let took = nanoseconds(recording::now().wrapping_sub(begin));
        self.after = self.contents();
        Ok(took)
    }

    /// Launches again and finds which buffers have to be restored between launches. This warms up,
    /// too: compilers, caches, clocks.
    pub fn compare(&mut self) -> Result<(), String> {
        if self.aside.saved.is_empty() {
            return Ok(());
        }
        self.once()?;
        let again = self.contents();
        let (Some(before), Some(first), Some(second)) =
            (self.before.take(), self.after.take(), again)
        else {
            return Ok(());
        };
        for (i, (need, saved)) in self.needs.iter_mut().zip(&self.aside.saved).enumerate() {
            let (a, b, c) = (before.get(i), first.get(i), second.get(i));
            // What is only read, or written without regard to what was there, is left alone; but
            // where another buffer changes each time, a small one may be what that goes by.
            need.restored = b != c || (a != b && saved.of.bytes <= SMALL && first != second);
            need.settled = a != b && !need.restored;
        }
        Ok(())
    }

    /// Whether a launch changed a buffer in a way that the next one repeated.
    pub fn settles(&self) -> bool {
        self.needs.iter().any(|need| need.settled)
    }

    /// Restores what settles before each launch, too.
    pub fn unsettle(&mut self) {
        self.needs.iter_mut().for_each(|need| need.restored |= need.settled);
    }

    /// Whether buffers are restored between launches.
    pub fn restores(&self) -> bool {
        self.needs.iter().any(|need| need.restored)
    }

    /// Device time of one with nothing before or behind it, the median of three, and host time of
    /// its restoration, both in ns; 0 for what is not known.
    pub fn alone(&mut self) -> Result<(u64, u64), String> {
        let (mut lengths, mut host) = (Vec::with_capacity(3), 0);
        for _ in 0..3 {
            if self.restores() {
                let begin = recording::now();
                said("restoring the buffers", self.restore(None))?;
                self.finish()?;
                let took = nanoseconds(recording::now().wrapping_sub(begin));
                self.tried(begin, true);
                host = if host == 0 { took } else { took.min(host) };
            }
            let mut event = H::NULL;
            let begin = recording::now();
            said("the repeated command", (self.command)(self.aside.queue, Some(&mut event)))?;
            if event.is_null() {
                return Err("the runtime gave no event".to_owned());
            }
            // SAFETY: an event of ours, released once.
            let code = unsafe { (self.aside.calls.wait)(1, &event) };
            self.tried(begin, false);
            let took = self.aside.length(event).unwrap_or(0);
            // SAFETY: as above.
            unsafe { (self.aside.calls.release_event)(event) };
            said("waiting for what was repeated", code)?;
            lengths.push(took);
            if took > LONG_NS {
                break;
            }
        }
        lengths.sort_unstable();
        Ok((lengths.get(lengths.len() / 2).copied().unwrap_or(0), host))
    }

    /// Launches behind one restoration: more where that takes long, so that it takes little of the
    /// time in the end.
    pub fn per_restoration(&self, alone: u64, restoring: u64) -> u64 {
        let mut all = self.needs.iter().zip(&self.aside.saved);
        if all.any(|(need, s)| need.restored && (need.settled || s.of.bytes <= SMALL)) || alone == 0
        {
            return 1;
        }
        let wanted = restoring as f64 / (RESTORING * alone as f64);
        (wanted.ceil() as u64).clamp(1, MOST_PER_RESTORATION)
    }

    /// Enqueues until the time is over and `least` were launched, two stretches of a few in flight,
    /// so that the device never waits for us. With `each`, a restoration before so many; without,
    /// restorations alone.
    pub fn batch(
        &mut self,
        milliseconds: u64,
        least: u64,
        each: Option<u64>,
    ) -> Result<ReplayBatch, String> {
        let begin = recording::now();
        let until = begin + recording::ticks_of(milliseconds * 1_000_000);
        // Enqueued, known complete, and enqueued before each mark.
        let (mut count, mut complete, mut behind) = (0u64, 0u64, [0u64; 2]);
        let mut marks: [H; 2] = [H::NULL; 2];
        let mut failed = 0;
        for turn in (0..2usize).cycle() {
            let (Some(mark), Some(behind)) = (marks.get_mut(turn), behind.get_mut(turn)) else {
                break;
            };
            failed = self.await_mark(mark, each.is_some());
            complete += std::mem::take(behind);
            let now = recording::now();
            if failed != 0 || (now >= until && count >= least) {
                break;
            }
            // As many as fill some milliseconds, by what they took so far.
            let stretch = (now - begin)
                .checked_div(complete)
                .map_or(1, |each| (recording::ticks_of(5_000_000) / each.max(1)).clamp(1, 2000));
            for i in 0..stretch {
                let event = (i + 1 == stretch).then_some(&mut *mark);
                failed = match each {
                    None => self.restore(event),
                    Some(each) => {
                        let first = if count.is_multiple_of(each.max(1)) && self.restores() {
                            self.restore(None)
                        } else {
                            0
                        };
                        if first == 0 { (self.command)(self.aside.queue, event) } else { first }
                    }
                };
                if failed != 0 {
                    break;
                }
                count += 1;
                *behind += 1;
            }
            // SAFETY: a live queue.
            unsafe { (self.aside.calls.flush)(self.aside.queue) };
        }
        // SAFETY: a live queue.
        let finished = unsafe { (self.aside.calls.finish)(self.aside.queue) };
        let end = recording::now();
        for mark in &mut marks {
            self.await_mark(mark, each.is_some());
        }
        said("a repeated command", if failed != 0 { failed } else { finished })?;
        Ok(ReplayBatch { begin, end, count, restores_only: each.is_none() })
    }

    /// Waits for a mark and gives it back; takes its stamps where it is a repetition's.
    fn await_mark(&mut self, mark: &mut H, repetition: bool) -> i32 {
        if mark.is_null() {
            return 0;
        }
        // SAFETY: an event of ours.
        let code = unsafe { (self.aside.calls.wait)(1, mark) };
        if let (true, 0, Some(length)) = (repetition, code, self.aside.length(*mark)) {
            self.stamped = (self.stamped.0.saturating_add(length), self.stamped.1 + 1);
        }
        // SAFETY: as above, released once.
        unsafe { (self.aside.calls.release_event)(*mark) };
        *mark = H::NULL;
        code
    }

    /// Mean length of repetitions by their stamps, in ns; 0 where none is known.
    pub fn stamped(&self) -> u64 {
        self.stamped.0.checked_div(self.stamped.1).unwrap_or(0)
    }
}

/// Offset and length of what is read back of a buffer, in order.
fn pieces(bytes: usize) -> impl Iterator<Item = (usize, usize)> {
    let whole = bytes.div_ceil(PIECE);
    let count = whole.min(PIECES);
    (0..count).map(move |i| {
        // All of them, or evenly spaced from the first to one that ends with the buffer.
        let offset = if count == whole {
            i * PIECE
        } else {
            let room = (bytes - PIECE) as u128;
            (room * i as u128 / (count - 1) as u128) as usize / 8 * 8
        };
        (offset, PIECE.min(bytes - offset))
    })
}

fn nanoseconds(ticks: u64) -> u64 {
    (ticks as f64 * 1e9 / recording::ticks_of(1_000_000_000) as f64) as u64
}

/// Lets the device rest, so that its floor shows: when that began, in ticks.
pub fn quiet(milliseconds: u64) -> u64 {
    let begin = recording::now();
    threads::pause((milliseconds * 1000) as u32);
    begin
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_small_buffers_and_the_ends_of_large_ones() {
        for bytes in [1, 7, PIECE - 1, PIECE, PIECE + 1, PIECES * PIECE] {
            let mut next = 0;
            for (offset, length) in pieces(bytes) {
                assert_eq!(offset, next, "{bytes}");
                next += length;
            }
            assert_eq!(next, bytes);
        }
        for bytes in [PIECES * PIECE + 1, 1 << 30, (1 << 30) + 4] {
            let all: Vec<_> = pieces(bytes).collect();
            assert_eq!((all.len(), all[0].0), (PIECES, 0));
            let (offset, length) = all[PIECES - 1];
            assert!(offset + length <= bytes && bytes - offset - length < 8, "{bytes}");
            assert!(all.windows(2).all(|p| p[0].0 < p[1].0));
        }
    }
}
