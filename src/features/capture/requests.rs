//! Owns which launches are captured by their numbers: launches are counted by the kernel's name, and
//! one that cannot be captured hands its turn to the next, some times. Refuses to capture anything
//! itself.
#![forbid(unsafe_code)]

use crate::facts::kernels::called;
use crate::os::shared::maps::{HashMap, HashSet};
use clscope_trace::values::Capture;
use std::sync::Arc;

/// Launches that are tried in place of one that could not be captured, itself included.
pub const TRIES: u32 = 8;

/// A launch that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    launch: u64,
    tries: u32,
}

/// What is known of a kernel's name.
#[derive(Debug, Default)]
struct Known {
    launches: u64,
    wanted: Vec<Wanted>,
    /// It was said that the recorder has no room for it yet.
    said: bool,
}

/// What was seen of the process's launches.
#[derive(Debug, Default)]
pub struct Requests {
    kernels: HashMap<Arc<str>, Known>,
    /// Kernels that were put into command buffers.
    buffered: HashSet<Arc<str>>,
}

impl Requests {
    /// Counts a launch: its number, and whether it is to be captured.
    pub fn launched(&mut self, asked: &[Capture], kernel: &Arc<str>) -> Option<(u64, bool)> {
        if !self.kernels.contains_key(kernel) {
            let called = called(kernel);
            let of_it = asked.iter().filter(|c| called.is_meant(&c.pattern));
            let mut numbers: Vec<u64> = of_it.flat_map(|c| c.launches.iter().copied()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let wanted = numbers.into_iter().map(|launch| Wanted { launch, tries: 0 }).collect();
            self.kernels.insert(Arc::clone(kernel), Known { launches: 0, wanted, said: false });
        }
        let known = self.kernels.get_mut(kernel)?;
        known.launches += 1;
        let n = known.launches;
        Some((n, known.wanted.iter().any(|w| w.launch <= n)))
    }

    /// The runtime refused a launch that was counted: it was none.
    pub fn failed(&mut self, kernel: &str) {
        if let Some(known) = self.kernels.get_mut(kernel) {
            known.launches = known.launches.saturating_sub(1);
        }
    }

    /// A launch is about to be captured: all that it stands for.
    pub fn taken(&mut self, kernel: &str, launch: u64) -> Vec<Wanted> {
        let Some(known) = self.kernels.get_mut(kernel) else { return Vec::new() };
        let due = |w: &Wanted| w.launch <= launch;
        let taken = known.wanted.iter().copied().filter(due).collect();
        known.wanted.retain(|w| !due(w));
        taken
    }

    /// What was taken is wanted still.
    pub fn put_back(&mut self, kernel: &str, taken: Vec<Wanted>) {
        if let Some(known) = self.kernels.get_mut(kernel) {
            known.wanted.extend(taken);
        }
    }

    /// A launch could not be captured: whether the next one is tried.
    pub fn refused(&mut self, kernel: &str, taken: Vec<Wanted>) -> bool {
        let more = taken.into_iter().map(|w| Wanted { tries: w.tries + 1, ..w });
        let more: Vec<Wanted> = more.filter(|w| w.tries < TRIES).collect();
        let again = !more.is_empty();
        self.put_back(kernel, more);
        again
    }

    /// There is no room for a launch before the application's next wait: it hands its turn on as
    /// often as need be. Whether that is news.
    pub fn later(&mut self, kernel: &str, taken: Vec<Wanted>) -> bool {
        self.put_back(kernel, taken);
        self.kernels.get_mut(kernel).is_some_and(|known| !std::mem::replace(&mut known.said, true))
    }

    /// A launch was put into a command buffer: whether that is news.
    /// `all`: every kernel is asked for.
    pub fn buffered(&mut self, asked: &[Capture], kernel: &Arc<str>, all: bool) -> bool {
        if self.buffered.contains(kernel) {
            return false;
        }
        self.buffered.insert(Arc::clone(kernel));
        let called = called(kernel);
        all || asked.iter().any(|c| called.is_meant(&c.pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Vec<Capture> {
        clscope_trace::values::captures(text).unwrap()
    }

    #[test]
    fn launches_are_counted_by_name() {
        let (asked, mut of) = (asked("a:2,4,*b"), Requests::default());
        let (a, b, c): (Arc<str>, Arc<str>, Arc<str>) = ("a".into(), "xb".into(), "c".into());
        assert_eq!(of.launched(&asked, &c), Some((1, false)));
        assert_eq!(of.launched(&asked, &a), Some((1, false)));
        assert_eq!(of.launched(&asked, &b), Some((1, true)));
        assert_eq!(of.taken(&b, 1).len(), 1);
        assert_eq!(of.launched(&asked, &b), Some((2, false)));
        assert_eq!(of.launched(&asked, &a), Some((2, true)));
        let taken = of.taken(&a, 2);
        // The runtime refused it.
        of.failed(&a);
        of.put_back(&a, taken);
        assert_eq!(of.launched(&asked, &a), Some((2, true)));
        assert_eq!(of.taken(&a, 2).len(), 1);
        assert_eq!(of.launched(&asked, &a), Some((3, false)));
        assert_eq!(of.launched(&asked, &a), Some((4, true)));
        assert_eq!(of.taken(&a, 4).len(), 1);
        assert_eq!(of.launched(&asked, &a), Some((5, false)));
    }

    #[test]
    fn a_refused_launch_hands_its_turn_on_some_times() {
        let (asked, mut of) = (asked("a:1,3"), Requests::default());
        let a: Arc<str> = "a".into();
        let refused = |of: &mut Requests, n| {
            let taken = of.taken(&a, n);
            of.refused(&a, taken)
        };
        for n in 1..u64::from(TRIES) {
            assert_eq!(of.launched(&asked, &a), Some((n, true)));
            assert!(refused(&mut of, n));
        }
        let n = u64::from(TRIES);
        assert_eq!(of.launched(&asked, &a), Some((n, true)));
        assert!(refused(&mut of, n), "the third has tries left");
        assert_eq!(of.launched(&asked, &a), Some((n + 1, true)));
        assert!(refused(&mut of, n + 1));
        assert_eq!(of.launched(&asked, &a), Some((n + 2, true)));
        assert!(!refused(&mut of, n + 2));
        assert_eq!(of.launched(&asked, &a), Some((n + 3, false)));
    }

    #[test]
    fn a_launch_for_which_there_is_no_room_yet_hands_its_turn_on_for_ever() {
        let (asked, mut of) = (asked("a"), Requests::default());
        let a: Arc<str> = "a".into();
        for n in 1..=10 * u64::from(TRIES) {
            assert_eq!(of.launched(&asked, &a), Some((n, true)));
            let taken = of.taken(&a, n);
            assert_eq!(of.later(&a, taken), n == 1, "said once");
        }
    }

    #[test]
    fn command_buffers_are_told_of_once() {
        let (asked, mut of) = (asked("a"), Requests::default());
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        assert!(of.buffered(&asked, &a, false) && !of.buffered(&asked, &a, false));
        assert!(!of.buffered(&asked, &b, false) && of.buffered(&asked, &"c".into(), true));
    }

    #[test]
    fn one_capture_may_stand_for_two() {
        let (asked, mut of) = (asked("a:1,2"), Requests::default());
        let a: Arc<str> = "a".into();
        assert_eq!(of.launched(&asked, &a), Some((1, true)));
        let taken = of.taken(&a, 1);
        assert!(of.refused(&a, taken));
        assert_eq!(of.launched(&asked, &a), Some((2, true)));
        assert_eq!(of.taken(&a, 2).len(), 2);
        assert_eq!(of.launched(&asked, &a), Some((3, false)));
    }
}
