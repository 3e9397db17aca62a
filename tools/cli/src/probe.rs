//! Owns the child in which loaders and drivers are tried. A driver that crashes or hangs there is an
//! answer like any other. Refuses to call OpenCL in the process that asks: see [`ask`].
#![forbid(unsafe_code)]

use anyhow::{Result, bail};
pub use clscope_opencl::survey::Answer;
use clscope_opencl::survey::{driver, examine, path_of};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Name of the hidden subcommand.
pub const SUBCOMMAND: &str = "__probe";
/// A driver that compiles something at its first use may take seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Queries a child. The error is how the child failed to answer: it crashed or took too long.
pub fn ask(question: &[impl AsRef<OsStr>]) -> Result<Answer> {
    ask_for(question, PATIENCE)
}

/// As [`ask`], for an answer of another kind that may take longer.
pub fn ask_for<T: DeserializeOwned>(
    question: &[impl AsRef<OsStr>],
    patience: Duration,
) -> Result<T> {
    let mut child = Command::new(std::env::current_exe()?)
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
            let _ = std::io::Read::read_to_end(pipe, &mut bytes);
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
            bail!("did not answer within {} s", patience.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let bytes = reader.join().unwrap_or_default();
    // Drivers may print on stdout too, and what they buffered comes after the answer.
    let text = String::from_utf8_lossy(&bytes);
    match text.lines().rev().find_map(|line| serde_json::from_str(line).ok()) {
        // A crash at exit, after the answer, is common among drivers and does no harm.
        Some(answer) => Ok(answer),
        None => match status.signal() {
            Some(signal) => {
                bail!(
                    "crashed when it was tried ({})",
                    clscope_capture::system::signal_name(signal)
                )
            }
            None => bail!("ended when it was tried ({status})"),
        },
    }
}

/// The child's side: answers one question on stdout.
pub fn answer(question: &[OsString]) -> ExitCode {
    if let [what] = question {
        if what == crate::doctor::SPANS {
            return told(&crate::doctor::measure_spans());
        }
        if what == crate::doctor::LOAD {
            return told(&crate::doctor::put_load());
        }
    }
    let answer = match question {
        [what, name] if what == "path" => path_of(name),
        [what, path] if what == "loader" => examine(path),
        [what, name] if what == "driver" => driver(name),
        _ => Answer { error: Some("unknown question".to_owned()), ..Answer::default() },
    };
    told(&answer)
}

fn told(answer: &impl Serialize) -> ExitCode {
    match serde_json::to_string(answer) {
        Ok(text) => {
            // After whatever the driver printed: the answer is a line of its own.
            let _ = writeln!(crate::output::json(), "\n{text}");
            ExitCode::SUCCESS
        }
        Err(_) => ExitCode::FAILURE,
    }
}
