//! Owns whether runs are whole enough to be compared: processes that did not end in order, and
//! damaged traces. A run that was cut short has fewer launches, and the last of them are missing,
//! which passes for an improvement. Refuses to judge figures.

use clscope_analysis::issue::{Issue, IssueKind};

/// Processes and findings of a run that are named; of the others the number is told.
const SHOWN: usize = 3;
/// How a process that is not known to have ended in order ended.
const EARLY: &str = "killed, crashed, called _exit or exec, or still runs";

/// What of a run is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Integrity {
    /// The run's traces.
    pub name: String,
    /// Processes in it.
    pub processes: usize,
    /// Labels of those that did not end in order.
    pub early: Vec<String>,
    /// Damage of its files, in words, each with its process or file.
    pub damage: Vec<String>,
}

impl Integrity {
    /// Of a run of so many processes, from all that was found wrong with its trace.
    pub fn judge(name: String, processes: usize, issues: &[Issue]) -> Self {
        let is_early = |i: &&Issue| {
            let kind = &i.kind;
            matches!(
                kind,
                IssueKind::NotEnded | IssueKind::EndUnwritten | IssueKind::Running { .. }
            )
        };
        let early = issues.iter().filter(is_early);
        let early = early.map(|i| i.subject.clone()).collect();
        let damage = issues.iter().filter(|i| is_damage(&i.kind)).map(Issue::to_string).collect();
        Self { name, processes, early, damage }
    }

    /// Whether as many processes ended early in both, or all of them.
    fn ended_like(&self, other: &Self) -> bool {
        let all = |run: &Self| run.early.len() == run.processes;
        self.early.len() == other.early.len() || (all(self) && all(other))
    }
}

/// Whether a part of the run is missing from the trace, or cannot be placed in time.
const fn is_damage(kind: &IssueKind) -> bool {
    kind.means_loss()
        || matches!(
            kind,
            IssueKind::InputOutput { .. }
                | IssueKind::NoDefinitions
                | IssueKind::NotWritten
                | IssueKind::TornDefinitions { .. }
                | IssueKind::OtherProcess { .. }
                | IssueKind::SkippedBytes { .. }
                | IssueKind::NoAnchors
                | IssueKind::NoRate
        )
}

/// What the runs of two sides lack.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Broken {
    /// What forbids an outcome.
    pub runs: Vec<String>,
    /// What does not, because all runs have it alike.
    pub note: Option<String>,
}

/// Looks at all runs of both sides. Runs that ended early forbid an outcome, unless all of them did
/// alike: applications that always leave by `_exit` are comparable, and the trace does not tell
/// that from a crash.
pub fn broken(base: &[Integrity], new: &[Integrity]) -> Broken {
    let all = || base.iter().map(|r| ("base", r)).chain(new.iter().map(|r| ("new", r)));
    let alike = all().zip(all().skip(1)).all(|((_, a), (_, b))| a.ended_like(b));
    let mut out = Broken::default();
    for (side, run) in all() {
        if !alike && !run.early.is_empty() {
            out.runs.push(format!(
                "{side} run {} ended early: {EARLY}: {} of {} processes ({})",
                run.name,
                run.early.len(),
                run.processes,
                first(&run.early)
            ));
        }
        if !run.damage.is_empty() {
            out.runs.push(format!("{side} run {} is damaged: {}", run.name, first(&run.damage)));
        }
    }
    let is_early = all().any(|(_, r)| !r.early.is_empty());
    out.note = (alike && is_early).then(|| {
        format!(
            "all runs of both sides have processes that did not end in order ({EARLY}): what they did afterwards is in no figure"
        )
    });
    out
}

/// The first few, and how many more there are.
fn first(all: &[String]) -> String {
    let shown = all.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join("; ");
    match all.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown}; and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str, processes: usize, kinds: &[IssueKind]) -> Integrity {
        let issue = |(i, kind): (usize, &IssueKind)| Issue {
            subject: format!("app ({i})"),
            kind: kind.clone(),
        };
        let issues: Vec<Issue> = kinds.iter().enumerate().map(issue).collect();
        Integrity::judge(name.to_owned(), processes, &issues)
    }

    const TORN: IssueKind = IssueKind::DamagedBlocks { blocks: 2 };

    #[test]
    fn whole_runs_have_nothing_to_tell() {
        // What explains a figure is no damage.
        let noted = [IssueKind::OldestRotated { segments: 1 }];
        let (a, b) = (run("a", 1, &[]), run("b", 1, &noted));
        assert_eq!(broken(&[a], &[b]), Broken::default());
    }

    #[test]
    fn a_run_that_ended_early_forbids_an_outcome_on_either_side() {
        let (whole, killed) = (run("a", 1, &[]), run("b", 1, &[IssueKind::NotEnded]));
        let told = broken(std::slice::from_ref(&whole), std::slice::from_ref(&killed));
        assert_eq!(
            told.runs,
            [
                "new run b ended early: killed, crashed, called _exit or exec, or still runs: 1 of 1 processes (app (0))"
            ]
        );
        assert_eq!(told.note, None);
        let running = IssueKind::Running { as_of: "2026-01-02T03:04:05Z".to_owned() };
        let told = broken(std::slice::from_ref(&whole), &[run("c", 1, &[running])]);
        assert!(told.runs[0].starts_with("new run c ended early: "), "{told:?}");
        let told = broken(std::slice::from_ref(&killed), std::slice::from_ref(&whole));
        assert!(told.runs[0].starts_with("base run b ended early"), "{told:?}");
        // One among several.
        let told = broken(&[whole.clone(), whole.clone()], &[whole, killed]);
        assert_eq!(told.runs.len(), 1, "{told:?}");
    }

    #[test]
    fn runs_that_all_end_early_alike_are_comparable_and_it_is_noted() {
        let left = |name, processes| run(name, processes, &[IssueKind::NotEnded]);
        let (two, many) = (vec![IssueKind::NotEnded; 2], vec![IssueKind::NotEnded; 9]);
        for (base, new) in [
            (left("a", 1), left("b", 1)),
            // A child of each leaves by _exit.
            (left("a", 3), left("b", 3)),
            // All do, of fewer.
            (run("a", 2, &two), run("b", 9, &many)),
        ] {
            let told = broken(&[base], &[new]);
            assert!(told.runs.is_empty(), "{told:?}");
            assert!(told.note.unwrap().contains("did not end in order"));
        }
        let told = broken(&[left("a", 9)], &[run("b", 9, &many)]);
        assert_eq!(told.runs.len(), 2, "{told:?}");
        assert!(told.runs[1].contains("9 of 9 processes (app (0); app (1); app (2); and 6 more)"));
    }

    #[test]
    fn damage_forbids_an_outcome_though_both_sides_have_it() {
        let told = broken(&[run("a", 1, &[TORN])], &[run("b", 1, &[TORN])]);
        let texts = ["base run a is damaged: app (0): 2 blocks", "new run b is damaged: "];
        for (told, text) in told.runs.iter().zip(texts) {
            assert!(told.starts_with(text), "{told}");
        }
        assert_eq!(told.runs.len(), 2);
    }
}
