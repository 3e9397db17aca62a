//! What the process in which a captured launch runs and the one that started it say to each other.
//! Its drivers, and kernels that reach where they must not, may end it without a word: the other
//! tells. Refuses to run a launch, and to be without the other.

use crate::progress::{At, Ended};
use crate::replay;
use clscope_capture::system;
use clscope_io::signals::without_signals;
use clscope_profile::measured::Measured;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// The first argument, and the only one, of a process that measures a launch of a
/// [`replay`](mod@crate::replay).
pub const REPLAY: &str = "__replay";

/// Most bytes of a line that one says to the other: what a launch executed, block by block, is the
/// longest.
pub const LINE: u64 = 16 << 20;

/// What the process is to do, beside its arguments: a line.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Job {
    /// Versions that ended earlier processes.
    pub ended: Vec<Ended>,
    /// A launch to be measured ([`replay`](mod@crate::replay)).
    pub replay: Option<replay::Job>,
}

/// What it says meanwhile: a line each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// What it does next.
    At(At),
    /// A launch has ended, and another one is to come.
    GoesOn,
    /// What it has measured.
    Measured(Box<Measured>),
    /// It has written all that it writes, and ends with this code.
    Done(u8),
}

/// Why there is nobody to say it to.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// Standard input cannot be taken.
    #[error("cannot reach the command that started this")]
    Unreachable(#[source] std::io::Error),
    /// What is read there is no job.
    #[error("this process is started by `clscope kernel`; start that instead")]
    Alone(#[source] std::io::Error),
}

/// The way to the process that started this one: its standard input, one end of a pair of sockets.
#[derive(Debug)]
pub struct Link {
    other: UnixStream,
}

impl Link {
    /// Reads what is to be done. From here on the process ends where the other does: without it
    /// there is nobody who would end a launch that does not end.
    ///
    /// # Errors
    /// If this process was started by something else.
    pub fn take() -> Result<(Self, Job), LinkError> {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        let other = UnixStream::from(stdin.map_err(LinkError::Unreachable)?);
        let mut line = String::new();
        let mut from = BufReader::new(other.try_clone().map_err(LinkError::Unreachable)?);
        from.by_ref().take(LINE).read_line(&mut line).map_err(LinkError::Alone)?;
        let job = serde_json::from_str(&line).map_err(|error| LinkError::Alone(error.into()))?;
        without_signals(|| {
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut std::io::sink());
                system::die_by(libc::SIGKILL);
            })
        });
        Ok((Self { other }, job))
    }

    /// Says a line.
    pub fn tell(&self, what: &Said) {
        let mut line = serde_json::to_vec(what).unwrap_or_default();
        line.push(b'\n');
        // Where the other is gone, so is this soon.
        let _ = (&self.other).write_all(&line);
    }
}
