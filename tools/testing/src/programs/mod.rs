//! Programs of generated steps: small OpenCL applications that are made from a seed, run bare and
//! recorded, and compared ([`run`]); one that comes out otherwise when it is recorded is shrunk to
//! the few lines that matter ([`shrink()`]). The steps are read by `tests/fixtures/programs`, which
//! keeps their outcome determined whatever lines are left out.
#![forbid(unsafe_code)]

pub mod generate;
pub mod run;
pub mod shrink;

pub use generate::{generate, generate_batch};
pub use run::{Outcome, Setting, WAYS, Way, difference};
pub use shrink::{Finding, differs, shrink};

use std::fmt::Write as _;

/// One program: a name and its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The seed that it was made from.
    pub seed: u64,
    /// Lines `tN OP WORDS`.
    pub steps: Vec<String>,
}

/// Programs that run one after another in one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// How the process comes to run them.
    pub life: &'static str,
    /// How it ends.
    pub end: &'static str,
    /// The programs.
    pub programs: Vec<Program>,
}

impl Batch {
    /// The file that `programs` reads.
    pub fn text(&self) -> String {
        let mut text = format!("life {}\nend {}\n", self.life, self.end);
        for program in &self.programs {
            let _ = writeln!(text, "program {}", program.seed);
            for step in &program.steps {
                let _ = writeln!(text, "{step}");
            }
        }
        text
    }

    /// The same process with other programs.
    pub fn with(&self, programs: Vec<Program>) -> Self {
        Self { programs, ..self.clone() }
    }

    /// How many steps its programs have.
    pub fn length(&self) -> usize {
        self.programs.iter().map(|program| program.steps.len()).sum()
    }
}
