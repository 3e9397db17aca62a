//! Child processes under a time limit. A child that does not do in time what a test awaits is
//! killed with its whole process group, and the test fails with what was awaited and what the child
//! had printed until then. Refuses to wait by sleeping: the pipes and the end of the process are
//! polled.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::watch::{self, left_of};

/// Several times what the slowest program of the tests takes; longer on a busy machine
/// ([`left_of`]).
pub const LIMIT: Duration = Duration::from_secs(100);

/// A command that a test runs under a limit, [`LIMIT`] unless another is given.
pub trait Limited {
    /// Starts it in a process group of its own. Pipes are those that the command asks for.
    ///
    /// # Panics
    /// If it cannot be started.
    #[track_caller]
    fn begin(&mut self) -> Running;

    /// Runs it to its end without input, and gives what it printed. Its streams are files, so that
    /// a grandchild which holds them open does not keep the test waiting.
    ///
    /// # Panics
    /// If it cannot be started, or does not end within the limit.
    #[track_caller]
    fn ended_within(&mut self, limit: Duration) -> Output;

    /// [`ended_within`](Self::ended_within) [`LIMIT`].
    #[track_caller]
    fn ended(&mut self) -> Output {
        self.ended_within(LIMIT)
    }
}

impl Limited for Command {
    #[track_caller]
    fn begin(&mut self) -> Running {
        self.process_group(0);
        let shown = format!("{self:?}");
        let mut child = self.spawn().unwrap_or_else(|error| panic!("{shown}: {error}"));
        watch::group_begun(child.id());
        let pipe = |fd: Option<OwnedFd>| fd.map(Pipe::new);
        Running {
            input: child.stdin.take(),
            pipes: [
                pipe(child.stdout.take().map(Into::into)),
                pipe(child.stderr.take().map(Into::into)),
            ],
            end: open_pidfd(child.id()),
            child,
            shown,
            limit: LIMIT,
            reaped: None,
        }
    }

    #[track_caller]
    fn ended_within(&mut self, limit: Duration) -> Output {
        let (mut out, mut err) = (scratch(), scratch());
        self.stdin(Stdio::null());
        self.stdout(out.try_clone().expect("a second handle"));
        self.stderr(err.try_clone().expect("a second handle"));
        let mut running = self.begin().limit(limit);
        let ended = running.wait();
        if !ended {
            running.kill();
        }
        let (stdout, stderr) = (contents(&mut out), contents(&mut err));
        if !ended {
            running.fail("its end", &stdout, &stderr);
        }
        documented(&stdout);
        assert_no_panic(&String::from_utf8_lossy(&stderr), &running.shown);
        Output { status: running.status(), stdout, stderr }
    }
}

/// No panic of the recorder or the command reaches stderr, whatever test runs them.
///
/// # Panics
/// If one did.
#[track_caller]
pub fn assert_no_panic(stderr: &str, shown: &str) {
    let panicked = ["panicked at", "stack backtrace:"].iter().any(|mark| stderr.contains(mark));
    assert!(!panicked, "a panic on stderr: {shown}\n{stderr}");
}

/// A JSON document that names its schema keeps to it, whatever test made it be printed.
#[cfg(feature = "schema")]
#[track_caller]
fn documented(stdout: &[u8]) {
    let breaches =
        std::str::from_utf8(stdout).map_or_else(|_| Vec::new(), crate::schema::text_breaches);
    assert!(breaches.is_empty(), "the document breaks its schema: {breaches:#?}");
}

/// Tests without that feature print no such document.
#[cfg(not(feature = "schema"))]
fn documented(_: &[u8]) {}

/// A child that a test talks to. It is killed, with its process group, when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    input: Option<ChildStdin>,
    /// Standard output and error, where they are pipes.
    pipes: [Option<Pipe>; 2],
    /// Readable once the child has ended.
    end: OwnedFd,
    shown: String,
    limit: Duration,
    reaped: Option<ExitStatus>,
}

/// One of the two streams that a program prints to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out = 0,
    /// Standard error.
    Err = 1,
}

#[derive(Debug)]
struct Pipe {
    file: File,
    /// What came; `read` of its bytes were given to the test.
    bytes: Vec<u8>,
    read: usize,
    ended: bool,
}

impl Pipe {
    fn new(fd: OwnedFd) -> Self {
        Self { file: fd.into(), bytes: Vec::new(), read: 0, ended: false }
    }

    /// Takes what is there. Called when `poll` says that reading does not block.
    fn fill(&mut self) {
        let mut buffer = [0; 65536];
        match self.file.read(&mut buffer) {
            Ok(0) | Err(_) => self.ended = true,
            Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
        }
    }

    fn line_length(&self) -> Option<usize> {
        let rest = &self.bytes[self.read..];
        let whole = rest.iter().position(|&b| b == b'\n').map(|at| at + 1);
        whole.or((self.ended && !rest.is_empty()).then_some(rest.len()))
    }
}

impl Running {
    /// Another limit, for each wait.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Its process id, which is also its process group's.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If that fails.
    #[track_caller]
    pub fn signal(&self, signal: i32) {
        assert!(self.reaped.is_none(), "{} has ended", self.shown);
        // SAFETY: the child is not reaped yet, so its id is still its own.
        let sent = unsafe { libc::kill(self.child.id() as i32, signal) };
        assert_eq!(sent, 0, "{}: {}", self.shown, std::io::Error::last_os_error());
    }

    /// Writes to its standard input, which must be a pipe. Input that the child does not read and
    /// that is longer than a pipe's buffer (64 KiB) is left to [`Watch`](crate::Watch).
    ///
    /// # Panics
    /// If it does not listen.
    #[track_caller]
    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().expect("its input is a pipe that was not closed");
        input.write_all(bytes).unwrap_or_else(|error| panic!("{} listens: {error}", self.shown));
    }

    /// Closes its standard input.
    pub fn close_input(&mut self) {
        self.input = None;
    }

    /// Closes a stream that it prints to.
    pub fn close(&mut self, stream: Stream) {
        self.pipes[stream as usize] = None;
    }

    /// The next line of a stream, without its end of line; `None` once the stream is closed.
    ///
    /// # Panics
    /// If none comes in time, or the stream is no pipe.
    #[track_caller]
    pub fn line(&mut self, stream: Stream) -> Option<String> {
        let index = stream as usize;
        assert!(self.pipes[index].is_some(), "{stream:?} of {} is a pipe", self.shown);
        let done = |pipes: &[Option<Pipe>; 2]| {
            pipes[index].as_ref().is_some_and(|p| p.ended || p.line_length().is_some())
        };
        if !self.pump(done, false) {
            self.give_up(&format!("a line on {stream:?}"));
        }
        let pipe = self.pipes[index].as_mut()?;
        let length = pipe.line_length()?;
        let line = String::from_utf8_lossy(&pipe.bytes[pipe.read..pipe.read + length]);
        let line = line.strip_suffix('\n').unwrap_or(&line).to_owned();
        pipe.read += length;
        Some(line)
    }

    /// Waits for the first bytes of a stream.
    ///
    /// # Panics
    /// As [`line`](Self::line).
    #[track_caller]
    pub fn some(&mut self, stream: Stream) {
        let done = |pipes: &[Option<Pipe>; 2]| {
            pipes[stream as usize].as_ref().is_some_and(|p| p.ended || !p.bytes.is_empty())
        };
        if !self.pump(done, false) {
            self.give_up(&format!("a byte on {stream:?}"));
        }
    }

    /// All further lines of a stream, until it is closed.
    ///
    /// # Panics
    /// As [`line`](Self::line).
    #[track_caller]
    pub fn lines(&mut self, stream: Stream) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(line) = self.line(stream) {
            lines.push(line);
        }
        lines
    }

    /// Closes its input, waits for its end, and gives its exit status.
    ///
    /// # Panics
    /// If it does not end in time.
    #[track_caller]
    pub fn end(mut self) -> ExitStatus {
        self.input = None;
        if !self.wait() {
            self.give_up("its end");
        }
        self.status()
    }

    /// As [`end`](Self::end), with all that it printed and that was not read as lines.
    ///
    /// # Panics
    /// If it does not end in time, or a grandchild holds its pipes open.
    #[track_caller]
    pub fn output(mut self) -> Output {
        self.input = None;
        let closed = |pipes: &[Option<Pipe>; 2]| pipes.iter().flatten().all(|p| p.ended);
        if !self.pump(closed, false) {
            self.give_up("the end of its output");
        }
        if !self.wait() {
            self.give_up("its end");
        }
        let status = self.status();
        let [stdout, stderr] = self
            .pipes
            .each_mut()
            .map(|pipe| pipe.as_mut().map_or_else(Vec::new, |p| p.bytes.split_off(p.read)));
        assert_no_panic(&String::from_utf8_lossy(&stderr), &self.shown);
        Output { status, stdout, stderr }
    }

    /// Waits for its end without reaping it, and reads meanwhile what it prints; false when the
    /// limit passes first.
    pub fn wait(&mut self) -> bool {
        self.pump(|_| false, true)
    }

    /// Kills the process group.
    pub fn kill(&mut self) {
        if self.reaped.is_none() {
            // SAFETY: the group is the child's own, and the child is not reaped yet, so its id is
            // still its own.
            unsafe { libc::kill(-(self.child.id() as i32), libc::SIGKILL) };
        }
    }

    /// The exit status of a child that has ended or was killed.
    ///
    /// # Panics
    /// If the system does not give it.
    pub fn status(&mut self) -> ExitStatus {
        if let Some(status) = self.reaped {
            return status;
        }
        watch::group_ended(self.child.id());
        let status = self.child.wait().expect("the child is ours to wait for");
        self.reaped = Some(status);
        status
    }

    /// Reads the pipes until `done` says so, or, if `at_end`, the child has ended; false when the
    /// limit passes first.
    fn pump(&mut self, done: impl Fn(&[Option<Pipe>; 2]) -> bool, at_end: bool) -> bool {
        let begun = Instant::now();
        loop {
            if done(&self.pipes) {
                return true;
            }
            let fd = |fd, asked: bool| libc::pollfd {
                // A negative descriptor is left out.
                fd: if asked { fd } else { -1 },
                events: libc::POLLIN,
                revents: 0,
            };
            let pipe = |p: &Option<Pipe>| {
                p.as_ref().map_or(fd(-1, false), |p| fd(p.file.as_raw_fd(), !p.ended))
            };
            let mut polled =
                [pipe(&self.pipes[0]), pipe(&self.pipes[1]), fd(self.end.as_raw_fd(), at_end)];
            let left = left_of(self.limit, begun);
            // Rounded up: a wait of less than a millisecond is none to poll.
            let left = left.as_millis().saturating_add(1).try_into().unwrap_or(i32::MAX);
            // SAFETY: three pollfd that live on this stack.
            let ready = unsafe { libc::poll(polled.as_mut_ptr(), 3, left) };
            if ready < 0 {
                let error = std::io::Error::last_os_error();
                assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "poll: {error}");
                continue;
            }
            for (pipe, polled) in self.pipes.iter_mut().zip(&polled) {
                if let Some(pipe) = pipe
                    && polled.revents != 0
                {
                    pipe.fill();
                }
            }
            if polled[2].revents != 0 {
                return true;
            }
            if left_of(self.limit, begun).is_zero() {
                return done(&self.pipes);
            }
        }
    }

    #[track_caller]
    fn give_up(&mut self, awaited: &str) -> ! {
        self.kill();
        let printed =
            self.pipes.each_ref().map(|p| p.as_ref().map_or(Vec::new(), |p| p.bytes.clone()));
        self.fail(awaited, &printed[0], &printed[1])
    }

    #[track_caller]
    fn fail(&mut self, awaited: &str, stdout: &[u8], stderr: &[u8]) -> ! {
        let mut text =
            format!("waited {:?} for {awaited}, and killed it: {}", self.limit, self.shown);
        for (name, bytes) in [("stdout", stdout), ("stderr", stderr)] {
            let _ = write!(text, "\n--- {name}\n{}", String::from_utf8_lossy(bytes));
        }
        panic!("{text}")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.reaped.is_none() {
            self.kill();
            self.status();
        }
    }
}

/// A descriptor that is readable once the process has ended.
fn open_pidfd(pid: u32) -> OwnedFd {
    // SAFETY: pidfd_open takes two integers and gives a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    assert!(fd >= 0, "pidfd_open: {}", std::io::Error::last_os_error());
    // SAFETY: the descriptor is new and owned by nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn scratch() -> File {
    tempfile::tempfile().expect("a scratch file")
}

fn contents(file: &mut File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))
        .and_then(|_| file.read_to_end(&mut bytes))
        .expect("what the program printed");
    bytes
}
