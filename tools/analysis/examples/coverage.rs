//! How often the 95 % intervals of sampled timing hold the truth, where the truth is known.
//!
//! `cargo run --release -p clscope-analysis --example coverage -- [TRIALS, 2000] [TRACE.clscope
//! ...]`
//!
//! Takes fully timed launches (synthetic ones, and the kernels of the traces named) and chooses
//! from them again and again as the recorder does: the first 16 launches of a kernel always, then
//! each by chance, with a probability that changes in time and is higher for rare kernels. What the
//! host did is used as the report uses it. Prints the share of trials whose total lies inside its
//! interval, on which side the others were, how far the interval reaches to both sides (medians);
//! then bias and error of the total (root of the mean square), and the error of Hajek's ratio
//! estimator on the same choices with the quotient of both.

use clscope_analysis::Trace;
use clscope_analysis::event::Event;
use clscope_analysis::event::Kept;
use clscope_analysis::input::{File, ProcessFiles};
use clscope_analysis::quantile;
use clscope_analysis::stats::estimate::Sampled;
use clscope_analysis::stats::estimate::windows::{Launch, Timed, What, Windows};
use clscope_analysis::time::{HostNs, Span, ThreadIndex};
use clscope_testing::Random;
use clscope_trace::record::{flag, size_class};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

/// Launches that are always timed, and the number by which rare kernels are timed (the recorder's
/// device_time/sampling.rs).
const ALWAYS: usize = 16;
const KEPT: f64 = 8.0;
/// Commands for which `auto` keeps to one probability, and the probability with which it learns
/// what timing costs (the same file).
const PERIOD: usize = 256;
const TO_LEARN: f64 = 7.0 / 8.0;

/// How commands are chosen.
#[derive(Clone, Copy)]
enum Choice {
    /// With about this probability.
    Common(f64),
    /// As `auto` does, which ends with this probability.
    Auto(f64),
}

/// What is tried: probabilities of busy applications, where launches cost more than the budget
/// allows for, up to those of paced ones; `auto` where timing all may be within the budget, and
/// where it is far beyond.
const CHOICES: [Choice; 7] = [
    Choice::Common(0.02),
    Choice::Common(0.05),
    Choice::Common(0.1),
    Choice::Common(0.25),
    Choice::Common(0.75),
    Choice::Auto(31.0 / 32.0),
    Choice::Auto(0.1),
];

/// What happened to one queue, in the order of the timeline.
enum Step {
    Enqueued(Enqueued),
    Completed(u64, Timed),
    Finished(Span),
}

/// A command: its class (0 where it is never left out), whether the call waited for it, its length.
struct Enqueued {
    id: u64,
    class: u32,
    geometry: u32,
    thread: ThreadIndex,
    call: Span,
    blocking: bool,
    length: u64,
}

/// A fully timed queue.
struct Population {
    /// Of the kernels from 1 on.
    names: Vec<String>,
    steps: Vec<Step>,
    cpu: bool,
    /// In-order, and its times on the timeline are known.
    ordered: bool,
}

impl Population {
    /// Launches of one kernel whose times on the timeline are not known.
    fn alone(name: &str, durations: impl Iterator<Item = u64>) -> Self {
        let step = |(i, length)| {
            Step::Enqueued(Enqueued {
                id: i as u64,
                class: 1,
                geometry: 0,
                thread: ThreadIndex(0),
                call: Span { begin: HostNs(i as i64), end: HostNs(i as i64) },
                blocking: false,
                length,
            })
        };
        Self {
            names: vec![name.to_owned()],
            steps: durations.enumerate().map(step).collect(),
            cpu: false,
            ordered: false,
        }
    }
}

/// Duration of the launch of that number.
type Duration = Box<dyn Fn(usize, &mut Random) -> f64>;

fn synthetic() -> Vec<Population> {
    let mut r = Random::new(1);
    let mut make = |name: &str, n: usize, f: Duration| {
        Population::alone(name, (0..n).map(|i| f(i, &mut r).max(1.0) as u64))
    };
    vec![
        make("steady, 3 %", 84_000, Box::new(|_, r| 5e3 * (1.0 + 0.03 * r.normal()))),
        make("lognormal, sigma 0.7", 20_000, Box::new(|_, r| 5e3 * (0.7 * r.normal()).exp())),
        make(
            "one in ten takes five times",
            20_000,
            Box::new(|_, r| if r.uniform() < 0.1 { 25e3 } else { 5e3 } + 100.0 * r.normal()),
        ),
        make(
            "every 64th takes twenty times",
            50_000,
            Box::new(|i, r| if i % 64 == 7 { 100e3 } else { 5e3 } + 100.0 * r.normal()),
        ),
        make(
            "twice as slow at the end",
            10_000,
            Box::new(|i, r| 5e3 * (1.0 + i as f64 / 1e4) * (1.0 + 0.1 * r.normal())),
        ),
        make(
            "warm-up of ten",
            5_000,
            Box::new(|i, r| if i < 10 { 250e3 } else { 5e3 } * (1.0 + 0.1 * r.normal())),
        ),
        make("few launches", 400, Box::new(|_, r| 5e3 * (0.3 * r.normal()).exp())),
    ]
}

/// Kernels and transfers of a trace.
fn of_trace(path: &Path) -> Result<Vec<Population>, Box<dyn Error>> {
    let mut processes: BTreeMap<String, Vec<(String, Vec<u8>)>> = BTreeMap::new();
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some((process, _)) = name
            .split_once('.')
            .filter(|(_, end)| matches!(*end, "defs" | "ring") || end.ends_with("clt"))
            && process.contains('-')
        {
            let bytes = std::fs::read(path.join(&name))?;
            processes.entry(process.to_owned()).or_default().push((name, bytes));
        }
    }
    let files = processes.iter().map(|(label, files)| {
        let of = |end: &str| {
            files
                .iter()
                .filter(move |f| f.0.ends_with(end))
                .map(|f| File { name: f.0.clone(), bytes: &f.1 })
                .collect()
        };
        let (mut defs, mut ring): (Vec<File<'_>>, Vec<File<'_>>) = (of(".defs"), of(".ring"));
        ProcessFiles {
            label: label.clone(),
            defs: defs.pop(),
            segments: of(".clt"),
            ring: ring.pop(),
            ..Default::default()
        }
    });
    let trace = Trace::open(files.collect());
    let alignment = trace.align();
    let mut queues: BTreeMap<(u32, u32), (Vec<String>, Vec<Step>)> = BTreeMap::new();
    let mut lengths: BTreeMap<(u32, u64), u64> = BTreeMap::new();
    for event in trace.events(Some(&alignment)) {
        if let Event::Command(command) = event
            && let Some(times) = command.timed()
        {
            lengths.insert((command.process.0, command.id().0), times.duration());
        }
    }
    for event in trace.events(Some(&alignment)) {
        match event {
            Event::Call(call) => match &call.kept {
                Kept::Enqueue(e) if call.command().is_some() && e.has(flag::TIMED) => {
                    let Some(length) = lengths.get(&(call.process.0, e.record.id)) else {
                        continue;
                    };
                    let (names, steps) =
                        queues.entry((call.process.0, e.record.queue)).or_default();
                    let mut class = 0;
                    if e.record.kind.is_sampled() {
                        let d = &trace.process(call.process).definitions;
                        let name = if e.record.kind.is_kernel() {
                            d.kernel_name(e.record.object).into_owned()
                        } else {
                            format!("{} 2^{}", e.record.kind.name(), size_class(e.record.bytes))
                        };
                        class = names.iter().position(|n| *n == name).unwrap_or(names.len()) + 1;
                        if class > names.len() {
                            names.push(name);
                        }
                    }
                    steps.push(Step::Enqueued(Enqueued {
                        id: e.record.id,
                        class: class as u32,
                        geometry: if e.record.kind.is_kernel() { e.record.geometry } else { 0 },
                        thread: call.thread,
                        call: call.span,
                        blocking: e.has(flag::BLOCKING),
                        length: *length,
                    }));
                }
                Kept::Plain { id, .. }
                    if trace.process(call.process).definitions.function_name(call.function)
                        == "clFinish" =>
                {
                    queues
                        .entry((call.process.0, *id))
                        .or_default()
                        .1
                        .push(Step::Finished(call.span));
                }
                _ => {}
            },
            Event::Command(command) => {
                if let Some(times) = command.timed()
                    && let Some(placed) = times.placed
                {
                    let timed = Timed {
                        start: placed.span().begin,
                        end: placed.span().end,
                        duration: times.duration(),
                    };
                    let steps = &mut queues
                        .entry((command.process.0, command.enqueued.record.queue))
                        .or_default()
                        .1;
                    steps.push(Step::Completed(command.id().0, timed));
                }
            }
            _ => {}
        }
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    // CL_DEVICE_TYPE_CPU.
    let cpu = |process: u32, queue: u32| {
        let d = &trace.processes[process as usize].definitions;
        d.queues
            .get(&queue)
            .and_then(|q| d.devices.get(&q.device))
            .is_some_and(|d| d.device_type & 2 != 0)
    };
    let ordered = |process: u32, queue: u32| {
        let d = &trace.processes[process as usize].definitions;
        d.queues.get(&queue).is_none_or(|q| !q.is_out_of_order())
    };
    let of_queue =
        |((process, queue), (names, steps)): ((u32, u32), (Vec<String>, Vec<Step>))| Population {
            names: names.iter().map(|name| format!("{name} of {file}")).collect(),
            steps,
            cpu: cpu(process, queue),
            ordered: ordered(process, queue),
        };
    Ok(queues.into_iter().map(of_queue).collect())
}

/// What trials of one kernel came to.
#[derive(Default)]
struct Coverage {
    launches: u64,
    timed: u64,
    trials: u64,
    inside: u64,
    below: u64,
    above: u64,
    downward: Vec<f64>,
    upward: Vec<f64>,
    /// Squares of the relative errors, and their sum for the ratio estimator on the same choices.
    squares: f64,
    error: f64,
    ratio_squares: f64,
}

/// Hajek's ratio estimator: launches that were certain as they are, the others by their mean
/// weighted with 1/p.
#[derive(Default, Clone, Copy)]
struct Ratio {
    certain: f64,
    others: f64,
    weight: f64,
    weighted: f64,
}

impl Ratio {
    fn add(&mut self, length: f64, p: f64, timed: bool) {
        if p >= 1.0 {
            self.certain += length;
            return;
        }
        self.others += 1.0;
        if timed {
            self.weight += 1.0 / p;
            self.weighted += length / p;
        }
    }

    /// `None` where chance chose none.
    fn total(&self) -> Option<f64> {
        if self.others == 0.0 {
            return Some(self.certain);
        }
        (self.weight > 0.0).then(|| self.certain + self.others * self.weighted / self.weight)
    }
}

fn trials(population: &Population, choice: Choice, n: u64, r: &mut Random) -> Vec<Coverage> {
    let kernels = population.names.len();
    let mut out: Vec<Coverage> = (0..kernels).map(|_| Coverage::default()).collect();
    let mut truth = vec![0.0; kernels];
    for step in &population.steps {
        if let Step::Enqueued(Enqueued { class: class @ 1.., length, .. }) = step {
            truth[*class as usize - 1] += *length as f64;
            out[*class as usize - 1].launches += 1;
        }
    }
    for _ in 0..n {
        let mut sampled: Vec<Sampled> = (0..kernels).map(|_| Sampled::default()).collect();
        let mut ratios = vec![Ratio::default(); kernels];
        let mut windows = Windows::default();
        let mut chosen: BTreeMap<u64, bool> = BTreeMap::new();
        // Between half as likely and twice, slowly changing, as the application's pace changes.
        let mut enqueued = 0;
        let (phase, period) = (r.uniform() * std::f64::consts::TAU, 300.0 + 3_000.0 * r.uniform());
        for (i, step) in population.steps.iter().enumerate() {
            match step {
                Step::Enqueued(Enqueued {
                    id,
                    class,
                    geometry,
                    thread,
                    call,
                    blocking,
                    length,
                }) => {
                    let (mut timed, mut chance) = (true, 1.0);
                    if let Some(s) =
                        (*class as usize).checked_sub(1).and_then(|k| sampled.get_mut(k))
                    {
                        let nth = s.launches() as usize;
                        let p = match choice {
                            Choice::Common(common) => {
                                let wave =
                                    (phase + std::f64::consts::TAU * i as f64 / period).sin();
                                // Where next to all can be timed, chance leaves out as many at any
                                // time.
                                let wave = if common > 0.9 { 0.0 } else { 0.77 * wave };
                                common * wave.exp()
                            }
                            Choice::Auto(end) => match enqueued / PERIOD {
                                0 => 1.0,
                                1 => TO_LEARN,
                                _ => end,
                            },
                        };
                        enqueued += 1;
                        let certain = nth < ALWAYS || p >= 1.0;
                        let p = if certain { 1.0 } else { p.max(KEPT / (nth + 1) as f64).min(1.0) };
                        chance = p;
                        timed = r.uniform() < p;
                        ratios[*class as usize - 1].add(*length as f64, p, timed);
                        if timed { s.add(*length, p) } else { s.leave_out() }
                    }
                    if population.ordered {
                        let launch = Launch { class: u64::from(*class), geometry: *geometry };
                        let of_class = (*class > 0).then_some((launch, chance));
                        let what =
                            if timed { What::Timed(*id, of_class) } else { What::LeftOut(launch) };
                        if *blocking {
                            windows.blocked(*thread, *call, what);
                        } else {
                            windows.enqueued(*thread, *call, what);
                        }
                        chosen.insert(*id, timed);
                    }
                }
                Step::Completed(id, times) if chosen.remove(id) == Some(true) => {
                    windows.completed(*id, Some(*times))
                }
                Step::Completed(..) => {}
                Step::Finished(call) => windows.finished(*call),
            }
        }
        let each = sampled.iter().enumerate().map(|(k, s)| (k as u64 + 1, s)).collect();
        let lefts = windows.left(&each, population.cpu);
        for (k, c) in out.iter_mut().enumerate() {
            let left = lefts.get(&(k as u64 + 1)).filter(|_| population.ordered);
            let (Some(total), Some(ratio)) = (sampled[k].total_with(left), ratios[k].total())
            else {
                continue;
            };
            let truth = truth[k];
            c.trials += 1;
            c.timed += sampled[k].timed();
            c.inside += u64::from(total.low <= truth && truth <= total.high);
            c.below += u64::from(truth < total.low);
            c.above += u64::from(truth > total.high);
            c.downward.push((total.value - total.low) / total.value);
            c.upward.push((total.high - total.value) / total.value);
            let error = total.value / truth - 1.0;
            c.error += error;
            c.squares += error * error;
            c.ratio_squares += (ratio / truth - 1.0).powi(2);
        }
    }
    out
}

/// Per cent.
fn median(values: Vec<f64>) -> f64 {
    quantile::median(values).unwrap_or(f64::NAN) * 100.0
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let n: u64 = arguments.next().map_or(Ok(2_000), |a| a.parse())?;
    let mut populations = synthetic();
    for path in arguments {
        populations.extend(of_trace(Path::new(&path))?);
    }
    println!(
        "{n} trials each: % inside; truth below, above; interval down, up, %; bias, rms error, %; rms error of the ratio estimator, %"
    );
    let mut r = Random::new(2);
    for (choice, population) in
        CHOICES.iter().flat_map(|c| populations.iter().map(move |of| (*c, of)))
    {
        let each = trials(population, choice, n, &mut r);
        for (c, name) in each.into_iter().zip(&population.names) {
            // Fewer are nearly all timed.
            if c.launches < 300 {
                continue;
            }
            let percent =
                |k: u64, of: u64| if of == 0 { f64::NAN } else { 100.0 * k as f64 / of as f64 };
            let trials = c.trials.max(1) as f64;
            let rms = |squares: f64| 100.0 * (squares / trials).sqrt();
            println!(
                "{:6.1} %  {:5.1} {:5.1}  -{:6.2} +{:6.2}  |{:7.3} {:7.3}  |{:7.3} {:5.2}  |{:6} launches, {:4.1} % timed  {name}",
                percent(c.inside, c.trials),
                percent(c.below, c.trials),
                percent(c.above, c.trials),
                median(c.downward),
                median(c.upward),
                100.0 * c.error / trials,
                rms(c.squares),
                rms(c.ratio_squares),
                (c.squares / c.ratio_squares).sqrt(),
                c.launches,
                100.0 * c.timed as f64 / (c.trials * c.launches).max(1) as f64,
            );
        }
    }
    Ok(())
}
