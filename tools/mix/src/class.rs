//! Classes of instructions: what an instruction is for, whichever language it was written in. Owns
//! the names that traces and reports use; refuses to know any syntax.

macro_rules! classes {
    ($($(#[$doc:meta])* $variant:ident $name:literal $family:ident $precision:expr;)*) => {
        /// What an instruction is for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Class { $($(#[$doc])* $variant,)* }

        impl Class {
            /// Every class, in the order of reports.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Its name in traces and reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The coarser class of [004, 4.2] that it belongs to.
            pub const fn family(self) -> Family {
                match self { $(Self::$variant => Family::$family,)* }
            }

            /// The type whose operations it counts, for floating-point arithmetic.
            pub const fn precision(self) -> Option<Precision> {
                match self { $(Self::$variant => $precision,)* }
            }
        }
    };
}

/// A floating-point type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Precision {
    /// 16 bits, of either kind.
    Half,
    /// 32 bits.
    Single,
    /// 64 bits.
    Double,
}

impl Precision {
    /// Every type.
    pub const ALL: [Self; 3] = [Self::Half, Self::Single, Self::Double];

    /// As reports name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Half => "fp16",
            Self::Single => "fp32",
            Self::Double => "fp64",
        }
    }
}

/// The fifteen classes that the energy model of [004, table 6.1] distinguishes, and one for what is
/// not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Addition, multiplication and their kin on integers.
    IntegerArithmetic,
    /// Division and remainder of integers.
    IntegerDivision,
    /// Bitwise operations and shifts.
    IntegerLogic,
    /// Comparison of integers, and selection.
    IntegerComparison,
    /// Arithmetic on 16 and 32 bits.
    FloatArithmetic,
    /// Division and reciprocal on 16 and 32 bits.
    FloatDivision,
    /// Comparison of floating-point numbers of any size.
    FloatComparison,
    /// Arithmetic on 64 bits.
    DoubleArithmetic,
    /// Division and reciprocal on 64 bits.
    DoubleDivision,
    /// Roots, trigonometry, exponentials.
    Special,
    /// Local and constant memory.
    OnChipMemory,
    /// Global and private memory, images.
    OffChipMemory,
    /// Branches, calls, returns.
    ControlFlow,
    /// Barriers, fences, exchange within a sub-group, atomics.
    Parallelism,
    /// Conversions and moves.
    Other,
    /// Instructions that this version does not know.
    Unknown,
}

use Precision::{Double, Half, Single};

classes! {
    /// Addition, subtraction, minimum, maximum, absolute value, negation of integers.
    IntArith "int-arith" IntegerArithmetic None;
    /// Multiplication of integers, with or without addition.
    IntMul "int-mul" IntegerArithmetic None;
    /// Division and remainder of integers.
    IntDiv "int-div" IntegerDivision None;
    /// The same as `int-arith` on 64 bits, addresses among them.
    LongArith "int64-arith" IntegerArithmetic None;
    /// Multiplication of 64-bit integers, with or without addition.
    LongMul "int64-mul" IntegerArithmetic None;
    /// Division and remainder of 64-bit integers.
    LongDiv "int64-div" IntegerDivision None;
    /// Bitwise operations, shifts, permutation of bytes; a shift of 64 bits to the left, too, which
    /// makes addresses.
    IntLogic "int-logic" IntegerLogic None;
    /// Bits counted, found or reversed.
    IntBits "int-bits" IntegerLogic None;
    /// Bitwise operations and shifts to the right on 64 bits.
    LongLogic "int64-logic" IntegerLogic None;
    /// Comparison of integers, selection by a predicate.
    IntCompare "int-compare" IntegerComparison None;
    /// Addition and multiplication on 16 bits.
    HalfArith "fp16-arith" FloatArithmetic Some(Half);
    /// Fused multiply-add on 16 bits.
    HalfFma "fp16-fma" FloatArithmetic Some(Half);
    /// Minimum, maximum, absolute value, negation, rounding on 16 bits: no FLOP.
    HalfOther "fp16-other" FloatArithmetic Some(Half);
    /// Division and reciprocal on 16 bits.
    HalfDiv "fp16-div" FloatDivision Some(Half);
    /// Roots, trigonometry, exponentials on 16 bits.
    HalfSpecial "fp16-special" Special Some(Half);
    /// Addition and multiplication on 32 bits.
    SingleArith "fp32-arith" FloatArithmetic Some(Single);
    /// Fused multiply-add on 32 bits.
    SingleFma "fp32-fma" FloatArithmetic Some(Single);
    /// Minimum, maximum, absolute value, negation, rounding on 32 bits: no FLOP.
    SingleOther "fp32-other" FloatArithmetic Some(Single);
    /// Division and reciprocal on 32 bits.
    SingleDiv "fp32-div" FloatDivision Some(Single);
    /// Roots, trigonometry, exponentials on 32 bits.
    SingleSpecial "fp32-special" Special Some(Single);
    /// Addition and multiplication on 64 bits.
    DoubleArith "fp64-arith" DoubleArithmetic Some(Double);
    /// Fused multiply-add on 64 bits.
    DoubleFma "fp64-fma" DoubleArithmetic Some(Double);
    /// Minimum, maximum, absolute value, negation, rounding on 64 bits: no FLOP.
    DoubleOther "fp64-other" DoubleArithmetic Some(Double);
    /// Division and reciprocal on 64 bits.
    DoubleDiv "fp64-div" DoubleDivision Some(Double);
    /// Roots, trigonometry, exponentials on 64 bits.
    DoubleSpecial "fp64-special" Special Some(Double);
    /// Comparison of floating-point numbers.
    FloatCompare "fp-compare" FloatComparison None;
    /// Products of matrices on units of their own; their FLOP are not counted.
    Matrix "matrix" FloatArithmetic None;
    /// Reading global memory.
    LoadGlobal "load-global" OffChipMemory None;
    /// Writing global memory.
    StoreGlobal "store-global" OffChipMemory None;
    /// Reading local memory (OpenCL's; `shared` in PTX).
    LoadLocal "load-local" OnChipMemory None;
    /// Writing local memory.
    StoreLocal "store-local" OnChipMemory None;
    /// Reading private memory that is not in registers: arrays and spilled registers.
    LoadPrivate "load-private" OffChipMemory None;
    /// Writing it.
    StorePrivate "store-private" OffChipMemory None;
    /// Reading constant memory.
    LoadConstant "load-constant" OnChipMemory None;
    /// Reading through a pointer whose address space is known at run time only.
    LoadGeneric "load-generic" OffChipMemory None;
    /// Writing through such a pointer.
    StoreGeneric "store-generic" OffChipMemory None;
    /// Reading an image.
    LoadImage "load-image" OffChipMemory None;
    /// Writing an image.
    StoreImage "store-image" OffChipMemory None;
    /// Atomics on global memory.
    AtomicGlobal "atomic-global" Parallelism None;
    /// Atomics on local memory.
    AtomicLocal "atomic-local" Parallelism None;
    /// Branches.
    Branch "branch" ControlFlow None;
    /// Calls and returns.
    Call "call" ControlFlow None;
    /// Barriers of a work-group.
    Barrier "barrier" Parallelism None;
    /// Fences.
    Fence "fence" Parallelism None;
    /// Exchange, votes and reductions within a sub-group.
    Exchange "exchange" Parallelism None;
    /// Conversions from, to or between floating-point types.
    Convert "convert" Other None;
    /// Conversions that end at the limits of their type. Of PTX they are `convert`.
    ConvertSaturated "convert-sat" Other None;
    /// Conversions from and to 16-bit floating point. Of PTX they are `convert`.
    ConvertHalf "convert-half" Other None;
    /// Moves, addresses, integers made wider or narrower, what has no effect of its own.
    Move "move" Other None;
    /// Instructions that this version does not know.
    Unknown "unknown" Unknown None;
}

impl Class {
    /// The class of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|class| class.name() == name)
    }

    /// The class of the same instruction on 64-bit integers.
    pub(crate) const fn long(self) -> Self {
        match self {
            Self::IntArith => Self::LongArith,
            Self::IntMul => Self::LongMul,
            Self::IntDiv => Self::LongDiv,
            Self::IntLogic => Self::LongLogic,
            other => other,
        }
    }

    /// Whether it reads or writes memory.
    pub const fn memory(self) -> Option<Space> {
        use Class as C;
        Some(match self {
            C::LoadGlobal | C::StoreGlobal | C::AtomicGlobal => Space::Global,
            C::LoadLocal | C::StoreLocal | C::AtomicLocal => Space::Local,
            C::LoadPrivate | C::StorePrivate => Space::Private,
            C::LoadConstant => Space::Constant,
            C::LoadGeneric | C::StoreGeneric => Space::Generic,
            C::LoadImage | C::StoreImage => Space::Image,
            _ => return None,
        })
    }

    /// Whether it only writes memory: no atomic does.
    pub const fn stores(self) -> bool {
        use Class as C;
        matches!(
            self,
            C::StoreGlobal | C::StoreLocal | C::StorePrivate | C::StoreGeneric | C::StoreImage
        )
    }

    /// Whether what others load from global memory may be another thing behind it.
    pub const fn changes_global(self) -> bool {
        matches!(self, Self::StoreGlobal | Self::StoreGeneric | Self::AtomicGlobal)
    }

    /// Arithmetic of a type: plain, fused, without FLOP, division, special.
    pub(crate) const fn float(of: Precision, kind: Float) -> Self {
        use Class as C;
        match (of, kind) {
            (Half, Float::Plain) => C::HalfArith,
            (Half, Float::Fused) => C::HalfFma,
            (Half, Float::Other) => C::HalfOther,
            (Half, Float::Division) => C::HalfDiv,
            (Half, Float::Special) => C::HalfSpecial,
            (Single, Float::Plain) => C::SingleArith,
            (Single, Float::Fused) => C::SingleFma,
            (Single, Float::Other) => C::SingleOther,
            (Single, Float::Division) => C::SingleDiv,
            (Single, Float::Special) => C::SingleSpecial,
            (Double, Float::Plain) => C::DoubleArith,
            (Double, Float::Fused) => C::DoubleFma,
            (Double, Float::Other) => C::DoubleOther,
            (Double, Float::Division) => C::DoubleDiv,
            (Double, Float::Special) => C::DoubleSpecial,
        }
    }
}

/// A kind of floating-point instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Float {
    Plain,
    Fused,
    Other,
    Division,
    Special,
}

impl Float {
    /// FLOP of one: additions, multiplications, divisions and special functions count one, fused
    /// multiply-adds two, all else none.
    pub(crate) const fn flop(self) -> u32 {
        match self {
            Self::Plain | Self::Division | Self::Special => 1,
            Self::Fused => 2,
            Self::Other => 0,
        }
    }
}

/// An address space, in OpenCL's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Shared by all work-items.
    Global,
    /// Shared by a work-group.
    Local,
    /// A work-item's own, in memory.
    Private,
    /// Constant memory and kernel arguments.
    Constant,
    /// Known at run time only.
    Generic,
    /// Images.
    Image,
}

impl Space {
    /// As reports name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Local => "local",
            Self::Private => "private",
            Self::Constant => "constant",
            Self::Generic => "generic",
            Self::Image => "image",
        }
    }
}

/// How an address follows from what was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Follows {
    /// Comparisons choose among addresses, as in a binary search or a tree: each step may lead into twice
    /// as many places as the one before.
    Chosen,
    /// What was loaded is part of it.
    Computed,
}

/// One instruction: its class, and what one work-item does by it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instruction {
    /// What it is for.
    pub class: Class,
    /// Floating-point operations.
    pub flop: u32,
    /// Bytes read or written in memory.
    pub bytes: u32,
    /// Instructions of the device that it becomes, as far as one of the language stands for many; 0 of
    /// one that the device makes a part of another one.
    pub steps: u32,
    /// It loads what stores in front of it may change, and stays behind them.
    pub pinned: bool,
    /// It runs under a predicate: not every work-item that reaches it does what it says.
    pub predicated: bool,
    /// Of accesses to memory the bytes that those of all work-items can touch, by how the address is
    /// computed; `u64::MAX`: anywhere. `None` of what has no address that is understood.
    pub reach: Option<u64>,
    /// How its address follows from what was loaded: items of a launch, and turns of a loop, access anywhere.
    /// Of several accesses of a block to one element the first. Of PTX known of images alone.
    pub gathers: Option<Follows>,
    /// The argument of a kernel whose memory it accesses, by its index. Not known of PTX.
    pub argument: Option<u32>,
    /// Registers or values that it defines, numbered within the function.
    pub writes: Vec<u32>,
    /// Registers or values that it needs.
    pub reads: Vec<u32>,
}

impl Instruction {
    /// One of which only the class is known.
    pub const fn new(class: Class) -> Self {
        Self {
            class,
            flop: 0,
            bytes: 0,
            steps: 1,
            pinned: false,
            predicated: false,
            reach: None,
            gathers: None,
            argument: None,
            writes: Vec::new(),
            reads: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_are_found_again() {
        let names: BTreeSet<_> = Class::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(names.len(), Class::ALL.len());
        for class in Class::ALL {
            assert_eq!(Class::of_name(class.name()), Some(*class));
        }
        assert_eq!(Class::of_name("int"), None);
    }

    #[test]
    fn flop_are_of_a_type() {
        for of in Precision::ALL {
            for kind in [Float::Plain, Float::Fused, Float::Other, Float::Division, Float::Special]
            {
                assert_eq!(Class::float(of, kind).precision(), Some(of));
            }
        }
        assert_eq!(Class::SingleFma.family(), Family::FloatArithmetic);
        assert_eq!(Class::IntMul.precision(), None);
    }
}
