//! `clscope programs`: the sources and binaries that a trace keeps, listed or written out. Refuses to
//! write over anything, and to let a name from a trace lead out of the folder asked for.
#![forbid(unsafe_code)]

use crate::output::{count, say, screen};
use anyhow::{Context, Result, bail};
use clscope_io::output::{Access, create_new};
use clscope_profile::profile::{Options, Profile};
use clscope_profile::programs::Code;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Options of `clscope programs`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope programs                        sources and binaries of the newest trace
  clscope programs run1 --extract sources writes them into the folder sources")]
pub struct Args {
    /// Trace directories [default: the newest of the working directory]
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Write them into this folder, which is made if missing: KERNEL-HASH.LANGUAGE each
    #[arg(long, value_name = "DIR")]
    extract: Option<PathBuf>,
    #[command(flatten)]
    names: crate::args::NameArgs,
}

/// Runs the command.
///
/// # Errors
/// If there is no trace, or a file cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let profile = Profile::open(&args.traces)?;
    let programs =
        profile.view(Options { form: args.names.form(false), ..Options::default() }).programs();
    match &args.extract {
        None => list(&programs),
        Some(folder) => extract(&programs, folder),
    }
}

fn list(programs: &[Code]) -> Result<()> {
    let mut out = screen();
    if programs.is_empty() {
        writeln!(
            out,
            "The trace names no program: the application made none while it was recorded."
        )?;
    }
    for code in programs {
        writeln!(
            out,
            "{}.{}  {} bytes, of {}",
            code.hash,
            code.language,
            code.bytes,
            count(code.programs, "program", "programs")
        )?;
        let kernels: Vec<&str> = code.kernels.iter().map(String::as_str).collect();
        if !kernels.is_empty() {
            writeln!(out, "    kernels: {}", kernels.join(", "))?;
        }
        for options in &code.options {
            writeln!(out, "    options: {options}")?;
        }
        if !code.missing.is_empty() {
            writeln!(out, "    not kept: {}", code.missing)?;
        }
    }
    Ok(out.flush()?)
}

/// A file name that says what is in it, of harmless characters alone.
fn file_name(code: &Code) -> String {
    let kernel = code.kernels.first().map_or("program", String::as_str);
    let kernel: String = kernel
        .chars()
        .take(40)
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' })
        .collect();
    let hash: String = code.hash.chars().take(12).collect();
    format!("{kernel}-{hash}.{}", code.language)
}

fn extract(programs: &[Code], folder: &Path) -> Result<()> {
    let shown = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {shown}"))?;
    let mut written = 0;
    for code in programs {
        if code.path.is_none() {
            say(format_args!("{}.{} is left out: {}", code.hash, code.language, code.missing));
            continue;
        }
        let bytes = code
            .read()
            .with_context(|| format!("cannot read {}.{} of the trace", code.hash, code.language))?;
        let path = folder.join(file_name(code));
        let mut file = create_new(&path, Access::Umask)
            .with_context(|| format!("cannot write {}; choose another folder", path.display()))?;
        file.write_all(&bytes).with_context(|| format!("cannot write {}", path.display()))?;
        written += 1;
    }
    if written == 0 {
        bail!("the trace keeps no program; record without --no-programs");
    }
    say(format_args!("{} in {shown}", count(written, "program", "programs")));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_lead_nowhere_else() {
        let code = Code {
            hash: "0123456789abcdef0123456789abcdef".to_owned(),
            language: "cl".to_owned(),
            kernels: [String::from("../../etc/x\u{1b}[31m")].into(),
            ..Code::default()
        };
        assert_eq!(file_name(&code), "______etc_x__31m-0123456789ab.cl");
        assert_eq!(file_name(&Code::default()), "program-.");
    }
}
