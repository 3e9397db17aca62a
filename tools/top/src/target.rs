//! What is looked at: a trace directory, of all its processes or of one, and the
//! application where it was started here. Refuses to read records.

use crate::Program;
use crate::error::{Attempt, TopError};
use clscope_capture::control::{self, ControlCommand, State};
use clscope_live::error::LiveError;
use clscope_live::follow::Follower;
use clscope_profile::trace_files::last_begun;
use clscope_trace::directory::{as_recorded, with_ending};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// What is attempted with a file that the application is to print into.
const SHARE: &str = "cannot hand on a file for what the application prints";

/// What is looked at.
#[derive(Debug)]
pub struct Target {
    /// The trace directory.
    pub path: PathBuf,
    /// Stems of the only processes that are looked at; all where empty.
    only: Vec<String>,
    app: Option<App>,
}

/// An application that was started here, below `clscope record`.
#[derive(Debug)]
struct App {
    record: Child,
    /// What it prints while the screen has the terminal.
    printed: Option<std::fs::File>,
}

impl Target {
    /// A trace by its name, a process by its id, or the newest trace here.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(named: Option<&Path>) -> Result<Self, TopError> {
        let Some(named) = named else {
            return Ok(Self { path: last_begun(Path::new("."))?, only: Vec::new(), app: None });
        };
        let path = as_recorded(named.to_owned());
        let pid = path.to_str().and_then(|t| t.parse::<u32>().ok()).filter(|_| !path.exists());
        let Some(pid) = pid else { return Ok(Self { path, only: Vec::new(), app: None }) };
        let rings = control::rings_of(pid)?;
        // Of several recordings, the newest.
        let ring = rings.iter().max_by_key(|r| r.metadata().and_then(|m| m.modified()).ok());
        let path = ring.and_then(|ring| ring.parent()).ok_or(TopError::Nowhere)?;
        let stems = rings.iter().filter(|r| r.parent() == Some(path)).filter_map(|r| r.file_stem());
        let only = stems.map(|s| s.to_string_lossy().into_owned()).collect();
        Ok(Self { path: path.to_owned(), only, app: None })
    }

    /// Starts an application below `clscope record`. What it prints is kept until the screen has
    /// gone; without one it goes to stderr.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(
        app: &[OsString],
        output: Option<&OsStr>,
        once: bool,
        program: Program<'_>,
    ) -> Result<Self, TopError> {
        let name = match output {
            Some(name) if name.to_string_lossy().contains('%') => {
                return Err(TopError::Placeholder { name: name.display().to_string() });
            }
            Some(name) => PathBuf::from(name),
            None => {
                let program = app.first().map(Path::new).and_then(Path::file_name);
                let mut name = program.unwrap_or(OsStr::new("app")).to_owned();
                name.push(format!("-top-{}", std::process::id()));
                PathBuf::from(name)
            }
        };
        let path = with_ending(&name);
        let mut record = Command::new(program().map_err(TopError::Program)?);
        record.arg("record").arg("--output").arg(&path).arg("--").args(app);
        let mut printed = None;
        if once {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned();
            record.stdout(stderr.attempt(SHARE)?);
        } else {
            let file = tempfile::tempfile()
                .attempt("cannot make a file for what the application prints")?;
            let [stdout, stderr] =
                [file.try_clone().attempt(SHARE)?, file.try_clone().attempt(SHARE)?];
            record.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
            printed = Some(file);
        }
        let record = record.spawn().attempt("cannot start `clscope record`")?;
        Ok(Self { path, only: Vec::new(), app: Some(App { record, printed }) })
    }

    /// The trace, once it holds a process.
    ///
    /// # Errors
    /// If it will never hold one.
    pub fn follower(&mut self) -> Result<Option<Follower>, TopError> {
        let waits = self.is_running()?;
        match Follower::open(&self.path, self.only.clone()) {
            Ok(follower) => Ok(Some(follower)),
            Err(LiveError::Empty { .. } | LiveError::List { .. }) if waits => Ok(None),
            Err(error) if self.app.is_some() => Err(TopError::NotRecorded(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether an application that was started here still runs.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn is_running(&mut self) -> Result<bool, TopError> {
        match &mut self.app {
            Some(app) => {
                Ok(app.record.try_wait().attempt("cannot ask for the application")?.is_none())
            }
            None => Ok(false),
        }
    }

    /// Waits for an application that was started here.
    ///
    /// # Errors
    /// If the system does not say how it ended.
    pub fn wait(&mut self) -> Result<(), TopError> {
        if let Some(app) = &mut self.app {
            app.record.wait().attempt("cannot wait for the application")?;
        }
        Ok(())
    }

    /// How the process of a stem stands.
    pub fn state(&self, stem: &str) -> &'static str {
        let ring = self.path.join(format!("{stem}.ring"));
        control::apply(&ring, ControlCommand::Status).map_or("unknown", State::name)
    }

    /// Whether any of the processes that are looked at records.
    ///
    /// # Errors
    /// If their files cannot be read.
    pub fn is_recording(&self) -> Result<bool, TopError> {
        for ring in self.rings()? {
            if control::apply(&ring, ControlCommand::Status)? == State::Recording {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ring files of the processes that are looked at.
    fn rings(&self) -> Result<Vec<PathBuf>, TopError> {
        let mut rings = control::rings_in(&self.path)?;
        rings.retain(|ring| {
            let stem = ring.file_stem().map(|s| s.to_string_lossy().into_owned());
            self.only.is_empty() || stem.is_some_and(|stem| self.only.contains(&stem))
        });
        Ok(rings)
    }

    /// Turns recording on or off in the processes that are looked at, and returns how many run.
    ///
    /// # Errors
    /// If their files cannot be written to.
    pub fn record(&self, command: ControlCommand) -> Result<usize, TopError> {
        if self.only.is_empty() {
            control::tell_later_ones(&self.path, command)?;
        }
        let mut alive = 0;
        for ring in self.rings()? {
            alive += usize::from(control::apply(&ring, command)? != State::Ended);
        }
        Ok(alive)
    }

    /// Waits for the application that was started here, gives what it printed to `out`, and returns
    /// its exit code.
    ///
    /// # Errors
    /// If the system does not say how it ended.
    pub fn end(mut self, tell: &dyn Fn(&str), out: &mut dyn Write) -> Result<u8, TopError> {
        if self.is_running()? {
            tell("the application still runs: Ctrl-C ends it");
        }
        let Some(mut app) = self.app else { return Ok(0) };
        let status = app.record.wait().attempt("cannot wait for the application")?;
        if let Some(mut printed) = app.printed {
            use std::io::Seek;
            printed.rewind().attempt("cannot read what the application printed")?;
            std::io::copy(&mut printed, out).attempt("cannot show what the application printed")?;
        }
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        Ok(u8::try_from(code).unwrap_or(1))
    }
}
