//! Where launches come from (`--call-sites`): kernels by the place in the application that launched
//! them, in threads, forked children, plugins that come and go, frames of varying size, Python; and
//! that nothing else changes.

use clscope_tests::{Mode, Recorded, Runtime, Stage, artifacts};
use std::collections::BTreeMap;

/// Launches by place, as `report --by call-site` gives them.
fn places(stage: &Stage) -> BTreeMap<String, u64> {
    let report = stage
        .clscope(["report", "t.clscope", "--by", "call-site", "--format", "json"])
        .run()
        .success();
    let report: serde_json::Value =
        serde_json::from_str(&report.stdout).expect("the report is JSON");
    let kernels = report["kernels"].as_array().expect("a list of kernels");
    kernels
        .iter()
        .map(|k| (k["name"].as_str().unwrap().to_owned(), k["count"].as_u64().unwrap()))
        .collect()
}

/// Launches whose place begins so.
fn at(places: &BTreeMap<String, u64>, place: &str) -> u64 {
    places
        .iter()
        .filter(|(name, _)| name.starts_with(&format!("noop @ {place}")))
        .map(|(_, n)| n)
        .sum()
}

#[track_caller]
fn run(stage: &Stage, mode: Mode, frames: &str, line: &str) -> BTreeMap<String, u64> {
    stage.forget("t");
    stage.app(mode, "t", line).env("CLSCOPE_CALL_SITES", frames).run().success();
    let out = places(stage);
    let all: u64 = out.values().sum();
    let recorded = Recorded::read(&[&stage.trace("t")]);
    assert_eq!(all as usize, recorded.launches(), "{out:?}");
    out
}

#[test]
fn a_kernel_launched_from_several_functions() {
    for runtime in Runtime::real() {
        for mode in [Mode::Preload, Mode::Layer, Mode::Audit, Mode::Record] {
            let stage = Stage::new(runtime.clone());
            let found = run(&stage, mode, "1", "call_sites places 20");
            // 20 more from a second thread.
            let counts = [
                "first_place (call_sites.c:",
                "second_place (call_sites.c:",
                "shared_place (call_sites.c:",
            ]
            .map(|p| at(&found, p));
            assert_eq!(counts, [40, 40, 140], "{mode:?}: {found:?}");
            assert_eq!(found.len(), 3, "{mode:?}: {found:?}");
        }
    }
}

#[test]
fn callers_of_a_shared_function_are_told_apart_by_more_frames() {
    let stage = Stage::new(Runtime::Pocl);
    let found = run(&stage, Mode::Preload, "2", "call_sites places 20");
    let through = |caller: &str| {
        found
            .iter()
            .filter(|(name, _)| name.contains("shared_place") && name.contains(caller))
            .map(|(_, n)| n)
            .sum::<u64>()
    };
    assert_eq!((through("< third_place"), through("< fourth_place")), (60, 80), "{found:?}");
    let thread = |caller: &str| {
        found
            .iter()
            .filter(|(name, _)| name.contains("first_place") && name.contains(caller))
            .map(|(_, n)| n)
            .sum::<u64>()
    };
    assert_eq!((thread("< places"), thread("< second_thread")), (20, 20), "{found:?}");
}

#[test]
fn lines_of_one_function_are_places_of_their_own() {
    let stage = Stage::new(Runtime::Pocl);
    let found = run(&stage, Mode::Preload, "1", "call_sites lines 20");
    let mut counts: Vec<u64> = found.values().copied().collect();
    counts.sort_unstable();
    assert_eq!((counts, at(&found, "three_lines")), (vec![20, 40, 60], 120), "{found:?}");
}

#[test]
fn an_inlined_wrapper_is_shown_with_the_function_that_uses_it() {
    let stage = Stage::new(Runtime::Pocl);
    let found = run(&stage, Mode::Preload, "1", "call_sites inlined 20");
    let through = |caller: &str| {
        let through = |name: &String| {
            name.contains(", inlined) < ") && name.contains(&format!("< {caller} (call_sites.c:"))
        };
        found.iter().filter(|(name, _)| through(name)).map(|(_, n)| n).sum::<u64>()
    };
    assert_eq!(
        (through("fifth_place"), through("sixth_place"), at(&found, "wrapper (call_sites.c:")),
        (20, 40, 60),
        "{found:?}"
    );
}

#[test]
fn frames_that_vary_in_size_and_depth() {
    let stage = Stage::new(Runtime::Pocl);
    let found = run(&stage, Mode::Preload, "3", "call_sites varying 210");
    assert_eq!((at(&found, "varying_frame"), at(&found, "recursion")), (210, 210), "{found:?}");
    // Depths 0, 1 and 2 or more differ within three frames.
    let recursions: Vec<u64> =
        found.iter().filter(|(name, _)| name.contains("@ recursion")).map(|(_, n)| *n).collect();
    assert_eq!((recursions.len(), recursions.iter().sum::<u64>()), (3, 210), "{found:?}");
}

#[test]
fn a_forked_child_has_places_of_its_own() {
    let stage = Stage::new(Runtime::FakeLoader);
    let found = run(&stage, Mode::Preload, "1", "call_sites fork 10");
    assert_eq!(
        (at(&found, "first_place"), at(&found, "second_place"), at(&found, "shared_place")),
        (20, 40, 140),
        "{found:?}"
    );
    let recorded = Recorded::read(&[&stage.trace("t")]);
    assert_eq!(recorded.processes.len(), 2);
    assert!(
        recorded.processes.iter().all(|p| p.definitions.call_sites.len() >= 3),
        "each names its own"
    );
}

/// The second plugin mostly lies where the first one lay, and its call returns to the same address.
#[test]
fn plugins_that_take_each_others_place() {
    let stage = Stage::new(Runtime::Pocl);
    let plugins = ["one", "two"]
        .map(|n| artifacts().fixture(&format!("plugin_{n}.so")).display().to_string());
    let line = format!("call_sites plugins {} {} 4 10", plugins[0], plugins[1]);
    let found = run(&stage, Mode::Preload, "1", &line);
    assert_eq!(
        (
            at(&found, "place_in_one (call_sites_plugin.c:"),
            at(&found, "place_in_two (call_sites_plugin.c:")
        ),
        (40, 40),
        "{found:?}"
    );
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_module_of_another_build_is_not_guessed_at() {
    let stage = Stage::new(Runtime::Pocl);
    let plugin = stage.join("plugin.so");
    std::fs::copy(artifacts().fixture("plugin_one.so"), &plugin).unwrap();
    let line = format!("call_sites plugins {0} {0} 1 5", plugin.display());
    assert_eq!(at(&run(&stage, Mode::Preload, "1", &line), "place_in_one"), 10);
    std::fs::remove_file(&plugin).unwrap();
    std::fs::copy(artifacts().fixture("plugin_two.so"), &plugin).unwrap();
    let found = places(&stage);
    assert_eq!(at(&found, "plugin.so+0x"), 10, "{found:?}");
    let report = stage.clscope(["report", "t.clscope", "--by", "call-site"]).run().success();
    assert!(report.stderr.contains("another build"), "{}", report.stderr);
}

#[test]
fn dump_and_timeline_show_the_place() {
    let stage = Stage::new(Runtime::Pocl);
    run(&stage, Mode::Preload, "2", "call_sites places 2");
    let dump = stage.clscope(["dump", "t.clscope"]).run().success().stdout;
    assert!(
        dump.lines()
            .any(|l| l.contains("kernel=noop") && l.contains(" from shared_place (call_sites.c:")),
        "{dump}"
    );
    stage.clscope(["export", "chrome", "t.clscope", "-o", "t.json"]).run().success();
    let timeline: serde_json::Value =
        serde_json::from_slice(&std::fs::read(stage.join("t.json")).unwrap()).unwrap();
    let events = timeline["traceEvents"].as_array().unwrap();
    let from =
        events.iter().filter_map(|e| e["args"]["called_from"].as_array()).filter(|f| f.len() == 2);
    assert!(
        from.filter(|f| f[0].as_str().unwrap().starts_with("second_place")).count() >= 4,
        "spans have it"
    );
}

#[test]
fn without_the_option_nothing_is_recorded() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Preload, "t", "call_sites places 2").run().success();
    let recorded = Recorded::read(&[&stage.trace("t")]);
    assert!(
        recorded.only().definitions.call_sites.is_empty()
            && recorded.only().definitions.modules.is_empty()
    );
    let report = stage.clscope(["report", "t.clscope", "--by", "call-site"]).run().success();
    assert!(report.stderr.contains("--call-sites"), "{}", report.stderr);
}

#[test]
fn the_option_of_record() {
    let stage = Stage::new(Runtime::Pocl);
    let app = artifacts().fixture("call_sites");
    let app = app.to_str().unwrap();
    stage
        .clscope([
            "record",
            "-q",
            "-f",
            "-o",
            "t.clscope",
            "--call-sites=2",
            "--",
            app,
            "places",
            "5",
        ])
        .run()
        .success();
    assert_eq!(places(&stage).len(), 5);
}
