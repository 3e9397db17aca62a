//! Counts of spans (kernels) out of counts of windows (sampling intervals). Owns the linear
//! interpolation of the two windows a span cuts, and the verdict whether the span is long enough
//! for it; refuses to fit: kernels shorter than about ten windows are marked, and are the
//! regression's business.
//!
//! Times are of any one clock: host nanoseconds, or ticks of the device where both sides have them.
#![forbid(unsafe_code)]

/// Spans of fewer windows than this are not resolved: at ten, the two cut windows are a fifth of
/// the whole.
pub const WINDOWS_NEEDED: f64 = 10.0;

/// Windows of counters, in time order.
#[derive(Clone, Debug)]
pub struct Series {
    width: usize,
    windows: Vec<(u64, u64)>,
    /// Totals before each window, and after the last: `width` values each.
    totals: Vec<u64>,
}

/// A window that cannot be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum BadWindow {
    /// It begins before the one before it ends, or ends before it begins.
    #[error("the window from {begin} to {end} does not follow the one before it")]
    Order { begin: u64, end: u64 },
    /// It has not as many values as the others.
    #[error("the window has {found} values, the series {expected}")]
    Width { found: usize, expected: usize },
}

impl Series {
    /// For windows of `width` counters.
    pub fn new(width: usize) -> Series {
        Series { width, windows: Vec::new(), totals: vec![0; width] }
    }

    /// How many windows there are.
    pub fn len(&self) -> usize {
        self.windows.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Appends a window. Gaps between windows are allowed: spans over them are not fully covered.
    ///
    /// # Errors
    /// [`BadWindow`]; the series is as before then.
    pub fn push(&mut self, begin: u64, end: u64, counts: &[u64]) -> Result<(), BadWindow> {
        if end <= begin || self.windows.last().is_some_and(|(_, last)| begin < *last) {
            return Err(BadWindow::Order { begin, end });
        }
        if counts.len() != self.width {
            return Err(BadWindow::Width { found: counts.len(), expected: self.width });
        }
        let from = self.totals.len() - self.width;
        for (i, count) in counts.iter().enumerate() {
            let before = self.totals.get(from + i).copied().unwrap_or(0);
            self.totals.push(before.wrapping_add(*count));
        }
        self.windows.push((begin, end));
        Ok(())
    }

    /// What was counted from the first window to `at`: whole counts, so that pieces add up exactly.
    fn until(&self, at: u64, counter: usize) -> u64 {
        let i = self.windows.partition_point(|(_, end)| *end <= at);
        let value =
            |window: usize| self.totals.get(window * self.width + counter).copied().unwrap_or(0);
        match self.windows.get(i) {
            Some((begin, end)) if at > *begin => {
                let delta = u128::from(value(i + 1).wrapping_sub(value(i)));
                let part = delta * u128::from(at - begin) / u128::from(end - begin);
                value(i).wrapping_add(u64::try_from(part).unwrap_or(u64::MAX))
            }
            _ => value(i),
        }
    }

    /// Counts between two times, interpolated linearly in the windows that are cut.
    pub fn between(&self, from: u64, to: u64) -> Vec<u64> {
        (0..self.width)
            .map(|c| self.until(to.max(from), c).wrapping_sub(self.until(from, c)))
            .collect()
    }

    /// Ticks of `from..to` that windows cover.
    fn covered(&self, from: u64, to: u64) -> u64 {
        self.touching(from, to)
            .map(|i| self.windows[i])
            .map(|(b, e)| e.min(to).saturating_sub(b.max(from)))
            .sum()
    }

    /// Windows that share time with `from..to`.
    fn touching(&self, from: u64, to: u64) -> std::ops::Range<usize> {
        let first = self.windows.partition_point(|(_, end)| *end <= from);
        let last = self.windows.partition_point(|(begin, _)| *begin < to);
        first..last.max(first)
    }

    /// The counts of the windows that a span's edges cut: by so much may each of its counts err.
    fn edge_bounds(&self, from: u64, to: u64) -> Vec<u64> {
        let touching = self.touching(from, to);
        let is_cut = |i: &usize| self.windows.get(*i).is_some_and(|(b, e)| *b < from || *e > to);
        let mut edges: Vec<usize> = [touching.start, touching.end.saturating_sub(1)]
            .into_iter()
            .filter(|i| touching.contains(i))
            .filter(is_cut)
            .collect();
        edges.dedup();
        let value = |window: usize, counter: usize| {
            self.totals.get(window * self.width + counter).copied().unwrap_or(0)
        };
        (0..self.width)
            .map(|c| edges.iter().map(|i| value(i + 1, c).wrapping_sub(value(*i, c))).sum())
            .collect()
    }
}

/// How far a span's counts can be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolution {
    /// Long enough, and covered throughout.
    Resolved,
    /// So few windows that the cut edges decide: not resolvable without repetition or regression.
    TooShort {
        /// Windows it spans.
        windows: f64,
    },
    /// Windows are missing (lost reports, measuring began or ended inside).
    Partly {
        /// Share of its time that is covered, below 1.
        covered: f64,
    },
    /// No window at all.
    NotCovered,
}

/// A span's counts.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanCounts {
    /// Interpolated counts, whatever the resolution: read [`SpanCounts::resolved`] unless you fit.
    pub counts: Vec<u64>,
    /// By how much each may err for the interpolation of the edges.
    pub edge_bounds: Vec<u64>,
    /// How far they can be trusted.
    pub resolution: Resolution,
    /// Other spans ran at the same time: the counts are of all of them together.
    pub is_shared: bool,
}

impl SpanCounts {
    /// The counts, where they are this span's own.
    pub fn resolved(&self) -> Option<&[u64]> {
        (self.resolution == Resolution::Resolved && !self.is_shared).then_some(&self.counts[..])
    }
}

/// Counts of each span (begin, end), in the order given. An empty or inverted span is
/// [`Resolution::TooShort`].
pub fn attribute(series: &Series, spans: &[(u64, u64)]) -> Vec<SpanCounts> {
    let shared = overlapping(spans);
    let one = |(i, (from, to)): (usize, &(u64, u64))| {
        let (from, to) = (*from, (*to).max(*from));
        let length = to - from;
        let windows = series.touching(from, to);
        let covered = series.covered(from, to);
        // Windows are of one length but for switches and losses: the mean of those touched.
        let touched = windows.len();
        let time: u64 =
            series.windows.get(windows).unwrap_or_default().iter().map(|(b, e)| e - b).sum();
        let spanned = if time == 0 { 0.0 } else { length as f64 * touched as f64 / time as f64 };
        let resolution = match () {
            () if touched == 0 => Resolution::NotCovered,
            () if covered < length => {
                Resolution::Partly { covered: covered as f64 / length as f64 }
            }
            () if spanned < WINDOWS_NEEDED => Resolution::TooShort { windows: spanned },
            () => Resolution::Resolved,
        };
        SpanCounts {
            counts: series.between(from, to),
            edge_bounds: series.edge_bounds(from, to),
            resolution,
            is_shared: shared.get(i).copied().unwrap_or(false),
        }
    };
    spans.iter().enumerate().map(one).collect()
}

/// Which spans share time with another.
pub fn overlapping(spans: &[(u64, u64)]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|i| spans[*i]);
    let mut shared = vec![false; spans.len()];
    // The span among those before that ends last, in start order.
    let mut reach: Option<usize> = None;
    for i in order {
        let (begin, end) = spans[i];
        if end <= begin {
            continue;
        }
        if let Some(r) = reach.filter(|r| spans[*r].1 > begin) {
            shared[i] = true;
            shared[r] = true;
        }
        if reach.is_none_or(|r| end > spans[r].1) {
            reach = Some(i);
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(windows: &[(u64, u64, u64)]) -> Series {
        let mut series = Series::new(1);
        for (begin, end, count) in windows {
            series.push(*begin, *end, &[*count]).unwrap();
        }
        series
    }

    #[test]
    fn edges_are_interpolated() {
        let windows: Vec<(u64, u64, u64)> =
            (0..20).map(|i| (i * 100, (i + 1) * 100, if i == 0 { 40 } else { 100 })).collect();
        let got = attribute(
            &series(&windows),
            &[(50, 1550), (0, 2000), (200, 300), (1950, 2100), (3000, 3100), (100, 100)],
        );
        // Half of the first window's 40, fourteen whole ones, half of the last.
        assert_eq!(
            (&got[0].counts[..], &got[0].edge_bounds[..]),
            (&[20 + 1400 + 50][..], &[140][..])
        );
        assert_eq!(got[0].resolution, Resolution::Resolved);
        assert_eq!((&got[1].counts[..], &got[1].edge_bounds[..]), (&[1940][..], &[0][..]));
        assert_eq!(got[2].resolution, Resolution::TooShort { windows: 1.0 });
        assert_eq!(got[3].resolution, Resolution::Partly { covered: 1.0 / 3.0 });
        assert_eq!(got[4].resolution, Resolution::NotCovered);
        assert_eq!((got[5].resolution, got[5].resolved()), (Resolution::NotCovered, None));
        // All but the fifth and the empty one lie inside the second.
        assert_eq!(
            got.iter().map(|s| s.is_shared).collect::<Vec<_>>(),
            [true, true, true, true, false, false]
        );
        let alone = attribute(&series(&windows), &[(0, 1000), (1000, 2000)]);
        assert_eq!(alone[0].resolved(), Some(&[940][..]));
    }

    #[test]
    fn gaps_cover_nothing() {
        let series = series(&[(0, 100, 100), (200, 300, 100)]);
        let got = attribute(&series, &[(50, 250)]);
        assert_eq!(
            (&got[0].counts[..], got[0].resolution),
            (&[100][..], Resolution::Partly { covered: 0.5 })
        );
    }

    #[test]
    fn windows_come_in_order() {
        let mut series = series(&[(0, 100, 1)]);
        assert_eq!(series.push(99, 200, &[1]), Err(BadWindow::Order { begin: 99, end: 200 }));
        assert_eq!(series.push(100, 100, &[1]), Err(BadWindow::Order { begin: 100, end: 100 }));
        assert_eq!(series.push(100, 200, &[1, 2]), Err(BadWindow::Width { found: 2, expected: 1 }));
        assert_eq!((series.len(), series.is_empty()), (1, false));
    }

    proptest! {
        /// However a stretch of time is cut into pieces, their counts add up to the whole.
        #[test]
        fn pieces_add_up(
            windows in prop::collection::vec((0u64..3, 1u64..1000, 0u64..1 << 50), 1..40),
            mut cuts in prop::collection::vec(0u64..60_000, 2..20),
        ) {
            let mut series = Series::new(1);
            let (mut at, mut total) = (5, 0u64);
            for (gap, length, count) in windows {
                at += gap;
                series.push(at, at + length, &[count]).unwrap();
                at += length;
                total += count;
            }
            cuts.sort_unstable();
            let whole = series.between(cuts[0], cuts[cuts.len() - 1])[0];
            let pieces: u64 = cuts.windows(2).map(|w| series.between(w[0], w[1])[0]).sum();
            prop_assert_eq!(pieces, whole);
            prop_assert_eq!(series.between(0, u64::MAX)[0], total);
        }

        /// A span's counts differ from those of the windows it touches by no more than the edges'
        /// counts.
        #[test]
        fn bounds_hold(counts in prop::collection::vec(0u64..1000, 1..40), from in 0u64..4000, length in 1u64..4000) {
            let mut series = Series::new(1);
            for (i, count) in counts.iter().enumerate() {
                series.push(i as u64 * 100, (i as u64 + 1) * 100, &[*count]).unwrap();
            }
            let got = &attribute(&series, &[(from, from + length)])[0];
            let touched: u64 = counts.iter().skip((from / 100) as usize).take(((from + length).div_ceil(100) - from / 100) as usize).sum();
            prop_assert!(got.counts[0] <= touched && touched - got.counts[0] <= got.edge_bounds[0], "{:?} {}", got, touched);
        }
    }
}
