//! Owns what a capture holds of the kernel's program: every form that is known of it. Refuses
//! programs of which there is none, such as built-in kernels.

use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::facts::arguments::ask;
use crate::facts::info;
use crate::facts::programs::{binary, build_text, origin};
use crate::runtime::functions as api;
use clscope_mix::spirv;

/// Most bytes of one form of a program.
const MOST: usize = 64 << 20;

/// A form of a program: its file, its language as `launch.json` names it, its bytes.
pub struct Form {
    pub file: &'static str,
    pub language: &'static str,
    pub bytes: Vec<u8>,
}

/// A program.
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
    pub fn of(slot: usize, kernel: H, device: H) -> Result<Self, String> {
        let program: usize = ask(api::clGetKernelInfo.behind(slot), kernel, cl::CL_KERNEL_PROGRAM)
            .ok_or("the kernel's program is not known")?;
        let program = program as H;
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
        // A linked program's text is in the programs that it was linked of.
        if is_text && origin != Some("linked") {
            forms.push(Form { file: "program.cl", language: "opencl-c", bytes: source });
        }
        let il = info::bytes_up_to(about, program, cl::CL_PROGRAM_IL, MOST).unwrap_or_default();
        if spirv::is_spirv(&il) {
            forms.push(Form { file: "program.spv", language: "spirv", bytes: il });
        }
        match binary(slot, program, device, MOST) {
            Ok(bytes) => forms.push(Form { file: "program.bin", language: "binary", bytes }),
            Err(why) => missing = Some(format!("no binary: {why}")),
        }
        match (origin, forms.iter().any(|form| form.language != "binary")) {
            (_, true) => {}
            (Some("linked"), _) => {
                missing = Some(
                    "no source: the program was linked of others, whose texts are in the trace's \
                     folder programs"
                        .to_owned(),
                );
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
        let options = build_text(slot, program, device, cl::CL_PROGRAM_BUILD_OPTIONS);
        Ok(Self { origin, options, forms, missing })
    }

    /// Bytes of all forms.
    pub fn bytes(&self) -> u64 {
        self.forms.iter().map(|form| form.bytes.len() as u64).sum()
    }
}
