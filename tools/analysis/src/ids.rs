//! Owns the hash map keyed by ids that the recorder counted up: a multiply is hash enough for them,
//! and joining commands with their outcomes is the hottest step of the analysis.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes integers by one multiplication and a fold.
#[derive(Debug, Clone, Copy, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64((value >> 64) as u64);
        self.write_u64(value as u64);
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0.rotate_left(29) ^ value)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        self.0 = (product ^ (product >> 64)) as u64;
    }
}

/// A map from such ids.
pub type IdMap<V, K = u64> = HashMap<K, V, BuildHasherDefault<IdHasher>>;
