//! Owns the tracks of sensors and hardware counters: those of a GPU are its counters, with their
//! units; a processor's are tracks of their own. Refuses to draw what is not known:
//! a value that is no number ends the one before it.

use super::Pen;
use super::numbers::*;
use crate::power::Counter;
use std::io::{self, Write};

/// The unit of a counter, over another one where it is a rate; 0 where the format has none for it.
fn units(unit: &str) -> (u64, u64) {
    match unit {
        "W" => (UNIT_WATT, 0),
        "MHz" => (UNIT_MEGAHERTZ, 0),
        "C" => (UNIT_CELSIUS, 0),
        "%" => (UNIT_PERCENT, 0),
        // The name says MiB/s.
        "MiB/s" => (UNIT_MEGABYTE, UNIT_SECOND),
        _ => (0, 0),
    }
}

/// Writes them all.
pub(super) fn write<W: Write>(pen: &mut Pen<'_, '_, W>) -> io::Result<()> {
    let power = pen.document.power;
    let gpu = |counter: &Counter| {
        pen.layout.devices.iter().position(|d| {
            d.host == counter.host
                && (counter.pci.is_some() && d.pci == counter.pci
                    || counter.uuid.is_some() && d.uuid == counter.uuid)
        })
    };
    let of: Vec<Option<usize>> = power.counters.iter().map(gpu).collect();
    let hosts = pen.document.view.trace().timeline.hosts.len().max(1);
    for host in 0..hosts {
        let described = (1u32..).zip(&power.counters).zip(&of);
        let specs: Vec<(u32, &Counter)> = described
            .filter(|((_, counter), gpu)| gpu.is_some() && counter.host == host)
            .map(|(counter, _)| counter)
            .collect();
        if specs.is_empty() {
            continue;
        }
        pen.out.of_host(host);
        pen.out.names().numbered(INTERNED_COUNTERS, 1, |m| {
            m.nested(COUNTERS_DESCRIPTOR, |m| {
                for (id, counter) in &specs {
                    m.nested(DESCRIPTOR_SPECS, |m| {
                        m.uint(SPEC_ID, (*id).into());
                        m.text(SPEC_NAME, &counter.name);
                        let (unit, per) = units(&counter.unit);
                        if unit != 0 {
                            m.uint(SPEC_UNIT, unit);
                        }
                        if per != 0 {
                            m.uint(SPEC_PER, per);
                        }
                    });
                }
            });
        });
    }
    let several = pen.document.view.trace().timeline.hosts.len() > 1;
    for ((id, counter), gpu) in (1u32..).zip(&power.counters).zip(of) {
        pen.out.of_host(counter.host);
        let window = pen.window;
        // Readings from before the first call would make the timeline begin with emptiness.
        let from = window.begin.max(pen.document.view.trace().origin());
        let points = counter.points.iter().filter(|p| p.0 >= from && p.0 <= window.end);
        match gpu {
            Some(gpu) => {
                let gpu = pen.layout.gpu(gpu);
                for (at, value) in points {
                    pen.out.aside(*at, |m, _| {
                        m.nested(PACKET_COUNTERS, |m| {
                            m.nested(COUNTERS_VALUES, |m| {
                                m.uint(VALUE_COUNTER, id.into());
                                m.double(VALUE_DOUBLE, *value);
                            });
                            m.uint(COUNTERS_GPU, gpu);
                            m.uint(COUNTERS_DESCRIPTOR_ID, 1);
                        });
                    })?;
                }
            }
            None => {
                let host = pen.document.view.trace().timeline.hosts.get(counter.host);
                let name = match host.filter(|_| several) {
                    Some(host) => format!("{} on {}", counter.name, host.name),
                    None => counter.name.clone(),
                };
                let uuid = pen.track(&name, |m| {
                    m.nested(TRACK_COUNTER, |m| m.text(COUNTER_UNIT_NAME, &counter.unit));
                })?;
                for (at, value) in points {
                    pen.out.aside(*at, |m, _| {
                        m.nested(PACKET_TRACK_EVENT, |m| {
                            m.uint(EVENT_TYPE, TYPE_COUNTER);
                            m.uint(EVENT_TRACK, uuid);
                            m.double(EVENT_DOUBLE, *value);
                        });
                    })?;
                }
            }
        }
    }
    Ok(())
}
