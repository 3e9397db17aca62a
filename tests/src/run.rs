//! Runs programs to their end, under a time limit. A program that does not end is killed with all
//! of its children, and the test fails with what it printed. Refuses to wait by sleeping: the end
//! of the process is what is waited for.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use clscope_testing::{LIMIT, Limited, Running, Stream};

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
    pub fn seen(&self) -> (Option<i32>, Option<i32>, &str) {
        (self.status.code(), self.status.signal(), &self.stdout)
    }
}

impl Run {
    /// A program in a folder, with nothing in its environment that brings a recorder in or chooses
    /// a runtime.
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
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = S>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Another folder.
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Another time limit.
    pub fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Standard input.
    pub fn stdin(mut self, file: File) -> Self {
        self.command.stdin(file);
        self
    }

    /// Without a standard error at all, as daemons run.
    pub fn without_stderr(mut self) -> Self {
        self.stderr_closed = true;
        self
    }

    /// A limit of the system for the program, as `ulimit` sets it.
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
        let mut child = self.command.begin().limit(self.limit);
        let pid = child.id();
        let ended = child.wait();
        if !ended {
            child.kill();
        }
        let status = child.status();
        let (stdout, stderr) = (text(&mut out), text(&mut err));
        assert!(
            ended,
            "not ended after {:?}: {shown}\n--- stdout\n{stdout}--- stderr\n{stderr}",
            self.limit
        );
        // Whatever the exit code says of it.
        let breaches = clscope_testing::schema::text_breaches(&stdout);
        assert!(breaches.is_empty(), "the report breaks its schema: {breaches:#?}: {shown}");
        clscope_testing::assert_no_panic(&stderr, &shown);
        Finished { status, stdout, stderr, pid }
    }

    /// Starts it with its standard error as a pipe, to be read while it runs.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn begin(mut self) -> Running {
        self.command.stderr(Stdio::piped()).begin().limit(self.limit)
    }

    /// Starts it, to be talked to. Its standard error is the test's.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    pub fn talk(mut self) -> Talk {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Talk(self.command.begin().limit(self.limit))
    }
}

/// A program that is told by lines what to do, and answers each with a line. It is killed when the
/// test is done with it.
#[derive(Debug)]
pub struct Talk(Running);

impl Talk {
    /// The next line that it prints.
    ///
    /// # Panics
    /// If none comes in time, or it has ended.
    #[track_caller]
    pub fn hear(&mut self) -> String {
        self.0.line(Stream::Out).expect("it goes on")
    }

    /// Tells it a line and gives its answer.
    ///
    /// # Panics
    /// As [`hear`](Self::hear).
    #[track_caller]
    pub fn tell(&mut self, line: &str) -> String {
        self.0.write(format!("{line}\n").as_bytes());
        self.hear()
    }

    /// Its process id: of what was started, not of what that starts.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Closes its input, and waits for its end.
    ///
    /// # Panics
    /// If it does not end in time.
    #[track_caller]
    pub fn end(self) -> ExitStatus {
        self.0.end()
    }
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
