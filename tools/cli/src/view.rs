//! `clscope view`: the report's page, or the timeline for Perfetto's viewer, served to a browser on
//! this machine. Refuses to serve: [`clscope_export::serve`] does.

use crate::output::say;
use anyhow::{Result, bail};
use clscope_export::serve::{Served, Server};
use clscope_export::{page, perfetto, power};
use clscope_profile::profile::{Options, Profile};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The only port from which Perfetto's hosted viewer may fetch a trace over plain HTTP.
const PERFETTO_PORT: u16 = 9001;
const PERFETTO: &str = "https://ui.perfetto.dev";

/// Options of `clscope view`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope view                        the newest trace's report as a page in the browser
  clscope view run --show perfetto    its timeline in Perfetto's viewer; the data stays here
  clscope view --by call-site         kernels by where they are launched from
  clscope view --no-browser           print the address only")]
pub struct Args {
    /// Trace directories; the newest of the working directory if none is named
    #[arg(value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// What is shown
    #[arg(long, value_enum, default_value_t = Show::Html, value_name = "WHAT")]
    show: Show,
    /// Port to listen on, 0 for any that is free [default: 0; for perfetto: 9001]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Print the address instead of opening it
    #[arg(long)]
    no_browser: bool,
    #[command(flatten)]
    select: crate::select::SelectArgs,
    #[command(flatten)]
    names: crate::args::NameArgs,
    #[command(flatten)]
    parameters: crate::parameters::ParameterArgs,
    #[command(flatten)]
    energy: crate::args::EnergyArgs,
    #[command(flatten)]
    progress: crate::progress::ProgressArgs,
}

/// What is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Show {
    /// The report's page
    Html,
    /// The timeline, in Perfetto's viewer
    Perfetto,
}

/// Serves until it is interrupted.
///
/// # Errors
/// If the trace cannot be read, or the port is taken.
pub fn run(args: &Args) -> Result<()> {
    let body = body(args)?;
    let port = args.port.unwrap_or(if args.show == Show::Perfetto { PERFETTO_PORT } else { 0 });
    let (name, content_type) = match args.show {
        Show::Html => ("report.html", "text/html; charset=utf-8"),
        Show::Perfetto => ("trace", "application/octet-stream"),
    };
    let reader = (args.show == Show::Perfetto).then(|| PERFETTO.to_owned());
    let server = Server::new(port, Served { name, content_type, body, reader })?;
    let local = server.address();
    let address = match args.show {
        Show::Html => local,
        Show::Perfetto => format!("{PERFETTO}/#!/?url={local}"),
    };
    say!("{address}");
    if !args.no_browser && !opened(&address) {
        say("no browser could be started: open the address above yourself");
    }
    say("serving until you press Ctrl-C");
    server.serve();
    Ok(())
}

fn body(args: &Args) -> Result<Vec<u8>> {
    let progress = args.progress.start("reads records");
    let profile = Profile::open(&args.traces)?;
    let energy = args.energy.options();
    let form = args.names.form(false);
    let view = profile.view(Options {
        by: args.select.by.of_kernels().into(),
        counter_device: args.select.counter_device.clone(),
        energy,
        name_sites: true,
        form,
        ..Options::default()
    });
    let mut report = view.report()?;
    args.select.apply(&mut report, &view)?;
    let names = profile.files().names();
    if report.duration_ns.is_none() {
        bail!("nothing of {} could be read: `clscope report` says why", names.join(", "));
    }
    progress.stage("writes the page");
    let mut body = Vec::new();
    match args.show {
        Show::Html => {
            let explained = match view.has_mixes() {
                true => crate::explain::all(&view, &args.parameters)?,
                false => Vec::new(),
            };
            let shown = args.select.shown(view.names(), &clscope_text::report::Section::ALL);
            clscope_text::report::narrow(&mut report, &shown);
            let sections = shown.sections.clone();
            let options = page::Options { most: Some(64 << 20), explained, sections };
            page::write(&view, &report, &options, &mut body)?;
        }
        Show::Perfetto => {
            let power = power::Power::of_view(&view)?;
            let options = perfetto::Options::default();
            let document =
                perfetto::Document { view: &view, power: &power, sources: &names, options };
            document.write(&mut body)?;
        }
    }
    Ok(body)
}

/// Whether a browser was started.
fn opened(address: &str) -> bool {
    let mut start = Command::new("xdg-open");
    start.arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    start.status().is_ok_and(|status| status.success())
}
