//! How the time of a launch changes: what of the measured time is work, and how work changes by the
//! bounds of both launches. Both ends of an interval are of the one model, and nothing that is
//! changed changes nothing. Refuses to say what a change is.

use super::groups::in_whole_groups;
use crate::device::Device;
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;
use crate::roofline::{Bound, Bounds, Family, Resource, dominant, likely};

/// Kernel, device, and bounds of the one on the other.
pub(super) type Modelled<'m> = (&'m Kernel, &'m Device, &'m Bounds);

/// How far a time that is scaled by the model is off where a launch changes twofold, as a share: on
/// GPUs, from `--local` on an H200 and H100s, and on CPUs, from `--global 2x` on Intel's runtime and
/// PoCL (`tools/bench/gpu/models.py --groups`; guide, "Measured" of `what-if`).
const OF_TWOFOLD: (f64, f64) = (0.1, 0.2);

/// The likely time without what launching costs, ns; `None` where nothing of the work is known.
fn work((kernel, device, bounds): Modelled<'_>) -> Option<f64> {
    let launch = bounds.by_resource(Resource::Launch).map_or(0.0, |b| b.likely);
    Some(likely(kernel, device, bounds)?.value - launch).filter(|ns| *ns > 0.0)
}

fn is_work(resource: Resource) -> bool {
    !matches!(resource, Resource::Launch | Resource::Groups)
}

/// What of a measured launch is work, ns: what launching leaves, and at least what the model says
/// that the work takes. Never more than the launch.
pub(super) fn separate_work(took: Figure, of: Option<Modelled<'_>>) -> Figure {
    let whole = Figure::exact(took.value, Evidence::Modelled);
    let Some(of) = of else { return whole };
    let Some(launch) = of.2.by_resource(Resource::Launch) else { return whole };
    let spread = dominant(of.0, of.1, of.2).map_or((0.0, 1.0), |r| Family::of(of.1, r).spread());
    let modelled = work(of);
    let [least, likely, most] = match modelled {
        Some(ns) => [spread.0 * ns, ns, spread.1 * ns].map(|ns| ns.min(took.value)),
        // Nothing shows that any of it is launching.
        None => [0.0, took.value, took.value],
    };
    // What launching leaves; where it is said to take all, only the model knows what is work.
    let left = |launch: f64| took.value - launch;
    let most_left = left(launch.ns.low);
    if most_left <= 0.0 {
        return Figure::new(likely, least, most, Evidence::Modelled);
    }
    let high = most_left.max(least);
    let low = left(launch.most.unwrap_or(launch.ns).high).max(least.min(most_left)).min(high);
    let value = left(launch.ns.value).clamp(low, high);
    Figure::new(value, low, high, Evidence::Modelled)
}

/// How the work of a launch changes, with the resource that takes most of it afterwards: as the
/// likely times, with the smallest and the largest change of any resource that matters in the
/// interval. `took`: the work that was measured, ns. `step`: logarithm of what is changed.
pub(super) fn compare_work(
    before: Modelled<'_>,
    after: Modelled<'_>,
    took: Figure,
    step: f64,
) -> Option<(Figure, Resource)> {
    // Groups need not take alike: the change of whole ones is between none and all of it.
    let shared_out = work(after)? / work(before)?;
    let (old, new) = (
        &in_whole_groups(before.0, before.1, before.2),
        &in_whole_groups(after.0, after.1, after.2),
    );
    let takes = work((after.0, after.1, new))?;
    let value = takes / work((before.0, before.1, old))?;
    let binding = |b: &Bounds| b.bounds.iter().find(|b| b.certain && is_work(b.resource)).cloned();
    let certain =
        binding(before.2).zip(binding(after.2)).map(|(old, new)| new.ns.value / old.ns.value);
    // At best, and at worst: a set that outgrows a cache is fetched from the next one.
    let least = |b: &Bound| b.ns.value;
    let most = |b: &Bound| b.most.map_or(b.ns.value, |most| most.value);
    let ends: [&dyn Fn(&Bound) -> f64; 2] = [&least, &most];
    let each = ends.into_iter().flat_map(|end| {
        new.bounds.iter().filter(|b| b.resource != Resource::Launch).filter_map(move |b| {
            let (old, new) = (end(old.by_resource(b.resource)?), end(b));
            // What is far below the likely time does not decide.
            (new >= 0.2 * takes && old > 0.0).then(|| new / old)
        })
    });
    let all = each.chain(certain).chain([shared_out]);
    let (mut low, mut high) = all.fold((value, value), |(l, h), r| (l.min(r), h.max(r)));
    let dominant = dominant(after.0, after.1, new)?;
    // A model is off by more for another launch, up to what it is off without any measurement.
    let twofold = if after.1.is_cpu() { OF_TWOFOLD.1 } else { OF_TWOFOLD.0 };
    let turns = (step + value.ln().abs()) / std::f64::consts::LN_2;
    let (shortest, longest) = Family::of(after.1, dominant).spread();
    low *= (1.0 + twofold).powf(-turns).max(shortest);
    high *= (1.0 + twofold).powf(turns).min(longest);
    // Whether items meet at a word is another matter in each launch.
    if let Some(b) = new.by_resource(Resource::Atomics).filter(|_| dominant == Resource::Atomics) {
        let part = turns.min(1.0);
        let open = |end: f64, to: f64| end * (to / (took.value * end)).powf(part);
        (low, high) = (low.min(open(low, least(b))), high.max(open(high, most(b))));
    }
    // Between no effect (throughput is the limit) and all of it (latency is).
    if let Some((old, new)) = before.2.occupancy.zip(after.2.occupancy) {
        let fewer = old.warps as f64 / new.warps as f64;
        (low, high) = (low * fewer.min(1.0), high * fewer.max(1.0));
    }
    Some((Figure::new(value, low, high, Evidence::Modelled), dominant))
}

/// The measured time with its work changed, and with launching as it is on the other device, as a
/// share of what it was.
pub(super) fn change_time(took: Figure, work: Figure, factor: Figure, launching: f64) -> Figure {
    let of = |work: f64, factor: f64| (took.value - work) * launching + work * factor;
    let value = of(work.value, factor.value);
    let corners =
        [work.low, work.high].into_iter().flat_map(|w| [of(w, factor.low), of(w, factor.high)]);
    let (low, high) = corners.fold((value, value), |(l, h), t| (l.min(t), h.max(t)));
    // What was measured is known no better than before.
    let [least, most] = [took.low, took.high].map(|end| end / took.value);
    let (low, high) = (low * least.min(1.0), high * most.max(1.0));
    Figure { value, low, high, ..took }.modelled()
}
