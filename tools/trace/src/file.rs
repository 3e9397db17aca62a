//! File headers, block headers and the checksum. Bytes only: opening and mapping is the caller's.
//! What a ring file has between them is in [`ring_file`](crate::ring_file).

use crate::{Error, VERSION};

/// First bytes of every file.
pub const MAGIC: [u8; 8] = *b"\x89clscope";
/// Byte-order mark as written by a little-endian machine.
pub const BYTE_ORDER: u32 = 0x0102_0304;
/// Length of a file header in bytes.
pub const HEADER_LEN: usize = 128;
/// Magic of a block header.
pub const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"BLK1");
/// Length of a block header in bytes.
pub const BLOCK_HEADER_LEN: usize = 64;
/// Role of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum FileKind {
    /// Definitions.
    Defs = 1,
    /// Data segment.
    Segment = 2,
    /// Rings.
    Ring = 3,
    /// Sensor readings.
    Sensors = 4,
}

/// Clock of all host times of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Clock {
    /// x86 time-stamp counter.
    Tsc = 1,
    /// CLOCK_MONOTONIC_RAW in nanoseconds.
    MonotonicRaw = 2,
    /// Arm virtual counter.
    Cntvct = 3,
}

/// Contents of a file header; see the crate's page for the layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileHeader {
    /// Format version of the file, major and minor.
    pub version: (u16, u16),
    /// Role of the file.
    pub kind: FileKind,
    /// Process id in its own namespace.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Inode of the pid namespace, 0 if unknown.
    pub pid_ns: u64,
    /// Incarnation.
    pub incarnation: u32,
    /// Segment number.
    pub segment: u32,
    /// Clock of host times.
    pub clock: Clock,
    /// Machine id, zeros if unknown.
    pub host: [u8; 16],
    /// Boot id, zeros if unknown.
    pub boot: [u8; 16],
    /// Host time at which the file was made.
    pub created: u64,
}

impl FileHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0u8; HEADER_LEN];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&BYTE_ORDER.to_le_bytes());
        out[12..14].copy_from_slice(&self.version.0.to_le_bytes());
        out[14..16].copy_from_slice(&self.version.1.to_le_bytes());
        out[16..20].copy_from_slice(&(self.kind as u32).to_le_bytes());
        out[20..24].copy_from_slice(&(HEADER_LEN as u32).to_le_bytes());
        out[24..28].copy_from_slice(&self.pid.to_le_bytes());
        out[28..32].copy_from_slice(&self.ppid.to_le_bytes());
        out[32..40].copy_from_slice(&self.pid_ns.to_le_bytes());
        out[40..44].copy_from_slice(&self.incarnation.to_le_bytes());
        out[44..48].copy_from_slice(&self.segment.to_le_bytes());
        out[48] = self.clock as u8;
        out[56..72].copy_from_slice(&self.host);
        out[72..88].copy_from_slice(&self.boot);
        out[88..96].copy_from_slice(&self.created.to_le_bytes());
        let sum = checksum(&out[..120]);
        out[120..128].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads and checks the header at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if let Some(first) = bytes.first_chunk::<8>()
            && *first != MAGIC
        {
            return Err(Error::Foreign { found: *first });
        }
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Error::TooShort { found: bytes.len(), needed: HEADER_LEN });
        };
        match read_u32(head, 8) {
            Some(BYTE_ORDER) => {}
            Some(x) if x.swap_bytes() == BYTE_ORDER => return Err(Error::ByteOrder),
            _ => return Err(Error::DamagedHeader { what: "byte-order mark" }),
        }
        let version =
            (u16::from_le_bytes([head[12], head[13]]), u16::from_le_bytes([head[14], head[15]]));
        if version.0 > VERSION.0 {
            return Err(Error::Newer { major: version.0, minor: version.1 });
        }
        if read_u64(head, 120) != Some(checksum(&head[..120])) {
            return Err(Error::DamagedHeader { what: "checksum" });
        }
        let kind = match read_u32(head, 16) {
            Some(1) => FileKind::Defs,
            Some(2) => FileKind::Segment,
            Some(3) => FileKind::Ring,
            Some(4) => FileKind::Sensors,
            _ => return Err(Error::DamagedHeader { what: "kind of file" }),
        };
        let clock = match head[48] {
            1 => Clock::Tsc,
            2 => Clock::MonotonicRaw,
            3 => Clock::Cntvct,
            _ => return Err(Error::DamagedHeader { what: "clock" }),
        };
        let field = |at| read_u32(head, at).unwrap_or(0);
        let wide = |at| read_u64(head, at).unwrap_or(0);
        let mut host = [0; 16];
        host.copy_from_slice(&head[56..72]);
        let mut boot = [0; 16];
        boot.copy_from_slice(&head[72..88]);
        Ok(Self {
            version,
            kind,
            pid: field(24),
            ppid: field(28),
            pid_ns: wide(32),
            incarnation: field(40),
            segment: field(44),
            clock,
            host,
            boot,
            created: wide(88),
        })
    }

    /// As [`decode`](Self::decode), and the file must have the role `expected`.
    pub fn decode_as(bytes: &[u8], expected: FileKind) -> Result<Self, Error> {
        let header = Self::decode(bytes)?;
        if header.kind == expected {
            Ok(header)
        } else {
            Err(Error::WrongKind { expected, found: header.kind })
        }
    }
}

/// Header of a block of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// Thread index.
    pub thread: u32,
    /// Sequence number within the thread.
    pub sequence: u32,
    /// Bytes of records.
    pub length: u32,
    /// Host time to which the first delta is added.
    pub base: u64,
    /// Checksum of the payload.
    pub checksum: u64,
}

impl BlockHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; BLOCK_HEADER_LEN] {
        let mut out = [0u8; BLOCK_HEADER_LEN];
        out[0..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        out[4..8].copy_from_slice(&self.thread.to_le_bytes());
        out[8..12].copy_from_slice(&self.sequence.to_le_bytes());
        out[12..16].copy_from_slice(&self.length.to_le_bytes());
        out[16..24].copy_from_slice(&self.base.to_le_bytes());
        out[24..32].copy_from_slice(&self.checksum.to_le_bytes());
        let own = checksum(&out[..32]);
        out[32..40].copy_from_slice(&own.to_le_bytes());
        out
    }

    /// Reads a block header; `None` where the bytes are none, or damaged.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let head = bytes.first_chunk::<BLOCK_HEADER_LEN>()?;
        if read_u32(head, 0)? != BLOCK_MAGIC || read_u64(head, 32)? != checksum(&head[..32]) {
            return None;
        }
        Some(Self {
            thread: read_u32(head, 4)?,
            sequence: read_u32(head, 8)?,
            length: read_u32(head, 12)?,
            base: read_u64(head, 16)?,
            checksum: read_u64(head, 24)?,
        })
    }
}

/// A u32 at a byte offset, `None` past the end.
pub fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A u64 at a byte offset, `None` past the end.
pub fn read_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Keys of the four lanes of a checksum.
const KEYS: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9, 0x27d4_eb2f_1656_67c5];

fn fold(state: u64, word: u64, key: u64) -> u64 {
    let wide = u128::from(state ^ word) * u128::from(key);
    // The added state keeps a zero product from erasing what came before.
    (wide as u64) ^ ((wide >> 64) as u64) ^ state.rotate_left(23)
}

/// A [`checksum`] of bytes that come in pieces.
#[derive(Debug, Clone)]
pub struct Checksum {
    lanes: [u64; 4],
    length: u64,
}

impl Checksum {
    /// Bytes of a piece are a multiple of this; those of the last may be any number.
    pub const STEP: usize = 32;

    /// Of nothing yet.
    pub fn new() -> Self {
        Self { lanes: KEYS, length: 0 }
    }

    /// Adds a piece behind those before.
    pub fn add(&mut self, piece: &[u8]) {
        let mut chunks = piece.chunks_exact(Self::STEP);
        for chunk in &mut chunks {
            for (i, lane) in self.lanes.iter_mut().enumerate() {
                let mut word = [0u8; 8];
                word.copy_from_slice(&chunk[i * 8..i * 8 + 8]);
                *lane = fold(*lane, u64::from_le_bytes(word), KEYS[i]);
            }
        }
        for (i, tail) in chunks.remainder().chunks(8).enumerate() {
            let mut word = [0u8; 8];
            word[..tail.len()].copy_from_slice(tail);
            self.lanes[i] = fold(self.lanes[i], u64::from_le_bytes(word), KEYS[i]);
        }
        self.length += piece.len() as u64;
    }

    /// Of all pieces.
    pub fn sum(&self) -> u64 {
        let first = fold(self.length, KEYS[3], KEYS[0]);
        self.lanes.iter().zip(KEYS).fold(first, |sum, (lane, key)| fold(sum, *lane, key))
    }
}

impl Default for Checksum {
    fn default() -> Self {
        Self::new()
    }
}

/// Checksum of blocks, headers and definitions: detects torn and damaged bytes, is no defence
/// against forgery. Four independent multiply-fold lanes of 8 bytes, so that a 256 KiB block costs
/// about a nanosecond a record.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = Checksum::new();
    sum.add(bytes);
    sum.sum()
}

/// A hash of 128 bits, as hex, that names equal bytes: of programs and of captured memory. It does
/// not collide by chance, and is no defence against forgery. [`hash_of`] of the checksum of the
/// bytes and of that of the same bytes from the last to the first.
pub fn hash(bytes: &[u8]) -> String {
    let backwards: Vec<u8> = bytes.iter().rev().copied().collect();
    hash_of(checksum(bytes), checksum(&backwards))
}

/// The [`hash`](fn@hash) of bytes by their two checksums.
pub fn hash_of(forwards: u64, backwards: u64) -> String {
    format!("{forwards:016x}{backwards:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FileHeader {
        FileHeader {
            version: VERSION,
            kind: FileKind::Segment,
            pid: 7,
            ppid: 3,
            pid_ns: 4_026_531_836,
            incarnation: 1,
            segment: 2,
            clock: Clock::Tsc,
            host: [5; 16],
            boot: [6; 16],
            created: 99,
        }
    }

    #[test]
    fn header_round_trips_and_every_flipped_byte_is_refused() {
        let bytes = header().encode();
        assert_eq!(FileHeader::decode(&bytes), Ok(header()));
        for at in 0..HEADER_LEN {
            for bit in 0..8 {
                let mut bad = bytes;
                bad[at] ^= 1 << bit;
                assert!(FileHeader::decode(&bad).is_err(), "byte {at} bit {bit}");
            }
        }
        for cut in 0..HEADER_LEN {
            assert!(FileHeader::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn errors_name_the_cause() {
        assert!(matches!(FileHeader::decode(b"#!/bin/sh\n"), Err(Error::Foreign { .. })));
        assert!(matches!(FileHeader::decode(&[]), Err(Error::TooShort { .. })));
        let mut newer = header();
        newer.version = (9, 1);
        assert_eq!(FileHeader::decode(&newer.encode()), Err(Error::Newer { major: 9, minor: 1 }));
        let mut foreign_order = header().encode();
        foreign_order[8..12].reverse();
        assert_eq!(FileHeader::decode(&foreign_order), Err(Error::ByteOrder));
        assert!(matches!(
            FileHeader::decode_as(&header().encode(), FileKind::Defs),
            Err(Error::WrongKind { .. })
        ));
    }

    #[test]
    fn block_header_round_trips_and_every_flipped_byte_is_refused() {
        let block =
            BlockHeader { thread: 3, sequence: 9, length: 4096, base: 1 << 40, checksum: 77 };
        let bytes = block.encode();
        assert_eq!(BlockHeader::decode(&bytes), Some(block));
        for at in 0..40 {
            let mut bad = bytes;
            bad[at] ^= 0x10;
            assert_eq!(BlockHeader::decode(&bad), None, "byte {at}");
        }
    }

    #[test]
    fn pieces_have_the_checksum_of_the_whole() {
        let data: Vec<u8> = (0..200u32).map(|x| (x * 7) as u8).collect();
        for cut in [0, 32, 64, 192] {
            let mut sum = Checksum::new();
            sum.add(&data[..cut]);
            sum.add(&data[cut..]);
            assert_eq!(sum.sum(), checksum(&data), "{cut}");
        }
        let mut palindrome = data.clone();
        palindrome.extend(data.iter().rev());
        let hash = hash(&palindrome);
        assert_eq!(hash[..16], hash[16..]);
    }

    #[test]
    fn checksum_sees_every_bit_and_the_length() {
        let data: Vec<u8> = (0..200u32).map(|x| (x * 7) as u8).collect();
        let sum = checksum(&data);
        for at in 0..data.len() {
            for bit in 0..8 {
                let mut bad = data.clone();
                bad[at] ^= 1 << bit;
                assert_ne!(checksum(&bad), sum, "byte {at} bit {bit}");
            }
        }
        assert_ne!(checksum(&[0; 8]), checksum(&[0; 16]));
        assert_ne!(checksum(&[]), checksum(&[0]));
    }
}
