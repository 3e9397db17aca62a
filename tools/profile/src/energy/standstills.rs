//! Owns the times in which an energy counter stood still: where they are, for how long, and that no
//! reading of them is used. Refuses to guess what was drawn meanwhile.

use super::readings::Sensor;
use clscope_analysis::energy::HostNs;
use clscope_analysis::quantile::median;
use clscope_trace::sensors::Quantity;

/// Times in which one counter stood still, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Standstills {
    /// From the last reading at which it rose to the last with that value.
    pub times: Vec<(HostNs, HostNs)>,
    /// Whether that is what a plane without work does: then it drew nothing.
    pub is_idle: bool,
}

/// A counter that has stood still for longer than this, in seconds, ...
const LONG: f64 = 1.0;
/// ... and for so many of its update periods, does not measure, whatever comes before and behind.
const PERIODS: f64 = 20.0;
/// A shorter rest is a standstill from so many usual steps on, ...
const STEPS: f64 = 5.0;
/// ... if more than this share of what power before and behind the rest would have drawn in it is
/// missing, so many steps behind the rest. A counter that was read late, or updated late, catches
/// up.
const MISSING: f64 = 2.0 / 3.0;
const LATE: f64 = 2.0;

/// Whether a plane may stand still without missing anything: that of a processor's graphics draws
/// nothing for as long as they are switched off.
pub fn rests_without_power(plane: &str) -> bool {
    plane == "PP1"
}

impl Standstills {
    /// For people: for how long, and what follows.
    pub fn describe(&self) -> String {
        let seconds: f64 = self.times.iter().map(|(from, to)| to.seconds_since(*from)).sum();
        let length = match seconds {
            ..1.0 => format!("{:.0} ms", seconds * 1e3),
            _ => format!("{seconds:.1} s"),
        };
        let times = match self.times.len() {
            1 => String::new(),
            count => format!(" in all, {count} times"),
        };
        let meaning = match self.is_idle {
            true => "it counts as 0 W",
            false => "what was drawn meanwhile is in no figure",
        };
        format!("stood still for {length}{times}: {meaning}")
    }
}

/// A counter and its readings.
struct Counter<'s> {
    sensor: &'s Sensor,
    points: &'s [(HostNs, f64)],
    /// Its usual time between two rises, seconds.
    step: f64,
}

impl<'s> Counter<'s> {
    fn of(sensor: &'s Sensor) -> Self {
        let points = &sensor.points[..];
        let mut out = Self { sensor, points, step: 0.0 };
        let rises: Vec<HostNs> = (1..points.len())
            .filter(|at| points[*at].1 != points[at - 1].1 && !out.begins(*at))
            .map(|at| points[at].0)
            .collect();
        let steps = rises.windows(2).map(|pair| pair[1].seconds_since(pair[0]));
        let seen = median(steps).unwrap_or(0.0);
        out.step = seen.max(sensor.period_ns.unwrap_or(0.0) * 1e-9);
        out
    }

    /// Whether it begins anew with this reading.
    fn begins(&self, at: usize) -> bool {
        self.sensor.begins_between(self.points[at - 1].0, self.points[at].0)
    }

    /// Mean power between two readings, in watts; `None` where it began anew between them, or they
    /// are one.
    fn watts(&self, from: usize, to: usize) -> Option<f64> {
        if from >= to || (from + 1..=to).any(|at| self.begins(at)) {
            return None;
        }
        let (a, b) = (self.points[from], self.points[to]);
        Some((b.1 - a.1) / b.0.seconds_since(a.0))
    }

    /// Whether energy is missing from a rest between two readings of one value.
    fn is_missing(&self, from: usize, to: usize) -> bool {
        let (begin, end) = (self.points[from].0, self.points[to].0);
        let rest = end.seconds_since(begin);
        if rest > LONG.max(PERIODS * self.step) {
            return true;
        }
        let next = to + 1;
        if rest <= STEPS * self.step || next >= self.points.len() || self.begins(next) {
            return false;
        }
        // What is late may come in two steps.
        let at = |time: i64| self.points.partition_point(|p| p.0.0 <= time).saturating_sub(1);
        let steps = |count: f64| (count * self.step * 1e9) as i64;
        let first = self.points.partition_point(|p| p.0.0 < begin.0.saturating_sub(steps(STEPS)));
        let behind = at(self.points[next].0.0.saturating_add(steps(LATE)));
        let last = at(self.points[behind].0.0.saturating_add(steps(STEPS)));
        let (Some(before), Some(after), Some(meanwhile)) =
            (self.watts(first, from), self.watts(behind, last), self.watts(from, behind))
        else {
            return false;
        };
        let watts = before.min(after);
        let seconds = self.points[behind].0.seconds_since(begin);
        (watts - meanwhile) * seconds > MISSING * watts * rest
    }
}

/// Finds the standstills of an energy counter, and leaves out the readings of them. What it counts
/// behind one has another start. `None` where there are none, or it never moved.
pub(super) fn take_out(sensor: &mut Sensor) -> Option<Standstills> {
    if sensor.series.quantity != Quantity::Energy || sensor.dead.is_some() {
        return None;
    }
    let counter = Counter::of(sensor);
    let points = counter.points;
    let is_idle = rests_without_power(&sensor.series.plane);
    let mut times = Vec::new();
    let mut from = 0;
    for at in 1..=points.len() {
        if at < points.len() && points[at].1 == points[from].1 && !counter.begins(at) {
            continue;
        }
        let (begin, end) = (points[from].0, points[at - 1].0);
        // Short rests are usual on a plane that is switched off without work.
        let is_long = !is_idle || end.seconds_since(begin) > LONG;
        if is_long && counter.is_missing(from, at - 1) {
            times.push((begin, end));
        }
        from = at;
    }
    let moves = points.windows(2).any(|pair| pair[1].1 > pair[0].1);
    if times.is_empty() || !moves {
        return None;
    }
    let found = Standstills { times, is_idle };
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

    /// A counter of so many watts, updated every `update` ms and read every `read` ms for 10 s, that
    /// stands still in these times (ms). Whether it then catches up.
    fn updated(
        watts: f64,
        (update, read): (i64, i64),
        still: &[(i64, i64)],
        catches_up: bool,
    ) -> Sensor {
        let mut joules = 0.0;
        let mut values = vec![0.0];
        for ms in 1..=10_000 {
            if ms % update == 0 {
                let is_still = still.iter().any(|(from, to)| *from < ms && ms <= *to);
                match (is_still, catches_up) {
                    (true, _) => {}
                    (false, true) => joules = watts * ms as f64 * 1e-3,
                    (false, false) => joules += watts * update as f64 * 1e-3,
                }
            }
            values.push(joules);
        }
        let points = (0..10_000).step_by(read as usize);
        let points = points.map(|ms| (HostNs(ms as i64 * MS), values[ms])).collect();
        let series = Series {
            source: "powercap".into(),
            name: "package-0".into(),
            plane: "PKG".into(),
            quantity: Quantity::Energy,
            ..Series::default()
        };
        Sensor {
            host: 0,
            series,
            points,
            starts: Vec::new(),
            windows: Vec::new(),
            period_ns: None,
            dead: None,
            repeats: false,
        }
    }

    /// The same, updated and read every 2 ms.
    fn counter(watts: f64, plane: &str, still: &[(i64, i64)]) -> Sensor {
        let mut sensor = updated(watts, (2, 2), still, false);
        sensor.series.plane = plane.into();
        sensor
    }

    /// Energy and length of what is left of it.
    fn left(sensor: &Sensor) -> (f64, f64) {
        let pairs = sensor.points.windows(2).filter(|pair| !sensor.starts.contains(&pair[1].0));
        pairs.fold((0.0, 0.0), |(joules, seconds), pair| {
            (joules + pair[1].1 - pair[0].1, seconds + pair[1].0.seconds_since(pair[0].0))
        })
    }

    proptest! {
        /// A standstill is found with its whole length, be it short or long for the counter, and the
        /// power of what is left is that of a counter that never stood still.
        #[test]
        fn a_standstill_is_left_out_for_its_whole_length(
            watts in 1.0f64..500.0, update in 1i64..100, read in 1i64..100,
            from in 0.0f64..0.8, steps in 7.0f64..100.0,
        ) {
            let step = update.max(read);
            // Both begin and end where the counter is updated, and some steps from the ends.
            let length = (steps * step as f64) as i64 / update * update;
            prop_assume!(length < 6000);
            let from = (8 * step + (from * (9900 - length - 16 * step) as f64) as i64) / update * update;
            let mut sensor = updated(watts, (update, read), &[(from, from + length)], false);
            let found = take_out(&mut sensor).unwrap();
            let [(begin, end)] = found.times[..] else { panic!("{found:?}") };
            let whole = end.seconds_since(begin);
            prop_assert!((whole - length as f64 * 1e-3).abs() <= 2e-3 * step as f64, "{whole} {length}");
            // What was drawn meanwhile is missing from any sum over it.
            prop_assert_eq!(sensor.joules(), None);
            let (joules, seconds) = left(&sensor);
            // A reading tells of the energy up to the update before it.
            let open = 4e-3 * step as f64 * watts;
            prop_assert!((joules - watts * seconds).abs() <= open, "{joules} {seconds}");
        }

        /// A counter that is updated late or read late, and catches up, has lost nothing; one that
        /// is updated rarely neither.
        #[test]
        fn a_counter_that_catches_up_never_stood_still(
            watts in 1.0f64..500.0, update in 1i64..150, read in 1i64..100,
            from in 200i64..8000, length in 1i64..900,
        ) {
            let mut sensor = updated(watts, (update, read), &[(from, from + length)], true);
            let before = sensor.clone();
            prop_assert_eq!(take_out(&mut sensor), None);
            prop_assert!(sensor.joules().is_some());
            prop_assert_eq!(sensor, before);
        }
    }

    #[test]
    fn short_standstills_are_said_in_milliseconds() {
        let found = take_out(&mut counter(40.0, "PKG", &[(2000, 2400), (5000, 5060)])).unwrap();
        assert!(found.describe().starts_with("stood still for 460 ms in all, 2 times: what was"));
    }

    #[test]
    fn a_plane_that_is_switched_off_draws_nothing_and_rests_behind_the_last_step_are_none() {
        let mut graphics = counter(10.0, "PP1", &[(2000, 5000)]);
        let before = graphics.clone();
        let found = take_out(&mut graphics).unwrap();
        assert!(found.is_idle && found.describe().starts_with("stood still for 3.0 s: it counts"));
        assert_eq!(graphics, before);
        assert_eq!(take_out(&mut counter(10.0, "PP1", &[(2000, 2900)])), None);
        assert_eq!(take_out(&mut counter(10.0, "PKG", &[(9500, 10_000)])), None);
        let twice = take_out(&mut counter(10.0, "PKG", &[(1000, 3000), (4000, 6500)])).unwrap();
        assert!(twice.describe().starts_with("stood still for 4.5 s in all, 2 times"), "{twice:?}");
        // What never moved is dead, which is said by itself.
        assert_eq!(take_out(&mut counter(0.0, "PKG", &[])), None);
    }
}
