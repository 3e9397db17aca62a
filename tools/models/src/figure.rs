//! A number with its interval and what it rests on, and the typed reason why there is none. Refuses
//! to know units: the name of the field that holds a figure ends in one.

use clscope_profile::interval::Interval;
use serde::{Deserialize, Serialize};

/// What a figure rests on; of several inputs, the weakest.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// Read from a clock, a sensor or a counter of this run.
    Measured,
    /// Counted exactly: instructions, launches, work-items.
    Counted,
    /// Stated by the user.
    Given,
    /// Computed from parameters of the device.
    Modelled,
}

impl Evidence {
    /// As reports name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Counted => "counted",
            Self::Given => "given",
            Self::Modelled => "modelled",
        }
    }
}

/// A value with its 95 % interval. An end that is not known is infinite here and null in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(into = "Written")]
pub struct Figure {
    /// The value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// What it rests on.
    pub evidence: Evidence,
    /// Whether a sample or a fit stands behind the value; false where all of it was measured.
    pub estimated: bool,
}

// A figure as documents hold it.
/// A value with its 95 % interval.
#[derive(Serialize, schemars::JsonSchema)]
struct Written {
    #[serde(flatten)]
    of: Interval,
    /// What it rests on.
    evidence: Evidence,
}

impl Figure {
    /// Value and ends, to say them as every view does.
    pub const fn interval(self) -> Interval {
        let estimated = self.estimated || matches!(self.evidence, Evidence::Modelled);
        Interval { value: self.value, low: self.low, high: self.high, estimated }
    }
}

impl From<Figure> for Written {
    fn from(of: Figure) -> Self {
        Self { of: of.interval(), evidence: of.evidence }
    }
}

impl schemars::JsonSchema for Figure {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Figure".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Written::json_schema(generator)
    }
}

impl Figure {
    /// A value and its ends.
    pub const fn new(value: f64, low: f64, high: f64, evidence: Evidence) -> Self {
        // The sum of nothing is -0.
        let (value, low, high) = (value + 0.0, low + 0.0, high + 0.0);
        Self { value, low, high, evidence, estimated: matches!(evidence, Evidence::Modelled) }
    }

    /// One without doubt.
    pub const fn exact(value: f64, evidence: Evidence) -> Self {
        Self::new(value, value, value, evidence)
    }

    /// A count.
    pub fn counted(n: u64) -> Self {
        Self::exact(n as f64, Evidence::Counted)
    }

    /// A measured interval.
    pub const fn measured(of: Interval) -> Self {
        let estimated = of.estimated;
        Self { estimated, ..Self::new(of.value, of.low, of.high, Evidence::Measured) }
    }

    /// `factor` times as much; `factor` is not negative.
    pub fn times(self, factor: f64) -> Self {
        Self {
            value: self.value * factor,
            low: self.low * factor,
            high: self.high * factor,
            ..self
        }
    }

    /// The sum; the sides of independent errors add in squares.
    pub fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        Self {
            value,
            low: value - (self.value - self.low).hypot(other.value - other.low),
            high: value + (self.high - self.value).hypot(other.high - other.value),
            evidence: self.evidence.max(other.evidence),
            estimated: self.estimated || other.estimated,
        }
    }

    /// The quotient of two figures that are not negative: infinite where the divisor may be 0.
    pub fn over(self, other: Self) -> Self {
        Self {
            value: self.value / other.value,
            low: self.low / other.high,
            high: self.high / other.low,
            evidence: self.evidence.max(other.evidence),
            estimated: self.estimated || other.estimated,
        }
    }

    /// The product of two figures that are not negative.
    pub fn product(self, other: Self) -> Self {
        Self {
            value: self.value * other.value,
            low: self.low * other.low,
            high: self.high * other.high,
            evidence: self.evidence.max(other.evidence),
            estimated: self.estimated || other.estimated,
        }
    }

    /// The larger, end by end.
    pub fn larger(self, other: Self) -> Self {
        Self {
            value: self.value.max(other.value),
            low: self.low.max(other.low),
            high: self.high.max(other.high),
            evidence: self.evidence.max(other.evidence),
            estimated: self.estimated || other.estimated,
        }
    }

    /// With a further relative doubt that has nothing to do with the first.
    pub fn widened(self, share: f64) -> Self {
        let more = |side: f64| side.hypot(share * self.value);
        Self {
            low: (self.value - more(self.value - self.low)).max(0.0),
            high: self.value + more(self.high - self.value),
            ..self
        }
    }

    /// The same, as a model's result.
    pub fn modelled(self) -> Self {
        Self { evidence: Evidence::Modelled, estimated: true, ..self }
    }
}

/// An input that a statement would need, and what gives it.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, thiserror::Error, schemars::JsonSchema,
)]
#[error("{what}: {remedy}")]
pub struct Missing {
    /// What is not known.
    pub what: String,
    /// The command or the condition that would tell.
    pub remedy: String,
}

impl Missing {
    /// One, by its words.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }

    /// The device was not measured at all.
    pub fn device(name: &str) -> Self {
        Self::new(
            format!("no ceiling of {name} was measured"),
            "`clscope bench model` measures them on the machine that has the device",
        )
    }

    /// A parameter that the device's file lacks.
    pub fn parameter(name: &str) -> Self {
        Self::new(
            format!("the file of device parameters has no {name}"),
            "`clscope bench model` measures what the device has",
        )
    }

    /// The kernel's instructions were not counted.
    pub fn mix() -> Self {
        Self::new(
            "operations and bytes of the kernel were not counted",
            "`clscope record --mix` counts them; --flop and --bytes state them",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_estimated_stays_so() {
        let sampled = Figure::measured(Interval::estimated(10.0, 9.0, 11.0));
        let exact = Figure::measured(Interval::measured(2.0, 2.0, 2.0));
        assert!(sampled.estimated && sampled.times(2.0).estimated && !exact.estimated);
        assert!(exact.plus(sampled).estimated && exact.over(sampled).estimated);
        assert!(exact.modelled().estimated && sampled.widened(0.1).estimated);
        for (of, is) in [(sampled, true), (exact, false), (exact.modelled(), true)] {
            assert_eq!(serde_json::to_value(of).unwrap()["estimated"], is);
        }
    }

    #[test]
    fn doubt_is_carried_along() {
        let a = Figure::new(10.0, 9.0, 11.0, Evidence::Measured);
        let b = Figure::new(2.0, 1.0, 4.0, Evidence::Modelled);
        assert_eq!(a.over(b), Figure::new(5.0, 2.25, 11.0, Evidence::Modelled));
        assert_eq!(a.plus(a).evidence, Evidence::Measured);
        assert!((a.plus(a).high - 20.0 - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(a.larger(b).low, 9.0);
        assert!((a.widened(0.1).low - (10.0 - 2f64.sqrt())).abs() < 1e-12);
    }
}
