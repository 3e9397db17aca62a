//! Owns the page's tables of the answer's rows: the longest gaps, and buffers by size and flags.
//! Every word and figure is the answer's.

use super::html::{Html, time};
use super::size;
use super::tables::{count, figure, table};
use clscope_profile::answer::data::{Answer, BufferCopies};

/// The longest gaps: when, between which commands, why, and where the one after was enqueued.
pub fn gaps(page: &mut Html, answer: &Answer) {
    if answer.gaps.is_empty() {
        return;
    }
    page.raw("<h3>Longest gaps between commands of a process</h3>\n");
    let columns = ["At#", "Length#", "After", "Before", "Why", "Enqueued"];
    table(page, &columns, &answer.gaps, |page, gap| {
        figure(page, Some(gap.at_ns), time);
        figure(page, Some(gap.ns), time);
        for command in [&gap.before, &gap.after] {
            page.raw("<td class=\"name\">").name(command.as_deref().unwrap_or("-")).raw("</td>");
        }
        page.raw("<td>").name(&gap.cause).raw("</td><td class=\"name\">");
        let by = gap.thread.iter().map(|thread| format!("by {thread}"));
        let at = gap.called_from.iter().map(|place| format!("at {place}"));
        let by = by.chain(at).reduce(|by, at| format!("{by} {at}"));
        page.name(by.as_deref().unwrap_or("-")).raw("</td>");
    });
}

/// Buffers by size and flags, with the copies that used them.
pub fn buffers(page: &mut Html, answer: &Answer) {
    if answer.buffers.is_empty() {
        return;
    }
    page.raw("<h3>Buffers by size and flags</h3>\n");
    let columns = [
        "Flags",
        "Bytes each#",
        "Made#",
        "Copies to device#",
        "Bytes#",
        "Copies from device#",
        "Bytes#",
    ];
    table(page, &columns, &answer.buffers, |page, row| {
        page.raw("<td class=\"name\">").name(&row.flags).raw("</td>");
        figure(page, Some(row.bytes as f64), |_| size(row.bytes));
        figure(page, Some(row.made as f64), count);
        for copies in [row.to_device, row.from_device] {
            figure(page, copies.map(|of: BufferCopies| of.count as f64), count);
            figure(page, copies.map(|of| of.bytes as f64), |_| {
                size(copies.map_or(0, |of| of.bytes))
            });
        }
    });
}
