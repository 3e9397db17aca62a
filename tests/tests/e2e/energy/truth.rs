//! Joules per kernel against a truth: real runs, with readings as a sensor would have given them
//! had each kernel drawn so many watts. Spans are the run's own, so that the truth holds however
//! busy the machine is.

use crate::energy::{assert_conserved, counted, energy, energy_of, number, record, spans};
use clscope_tests::{Runtime, Stage};
use serde_json::Value;

/// Time and value of a line of readings; `None` of the lines ahead of them.
fn reading(line: &str) -> Option<(i64, i64)> {
    let mut fields = line.strip_prefix("0,")?.split(',');
    Some((fields.next()?.parse().ok()?, fields.nth(1)?.parse().ok()?))
}

/// A device that was in a deep state until its first command, and draws more between launches.
#[test]
fn a_deep_state_before_the_first_command_is_not_the_floor() {
    const COUNTS: i64 = 1 << 32;
    let stage = Stage::new(Runtime::Pocl);
    let trace = stage.trace("t").display().to_string();
    let app = clscope_tests::artifacts().fixture("frames").display().to_string();
    let all = ["record", "-q", "-o", &trace, "--device-timing", "event", "--sensors", "off"];
    // Host work of random length between frames: what share of the time the device rests varies.
    stage.clscope(all).args(["--", &app, "1500", "2000", "exponential", "read"]).run().success();
    let spans = spans(&stage);
    let (first, last) = (spans[0].0, spans[spans.len() - 1].1);
    let all = counted(&spans, |_| 20.0, 5.0);
    let readings: Vec<(i64, i64)> = all
        .lines()
        .filter_map(reading)
        .filter(|(at, _)| (first..=last).contains(&(*at as f64)))
        .collect();
    let mut text: String = all.lines().take(2).map(|line| format!("{line}\n")).collect();
    // Three seconds at 2 W, to the counter's value at the first command.
    let (at, counts) = readings[0];
    for step in (1..150).rev() {
        let before = step * 20_000_000;
        let less = (before as f64 * 1e-9 * 2.0 * 16384.0) as i64;
        let (at, counts) = (at - before, (counts - less).rem_euclid(COUNTS));
        text.push_str(&format!("0,{at},{},{counts}\n", at + 200));
    }
    for (at, counts) in readings.iter().step_by(40) {
        text.push_str(&format!("0,{at},{},{counts}\n", at + 200));
    }
    std::fs::write(stage.join("readings"), text).unwrap();
    let readings = stage.join("readings").display().to_string();
    let device = energy_of(&stage, &["--readings", &readings, "--idle-power", "run"]);
    assert_conserved(&device);
    let floor = &device["floors"][0]["watts"];
    assert!((number(&floor["value"]) / 5.0 - 1.0).abs() < 0.3, "{device:#}");
    assert!(number(&floor["low"]) > 2.5, "{device:#}");
    let deeper = &device["floors"][1]["watts"];
    assert!((number(&deeper["value"]) / 2.0 - 1.0).abs() < 0.05, "{device:#}");
}

#[test]
fn a_floor_that_a_run_does_not_show_is_what_was_measured_another_time() {
    let stage = Stage::new(Runtime::Pocl);
    let trace = stage.trace("t").display().to_string();
    let app = clscope_tests::artifacts().fixture("stream").display().to_string();
    let all = ["record", "-q", "-o", &trace, "--device-timing", "event", "--sensors", "off"];
    stage.clscope(all).args(["--", &app, "1", "1000000"]).run().success();
    let mut spans = spans(&stage);
    spans.retain(|span| span.2 == "paced");
    // A hundred readings while one launch runs: no rest is seen.
    let (first, last) = (spans[0].0 + 1e6, spans[0].1 - 1e6);
    let all = counted(&spans, |_| 35.0, 5.0);
    let mut next = first;
    let shown = |line: &&str| {
        let at = reading(line).map(|(at, _)| at as f64);
        let wanted = at.is_none_or(|at| at >= next && at <= last);
        if let Some(at) = at.filter(|_| wanted) {
            next = at + (last - first) / 100.0;
        }
        wanted
    };
    let lines: Vec<&str> = all.lines().filter(shown).collect();
    std::fs::write(stage.join("readings"), lines.join("\n") + "\n").unwrap();
    let readings = stage.join("readings").display().to_string();
    let device = |floor: &str| energy_of(&stage, &["--readings", &readings, "--idle-power", floor]);
    let notes = |device: &Value| device["notes"].to_string();
    let alone = device("run");
    assert!(alone["floors"][0]["watts"].is_null(), "{alone:#}");
    assert!(notes(&alone).contains("the device was never idle"), "{alone:#}");
    // Given in watts, or by the idle states of a device.
    let idle = serde_json::json!({
        "states": [{"watts": {"value": 5.0, "low": 4.9, "high": 5.1, "estimated": true},
            "clock_mhz": null, "hold_ns": null}],
        "watched_ns": 3e9,
        "runs": 3,
    });
    let parameters = |name: &Value| {
        serde_json::json!({
            "schema": "clscope-device/3", "name": name, "platform": "any", "driver": "any",
            "kind": "cpu", "date": "2026-01-02", "version": "0.1.0", "quick": true,
            "compute_units": 1, "lanes": null, "capability": null, "power_source": "any",
            "parameters": {}, "links": [], "idle": idle, "energy": null, "absent": {},
        })
    };
    let file = stage.join("device.json");
    std::fs::write(&file, parameters(&"another".into()).to_string()).unwrap();
    let with = device(&file.display().to_string());
    assert!(
        notes(&with).contains("is not used for this device, because it is of another"),
        "{with:#}"
    );
    assert!(with["floors"][0]["watts"].is_null(), "{with:#}");
    std::fs::write(&file, parameters(&alone["device"]).to_string()).unwrap();
    for floor in ["5", &file.display().to_string()] {
        let with = device(floor);
        assert_conserved(&with);
        assert!(notes(&with).contains("idle power of 5.0 W is from"), "{with:#}");
        let watts = &with["floors"][0]["watts"];
        assert!(number(&watts["low"]) <= 5.0 && number(&watts["high"]) >= 5.0, "{watts}");
        // Another day's floor is known to a watt or so.
        assert!(number(&watts["high"]) - number(&watts["low"]) > 1.5, "{watts}");
    }
    for (wrong, words) in [("-3", "no idle power"), ("absent.json", "cannot read")] {
        let refused = stage.clscope(["report", &trace, &format!("--idle-power={wrong}")]).run();
        assert_eq!(refused.status.code(), Some(2), "{wrong}");
        assert!(refused.stderr.contains(words), "{wrong}: {}", refused.stderr);
    }
}

#[test]
fn readings_of_a_known_truth_give_it_back() {
    let stage = Stage::new(Runtime::Pocl);
    record(&stage, &["--sensors", "off"], &["4000"]);
    let spans = spans(&stage);
    let truth = |name: &str| if name == "alpha" { 35.0 } else { 14.0 };
    std::fs::write(stage.join("readings"), counted(&spans, truth, 5.0)).unwrap();
    let readings = stage.join("readings").display().to_string();
    let device =
        energy(&stage, &["--readings", &readings, "--iteration-kernel", "beta"])["devices"][0]
            .clone();
    assert_conserved(&device);
    for name in ["alpha", "beta"] {
        let class = device["classes"]
            .as_array()
            .unwrap()
            .iter()
            .find(|c| c["name"] == name)
            .unwrap()
            .clone();
        let watts = &class["watts"];
        let error = number(&watts["value"]) / truth(name) - 1.0;
        assert!(error.abs() < 0.02, "{name}: {class}");
        let own: Vec<f64> = spans.iter().filter(|s| s.2 == name).map(|s| s.1 - s.0).collect();
        let joules = truth(name) * own.iter().sum::<f64>() / own.len() as f64 * 1e-9;
        assert!(
            (number(&class["joules_per_launch"]["value"]) / joules - 1.0).abs() < 0.02,
            "{name}: {class}, not {joules} J"
        );
        assert_eq!(number(&class["launches"]), own.len() as f64);
        assert!(class["why"].is_null(), "{class}");
    }
    let floor = number(&device["floors"][0]["watts"]["value"]);
    assert!((floor / 5.0 - 1.0).abs() < 0.05, "floor {floor}");
    let iterations = spans.iter().filter(|s| s.2 == "beta").count();
    assert!(
        device["iteration"]["iterations"].as_u64().is_some_and(|n| n as usize >= iterations / 2),
        "{}",
        device["iteration"]
    );
    // The same figures on the timeline: joules of each span, and a track of watts.
    let out = stage.join("p.json").display().to_string();
    let trace = stage.trace("t").display().to_string();
    let more = ["--flop", "alpha=7e6", "--iteration-kernel", "beta"];
    stage
        .clscope(["export", "chrome", &trace, "--readings", &readings, "-o", &out])
        .args(more)
        .run()
        .success();
    let document: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    let alpha =
        events.iter().find(|e| e["name"] == "alpha" && e["cat"] == "device,kernel").unwrap();
    let want = 35.0 * number(&alpha["dur"]) * 1e-6;
    assert!((number(&alpha["args"]["energy_J"]) / want - 1.0).abs() < 0.02, "{alpha}");
    assert!(
        (number(&alpha["args"]["energy_delay_Js"]) / (want * number(&alpha["dur"]) * 1e-6) - 1.0)
            .abs()
            < 0.02,
        "{alpha}"
    );
    assert!(
        (number(&alpha["args"]["GFLOP_per_s_per_W"]) / (7e-3 / want) - 1.0).abs() < 0.02,
        "{alpha}"
    );
    // Joules from one beta to the next are beta's to show.
    let beta = events.iter().find(|e| e["name"] == "beta" && e["cat"] == "device,kernel").unwrap();
    let iteration = &device["iteration"]["joules"]["value"];
    assert!(
        (number(&beta["args"]["iteration_energy_J"]) / number(iteration) - 1.0).abs() < 1e-3,
        "{beta}"
    );
    assert!(
        alpha["args"]["iteration_energy_J"].is_null()
            && beta["args"]["GFLOP_per_s_per_W"].is_null(),
        "{alpha} {beta}"
    );
    assert!(events.iter().any(|e| e["ph"] == "C" && number(&e["args"]["W"]) > 10.0));
    // A part of the run, and CSV. Seconds count from its beginning: how long kernels take to
    // compile is the machine's affair.
    let first = 1e-9 * (spans[0].0 - number(&document["otherData"]["origin_ns"]));
    let window = format!("{}..{}", first + 0.5, first + 2.5);
    let part = energy_of(&stage, &["--readings", &readings, "--window", &window]);
    assert!((1e-9 * number(&part["time_ns"]) - 2.0).abs() < 0.2, "{}", part["time_ns"]);
    let csv = stage
        .clscope([
            "report",
            &trace,
            "--format",
            "csv",
            "--section",
            "energy",
            "--readings",
            &readings,
        ])
        .run()
        .success()
        .stdout;
    assert!(
        csv.lines().next().is_some_and(|l| l.starts_with("section,name,kind,device,formula")),
        "{csv}"
    );
    assert!(csv.contains("energy,alpha,kernel") && csv.contains("unattributed"), "{csv}");
}

#[test]
fn one_kernel_that_draws_differently_at_two_places_has_joules_for_each() {
    let stage = Stage::new(Runtime::Pocl);
    record(&stage, &["--sensors", "off", "--call-sites"], &["4000", "/", "one"]);
    let spans = spans(&stage);
    let truth = |name: &str| {
        if name.starts_with("alpha @ first_place (two_powers.c:") { 35.0 } else { 14.0 }
    };
    std::fs::write(stage.join("readings"), counted(&spans, truth, 5.0)).unwrap();
    let readings = stage.join("readings").display().to_string();
    let device = energy_of(&stage, &["--readings", &readings, "--by", "call-site"]);
    assert_conserved(&device);
    let classes: Vec<&Value> =
        device["classes"].as_array().unwrap().iter().filter(|c| c["kind"] == "kernel").collect();
    assert_eq!(classes.len(), 2, "{device}");
    for class in classes {
        let name = class["name"].as_str().unwrap();
        assert!(name.contains("_place (two_powers.c:"), "{name}");
        assert!((number(&class["watts"]["value"]) / truth(name) - 1.0).abs() < 0.02, "{class}");
        let own: Vec<f64> = spans.iter().filter(|s| s.2 == name).map(|s| s.1 - s.0).collect();
        let joules = truth(name) * own.iter().sum::<f64>() / own.len() as f64 * 1e-9;
        let per_launch = &class["joules_per_launch"];
        assert!(
            (number(&per_launch["value"]) / joules - 1.0).abs() < 0.02,
            "{class}, not {joules} J"
        );
        assert!(
            number(&per_launch["low"]) <= number(&per_launch["value"])
                && number(&per_launch["value"]) <= number(&per_launch["high"]),
            "{class}"
        );
        assert_eq!(number(&class["launches"]), own.len() as f64);
    }
    // By kernel it is one, with the mean of both.
    let device = energy_of(&stage, &["--readings", &readings]);
    assert_eq!(
        device["classes"].as_array().unwrap().iter().filter(|c| c["kind"] == "kernel").count(),
        1,
        "{device}"
    );
}

#[test]
fn recorded_readings_can_stand_for_sensors_while_recording() {
    let stage = Stage::new(Runtime::Pocl);
    let mut text = "#clscope-readings 1\ndomain,0,power,pkg,0,meter\n".to_owned();
    for i in 0..1000u64 {
        text.push_str(&format!(
            "0,{},{},{}\n",
            1_000_000 + i * 10_000_000,
            1_000_100 + i * 10_000_000,
            7_000_000 + i % 3
        ));
    }
    std::fs::write(stage.join("readings"), text).unwrap();
    let readings = stage.join("readings").display().to_string();
    record(&stage, &["--readings", &readings], &["300"]);
    let dump = stage
        .clscope(["report", &stage.trace("t").display().to_string(), "--format", "json"])
        .run()
        .success()
        .stdout;
    let report: Value = serde_json::from_str(&dump).unwrap();
    // Power is no energy counter of a package: it is told that nothing speaks of the processor.
    assert!(
        report["energy"]["absent"].as_str().is_some_and(|why| why.contains("PKG")),
        "{}",
        report["energy"]
    );
    let wrong = stage.clscope(["record", "--readings", "/nonexistent", "--", "true"]).run();
    assert_ne!(wrong.status.code(), Some(0));
    assert!(wrong.stderr.contains("/nonexistent"), "{}", wrong.stderr);
}
