//! What is seen of a measurement while it runs: a bar, the cases that went wrong, and the interrupt
//! that ends it. Refuses to measure.

use crate::output::say;
use anyhow::{Context, Result};
use clscope_capture::system;
use clscope_microbench::results::{CaseResult, Status};
use clscope_microbench::run::Watch;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

/// A bar on standard error.
pub struct Progress {
    /// The bar.
    pub bar: ProgressBar,
    /// Set by the first interrupt; a second one ends the program at once.
    pub stop: &'static AtomicBool,
}

impl Progress {
    /// A bar, and the interrupt's flag: what is measured is kept from then on.
    ///
    /// # Errors
    /// If interrupts cannot be watched for.
    pub fn new() -> Result<Progress> {
        let stop = system::interrupt_flag().context("cannot watch for Ctrl-C")?;
        let bar = if std::io::stderr().is_terminal() {
            ProgressBar::new(0)
        } else {
            ProgressBar::hidden()
        };
        if let Ok(style) =
            ProgressStyle::with_template("{bar:24} {pos}/{len} {elapsed} (left: {eta}) {msg}")
        {
            bar.set_style(style);
        }
        Ok(Progress { bar, stop })
    }
}

impl Watch for Progress {
    fn begin(&mut self, id: &str, done: usize, total: usize) {
        self.bar.set_length(total as u64);
        self.bar.set_position(done as u64);
        self.bar.set_message(id.to_owned());
    }
    fn end(&mut self, result: &CaseResult) {
        if matches!(result.status, Status::Wrong | Status::Failed) {
            let reason = result.reason.as_deref().unwrap_or("no reason given");
            self.bar.suspend(|| say(format_args!("{}: {reason}", result.id)));
        }
    }
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
