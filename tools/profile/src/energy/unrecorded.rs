//! Owns the time in which what a device did is in no record: while recording was paused, and at the
//! end of a recording while a process that was ended was inside an OpenCL call. Readings of that
//! time are left out, so that work is not taken for rest. Refuses to guess what it was.

use super::activity::PhysicalDevice;
use super::readings::Readings;
use clscope_analysis::Trace;
use clscope_analysis::energy::{HostNs, Series};
use clscope_analysis::stats::beside::Repeated;
use clscope_analysis::time::ProcessIndex;
use std::collections::{BTreeMap, BTreeSet};

/// One such time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unrecorded {
    pub from: HostNs,
    pub to: HostNs,
    /// What happened, to which process.
    why: String,
}

/// Those of a device, in order of time. Where others went on, only what comes behind the last
/// command that is known is one. `paused`: when recording was, by process.
pub(super) fn of_device(
    trace: &Trace<'_>,
    device: &PhysicalDevice,
    paused: &[Repeated],
    readings: &Readings,
) -> Vec<Unrecorded> {
    let members: BTreeSet<ProcessIndex> = device.members.iter().map(|m| m.0).collect();
    let pauses = members.iter().filter_map(|index| Some((*index, paused.get(index.0 as usize)?)));
    let mut out: Vec<Unrecorded> = pauses
        .flat_map(|(index, of)| of.spans().iter().map(move |span| (index, span)))
        .map(|(index, span)| Unrecorded {
            from: HostNs(span.begin.0),
            to: HostNs(span.end.0),
            why: format!("recording of {} was paused", trace.process(index).label),
        })
        .collect();
    let runs = readings.application.get(&device.host).map_or(&[][..], Vec::as_slice);
    for index in members {
        let process = trace.process(index);
        if process.definitions.exit.is_some() {
            continue;
        }
        let first = trace.in_calls(index).min_by_key(|(_, begin)| *begin);
        let Some((call, begin)) = first else { continue };
        let Some((_, to)) = runs.iter().find(|run| run.0 <= begin && begin < run.1) else {
            continue;
        };
        // Of this run: others may be reported with it.
        let last = device.spans.iter().map(|s| s.end).filter(|at| at < to).max();
        let from = last.map_or(begin, |at| at.max(begin));
        let function = process.definitions.function(call.function);
        let function = function.map_or("a call", |f| f.name.as_str());
        let why = format!("{} was ended inside {function}", process.label);
        out.push(Unrecorded { from, to: *to, why });
    }
    out.sort_by_key(|of| (of.from, of.to));
    // Processes of one run.
    out.dedup_by(|next, first| {
        let is_joined = next.from < first.to;
        if is_joined {
            first.to = first.to.max(next.to);
        }
        is_joined
    });
    out
}

impl Unrecorded {
    fn holds(&self, at: HostNs) -> bool {
        self.from < at && at < self.to
    }
}

/// What the user is told of them.
pub(super) fn notes(times: &[Unrecorded]) -> Vec<String> {
    let mut seconds: BTreeMap<&str, f64> = BTreeMap::new();
    for of in times {
        *seconds.entry(&of.why).or_default() += of.to.seconds_since(of.from);
    }
    let note = |(why, seconds): (&str, f64)| {
        format!(
            "{why}: what the device did in these {seconds:.1} s is not known, and readings of them are in no figure"
        )
    };
    seconds.into_iter().map(note).collect()
}

/// Why joules of a device cannot be assigned, where a filter kept commands out of the record.
pub(super) fn left_out(trace: &Trace<'_>, device: &PhysicalDevice) -> Option<String> {
    let mut members = device.members.iter().map(|member| trace.process(member.0));
    let of = members.find_map(|process| process.definitions.left_out().filter(|of| of.commands));
    Some(format!("{}, and joules of those are not known; record all", of?.why))
}

/// A series without its readings of these times; `None` where there are none.
pub(super) fn without(series: &Series, times: &[Unrecorded]) -> Option<Series> {
    let is_left_out = |at: HostNs| times.iter().any(|of| of.holds(at));
    let points = |all: &[(HostNs, f64)]| {
        all.iter().any(|p| is_left_out(p.0)).then(|| {
            let mut out: Vec<(HostNs, f64)> = Vec::with_capacity(all.len());
            let mut behind = false;
            for point in all {
                if is_left_out(point.0) {
                    behind = true;
                    continue;
                }
                // A value that is no number stands before each reading with which a recording
                // begins.
                if std::mem::take(&mut behind) && !point.1.is_nan() {
                    out.push((HostNs(point.0.0.saturating_sub(1)), f64::NAN));
                }
                out.push(*point);
            }
            out
        })
    };
    match series {
        Series::Cumulative(all) => points(all).map(Series::Cumulative),
        Series::Instant(all) => points(all).map(Series::Instant),
        Series::WindowMean(all) => {
            let reaches =
                |w: &(HostNs, HostNs, f64)| times.iter().any(|of| of.from < w.1 && w.0 < of.to);
            let kept = || all.iter().filter(|w| !reaches(w)).copied().collect();
            all.iter().any(reaches).then(|| Series::WindowMean(kept()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::energy::activity::Kind;
    use clscope_analysis::energy::{ClassId, DeviceIndex, Span, Timing};
    use clscope_analysis::testing::{HostModel, ProcessBuilder, function};
    use clscope_analysis::time;

    const MS: i64 = 1_000_000;

    /// The times of a device that one process used, which called clFinish until 9 ms and may be in
    /// another call since `in_call`; whose last command ended at `command`.
    fn times(
        in_order: bool,
        in_call: Option<i64>,
        command: i64,
        run: (i64, i64),
    ) -> Vec<(i64, i64)> {
        let mut builder = ProcessBuilder::standard(HostModel::default(), 100, 1);
        builder.anchor(0).anchor(100_000_000);
        builder.thread(0).plain(function::FINISH, 1_000_000, 9_000_000, 0, 1);
        builder.in_calls.extend(in_call.map(|at| (0, function::FINISH, (at * MS) as u64)));
        if in_order {
            builder.exit(9_000_000, 0);
        }
        let files = builder.build();
        let trace = Trace::open(vec![files.files("app")]);
        // The timeline begins elsewhere than the model's time.
        let origin = trace.origin().0 - MS;
        let at = |ms: i64| HostNs(origin + ms * MS);
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        device.members.push((ProcessIndex(0), 1));
        // The last one is of another run.
        device.spans.extend([command, 90].map(|end| Span {
            class: ClassId(0),
            device: DeviceIndex(0),
            start: at(end - 1),
            end: at(end),
            timing: Timing::Timed,
        }));
        let mut readings = Readings::default();
        readings.application.insert(0, vec![(at(run.0), at(run.1))]);
        let rounded = |of: HostNs| (of.0 - origin + MS / 2) / MS;
        of_device(&trace, &device, &[], &readings)
            .iter()
            .map(|t| (rounded(t.from), rounded(t.to)))
            .collect()
    }

    #[test]
    fn what_follows_a_call_in_which_a_process_was_ended_is_not_recorded() {
        assert_eq!(times(false, Some(12), 8, (0, 50)), [(12, 50)]);
        assert_eq!(times(false, None, 8, (0, 50)), [], "it was in no call");
        assert_eq!(times(true, Some(12), 8, (0, 50)), [], "it ended in order");
        // Others went on, and what they did is known.
        assert_eq!(times(false, Some(12), 40, (0, 50)), [(40, 50)]);
        // Where nothing says when the application ran, nothing is known of its end.
        assert_eq!(times(false, Some(12), 8, (60, 70)), []);
    }

    #[test]
    fn pauses_are_not_recorded_and_told_together() {
        let files = ProcessBuilder::standard(HostModel::default(), 100, 1).build();
        let trace = Trace::open(vec![files.files("app")]);
        let mut device = PhysicalDevice::named("gpu", "", Kind::Gpu);
        device.members.push((ProcessIndex(0), 1));
        let pause = |from: i64, to: i64| time::Span {
            begin: time::HostNs(from * MS),
            end: time::HostNs(to * MS),
        };
        let paused = [Repeated::joined(vec![pause(3_000, 4_500), pause(1_000, 2_000)])];
        let times = of_device(&trace, &device, &paused, &Readings::default());
        let at: Vec<_> = times.iter().map(|of| (of.from.0 / MS, of.to.0 / MS)).collect();
        assert_eq!(at, [(1_000, 2_000), (3_000, 4_500)]);
        let notes = notes(&times);
        assert!(notes.len() == 1 && notes[0].contains("these 2.5 s"), "{notes:?}");
    }

    fn between(from: i64, to: i64) -> Unrecorded {
        Unrecorded { from: HostNs(from), to: HostNs(to), why: String::new() }
    }

    #[test]
    fn readings_of_the_time_go_and_what_follows_is_a_recording_of_its_own() {
        let points: Vec<(HostNs, f64)> = (0..10).map(|i| (HostNs(i * 10), 5.0)).collect();
        let of = |times: &[Unrecorded]| match without(&Series::Instant(points.clone()), times) {
            Some(Series::Instant(left)) => {
                Some(left.iter().map(|p| (p.0.0, p.1.is_nan())).collect::<Vec<_>>())
            }
            _ => None,
        };
        let known = |times: &[i64]| times.iter().map(|t| (*t, false)).collect::<Vec<_>>();
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[between(41, 49)]), None, "none was read then");
        let mut left = known(&[0, 10, 20, 30, 70, 80, 90]);
        left.insert(4, (69, true));
        assert_eq!(of(&[between(35, 70)]), Some(left));
        assert_eq!(of(&[between(65, 999)]), Some(known(&[0, 10, 20, 30, 40, 50, 60])));
        let counter = Series::Cumulative(vec![(HostNs(0), f64::NAN), (HostNs(1), 1.0)]);
        assert_eq!(without(&counter, &[between(5, 9)]), None, "a mark is no reading");
    }

    #[test]
    fn windows_that_reach_into_the_time_go() {
        let windows = (0..5).map(|i| (HostNs(i * 10), HostNs(i * 10 + 10), 1.0)).collect();
        let Some(Series::WindowMean(left)) =
            without(&Series::WindowMean(windows), &[between(15, 30)])
        else {
            panic!("some reach into it")
        };
        let begins: Vec<i64> = left.iter().map(|w| w.0.0).collect();
        assert_eq!(begins, [0, 30, 40]);
    }
}
