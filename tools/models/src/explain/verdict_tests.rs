//! Laws of verdicts over generated kernels and devices.

use super::super::{Options, Resource, Sure, device as explain_device};
use crate::device::name;
use crate::device::tests::made as device;
use crate::facts::OnDevice;
use crate::figure::{Evidence, Figure};
use crate::kernel::Kernel;
use crate::kernel::tests::{counted, launched};
use crate::roofline::{Family, bounds, ceiling_of};
use clscope_mix::Class;
use proptest::prelude::*;

const ALL: Options<'static> = Options { least_share: 0.0, access_rates: false, wanted: &|_| true };

/// Its least is no figure of a throughput.
fn is_waiting(limit: Resource) -> bool {
    use Resource as R;
    let merged = matches!(limit, R::IntegerMultiply | R::Issue | R::Conversion);
    merged
        || matches!(
            limit,
            R::Latency | R::UnevenGroups | R::FewGroups | R::MemoryIfMissed | R::Integer
        )
}

proptest! {
    /// A verdict names a cause with how sure it is, and no share of it is above the whole time. It
    /// names no cause and gives no advice of which the kernel has nothing.
    #[test]
    fn a_verdict_names_a_cause_that_the_kernel_has(
        counts in proptest::collection::vec(prop_oneof![3 => Just(0u64), 1 => 1u64..64], Class::ALL.len() - 1),
        groups in 1u64..4096,
        ns in 1e3f64..1e9,
        speed in proptest::collection::vec(0.5f64..5e3, 40),
        is_gpu in any::<bool>(),
    ) {
        prop_assume!(counts.iter().any(|c| *c > 0));
        let device = device(if is_gpu { "gpu" } else { "cpu" }, &speed);
        let joules = Figure::new(ns * 1e-8, ns * 0.9e-8, ns * 1.2e-8, Evidence::Measured);
        let kernel = Kernel {
            joules: Some(joules),
            floor_watts: Some(Figure::exact(speed[0], Evidence::Measured)),
            ..launched(counted(&counts, 64 * groups), groups, ns)
        };
        let on = OnDevice { name: "Made".to_owned(), kernels: vec![kernel.clone()], ..OnDevice::default() };
        let found = &explain_device(&on, Some(&device), ALL).kernels[0];
        let limit = found.limit.expect("a cause");
        prop_assert!(found.sure.is_some());
        prop_assert_eq!(found.sure != Some(Sure::Certain), found.decide.is_some());
        prop_assert!(found.reached.is_none_or(|r| (0.0..=1.0).contains(&r)), "{found:?}");
        prop_assert!(found.next.is_none_or(|n| (0.0..=1.0).contains(&n.share) && n.resource != limit));
        let verdict = found.statements.iter().find(|s| s.topic == "verdict").unwrap();
        let shares = verdict.text.split(" %").filter_map(|t| t.rsplit(' ').next()?.parse::<f64>().ok());
        prop_assert!(shares.into_iter().all(|p| p <= 100.0), "{}", verdict.text);
        // What holds under a condition says it.
        let is_said = [", if ", "; nothing else"].iter().any(|c| verdict.text.contains(c));
        prop_assert!(found.sure != Some(Sure::Conditional) || is_said, "{}", verdict.text);
        // What surely takes longer than the launch is no cause while another explains a part of it.
        let of = |r: Resource| found.bounds.iter().find(|b| b.resource == r);
        let off = |r: Resource| ns / Family::of(&device, r).spread().0;
        if of(limit).is_some_and(|b| b.ns.low > 1.03 * off(limit)) && limit != Resource::Launch {
            let is_longer = |r: Resource| of(r).is_some_and(|b| b.ns.low > 1.02 * off(r));
            let starts = |r: Resource| matches!(r, Resource::Groups | Resource::Launch);
            let may_be = found.next.filter(|n| !is_longer(n.resource) && !starts(n.resource));
            prop_assert!(may_be.is_none_or(|n| n.share < 0.1) || is_waiting(limit), "{}", verdict.text);
        }
        // Each number of a sentence is a value, too.
        for said in found.statements.iter().filter(|s| s.topic == "joules") {
            prop_assert!(!said.numbers.is_empty(), "{said:?}");
        }
        // The cause is one of what the kernel does.
        let mix = kernel.mix.as_ref().unwrap();
        let theirs = |r: Resource| mix.classes.keys().any(|c| ceiling_of(*c).is_some_and(|c| c.resource == r));
        let of_classes = Class::ALL.iter().filter_map(|c| ceiling_of(*c)).any(|c| c.resource == limit);
        let is_whole = matches!(limit, Resource::Issue | Resource::Cache | Resource::Fp16 | Resource::Fp32 | Resource::Fp64);
        prop_assert!(!of_classes || is_whole || theirs(limit), "{limit:?} {mix:?}");
        for lever in &found.levers {
            prop_assert!(!lever.text.contains("feeds 0.0"), "{}", lever.text);
            for (word, classes) in [
                ("local memory feeds", &[Class::LoadLocal][..]),
                ("atomic", &[Class::AtomicGlobal, Class::AtomicLocal]),
                ("barrier", &[Class::Barrier]),
                ("division", &[Class::IntDiv, Class::LongDiv]),
            ] {
                let has = classes.iter().any(|c| mix.classes.contains_key(c));
                prop_assert!(has || !lever.text.contains(word), "{}", lever.text);
            }
        }
    }

    /// A bound called certain is below the time of every machine that does what was counted at the
    /// ceilings that were measured: of one whose resources overlap wholly, whose caches serve all,
    /// and, for a CPU, whose compiler does once for all items what it can.
    #[test]
    fn certain_bounds_hold(
        counts in proptest::collection::vec(prop_oneof![2 => Just(0u64), 1 => 1u64..64], Class::ALL.len() - 1),
        groups in 1u64..4096,
        speed in proptest::collection::vec(0.5f64..5e3, 40),
        is_gpu in any::<bool>(),
        merged in 0.0f64..1.0,
    ) {
        prop_assume!(counts.iter().any(|c| *c > 0));
        let device = device(if is_gpu { "gpu" } else { "cpu" }, &speed);
        let mix = counted(&counts, 64 * groups);
        // What the machine takes: the launch, and the longest of what it cannot leave out.
        let used = (groups as f64 / 8.0).min(1.0);
        let rate = |key: &str| device.get(key).unwrap().value;
        let of = |class: Class| mix.classes.get(&class).copied().unwrap_or_default();
        let mut longest = rate(name::LAUNCH);
        for (precision, fma, plain, div, special) in [
            ("fp16", Class::HalfFma, Class::HalfArith, Class::HalfDiv, Class::HalfSpecial),
            ("fp32", Class::SingleFma, Class::SingleArith, Class::SingleDiv, Class::SingleSpecial),
            ("fp64", Class::DoubleFma, Class::DoubleArith, Class::DoubleDiv, Class::DoubleSpecial),
        ] {
            let (fused, add) = (rate(&format!("rate.{precision}.fma")), rate(&format!("rate.{precision}.add")));
            let single = [plain, div, special].iter().map(|c| of(*c).flop).sum::<u64>() as f64;
            let flop = of(fma).flop as f64 / fused + single / add.max(fused / 2.0);
            longest = longest.max(flop / used);
        }
        let specials = [(Class::HalfSpecial, name::SPECIAL), (Class::SingleSpecial, name::SPECIAL), (Class::DoubleSpecial, name::SPECIAL_DOUBLE)];
        let special: f64 = specials.iter().map(|(c, key)| (of(*c).warps.unwrap_or(0) * if is_gpu { 32 } else { 1 }) as f64 / rate(key)).sum();
        let special = if is_gpu { special } else { specials.iter().map(|(c, key)| of(*c).threads as f64 / rate(key)).sum() };
        longest = longest.max(special / used);
        let bytes: u64 = [Class::LoadLocal, Class::StoreLocal, Class::AtomicLocal].iter().map(|c| of(*c).bytes).sum();
        longest = longest.max(bytes as f64 / rate(name::LOCAL) / used);
        let near: u64 = [Class::LoadGlobal, Class::StoreGlobal, Class::AtomicGlobal, Class::LoadGeneric, Class::StoreGeneric]
            .iter().map(|c| of(*c).bytes.min(of(*c).warps.unwrap_or(u64::MAX).saturating_mul(128))).sum();
        longest = longest.max(near as f64 / rate(name::L1) / used);
        if groups > 8 {
            longest = longest.max(rate(name::GROUP) * groups as f64 / 8.0);
        }
        let took = match is_gpu {
            true => longest,
            false => rate(name::LAUNCH) + merged * longest,
        };
        for bound in bounds(&launched(mix, groups, took), &device).bounds.iter().filter(|b| b.certain) {
            prop_assert!(bound.ns.value <= took * (1.0 + 1e-9), "{bound:?} of {took}");
        }
    }

    /// Of a CPU whose longest group does more than a unit's part of the work, the others wait for it, and
    /// what a unit does takes as many times as long as it does more. Who does alike waits for nobody.
    #[test]
    fn the_longest_group_of_a_cpu_ends_last(share in 0.25f64..1.0, groups in 16u64..1024) {
        let device = device("cpu", &[100.0; 40]);
        let fused = Class::ALL.iter().filter(|c| **c != Class::Unknown).map(|c| 1000 * u64::from(*c == Class::SingleFma));
        let mix = counted(&fused.collect::<Vec<_>>(), 64 * groups);
        let fp32 = |k: &Kernel| bounds(k, &device).by_resource(Resource::Fp32).unwrap().ns.value;
        let even = launched(mix, groups, 1.0);
        let longest = Kernel { longest_group: Some(share * groups as f64), ..even.clone() };
        prop_assert!((fp32(&longest) / fp32(&even) / (8.0 * share) - 1.0).abs() < 1e-9);
        let limit = |k: &Kernel| {
            let took = Some(Figure::exact(1.1 * fp32(k) + 100.0, Evidence::Measured));
            let kernels = vec![Kernel { time_ns: took, total_ns: took.map(|t| 3.0 * t.value), ..k.clone() }];
            let on = OnDevice { name: "Made".to_owned(), kernels, ..OnDevice::default() };
            explain_device(&on, Some(&device), ALL).kernels[0].limit
        };
        prop_assert_eq!(limit(&longest), Some(Resource::UnevenGroups));
        prop_assert!(limit(&even) != Some(Resource::UnevenGroups));
    }
}
