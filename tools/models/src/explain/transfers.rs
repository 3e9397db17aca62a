//! Transfers in words: latency and bandwidth by the trace's own sizes, what pinned memory or larger
//! batches would give. Refuses to fit fewer than three sizes.

use super::words::{bytes, percent, short, time};
use super::{Lever, Moved, Statement};
use crate::device::Device;
use crate::facts::{OnDevice, Transfers, link_direction};
use crate::figure::{Evidence, Figure, Missing};
use crate::hockney::{self, Link};
use clscope_trace::record::Direction;

pub(super) fn explain(of: &OnDevice, device: Option<&Device>) -> Vec<Moved> {
    of.transfers.iter().map(|(direction, t)| moved(*direction, t, device)).collect()
}

fn moved(direction: Direction, of: &Transfers, device: Option<&Device>) -> Moved {
    let own = hockney::fit(&of.points()).map(|(segments, misfit)| Link {
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
        misfit: own.as_ref().map(|l| l.misfit),
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
    match &own {
        Some(link) => {
            let text = format!(
                "by size: {} + size / {} GB/s (errors of {})",
                time(link.latency_ns()),
                short(link.bandwidth()),
                percent(link.misfit)
            );
            out.statements.push(Statement::new("latency", Evidence::Measured, text));
        }
        None => out.missing.push(Missing::new(
            "latency and bandwidth are not told apart",
            "transfers of three sizes at least are needed",
        )),
    }
    let links = device.map(|d| d.links.as_slice()).unwrap_or_default();
    let ours = |memory: &str| {
        let wanted = link_direction(direction)?;
        links.iter().find(|l| l.direction == wanted && l.memory == memory)
    };
    batching(of, own.as_ref().or(ours("pageable")), ns, &mut out);
    pinned(of, ours("pageable"), ours("pinned"), ns, &mut out);
    out
}

/// Many small transfers: what one large one would save.
fn batching(of: &Transfers, link: Option<&Link>, ns: f64, out: &mut Moved) {
    let Some(link) = link else { return };
    let latency = (link.latency_ns() * of.count() as f64).min(ns);
    let share = latency / ns.max(1.0);
    if share < 0.3 || of.count() < 10 {
        return;
    }
    out.statements.push(Statement::new(
        "batching",
        Evidence::Modelled,
        format!("{} of their time is latency", percent(share)),
    ));
    let saved = latency * (1.0 - 1.0 / of.count() as f64);
    out.levers.push(Lever {
        text: format!("one transfer instead of {} would save the latencies", of.count()),
        saves_ns: Some(Figure::new(saved, 0.5 * saved, saved, Evidence::Modelled)),
        saves_joules: None,
        evidence: Evidence::Modelled,
    });
}

/// What the same sizes would take from pinned memory.
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
    let text = match pageable.map(of_all) {
        Some(slow) => format!(
            "with the host's wait, these sizes take {} from pinned and {} from pageable memory on this device",
            time(best.value),
            time(slow.value)
        ),
        None => format!(
            "with the host's wait, these sizes take {} from pinned memory",
            time(best.value)
        ),
    };
    out.statements.push(Statement::new("memory", Evidence::Modelled, text));
    if best.value < 0.8 * ns {
        let saved = ns - best.value;
        out.levers.push(Lever {
            text: "host memory of CL_MEM_ALLOC_HOST_PTR, mapped once, is pinned".to_owned(),
            saves_ns: Some(Figure::new(
                saved,
                (ns - best.high).max(0.0),
                ns - best.low,
                Evidence::Modelled,
            )),
            saves_joules: None,
            evidence: Evidence::Modelled,
        });
    }
}

fn link_known(direction: &str) -> bool {
    [Direction::HostToDevice, Direction::DeviceToHost].iter().any(|d| d.name() == direction)
}
