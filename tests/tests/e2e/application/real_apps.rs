//! Real applications, unmodified: clinfo, clpeak, a PyOpenCL program with the loader that its wheel
//! bundles, and a face detection on OpenCV's OpenCL path.

use clscope_tests::{Mode, Recorded, Runtime, Stage, artifacts, skip};
use std::path::{Path, PathBuf};

pub fn program(path: &str) -> Option<PathBuf> {
    let found = Path::new(path).exists().then(|| path.into());
    if found.is_none() {
        skip(&format!("{path} is not installed"), true);
    }
    found
}

/// A variable of the set-up script that names a file.
pub fn given(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os(name).map(PathBuf::from).filter(|p| p.exists());
    if found.is_none() {
        skip(&format!("{name} names no file: tools/setup/test.sh sets it"), true);
    }
    found
}

#[test]
fn clinfo_prints_the_same() {
    let Some(clinfo) = program("/usr/bin/clinfo") else { return };
    for runtime in Runtime::real() {
        for arguments in [&[][..], &["--raw"], &["--list"]] {
            let stage = Stage::new(runtime.clone());
            let run = |mode, name| {
                stage.program(mode, name, &clinfo).args(arguments).run().success().stdout
            };
            let mut bare = vec![run(Mode::Bare, "bare"), run(Mode::Bare, "bare")];
            // Lines that are not as without us. Free memory, clocks and the like change from run to
            // run: those in which runs without us differ do not count.
            let unlike = |text: &str, bare: &[String]| -> Vec<String> {
                let lines = |of: &str| of.lines().map(str::to_owned).collect::<Vec<_>>();
                let all: Vec<_> = bare.iter().map(|of| lines(of)).collect();
                let is_steady = |at: usize| all.iter().all(|of| of.get(at) == all[0].get(at));
                let differs =
                    |(at, line): &(usize, String)| is_steady(*at) && all[0].get(*at) != Some(line);
                lines(text).into_iter().enumerate().filter(differs).map(|(_, line)| line).collect()
            };
            for mode in Mode::RECORDING {
                let with = run(mode, "t");
                assert_eq!(with.lines().count(), bare[0].lines().count(), "{mode:?} {runtime:?}");
                if !unlike(&with, &bare).is_empty() {
                    // What changed since.
                    bare.push(run(Mode::Bare, "bare"));
                }
                let found = unlike(&with, &bare);
                assert!(found.is_empty(), "{mode:?} {runtime:?} {arguments:?}: {found:#?}");
                // It opens its loader by dlopen, so a preload alone is not in its way.
                if mode != Mode::Preload {
                    let recorded = Recorded::read(&[&stage.trace("t")]);
                    assert!(
                        recorded.processes.iter().all(|p| p.count("clGetPlatformIDs") >= 1),
                        "{mode:?}"
                    );
                }
                stage.forget("t");
            }
        }
    }
}

#[test]
fn clpeak_is_recorded_with_every_launch_timed() {
    let Some(clpeak) = program("/usr/bin/clpeak") else { return };
    for mode in Mode::RECORDING {
        let stage = Stage::new(Runtime::Pocl);
        let with = stage.program(mode, "t", &clpeak).arg("--kernel-latency").run().success();
        assert!(with.stdout.contains("Kernel launch latency"), "{}", with.stdout);
        let recorded = Recorded::read(&[&stage.trace("t")]);
        let process = recorded.only();
        assert!(process.launches(None) > 100, "{mode:?}: {}", process.launches(None));
        process.assert_all_timed();
        process.assert_causal();
    }
}

#[test]
fn pyopencl_with_its_own_loader_is_recorded() {
    let Some(python) = given("CLSCOPE_TEST_PYTHON") else { return };
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let script = stage.join("app.py");
        std::fs::write(&script, PYOPENCL).unwrap();
        let run = |mode, name: &str| {
            let run = stage.program(mode, name, &python).arg(&script).env("PYOPENCL_NO_CACHE", "1");
            run.env("PYOPENCL_CTX", "0").env("XDG_CACHE_HOME", stage.path()).run().success()
        };
        let bare = run(Mode::Bare, "bare");
        assert!(bare.stdout.contains("right"), "{}", bare.stdout);
        for mode in Mode::RECORDING {
            let name = format!("{mode:?}");
            let with = run(mode, &name);
            assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
            let recorded = Recorded::read(&[&stage.trace(&name)]);
            let process = recorded.processes.iter().max_by_key(|p| p.commands.len()).unwrap();
            assert_eq!(process.launches(Some("twice")), 20, "{mode:?} on {:?}", stage.runtime);
            process.assert_all_timed();
            process.assert_causal();
            let queue = process.definitions.queues.values().next().unwrap();
            assert_eq!(queue.properties & 2, 2, "the application asked for profiling itself");
            assert!(!queue.profiling_added);
        }
    }
}

/// The places are in PyOpenCL's own module, in every way in; further out lies the interpreter.
#[test]
fn launches_of_pyopencl_have_places() {
    let Some(python) = given("CLSCOPE_TEST_PYTHON") else { return };
    let stage = Stage::new(Runtime::Pocl);
    let script = stage.join("app.py");
    std::fs::write(&script, PYOPENCL).unwrap();
    for mode in Mode::RECORDING {
        let name = format!("{mode:?}");
        let run = stage
            .program(mode, &name, &python)
            .arg(&script)
            .env("PYOPENCL_NO_CACHE", "1")
            .env("PYOPENCL_CTX", "0");
        run.env("XDG_CACHE_HOME", stage.path()).env("CLSCOPE_CALL_SITES", "4").run().success();
        let trace = format!("{name}.clscope");
        let report = stage
            .clscope(["report", &trace, "--by", "call-site", "--format", "json"])
            .run()
            .success();
        let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
        let twice: Vec<_> = report["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|k| k["name"].as_str().unwrap().starts_with("twice @ "))
            .collect();
        assert_eq!(twice.iter().map(|k| k["count"].as_u64().unwrap()).sum::<u64>(), 20, "{mode:?}");
        let sites = report["call_sites"].as_array().unwrap();
        let first = sites.iter().map(|s| s["frames"][0]["module"].as_str().unwrap());
        assert!(
            first.clone().all(|m| m.contains("_cl")),
            "{mode:?}: {:?}",
            first.collect::<Vec<_>>()
        );
        assert!(sites.iter().all(|s| s["frames"].as_array().unwrap().len() == 4), "{mode:?}");
    }
}

/// Twenty launches and what they leave.
pub const PYOPENCL: &str = r#"
import numpy as np, pyopencl as cl
context = cl.Context([cl.get_platforms()[0].get_devices()[0]])
queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
values = np.arange(4096, dtype=np.int32)
buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
program = cl.Program(context, "kernel void twice(global int *a) { a[get_global_id(0)] *= 2; }").build()
kernel = cl.Kernel(program, "twice")
events = [kernel(queue, values.shape, None, buffer) for _ in range(20)]
cl.enqueue_copy(queue, values, buffer)
queue.finish()
ordered = all(e.profile.queued <= e.profile.submit <= e.profile.start <= e.profile.end for e in events)
print("right" if (values == (np.arange(4096, dtype=np.int64) << 20).astype(np.int32)).all() and ordered else "wrong")
print(queue.properties, events[0].get_info(cl.event_info.REFERENCE_COUNT))
"#;

/// OpenCV opens its loader by dlopen: every way but the preload sees all of it.
#[test]
fn face_detection_runs_on_opencl_and_finds_every_face() {
    let (Some(python), Some(photograph)) =
        (program("/usr/bin/python3"), given("CLSCOPE_TEST_PHOTOGRAPH"))
    else {
        return;
    };
    let script = artifacts::root().join("tools/setup/face_detect.py");
    let stage = Stage::new(Runtime::Pocl);
    let run = |mode, name: &str, option: Option<&str>| {
        let run = stage.program(mode, name, &python).arg(&script).args(option).arg(&photograph);
        run.env("OPENCV_OPENCL_DEVICE", ":CPU:")
            .env("OPENCV_OPENCL_CACHE_ENABLE", "0")
            .run()
            .success()
    };
    let host = run(Mode::Bare, "host", Some("--no-opencl"));
    let bare = run(Mode::Bare, "bare", None);
    assert_eq!(
        bare.stdout.lines().filter(|l| l.contains(": 1 face ")).count(),
        5,
        "{}",
        bare.stdout
    );
    assert_eq!(host.stdout.lines().count(), bare.stdout.lines().count());
    for mode in Mode::DLOPEN {
        let name = format!("{mode:?}");
        let with = run(mode, &name, None);
        assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
        let recorded = Recorded::read(&[&stage.trace(&name)]);
        let process = recorded.processes.iter().max_by_key(|p| p.commands.len()).unwrap();
        assert!(process.launches(None) >= 30, "{mode:?}: {} launches", process.launches(None));
        assert!(
            process.commands.iter().any(|c| c
                .kernel
                .as_deref()
                .is_some_and(|k| k.contains("lbp") || k.contains("LBP"))),
            "{mode:?}"
        );
        assert_launches_timed(process);
        assert_eq!(process.dropped, 0);
    }
    let report = stage.clscope(["report", "Record.clscope", "--format", "json"]).run().success();
    let report: serde_json::Value = serde_json::from_str(&report.stdout).unwrap();
    assert!(report["kernels"].as_array().is_some_and(|k| !k.is_empty()), "{report}");
    stage.clscope(["export", "chrome", "Record.clscope", "-o", "faces.json"]).run().success();
    let timeline: serde_json::Value =
        serde_json::from_slice(&std::fs::read(stage.join("faces.json")).unwrap()).unwrap();
    assert!(timeline["traceEvents"].as_array().is_some_and(|e| e.len() > 500));
}

/// The Haar cascade takes its OpenCL path on devices of this vendor.
#[test]
fn opencv_is_recorded_on_the_second_runtime_too() {
    let (Some(intel), Some(python), Some(photograph)) =
        (Runtime::intel(), program("/usr/bin/python3"), given("CLSCOPE_TEST_PHOTOGRAPH"))
    else {
        return;
    };
    let script = artifacts::root().join("tools/setup/face_detect.py");
    let Runtime::Intel(icd) = &intel else { return };
    // Debian's OpenCV brings an older TBB into the process than the runtime needs: the runtime's
    // own comes first.
    let library = std::fs::read_to_string(icd).unwrap();
    let libraries = Path::new(library.trim()).parent().unwrap().to_owned();
    let stage = Stage::new(intel);
    for mode in Mode::DLOPEN {
        let name = format!("{mode:?}");
        let run = stage
            .program(mode, &name, &python)
            .arg(&script)
            .arg("--haar")
            .arg(&photograph)
            .env("LD_LIBRARY_PATH", &libraries)
            .env("OCL_ICD_FILENAMES", library.trim());
        let with = run
            .env("OPENCV_OPENCL_DEVICE", ":CPU:")
            .env("OPENCV_OPENCL_CACHE_ENABLE", "0")
            .run()
            .success();
        assert_eq!(
            with.stdout.lines().filter(|l| l.contains(": 1 face ")).count(),
            5,
            "{}",
            with.stdout
        );
        let recorded = Recorded::read(&[&stage.trace(&name)]);
        let process = recorded.processes.iter().max_by_key(|p| p.commands.len()).unwrap();
        assert!(
            process.launches(Some("runHaarClassifier")) >= 5,
            "{mode:?}: {} launches",
            process.launches(None)
        );
        assert_launches_timed(process);
    }
}

/// OpenCV ends without waiting for its last commands, which are no launches.
#[track_caller]
fn assert_launches_timed(process: &clscope_tests::Process) {
    for command in process.commands.iter().filter(|c| c.kind.is_kernel()) {
        assert!(command.raw().is_some(), "{command:?}");
    }
    process.assert_causal();
}
