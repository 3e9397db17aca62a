//! Transfers in words: latency and bandwidth by the trace's own sizes, what pinned memory or larger
//! batches would give. Refuses to fit fewer than three sizes, to speak by a fit that misses them,
//! and to take the host's view of a transfer for the device's.

use super::measurement::untimed;
use super::words::{Sentence, counted, percent};
use super::{Lever, Measurement, Moved, Over, Statement};
use crate::device::Device;
use crate::facts::{OnDevice, Sized, Transfers, link_direction};
use crate::figure::{Evidence, Figure, Missing};
use crate::hockney::{self, Link, Segment};
use clscope_analysis::host_memory::Class;
use clscope_trace::record::Direction;
use serde::Serialize;

/// Transfers by the memory of the host that they use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct HostMemory {
    /// Mapped memory of objects made with CL_MEM_ALLOC_HOST_PTR, and allocations of OpenCL on the
    /// host: what runtimes pin.
    pub pinned: Portion,
    /// Other memory that OpenCL gave out: mapped memory of other objects, shared virtual memory.
    pub mapped: Portion,
    /// The application's own: pageable, unless it pinned it by other means.
    pub application: Portion,
    /// Not known.
    pub unknown: Portion,
}

/// Some transfers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Portion {
    /// How many.
    pub count: u64,
    /// Bytes of all.
    pub bytes: f64,
}

pub(super) fn explain(of: &OnDevice, device: Option<&Device>) -> Vec<Moved> {
    let is_timed = of.held.contains(&Measurement::Timing);
    let each = of.transfers.iter();
    each.map(|(direction, t)| moved(*direction, t, device, is_timed)).collect()
}

/// What is said of one direction; `is_timed` where the trace holds device timestamps.
fn moved(direction: Direction, of: &Transfers, device: Option<&Device>, is_timed: bool) -> Moved {
    let fitted = hockney::fit(&of.points());
    let misfit = fitted.as_ref().map(|(_, misfit)| *misfit);
    let own = fitted.filter(|(_, misfit)| *misfit < MISFIT).map(|(segments, misfit)| Link {
        direction: String::new(),
        memory: String::new(),
        segments,
        misfit,
        watts: None,
    });
    let mut out = Moved {
        direction: direction.name(),
        count: of.count(),
        bytes: of.bytes(),
        time_ns: of.ns(),
        host_memory: host_memory(of),
        latency_ns: own.as_ref().map(Link::latency_ns),
        gigabytes_per_second: own.as_ref().map(Link::bandwidth),
        segments: own.as_ref().map(|l| l.segments.clone()).unwrap_or_default(),
        misfit,
        statements: Vec::new(),
        levers: Vec::new(),
        missing: Vec::new(),
    };
    memory(&mut out);
    let Some(ns) = of.ns() else {
        out.missing.push(untimed(is_timed, "transfers were not timed"));
        return out;
    };
    let measured = |value| Figure::exact(value, Evidence::Measured);
    let mut text = transfers(of.count())
        .put(" (")
        .bytes("moved", counted(of.bytes()))
        .put(") in ")
        .time("all of them", measured(ns));
    if ns > 0.0 {
        text = text.put(" at ").rate("mean rate", measured(of.bytes() / ns));
    }
    out.statements.push(Statement::new("time", Evidence::Measured, text));
    match (&own, misfit) {
        (Some(link), _) => {
            let misfit = Figure::exact(link.misfit, Evidence::Modelled);
            let text = Sentence::from("by size: ").join(pieces(link)).put(" (errors of ");
            let text = text.share("misfit", misfit).put(")");
            out.statements.push(Statement::new("latency", Evidence::Modelled, text));
        }
        (None, Some(misfit)) => out.missing.push(Missing::new(
            "latency and bandwidth are not separated",
            format!(
                "times do not follow sizes: latency + size / bandwidth misses them by {}",
                percent(misfit)
            ),
        )),
        (None, None) => out.missing.push(Missing::new(
            "latency and bandwidth are not separated",
            "transfers of three sizes at least are needed, of which larger ones take longer",
        )),
    }
    let links = device.map(|d| d.links.as_slice()).unwrap_or_default();
    let ours = |memory: &str| {
        let wanted = link_direction(direction)?;
        links.iter().find(|l| l.direction == wanted && l.memory == memory)
    };
    let fastest = own
        .iter()
        .chain(links.iter().filter(|l| Some(l.direction.as_str()) == link_direction(direction)));
    let fastest = fastest.flat_map(|l| &l.segments).map(|s| s.gigabytes_per_second);
    batching(of, own.as_ref(), fastest.fold(0.0, f64::max), ns, &mut out);
    // The memory of a CPU is the host's.
    if device.is_some_and(|d| !d.is_cpu()) {
        pinned(of, ours("pageable").zip(ours("pinned")), &mut out);
    }
    out
}

/// Transfers by the memory of the host that they use, where they use any.
fn host_memory(of: &Transfers) -> Option<HostMemory> {
    let part = |class| {
        let some = of.of_memory(&[class]);
        Portion { count: some.count(), bytes: some.bytes() }
    };
    (!of.by_memory.is_empty()).then(|| HostMemory {
        pinned: part(Class::Pinned),
        mapped: part(Class::Mapped),
        application: part(Class::Application),
        unknown: part(Class::Unknown),
    })
}

/// So many transfers, in words.
fn transfers(n: u64) -> Sentence {
    Sentence::default().count(n, "transfer", "transfers")
}

/// Which memory of the host they use, in words.
fn memory(out: &mut Moved) {
    let Some(of) = out.host_memory else { return };
    let parts = [
        (of.pinned, "mapped memory that OpenCL allocated on the host (CL_MEM_ALLOC_HOST_PTR)"),
        (of.mapped, "other memory that OpenCL mapped or shares"),
        (of.application, "the application's own memory"),
        (of.unknown, "memory of unknown kind"),
    ];
    if of.unknown.count < out.count {
        let to_or_from = match out.direction == Direction::DeviceToHost.name() {
            true => ") to ",
            false => ") from ",
        };
        let some = parts.into_iter().filter(|(part, _)| part.count > 0);
        let each = some.map(|(part, text)| {
            let all = transfers(part.count).put(" (").bytes("moved", counted(part.bytes));
            all.put(to_or_from).put(text)
        });
        let text = Sentence::list(each, ", ");
        out.statements.push(Statement::new("memory", Evidence::Measured, text));
    }
    if of.unknown.count > 0 {
        out.missing.push(Missing::new(
            format!("which memory of the host {} of {} transfers use", of.unknown.count, out.count),
            "`clscope record` of this version records it, unless too much is mapped at a time",
        ));
    }
}

/// From this misfit on, a fit says nothing of what it was fitted to.
const MISFIT: f64 = 0.25;

/// Each segment, and the size that it begins at.
fn pieces(of: &Link) -> Sentence {
    let fitted = |value| Figure::exact(value, Evidence::Modelled).widened(2.0 * of.misfit);
    let one = |s: &Segment| {
        let mut out = Sentence::default();
        if s.from_bytes > 0.0 {
            let from = Figure::exact(s.from_bytes, Evidence::Modelled);
            out = out.put("from ").bytes("segment", from).put(" on ");
        }
        // The fit has no latency below 0, and none where it would be.
        if s.latency_ns > 0.0 {
            out = out.time("latency", fitted(s.latency_ns)).put(" + ");
        }
        out.put("size / ").rate("bandwidth", fitted(s.gigabytes_per_second))
    };
    Sentence::list(of.segments.iter().map(one), ", ")
}

/// Many small transfers: what one large one would save, as far as the trace's own times tell. The
/// bytes themselves take what the `fastest` bandwidth that was seen gives them, GB/s.
fn batching(of: &Transfers, link: Option<&Link>, fastest: f64, ns: f64, out: &mut Moved) {
    let Some(link) = link else { return };
    let each = |(size, s): (&u64, &Sized)| link.latency_at(*size as f64) * s.count as f64;
    let latency = of.sizes.iter().map(each).sum::<f64>().min(ns);
    let share = latency / ns.max(1.0);
    if share < 0.3 || of.count() < 10 {
        return;
    }
    let of_time = Figure::exact(share, Evidence::Modelled).widened(2.0 * link.misfit);
    let text = Sentence::default().share("latency", of_time).put(" of their time is latency");
    out.statements.push(Statement::new("batching", Evidence::Modelled, text));
    let least = of.bytes() / fastest;
    let saved = (latency * (1.0 - 1.0 / of.count() as f64)).min(ns - least).max(0.0);
    if saved > 0.0 {
        let text = Sentence::from("one transfer instead of ").whole("transfers", of.count());
        let text = text.put(" would save the latencies");
        let saves = Figure::new(saved, 0.5 * saved, saved, Evidence::Modelled);
        let lever = Lever::new(Over::transfers(of.count()), Evidence::Modelled, text);
        out.levers.push(lever.saving(Some(saves)));
    }
}

/// Share of the time that pinned memory must save to be worth a word.
const WORTH: f64 = 0.05;

/// What pinned memory would change about the same sizes, of transfers that are known to use the
/// application's own memory and that take as long as pageable memory does. The device's file has
/// both kinds of memory as the host sees them, and the trace has the device's times: only the ratio
/// of both can be taken over, and which of them the trace's times are nearer to.
fn pinned(of: &Transfers, links: Option<(&Link, &Link)>, out: &mut Moved) {
    let own = of.of_memory(&[Class::Application]);
    if own.count() == 0 || link_direction_is_unknown(out.direction) {
        return;
    }
    let Some((pageable, pinned)) = links else {
        out.missing.push(Missing::new(
            "what pinned memory would give",
            "the file of device parameters has no times of pageable and pinned memory",
        ));
        return;
    };
    let of_all = |link: &Link| {
        own.sizes.iter().fold(Figure::exact(0.0, Evidence::Modelled), |sum, (size, s)| {
            let one = link.time_ns(*size as f64).times(s.count as f64);
            Figure {
                value: sum.value + one.value,
                low: sum.low + one.low,
                high: sum.high + one.high,
                ..sum
            }
        })
    };
    let (best, slow) = (of_all(pinned), of_all(pageable));
    let mut text = Sentence::from("with the host's wait, ");
    text = match own.count() == of.count() {
        true => text.put("these sizes take "),
        false => text.put("the sizes of those ").whole("transfers", own.count()).put(" take "),
    };
    let text = text
        .time("from pinned memory", best)
        .put(" from pinned and ")
        .time("from pageable memory", slow)
        .put(" from pageable memory on this device");
    out.statements.push(Statement::new("memory", Evidence::Modelled, text));
    let kept = best.over(slow);
    let Some(ns) = own.ns().filter(|_| kept.value <= 1.0 - WORTH) else { return };
    // Without latencies, which are the host's.
    let bytes_alone = |link: &Link| {
        let each = own.sizes.iter().map(|(size, s)| {
            let size = *size as f64;
            (link.time_ns(size).value - link.latency_at(size)) * s.count as f64
        });
        each.sum::<f64>().max(f64::MIN_POSITIVE).ln()
    };
    let took = ns.max(f64::MIN_POSITIVE).ln();
    if (took - bytes_alone(pinned)).abs() <= (took - bytes_alone(pageable)).abs() {
        let text = "they are as fast as from pinned memory";
        out.statements.push(Statement::new("memory", Evidence::Modelled, text));
        return;
    }
    let text = Sentence::from("host memory of CL_MEM_ALLOC_HOST_PTR, mapped once, is pinned: for ")
        .whole("transfers", own.count())
        .put(" of ")
        .whole("all transfers", of.count())
        .put(" from the application's own memory, unless it pinned that by other means");
    // The bytes themselves take their time from pinned memory, too.
    let most = (ns - bytes_alone(pinned).exp()).max(0.0);
    let saved = |kept: f64| (ns * (1.0 - kept)).clamp(0.0, most);
    let saves =
        Figure::new(saved(kept.value), saved(kept.high), saved(kept.low), Evidence::Modelled);
    let lever = Lever::new(Over::transfers(own.count()), Evidence::Modelled, text);
    out.levers.push(lever.saving(Some(saves)));
}

fn link_direction_is_unknown(direction: &str) -> bool {
    ![Direction::HostToDevice, Direction::DeviceToHost].iter().any(|d| d.name() == direction)
}
