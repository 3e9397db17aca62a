//! The verdict: which resource the time is spent on, how sure that is, what is next to it and what
//! would decide. Takes what was measured before what is modelled. Refuses a share above the whole
//! time.

use super::advice::advice;
use super::candidates::{Candidate, FAR, NEAR, by_score, candidates, is_shared_out, possible};
use super::kernel::{beyond_launch, short};
use super::measurement::deciding;
use super::words::{Sentence, counted, within_all};
use super::{Explanatory, Lever, Nearest, Over, Statement, Sure};
use crate::device::Device;
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;
use crate::roofline::{ABOVE, Bound, Bounds, Resource, bounds, likely, units_used};

/// So much less than the closest bound, a certain one is still the better verdict.
const RATHER: f64 = 0.95;
/// Of the compute units that can be idle beside one, the share from which on they are the reason.
const FEW: f64 = 0.5;
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
pub fn cause(of: &Kernel, device: &Device, took: Figure) -> (Bounds, Cause) {
    let (model, cause, _) = judge(of, device, took);
    (model, cause)
}

fn judge(of: &Kernel, device: &Device, took: Figure) -> (Bounds, Cause, Vec<Statement>) {
    let mut model = bounds(of, device);
    let worked = of.work_of(took);
    let refuted = refute(&mut model, worked);
    let worked = Figure { value: worked.value.max(1.0), ..worked };
    // Launching comes before the work, but of a launch that is hardly more.
    let work = beyond_launch(worked, Some(device)).max(0.5 * worked.value);
    let all = possible(candidates(of, device, &model, worked), device);
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
        assumed: device.typical,
    });
    let found = launching(empty, LAUNCHING, device)
        .or_else(|| too_few(of, device, &all))
        .or_else(|| near(of, device, &all))
        .or_else(|| launching(empty, 0.0, device))
        .or_else(|| best(&all, enough, launch, device))
        .unwrap_or_else(|| unknown(of, device));
    let found = match open_launches(of).filter(|_| found.sure == Sure::Certain) {
        Some(condition) => {
            Verdict { sure: Sure::Conditional, text: found.text.put(condition), ..found }
        }
        None => found,
    };
    let found = {
        let next = next_to(found.limit, &all, launch);
        // Of what was not counted the usual causes are nearer than what starting takes.
        let other = || {
            if found.sure != Sure::Likely || is_counted(of) {
                return None;
            }
            let others = usual(of, device, &by_code(of, device)).into_iter();
            others.filter(|r| *r != found.limit).map(Candidate::uncounted).next()
        };
        let next = next.filter(|next| next.measured).or_else(other).or(next);
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
                // What has no ceiling may be any.
                share: if next.assumed { 0.0 } else { next.least.value.min(1.0) },
                most_share: if next.assumed { 1.0 } else { next.most.value.min(1.0) },
            }),
            text: found.text.join(text.unwrap_or_default()),
        }
    };
    (model, found, refuted)
}

/// The condition under which what holds for the launches that were seen holds for all of them.
fn open_launches(of: &Kernel) -> Option<&'static str> {
    match of.first {
        Some(first) if first.others == 1 && first.launches > 0 => {
            Some(", if the first launch alone was compiled")
        }
        _ if of.uncounted_share() > 0.0 => Some(", if launches that were not counted do as much"),
        _ => None,
    }
}

/// What explains the time best beside the limit. Starting groups goes on beside the work, and
/// launching comes before it: they are named from a tenth of the time on.
fn next_to(limit: Resource, all: &[Candidate], launch: Option<Candidate>) -> Option<Candidate> {
    let apart = |c: &Candidate| matches!(c.resource, Resource::Groups | Resource::Launch);
    let rest = all.iter().copied().chain(launch);
    let rest = rest.filter(|c| c.resource != limit && c.score() > 0.0);
    rest.filter(|c| !apart(c) || c.score() >= FAR).max_by(by_score)
}

/// What kernels spend their time on of which nothing was counted, the likelier one first: with few
/// items a unit has nothing to hide waits with.
fn usual(of: &Kernel, device: &Device, by_code: &[Resource]) -> Vec<Resource> {
    let resident = if device.is_cpu() { 1.0 } else { HIDES };
    let units = f64::from(device.compute_units.max(1));
    let hides = of.items.is_none_or(|items| items as f64 >= resident * units);
    let mut all = vec![Resource::MemoryIfMissed, Resource::Latency, Resource::Issue];
    all[..2].sort_by_key(|r| (*r == Resource::MemoryIfMissed) != hides);
    if hides {
        all.retain(|resource| !by_code.contains(resource));
        all.splice(..0, by_code.iter().copied());
    }
    // What memory does was measured.
    all.retain(|r| {
        *r != Resource::MemoryIfMissed || of.dram_share.is_none() && of.dram_bytes.is_none()
    });
    all
}

/// What takes a kernel longest by the statements of its code, longest first.
fn by_code(of: &Kernel, device: &Device) -> Vec<Resource> {
    let Some(mix) = of.by_code.clone() else { return Vec::new() };
    let guess = Kernel { mix: Some(mix), ..of.clone() };
    let mut all = bounds(&guess, device).bounds;
    // What each instruction takes by itself; of issuing only what no unit explains as well.
    let issue = all.iter().find(|b| b.resource == Resource::Issue).map_or(0.0, |b| b.likely);
    let of_units = all.iter().filter(|b| b.resource.is_issued_to()).map(|b| b.likely);
    let of_units = of_units.fold(0.0, f64::max);
    all.retain(|b| match b.resource {
        Resource::Launch | Resource::Groups | Resource::Latency | Resource::UnevenGroups => false,
        Resource::Issue => of_units < NEAR * issue,
        _ => true,
    });
    all.sort_by(|a, b| b.likely.total_cmp(&a.likely));
    all.into_iter().map(|b| b.resource).take(2).collect()
}

/// Items of a unit of a GPU that hide most waits: half of what it holds.
const HIDES: f64 = 1024.0;

/// Where nothing is known of what a launch does, or nothing of it has a ceiling.
fn unknown(of: &Kernel, device: &Device) -> Verdict {
    let by_code = by_code(of, device);
    let limit = usual(of, device, &by_code)[0];
    let text = Sentence::from("likely ").put(limit.name()).put(match nothing_known(of) {
        true if by_code.contains(&limit) => {
            ": by the statements of its code, as if its loops were equally long; nothing was counted"
        }
        true => ": neither operations nor bytes were counted or stated",
        false => ": what was counted or stated has no ceiling here, and starting it takes less",
    });
    Verdict { limit, sure: Sure::Likely, reached: None, text }
}

/// The bounds of a kernel that was timed, with what the verdict is. Those of a device that was not
/// measured are none.
pub(super) fn explain(of: &Kernel, device: &Device, took: Figure, out: &mut Explanatory) -> Bounds {
    let (model, cause, refuted) = judge(of, device, took);
    if !device.typical {
        out.statements.extend(refuted);
        out.modelled_time_ns = likely(of, device, &model);
        if let Some(text) = needs(&model, out.modelled_time_ns) {
            out.statements.push(Statement::new("bounds", Evidence::Modelled, text));
        }
    }
    (out.limit, out.sure) = (Some(cause.limit), Some(cause.sure));
    (out.reached, out.next) = (cause.reached, cause.next);
    out.statements.push(Statement::new("verdict", Evidence::Modelled, cause.text));
    if cause.sure != Sure::Certain {
        out.decide = Some(deciding(of, device, cause.limit));
    }
    let work = beyond_launch(of.work_of(took), Some(device));
    levers(of, device, &model, work, cause.limit, out);
    model
}

/// A launch that does hardly more than starting, from a share of its time on.
fn launching(empty: Option<Figure>, from: f64, device: &Device) -> Option<Verdict> {
    let share = within_all(empty.filter(|share| share.value >= from)?);
    if device.typical {
        let text = "likely launching: much of its time is what an empty kernel typically takes";
        let (limit, sure) = (Resource::Launch, Sure::Likely);
        return Some(Verdict { limit, sure, reached: None, text: text.into() });
    }
    // What waking up threads may take is no certain part of it.
    let (sure, start) = match share.low >= NEAR {
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

/// Units without a group are the reason before anything that the others do, if more groups would
/// share that out; for certain where what the others do was counted and takes most of the time.
fn too_few(of: &Kernel, device: &Device, all: &[Candidate]) -> Option<Verdict> {
    let groups = of.groups()?;
    let used = units_used(of, device);
    let most = 1.0 - f64::from(device.compute_units.max(1)).recip();
    let is_idle = |c: &&Candidate| {
        // Of a GPU those are what the longest group waits for.
        let is_uneven = c.resource == Resource::UnevenGroups && device.is_cpu();
        c.resource == Resource::FewGroups || is_uneven
    };
    let few = all.iter().filter(|_| 1.0 - used >= FEW * most).find(is_idle)?;
    let rest = few.most.value.max(f64::MIN_POSITIVE);
    let is_other = |c: &&Candidate| !is_idle(c) && !is_shared_out(c, of, device);
    let others = all.iter().filter(is_other).map(Candidate::score);
    // What units do is not known, or is more of the time than what more groups leave as it is.
    let waits = is_counted(of) && others.fold(0.0, f64::max) > few.least.value / rest;
    let start = match few.certain {
        true => Sentence::default(),
        false if waits => return None,
        false => "likely ".into(),
    };
    let start = start.put(few.resource.name()).put(": ");
    let text = match of.longest_group.filter(|_| few.resource == Resource::UnevenGroups) {
        Some(times) => start
            .put("the longest takes ")
            .tenths("of the mean group", "group", counted(times))
            .put(" times as long as the mean"),
        None => start
            .count(groups, "group", "groups")
            .put(" for ")
            .whole("compute units", u64::from(device.compute_units))
            .put(" compute units"),
    };
    Some(Verdict {
        limit: few.resource,
        sure: if few.certain { Sure::Certain } else { Sure::Likely },
        reached: Some(used),
        text: text
            .put(", so that ")
            .share("of the device", counted(1.0 - used))
            .put(" of the device waits"),
    })
}

/// Whether what else could take the time was counted: a cause is certain only then.
fn is_counted(of: &Kernel) -> bool {
    of.mix.is_some() || !of.busy.is_empty()
}

/// The resource whose bound comes within 70 % of the time.
fn near(of: &Kernel, device: &Device, all: &[Candidate]) -> Option<Verdict> {
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
        (resource @ (Resource::UnevenGroups | Resource::IdleUnits), _) => bound
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
            // Where nothing is left open only the compiler may do less.
            let open = resource.condition().filter(|_| resource.worst().is_none() || it.is_wide());
            let condition = open.unwrap_or(match device.is_cpu() {
                true => "if the compiler joins no work-items",
                false => "if the compiler does all that is counted",
            });
            let text = bound.put(resource.name()).put(": ").share("share", share);
            text.put(" of the time, ").put(condition)
        }
    };
    // Units without work do nothing else.
    let idle = matches!(it.resource, Resource::UnevenGroups | Resource::IdleUnits);
    let alone = it.certain && !idle && !is_counted(of);
    let text = if alone { text.put("; nothing else of it was counted") } else { text };
    let sure = if it.certain && !alone { Sure::Certain } else { Sure::Conditional };
    Some(Verdict { limit: it.resource, sure, reached: Some(share.value), text })
}

/// Where no bound comes near: what explains the time best.
fn best(
    all: &[Candidate],
    enough: f64,
    launch: Option<Candidate>,
    device: &Device,
) -> Option<Verdict> {
    // Starting groups goes on beside the work.
    let work = || all.iter().filter(|c| c.resource != Resource::Groups && c.score() > 0.0);
    // What cannot take most of the time is its limit only where nothing can.
    let may_be = || work().filter(|c| c.most.value >= enough);
    let it = may_be().max_by(|a, b| by_score(a, b));
    let it = it.or_else(|| work().max_by(|a, b| by_score(a, b)))?;
    if it.score() < FAR && it.most.value < enough && it.resource != Resource::Latency {
        // Launching is no limit of the work, but here the work is hardly more.
        if let Some(launching) = launching(launch.map(|c| c.least), FAR, device) {
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
    let worst =
        it.resource.worst().filter(|_| it.is_wide() && it.least.value <= ABOVE && !it.assumed);
    let mut text =
        Sentence::from("likely ").put(it.resource.name()).put(": ").join(match it.assumed {
            true => {
                "by what devices of its kind do, since no ceiling of this one was measured".into()
            }
            false => it.share(),
        });
    if let Some(worst) = worst {
        text = text.put(", the most ").put(worst);
    }
    let reached = (it.least.value <= ABOVE && !it.assumed).then_some(it.least.value.min(1.0));
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
    // A cause that is only typical of such devices has no bound that a change would halve.
    let advice = advice(of, Some(device), limit).filter(|_| !device.typical);
    let Some(text) = advice else { return };
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
