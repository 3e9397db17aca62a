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
