//! Units, clocks and stamps as types that cannot be mixed. Owns the exact conversion of raw counter
//! units into microjoules; refuses to read any clock (the caller hands one in as a [`Clock`]).
#![forbid(unsafe_code)]

use std::fmt;
use std::ops::{Add, Sub};

/// A point of CLOCK_MONOTONIC_RAW, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawNs(pub u64);

impl RawNs {
    /// Nanoseconds from `earlier` to `self`; 0 where `earlier` is the later of the two.
    pub fn since(self, earlier: RawNs) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// `self` moved `ns` nanoseconds into the future, held at the end of the range.
    pub fn plus(self, ns: u64) -> RawNs {
        RawNs(self.0.saturating_add(ns))
    }
}

/// A point of CLOCK_REALTIME, in nanoseconds since 1970. Some drivers stamp their samples in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RealtimeNs(pub u64);

/// The clocks a source may ask for. The crate that owns clocks implements it; closures that return
/// [`RawNs`] serve where no source needs the wall clock.
pub trait Clock {
    /// CLOCK_MONOTONIC_RAW now.
    fn raw(&mut self) -> RawNs;
    /// CLOCK_REALTIME now, or `None` where the caller has none. A source whose driver stamps in the
    /// wall clock then yields readings bounded by the time of the call only.
    fn realtime(&mut self) -> Option<RealtimeNs> {
        None
    }
}

impl<F: FnMut() -> RawNs> Clock for F {
    fn raw(&mut self) -> RawNs {
        self()
    }
}

/// When something was read: it happened between `before` and `after`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// The clock just before the read began.
    pub before: RawNs,
    /// The clock just after the read ended.
    pub after: RawNs,
}

impl Stamp {
    /// A stamp without width.
    pub fn exact(at: RawNs) -> Stamp {
        Stamp { before: at, after: at }
    }

    /// The middle of the bracket: the best single time for the reading.
    pub fn mid(self) -> RawNs {
        RawNs(self.before.0 + self.after.since(self.before) / 2)
    }

    /// Half the bracket's width in nanoseconds: the largest error of [`Stamp::mid`].
    pub fn uncertainty_ns(self) -> u64 {
        self.after.since(self.before).div_ceil(2)
    }
}

/// Energy in microjoules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Microjoules(pub u64);

/// Power in microwatts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Microwatts(pub u64);

/// Joules as a real number: differences of planes may come out negative, and are then kept so.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Joules(pub f64);

/// Watts as a real number: differences of planes may come out negative, and are then kept so.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Watts(pub f64);

macro_rules! linear {
    ($($unit:ident $suffix:literal),*) => {$(
        impl Add for $unit {
            type Output = $unit;
            fn add(self, other: $unit) -> $unit { $unit(self.0 + other.0) }
        }
        impl Sub for $unit {
            type Output = $unit;
            fn sub(self, other: $unit) -> $unit { $unit(self.0 - other.0) }
        }
        impl fmt::Display for $unit {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match f.precision() {
                    Some(digits) => write!(f, concat!("{:.*} ", $suffix), digits, self.0),
                    None => write!(f, concat!("{} ", $suffix), self.0),
                }
            }
        }
    )*};
}
linear!(Joules "J", Watts "W");

/// What one count of an energy counter is worth, as a fraction of microjoules, so that totals of
/// counts convert without accumulating rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EnergyUnit {
    numerator: u64,
    denominator: u64,
}

impl EnergyUnit {
    /// Counters that count microjoules (powercap, hwmon).
    pub const MICROJOULE: EnergyUnit = EnergyUnit { numerator: 1, denominator: 1 };
    /// Counters that count millijoules (NVML).
    pub const MILLIJOULE: EnergyUnit = EnergyUnit { numerator: 1000, denominator: 1 };

    /// 2^-exponent joules (Intel SDM vol. 3B, MSR_RAPL_POWER_UNIT). `exponent` is at most 63.
    pub fn power_of_two(exponent: u32) -> EnergyUnit {
        EnergyUnit { numerator: 1_000_000, denominator: 1u64 << exponent.min(63) }
    }

    /// `numerator / denominator` microjoules; `None` where either is 0.
    pub fn fraction(numerator: u64, denominator: u64) -> Option<EnergyUnit> {
        (numerator > 0 && denominator > 0).then_some(EnergyUnit { numerator, denominator })
    }

    /// From a count's worth in joules, as perf's `.scale` files give it. Exact for powers of two
    /// down to 2^-63; otherwise right to about one part in 10^9. `None` unless positive, finite and
    /// between 2^-63 and 10^6 J.
    pub fn from_joules(joules: f64) -> Option<EnergyUnit> {
        if !joules.is_finite() || joules < (-63f64).exp2() || joules > 1e6 {
            return None;
        }
        let exponent = -joules.log2();
        if (0.0..=63.0).contains(&exponent)
            && exponent.fract() == 0.0
            && (-exponent).exp2() == joules
        {
            return Some(EnergyUnit::power_of_two(exponent as u32));
        }
        let mut shift = 0u32;
        let mut scaled = joules * 1e6;
        // Thirty bits of numerator keep the relative rounding under 10^-9.
        while scaled < f64::from(1u32 << 30) && shift < 63 {
            scaled *= 2.0;
            shift += 1;
        }
        EnergyUnit::fraction(scaled.round() as u64, 1u64 << shift)
    }

    /// `counts` of this unit, rounded down to whole microjoules; held at the end of the range.
    pub fn microjoules(self, counts: u64) -> Microjoules {
        let exact = u128::from(counts) * u128::from(self.numerator) / u128::from(self.denominator);
        Microjoules(u64::try_from(exact).unwrap_or(u64::MAX))
    }

    /// One count in joules.
    pub fn joules(self) -> Joules {
        Joules(self.numerator as f64 / self.denominator as f64 * 1e-6)
    }

    /// The fraction, for storage: (numerator, denominator) microjoules per count.
    pub fn as_fraction(self) -> (u64, u64) {
        (self.numerator, self.denominator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_bracket_the_reading() {
        let stamp = Stamp { before: RawNs(100), after: RawNs(105) };
        assert_eq!(stamp.mid(), RawNs(102));
        assert_eq!(stamp.uncertainty_ns(), 3);
        // A clock that went backwards gives no width, not a huge one.
        let odd = Stamp { before: RawNs(105), after: RawNs(100) };
        assert_eq!((odd.mid(), odd.uncertainty_ns()), (RawNs(105), 0));
    }

    #[test]
    fn units_convert_exactly() {
        let sixteenth = EnergyUnit::power_of_two(14);
        assert_eq!(sixteenth.microjoules(1 << 14), Microjoules(1_000_000));
        assert_eq!(sixteenth.microjoules(u64::from(u32::MAX)), Microjoules(262_143_999_938));
        let perf = EnergyUnit::from_joules(2.328_306_436_538_696_3e-10).unwrap();
        assert_eq!(perf, EnergyUnit::power_of_two(32));
        assert_eq!(perf.microjoules(7 << 32), Microjoules(7_000_000));
        assert_eq!(
            EnergyUnit::fraction(1_000_000, 1).unwrap().microjoules(u64::MAX),
            Microjoules(u64::MAX)
        );
    }

    #[test]
    fn odd_scales_keep_nine_digits() {
        let unit = EnergyUnit::from_joules(15.3e-6).unwrap();
        let got = unit.microjoules(1_000_000_000).0 as f64;
        assert!((got / 15.3e9 - 1.0).abs() < 1e-9, "{got}");
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-30, 1e9] {
            assert_eq!(EnergyUnit::from_joules(bad), None, "{bad}");
        }
    }
}
