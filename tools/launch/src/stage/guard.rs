//! What lies behind a buffer: bytes of a known pattern, which a launch that keeps to its memory
//! leaves as they are. Owns the pattern and its size. Refuses to say anything of writes further
//! away.

use super::places::Place;
use super::{Stage, StageError};

/// Bytes behind each buffer and each allocation of shared virtual memory: as much as a page, so
/// that a loop which runs a few rows of a group too far is seen.
const BYTES: usize = 4096;

/// Bytes behind a memory of `bytes`, on a device that allocates at most `largest`: none where there
/// is no room for them.
pub(super) const fn bytes(bytes: u64, largest: u64) -> usize {
    if bytes <= largest.saturating_sub(BYTES as u64) { BYTES } else { 0 }
}

/// No two neighbours are the same, so that what is shifted is seen, too.
fn pattern() -> Vec<u8> {
    (0..BYTES).map(|at| (at * 167 + 90) as u8).collect()
}

/// How many bytes behind the beginning of a pattern the last one lies that has changed; nothing
/// where none has.
fn changed(found: &[u8]) -> Option<u64> {
    let last = found.iter().zip(pattern()).rposition(|(found, put)| *found != put)?;
    Some(last as u64 + 1)
}

/// A write behind the end of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Overrun {
    /// The memory, by its place in the capture.
    pub index: usize,
    /// Bytes from its end to behind the last one that was changed, of those that are watched.
    pub bytes: u64,
}

impl Stage<'_> {
    /// Where the guard of a memory begins, if it has one.
    fn guard_of(&self, index: usize) -> Option<(&Place, usize)> {
        let (place, before) = (self.places.get(index)?, self.before.get(index)?);
        let whole = match place {
            Place::Buffer { own, .. } => own.bytes(),
            Place::Svm(svm) => svm.bytes(),
            Place::Image(_) => return None,
        };
        (whole == before.len() + BYTES).then_some((place, before.len()))
    }

    /// Puts the pattern behind all memories. What is enqueued later sees it.
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn guard(&self) -> Result<(), StageError> {
        let pattern = pattern();
        for (place, end) in (0..self.places.len()).filter_map(|index| self.guard_of(index)) {
            match place {
                Place::Buffer { own, .. } => drop(self.session.write(own, end, &pattern)?),
                Place::Svm(svm) => {
                    self.session.map_svm(svm, true, |all| all[end..].copy_from_slice(&pattern))?;
                }
                Place::Image(_) => {}
            }
        }
        Ok(())
    }

    /// Writes behind memories since [`guard`](Self::guard).
    ///
    /// # Errors
    /// What the runtime returned.
    pub fn overruns(&self) -> Result<Vec<Overrun>, StageError> {
        let mut out = Vec::new();
        for index in 0..self.places.len() {
            let Some((place, end)) = self.guard_of(index) else { continue };
            let mut found = vec![0; BYTES];
            match place {
                Place::Buffer { own, .. } => drop(self.session.read(own, end, &mut found)?),
                Place::Svm(svm) => {
                    self.session.map_svm(svm, false, |all| found.copy_from_slice(&all[end..]))?;
                }
                Place::Image(_) => {}
            }
            out.extend(changed(&found).map(|bytes| Overrun { index, bytes }));
        }
        Ok(out)
    }

    /// Ids of memories behind which a write cannot be seen, for want of room on the device.
    pub fn unguarded(&self) -> Vec<u32> {
        let memories = self.capture.launch.memories.iter().enumerate();
        let is_image = |index: usize| matches!(self.places.get(index), Some(Place::Image(_)));
        memories
            .filter(|(index, _)| !is_image(*index) && self.guard_of(*index).is_none())
            .map(|(_, memory)| memory.id)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_counts() {
        let mut found = pattern();
        assert_eq!(changed(&found), None);
        found[3] ^= 1;
        found[40] ^= 0x80;
        assert_eq!(changed(&found), Some(41));
        assert_eq!(changed(&vec![0; BYTES]), Some(BYTES as u64));
    }

    #[test]
    fn there_is_a_guard_where_there_is_room() {
        assert_eq!(bytes(0, 1 << 20), BYTES);
        assert_eq!(bytes((1 << 20) - BYTES as u64, 1 << 20), BYTES);
        assert_eq!(bytes((1 << 20) - 1, 1 << 20), 0);
        assert_eq!(bytes(1, 16), 0);
    }
}
