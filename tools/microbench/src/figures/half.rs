//! IEEE 754 binary16 for host references. Owns conversion with round-to-nearest-even; refuses
//! arithmetic: that is done in double precision, whose 53 bits make one rounding at the end the
//! correct one for sums, products and quotients.

/// The nearest half, ties to even, as its bits.
pub fn from_f64(value: f64) -> u16 {
    let bits = value.to_bits();
    let sign = ((bits >> 48) & 0x8000) as u16;
    if value.is_nan() {
        return sign | 0x7E00;
    }
    let magnitude = value.abs();
    if magnitude >= 65520.0 {
        return sign | 0x7C00;
    }
    // Multiples of the spacing at this size: 2^-24 for subnormals, else 2^(exponent - 10).
    let exponent = (((bits >> 52) & 0x7FF) as i32 - 1023).max(-14);
    let units = (magnitude * f64::from(10 - exponent).exp2()).round_ties_even();
    // `units` is at most 2048 and carries into the exponent by plain addition.
    let base = if units >= 1024.0 { ((exponent + 14) as u16) << 10 } else { 0 };
    sign | (base + units as u16)
}

/// The value of a half's bits.
pub fn to_f64(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1F), f64::from(bits & 0x3FF));
    sign * match exponent {
        0 => mantissa * f64::from(-24).exp2(),
        31 if mantissa == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (1024.0 + mantissa) * f64::from(e - 25).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives() {
        for bits in 0..=u16::MAX {
            let value = to_f64(bits);
            if !value.is_nan() {
                assert_eq!(from_f64(value), bits, "{bits:#x} is {value}");
            }
        }
    }

    #[test]
    fn ties_go_to_even() {
        // Between 2048 and 4096 halves are 2 apart.
        for (value, want) in
            [(2049.0, 2048.0), (2051.0, 2052.0), (2050.0, 2050.0), (65519.0, 65504.0), (1e-8, 0.0)]
        {
            assert_eq!(to_f64(from_f64(value)), want);
        }
        assert_eq!(to_f64(from_f64(65520.0)), f64::INFINITY);
        assert!(to_f64(from_f64(f64::NAN)).is_nan());
    }
}
