//! The ways in which applications reach OpenCL, against the ways in which the recorder comes in:
//! what each sees.

use clscope_tests::{Limited, Mode, Recorded, Runtime, Stage, artifacts, system_loader};
use std::path::Path;
use std::process::Command;

/// Launches of a run, or `None` where no trace was left.
#[track_caller]
fn launches(stage: &Stage, mode: Mode, line: &str) -> Option<usize> {
    let finished = stage.app(mode, "t", line).run();
    assert_eq!(finished.status.code(), Some(0), "{mode:?} {line}: {}", finished.stderr);
    let trace = stage.trace("t");
    let any = trace.is_dir()
        && std::fs::read_dir(&trace)
            .unwrap()
            .any(|e| e.unwrap().path().extension().is_some_and(|x| x == "defs"));
    any.then(|| Recorded::read(&[&trace]).launches())
}

#[test]
fn a_linked_application_is_seen_once_in_every_way() {
    for mode in Mode::RECORDING {
        assert_eq!(launches(&Stage::new(Runtime::Pocl), mode, "linked 10"), Some(10), "{mode:?}");
    }
}

#[test]
fn an_application_that_opens_its_loader_is_seen_by_all_but_the_preload() {
    let absolute = system_loader();
    let real = std::fs::canonicalize(&absolute).unwrap().display().to_string();
    for name in ["libOpenCL.so.1", "libOpenCL.so", "libOpenCL.so.1.0.0", &absolute, &real] {
        for flags in ["local", "global", "local deepbind", "lazy"] {
            let line = format!("dlopen_by_name {name} {flags} 10");
            for mode in Mode::DLOPEN {
                assert_eq!(
                    launches(&Stage::new(Runtime::Pocl), mode, &line),
                    Some(10),
                    "{mode:?} {line}"
                );
            }
        }
        let line = format!("dlopen_by_name {name} local 10");
        assert_eq!(
            launches(&Stage::new(Runtime::Pocl), Mode::Preload, &line),
            None,
            "{line}: a preload alone is not in the way"
        );
    }
}

#[test]
fn a_loader_without_layers_is_seen_through_the_audit_shim() {
    for folder in ["fake", "fake-unversioned"] {
        let loader = artifacts().fixture(folder).join("libOpenCL.so.1");
        for mode in [Mode::Audit, Mode::Record] {
            let line = format!("dlopen_by_name {} local 10", loader.display());
            assert_eq!(
                launches(&Stage::new(Runtime::FakeLoader), mode, &line),
                Some(10),
                "{mode:?} {line}"
            );
        }
        for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
            let stage = Stage::new(Runtime::FakeLoader);
            let run = |mode, name| {
                stage
                    .app(mode, name, "linked 10")
                    .env("LD_LIBRARY_PATH", artifacts().fixture(folder))
                    .run()
                    .success()
            };
            let versions = |stderr: &str| stderr.matches("no version information").count();
            let (bare, with) = (run(Mode::Bare, "bare"), run(mode, "t"));
            assert_eq!(versions(&with.stderr), versions(&bare.stderr), "{}", with.stderr);
            assert_eq!(Recorded::read(&[&stage.trace("t")]).launches(), 10, "{mode:?} {folder}");
        }
    }
}

#[test]
fn each_loader_of_a_process_keeps_its_own_calls() {
    let fake = artifacts().fixture("fake/libOpenCL.so.1").display().to_string();
    // Three rounds of five launches on each of two loaders.
    for (line, mode) in [
        (format!("two_loaders libOpenCL.so.1 {fake}"), Mode::Audit),
        (format!("two_loaders {fake} {}", system_loader()), Mode::Audit),
        (format!("two_loaders libOpenCL.so.1 {fake}"), Mode::Record),
    ] {
        let stage = Stage::new(Runtime::Pocl);
        let (_, recorded) = stage.record(mode, &line);
        let process = recorded.only();
        assert_eq!(process.launches(Some("vector_add")), 30, "{mode:?} {line}");
        let platforms: Vec<_> =
            process.definitions.platforms.values().map(|p| p.name.as_str()).collect();
        assert_eq!(platforms.len(), 2, "{mode:?} {line}: {platforms:?}");
    }
}

#[test]
fn the_real_functions_are_those_of_the_applications_own_loader() {
    // The system's loader would find PoCL; the application's search path leads to another library.
    let stage = Stage::new(Runtime::FakeLoader);
    for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
        let (_, recorded) = stage.record(mode, "linked 3");
        let names: Vec<_> =
            recorded.only().definitions.devices.values().map(|d| d.name.clone()).collect();
        assert!(names.iter().all(|n| n.contains("Fake")), "{mode:?}: {names:?}");
    }
}

/// Whether it comes back to the same address each time, or another library lies there meanwhile.
#[test]
fn a_loader_that_is_closed_and_opened_again_is_seen_each_time() {
    let stage = Stage::new(Runtime::Pocl);
    // Other libraries, small enough for the place that the loader leaves.
    let other = artifacts().fixture("oa_shim.so");
    let copies: Vec<String> = (0..5)
        .map(|i| {
            let copy = stage.join(&format!("libother{i}.so"));
            std::fs::copy(&other, &copy).unwrap();
            copy.display().to_string()
        })
        .collect();
    for mode in Mode::DLOPEN {
        for others in ["", &copies.join(" ")] {
            let line = format!("dlclose_loader libOpenCL.so.1 6 {others}");
            for fixed in [false, true] {
                stage.forget("t");
                let app = stage.app(mode, "t", &line);
                let app = if fixed { app.without_address_randomisation() } else { app };
                let told = app.run().success().stderr;
                let launches = Recorded::read(&[&stage.trace("t")]).launches();
                assert_eq!(launches, 30, "{mode:?} {line}, fixed addresses: {fixed}: {told}");
            }
        }
    }
}

#[test]
fn a_loader_for_which_no_slot_is_left_runs_as_without_us_and_is_named() {
    let stage = Stage::new(Runtime::Pocl);
    let loaders: Vec<String> = (0..4)
        .map(|i| {
            let copy = stage.join(&format!("libOpenCL{i}.so"));
            std::fs::copy(system_loader(), &copy).unwrap();
            copy.display().to_string()
        })
        .collect();
    let line = format!("two_loaders {}", loaders.join(" "));
    let bare = stage.app(Mode::Bare, "b", &line).run().success();
    let layer = stage.app(Mode::Layer, "t", &line).run();
    assert_eq!(layer.seen(), bare.seen(), "{}", layer.stderr);
    assert!(
        layer.stderr.contains("calls through another one are not recorded"),
        "{}",
        layer.stderr
    );
    let recorded = Recorded::read(&[&stage.trace("t")]);
    // Three rounds of five launches on the two loaders that are told apart.
    assert_eq!(recorded.launches(), 30);
    let codes: Vec<_> =
        recorded.only().definitions.warnings.iter().map(|w| w.code.as_str()).collect();
    assert!(codes.contains(&"loader-left-out"), "{codes:?}");
    let trace = stage.trace("u").display().to_string();
    let mut words = line.split(' ');
    let app = artifacts().fixture(words.next().unwrap());
    let told = stage
        .clscope(["record", "-f", "-o", &trace, "--inject", "layer", "--"])
        .arg(app)
        .args(words)
        .run()
        .success();
    assert!(told.stderr.contains("calls through another one"), "{}", told.stderr);
}

/// Intel's wheel brings the Khronos loader, which asks layers through clInitLayerWithProperties.
#[test]
fn the_khronos_loader_is_seen_in_every_way() {
    let Some(Runtime::Intel(icd)) = Runtime::intel() else { return };
    let runtime = std::fs::read_to_string(&icd).unwrap().trim().to_owned();
    let libraries = Path::new(&runtime).parent().unwrap();
    let places = [libraries.join("libOpenCL.so.1"), libraries.join("../loader/libOpenCL.so.1")];
    let Some(loader) = places.into_iter().find(|p| p.is_file()) else {
        return clscope_tests::skip("the Khronos loader is not beside Intel's runtime", true);
    };
    // The loader needs libraries that lie beside the runtime.
    let path = format!("{}:{}", loader.parent().unwrap().display(), libraries.display());
    for mode in Mode::RECORDING {
        let stage = Stage::new(Runtime::Intel(icd.clone()));
        let app = |name, line: &str| {
            stage
                .app(mode, name, line)
                .env("LD_LIBRARY_PATH", &path)
                .env("OCL_ICD_FILENAMES", &runtime)
        };
        let finished = app("t", "linked 10").run().success();
        assert_eq!(
            Recorded::read(&[&stage.trace("t")]).launches(),
            10,
            "{mode:?}: {}",
            finished.stderr
        );
        if mode != Mode::Preload {
            app("u", &format!("dlopen_by_name {} local 10", loader.display())).run().success();
            assert_eq!(Recorded::read(&[&stage.trace("u")]).launches(), 10, "{mode:?}");
        }
    }
}

/// Its runtime must be loaded first, or it refuses to start.
#[test]
fn an_application_with_address_sanitizer_is_recorded() {
    let asan = artifacts().fixture("linked.asan");
    if !asan.is_file() {
        return clscope_tests::skip("gcc has no AddressSanitizer", true);
    }
    for (mode, line) in [
        (Mode::Record, "linked.asan 10"),
        (Mode::Layer, "linked.asan 10"),
        (Mode::Record, "threads.asan calls 4 50"),
    ] {
        let stage = Stage::new(Runtime::Pocl);
        let (finished, recorded) = stage.record(mode, line);
        assert_eq!(finished.status.code(), Some(0), "{mode:?}: {}", finished.stderr);
        assert_eq!(
            recorded.launches(),
            if line.starts_with("linked") { 10 } else { 200 },
            "{mode:?}"
        );
    }
}

#[test]
fn an_applications_own_preload_is_kept() {
    let stage = Stage::new(Runtime::Pocl);
    let source = stage.join("own.c");
    std::fs::write(&source, "#include <stdlib.h>\n#include <unistd.h>\n__attribute__((destructor)) static void f(void) { if (getenv(\"OWN\")) write(1, \"own\\n\", 4); }\n").unwrap();
    let own = stage.join("own.so");
    assert!(
        Command::new("gcc")
            .args(["-shared", "-fPIC", "-w", "-o"])
            .arg(&own)
            .arg(&source)
            .ended()
            .status
            .success()
    );
    let finished = stage
        .app(Mode::Record, "t", "linked 10")
        .env("LD_PRELOAD", &own)
        .env("OWN", "1")
        .run()
        .success();
    assert!(finished.stdout.ends_with("own\n"), "{}", finished.stdout);
    assert_eq!(Recorded::read(&[&stage.trace("t")]).launches(), 10);
}

#[test]
fn extension_functions_are_seen_through_their_pointers() {
    let stage = Stage::new(Runtime::FakeLoader);
    let source = stage.join("ext.c");
    std::fs::write(
        &source,
        r#"
        #define CL_TARGET_OPENCL_VERSION 300
        #include <CL/cl.h>
        #include <CL/cl_ext.h>
        #include <stdio.h>
        int main(void) {
            cl_platform_id p; cl_device_id d; cl_uint n; cl_int err;
            if (clGetPlatformIDs(1, &p, &n) || clGetDeviceIDs(p, CL_DEVICE_TYPE_ALL, 1, &d, &n)) return 5;
            cl_context c = clCreateContext(0, 1, &d, 0, 0, &err);
            clCreateCommandQueueWithPropertiesKHR_fn make = (clCreateCommandQueueWithPropertiesKHR_fn)
                clGetExtensionFunctionAddressForPlatform(p, "clCreateCommandQueueWithPropertiesKHR");
            printf("known %d\n", make != 0);
            if (make) { cl_command_queue q = make(c, d, 0, &err); printf("queue %d %d\n", q != 0, err); if (q) clReleaseCommandQueue(q); }
            cl_int (*secret)(cl_int) = (cl_int (*)(cl_int))clGetExtensionFunctionAddressForPlatform(p, "clSecretFAKE");
            printf("secret %d\n", secret ? secret(41) : -1);
            printf("unknown %d\n", clGetExtensionFunctionAddressForPlatform(p, "clNoSuchThing") != 0);
            return clReleaseContext(c);
        }"#,
    )
    .unwrap();
    let app = stage.join("ext");
    assert!(
        Command::new("gcc")
            .arg("-w")
            .arg("-o")
            .arg(&app)
            .arg(&source)
            .arg("-lOpenCL")
            .ended()
            .status
            .success()
    );
    let bare = stage.program(Mode::Bare, "bare", &app).run().success();
    for mode in [Mode::Preload, Mode::Audit, Mode::Record] {
        let name = format!("{mode:?}");
        let with = stage.program(mode, &name, &app).run();
        assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
        let recorded = Recorded::read(&[&stage.trace(&name)]);
        let process = recorded.only();
        assert_eq!(
            process.count("clCreateCommandQueueWithPropertiesKHR"),
            usize::from(bare.stdout.contains("known 1")),
            "{mode:?}"
        );
        assert_eq!(process.count("clGetExtensionFunctionAddressForPlatform"), 3, "{mode:?}");
    }
}

/// The loader opens our library anew in the middle of the first call, before its constructors ran:
/// the dynamic linker then makes the thread's state anew.
#[test]
fn a_first_call_from_a_librarys_constructor_is_recorded_once() {
    for runtime in [Runtime::real(), vec![Runtime::FakeDriver]].concat() {
        let stage = Stage::new(runtime.clone());
        let (finished, alone) = stage.record(Mode::Preload, "early 5");
        assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr);
        let count = |of: &Recorded| of.only().count("clGetPlatformIDs");
        for mode in Mode::RECORDING {
            let (with, recorded) = stage.record(mode, "early 5");
            assert_eq!(with.stdout, finished.stdout, "{mode:?}: {}", with.stderr);
            let process = recorded.only();
            assert_eq!(process.launches(None), 5, "{mode:?} {runtime:?}");
            // A layer does not see how the loader finds its platforms.
            if mode != Mode::Layer {
                assert_eq!(count(&recorded), count(&alone), "{mode:?} {runtime:?}");
            }
            assert!(process.in_calls.is_empty(), "{mode:?}: {:?}", process.in_calls);
            assert!(process.calls.iter().all(|c| c.end >= c.begin), "{mode:?}");
            let codes = recorded.issue_codes();
            assert!(!codes.contains(&"time-ran-back"), "{mode:?}: {codes:?}");
        }
    }
}

#[test]
fn of_two_copies_of_the_recorder_one_records() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let copy = stage.join("another.so");
        std::fs::copy(artifacts().recorder(), &copy).unwrap();
        let (_, alone) = stage.record(Mode::Preload, "linked 10");
        let both = format!("{}:{}", artifacts().recorder().display(), copy.display());
        for (mode, name, value) in [
            (Mode::Layer, "OPENCL_LAYERS", both.clone()),
            (Mode::Audit, "OPENCL_LAYERS", copy.display().to_string()),
            (Mode::Preload, "OPENCL_LAYERS", copy.display().to_string()),
            (Mode::Record, "OPENCL_LAYERS", copy.display().to_string()),
            (Mode::Preload, "LD_PRELOAD", both),
        ] {
            stage.forget("t");
            stage.app(mode, "t", "linked 10").env(name, &value).run().success();
            let recorded = Recorded::read(&[&stage.trace("t")]);
            let process = recorded.only();
            assert_eq!(process.launches(None), 10, "{mode:?} {name}={value}");
            for function in ["clSetKernelArg", "clCreateBuffer", "clFinish"] {
                let expected = alone.only().count(function);
                assert_eq!(process.count(function), expected, "{function} {mode:?} {name}");
            }
        }
    }
}
