//! OA streams of i915 and xe as a source of counters. Owns the reading, the losses each driver
//! reports in its own way, and the placing of reports on the host's clock; refuses to open anything
//! by itself: it is given a stream, so that a helper with privilege may have opened it.
#![forbid(unsafe_code)]

use super::accumulate::{Accumulator, Interval};
use super::config::ConfigId;
use super::device::StreamDevice;
use super::error::OaError;
use super::format::Layout;
use super::i915::I915;
use super::report::Generation;
use super::source::{
    CounterHealth, CounterInfo, CounterSource, CounterValue, CounterWindow, TakeWindow,
};
use super::stream::{Bare, Record, Records};
use super::time::{ClockPair, Placement};
use super::xe::{self, Engine, Xe};
use clscope_sensors::error::SensorError;
use clscope_sensors::files::{Roots, System};
use clscope_sensors::source::Pace;
use clscope_sensors::units::{Clock, RawNs, Stamp};
use std::io;

/// Whose stream it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// i915: records.
    I915,
    /// xe: bare reports; its clock is read through this engine.
    Xe(Engine),
}

impl Driver {
    /// Host and GPU clock at this moment.
    pub(super) fn clock_pair(
        self,
        node: &dyn StreamDevice,
        shift: u32,
        clock: &mut dyn Clock,
    ) -> Result<ClockPair, OaError> {
        // Sysctls only matter for the words of refusals, and clocks need no privilege.
        let roots = Roots::default();
        match self {
            Driver::I915 => I915::new(node, &System, &roots).clock_pair_shifted(clock, shift),
            Driver::Xe(engine) => Xe::new(node, &System, &roots).clock_pair(engine, shift),
        }
    }
}

/// Everything that must be known of an open stream.
#[derive(Clone, Debug)]
pub struct StreamFacts {
    /// `oa:i915:card0` or the like.
    pub name: String,
    /// Whose it is.
    pub driver: Driver,
    /// Layout of its reports.
    pub layout: &'static Layout,
    /// Generation of the GPU.
    pub generation: Generation,
    /// Frequency of the OA timestamp, Hz.
    pub hz: u64,
    /// How far the engine's timestamp is shifted against it.
    pub shift: u32,
    /// Sampling period, nanoseconds.
    pub period_ns: u64,
}

/// The parser that fits the driver.
enum Cut {
    Records(Records),
    Bare(Bare),
}

/// An open OA stream.
pub struct OaSampler {
    facts: StreamFacts,
    stream: Box<dyn StreamDevice>,
    configuration: Configuration,
    cut: Cut,
    state: State,
    buffer: Vec<u8>,
    next_pair: RawNs,
}

/// The node of a GPU, with the configuration that was loaded through it, if one was: unloaded when
/// this is dropped.
pub struct Configuration {
    node: Box<dyn StreamDevice>,
    driver: Driver,
    added: Option<ConfigId>,
}

impl Drop for Configuration {
    fn drop(&mut self) {
        // A stream holds a reference of its own to the configuration: it may be unloaded first.
        let roots = Roots::default();
        if let Some(id) = self.added.take() {
            let _ = match self.driver {
                Driver::I915 => I915::new(&*self.node, &System, &roots).remove_config(id),
                Driver::Xe(_) => Xe::new(&*self.node, &System, &roots).remove_config(id),
            };
        }
    }
}

/// What a report changes.
struct State {
    accumulator: Accumulator,
    placement: Placement,
    counters: Vec<CounterInfo>,
    values: Vec<CounterValue>,
    last_end: Option<Stamp>,
    health: CounterHealth,
}

/// A pair of clocks this often keeps the drift of a crystal under a microsecond.
const PAIR_EVERY_NS: u64 = 1_000_000_000;
const BUFFER: usize = 1 << 18;

/// Bytes of the buffer of reports that a code of three bits asks for (Duarte 2018, table 3.2):
/// 128 KB, and twice as much for each code more.
pub const fn buffer_bytes(code: u8) -> u64 {
    (128 << 10) << (code & 0b111)
}

impl OaSampler {
    /// Over an open stream. `added` is unloaded when the sampler is dropped.
    pub fn new(
        node: Box<dyn StreamDevice>,
        stream: Box<dyn StreamDevice>,
        facts: StreamFacts,
        added: Option<ConfigId>,
    ) -> OaSampler {
        let layout = facts.layout;
        let clocks = [("GpuTime", "OA timestamp, ticks"), ("GpuCoreClocks", "GPU_TICKS")];
        let clocks = clocks.map(|(name, note)| (name.to_owned(), Some(note.to_owned())));
        let names = clocks.into_iter().chain(layout.counters().map(|c| (c.to_string(), None)));
        let counters: Vec<CounterInfo> =
            names.map(|(name, note)| CounterInfo { name, note }).collect();
        let cut = match facts.driver {
            Driver::I915 => Cut::Records(Records::new()),
            Driver::Xe(_) => Cut::Bare(Bare::new(layout.bytes)),
        };
        let state = State {
            accumulator: Accumulator::new(layout, facts.generation, Some(facts.hz)),
            placement: Placement::new(facts.hz),
            values: vec![CounterValue::Absent; counters.len()],
            counters,
            last_end: None,
            health: CounterHealth::default(),
        };
        let configuration = Configuration { node, driver: facts.driver, added };
        OaSampler {
            facts,
            stream,
            configuration,
            cut,
            state,
            buffer: vec![0; BUFFER],
            next_pair: RawNs(0),
        }
    }

    /// Closes the stream, so that another process may open one, and keeps the configuration loaded.
    pub fn into_configuration(self) -> Configuration {
        self.configuration
    }

    /// Host and GPU clock at this moment.
    ///
    /// # Errors
    /// The driver's.
    pub fn clock_pair(&self, clock: &mut dyn Clock) -> Result<ClockPair, OaError> {
        self.facts.driver.clock_pair(&*self.configuration.node, self.facts.shift, clock)
    }

    fn drain(&mut self, clock: &mut dyn Clock, out: TakeWindow<'_>) -> Result<(), OaError> {
        // A buffer of 16 MiB is 64 reads: more means that reports come faster than they are taken.
        for _ in 0..256 {
            let n = match self.stream.read(&mut self.buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) if e.raw_os_error() == Some(libc::EIO) => {
                    if self.facts.driver == Driver::I915 {
                        return Err(OaError::StreamDisabled);
                    }
                    let lost = xe::status(&*self.stream)?;
                    if lost.buffer_overflow {
                        self.state.accumulator.buffer_lost();
                        self.state.last_end = None;
                    } else {
                        self.state.accumulator.reports_lost();
                    }
                    if lost == xe::Status::default() {
                        // Nothing to clear: reading again would fail for ever.
                        return Err(OaError::StreamDisabled);
                    }
                    continue;
                }
                Err(source) => return Err(OaError::Io { what: "reading an OA stream", source }),
            };
            let seen = clock.raw();
            let bytes = self.buffer.get(..n).unwrap_or_default();
            let state = &mut self.state;
            match &mut self.cut {
                Cut::Records(records) => records.feed(bytes, &mut |record| match record {
                    Record::Sample(report) => state.take(report, seen, out),
                    Record::ReportsLost => state.accumulator.reports_lost(),
                    Record::BufferLost => {
                        state.accumulator.buffer_lost();
                        state.last_end = None;
                    }
                    _ => {}
                })?,
                Cut::Bare(bare) => bare.feed(bytes, &mut |report| state.take(report, seen, out)),
            }
        }
        Ok(())
    }
}

impl State {
    fn take(&mut self, report: &[u8], seen: RawNs, out: TakeWindow<'_>) {
        let bits = self.accumulator.layout().timestamp_bits();
        let Some(interval) = self.accumulator.push(report) else { return };
        let Interval { begin, end, counts, continuity, context, may_have_wrapped_twice, .. } =
            interval;
        let begin_stamp = self.last_end.or_else(|| self.placement.place(begin, bits, seen));
        // A new pair of clocks may move the line back by more than a short window is long: time
        // stands then.
        let not_before = |end: Stamp| begin_stamp.filter(|b| b.mid() > end.mid()).unwrap_or(end);
        let end_stamp = self.placement.place(end, bits, seen).map(not_before);
        self.last_end = end_stamp;
        self.health.maybe_wrapped_twice += u64::from(may_have_wrapped_twice);
        self.health.unplaced += u64::from(end_stamp.is_none());
        for (value, slot) in self.values.iter_mut().zip(counts.slots()) {
            *value = CounterValue::Count(*slot);
        }
        if counts.gpu_ticks().is_none() {
            self.values[super::format::TICKS_SLOT] = CounterValue::Absent;
        }
        self.health.windows += 1;
        out(&CounterWindow {
            begin: begin_stamp,
            end: end_stamp,
            device_ticks: Some((begin, end)),
            values: &self.values,
            counts: Some(counts),
            continuity,
            context,
        });
    }
}

impl CounterSource for OaSampler {
    fn name(&self) -> &str {
        &self.facts.name
    }

    fn counters(&self) -> &[CounterInfo] {
        &self.state.counters
    }

    fn pace(&self) -> Pace {
        // A quarter of what fills i915's buffer, the largest, and never so rarely that a 32-bit
        // counter wraps twice.
        let reports = buffer_bytes(0b111) / self.facts.layout.bytes.max(1) as u64;
        let slowest =
            (reports / 4).saturating_mul(self.facts.period_ns).clamp(1_000_000, 500_000_000);
        Pace { fastest_ns: slowest.min(20_000_000), slowest_ns: slowest, adaptive: false }
    }

    fn side_effect(&self) -> Option<&'static str> {
        Some("an open OA stream keeps the GPU awake: idle energy is higher than without")
    }

    fn read(&mut self, clock: &mut dyn Clock, out: TakeWindow<'_>) -> Result<(), SensorError> {
        let now = clock.raw();
        let mut first_error = None;
        if self.state.placement.is_empty() || now >= self.next_pair {
            match self.clock_pair(clock) {
                Ok(pair) => self.state.placement.add(pair),
                Err(error) => first_error = Some(error),
            }
            self.next_pair = now.plus(PAIR_EVERY_NS);
        }
        let drained = self.drain(clock, out);
        match drained.err().or(first_error) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn health(&self) -> CounterHealth {
        let tally = self.state.accumulator.tally();
        CounterHealth { lost: tally.reports_lost, gaps: tally.buffer_lost, ..self.state.health }
    }
}
