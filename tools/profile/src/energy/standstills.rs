//! Owns the times in which an energy counter stood still: where they are, for how long, and that no
//! reading of them is used. Refuses to guess what was drawn meanwhile.
#![forbid(unsafe_code)]

use super::readings::Sensor;
use clscope_analysis::energy::HostNs;
use clscope_trace::sensors::Quantity;

/// Times in which one counter stood still, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Standstills {
    /// From the last reading at which it rose to the last with that value.
    pub times: Vec<(HostNs, HostNs)>,
    /// Whether that is what a plane without work does: then it drew nothing.
    pub is_idle: bool,
}

/// A counter stands still from this long on, in seconds, ...
const LONG: f64 = 1.0;
/// ... and from so many of its update periods on.
const PERIODS: f64 = 20.0;

impl Standstills {
    /// The plane of a processor's graphics draws nothing for as long as they are switched off.
    const SWITCHED_OFF: &'static str = "PP1";

    /// For people: for how long, and what follows.
    #[must_use]
    pub fn describe(&self) -> String {
        let seconds: f64 = self.times.iter().map(|(from, to)| to.seconds_since(*from)).sum();
        let times = match self.times.len() {
            1 => String::new(),
            count => format!(" in all, {count} times"),
        };
        let meaning = match self.is_idle {
            true => "it counts as 0 W",
            false => "what was drawn meanwhile is in no figure",
        };
        format!("stood still for {seconds:.1} s{times}: {meaning}")
    }
}

/// Finds the standstills of an energy counter, and leaves out the readings of them. What it counts
/// behind one has another start. `None` where there are none, or it never moved.
pub(super) fn take_out(sensor: &mut Sensor) -> Option<Standstills> {
    if sensor.series.quantity != Quantity::Energy || sensor.dead.is_some() {
        return None;
    }
    let patience = LONG.max(PERIODS * sensor.period_ns.unwrap_or(0.0) * 1e-9);
    let points = &sensor.points;
    let mut times = Vec::new();
    let mut from = 0;
    for at in 1..=points.len() {
        let begins = |at: usize| {
            let (before, next) = (points[at - 1].0, points[at].0);
            let first = sensor.starts.partition_point(|start| *start <= before);
            sensor.starts.get(first).is_some_and(|start| *start <= next)
        };
        if at < points.len() && points[at].1 == points[from].1 && !begins(at) {
            continue;
        }
        let (begin, end) = (points[from].0, points[at - 1].0);
        if end.seconds_since(begin) > patience {
            times.push((begin, end));
        }
        from = at;
    }
    let moves = points.windows(2).any(|pair| pair[1].1 > pair[0].1);
    if times.is_empty() || !moves {
        return None;
    }
    let found = Standstills { times, is_idle: sensor.series.plane == Standstills::SWITCHED_OFF };
    if !found.is_idle {
        for (begin, end) in &found.times {
            let behind = sensor.points.partition_point(|p| p.0 <= *end);
            sensor.starts.extend(sensor.points.get(behind).map(|p| p.0));
            sensor.points.retain(|p| p.0 <= *begin || p.0 > *end);
        }
        sensor.starts.sort_unstable();
        sensor.starts.dedup();
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_trace::sensors::Series;
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    /// A counter of so many watts, read every 2 ms for 10 s, that stands still in these times (ms).
    fn counter(watts: f64, plane: &str, still: &[(i64, i64)]) -> Sensor {
        let mut joules = 0.0;
        let points = (0..5000).map(|i| {
            let ms = 2 * i;
            if !still.iter().any(|(from, to)| *from < ms && ms <= *to) {
                joules += watts * 2e-3;
            }
            (HostNs(ms * MS), joules)
        });
        let series = Series {
            source: "powercap".into(),
            name: "package-0".into(),
            plane: plane.into(),
            quantity: Quantity::Energy,
            ..Series::default()
        };
        Sensor {
            host: 0,
            series,
            points: points.collect(),
            starts: Vec::new(),
            windows: Vec::new(),
            period_ns: Some(2e6),
            dead: None,
            repeats: false,
        }
    }

    proptest! {
        /// A standstill is found with its whole length, and the power of what is left is that of a
        /// counter that never stood still.
        #[test]
        fn a_standstill_is_left_out_for_its_whole_length(
            watts in 1.0f64..500.0, from in 500i64..4000, length in 1100i64..8000,
        ) {
            let mut sensor = counter(watts, "PKG", &[(from, from + length)]);
            let found = take_out(&mut sensor).unwrap();
            let [(begin, end)] = found.times[..] else { panic!("{found:?}") };
            let whole = (length.min(9998 - from) as f64) * 1e-3;
            prop_assert!((end.seconds_since(begin) - whole).abs() < 5e-3, "{begin:?} {end:?}");
            let mut seconds = 0.0;
            let mut joules = 0.0;
            for pair in sensor.points.windows(2) {
                if !sensor.starts.contains(&pair[1].0) {
                    seconds += pair[1].0.seconds_since(pair[0].0);
                    joules += pair[1].1 - pair[0].1;
                }
            }
            prop_assert!((joules / seconds / watts - 1.0).abs() < 1e-6);
            prop_assert!((seconds + whole - 9.998).abs() < 0.01, "{seconds} {whole}");
        }
    }

    #[test]
    fn a_plane_that_is_switched_off_draws_nothing_and_short_rests_are_none() {
        let mut graphics = counter(10.0, "PP1", &[(2000, 5000)]);
        let before = graphics.clone();
        let found = take_out(&mut graphics).unwrap();
        assert!(found.is_idle && found.describe().starts_with("stood still for 3.0 s: it counts"));
        assert_eq!(graphics, before);
        assert_eq!(take_out(&mut counter(10.0, "PKG", &[(2000, 2900)])), None);
        let twice = take_out(&mut counter(10.0, "PKG", &[(1000, 3000), (4000, 6500)])).unwrap();
        assert!(twice.describe().starts_with("stood still for 4.5 s in all, 2 times"), "{twice:?}");
        // What never moved is dead, which is said by itself.
        assert_eq!(take_out(&mut counter(0.0, "PKG", &[])), None);
    }
}
