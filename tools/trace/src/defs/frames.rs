//! Frames of definitions: written, and read as far as a file is whole.

use super::Def;
use crate::checksum;

/// Length of a definition's frame header.
pub const FRAME_LEN: usize = 16;
/// Longest payload that a reader believes (a program source is not stored, a build log is cut to
/// this by the writer).
pub const MAX_PAYLOAD: usize = 1 << 26;
/// Appends the framed definition to `out`.
pub fn encode(def: &Def, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_LEN]);
    def.payload(out);
    let length = (out.len() - start - FRAME_LEN) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    out[start + 4..start + 6].copy_from_slice(&def.kind().to_le_bytes());
    let sum = frame_checksum(&out[start..start + 8], &out[start + FRAME_LEN..]);
    out[start + 8..start + 16].copy_from_slice(&sum.to_le_bytes());
}

/// Checksum of a frame: of its first 8 bytes and of its payload, each by itself and then folded.
pub fn frame_checksum(head: &[u8], payload: &[u8]) -> u64 {
    checksum(head).rotate_left(17) ^ checksum(payload)
}

/// Iterates over the definitions of a defs file. Ends at the first that is torn or damaged;
/// [`torn`](Self::torn) says how many bytes of it are there.
#[derive(Debug, Clone)]
pub struct Defs<'a> {
    rest: &'a [u8],
}

impl<'a> Defs<'a> {
    /// Over the bytes of a whole defs file, header included; the header is taken as checked.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes.get(crate::file::HEADER_LEN..).unwrap_or(&[]) }
    }
    /// Over bytes that begin with a definition: those that a file has grown by.
    pub fn behind(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }
    /// Bytes not read.
    pub fn rest(&self) -> usize {
        self.rest.len()
    }
    /// Bytes not read, without the zeros at the end: room for definitions that did not come.
    pub fn torn(&self) -> usize {
        self.rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
    }
}

impl Iterator for Defs<'_> {
    type Item = Def;

    fn next(&mut self) -> Option<Def> {
        let (head, after) = self.rest.split_first_chunk::<FRAME_LEN>()?;
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if length > MAX_PAYLOAD {
            return None;
        }
        let (payload, rest) = after.split_at_checked(length)?;
        let sum = u64::from_le_bytes([
            head[8], head[9], head[10], head[11], head[12], head[13], head[14], head[15],
        ]);
        if frame_checksum(&head[..8], payload) != sum {
            return None;
        }
        let def = Def::from_payload(u16::from_le_bytes([head[4], head[5]]), payload)?;
        self.rest = rest;
        Some(def)
    }
}
