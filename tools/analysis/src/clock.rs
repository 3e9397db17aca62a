//! Owns the way from ticks of a process to nanoseconds on one timeline for all processes and hosts.
//! Refuses to guess a tick's length: without two anchors it says so, and one tick counts as one
//! nanosecond.
//!
//! * **One process**: between anchors a straight line from (ticks, CLOCK_MONOTONIC_RAW) to the
//!   next; outside them the line through the first and the last. The stated bound is half an
//!   anchor's width, and grows outside the anchors by the uncertainty of the rate.
//! * **Processes of one boot** share CLOCK_MONOTONIC_RAW and, with the same kind of host clock, the
//!   ticks: their anchors are pooled. Processes in time namespaces do not share it (`domain`): they
//!   are placed by the wall clock of their host, which is one.
//! * **Several hosts**: the host whose anchors begin earliest in wall time is the reference.
//!   Another host's raw time becomes wall time by MONOTONIC plus the median of REALTIME - MONOTONIC
//!   (which no NTP step folds), and the reference's raw time by the inverse. The bound covers the
//!   readings and the steps seen, not how well the wall clocks of the hosts agree: that no trace
//!   can tell.

mod domain;

use crate::input::Process;
use crate::issue::IssueKind;
use crate::time::{HostNs, Ticks};
use clscope_trace::Clock;
use clscope_trace::defs::Anchor;
use domain::Domain;

/// A strictly rising, piecewise linear map given by its corners; outside them by `outer` rates.
#[derive(Debug, Clone, PartialEq)]
struct Line {
    corners: Vec<(u64, i64)>,
    rates: Vec<f64>,
    outer: f64,
}

impl Line {
    /// From corners that rise strictly in both coordinates; at least one.
    fn new(corners: Vec<(u64, i64)>, fallback_rate: f64) -> Self {
        let rates: Vec<f64> = corners
            .windows(2)
            .map(|w| (w[1].1 - w[0].1) as f64 / (w[1].0 - w[0].0) as f64)
            .collect();
        let outer = match (corners.first(), corners.last()) {
            (Some(a), Some(b)) if b.0 > a.0 => (b.1 - a.1) as f64 / (b.0 - a.0) as f64,
            _ => fallback_rate,
        };
        Self { corners, rates, outer }
    }

    #[inline]
    fn at(&self, x: u64, hint: &mut usize) -> i64 {
        let inside = |i: usize| {
            self.corners[i].0 <= x && self.corners.get(i + 1).is_none_or(|next| x < next.0)
        };
        if *hint >= self.corners.len() || !inside(*hint) {
            *hint = self.corners.partition_point(|c| c.0 <= x).saturating_sub(1);
        }
        let Some(&(x0, y0)) = self.corners.get(*hint) else { return x as i64 };
        if x < x0 {
            return y0.saturating_sub(scaled(x0 - x, self.outer));
        }
        match self.rates.get(*hint) {
            // Rounding must not carry a time past the corner that follows it.
            Some(rate) => y0.saturating_add(scaled(x - x0, *rate)).min(self.corners[*hint + 1].1),
            None => y0.saturating_add(scaled(x - x0, self.outer)),
        }
    }
}

#[inline]
fn scaled(distance: u64, rate: f64) -> i64 {
    // A cast from f64 saturates, and half a unit is added because rounding is dearer.
    (distance as f64 * rate + 0.5) as i64
}

/// Converts ticks of one process to the common timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessClock {
    line: Line,
    /// Half the widest anchor, in nanoseconds.
    anchor_ns: f64,
    /// Relative uncertainty of the rate outside the anchors.
    rate_error: f64,
    /// Bound of the host's place on the timeline, 0 on the reference host.
    host_bound_ns: u64,
    known: bool,
}

impl ProcessClock {
    /// Time on the timeline. `hint` is any number kept between calls by one user; it makes near
    /// times quick.
    #[inline]
    pub fn at(&self, ticks: Ticks, hint: &mut usize) -> HostNs {
        HostNs(self.line.at(ticks.0, hint))
    }

    /// Bound of the error of [`at`](Self::at) against the reference host's CLOCK_MONOTONIC_RAW, in
    /// nanoseconds; `None` where the clock is not known. Between records of one process the error
    /// is far smaller.
    pub fn bound(&self, ticks: Ticks) -> Option<u64> {
        if !self.known {
            return None;
        }
        let (first, last) = (self.line.corners.first()?.0, self.line.corners.last()?.0);
        let outside = first.saturating_sub(ticks.0).max(ticks.0.saturating_sub(last));
        let extrapolated = outside as f64 * self.line.outer * self.rate_error;
        let own = (self.anchor_ns + extrapolated).ceil() as u64;
        Some(own.saturating_add(self.host_bound_ns))
    }

    /// Whether ticks have a known length. If not, one tick counts as one nanosecond.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// How far a time between anchors may lie from a straight line for reasons of the readings
    /// alone, in nanoseconds: a quarter of the narrow anchor readings, as which the clock readings
    /// err in practice far less than they might.
    pub fn jitter(&self) -> f64 {
        (self.anchor_ns / 8.0).clamp(1.0, 1_000.0)
    }
}

/// A host (one boot of one machine) on the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Host name, from its first process.
    pub name: String,
    /// Boot id, zeros if unknown.
    pub boot: [u8; 16],
    /// Bound of its place against the reference host in nanoseconds, given that wall clocks agree:
    /// 0 for the reference, `None` where it lacks anchors.
    pub bound_ns: Option<u64>,
}

/// Clocks of all processes, in their order.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    /// One per process.
    pub clocks: Vec<ProcessClock>,
    /// The hosts; the first is the reference.
    pub hosts: Vec<Host>,
    /// Index in `hosts` of each process.
    pub host_of: Vec<usize>,
    /// Wall clock (CLOCK_REALTIME, ns since 1970) minus timeline, if an anchor has it.
    pub wall_offset_ns: Option<i64>,
    /// Per host, the raw time of its first domain to the reference's; `None` where they are the
    /// same, or it could not be placed.
    to_reference: Vec<Option<Line>>,
    /// From the wall clock of the reference to its raw time.
    from_wall: Option<Line>,
    domains: Vec<domain::Placed>,
    /// Index in `domains` of each process.
    domain_of: Vec<usize>,
}

/// A CLOCK_MONOTONIC_RAW of a host: that of a time namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawClock {
    /// Index of the host in [`Timeline::hosts`].
    pub host: usize,
    /// What is added to a time for the raw clock of the host's first processes, in nanoseconds.
    shift: i64,
}

impl RawClock {
    /// Whether it is the clock of the host's first processes.
    pub fn is_first(&self) -> bool {
        self.shift == 0
    }
}

/// Sorts corners and keeps those that rise in both coordinates; the number left out comes second.
fn rising(corners: impl Iterator<Item = (u64, i64)>) -> (Vec<(u64, i64)>, u64) {
    let mut sorted: Vec<(u64, i64)> =
        corners.filter(|c| c.0 < 1 << 62 && (0..1 << 62).contains(&c.1)).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut kept: Vec<(u64, i64)> = Vec::with_capacity(sorted.len());
    let mut bad = 0;
    for corner in sorted {
        match kept.last() {
            Some(last) if corner.0 <= last.0 || corner.1 <= last.1 => bad += 1,
            _ => kept.push(corner),
        }
    }
    (kept, bad)
}

impl Timeline {
    /// The clock of a file of sensors or counters, which no process recorded: that of this boot
    /// whose wall clock reads `wall_ns` (CLOCK_REALTIME - CLOCK_MONOTONIC in nanoseconds, of an
    /// anchor of the file) ahead. Without such an anchor it is that of the host's first processes;
    /// `None` where the trace has no process of this boot.
    pub fn raw_clock(&self, boot: [u8; 16], wall_ns: Option<i64>) -> Option<RawClock> {
        let host = self.hosts.iter().position(|host| host.boot == boot)?;
        let shift = wall_ns.map_or(0, |wall| domain::shift_of(&self.domains, host, wall));
        Some(RawClock { host, shift })
    }

    /// The raw clock of a process, by its place among the processes.
    pub fn raw_clock_of(&self, process: usize) -> Option<RawClock> {
        let domain = self.domains.get(*self.domain_of.get(process)?)?;
        Some(RawClock { host: domain.host, shift: domain.shift })
    }

    /// A time of a CLOCK_MONOTONIC_RAW on the timeline; `None` where its host could not be
    /// placed. `hint` as in [`ProcessClock::at`].
    pub fn raw(&self, clock: RawClock, raw: u64, hint: &mut usize) -> Option<HostNs> {
        self.hosts.get(clock.host)?.bound_ns?;
        let raw = raw.checked_add_signed(clock.shift)?;
        match self.to_reference.get(clock.host)? {
            Some(line) => Some(HostNs(line.at(raw, hint))),
            None => i64::try_from(raw).ok().map(HostNs),
        }
    }

    /// A time of the wall clock (CLOCK_REALTIME, ns since 1970) of the first host on the timeline;
    /// `None` where no anchor has it.
    pub fn at_wall(&self, wall_ns: i64) -> Option<HostNs> {
        Some(HostNs(self.from_wall.as_ref()?.at(u64::try_from(wall_ns).ok()?, &mut 0)))
    }

    /// Bound of the place of a process's clock against the reference host's first clock, in
    /// nanoseconds, given that wall clocks agree; `None` where it could not be placed.
    pub fn placed_within(&self, process: usize) -> Option<u64> {
        let domain = self.domains.get(*self.domain_of.get(process)?)?;
        Some(self.hosts.get(domain.host)?.bound_ns?.saturating_add(domain.bound_ns))
    }

    /// Places the processes. What cannot be placed is listed in `issues`, one list per process.
    pub fn new(processes: &[Process<'_>], issues: &mut [Vec<IssueKind>]) -> Self {
        let mut boots: Vec<Vec<usize>> = Vec::new();
        for (index, process) in processes.iter().enumerate() {
            let boot = process.header.boot;
            let same = |b: &&mut Vec<usize>| boot != [0; 16] && processes[b[0]].header.boot == boot;
            match boots.iter_mut().find(same) {
                Some(found) => found.push(index),
                None => boots.push(vec![index]),
            }
        }
        let mut hosts: Vec<Vec<Domain>> =
            boots.iter().map(|members| domain::split(processes, members)).collect();
        // Stable: of boots that begin together, or without anchors, the one given first leads.
        hosts.sort_by_key(|domains| domains.first().map_or(u64::MAX, Domain::begin));

        let mut out = Self {
            clocks: vec![unknown_clock(); processes.len()],
            hosts: Vec::new(),
            host_of: vec![0; processes.len()],
            wall_offset_ns: hosts
                .first()
                .and_then(|domains| domains.first()?.anchors.first())
                .map(|a| (a.realtime as i64).wrapping_sub(a.raw as i64)),
            to_reference: Vec::with_capacity(hosts.len()),
            from_wall: None,
            domains: Vec::new(),
            domain_of: vec![0; processes.len()],
        };
        let reference = hosts.first().and_then(|domains| domains.first()?.raw_to_wall());
        out.from_wall = reference.as_ref().map(|(corners, _)| inverse(corners));
        for (number, domains) in hosts.iter().enumerate() {
            let Some(main) = domains.first() else { continue };
            let to_reference =
                if number == 0 { None } else { reference.as_ref().and_then(|r| between(main, r)) };
            let bound = match (number, &to_reference) {
                (0, _) => Some(0),
                (_, Some((_, bound))) => Some(*bound),
                (_, None) => None,
            };
            let first = &processes[main.members[0]];
            let name = first.definitions.process.host.clone();
            out.hosts.push(Host { name: name.clone(), boot: first.header.boot, bound_ns: bound });
            for domain in domains {
                let (shift, apart) = main.shift_from(domain);
                let map = match (&to_reference, shift) {
                    (None, 0) => None,
                    (None, _) => domain.shifted(shift, None).map(|line| (line, apart)),
                    (Some((line, bound)), _) => domain
                        .shifted(shift, Some(line))
                        .map(|line| (line, bound.saturating_add(apart))),
                };
                for &member in &domain.members {
                    if number > 0 {
                        issues[member]
                            .push(IssueKind::OtherHost { host: name.clone(), bound_ns: bound });
                    }
                    if shift != 0 {
                        let other = IssueKind::OtherClock {
                            apart_ns: shift.saturating_neg(),
                            bound_ns: apart,
                        };
                        issues[member].push(other);
                    }
                    out.host_of[member] = number;
                    out.domain_of[member] = out.domains.len();
                    let clock = processes[member].header.clock;
                    // Ticks are only comparable between processes that read the same clock.
                    let of_clock: Vec<&Anchor> = domain
                        .members
                        .iter()
                        .filter(|m| processes[**m].header.clock == clock)
                        .flat_map(|m| domain::anchors(&processes[*m]))
                        .collect();
                    out.clocks[member] =
                        process_clock(clock, &of_clock, map.as_ref(), &mut issues[member]);
                }
                out.domains.push(domain::Placed {
                    host: number,
                    shift,
                    wall: domain.wall().map(|(median, _)| median),
                    bound_ns: apart,
                });
            }
            out.to_reference.push(to_reference.map(|(line, _)| line));
        }
        out
    }
}

/// The map back.
fn inverse(corners: &[(u64, i64)]) -> Line {
    Line::new(rising(corners.iter().map(|c| (c.1 as u64, c.0 as i64))).0, 1.0)
}

/// Map of a domain's raw time to the reference's raw time, as corners, and its bound.
fn between(domain: &Domain, reference: &(Vec<(u64, i64)>, u64)) -> Option<(Line, u64)> {
    let (own, spread) = domain.raw_to_wall()?;
    let (reference, reference_spread) = reference;
    let inverse = inverse(reference);
    let mut hint = 0;
    let corners = rising(own.iter().map(|c| (c.0, inverse.at(c.1 as u64, &mut hint)))).0;
    if corners.is_empty() {
        return None;
    }
    let bound = spread.saturating_add(*reference_spread).saturating_add(domain.reading());
    Some((Line::new(corners, 1.0), bound))
}

fn unknown_clock() -> ProcessClock {
    ProcessClock {
        line: Line::new(vec![(0, 0)], 1.0),
        anchor_ns: 0.0,
        rate_error: 1.0,
        host_bound_ns: 0,
        known: false,
    }
}

fn process_clock(
    clock: Clock,
    anchors: &[&Anchor],
    host: Option<&(Line, u64)>,
    issues: &mut Vec<IssueKind>,
) -> ProcessClock {
    let (corners, bad) = if clock == Clock::MonotonicRaw && anchors.is_empty() {
        // Raw nanoseconds need no anchor on the reference host.
        (vec![(0, 0)], 0)
    } else {
        rising(anchors.iter().map(|a| (a.ticks, a.raw as i64)))
    };
    if bad > 0 {
        issues.push(IssueKind::BadAnchors { count: bad });
    }
    let known = match (clock, corners.len()) {
        (Clock::MonotonicRaw, 1..) | (_, 2..) => true,
        (_, 0) => {
            issues.push(IssueKind::NoAnchors);
            return unknown_clock();
        }
        (_, 1) => {
            issues.push(IssueKind::NoRate);
            false
        }
    };
    // Anchors read within a millisecond say nothing about the rate; between them a straight line is
    // as good.
    let thinned = thin(&corners);
    let line = Line::new(thinned, 1.0);
    let baseline = line.corners.last().map_or(0, |l| l.0) - line.corners.first().map_or(0, |f| f.0);
    let widest = anchors.iter().map(|a| a.width).max().unwrap_or(0) as f64;
    let rate_error =
        if clock == Clock::MonotonicRaw { 0.0 } else { widest / (baseline.max(1)) as f64 };
    let anchor_ns = widest * line.outer / 2.0;
    let mut hint = 0;
    let (line, host_bound_ns) = match host {
        Some((map, bound)) => {
            let moved =
                rising(line.corners.iter().map(|c| (c.0, map.at(c.1.max(0) as u64, &mut hint)))).0;
            let rate = line.outer;
            (if moved.is_empty() { line } else { Line::new(moved, rate) }, *bound)
        }
        None => (line, 0),
    };
    ProcessClock { line, anchor_ns, rate_error, host_bound_ns, known }
}

/// Leaves out corners less than a millisecond (in the second coordinate) after the one before, but
/// keeps the ends.
fn thin(corners: &[(u64, i64)]) -> Vec<(u64, i64)> {
    let mut out: Vec<(u64, i64)> = Vec::with_capacity(corners.len());
    for (i, corner) in corners.iter().enumerate() {
        if out.last().is_none_or(|l| corner.1.saturating_sub(l.1) >= 1_000_000) {
            out.push(*corner);
        } else if i + 1 == corners.len() {
            if out.len() > 1 {
                out.pop();
            }
            out.push(*corner);
        }
    }
    out
}
