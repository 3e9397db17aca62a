//! Owns when a device was busy, for a screen: spans of commands in the device's clock, put beside
//! the host's by the closest of what the host saw (the least of completion seen minus END, which is
//! off by as long as the quickest notice took). Figures of seconds need no more; the report aligns
//! clocks properly. Refuses to keep spans.

use std::collections::VecDeque;

/// Width of a cell of time, in nanoseconds.
const CELL: i64 = 50_000_000;
/// Cells that are kept: two minutes.
const CELLS: usize = 2400;

/// Busy time of one device in the last minutes.
#[derive(Debug, Default)]
pub struct Busy {
    /// Host minus device, nanoseconds.
    offset: Option<i64>,
    /// Spans since the last settling: START and END in the device's clock.
    new: Vec<(u64, u64)>,
    /// Device time up to which spans were counted.
    covered: u64,
    /// Busy nanoseconds per cell of host time, from the cell `first` on.
    cells: VecDeque<i64>,
    first: i64,
    /// Busy nanoseconds in all.
    pub total_ns: u64,
}

impl Busy {
    /// Adds a command: START and END, and when the host saw it complete, in host nanoseconds.
    pub fn add(&mut self, start: u64, end: u64, seen: i64) {
        let offset = seen.saturating_sub(end as i64);
        self.offset = Some(self.offset.map_or(offset, |o| o.min(offset)));
        self.new.push((start, end));
    }

    /// Counts what was added, spans that overlap once. One that ran beside commands counted earlier
    /// counts from where those ended.
    pub fn settle(&mut self) {
        self.new.sort_unstable();
        let offset = self.offset.unwrap_or(0);
        for (start, end) in std::mem::take(&mut self.new) {
            let start = start.max(self.covered);
            if end > start {
                self.covered = end;
                self.total_ns += end - start;
                self.put(
                    (start as i64).saturating_add(offset),
                    (end as i64).saturating_add(offset),
                );
            }
        }
    }

    fn put(&mut self, begin: i64, end: i64) {
        // What is older than the cells kept shows nowhere.
        let mut begin = begin.max(end.saturating_sub(CELLS as i64 * CELL));
        while begin < end {
            let cell = begin.div_euclid(CELL);
            let until = end.min((cell + 1).saturating_mul(CELL));
            if self.cells.is_empty() {
                self.first = cell;
            }
            if cell >= self.first {
                // After a long pause all cells are of the past.
                if cell - self.first >= 2 * CELLS as i64 {
                    self.cells.clear();
                    self.first = cell;
                }
                while self.first + (self.cells.len() as i64) <= cell {
                    self.cells.push_back(0);
                    if self.cells.len() > CELLS {
                        self.cells.pop_front();
                        self.first += 1;
                    }
                }
                self.cells[(cell - self.first) as usize] += until - begin;
            }
            begin = until;
        }
    }

    /// Host time up to which busy time is known, if any is.
    pub fn until(&self) -> Option<i64> {
        Some((self.covered as i64).saturating_add(self.offset?))
    }

    /// Share of a time in which the device was busy, to the width of a cell.
    pub fn share(&self, begin: i64, end: i64) -> f64 {
        let (from, to) =
            (begin.div_euclid(CELL), end.div_euclid(CELL).max(begin.div_euclid(CELL) + 1));
        let busy: i64 = (from..to)
            .filter_map(|cell| usize::try_from(cell - self.first).ok())
            .filter_map(|index| self.cells.get(index))
            .sum();
        (busy as f64 / ((to - from) * CELL) as f64).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlaps_count_once_and_shares_are_of_the_time_asked_for() {
        let mut busy = Busy::default();
        let second = 1_000_000_000u64;
        // The device's clock is 5 s behind; notice takes 0.1 s, then none.
        busy.add(10 * second, 11 * second, 16_100_000_000);
        busy.add(10 * second + second / 2, 12 * second, 17_000_000_000);
        busy.settle();
        assert_eq!(busy.total_ns, 2 * second);
        assert_eq!(busy.until(), Some(17_000_000_000));
        assert_eq!(busy.share(15_000_000_000, 17_000_000_000), 1.0);
        assert_eq!(busy.share(14_000_000_000, 18_000_000_000), 0.5);
        assert_eq!(busy.share(17_000_000_000, 18_000_000_000), 0.0);
        // A command that was counted already, and one that sticks out.
        busy.add(11 * second, 12 * second + second / 4, 17_250_000_000);
        busy.settle();
        assert_eq!(busy.total_ns, 2 * second + second / 4);
        // Hours later nothing old is left, and nothing overflows.
        busy.add(100_000 * second, 100_001 * second, 100_006_000_000_000);
        busy.add(1, u64::MAX >> 2, i64::MAX);
        busy.settle();
        assert_eq!(busy.share(15_000_000_000, 17_000_000_000), 0.0);
    }
}
