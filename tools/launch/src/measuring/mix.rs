//! What a launch executes, by class of instruction: it is run once from a copy of its program that
//! counts its basic blocks. Programs in SPIR-V are counted, those of runtimes that hand out PTX, and
//! sources where `clang` and `llvm-spirv` translate them. A runtime that takes no SPIR-V but SPIR
//! (`cl_khr_spir`) gets the copy as that. Refuses to count other programs than the
//! one that was captured.

use crate::capture::Launch;
use crate::progress::Who;
use crate::stage::{Built, Stage};
use clscope_capture::compiler;
use clscope_mix::{Counted, ptx, spirv};
use clscope_opencl::{Argument, Range};
use clscope_profile::mixes::{KernelMix, Loop};
use std::ffi::OsStr;

/// What the copy is called in messages.
const NAME: &str = "a copy of the program that counts";

/// Options that build bitcode of `cl_khr_spir` (OpenCL 2.0 Extension Specification, 9.15). What the
/// application's options say of the source was heeded when that was translated.
const SPIR: &str = "-x spir -spir-std=1.2";

/// Counts a launch of a version, from the captured contents, which are put back; without them one
/// that executes the same whatever they are. `path`: folders in which compilers are looked for;
/// `accesses`: whether those of warps to memory are counted, too, which is known of PTX alone. With it
/// the module that was translated from a source, which blocks are of.
///
/// # Errors
/// Why it cannot be counted, as a sentence's end.
pub fn count(
    stage: &Stage<'_>,
    built: &Built,
    path: &OsStr,
    accesses: bool,
) -> Result<(KernelMix, Option<Vec<u8>>), String> {
    let said = |error: &dyn std::error::Error| error.to_string();
    stage.tell(&built.who);
    let Copied { language, code, counted, kept } = copy(stage, built, path, accesses)?;
    let session = &stage.session;
    let program = match language {
        "ptx" => session.load(NAME, &counted.code, ""),
        _ if stage.limits.languages.is_empty() => {
            let code = compiler::bitcode(&counted.code, path).map_err(|why| {
                format!(
                    "the device takes no SPIR-V, and its copy was not translated to SPIR: {why}"
                )
            })?;
            session.load(NAME, &code, SPIR)
        }
        _ => session.build_il(NAME, &counted.code, &built.options),
    };
    let program = program.map_err(|e| said(&e))?;
    let launch = &stage.capture.launch;
    let kernel = session.kernel(&program, &launch.kernel).map_err(|e| said(&e))?;
    stage.bind(&kernel).map_err(|e| said(&e))?;
    let bytes = counted.words() * size_of::<u64>();
    let counters = session.buffer(bytes, false).map_err(|e| said(&e))?;
    session.fill(&counters, &[0; 8], bytes).map_err(|e| said(&e))?;
    if counted.dump.is_none() {
        let all = kernel.argument_count().map_err(|e| said(&e))?;
        let last = all.checked_sub(1).ok_or("its copy takes no counters")?;
        kernel.set(last, &Argument::Buffer(&counters)).map_err(|e| said(&e))?;
    }
    let memories = 0..stage.before().len();
    let restore = || memories.clone().try_for_each(|index| stage.restore(index).map(drop));
    restore().map_err(|e| said(&e))?;
    session.launch_over_untimed(&kernel, &built.range).map_err(|e| said(&e))?;
    session.finish().map_err(|e| said(&e))?;
    if let Some(dump) = &counted.dump {
        let dump = session.kernel(&program, dump).map_err(|e| said(&e))?;
        dump.set(0, &Argument::Buffer(&counters)).map_err(|e| said(&e))?;
        let words = Range { offset: None, global: vec![counted.words()], local: None };
        session.launch_over_untimed(&dump, &words).map_err(|e| said(&e))?;
        session.finish().map_err(|e| said(&e))?;
    }
    let mut read = vec![0; bytes];
    session.read(&counters, 0, &mut read).map_err(|e| said(&e))?;
    restore().map_err(|e| said(&e))?;
    Ok((summed(stage, built, (language, &code), &counted, &read)?, kept))
}

/// A copy of a program that counts.
struct Copied {
    language: &'static str,
    /// Hash of the program, which blocks are of.
    code: String,
    counted: Counted,
    /// What is counted, where the trace has it from nowhere else: blocks are of it.
    kept: Option<Vec<u8>>,
}

/// Whether addresses of a launch are those of the application's, as it is run here.
///
/// # Errors
/// Where it may not even execute the same, for want of what its memory held.
fn are_accesses_known(launch: &Launch, program: &clscope_mix::Program) -> Result<bool, String> {
    let Some(why) = launch.lacks() else { return Ok(true) };
    let data = program.data(&launch.kernel);
    match data.blocks {
        true => Err(format!(
            "what it executes may depend on what its memory held, which was not kept: {why}"
        )),
        false => Ok(!data.addresses),
    }
}

/// The copy, and the language that is counted.
fn copy(stage: &Stage<'_>, built: &Built, path: &OsStr, accesses: bool) -> Result<Copied, String> {
    let said = |error: clscope_mix::Error| error.to_string();
    let launch = &stage.capture.launch;
    let of_module = |module: &[u8], kept| {
        let (language, code) = ("spv", clscope_trace::hash(module));
        let counted = spirv::counted(module).map_err(said)?;
        are_accesses_known(launch, &counted.program)?;
        Ok(Copied { language, code, counted, kept })
    };
    let program = &launch.program;
    let text = |language: &str| {
        let file = program.own_files().find(|file| file.language == language);
        file.map(|file| stage.capture.program(file).map_err(|error| error.to_string())).transpose()
    };
    // Of a binary that is PTX blocks are those that run; sources are translated by another compiler.
    if let Some(binary) = built.program().binary().filter(|binary| ptx::is_ptx(binary)) {
        let (language, code) = ("ptx", clscope_trace::hash(&binary));
        let only = Some(launch.kernel.as_str());
        let mut counted = ptx::counted(&binary, accesses, only).map_err(said)?;
        if !are_accesses_known(launch, &counted.program)? && accesses {
            counted = ptx::counted(&binary, false, only).map_err(said)?;
        }
        return Ok(Copied { language, code, counted, kept: Some(binary) });
    }
    let facts = stage.session.facts();
    let takes_spir = facts.extensions.split_whitespace().any(|e| e == "cl_khr_spir");
    if stage.limits.languages.is_empty() && !takes_spir {
        return Err(
            "the device takes neither SPIR-V (clCreateProgramWithIL) nor SPIR (cl_khr_spir), \
             and its runtime hands out no PTX"
                .into(),
        );
    }
    // Another version than the captured one has its source alone.
    if built.who == Who::Captured
        && let Some(module) = text("spirv")?
    {
        return of_module(&module, None);
    }
    let source = match &built.source {
        Some(source) => Some(source.clone().into_bytes()),
        None => text("opencl-c")?,
    };
    let source = source.ok_or(
        "the runtime hands out no PTX, and the capture has neither SPIR-V nor a source of the program",
    )?;
    if program.headers().next().is_some() {
        return Err(
            "the runtime hands out no PTX, and a source with headers is not translated".into()
        );
    }
    let module = compiler::translate(&source, &built.options, path).map_err(|why| {
        format!("the runtime hands out no PTX, and its source was not translated to SPIR-V: {why}")
    })?;
    of_module(&module.clone(), Some(module))
}

fn summed(
    stage: &Stage<'_>,
    built: &Built,
    (language, code): (&str, &str),
    counted: &Counted,
    read: &[u8],
) -> Result<KernelMix, String> {
    let (words, _) = read.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    let counts = counted.read(&words).map_err(|error| error.to_string())?;
    let launch = &stage.capture.launch;
    let numbers = |of: &[usize]| of.iter().map(|n| *n as u64).collect::<Vec<u64>>();
    let range = &built.range;
    let items = range.global.iter().fold(1u64, |all, n| all.saturating_mul(*n as u64));
    let program = &counted.program;
    let entered = program.entered(&launch.kernel, &counts).unwrap_or(0);
    if entered != items {
        return Err(format!("{entered} work-items were counted of {items}"));
    }
    let mut mix = program.mix(&counts);
    for (class, transactions) in &counts.transactions {
        if let Some(tally) = mix.classes.get_mut(class) {
            tally.transactions = Some(*transactions);
        }
    }
    let all = mix.total();
    let groups = range.local.as_ref().map(|local| {
        let each = range.global.iter().zip(local).map(|(all, one)| all.div_ceil((*one).max(1)));
        each.fold(1u64, |all, n| all.saturating_mul(n as u64))
    });
    let warps = |at: usize| counts.warps.as_ref().and_then(|warps| warps.get(at).copied());
    let blocks = counts.threads.iter().enumerate().filter(|(_, threads)| **threads > 0);
    let blocks = blocks.filter_map(|(at, n)| Some((u32::try_from(at).ok()?, (*n, warps(at)))));
    let head = |at: usize| {
        let threads = counts.threads.get(at).copied().filter(|n| *n > 0)?;
        Some(Loop { block: u32::try_from(at).ok()?, threads, warps: warps(at) })
    };
    Ok(KernelMix {
        kernel: launch.kernel.clone(),
        shown: launch.kernel.clone(),
        device: stage.session.facts().name.clone(),
        offset: range.offset.as_deref().map(numbers).unwrap_or_default(),
        global: numbers(&range.global),
        local: range.local.as_deref().map(numbers).unwrap_or_default(),
        launches: 1,
        counted: 1,
        spread: Some((all.threads, all.threads)),
        longest_group: groups.and_then(|groups| counts.longest_group(groups)),
        entered,
        language: language.to_owned(),
        code: code.to_owned(),
        blocks: blocks.collect(),
        loops: program.loops.keys().filter_map(|at| head(*at)).collect(),
        unknown: program.unknown.iter().cloned().collect(),
        mix,
        ..KernelMix::default()
    })
}
