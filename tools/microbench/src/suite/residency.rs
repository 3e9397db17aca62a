//! Occupancy: how many groups run beside each other on a compute unit, set by their local memory
//! and seen by letting them count themselves. Owns the choice of local memory and the count;
//! refuses to derive residency from what a device states of itself.

use crate::bench::{Bench, CaseError};
use crate::cl::DeviceFacts;
use crate::job::{Arg, Geometry, Need};
use crate::source::Source;

/// An occupancy: so many items of a group, so many groups that may be resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Work-items of a group.
    pub group: usize,
    /// Launch as many groups as are resident at once, limited by local memory; else one group for
    /// each compute unit.
    pub fill_units: bool,
    /// Groups that local memory lets onto a unit, where it is filled.
    pub share: usize,
    /// Launch no more than `share` groups for each unit, though more would fit: a device whose
    /// groups may have a part of a unit's local memory alone cannot be limited by it. Devices give
    /// each unit as many groups as the others before they give one more.
    pub exactly: bool,
}

impl Level {
    /// As many items on a unit: in one group where one may have so many, else in several alike.
    pub fn occupied(items: usize, max_group: usize) -> Result<Level, String> {
        let share = items.div_ceil(max_group.max(1));
        if share == 0 || share > 64 || !items.is_multiple_of(share) {
            return Err(format!(
                "groups have up to {max_group} items, up to 64 of one size share a unit, and {items} are no multiple"
            ));
        }
        Ok(Level { group: items / share, fill_units: true, share, exactly: true })
    }

    /// Bytes of local memory of a group to try, largest first, of which a kernel uses `own`. All
    /// that a group may have lets as few groups as possible fit beside each other, but some
    /// runtimes keep a part of what they state for themselves.
    pub fn pads(self, device: &DeviceFacts, own: usize) -> Vec<usize> {
        if !self.fill_units {
            return vec![own];
        }
        let all = device.local_bytes as usize / self.share / 256 * 256;
        let mut pads: Vec<usize> = [
            all,
            all.saturating_sub(256),
            all.saturating_sub(1024),
            all / 16 * 15,
            all / 4 * 3,
            all / 2,
        ]
        .map(|pad| pad.max(own))
        .to_vec();
        pads.dedup();
        pads
    }

    /// Groups to launch with so much local memory: those that are resident at once, no more than
    /// `share` for a unit where that is asked for.
    pub fn groups(self, bench: &mut Bench<'_>, pad: usize) -> Result<usize, CaseError> {
        let units = bench.facts().compute_units as usize;
        if !self.fill_units {
            return Ok(units);
        }
        let most = if self.exactly { units * self.share } else { usize::MAX };
        Ok(resident(bench, self.group, pad)?.min(most))
    }

    /// Tries a measurement with each amount of local memory until the device takes one.
    pub fn first_that_fits<T>(
        self,
        bench: &mut Bench<'_>,
        own: usize,
        mut run: impl FnMut(&mut Bench<'_>, usize) -> Result<T, CaseError>,
    ) -> Result<T, CaseError> {
        fits(bench.facts(), self.group)?;
        let mut tried = Err(CaseError::lacks("there is no local memory"));
        for pad in self.pads(bench.facts(), own) {
            tried = run(bench, pad);
            if !matches!(tried, Err(CaseError::NotAvailable { .. })) {
                break;
            }
        }
        tried
    }
}

/// Whether the device takes groups of so many items.
pub fn fits(device: &DeviceFacts, group: usize) -> Result<(), CaseError> {
    match Need::Group(group).missing(device) {
        Some(reason) => Err(CaseError::lacks(reason)),
        None => Ok(()),
    }
}

/// How many groups of so many items are resident at once with this much local memory, seen by
/// letting them count themselves: the most of three looks or more.
pub fn resident(bench: &mut Bench<'_>, group: usize, pad: usize) -> Result<usize, CaseError> {
    let units = bench.facts().compute_units as usize;
    let buffers = bench.buffers(&[64])?;
    let trips = if bench.settings.tiny { 2_000 } else { 20_000 };
    let geometry = Geometry { groups: units * 40, group, trips };
    let defines = ["-DKIND_ADD".to_owned(), "-DILP=1".to_owned(), "-DCONFLICT=1".to_owned()];
    let args = [Arg::Buffer(0), Arg::Trips, Arg::Local(pad)];
    // Word 0 counts who is in and is back at 0 behind each look; word 1 keeps the most.
    bench.session.fill(&buffers[0], &[0; 8], 8)?;
    let mut most = 1;
    for look in 0..10 {
        bench.probe(Source::Latency, "resident", &defines, &args, &buffers, geometry)?;
        let mut counters = [0; 8];
        bench.session.read(&buffers[0], 0, &mut counters)?;
        let seen = i32::from_ne_bytes([counters[4], counters[5], counters[6], counters[7]]);
        most = most.max(usize::try_from(seen).unwrap_or(0));
        // A busy host starts threads late: fewer groups than units are looked at again.
        if look >= 2 && most >= units {
            break;
        }
    }
    Ok(most)
}
