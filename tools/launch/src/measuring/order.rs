//! Results that the order of work-items may decide: those of programs with atomics. Owns what is
//! done about a difference of such a program: it runs some more times, and elements that only stand
//! in another order are told. Refuses to excuse a difference of a program without atomics.

use crate::compare::is_reordered;
use crate::document::{Contents, Outcome, Results};
use crate::element::Element;
use crate::run::RunError;
use crate::stage::{Built, Form, Stage};
use clscope_clock::monotonic_raw;
use clscope_mix::{Counts, spirv};
use clscope_profile::opencl_c;

/// Runs that look for other results.
const RUNS: usize = 8;
/// No such run begins later than this after the first, nanoseconds.
const LONGEST_NS: u64 = 2_000_000_000;

/// What a program has of atomics, in words; nothing where it has none, and of binaries, which do
/// not tell.
pub(crate) fn atomics(form: Form, program: &[u8]) -> Option<String> {
    match form {
        Form::Source => in_source(&String::from_utf8_lossy(program)),
        Form::Il => in_module(program),
        Form::Binary => None,
    }
}

fn in_source(text: &str) -> Option<String> {
    let plain = opencl_c::plain(text);
    let is_atomic = |word: &&&str| word.starts_with("atomic_") || word.starts_with("atom_");
    let found = opencl_c::tokens(&plain).iter().find(is_atomic).map(|word| (*word).to_owned())?;
    Some(format!("its source uses atomics ({found})"))
}

fn in_module(bytes: &[u8]) -> Option<String> {
    let program = spirv::read(bytes).ok()?;
    let once = Counts { threads: vec![1; program.blocks.len()], ..Counts::default() };
    let has_some = program.mix(&once).atomics() > 0;
    has_some.then(|| "its SPIR-V has atomic instructions".to_owned())
}

/// What results are judged by.
pub(crate) struct Against<'r> {
    /// What was expected.
    pub(crate) expected: &'r [Option<Vec<u8>>],
    /// What a run gave.
    pub(crate) found: &'r Contents,
    /// Types of the memories' elements.
    pub(crate) kinds: &'r [Element],
}

/// Looks closer at results that differ though two runs gave the same: more runs may not. Gives a
/// note, of programs with atomics.
///
/// # Errors
/// [`RunError`].
pub(crate) fn settle(
    stage: &Stage<'_>,
    built: &Built,
    results: &mut Results,
    with: &Against<'_>,
    stop: &dyn Fn() -> bool,
) -> Result<Option<String>, RunError> {
    if !matches!(results.outcome, Outcome::Differs | Outcome::Varies) {
        return Ok(None);
    }
    let Some(atomics) = &built.atomics else { return Ok(None) };
    let who = &built.who;
    let (mut runs, begun) = (2, monotonic_raw().0);
    while results.is_repeatable && runs < 2 + RUNS && monotonic_raw().0 - begun < LONGEST_NS {
        if stop() {
            return Err(RunError::Interrupted);
        }
        results.is_repeatable = again(stage, built, with)?;
        runs += 1;
    }
    let all = with.expected.iter().zip(with.found).zip(with.kinds);
    let mut differing = all
        .filter_map(|((expected, found), kind)| Some((expected.as_ref()?, found, *kind)))
        .filter(|(expected, found, _)| expected != found);
    let reordered = differing.all(|(expected, found, kind)| is_reordered(expected, found, kind));
    let why = match (results.is_repeatable, reordered) {
        (false, _) => "results are not reproducible on this device",
        (true, true) => "the elements that differ are the same in another order",
        (true, false) => {
            return Ok(Some(format!(
                "{who}: {atomics}, so the order of work-items may decide results; {runs} runs on this device gave the same, which are not those expected"
            )));
        }
    };
    results.outcome = Outcome::Varies;
    Ok(Some(format!("{who}: {atomics}, and {why}: the order of work-items decides them")))
}

/// Whether a run from the captured contents gives once more what was found.
fn again(stage: &Stage<'_>, built: &Built, with: &Against<'_>) -> Result<bool, RunError> {
    let memories = 0..stage.before().len();
    memories.clone().try_for_each(|index| stage.restore(index).map(drop))?;
    stage.launch(built, &built.range)?;
    stage.session.finish()?;
    for (index, found) in with.found.iter().enumerate() {
        let is_compared = with.expected.get(index).is_some_and(Option::is_some);
        if is_compared && stage.read(index)? != *found {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_are_found_in_sources_but_not_in_comments() {
        let of = |text: &str| in_source(text);
        assert_eq!(of("kernel void k(global int *a) { a[0] = 1; } // atomic_inc(a)"), None);
        let found = of("kernel void k(global int *a) { atomic_inc(a); }").unwrap();
        assert_eq!(found, "its source uses atomics (atomic_inc)");
        assert!(of("int f(local int *a) { return atom_add(a, 1); }").is_some());
        assert_eq!(in_module(b"no module"), None);
    }
}
