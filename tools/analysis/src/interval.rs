//! The one shape of a figure with an interval, in values and in JSON: every crate's and every
//! document's. Refuses to know units: the name of the field that holds it ends in one.

use serde::{Deserialize, Deserializer, Serialize};

/// A value with its 95 % interval.
///
/// An end that is not known is infinite here and null in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Interval {
    /// The value.
    pub value: f64,
    /// Lower end.
    #[serde(deserialize_with = "low_end")]
    #[schemars(with = "Option<f64>")]
    pub low: f64,
    /// Upper end.
    #[serde(deserialize_with = "high_end")]
    #[schemars(with = "Option<f64>")]
    pub high: f64,
    /// Whether a sample or a fit stands behind the value; false where all of it was measured.
    pub estimated: bool,
}

impl Interval {
    /// One that rests on a sample or a fit.
    pub const fn estimated(value: f64, low: f64, high: f64) -> Self {
        Self { value, low, high, estimated: true }
    }

    /// One of which all was measured.
    pub const fn measured(value: f64, low: f64, high: f64) -> Self {
        Self { value, low, high, estimated: false }
    }

    /// A figure that is known.
    pub const fn exact(value: f64) -> Self {
        Self::measured(value, value, value)
    }

    /// A measured value with the half-width of its interval.
    pub fn around(value: f64, half: f64) -> Self {
        Self::measured(value, value - half, value + half)
    }

    /// An estimate with a half-width that is the same on both sides.
    pub fn symmetric(value: f64, half: f64) -> Self {
        Self::estimated(value, value - half, value + half)
    }

    /// An estimate of which no end is below 0: energy and power are not.
    pub fn above_none(value: f64, half: f64) -> Self {
        Self::estimated(value, (value - half).max(0.0), (value + half).max(0.0))
    }

    /// A single look: how far another one may be from it is not known.
    pub const fn seen_once(value: f64) -> Self {
        Self::estimated(value, f64::NEG_INFINITY, f64::INFINITY)
    }

    /// Half of the interval's width.
    pub fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// The longer of its sides: a half-width around the value that holds all of it.
    pub fn longer(&self) -> f64 {
        (self.value - self.low).max(self.high - self.value)
    }

    /// The longer side over the value; `None` where an end is not known or the value is not above
    /// 0.
    pub fn relative(&self) -> Option<f64> {
        let longer = self.longer();
        (self.value > 0.0 && longer.is_finite()).then(|| longer / self.value)
    }

    /// Whether `truth` lies inside.
    pub fn covers(&self, truth: f64) -> bool {
        self.low <= truth && truth <= self.high
    }

    /// With a further half-width of this share of the value, which has nothing to do with the
    /// first.
    pub fn widened(&self, share: f64) -> Self {
        self.open_by(share * self.value)
    }

    /// The same, with that half-width itself.
    pub fn open_by(&self, more: f64) -> Self {
        Self {
            low: self.value - (self.value - self.low).hypot(more),
            high: self.value + (self.high - self.value).hypot(more),
            ..*self
        }
    }

    /// Cut off at the ends of what is possible; the value stays inside.
    pub fn within(&self, least: f64, most: f64) -> Self {
        let (low, high) = (self.low.max(least), self.high.min(most));
        Self { low: low.min(self.value), high: high.max(self.value), ..*self }
    }

    /// `factor` times as much; `factor` is exact and not negative.
    pub fn times(&self, factor: f64) -> Self {
        self.map(|x| x * factor)
    }

    /// As wide an interval, so much higher.
    pub fn moved(&self, by: f64) -> Self {
        self.map(|x| x + by)
    }

    /// With a function of value and ends that keeps their order.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { value: f(self.value), low: f(self.low), high: f(self.high), ..*self }
    }

    /// Plus an independent figure: the sides add as standard deviations do.
    pub fn plus(self, other: Self) -> Self {
        let value = self.value + other.value;
        Self {
            value,
            low: value - (self.value - self.low).hypot(other.value - other.low),
            high: value + (self.high - self.value).hypot(other.high - other.value),
            estimated: self.estimated || other.estimated,
        }
    }

    /// `self - other` for independent errors.
    pub fn minus(self, other: Self) -> Self {
        let of = Self::symmetric(self.value - other.value, self.half().hypot(other.half()));
        Self { estimated: self.estimated || other.estimated, ..of }
    }

    /// `self / other` for independent errors (first order: relative widths add in squares).
    pub fn over(self, other: Self) -> Self {
        let value = self.value / other.value;
        let half = (self.half() / other.value).hypot(value * other.half() / other.value);
        let estimated = self.estimated || other.estimated;
        Self { estimated, ..Self::symmetric(value, half) }
    }

    /// `scale / self`, as a rate follows from a time. Where the interval reaches down to 0 the rate
    /// has no upper end.
    pub fn reciprocal(self, scale: f64) -> Self {
        let high = if self.low > 0.0 { scale / self.low } else { f64::INFINITY };
        Self { value: scale / self.value, low: scale / self.high, high, ..self }
    }

    /// Sum of independent figures, and for each of them the sum of the others.
    pub fn sum_and_others(each: &[Self]) -> (Self, Vec<Self>) {
        let all = each.iter().fold(Self::exact(0.0), |sum, e| sum.plus(*e));
        // Sides add by squares, so that one is taken out by them too.
        let rest = |all: f64, own: f64| (all * all - own * own).max(0.0).sqrt();
        let without = |e: &Self| {
            let value = (all.value - e.value).max(0.0);
            Self {
                value,
                low: value - rest(all.value - all.low, e.value - e.low),
                high: value + rest(all.high - all.value, e.high - e.value),
                ..all
            }
        };
        let others = each.iter().map(without).collect();
        (all, others)
    }

    /// Its share of itself plus independent `others`, between 0 and 1; `None` where all is nothing.
    pub fn share(self, others: Self) -> Option<Self> {
        let whole = self.value + others.value;
        if whole <= 0.0 {
            return None;
        }
        let value = self.value / whole;
        // First order: the share rises with the own total by (1 - share), and falls with the
        // others' by the share.
        let side = |own: f64, other: f64| ((1.0 - value) * own).hypot(value * other) / whole;
        Some(Self {
            value,
            low: (value - side(self.value - self.low, others.high - others.value)).max(0.0),
            high: (value + side(self.high - self.value, others.value - others.low)).min(1.0),
            estimated: self.estimated || others.estimated,
        })
    }
}

fn low_end<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NEG_INFINITY))
}

fn high_end<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::INFINITY))
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

    #[test]
    fn what_is_estimated_stays_so() {
        let (sampled, exact) = (Interval::estimated(10.0, 9.0, 11.0), Interval::exact(2.0));
        for of in [exact.plus(sampled), exact.minus(sampled), exact.over(sampled)] {
            assert!(of.estimated && !exact.plus(exact).estimated);
        }
        assert!(sampled.reciprocal(1.0).estimated && !exact.share(exact).unwrap().estimated);
    }
}
