//! `clscope roofline`: the roofline of a trace's kernels as a picture, a page or JSON. Owns the
//! options and the choice by the file's ending; refuses to draw and to compute.

use crate::explain::FactArgs;
use crate::output::{count, write_whole};
use anyhow::{Context, Result, bail};
use clap::builder::NonEmptyStringValueParser;
use clscope_export::roofline as draw;
use clscope_io::text::line;
use clscope_models::roofline::{self, Roofline};
use clscope_profile::profile::Profile;
use std::io::Write;
use std::path::PathBuf;

/// Options of `clscope roofline`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope roofline -o roof.svg                      the newest trace of this directory
  clscope roofline run1 -o roof.html                a page with the numbers
  clscope roofline --energy -o joules.svg           GFLOP/J instead of GFLOP/s
  clscope roofline --flop gemm=2.1e9 --bytes gemm=1.2e7 -o roof.svg
                                                    a kernel whose operations were not counted")]
pub struct Args {
    /// Trace directory; the newest of the working directory if none is named
    #[arg(value_name = "TRACE")]
    pub trace: Option<PathBuf>,
    /// File to write, by its ending: .svg, .html or .json
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Operations per joule instead of operations per second
    #[arg(long)]
    pub energy: bool,
    /// Only kernels whose name matches; * and ? are wildcards, a plain word matches anywhere
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// The device, by a part of its name [default: the one that was busy longest]
    #[arg(short, long, value_name = "DEVICE")]
    pub device: Option<String>,
    #[command(flatten)]
    pub facts: FactArgs,
}

/// Runs the command.
///
/// # Errors
/// If there is no such trace, device or kernel, nothing can be drawn, or the file cannot be
/// written.
pub fn run(args: &Args) -> Result<()> {
    let ending = args.output.extension().and_then(|e| e.to_str()).unwrap_or_default();
    if !["svg", "html", "json"].contains(&ending) {
        bail!(
            "cannot tell the format of {}: name a file that ends in .svg, .html or .json",
            args.output.display()
        );
    }
    let profile = Profile::open(&args.trace.iter().cloned().collect::<Vec<_>>())?;
    let view = profile.view(args.facts.options(ending == "json"));
    crate::report::warn(&view.times().issues);
    crate::changed::say_changes(&view);
    let devices = args.facts.devices(&view)?;
    let wanted = args.device.as_deref().unwrap_or_default().to_lowercase();
    let Some(mut device) = devices.into_iter().find(|d| d.name.to_lowercase().contains(&wanted))
    else {
        bail!("no device of the trace is called {wanted}; `clscope report` names them");
    };
    if let Some(name) = &args.name {
        device.kernels.retain(|k| view.names().is_meant(name, &k.name));
    }
    if device.kernels.is_empty() {
        bail!("no kernel on {} is meant; `clscope report` names them", device.name);
    }
    let parameters = args.facts.parameters.find(&device.model, &device.platform, &device.driver)?;
    if let Some(parameters) = &parameters {
        device.kernels = device.kernels.into_iter().map(|k| k.on(parameters)).collect();
    }
    let mut of = roofline::roofline(&device.kernels, parameters.as_ref(), args.energy);
    of.display_names = view.display_names();
    write(args, ending, &of)?;
    say!(
        "{}: {} of {}, {}",
        args.output.display(),
        count(of.points.len() as u64, "dot", "dots"),
        count(device.kernels.len() as u64, "kernel", "kernels"),
        count((of.roofs.len() + of.curves.len()) as u64, "ceiling", "ceilings")
    );
    if let Some(of) = &of.forced {
        say!("note: forced: {of}");
    }
    for p in of.points.iter().filter(|p| p.above) {
        say!(
            "note: {} lies above its roof, at {:.0} % by {} bytes: the ceiling, the counter or the clock does not fit it",
            line(&p.kernel),
            p.reached.unwrap_or(0.0) * 100.0,
            p.bytes
        );
    }
    for missing in of.missing.iter().take(8) {
        say!("note: not drawn: {missing}");
    }
    if of.missing.len() > 8 {
        say!("note: and {} more: the .html and .json list them", of.missing.len() - 8);
    }
    Ok(())
}

fn write(args: &Args, ending: &str, of: &Roofline) -> Result<()> {
    let text = match ending {
        "json" => serde_json::to_string_pretty(of).context("cannot write the roofline")? + "\n",
        "html" => draw::html(of)?,
        _ => draw::svg(of)?,
    };
    write_whole(&args.output, |out| Ok(out.write_all(text.as_bytes())?))
}
