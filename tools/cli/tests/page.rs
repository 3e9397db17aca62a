//! `clscope report --format html` on traces that no application leaves: names that are markup, very
//! long or very many, no device times, a killed process. The page stays bounded and harmless.

mod common;

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_testing::Limited;
use clscope_trace::defs::{Def, Device, Geometry, Kernel, Queue};
use clscope_trace::record::CommandKind;
use common::{Stage, ended, save, stderr};

fn page(stage: &Stage, arguments: &[&str]) -> String {
    let output = stage
        .clscope()
        .args(["report", "t.clscope", "--format", "html", "-o", "r.html"])
        .args(arguments)
        .ended();
    assert!(output.status.success(), "{}", stderr(&output));
    std::fs::read_to_string(stage.join("r.html")).unwrap()
}

/// A process that launches kernels of these names, one after the other.
fn launches(names: &[String], timed: bool) -> ProcessBuilder {
    let mut process = ProcessBuilder::standard(HostModel::default(), 4000, 1);
    process.anchor(1_000_000_000);
    for (id, name) in (100u32..).zip(names) {
        process.defs.push(Def::Kernel(Kernel { id, program: 0, name: name.clone() }));
    }
    let raw = HostModel::default().raw;
    for (i, object) in (0..names.len() as u64).zip(100u32..) {
        let (id, at) = (i + 1, 10_000 + i * 10_000);
        let flags = if timed { CommandSpec::kernel(id, 1, 1).flags } else { 0 };
        let launch = CommandSpec { object, flags, ..CommandSpec::kernel(id, 1, 1) };
        process.thread(0).enqueue(at, at + 1_000, &launch);
        if timed {
            let stamps = [500, 1_500, 2_000, 7_000].map(|t| raw + at + t);
            process.thread(0).timing(at + 8_000, id, stamps);
        }
    }
    process
}

#[test]
fn names_are_no_markup() {
    let stage = Stage::new();
    let names = [
        "</script><img src=x onerror=alert(1)>".to_owned(),
        "\"><svg onload=alert(2)>".to_owned(),
        "<!--\u{1b}[31m\u{202e}\0".to_owned(),
        "{{constructor}} ' & ;".to_owned(),
        String::new(),
    ];
    let mut process = launches(&names, true);
    process.exit(100_000_000, 0);
    for def in &mut process.defs {
        if let Def::Process(of) = def {
            of.executable = "/bin/<title><script>alert(3)<".to_owned();
        }
    }
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &[]);
    for markup in ["<img", "<svg onload", "<!--", "<script>alert(3)", "\u{1b}", "\u{202e}", "\0"] {
        assert!(!text.contains(markup), "{markup:?}");
    }
    assert!(text.contains("&lt;img src=x onerror=alert(1)&gt;"), "but it is shown");
    // Nothing that runs, except what the policy names.
    assert_eq!(text.matches("<script>").count(), 1);
    assert_eq!(text.matches("<script").count(), text.matches("</script>").count());
}

#[test]
fn many_and_long_names_make_no_large_page() {
    let stage = Stage::new();
    let mut names: Vec<String> = (0..10_000).map(|i| format!("kernel_{i}")).collect();
    names.push("n".repeat(1 << 20));
    let mut process = launches(&names, true);
    process.exit(1_000_000_000, 0);
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &[]);
    assert!(text.len() < 16 << 20, "{}", text.len());
    assert!(text.contains("more: <code>clscope report --limit 0</code>"));
    let small = page(&stage, &["--max-size", "1MiB"]);
    assert!(small.len() < 1 << 20, "{}", small.len());
}

/// The text between two others.
fn between<'t>(text: &'t str, from: &str, to: &str) -> &'t str {
    let text = text.split_once(from).unwrap_or_else(|| panic!("no {from}")).1;
    text.split_once(to).unwrap_or_else(|| panic!("no {to} after {from}")).0
}

#[test]
fn names_without_glyphs_are_shown_by_their_numbers() {
    let stage = Stage::new();
    let hostile = "k\u{200e}\u{200f}\u{2028}\u{2066}\u{202e}\u{feff}\u{7f}";
    let names = [hostile.to_owned(), format!("{hostile}{}", "n".repeat(1 << 20))];
    let mut process = launches(&names, true);
    process.exit(100_000_000, 0);
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &[]);
    let hidden = text.chars().find(|c| *c != '\n' && !clscope_io::text::is_printable(*c));
    assert_eq!(hidden, None);
    let shown = r"k\u{200e}\u{200f}\u{2028}\u{2066}\u{202e}\u{feff}\u{7f}";
    assert!(text.matches(shown).count() >= 2, "in tables");
    // What the script draws is text for people, too.
    let facts = between(&text, "id=\"facts\">", "</script>");
    let facts: serde_json::Value = serde_json::from_str(facts).unwrap();
    let classes = facts["classes"].as_array().unwrap();
    assert!(classes.iter().any(|c| *c == shown), "{classes:?}");
    let long = |c: &&serde_json::Value| c.as_str().unwrap().starts_with(shown) && **c != *shown;
    let long = classes.iter().find(long).unwrap().as_str().unwrap();
    assert!(long.contains("...") && long.len() < 400, "{long}");
}

#[test]
fn devices_of_one_name_have_a_strip_each() {
    let stage = Stage::new();
    let host = HostModel::default();
    let mut process = ProcessBuilder::standard(host, 4000, 1);
    process.anchor(1_000_000_000);
    for (id, pci) in [(1, "0000:17:00.0"), (2, "0000:65:00.0")] {
        let name = "Twin".to_owned();
        let pci = Some(pci.to_owned());
        process.define(Device { id, name, pci, device_type: 4, ..Default::default() });
        process.define(Queue { id, device: id, ..Default::default() });
        let at = 10_000 + u64::from(id) * 50_000;
        let launch = CommandSpec::kernel(id.into(), id, 1);
        process.thread(0).enqueue(at, at + 1_000, &launch);
        let stamps = [500, 1_500, 2_000, 20_000].map(|t| host.raw + at + t);
        process.thread(0).timing(at + 21_000, id.into(), stamps);
    }
    process.exit(1_000_000, 0);
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &[]);
    let overview = between(&text, "<div class=\"unscripted\">", "</svg>");
    let facts = between(&text, "id=\"facts\">", "</script>");
    for label in ["Twin (1 of 2, 0000:17:00.0)", "Twin (2 of 2, 0000:65:00.0)"] {
        assert!(overview.contains(&format!("{label}: busy")), "{label} in {overview}");
        assert!(facts.contains(label), "{label}");
    }
}

#[test]
fn busy_time_of_a_sample_is_an_estimate_and_gaps_are_not_known() {
    let stage = Stage::new();
    let host = HostModel::default();
    let mut process = ProcessBuilder::standard(host, 4000, 1);
    process.anchor(1_000_000_000);
    if let Some(Def::Process(of)) = process.defs.first_mut() {
        of.device_timing = "sample".into();
    }
    // A kind of which nothing was timed.
    let untimed = CommandSpec::sampled(9_001, 1, 2, 0.125, false);
    process.thread(0).enqueue(2_000, 2_500, &untimed);
    for i in 0..400u64 {
        let (id, at) = (i + 1, 10_000 + i * 20_000);
        let timed = i < 32 || i % 8 == 3;
        let probability = if i < 32 { 1.0 } else { 0.125 };
        let launch = CommandSpec::sampled(id, 1, 1, probability, timed);
        process.thread(0).enqueue(at, at + 1_000, &launch);
        process.thread(0).plain(function::FINISH, at + 2_000, at + 18_000, 0, 1);
        if timed {
            let stamps = [500, 1_500, 2_000, 12_000 + i].map(|t| host.raw + at + t);
            process.thread(0).timing(at + 18_100, id, stamps);
        }
    }
    process.exit(9_000_000, 0);
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &[]);
    let shown = between(&text, "<span>Device busy</span>", "</div>");
    let share: f64 = between(shown, "data-v=\"", "\"").parse().unwrap();
    let truth = (0..400).map(|i| 10_000.0 + f64::from(i)).sum::<f64>();
    assert!(shown.contains(">~") && shown.contains("not all launches were timed"), "{shown}");
    let json = ended(stage.clscope().args(["report", "t.clscope", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let busy = json["devices"][0]["busy_estimate_ns"]["value"].as_f64().unwrap();
    assert!((busy / truth - 1.0).abs() < 0.02, "{busy} {truth}");
    assert_eq!(json["devices"][0]["busy_share"]["value"].as_f64(), Some(share));
    let wall = json["duration_ns"].as_f64().unwrap();
    assert!((share / (busy / wall) - 1.0).abs() < 1e-12, "{share}");
    assert_eq!(json["devices"][0]["busy_without"], 1);
    assert!(shown.contains("without 1 of kinds never timed"), "{shown}");
    let idle = between(&text, "<section id=\"idle\">", "</section>");
    assert!(idle.contains("not known: between timed ones ran others"), "{idle}");
    assert!(!idle.contains("No gap between commands"), "{idle}");
    assert!(idle.contains("<p>Gaps between"), "a sentence: {idle}");
    let shown = text.split("<script").next().unwrap();
    assert!(!shown.contains('`'), "code is shown as code");
    assert!(idle.contains("<code>record --device-timing event</code>"), "{idle}");
    // What the host waited for is known in part, and each part says of how many launches it is.
    let waits = between(&text, "<section id=\"waits\">", "</section>");
    assert!(waits.contains("commands not timed") && waits.contains("were not sampled ran"));
    let findings = between(&text, "<section id=\"findings\">", "</section>");
    assert!(findings.contains("part of the commands was timed, 78 of 401 launches"), "{findings}");
    assert!(findings.contains("why devices were idle is not known"), "{findings}");
    let queues = between(&text, "<h3>Command queues</h3>", "</section>");
    assert!(queues.contains("idle time and gaps are not known"), "{queues}");
    let timeline = between(&text, "<section id=\"time\">", "</section>");
    assert!(timeline.contains("left out are not drawn"), "{timeline}");
}

/// What a kernel's row opens to is of timed launches, and says so; its launches add up to the
/// row's.
#[test]
fn opened_rows_of_a_sample_say_which_launches_they_are_of() {
    let stage = Stage::new();
    let host = HostModel::default();
    let mut process = ProcessBuilder::standard(host, 4000, 1);
    process.anchor(1_000_000_000);
    for i in 0..800u64 {
        let (id, at) = (i + 1, 10_000 + i * 20_000);
        let timed = i < 32 || i % 8 == 3;
        let probability = if i < 32 { 1.0 } else { 0.125 };
        let geometry = 1 + (i % 4 == 0) as u32;
        let launch = CommandSpec { geometry, ..CommandSpec::sampled(id, 1, 1, probability, timed) };
        process.thread(0).enqueue(at, at + 1_000, &launch);
        if timed {
            let stamps = [500, 1_500, 2_000, 12_000].map(|t| host.raw + at + t);
            process.thread(0).timing(at + 18_100, id, stamps);
        }
    }
    for (id, global) in [(1, [1_024, 1, 1]), (2, [64, 64, 1])] {
        process.define(Geometry { id, dimensions: 2, global, ..Geometry::default() });
    }
    process.exit(20_000_000, 0);
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &[]);
    let json = ended(stage.clscope().args(["report", "t.clscope", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let (kernel, of) = (&json["kernels"][0], &json["kernels"][0]["time_ns"]);
    assert_eq!((kernel["count"].as_u64(), of["count"].as_u64()), (Some(800), Some(128)));
    let opened = between(&text, "<details class=\"kernel\">", "</details>");
    assert!(opened.contains("Of 800 launches 128 were timed"), "{opened}");
    assert!(opened.contains(&format!("<b data-v=\"{}\">", of["total"])), "{opened}");
    assert_eq!(opened.matches("Timed launches").count(), 2, "{opened}");
    // By size: launches, timed, total and mean of those.
    let figures = |row: &str| -> Vec<f64> {
        row.split("data-v=\"")
            .skip(1)
            .map(|c| c.split('"').next().unwrap().parse().unwrap())
            .collect()
    };
    let sizes = between(opened, "<th>Global size</th>", "</table>");
    assert!(sizes.contains("Total of timed") && sizes.contains("Mean of timed"), "{sizes}");
    let rows: Vec<Vec<f64>> = sizes.split("<tr><td").skip(1).map(figures).collect();
    assert_eq!(rows.len(), 2, "{sizes}");
    let sum = |column: usize| rows.iter().map(|row| row[column]).sum::<f64>();
    assert_eq!((sum(0), sum(1)), (800.0, 128.0));
    assert_eq!(Some(sum(2)), of["total"].as_f64());
    // The row has both numbers, too.
    let row = between(&text, "<section id=\"kernels\">", "</tr>\n</tbody>");
    assert!(row.contains("<th class=\"n\">Timed</th>") && row.contains("Max timed"), "{row}");
}

/// One definition of the busy share: of the time recorded, in text, JSON and page.
#[test]
fn the_busy_share_is_the_same_everywhere() {
    let stage = Stage::new();
    let mut process = launches(&["alone".to_owned(), "other".to_owned()], true);
    process.exit(40_000, 0);
    save(&process, &stage.join("t.clscope"));
    let json = ended(stage.clscope().args(["report", "t.clscope", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let device = &json["devices"][0];
    let share = device["busy_share"]["value"].as_f64().unwrap();
    let number = |v: &serde_json::Value| v.as_f64().unwrap();
    let busy = number(&device["busy_ns"]);
    assert!((busy / 10_000.0 - 1.0).abs() < 0.01, "{device}");
    assert!((share - busy / number(&json["duration_ns"])).abs() < 1e-12, "{device}");
    assert!(number(&device["extent_ns"]) < number(&json["duration_ns"]), "or nothing is tested");
    let page = page(&stage, &[]);
    let shown = between(&page, "<span>Device busy</span>", "</div>");
    assert!(shown.contains(&format!("data-v=\"{share}\"")), "{shown}");
    let rounded = format!("{:.1}", 100.0 * share);
    assert!(shown.contains(&format!(">{rounded} %<")), "{shown}");
    let text = stage.clscope().args(["report", "--all", "t.clscope"]).ended();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains(&format!("us, {rounded}% of the ")), "{text}");
}

/// Why, what to do, and notes with figure, what helps, and a link to a section that is there.
#[test]
fn the_page_begins_with_the_answer() {
    let stage = Stage::new();
    let host = HostModel::default();
    let mut process = ProcessBuilder::standard(host, 4000, 1);
    process.anchor(1_000_000_000);
    // 200 launches of 5 µs, each enqueued for 15 and waited for 10; then a transfer.
    for i in 0..200u64 {
        let (id, at) = (i + 1, 10_000 + i * 30_000);
        process.thread(0).enqueue(at, at + 15_000, &CommandSpec::kernel(id, 1, 1));
        let stamps = [500, 14_000, 15_000, 20_000].map(|t| host.raw + at + t);
        process.thread(0).timing(at + 22_000, id, stamps);
        process.thread(0).plain(function::FINISH, at + 16_000, at + 26_000, 0, 1);
    }
    process.thread(0).call(function::FINISH, 6_500_000, 6_501_000, -5, &[1]);
    let at = 7_000_000;
    let write = CommandSpec::transfer(999, 1, CommandKind::WriteBuffer, 1 << 20);
    process.thread(0).enqueue(at, at + 900_000, &write);
    process.thread(0).timing(
        at + 900_100,
        999,
        [500, 1_500, 2_000, 800_000].map(|t| host.raw + at + t),
    );
    process.exit(8_000_000, 0);
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &[]);
    // The page begins with the answer of the JSON: the same causes and advice, in its order.
    let json = ended(stage.clscope().args(["report", "t.clscope", "--format", "json"]));
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let why = between(&text, "<section id=\"why\">", "</section>");
    let why = why.replace("&nbsp;", " ").replace("&#39;", "'");
    let place = |of: &str| why.find(of).unwrap_or_else(|| panic!("no {of} in {why}"));
    let mut last = 0;
    for cause in json["answer"]["why"].as_array().unwrap().iter().take(3) {
        let at = place(cause["text"].as_str().unwrap());
        assert!(at > last && why.contains(&format!("data-v=\"{}\"", cause["share"])), "{why}");
        last = at;
    }
    for advice in json["answer"]["advice"].as_array().unwrap() {
        assert!(place(advice["text"].as_str().unwrap()) > last, "{why}");
    }
    assert!(why.contains("enqueue several launches before you wait"), "{why}");
    assert!(place("<h2>Why it takes") < last);
    let findings = between(&text, "<section id=\"findings\">", "</section>");
    let one = findings.lines().find(|line| line.contains("1 API call failed"));
    let one = one.unwrap_or_else(|| panic!("no failure in {findings}"));
    assert!(one.contains("CL_OUT_OF_RESOURCES (1 time)") && one.contains("clscope check"), "{one}");
    assert!(one.contains("href=\"#functions\""), "{one}");
    assert!(!findings.contains('`'), "code is shown as code");
}

#[test]
fn what_is_not_known_is_said() {
    let stage = Stage::new();
    let mut process = launches(&["alone".to_owned()], false);
    process.exit(100_000_000, 0);
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &[]);
    assert!(text.contains("No launch has a device time"), "no spans");
    assert!(text.contains("not measured"), "no sensor");
    // Killed in a call: it is a warning of the page, too.
    let mut process = launches(&["alone".to_owned()], true);
    process.in_calls.push((0, function::FINISH, 50_000));
    process.in_ring = true;
    std::fs::remove_dir_all(stage.join("t.clscope")).unwrap();
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &[]);
    assert!(
        text.contains("<td>the process did not end in order (killed")
            && text.contains("class=\"warning\"")
    );
    let none = stage.clscope().args(["report", "none.clscope", "--format", "html"]).ended();
    assert!(!none.status.success() && stderr(&none).contains("none.clscope"));
}
