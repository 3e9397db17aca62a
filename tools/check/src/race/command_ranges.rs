//! What a thread said of the command that it enqueues next: parts of objects, and memory by
//! addresses. Refuses to say anything of commands of which nothing was told.

use super::part::Range;
use clscope_trace::record::{Detail, detail};

/// Memory that was told by its address.
#[derive(Debug, Clone, Copy)]
pub struct Touched {
    /// Where it begins.
    pub address: u64,
    /// Bytes, 0 for all of an allocation.
    pub bytes: u64,
    /// What is done with it: bits of [`mod@detail`].
    pub how: u64,
    /// Which bytes; a part that is not known where rows make no sense.
    pub range: Range,
}

/// What was told last, to which rows belong.
#[derive(Debug, Clone, Copy, Default)]
enum Last {
    #[default]
    Nothing,
    First,
    Second,
    Memory,
}

/// What is told of one command.
#[derive(Debug, Clone, Default)]
pub struct CommandRanges {
    /// What it uses of its object, or of its source.
    pub first: Option<Range>,
    /// What it uses of its destination.
    pub second: Option<Range>,
    /// What a copy of buffers writes.
    pub copied_to: Option<Range>,
    /// Memory by addresses.
    pub touched: Vec<Touched>,
    last: Last,
}

impl CommandRanges {
    /// One more detail; whether it is one of these.
    pub fn detail(&mut self, of: &Detail) -> bool {
        let [first, second, third] = of.values;
        match of.what {
            detail::RANGE => {
                self.first = Some(Range::new(first, second));
                self.copied_to = Some(Range::new(third, second));
                self.last = Last::First;
            }
            detail::RANGE_TO => {
                self.second = Some(Range::new(first, second));
                self.last = Last::Second;
            }
            detail::BOX => self.first = Some(Range::boxed(of.values)),
            detail::BOX_TO => self.second = Some(Range::boxed(of.values)),
            detail::MEMORY => {
                let range = Range::new(first, second);
                self.touched.push(Touched { address: first, bytes: second, how: third, range });
                self.last = Last::Memory;
            }
            detail::ROWS => {
                let range = match self.last {
                    Last::Nothing => None,
                    Last::First => self.first.as_mut(),
                    Last::Second => self.second.as_mut(),
                    Last::Memory => self.touched.last_mut().map(|touched| &mut touched.range),
                };
                if let Some(range) = range {
                    *range = Range::rows(range.begin, range.end - range.begin, of.values);
                }
            }
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_belong_to_what_was_told_before_them() {
        let mut of = CommandRanges::default();
        let mut tell = |what, values| {
            assert!(of.detail(&Detail { function: 0, what, site: 0, values }));
        };
        let rows = [2 | 1 << 32, 16, 32];
        tell(detail::ROWS, rows);
        tell(detail::RANGE, [4, 8, 0]);
        tell(detail::ROWS, rows);
        tell(detail::MEMORY, [100, 8, 1]);
        tell(detail::RANGE_TO, [40, 8, 0]);
        tell(detail::ROWS, rows);
        assert_eq!(of.first, Some(Range::rows(4, 8, rows)));
        assert_eq!(of.second, Some(Range::rows(40, 8, rows)));
        assert_eq!(of.touched[0].range, Range::new(100, 8));
        assert!(!of.detail(&Detail { function: 0, what: 1, site: 0, values: [0; 3] }));
    }
}
