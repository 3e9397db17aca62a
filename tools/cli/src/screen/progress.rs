//! Owns the line on a terminal's standard error that says what a command is at, and for how long,
//! once it has taken more than two seconds. It is taken away before anything else is written.
//! Refuses to write where standard error is no terminal.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// From when on the line is shown, and how often it is written anew.
const AFTER: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_millis(500);

/// What has a line of its own while it works.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
pub struct ProgressArgs {
    /// Show no progress on standard error
    #[arg(short, long)]
    quiet: bool,
}

impl ProgressArgs {
    /// Begins with a stage.
    pub fn start(self, stage: &'static str) -> Progress {
        if self.quiet { Progress::hidden() } else { Progress::start(stage) }
    }
}

/// The line; it is gone when this is dropped.
pub struct Progress {
    stages: Option<Sender<&'static str>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// One that shows nothing.
    fn hidden() -> Self {
        Self { stages: None, thread: None }
    }

    /// Begins with a stage.
    fn start(stage: &'static str) -> Self {
        let (stages, next) = channel();
        if !std::io::stderr().is_terminal() {
            return Self::hidden();
        }
        let show = move || {
            let (begin, mut stage, mut wait, mut is_shown) = (Instant::now(), stage, AFTER, false);
            loop {
                match next.recv_timeout(wait) {
                    Ok(new) => {
                        stage = new;
                        wait = AFTER.saturating_sub(begin.elapsed());
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => wait = EVERY,
                }
                if begin.elapsed() >= AFTER {
                    is_shown = true;
                    let text = line(stage, begin.elapsed());
                    let _ = write!(std::io::stderr(), "\r{text}\x1b[K");
                }
            }
            if is_shown {
                let _ = write!(std::io::stderr(), "\r\x1b[K");
            }
        };
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(show).ok();
        Self { stages: Some(stages), thread }
    }

    /// Goes on with another stage.
    pub fn stage(&self, stage: &'static str) {
        if let Some(stages) = &self.stages {
            // Where the thread could not be started nobody listens.
            let _ = stages.send(stage);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.stages = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn line(stage: &str, elapsed: Duration) -> String {
    format!("clscope: {stage} ({:.0} s)", elapsed.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_and_for_how_long() {
        assert_eq!(line("reads records", Duration::from_secs(12)), "clscope: reads records (12 s)");
    }

    #[test]
    fn it_ends_at_once_whether_or_not_it_was_shown() {
        let progress = Progress::start("reads records");
        progress.stage("attributes energy");
        drop(progress);
    }
}
