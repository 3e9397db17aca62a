//! Work-groups in waves: as many as fit at once, then the next; the last wave may be nearly empty
//! and lasts as long as a full one. Owns this arithmetic, throughput over groups by it, and the
//! formula for Mali GPUs that it generalises.

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

/// Throughput over groups as waves have it: every wave lasts as long as the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SawTooth {
    /// Groups that take the time of one.
    pub slots: u64,
    /// Groups per unit of time of a device with one group.
    pub alone: f64,
}

impl SawTooth {
    /// From throughputs at numbers of groups on a device of so many units: the time of a launch is
    /// that of its fullest unit, and a unit's groups take the time of one up to the first number at
    /// which they take a quarter longer. `None` without a point of one group a unit or fewer.
    pub fn fit(points: &[(u64, f64)], units: u64) -> Option<Self> {
        let units = units.max(1);
        let usable = || points.iter().filter(|p| p.0 > 0 && p.1 > 0.0 && p.1.is_finite());
        let single: Vec<f64> =
            usable().filter(|p| p.0 <= units).map(|p| p.1 / p.0 as f64).collect();
        if single.is_empty() {
            return None;
        }
        let alone = single.iter().sum::<f64>() / single.len() as f64;
        let longer = usable().filter(|p| p.0 as f64 / p.1 > LONGER / alone).map(|p| p.0).min();
        let level = longer.map_or(u64::MAX / units, |groups| (groups.div_ceil(units) - 1).max(1));
        Some(Self { slots: level * units, alone })
    }

    /// Throughput of so many groups.
    pub fn throughput(&self, groups: u64) -> f64 {
        waves(groups, self.slots).map_or(0.0, |w| groups as f64 * self.alone / w.waves as f64)
    }
}

/// From so many times as long on, groups do not take the time of one.
const LONGER: f64 = 1.25;

/// A launch on a Mali-T624 (Matsentidou 2020, chapter 13): the symbols of its formula.
///
/// Valid without register spills and cache misses, and with more than 64 items in the last batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mali {
    /// Work-items, `wl`.
    pub items: u64,
    /// Work-items of a group, `gs`.
    pub local: u64,
    /// Instruction words of a work-item, `I`.
    pub words: f64,
    /// Clock, Hz, `F`.
    pub hertz: f64,
    /// Depth of the pipeline, `pd`: 38.
    pub depth: f64,
    /// Cores: 4.
    pub cores: u64,
}

/// Work-items that a core takes before the next one gets some (Matsentidou 2020, section 8.1).
const MALI_CHUNK: u64 = 64;

impl Mali {
    /// Work-items of a full batch, `maxB`.
    pub fn batch(&self) -> u64 {
        let groups = MALI_CHUNK * self.cores.max(1);
        (groups * self.local.max(1)).min(4 * groups)
    }

    /// Batches, one after the other, `n`.
    pub fn batches(&self) -> u64 {
        self.items.div_ceil(self.batch())
    }

    /// Cycles of a word where the fullest core has so many items, stalls included.
    fn cycles(&self, on_core: u64) -> f64 {
        let pipelines = self.local.clamp(1, 2) as f64;
        self.depth.max(on_core as f64 / pipelines)
    }

    /// Work-items of the fullest core, `maxC`, where `full` are spread evenly and of `rest` those
    /// that are left over fill the first core.
    fn on_core(&self, full: u64, rest: u64) -> u64 {
        let round = MALI_CHUNK * self.cores.max(1);
        MALI_CHUNK * (full / round) + (rest % round).min(MALI_CHUNK)
    }

    /// Seconds, with the items of each batch on its cores: what the document measures.
    pub fn seconds(&self) -> f64 {
        let batch = self.batch();
        let size = |i: u64| batch.min(self.items - i * batch);
        let all = (0..self.batches()).map(|i| self.cycles(self.on_core(size(i), size(i))));
        all.sum::<f64>() * self.words / self.hertz
    }

    /// Seconds by the formula as it is printed (figure 13.1): every batch counts as full, and the
    /// rest of the whole launch comes on top.
    pub fn seconds_as_printed(&self) -> f64 {
        let cycles = self.cycles(self.on_core(self.batch(), self.items));
        self.batches() as f64 * cycles * self.words / self.hertz
    }
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
    /// of section 13.3 (groups of two, 5 million words, 600 MHz). The formula as it is printed
    /// contradicts the former.
    #[test]
    fn mali_by_the_documents_figures() {
        let of =
            |items, local, words, hertz| Mali { items, local, words, hertz, depth: 38.0, cores: 4 };
        for (items, want) in [(38, 108.57), (39, 111.43), (50, 142.86)] {
            let of = of(items, 1, 2e6, 700e6);
            assert!((1e3 * of.seconds() - want).abs() < 0.005, "{items}: {}", of.seconds());
            assert!(1e3 * of.seconds_as_printed() > 2.0 * want);
        }
        let example = |items| of(items, 2, 5e6, 600e6);
        assert!((example(512).seconds() - 0.5333).abs() < 5e-5);
        assert!((example(256).seconds() - 0.3167).abs() < 5e-5);
        assert!((example(256).seconds_as_printed() - 0.5333).abs() < 5e-5);
        assert_eq!((example(257).batch(), example(513).batches()), (512, 2));
    }

    #[test]
    fn a_saw_tooth_gives_its_slots() {
        for level in [1, 2, 5] {
            let of = SawTooth { slots: level * 132, alone: 107.0 };
            let points: Vec<(u64, f64)> =
                (1..700).step_by(9).map(|g| (g, of.throughput(g))).collect();
            let found = SawTooth::fit(&points, 132).unwrap();
            let seen = points.iter().any(|p| p.0 > of.slots);
            assert!(!seen || found.slots == of.slots, "{found:?}");
            assert!((found.alone / of.alone - 1.0).abs() < 1e-12);
            assert!(points.iter().all(|p| (found.throughput(p.0) / p.1 - 1.0).abs() < 1e-9));
        }
        assert_eq!(SawTooth::fit(&[(264, 1.0)], 132), None);
        assert_eq!(SawTooth { slots: 4, alone: 1.0 }.throughput(0), 0.0);
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
