//! Owns the tables that grow with the trace: commands, calls, wait lists, a file for each process
//! and table. Rows are written as events come, so that memory does not grow with the trace.

use super::folder::Folder;
use super::part::{Cell, Part};
use super::schema::{Table, table};
use crate::ExportError;
use crate::arguments::command_name;
use crate::power::Power;
use clscope_analysis::Trace;
use clscope_analysis::event::{Call, Command, Event, Outcome};
use clscope_analysis::time::{HostNs, ProcessIndex};
use clscope_profile::energy::activity::{Grouping, class_name};
use clscope_profile::interval::Interval;
use clscope_trace::defs::Process;
use clscope_trace::record::error_text;
use std::collections::HashMap;

/// Rows that all files together keep in memory, at most; a row of commands takes some 250 bytes.
const ROWS: usize = 1 << 19;
/// Row groups that the files of a process keep: two of each table that has an order.
const GROUPS: usize = 5;
/// Rows of a row group, at most and at least: smaller groups compress worse.
const MOST: usize = 1 << 17;
const LEAST: usize = 1 << 10;

/// Process, device, kind, kernel, variant: what decides the class.
type What = (u32, u32, u8, u32, u32);

/// The files of one process.
struct Files {
    commands: Option<Part>,
    calls: Option<Part>,
    waits: Option<Part>,
}

/// Takes events and writes rows.
pub struct Events<'t, 'a> {
    trace: &'t Trace<'a>,
    power: &'t Power,
    by: Grouping<'t>,
    origin: HostNs,
    origin_unix_ns: Option<i64>,
    files: Vec<Files>,
    watts: HashMap<What, Option<Interval>>,
}

impl<'t, 'a> Events<'t, 'a> {
    /// Begins the files of those tables that `wanted` wants.
    ///
    /// # Errors
    /// If one cannot be made.
    pub fn new(
        (trace, power, by): (&'t Trace<'a>, &'t Power, Grouping<'t>),
        folder: &mut Folder,
        names: &[String],
        wanted: &dyn Fn(&Table) -> bool,
    ) -> Result<Self, ExportError> {
        let group = (ROWS / (GROUPS * trace.processes.len().max(1))).clamp(LEAST, MOST);
        let mut files = Vec::new();
        for (process, name) in trace.processes.iter().zip(names) {
            let of = &process.definitions.process;
            let mut create = |kind: &str| -> Result<Option<Part>, ExportError> {
                let table = table(kind);
                if !wanted(table) {
                    return Ok(None);
                }
                let path = folder.part(table, &of.host, of.mpi_rank, name)?;
                Part::create(table, &path, group).map(Some)
            };
            files.push(Files {
                commands: create("commands")?,
                calls: create("calls")?,
                waits: create("waits")?,
            });
        }
        let origin = trace.origin();
        let origin_unix_ns = super::origin_unix_ns(trace);
        Ok(Self { trace, power, by, origin, origin_unix_ns, files, watts: HashMap::new() })
    }

    /// Writes what an event holds.
    ///
    /// # Errors
    /// If the output takes no more.
    pub fn event(&mut self, event: &Event<'_>) -> Result<(), ExportError> {
        match event {
            Event::Call(call) => self.call(call),
            Event::Command(command) => self.command(command),
            // They are among the issues.
            Event::InCall { .. } | Event::Mark { .. } => Ok(()),
        }
    }

    /// Finishes all files; gives the numbers of rows of commands and calls.
    ///
    /// # Errors
    /// If the output takes no more.
    pub fn finish(self) -> Result<(u64, u64), ExportError> {
        let mut rows = (0, 0);
        let finish = |part: Option<Part>| part.map_or(Ok(0), Part::finish);
        for files in self.files {
            rows.0 += finish(files.commands)?;
            rows.1 += finish(files.calls)?;
            finish(files.waits)?;
        }
        Ok(rows)
    }

    fn at(&self, time: HostNs) -> i64 {
        time.0.saturating_sub(self.origin.0)
    }

    fn call(&mut self, call: &Call<'_>) -> Result<(), ExportError> {
        let begin = self.at(call.span.begin);
        let process = self.trace.process(call.process);
        let Some(part) = &mut self.files[call.process.0 as usize].calls else { return Ok(()) };
        let error = (call.result != 0).then(|| error_text(call.result).to_string());
        let of = &process.definitions.process;
        part.row(&[
            host(of).into(),
            of.mpi_rank.into(),
            (&process.label).into(),
            call.thread.0.into(),
            Cell::Text(&process.definitions.function_name(call.function)),
            begin.into(),
            call.inside_ns().into(),
            call.count().into(),
            call.run.map(|_| call.span.duration()).into(),
            error.as_ref().into(),
            call.command().map(|id| id.0).into(),
            self.origin_unix_ns.into(),
        ])
    }

    /// Mean power of the command's class.
    fn watts(&mut self, command: &Command<'_>, device: Option<u32>) -> Option<Interval> {
        let record = &command.enqueued.record;
        let device = device?;
        let kernel = if record.kind.is_kernel() { record.object } else { 0 };
        let variant = self.by.variant().map_or(0, |of| of(record));
        let what = (command.process.0, device, record.kind as u8, kernel, variant);
        let (trace, power, by) = (self.trace, self.power, self.by);
        *self.watts.entry(what).or_insert_with(|| {
            let class = class_name(trace, command, by)?;
            power.watts(ProcessIndex(what.0), device, &class)
        })
    }

    fn command(&mut self, command: &Command<'_>) -> Result<(), ExportError> {
        let process = self.trace.process(command.process);
        let definitions = &process.definitions;
        let record = &command.enqueued.record;
        let index = command.process.0 as usize;
        if let Some(part) = &mut self.files[index].waits {
            for waits_for in command.enqueued.waits() {
                let waits_for = waits_for.map(|id| id.0);
                part.row(&[
                    host(&definitions.process).into(),
                    definitions.process.mpi_rank.into(),
                    (&process.label).into(),
                    record.id.into(),
                    waits_for.into(),
                ])?;
            }
        }
        if self.files[index].commands.is_none() {
            return Ok(());
        }
        let device = definitions.queues.get(&record.queue).map(|queue| queue.device);
        let device = device.map(|id| definitions.device_name(id));
        let timed = command.timed();
        let duration = timed.map(|times| times.duration());
        let placed = timed.and_then(|times| times.placed.zip(Some(times.observed)));
        let clock_device = definitions.clock_device(record.queue);
        let launch = clock_device.and_then(|device| self.power.of_launch(command, device));
        let watts = duration.and_then(|_| self.watts(command, clock_device));
        let mean = || watts.zip(duration).map(|(w, ns)| w.times(ns as f64 * 1e-9));
        let joules = launch.map(|launch| launch.joules).or_else(mean);
        let energy_of = joules.map(|_| Power::energy_of(launch.as_ref()));
        let stage = |from: usize, to: usize| {
            placed.map(|(p, _)| p.stamps[to].0.saturating_sub(p.stamps[from].0))
        };
        let outcome = match &command.outcome {
            Outcome::Timed(_) => "timed",
            Outcome::Untimed { reason, .. } => reason.text(),
            Outcome::Unfinished(reason) => reason.text(),
        };
        let geometry = definitions.geometries.get(&record.geometry);
        let dimensions = geometry.map_or(0, |g| (g.dimensions as usize).min(3));
        let size = |sizes: Option<[u64; 3]>, at: usize| {
            Cell::from(sizes.filter(|_| at < dimensions).map(|sizes| sizes[at]))
        };
        let (global, local) = (geometry.map(|g| g.global), geometry.and_then(|g| g.local));
        let name = command_name(&command.enqueued, definitions);
        let function = definitions.function_name(record.function);
        let cells = [
            host(&definitions.process).into(),
            definitions.process.mpi_rank.into(),
            (&process.label).into(),
            command.thread.0.into(),
            record.id.into(),
            record.kind.name().into(),
            Cell::Text(&name),
            Cell::Text(&function),
            record.queue.into(),
            device.as_deref().into(),
            placed.map(|(p, _)| self.at(p.span().begin)).into(),
            duration.into(),
            stage(0, 1).into(),
            stage(1, 2).into(),
            placed.map(|(p, observed)| observed.0.saturating_sub(p.span().end.0)).into(),
            self.at(command.call.begin).into(),
            command.call.duration().into(),
            placed.map(|(p, _)| p.bound_ns).into(),
            outcome.into(),
            Some(command.moved_bytes()).filter(|bytes| *bytes > 0).into(),
            record.probability().into(),
            size(global, 0),
            size(global, 1),
            size(global, 2),
            size(local, 0),
            size(local, 1),
            size(local, 2),
            (record.site != 0).then_some(record.site).into(),
            joules.map(|j| j.value).into(),
            joules.map(|j| j.low).into(),
            joules.map(|j| j.high).into(),
            energy_of.into(),
            self.origin_unix_ns.into(),
        ];
        match &mut self.files[index].commands {
            Some(part) => part.row(&cells),
            None => Ok(()),
        }
    }
}

/// The host of a process, where it is known.
fn host(of: &Process) -> Option<&str> {
    Some(&*of.host).filter(|host| !host.is_empty())
}
