//! What running a capture gave, as text for people. Refuses to choose what is measured.

use crate::figure::{joules, number, plus_minus};
use crate::table::{PLUS_MINUS, bytes, time};
use clscope_compare::outcome;
use clscope_io::text::{Page, count};
use clscope_launch::application::AsThere;
use clscope_launch::document::{
    Changed, Document, MemoryResult, Outcome, Results, Tried, Tuned, Version,
};
use clscope_profile::interval::Interval;
use clscope_profile::names::{Form, Names};
use std::fmt::Write as _;

/// All of a document; the kernel's name in a form.
pub fn render(of: &Document, form: Form) -> String {
    let mut out = Page::default();
    let captured = &of.capture;
    let name = captured.kernel.as_str();
    let shown = Names::new([name]).shown(name, form).to_owned();
    put!(out, "clscope kernel: launch {} of {shown}", captured.launch);
    if shown != name {
        put!(out, "  recorded as {name}");
    }
    put!(
        out,
        "  captured on {} ({}, driver {})",
        captured.device,
        captured.platform,
        captured.driver
    );
    let here = &of.device;
    match of.is_same_device {
        true => put!(out, "  run on the same device and driver"),
        false => put!(out, "  run on {} ({}, driver {})", here.name, here.platform, here.driver),
    }
    for note in &of.notes {
        put!(out, "note: {note}");
    }
    out.push_str("\nAs captured\n");
    version(&mut out, &of.base);
    if of.base.time.is_some() {
        in_the_application(&mut out, of);
    }
    energy(&mut out, &of.base);
    if let Some(changed) = &of.changed {
        out.push_str("\nThe other version\n");
        version(&mut out, &changed.version);
        ratio(&mut out, changed);
        energy(&mut out, &changed.version);
    }
    for ended in &of.ended {
        out.push_str("\nThe other version\n");
        put!(out, "  {ended}: there are no figures of it");
        out.push_str("  compare its indices with the sizes of its memories\n");
    }
    if let Some(tuned) = &of.tuned {
        table(&mut out, tuned);
    }
    out.into_string()
}

/// Launches here that stood as those of the application, and these. Whether there are any.
fn as_there(out: &mut Page, of: &Document) -> bool {
    let Some(found) = &of.as_there else { return false };
    if let Some(here) = &found.here {
        put!(
            out,
            "    as in the application {} ({}), {}{}",
            time(here.median_ns.value),
            within(&here.median_ns, time),
            count(here.launches as u64, "launch", "launches"),
            standing(found)
        );
    }
    put!(
        out,
        "    in the application {} ({}), {}{}{}",
        time(found.there_ns.value),
        within(&found.there_ns, time),
        count(found.launches as u64, "other launch", "other launches"),
        of.capture
            .duration_ns
            .filter(|ns| *ns > 0)
            .map_or_else(String::new, |ns| { format!(", the captured one {}", time(ns as f64)) }),
        found.change.map_or_else(String::new, |change| {
            let percent = |x: f64| format!("{:+.1} %", x * 100.0);
            let (low, high) = (percent(change.low), percent(change.high));
            format!(": here {} (95%: {low} to {high})", percent(change.value))
        })
    );
    true
}

/// How the launches stood, in words.
fn standing(of: &AsThere) -> String {
    let behind = of.behind_share.unwrap_or(0.0);
    let mut out = String::new();
    if let (Some(there), true) = (of.rest_there_ns, behind < 1.0) {
        let here = of.rest_here_ns.map_or_else(String::new, |ns| format!(", here {}", time(ns)));
        add!(out, ", behind rests of {} there{here}", time(there));
    }
    if behind > 0.0 {
        add!(out, ", {:.0} % with commands ahead", 100.0 * behind);
        if of.missed > 0 {
            add!(out, " (here {} came too late for that)", of.missed);
        }
    }
    if let Some(cold) = of.cold_bytes {
        add!(out, ", memories as cold as after {} of others", bytes(cold));
    }
    if of.fresh > 0 {
        let fresh = count(of.fresh as u64, "memory", "memories");
        add!(out, ", {fresh} made anew before each");
    }
    out
}

/// The application's own launch: one, and what it says beside single launches here.
fn in_the_application(out: &mut Page, of: &Document) {
    if as_there(out, of) {
        return;
    }
    let captured = &of.capture;
    let Some(there) = &of.there else {
        match (captured.duration_ns, &captured.duration_missing) {
            (Some(ns), _) if ns > 0 => {
                put!(out, "    in the application {}", time(ns as f64));
            }
            (_, Some(why)) => put!(out, "    in the application: not known: {why}"),
            _ => out.push_str("    in the application: not known\n"),
        }
        return;
    };
    put!(
        out,
        "    in the application {}, one launch: {:+.1} % here",
        time(there.duration_ns as f64),
        100.0 * there.change
    );
    put!(
        out,
        "    single launches like those here take {} to {} ({:.0} of 100): {}",
        time(there.single_ns.low),
        time(there.single_ns.high),
        100.0 * there.coverage,
        if there.is_within { "it is one of them" } else { "it is none of them" }
    );
    put!(
        out,
        "    so one launch shows differences above {:.0} % here",
        (100.0 * there.least_shown).ceil()
    );
}

/// Sizes with a cross between them.
pub fn shown(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}

fn version(out: &mut Page, of: &Version) {
    let options = match of.options.as_str() {
        "" => "no options".to_owned(),
        options => format!("options {options}"),
    };
    put!(out, "  program  {} ({}), {options}", of.program, of.form);
    let groups = of.local.as_deref().map_or_else(
        || "groups of the runtime's choice".to_owned(),
        |l| format!("groups of {}", shown(l)),
    );
    let from =
        of.offset.as_deref().map_or_else(String::new, |offset| format!(" from {}", shown(offset)));
    put!(out, "  launch   {} work-items{from}, {groups}", shown(&of.global));
    results(out, &of.results);
    match &of.time {
        None => {
            out.push_str("  time     not known: the runtime gives no usable device timestamps\n")
        }
        Some(t) => {
            let restored = if t.restored { ", memories restored before each" } else { "" };
            put!(
                out,
                "  time     {} ({}), {} to {}, {}{restored}",
                time(t.median_ns.value),
                within(&t.median_ns, time),
                time(t.min_ns),
                time(t.max_ns),
                count(t.launches as u64, "launch", "launches")
            );
        }
    }
}

fn within(of: &Interval, unit: impl Fn(f64) -> String) -> String {
    match of.low.is_finite() && of.high.is_finite() {
        true => format!("95%: {} to {}", unit(of.low), unit(of.high)),
        false => "too few for an interval".to_owned(),
    }
}

fn results(out: &mut Page, of: &Results) {
    let with = match of.compared_with {
        "capture" => "captured",
        _ => "the captured version here",
    };
    let total: u64 = of.memories.iter().map(|m| m.bytes).sum();
    let memories = count(of.memories.len() as u64, "memory", "memories");
    let outcome = match of.outcome {
        Outcome::Same => format!("the same as {with}, bit for bit: {memories}, {}", bytes(total)),
        Outcome::Within => {
            let ulps = of.ulps.map_or_else(String::new, |n| count(n, "ULP", "ULPs"));
            format!("within {ulps} of {with}")
        }
        Outcome::Differs => format!("differ from {with}"),
        Outcome::Varies => {
            format!("differ from {with}, and from run to run: the order of work-items decides them")
        }
        Outcome::NotChecked => "not checked: the launch can write no memory".to_owned(),
    };
    put!(out, "  results  {outcome}");
    if !of.is_repeatable && of.outcome != Outcome::Varies {
        out.push_str(
            "           a second run gave other bytes: the order of work-items decides them\n",
        );
    }
    for behind in &of.overruns {
        put!(
            out,
            "           wrote behind the end of memory {} ({}), up to byte {} from there",
            behind.memory,
            named(&behind.arguments),
            behind.bytes
        );
    }
    for memory in of.memories.iter().filter(|m| m.differing > 0) {
        write_memory(out, memory);
    }
}

/// A memory by the arguments that it was given as.
fn named(arguments: &[String]) -> String {
    match arguments {
        [] => "no argument".to_owned(),
        [one] => format!("argument {one}"),
        all => format!("arguments {}", all.join(" and ")),
    }
}

fn write_memory(out: &mut Page, of: &MemoryResult) {
    let arguments = named(&of.arguments);
    let ulps =
        of.ulps.map_or_else(String::new, |n| format!(", by at most {}", count(n, "ULP", "ULPs")));
    // Integers of 64 bits may be too long for the value to be exact, and are rounded then.
    let value = |g: f64| match of.element {
        "half" | "float" | "double" => number(g),
        _ => format!("{g:.0}"),
    };
    let greatest =
        of.greatest.map_or_else(String::new, |g| format!(", by at most {} in value", value(g)));
    put!(
        out,
        "    memory {} ({arguments}): {} of {} {}s differ ({} of {}){ulps}{greatest}",
        of.memory,
        of.differing,
        of.elements,
        of.element,
        bytes(of.differing_bytes),
        bytes(of.bytes)
    );
    for place in &of.first {
        put!(
            out,
            "      {} {}: expected {}, found {}",
            of.element,
            place.element,
            place.expected,
            place.found
        );
    }
    let more = of.differing.saturating_sub(of.first.len() as u64);
    if more > 0 {
        put!(out, "      and {more} more");
    }
}

fn ratio(out: &mut Page, of: &Changed) {
    let Some(change) = of.time_change else {
        out.push_str("    against the captured version: not judged: too few times\n");
        return;
    };
    let outcome = match of.time_outcome {
        outcome::Outcome::More => "slower",
        outcome::Outcome::Less => "faster",
        outcome::Outcome::Same => "the same within noise",
        _ => "unclear: there is too much noise; more launches with --repeat",
    };
    let percent = |x: f64| format!("{:+.1} %", x * 100.0);
    let interval = match change.low.is_finite() && change.high.is_finite() {
        true => format!("95%: {} to {}", percent(change.low), percent(change.high)),
        false => "the launches differ too much for an interval".to_owned(),
    };
    put!(out, "    against the captured version {} ({interval}): {outcome}", percent(change.value),);
}

/// Sizes by time, the captured one marked, and the best.
fn table(out: &mut Page, of: &Tuned) {
    out.push_str("\nWork-group sizes\n");
    put!(
        out,
        "  {:>12} {:>9}  {:<10} {:>8}  {:<12} {}",
        "size",
        "time",
        PLUS_MINUS,
        "change",
        "results",
        ""
    );
    let local = |row: &Tried| row.local.as_deref().map_or_else(|| "null".to_owned(), shown);
    let median = |row: &Tried| row.time.as_ref().map_or(f64::INFINITY, |t| t.median_ns.value);
    let mut order: Vec<(usize, &Tried)> = of.rows.iter().enumerate().collect();
    order.sort_by(|(_, a), (_, b)| median(a).total_cmp(&median(b)));
    for (number, row) in order {
        let size = local(row);
        if let Some(why) = &row.refused {
            put!(out, "  {size:>12} refused: {why}");
            continue;
        }
        let interval = row.time.as_ref().map_or_else(String::new, |t| plus_minus(&t.median_ns));
        let change = row.change.map_or_else(String::new, |c| format!("{:+.1} %", c.value * 100.0));
        let results = match row.results {
            None if number == 0 => "as captured",
            None | Some(Outcome::NotChecked) => "not checked",
            Some(Outcome::Same) => "same",
            Some(Outcome::Within) => "within",
            Some(Outcome::Differs) => "differ",
            Some(Outcome::Varies) => "vary",
        };
        let mark = if of.best == Some(number) { "best" } else { "" };
        put!(
            out,
            "  {size:>12} {:>9}  {interval:<10} {change:>8}  {results:<12} {mark}",
            time(median(row))
        );
    }
    match of.best.and_then(|best| of.rows.get(best)) {
        Some(row) => {
            let change = row.change.map_or_else(String::new, |c| {
                let percent = |x: f64| format!("{:+.1} %", x * 100.0);
                format!(": {} (95%: {} to {})", percent(c.value), percent(c.low), percent(c.high))
            });
            put!(out, "  best: {}{change} against the captured size", local(row));
        }
        None => out.push_str("  no size is faster than the captured one beyond noise\n"),
    }
    for note in &of.notes {
        put!(out, "  note: {note}");
    }
}

fn energy(out: &mut Page, of: &Version) {
    match (&of.energy, &of.energy_missing) {
        (Some(e), _) => {
            put!(
                out,
                "  energy   {} ({}) a launch at {:.1} W, of {} in {:.1}s",
                joules(e.joules.value),
                within(&e.joules, joules),
                e.watts.value,
                count(e.launches as u64, "launch", "launches"),
                e.metered_ns * 1e-9
            );
            if let Some(above) = &e.joules_above_idle {
                put!(
                    out,
                    "           {} above the device without work ({})",
                    joules(above.value),
                    within(above, joules)
                );
            }
            put!(out, "           sensor {}", e.sensor);
        }
        (None, Some(why)) => {
            put!(out, "  energy   not known: {why}");
        }
        (None, None) => {}
    }
    mix(out, of);
    for counter in &of.counters {
        put!(out, "  counter  {} {:.1} {}", counter.name, counter.mean.value, counter.unit);
    }
}

/// What a launch executes: sums, and the classes with the most instructions.
fn mix(out: &mut Page, of: &Version) {
    const SHOWN: usize = 6;
    if let Some(why) = &of.mix_missing {
        put!(out, "  mix      not known: {why}");
    }
    let Some(executed) = of.mix.as_ref().and_then(|mix| mix.executed.as_ref()) else { return };
    let each = executed.instructions as f64 / executed.work_items.max(1) as f64;
    let language = if executed.language == "ptx" { "PTX" } else { "SPIR-V" };
    put!(
        out,
        "  mix      {} instructions ({language}), {each:.1} a work-item",
        executed.instructions
    );
    let flop = &executed.flop;
    let flop = [(flop.fp16, "fp16"), (flop.fp32, "fp32"), (flop.fp64, "fp64")];
    for (n, name) in flop.into_iter().filter(|(n, _)| *n > 0) {
        put!(out, "           {n} FLOP {name}");
    }
    for space in &executed.bytes {
        let (read, written) = (bytes(space.read), bytes(space.written));
        put!(out, "           {}: {read} read, {written} written", space.space);
    }
    let mut classes: Vec<_> = executed.classes.iter().filter(|c| c.instructions > 0).collect();
    classes.sort_by_key(|class| std::cmp::Reverse(class.instructions));
    let all = executed.instructions.max(1) as f64;
    for class in classes.iter().take(SHOWN) {
        let share = class.instructions as f64 / all * 100.0;
        put!(out, "           {share:>5.1} %  {} {}", class.instructions, class.class);
    }
}
