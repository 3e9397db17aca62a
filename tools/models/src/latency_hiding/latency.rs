//! Latency hiding after Volkov 2016 (Understanding Latency Hiding on GPUs, chapters 3, 4 and 6):
//! how many warps a compute unit holds, how fast a few of them can be, and what contention adds.
//! Throughputs are in instructions per cycle and compute unit, latencies in cycles, n in warps of a
//! compute unit.

use crate::device::Device;
use crate::kernel::{Kernel, Resources};
use clscope_mix::{Block, Class, Instruction};
use std::collections::HashMap;

/// Alternating accesses to memory and dependent additions, `alpha` of them for each access
/// (section 4.1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// Latency of an access.
    pub memory_latency: f64,
    /// Latency of an addition.
    pub add_latency: f64,
    /// Most accesses.
    pub memory_throughput: f64,
    /// Most additions.
    pub add_throughput: f64,
    /// Most instructions.
    pub issue_throughput: f64,
}

/// Latency of memory under load (section 6.4): `a + b x / (c - x)` at throughput `x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Contention {
    /// Latency without load.
    pub a: f64,
    /// How fast it grows.
    pub b: f64,
    /// The throughput that is never reached.
    pub c: f64,
}

impl Contention {
    /// The coefficients that fit (throughput, latency) best, by least squares of relative errors
    /// for each of a walk of `c` beyond the largest throughput (section 6.4 takes such a walk).
    /// `None` with fewer than three points, or where latency does not grow with throughput.
    pub fn fit(points: &[(f64, f64)]) -> Option<Self> {
        let usable = |&&(x, y): &&(f64, f64)| x > 0.0 && y > 0.0 && x.is_finite() && y.is_finite();
        let points: Vec<(f64, f64)> = points.iter().filter(usable).copied().collect();
        let most = points.iter().map(|p| p.0).fold(0.0, f64::max);
        if points.len() < 3 || most <= 0.0 {
            return None;
        }
        let at = |c: f64| {
            // y = a + b z, each point weighed by 1 / y^2.
            let mut sums = [0.0; 5];
            for &(x, y) in &points {
                let (z, w) = (x / (c - x), 1.0 / (y * y));
                for (sum, term) in sums.iter_mut().zip([w, w * z, w * z * z, w * y, w * z * y]) {
                    *sum += term;
                }
            }
            let [w, z, zz, y, zy] = sums;
            let spread = w * zz - z * z;
            let b = (w * zy - z * y) / spread;
            let a = (y - b * z) / w;
            let miss = |&(x, y): &(f64, f64)| ((a + b * x / (c - x)) / y - 1.0).powi(2);
            let error: f64 = points.iter().map(miss).sum();
            (a > 0.0 && b > 0.0 && error.is_finite()).then_some((error, Self { a, b, c }))
        };
        // From just beyond the largest throughput to four times as much.
        let walk =
            (0..=WALK).map(|k| most * (1.0 + 1e-3 * 3000f64.powf(f64::from(k) / f64::from(WALK))));
        walk.filter_map(at).min_by(|a, b| a.0.total_cmp(&b.0)).map(|found| found.1)
    }
}

/// Steps of the walk of [`Contention::fit`].
const WALK: u32 = 2000;

impl Workload {
    /// Latency of one turn of a warp that runs alone.
    pub fn latency(&self, alpha: f64) -> f64 {
        self.memory_latency + alpha * self.add_latency
    }

    /// The most accesses that throughputs allow.
    pub fn throughput_bound(&self, alpha: f64) -> f64 {
        let add = if alpha > 0.0 { self.add_throughput / alpha } else { f64::INFINITY };
        self.memory_throughput.min(add).min(self.issue_throughput / (alpha + 1.0))
    }

    /// Accesses per cycle with `n` warps: `min(n / latency, throughputs)`.
    pub fn throughput(&self, n: f64, alpha: f64) -> f64 {
        (n / self.latency(alpha)).min(self.throughput_bound(alpha))
    }

    /// The same where latency grows with load (section 6.5), by bisection: the throughput `x` at
    /// which `n` warps of the latency at `x` give `x`.
    pub fn contended(&self, n: f64, alpha: f64, of: Contention) -> f64 {
        let most = self.throughput_bound(alpha);
        let latency = |x: f64| of.a + of.b * x / (of.c - x) + alpha * self.add_latency;
        let (mut low, mut high) = (0.0, of.c);
        for _ in 0..200 {
            let x = f64::midpoint(low, high);
            // What n warps give falls as x grows.
            if n / latency(x) > x { low = x } else { high = x }
        }
        low.min(most)
    }

    /// Warps that are needed for the throughput bound.
    pub fn needed(&self, alpha: f64) -> f64 {
        self.latency(alpha) * self.throughput_bound(alpha)
    }

    /// The mix that needs most warps, and how many: where the bound of memory meets the next one.
    pub fn cusp(&self) -> (f64, f64) {
        let by_add = self.add_throughput / self.memory_throughput;
        let by_issue = self.issue_throughput / self.memory_throughput - 1.0;
        let alpha = by_add.min(by_issue).max(0.0);
        (alpha, self.needed(alpha))
    }
}

/// The resource that a warp keeps busy longest (section 3.6), among (resource, cycles of exclusive
/// use): warps per cycle are at most 1 over it.
pub fn tightest<R: Copy>(of: &[(R, f64)]) -> Option<(R, f64)> {
    of.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Time of one pass through a block by a warp that runs alone, in steady state (section 3.7): an
/// instruction is issued when what it reads is ready, which is `latency` of its class after the
/// instruction that wrote it, and one every `issue`. What is read here is an intermediate language,
/// whose compiler moves loads up to where their addresses are known: within a block the order of
/// the text binds nothing but barriers, and loads behind stores that may change what they load
/// (NVIDIA, CUDA C++ Programming Guide, `__restrict__`). The block is gone through twice, so that what a loop
/// carries round is waited for.
pub fn pass(block: &Block, issue: f64, latency: impl Fn(Class) -> f64) -> f64 {
    let mut ready: HashMap<u32, f64> = HashMap::new();
    // When the last store to global memory was issued.
    let mut stored = 0.0f64;
    let (mut now, mut first) = (0.0f64, 0.0);
    for round in 0..2 {
        if round == 1 {
            first = now;
        }
        // Since the block or the last barrier began: when that was, and how many were issued.
        let (mut open, mut issued) = (now, 0.0);
        for instruction in &block.instructions {
            let takes = latency(instruction.class);
            if instruction.class == Class::Barrier {
                (open, issued) = (now + takes, 0.0);
                now = open;
                continue;
            }
            let inputs = instruction.reads.iter().filter_map(|r| ready.get(r));
            let behind = if instruction.pinned { open.max(stored) } else { open };
            let begin = inputs.copied().fold(behind, f64::max);
            if instruction.class.changes_global() {
                stored = stored.max(begin);
            }
            for register in &instruction.writes {
                ready.insert(*register, begin + takes);
            }
            issued += 1.0;
            now = now.max(begin + issue).max(open + issued * issue);
        }
    }
    now - first
}

/// Time of one turn of a loop on a core that begins each instruction as soon as what it reads is
/// there, whatever the order of the text: what the turn before leaves is waited for, and nothing
/// else; 0 of a block that takes over nothing from the turn before. And the time of a turn by itself.
pub fn turn(block: &Block, latency: impl Fn(&Instruction) -> f64) -> (f64, f64) {
    const ROUNDS: [usize; 2] = [4, 8];
    let mut ready: HashMap<u32, f64> = HashMap::new();
    let mut ends = [0.0f64; ROUNDS[1]];
    for end in &mut ends {
        for instruction in &block.instructions {
            let inputs = instruction.reads.iter().filter_map(|r| ready.get(r));
            let done = inputs.copied().fold(0.0, f64::max) + latency(instruction);
            for register in &instruction.writes {
                ready.insert(*register, done);
            }
            *end = end.max(done);
        }
    }
    let each = (ends[ROUNDS[1] - 1] - ends[ROUNDS[0] - 1]) / (ROUNDS[1] - ROUNDS[0]) as f64;
    (each, ends[0])
}

/// What a compute unit holds at once, of NVIDIA's devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Warps.
    pub warps: u64,
    /// Work-groups.
    pub groups: u64,
    /// 32-bit registers.
    pub registers: u64,
    /// Bytes of local memory.
    pub local_bytes: u64,
    /// Bytes of local memory that each group takes beside its own.
    pub reserved_bytes: u64,
}

/// Limits of a compute capability: NVIDIA, CUDA C++ Programming Guide, "Technical specifications
/// per compute capability". `None` for those that the table does not have.
pub fn limits(capability: (u32, u32)) -> Option<Limits> {
    let of = |warps, groups, kib: u64, reserved_bytes| {
        Some(Limits { warps, groups, registers: 65_536, local_bytes: kib << 10, reserved_bytes })
    };
    match capability {
        (5, 0) => of(64, 32, 64, 0),
        (5, 2) | (6, 1) => of(64, 32, 96, 0),
        (6, 0) => of(64, 32, 64, 0),
        (7, 0) => of(64, 32, 96, 0),
        (7, 5) => of(32, 16, 64, 0),
        (8, 0) => of(64, 32, 164, 1024),
        (8, 6) => of(48, 16, 100, 1024),
        (8, 7) => of(48, 16, 164, 1024),
        (8, 9) => of(48, 24, 100, 1024),
        (9, 0) | (10, 0) | (10, 3) => of(64, 32, 228, 1024),
        (12, 0 | 1) => of(48, 24, 100, 1024),
        _ => None,
    }
}

/// Bytes of a compute unit's memory from which local memory takes its part of a compute capability,
/// and the parts that can be set, KiB: the rest is the first-level cache. NVIDIA, CUDA C++
/// Programming Guide, "Shared memory" of each compute capability. `None` where the two are apart.
const fn shared_with_cache(capability: (u32, u32)) -> Option<(u64, &'static [u64])> {
    const LARGE: &[u64] = &[0, 8, 16, 32, 64, 100, 132, 164, 196, 228];
    match capability {
        (7, 0) => Some((128, &[0, 8, 16, 32, 64, 96])),
        (7, 5) => Some((96, &[32, 64])),
        (8, 0 | 7) => Some((192, &[0, 8, 16, 32, 64, 100, 132, 164])),
        (8, 6 | 9) | (12, 0 | 1) => Some((128, &[0, 8, 16, 32, 64, 100])),
        (9, 0) | (10, 0 | 3) => Some((256, LARGE)),
        _ => None,
    }
}

/// Bytes of a unit's first-level cache beside so many groups, each with so much local memory: the
/// smallest part is taken to be set that holds them. `None` where the two do not share a memory, or
/// the device's limits are not known.
pub fn first_cache(device: &Device, groups: u64, local_bytes: u64) -> Option<u64> {
    let (limits, _) = limits_of(device)?;
    let (whole, parts) = shared_with_cache(device.capability?)?;
    let needed = groups * (local_bytes + limits.reserved_bytes);
    let set = parts.iter().find(|part| **part << 10 >= needed).or(parts.last())?;
    Some((whole - set) << 10)
}

/// What keeps more groups from being resident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limiter {
    /// Warps (work-items) of a compute unit.
    Warps,
    /// Groups of a compute unit.
    Groups,
    /// Registers.
    Registers,
    /// Local memory.
    LocalMemory,
}

impl Limiter {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Warps => "work-items",
            Self::Groups => "work-groups",
            Self::Registers => "registers",
            Self::LocalMemory => "local memory",
        }
    }
}

/// How much of a compute unit a kernel can fill.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Occupancy {
    /// Groups resident at once.
    pub groups: u64,
    /// Warps resident at once.
    pub warps: u64,
    /// Of the most that a unit holds.
    pub share: f64,
    /// What limits it.
    pub limiter: Limiter,
    /// Registers are not known: there may be fewer.
    pub at_most: bool,
}

/// Limits of a device's compute units, and the lanes of its warps, where both are known.
pub fn limits_of(device: &Device) -> Option<(Limits, u64)> {
    limits(device.capability?).zip(device.lanes.map(u64::from))
}

/// Occupancy of a kernel's own groups on a device. `None` where the size of groups or the device's
/// limits are not known, or a group does not fit at all.
pub fn occupancy_on(device: &Device, kernel: &Kernel) -> Option<Occupancy> {
    let (limits, lanes) = limits_of(device)?;
    occupancy(limits, lanes, kernel.local?, kernel.resources)
}

/// Occupancy of a kernel in groups of `local` items. `None` where a group does not fit at all.
pub fn occupancy(of: Limits, lanes: u64, local: u64, resources: Resources) -> Option<Occupancy> {
    let warps_of_group = local.div_ceil(lanes.max(1)).max(1);
    // Registers are set aside for warps in units of 256 (CUDA occupancy calculator).
    let by_registers = resources.registers.filter(|r| *r > 0).map(|r| {
        let of_warp = (r * lanes).div_ceil(256) * 256;
        of.registers / (of_warp * warps_of_group)
    });
    let by_local =
        resources.local_bytes.filter(|b| *b > 0).map(|b| of.local_bytes / (b + of.reserved_bytes));
    let all = [
        (Limiter::Warps, Some(of.warps / warps_of_group)),
        (Limiter::Groups, Some(of.groups)),
        (Limiter::Registers, by_registers),
        (Limiter::LocalMemory, by_local),
    ];
    let (limiter, groups) =
        all.into_iter().filter_map(|(l, n)| Some((l, n?))).min_by_key(|(_, n)| *n)?;
    (groups > 0).then(|| Occupancy {
        groups,
        warps: groups * warps_of_group,
        share: (groups * warps_of_group) as f64 / of.warps as f64,
        limiter,
        at_most: resources.registers.is_none(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::{FERMI, G80, GT200, KEPLER, MAXWELL, near};
    use proptest::prelude::*;

    #[test]
    fn warps_needed_as_in_chapter_4() {
        // Section 4.3: 24 warps for arithmetic, 30 for memory on Maxwell.
        assert!(near(MAXWELL.add_latency * MAXWELL.add_throughput, 24.0, 0.01));
        assert!(near(MAXWELL.needed(0.0), 30.0, 0.05));
        // The cusp: both needs at once.
        for (gpu, alpha, warps) in [
            (G80, 9.25, 16.9),
            (GT200, 9.0, 18.0),
            (FERMI, 15.75, 47.6),
            (KEPLER, 29.0, 74.9),
            (MAXWELL, 48.25, 53.4),
        ] {
            let (at, needed) = gpu.cusp();
            assert!(near(at, alpha, 0.15) && near(needed, warps, 0.25), "{at} {needed}");
        }
        // Table 4.2 for Kepler at alpha 32 and 64 warps: 111.3 additions a cycle.
        assert!(near(32.0 * 32.0 * KEPLER.throughput(64.0, 32.0), 111.3, 0.1));
    }

    #[test]
    fn the_worksheet_of_table_3_4() {
        let of =
            [("cores", 25.0), ("sfu", 5.0), ("shared", 30.0), ("memory", 184.5), ("issue", 36.25)];
        let (resource, cycles) = tightest(&of).unwrap();
        assert_eq!(resource, "memory");
        assert!(near(1.0 / cycles, 0.00542, 0.000_005));
    }

    /// Listing 3.1 (Kepler): load, local load, addition, root, each dependent on the one before:
    /// the next turn's load is issued 301 + 24 + 9 + 9 cycles later.
    #[test]
    fn dependent_instructions_wait_and_independent_ones_do_not() {
        let of = |class, writes: &[u32], reads: &[u32]| clscope_mix::Instruction {
            writes: writes.to_vec(),
            reads: reads.to_vec(),
            ..clscope_mix::Instruction::new(class)
        };
        let latency = |class| match class {
            Class::LoadGlobal => 301.0,
            Class::LoadLocal => 24.0,
            _ => 9.0,
        };
        let chain = Block {
            instructions: vec![
                of(Class::LoadGlobal, &[1], &[1]),
                of(Class::LoadLocal, &[1], &[1]),
                of(Class::SingleArith, &[1], &[1, 2]),
                of(Class::SingleSpecial, &[1], &[1]),
            ],
        };
        assert!(near(pass(&chain, 1.0, latency), 343.0, 1e-9));
        let free = Block {
            instructions: (0..6).map(|r| of(Class::SingleArith, &[r], &[r + 10])).collect(),
        };
        assert!(near(pass(&free, 1.0, latency), 6.0, 1e-9));
    }

    /// A load that a store may change comes behind it: a warp that runs alone waits for each.
    #[test]
    fn loads_stay_behind_stores_that_may_change_them() {
        let of = |class, pinned, writes: &[u32], reads: &[u32]| clscope_mix::Instruction {
            pinned,
            writes: writes.to_vec(),
            reads: reads.to_vec(),
            ..clscope_mix::Instruction::new(class)
        };
        let takes = |pinned| {
            let instructions = (0..4).flat_map(|k| {
                [
                    of(Class::LoadGlobal, pinned, &[k], &[100]),
                    of(Class::SingleArith, false, &[k + 10], &[k]),
                    of(Class::StoreGlobal, false, &[], &[k + 10, 100]),
                ]
            });
            let latency = |class| match class {
                Class::LoadGlobal => 300.0,
                Class::SingleArith => 4.0,
                _ => 0.0,
            };
            pass(&Block { instructions: instructions.collect() }, 1.0, latency)
        };
        assert!(near(takes(true), 4.0 * 304.0, 4.0), "{}", takes(true));
        assert!(takes(false) < 320.0, "{}", takes(false));
    }

    #[test]
    fn contention_of_table_6_5() {
        // Kepler: 300 + 32 x / (0.1477 - x) + 9 alpha.
        let of = Contention { a: 300.0, b: 32.0, c: 0.1477 };
        for alpha in [0.0, 8.0, 32.0] {
            for n in [1.0, 8.0, 32.0, 64.0] {
                let x = KEPLER.contended(n, alpha, of);
                let latency = of.a + of.b * x / (of.c - x) + 9.0 * alpha;
                let free = n / latency;
                let most = KEPLER.throughput_bound(alpha);
                assert!(near(x, free, 1e-9) || near(x, most, 1e-12) && free >= most, "{n} {alpha}");
                assert!(x <= KEPLER.throughput(n, alpha) * (301.0 / 300.0), "{n} {alpha}");
            }
        }
    }

    /// A core that looks ahead waits for what a turn leaves to the next one, and for nothing else.
    #[test]
    fn a_turn_waits_for_what_the_one_before_left() {
        let of = |class, writes: u32, reads: &[u32]| clscope_mix::Instruction {
            writes: vec![writes],
            reads: reads.to_vec(),
            ..clscope_mix::Instruction::new(class)
        };
        let latency = |of: &Instruction| match of.class {
            Class::LoadGlobal => 100.0,
            Class::IntArith => 1.0,
            _ => 4.0,
        };
        // A sum of what is loaded beside: the loads of later turns do not wait for it.
        let sum = Block {
            instructions: vec![
                of(Class::IntArith, 1, &[1]),
                of(Class::LoadGlobal, 2, &[1]),
                of(Class::SingleArith, 3, &[3, 2]),
            ],
        };
        assert!(near(turn(&sum, latency).0, 4.0, 1e-9), "{}", turn(&sum, latency).0);
        // An address that was loaded: each turn waits for the one before.
        let chase = Block {
            instructions: vec![of(Class::LoadGlobal, 1, &[2]), of(Class::IntArith, 2, &[1])],
        };
        assert!(near(turn(&chase, latency).0, 101.0, 1e-9));
        let once = Block { instructions: vec![of(Class::LoadGlobal, 1, &[7])] };
        assert!(near(turn(&once, latency).0, 0.0, 1e-9));
    }

    #[test]
    fn occupancy_names_what_limits_it() {
        let h200 = limits((9, 0)).unwrap();
        let with = |registers, local_bytes| Resources {
            registers: Some(registers),
            local_bytes: Some(local_bytes),
            ..Resources::default()
        };
        // 16x16 items, 32 registers, 2 KiB: full (64 of 64 warps).
        let full = occupancy(h200, 32, 256, with(32, 2052)).unwrap();
        assert_eq!((full.warps, full.limiter, full.at_most), (64, Limiter::Warps, false));
        let registers = occupancy(h200, 32, 256, with(128, 0)).unwrap();
        assert_eq!((registers.warps, registers.limiter), (16, Limiter::Registers));
        let local = occupancy(h200, 32, 64, with(16, 48 << 10)).unwrap();
        assert_eq!((local.groups, local.limiter), (4, Limiter::LocalMemory));
        let small = occupancy(h200, 32, 32, Resources::default()).unwrap();
        assert_eq!((small.warps, small.limiter, small.at_most), (32, Limiter::Groups, true));
        assert_eq!(occupancy(h200, 32, 1024, with(255, 0)), None, "it cannot be launched");
        assert_eq!(limits((99, 0)), None);
    }

    #[test]
    fn local_memory_takes_from_the_first_cache() {
        let of = |capability| Device { capability, lanes: Some(32), ..Device::default() };
        let h100 = of(Some((9, 0)));
        let kib =
            |device: &Device, groups, bytes| first_cache(device, groups, bytes).map(|b| b >> 10);
        // Eight groups take a KiB each that is set aside; with 16 KiB more, 136.
        assert_eq!(kib(&h100, 8, 0), Some(248));
        assert_eq!(kib(&h100, 8, 16 << 10), Some(256 - 164));
        assert_eq!(kib(&h100, 9, 24 << 10), Some(28));
        // More than all is all.
        assert_eq!(kib(&h100, 99, 48 << 10), Some(28));
        assert_eq!(kib(&of(Some((7, 5))), 1, 0), Some(64));
        assert_eq!((kib(&of(Some((6, 0))), 1, 0), kib(&of(None), 1, 0)), (None, None));
        // No part is more than a unit's groups can have, and none is missing.
        for capability in [(7, 0), (7, 5), (8, 0), (8, 6), (8, 7), (8, 9), (9, 0), (10, 0), (12, 0)]
        {
            let (_, parts) = shared_with_cache(capability).unwrap();
            let most = limits(capability).unwrap().local_bytes >> 10;
            assert_eq!(parts.last(), Some(&most), "{capability:?}");
        }
    }

    /// Table 6.5, Kepler: points of its own model give its coefficients back.
    #[test]
    fn contention_is_found_again() {
        let of = Contention { a: 300.0, b: 32.0, c: 0.1477 };
        let at = |x: f64| (x, of.a + of.b * x / (of.c - x));
        let points: Vec<(f64, f64)> = (1..=13).map(|k| at(0.01 * f64::from(k))).collect();
        let found = Contention::fit(&points).unwrap();
        for (got, want) in [(found.a, of.a), (found.b, of.b), (found.c, of.c)] {
            assert!((got / want - 1.0).abs() < 0.02, "{found:?}");
        }
        assert_eq!(Contention::fit(&points[..2]), None);
        let falling: Vec<(f64, f64)> = points.iter().map(|p| (p.0, 1.0 / p.1)).collect();
        assert_eq!(Contention::fit(&falling), None, "no contention in a latency that falls");
    }

    proptest! {
        /// More warps are never slower, more additions for each access never faster, and contention
        /// never helps.
        #[test]
        fn throughput_is_monotone(n in 1.0f64..128.0, alpha in 0.0f64..500.0, more in 0.0f64..64.0) {
            let of = Contention { a: 372.0, b: 22.0, c: 0.085 };
            for gpu in [G80, GT200, FERMI, KEPLER, MAXWELL] {
                prop_assert!(gpu.throughput(n + more, alpha) >= gpu.throughput(n, alpha));
                prop_assert!(gpu.throughput(n, alpha + more) <= gpu.throughput(n, alpha) + 1e-15);
                prop_assert!(gpu.contended(n + more, alpha, of) >= gpu.contended(n, alpha, of) - 1e-9);
                prop_assert!(gpu.throughput(n, alpha) <= gpu.throughput_bound(alpha));
            }
        }
    }
}
