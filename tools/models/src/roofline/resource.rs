//! What can be the limit of a launch: names, and the condition under which a bound holds. Owns the
//! words; refuses to compute.

use clscope_mix::Precision;
use serde::Serialize;

/// What can be the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// What a launch costs without any work.
    Launch,
    /// Giving compute units one group after another.
    Groups,
    /// Compute units that have no group to work on.
    FewGroups,
    /// Compute units that wait for groups which take longer than others.
    UnevenGroups,
    /// Compute units that have no work, for whatever reason.
    IdleUnits,
    /// Issuing instructions.
    Issue,
    /// Arithmetic and logic on integers.
    Integer,
    /// Multiplication of integers.
    IntegerMultiply,
    /// Division and remainder of integers.
    IntegerDivision,
    /// Atomics.
    Atomics,
    /// Arithmetic on 16 bits.
    Fp16,
    /// Arithmetic on 32 bits.
    Fp32,
    /// Arithmetic on 64 bits.
    Fp64,
    /// Division of floating-point numbers.
    Division,
    /// Special functions.
    Special,
    /// Conversions between types.
    Conversion,
    /// Barriers.
    Barriers,
    /// Local memory.
    LocalMemory,
    /// Private memory that is not in registers.
    PrivateMemory,
    /// Constant memory.
    ConstantMemory,
    /// Images.
    Images,
    /// The nearest cache, by bytes that were asked for.
    Cache,
    /// The last cache, by what the nearest one is likely to pass on.
    LastCache,
    /// Memory, by bytes that counters saw.
    Memory,
    /// Memory, if caches served nothing.
    MemoryIfMissed,
    /// Waiting for one instruction after another with the warps that fit.
    Latency,
}

impl Resource {
    /// Whether it is a unit that instructions are issued to: each of what it does takes a slot of
    /// [`Resource::Issue`], too.
    pub const fn is_issued_to(self) -> bool {
        matches!(
            self,
            Self::Fp16
                | Self::Fp32
                | Self::Fp64
                | Self::Integer
                | Self::IntegerMultiply
                | Self::IntegerDivision
                | Self::Division
                | Self::Special
                | Self::Conversion
                | Self::Barriers
        )
    }
}

impl Resource {
    /// Whether each compute unit has its own: what more units do side by side.
    pub const fn is_of_a_unit(self) -> bool {
        let own = matches!(
            self,
            Self::Issue
                | Self::LocalMemory
                | Self::PrivateMemory
                | Self::ConstantMemory
                | Self::Images
                | Self::Cache
        );
        own || self.is_issued_to()
    }

    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Launch => "launching",
            Self::Groups => "starting groups",
            Self::FewGroups => "too few groups",
            Self::UnevenGroups => "uneven groups",
            Self::IdleUnits => "compute units without work",
            Self::Issue => "instruction issue",
            Self::Integer => "integer arithmetic",
            Self::IntegerMultiply => "integer multiplication",
            Self::IntegerDivision => "integer division",
            Self::Atomics => "atomics",
            Self::Fp16 => "FP16 arithmetic",
            Self::Fp32 => "FP32 arithmetic",
            Self::Fp64 => "FP64 arithmetic",
            Self::Division => "floating-point division",
            Self::Special => "special functions",
            Self::Conversion => "conversions",
            Self::Barriers => "barriers",
            Self::LocalMemory => "local memory",
            Self::PrivateMemory => "private memory",
            Self::ConstantMemory => "constant memory",
            Self::Images => "images",
            Self::Cache => "the nearest cache",
            Self::LastCache => "the last cache",
            Self::Memory => "memory",
            Self::MemoryIfMissed => "memory if caches served nothing",
            Self::Latency => "waiting for results",
        }
    }

    /// The condition under which its bound holds, in words, where the name does not say it.
    pub const fn condition(self) -> Option<&'static str> {
        match self {
            Self::Integer | Self::IntegerMultiply | Self::Issue | Self::Conversion => {
                Some("if the compiler merged nothing")
            }
            Self::LastCache => Some("if the nearest cache serves what neighbours share"),
            Self::Atomics => Some("if each has a word of its own"),
            Self::ConstantMemory => Some("if all items of a group read one word"),
            _ => None,
        }
    }

    /// The condition under which it needs longest.
    pub const fn worst(self) -> Option<&'static str> {
        match self {
            Self::Atomics => Some("if all use one word"),
            Self::ConstantMemory => Some("if each item reads another line"),
            Self::Barriers => Some("if each item keeps much across them"),
            Self::PrivateMemory => Some("if caches keep little of it"),
            Self::Cache | Self::LastCache => Some("if each access fetches a piece of its own"),
            _ => None,
        }
    }

    pub(super) const fn of(precision: Precision) -> Self {
        match precision {
            Precision::Half => Self::Fp16,
            Precision::Single => Self::Fp32,
            Precision::Double => Self::Fp64,
        }
    }
}
