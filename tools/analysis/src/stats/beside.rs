//! Owns at which commands of a process the recorder ran commands of its own: repetitions, counted
//! copies, what capturing reads. Refuses to say for how long: what waited meanwhile is not known.
#![forbid(unsafe_code)]

use crate::input::Definitions;

/// Numbers of the commands to come, the last first.
#[derive(Debug, Clone, Default)]
pub struct Beside(Vec<u64>);

impl Beside {
    /// Of a process.
    pub fn of(d: &Definitions) -> Self {
        let repeated = d.replays.iter().map(|r| r.before);
        let counted = d.mixes.iter().map(|m| m.before);
        let captured = d.captures.iter().filter_map(|c| c.command);
        let mut all: Vec<u64> = repeated.chain(counted).chain(captured).collect();
        all.sort_unstable_by(|a, b| b.cmp(a));
        Self(all)
    }

    /// Whether it ran something at this command: the first with the number or a higher one. Commands
    /// are asked for in the order of the timeline.
    pub fn is_at(&mut self, id: u64) -> bool {
        let before = self.0.len();
        while self.0.last().is_some_and(|next| *next <= id) {
            self.0.pop();
        }
        self.0.len() < before
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clscope_trace::defs::Replay;

    #[test]
    fn each_is_told_at_one_command() {
        let mut of = Definitions::default();
        of.replays = [9, 4].map(|before| Replay { before, ..Replay::default() }).into();
        let mut of = Beside::of(&of);
        let told: Vec<u64> = (0..20).filter(|id| of.is_at(*id)).collect();
        assert_eq!(told, [4, 9]);
    }
}
