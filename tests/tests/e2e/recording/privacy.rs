//! Who can read a trace, and what of its user is in it: modes of what is made in every way of
//! recording, the command line left out, and files of others that must not be written through.

use clscope_tests::{Mode, Runtime, Stage};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const SECRET: &str = "--password=hunter2";

/// The files of a trace, those of its folder of programs with them.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|e| e.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn traces_are_their_owners_alone_unless_shared() {
    for way in Mode::RECORDING {
        let stage = Stage::new(Runtime::FakeDriver);
        stage.app(way, "t", "linked").env("CLSCOPE_SENSORS", "off").run().success();
        let trace = stage.trace("t");
        assert_eq!(mode(&trace), 0o700, "{way:?}");
        assert_eq!(mode(&trace.join("programs")), 0o700, "{way:?}");
        let all = files(&trace);
        assert!(all.len() >= 3, "{way:?}: {all:?}");
        for file in all {
            assert_eq!(mode(&file), 0o600, "{way:?}: {}", file.display());
        }
    }
    let stage = Stage::new(Runtime::FakeDriver);
    stage.app(Mode::Preload, "p", "linked").env("CLSCOPE_SHARED", "1").run().success();
    let app = clscope_tests::artifacts().fixture("linked");
    let record = ["record", "-q", "--shared", "-o", "r", "--"];
    stage.clscope(record).arg(app).run().success();
    for name in ["p", "r"] {
        let trace = stage.trace(name);
        // As the umask of whoever runs the tests lets them.
        std::fs::create_dir(stage.join("usual")).unwrap();
        let usual = mode(&stage.join("usual"));
        std::fs::remove_dir(stage.join("usual")).unwrap();
        assert_eq!(mode(&trace), usual, "{name}");
        for file in files(&trace) {
            assert_eq!(mode(&file), usual & 0o666, "{}", file.display());
        }
    }
}

#[test]
fn programs_are_written_out_for_who_may_read_their_trace() {
    let stage = Stage::new(Runtime::FakeDriver);
    stage.app(Mode::Record, "t", "linked").run().success();
    let app = clscope_tests::artifacts().fixture("linked");
    stage.clscope(["record", "-q", "--shared", "-o", "s", "--"]).arg(app).run().success();
    std::fs::create_dir(stage.join("usual")).unwrap();
    let usual = mode(&stage.join("usual"));
    for (trace, folder) in [("t", 0o700), ("s", usual)] {
        let out = format!("of-{trace}");
        stage.clscope(["programs", trace, "--output", &out]).run().success();
        assert_eq!(mode(&stage.join(&out)), folder, "{trace}");
        let written = files(&stage.join(&out));
        assert_eq!(written.len(), 1, "{written:?}");
        assert_eq!(mode(&written[0]), folder & 0o666, "{trace}");
    }
}

#[test]
fn a_directory_that_was_open_is_closed() {
    let stage = Stage::new(Runtime::FakeDriver);
    let trace = stage.trace("t");
    std::fs::create_dir(&trace).unwrap();
    std::fs::set_permissions(&trace, std::fs::Permissions::from_mode(0o755)).unwrap();
    stage.app(Mode::Record, "t", "linked").run().success();
    assert_eq!(mode(&trace), 0o700);
    assert!(files(&trace).iter().all(|file| mode(file) == 0o600));
}

#[test]
fn arguments_are_left_out_of_every_file_where_asked() {
    let holds = |trace: &Path| {
        files(trace)
            .into_iter()
            .filter(|file| {
                let bytes = std::fs::read(file).unwrap();
                bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
            })
            .count()
    };
    for way in Mode::RECORDING {
        let stage = Stage::new(Runtime::FakeDriver);
        let line = format!("linked 3 {SECRET}");
        stage.app(way, "with", &line).run().success();
        assert!(holds(&stage.trace("with")) >= 2, "{way:?}: definitions and meta.json");
        if way == Mode::Record {
            let app = clscope_tests::artifacts().fixture("linked");
            let record = ["record", "-q", "--without", "arguments", "-o", "without", "--"];
            stage.clscope(record).arg(app).args(["3", SECRET]).run().success();
        } else {
            stage.app(way, "without", &line).env("CLSCOPE_ARGUMENTS", "0").run().success();
        }
        assert_eq!(holds(&stage.trace("without")), 0, "{way:?}");
        let report = stage.clscope(["report", "--all", "without.clscope"]).run().success();
        assert!(report.stdout.contains("linked"), "{way:?}: {}", report.stdout);
    }
}

#[test]
fn record_writes_through_no_link_and_into_no_link() {
    let stage = Stage::new(Runtime::FakeDriver);
    let app = clscope_tests::artifacts().fixture("linked");
    let victim = stage.join("victim");
    std::fs::write(&victim, "precious").unwrap();
    // The directory itself is a link.
    std::fs::create_dir(stage.join("elsewhere")).unwrap();
    symlink(stage.join("elsewhere"), stage.trace("t")).unwrap();
    for (options, code) in [(&["--require-trace"][..], 1), (&[], 0)] {
        let record = stage.clscope(["record", "-o", "t"]).args(options).arg("--");
        let refused = record.arg(&app).run();
        assert_eq!(refused.status.code(), Some(code), "{}", refused.stderr);
        assert!(refused.stderr.contains("symbolic link"), "{}", refused.stderr);
    }
    assert_eq!(files(&stage.join("elsewhere")).len(), 0);
    // Outputs: a link at their name, and links at temporary names that can be foreseen.
    stage.app(Mode::Record, "r", "linked").run().success();
    symlink(&victim, stage.join("t.json")).unwrap();
    let export = stage.clscope(["export", "chrome", "r.clscope", "-o", "t.json"]).run();
    assert_eq!(export.status.code(), Some(1));
    assert!(export.stderr.contains("symbolic link"), "{}", export.stderr);
    let merge = stage.clscope(["merge", "r.clscope", "-o", "t"]).run();
    assert_eq!(merge.status.code(), Some(1), "{}", merge.stderr);
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    // A merged trace is as private as a recorded one.
    stage.clscope(["merge", "r.clscope", "-o", "m"]).run().success();
    assert_eq!(mode(&stage.trace("m")), 0o700);
    assert_eq!(mode(&stage.trace("m").join("meta.json")), 0o600);
}
