//! Reports of queries: what Intel's OpenCL runtime answers for one command of a queue with
//! performance counters. Owns their layout; refuses reports of other lengths: they are bytes.
//!
//! The layout is that of the runtime's metrics library (intel/metrics-library,
//! `ml_hw_counters_layouts.h`, its API report), packed, little-endian: u64 time in ns, u64 GPU
//! ticks, the A counters (36 up to Gen12, 38 from XeHP on), 16 of B and C, u64 timestamp of the
//! beginning, then the quality of the report. Decoded as specified: not run on a device.
#![forbid(unsafe_code)]

/// Bytes of a report beside its A counters.
const REST: usize = 384;
const B_AND_C: usize = 16;

/// What a query counted of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryReport {
    /// Length of the command, nanoseconds.
    pub ns: u64,
    /// Ticks of the GPU's core clock.
    pub ticks: u64,
    /// The A counters.
    pub a: Vec<u64>,
    /// B0 to B7, then C0 to C7.
    pub b_and_c: [u64; B_AND_C],
    /// OA timestamp of its beginning.
    pub begin: u64,
    /// Counters overran, or the command buffer was split: the counts are not the command's alone.
    pub doubtful: bool,
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

impl QueryReport {
    /// Decodes; `None` for lengths that no known layout has.
    pub fn decode(bytes: &[u8]) -> Option<QueryReport> {
        let a = match bytes.len().checked_sub(REST)? {
            288 => 36,
            304 => 38,
            _ => return None,
        };
        let words = |from: usize, count: usize| {
            (0..count).map(|i| word(bytes, from + 8 * i)).collect::<Option<Vec<u64>>>()
        };
        let noa = 16 + 8 * a;
        let rest = noa + 8 * B_AND_C;
        let (overran, split) = (half(bytes, rest + 28)?, half(bytes, rest + 80)?);
        Some(QueryReport {
            ns: word(bytes, 0)?,
            ticks: word(bytes, 8)?,
            a: words(16, a)?,
            b_and_c: words(noa, B_AND_C)?.try_into().ok()?,
            begin: word(bytes, rest)?,
            doubtful: overran != 0 || split != 0,
        })
    }

    /// Names of [`QueryReport::counts`] for so many A counters.
    pub fn names(a: usize) -> Vec<String> {
        let named = |letter: char, count: usize| (0..count).map(move |i| format!("{letter}{i}"));
        ["GpuTime".to_owned(), "GpuCoreClocks".to_owned()]
            .into_iter()
            .chain(named('A', a))
            .chain(named('B', 8))
            .chain(named('C', 8))
            .collect()
    }

    /// Time, ticks, then all counters.
    pub fn counts(&self) -> Vec<u64> {
        [self.ns, self.ticks].iter().chain(&self.a).chain(&self.b_and_c).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_lengths_are_read_and_others_are_bytes() {
        for a in [36usize, 38] {
            let length = REST + 8 * a;
            let mut bytes = vec![0u8; length];
            // Each word holds its own number.
            for (i, word) in bytes.chunks_exact_mut(8).enumerate().take(2 + a + B_AND_C + 1) {
                word.copy_from_slice(&(i as u64).to_le_bytes());
            }
            let report = QueryReport::decode(&bytes).unwrap();
            let counts: Vec<u64> = (0..(2 + a + B_AND_C) as u64).collect();
            assert_eq!(
                (report.counts(), report.begin, report.doubtful),
                (counts, (2 + a + B_AND_C) as u64, false)
            );
            assert_eq!(QueryReport::names(a).len(), report.counts().len());
            // Overrun stands behind the beginning, two reserved words and the events; split behind
            // markers, clocks and two counters.
            for at in [16 + 8 * (a + B_AND_C) + 28, 16 + 8 * (a + B_AND_C) + 80] {
                let mut doubtful = bytes.clone();
                doubtful[at] = 1;
                assert!(QueryReport::decode(&doubtful).unwrap().doubtful, "{at}");
            }
            assert_eq!(QueryReport::decode(&bytes[..length - 1]), None);
        }
        assert_eq!(QueryReport::decode(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in prop::collection::vec(any::<u8>(), 0..800)) {
            if let Some(report) = QueryReport::decode(&bytes) {
                prop_assert_eq!(report.counts().len() * 8 + REST - 8 * (2 + B_AND_C), bytes.len());
            }
        }
    }
}
