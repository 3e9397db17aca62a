//! Long names in little room. Owns what is cut out of a name that is shown: its middle, since both
//! ends of a name carry information. Refuses to let two names that differ look the same.
#![forbid(unsafe_code)]

use std::collections::{BTreeSet, HashMap, HashSet};

/// Most characters of a name in an output for people that asks for no full names: an application
/// may choose names of megabytes.
pub const NAME: usize = 200;
/// Most characters of a text of a program's own that holds names.
pub const PROSE: usize = 1_000;

/// What stands for what is left out.
const GAP: &str = "...";
/// How often the part in which names differ is looked for before they are numbered.
const ROUNDS: usize = 3;

/// A text of at most `width` characters: what is too much is cut out of its middle. Of fewer than
/// three characters nothing but the mark of what is missing is left.
pub fn middle(text: &str, width: usize) -> String {
    if fits(text, width) {
        return text.to_owned();
    }
    let keep = width.saturating_sub(GAP.len());
    format!("{}{GAP}{}", head(text, keep.div_ceil(2)), tail(text, keep / 2))
}

/// A sentence of at most `width` characters: what is too much is cut off its end, between words.
pub fn sentence(text: &str, width: usize) -> String {
    if fits(text, width) {
        return text.to_owned();
    }
    let begin = head(text, width.saturating_sub(GAP.len()));
    let words = begin.rfind(' ').map_or(begin, |at| &begin[..at]);
    format!("{}{GAP}", words.trim_end_matches([' ', ',', ':', ';', '(']))
}

/// Names of at most `width` characters each, different ones for different names, in the order
/// given. Names that would look the same show, between both ends, the part in which they differ;
/// where that is not enough they have numbers, in the order of the names (and may then be longer
/// than `width` where that is less than about a dozen).
pub fn distinct(names: &[&str], width: usize) -> Vec<String> {
    if names.iter().all(|name| fits(name, width)) {
        return names.iter().map(|name| (*name).to_owned()).collect();
    }
    let all: BTreeSet<&str> = names.iter().copied().collect();
    let mut shown: HashMap<&str, String> =
        all.iter().map(|name| (*name, middle(name, width))).collect();
    for _ in 0..ROUNDS {
        let crowds = crowds(&all, &shown);
        if crowds.is_empty() {
            break;
        }
        for crowd in crowds {
            let from = alike(&crowd);
            shown.extend(crowd.iter().map(|name| (*name, around(name, from, width))));
        }
    }
    let mut taken: HashSet<String> = shown.values().cloned().collect();
    for crowd in crowds(&all, &shown) {
        let mut number = 0;
        for name in crowd {
            let told = loop {
                number += 1;
                let told = numbered(name, number, width);
                if !taken.contains(&told) {
                    break told;
                }
            };
            taken.insert(told.clone());
            shown.insert(name, told);
        }
    }
    names.iter().map(|name| shown.get(name).cloned().unwrap_or_default()).collect()
}

/// Names that are cut and look like another one, by what they look like; in the order of the names.
fn crowds<'n>(all: &BTreeSet<&'n str>, shown: &HashMap<&'n str, String>) -> Vec<Vec<&'n str>> {
    let mut by: HashMap<&str, Vec<&str>> = HashMap::new();
    for name in all {
        by.entry(shown.get(name).map_or("", String::as_str)).or_default().push(name);
    }
    let mut out: Vec<Vec<&str>> = by
        .into_iter()
        .filter(|(_, names)| names.len() > 1)
        // One that is shown whole keeps its name.
        .map(|(told, names)| names.into_iter().filter(|name| *name != told).collect())
        .collect();
    out.sort_unstable();
    out
}

/// Characters that all begin with.
fn alike(names: &[&str]) -> usize {
    let (Some(first), Some(last)) = (names.first(), names.last()) else { return 0 };
    // Of sorted names the first and the last differ first.
    first.chars().zip(last.chars()).take_while(|(a, b)| a == b).count()
}

/// A name with what stands at `from` between its ends.
fn around(name: &str, from: usize, width: usize) -> String {
    let keep = width.saturating_sub(2 * GAP.len());
    // Half for the part that tells names apart, and never less than four characters of it.
    let part = (keep / 2).max(4).min(keep.max(1));
    let ends = keep.saturating_sub(part);
    let begin = head(name, ends.div_ceil(2));
    // A little of what stands before it, where there is room, and none of it twice.
    let from = from.saturating_sub(part / 4).max(begin.chars().count());
    let differs: String = name.chars().skip(from).take(part).collect();
    let before = if from > begin.chars().count() { GAP } else { "" };
    let behind = name.chars().count().saturating_sub(from + part);
    let end = tail(name, (ends / 2).min(behind));
    let after = if behind > end.chars().count() { GAP } else { "" };
    format!("{begin}{before}{differs}{after}{end}")
}

fn numbered(name: &str, number: usize, width: usize) -> String {
    let number = format!("{GAP}#{number}{GAP}");
    let keep = width.saturating_sub(number.len());
    format!("{}{number}{}", head(name, keep.div_ceil(2)), tail(name, keep / 2))
}

/// Whether a text has no more characters; long texts are not counted to their end.
fn fits(text: &str, width: usize) -> bool {
    text.len() <= width || text.chars().nth(width).is_none()
}

fn head(text: &str, most: usize) -> &str {
    let end = text.char_indices().nth(most).map_or(text.len(), |(at, _)| at);
    text.get(..end).unwrap_or(text)
}

fn tail(text: &str, most: usize) -> &str {
    let begin = text.char_indices().rev().take(most).last().map_or(text.len(), |(at, _)| at);
    text.get(begin..).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_ends_are_kept() {
        assert_eq!(middle("abcdefghij", 7), "ab...ij");
        assert_eq!(middle("abcdefg", 7), "abcdefg");
        assert_eq!(middle(&"ä".repeat(1 << 20), 8), "äää...ää");
        assert_eq!(middle("abcd", 0), "...");
    }

    #[test]
    fn a_sentence_ends_between_words() {
        assert_eq!(sentence("it was killed, crashed, or runs", 20), "it was killed...");
        assert_eq!(sentence("it was killed", 13), "it was killed");
        assert_eq!(sentence("abcdefghij", 7), "abcd...");
        assert_eq!(sentence("ä", 0), "...");
    }

    #[test]
    fn names_of_a_common_beginning_and_end_stay_apart() {
        let names = [12, 13, 40].map(|n| format!("{}_stage{n}_{}", "k".repeat(60), "z".repeat(60)));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(
            distinct(&names, 30),
            [
                "kkkkkk...age12_zzzzzz...zzzzzz",
                "kkkkkk...age13_zzzzzz...zzzzzz",
                "kkkkkk...age40_zzzzzz...zzzzzz"
            ]
        );
        for width in 16..200 {
            let shown = distinct(&names, width);
            assert_eq!(shown.iter().collect::<HashSet<_>>().len(), 3, "{shown:?}");
            assert!(shown.iter().all(|name| name.chars().count() <= width), "{shown:?}");
            for (name, n) in shown.iter().zip(["12", "13", "40"]) {
                // Between 20 columns, and where the ends alone tell them apart.
                let told = !(20..100).contains(&width) || name.contains(n);
                assert!(told, "{width}: the part that differs: {name}");
            }
        }
        // The same name twice is one name.
        assert_eq!(distinct(&["abcdefghij", "abcdefghij"], 7), ["ab...ij", "ab...ij"]);
        // What would be cut to the name of another is not.
        assert_eq!(distinct(&["ab...ij", "abcdefghij"], 7)[0], "ab...ij");
    }

    #[test]
    fn thousands_of_long_names_stay_apart() {
        let names: Vec<String> =
            (0..3000).map(|n| format!("{}{n:06}{}", "x".repeat(500), "y".repeat(500))).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for width in [18, 40, NAME] {
            let shown = distinct(&names, width);
            assert!(shown.iter().all(|name| name.chars().count() <= width));
            assert_eq!(shown.iter().collect::<HashSet<_>>().len(), names.len());
        }
    }

    proptest! {
        #[test]
        fn no_two_names_look_the_same(
            names in proptest::collection::btree_set("a{0,6}[ab]{0,3}a{0,9}[ab.#1]{0,3}a{0,6}", 0..40),
            width in 0_usize..24,
        ) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let shown = distinct(&names, width);
            prop_assert_eq!(shown.iter().collect::<HashSet<_>>().len(), names.len());
            if width >= 16 {
                prop_assert!(shown.iter().all(|name| name.chars().count() <= width));
            }
        }
    }
}
