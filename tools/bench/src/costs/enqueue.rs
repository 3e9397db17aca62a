//! Added time per launch, for each device-timing method: against the application as it is, and
//! against one that itself asks for an event and profiling of every launch, which is what the
//! runtime charges for the same knowledge.
#![forbid(unsafe_code)]

use crate::process::{Runner, Way};
use crate::table::{self, Sample};
use crate::{callgrind, cost};
use anyhow::Result;

/// Columns of the fixture's lines.
const ENQUEUE: usize = 0;
const TOTAL: usize = 1;
const ENQUEUE_CPU: usize = 2;

/// Measures and prints.
pub fn run(args: &cost::Args) -> Result<()> {
    let program = args.places.fixture("enqueue_bench")?;
    let variants = args.variants();
    let mut rows = Vec::new();
    for threads in &args.threads {
        let arguments = [
            args.launches.to_string(),
            "1000".into(),
            "bare".into(),
            "timed".into(),
            format!("threads={threads}"),
            format!("spin={}", args.spin),
        ];
        let new = <[Sample; 7]>::default;
        let mut methods = vec![new(); variants.len()];
        let mut baseline = new();
        for _ in 0..args.pairs {
            let bare = Runner::new(&args.places, Way::Bare).run(&program, &arguments)?.figures;
            for (column, value) in [
                bare["bare"][ENQUEUE],
                bare["bare"][TOTAL],
                bare["timed"][ENQUEUE],
                bare["timed"][TOTAL],
            ]
            .into_iter()
            .enumerate()
            {
                baseline[column].push(value);
            }
            for (variant, samples) in variants.iter().zip(&mut methods) {
                let with = variant.runner().run(&program, &arguments)?.figures;
                let figures = [
                    with["bare"][ENQUEUE] - bare["bare"][ENQUEUE],
                    with["bare"][ENQUEUE_CPU] - bare["bare"][ENQUEUE_CPU],
                    with["bare"][ENQUEUE] - bare["timed"][ENQUEUE],
                    with["bare"][ENQUEUE_CPU] - bare["timed"][ENQUEUE_CPU],
                    with["bare"][TOTAL] - bare["timed"][TOTAL],
                    with["timed"][ENQUEUE] - bare["timed"][ENQUEUE],
                    100.0 * (with["bare"][TOTAL] / bare["bare"][TOTAL] - 1.0),
                ];
                for (sample, figure) in samples.iter_mut().zip(figures) {
                    sample.push(figure);
                }
            }
        }
        println!(
            "\n{threads} thread(s), ns per launch without the recorder: {} (with the finish {}) bare, {} ({}) for an application that asks for events and profiling.",
            table::digits(baseline[0].median()),
            table::digits(baseline[1].median()),
            table::digits(baseline[2].median()),
            table::digits(baseline[3].median())
        );
        for (variant, samples) in variants.iter().zip(&methods) {
            let mut row = vec![variant.label.clone(), threads.to_string()];
            row.extend(samples.iter().map(Sample::show));
            rows.push(row);
        }
    }
    table::print(
        "Launches: added ns per clEnqueueNDRangeKernel, median of pairs (quartiles)",
        &[
            "method",
            "threads",
            "over bare",
            "the same, CPU",
            "over asking itself",
            "the same, CPU",
            "over asking itself, with finish",
            "application asks: added",
            "stream slower by %",
        ],
        &rows,
    );
    if args.callgrind {
        let [fewer, more] =
            [2_000u64, 12_000].map(|n| vec![n.to_string(), "1000".into(), "bare".into()]);
        let [bare, recorded] =
            callgrind::per_unit(&args.places, &program, &fewer, &more, 10_000.0)?;
        println!(
            "\nInstructions in user space per launch, finish and harvest included (callgrind, method event): {} bare, {} recorded.",
            table::digits(bare),
            table::digits(recorded)
        );
    }
    bytes(args)
}

/// How much slower a stream of launches becomes that the application itself asks nothing of, or
/// only events: one mode alone, so that the methods which adapt see this stream only.
pub fn stream(args: &cost::Args) -> Result<()> {
    let program = args.places.fixture("enqueue_bench")?;
    let variants = args.variants();
    let mode = if args.asks { "event" } else { "bare" };
    let mut rows = Vec::new();
    for threads in &args.threads {
        let launches = (args.launches * 4).to_string();
        let arguments = [
            launches,
            "1000".into(),
            mode.into(),
            format!("threads={threads}"),
            format!("spin={}", args.spin),
        ];
        let mut samples = vec![<[Sample; 4]>::default(); variants.len()];
        let mut bare_total = Sample::default();
        for _ in 0..args.pairs {
            let bare = Runner::new(&args.places, Way::Bare).run(&program, &arguments)?;
            bare_total.push(bare.figures[mode][TOTAL]);
            for (variant, samples) in variants.iter().zip(&mut samples) {
                let with = variant.runner().run(&program, &arguments)?;
                let added = |figure: usize| with.figures[mode][figure] - bare.figures[mode][figure];
                samples[0].push(added(ENQUEUE));
                samples[1].push(added(TOTAL));
                samples[2].push(100.0 * added(TOTAL) / bare.figures[mode][TOTAL]);
                samples[3].push(
                    with.trace_bytes as f64 / (4.0 * args.launches as f64 * f64::from(*threads)),
                );
            }
        }
        for (variant, samples) in variants.iter().zip(&samples) {
            let mut row = vec![
                variant.label.clone(),
                threads.to_string(),
                table::digits(bare_total.median()),
            ];
            row.extend(samples.iter().map(Sample::show));
            rows.push(row);
        }
    }
    let asks = if args.asks { ", whose application asks for an event of each" } else { "" };
    let title = format!(
        "A stream of launches of one kernel (spin={}){asks}, median of pairs (quartiles)",
        args.spin
    );
    let heads = [
        "method",
        "threads",
        "bare ns per launch",
        "enqueue: added ns",
        "launch with finish: added ns",
        "slower by %",
        "trace bytes per launch",
    ];
    table::print(&title, &heads, &rows);
    Ok(())
}

/// Bytes per record from the size of traces.
fn bytes(args: &cost::Args) -> Result<()> {
    let mut rows = Vec::new();
    let runner = Runner::new(&args.places, Way::Preload).method("event");
    let cheap = args.places.fixture("cheap_calls")?;
    let enqueue = args.places.fixture("enqueue_bench")?;
    let mut of = |what: &str,
                  program: &std::path::Path,
                  fewer: [&str; 3],
                  more: [&str; 3],
                  units: f64|
     -> Result<()> {
        let size = |arguments: [&str; 3]| {
            runner.run(program, &arguments.map(str::to_owned)).map(|o| o.trace_bytes as f64)
        };
        rows.push(vec![what.to_owned(), table::digits((size(more)? - size(fewer)?) / units)]);
        Ok(())
    };
    // The rings are as large in both runs; what is more lies in the segments.
    of(
        "plain host call",
        &cheap,
        ["500000", "1", "50000"],
        ["1500000", "1", "50000"],
        4_000_000.0,
    )?;
    of(
        "launch with its time stamps",
        &enqueue,
        ["20000", "1000", "bare"],
        ["120000", "1000", "bare"],
        100_000.0,
    )?;
    table::print("Bytes in the trace, frames included", &["record", "bytes"], &rows);
    Ok(())
}
