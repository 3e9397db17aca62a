//! Readings of an external power meter, the whole way: from a table or a command to joules per
//! kernel. The meter is made of the trace's own times, with a power that is known.

use crate::energy::{Span, energy_of, number, record, spans};
use clscope_tests::{Runtime, Stage};
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds between readings.
const STEP: f64 = 0.05;

/// Share of a stretch in which kernels ran.
fn share(spans: &[Span], from: f64, to: f64) -> f64 {
    let inside = |s: &Span| (s.1.min(to) - s.0.max(from)).max(0.0);
    spans.iter().map(inside).sum::<f64>() / (to - from)
}

/// The table of a meter that began 30 s before the first kernel, by a clock that shows 1000 s then:
/// 40 W at rest and 60 W more while kernels run. One line in the middle is none.
fn table(spans: &[Span]) -> String {
    let begin = spans[0].0 - 30e9;
    let count = ((spans[spans.len() - 1].1 - begin + 5e9) * 1e-9 / STEP) as usize;
    let mut text = "Meter 7\nseconds;Power (mW)\n".to_owned();
    for i in 1..count {
        let to = begin + i as f64 * STEP * 1e9;
        let watts = 40.0 + 60.0 * share(spans, to - STEP * 1e9, to);
        let shown = format!("{:.3}", watts * 1e3).replace('.', ",");
        text.push_str(&format!("{:.3};{shown}\n", 1000.0 + i as f64 * STEP));
        if i == count / 2 {
            text.push_str("overload;-\n");
        }
    }
    text
}

fn meter(stage: &Stage, arguments: &[&str]) -> clscope_tests::Finished {
    let (csv, trace) = (stage.join("log.csv"), stage.trace("t"));
    let paths = [csv.display().to_string(), trace.display().to_string()];
    stage.clscope(["meter", &paths[0], &paths[1]]).args(arguments).run()
}

#[test]
fn a_table_is_placed_by_the_load_and_becomes_joules_per_kernel() {
    let stage = Stage::new(Runtime::Pocl);
    record(&stage, &["--sensors", "off"], &["4000"]);
    let spans = spans(&stage);
    std::fs::write(stage.join("log.csv"), table(&spans)).unwrap();
    let said = meter(&stage, &[]).success().stdout;
    for word in ["placed by the load", "`Power (mW)`", "1 line of the table is no reading"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let device = energy_of(&stage, &[]);
    assert_eq!(device["formula"], "meter", "{device}");
    assert!(device["includes"].as_str().unwrap().contains("all that the external meter feeds"));
    // What it drew while the trace was recorded, and no more.
    let busy: f64 = spans.iter().map(|s| s.1 - s.0).sum();
    let truth = 40.0 + 60.0 * busy / number(&device["time_ns"]);
    let watts = number(&device["mean_watts"]);
    assert!((watts / truth - 1.0).abs() < 0.05, "{watts} W of {truth}");
    // Told for people, and the table is kept.
    let trace = stage.trace("t");
    let shown = trace.display().to_string();
    let report = stage.clscope(["report", &shown, "--section", "energy"]).run().success().stdout;
    assert!(report.contains("P_meter"), "{report}");
    assert!(std::fs::read_to_string(trace.join("meter.csv")).unwrap().contains("overload"));
    // A wrong mark is refused with what helps; a right one places as well.
    let refused = meter(&stage, &["--meter-format", "start=nowhere"]);
    assert!(
        !refused.status.success() && refused.stderr.contains("start=TIME"),
        "{}",
        refused.stderr
    );
    let mark = meter(&stage, &["--meter-format", "start=1030"]).success().stdout;
    assert!(mark.contains("by the start of the application at 1030"), "{mark}");
    // Moments that are of another day are none of the run.
    let old = table(&spans).replacen("seconds", "time", 1).replace("\n10", "\n10000000");
    std::fs::write(stage.join("log.csv"), old).unwrap();
    let refused = meter(&stage, &[]);
    assert!(
        !refused.status.success() && refused.stderr.contains("are of the run"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_command_and_a_file_are_read_while_an_application_runs() {
    let stage = Stage::new(Runtime::Pocl);
    let near = |what: &str, truth: f64| {
        let device = energy_of(&stage, &["--gpu-power", "meter"]);
        assert_eq!(device["formula"], "meter", "{what}: {device}");
        let watts = number(&device["mean_watts"]);
        assert!((watts / truth - 1.0).abs() < 0.02, "{what}: {watts} W");
    };
    // No times of its own.
    let command = "while :; do echo 42 W; sleep 0.02; echo 43 W; sleep 0.02; done";
    record(&stage, &["--sensors", "off", "--meter", command], &["1500"]);
    near("command", 42.5);
    // By the wall clock, written before and behind the run.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    let line = |i: i32| format!("{:.3},{}\n", now + f64::from(i) * 0.1, 69 + 2 * (i & 1));
    let text = "time,watts\n".to_owned() + &(-50..1200).map(line).collect::<String>();
    let csv = stage.join("log.csv");
    std::fs::write(&csv, text).unwrap();
    record(&stage, &["--sensors", "off", "--meter", &csv.display().to_string()], &["1500"]);
    near("file", 70.0);
    // Neither of them costs the application its run; what fails says what to type.
    let trace = stage.trace("t").display().to_string();
    let app = clscope_tests::artifacts().fixture("two_powers").display().to_string();
    let run =
        stage.clscope(["record", "-f", "-o", &trace, "--meter", "echo volts", "--", &app, "50"]);
    let run = run.run().success();
    assert!(run.stdout.contains("done") && run.stderr.contains("clscope meter "), "{}", run.stderr);
}

/// The log of Piispanen 2014, section 6.1.3: a date, then numbers with decimal commas between
/// commas, without names; by the clock.
#[test]
fn the_log_of_a_power_supply_is_read_as_it_is() {
    let stage = Stage::new(Runtime::Pocl);
    record(&stage, &["--sensors", "off"], &["1500"]);
    let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64 - 60;
    let mut text = String::new();
    for second in first..first + 70 {
        // The calendar of another program.
        let date = std::process::Command::new("date")
            .args(["-u", "-d", &format!("@{second}"), "+%-d.%-m.%Y %H:%M:%S"])
            .output()
            .unwrap();
        let date = String::from_utf8(date.stdout).unwrap();
        let watts = 70 + 2 * (second & 1);
        text.push_str(&format!("{},20,7W,{},5,151,9921875,136,605458408151\n", date.trim(), watts));
    }
    std::fs::write(stage.join("log.csv"), text).unwrap();
    let format = "time=1,power=3,decimal=comma,zone=UTC";
    let said = meter(&stage, &["--meter-format", format]).success().stdout;
    assert!(said.contains("70 readings of `column 3`, one each 1.000 s"), "{said}");
    let watts = number(&energy_of(&stage, &["--gpu-power", "meter"])["mean_watts"]);
    assert!((watts / 71.5 - 1.0).abs() < 0.03, "{watts} W");
}
