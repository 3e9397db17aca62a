//! What is said while joules are measured, which may take minutes: before it begins how long it
//! takes at most, and where somebody looks on a line every few seconds.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Between two lines.
const PACE: Duration = Duration::from_secs(5);

/// Joules that are being measured, or not yet.
pub struct Metering<'a> {
    /// Whether somebody looks on.
    is_watched: bool,
    /// Takes what is said.
    tell: &'a dyn Fn(&str),
    /// Since when, how long at most, and when a line was last written.
    begun: Cell<Option<(Instant, Duration, Instant)>>,
}

impl<'a> Metering<'a> {
    /// Not begun.
    pub fn new(is_watched: bool, tell: &'a dyn Fn(&str)) -> Self {
        Self { is_watched, tell, begun: Cell::new(None) }
    }

    /// It begins, and takes at most so many nanoseconds.
    pub fn begins(&self, longest_ns: u64) {
        let (now, longest) = (Instant::now(), Duration::from_nanos(longest_ns));
        self.begun.set(Some((now, longest, now)));
        (self.tell)(&announced(longest));
    }

    /// It goes on: called often.
    pub fn goes_on(&self) {
        let Some((begun, longest, last)) = self.begun.get().filter(|_| self.is_watched) else {
            return;
        };
        if last.elapsed() >= PACE {
            self.begun.set(Some((begun, longest, Instant::now())));
            (self.tell)(&done(begun.elapsed(), longest));
        }
    }
}

fn announced(longest: Duration) -> String {
    format!(
        "measuring joules: the launch is repeated until the sensor knows them, at most {} s; --sensors off leaves this out",
        longest.as_secs_f64().ceil()
    )
}

fn done(passed: Duration, longest: Duration) -> String {
    format!(
        "measuring joules: {} s of at most {} s",
        passed.as_secs(),
        longest.as_secs_f64().ceil()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_has_the_longest_time() {
        let longest = Duration::from_millis(116_250);
        assert!(announced(longest).contains("at most 117 s; --sensors off"));
        assert_eq!(
            done(Duration::from_millis(5_900), longest),
            "measuring joules: 5 s of at most 117 s"
        );
    }

    #[test]
    fn nothing_goes_on_before_it_begins() {
        let of = Metering::new(true, &|_| ());
        of.goes_on();
        assert!(of.begun.get().is_none());
        of.begins(1);
        assert!(of.begun.get().is_some());
    }
}
