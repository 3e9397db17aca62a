//! `clscope report --format html` on traces that no application leaves: names that are markup, very
//! long or very many, no device times, a killed process. The page stays bounded and harmless.

mod common;

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_testing::Limited;
use clscope_trace::defs::{Def, Device, Kernel, Queue};
use common::{Stage, save, stderr};

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
    save(&process, &stage.join("t.clscope"));
    let text = page(&stage, &["--title", "</title><script>alert(3)</script>"]);
    for markup in ["<img", "<svg onload", "<!--", "alert(3)</script>", "\u{1b}", "\u{202e}", "\0"] {
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
    assert!(classes.iter().any(|c| c.as_str().unwrap().ends_with("bytes)")), "{classes:?}");
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
    let busy: f64 = between(shown, "data-v=\"", "\"").parse().unwrap();
    let truth = (0..400).map(|i| 10_000.0 + f64::from(i)).sum::<f64>();
    assert!((busy / truth - 1.0).abs() < 0.02, "{busy} {truth}");
    assert!(shown.contains(">~") && shown.contains("not all launches were timed"), "{shown}");
    let json = stage.clscope().args(["report", "t.clscope", "--format", "json"]).ended();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["devices"][0]["busy_estimate_ns"]["value"].as_f64(), Some(busy));
    assert_eq!(json["devices"][0]["busy_without"], 1);
    assert!(shown.contains("without 1 of kinds never timed"), "{shown}");
    let idle = between(&text, "<section id=\"idle\">", "</section>");
    assert!(idle.contains("not known: between timed ones ran others"), "{idle}");
    assert!(!idle.contains("No gap between commands"), "{idle}");
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
    assert!(text.contains("killed, or still running") && text.contains("class=\"warning\""));
    let none = stage.clscope().args(["report", "none.clscope", "--format", "html"]).ended();
    assert!(!none.status.success() && stderr(&none).contains("none.clscope"));
}
