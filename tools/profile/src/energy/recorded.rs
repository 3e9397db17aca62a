//! Owns what readings tell besides the joules of kernels: what was not there, what happened to
//! sensors, what sampling cost, and what counters counted over the application's life. Refuses to
//! attribute.

use super::readings::{Readings, Sensor};
use super::result;
use clscope_analysis::energy::{HostNs, combine};
use clscope_sensors::SourceKind;
use clscope_trace::sensors::Quantity;

/// Most kinds of events of sensors that are told of.
const MOST_EVENTS: usize = 20;

/// Interfaces that were looked for and do not work.
pub(super) fn interfaces(readings: &Readings) -> Vec<result::Interface> {
    let found = readings.findings.iter();
    let failed = found.filter(|f| matches!(f.state.as_str(), "absent" | "refused" | "dead"));
    let told = failed.map(|f| result::Interface {
        name: f.name.clone(),
        state: f.state.clone(),
        why: f.why.clone(),
        remedy: (!f.remedy.is_empty()).then(|| f.remedy.clone()),
    });
    told.collect()
}

/// Why there is no figure at all.
pub(super) fn absent(readings: &Readings) -> String {
    if !readings.any {
        return "no sensors were read: the trace was recorded without `clscope record`, or with --sensors off".to_owned();
    }
    if let Some(why) = readings.unreadable.first() {
        return format!("the readings of sensors cannot be used: {why}");
    }
    let remedy = readings.findings.iter().find(|f| f.state == "refused" && !f.remedy.is_empty());
    let mut names: Vec<&str> = Vec::new();
    for finding in readings.findings.iter().filter(|f| f.state != "skipped") {
        // Several traces looked for the same.
        if !names.contains(&finding.name.as_str()) {
            names.push(&finding.name);
        }
    }
    match remedy {
        Some(f) => format!("{}: {}; to fix: {}", f.name, f.why, f.remedy),
        None if names.is_empty() => "no sensor was opened".to_owned(),
        None => format!(
            "this machine has no sensor that could be read (looked for {}); `clscope doctor` says why",
            names.join(", ")
        ),
    }
}

/// What happened to sensors, and what was wrong with files of readings.
pub(super) fn notes(readings: &Readings) -> Vec<String> {
    let mut out: Vec<String> = readings
        .unreadable
        .iter()
        .map(|why| format!("readings of sensors not used: {why}"))
        .collect();
    // Of standstills the sampler sees the beginning only.
    let is_told = |code: &str| !matches!(code, "works" | "dead" | "stalled" | "gap");
    let told = readings.events.iter().filter(|(_, e)| is_told(&e.code));
    let mut texts: Vec<(String, usize)> = Vec::new();
    for (name, event) in told {
        let text = format!("{name} {}: {}", event.code, event.text).trim_start().to_owned();
        match texts.iter().position(|(known, _)| *known == text) {
            Some(at) => texts[at].1 += 1,
            None if texts.len() < MOST_EVENTS => texts.push((text, 1)),
            None => {}
        }
    }
    out.extend(texts.into_iter().map(|(text, times)| match times {
        1 => text,
        _ => format!("{text} ({times} times)"),
    }));
    out.extend(readings.standstills.iter().map(|(name, of)| format!("{name} {}", of.describe())));
    if readings.repeated > 0 {
        out.push(format!(
            "{} recordings of sensors of one host overlap: each moment is used once",
            readings.repeated + 1
        ));
    }
    out
}

/// What sampling cost.
pub(super) fn sampler(readings: &Readings) -> Option<result::Sampler> {
    let cost = readings.costs.iter().max_by_key(|c| c.wall_ns)?;
    let (seconds, cpu_seconds) = (cost.wall_ns as f64 * 1e-9, cost.cpu_ns as f64 * 1e-9);
    let sources = readings.sources.iter().map(|s| result::Source {
        name: s.source.clone(),
        reads: s.reads,
        failures: s.failures,
        cpu_seconds: s.cpu_ns as f64 * 1e-9,
        every_seconds: s.every_ns as f64 * 1e-9,
        missing: s.missing,
        duplicates: s.duplicates,
        late: s.late,
        refused: s.refused,
        lost: s.lost,
    });
    Some(result::Sampler {
        seconds,
        cpu_seconds,
        share: cpu_seconds / seconds.max(1e-9),
        sources: sources.collect(),
    })
}

/// What a counter counted while the application ran.
#[derive(Default)]
struct Counted {
    joules: f64,
    seconds: f64,
    /// Largest error of the places of the readings at both ends.
    within: f64,
    /// By samples of power, over the same time.
    samples: Option<f64>,
}

/// Energy of every counter over the application's life: between the last steps before its start and
/// after its end; of several runs, the sum of each. A counter that did not move meanwhile has not
/// shown 0 J: why its energy is unknown comes second.
pub(super) fn application(readings: &Readings) -> (Vec<result::CounterEnergy>, Vec<String>) {
    let (mut out, mut still) = (Vec::new(), Vec::new());
    for sensor in readings
        .sensors
        .iter()
        .filter(|s| s.series.quantity == Quantity::Energy && s.dead.is_none() && !s.repeats)
    {
        let runs = readings.application.get(&sensor.host).map_or(&[][..], |runs| runs);
        let Some(of) = counted(sensor, runs, readings) else { continue };
        if of.joules == 0.0 {
            still.push(format!(
                "{} {} stood still while the application ran ({:.3} s): either that is shorter than its steps, or it counts nothing",
                sensor.series.source, sensor.series.name, of.seconds
            ));
            continue;
        }
        out.push(result::CounterEnergy {
            sensor: sensor.name(),
            plane: sensor.series.plane.clone(),
            includes: sensor.series.includes.clone(),
            joules: of.joules,
            within: of.within,
            seconds: of.seconds,
            samples_differ: of.samples.map(|samples| samples / of.joules - 1.0),
        });
    }
    (out, still)
}

/// Where readings begin that are of the second of two runs: where it was recorded anew, which may be
/// shortly behind its start, else half way.
fn between(sensor: &Sensor, ended: HostNs, started: HostNs) -> HostNs {
    let next = sensor.points.partition_point(|p| p.0 <= started);
    let first = sensor.points.get(next).map_or(started, |p| p.0);
    let behind = sensor.starts.partition_point(|start| *start <= ended);
    let anew = sensor.starts.get(behind).copied().filter(|start| *start <= first);
    anew.unwrap_or(HostNs(ended.0.midpoint(started.0)))
}

/// The sum over runs of the application; `None` where it was not read during any.
fn counted(sensor: &Sensor, runs: &[(HostNs, HostNs)], readings: &Readings) -> Option<Counted> {
    let points = &sensor.points;
    // The driver's counter steps every 100 ms where it was measured; it is read less often than
    // that.
    let known =
        (SourceKind::of_source(&sensor.series.source) == SourceKind::NvmlEnergy).then_some(0.1);
    let step = sensor.period_ns.map(|ns| ns * 1e-9).or(known).unwrap_or_else(|| step(points));
    let same = |s: &&Sensor| {
        s.host == sensor.host
            && s.series.pci == sensor.series.pci
            && s.series.plane == sensor.series.plane
            && s.series.name == "power-samples"
    };
    let samples = readings.sensors.iter().find(same);
    let mut out = Counted { samples: samples.map(|_| 0.0), ..Counted::default() };
    for (at, &(started, ended)) in runs.iter().enumerate() {
        // Readings of the runs before and behind it are theirs.
        let first = match at.checked_sub(1).and_then(|last| runs.get(last)) {
            Some(last) => points.partition_point(|p| p.0 < between(sensor, last.1, started)),
            None => 0,
        };
        let end = match runs.get(at + 1) {
            Some(next) => points.partition_point(|p| p.0 < between(sensor, ended, next.0)),
            None => points.len(),
        };
        let before = points.partition_point(|p| p.0 <= started).saturating_sub(1).max(first);
        let after = points.partition_point(|p| p.0 < ended).min(end.saturating_sub(1));
        let Some(inside @ [a, .., b]) = points.get(before..=after) else { continue };
        // Where a counter began anew, or stood still, nothing is known of what lies between.
        let begins = |p: &[(HostNs, f64)]| sensor.begins_between(p[0].0, p[1].0);
        let known = inside.windows(2).filter(|p| p[1].1 >= p[0].1 && !begins(p));
        let (joules, seconds) = known.fold((0.0, 0.0), |(joules, seconds), p| {
            (joules + p[1].1 - p[0].1, seconds + p[1].0.seconds_since(p[0].0))
        });
        if seconds <= 0.0 {
            continue;
        }
        out.joules += joules;
        out.seconds += seconds;
        out.within += 2.0 * step * joules / seconds;
        let more = samples.and_then(|s| combine::integral(&s.points, a.0, b.0));
        out.samples = out.samples.zip(more).map(|(sum, more)| sum + more);
    }
    (out.seconds > 0.0).then_some(out)
}

fn step(points: &[(HostNs, f64)]) -> f64 {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return 0.0 };
    last.0.seconds_since(first.0) / (points.len() - 1).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_counter_that_stands_still_is_unknown_and_not_zero() {
        let counter = |name: &str, watts: f64| {
            let series = clscope_trace::sensors::Series {
                source: "perf".into(),
                name: name.into(),
                quantity: Quantity::Energy,
                ..Default::default()
            };
            let points =
                (0..100).map(|ms| (HostNs(ms * 1_000_000), watts * ms as f64 * 1e-3)).collect();
            Sensor {
                host: 0,
                series,
                points,
                windows: Vec::new(),
                period_ns: Some(1e6),
                starts: Vec::new(),
                dead: None,
                repeats: false,
            }
        };
        let runs = vec![(HostNs(10_000_000), HostNs(90_000_000))];
        let application_ran = BTreeMap::from([(0, runs)]);
        let readings = Readings {
            sensors: vec![counter("pkg", 50.0), counter("psys", 0.0)],
            application: application_ran,
            any: true,
            ..Readings::default()
        };
        let (counters, still) = application(&readings);
        let names: Vec<&str> = counters.iter().map(|c| c.sensor.as_str()).collect();
        assert_eq!(names, ["perf pkg"]);
        assert!(
            matches!(&still[..], [note] if note.starts_with("perf psys stood still")),
            "{still:?}"
        );
    }

    fn joules(recordings: &[Recording]) -> Vec<f64> {
        let series = clscope_trace::sensors::Series {
            source: "nvml:energy:0".into(),
            name: "energy".into(),
            quantity: Quantity::Energy,
            ..Default::default()
        };
        let points = |of: &Recording| -> Vec<(HostNs, f64)> {
            let n = (of.length + of.tail) / of.period;
            let at = (0..=n).map(|i| of.from + of.late + i * of.period);
            let ends = [of.from + of.late + of.length + of.tail];
            let watts = of.watts;
            let place = |at: i64| (HostNs(at * MS), watts * (at - of.from) as f64 * 1e-3);
            let mut points: Vec<_> = at.chain(ends).map(place).collect();
            points.dedup_by_key(|p| p.0);
            points
        };
        let starts = recordings.iter().skip(1).map(|of| points(of)[0].0).collect();
        let run = |of: &Recording| (HostNs(of.from * MS), HostNs((of.from + of.length) * MS));
        let sensor = Sensor {
            host: 0,
            series,
            points: recordings.iter().flat_map(points).collect(),
            windows: Vec::new(),
            period_ns: None,
            starts,
            dead: None,
            repeats: false,
        };
        let readings = Readings {
            sensors: vec![sensor],
            application: BTreeMap::from([(0, recordings.iter().map(run).collect())]),
            any: true,
            ..Readings::default()
        };
        application(&readings).0.iter().map(|of| of.joules).collect()
    }

    const MS: i64 = 1_000_000;

    /// A run, in milliseconds: when it begins, its length, when after its start its counter was read
    /// first, how often, and for how long behind its end.
    #[derive(Debug, Clone, Copy)]
    struct Recording {
        from: i64,
        length: i64,
        late: i64,
        period: i64,
        tail: i64,
        watts: f64,
    }

    proptest::proptest! {
        /// However close runs lie, and however seldom counters are read: all of them together took
        /// what each took.
        #[test]
        fn counters_of_all_runs_say_the_sum_of_what_they_say_of_each(
            runs in proptest::collection::vec(
                (1_500i64..4_000, -300i64..300, 10i64..1_000, 0i64..300, 0i64..200, 50.0f64..400.0),
                2..5,
            )
        ) {
            let mut from = 1_000;
            let mut recordings: Vec<Recording> = Vec::new();
            for (length, late, period, tail, gap, watts) in runs {
                // The next recording begins when this one has ended.
                from += (-late).max(0);
                recordings.push(Recording { from, length, late, period, tail, watts });
                from += length + tail + late.max(0) + gap + 2;
            }
            let each: f64 = recordings.iter().flat_map(|of| joules(&[*of])).sum();
            let all = joules(&recordings);
            proptest::prop_assert!((all[0] / each - 1.0).abs() < 1e-9, "{all:?} {each}");
        }
    }

    #[test]
    fn counters_of_several_runs_are_summed_without_what_lies_between() {
        // 50 W for two seconds of each recording; each begins anew, ten seconds apart.
        let recording = |from: i64| {
            (0..=200).map(move |at| (HostNs((from * 100 + at) * 10_000_000), at as f64 * 0.5))
        };
        let series = clscope_trace::sensors::Series {
            source: "perf".into(),
            name: "pkg".into(),
            quantity: Quantity::Energy,
            ..Default::default()
        };
        let sensor = Sensor {
            host: 0,
            series,
            points: recording(0).chain(recording(12)).collect(),
            windows: Vec::new(),
            period_ns: Some(1e7),
            starts: Vec::new(),
            dead: None,
            repeats: false,
        };
        let run =
            |from: f64| (HostNs(((from + 0.5) * 1e9) as i64), HostNs(((from + 1.5) * 1e9) as i64));
        let readings = Readings {
            sensors: vec![sensor],
            application: BTreeMap::from([(0, vec![run(0.0), run(12.0)])]),
            any: true,
            ..Readings::default()
        };
        let (counters, _) = application(&readings);
        let [pkg] = &counters[..] else { panic!("{counters:?}") };
        assert!((pkg.joules - 100.0).abs() < 1e-6 && (pkg.seconds - 2.0).abs() < 1e-6, "{pkg:?}");
        assert!((pkg.joules / pkg.seconds - 50.0).abs() < 1e-6);
    }
}
