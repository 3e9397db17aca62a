//! `clscope ctl`: pauses and resumes recording in running processes, through the control word of their ring files. The
//! application gets no signal and runs no code of ours for it: its next OpenCL call sees the word.

use anyhow::{Context, Result, bail};
use clscope_trace::file::control;
use clscope_trace::{FileHeader, FileKind};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Command {
    /// Record from the next OpenCL call on
    Start,
    /// Pass calls on without recording them
    Stop,
    /// Say what is recording
    Status,
}

/// Options of `clscope ctl`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope ctl run1.clscope stop       pauses every process of a trace
  clscope ctl 4711 start              resumes one process, whose trace is in this directory or below")]
pub struct Args {
    /// A trace directory, or the id of a process that records into one in this directory
    #[arg(value_name = "TRACE|PID")]
    target: PathBuf,
    /// What to do
    #[arg(value_enum)]
    command: Command,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<()> {
    let rings = rings(&args.target)?;
    for ring in &rings {
        let paused = apply(ring, args.command).with_context(|| format!("cannot change {}", ring.display()))?;
        let name = ring.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        println!("{name}: {}", if paused { "paused" } else { "recording" });
    }
    Ok(())
}

/// Sets the control word of one ring file; `true` if recording is paused now.
pub fn apply(ring: &Path, command: Command) -> Result<bool> {
    let file = OpenOptions::new().read(true).write(command != Command::Status).open(ring)?;
    let mut head = [0u8; control::WORD + 4];
    file.read_exact_at(&mut head, 0).context("it is shorter than a ring file's header")?;
    FileHeader::decode_as(&head[..control::WORD], FileKind::Ring)?;
    let word = u32::from_le_bytes([head[128], head[129], head[130], head[131]]);
    let was_paused = word & control::PAUSED != 0;
    let next = match command {
        Command::Status => return Ok(was_paused),
        Command::Stop => control::PAUSED,
        Command::Start if was_paused => control::RESUMED,
        Command::Start => return Ok(false),
    };
    write(&file, next)?;
    Ok(next == control::PAUSED)
}

/// The word is one aligned store for everybody who has the page mapped.
fn write(file: &File, word: u32) -> Result<()> {
    file.write_all_at(&word.to_le_bytes(), control::WORD as u64)?;
    Ok(())
}

/// The ring files that the target names.
pub fn rings(target: &Path) -> Result<Vec<PathBuf>> {
    let pid = target.to_str().and_then(|t| t.parse::<u32>().ok()).filter(|_| !target.exists());
    let directories = match pid {
        None => vec![target.to_owned()],
        Some(_) => entries(Path::new("."))?.into_iter().filter(|p| p.extension().is_some_and(|e| e == "clscope")).collect(),
    };
    let mut found = Vec::new();
    for directory in &directories {
        for path in entries(directory)? {
            let stem = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
            let wanted = pid.is_none_or(|pid| stem.split('-').next() == Some(&pid.to_string()));
            if wanted && path.extension().is_some_and(|e| e == "ring") {
                found.push(path);
            }
        }
    }
    if found.is_empty() {
        match pid {
            Some(pid) => bail!("no trace in this directory has a process {pid}: name its trace directory"),
            None => bail!("{} holds no ring file: no process has recorded into it yet, or it could not map files", target.display()),
        }
    }
    found.sort();
    Ok(found)
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let list = fs::read_dir(directory).with_context(|| format!("cannot read the directory {}", directory.display()))?;
    Ok(list.filter_map(|e| e.ok().map(|e| e.path())).collect())
}
