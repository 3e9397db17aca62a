//! `clscope report --format html` on traces that no application leaves: names that are markup, very
//! long or very many, no device times, a killed process. The page stays bounded and harmless.

mod common;

use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_testing::Limited;
use clscope_trace::defs::{Def, Kernel};
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
