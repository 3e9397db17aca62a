//! Added time per launch, for each device-timing method: against the application as it is, and
//! against one that itself asks for an event and profiling of every launch, which is what the
//! runtime charges for the same knowledge.
#![forbid(unsafe_code)]

use crate::cost;
use crate::process::{Runner, Way};
use crate::table::{self, Sample};
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
        let mut baseline = <[Sample; 4]>::default();
        for _ in 0..args.pairs {
            let bare = Runner::new(&args.places, Way::Bare).run(&program, &arguments)?.figures;
            let (plain, timed) = (&bare["bare"], &bare["timed"]);
            let figures = [plain[ENQUEUE], plain[TOTAL], timed[ENQUEUE], timed[TOTAL]];
            table::push_all(&mut baseline, figures);
            for ((_, runner), samples) in variants.iter().zip(&mut methods) {
                let with = runner.run(&program, &arguments)?.figures;
                let of = &with["bare"];
                let figures = [
                    of[ENQUEUE] - plain[ENQUEUE],
                    of[ENQUEUE_CPU] - plain[ENQUEUE_CPU],
                    of[ENQUEUE] - timed[ENQUEUE],
                    of[ENQUEUE_CPU] - timed[ENQUEUE_CPU],
                    of[TOTAL] - timed[TOTAL],
                    with["timed"][ENQUEUE] - timed[ENQUEUE],
                    100.0 * (of[TOTAL] / plain[TOTAL] - 1.0),
                ];
                table::push_all(samples, figures);
            }
        }
        println!(
            "\n{threads} thread(s), ns per launch without the recorder: {} (with the finish {}) bare, {} ({}) for an application that asks for events and profiling.",
            table::digits(baseline[0].median()),
            table::digits(baseline[1].median()),
            table::digits(baseline[2].median()),
            table::digits(baseline[3].median())
        );
        for ((label, _), samples) in variants.iter().zip(&methods) {
            let mut row = vec![label.clone(), threads.to_string()];
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
    bytes(args)
}

/// How much slower a stream of launches becomes that the application itself asks nothing of: one
/// mode alone, so that the methods which adapt see this stream only.
pub fn stream(args: &cost::Args) -> Result<()> {
    let program = args.places.fixture("enqueue_bench")?;
    let variants = args.variants();
    let mut rows = Vec::new();
    for threads in &args.threads {
        let launches = (args.launches * 4).to_string();
        let arguments = [
            launches,
            "1000".into(),
            "bare".into(),
            format!("threads={threads}"),
            format!("spin={}", args.spin),
        ];
        let mut samples = vec![<[Sample; 4]>::default(); variants.len()];
        let mut bare_total = Sample::default();
        for _ in 0..args.pairs {
            let bare = Runner::new(&args.places, Way::Bare).run(&program, &arguments)?;
            bare_total.push(bare.figures["bare"][TOTAL]);
            for ((_, runner), samples) in variants.iter().zip(&mut samples) {
                let with = runner.run(&program, &arguments)?;
                let added =
                    |figure: usize| with.figures["bare"][figure] - bare.figures["bare"][figure];
                let launches = 4.0 * args.launches as f64 * f64::from(*threads);
                let figures = [
                    added(ENQUEUE),
                    added(TOTAL),
                    100.0 * added(TOTAL) / bare.figures["bare"][TOTAL],
                    with.trace_bytes as f64 / launches,
                ];
                table::push_all(samples, figures);
            }
        }
        for ((label, _), samples) in variants.iter().zip(&samples) {
            let mut row =
                vec![label.clone(), threads.to_string(), table::digits(bare_total.median())];
            row.extend(samples.iter().map(Sample::show));
            rows.push(row);
        }
    }
    let title = format!(
        "A stream of launches of one kernel (spin={}), median of pairs (quartiles)",
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
    // The rings are as large in both runs; what is more lies in the segments.
    for (what, program, words, runs, units) in [
        ("plain host call", "cheap_calls", ["1", "50000"], [500_000, 1_500_000], 4_000_000.0),
        (
            "launch with its time stamps",
            "enqueue_bench",
            ["1000", "bare"],
            [20_000, 120_000],
            100_000.0,
        ),
    ] {
        let program = args.places.fixture(program)?;
        let [a, b] = words.map(str::to_owned);
        let size = |n: u32| {
            let arguments = [n.to_string(), a.clone(), b.clone()];
            Ok::<_, anyhow::Error>(runner.run(&program, &arguments)?.trace_bytes as f64)
        };
        let each = (size(runs[1])? - size(runs[0])?) / units;
        rows.push(vec![what.to_owned(), table::digits(each)]);
    }
    table::print("Bytes in the trace, frames included", &["record", "bytes"], &rows);
    Ok(())
}
