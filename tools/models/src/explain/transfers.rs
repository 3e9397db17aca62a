//! Transfers in words: latency and bandwidth by the trace's own sizes, what pinned memory or larger
//! batches would give. Refuses to fit fewer than three sizes, to speak by a fit that misses them, and
//! to take the host's view of a transfer for the device's.

use super::words::{bytes, percent, short, time};
use super::{Lever, Moved, Statement};
use crate::device::Device;
use crate::facts::{OnDevice, Sized, Transfers, link_direction};
use crate::figure::{Evidence, Figure, Missing};
use crate::hockney::{self, Link, Segment};
use clscope_trace::record::Direction;

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
        latency_ns: own.as_ref().map(Link::latency_ns),
        gigabytes_per_second: own.as_ref().map(Link::bandwidth),
        segments: own.as_ref().map(|l| l.segments.clone()).unwrap_or_default(),
        misfit,
        statements: Vec::new(),
        levers: Vec::new(),
        missing: Vec::new(),
    };
    let Some(ns) = of.ns() else {
        out.missing.push(Missing::new(
            "transfers were not timed",
            "`clscope record` with device timing on",
        ));
        return out;
    };
    let rate =
        if ns > 0.0 { format!(" at {} GB/s", short(of.bytes() / ns)) } else { String::new() };
    let text = format!("{} of {} in {}{rate}", of.count(), bytes(of.bytes()), time(ns));
    out.statements.push(Statement::new("time", Evidence::Measured, text));
    match (&own, misfit) {
        (Some(link), _) => {
            let text = format!("by size: {} (errors of {})", pieces(link), percent(link.misfit));
            out.statements.push(Statement::new("latency", Evidence::Modelled, text));
        }
        (None, Some(misfit)) => out.missing.push(Missing::new(
            "latency and bandwidth are not told apart",
            format!(
                "times do not follow sizes: latency + size / bandwidth misses them by {}",
                percent(misfit)
            ),
        )),
        (None, None) => out.missing.push(Missing::new(
            "latency and bandwidth are not told apart",
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
    pinned(of, ours("pageable"), ours("pinned"), ns, &mut out);
    out
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

/// What pinned memory would change about the same sizes. The device's file has both kinds of memory as
/// the host sees them, and the trace has the device's times: only their ratio can be taken over. A
/// trace does not say which memory its transfers used.
fn pinned(
    of: &Transfers,
    pageable: Option<&Link>,
    pinned: Option<&Link>,
    ns: f64,
    out: &mut Moved,
) {
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
        of.sizes.iter().fold(Figure::exact(0.0, Evidence::Modelled), |sum, (size, s)| {
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
    let Some(slow) = pageable.map(of_all) else {
        let text = format!(
            "with the host's wait, these sizes take {} from pinned memory",
            time(best.value)
        );
        out.statements.push(Statement::new("memory", Evidence::Modelled, text));
        return;
    };
    let text = format!(
        "with the host's wait, these sizes take {} from pinned and {} from pageable memory on this device",
        time(best.value),
        time(slow.value)
    );
    out.statements.push(Statement::new("memory", Evidence::Modelled, text));
    let kept = best.over(slow);
    if kept.value > 1.0 - WORTH {
        return;
    }
    if ns <= best.high {
        let text = "they take no longer than pinned memory would".to_owned();
        out.statements.push(Statement::new("memory", Evidence::Modelled, text));
        return;
    }
    let saved = |kept: f64| ns * (1.0 - kept).max(0.0);
    out.levers.push(Lever {
        text: "if the memory is pageable (the trace does not tell): host memory of \
               CL_MEM_ALLOC_HOST_PTR, mapped once, is pinned"
            .to_owned(),
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
