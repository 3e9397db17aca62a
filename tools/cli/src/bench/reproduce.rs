//! `clscope bench --reproduce`: runs experiments of the reference documents one by one, within a budget,
//! and goes on after a failure. Owns their order, what is shared between them, and the files; refuses
//! to know what they measure: that is `clscope_microbench::reproduce`.
#![forbid(unsafe_code)]

use super::{Args, Progress, choose_device, counted, output, png, settings};
use crate::output::{say, show, show_json, write_whole};
use anyhow::{Context, Result, anyhow, bail};
use clscope_microbench::cl::{Device, OpenCl, list as devices};
use clscope_microbench::plot;
use clscope_microbench::reproduce::{
    self, Experiment, On, Part, Ran, Report, Reported, SCHEMA, State,
};
use clscope_microbench::results::{CaseResult, Results};
use clscope_microbench::run::{self, Choice, Watch};
use clscope_microbench::sweep::Along;
use clscope_text::bench::experiments;
use clscope_trace::pattern;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Seconds for `all` where the user names none.
const BUDGET: f64 = 1200.0;
/// An experiment may take so many times its even share of the time that is left.
const SHARE: f64 = 4.0;

/// The experiments of names, each once, in the order of the documents.
///
/// # Errors
/// Where a name means none.
fn named(names: &[String]) -> Result<Vec<&'static Experiment>> {
    for name in names {
        if !reproduce::all().any(|e| means(name, e)) {
            return Err(unknown(name));
        }
    }
    Ok(reproduce::all().filter(|e| names.iter().any(|name| means(name, e))).collect())
}

/// Whether a name, or a pattern with `*` and `?`, means an experiment.
fn means(name: &str, of: &Experiment) -> bool {
    name == "all"
        || pattern::matches(name, of.name)
        || reproduce::find(name).is_some_and(|found| found.name == of.name)
}

/// The error of a name that means nothing: with those whose names are nearest.
fn unknown(name: &str) -> anyhow::Error {
    let mut near: Vec<(f64, &str)> = reproduce::all()
        .map(|e| (strsim::jaro_winkler(name, e.name), e.name))
        .filter(|(like, _)| *like > 0.6)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    let near: Vec<&str> = near.into_iter().take(4).map(|n| n.1).collect();
    let hint = if near.is_empty() {
        String::new()
    } else {
        format!("; the nearest are {}", near.join(", "))
    };
    anyhow!("no experiment is called {name}{hint}; `clscope bench --reproduce list` names all")
}

/// A watch that ends a run at a moment, too.
struct Until<'a> {
    inner: &'a mut Progress,
    end: Option<Instant>,
}

impl Watch for Until<'_> {
    fn begin(&mut self, id: &str, done: usize, total: usize) {
        self.inner.begin(id, done, total);
    }
    fn end(&mut self, result: &CaseResult) {
        self.inner.end(result);
    }
    fn stop(&self) -> bool {
        self.inner.stop() || self.end.is_some_and(|end| Instant::now() >= end)
    }
}

/// What runs.
struct Bench<'a> {
    args: &'a Args,
    device: &'a Device,
    asked: &'a [Along],
    /// Parts that ended: experiments share them.
    known: Vec<Known>,
}

/// A part that ran.
struct Known {
    part: Part,
    /// The command that runs the same.
    command: String,
    results: Results,
}

impl Bench<'_> {
    /// Measures the parts of an experiment that are not known yet; gives the index of each in
    /// `known`.
    fn measure(&mut self, of: &Experiment, watch: &mut Until<'_>) -> Result<Vec<usize>> {
        let mut out = Vec::new();
        for part in of.parts() {
            if let Some(known) = self.known.iter().position(|k| k.part == *part) {
                out.push(known);
                continue;
            }
            let settings = reproduce::settings(part, &settings(self.args));
            let chosen = reproduce::cases(part, self.device, &settings, self.asked)?;
            let ran = Ran {
                device: &self.device.facts,
                asked: self.asked,
                settings: &settings,
                cases: chosen.iter().flat_map(|(_, cases)| cases).collect(),
            };
            let command = part.command_of(&ran);
            let choice = Choice {
                suites: chosen.iter().map(|(suite, _)| suite.name.to_owned()).collect(),
                cases: part.cases.iter().map(|c| (*c).to_owned()).collect(),
                no_sensors: self.args.no_sensors,
                peak: None,
            };
            let results = run::run_cases(self.device, &settings, &choice, &chosen, watch)
                .context("cannot use the device")?;
            let whole = !results.interrupted;
            self.known.push(Known { part: *part, command, results });
            out.push(self.known.len() - 1);
            if !whole {
                break;
            }
        }
        Ok(out)
    }

    /// An experiment with its files, within its share of the time until `end`: of so many that are
    /// left, this one included.
    fn experiment(
        &mut self,
        of: &'static Experiment,
        end: Option<Instant>,
        left: usize,
        progress: &mut Progress,
        alone: bool,
    ) -> Result<Report> {
        let now = Instant::now();
        if let reproduce::How::Cannot(why) = of.how {
            return Ok(Report::without(of, State::NotReproducible, why.to_owned()));
        }
        if end.is_some_and(|end| now >= end) {
            let why =
                "the budget was spent before it began: name it alone, or give a larger --budget";
            return Ok(Report::without(of, State::CutShort, why.to_owned()));
        }
        let share = end.map(|end| now + (end - now).mul_f64((SHARE / left.max(1) as f64).min(1.0)));
        progress.bar.set_message(of.name);
        let mut watch = Until { inner: progress, end: share };
        let parts = match self.measure(of, &mut watch) {
            Ok(parts) => parts,
            Err(why) => return Ok(Report::without(of, State::Failed, format!("{why:#}"))),
        };
        let known: Vec<&Known> = parts.iter().map(|n| &self.known[*n]).collect();
        let parts: Vec<&Results> = known.iter().map(|k| &k.results).collect();
        let seconds = Some(now.elapsed().as_secs_f64());
        let commands = known.iter().map(|k| k.command.clone()).collect();
        let report = Report { seconds, commands, ..Report::of(of, &parts) };
        if let Some(directory) = &self.args.output {
            files(&report, &parts, &folder(directory, of.name, alone), self.args.png)?;
        }
        Ok(report)
    }

    /// Forgets what was ended early: another experiment may have time for it.
    fn forget(&mut self) {
        self.known.retain(|known| !known.results.interrupted);
    }
}

/// Where the files of an experiment are.
fn folder(directory: &Path, name: &str, alone: bool) -> std::path::PathBuf {
    if alone { directory.to_owned() } else { directory.join(name.replace('/', "-")) }
}

fn files(report: &Report, parts: &[&Results], directory: &Path, png: bool) -> Result<()> {
    let Some(results) = reproduce::together(report, parts) else { return Ok(()) };
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    let plots: Vec<plot::Plot> = plot::reproduced(report, &results.device)?.into_iter().collect();
    let page = plot::experiment(report, &results, &plots);
    output::write_with(&results, &plots, &page, directory, png)
}

/// The page that leads to those of the experiments.
fn write_index(of: &Reported, directory: &Path) -> Result<()> {
    let link = |report: &Report| {
        let page = folder(Path::new(""), report.name, false).join("index.html");
        let there = directory.join(&page).is_file() && report.seconds.is_some();
        there.then(|| page.display().to_string())
    };
    write_whole(&directory.join("index.html"), |out| {
        Ok(out.write_all(plot::index(of, link).as_bytes())?)
    })
}

fn write_reported(of: &Reported, directory: &Path) -> Result<()> {
    write_whole(&directory.join("reproduced.json"), |out| {
        Ok(serde_json::to_writer_pretty(out, of)?)
    })
}

/// Writes what is known so far, where files are asked for.
fn written(of: &Reported, args: &Args, alone: bool) -> Result<()> {
    let Some(directory) = &args.output else { return Ok(()) };
    write_reported(of, directory)?;
    if alone { Ok(()) } else { write_index(of, directory) }
}

/// Runs the option.
///
/// # Errors
/// Where no experiment has the name, no device can be opened, or a file cannot be written. An experiment
/// that fails is named in the end, and the exit code tells it.
pub fn run(args: &Args, names: &[String]) -> Result<ExitCode> {
    if names == ["list"] {
        if args.json {
            bail!("the list of experiments is text: --json is for what was measured");
        }
        show(experiments::list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let named = named(names)?;
    if args.png {
        png::Renderer::new()?;
    }
    let alone = named.len() == 1;
    let asked = args.sweep.as_ref().map(|a| a.0.as_slice()).unwrap_or_default();
    for along in asked {
        let has =
            |e: &&Experiment| e.parts().iter().any(|p| p.along.iter().any(|a| a.0 == along.axis));
        if !named.iter().any(has) {
            let names: Vec<&str> = named.iter().take(4).map(|e| e.name).collect();
            bail!(
                "--sweep {}: no experiment of {} is along this axis; `clscope bench --reproduce list` has the axes of each, and a case by itself takes any of its own",
                along.axis.name(),
                names.join(", ")
            );
        }
    }
    let opencl = OpenCl::open(args.opencl.as_deref())?;
    let all =
        devices(&opencl).context("cannot list OpenCL devices; `clscope doctor` looks closer")?;
    let device = choose_device(&all, args.device.as_deref())?;
    if let Some(directory) = &args.output {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the directory {}", directory.display()))?;
    }
    let mut progress = Progress::new()?;
    let begin = Instant::now();
    let budget = args.budget.or((!alone).then_some(BUDGET));
    let end = budget.map(|s| begin + Duration::from_secs_f64(s));
    say(format_args!("measuring {} ({})", device.facts.name, device.facts.platform));
    let mut bench = Bench { args, device, asked, known: Vec::new() };
    let mut out = Reported {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        device: On::of(&device.facts),
        experiments: Vec::new(),
        interrupted: false,
    };
    for (number, of) in named.iter().copied().enumerate() {
        if progress.stop() {
            out.interrupted = true;
            break;
        }
        let left = named[number..].iter().filter(|e| !e.parts().is_empty()).count();
        let report = bench.experiment(of, end, left, &mut progress, alone)?;
        if args.counters && number == 0 {
            // The first tells for all: it is the device's.
            counted(bench.known.iter().map(|known| &known.results));
        }
        bench.forget();
        if !args.json {
            progress.bar.suspend(|| show(|to| experiments::report(to, &report, &out.device)))?;
        }
        out.experiments.push(report);
        out.interrupted |= progress.stop();
        written(&out, args, alone)?;
    }
    // What the others left of the time goes to those that were cut short, once.
    let short: Vec<usize> = (0..out.experiments.len())
        .filter(|n| out.experiments[*n].state == State::CutShort)
        .collect();
    for (done, number) in short.iter().copied().enumerate() {
        let over = end.is_none_or(|end| Instant::now() >= end);
        if alone || over || out.interrupted {
            break;
        }
        let left = short.len() - done;
        let report = bench.experiment(named[number], end, left, &mut progress, alone)?;
        bench.forget();
        out.interrupted |= progress.stop();
        if !args.json && report.state != State::CutShort {
            progress.bar.suspend(|| show(|to| experiments::report(to, &report, &out.device)))?;
        }
        out.experiments[number] = report;
        written(&out, args, alone)?;
    }
    progress.bar.finish_and_clear();
    if args.json {
        show_json(&out).context("cannot write the results")?;
    } else if !alone {
        show(|to| experiments::summary(to, &out, begin.elapsed()))?;
    }
    if let Some(directory) = &args.output {
        say(format_args!("results are in {}", directory.display()));
    }
    if out.interrupted {
        return Ok(ExitCode::from(130));
    }
    let of_state = |state| {
        out.experiments.iter().filter(|e| e.state == state).map(|e| e.name).collect::<Vec<&str>>()
    };
    let failed = of_state(State::Failed);
    if !failed.is_empty() {
        bail!(
            "{} of {} experiments failed: {}",
            failed.len(),
            out.experiments.len(),
            failed.join(", ")
        );
    }
    if let ([only], true) = (out.experiments.as_slice(), alone)
        && only.state == State::NotReproducible
    {
        bail!("{} cannot be reproduced: {}", only.name, only.reason.as_deref().unwrap_or_default());
    }
    Ok(ExitCode::SUCCESS)
}
