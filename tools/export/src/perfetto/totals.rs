//! Owns what the spans of a timeline do not add up to: the estimated totals of kernels and
//! transfers of which sampling left launches out, and joules that are known only as a sum of
//! several. Each is an instant on one track, with its interval, so that SQL finds it. Refuses to
//! estimate: the figures are the report's, of the whole run.

use super::Pen;
use super::numbers::*;
use crate::arguments::{Argument, Sink};
use crate::power::Joules;
use clscope_analysis::time::HostNs;
use clscope_profile::interval::Interval;
use clscope_profile::report::Report;
use clscope_profile::report::data::Commands;
use std::io::{self, Write};

/// The name of the track.
const TRACK: &str = "totals of the run";

/// Puts a figure and the ends of its 95 % interval.
fn put(to: &mut impl Sink, name: &str, unit: &str, of: &Interval) {
    for (end, value) in [("", of.value), ("_low", of.low), ("_high", of.high)] {
        if value.is_finite() {
            to.put(&format!("{name}{end}_{unit}"), Argument::Real(value));
        }
    }
}

/// Whether joules are those of a row's kernel alone.
fn are_of(joules: &Joules, row: &Commands) -> bool {
    joules.names == [row.name.as_str()] && row.device.as_ref() == Some(&joules.device)
}

impl<W: Write> Pen<'_, '_, W> {
    /// The track, where there is anything for it. `report`: where launches were left out.
    pub(super) fn totals(&mut self, report: Option<&Report>, at: HostNs) -> io::Result<()> {
        let power = self.document.power;
        // Where every launch has its span, joules of a kernel alone are in its spans.
        let told = |joules: &&Joules| report.is_some() || joules.names.len() > 1;
        let joules: Vec<&Joules> = power.joules.iter().filter(told).collect();
        let rows: Vec<&Commands> = report
            .into_iter()
            .flat_map(|of| of.kernels.iter().chain(&of.transfers).chain(&of.other_commands))
            .filter(|row| row.left_out > 0)
            .collect();
        if rows.is_empty() && joules.is_empty() {
            return Ok(());
        }
        self.out.of_host(0);
        let uuid = self.track(TRACK, |_| {})?;
        for row in &rows {
            self.at(at, TYPE_INSTANT, uuid, &row.name, "total", |to| {
                if let Some(device) = &row.device {
                    to.put("device", Argument::Text(device));
                }
                if let Some(direction) = row.direction {
                    to.put("direction", Argument::Text(direction));
                }
                to.put("launches", Argument::Uint(row.count));
                to.put("timed", Argument::Uint(row.time_ns.count));
                // One that nothing is known of has no total.
                if let Some(total) = row.estimate.as_ref().and_then(|e| e.total_ns.as_ref()) {
                    put(to, "total", "ns", total);
                }
                if let Some(joules) = joules.iter().find(|joules| are_of(joules, row)) {
                    put(to, "energy", "J", &joules.all);
                }
            })?;
        }
        let told = |joules: &&&Joules| !rows.iter().any(|row| are_of(joules, row));
        for joules in joules.iter().filter(told) {
            let name = match &joules.names[..] {
                [one] => one.as_str(),
                _ => "joules known only as a sum",
            };
            self.at(at, TYPE_INSTANT, uuid, name, "total", |to| {
                to.put("device", Argument::Text(&joules.device));
                let names: Vec<&str> = joules.names.iter().map(String::as_str).collect();
                if names.len() > 1 {
                    to.put("sum_of", Argument::Lines(&names));
                }
                put(to, "energy", "J", &joules.all);
            })?;
        }
        Ok(())
    }
}
