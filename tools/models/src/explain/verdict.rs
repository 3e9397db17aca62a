//! The verdict: which resource the time is spent on, how sure that is, what is next to it and what
//! would decide. Takes what was measured before what is modelled. Refuses a share above the whole
//! time.

use super::advice::advice;
use super::kernel::{beyond_launch, short};
use super::measurement::deciding;
use super::words::{Sentence, counted, within_all};
use super::{Explanatory, Lever, Nearest, Over, Statement, Sure};
use crate::device::Device;
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;
use crate::roofline::{ABOVE, Bound, Bounds, Resource, bounds, likely, moving, units_used};

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
fn refute(model: &mut Bounds, took: Figure) -> Vec<Statement> {
    let most = took.value.max(took.high) * ABOVE;
    let wrong = model.bounds.iter_mut().filter(|b| b.certain && b.ns.value > most);
    wrong.map(|bound| {
        bound.certain = false;
        let text = Sentence::from(bound.resource.name())
            .put(" would take ")
            .time(bound.resource.name(), bound.ns)
            .put(" by its ceiling, longer than the launch: the ceiling was measured too low, or more was counted than ran");
        Statement::new("bounds", Evidence::Modelled, text)
    }).collect()
}

/// A resource as a possible limit, in shares of the measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Candidate {
    resource: Resource,
    least: Figure,
    most: Figure,
    certain: bool,
    /// Counters saw it.
    measured: bool,
}

impl Candidate {
    /// What counters saw of a resource.
    fn measured(resource: Resource, share: Figure) -> Self {
        let share = within_all(share);
        Self { resource, least: share, most: share, certain: true, measured: true }
    }

    /// The least that it needs is most of the time, and not more than all of it.
    fn is_near(&self) -> bool {
        let waits = matches!(self.resource, Resource::Latency | Resource::UnevenGroups);
        (self.measured || !waits) && (NEAR..=ABOVE).contains(&self.least.value)
    }

    /// How well it explains the time, between 0 and 1.
    fn score(&self) -> f64 {
        match (self.least.value, self.most.value) {
            (least, _) if least > 1.0 => least.recip(),
            // Between best and worst, the geometric mean with what it would have to take.
            (least, most) => (least * most.min(1.0)).sqrt(),
        }
    }

    /// Nothing says where between two shares it lies.
    fn is_wide(&self) -> bool {
        self.most.value > 1.1 * self.least.value
    }

    /// In words; never more than the whole time.
    fn share(&self) -> Sentence {
        let (least, most) = (within_all(self.least), within_all(self.most));
        match self.least.value {
            // What is asked for and does not fit into the time came from caches.
            share if share > ABOVE && self.resource == Resource::MemoryIfMissed => {
                "all of the time, and caches served a part".into()
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
fn candidates(of: &Kernel, device: &Device, model: &Bounds, worked: Figure) -> Vec<Candidate> {
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
    // Bytes that the nearest cache only passes on take a farther level at least as long.
    if of.passes_on(device) {
        all.retain(|c| c.resource != Resource::Cache);
    }
    // What one unit explains as well is no matter of issuing alone.
    let of_units = all.iter().filter(|c| c.resource.is_issued_to()).map(|c| c.least.value);
    let of_units = of_units.fold(0.0, f64::max);
    all.retain(|c| c.resource != Resource::Issue || of_units < RATHER * c.least.value);
    // Units without work, though there are groups for all.
    let rest = of.units_busy.map(|share| Figure {
        value: 1.0 - share.value,
        low: 1.0 - share.high,
        high: 1.0 - share.low,
        ..share
    });
    if let Some(rest) = rest.filter(|rest| rest.value > UNEVEN) {
        let too_few = units_used(of, device) < 1.0 - UNEVEN;
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
    text: Sentence,
}

/// What the time of a launch is spent on.
#[derive(Debug, Clone, PartialEq)]
pub struct Cause {
    /// The resource.
    pub limit: Resource,
    /// How sure that is.
    pub sure: Sure,
    /// How much of its ceiling is reached, at most 1, where the ceiling says so.
    pub reached: Option<f64>,
    /// What explains the time best after it.
    pub next: Option<Nearest>,
    /// In words, with what is next.
    pub(super) text: Sentence,
}

/// The bounds of a kernel on a device, and what of them the time of a launch is spent on: the one
/// place where that is decided, of what was measured and of what is predicted.
pub fn cause(of: &Kernel, device: &Device, took: Figure) -> (Bounds, Option<Cause>) {
    let (model, cause, _) = judge(of, device, took);
    (model, cause)
}

fn judge(of: &Kernel, device: &Device, took: Figure) -> (Bounds, Option<Cause>, Vec<Statement>) {
    let mut model = bounds(of, device);
    let worked = of.work_of(took);
    let refuted = refute(&mut model, worked);
    let worked = Figure { value: worked.value.max(1.0), ..worked };
    // Launching comes before the work, but of a launch that is hardly more.
    let work = beyond_launch(worked, Some(device)).max(0.5 * worked.value);
    let all = candidates(of, device, &model, worked);
    let enough = NEAR * work / worked.value;
    // Nor is it the limit where one resource takes more.
    let most = all.iter().filter(|c| c.resource != Resource::Groups).map(Candidate::score);
    let most = most.fold(0.0, f64::max);
    let empty = short(of, Some(device), took).filter(|share| share.value >= most);
    let launch = model.by_resource(Resource::Launch).map(|b| Candidate {
        resource: Resource::Launch,
        least: b.ns.over(worked),
        most: b.most.unwrap_or(b.ns).over(worked),
        certain: true,
        measured: false,
    });
    let found = launching(empty, LAUNCHING)
        .or_else(|| few_groups(of, device))
        .or_else(|| near(&all))
        .or_else(|| launching(empty, 0.0))
        .or_else(|| best(&all, enough, launch));
    let found = found.map(|found| {
        let next = next_to(found.limit, &all, launch);
        let text = next.map(|next| {
            let name = Sentence::from("; next ").put(next.resource.name());
            name.put(": ").join(next.share())
        });
        Cause {
            limit: found.limit,
            sure: found.sure,
            reached: found.reached,
            next: next.map(|next| Nearest {
                resource: next.resource,
                share: next.least.value.min(1.0),
                most_share: next.most.value.min(1.0),
            }),
            text: found.text.join(text.unwrap_or_default()),
        }
    });
    (model, found, refuted)
}

/// What explains the time best beside the limit. Starting groups goes on beside the work, and
/// launching comes before it: they are named from a tenth of the time on.
fn next_to(limit: Resource, all: &[Candidate], launch: Option<Candidate>) -> Option<Candidate> {
    let apart = |c: &Candidate| matches!(c.resource, Resource::Groups | Resource::Launch);
    let rest = all.iter().copied().chain(launch);
    let rest = rest.filter(|c| c.resource != limit && c.score() > 0.0);
    rest.filter(|c| !apart(c) || c.score() >= FAR).max_by(by_score)
}

/// The bounds of a kernel that was timed, with what the verdict is.
pub(super) fn explain(of: &Kernel, device: &Device, took: Figure, out: &mut Explanatory) -> Bounds {
    let (model, cause, refuted) = judge(of, device, took);
    out.statements.extend(refuted);
    out.modelled_time_ns = likely(of, device, &model);
    if let Some(text) = needs(&model, out.modelled_time_ns) {
        out.statements.push(Statement::new("bounds", Evidence::Modelled, text));
    }
    let Some(cause) = cause else {
        let text = if nothing_known(of) {
            "not known: neither operations nor bytes were counted or stated"
        } else {
            "not known: what was counted or stated has no ceiling here, and starting it takes less"
        };
        out.statements.push(Statement::new("verdict", Evidence::Modelled, text));
        return model;
    };
    (out.limit, out.sure) = (Some(cause.limit), Some(cause.sure));
    (out.reached, out.next) = (cause.reached, cause.next);
    out.statements.push(Statement::new("verdict", Evidence::Modelled, cause.text));
    if cause.sure == Sure::Likely && cause.limit != Resource::Launch {
        out.decide = deciding(of, Some(device), cause.limit).map(|m| m.sentence());
    }
    if let Some(decide) = &out.decide {
        let text = decide.clone();
        out.statements.push(Statement::new("decide", Evidence::Modelled, text));
    }
    let work = beyond_launch(of.work_of(took), Some(device));
    levers(of, device, &model, work, cause.limit, out);
    model
}

/// A launch that does hardly more than starting, from a share of its time on.
fn launching(empty: Option<Figure>, from: f64) -> Option<Verdict> {
    let share = within_all(empty.filter(|share| share.value >= from)?);
    let (sure, start) = match share.value >= NEAR {
        true => (Sure::Certain, "bound by launching: "),
        false => (Sure::Likely, "likely launching: "),
    };
    Some(Verdict {
        limit: Resource::Launch,
        sure,
        reached: Some(share.value),
        text: Sentence::from(start)
            .share("an empty kernel", share)
            .put(" of its time is what an empty kernel takes"),
    })
}

/// Units without a group are the reason before anything that the others do.
fn few_groups(of: &Kernel, device: &Device) -> Option<Verdict> {
    let groups = of.groups()?;
    let used = units_used(of, device);
    if used > FEW {
        return None;
    }
    Some(Verdict {
        limit: Resource::FewGroups,
        sure: Sure::Certain,
        reached: Some(used),
        text: Sentence::from("too few groups: ")
            .count(groups, "group", "groups")
            .put(" for ")
            .whole("compute units", u64::from(device.compute_units))
            .put(" compute units, so that ")
            .share("of the device", counted(1.0 - used))
            .put(" of the device waits"),
    })
}

/// The resource whose bound comes within 70 % of the time.
fn near(all: &[Candidate]) -> Option<Verdict> {
    let near = || all.iter().filter(|c| c.is_near());
    let by_least = |a: &&Candidate, b: &&Candidate| a.least.value.total_cmp(&b.least.value);
    let most = near().max_by(by_least)?;
    let certain = near().filter(|c| c.certain && c.least.value >= RATHER * most.least.value);
    let it = certain.max_by(by_least).unwrap_or(most);
    let share = within_all(it.least);
    let bound = Sentence::from("bound by ");
    let text = match (it.resource, it.certain) {
        (Resource::MemoryIfMissed, _) => bound
            .put("memory, if it moves each buffer once: that takes ")
            .share("share", share)
            .put(" of the time; what memory moved was not counted"),
        (resource @ (Resource::UnevenGroups | Resource::FewGroups), _) => bound
            .put(resource.name())
            .put(": measured, compute units had no work for ")
            .share("share", share)
            .put(" of the time"),
        (resource, true) if it.measured && resource != Resource::Memory => bound
            .put(resource.name())
            .put(": measured, it was busy for ")
            .share("share", share)
            .put(" of the time"),
        (resource, true) => {
            bound.put(resource.name()).put(": at ").share("share", share).put(" of its ceiling")
        }
        (resource, false) => {
            // Where nothing is left open it holds under no condition.
            let condition = resource.condition();
            let condition = condition.filter(|_| resource.worst().is_none() || it.is_wide());
            let text = bound.put(resource.name()).put(": ").share("share", share);
            let text = text.put(" of the time");
            condition.map_or_else(|| text.clone(), |c| text.clone().put(", ").put(c))
        }
    };
    let sure = if it.certain { Sure::Certain } else { Sure::Conditional };
    Some(Verdict { limit: it.resource, sure, reached: Some(share.value), text })
}

/// Where no bound comes near: what explains the time best.
fn best(all: &[Candidate], enough: f64, launch: Option<Candidate>) -> Option<Verdict> {
    // Starting groups goes on beside the work.
    let work = || all.iter().filter(|c| c.resource != Resource::Groups && c.score() > 0.0);
    // What cannot take most of the time is its limit only where nothing can.
    let may_be = || work().filter(|c| c.most.value >= enough);
    let it = may_be().max_by(|a, b| by_score(a, b));
    let it = it.or_else(|| work().max_by(|a, b| by_score(a, b)))?;
    if it.score() < FAR && it.most.value < enough && it.resource != Resource::Latency {
        // Launching is no limit of the work, but here the work is hardly more.
        if let Some(launching) = launching(launch.map(|c| c.least), FAR) {
            return Some(launching);
        }
        let text = "likely waiting, for results or for the longest of the groups: no ceiling explains the time";
        return Some(Verdict {
            limit: Resource::Latency,
            sure: Sure::Likely,
            reached: None,
            text: text.into(),
        });
    }
    let worst = it.resource.worst().filter(|_| it.is_wide() && it.least.value <= ABOVE);
    let mut text = Sentence::from("likely ").put(it.resource.name()).put(": ").join(it.share());
    if let Some(worst) = worst {
        text = text.put(", the most ").put(worst);
    }
    let reached = (it.least.value <= ABOVE).then_some(it.least.value.min(1.0));
    Some(Verdict { limit: it.resource, sure: Sure::Likely, reached, text })
}

/// The bounds in words: those that hold whatever happens, then those that hold under a condition.
fn needs(model: &Bounds, likely: Option<Figure>) -> Option<Sentence> {
    let longest = || model.bounds.iter().filter(|b| b.resource != Resource::Latency).take(6);
    let plain = |b: &Bound| {
        let name = b.resource.name();
        Sentence::default().time(name, b.ns).put(" ").put(name)
    };
    let certain = longest().filter(|b| b.certain).map(plain);
    let certain = Sentence::list(certain, " | ");
    let conditional = longest().filter(|b| !b.certain).map(|b| {
        let condition = b.resource.condition().map_or_else(String::new, |c| format!(" {c}"));
        plain(b).put(&condition)
    });
    let conditional = Sentence::list(conditional, " | ");
    let mut parts = Vec::new();
    if !certain.is_empty() {
        parts.push(Sentence::from("needs at least ").join(certain));
    }
    if !conditional.is_empty() {
        parts.push(conditional);
    }
    if parts.is_empty() {
        return None;
    }
    parts.extend(likely.map(|all| Sentence::from("likely ").time("likely", all)));
    Some(Sentence::list(parts, "; "))
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
    device: &Device,
    model: &Bounds,
    worked: f64,
    limit: Resource,
    out: &mut Explanatory,
) {
    let Some(text) = advice(of, Some(device), limit) else { return };
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
    let lever = Lever::new(Over::launches(of.launches), Evidence::Modelled, text);
    out.levers.push(lever.saving(saves));
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
