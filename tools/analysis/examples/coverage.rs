//! How often the 95 % intervals of sampled timing hold the truth, where the truth is known.
//!
//! `cargo run --release -p clscope-analysis --example coverage -- [TRIALS, 2000] [TRACE.clscope ...]`
//!
//! Takes fully timed launches (synthetic ones, and the kernels of the traces named) and chooses from them again and again
//! as the recorder does: the first 32 launches of a kernel always, then each by chance, with a probability that changes in
//! time. Prints the share of trials whose total lies inside its interval, on which side the others were, and the median
//! relative half-width.
//!
//! What no sample can tell: where one launch in a thousand takes a hundred times as long (a CPU device whose workers are
//! preempted), most samples hold none of those, and look like samples of a steady kernel. Totals then lie above the
//! interval in a tenth to four fifths of the trials.

use clscope_analysis::Trace;
use clscope_analysis::event::Event;
use clscope_analysis::input::{File, ProcessFiles};
use clscope_analysis::stats::estimate::Sampled;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

/// Launches that are always timed.
const ALWAYS: usize = 32;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

/// Durations of the launches of one kernel in order.
struct Population {
    name: String,
    durations: Vec<u64>,
}

/// Duration of the launch of that number.
type Duration = Box<dyn Fn(usize, &mut Random) -> f64>;

fn synthetic() -> Vec<Population> {
    let mut r = Random(1);
    let mut make = |name: &str, n: usize, f: Duration| Population {
        name: name.to_owned(),
        durations: (0..n).map(|i| f(i, &mut r).max(1.0) as u64).collect(),
    };
    vec![
        make("steady, 3 %", 84_000, Box::new(|_, r| 5e3 * (1.0 + 0.03 * r.normal()))),
        make("lognormal, sigma 0.7", 20_000, Box::new(|_, r| 5e3 * (0.7 * r.normal()).exp())),
        make("one in ten takes five times", 20_000, Box::new(|_, r| if r.uniform() < 0.1 { 25e3 } else { 5e3 } + 100.0 * r.normal())),
        make("every 64th takes twenty times", 50_000, Box::new(|i, r| if i % 64 == 7 { 100e3 } else { 5e3 } + 100.0 * r.normal())),
        make("twice as slow at the end", 10_000, Box::new(|i, r| 5e3 * (1.0 + i as f64 / 1e4) * (1.0 + 0.1 * r.normal()))),
        make("warm-up of ten", 5_000, Box::new(|i, r| if i < 10 { 250e3 } else { 5e3 } * (1.0 + 0.1 * r.normal()))),
        make("few launches", 400, Box::new(|_, r| 5e3 * (0.3 * r.normal()).exp())),
    ]
}

/// Kernels of a trace with at least 300 timed launches.
fn of_trace(path: &Path) -> Result<Vec<Population>, Box<dyn Error>> {
    let mut processes: BTreeMap<String, Vec<(String, Vec<u8>)>> = BTreeMap::new();
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some((process, _)) = name.split_once('.').filter(|(_, end)| matches!(*end, "defs" | "ring") || end.ends_with("clt"))
            && process.contains('-')
        {
            let bytes = std::fs::read(path.join(&name))?;
            processes.entry(process.to_owned()).or_default().push((name, bytes));
        }
    }
    let files = processes.iter().map(|(label, files)| {
        let of = |end: &str| files.iter().filter(move |f| f.0.ends_with(end)).map(|f| File { name: f.0.clone(), bytes: &f.1 }).collect();
        let (mut defs, mut ring): (Vec<File<'_>>, Vec<File<'_>>) = (of(".defs"), of(".ring"));
        ProcessFiles { label: label.clone(), defs: defs.pop(), segments: of(".clt"), ring: ring.pop(), ..Default::default() }
    });
    let trace = Trace::open(files.collect());
    let mut kernels: BTreeMap<(u32, u32), Vec<u64>> = BTreeMap::new();
    for event in trace.events(None) {
        if let Event::Command(command) = event
            && command.enqueued.record.kind.is_kernel()
            && let Some(times) = command.timed()
        {
            kernels.entry((command.process.0, command.enqueued.record.object)).or_default().push(times.duration());
        }
    }
    let name = |process: u32, kernel: u32| {
        let process = &trace.processes[process as usize];
        format!("{} of {}", process.definitions.kernel_name(kernel), path.file_name().unwrap_or_default().to_string_lossy())
    };
    let long = kernels.into_iter().filter(|(_, d)| d.len() >= 300);
    Ok(long.map(|((process, kernel), durations)| Population { name: name(process, kernel), durations }).collect())
}

/// What trials came to.
#[derive(Default)]
struct Coverage {
    inside: u64,
    below: u64,
    above: u64,
    widths: Vec<f64>,
}

fn trials(population: &Population, n: u64, r: &mut Random) -> Coverage {
    let truth: f64 = population.durations.iter().map(|d| *d as f64).sum();
    let mut out = Coverage::default();
    for _ in 0..n {
        let mut sampled = Sampled::default();
        // Between 1 in 30 and 1 in 140, slowly changing, as the application's pace changes.
        let (phase, period) = (r.uniform() * std::f64::consts::TAU, 300.0 + 3_000.0 * r.uniform());
        for (i, duration) in population.durations.iter().enumerate() {
            let wave = (phase + std::f64::consts::TAU * i as f64 / period).sin();
            let p = if i < ALWAYS { 1.0 } else { (1.0 / 65.0) * (0.77 * wave).exp() };
            if p >= 1.0 || r.uniform() < p {
                sampled.add(*duration, p);
            } else {
                sampled.leave_out();
            }
        }
        let Some(total) = sampled.total() else { continue };
        out.inside += u64::from(total.low <= truth && truth <= total.high);
        out.below += u64::from(truth < total.low);
        out.above += u64::from(truth > total.high);
        out.widths.push(total.half_width() / total.value);
    }
    out.widths.sort_by(f64::total_cmp);
    out
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let n: u64 = arguments.next().map_or(Ok(2_000), |a| a.parse())?;
    let mut populations = synthetic();
    for path in arguments {
        populations.extend(of_trace(Path::new(&path))?);
    }
    println!("{n} trials each: share of totals inside their 95 % interval; truth below and above it; median half-width");
    let mut r = Random(2);
    for population in &populations {
        let c = trials(population, n, &mut r);
        let percent = |k: u64| 100.0 * k as f64 / n as f64;
        let width = c.widths.get(c.widths.len() / 2).copied().unwrap_or(f64::NAN) * 100.0;
        let (inside, below, above) = (percent(c.inside), percent(c.below), percent(c.above));
        println!(
            "{inside:6.1} %  {below:4.1} {above:4.1}  +-{width:5.2} %  {:6} launches  {}",
            population.durations.len(),
            population.name
        );
    }
    Ok(())
}
