//! `clscope diff`: what changed between runs, and whether it is more than noise. Owns the options,
//! the choice of format and the exit code: 3 where a limit is broken. Refuses to compare: the
//! library does.

use crate::args::Runs;
use crate::output::{self};
use crate::select::RowArgs;
use anyhow::{Result, bail};
use clscope_compare::diff::{Diff, Limit, Metric, Row};
use clscope_compare::run::Run;
use clscope_export::differences;
use clscope_profile::energy::attribute;
use clscope_profile::names::Names;
use clscope_profile::profile::{Options, Profile, View, pool};
use clscope_text::table::wrapped;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

/// Exit code of a regression.
const REGRESSION: u8 = 3;

/// Options of `clscope diff`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope diff before.clscope after.clscope
  clscope diff before after --fail-on time:+5%,energy:+5%     exit code 3 on a regression
  clscope diff b1,b2,b3 n1,n2,n3                              three runs a side: noise is measured
  clscope diff before after --format markdown >> summary.md")]
pub struct Args {
    /// Trace that is compared with, or several runs: b1,b2,b3
    #[arg(value_name = "BASE", value_parser = Runs::parser())]
    base: Runs,
    /// Trace that is judged, or several runs
    #[arg(value_name = "NEW", value_parser = Runs::parser())]
    new: Runs,
    /// Largest rise of a metric, as time:+5%; time, energy, count or bytes (comma-separated). It is
    /// broken where a figure surely rose, and may have risen by so much
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = limit)]
    fail_on: Vec<Limit>,
    /// Give outcomes although devices or timing methods differ, or runs ended early or are damaged
    #[arg(long)]
    force: bool,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// File to write instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    rows: RowArgs,
    #[command(flatten)]
    names: crate::args::NameArgs,
    #[command(flatten)]
    energy: crate::args::EnergyArgs,
    #[command(flatten)]
    window: crate::args::WindowArg,
}

/// Output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Aligned tables
    Table,
    /// Tables for a pull request
    Markdown,
    /// One JSON object
    Json,
    /// One page
    Html,
    /// A test for each row, for CI systems
    Junit,
}

fn limit(text: &str) -> Result<Limit, String> {
    let wrong = || "expected a metric and a rise in percent, as time:+5%".to_owned();
    let (metric, rise) = text.split_once(':').ok_or_else(wrong)?;
    let metric = match metric.trim() {
        "time" => Metric::Time,
        "energy" => Metric::Energy,
        "count" => Metric::Count,
        "bytes" => Metric::Bytes,
        other => return Err(format!("{other} is none of time, energy, count and bytes")),
    };
    let rise = rise.trim().trim_start_matches('+').strip_suffix('%').ok_or_else(wrong)?;
    match rise.parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => {
            Ok(Limit { metric, rise: percent / 100.0 })
        }
        _ => Err(wrong()),
    }
}

/// Whether a row is among those that were selected. Totals are of all rows.
fn is_shown(rows: &RowArgs, names: &Names, row: &Row) -> bool {
    match row.section {
        "total" => rows.name.is_none() && rows.device.is_none(),
        "kernel" => rows.is_shown(names, &row.name) && rows.has_device(&row.of),
        "function" => rows.is_shown(names, &row.name),
        _ => true,
    }
}

/// Runs the command.
///
/// # Errors
/// If a trace cannot be read, or a limit was set that the runs cannot be judged by.
pub fn run(args: &Args) -> Result<ExitCode> {
    let side = |runs: &Runs| -> Result<Vec<Profile>> {
        let open = |path: &PathBuf| Ok(Profile::open(std::slice::from_ref(path))?);
        runs.0.iter().map(open).collect()
    };
    let (base, new) = (side(&args.base)?, side(&args.new)?);
    // A kernel has the same name in all of them, and no other kernel of any has it.
    let names = Rc::new(Names::of_traces(base.iter().chain(&new).map(Profile::files)));
    let views: Vec<View<'_>> =
        base.iter().chain(&new).map(|profile| view_of(profile, args, &names)).collect();
    pool(&views)?;
    let mut runs = views.iter().map(run_of).collect::<Result<Vec<Run>>>()?;
    let judged = runs.split_off(base.len());
    let mut diff = Diff::new(&runs, &judged, &args.fail_on, args.force);
    if args.format == Format::Json {
        diff.display_names = names.display();
    }
    let most = args.rows.most(match args.format {
        Format::Table | Format::Markdown => Some(15),
        Format::Html => Some(clscope_export::page::ROWS),
        Format::Json | Format::Junit => None,
    });
    // Limits are of what is shown.
    diff.rows.retain(|row| is_shown(&args.rows, &names, row));
    let write = |out: &mut dyn Write| -> Result<()> {
        match args.format {
            Format::Table => {
                let text = differences::table(&diff, most);
                out.write_all(wrapped(&text, output::terminal_width()).as_bytes())?;
            }
            Format::Markdown => out.write_all(differences::markdown(&diff, most).as_bytes())?,
            Format::Html => out.write_all(differences::html(&diff, most).as_bytes())?,
            Format::Junit => out.write_all(differences::junit(&diff).as_bytes())?,
            Format::Json => output::put_json(out, &diff)?,
        }
        Ok(())
    };
    let is_json = args.format == Format::Json;
    output::write_to(args.output.as_deref(), is_json, "the differences", write)?;
    if !diff.comparable && !args.fail_on.is_empty() {
        bail!(
            "cannot judge --fail-on: {}; record both sides alike and to their end, or give --force",
            diff.incomparable().join("; ")
        );
    }
    if !diff.unjudged.is_empty() {
        bail!("--fail-on cannot be judged: {}", diff.unjudged.join("; "));
    }
    let broken = diff.broken().count();
    if broken == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    say!(
        "{} over the limits of --fail-on",
        output::count(broken as u64, "figure is", "figures are")
    );
    Ok(ExitCode::from(REGRESSION))
}

fn view_of<'p>(profile: &'p Profile, args: &Args, names: &Rc<Names>) -> View<'p> {
    profile.view(Options {
        energy: attribute::Options { energy_window: args.window.window, ..args.energy.options() },
        form: args.names.form(args.format == Format::Json),
        names: Some(Rc::clone(names)),
        ..Options::default()
    })
}

fn run_of(view: &View<'_>) -> Result<Run> {
    let run = Run::of_view(view)?;
    if run.report.duration_ns.is_none() {
        bail!(
            "{} holds nothing that could be compared: `clscope report` says why",
            run.report.traces.join(", ")
        );
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_checked() {
        assert_eq!(limit("time:+5%"), Ok(Limit { metric: Metric::Time, rise: 0.05 }));
        assert_eq!(limit("energy:2.5%"), Ok(Limit { metric: Metric::Energy, rise: 0.025 }));
        for wrong in ["time", "time:5", "watts:+5%", "time:-5%", "time:nan%", "time:%"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
    }
}
