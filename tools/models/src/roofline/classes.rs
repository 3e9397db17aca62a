//! Which ceiling each class of instruction has: the resource whose time it takes, and the measured
//! parameters that say how fast the device does it at best, and at worst. Owns the table; a class
//! that the mix counts and that has no ceiling here is an error of the table.

use super::Resource;
use crate::device::{Device, name};
use crate::figure::{Evidence, Figure};
use clscope_mix::{Class, Mix, Precision, Tally};

/// What of a class its ceiling is a rate of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Operations of work-items, whose lanes of a warp are issued together.
    Operations,
    /// Bytes.
    Bytes,
    /// Instructions of warps, or of work-items where there are no warps.
    Instructions,
}

/// The ceiling of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ceiling {
    /// Whose time it takes.
    pub resource: Resource,
    /// Parameters of the device, of which the first one that is known is the rate at best.
    pub best: &'static [&'static str],
    /// Parameters of which the slowest that is known is the rate at worst; empty where the rate
    /// does not depend on operands and addresses.
    pub worst: &'static [&'static str],
    /// What the rates count.
    pub counted: Counted,
}

/// The ceiling of a class; `None` of instructions that are not known.
pub const fn ceiling_of(class: Class) -> Option<Ceiling> {
    use Class as C;
    use Counted::{Bytes, Instructions, Operations};
    use Resource as R;
    let (resource, best, worst, counted): (_, &[&str], &[&str], _) = match class {
        C::IntArith => (R::Integer, &[name::INTEGER], &[], Operations),
        C::IntLogic | C::IntCompare => (R::Integer, &[name::LOGIC, name::INTEGER], &[], Operations),
        C::IntBits => (R::Integer, &[name::BITS, name::LOGIC, name::INTEGER], &[], Operations),
        C::LongLogic => (R::Integer, &[name::LONG, name::INTEGER], &[], Operations),
        C::IntMul => (R::IntegerMultiply, &[name::INT_MUL, name::INTEGER], &[], Operations),
        C::IntDiv => (R::IntegerDivision, &[name::INT_DIV], &[], Operations),
        C::LongArith => (R::Integer, &[name::LONG, name::INTEGER], &[], Operations),
        C::LongMul => (R::IntegerMultiply, &[name::LONG_MUL, name::INT_MUL], &[], Operations),
        C::LongDiv => (R::IntegerDivision, &[name::LONG_DIV, name::INT_DIV], &[], Operations),
        C::HalfArith | C::HalfFma => (R::Fp16, &["rate.fp16.add"], &[], Operations),
        C::HalfOther => (R::Fp16, &["rate.fp16.add", "rate.fp32.add"], &[], Operations),
        C::SingleArith | C::SingleFma | C::SingleOther | C::FloatCompare => {
            (R::Fp32, &["rate.fp32.add"], &[], Operations)
        }
        C::DoubleArith | C::DoubleFma | C::DoubleOther => {
            (R::Fp64, &["rate.fp64.add"], &[], Operations)
        }
        C::HalfDiv | C::SingleDiv => (R::Division, &["rate.fp32.div"], &[], Operations),
        C::DoubleDiv => (R::Division, &["rate.fp64.div"], &[], Operations),
        C::HalfSpecial | C::SingleSpecial => (R::Special, &[name::SPECIAL], &[], Operations),
        C::DoubleSpecial => (R::Special, &[name::SPECIAL_DOUBLE, name::SPECIAL], &[], Operations),
        C::LoadGlobal | C::StoreGlobal | C::LoadGeneric | C::StoreGeneric => {
            (R::Cache, &[name::L1, name::L2, name::DRAM], &[], Bytes)
        }
        C::LoadLocal | C::StoreLocal => (R::LocalMemory, &[name::LOCAL], &[], Bytes),
        C::LoadPrivate | C::StorePrivate => {
            (R::PrivateMemory, &[name::PRIVATE, name::L1], &[], Bytes)
        }
        C::LoadConstant => {
            (R::ConstantMemory, &[name::CONSTANT], &[name::CONSTANT_APART], Operations)
        }
        C::LoadImage | C::StoreImage => (R::Images, &[name::IMAGE], &[], Operations),
        C::AtomicGlobal => {
            const WORST: &[&str] = &[name::ATOMIC_WORD, name::ATOMIC_RESULT];
            (R::Atomics, &[name::ATOMIC], WORST, Operations)
        }
        C::AtomicLocal => {
            (R::Atomics, &[name::LOCAL_ATOMIC], &[name::LOCAL_ATOMIC_WORD], Operations)
        }
        C::Barrier => (R::Barriers, &[name::BARRIER], &[], Operations),
        C::ConvertSaturated => {
            (R::Conversion, &[name::CONVERT_SATURATED, name::CONVERT], &[], Operations)
        }
        C::ConvertHalf => (R::Conversion, &[name::CONVERT_HALF, name::CONVERT], &[], Operations),
        C::Convert => (R::Conversion, &[name::CONVERT], &[], Operations),
        C::Branch | C::Call | C::Fence | C::Exchange | C::Move | C::Matrix => {
            (R::Issue, &[name::ISSUE], &[], Instructions)
        }
        C::Unknown => return None,
    };
    Some(Ceiling { resource, best, worst, counted })
}

/// How many lanes of its warps a GPU's instruction takes, for each that does something.
pub(super) fn with_idle_lanes(tally: &Tally, device: &Device) -> f64 {
    let width = device.lanes.filter(|_| !device.is_cpu()).map(f64::from);
    let lanes = tally.warps.zip(width).map(|(warps, width)| warps as f64 * width);
    lanes.map_or(1.0, |lanes| (lanes / tally.threads.max(1) as f64).max(1.0))
}

/// What comparisons, minima and their kin of a type take beside its FLOP, ns.
pub(super) fn beside_flop(mix: &Mix, device: &Device, precision: Precision) -> Option<Figure> {
    let of = |class: &Class| {
        matches!(
            (precision, class),
            (Precision::Half, Class::HalfOther)
                | (Precision::Single, Class::SingleOther | Class::FloatCompare)
                | (Precision::Double, Class::DoubleOther)
        )
    };
    let own = mix.classes.iter().filter(|(c, _)| of(c));
    let count: f64 = own.map(|(_, t)| t.threads as f64 * with_idle_lanes(t, device)).sum();
    let rate = device.get(&name::rate(precision, "add")).ok()?;
    (count > 0.0).then(|| Figure::exact(count, Evidence::Counted).over(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A counted quantity without a ceiling is an error of the table.
    #[test]
    fn each_class_that_the_mix_counts_has_a_ceiling() {
        for class in Class::ALL.iter().filter(|c| **c != Class::Unknown) {
            let ceiling = ceiling_of(*class).unwrap_or_else(|| panic!("{} has none", class.name()));
            assert!(!ceiling.best.is_empty(), "{}", class.name());
            for key in ceiling.best.iter().chain(ceiling.worst) {
                assert!(name::ALL.contains(key) || key.starts_with("rate.fp"), "{key}");
            }
        }
        assert_eq!(ceiling_of(Class::Unknown), None);
    }
}
