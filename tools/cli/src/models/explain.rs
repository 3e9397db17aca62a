//! `clscope explain`: why kernels take their time and joules, and what would change it. Owns the
//! options and the choice of format; refuses to compute: statements come from the models.

use crate::args::{By, EnergyArgs, Format, NameArgs, trace_or_kernel};
use crate::output;
use crate::parameters::ParameterArgs;
use crate::select::RowArgs;
use anyhow::{Context, Result, bail};
use clap::builder::NonEmptyStringValueParser;
use clscope_models::explain::{self, Explained, Explanation, Measurement, Options};
use clscope_models::facts::{self, OnDevice};
use clscope_models::split;
use clscope_profile::energy::result::Energy;
use clscope_profile::profile::{self, Profile, View};
use clscope_text::explain as text;
use std::path::{Path, PathBuf};

/// Kernels below this share of the time are left out, unless they are asked for.
const LEAST_SHARE: f64 = 0.01;

/// Options of `clscope explain`.
#[derive(Debug, clap::Args)]
#[command(before_help = "Examples:
  clscope bench model                 once: measure what this device can do at most
  clscope explain                     the newest trace of this directory
  clscope explain gemm                some kernels of it
  clscope explain run1 'gemm*'        some kernels of run1.clscope
  clscope explain --by ndrange        each size of a kernel by itself
  clscope explain gemm --all          with all bounds behind the verdict
  clscope explain --format json | jq '.devices[0].kernels[0].limit'")]
pub struct Args {
    /// Trace directory; the newest of the working directory if none is named
    #[arg(value_name = "TRACE")]
    pub trace: Option<PathBuf>,
    /// Only kernels whose name matches; * and ? are wildcards, a plain word matches anywhere
    #[arg(value_name = "KERNEL", value_parser = NonEmptyStringValueParser::new())]
    pub kernel: Option<String>,
    /// Text for people, or JSON for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    /// The numbers behind each verdict too: all bounds, occupancy, idle lanes, how busy each
    /// component is, everything not known
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    pub rows: RowArgs,
    #[command(flatten)]
    pub facts: FactArgs,
}

/// Where the inputs of models come from.
#[derive(Debug, Clone, clap::Args)]
pub struct FactArgs {
    /// What is a kernel of its own
    #[arg(long, value_enum, default_value_t = By::Kernel, value_name = "WHAT")]
    pub by: By,
    /// Bytes that a launch of KERNEL reads and writes, where they were not counted; can be repeated
    #[arg(long, value_name = "KERNEL=COUNT", value_parser = crate::args::parse_bytes)]
    pub bytes: Vec<(String, f64)>,
    #[command(flatten)]
    pub parameters: ParameterArgs,
    #[command(flatten)]
    pub names: NameArgs,
    #[command(flatten)]
    pub energy: EnergyArgs,
}

impl FactArgs {
    /// How a trace is to be read.
    pub fn options(&self, is_json: bool) -> profile::Options {
        profile::Options {
            by: self.by.into(),
            energy: self.energy.options(),
            form: self.names.form(is_json),
            ..profile::Options::default()
        }
    }

    /// Devices with what ran on them, and what the user stated of kernels.
    ///
    /// # Errors
    /// If a file of readings that the user named cannot be read, or nothing ran.
    pub fn devices(&self, view: &View<'_>) -> Result<Vec<OnDevice>> {
        let mut devices = by_device(view)?;
        if devices.is_empty() {
            let report = view.times();
            if crate::report::refuse_unreadable(&report.issues) {
                bail!("nothing of {} could be read", report.traces.join(", "));
            }
            bail!(
                "{} holds no kernel and no transfer: record an application that runs some",
                report.traces.join(", ")
            );
        }
        let names: Vec<&str> =
            devices.iter().flat_map(|d| &d.kernels).map(|k| k.name.as_str()).collect();
        for (option, list) in [("--flop", &self.energy.flop), ("--bytes", &self.bytes)] {
            if let Some(name) = unmatched(view, list, &names).first() {
                bail!(
                    "{option} {name}: no kernel of the trace is called that; `clscope report` names them"
                );
            }
        }
        for kernel in devices.iter_mut().flat_map(|d| &mut d.kernels) {
            let of = |list: &[(String, f64)]| {
                list.iter()
                    .find(|(name, _)| view.names().is_meant(name, &kernel.name))
                    .map(|(_, n)| *n)
            };
            (kernel.flop, kernel.bytes) = (of(&self.energy.flop), of(&self.bytes));
        }
        Ok(devices)
    }
}

/// Devices with what ran on them, and what this machine cannot measure where the trace is of it.
fn by_device(view: &View<'_>) -> Result<Vec<OnDevice>> {
    let mut devices = facts::by_device(view)?;
    let here = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let is_here = view.trace().processes.iter().all(|p| p.definitions.process.host == here.trim());
    if is_here && !has_counters(Path::new("/sys/bus/event_source/devices")) {
        devices.iter_mut().for_each(|on| on.refuse(Measurement::Perf));
    }
    Ok(devices)
}

/// Whether the kernel lists the counters of its processors among its sources of events: `cpu`,
/// `cpu_core`, `armv8_pmuv3_0`. Virtual machines often have none.
fn has_counters(sources: &Path) -> bool {
    let names = std::fs::read_dir(sources).into_iter().flatten().flatten();
    let mut names = names.map(|of| of.file_name().to_string_lossy().into_owned());
    names.any(|name| name.starts_with("cpu") || name.starts_with("armv"))
}

/// What the models say of all kernels of a view, by the parameters that are kept or named.
///
/// # Errors
/// If a file of readings or parameters that the user named cannot be used.
pub fn all(view: &View<'_>, parameters: &ParameterArgs) -> Result<Vec<Explained>> {
    let options = Options { least_share: 0.0, access_rates: false, wanted: &|_| true };
    by_device(view)?
        .iter()
        .map(|on| {
            let parameters = parameters.find(&on.model, &on.platform, &on.driver)?;
            Ok(explain::device(on, parameters.as_ref(), options))
        })
        .collect()
}

/// Separates by the energy model what the readings know as a sum only, where the trace holds
/// instructions and the device's parameters are kept or named. A page has another use for them.
///
/// # Errors
/// If a file of parameters that the user named cannot be used, or is of no use here.
pub fn split_sums(
    view: &View<'_>,
    parameters: &ParameterArgs,
    is_page: bool,
    energy: &mut Energy,
) -> Result<()> {
    let has_sums = energy.devices.iter().any(|d| !split::sums(d).is_empty());
    if !has_sums || !view.has_mixes() {
        if parameters.parameters.is_some() && !is_page {
            bail!(
                "--parameters is for sums of joules that the energy model separates by counted \
                 instructions (`record --mix`), of which there is none here, and for the bounds of \
                 kernels on a page (--format html); `clscope explain` prints them"
            );
        }
        return Ok(());
    }
    for on in facts::by_device(view)?.iter().filter(|on| !on.sums.is_empty()) {
        let Some(device) = parameters.find(&on.model, &on.platform, &on.driver)? else { continue };
        let (shares, missing) = split::all(on, &device);
        for into in energy.devices.iter_mut().filter(|d| d.device == on.name) {
            split::put_into_device(&shares, into);
            let why = missing.iter().map(|m| format!("not separated by the energy model: {m}"));
            into.notes.extend(why);
        }
    }
    Ok(())
}

/// What the user stated of kernels that did not run.
pub fn unmatched<'l>(view: &View<'_>, stated: &'l [(String, f64)], names: &[&str]) -> Vec<&'l str> {
    let none = |wanted: &&str| !names.iter().any(|name| view.names().is_meant(wanted, name));
    stated.iter().map(|(name, _)| name.as_str()).filter(none).collect()
}

/// Runs the command.
///
/// # Errors
/// If there is no such trace, nothing ran, no kernel has the name, or a file of parameters cannot
/// be used.
pub fn run(args: &Args) -> Result<()> {
    let (traces, kernel) = trace_or_kernel(args.trace.as_ref(), args.kernel.as_ref());
    // Of a single word it is not known which of the two was meant.
    let no_trace = if args.kernel.is_none() { ", and no trace either" } else { "" };
    let profile = Profile::open(&traces)?;
    let view = profile.view(args.facts.options(args.format == Format::Json));
    crate::changed::say_changes(&view);
    let devices = args.facts.devices(&view)?;
    let wanted = |name: &str| {
        kernel.as_deref().is_none_or(|k| view.names().is_meant(k, name))
            && args.rows.is_shown(view.names(), name)
    };
    let asked = kernel.as_ref().or(args.rows.name.as_ref());
    if let Some(asked) = asked
        && !devices.iter().flat_map(|d| &d.kernels).any(|k| wanted(&k.name))
    {
        bail!("no kernel of the trace is called {asked}{no_trace}; `clscope report` names them");
    }
    // Who asks for a kernel, or for so many, wants them, however short they are; a program wants all.
    let is_asked = asked.is_some() || args.rows.limit.is_some() || args.format == Format::Json;
    let least_share = if is_asked { 0.0 } else { LEAST_SHARE };
    let mut explanation = Explanation {
        schema: explain::SCHEMA,
        traces: profile.files().names(),
        display_names: view.display_names(),
        devices: Vec::new(),
    };
    if let Some(pattern) = &args.rows.device
        && !devices.iter().any(|device| args.rows.has_device(&device.name))
    {
        let all: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        bail!("no device of the trace is called {pattern}; there are: {}", all.join(", "));
    }
    for device in devices.iter().filter(|device| args.rows.has_device(&device.name)) {
        let parameters =
            args.facts.parameters.find(&device.model, &device.platform, &device.driver)?;
        let options = Options { least_share, access_rates: args.all, wanted: &wanted };
        let mut explained = explain::device(device, parameters.as_ref(), options);
        explained.kernels.truncate(args.rows.most(None));
        if asked.is_none() || !explained.kernels.is_empty() {
            explanation.devices.push(explained);
        }
    }
    match args.format {
        Format::Json => {
            output::show_json(&explanation).context("could not write the explanation")?;
        }
        Format::Text => {
            let width = output::terminal_width();
            let shown = text::Shown { only_kernels: asked.is_some(), all: args.all, width };
            output::show_text(&text::render(&explanation, shown))?;
        }
    }
    crate::report::warn(&view.times().issues);
    Ok(())
}
