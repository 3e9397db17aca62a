//! The conformance-style suite: its transcript is the same text with the recorder as without, in every way in, on every
//! runtime. Each case runs in a process of its own (`--isolate`), so that a crash or a hang is a line of the transcript.

use clscope_tests::{Mode, Runtime, Stage, artifacts};
use std::collections::BTreeMap;

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
    let stage = Stage::new(runtime);
    let skips = skips.map(|name| artifacts::root().join("tests/fixtures/conform/skips").join(name));
    let run = |mode: Mode, name: &str| {
        let mut run = stage.app(mode, name, "conform --isolate");
        if let Some(skips) = &skips {
            run = run.arg("--skip").arg(skips);
        }
        run.limit(600).run()
    };
    let (bare, with) = (run(Mode::Bare, "bare"), run(mode, "t"));
    assert_eq!(with.status, bare.status, "{}", with.stderr);
    let (bare, with) = (cases(&bare.stdout), cases(&with.stdout));
    assert!(bare.len() > 50, "{} cases ran", bare.len());
    let mut differences = String::new();
    for (name, lines) in &bare {
        let other = with.get(name).map(Vec::as_slice).unwrap_or_default();
        if lines.as_slice() != other {
            let first = lines.iter().zip(other).find(|(a, b)| a != b);
            let (a, b) = first.map_or(("(length)", "(length)"), |(a, b)| (a.as_str(), b.as_str()));
            differences.push_str(&format!("{name}\n  bare {a}\n  with {b}\n"));
        }
    }
    assert!(differences.is_empty() && with.len() == bare.len(), "{mode:?} on {:?}:\n{differences}", stage.runtime);
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
