//! Owns the totals of the rows that are left where a user asked for some by name. Refuses to
//! estimate: they are sums of what the rows say.

use super::data::{Commands, Report, Totals};
use crate::interval::Interval;

/// Sum of independent totals, estimated where one of them is.
fn sum_independent<'r>(rows: impl Iterator<Item = &'r Commands>) -> Interval {
    let of = |row: &Commands| match row.estimate.as_ref().and_then(|e| e.total_ns) {
        Some(total) => total,
        None => Interval::exact(row.time_ns.total as f64),
    };
    let each: Vec<Interval> = rows.map(of).collect();
    Interval::sum_and_others(&each).0
}

/// Sum of totals without the span bias, which err together: the sides of the intervals add as they
/// are.
fn sum_corrected(rows: &[&Commands]) -> Option<Interval> {
    let with_time = rows.iter().filter(|row| row.time_ns.count > 0);
    let each: Option<Vec<Interval>> = with_time.map(|row| row.corrected_total_ns).collect();
    each?.into_iter().reduce(Interval::join)
}

impl Report {
    /// The totals of the kernels and functions of these names, and of all transfers and other
    /// commands, which have no names of an application.
    pub fn totals_of(&self, is_shown: impl Fn(&str) -> bool) -> Totals {
        let kernels: Vec<&Commands> = self.kernels.iter().filter(|k| is_shown(&k.name)).collect();
        let functions = || self.functions.iter().filter(|f| is_shown(&f.name));
        if kernels.len() == self.kernels.len() && functions().count() == self.functions.len() {
            return self.totals.clone();
        }
        let others = self.transfers.iter().chain(&self.other_commands);
        let commands = || kernels.iter().copied().chain(others.clone());
        let is_sampled = kernels.iter().any(|k| k.left_out > 0);
        Totals {
            calls: functions().map(|f| f.calls).sum(),
            commands: commands().map(|c| c.count).sum(),
            timed: commands().map(|c| c.time_ns.count).sum(),
            kernel_ns: kernels.iter().map(|k| k.time_ns.total).sum(),
            kernel_estimate_ns: is_sampled.then(|| sum_independent(kernels.iter().copied())),
            kernel_corrected_ns: sum_corrected(&kernels)
                .filter(|_| self.totals.kernel_corrected_ns.is_some()),
            call_ns: functions().map(|f| f.time_ns.total).sum(),
            errors: functions().map(|f| f.errors).sum(),
            ..self.totals.clone()
        }
    }
}
