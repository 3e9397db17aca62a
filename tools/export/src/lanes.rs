//! Owns the choice of a lane for a span, so that spans drawn on one lane never overlap: viewers
//! take overlap for nesting. Bounded in memory: a lane remembers only its newest spans, and takes
//! nothing older than those.

use clscope_analysis::time::{HostNs, Span};
use std::collections::VecDeque;

/// Spans a lane remembers. Completion is seen out of order by a few commands, not by hundreds.
const REMEMBERED: usize = 256;

/// The lanes of one queue.
#[derive(Debug, Default)]
pub struct Lanes {
    lanes: Vec<Lane>,
}

#[derive(Debug)]
struct Lane {
    /// Disjoint, by time.
    spans: VecDeque<Span>,
    /// The end of the newest span that was forgotten: nothing may begin before it.
    floor: HostNs,
}

impl Lanes {
    /// Number of the first lane that is free over the span, counted from 0; lanes are added as
    /// needed.
    pub fn place(&mut self, span: Span) -> usize {
        if let Some(free) = self.lanes.iter_mut().position(|lane| lane.take(span)) {
            return free;
        }
        self.lanes.push(Lane { spans: VecDeque::from([span]), floor: HostNs(i64::MIN) });
        self.lanes.len() - 1
    }
}

impl Lane {
    fn take(&mut self, span: Span) -> bool {
        if span.begin < self.floor {
            return false;
        }
        // Most spans come after all others.
        let at = if self.spans.back().is_none_or(|last| last.end <= span.begin) {
            self.spans.len()
        } else {
            self.spans.partition_point(|s| (s.begin, s.end) < (span.begin, span.end))
        };
        let clear = |other: Option<&Span>, before: bool| {
            other.is_none_or(|o| if before { o.end <= span.begin } else { span.end <= o.begin })
        };
        if !clear(at.checked_sub(1).and_then(|i| self.spans.get(i)), true)
            || !clear(self.spans.get(at), false)
        {
            return false;
        }
        self.spans.insert(at, span);
        if self.spans.len() > REMEMBERED
            && let Some(old) = self.spans.pop_front()
        {
            self.floor = self.floor.max(old.end);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(spans: &[(i64, i64)]) -> Vec<usize> {
        let mut lanes = Lanes::default();
        spans
            .iter()
            .map(|(begin, end)| lanes.place(Span { begin: HostNs(*begin), end: HostNs(*end) }))
            .collect()
    }

    #[test]
    fn spans_in_order_share_a_lane_and_overlaps_do_not() {
        assert_eq!(place(&[(0, 10), (10, 20), (20, 20), (20, 30)]), [0, 0, 0, 0]);
        assert_eq!(place(&[(0, 10), (5, 15), (10, 20), (15, 25)]), [0, 1, 0, 1]);
        assert_eq!(place(&[(0, 100), (10, 20), (20, 30), (100, 110)]), [0, 1, 1, 0]);
        // Seen late, it fits in a gap.
        assert_eq!(place(&[(0, 10), (20, 30), (12, 18), (12, 13)]), [0, 0, 0, 1]);
        assert_eq!(place(&[(10, 20), (0, 11), (0, 10)]), [0, 1, 0]);
    }

    /// Whatever comes, in whatever order and however much, no two spans of a lane overlap.
    #[test]
    fn no_two_spans_of_a_lane_overlap() {
        let mut random = clscope_testing::Random::new(88_172);
        let mut random = |below: u64| random.below(below);
        let mut lanes = Lanes::default();
        let mut placed: Vec<Vec<(i64, i64)>> = Vec::new();
        for i in 0..3000i64 {
            let begin = i * 10 + random(4000) as i64 - 2000;
            let span = (begin, begin + random(60) as i64);
            let lane = lanes.place(Span { begin: HostNs(span.0), end: HostNs(span.1) });
            placed.resize_with(placed.len().max(lane + 1), Vec::new);
            placed[lane].push(span);
        }
        for lane in &mut placed {
            lane.sort_unstable();
            assert!(lane.windows(2).all(|w| w[0].1 <= w[1].0));
        }
        assert!(lanes.lanes.iter().all(|lane| lane.spans.len() <= REMEMBERED));
    }
}
