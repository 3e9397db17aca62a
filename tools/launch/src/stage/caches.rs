//! The state of memories before a launch: they are used again in the order in which the
//! application's commands had used them, with as many other bytes between them as there were, and
//! those that no command had used are made anew, since a system gives the pages of a memory where
//! it is first written. Owns that course; refuses to know what caches a device has.

use super::{Place, Stage, StageError, place};
use crate::capture::{Given, Launch, MemoryKind};
use clscope_opencl::{ClError, Event, Kernel};

/// Bytes since the last use that all caches hold beside the memory itself: what was used more
/// lately is left as it comes. First caches of processors have 32 to 64 KiB.
const WARM: u64 = 64 << 10;
/// Most bytes that are put between two uses: more than caches hold.
const COLD: u64 = 256 << 20;

/// Most bytes of memories that are made anew which are kept: what is given back may be given again,
/// with its pages.
const KEPT: u64 = 512 << 20;

/// What is done before each launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Caches {
    /// Memories that are made anew, by their place in the capture.
    pub fresh: Vec<usize>,
    /// Memories to restore that nothing is known of, by their place in the capture: first.
    first: Vec<usize>,
    /// Memories in the order of their last use, each with whether it is restored, and the other
    /// bytes that follow.
    uses: Vec<(usize, bool, u64)>,
    /// The most bytes since a last use; none where nothing is imitated.
    pub cold: Option<u64>,
    /// Whether another command than the launch itself comes right before it, in any case.
    is_apart: bool,
}

/// Bytes of a command that is there for its place alone.
const SMALL: usize = 4096;

impl Caches {
    /// Of the bytes since the last use of each memory, their sizes, and those that are restored.
    /// Restoring a memory uses its bytes twice, and using it again does, too.
    fn new(memories: &[(Option<u64>, u64)], restored: &[usize]) -> Self {
        let is_cold = |(since, _): &&(Option<u64>, u64)| since.is_some_and(|since| since >= WARM);
        let cold = memories.iter().filter(is_cold).filter_map(|(since, _)| *since).max();
        if cold.is_none() {
            return Self { first: restored.to_vec(), ..Self::default() };
        }
        let mut known: Vec<(u64, usize)> = memories
            .iter()
            .enumerate()
            .filter_map(|(index, (since, _))| Some(((*since)?, index)))
            .collect();
        known.sort_by_key(|(since, index)| (std::cmp::Reverse(*since), *index));
        let first = restored.iter().copied().filter(|i| !known.iter().any(|(_, k)| k == i));
        let first = first.collect();
        let mut uses = Vec::new();
        // From the newest to the oldest: what follows a use counts for those before it.
        let mut after = 0u64;
        for (since, index) in known.into_iter().rev() {
            let between = since.min(COLD).saturating_sub(after);
            uses.push((index, restored.contains(&index), between));
            let size = memories.get(index).map_or(0, |(_, bytes)| *bytes);
            after = after.saturating_add(between).saturating_add(size.saturating_mul(2));
        }
        uses.reverse();
        Self { fresh: Vec::new(), first, uses, cold, is_apart: false }
    }

    /// The most other bytes between two uses.
    fn room(&self) -> u64 {
        self.uses.iter().map(|(_, _, between)| *between).max().unwrap_or(0)
    }
}

impl Stage<'_> {
    /// What is done before each launch so that caches hold what they held in the application, as
    /// far as the capture tells; memories that the launch changes are restored by it, too. Without
    /// room on the device for what is put between uses they are only restored. `is_apart`: another
    /// command than a launch of the kernel comes right before it.
    pub fn caches(&mut self, restored: &[usize], is_apart: bool) -> Caches {
        let of =
            |m: &crate::capture::Memory| (m.used.as_ref().and_then(|u| u.bytes_since), m.bytes);
        let memories: Vec<(Option<u64>, u64)> =
            self.capture.launch.memories.iter().map(of).collect();
        let fresh: Vec<usize> =
            (0..memories.len()).filter(|i| is_fresh(&self.capture.launch, *i)).collect();
        let left: Vec<usize> = restored.iter().copied().filter(|i| !fresh.contains(i)).collect();
        let out = Caches { fresh, is_apart, ..Caches::new(&memories, &left) };
        // Each byte is read in one buffer and written in the other; a memory is copied to one.
        let largest = memories.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let half = match out.cold {
            Some(_) => usize::try_from((out.room() / 2).max(largest)).unwrap_or(usize::MAX),
            None => 0,
        };
        let half = half.max(SMALL);
        if (out.cold.is_some() || is_apart) && self.scratch.is_none() {
            let made = [self.session.buffer(half, false), self.session.buffer(half, false)];
            if let [Ok(from), Ok(to)] = made {
                self.scratch = Some([from, to]);
            }
        }
        match self.scratch.is_some() || out.cold.is_none() {
            true => out,
            false => Caches { first: left, fresh: out.fresh, is_apart, ..Caches::default() },
        }
    }

    /// Does it, without waiting: the event of the last command, where there is one. Memories that
    /// are made anew are arguments of the kernel from here on, until [`settle`](Self::settle).
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn prepare(&mut self, of: &Caches, kernel: &Kernel) -> Result<Option<Event>, StageError> {
        let mut last = None;
        for index in &of.fresh {
            let Some(memory) = self.capture.launch.memories.get(*index) else { continue };
            let made = place(&self.session, &self.capture.launch, &self.places, memory)?;
            let Some(place) = self.places.get_mut(*index) else { continue };
            let old = std::mem::replace(place, made);
            self.aside.push((*index, old));
        }
        if !of.fresh.is_empty() {
            self.bind(kernel)?;
            let size =
                |index: &usize| self.capture.launch.memories.get(*index).map_or(0, |m| m.bytes);
            let each: u64 = of.fresh.iter().map(size).sum();
            // The first of each is the one that the capture was put in.
            if (self.aside.len() / of.fresh.len()) as u64 * each > KEPT {
                self.session.finish()?;
                self.aside.truncate(of.fresh.len());
            }
        }
        for index in &of.first {
            last = self.restore(*index)?.or(last);
        }
        for (index, is_restored, between) in &of.uses {
            let event = if *is_restored { self.restore(*index)? } else { self.used(*index)? };
            last = event.or(last);
            if let (Some([from, to]), Ok(bytes)) = (&self.scratch, usize::try_from(*between / 2))
                && bytes > 0
            {
                last = Some(self.session.copy(from, to, 0, bytes.min(from.bytes()))?);
            }
        }
        if let (None, true, Some([from, to])) = (&last, of.is_apart, &self.scratch) {
            last = Some(self.session.copy(from, to, 0, SMALL)?);
        }
        Ok(last)
    }

    /// Ends it: the kernel's arguments are the memories of before.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn settle(&mut self, kernel: &Kernel) -> Result<(), StageError> {
        self.session.finish()?;
        // The oldest last: it stays.
        while let Some((index, old)) = self.aside.pop() {
            if let Some(place) = self.places.get_mut(index) {
                *place = old;
            }
        }
        self.bind(kernel)
    }

    /// Uses a memory: a buffer is read, others are written again.
    fn used(&self, index: usize) -> Result<Option<Event>, ClError> {
        match (self.places.get(index), self.before.get(index), &self.scratch) {
            (Some(Place::Buffer { own, .. }), Some(bytes), Some([_, to])) if !bytes.is_empty() => {
                self.session.copy(own, to, 0, bytes.len()).map(Some)
            }
            _ => self.restore(index),
        }
    }
}

/// Whether no command had used a memory, and nobody had written it: a buffer that no other argument
/// names in part or by another view.
fn is_fresh(launch: &Launch, index: usize) -> bool {
    let Some(memory) = launch.memories.get(index) else { return false };
    let is_unused = memory.used.as_ref().is_some_and(|used| used.by.is_none());
    let given = ["CL_MEM_COPY_HOST_PTR", "CL_MEM_USE_HOST_PTR"];
    let is_written = memory.flags.iter().any(|flag| given.contains(&flag.as_str()));
    let is_whole = launch.arguments_of(memory.id).all(|argument| match argument.given {
        Given::Memory { offset, size, .. } => offset == 0 && size == memory.bytes,
        _ => false,
    });
    let is_viewed = |m: &crate::capture::Memory| {
        m.image.as_ref().is_some_and(|image| image.of_memory == Some(memory.id))
    };
    is_unused
        && !is_written
        && is_whole
        && memory.kind == MemoryKind::Buffer
        && !launch.memories.iter().any(is_viewed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_are_used_in_order_with_as_much_between() {
        const M: u64 = 1 << 20;
        // The second was used last, with nothing since; the first 10 MiB before, of which the
        // second was 2; nothing is known of the third.
        let memories = [(Some(10 * M), M), (Some(0), M), (None, M)];
        let found = Caches::new(&memories, &[1, 2]);
        assert_eq!(found.first, [2]);
        assert_eq!(found.uses, [(0, false, 8 * M), (1, true, 0)]);
        assert_eq!((found.cold, found.room()), (Some(10 * M), 8 * M));
        // Whatever was used long ago is as cold as can be.
        let found = Caches::new(&[(Some(u64::MAX), M)], &[]);
        assert_eq!(found.uses, [(0, false, COLD)]);
    }

    #[test]
    fn what_was_used_lately_is_left_as_it_comes() {
        let found = Caches::new(&[(Some(WARM - 1), 5), (None, 7)], &[1]);
        assert_eq!(found, Caches { first: vec![1], ..Caches::default() });
    }
}
