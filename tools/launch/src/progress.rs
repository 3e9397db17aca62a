//! Where a run is: which version of a launch is doing what. Whoever watches the process that runs
//! it can tell from the last word what it was doing when it ended. Refuses to watch.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A version of the launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Who {
    /// As captured.
    Captured,
    /// The other version beside it.
    Other,
    /// The captured program with groups of another size; null: of the runtime's choice.
    Groups(Option<Vec<usize>>),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Captured => f.write_str("the version as captured"),
            Self::Other => f.write_str("the other version"),
            Self::Groups(None) => f.write_str("the version with groups of the runtime's choice"),
            Self::Groups(Some(sizes)) => {
                let sizes: Vec<String> = sizes.iter().map(usize::to_string).collect();
                write!(f, "the version with groups of {}", sizes.join("x"))
            }
        }
    }
}

/// What is done with a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Its program is built.
    Building,
    /// It runs for its results.
    Results,
    /// It is timed.
    Timing,
    /// A copy that counts what it executes runs.
    Counting,
    /// It is repeated for its joules.
    Metering,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Building => "its program was built",
            Self::Results => "it ran for its results",
            Self::Timing => "it was timed",
            Self::Counting => "a copy of it ran that counts what it executes",
            Self::Metering => "it was repeated for its joules",
        })
    }
}

/// Where a run is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    /// The version.
    pub who: Who,
    /// What is done with it.
    pub step: Step,
}

/// A version that ended the process in which it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ended {
    /// The version.
    pub who: Who,
    /// What was done with it.
    pub step: Step,
    /// How the process ended: `signal 11 (SIGSEGV)`.
    pub how: String,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended by {} while {}", self.how, self.step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_words_and_read_back() {
        let who = Who::Groups(Some(vec![64, 1]));
        let of = Ended { who, step: Step::Results, how: "signal 11 (SIGSEGV)".to_owned() };
        assert_eq!(of.to_string(), "ended by signal 11 (SIGSEGV) while it ran for its results");
        assert_eq!(of.who.to_string(), "the version with groups of 64x1");
        let text = serde_json::to_string(&of).unwrap();
        assert_eq!(serde_json::from_str::<Ended>(&text).unwrap(), of);
    }
}
