//! The one shape of a figure with an interval, in values and in JSON. The mathematics of intervals
//! with units in their types is the analysis's ([`clscope_analysis::energy::Estimate`]); this is
//! what documents hold. Refuses to know units: the name of the field that holds it ends in one.
#![forbid(unsafe_code)]

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value with its 95 % interval.
///
/// An end that is not known is infinite here and null in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// The value.
    pub value: f64,
    /// Lower end.
    #[serde(deserialize_with = "low_end")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub low: f64,
    /// Upper end.
    #[serde(deserialize_with = "high_end")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub high: f64,
    /// Whether a sample or a fit stands behind the value; false where all of it was measured.
    pub estimated: bool,
}

impl<T: Into<f64>> From<clscope_analysis::energy::Estimate<T>> for Interval {
    fn from(of: clscope_analysis::energy::Estimate<T>) -> Self {
        Self::estimated(of.value.into(), of.low.into(), of.high.into())
    }
}

impl Interval {
    /// One that rests on a sample or a fit.
    #[must_use]
    pub const fn estimated(value: f64, low: f64, high: f64) -> Self {
        Self { value, low, high, estimated: true }
    }

    /// One of which all was measured.
    #[must_use]
    pub const fn measured(value: f64, low: f64, high: f64) -> Self {
        Self { value, low, high, estimated: false }
    }

    /// A measured value with the half-width of its interval.
    #[must_use]
    pub fn around(value: f64, half: f64) -> Self {
        Self::measured(value, value - half, value + half)
    }

    /// Half of the interval's width.
    #[must_use]
    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The longer of its sides: a half-width around the value that holds all of it.
    #[must_use]
    pub fn longer(&self) -> f64 {
        (self.value - self.low).max(self.high - self.value)
    }

    /// The longer side over the value; `None` where an end is not known or the value is not above
    /// 0.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        let longer = self.longer();
        (self.value > 0.0 && longer.is_finite()).then(|| longer / self.value)
    }

    /// With a further half-width of this share of the value, which has nothing to do with the
    /// first.
    #[must_use]
    pub fn widened(&self, share: f64) -> Self {
        self.open_by(share * self.value)
    }

    /// The same, with that half-width itself.
    #[must_use]
    pub fn open_by(&self, more: f64) -> Self {
        Self {
            low: self.value - (self.value - self.low).hypot(more),
            high: self.value + (self.high - self.value).hypot(more),
            ..*self
        }
    }

    /// `factor` times as much.
    #[must_use]
    pub fn times(&self, factor: f64) -> Self {
        self.map(|x| x * factor)
    }

    /// With a function of value and ends that keeps their order.
    #[must_use]
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { value: f(self.value), low: f(self.low), high: f(self.high), ..*self }
    }
}

fn low_end<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NEG_INFINITY))
}

fn high_end<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
}

/// Writes seconds as nanoseconds: documents have one unit of time.
///
/// # Errors
/// The serializer's.
pub(crate) fn as_ns<S: Serializer>(seconds: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(seconds * 1e9)
}

/// As [`as_ns`], where it may not be known.
///
/// # Errors
/// The serializer's.
pub(crate) fn as_some_ns<S: Serializer>(seconds: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    seconds.map(|s| s * 1e9).serialize(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_doubt_widens_an_interval_and_keeps_its_value() {
        let wide = Interval::measured(10.0, 9.6, 10.4).widened(0.03);
        assert_eq!(wide.value, 10.0);
        assert!((wide.low - 9.5).abs() < 1e-9 && (wide.high - 10.5).abs() < 1e-9, "{wide:?}");
    }

    #[test]
    fn an_end_that_is_not_known_is_null() {
        let json = serde_json::to_value(Interval::estimated(1.0, f64::NEG_INFINITY, 2.0)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"value": 1.0, "low": null, "high": 2.0, "estimated": true})
        );
    }

    #[test]
    fn what_documents_hold_comes_back() {
        for of in [
            Interval::estimated(1.0, f64::NEG_INFINITY, f64::INFINITY),
            Interval::measured(2.0, 1.5, 2.5),
        ] {
            let text = serde_json::to_string(&of).unwrap();
            assert_eq!(serde_json::from_str::<Interval>(&text).unwrap(), of, "{text}");
        }
        let without = r#"{"value": 1.0, "low": 0.5, "high": 2.0}"#;
        assert!(serde_json::from_str::<Interval>(without).is_err());
    }
}
