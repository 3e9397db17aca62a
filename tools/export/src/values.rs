//! Owns named values as a JSON object. Refuses to format JSON by hand.

use crate::arguments::{Argument, Sink, rounded};
use serde_json::{Map, Value};

/// Values by name: names in order, of two with one name the later. What is not finite is null.
pub type Values = Map<String, Value>;

impl Sink for Values {
    fn put(&mut self, name: &str, value: Argument<'_>) {
        let value = match value {
            Argument::Uint(x) => x.into(),
            Argument::Int(x) => x.into(),
            Argument::Bool(x) => x.into(),
            Argument::Real(x) => x.into(),
            Argument::Figure(x) => rounded(x).into(),
            Argument::Text(x) => x.into(),
            Argument::Sizes(x) => x.into(),
            Argument::Lines(x) => x.into(),
            Argument::Commands(x) => {
                x.iter().map(|id| id.map_or_else(|| "unknown".into(), Value::from)).collect()
            }
        };
        self.insert(name.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_the_later_counts() {
        let mut values = Values::default();
        values.put("b", Argument::Uint(1));
        values.put("a", Argument::Text("x\"\u{1b}"));
        values.put("b", Argument::Sizes(&[2, u64::MAX]));
        values.put("c", Argument::Commands(&[Some(7), None]));
        values.put("d", Argument::Lines(&["one", "two"]));
        values.put("e", Argument::Real(f64::NAN));
        values.put("f", Argument::Figure(123_456.0));
        let want = r#"{"a":"x\"\u001b","b":[2,18446744073709551615],"c":[7,"unknown"],"d":["one","two"],"e":null,"f":123500.0}"#;
        assert_eq!(serde_json::to_string(&values).unwrap(), want);
    }
}
