//! The JSON document of `clscope mix`: counted instructions as figures. Refuses to estimate.

use super::simulated::Comparison;
use super::{Argument, KernelMix, Loop, Program, Resources};
use clscope_mix::reuse::Reuse;
use clscope_mix::{Class, Precision, Space};
use serde::Serialize;
use std::collections::BTreeMap;

/// What the document's field `schema` says.
pub const SCHEMA: &str = "clscope-mix/1";

/// The document.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Document {
    /// `clscope-mix/1`.
    pub schema: String,
    /// Trace directories.
    pub traces: Vec<String>,
    /// Readable names of kernels, by their names in this document, which are those of the trace.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(default)]
    pub display_names: BTreeMap<String, String>,
    /// Kernels of one program at one geometry on one device, those with the most launches first.
    pub kernels: Vec<Kernel>,
    /// The same kernels in Oclgrind, where its counts were given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub against: Option<Comparison>,
}

/// A kernel of one program at one geometry on one device. Counts are of all counted launches
/// together.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Kernel {
    /// Its name.
    pub kernel: String,
    /// The program that it is of; kernels of one name may be of several.
    pub program: Program,
    /// The device's name.
    pub device: String,
    /// Global offset, one number per dimension; empty where none was given.
    pub offset: Vec<u64>,
    /// Global size.
    pub global: Vec<u64>,
    /// Local size; empty where the runtime chose it.
    pub local: Vec<u64>,
    /// Launches in the trace.
    pub launches: u64,
    /// Launches that were counted: divide by it for figures of one launch.
    pub counted: u64,
    /// Why launches were not counted.
    pub refused: Vec<String>,
    /// What was executed; null where nothing was counted.
    pub executed: Option<Executed>,
    /// Arguments of the last counted launch.
    pub arguments: Vec<Argument>,
    /// What the kernel takes of the device.
    pub resources: Resources,
}

/// What counted launches executed.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Executed {
    /// Language whose instructions these are: `ptx` or `spv`.
    pub language: String,
    /// Hash of the counted code; `clscope programs --output` writes it out.
    pub code: String,
    /// Work-items that entered the kernel.
    pub work_items: u64,
    /// Instructions, one for each work-item.
    pub instructions: u64,
    /// Instructions, one for each warp; null where warps were not counted.
    pub warp_instructions: Option<u64>,
    /// Share of lanes at work, for warps as wide as the device's.
    pub lanes_busy: Option<f64>,
    /// Least and most instructions of a counted launch.
    pub spread: Option<(u64, u64)>,
    /// Instructions of the longest group, of warps where those are counted; null where groups are not
    /// told apart.
    #[schemars(default)]
    pub longest_group: Option<u64>,
    /// How soon warps touched the same pieces of 32 bytes of global memory again; null where that was
    /// not counted.
    #[schemars(default)]
    pub reuse: Option<Reuse>,
    /// By class of instruction.
    pub classes: Vec<OfClass>,
    /// Floating-point operations by type.
    pub flop: Flop,
    /// Bytes asked for by address space.
    pub bytes: Vec<OfSpace>,
    /// Work-items that reached a barrier, each time.
    pub barriers: u64,
    /// Atomic operations.
    pub atomics: u64,
    /// Loops that were entered.
    pub loops: Vec<Loop>,
    /// Blocks of the code that were entered.
    pub blocks: Vec<OfBlock>,
    /// Instructions that are counted as `unknown`, by name.
    pub unknown: Vec<String>,
}

/// What was executed of a class of instruction.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct OfClass {
    /// Its name.
    pub class: String,
    /// One for each work-item.
    pub instructions: u64,
    /// One for each warp.
    pub warp_instructions: Option<u64>,
    /// Floating-point operations.
    pub flop: u64,
    /// Bytes asked for.
    pub bytes: u64,
    /// Of the instructions, those under a predicate: counted as executed.
    pub predicated: u64,
    /// Of global memory the pieces of 32 bytes that warps touched, of constant memory the lines of
    /// 128 bytes, of private memory the words, of local memory the passes through its banks; null where they were not counted, and for classes that access neither.
    pub transactions: Option<u64>,
}

/// Floating-point operations; a fused multiply-add counts two, a division or special function one.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Flop {
    /// On 16 bits.
    pub fp16: u64,
    /// On 32 bits.
    pub fp32: u64,
    /// On 64 bits.
    pub fp64: u64,
}

/// Bytes asked of an address space, before caches.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct OfSpace {
    /// `global`, `local`, `private`, `constant`, `generic` or `image`.
    pub space: String,
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
    /// By atomics.
    pub atomic: u64,
}

/// How often a block was entered.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct OfBlock {
    /// Its index in the code.
    pub block: u32,
    /// By work-items.
    pub threads: u64,
    /// By warps.
    pub warps: Option<u64>,
}

impl Document {
    /// Of these kernels.
    pub fn of_kernels(traces: Vec<String>, kernels: &[&KernelMix]) -> Self {
        let kernels = kernels.iter().map(|k| Kernel::of_mix(k)).collect();
        Self {
            schema: SCHEMA.to_owned(),
            traces,
            display_names: BTreeMap::new(),
            kernels,
            against: None,
        }
    }
}

impl Kernel {
    /// Of a kernel.
    pub fn of_mix(from: &KernelMix) -> Self {
        Self {
            kernel: from.kernel.clone(),
            program: from.program.clone(),
            device: from.device.clone(),
            offset: from.offset.clone(),
            global: from.global.clone(),
            local: from.local.clone(),
            launches: from.launches,
            counted: from.counted,
            refused: from.refused.iter().cloned().collect(),
            executed: (from.counted > 0).then(|| Executed::summarise(from)),
            arguments: from.arguments.clone(),
            resources: from.resources.clone(),
        }
    }
}

impl Executed {
    fn summarise(from: &KernelMix) -> Self {
        let (mix, all) = (&from.mix, from.mix.total());
        let classes = mix.classes.iter().map(|(class, tally)| OfClass {
            class: class.name().to_owned(),
            instructions: tally.threads,
            warp_instructions: tally.warps,
            flop: tally.flop,
            bytes: tally.bytes,
            predicated: tally.predicated,
            transactions: tally.transactions,
        });
        let blocks = from.blocks.iter().map(|(block, (threads, warps))| OfBlock {
            block: *block,
            threads: *threads,
            warps: *warps,
        });
        Self {
            language: from.language.clone(),
            code: from.code.clone(),
            work_items: from.entered,
            instructions: all.threads,
            warp_instructions: all.warps,
            lanes_busy: from.lanes_busy(),
            spread: from.spread,
            longest_group: from.longest_group,
            reuse: from.mix.reuse.clone(),
            classes: classes.collect(),
            flop: Flop {
                fp16: mix.flop(Precision::Half),
                fp32: mix.flop(Precision::Single),
                fp64: mix.flop(Precision::Double),
            },
            bytes: from.bytes(),
            barriers: mix.barriers(),
            atomics: mix.atomics(),
            loops: from.loops.clone(),
            blocks: blocks.collect(),
            unknown: from.unknown.iter().cloned().collect(),
        }
    }
}

impl KernelMix {
    /// Bytes asked of each address space that was used, of all counted launches.
    pub fn bytes(&self) -> Vec<OfSpace> {
        let mut out: Vec<OfSpace> = Vec::new();
        for (class, tally) in &self.mix.classes {
            let Some(space) = class.memory().map(Space::name) else { continue };
            let at = out.iter().position(|of| of.space == space).unwrap_or_else(|| {
                out.push(OfSpace { space: space.to_owned(), read: 0, written: 0, atomic: 0 });
                out.len() - 1
            });
            use Class as C;
            let to = match class {
                C::AtomicGlobal | C::AtomicLocal => &mut out[at].atomic,
                _ if class.stores() => &mut out[at].written,
                _ => &mut out[at].read,
            };
            *to = to.saturating_add(tally.bytes);
        }
        out
    }
}
