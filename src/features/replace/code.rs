//! Second kernels: made of a file, in a program of the recorder's own that is built for the devices
//! and with the options of the application's, once for a program and a file. Refuses to run one
//! that takes other arguments.

use super::super::beside::program::{self, Failed};
use super::signature;
use crate::abi::constants as cl;
use crate::abi::entry::H;
use crate::abi::functions::id;
use crate::abi::signatures as f;
use crate::facts::programs::build_text;
use crate::facts::{info, objects};
use crate::os::locks::fork_safe::ForkSafe;
use crate::os::shared::maps::HashMap;
use crate::os::undisturbed::undisturbed;
use crate::recording;
use crate::recording::files::programs;
use crate::runtime::functions as api;
use clscope_io::input;
use clscope_mix::{ptx, spirv};
use clscope_trace::record::error_text;
use clscope_trace::{defs, replace};
use std::path::Path;
use std::sync::Arc;

/// Longest build log kept, in bytes.
const LONGEST_LOG: usize = 64 * 1024;
/// Lets the runtime tell the types of arguments; what is compiled stays the same.
const TELL_ARGUMENTS: &str = "-cl-kernel-arg-info";

/// What a file holds.
struct File {
    /// As [`defs::Code`] names it.
    language: &'static str,
    bytes: Vec<u8>,
}

/// A program of the recorder's own.
pub struct Program {
    id: u32,
    handle: usize,
    release: f::clReleaseProgram,
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: made by us, released once, by the last that uses it.
        unsafe { (self.release)(self.handle()) };
    }
}

/// A second kernel.
pub struct Shadow {
    handle: usize,
    release: f::clReleaseKernel,
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // SAFETY: made by us, released once, by the last that uses it.
        unsafe { (self.release)(self.handle()) };
    }
}

impl Program {
    fn handle(&self) -> H {
        // SAFETY: made by us, and live while it is held here.
        unsafe { H::from_word(self.handle) }
    }
}

impl Shadow {
    pub fn handle(&self) -> H {
        // SAFETY: made by us, and live while it is held here.
        unsafe { H::from_word(self.handle) }
    }
}

/// What became of a request for a kernel.
#[derive(Clone)]
pub struct Code {
    pub file: String,
    /// Id of our program, 0 where there is none.
    pub program: u32,
    /// The second kernel, or why there is none.
    pub kernel: Result<Arc<Shadow>, String>,
}

/// A program that was made, or its id, which is 0 where none was, and why not.
type Made = Result<Arc<Program>, (u32, String)>;

static FILES: ForkSafe<HashMap<String, Result<Arc<File>, String>>> = ForkSafe::new();
/// By the application's program and the file.
static PROGRAMS: ForkSafe<HashMap<(usize, String), Made>> = ForkSafe::new();

/// The language of what a file holds, as [`defs::Code`] names it.
fn language(bytes: &[u8]) -> &'static str {
    match bytes {
        bytes if spirv::is_spirv(bytes) => "spv",
        bytes if ptx::is_ptx(bytes) => "ptx",
        bytes if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() => "bin",
        _ => "cl",
    }
}

fn file(path: &str) -> Result<Arc<File>, String> {
    if let Some(Some(known)) = FILES.with(|files| files.get(path).cloned()) {
        return known;
    }
    let read = undisturbed(|| input::read(Path::new(path), replace::MOST_FILE))
        .map(|bytes| Arc::new(File { language: language(&bytes), bytes }))
        .map_err(|error| format!("the file cannot be read: {error}"));
    FILES.with(|files| files.insert(path.to_owned(), read.clone()));
    read
}

/// The application is about to give back a program: ours goes with it, and is made again should
/// another kernel of it be asked for.
pub fn program_ends(program: H) {
    let gone = PROGRAMS.with(|all| {
        let keys: Vec<_> = all.keys().filter(|key| key.0 == program.word()).cloned().collect();
        keys.iter().filter_map(|key| all.remove(key)).collect::<Vec<_>>()
    });
    // Outside of the lock: releasing a program is a call of the runtime.
    drop(gone);
}

/// The second kernel of one of the application's.
pub fn code_of(slot: usize, kernel: H, name: &str, path: &str) -> Code {
    let refused = |program, why| Code { file: path.to_owned(), program, kernel: Err(why) };
    let about = api::clGetKernelInfo.behind(slot);
    let theirs = info::handle(about, kernel, info::KERNEL_PROGRAM);
    if theirs.is_null() {
        return refused(0, "its program is not known".to_owned());
    }
    let program = match program(slot, theirs, path) {
        Ok(program) => program,
        Err((id, why)) => return refused(id, why),
    };
    match made(slot, kernel, &program, name) {
        Ok(made) => Code { file: path.to_owned(), program: program.id, kernel: Ok(Arc::new(made)) },
        Err(why) => refused(program.id, why),
    }
}

fn program(slot: usize, theirs: H, path: &str) -> Made {
    let key = (theirs.word(), path.to_owned());
    if let Some(Some(known)) = PROGRAMS.with(|all| all.get(&key).cloned()) {
        return known;
    }
    let built = built(slot, theirs, path);
    drop(PROGRAMS.with(|all| all.insert(key, built.clone())));
    built
}

fn built(slot: usize, theirs: H, path: &str) -> Made {
    let none = |why: &str| (0, why.to_owned());
    let file = file(path).map_err(|why| (0, why))?;
    let about = api::clGetProgramInfo.behind(slot);
    let context = info::handle(about, theirs, info::PROGRAM_CONTEXT);
    if context.is_null() {
        return Err(none("the context of its program is not known"));
    }
    let devices = info::handles(about, theirs, info::PROGRAM_DEVICES);
    let first = *devices.first().ok_or_else(|| none("the devices of its program are not known"))?;
    let release = api::clReleaseProgram
        .behind(slot)
        .ok_or_else(|| none("the runtime lacks clReleaseProgram"))?;
    let mut options = build_text(slot, theirs, first, cl::CL_PROGRAM_BUILD_OPTIONS);
    if file.language == "cl" && !options.contains(TELL_ARGUMENTS) {
        options = format!("{options} {TELL_ARGUMENTS}").trim_start().to_owned();
    }
    let program = program::built(slot, context, &devices, file.language, &file.bytes, &options);
    let program_id = objects::new_id();
    recording::define(
        &defs::Program {
            id: program_id,
            context: objects::id(context),
            origin: "replacement".to_owned(),
            hash: clscope_trace::hash(&file.bytes),
            bytes: file.bytes.len() as u64,
        }
        .into(),
    );
    programs::keep(program_id, 0, file.language, &file.bytes);
    let (result, log) = match &program {
        Ok(_) => (0, String::new()),
        Err(Failed { what, log, code }) => (*code, log.clone().unwrap_or_else(|| what.clone())),
    };
    recording::define(
        &defs::Build {
            program: program_id,
            function: id::clBuildProgram,
            options,
            result,
            log: log.chars().take(LONGEST_LOG / 4).collect(),
        }
        .into(),
    );
    match program {
        Ok(handle) => Ok(Arc::new(Program { id: program_id, handle: handle.word(), release })),
        Err(Failed { what, log: Some(log), .. }) => {
            Err((program_id, format!("{what}\n{}", log.trim_end())))
        }
        Err(Failed { what, log: None, .. }) => Err((program_id, what)),
    }
}

fn made(slot: usize, theirs: H, program: &Program, name: &str) -> Result<Shadow, String> {
    let lacks = || "the runtime lacks a function of kernels".to_owned();
    let create = api::clCreateKernel.behind(slot).ok_or_else(lacks)?;
    let release = api::clReleaseKernel.behind(slot).ok_or_else(lacks)?;
    let c_name: Vec<u8> = name.bytes().filter(|b| *b != 0).chain([0]).collect();
    let mut error = 0;
    // SAFETY: a program of ours, and a C string.
    let kernel = unsafe { create(program.handle(), c_name.as_ptr().cast_mut().cast(), &mut error) };
    if error == cl::CL_INVALID_KERNEL_NAME {
        let about = api::clGetProgramInfo.behind(slot);
        let all = info::text(about, program.handle(), cl::CL_PROGRAM_KERNEL_NAMES);
        let near = replace::nearest(name, all.split(';').filter(|one| !one.is_empty()), 5);
        let near = if near.is_empty() { "none".to_owned() } else { near.join(", ") };
        return Err(format!("the file has no kernel of that name; nearest: {near}"));
    }
    if error != 0 || kernel.is_null() {
        return Err(format!("making its kernel failed, {}", error_text(error)));
    }
    let made = Shadow { handle: kernel.word(), release };
    let mut difference = signature::difference(slot, theirs, made.handle());
    if difference.is_none() && !signature::is_told(slot, theirs) {
        // A kernel of the application's own text, built so that the runtime tells.
        let twin = twin(slot, theirs, &c_name, create, release);
        difference =
            twin.and_then(|twin| signature::difference(slot, twin.handle(), made.handle()));
    }
    match difference {
        None => Ok(made),
        Some(why) => Err(why),
    }
}

/// A kernel like the application's whose arguments the runtime tells, where its program is of
/// source.
fn twin(
    slot: usize,
    theirs: H,
    name: &[u8],
    create: f::clCreateKernel,
    release: f::clReleaseKernel,
) -> Option<Shadow> {
    let about = api::clGetKernelInfo.behind(slot);
    let program = info::handle(about, theirs, info::KERNEL_PROGRAM);
    let devices = info::handles(api::clGetProgramInfo.behind(slot), program, info::PROGRAM_DEVICES);
    let options = build_text(slot, program, *devices.first()?, cl::CL_PROGRAM_BUILD_OPTIONS);
    let twin = program::twin(slot, program).ok()?;
    let options = format!("{options} {TELL_ARGUMENTS}");
    let built = program::build(slot, twin.handle, &devices, options.trim_start()).ok()?;
    let mut error = 0;
    // SAFETY: a program of ours that was built, and a C string.
    let kernel = (built == 0)
        .then(|| unsafe { create(twin.handle, name.as_ptr().cast_mut().cast(), &mut error) })?;
    (error == 0 && !kernel.is_null()).then(|| Shadow { handle: kernel.word(), release })
}

impl Code {
    /// For a kernel that the application made of another one: its arguments go with it.
    pub fn cloned(self, slot: usize) -> Self {
        let Ok(from) = &self.kernel else { return self };
        let kernel = match (api::clCloneKernel.behind(slot), api::clReleaseKernel.behind(slot)) {
            (Some(clone), Some(release)) => {
                let mut error = 0;
                // SAFETY: a kernel of ours, live while it is held here.
                let made = unsafe { clone(from.handle(), &mut error) };
                match error {
                    0 if !made.is_null() => Ok(Arc::new(Shadow { handle: made.word(), release })),
                    error => Err(format!("cloning its kernel failed, {}", error_text(error))),
                }
            }
            _ => Err("the runtime lacks clCloneKernel".to_owned()),
        };
        Self { kernel, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_are_told_by_content() {
        assert_eq!(language(b"kernel void a() {}"), "cl");
        assert_eq!(language(&[0x03, 0x02, 0x23, 0x07, 0, 0, 1, 0]), "spv");
        assert_eq!(language(b"//\n.version 8.0\n"), "ptx");
        assert_eq!(language(b"\x7fELF\x02\x01\x01\0\0"), "bin");
        assert_eq!(language(&[0xff, b'a']), "bin");
    }
}
