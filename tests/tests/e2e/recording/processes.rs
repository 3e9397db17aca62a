//! Processes that come out of processes: each that uses OpenCL has its own files, and none writes
//! into another's.

use clscope_tests::{Mode, Recorded, Runtime, Stage, artifacts};
use std::path::Path;

/// Calls and launches of all processes, which must not be more or fewer than were made.
#[track_caller]
fn check(mode: Mode, line: &str, processes: usize, launches: usize) -> Recorded {
    let stage = Stage::new(Runtime::Pocl);
    let (finished, recorded) = stage.record(mode, line);
    assert_eq!(finished.status.code(), Some(0), "{mode:?} {line}: {}", finished.stderr);
    let labels: Vec<_> = recorded.processes.iter().map(|p| &p.label).collect();
    assert_eq!(recorded.processes.len(), processes, "{mode:?} {line}: {labels:?}");
    assert_eq!(recorded.launches(), launches, "{mode:?} {line}: {labels:?}");
    let losses: Vec<_> = recorded.issues.iter().filter(|i| i.kind.means_loss()).collect();
    assert!(losses.is_empty(), "{mode:?} {line}: {losses:?}");
    for process in &recorded.processes {
        process.assert_causal();
        assert_eq!(process.dropped, 0, "{}", process.label);
    }
    recorded
}

#[test]
fn a_forked_child_starts_its_own_file() {
    for mode in Mode::RECORDING {
        let recorded = check(mode, "fork_apps plain", 2, 20);
        let mut counts: Vec<_> = recorded
            .processes
            .iter()
            .map(|p| (p.launches(None), p.count("clSetKernelArg")))
            .collect();
        counts.sort_unstable();
        // The child: a hundred rounds of cheap calls. The parent: seven arguments, two runs.
        assert_eq!(counts, [(0, 100), (20, 7)], "{mode:?}");
    }
}

#[test]
fn a_child_of_a_raw_clone_starts_its_own_file() {
    for mode in Mode::RECORDING {
        let recorded = check(mode, "fork_apps clone", 2, 20);
        let mut counts: Vec<_> =
            recorded.processes.iter().map(|p| p.count("clSetKernelArg")).collect();
        counts.sort_unstable();
        assert_eq!(counts, [7, 100], "{mode:?}");
    }
}

#[test]
fn a_child_of_a_child_starts_its_own_file() {
    for mode in Mode::RECORDING {
        let recorded = check(mode, "fork_apps double", 3, 20);
        let mut counts: Vec<_> =
            recorded.processes.iter().map(|p| p.count("clSetKernelArg")).collect();
        counts.sort_unstable();
        assert_eq!(counts, [7, 100, 100], "{mode:?}");
    }
}

#[test]
fn children_without_calls_leave_no_file() {
    check(Mode::Preload, "fork_apps threads", 1, 20);
    check(Mode::Record, "fork_apps threads", 1, 20);
}

#[test]
fn fork_before_the_first_call_makes_two_complete_processes() {
    for mode in Mode::RECORDING {
        check(mode, "fork_apps early", 2, 20);
    }
}

#[test]
fn a_pool_of_children_makes_as_many_processes() {
    for mode in Mode::RECORDING {
        check(mode, "fork_apps pool 4", 5, 50);
    }
}

#[test]
fn programs_started_by_the_application_are_recorded() {
    for mode in Mode::RECORDING {
        check(mode, "fork_apps vfork", 2, 30);
        check(mode, "fork_apps exec", 2, 30);
    }
}

#[test]
fn exec_of_itself_makes_another_incarnation_of_the_same_pid() {
    for mode in Mode::RECORDING {
        let recorded = check(mode, "fork_apps self", 2, 20);
        let pids: Vec<_> = recorded.processes.iter().map(|p| p.definitions.process.pid).collect();
        assert_eq!(pids[0], pids[1], "{mode:?}");
        assert_ne!(recorded.processes[0].label, recorded.processes[1].label, "{mode:?}");
    }
}

/// A daemon leaves its parent before its first call: the recording goes on until it ends, also
/// where nobody else has called OpenCL.
#[test]
fn a_daemon_that_detaches_is_waited_for_and_recorded() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let (trace, outcome) = (stage.trace("t"), stage.join("outcome"));
        let run = stage
            .clscope(["record", "--wait", "100", "-o"])
            .arg(&trace)
            .arg("--")
            .arg(artifacts().fixture("fork_apps"))
            .arg("daemon")
            .arg(&outcome);
        let finished = stage.runtime.select(run).run().success();
        // It is written behind the last OpenCL call, which is what is waited for.
        let written = (0..1_000).find_map(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            std::fs::read_to_string(&outcome).ok().filter(|text| text.ends_with('\n'))
        });
        assert_eq!(written.as_deref(), Some("right\n"));
        assert!(!finished.stderr.contains("no OpenCL call"), "{}", finished.stderr);
        let recorded = Recorded::read(&[&trace]);
        assert_eq!(recorded.only().launches(None), 10);
        recorded.only().assert_all_timed();
    }
}

/// One that is left behind without a call yet is named, and recorded all the same.
#[test]
fn a_daemon_that_has_made_no_call_yet_is_named_and_recorded_later() {
    let stage = Stage::new(Runtime::Pocl);
    let (trace, outcome, gate) = (stage.trace("t"), stage.join("outcome"), stage.join("gate"));
    for fifo in [&outcome, &gate] {
        assert!(std::process::Command::new("mkfifo").arg(fifo).status().unwrap().success());
    }
    let run = stage
        .clscope(["record", "--wait", "0", "-o"])
        .arg(&trace)
        .arg("--")
        .arg(artifacts().fixture("fork_apps"))
        .arg("daemon")
        .args([&outcome, &gate]);
    let finished = stage.runtime.select(run).run().success();
    assert!(
        finished.stderr.contains("what the application left running has made none yet (process "),
        "{}",
        finished.stderr
    );
    std::fs::write(&gate, "").unwrap();
    assert_eq!(std::fs::read_to_string(&outcome).unwrap(), "right\n");
    assert_eq!(Recorded::read(&[&trace]).only().launches(None), 10);
}

/// PoCL's linker and shells inherit the preload and use no OpenCL.
#[test]
fn helpers_of_the_runtime_leave_no_files() {
    let stage = Stage::new(Runtime::Pocl);
    let cache = stage.join("empty-cache");
    std::fs::create_dir(&cache).unwrap();
    stage.app(Mode::Record, "t", "linked 3").env("POCL_CACHE_DIR", &cache).run().success();
    assert_eq!(Recorded::read(&[&stage.trace("t")]).processes.len(), 1);
}

#[test]
fn a_shell_that_starts_two_applications_gives_one_trace_of_two() {
    let stage = Stage::new(Runtime::Pocl);
    let app = artifacts().fixture("linked");
    let script = format!("'{0}' 5 && '{0}' 6", app.display());
    stage.program(Mode::Record, "t", "sh").args(["-c", &script]).run().success();
    let recorded = Recorded::read(&[&stage.trace("t")]);
    let mut launches: Vec<_> = recorded.processes.iter().map(|p| p.launches(None)).collect();
    launches.sort_unstable();
    assert_eq!(launches, [5, 6]);
}

/// Children of multiprocessing, forked and spawned, each use OpenCL by themselves, through ctypes.
#[test]
fn python_multiprocessing() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        return clscope_tests::skip("/usr/bin/python3 is not there", true);
    }
    for method in ["fork", "spawn", "forkserver"] {
        for mode in Mode::DLOPEN {
            let stage = Stage::new(Runtime::Pocl);
            let script = stage.join("pool.py");
            std::fs::write(&script, POOL).unwrap();
            let bare =
                stage.program(Mode::Bare, "bare", python).arg(&script).arg(method).run().success();
            let with = stage.program(mode, "t", python).arg(&script).arg(method).run();
            assert_eq!(with.seen(), bare.seen(), "{method} {mode:?}: {}", with.stderr);
            let recorded = Recorded::read(&[&stage.trace("t")]);
            let calls: Vec<_> =
                recorded.processes.iter().map(|p| p.count("clGetPlatformIDs")).collect();
            assert_eq!(calls, [2; 3], "{method} {mode:?}: three processes with two calls each");
        }
    }
}

const POOL: &str = r#"
import ctypes, multiprocessing, sys

def work(number):
    cl = ctypes.CDLL("libOpenCL.so.1")
    count = ctypes.c_uint()
    results = [cl.clGetPlatformIDs(0, None, ctypes.byref(count)) for _ in range(2)]
    return number, results, count.value

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    queue = []
    for number in range(3):
        # A process for each: the order of a pool's workers is nobody's promise.
        with context.Pool(1) as pool:
            queue.append(pool.apply(work, (number,)))
            pool.close()
            pool.join()
    print(sorted(queue))
"#;
