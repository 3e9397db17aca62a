//! What a run changes of its application on request (`record --replace`, `--options`,
//! `--local`): it does what was asked for, the application's objects stay its own, what cannot be
//! done leaves the application's and says why, and every output says so first.

use crate::application::real_apps::{PYOPENCL, given, program};
use clscope_tests::{Finished, Mode, Runtime, Stage, artifacts};
use serde_json::Value;
use std::path::PathBuf;

/// The kernel of `asks_back` as it is there.
const SAME: &str = "
#ifndef MORE
#define MORE 0
#endif
kernel void tell(global int *out, int add) {
  size_t i = get_global_id(1) * get_global_size(0) + get_global_id(0);
  out[i] = K + add + MORE;
  if (i == 0) out[64] = get_local_size(0) * 1000 + get_local_size(1);
}
";

/// Ways of injection that see a linked application.
const WAYS: [Mode; 3] = [Mode::Record, Mode::Preload, Mode::Layer];

fn file(stage: &Stage, name: &str, text: &str) -> String {
    std::fs::write(stage.join(name), text).unwrap();
    stage.join(name).display().to_string()
}

/// `asks_back`, with settings as the environment's.
fn run(stage: &Stage, mode: Mode, way: &str, settings: &[(&str, &str)]) -> Finished {
    stage.forget("t");
    let run = stage.app(mode, "t", "asks_back").arg(way);
    settings.iter().fold(run, |run, (name, value)| run.env(name, value)).run().success()
}

fn report(stage: &Stage) -> Value {
    let shown = stage.clscope(["report", "t", "--format", "json"]).run().success().stdout;
    serde_json::from_str(&shown).unwrap()
}

/// The reason of the only refusal in a list of changes.
fn why(of: &Value) -> String {
    let refused = of["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 1, "{of:#}");
    refused[0]["why"].as_str().unwrap().to_owned()
}

#[test]
fn a_kernel_runs_the_code_of_a_file_and_the_objects_stay_the_applications() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let same = file(&stage, "same.cl", SAME);
        let other = file(&stage, "other.cl", &SAME.replace("K + add", "K + add + 100"));
        for way in ["source", "clone"] {
            let bare = run(&stage, Mode::Bare, way, &[]).stdout;
            assert!(bare.contains("sum 768 local 4002"), "{bare}");
            let changed = bare.replace("sum 768", "sum 7168");
            for mode in WAYS {
                for (file, prints) in [(&same, &bare), (&other, &changed)] {
                    let set = format!("te?l={file}");
                    let with = run(&stage, mode, way, &[("CLSCOPE_REPLACE", &set)]);
                    assert_eq!(&with.stdout, prints, "{mode:?} {way}: {}", with.stderr);
                    let report = report(&stage);
                    let replaced = &report["changes"]["replaced"];
                    assert_eq!(replaced.as_array().unwrap().len(), 1, "{replaced:#}");
                    let one = &replaced[0];
                    assert_eq!(
                        (&one["kernel"], &one["file"], &one["launches"], &one["language"]),
                        (&"tell".into(), &file.as_str().into(), &3.into(), &"cl".into()),
                        "{one:#}"
                    );
                    assert_eq!(one["refused"], Value::Array(vec![]));
                    assert_eq!(report["changes"]["unmet"], Value::Array(vec![]));
                }
            }
        }
    }
}

#[test]
fn code_that_cannot_run_leaves_the_applications_and_says_why() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let bare = run(&stage, Mode::Bare, "source", &[]).stdout;
        for (name, text, says) in [
            ("broken.cl", "kernel void tell(global int *o, int a) { *o = nonsense; }", "nonsense"),
            ("count.cl", "kernel void tell(global int *o) { }", "arguments"),
            ("types.cl", "kernel void tell(global int *o, float a) { }", "float"),
            ("space.cl", "kernel void tell(constant int *o, int a) { }", "constant"),
            ("names.cl", "kernel void tel(global int *o) {} kernel void z() {}", "nearest: tel"),
            ("binary", "\x7fELF\0no binary", "failed"),
        ] {
            let path = file(&stage, name, text);
            let with = run(
                &stage,
                Mode::Record,
                "source",
                &[("CLSCOPE_REPLACE", &format!("tell={path}"))],
            );
            assert_eq!(with.stdout, bare, "{name}: {}", with.stderr);
            let one = report(&stage)["changes"]["replaced"][0].clone();
            assert_eq!(one["launches"], 0, "{name}: {one:#}");
            assert_eq!(one["refused"][0]["count"], 3, "{name}: {one:#}");
            assert!(why(&one).contains(says), "{name}: {}", why(&one));
        }
        // Without the command in between, the recorder itself says so, with the log.
        let path = stage.join("broken.cl").display().to_string();
        let set = format!("tell={path},tell=/never");
        let with = run(&stage, Mode::Preload, "source", &[("CLSCOPE_REPLACE", &set)]);
        assert!(
            with.stderr.contains("clscope: tell runs as the application made it"),
            "{}",
            with.stderr
        );
        assert!(with.stderr.contains("nonsense"), "{}", with.stderr);
        let code = "building it failed with CL_BUILD_PROGRAM_FAILURE (-11)";
        assert!(with.stderr.contains(code), "{}", with.stderr);
        let missing = stage.join("missing.cl").display().to_string();
        let set = format!("tell={missing}");
        let with = run(&stage, Mode::Layer, "source", &[("CLSCOPE_REPLACE", &set)]);
        assert_eq!(with.stdout, bare);
        assert!(with.stderr.contains("cannot be read"), "{}", with.stderr);
        let set = format!("tall={path}");
        run(&stage, Mode::Record, "source", &[("CLSCOPE_REPLACE", &set)]);
        let unmet = &report(&stage)["changes"]["unmet"][0];
        assert!(unmet["why"].as_str().unwrap().contains("nearest: tell"), "{unmet:#}");
        let set = format!("never={path}");
        run(&stage, Mode::Record, "source", &[("CLSCOPE_REPLACE", &set)]);
        let unmet = &report(&stage)["changes"]["unmet"][0];
        assert!(unmet["why"].as_str().unwrap().contains("never launched"), "{unmet:#}");
    }
}

#[test]
fn spirv_and_binaries_take_the_place_of_source() {
    let Some(intel) = Runtime::intel() else { return };
    let stage = Stage::new(intel);
    // A launch of mix_truth's kernels, from source, runs their SPIR-V: results stay.
    let kernels = |form: &str| -> PathBuf {
        artifacts::root().join(format!("tests/fixtures/mix/kernels.{form}"))
    };
    let app = |mode| stage.app(mode, "t", "mix_truth").arg(kernels("cl"));
    let bare = app(Mode::Bare).run().success().stdout;
    let set = format!("*={}", kernels("spv").display());
    let with = app(Mode::Record).env("CLSCOPE_REPLACE", set).run().success();
    assert_eq!(with.stdout, bare);
    let report = report(&stage);
    let replaced = report["changes"]["replaced"].as_array().unwrap();
    assert_eq!(replaced.len(), 12, "{replaced:#?}");
    for one in replaced {
        assert_eq!((&one["language"], &one["launches"]), (&"spv".into(), &1.into()), "{one:#}");
    }
    let listed = stage.clscope(["programs", "t"]).run().success().stdout;
    let hash = replaced[0]["hash"].as_str().unwrap();
    assert!(listed.contains(&format!("{hash}.spv")), "{listed}");
}

#[test]
fn options_are_appended_and_the_application_reads_its_own() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        for way in ["source", "callback"] {
            let bare = run(&stage, Mode::Bare, way, &[]).stdout;
            assert!(bare.contains("options [-DK=5] of 6"), "{bare}");
            for mode in WAYS {
                let with = run(&stage, mode, way, &[("CLSCOPE_APPEND_OPTIONS", "-DMORE=1000")]);
                assert_eq!(with.stdout, bare.replace("sum 768", "sum 64768"), "{mode:?} {way}");
                let changes = report(&stage)["changes"].clone();
                let one = &changes["appended_options"][0];
                assert_eq!(
                    (&one["options"], &one["programs"], &one["refused"]),
                    (&"-DMORE=1000".into(), &2.into(), &Value::Array(vec![])),
                    "{one:#}"
                );
            }
            // What does not build so is built as the application asked.
            let with = run(&stage, Mode::Record, way, &[("CLSCOPE_APPEND_OPTIONS", "-DK=x")]);
            assert_eq!(with.stdout, bare, "{way}: {}", with.stderr);
            let one = report(&stage)["changes"]["appended_options"][0].clone();
            assert_eq!((&one["programs"], &one["refused"][0]["count"]), (&1.into(), &1.into()));
            assert!(why(&one).contains("CL_BUILD_PROGRAM_FAILURE"), "{one:#}");
        }
    }
}

#[test]
fn launches_have_the_work_group_size_or_the_reason() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let bare = run(&stage, Mode::Bare, "source", &[]).stdout;
        for mode in WAYS {
            let with = run(&stage, mode, "source", &[("CLSCOPE_LOCAL", "tell=8x2,fixed=8x1")]);
            assert_eq!(with.stdout, bare.replace("local 4002", "local 8002"), "{mode:?}");
            let changes = report(&stage)["changes"].clone();
            let sizes = changes["local_sizes"].as_array().unwrap();
            let of = |kernel: &str| sizes.iter().find(|one| one["kernel"] == kernel).unwrap();
            assert_eq!((&of("fixed")["launches"], &of("tell")["launches"]), (&0.into(), &2.into()));
            assert!(why(of("fixed")).contains("requires 4x2x1"), "{sizes:#?}");
            assert!(why(of("tell")).contains("the launch has 1"), "{sizes:#?}");
            assert_eq!(of("tell")["refused"][0]["count"], 1);
            // What was launched is what is recorded.
            let dump = stage.clscope(["dump", "t"]).run().success().stdout;
            let launched = |local: &str| dump.matches(&format!("global=8x8 local={local}")).count();
            assert_eq!((launched("8x2"), launched("4x2")), (2, 1), "{dump}");
        }
        for (size, says) in
            [("3x3", "does not divide"), ("8x1x2", "3 dimensions"), ("4096x8", "takes")]
        {
            let with =
                run(&stage, Mode::Record, "source", &[("CLSCOPE_LOCAL", &format!("tell={size}"))]);
            assert_eq!(with.stdout, bare, "{size}: {}", with.stderr);
            let one = report(&stage)["changes"]["local_sizes"][0].clone();
            assert_eq!(one["launches"], 0, "{one:#}");
            let all = one["refused"].to_string();
            assert!(all.contains(says), "{size}: {all}");
        }
        // A size of 1 behind the others makes no other work-group: launches of one dimension, too.
        for size in ["8", "8x1", "8x1x1"] {
            let setting = ("CLSCOPE_LOCAL", format!("tell={size}"));
            run(&stage, Mode::Record, "source", &[(setting.0, &setting.1)]);
            let one = report(&stage)["changes"]["local_sizes"][0].clone();
            assert_eq!((&one["launches"], &one["refused"]), (&3.into(), &Value::Array(vec![])));
        }
    }
}

#[test]
fn every_output_says_first_what_was_changed() {
    let stage = Stage::new(Runtime::Pocl);
    let same = file(&stage, "s\u{1b}ame.cl", SAME);
    run(&stage, Mode::Record, "source", &[]);
    std::fs::rename(stage.trace("t"), stage.trace("plain")).unwrap();
    let options = ["record", "-f", "-o", "t", "--sensors", "off", "--replace"];
    let app = artifacts().fixture("asks_back").display().to_string();
    let replace = format!("tell={same}");
    let all = options.iter().copied().chain([replace.as_str(), "--local", "tell=8x2", "--", &app]);
    let told = stage.clscope(all).run().success().stderr;
    assert!(told.contains("changed: replaced: tell by "), "{told}");
    assert!(!told.contains('\u{1b}'), "{told}");
    let shown = |arguments: &[&str]| stage.clscope(arguments).run().success().stdout;
    let second = |text: &str| text.lines().nth(1).unwrap_or_default().to_owned();
    let text = shown(&["report", "--all", "t"]);
    assert!(second(&text).starts_with("  changed   replaced: tell by "), "{text}");
    assert!(text.contains("local size of tell: 8x2 (2 launches; 1 launch not: "), "{text}");
    assert!(!text.contains('\u{1b}'));
    assert!(shown(&["dump", "t"]).starts_with("changed: replaced: tell by "));
    let check = ["check", "--fail-on", "none"];
    let checked = |more: &[&str]| shown(&[&check, more].concat());
    assert!(checked(&["t"]).starts_with("changed: replaced: tell by "));
    let json: Value = serde_json::from_str(&checked(&["t", "--format", "json"])).unwrap();
    assert_eq!(json["changed"].as_array().unwrap().len(), 2, "{json:#}");
    assert!(!checked(&["plain"]).contains("changed"));
    let diff = shown(&["diff", "plain", "t"]);
    assert!(diff.starts_with("changed: new: local size of tell"), "{diff}");
    let diff: Value =
        serde_json::from_str(&shown(&["diff", "t", "plain", "--format", "json"])).unwrap();
    assert_eq!(diff["changed"].as_array().unwrap().len(), 2, "{diff:#}");
    stage.clscope(["export", "chrome", "t", "-o", "t.json"]).run().success();
    let chrome: Value =
        serde_json::from_slice(&std::fs::read(stage.join("t.json")).unwrap()).unwrap();
    assert_eq!(chrome["otherData"]["changed"].as_array().unwrap().len(), 2);
    stage.clscope(["export", "perfetto", "t", "-o", "t.pftrace"]).run().success();
    let perfetto = std::fs::read(stage.join("t.pftrace")).unwrap();
    let held = |what: &[u8]| perfetto.windows(what.len()).any(|w| w == what);
    assert!(held(b"replaced: tell by "));
    let page = shown(&["report", "t", "--format", "html"]);
    let (changed, figures) =
        (page.find("id=\"changed\"").unwrap(), page.find("class=\"figures\"").unwrap());
    assert!(changed < figures && page.contains("Changed: replaced: tell by"));
    // What has no place for it says it beside.
    let mut beside: Vec<Vec<&str>> = ["folded", "speedscope", "pprof", "parquet"]
        .into_iter()
        .map(|format| vec!["export", format, "t", "-o", format])
        .collect();
    beside.extend([vec!["explain", "t"], vec!["mix", "t"], vec!["top", "t", "--once"]]);
    for words in beside {
        let ran = stage.clscope(&words).run();
        // What came of it is not counted while an application runs.
        let word = if words[0] == "top" { "--replace tell=" } else { "replaced: tell by " };
        let told = ran.stderr.contains(&format!("the run was changed: {word}"));
        assert!(told && !ran.stderr.contains('\u{1b}'), "{words:?}: {}", ran.stderr);
        let words: Vec<&str> =
            words.iter().map(|word| if *word == "t" { "plain" } else { *word }).collect();
        let _ = std::fs::remove_dir_all(stage.join("parquet"));
        let ran = stage.clscope(&words).run();
        assert!(!ran.stderr.contains("was changed"), "{words:?}: {}", ran.stderr);
    }
    let stat = ["stat", "-r", "2", "--sensors", "off", "--replace", &replace, "--", &app];
    let told = stage.clscope(stat).run().stderr;
    assert!(told.contains("changed: replaced: tell by "), "{told}");
    // A plain run has none of it.
    let plain = shown(&["report", "plain", "--format", "json"]);
    let plain: Value = serde_json::from_str(&plain).unwrap();
    assert_eq!(plain["changes"], Value::Null);
    assert!(!shown(&["report", "--all", "plain"]).contains("changed"));
}

#[test]
fn what_cannot_be_right_is_refused_before_the_application_runs() {
    let stage = Stage::new(Runtime::Pocl);
    let same = file(&stage, "same.cl", SAME);
    let folder = stage.path().display().to_string();
    let with = |options: &[&str]| {
        let run = stage.clscope(["record", "-o", "no"]).args(options);
        let ended = run.args(["--", "/bin/echo", "ran"]).run();
        assert!(!ended.status.success() && !ended.stdout.contains("ran"), "{options:?}");
        ended.stderr
    };
    for (options, says) in [
        (&["--replace", "tell"][..], "KERNEL=FILE"),
        (&["--replace", "tell=missing.cl"], "cannot open missing.cl"),
        (&["--replace", &format!("tell={folder}")], "a directory"),
        (&["--replace", "tell=/dev/null"], "a device"),
        (&["--replace", &format!("tell={same}"), "--mix"], "--mix"),
        (&["--local", "tell=8", "--capture", "tell"], "--capture"),
        (&["--local", "tell=8x8x8x8"], "one to three sizes"),
        (&["--local", "tell=0"], "sizes of 1 or more"),
        (&["--local", "tell"], "KERNEL=SIZES"),
        (&["--options", " "], "options of the OpenCL compiler"),
    ] {
        let told = with(options);
        assert!(told.contains(says), "{options:?}: {told}");
    }
    // The environment's are told and not heeded.
    let bare = run(&stage, Mode::Bare, "source", &[]).stdout;
    for (name, value) in [("CLSCOPE_LOCAL", "tell=0"), ("CLSCOPE_REPLACE", "x")] {
        let odd = run(&stage, Mode::Preload, "source", &[(name, value)]);
        assert_eq!(odd.stdout, bare);
        assert!(
            odd.stderr.contains(&format!("{name}={value}: expected KERNEL=")),
            "{}",
            odd.stderr
        );
    }
}

/// OpenCV opens its loader by dlopen.
#[test]
fn a_face_detection_runs_replaced_kernels_and_other_work_groups() {
    let (Some(python), Some(photograph)) =
        (program("/usr/bin/python3"), given("CLSCOPE_TEST_PHOTOGRAPH"))
    else {
        return;
    };
    let script = artifacts::root().join("tools/setup/face_detect.py");
    let stage = Stage::new(Runtime::Pocl);
    let run = |mode, name: &str, settings: &[(&str, String)]| {
        let run = stage.program(mode, name, &python).arg(&script).arg(&photograph);
        let run = run.env("OPENCV_OPENCL_DEVICE", ":CPU:").env("OPENCV_OPENCL_CACHE_ENABLE", "0");
        // It fails where it finds no face.
        settings.iter().fold(run, |run, (name, value)| run.env(name, value)).run().stdout
    };
    let faces = run(Mode::Record, "t", &[]);
    assert!(faces.contains(": 1 face "), "{faces}");
    stage.clscope(["programs", "t", "--output", "sources"]).run().success();
    let source = std::fs::read_dir(stage.join("sources"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("runLBP"))
        .unwrap();
    let text = std::fs::read_to_string(&source).unwrap();
    assert!(text.contains("int lx = get_local_id(0);"), "{text}");
    let blind = text.replace("int lx = get_local_id(0);", "return; int lx = get_local_id(0);");
    let blind = file(&stage, "blind.cl", &blind);
    for mode in [Mode::Record, Mode::Layer] {
        stage.forget("t");
        let settings = [
            ("CLSCOPE_REPLACE", format!("runLBP*={}", source.display())),
            ("CLSCOPE_LOCAL", "resizeLN=8x2,RGB2Gray=16x4".to_owned()),
        ];
        assert_eq!(run(mode, "t", &settings), faces, "{mode:?}");
        let changes = report(&stage)["changes"].clone();
        let replaced = &changes["replaced"][0];
        assert_eq!(replaced["kernel"], "runLBPClassifierStumpSimple");
        assert_eq!(replaced["launches"], 5, "{changes:#}");
        let sizes = changes["local_sizes"].as_array().unwrap();
        assert_eq!(sizes.len(), 2, "{changes:#}");
        for one in sizes {
            assert_eq!((&one["launches"], &one["refused"]), (&5.into(), &Value::Array(vec![])));
        }
        stage.forget("t");
        let unseen = run(mode, "t", &[("CLSCOPE_REPLACE", format!("runLBP*={blind}"))]);
        assert!(!unseen.contains(": 1 face ") && unseen.contains(": 0 faces"), "{unseen}");
    }
}

#[test]
fn a_kernel_of_pyopencl_runs_other_code() {
    let Some(python) = given("CLSCOPE_TEST_PYTHON") else { return };
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let script = file(&stage, "app.py", PYOPENCL);
        let run = |mode, replace: &str| {
            stage.forget("t");
            let run = stage.program(mode, "t", &python).arg(&script).env("PYOPENCL_NO_CACHE", "1");
            let run = run.env("PYOPENCL_CTX", "0").env("XDG_CACHE_HOME", stage.path());
            run.env("CLSCOPE_REPLACE", format!("twice={replace}")).run().success().stdout
        };
        let same = "kernel void twice(global int *a) { int i = get_global_id(0); a[i] += a[i]; }";
        let same = file(&stage, "same.cl", same);
        let other = file(&stage, "other.cl", "kernel void twice(global int *a) { a[0] = 1; }");
        for mode in WAYS {
            assert!(run(mode, &same).starts_with("right"), "{mode:?}");
            assert_eq!(report(&stage)["changes"]["replaced"][0]["launches"], 20, "{mode:?}");
            assert!(run(mode, &other).starts_with("wrong"), "{mode:?}");
        }
    }
}
