//! Sensor sources whose readings are means over windows (NVIDIA's GPM) as counter sources. Owns the
//! putting together of the readings of one window; refuses readings that name no window.
#![forbid(unsafe_code)]

use super::accumulate::Continuity;
use super::source::{
    CounterHealth, CounterInfo, CounterKind, CounterSource, CounterValue, CounterWindow,
};
use clscope_sensors::error::SensorError;
use clscope_sensors::source::{Pace, Quantity, Reading, SensorSource, Value};
use clscope_sensors::units::{Clock, RawNs, Stamp};

/// A source of means, seen as counters.
pub struct Means<S> {
    source: S,
    infos: Vec<CounterInfo>,
    /// The place of each domain among the counters.
    slots: Vec<Option<usize>>,
    window_ns: u64,
    windows: u64,
    /// Readings that named no window, or of a quantity that is no counter.
    refused: u64,
}

impl<S: SensorSource> Means<S> {
    /// Over an open source; `window_ns` is the length its windows have.
    pub fn new(source: S, window_ns: u64) -> Means<S> {
        let (mut infos, mut slots) = (Vec::new(), Vec::new());
        for domain in source.domains() {
            let kind = match domain.quantity {
                Quantity::Percent => Some(CounterKind::MeanPercent),
                Quantity::Bandwidth => Some(CounterKind::MeanBandwidth),
                _ => None,
            };
            slots.push(kind.map(|kind| {
                infos.push(CounterInfo {
                    name: domain.name.clone(),
                    kind,
                    note: domain.includes.map(str::to_owned),
                });
                infos.len() - 1
            }));
        }
        Means { source, infos, slots, window_ns, windows: 0, refused: 0 }
    }
}

/// Where a window began that ended at `end` and was `span` long.
fn begin(end: Stamp, span: u64) -> Stamp {
    Stamp {
        before: RawNs(end.before.0.saturating_sub(span)),
        after: RawNs(end.after.0.saturating_sub(span)),
    }
}

impl<S: SensorSource> CounterSource for Means<S> {
    fn name(&self) -> &str {
        self.source.name()
    }

    fn counters(&self) -> &[CounterInfo] {
        &self.infos
    }

    fn window_ns(&self) -> Option<u64> {
        Some(self.window_ns)
    }

    fn pace(&self) -> Pace {
        self.source.pace()
    }

    fn read(
        &mut self,
        clock: &mut dyn Clock,
        out: &mut dyn FnMut(&CounterWindow<'_>),
    ) -> Result<(), SensorError> {
        let mut readings: Vec<Reading> = Vec::new();
        let result = self.source.read(clock, &mut |r| readings.push(r));
        // Readings of one window have one stamp and follow each other.
        for group in
            readings.chunk_by(|a, b| a.stamp == b.stamp && a.mean_over_ns == b.mean_over_ns)
        {
            let mut values = vec![CounterValue::Absent; self.infos.len()];
            let Some((end, span)) = group.first().and_then(|r| Some((r.stamp, r.mean_over_ns?)))
            else {
                self.refused += group.len() as u64;
                continue;
            };
            for reading in group {
                let slot = self
                    .slots
                    .get(reading.domain.0)
                    .copied()
                    .flatten()
                    .and_then(|slot| values.get_mut(slot));
                match (slot, reading.value) {
                    (Some(slot), Value::Percent(x) | Value::MebibytesPerSecond(x)) => {
                        *slot = CounterValue::Mean(x)
                    }
                    _ => self.refused += 1,
                }
            }
            if values.iter().all(|v| *v == CounterValue::Absent) {
                continue;
            }
            self.windows += 1;
            out(&CounterWindow {
                begin: Some(begin(end, span)),
                end: Some(end),
                device_ticks: None,
                values: &values,
                counts: None,
                continuity: Continuity::Whole,
                context: None,
            });
        }
        result
    }

    fn health(&self) -> CounterHealth {
        let health = self.source.health();
        CounterHealth {
            windows: self.windows,
            lost: health.missing,
            refused: self.refused + health.refused,
            ..CounterHealth::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_sensors::source::{Domain, DomainId};

    /// Gives what it was told to, once.
    struct Told(Vec<Domain>, Vec<Reading>);

    impl SensorSource for Told {
        fn name(&self) -> &str {
            "told"
        }
        fn domains(&self) -> &[Domain] {
            &self.0
        }
        fn pace(&self) -> Pace {
            Pace { fastest_ns: 1, slowest_ns: 2, adaptive: false }
        }
        fn read(
            &mut self,
            _: &mut dyn Clock,
            out: &mut dyn FnMut(Reading),
        ) -> Result<(), SensorError> {
            self.1.drain(..).for_each(out);
            Ok(())
        }
    }

    #[test]
    fn readings_of_a_window_become_one() {
        let domains = vec![
            Domain::new("sm-busy", Quantity::Percent),
            Domain::new("clock", Quantity::Clock),
            Domain::new("pcie-rx", Quantity::Bandwidth),
        ];
        let at = |ns| Stamp { before: RawNs(ns - 4), after: RawNs(ns) };
        let reading = |domain, end, value| Reading {
            mean_over_ns: Some(100),
            ..Reading::now(DomainId(domain), at(end), value)
        };
        let readings = vec![
            reading(0, 1000, Value::Percent(50.0)),
            reading(2, 1000, Value::MebibytesPerSecond(7.0)),
            reading(0, 1100, Value::Percent(0.0)),
            reading(1, 1100, Value::Megahertz(1.0)),
            Reading::now(DomainId(0), at(1200), Value::Percent(1.0)),
        ];
        let mut means = Means::new(Told(domains, readings), 100);
        assert_eq!(
            means.counters().iter().map(|c| (c.name.as_str(), c.kind)).collect::<Vec<_>>(),
            [("sm-busy", CounterKind::MeanPercent), ("pcie-rx", CounterKind::MeanBandwidth)]
        );
        let mut got = Vec::new();
        means
            .read(&mut || RawNs(0), &mut |w| {
                got.push((w.begin.unwrap(), w.end.unwrap(), w.values.to_vec()))
            })
            .unwrap();
        let mean = CounterValue::Mean;
        assert_eq!(
            got,
            [
                (at(900), at(1000), vec![mean(50.0), mean(7.0)]),
                (at(1000), at(1100), vec![mean(0.0), CounterValue::Absent]),
            ]
        );
        assert_eq!((means.health().windows, means.health().refused), (2, 2));
    }
}
