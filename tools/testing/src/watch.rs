//! The last resort against a test that never ends: a thread that ends the whole test process, with
//! the test's name, and kills the children of [`child`](crate::child) that still run. A runner that
//! gives each test a process (nextest) has limits of its own; this one stands also under
//! `cargo test`, where a thread that hangs cannot be ended alone.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// How long a test may take: several times what the slowest one does. A test that hangs in a child
/// has met [`LIMIT`](crate::LIMIT) before.
pub const TEST_LIMIT: Duration = Duration::from_secs(120);

/// A busy machine is given so many times as long, and no longer.
const MOST_PATIENCE: f64 = 8.0;

/// What is left of a limit. The limit grows with what else the machine has to do: two tests at
/// work, with their threads, are what it has when it runs nothing but tests.
pub fn left_of(limit: Duration, begun: Instant) -> Duration {
    let left = limit.saturating_sub(begun.elapsed());
    if !left.is_zero() {
        return left;
    }
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = text.split(' ').next().and_then(|word| word.parse().ok());
    limit.mul_f64(patience(load, processors())).saturating_sub(begun.elapsed())
}

/// How many times as long a limit is under a load (threads that want to run, as the system gives
/// them; none where it does not).
fn patience(load: Option<f64>, processors: usize) -> f64 {
    let share = load.unwrap_or_default() / (2 * processors) as f64;
    share.clamp(1.0, MOST_PATIENCE)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

struct State {
    /// Number, name, begin and limit.
    watched: Vec<(u64, String, Instant, Duration)>,
    next: u64,
    groups: BTreeSet<u32>,
}

static STATE: Mutex<State> =
    Mutex::new(State { watched: Vec::new(), next: 0, groups: BTreeSet::new() });
static CHANGED: Condvar = Condvar::new();

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While this lives, the process is ended once the limit has passed.
#[derive(Debug)]
#[must_use]
pub struct Watch(u64);

impl Watch {
    /// Watches the current test, whose name is its thread's.
    pub fn test() -> Self {
        let name = std::thread::current().name().unwrap_or("a thread without a name").to_owned();
        Self::new(&name, TEST_LIMIT)
    }

    /// Watches what is named.
    pub fn new(name: &str, limit: Duration) -> Self {
        static STARTED: Once = Once::new();
        STARTED.call_once(|| {
            std::thread::Builder::new()
                .name("watchdog".into())
                .spawn(watch)
                .expect("a thread that watches the tests");
        });
        let mut state = state();
        let id = state.next;
        state.next += 1;
        state.watched.push((id, name.to_owned(), Instant::now(), limit));
        CHANGED.notify_one();
        Self(id)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        state().watched.retain(|(id, ..)| *id != self.0);
    }
}

fn watch() {
    let mut state = state();
    loop {
        let left = |w: &(u64, String, Instant, Duration)| left_of(w.3, w.2);
        if let Some((_, name, _, limit)) = state.watched.iter().find(|w| left(w).is_zero()) {
            // The macros would hand this to a test's captured output.
            let text = format!("\n{name}: not ended after {limit:?}; its process is ended\n");
            let _ = std::io::stderr().write_all(text.as_bytes());
            for group in &state.groups {
                // SAFETY: a group is in the set until its leader is reaped, and the lock is held,
                // so that the id is still the leader's.
                unsafe { libc::kill(-(*group as i32), libc::SIGKILL) };
            }
            std::process::exit(101);
        }
        let next = state.watched.iter().map(left).min();
        state = match next {
            Some(next) => {
                CHANGED.wait_timeout(state, next).unwrap_or_else(PoisonError::into_inner).0
            }
            None => CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

/// A child leads a process group of its own from now on.
pub(crate) fn group_begun(leader: u32) {
    state().groups.insert(leader);
}

/// The leader is about to be reaped.
pub(crate) fn group_ended(leader: u32) {
    state().groups.remove(&leader);
}

/// Set while it lives, also through a panic: the condition of a thread that works beside a test. A
/// scope waits for its threads before it hands a panic on, so that a thread which waits for a plain
/// flag would keep a failed test for ever.
#[derive(Debug)]
#[must_use]
pub struct While<'a>(&'a AtomicBool);

impl<'a> While<'a> {
    /// Sets the flag.
    pub fn new(flag: &'a AtomicBool) -> Self {
        flag.store(true, Ordering::Relaxed);
        Self(flag)
    }
}

impl Drop for While<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_grow_with_the_load_and_end() {
        assert_eq!(patience(None, 2), 1.0);
        assert_eq!(patience(Some(4.0), 2), 1.0, "two tests with their threads");
        assert_eq!(patience(Some(12.0), 2), 3.0);
        assert_eq!(patience(Some(12.0), 16), 1.0);
        assert_eq!(patience(Some(1e9), 2), MOST_PATIENCE);
        let begun = Instant::now();
        assert!(left_of(Duration::from_secs(1000), begun) > Duration::from_secs(900));
        assert_eq!(left_of(Duration::ZERO, begun), Duration::ZERO);
    }
}
