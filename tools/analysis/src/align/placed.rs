//! Owns device clocks as they were found, and places the stamps of commands on the host's timeline
//! with them. Refuses to find any: that is what bounds are for.

use super::envelope::Piece;
use super::queue_key;
use crate::Trace;
use crate::event::Placed;
use crate::ids::IdMap;
use crate::issue::{Issue, IssueKind};
use crate::time::{HostNs, ProcessIndex};

/// What was found about QUEUED.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    /// It is stamped inside the enqueue call, and narrows the bound.
    Used,
    /// It may be, and may as well be invented: not used.
    Unproved,
    /// It contradicts what is certain: not used.
    Contradicted,
}

/// One device's clock against the host's.
#[derive(Debug, Clone)]
pub struct DeviceAlignment {
    /// Process.
    pub process: ProcessIndex,
    /// Device id; the parent of sub-devices.
    pub device: u32,
    /// Commands that gave bounds.
    pub commands: u64,
    /// Whether it runs as the host's does: stamps of one that does not are no times.
    pub is_clock: bool,
    /// What was found about QUEUED.
    pub queued: Queued,
    /// Bounds left out because they contradict all others.
    pub left_out: u64,
    pub(super) equal_lengths: bool,
    pub(super) jitter: f64,
    pub(super) stretches: Vec<Stretch>,
}

/// The clock from a moment at which it was set back, or from the beginning.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    pub(super) from: HostNs,
    pub(super) origin: (u64, i64),
    pub(super) pieces: Vec<Piece>,
}

impl DeviceAlignment {
    /// Stretches between steps of the clock; 0 where it could not be aligned.
    pub fn pieces(&self) -> usize {
        self.stretches.iter().map(|s| s.pieces.len()).sum()
    }

    /// Drift of the device clock against the host's in the longest stretch, relative (1e-6: a
    /// microsecond a second), and how far it may be off.
    pub fn drift(&self) -> Option<(f64, f64)> {
        let longest = self
            .stretches
            .iter()
            .flat_map(|s| &s.pieces)
            .max_by(|a, b| (a.last - a.first).total_cmp(&(b.last - b.first)))?;
        Some((longest.drift, longest.spread))
    }

    /// The four stamps of a command on the host's timeline, and the half-width of the band at START
    /// and END. A command that was in flight when the clock was set back is placed on the side that
    /// agrees with what the host saw.
    fn place(
        &self,
        stamps: [u64; 4],
        begin: HostNs,
        observed: HostNs,
        hint: &mut usize,
    ) -> Option<([HostNs; 4], f64)> {
        let index = self.stretches.partition_point(|s| s.from <= begin).saturating_sub(1);
        let own = self.stretches.get(index)?.place(stamps, self.jitter, hint);
        let next = self.stretches.get(index + 1).filter(|next| next.from <= observed);
        let seen = |placed: &([HostNs; 4], f64)| placed.0[2] >= begin && placed.0[3] <= observed;
        match (own, next) {
            (Some(own), Some(next)) if !seen(&own) => {
                next.place(stamps, self.jitter, &mut 0).filter(seen).or(Some(own))
            }
            (own, _) => own,
        }
    }
}

impl Stretch {
    fn place(&self, stamps: [u64; 4], jitter: f64, hint: &mut usize) -> Option<([HostNs; 4], f64)> {
        // One clock for all four, lest a step inside the span change its length.
        let x = stamps[2].wrapping_sub(self.origin.0) as i64 as f64;
        let piece = self.pieces.partition_point(|p| p.from <= x).saturating_sub(1);
        let mut placed = [HostNs(0); 4];
        let mut bound = 0.0f64;
        for (i, (out, stamp)) in placed.iter_mut().zip(stamps).enumerate() {
            let (host, half) = self.at_in(piece, stamp, jitter, hint)?;
            *out = host;
            if i >= 2 {
                bound = bound.max(half);
            }
        }
        Some((placed, bound))
    }

    /// Host time of a device time by the clock of one piece, and the half-width of the band there.
    fn at_in(
        &self,
        index: usize,
        device: u64,
        jitter: f64,
        hint: &mut usize,
    ) -> Option<(HostNs, f64)> {
        let x = device.wrapping_sub(self.origin.0) as i64 as f64;
        let piece = self.pieces.get(index)?;
        let (low, high) = piece.band(x, hint);
        let middle = (low + high) / 2.0;
        let (mut lowest, mut highest) = (low, high);
        // Near a step it is not certain on which side of it a time lies.
        let neighbour =
            if x > piece.last { self.pieces.get(index + 1).filter(|n| x < n.first) } else { None };
        let before = if x < piece.first {
            index.checked_sub(1).and_then(|i| self.pieces.get(i))
        } else {
            None
        };
        for other in neighbour.into_iter().chain(before) {
            let (l, h) = other.band(x, &mut 0);
            (lowest, highest) = (lowest.min(l), highest.max(h));
        }
        let half = (middle - lowest).max(highest - middle) + jitter;
        let host = HostNs(self.origin.1.saturating_add((middle + x).round() as i64));
        (middle.is_finite() && half.is_finite()).then_some((host, half))
    }
}

/// All devices of a trace.
#[derive(Debug, Clone, Default)]
pub struct Alignment {
    /// One per process and device.
    pub devices: Vec<DeviceAlignment>,
    pub(super) queues: IdMap<usize>,
}

impl Alignment {
    /// Places a command. `hints` is any vector kept by one user between calls.
    #[inline]
    pub fn place(
        &self,
        process: ProcessIndex,
        queue: u32,
        stamps: [u64; 4],
        begin: HostNs,
        observed: HostNs,
        hints: &mut Vec<usize>,
    ) -> Option<Placed> {
        let index = *self.queues.get(&queue_key(process, queue))?;
        let device = self.devices.get(index)?;
        if hints.len() < self.devices.len() {
            hints.resize(self.devices.len(), 0);
        }
        let hint = hints.get_mut(index)?;
        let (mut placed, bound) =
            device.place(stamps, begin, observed, hint).unwrap_or_else(|| {
                // No clock: the span ends where it was seen to, and may lie anywhere between its
                // bounds.
                let back = |stamp: u64| {
                    HostNs(
                        observed
                            .0
                            .saturating_sub(i64::try_from(stamps[3] - stamp).unwrap_or(i64::MAX)),
                    )
                };
                let placed = stamps.map(back);
                (placed, placed[2].since(begin) as f64)
            });
        let shift = if placed[2] < begin {
            begin.0.saturating_sub(placed[2].0)
        } else {
            (observed.0.saturating_sub(placed[3].0)).min(0).max(begin.0.saturating_sub(placed[2].0))
        };
        if shift != 0 {
            placed = placed.map(|p| HostNs(p.0.saturating_add(shift)));
        }
        Some(Placed { stamps: placed, bound_ns: bound.ceil() as u64, clamped_ns: shift })
    }

    /// The alignment of a queue's device.
    pub fn of_queue(&self, process: ProcessIndex, queue: u32) -> Option<&DeviceAlignment> {
        self.devices.get(*self.queues.get(&queue_key(process, queue))?)
    }

    /// What the user should know.
    pub fn issues(&self, trace: &Trace<'_>) -> Vec<Issue> {
        let mut out = Vec::new();
        for aligned in &self.devices {
            let process = trace.process(aligned.process);
            let device = process.definitions.device_name(aligned.device).into_owned();
            let mut add = |kind| out.push(Issue { subject: process.label.clone(), kind });
            if !aligned.is_clock {
                // Its stamps were not used, which is said with their number.
                continue;
            }
            match (aligned.pieces(), aligned.queued) {
                (0, _) if aligned.commands > 0 => {
                    add(IssueKind::Unaligned { device: device.clone() })
                }
                (_, Queued::Contradicted) => {
                    add(IssueKind::QueuedNotUsed { device: device.clone() })
                }
                _ => {}
            }
            if aligned.left_out > 0 {
                add(IssueKind::FalseBounds { device: device.clone(), bounds: aligned.left_out });
            }
            if aligned.pieces() > 1 {
                add(IssueKind::ClockSteps {
                    device: device.clone(),
                    steps: aligned.pieces() as u64 - 1,
                });
            }
        }
        out
    }
}
