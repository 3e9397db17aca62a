//! A program as functions and basic blocks, and the mix that block counts make of it. Owns the
//! sums; refuses to know a language.

use crate::class::{Class, Instruction, Precision, Space};
use crate::ptx::reuse;
use crate::reuse::Reuse;
use crate::{Error, MOST_BLOCKS};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Instructions that run one after the other, entered at the first and left at the last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Block {
    /// In order.
    pub instructions: Vec<Instruction>,
}

/// A function: a kernel, or what kernels call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name; empty where the language needs none.
    pub name: String,
    /// Whether it can be launched.
    pub kernel: bool,
    /// Its blocks among those of the program; the first is its entry.
    pub blocks: Range<usize>,
    /// Arguments that its code reads, by their index.
    pub arguments: BTreeSet<u32>,
    /// Of them, those whose memory it both loads from and stores to, as far as addresses tell.
    pub in_place: BTreeSet<u32>,
    /// What it does otherwise where memory holds something else.
    pub data: Data,
}

/// What of a function depends on what memory holds when it is launched: at least what does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Data {
    /// How often its blocks run.
    pub blocks: bool,
    /// Which addresses it accesses, and whether it does.
    pub addresses: bool,
}

/// A program that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// In the order of the text.
    pub functions: Vec<Function>,
    /// Of all functions, in the order of the text.
    pub blocks: Vec<Block>,
    /// Blocks at which loops begin: a branch behind leads back to them. Each with the last block that
    /// does.
    pub loops: BTreeMap<usize, usize>,
    /// Names of instructions that are not known, sorted.
    pub unknown: Vec<String>,
    /// Version of the language, `9.0`.
    pub version: String,
    /// The version is newer than any that this reader was written for.
    pub newer: bool,
}

/// A program that counts, and how its counters are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Text or module.
    pub code: Vec<u8>,
    /// What was read: counters are of its blocks.
    pub program: Program,
    /// Copies of the counters, to be added.
    pub shards: usize,
    /// Whether warps are counted beside threads.
    pub warps: bool,
    /// Accesses to memory whose transactions are counted, in the order of the text; empty where the
    /// device or the language cannot.
    pub accesses: Vec<Access>,
    /// How many of the last counters of each copy say how soon memory is touched again.
    pub reuse: usize,
    /// Name of the kernel that copies the counters into its only argument, one 64-bit word a
    /// work-item, and sets them to 0. `None`: each kernel takes the buffer of counters as a last
    /// argument.
    pub dump: Option<String>,
}

/// An instruction that accesses memory, and how its transactions are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Its block.
    pub block: usize,
    /// Its class.
    pub class: Class,
    /// Where they are found.
    pub transactions: Transactions,
}

/// How the transactions of an access are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transactions {
    /// A counter of their own, by its number among those behind the blocks'.
    Counter(usize),
    /// All work-items access one address: one for each warp.
    OneAWarp,
    /// Not known.
    Unknown,
}

impl Counted {
    /// 64-bit words of the counters.
    pub fn words(&self) -> usize {
        self.shards * self.words_of_shard()
    }

    fn words_of_shard(&self) -> usize {
        self.words_before_reuse() + self.reuse
    }

    fn words_before_reuse(&self) -> usize {
        let counters = |a: &&Access| matches!(a.transactions, Transactions::Counter(_));
        self.words_of_blocks() + self.accesses.iter().filter(counters).count()
    }

    fn words_of_blocks(&self) -> usize {
        self.program.blocks.len() * if self.warps { 2 } else { 1 }
    }

    /// What the counters say.
    ///
    /// # Errors
    /// If there are not as many as [`words`](Self::words).
    pub fn read(&self, words: &[u64]) -> Result<Counts, Error> {
        if words.len() != self.words() {
            return Err(Error::Counters { found: words.len(), expected: self.words() });
        }
        let blocks = self.program.blocks.len();
        let mut threads = vec![0u64; blocks];
        let mut warps = self.warps.then(|| vec![0u64; blocks]);
        let each = if self.warps { 2 } else { 1 };
        let behind = self.words_of_blocks();
        let mut counters = vec![0u64; self.words_before_reuse() - behind];
        let mut shards = Vec::new();
        for shard in words.chunks(self.words_of_shard().max(1)) {
            let of_accesses = shard.get(behind..).unwrap_or_default();
            for (sum, more) in counters.iter_mut().zip(of_accesses) {
                *sum = sum.saturating_add(*more);
            }
            let mut instructions = 0u64;
            for ((words, threads), at) in shard.chunks(each).zip(&mut threads).zip(0..) {
                let length = self.program.blocks.get(at).map_or(0, |b| b.instructions.len() as u64);
                let entered = words.last().copied().unwrap_or(0);
                instructions = instructions.saturating_add(entered.saturating_mul(length));
                *threads = threads.saturating_add(words.first().copied().unwrap_or(0));
                if let (Some(warps), Some(more)) = (&mut warps, words.get(1))
                    && let Some(warps) = warps.get_mut(at)
                {
                    let sum: u64 = *warps;
                    *warps = sum.saturating_add(*more);
                }
            }
            shards.push(instructions);
        }
        let transactions = self.transactions(&counters, warps.as_deref());
        let reuse = self.reused(words, &transactions);
        Ok(Counts { threads, warps, transactions, shards, reuse })
    }

    /// How soon memory is touched again, by the counters of all copies.
    fn reused(&self, words: &[u64], transactions: &BTreeMap<Class, u64>) -> Option<Reuse> {
        let mut all = vec![0u64; self.reuse];
        for shard in words.chunks(self.words_of_shard().max(1)) {
            let of = shard.get(self.words_before_reuse()..).unwrap_or_default();
            all.iter_mut().zip(of).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        }
        let loads = transactions.get(&Class::LoadGlobal).copied().unwrap_or(0);
        let global = transactions.iter().filter(|(c, _)| c.memory() == Some(Space::Global));
        reuse::read(&all, loads, global.map(|(_, n)| n).sum())
    }

    /// Sums by class; a class of which one access is not known is absent.
    fn transactions(&self, counters: &[u64], warps: Option<&[u64]>) -> BTreeMap<Class, u64> {
        let mut out: BTreeMap<Class, Option<u64>> = BTreeMap::new();
        for access in &self.accesses {
            let of_block = || warps?.get(access.block).copied();
            let more = match access.transactions {
                Transactions::Counter(at) => counters.get(at).copied(),
                Transactions::OneAWarp => of_block(),
                // Of what never ran there are none.
                Transactions::Unknown => of_block().filter(|warps| *warps == 0),
            };
            let sum = out.entry(access.class).or_insert(Some(0));
            *sum = sum.zip(more).map(|(sum, more)| sum.saturating_add(more));
        }
        out.into_iter().filter_map(|(class, sum)| Some((class, sum?))).collect()
    }
}

/// How often each block ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Work-items that entered it, each time.
    pub threads: Vec<u64>,
    /// Warps (sub-groups that are issued together) that entered it, each time; `None` where the
    /// device has none, or they cannot be told.
    pub warps: Option<Vec<u64>>,
    /// Transactions of memory by class (see [`Tally::transactions`]); absent where they are not
    /// counted.
    pub transactions: BTreeMap<Class, u64>,
    /// Instructions, of warps where those are counted, by copy of the counters: work-groups add to
    /// them in turns.
    pub shards: Vec<u64>,
    /// How soon memory is touched again; `None` where that is not counted, or none was.
    pub reuse: Option<Reuse>,
}

/// Copies of so many counters, a power of two, that work-groups add to in turns.
pub(crate) fn shards(words: usize) -> usize {
    /// At most, and the bytes of all copies that are tried for.
    const SHARDS: usize = 64;
    const ARRAY: usize = 4 << 20;
    let shards = (ARRAY / (words.max(1) * 8)).clamp(1, SHARDS);
    1 << shards.ilog2()
}

/// Groups up to which those that are longer than others are single ones: copies are taken in turns,
/// and rows of an image have a power of two of groups.
const LONGEST: usize = 8;

impl Counts {
    /// Instructions of the longest of so many groups, as [`shards`](Self::shards) tell: of the copy
    /// with the most, those that remain if its other groups did as those of the copy that has the
    /// `LONGEST`th most. What is alike in so many copies is the shape of the work, as of an image
    /// of which one part takes long, and no single group. `None` where groups are not told apart.
    pub fn longest_group(&self, groups: u64) -> Option<u64> {
        let mut shards = self.shards.clone();
        shards.sort_unstable();
        let most = *shards.last().filter(|most| shards.len() > 1 && groups > 1 && **most > 0)?;
        let each = groups.div_ceil(shards.len() as u64);
        let typical = shards.len().saturating_sub(LONGEST).max(shards.len() / 2);
        let typical = shards.get(typical)? / each;
        Some(most.saturating_sub(typical.saturating_mul(each - 1)).max(most / each))
    }
}

/// What was executed of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Instructions, one for each work-item.
    pub threads: u64,
    /// Instructions, one for each warp; `None` where warps are not counted.
    pub warps: Option<u64>,
    /// Floating-point operations.
    pub flop: u64,
    /// Bytes of memory asked for.
    pub bytes: u64,
    /// Of the instructions, those under a predicate: counted as executed.
    pub predicated: u64,
    /// What warps' accesses to memory take: of global memory the pieces of [`SECTOR`] bytes that a
    /// warp touches, of constant memory the lines of [`LINE`] bytes, of private memory the words, of
    /// local memory the passes through its banks (a word of each bank in one).
    /// `None` where they are not counted, and for classes that access neither.
    pub transactions: Option<u64>,
}

/// Bytes of memory that NVIDIA's caches move at once.
pub const SECTOR: u64 = 32;

/// Bytes that the banks of local memory give in one pass.
pub const PASS: u64 = 128;

/// Bytes of a line of NVIDIA's nearest cache.
pub const LINE: u64 = 128;

/// How the accesses of warps to one memory lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accesses {
    /// Accesses of warps.
    pub warps: u64,
    /// Their transactions (see [`Tally::transactions`]).
    pub transactions: u64,
    /// What they would take if work-items accessed words side by side.
    pub least: f64,
}

impl Accesses {
    /// Transactions of one access of a warp.
    pub fn a_warp(&self) -> f64 {
        self.transactions as f64 / self.warps.max(1) as f64
    }

    /// The least of one access of a warp.
    pub fn least_a_warp(&self) -> f64 {
        self.least / self.warps.max(1) as f64
    }
}

impl Tally {
    /// Adds what another counted. What is not known of one of them is not known of both.
    pub fn add(&mut self, other: &Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (self.threads, other.threads) {
            (0, _) => b,
            (_, 0) => a,
            _ => a.zip(b).map(|(a, b)| a.saturating_add(b)),
        };
        self.warps = sum(self.warps, other.warps);
        self.transactions = sum(self.transactions, other.transactions);
        self.threads = self.threads.saturating_add(other.threads);
        self.flop = self.flop.saturating_add(other.flop);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.predicated = self.predicated.saturating_add(other.predicated);
    }
}

/// What was executed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mix {
    /// By class; classes of which nothing ran are absent.
    pub classes: BTreeMap<Class, Tally>,
    /// How soon memory was touched again, where that was counted.
    pub reuse: Option<Reuse>,
}

/// Blocks at which loops begin: those that a way from the entry leads back to while it is on its
/// way, each with those that lead back, the last one last. A loop with several entries may be told by
/// another one of its blocks.
pub(crate) fn loops(
    entry: usize,
    edges: impl Iterator<Item = (usize, usize)>,
) -> BTreeSet<(usize, usize)> {
    let mut successors: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (from, to) in edges {
        successors.entry(from).or_default().push(to);
    }
    let (mut heads, mut seen, mut on_the_way) =
        (BTreeSet::new(), BTreeSet::from([entry]), BTreeSet::from([entry]));
    // Blocks on the way, each with the number of its next successor.
    let mut way = vec![(entry, 0)];
    while let Some((block, next)) = way.last_mut() {
        let block = *block;
        let to = successors.get(&block).and_then(|all| all.get(*next)).copied();
        *next += 1;
        match to {
            None => {
                on_the_way.remove(&block);
                way.pop();
            }
            Some(to) if on_the_way.contains(&to) => drop(heads.insert((to, block))),
            Some(to) if seen.insert(to) => {
                on_the_way.insert(to);
                way.push((to, 0));
            }
            Some(_) => {}
        }
    }
    heads
}

/// Turns of a loop of which nobody knows how many it makes. Judged: it ranks what code does inside of
/// loops before what it does outside, and is no count.
const TURNS: u64 = 32;

impl Program {
    /// What so many work-items of a kernel execute if they take every way, and each loop turns alike;
    /// `None` where the program has no such kernel, or that has no code. What functions do that it calls
    /// is left out. Warps have `lanes` items.
    pub fn by_code(&self, kernel: &str, items: u64, lanes: Option<u64>) -> Option<Mix> {
        let function = self.functions.iter().find(|f| f.kernel && f.name == kernel)?;
        let mut threads = vec![0; self.blocks.len()];
        for (block, entered) in threads.iter_mut().enumerate() {
            if function.blocks.contains(&block) {
                let holds = |(head, end): &(&usize, &usize)| (**head..=**end).contains(&block);
                let depth = self.loops.iter().filter(holds).count();
                *entered = items.saturating_mul(TURNS.saturating_pow(depth as u32));
            }
        }
        let warps = lanes.map(|lanes| threads.iter().map(|n| n.div_ceil(lanes.max(1))).collect());
        let mix = self.mix(&Counts { threads, warps, ..Counts::default() });
        (mix.total().threads > 0).then_some(mix)
    }

    /// Checks that it can be counted.
    pub(crate) fn within_limits(self) -> Result<Self, Error> {
        match self.blocks.len() {
            0 => Err(Error::Unsupported { what: "has no code" }),
            blocks if blocks > MOST_BLOCKS => Err(Error::TooLarge { blocks, most: MOST_BLOCKS }),
            _ => Ok(self),
        }
    }

    /// A kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&Function> {
        self.functions.iter().find(|f| f.kernel && f.name == name)
    }

    /// Arguments that a kernel's code reads, by their index. An entry point that only calls a function
    /// of the same name reads all: what that one reads counts. `None` for a kernel that is not there.
    pub fn arguments(&self, kernel: &str) -> Option<BTreeSet<u32>> {
        self.kernel(kernel)?;
        let of_the_name = self.functions.iter().filter(|f| f.name == kernel);
        of_the_name.map(|f| f.arguments.clone()).reduce(|a, b| &a & &b)
    }

    /// Arguments whose memory a kernel's code both loads from and stores to, by their index: that
    /// memory is moved twice. Empty where nobody looked for them, as in SPIR-V.
    pub fn in_place(&self, kernel: &str) -> BTreeSet<u32> {
        let of_the_name = self.functions.iter().filter(|f| f.name == kernel);
        of_the_name.flat_map(|f| f.in_place.iter().copied()).collect()
    }

    /// Whether a kernel, or any function that kernels may call, has arrays in private memory.
    pub fn has_arrays(&self, kernel: &str) -> bool {
        let own = self.functions.iter().filter(|f| !f.kernel || f.name == kernel);
        let blocks = own.flat_map(|f| self.blocks.get(f.blocks.clone()).unwrap_or_default());
        let mut all = blocks.flat_map(|block| &block.instructions);
        // Addresses that are handed to functions may be of such arrays.
        all.any(|of| matches!(of.class.memory(), Some(Space::Private | Space::Generic)))
    }

    /// Work-items that entered a kernel, by its first block. Compilers write an entry point that
    /// only calls a function of the same name; a runtime may launch that function instead.
    pub fn entered(&self, kernel: &str, counts: &Counts) -> Option<u64> {
        self.kernel(kernel)?;
        let of_the_name = self.functions.iter().filter(|f| f.name == kernel);
        of_the_name.filter_map(|f| counts.threads.get(f.blocks.start).copied()).max()
    }

    /// What of a kernel depends on what memory holds; all of one that is not there.
    pub fn data(&self, kernel: &str) -> Data {
        let of_the_name = self.functions.iter().filter(|f| f.kernel && f.name == kernel);
        let either = |a: Data, b: Data| Data {
            blocks: a.blocks || b.blocks,
            addresses: a.addresses || b.addresses,
        };
        let all = of_the_name.map(|f| f.data).reduce(either);
        all.unwrap_or(Data { blocks: true, addresses: true })
    }

    /// What ran, by class.
    pub fn mix(&self, counts: &Counts) -> Mix {
        let mut out = Mix::default();
        for (at, block) in self.blocks.iter().enumerate() {
            let threads = counts.threads.get(at).copied().unwrap_or(0);
            if threads == 0 {
                continue;
            }
            let warps = counts.warps.as_ref().map(|warps| warps.get(at).copied().unwrap_or(0));
            for instruction in &block.instructions {
                out.classes.entry(instruction.class).or_default().add(&Tally {
                    threads,
                    warps,
                    flop: threads.saturating_mul(u64::from(instruction.flop)),
                    bytes: threads.saturating_mul(u64::from(instruction.bytes)),
                    predicated: if instruction.predicated { threads } else { 0 },
                    transactions: None,
                });
            }
        }
        for (class, tally) in &mut out.classes {
            tally.transactions = counts.transactions.get(class).copied();
        }
        out.reuse.clone_from(&counts.reuse);
        out
    }
}

impl Mix {
    /// All classes together.
    pub fn total(&self) -> Tally {
        let mut out = Tally::default();
        self.classes.values().for_each(|tally| out.add(tally));
        out
    }

    /// Adds what another launch executed.
    pub fn add(&mut self, other: &Self) {
        for (class, tally) in &other.classes {
            self.classes.entry(*class).or_default().add(tally);
        }
        if let Some(more) = &other.reuse {
            self.reuse.get_or_insert_default().add(more);
        }
    }

    /// Floating-point operations of a type.
    pub fn flop(&self, of: Precision) -> u64 {
        self.sum(|class| class.precision() == Some(of), |tally| tally.flop)
    }

    /// Bytes asked of an address space, read and written.
    pub fn bytes(&self, of: Space) -> u64 {
        self.sum(|class| class.memory() == Some(of), |tally| tally.bytes)
    }

    /// Work-items that reach a barrier, each time.
    pub fn barriers(&self) -> u64 {
        self.sum(|class| class == Class::Barrier, |tally| tally.threads)
    }

    /// Atomic operations.
    pub fn atomics(&self) -> u64 {
        self.sum(
            |class| matches!(class, Class::AtomicGlobal | Class::AtomicLocal),
            |tally| tally.threads,
        )
    }

    /// How accesses to a memory lie, in transactions of `unit` bytes; `None` where one of its
    /// classes was not counted, or none ran.
    fn accesses(&self, of: Space, unit: u64) -> Option<Accesses> {
        let mut out = Accesses { warps: 0, transactions: 0, least: 0.0 };
        let classes = self.classes.iter().filter(|(class, _)| class.memory() == Some(of));
        for (_, tally) in classes.filter(|(_, tally)| tally.threads > 0) {
            let warps = tally.warps?;
            out.warps = out.warps.saturating_add(warps);
            out.transactions = out.transactions.saturating_add(tally.transactions?);
            out.least += (tally.bytes as f64 / unit as f64).max(warps as f64);
        }
        (out.warps > 0).then_some(out)
    }

    /// How accesses to global memory lie, in pieces of [`SECTOR`] bytes.
    pub fn sectors(&self) -> Option<Accesses> {
        self.accesses(Space::Global, SECTOR)
    }

    /// Bytes of the touched pieces of global memory beyond those asked for; below 0 where items of
    /// a warp ask for the same. `None` as for [`sectors`](Self::sectors).
    pub fn scattered_bytes(&self) -> Option<f64> {
        let touched = self.sectors()?.transactions * SECTOR;
        Some(touched as f64 - self.bytes(Space::Global) as f64)
    }

    /// How accesses to local memory lie, in passes through its banks.
    pub fn passes(&self) -> Option<Accesses> {
        self.accesses(Space::Local, PASS)
    }

    /// Share of a warp's lanes that are at work, of warps of so many lanes; `None` where warps are
    /// not counted.
    pub fn lanes_busy(&self, lanes: u32) -> Option<f64> {
        let total = self.total();
        let issued = total.warps.filter(|warps| *warps > 0)? as f64 * f64::from(lanes);
        Some(total.threads as f64 / issued)
    }

    fn sum(&self, of: impl Fn(Class) -> bool, what: impl Fn(&Tally) -> u64) -> u64 {
        self.classes
            .iter()
            .filter(|(class, _)| of(**class))
            .fold(0, |sum, (_, tally)| sum.saturating_add(what(tally)))
    }
}

#[cfg(test)]
mod tests;
