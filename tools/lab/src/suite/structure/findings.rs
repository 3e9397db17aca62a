//! What the measurements say of the device's structure.

use super::*;
use crate::suite::points;

/// Changes along the sweeps, and the ratios that answer the rest.
pub(super) fn conclude(device: &DeviceFacts, results: &[CaseResult]) -> Vec<Finding> {
    let sweep = |name: &str| points(results, name, "at", "time_per_statement");
    let mut findings = Vec::new();
    let mut tell =
        |name: &str, text: String, unit: &'static str, change: Change, method: &'static str| {
            let at = Interval::estimated(
                f64::midpoint(change.after, change.until),
                change.after,
                change.until,
            );
            let figures = vec![Figure::new("at", unit, at)];
            findings.push(Finding {
                name: format!("structure/{name}"),
                text,
                figures,
                confidence: Some(change.confidence),
                method,
            });
        };
    const STEPS: &str = "binary segmentation, permutation test";
    const BEND: &str = "two lines against one, F test";
    for (axis, what, unit) in [
        ("groups", "groups of one item", "groups"),
        ("group_size", "items of one group", "items"),
        ("waves", "full groups", "groups"),
    ] {
        let line = sweep(axis);
        let steps = change::steps(&line, 0.1);
        for step in &steps {
            let text = format!(
                "{what}: between {} and {} the time of a statement goes from {:.3} to {:.3} ns",
                step.after, step.until, step.before, step.behind
            );
            tell(&format!("{axis}/step"), text, unit, *step, STEPS);
        }
        // Equal distances between the steps are what groups go round by.
        let gaps: Vec<f64> = steps.windows(2).map(|w| w[1].until - w[0].until).collect();
        if let (Some(&gap), true) = (gaps.first(), steps.iter().all(|s| s.until - s.after <= 1.0))
            && gaps.iter().all(|g| *g == gap)
        {
            let text = format!(
                "{what}: time steps every {gap} {unit} ({} steps); the device states {} compute units",
                steps.len(),
                device.compute_units
            );
            let confidence = steps.iter().map(|s| s.confidence).fold(1.0, f64::min);
            let period = Change { after: gap, until: gap, before: 0.0, behind: 0.0, confidence };
            tell(&format!("{axis}/period"), text, unit, period, "distances of the steps");
        }
        if let Some(bend) = change::bend(&line, 0.05) {
            // Level, then rising: what the first part filled is full.
            let full = bend.behind > 0.0 && bend.before.abs() < 0.3 * bend.behind;
            let text = format!(
                "{what}: time changes its slope between {} and {} (from {:.4} to {:.4} ns for each){}",
                bend.after,
                bend.until,
                bend.before,
                bend.behind,
                if full { ": the depth that is filled there" } else { "" }
            );
            tell(&format!("{axis}/bend"), text, unit, bend, BEND);
        }
    }
    for step in change::steps(&sweep("registers"), 0.2) {
        let text = format!(
            "registers: between {} and {} live words a statement goes from {:.3} to {:.3} ns",
            step.after, step.until, step.before, step.behind
        );
        tell("registers/step", text, "words", step, STEPS);
    }
    let mut plain = |name: String, text: String, figures: Vec<Figure>, method: &'static str| {
        findings.push(Finding { name, text, figures, confidence: None, method });
    };
    let stated = points(results, "registers", "at", "private_bytes");
    // Runtimes that keep everything in memory state something from the first word on: only a step
    // is a spill.
    let first = stated
        .windows(2)
        .find(|w| stated[0].1 == 0.0 && w[0].1 == 0.0 && w[1].1 > 0.0)
        .map(|w| w[1].0);
    if let Some(first) = first {
        let text = format!(
            "the compiler states private memory (spilled registers) from {first} live words on"
        );
        let at = Figure::known("at", "words", first);
        plain("structure/registers/spill".to_owned(), text, vec![at], "CL_KERNEL_PRIVATE_MEM_SIZE");
    }
    let time = |id: &str| {
        results
            .iter()
            .find(|r| r.id == format!("structure/{id}"))
            .and_then(|r| r.figure("time_per_statement"))
            .map(|f| f.estimate)
    };
    // Of integers there are no independent pairs to compare with: a compiler folds them.
    if let (Some(fused), Some(split)) = (time("fused_float/float1"), time("split_float/float1")) {
        let ratio = fused.over(split);
        let text = format!(
            "float: a dependent product and sum take {:.2} times as long as an independent pair ({:.2} against {:.2} ns)",
            ratio.value, fused.value, split.value
        );
        let method = "ratio of means; 1: the two are one instruction, 2: they are not";
        plain(
            "structure/fusion/float".to_owned(),
            text,
            vec![Figure::new("ratio", "", ratio)],
            method,
        );
    }
    for word in ["float", "int"] {
        let line = sweep(&format!("vector_{word}"));
        if let Some(&(_, one)) = line.first() {
            let free =
                line.iter().take_while(|p| p.1 <= 1.1 * one).map(|p| p.0).last().unwrap_or(1.0);
            let text = format!(
                "{word}: one item computes up to {free} elements of a vector in the time of one"
            );
            let width = Figure::known("width", "elements", free);
            plain(
                format!("structure/vector/{word}"),
                text,
                vec![width],
                "largest width within 10 % of the scalar's time",
            );
        }
    }
    for (kind, what) in [("store", "store"), ("load", "dependent load")] {
        if let (Some(one), Some(many)) = (time(&format!("{kind}/1")), time(&format!("{kind}/64"))) {
            let text = format!(
                "a loop round one {what} takes {:.2} ns a turn in one item, {:.2} ns in each of 64",
                one.value, many.value
            );
            let figures = vec![Figure::new("one", "ns", one), Figure::new("of_64", "ns", many)];
            plain(format!("structure/{kind}"), text, figures, "means");
        }
    }
    if let Some(apart) = time("sharing/apart") {
        for label in ["shared_word", "shared_in_group", "neighbours", "same_line_between_groups"] {
            if let Some(shared) = time(&format!("sharing/{label}")) {
                let ratio = shared.over(apart);
                let text = format!(
                    "adding to memory, {}: {:.2} times the time of words far apart",
                    label.replace('_', " "),
                    ratio.value
                );
                plain(
                    format!("structure/sharing/{label}"),
                    text,
                    vec![Figure::new("ratio", "", ratio)],
                    "ratio of means",
                );
            }
        }
    }
    let units = Figure::known("compute_units", "", f64::from(device.compute_units));
    plain(
        "structure/stated_units".to_owned(),
        format!("the device states {} compute units", device.compute_units),
        vec![units],
        "query",
    );
    findings
}
