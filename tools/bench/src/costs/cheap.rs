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
    let mut rows = Vec::new();
    for threads in &args.threads {
        let arguments = [args.calls.to_string(), threads.to_string()];
        let new = <[Sample; 4]>::default;
        let (mut bare_ns, mut added, mut times) = (new(), new(), new());
        let (mut floor, mut whole) = (Sample::default(), Sample::default());
        // Each kind is called 10,000 times before it counts.
        let made = f64::from(*threads) * CALLS.len() as f64 * (args.calls + 10_000) as f64;
        for _ in 0..args.pairs {
            let run = |way| Runner::new(&args.places, way).run(&program, &arguments);
            let (bare, recorded) = (run(Way::Bare)?, run(Way::Preload)?);
            // The floor of both halves of the pair: whatever slows one process slows its floor.
            let here = (bare.figures["floor"][0] + recorded.figures["floor"][0]) / 2.0;
            floor.push(here);
            whole.push((recorded.cpu - bare.cpu) / made);
            let without = CALLS.map(|(name, _)| bare.figures[name][0]);
            let with = CALLS.map(|(name, _)| recorded.figures[name][0]);
            let more: [f64; 4] = std::array::from_fn(|c| with[c] - without[c]);
            table::push_all(&mut bare_ns, without);
            table::push_all(&mut added, more);
            table::push_all(&mut times, more.map(|more| more / here));
        }
        for (c, (_, function)) in CALLS.iter().enumerate() {
            rows.push(vec![
                (*function).to_owned(),
                threads.to_string(),
                table::digits(bare_ns[c].median()),
                added[c].show(),
                table::digits(floor.median()),
                times[c].show(),
                table::digits(whole.median()),
            ]);
        }
    }
    let heads = [
        "call",
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
