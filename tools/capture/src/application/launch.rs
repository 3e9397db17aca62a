//! Owns the application while it runs: starting it with exactly the signal state we were given,
//! passing on the signals that were meant for it, waiting for its end. Refuses to touch its
//! terminal, its streams or its process group.
#![forbid(unsafe_code)]

use crate::error::{Attempt, CaptureError};
use crate::program::{NotRunnable, Program};
use crate::running::parent;
use crate::system::{self, Held};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

/// Signals that somebody may send to us and mean the application. SIGTSTP, SIGTTIN and SIGTTOU keep
/// their effect on us, so that a shell's job control sees the whole job stop.
const PASSED_ON: [i32; 7] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
];

/// The running application.
#[derive(Debug)]
pub struct Running {
    child: Child,
    held: Held,
}

/// Starts the application. The inner error means that it cannot be run, with the exit code that
/// shells give for it.
///
/// # Errors
/// If this process lacks what starting another one takes: the application may run in its place.
pub fn start(
    program: &Program,
    arguments: &[OsString],
    set: &BTreeMap<&str, OsString>,
) -> Result<Result<Running, NotRunnable>, CaptureError> {
    let held =
        Held::new(&PASSED_ON).attempt(|| "cannot hold back signals while the application runs")?;
    let begun = with_sh(|of_sh| command(program, arguments, of_sh, &held).envs(set).spawn());
    let error = match begun {
        Ok(child) => return Ok(Ok(Running { child, held })),
        Err(error) => error,
    };
    match lacking(&error) {
        None => Ok(Err(not_executable(program, &error))),
        Some(remedy) => Err(error).attempt(|| {
            format!("cannot start {} as another process: {remedy}", program.path.display())
        }),
    }
}

/// What starts the application: itself, or `sh` with it as its script.
fn command(program: &Program, arguments: &[OsString], of_sh: bool, held: &Held) -> Command {
    let mut command = Command::new(if of_sh { Path::new("/bin/sh") } else { &program.path });
    match of_sh {
        true => command.arg0("sh").arg(&program.path),
        false => command.arg0(arguments.first().cloned().unwrap_or_default()),
    };
    command.args(arguments.iter().skip(1));
    held.undo_for_application(&mut command);
    command
}

/// As execvp does: a file that is executable and no program is a script of sh.
fn with_sh<R>(begin: impl Fn(bool) -> std::io::Result<R>) -> std::io::Result<R> {
    match begin(false) {
        Err(error) if error.raw_os_error() == Some(libc::ENOEXEC) => begin(true),
        begun => begun,
    }
}

/// What to do where starting another process failed for want of something that this process would
/// not need to become the application; `None` where it failed for another reason.
fn lacking(error: &std::io::Error) -> Option<&'static str> {
    Some(match error.raw_os_error()? {
        libc::EMFILE => "raise the limit of open files, as with `ulimit -n 128`",
        libc::ENFILE => "the system has too many open files",
        libc::EAGAIN => "raise the limit of processes, as with `ulimit -u 1000`",
        libc::ENOMEM => "raise the limit of memory, as with `ulimit -v unlimited`",
        _ => return None,
    })
}

/// Puts the application in this process's place, with nothing added. Returns only where it cannot
/// be run, with the exit code that shells give for it.
///
/// # Errors
/// If signals cannot be given back as they were.
pub fn replace(program: &Program, arguments: &[OsString]) -> Result<NotRunnable, CaptureError> {
    let held = Held::new(&PASSED_ON).attempt(|| "cannot give the application its signals")?;
    let Err(error) =
        with_sh(|of_sh| Err::<Infallible, _>(command(program, arguments, of_sh, &held).exec()));
    Ok(not_executable(program, &error))
}

fn not_executable(program: &Program, error: &std::io::Error) -> NotRunnable {
    let reason = match error.raw_os_error() {
        // The file is there: what is missing is the interpreter it names.
        Some(libc::ENOENT) => format!("its interpreter {} does not exist", program.image.display()),
        _ => format!("cannot be executed: {error}"),
    };
    NotRunnable::NotExecutable { path: program.path.clone(), reason }
}

impl Running {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the application's end and passes signals on meanwhile.
    pub fn wait(mut self) -> Result<(ExitStatus, Held), CaptureError> {
        let child = self.child.id();
        loop {
            if let Some(status) =
                self.child.try_wait().attempt(|| "cannot wait for the application")?
            {
                return Ok((status, self.held));
            }
            let Some(arrived) = self.held.wait(None) else { continue };
            // What the terminal sends goes to the whole foreground group, the application included;
            // what the application's own processes send to their group has reached it too.
            if let Some(sender) = arrived.sender
                && arrived.signal != libc::SIGCHLD
                && !descends_from(sender, child)
            {
                system::send(child, arrived.signal);
            }
        }
    }
}

/// Whether a process is `ancestor` or one of its descendants, as far as that is still known.
fn descends_from(process: i32, ancestor: u32) -> bool {
    let mut at = u32::try_from(process).unwrap_or(0);
    // Deeper trees than this are not worth a signal handled late.
    for _ in 0..64 {
        if at == ancestor {
            return true;
        }
        match parent(at) {
            Some(next) if next > 1 => at = next,
            _ => return false,
        }
    }
    false
}

/// How the application ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With an exit code.
    Code(u8),
    /// By a signal; whether it left a core dump.
    Signal(i32, bool),
}

impl End {
    /// From the system's status.
    pub fn of_status(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code as u8),
            (None, signal) => Self::Signal(signal.unwrap_or(0), status.core_dumped()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descent_is_told_from_proc() {
        let own = std::process::id();
        let parent = parent(own).unwrap();
        assert_eq!(parent, std::os::unix::process::parent_id());
        assert!(descends_from(own as i32, own));
        assert!(descends_from(own as i32, parent));
        assert!(!descends_from(parent as i32, own));
        assert!(!descends_from(i32::MAX, own));
    }

    #[test]
    fn ends_are_read_from_wait_statuses() {
        assert_eq!(End::of_status(ExitStatus::from_raw(3 << 8)), End::Code(3));
        assert_eq!(
            End::of_status(ExitStatus::from_raw(libc::SIGKILL)),
            End::Signal(libc::SIGKILL, false)
        );
        assert_eq!(
            End::of_status(ExitStatus::from_raw(libc::SIGSEGV | 0x80)),
            End::Signal(libc::SIGSEGV, true)
        );
    }
}
