//! Sets that need no file: what the A counters (on Xe2 the PEC counters) give. Owns their
//! equations; refuses B and C counters, whose meaning depends on the routing that only published
//! register lists set up.
//!
//! Equations after Mesa's `oa-kblgt2.xml`, `oa-tglgt2.xml`, `oa-dg2*.xml` and `oa-lnl.xml`. On Gen9
//! the EU counters A7 to A13 are programmed by the codes of table 3.6 of the Gen9.5 thesis (Duarte
//! 2018), so that the set can be loaded without any file; later codes are not published, and the
//! set needs a loaded configuration that counts the same.

use crate::set::{MetricSet, Origin};
use crate::xml;
use clscope_oa::Generation;

/// In the form of the files that others publish.
const SETS: &str = include_str!("builtin.xml");

/// The set of a generation; `None` where no published document describes its counters (Gen7, Gen8,
/// Gen11).
pub fn core(generation: Generation) -> Option<MetricSet> {
    let chipset = match generation {
        Generation::Gen9 => "Gen9",
        Generation::Gen12 => "TGL",
        Generation::Xe => "DG2",
        Generation::Xe2 => "Xe2",
        Generation::Gen7 | Generation::Gen8 | Generation::Gen11 => return None,
    };
    let sets = xml::parse("builtin.xml", SETS).ok()?.sets;
    let set = sets.into_iter().find(|set| set.chipset == chipset)?;
    Some(MetricSet { origin: Origin::BuiltIn, ..set })
}

/// UUIDs of published configurations that count what a built-in set reads, to look for in sysfs.
pub fn fitting_configurations(generation: Generation) -> &'static [(&'static str, &'static str)] {
    match generation {
        Generation::Gen9 => &[
            ("ComputeBasic", "12994724-3a5a-4303-bb3c-ba0175d2c200"),
            ("ComputeExtended", "4af0400a-81c3-47db-a6b6-deddbd75680e"),
        ],
        Generation::Gen12 => &[("ComputeBasic", "397a46d9-03dd-4696-8196-270362e1c575")],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpn::{Equation, Input, Undefined};
    use crate::set::Metric;
    use crate::variables::{Provenance, Variables};
    use clscope_oa::config::Register;
    use clscope_oa::flex::{FlexEvent, Programmed};
    use clscope_oa::{Counter, Counts, Format, Group, Published};

    fn variables(eus: u64, threads: u64) -> Variables {
        let mut v = Variables::new();
        v.set("EuCoresTotalCount", eus, Provenance::User).set(
            "EuThreadsCount",
            threads,
            Provenance::User,
        );
        v.set("GpuTimestampFrequency", 12_000_000, Provenance::User);
        v
    }

    fn value(set: &MetricSet, counts: &Counts, variables: &Variables, name: &str) -> f64 {
        let which = set.select(&[name]).unwrap();
        let outcome = set.evaluate(counts, variables, &which).remove(0);
        assert!(!outcome.exceeds_max && !outcome.divided_by_zero, "{name}: {outcome:?}");
        outcome.value.unwrap_or_else(|e| panic!("{name}: {e}")).as_f64()
    }

    /// Whichever counter is programmed, no figure is left that is computed of it, directly or
    /// through others; the event has one of its own, and all other figures stay.
    #[test]
    fn a_counter_that_counts_something_else_is_in_no_figure_of_the_set() {
        let before = core(Generation::Gen9).unwrap();
        for counter in 7..=20u8 {
            for increment in [0u8, 4, 5] {
                let event = FlexEvent { fine: 7, coarse: 7, increment };
                let event = Programmed { counter, event };
                let mut set = before.clone();
                set.program(&[event]);
                let reads = |m: &Metric| {
                    m.equation.text().split(" READ").any(|of| of.ends_with(&format!("A {counter}")))
                };
                let named: Vec<&Metric> = set.metrics.iter().filter(|m| reads(m)).collect();
                let [own] = named[..] else { panic!("{counter}: {named:?}") };
                assert_eq!(own.symbol, event.to_string());
                assert!(own.description.contains("row 0"), "{own:?}");
                let others = before.metrics.iter().filter(|m| !reads(m));
                let kept = set.metrics.iter().filter(|m| m.symbol != own.symbol);
                assert!(others.map(|m| &m.symbol).eq(kept.map(|m| &m.symbol)), "{counter}");
            }
        }
        // What the set programs itself changes nothing but adds the count.
        let mut set = before.clone();
        let event = FlexEvent { fine: 0, coarse: 0, increment: 4 };
        set.program(&[Programmed { counter: 7, event }]);
        assert_eq!(set.metrics.len(), before.metrics.len() + 1);
        // Through another figure.
        let mut set = before;
        let mut through = set.metrics[0].clone();
        through.symbol = "Through".to_owned();
        through.equation = Equation::parse("$EuActive 2 FMUL").unwrap();
        set.metrics.push(through);
        let event = FlexEvent { fine: 7, coarse: 7, increment: 0 };
        set.program(&[Programmed { counter: 7, event }]);
        assert!(!set.metrics.iter().any(|m| m.symbol == "Through" || m.symbol == "EuActive"));
    }

    #[test]
    fn every_row_is_there_and_reads_only_what_its_report_holds() {
        let formats = [
            (Generation::Gen9, Format::A32u40A4u32B8C8, 4 + 1 + 10 + 2 + 3),
            (Generation::Gen12, Format::A32u40A4u32B8C8, 4 + 1 + 4 + 2 + 3),
            (Generation::Xe, Format::A24u40A14u32B8C8, 4 + 1 + 10 + 3),
            (Generation::Xe2, Format::Pec64u64, 3 + 2),
        ];
        for (generation, format, rows) in formats {
            let set = core(generation).unwrap();
            assert_eq!(set.metrics.len(), rows, "{generation:?}");
            let layout = format.layout(Published::Tables);
            for metric in &set.metrics {
                for input in metric.equation.inputs() {
                    let Input::Counter(counter) = input else { continue };
                    assert!(
                        layout.slot(*counter).is_some(),
                        "{generation:?} {}: {counter}",
                        metric.symbol
                    );
                    assert!(matches!(counter.group, Group::A | Group::Pec), "{}", metric.symbol);
                }
            }
        }
        assert!(
            core(Generation::Gen8).is_none()
                && core(Generation::Gen7).is_none()
                && core(Generation::Gen11).is_none()
        );
    }

    #[test]
    fn gen9_by_hand() {
        // 10 ms at 1050 MHz on 24 EUs with 7 threads.
        let mut counts = Counts::zero(Format::A32u40A4u32B8C8.layout(Published::Tables));
        let clocks = 10_500_000;
        counts.set_clocks(120_000, clocks);
        let eu = 24 * clocks;
        let sets = [
            (0, clocks / 2),
            (4, 1234),
            (7, eu * 9 / 10),
            (8, eu / 20),
            (9, eu * 6 / 10),
            (10, eu * 8 / 10),
            (11, eu * 7 / 10),
            (12, eu / 100),
            (13, eu * 7 / 8 / 2),
            (30, 1000),
            (31, 500),
            (32, 250),
            (34, 3),
            (35, 4),
        ];
        for (index, count) in sets {
            assert!(counts.set(Counter::new(Group::A, index), count));
        }
        let (set, variables) = (core(Generation::Gen9).unwrap(), variables(24, 7));
        let table = [
            ("GpuTime", 10_000_000.0),
            ("GpuCoreClocks", 10_500_000.0),
            ("AvgGpuCoreFrequency", 1_050_000_000.0),
            ("GpuBusy", 50.0),
            ("CsThreads", 1234.0),
            ("EuActive", 90.0),
            ("EuStall", 5.0),
            ("EuFpuBothActive", 60.0),
            ("Fpu0Active", 80.0),
            ("Fpu1Active", 70.0),
            ("EuSendActive", 1.0),
            // 8 * A13 / 24 / 7 of 10.5 million: half of the slots.
            ("EuThreadOccupancy", 50.0),
            // 1 + 0.6 / (0.8 + 0.7 - 0.6)
            ("EuAvgIpcRate", 1.0 + 0.6 / 0.9),
            ("L3ShaderThroughput", 64.0 * 1750.0),
            ("SlmBytesRead", 64_000.0),
            ("SlmBytesWritten", 32_000.0),
            ("ShaderMemoryAccesses", 250.0),
            ("ShaderAtomics", 3.0),
            ("ShaderBarriers", 4.0),
        ];
        for (name, want) in table {
            let got = value(&set, &counts, &variables, name);
            assert!((got - want).abs() <= want * 1e-9, "{name}: {got} {want}");
        }
        // Truncation stands where the equation has it: 23 of 24 EU clocks are none.
        counts.set(Counter::new(Group::A, 7), 23);
        assert_eq!(value(&set, &counts, &variables, "EuActive"), 0.0);
        counts.set(Counter::new(Group::A, 7), 24 * 105_000 + 23);
        assert_eq!(value(&set, &counts, &variables, "EuActive"), 1.0);
    }

    #[test]
    fn tgl_dg2_and_xe2_by_hand() {
        let clocks = 1_000_000;
        let fill = |format: Format, group, values: &[(u8, u64)]| {
            let mut counts = Counts::zero(format.layout(Published::Tables));
            counts.set_clocks(12_000, clocks);
            for (index, count) in values {
                assert!(counts.set(Counter::new(group, *index), *count));
            }
            counts
        };
        let eu = 96 * clocks;
        let each: Vec<(u8, u64)> = (7..=10)
            .map(|i| (i, eu / 10))
            .chain((11..=14).map(|i| (i, eu / 20)))
            .chain((15..=18).map(|i| (i, eu * 7 / 8 / 8)))
            .collect();
        let tgl = fill(Format::A32u40A4u32B8C8, Group::A, &[&each[..], &[(32, 10)]].concat());
        let (set, vars) = (core(Generation::Gen12).unwrap(), variables(96, 7));
        for (name, want) in [
            ("EuActive", 40.0),
            ("EuStall", 20.0),
            ("EuThreadOccupancy", 50.0),
            ("L3ShaderThroughput", 640.0),
        ] {
            assert_eq!(value(&set, &tgl, &vars, name), want, "{name}");
        }
        let eu = 512 * clocks;
        let dg2 = fill(
            Format::A24u40A14u32B8C8,
            Group::A,
            &[
                (0, clocks),
                (7, eu / 2),
                (8, eu / 4),
                (9, eu / 5),
                (10, eu / 10),
                (12, eu / 20),
                (14, eu / 100),
                (15, eu / 2),
                (30, 5),
                (36, 3),
            ],
        );
        let (set, vars) = (core(Generation::Xe).unwrap(), variables(512, 8));
        let table = [
            ("GpuBusy", 100.0),
            ("EuActive", 50.0),
            ("EuStall", 25.0),
            ("FpuActive", 20.0),
            ("EmActive", 10.0),
            ("XveFpuEmActive", 5.0),
            ("EuSendActive", 1.0),
            ("EuThreadOccupancy", 50.0),
            ("SlmReads", 5.0),
            ("GtiReadThroughput", 384.0),
        ];
        for (name, want) in table {
            assert_eq!(value(&set, &dg2, &vars, name), want, "{name}");
        }
        let xe2 = fill(Format::Pec64u64, Group::Pec, &[(32, clocks / 4), (4, 64 * clocks / 2)]);
        let (set, vars) = (core(Generation::Xe2).unwrap(), variables(64, 8));
        assert_eq!(value(&set, &xe2, &vars, "GpuBusy"), 25.0);
        assert_eq!(value(&set, &xe2, &vars, "XveActive"), 50.0);
        assert!(set.select(&["EuThreadOccupancy"]).is_err());
    }

    #[test]
    fn an_interval_without_clocks_is_undefined_not_zero() {
        let counts = Counts::zero(Format::A32u40A4u32B8C8.layout(Published::Tables));
        let set = core(Generation::Gen9).unwrap();
        let which =
            set.select(&["GpuBusy", "AvgGpuCoreFrequency", "EuAvgIpcRate", "CsThreads"]).unwrap();
        let got = set.evaluate(&counts, &variables(24, 7), &which);
        assert!(matches!(got[0].value, Err(Undefined::NoClock)), "{got:?}");
        assert!(matches!(got[1].value, Err(Undefined::NoClock)), "{got:?}");
        // No FPU worked: by the definition 0 + 1, with a division by zero in it.
        assert!(got[2].divided_by_zero);
        assert_eq!(got[3].value.as_ref().map(|n| n.as_f64()), Ok(0.0));
        // A format without GPU_TICKS gives no shares.
        let counts = Counts::zero(Format::A12.layout(Published::IgtTests));
        let got = set.evaluate(&counts, &variables(24, 7), &which[..1]);
        assert!(
            got[0]
                .value
                .as_ref()
                .is_err_and(|e| e.to_string().contains("the report does not hold A0")),
            "{got:?}"
        );
    }

    #[test]
    fn gen9_programs_the_published_registers() {
        let registers = core(Generation::Gen9).unwrap().registers(&Variables::new()).unwrap();
        let want = [(0xe458, 0x5004), (0xe558, 0x0003), (0xe658, 0x2001), (0xe758, 0x0008)];
        assert_eq!(registers.flex, want.map(|(address, value)| Register { address, value }));
        assert!(registers.mux.is_empty() && registers.boolean.is_empty());
        for generation in [Generation::Gen9, Generation::Gen12] {
            for (_, uuid) in fitting_configurations(generation) {
                assert!(uuid.parse::<clscope_oa::config::Uuid>().is_ok());
            }
        }
    }
}
