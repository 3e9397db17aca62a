//! Applications of which nothing can be recorded, or less: no loader, no platform, no OpenCL. They run
//! as without us, and `record` says in words what is wrong, with the next step.

use clscope_tests::{Limited, Mode, Recorded, Runtime, Stage};
use std::process::Command;

#[test]
fn an_application_without_any_opencl_loader_behaves_the_same() {
    let stage = Stage::new(Runtime::Pocl);
    let bare = stage.app(Mode::Bare, "bare", "dlopen_by_name libNoSuchOpenCL.so.1 local").run();
    assert_eq!(bare.status.code(), Some(4));
    for mode in Mode::RECORDING {
        let with = stage.app(mode, "t", "dlopen_by_name libNoSuchOpenCL.so.1 local").run();
        assert_eq!(with.seen(), bare.seen(), "{mode:?}: {}", with.stderr);
    }
}

#[test]
fn an_application_without_a_platform_behaves_the_same_and_is_recorded() {
    let stage = Stage::new(Runtime::Pocl);
    let empty = stage.join("no-drivers");
    std::fs::create_dir(&empty).unwrap();
    let bare = stage.app(Mode::Bare, "bare", "linked 3").env("OCL_ICD_VENDORS", &empty).run();
    assert_eq!(bare.status.code(), Some(5));
    for mode in Mode::RECORDING {
        let name = format!("{mode:?}");
        let with = stage.app(mode, &name, "linked 3").env("OCL_ICD_VENDORS", &empty).run();
        assert_eq!(with.seen(), bare.seen(), "{mode:?}");
        assert_eq!(
            with.stderr.lines().last(),
            bare.stderr.lines().last(),
            "the application's own message is unchanged"
        );
        if mode == Mode::Preload {
            let recorded = Recorded::read(&[&stage.trace(&name)]);
            let process = recorded.only();
            let call = process.calls.iter().find(|c| c.name == "clGetPlatformIDs").unwrap();
            assert_eq!(call.result, -1001, "CL_PLATFORM_NOT_FOUND_KHR is recorded");
        }
    }
}

#[test]
fn record_says_what_is_wrong_with_its_application() {
    let stage = Stage::new(Runtime::Pocl);
    std::fs::write(stage.join("text"), "no program").unwrap();
    for (arguments, code, word) in [
        (&["record", "--", "no-such-program"][..], 127, "no-such-program"),
        (&["record", "--", "./text"], 126, "text"),
        (&["record", "--no-such-option", "--", "true"], 2, "--no-such-option"),
        (&["record"], 2, "APP"),
        (&["record", "--device-timing", "sundial", "--", "true"], 2, "sundial"),
        (&["no-such-command"], 2, "no-such-command"),
    ] {
        let finished = stage.clscope(arguments).run();
        assert_eq!(finished.status.code(), Some(code), "{arguments:?}: {}", finished.stderr);
        assert!(finished.stderr.contains(word), "{arguments:?}: {}", finished.stderr);
        assert_eq!(finished.stdout, "", "{arguments:?}");
    }
}

#[test]
fn record_says_why_a_static_application_left_nothing() {
    let stage = Stage::new(Runtime::Pocl);
    let source = stage.join("static.c");
    std::fs::write(&source, "int main(void) { return 3; }").unwrap();
    let app = stage.join("static");
    let built = Command::new("gcc").args(["-static", "-o"]).arg(&app).arg(&source).ended();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let finished = stage.clscope(["record", "-o", "t", "--", "./static"]).run();
    assert_eq!(finished.status.code(), Some(3));
    assert!(finished.stderr.contains("static"), "{}", finished.stderr);
}

#[test]
fn record_says_why_an_application_without_opencl_left_nothing() {
    let stage = Stage::new(Runtime::Pocl);
    let finished = stage.clscope(["record", "-o", "t", "--", "/bin/true"]).run();
    assert_eq!(finished.status.code(), Some(0));
    assert!(finished.stderr.contains("OpenCL"), "{}", finished.stderr);
}

#[test]
fn standard_input_goes_to_the_application() {
    let stage = Stage::new(Runtime::Pocl);
    std::fs::write(stage.join("in"), "line one\nline two\n").unwrap();
    let input = std::fs::File::open(stage.join("in")).unwrap();
    let finished = stage.program(Mode::Record, "t", "/bin/cat").stdin(input).run().success();
    assert_eq!(finished.stdout, "line one\nline two\n");
}
