//! Rules that every Rust source of the repository keeps: it says at its head what it owns, and a
//! module without unsafe code forbids it. What the compiler or Clippy can tell is left to them.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All sources below a folder, without build products and hidden folders.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && !name.starts_with("target") {
                sources(&path, found);
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// Whether the code, comments apart, says `unsafe`.
fn is_unsafe(text: &str) -> bool {
    text.lines().any(|line| {
        let code = line.split("//").next().unwrap_or("");
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| word == "unsafe")
    })
}

/// Whether the module and all below it forbid unsafe code.
fn forbids(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]")
}

/// The folder of a module's own modules.
fn below(path: &Path) -> PathBuf {
    let folder = path.parent().unwrap();
    match path.file_name().and_then(|name| name.to_str()) {
        Some("mod.rs" | "lib.rs" | "main.rs") => folder.to_owned(),
        _ => path.with_extension(""),
    }
}

/// Modules that could forbid unsafe code and do not, of files with their texts. What a module
/// forbids is forbidden in those below it.
fn careless(files: &[(PathBuf, String)]) -> Vec<&Path> {
    let forbidding: Vec<PathBuf> = files
        .iter()
        .filter(|(_, text)| forbids(text))
        .filter(|(path, text)| text.contains("mod ") || path.ends_with("lib.rs"))
        .map(|(path, _)| below(path))
        .collect();
    let free = |path: &Path, text: &str| {
        let folder = below(path);
        !is_unsafe(text)
            && files.iter().all(|(other, text)| !other.starts_with(&folder) || !is_unsafe(text))
    };
    files
        .iter()
        .filter(|(path, text)| free(path, text) && !forbids(text))
        .map(|(path, _)| path.as_path())
        .filter(|path| !forbidding.iter().any(|folder| path.starts_with(folder)))
        .collect()
}

fn all() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["src", "tools", "tests/src"] {
        sources(&root().join(folder), &mut found);
    }
    found.sort();
    assert!(found.len() > 300, "{} sources", found.len());
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    };
    found.into_iter().map(read).collect()
}

#[test]
fn modules_without_unsafe_code_forbid_it() {
    // Tests and examples are programs of their own, of which nothing is shipped.
    let shipped = |path: &Path| {
        !path
            .components()
            .any(|part| ["tests", "examples"].iter().any(|of| part.as_os_str() == *of))
            || path.starts_with(root().join("tests/src"))
    };
    let files: Vec<_> = all().into_iter().filter(|(path, _)| shipped(path)).collect();
    let found = careless(&files);
    assert!(found.is_empty(), "#![forbid(unsafe_code)] is missing at the head of {found:#?}");
}

#[test]
fn every_source_says_what_it_owns() {
    let silent = |(path, text): &(PathBuf, String)| {
        (!text.starts_with("//! ")).then(|| path.display().to_string())
    };
    let found: Vec<String> = all().iter().filter_map(silent).collect();
    assert!(found.is_empty(), "without a paragraph at their head: {found:#?}");
}

#[test]
fn careless_modules_are_found() {
    let files = |texts: &[(&str, &str)]| -> Vec<(PathBuf, String)> {
        texts.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    };
    const FORBIDS: &str = "#![forbid(unsafe_code)]\n";
    for (texts, expected) in [
        (
            &[("a/src/lib.rs", "mod b;"), ("a/src/b.rs", "fn f() {}")][..],
            &["a/src/lib.rs", "a/src/b.rs"][..],
        ),
        (&[("a/src/lib.rs", "#![forbid(unsafe_code)]\nmod b;"), ("a/src/b.rs", "")], &[]),
        (&[("a/src/lib.rs", "mod b;"), ("a/src/b.rs", "unsafe { f() }")], &[]),
        (&[("a/src/b.rs", "mod c;"), ("a/src/b/c.rs", "unsafe { f() }")], &[]),
        (&[("a/src/b.rs", "// unsafe"), ("a/src/c.rs", FORBIDS)], &["a/src/b.rs"]),
        (&[("a/src/b.rs", "#![expect(unsafe_code)]")], &["a/src/b.rs"]),
    ] {
        let files = files(texts);
        assert_eq!(
            careless(&files),
            expected.iter().map(Path::new).collect::<Vec<_>>(),
            "{texts:?}"
        );
    }
}
