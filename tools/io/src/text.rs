//! Text that reaches a terminal, a log or a spreadsheet. Owns which characters may: names, build
//! logs, arguments and paths of a trace are whatever an application chose, and control characters
//! in them move the cursor, change the title, hide or turn round what stands beside them. They are
//! shown as Rust writes them: `\n`, `\u{1b}`, `\u{202e}`; bytes that are no UTF-8 as `\x9b`.
//!
//! [`Screen`] is the writer behind all output, [`Page`] the same in memory. Nothing without a glyph
//! gets through them, except line breaks; and one call of `write!` or `writeln!` is one line, in
//! which line breaks are those of values and are escaped, too, so that a name cannot forge a line.
//! [`line()`] and [`cell`] do it for a single value. In JSON the same characters are written as
//! `\u001b`, which every reader takes for the character itself: JSON stays exact.
//!
//! Escaped are the categories that have no glyph (control, format, line and paragraph separators,
//! surrogates, private use, unassigned) and blanks other than the space, as the standard library's
//! table of printable characters has them. Combining marks stay.
#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::fmt::{self, Display, Write as _};
use std::io::{self, Write};

/// Whether a character may be shown as it is.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() {
        return !c.is_ascii_control();
    }
    // Behind another character a combining mark is left alone, and what has no glyph is escaped.
    let mut pair = [0; 5];
    pair[0] = b'a';
    let length = 1 + c.encode_utf8(&mut pair[1..]).len();
    std::str::from_utf8(pair.get(..length).unwrap_or_default())
        .is_ok_and(|pair| pair.escape_debug().nth(1) == Some(c))
}

fn escape(c: char, out: &mut String) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        _ => {
            // Writing to a string does not fail.
            let _ = write!(out, "{}", c.escape_unicode());
        }
    }
}

/// Bytes in the unit that fits them, as all views write them: their number, and the unit.
pub fn in_unit_of_bytes(bytes: f64) -> (f64, &'static str) {
    // A sum of nothing is -0.
    let mut value = bytes + 0.0;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value.abs() < 1023.5 {
            return (value, unit);
        }
        value /= 1024.0;
    }
    (value, "TiB")
}

/// Bytes for people, three digits.
pub fn bytes(bytes: f64) -> String {
    let (value, unit) = in_unit_of_bytes(bytes);
    let decimals = match value.abs() {
        x if x >= 99.95 || unit == "B" => 0,
        x if x >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// Text in HTML or XML, in an element or an attribute: what means markup there is written as an
/// entity.
pub fn markup(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// A number of things.
pub fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}

/// An error with all its causes on one line, separated by colons.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a string does not fail.
        let _ = write!(out, ": {error}");
        cause = error.source();
    }
    out
}

/// One value on one line: everything that has no glyph is escaped, line breaks and tabs included.
pub fn line(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_printable) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_printable(c) { out.push(c) } else { escape(c, &mut out) }
    }
    Cow::Owned(out)
}

/// A word as it is typed into a shell, which [`line()`] shows as it is.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./:=,+%@".contains(c);
    if line(word) != word {
        let escaped = |c: char| match c {
            '\\' | '\'' => format!("\\{c}"),
            c if is_printable(c) => c.to_string(),
            c => c.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect(),
        };
        return format!("$'{}'", word.chars().map(escaped).collect::<String>());
    }
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A value that is shown by [`line()`].
#[derive(Debug, Clone, Copy)]
pub struct Shown<T>(pub T);

impl<T: Display> Display for Shown<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&line(&self.0.to_string()))
    }
}

/// One cell of a table that spreadsheets open: as [`line()`], and with an apostrophe in front where
/// the program would take the text for a formula. Numbers are left alone.
pub fn cell(text: &str) -> Cow<'_, str> {
    // A tab or carriage return in front of the sign is skipped by spreadsheets: both are escaped
    // above the sign's test, and the full-width forms of the signs are signs, too.
    let begins =
        |t: &str| t.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠']);
    if begins(text) && !is_number(text) {
        return Cow::Owned(format!("'{}", line(text)));
    }
    line(text)
}

fn is_number(text: &str) -> bool {
    // "inf" and "nan" parse, too, and are no formulas without a sign; with one they are text.
    text.parse::<f64>().is_ok_and(f64::is_finite)
        && text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
}

/// What one call of `write!` made: line breaks at its ends are layout, those between are a value's.
fn one_line(text: &str) -> String {
    let inside = text.trim_matches('\n');
    let begin = text.len() - text.trim_start_matches('\n').len();
    // All of it is line breaks: the layout's.
    let end = if inside.is_empty() { 0 } else { text.len() - begin - inside.len() };
    format!("{}{}{}", &text[..begin], line(inside), "\n".repeat(end))
}

/// Text for people, built line by line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page(String);

impl Page {
    /// Appends text whose lines are its own: of a table, or a literal.
    pub fn push_str(&mut self, lines: &str) {
        for c in lines.chars() {
            if c == '\n' || is_printable(c) { self.0.push(c) } else { escape(c, &mut self.0) }
        }
    }

    /// What was built.
    pub fn into_string(self) -> String {
        self.0
    }
}

impl fmt::Write for Page {
    fn write_str(&mut self, lines: &str) -> fmt::Result {
        self.push_str(lines);
        Ok(())
    }

    fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> fmt::Result {
        match arguments.as_str() {
            Some(literal) => self.push_str(literal),
            None => self.0.push_str(&one_line(&arguments.to_string())),
        }
        Ok(())
    }
}

/// How [`Screen`] writes what it does not let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Text of lines.
    Text,
    /// JSON documents: characters outside of strings are the serializer's own, all ASCII.
    Json,
}

/// The writer behind all output: line breaks pass, and nothing else that has no glyph.
#[derive(Debug)]
pub struct Screen<W: Write> {
    out: W,
    form: Form,
    /// The begin of a character whose rest comes with the next bytes.
    begun: Vec<u8>,
    text: String,
}

impl<W: Write> Screen<W> {
    /// In front of `out`, which should buffer.
    pub fn new(out: W, form: Form) -> Self {
        Self { out, form, begun: Vec::new(), text: String::new() }
    }

    fn take(&mut self, text: &str) {
        for c in text.chars() {
            match (c, self.form) {
                ('\n', _) => self.text.push(c),
                _ if is_printable(c) => self.text.push(c),
                (_, Form::Text) => escape(c, &mut self.text),
                (_, Form::Json) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.text, "\\u{unit:04x}");
                    }
                }
            }
        }
    }

    fn bad(&mut self, bytes: &[u8]) {
        for byte in bytes {
            let _ = match self.form {
                Form::Text => write!(self.text, "\\x{byte:02x}"),
                Form::Json => write!(self.text, "\\ufffd"),
            };
        }
    }
}

impl<W: Write> Write for Screen<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let plain = |b: &u8| matches!(b, b' '..=b'~' | b'\n');
        if self.begun.is_empty() && bytes.iter().all(plain) {
            self.out.write_all(bytes)?;
            return Ok(bytes.len());
        }
        let mut joined = std::mem::take(&mut self.begun);
        joined.extend_from_slice(bytes);
        let mut chunks = joined.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.take(chunk.valid());
            let rest = chunk.invalid();
            // A character that is cut off by the end of the bytes may go on in the next ones.
            if chunks.peek().is_none()
                && std::str::from_utf8(rest).is_err_and(|e| e.error_len().is_none())
            {
                self.begun = rest.to_vec();
            } else {
                self.bad(rest);
            }
        }
        let text = std::mem::take(&mut self.text);
        self.out.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn write_fmt(&mut self, arguments: fmt::Arguments<'_>) -> io::Result<()> {
        match (arguments.as_str(), self.form) {
            (Some(literal), _) => self.write_all(literal.as_bytes()),
            (None, Form::Text) => self.write_all(one_line(&arguments.to_string()).as_bytes()),
            (None, Form::Json) => self.write_all(arguments.to_string().as_bytes()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> Drop for Screen<W> {
    fn drop(&mut self) {
        let begun = std::mem::take(&mut self.begun);
        self.bad(&begun);
        // Errors of the last bytes show at the caller's own flush.
        let _ = self.out.write_all(self.text.as_bytes());
        let _ = self.out.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No figure needs more than three digits before its point, and bytes are whole.
    #[test]
    fn bytes_are_in_the_unit_that_fits() {
        let shown = [0.0, 5.0, 1023.0, 1024.0, 5e6, 3e13].map(bytes);
        assert_eq!(shown, ["0 B", "5 B", "1023 B", "1.00 KiB", "4.77 MiB", "27.3 TiB"]);
        for n in (0..50).flat_map(|bits| [-1, 0, 1].map(|by| (1i64 << bits) + by)) {
            let text = bytes(n as f64);
            let (number, unit) = text.split_once(' ').unwrap();
            let scale = ["B", "KiB", "MiB", "GiB", "TiB"].iter().position(|of| *of == unit);
            let back = number.parse::<f64>().unwrap() * 1024f64.powi(scale.unwrap() as i32);
            assert!((back - n as f64).abs() <= 5e-3 * n as f64, "{n}: {text}");
            assert!(unit == "TiB" || number.parse::<f64>().unwrap() < 1024.0, "{text}");
        }
    }

    /// A shell makes of it what it was, and a terminal shows it as it is.
    #[test]
    fn a_word_is_what_a_shell_makes_of_it() {
        let words = [
            "",
            "run",
            "my run",
            "it's",
            "a\\",
            "a\\ 'b\n",
            "k<a>",
            "\u{1b}[31m'",
            "übergröße σ",
            "\u{202e}x",
            "$(id)",
            "*",
        ];
        for word in words {
            let typed = shell_word(word);
            assert_eq!(line(&typed), typed);
            let run = ["-c", &format!("printf %s {typed}")];
            let out = std::process::Command::new("bash").args(run).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&out.stdout), word, "{typed}");
        }
        assert_eq!(shell_word("/a/b-c_1.clscope"), "/a/b-c_1.clscope");
    }
    use proptest::prelude::*;

    fn screened(pieces: &[&[u8]], form: Form) -> String {
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, form);
        for piece in pieces {
            screen.write_all(piece).unwrap();
        }
        drop(screen);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn what_has_no_glyph_is_shown_by_its_number() {
        for (text, shown) in [
            ("plain é µ ± 日本 a\u{301}", "plain é µ ± 日本 a\u{301}"),
            ("\x1b]0;title\x07", "\\u{1b}]0;title\\u{7}"),
            ("a\u{202e}b\u{2066}\u{200b}", "a\\u{202e}b\\u{2066}\\u{200b}"),
            ("\u{9b}2J\u{7f}", "\\u{9b}2J\\u{7f}"),
            ("two\nlines\r\tend\u{2028}", "two\\nlines\\r\\tend\\u{2028}"),
            ("\u{feff}\u{e0041}\u{ad}", "\\u{feff}\\u{e0041}\\u{ad}"),
            ("it's \"quoted\" \\", "it's \"quoted\" \\"),
        ] {
            assert_eq!(line(text), shown);
            assert_eq!(format!("{}", Shown(text)), shown);
        }
        assert_eq!(format!("{:>5}|", Shown("a\n")), "  a\\n|");
    }

    #[test]
    fn a_cell_is_no_formula() {
        for (text, shown) in [
            ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
            ("+1+1", "'+1+1"),
            ("-2+3", "'-2+3"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("\t=1", "'\\t=1"),
            ("\r=1", "'\\r=1"),
            ("＝1", "'＝1"),
            ("-", "'-"),
            ("-inf", "'-inf"),
            ("-3.5e-7", "-3.5e-7"),
            ("+12", "+12"),
            ("name", "name"),
            ("", ""),
        ] {
            assert_eq!(cell(text), shown, "{text:?}");
        }
    }

    #[test]
    fn a_value_cannot_forge_a_line() {
        let name = "kernel\nFORGED\r";
        let mut page = Page::default();
        let _ = writeln!(page, "\nnames");
        let _ = writeln!(page, "  {name} of {}", 1);
        page.push_str("a\nb\x1b\n");
        let want = "\nnames\n  kernel\\nFORGED\\r of 1\na\nb\\u{1b}\n";
        assert_eq!(page.into_string(), want);
        let mut out = Vec::new();
        let mut screen = Screen::new(&mut out, Form::Text);
        writeln!(screen, "  {name}").unwrap();
        writeln!(screen).unwrap();
        write!(screen, "two\nlines\n").unwrap();
        drop(screen);
        assert_eq!(String::from_utf8(out).unwrap(), "  kernel\\nFORGED\\r\n\ntwo\nlines\n");
    }

    #[test]
    fn characters_cut_between_two_writes_are_put_together() {
        let bytes = "µ\u{9b}日".as_bytes();
        for cut in 0..=bytes.len() {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(screened(&[a, b], Form::Text), "µ\\u{9b}日", "{cut}");
        }
        assert_eq!(screened(&[b"a\x9bb\xff", b"\xc2"], Form::Text), "a\\x9bb\\xff\\xc2");
    }

    proptest! {
        #[test]
        fn nothing_without_a_glyph_comes_out(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            for form in [Form::Text, Form::Json] {
                let out = screened(&pieces, form);
                prop_assert!(out.chars().all(|c| c == '\n' || is_printable(c)), "{out:?}");
            }
        }

        #[test]
        fn json_reads_back_as_it_was(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            let out = screened(&[json.as_bytes()], Form::Json);
            prop_assert!(out.chars().all(is_printable), "{out:?}");
            prop_assert_eq!(serde_json::from_str::<String>(&out).unwrap(), text);
        }

        #[test]
        fn a_value_is_one_line_and_no_formula(text in any::<String>()) {
            prop_assert!(line(&text).chars().all(is_printable));
            let cell = cell(&text);
            prop_assert!(cell.chars().all(is_printable));
            prop_assert!(is_number(&cell) || !cell.starts_with(['=', '+', '-', '@']));
        }
    }
}
