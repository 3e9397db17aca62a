//! Owns what the page's timeline is drawn from: spans by lane, in columns that a compressor finds
//! much in. Bounded: where there are too many, neighbours are joined at the finest resolution that
//! fits. Refuses to draw.

use super::html::cut;
use crate::arguments::command_name;
use crate::lanes::Lanes;
use crate::layout;
use crate::power::Power;
use clscope_analysis::Trace;
use clscope_analysis::event::{Event, Outcome};
use clscope_analysis::time::{ProcessIndex, Span};
use clscope_profile::energy::activity::{self, class_name};
use clscope_profile::interval::Interval;
use clscope_profile::profile::View;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

/// One span.
#[derive(Debug, Clone, Copy, PartialEq)]
struct One {
    begin: i64,
    length: u64,
    class: u32,
    /// From the begin of the call that enqueued it, ns, and that call's lane; 0 for calls.
    enqueued: u64,
    from: u32,
    /// How many were joined into it.
    joined: u32,
    /// Mean watts over its length, as they were attributed; 0 where none are known.
    watts: f32,
}

/// What a lane is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// The process, or the device.
    pub group: String,
    /// Whether device commands are on it.
    pub device: bool,
    /// Whether they are the recorder's own: repetitions.
    pub repeated: bool,
    /// Number of its spans.
    pub spans: usize,
    /// Index of its process.
    pub process: u32,
    /// Thread of a host lane; queue of another.
    pub thread: u32,
}

/// Whether it is a device's, process, thread or queue, number among the queue's lanes: the order in
/// which lanes are drawn.
type LaneKey = (bool, u32, u32, usize);

/// What decides the class of a command: process, kernel, queue, what its joules are told apart by,
/// kind.
type What = (u32, u32, u32, u32, u8);

/// The lanes of a timeline.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Lanes in the order in which they are drawn.
    pub lanes: Vec<Lane>,
    spans: Vec<Vec<One>>,
    /// Names of what is drawn: kernels, commands, functions; the first so many are the device's.
    pub classes: Vec<String>,
    /// Whether each class is one of device commands.
    pub of_device: Vec<bool>,
    /// Watts of each class, where they are known. A kernel whose joules differ by device, size or
    /// place is several classes of one name.
    pub watts: Vec<Option<f64>>,
    /// Half of their 95 % intervals.
    pub watts_half: Vec<Option<f64>>,
    /// Part of each of as many equal stretches as were asked for in which a device ran something,
    /// by device. Of all spans, before any were joined.
    pub busy: BTreeMap<String, Vec<f64>>,
    /// Spans before any were joined.
    pub all: usize,
    /// Neighbours closer than this were joined, ns; 0 where each is drawn.
    pub resolution: u64,
}

impl Timeline {
    /// Of a trace, for `length` ns from `origin` on, with at most `most` spans; busy time in `bins`
    /// stretches.
    pub fn build(
        view: &View<'_>,
        power: &Power,
        (origin, length): (i64, u64),
        bins: usize,
        most: usize,
    ) -> Self {
        let trace = view.trace();
        let by = view.grouping();
        let variant = by.variant();
        let mut out = Self::default();
        let groups = groups(trace);
        let mut classes: HashMap<(bool, String, Option<u64>), u32> = HashMap::new();
        let mut functions: HashMap<(u32, u16), u32> = HashMap::new();
        let mut commands: HashMap<What, u32> = HashMap::new();
        let mut lanes: BTreeMap<LaneKey, (Lane, Vec<One>)> = BTreeMap::new();
        let mut queues: HashMap<(u32, u32), Lanes> = HashMap::new();
        let mut class = |out: &mut Self, device: bool, name: &str, known: Option<Interval>| {
            let known = known.filter(|w| w.value.is_finite());
            let watts = known.map(|w| w.value);
            let key = (device, name.to_owned(), watts.map(f64::to_bits));
            *classes.entry(key).or_insert_with(|| {
                out.classes.push(cut(name));
                out.of_device.push(device);
                out.watts.push(watts);
                out.watts_half.push(known.map(|w| w.longer()).filter(|half| half.is_finite()));
                (out.classes.len() - 1) as u32
            })
        };
        for event in trace.events(Some(view.alignment())) {
            match event {
                Event::Call(call) => {
                    let definitions = &trace.process(call.process).definitions;
                    let class =
                        *functions.entry((call.process.0, call.function)).or_insert_with(|| {
                            let name = definitions.function_name(call.function);
                            class(&mut out, false, &name, None)
                        });
                    let key = (false, call.process.0, call.thread.0, 0);
                    let lane = lanes.entry(key).or_insert_with(|| {
                        let known = definitions.threads.get(&call.thread.0);
                        let name = match known {
                            Some(t) if !t.name.is_empty() => format!("{} ({})", t.name, t.tid),
                            Some(t) => format!("thread {}", t.tid),
                            None => format!("thread {}", call.thread.0),
                        };
                        let group = layout::process_name(trace, call.process.0);
                        let (process, thread) = (call.process.0, call.thread.0);
                        (Lane { name, group, process, thread, ..Lane::default() }, Vec::new())
                    });
                    lane.1.push(One {
                        begin: call.span.begin.0.saturating_sub(origin),
                        length: call.span.duration(),
                        class,
                        enqueued: 0,
                        from: 0,
                        joined: 1,
                        watts: 0.0,
                    });
                }
                Event::Command(command) => {
                    let Outcome::Timed(times) = &command.outcome else { continue };
                    let Some(placed) = &times.placed else { continue };
                    let definitions = &trace.process(command.process).definitions;
                    let record = &command.enqueued.record;
                    let (span, queue) = (placed.span(), record.queue);
                    let what = (
                        command.process.0,
                        record.object,
                        queue,
                        variant.map_or(0, |of| of(record)),
                        record.kind as u8,
                    );
                    let class = *commands.entry(what).or_insert_with(|| {
                        let name = command_name(&command.enqueued, definitions);
                        let device = definitions.clock_device(queue).unwrap_or(0);
                        let watts = class_name(trace, &command, by)
                            .and_then(|of| power.watts(command.process, device, &of));
                        class(&mut out, true, &name, watts)
                    });
                    let number = queues.entry((command.process.0, queue)).or_default().place(span);
                    let key = (true, command.process.0, queue, number);
                    let lane = lanes.entry(key).or_insert_with(|| {
                        let device = definitions.clock_device(queue).unwrap_or(0);
                        let name = definitions.queue_name(queue);
                        let name = match number {
                            0 => name,
                            n => format!("{name} lane {}", n + 1),
                        };
                        let known = groups.get(&(command.process.0, device)).cloned();
                        let group =
                            known.unwrap_or_else(|| definitions.device_name(device).into_owned());
                        let (process, thread) = (command.process.0, queue);
                        (
                            Lane { name, group, device: true, process, thread, ..Lane::default() },
                            Vec::new(),
                        )
                    });
                    let since = span.begin.since(command.call.begin);
                    let watts = out.watts.get(class as usize).copied().flatten();
                    lane.1.push(One {
                        begin: span.begin.0.saturating_sub(origin),
                        length: span.duration(),
                        class,
                        enqueued: since,
                        from: command.thread.0,
                        joined: 1,
                        watts: watts.unwrap_or(0.0) as f32,
                    });
                }
                _ => {}
            }
        }
        for batch in &power.repeated {
            let class = class(&mut out, true, &batch.name, batch.watts);
            let (process, thread) = (batch.process.0, batch.queue);
            // Behind the queue's own lanes.
            let lane = lanes.entry((true, process, thread, usize::MAX)).or_insert_with(|| {
                let definitions = &trace.process(batch.process).definitions;
                let name = format!("{} (repeated)", definitions.queue_name(thread));
                let of_device = groups.get(&(process, batch.device)).cloned();
                let group = of_device.unwrap_or_else(|| {
                    let definitions = &trace.process(batch.process).definitions;
                    definitions.device_name(batch.device).into_owned()
                });
                let lane =
                    Lane { name, group, device: true, repeated: true, process, thread, spans: 0 };
                (lane, Vec::new())
            });
            lane.1.push(One {
                begin: batch.span.begin.0.saturating_sub(origin),
                length: batch.span.duration(),
                class,
                enqueued: 0,
                from: 0,
                joined: u32::try_from(batch.count).unwrap_or(u32::MAX).max(1),
                watts: batch.watts.map_or(0.0, |w| w.value as f32),
            });
        }
        for (lane, mut spans) in lanes.into_values() {
            spans.sort_by_key(|s| (s.begin, std::cmp::Reverse(s.length)));
            out.all += spans.len();
            out.lanes.push(Lane { name: cut(&lane.name), group: cut(&lane.group), ..lane });
            out.spans.push(spans);
        }
        out.busy = out.busy_parts(length, bins);
        out.join(most);
        for (lane, spans) in out.lanes.iter_mut().zip(&out.spans) {
            lane.spans = spans.len();
        }
        out
    }

    /// Joins neighbours until at most `most` spans are left.
    fn join(&mut self, most: usize) {
        let mut cell = 1_000;
        while self.spans.iter().map(Vec::len).sum::<usize>() > most.max(self.spans.len()) {
            cell *= 2;
            for lane in &mut self.spans {
                lane.dedup_by(|next, last| {
                    let near = next.begin.div_euclid(cell) == last.begin.div_euclid(cell);
                    if near {
                        let end = last
                            .begin
                            .saturating_add_unsigned(last.length)
                            .max(next.begin.saturating_add_unsigned(next.length));
                        // What is seen is the longer one.
                        if next.length > last.length {
                            last.class = next.class;
                        }
                        let joules = |of: &One| f64::from(of.watts) * of.length as f64;
                        let joules = joules(last) + joules(next);
                        last.length = u64::try_from(end.saturating_sub(last.begin)).unwrap_or(0);
                        last.watts = (joules / last.length.max(1) as f64) as f32;
                        last.joined = last.joined.saturating_add(next.joined);
                    }
                    near
                });
            }
            self.resolution = cell as u64;
        }
    }

    /// Part of each of `bins` equal stretches in which some lane of a device was busy, by device.
    fn busy_parts(&self, length: u64, bins: usize) -> BTreeMap<String, Vec<f64>> {
        let mut lanes: BTreeMap<&str, Vec<&[One]>> = BTreeMap::new();
        for (lane, spans) in
            self.lanes.iter().zip(&self.spans).filter(|(l, _)| l.device && !l.repeated)
        {
            lanes.entry(&lane.group).or_default().push(spans);
        }
        let width = (length as f64 / bins as f64).max(1.0);
        let parts = |lanes: Vec<&[One]>| {
            let mut spans: Vec<(i64, i64)> = lanes
                .into_iter()
                .flatten()
                .map(|s| (s.begin, s.begin.saturating_add_unsigned(s.length)))
                .collect();
            spans.sort_unstable();
            let mut of = vec![0.0; bins];
            let mut covered = i64::MIN;
            for (begin, end) in spans {
                // What runs at once counts once.
                let (mut at, end) = (begin.max(covered) as f64, end as f64);
                covered = covered.max(end as i64);
                // Rounding may put the end of a stretch before it: the next one follows all the
                // same.
                let first = ((at / width).max(0.0) as usize).min(bins - 1);
                for (bin, part) in of.iter_mut().enumerate().skip(first) {
                    let to = if bin + 1 == bins { end } else { end.min((bin + 1) as f64 * width) };
                    *part += (to - at).max(0.0) / width;
                    at = at.max(to);
                    if at >= end {
                        break;
                    }
                }
            }
            // Clock bounds may put an end beyond the last stretch.
            of.iter_mut().for_each(|x| *x = x.min(1.0));
            of
        };
        lanes.into_iter().map(|(name, lanes)| (name.to_owned(), parts(lanes))).collect()
    }

    /// The spans as columns, lane after lane: gap from the last begin, length, class, time since
    /// the enqueue, lane of the enqueue, joined spans, and of those mean watts as bits of a float;
    /// each column's bytes by significance, all compressed.
    pub fn columns(&self) -> std::io::Result<Vec<u8>> {
        let mut columns: [Vec<u32>; 10] = Default::default();
        for lane in &self.spans {
            let mut last = 0;
            for span in lane {
                let gap = u64::try_from(span.begin.saturating_sub(last)).unwrap_or(0);
                last = span.begin;
                let low = |x: u64| (x & 0xffff_ffff) as u32;
                let high = |x: u64| (x >> 32) as u32;
                let values = [
                    low(gap),
                    high(gap),
                    low(span.length),
                    high(span.length),
                    span.class,
                    low(span.enqueued),
                    high(span.enqueued),
                    span.from,
                    span.joined,
                    // Of one by itself they are its class's.
                    if span.joined > 1 { span.watts.to_bits() } else { 0 },
                ];
                columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
            }
        }
        let mut out = crate::compressed(Vec::new());
        for column in &columns {
            for byte in 0..4 {
                let bytes: Vec<u8> = column.iter().map(|x| x.to_le_bytes()[byte]).collect();
                out.write_all(&bytes)?;
            }
        }
        out.finish()
    }

    /// Where everything lies, for tests.
    #[cfg(test)]
    fn count(&self) -> (usize, u32) {
        let spans = self.spans.iter().flatten();
        (self.spans.iter().map(Vec::len).sum(), spans.map(|s| s.joined).sum())
    }
}

/// What each device of a process is called: its name, with its host where there are several.
fn groups(trace: &Trace<'_>) -> HashMap<(u32, u32), String> {
    let (devices, of) = activity::devices(trace);
    let hosts = &trace.timeline.hosts;
    let label = |(process, id): &(u32, u32), at: usize| {
        let device = devices.get(at)?;
        let name = trace.process(ProcessIndex(*process)).definitions.device_name(*id);
        let host = hosts.get(device.host).filter(|_| hosts.len() > 1);
        Some(host.map_or_else(|| name.to_string(), |host| format!("{name} on {}", host.name)))
    };
    of.iter().filter_map(|(key, at)| Some((*key, label(key, *at)?))).collect()
}

/// First begin to last end of anything.
pub fn bounds(view: &View<'_>) -> Span {
    view.stats().extent().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_over_all_stretches_fills_them() {
        // Lengths at which the ends of stretches are no whole numbers.
        for length in (1u64..400).map(|i| i * 7_919_113 + 1) {
            let one =
                One { begin: 0, length, class: 0, enqueued: 0, from: 0, joined: 1, watts: 0.0 };
            let (name, group) = ("q".into(), "d".into());
            let lane = Lane { name, group, device: true, ..Lane::default() };
            let timeline =
                Timeline { lanes: vec![lane], spans: vec![vec![one]], ..Timeline::default() };
            let busy = timeline.busy_parts(length, 240)["d"].clone();
            assert!(busy.iter().all(|b| (b - 1.0).abs() < 1e-6), "{length}: {busy:?}");
        }
    }

    #[test]
    fn joined_spans_are_counted_and_keep_their_extent() {
        let one = |i: i64| One {
            begin: i * 1_000,
            length: 600,
            class: (i % 3) as u32,
            enqueued: 5,
            from: 0,
            joined: 1,
            watts: 20.0,
        };
        let (name, group) = ("q".into(), "d".into());
        let lane = Lane { name, group, device: true, ..Lane::default() };
        let mut timeline = Timeline {
            lanes: vec![lane],
            spans: vec![(0..10_000).map(one).collect()],
            ..Timeline::default()
        };
        let busy = timeline.busy_parts(10_000_000, 10)["d"].clone();
        assert!(busy.iter().all(|b| (b - 0.6).abs() < 0.01), "{busy:?}");
        timeline.join(500);
        let (spans, joined) = timeline.count();
        assert!(spans <= 500 && spans > 100 && joined == 10_000, "{spans} {joined}");
        assert!(timeline.resolution >= 16_000);
        let last = timeline.spans[0].last().unwrap();
        assert_eq!(last.begin + last.length as i64, 9_999_600);
        // 20 W while a span lasted, and nothing in the gaps that were joined: the joules are kept.
        let joules = |s: &One| f64::from(s.watts) * s.length as f64 * 1e-9;
        let all: f64 = timeline.spans.iter().flatten().map(joules).sum();
        assert!((all / (20.0 * 10_000.0 * 600e-9) - 1.0).abs() < 1e-5, "{all}");
    }

    #[test]
    fn lanes_that_are_busy_at_once_count_once() {
        let one = |begin, length| One {
            begin,
            length,
            class: 0,
            enqueued: 0,
            from: 0,
            joined: 1,
            watts: 0.0,
        };
        let lane = |name: &str, thread| {
            let (name, group) = (name.into(), "d".into());
            Lane { name, group, device: true, thread, ..Lane::default() }
        };
        let timeline = Timeline {
            lanes: vec![lane("a", 1), lane("b", 2)],
            // 400 of 1000 ns together; the second lane begins before, within and after the first's.
            spans: vec![vec![one(100, 200)], vec![one(50, 100), one(200, 50), one(350, 150)]],
            ..Timeline::default()
        };
        let busy = &timeline.busy_parts(1_000, 2)["d"];
        assert!((busy[0] - 0.8).abs() < 1e-9 && busy[1] == 0.0, "{busy:?}");
    }
}
