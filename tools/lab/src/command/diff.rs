//! `clscope-lab diff`: what changed between results of `clscope-lab`. Owns the options, the
//! reading of the files and the exit code: 3 where the limit is broken. Refuses to compare: the
//! library does.

use anyhow::{Context, Result, bail};
use clscope_compare::bench::{Diff, MOST_BYTES, Run};
use clscope_io::input;
use clscope_screen::args::Runs;
use clscope_screen::output::{self, count, say};
use clscope_text::bench::differences as render;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit code of a regression, as of `clscope diff`.
const REGRESSION: u8 = 3;

/// Options of `clscope-lab diff`.
#[derive(Debug, clap::Args)]
#[command(
    before_help = "Examples:
  clscope-lab diff monday tuesday                    two directories of `clscope-lab -o`
  clscope-lab diff h100.json h200.json               two devices
  clscope-lab diff before after --fail-on 3%       exit code 3 where a figure became worse
  clscope-lab diff b1,b2,b3 n1,n2,n3                 three runs a side: noise is measured",
    after_help = "Rates that fall and times that rise are worse. Power, clocks and sizes have no better direction:
their changes are told, and break no limit."
)]
pub struct DiffArgs {
    /// Results that are compared with: a results.json, or the directory of `clscope-lab -o`; of
    /// several runs: b1,b2,b3
    #[arg(value_name = "BASE", value_parser = Runs::parser())]
    base: Runs,
    /// Results that are judged, likewise
    #[arg(value_name = "NEW", value_parser = Runs::parser())]
    new: Runs,
    /// Largest change to the worse that is let pass, such as 3%. It is broken where a figure became
    /// worse by more and the intervals leave no doubt that it became worse, or a case that was
    /// measured is wrong or fails
    #[arg(long, value_name = "SHARE", value_parser = share)]
    fail_on: Option<f64>,
    /// How it is written
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// File to write instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rows of each table, 0 for all [default: 30 for people, all for programs]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
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
}

fn share(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no share: expected percent, such as 3%");
    let percent = text.trim().strip_suffix('%').ok_or_else(wrong)?;
    match percent.trim().parse::<f64>() {
        Ok(percent) if percent.is_finite() && percent >= 0.0 => Ok(percent / 100.0),
        _ => Err(wrong()),
    }
}

fn read(path: &Path) -> Result<Run> {
    let inside = path.join("results.json");
    let is_directory = std::fs::metadata(path).is_ok_and(|found| found.is_dir());
    let file = if is_directory { &inside } else { path };
    let what = || format!("cannot read the results in {}", file.display());
    let bytes = match is_directory {
        true => input::read_inside(file, MOST_BYTES),
        false => input::read(file, MOST_BYTES),
    }
    .with_context(what)?;
    Run::read(&file.display().to_string(), &bytes).with_context(what)
}

/// Runs the command.
///
/// # Errors
/// If results cannot be read, the output cannot be written, or a limit was set and nothing could be
/// judged.
pub fn run(args: &DiffArgs) -> Result<ExitCode> {
    let side = |runs: &Runs| -> Result<Vec<Run>> { runs.0.iter().map(|path| read(path)).collect() };
    let (base, new) = (side(&args.base)?, side(&args.new)?);
    let diff = Diff::new(&base, &new, args.fail_on);
    let most = args.limit.unwrap_or(30);
    let most = if most == 0 { usize::MAX } else { most };
    let write = |out: &mut dyn Write| -> Result<()> {
        match args.format {
            Format::Table => out.write_all(render::table(&diff, most).as_bytes())?,
            Format::Markdown => out.write_all(render::markdown(&diff, most).as_bytes())?,
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &diff)?;
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    };
    let is_json = args.format == Format::Json;
    output::write_to(args.output.as_deref(), is_json, "the differences", write)?;
    let broken = diff.broken().count();
    if broken > 0 {
        say(format_args!(
            "{} over the limit of --fail-on",
            count(broken as u64, "figure is", "figures are")
        ));
        return Ok(ExitCode::from(REGRESSION));
    }
    if args.fail_on.is_some() && diff.judged == 0 {
        bail!(
            "cannot judge --fail-on: no figure of {} can be compared with one of {}",
            args.base.first().display(),
            args.new.first().display()
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_checked() {
        assert_eq!(share("3%"), Ok(0.03));
        assert_eq!(share(" 0.5 %"), Ok(0.005));
        for wrong in ["3", "", "%", "-1%", "nan%", "inf%", "x%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }
}
