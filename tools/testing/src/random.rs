//! Numbers that look random and are the same in every run: a seed names them. One generator for all
//! tests, and none of a crate, whose next version may give other numbers. Not for secrets.
#![forbid(unsafe_code)]

/// xoshiro256** (Blackman and Vigna, 2018), seeded by splitmix64 (Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub struct Random([u64; 4]);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ (z >> 31)
        };
        Self([next(), next(), next(), next()])
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `most`, 0 where `most` is 0. The bias of the remainder does not matter to
    /// tests.
    pub fn below(&mut self, most: u64) -> u64 {
        self.bits() % most.max(1)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [`low`, `high`).
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// Standard normal (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        let u = 1.0 - self.uniform();
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_names_its_numbers() {
        // From the algorithms' published code, run apart from this.
        let mut random = Random::new(42);
        assert_eq!(
            [random.bits(), random.bits(), random.bits()],
            [0x1578_0b2e_0c2e_c716, 0x6104_d986_6d11_3a7e, 0xae17_5332_39e4_99a1]
        );
        let mut again = Random::new(42);
        assert_eq!(again.bits(), 0x1578_0b2e_0c2e_c716);
        assert_ne!(Random::new(43).bits(), 0x1578_0b2e_0c2e_c716);
        assert_eq!(random.below(0), 0);
    }
}
