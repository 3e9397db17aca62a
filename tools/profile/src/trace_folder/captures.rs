//! Launches that the recorder kept whole (`record --capture`): which they are, why others were not
//! kept, and what was asked for and never came. Refuses to open a capture, and to believe a
//! folder's name from a trace.

use clscope_analysis::Trace;
use clscope_names::short;
use clscope_trace::directory::{CAPTURES, is_capture_folder};
use clscope_trace::replace::nearest;
use clscope_trace::{defs, values, variables};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::FileType;
use std::io;
use std::path::{Path, PathBuf};

/// Kernels that are named for one reason.
const NAMED: usize = 8;
/// Names that are told where one is not there.
const NEAREST: usize = 3;

/// A captured launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Captured {
    /// Process, `TRACE/PID-N`.
    pub process: String,
    /// Kernel.
    pub kernel: String,
    /// Number of the launch among those of the kernel's name in the process, from 1.
    pub launch: u64,
    /// Id of its command.
    pub command: Option<u64>,
    /// Name of its folder in the trace's folder `captures`.
    pub folder: String,
    /// Bytes of its files.
    pub bytes: u64,
}

/// Launches that were to be captured and were not, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Refused {
    /// Process, `TRACE/PID-N`.
    pub process: String,
    /// Kernel.
    pub kernel: String,
    /// The first of them; null in a command buffer, whose launches are not counted.
    pub first: Option<u64>,
    /// The last of them.
    pub last: Option<u64>,
    /// Why.
    pub reason: String,
}

/// What became of launches that were to be captured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Captures {
    /// In order.
    pub captured: Vec<Captured>,
    /// In order.
    pub refused: Vec<Refused>,
    /// What was asked for and never came: a sentence for each.
    pub unmet: Vec<String>,
}

impl Captures {
    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.captured.is_empty() && self.refused.is_empty() && self.unmet.is_empty()
    }

    /// Bytes of all captures.
    pub fn bytes(&self) -> u64 {
        self.captured.iter().fold(0, |sum, one| sum.saturating_add(one.bytes))
    }

    /// Launches that were not captured and the reason, each reason once, for people. `shown` gives the
    /// name that a kernel is shown by.
    pub fn refusals(&self, shown: impl Fn(&str) -> String) -> Vec<(String, &str)> {
        let mut reasons: Vec<(&str, Vec<&Refused>)> = Vec::new();
        for one in &self.refused {
            match reasons.iter_mut().find(|(reason, _)| *reason == one.reason) {
                Some((_, all)) => all.push(one),
                None => reasons.push((&one.reason, vec![one])),
            }
        }
        let who = |all: &[&Refused]| {
            if let [one] = all {
                return one.launches(&shown(&one.kernel));
            }
            let mut names: Vec<String> = Vec::new();
            for name in all.iter().map(|one| shown(&one.kernel)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            let more = names.len().saturating_sub(NAMED);
            names.truncate(NAMED);
            let more = if more > 0 { format!(" and {more} more kernels") } else { String::new() };
            format!("launches of {}{more}", names.join(", "))
        };
        reasons.into_iter().map(|(reason, all)| (who(&all), reason)).collect()
    }

    /// Of a trace.
    pub fn collect(trace: &Trace<'_>) -> Self {
        let mut out = Collector::default();
        for process in &trace.processes {
            let d = &process.definitions;
            let recorded = |id: &u32| d.recorded_names.get(id).cloned();
            let kernels = d
                .kernels
                .iter()
                .map(|(id, k)| (*id, recorded(id).unwrap_or_else(|| k.name.clone())));
            let shown = |id: u32| d.kernel_name(id).into_owned();
            out.process(&process.label, &d.process.settings, kernels, &d.captures, shown);
        }
        out.finish(None)
    }
}

impl Refused {
    /// The launches and their kernel, by the name that it is shown by, for people.
    pub fn launches(&self, kernel: &str) -> String {
        match (self.first, self.last) {
            (Some(first), Some(last)) if first == last => format!("launch {first} of {kernel}"),
            (Some(first), Some(last)) => format!("launches {first} to {last} of {kernel}"),
            _ => format!("launches of {kernel}"),
        }
    }
}

/// Gathers what processes say.
#[derive(Debug, Default)]
pub struct Collector {
    names: BTreeSet<String>,
    asked: Vec<values::Capture>,
    /// Launches that were captured or refused, by recorded names.
    met: Vec<(String, u64)>,
    /// Recorded names of kernels by process and id.
    kernels: BTreeMap<(String, u32), String>,
    /// Launches in whose place others were to be captured: told of kernels without a capture.
    moved: Vec<Refused>,
    out: Captures,
}

/// Launches of each kernel, by process and id, as far as they were counted.
pub type Launches = BTreeMap<(String, u32), u64>;

impl Collector {
    /// Takes up one process: its settings, its kernels by recorded names, and its captures. `shown`
    /// gives the name that a kernel is shown by.
    pub fn process(
        &mut self,
        label: &str,
        given: &[String],
        kernels: impl Iterator<Item = (u32, String)>,
        captures: &[defs::Capture],
        shown: impl Fn(u32) -> String,
    ) {
        let kernels: BTreeMap<u32, String> = kernels.collect();
        self.names.extend(kernels.values().cloned());
        let of_process = kernels.iter().map(|(id, name)| ((label.to_owned(), *id), name.clone()));
        self.kernels.extend(of_process);
        let asked = given
            .iter()
            .find_map(|s| s.strip_prefix(variables::CAPTURE)?.strip_prefix('='))
            .and_then(|text| values::captures(text).ok());
        for one in asked.unwrap_or_default() {
            if !self.asked.contains(&one) {
                self.asked.push(one);
            }
        }
        for capture in captures {
            if let Some(name) = kernels.get(&capture.kernel) {
                self.met.push((name.clone(), capture.launch));
            }
            let (process, kernel) = (label.to_owned(), shown(capture.kernel));
            // It gave its place to another launch, or was measured and deleted.
            if capture.refused.is_empty() && capture.folder.is_empty() {
                continue;
            }
            if capture.refused.is_empty() {
                self.out.captured.push(Captured {
                    process,
                    kernel,
                    launch: capture.launch,
                    command: capture.command,
                    folder: capture.folder.clone(),
                    bytes: capture.bytes,
                });
                continue;
            }
            let number = (capture.launch > 0).then_some(capture.launch);
            let rows = if capture.again { &mut self.moved } else { &mut self.out.refused };
            match rows.last_mut() {
                Some(last)
                    if (&last.process, &last.kernel, &last.reason)
                        == (&process, &kernel, &capture.refused)
                        && number.is_some()
                        && last.last.and_then(|n| n.checked_add(1)) == number =>
                {
                    last.last = number;
                }
                _ => rows.push(Refused {
                    process,
                    kernel,
                    first: number,
                    last: number,
                    reason: capture.refused.clone(),
                }),
            }
        }
    }

    /// Ends: what was asked for and never came is told, with the launches that there were where
    /// they were all counted.
    pub fn finish(mut self, counted: Option<&Launches>) -> Captures {
        let captured = &self.out.captured;
        self.moved.retain(|of| {
            !captured.iter().any(|c| (&c.process, &c.kernel) == (&of.process, &of.kernel))
        });
        self.out.refused.append(&mut self.moved);
        for asked in std::mem::take(&mut self.asked) {
            let pattern = &asked.pattern;
            let of_it = |name: &str| clscope_names::means(pattern, name);
            if !self.names.iter().any(|name| of_it(name)) {
                let names: Vec<String> = self.names.iter().map(|name| short(name)).collect();
                let near = nearest(pattern, names.iter().map(String::as_str), NEAREST);
                let there = match near.is_empty() {
                    true => "the application made none".to_owned(),
                    false => format!("nearest are {}", near.join(", ")),
                };
                self.out.unmet.push(format!("no kernel has the name {pattern}: {there}"));
                continue;
            }
            let came =
                |n: u64| self.met.iter().any(|(name, of)| of_it(name) && (*of >= n || *of == 0));
            let mut absent: Vec<u64> =
                asked.launches.iter().copied().filter(|n| !came(*n)).collect();
            absent.sort_unstable();
            let Some(&first) = absent.first() else { continue };
            // Of an application that was seen in part the count is not what the recorder counted.
            let most =
                counted.map(|all| self.most(all, of_it)).filter(|most| (1..first).contains(most));
            self.out.unmet.push(match most {
                Some(most) => {
                    let times = if most == 1 { "launch" } else { "launches" };
                    format!("{} of {pattern} never came: it had {most} {times}", runs(&absent))
                }
                None => format!("{} of {pattern} never came", runs(&absent)),
            });
        }
        self.out
    }

    /// Launches of a name in one process, the most of all such.
    fn most(&self, counted: &Launches, of_it: impl Fn(&str) -> bool) -> u64 {
        let mut all: BTreeMap<(&str, &str), u64> = BTreeMap::new();
        for (key, name) in self.kernels.iter().filter(|(_, name)| of_it(name)) {
            *all.entry((&key.0, name)).or_default() += counted.get(key).copied().unwrap_or(0);
        }
        all.into_values().max().unwrap_or(0)
    }
}

/// Numbers of launches in order, for people: `launches 3, 7 to 13`.
fn runs(sorted: &[u64]) -> String {
    let parts: Vec<String> = sorted
        .chunk_by(|a, b| a.checked_add(1) == Some(*b))
        .filter_map(|run| match run {
            [only] => Some(only.to_string()),
            [first, .., last] => Some(format!("{first} to {last}")),
            [] => None,
        })
        .collect();
    let word = if sorted.len() == 1 { "launch" } else { "launches" };
    format!("{word} {}", parts.join(", "))
}

/// The captures in a trace directory, whole ones alone: name and folder. None where there is no
/// folder of captures.
///
/// # Errors
/// If the folder is there and cannot be listed.
pub fn folders(trace: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    listed(&trace.join(CAPTURES), is_capture_folder, FileType::is_dir)
}

/// What a folder holds of what is wanted, by name. None where there is no folder.
pub(crate) fn listed(
    folder: &Path,
    is_wanted: impl Fn(&str) -> bool,
    is_kind: impl Fn(&FileType) -> bool,
) -> io::Result<Vec<(String, PathBuf)>> {
    match std::fs::symlink_metadata(folder) {
        Ok(found) if found.is_dir() => {}
        // A link might lead anywhere.
        Ok(_) => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    entries(folder, is_wanted, is_kind)
}

fn entries(
    folder: &Path,
    is_wanted: impl Fn(&str) -> bool,
    is_kind: impl Fn(&FileType) -> bool,
) -> io::Result<Vec<(String, PathBuf)>> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        if is_wanted(&name) && is_kind(&entry.file_type()?) {
            out.push((name, entry.path()));
        }
    }
    out.sort();
    Ok(out)
}

/// The regular files of a capture: name and path.
///
/// # Errors
/// If the folder cannot be listed.
pub fn files(folder: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    entries(folder, |_| true, FileType::is_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(kernel: u32, launch: u64, refused: &str) -> defs::Capture {
        let folder = if refused.is_empty() { format!("k{kernel}.{launch}") } else { String::new() };
        defs::Capture { kernel, launch, folder, refused: refused.into(), ..Default::default() }
    }

    fn count_all(asked: &str, captures: &[defs::Capture]) -> Captures {
        counted(asked, captures, None)
    }

    fn counted(asked: &str, captures: &[defs::Capture], launches: Option<&Launches>) -> Captures {
        let mut out = Collector::default();
        let kernels = [(1, "gemm".to_owned()), (2, "copy".to_owned())];
        let given = [format!("{}={asked}", variables::CAPTURE)];
        out.process("t/1-0", &given, kernels.into_iter(), captures, |id| format!("k{id}"));
        out.finish(launches)
    }

    #[test]
    fn every_kernel_that_was_refused_is_named_once_with_its_reason() {
        let rows = (0..40u64).map(|n| Refused {
            process: "t/1-0".to_owned(),
            kernel: format!("k{}", n % 10),
            first: Some(1 + 7 * n),
            last: Some(1 + 7 * n),
            reason: if n == 39 { "other" } else { "a sandbox" }.to_owned(),
        });
        let of = Captures { refused: rows.collect(), ..Captures::default() };
        let named = "launches of k0, k1, k2, k3, k4, k5, k6, k7 and 2 more kernels".to_owned();
        let other = ("launch 274 of k9".to_owned(), "other");
        assert_eq!(of.refusals(str::to_owned), [(named, "a sandbox"), other]);
    }

    #[test]
    fn refusals_of_launches_in_a_row_are_one() {
        let all = [
            capture(1, 1, "a"),
            capture(1, 2, "a"),
            capture(1, 3, "b"),
            capture(2, 4, "b"),
            capture(2, 0, "c"),
            capture(2, 0, "c"),
        ];
        let found = count_all("gemm,copy", &all);
        let told: Vec<_> = found
            .refused
            .iter()
            .map(|r| format!("{}: {}", r.launches(&r.kernel), r.reason))
            .collect();
        assert_eq!(
            told,
            [
                "launches 1 to 2 of k1: a",
                "launch 3 of k1: b",
                "launch 4 of k2: b",
                "launches of k2: c",
                "launches of k2: c"
            ]
        );
        assert!(found.unmet.is_empty() && found.captured.is_empty());
    }

    #[test]
    fn what_never_came_is_told_with_the_nearest_names() {
        let found = count_all("gem,c*:1,7", &[capture(2, 1, "")]);
        assert_eq!(
            found.unmet,
            ["no kernel has the name gem: nearest are gemm, copy", "launch 7 of c* never came"]
        );
        assert_eq!(found.captured.len(), 1);
        assert!(count_all("", &[]).is_empty());
    }

    #[test]
    fn launches_that_never_came_are_told_with_those_that_did() {
        let launches = |n| Launches::from([(("t/1-0".to_owned(), 1), n)]);
        let told = |asked: &str, n: u64| {
            let met = [capture(1, 3, "")];
            counted(asked, &met, Some(&launches(n))).unmet.join("; ")
        };
        let seven = "gemm:3,13,7,8,9,10,11,12";
        assert_eq!(told(seven, 6), "launches 7 to 13 of gemm never came: it had 6 launches");
        assert_eq!(
            told("gemm:7,9,10", 6),
            "launches 7, 9 to 10 of gemm never came: it had 6 launches"
        );
        assert_eq!(told("gemm:3", 6), "");
        assert_eq!(told("copy:1,2", 6), "launches 1 to 2 of copy never came");
        // A count that contradicts what was captured is none.
        assert_eq!(told("gemm:7", 9), "launch 7 of gemm never came");
        // Another process does not add to it.
        let mut all = launches(2);
        all.insert(("t/2-0".to_owned(), 1), 9);
        let one = counted("gemm:4", &[], Some(&all)).unmet;
        assert_eq!(one, ["launch 4 of gemm never came: it had 2 launches"]);
    }
}
