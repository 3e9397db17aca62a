//! Clocks event reasons (throttle reasons) in words. Owns the names of the bits of nvml.h.
#![forbid(unsafe_code)]

/// The bits and what each means for a measurement.
pub const REASONS: [(u64, &str); 9] = [
    (0x1, "idle: clocks lowered because nothing runs"),
    (0x2, "clocks held by a user's setting"),
    (0x4, "held back by the power limit"),
    (0x8, "hardware slowdown"),
    (0x10, "held back to agree with other GPUs (sync boost)"),
    (0x20, "held back by temperature (software)"),
    (0x40, "held back by temperature (hardware)"),
    (0x80, "power brake: the supply asks for less"),
    (0x100, "clocks held by the display"),
];

/// Bits under which a measurement of power or time is not that of an unhindered GPU.
pub const THROTTLED: u64 = 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80;

/// The words of every bit that is set; unknown bits as their number.
pub fn words(bits: u64) -> Vec<String> {
    (0..64)
        .map(|i| 1u64 << i)
        .filter(|bit| bits & bit != 0)
        .map(|bit| {
            let known = REASONS.iter().find(|(b, _)| *b == bit);
            known.map_or_else(
                || format!("unknown reason {bit:#x}"),
                |(_, words)| (*words).to_owned(),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_by_table() {
        assert!(words(0).is_empty());
        assert_eq!(words(0x5), [REASONS[0].1, REASONS[2].1]);
        assert_eq!(words(1 << 40), ["unknown reason 0x10000000000"]);
    }
}
