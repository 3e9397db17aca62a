//! Joules beside what is known to be true: for each kernel its joules above idle of a launch, the
//! report's, and whether the truth lies inside the interval.
//!
//!     cargo run --release -p clscope-profile --example estimators -- FOLDER TRUTH.tsv
//!
//! FOLDER holds traces. TRUTH.tsv has a heading and the columns `trace` (the first part of the names
//! of traces), the kernel, `above_idle_mj`, `se_percent`, `period_us`, `temperature_c` and `run_c`.
//! Joules above idle are as uncertain as the idle power that was taken off: by 2 W, and by 1 W for
//! each degree between the truth and the run.

use clscope_profile::interval::Interval;
use clscope_profile::profile::{Options, Profile};
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

/// A line of the truth.
struct Known {
    trace: String,
    kernel: String,
    joules: f64,
    /// Half-width of its 95 % interval.
    half: f64,
}

fn known(text: &str) -> Option<Vec<Known>> {
    let mut lines = text.lines();
    let titles: Vec<&str> = lines.next()?.split('\t').collect();
    let at = |title: &str| titles.iter().position(|t| *t == title);
    let (joules, error) = (at("above_idle_mj")?, at("se_percent")?);
    let (period, [own, run]) = (at("period_us")?, [at("temperature_c")?, at("run_c")?]);
    let line = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let value = cells.get(joules)?.parse::<f64>().ok()? * 1e-3;
        let share = cells.get(error)?.parse::<f64>().ok()? * 1e-2;
        let seconds = cells.get(period)?.parse::<f64>().ok()? * 1e-6;
        let degrees = |at: usize| cells.get(at)?.parse::<f64>().ok();
        let apart = degrees(own).zip(degrees(run)).map_or(0.0, |(own, run)| (own - run).abs());
        let idle = seconds * (2.0 + apart);
        let (trace, kernel) = (cells.first()?.to_string(), cells.get(1)?.to_string());
        Some(Known { trace, kernel, joules: value, half: (2.0 * share * value).hypot(idle) })
    };
    Some(lines.filter_map(line).collect())
}

/// How far off, how wide, and whether the truth lies inside.
#[derive(Default)]
struct Tally {
    rows: u32,
    inside: u32,
    squares: f64,
    halves: Vec<f64>,
}

impl Tally {
    /// Takes up a figure; as a line shows it.
    fn add(&mut self, of: Option<Interval>, truth: &Known) -> String {
        let Some(of) = of else { return format!("{:>27}", "-") };
        let error = of.value / truth.joules - 1.0;
        let inside = of.low <= truth.joules + truth.half && truth.joules - truth.half <= of.high;
        let half = of.half() / of.value.abs().max(f64::MIN_POSITIVE);
        self.rows += 1;
        self.inside += u32::from(inside);
        self.squares += error * error;
        self.halves.push(half);
        let mark = if inside { " " } else { "!" };
        let (value, error, half) = (of.value * 1e3, 100.0 * error, 100.0 * half);
        format!("  {value:9.3} {error:+6.1}% ±{half:5.1}%{mark}")
    }

    fn sum(mut self, name: &str) {
        self.halves.sort_by(f64::total_cmp);
        let middle = self.halves.get(self.halves.len() / 2).copied().unwrap_or(f64::NAN);
        println!(
            "{name}: {} of {} inside, root mean square error {:.1} %, median half-width {:.1} %",
            self.inside,
            self.rows,
            100.0 * (self.squares / f64::from(self.rows.max(1))).sqrt(),
            100.0 * middle
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(folder), Some(truth)) = (arguments.next(), arguments.next()) else {
        return Err("usage: estimators FOLDER TRUTH.tsv".into());
    };
    let truth = known(&std::fs::read_to_string(&truth)?).ok_or("no truth in the table")?;
    let mut traces: Vec<PathBuf> = std::fs::read_dir(&folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<_, std::io::Error>>()?;
    traces.sort();
    let mut tally = Tally::default();
    println!("{:18} {:10} {:>9} {:>27}", "trace", "kernel", "truth mJ", "estimate");
    for path in traces {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let profile = Profile::open(&[path])?;
        let began = Instant::now();
        let view = profile.view(Options::default());
        let energy = view.energy()?;
        let took = began.elapsed();
        for device in &energy.devices {
            let of = name.split('-').next().unwrap_or_default();
            for truth in
                truth.iter().filter(|t| t.trace == of || of == "paced" && t.trace == "frames")
            {
                let class = device.classes.iter().find(|c| c.name == truth.kernel);
                let each = class.and_then(|c| {
                    let (dynamic, each, all) = (c.dynamic_joules?, c.joules_per_launch?, c.joules?);
                    Some(dynamic.times(each.value / all.value))
                });
                let line = tally.add(each, truth);
                println!("{name:18} {:10} {:9.3} {line}", truth.kernel, truth.joules * 1e3);
            }
            for floor in &device.floors {
                println!("{name:18} {} {:?}; {took:.1?}", floor.name, floor.watts);
            }
        }
    }
    tally.sum("all");
    Ok(())
}
