//! What the time of a launch can be spent on, each resource with the share of the time that it
//! explains: what was measured in place of what is modelled of the same unit. Refuses to choose one.

use super::words::{Sentence, within_all};
use crate::device::Device;
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;
use crate::roofline::{
    ABOVE, Bound, Bounds, Family, LONG, Resource, evenly_used, moving, units_used,
};

/// From this share of the time on, a resource is what the time is spent on.
pub(super) const NEAR: f64 = 0.7;
/// Times that operations may take by their ceiling of a launch that does nothing else: compilers join
/// some, as three shifts and ors of a rotation. Judged.
const MERGED: f64 = 1.5;
/// A resource that explains less of the time than this is not its reason.
pub(super) const FAR: f64 = 0.1;

/// A resource as a possible limit, in shares of the measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub resource: Resource,
    pub least: Figure,
    pub most: Figure,
    pub certain: bool,
    /// Counters saw it.
    pub measured: bool,
    /// Its rate is what devices of the kind typically have: it ranks, and gives no share.
    pub assumed: bool,
}

impl Candidate {
    /// What counters saw of a resource.
    fn measured(resource: Resource, share: Figure) -> Self {
        let share = within_all(share);
        Self { resource, least: share, most: share, certain: true, measured: true, assumed: false }
    }

    /// One of which nothing was counted.
    pub fn uncounted(resource: Resource) -> Self {
        let of = |value| Figure::exact(value, Evidence::Modelled);
        Self {
            resource,
            least: of(0.0),
            most: of(1.0),
            certain: false,
            measured: false,
            assumed: true,
        }
    }

    /// The least that it needs is most of the time, and not more than all of it.
    pub fn is_near(&self) -> bool {
        let waits = matches!(self.resource, Resource::Latency | Resource::UnevenGroups);
        let counts =
            (self.measured || !waits) && !self.assumed && self.resource != Resource::FewGroups;
        // What compilers leave out of a class takes it below the whole time.
        let most =
            if self.may_be_merged() && self.resource != Resource::Issue { MERGED } else { ABOVE };
        counts && (NEAR..=most).contains(&self.least.value)
    }

    /// Even the least that it needs is longer than the launch by more than times of its family are
    /// off: its ceiling is wrong, or less was done than was counted. What is only typical ranks all
    /// the same.
    fn is_impossible(&self, device: &Device) -> bool {
        let (shortest, _) = Family::of(device, self.resource).spread();
        !self.assumed && !self.may_be_merged() && shortest * self.least.low > ABOVE
    }

    /// Compilers leave some of it out, nobody knows how much.
    fn may_be_merged(&self) -> bool {
        use Resource as R;
        matches!(self.resource, R::Integer | R::IntegerMultiply | R::Issue | R::Conversion)
    }

    /// How well it explains the time, between 0 and 1.
    pub fn score(&self) -> f64 {
        match (self.least.value, self.most.value) {
            (least, _) if least > 1.0 => least.recip(),
            // Between best and worst, the geometric mean with what it would have to take.
            (least, most) => (least * most.min(1.0)).sqrt(),
        }
    }

    /// Nothing says where between two shares it lies.
    pub fn is_wide(&self) -> bool {
        self.most.value > 1.1 * self.least.value
    }

    /// In words; never more than the whole time.
    pub fn share(&self) -> Sentence {
        if self.assumed {
            return "not measured".into();
        }
        let (least, most) = (within_all(self.least), within_all(self.most));
        match self.least.value {
            // What is asked for and does not fit into the time came from caches.
            share if share > ABOVE && self.resource == Resource::MemoryIfMissed => {
                "all of the time and more: caches served a part, or its ceiling is too low".into()
            }
            share if share > ABOVE => {
                "all of the time by its ceiling, which is too low, or the compiler merged some"
                    .into()
            }
            _ if self.is_wide() => Sentence::default()
                .share("least", least)
                .put(" to ")
                .share("most", most)
                .put(" of the time"),
            _ => Sentence::from(if self.measured { "measured " } else { "" })
                .share("share", least)
                .put(" of the time"),
        }
    }
}

/// All that the time can be spent on but launching.
pub(super) fn candidates(
    of: &Kernel,
    device: &Device,
    model: &Bounds,
    worked: Figure,
) -> Vec<Candidate> {
    let share = |ns: Figure| ns.over(worked);
    let half = |of: Figure| Figure { high: of.high, ..of.times(0.5) };
    let each = model.bounds.iter().filter_map(|b: &Bound| {
        let (least, most) = (share(b.ns), share(b.most.unwrap_or(b.ns)));
        let (least, most) = match b.resource {
            Resource::Launch => return None,
            // All that was asked for is too much where caches serve.
            Resource::MemoryIfMissed => {
                let moved = moving(of, device).map_or(0.0, |ns| ns / worked.value);
                let value = moved.min(most.value);
                (Figure::new(value, 0.0, most.high, Evidence::Modelled), most)
            }
            // Not each instruction waits for the one before.
            Resource::Latency | Resource::UnevenGroups => (half(least), most),
            // Compilers for CPUs fold addresses into accesses, and share what loops count.
            Resource::Integer if device.is_cpu() => (half(least), most),
            _ => (least, most),
        };
        (most.value > 0.0).then_some(Candidate {
            resource: b.resource,
            least,
            most: most.larger(least),
            certain: b.certain,
            measured: b.resource == Resource::Memory && !device.typical,
            assumed: device.typical,
        })
    });
    // What was measured comes before what is modelled of the same unit.
    let mut all: Vec<Candidate> = each.filter(|c| !of.busy.contains_key(&c.resource)).collect();
    all.extend(of.busy.iter().map(|(resource, share)| Candidate::measured(*resource, *share)));
    // Without the device's ceiling the share of memory's bandwidth is what there is.
    if let Some(share) = of.dram_share.filter(|_| of.dram_bytes.is_none()) {
        all.retain(|c| c.resource != Resource::MemoryIfMissed);
        all.push(Candidate::measured(Resource::Memory, share));
    }
    // Bytes that the nearest cache only passes on take a farther level at least as long.
    if of.passes_on(device) {
        all.retain(|c| c.resource != Resource::Cache);
    }
    // Where one unit has most of what is issued, that unit is the matter, and not issuing.
    let of_units = all.iter().filter(|c| c.resource.is_issued_to()).map(|c| c.least.value);
    let of_units = of_units.fold(0.0, f64::max);
    all.retain(|c| c.resource != Resource::Issue || of_units < NEAR * c.least.value);
    // Units without work. Whether groups are uneven is known only where they were counted.
    let rest = of.units_busy.map(|share| Figure {
        value: 1.0 - share.value,
        low: 1.0 - share.high,
        high: 1.0 - share.low,
        ..share
    });
    let used = units_used(of, device);
    if used < 1.0 - UNEVEN {
        all.push(few_groups(of, device, &all, rest.map_or(1.0 - used, |rest| rest.value)));
    } else if let Some(rest) = rest.filter(|rest| rest.value > UNEVEN) {
        let uneven = of.longest_group.is_some_and(|times| times >= LONG);
        let what = if uneven { Resource::UnevenGroups } else { Resource::IdleUnits };
        all.retain(|c| c.resource != Resource::UnevenGroups);
        all.push(Candidate::measured(what, rest));
    }
    all
}

/// Units without a group, as far as more groups would help.
fn few_groups(of: &Kernel, device: &Device, all: &[Candidate], rest: f64) -> Candidate {
    let used = units_used(of, device);
    let shared = all.iter().filter(|c| is_shared_out(c, of, device));
    // Counters see all units; bounds are of those that have work.
    let on_unit = |c: &Candidate| {
        if of.busy.contains_key(&c.resource) { c.least.value / used } else { c.least.value }
    };
    let busy = shared.clone().map(on_unit).fold(0.0, f64::max).min(1.0);
    let certain = shared.filter(|c| c.certain).any(|c| (NEAR..=ABOVE).contains(&on_unit(c)));
    let figure = |value| Figure::exact(value, Evidence::Modelled);
    Candidate {
        resource: if evenly_used(of, device).is_some_and(|even| even <= used) {
            Resource::UnevenGroups
        } else {
            Resource::FewGroups
        },
        least: figure(busy * rest),
        most: figure(rest),
        certain: certain && !device.typical,
        measured: false,
        assumed: device.typical,
    }
}

/// Whether more groups would share out what takes the time: what a unit does, and on a CPU, whose
/// threads run one item after another, what it waits for.
pub(super) fn is_shared_out(c: &Candidate, of: &Kernel, device: &Device) -> bool {
    let parts = device.is_cpu() && of.items > of.groups();
    c.resource.is_of_a_unit() || parts && c.resource == Resource::Latency
}

/// Share of the time from which on compute units without work are worth a word.
const UNEVEN: f64 = 0.1;

pub(super) fn by_score(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    a.score().total_cmp(&b.score())
}

/// Those that can be the cause, where any of them explains a part of the time; else all.
pub(super) fn possible(all: Vec<Candidate>, device: &Device) -> Vec<Candidate> {
    let may_be = |c: &Candidate| !c.is_impossible(device);
    let explains = |c: &Candidate| c.resource != Resource::Groups && c.score() >= FAR;
    match all.iter().any(|c| may_be(c) && explains(c)) {
        true => all.into_iter().filter(may_be).collect(),
        false => all,
    }
}
