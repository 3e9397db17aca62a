//! Follows the sampler's readings: energy and power of each series, as of now. Refuses to attribute
//! them.

use crate::blocks::Tail;
use clscope_io::input;
use clscope_profile::energy::standstills::rests_without_power;
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
    /// Watts: the mean since the last look that saw an older reading, or the newest reading; `None`
    /// of energy that did not move, unless that is what its part of the machine does at rest.
    pub fn watts(&self) -> Option<f64> {
        let last = self.last?;
        match self.series.quantity {
            Quantity::Power => Some(last.1 as f64 * 1e-6),
            _ => {
                let before = self.before?;
                let ns = last.0.checked_sub(before.0).filter(|ns| *ns > 0)?;
                let rose = last.1.saturating_sub(before.1);
                let is_known = rose > 0 || rests_without_power(&self.series.plane);
                is_known.then(|| rose as f64 * 1e3 / ns as f64)
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
    fn power_of_a_counter_that_stands_still_is_not_known() {
        let watts = |plane: &str, last| {
            let series =
                Series { quantity: Quantity::Energy, plane: plane.into(), ..Series::default() };
            let first = Some((0, 5_000_000));
            let before = Some((1_000_000_000, 5_000_000));
            Meter { series, first, before, last: Some((2_000_000_000, last)) }.watts()
        };
        assert_eq!((watts("PKG", 5_000_000), watts("PKG", 9_000_000)), (None, Some(4.0)));
        assert_eq!(watts("PP1", 5_000_000), Some(0.0));
    }
}
