//! Names of parameters. Bandwidths are in GB/s, rates in 10^9 operations per second, latencies and
//! times in nanoseconds, capacities in bytes; each is of the whole device unless it says otherwise.

/// Streaming from memory beyond the caches.
pub const DRAM: &str = "bandwidth.dram";
/// Repeated reads of what fits the last-level cache alone.
pub const L2: &str = "bandwidth.l2";
/// Repeated reads of what fits the first-level caches.
pub const L1: &str = "bandwidth.l1";
/// Local memory, one word to a bank.
pub const LOCAL: &str = "bandwidth.local";
/// Special functions (reciprocal square root).
pub const SPECIAL: &str = "rate.special";
/// 32-bit integer arithmetic.
pub const INTEGER: &str = "rate.int";
/// Bitwise operations and shifts to the right, half of each.
pub const LOGIC: &str = "rate.logic";
/// Bits of 32-bit integers counted.
pub const BITS: &str = "rate.int.bits";
/// Multiplication of 32-bit integers, with or without an addition.
pub const INT_MUL: &str = "rate.int.mul";
/// Division of 32-bit integers by numbers that the compiler does not know.
pub const INT_DIV: &str = "rate.int.div";
/// Addition of 64-bit integers.
pub const LONG: &str = "rate.int64";
/// Multiplication of 64-bit integers.
pub const LONG_MUL: &str = "rate.int64.mul";
/// Division of 64-bit integers.
pub const LONG_DIV: &str = "rate.int64.div";
/// Conversions between 32-bit integers and single precision.
pub const CONVERT: &str = "rate.convert";
/// Conversions from single precision that end at the limits of a type of 8 bits.
pub const CONVERT_SATURATED: &str = "rate.convert.saturated";
/// Conversions between single and half precision.
pub const CONVERT_HALF: &str = "rate.convert.half";
/// Multiplications with an addition on 32 bits, as loops of work-items have them: fused or not,
/// in vectors only where the compiler makes those of items. Instructions, and not FLOP.
pub const ITEMS_SINGLE: &str = "rate.fp32.items";
/// The same on 64 bits.
pub const ITEMS_DOUBLE: &str = "rate.fp64.items";
/// Square roots in double precision.
pub const SPECIAL_DOUBLE: &str = "rate.special.fp64";
/// Reads of constant memory, one word for all.
pub const CONSTANT: &str = "rate.constant";
/// Reads of constant memory, each item another word.
pub const CONSTANT_APART: &str = "rate.constant.divergent";
/// Private arrays that are indexed by what the compiler does not know.
pub const PRIVATE: &str = "bandwidth.private";
/// Reads of an image, neighbours side by side.
pub const IMAGE: &str = "rate.image";
/// Work-items that pass a barrier.
pub const BARRIER: &str = "rate.barrier";
/// Loads of words that are scattered over what the nearest cache holds.
pub const GATHER_NEAR: &str = "rate.gather.l1";
/// Loads of words that are scattered over what a CPU's core has caches of its own for.
pub const GATHER_CORE: &str = "rate.gather.core";
/// Loads of words that are scattered over what the last cache holds.
pub const GATHER_LAST: &str = "rate.gather.l2";
/// Loads of words that are scattered over memory.
pub const GATHER_MEMORY: &str = "rate.gather.dram";
/// Rates of loads of scattered words, and bytes of the sets that they are measured on, in order.
pub const GATHERS: [(&str, f64); 4] = [
    (GATHER_NEAR, (16u64 << 10) as f64),
    (GATHER_CORE, (512u64 << 10) as f64),
    (GATHER_LAST, (8u64 << 20) as f64),
    (GATHER_MEMORY, (1u64 << 30) as f64),
];
/// Bytes of the set that a CPU's [`LATENCY_RANDOM`] is measured on.
pub const RANDOM_BYTES: f64 = (64u64 << 20) as f64;
/// Stores to words that are scattered over what the last cache holds.
pub const SCATTER_LAST: &str = "rate.scatter.l2";
/// Stores to words that are scattered over memory.
pub const SCATTER_MEMORY: &str = "rate.scatter.dram";
/// Stores to what fits the last-level cache alone, side by side.
pub const STORE_LAST: &str = "bandwidth.l2.store";
/// Atomics on global memory, on words that are scattered over what the last cache holds.
pub const ATOMIC_APART: &str = "rate.atomic.global.scattered";
/// Atomics on global memory, each on any of 1024 words.
pub const ATOMIC_SOME: &str = "rate.atomic.global.some";
/// Atomics on global memory, each on any of 64 words.
pub const ATOMIC_FEW: &str = "rate.atomic.global.few";
/// Atomics on global memory, all on one word, whose result nobody wants.
pub const ATOMIC_WORD: &str = "rate.atomic.global.word";
/// Atomics on global memory, all on one word, whose result is used.
pub const ATOMIC_RESULT: &str = "rate.atomic.global.result";
/// Atomics on local memory, all of a group on one word.
pub const LOCAL_ATOMIC_WORD: &str = "rate.atomic.local.word";
/// Copying through memory: reads and writes side by side.
pub const DRAM_COPY: &str = "bandwidth.dram.copy";
/// Atomics on local memory, each of its own word.
pub const LOCAL_ATOMIC: &str = "rate.atomic.local";
/// Atomics on global memory that the last cache holds, each of its own word.
pub const ATOMIC: &str = "rate.atomic.global";
/// A dependent addition.
pub const LATENCY_ADD: &str = "latency.add";
/// A dependent special function.
pub const LATENCY_SPECIAL: &str = "latency.special";
/// A dependent access to local memory.
pub const LATENCY_LOCAL: &str = "latency.local";
/// A barrier of a group of one warp.
pub const LATENCY_BARRIER: &str = "latency.barrier";
/// A dependent access to memory, neighbours side by side.
pub const LATENCY_MEMORY: &str = "latency.memory";
/// A dependent access to memory, each far from the one before.
pub const LATENCY_RANDOM: &str = "latency.random";
/// A kernel without work, as the device's clock sees it.
pub const LAUNCH: &str = "launch.empty";
/// From one launch to the next of an in-order queue that is never empty.
pub const LAUNCH_PERIOD: &str = "launch.period";
/// A launch and the wait for it, as the host sees them.
pub const LAUNCH_WAIT: &str = "launch.wait";
/// One work-group after another on one compute unit, with nothing to do.
pub const GROUP: &str = "group.replacement";
/// Nanoseconds of one warp instruction on one compute unit that does nothing but issue.
pub const ISSUE: &str = "issue.slot";
/// Capacity of the first-level caches together.
pub const L1_BYTES: &str = "capacity.l1";
/// Capacity of the last-level cache.
pub const L2_BYTES: &str = "capacity.l2";
/// Bytes that the last cache holds of words that are touched at random.
pub const L2_KEPT: &str = "capacity.l2.random";
/// Work-groups of 32 items that were resident at once on one compute unit.
pub const RESIDENT: &str = "resident.items";
/// What NVIDIA's counter of memory bandwidth reads at the ceiling, %.
pub const DRAM_COUNTER: &str = "counter.dram-bandwidth";
/// Clock while the ceilings were measured, MHz.
pub const CLOCK: &str = "clock";

/// Every name but those of [`rate`].
pub const ALL: &[&str] = &[
    DRAM,
    L2,
    L1,
    LOCAL,
    SPECIAL,
    INTEGER,
    LOGIC,
    BITS,
    INT_MUL,
    INT_DIV,
    LONG,
    LONG_MUL,
    LONG_DIV,
    CONVERT,
    CONVERT_SATURATED,
    CONVERT_HALF,
    ITEMS_SINGLE,
    ITEMS_DOUBLE,
    SPECIAL_DOUBLE,
    CONSTANT,
    CONSTANT_APART,
    PRIVATE,
    IMAGE,
    BARRIER,
    GATHER_NEAR,
    GATHER_CORE,
    GATHER_LAST,
    GATHER_MEMORY,
    SCATTER_LAST,
    SCATTER_MEMORY,
    STORE_LAST,
    ATOMIC_APART,
    ATOMIC_SOME,
    ATOMIC_FEW,
    ATOMIC_WORD,
    ATOMIC_RESULT,
    LOCAL_ATOMIC_WORD,
    DRAM_COPY,
    LOCAL_ATOMIC,
    ATOMIC,
    LATENCY_ADD,
    LATENCY_SPECIAL,
    LATENCY_LOCAL,
    LATENCY_BARRIER,
    LATENCY_MEMORY,
    LATENCY_RANDOM,
    LAUNCH,
    LAUNCH_PERIOD,
    LAUNCH_WAIT,
    GROUP,
    ISSUE,
    L1_BYTES,
    L2_BYTES,
    L2_KEPT,
    RESIDENT,
    DRAM_COUNTER,
    CLOCK,
];

/// The rate of a type's operations: `fma`, `add` or `mul`; of a device that has no `fma`
/// `mad`, a multiplication and an addition.
pub fn rate(precision: clscope_mix::Precision, operation: &str) -> String {
    format!("rate.{}.{operation}", precision.name())
}
