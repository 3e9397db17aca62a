//! Owns the pictures that need no script: overview, distribution, length over time, flame graph; as
//! SVG. Refuses to compute what they show.

use super::Curve;
use super::details::Details;
use super::html::{Html, cut, joules, time};
use crate::stacks::{Stack, Weight};
use std::collections::BTreeMap;

/// Boxes of a flame graph.
const BOXES: usize = 600;

/// Busy part of each device over time, and the first sensor's curve over them. `partial`: only a
/// part of the commands was timed.
pub fn overview(
    page: &mut Html,
    (busy, partial): (&BTreeMap<String, Vec<f64>>, bool),
    power: &[Curve],
    length: u64,
) {
    if busy.is_empty() {
        page.raw("<p>No command has a device time, so that there is nothing to draw: the findings say why.</p>");
        return;
    }
    const ROW: usize = 56;
    let rows = busy.len() + usize::from(!power.is_empty());
    page.raw("<svg viewBox=\"0 0 1200 ")
        .put(rows * ROW + 18)
        .raw("\" role=\"img\" aria-label=\"Busy part of each device over time\">");
    let mut y = 0;
    for (device, bins) in busy {
        page.raw("<text x=\"4\" y=\"").put(y + 12).raw("\">").name(device);
        page.raw(if partial { ": timed commands</text>" } else { ": busy</text>" });
        let width = 1200.0 / bins.len() as f64;
        for (i, share) in bins.iter().enumerate().filter(|(_, s)| **s > 0.0) {
            let height = share * (ROW - 18) as f64;
            bar(page, (i as f64 * width, (y + ROW) as f64 - height), (width, height));
        }
        y += ROW;
    }
    if let Some(curve) = power.first() {
        let top = curve.points.iter().map(|p| p.1).fold(1e-9, f64::max);
        page.raw("<text x=\"4\" y=\"").put(y + 12).raw("\">").name(&curve.name);
        page.raw(", up to ").put(format_args!("{top:.1}")).raw("</text>");
        for known in curve.points.split(|p| !p.1.is_finite()).filter(|known| !known.is_empty()) {
            page.raw("<polyline class=\"power\" points=\"");
            for (at, value) in known {
                let x = *at as f64 / length.max(1) as f64 * 1200.0;
                let down = (y + ROW) as f64 - value / top * (ROW - 18) as f64;
                page.put(format_args!("{x:.1},{down:.1} "));
            }
            page.raw("\"/>");
        }
        y += ROW;
    }
    page.raw("<text x=\"4\" y=\"")
        .put(y + 14)
        .raw("\">0</text><text x=\"1196\" text-anchor=\"end\" y=\"")
        .put(y + 14)
        .raw("\">")
        .put(time(length as f64))
        .raw("</text></svg>\n");
}

/// A dot with the place of its middle.
pub(super) fn dot(page: &mut Html, radius: &'static str, x: f64, y: f64) {
    page.raw("<circle class=\"dot\" r=\"").raw(radius).raw("\" cx=\"");
    page.put(format_args!("{x:.1}")).raw("\" cy=\"").put(format_args!("{y:.1}")).raw("\"/>");
}

/// A bar with its left upper corner, its width and its height.
pub(super) fn bar(page: &mut Html, (x, y): (f64, f64), (width, height): (f64, f64)) {
    page.raw("<rect class=\"bar\" x=\"").put(format_args!("{x:.1}"));
    page.raw("\" y=\"").put(format_args!("{y:.1}"));
    page.raw("\" width=\"").put(format_args!("{width:.1}"));
    page.raw("\" height=\"").put(format_args!("{height:.1}")).raw("\"/>");
}

/// What a picture of launches shows.
fn timed(of: &Details) -> &'static str {
    if of.all.timed < of.all.count { "Timed launches" } else { "Launches" }
}

/// Launches by length.
pub fn distribution(page: &mut Html, of: &Details) {
    let (Some(first), Some(last)) = (of.lengths.keys().next(), of.lengths.keys().last()) else {
        return;
    };
    let most = of.lengths.values().copied().max().unwrap_or(1).max(1) as f64;
    let bins = f64::from(last - first + 1);
    let low = |bin: u32| time((f64::from(bin) / 4.0).exp2());
    page.raw("<figure><figcaption>").raw(timed(of)).raw(" by length, four bars to a doubling</figcaption><svg viewBox=\"0 0 400 110\" role=\"img\" aria-label=\"Distribution\">");
    for (bin, count) in &of.lengths {
        let height = *count as f64 / most * 85.0;
        let (x, width) = (f64::from(bin - first) / bins * 400.0, (400.0 / bins).min(60.0));
        page.raw("<rect class=\"bar\" x=\"").put(format_args!("{x:.1}"));
        page.raw("\" y=\"").put(format_args!("{:.1}", 92.0 - height));
        page.raw("\" width=\"").put(format_args!("{:.1}", width * 0.94));
        page.raw("\" height=\"").put(format_args!("{height:.1}")).raw("\"><title>");
        page.put(format_args!("{count} from {} to {}", low(*bin), low(bin + 1)))
            .raw("</title></rect>");
    }
    page.raw("<text x=\"2\" y=\"106\">").put(low(*first));
    page.raw("</text><text x=\"398\" y=\"106\" text-anchor=\"end\">")
        .put(low(last + 1))
        .raw("</text></svg></figure>\n");
}

/// Length of launches over the run.
pub fn over_time(page: &mut Html, of: &Details, length: u64) {
    let most = of.over_time.iter().map(|few| few.high.1).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    page.raw("<figure><figcaption>").raw(timed(of)).raw(": length over the run</figcaption><svg viewBox=\"0 0 400 110\" role=\"img\" aria-label=\"Length over time\">");
    let points = of.over_time.iter().flat_map(|few| {
        let low = (few.low != few.high).then_some(few.low);
        low.into_iter().chain([few.high])
    });
    for (at, ns) in points {
        let x = at as f64 / length.max(1) as f64 * 396.0 + 2.0;
        let y = 92.0 - ns as f64 / most as f64 * 80.0;
        dot(page, "1.6", x, y);
    }
    page.raw("<text x=\"2\" y=\"11\">").put(time(most as f64));
    page.raw(
        "</text><text x=\"2\" y=\"106\">0</text><text x=\"398\" y=\"106\" text-anchor=\"end\">",
    )
    .put(time(length as f64))
    .raw("</text></svg></figure>\n");
}

/// A box of a flame graph, with those inside it.
#[derive(Default)]
struct Node {
    weight: u64,
    inside: BTreeMap<String, Node>,
}

/// A flame graph for each weight that is known; time is open.
pub fn flames(page: &mut Html, stacks: &[Stack]) {
    let mut any = false;
    for (weight, title, open) in [
        (Weight::Time, "by device time", true),
        (Weight::Energy, "by joules", false),
        (Weight::Count, "by commands", false),
        (Weight::Bytes, "by bytes", false),
    ] {
        let mut root = Node::default();
        let mut depth = 0;
        for stack in stacks {
            let Some(w) = stack.weight(weight).filter(|w| *w > 0) else { continue };
            root.weight = root.weight.saturating_add(w);
            depth = depth.max(stack.frames.len());
            let mut node = &mut root;
            for frame in &stack.frames {
                node = node.inside.entry(frame.name.clone()).or_default();
                node.weight = node.weight.saturating_add(w);
            }
        }
        if root.weight == 0 {
            continue;
        }
        any = true;
        page.raw(if open { "<details open>" } else { "<details>" });
        page.raw("<summary>").raw(title).raw("</summary><svg class=\"flame\" viewBox=\"0 0 1200 ");
        page.put(depth * 20).raw("\" role=\"img\" aria-label=\"Flame graph\">");
        let mut left = BOXES;
        boxes(page, &root, (0.0, 1200.0 / root.weight as f64, 0), weight, &mut left);
        page.raw("</svg>");
        if left == 0 {
            page.raw("<p class=\"soft\">The smallest boxes are left out: <code>clscope export speedscope</code> has all.</p>");
        }
        page.raw("</details>\n");
    }
    if !any {
        page.raw("<p>No command of this trace has a weight.</p>");
    } else if stacks.iter().all(|s| s.frames.len() <= 2) {
        page.raw("<p class=\"soft\">Places in the application were not recorded: <code>clscope record --call-sites</code> does that.</p>");
    }
}

fn boxes(
    page: &mut Html,
    node: &Node,
    (x, scale, y): (f64, f64, usize),
    by: Weight,
    left: &mut usize,
) {
    let mut inside: Vec<(&String, &Node)> = node.inside.iter().collect();
    inside.sort_by(|a, b| b.1.weight.cmp(&a.1.weight).then(a.0.cmp(b.0)));
    let mut x = x;
    for (name, child) in inside {
        let width = child.weight as f64 * scale;
        if width < 0.4 || *left == 0 {
            *left = 0;
            return;
        }
        *left -= 1;
        // The same name has the same colour everywhere.
        let hue = name.bytes().fold(7u32, |h, b| h.wrapping_mul(31).wrapping_add(b.into())) % 360;
        page.raw("<g><title>").name(name).raw(": ");
        let shown = match by {
            Weight::Time => time(child.weight as f64),
            Weight::Energy => joules(child.weight as f64 * 1e-6),
            Weight::Count => child.weight.to_string(),
            Weight::Bytes => super::bytes(child.weight as f64),
        };
        page.put(shown).raw("</title><rect fill=\"hsl(").put(hue).raw(" 60% 70%)\" x=\"");
        page.put(format_args!("{x:.1}")).raw("\" y=\"").put(y).raw("\" width=\"");
        page.put(format_args!("{width:.1}")).raw("\" height=\"19\"/>");
        let room = (width / 6.4) as usize;
        if room > 3 {
            let text: String = cut(name).chars().take(room).collect();
            page.raw("<text x=\"").put(format_args!("{:.1}", x + 3.0)).raw("\" y=\"").put(y + 14);
            page.raw("\">").put(text).raw("</text>");
        }
        page.raw("</g>");
        boxes(page, child, (x, scale, y + 20), by, left);
        x += width;
    }
}
