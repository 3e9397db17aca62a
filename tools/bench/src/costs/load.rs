//! What the library costs a process that never uses OpenCL: its size on disk, and the time from
//! start to end of an empty program with and without it, in turns.
#![forbid(unsafe_code)]

use crate::cost;
use crate::process::{Runner, Way};
use crate::table::{self, Sample};
use anyhow::{Context, Result};
use std::path::Path;

/// Measures and prints.
pub fn run(args: &cost::Args) -> Result<()> {
    let recorder = args.places.recorder()?;
    let size = std::fs::metadata(&recorder)
        .with_context(|| format!("could not look at {}", recorder.display()))?
        .len();
    // `true` of coreutils links libc only, as small programs do.
    let program = ["/bin/true", "/usr/bin/true"]
        .into_iter()
        .map(Path::new)
        .find(|p| p.exists())
        .context("there is no /bin/true")?;
    let (mut bare, mut added) = (Sample::default(), Sample::default());
    for _ in 0..args.pairs * 30 {
        let without = Runner::new(&args.places, Way::Bare).run(program, &[])?;
        let with = Runner::new(&args.places, Way::Preload).run(program, &[])?;
        bare.push(without.wall / 1e3);
        added.push((with.wall - without.wall) / 1e3);
    }
    table::print(
        "The library in a process without OpenCL",
        &["", ""],
        &[
            vec!["size".into(), format!("{:.2} MB", size as f64 / 1e6)],
            vec![
                "empty program, start to end".into(),
                format!("{} us", table::digits(bare.median())),
            ],
            vec!["added by loading".into(), format!("{} us", added.show())],
        ],
    );
    Ok(())
}
