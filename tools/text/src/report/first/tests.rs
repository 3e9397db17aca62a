//! The first screen: against committed goldens, and its limits whatever a trace holds.

use super::super::tests::{answer_anew, golden, report, sample, sampled};
use super::*;
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, ProcessBytes};
use clscope_profile::energy::result::{Class, DeviceEnergy, Energy, Floor};
use clscope_profile::report::data::{CommandBuffers, InCommandBuffers};
use clscope_trace::defs::Kernel;

fn fits(text: &str, width: usize) {
    assert!(text.lines().count() <= LINES, "{} lines:\n{text}", text.lines().count());
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{} columns: {line}", line.chars().count());
    }
    assert!(text.is_ascii() || !text.chars().any(char::is_control) || text.contains('\n'));
}

/// `n` kernels of these names, each launched twice, the first ones longest.
fn kernels(names: &[String]) -> ProcessBytes {
    let mut p = ProcessBuilder::standard(HostModel::default(), 4242, 1);
    let host = p.host;
    let mut at = 10_000;
    for (i, name) in (0u64..).zip(names) {
        p.define(Kernel { id: 10 + i as u32, program: 1, name: name.clone() });
        for round in 0..2 {
            let id = 2 * i + round + 1;
            let ns = 2_000 + 1_000_000 / (i + 1);
            let stamps = [at, at + 500, at + 2_000, at + 2_000 + ns].map(|ns| host.raw + ns);
            p.thread(0).enqueue(at, at + 1_000, &CommandSpec::kernel(id, 1, 10 + i as u32)).timing(
                at + 3_000 + ns,
                id,
                stamps,
            );
            at += 5_000 + ns;
        }
    }
    p.exit(at, 0);
    p.build()
}

#[test]
fn the_screen_is_as_committed() {
    let text = render(&report(&sample()), None, COLUMNS);
    golden("first.txt", &text);
    fits(&text, COLUMNS);
    let text = render(&report(&sample()), Some("app.clscope"), 120);
    golden("first_wide.txt", &text);
    fits(&text, 120);
    let text = render(&report(&sampled()), None, COLUMNS);
    golden("first_sampled.txt", &text);
    fits(&text, COLUMNS);
}

#[test]
fn names_of_any_length_and_alphabet_have_room() {
    let long = |end: &str| format!("{}{end}", "very_long_".repeat(400));
    let names = [long("a"), long("b"), "übergröße_σ".to_owned(), "short".to_owned()];
    let text = render(&report(&kernels(&names)), None, COLUMNS);
    golden("first_names.txt", &text);
    for width in [40, 60, 80, 200] {
        fits(&render(&report(&kernels(&names)), None, width), width);
    }
    let rows: Vec<&str> = text.lines().filter(|row| row.starts_with("very")).collect();
    assert!(rows.len() == 2 && rows[0][..32] != rows[1][..32], "{text}");
}

#[test]
fn many_kernels_are_the_first_and_a_number() {
    let names: Vec<String> = (0..5_000).map(|i| format!("kernel_number_{i}")).collect();
    let text = render(&report(&kernels(&names)), None, COLUMNS);
    fits(&text, COLUMNS);
    assert!(text.contains("kernel_number_0") && text.contains("\nand 4,9"), "{text}");
}

#[test]
fn no_kernel_no_command_and_no_call() {
    let mut p = ProcessBuilder::standard(HostModel::default(), 1, 1);
    p.exit(1_000, 0);
    let text = render(&report(&p.build()), None, COLUMNS);
    golden("first_empty.txt", &text);
    fits(&text, COLUMNS);
}

/// Joules, with an interval that is narrow and one that is wide.
#[test]
fn intervals_are_shown_where_they_are_wide() {
    let mut of = report(&sample());
    let wide = Interval::estimated(0.5, 0.3, 0.7);
    let narrow = Interval::estimated(100.0, 99.0, 101.0);
    let class = Class {
        name: "matmul".into(),
        kind: "kernel",
        joules_per_launch: Some(wide),
        watts: Some(narrow),
        dynamic_joules: Some(Interval::estimated(4.0, 3.0, 5.0)),
        ..Class::default()
    };
    let floor =
        Floor { state: 0, name: "idle", watts: Some(narrow), idle_seconds: 1.0, joules: None };
    let device = DeviceEnergy {
        device: "Test Device".into(),
        measured_joules: Some(104.0),
        mean_watts: Some(104.0),
        seconds: 1.0,
        classes: vec![class],
        floors: vec![floor],
        ..DeviceEnergy::default()
    };
    of.energy = Some(Energy { devices: vec![device], ..Energy::default() });
    let bytes = sample();
    answer_anew(&mut of, &bytes);
    let text = render(&of, None, COLUMNS);
    golden("first_energy.txt", &text);
    fits(&text, COLUMNS);
    assert!(text.contains("500 mJ +-40%") && text.contains("idle 96 % (100 W)"), "{text}");
    let narrow = render(&of, None, 60);
    fits(&narrow, 60);
    assert!(!narrow.contains("p95"), "{narrow}");
}

/// What is proposed can be typed as it is: with the trace where one was named.
#[test]
fn commands_name_the_trace() {
    let bytes = sample();
    let text = render(&report(&bytes), Some("run1"), COLUMNS);
    assert!(
        text.contains("clscope report run1 --all") && text.contains("clscope view run1"),
        "{text}"
    );
    assert!(render(&report(&bytes), None, COLUMNS).contains("clscope report --all"));
}

#[test]
fn kernels_in_command_buffers_have_their_launches() {
    for n in [1usize, 2, 3, 4, 60] {
        let mut report = report(&sample());
        let kernels = (0..n)
            .map(|i| InCommandBuffers { name: format!("inside_{i}"), launches: 1_000 - i as u64 });
        report.command_buffers =
            Some(CommandBuffers { enqueues: 100, unknown: 0, kernels: kernels.collect() });
        let text = render(&report, None, 80);
        fits(&text, 80);
        let line = text.lines().find(|line| line.contains("inside_0")).unwrap();
        assert!(line.split_whitespace().any(|word| word == "1,000"), "{text}");
        assert!(!text.contains("inside_3"), "{text}");
        assert!(text.contains("KERNELS"), "{text}");
    }
}

#[test]
fn parts_of_joules_are_never_none_and_bounds_hold() {
    let row = |share: f64, copies_are_below| EnergyRow {
        device: "gpu".to_owned(),
        joules: 100.0,
        watts: Some(50.0),
        idle_watts: None,
        idle_share: None,
        kernels_share: Some(share),
        copies_share: Some(share),
        copies_are_below,
        sums: Vec::new(),
    };
    for share in [1e-9, 1e-4, 0.004, 0.0049, 0.006, 0.00999, 0.01, 0.0101, 0.3, 0.994, 1.0] {
        for is_bound in [false, true] {
            let line = energy(&row(share, is_bound), false, 200).join(" ");
            assert!(!line.contains(" 0 %"), "{share}: {line}");
            let copies = line.split("copies ").nth(1).unwrap();
            let number = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
            let (shown, most) = (100.0 * share, copies.strip_prefix("at most "));
            match (is_bound, copies.strip_prefix("below "), most) {
                (_, Some(below), _) => assert!(shown < number(below), "{share}: {line}"),
                (true, None, most) => {
                    let most = number(most.expect("a bound"));
                    assert!(shown <= most + 1e-9 && most < shown + 1.0, "{share}: {line}");
                }
                (false, None, _) => {
                    assert!((number(copies) - shown).abs() <= 0.5, "{share}: {line}");
                }
            }
        }
    }
}
