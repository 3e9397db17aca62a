//! The conformance-style suite: its transcript is the same text with the recorder as without, in
//! every way in, on every runtime. Each case runs in a process of its own (`--isolate`), so that a
//! crash or a hang is a line of the transcript.

use clscope_tests::{Mode, Runtime, Stage, artifacts, shared};
use std::collections::{BTreeMap, BTreeSet};

/// The transcript by case.
fn cases(transcript: &str) -> BTreeMap<String, Vec<String>> {
    let mut out: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = String::new();
    for line in transcript.lines() {
        if let Some(name) = line.strip_prefix("case ") {
            current = name.to_owned();
        }
        out.entry(current.clone()).or_default().push(line.to_owned());
    }
    out
}

#[track_caller]
fn same_transcript(runtime: Runtime, skips: Option<&str>, mode: Mode) {
    same_transcript_of("", 50, runtime, skips, mode, "auto");
}

/// As [`same_transcript`] for some cases, at least `least` of them, with a method of device timing.
#[track_caller]
fn same_transcript_of(
    names: &str,
    least: usize,
    runtime: Runtime,
    skips: Option<&str>,
    mode: Mode,
    method: &str,
) {
    let stage = Stage::new(runtime);
    let kept = format!("conform, {}", skips.unwrap_or("no skips"));
    let skips = skips.map(|name| artifacts::root().join("tests/fixtures/conform/skips").join(name));
    let suite = |mode: Mode, name: &str, arguments: &str| {
        let run = stage.app(mode, name, &format!("conform {arguments}"));
        let run = run.env("CLSCOPE_DEVICE_TIMING", method);
        match &skips {
            Some(skips) => run.arg("--skip").arg(skips),
            None => run,
        }
    };
    // All cases bare, once for all tests: each case has a process of its own, so that it says the
    // same among all as among some.
    let bare = shared(&kept, || {
        let bare = suite(Mode::Bare, "bare", "--isolate").run();
        format!("{}\n{}", bare.status, bare.stdout)
    });
    let (status, bare) = bare.split_once('\n').expect("its status is the first line");
    let with = suite(mode, "t", &format!("--isolate {names}")).run();
    assert_eq!(with.status.to_string(), status, "{}", with.stderr);
    let asked = suite(Mode::Bare, "bare", &format!("--list {names}")).run().success().stdout;
    let asked: BTreeSet<&str> = asked.lines().collect();
    let (mut bare, with) = (cases(bare), cases(&with.stdout));
    bare.retain(|name, _| asked.contains(name.as_str()));
    assert_eq!(bare.len(), asked.len(), "{asked:?}");
    assert!(bare.len() >= least, "{} cases ran", bare.len());
    let mut differences = String::new();
    for (name, lines) in &bare {
        let other = with.get(name).map(Vec::as_slice).unwrap_or_default();
        if lines.as_slice() != other {
            let first = lines.iter().zip(other).find(|(a, b)| a != b);
            let (a, b) = first.map_or(("(length)", "(length)"), |(a, b)| (a.as_str(), b.as_str()));
            differences.push_str(&format!("{name}\n  bare {a}\n  with {b}\n"));
        }
    }
    assert!(
        differences.is_empty() && with.len() == bare.len(),
        "{mode:?}, {method}, on {:?}:\n{differences}",
        stage.runtime
    );
}

macro_rules! modes {
    ($($name:ident: $mode:ident)*) => { $(
        mod $name {
            use super::*;
            #[test]
            fn on_pocl() {
                same_transcript(Runtime::Pocl, Some("pocl-3.1.txt"), Mode::$mode);
            }
            #[test]
            fn on_the_second_runtime() {
                if let Some(intel) = Runtime::intel() {
                    same_transcript(intel, Some("intel-cpu.txt"), Mode::$mode);
                }
            }
            #[test]
            fn on_the_fake_driver() {
                same_transcript(Runtime::FakeDriver, None, Mode::$mode);
            }
        }
    )* };
}

modes! {
    preloaded: Preload
    as_a_layer: Layer
    with_the_audit_shim: Audit
    recorded: Record
}

/// Cases about what each method of device timing does in its own way: events, callbacks, waits,
/// counts.
const OF_METHODS: &str = "stamps_by_size info_before_completion counts_* many_events queue_* callbacks_* callback_* \
    destructors_without_finish context_* event_references unprofiled_queue gate_for_everything release_while_pending command_buffers";

macro_rules! methods {
    ($($method:ident)*) => {
        mod method { $(
            mod $method {
                use super::super::*;
                #[test]
                fn on_pocl() {
                    same_transcript_of(OF_METHODS, 20, Runtime::Pocl, Some("pocl-3.1.txt"), Mode::Preload, stringify!($method));
                }
                #[test]
                fn on_the_second_runtime() {
                    if let Some(intel) = Runtime::intel() {
                        same_transcript_of(OF_METHODS, 20, intel, Some("intel-cpu.txt"), Mode::Preload, stringify!($method));
                    }
                }
            }
        )* }
    };
}

methods! { event callback sync sample off }
