//! `clscope meter`: adds a table of an external meter to a trace. Refuses to read the table:
//! [`clscope_record::meter`] does.

use crate::output::show;
use anyhow::Result;
use clscope_capture::directory::shown_path;
use clscope_profile::profile::Profile;
use clscope_record::meter;
use clscope_sensors::meter::Format;
use clscope_trace::directory::as_recorded;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `clscope meter`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope meter log.csv app.clscope                               times with a date and a zone
  clscope meter log.csv app.clscope --meter-format place=load     where power follows the devices' work
  clscope meter log.csv app.clscope --meter-format zone=+01:00,power='Watts (L1)'
  clscope record --meter 'meter-logger --csv' -- ./app            while the application runs")]
pub struct Args {
    /// The meter's table: CSV with columns of time and power
    table: PathBuf,
    /// The trace [default: the newest of the working directory]
    trace: Option<PathBuf>,
    /// What the table is: time=COLUMN, power=COLUMN (names or numbers; time=Date+Time joins two),
    /// unit=mW, decimal=comma where commas separate fields, too, zone=+01:00 of times without one,
    /// offset=SECONDS to add, place=clock or load (where power follows the devices' work),
    /// start=TIME, or start=WORD of the line at which the application started; separated by commas.
    /// By default names, units and places are found
    #[arg(long, value_name = "KEY=VALUE,...")]
    meter_format: Option<Format>,
}

/// Adds it, and says how.
pub fn run(args: &Args) -> Result<ExitCode> {
    let paths: Vec<PathBuf> = args.trace.iter().cloned().map(as_recorded).collect();
    let opened = Profile::open(&paths)?;
    let traces = &opened.files().directories;
    let [directory] = &traces[..] else { anyhow::bail!("name one trace") };
    let trace = directory.path.clone();
    drop(opened);
    let format = args.meter_format.clone().unwrap_or_default();
    let said = meter::attach_file(&trace, &args.table, &format)?;
    show(|to| said.iter().try_for_each(|text| writeln!(to, "{text}")))?;
    say!("next: clscope report {}", shown_path(&trace));
    Ok(ExitCode::SUCCESS)
}
