//! The recorder launches no kernel and writes no memory of the application's: a layer below it
//! counts what reaches the runtime, bare and recorded in every way. What the recorder copies out of
//! the application's memory goes into memory of its own.

use clscope_tests::{Mode, Runtime, Stage, artifacts};
use std::collections::BTreeMap;

/// What reached the runtime: how often, and bytes where they are counted.
type Reached = BTreeMap<String, (u64, Option<u64>)>;

/// Applications with memory of every kind, in queues of every kind.
const APPLICATIONS: [&str; 17] = [
    "linked 7",
    "rounds 9",
    "in_place 3",
    "multi_queue 3 20",
    "multi_queue 2 20 out-of-order",
    "user_event_gate",
    "captured buffers KNOWN",
    "captured parts KNOWN",
    "captured picture KNOWN",
    "captured layers KNOWN",
    "captured line KNOWN",
    "captured nothing KNOWN",
    "captured shared KNOWN",
    "captured order KNOWN",
    "captured queues KNOWN",
    "captured task KNOWN",
    "captured threads KNOWN",
];

/// Ways to record: a name, and the settings.
const WAYS: [(&str, &[(&str, &str)]); 6] = [
    ("event", &[("CLSCOPE_DEVICE_TIMING", "event")]),
    ("auto", &[("CLSCOPE_DEVICE_TIMING", "auto")]),
    ("capture", &[("CLSCOPE_CAPTURE", "*:1,2,3,40")]),
    ("sample", &[("CLSCOPE_SAMPLE", "4")]),
    ("plan", &[("CLSCOPE_SAMPLE", "plan")]),
    ("check", &[("CLSCOPE_CHECK", "1")]),
];

/// An application with the layer below whatever records it: what reached the runtime.
fn reached(stage: &Stage, mode: Mode, line: &str, settings: &[(&str, &str)]) -> Reached {
    let layer = artifacts().fixture("below.so");
    let report = stage.join("reached");
    let known = stage.join("known");
    std::fs::create_dir_all(&known).unwrap();
    let _ = std::fs::remove_file(&report);
    stage.forget("t");
    let line = line.replace("KNOWN", &known.display().to_string());
    let (layer, recorder) = (layer.display().to_string(), artifacts().recorder());
    let preloaded = match mode {
        Mode::Preload => format!("{layer}:{}", recorder.display()),
        _ => layer.clone(),
    };
    let mut run = stage.app(mode, "t", &line);
    for (name, value) in settings {
        run = run.env(name, value);
    }
    let layers = match mode {
        // The last one is called first.
        Mode::Layer => format!("{layer}:{}", recorder.display()),
        _ => layer,
    };
    let run = run.env("LD_PRELOAD", preloaded).env("OPENCL_LAYERS", layers);
    run.env("BELOW_REPORT", &report).run();
    let text = std::fs::read_to_string(&report).unwrap_or_else(|e| panic!("{line}: {e}"));
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
        let last = number(words.pop()).unwrap();
        // Writes have bytes behind the count.
        match number(words.last().copied()) {
            Some(count) => {
                words.pop();
                (words.join(" "), (count, Some(last)))
            }
            None => (words.join(" "), (last, None)),
        }
    };
    text.lines().map(line).collect()
}

/// What must be as bare: launches, arguments that are set, and all that changes memory of the
/// application's.
fn changes(of: &Reached) -> Reached {
    let changes =
        |name: &str| name.starts_with("launch ") || name == "argument" || name.ends_with(" theirs");
    let reads = |name: &str| name.contains(" from ");
    let kept = of.iter().filter(|(name, _)| changes(name) && !reads(name));
    kept.map(|(name, count)| (name.clone(), *count)).collect()
}

/// Bytes that commands write into what is not the application's.
fn own(of: &Reached) -> u64 {
    let own = of.iter().filter(|(name, _)| name.ends_with(" own") && !name.contains(" from "));
    own.filter_map(|(_, (_, bytes))| *bytes).sum()
}

#[test]
fn no_launch_and_no_write_is_added_in_any_way_of_recording() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let mut captured = 0;
        for (at, line) in APPLICATIONS.iter().enumerate() {
            let bare = reached(&stage, Mode::Bare, line, &[]);
            for (nth, (way, settings)) in WAYS.iter().enumerate() {
                let mode = [Mode::Preload, Mode::Layer][(at + nth) % 2];
                let what = format!("{runtime:?} {mode:?} {way} {line}");
                let with = reached(&stage, mode, line, settings);
                assert_eq!(changes(&with), changes(&bare), "{what}");
                // Without captures nothing is copied but what the application copies to its host.
                match *way {
                    "capture" | "sample" => captured += own(&with) - own(&bare),
                    _ => assert_eq!(own(&with), own(&bare), "{what}: {with:#?}"),
                }
            }
        }
        assert!(captured > 0, "{runtime:?}: no capture copied anything");
    }
}

/// Where recording is refused nothing else is done in the application's contexts either.
#[test]
fn a_process_that_is_not_recorded_makes_its_own_calls_alone() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        for line in ["captured picture KNOWN", "captured shared KNOWN"] {
            let bare = reached(&stage, Mode::Bare, line, &[]);
            for (way, settings) in WAYS {
                let settings = [settings, &[("CLSCOPE_TRACE", "/proc/none")]].concat();
                let with = reached(&stage, Mode::Preload, line, &settings);
                assert_eq!(with, bare, "{runtime:?} {way} {line}");
            }
        }
    }
}

/// Counters of queues, which the fake driver has.
#[test]
fn counting_queues_add_no_launch_and_no_write() {
    let stage = Stage::new(Runtime::FakeDriver);
    let counters = [("CLSCOPE_COUNTERS", "intel-queue"), ("FAKE_QUEUE_COUNTERS", "672")];
    for line in ["many_commands 20", "linked 7", "rounds 9"] {
        let bare = reached(&stage, Mode::Bare, line, &[]);
        let with = reached(&stage, Mode::Preload, line, &counters);
        assert_eq!(changes(&with), changes(&bare), "{line}");
        assert_eq!(own(&with), own(&bare), "{with:#?}");
    }
}

/// The layer sees what it is to see: the application's own launches, arguments and writes.
#[test]
fn the_layer_counts_what_an_application_does() {
    for runtime in Runtime::real() {
        let of = reached(&Stage::new(runtime), Mode::Bare, "captured buffers KNOWN", &[]);
        assert_eq!(of["launch clEnqueueNDRangeKernel"].0, 3);
        assert_eq!(of["argument"].0, 15, "three times five of the kernel's six");
        let copies = of["clEnqueueCopyBuffer theirs"];
        assert_eq!(copies, (15, Some(3 * 5 * 4352)), "{of:#?}");
    }
}
