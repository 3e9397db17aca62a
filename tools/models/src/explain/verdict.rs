//! The verdict: which resource the time is spent on, how sure that is, what is next to it and what
//! would decide. Takes what was measured before what is modelled. Refuses a share above the whole
//! time, and advice about what the kernel does not have.

use super::kernel::{beyond_launch, short};
use super::words::{percent, time};
use super::{Explanatory, Lever, Nearest, Statement, Sure};
use crate::device::Device;
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;
use crate::roofline::{ABOVE, Bound, Bounds, Resource, ceiling_of, likely, moving, units_used};
use clscope_io::text::count;
use clscope_mix::{Class, Precision, Space};

/// From this share of the time on, a resource is what the time is spent on.
const NEAR: f64 = 0.7;
/// So much less than the closest bound, a certain one is still the better verdict.
const RATHER: f64 = 0.95;
/// Share of the compute units up to which idle ones are the reason.
const FEW: f64 = 0.5;
/// A resource that explains less of the time than this is not its reason.
const FAR: f64 = 0.1;
/// Share of a launch from which on launching itself is the limit, whatever else there is.
const LAUNCHING: f64 = 0.5;

/// What needs longer than the launch took is no bound of it, and which figure is wrong is said.
pub(super) fn refute(model: &mut Bounds, took: Figure, out: &mut Explanatory) {
    let most = took.value.max(took.high) * ABOVE;
    for bound in model.bounds.iter_mut().filter(|b| b.certain && b.ns.value > most) {
        bound.certain = false;
        let text = format!(
            "{} would take {} by its ceiling, longer than the launch: the ceiling was measured too low, or more was counted than ran",
            bound.resource.name(),
            time(bound.ns.value),
        );
        out.statements.push(Statement::new("bounds", Evidence::Modelled, text));
    }
}

/// A resource as a possible limit, in shares of the measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    resource: Resource,
    least: f64,
    most: f64,
    certain: bool,
    /// Counters saw it.
    measured: bool,
}

impl Candidate {
    /// What counters saw of a resource.
    fn measured(resource: Resource, share: Figure) -> Self {
        let share = share.value.clamp(0.0, 1.0);
        Self { resource, least: share, most: share, certain: true, measured: true }
    }

    /// The least that it needs is most of the time, and not more than all of it.
    fn is_near(&self) -> bool {
        let waits = matches!(self.resource, Resource::Latency | Resource::UnevenGroups);
        (self.measured || !waits) && (NEAR..=ABOVE).contains(&self.least)
    }

    /// How well it explains the time, between 0 and 1.
    fn score(&self) -> f64 {
        match (self.least, self.most) {
            (least, _) if least > 1.0 => least.recip(),
            // Between best and worst, the geometric mean with what it would have to take.
            (least, most) => (least * most.min(1.0)).sqrt(),
        }
    }

    /// In words; never more than the whole time.
    fn share(&self) -> String {
        match (self.least, self.most) {
            // What is asked for and does not fit into the time came from caches.
            (least, _) if least > ABOVE && self.resource == Resource::MemoryIfMissed => {
                "all of the time, and caches served a part".to_owned()
            }
            (least, _) if least > ABOVE => {
                "all of the time by its ceiling, which is too low, or the compiler merged some"
                    .to_owned()
            }
            (least, most) if most > 1.1 * least => {
                format!("{} to {} of the time", percent(least.min(1.0)), percent(most.min(1.0)))
            }
            (least, _) if self.measured => {
                format!("measured {} of the time", percent(least.min(1.0)))
            }
            (least, _) => format!("{} of the time", percent(least.min(1.0))),
        }
    }
}

/// All that the time can be spent on but launching.
fn candidates(of: &Kernel, device: Option<&Device>, model: &Bounds, worked: f64) -> Vec<Candidate> {
    let share = |ns: f64| ns / worked;
    let each = model.bounds.iter().filter_map(|b: &Bound| {
        let (least, most) = (share(b.ns.value), share(b.most.map_or(b.ns.value, |m| m.value)));
        let (least, most) = match b.resource {
            Resource::Launch => return None,
            // All that was asked for is too much where caches serve.
            Resource::MemoryIfMissed => {
                (device.and_then(|d| moving(of, d)).map_or(0.0, share).min(most), most)
            }
            // Not each instruction waits for the one before.
            Resource::Latency | Resource::UnevenGroups => (0.5 * least, most),
            _ => (least, most),
        };
        (most > 0.0).then_some(Candidate {
            resource: b.resource,
            least,
            most: most.max(least),
            certain: b.certain,
            measured: b.resource == Resource::Memory,
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
    // What one unit explains as well is no matter of issuing alone.
    let of_units = all.iter().filter(|c| c.resource.is_issued_to()).map(|c| c.least);
    let of_units = of_units.fold(0.0, f64::max);
    all.retain(|c| c.resource != Resource::Issue || of_units < RATHER * c.least);
    // Units without work, though there are groups for all.
    let rest = of.units_busy.map(|share| Figure { value: 1.0 - share.value, ..share });
    if let Some(rest) = rest.filter(|rest| rest.value > UNEVEN) {
        let too_few = device.is_some_and(|d| units_used(of, d) < 1.0 - UNEVEN);
        let what = if too_few { Resource::FewGroups } else { Resource::UnevenGroups };
        all.retain(|c| c.resource != Resource::UnevenGroups);
        all.push(Candidate::measured(what, rest));
    }
    all
}

/// Share of the time from which on compute units without work are worth a word.
const UNEVEN: f64 = 0.1;

fn by_score(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    a.score().total_cmp(&b.score())
}

/// What is decided.
struct Verdict {
    limit: Resource,
    sure: Sure,
    reached: Option<f64>,
    text: String,
}

pub(super) fn explain(
    of: &Kernel,
    (device, model): (Option<&Device>, &Bounds),
    took: Figure,
    out: &mut Explanatory,
) {
    out.modelled_time_ns = device.and_then(|d| likely(of, d, model));
    if let Some(text) = needs(model, out.modelled_time_ns) {
        out.statements.push(Statement::new("bounds", Evidence::Modelled, text));
    }
    let worked = of.work_ns().map_or(took.value, |t| t.value).max(1.0);
    // Launching comes before the work, but of a launch that is hardly more.
    let work = beyond_launch(of, device).map_or(worked, |ns| ns.max(0.5 * worked));
    let all = candidates(of, device, model, worked);
    let enough = NEAR * work / worked;
    // Nor is it the limit where one resource takes more.
    let most = all.iter().filter(|c| c.resource != Resource::Groups).map(Candidate::score);
    let most = most.fold(0.0, f64::max);
    let empty = short(of, device).filter(|share| *share >= most);
    let launch = model.by_resource(Resource::Launch).map(|b| b.ns.value / worked);
    let found = launching(empty, LAUNCHING)
        .or_else(|| few_groups(of, device, &all))
        .or_else(|| near(&all))
        .or_else(|| launching(empty, 0.0))
        .or_else(|| best(of, (&all, enough), device, launch, out));
    let Some(found) = found else {
        let text = if nothing_known(of) {
            "not known: neither operations nor bytes were counted (`clscope record --mix`) or stated"
        } else {
            "not known: what was counted or stated has no ceiling here, and starting it takes less"
        };
        out.statements.push(Statement::new("verdict", Evidence::Modelled, text));
        return;
    };
    let rest = all.iter().filter(|c| c.resource != found.limit && c.score() > 0.0);
    let rest = rest.filter(|c| c.resource != Resource::Groups || c.score() >= 0.1);
    out.next = rest.max_by(|a, b| by_score(a, b)).map(|next| Nearest {
        resource: next.resource,
        share: if next.least > 1.0 { 1.0 } else { next.least },
    });
    (out.limit, out.sure, out.reached) = (Some(found.limit), Some(found.sure), found.reached);
    out.statements.push(Statement::new("verdict", Evidence::Modelled, found.text));
    if let Some(decide) = &out.decide {
        let text = decide.clone();
        out.statements.push(Statement::new("decide", Evidence::Modelled, text));
    }
    levers(of, device, model, beyond_launch(of, device).unwrap_or(worked), found.limit, out);
}

/// A launch that does hardly more than starting, from a share of its time on.
fn launching(empty: Option<f64>, from: f64) -> Option<Verdict> {
    let share = empty.filter(|share| *share >= from)?.min(1.0);
    let sure = if share >= NEAR { Sure::Certain } else { Sure::Likely };
    Some(Verdict {
        limit: Resource::Launch,
        sure,
        reached: Some(share),
        text: format!(
            "bound by launching: {} of its time is what an empty kernel takes",
            percent(share)
        ),
    })
}

/// Units without a group are the reason before anything that the others do.
fn few_groups(of: &Kernel, device: Option<&Device>, all: &[Candidate]) -> Option<Verdict> {
    let (device, groups) = (device?, of.groups()?);
    let used = units_used(of, device);
    if used > FEW {
        return None;
    }
    let busiest = all.iter().max_by(|a, b| by_score(a, b));
    let busiest = busiest.map_or_else(String::new, |c| {
        format!("; of the work itself, {} takes most: {}", c.resource.name(), c.share())
    });
    let units = device.compute_units;
    Some(Verdict {
        limit: Resource::FewGroups,
        sure: Sure::Certain,
        reached: Some(used),
        text: format!(
            "too few groups: {} for {units} compute units, so that {} of the device waits{busiest}",
            count(groups, "group", "groups"),
            percent(1.0 - used)
        ),
    })
}

/// The resource whose bound comes within 70 % of the time.
fn near(all: &[Candidate]) -> Option<Verdict> {
    let near = || all.iter().filter(|c| c.is_near());
    let most = near().max_by(|a, b| a.least.total_cmp(&b.least))?;
    let certain = near().filter(|c| c.certain && c.least >= RATHER * most.least);
    let it = certain.max_by(|a, b| a.least.total_cmp(&b.least)).unwrap_or(most);
    let share = it.least.min(1.0);
    let text = match (it.resource, it.certain) {
        (Resource::MemoryIfMissed, _) => format!(
            "bound by memory, if it moves each buffer once: that takes {} of the time; what memory moved was not counted",
            percent(share)
        ),
        (Resource::UnevenGroups | Resource::FewGroups, _) => format!(
            "bound by {}: measured, compute units had no work for {} of the time",
            it.resource.name(),
            percent(share)
        ),
        (resource, true) if it.measured && resource != Resource::Memory => {
            format!(
                "bound by {}: measured, it was busy for {} of the time",
                resource.name(),
                percent(share)
            )
        }
        (resource, true) => {
            format!("bound by {}: at {} of its ceiling", resource.name(), percent(share))
        }
        (resource, false) => {
            // Where nothing is left open it holds under no condition.
            let condition = resource
                .condition()
                .filter(|_| resource.worst().is_none() || it.most > 1.1 * it.least);
            let condition = condition.map_or_else(String::new, |c| format!(", {c}"));
            format!("bound by {}: {} of the time{condition}", resource.name(), percent(share))
        }
    };
    let sure = if it.certain { Sure::Certain } else { Sure::Conditional };
    Some(Verdict { limit: it.resource, sure, reached: Some(share), text })
}

/// Where no bound comes near: what explains the time best, the next, and what would decide.
fn best(
    of: &Kernel,
    (all, enough): (&[Candidate], f64),
    device: Option<&Device>,
    launch: Option<f64>,
    out: &mut Explanatory,
) -> Option<Verdict> {
    // Starting groups goes on beside the work.
    let work = || all.iter().filter(|c| c.resource != Resource::Groups && c.score() > 0.0);
    // What cannot take most of the time is its limit only where nothing can.
    let may_be = || work().filter(|c| c.most >= enough);
    let it = may_be().max_by(|a, b| by_score(a, b));
    let it = it.or_else(|| work().max_by(|a, b| by_score(a, b)))?;
    let is_gpu = device.is_some_and(|d| d.kind == "gpu");
    let tallies = of.mix.iter().flat_map(|mix| mix.classes.values());
    let counted = { tallies }.any(|tally| tally.transactions.is_some());
    if it.score() < FAR && it.most < enough && it.resource != Resource::Latency {
        // Launching is no limit of the work, but here the work is hardly more.
        if let Some(launching) = launching(launch, FAR) {
            return Some(launching);
        }
        out.decide = Some(Resource::Latency.decided_by(is_gpu, counted).to_owned());
        let text = format!(
            "likely waiting, for results or for the longest of the groups: no ceiling explains the time, {} is closest: {}",
            it.resource.name(),
            it.share()
        );
        return Some(Verdict { limit: Resource::Latency, sure: Sure::Likely, reached: None, text });
    }
    let next = work().filter(|c| c.resource != it.resource).max_by(|a, b| by_score(a, b));
    let worst = it.resource.worst().filter(|_| it.most > 1.1 * it.least && it.least <= ABOVE);
    let worst = worst.map_or_else(String::new, |w| format!(", the most {w}"));
    let mut text = format!("likely {}: {}{worst}", it.resource.name(), it.share());
    if let Some(next) = next {
        text += &format!("; next {}: {}", next.resource.name(), next.share());
    }
    out.decide = Some(it.resource.decided_by(is_gpu, counted).to_owned());
    let reached = (it.least <= ABOVE).then_some(it.least.min(1.0));
    Some(Verdict { limit: it.resource, sure: Sure::Likely, reached, text })
}

/// The bounds in words: those that hold whatever happens, then those that hold under a condition.
fn needs(model: &Bounds, likely: Option<Figure>) -> Option<String> {
    let longest = || model.bounds.iter().filter(|b| b.resource != Resource::Latency).take(6);
    let plain = |b: &Bound| format!("{} {}", time(b.ns.value), b.resource.name());
    let certain: Vec<String> = longest().filter(|b| b.certain).map(plain).collect();
    let conditional: Vec<String> = longest()
        .filter(|b| !b.certain)
        .map(|b| match b.resource.condition() {
            Some(condition) => format!("{} {condition}", plain(b)),
            None => plain(b),
        })
        .collect();
    let mut parts = Vec::new();
    if !certain.is_empty() {
        parts.push(format!("needs at least {}", certain.join(" | ")));
    }
    if !conditional.is_empty() {
        parts.push(conditional.join(" | "));
    }
    if parts.is_empty() {
        return None;
    }
    parts.extend(likely.map(|all| format!("likely {}", time(all.value))));
    Some(parts.join("; "))
}

/// Whether nothing shows what a launch does.
fn nothing_known(of: &Kernel) -> bool {
    of.mix.is_none()
        && of.flop.is_none()
        && of.bytes.is_none()
        && of.dram_bytes.is_none()
        && of.busy.is_empty()
}

/// What one would change about the resource that binds, with what the next bound leaves to gain.
fn levers(
    of: &Kernel,
    device: Option<&Device>,
    model: &Bounds,
    worked: f64,
    limit: Resource,
    out: &mut Explanatory,
) {
    let Some(text) = advice(of, device, limit) else { return };
    let binding = model.by_resource(limit).map_or(0.0, |b| b.ns.value);
    let next = model
        .bounds
        .iter()
        .filter(|b| b.certain && b.resource != limit)
        .map(|b| b.ns.value)
        .fold(0.0, f64::max);
    // Halving what binds: its part shrinks until the next bound holds.
    let half = (binding / 2.0).max(next).min(binding);
    let gain = worked * (1.0 - half / binding.max(1e-9)) * of.launches as f64;
    // A share of the time that is only likely is no measure of what halving it saves.
    let is_known = out.sure != Some(Sure::Likely) && limit != Resource::Latency;
    let saves = (gain > 0.0 && is_known).then(|| Figure::new(gain, 0.0, gain, Evidence::Modelled));
    out.levers.push(Lever {
        text,
        saves_ns: saves,
        saves_joules: None,
        evidence: Evidence::Modelled,
    });
}

/// What would ask less of a resource, of a kernel that asks something of it.
fn advice(of: &Kernel, device: Option<&Device>, limit: Resource) -> Option<String> {
    let is_cpu = device.is_some_and(|d| d.kind == "cpu");
    let plain = |text: &str| Some(text.to_owned());
    match (limit, &of.mix) {
        (Resource::LocalMemory, Some(mix)) => {
            let loads = mix.classes.get(&Class::LoadLocal).map_or(0, |t| t.threads) as f64;
            let flop: f64 = Precision::ALL.iter().map(|p| mix.flop(*p) as f64).sum();
            if loads <= 0.0 {
                return None;
            }
            let feeds = match flop > 0.0 {
                true => format!("each load from local memory feeds {:.1} FLOP: ", flop / loads),
                false => String::new(),
            };
            Some(format!(
                "{feeds}more results for each work-item (2 x 2, say) would halve the loads"
            ))
        }
        (Resource::Memory | Resource::MemoryIfMissed, _) => plain(
            "half the bytes (narrower types, results kept on the device, kernels joined) would halve this bound",
        ),
        (Resource::Cache | Resource::LastCache, Some(mix)) if mix.bytes(Space::Global) > 0 => {
            match is_cpu {
                true => plain(
                    "blocks of the data that fit the cache, or neighbours in one vector, would ask less of the caches",
                ),
                false => plain(
                    "tiles in local memory or registers would ask less of the caches: half the requests halve this bound",
                ),
            }
        }
        (Resource::Groups, _) => {
            let local = of.local?;
            Some(format!(
                "groups of {} items instead of {local} would halve their number, and what starting them takes",
                2 * local
            ))
        }
        (Resource::UnevenGroups, _) => plain(
            "groups that do alike, or more and smaller ones, the longest first, would give all compute units work",
        ),
        (Resource::Fp64, _) => {
            plain("single precision, where it is enough, takes at most half of this")
        }
        (Resource::Issue | Resource::Integer, Some(_)) => {
            let theirs = |class: Class| {
                let ceiling = ceiling_of(class).map(|c| c.resource);
                limit == Resource::Issue || ceiling == Some(limit)
            };
            let shares = of.shares();
            let (most, _) = shares.iter().find(|(class, _)| theirs(*class))?;
            let most = most.name();
            Some(format!("fewer instructions: {most} is the largest part of what is issued"))
        }
        (Resource::IntegerMultiply, _) => plain(
            "additions instead of multiplications in loops (x += step), or shifts, would halve this bound",
        ),
        (Resource::IntegerDivision, _) => plain(
            "a divisor that is known when the kernel is built (-D DIVISOR=...) is no division but a multiplication",
        ),
        (Resource::Division, _) => plain(
            "native_divide, or one reciprocal for several quotients, would take a fraction of this where its precision is enough",
        ),
        (Resource::Special, _) => plain(
            "native_ functions or a table in place of half of the special functions would halve this bound",
        ),
        (Resource::Conversion, _) => plain("values kept in one type would need fewer conversions"),
        (Resource::Atomics, Some(mix)) => {
            match mix.classes.get(&Class::AtomicGlobal).is_some_and(|t| t.threads > 0) {
                true => plain(
                    "sums in local memory or registers, and one atomic on global memory for each group, would need fewer atomics",
                ),
                false => plain(
                    "sums in registers, or several copies of the words in local memory, would need fewer atomics on one word",
                ),
            }
        }
        (Resource::Barriers, _) => {
            plain("more work between two barriers, or smaller groups, would wait for fewer of them")
        }
        (Resource::PrivateMemory, _) => plain(
            "arrays whose indices are known when the kernel is built (unrolled loops) stay in registers",
        ),
        (Resource::ConstantMemory, _) => plain(
            "tables that items index differently are faster in global or local memory; constant memory gives one word at a time",
        ),
        (Resource::Latency, _) => plain(
            "more independent work in each item, or more groups at once, would hide the waits",
        ),
        _ => None,
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
