//! Runs programs to their end, under a time limit. A program that does not end is killed with all
//! of its children, and the test fails with what it printed. Refuses to wait by sleeping: the end
//! of the process is what is waited for.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// Long enough for the slowest program here on a busy machine; a hang is what it ends.
const LIMIT: Duration = Duration::from_secs(240);

/// A program to run.
#[derive(Debug)]
pub struct Run {
    command: Command,
    limit: Duration,
    stderr_closed: bool,
}

/// How a program ended, and what it printed.
#[derive(Debug, Clone)]
pub struct Finished {
    /// Exit code or signal.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Process id it had.
    pub pid: u32,
}

impl Finished {
    /// Itself, if the exit code is 0.
    ///
    /// # Panics
    /// If it is not.
    #[track_caller]
    pub fn success(self) -> Self {
        assert!(
            self.status.success(),
            "{}\n--- stdout\n{}--- stderr\n{}",
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// What a person would see of it: exit code or signal, and standard output.
    #[must_use]
    pub fn seen(&self) -> (Option<i32>, Option<i32>, &str) {
        (self.status.code(), self.status.signal(), &self.stdout)
    }
}

impl Run {
    /// A program in a folder, with nothing in its environment that brings a recorder in or chooses
    /// a runtime.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>, folder: &Path) -> Self {
        let mut command = Command::new(program);
        command.current_dir(folder).stdin(Stdio::null());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let ours = text.starts_with("CLSCOPE_")
                || text.starts_with("OCL_ICD_")
                || text.starts_with("FAKE_CL_");
            if ours
                || matches!(
                    &*text,
                    "LD_PRELOAD"
                        | "LD_AUDIT"
                        | "OPENCL_LAYERS"
                        | "LD_LIBRARY_PATH"
                        | "GLIBC_TUNABLES"
                )
            {
                command.env_remove(&name);
            }
        }
        // What is calibrated on the machine that runs the tests would show in reports.
        command.env("CLSCOPE_CALIBRATION", folder.join("calibration.json"));
        Self { command, limit: LIMIT, stderr_closed: false }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Another folder.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Another time limit.
    #[must_use]
    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Standard input.
    #[must_use]
    pub fn stdin(mut self, file: File) -> Self {
        self.command.stdin(file);
        self
    }

    /// Without a standard error at all, as daemons run.
    #[must_use]
    pub fn without_stderr(mut self) -> Self {
        self.stderr_closed = true;
        self
    }

    /// A limit of the system for the program, as `ulimit` sets it.
    #[must_use]
    pub fn resource_limit(mut self, resource: libc::__rlimit_resource_t, most: u64) -> Self {
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: between fork and exec only setrlimit is called, which is async-signal-safe.
        unsafe {
            self.command.pre_exec(move || {
                if libc::setrlimit(resource, &limit) == 0 {
                    Ok(())
                } else {
                    Err(std::io::Error::last_os_error())
                }
            })
        };
        self
    }

    /// With its libraries at the same addresses each time (`setarch -R`).
    #[must_use]
    pub fn without_address_randomisation(mut self) -> Self {
        // SAFETY: between fork and exec only personality is called, a plain system call.
        unsafe {
            self.command.pre_exec(|| {
                let now = libc::personality(0xffff_ffff);
                let set = libc::personality(
                    now as libc::c_ulong | libc::ADDR_NO_RANDOMIZE as libc::c_ulong,
                );
                if now >= 0 && set >= 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
            })
        };
        self
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it cannot be started, or does not end in time; then with what it printed.
    #[track_caller]
    pub fn run(mut self) -> Finished {
        // Files, not pipes: grandchildren that outlive the program must not keep the test waiting.
        let (mut out, mut err) = (scratch(), scratch());
        self.command.stdout(out.try_clone().expect("a second handle"));
        self.command.stderr(err.try_clone().expect("a second handle"));
        self.command.process_group(0);
        if self.stderr_closed {
            // SAFETY: between fork and exec only close is called, which is async-signal-safe.
            unsafe {
                self.command.pre_exec(|| {
                    libc::close(2);
                    Ok(())
                })
            };
        }
        let shown = format!("{:?}", self.command);
        let mut child = self.command.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        let pid = child.id();
        let ended = wait_until(pid, self.limit);
        if !ended {
            // SAFETY: the group is the child's own, and the child is not reaped yet, so its id is
            // still its own.
            unsafe { libc::kill(-(pid as i32), libc::SIGKILL) };
        }
        let status = child.wait().expect("wait for the child");
        let (stdout, stderr) = (text(&mut out), text(&mut err));
        assert!(
            ended,
            "not ended after {:?}: {shown}\n--- stdout\n{stdout}--- stderr\n{stderr}",
            self.limit
        );
        Finished { status, stdout, stderr, pid }
    }
}

/// A program that is told by lines what to do, and answers each with a line. It is killed when the
/// test is done with it.
#[derive(Debug)]
pub struct Talk {
    child: std::process::Child,
    input: Option<std::process::ChildStdin>,
    output: std::io::BufReader<std::process::ChildStdout>,
    limit: Duration,
}

impl Run {
    /// Starts it, to be talked to. Its standard error is the test's.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    #[must_use]
    pub fn talk(mut self) -> Talk {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child =
            self.command.spawn().unwrap_or_else(|error| panic!("{:?}: {error}", self.command));
        let (input, output) =
            (child.stdin.take(), child.stdout.take().expect("its output is a pipe"));
        Talk { child, input, output: std::io::BufReader::new(output), limit: self.limit }
    }
}

impl Talk {
    /// The next line that it prints.
    ///
    /// # Panics
    /// If none comes in time, or it has ended.
    #[track_caller]
    pub fn hear(&mut self) -> String {
        use std::io::BufRead;
        use std::os::fd::AsRawFd;
        if self.output.buffer().is_empty() {
            let mut poll = libc::pollfd {
                fd: self.output.get_ref().as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one pollfd that lives on this stack.
            let ready = unsafe {
                libc::poll(&mut poll, 1, self.limit.as_millis().try_into().unwrap_or(i32::MAX))
            };
            assert_eq!(ready, 1, "no answer after {:?}", self.limit);
        }
        let mut line = String::new();
        self.output.read_line(&mut line).expect("an answer");
        assert!(line.ends_with('\n'), "it ended: {line:?}");
        line.trim_end().to_owned()
    }

    /// Tells it a line and gives its answer.
    ///
    /// # Panics
    /// As [`hear`](Self::hear).
    #[track_caller]
    pub fn tell(&mut self, line: &str) -> String {
        use std::io::Write;
        writeln!(self.input.as_mut().expect("it was not ended"), "{line}").expect("it listens");
        self.hear()
    }

    /// Closes its input, and waits for its end.
    ///
    /// # Panics
    /// If it does not end in time.
    #[track_caller]
    pub fn end(mut self) -> ExitStatus {
        self.input = None;
        assert!(wait_until(self.child.id(), self.limit), "not ended after {:?}", self.limit);
        self.child.wait().expect("wait for the child")
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // SAFETY: the group is the child's own, and the child is not reaped yet, so its id is
            // still its own.
            unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
            let _ = self.child.wait();
        }
    }
}

/// Waits for the end of a child without reaping it; false when the limit passes first.
fn wait_until(pid: u32, limit: Duration) -> bool {
    // SAFETY: pidfd_open takes two integers and gives a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    assert!(fd >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd that lives on this stack.
    let ready =
        unsafe { libc::poll(&mut poll, 1, limit.as_millis().try_into().unwrap_or(i32::MAX)) };
    // SAFETY: the descriptor is ours and not used after this.
    unsafe { libc::close(fd) };
    ready == 1
}

fn scratch() -> File {
    tempfile::tempfile().expect("a scratch file")
}

fn text(file: &mut File) -> String {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_end(&mut bytes))
        .expect("what the program printed");
    String::from_utf8_lossy(&bytes).into_owned()
}
