//! Owns what repetitions (`record --replay`) say of counters: where a kernel always runs beside
//! others and only a common mean is known, or the run knows it far less well, or it ran for less
//! than one window in all, its mean is that of the batches in which it ran alone. Where buffers
//! were restored between launches, what batches of restorations alone counted is taken off. Refuses
//! batches of which restorations and gaps are the most.

use super::result::{Class, Source, Value};
use crate::energy::activity::{PhysicalDevice, repeated_class};
use crate::interval::Interval;
use std::collections::BTreeMap;

/// Between two launches of a batch the device rests, or restores buffers; a mean over the batch is
/// less than the kernel's by that share. Beyond this one, that would be most of the figure.
const MOST_GAPS: f64 = 3.0;
/// Restoring between launches may count this share more or less than restoring alone.
const BESIDE: f64 = 0.015;

/// The run's own interval gives way to a repetition's that is so many times narrower, below one
/// unit of the counter being as good as none.
const WIDER: f64 = 3.0;

/// Gives each of the application's classes one row: values that the run does not tell apart come
/// from repetitions, whose own rows go.
pub fn fold(out: &mut Source, device: &PhysicalDevice) {
    if !device.classes.iter().any(|class| class.repetition) {
        return;
    }
    let (own, repeated): (Vec<_>, Vec<_>) = std::mem::take(&mut out.classes)
        .into_iter()
        .zip(&device.classes)
        .partition(|(_, class)| !class.repetition);
    let repeated: BTreeMap<&str, _> =
        repeated.iter().map(|(row, class)| (class.name.as_str(), row)).collect();
    let mut told = false;
    out.classes = own
        .into_iter()
        .map(|(mut row, class)| {
            let of = |restores_only| repeated.get(&*repeated_class(&class.name, restores_only));
            let own = (row.busy_seconds > 0.0).then(|| row.busy_seconds / row.launches.max(1.0));
            let found = of(false).zip(lengths(device, &class.name, own));
            let Some((alone, lengths)) = found else { return row };
            for (name, value) in &mut row.values {
                let mean = |row: &Class| row.values.get(name).and_then(|v| v.mean);
                let Some(batches) = mean(alone) else { continue };
                // Of a launch that restores nothing, nothing is taken off.
                let restoring = match lengths.restoring > 0.0 {
                    true => of(true).and_then(|row| mean(row)),
                    false => Some(Interval::estimated(0.0, 0.0, 0.0)),
                };
                let Some(restoring) = restoring else { continue };
                let column = out.columns.iter().find(|c| c.name == *name);
                let (rest, full) = column.map_or((0.0, f64::INFINITY), |c| {
                    let full = if c.unit == "%" { 100.0 } else { f64::INFINITY };
                    (c.idle.map_or(0.0, |i| i.value), full)
                });
                let of = lengths.kernel(batches, restoring, rest);
                let is_enough = |own: Interval| {
                    row.covered_seconds >= out.window_seconds
                        && own.high - own.low <= WIDER * (of.high - of.low).max(1.0)
                };
                if value.mean.is_some_and(is_enough) {
                    continue;
                }
                let mean = within(full, of.value, of.low, of.high);
                *value = Value { mean: Some(mean), only_with: None, why: None };
                told = true;
            }
            row
        })
        .collect();
    if told {
        out.notes.push(
            "kernels that always run with others have the counters of their repetitions".to_owned(),
        );
    }
}

/// An interval between nothing and all. At either bound it keeps the side that leads away from it:
/// that the counter read more than all makes what is below all no more certain.
fn within(full: f64, value: f64, low: f64, high: f64) -> Interval {
    let (below, above) = (value - low, high - value);
    let value = value.clamp(0.0, full);
    Interval::estimated(value, (value - below).max(0.0), (value + above).min(full))
}

/// What a batch's time is made of, seconds for each launch.
struct Lengths {
    /// From one launch to the next.
    period: f64,
    /// The launch itself.
    own: f64,
    /// Restoring buffers; 0 where none was restored.
    restoring: f64,
}

impl Lengths {
    /// A counter's mean while the kernel ran, by its means over batches and over restorations
    /// alone, and at rest. What it reads at rest it reads in the gaps.
    fn kernel(&self, batches: Interval, restoring: Interval, rest: f64) -> Interval {
        let (all, off) = (self.period / self.own, self.restoring / self.own);
        let more = all * (batches.value - rest) - off * (restoring.value - rest);
        let beside = off * restoring.half().max(BESIDE * (restoring.value - rest).abs());
        let end = |of: f64| (all * of).hypot(beside);
        let value = rest + more;
        Interval::estimated(
            value,
            value - end(batches.value - batches.low),
            value + end(batches.high - batches.value),
        )
    }
}

/// The lengths of a class's repetitions, by their stamps, or by the mean seconds of the
/// application's own launches where repetitions have none; `None` where nothing tells, or launches
/// are too small a part of the time.
fn lengths(device: &PhysicalDevice, class: &str, mean: Option<f64>) -> Option<Lengths> {
    let (mut whole, mut own, mut restoring, mut launches) = (0.0, 0.0, 0.0, 0.0);
    for repeated in device.replays.iter().filter(|r| r.name == class && r.refused.is_empty()) {
        let seconds = |only| {
            let of = repeated.batches.iter().filter(move |b| b.3 == only);
            of.fold((0.0, 0.0), |(s, n), b| (s + b.1.seconds_since(b.0), n + b.2 as f64))
        };
        let ((time, n), (restored, restorations)) = (seconds(false), seconds(true));
        if n == 0.0 {
            continue;
        }
        let each = match restorations > 0.0 {
            true => restored / restorations / f64::from(repeated.per_restoration.max(1)),
            false => 0.0,
        };
        // Stamps may hold some of the runtime's own work, which overlaps with the launch before.
        let stamped = repeated.stamped.or(mean)?.min(time / n - each);
        (whole, own) = (whole + time, own + n * stamped);
        (restoring, launches) = (restoring + n * each, launches + n);
    }
    let of =
        Lengths { period: whole / launches, own: own / launches, restoring: restoring / launches };
    (own > 0.0 && of.period <= MOST_GAPS * of.own).then_some(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::result::{Column, Together};
    use crate::energy::activity::{self, Kind};
    use crate::energy::shapes::{Repeated, Shape};
    use clscope_analysis::energy::HostNs;

    fn row(name: &str, value: Value) -> Class {
        Class {
            name: name.into(),
            kind: "kernel",
            launches: 1.0,
            busy_seconds: 1.0,
            covered_seconds: 1.0,
            values: BTreeMap::from([("sm".to_owned(), value)]),
            clocks: None,
        }
    }

    fn known(value: f64) -> Value {
        let mean = Some(Interval::estimated(value, value - 1.0, value + 1.0));
        Value { mean, only_with: None, why: None }
    }

    fn sum(value: f64) -> Value {
        let classes = vec!["a".to_owned(), "b".to_owned()];
        let mean = Interval::estimated(value, value, value);
        let only_with = Some(Together { classes, mean });
        Value { mean: None, only_with, why: None }
    }

    /// A device on which `a` and `b` run in turn; `a` was repeated for a second, 100 launches of so
    /// many milliseconds, and as many restorations, where there are any, took so many.
    fn folded(stamped_ms: f64, restores_ms: i64, own: Value) -> Source {
        folded_with(stamped_ms, restores_ms, row("a", own))
    }

    fn folded_with(stamped_ms: f64, restores_ms: i64, own: Class) -> Source {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        let classes = [("a", false), ("b", false), ("a (repeated)", true), ("a (restored)", true)];
        for (name, repetition) in classes {
            let class = activity::Class { name: name.into(), kernel: true, repetition };
            device.classes.push(class);
        }
        let batch = |ms: i64, restores| (HostNs(0), HostNs(100 * ms * 1_000_000), 100, restores);
        let mut batches = vec![batch(10, false)];
        batches.extend((restores_ms > 0).then(|| batch(restores_ms, true)));
        device.replays.push(Repeated {
            name: "a".into(),
            shape: Shape { name: "a".into(), sizes: vec![64] },
            stamped: (stamped_ms > 0.0).then_some(stamped_ms * 1e-3),
            per_restoration: 1,
            refused: String::new(),
            saved: 0,
            batches,
            trials: Vec::new(),
        });
        let mut out = Source {
            device: "gpu".into(),
            host: String::new(),
            pci: None,
            members: Vec::new(),
            source: "gpm".into(),
            set: None,
            matched: String::new(),
            windows: 10,
            window_seconds: 0.1,
            left_out: 0,
            delay_seconds: None,
            failed: None,
            columns: vec![Column::new("sm".into(), "%".into())],
            classes: vec![
                own,
                row("b", sum(50.0)),
                row("a (repeated)", known(40.0)),
                row("a (restored)", known(10.0)),
            ],
            notes: Vec::new(),
            one_by_one: false,
            tracks: Vec::new(),
        };
        fold(&mut out, &device);
        out
    }

    #[test]
    fn a_kernel_that_only_a_sum_is_known_of_has_its_repetitions_counters() {
        // Launches of 8 ms, every 10 ms: while they ran the counter read a quarter more.
        let out = folded(8.0, 0, sum(50.0));
        let names: Vec<&str> = out.classes.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let of = &out.classes[0].values["sm"];
        assert_eq!(of.mean.map(|m| m.value), Some(50.0));
        assert!(of.only_with.is_none() && out.notes.len() == 1);
        assert!(out.classes[1].values["sm"].mean.is_none());
        // Without stamps the application's own launches tell, which left no gap here.
        let out = folded(0.0, 0, sum(50.0));
        assert_eq!(out.classes[0].values["sm"].mean.map(|m| m.value), Some(40.0));
    }

    #[test]
    fn at_a_bound_a_figure_keeps_the_side_that_leads_away_from_it() {
        let of = |value: f64, low: f64, high: f64| {
            let at = within(100.0, value, low, high);
            (at.value, at.low, at.high)
        };
        assert_eq!(of(50.0, 49.0, 52.0), (50.0, 49.0, 52.0));
        assert_eq!(of(104.0, 103.0, 106.0), (100.0, 99.0, 100.0));
        assert_eq!(of(99.5, 98.0, 101.0), (99.5, 98.0, 100.0));
        assert_eq!(of(-1.0, -4.0, -0.5), (0.0, 0.0, 0.5));
        // Launches of 4 ms every 10 ms that read 40 % with gaps: 100 % while they ran.
        let out = folded(4.0, 0, sum(50.0));
        let mean = out.classes[0].values["sm"].mean.unwrap();
        assert_eq!((mean.value, mean.high), (100.0, 100.0));
        assert!((mean.low - 97.5).abs() < 1e-9, "{mean:?}");
    }

    #[test]
    fn what_the_run_knows_stays_and_restoring_alone_is_no_kernel() {
        let mean = |out: &Source| out.classes[0].values["sm"].mean.map(|mean| mean.value);
        assert_eq!(mean(&folded(8.0, 0, known(47.0))), Some(47.0));
        // It ran for half a window.
        let mut briefly = row("a", known(47.0));
        briefly.covered_seconds = 0.05;
        assert_eq!(mean(&folded_with(8.0, 0, briefly)), Some(50.0));
        for (stamped, restores) in [(8.0, 9), (2.0, 0)] {
            let out = folded(stamped, restores, sum(50.0));
            assert_eq!((out.classes[0].values["sm"].mean, out.classes.len()), (None, 2));
        }
    }

    #[test]
    fn what_restoring_counted_is_taken_off() {
        // Of 10 ms 4 are restoring, at 10 %; the kernel takes 5 and the rest is a gap.
        let out = folded(5.0, 4, sum(50.0));
        let mean = out.classes[0].values["sm"].mean.unwrap();
        assert!((mean.value - (10.0 * 40.0 - 4.0 * 10.0) / 5.0).abs() < 1e-9, "{mean:?}");
        assert!((mean.half() - 2.0f64.hypot(0.8)).abs() < 1e-9, "{mean:?}");
        // Stamps cannot hold more than restoring leaves.
        let out = folded(9.0, 4, sum(50.0));
        let mean = out.classes[0].values["sm"].mean.unwrap();
        assert!((mean.value - (10.0 * 40.0 - 4.0 * 10.0) / 6.0).abs() < 1e-9, "{mean:?}");
        assert_eq!(out.classes.len(), 2);
    }
}
