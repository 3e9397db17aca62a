//! Whole applications: wall and CPU time, bare and under `clscope record` in turns, each pair in
//! another order so that what the machine does meanwhile favours neither. Ratios of pairs, with an
//! interval of their median: a busy machine shows in it.
#![forbid(unsafe_code)]

use crate::cost;
use crate::process::{Runner, Way};
use crate::table::{self, Sample};
use anyhow::{Context, Result};
use std::path::Path;

/// Measures and prints.
pub fn run(args: &cost::Args) -> Result<()> {
    let mut rows = Vec::new();
    for app in &args.app {
        let (name, line) =
            app.split_once('=').with_context(|| format!("--app {app}: expected NAME=COMMAND"))?;
        let run = |way| {
            Runner::new(&args.places, way)
                .run(Path::new("/bin/sh"), &["-c".to_owned(), line.to_owned()])
        };
        // Once without counting: caches of compiled kernels, pages of the application.
        run(Way::Bare)?;
        let mut seconds = [Sample::default(), Sample::default()];
        let (mut wall, mut cpu, mut bytes) =
            (Sample::default(), Sample::default(), Sample::default());
        for pair in 0..args.pairs {
            let (without, with) = if pair % 2 == 0 {
                let without = run(Way::Bare)?;
                (without, run(Way::Record)?)
            } else {
                let with = run(Way::Record)?;
                (run(Way::Bare)?, with)
            };
            seconds[0].push(without.wall / 1e9);
            seconds[1].push(without.cpu / 1e9);
            wall.push(100.0 * (with.wall / without.wall - 1.0));
            cpu.push(100.0 * (with.cpu / without.cpu - 1.0));
            bytes.push(with.trace_bytes as f64 / 1e3);
        }
        let pairs = wall.len().to_string();
        let [own_wall, own_cpu] = seconds.map(|s| table::digits(s.median()));
        rows.push(vec![
            name.to_owned(),
            pairs,
            own_wall,
            own_cpu,
            wall.show_interval(),
            cpu.show_interval(),
            table::digits(bytes.median()),
        ]);
    }
    if !rows.is_empty() {
        let heads = [
            "application",
            "pairs",
            "bare, wall s",
            "bare, CPU s",
            "slower by %, wall",
            "slower by %, CPU",
            "trace kB",
        ];
        table::print("Whole applications, median of pairs [95 % interval]", &heads, &rows);
    }
    Ok(())
}
