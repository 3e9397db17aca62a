//! Counted instructions as text. Refuses to choose which kernels are shown.

use crate::figure::{dash, thousands};
use crate::table::{Column, Table, bytes};
use clscope_io::text::{Page, count};
use clscope_mix::{Class, Precision, Tally};
use clscope_profile::mixes::{KernelMix, shared_names};
use clscope_trace::replace;
use std::fmt::Write as _;

/// A mean, with a digit behind the point where it is no whole number.
fn mean(value: f64) -> String {
    if value.fract() == 0.0 && value < 9e15 {
        thousands(value as u64)
    } else {
        format!("{value:.1}")
    }
}

/// All of them, one behind the other. Programs are named where a kernel's name is not enough.
pub fn text(rows: &[&KernelMix], width: usize) -> String {
    let mut out = Page::default();
    if rows.is_empty() {
        put!(out, "No kernel was launched while the application was recorded.");
        return out.into_string();
    }
    let shared = shared_names(rows.iter().copied());
    for (at, row) in rows.iter().enumerate() {
        if at > 0 {
            out.push_str("\n");
        }
        kernel(&mut out, row, shared.contains(row.kernel.as_str()), width);
    }
    if rows.iter().all(|row| row.counted == 0 && row.refused.is_empty()) {
        put!(out, "\nNo launch was counted: record with `clscope record --mix -- APP`.");
    }
    out.into_string()
}

fn kernel(out: &mut Page, row: &KernelMix, is_shared: bool, width: usize) {
    let local = match row.local.is_empty() {
        true => String::new(),
        false => format!(" by {}", replace::shown(&row.local)),
    };
    put!(
        out,
        "{}  {}{local}  on {}: {} of {} counted",
        row.kernel,
        replace::shown(&row.global),
        row.device,
        row.counted,
        count(row.launches, "launch", "launches")
    );
    if is_shared {
        put!(out, "  program      {}", row.program);
    }
    for why in &row.refused {
        put!(out, "  not counted  {why}");
    }
    if row.counted > 0 {
        executed(out, row, width);
    }
    resources(out, row);
}

fn executed(out: &mut Page, row: &KernelMix, width: usize) {
    let all = row.mix.total();
    let one = |figure: u64| mean(row.per_launch(figure).unwrap_or(0.0));
    let items = row.items().max(1) as f64;
    let each = row.per_launch(all.threads).unwrap_or(0.0) / items;
    put!(
        out,
        "  a launch     {} instructions ({}), {each:.1} a work-item",
        one(all.threads),
        match row.language.as_str() {
            "ptx" => "PTX",
            _ => "SPIR-V",
        }
    );
    if let Some((least, most)) = row.spread.filter(|(least, most)| least != most) {
        put!(
            out,
            "  launches     differ: from {} to {} instructions",
            thousands(least),
            thousands(most)
        );
    }
    if let Some(warps) = all.warps {
        let busy = row.lanes_busy().map(|b| format!(", {:.1} % of lanes busy", b * 100.0));
        put!(out, "  warps        {} instructions{}", one(warps), busy.unwrap_or_default());
    }
    let flop: Vec<String> = Precision::ALL
        .into_iter()
        .filter(|of| row.mix.flop(*of) > 0)
        .map(|of| format!("{} {}", one(row.mix.flop(of)), of.name()))
        .collect();
    if !flop.is_empty() {
        put!(out, "  FLOP         {}", flop.join(", "));
    }
    let counted = row.counted.max(1);
    for of in row.bytes() {
        let mut parts = Vec::new();
        for (name, n) in [("read", of.read), ("written", of.written), ("by atomics", of.atomic)] {
            if n > 0 {
                parts.push(format!("{} {name}", bytes(n / counted)));
            }
        }
        if !parts.is_empty() {
            put!(out, "  {:<12} {}", of.space, parts.join(", "));
        }
    }
    for (name, n) in [("barriers", row.mix.barriers()), ("atomics", row.mix.atomics())] {
        if n > 0 {
            put!(out, "  {name:<12} {} by work-items", one(n));
        }
    }
    for of in &row.loops {
        let trips = row.per_launch(of.threads).unwrap_or(0.0) / items;
        put!(out, "  loop         at block {}: {trips:.2} times a work-item", of.block);
    }
    let memories = [
        (row.mix.sectors(), "accesses", "pieces of 32 bytes"),
        (row.mix.passes(), "banks", "passes"),
    ];
    for (of, name, what) in memories {
        if let Some(of) = of {
            let (taken, least) = (of.a_warp(), of.least_a_warp());
            let beside = match taken < least {
                true => {
                    format!(", where lanes share words; words of their own would take {least:.2}")
                }
                false => format!("; words side by side would take {least:.2}"),
            };
            put!(
                out,
                "  {name:<12} {} {what}, {taken:.2} for each access of a warp{beside}",
                one(of.transactions)
            );
        }
    }
    let mut classes: Vec<_> = row.mix.classes.iter().collect();
    classes.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.threads));
    let or_dash = |n: u64| dash((n > 0).then(|| one(n)));
    let share = |n: u64| format!("{:.1} %", n as f64 * 100.0 / all.threads.max(1) as f64);
    let columns: [Column<'_, (&Class, &Tally)>; 8] = [
        ("instructions", true, &|(_, of)| one(of.threads)),
        ("share", true, &|(_, of)| share(of.threads)),
        ("by warps", true, &|(_, of)| dash(of.warps.map(one))),
        ("FLOP", true, &|(_, of)| or_dash(of.flop)),
        ("bytes", true, &|(_, of)| or_dash(of.bytes)),
        ("transactions", true, &|(_, of)| dash(of.transactions.map(one))),
        ("predicated", true, &|(_, of)| or_dash(of.predicated)),
        ("class", true, &|(class, _)| class.name().to_owned()),
    ];
    out.push_str(&Table::of_rows(&classes, &columns).render(width));
    if !row.unknown.is_empty() {
        let names: Vec<&str> = row.unknown.iter().map(String::as_str).collect();
        put!(out, "  unknown      {}", names.join(", "));
    }
}

fn resources(out: &mut Page, row: &KernelMix) {
    let of = &row.resources;
    let mut parts = Vec::new();
    let mut add = |value: Option<u64>, text: &str| {
        if let Some(n) = value {
            parts.push(format!("{n} {text}"));
        }
    };
    add(of.registers, "registers");
    add(of.local_bytes, "bytes of local memory");
    add(of.private_bytes, "bytes of private memory");
    add(of.spill_store_bytes.filter(|n| *n > 0), "bytes spilled");
    add(of.work_group_limit, "work-items a group at most");
    add(of.multiple, "preferred multiple");
    if !parts.is_empty() {
        put!(out, "  takes        {}", parts.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_mix::{Class, Tally};
    use clscope_profile::mixes::Program;

    #[test]
    fn means_of_whole_numbers_have_no_point() {
        assert_eq!((mean(2.0), mean(2.5)), ("2".to_owned(), "2.5".to_owned()));
    }

    #[test]
    fn kernels_of_one_name_name_their_programs() {
        let of = |kernel: &str, hash: &str, options: &str| {
            let (hash, options) = (hash.to_owned(), options.to_owned());
            let program = Program { hash, options };
            KernelMix { kernel: kernel.to_owned(), program, ..KernelMix::default() }
        };
        let (one, other) = (of("k", "0123456789abcdef", ""), of("k", "0123456789abcdef", "-D N=2"));
        let shown = text(&[&one, &other, &of("alone", "fedcba9876543210", "-D N=3")], 100);
        let lines: Vec<&str> = shown.lines().filter(|line| line.contains("program ")).collect();
        let named =
            ["  program      0123456789ab", "  program      0123456789ab, built with -D N=2"];
        assert_eq!(lines, named, "{shown}");
    }

    #[test]
    fn what_was_not_counted_says_why() {
        assert!(text(&[], 100).contains("No kernel was launched"));
        let mut row =
            KernelMix { kernel: "k".into(), global: vec![64], launches: 2, ..KernelMix::default() };
        assert!(text(&[&row], 100).contains("record --mix"));
        row.refused.insert("argument 1 is a pipe".into());
        let shown = text(&[&row], 100);
        assert!(shown.contains("0 of 2 launches counted\n  not counted  argument 1 is a pipe"));
        row.counted = 2;
        let fma = Tally { threads: 128, warps: Some(4), flop: 256, ..Tally::default() };
        row.mix.classes.insert(Class::SingleFma, fma);
        row.resources.multiple = Some(32);
        let shown = text(&[&row], 100);
        assert!(shown.contains("64 instructions (SPIR-V), 1.0 a work-item"), "{shown}");
        assert!(shown.contains("100.0 % of lanes busy") && shown.contains("128 fp32"), "{shown}");
        assert!(!shown.contains("accesses") && !shown.contains("banks"), "not counted: {shown}");
        let mut load = Tally { threads: 128, warps: Some(4), bytes: 512, ..Tally::default() };
        load.transactions = Some(64);
        row.mix.classes.insert(Class::LoadGlobal, load);
        row.mix.classes.insert(Class::StoreLocal, Tally { transactions: Some(6), ..load });
        let shown = text(&[&row], 100);
        let lines = [
            "  accesses     32 pieces of 32 bytes, 16.00 for each access of a warp; words side by side \
             would take 4.00\n",
            "  banks        3 passes, 1.50 for each access of a warp; words side by side would take 1.00\n",
        ];
        assert!(lines.iter().all(|line| shown.contains(line)), "{shown}");
        // Lanes that read one word take less than words of their own.
        let wide = Tally { bytes: 3072, transactions: Some(4), ..load };
        row.mix.classes.insert(Class::StoreLocal, wide);
        let shown = text(&[&row], 100);
        let line = "2 passes, 1.00 for each access of a warp, where lanes share words; words of their \
                    own would take 6.00\n";
        assert!(shown.contains(line), "{shown}");
    }
}
