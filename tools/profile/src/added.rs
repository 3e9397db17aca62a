//! Owns whether the time that `record --replay` may add to a run was used up: only then would more
//! of it give what was not repeated a turn. Refuses to choose what is repeated: the recorder does.
#![forbid(unsafe_code)]

use clscope_trace::values::Replay;

/// What one batch takes at most, in seconds, where launches are short: its 420 ms twice, where
/// buffers are restored, a rest of 400 ms before it, and a pause behind the batch before.
const BATCH: f64 = 1.5;

/// What was added to a run, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Added {
    /// Time in which the application was held for repetitions.
    pub seconds: f64,
    /// Most that might have been.
    pub of: f64,
}

impl Added {
    /// `None` where no time in all was given. `own`: length of the run without what was added.
    #[must_use]
    pub fn of(wanted: Replay, seconds: f64, own: f64) -> Option<Self> {
        match wanted {
            Replay::Within { seconds: fixed, share } => {
                Some(Self { seconds, of: fixed.max(share * own) })
            }
            Replay::Batches { .. } => None,
        }
    }

    /// Whether no further batch had room.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.seconds + BATCH.min(self.of / 2.0) >= self.of
    }

    /// `2.1 of up to 20 s`.
    #[must_use]
    pub fn told(&self) -> String {
        let digits = usize::from(self.of < 9.95 || self.seconds < 9.95);
        format!("{:.digits$} of up to {:.0} s", self.seconds, self.of.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_used_up_where_no_batch_has_room() {
        let is_used_up =
            |wanted, seconds, own| Added::of(wanted, seconds, own).map(|a| a.is_used_up());
        assert_eq!(is_used_up(Replay::AUTO, 2.1, 0.4), Some(false));
        assert_eq!(is_used_up(Replay::AUTO, 15.0, 8.0), Some(false));
        assert_eq!(is_used_up(Replay::AUTO, 18.9, 30.0), Some(true));
        // A quarter of a long run.
        assert_eq!(is_used_up(Replay::AUTO, 18.9, 400.0), Some(false));
        let second = Replay::Within { seconds: 1.0, share: 0.0 };
        assert_eq!(is_used_up(second, 0.4, 9.0), Some(false));
        assert_eq!(is_used_up(second, 0.6, 9.0), Some(true));
        assert_eq!(is_used_up(Replay::Batches { batches: 8, milliseconds: 300 }, 9.0, 9.0), None);
        let told = |seconds, of| Added { seconds, of }.told();
        assert_eq!(told(2.06, 20.0), "2.1 of up to 20 s");
        assert_eq!(told(17.4, 20.0), "17 of up to 20 s");
    }
}
