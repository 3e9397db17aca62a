//! Sentences and commands in little room: what is left out of them. Refuses to wrap.

use super::NAME_IN_TEXT;
use clscope_io::shorten;
use clscope_io::text::line;

/// A sentence with the name in it shortened where all of it has no room.
pub(super) fn fit(text: &str, name: Option<&str>, room: usize) -> String {
    let text = line(text).into_owned();
    if text.chars().count() <= room {
        return text;
    }
    let shorter = match name.map(|name| line(name).into_owned()) {
        Some(name) if name.chars().count() > NAME_IN_TEXT => {
            let rest = text.chars().count() - name.chars().count();
            let keep = room.saturating_sub(rest).max(NAME_IN_TEXT);
            text.replacen(&name, &shorten::middle(&name, keep), 1)
        }
        _ => text,
    };
    shorten::middle(&shorter, room)
}

/// As many as have room, with commas.
pub(super) fn joined(each: impl Iterator<Item = String>, room: usize) -> String {
    let mut text = String::new();
    for (n, of) in each.enumerate() {
        let of = line(&of).into_owned();
        let longer = match n {
            0 => shorten::middle(&of, room.saturating_sub(5)),
            _ => format!("{text}, {of}"),
        };
        if longer.chars().count() + 5 > room && n > 0 {
            return text + ", ...";
        }
        text = longer;
    }
    text
}

/// As many parts of a text, which semicolons separate, as have room; a part of the first at least.
pub(super) fn fit_parts(text: &str, room: usize) -> String {
    let text = line(text);
    let ends = text.match_indices("; ").map(|(at, _)| at).chain([text.len()]);
    let fits = |end: &usize| text[..*end].chars().count() <= room;
    match ends.filter(fits).last() {
        Some(end) => text[..end].to_owned(),
        None => shorten::middle(&text, room),
    }
}

/// A command in lines of a shell: whole, or none where a word of it has no room.
pub(super) fn typed(words: &[String], room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(last) if last.chars().count() + word.chars().count() + 3 <= room => {
                *last += &format!(" {word}");
            }
            Some(last) => {
                *last += " \\";
                lines.push(word.clone());
            }
            None => lines.push(word.clone()),
        }
    }
    if lines.iter().all(|line| line.chars().count() <= room) { lines } else { Vec::new() }
}
