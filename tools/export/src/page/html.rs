//! Owns the making of HTML: markup comes from this program's own literals alone, everything else is
//! escaped. Refuses to write a character without a glyph: those are shown as in all other outputs.

use clscope_io::shorten::{NAME, PROSE};
use clscope_io::text::{line, markup};
use std::fmt::Display;

/// A page being made.
#[derive(Debug, Default)]
pub struct Html {
    text: String,
}

/// Units that figures of pages have.
const UNITS: [&str; 21] = [
    "%", "ns", "µs", "ms", "s", "min", "h", "J", "mJ", "µJ", "nJ", "kJ", "MJ", "W", "mW", "kW",
    "B", "KiB", "MiB", "GiB", "GB/s",
];

/// Whether a word stays on the line of a number before it: its unit, or its thousands.
fn stays(word: &str) -> bool {
    let bare = word.trim_end_matches(['.', ',', ';', ':', ']', ')']);
    UNITS.contains(&bare) || bare.len() == 3 && bare.bytes().all(|b| b.is_ascii_digit())
}

impl Html {
    /// Markup, from a literal.
    pub fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.text.push_str(markup);
        self
    }

    /// Text, in an element or in an attribute between double quotes.
    pub fn put(&mut self, text: impl Display) -> &mut Self {
        // What turns the direction of a line, or moves a cursor, by its number.
        self.text.push_str(&markup(&line(&text.to_string())));
        self
    }

    /// A name that an application chose.
    pub fn name(&mut self, name: &str) -> &mut Self {
        self.put(cut(name))
    }

    /// A text of this program that may hold names: what stands between backticks is shown as code.
    pub fn prose(&mut self, text: &str) -> &mut Self {
        let text = cut_at(text, PROSE);
        let mut parts = text.split('`').peekable();
        let mut code = false;
        while let Some(part) = parts.next() {
            match (code, parts.peek().is_some()) {
                (true, true) => self.raw("<code>").put(part).raw("</code>"),
                // One that is never closed is a character like others.
                (true, false) => self.raw("`").unbroken(part),
                (false, _) => self.unbroken(part),
            };
            code = !code;
        }
        self
    }

    /// A text in which numbers are not torn from their units.
    fn unbroken(&mut self, text: &str) -> &mut Self {
        let mut last: Option<char> = None;
        for (at, word) in text.split(' ').enumerate() {
            if at > 0 {
                let is_number = last.is_some_and(|c| c.is_ascii_digit());
                self.raw(if is_number && stays(word) { "&nbsp;" } else { " " });
            }
            self.put(word);
            last = word.chars().next_back();
        }
        self
    }

    /// The same as a sentence of its own.
    pub fn sentence(&mut self, text: &str) -> &mut Self {
        let mut rest = text.chars();
        let first = rest.next().map(char::to_uppercase).into_iter().flatten();
        let text: String = first.chain(rest).collect();
        self.prose(text.trim_end_matches('.')).raw(".")
    }

    /// What was made.
    pub fn finish(self) -> String {
        self.text
    }

    /// Bytes so far.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// Text that the caller has made safe where it stands.
    pub(crate) fn verbatim(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Text that needs no escape: of the alphabet of base64 and the like.
    pub fn base64(&mut self, bytes: &[u8]) -> &mut Self {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode_string(bytes, &mut self.text);
        self
    }
}

/// A name on one line, cut where it is very long; it is whole in the document's JSON.
pub fn cut(name: &str) -> String {
    cut_at(name, NAME)
}

fn cut_at(name: &str, most: usize) -> String {
    match name.char_indices().nth(most) {
        Some((at, _)) => format!("{}… ({} bytes)", line(&name[..at]), name.len()),
        None => line(name).into_owned(),
    }
}

/// Nanoseconds for people.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        x if x >= 999.5e6 => (ns * 1e-9, "s"),
        x if x >= 999.5e3 => (ns * 1e-6, "ms"),
        x if x >= 999.5 => (ns * 1e-3, "µs"),
        _ => (ns, "ns"),
    };
    digits(value, unit)
}

/// Joules for people.
pub fn joules(j: f64) -> String {
    let (value, unit) = match j.abs() {
        x if x >= 1e3 => (j * 1e-3, "kJ"),
        x if x >= 1.0 || x == 0.0 => (j, "J"),
        x if x >= 1e-3 => (j * 1e3, "mJ"),
        x if x >= 1e-6 => (j * 1e6, "µJ"),
        _ => (j * 1e9, "nJ"),
    };
    digits(value, unit)
}

/// A figure of any unit: three digits at least, and powers of ten only where it has many.
pub fn number(x: f64) -> String {
    match x.abs() {
        a if a != 0.0 && !(1e-3..1e9).contains(&a) => format!("{x:.2e}"),
        a if a != 0.0 && a < 0.995 => format!("{x:.4}"),
        _ => digits(x, "").trim_end().to_owned(),
    }
}

/// Three digits.
fn digits(value: f64, unit: &str) -> String {
    let decimals = match value.abs() {
        x if x >= 99.95 || x == 0.0 => 0,
        x if x >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_is_markup() {
        let mut html = Html::default();
        html.raw("<p title=\"").put("\"onload='x'").raw("\">").name("</script>\u{1b}[0m&\u{200f}");
        assert_eq!(
            html.finish(),
            "<p title=\"&quot;onload=&#39;x&#39;\">&lt;/script&gt;\\u{1b}[0m&amp;\\u{200f}"
        );
        for c in
            ['\n', '\u{9b}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{202e}', '\u{2066}', '\u{feff}']
        {
            let mut html = Html::default();
            html.put(format_args!("a{c}b"));
            assert!(html.finish().chars().all(|c| c.is_ascii_graphic()), "{c:?}");
        }
    }

    #[test]
    fn backticks_are_code_and_what_is_in_them_is_no_markup() {
        let mut html = Html::default();
        html.sentence("gaps: `record <b>` times all").prose(" a`b");
        html.prose(&"`x".repeat(1_000));
        let text = html.finish();
        assert!(
            text.starts_with("Gaps: <code>record &lt;b&gt;</code> times all. a`b<code>x</code>x"),
            "{text}"
        );
        assert_eq!(text.matches("<code>").count(), text.matches("</code>").count());
        assert!(text.ends_with("(2000 bytes)"), "{text}");
        let shown = [1980.0, 42.04, 0.5, 3.26e-7, 0.0, 2e12].map(number);
        assert_eq!(shown, ["1980", "42.0", "0.5000", "3.26e-7", "0", "2.00e12"]);
    }

    #[test]
    fn long_names_are_cut_between_characters() {
        let name = "ä".repeat(1 << 19);
        assert!(cut(&name).chars().count() < NAME + 20 && cut(&name).ends_with("(1048576 bytes)"));
        assert_eq!(cut("a\u{2066}b\r"), "a\\u{2066}b\\r");
        assert_eq!((time(1234.0), joules(0.0)), ("1.23 µs".into(), "0 J".into()));
    }
}
