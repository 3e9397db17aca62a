//! Work-groups in waves: as many as fit at once, then the next; the last wave may be nearly empty and
//! lasts as long as a full one. Owns this arithmetic, and the formula for Mali GPUs that it
//! generalises.

/// A launch in waves of groups.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Waves {
    /// Groups.
    pub groups: u64,
    /// Groups that run at once on the whole device.
    pub slots: u64,
    /// Waves, the last one included.
    pub waves: u64,
    /// How full the last wave is.
    pub last: f64,
    /// Share of the time that is lost by it, if groups take alike.
    pub lost: f64,
}

/// Groups in waves of `slots`; `None` where either is 0.
#[must_use]
pub fn waves(groups: u64, slots: u64) -> Option<Waves> {
    if groups == 0 || slots == 0 {
        return None;
    }
    let waves = groups.div_ceil(slots);
    let in_last = groups - (waves - 1) * slots;
    Some(Waves {
        groups,
        slots,
        waves,
        last: in_last as f64 / slots as f64,
        lost: 1.0 - groups as f64 / (waves * slots) as f64,
    })
}

/// Depth of a Mali-400 core's pipeline (Matsentidou 2020, chapter 7).
const MALI_DEPTH: f64 = 38.0;

/// Seconds of `items` work-items in groups of `local` with `words` instruction words each, on a
/// Mali-400 with four cores at `hertz` (Matsentidou 2020, chapter 13). The document prints the
/// largest number of items of a core with the items of the whole launch; its own measurements hold
/// for those of the batch, which is what this computes.
///
/// Valid without register spills and cache misses, and with more than 64 items in the last batch.
#[must_use]
pub fn mali(items: u64, local: u64, words: f64, hertz: f64) -> f64 {
    let batch = (256 * local.max(1)).min(1024);
    let pipelines = local.clamp(1, 2) as f64;
    (0..items.div_ceil(batch))
        .map(|i| {
            let size = batch.min(items - i * batch);
            let on_core = (64 * (size / 256) + (size % 256).min(64)) as f64;
            let stalls = (on_core / pipelines - MALI_DEPTH).max(0.0);
            words * (MALI_DEPTH + stalls) / hertz
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_wave_costs_as_much_as_a_full_one() {
        let w = waves(1064, 1056).unwrap();
        assert_eq!((w.waves, w.groups - w.slots), (2, 8));
        assert!((w.last - 8.0 / 1056.0).abs() < 1e-12);
        assert!((w.lost - (1.0 - 1064.0 / 2112.0)).abs() < 1e-12);
        assert_eq!(waves(1056, 1056).unwrap().lost, 0.0);
        assert_eq!(waves(0, 8), None);
    }

    /// Matsentidou 2020, section 7.2 (groups of one item, 2 million words, 700 MHz) and the example
    /// of section 13.3 (groups of two, 5 million words, 600 MHz).
    #[test]
    fn mali_by_the_documents_figures() {
        let ms = |items| 1e3 * mali(items, 1, 2e6, 700e6);
        for (items, want) in [(38, 108.57), (39, 111.43), (50, 142.86)] {
            assert!((ms(items) - want).abs() < 0.005, "{items}: {}", ms(items));
        }
        assert!((mali(512, 2, 5e6, 600e6) - 0.5333).abs() < 5e-5);
        assert!((mali(256, 2, 5e6, 600e6) - 0.3167).abs() < 5e-5);
    }

    proptest! {
        #[test]
        fn more_groups_never_need_fewer_waves(groups in 1u64..1 << 40, slots in 1u64..1 << 20, more in 0u64..1000) {
            let (a, b) = (waves(groups, slots).unwrap(), waves(groups + more, slots).unwrap());
            prop_assert!(b.waves >= a.waves);
            prop_assert!((0.0..1.0).contains(&a.lost) && a.last > 0.0 && a.last <= 1.0);
            prop_assert!(a.waves * slots >= groups && (a.waves - 1) * slots < groups);
        }
    }
}
