//! Owns the child in which loaders and drivers are tried. A driver that crashes or hangs there is
//! an answer like any other. Refuses to call OpenCL in the process that asks: see [`ask`].
#![forbid(unsafe_code)]

use crate::calibrate::{load, streams};
use clscope_capture::system::signal_name;
pub use clscope_opencl::survey::Answer;
use clscope_opencl::survey::{driver, examine, path_of};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The first argument of a child; the question follows. Its program calls [`answer`].
pub const SUBCOMMAND: &str = "__probe";
/// A driver that compiles something at its first use may take seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a child failed to answer. Reads on from the name of what was tried.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// It was never there.
    #[error("could not be tried in a process of its own")]
    Start(#[from] io::Error),
    /// It hung.
    #[error("did not answer within {} s", .0.as_secs())]
    Late(Duration),
    /// A signal ended it.
    #[error("crashed when it was tried ({})", signal_name(*.0))]
    Crashed(i32),
    /// It ended without an answer.
    #[error("ended when it was tried ({0})")]
    Ended(ExitStatus),
}

/// Queries a child.
///
/// # Errors
/// How the child failed to answer.
pub fn ask(program: &Path, question: &[impl AsRef<OsStr>]) -> Result<Answer, NoAnswer> {
    ask_for(program, question, PATIENCE)
}

/// As [`ask`], for an answer of another kind that may take longer.
///
/// # Errors
/// As for [`ask`].
pub fn ask_for<T: DeserializeOwned>(
    program: &Path,
    question: &[impl AsRef<OsStr>],
    patience: Duration,
) -> Result<T, NoAnswer> {
    let mut child = Command::new(program)
        .arg(SUBCOMMAND)
        .args(question)
        // Layers and preloads of the user's would answer in the place of what is examined.
        .env_remove("LD_PRELOAD")
        .env_remove("LD_AUDIT")
        .env_remove("OPENCL_LAYERS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let deadline = Instant::now() + patience;
    // The answer fits in the pipe's buffer many times over, unless a driver prints; so it is read
    // while waiting.
    let mut pipe = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = &mut pipe {
            let _ = io::Read::read_to_end(pipe, &mut bytes);
        }
        bytes
    });
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(NoAnswer::Late(patience));
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let bytes = reader.join().unwrap_or_default();
    // Drivers may print on stdout too, and what they buffered comes after the answer.
    let text = String::from_utf8_lossy(&bytes);
    match text.lines().rev().find_map(|line| serde_json::from_str(line).ok()) {
        // A crash at exit, after the answer, is common among drivers and does no harm.
        Some(answer) => Ok(answer),
        None => Err(status.signal().map_or(NoAnswer::Ended(status), NoAnswer::Crashed)),
    }
}

/// The child's side: answers one question on a line of its own.
///
/// # Errors
/// If the answer cannot be written.
pub fn answer(question: &[OsString], out: &mut dyn io::Write) -> io::Result<()> {
    if let [what] = question {
        if what == streams::QUESTION {
            return line(&streams::measure(), out);
        }
        if what == load::QUESTION {
            return line(&load::load_gpus(), out);
        }
    }
    let answer = match question {
        [what, name] if what == "path" => path_of(name),
        [what, path] if what == "loader" => examine(path),
        [what, name] if what == "driver" => driver(name),
        _ => Answer { error: Some("unknown question".to_owned()), ..Answer::default() },
    };
    line(&answer, out)
}

fn line(answer: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    // After whatever the driver printed: the answer is a line of its own.
    writeln!(out, "\n{}", serde_json::to_string(answer)?)
}
