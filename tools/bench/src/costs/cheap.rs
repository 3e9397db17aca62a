//! Added time per cheap call, beside the floor of the same run: two readings of the clock, one
//! 32-byte store, one indirect call. Refills of the recorder's buffers are included: each figure is
//! the mean of a million calls. What the recorder's own threads do meanwhile is in the last column,
//! a mean over all kinds of calls of the processor time of the whole process.
#![forbid(unsafe_code)]

use crate::cost;
use crate::process::{Runner, Way};
use crate::table::{self, Sample};
use anyhow::Result;

const CALLS: [(&str, &str); 4] = [
    ("set_arg", "clSetKernelArg"),
    ("retain_release", "clRetain/ReleaseMemObject"),
    // What stands between two calls changes how threads meet at the runtime's own lock; here
    // something always does.
    ("spaced", "clRetain/ReleaseMemObject, a floor apart"),
    ("get_info", "clGetKernelInfo"),
];

/// Measures and prints.
pub fn run(args: &cost::Args) -> Result<()> {
    let program = args.places.fixture("cheap_calls")?;
    let ways: &[(Way, &str)] = if args.layer {
        &[(Way::Preload, "preload"), (Way::Layer, "layer")]
    } else {
        &[(Way::Preload, "preload")]
    };
    let mut rows = Vec::new();
    for threads in &args.threads {
        let arguments = [args.calls.to_string(), threads.to_string()];
        let mut added = vec![<[Sample; 4]>::default(); ways.len()];
        let mut times = added.clone();
        let (mut floor, mut bare_ns) = (Sample::default(), <[Sample; 4]>::default());
        let mut whole = vec![Sample::default(); ways.len()];
        // Each kind is called 10,000 times before it counts.
        let made = f64::from(*threads) * CALLS.len() as f64 * (args.calls + 10_000) as f64;
        for _ in 0..args.pairs {
            let bare = Runner::new(&args.places, Way::Bare).run(&program, &arguments)?;
            for (w, (way, _)) in ways.iter().enumerate() {
                let recorded = Runner::new(&args.places, *way).run(&program, &arguments)?;
                // The floor of both halves of the pair: whatever slows one process slows its floor.
                let here = (bare.figures["floor"][0] + recorded.figures["floor"][0]) / 2.0;
                floor.push(here);
                whole[w].push((recorded.cpu - bare.cpu) / made);
                for (c, (name, _)) in CALLS.iter().enumerate() {
                    let more = recorded.figures[*name][0] - bare.figures[*name][0];
                    added[w][c].push(more);
                    times[w][c].push(more / here);
                }
            }
            for (c, (name, _)) in CALLS.iter().enumerate() {
                bare_ns[c].push(bare.figures[*name][0]);
            }
        }
        for (w, (_, way)) in ways.iter().enumerate() {
            for (c, (_, function)) in CALLS.iter().enumerate() {
                rows.push(vec![
                    (*function).to_owned(),
                    (*way).to_owned(),
                    threads.to_string(),
                    table::digits(bare_ns[c].median()),
                    added[w][c].show(),
                    table::digits(floor.median()),
                    times[w][c].show(),
                    table::digits(whole[w].median()),
                ]);
            }
        }
    }
    let heads = [
        "call",
        "way",
        "threads",
        "bare ns",
        "added ns",
        "floor ns",
        "added / floor",
        "process: added ns",
    ];
    table::print(
        "Cheap calls: sustained mean, CPU time of the calling thread, median of pairs (quartiles)",
        &heads,
        &rows,
    );
    Ok(())
}
