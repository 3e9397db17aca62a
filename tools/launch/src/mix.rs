//! What a launch executes, by class of instruction: it is run once from a copy of its program that
//! counts its basic blocks, as `clscope record --mix` does beside an application. Refuses to
//! translate sources: programs in SPIR-V are counted, and those of runtimes that hand out PTX.

use crate::stage::{Built, Form, Stage};
use clscope_mix::{Counted, ptx, spirv};
use clscope_opencl::{Argument, Range};
use clscope_profile::mixes::{KernelMix, Loop};

/// What the copy is called in messages.
const NAME: &str = "a copy of the program that counts";

/// Counts a launch of a version, from the captured contents, which are put back.
///
/// # Errors
/// Why it cannot be counted, as a sentence's end.
pub fn count(stage: &Stage<'_>, built: &Built) -> Result<KernelMix, String> {
    let said = |error: &dyn std::error::Error| error.to_string();
    stage.tell(&built.who);
    let (language, counted) = copy(stage, built)?;
    let session = &stage.session;
    let program = match language {
        "ptx" => session.load(NAME, &counted.code, ""),
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
    summed(stage, built, language, &counted, &read)
}

/// The copy, and the language that is counted.
fn copy(stage: &Stage<'_>, built: &Built) -> Result<(&'static str, Counted), String> {
    let said = |error: clscope_mix::Error| error.to_string();
    if built.form == Form::Il {
        let files = &stage.capture.launch.program.files;
        let file = files.iter().find(|file| file.language == "spirv");
        let file = file.ok_or("the capture has no program in SPIR-V")?;
        let module = stage.capture.program(file).map_err(|error| error.to_string())?;
        return Ok(("spv", spirv::counted(&module).map_err(said)?));
    }
    match built.program().binary() {
        Some(binary) if ptx::is_ptx(&binary) => {
            Ok(("ptx", ptx::counted(&binary, false).map_err(said)?))
        }
        _ => Err("the runtime hands out no PTX, and the program was not built from SPIR-V; \
                  `clscope record --mix` counts it in the application"
            .to_owned()),
    }
}

fn summed(
    stage: &Stage<'_>,
    built: &Built,
    language: &str,
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
    let mix = program.mix(&counts);
    let all = mix.total();
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
        entered,
        language: language.to_owned(),
        code: clscope_trace::hash(&counted.code),
        blocks: blocks.collect(),
        loops: program.loops.iter().filter_map(|at| head(*at)).collect(),
        unknown: program.unknown.iter().cloned().collect(),
        mix,
        ..KernelMix::default()
    })
}
