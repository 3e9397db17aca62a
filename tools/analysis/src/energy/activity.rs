//! Owns device activity: spans of classes become segments in which every instant of a device is
//! shared among the commands that run in it. Refuses to look at sensors; that is `response`.

use super::units::{ClassId, DeviceIndex, HostNs};

/// How a span's times are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// Start and end were stamped by the device.
    Timed,
    /// Not stamped: placed by the caller (host stamps, order in the queue, mean duration of its
    /// class).
    Estimated {
        /// Standard deviation of the duration, in nanoseconds.
        sd_ns: f64,
    },
}

/// One command's execution on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// What ran.
    pub class: ClassId,
    /// Where: overlapping spans of one device share its time.
    pub device: DeviceIndex,
    /// When it started.
    pub start: HostNs,
    /// When it ended.
    pub end: HostNs,
    /// How well the two are known.
    pub timing: Timing,
}

/// A stretch in which one span runs with a constant share of its device. Seconds from the fit's
/// origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    pub from: f64,
    pub to: f64,
    pub class: u32,
    /// Busy seconds per second: 1 / commands sharing the device.
    pub share: f64,
    /// Variance of this segment's busy time over its square: zero when timed.
    pub spread: f64,
}

/// Totals of one class over all of its spans.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassTime {
    /// Launches: spans.
    pub launches: f64,
    /// Device-busy seconds after sharing.
    pub busy_s: f64,
}

/// The time of a class whose spans were placed: an estimate that knows more than they do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EstimatedTime {
    /// That time over the time of the spans.
    pub ratio: f64,
    /// Half-width of its 95 % interval, as a share of it; infinite where it is not known.
    pub relative: f64,
}

impl EstimatedTime {
    /// Spans that were all timed.
    pub const TIMED: Self = Self { ratio: 1.0, relative: 0.0 };
}

/// Everything the fit needs to know of the devices' activity.
#[derive(Clone, Debug)]
pub struct Activity {
    pub(crate) origin: HostNs,
    pub(crate) segments: Vec<Segment>,
    pub(crate) totals: Vec<ClassTime>,
    /// By class; empty where all were timed.
    estimated: Vec<EstimatedTime>,
    /// Whether any segment carries a spread.
    pub(crate) uncertain: bool,
    /// Devices seen.
    pub(crate) devices: usize,
    rejected: u64,
    /// When anything could run, in seconds; empty where that is not given.
    pub(crate) runs: Vec<(f64, f64)>,
}

impl Activity {
    /// Shares device time among overlapping spans and orders the result. `classes` is the number of
    /// classes; spans of a class beyond it, with an end before the start, or with an impossible
    /// probability are rejected and counted. Cost: a sort (free when sorted already), then linear
    /// in spans and overlaps.
    pub fn new(spans: &[Span], classes: usize) -> Self {
        let origin = spans.iter().map(|s| s.start).min().unwrap_or(HostNs(0));
        let mut totals = vec![ClassTime::default(); classes];
        let mut rejected = 0;
        let mut uncertain = false;
        let mut devices: Vec<(DeviceIndex, Vec<Run>)> = Vec::new();
        for span in spans {
            let Some(run) = Run::new(span, origin, classes) else {
                rejected += 1;
                continue;
            };
            uncertain |= run.spread > 0.0;
            totals[span.class.index()].launches += 1.0;
            match devices.iter_mut().find(|(device, _)| *device == span.device) {
                Some((_, runs)) => runs.push(run),
                None => devices.push((span.device, vec![run])),
            }
        }
        let count = devices.len();
        let mut segments = Vec::with_capacity(spans.len());
        for (_, mut runs) in devices {
            if !runs.is_sorted_by(|a, b| a.from <= b.from) {
                runs.sort_by(|a, b| a.from.total_cmp(&b.from));
            }
            share_device(&runs, &mut segments);
        }
        if count > 1 {
            segments.sort_by(|a, b| a.from.total_cmp(&b.from));
        }
        for segment in &segments {
            totals[segment.class as usize].busy_s += segment.share * (segment.to - segment.from);
        }
        Self {
            origin,
            segments,
            totals,
            estimated: Vec::new(),
            uncertain,
            devices: count,
            rejected,
            runs: Vec::new(),
        }
    }

    /// With the time of each class as it was estimated, in class order.
    pub fn with_times(mut self, estimated: &[EstimatedTime]) -> Self {
        self.estimated = estimated.to_vec();
        self
    }

    /// How a class's time is known.
    pub(crate) fn estimated(&self, class: usize) -> EstimatedTime {
        self.estimated.get(class).copied().unwrap_or(EstimatedTime::TIMED)
    }

    /// With when anything could run, in order: what lies between is no gap between launches.
    pub fn with_runs(mut self, runs: &[crate::time::Span]) -> Self {
        let seconds = |at: HostNs| at.seconds_since(self.origin);
        self.runs = runs.iter().map(|run| (seconds(run.begin), seconds(run.end))).collect();
        self
    }

    /// Totals by class, in class order.
    pub fn totals(&self) -> &[ClassTime] {
        &self.totals
    }

    /// Spans that could not be used.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.totals.len()
    }

    /// Stretches in which nothing ran, in seconds: the first has no beginning, the last no end.
    pub(crate) fn gaps(&self) -> Vec<(f64, f64)> {
        let (mut gaps, mut end) = (Vec::new(), f64::NEG_INFINITY);
        for segment in &self.segments {
            if segment.from > end {
                gaps.push((end, segment.from));
            }
            end = end.max(segment.to);
        }
        gaps.push((end, f64::INFINITY));
        gaps
    }

    pub(crate) fn seconds(&self, at: HostNs) -> f64 {
        at.seconds_since(self.origin)
    }
}

/// A usable span, in seconds.
#[derive(Clone, Copy)]
struct Run {
    from: f64,
    to: f64,
    class: u32,
    spread: f64,
}

impl Run {
    fn new(span: &Span, origin: HostNs, classes: usize) -> Option<Self> {
        if span.end < span.start || span.class.index() >= classes {
            return None;
        }
        let from = span.start.seconds_since(origin);
        let to = span.end.seconds_since(origin);
        let spread = match span.timing {
            Timing::Timed => 0.0,
            Timing::Estimated { sd_ns } if sd_ns >= 0.0 && sd_ns.is_finite() => {
                let length = to - from;
                if length > 0.0 { (sd_ns * 1e-9 / length).powi(2) } else { 0.0 }
            }
            Timing::Estimated { .. } => return None,
        };
        Some(Self { from, to, class: span.class.0, spread })
    }
}

/// Cuts the runs of one device (sorted by start) wherever the set of running commands changes.
fn share_device(runs: &[Run], out: &mut Vec<Segment>) {
    let mut active: Vec<Run> = Vec::new();
    let mut now = f64::NEG_INFINITY;
    let emit = |active: &[Run], from: f64, to: f64, out: &mut Vec<Segment>| {
        let share = 1.0 / active.len() as f64;
        out.extend(active.iter().map(|run| Segment {
            from,
            to,
            class: run.class,
            share,
            spread: run.spread,
        }));
    };
    for (i, run) in runs.iter().enumerate() {
        // The common case, an in-order queue: nothing else is running and nothing starts before
        // this ends.
        if active.is_empty() && runs.get(i + 1).is_none_or(|next| next.from >= run.to) {
            if run.to > run.from {
                emit(std::slice::from_ref(run), run.from, run.to, out);
            }
            now = run.to;
            continue;
        }
        advance(&mut active, &mut now, run.from, out, &emit);
        active.push(*run);
    }
    advance(&mut active, &mut now, f64::INFINITY, out, &emit);
}

/// Plays ends of running commands up to `until`.
fn advance(
    active: &mut Vec<Run>,
    now: &mut f64,
    until: f64,
    out: &mut Vec<Segment>,
    emit: &impl Fn(&[Run], f64, f64, &mut Vec<Segment>),
) {
    while !active.is_empty() {
        let end = active.iter().fold(f64::INFINITY, |least, run| least.min(run.to));
        let stop = end.min(until);
        if stop > *now {
            emit(active, *now, stop, out);
            *now = stop;
        }
        if end > until {
            return;
        }
        active.retain(|run| run.to > end);
    }
    *now = if until.is_finite() { until } else { *now };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(class: u32, device: u16, start: i64, end: i64) -> Span {
        Span {
            class: ClassId(class),
            device: DeviceIndex(device),
            start: HostNs(start),
            end: HostNs(end),
            timing: Timing::Timed,
        }
    }

    fn busy(spans: &[Span], classes: usize) -> Vec<f64> {
        Activity::new(spans, classes).totals.iter().map(|t| t.busy_s * 1e9).collect()
    }

    #[test]
    fn overlapping_commands_share_their_device() {
        let cases: [(&str, &[Span], &[f64]); 6] = [
            ("apart", &[span(0, 0, 0, 100), span(1, 0, 100, 300)], &[100.0, 200.0]),
            ("half over", &[span(0, 0, 0, 100), span(1, 0, 50, 150)], &[75.0, 75.0]),
            ("inside", &[span(0, 0, 0, 100), span(1, 0, 20, 40)], &[90.0, 10.0]),
            ("three", &[span(0, 0, 0, 30), span(1, 0, 0, 30), span(1, 0, 0, 30)], &[10.0, 20.0]),
            ("two devices", &[span(0, 0, 0, 100), span(1, 1, 0, 100)], &[100.0, 100.0]),
            (
                "gap after overlap",
                &[span(0, 0, 0, 10), span(1, 0, 5, 10), span(0, 0, 50, 60)],
                &[17.5, 2.5],
            ),
        ];
        for (name, spans, expected) in cases {
            for (class, (got, want)) in busy(spans, 2).iter().zip(expected).enumerate() {
                assert!((got - want).abs() < 1e-6, "{name}: class {class} has {got}, not {want}");
            }
        }
    }

    #[test]
    fn impossible_spans_are_counted_not_used() {
        let mut never = span(0, 0, 0, 10);
        never.timing = Timing::Estimated { sd_ns: f64::NAN };
        let activity =
            Activity::new(&[span(0, 0, 10, 0), span(7, 0, 0, 10), never, span(0, 0, 5, 9)], 1);
        assert_eq!(activity.rejected(), 3);
        assert_eq!(activity.totals[0].launches, 1.0);
    }
}
