//! What a report says of an application's habits: what it does again and again, its buffers, its
//! longest gaps with the place that ends each, and kernels that are compiled anew for a new size.
//! Each mode of `patterns` does one of these, a known number of times.

use clscope_tests::{Mode, Run, Runtime, Stage};
use serde_json::{Value, json};

/// What each mode repeats: the kind, how often, and words of the sentence.
type Expected = [(&'static str, u64, &'static str)];
const MODES: [(&str, &Expected); 7] = [
    ("once", &[]),
    ("builds", &[("builds", 20, "builds one text 20 times, with the same options")]),
    ("options", &[("builds", 20, "with 20 different options")]),
    ("buffers", &[("buffers", 20, "20 buffers of 192 KiB READ_ONLY COPY_HOST_PTR, one for each")]),
    ("finish", &[("wait-for-each-launch", 21, "clFinish 21 times for 20 launches")]),
    ("reads", &[("wait-for-each-launch", 20, "clEnqueueReadBuffer 20 times for 20 launches")]),
    ("polls", &[("polling", 20, "waits by asking: clGetEventInfo")]),
];

fn answer(stage: &Stage, run: Run) -> Value {
    run.run().success();
    let json = stage.clscope(["report", "t.clscope", "--format", "json"]).run().success().stdout;
    let report: Value = serde_json::from_str(&json).unwrap();
    report["answer"].clone()
}

#[test]
fn what_is_repeated_is_said_with_how_often_and_nothing_else_is() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        for (mode, wanted) in MODES {
            let line = format!("patterns {mode} 20");
            let answer = answer(&stage, stage.app(Mode::Record, "t", &line));
            let found = answer["patterns"].as_array().unwrap();
            let kinds = |of: &[&str]| of.iter().map(|kind| (*kind).to_owned()).collect::<Vec<_>>();
            let wanted_kinds: Vec<&str> = wanted.iter().map(|(kind, ..)| *kind).collect();
            let found_kinds: Vec<&str> =
                found.iter().map(|p| p["kind"].as_str().unwrap()).collect();
            assert_eq!(kinds(&found_kinds), kinds(&wanted_kinds), "{mode}: {found:#?}");
            for ((_, times, words), pattern) in wanted.iter().zip(found) {
                assert!(pattern["text"].as_str().unwrap().contains(words), "{mode}: {pattern}");
                // How often it has to ask depends on how long a launch takes.
                let many = pattern["times"].as_u64().unwrap();
                match mode {
                    "polls" => assert!(many >= *times, "{pattern}"),
                    _ => assert_eq!(many, *times, "{mode}: {pattern}"),
                }
                let ns = pattern["time_ns"].as_f64().unwrap();
                assert!(0.0 < ns && ns <= answer["run"]["wall_ns"].as_f64().unwrap(), "{pattern}");
            }
        }
    }
}

#[test]
fn what_is_repeated_stands_on_the_screen_and_the_page() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "patterns options 30").run().success();
    let screen = stage.clscope(["report", "t.clscope"]).env("COLUMNS", "80").run().success().stdout;
    assert!(screen.contains("REPEATS     builds one text 30 times, with 30 different"), "{screen}");
    let page = stage.clscope(["report", "t.clscope", "--format", "html"]).run().success().stdout;
    assert!(page.contains("builds one text 30 times, with 30 different options"));
}

#[test]
fn buffers_have_their_sizes_flags_and_copies() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let answer = answer(&stage, stage.app(Mode::Record, "t", "patterns kinds"));
        let rows = answer["buffers"].as_array().unwrap();
        let row = |flags: &str, bytes: u64| {
            let is = |row: &&Value| row["flags"] == flags && row["bytes"] == bytes;
            rows.iter().find(is).unwrap_or_else(|| panic!("{flags} of {bytes}: {rows:#?}"))
        };
        let copies =
            |of: &Value| of.as_object().map(|of| (of["count"].clone(), of["bytes"].clone()));
        let counts = |count: u64, bytes: u64| Some((json!(count), json!(bytes)));
        let large = row("READ_ONLY", 4 << 20);
        assert_eq!(large["made"], 1);
        assert_eq!(copies(&large["to_device"]), counts(2, 8 << 20));
        assert_eq!(copies(&large["from_device"]), None);
        let read = row("WRITE_ONLY ALLOC_HOST_PTR", 192 << 10);
        assert_eq!(read["made"], 2);
        assert_eq!(copies(&read["to_device"]), None);
        assert_eq!(copies(&read["from_device"]), counts(3, 3 * (192 << 10)));
        let both = row("READ_WRITE USE_HOST_PTR", 192 << 10);
        assert_eq!(both["made"], 1);
        assert_eq!(copies(&both["to_device"]), counts(2, 2 * 4096));
        assert_eq!(copies(&both["from_device"]), counts(3, 3 * 8192));
        // Those with the most copied bytes come first, and all of its copies have a time.
        assert_eq!(rows[0]["flags"], "READ_ONLY");
        assert_eq!(rows[0]["to_device"]["timed"], 2);
        assert!(rows[0]["to_device"]["time_ns"].as_f64() > Some(0.0));
        let all = stage.clscope(["report", "t.clscope", "--all"]).run().success().stdout;
        let line = all.lines().find(|line| line.contains("WRITE_ONLY ALLOC_HOST_PTR"));
        assert!(line.is_some_and(|line| line.contains("192")), "{all}");
    }
}

/// The longest gap is the one that was made, with the commands around it, the thread that ended it
/// and the place in the application.
#[test]
fn a_gap_says_where_in_the_application_it_ended() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let run = |with: &str| {
            let app = stage.app(Mode::Record, "t", "patterns gap");
            answer(&stage, app.env("CLSCOPE_CALL_SITES", with))
        };
        let with = run("1");
        let gap = &with["gaps"][0];
        assert!(gap["time_ns"].as_f64() >= Some(150e6), "{gap}");
        assert_eq!((&gap["before"], &gap["after"]), (&json!("spin"), &json!("spin")));
        assert_eq!(gap["cause"], "host outside OpenCL");
        let place = gap["called_from"].as_str().unwrap();
        assert!(place.contains("patterns.c:"), "{gap}");
        assert!(gap["thread"].as_str().is_some_and(|thread| thread.contains("thread")), "{gap}");
        let all = stage.clscope(["report", "t.clscope", "--all"]).run().success().stdout;
        assert!(all.contains(place), "{place}: {all}");
        // What was not recorded is absent.
        let without = run("0");
        assert!(without["gaps"][0]["time_ns"].as_f64() >= Some(150e6), "{without:#}");
        assert_eq!(without["gaps"][0]["called_from"], Value::Null);
    }
}

/// PoCL compiles a kernel for each size of work-group that it chooses. The first launch of a size
/// waits for that, later ones do not.
#[test]
fn the_first_launch_of_a_size_is_told_from_later_ones() {
    let stage = Stage::new(Runtime::Pocl);
    let run = |cache: &str, launches: usize| {
        let app = stage.app(Mode::Record, "t", &format!("patterns sizes {launches}"));
        let cache = stage.join(cache);
        std::fs::create_dir_all(&cache).unwrap();
        answer(&stage, app.env("POCL_CACHE_DIR", cache))
    };
    let first = |answer: &Value| {
        let causes = answer["why"].as_array().unwrap();
        let of = causes.iter().find(|cause| cause["kind"] == "first-launch");
        of.map_or(0.0, |cause| cause["time_ns"].as_f64().unwrap())
    };
    let compiled = run("a", 300);
    let gaps = compiled["gaps"].as_array().unwrap();
    let is_first = |gap: &&Value| gap["cause"].as_str().unwrap().starts_with("first launch");
    // Of the very first one there is no command before.
    let firsts: Vec<_> = gaps.iter().filter(is_first).collect();
    assert_eq!(firsts.len(), 2, "{gaps:#?}");
    // They are the longest gaps: of 297 later launches none is among them.
    assert!(gaps.iter().take(2).all(|gap| is_first(&gap)), "{gaps:#?}");
    assert!(first(&compiled) > 1e6, "{:#}", compiled["why"]);
    assert_eq!(compiled["kernels"][0]["sizes"], 3);
    // What is compiled already takes no time.
    let kept = run("a", 300);
    assert!(first(&kept) < 0.5 * first(&compiled), "{:#}", kept["why"]);
}
