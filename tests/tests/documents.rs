//! The documents of the repository: every relative link leads to a file that exists, every anchor
//! to a heading of it. Links to other hosts are not followed. The guide is short, and its words are
//! plain.

use clscope_tests::artifacts;
use clscope_tests::plain::dialect;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a document links to, and what it can be linked by.
#[derive(Default)]
struct Document {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

/// All documents below a folder, without build products and hidden folders.
fn documents(folder: &Path, found: &mut BTreeMap<PathBuf, Document>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && !name.starts_with("target") {
                documents(&path, found);
            }
        } else if name.ends_with(".md") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.insert(path.canonicalize().unwrap(), parsed(&text));
        }
    }
}

fn parsed(text: &str) -> Document {
    let mut document = Document::default();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                document.links.push(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            Event::End(TagEnd::Heading(_)) => {
                let plain = anchor(&heading.take().unwrap_or_default());
                let mut name = plain.clone();
                for n in 1.. {
                    if document.anchors.insert(name) {
                        break;
                    }
                    name = format!("{plain}-{n}");
                }
            }
            _ => {}
        }
    }
    document
}

/// The anchor that code hosts give a heading: lower case, spaces as hyphens, no punctuation.
fn anchor(heading: &str) -> String {
    heading
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            _ => c.is_alphanumeric().then(|| c.to_ascii_lowercase()),
        })
        .collect()
}

/// What is wrong with a link, if anything.
fn fault(from: &Path, link: &str, known: &BTreeMap<PathBuf, Document>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, wanted) = link.split_once('#').map_or((link, None), |(p, a)| (p, Some(a)));
    let target = if path.is_empty() { from.to_owned() } else { from.parent()?.join(path) };
    let Ok(target) = target.canonicalize() else {
        return Some(format!("{}: {link}: no such file", from.display()));
    };
    let wanted = wanted?;
    let there = known.get(&target).is_some_and(|document| document.anchors.contains(wanted));
    (!there).then(|| format!("{}: {link}: no such heading", from.display()))
}

#[test]
fn every_link_leads_somewhere() {
    let mut known = BTreeMap::new();
    documents(&artifacts::root(), &mut known);
    let links: usize = known.values().map(|document| document.links.len()).sum();
    assert!(known.len() >= 10 && links >= 50, "{} documents, {links} links", known.len());
    let faults: Vec<String> = known
        .iter()
        .flat_map(|(path, document)| document.links.iter().map(move |link| (path, link)))
        .filter_map(|(path, link)| fault(path, link, &known))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Widest line of prose. Tables, code and pictures have no line breaks to give.
const WIDTH: usize = 100;
/// Most lines of the README: what is longer belongs to the guide.
const README: usize = 110;

fn too_wide(line: &str) -> bool {
    let prose = !line.trim_start().starts_with('|') && !line.starts_with("    ");
    prose && !line.starts_with('!') && line.chars().count() > WIDTH
}

#[test]
fn the_readme_is_short_and_all_documents_are_narrow() {
    let readme = std::fs::read_to_string(artifacts::root().join("README.md")).unwrap();
    assert!(readme.lines().count() <= README, "{} lines", readme.lines().count());
    let mut all = BTreeMap::new();
    documents(&artifacts::root(), &mut all);
    for path in all.keys() {
        let text = std::fs::read_to_string(path).unwrap();
        let wide: Vec<&str> = text.lines().filter(|line| too_wide(line)).collect();
        assert!(wide.is_empty(), "wider than {WIDTH} in {}: {wide:#?}", path.display());
    }
}

/// Most words of the guide, of one of its pages, and most terms of its glossary.
const WORDS: usize = 30_000;
const PAGE_WORDS: usize = 1_200;
const TERMS: usize = 40;

#[test]
fn the_guide_is_short() {
    let mut words = 0;
    for file in std::fs::read_dir(artifacts::root().join("tools/guide")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|of| of != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let of_page = text.split_whitespace().count();
        assert!(of_page <= PAGE_WORDS, "{of_page} words in {}", path.display());
        words += of_page;
        if path.ends_with("glossary.md") {
            let terms = text.lines().filter(|line| line.starts_with("- ")).count();
            assert!((20..=TERMS).contains(&terms), "{terms} terms in the glossary");
        }
    }
    assert!((1..=WORDS).contains(&words), "{words} words in the guide");
}

/// The prose of a document, block by block: code is what the command prints or takes.
fn blocks(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut in_code = false;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(text) if !in_code => found.last_mut().unwrap().push_str(&text),
            Event::SoftBreak | Event::HardBreak => found.last_mut().unwrap().push(' '),
            // What stands in quotation marks for code is one word.
            Event::Code(_) => found.last_mut().unwrap().push('x'),
            Event::End(
                TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::TableCell,
            ) => {
                found.push(String::new());
            }
            _ => {}
        }
    }
    found
}

#[test]
fn no_document_has_a_word_that_only_this_project_knows() {
    let mut all = BTreeMap::new();
    documents(&artifacts::root(), &mut all);
    // Of what was, the changes speak in the words of then.
    let now = all.keys().filter(|path| !path.ends_with("CHANGELOG.md"));
    let mut found = Vec::new();
    for path in now {
        let text = std::fs::read_to_string(path).unwrap();
        for block in blocks(&text) {
            let mut words = block.split(|c: char| !c.is_alphanumeric());
            let told = words.any(|word| word == "told").then_some("told");
            if let Some(word) = dialect(&block).or(told) {
                found.push(format!("{}: {word}: {block:.100}", path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn prose_of_documents_is_found() {
    let text = "# A *b*\n\nIt\ntells `x` apart.\n\n    the floor of code\n\n| a | the floor of it |\n|--|--|\n";
    let found = blocks(text);
    assert!(found.iter().any(|block| block == "It tells x apart."), "{found:?}");
    let words: Vec<_> = found.iter().filter_map(|block| dialect(block)).collect();
    assert_eq!(words, ["floor*"], "{found:?}");
}

#[test]
fn broken_links_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let page = |name: &str| folder.path().canonicalize().unwrap().join(name);
    let text = "# One `two`, three\n\n# Twice\n\n# Twice\n\n[a](b.md#twice-1) ![c](none.png)\n";
    std::fs::write(page("a.md"), text).unwrap();
    std::fs::write(page("b.md"), text).unwrap();
    let mut known = BTreeMap::new();
    documents(folder.path(), &mut known);
    assert_eq!(known[&page("a.md")].links, ["b.md#twice-1", "none.png"]);
    let check = |link: &str| fault(&page("a.md"), link, &known);
    for good in ["b.md", "b.md#one-two-three", "b.md#twice", "b.md#twice-1", "#twice", "x://y"] {
        assert_eq!(check(good), None, "{good}");
    }
    for (bad, why) in [
        ("c.md", "no such file"),
        ("none.png", "no such file"),
        ("b.md#thrice", "no such heading"),
        ("#twice-2", "no such heading"),
    ] {
        assert!(check(bad).unwrap().ends_with(why), "{bad}");
    }
}
