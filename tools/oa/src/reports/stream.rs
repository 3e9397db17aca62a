//! Cuts streams into records and reports, whatever pieces the bytes arrive in. Owns i915's record
//! headers, the metadata that igt's recorders put between them, and xe's bare reports; refuses to
//! resynchronise: a stream whose lengths make no sense ends with an error that gives the place.
//!
//! Record: u32 type, u16 pad, u16 size (header included), little-endian; types 1 sample, 2 report
//! lost, 3 buffer lost (i915_drm.h). igt's i915 recorder adds types from 65536, its xe recorder
//! types 4 to 7.
#![forbid(unsafe_code)]

use thiserror::Error;

const HEADER: usize = 8;

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record<'a> {
    /// A report.
    Sample(&'a [u8]),
    /// Reports are missing here.
    ReportsLost,
    /// The buffer overflowed and the unit was restarted.
    BufferLost,
    /// igt: version of its file format.
    Version(u32),
    /// igt: what was recorded.
    DeviceInfo(&'a [u8]),
    /// igt: the topology as the driver gave it.
    Topology(&'a [u8]),
    /// igt: a pair of stamps.
    Correlation(Correlation),
    /// A type this reader does not know: skipped.
    Unknown {
        /// Its type.
        kind: u32,
        /// Bytes after the header.
        bytes: usize,
    },
}

/// CPU and GPU clock at one moment. igt uses CLOCK_MONOTONIC by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correlation {
    /// Nanoseconds of the CPU clock.
    pub cpu_ns: u64,
    /// The engine's timestamp, all its bits.
    pub gpu_ticks: u64,
}

/// What igt writes about a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Frequency of the timestamps, Hz.
    pub timestamp_hz: u64,
    /// PCI device id.
    pub device_id: u32,
    /// Stepping.
    pub revision: u32,
    /// Lowest clock, Hz.
    pub min_hz: u32,
    /// Highest clock, Hz.
    pub max_hz: u32,
    /// Engine class and instance.
    pub engine: (u32, u32),
    /// The driver's number of the report format (i915), or igt's own (xe).
    pub oa_format: u32,
    /// Symbolic name of the metric set.
    pub set: String,
    /// Its UUID.
    pub uuid: String,
}

impl DeviceInfo {
    const BYTES: usize = 336;

    /// From a record's payload; `None` where it is too short.
    pub fn parse(bytes: &[u8]) -> Option<DeviceInfo> {
        let bytes = bytes.get(..Self::BYTES)?;
        let word = |at: usize| {
            bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
        };
        let text = |at: usize, n: usize| {
            let field = bytes.get(at..at + n).unwrap_or_default();
            let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
            String::from_utf8_lossy(field.get(..end).unwrap_or_default()).into_owned()
        };
        Some(DeviceInfo {
            timestamp_hz: u64::from(word(0)) | u64::from(word(4)) << 32,
            device_id: word(8),
            revision: word(12),
            min_hz: word(16),
            max_hz: word(20),
            engine: (word(24), word(28)),
            oa_format: word(32),
            set: text(36, 256),
            uuid: text(292, 40),
        })
    }
}

/// A stream that cannot be read on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs)] // fields are named in the messages
pub enum StreamError {
    /// A record shorter than its own header, so that the next one cannot be found.
    #[error(
        "OA stream: the record at byte {at} (type {kind}) claims {size} bytes, fewer than its header; is this a raw stream without records?"
    )]
    BadSize { at: u64, kind: u32, size: u16 },
    /// igt's format in a version this reader does not know.
    #[error(
        "OA stream: recorded in igt's file format version {version}, this reader knows version 1"
    )]
    Version { version: u32 },
}

/// Who wrote the stream, from its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    /// i915, or igt's recorder for it.
    I915,
    /// igt's recorder for xe: its own types follow the kernel's directly.
    IgtXe,
}

/// Parses a stream of records.
#[derive(Debug, Default)]
pub struct Records {
    /// The beginning of a record whose end has not come yet.
    pending: Vec<u8>,
    at: u64,
    dialect: Option<Dialect>,
    /// Zero bytes that igt may have put behind a topology of odd length, outside its record.
    padding: usize,
    failed: Option<StreamError>,
}

impl Records {
    /// At the start of a stream.
    pub fn new() -> Records {
        Records::default()
    }

    /// Takes the next bytes and hands every record that is whole to `out`.
    ///
    /// # Errors
    /// [`StreamError`]; the same one again for everything after it.
    pub fn feed(
        &mut self,
        mut bytes: &[u8],
        out: &mut dyn FnMut(Record<'_>),
    ) -> Result<(), StreamError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.cut(&mut bytes, out);
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    fn cut(
        &mut self,
        bytes: &mut &[u8],
        out: &mut dyn FnMut(Record<'_>),
    ) -> Result<(), StreamError> {
        while !self.pending.is_empty() && !bytes.is_empty() {
            // Header first, then as much as it says: a record never waits for bytes behind it.
            let have = self.pending.len();
            let want = if have < HEADER { HEADER } else { self.size_of(&self.pending)? };
            let take = want.saturating_sub(have).min(bytes.len());
            let (head, rest) = bytes.split_at(take);
            self.pending.extend_from_slice(head);
            *bytes = rest;
            if self.pending.len() >= HEADER {
                let mut buffer = std::mem::take(&mut self.pending);
                let used = self.next(&buffer, out)?;
                buffer.drain(..used);
                self.pending = buffer;
            }
        }
        if self.pending.is_empty() {
            loop {
                let used = self.next(bytes, out)?;
                if used == 0 {
                    break;
                }
                *bytes = bytes.get(used..).unwrap_or_default();
            }
            self.pending.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Bytes of a record that has begun but not ended.
    pub fn unfinished(&self) -> usize {
        self.pending.len()
    }

    fn size_of(&self, bytes: &[u8]) -> Result<usize, StreamError> {
        let kind = u32_at(bytes, 0);
        let size = u16::from_le_bytes([
            bytes.get(6).copied().unwrap_or(0),
            bytes.get(7).copied().unwrap_or(0),
        ]);
        if usize::from(size) < HEADER {
            Err(StreamError::BadSize { at: self.at, kind, size })
        } else {
            Ok(size.into())
        }
    }

    /// Hands over the record at the front, if it is whole; returns how many bytes it took.
    fn next(
        &mut self,
        bytes: &[u8],
        out: &mut dyn FnMut(Record<'_>),
    ) -> Result<usize, StreamError> {
        if bytes.len() < HEADER {
            return Ok(0);
        }
        if self.padding > 0 {
            let n = std::mem::take(&mut self.padding);
            // A header of zeros is none: no record has size 0.
            if u16::from_le_bytes([bytes[6], bytes[7]]) == 0
                || bytes.iter().take(n).all(|b| *b == 0) && u32_at(bytes, 0) == 0
            {
                self.at += n as u64;
                return Ok(n);
            }
        }
        let size = self.size_of(bytes)?;
        let Some(payload) = bytes.get(HEADER..size) else { return Ok(0) };
        let kind = u32_at(bytes, 0);
        let dialect = *self.dialect.get_or_insert(if kind == 4 && payload.len() == 8 {
            Dialect::IgtXe
        } else {
            Dialect::I915
        });
        let base = if dialect == Dialect::IgtXe { 4 } else { 1 << 16 };
        out(match kind {
            1 => Record::Sample(payload),
            2 => Record::ReportsLost,
            3 => Record::BufferLost,
            kind if kind == base && payload.len() >= 4 => {
                let version = u32_at(payload, 0);
                if version != 1 {
                    return Err(StreamError::Version { version });
                }
                Record::Version(version)
            }
            kind if kind == base + 1 => Record::DeviceInfo(payload),
            kind if kind == base + 2 => {
                self.padding = payload.len() % 8;
                Record::Topology(payload)
            }
            kind if kind == base + 3 && payload.len() >= 16 => Record::Correlation(Correlation {
                cpu_ns: u64_at(payload, 0),
                gpu_ticks: u64_at(payload, 8),
            }),
            kind => Record::Unknown { kind, bytes: payload.len() },
        });
        self.at += size as u64;
        Ok(size)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Cuts bare reports of one size: what xe's stream gives, or a dump of the OA buffer.
#[derive(Debug)]
pub struct Bare {
    size: usize,
    pending: Vec<u8>,
}

impl Bare {
    /// For reports of `size` bytes (at least 1).
    pub fn new(size: usize) -> Bare {
        Bare { size: size.max(1), pending: Vec::new() }
    }

    /// Takes the next bytes and hands every whole report to `out`.
    pub fn feed(&mut self, mut bytes: &[u8], out: &mut dyn FnMut(&[u8])) {
        if !self.pending.is_empty() {
            let (head, rest) = bytes.split_at((self.size - self.pending.len()).min(bytes.len()));
            self.pending.extend_from_slice(head);
            bytes = rest;
            if self.pending.len() < self.size {
                return;
            }
            out(&self.pending);
            self.pending.clear();
        }
        let whole = bytes.chunks_exact(self.size);
        self.pending.extend_from_slice(whole.remainder());
        whole.for_each(out);
    }

    /// Bytes of a report that has begun but not ended.
    pub fn unfinished(&self) -> usize {
        self.pending.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::record;
    use proptest::prelude::*;

    fn parse(chunks: &[&[u8]]) -> (Vec<String>, Option<StreamError>, usize) {
        let mut records = Records::new();
        let mut got = Vec::new();
        let mut error = None;
        for chunk in chunks {
            error = records.feed(chunk, &mut |r| got.push(format!("{r:?}"))).err().or(error);
        }
        (got, error, records.unfinished())
    }

    fn info(format: u32) -> Vec<u8> {
        let mut bytes = vec![0; 336];
        bytes[..8].copy_from_slice(&12_000_000u64.to_le_bytes());
        bytes[8..12].copy_from_slice(&0x5916u32.to_le_bytes());
        bytes[20..24].copy_from_slice(&1_050_000_000u32.to_le_bytes());
        bytes[32..36].copy_from_slice(&format.to_le_bytes());
        bytes[36..48].copy_from_slice(b"ComputeBasic");
        bytes[292..296].copy_from_slice(b"1299");
        bytes
    }

    /// A recording as igt writes it: odd topology with its stray padding included.
    fn recording() -> Vec<u8> {
        let mut stream = record(1 << 16, &[1, 0, 0, 0, 0, 0, 0, 0]);
        stream.extend(record((1 << 16) + 1, &info(10)));
        stream.extend(record((1 << 16) + 2, &[3; 29]));
        stream.extend([0; 5]);
        stream.extend(record((1 << 16) + 3, &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0]));
        stream.extend(record(1, &[9; 256]));
        stream.extend(record(2, &[]));
        stream.extend(record(3, &[]));
        stream.extend(record(4, &[0; 8]));
        stream.extend(record(1, &[8; 256]));
        stream
    }

    #[test]
    fn recordings_are_read_in_any_pieces() {
        let stream = recording();
        let (whole, error, left) = parse(&[&stream]);
        assert_eq!((error, left, whole.len()), (None, 0, 9));
        assert_eq!(whole[0], "Version(1)");
        assert_eq!(whole[3], "Correlation(Correlation { cpu_ns: 1, gpu_ticks: 4294967298 })");
        assert_eq!(whole[5..8], ["ReportsLost", "BufferLost", "Unknown { kind: 4, bytes: 8 }"]);
        for size in 1..40 {
            let chunks: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(parse(&chunks), (whole.clone(), None, 0), "pieces of {size}");
        }
        // Cut anywhere, what came before the cut is there.
        for cut in 0..stream.len() {
            let (got, error, _) = parse(&[&stream[..cut]]);
            assert_eq!(error, None);
            assert_eq!(got, whole[..got.len()]);
        }
    }

    #[test]
    fn xe_recordings_have_types_of_their_own() {
        let mut stream = record(4, &[1, 0, 0, 0, 0, 0, 0, 0]);
        stream.extend(record(5, &info(1)));
        stream.extend(record(6, &[1; 16]));
        stream.extend(record(7, &[0; 16]));
        let (got, error, _) = parse(&[&stream]);
        assert_eq!(error, None);
        assert!(
            got[1].starts_with("DeviceInfo")
                && got[2].starts_with("Topology")
                && got[3].starts_with("Correlation"),
            "{got:?}"
        );
    }

    #[test]
    fn device_info_is_read() {
        let got = DeviceInfo::parse(&info(10)).unwrap();
        assert_eq!(
            (got.timestamp_hz, got.device_id, got.max_hz, got.oa_format),
            (12_000_000, 0x5916, 1_050_000_000, 10)
        );
        assert_eq!((got.set.as_str(), got.uuid.as_str()), ("ComputeBasic", "1299"));
        assert_eq!(DeviceInfo::parse(&[0; 335]), None);
    }

    #[test]
    fn nonsense_ends_the_stream() {
        let mut stream = record(1, &[1; 16]);
        stream.extend([7, 0, 0, 0, 0, 0, 3, 0, 1, 2]);
        let want = StreamError::BadSize { at: 24, kind: 7, size: 3 };
        let (got, error, _) = parse(&[&stream, &record(2, &[])]);
        assert_eq!((got.len(), error), (1, Some(want)));
        let (_, error, _) = parse(&[&record(1 << 16, &[2, 0, 0, 0, 0, 0, 0, 0])]);
        assert_eq!(error, Some(StreamError::Version { version: 2 }));
    }

    proptest! {
        /// The pieces a stream arrives in never matter, whatever it holds.
        #[test]
        fn pieces_never_matter(stream in prop::collection::vec(prop_oneof![Just(0u8), Just(16), any::<u8>()], 0..300),
                               cuts in prop::collection::vec(0usize..300, 0..8)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(stream.len())).collect();
            cuts.push(0);
            cuts.push(stream.len());
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|w| &stream[w[0]..w[1]]).collect();
            let (whole, pieces) = (parse(&[&stream]), parse(&chunks));
            prop_assert_eq!(whole.0, pieces.0);
            prop_assert_eq!(whole.1, pieces.1);
        }

        /// The same for bare reports; nothing is lost and nothing invented.
        #[test]
        fn bare_reports_come_whole(stream in prop::collection::vec(any::<u8>(), 0..400), size in 1usize..70, piece in 1usize..90) {
            let mut bare = Bare::new(size);
            let mut got = Vec::new();
            for chunk in stream.chunks(piece) {
                bare.feed(chunk, &mut |r| got.push(r.to_vec()));
            }
            let want: Vec<Vec<u8>> = stream.chunks_exact(size).map(<[u8]>::to_vec).collect();
            prop_assert_eq!(got, want);
            prop_assert_eq!(bare.unfinished(), stream.len() % size);
        }
    }
}
