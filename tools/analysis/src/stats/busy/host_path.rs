//! Owns what the enqueuing thread did since its command before, so that each moment of a gap is
//! given to the call that the thread was in then. A few stretches are kept; where there are more,
//! the two shortest neighbours become one that holds their shares. Refuses to follow other threads.

use super::IdleCause;
use crate::time::{HostNs, Span};

/// Stretches that are kept.
const STEPS: usize = 4;

/// A stretch, until the next one begins.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Step {
    begin: HostNs,
    /// The function that most of its calls' time was in.
    function: u16,
    /// Part of the stretch in that function, and in all others. The rest is outside OpenCL.
    inside: f32,
    others: f32,
}

/// What a thread did, up to now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct HostPath {
    steps: [Step; STEPS],
    length: u8,
}

impl HostPath {
    /// From `begin` on the thread was outside OpenCL but for calls that took `calls` of the `ns`,
    /// the longest of them in a function for that long.
    pub fn was_between(&mut self, begin: HostNs, ns: u64, longest: Option<(u16, u64)>, calls: u64) {
        let (function, inside) = longest.unwrap_or_default();
        let part = |of: u64| (of as f64 / ns.max(1) as f64).min(1.0) as f32;
        let (inside, all) = (part(inside), part(calls));
        self.push(Step { begin, function, inside, others: (all - inside).max(0.0) }, ns);
    }

    /// From `begin` on the thread was in calls of a function, but for so much of the time.
    pub fn was_in(&mut self, begin: HostNs, function: u16, ns: u64, between: u64) {
        let inside = 1.0 - (between as f64 / ns.max(1) as f64).min(1.0) as f32;
        self.push(Step { begin, function, inside, others: 0.0 }, ns);
    }

    /// The newest step lasts for so long.
    fn push(&mut self, step: Step, lasts: u64) {
        let n = usize::from(self.length);
        if n < STEPS {
            self.steps[n] = step;
            self.length += 1;
            return;
        }
        let end = HostNs(step.begin.0.saturating_add_unsigned(lasts));
        let ends = |i: usize| match self.steps.get(i + 1) {
            Some(next) => next.begin,
            None => step.begin,
        };
        let length = |i: usize| ends(i).since(self.steps[i].begin);
        let all = |i: usize| match self.steps.get(i + 1) {
            Some(_) => length(i) + length(i + 1),
            None => length(i) + end.since(step.begin),
        };
        let Some(at) = (0..STEPS).min_by_key(|i| all(*i)) else { return };
        match self.steps.get(at + 1).copied() {
            Some(next) => {
                self.steps[at] = joined(self.steps[at], length(at), next, length(at + 1));
                self.steps.copy_within(at + 2.., at + 1);
                self.steps[STEPS - 1] = step;
            }
            None => self.steps[at] = joined(self.steps[at], length(at), step, lasts),
        }
    }

    /// Gives each of `ns` nanoseconds of a span to what the thread did meanwhile. Before the first
    /// stretch it was outside OpenCL.
    pub fn divide(&self, span: Span, ns: u64, mut give: impl FnMut(IdleCause, u64)) {
        let whole = span.duration();
        if whole == 0 || ns == 0 {
            return;
        }
        let scale = ns as f64 / whole as f64;
        let mut left = ns;
        let mut part = |cause, part: f64| {
            let part = ((part * scale) as u64).min(left);
            left -= part;
            if part > 0 {
                give(cause, part);
            }
        };
        let steps = &self.steps[..usize::from(self.length)];
        let ends = steps.iter().skip(1).map(|next| next.begin).chain([span.end]);
        for (step, end) in steps.iter().zip(ends) {
            let during = end.min(span.end).since(step.begin.max(span.begin)) as f64;
            part(IdleCause::HostCall(step.function), during * f64::from(step.inside));
            part(IdleCause::OtherCalls, during * f64::from(step.others));
        }
        // What rounding leaves of calls that filled all is theirs.
        let most = steps.iter().rfind(|s| s.begin < span.end);
        let all_inside = left < 2 * STEPS as u64 && left < ns;
        match most.filter(|step| all_inside && step.inside > 0.5) {
            Some(step) => give(IdleCause::HostCall(step.function), left),
            None if left > 0 => give(IdleCause::Application, left),
            None => {}
        }
    }
}

/// Two neighbours as one.
fn joined(a: Step, a_ns: u64, b: Step, b_ns: u64) -> Step {
    let whole = (a_ns + b_ns).max(1) as f64;
    let of = |step: &Step, ns: u64| {
        let part = ns as f64 / whole;
        (f64::from(step.inside) * part, f64::from(step.others) * part)
    };
    let ((a_in, a_more), (b_in, b_more)) = (of(&a, a_ns), of(&b, b_ns));
    let (function, inside, rest) = match (a.function == b.function, a_in >= b_in) {
        (true, _) => (a.function, a_in + b_in, 0.0),
        (false, true) => (a.function, a_in, b_in),
        (false, false) => (b.function, b_in, a_in),
    };
    Step {
        begin: a.begin,
        function,
        inside: inside as f32,
        others: (a_more + b_more + rest) as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn divided(path: &HostPath, begin: i64, end: i64) -> BTreeMap<IdleCause, u64> {
        let mut out = BTreeMap::new();
        let span = Span { begin: HostNs(begin), end: HostNs(end) };
        path.divide(span, span.duration(), |cause, ns| *out.entry(cause).or_default() += ns);
        out
    }

    proptest! {
        #[test]
        fn all_of_a_gap_is_given(
            steps in prop::collection::vec((0i64..500, 0u16..4, any::<bool>()), 0..12),
            span in (0i64..4_000, 0i64..4_000),
        ) {
            let (mut path, mut at) = (HostPath::default(), 100);
            for (length, function, inside) in steps {
                let ns = length as u64;
                match inside {
                    true => path.was_in(HostNs(at), function, ns, 0),
                    false => path.was_between(HostNs(at), ns, Some((function, ns / 3)), ns / 2),
                }
                at += length;
            }
            let (begin, end) = (span.0.min(span.1), span.0.max(span.1));
            let sum: u64 = divided(&path, begin, end).values().sum();
            prop_assert_eq!(sum, (end - begin) as u64);
        }
    }

    #[test]
    fn a_gap_is_given_to_the_calls_in_it_and_not_to_those_before() {
        let mut path = HostPath::default();
        path.was_in(HostNs(0), 3, 900, 0); // waited
        path.was_between(HostNs(900), 100, Some((5, 20)), 30);
        let parts: Vec<_> = divided(&path, 900, 1_000).into_iter().collect();
        let calls = [(IdleCause::HostCall(5), 20), (IdleCause::OtherCalls, 9)];
        let near =
            |(a, b): &((IdleCause, u64), (IdleCause, u64))| a.0 == b.0 && a.1.abs_diff(b.1) < 2;
        assert!(parts.iter().copied().zip(calls).all(|pair| near(&pair)), "{parts:?}");
        assert!(parts[2].0 == IdleCause::Application && parts[2].1.abs_diff(71) < 3, "{parts:?}");
    }

    #[test]
    fn of_many_stretches_the_long_ones_stay_apart() {
        let mut path = HostPath::default();
        path.was_in(HostNs(0), 1, 10_000, 0);
        for i in 0..20 {
            path.was_in(HostNs(10_000 + i * 10), 2 + (i % 2) as u16, 10, 0);
        }
        path.was_in(HostNs(10_200), 9, 5_000, 0);
        let parts = divided(&path, 0, 15_200);
        assert!(parts[&IdleCause::HostCall(1)].abs_diff(10_000) < 10, "{parts:?}");
        assert!(parts[&IdleCause::HostCall(9)].abs_diff(5_000) < 10, "{parts:?}");
    }
}
