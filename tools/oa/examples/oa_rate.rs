//! How many reports a second one core decodes: record parsing, wraps, totals and contexts of a
//! synthesised stream in every width, by CPU time, so that what else runs counts less. Prints a
//! line per format; refuses to judge.
//!
//! `cargo run --release -p clscope-oa --example oa_rate [PASSES]`: with PASSES as many passes
//! over 16 MiB, for callgrind.

use clscope_oa::device::StreamDevice;
use clscope_oa::emulator::{Emulator, Script};
use clscope_oa::sampling::{Driver, StreamFacts};
use clscope_oa::stream::Records;
use clscope_oa::testing::{Writer, record, switch_id, timer_id};
use clscope_oa::uapi::Call;
use clscope_oa::{
    Accumulator, CounterSource, CounterValue, Counts, Format, Generation, OaSampler, Published,
};
use clscope_sensors::RawNs;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;

/// A stream out of memory.
struct Memory(Mutex<(usize, Vec<u8>)>);

impl StreamDevice for Memory {
    fn call(&self, _: &mut Call) -> io::Result<i32> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn open_stream(&self, _: &mut Call) -> io::Result<Box<dyn StreamDevice>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let (at, bytes) = &mut *self.0.lock().map_err(|_| io::ErrorKind::Other)?;
        let rest = bytes.get(*at..).unwrap_or_default();
        let n = rest.len().min(buf.len());
        if n == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buf[..n].copy_from_slice(&rest[..n]);
        *at += n;
        Ok(n)
    }
}

/// Reports a second through the whole source: read, decoded, placed on the host's clock, handed
/// over as windows.
fn sampled(stream: &[u8], layout: &'static clscope_oa::Layout, passes: u64) -> f64 {
    let (mut windows, mut seconds, mut sum) = (0u64, 0.0, 0u64);
    for _ in 0..passes.max(1) {
        let script = Script {
            params: BTreeMap::from([(51, 12_000_000), (57, 12_000_000)]),
            tick_bits: 36,
            ..Script::default()
        };
        let facts = StreamFacts {
            name: "oa".to_owned(),
            driver: Driver::I915,
            layout,
            generation: Generation::Gen9,
            hz: 12_000_000,
            shift: 0,
            period_ns: 682_666,
            only_context: None,
        };
        let memory = Memory(Mutex::new((0, stream.to_vec())));
        let mut sampler =
            OaSampler::new(Box::new(Emulator::new(script)), Box::new(memory), facts, None);
        let mut now = 0;
        let mut clock = || {
            now += 1000;
            RawNs(now)
        };
        let start = cpu();
        let read = sampler.read(&mut clock, &mut |window| {
            windows += 1;
            sum += window
                .values
                .iter()
                .map(|v| if let CounterValue::Count(n) = v { *n & 1 } else { 0 })
                .sum::<u64>();
        });
        seconds += cpu() - start;
        if let Err(error) = read {
            eprintln!("{error}");
        }
    }
    std::hint::black_box(sum);
    windows as f64 / seconds
}

/// CPU time of this thread, seconds.
fn cpu() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a writable timespec; the id is a constant of the system's.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 + t.tv_nsec as f64 * 1e-9
}

fn main() {
    let wanted: Option<u64> = std::env::args().nth(1).and_then(|n| n.parse().ok());
    for format in [
        Format::C4B8,
        Format::A12B8C8,
        Format::A32u40A4u32B8C8,
        Format::A24u40A14u32B8C8,
        Format::Pec64u64,
    ] {
        let layout = format.layout(Published::Tables);
        let mut writer = Writer::new(layout);
        let mut stream = Vec::new();
        // As much as i915's buffer holds: 16 MiB.
        let reports = (16 << 20) / layout.bytes;
        for i in 0..reports {
            writer.advance(8192, 0x0123_4567);
            let id = if i % 50 == 0 { switch_id() } else { timer_id() };
            stream.extend(record(1, &writer.report(id | 1 << 16, (i / 50) as u32 % 3)));
        }
        let mut total = Counts::zero(layout);
        let (mut passes, mut of_context) = (0u64, 0u64);
        let start = cpu();
        while wanted.map_or(cpu() - start < 1.0, |n| passes < n) {
            let mut records = Records::new();
            let mut acc = Accumulator::new(layout, Generation::Gen9, Some(12_000_000));
            for chunk in stream.chunks(1 << 16) {
                let fed = records.feed(chunk, &mut |r| {
                    if let clscope_oa::stream::Record::Sample(report) = r
                        && let Some(interval) = acc.push(report)
                    {
                        total.add(interval.counts);
                        of_context += u64::from(interval.context == Some(1));
                    }
                });
                if let Err(error) = fed {
                    eprintln!("{error}");
                    return;
                }
            }
            passes += 1;
        }
        let seconds = cpu() - start;
        let rate = passes as f64 * reports as f64 / seconds;
        println!(
            "{:>22}: {:5.2} million reports/s, {:5.2} GB/s; as windows on the host's clock {:5.2} million/s ({} intervals in context 1, {} ticks)",
            layout.name,
            rate / 1e6,
            rate * (layout.bytes + 8) as f64 / 1e9,
            sampled(&stream, layout, passes.min(8)) / 1e6,
            of_context / passes,
            total.time_ticks() / passes
        );
    }
}
