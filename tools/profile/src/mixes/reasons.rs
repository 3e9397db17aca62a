//! Why kernels were not counted: as the recorder said of their launches. Refuses to guess a reason.

use super::{KernelMix, Program, are_wanted};
use clscope_analysis::Trace;
use clscope_trace::defs;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Adds to rows of which no launch was counted why.
pub(super) fn add(trace: &Trace<'_>, rows: &mut [KernelMix]) {
    share_reasons(rows);
    let reasons = why_not_captured(trace);
    for row in rows.iter_mut().filter(|row| row.counted == 0 && row.refused.is_empty()) {
        row.refused.extend(reasons.get(&launched_as(row)).cloned());
    }
}

/// Kernel, program and device of a row.
type Of = (String, Program, String);

fn launched_as(row: &KernelMix) -> Of {
    (row.kernel.clone(), row.program.clone(), row.device.clone())
}

/// Why no launch of a kernel could be counted that was to be: what the recorder said last, with the
/// command that goes on trying where another launch may be captured.
fn why_not_captured(trace: &Trace<'_>) -> BTreeMap<Of, String> {
    let mut out: BTreeMap<Of, (Option<(usize, usize)>, String)> = BTreeMap::new();
    let wanted = trace.processes.iter().map(|p| &p.definitions).filter(|d| are_wanted(d));
    for (process, d) in wanted.enumerate() {
        let last: HashMap<(u32, u32), (usize, &defs::Capture)> =
            d.captures.iter().enumerate().map(|(at, c)| ((c.kernel, c.queue), (at, c))).collect();
        for (id, kernel) in &d.kernels {
            let name = &kernel.name;
            let remedy =
                format!("`clscope record --mix --capture {name}` tries until the application ends");
            for queue in d.queues.values() {
                // In a command buffer it has no queue.
                let said = [queue.id, 0].iter().find_map(|queue| last.get(&(*id, *queue)));
                let when = said.map(|(at, _)| (process, *at));
                let why = match said.map(|(_, capture)| capture) {
                    Some(c) if c.again => format!("{}; {remedy}", c.refused),
                    Some(c) if !c.refused.is_empty() => c.refused.clone(),
                    Some(c) if !c.folder.is_empty() => {
                        "it was captured and not counted yet: `clscope replay TRACE --mix`"
                            .to_owned()
                    }
                    _ => format!("the run ended before a launch of it was captured; {remedy}"),
                };
                let of = (
                    name.clone(),
                    Program::identify(d, *id),
                    d.device_name(queue.device).into_owned(),
                );
                // Of several kernels and queues what was said last says most.
                if out.get(&of).is_none_or(|(before, _)| *before < when) {
                    out.insert(of, (when, why));
                }
            }
        }
    }
    out.into_iter().map(|(of, (_, why))| (of, why)).collect()
}

/// The recorder says once for a kernel why it is not counted, at whichever geometry was launched
/// first: it holds for all of them of which no launch was counted.
fn share_reasons(rows: &mut [KernelMix]) {
    let of = launched_as;
    let mut reasons: BTreeMap<Of, BTreeSet<String>> = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.refused.is_empty()) {
        reasons.entry(of(row)).or_default().extend(row.refused.iter().cloned());
    }
    for row in rows.iter_mut().filter(|row| row.counted == 0 && row.refused.is_empty()) {
        if let Some(why) = reasons.get(&of(row)) {
            row.refused.clone_from(why);
        }
    }
}
