//! The door of this crate: traces opened by their paths ([`Profile`]), and what they hold, worked
//! out when it is asked for and kept ([`View`]). Records are read twice at most for a report with
//! energy: once to align clocks, once for all sums. Refuses to print.

use crate::counters::result::Counters;
use crate::energy::activity::{By, Collector, Grouping, PhysicalDevice};
use crate::energy::external::External;
use crate::energy::readings::Readings;
use crate::energy::result::{DeviceEnergy, Energy};
use crate::energy::{self, attribute};
use crate::error::{OpenError, ReadingsError};
use crate::mixes::KernelMix;
use crate::names::{Form, Names};
use crate::programs::Code;
use crate::report::Report;
use crate::sites::Sites;
use crate::trace_files::TraceFiles;
use clscope_analysis::Trace;
use clscope_analysis::align::Alignment;
use clscope_analysis::energy::{EstimatedTime, Evidence, HostNs, Pooled, Response};
use clscope_analysis::stats::beside::Repeated;
use clscope_analysis::stats::{CommandSums, Stats};
use clscope_analysis::time::ProcessIndex;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

/// More threads do not read a trace faster than its memory gives it.
const MOST_THREADS: usize = 16;

/// Opened traces: one or several directories, of processes that ended, were killed or still run.
pub struct Profile {
    files: TraceFiles,
}

/// What a caller may choose.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What has a row of its own among kernels.
    pub by: By,
    /// How joules are attributed.
    pub energy: attribute::Options,
    /// The device that counters are of, by a part of its name, where nothing else tells.
    pub counter_device: Option<String>,
    /// Whether call sites are named although no row is by them.
    pub name_sites: bool,
    /// What kernels are called.
    pub form: Form,
    /// The readable names, where other traces are shown beside this one and have a say; else they
    /// are made of this one's kernels.
    pub names: Option<Rc<Names>>,
}

impl Profile {
    /// Opens trace directories; the newest of the working directory if `paths` is empty.
    ///
    /// # Errors
    /// If a path is no trace directory. A damaged file is no error: [`Report::issues`] tells of it.
    pub fn open(paths: &[PathBuf]) -> Result<Self, OpenError> {
        Ok(Self { files: TraceFiles::open(paths)? })
    }

    /// The files.
    pub fn files(&self) -> &TraceFiles {
        &self.files
    }

    /// What the traces hold, by a caller's choices.
    pub fn view(&self, mut options: Options) -> View<'_> {
        let names =
            options.names.take().unwrap_or_else(|| Rc::new(Names::of_traces([&self.files])));
        let mut trace = self.files.trace();
        for process in &mut trace.processes {
            names.apply(&mut process.definitions, options.form);
        }
        // Kernels that the caller names are those of the form's names from here on.
        let form = options.form;
        let energy = &mut options.energy;
        let named = energy.iteration_kernel.iter_mut().chain(&mut energy.explain);
        for kernel in energy.flop.iter_mut().map(|f| &mut f.0).chain(named) {
            *kernel = names.meant(kernel, form);
        }
        options.names = Some(Rc::clone(&names));
        View {
            files: &self.files,
            trace,
            options,
            names,
            alignment: OnceCell::new(),
            sites: OnceCell::new(),
            sums: OnceCell::new(),
            devices: OnceCell::new(),
            readings: OnceCell::new(),
            external: OnceCell::new(),
            energy: OnceCell::new(),
            counters: OnceCell::new(),
            mixes: OnceCell::new(),
        }
    }
}

/// Gives views that are compared the same knowledge of each device that several of them are of: what
/// a degree adds to its power, and how far workers are from runs.
///
/// # Errors
/// As for [`View::readings`].
pub fn pool(views: &[View<'_>]) -> Result<(), ReadingsError> {
    let alone =
        views.iter().map(|view| view.attributed(BTreeMap::new())).collect::<Result<Vec<_>, _>>()?;
    let mut runs: BTreeMap<&str, Vec<Evidence>> = BTreeMap::new();
    for device in alone.iter().flat_map(|energy| &energy.devices) {
        if device.evidence != Evidence::default() {
            runs.entry(&device.identity).or_default().push(device.evidence);
        }
    }
    for (view, alone) in views.iter().zip(&alone) {
        let pooled = |device: &DeviceEnergy| {
            let all = runs.get(device.identity.as_str()).filter(|all| all.len() > 1)?;
            let of = device.response.as_ref()?;
            let response = Response {
                window: of.window_seconds,
                lag: of.lag_seconds,
                delay: of.delay_seconds,
            };
            Some((device.identity.clone(), (Pooled::new(all), device.evidence, response)))
        };
        let pooled: BTreeMap<_, _> = alone.devices.iter().filter_map(pooled).collect();
        let energy = match pooled.is_empty() {
            true => alone.clone(),
            false => view.attributed(pooled)?,
        };
        view.energy.get_or_init(|| energy);
    }
    Ok(())
}

/// The parts of a profile. Each is made when it is first asked for.
pub struct View<'p> {
    files: &'p TraceFiles,
    trace: Trace<'p>,
    options: Options,
    names: Rc<Names>,
    alignment: OnceCell<Alignment>,
    sites: OnceCell<Sites>,
    sums: OnceCell<Stats>,
    devices: OnceCell<Vec<PhysicalDevice>>,
    readings: OnceCell<Readings>,
    external: OnceCell<External>,
    energy: OnceCell<Energy>,
    counters: OnceCell<Option<Counters>>,
    mixes: OnceCell<Vec<KernelMix>>,
}

impl<'p> View<'p> {
    /// Definitions, timeline and records.
    pub fn trace(&self) -> &Trace<'p> {
        &self.trace
    }

    /// Readable names of the kernels.
    pub fn names(&self) -> &Rc<Names> {
        &self.names
    }

    /// What a document that keeps recorded names lists beside them: the readable ones. Empty where
    /// the view shows readable names anyway.
    pub fn display_names(&self) -> BTreeMap<String, String> {
        match self.options.form {
            Form::Recorded => {
                let mut names = self.names.display();
                // Behind both stands what tells programs apart.
                for d in self.trace.processes.iter().map(|p| &p.definitions) {
                    for (id, mark) in &d.kernel_marks {
                        let name = d.kernels.get(id).map_or("", |kernel| kernel.name.as_str());
                        if let Some(shown) = names.get(name).map(|shown| format!("{shown}{mark}")) {
                            names.insert(format!("{name}{mark}"), shown);
                        }
                    }
                }
                names
            }
            Form::Short | Form::Full => BTreeMap::new(),
        }
    }

    /// Where devices' clocks stand on the host's.
    pub fn alignment(&self) -> &Alignment {
        self.alignment.get_or_init(|| self.trace.align())
    }

    /// Names of call sites, where a row is by them or the caller wants them.
    pub fn sites(&self) -> &Sites {
        self.sites.get_or_init(|| {
            let wanted = self.options.by == By::CallSite || self.options.name_sites;
            if wanted { Sites::of_trace(&self.trace) } else { Sites::default() }
        })
    }

    /// What kernels executed, by class of instruction (`record --mix`), and what they take of their
    /// devices: a row for each kernel, device and geometry that was launched. Reads all records.
    pub fn mixes(&self) -> &[KernelMix] {
        self.mixes.get_or_init(|| crate::mixes::kernel_mixes(&self.trace))
    }

    /// Texts and binaries of the programs.
    pub fn programs(&self) -> Vec<Code> {
        crate::programs::codes(self.files, &self.trace)
    }

    /// The text that blocks of a mix are of, by its hash and language; `None` where the trace does
    /// not keep it.
    pub fn program(&self, hash: &str, language: &str) -> Option<Vec<u8>> {
        crate::programs::kept_text(self.files, hash, language)
    }

    /// What has a row of its own among kernels, and joules and counters of its own.
    pub fn grouping(&self) -> Grouping<'_> {
        Grouping { by: self.options.by, sites: self.sites() }
    }

    /// Whether instructions of any kernel were counted, or were to be.
    pub fn has_mixes(&self) -> bool {
        self.trace.processes.iter().any(|p| crate::mixes::are_wanted(&p.definitions))
    }

    /// Sums over all calls and commands.
    pub fn stats(&self) -> &Stats {
        self.sums.get_or_init(|| {
            // One reading of the records gives both, where something was measured of the devices.
            let wanted = self.readings().is_ok_and(|readings| !readings.sensors.is_empty());
            let mut devices = (wanted && self.devices.get().is_none())
                .then(|| Collector::new(&self.trace, self.grouping()));
            let variant = self.grouping().variant();
            // A process that is kept to some processors has threads for these.
            let threads =
                std::thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
            let stats = Stats::with(&self.trace, self.alignment(), variant, threads, |event| {
                devices.iter_mut().for_each(|devices| devices.add(event));
            });
            if let Some(devices) = devices {
                self.devices.get_or_init(|| devices.finish(self.alignment()));
            }
            stats
        })
    }

    /// Physical devices across processes, with what ran on them.
    pub fn devices(&self) -> &[PhysicalDevice] {
        self.devices.get_or_init(|| {
            // Who asks for them alone has no use for sums, which take longer.
            let mut devices = Collector::new(&self.trace, self.grouping());
            self.trace.commands(Some(self.alignment())).for_each(|event| devices.add(&event));
            devices.finish(self.alignment())
        })
    }

    /// What sensors read.
    ///
    /// # Errors
    /// If a file of readings that the caller named cannot be read.
    pub fn readings(&self) -> Result<&Readings, ReadingsError> {
        match self.readings.get() {
            Some(readings) => Ok(readings),
            None => {
                let readings = energy::readings_of(self.files, &self.trace, &self.options.energy)?;
                Ok(self.readings.get_or_init(|| readings))
            }
        }
    }

    /// Joules per kernel.
    ///
    /// # Errors
    /// As for [`readings`](Self::readings).
    pub fn energy(&self) -> Result<&Energy, ReadingsError> {
        if let Some(energy) = self.energy.get() {
            return Ok(energy);
        }
        let energy = self.attributed(BTreeMap::new())?;
        Ok(self.energy.get_or_init(|| energy))
    }

    /// Joules per kernel, given what runs of the devices say together.
    fn attributed(
        &self,
        pooled: BTreeMap<String, (Pooled, Evidence, Response)>,
    ) -> Result<Energy, ReadingsError> {
        let readings = self.readings()?;
        // Without readings there is nothing to attribute to what they ran.
        let devices = if readings.have_points() { self.devices() } else { &[] };
        let external = match self.external.get() {
            Some(external) => external,
            None => {
                let of = External::collect(self.files, &self.trace, devices, &self.options)?;
                self.external.get_or_init(|| of)
            }
        };
        let recorded = energy::recorded_formula(self.files);
        let options = attribute::Options { pooled, ..self.options.energy.clone() };
        let times = self.estimated_times(devices);
        let own = self.own_time();
        let ran =
            attribute::Ran { devices, times: &times, own: &own, paused: &self.stats().paused };
        let mut energy =
            attribute::energy_of(&self.trace, ran, readings, recorded, external, &options);
        energy::advise(self.files, &mut energy);
        Ok(energy)
    }

    /// When the application ran, and was not held for repetitions: the time that the report is of.
    fn own_time(&self) -> Vec<(HostNs, HostNs)> {
        let stats = self.stats();
        let held = Repeated::any(stats.repeated.iter());
        let own = stats.recorded().into_iter().flat_map(|run| run.without(held.spans()));
        own.map(|span| (HostNs(span.begin.0), HostNs(span.end.0))).collect()
    }

    /// How the time of each class of each device is known: where launches were sampled, as the report
    /// estimates it.
    fn estimated_times(&self, devices: &[PhysicalDevice]) -> Vec<Vec<EstimatedTime>> {
        if !self.trace.processes.iter().any(|p| p.definitions.process.may_sample()) {
            return Vec::new();
        }
        let grouping = self.grouping();
        let is_on = |device: &PhysicalDevice, process: ProcessIndex, queue: u32| {
            let clock = self.trace.process(process).definitions.clock_device(queue);
            clock.is_some_and(|id| device.members.contains(&(process, id)))
        };
        let times = |device: &PhysicalDevice| {
            let kernels =
                self.stats().group_kernels(&self.trace, |(process, kernel, queue, at)| {
                    let name = || grouping.name(&self.trace, process, kernel, at);
                    is_on(device, process, queue).then(name)
                });
            let mut transfers: BTreeMap<&str, CommandSums> = BTreeMap::new();
            let own = self.stats().transfers_on(|process, queue| is_on(device, process, queue));
            for ((way, _), sums) in own {
                transfers.entry(way.name()).or_default().merge(&sums);
            }
            device.estimated_times(|class| {
                let of = match class.kernel {
                    true => kernels.get(&class.name),
                    false => transfers.get(class.name.as_str()),
                };
                of.filter(|sums| sums.left_out() > 0)?.total()
            })
        };
        devices.iter().map(times).collect()
    }

    /// Hardware counters per kernel; `None` where none were recorded.
    ///
    /// # Errors
    /// As for [`readings`](Self::readings).
    pub fn counters(&self) -> Result<Option<&Counters>, ReadingsError> {
        let readings = self.readings()?;
        let found = self.counters.get_or_init(|| {
            crate::counters::counters_of(
                self.files,
                &self.trace,
                || self.alignment(),
                || self.devices(),
                readings,
                self.grouping(),
                self.options.counter_device.as_deref(),
            )
        });
        Ok(found.as_ref())
    }

    /// The report without energy and counters.
    pub fn times(&self) -> Report {
        let by = self.grouping();
        let mut report =
            Report::new(self.files.names(), &self.trace, self.alignment(), self.stats(), by);
        report.display_names = self.display_names();
        report
    }

    /// The report.
    ///
    /// # Errors
    /// As for [`readings`](Self::readings).
    pub fn report(&self) -> Result<Report, ReadingsError> {
        let mut report = self.times();
        report.energy = Some(self.energy()?.clone());
        report.counters = self.counters()?.cloned();
        report.answer_anew(&self.trace, self.stats());
        Ok(report)
    }
}
