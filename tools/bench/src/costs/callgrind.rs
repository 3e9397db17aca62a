//! Instruction counts, where a machine is too noisy for times: the difference of two run lengths,
//! so that start-up does not count. What the kernel does is not in them.
#![forbid(unsafe_code)]

use crate::process::{Places, Runner, Way};
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

/// User instructions per unit of work, bare and preloaded; `units` is what the longer run does
/// more.
pub fn per_unit(
    places: &Places,
    program: &Path,
    fewer: &[String],
    more: &[String],
    units: f64,
) -> Result<[f64; 2]> {
    let mut out = [0.0; 2];
    for (place, way) in out.iter_mut().zip([Way::Bare, Way::Preload]) {
        *place = (count(places, way, program, more)? - count(places, way, program, fewer)?) / units;
    }
    Ok(out)
}

fn count(places: &Places, way: Way, program: &Path, arguments: &[String]) -> Result<f64> {
    let scratch = places.scratch()?;
    let mut command = Command::new("valgrind");
    command
        .arg("--tool=callgrind")
        .arg(format!("--callgrind-out-file={}", scratch.path().join("out").display()));
    command.arg(program).args(arguments);
    Runner::new(places, way).prepare(&mut command, &scratch.path().join("t.clscope"))?;
    let output = command
        .output()
        .context("could not start valgrind: install it (Debian: apt-get install valgrind)")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let Some(line) = text.lines().find(|l| l.contains("Collected :")) else {
        bail!("callgrind gave no count: {}", text.lines().last().unwrap_or_default());
    };
    let digits: String =
        line.rsplit(':').next().unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    digits.parse().with_context(|| format!("callgrind's count is no number: {line}"))
}
