//! Owns which MPI ranks are recorded (`record --ranks`). Refuses to start anything.
#![forbid(unsafe_code)]

use clscope_trace::variables::RANKS;
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Some of the ranks of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ranks {
    /// These.
    Listed(BTreeSet<u32>),
    /// 0, N, 2 N and so on.
    Every(NonZeroU32),
}

/// What names no ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected ranks, as 0,13, or every:8 for each eighth from 0 on")]
pub struct BadRanks;

/// Why it is not known whether this process is one of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)] // fields are named in the messages
pub enum NoRank {
    /// Nothing names the rank.
    #[error(
        "--ranks chooses by the rank of this process, which none of {} gives: start this command by mpirun or srun, or leave --ranks out",
        RANKS.join(", ")
    )]
    Unset,
    /// What names it is no number.
    #[error(
        "--ranks chooses by the rank of this process, and {name} is {value:?}, which is no rank"
    )]
    NoNumber { name: &'static str, value: String },
}

impl FromStr for Ranks {
    type Err = BadRanks;

    fn from_str(text: &str) -> Result<Self, BadRanks> {
        if let Some(step) = text.strip_prefix("every:") {
            return step.parse().map(Self::Every).map_err(|_| BadRanks);
        }
        let each = text.split(',').map(|rank| rank.trim().parse::<u32>());
        each.collect::<Result<_, _>>().map(Self::Listed).map_err(|_| BadRanks)
    }
}

impl Ranks {
    /// Whether the process with this environment is one of them.
    ///
    /// # Errors
    /// If the environment names no rank.
    pub fn include_this(
        &self,
        variable: impl Fn(&'static str) -> Option<String>,
    ) -> Result<bool, NoRank> {
        let found = RANKS.into_iter().find_map(|name| Some((name, variable(name)?)));
        let (name, value) = found.ok_or(NoRank::Unset)?;
        match value.trim().parse::<u32>() {
            Ok(rank) => Ok(self.include(rank)),
            Err(_) => Err(NoRank::NoNumber { name, value }),
        }
    }

    fn include(&self, rank: u32) -> bool {
        match self {
            Self::Listed(ranks) => ranks.contains(&rank),
            Self::Every(step) => rank.is_multiple_of(step.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_listed_or_counted() {
        let chosen = |text: &str| -> Vec<u32> {
            let ranks: Ranks = text.parse().unwrap();
            (0..20).filter(|rank| ranks.include(*rank)).collect()
        };
        assert_eq!(chosen("0,13"), [0, 13]);
        assert_eq!(chosen("7"), [7]);
        assert_eq!(chosen("every:8"), [0, 8, 16]);
        for bad in ["", "every:0", "every:", "1-3", "-1", "0,,1", "all", "4294967296"] {
            assert_eq!(bad.parse::<Ranks>(), Err(BadRanks), "{bad}");
        }
    }

    #[test]
    fn the_rank_is_that_of_the_environment() {
        let ranks: Ranks = "3".parse().unwrap();
        for name in RANKS {
            assert_eq!(ranks.include_this(|n| (n == name).then(|| "3".to_owned())), Ok(true));
        }
        assert_eq!(ranks.include_this(|_| None), Err(NoRank::Unset));
        let told = ranks.include_this(|_| Some("x".to_owned())).unwrap_err().to_string();
        assert!(told.contains(RANKS[0]) && told.contains("\"x\""), "{told}");
    }
}
