//! Keeps the order of the layers, as it is written in the sources: a layer names those before it
//! alone, and no feature another but for device time, which launches know, and what runs beside the
//! application, which captures and replaces.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// From the lowest to the highest.
const LAYERS: [&str; 9] =
    ["abi", "settings", "os", "recording", "runtime", "facts", "features", "hooks", "shell"];

/// Features that may name another.
const FEATURES_APART: [(&str, &str); 3] =
    [("launch", "device_time"), ("capture", "beside"), ("replace", "beside")];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(directory: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Paths from the crate's root that a source names, as lists of names: of `crate::a::b`, of
/// `use crate::a::{b, c::d}`, and of `super::` in a file of module `at`.
fn named(text: &str, at: &[&str]) -> Vec<Vec<String>> {
    let code: String =
        text.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let mut out = Vec::new();
    for (start, _) in code.match_indices("crate::") {
        if !code[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            expand(&code[start + "crate::".len()..], Vec::new(), &mut out);
        }
    }
    for (start, _) in code.match_indices("super::") {
        // `super::super::` is looked at where it ends; tests inside a file have one `super` more.
        let mut up = 1;
        let mut rest = &code[start + "super::".len()..];
        while let Some(more) = rest.strip_prefix("super::") {
            (up, rest) = (up + 1, more);
        }
        if !code[..start].ends_with("super::") && up < at.len() {
            let base = at[..at.len() - up].iter().map(|s| (*s).to_owned()).collect();
            expand(rest, base, &mut out);
        }
    }
    out
}

/// Reads one path, with its braces, behind what is known of it.
fn expand(text: &str, base: Vec<String>, out: &mut Vec<Vec<String>>) {
    let text = text.trim_start();
    if let Some(inside) = text.strip_prefix('{') {
        let mut depth = 0;
        let mut from = 0;
        for (at, c) in inside.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    expand(&inside[from..at], base, out);
                    return;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    expand(&inside[from..at], base.clone(), out);
                    from = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let rest = &text[name.len()..];
    let mut path = base;
    if !name.is_empty() && name != "self" {
        path.push(name);
    }
    match rest.strip_prefix("::") {
        Some(rest) if path.len() < 3 => expand(rest, path, out),
        _ => out.push(path),
    }
}

/// What is wrong with the arrows of one file.
fn wrong(module: &[&str], text: &str) -> Vec<String> {
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    let (Some(own), here) = (module.first().and_then(|m| rank(m)), module.join("::")) else {
        return Vec::new();
    };
    let mut out = BTreeSet::new();
    for path in named(text, module) {
        let Some(theirs) = path.first().and_then(|layer| rank(layer)) else { continue };
        if theirs > own {
            out.insert(format!("{here} names {}, of a higher layer", path.join("::")));
        }
        if let ("features", [_, feature, ..], [_, other, ..]) =
            (LAYERS[theirs], module, path.as_slice())
            && LAYERS[own] == "features"
            && feature != other
            && !FEATURES_APART.contains(&(feature, other.as_str()))
        {
            out.insert(format!("{here} names {}, another feature", path.join("::")));
        }
    }
    out.into_iter().collect()
}

#[test]
fn layers_name_lower_ones_only() {
    let source = source();
    let mut all = Vec::new();
    files(&source, &mut all);
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for path in all {
        let relative = path.strip_prefix(&source).unwrap().with_extension("");
        let mut module: Vec<&str> =
            relative.components().map(|c| c.as_os_str().to_str().unwrap()).collect();
        if module.last() == Some(&"mod") {
            module.pop();
        }
        seen.insert(module[0].to_owned());
        found.extend(wrong(&module, &std::fs::read_to_string(&path).unwrap()));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    let folders = LAYERS.iter().map(|layer| (*layer).to_owned());
    let others = ["build", "lib", "tests"].map(str::to_owned);
    assert_eq!(seen, folders.chain(others).collect(), "a folder without a place in the order");
}

/// Locks that a fork can leave taken for ever: all but `os::locks::lock` in one incarnation's value, and
/// `os::locks::fork_safe` around what outlives it.
fn unsafe_in_forks(text: &str) -> Vec<&str> {
    let foreign = ["parking_lot", "Condvar", "RwLock", "OnceLock", "LazyLock", "once_cell::sync"];
    let code = text.split("#[cfg(test)]").next().unwrap_or("");
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or("").trim());
    lines
        .filter(|line| {
            let item = line.split_whitespace().take(2).any(|word| word == "static");
            let kept = item && line.contains("Mutex<");
            foreign.iter().any(|name| line.contains(name))
                || line.contains("std::sync") && line.contains("Mutex")
                || kept && !line.contains("Current<")
        })
        .collect()
}

#[test]
fn no_lock_but_those_that_a_fork_cannot_leave_taken() {
    let mut all = Vec::new();
    files(&source(), &mut all);
    for path in all {
        let own = ["locks/lock.rs", "locks/sync.rs", "locks/doorbell.rs", "src/tests.rs"];
        if !own.iter().any(|name| path.ends_with(name)) {
            let text = std::fs::read_to_string(&path).unwrap();
            let found = unsafe_in_forks(&text);
            assert!(
                found.is_empty(),
                "{}: {found:?}: use os::locks::lock or os::locks::fork_safe",
                path.display()
            );
        }
    }
    for (text, is_wrong) in [
        ("static TAKING: Mutex<()> = Mutex::new(());", true),
        ("static CONFIG: OnceCell<u8> = once_cell::sync::OnceCell::new();", true),
        ("use std::sync::{Arc, Mutex};", true),
        ("static CURRENT: Current<Mutex<State>> = Current::none();", false),
        ("static KNOWN: ForkSafe<Known> = ForkSafe::new();", false),
        ("    waiting: Mutex<HashSet<usize>>,", false),
    ] {
        assert_eq!(!unsafe_in_forks(text).is_empty(), is_wrong, "{text}");
    }
}

/// The standard library's maps ask the system for random numbers, which a sandbox may forbid.
#[test]
fn no_map_that_asks_the_system() {
    let mut all = Vec::new();
    files(&source(), &mut all);
    for path in all {
        if path.ends_with("shared/maps.rs") || path.ends_with("src/tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]").next().unwrap_or("");
        let imports = code.split(';').filter(|part| part.contains("std::collections"));
        for import in imports {
            assert!(!import.contains("Hash"), "{}: use os::shared::maps: {import}", path.display());
        }
        assert!(!code.contains("RandomState"), "{}: use os::shared::maps", path.display());
    }
}

#[test]
fn arrows_upward_and_between_features_are_found() {
    for (module, text, is_wrong) in [
        (&["facts", "objects"][..], "use crate::recording::{self, guard};", false),
        (&["facts", "objects"], "use crate::features::device_time::Queue;", true),
        (&["os", "threads"], "fn f() { crate::hooks::platform::of() }", true),
        (&["recording", "ring"], "use crate::{abi::entry::H, shell};", true),
        (&["features", "launch"], "use super::device_time::{self, Queue};", false),
        (&["features", "counters"], "use crate::features::{launch, sampler};", true),
        (&["features", "counters"], "use super::sampler;", true),
        (
            &["features", "device_time", "switch"],
            "use super::Queue; use super::super::launch;",
            true,
        ),
        (&["features", "device_time", "switch"], "use super::Queue;", false),
        (&["hooks", "queue"], "// crate::shell is above", false),
    ] {
        assert_eq!(!wrong(module, text).is_empty(), is_wrong, "{}: {text}", module.join("::"));
    }
}

/// Whatever links the library's tests must find OpenCL's functions elsewhere.
#[test]
fn the_test_binary_exports_no_function_of_the_api() {
    let own = std::fs::read("/proc/self/exe").unwrap();
    // In the table of dynamic symbols a name stands between zeros.
    for name in ["clGetPlatformIDs", "clFinish", "clInitLayer", "clscope_bind"] {
        let exported = format!("\0{name}\0");
        let dynamic = dynamic_strings(&own);
        assert!(
            !dynamic.windows(exported.len()).any(|w| w == exported.as_bytes()),
            "{name} is exported"
        );
    }
}

/// The section `.dynstr` of a 64-bit ELF file (System V ABI, "Sections").
fn dynamic_strings(file: &[u8]) -> &[u8] {
    let word = |at: usize, bytes: usize| {
        file[at..at + bytes].iter().rev().fold(0usize, |sum, b| sum << 8 | usize::from(*b))
    };
    let (table, size, count, names) = (word(0x28, 8), word(0x3a, 2), word(0x3c, 2), word(0x3e, 2));
    let section = |index: usize| table + index * size;
    let name_of = |index: usize| {
        let at = word(section(names) + 0x18, 8) + word(section(index), 4);
        let length = file[at..].iter().position(|b| *b == 0).unwrap();
        &file[at..at + length]
    };
    let found =
        (0..count).find(|index| name_of(*index) == b".dynstr").expect("a dynamic executable");
    let (at, length) = (word(section(found) + 0x18, 8), word(section(found) + 0x20, 8));
    &file[at..at + length]
}
