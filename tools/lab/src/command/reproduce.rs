//! `clscope-lab --reproduce`: experiments of the reference documents. Owns what is said and the
//! exit code; refuses to order and to measure them: [`clscope_lab::reproduce`] does.

use super::{Args, counted, devices, metering, settings};
use anyhow::{Context, Result, bail};
use clscope_lab::reproduce::{self, News, State, Wanted};
use clscope_lab::text::experiments;
use clscope_microbench::cl::choose;
use clscope_microbench::files::make;
use clscope_screen::measuring::Progress;
use clscope_screen::output::{prose, say, show, show_json};
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// Runs the option.
///
/// # Errors
/// Where no experiment has the name, no device can be opened, or a file cannot be written. An
/// experiment that fails is named in the end, and the exit code tells it.
pub fn run(args: &Args, names: &[String]) -> Result<ExitCode> {
    if names == ["list"] {
        if args.is_json() {
            bail!("the list of experiments is text: --format json is for what was measured");
        }
        show(experiments::list)?;
        return Ok(ExitCode::SUCCESS);
    }
    let experiments = reproduce::named(names)?;
    let alone = experiments.len() == 1;
    let asked = args.sweep.as_ref().map(|a| a.0.as_slice()).unwrap_or_default();
    reproduce::along(&experiments, asked)?;
    let parameters =
        args.with.as_ref().map(|given| reproduce::with(&experiments, &given.0)).transpose()?;
    let is_needed = reproduce::needs_device(&experiments);
    let all = match is_needed {
        true => devices(args.opencl.as_deref())?,
        false => Vec::new(),
    };
    let device = is_needed.then(|| choose(&all, args.device.as_deref())).transpose()?;
    if let Some(directory) = &args.output {
        make(directory)?;
    }
    let mut progress = Progress::new()?;
    let begin = Instant::now();
    if let Some(device) = device {
        say(format_args!("measuring {} ({})", device.facts.name, device.facts.platform));
    }
    let bar = progress.bar.clone();
    let mut tell = |news: News<'_>| match news {
        News::Begins(name) => {
            bar.set_message(name);
            Ok(())
        }
        // The first tells for all: it is the device's.
        News::First(parts) if args.counters => {
            counted(parts);
            Ok(())
        }
        News::Report(report, on) if !args.is_json() => bar.suspend(|| {
            let mut to = prose();
            experiments::report(&mut to, report, on)?;
            to.flush()
        }),
        News::First(_) | News::Report(..) => Ok(()),
    };
    let (settings, metering) = (settings(args), metering(args));
    let wanted = Wanted {
        device,
        settings: &settings,
        asked,
        sensors: &metering,
        budget: args.budget,
        output: args.output.as_deref(),
        parameters: parameters.as_deref(),
    };
    let out = reproduce::measure(&experiments, wanted, &mut progress, &mut tell)?;
    progress.bar.finish_and_clear();
    if args.is_json() {
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
