//! `clscope what-if`: time and joules of a launch that is not the one that was measured. Owns the
//! options; refuses to predict: the models do.

use crate::args::Format;
use crate::explain::FactArgs;
use anyhow::{Context, Result, anyhow, bail};
use clap::builder::NonEmptyStringValueParser;
use clscope_io::text::line;
use clscope_models::kept;
use clscope_models::predict::{Change, Predictions, Refused, SCHEMA, predict};
use clscope_profile::profile::Profile;
use std::path::PathBuf;

/// Options of `clscope what-if`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope what-if run1 gemm --local 128          in groups of 128 items
  clscope what-if run1 gemm --local-memory 16K   with 16 KiB of local memory a group
  clscope what-if run1 gemm --global 2x          with twice the items, and twice the work
  clscope what-if run1 gemm --clock 1400         with its compute units at 1400 MHz
  clscope what-if run1 gemm --on other.json      on another device (bench model --show)")]
pub struct Args {
    /// Trace directory
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,
    /// The kernels whose name matches; * and ? are wildcards, a plain word matches anywhere
    #[arg(value_name = "KERNEL", value_parser = NonEmptyStringValueParser::new())]
    pub kernel: String,
    /// Items of a group
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub local: Option<u64>,
    /// Bytes of local memory of a group, arguments included, for the same work: what occupancy
    /// changes
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub local_memory: Option<u64>,
    /// Work-items: a factor such as 2x or 0.5x
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    pub global: Option<f64>,
    /// Clock of the compute units, MHz
    #[arg(long, value_name = "MHZ", value_parser = megahertz)]
    pub clock: Option<f64>,
    /// File of another device's parameters
    #[arg(long, value_name = "FILE")]
    pub on: Option<PathBuf>,
    /// Text for people, or JSON for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub facts: FactArgs,
}

fn factor(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches(['x', 'X']);
    match number.parse::<f64>() {
        Ok(f) if f.is_finite() && f > 0.0 && f <= 1e9 => Ok(f),
        _ => Err("expected a factor such as 2x or 0.5x".to_owned()),
    }
}

fn bytes(text: &str) -> Result<u64, String> {
    clscope_trace::values::size(text).map_err(|error| error.to_string())
}

fn megahertz(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches("MHz").trim().parse::<f64>() {
        Ok(f) if (1.0..=1e5).contains(&f) => Ok(f),
        _ => Err("expected megahertz between 1 and 100000".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// If nothing is to change, there is no such trace or kernel, or what the prediction needs is not
/// known.
pub fn run(args: &Args) -> Result<()> {
    let is_changed = args.local.is_some()
        || args.local_memory.is_some()
        || args.global.is_some()
        || args.clock.is_some()
        || args.on.is_some();
    if !is_changed {
        bail!("nothing is to change: name --local, --local-memory, --global, --clock or --on");
    }
    let profile = Profile::open(std::slice::from_ref(&args.trace))?;
    let view = profile.view(args.facts.options(args.format == Format::Json));
    crate::report::warn(&view.times().issues);
    crate::changed::say_changes(&view);
    let devices = args.facts.devices(&view)?;
    let other = args.on.as_deref().map(kept::read).transpose()?;
    let change = Change {
        local: args.local,
        local_bytes: args.local_memory,
        scale: args.global,
        clock_mhz: args.clock,
        device: other.as_ref(),
        forced: args.facts.parameters.force,
    };
    let (mut out, mut refused) = (Vec::new(), Vec::new());
    for device in &devices {
        let is_meant = |name: &str| view.names().is_meant(&args.kernel, name);
        let found: Vec<_> = device.kernels.iter().filter(|k| is_meant(&k.name)).collect();
        if found.is_empty() {
            continue;
        }
        let own = args.facts.parameters.find(&device.model, &device.platform, &device.driver)?;
        for kernel in found {
            match predict(kernel, own.as_ref(), &change) {
                Ok(of) => out.push(of),
                Err(why) => refused.push(Refused { kernel: kernel.name.clone(), why }),
            }
        }
    }
    let cannot = |of: &Refused| format!("cannot predict {}", line(&of.kernel));
    let all_refused = out.is_empty().then(|| refused.first().cloned()).flatten();
    match &all_refused {
        // The document says why, too.
        Some(_) if args.format == Format::Json => {}
        Some(first) => {
            return Err(anyhow!(first.why.clone())).with_context(|| cannot(first));
        }
        None if out.is_empty() => {
            bail!("no kernel of the trace is called {}; `clscope report` names them", args.kernel)
        }
        // Of several that a pattern means, some are no reason to say nothing of the others.
        _ => refused.iter().for_each(|of| {
            say!("warning: {}: {}", cannot(of), of.why);
        }),
    }
    match args.format {
        Format::Json => {
            let of = Predictions {
                schema: SCHEMA,
                display_names: view.display_names(),
                predictions: out,
                refused,
            };
            crate::output::show_json(&of).context("cannot write the prediction")?;
        }
        Format::Text => crate::output::show(|to| {
            out.iter().try_for_each(|p| clscope_text::predict::write(p, to))
        })?,
    }
    match all_refused {
        Some(first) => Err(anyhow!(first.why.clone())).with_context(|| cannot(&first)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_and_clocks_are_checked() {
        assert_eq!((factor("2x"), factor("0.5")), (Ok(2.0), Ok(0.5)));
        assert_eq!(megahertz("1400 MHz"), Ok(1400.0));
        for text in ["", "x", "-2x", "0x", "nan", "infx"] {
            assert!(factor(text).is_err(), "{text}");
        }
        assert!(megahertz("0").is_err() && megahertz("fast").is_err());
    }
}
