//! The first screen: against committed goldens, and its limits whatever a trace holds.

use super::super::tests::{answer_anew, golden, report, sample, sampled};
use super::*;
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, ProcessBytes};
use clscope_profile::energy::result::{Class, DeviceEnergy, Energy, Floor, Group, Window};
use clscope_profile::report::data::{CommandBuffers, InCommandBuffers};
use clscope_trace::defs::Kernel;
use std::collections::BTreeMap;

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
    let text = render(&report(&sample()), &[], COLUMNS);
    golden("first.txt", &text);
    fits(&text, COLUMNS);
    let text = render(&report(&sample()), &["app.clscope".to_owned()], 120);
    golden("first_wide.txt", &text);
    fits(&text, 120);
    let text = render(&report(&sampled()), &[], COLUMNS);
    golden("first_sampled.txt", &text);
    fits(&text, COLUMNS);
}

#[test]
fn names_of_any_length_and_alphabet_have_room() {
    let long = |end: &str| format!("{}{end}", "very_long_".repeat(400));
    let names = [long("a"), long("b"), "übergröße_σ".to_owned(), "short".to_owned()];
    let text = render(&report(&kernels(&names)), &[], COLUMNS);
    golden("first_names.txt", &text);
    for width in [40, 60, 80, 200] {
        fits(&render(&report(&kernels(&names)), &[], width), width);
    }
    let rows: Vec<&str> = text.lines().filter(|row| row.starts_with("very")).collect();
    assert!(rows.len() == 2 && rows[0][..32] != rows[1][..32], "{text}");
}

#[test]
fn many_kernels_are_the_first_and_a_number() {
    let names: Vec<String> = (0..5_000).map(|i| format!("kernel_number_{i}")).collect();
    let text = render(&report(&kernels(&names)), &[], COLUMNS);
    fits(&text, COLUMNS);
    assert!(text.contains("kernel_number_0") && text.contains("\nand 4,9"), "{text}");
}

#[test]
fn no_kernel_no_command_and_no_call() {
    let mut p = ProcessBuilder::standard(HostModel::default(), 1, 1);
    p.exit(1_000, 0);
    let text = render(&report(&p.build()), &[], COLUMNS);
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
        joules: Some(Interval::estimated(6.0, 5.0, 7.0)),
        dynamic_joules: Some(Interval::estimated(4.0, 3.9, 4.1)),
        idle_joules: Some(Interval::estimated(2.0, 1.0, 3.0)),
        group: Some(0),
        ..Class::default()
    };
    let group = Group {
        names: vec!["matmul".into()],
        busy_seconds: 0.02,
        busy_open: 0.0,
        joules: Interval::estimated(6.0, 5.0, 7.0),
        watts: narrow,
        idle: Interval::estimated(2.0, 1.0, 3.0),
    };
    let floor = Floor {
        state: 0,
        name: "idle",
        watts: Some(narrow),
        idle_seconds: 1.0,
        joules: Some(Interval::around(98.0, 1.0)),
    };
    let device = DeviceEnergy {
        device: "Test Device".into(),
        measured_joules: Some(104.0),
        mean_watts: Some(104.0),
        seconds: 1.0,
        classes: vec![class],
        groups: vec![group],
        floors: vec![floor],
        ..DeviceEnergy::default()
    };
    of.energy = Some(Energy { devices: vec![device], ..Energy::default() });
    let bytes = sample();
    answer_anew(&mut of, &bytes);
    let text = render(&of, &[], COLUMNS);
    golden("first_energy.txt", &text);
    fits(&text, COLUMNS);
    assert!(text.contains("500 mJ +-40%") && text.contains("idle power 96 % (100 W)"), "{text}");
    let narrow = render(&of, &[], 60);
    fits(&narrow, 60);
    assert!(!narrow.contains("p95"), "{narrow}");
}

/// What is proposed can be typed as it is: with all traces that were named, each one word, and
/// never a part of a command.
#[test]
fn commands_are_whole_and_name_the_traces() {
    let mut report = report(&sample());
    report.functions[0].error_codes = [(-54, 1)].into();
    report.functions[0].errors = 1;
    let proposed = |traces: &[String]| -> Vec<String> {
        let footer = ["clscope report --all", "clscope check", "clscope view", "clscope explain"];
        let advice = report.answer.advice.iter().filter_map(|of| of.command.as_deref());
        let all = footer.into_iter().chain(advice).filter_map(|of| words_with(traces, of));
        all.map(|words| words.join(" "))
            .chain(["clscope diff BASE NEW".into(), "clscope doctor".into()])
            .collect()
    };
    let long = format!("/runs/{}", "long".repeat(12));
    let cases: [&[&str]; 5] = [&[], &["run1"], &["my run", "it's\x1b[31m"], &[&long], &["a", "b"]];
    for traces in cases {
        let traces: Vec<String> = traces.iter().map(|trace| (*trace).to_owned()).collect();
        let all = proposed(&traces);
        for width in [40, 60, 80, 120, 400] {
            let text = render(&report, &traces, width);
            fits(&text, width);
            let joined = text.replace("\\\n     ", "");
            let is_command = |line: &&str| line.contains("clscope ");
            for part in joined.lines().filter(is_command).flat_map(|line| line.split("    ")) {
                let Some(at) = part.find("clscope ") else { continue };
                assert!(
                    all.iter().any(|of| part[at..] == **of),
                    "{width}: {part}\n{all:?}\n{text}"
                );
            }
            if width == 400 {
                assert!(all[..3].iter().all(|of| joined.contains(of)), "{all:?}\n{text}");
            }
        }
    }
    let one = |traces: &[&str]| {
        let traces: Vec<String> = traces.iter().map(|trace| (*trace).to_owned()).collect();
        words_with(&traces, "clscope explain blur").map(|words| words.join(" "))
    };
    assert_eq!(one(&["my run"]).unwrap(), "clscope explain 'my run' blur");
    assert_eq!(one(&["a", "b"]), None, "it takes one trace");
}

/// Calls that failed at work are on the screen; questions about what a device lacks are not.
#[test]
fn failed_work_is_named_and_refused_questions_are_not() {
    for (name, is_named) in [
        ("clEnqueueNDRangeKernel", true),
        ("clBuildProgram", true),
        ("clGetPlatformIDs", true),
        ("clGetDeviceInfo", false),
        ("clGetKernelWorkGroupInfo", false),
    ] {
        let mut of = report(&sample());
        for of in &mut of.functions {
            (of.errors, of.error_codes) = (0, BTreeMap::new());
        }
        assert!(!render(&of, &[], 80).contains("FAILED"));
        of.functions[0].name = name.to_owned();
        of.functions[0].error_codes = [(-54, 5)].into();
        of.functions[0].errors = 5;
        let text = render(&of, &[], 80);
        let row = format!("FAILED      {name} CL_INVALID_WORK_GROUP_SIZE (5 times)");
        assert_eq!(text.contains(&row), is_named, "{text}");
        assert_eq!(text.contains("clscope check"), is_named, "{text}");
        fits(&text, 80);
    }
}

/// A sum that lacks launches without a time says so: the process was killed during the second.
#[test]
fn a_sum_without_some_of_its_launches_is_at_least_that() {
    let row = |timed: u64| {
        let mut p = ProcessBuilder::standard(HostModel::default(), 4242, 1);
        let host = p.host;
        for id in 1..=2 {
            let at = id * 1_000_000;
            let launch = CommandSpec::kernel(id, 1, 1);
            let stamps = [0, 500, 2_000, 902_000].map(|ns| host.raw + at + ns);
            let thread = p.thread(0);
            thread.enqueue(at, at + 1_000, &launch);
            if id <= timed {
                thread.timing(at + 903_000, id, stamps);
            }
        }
        let text = render(&report(&p.build()), &[], 80);
        let row = text.lines().skip_while(|line| !line.starts_with("KERNELS")).nth(1);
        row.map(str::to_owned).unwrap_or_default()
    };
    assert!(row(1).contains("  >900 us") && row(1).matches('>').count() == 2, "{}", row(1));
    assert!(row(2).contains("  1.80 ms") && !row(2).contains('>'), "{}", row(2));
}

/// Nothing is listed that rounds to none, whatever the shares.
#[test]
fn no_cause_is_listed_with_nothing() {
    let mut of = report(&sample());
    let first = of.answer.why[0].clone();
    of.answer.why = vec![Cause { share: 1e-5, ..first.clone() }; 3];
    of.answer.why[0].share = 1.0;
    assert!(!render(&of, &[], 80).contains("other: "), "nothing is left");
    for share in [0.0, 1e-9, 0.0004, 0.000_499] {
        let of_share = |share| Cause { share, kind: "call", ..first.clone() };
        of.answer.why = vec![of_share(0.99), of_share(0.004), of_share(share), of_share(share)];
        let text = render(&of, &[], 80);
        let others = text.lines().find(|line| line.contains("other: ")).unwrap();
        assert!(others.contains("0.4 %") && !others.contains("0.0 %"), "{text}");
    }
}

/// What is estimated is explained, whatever stands behind it.
#[test]
fn a_tilde_is_explained() {
    let mut of = report(&sample());
    assert!(!render(&of, &["run".to_owned()], 80).contains('~'));
    of.answer.why[0].estimated = true;
    assert!(render(&of, &["run".to_owned()], 80).contains("~: some commands have no time"));
    let text = render(&report(&sampled()), &["run".to_owned()], 80);
    assert!(text.contains("~: ") && text.contains("% of launches were not timed"), "{text}");
}

/// Of kernels that are next to nothing of the run a few are shown.
#[test]
fn a_table_ends_where_nothing_is_left_to_say() {
    let mut of = report(&kernels(&(0..50).map(|i| format!("k{i}")).collect::<Vec<_>>()));
    let rows = |of: &Report| {
        let text = render(of, &[], 80);
        text.lines().filter(|line| line.starts_with('k')).count()
    };
    assert!(rows(&of) > 10);
    of.answer.kernels.iter_mut().for_each(|row| row.share = row.share.map(|share| share * 1e-6));
    assert_eq!(rows(&of), 3);
}

/// The run is called what was meant: without where files lie, and what interprets a script.
#[test]
fn the_command_is_in_the_words_that_tell_runs_apart() {
    let bytes = sample();
    let mut of = report(&bytes);
    for (words, shown) in [
        ("/usr/bin/python3 /a/detect.py /b/c.png", "detect.py c.png"),
        ("python3.11 -c print()", "python3.11 -c print()"),
        ("./app --size 5", "app --size 5"),
        ("app x.py", "app x.py"),
        ("python3", "python3"),
    ] {
        of.processes[0].arguments = words.split(' ').map(str::to_owned).collect();
        answer_anew(&mut of, &bytes);
        let text = heading(&of, 200);
        assert!(text.starts_with(&format!("{shown}: ")), "{text}");
    }
}

/// The command and the device have the room that there is, and share it where both are long.
#[test]
fn the_first_line_is_whole_where_it_has_room() {
    let mut of = report(&sample());
    for (command, device) in
        [(8, 20), (8, 49), (40, 12), (30, 30), (200, 10), (10, 200), (200, 200)]
    {
        of.answer.run.command = "c".repeat(command);
        of.answer.run.devices = vec!["d".repeat(device)];
        let whole = heading(&of, 1_000);
        assert!(whole.contains(&"c".repeat(command)) && whole.contains(&"d".repeat(device)));
        for width in [40, 80, 120] {
            let text = heading(&of, width);
            assert_eq!(text == whole, whole.len() <= width, "{text}");
            assert!(text.len() <= width, "{text}");
            let shown = text.matches('d').count() + text.matches('c').count();
            assert!(shown + 3 * 2 + 32 >= width.min(whole.len()), "{text}");
        }
    }
}

#[test]
fn kernels_in_command_buffers_have_their_launches() {
    for n in [1usize, 2, 3, 4, 60] {
        let mut report = report(&sample());
        let kernels = (0..n)
            .map(|i| InCommandBuffers { name: format!("inside_{i}"), launches: 1_000 - i as u64 });
        report.command_buffers =
            Some(CommandBuffers { enqueues: 100, unknown: 0, kernels: kernels.collect() });
        let text = render(&report, &[], 80);
        fits(&text, 80);
        let line = text.lines().find(|line| line.contains("inside_0")).unwrap();
        assert!(line.split_whitespace().any(|word| word == "1,000"), "{text}");
        assert!(!text.contains("inside_3"), "{text}");
        assert!(text.contains("KERNELS"), "{text}");
    }
}

#[test]
fn parts_of_joules_are_never_none_and_bounds_hold() {
    for share in [1e-9, 1e-4, 0.004, 0.0049, 0.006, 0.00999, 0.01, 0.0101, 0.3, 0.994, 1.0] {
        for low in [0.0, 0.5 * share, 0.99 * share] {
            let of = Interval::estimated(share, low, share);
            let part = EnergyPart { kind: "copies", names: Vec::new(), joules: of, share: of };
            let row = EnergyRow {
                device: "gpu".to_owned(),
                window: None,
                measured_ns: None,
                joules: Interval::exact(100.0),
                watts: Some(Interval::exact(50.0)),
                idle_watts: None,
                parts: vec![part],
            };
            let part = EnergyRow { measured_ns: Some(2e9), ..row.clone() };
            let said = energy(&part, false, 200).join(" ");
            assert!(said.contains("100 J in the 2.00 s that its readings cover, 50 W"), "{said}");
            let line = energy(&row, false, 200).join(" ");
            assert!(!line.contains(" 0 %"), "{share}: {line}");
            let copies = line.split("copies with idle ").nth(1).unwrap();
            let number = |text: &str| text.split(' ').next().unwrap().parse::<f64>().unwrap();
            let (shown, most) = (100.0 * share, copies.strip_prefix("at most "));
            match (low, copies.strip_prefix("below "), most) {
                (_, Some(below), _) => assert!(shown < number(below), "{share}: {line}"),
                (0.0, None, most) => {
                    let most = number(most.expect("a bound"));
                    assert!(shown <= most + 1e-9 && most < shown + 1.0, "{share}: {line}");
                }
                (_, None, _) => {
                    assert!((number(copies) - shown).abs() <= 0.5, "{share}: {line}");
                }
            }
        }
    }
}

/// No line joins a time of the run with joules of a part of it, and each figure of energy says of
/// which part it is.
#[test]
fn energy_of_a_window_stands_apart_and_says_so() {
    let mut of = report(&sample());
    let narrow = Interval::estimated(100.0, 99.0, 101.0);
    let class = |name: &str, kind| Class {
        name: name.into(),
        kind,
        joules: Some(narrow),
        joules_per_launch: Some(narrow),
        watts: Some(narrow),
        ..Class::default()
    };
    let device = DeviceEnergy {
        device: "Test Device".into(),
        measured_joules: Some(104.0),
        seconds: 1.0,
        classes: vec![class("matmul", "kernel"), class("host to device", "transfer")],
        window: Some(Window { from_seconds: 10.0, to_seconds: 15.0 }),
        ..DeviceEnergy::default()
    };
    let bytes = sample();
    let is_energy = |line: &str| {
        let words: Vec<&str> = line.split([' ', ',']).collect();
        words.iter().any(|word| ["J", "mJ", "uJ", "W"].contains(word))
            || line.contains("J/launch")
            || line.contains("J/copy")
    };
    for window in [device.window, None] {
        let device = DeviceEnergy { window, ..device.clone() };
        of.energy = Some(Energy { devices: vec![device], ..Energy::default() });
        answer_anew(&mut of, &bytes);
        let text = render(&of, &[], 200);
        let energies: Vec<&str> = text.lines().filter(|line| is_energy(line)).collect();
        assert!(!energies.is_empty(), "{text}");
        for line in energies {
            assert_eq!(line.contains("in 10 to 15 s of the run"), window.is_some(), "{text}");
        }
        let rows = &of.answer.kernels;
        assert!(rows.iter().any(|row| row.joules_per_launch.is_some()) == window.is_none());
    }
}

#[test]
fn what_threads_do_at_once_is_no_share_above_the_whole() {
    let shown = [0.5, 1.0, 1.0004, 2.19, 64.0].map(of_wall);
    assert_eq!(shown, ["50.0 %", "100.0 %", "100.0 %", "2.2 at once", "64.0 at once"]);
}
