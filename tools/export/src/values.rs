//! Owns named values on their way into a JSON object: kept in buffers that are used again for each
//! span, so that a span allocates nothing. Refuses to format JSON by hand.

use crate::arguments::{Argument, Sink, rounded};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use std::ops::Range;

/// A part of one of the buffers.
type Part = Range<usize>;

#[derive(Debug, Clone)]
enum Kind {
    Uint(u64),
    Int(i64),
    Bool(bool),
    Real(f64),
    /// Of `text`.
    Text(Part),
    /// Of `numbers`.
    Sizes(Part),
    /// Of `parts`: texts.
    Lines(Part),
    /// Of `ids`.
    Commands(Part),
}

/// Values by name. Written as an object whose names are in order; of two with one name the later
/// counts.
#[derive(Debug, Default)]
pub struct Values {
    entries: Vec<(Part, Kind)>,
    text: String,
    numbers: Vec<u64>,
    ids: Vec<Option<u64>>,
    parts: Vec<Part>,
}

/// Appends, and tells where.
fn appended<T: Clone>(to: &mut Vec<T>, more: &[T]) -> Part {
    let from = to.len();
    to.extend_from_slice(more);
    from..to.len()
}

impl Values {
    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.text.clear();
        self.numbers.clear();
        self.ids.clear();
        self.parts.clear();
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn word(&mut self, text: &str) -> Part {
        let from = self.text.len();
        self.text.push_str(text);
        from..self.text.len()
    }

    fn of(&self, part: &Part) -> &str {
        self.text.get(part.clone()).unwrap_or_default()
    }

    /// To be called before it is written.
    pub fn sort(&mut self) {
        let text = &self.text;
        let name = |key: &Part| text.get(key.clone()).unwrap_or_default();
        // Stable, so that the later of two stays behind.
        self.entries.sort_by(|a, b| name(&a.0).cmp(name(&b.0)));
    }
}

impl Sink for Values {
    fn put(&mut self, name: &str, value: Argument<'_>) {
        let key = self.word(name);
        let kind = match value {
            Argument::Uint(x) => Kind::Uint(x),
            Argument::Int(x) => Kind::Int(x),
            Argument::Bool(x) => Kind::Bool(x),
            Argument::Real(x) => Kind::Real(x),
            Argument::Figure(x) => Kind::Real(rounded(x)),
            Argument::Text(x) => Kind::Text(self.word(x)),
            Argument::Sizes(x) => Kind::Sizes(appended(&mut self.numbers, x)),
            Argument::Commands(x) => Kind::Commands(appended(&mut self.ids, x)),
            Argument::Lines(x) => {
                let from = self.parts.len();
                for line in x {
                    let part = self.word(line);
                    self.parts.push(part);
                }
                Kind::Lines(from..self.parts.len())
            }
        };
        self.entries.push((key, kind));
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut out = serializer.serialize_map(None)?;
        for (i, (key, kind)) in self.entries.iter().enumerate() {
            let name = self.of(key);
            if self.entries.get(i + 1).is_some_and(|(next, _)| self.of(next) == name) {
                continue;
            }
            out.serialize_entry(name, &One { all: self, kind })?;
        }
        SerializeMap::end(out)
    }
}

/// One value.
struct One<'v> {
    all: &'v Values,
    kind: &'v Kind,
}

impl Serialize for One<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = self.all;
        match self.kind {
            Kind::Uint(x) => serializer.serialize_u64(*x),
            Kind::Int(x) => serializer.serialize_i64(*x),
            Kind::Bool(x) => serializer.serialize_bool(*x),
            // What is not finite is null.
            Kind::Real(x) => serializer.serialize_f64(*x),
            Kind::Text(part) => serializer.serialize_str(all.of(part)),
            Kind::Sizes(part) => {
                serializer.collect_seq(all.numbers.get(part.clone()).unwrap_or(&[]))
            }
            Kind::Lines(part) => {
                let lines = all.parts.get(part.clone()).unwrap_or(&[]);
                serializer.collect_seq(lines.iter().map(|line| all.of(line)))
            }
            Kind::Commands(part) => {
                let ids = all.ids.get(part.clone()).unwrap_or(&[]);
                let mut out = serializer.serialize_seq(Some(ids.len()))?;
                for id in ids {
                    match id {
                        Some(id) => out.serialize_element(id)?,
                        None => out.serialize_element("unknown")?,
                    }
                }
                SerializeSeq::end(out)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_the_later_counts_and_memory_is_used_again() {
        let mut values = Values::default();
        for _ in 0..2 {
            values.clear();
            values.put("b", Argument::Uint(1));
            values.put("a", Argument::Text("x\"\u{1b}"));
            values.put("b", Argument::Sizes(&[2, u64::MAX]));
            values.put("c", Argument::Commands(&[Some(7), None]));
            values.put("d", Argument::Lines(&["one", "two"]));
            values.put("e", Argument::Real(f64::NAN));
            values.put("f", Argument::Figure(123_456.0));
            values.sort();
            let want = r#"{"a":"x\"\u001b","b":[2,18446744073709551615],"c":[7,"unknown"],"d":["one","two"],"e":null,"f":123500.0}"#;
            assert_eq!(serde_json::to_string(&values).unwrap(), want);
        }
    }
}
