//! Owns the times and ids of the timeline, so that clocks cannot be mixed. Refuses to convert: that
//! takes anchors ([`crate::clock`]) or an alignment ([`crate::align`]).

use std::fmt;

/// Ticks of the host clock of one process, as its records hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub u64);

/// Nanoseconds on the common timeline: CLOCK_MONOTONIC_RAW of the reference host (see
/// [`crate::clock`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HostNs(pub i64);

impl HostNs {
    /// Nanoseconds from `earlier` to `self`, 0 where `earlier` is later.
    pub fn since(self, earlier: Self) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Seconds from `origin` to `self`. Differences are taken before the conversion, so that an
    /// epoch of 1970 costs no precision.
    pub fn seconds_since(self, origin: Self) -> f64 {
        // Of two times of a damaged trace, too, which may lie further apart than an `i64` counts.
        (i128::from(self.0) - i128::from(origin.0)) as f64 * 1e-9
    }
}

/// Nanoseconds of a device's own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DeviceNs(pub u64);

/// Index of a process within the traces opened together, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProcessIndex(pub u32);

/// Index of a thread within its process, as the recorder counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadIndex(pub u32);

/// A command within its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CommandId(pub u64);

/// A stretch of host time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    /// First moment.
    pub begin: HostNs,
    /// Last moment.
    pub end: HostNs,
}

impl Span {
    /// Its length in nanoseconds.
    pub fn duration(&self) -> u64 {
        self.end.since(self.begin)
    }

    /// The smallest one that holds both.
    pub fn hull(self, other: Self) -> Self {
        Self { begin: self.begin.min(other.begin), end: self.end.max(other.end) }
    }

    /// Nanoseconds of it that lie in spans, which are in order and do not touch.
    pub fn within(self, spans: &[Self]) -> u64 {
        let first = spans.partition_point(|s| s.end <= self.begin);
        let of = spans[first..].iter().take_while(|s| s.begin < self.end);
        of.map(|s| s.end.min(self.end).since(s.begin.max(self.begin))).sum()
    }

    /// What of it lies in none of some spans, which are in order and do not touch.
    pub fn without(self, spans: &[Self]) -> Vec<Self> {
        let ends = spans.iter().map(|span| span.begin).chain([self.end]);
        let begins = std::iter::once(self.begin).chain(spans.iter().map(|span| span.end));
        let of = begins
            .zip(ends)
            .map(|(begin, end)| Self { begin: begin.max(self.begin), end: end.min(self.end) });
        of.filter(|span| span.begin < span.end).collect()
    }

    /// The union of some, in order: none touches the next.
    pub fn join(mut spans: Vec<Self>) -> Vec<Self> {
        spans.sort_unstable_by_key(|s| s.begin);
        let mut out: Vec<Self> = Vec::with_capacity(spans.len());
        for span in spans {
            match out.last_mut() {
                Some(last) if span.begin <= last.end => last.end = last.end.max(span.end),
                _ => out.push(span),
            }
        }
        out
    }
}

impl fmt::Display for ProcessIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_further_apart_than_292_years_keep_their_order() {
        let (first, last) = (HostNs(i64::MIN), HostNs(i64::MAX));
        assert!((last.seconds_since(first) - 2f64.powi(64) * 1e-9).abs() < 1.0);
        assert!(first.seconds_since(last) < 0.0);
        assert_eq!(HostNs(1_500_000_000).seconds_since(HostNs(500_000_000)), 1.0);
    }
}
