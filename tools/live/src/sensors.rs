//! Follows the sampler's readings: energy and power of each series, as of now. Refuses to attribute
//! them.

use crate::blocks::Tail;
use clscope_io::input;
use clscope_trace::file::HEADER_LEN;
use clscope_trace::sensors::{Quantity, Record, Records, Series};
use clscope_trace::{FileHeader, FileKind};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A series of energy or power.
#[derive(Debug, Clone)]
pub struct Meter {
    pub series: Series,
    /// Time (ns of CLOCK_MONOTONIC_RAW) and value (uJ or uW) of the first reading, of the newest at
    /// the last look, and of the newest.
    first: Option<(u64, u64)>,
    before: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
}

impl Meter {
    /// Joules since the first reading, of a series of energy; `None` where it never moved: machines
    /// have counters that count nothing.
    pub fn joules(&self) -> Option<f64> {
        let energy = self.series.quantity == Quantity::Energy;
        let (first, last) = (self.first?, self.last?);
        let joules = last.1.saturating_sub(first.1) as f64 * 1e-6;
        (energy && last.0 > first.0 && joules > 0.0).then_some(joules)
    }

    /// Watts: the mean since the last look that saw an older reading, or the newest reading; `None`
    /// of energy that never moved.
    pub fn watts(&self) -> Option<f64> {
        let last = self.last?;
        match self.series.quantity {
            Quantity::Power => Some(last.1 as f64 * 1e-6),
            _ => {
                self.joules()?;
                let before = self.before?;
                let ns = last.0.checked_sub(before.0).filter(|ns| *ns > 0)?;
                Some(last.1.saturating_sub(before.1) as f64 * 1e3 / ns as f64)
            }
        }
    }
}

/// One file of readings, followed.
#[derive(Debug, Default)]
pub struct Sensors {
    tail: Tail,
    created: Option<u64>,
    pub meters: BTreeMap<u32, Meter>,
}

impl Sensors {
    /// Reads what is new.
    pub fn poll(&mut self, path: &Path) -> io::Result<u64> {
        let created = match self.created {
            Some(created) => created,
            None => {
                let mut head = [0; HEADER_LEN];
                input::open_inside(path)?.read_exact_at(&mut head, 0)?;
                let header =
                    FileHeader::decode_as(&head, FileKind::Sensors).map_err(io::Error::other)?;
                *self.created.insert(header.created)
            }
        };
        let meters = &mut self.meters;
        let seen: Vec<_> = meters.iter().map(|(id, meter)| (*id, meter.last)).collect();
        let bytes = self.tail.follow(path, false, &mut |_, payload| {
            for record in Records::of_block(payload) {
                match record {
                    Record::Series(series)
                        if matches!(series.quantity, Quantity::Energy | Quantity::Power) =>
                    {
                        let none = Meter { series, first: None, before: None, last: None };
                        meters.entry(none.series.id).or_insert(none);
                    }
                    Record::Readings(readings) => {
                        let Some(meter) = meters.get_mut(&readings.series) else { continue };
                        // What a driver's ring holds from before is another program's doing.
                        for reading in readings.iter().filter(|r| r.time >= created) {
                            let point = (reading.time, reading.value);
                            meter.first.get_or_insert(point);
                            if meter.last.is_none_or(|last| last.0 <= point.0) {
                                meter.last = Some(point);
                            }
                        }
                    }
                    _ => {}
                }
            }
        })?;
        for (id, before) in seen {
            if let Some(meter) = meters.get_mut(&id).filter(|m| m.last != before) {
                meter.before = before.or(meter.first);
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_never_moved_is_not_known() {
        let series = Series { quantity: Quantity::Energy, ..Series::default() };
        let meter = |last| Meter {
            series: series.clone(),
            first: Some((0, 5_000_000)),
            before: Some((1_000_000_000, 5_000_000)),
            last: Some((2_000_000_000, last)),
        };
        assert_eq!((meter(5_000_000).joules(), meter(5_000_000).watts()), (None, None));
        assert_eq!((meter(9_000_000).joules(), meter(9_000_000).watts()), (Some(4.0), Some(4.0)));
    }
}
