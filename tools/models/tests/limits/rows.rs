//! What was counted and measured of kernels on devices, as kernels that the models take.
#![allow(dead_code, missing_docs, unreachable_pub)]

use clscope_mix::reuse::Reuse;
use clscope_mix::{Class, Counts, Mix, Program, ptx, spirv};
use clscope_models::device::Device;
use clscope_models::kernel::{Kernel, Resources};
use clscope_models::{Evidence, Figure};
use serde::Deserialize;
use std::sync::LazyLock;

/// Intel's runtime and PoCL on one machine.
pub const CPUS: [&str; 2] = [include_str!("intel.json"), include_str!("pocl.json")];
/// The same of another machine, which others used at the time, with the kernels of `suite.c`: counts of
/// Intel's runtime, the shortest time of some dozens of launches, the best of four runs of `bench model`.
pub const SHARED: [&str; 2] = [include_str!("intel_shared.json"), include_str!("pocl_shared.json")];
/// A GPU.
pub const GPU: &str = include_str!("h200.json");

/// What was measured on one device.
#[derive(Deserialize)]
pub struct Measured {
    pub device: serde_json::Value,
    pub kernels: Vec<Row>,
}

/// One kernel of it.
#[derive(Deserialize)]
pub struct Row {
    pub name: String,
    /// Limits of which one is built in.
    pub limits: Vec<String>,
    pub launches: u64,
    /// Instructions of the longest group, of warps where those are counted.
    pub longest_group: Option<u64>,
    /// How soon memory was touched again.
    pub reuse: Option<Reuse>,
    pub items: u64,
    pub local: u64,
    pub time_ns: f64,
    /// Watts of the device while the kernel ran again and again for a second, and the time that a launch
    /// took then.
    pub watts: Option<f64>,
    pub steady_ns: Option<f64>,
    /// Bytes of all its buffers, where it is not known which are read.
    pub footprint: Option<f64>,
    /// Index and bytes of each buffer.
    #[serde(default)]
    pub buffers: Vec<(u32, f64)>,
    pub registers: Option<u64>,
    pub local_bytes: Option<u64>,
    pub private_bytes: Option<u64>,
    /// Bytes that memory moved, from counters: value, low and high end.
    pub dram_bytes: Option<[f64; 3]>,
    #[serde(default)]
    pub classes: Vec<Count>,
    /// Block of `limits.spv`, and how often work-items and warps entered it.
    #[serde(default)]
    pub blocks: Vec<(usize, u64, Option<u64>)>,
}

/// Instructions of one class.
#[derive(Deserialize)]
pub struct Count {
    pub class: String,
    pub threads: u64,
    pub warps: Option<u64>,
    pub bytes: u64,
    pub transactions: Option<u64>,
}

/// The translations of `limits.c` and `suite.c` that blocks are of.
pub static SPIRV: LazyLock<[Program; 2]> = LazyLock::new(|| {
    [&include_bytes!("limits.spv")[..], include_bytes!("suite.spv")]
        .map(|bytes| spirv::read(bytes).unwrap())
});

/// What NVIDIA's runtime made of them.
pub static PTX: LazyLock<[Program; 2]> = LazyLock::new(|| {
    [include_str!("limits.ptx"), include_str!("suite.ptx")].map(|text| ptx::read(text).unwrap())
});

/// What blocks of a row are of: it has classes where they are of PTX, since accesses are counted by
/// class.
pub fn program(row: &Row) -> &'static Program {
    let has = |of: &&Program| of.functions.iter().any(|f| f.name == row.name);
    let all = if row.classes.is_empty() { &SPIRV } else { &PTX };
    all.iter().find(has).unwrap()
}

/// What ran, by its blocks, with how accesses lie.
pub fn mix(row: &Row) -> Mix {
    let mut threads = vec![0; program(row).blocks.len()];
    let mut warps: Option<Vec<u64>> = None;
    for (at, entered, of_warps) in &row.blocks {
        threads[*at] = *entered;
        if let Some(of_warps) = of_warps {
            warps.get_or_insert_with(|| vec![0; threads.len()])[*at] = *of_warps;
        }
    }
    let class = |c: &Count| Some((Class::of_name(&c.class)?, c.transactions?));
    let transactions = row.classes.iter().filter_map(class).collect();
    let reuse = row.reuse.clone();
    let counts = Counts { threads, warps, transactions, reuse, ..Counts::default() };
    let mix = program(row).mix(&counts);
    for c in &row.classes {
        let tally = &mix.classes[&Class::of_name(&c.class).unwrap()];
        assert_eq!((tally.threads, tally.warps, tally.bytes), (c.threads, c.warps, c.bytes));
    }
    mix
}

pub fn kernel(row: &Row) -> Kernel {
    let block = |(at, threads, warps): &(usize, u64, Option<u64>)| {
        (program(row).blocks[*at].clone(), warps.unwrap_or(*threads) as f64)
    };
    let measured = |value| Figure::exact(value, Evidence::Measured);
    let mix = mix(row);
    let all = mix.total();
    let mean = all.warps.unwrap_or(all.threads) as f64 / row.items.div_ceil(row.local) as f64;
    Kernel {
        name: row.name.clone(),
        launches: row.launches,
        total_ns: Some(row.time_ns * row.launches as f64),
        time_ns: Some(measured(row.time_ns)),
        items: Some(row.items),
        local: Some(row.local),
        sizes: 1,
        longest_group: row.longest_group.map(|n| n as f64 / mean),
        mix: Some(mix),
        blocks: row.blocks.iter().map(block).collect(),
        footprint: row.footprint.or_else(|| {
            let reads = program(row).arguments(&row.name).unwrap();
            Some(
                row.buffers.iter().filter(|(at, _)| reads.contains(at)).map(|(_, size)| size).sum(),
            )
        }),
        buffers: {
            let reads = program(row).arguments(&row.name).unwrap();
            row.buffers.iter().copied().filter(|(at, _)| reads.contains(at)).collect()
        },
        in_place: {
            let both = program(row).in_place(&row.name);
            row.buffers.iter().filter(|(at, _)| both.contains(at)).map(|(_, size)| size).sum()
        },
        dram_bytes: row
            .dram_bytes
            .map(|[value, low, high]| Figure::new(value, low, high, Evidence::Measured)),
        resources: Resources {
            registers: row.registers,
            local_bytes: row.local_bytes,
            private_bytes: row.private_bytes,
            ..Resources::default()
        },
        ..Kernel::default()
    }
}

/// The device of a text, and its kernels.
pub fn asked(text: &str) -> (Device, Vec<Kernel>) {
    let measured: Measured = serde_json::from_str(text).unwrap();
    let device = Device::read(measured.device.to_string().as_bytes()).unwrap();
    let kernels = measured.kernels.iter().map(kernel).collect();
    (device, kernels)
}
