//! Options that select rows, the same in every command that shows them: `report` and `view` have
//! all ([`SelectArgs`]), commands without sections those of rows ([`RowArgs`]). Owns what a device's
//! name means; refuses to compute.

use crate::args::{By, choices};
use crate::output::terminal_width;
use anyhow::{Result, bail};
use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use clscope_profile::names::Names;
use clscope_profile::profile::View;
use clscope_profile::report::Report;
use clscope_profile::report::places::{PlaceBy, Places};
use clscope_text::report::{self, Shown};
use clscope_trace::names::pattern;
use clscope_trace::variables::RANKS;
use std::rc::Rc;

/// Rows for people in a section, where no number was asked for.
const ROWS: usize = 15;

/// Which rows.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct RowArgs {
    /// Rows per section, 0 for all [default: 15 for people, all for programs]
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
    /// Only kernels and functions whose name matches; * and ? are wildcards, a plain word matches
    /// anywhere
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// Only what ran on devices whose name matches, likewise; upper and lower case are the same
    #[arg(long, value_name = "PATTERN", value_parser = NonEmptyStringValueParser::new())]
    pub device: Option<String>,
}

impl RowArgs {
    /// How many rows a section has, where people have `people` and programs all.
    pub fn most(&self, people: Option<usize>) -> usize {
        self.limit.or(people).filter(|n| *n > 0).unwrap_or(usize::MAX)
    }

    /// Whether a kernel or function is shown.
    pub fn is_shown(&self, names: &Names, name: &str) -> bool {
        self.name.as_deref().is_none_or(|pattern| names.is_meant(pattern, name))
    }

    /// Whether what ran on this device is shown.
    pub fn has_device(&self, device: &str) -> bool {
        let is_meant =
            |pattern: &str| pattern::is_meant(&pattern.to_lowercase(), &device.to_lowercase());
        self.device.as_deref().is_none_or(is_meant)
    }

    /// Takes what ran on other devices out of a report.
    ///
    /// # Errors
    /// If no device of the report is meant.
    pub fn narrow_devices(&self, report: &mut Report) -> Result<()> {
        let Some(pattern) = &self.device else { return Ok(()) };
        let all: Vec<String> = report.devices.iter().map(|device| device.name.clone()).collect();
        if !all.iter().any(|name| self.has_device(name)) {
            bail!("no device of the trace is called {pattern}; there are: {}", all.join(", "));
        }
        // What ran on the only device does not name it.
        let is_on = |device: &Option<String>| device.as_deref().is_none_or(|d| self.has_device(d));
        report.kernels.retain(|row| is_on(&row.device));
        report.transfers.retain(|row| is_on(&row.device));
        report.other_commands.retain(|row| is_on(&row.device));
        report.queues.retain(|queue| self.has_device(&queue.device));
        report.devices.retain(|device| self.has_device(&device.name));
        if let Some(energy) = &mut report.energy {
            energy.devices.retain(|device| self.has_device(&device.device));
        }
        if report.devices.len() < all.len() && !report.idle.is_empty() {
            report.idle.clear();
            report.idle_absent.push(
                "why devices were idle is known for all of them together: leave --device out"
                    .into(),
            );
        }
        Ok(())
    }
}

/// What of a trace is shown.
#[derive(Debug, clap::Args)]
pub struct SelectArgs {
    #[command(flatten)]
    pub rows: RowArgs,
    /// What gets its own row: among kernels, joules and counters; or whole MPI ranks or hosts, in a
    /// table of their own
    #[arg(long, value_enum, default_value_t = Rows::Kernel, value_name = "WHAT")]
    pub by: Rows,
    /// Sections to show [default: all; for csv: kernels]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME")]
    pub section: Vec<Section>,
    /// Order of the rows in every section
    #[arg(long, value_enum, default_value_t = Sort::Total)]
    pub sort: Sort,
    /// Counters to show of each kernel: their names, `all`, or `clocks` for the three clocks of an
    /// OA stream (comma-separated) [default: those that any kernel moved]
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub counters: Vec<String>,
    /// The device that OA counters are of, by a part of its name, where the runtime reports no PCI
    /// address
    #[arg(long, value_name = "NAME")]
    pub counter_device: Option<String>,
}

impl SelectArgs {
    /// Whether rows or columns were chosen.
    pub fn is_chosen(&self) -> bool {
        let rows = &self.rows;
        !self.section.is_empty()
            || !self.counters.is_empty()
            || rows.limit.is_some()
            || rows.name.is_some()
            || rows.device.is_some()
            || (self.by, self.sort) != (Rows::Kernel, Sort::Total)
    }

    /// Gives a report its rows by rank or host, where those were asked for; takes out those of
    /// other devices, and puts the others in order.
    ///
    /// # Errors
    /// If no process has a rank, or no device is meant.
    pub fn apply(&self, report: &mut Report, view: &View<'_>) -> Result<()> {
        self.place(report, view)?;
        self.rows.narrow_devices(report)?;
        report::sort(report, self.sort.into());
        Ok(())
    }

    fn place(&self, report: &mut Report, view: &View<'_>) -> Result<()> {
        let Some(by) = self.by.places() else { return Ok(()) };
        let energy = report.energy.as_ref();
        let has_rank = report.processes.iter().any(|process| process.mpi_rank.is_some());
        if by == PlaceBy::Rank && !has_rank {
            bail!(
                "no process of {} has an MPI rank (none of {} was set when it ran): \
                 `--by host` gives rows by host",
                report.traces.join(", "),
                RANKS.join(", ")
            );
        }
        report.places = Some(Places::new(view.trace(), view.stats(), energy, by));
        Ok(())
    }

    /// The rows that were asked for; `most`: the sections where none was asked for.
    pub fn shown(&self, names: &Rc<Names>, most: &[report::Section]) -> Shown {
        let sections = match self.section.is_empty() {
            true => most.to_vec(),
            false => self.section.iter().map(|of| (*of).into()).collect(),
        };
        Shown {
            sections,
            most: self.rows.limit.unwrap_or(ROWS),
            limited: self.rows.limit.is_some(),
            pattern: self.rows.name.clone(),
            names: Rc::clone(names),
            counters: self.counters.clone(),
            width: terminal_width(),
        }
    }
}

/// What has a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rows {
    /// The kernel's name
    Kernel,
    /// The kernel and its global size
    Ndrange,
    /// The kernel and where in the application it was launched from (`record --call-sites`)
    CallSite,
    /// The MPI rank: device time, waits, joules, imbalance, the slowest and why
    Rank,
    /// The host, likewise
    Host,
}

impl Rows {
    /// What separates kernels.
    pub fn of_kernels(self) -> By {
        match self {
            Self::Kernel | Self::Rank | Self::Host => By::Kernel,
            Self::Ndrange => By::Ndrange,
            Self::CallSite => By::CallSite,
        }
    }

    /// What has a table of its own.
    pub fn places(self) -> Option<PlaceBy> {
        match self {
            Self::Rank => Some(PlaceBy::Rank),
            Self::Host => Some(PlaceBy::Host),
            _ => None,
        }
    }
}

choices! {
    /// Part of the report.
    pub enum Section = report::Section {
        /// Kernels by device time.
        Kernels,
        /// Joules per kernel.
        Energy,
        /// Hardware counters per kernel.
        Counters,
        /// Transfers and other commands.
        Transfers,
        /// Command queues.
        Queues,
        /// Why devices were idle.
        Idle,
        /// What the host waited for.
        Waits,
        /// API functions by host time.
        Functions,
    }
}

choices! {
    /// Order of rows.
    pub enum Sort = report::Sort {
        /// Total time.
        Total,
        /// Number of launches or calls.
        Count,
        /// Mean time.
        Mean,
        /// Longest time.
        Max,
        /// Name.
        Name,
    }
}
