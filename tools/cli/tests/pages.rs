//! Manual pages and completions: each subcommand has a page, the formatter takes it without a
//! warning, and a shell completes with the script.

mod common;

use clscope_testing::Limited;
use common::{Stage, stderr, stdout};
use std::process::Command;

/// Subcommands as `--help` lists them.
fn subcommands(stage: &Stage) -> Vec<String> {
    let help = stdout(&stage.clscope().arg("--help").ended());
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names = listed.lines().filter(|l| l.starts_with("  ") && !l.starts_with("   "));
    let names: Vec<String> =
        names.map(|l| l.split_whitespace().next().unwrap().to_owned()).collect();
    assert!(names.len() > 20, "{names:?}");
    names
}

#[test]
fn each_subcommand_has_a_manual_page_that_is_well_formed() {
    let stage = Stage::new();
    let made = stage.clscope().args(["man", "pages"]).ended();
    assert!(made.status.success(), "{}", stderr(&made));
    let page =
        |name: &str| std::fs::read_to_string(stage.join(&format!("pages/{name}.1"))).unwrap();
    for name in subcommands(&stage).iter().filter(|name| *name != "help") {
        assert!(page("clscope").contains(&name.replace('-', "\\-")), "{name}");
        let page = page(&format!("clscope-{name}"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{page}");
    }
    let record = page("clscope-record");
    assert!(record.contains(".SH EXAMPLES") && record.contains("detect.py"), "{record}");
    // Once more over what is there, and never through a link.
    assert!(stage.clscope().args(["man", "pages"]).ended().status.success());
    std::os::unix::fs::symlink("pages", stage.join("link")).unwrap();
    let refused = stage.clscope().args(["man", "link"]).ended();
    assert!(!refused.status.success() && stderr(&refused).contains("symbolic link"));
    let pages = std::fs::read_dir(stage.join("pages")).unwrap().map(|file| file.unwrap().path());
    for path in pages {
        if !clscope_testing::installed("groff") {
            return clscope_testing::skip("groff, which formats manual pages", false);
        }
        let formatter = Command::new("groff").args(["-man", "-Tutf8", "-ww"]).arg(&path).ended();
        let told = stderr(&formatter);
        assert!(formatter.status.success() && told.is_empty(), "{}: {told}", path.display());
    }
}

/// The options of a manual page: each with its short form, if it has one.
fn options(page: &str) -> Vec<(String, Option<char>)> {
    let page = page.replace("\\-", "-");
    let mut found = Vec::new();
    for line in page.lines() {
        for (at, _) in line.match_indices("\\fB--") {
            let name: String = line[at + 3..]
                .chars()
                .take_while(|c| *c == '-' || c.is_ascii_lowercase() || c.is_ascii_digit())
                .collect();
            let before = line[..at].strip_suffix("\\fR, ").or(line[..at].strip_suffix("\\fR|"));
            let short = before.and_then(|before| before.chars().last());
            found.push((name, short));
        }
    }
    found
}

/// Whether a text has an option as a whole word.
fn mentions(text: &str, option: &str) -> bool {
    text.match_indices(option).any(|(at, _)| {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        let behind = text[at + option.len()..].chars().next().unwrap_or(' ');
        let is_part = |c: char| c == '-' || c.is_ascii_alphanumeric();
        !is_part(before) && !is_part(behind)
    })
}

#[test]
fn every_option_has_its_place_in_the_guide() {
    let stage = Stage::new();
    let made = stage.clscope().args(["man", "pages"]).ended();
    assert!(made.status.success(), "{}", stderr(&made));
    let guide: String = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../guide"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|of| of == "md"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let mut seen = 0;
    let mut absent = Vec::new();
    for file in std::fs::read_dir(stage.join("pages")).unwrap().map(|file| file.unwrap().path()) {
        for (name, short) in options(&std::fs::read_to_string(&file).unwrap()) {
            seen += 1;
            let is_there = mentions(&guide, &name)
                || short.is_some_and(|short| mentions(&guide, &format!("-{short}")));
            if !is_there && !["--help", "--help-all", "--version"].contains(&name.as_str()) {
                absent.push(format!("{}: {name}", file.file_stem().unwrap().to_string_lossy()));
            }
        }
    }
    assert!(seen > 200 && absent.is_empty(), "{seen} options; not in the guide: {absent:#?}");
}

#[test]
fn options_of_manual_pages_are_found() {
    let page = "\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fI<FILE>\\fR\n.TP\n\\fB\\-\\-sysfs\\-root\\fR";
    let expected = [("--output".to_owned(), Some('o')), ("--sysfs-root".to_owned(), None)];
    assert_eq!(options(page), expected);
    assert!(mentions("`--all`", "--all") && !mentions("--all-of", "--all"));
    assert!(mentions("app -o a", "-o") && !mentions("--a-o", "-o"));
}

#[test]
fn shells_complete_subcommands_and_options() {
    let stage = Stage::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&stage.clscope().args(["completions", shell]).ended());
        for name in subcommands(&stage) {
            assert!(script.contains(&name), "{shell}: {name}");
        }
    }
    let script = stdout(&stage.clscope().args(["completions", "bash"]).ended());
    std::fs::write(stage.join("script"), script).unwrap();
    let completed = |words: &str, at: usize| {
        let last = words.split(' ').nth(at).unwrap_or_default();
        let line = format!(
            ". ./script; COMP_WORDS=({words}); COMP_CWORD={at}; _clscope clscope '{last}' ''; \
             echo ${{COMPREPLY[@]}}"
        );
        stdout(&Command::new("bash").current_dir(stage.path()).args(["-c", &line]).ended())
    };
    assert_eq!(completed("clscope re", 1).trim(), "record report replay");
    let options = completed("clscope record --dev", 2);
    assert_eq!(options.trim(), "--device-timing");
    let refused = stage.clscope().args(["completions", "tcsh"]).ended();
    assert!(!refused.status.success() && stderr(&refused).contains("possible values"));
}
