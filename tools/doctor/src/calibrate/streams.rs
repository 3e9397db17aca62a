//! Runs the streams of launches from which span bias and the cost of timing are computed, on every
//! device of the system's OpenCL loader. Runs in a child, since it loads drivers.
//! Refuses to conclude anything: see [`super::spans`].
#![forbid(unsafe_code)]

use super::looped::{self, Looped, MOST_TURNS, MeasureError, Measurements};
use clscope_opencl::{ClError, Device, Event};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// The question that a child answers with [`DeviceStreams`] of each device.
pub const QUESTION: &str = "spans";

/// Lengths of the kernels, nanoseconds: above what any launch costs, so that the device and not the
/// host sets the pace.
const LENGTHS_NS: [f64; 4] = [25e3, 50e3, 100e3, 200e3];
/// Rounds of each length.
const ROUNDS: usize = 15;
/// Device time of the shorter stream of a round.
const STREAM_NS: f64 = 5e6;
/// Launches of a stream: at least, and at most (runtimes hold about a thousand).
const LEAST: usize = 32;
const MOST: usize = 400;
/// Launches between flushes: often enough that the device never waits for one.
const BATCH: usize = 8;
/// Launches in a stream of empty kernels.
const EMPTY: usize = 256;
/// Clocks rise for this long before anything is measured.
const WARM_UP: Duration = Duration::from_millis(300);

/// A loop that no compiler shortens, of a length that is an argument.
const SOURCE: &str = "kernel void clscope_span(global uint *out, uint turns) {
    uint x = (uint)get_global_id(0) + 1u;
    for (uint i = 0; i < turns; ++i) { x ^= x << 13; x ^= x >> 17; x ^= x << 5; }
    if (x == 0u) out[0] = x;
}";

/// What was measured on a device.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DeviceStreams {
    /// CL_DEVICE_NAME.
    pub name: String,
    /// CL_DRIVER_VERSION.
    pub driver: String,
    /// One per kernel length.
    pub lengths: Vec<Length>,
    /// Rounds of empty kernels.
    pub costs: Vec<Costs>,
}

/// Rounds of one kernel length.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Length {
    /// Length that was wanted, nanoseconds.
    pub wanted_ns: f64,
    /// Each round: mean reported span in the fully timed stream, and the spacing of completions in
    /// the untimed one.
    pub rounds: Vec<(f64, f64)>,
    /// Part of the untimed stream's time that enqueueing took: at 1 the host sets the pace.
    pub enqueueing: f64,
}

/// Nanoseconds per launch of one round of empty kernels.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Costs {
    /// The enqueue call without an event.
    pub launch_ns: f64,
    /// The enqueue call with an event on a profiling queue.
    pub timed_launch_ns: f64,
    /// Reading the four stamps and releasing the event, afterwards.
    pub harvest_ns: f64,
    /// A whole stream, its wait included: without events, and with.
    pub stream_ns: f64,
    /// With events.
    pub timed_stream_ns: f64,
}

/// Measures every device.
pub fn measure() -> Measurements<DeviceStreams> {
    looped::measure_each(|_| true, measure_device)
}

struct Bench(Looped);

impl Bench {
    fn stream<T>(
        &self,
        n: usize,
        mut launch: impl FnMut() -> Result<T, ClError>,
    ) -> Result<(Vec<T>, f64, f64), ClError> {
        let mut made = Vec::with_capacity(n);
        let begin = Instant::now();
        for i in 0..n {
            made.push(launch()?);
            if i % BATCH == 0 {
                self.0.session.flush()?;
            }
        }
        let enqueued = begin.elapsed().as_nanos() as f64;
        self.0.session.finish()?;
        Ok((made, enqueued, begin.elapsed().as_nanos() as f64))
    }

    /// Nanoseconds of enqueueing, and until all is done.
    fn untimed(&self, n: usize) -> Result<(f64, f64), ClError> {
        let of = &self.0;
        let (_, enqueued, done) =
            self.stream(n, || of.session.launch_untimed(&of.kernel, of.group, of.group))?;
        Ok((enqueued, done))
    }

    fn timed(&self, n: usize) -> Result<(Vec<Event>, f64, f64), ClError> {
        let of = &self.0;
        self.stream(n, || of.session.launch(&of.kernel, of.group, of.group))
    }

    /// Mean span of a fully timed stream; the first launches fill the pipeline and do not count.
    fn span(&self, n: usize) -> Result<f64, ClError> {
        let (events, ..) = self.timed(n + BATCH)?;
        let spans =
            events.iter().skip(BATCH).map(Event::nanoseconds).collect::<Result<Vec<u64>, _>>()?;
        Ok(spans.iter().map(|ns| *ns as f64).sum::<f64>() / spans.len().max(1) as f64)
    }

    /// Turns of the loop per nanosecond.
    fn pace(&self) -> Result<f64, MeasureError> {
        let mut turns = 1_000u32;
        loop {
            self.0.turns(turns)?;
            let ns = self.span(LEAST)?;
            if ns > 100e3 {
                return Ok(f64::from(turns) / ns);
            }
            if turns > MOST_TURNS {
                return Err(MeasureError::NoLoop { turns, seconds: ns * 1e-9 });
            }
            turns *= 4;
        }
    }
}

fn measure_device(device: &Device) -> Result<DeviceStreams, MeasureError> {
    let bench = Bench(Looped::new(device, "clscope_span", SOURCE, 32)?);
    bench.0.turns(1_000)?;
    let warm = Instant::now();
    while warm.elapsed() < WARM_UP {
        bench.span(LEAST)?;
    }
    let pace = bench.pace()?;
    let mut out = DeviceStreams {
        name: device.facts.name.clone(),
        driver: device.facts.driver.clone(),
        lengths: LENGTHS_NS.map(|wanted_ns| Length { wanted_ns, ..Default::default() }).to_vec(),
        costs: Vec::new(),
    };
    // The lengths take turns, so that a change of the clock's rate affects all of them.
    for _ in 0..ROUNDS {
        for length in &mut out.lengths {
            bench.0.turns((length.wanted_ns * pace) as u32)?;
            let n = ((STREAM_NS / length.wanted_ns) as usize).clamp(LEAST, MOST / 2);
            let (_, once) = bench.untimed(n)?;
            let (enqueued, twice) = bench.untimed(2 * n)?;
            let span = bench.span(n)?;
            length.rounds.push((span, (twice - once) / n as f64));
            length.enqueueing = length.enqueueing.max(enqueued / twice.max(1.0));
        }
    }
    bench.0.turns(0)?;
    for _ in 0..ROUNDS {
        let (plain, done) = bench.untimed(EMPTY)?;
        let (events, with_events, all_done) = bench.timed(EMPTY)?;
        let begin = Instant::now();
        for event in events {
            event.stamps()?;
        }
        let each = |ns: f64| ns / EMPTY as f64;
        out.costs.push(Costs {
            launch_ns: each(plain),
            timed_launch_ns: each(with_events),
            harvest_ns: each(begin.elapsed().as_nanos() as f64),
            stream_ns: each(done),
            timed_stream_ns: each(all_done),
        });
    }
    Ok(out)
}
