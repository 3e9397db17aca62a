//! Owns the difference between DuckDB's JSON and the standard's (RFC 8259): DuckDB writes numbers
//! that are not finite as `NaN`, `Infinity` and `-Infinity`, which no strict reader takes. Refuses
//! to know rows and columns.

/// What a JSON text has none of is `null` instead; tabs between values, which DuckDB indents with,
/// are left out. State goes from one piece to the next: a text may come line by line.
#[derive(Debug, Default)]
pub struct Strict {
    in_text: bool,
    escaped: bool,
}

/// A byte of a number or a bare word.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.' | b'_')
}

impl Strict {
    /// Appends a piece to `out`.
    pub fn add(&mut self, piece: &[u8], out: &mut Vec<u8>) {
        let mut rest = piece;
        while let Some((&byte, after)) = rest.split_first() {
            if !self.in_text && is_word(byte) {
                let (word, after) = rest
                    .split_at(rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len()));
                let digits = word.strip_prefix(b"-").unwrap_or(word);
                let is_number = digits.first().is_some_and(u8::is_ascii_digit);
                let is_literal = [&b"true"[..], b"false", b"null"].contains(&word);
                out.extend_from_slice(if is_number || is_literal { word } else { b"null" });
                rest = after;
                continue;
            }
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = self.in_text,
                b'"' => self.in_text = !self.in_text,
                _ => {}
            }
            // In texts they are escaped.
            if byte != b'\t' {
                out.push(byte);
            }
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_finite_is_null_and_texts_stay_as_they_are() {
        let text = "[\n\t{\"a\":NaN,\"NaN\":-Infinity,\"c\":[1.5,Infinity,-2e-7],\"d\":\"NaN, \\\"NaN\\\\\",\"e\":true},\n\t{\"f\":\"-Infinity\",\"g\":null,\"h\":{\"x\":nan,\"y\":false}}\n]\n";
        let want = "[\n{\"a\":null,\"NaN\":null,\"c\":[1.5,null,-2e-7],\"d\":\"NaN, \\\"NaN\\\\\",\"e\":true},\n{\"f\":\"-Infinity\",\"g\":null,\"h\":{\"x\":null,\"y\":false}}\n]\n";
        let (mut whole, mut lines) = (Vec::new(), Vec::new());
        Strict::default().add(text.as_bytes(), &mut whole);
        assert_eq!(String::from_utf8(whole).unwrap(), want);
        let mut strict = Strict::default();
        text.split_inclusive('\n').for_each(|line| strict.add(line.as_bytes(), &mut lines));
        assert_eq!(String::from_utf8(lines).unwrap(), want);
        serde_json::from_str::<serde_json::Value>(want).unwrap();
    }
}
