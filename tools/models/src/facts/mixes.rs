//! What kernels executed, joined to them: their mixes, their blocks, the buffers that their code
//! touches, and what a group takes of the device. Refuses to model anything.

use super::OnDevice;
use crate::kernel::{Kernel, Resources, scaled};
use clscope_mix::{Mix, Program, ptx, spirv};
use clscope_profile::energy::activity::{By, sized};
use clscope_profile::mixes::KernelMix;
use clscope_profile::profile::View;
use clscope_trace::replace;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What kernels executed and take of their device (`record --mix`), the mean over launches where
/// sizes are one row.
pub(super) fn mixes(view: &View<'_>, out: &mut BTreeMap<String, OnDevice>) {
    let by_size = view.grouping().by == By::Ndrange;
    let mut rows: BTreeMap<(String, String), Vec<&KernelMix>> = BTreeMap::new();
    for row in view.mixes() {
        let name = if by_size { sized(&row.shown, &row.global) } else { row.shown.clone() };
        rows.entry((row.device.clone(), name)).or_default().push(row);
    }
    let kept = view.programs().into_iter().map(|code| (code.hash, code.language));
    let counted = view.mixes().iter().map(|row| (row.code.clone(), row.language.clone()));
    let codes = kept.chain(counted).filter(|(_, language)| matches!(&**language, "ptx" | "spv"));
    let mut texts = Texts { view, codes: codes.collect(), read: HashMap::new() };
    for on in out.values_mut() {
        for kernel in &mut on.kernels {
            if let Some(rows) = rows.get(&(on.name.clone(), kernel.name.clone())) {
                count(kernel, rows, &mut texts);
            }
            if kernel.mix.is_none() {
                kernel.by_code = texts.by_code(kernel, on.is_cpu);
            }
            if !on.is_cpu {
                kernel.keep_arrays_in_registers();
            }
        }
    }
}

/// Programs that the trace keeps, by their hash.
struct Texts<'v, 'p> {
    view: &'v View<'p>,
    /// Hashes and languages of those that can be read.
    codes: BTreeSet<(String, String)>,
    read: HashMap<String, Program>,
}

impl Texts<'_, '_> {
    /// What a kernel's code does by its statements, in a text that has it. What of several programs
    /// has the name is not known.
    fn by_code(&mut self, kernel: &Kernel, is_cpu: bool) -> Option<Mix> {
        // A size of a kernel is a row of its own: `KERNEL [1024]`.
        let name = kernel.name.split(" [").next()?;
        let items = kernel.items?;
        let mut found = self.codes.clone().into_iter().filter_map(|(hash, language)| {
            let lanes = (!is_cpu && language == "ptx").then_some(WARP);
            self.program(&hash, &language)?.by_code(name, items, lanes)
        });
        found.next().filter(|_| found.next().is_none())
    }

    /// None where the text is not kept, or cannot be read.
    fn program(&mut self, hash: &str, language: &str) -> Option<&Program> {
        if !self.read.contains_key(hash) {
            let text = self.view.program(hash, language);
            let program = text.and_then(|bytes| match language {
                "spv" => spirv::read(&bytes).ok(),
                _ => ptx::read(String::from_utf8(bytes).ok()?.trim_end_matches('\0')).ok(),
            });
            self.read.insert(hash.to_owned(), program.unwrap_or_default());
        }
        self.read.get(hash)
    }
}

/// Work-items of a warp where the language is PTX (PTX ISA, machine model).
const WARP: u64 = 32;

fn count(kernel: &mut Kernel, rows: &[&KernelMix], texts: &mut Texts<'_, '_>) {
    let counted: Vec<&&KernelMix> = rows.iter().filter(|r| r.counted > 0).collect();
    let launches = counted.iter().map(|r| r.launches.max(r.counted)).fold(0, u64::saturating_add);
    if counted.is_empty() {
        let why: Vec<&str> =
            rows.iter().flat_map(|r| &r.refused).map(String::as_str).take(1).collect();
        kernel.uncounted = why.first().map(|w| (*w).to_owned());
    } else if let Some(size) = rows.iter().find(|r| {
        // What some sizes execute says nothing of the mean launch of all.
        r.launches > 0 && r.counted == 0 && counted.iter().all(|c| c.global != r.global)
    }) {
        kernel.uncounted = Some(format!(
            "launches of {} were not counted: `--by ndrange` explains each size by itself",
            replace::shown(&size.global)
        ));
    } else {
        let mut mix = Mix::default();
        let (mut footprint, mut in_place, mut images) = (Some(0.0), 0.0, 0.0);
        let mut arrays = false;
        for row in &counted {
            let n = row.launches.max(row.counted) as f64;
            mix.add(&scaled(&row.mix, n / row.counted as f64 / launches as f64));
            let program = texts.program(&row.code, &row.language);
            // What the code does not read is no part of what it touches.
            let reads = program.and_then(|p| p.arguments(&row.kernel));
            let is_read = |index: u32| reads.as_ref().is_none_or(|all| all.contains(&index));
            let buffers = row.arguments.iter().filter(|a| a.kind == "buffer" || a.kind == "image");
            let buffers = buffers.filter(|a| is_read(a.index));
            for (index, size) in buffers.clone().filter_map(|a| Some((a.index, a.size?))) {
                *kernel.buffers.entry(index).or_default() += size as f64 * n / launches as f64;
            }
            let both = program.map(|p| p.in_place(&row.kernel)).unwrap_or_default();
            let both = buffers.clone().filter(|a| both.contains(&a.index)).filter_map(|a| a.size);
            let both = both.fold(0, u64::saturating_add);
            let of_images = buffers.clone().filter(|a| a.kind == "image").filter_map(|a| a.size);
            images += of_images.fold(0, u64::saturating_add) as f64 * n / launches as f64;
            let bytes = (buffers.map(|a| a.size))
                .try_fold(0u64, |sum, size| Some(sum.saturating_add(size?)));
            footprint = footprint.zip(bytes).map(|(f, b)| f + b as f64 * n / launches as f64);
            in_place += both as f64 * n / launches as f64;
            arrays |= program.is_none_or(|p| row.language != "ptx" || p.has_arrays(&row.kernel));
            let blocks = program.map_or(&[][..], |p| &p.blocks);
            let times = n / row.counted as f64 / launches as f64;
            kernel.blocks.extend(row.blocks.iter().filter_map(|(at, (threads, warps))| {
                // Without warps each item goes its own way.
                let entered = warps.unwrap_or(*threads) as f64;
                Some((blocks.get(*at as usize)?.clone(), entered * times))
            }));
        }
        let all = mix.total();
        let mean = all.warps.unwrap_or(all.threads) as f64 / kernel.groups().unwrap_or(1) as f64;
        let longest = counted.iter().filter_map(|row| row.longest_group).max();
        kernel.longest_group = longest.map(|n| n as f64 / mean).filter(|times| times.is_finite());
        (kernel.mix, kernel.footprint) = (Some(mix), footprint);
        (kernel.in_place, kernel.images) = (in_place, images);
        let beyond = counted.iter().filter_map(|row| row.resources.private_bytes).max();
        kernel.spilled = beyond.filter(|bytes| *bytes > 0 && !arrays);
        kernel.counted_launches = counted.iter().map(|r| r.counted).fold(0, u64::saturating_add);
        let spread = counted.iter().filter_map(|r| r.spread);
        let spread = spread.reduce(|(l, h), (least, most)| (l.min(least), h.max(most)));
        kernel.spread = spread.filter(|(least, most)| least < most);
    }
    // What takes most leaves room for the fewest.
    let most = |of: &dyn Fn(&KernelMix) -> Option<u64>| rows.iter().filter_map(|r| of(r)).max();
    let required = rows.iter().filter_map(|r| r.resources.required).next();
    let required = required.map(|r| r.iter().fold(1u64, |a, n| a.saturating_mul(*n)));
    kernel.resources = Resources {
        registers: most(&|r| r.resources.registers),
        local_bytes: most(&|r| {
            let own = r.resources.local_bytes;
            let given = r.local_argument_bytes();
            own.map(|b| b + given).or((given > 0).then_some(given))
        }),
        private_bytes: most(&|r| r.resources.private_bytes),
        most_items: rows.iter().filter_map(|r| r.resources.work_group_limit).min(),
        required: required.filter(|n| *n > 0),
    };
    kernel.local = kernel.local.or(kernel.resources.required);
}
