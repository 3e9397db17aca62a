//! The library crates can be published: each says what it is and under which terms, needs no crate
//! of the workspace that stays here, and its package holds every file that its code includes.
//! Nothing is asked of a registry; `tools/bench/checks.sh publish` asks, and compiles the packages.

use clscope_testing::Limited;
use clscope_tests::artifacts::root;
use clscope_tests::workspace::{cargo, packages, text};
use serde_json::Value;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// What `include_str!` and `include_bytes!` of a source name, beside it.
fn included(source: &str) -> Vec<String> {
    let parts =
        source.split("include_str!(\"").skip(1).chain(source.split("include_bytes!(\"").skip(1));
    parts.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())).collect()
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                assert!(out.pop(), "{} leads out of the package", path.display())
            }
            part => out.push(part),
        }
    }
    out
}

/// Sources below a folder. Who builds the package compiles no tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
}

#[test]
fn packages_of_the_library_crates_are_whole() {
    let target = tempfile::tempdir().unwrap();
    let packages = packages(target.path());
    // An empty list of registries is `publish = false`.
    let published = |p: &Value| p["publish"].as_array().is_none_or(|to| !to.is_empty());
    let mut chosen = vec!["package", "--quiet", "--no-verify", "--allow-dirty"];
    let libraries: Vec<&Value> = packages.iter().filter(|p| published(p)).collect();
    let names: Vec<&str> = libraries.iter().map(|p| text(p, "name")).collect();
    for wanted in ["clscope-trace", "clscope-analysis", "clscope-profile", "clscope-export"] {
        assert!(names.contains(&wanted), "{wanted} is not published: {names:?}");
    }
    for package in &libraries {
        let name = text(package, "name");
        assert!(text(package, "description").len() > 20, "{name} does not say what it is");
        assert_eq!(text(package, "license"), "MIT OR Apache-2.0", "{name}");
        assert!(text(package, "repository").starts_with("https://"), "{name}: {package}");
        for list in ["keywords", "categories"] {
            // Registries refuse more than five.
            let count = package[list].as_array().map_or(0, Vec::len);
            assert!((1..=5).contains(&count), "{name} has {count} {list}");
        }
        for dependency in package["dependencies"].as_array().unwrap() {
            let of = text(dependency, "name");
            if of.starts_with("clscope") && text(dependency, "kind") != "dev" {
                assert!(names.contains(&of), "{name} needs {of}, which is not published");
            }
        }
        chosen.extend(["-p", name]);
    }
    cargo(target.path(), &chosen);
    for package in &libraries {
        let (name, version) = (text(package, "name"), text(package, "version"));
        let unpacked = target.path().join("package").join(format!("{name}-{version}"));
        let archive = unpacked.with_file_name(format!("{name}-{version}.crate"));
        let output = Command::new("tar")
            .arg("-C")
            .arg(target.path().join("package"))
            .arg("-xzf")
            .arg(&archive)
            .ended();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut found = Vec::new();
        sources(&unpacked.join("src"), &mut found);
        assert!(!found.is_empty(), "{name} has no sources");
        for source in found {
            for file in included(&std::fs::read_to_string(&source).unwrap()) {
                let beside = source.strip_prefix(&unpacked).unwrap().with_file_name(&file);
                let path = unpacked.join(plain(&beside));
                assert!(path.is_file(), "{name}: {} includes {file}", source.display());
            }
        }
    }
}

/// What the packages carry as NOTICE.
#[test]
fn the_notice_has_the_terms_of_crates_and_of_the_standard_library() {
    let mut command = Command::new("python3");
    command
        .current_dir(root())
        .env("CARGO_NET_OFFLINE", "true")
        .args(["-B", "tools/setup/notice.py"]);
    command.arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = command.ended();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if told.contains("no notices of Rust's standard library") {
        return clscope_tests::skip("the notices of Rust's standard library: no rust-docs", false);
    }
    assert!(output.status.success(), "{told}");
    let notice = String::from_utf8(output.stdout).unwrap();
    for part in
        ["  serde_json ", "Rust's standard library, of which", "Permission is hereby granted"]
    {
        assert!(notice.contains(part), "{part}");
    }
}
