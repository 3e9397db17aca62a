//! Words that only this project knows, which no sentence for people has: neither one that a program
//! prints nor one of a document.
#![forbid(unsafe_code)]

/// What no sentence says, in whole words, lower case; `*` is any ending.
const DIALECT: [&str; 25] = [
    "floor*",
    "unattributed",
    "told apart",
    "tell apart",
    "tells apart",
    "tell them apart",
    "tells them apart",
    "acquit*",
    "blame*",
    "lend*",
    "lent",
    "borrow*",
    "seldom",
    "its turn",
    "whose turn",
    "in the company",
    "stamps",
    "dynamic joules",
    "dynamic energy",
    "known only with",
    "repetitions make it",
    "leave open",
    "open by",
    "not told",
    "p_gain",
];

/// The word of `DIALECT` that a sentence has. What is no sentence has none: names and values of
/// data are one word.
pub fn dialect(literal: &str) -> Option<&'static str> {
    let text = literal.trim_matches('"').replace("\\n", " ").replace("\\\n", " ");
    // What stands between braces is code.
    let text: String = text.split('{').map(|of| of.split_once('}').map_or(of, |of| of.1)).collect();
    let words: Vec<String> = text
        .split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let is = |wanted: &str, word: &str| match wanted.strip_suffix('*') {
        Some(begin) => word.starts_with(begin),
        None => word == wanted,
    };
    let has = |phrase: &&str| {
        let wanted: Vec<&str> = phrase.split(' ').collect();
        words.windows(wanted.len()).any(|those| wanted.iter().zip(those).all(|(w, of)| is(w, of)))
    };
    DIALECT.into_iter().find(|phrase| text.trim().contains(' ') && has(phrase))
}
