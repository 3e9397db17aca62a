//! Owns what a thread did between its commands: the path of its calls, and the longest of them.

use super::HostPath;
use crate::time::{HostNs, Span};

/// What a thread did since its last enqueue.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ThreadState {
    pub(super) path: HostPath,
    /// The end of the newest call that was followed by itself.
    last: Option<HostNs>,
    /// Time of the calls since then, and the longest of them.
    calls: u64,
    longest: Option<(u16, u64)>,
    /// The end of the last call, where that asked whether a command is complete.
    pub(super) polled: Option<HostNs>,
}

impl ThreadState {
    /// Adds calls that took so long in all.
    pub(super) fn pass(&mut self, longest: (u16, u64), ns: u64) {
        // Hostile durations: a sum that cannot be true is still no reason to stop.
        self.calls = self.calls.saturating_add(ns);
        if self.longest.is_none_or(|(_, most)| longest.1 > most) {
            self.longest = Some(longest);
        }
        self.polled = None;
    }

    /// Nothing but those calls until then.
    pub(super) fn until(&mut self, at: HostNs) {
        let begin = self.last.unwrap_or(HostNs(at.0.saturating_sub_unsigned(self.calls)));
        let ns = at.since(begin);
        if ns > 0 {
            self.path.was_between(begin, ns, self.longest.take(), self.calls);
        }
        (self.calls, self.longest, self.last) = (0, None, Some(at));
    }

    /// A call, of whose span so much was between calls.
    pub(super) fn call(&mut self, span: Span, function: u16, between: u64) {
        let begin = self.last.map_or(span.begin, |last| last.max(span.begin).min(span.end));
        let span = Span { begin, end: span.end };
        self.path.was_in(span.begin, function, span.duration(), between);
        self.last = Some(span.end);
    }

    /// What the thread did since its last command; begins anew.
    pub(super) fn take_path(&mut self) -> HostPath {
        std::mem::take(&mut self.path)
    }
}
