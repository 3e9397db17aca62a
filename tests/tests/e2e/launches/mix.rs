//! Instructions of captured launches, counted when the application has ended (`record --mix`): exact
//! against counts made on the host, results unchanged, refusals told.

use crate::launches::captures::{document, folders};
use clscope_testing::Limited;
use clscope_tests::{Finished, Mode, Run, Runtime, Stage, artifacts};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What `mix_truth` printed: results by kernel, and figures by kernel and name.
#[derive(Debug, Default, PartialEq, Eq)]
struct Printed {
    results: BTreeMap<String, String>,
    truth: Vec<(String, String, u64)>,
}

fn parse_output(stdout: &str) -> Printed {
    let mut out = Printed::default();
    for line in stdout.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["result", kernel, sum] => drop(out.results.insert(kernel.into(), sum.into())),
            ["truth", kernel, figure, value] => {
                out.truth.push((kernel.into(), figure.into(), value.parse().unwrap()));
            }
            _ => panic!("{line}"),
        }
    }
    out
}

fn kernels(form: &str) -> PathBuf {
    artifacts::root().join(format!("tests/fixtures/mix/kernels.{form}"))
}

/// A figure of a counted kernel, as `mix_truth` names it. Of blocks: whether one was entered so
/// often.
fn figure(executed: &Value, name: &str, wanted: u64) -> u64 {
    let field = |of: &str| executed[of].as_u64().unwrap();
    match name {
        "flop32" => executed["flop"]["fp32"].as_u64().unwrap(),
        "barriers" => field("barriers"),
        "bytes" => {
            let spaces = executed["bytes"].as_array().unwrap();
            let global = spaces.iter().find(|of| of["space"] == "global").unwrap();
            ["read", "written", "atomic"].iter().map(|of| global[of].as_u64().unwrap()).sum()
        }
        "block" => {
            let mut counts =
                executed["blocks"].as_array().unwrap().iter().map(|b| b["threads"].as_u64());
            counts.find(|n| *n == Some(wanted)).flatten().unwrap_or(0)
        }
        class => executed["classes"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|of| of["class"] == class)
            .map(|of| of["instructions"].as_u64().unwrap())
            .sum(),
    }
}

fn mix(stage: &Stage, trace: &str) -> Value {
    let shown = stage.clscope(["mix", trace, "--format", "json"]).run().success().stdout;
    serde_json::from_str(&shown).unwrap()
}

fn record(stage: &Stage, options: &[&str], arguments: &[&str]) -> Run {
    let mut run = stage.clscope(["record", "-q", "--sensors", "off"]);
    run = run.args(options).arg("--").arg(artifacts().fixture("mix_truth"));
    run.args(arguments)
}

fn without(stage: &Stage, arguments: &[&str]) -> Finished {
    stage.app(Mode::Bare, "t", "mix_truth").args(arguments).run()
}

#[test]
fn counts_are_those_of_the_host_and_results_stay() {
    let Some(intel) = Runtime::intel() else { return };
    let stage = Stage::new(intel);
    let il = kernels("spv").display().to_string();
    let bare = without(&stage, &[&il]).success();
    let told_bare = parse_output(&bare.stdout);
    assert!(told_bare.results.len() >= 12 && told_bare.truth.len() >= 18);
    let with = record(&stage, &["--mix", "-o", "t"], &[&il]).run().success();
    assert_eq!(parse_output(&with.stdout), told_bare, "what the application computes");
    // What was captured for it holds the application's data.
    let left = std::fs::read_dir(stage.trace("t").join("captures")).unwrap();
    assert!(
        left.map(|entry| entry.unwrap().path()).all(|path| path.is_file()),
        "captures are gone"
    );

    let document = mix(&stage, "t");
    let rows = document["kernels"].as_array().unwrap();
    assert_eq!(rows.len(), told_bare.results.len());
    for row in rows {
        assert_eq!((&row["counted"], &row["launches"]), (&1.into(), &1.into()), "{row:#}");
        let executed = &row["executed"];
        let items: u64 =
            row["global"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).product();
        assert_eq!(executed["work_items"], items, "{row:#}");
        assert_eq!(executed["unknown"], Value::Array(vec![]), "{row:#}");
        assert!(row["resources"]["work_group_limit"].as_u64() > Some(0), "{row:#}");
    }
    for (kernel, name, value) in &told_bare.truth {
        let row = rows.iter().find(|row| row["kernel"] == kernel.as_str()).unwrap();
        let found = figure(&row["executed"], name, *value);
        assert_eq!(found, *value, "{kernel}: {name}: {row:#}");
    }
    // Local memory and scalars of the launch.
    let of =
        |name: &str| rows.iter().find(|row| row["kernel"] == name).unwrap()["arguments"].clone();
    assert_eq!(
        (&of("reduce")[2]["kind"], &of("reduce")[2]["size"]),
        (&"local".into(), &256.into())
    );
    assert_eq!(of("collatz")[1]["value"], 500);

    let text = stage.clscope(["mix", "t", "gemm"]).run().success().stdout;
    assert!(text.contains("65,536 fp32") && !text.contains("collatz"), "{text}");
    let wrong = stage.clscope(["mix", "t", "none"]).run();
    assert!(wrong.stderr.contains("there are bits, chase"), "{}", wrong.stderr);
}

/// A launch whose memory was not kept runs on zeros. It is counted only where that makes no difference;
/// of every other one the reason is said.
#[test]
fn what_is_not_kept_is_counted_where_memory_makes_no_difference() {
    let Some(intel) = Runtime::intel() else { return };
    let stage = Stage::new(intel);
    let il = kernels("spv").display().to_string();
    // On a busy machine a device may be late with the recorder's own memory.
    let is_whole = |trace: &&str| {
        (0..5).any(|_| {
            stage.forget(trace);
            record(&stage, &["--capture", "*", "-o", trace], &[&il]).run().success();
            folders(&stage.trace(trace)).len() == 12
        })
    };
    assert!(["kept", "described"].iter().all(is_whole));
    for folder in folders(&stage.trace("described")) {
        let folder = stage.trace("described").join("captures").join(folder);
        let mut launch = document(&folder);
        for memory in launch["memories"].as_array_mut().unwrap() {
            memory["before_missing"] = "a test took it".into();
            for part in ["before", "after"] {
                if let Some(file) = memory[part].as_str() {
                    std::fs::remove_file(folder.join(file)).unwrap();
                }
                memory[part] = Value::Null;
                memory[format!("hash_{part}")] = Value::Null;
            }
        }
        std::fs::write(folder.join("launch.json"), launch.to_string()).unwrap();
    }
    // Workers have a standard input where their command has none.
    let replay =
        format!("'{}' replay --mix --sysfs-root /nowhere", artifacts().clscope().display());
    let [kept, described] = [("kept", "<&-"), ("described", "")].map(|(trace, closed)| {
        let script = format!("exec {replay} {trace} {closed}");
        stage.program(Mode::Bare, "bare", "sh").args(["-c", &script]).run();
        mix(&stage, trace)
    });
    let rows = |document: &Value| document["kernels"].as_array().unwrap().clone();
    let mut counted = Vec::new();
    for row in rows(&described) {
        let like = |of: &&Value| of["kernel"] == row["kernel"] && of["global"] == row["global"];
        let all = rows(&kept);
        let whole = all.iter().find(like).unwrap();
        assert_eq!(whole["counted"], 1, "{whole:#}");
        if row["counted"] == 1 {
            assert_eq!(row["executed"], whole["executed"], "{row:#}");
            counted.push(row["kernel"].as_str().unwrap().to_owned());
        } else {
            assert!(row.to_string().contains("a test took it"), "{row:#}");
        }
    }
    counted.sort();
    assert_eq!(counted, ["collatz", "gemm", "mandelbrot", "reduce", "walk"]);
}

/// The exact figures behind the cells of each row of a table, by the row's first cell.
fn cells(table: &str) -> BTreeMap<String, Vec<Option<f64>>> {
    let text = |cell: &str| cell.split('>').nth(1).unwrap().split('<').next().unwrap().to_owned();
    let figure = |cell: &str| {
        let exact = cell.split("data-v=\"").nth(1)?.split('"').next()?;
        Some((!exact.is_empty()).then(|| exact.parse().unwrap()))
    };
    let rows = table.split("<tr>").skip(1).map(|row| row.split("<td").skip(1).collect::<Vec<_>>());
    rows.map(|row| (text(row[0]), row[1..].iter().filter_map(|c| figure(c)).collect())).collect()
}

/// A kernel's row on the page opens to what `mix` and `explain` say of it.
#[test]
fn the_page_shows_what_was_counted() {
    let Some(intel) = Runtime::intel() else { return };
    let stage = Stage::new(intel);
    let il = kernels("spv").display().to_string();
    record(&stage, &["--mix", "-o", "t"], &[&il]).run().success();
    let document = mix(&stage, "t");
    let explained = stage.clscope(["explain", "t", "--limit", "0", "--format", "json"]);
    let explained: Value = serde_json::from_str(&explained.run().success().stdout).unwrap();
    let page = |more: &[&str]| {
        let run = stage.clscope(["report", "t", "--format", "html", "-o", "r.html"]).args(more);
        run.run().success();
        std::fs::read_to_string(stage.join("r.html")).unwrap()
    };
    let (whole, by_size) = (page(&[]), page(&["--by", "ndrange"]));
    for row in document["kernels"].as_array().unwrap() {
        let name = row["kernel"].as_str().unwrap();
        let sizes: Vec<String> =
            row["global"].as_array().unwrap().iter().map(Value::to_string).collect();
        let opened = |page: &str, name: &str| {
            let head = format!("<details class=\"kernel\"><summary>{name}</summary>");
            let from = page.find(&head).unwrap_or_else(|| panic!("no row of {name} opens"));
            page[from..].split("</details>").next().unwrap().to_owned()
        };
        let shown = opened(&whole, name);
        let of_size = opened(&by_size, &format!("{name} [{}]", sizes.join("x")));
        let table = |head: &str| {
            let from = shown.find(&format!("<th>{head}</th>")).unwrap_or_else(|| panic!("{shown}"));
            let table = shown[from..].split("</table>").next().unwrap().to_owned();
            assert!(of_size.contains(&table), "{name}: rows by size open to the same");
            cells(&table)
        };
        let found = table("Class");
        let executed = &row["executed"];
        for class in executed["classes"].as_array().unwrap() {
            let cells = &found[class["class"].as_str().unwrap()];
            let fields = [
                "instructions",
                "warp_instructions",
                "flop",
                "bytes",
                "predicated",
                "transactions",
            ];
            let found = [0, 2, 3, 4, 5, 6].map(|at| cells[at]);
            assert_eq!(found, fields.map(|f| class[f].as_f64()), "{name}: {class}");
        }
        for space in executed["bytes"].as_array().unwrap() {
            let found =
                &table("Bytes asked of")[&format!("{} memory", space["space"].as_str().unwrap())];
            let want = ["read", "written", "atomic"].map(|f| space[f].as_f64());
            assert_eq!(found[..], want, "{name}: {space}");
        }
        let of = explained["devices"][0]["kernels"].as_array().unwrap();
        let of = of.iter().find(|k| k["kernel"] == name).unwrap();
        for statement in of["statements"].as_array().unwrap() {
            let text = statement["text"].as_str().unwrap().replace('\'', "&#39;");
            // Numbers are not torn from their units.
            let shown = shown.replace("&nbsp;", " ");
            assert!(shown.contains(&text), "{name}: {text}: {shown}");
        }
        // Without parameters of the device there is no bound, and the page says what measures them.
        assert!(shown.contains("clscope bench model"), "{shown}");
    }
    let wrong = stage.clscope(["report", "t", "--parameters", "none.json"]).run();
    assert!(!wrong.status.success() && wrong.stderr.contains("--format html"), "{}", wrong.stderr);
    let wrong = stage.clscope(["report", "t", "--format", "html", "--parameters", "none.json"]);
    let wrong = wrong.run();
    assert!(!wrong.status.success() && wrong.stderr.contains("none.json"), "{}", wrong.stderr);
}

/// Without compilers in its PATH a source has no language in which it can be counted.
#[test]
fn what_cannot_be_counted_says_why_once() {
    let stage = Stage::new(Runtime::Pocl);
    let source = kernels("cl").display().to_string();
    let bare = without(&stage, &[&source, "2"]).success();
    let with = record(&stage, &["--mix", "-o", "t"], &[&source, "2"]).env("PATH", stage.path());
    assert_eq!(parse_output(&with.run().success().stdout), parse_output(&bare.stdout));
    let document = mix(&stage, "t");
    for row in document["kernels"].as_array().unwrap() {
        assert_eq!((&row["counted"], &row["executed"]), (&0.into(), &Value::Null));
        let [why] = &row["refused"].as_array().unwrap()[..] else { panic!("{row:#}") };
        assert!(why.as_str().unwrap().contains("clang is not installed"), "{why}");
    }
    assert_eq!(document["kernels"].as_array().unwrap().len(), 12, "{document:#}");
    let text = stage.clscope(["mix", "t"]).run().success().stdout;
    assert!(text.contains("not counted  the runtime hands out no PTX"), "{text}");
}

/// Sources are counted where a compiler translates them: as SPIR-V on a runtime that takes it, as
/// SPIR on one that takes that.
#[test]
fn sources_are_translated_where_a_compiler_is_found() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let source = kernels("cl").display().to_string();
        let bare = without(&stage, &[&source]).success();
        let with = record(&stage, &["--mix", "-o", "t"], &[&source]).run().success();
        assert_eq!(parse_output(&with.stdout), parse_output(&bare.stdout));
        let document = mix(&stage, "t");
        let rows = document["kernels"].as_array().unwrap();
        let found =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|folder| {
                folder.join("llvm-spirv-15").is_file() && folder.join("clang-15").is_file()
            });
        if !found {
            // The reason says what is missing.
            let why = rows[0]["refused"][0].as_str().unwrap();
            assert!(why.contains("not installed"), "{why}");
            clscope_testing::skip("clang-15 and llvm-spirv-15 are not installed", true);
            return;
        }
        for (kernel, name, value) in parse_output(&bare.stdout).truth {
            let row = rows.iter().find(|row| row["kernel"] == kernel.as_str()).unwrap();
            assert_eq!(row["counted"], 1, "{row:#}");
            assert_eq!(figure(&row["executed"], &name, value), value, "{kernel}: {name}: {row:#}");
            // The trace keeps what its blocks are of.
            let code = row["executed"]["code"].as_str().unwrap();
            assert!(stage.trace("t").join(format!("programs/{code}.spv")).is_file(), "{code}");
        }
    }
}

#[test]
fn a_trace_without_counts_says_how_to_get_them() {
    let stage = Stage::new(Runtime::FakeDriver);
    stage.app(Mode::Record, "t", "linked").run().success();
    let text = stage.clscope(["mix", "t"]).run().success().stdout;
    assert!(text.contains("clscope record --mix"), "{text}");
    let app = artifacts().fixture("linked");
    let next = |options: &[&str]| {
        let ran = stage.clscope(["record", "-f", "-o", "t"]).args(options).arg("--").arg(&app);
        let told = ran.run().success().stderr;
        told.lines().last().unwrap().split("next: ").nth(1).unwrap().to_owned()
    };
    assert_eq!(next(&[]), "clscope report t.clscope");
    let of_mix = "clscope report t.clscope, clscope mix t.clscope, clscope explain t.clscope";
    assert_eq!(next(&["--mix"]), of_mix);
    let wrong = stage.clscope(["record", "--mix=some", "--", "true"]).run();
    assert!(wrong.stderr.contains("invalid value 'some'"), "{}", wrong.stderr);
}

/// A stage with Intel's runtime, for a test that needs a program as well.
fn intel_beside(program: &str) -> Option<Stage> {
    let intel = Runtime::intel()?;
    if !clscope_testing::installed(program) {
        clscope_testing::skip(&format!("{program} is not installed"), true);
        return None;
    }
    Some(Stage::new(intel))
}

/// What Oclgrind prints of a program that builds the kernels from source.
fn simulated(stage: &Stage, source: &str) -> PathBuf {
    let run = std::process::Command::new("oclgrind")
        .arg("--inst-counts")
        .arg(artifacts().fixture("mix_truth"))
        .arg(source)
        .ended();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let file = stage.join("oclgrind.txt");
    std::fs::write(&file, &run.stdout).unwrap();
    file
}

#[test]
fn launches_on_images_and_shared_memory_are_counted_and_leave_them_as_they_were() {
    let Some(stage) = intel_beside("llvm-spirv-15") else { return };
    let bare = stage.app(Mode::Bare, "b", "in_place").run().success().stdout;
    let app = artifacts().fixture("in_place").display().to_string();
    let words = ["record", "-q", "--sensors", "off", "--mix", "-o", "t", "--", &*app];
    assert_eq!(stage.clscope(words).run().success().stdout, bare);
    let document = mix(&stage, "t");
    let rows = document["kernels"].as_array().unwrap();
    for name in ["plane", "layers", "twice", "shared", "beside"] {
        let row = rows.iter().find(|row| row["kernel"] == name).unwrap();
        let skipped = bare.contains(&format!("{name} left out"));
        assert!(skipped || row["counted"].as_u64() >= Some(1), "{row:#}");
    }
    let fine = rows.iter().find(|row| row["kernel"] == "fine");
    assert!(fine.is_none_or(|row| row["counted"] == 0), "{fine:?}");
}

#[test]
fn counts_are_those_of_oclgrind() {
    let Some(stage) = intel_beside("oclgrind") else { return };
    let file = simulated(&stage, &kernels("cl").display().to_string()).display().to_string();
    let il = kernels("spv").display().to_string();
    record(&stage, &["--mix", "-o", "t"], &[&il]).run().success();
    let shown = stage.clscope(["mix", "t", "--with", &file, "--format", "json"]).run();
    let document: Value = serde_json::from_str(&shown.success().stdout).unwrap();
    let against = &document["against"];
    assert_eq!((&against["only_counted"], &against["only_simulated"]), (&json!([]), &json!([])));
    let kernels = against["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), document["kernels"].as_array().unwrap().len());
    let mut figures = BTreeMap::new();
    for kernel in kernels {
        assert_eq!(kernel["not_compared"], Value::Null, "{kernel:#}");
        for figure in kernel["figures"].as_array().unwrap() {
            let (name, counted) = (figure["figure"].as_str().unwrap(), &figure["counted"]);
            let (counted, simulated) =
                (counted.as_f64().unwrap(), figure["simulated"].as_f64().unwrap());
            // Two compilers may differ in arithmetic: one takes the first turn of a loop out of it.
            let most = if name.starts_with("fp ") { 0.01 * simulated } else { 0.0 };
            assert!((counted - simulated).abs() <= most, "{kernel:#}");
            *figures.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    for name in ["global bytes read", "local bytes written", "barriers", "atomics"] {
        assert!(figures.contains_key(name), "{figures:?}");
    }
    assert!(figures.values().sum::<u32>() >= 30, "{figures:?}");

    let text = stage.clscope(["mix", "t", "gemm", "--with", &file]).run().success().stdout;
    assert!(text.contains("6 of 6 figures agree"), "{text}");
    let none = stage.clscope(["mix", "t", "--with", &il]).run();
    assert!(none.stderr.contains("oclgrind --inst-counts"), "{}", none.stderr);
}
