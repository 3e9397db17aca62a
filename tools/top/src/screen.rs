//! The screen of `clscope top`: reads the trace, keys, and draws, until somebody leaves. Owns the
//! terminal's state, which it gives back however it ends; refuses to compute figures.

use crate::Options;
use crate::draw::{Picture, draw};
use crate::error::{Attempt, TopError};
use crate::state::{Action, Choices, History, sorted};
use crate::target::Target;
use crate::whole::Asked;
use clscope_capture::control::ControlCommand;
use clscope_capture::system::interrupt_flag;
use clscope_io::text::{chain, count};
use clscope_live::document::Document;
use clscope_live::follow::Follower;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How soon a signal and a page that was written are noticed.
const LOOK: Duration = Duration::from_millis(200);
/// Shortest time in which keys are waited for.
const BLINK: Duration = Duration::from_millis(1);
/// Pages of one trace.
const NAMES: u32 = 1_000;

/// Draws until the person leaves.
///
/// # Errors
/// If the trace or the terminal fails. The terminal is as it was before.
pub fn show(target: &mut Target, options: &Options<'_>) -> Result<(), TopError> {
    let ended = interrupt_flag().attempt("cannot take note of signals")?;
    // Errors of a wrong name are told before the screen is taken.
    let follower = target.follower()?;
    let mut terminal = ratatui::try_init().attempt("cannot draw on this terminal")?;
    let result = Screen::new(options).run(&mut terminal, target, follower, ended);
    ratatui::try_restore().attempt("cannot give the terminal back")?;
    result
}

/// The first of TRACE.html, TRACE-2.html, ... that is nothing yet in a directory: a page that was
/// written stays.
fn free_name(trace: &Path, directory: &Path) -> Option<OsString> {
    let stem = trace.file_stem().unwrap_or_default();
    (1..=NAMES).find_map(|n| {
        let mut name = stem.to_owned();
        match n {
            1 => name.push(".html"),
            n => name.push(format!("-{n}.html")),
        }
        // Also a link that leads nowhere is something.
        directory.join(&name).symlink_metadata().is_err().then_some(name)
    })
}

struct Screen<'a> {
    options: &'a Options<'a>,
    choices: Choices,
    history: History,
    /// The newest document, and the one shown, which differ on a frozen screen.
    newest: Option<Document>,
    frozen: Option<Document>,
    asked: Option<Asked>,
    message: String,
    writing: Option<(Child, String)>,
    /// Something changed since the screen was drawn.
    changed: bool,
}

impl<'a> Screen<'a> {
    fn new(options: &'a Options<'a>) -> Self {
        Self {
            options,
            choices: Choices::new(options.sort),
            history: History::default(),
            newest: None,
            frozen: None,
            asked: None,
            message: String::new(),
            writing: None,
            changed: true,
        }
    }

    fn run(
        mut self,
        terminal: &mut DefaultTerminal,
        target: &mut Target,
        mut follower: Option<Follower>,
        ended: &AtomicBool,
    ) -> Result<(), TopError> {
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                next = Instant::now() + self.options.interval;
                if follower.is_none() {
                    follower = target.follower()?;
                }
                if let Some(follower) = &mut follower {
                    self.read(follower, target)?;
                }
            }
            self.written()?;
            if std::mem::take(&mut self.changed) {
                self.draw(terminal, target)?;
            }
            // Not at once: without time to wait keys are not looked for.
            let wait = next.saturating_duration_since(Instant::now()).clamp(BLINK, LOOK);
            if event::poll(wait).attempt("cannot read keys")?
                && self.take(event::read().attempt("cannot read keys")?, target) == Action::Leave
            {
                return Ok(());
            }
            if ended.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    fn read(&mut self, follower: &mut Follower, target: &Target) -> Result<(), TopError> {
        let mut document = follower.poll(&|stem| target.state(stem))?;
        if self.asked.is_none() && document.lacks_the_whole() {
            self.asked = Some(
                Asked::begin(&target.path, self.options.energy.clone())
                    .attempt("cannot start a thread")?,
            );
        }
        if let Some(asked) = &mut self.asked {
            asked.enter(&mut document);
        }
        self.history.add(&document);
        self.newest = Some(document);
        self.changed = true;
        Ok(())
    }

    fn draw(&mut self, terminal: &mut DefaultTerminal, target: &Target) -> Result<(), TopError> {
        if self.choices.frozen && self.frozen.is_none() {
            self.frozen.clone_from(&self.newest);
        } else if !self.choices.frozen {
            self.frozen = None;
        }
        let waiting;
        let document = match self.frozen.as_mut().or(self.newest.as_mut()) {
            Some(document) => {
                sorted(document, self.choices.sort);
                &*document
            }
            None => {
                waiting = Document::waiting(target.path.display().to_string());
                &waiting
            }
        };
        let picture = Picture {
            document,
            choices: &self.choices,
            history: &self.history,
            look: self.options.look,
            message: &self.message,
        };
        terminal.draw(|frame| draw(frame, &picture)).attempt("cannot draw")?;
        Ok(())
    }

    fn take(&mut self, event: Event, target: &Target) -> Action {
        // Also a terminal of another size is drawn on anew.
        self.changed = true;
        let Event::Key(key) = event else { return Action::Nothing };
        if key.kind == KeyEventKind::Release {
            return Action::Nothing;
        }
        self.message.clear();
        let action = self.choices.key(key);
        match action {
            Action::Record => self.message = Self::record(target),
            Action::Write => self.write(&target.path),
            Action::Nothing | Action::Leave => {}
        }
        action
    }

    /// Turns recording off where a process records, else on.
    fn record(target: &Target) -> String {
        // Asked now: the document shows what was so an interval ago, perhaps before the last key.
        let toggled = target.is_recording().and_then(|records| {
            let (command, word) = match records {
                true => (ControlCommand::Stop, "paused"),
                false => (ControlCommand::Start, "resumed"),
            };
            Ok((target.record(command)?, word))
        });
        match toggled {
            Ok((0, _)) => "no process runs: there is nothing to record".to_owned(),
            Ok((n, word)) => {
                format!("recording {word} in {}", count(n as u64, "process", "processes"))
            }
            Err(error) => chain(&error),
        }
    }

    /// Begins to write the report's page, by another process: a large trace takes a while.
    fn write(&mut self, trace: &Path) {
        if self.writing.is_some() {
            return;
        }
        let Some(name) = free_name(trace, Path::new("")) else {
            self.message = format!("{NAMES} pages of this trace are here: move some away");
            return;
        };
        let own = (self.options.program)().map_err(TopError::Program);
        let started = own.and_then(|own| {
            let mut report = Command::new(own);
            report.arg("report").arg(trace).args(["--format", "html", "-o"]).arg(&name);
            report.args(&self.options.energy_arguments);
            report.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            report.spawn().attempt("cannot start `clscope report`")
        });
        let name = name.to_string_lossy().into_owned();
        match started {
            Ok(child) => {
                self.message = format!("writing {name}");
                self.writing = Some((child, name));
            }
            Err(error) => self.message = chain(&error),
        }
    }

    fn written(&mut self) -> Result<(), TopError> {
        let Some((child, _)) = &mut self.writing else { return Ok(()) };
        if child.try_wait().attempt("cannot ask for `clscope report`")?.is_none() {
            return Ok(());
        }
        self.changed = true;
        if let Some((child, name)) = self.writing.take() {
            let output =
                child.wait_with_output().attempt("cannot read what `clscope report` said")?;
            self.message = match output.status.success() {
                true => format!("wrote {name}"),
                false => format!(
                    "{name} was not written: {}",
                    String::from_utf8_lossy(&output.stderr).trim()
                ),
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_is_there_stays() {
        let place = tempfile::tempdir().unwrap();
        let free = || free_name(Path::new("runs/t.clscope"), place.path()).unwrap();
        assert_eq!(free(), "t.html");
        std::fs::write(place.path().join("t.html"), "mine").unwrap();
        assert_eq!(free(), "t-2.html");
        std::os::unix::fs::symlink("nowhere", place.path().join("t-2.html")).unwrap();
        assert_eq!(free(), "t-3.html");
    }
}
