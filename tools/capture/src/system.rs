//! Owns the unsafe calls into the system: signals, credentials, file attributes.
//! Refuses to decide anything: each function is one call with a safe face.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Whether SIGPIPE was ignored when this process was started. Rust's start-up ignores it before
/// `main`, so it is looked at earlier; the application must get what we got.
static PIPE_WAS_IGNORED: AtomicBool = AtomicBool::new(false);

/// Which of the standard streams were closed then. Rust's start-up opens /dev/null in their place.
static WAS_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

extern "C" fn look_at_start() {
    PIPE_WAS_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    for (stream, closed) in (0..).zip(&WAS_CLOSED) {
        // SAFETY: only asks.
        closed.store(unsafe { libc::fcntl(stream, libc::F_GETFD) } == -1, Ordering::Relaxed);
    }
}

#[used]
// SAFETY: functions in .init_array are called once each, before main, with arguments that a
// function without parameters ignores in the C calling convention; this one makes
// async-signal-safe calls and stores what they say.
#[unsafe(link_section = ".init_array")]
static LOOK_AT_START: extern "C" fn() = look_at_start;

/// Whether [`fail_beyond_file_size`] changed what SIGXFSZ does.
static SIZE_WAS_DEFAULT: AtomicBool = AtomicBool::new(false);

/// From here on a write beyond the limit of file sizes fails with an error that can be told, and
/// ends nothing. An application that is started gets the signal as this process got it.
pub fn fail_beyond_file_size() {
    if !is_ignored(libc::SIGXFSZ) {
        SIZE_WAS_DEFAULT.store(true, Ordering::Relaxed);
        // SAFETY: plain call.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    }
}

/// Whether a signal is ignored by this process.
pub fn is_ignored(signal: i32) -> bool {
    // SAFETY: zeros are a valid sigaction; a null new action only asks; the old one is ours to be
    // written.
    unsafe {
        let mut old: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut old) == 0
            && old.sa_sigaction == libc::SIG_IGN
    }
}

/// Locks a file against other locks of it (`flock`), until it is closed.
pub fn lock(file: &File) -> io::Result<()> {
    // SAFETY: a descriptor that is open during the call.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Makes a file longer by a part behind its end, of zeros that have their place on the disk.
pub fn reserve(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let (at, size) = (offset as libc::off_t, length as libc::off_t);
    // SAFETY: a descriptor that is open during the call, and numbers.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, at, size) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // No fallocate on this file system: zeros have a place as well.
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => {
            file.write_all_at(&vec![0; length as usize], offset)
        }
        _ => Err(error),
    }
}

/// Lets a closed pipe end this process quietly, as it does the system's own filters.
pub fn end_at_closed_pipe() {
    // SAFETY: resetting a disposition to the default has no precondition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Effective user and group.
pub fn credentials() -> (u32, u32) {
    // SAFETY: these calls cannot fail and take no arguments.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

/// Takes from this process what running foreign code never needs: privileges that a program could
/// gain by executing a file, and core dumps, which would hold what was captured.
///
/// # Errors
/// The system's.
pub fn confine() -> io::Result<()> {
    let done = |rc: libc::c_int| if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: plain calls; the limit lives through its call.
    unsafe {
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        done(libc::setrlimit(libc::RLIMIT_CORE, &none))
    }
}

/// CPU time of ended children and theirs, in user mode and in the kernel (getrusage(2)).
pub fn children_cpu() -> (Duration, Duration) {
    // SAFETY: zeros are a valid rusage, which the call writes; it cannot fail with these arguments.
    let used = unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut used);
        used
    };
    let time = |t: libc::timeval| {
        Duration::from_secs(t.tv_sec.max(0) as u64) + Duration::from_micros(t.tv_usec.max(0) as u64)
    };
    (time(used.ru_utime), time(used.ru_stime))
}

/// Becomes another user with one group, for good: no capability is left and none can be gained by
/// executing a file.
pub fn become_user(user: u32, group: u32) -> io::Result<()> {
    let done = |rc: libc::c_int| if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: plain calls; the list of groups is one number that lives through its call. Changing
    // all ids of a process that was root clears its capabilities (capabilities(7)), and glibc
    // changes those of every thread.
    unsafe {
        done(libc::setgroups(1, &group))?;
        done(libc::setresgid(group, group, group))?;
        done(libc::setresuid(user, user, user))?;
        done(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
    }
    // A kernel that let us keep the way back would be no reason to go on.
    // SAFETY: as above.
    if unsafe { libc::setresuid(0, 0, 0) } == 0 {
        Err(io::Error::other("root could be had back"))
    } else {
        Ok(())
    }
}

/// The listening socket that a service manager opened for this process, if the process's
/// environment says so (sd_listen_fds(3)).
pub fn inherited_listener(
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<std::os::unix::net::UnixListener> {
    let number = |name: &str| variable(name)?.to_str()?.parse::<u32>().ok();
    if number("LISTEN_PID")? != std::process::id() || number("LISTEN_FDS")? != 1 {
        return None;
    }
    // SAFETY: the protocol gives descriptor 3 to the process whose id the variable names, and
    // nothing in this process has used it: the variable's process id is ours, not a parent's.
    Some(unsafe { std::os::fd::FromRawFd::from_raw_fd(3) })
}

fn c_path(path: &Path) -> Option<CString> {
    CString::new(path.as_os_str().as_bytes()).ok()
}

/// Whether this process may execute a file.
pub fn may_execute(path: &Path) -> bool {
    // SAFETY: the path is a C string that lives through the call.
    c_path(path).is_some_and(|p| unsafe {
        libc::faccessat(libc::AT_FDCWD, p.as_ptr(), libc::X_OK, libc::AT_EACCESS) == 0
    })
}

/// Whether this process may write into a folder.
pub fn may_write(path: &Path) -> bool {
    // SAFETY: the path is a C string that lives through the call.
    c_path(path).is_some_and(|p| unsafe {
        libc::faccessat(libc::AT_FDCWD, p.as_ptr(), libc::W_OK | libc::X_OK, libc::AT_EACCESS) == 0
    })
}

/// Whether a file carries capabilities (setcap(8)).
pub fn has_file_capabilities(path: &Path) -> bool {
    // SAFETY: both strings live through the call; size 0 asks for the length only and writes
    // nothing.
    c_path(path).is_some_and(|p| unsafe {
        libc::getxattr(p.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0
    })
}

/// How many files this process may have open; `None` where that is not known.
pub fn most_descriptors() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the answer, which lives through the call.
    (unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0).then_some(limit.rlim_cur)
}

/// Lets this process, and those that it starts from here on, have as many files open as the system
/// lets it.
pub fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the answer, and then a limit that the process may have.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
}

/// Bytes that this user may still write on the file system of `path`.
pub fn free_bytes(path: &Path) -> io::Result<u64> {
    let path = c_path(path).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: zeros are a valid statvfs, which the call fills; the path lives through it.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(path.as_ptr(), &mut found) != 0 {
            return Err(io::Error::last_os_error());
        }
        #[allow(clippy::useless_conversion, reason = "the types differ between systems")]
        Ok(u64::from(found.f_bavail).saturating_mul(u64::from(found.f_frsize)))
    }
}

/// Version of the C library, `None` where it is not glibc.
pub fn glibc_version() -> Option<(u32, u32)> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: glibc returns a static C string.
        let text =
            unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) }.to_str().ok()?;
        let mut parts = text.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }
    #[cfg(not(target_env = "gnu"))]
    None
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// The process that sent it, `None` if the kernel did (the terminal's Ctrl-C, a hang-up, an
    /// alarm).
    pub sender: Option<i32>,
}

/// Signals held back so that [`wait`](Self::wait) receives them. Dropping it lets them through
/// again.
#[derive(Debug)]
pub struct Held {
    set: libc::sigset_t,
    before: libc::sigset_t,
    child_was_ignored: bool,
}

impl Held {
    /// Holds back `signals` and SIGCHLD in this (single-threaded) process.
    pub fn new(signals: &[i32]) -> io::Result<Self> {
        let child_was_ignored = is_ignored(libc::SIGCHLD);
        // SAFETY: zeros are valid sets, initialised by the calls; the set and both masks live
        // through them.
        unsafe {
            let (mut set, mut before): (libc::sigset_t, libc::sigset_t) =
                (std::mem::zeroed(), std::mem::zeroed());
            libc::sigemptyset(&mut set);
            for signal in signals.iter().chain(&[libc::SIGCHLD]) {
                libc::sigaddset(&mut set, *signal);
            }
            // Where it is ignored, children vanish without leaving their exit status.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            if libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { set, before, child_was_ignored })
        }
    }

    /// Makes the command start with the signal mask and the ignored signals this process was
    /// started with.
    pub fn undo_in(&self, command: &mut Command) {
        let (mask, pipe, child) =
            (self.before, PIPE_WAS_IGNORED.load(Ordering::Relaxed), self.child_was_ignored);
        let size = SIZE_WAS_DEFAULT.load(Ordering::Relaxed);
        // SAFETY: the closure makes only async-signal-safe calls, on values that were copied into
        // it.
        unsafe {
            command.pre_exec(move || {
                libc::signal(libc::SIGPIPE, if pipe { libc::SIG_IGN } else { libc::SIG_DFL });
                libc::signal(libc::SIGCHLD, if child { libc::SIG_IGN } else { libc::SIG_DFL });
                if size {
                    libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
                }
                libc::sigprocmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
                Ok(())
            });
        }
    }

    /// The same for the application, which has the standard streams that this process was started
    /// with: closed ones, too.
    pub fn undo_for_application(&self, command: &mut Command) {
        self.undo_in(command);
        // SAFETY: the closure makes only async-signal-safe calls.
        unsafe {
            command.pre_exec(|| {
                for (stream, closed) in (0..).zip(&WAS_CLOSED) {
                    if closed.load(Ordering::Relaxed) {
                        libc::close(stream);
                    }
                }
                Ok(())
            });
        }
    }

    /// The next signal; `None` when `limit` passes first.
    pub fn wait(&self, limit: Option<Duration>) -> Option<Arrived> {
        // SAFETY: zeros are a valid siginfo; the set was initialised; the time-out lives through
        // the call.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let signal = match limit {
                None => libc::sigwaitinfo(&self.set, &mut info),
                Some(limit) => {
                    let time = libc::timespec {
                        tv_sec: limit.as_secs() as libc::time_t,
                        tv_nsec: limit.subsec_nanos() as _,
                    };
                    libc::sigtimedwait(&self.set, &mut info, &time)
                }
            };
            if signal <= 0 {
                return None;
            }
            // Only signals sent by kill, sigqueue or tgkill say who sent them.
            let sent = matches!(info.si_code, libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL);
            Some(Arrived { signal, sender: sent.then(|| info.si_pid()) })
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the mask is the one that sigprocmask gave.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

/// Sends a signal. The target must be a child that was not waited for, so that its id cannot be
/// another's.
pub fn send(pid: u32, signal: i32) {
    // SAFETY: kill has no memory to get wrong. A child that is gone but not waited for takes it
    // without effect.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

/// Sends a signal to a group of processes whose first is a child that was not waited for.
pub fn send_group(pid: u32, signal: i32) {
    // SAFETY: as in `send`; the group's number is the child's.
    unsafe { libc::killpg(pid as libc::pid_t, signal) };
}

/// Ends this process by the signal that ended the application, so that a shell sees what it would
/// have seen. Comes back only if the signal does not end processes.
pub fn die_by(signal: i32) {
    // SAFETY: plain calls on initialised values; clscope has no handler for any signal.
    unsafe {
        // The core that counts is the application's: ours must neither overwrite it nor fill the
        // disk.
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// Name of a signal as `SIGSEGV`.
pub fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 19] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
        (libc::SIGIO, "SIGIO"),
    ];
    NAMES
        .iter()
        .find(|(n, _)| *n == signal)
        .map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

/// Local time as `20260131-235959`, in UTC where the time zone is unknown.
pub fn local_time_stamp(seconds: i64) -> String {
    // SAFETY: zeros are a valid tm, which the call fills; the time lives through it.
    let tm = unsafe {
        let mut tm: libc::tm = std::mem::zeroed();
        let time = seconds as libc::time_t;
        if libc::localtime_r(&time, &mut tm).is_null() {
            libc::gmtime_r(&time, &mut tm);
        }
        tm
    };
    format!(
        "{:04}{:02}{:02}-{:02}{:02}{:02}",
        tm.tm_year + 1900,
        tm.tm_mon + 1,
        tm.tm_mday,
        tm.tm_hour,
        tm.tm_min,
        tm.tm_sec
    )
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

extern "C" fn note_interrupt(_: libc::c_int) {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// Makes the first SIGINT or SIGTERM (what `timeout` and batch systems send) set the flag that is
/// returned; a second one of the same kind ends the process as ever.
pub fn interrupt_flag() -> io::Result<&'static AtomicBool> {
    // SAFETY: zeros are a valid sigaction; the handler only stores to an atomic; SA_RESETHAND
    // brings the default back.
    let code = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note_interrupt as *const () as usize;
        action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGINT, &action, std::ptr::null_mut())
            | libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut())
    };
    if code == 0 { Ok(&INTERRUPTED) } else { Err(io::Error::last_os_error()) }
}
