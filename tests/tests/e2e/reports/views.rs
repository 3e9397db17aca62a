//! Flame graphs and differences of real applications: they hold the report's figures, and are what
//! their readers expect.

use crate::exports::perfetto::face_detection;
use clscope_testing::Limited;
use clscope_tests::artifacts::root;
use clscope_tests::{Mode, Runtime, Stage, skip};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn report(stage: &Stage, trace: &str) -> Value {
    let run = stage.clscope(["report", trace, "--format", "json"]).run().success();
    serde_json::from_str(&run.stdout).unwrap()
}

/// Weights by the innermost frame.
fn folded(stage: &Stage, trace: &str, weight: &str) -> BTreeMap<String, u64> {
    let run = stage.clscope(["export", "folded", trace, "--weight", weight]).run().success();
    let mut out = BTreeMap::new();
    for line in run.stdout.lines() {
        let (stack, weight) = line.rsplit_once(' ').unwrap();
        let frame = stack.rsplit(';').next().unwrap();
        *out.entry(frame.to_owned()).or_default() += weight.parse::<u64>().unwrap();
    }
    out
}

/// The fields of a protobuf message: number, and a number or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Result<u64, &[u8]>)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let length = bytes.iter().position(|b| b & 0x80 == 0).unwrap() + 1;
        let (own, rest) = bytes.split_at(length);
        *bytes = rest;
        own.iter().rev().fold(0, |n, b| n << 7 | u64::from(b & 0x7f))
    }
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let value = match tag & 7 {
            0 => Ok(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (own, rest) = bytes.split_at(length);
                bytes = rest;
                Err(own)
            }
            kind => panic!("a field of kind {kind}"),
        };
        out.push((tag >> 3, value));
    }
    out
}

/// A profile of pprof (github.com/google/pprof, profile.proto) holds the report's time, launches
/// and bytes, by the innermost function of each stack.
#[track_caller]
fn assert_pprof(bytes: &[u8], report: &Value) {
    let profile = fields(bytes);
    let of = |number: u64| profile.iter().filter(move |f| f.0 == number).map(|f| f.1);
    let number_of = |message: &[u8], number: u64| {
        fields(message).iter().find(|f| f.0 == number).map(|f| f.1.unwrap())
    };
    let strings: Vec<&str> = of(6).map(|s| std::str::from_utf8(s.unwrap_err()).unwrap()).collect();
    assert_eq!(strings[0], "");
    let units: Vec<&str> =
        of(1).map(|t| strings[number_of(t.unwrap_err(), 2).unwrap() as usize]).collect();
    assert_eq!(units, ["nanoseconds", "microjoules", "count", "bytes"]);
    let names: BTreeMap<u64, &str> = of(5)
        .map(|f| f.unwrap_err())
        .map(|f| (number_of(f, 1).unwrap(), strings[number_of(f, 2).unwrap() as usize]))
        .collect();
    let functions: BTreeMap<u64, u64> = of(4)
        .map(|l| l.unwrap_err())
        .map(|l| {
            let line = fields(l).into_iter().find(|f| f.0 == 4).unwrap().1.unwrap_err();
            (number_of(l, 1).unwrap(), number_of(line, 1).unwrap())
        })
        .collect();
    let mut sums: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for sample in of(2) {
        let parts = fields(sample.unwrap_err());
        let all = |number| parts.iter().filter(move |f| f.0 == number).map(|f| f.1.unwrap());
        let innermost = names[&functions[&all(1).next().unwrap()]];
        let sum = sums.entry(innermost).or_default();
        assert_eq!(all(2).count(), 4);
        sum.iter_mut().zip(all(2)).for_each(|(sum, value)| *sum += value);
    }
    for kernel in report["kernels"].as_array().unwrap() {
        let sum = sums[kernel["name"].as_str().unwrap()];
        let want = [&kernel["time_ns"]["total"], &kernel["count"]].map(|n| n.as_u64().unwrap());
        assert_eq!([sum[0], sum[2]], want, "{kernel}");
    }
    for transfer in report["transfers"].as_array().unwrap() {
        let sum = sums[transfer["name"].as_str().unwrap()];
        assert_eq!(Some(sum[3]), transfer["bytes"].as_u64(), "{transfer}");
    }
}

#[test]
fn stacks_of_a_face_detection_hold_the_reports_figures() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(()) = face_detection(&stage) else { return };
    let report = report(&stage, "t.clscope");
    let kernels = report["kernels"].as_array().unwrap();
    let (times, counts) =
        (folded(&stage, "t.clscope", "time"), folded(&stage, "t.clscope", "count"));
    assert!(kernels.len() > 3);
    for kernel in kernels {
        let name = kernel["name"].as_str().unwrap();
        assert_eq!(times[name], kernel["time_ns"]["total"].as_u64().unwrap(), "{name}");
        assert_eq!(counts[name], kernel["count"].as_u64().unwrap(), "{name}");
    }
    let bytes = folded(&stage, "t.clscope", "bytes");
    let transfers = report["transfers"].as_array().unwrap();
    assert!(!transfers.is_empty(), "{report:#}");
    for transfer in transfers {
        let name = transfer["name"].as_str().unwrap();
        assert_eq!(bytes[name], transfer["bytes"].as_u64().unwrap(), "{name}");
    }
    // The other formats hold the same.
    stage.clscope(["export", "speedscope", "t.clscope", "-o", "s.json"]).run().success();
    let file: Value =
        serde_json::from_slice(&std::fs::read(stage.join("s.json")).unwrap()).unwrap();
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    let profile = &file["profiles"][0];
    assert_eq!((&profile["type"], &profile["unit"]), (&"sampled".into(), &"nanoseconds".into()));
    let frames = file["shared"]["frames"].as_array().unwrap();
    let samples = profile["samples"].as_array().unwrap();
    let weights = profile["weights"].as_array().unwrap();
    let mut found: BTreeMap<String, u64> = BTreeMap::new();
    for (sample, weight) in samples.iter().zip(weights) {
        let frame = sample.as_array().unwrap().last().unwrap().as_u64().unwrap() as usize;
        let name = frames[frame]["name"].as_str().unwrap();
        *found.entry(name.to_owned()).or_default() += weight.as_u64().unwrap();
    }
    assert_eq!(found, times);
    assert_eq!(profile["endValue"].as_u64(), Some(times.values().sum()));
    stage.clscope(["export", "pprof", "t.clscope"]).run().success();
    let packed = std::fs::read(stage.join("t.pb.gz")).unwrap();
    assert_eq!(packed[..2], [0x1f, 0x8b], "compressed");
    let mut gzip = std::process::Command::new("gzip");
    let unpacked = gzip.arg("-dc").arg(stage.join("t.pb.gz")).ended();
    assert_pprof(&unpacked.stdout, &report);
    let none = stage.clscope(["export", "folded", "t.clscope", "--weight", "energy"]).run();
    assert!(!none.status.success() && none.stderr.contains("no joules"), "{}", none.stderr);
}

/// What was measured is what all stacks hold together, and kernels keep their part.
#[test]
fn stacks_by_joules_add_up_to_what_was_measured() {
    let stage = Stage::new(Runtime::Pocl);
    crate::energy::emulated(&stage);
    let stacks = folded(&stage, "t.clscope", "energy");
    let energy = report(&stage, "t.clscope")["energy"]["devices"][0].clone();
    let measured = energy["measured_joules"].as_f64().unwrap() * 1e6;
    let rest = energy["unattributed_joules"].as_f64().unwrap() * 1e6;
    let all: u64 = stacks.values().sum();
    // A line has no negative weight: what was attributed too much is left out.
    let want = measured - rest.min(0.0);
    assert!(
        (all as f64 - want).abs() <= stacks.len() as f64 + 1.0,
        "{all} and not {want}: {stacks:?}"
    );
}

#[test]
fn a_run_differs_from_itself_in_nothing_and_limits_give_code_3() {
    let stage = Stage::new(Runtime::Pocl);
    for (name, launches) in [("a", "linked 100"), ("b", "linked 100"), ("c", "linked 150")] {
        stage.app(Mode::Record, name, launches).run().success();
    }
    let diff = |arguments: &[&str]| stage.clscope(["diff"]).args(arguments).run();
    let same =
        diff(&["a.clscope", "a.clscope", "--format", "json", "--fail-on", "time:+1%,count:+1%"]);
    let same: Value = serde_json::from_str(&same.success().stdout).unwrap();
    assert_eq!(same["comparable"], true);
    let rows = same["rows"].as_array().unwrap();
    assert!(rows.iter().any(|r| r["section"] == "kernel" && r["metric"] == "time"), "{same}");
    for row in rows {
        // What single runs do not show is assumed, and the document says so; what is not judged has
        // no interval.
        let is_judged = row["outcome"] != "not-judged" && !row["change"].is_null();
        let assumes = is_judged && ["time", "energy"].contains(&row["metric"].as_str().unwrap());
        assert_eq!(row["assumed_spread"].as_f64(), assumes.then_some(0.05), "{row}");
        assert!(is_judged || row["change"]["low"].is_null(), "{row}");
        assert!(row["change"].is_null() || row["change"]["value"] == 0.0, "{row}");
        assert!(!["more", "less"].contains(&row["outcome"].as_str().unwrap()), "{row}");
    }
    // Half as many launches again.
    let more = diff(&["a.clscope", "c.clscope", "--fail-on", "count:+10%"]);
    assert_eq!(more.status.code(), Some(3), "{}{}", more.stdout, more.stderr);
    assert!(more.stdout.contains("OVER THE LIMIT"), "{}", more.stdout);
    let junit = diff(&["a.clscope", "c.clscope", "--fail-on", "count:+10%", "--format", "junit"]);
    assert_eq!(junit.status.code(), Some(3));
    assert!(junit.stdout.contains("<failure message="), "{}", junit.stdout);
    // Several runs a side: their spread is the noise, and no note is needed.
    let several = diff(&["a.clscope,b.clscope", "b.clscope,a.clscope", "--format", "json"]);
    let several: Value = serde_json::from_str(&several.success().stdout).unwrap();
    assert_eq!(several["notes"].as_array().unwrap().len(), 0);
    let assumed = several["rows"].as_array().unwrap().iter().map(|r| &r["assumed_spread"]);
    assert!(assumed.clone().all(Value::is_null), "{several}");
    assert!(
        several["rows"].as_array().unwrap().iter().all(|r| r["outcome"] != "more"),
        "{several}"
    );
    for format in ["markdown", "html", "table"] {
        let shown = diff(&["a.clscope", "c.clscope", "--format", format]).success().stdout;
        assert!(shown.contains("launches"), "{format}: {shown}");
        assert!(shown.contains("assuming 5 % between runs"), "{format}: {shown}");
    }
}

/// A limit of joules that no sensor measured is not kept: it cannot be judged.
#[test]
fn a_limit_of_what_was_not_measured_is_an_error() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        stage.app(Mode::Record, "a", "linked 20").run().success();
        stage.app(Mode::Record, "b", "linked 20").run().success();
        let judged = |more: &[&str]| stage.clscope(["diff", "a.clscope", "b.clscope"]).args(more);
        let told = judged(&["--fail-on", "count:+5%,energy:+5%"]).run();
        assert_eq!(told.status.code(), Some(1), "{}{}", told.stdout, told.stderr);
        let why = "energy of no kernel is known on either side";
        assert!(told.stderr.contains("--fail-on cannot be judged"), "{}", told.stderr);
        assert!(told.stderr.contains(why) && told.stdout.contains(why), "{}", told.stdout);
        let junit = judged(&["--fail-on", "energy:+5%", "--format", "junit"]).run();
        assert!(junit.stdout.contains("<error message=\"energy"), "{}", junit.stdout);
        // Without the limit nothing is wrong, and nothing is 0 that is not known.
        let shown = judged(&[]).run().success().stdout;
        assert!(!shown.contains(" nJ") && !shown.contains("-0.0"), "{shown}");
        let document = judged(&["--format", "json"]).run().success().stdout;
        let document: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(document["unjudged"], Value::Array(Vec::new()));
        let rows = document["rows"].as_array().unwrap();
        assert!(rows.iter().all(|r| r["metric"] != "energy"), "{document}");
        // Joules on one side only.
        crate::energy::emulated(&stage);
        let one = stage.clscope(["diff", "t.clscope", "a.clscope", "--fail-on", "energy:+5%"]);
        let one = one.run();
        assert_eq!(one.status.code(), Some(1), "{}{}", one.stdout, one.stderr);
    }
}

/// Another timing method is another measurement.
#[test]
fn what_cannot_be_compared_is_named_and_not_judged() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "a", "linked 100").run().success();
    stage.app(Mode::Record, "b", "linked 100").env("CLSCOPE_DEVICE_TIMING", "sync").run().success();
    let told =
        stage.clscope(["diff", "a.clscope", "b.clscope", "--format", "json"]).run().success();
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(
        (&told["comparable"], &told["differences"][0]["what"]),
        (&false.into(), &"device timing".into())
    );
    let judged =
        |row: &&Value| ["more", "less", "same"].contains(&row["outcome"].as_str().unwrap());
    let times = told["rows"].as_array().unwrap().iter().filter(|r| r["metric"] == "time");
    assert_eq!(times.filter(judged).count(), 0, "{told}");
    // Half as many launches again have no outcome either, in no format.
    stage.app(Mode::Record, "c", "linked 150").run().success();
    for format in ["table", "markdown", "html", "junit"] {
        let arguments = ["diff", "b.clscope", "c.clscope", "--limit", "0", "--format", format];
        let shown = stage.clscope(arguments).run();
        let shown = shown.success().stdout;
        assert!(shown.contains("differ in device timing") || format == "junit", "{shown}");
        assert!(shown.contains("+50.0 %"), "{format}: {shown}");
        for word in ["slower", "faster", "unclear", "same", "more", "less", " to -", " to +"] {
            assert!(!shown.contains(word), "{format}: {word}: {shown}");
        }
    }
    let refused = stage.clscope(["diff", "a.clscope", "b.clscope", "--fail-on", "time:+5%"]).run();
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stderr.contains("differ in device timing"), "{}", refused.stderr);
    let none = stage.clscope(["diff", "a.clscope", "none.clscope"]).run();
    assert!(none.status.code() == Some(1) && none.stderr.contains("none.clscope"));
}

/// The exact figures behind the cells of a row.
fn figures(row: &str) -> Vec<Option<f64>> {
    let cells = row.split("data-v=\"").skip(1).map(|c| c.split('"').next().unwrap());
    cells.map(|c| (!c.is_empty()).then(|| c.parse().unwrap())).collect()
}

/// Rows of a section of the page that begin with a name.
fn row<'p>(page: &'p str, section: &str, name: &str) -> &'p str {
    let from = page.find(&format!("<section id=\"{section}\">")).expect("the section");
    let section = &page[from..];
    let section = &section[..section.find("</section>").unwrap()];
    let begin = [
        format!("<td class=\"name\">{name}<"),
        format!("<td>{name}<"),
        format!("<td class=\"name\">{name} <"),
    ];
    let mut rows = section.split("<tr>");
    rows.find(|r| begin.iter().any(|b| r.starts_with(b.as_str())))
        .unwrap_or_else(|| panic!("no row of {name}"))
}

#[test]
fn the_page_of_a_face_detection_holds_the_reports_figures() {
    let stage = Stage::new(Runtime::Pocl);
    let Some(()) = face_detection(&stage) else { return };
    let report = report(&stage, "t.clscope");
    stage.clscope(["report", "t.clscope", "--format", "html", "-o", "r.html"]).run().success();
    let page = std::fs::read_to_string(stage.join("r.html")).unwrap();
    let number = |v: &Value| v.as_f64();
    // The reader of JSON may err by the last bit.
    let same = |found: &[Option<f64>], want: &[Option<f64>]| {
        let close = |(a, b): (&Option<f64>, &Option<f64>)| match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() <= 4.0 * f64::EPSILON * b.abs(),
            (a, b) => a == b,
        };
        assert!(
            found.len() == want.len() && found.iter().zip(want).all(close),
            "{found:?} {want:?}"
        );
    };
    for kernel in report["kernels"].as_array().unwrap() {
        let time = &kernel["time_ns"];
        let want = [
            &kernel["share"],
            &time["total"],
            &kernel["count"],
            &time["mean"],
            &time["median"],
            &time["p95"],
            &time["min"],
            &time["max"],
        ];
        let found = figures(row(&page, "kernels", kernel["name"].as_str().unwrap()));
        same(&found[..8], &want.map(number));
    }
    for function in report["functions"].as_array().unwrap() {
        let time = &function["time_ns"];
        let want = [
            &function["share"],
            &time["total"],
            &function["calls"],
            &time["mean"],
            &time["median"],
            &time["p95"],
            &time["max"],
            &function["errors"],
        ];
        let found = figures(row(&page, "functions", function["name"].as_str().unwrap()));
        same(&found, &want.map(number));
    }
    let transfer = &report["transfers"][0];
    let found = figures(row(&page, "transfers", transfer["name"].as_str().unwrap()));
    same(&found[8..], &[number(&transfer["bytes"]), number(&transfer["gigabytes_per_second"])]);
    for idle in report["idle"].as_array().unwrap() {
        let found = figures(row(&page, "idle", idle["cause"].as_str().unwrap()));
        same(&found, &[number(&idle["share"]), number(&idle["time_ns"])]);
    }
    // Whatever the browser could fetch would be named by one of these, or by the style.
    for outside in [" src=", "url(", "@import", "<link", "<iframe", "<form"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'") && !page.contains("unsafe-inline"));
    assert!(page.len() < 16 << 20);
    let refused =
        stage.clscope(["report", "t.clscope", "--format", "html", "--max-size", "3"]).run();
    assert!(!refused.status.success() && refused.stderr.contains("1MiB"), "{}", refused.stderr);
}

/// The script of a page in Node, on elements that keep what is drawn: each span of the trace is
/// there with its length, and a click says what the trace says.
#[test]
fn the_timeline_of_a_page_draws_the_trace() {
    if !clscope_testing::installed("node") {
        return skip("node is not installed: it runs the page's script", true);
    }
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "linked 5").run().success();
    let run = |name: &str| -> Value {
        let page = [name, ".html"].concat();
        let arguments = ["report", name, "--format", "html", "-o", &page];
        stage.clscope(arguments).run().success();
        let mut node = std::process::Command::new("node");
        let node = node.arg(root().join("tests/browser/page.mjs")).arg(stage.join(&page)).ended();
        assert!(node.status.success(), "{}", String::from_utf8_lossy(&node.stderr));
        serde_json::from_slice(&node.stdout).unwrap()
    };
    let drawn = run("t");
    assert_eq!((&drawn["drawn"], &drawn["told"]), (&true.into(), &"".into()), "{drawn}");
    let report = report(&stage, "t.clscope");
    let lanes = drawn["facts"]["lanes"].as_array().unwrap();
    let spans = |device: bool| -> u64 {
        let of = lanes.iter().filter(|l| l["device"] == device);
        of.map(|l| l["spans"].as_u64().unwrap()).sum()
    };
    assert_eq!(Some(spans(true)), report["totals"]["timed"].as_u64());
    for kernel in report["kernels"].as_array().unwrap() {
        let classes = drawn["facts"]["classes"].as_array().unwrap();
        assert!(classes.contains(&kernel["name"]), "{classes:?}");
    }
    let texts = drawn["texts"].as_array().unwrap();
    assert!(
        texts.contains(&"devices busy".into()) && texts.iter().any(|t| t == "0 ns"),
        "{texts:?}"
    );
    assert!(drawn["boxes"].as_u64().unwrap() > 10, "{drawn}");
    let said = drawn["said"].as_array().unwrap();
    let says = |part: &str| said.iter().any(|s| s.as_str().unwrap().contains(part));
    assert!(says("after its call began") && says("clock bound ±") && says("begin "), "{said:?}");
    assert!(!says("J ± "), "no sensor, no joules: {said:?}");
    // With a sensor a command says its joules, and the kernel's watts are the report's.
    crate::energy::emulated(&stage);
    let drawn = run("t");
    let energy = self::report(&stage, "t.clscope");
    let classes = energy["energy"]["devices"][0]["classes"].as_array().unwrap();
    let known: Vec<f64> = classes.iter().filter_map(|c| c["watts"]["value"].as_f64()).collect();
    let watts = drawn["facts"]["watts"].as_array().unwrap();
    let watts: Vec<f64> = watts.iter().filter_map(Value::as_f64).collect();
    assert!(!watts.is_empty(), "{drawn}");
    for w in &watts {
        assert!(known.iter().any(|k| (k / w - 1.0).abs() < 1e-12), "{w} is none of {known:?}");
    }
    let said = drawn["said"].as_array().unwrap();
    let joules = said.iter().filter_map(Value::as_str).find(|s| s.contains("J ± "));
    let joules = joules.unwrap_or_else(|| panic!("no joules in {said:?}"));
    assert!(joules.contains(" W ± ") && joules.contains("(95 %)"), "{joules}");
}

/// A report of an application that still runs says so, and as of when, before any figure.
#[test]
fn a_report_of_a_running_application_says_that_it_runs() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let (mut app, pid) = crate::reports::top::stepwise(&stage);
        app.tell("10");
        let told = |of: &Value| of["processes"][0]["running_as_of"].as_str().map(str::to_owned);
        let document = report(&stage, "t.clscope");
        let as_of = told(&document).unwrap_or_else(|| panic!("{document}"));
        assert!(as_of.ends_with('Z') && as_of.len() == 20, "{as_of}");
        assert_eq!(document["processes"][0]["pid"].to_string(), pid);
        let codes = |of: &Value| -> Vec<String> {
            of["issues"].as_array().unwrap().iter().map(|i| i["code"].to_string()).collect()
        };
        assert!(codes(&document).contains(&"\"still-running\"".to_owned()), "{document}");
        assert!(!codes(&document).contains(&"\"not-ended\"".to_owned()), "{document}");
        let sentence = format!("process {pid} still runs: all figures are as of 2");
        for format in ["table", "html"] {
            let run = stage.clscope(["report", "t.clscope", "--format", format]).run().success();
            let at = run.stdout.find(&sentence);
            let at = at.unwrap_or_else(|| panic!("{format}: {}", run.stdout));
            assert!(at < run.stdout.find("vector_add").unwrap(), "{format}: before the figures");
            assert!(run.stderr.contains("still runs"), "{format}: {}", run.stderr);
            assert!(!run.stderr.contains("was killed"), "{format}: {}", run.stderr);
        }
        // What runs is not whole, and no side of a comparison.
        stage.app(Mode::Record, "other", "linked 10").run().success();
        let diff = stage.clscope(["diff", "other.clscope", "t.clscope"]).run().success().stdout;
        assert!(diff.contains("not comparable: new run t.clscope ended early"), "{diff}");
        assert!(app.end().success());
        let ended = report(&stage, "t.clscope");
        assert!(told(&ended).is_none() && ended["processes"][0]["ended"] == true, "{ended}");
        let text = stage.clscope(["report", "--all", "t.clscope"]).run().success();
        assert!(!text.stdout.contains("still run"), "{}", text.stdout);
    }
}

/// A browser to open pages in; `None` where there is none, which is said.
pub fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("CLSCOPE_TEST_CHROMIUM").map(PathBuf::from);
    let found = named.or_else(|| clscope_testing::installed("chromium").then(|| "chromium".into()));
    if found.is_none() {
        skip("no Chromium: neither CLSCOPE_TEST_CHROMIUM nor `chromium` in PATH", false);
    } else if !clscope_testing::installed("node") {
        skip("node is not installed: it drives the browser", true);
        return None;
    }
    found
}

/// What a reader sees of a page in the browser.
pub fn browsed(chromium: &Path, stage: &Stage, page: &str) -> Value {
    let mut node = std::process::Command::new("node");
    let script = root().join("tests/browser/chromium.mjs");
    let run = node.arg(script).arg(chromium).arg(stage.join(page)).ended();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    serde_json::from_slice(&run.stdout).unwrap()
}

/// What a reader does with a page, in Chromium: it loads nothing, says nothing on the console,
/// zooms, opens, sorts, fits a screen and a phone, and can be read without scripts.
#[test]
fn a_browser_draws_the_page_and_loads_nothing() {
    let Some(chromium) = chromium() else { return };
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "rounds 40").run().success();
    crate::energy::emulated(&stage);
    stage.clscope(["report", "t.clscope", "--format", "html", "-o", "r.html"]).run().success();
    let seen = browsed(&chromium, &stage, "r.html");
    assert_eq!((&seen["drawn"], &seen["told"]), (&true.into(), &"".into()), "{seen:#}");
    assert_eq!((&seen["requests"], &seen["errors"]), (&json!([]), &json!([])), "{seen:#}");
    let zoom = json!({ "zoomed": true, "moved": true, "back": true });
    assert_eq!((&seen["zoom"], &seen["blank"]), (&zoom, &false.into()), "{seen:#}");
    let search = json!({
        "typed": true, "jumped": true, "found": true, "none": "nothing has such a name",
        "fitted": true, "stepped": true,
    });
    assert_eq!(seen["search"], search, "{seen:#}");
    let hover = seen["hover"].as_str().unwrap();
    assert!(hover.contains("begin ") && hover.contains("length "), "{hover}");
    let legend: Vec<&str> =
        seen["legend"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(legend.contains(&"alpha") && legend.contains(&"clFinish"), "{legend:?}");
    match seen.get("axe") {
        Some(found) => assert_eq!(found, &json!({ "light": [], "dark": [] }), "{seen:#}"),
        None => skip("no axe-core: CLSCOPE_TEST_AXE does not name its script", true),
    }
    assert_eq!(seen["opened"], true, "a kernel's row opens");
    let report = report(&stage, "t.clscope");
    let kernels = report["kernels"].as_array().unwrap();
    let mut medians: Vec<f64> =
        kernels.iter().map(|k| k["time_ns"]["median"].as_f64().unwrap()).collect();
    medians.sort_by(|a, b| b.total_cmp(a));
    let sorted: Vec<f64> = seen["sorted"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_str().unwrap().parse().unwrap())
        .collect();
    assert_eq!(sorted, medians, "by the exact figures");
    // Nothing is cut at 1400 pixels; on a phone wide tables scroll by themselves, the page does
    // not.
    let wide = &seen["wide"];
    assert_eq!(wide["1400"]["tables"], json!([]), "{seen:#}");
    for width in ["1400", "400"] {
        assert!(wide[width]["page"].as_i64().unwrap() <= 0, "{width}: {seen:#}");
    }
    let narrow = wide["400"]["tables"].as_array().unwrap();
    assert!(!narrow.contains(&"idle".into()) && !narrow.contains(&"waits".into()), "{seen:#}");
    let plain = &seen["unscripted"];
    assert_eq!(
        (&plain["overview"], &plain["flame"], &plain["canvas"], plain["rows"].as_u64()),
        (&true.into(), &true.into(), &false.into(), Some(kernels.len() as u64)),
        "{seen:#}"
    );
}

/// Asks the server of `clscope view`, as a browser does.
fn get(address: &str, host: &str, method: &str) -> String {
    use std::io::{Read, Write};
    let (server, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(server).unwrap();
    write!(stream, "{method} /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_page_is_served_to_who_knows_its_address() {
    let stage = Stage::new(Runtime::Pocl);
    stage.app(Mode::Record, "t", "linked 3").run().success();
    let mut server = stage.clscope(["view", "t.clscope", "--no-browser"]).begin();
    let line = server.line(clscope_tests::Stream::Err).expect("its address");
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    let host = address.strip_prefix("http://").unwrap().split('/').next().unwrap().to_owned();
    let page = get(&address, &host, "GET");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("<!doctype html>"), "{line}: {page}");
    assert!(!page.contains("Access-Control"));
    let guessed = format!("http://{host}/report.html");
    assert!(get(&guessed, &host, "GET").starts_with("HTTP/1.1 404"));
    assert!(get(&address, "example.org", "GET").starts_with("HTTP/1.1 404"), "another name");
    assert!(get(&address, &host, "POST").starts_with("HTTP/1.1 405"));
    server.kill();
    let arguments = ["view", "t.clscope", "--no-browser", "--show", "perfetto", "--port", "0"];
    let mut server = stage.clscope(arguments).begin();
    let line = server.line(clscope_tests::Stream::Err).expect("its address");
    let (viewer, address) =
        line.trim().rsplit(' ').next().unwrap().split_once("/#!/?url=").unwrap();
    let host = address.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let trace = get(address, host, "GET");
    assert!(trace.contains(&format!("Access-Control-Allow-Origin: {viewer}\r\n")), "{trace}");
    server.kill();
}
