//! Starts the process in which a captured launch runs, and watches it. Owns what becomes of a
//! version that ended it: the rest is run once more without that version. Refuses to open OpenCL,
//! to print, and to believe more of what the process says than a number or a name.

use crate::progress::{At, Ended, Step, Who};
use crate::worker::{Job, LINE, Said};
use clscope_capture::system::{self, Held, signal_name};
use clscope_profile::measured::Measured;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Seconds without the end of a launch after which a version is left out: of a launch that would
/// take a minute it is refused before.
pub const LIMIT: u32 = 120;
/// Most versions that are left out for having ended a process.
const MOST_ENDED: usize = 16;
/// Time for the launch under way once the user has asked for an end.
const LAST_LAUNCH: Duration = Duration::from_secs(5);
/// How often a process that runs a launch is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Time for the system to end a process.
const LAST_BREATH: Duration = Duration::from_secs(2);

/// What a process said before it ended.
#[derive(Debug, Default)]
struct Heard {
    /// The last words about a version as captured, and about another.
    captured: Option<At>,
    other: Option<At>,
    /// Whether the last word was about another.
    other_is_last: bool,
    /// It had written everything, and wanted this exit code.
    done: Option<u8>,
    /// What it measured.
    measured: Option<Box<Measured>>,
}

impl Heard {
    fn note(&mut self, said: Said) {
        match said {
            Said::Done(code) => self.done = Some(code),
            Said::GoesOn => {}
            Said::Measured(of) => self.measured = Some(of),
            Said::At(at) => {
                self.other_is_last = at.who != Who::Captured;
                let last = if self.other_is_last { &mut self.other } else { &mut self.captured };
                *last = Some(at);
            }
        }
    }

    /// The version that ended a process. One that ran before the captured one may have broken what
    /// that one needs: it is the one that is left out, and the captured one is tried alone.
    fn ended(&self, how: &str) -> Option<Ended> {
        let at = self.other.as_ref().or(self.captured.as_ref())?;
        Some(match (&self.other, &self.captured, self.other_is_last) {
            (Some(_), Some(captured), false) => Ended {
                who: at.who.clone(),
                step: captured.step,
                how: format!("{how}, in a run of {} after its own,", captured.who),
            },
            _ => Ended { who: at.who.clone(), step: at.step, how: how.to_owned() },
        })
    }
}

/// When a process was last heard, and whether it may take its time since.
#[derive(Debug, Clone, Copy)]
struct Pace {
    last: Instant,
    /// It runs a launch; else it starts, or builds a program.
    launches: bool,
}

impl Pace {
    fn new() -> Self {
        Self { last: Instant::now(), launches: false }
    }

    fn heard(&mut self, said: &Said) {
        self.last = Instant::now();
        match said {
            Said::At(at) => self.launches = at.step != Step::Building,
            Said::GoesOn => {}
            Said::Measured(_) | Said::Done(_) => self.launches = false,
        }
    }

    /// What is left of a limit, where there is one.
    fn left(&self, limit: Duration) -> Option<Duration> {
        self.launches.then(|| limit.saturating_sub(self.last.elapsed()))
    }
}

/// How the wait for a process ended.
enum Waited {
    /// By itself; whether the user had asked for it.
    Ended(ExitStatus, bool),
    /// By a time limit: whether it was that of all.
    TooLong(bool),
}

/// How long a process may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For a launch: from one sign of life to the next while launches run.
    pub launch: Duration,
    /// For all of it.
    pub whole: Option<Duration>,
}

impl Limits {
    /// What passed, in words.
    fn describe_passed(&self, is_whole: bool) -> String {
        match self.whole.filter(|_| is_whole) {
            Some(whole) => format!("the limit of {} s for its process", whole.as_secs()),
            None => format!("the limit of {} s for a launch (--limit)", self.launch.as_secs()),
        }
    }
}

/// What became of a process that was to measure a launch.
#[derive(Debug)]
pub struct Ran {
    /// What it measured.
    pub measured: Option<Box<Measured>>,
    /// What ended it before it was done: `signal 11 (SIGSEGV) while it ran for its results`; none
    /// where it was done, or was asked to end.
    pub ended: Option<String>,
    /// The user asked for an end.
    pub interrupted: bool,
}

/// How a process ended.
enum End {
    /// It did what it had to do.
    Done(u8),
    /// It was asked to end.
    Interrupted,
    /// Its output was closed.
    Unread,
    /// Something else ended it.
    Died(Heard, String),
}

/// What happens meanwhile.
#[derive(Debug)]
pub enum News<'a> {
    /// A version ended its process: the rest is run once more without it.
    LeftOut(&'a Ended),
    /// After an interruption the launch under way did not end within so many seconds: its process
    /// is ended.
    EndedByForce(u64),
    /// The process was asked to end, and did before it had measured to its end.
    Interrupted,
}

/// How it came out.
#[derive(Debug)]
pub enum WorkersEnd {
    /// A process did what it had to do, and wanted this exit code.
    Done(u8),
    /// The user asked for an end.
    Interrupted,
    /// The output was closed by its reader.
    Unread,
    /// A process ended before it built a program: how.
    Early(String),
    /// The version as captured ended its process.
    Captured(Ended),
    /// A version ended a process though it was left out, or too many were: how many before it.
    Again(Ended, usize),
}

/// Why a process cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// It cannot be started.
    #[error("cannot start the process that runs the launch")]
    Start(#[source] std::io::Error),
    /// It cannot be watched.
    #[error("cannot watch the process that runs the launch")]
    Watch(#[source] std::io::Error),
}

/// Runs the launch in processes of their own, until one comes to its end. `start` makes the command
/// of one, which reads its [`Job`] from standard input with [`Link`](crate::worker::Link); a launch
/// may take `limit` seconds.
///
/// # Errors
/// If there can be none.
pub fn run(
    start: &dyn Fn() -> Command,
    limit: u32,
    tell: &dyn Fn(&News<'_>),
) -> Result<WorkersEnd, SuperviseError> {
    let held = Held::new(&[libc::SIGINT, libc::SIGTERM]).map_err(SuperviseError::Watch)?;
    let mut job = Job::default();
    let limits = Limits { launch: Duration::from_secs(limit.into()), whole: None };
    loop {
        let ran = once(&held, start(), &job, limits, tell)?;
        let (heard, how) = match ran.end {
            End::Done(code) => return Ok(WorkersEnd::Done(code)),
            End::Interrupted => return Ok(WorkersEnd::Interrupted),
            End::Unread => return Ok(WorkersEnd::Unread),
            End::Died(heard, how) => (heard, how),
        };
        let Some(ended) = heard.ended(&how) else { return Ok(WorkersEnd::Early(how)) };
        if ended.who == Who::Captured {
            return Ok(WorkersEnd::Captured(ended));
        }
        let is_new = job.ended.iter().all(|of| of.who != ended.who);
        if !is_new || job.ended.len() >= MOST_ENDED {
            return Ok(WorkersEnd::Again(ended, job.ended.len()));
        }
        tell(&News::LeftOut(&ended));
        job.ended.push(ended);
    }
}

/// Has a launch measured in a process of its own, whose output goes nowhere. `held`: signals that
/// ask for an end.
///
/// # Errors
/// If there can be none.
pub fn measure(
    held: &Held,
    mut command: Command,
    job: &Job,
    limits: Limits,
) -> Result<Ran, SuperviseError> {
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let Once { end, measured, interrupted } = once(held, command, job, limits, &|_| ())?;
    let ended = match end {
        End::Died(heard, how) => {
            let step = heard.captured.map_or_else(
                || "before it built a program".to_owned(),
                |at| format!("while {}", at.step),
            );
            Some(format!("{how} {step}"))
        }
        End::Done(_) | End::Interrupted | End::Unread => None,
    };
    Ok(Ran { measured, ended, interrupted })
}

/// What became of one process.
struct Once {
    end: End,
    measured: Option<Box<Measured>>,
    interrupted: bool,
}

/// Starts one process and waits for its end.
fn once(
    held: &Held,
    mut command: Command,
    job: &Job,
    limits: Limits,
    tell: &dyn Fn(&News<'_>),
) -> Result<Once, SuperviseError> {
    let starting = SuperviseError::Start;
    let (ours, theirs) = UnixStream::pair().map_err(starting)?;
    let mut line = serde_json::to_vec(job).map_err(|error| starting(error.into()))?;
    line.push(b'\n');
    // Before there is anybody to read it: what is written to a process that is gone ends the
    // writer.
    (&ours).write_all(&line).map_err(starting)?;
    command.stdin(OwnedFd::from(theirs));
    held.undo_in(&mut command);
    let mut child = command.spawn().map_err(starting)?;
    // With it goes this process's copy of the other end.
    drop(command);
    let from = ours.try_clone().map_err(starting)?;
    let pace = Arc::new(Mutex::new(Pace::new()));
    let heard = Arc::clone(&pace);
    let listener = std::thread::spawn(move || listen(from, &heard));
    let waited = wait(held, &mut child, &pace, limits, tell).map_err(SuperviseError::Watch)?;
    // What it said is read to the end; whoever has inherited its end says nothing more.
    let _ = ours.shutdown(Shutdown::Read);
    let mut heard = listener.join().unwrap_or_default();
    let measured = heard.measured.take();
    let (status, interrupted) = match waited {
        Waited::Ended(status, interrupted) => (status, interrupted),
        Waited::TooLong(is_whole) => {
            let end = End::Died(heard, limits.describe_passed(is_whole));
            return Ok(Once { end, measured, interrupted: false });
        }
    };
    // A crash at exit, after the document, is common among drivers and does no harm.
    let end = match (heard.done, status.signal()) {
        (Some(code), _) => End::Done(code),
        (None, _) if interrupted => {
            tell(&News::Interrupted);
            End::Interrupted
        }
        (None, Some(libc::SIGPIPE)) => End::Unread,
        (None, Some(signal)) => {
            End::Died(heard, format!("signal {signal} ({})", signal_name(signal)))
        }
        // What reads its arguments ends so, and has said why.
        (None, None) if status.code() == Some(2) => End::Done(2),
        (None, None) => {
            End::Died(heard, format!("exit code {}", status.code().unwrap_or_default()))
        }
    };
    Ok(Once { end, measured, interrupted })
}

/// Hears what a process says until it ends; what is none of its words is left aside.
fn listen(from: UnixStream, pace: &Mutex<Pace>) -> Heard {
    let mut heard = Heard::default();
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.by_ref().take(LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return heard,
            Ok(_) => serde_json::from_slice(&line).into_iter().for_each(|said| {
                pace.lock().unwrap_or_else(PoisonError::into_inner).heard(&said);
                heard.note(said);
            }),
        }
    }
}

/// Waits for the end of a process, passes on what asks for it, and ends it where it does not, or
/// where a launch, or all of it, takes longer than its limit.
fn wait(
    held: &Held,
    child: &mut Child,
    pace: &Mutex<Pace>,
    limits: Limits,
    tell: &dyn Fn(&News<'_>),
) -> std::io::Result<Waited> {
    let begun = Instant::now();
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Waited::Ended(status, asked.is_some()));
        }
        let left = match asked {
            Some(at) => Some(LAST_LAUNCH.saturating_sub(at.elapsed())),
            None => {
                let of_launch =
                    pace.lock().unwrap_or_else(PoisonError::into_inner).left(limits.launch);
                let whole = limits.whole.map(|whole| whole.saturating_sub(begun.elapsed()));
                [of_launch, whole].into_iter().flatten().min()
            }
        };
        if left == Some(Duration::ZERO) {
            if asked.is_some() {
                tell(&News::EndedByForce(LAST_LAUNCH.as_secs()));
            }
            end(held, child)?;
            return Ok(match asked {
                Some(_) => Waited::Ended(ExitStatus::from_raw(libc::SIGKILL), true),
                None => Waited::TooLong(limits.whole.is_some_and(|whole| begun.elapsed() >= whole)),
            });
        }
        // Nothing tells of what was heard meanwhile: it is looked at again now and then.
        let Some(arrived) = held.wait(Some(left.unwrap_or(LOOK).min(LOOK))) else { continue };
        if arrived.signal == libc::SIGCHLD {
            continue;
        }
        asked.get_or_insert_with(Instant::now);
        // The terminal's goes to both.
        if arrived.sender.is_some() {
            system::send(child.id(), arrived.signal);
        }
    }
}

/// Ends a process.
fn end(held: &Held, child: &mut Child) -> std::io::Result<()> {
    let _ = child.kill();
    let gone = Instant::now() + LAST_BREATH;
    while child.try_wait()?.is_none() && Instant::now() < gone {
        held.wait(Some(gone.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(words: &[(Who, Step)]) -> Heard {
        let mut out = Heard::default();
        for (who, step) in words {
            out.note(Said::At(At { who: who.clone(), step: *step }));
        }
        out
    }

    #[test]
    fn who_ended_a_process_is_who_may_have_broken_it() {
        let captured = (Who::Captured, Step::Results);
        let other = (Who::Other, Step::Results);
        assert_eq!(heard(&[]).ended("signal 11 (SIGSEGV)"), None);
        let of = heard(std::slice::from_ref(&captured)).ended("signal 11 (SIGSEGV)").unwrap();
        assert_eq!((of.who, of.how.as_str()), (Who::Captured, "signal 11 (SIGSEGV)"));
        let of = heard(&[captured.clone(), other.clone()]).ended("signal 6 (SIGABRT)").unwrap();
        assert_eq!((of.who, of.how.as_str()), (Who::Other, "signal 6 (SIGABRT)"));
        let of = heard(&[other, (Who::Captured, Step::Timing)]).ended("signal 11").unwrap();
        assert_eq!((&of.who, of.step), (&Who::Other, Step::Timing));
        let words = "ended by signal 11, in a run of the version as captured after its own, while it was timed";
        assert_eq!(of.to_string(), words);
    }

    #[test]
    fn words_of_others_are_left_aside() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let said = serde_json::to_string(&Said::Done(3)).unwrap();
        (&theirs).write_all(format!("noise\n{{\"done\":900}}\n{said}\n\0\0").as_bytes()).unwrap();
        drop(theirs);
        let pace = Mutex::new(Pace::new());
        assert_eq!(listen(ours, &pace).done, Some(3));
    }

    #[test]
    fn only_launches_have_a_limit() {
        let at = |step| Said::At(At { who: Who::Other, step });
        let none = Duration::ZERO;
        let mut pace = Pace::new();
        assert_eq!(pace.left(none), None);
        pace.heard(&at(Step::Results));
        assert_eq!(pace.left(none), Some(none));
        pace.heard(&Said::GoesOn);
        assert!(pace.left(Duration::MAX).is_some());
        for said in [at(Step::Building), at(Step::Timing), Said::Done(0)] {
            pace.heard(&said);
            assert_eq!(
                pace.left(none).is_some(),
                matches!(said, Said::At(At { step: Step::Timing, .. }))
            );
        }
    }
}
