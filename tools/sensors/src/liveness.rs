//! Presence is not function: some counters open, read 0 and stay there for ever. Owns the state
//! machine that distinguishes a working domain from a dead one by its readings alone; refuses to
//! wait or read clocks.
#![forbid(unsafe_code)]

use crate::source::{Domain, Quantity, Value};
use crate::units::RawNs;

/// What is known about a domain's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not observed for long enough to say.
    Undecided,
    /// It measures.
    Works,
    /// An energy counter that did not rise, or a power that read nothing but 0, over the time
    /// observed. A plane that is merely idle may still come alive.
    Dead {
        /// Nanoseconds observed.
        observed_ns: u64,
        /// Whether every value was 0, the sign of a counter that no hardware drives.
        all_zero: bool,
    },
}

/// Watches one domain.
#[derive(Clone, Debug)]
pub struct Liveness {
    rises: bool,
    need_ns: u64,
    first: Option<(RawNs, f64)>,
    last: RawNs,
    all_zero: bool,
    works: bool,
}

impl Liveness {
    /// Observation after which a still counter is called dead: a thousand updates of a RAPL
    /// counter, ten of the slowest energy counter known (100 ms).
    pub const OBSERVE_NS: u64 = 1_000_000_000;

    /// For this domain, deciding after [`Liveness::OBSERVE_NS`].
    pub fn new(domain: &Domain) -> Liveness {
        Liveness::with_observation(domain, Self::OBSERVE_NS)
    }

    /// As [`Liveness::new`] with another observation time, for counters known to update slowly.
    pub fn with_observation(domain: &Domain, need_ns: u64) -> Liveness {
        Liveness {
            rises: matches!(domain.quantity, Quantity::Energy { .. }),
            need_ns,
            first: None,
            last: RawNs(0),
            all_zero: true,
            // Temperatures, clocks, shares and flags are believed when they read at all.
            works: !matches!(domain.quantity, Quantity::Energy { .. } | Quantity::Power { .. }),
        }
    }

    /// Takes a reading.
    pub fn observe(&mut self, at: RawNs, value: Value) {
        let magnitude = value.magnitude();
        self.all_zero &= magnitude == 0.0;
        let (_, start) = *self.first.get_or_insert((at, magnitude));
        self.last = self.last.max(at);
        if self.rises {
            // A wrap within the observation is a change too; nothing else lowers a counter.
            self.works |= magnitude != start;
        } else {
            self.works |= magnitude > 0.0;
        }
    }

    /// What the readings so far say.
    pub fn verdict(&self) -> Verdict {
        let Some((first, _)) = self.first else { return Verdict::Undecided };
        let observed_ns = self.last.since(first);
        if self.works {
            Verdict::Works
        } else if observed_ns >= self.need_ns {
            Verdict::Dead { observed_ns, all_zero: self.all_zero }
        } else {
            Verdict::Undecided
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Range;
    use crate::units::{EnergyUnit, Microwatts};

    fn energy() -> Domain {
        Domain::new("e", Quantity::Energy { unit: EnergyUnit::MICROJOULE, range: Range::Endless })
    }

    fn verdict(domain: &Domain, values: &[(u64, Value)]) -> Verdict {
        let mut live = Liveness::new(domain);
        for (ms, value) in values {
            live.observe(RawNs(ms * 1_000_000), *value);
        }
        live.verdict()
    }

    #[test]
    fn verdicts_by_table() {
        use Value::{Counter, Millicelsius, Power};
        let power = Domain::new("p", Quantity::Power { window_ns: None });
        let heat = Domain::new("t", Quantity::Temperature);
        let dead = |observed_ms: u64, all_zero| Verdict::Dead {
            observed_ns: observed_ms * 1_000_000,
            all_zero,
        };
        type Row<'a> = (&'a str, &'a Domain, Vec<(u64, Value)>, Verdict);
        let table: [Row<'_>; 9] = [
            ("nothing read", &energy(), vec![], Verdict::Undecided),
            (
                "zero, too short",
                &energy(),
                vec![(0, Counter(0)), (999, Counter(0))],
                Verdict::Undecided,
            ),
            (
                "zero for ever",
                &energy(),
                vec![(0, Counter(0)), (1000, Counter(0))],
                dead(1000, true),
            ),
            ("stuck", &energy(), vec![(0, Counter(7)), (1500, Counter(7))], dead(1500, false)),
            ("rising", &energy(), vec![(0, Counter(7)), (1, Counter(8))], Verdict::Works),
            (
                "late riser",
                &energy(),
                vec![(0, Counter(0)), (2000, Counter(0)), (3000, Counter(1))],
                Verdict::Works,
            ),
            (
                "no power",
                &power,
                vec![(0, Power(Microwatts(0))), (1000, Power(Microwatts(0)))],
                dead(1000, true),
            ),
            ("steady power", &power, vec![(0, Power(Microwatts(9)))], Verdict::Works),
            ("0 degrees", &heat, vec![(0, Millicelsius(0))], Verdict::Works),
        ];
        for (name, domain, values, want) in table {
            assert_eq!(verdict(domain, &values), want, "{name}");
        }
    }
}
