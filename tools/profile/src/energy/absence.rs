//! Owns where joules of a class come from, and why there are none: a sentence, in every document the
//! same. Refuses to grade a figure: its interval does.

use serde::Serialize;

/// From which readings the joules of a class come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Basis {
    /// Those of the run.
    #[default]
    Run,
    /// Those of the run, and of windows in which it ran alone, over and over.
    Alone,
    /// A sum of the run, and the device's energy model.
    Model,
}

/// Why a class has no joules of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// It ran in nearly the same proportion to others throughout: their sum is known.
    InSum,
    /// The interval is wider than half of the figure.
    Wide,
    /// It did not run while the sensor was read.
    NotRead,
    /// What was estimated is more than the device can draw.
    AboveLimit,
}

impl Absence {
    /// The sentence.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::InSum => {
                "only its sum with others is known, because they ran in nearly the same proportion"
            }
            Self::Wide => "the readings leave an interval that is wider than half of the figure",
            Self::NotRead => "it did not run while the sensor was read",
            Self::AboveLimit => "the readings give more power than the device can draw",
        }
    }

    /// Whether it is part of a sum that is known.
    pub const fn is_in_sum(self) -> bool {
        matches!(self, Self::InSum)
    }
}

impl Serialize for Absence {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.sentence())
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Absence {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Absence".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}
