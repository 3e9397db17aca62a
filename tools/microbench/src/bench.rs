//! Runs jobs on a device: builds, checks, calibrates, times, repeats. Owns the device session and
//! the order of these steps; refuses to give a time for a kernel whose result is wrong.

mod prepare;

use crate::cl::{Argument, Buffer, ClError, DeviceFacts, Image, Kernel, Program, Session};
use crate::job::{Arg, Geometry, Job, Need, Outcome, Trips};
use crate::power::Window;
use crate::results::Timing;
pub use crate::settings::Settings;
use crate::source::{BinaryCache, Source};
use crate::stats;
use clscope_capture::compiler;
use clscope_clock::monotonic_raw;
use clscope_mix::{Block, Mix, ptx, spirv};
use prepare::group_that_divides;
use std::collections::HashMap;
use std::rc::Rc;

/// Why a case has no figures.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// The device lacks something, or its compiler refused.
    #[error("{reason}")]
    NotAvailable {
        /// What.
        reason: String,
        /// The compiler's words.
        log: Option<String>,
    },
    /// The device computed something else than the host.
    #[error("wrong result: {0}")]
    Wrong(String),
    /// OpenCL failed.
    #[error(transparent)]
    Cl(ClError),
    /// The user ended the run.
    #[error("the run was ended")]
    Interrupted,
}

impl CaseError {
    /// The device lacks something: what.
    pub fn lacks(reason: impl Into<String>) -> CaseError {
        CaseError::NotAvailable { reason: reason.into(), log: None }
    }
}

impl From<ClError> for CaseError {
    fn from(error: ClError) -> CaseError {
        if error.is_lack_of_resources() {
            return CaseError::lacks(error.to_string());
        }
        match error {
            ClError::Build { ref log, .. } => {
                CaseError::NotAvailable { reason: error.to_string(), log: Some(log.clone()) }
            }
            error => CaseError::Cl(error),
        }
    }
}

/// What a job gave.
pub struct Measured {
    /// Geometry and times.
    pub timing: Timing,
    /// What was launched.
    pub geometry: Geometry,
    /// When it ran, for clocks and throttling.
    pub span: Window,
    /// A window of steady running, if power was wanted.
    pub window: Option<Window>,
    /// Observations for the reader.
    pub notes: Vec<String>,
}

/// What the note of a case begins with whose times never agreed.
pub const DISTURBED: &str = "disturbed";
/// Series of launches that are timed until two agree.
const SERIES: usize = 5;
/// Share by which two times may differ and agree.
const AGREE: f64 = 0.03;

fn disturbed() -> String {
    format!(
        "{DISTURBED}: no two of {SERIES} series of launches agreed within {:.0} %: measure again on a machine that does nothing else",
        AGREE * 100.0
    )
}

/// The place of the fastest time that another one agrees with.
fn agreement(medians: &[f64]) -> Option<usize> {
    let agrees = |at: usize, value: f64| {
        let others = medians.iter().enumerate().filter(|(other, _)| *other != at);
        others.into_iter().any(|(_, other)| (other / value - 1.0).abs() <= AGREE)
    };
    let agreed = medians.iter().enumerate().filter(|(at, value)| agrees(*at, **value));
    agreed.min_by(|a, b| a.1.total_cmp(b.1)).map(|(at, _)| at)
}

/// What a launch executed, and on what.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Instructions by class.
    pub mix: Mix,
    /// Blocks of the code, with how often warps entered each; empty where warps are not counted.
    pub blocks: Vec<(Block, f64)>,
    /// Bytes of all its buffers.
    pub buffer_bytes: u64,
}

/// A device being measured.
pub struct Bench<'a> {
    /// The session.
    pub session: Session,
    /// The options.
    pub settings: Settings,
    /// Whether power is watched at all: false where no sensor could see the device.
    pub metered: bool,
    /// What one launch of the last measured kernel executed, if that was asked for and is known.
    pub counted: Option<Counted>,
    /// The rate of the clock inside kernels, by what they were built with, once it is known.
    pub clock_rate: Option<(Vec<String>, stats::Interval)>,
    stop: &'a dyn Fn() -> bool,
    cache: Option<BinaryCache>,
    programs: HashMap<(Source, String), Rc<Program>>,
    /// What [`Arg::Image`] is, once a job had it.
    image: Option<Image>,
    pool: Vec<Option<Rc<Buffer>>>,
}

/// A launch is never calibrated to more turns than this.
const MOST_TRIPS: u64 = 1 << 28;

impl<'a> Bench<'a> {
    /// A bench on `session`; `stop` is asked between launches.
    pub fn new(session: Session, settings: Settings, stop: &'a dyn Fn() -> bool) -> Bench<'a> {
        let cache = settings.cache.as_deref().map(BinaryCache::new);
        Bench {
            session,
            settings,
            metered: true,
            counted: None,
            clock_rate: None,
            stop,
            cache,
            programs: HashMap::new(),
            image: None,
            pool: Vec::new(),
        }
    }

    /// The device.
    pub fn facts(&self) -> &DeviceFacts {
        self.session.facts()
    }

    /// Whether the user wants to stop.
    ///
    /// # Errors
    /// [`CaseError::Interrupted`] if so.
    pub fn check_stop(&self) -> Result<(), CaseError> {
        if (self.stop)() { Err(CaseError::Interrupted) } else { Ok(()) }
    }

    /// Runs `job`; `power` asks for a window of steady running too.
    ///
    /// # Errors
    /// Why there is no figure.
    pub fn measure(&mut self, job: &Job, power: bool) -> Result<Measured, CaseError> {
        self.check_stop()?;
        if let Some(reason) = job.needs.iter().find_map(|need: &Need| need.missing(self.facts())) {
            return Err(CaseError::lacks(reason));
        }
        let (kernel, largest) = self.kernel_for(job.source, job.entry, &job.defines, job.group)?;
        let mut group = job.group;
        if group > largest {
            if !job.may_shrink {
                let reason = format!(
                    "groups of {group} are needed, this kernel takes {largest} on the device"
                );
                return Err(CaseError::lacks(reason));
            }
            group = largest;
        }
        let buffers = self.buffers(&job.buffers)?;
        if job.args.iter().any(|arg| matches!(arg, Arg::Image)) {
            self.make_image()?;
        }
        let at = |trips| Geometry { groups: job.groups, group, trips };

        // The checked launch: short, with the arguments that reveal most errors.
        self.fill(&job.fills, &buffers)?;
        self.set(&kernel, &job.args, &buffers, job.check_trips)?;
        for (index, bytes) in &job.check_args {
            kernel.set(*index, &Argument::Bytes(bytes))?;
        }
        let first = self.once(&kernel, at(job.check_trips))?;
        self.verify(job, &buffers, at(job.check_trips))?;

        let trips = match (job.trips, self.settings.iterations) {
            (Trips::Lasting(_) | Trips::Walking { .. }, Some(trips)) => trips,
            (Trips::Fixed(_), Some(_)) => {
                return Err(CaseError::lacks(
                    "its turns are what it moves, and --iterations cannot set them",
                ));
            }
            (Trips::Fixed(trips), None) => trips,
            (Trips::Lasting(ns), None) => {
                self.calibrate(job, &kernel, &buffers, at(job.check_trips), first, ns)?
            }
            (Trips::Walking { ns, least }, None) => {
                let trips =
                    self.calibrate(job, &kernel, &buffers, at(job.check_trips), first, ns)?;
                trips.max(least.min(trips.saturating_mul(Trips::LONGER)))
            }
        };
        let geometry = at(trips);
        if !job.check_args.is_empty() || !job.fills.is_empty() {
            self.fill(&job.fills, &buffers)?;
        }
        self.set(&kernel, &job.args, &buffers, trips)?;
        let from = Window::opens();
        let (samples, warm_up, agreed) = self.agreeing(&kernel, geometry)?;
        let span = from.closes(samples.len());
        let time_ns = stats::summarise(&samples).ok_or(CaseError::Interrupted)?;
        let is_watched = self.metered && (power || self.settings.power || self.settings.counters);
        let window =
            is_watched.then(|| self.steady(&kernel, geometry, time_ns.median)).transpose()?;
        if self.settings.mix {
            let buffer_bytes = job.buffers.iter().map(|b| *b as u64).sum();
            self.counted = self
                .count(job, largest, &buffers, geometry)
                .map(|(mix, blocks)| Counted { mix, blocks, buffer_bytes });
        }
        let timing = Timing {
            groups: geometry.groups,
            group_size: geometry.group,
            trips,
            time_ns,
            warm_up,
            private_bytes: kernel.private_bytes(),
            verified: "a short launch",
        };
        let notes = if agreed { Vec::new() } else { vec![disturbed()] };
        Ok(Measured { timing, geometry, span, window, notes })
    }

    /// Times launches again until two times agree, where that is asked for: the faster of them, and
    /// whether they did. Else the fastest of all.
    fn agreeing(
        &self,
        kernel: &Kernel,
        geometry: Geometry,
    ) -> Result<(Vec<f64>, usize, bool), CaseError> {
        let first = self.repeat(kernel, geometry)?;
        if !self.settings.agree {
            return Ok((first.0, first.1, true));
        }
        let mut all = vec![first];
        while all.len() < SERIES {
            all.push(self.repeat(kernel, geometry)?);
            let medians: Vec<f64> =
                all.iter().filter_map(|(samples, _)| stats::median(samples)).collect();
            if let Some(at) = agreement(&medians) {
                let (samples, warm_up) = all.swap_remove(at);
                return Ok((samples, warm_up, true));
            }
        }
        let median = |of: &(Vec<f64>, usize)| stats::median(&of.0).unwrap_or(f64::INFINITY);
        let fastest = all.into_iter().min_by(|a, b| median(a).total_cmp(&median(b)));
        fastest.map(|(samples, warm_up)| (samples, warm_up, false)).ok_or(CaseError::Interrupted)
    }

    /// Runs the job once more with a counter for each basic block. `None` where the program cannot
    /// be had in a language that is counted, the runtime takes no changed one back, or the counts do
    /// not fit the launch.
    fn count(
        &mut self,
        job: &Job,
        largest: usize,
        buffers: &[Rc<Buffer>],
        geometry: Geometry,
    ) -> Option<(Mix, Vec<(Block, f64)>)> {
        // As the kernel was built: for just this size where it takes only smaller ones otherwise.
        let plain = self.kernel(job.source, job.entry, &job.defines).ok()?.largest_group();
        let mut defines = job.defines.clone();
        if geometry.group > plain && geometry.group <= largest {
            defines.push(format!("-DGROUP={}", geometry.group));
        }
        let (counted, program) = self.counting(job.source, job.entry, &defines)?;
        self.fill(&job.fills, buffers).ok()?;
        let kernel = self.session.kernel(&program, job.entry).ok()?;
        self.set(&kernel, &job.args, buffers, geometry.trips).ok()?;
        let words = counted.words();
        let counters = self.session.buffer(8 * words, false).ok()?;
        if counted.dump.is_none() {
            self.session.fill(&counters, &[0; 8], 8 * words).ok()?;
            let last = kernel.argument_count().ok()?.checked_sub(1)?;
            kernel.set(last, &Argument::Buffer(&counters)).ok()?;
        }
        self.once(&kernel, geometry).ok()?;
        if let Some(dump) = counted.dump.as_deref() {
            let dump = self.session.kernel(&program, dump).ok()?;
            dump.set(0, &Argument::Buffer(&counters)).ok()?;
            let group = group_that_divides(words, dump.largest_group().min(256));
            self.session.launch(&dump, words, group).ok()?;
        }
        self.session.finish().ok()?;
        let mut bytes = vec![0; 8 * words];
        self.session.read(&counters, 0, &mut bytes).ok()?;
        let read: Vec<u64> = bytes
            .chunks_exact(8)
            .filter_map(|c| Some(u64::from_ne_bytes(c.try_into().ok()?)))
            .collect();
        let counts = counted.read(&read).ok()?;
        let entered = counted.program.entered(job.entry, &counts)?;
        if entered != geometry.items() as u64 {
            return None;
        }
        let warps = counts.warps.iter().flatten().map(|n| *n as f64);
        let blocks = counted.program.blocks.iter().cloned().zip(warps);
        let entered = blocks.filter(|(_, times)| *times > 0.0).collect();
        Some((counted.program.mix(&counts), entered))
    }

    /// A copy of a program that counts its blocks: of the PTX that the runtime hands out, else of
    /// the SPIR-V that the system's compilers make of the source.
    fn counting(
        &self,
        source: Source,
        entry: &str,
        defines: &[String],
    ) -> Option<(clscope_mix::Counted, Program)> {
        const NAME: &str = "a program that counts";
        let key = (source, defines.join(" "));
        if let Some(binary) = self.programs.get(&key)?.binary().filter(|b| ptx::is_ptx(b)) {
            let counted = ptx::counted(&binary, true, Some(entry)).ok()?;
            let program = self.session.load(NAME, &counted.code, "").ok()?;
            return Some((counted, program));
        }
        // Joules want it; without a sensor it only takes time.
        let path = self.settings.compilers.as_deref().filter(|_| self.metered)?;
        let module = compiler::translate(source.text().as_bytes(), &key.1, path).ok()?;
        let counted = spirv::counted(&module).ok()?;
        let program = self.session.build_il(NAME, &counted.code, "").ok()?;
        Some((counted, program))
    }

    /// Launches a kernel so many times without a pause and waits for all; nanoseconds of the host's
    /// clock for each.
    ///
    /// # Errors
    /// As for [`Bench::measure`].
    #[allow(clippy::too_many_arguments)] // a launch has that many
    pub fn in_a_row(
        &mut self,
        source: Source,
        entry: &str,
        defines: &[String],
        args: &[Arg],
        buffers: &[Rc<Buffer>],
        geometry: Geometry,
        times: usize,
    ) -> Result<f64, CaseError> {
        let (kernel, _) = self.kernel_for(source, entry, defines, geometry.group)?;
        self.set(&kernel, args, buffers, geometry.trips)?;
        self.session.finish()?;
        let begun = monotonic_raw().0;
        for _ in 0..times {
            self.session.launch_untimed(&kernel, geometry.items(), geometry.group)?;
        }
        self.session.finish()?;
        Ok((monotonic_raw().0 - begun) as f64 / times.max(1) as f64)
    }

    fn once(&self, kernel: &Kernel, geometry: Geometry) -> Result<f64, CaseError> {
        self.check_stop()?;
        let event = self.session.launch(kernel, geometry.items(), geometry.group)?;
        self.session.finish()?;
        Ok(event.nanoseconds()? as f64)
    }

    fn verify(
        &self,
        job: &Job,
        buffers: &[Rc<Buffer>],
        geometry: Geometry,
    ) -> Result<(), CaseError> {
        let wrong = (job.check)(&Outcome { session: &self.session, buffers, geometry })?;
        wrong.map_or(Ok(()), |what| Err(CaseError::Wrong(what)))
    }

    fn calibrate(
        &self,
        job: &Job,
        kernel: &Kernel,
        buffers: &[Rc<Buffer>],
        start: Geometry,
        first: f64,
        target_ns: u64,
    ) -> Result<u32, CaseError> {
        let target = target_ns as f64;
        let (mut trips, mut time) = (u64::from(start.trips.max(1)), first);
        // A tenth of the target is long enough to extrapolate from: what a launch costs beside its
        // loop is small by then.
        while time < target / 10.0 && trips < MOST_TRIPS {
            let grow = (target / 5.0 / time.max(1.0)).clamp(2.0, 64.0);
            trips = ((trips as f64 * grow) as u64).min(MOST_TRIPS);
            self.set(kernel, &job.args, buffers, trips as u32)?;
            time = self.once(kernel, Geometry { trips: trips as u32, ..start })?;
        }
        Ok((trips as f64 * target / time.max(1.0)).clamp(1.0, MOST_TRIPS as f64) as u32)
    }

    /// Times launches: as many as asked for behind the warm-up.
    fn repeat(&self, kernel: &Kernel, geometry: Geometry) -> Result<(Vec<f64>, usize), CaseError> {
        let first = self.settings.warm_up.unwrap_or(2);
        let wanted = self.settings.repeat();
        let mut samples = Vec::with_capacity(wanted.saturating_add(first).min(1 << 16));
        let begun = monotonic_raw().0;
        for n in 0..wanted.saturating_add(first) {
            samples.push(self.once(kernel, geometry)?);
            // A case that is slow for reasons of its own must not hold up the rest: three samples,
            // or 5 seconds.
            if n >= first.saturating_add(3) && monotonic_raw().0 - begun > 5_000_000_000 {
                break;
            }
        }
        let seen = if self.settings.warm_up.is_some() { 0 } else { stats::warm_up(&samples) };
        let warm_up = seen.max(first.min(samples.len().saturating_sub(1)));
        samples.drain(..warm_up);
        Ok((samples, warm_up))
    }

    /// Keeps the device busy with this launch for as long as power is watched.
    fn steady(
        &self,
        kernel: &Kernel,
        geometry: Geometry,
        launch_ns: f64,
    ) -> Result<Window, CaseError> {
        let goal = self.settings.window_ns();
        let begun = monotonic_raw().0;
        let batch = (50e6 / launch_ns.max(1000.0)).clamp(1.0, 1000.0) as usize;
        // The launches that are counted are those whose power is: from when it has settled on.
        let (mut window, mut launches) = (None, 0);
        while monotonic_raw().0 - begun < goal || window.is_none() {
            self.check_stop()?;
            if window.is_none() && monotonic_raw().0 - begun >= Window::settles_after(goal) {
                (window, launches) = (Some(Window::settled()), 0);
            }
            for _ in 0..batch {
                self.session.launch(kernel, geometry.items(), geometry.group)?;
            }
            // A batch lasts some 50 ms, so the gap until the next one is a matter of parts in a
            // thousand.
            self.session.finish()?;
            launches += batch;
        }
        let from = window.unwrap_or_else(Window::opens);
        Ok(from.closes(launches))
    }

    /// Waits with nothing running, as the floor that dynamic energy stands on.
    ///
    /// # Errors
    /// [`CaseError::Interrupted`].
    pub fn floor(&self) -> Result<Window, CaseError> {
        let from = Window::opens();
        let until = monotonic_raw().0 + if self.metered { self.settings.window_ns() } else { 0 };
        while monotonic_raw().0 < until {
            self.check_stop()?;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(from.closes(0))
    }

    /// Launches once with explicit arguments, for probes; the buffers are the caller's.
    ///
    /// # Errors
    /// As for [`Bench::measure`].
    pub fn probe(
        &mut self,
        source: Source,
        entry: &str,
        defines: &[String],
        args: &[Arg],
        buffers: &[Rc<Buffer>],
        geometry: Geometry,
    ) -> Result<f64, CaseError> {
        let (kernel, _) = self.kernel_for(source, entry, defines, geometry.group)?;
        self.set(&kernel, args, buffers, geometry.trips)?;
        self.once(&kernel, geometry)
    }
}

#[cfg(test)]
mod tests;
