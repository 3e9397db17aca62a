//! How many reports a second one core decodes: record parsing, wraps, totals and contexts of a synthesised
//! stream in every width. Prints a line per format; refuses to judge.
//!
//! `cargo run --release -p clscope-sensors --example oa_rate`

use clscope_sensors::oa::stream::Records;
use clscope_sensors::oa::testing::{Writer, record, switch_id, timer_id};
use clscope_sensors::oa::{Accumulator, Counts, Format, Generation, Reading};
use std::time::Instant;

fn main() {
    for format in [Format::C4B8, Format::A12B8C8, Format::A32u40A4u32B8C8, Format::A24u40A14u32B8C8, Format::Pec64u64] {
        let layout = format.layout(Reading::Tables);
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
        let start = Instant::now();
        while start.elapsed().as_millis() < 1000 {
            let mut records = Records::new();
            let mut acc = Accumulator::new(layout, Generation::Gen9, Some(12_000_000));
            for chunk in stream.chunks(1 << 16) {
                let fed = records.feed(chunk, &mut |r| {
                    if let clscope_sensors::oa::stream::Record::Sample(report) = r
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
        let seconds = start.elapsed().as_secs_f64();
        let rate = passes as f64 * reports as f64 / seconds;
        println!(
            "{:>22}: {:5.2} million reports/s, {:5.2} GB/s ({} intervals in context 1, {} ticks)",
            layout.name,
            rate / 1e6,
            rate * (layout.bytes + 8) as f64 / 1e9,
            of_context / passes,
            total.time_ticks() / passes
        );
    }
}
