//! Threads of the recorder's own. They are started by the C library's call alone: what the standard
//! library adds (destructors of thread-locals, a symbol looked up) takes the dynamic linker's lock,
//! in the thread that starts one as well as in the new one. The constructor of a library that is
//! being opened holds that lock, and may be waiting for the call that starts the thread.

use super::limits::limit;
use super::locks::futex;
use super::locks::lock::clock;
use super::memory;
use super::shared::slots::Slots;
use super::undisturbed::uncancelled;
use clscope_io::signals::without_signals;
use std::ffi::{CStr, c_char, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::time::Duration;

/// What a thread needs besides its stack, at most: the C library ends the process where a new
/// thread cannot have its thread-local data.
const BESIDES: usize = 1 << 20;
const STACK: usize = 256 * 1024;

/// With fewer threads allowed (`ulimit -u`) the application needs them all.
const LEAST_THREADS: u64 = 256;

/// How long a new thread is given to take what it needs. It needs nothing that others hold: only a
/// busy machine makes it come later. It must have begun before the application shuts itself into a
/// sandbox, where a new thread's own calls may be forbidden.
const BEGINNING: Duration = Duration::from_secs(1);

/// Most threads of the recorder's own whose names are known.
const MOST_NAMED: usize = 8;

/// Threads of the recorder's own that run: the system's number of each, 0 of none, and its name.
static NAMED: [(AtomicU32, AtomicPtr<c_char>); MOST_NAMED] =
    [const { (AtomicU32::new(0), AtomicPtr::new(std::ptr::null_mut())) }; MOST_NAMED];

/// The name of the calling thread, if it is one of the recorder's own. Asks the system for nothing.
pub fn own_name() -> Option<&'static CStr> {
    let own = number();
    let (_, name) =
        NAMED.iter().find(|(number, _)| own != 0 && own == number.load(Ordering::Acquire))?;
    // SAFETY: stored before the number, from a string that is there for good.
    Some(unsafe { CStr::from_ptr(name.load(Ordering::Relaxed)) })
}

/// Takes note of the calling thread's name, for as long as the result is kept.
fn note_name(name: &'static CStr) -> impl Drop {
    struct Noted(Option<&'static AtomicU32>);
    impl Drop for Noted {
        fn drop(&mut self) {
            if let Some(number) = self.0 {
                number.store(0, Ordering::Release);
            }
        }
    }
    /// No thread has this number: the place is being taken.
    const TAKEN: u32 = u32::MAX;
    let take = |number: &AtomicU32| {
        number.compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    let place = NAMED.iter().find(|(number, _)| take(number)).map(|(own, place)| {
        place.store(name.as_ptr().cast_mut(), Ordering::Relaxed);
        own.store(number(), Ordering::Release);
        own
    });
    Noted(place)
}

/// What a new thread is given.
struct Start {
    name: &'static CStr,
    begun: Arc<AtomicU32>,
    job: Box<dyn FnOnce() + Send>,
}

/// Whether the application leaves threads to us: each counts as one of its user's processes.
fn has_threads_to_spare() -> bool {
    limit(libc::RLIMIT_NPROC).is_none_or(|most| most >= LEAST_THREADS)
}

/// Starts a thread with a small stack and every signal blocked: the application's handlers must
/// never run on it. It has what it needs when this returns, or is late: what the application does
/// next, as using up all memory, cannot end it while it begins.
///
/// # Errors
/// The application may have few threads, the system refuses another one, or would soon refuse its
/// memory.
pub fn spawn(name: &'static CStr, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
    if !has_threads_to_spare() || !memory::can_map(BESIDES) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let begun = Arc::new(AtomicU32::new(0));
    let start = Start { name, begun: Arc::clone(&begun), job: Box::new(job) };
    uncancelled(|| {
        without_signals(|| create(Box::new(start)))?;
        wait(&begun, BEGINNING);
        Ok(())
    })
}

/// Waits until a word is not 0, for so long at most: whether it is not.
fn wait(word: &AtomicU32, patience: Duration) -> bool {
    let until = clock() + patience;
    while word.load(Ordering::Acquire) == 0 {
        let left = until.saturating_duration_since(clock());
        if left.is_zero() {
            return false;
        }
        futex::wait(word, 0, Some(left));
    }
    true
}

/// Makes a word 1, for who waits for that.
fn tell(word: &AtomicU32) {
    word.store(1, Ordering::Release);
    futex::wake_one(word);
}

/// What a job gives that runs on a thread of its own; `None` where none can be started, or the job
/// takes longer than that.
pub fn answer<T: Send + 'static>(
    name: &'static CStr,
    patience: Duration,
    job: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let place = Arc::new((AtomicU32::new(0), Slots::<T, 1>::new()));
    let theirs = Arc::clone(&place);
    spawn(name, move || {
        let _is_first = theirs.1.put(Box::new(job()));
        tell(&theirs.0);
    })
    .ok()?;
    uncancelled(|| wait(&place.0, patience)).then(|| place.1.take(0)).flatten().map(|value| *value)
}

fn create(start: Box<Start>) -> io::Result<()> {
    let start = Box::into_raw(start);
    #[expect(clippy::disallowed_methods, reason = "the only place that starts threads")]
    // SAFETY: zeros are overwritten by pthread_attr_init, whose value is destroyed below; `run`
    // takes the box over, unless no thread is made.
    let failed = unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let mut made = 0;
        let mut make = |stack| {
            libc::pthread_attr_setstacksize(&mut attributes, stack);
            libc::pthread_create(&mut made, &attributes, run, start.cast())
        };
        let mut failed = make(STACK);
        if failed == libc::EINVAL {
            // The application's thread-local data lie on the stack, too, and may be large.
            failed = make(STACK + (8 << 20));
        }
        libc::pthread_attr_destroy(&mut attributes);
        failed
    };
    if failed == 0 {
        return Ok(());
    }
    // SAFETY: made above, and no thread has it.
    drop(unsafe { Box::from_raw(start) });
    Err(io::Error::from_raw_os_error(failed))
}

extern "C" fn run(start: *mut c_void) -> *mut c_void {
    // SAFETY: the box that `create` gave.
    let Start { name, begun, job } = *unsafe { Box::from_raw(start.cast::<Start>()) };
    // SAFETY: a C string; longer names are cut.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    let _noted = note_name(name);
    tell(&begun);
    drop(begun);
    // A panic ends the thread's work. Dropping a foreign payload could panic again.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(job)) {
        std::mem::forget(payload);
    }
    std::ptr::null_mut()
}

/// The system's number of the calling thread, without asking the system: a lock of the C library has
/// it while it is taken. 0 where it is not there.
pub fn number() -> u32 {
    /// Where glibc keeps the owner of a lock.
    const OWNER: usize = 8;
    const UNKNOWN: u32 = 0;
    const THERE: u32 = 1;
    const ELSEWHERE: u32 = 2;
    static PLACE: AtomicU32 = AtomicU32::new(UNKNOWN);
    let owner = || {
        // SAFETY: an initialised lock of this frame's, which nobody else knows; its owner lies in it.
        unsafe {
            let mut lock: libc::pthread_mutex_t = libc::PTHREAD_MUTEX_INITIALIZER;
            if libc::pthread_mutex_lock(&raw mut lock) != 0 {
                return 0;
            }
            let owner = (&raw const lock).cast::<u8>().add(OWNER).cast::<u32>().read();
            libc::pthread_mutex_unlock(&raw mut lock);
            owner
        }
    };
    if PLACE.load(Ordering::Relaxed) == UNKNOWN {
        // Asked once, by the first thread of the recording, at its beginning.
        // SAFETY: no preconditions.
        let is_there = owner() == unsafe { libc::syscall(libc::SYS_gettid) } as u32;
        PLACE.store(if is_there { THERE } else { ELSEWHERE }, Ordering::Relaxed);
    }
    if PLACE.load(Ordering::Relaxed) == THERE { owner() } else { 0 }
}

/// Processors that the calling thread may run on, 1 if unknown.
pub fn processors() -> i32 {
    // SAFETY: an all-zero set is valid, and writable.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) == 0 {
            libc::CPU_COUNT(&set)
        } else {
            1
        }
    }
}

/// Gives the processor up for a moment that is over after so many microseconds.
pub fn pause(microseconds: u32) {
    futex::sleep(Some(Duration::from_micros(microseconds.into())));
}

/// Sleeps until the process ends: ending a thread takes system calls that the application may have
/// forbidden itself.
pub fn stay() -> ! {
    loop {
        futex::sleep(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_waited_for_no_longer_than_asked() {
        assert_eq!(answer(c"clscope-test", Duration::from_secs(60), || 7), Some(7));
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let late = answer(c"clscope-test", Duration::from_millis(1), move || held.recv().is_ok());
        assert_eq!(late, None);
        drop(hold);
    }

    #[test]
    fn a_thread_has_its_name_and_no_signals_and_survives_its_jobs_panic() {
        let (tell, told) = std::sync::mpsc::channel();
        let other = tell.clone();
        spawn(c"clscope-test", move || {
            let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
            // SAFETY: zeros are a set, which is written.
            let blocked = unsafe {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut set);
                libc::sigismember(&set, libc::SIGUSR1) == 1
            };
            tell.send((name, blocked)).unwrap();
        })
        .unwrap();
        assert_eq!(told.recv().unwrap(), ("clscope-test\n".to_owned(), true));
        spawn(c"clscope-test", move || {
            let _tell = other;
            std::panic::resume_unwind(Box::new("a fault"));
        })
        .unwrap();
        assert!(told.recv().is_err(), "what the job held is given back");
    }
}
