//! The application always starts: where no trace can be made, one line says why, and what the
//! application does and how it ends are its own. `--require-trace` starts nothing then.

use crate::application::faults::Tmpfs;
use clscope_tests::{Finished, Mode, Run, Runtime, Stage, artifacts};

/// An application that ends with exit code 7.
const APP: [&str; 3] = ["die", "exit", "10"];

/// Why no trace can be made, and the place that is asked for.
type Hindrance = (&'static str, std::path::PathBuf);

/// The application under a command of clscope, with a trace at a place.
fn started(stage: &Stage, command: &[&str], place: &std::path::Path) -> Run {
    let (name, arguments) = APP.split_first().expect("a fixture");
    let run = stage.clscope(command).arg("-o").arg(place).arg("--");
    run.arg(artifacts().fixture(name)).args(arguments)
}

fn said(finished: &Finished) -> Vec<&str> {
    finished
        .stderr
        .lines()
        .filter(|line| line.starts_with("clscope: nothing is recorded: "))
        .collect()
}

#[test]
fn an_application_whose_trace_cannot_be_made_runs_as_without_us() {
    let stage = Stage::new(Runtime::FakeLoader);
    let bare = stage.app(Mode::Bare, "bare", &APP.join(" ")).run();
    assert_eq!(bare.status.code(), Some(7));
    let mut hindrances: Vec<Hindrance> = vec![
        ("is no directory", stage.join("file")),
        ("mkdir -p", stage.join("no/parent")),
        ("choose another place", "/proc/trace".into()),
        ("holds a trace already", stage.join("taken")),
        ("is not set", stage.join("%q{NOT_SET_ANYWHERE}")),
        ("no part of a trace", stage.join("foreign")),
    ];
    // The first trace of `stat` has a number.
    for number in ["", "-1"] {
        std::fs::write(stage.trace(&format!("file{number}")), "").unwrap();
        for (name, file) in [("taken", "1-0.defs"), ("foreign", "thesis.tex")] {
            let trace = stage.trace(&format!("{name}{number}"));
            std::fs::create_dir(&trace).unwrap();
            std::fs::write(trace.join(file), "").unwrap();
        }
    }
    let file_systems = [
        ("is full", "full", "size=64k"),
        ("No space left", "no-inodes", "size=4m,nr_inodes=2"),
        ("Read-only file system", "read-only", "ro"),
    ];
    let mounted: Vec<_> = file_systems
        .iter()
        .filter_map(|(why, name, options)| {
            let disk = Tmpfs::new(&stage.join(name), options)?;
            hindrances.push((why, disk.0.join("trace")));
            Some(disk)
        })
        .collect();
    for (why, place) in &hindrances {
        for command in [&["record"][..], &["record", "-q"], &["stat"], &["check"]] {
            let with = started(&stage, command, place).run();
            assert_eq!(with.seen(), bare.seen(), "{command:?} {why}: {}", with.stderr);
            let said = said(&with);
            assert_eq!(said.len(), 1, "{command:?} {why}: {}", with.stderr);
            assert!(said[0].contains(why), "{command:?} {why}: {}", with.stderr);
            let command = [command, &["--require-trace"]].concat();
            let with = started(&stage, &command, place).run();
            assert_eq!((with.status.code(), &*with.stdout), (Some(1), ""), "{command:?} {why}");
            assert!(with.stderr.contains(why), "{command:?} {why}: {}", with.stderr);
        }
    }
    for disk in &mounted {
        let left = std::fs::read_dir(&disk.0).unwrap().count();
        assert_eq!(left, 0, "{}: what was begun is taken back", disk.0.display());
    }
}

/// Where the command's own file has room and the recorder's have none, the recorder says so.
#[test]
fn an_application_runs_where_there_is_room_for_a_part_of_the_trace() {
    let stage = Stage::new(Runtime::FakeLoader);
    let bare = stage.app(Mode::Bare, "bare", &APP.join(" ")).run();
    for inodes in 2..=7 {
        let options = format!("size=4m,nr_inodes={inodes}");
        let Some(disk) = Tmpfs::new(&stage.join(&format!("{inodes}")), &options) else { return };
        for command in [&["record", "-f"][..], &["stat", "-f"], &["check"]] {
            let with = started(&stage, command, &disk.0.join(command[0])).run();
            assert_eq!(with.seen(), bare.seen(), "{command:?} {inodes}: {}", with.stderr);
            assert_ne!(with.stderr, "", "{command:?} {inodes}");
        }
    }
}

/// The application's standard streams are those of whoever starts it, closed ones too.
#[test]
fn streams_that_are_closed_are_closed_for_the_application() {
    let stage = Stage::new(Runtime::FakeLoader);
    let command = artifacts().clscope();
    let own = "for s in 0 1 2; do [ -e /proc/$$/fd/$s ] && all=$all$s; done; echo open $all >told";
    for (closed, open) in
        [("", "012"), ("<&-", "12"), (">&-", "02"), ("2>&-", "01"), ("<&- >&- 2>&-", "")]
    {
        for record in [String::new(), format!("'{}' record -q -f -o t --", command.display())] {
            let script = format!("exec {record} sh -c '{own}' {closed}");
            stage.program(Mode::Bare, "bare", "sh").args(["-c", &script]).run().success();
            let told = std::fs::read_to_string(stage.join("told")).unwrap();
            assert_eq!(told.trim_end().trim_start_matches("open"), format!(" {open}").trim_end());
        }
    }
}

/// Traces that are not kept lie in a folder for temporary files.
#[test]
fn an_application_runs_where_there_is_no_folder_for_temporary_files() {
    let stage = Stage::new(Runtime::FakeLoader);
    let bare = stage.app(Mode::Bare, "bare", &APP.join(" ")).run();
    for command in ["stat", "check"] {
        let run = stage.clscope([command, "--"]).env("TMPDIR", stage.join("none"));
        let with = run.arg(artifacts().fixture(APP[0])).args(&APP[1..]).run();
        assert_eq!(with.seen(), bare.seen(), "{command}: {}", with.stderr);
        assert_eq!(said(&with).len(), 1, "{command}: {}", with.stderr);
    }
}

/// A run that is not recorded is not judged: no exit code of `check` says that nothing was found.
#[test]
fn check_passes_no_run_that_it_could_not_record() {
    let stage = Stage::new(Runtime::FakeLoader);
    let run = |options: &[&str]| {
        stage.clscope(["check", "-o", "no/parent"]).args(options).args(["--", "true"]).run()
    };
    assert_eq!(run(&[]).status.code(), Some(4));
    assert_eq!(run(&["--fail-on", "none"]).status.code(), Some(0));
}

/// Little of what a process may have: recorded, or said, and never another result than bare.
#[test]
fn little_stack_memory_descriptors_and_file_sizes_do_not_stop_the_application() {
    let limits = [
        (libc::RLIMIT_STACK, &[512 << 10, 256 << 10, 128 << 10][..]),
        (libc::RLIMIT_NOFILE, &[4, 5, 6, 8, 12, 20]),
        (libc::RLIMIT_FSIZE, &[1 << 10, 4 << 10, 64 << 10]),
        (libc::RLIMIT_AS, &[200 << 20, 400 << 20, 1 << 30]),
    ];
    let stage = Stage::new(Runtime::FakeLoader);
    for (resource, values) in limits {
        for value in values {
            let run =
                |mode| stage.app(mode, "t", &APP.join(" ")).resource_limit(resource, *value).run();
            let (bare, with) = (run(Mode::Bare), run(Mode::Record));
            assert_eq!(with.seen(), bare.seen(), "limit {resource} at {value}: {}", with.stderr);
        }
    }
}
