//! Figures beyond the sets: peaks, FLOP per cycle, instructions per cycle. Owns the formulas of the
//! Gen9.5 thesis (Duarte 2018, section 4.2) and what each of them assumes; refuses to call a bound
//! a measurement.

/// What a GPU's floating-point units can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatUnits {
    /// Execution units.
    pub eus: u32,
    /// FPUs in each (2 up to Gen11).
    pub fpus_per_eu: u32,
    /// Operations per FPU and cycle, a fused multiply-add counting as one (4: FPUs are four lanes
    /// wide).
    pub lanes: u32,
}

/// Kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Addition, subtraction, multiplication.
    Plain,
    /// Multiply-add: two operations in a cycle.
    MultiplyAdd,
}

impl Operation {
    fn flops(self) -> f64 {
        match self {
            Operation::Plain => 1.0,
            Operation::MultiplyAdd => 2.0,
        }
    }
}

impl FloatUnits {
    /// Equation 4.1: the most single-precision FLOP/s at this clock.
    pub fn peak_single(&self, hz: u64, operation: Operation) -> f64 {
        f64::from(self.eus) * self.peak_per_cycle(operation) * hz as f64
    }

    /// The most double-precision FLOP/s on Gen9: one FPU of two, at half its rate.
    pub fn peak_double_gen9(&self, hz: u64, operation: Operation) -> f64 {
        self.peak_single(hz, operation) / 4.0
    }

    /// The most single-precision FLOP per cycle of one EU: 8, or 16 for multiply-add.
    pub fn peak_per_cycle(&self, operation: Operation) -> f64 {
        f64::from(self.fpus_per_eu) * f64::from(self.lanes) * operation.flops()
    }
}

/// FLOP per cycle of one EU where the kernel's operations are known: `flops` over all EUs, divided
/// by EUs and by the cycles in which FPU0 of one EU was active (A7 programmed with fine 7, coarse
/// 7, increment 0: figure 4.8 of the Gen9.5 thesis). Assumes that every EU does the same work.
/// `None` where no cycle was active.
pub fn flop_per_active_cycle(flops: u64, eus: u32, active_cycles_of_one_eu: u64) -> Option<f64> {
    let cycles = f64::from(eus) * active_cycles_of_one_eu as f64;
    (cycles > 0.0).then(|| flops as f64 / cycles)
}

/// At most so many FLOP per cycle and EU were done: what the FPUs' active cycles (summed over all
/// EUs) would have been if every one had done `operation` in all lanes. Moves, integer work and
/// masked lanes count as FLOP here: an upper bound. `None` where no clock passed.
pub fn flop_per_cycle_bound(
    fpu0: u64,
    fpu1: u64,
    clocks: u64,
    units: &FloatUnits,
    operation: Operation,
) -> Option<f64> {
    let cycles = f64::from(units.eus) * clocks as f64;
    (cycles > 0.0)
        .then(|| (fpu0 as f64 + fpu1 as f64) * f64::from(units.lanes) * operation.flops() / cycles)
}

/// FPU instructions per cycle in which at least one FPU was active: 1 to 2. `None` where none was,
/// or where the counts contradict each other (both active more often than either).
pub fn instructions_per_active_cycle(fpu0: u64, fpu1: u64, both: u64) -> Option<f64> {
    if both > fpu0.min(fpu1) {
        return None;
    }
    let either = fpu0.checked_add(fpu1)? - both;
    (either > 0).then(|| 1.0 + both as f64 / either as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFERENCE: FloatUnits = FloatUnits { eus: 24, fpus_per_eu: 2, lanes: 4 };

    #[test]
    fn peaks_of_the_reference() {
        let hz = 1_050_000_000;
        let giga = |x: f64| (x / 1e8).round() / 10.0;
        assert_eq!(giga(REFERENCE.peak_single(hz, Operation::Plain)), 201.6);
        assert_eq!(giga(REFERENCE.peak_single(hz, Operation::MultiplyAdd)), 403.2);
        assert_eq!(giga(REFERENCE.peak_double_gen9(hz, Operation::Plain)), 50.4);
        assert_eq!(giga(REFERENCE.peak_double_gen9(hz, Operation::MultiplyAdd)), 100.8);
        assert_eq!(REFERENCE.peak_per_cycle(Operation::MultiplyAdd), 16.0);
    }

    #[test]
    fn flop_per_cycle_reaches_its_peak_and_no_more() {
        // Both FPUs busy all the time: 8 per cycle, 16 with multiply-add.
        let all = 24 * 1000;
        assert_eq!(flop_per_cycle_bound(all, all, 1000, &REFERENCE, Operation::Plain), Some(8.0));
        assert_eq!(
            flop_per_cycle_bound(all, all, 1000, &REFERENCE, Operation::MultiplyAdd),
            Some(16.0)
        );
        assert_eq!(flop_per_cycle_bound(1, 1, 0, &REFERENCE, Operation::Plain), None);
        assert_eq!(flop_per_active_cycle(24 * 1000 * 8, 24, 1000), Some(8.0));
        assert_eq!(flop_per_active_cycle(1, 24, 0), None);
    }

    #[test]
    fn instructions_per_cycle_by_table() {
        let table = [
            ((100, 0, 0), Some(1.0)),
            ((100, 100, 100), Some(2.0)),
            ((80, 70, 60), Some(1.0 + 60.0 / 90.0)),
            ((0, 0, 0), None),
            ((5, 5, 6), None),
        ];
        for ((fpu0, fpu1, both), want) in table {
            assert_eq!(instructions_per_active_cycle(fpu0, fpu1, both), want);
        }
    }
}
