//! Whole applications: wall and CPU time, bare and recorded in turns.

use crate::cost;
use crate::process::{Runner, Way};
use crate::table::{self, Sample};
use anyhow::{Context, Result};
use std::path::Path;

/// Measures and prints.
pub fn run(args: &cost::Args) -> Result<()> {
    let mut rows = Vec::new();
    for app in &args.app {
        let (name, line) = app.split_once('=').with_context(|| format!("--app {app}: expected NAME=COMMAND"))?;
        let shell = |way| Runner::new(&args.places, way).run(Path::new("/bin/sh"), &["-c".to_owned(), format!("exec {line}")]);
        // Once without counting: caches of compiled kernels, pages of the application.
        shell(Way::Bare)?;
        let (mut bare, mut wall, mut cpu, mut bytes) = (Sample::default(), Sample::default(), Sample::default(), Sample::default());
        for _ in 0..args.pairs {
            let without = shell(Way::Bare)?;
            // Through the layer as well: applications that open the loader themselves are not reached by preloading alone.
            let mut both = Runner::new(&args.places, Way::Preload);
            both.settings.push(("OPENCL_LAYERS".into(), args.places.recorder()?.display().to_string()));
            let with = both.run(Path::new("/bin/sh"), &["-c".to_owned(), format!("exec {line}")])?;
            bare.push(without.wall / 1e6);
            wall.push(100.0 * (with.wall / without.wall - 1.0));
            cpu.push(100.0 * (with.cpu / without.cpu - 1.0));
            bytes.push(with.trace_bytes as f64 / 1e3);
        }
        rows.push(vec![name.to_owned(), table::digits(bare.median()), wall.show(), cpu.show(), table::digits(bytes.median())]);
    }
    if !rows.is_empty() {
        let heads = ["application", "bare ms", "slower by %, wall", "slower by %, CPU", "trace kB"];
        table::print("Whole applications, median of pairs (quartiles)", &heads, &rows);
    }
    Ok(())
}
