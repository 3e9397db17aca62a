//! Launches that the recorder repeats: the application notices nothing, and kernels that always run
//! in the same proportions have joules of their own. Sensors are recorded readings whose truth is
//! known.

use super::energy::{Span, assert_conserved, counted, energy_of, flat, number, spans};
use clscope_tests::{Mode, Runtime, Stage};
use serde_json::Value;

#[test]
fn replays_leave_everything_as_it_was_and_give_joules() {
    let stage = Stage::new(Runtime::Pocl);
    let bare =
        stage.app(Mode::Bare, "b", "accumulate").args(["3", "assign"]).run().success().stdout;
    let app = clscope_tests::artifacts().fixture("accumulate").display().to_string();
    let trace = stage.trace("t").display().to_string();
    // A flat power: every launch draws 10 W for as long as it takes.
    let record = [
        "record",
        "-q",
        "-o",
        &trace,
        "--sensors",
        "off",
        "--device-timing",
        "event",
        "--replay",
        "6:60",
        "--",
        &app,
        "3",
        "assign",
    ];
    assert_eq!(stage.clscope(record).run().success().stdout, bare, "the buffer was not restored");
    let spans = spans(&stage);
    assert_eq!(
        spans.iter().filter(|s| s.2 == "accumulate").count(),
        3,
        "replays are no launches of the application"
    );
    let (first, last) = (spans[0].0 - 4e9, spans[spans.len() - 1].1 + 1e9);
    std::fs::write(stage.join("readings"), flat(first, last, 10.0)).unwrap();
    let readings = stage.join("readings").display().to_string();
    let device = energy_of(&stage, &["--readings", &readings, "--flop", "accumulate=1e6"]);
    let replays = device["replays"].as_array().unwrap();
    let of = |name: &str| {
        replays.iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("{replays:?}")).clone()
    };
    let accumulate = of("accumulate");
    assert_eq!(
        (accumulate["failed"].as_str(), accumulate["saved_bytes"].as_u64()),
        (None, Some(256)),
        "{accumulate}"
    );
    assert!((number(&accumulate["watts"]["value"]) / 10.0 - 1.0).abs() < 0.02, "{accumulate}");
    assert!(
        accumulate["launches"].as_u64() >= Some(6) && accumulate["batches"] == 6,
        "{accumulate}"
    );
    assert!(
        number(&accumulate["joules_per_launch"]["low"]) > 0.0
            && number(&accumulate["restored_joules"]) > 0.0,
        "{accumulate}"
    );
    // A launch that leaves what the one before left needs nothing restored between.
    let assign = of("assign");
    assert_eq!(
        (assign["failed"].as_str(), &assign["restored_joules"]),
        (None, &Value::Null),
        "{assign}"
    );
    assert!((number(&assign["watts"]["value"]) / 10.0 - 1.0).abs() < 0.02, "{assign}");
    let mut replayed = definitions(&stage);
    // Without trials that no batch followed.
    let told = |d: &Value| d["batches"] != serde_json::json!([]) || d["refused"] != "";
    replayed.retain(|definition| definition["kind"] == "Replay" && told(definition));
    let restored = |replay: &Value| {
        replay["batches"].as_array().unwrap().iter().any(|batch| batch["restores_only"] == true)
    };
    assert!(restored(&replayed[0]) && !restored(&replayed[2]), "{replayed:?}");
    let rows = device["classes"].as_array().unwrap();
    for name in ["accumulate", "assign"] {
        let row: Vec<_> = rows.iter().filter(|c| c["name"] == name).collect();
        assert_eq!(row.len(), 1, "one row a kernel: {rows:?}");
        assert!(!row[0]["joules_per_launch"].is_null(), "{}", row[0]);
    }
    assert!(!device["repetitions"].is_null(), "{device}");
    assert_conserved(&device);
    let paint = of("paint");
    assert_eq!((paint["failed"].as_str(), paint["saved_bytes"].as_u64()), (None, Some(256)));
    assert_repetitions_stand_apart(&stage, &readings);
}

#[test]
fn images_and_shared_memory_are_restored_and_what_cannot_be_is_refused() {
    let mut runtimes = vec![Runtime::Pocl];
    runtimes.extend(Runtime::intel());
    for runtime in runtimes {
        let stage = Stage::new(runtime);
        let bare = stage.app(Mode::Bare, "b", "in_place").run().success().stdout;
        assert_eq!(bare.lines().count(), 7, "{bare}");
        let app = clscope_tests::artifacts().fixture("in_place").display().to_string();
        for inject in ["preload", "layer", "preload,audit"] {
            let options = ["--sensors", "off", "--device-timing", "event", "--inject", inject];
            let mut words = vec!["record", "-f", "-o", "t", "--replay", "6:20"];
            words.extend(options);
            words.extend(["--", &*app]);
            let recorded = stage.clscope(words).run().success();
            assert_eq!(recorded.stdout, bare, "{inject}: something was not restored");
            let refused = "not repeated: fine: argument 0 points to fine-grained shared";
            let fine = !bare.contains("fine left out");
            assert_eq!(recorded.stderr.contains(refused), fine, "{}", recorded.stderr);
            let replays: Vec<Value> =
                definitions(&stage).into_iter().filter(|d| d["kind"] == "Replay").collect();
            let repeated = |d: &&Value| !d["batches"].as_array().unwrap().is_empty();
            let saved: Vec<u64> =
                replays.iter().filter(repeated).map(|d| d["saved"].as_u64().unwrap()).collect();
            // Images of 16 bytes a texel with a buffer of counts, a pair of images, shared memory.
            for (name, bytes) in [
                ("plane", 2048 + 512),
                ("layers", 2048 + 512),
                ("volume", 2048 + 512),
                ("twice", 4096),
                ("shared", 512),
                ("beside", 512),
            ] {
                let there = !bare.contains(&format!("{name} left out"));
                assert!(!there || saved.contains(&bytes), "{inject}: {name}: {saved:?}");
            }
            let apart = bare.lines().filter(|line| !line.ends_with("left out"));
            let apart = apart.filter(|line| !line.starts_with("fine")).count();
            assert_eq!(saved.len(), apart, "{inject}: {replays:#?}");
        }
        // The report says so as well, once there are joules.
        let spans = spans(&stage);
        let (first, last) = (spans[0].0 - 1e9, spans[spans.len() - 1].1 + 1e9);
        std::fs::write(stage.join("readings"), flat(first, last, 10.0)).unwrap();
        let readings = stage.join("readings").display().to_string();
        let words = ["report", "t", "--section", "energy", "--readings", &readings];
        let text = stage.clscope(words).run().success().stdout;
        let refused = "not repeated: fine: argument 0 points to fine-grained shared";
        assert_eq!(text.contains(refused), !bare.contains("fine left out"), "{text}");
    }
}

/// Shares and gaps are of the run without repetitions, and each view shows these by themselves.
fn assert_repetitions_stand_apart(stage: &Stage, readings: &str) {
    let trace = stage.trace("t").display().to_string();
    let of = |words: &[&str]| {
        let mut all = words.to_vec();
        all.extend([&*trace, "--readings", readings]);
        stage.clscope(all).run().success().stdout
    };
    let ran = |d: &Value| {
        let of = |key: &str| d[key].as_array().unwrap().clone();
        [of("batches"), of("trials")].concat()
    };
    let definitions = definitions(stage).into_iter().filter(|d| d["kind"] == "Replay");
    let batches: Vec<Value> = definitions.flat_map(|d| ran(&d)).collect();
    let times: u64 = batches.iter().map(|b| b["count"].as_u64().unwrap()).sum();
    let report: Value = serde_json::from_str(&of(&["report", "--format", "json"])).unwrap();
    let (whole, repeated) = (number(&report["duration_ns"]), number(&report["repeated_ns"]));
    assert!(0.0 < repeated && repeated < whole, "{repeated} of {whole} ns");
    let device = &report["devices"][0];
    let share = number(&device["busy_ns"]) / (whole - repeated);
    assert!((number(&device["busy_share"]["value"]) - share.min(1.0)).abs() < 1e-9, "{device}");
    let extent = number(&device["extent_ns"]);
    assert!(number(&device["busy_ns"]) <= extent && extent <= whole - repeated, "{device}");
    // The application runs launch after launch: what held it is no gap.
    let idle: f64 = report["idle"].as_array().unwrap().iter().map(|i| number(&i["time_ns"])).sum();
    assert!(idle <= whole - repeated, "{idle} ns idle of {whole}, {repeated} of repetitions");
    let page = of(&["report", "--format", "html"]);
    assert!(page.contains("of the time recorded without repetitions"), "no share without them");
    let lane = format!("(repeated)\",\"group\":\"{}\"", device["name"].as_str().unwrap());
    assert!(page.contains(&lane), "no lane of {lane}");
    let folded = of(&["export", "folded", "--weight", "energy"]);
    assert!(folded.contains(";repeated by clscope ") && !folded.contains("only as a sum: rep"));
    let json: Value = serde_json::from_str(&of(&["export", "chrome", "-o", "-"])).unwrap();
    let drawn = json["traceEvents"].as_array().unwrap().iter();
    let drawn: Vec<&Value> = drawn.filter(|e| e["cat"] == "repeated").collect();
    assert_eq!(drawn.len(), batches.len());
    let told: u64 = drawn.iter().map(|e| e["args"]["repetitions"].as_u64().unwrap()).sum();
    assert_eq!(told, times);
    let Some(processor) = clscope_tests::viewer::processor() else { return };
    of(&["export", "perfetto", "-o", "t.pftrace"]);
    let slices = "select extract_arg(s.arg_set_id, 'debug.repetitions') n from slice s join track t on s.track_id = t.id where t.name like '%: repeated by clscope'";
    let answers = clscope_tests::viewer::ask(&processor, &stage.join("t.pftrace"), &[slices]);
    let found: f64 = answers[0].iter().map(|row| number(&row["n"])).sum();
    assert_eq!((answers[0].len(), found as u64), (batches.len(), times));
}

/// The definitions of a trace.
fn definitions(stage: &Stage) -> Vec<Value> {
    let trace = stage.trace("t").display().to_string();
    let dump = stage.clscope(["dump", &trace, "--format", "json"]).run().success().stdout;
    dump.lines().map(|l| serde_json::from_str::<Value>(l).unwrap()["definition"].take()).collect()
}

/// What the recorder repeated and tried, as spans of the length that their stamps say.
fn repetitions(stage: &Stage) -> Vec<Span> {
    let definitions = definitions(stage);
    let kind = |name| definitions.iter().filter(move |d| d["kind"] == name);
    let anchor = |d: &Value| (number(&d["ticks"]), number(&d["raw"]));
    let (first, last) =
        (anchor(kind("Anchor").next().unwrap()), anchor(kind("Anchor").next_back().unwrap()));
    let at = |ticks: &Value| {
        first.1 + (number(ticks) - first.0) * (last.1 - first.1) / (last.0 - first.0)
    };
    let mut out = Vec::new();
    for replay in kind("Replay") {
        let kernel = kind("Kernel").find(|k| k["id"] == replay["kernel"]);
        let name = kernel.map_or("transfer", |k| k["name"].as_str().unwrap());
        for trial in replay["trials"].as_array().unwrap() {
            if trial["restores_only"] == false {
                out.push((at(&trial["begin"]), at(&trial["end"]), name.to_owned()));
            }
        }
        for batch in replay["batches"].as_array().unwrap() {
            let (begin, end) = (at(&batch["begin"]), at(&batch["end"]));
            let period = (end - begin) / number(&batch["count"]);
            let length = number(&replay["stamped_ns"]).min(period);
            for i in 0..batch["count"].as_u64().unwrap() {
                let begin = begin + i as f64 * period;
                out.push((begin, begin + length, name.to_owned()));
            }
        }
    }
    out
}

#[test]
fn kernels_that_always_run_in_the_same_proportions_are_told_apart_by_repetitions() {
    // On a processor that others use, launches of a kernel may last some times as long in one
    // second as in the next, and few repetitions may fit. Such a run says of itself that it was
    // disturbed.
    let disturbed: Vec<String> = (0..4).map_while(|_| repeated_frames().err()).collect();
    assert!(disturbed.len() < 4, "each run was disturbed: {disturbed:?}");
}

/// Records frames with repetitions and checks their joules. An error says why the run can judge
/// nothing.
fn repeated_frames() -> Result<(), String> {
    let stage = Stage::new(Runtime::Pocl);
    let app = clscope_tests::artifacts().fixture("frames").display().to_string();
    let trace = stage.trace("t").display().to_string();
    let frames = ["700", "0", "fixed", "finish", "in-order", "10"];
    let mut words = vec!["record", "-o", &trace, "--sensors", "off", "--device-timing", "event"];
    words.extend(["--replay=9s", "--", &app]);
    words.extend(frames);
    let recorded = stage.clscope(words).run().success();
    assert!(recorded.stderr.contains("--replay adds up to 9 s"), "{}", recorded.stderr);
    let bare = stage.app(Mode::Bare, "b", "frames").args(frames).run().success().stdout;
    assert_eq!(recorded.stdout, bare);
    // Readings every 20 ms: no frame is seen by itself.
    let truth = |name: &str| match name {
        "blur" => 20.0,
        "edges" => 30.0,
        "match" => 40.0,
        "reduce" => 50.0,
        "label" => 60.0,
        _ => 8.0,
    };
    let own = spans(&stage);
    let again = repetitions(&stage);
    // The longest and the shortest mean length of a kernel in ten parts of the run and in its
    // repetitions.
    let extent = |name: &str| {
        let of = |spans: &[Span]| -> Vec<f64> {
            spans.iter().filter(|s| s.2 == name).map(|s| s.1 - s.0).collect()
        };
        let (launches, repeated) = (of(&own), of(&again));
        let parts = launches.chunks(launches.len().div_ceil(10).max(1));
        let parts = parts.chain(repeated.chunks(repeated.len().max(1)));
        let means = parts.map(|part| part.iter().sum::<f64>() / part.len() as f64);
        means.fold((f64::MAX, 0.0), |(low, high), mean| (mean.min(low), mean.max(high)))
    };
    let mut all = own.clone();
    all.extend(again.iter().cloned());
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let counter = counted(&all, truth, 5.0);
    let rows: Vec<&str> = counter.lines().collect();
    let slow = rows[..2].iter().chain(rows[2..].iter().step_by(40));
    let slow: Vec<&str> = slow.copied().collect();
    std::fs::write(stage.join("readings"), slow.join("\n") + "\n").unwrap();
    let readings = stage.join("readings").display().to_string();
    let device = energy_of(&stage, &["--readings", &readings]);
    assert_conserved(&device);
    let rows = device["classes"].as_array().unwrap();
    assert!(rows.iter().all(|c| !c["name"].as_str().unwrap().contains("repeated")), "{rows:?}");
    let repeated = device["replays"].as_array().unwrap();
    let (mut told, mut unsteady) = (0, Vec::new());
    for name in ["blur", "edges", "match", "reduce", "label"] {
        let row: Vec<_> = rows.iter().filter(|c| c["name"] == name).collect();
        assert_eq!(row.len(), 1, "one row a kernel: {rows:?}");
        let of = repeated.iter().find(|r| r["name"] == name);
        let (low, high) = extent(name);
        let steadiness = format!("{name}: {low:.0} to {high:.0} ns a launch");
        if of.is_none_or(|r| r["batches"].as_u64() < Some(1)) || high > 4.0 * low {
            unsteady.push(format!("{steadiness}, {of:?}"));
            continue;
        }
        let tolerance = (high / low - 1.0).max(0.5);
        // What they add to the floor, of all launches.
        let own: f64 = own.iter().filter(|s| s.2 == name).map(|s| s.1 - s.0).sum();
        let want = (truth(name) - 5.0) * own * 1e-9;
        let joules = &row[0]["joules"];
        // What repetitions of a disturbed run know too little of has no figure.
        if joules.is_null() {
            assert_eq!(row[0]["identifiability"], "not-at-all", "{steadiness}: {}", row[0]);
            unsteady.push(format!("{steadiness}, not known"));
            continue;
        }
        let half = (number(&joules["high"]) - number(&joules["low"])) / 2.0;
        let below = || number(&row[0]["dynamic_joules_below"]) - half;
        let dynamic = row[0]["dynamic_joules"]["value"].as_f64().unwrap_or_else(below);
        assert!(
            (dynamic - want).abs() < (tolerance * want).max(2.0 * half),
            "{steadiness}: {dynamic} J above the floor, not {want}: {}",
            row[0]
        );
        let by = row[0]["method"].as_str().unwrap_or("");
        assert!(["repeated", "both"].contains(&by), "{steadiness}: {}", row[0]);
        told += 1;
    }
    let took = 1e-9 * number(&device["repetitions"]["length_ns"]);
    if told < 2 || took < 1.0 {
        return Err(format!("{told} kernels in {took} s of repetitions; {unsteady:?}"));
    }
    // A batch that others delay ends later than it was meant to.
    assert!(took < 2.0 * 9.0, "{took} s of repetitions");
    let text = stage
        .clscope(["report", &trace, "--section", "energy", "--readings", &readings])
        .run()
        .success()
        .stdout;
    assert!(text.contains("which are no part of the rows above"), "{text}");
    Ok(())
}

#[test]
fn replays_reach_applications_that_open_their_loader_themselves() {
    let stage = Stage::new(Runtime::Pocl);
    let bare =
        stage.app(Mode::Bare, "b", "dlopen_by_name libOpenCL.so.1 local 5").run().success().stdout;
    let app = clscope_tests::artifacts().fixture("dlopen_by_name").display().to_string();
    // As OpenCV does: bound functions, where there are no stand-ins for exported symbols.
    for (name, inject) in
        [("all", None), ("audit", Some("preload,audit")), ("layer", Some("preload,layer"))]
    {
        let trace = stage.trace(name).display().to_string();
        let mut words = vec!["record", "-q", "-o", &trace, "--sensors", "off", "--replay", "6:20"];
        words.extend(inject.iter().flat_map(|ways| ["--inject", ways]));
        words.extend(["--", &app, "libOpenCL.so.1", "local", "5"]);
        assert_eq!(stage.clscope(&words).run().success().stdout, bare, "{name}");
        let dump = stage.clscope(["dump", &trace, "--format", "json"]).run().success().stdout;
        let replays: Vec<Value> = dump
            .lines()
            .map(|l| serde_json::from_str::<Value>(l).unwrap()["definition"].take())
            .filter(|definition| definition["kind"] == "Replay")
            .collect();
        assert_eq!(replays.len(), 1, "one kernel of one size, {name}: {replays:?}");
        assert_eq!(replays[0]["refused"], "", "{name}: {replays:?}");
        let batches = replays[0]["batches"].as_array().unwrap();
        assert!(batches.iter().filter(|b| b["restores_only"] == false).count() == 6, "{name}");
    }
}

#[test]
fn nothing_is_replayed_behind_a_user_event() {
    let stage = Stage::new(Runtime::Pocl);
    let bare = stage.app(Mode::Bare, "b", "user_event_gate").run().success().stdout;
    let finished = stage
        .app(Mode::Preload, "t", "user_event_gate")
        .env("CLSCOPE_REPLAY", "6:20")
        .env("CLSCOPE_SNAPSHOT", "1")
        .run()
        .success();
    assert_eq!(finished.stdout, bare);
    let dump =
        stage.clscope(["dump", &stage.trace("t").display().to_string()]).run().success().stdout;
    assert!(dump.contains("a user event is not set"), "{dump}");
}
