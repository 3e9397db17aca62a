//! Owns the alignment of device clocks with the host's, offline, from what every command proves
//! about them:
//!
//! * the enqueue call began before START, and the host knew of END after END (always true);
//! * where the runtime is proved to stamp QUEUED inside the enqueue call: the call began before
//!   QUEUED and returned after it, which is much tighter; NVIDIA's runtime reads SUBMIT there too;
//! * what holds for QUEUED and SUBMIT of a command holds for the recorder's own markers, whose
//!   calls are shorter.
//!
//! Per process and device. The bounds are thinned to the tightest per stretch of device time, so
//! memory does not grow with the trace; `envelope` turns them into a piecewise steady clock with an
//! error band. Refuses to use QUEUED unless the data distinguish it from a stamp invented at START
//! (one that also fits with START - constant in its place proves nothing), or the runtime is one of
//! which it is known ([`STAMPS_IN_CALL`]); the data must agree in any case.

mod constant;
mod credible;
mod envelope;
mod placed;

pub(crate) use constant::disprove;
pub use credible::{Rate, credible, queued_is_known};
pub use envelope::{MOST_DRIFT, WANDER};
pub use placed::{Alignment, DeviceAlignment, Queued};

use crate::Trace;
use crate::ids::IdMap;
use crate::time::{HostNs, ProcessIndex, Span, Ticks};
use envelope::{Bound, Effort, Fit, best_slope, fit};
use placed::Stretch;
use std::collections::{BTreeMap, VecDeque};

/// Platforms whose stamps were measured to be read inside the enqueue call, on its thread: name
/// (CL_PLATFORM_NAME), and whether that holds for SUBMIT too. PoCL takes QUEUED from the host's own
/// clock in the call. NVIDIA's runtime reads the GPU's timer twice in the call, 2.6 microseconds
/// each, where an event is asked for on a profiling queue: without the profiling bit the call is
/// shorter by just that, and SUBMIT - QUEUED is 2.6 microseconds in nine of ten commands.
pub const STAMPS_IN_CALL: &[(&str, bool)] =
    &[("Portable Computing Language", false), ("NVIDIA CUDA", true)];

/// Most stretches for which the tightest bounds are kept, per kind of bound.
const MOST_CELLS: usize = 4096;
/// First length of a stretch: 2^16 ns.
const FIRST_SHIFT: u32 = 16;

/// Whether the four stamps can be those of a command that ran.
pub fn possible([queued, submit, start, end]: [u64; 4]) -> bool {
    queued <= submit && submit <= start && start <= end && start > 0 && end < 1 << 62
}

/// The tightest bounds of one kind per stretch of device time.
#[derive(Debug, Clone)]
struct Tightest {
    /// +1 keeps the highest (low bounds), -1 the lowest (high bounds).
    sign: f64,
    shift: u32,
    cells: BTreeMap<i64, (i64, i64)>,
    /// The stretch used last, kept out of the map: commands come nearly in order.
    current: Option<(i64, (i64, i64))>,
}

impl Tightest {
    fn new(sign: f64) -> Self {
        Self { sign, shift: FIRST_SHIFT, cells: BTreeMap::new(), current: None }
    }

    fn tighter(&self, a: (i64, i64), b: (i64, i64), slope: f64) -> (i64, i64) {
        let flat = |p: (i64, i64)| self.sign * (p.1 as f64 - slope * p.0 as f64);
        if flat(b) > flat(a) { b } else { a }
    }

    /// Adds a bound; true when the stretches have become too many.
    #[inline]
    fn add(&mut self, x: i64, y: i64, slope: f64) -> bool {
        let cell = x >> self.shift;
        match self.current {
            Some((c, best)) if c == cell => {
                self.current = Some((c, self.tighter(best, (x, y), slope)))
            }
            _ => {
                self.store(slope);
                self.current = Some((cell, (x, y)));
            }
        }
        self.cells.len() > MOST_CELLS
    }

    fn store(&mut self, slope: f64) {
        if let Some((cell, point)) = self.current.take() {
            let best = self.cells.get(&cell).map_or(point, |old| self.tighter(*old, point, slope));
            self.cells.insert(cell, best);
        }
    }

    /// Doubles the stretches until they are few.
    fn coarsen(&mut self, slope: f64) {
        self.store(slope);
        while self.cells.len() > MOST_CELLS / 2 {
            self.shift += 1;
            let old = std::mem::take(&mut self.cells);
            for (cell, point) in old {
                let best =
                    self.cells.get(&(cell >> 1)).map_or(point, |p| self.tighter(*p, point, slope));
                self.cells.insert(cell >> 1, best);
            }
        }
    }

    fn points(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        self.cells.values().copied().chain(self.current.map(|c| c.1))
    }
}

/// Most epochs of one clock: one that runs back more often is no clock.
const MOST_EPOCHS: usize = 32;
/// Observations kept to see a clock run back.
const RECENT: usize = 1024;

/// Evidence about one device's clock while it is collected.
#[derive(Debug, Clone)]
struct Evidence {
    process: ProcessIndex,
    device: u32,
    commands: u64,
    rate: credible::Rate,
    lengths: constant::Lengths,
    /// (when observed, latest END seen by then), in order.
    recent: VecDeque<(HostNs, u64)>,
    epochs: Vec<Epoch>,
}

/// Bounds of one device's clock between two moments at which it was set back. After such a step the
/// same device times come a second time, so that only host time separates the stretches; other
/// steps are found by the fit.
#[derive(Debug, Clone)]
struct Epoch {
    /// For commands enqueued from here on.
    from: HostNs,
    /// Device and host time from which x and y are counted.
    origin: (u64, i64),
    slope: f64,
    start: Tightest,
    end: Tightest,
    queued_low: Tightest,
    queued_high: Tightest,
    submit_high: Tightest,
    /// SUBMIT - QUEUED was never longer than the call.
    submit_fits: bool,
    /// As `queued_high`, with START for QUEUED.
    start_high: Tightest,
    /// Least START - QUEUED.
    least_wait: u64,
}

impl Evidence {
    fn new(process: ProcessIndex, device: u32) -> Self {
        Self {
            process,
            device,
            commands: 0,
            rate: credible::Rate::default(),
            lengths: constant::Lengths::default(),
            recent: VecDeque::new(),
            epochs: Vec::new(),
        }
    }

    /// The epoch being filled; the first begins with the first evidence.
    fn last(&mut self, stamp: u64, host: HostNs) -> &mut Epoch {
        if self.epochs.is_empty() {
            self.epochs.push(Epoch::new(HostNs(i64::MIN), (stamp, host.0)));
        }
        let last = self.epochs.len() - 1;
        &mut self.epochs[last]
    }

    fn add(&mut self, stamps: [u64; 4], call: Span, observed: HostNs) {
        self.commands += 1;
        self.rate.add(stamps, call, observed);
        let [_, _, start, end] = stamps;
        self.lengths.add(end - start);
        // What was seen complete before this command was enqueued ended before it began, unless the
        // clock was set back.
        let before = self.recent.partition_point(|(seen, _)| *seen <= call.begin);
        let ended = before.checked_sub(1).and_then(|i| self.recent.get(i)).map(|(_, end)| *end);
        if ended.is_some_and(|ended| start < ended) && self.epochs.len() < MOST_EPOCHS {
            self.epochs.push(Epoch::new(call.begin, (start, call.begin.0)));
            self.recent.clear();
        }
        let latest = self.recent.back().map_or(end, |(_, latest)| end.max(*latest));
        self.recent.push_back((observed, latest));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
        let epoch = self.last(start, call.begin);
        // A command in flight at such a step may belong to either side: it is no evidence.
        if call.begin >= epoch.from {
            epoch.add(stamps, call, observed);
        }
    }

    /// `known`: whether the runtime is one of [`STAMPS_IN_CALL`], and SUBMIT is too.
    fn finish(&self, jitter: f64, known: Option<bool>, effort: &Effort) -> DeviceAlignment {
        // One false time of the host looks like a clock set back: only what one clock cannot
        // explain is a step.
        let mut groups: Vec<(HostNs, (u64, i64), Kept)> = Vec::new();
        for epoch in &self.epochs {
            if let Some((_, origin, kept)) = groups.last_mut() {
                let both = kept.extended(epoch.kept(*origin));
                if fit(&both.safe(), effort).is_some_and(|f| f.pieces.len() == 1) {
                    *kept = both;
                    continue;
                }
            }
            groups.push((epoch.from, epoch.origin, epoch.kept(epoch.origin)));
        }
        let fitted: Vec<_> = groups.iter().map(|(_, _, kept)| kept.finish(known, effort)).collect();
        // Proved once is proved; contradicted once is reported.
        let queued = [Queued::Contradicted, Queued::Used]
            .into_iter()
            .find(|q| fitted.iter().any(|(f, _)| f == q));
        let left_out =
            fitted.iter().filter_map(|(_, f)| f.as_ref()).map(|f| f.left_out as u64).sum();
        let stretch = |from: HostNs, origin, fit: Option<Fit>| Stretch {
            from,
            origin,
            pieces: fit.map_or_else(Vec::new, |f| f.pieces),
        };
        DeviceAlignment {
            process: self.process,
            device: self.device,
            commands: self.commands,
            is_clock: self.rate.is_clock(),
            equal_lengths: self.lengths.are_equal(),
            queued: queued.unwrap_or(Queued::Unproved),
            left_out,
            jitter,
            stretches: groups
                .iter()
                .zip(fitted)
                .map(|((from, origin, _), (_, f))| stretch(*from, *origin, f))
                .collect(),
        }
    }
}

impl Epoch {
    fn new(from: HostNs, origin: (u64, i64)) -> Self {
        let (low, high) = (Tightest::new(1.0), Tightest::new(-1.0));
        Self {
            from,
            origin,
            slope: 0.0,
            start: low.clone(),
            end: high.clone(),
            queued_low: low,
            queued_high: high.clone(),
            submit_high: high.clone(),
            submit_fits: true,
            start_high: high,
            least_wait: u64::MAX,
        }
    }

    /// Device time from the origin, and the offset that the host time `host` would mean for it.
    #[inline]
    fn point(&self, device: u64, host: HostNs) -> (i64, i64) {
        let x = device.wrapping_sub(self.origin.0) as i64;
        (x, host.0.wrapping_sub(self.origin.1).wrapping_sub(x))
    }

    fn add(&mut self, [queued, submit, start, end]: [u64; 4], call: Span, observed: HostNs) {
        self.submit_fits &= submit - queued <= call.duration();
        self.least_wait = self.least_wait.min(start - queued);
        let slope = self.slope;
        let mut full = false;
        for (tightest, stamp, host) in [
            (0, start, call.begin),
            (1, end, observed),
            (2, queued, call.begin),
            (3, queued, call.end),
            (4, submit, call.end),
            (5, start, call.end),
        ] {
            let (x, y) = self.point(stamp, host);
            let kept = match tightest {
                0 => &mut self.start,
                1 => &mut self.end,
                2 => &mut self.queued_low,
                3 => &mut self.queued_high,
                4 => &mut self.submit_high,
                _ => &mut self.start_high,
            };
            full |= kept.add(x, y, slope);
        }
        if full {
            self.coarsen();
        }
    }

    /// Adds what a marker of the recorder's own proves, in the terms of a command's enqueue.
    fn add_marker(&mut self, queued: u64, submit: u64, call: Span) {
        self.submit_fits &= submit - queued <= call.duration();
        let (x, low) = self.point(queued, call.begin);
        let (_, high) = self.point(queued, call.end);
        let (at, latest) = self.point(submit, call.end);
        let slope = self.slope;
        let full = [
            self.queued_low.add(x, low, slope),
            self.queued_high.add(x, high, slope),
            self.submit_high.add(at, latest, slope),
        ];
        if full.contains(&true) {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        let points = |t: &Tightest| t.points().collect::<Vec<_>>();
        self.slope = best_slope(&bounds(&[&points(&self.start)], &[&points(&self.end)], &[]));
        for kept in [
            &mut self.start,
            &mut self.end,
            &mut self.queued_low,
            &mut self.queued_high,
            &mut self.submit_high,
            &mut self.start_high,
        ] {
            kept.coarsen(self.slope);
        }
    }

    /// The kept bounds, counted from another origin.
    fn kept(&self, origin: (u64, i64)) -> Kept {
        let (x0, y0) = self.point(origin.0, HostNs(origin.1));
        let points = |t: &Tightest| {
            t.points().map(|(x, y)| (x.saturating_sub(x0), y.saturating_sub(y0))).collect()
        };
        Kept {
            start: points(&self.start),
            end: points(&self.end),
            queued_low: points(&self.queued_low),
            queued_high: points(&self.queued_high),
            submit_high: points(&self.submit_high),
            submit_fits: self.submit_fits,
            start_high: points(&self.start_high),
            least_wait: self.least_wait,
        }
    }
}

/// Bounds of one stretch, as (device time, offset) from its origin.
#[derive(Debug, Clone)]
struct Kept {
    start: Vec<(i64, i64)>,
    end: Vec<(i64, i64)>,
    queued_low: Vec<(i64, i64)>,
    queued_high: Vec<(i64, i64)>,
    submit_high: Vec<(i64, i64)>,
    submit_fits: bool,
    start_high: Vec<(i64, i64)>,
    least_wait: u64,
}

impl Kept {
    fn extended(&self, mut other: Self) -> Self {
        let mut out = self.clone();
        out.start.append(&mut other.start);
        out.end.append(&mut other.end);
        out.queued_low.append(&mut other.queued_low);
        out.queued_high.append(&mut other.queued_high);
        out.submit_high.append(&mut other.submit_high);
        out.start_high.append(&mut other.start_high);
        out.submit_fits &= other.submit_fits;
        out.least_wait = out.least_wait.min(other.least_wait);
        out
    }

    /// What is true of every runtime.
    fn safe(&self) -> Vec<Bound> {
        bounds(&[&self.start], &[&self.end], &[])
    }

    fn finish(&self, known: Option<bool>, effort: &Effort) -> (Queued, Option<Fit>) {
        let (start, end) = (&self.start[..], &self.end[..]);
        let safe = self.safe();
        let with_queued = bounds(&[start, &self.queued_low], &[end, &self.queued_high], &[]);
        let shift = i64::try_from(self.least_wait).unwrap_or(0);
        let invented = bounds(&[start], &[end], &[(&self.start_high, shift)]);
        let (safe_fit, queued_fit) = (fit(&safe, effort), fit(&with_queued, effort));
        let queued = if !no_worse(&queued_fit, &safe_fit, with_queued.len()) {
            Queued::Contradicted
        } else if known.is_some() || contradicts(&invented, &safe_fit, effort) {
            Queued::Used
        } else {
            Queued::Unproved
        };
        if queued != Queued::Used {
            return (queued, safe_fit);
        }
        if known == Some(true) && self.submit_fits {
            let all = bounds(
                &[start, &self.queued_low],
                &[end, &self.queued_high, &self.submit_high],
                &[],
            );
            let submit_fit = fit(&all, effort);
            if no_worse(&submit_fit, &queued_fit, all.len()) {
                return (queued, submit_fit);
            }
        }
        (queued, queued_fit)
    }
}

/// Whether more bounds made the clock step no more often, and few of them false.
fn no_worse(more: &Option<Fit>, fewer: &Option<Fit>, bounds: usize) -> bool {
    let pieces = |f: &Option<Fit>| f.as_ref().map_or(usize::MAX, |f| f.pieces.len());
    let false_ones = |f: &Option<Fit>| f.as_ref().map_or(0, |f| f.left_out);
    pieces(more) <= pieces(fewer) && false_ones(more) <= false_ones(fewer) + bounds / 500
}

/// Whether bounds contradict each other inside some stretch that holds together without the
/// doubtful ones.
fn contradicts(bounds: &[Bound], known: &Option<Fit>, effort: &Effort) -> bool {
    match (fit(bounds, effort), known) {
        (None, Some(_)) => true,
        (Some(found), Some(known)) => {
            let spread = |f: &Fit| f.pieces.iter().map(|p| p.spread).fold(0.0, f64::max);
            found.pieces.len() > known.pieces.len()
                || found.left_out > known.left_out
                || spread(&found) > 4.0 * spread(known).max(WANDER)
        }
        _ => false,
    }
}

/// All bounds, sorted, those at the same x joined.
fn bounds(
    low: &[&[(i64, i64)]],
    high: &[&[(i64, i64)]],
    shifted_high: &[(&[(i64, i64)], i64)],
) -> Vec<Bound> {
    let lows = low.iter().flat_map(|t| t.iter()).map(|&(x, y)| Bound {
        x: x as f64,
        low: y as f64,
        high: f64::INFINITY,
    });
    let highs = high.iter().map(|t| (*t, 0)).chain(shifted_high.iter().copied());
    let highs =
        highs.flat_map(|(t, shift)| t.iter().map(move |&(x, y)| (x, y.saturating_add(shift))));
    let highs = highs.map(|(x, y)| Bound { x: x as f64, low: f64::NEG_INFINITY, high: y as f64 });
    let mut out: Vec<Bound> = lows.chain(highs).collect();
    out.sort_by(|a, b| a.x.total_cmp(&b.x));
    out.dedup_by(|next, kept| {
        let same = next.x == kept.x;
        if same {
            *kept =
                Bound { x: kept.x, low: kept.low.max(next.low), high: kept.high.min(next.high) };
        }
        same
    });
    out
}

/// Collects bounds from commands.
#[derive(Debug, Clone)]
pub struct Collector {
    evidence: Vec<Evidence>,
    /// (process, queue) -> device and index of its evidence.
    queues: IdMap<usize>,
    devices: BTreeMap<(ProcessIndex, u32), usize>,
    clock_devices: Vec<std::collections::HashMap<u32, u32>>,
}

fn queue_key(process: ProcessIndex, queue: u32) -> u64 {
    (u64::from(process.0) << 32) | u64::from(queue)
}

impl Collector {
    /// For a trace's processes. The recorder's markers are taken from their definitions.
    pub fn new(trace: &Trace<'_>) -> Self {
        let clock_devices = trace.processes.iter().map(|p| {
            let d = &p.definitions;
            d.queues.keys().filter_map(|q| Some((*q, d.clock_device(*q)?))).collect()
        });
        let mut out = Self {
            evidence: Vec::new(),
            queues: IdMap::default(),
            devices: BTreeMap::new(),
            clock_devices: clock_devices.collect(),
        };
        for (index, (process, clock)) in
            trace.processes.iter().zip(&trace.timeline.clocks).enumerate()
        {
            let mut hint = 0;
            for one in &process.definitions.clock_markers {
                let device =
                    process.definitions.clock_device(one.queue).unwrap_or(u32::MAX - one.queue);
                for m in one.markers.iter().filter(|m| {
                    m.before <= m.after && m.queued <= m.submit && (1..1 << 62).contains(&m.queued)
                }) {
                    let call = Span {
                        begin: clock.at(Ticks(m.before), &mut hint),
                        end: clock.at(Ticks(m.after), &mut hint),
                    };
                    out.find_evidence(ProcessIndex(index as u32), device)
                        .last(m.queued, call.begin)
                        .add_marker(m.queued, m.submit, call);
                }
            }
        }
        out
    }

    fn find_evidence(&mut self, process: ProcessIndex, device: u32) -> &mut Evidence {
        let next = self.evidence.len();
        let index = *self.devices.entry((process, device)).or_insert(next);
        if index == next {
            self.evidence.push(Evidence::new(process, device));
        }
        &mut self.evidence[index]
    }

    /// Adds what a completed command proves. Stamps must be [`possible`].
    pub fn add(
        &mut self,
        process: ProcessIndex,
        queue: u32,
        stamps: [u64; 4],
        call: Span,
        observed: HostNs,
    ) {
        self.of_queue(process, queue).add(stamps, call, observed);
    }

    /// Takes note of a completed command whose stamps cannot be times.
    pub fn disbelieve(&mut self, process: ProcessIndex, queue: u32) {
        self.of_queue(process, queue).rate.disbelieve();
    }

    fn of_queue(&mut self, process: ProcessIndex, queue: u32) -> &mut Evidence {
        let key = queue_key(process, queue);
        let index = match self.queues.get(&key) {
            Some(index) => *index,
            None => {
                // A queue without a definition (its part of the file is torn) gets a clock of its
                // own.
                let known = self.clock_devices.get(process.0 as usize);
                let device = known.and_then(|d| d.get(&queue)).copied();
                let device = device.unwrap_or(u32::MAX - queue);
                self.find_evidence(process, device);
                let index = self.devices[&(process, device)];
                self.queues.insert(key, index);
                index
            }
        };
        &mut self.evidence[index]
    }

    /// Aligns every device.
    pub fn finish(self, trace: &Trace<'_>) -> Alignment {
        let jitter = |p: ProcessIndex| {
            trace.timeline.clocks.get(p.0 as usize).map_or(0.0, crate::clock::ProcessClock::jitter)
        };
        let known = |e: &Evidence| {
            let d = &trace.processes.get(e.process.0 as usize)?.definitions;
            let platform = d.platforms.get(&d.devices.get(&e.device)?.platform)?;
            STAMPS_IN_CALL
                .iter()
                .find(|(name, _)| *name == platform.name)
                .map(|(_, submit)| *submit)
        };
        let effort = Effort::of_a_trace();
        Alignment {
            devices: self
                .evidence
                .iter()
                .map(|e| e.finish(jitter(e.process), known(e), &effort))
                .collect(),
            queues: self.queues,
        }
    }
}
