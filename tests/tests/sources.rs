//! Rules that every Rust source of the repository keeps: it says at its head what it owns, a module
//! without unsafe code forbids it, no sentence for people has a word that only this project knows,
//! and functions are named by a verb and its object. What the compiler or Clippy can tell is left
//! to them.
#![forbid(unsafe_code)]

use clscope_tests::plain::dialect;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// All files of an ending below a folder, without build products and hidden folders.
fn files_of(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.') && !name.starts_with("target") {
                files_of(&path, ending, found);
            }
        } else if name.ends_with(ending) {
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
        files_of(&root().join(folder), ".rs", &mut found);
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

/// One figure has one interval in all views: `Interval::spoken` and `Interval::longer` decide.
#[test]
fn no_view_makes_half_widths_of_its_own() {
    let is_view = |path: &Path| {
        ["text", "export", "top"]
            .iter()
            .any(|of| path.starts_with(root().join("tools").join(of).join("src")))
    };
    for (path, text) in all().iter().filter(|(path, _)| is_view(path)) {
        for own in [".half()", ".relative()"] {
            assert!(!text.contains(own), "{}: {own}", path.display());
        }
    }
}

#[test]
fn every_source_says_what_it_owns() {
    let silent = |(path, text): &(PathBuf, String)| {
        (!text.starts_with("//! ")).then(|| path.display().to_string())
    };
    let found: Vec<String> = all().iter().filter_map(silent).collect();
    assert!(found.is_empty(), "without a paragraph at their head: {found:#?}");
}

/// Crates of the recorder and of tests: no sentences of theirs reach people who read a report.
const WITHOUT_SENTENCES: [&str; 5] =
    ["src", "tests", "tools/bench", "tools/testing", "tools/generate"];

/// The string literals of a source, each with its line; what stands in `mod tests` is left out.
fn literals(source: &str) -> Vec<(usize, String)> {
    let shipped = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let mut out = Vec::new();
    let mut rest = shipped;
    let line = |rest: &str| shipped[..shipped.len() - rest.len()].matches('\n').count() + 1;
    while let Some(c) = rest.chars().next() {
        let end = |of: &str, from: usize| rest[from..].find(of).map(|at| from + at + of.len());
        let hashes = rest.get(1..).unwrap_or("").chars().take_while(|c| *c == '#').count();
        let length = if rest.starts_with("//") {
            end("\n", 0)
        } else if rest.starts_with("/*") {
            end("*/", 2)
        } else if c == 'r' && rest[1 + hashes..].starts_with('"') {
            let close = format!("\"{}", "#".repeat(hashes));
            let length = end(&close, hashes + 2);
            out.extend(length.map(|n| (line(rest), rest[..n].to_owned())));
            length
        } else if c == '"' {
            let mut escaped = false;
            let close = rest.char_indices().skip(1).find(|(_, c)| {
                let is_end = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                is_end
            });
            let length = close.map(|(at, _)| at + 1);
            out.extend(length.map(|n| (line(rest), rest[..n].to_owned())));
            length
        } else if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") {
            Some(if rest.starts_with("'\"'") { 3 } else { 4 })
        } else if c == '_' || c.is_alphanumeric() {
            // A name that ends in `r` begins no raw literal.
            rest.find(|c: char| c != '_' && !c.is_alphanumeric())
        } else {
            Some(c.len_utf8())
        };
        rest = length.map_or("", |length| &rest[length..]);
    }
    out
}

#[test]
fn no_sentence_has_a_word_that_only_this_project_knows() {
    let inside = |path: &Path| WITHOUT_SENTENCES.iter().any(|of| path.starts_with(root().join(of)));
    let is_test = |path: &Path| {
        let part = |of: &str| path.components().any(|part| part.as_os_str() == of);
        part("tests") || part("examples") || path.to_string_lossy().ends_with("tests.rs")
    };
    // What experiments and plots are called.
    let mut tables = Vec::new();
    files_of(&root().join("tools/lab/src"), ".json", &mut tables);
    assert!(tables.len() > 5, "{tables:?}");
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    };
    let texts: Vec<_> = all().into_iter().chain(tables.into_iter().map(read)).collect();
    let mut found = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| !inside(path) && !is_test(path)) {
        let said = literals(text).into_iter().filter_map(|(line, of)| Some((line, dialect(&of)?)));
        found.extend(said.map(|(line, word)| format!("{}:{line}: {word}", path.display())));
    }
    assert!(found.is_empty(), "{} sentences: {found:#?}", found.len());
}

/// Sizes have one kind of units in all views, those of `clscope_io::text::bytes`; rates are GB/s.
#[test]
fn no_view_has_units_of_bytes_of_its_own() {
    let inside = |path: &Path| WITHOUT_SENTENCES.iter().any(|of| path.starts_with(root().join(of)));
    let is_test = |path: &Path| path.components().any(|part| part.as_os_str() == "tests");
    let is_own = |literal: &str| {
        ["kB", "MB", "GB"]
            .iter()
            .flat_map(|unit| literal.split(unit).skip(1).zip(literal.split(unit)))
            .any(|(behind, before)| {
                (before.is_empty() || before.ends_with([' ', '}'])) && !behind.starts_with("/s")
            })
    };
    let mut found = Vec::new();
    for (path, text) in all().iter().filter(|(path, _)| !inside(path) && !is_test(path)) {
        let own = literals(text).into_iter().filter(|(_, of)| is_own(of));
        found.extend(own.map(|(line, of)| format!("{}:{line}: {of}", path.display())));
    }
    assert!(found.is_empty(), "{found:#?}");
    assert!(is_own("{} MB") && is_own("kB") && !is_own("{} GB/s") && !is_own("{} KiB"));
}

/// Names that tell nothing of what a function does.
const EMPTY_NAMES: [&str; 4] = ["of", "one", "told", "what"];

/// Folders whose functions still have such names. Remove a line once its folder is clean.
const WITH_EMPTY_NAMES: [&str; 4] =
    ["tools/analysis/src/energy", "tools/mix", "tools/models", "tools/profile/src/energy"];

/// Lines of a source that define a function of an empty name, each with the name.
fn empty_names(source: &str) -> Vec<(usize, &'static str)> {
    let name = |line: &str| {
        let code = line.split("//").next()?;
        let (before, rest) = code.split_once("fn ")?;
        let end = rest.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(rest.len());
        let begins = before.ends_with(' ') || before.is_empty();
        EMPTY_NAMES.into_iter().find(|name| begins && *name == &rest[..end])
    };
    source.lines().enumerate().filter_map(|(at, line)| Some((at + 1, name(line)?))).collect()
}

#[test]
fn functions_are_named_by_verb_and_object() {
    let mut files = all();
    let mut more = Vec::new();
    files_of(&root().join("tests/tests"), ".rs", &mut more);
    files.extend(more.into_iter().map(|path| {
        let text = std::fs::read_to_string(&path).unwrap();
        (path, text)
    }));
    let mut faults = Vec::new();
    let mut left = std::collections::BTreeMap::from(WITH_EMPTY_NAMES.map(|of| (of, 0)));
    for (path, text) in &files {
        let found = empty_names(text);
        match left.iter_mut().find(|(of, _)| path.starts_with(root().join(of))) {
            Some((_, count)) => *count += found.len(),
            None => faults
                .extend(found.iter().map(|(line, of)| format!("{}:{line}: {of}", path.display()))),
        }
    }
    println!("functions of empty names that are left over: {left:#?}");
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn empty_names_are_found() {
    // Written so that the test above does not find them here.
    let source =
        "pub(super) FN of(x: u8) {}\n// FN one()\nFN one_more() {}\nconst FN told<'a>() {}\n\
                  let x = of(3);\nunsafe FN what\n"
            .replace("FN", "fn");
    assert_eq!(empty_names(&source), [(1, "of"), (4, "told"), (6, "what")]);
}

#[test]
fn words_of_sentences_are_found() {
    let source = concat!(
        "// \"the floor of it\"\nfor x in y { a('\"'); say(\"at the floor: {x}\") }\n",
        "let b = r#\"it \"lends\" joules\"#; let kind = \"floor\"; is(\"x\\\"y its\\n turn\");\n",
        "#[cfg(test)]\nmod tests { fn t() { \"no floor here\" } }"
    );
    let found: Vec<_> = literals(source);
    let words: Vec<_> = found.iter().map(|(line, of)| (*line, dialect(of))).collect();
    let wanted = [(2, Some("floor*")), (3, Some("lend*")), (3, None), (3, Some("its turn"))];
    assert_eq!(words, wanted, "{found:?}");
    assert_eq!(dialect("\"flooring is floored\""), Some("floor*"));
    assert_eq!(dialect("\"a calendar, relents\""), None);
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

/// Constants of the estimates, as (file, name, value): all that are numbers, those of tests apart.
fn constants(folder: &Path) -> Vec<(String, String, String)> {
    let mut files = Vec::new();
    match folder.is_dir() {
        true => files_of(folder, ".rs", &mut files),
        false => files.push(folder.to_owned()),
    }
    files.retain(|path| !path.iter().any(|part| part == "tests") && !path.ends_with("tests.rs"));
    let of_file = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let own = text.split("#[cfg(test)]\nmod ").next().unwrap().to_owned();
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let found = own.split("const ").skip(1).filter_map(|text| {
            let (name, rest) = text.split_once(": ")?;
            let is_name =
                name.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit());
            let (kind, rest) = rest.split_once(" =").filter(|_| is_name)?;
            let value = rest.split_once(';')?.0.split_whitespace().collect::<Vec<_>>().join(" ");
            let is_number = ["f64", "u32", "u64", "i64", "usize"].iter().any(|n| kind.contains(n));
            is_number.then(|| (file.clone(), name.to_owned(), value))
        });
        found.collect::<Vec<_>>()
    };
    files.iter().flat_map(of_file).collect()
}

/// Names of a table's cell, each with the file that is told with it: "`A`, `B` in `c.rs`".
fn names(cell: &str) -> Vec<(String, Option<String>)> {
    let mut found: Vec<(String, Option<String>)> = Vec::new();
    for word in cell.split('`').skip(1).step_by(2) {
        match found.last_mut().filter(|_| word.ends_with(".rs")) {
            Some(last) => last.1 = Some(word.to_owned()),
            None => found.push((word.to_owned(), None)),
        }
    }
    found
}

/// Values of a table's cell, between which are commas outside of brackets.
fn values(cell: &str) -> Vec<String> {
    let (mut found, mut depth) = (vec![String::new()], 0);
    for c in cell.trim().chars() {
        depth += i32::from("([".contains(c)) - i32::from(")]".contains(c));
        match c == ',' && depth == 0 {
            true => found.push(String::new()),
            false => found.last_mut().unwrap().push(c),
        }
    }
    found.iter().map(|value| value.trim().to_owned()).collect()
}

#[test]
fn every_constant_of_the_estimates_has_its_source() {
    let read = |path: &str| std::fs::read_to_string(root().join(path)).unwrap();
    let (model, others) = (read("tools/guide/model.md"), read("tools/analysis/CONSTANTS.md"));
    let folders = [
        "tools/analysis/src/energy",
        "tools/analysis/src/stats",
        "tools/analysis/src/interval.rs",
        "tools/profile/src/energy",
    ];
    let all: Vec<_> = folders.iter().flat_map(|of| constants(&root().join(of))).collect();
    assert!(all.len() > 100, "{}", all.len());
    let (rows, bounds) = others.split_once("## Bounds").unwrap();
    let mut told: Vec<(String, Option<String>, Option<String>)> = Vec::new();
    let mut faults = Vec::new();
    for row in rows.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        let (names, values) = (names(cells[1]), values(cells[2]));
        if names.len() != values.len() {
            faults.push(format!("{} names and {} values: {row}", names.len(), values.len()));
        }
        told.extend(names.into_iter().zip(values).map(|((name, file), v)| (name, file, Some(v))));
    }
    told.extend(names(bounds).into_iter().map(|(name, file)| (name, file, None)));
    // Values of the model's page are in the reader's units.
    let of_model = model.lines().filter(|line| line.starts_with("| `"));
    let of_model = of_model.flat_map(|line| names(line.split('|').nth(1).unwrap()));
    told.extend(of_model.map(|(name, file)| (name, file, None)));
    for (file, name, value) in &all {
        // A name that several files have is told by its file.
        let here = told.iter().filter(|of| of.0 == *name);
        let here: Vec<_> = here.filter(|of| of.1.as_ref().is_none_or(|of| of == file)).collect();
        match &here[..] {
            [] => faults.push(format!("{file}: {name} = {value} has no row")),
            of if of.iter().any(|of| of.2.as_ref().is_none_or(|of| of == value)) => {}
            _ => faults.push(format!("{file}: {name} is {value}, and told as {here:?}")),
        }
    }
    for (name, file, _) in &told {
        let is = |of: &&(String, String, String)| {
            of.1 == *name && file.as_ref().is_none_or(|file| *file == of.0)
        };
        if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') && !all.iter().any(|of| is(&of))
        {
            faults.push(format!("{name} is no constant of {file:?}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn names_and_values_of_constants_are_read_by_their_place() {
    let cell = " `A`, `B` in `c.rs`, `D` ";
    let expected = [("A", None), ("B", Some("c.rs")), ("D", None)];
    assert_eq!(names(cell), expected.map(|(n, f)| (n.to_owned(), f.map(str::to_owned))));
    assert_eq!(values(" (1.0, 2.0), [3, 4], 5 "), ["(1.0, 2.0)", "[3, 4]", "5"]);
}

/// Files of the recorder that use each other in a circle, a line for each circle. Remove a line once
/// its circle is broken.
const CIRCLES: [&str; 3] = [
    "features/capture/begin.rs features/capture/lifetimes.rs features/capture/look.rs \
     features/capture/mod.rs features/capture/program.rs",
    "features/device_time/calls.rs features/device_time/markers.rs features/device_time/mod.rs \
     features/device_time/pending.rs features/device_time/queried_times.rs \
     features/device_time/queues.rs features/device_time/sampling.rs features/device_time/switch.rs",
    "recording/files/mod.rs recording/files/reopened_file.rs recording/files/segments.rs \
     recording/guard.rs recording/ring/end.rs recording/ring/mod.rs recording/ring/pool.rs \
     recording/ring/protocol.rs recording/ring/records.rs recording/ring/regions.rs \
     recording/ring/runs.rs recording/state.rs recording/thread.rs",
];

/// Names that `use` lines of a source bring in, whole, without those of its tests: `super` and
/// `self` are resolved from `module`.
fn used(source: &str, module: &[String]) -> Vec<Vec<String>> {
    let shipped = source.split("#[cfg(test)]\nmod ").next().unwrap_or("");
    let mut found = Vec::new();
    for line in shipped.split(';') {
        let code: String =
            line.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join(" ");
        let Some((_, tree)) = code.rsplit_once("use ") else { continue };
        let mut parents: Vec<Vec<String>> = Vec::new();
        let mut path: Vec<String> = Vec::new();
        let mut word = String::new();
        for c in tree.chars().chain([',']) {
            match c {
                '{' => parents.push(path.clone()),
                ',' | '}' => {
                    if !word.is_empty() {
                        path.push(std::mem::take(&mut word));
                        found.push(std::mem::take(&mut path));
                    }
                    if c == '}' {
                        parents.pop();
                    }
                    path = parents.last().cloned().unwrap_or_default();
                }
                ':' if !word.is_empty() => path.push(std::mem::take(&mut word)),
                c if c.is_whitespace() || c == ':' => {}
                c => word.push(c),
            }
        }
    }
    let whole = |path: Vec<String>| {
        let ups = path.iter().take_while(|part| *part == "super").count();
        let begin = match path.first().map(String::as_str)? {
            "crate" => return Some(path[1..].to_vec()),
            "self" => return Some([module, &path[1..]].concat()),
            "super" => module.get(..module.len().checked_sub(ups)?)?,
            _ => module,
        };
        Some([begin, &path[ups..]].concat())
    };
    found.into_iter().filter_map(whole).collect()
}

/// Circles of files that use each other, each as its files in order with blanks between.
fn circles(files: &[(String, String)]) -> Vec<String> {
    let module = |file: &str| -> Vec<String> {
        let path = file.trim_end_matches(".rs");
        let path = path.strip_suffix("/mod").unwrap_or(path);
        path.split('/').filter(|part| *part != "lib").map(str::to_owned).collect()
    };
    let modules: Vec<Vec<String>> = files.iter().map(|(file, _)| module(file)).collect();
    let index = |path: &[String]| {
        (1..=path.len()).rev().find_map(|n| modules.iter().position(|of| *of == path[..n]))
    };
    // Who is reached from each.
    let mut reached: Vec<Vec<bool>> = vec![vec![false; files.len()]; files.len()];
    for (at, (_, text)) in files.iter().enumerate() {
        for to in used(text, &modules[at]).iter().filter_map(|path| index(path)) {
            reached[at][to] = at != to;
        }
    }
    for over in 0..files.len() {
        for from in 0..files.len() {
            if reached[from][over] {
                let more = reached[over].clone();
                reached[from].iter_mut().zip(more).for_each(|(all, more)| *all |= more);
            }
        }
    }
    let mut found = std::collections::BTreeSet::new();
    for at in (0..files.len()).filter(|at| reached[*at][*at]) {
        let circle = (0..files.len()).filter(|of| reached[at][*of] && reached[*of][at]);
        found.insert(circle.map(|of| files[of].0.as_str()).collect::<Vec<_>>().join(" "));
    }
    found.into_iter().collect()
}

#[test]
fn files_of_the_recorder_use_each_other_one_way() {
    let source = root().join("src");
    let inside = |(path, text): (PathBuf, String)| {
        let file = path.strip_prefix(&source).ok()?.to_str()?.to_owned();
        (!file.ends_with("tests.rs")).then_some((file, text))
    };
    let files: Vec<_> = all().into_iter().filter_map(inside).collect();
    assert!(files.len() > 90, "{}", files.len());
    assert_eq!(circles(&files), CIRCLES, "circles now, and those that are known");
}

#[test]
fn circles_are_found() {
    let files = [
        ("a/mod.rs", "mod b;\nuse b::{x, y::{self, z}};"),
        (
            "a/b.rs",
            "use crate::c::d;\nuse std::io;\n#[cfg(test)]\nmod tests { use super::super::e; }",
        ),
        ("c.rs", "// use crate::e;\nuse crate::{\n    e,\n    f::g as h,\n};"),
        ("e.rs", "use super::a;"),
        ("f.rs", "use self::g;"),
    ];
    let files = files.map(|(file, text)| (file.to_owned(), text.to_owned()));
    assert_eq!(circles(&files), ["a/mod.rs a/b.rs c.rs e.rs"]);
    assert!(circles(&files[1..]).is_empty());
}
