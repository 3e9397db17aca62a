//! What a run changed of its application on request (`record --replace`, `--options`,
//! `--local`), and what became of each request: such a run is not a plain run, and every output
//! says so first. Owns counts and sentences; refuses to judge what the change did.

use clscope_analysis::Trace;
use clscope_analysis::event::Event;
use clscope_analysis::input::{Definitions, Process};
use clscope_names::{means, short};
use clscope_trace::defs::{self, Geometry};
use clscope_trace::replace::{Requests, fitted, nearest, shown};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// What was changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Changes {
    /// Kernels whose code was to be a file's.
    pub replaced: Vec<Replaced>,
    /// Options that were to be appended to those of programs.
    pub appended_options: Vec<AppendedOptions>,
    /// Kernels whose work-group size was to be set.
    pub local_sizes: Vec<LocalSize>,
    /// Requests that met nothing.
    pub unmet: Vec<Unmet>,
}

/// A kernel whose code was to be a file's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Replaced {
    /// Its name.
    pub kernel: String,
    /// The file.
    pub file: String,
    /// Language of what the file held: `cl`, `spv`, `ptx` or `bin`; null where it was not read.
    pub language: Option<String>,
    /// 128-bit hash of what the file held, as hex; null where it was not read.
    pub hash: Option<String>,
    /// Launches that ran it.
    pub launches: u64,
    /// Launches that ran the application's own code, by the reason.
    pub refused: Vec<Refused>,
}

/// Options that were to be appended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct AppendedOptions {
    /// The options.
    pub options: String,
    /// Programs that were built with them.
    pub programs: u64,
    /// Programs that were built without them, by the reason.
    pub refused: Vec<Refused>,
}

/// A kernel whose work-group size was to be set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct LocalSize {
    /// Its name.
    pub kernel: String,
    /// The size, one number per dimension.
    pub size: Vec<u64>,
    /// Launches that had it.
    pub launches: u64,
    /// Launches that kept the application's, by the reason.
    pub refused: Vec<Refused>,
}

/// What was not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Refused {
    /// Launches or programs.
    pub count: u64,
    /// Why.
    pub why: String,
}

/// A request that met nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Unmet {
    /// The option as it was given.
    pub request: String,
    /// Why it met nothing.
    pub why: String,
}

/// How many names are offered for one that nothing has.
const NEAREST: usize = 5;

/// How many reasons a sentence gives: sizes may be a kernel's every launch's own.
const REASONS: usize = 3;

/// Counts by reason, the empty one for what was changed.
type Counts = BTreeMap<String, u64>;

fn split(mut counts: Counts) -> (u64, Vec<Refused>) {
    let done = counts.remove("").unwrap_or(0);
    (done, counts.into_iter().map(|(why, count)| Refused { count, why }).collect())
}

/// What a trace's runs changed; `None` for plain runs. Reads all records where something was.
pub fn recorded_changes(trace: &Trace<'_>) -> Option<Changes> {
    if trace.processes.iter().all(|p| is_plain(&p.definitions)) {
        return None;
    }
    let mut counted = Counted::new(trace);
    if trace
        .processes
        .iter()
        .any(|p| !p.definitions.replaced.is_empty() || !p.definitions.local_sizes.is_empty())
    {
        for event in trace.events(None) {
            if let Event::Command(command) = event {
                let record = &command.enqueued.record;
                if record.kind.is_kernel() {
                    let (kernel, geometry) = (record.object, record.geometry);
                    counted.launch(trace, command.process.0 as usize, kernel, record.id, geometry);
                }
            }
        }
    }
    Some(counted.finish(trace))
}

fn is_plain(definitions: &Definitions) -> bool {
    definitions.replaced.is_empty()
        && definitions.local_sizes.is_empty()
        && definitions.appended_options.is_empty()
        && Requests::of_settings(&definitions.process.settings) == Requests::default()
}

/// Definitions of a process by kernel, and counts by name.
#[derive(Default)]
struct Counted<'t> {
    replaced: Vec<HashMap<u32, Vec<&'t defs::Replaced>>>,
    local: Vec<HashMap<u32, Vec<&'t defs::LocalSize>>>,
    /// By kernel and file.
    launches: BTreeMap<(String, String), Counts>,
    /// By kernel and size.
    sizes: BTreeMap<(String, Vec<u64>), Counts>,
}

impl<'t> Counted<'t> {
    fn new(trace: &'t Trace<'_>) -> Self {
        let mut out = Self::default();
        for process in &trace.processes {
            let definitions = &process.definitions;
            let mut replaced: HashMap<u32, Vec<&defs::Replaced>> = HashMap::new();
            for one in &definitions.replaced {
                replaced.entry(one.kernel).or_default().push(one);
                let key = (definitions.kernel_name(one.kernel).into_owned(), one.file.clone());
                // What is told and was never launched has a row, too.
                out.launches.entry(key).or_default().entry(one.refused.clone()).or_default();
            }
            let mut local: HashMap<u32, Vec<&defs::LocalSize>> = HashMap::new();
            for one in &definitions.local_sizes {
                local.entry(one.kernel).or_default().push(one);
                let key = (definitions.kernel_name(one.kernel).into_owned(), one.wanted.clone());
                out.sizes.entry(key).or_default().entry(one.refused.clone()).or_default();
            }
            out.replaced.push(replaced);
            out.local.push(local);
        }
        out
    }

    fn launch(
        &mut self,
        trace: &Trace<'_>,
        process: usize,
        kernel: u32,
        command: u64,
        geometry: u32,
    ) {
        let Some(of) = trace.processes.get(process) else { return };
        let definitions = &of.definitions;
        let holds = self.replaced.get(process).and_then(|all| all.get(&kernel));
        let holds = holds.and_then(|all| all.iter().rev().find(|one| one.from <= command));
        if let Some(holds) = holds {
            let key = (definitions.kernel_name(kernel).into_owned(), holds.file.clone());
            *self.launches.entry(key).or_default().entry(holds.refused.clone()).or_default() += 1;
        }
        if let Some(all) = self.local.get(process).and_then(|all| all.get(&kernel))
            && let Some(geometry) = definitions.geometries.get(&geometry)
            && let Some((holds, changed)) = size_of(all, geometry)
        {
            let why = if changed { String::new() } else { holds.refused.clone() };
            let key = (definitions.kernel_name(kernel).into_owned(), holds.wanted.clone());
            *self.sizes.entry(key).or_default().entry(why).or_default() += 1;
        }
    }

    fn finish(self, trace: &Trace<'_>) -> Changes {
        let mut out = Changes::default();
        for ((kernel, file), counts) in self.launches {
            let code = trace.processes.iter().find_map(|p| code_of(&p.definitions, &file));
            let (launches, refused) = split(counts);
            let (language, hash) = code.unzip();
            out.replaced.push(Replaced { kernel, file, language, hash, launches, refused });
        }
        for ((kernel, size), counts) in self.sizes {
            let (launches, refused) = split(counts);
            out.local_sizes.push(LocalSize { kernel, size, launches, refused });
        }
        let mut options: BTreeMap<String, Counts> = BTreeMap::new();
        for one in trace.processes.iter().flat_map(|p| &p.definitions.appended_options) {
            let counts = options.entry(one.options.clone()).or_default();
            *counts.entry(one.refused.clone()).or_default() += 1;
        }
        for (options, counts) in options {
            let (programs, refused) = split(counts);
            out.appended_options.push(AppendedOptions { options, programs, refused });
        }
        out.unmet = unmet(trace);
        out
    }
}

/// What was told of launches like this one, and whether it has the size.
fn size_of<'t>(
    told: &[&'t defs::LocalSize],
    geometry: &Geometry,
) -> Option<(&'t defs::LocalSize, bool)> {
    let dimensions = (geometry.dimensions as usize).min(3);
    let global = geometry.global.get(..dimensions)?;
    let local = geometry.local.as_ref().and_then(|local| local.get(..dimensions)).unwrap_or(&[]);
    let mut alike = told.iter().filter(|one| one.global == global);
    // A later one of the same launch takes the place of an earlier one.
    let refused = alike.clone().rev().find(|one| one.asked == local && !one.refused.is_empty());
    let is_wanted = |one: &defs::LocalSize| {
        fitted(&one.wanted, local.len()).is_some_and(|wanted| wanted == local)
    };
    match alike.find(|one| is_wanted(one) && one.refused.is_empty()) {
        Some(one) => Some((*one, true)),
        None => refused.map(|one| (*one, false)),
    }
}

/// Language and hash of a file's content, from the program that was made of it.
fn code_of(definitions: &Definitions, file: &str) -> Option<(String, String)> {
    let programs = definitions.replaced.iter().filter(|one| one.file == file && one.program != 0);
    let mut codes =
        programs.filter_map(|one| definitions.codes.iter().find(|c| c.program == one.program));
    codes.next().map(|code| (code.language.clone(), code.hash.clone()))
}

/// Names of the kernels that a process made, as it recorded them.
fn recorded(definitions: &Definitions) -> impl Iterator<Item = &str> {
    definitions.kernels.values().map(|kernel| {
        definitions.recorded_names.get(&kernel.id).map_or(kernel.name.as_str(), String::as_str)
    })
}

/// Requests that met no kernel, or none that was launched.
fn unmet(trace: &Trace<'_>) -> Vec<Unmet> {
    let mut out: Vec<Unmet> = Vec::new();
    let mut met = |request: String, kernel: &str, told: &dyn Fn(&Process<'_>) -> bool| {
        if trace.processes.iter().any(told) || out.iter().any(|one| one.request == request) {
            return;
        }
        let names: Vec<&str> =
            trace.processes.iter().flat_map(|p| recorded(&p.definitions)).collect();
        let why = if names.iter().any(|name| means(kernel, name)) {
            "the kernel was never launched".to_owned()
        } else {
            let names: Vec<String> = names.into_iter().map(short).collect();
            match &nearest(kernel, names.iter().map(String::as_str), NEAREST)[..] {
                [] => "the application made no kernel".to_owned(),
                near => {
                    format!("the application made no such kernel; nearest: {}", near.join(", "))
                }
            }
        };
        out.push(Unmet { request, why });
    };
    let of_kernel = |definitions: &Definitions, id: u32, kernel: &str| {
        let name = definitions.kernels.get(&id).map(|k| k.name.as_str());
        let name = definitions.recorded_names.get(&id).map(String::as_str).or(name);
        name.is_some_and(|name| means(kernel, name))
    };
    let mut options = Vec::new();
    for process in &trace.processes {
        let requests = Requests::of_settings(&process.definitions.process.settings);
        for one in &requests.replacements {
            met(format!("--replace {}={}", one.kernel, one.file), &one.kernel, &|p| {
                let definitions = &p.definitions;
                let mut told = definitions.replaced.iter();
                told.any(|told| of_kernel(definitions, told.kernel, &one.kernel))
            });
        }
        for one in &requests.local_sizes {
            met(format!("--local {one}"), &one.kernel, &|p| {
                let definitions = &p.definitions;
                let mut told = definitions.local_sizes.iter();
                told.any(|told| of_kernel(definitions, told.kernel, &one.kernel))
            });
        }
        if !requests.append_options.is_empty() && !options.contains(&requests.append_options) {
            options.push(requests.append_options);
        }
    }
    let appended = trace.processes.iter().any(|p| !p.definitions.appended_options.is_empty());
    out.extend(options.into_iter().filter(|_| !appended).map(|options| Unmet {
        request: format!("--options {options}"),
        why: "the application built no program from source".to_owned(),
    }));
    out
}

impl Changes {
    /// The changes in sentences, one for each. Texts of the trace are in them as they are.
    pub fn lines(&self) -> Vec<String> {
        let mut out = Vec::new();
        let unchanged = |refused: &[Refused], what: [&str; 2]| -> String {
            let many = |n: u64| what[usize::from(n != 1)];
            let mut often: Vec<&Refused> = refused.iter().collect();
            often.sort_by_key(|one| std::cmp::Reverse(one.count));
            let (shown, others) = often.split_at(often.len().min(REASONS));
            let parts = shown.iter().map(|one| {
                // A log begins on its second line.
                let why = one.why.lines().next().unwrap_or_default();
                format!("; {} {} not: {why}", one.count, many(one.count))
            });
            let mut out: String = parts.collect();
            if !others.is_empty() {
                let n = others.iter().fold(0u64, |sum, one| sum.saturating_add(one.count));
                out += &format!("; {n} {} not, for {} other reasons", many(n), others.len());
            }
            out
        };
        let launches = ["launch", "launches"];
        let of = |n: u64| format!("{n} {}", launches[usize::from(n != 1)]);
        for one in &self.replaced {
            out.push(format!(
                "replaced: {} by {} ({}{})",
                one.kernel,
                one.file,
                of(one.launches),
                unchanged(&one.refused, launches)
            ));
        }
        let programs = ["program", "programs"];
        for one in &self.appended_options {
            out.push(format!(
                "options appended: {} ({} {}{})",
                one.options,
                one.programs,
                programs[usize::from(one.programs != 1)],
                unchanged(&one.refused, programs)
            ));
        }
        for one in &self.local_sizes {
            out.push(format!(
                "local size of {}: {} ({}{})",
                one.kernel,
                shown(&one.size),
                of(one.launches),
                unchanged(&one.refused, launches)
            ));
        }
        out.extend(
            self.unmet.iter().map(|one| format!("nothing done for {}: {}", one.request, one.why)),
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_tell_counts_and_reasons() {
        let changes = Changes {
            replaced: vec![Replaced {
                kernel: "sobel".into(),
                file: "/f.cl".into(),
                launches: 1,
                refused: vec![Refused { count: 2, why: "it does not build\nline 1".into() }],
                ..Replaced::default()
            }],
            appended_options: vec![AppendedOptions {
                options: "-w".into(),
                programs: 2,
                refused: vec![],
            }],
            local_sizes: vec![LocalSize {
                kernel: "sobel".into(),
                size: vec![64, 1],
                launches: 3,
                refused: vec![Refused { count: 1, why: "it does not divide".into() }],
            }],
            unmet: vec![Unmet { request: "--local x=1".into(), why: "none".into() }],
        };
        assert_eq!(
            changes.lines(),
            [
                "replaced: sobel by /f.cl (1 launch; 2 launches not: it does not build)",
                "options appended: -w (2 programs)",
                "local size of sobel: 64x1 (3 launches; 1 launch not: it does not divide)",
                "nothing done for --local x=1: none",
            ]
        );
    }

    #[test]
    fn of_many_reasons_the_commonest_are_told() {
        let refused = (1..=5).map(|n| Refused { count: n, why: format!("reason {n}") }).collect();
        let size = LocalSize { kernel: "k".into(), size: vec![8], launches: 0, refused };
        let changes = Changes { local_sizes: vec![size], ..Changes::default() };
        assert_eq!(
            changes.lines(),
            [
                "local size of k: 8 (0 launches; 5 launches not: reason 5; 4 launches not: reason 4; \
                 3 launches not: reason 3; 3 launches not, for 2 other reasons)"
            ]
        );
    }

    #[test]
    fn a_launch_is_told_by_the_size_that_it_had() {
        let told = |asked: &[u64], refused: &str| defs::LocalSize {
            global: vec![64],
            asked: asked.to_vec(),
            wanted: vec![8],
            refused: refused.into(),
            ..defs::LocalSize::default()
        };
        let geometry = |local: Option<u64>| Geometry {
            dimensions: 1,
            global: [64, 1, 1],
            local: local.map(|l| [l, 1, 1]),
            ..Geometry::default()
        };
        let (changed, kept) = (told(&[], ""), told(&[16], "why"));
        let all = [&changed, &kept];
        assert_eq!(size_of(&all, &geometry(Some(8))).map(|(_, changed)| changed), Some(true));
        let (of, changed) = size_of(&all, &geometry(Some(16))).unwrap();
        assert_eq!((of.refused.as_str(), changed), ("why", false));
        assert!(size_of(&all, &geometry(Some(4))).is_none());
    }
}
