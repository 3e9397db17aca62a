//! Owns the tables whose size does not depend on the trace's length: what the report says, a row
//! each. Refuses to compute: figures are those of the report.

use super::part::{Cell, Part};
use super::schema::Table;
use crate::ExportError;
use crate::power::Power;
use clscope_analysis::Trace;
use clscope_profile::energy::result::{Absence, DeviceEnergy, PartOf};
use clscope_profile::interval::Interval;
use clscope_profile::report::Report;
use clscope_profile::sites::Sites;
use std::collections::HashMap;

/// What the rows are made of.
pub struct Sums<'s, 'a> {
    /// What was recorded.
    pub trace: &'s Trace<'a>,
    /// The report, with energy and counters.
    pub report: &'s Report,
    /// Sensors.
    pub power: &'s Power,
    /// Call sites.
    pub sites: &'s Sites,
    /// Trace directories.
    pub traces: &'s str,
}

fn interval<'v>(of: Option<Interval>) -> [Cell<'v>; 3] {
    [of.map(|i| i.value).into(), of.map(|i| i.low).into(), of.map(|i| i.high).into()]
}

impl Sums<'_, '_> {
    /// Host and rank, where all processes have the same.
    fn place(&self) -> (Option<&str>, Option<u32>) {
        let of = |p: &clscope_profile::report::Process| (p.host.clone(), p.mpi_rank);
        let processes = &self.report.processes;
        let first = processes.first();
        let host = first.filter(|a| processes.iter().all(|b| a.host == b.host));
        let rank = first.filter(|a| processes.iter().all(|b| of(a) == of(b)));
        (host.map(|p| p.host.as_str()), rank.and_then(|p| p.mpi_rank))
    }

    /// Writes the rows of a table.
    ///
    /// # Errors
    /// If the output takes no more.
    pub fn write(&self, table: &Table, to: &mut Part) -> Result<(), ExportError> {
        match table.name {
            "kernels" => self.kernels(to),
            "energy" => self.energy(to),
            "devices" => self.devices(to),
            "queues" => self.queues(to),
            "sites" => self.call_sites(to),
            "power" => self.sensors(to),
            "counters" => self.counters(to),
            "processes" => self.processes(to),
            "meta" => self.meta(to),
            name => unreachable!("no rows are known of {name}"),
        }
    }

    fn kernels(&self, to: &mut Part) -> Result<(), ExportError> {
        let (host, rank) = self.place();
        let report = self.report;
        let sections = [
            ("kernel", &report.kernels),
            ("transfer", &report.transfers),
            ("other", &report.other_commands),
        ];
        for (section, of) in sections.iter().flat_map(|(name, of)| of.iter().map(|c| (*name, c))) {
            // Where all that ran were timed, their sum is the total, without an interval.
            let is_whole = of.time_ns.count > 0 && of.untimed == of.failed;
            let exact = is_whole.then_some(of.time_ns.total as f64);
            let estimate = of.estimate.as_ref().and_then(|e| e.total_ns);
            let t = &of.time_ns;
            to.row(&[
                self.traces.into(),
                host.into(),
                rank.into(),
                section.into(),
                (&of.name).into(),
                of.direction.into(),
                of.device.as_ref().into(),
                of.count.into(),
                of.untimed.into(),
                of.left_out.into(),
                of.bytes.into(),
                t.total.into(),
                t.mean.into(),
                t.median.into(),
                t.p95.into(),
                t.min.into(),
                t.max.into(),
                estimate.map(|e| e.value).or(exact).into(),
                estimate.map(|e| e.low).into(),
                estimate.map(|e| e.high).into(),
                of.failed.into(),
            ])?;
        }
        Ok(())
    }

    fn energy(&self, to: &mut Part) -> Result<(), ExportError> {
        for device in self.report.energy.iter().flat_map(|e| &e.devices) {
            self.energy_of(device, to)?;
        }
        Ok(())
    }

    fn energy_of(&self, device: &DeviceEnergy, to: &mut Part) -> Result<(), ExportError> {
        let rank = self.place().1;
        let mut row = |kind: &str, name: &str, cells: [Cell<'_>; 10]| {
            let mut all = [Cell::Null; 17];
            all[..7].copy_from_slice(&[
                self.traces.into(),
                (&device.host).into(),
                rank.into(),
                (&device.device).into(),
                device.formula.into(),
                kind.into(),
                name.into(),
            ]);
            all[7..].copy_from_slice(&cells);
            to.row(&all)
        };
        for class in &device.classes {
            let [joules, low, high] = interval(class.joules);
            let [each, each_low, each_high] = interval(class.joules_per_launch);
            row(
                class.kind,
                &class.name,
                [
                    class.launches.into(),
                    class.busy_seconds.into(),
                    joules,
                    low,
                    high,
                    each,
                    each_low,
                    each_high,
                    class.watts.map(|w| w.value).into(),
                    class.absence.map(Absence::sentence).into(),
                ],
            )?;
        }
        for part in device.parts() {
            let mut cells = [Cell::Null; 10];
            cells[2..5].copy_from_slice(&interval(Some(part.joules)));
            match part.of {
                PartOf::Class(_) => {}
                PartOf::Sum(names) => row("sum", &names.join(" + "), cells)?,
                PartOf::Floor(floor) => row("floor", floor.name, cells)?,
                PartOf::Rest => row("unattributed", "unattributed", cells)?,
            }
        }
        Ok(())
    }

    /// Host and rank of a process by its label.
    fn places(&self) -> HashMap<&str, (Cell<'_>, Cell<'_>)> {
        let of = self.report.processes.iter();
        of.map(|p| (p.label.as_str(), (Cell::Text(&p.host), p.mpi_rank.into()))).collect()
    }

    fn devices(&self, to: &mut Part) -> Result<(), ExportError> {
        let places = self.places();
        for device in &self.report.devices {
            let (host, rank) =
                places.get(device.process.as_str()).copied().unwrap_or((Cell::Null, Cell::Null));
            to.row(&[
                (&device.process).into(),
                host,
                rank,
                device.id.into(),
                (&device.name).into(),
                (&device.driver).into(),
                device.busy_ns.into(),
                device.extent_ns.into(),
                device.clock_bound_ns.median.into(),
            ])?;
        }
        Ok(())
    }

    fn queues(&self, to: &mut Part) -> Result<(), ExportError> {
        let places = self.places();
        for queue in &self.report.queues {
            let (host, rank) =
                places.get(queue.process.as_str()).copied().unwrap_or((Cell::Null, Cell::Null));
            to.row(&[
                (&queue.process).into(),
                host,
                rank,
                queue.id.into(),
                (&queue.device).into(),
                queue.out_of_order.into(),
                queue.commands.into(),
                queue.left_out.into(),
                queue.busy_ns.into(),
                queue.idle_ns.into(),
            ])?;
        }
        Ok(())
    }

    fn call_sites(&self, to: &mut Part) -> Result<(), ExportError> {
        for (index, process) in (0u32..).zip(&self.trace.processes) {
            for id in process.definitions.call_sites.keys() {
                let index = clscope_analysis::time::ProcessIndex(index);
                let Some(site) = self.sites.get(index, *id) else { continue };
                for (number, frame) in (0u32..).zip(&site.frames) {
                    to.row(&[
                        (&process.label).into(),
                        (*id).into(),
                        number.into(),
                        (&frame.text).into(),
                        frame.function.as_ref().into(),
                        frame.file.as_ref().into(),
                        frame.line.into(),
                        frame.module.as_ref().into(),
                    ])?;
                }
            }
        }
        Ok(())
    }

    fn sensors(&self, to: &mut Part) -> Result<(), ExportError> {
        let origin = self.trace.origin().0;
        let origin_unix_ns = super::origin_unix_ns(self.trace);
        for counter in &self.power.counters {
            let host = self.trace.timeline.hosts.get(counter.host).map(|host| &host.name);
            let known = counter.points.windows(2).filter(|pair| pair[0].1.is_finite());
            for (time, value, until) in known.map(|pair| (pair[0].0, pair[0].1, pair[1].0)) {
                to.row(&[
                    self.traces.into(),
                    host.into(),
                    (&counter.name).into(),
                    (*counter.unit).into(),
                    counter.pci.as_ref().into(),
                    time.0.saturating_sub(origin).into(),
                    value.into(),
                    origin_unix_ns.into(),
                    until.0.saturating_sub(origin).into(),
                ])?;
            }
        }
        Ok(())
    }

    fn counters(&self, to: &mut Part) -> Result<(), ExportError> {
        for source in self.report.counters.iter().flat_map(|c| &c.sources) {
            for class in &source.classes {
                for column in &source.columns {
                    let Some(value) = class.values.get(&column.name) else { continue };
                    let group = value.only_with.as_ref();
                    let [mean, low, high] = interval(value.mean.or(group.map(|g| g.mean)));
                    let together = group.map(|g| g.classes.join(" + "));
                    to.row(&[
                        self.traces.into(),
                        (&source.host).into(),
                        (&source.device).into(),
                        (&source.source).into(),
                        source.set.as_ref().into(),
                        class.kind.into(),
                        (&class.name).into(),
                        (&column.name).into(),
                        (&column.unit).into(),
                        mean,
                        low,
                        high,
                        together.as_ref().into(),
                        value.why.as_ref().into(),
                    ])?;
                }
            }
        }
        Ok(())
    }

    fn processes(&self, to: &mut Part) -> Result<(), ExportError> {
        let timeline = &self.trace.timeline;
        let origin = super::origin_unix_ns(self.trace);
        for (index, process) in self.report.processes.iter().enumerate() {
            to.row(&[
                (&process.label).into(),
                self.traces.into(),
                (&process.host).into(),
                process.mpi_rank.into(),
                process.pid.into(),
                (&process.executable).into(),
                (&process.device_timing).into(),
                process.ended.into(),
                origin.into(),
                timeline.placed_within(index).into(),
                process.mpi_size.into(),
            ])?;
        }
        Ok(())
    }

    fn meta(&self, to: &mut Part) -> Result<(), ExportError> {
        let report = self.report;
        let mut row = |key: &str, subject: Option<&str>, value: &str| {
            to.row(&[self.traces.into(), key.into(), subject.into(), value.into()])
        };
        row("clscope", None, env!("CARGO_PKG_VERSION"))?;
        if let Some(ns) = report.duration_ns {
            row("duration_ns", None, &ns.to_string())?;
        }
        row("percentile_error", None, &report.percentile_error.to_string())?;
        row("commands", None, &report.totals.commands.to_string())?;
        row("calls", None, &report.totals.calls.to_string())?;
        if let Some(why) = report.energy.as_ref().and_then(|energy| energy.absent.as_ref()) {
            row("no_energy", None, why)?;
        }
        for issue in &report.issues {
            row("issue", Some(&issue.subject), &format!("{}: {}", issue.severity, issue.text))?;
        }
        Ok(())
    }
}
