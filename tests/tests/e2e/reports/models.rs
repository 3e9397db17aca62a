//! What the models say of real applications: explanations, rooflines and predictions rest on
//! figures of the trace and of the device, documents keep to their schemas, and another device's
//! parameters are refused. Refuses to judge times.

use crate::exports::perfetto::face_detection;
use clscope_tests::{Mode, Recorded, Run, Runtime, Stage, artifacts};
use serde_json::Value;
use std::path::Path;

/// The command, with device parameters in the test's own folder.
fn clscope(stage: &Stage, line: &str) -> Run {
    stage.clscope(line.split_whitespace()).env("XDG_CACHE_HOME", stage.join("cache"))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn texts<'v>(of: &'v Value, topic: &str) -> Vec<&'v str> {
    let all = of["statements"].as_array().unwrap().iter();
    all.filter(|s| s["topic"] == topic).map(|s| s["text"].as_str().unwrap()).collect()
}

/// The only file below a folder of parameters.
fn kept(stage: &Stage) -> std::path::PathBuf {
    let folder = stage.join("cache/clscope/models");
    let mut found: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn without_any_parameter_a_trace_is_explained_by_what_it_holds() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        stage.app(Mode::Record, "t", "linked 200").run().success();
        let of = json(&clscope(&stage, "explain t.clscope --format json").run().success().stdout);
        let device = &of["devices"][0];
        let kernel = &device["kernels"][0];
        let report =
            json(&clscope(&stage, "report t.clscope --format json").run().success().stdout);
        assert_eq!(kernel["launches"], report["kernels"][0]["count"]);
        // To the last bits: one of them was seconds before.
        let [explained, reported] =
            [&kernel["time_ns"]["value"], &report["kernels"][0]["time_ns"]["mean"]]
                .map(|ns| ns.as_f64().unwrap());
        assert!((explained / reported - 1.0).abs() < 1e-12, "{explained} for {reported}");
        assert!(kernel["items"].as_u64().unwrap() > 0, "{kernel}");
        // A cause is named, by what such devices typically do, and never for certain.
        assert!(kernel["limit"].is_string() && kernel["sure"] == "likely", "{kernel}");
        assert!(!texts(kernel, "verdict").is_empty() && kernel["reached"].is_null(), "{kernel}");
        let missing = device["missing"].to_string() + &kernel["missing"].to_string();
        assert!(missing.contains("clscope bench model") && missing.contains("--mix"), "{missing}");
        let read = device["transfers"].as_array().unwrap();
        assert!(read.iter().any(|t| t["count"].as_u64().unwrap() > 0), "{read:?}");
        let text = clscope(&stage, "explain t.clscope").run().success().stdout;
        assert!(text.contains("not known") && text.contains("[measured]"), "{text}");
        let none = clscope(&stage, "explain t.clscope no_such_kernel").run();
        assert!(!none.status.success() && none.stderr.contains("no kernel"), "{}", none.stderr);
    }
}

/// A runtime that compiles a kernel when it is first launched: savings and times are of the launches
/// after it, and what the first took longer is said by itself.
#[test]
fn a_first_launch_that_takes_much_longer_is_told_apart() {
    let stage = Stage::new(Runtime::FakeDriver);
    std::fs::write(stage.join("script"), "span 200000\nbusy 25000000\nauto\n").unwrap();
    let run = stage.app(Mode::Record, "t", "linked 10").env("FAKE_CL_SCRIPT", stage.join("script"));
    run.run().success();
    let of = json(&clscope(&stage, "explain t.clscope --format json").run().success().stdout);
    let kernel = &of["devices"][0]["kernels"][0];
    assert_eq!(kernel["launches"], 10, "{kernel}");
    let mean = kernel["time_ns"]["value"].as_f64().unwrap();
    // What the device's clock said.
    let recorded = Recorded::read(&[&stage.trace("t")]);
    let launches = recorded.processes[0].commands.iter().filter(|c| c.kernel.is_some());
    let lengths: Vec<f64> =
        launches.map(|c| c.raw().unwrap()).map(|[_, _, start, end]| (end - start) as f64).collect();
    let (first, later) = (lengths[0], &lengths[1..]);
    let all = lengths.iter().sum::<f64>() / lengths.len() as f64;
    assert!((mean / all - 1.0).abs() < 1e-3, "all of them: {kernel}, {lengths:?}");
    let apart = &kernel["first_launches"];
    assert_eq!(apart["launches"], 1, "{kernel}");
    let least = later.iter().copied().fold(f64::INFINITY, f64::min) - 1.0;
    let most = later.iter().copied().fold(0.0, f64::max) + 1.0;
    let typical = apart["later_ns"]["value"].as_f64().unwrap();
    assert!((least..=most).contains(&typical), "{apart}, {lengths:?}");
    let excess = apart["excess_ns"]["value"].as_f64().unwrap();
    assert!((first - most..=first - least).contains(&excess), "{apart}, {lengths:?}");
    let said = texts(kernel, "launch");
    let longer = " ms longer than those after";
    assert!(said[0].starts_with("the first launch took 2") && said[0].contains(longer), "{said:?}");
    let text = clscope(&stage, "explain t.clscope").run().success().stdout;
    assert!(text.contains("10 launches of 2") && text.contains(" ms with the first)"), "{text}");
    let twice = "what-if t.clscope add --global 2x --format json";
    let twice = json(&clscope(&stage, twice).run().success().stdout);
    let measured = twice["predictions"][0]["measured_time_ns"]["value"].as_f64().unwrap();
    assert!((least..=most).contains(&measured), "{twice}, {lengths:?}");
}

#[test]
fn names_and_figures_of_kernels_are_asked_for_alike() {
    let stage = Stage::new(Runtime::FakeDriver);
    stage.app(Mode::Record, "t", "linked 3").run().success();
    // A part of the name, the newest trace.
    for command in ["explain ector_a", "mix ector_a", "explain t or_add", "mix t or_add"] {
        let text = clscope(&stage, command).run().success().stdout;
        assert!(text.contains("vector_add"), "{command}: {text}");
    }
    for command in ["explain none", "mix none"] {
        let refused = clscope(&stage, command).run();
        let why = "no kernel of the trace is called none, and no trace either";
        assert!(!refused.status.success() && refused.stderr.contains(why), "{}", refused.stderr);
    }
    let with = |command: &str, more: &[&str]| clscope(&stage, command).args(more).run();
    for (command, more) in [
        ("explain t", vec![""]),
        ("mix t", vec![""]),
        ("what-if t", vec!["", "--global", "2x"]),
        ("roofline t -o r.svg --name", vec![""]),
        ("report t --name", vec![""]),
    ] {
        let refused = with(command, &more);
        let why = "a value is required";
        assert!(!refused.status.success() && refused.stderr.contains(why), "{}", refused.stderr);
    }
    for (option, what) in [("--bytes", "the bytes that one launch"), ("--flop", "the operations")] {
        let refused = with("explain t", &[option, "add=abc"]);
        assert!(!refused.status.success() && refused.stderr.contains(what), "{}", refused.stderr);
    }
    stage.app(Mode::Record, "one", "linked 1").run().success();
    let drawn = with("roofline one -o r.json --flop add=1 --bytes add=12", &[]).success();
    assert!(drawn.stderr.contains("1 dot of 1 kernel, 0 ceilings"), "{}", drawn.stderr);
}

#[test]
fn watching_idle_states_takes_no_option_of_measuring_a_model() {
    let stage = Stage::new(Runtime::Pocl);
    let refused = clscope(&stage, "bench idle --quick").run();
    assert!(!refused.status.success());
    assert!(
        refused.stderr.contains("--quick is an option of `clscope bench model`"),
        "{}",
        refused.stderr
    );
    assert!(!stage.join("cache").exists(), "nothing was kept");
}

#[test]
fn a_face_detection_is_explained_kernel_by_kernel() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(()) = face_detection(&stage) else { return };
    let of =
        json(&clscope(&stage, "explain t.clscope --format json --limit 0").run().success().stdout);
    let kernels = of["devices"][0]["kernels"].as_array().unwrap();
    assert!(kernels.len() > 3);
    let shares: f64 = kernels.iter().map(|k| k["share"].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let times: Vec<f64> = kernels
        .iter()
        .map(|k| k["time_ns"]["value"].as_f64().unwrap() * k["launches"].as_f64().unwrap())
        .collect();
    assert!(times.windows(2).all(|w| w[0] >= w[1] * (1.0 - 1e-9)), "longest first: {times:?}");
    let one = json(
        &clscope(&stage, "explain t.clscope --format json --by ndrange --limit 0")
            .run()
            .success()
            .stdout,
    );
    assert!(one["devices"][0]["kernels"].as_array().unwrap().len() >= kernels.len());
}

/// Parameters that `clscope bench model --quick --format json` measured once, made those of the device
/// that a trace is of: measuring again is `tools/bench/model.sh`'s.
fn measured_parameters(recorded: &Recorded) -> Value {
    let definitions = &recorded.only().definitions;
    let device = definitions.devices.values().next().expect("the device of the trace");
    let path = artifacts::root().join("tests/fixtures/device.json");
    let mut measured = json(&std::fs::read_to_string(path).unwrap());
    measured["name"] = device.name.as_str().into();
    measured["driver"] = device.driver.as_str().into();
    measured["platform"] = definitions.platforms[&device.platform].name.as_str().into();
    measured
}

/// A device's parameters bound what is recorded, draw ceilings, and are refused for another device.
#[test]
fn measured_parameters_bound_explain_draw_and_predict() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "linked 50").run().success();
    let measured = measured_parameters(&Recorded::read(&[&stage.trace("t")]));
    assert_eq!(measured["schema"], "clscope-device/4");
    assert!(measured["absent"]["idle"].is_string() && measured["energy"].is_null());
    std::fs::write(stage.join("measured.json"), measured.to_string()).unwrap();
    clscope(&stage, "bench model --parameters measured.json").run().success();
    let file = kept(&stage);
    assert_eq!(json(&std::fs::read_to_string(&file).unwrap()), measured);
    let shown = clscope(&stage, "bench model --show").run().success().stdout;
    assert!(shown.contains("bandwidth.dram") && shown.contains("absent"), "{shown}");

    let stated = "--flop add=4096 --bytes add=49152";
    let of = json(
        &clscope(&stage, &format!("explain t.clscope --format json {stated}"))
            .run()
            .success()
            .stdout,
    );
    let kernel = &of["devices"][0]["kernels"][0];
    let bounds = kernel["bounds"].as_array().unwrap();
    let dram = bounds.iter().find(|b| b["resource"] == "memory_if_missed").unwrap();
    let bandwidth = measured["parameters"]["bandwidth.dram"]["value"].as_f64().unwrap();
    let bytes = kernel["requested_bytes"]["value"].as_f64();
    if let Some(bytes) = bytes {
        assert!(
            (dram["time_ns"]["value"].as_f64().unwrap() * bandwidth / bytes - 1.0).abs() < 1e-9
        );
    }
    assert!(!texts(kernel, "bounds").is_empty(), "{kernel}");
    // The verdict names a cause and how sure it is; the numbers behind are shown on request.
    let verdict = texts(kernel, "verdict");
    assert!(kernel["limit"].is_string() && kernel["sure"].is_string(), "{verdict:?}");
    assert!(kernel["reached"].as_f64().is_none_or(|r| r <= 1.0), "{kernel}");
    let shown = |more: &str| {
        clscope(&stage, &format!("explain t.clscope {stated} {more}")).run().success().stdout
    };
    let (few, all) = (shown(""), shown("--all"));
    assert!(few.contains("  =>") && !few.contains("  bounds"), "{few}");
    assert!(all.contains("  =>") && all.contains("  bounds"), "{all}");

    // The page shows the same bounds.
    let page = clscope(&stage, "report t.clscope --format html -o r.html --parameters").arg(&file);
    page.run().success();
    let page = std::fs::read_to_string(stage.join("r.html")).unwrap();
    let shown = page.split("<th>Bound by</th>").nth(1).expect("a table of bounds");
    let shown = shown.split("</table>").next().unwrap();
    let of = json(&clscope(&stage, "explain t.clscope --format json").run().success().stdout);
    let launch = of["devices"][0]["kernels"][0]["bounds"].as_array().unwrap();
    assert!(!launch.is_empty(), "{of}");
    let exact: Vec<f64> = shown
        .split("data-v=\"")
        .skip(1)
        .map(|c| c.split('"').next().unwrap().parse().unwrap())
        .collect();
    let want: Vec<f64> = launch.iter().map(|b| b["time_ns"]["value"].as_f64().unwrap()).collect();
    assert!(
        exact.len() == want.len()
            && exact.iter().zip(&want).all(|(a, b)| (a / b - 1.0).abs() < 1e-12),
        "{exact:?} {want:?}"
    );

    let draw = |name: &str| {
        let drawn = clscope(&stage, &format!("roofline t.clscope {stated} -o {name}")).run();
        drawn.success();
        std::fs::read_to_string(stage.join(name)).unwrap()
    };
    let picture = draw("roof.svg");
    assert!(picture.contains("DRAM") && picture.contains("<circle"), "{picture}");
    assert!(draw("roof.html").contains("</html>"));
    let roof = json(&draw("roof.json"));
    assert!(clscope_testing::schema::text_breaches(&roof.to_string()).is_empty());
    assert_eq!(roof["points"].as_array().unwrap().len(), 1, "{roof}");
    let other = clscope(&stage, "roofline t.clscope -o roof.gif").run();
    assert!(!other.status.success() && other.stderr.contains(".svg"), "{}", other.stderr);
    let energy = clscope(&stage, &format!("roofline t.clscope --energy {stated} -o e.svg")).run();
    assert!(!energy.status.success() && energy.stderr.contains("joules"), "{}", energy.stderr);

    let twice = json(
        &clscope(&stage, &format!("what-if t.clscope add --global 2x --format json {stated}"))
            .run()
            .success()
            .stdout,
    );
    let p = &twice["predictions"][0];
    let of = |which: &str, end: &str| p[which][end].as_f64().unwrap();
    assert!(of("time_ns", "value") > of("measured_time_ns", "value"), "{p}");
    assert!(of("time_ns", "low") <= of("time_ns", "value"), "{p}");
    assert!(p["joules"].is_null() && p["missing"].to_string().contains("joules"), "{p}");
    let nothing = clscope(&stage, "what-if t.clscope add").run();
    assert!(nothing.stderr.contains("nothing is to change"), "{}", nothing.stderr);
    other_devices(&stage, &file);
}

/// Files that are not this device's.
fn other_devices(stage: &Stage, file: &Path) {
    let text = std::fs::read_to_string(file).unwrap();
    let mut of = json(&text);
    of["driver"] = "0.0".into();
    std::fs::write(stage.join("driver.json"), of.to_string()).unwrap();
    of["name"] = "../Another".into();
    std::fs::write(stage.join("device.json"), of.to_string()).unwrap();
    std::fs::write(stage.join("damaged.json"), &text[..text.len() / 2]).unwrap();
    let explain = |file: &str, more: &str| {
        clscope(stage, &format!("explain t.clscope --parameters {file} {more}")).run()
    };
    for (file, why) in [
        ("driver.json", "under driver 0.0"),
        ("device.json", "Another"),
        ("damaged.json", "no file of device parameters"),
    ] {
        let refused = explain(file, "");
        assert!(!refused.status.success() && refused.stderr.contains(why), "{}", refused.stderr);
    }
    explain("driver.json", "--force").success();
    // A kept file of another driver is told and left out.
    std::fs::copy(stage.join("driver.json"), file).unwrap();
    let told = clscope(stage, "explain t.clscope").run().success();
    assert!(told.stderr.contains("not using"), "{}", told.stderr);
    assert!(told.stdout.contains("not measured"), "{}", told.stdout);
    // Another machine's device has its place beside it, inside the cache.
    clscope(stage, "bench model --parameters device.json").run().success();
    let beside = std::fs::read_dir(file.parent().unwrap()).unwrap().count();
    assert_eq!(beside, 2);
    assert!(!stage.join("cache/Another.json").exists());
    let on = clscope(stage, "what-if t.clscope add --on device.json").run();
    assert!(!on.status.success() && on.stderr.contains("cannot predict"), "{}", on.stderr);
}
