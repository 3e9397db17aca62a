//! Shrinks a batch that comes out otherwise when it is recorded, to the lines that matter: whole
//! programs are taken away, then the life and end of the process, then steps, in pieces that halve
//! (Zeller's delta debugging). What is left still differs, as often as it is tried.

use super::{Batch, Outcome, Program, Setting, Way};

/// How a recorded batch differs from bare.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The batch.
    pub batch: Batch,
    /// The way of recording.
    pub way: Way,
    /// What it is bare.
    pub bare: Outcome,
    /// What it is recorded.
    pub recorded: Outcome,
}

/// Whether a batch differs when it is recorded, in one of `tries` runs. A batch whose bare runs
/// differ does not count.
pub fn differs(setting: &Setting, batch: &Batch, way: Way, tries: usize) -> Option<Finding> {
    let bare = setting.bare(batch, 2).ok()?;
    for _ in 0..tries {
        let recorded = setting.run(batch, Some(way));
        if recorded != bare && !recorded.lacked_memory() {
            // The machine may have been the reason: bare must still be what it was.
            if setting.run(batch, None) != bare {
                return None;
            }
            return Some(Finding { batch: batch.clone(), way, bare, recorded });
        }
    }
    None
}

/// Makes a finding smaller, as long as it differs in one of `tries` runs.
pub fn shrink(setting: &Setting, finding: Finding, tries: usize) -> Finding {
    let way = finding.way;
    let mut found = finding;
    let attempt = |found: &mut Finding, batch: Batch| -> bool {
        match differs(setting, &batch, way, tries) {
            Some(smaller) => {
                *found = smaller;
                true
            }
            None => false,
        }
    };
    // One program alone, the last first: it is where an early end shows.
    if found.batch.programs.len() > 1 {
        for program in found.batch.programs.clone().into_iter().rev() {
            let alone = found.batch.with(vec![program]);
            if attempt(&mut found, alone) {
                break;
            }
        }
    }
    for (life, end) in [("main", "return"), ("main", found.batch.end), (found.batch.life, "return")]
    {
        let plain = Batch { life, end, ..found.batch.clone() };
        if plain != found.batch && attempt(&mut found, plain) {
            break;
        }
    }
    loop {
        let before = found.batch.length();
        let mut piece = before.div_ceil(2);
        while piece > 0 {
            let mut at = 0;
            while at < found.batch.length() {
                let shorter = without(&found.batch, at, piece);
                if !attempt(&mut found, shorter) {
                    at += piece;
                }
            }
            piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
        }
        if found.batch.length() == before {
            break;
        }
    }
    words(&mut found, attempt);
    found
}

/// Takes words away that do not matter.
fn words(found: &mut Finding, attempt: impl Fn(&mut Finding, Batch) -> bool) {
    for program in 0..found.batch.programs.len() {
        for step in 0..found.batch.programs[program].steps.len() {
            let mut word = found.batch.programs[program].steps[step].split(' ').count();
            while word > 3 {
                word -= 1;
                let mut shorter = found.batch.clone();
                let line = &mut shorter.programs[program].steps[step];
                let kept: Vec<&str> = line
                    .split(' ')
                    .enumerate()
                    .filter(|(n, _)| *n != word)
                    .map(|(_, w)| w)
                    .collect();
                *line = kept.join(" ");
                attempt(found, shorter);
            }
        }
    }
}

/// The batch without `count` steps from the `at`-th on, and without programs that have none left.
fn without(batch: &Batch, at: usize, count: usize) -> Batch {
    let mut number = 0;
    let mut programs = Vec::new();
    for program in &batch.programs {
        let mut steps = Vec::new();
        for step in &program.steps {
            if number < at || number >= at + count {
                steps.push(step.clone());
            }
            number += 1;
        }
        if !steps.is_empty() {
            programs.push(Program { seed: program.seed, steps });
        }
    }
    batch.with(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_taken_from_the_program_that_has_them() {
        let program = |seed, steps: &[&str]| Program {
            seed,
            steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        };
        let batch = Batch {
            life: "main",
            end: "return",
            programs: vec![program(1, &["t0 a", "t0 b"]), program(2, &["t0 c", "t1 d"])],
        };
        let left = without(&batch, 1, 2);
        assert_eq!(left.text(), "life main\nend return\nprogram 1\nt0 a\nprogram 2\nt1 d\n");
        assert_eq!(without(&batch, 0, 2).programs, [program(2, &["t0 c", "t1 d"])]);
    }

    #[test]
    fn a_seed_makes_the_same_program_each_time() {
        let batch = super::super::generate_batch(7..9);
        assert_eq!(batch, super::super::generate_batch(7..9));
        assert!(batch.programs.iter().all(|program| program.steps.len() > 4), "{}", batch.text());
    }
}
