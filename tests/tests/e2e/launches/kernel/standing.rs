//! A captured launch is repeated as launches like it stood in the application: behind rests or
//! behind commands that had not ended; and compared with these. What they took is no matter here.

use super::document;
use clscope_tests::{Runtime, Stage, artifacts};
use serde_json::{Value, json};
use std::path::Path;

/// Records a fixture with its third launch of `increment` kept.
fn captured(stage: &Stage, trace: &str, app: &[&str]) {
    let fixture = artifacts().fixture(app[0]).display().to_string();
    let words = ["record", "-q", "--sensors", "off", "--device-timing", "event", "-o", trace];
    let words = [&words[..], &["--capture", "increment:3", "--", &fixture], &app[1..]].concat();
    stage.clscope(words).run().success();
}

/// What `clscope record` says of the application, which keeps to its schema.
fn application(capture: &Path) -> Value {
    let text = std::fs::read(capture.join("application.json")).unwrap();
    let found = serde_json::from_slice(&text).unwrap();
    let schema = clscope_tests::artifacts::root().join("tools/launch/application.schema.json");
    let breaches = clscope_testing::schema::breaches(&schema, &found);
    assert!(breaches.is_empty(), "{breaches:#?}");
    found
}

#[test]
fn a_launch_behind_rests_is_repeated_behind_rests() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        captured(&stage, "t", &["rounds", "40"]);
        let folder = stage.trace("t").join("captures/increment.3");
        let of = application(&folder);
        // The third is the captured one; the fourth stands behind its round's write, as all do.
        assert_eq!((&of["launches"], &of["timed"]), (&json!(39), &json!(39)));
        let rows = of["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 39);
        assert!(rows.iter().all(|row| row["wait_ns"].is_u64()), "each is waited for: {rows:?}");
        assert!(rows.iter().all(|row| row["is_flushed"] == false), "{rows:?}");
        assert_eq!(of["before"], json!([{"what": "WriteBuffer", "launches": 39}]));

        let (found, code) = document(&stage, "t", &[]);
        assert_eq!((code, &found["is_same_device"]), (0, &json!(true)));
        let there = &found["as_there"];
        assert_eq!(there["launches"], 39, "{there:#}");
        // As many as were asked for, or as fit into the time there is.
        assert!((6..=16).contains(&there["here"]["launches"].as_u64().unwrap()), "{there:#}");
        // A blocking write has ended where it returns.
        assert_eq!(there["behind_share"], 0.0, "{there:#}");
        assert!(there["rest_there_ns"].as_f64().unwrap() > 0.0, "{there:#}");
        // It ended where the host was told so, and no launch was enqueued before that.
        assert!(there["rest_here_ns"].as_f64().unwrap() > 0.0, "{there:#}");
        let change = &there["change"];
        let (low, high) = (change["low"].as_f64().unwrap(), change["high"].as_f64().unwrap());
        assert!((low..=high).contains(&change["value"].as_f64().unwrap()), "{there:#}");
        let text =
            stage.clscope(["kernel", "t", "--sensors", "off", "--repeat", "8"]).run().success();
        for part in [
            "    as in the application ",
            ", behind rests of ",
            ", 39 other launches, the captured one ",
            ": here ",
        ] {
            assert!(text.stdout.contains(part), "{part}: {}", text.stdout);
        }

        // The folder alone tells the same; without the file the trace does.
        let alone = stage.join("alone");
        std::fs::rename(&folder, &alone).unwrap();
        let (found, _) = document(&stage, &alone.display().to_string(), &[]);
        assert_eq!(found["as_there"]["there_ns"], there["there_ns"]);
        std::fs::rename(&alone, &folder).unwrap();
        std::fs::remove_file(folder.join("application.json")).unwrap();
        let (found, _) = document(&stage, "t", &[]);
        assert_eq!(found["as_there"]["there_ns"], there["there_ns"]);
        std::fs::rename(&folder, &alone).unwrap();
        let (found, _) = document(&stage, &alone.display().to_string(), &[]);
        assert_eq!(found["as_there"], Value::Null);
        let notes = found["notes"].to_string();
        assert!(
            notes.contains("ran in the application is not known: the capture is in no trace"),
            "{notes}"
        );
        std::fs::write(alone.join("application.json"), "{}").unwrap();
        let (found, _) = document(&stage, &alone.display().to_string(), &[]);
        assert!(
            found["notes"].to_string().contains("application.json cannot be understood"),
            "{found:#}"
        );
    }
}

#[test]
fn a_launch_among_others_is_repeated_among_others() {
    let stage = Stage::new(Runtime::Pocl);
    captured(&stage, "t", &["many_commands", "64"]);
    let of = application(&stage.trace("t").join("captures/increment.3"));
    // Neither the captured one nor the one right behind it.
    assert_eq!((&of["launches"], &of["timed"]), (&json!(62), &json!(62)));
    let rows = of["rows"].as_array().unwrap();
    let behind = rows.iter().filter(|row| row["rest_ns"].as_i64().unwrap() < 0).count();
    let (found, _) = document(&stage, "t", &[]);
    let share = found["as_there"]["behind_share"].as_f64().unwrap();
    assert!((share - behind as f64 / rows.len() as f64).abs() < 1e-9, "{share} {behind}");
    assert!(found["as_there"]["here"]["launches"].as_u64().unwrap() >= 6, "{found:#}");
}

#[test]
fn too_few_launches_are_said_to_be_too_few() {
    let stage = Stage::new(Runtime::Pocl);
    captured(&stage, "t", &["rounds", "5"]);
    let (found, _) = document(&stage, "t", &[]);
    assert_eq!(found["as_there"], Value::Null);
    let notes = found["notes"].to_string();
    assert!(
        notes.contains("the application has 4 other launches like it with a time, of 4"),
        "{notes}"
    );
}

/// What commands used between is what the recorder tells; it is imitated from a megabyte on.
#[test]
fn memories_that_were_not_used_for_long_are_as_cold_again() {
    let stage = Stage::new(Runtime::Pocl);
    // Each eighth round writes and reads eight times 4 MiB, the others 4 MiB of them.
    captured(&stage, "t", &["rounds", "12", "4194304"]);
    let text = std::fs::read(stage.trace("t").join("captures/increment.3/launch.json")).unwrap();
    let launch: Value = serde_json::from_slice(&text).unwrap();
    let used: Vec<&Value> =
        launch["memories"].as_array().unwrap().iter().map(|memory| &memory["used"]).collect();
    // The read behind the launch before, and the write in front of this one.
    assert_eq!(used, [&json!({"by": "increment", "bytes_since": 2 * 4194304})], "{launch:#}");
    let (found, _) = document(&stage, "t", &[]);
    assert_eq!(found["as_there"]["cold_bytes"], 2 * 4194304, "{found:#}");
}
