//! `clscope export parquet`: a folder of tables. Owns its options. Refuses to know a table: the
//! library has the schema.

use crate::output::count;
use anyhow::{Context, Result, bail};
use clscope_capture::system::interrupt_flag;
use clscope_export::parquet::{Document, schema};
use clscope_export::{ExportError, Summary, power};
use clscope_profile::names::Form;
use clscope_profile::profile::{self, Profile, View};
use std::path::{Path, PathBuf};

/// Options of `clscope export parquet`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope export parquet                         the newest trace, as the folder NAME.data
  mpirun sh -c 'clscope export parquet -o /shared/job run-$PMIX_RANK.clscope'
  duckdb -c \"SELECT name, sum(duration_ns / coalesce(probability, 1)) FROM 'job/commands/*.parquet' GROUP BY 1\"")]
pub struct Args {
    #[command(flatten)]
    common: super::Common,
    /// Folder to write to; parts of other traces that are in it stay [default: NAME.data]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Tables to write, comma-separated [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_table)]
    tables: Vec<String>,
}

fn parse_table(text: &str) -> Result<String, String> {
    let names: Vec<&str> = schema::TABLES.iter().map(|table| table.name).collect();
    match names.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("there is no table {text:?}: there are {}", names.join(", "))),
    }
}

/// Writes the tables.
pub fn run(args: &Args) -> Result<()> {
    let profile = Profile::open(&args.common.traces)?;
    let files = profile.files();
    let target = match &args.output {
        Some(path) if path.as_os_str() == "-" => {
            bail!("the tables are a folder of files, which stdout cannot take: name it with -o")
        }
        Some(path) => path.clone(),
        None => super::default_output(files, "data"),
    };
    // Programs read the names of the trace, unless others are asked for.
    let form = if args.common.names.full_names { Form::Full } else { Form::Recorded };
    let view = profile.view(profile::Options { form, ..args.common.profile_options() });
    crate::changed::say_changes(&view);
    let shown = target.display();
    let progress = args.common.progress.start("writes the tables");
    let summary = write(&view, &files.names(), &args.tables, &target)?
        .with_context(|| format!("cannot write the tables to {shown}"))?;
    drop(progress);
    super::warn(&summary);
    say!(
        "{} and {} in {shown}; read them with DuckDB: SELECT * FROM '{shown}/commands/*.parquet'",
        count(summary.device_spans, "command", "commands"),
        count(summary.calls, "record of calls", "records of calls"),
    );
    Ok(())
}

/// Writes tables of a view, all where none is named, to a folder. The outer error is of what they
/// are made from, the inner one of writing.
pub fn write(
    view: &View<'_>,
    sources: &[String],
    tables: &[String],
    target: &Path,
) -> Result<Result<Summary, ExportError>> {
    // The signal would leave halves of files, and the tables of a question.
    clscope_capture::system::fail_beyond_file_size();
    let power = power::Power::of_view(view)?;
    let by = view.grouping();
    let stop = Some(interrupt_flag().context("cannot take note of signals")?);
    Ok(Document { view, power: &power, by, sources, tables, stop }.write(target))
}
