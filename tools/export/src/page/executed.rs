//! Owns what a kernel's row shows beside its times: instructions by class, bytes and divergence
//! where they were counted (`record --mix`), and what bounds its time, by the models. Each exact
//! figure is that of `clscope mix --format json` and `clscope explain --format json`. Refuses to
//! compute.

use super::details::Details;
use super::html::{Html, joules, time};
use super::tables::{count, figure, percent, table};
use clscope_io::text::bytes;
use clscope_models::Missing;
use clscope_models::explain::{Explained, Explanatory};
use clscope_profile::energy::activity::{By, sized};
use clscope_profile::mixes::document::{Executed, Kernel};
use clscope_profile::mixes::{KernelMix, shared_names};
use clscope_profile::profile::View;
use clscope_profile::report::data::Commands;

/// Global and local sizes of a kernel whose instructions are listed.
const SIZES: usize = 4;

/// What was counted and explained of a trace.
pub struct Known<'k> {
    /// Counted instructions; `None` where the trace holds none of any kernel.
    mixes: Option<&'k [KernelMix]>,
    /// What has a row among the kernels.
    by: By,
    /// By device.
    explained: &'k [Explained],
}

impl<'k> Known<'k> {
    /// Of a view. Reads all records once more, where instructions were counted.
    pub fn gather(view: &'k View<'_>, explained: &'k [Explained]) -> Self {
        let mixes = view.has_mixes().then(|| view.mixes());
        Self { mixes, by: view.grouping().by, explained }
    }

    /// Whether instructions were counted at all.
    pub fn is_counted(&self) -> bool {
        self.mixes.is_some()
    }

    /// Writes what is known of a kernel.
    pub fn write(&self, page: &mut Html, kernel: &Commands, details: &Details) {
        let device = kernel.device.as_deref().unwrap_or_default();
        if let Some(mixes) = self.mixes {
            let is_of_row = |row: &&KernelMix| {
                row.device == device
                    && row.shown == details.kernel
                    && (self.by != By::Ndrange || sized(&row.shown, &row.global) == kernel.name)
            };
            let rows: Vec<&KernelMix> = mixes.iter().filter(is_of_row).collect();
            let is_shared = !shared_names(rows.iter().copied()).is_empty();
            for row in rows.iter().take(SIZES) {
                mix(page, &Kernel::of_mix(row), is_shared);
            }
            if rows.len() > SIZES {
                page.raw("<p class=\"soft\">And ").put(rows.len() - SIZES);
                page.raw(if is_shared { " more programs and sizes" } else { " more sizes" });
                page.raw(": <code>clscope mix</code> shows them.</p>\n");
            }
        }
        for on in self.explained.iter().filter(|on| on.device == device) {
            if let Some(of) = on.kernels.iter().find(|k| k.kernel == kernel.name) {
                bounds(page, on, of);
            }
        }
    }
}

fn sizes(of: &[u64]) -> String {
    of.iter().map(u64::to_string).collect::<Vec<_>>().join(" × ")
}

/// `is_shared`: whether kernels of several programs have the name.
fn mix(page: &mut Html, kernel: &Kernel, is_shared: bool) {
    page.raw("<p>");
    if is_shared {
        page.raw("Program ").name(&kernel.program.to_string()).raw(". ");
    }
    page.raw("Global size ").put(sizes(&kernel.global));
    if !kernel.local.is_empty() {
        page.raw(", local ").put(sizes(&kernel.local));
    }
    page.raw(": instructions of ").put(kernel.counted).raw(" of ").put(kernel.launches);
    page.raw(if kernel.launches == 1 { " launch were counted" } else { " launches were counted" });
    for why in &kernel.refused {
        page.raw("; not counted: ").name(why);
    }
    page.raw("</p>\n");
    if let Some(executed) = &kernel.executed {
        classes(page, executed);
    }
}

fn classes(page: &mut Html, of: &Executed) {
    page.raw("<p><b data-v=\"").put(of.instructions).raw("\">");
    page.put(count(of.instructions as f64)).raw("</b> instructions (");
    page.put(if of.language == "ptx" { "PTX" } else { "SPIR-V" }).raw(") by <b data-v=\"");
    page.put(of.work_items).raw("\">").put(count(of.work_items as f64)).raw("</b> work-items");
    if let Some(warps) = of.warp_instructions {
        page.raw(", <b data-v=\"").put(warps).raw("\">").put(count(warps as f64));
        page.raw("</b> by warps");
    }
    match of.lanes_busy {
        Some(busy) => page
            .raw(", <b data-v=\"")
            .put(busy)
            .raw("\">")
            .put(percent(busy))
            .raw("</b> of lanes busy"),
        None => page.raw("; divergence is not known: instructions of warps were not counted"),
    };
    page.raw("</p>\n");
    let mut rows: Vec<_> = of.classes.iter().collect();
    rows.sort_by_key(|class| std::cmp::Reverse(class.instructions));
    let columns = [
        "Class",
        "Instructions#",
        "Share#",
        "By warps#",
        "FLOP#",
        "Bytes#",
        "Predicated#",
        "Transactions#",
    ];
    table(page, &columns, rows, |page, class| {
        page.raw("<td class=\"name\">").name(&class.class).raw("</td>");
        figure(page, Some(class.instructions as f64), count);
        let share = class.instructions as f64 / of.instructions.max(1) as f64;
        figure(page, Some(share), percent);
        figure(page, class.warp_instructions.map(|n| n as f64), count);
        figure(page, Some(class.flop as f64), count);
        figure(page, Some(class.bytes as f64), bytes);
        figure(page, Some(class.predicated as f64), count);
        figure(page, class.transactions.map(|n| n as f64), count);
    });
    if !of.bytes.is_empty() {
        let columns = ["Bytes asked of", "Read#", "Written#", "By atomics#"];
        table(page, &columns, &of.bytes, |page, space| {
            page.raw("<td class=\"name\">").name(&space.space).raw(" memory</td>");
            for n in [space.read, space.written, space.atomic] {
                figure(page, Some(n as f64), bytes);
            }
        });
    }
    if !of.unknown.is_empty() {
        page.raw("<p class=\"soft\">Instructions of no known class: ");
        page.name(&of.unknown.join(", ")).raw("</p>\n");
    }
}

fn bounds(page: &mut Html, on: &Explained, of: &Explanatory) {
    if let Some(of) = &on.forced {
        page.raw("<p>Forced: ").name(of).raw("</p>\n");
    }
    if !of.bounds.is_empty() {
        let columns = ["Bound by", "Least time#", "Rests on", "Holds"];
        table(page, &columns, &of.bounds, |page, bound| {
            page.raw("<td class=\"name\">").put(bound.resource.name()).raw("</td>");
            let (low, high) = (bound.ns.low, bound.ns.high);
            figure(page, Some(bound.ns.value), |ns| {
                match low.is_finite() && high.is_finite() && low < high {
                    true => format!("{} [{} to {}]", time(ns), time(low), time(high)),
                    false => time(ns),
                }
            });
            page.raw("<td>").put(bound.ns.evidence.name()).raw("</td><td>");
            let condition = if bound.certain { "always" } else { "as its name says" };
            page.put(bound.resource.condition().unwrap_or(condition)).raw("</td>");
        });
    }
    if !of.joule_parts.is_empty() {
        table(
            page,
            &["Joules of a launch for", "Joules#", "Share#"],
            &of.joule_parts,
            |page, part| {
                page.raw("<td class=\"name\">").name(&part.name).raw("</td>");
                figure(page, Some(part.joules), joules);
                figure(page, Some(part.share), percent);
            },
        );
    }
    let statements = of.statements.iter().map(|s| (s.text.as_str(), s.evidence));
    let levers = of.levers.iter().map(|l| (l.text.as_str(), l.evidence));
    page.raw("<ul class=\"explained\">\n");
    for (text, evidence) in statements.chain(levers) {
        page.raw("<li>").prose(text).raw(" <small>").put(evidence.name()).raw("</small></li>\n");
    }
    // What the whole device lacks is why a kernel has no bounds.
    for Missing { what, remedy } in of.missing.iter().chain(&on.missing) {
        page.raw("<li class=\"soft\">Not known: ").prose(what).raw(": ").prose(remedy);
        page.raw("</li>\n");
    }
    page.raw("</ul>\n");
}
