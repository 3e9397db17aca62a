//! Owns what a capture holds of the kernel's program: every form that is known of it. Some runtimes
//! answer nothing about a program that the application has given back, though its kernels go on: they
//! are asked before. Refuses programs of which there is none, such as built-in kernels.
#![forbid(unsafe_code)]

use super::{info as info_of, is_free};
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::ask;
use crate::facts::programs::{binary, build_text, origin};
use crate::facts::{compiled, info};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::memory;
use crate::os::shared::maps::HashMap;
use crate::runtime::functions as api;
use crate::settings::config;
use clscope_mix::spirv;
use std::sync::Arc;

/// Most bytes of one form of a program, and of all that are kept of programs.
const MOST: usize = 64 << 20;

/// Bytes that a runtime may take to hand a binary out: PoCL 3.1 takes 256 MiB at a time, and does not
/// survive that they are refused.
const ASKING: usize = 1 << 30;

/// What is known of programs, by program and device: it is asked for once, and goes on to be known
/// where the application has given the program back. Handles come again, and a program may be built
/// again: then it is [forgotten](made).
static KNOWN: ForkSafe<HashMap<(usize, usize), Arc<Program>>> = ForkSafe::new();

/// The application makes a program, or has built it.
pub fn made(program: H) {
    if !program.is_null() {
        KNOWN.with(|all| all.retain(|(of, _), _| *of != program.word()));
    }
}

/// The application is about to give a program back. Where that is the last reference, the runtime
/// may say nothing about it later.
pub fn released(slot: usize, program: H) {
    let about = api::clGetProgramInfo.behind(slot);
    let is_last = ask(about, program, cl::CL_PROGRAM_REFERENCE_COUNT) == Some(1_u32);
    // A runtime may ask the system for what it hands out.
    if !is_last || is_free() != Some(true) {
        return;
    }
    for device in info::handles(about, program, info::PROGRAM_DEVICES) {
        let _ = Program::known(slot, program, device);
    }
}

/// A form of a program: its file, its language as `launch.json` names it, its bytes. A header has
/// the name by which the source includes it.
#[derive(Clone)]
pub struct Form {
    pub file: String,
    pub language: &'static str,
    pub bytes: Vec<u8>,
    pub include: Option<String>,
}

impl Form {
    fn new(file: &str, language: &'static str, bytes: Vec<u8>) -> Self {
        Self { file: file.to_owned(), language, bytes, include: None }
    }
}

/// A program.
#[derive(Clone)]
pub struct Program {
    pub origin: &'static str,
    pub options: String,
    pub forms: Vec<Form>,
    /// Why a form that one would look for is not there.
    pub missing: Option<String>,
}

impl Program {
    /// The program of a kernel, for a device.
    ///
    /// # Errors
    /// Why there is nothing to keep.
    pub fn find(slot: usize, kernel: H, device: H) -> Result<Arc<Self>, String> {
        let about = api::clGetKernelInfo.behind(slot);
        let program = info::handle(about, kernel, info::KERNEL_PROGRAM);
        if program.is_null() {
            return Err("the kernel's program is not known".to_owned());
        }
        Self::known(slot, program, device)
    }

    /// What is known of a program, which is asked for where it is not yet.
    fn known(slot: usize, program: H, device: H) -> Result<Arc<Self>, String> {
        let key = (program.word(), device.word());
        if let Some(found) = KNOWN.with(|all| all.get(&key).cloned()).flatten() {
            return Ok(found);
        }
        let found = Arc::new(Self::of_program(slot, program, device)?);
        KNOWN.with(|all| {
            let held: u64 = all.values().map(|of| of.bytes()).sum();
            if held.saturating_add(found.bytes()) <= MOST as u64 {
                all.insert(key, Arc::clone(&found));
            }
        });
        Ok(found)
    }

    fn of_program(slot: usize, program: H, device: H) -> Result<Self, String> {
        let origin = origin(program);
        if origin == Some("built-in") {
            return Err("it is a built-in kernel of the device: there is no program".to_owned());
        }
        let about = api::clGetProgramInfo.behind(slot);
        let mut forms = Vec::new();
        let mut missing = None;
        let mut source =
            info::bytes_up_to(about, program, cl::CL_PROGRAM_SOURCE, MOST).unwrap_or_default();
        if source.last() == Some(&0) {
            source.pop();
        }
        let is_text = !source.is_empty() && !source.contains(&0);
        let mut options = build_text(slot, program, device, cl::CL_PROGRAM_BUILD_OPTIONS);
        // A linked program's text is in the programs that it was linked from.
        let unit = (origin == Some("linked")).then(|| compiled::unit(program));
        match &unit {
            None if is_text => forms.push(Form::new("program.cl", "opencl-c", source)),
            Some(Ok(unit)) => {
                options.clone_from(&unit.options);
                forms.push(Form::new("program.cl", "opencl-c", unit.source.clone()));
                forms.extend(unit.headers.iter().enumerate().map(|(index, header)| Form {
                    include: Some(header.name.clone()),
                    // The name is the application's: it is no file's.
                    ..Form::new(&format!("header-{index}.h"), "opencl-c", header.text.clone())
                }));
            }
            _ => {}
        }
        let il = info::bytes_up_to(about, program, cl::CL_PROGRAM_IL, MOST).unwrap_or_default();
        if spirv::is_spirv(&il) {
            forms.push(Form::new("program.spv", "spirv", il));
        }
        // A processor's binary is made from the text wherever that is measured. Asking for it may
        // take many times what the application takes: PoCL compiles all kernels for it.
        let is_asked = forms.is_empty() || !config::get().captures.is_empty();
        match is_asked || !info_of::is_processor(slot, device) {
            true if !memory::can_map(ASKING) => {
                missing = Some("no binary: the process may have too little memory".to_owned());
            }
            true => match binary(slot, program, device, MOST) {
                Ok(bytes) => forms.push(Form::new("program.bin", "binary", bytes)),
                Err(why) => missing = Some(format!("no binary: {why}")),
            },
            false => missing = Some("no binary: a processor's is not asked for".to_owned()),
        }
        match (origin, forms.iter().any(|form| form.language != "binary")) {
            (_, true) => {}
            (Some("linked"), _) => {
                let why = unit.and_then(Result::err).unwrap_or_default();
                missing = Some(format!("no source: {why}"));
            }
            (Some("source" | "il"), _) => {
                missing = Some("the runtime does not hand out its text".to_owned());
            }
            _ => {}
        }
        if forms.is_empty() {
            let why = missing.unwrap_or_default();
            return Err(format!("the runtime hands out nothing of its program ({why})"));
        }
        // Where its making was not seen, by what there is of it.
        let origin = origin.unwrap_or(match forms.first().map(|form| form.language) {
            Some("opencl-c") => "source",
            Some("spirv") => "il",
            _ => "binary",
        });
        Ok(Self { origin, options, forms, missing })
    }

    /// Bytes of all forms.
    pub fn bytes(&self) -> u64 {
        self.forms.iter().map(|form| form.bytes.len() as u64).sum()
    }
}
