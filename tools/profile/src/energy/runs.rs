//! Owns the joules of several runs that are reported together: each is attributed with the idle power
//! that it shows and with what all say of temperature, and figures of all are sums and means of those. Refuses runs whose
//! kernels are not known one by one: a fit over all of them may know more.

use super::attribute::{Floors, KnownFloor, RanOn, floors_of};
use super::power::Power;
use clscope_analysis::energy::{self as fit, Activity, Attribution, HostNs, Problem, Series, Span};

/// One run.
struct Run<'a> {
    activity: Activity,
    series: Series,
    temperature: &'a [(HostNs, f64)],
    floors: Floors,
}

impl Run<'_> {
    fn problem<'p>(&'p self, of_all: &Problem<'p>) -> Problem<'p> {
        Problem {
            activity: &self.activity,
            series: &self.series,
            temperature: self.temperature,
            floors: &self.floors.floors,
            states: &self.floors.states,
            ..*of_all
        }
    }
}

/// What all runs together cost, and what people are told of their floors; `None` where there is one
/// run, or a run leaves open what its kernels cost. `of_all`: the problem, whose activity, series
/// and floors are replaced by those of each run.
pub(super) fn attribute(
    of_all: &Problem<'_>,
    RanOn { device, times, .. }: RanOn<'_>,
    power: &Power,
    runs: &[(HostNs, HostNs)],
    known: Option<&KnownFloor>,
) -> Option<(Attribution, Vec<String>)> {
    if runs.len() < 2 {
        return None;
    }
    let middle = |pair: &[(HostNs, HostNs)]| HostNs(pair[0].1.0.midpoint(pair[1].0.0));
    let between: Vec<HostNs> = runs.windows(2).map(middle).collect();
    let begins = std::iter::once(HostNs(i64::MIN)).chain(between.iter().copied());
    let ends = between.iter().copied().chain([HostNs(i64::MAX)]);
    let each: Vec<Run<'_>> = begins
        .zip(ends)
        .map(|(from, to)| {
            let inside = |span: &&Span| from <= span.start && span.start < to;
            let spans: Vec<Span> = device.spans.iter().filter(inside).copied().collect();
            let activity = Activity::new(&spans, device.classes.len())
                .with_times(times)
                .with_runs(&device.runs());
            let series = power.series.between(from, to);
            let inside = |of: &(HostNs, f64)| from <= of.0 && of.0 < to;
            let first = of_all.temperature.partition_point(|of| of.0 < from);
            let many = of_all.temperature[first..].iter().take_while(|of| inside(of)).count();
            let temperature = &of_all.temperature[first..first + many];
            let of_run = Problem { activity: &activity, series: &series, temperature, ..*of_all };
            let floors = floors_of(&of_run, power.settle, known);
            Run { activity, series, temperature, floors }
        })
        .collect();
    let problems: Vec<Problem<'_>> = each.iter().map(|run| run.problem(of_all)).collect();
    let parts = fit::attribute_runs(&problems).ok()?;
    let mut told = Vec::<String>::new();
    for text in each.into_iter().filter_map(|run| run.floors.told) {
        if !told.contains(&text) {
            told.push(text);
        }
    }
    Some((fit::together(&parts)?, told))
}

#[cfg(test)]
mod tests {
    use super::super::activity::{Class, Kind, PhysicalDevice};
    use super::super::attribute::{Options, measure};
    use super::super::readings::Readings;
    use super::super::result::DeviceEnergy;
    use super::*;
    use crate::energy::alone::external::External;
    use clscope_analysis::Trace;
    use clscope_analysis::energy::{ClassId, DeviceIndex, ResponseModel, Timing};
    use proptest::prelude::*;

    const MS: i64 = 1_000_000;

    /// A run: what each of two kernels draws, the device at rest, milliseconds of a launch and of the
    /// rest behind it. It takes 6 s.
    type Run = ((f64, f64), f64, i64, i64);

    /// Runs that begin at these seconds, on one device that is read every 10 ms.
    fn measured(runs: &[(i64, Run)]) -> DeviceEnergy {
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        for name in ["a", "b"] {
            device.classes.push(Class { name: name.into(), kernel: true, repetition: false });
        }
        let (mut points, mut application) = (Vec::new(), Vec::new());
        for (begin, (watts, idle, length, rest)) in runs {
            let begin = begin * 1000;
            let period = length + rest;
            let count = 5_000 / period;
            let span = |i: i64| Span {
                class: ClassId(i as u32 % 2),
                device: DeviceIndex(0),
                start: HostNs((begin + 500 + i * period) * MS),
                end: HostNs((begin + 500 + i * period + length) * MS),
                timing: Timing::Timed,
            };
            device.spans.extend((0..count).map(span));
            let at = |ms: i64| {
                let (i, within) = ((ms - 500).div_euclid(period), (ms - 500).rem_euclid(period));
                let noise = 0.2 * ((ms / 10) % 3 - 1) as f64;
                noise
                    + match i {
                        0.. if i < count && within < *length => [watts.0, watts.1][i as usize % 2],
                        _ => *idle,
                    }
            };
            let readings = (0..600).map(|i| i * 10);
            points.extend(readings.map(|ms| (HostNs((begin + ms) * MS), at(ms))));
            points.push((HostNs((begin + 5_995) * MS), f64::NAN));
            application.push((HostNs(begin * MS), HostNs((begin + 5_990) * MS)));
        }
        let response = ResponseModel::lagged_samples(0.01);
        let power = Power::of_series(Series::Instant(points), response, 0.01, 0.06);
        let readings = Readings {
            application: std::collections::BTreeMap::from([(0, application)]),
            ..Readings::default()
        };
        measure(
            &Trace::open(Vec::new()),
            RanOn { device: &device, times: &[], own: &[], unrecorded: &[] },
            &power,
            &readings,
            &External::default(),
            &Options::default(),
        )
    }

    fn run() -> impl Strategy<Value = Run> {
        ((60.0f64..300.0, 60.0f64..300.0), 5.0f64..50.0, 30i64..90, 40i64..150)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4))]
        /// Joules of several runs are the sums of those of each, whatever the devices drew and did
        /// in each; power is their mean, weighted by time.
        #[test]
        fn joules_of_runs_are_the_sums_of_those_of_each(runs in prop::collection::vec(run(), 2..=2)) {
            let each: Vec<_> = runs.iter().map(|run| measured(&[(0, *run)])).collect();
            prop_assume!(each.iter().all(|e| e.classes.iter().all(|c| c.joules.is_some())));
            let placed: Vec<_> =
                runs.iter().enumerate().map(|(i, run)| (10 * i as i64, *run)).collect();
            let all = measured(&placed);
            let sum = |of: &dyn Fn(&DeviceEnergy) -> f64| each.iter().map(of).sum::<f64>();
            for at in 0..2 {
                let row = &all.classes[at];
                let joules = row.joules.unwrap();
                let right = sum(&|e| e.classes[at].joules.unwrap().value);
                prop_assert!((joules.value / right - 1.0).abs() < 1e-3, "{joules:?} {right}");
                let half = sum(&|e| e.classes[at].joules.unwrap().half());
                prop_assert!(joules.half() <= 1.01 * half, "{joules:?} {half}");
                let covered = sum(&|e| e.classes[at].covered_seconds);
                prop_assert!((row.watts.unwrap().value / (right / covered) - 1.0).abs() < 1e-3);
            }
            let joules = |e: &DeviceEnergy| e.floors.iter().filter_map(|f| Some(f.joules?.value)).sum();
            let idle = sum(&joules);
            let seen: f64 = joules(&all);
            prop_assert!((seen / idle - 1.0).abs() < 1e-3, "{seen} {idle}");
            let parts: f64 = all.parts().iter().map(|part| part.joules.value).sum();
            prop_assert!((parts / all.measured_joules.unwrap() - 1.0).abs() < 1e-9);
        }
    }
}
