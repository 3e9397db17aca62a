//! `clscope report`: what a trace sums up to, on stdout; what is wrong with it, on stderr with the
//! next step. Owns the options, the order of rows and the choice of format. Refuses to compute:
//! figures come from the analysis.

use crate::args::{EnergyArgs, NameArgs, WindowArg};
use crate::output::terminal_columns;
use crate::parameters::ParameterArgs;
use crate::progress::ProgressArgs;
use crate::select::{Rows, Section, SelectArgs};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use clscope_export::page;
use clscope_profile::energy::attribute;
use clscope_profile::energy::result::Energy;
use clscope_profile::names::Names;
use clscope_profile::profile::{Options, Profile, View};
pub use clscope_profile::report::Finding;
use clscope_profile::report::Report;
use clscope_profile::report::places::Places;
use clscope_text::report::{self, Shown, first};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::rc::Rc;

/// Options of `clscope report`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope report                          why the newest trace of this directory takes its time
  clscope report --all                    all its tables
  clscope report run1 --limit 0           every kernel and every function of run1.clscope
  clscope report a.clscope b.clscope      several traces on one timeline
  clscope report --format json | jq '.kernels[0]'
  clscope report --by call-site           kernels by where they are launched from
  clscope report --explain-energy blur    which readings decide about the joules of blur
  clscope report --format html -o r.html  one page with a timeline, for a browser
  clscope report --format csv --section functions")]
pub struct Args {
    /// Trace directories; the newest of the working directory if none is named
    #[arg(value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Tables or a page for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// All tables instead of the first screen; options that choose rows or columns imply it
    #[arg(long)]
    pub all: bool,
    /// File to write instead of stdout
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Largest size of the page, 0 for any: above it, its timeline is less fine
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = page_size)]
    pub max_size: u64,
    /// Show what decides about the joules of this kernel or transfer: each reading of the sensor
    /// with what the estimates make of it, and what the run and windows of the kernel alone say
    #[arg(long, value_name = "NAME")]
    pub explain_energy: Option<String>,
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub names: NameArgs,
    #[command(flatten)]
    pub parameters: ParameterArgs,
    #[command(flatten)]
    pub energy: EnergyArgs,
    #[command(flatten)]
    pub window: WindowArg,
    #[command(flatten)]
    pub progress: ProgressArgs,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Aligned tables.
    Table,
    /// One JSON object.
    Json,
    /// Comma-separated values.
    Csv,
    /// One self-contained page.
    Html,
}

fn page_size(text: &str) -> std::result::Result<u64, String> {
    if text.trim() == "0" {
        return Ok(0);
    }
    match clscope_trace::values::size(text) {
        Ok(n) if n >= 1 << 20 => Ok(n),
        Ok(_) => Err("a page needs 1MiB at least".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Whether the first screen is wanted: who chooses rows or columns wants the tables.
fn is_first(args: &Args) -> bool {
    let chosen = args.all || args.explain_energy.is_some() || args.select.is_chosen();
    args.format == Format::Table && !chosen
}

fn shown(args: &Args, names: &Rc<Names>) -> Shown {
    let all: &[report::Section] = match args.format {
        // Who asks about one kernel's joules wants nothing else.
        Format::Table if args.explain_energy.is_some() => &[report::Section::Energy],
        // Ranks and hosts are a section of their own.
        Format::Csv if args.select.by.places().is_some() => &[],
        Format::Csv => &[report::Section::Kernels],
        _ => &report::Section::ALL,
    };
    let shown = args.select.shown(names, all);
    match args.names.full_names {
        // Who asks for whole names wants no part of them left out.
        true => Shown { width: usize::MAX, ..shown },
        false => shown,
    }
}

/// Runs the command.
///
/// # Errors
/// If there is no such trace, or the output cannot be written. Damage inside a trace is reported on
/// stderr.
pub fn run(args: &Args) -> Result<()> {
    let progress = args.progress.start("opens the trace");
    let profile = Profile::open(&args.traces)?;
    progress.stage("reads records");
    let view = profile.view(Options {
        by: args.select.by.of_kernels().into(),
        energy: attribute::Options {
            explain: args.explain_energy.clone(),
            energy_window: args.window.window,
            ..args.energy.options()
        },
        counter_device: args.select.counter_device.clone(),
        // Rows of the page open to the places of their launches, and gaps say where they end.
        name_sites: true,
        form: args.names.form(args.format == Format::Json),
        names: None,
    });
    let mut report = view.times();
    if report.totals.calls == 0 && refuse_unreadable(&report.issues) {
        bail!("nothing of {} could be read", report.traces.join(", "));
    }
    progress.stage("attributes energy");
    let mut energy = view.energy()?.clone();
    crate::explain::split_sums(&view, &args.parameters, args.format == Format::Html, &mut energy)?;
    if let Some(kernel) = &args.explain_energy {
        refuse_unexplained(kernel, &energy)?;
    }
    report.energy = Some(energy);
    report.counters = view.counters()?.cloned();
    report.answer_anew(view.trace(), view.stats());
    args.select.apply(&mut report, &view)?;
    drop(progress);
    let sites = view.sites();
    let shown = shown(args, view.names());
    let kernels: Vec<&str> = report.kernels.iter().map(|k| k.name.as_str()).collect();
    for name in crate::explain::unmatched(&view, &args.energy.flop, &kernels) {
        say!("warning: --flop {name}: no kernel of the trace is called that");
    }
    if !report.kernels.is_empty() || !report.functions.is_empty() {
        let names =
            report.kernels.iter().map(|k| &k.name).chain(report.functions.iter().map(|f| &f.name));
        if let (Some(pattern), false) =
            (&args.select.rows.name, names.into_iter().any(|name| shown.matches(name)))
        {
            say!("warning: no kernel and no function has a name that matches --name {pattern}");
        }
    }
    let write = |out: &mut dyn Write| match args.format {
        Format::Html => {
            let most = (args.max_size > 0).then_some(args.max_size);
            let asked = args.parameters.parameters.is_some();
            // Of kernels whose instructions were not counted, models know next to nothing.
            let explained = match view.has_mixes() || asked {
                true => crate::explain::all(&view, &args.parameters)?,
                false => Vec::new(),
            };
            let sections = shown.sections.clone();
            let options = page::Options { most, explained, sections };
            report::narrow(&mut report, &shown);
            Ok(page::write(&view, &report, &options, out)?)
        }
        Format::Table if is_first(args) => {
            // Traces that were named are named in the commands that are proposed.
            let traces: Vec<String> =
                args.traces.iter().map(|path| path.display().to_string()).collect();
            let columns = terminal_columns().filter(|_| args.output.is_none());
            let width = columns.unwrap_or(first::COLUMNS);
            Ok(out.write_all(first::render(&report, &traces, width).as_bytes())?)
        }
        Format::Table => Ok(out.write_all(report::render(&report, &shown).as_bytes())?),
        Format::Json => {
            report::narrow(&mut report, &shown);
            crate::output::put_json(out, &report)
        }
        Format::Csv => Ok(report::csv(&report, &shown, out)?),
    };
    to_output(args, write).context("could not write the report")?;
    if matches!(args.format, Format::Csv | Format::Json) {
        for doubt in report.places.iter().flat_map(Places::doubts) {
            say!("note: {doubt}");
        }
    }
    if report.counters.is_none()
        && (args.select.section.contains(&Section::Counters) || !args.select.counters.is_empty())
    {
        crate::output::say(
            "warning: this trace holds no hardware counters: `clscope record --counters LIST` records them",
        );
    }
    let by_site = args.select.by == Rows::CallSite || args.format == Format::Html;
    for (module, why) in sites.unnamed.iter().filter(|_| by_site) {
        say!("note: places in {module} have no names: {why}");
    }
    if args.select.by == Rows::CallSite && sites.is_empty() {
        crate::output::say(
            "warning: no launch of this trace has its place recorded: `clscope record --call-sites` does that",
        );
    }
    match is_first(args) {
        true => warn_few(&report),
        false => warn(&report.issues),
    }
    Ok(())
}

/// Most names in an error.
const NAMED: usize = 8;

/// Refuses a name of whose joules nothing can be explained, with those of which it can.
fn refuse_unexplained(kernel: &str, energy: &Energy) -> Result<()> {
    if energy.devices.iter().any(|device| device.explained.is_some()) {
        return Ok(());
    }
    if let Some(why) = &energy.absent {
        bail!("--explain-energy {kernel}: this trace has no joules: {why}");
    }
    let classes = energy.devices.iter().flat_map(|device| &device.classes);
    let names: Vec<&str> = classes.map(|c| c.name.as_str()).take(NAMED).collect();
    bail!(
        "--explain-energy {kernel}: no kernel or transfer of that name ran on a device with a sensor; there ran: {}",
        names.join(", ")
    );
}

/// Findings that the first screen has room for, and characters of each.
const FEW: (usize, usize) = (3, 100);

/// Reports the worst of what is wrong in a line each, the rest by number. That launches were left
/// out by sampling is on the screen.
fn warn_few(report: &Report) {
    let is_sampling = |of: &Finding| match of.code.as_str() {
        "sampled-timing" => true,
        code => code == "untimed-commands" && of.severity == "note",
    };
    let mut said = gathered(&report.issues);
    said.retain(|(of, _)| report.sampling.is_none() || !is_sampling(of));
    for (issue, _) in said.iter().take(FEW.0) {
        crate::output::say(in_a_line(issue, FEW.1 - "clscope: ".len()));
    }
    if said.len() > FEW.0 {
        let more = crate::output::count(said.len() as u64 - FEW.0 as u64, "note", "notes");
        say!("{more} more: clscope report --all");
    }
}

/// A finding, with what helps where all of that has room.
fn in_a_line(issue: &Finding, room: usize) -> String {
    let text = format!("{}: {}", issue.severity, issue.text);
    let whole = issue.remedy.map(|remedy| format!("{text}; {remedy}"));
    let fits = whole.filter(|whole| whole.chars().count() <= room);
    fits.unwrap_or_else(|| clscope_io::shorten::sentence(&text, room))
}

/// Hands `write` the file that was named, or stdout.
fn to_output(args: &Args, write: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    if let Some(path) = &args.output {
        return crate::output::write_whole(path, |out| write(out));
    }
    if args.format == Format::Html && std::io::stdout().is_terminal() {
        bail!("a page is nothing to read on a terminal: name a file with -o, or redirect stdout");
    }
    let mut out: Box<dyn Write> = match args.format {
        Format::Json => Box::new(crate::output::json()),
        Format::Table | Format::Csv => Box::new(crate::output::screen()),
        Format::Html => crate::output::file_to_stdout(false),
    };
    write(&mut out)?;
    Ok(out.flush()?)
}

/// Whether a trace of which nothing came out is damaged, which is an error and no empty result;
/// says what is wrong then.
pub fn refuse_unreadable(issues: &[Finding]) -> bool {
    let damaged = issues.iter().any(|issue| issue.severity == "error");
    if damaged {
        warn(issues);
    }
    damaged
}

/// Reports on stderr what opening a trace found, for commands that need no times of it.
pub fn warn_opened(view: &View<'_>) {
    let found: Vec<Finding> = view.trace().issues.iter().map(Into::into).collect();
    warn(&found);
}

/// What is wrong, worst first, with how many more say the same.
fn gathered(issues: &[Finding]) -> Vec<(&Finding, usize)> {
    let mut said: Vec<(&Finding, usize)> = Vec::new();
    for issue in issues {
        match said.iter_mut().find(|(s, _)| (s.text == issue.text) && s.code == issue.code) {
            Some((_, more)) => *more += 1,
            None => said.push((issue, 0)),
        }
    }
    let rank = |severity: &str| ["error", "warning", "note"].iter().position(|s| *s == severity);
    said.sort_by_key(|(issue, _)| rank(issue.severity));
    said
}

/// Reports on stderr what is wrong, worst first; what many processes share is reported once.
pub fn warn(issues: &[Finding]) {
    let said = gathered(issues);
    for (issue, more) in said.iter().take(20) {
        let others = if *more > 0 { format!(" (and {more} more)") } else { String::new() };
        let remedy = issue.remedy.map_or_else(String::new, |r| format!("; {r}"));
        say!("{}: {}{others}: {}{remedy}", issue.severity, issue.subject, issue.text);
    }
    if said.len() > 20 {
        say!("and {} more findings: --format json lists them all", said.len() - 20);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What helps is said whole or not at all, and a finding that has room is whole.
    #[test]
    fn a_line_holds_no_part_of_a_remedy() {
        let all = "word ".repeat(30);
        for (text, remedy) in (1..30).flat_map(|n| (1..30).map(move |m| (n, m))) {
            let (text, remedy) = (all[..5 * text - 1].to_owned(), &all[..5 * remedy - 1]);
            let remedy: &'static str = remedy.replace("word", "help").leak();
            let (code, subject) = (String::new(), String::new());
            let of = Finding { severity: "note", code, subject, text, remedy: Some(remedy) };
            let line = in_a_line(&of, 91);
            let begin = format!("note: {}", of.text);
            assert!(line.len() <= 91, "{line}");
            assert!(begin.len() > 91 || line.starts_with(&begin), "{line}");
            let whole = format!("{begin}; {remedy}");
            assert!(line == whole || !line.contains("help"), "{line}");
            assert_eq!(line == whole, whole.len() <= 91);
        }
    }
}
