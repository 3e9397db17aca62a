//! The one shape of a figure with an interval, in values and in JSON: every crate's and every
//! document's. Refuses to know units: the name of the field that holds it ends in one.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

/// How a figure is said, the same in every view.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spoken {
    /// The value alone.
    Exact,
    /// The value and, as a share of it, a half-width that stands for both sides.
    Within(f64),
    /// The value and, as shares of it, how far the interval reaches below it and above it.
    Sides(f64, f64),
    /// The upper end alone, because the interval reaches down to nothing.
    AtMost(f64),
    /// The value alone, of which nobody knows how far another may be off.
    Once,
}

impl Spoken {
    /// What stands in a column `+-`: two digits in percent, `3.4%`, or `-3.4/+12%` where the sides
    /// differ; none where there is nothing to say.
    pub fn plus_minus(&self) -> Option<String> {
        match self {
            Self::Within(share) => Some(format!("{}%", digits(100.0 * share))),
            Self::Sides(below, above) => {
                Some(format!("-{}/+{}%", digits(100.0 * below), digits(100.0 * above)))
            }
            Self::Once => Some("?".to_owned()),
            Self::Exact | Self::AtMost(_) => None,
        }
    }

    /// The same behind a value in a sentence: `+-3.4%`, or `-3.4/+12%`.
    pub fn behind(&self) -> Option<String> {
        let text = self.plus_minus()?;
        Some(if matches!(self, Self::Sides(..)) { text } else { format!("+-{text}") })
    }
}

/// Part of an interval's width by which a reader's may be wider, who takes the longer side for both.
const UNEVEN: f64 = 0.1;

/// Percent with two digits; what there is of it is never none.
fn digits(percent: f64) -> String {
    match percent {
        0.0 => "0".to_owned(),
        of if of >= 9.95 => format!("{of:.0}"),
        of if of >= 0.995 => format!("{of:.1}"),
        of => format!("{:.2}", of.max(0.01)),
    }
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
        Self::symmetric(value, half).at_least(0.0)
    }

    /// With what is known of it no lower than this: an end that is not known stays so.
    pub fn at_least(&self, least: f64) -> Self {
        self.map(|x| if x.is_finite() { x.max(least) } else { x })
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

    /// Whether its longer side is no more than this share of the value; not where an end is not
    /// known.
    pub fn is_known_to(&self, share: f64) -> bool {
        self.relative().is_some_and(|wide| wide <= share)
    }

    /// How this figure of something that is never below 0 is said.
    pub fn spoken(&self) -> Spoken {
        match self.longer() {
            longer if !longer.is_finite() => Spoken::Once,
            0.0 => Spoken::Exact,
            _ if self.low <= 0.0 => Spoken::AtMost(self.high),
            longer => match [self.value - self.low, self.high - self.value] {
                [below, above] if (above - below).abs() > UNEVEN * (below + above) => {
                    Spoken::Sides(below / self.value, above / self.value)
                }
                _ => Spoken::Within(longer / self.value),
            },
        }
    }

    /// A figure that may be below 0, or is a share, with both ends: `3 J (-1 J to 5 J)`; alone where
    /// they are not another number as it is shown, `3 J (?)` where one is not known.
    pub fn with_ends(&self, shown: impl Fn(f64) -> String) -> String {
        let [value, low, high] = [self.value, self.low, self.high].map(&shown);
        match self.longer().is_finite() {
            true if low == value && high == value => value,
            true => format!("{value} ({low} to {high})"),
            false => format!("{value} (?)"),
        }
    }

    /// The same as text, where `shown` writes a number with its unit: `12 J`, `12 J +-3.4%`,
    /// `12 J -3.4/+12%` where the sides differ, `at most 12 J`; `12 J +-?` where the interval is not
    /// known.
    pub fn in_words(&self, shown: impl Fn(f64) -> String) -> String {
        match self.spoken() {
            Spoken::AtMost(most) => format!("at most {}", shown(most)),
            spoken => {
                let behind = spoken.behind().map(|sides| format!(" {sides}"));
                shown(self.value) + &behind.unwrap_or_default()
            }
        }
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

    /// Plus a figure that may err together with this one: the sides add as they are.
    pub fn join(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            low: self.low + other.low,
            high: self.high + other.high,
            estimated: self.estimated || other.estimated,
        }
    }

    /// `self - other` for independent errors.
    pub fn minus(self, other: Self) -> Self {
        let value = self.value - other.value;
        Self {
            value,
            low: value - (self.value - self.low).hypot(other.high - other.value),
            high: value + (self.high - self.value).hypot(other.value - other.low),
            estimated: self.estimated || other.estimated,
        }
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

/// Writes seconds as nanoseconds: documents have one unit of time.
///
/// # Errors
/// The serializer's.
pub fn as_ns<S: Serializer>(seconds: &f64, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(seconds * 1e9)
}

/// As [`as_ns`], where it may not be known.
///
/// # Errors
/// The serializer's.
pub fn as_some_ns<S: Serializer>(seconds: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
    seconds.map(|s| s * 1e9).serialize(to)
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

    /// What is said holds all of the interval, and no end that is not known becomes a number.
    #[test]
    fn what_is_said_holds_all_of_the_interval() {
        let ends = [f64::NEG_INFINITY, -50.0, 0.0, 0.3, 5.9, 6.0];
        let above = [6.0, 6.1, 9.0, 62.0, f64::INFINITY];
        for (low, high) in ends.iter().flat_map(|low| above.map(|high| (*low, high))) {
            let of = Interval::estimated(6.0, low, high);
            match of.spoken() {
                Spoken::Exact => assert_eq!((low, high), (6.0, 6.0)),
                Spoken::Within(share) => {
                    let half = 6.0 * share + 1e-9;
                    assert!(low > 0.0 && 6.0 - half <= low && 6.0 + half >= high);
                    assert!(share < 1.0, "{of:?}");
                }
                Spoken::Sides(below, above) => {
                    assert!(low > 0.0 && (6.0 * (1.0 - below) - low).abs() < 1e-9, "{of:?}");
                    assert!((6.0 * (1.0 + above) - high).abs() < 1e-9, "{of:?}");
                }
                Spoken::AtMost(most) => assert!(low <= 0.0 && most == high, "{of:?}"),
                Spoken::Once => assert!(low.is_infinite() || high.is_infinite(), "{of:?}"),
            }
            for bounded in [of.at_least(0.0), of.at_least(1.0)] {
                let known = |of: Interval| (of.low.is_finite(), of.high.is_finite());
                assert_eq!(known(bounded), known(of), "{of:?}");
            }
        }
        assert_eq!(Interval::above_none(1.0, f64::INFINITY), Interval::seen_once(1.0));
        let words = |low, high| Interval::estimated(6.0, low, high).in_words(|j| format!("{j} J"));
        assert_eq!(words(-50.0, 62.0), "at most 62 J");
        assert_eq!(words(5.0, 8.0), "6 J -17/+33%");
        assert_eq!(words(5.0, 7.1), "6 J +-18%");
        assert_eq!(words(5.99, 6.0), "6 J -0.17/+0%");
        assert_eq!(words(6.0, 6.0 + 1e-9), "6 J -0/+0.01%");
        let ends = |low, high| Interval::estimated(6.0, low, high).with_ends(|j| format!("{j:.1}"));
        assert_eq!(ends(-1.0, 7.0), "6.0 (-1.0 to 7.0)");
        assert_eq!((ends(5.99, 6.01), ends(5.0, f64::INFINITY)), ("6.0".into(), "6.0 (?)".into()));
        assert_eq!((words(6.0, 6.0), words(0.0, f64::INFINITY)), ("6 J".into(), "6 J +-?".into()));
    }

    proptest::proptest! {
        /// The interval that a reader makes of the text holds the figure's, and is hardly wider.
        #[test]
        fn what_a_reader_makes_of_the_text_is_the_interval(
            value in 1e-3f64..1e3, below in 0.0f64..0.99, above in 0.0f64..3.0,
        ) {
            let (low, high) = (value * (1.0 - below), value * (1.0 + above));
            let of = Interval::estimated(value, low, high);
            let text = of.in_words(|x| format!("{x:e}"));
            let behind = text.split(' ').nth(1).unwrap_or("+-0%").trim_end_matches('%');
            let number = |text: &str| text.parse::<f64>().unwrap() / 100.0;
            let [read_below, read_above] = match behind.strip_prefix("+-") {
                Some(half) => [number(half); 2],
                None => {
                    let (below, above) = behind.split_once('/').unwrap();
                    [-number(below), number(above)]
                }
            };
            // A figure of two digits is rounded by a twentieth at most.
            for (read, right) in [(read_below, below), (read_above, above)] {
                proptest::prop_assert!(read >= 0.95 * right - 6e-5, "{text}: {of:?}");
            }
            let width = below + above;
            proptest::prop_assert!(read_below + read_above <= 1.16 * width + 2e-4, "{text}: {of:?}");
        }
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
