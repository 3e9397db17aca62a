//! Owns which processes of one boot share a raw clock. A time namespace moves CLOCK_MONOTONIC and
//! CLOCK_MONOTONIC_RAW of its processes by one offset, and neither CLOCK_REALTIME nor the ticks of
//! the processor (`time_namespaces(7)`). Refuses to see offsets of less than [`APART_NS`].
//!
//! CLOCK_REALTIME - CLOCK_MONOTONIC is the same in all processes of a namespace: NTP slews both
//! alike. It changes where the wall clock is set. Two things tell that from a namespace: a process
//! that saw the wall clock being set has both values, and ticks, which go on evenly.

use super::{Line, rising};
use crate::input::Process;
use clscope_trace::Clock;
use clscope_trace::defs::Anchor;

/// Offsets that differ by less are of one clock: more than what reading the clocks one after the
/// other does to them on a busy machine, less than the whole seconds that `unshare --time` takes.
const APART_NS: i64 = 500_000_000;

/// Processes of one boot that share CLOCK_MONOTONIC_RAW.
pub(super) struct Domain {
    /// Indices of processes, rising; at least one.
    pub members: Vec<usize>,
    /// Of all members.
    pub anchors: Vec<Anchor>,
}

/// A domain on the timeline.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    pub host: usize,
    /// What is added to its raw time for that of the host's first domain.
    pub shift: i64,
    /// REALTIME - MONOTONIC.
    pub wall: Option<i64>,
    /// Bound of `shift`.
    pub bound_ns: u64,
}

/// REALTIME - MONOTONIC.
fn wall_offset(anchor: &Anchor) -> i64 {
    anchor.realtime.wrapping_sub(anchor.monotonic) as i64
}

/// Anchors of a process, with those that a reader on the same machine added.
pub(super) fn anchors<'a>(process: &'a Process<'_>) -> impl Iterator<Item = &'a Anchor> {
    let own = &process.definitions.anchors;
    // A reader may be in another namespace than the process was.
    let wall = own.first().map(wall_offset);
    let near = move |a: &&Anchor| wall.is_none_or(|wall| is_near(wall, wall_offset(a)));
    own.iter().chain(process.extra_anchors.iter().filter(near))
}

fn is_near(one: i64, other: i64) -> bool {
    one.saturating_sub(other).unsigned_abs() < APART_NS.unsigned_abs()
}

/// The domains of a boot's processes, the one that begins earliest in wall time first. Processes
/// without anchors are of the first.
pub(super) fn split(processes: &[Process<'_>], boot: &[usize]) -> Vec<Domain> {
    let mut known: Vec<(i64, i64, usize)> = Vec::new();
    let mut unknown = Vec::new();
    for &member in boot {
        let offsets = processes[member].definitions.anchors.iter().map(wall_offset);
        match offsets.clone().min().zip(offsets.max()) {
            Some((low, high)) => known.push((low, high, member)),
            None => unknown.push(member),
        }
    }
    known.sort_unstable();
    let mut groups: Vec<(i64, Vec<usize>)> = Vec::new();
    for (low, high, member) in known {
        match groups.last_mut() {
            Some((end, members)) if low.saturating_sub(*end) < APART_NS => {
                *end = high.max(*end);
                members.push(member);
            }
            _ => groups.push((high, vec![member])),
        }
    }
    let mut found: Vec<Domain> = Vec::new();
    for (_, members) in groups {
        let own = || members.iter().flat_map(|m| &processes[*m].definitions.anchors);
        let same = |d: &&mut Domain| {
            let of = |members: &[usize]| of_ticks(processes, members);
            one_clock(&of(&d.members), &of(&members)) == Some(true)
        };
        let domain = match found.iter_mut().find(same) {
            Some(domain) => domain,
            None => {
                found.push(Domain { members: Vec::new(), anchors: Vec::new() });
                let last = found.len() - 1;
                &mut found[last]
            }
        };
        domain.anchors.extend(own().cloned());
        domain.members.extend(&members);
    }
    // Of domains that begin together, the one given first leads.
    found.sort_by_key(|domain| (domain.begin(), domain.members.iter().min().copied()));
    match found.first_mut() {
        Some(first) => first.members.extend(unknown),
        None => found.push(Domain { members: unknown, anchors: Vec::new() }),
    }
    for domain in &mut found {
        domain.members.sort_unstable();
        domain.anchors =
            domain.members.iter().flat_map(|m| anchors(&processes[*m])).cloned().collect();
    }
    found
}

/// Anchors whose ticks are of a counter of the processor, by process.
fn of_ticks<'a>(processes: &'a [Process<'_>], members: &[usize]) -> Vec<(Clock, &'a [Anchor])> {
    let of = |m: &usize| {
        let process = &processes[*m];
        (process.header.clock, process.definitions.anchors.as_slice())
    };
    members.iter().map(of).filter(|(clock, _)| *clock != Clock::MonotonicRaw).collect()
}

/// Whether the ticks say that the raw clocks are one although their wall clocks differ: from an
/// anchor of one to the nearest of the other, ticks and raw clock went on by the same time, and not
/// by as much more as the wall clocks differ. `None` where ticks say nothing.
fn one_clock(one: &[(Clock, &[Anchor])], other: &[(Clock, &[Anchor])]) -> Option<bool> {
    let clock = one.first()?.0;
    let of = |side: &[(Clock, &[Anchor])]| -> Vec<Anchor> {
        side.iter()
            .filter(|(c, _)| *c == clock)
            .flat_map(|(_, anchors)| *anchors)
            .cloned()
            .collect()
    };
    let rate = one
        .iter()
        .chain(other)
        .filter(|(c, _)| *c == clock)
        .filter_map(|(_, anchors)| {
            let (first, last) = (anchors.first()?, anchors.last()?);
            let ticks = last.ticks.checked_sub(first.ticks).filter(|t| *t > 0)?;
            Some((ticks, last.raw.checked_sub(first.raw)? as f64 / ticks as f64))
        })
        .max_by_key(|(ticks, _)| *ticks)?
        .1;
    let (one, mut other) = (of(one), of(other));
    other.sort_unstable_by_key(|a| a.ticks);
    let (a, b) = one
        .iter()
        .flat_map(|a| {
            let after = other.partition_point(|b| b.ticks < a.ticks);
            [after.checked_sub(1), Some(after)]
                .into_iter()
                .flatten()
                .filter_map(|i| other.get(i))
                .map(move |b| (a, b))
        })
        .min_by_key(|(a, b)| a.ticks.abs_diff(b.ticks))?;
    let ticks = (b.ticks as i64).wrapping_sub(a.ticks as i64) as f64 * rate;
    let unexplained = (b.raw as i64).wrapping_sub(a.raw as i64) as f64 - ticks;
    let apart = wall_offset(a).saturating_sub(wall_offset(b)) as f64;
    Some(unexplained.abs() < apart.abs() / 2.0)
}

/// What is added to a raw time of a file whose wall clock is `wall` ahead.
pub(super) fn shift_of(domains: &[Placed], host: usize, wall: i64) -> i64 {
    let mut of_host = domains.iter().filter(|d| d.host == host);
    let near = |d: &&Placed| d.wall.is_none_or(|own| is_near(own, wall));
    if let Some(found) = of_host.clone().find(near) {
        return found.shift;
    }
    of_host.find_map(|d| Some(wall.saturating_sub(d.wall?))).unwrap_or(0)
}

impl Domain {
    /// Wall time of its first anchor.
    pub(super) fn begin(&self) -> u64 {
        self.anchors.iter().map(|a| a.realtime).min().unwrap_or(u64::MAX)
    }

    /// REALTIME - MONOTONIC: the median, and half of its spread.
    pub(super) fn wall(&self) -> Option<(i64, u64)> {
        let mut offsets: Vec<i64> = self.anchors.iter().map(wall_offset).collect();
        offsets.sort_unstable();
        let (first, last) = (*offsets.first()?, *offsets.last()?);
        Some((offsets[offsets.len() / 2], last.saturating_sub(first).unsigned_abs() / 2))
    }

    /// Corners (raw, wall).
    pub(super) fn raw_to_wall(&self) -> Option<(Vec<(u64, i64)>, u64)> {
        let (offset, spread) = self.wall()?;
        let corners = rising(
            self.anchors.iter().map(|a| (a.raw, (a.monotonic as i64).saturating_add(offset))),
        )
        .0;
        if corners.is_empty() { None } else { Some((corners, spread)) }
    }

    /// Reading the wall clock beside the raw clock takes about as long as the anchor itself.
    pub(super) fn reading(&self) -> u64 {
        self.anchors.iter().map(|a| a.width).max().unwrap_or(0).min(1_000_000)
    }

    /// What is added to a raw time of `other`, of the same boot, for this domain's raw time, and
    /// the bound of that. Both run at one rate.
    pub(super) fn shift_from(&self, other: &Self) -> (i64, u64) {
        if std::ptr::eq(self, other) {
            return (0, 0);
        }
        match (self.wall(), other.wall()) {
            (Some((own, spread)), Some((theirs, other_spread))) => {
                let readings = self.reading() + other.reading();
                let bound = spread.saturating_add(other_spread).saturating_add(readings);
                (theirs.saturating_sub(own), bound)
            }
            _ => (0, 0),
        }
    }

    /// Raw time of this domain, moved by `shift` and then by `map`, as a line through its anchors.
    pub(super) fn shifted(&self, shift: i64, map: Option<&Line>) -> Option<Line> {
        let mut hint = 0;
        let corners = rising(self.anchors.iter().filter_map(|a| {
            let raw = a.raw.checked_add_signed(shift)?;
            Some((a.raw, map.map_or(raw as i64, |map| map.at(raw, &mut hint))))
        }))
        .0;
        (!corners.is_empty()).then(|| Line::new(corners, 1.0))
    }
}
