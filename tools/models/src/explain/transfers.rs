//! Transfers in words: latency and bandwidth by the trace's own sizes, what pinned memory or larger
//! batches would give. Refuses to fit fewer than three sizes, to speak by a fit that misses them,
//! and to take the host's view of a transfer for the device's.

use super::words::{bytes, percent, short, time};
use super::{Lever, Moved, Statement};
use crate::device::Device;
use crate::facts::{OnDevice, Sized, Transfers, link_direction};
use crate::figure::{Evidence, Figure, Missing};
use crate::hockney::{self, Link, Segment};
use clscope_analysis::host_memory::Class;
use clscope_io::text::count;
use clscope_trace::record::Direction;
use serde::Serialize;

/// Transfers by the memory of the host that they use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Portion {
    /// How many.
    pub count: u64,
    /// Bytes of all.
    pub bytes: f64,
}

pub(super) fn explain(of: &OnDevice, device: Option<&Device>) -> Vec<Moved> {
    of.transfers.iter().map(|(direction, t)| moved(*direction, t, device)).collect()
}

fn moved(direction: Direction, of: &Transfers, device: Option<&Device>) -> Moved {
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
        out.missing.push(Missing::new(
            "transfers were not timed",
            "`clscope record` with device timing on",
        ));
        return out;
    };
    let rate =
        if ns > 0.0 { format!(" at {} GB/s", short(of.bytes() / ns)) } else { String::new() };
    let text = format!("{} ({}) in {}{rate}", transfers(of.count()), bytes(of.bytes()), time(ns));
    out.statements.push(Statement::new("time", Evidence::Measured, text));
    match (&own, misfit) {
        (Some(link), _) => {
            let text = format!("by size: {} (errors of {})", pieces(link), percent(link.misfit));
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
    pinned(of, ours("pageable"), ours("pinned"), &mut out);
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
fn transfers(n: u64) -> String {
    count(n, "transfer", "transfers")
}

/// Which memory of the host they use, in words.
fn memory(out: &mut Moved) {
    let Some(of) = out.host_memory else { return };
    let parts = [
        (of.pinned, "from mapped memory that OpenCL allocated on the host (CL_MEM_ALLOC_HOST_PTR)"),
        (of.mapped, "from other memory that OpenCL mapped or shares"),
        (of.application, "from the application's own memory"),
        (of.unknown, "from memory of unknown kind"),
    ];
    if of.unknown.count < out.count {
        let some = parts.iter().filter(|(part, _)| part.count > 0);
        let to_or_from = |text: &str| match out.direction == Direction::DeviceToHost.name() {
            true => text.replacen("from", "to", 1),
            false => text.to_owned(),
        };
        let texts: Vec<String> = some
            .map(|(part, text)| {
                let (count, bytes) = (transfers(part.count), bytes(part.bytes));
                format!("{count} ({bytes}) {}", to_or_from(text))
            })
            .collect();
        out.statements.push(Statement::new("memory", Evidence::Measured, texts.join(", ")));
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
fn pieces(of: &Link) -> String {
    let one = |s: &Segment| {
        let from = if s.from_bytes > 0.0 {
            format!("from {} on ", bytes(s.from_bytes))
        } else {
            String::new()
        };
        // The fit has no latency below 0, and none where it would be.
        let latency =
            if s.latency_ns > 0.0 { format!("{} + ", time(s.latency_ns)) } else { String::new() };
        format!("{from}{latency}size / {} GB/s", short(s.gigabytes_per_second))
    };
    of.segments.iter().map(one).collect::<Vec<_>>().join(", ")
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
    out.statements.push(Statement::new(
        "batching",
        Evidence::Modelled,
        format!("{} of their time is latency", percent(share)),
    ));
    let least = of.bytes() / fastest;
    let saved = (latency * (1.0 - 1.0 / of.count() as f64)).min(ns - least).max(0.0);
    if saved > 0.0 {
        out.levers.push(Lever {
            text: format!("one transfer instead of {} would save the latencies", of.count()),
            saves_ns: Some(Figure::new(saved, 0.5 * saved, saved, Evidence::Modelled)),
            saves_joules: None,
            evidence: Evidence::Modelled,
        });
    }
}

/// Share of the time that pinned memory must save to be worth a word.
const WORTH: f64 = 0.05;

/// What pinned memory would change about the same sizes, of those that do not come from memory that
/// OpenCL gave out. The device's file has both kinds of memory as the host sees them, and the trace
/// has the device's times: only their ratio can be taken over.
fn pinned(of: &Transfers, pageable: Option<&Link>, pinned: Option<&Link>, out: &mut Moved) {
    let others = of.of_memory(&[Class::Application, Class::Unknown]);
    if others.count() == 0 {
        return;
    }
    let Some(pinned) = pinned else {
        if link_known(out.direction) {
            out.missing.push(Missing::new(
                "what pinned memory would give",
                "`clscope bench model` measures transfers",
            ));
        }
        return;
    };
    let of_all = |link: &Link| {
        others.sizes.iter().fold(Figure::exact(0.0, Evidence::Modelled), |sum, (size, s)| {
            let one = link.time_ns(*size as f64).times(s.count as f64);
            Figure {
                value: sum.value + one.value,
                low: sum.low + one.low,
                high: sum.high + one.high,
                ..sum
            }
        })
    };
    let best = of_all(pinned);
    let which = match others.count() == of.count() {
        true => "these sizes take".to_owned(),
        false => format!("the sizes of those {} take", others.count()),
    };
    let Some(slow) = pageable.map(of_all) else {
        let text = format!("with the host's wait, {which} {} from pinned memory", time(best.value));
        out.statements.push(Statement::new("memory", Evidence::Modelled, text));
        return;
    };
    let text = format!(
        "with the host's wait, {which} {} from pinned and {} from pageable memory on this device",
        time(best.value),
        time(slow.value)
    );
    out.statements.push(Statement::new("memory", Evidence::Modelled, text));
    let kept = best.over(slow);
    let Some(ns) = others.ns().filter(|_| kept.value <= 1.0 - WORTH) else { return };
    if ns <= best.high {
        let text = "they take no longer than pinned memory would".to_owned();
        out.statements.push(Statement::new("memory", Evidence::Modelled, text));
        return;
    }
    let unknown = of.of_memory(&[Class::Unknown]).count();
    let which = format!("for {} of {}", others.count(), of.count());
    let condition = match unknown {
        0 => format!(
            "{which} from the application's own memory, unless it pinned that by other means"
        ),
        n if n == of.count() => "if the memory is pageable (the trace does not say)".to_owned(),
        n => format!("{which}, if their memory is pageable (the trace does not say for {n})"),
    };
    let saved = |kept: f64| ns * (1.0 - kept).max(0.0);
    out.levers.push(Lever {
        text: format!("{condition}: host memory of CL_MEM_ALLOC_HOST_PTR, mapped once, is pinned"),
        saves_ns: Some(Figure::new(
            saved(kept.value),
            saved(kept.high),
            saved(kept.low),
            Evidence::Modelled,
        )),
        saves_joules: None,
        evidence: Evidence::Modelled,
    });
}

fn link_known(direction: &str) -> bool {
    [Direction::HostToDevice, Direction::DeviceToHost].iter().any(|d| d.name() == direction)
}
