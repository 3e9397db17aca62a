//! Owns which launches are captured: launches are counted by the kernel's name, and one that cannot
//! be captured hands its turn to the next, some times. Refuses to capture anything itself.
#![forbid(unsafe_code)]

use crate::facts::kernels::called;
use crate::os::maps::{HashMap, HashSet};
use clscope_trace::values::Capture;
use std::sync::Arc;

/// Launches that are tried in place of one that could not be captured, itself included.
pub const TRIES: u32 = 8;

/// A launch that is wanted.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    launch: u64,
    tries: u32,
}

/// What is known of a kernel's name.
#[derive(Debug, Default)]
struct Known {
    launches: u64,
    wanted: Vec<Wanted>,
}

/// What was seen of the process's launches.
#[derive(Debug, Default)]
pub struct Requests {
    kernels: HashMap<Arc<str>, Known>,
    /// Kernels that were put into command buffers.
    buffered: HashSet<Arc<str>>,
    /// Bytes that captures have taken.
    pub bytes: u64,
    /// Captures that were begun.
    pub begun: u64,
}

impl Requests {
    /// Counts a launch: its number, and whether it is to be captured. `None` for a kernel of which
    /// none is.
    pub fn launched(&mut self, asked: &[Capture], kernel: &Arc<str>) -> Option<(u64, bool)> {
        if !self.kernels.contains_key(kernel) {
            let called = called(kernel);
            let of_it = asked.iter().filter(|c| called.is_meant(&c.pattern));
            let mut numbers: Vec<u64> = of_it.flat_map(|c| c.launches.iter().copied()).collect();
            numbers.sort_unstable();
            numbers.dedup();
            let wanted = numbers.into_iter().map(|launch| Wanted { launch, tries: 0 }).collect();
            self.kernels.insert(Arc::clone(kernel), Known { launches: 0, wanted });
        }
        let known = self.kernels.get_mut(kernel).filter(|known| !known.wanted.is_empty())?;
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

    /// A launch was captured: all that it stands for is done.
    pub fn captured(&mut self, kernel: &str, launch: u64) {
        if let Some(known) = self.kernels.get_mut(kernel) {
            known.wanted.retain(|w| w.launch > launch);
        }
    }

    /// A launch could not be captured: whether the next one is tried.
    pub fn refused(&mut self, kernel: &str, launch: u64) -> bool {
        let Some(known) = self.kernels.get_mut(kernel) else { return false };
        known.wanted.iter_mut().filter(|w| w.launch <= launch).for_each(|w| w.tries += 1);
        known.wanted.retain(|w| w.tries < TRIES);
        known.wanted.iter().any(|w| w.launch <= launch)
    }

    /// A launch was put into a command buffer: whether that is news.
    pub fn buffered(&mut self, asked: &[Capture], kernel: &Arc<str>) -> bool {
        if self.buffered.contains(kernel) {
            return false;
        }
        self.buffered.insert(Arc::clone(kernel));
        let called = called(kernel);
        asked.iter().any(|c| called.is_meant(&c.pattern))
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
        assert_eq!(of.launched(&asked, &c), None);
        assert_eq!(of.launched(&asked, &a), Some((1, false)));
        assert_eq!(of.launched(&asked, &b), Some((1, true)));
        of.captured(&b, 1);
        assert_eq!(of.launched(&asked, &b), None);
        assert_eq!(of.launched(&asked, &a), Some((2, true)));
        of.failed(&a);
        assert_eq!(of.launched(&asked, &a), Some((2, true)));
        of.captured(&a, 2);
        assert_eq!(of.launched(&asked, &a), Some((3, false)));
        assert_eq!(of.launched(&asked, &a), Some((4, true)));
        of.captured(&a, 4);
        assert_eq!(of.launched(&asked, &a), None);
    }

    #[test]
    fn a_refused_launch_hands_its_turn_on_some_times() {
        let (asked, mut of) = (asked("a:1,3"), Requests::default());
        let a: Arc<str> = "a".into();
        for n in 1..u64::from(TRIES) {
            assert_eq!(of.launched(&asked, &a), Some((n, true)));
            assert!(of.refused(&a, n));
        }
        let n = u64::from(TRIES);
        assert_eq!(of.launched(&asked, &a), Some((n, true)));
        assert!(of.refused(&a, n), "the third has tries left");
        assert_eq!(of.launched(&asked, &a), Some((n + 1, true)));
        assert!(of.refused(&a, n + 1));
        assert_eq!(of.launched(&asked, &a), Some((n + 2, true)));
        assert!(!of.refused(&a, n + 2));
        assert_eq!(of.launched(&asked, &a), None);
    }

    #[test]
    fn command_buffers_are_told_of_once() {
        let (asked, mut of) = (asked("a"), Requests::default());
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        assert!(of.buffered(&asked, &a) && !of.buffered(&asked, &a) && !of.buffered(&asked, &b));
    }

    #[test]
    fn one_capture_may_stand_for_two() {
        let (asked, mut of) = (asked("a:1,2"), Requests::default());
        let a: Arc<str> = "a".into();
        assert_eq!(of.launched(&asked, &a), Some((1, true)));
        assert!(of.refused(&a, 1));
        assert_eq!(of.launched(&asked, &a), Some((2, true)));
        of.captured(&a, 2);
        assert_eq!(of.launched(&asked, &a), None);
    }
}
