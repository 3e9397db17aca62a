//! `clscope programs`: the sources and binaries that a trace keeps, listed or written out. Refuses
//! to write over anything, and to let a name from a trace lead out of the folder asked for.

use crate::output::{count, say, show};
use anyhow::{Result, bail};
use clscope_capture::disassembler;
use clscope_profile::profile::{Options, Profile};
use clscope_profile::programs::{Code, extract, write_each};
use std::path::PathBuf;

/// Options of `clscope programs`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope programs                             sources and binaries of the newest trace
  clscope programs run1 -o sources             writes them into the folder sources
  clscope programs run1 -o asm --format text   machine code as text, by the tools that are installed")]
pub struct Args {
    /// Trace directories [default: the newest of the working directory]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Write them into this folder, which is made if missing: KERNEL-HASH.LANGUAGE each
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// What is written
    #[arg(long, value_enum, default_value_t = Format::Kept, requires = "output")]
    format: Format,
    #[command(flatten)]
    names: crate::args::NameArgs,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// What the trace keeps, as it is
    Kept,
    /// The machine code of binaries as text: KERNEL-HASH.s each. It takes llvm-objdump or objdump
    /// (processors, AMD), nvdisasm or cuobjdump (NVIDIA), spirv-dis (SPIR-V)
    Text,
}

/// Runs the command.
///
/// # Errors
/// If there is no trace, or a file cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let profile = Profile::open(&args.traces)?;
    let view = profile.view(Options { form: args.names.form(false), ..Options::default() });
    crate::report::warn_opened(&view);
    let programs = view.programs();
    let Some(folder) = &args.output else {
        return show(|out| clscope_text::programs::list(out, &programs));
    };
    if args.format == Format::Text {
        let binaries: Vec<Code> = programs
            .into_iter()
            .filter(|c| !["cl", "ptx"].contains(&c.language.as_str()))
            .collect();
        if binaries.is_empty() {
            bail!("the trace keeps no binary: only text, which -o writes without --format");
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let make = |_: &Code, bytes: Vec<u8>| {
            let made = disassembler::disassemble(&bytes, &path)?;
            Ok(("s".to_owned(), made.text.into_bytes()))
        };
        let written = write_each(&binaries, folder, &|text| say(text), &make)?;
        say!("{} in {}", count(written, "program", "programs"), folder.display());
        return Ok(());
    }
    let written = extract(&programs, folder, &|text| say(text))?;
    say!("{} in {}", count(written, "program", "programs"), folder.display());
    Ok(())
}
