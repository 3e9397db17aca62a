//! Kernels that are named as compilers of C++ and SYCL name them: outputs for people show the
//! readable names, different ones for different kernels; JSON documents keep the names of the
//! trace.

use clscope_tests::{Mode, Runtime, Stage, artifacts};
use serde_json::Value;
use std::collections::BTreeSet;

/// As the trace names them, and as people read them.
const KERNELS: [(&str, &str, &str); 6] = [
    ("_Z5scaleIfEvPT_", "scale<float>", "void scale<float>(float*)"),
    ("_ZN3sim4stepEPi", "sim::step(int*)", "sim::step(int*)"),
    ("_ZN3sim4stepEPf", "sim::step(float*)", "sim::step(float*)"),
    (
        "_ZTSZZ4mainENKUlRN4sycl3_V17handlerEE_clES2_EUlNS0_2idILi1EEEE_",
        "main::{lambda#1}::{lambda#1}",
        "main::{lambda(sycl::_V1::handler&)#1}::operator()(sycl::_V1::handler&) const::{lambda(sycl::_V1::id<1>)#1}",
    ),
    ("_ZTSN3app6ReduceE", "Reduce", "app::Reduce"),
    ("plain", "plain", "plain"),
];

fn stdout(stage: &Stage, words: &[&str]) -> String {
    stage.clscope(words).run().success().stdout
}

#[test]
fn outputs_for_people_show_readable_names_and_json_keeps_those_of_the_trace() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        stage.app(Mode::Record, "t", "mangled 4").run().success();
        let words = ["t.clscope", "--limit", "0"];
        let report = |more: &[&str]| stdout(&stage, &[&["report"], &words[..], more].concat());
        let (table, full, csv, page) = (
            report(&[]),
            report(&["--full-names"]),
            report(&["--format", "csv"]),
            report(&["--format", "html"]),
        );
        let folded = stdout(&stage, &["export", "folded", "t.clscope"]);
        let chrome = stdout(&stage, &["export", "chrome", "t.clscope", "-o", "-"]);
        let chrome: Value = serde_json::from_str(&chrome).unwrap();
        let spans: BTreeSet<(&str, &str)> = chrome["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|e| Some((e["name"].as_str()?, e["args"]["recorded_name"].as_str()?)))
            .collect();
        let diff = stdout(&stage, &["diff", "t.clscope", "t.clscope", "--limit", "0"]);
        let stack = |name: &str| name.replace(';', ":");
        for (recorded, short, long) in KERNELS {
            assert!(table.contains(short) && diff.contains(short), "{short}: {table}{diff}");
            assert!(full.contains(long), "{long}: {full}");
            assert!(csv.contains(short), "{short}: {csv}");
            assert!(folded.contains(&stack(short)), "{short}: {folded}");
            let html = short.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            assert!(page.contains(&html), "{html}");
            if recorded != short {
                for output in [&table, &full, &csv, &folded, &diff] {
                    assert!(!output.contains(recorded), "{recorded}: {output}");
                }
                assert!(spans.contains(&(short, recorded)), "{spans:?}");
            }
        }
        let json: Value = serde_json::from_str(&report(&["--format", "json"])).unwrap();
        assert_eq!(clscope_testing::schema::text_breaches(&json.to_string()), Vec::<String>::new());
        let names: BTreeSet<&str> = json["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|k| k["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, KERNELS.iter().map(|k| k.0).collect());
        let shown = json["display_names"].as_object().unwrap();
        assert_eq!(shown.len(), 5, "what is not mangled is not listed: {shown:?}");
        for (recorded, short, _) in KERNELS.iter().filter(|k| k.0 != k.1) {
            assert_eq!(shown[*recorded], *short);
        }
        let diff = stdout(&stage, &["diff", "t.clscope", "t.clscope", "--format", "json"]);
        let diff: Value = serde_json::from_str(&diff).unwrap();
        assert_eq!(diff["display_names"], json["display_names"]);
    }
}

#[test]
fn a_captured_kernel_is_shown_by_a_readable_name() {
    let stage = Stage::new(Runtime::Pocl);
    let app = clscope_tests::artifacts().fixture("mangled").display().to_string();
    let record = ["record", "-q", "-o", "t", "--capture", "_Z5scaleIfEvPT_", "--", &app, "4"];
    stage.clscope(record).run().success();
    let words = ["kernel", "t", "--sensors", "off", "--repeat", "2"];
    let short = stdout(&stage, &words);
    assert!(short.contains("of scale<float>\n"), "{short}");
    let full = stdout(&stage, &[&words[..], &["--full-names"]].concat());
    assert!(full.contains("of void scale<float>(float*)\n"), "{full}");
    for text in [short, full] {
        assert!(text.contains("recorded as _Z5scaleIfEvPT_"), "{text}");
    }
}

#[test]
fn kernels_are_meant_by_any_of_their_names() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "mangled 4").run().success();
    for name in ["_ZTSN3app6ReduceE", "Reduce", "app::Reduce"] {
        let told = stdout(&stage, &["explain", "t.clscope", name]);
        assert!(told.contains("\nReduce"), "{name}: {told}");
        assert!(!told.contains("sim::step"), "{name}: {told}");
        let json = stdout(&stage, &["explain", "t.clscope", name, "--format", "json"]);
        let json: Value = serde_json::from_str(&json).unwrap();
        let kernels = json["devices"][0]["kernels"].as_array().unwrap();
        assert_eq!(kernels.len(), 1, "{name}: {kernels:?}");
        assert_eq!(kernels[0]["kernel"], "_ZTSN3app6ReduceE");
        let report = stdout(&stage, &["report", "t.clscope", "--name", name, "--format", "json"]);
        let report: Value = serde_json::from_str(&report).unwrap();
        // Other tables tell of the whole run: what the host waited for names what ran meanwhile.
        let kernels = report["kernels"].as_array().unwrap();
        assert_eq!(kernels.len(), 1, "{name}: {kernels:?}");
        assert_eq!(kernels[0]["name"], "_ZTSN3app6ReduceE");
    }
}

/// What the recorder is asked for about a kernel, too.
#[test]
fn requests_mean_a_kernel_by_any_of_its_names() {
    let stage = Stage::new(Runtime::Pocl);
    let app = clscope_tests::artifacts().fixture("mangled").display().to_string();
    let record = |name: &str, options: &[&str]| {
        let words = [&["record", "-o", name], options, &["--", &app, "4"]].concat();
        stage.clscope(words).run().success().stderr
    };
    for (n, name) in
        ["scale<float>:2", "scale<*>:2", "void scale<float>(float*):2"].iter().enumerate()
    {
        let told = record(&format!("c{n}"), &["--capture", name]);
        assert!(told.contains("captured: launch 2 of scale<float>: "), "{name}: {told}");
        assert!(!told.contains("not captured"), "{name}: {told}");
    }
    let told = record("none", &["--capture", "sim::stop(int*)"]);
    let wanted = "no kernel has the name sim::stop(int*): nearest are ";
    assert!(told.contains(wanted) && !told.contains("_ZN3sim"), "{told}");

    let told = record("l", &["--local", "sim::step(int*)=2", "--local", "app::Reduce=4"]);
    for kernel in ["sim::step(int*): 2 (4 launches)", "Reduce: 4 (4 launches)"] {
        assert!(told.contains(&format!("local size of {kernel}")), "{kernel}: {told}");
    }
    let source = "kernel void _ZTSN3app6ReduceE(global int *a) { a[get_global_id(0)] += 5; }";
    std::fs::write(stage.join("reduce.cl"), source).unwrap();
    let told = record("r", &["--replace", "app::Reduce=reduce.cl"]);
    assert!(told.contains("replaced: Reduce by ") && told.contains("(4 launches)"), "{told}");

    record("k", &["--kernels", "scale<*>,plain"]);
    let json = stdout(&stage, &["report", "k.clscope", "--limit", "0", "--format", "json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let names: BTreeSet<&str> =
        json["kernels"].as_array().unwrap().iter().map(|k| k["name"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["_Z5scaleIfEvPT_", "plain"]));
}

#[test]
fn dump_shows_readable_names_and_both_where_a_kernel_is_defined() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "mangled 1").run().success();
    let (short, full, json, full_json) = (
        stdout(&stage, &["dump", "t.clscope"]),
        stdout(&stage, &["dump", "t.clscope", "--full-names"]),
        stdout(&stage, &["dump", "t.clscope", "--format", "json"]),
        stdout(&stage, &["dump", "t.clscope", "--format", "json", "--full-names"]),
    );
    let parsed = |text: &str| -> Vec<Value> {
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    let (lines, full_lines) = (parsed(&json), parsed(&full_json));
    for (recorded, shown, long) in KERNELS {
        assert!(short.contains(&format!(" kernel={shown} ")), "{shown}: {short}");
        assert!(full.contains(&format!(" kernel={long} ")), "{long}: {full}");
        for (lines, name) in [(&lines, shown), (&full_lines, long)] {
            let beside = (recorded != name).then_some(recorded);
            for event in ["call", "command"] {
                let enqueued =
                    lines.iter().find(|l| l["event"] == event && l["enqueue"]["kernel"] == name);
                let enqueued = enqueued.unwrap_or_else(|| panic!("{event} {name}: {json}"));
                assert_eq!(enqueued["enqueue"]["recorded_name"].as_str(), beside, "{enqueued}");
            }
        }
        let defined = lines.iter().find(|l| l["definition"]["name"] == recorded).unwrap();
        let readable = (recorded != shown).then_some(shown);
        assert_eq!(defined["definition"]["readable"].as_str(), readable, "{defined}");
    }
}

/// Where processes of several programs were recorded, the report names them, not the first alone.
#[test]
fn several_programs_are_named() {
    let stage = Stage::new(Runtime::FakeLoader);
    for name in ["first", "second", "third"] {
        std::fs::copy(artifacts().fixture("linked"), stage.join(name)).unwrap();
    }
    for (script, named) in [
        ("./first 3", "first 3: "),
        ("./first 3; ./first 4", "first 3: "),
        ("./first 3; ./second 3; ./first 4", "first and second: "),
        ("./first 3; ./second 3; ./third 3", "first and 2 more: "),
    ] {
        let record = ["record", "-q", "-f", "-o", "t", "--", "sh", "-c", script];
        Runtime::FakeLoader.select(stage.clscope(record)).run().success();
        let report = stdout(&stage, &["report", "t"]);
        assert!(report.starts_with(named), "{script}: {report}");
        let page = stdout(&stage, &["report", "t", "--format", "html"]);
        let runs = script.split(';').count();
        let names = named.trim_end_matches(": ");
        let title = match runs {
            1 => format!("<title>{names} – clscope"),
            _ => format!("<title>{}, {runs} processes – clscope", names.trim_end_matches(" 3")),
        };
        assert!(page.contains(&title), "{script}: no {title}");
    }
}
