//! Owns what a reader should know of sides that ran or were recorded differently, and that does not
//! forbid comparing them: command lines, repetitions. Refuses to judge.

use crate::run::Run;
use clscope_profile::report::data::Process;
use std::collections::{BTreeMap, BTreeSet};

/// In words; empty where both sides are alike.
pub fn unlike(base: &[Run], new: &[Run]) -> Vec<String> {
    let processes = |side: &[Run]| -> BTreeSet<String> {
        side.iter().flat_map(|r| &r.report.processes).map(command_line).collect()
    };
    let repeated = |side: &[Run]| side.iter().any(|r| r.report.repeated_ns.is_some());
    let command_lines = command_lines(processes(base), processes(new));
    let warmed = temperatures(degrees(base), degrees(new));
    let repeated = repetitions(repeated(base), repeated(new));
    command_lines.into_iter().chain(repeated).chain(warmed).collect()
}

/// Mean temperature of each device while its joules were measured, degrees Celsius.
fn degrees(side: &[Run]) -> BTreeMap<&str, f64> {
    let mut all: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for device in side.iter().flat_map(|r| &r.report.energy).flat_map(|e| &e.devices) {
        let Some(of) = device.temperature else { continue };
        let (sum, runs) = all.entry(&device.device).or_default();
        (*sum, *runs) = (*sum + of.mean_c, *runs + 1.0);
    }
    all.into_iter().map(|(name, (sum, runs))| (name, sum / runs)).collect()
}

/// Where joules of kernels are compared at one temperature, which is that of neither side.
fn temperatures(base: BTreeMap<&str, f64>, new: BTreeMap<&str, f64>) -> Vec<String> {
    let both = base.iter().filter_map(|(name, base)| Some((name, base, new.get(name)?)));
    both.map(|(name, base, new)| {
        format!(
            "joules of kernels on {name} are those at 50 C, where the readings tell them: it was at {base:.1} C in the base and at {new:.1} C on the new side; sums are as measured"
        )
    })
    .collect()
}

fn command_line(of: &Process) -> String {
    program(&of.executable, &of.arguments)
}

/// A program in another folder, and another build of it, are the same application.
fn program(executable: &str, arguments: &[String]) -> String {
    let program = executable.rsplit('/').next().unwrap_or_default();
    let arguments = arguments.iter().skip(1).map(String::as_str);
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}

fn command_lines(base: BTreeSet<String>, new: BTreeSet<String>) -> Option<String> {
    let all = |of: BTreeSet<String>| of.into_iter().collect::<Vec<_>>().join("; ");
    (base != new).then(|| {
        format!("the sides ran different command lines: base {}; new {}", all(base), all(new))
    })
}

fn repetitions(base: bool, new: bool) -> Option<String> {
    let side = match (base, new) {
        (true, false) => "the base",
        (false, true) => "the new side",
        _ => return None,
    };
    Some(format!(
        "commands were repeated (`record --replay`) on {side} alone: totals are without repetitions, but joules of a kernel are known otherwise there, and commands behind a pause may take longer"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_temperatures_of_both_sides_are_named() {
        let of = |degrees: f64| BTreeMap::from([("GPU", degrees)]);
        assert!(temperatures(of(45.0), BTreeMap::new()).is_empty());
        let told = temperatures(of(45.0), of(57.4)).join("");
        assert!(told.contains("at 45.0 C in the base and at 57.4 C on the new side"), "{told}");
    }

    #[test]
    fn other_folders_are_the_same_application_and_other_arguments_are_not() {
        let of = |executable: &str, argument: &str| {
            let line = program(executable, &[executable.to_owned(), argument.to_owned()]);
            BTreeSet::from([line])
        };
        assert_eq!(command_lines(of("/a/app", "7"), of("/b/app", "7")), None);
        let told = command_lines(of("/a/app", "7"), of("/a/app", "8")).unwrap_or_default();
        assert!(told.contains("base app 7; new app 8"), "{told}");
    }

    #[test]
    fn repetitions_on_one_side_are_told() {
        assert_eq!((repetitions(false, false), repetitions(true, true)), (None, None));
        let told = repetitions(false, true).unwrap_or_default();
        assert!(told.contains("the new side alone"), "{told}");
    }
}
