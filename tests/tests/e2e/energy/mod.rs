//! Joules per kernel, the whole way: sensors are read while an application runs, stored, and
//! attributed. The sensors are emulated trees that change meanwhile, and recorded readings whose
//! truth is known.

mod helper;
mod integrated_gpu;
mod meter;
mod model;
mod runs;
mod stat;
mod truth;
mod window;
pub mod with;

use clscope_tests::{Mode, Runtime, Stage, While};
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A plane of an emulated package: its zone, its name, its watts.
pub type Plane = (&'static str, &'static str, f64);
/// Watts of the emulated package; its cores, its graphics plane and its memory.
const WATTS: [Plane; 4] = [
    ("intel-rapl:0", "package-0", 20.0),
    ("intel-rapl:0:0", "core", 12.0),
    ("intel-rapl:0:1", "uncore", 3.0),
    ("intel-rapl:0:2", "dram", 1.5),
];
/// Where processors' counters wrap, in microjoules.
const RANGE: u64 = 262_143_328_850;
/// What the counters show first: all wrap once, some joules later; or never in a test, with much
/// behind them to lose.
pub const SOON: u64 = RANGE - 4_000_000;
pub const LATE: u64 = 5_000_000_000;

/// An emulated powercap tree whose counters rise while it lives.
pub struct Tree {
    pub root: PathBuf,
    counters: Vec<(File, f64)>,
    start: u64,
}

/// What a tree did while something ran.
pub struct Shown {
    /// Longest time in which the counters stood still, in seconds: a busy machine may keep us from
    /// raising them.
    still: f64,
}

impl Shown {
    /// How far a mean over `seconds` may be off, as a share: the counters are late by up to that
    /// time at either end, and so is the sampler's reading of its clock where it is interrupted.
    pub fn tolerance(&self, seconds: f64) -> f64 {
        2.0 * (self.still + 0.03) / seconds
    }
}

impl Tree {
    pub fn new(root: &Path, start: u64) -> Self {
        Self::with_planes(root, start, &WATTS)
    }

    /// A package with these planes.
    pub fn with_planes(root: &Path, start: u64, planes: &[Plane]) -> Self {
        // Built before the counters' time begins.
        clscope_tests::artifacts();
        let mut counters = Vec::new();
        for &(zone, name, watts) in planes {
            let folder = root.join("sys/class/powercap").join(zone);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("name"), format!("{name}\n")).unwrap();
            std::fs::write(folder.join("max_energy_range_uj"), format!("{RANGE}\n")).unwrap();
            let file = File::create(folder.join("energy_uj")).unwrap();
            counters.push((file, watts));
        }
        let tree = Self { root: root.to_owned(), counters, start };
        tree.show(0.0, 0);
        tree
    }

    /// Lets the counters show the energy of so many seconds, less `back` microjoules. All digits
    /// are written by one call, so that a reader never sees a part of them.
    fn show(&self, seconds: f64, back: u64) {
        for (file, watts) in &self.counters {
            let energy = (seconds * watts * 1e6) as u64 + self.start - back;
            file.write_all_at(format!("{:012}\n", energy % RANGE).as_bytes(), 0).unwrap();
        }
    }

    /// Lets the counters show so many joules.
    pub fn draw(&self, joules: f64) {
        for (file, _) in &self.counters {
            let energy = (joules * 1e6) as u64 + self.start;
            file.write_all_at(format!("{:012}\n", energy % RANGE).as_bytes(), 0).unwrap();
        }
    }

    /// Runs something while the counters rise.
    pub fn rises<T>(&self, run: impl FnOnce() -> T) -> T {
        let (goes_on, from) = (AtomicBool::new(false), Instant::now());
        std::thread::scope(|scope| {
            let running = While::new(&goes_on);
            scope.spawn(|| {
                while goes_on.load(Ordering::Relaxed) {
                    self.show(from.elapsed().as_secs_f64(), 0);
                    std::thread::park_timeout(Duration::from_micros(200));
                }
            });
            let out = run();
            drop(running);
            out
        })
    }

    /// Records two_powers with options while the counters rise. The application goes on until the
    /// sampler has stored readings of its work in `lost.len()` goes; with the nth go so many
    /// microjoules are lost to the counters, as on a reset.
    pub fn record(&self, stage: &Stage, options: &[&str], lost: &[u64]) -> Shown {
        let (goes_on, stop) = (AtomicBool::new(false), stage.join("stop"));
        let begun = stage.join("stop.begun");
        let readings = stage.trace("t").join("sensors.clt");
        let from = Instant::now();
        std::thread::scope(|scope| {
            let recording = While::new(&goes_on);
            let counting = scope.spawn(|| {
                let (mut goes, mut length, mut back) = (0, 0, 0);
                let (mut still, mut before, mut waited) = (0.0f64, 0.0, 0.0);
                while goes_on.load(Ordering::Relaxed) {
                    let seconds = from.elapsed().as_secs_f64();
                    self.show(seconds, back);
                    still = still.max(from.elapsed().as_secs_f64() - before);
                    before = seconds;
                    let now = std::fs::metadata(&readings).map_or(0, |m| m.len());
                    // So many readings fall into the application's work.
                    if !begun.exists() {
                        // A busy machine may take long to compile the kernels: these readings show
                        // nothing of them.
                        (length, waited) = (now, seconds);
                    } else if now > length + 10_000 {
                        length = now;
                        back += lost.get(goes).copied().unwrap_or(0);
                        goes += 1;
                    }
                    // A sampler that stores nothing is no reason to go on for ever.
                    if goes > lost.len() || seconds > waited + 120.0 {
                        File::create(&stop).unwrap();
                    }
                    std::thread::park_timeout(Duration::from_micros(200));
                }
                Shown { still }
            });
            record(stage, options, &["100", &stop.display().to_string()]);
            drop(recording);
            counting.join().unwrap()
        })
    }
}

pub fn energy(stage: &Stage, arguments: &[&str]) -> Value {
    let trace = stage.trace("t").display().to_string();
    let finished =
        stage.clscope(["report", &trace, "--format", "json"]).args(arguments).run().success();
    let report: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert!(
        report["kernels"].as_array().is_some_and(|k| !k.is_empty()),
        "the rest of the report is there: {report}"
    );
    report["energy"].clone()
}

/// The first device's part of it.
pub fn energy_of(stage: &Stage, arguments: &[&str]) -> Value {
    energy(stage, arguments)["devices"][0].clone()
}

/// Records two_powers with options.
pub fn record(stage: &Stage, options: &[&str], arguments: &[&str]) {
    let app = clscope_tests::artifacts().fixture("two_powers").display().to_string();
    let trace = stage.trace("t").display().to_string();
    let all = ["record", "-q", "-f", "-o", &trace, "--device-timing", "event"];
    let run = stage.clscope(all.iter().chain(options)).args(["--", &app]).args(arguments);
    // How long the fake library's kernels run.
    let script = stage.join("fake.script");
    let run = if script.is_file() { run.env("FAKE_CL_SCRIPT", script) } else { run };
    run.run().success();
}

/// A trace `t.clscope` with joules: two_powers beside an emulated package.
pub fn emulated(stage: &Stage) {
    let tree = Tree::new(&stage.join("tree"), LATE);
    let root = tree.root.display().to_string();
    tree.record(stage, &["--sysfs-root", &root, "--idle-window", "0.3"], &[0, 0, 0]);
}

pub fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or_else(|| panic!("a number is missing: {of}"))
}

/// Groups, floors and the rest are what was measured, to rounding.
pub fn assert_conserved(device: &Value) {
    let sum = |list: &Value, field: fn(&Value) -> &Value| {
        list.as_array().unwrap().iter().map(|x| number(field(x))).sum::<f64>()
    };
    let parts = sum(&device["groups"], |g| &g["joules"]["value"])
        + sum(&device["floors"], |f| &f["joules"]["value"]);
    let all = parts + number(&device["unattributed_joules"]);
    let measured = number(&device["measured_joules"]);
    assert!((all / measured - 1.0).abs() < 1e-9, "{all} of {measured}");
}

#[test]
fn counters_that_change_while_an_application_runs_become_joules_per_kernel() {
    let stage = Stage::new(Runtime::Pocl);
    let tree = Tree::new(&stage.join("tree"), SOON);
    let root = tree.root.display().to_string();
    let shown = tree.record(&stage, &["--sysfs-root", &root, "--idle-window", "0.3"], &[0, 0, 0]);
    let energy = energy(&stage, &[]);
    assert_eq!(energy["absent"], Value::Null, "{energy}");
    let device = &energy["devices"][0];
    assert_eq!(
        (device["formula"].as_str(), device["failed"].as_str()),
        (Some("pkg"), None),
        "{device}"
    );
    assert_conserved(device);
    // The same power whatever runs.
    let watts = number(&device["mean_watts"]);
    let allowed = shown.tolerance(1e-9 * number(&device["time_ns"]));
    assert!((watts / 20.0 - 1.0).abs() < allowed, "{watts} W, allowed {allowed}");
    // So every figure says it within its interval: kernels, the floor, gaps.
    let says = |what: &str, of: &Value| {
        let [value, low, high] = ["value", "low", "high"].map(|field| of[field].as_f64());
        let Some(value) = value else { return };
        let open = 20.0 * allowed;
        let low = low.unwrap_or(f64::NEG_INFINITY) - open;
        let high = high.unwrap_or(f64::INFINITY) + open;
        assert!((low..=high).contains(&20.0), "{what}: {value} W, {low} to {high}");
    };
    for class in device["classes"].as_array().unwrap() {
        says(&class["name"].to_string(), &class["watts"]);
    }
    for floor in device["floors"].as_array().unwrap() {
        says("floor", &floor["watts"]);
    }
    if let Some(joules) = device["gaps"]["joules"]["value"].as_f64() {
        let seconds = 1e-9 * number(&device["gaps"]["time_ns"]);
        let watts = joules / seconds;
        let near = seconds < 0.1 || (watts / 20.0 - 1.0).abs() < 2.0 * allowed;
        assert!(near, "gaps: {watts} W in {seconds} s");
    }
    let counters = energy["application"].as_array().unwrap();
    assert_eq!(counters.len(), WATTS.len(), "{energy:#}");
    for counter in counters {
        let name = counter["sensor"].as_str().unwrap();
        let (_, _, watts) = WATTS
            .iter()
            .find(|w| name.rsplit(['/', ' ']).next() == Some(w.1))
            .unwrap_or_else(|| panic!("{name}"));
        let mean = number(&counter["joules"]) / (1e-9 * number(&counter["time_ns"]));
        let allowed = shown.tolerance(1e-9 * number(&counter["time_ns"]));
        assert!((mean / watts - 1.0).abs() < allowed, "{name}: {mean} W, allowed {allowed}");
    }
    let names: Vec<_> =
        device["classes"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"alpha") && names.contains(&"beta"), "{names:?}");
    assert!(number(&energy["sampler"]["cpu_ns"]) > 0.0);
    // For people, too.
    let text = stage
        .clscope(["report", &stage.trace("t").display().to_string(), "--section", "energy"])
        .run()
        .success()
        .stdout;
    assert!(
        text.contains("P_CPU = P_PKG") && text.contains("alpha") && text.contains("idle power"),
        "{text}"
    );
}

#[test]
fn a_counter_that_goes_backwards_is_told_and_costs_only_a_gap() {
    let stage = Stage::new(Runtime::Pocl);
    let tree = Tree::new(&stage.join("tree"), LATE);
    let root = tree.root.display().to_string();
    // Once the sampler is at work, much of what was counted so far is lost, as on a reset: more
    // than a busy machine could make up for.
    let shown = tree.record(&stage, &["--sysfs-root", &root], &[4_000_000_000, 0, 0]);
    let energy = energy(&stage, &[]);
    let notes = energy["notes"].to_string();
    assert!(notes.contains("jumped"), "{notes}");
    let device = &energy["devices"][0];
    let watts = number(&device["mean_watts"]);
    let allowed = 2.0 * shown.tolerance(1e-9 * number(&device["time_ns"]));
    assert!((watts / 20.0 - 1.0).abs() < allowed, "{watts} W, allowed {allowed}, {notes}");
    assert_conserved(device);
}

#[test]
fn without_sensors_the_report_says_why_and_has_everything_else() {
    let stage = Stage::new(Runtime::Pocl);
    let empty = stage.join("empty");
    std::fs::create_dir(&empty).unwrap();
    for (options, want) in [
        (vec!["--sensors", "off"], "--sensors off"),
        (vec!["--sysfs-root", empty.to_str().unwrap()], "no sensor"),
    ] {
        let app = clscope_tests::artifacts().fixture("two_powers").display().to_string();
        let trace = stage.trace("t").display().to_string();
        let run = stage.clscope(["record", "-f", "-o", &trace, "--replay=1s"]).args(&options);
        let told = run.args(["--gpu-power", "pp1", "--", &app, "50"]).run().success().stderr;
        for what in ["--replay has no joules of what it captured", "--gpu-power has nothing"] {
            let line = told.lines().find(|line| line.contains(what));
            assert!(line.is_some_and(|line| line.contains(want)), "{told}");
        }
        record(&stage, &options, &["50"]);
        let energy = energy(&stage, &[]);
        let why = energy["absent"].as_str().unwrap_or_else(|| panic!("{energy}"));
        assert!(why.contains(want), "{why}");
        assert_eq!(energy["devices"], Value::Array(Vec::new()));
    }
    // In time to stop it, and also where no command will come.
    let trace = stage.trace("early").display().to_string();
    let run = stage.clscope(["record", "-f", "-o", &trace, "--replay", "--sensors", "off"]);
    let told = run.args(["--", "sh", "-c", "echo started >&2"]).run().success().stderr;
    let place = |what: &str| told.find(what).unwrap_or_else(|| panic!("no {what}: {told}"));
    assert!(place("--replay has no joules of what it captured") < place("started\n"), "{told}");
    // Preloaded alone there is no sampler, and the report says so.
    stage.app(Mode::Preload, "p", "two_powers 50").run().success();
    let trace = stage.trace("p").display().to_string();
    let text = stage.clscope(["report", "--all", &trace]).run().success().stdout;
    assert!(text.contains("Energy: absent: no sensors were read"), "{text}");
}

/// A stretch of device time: begin and end in ns of CLOCK_MONOTONIC_RAW, and the kernel, with the
/// place that it was launched from if that is known.
pub type Span = (f64, f64, String);

pub fn spans(stage: &Stage) -> Vec<Span> {
    let out = stage.join("t.json");
    stage
        .clscope([
            "export",
            "chrome",
            &stage.trace("t").display().to_string(),
            "-o",
            &out.display().to_string(),
        ])
        .run()
        .success();
    let document: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    let origin = number(&document["otherData"]["origin_ns"]);
    let mut spans: Vec<Span> = document["traceEvents"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["cat"] == "device,kernel")
        .map(|e| {
            let begin = origin + number(&e["ts"]) * 1e3;
            let name = e["name"].as_str().unwrap();
            let name = e["args"]["called_from"][0]
                .as_str()
                .map_or(name.to_owned(), |from| format!("{name} @ {from}"));
            (begin, begin + number(&e["dur"]) * 1e3, name)
        })
        .collect();
    spans.sort_by(|a, b| a.0.total_cmp(&b.0));
    spans
}

/// A RAPL counter of a package that draws so many watts from one moment to another, whatever runs.
pub fn flat(from: f64, to: f64, watts: f64) -> String {
    flat_in_steps(from, to, watts, 1e6)
}

/// The same of a counter that is updated every `step` nanoseconds.
pub fn flat_in_steps(from: f64, to: f64, watts: f64, step: f64) -> String {
    let mut text =
        "#clscope-readings 1\ndomain,0,energy:1000000/16384:4294967296,pkg,0,package-0\n"
            .to_owned();
    let mut at = from;
    while at < to {
        let counts = ((at - from).div_euclid(step) * step * 1e-9 * watts * 16384.0) as u64;
        text.push_str(&format!("0,{},{},{counts}\n", at as u64, at as u64 + 200));
        at += step / 2.0;
    }
    text
}

/// A RAPL counter, as the processor would have counted it: steps of a millisecond, counts of 2^-14
/// J, polled twice a step.
pub fn counted(spans: &[Span], watts: impl Fn(&str) -> f64, floor: f64) -> String {
    counted_roughly(spans, watts, floor, 5e8, (1e6, 0.0))
}

/// The same of a counter that is updated every `step` nanoseconds, by joules of which so many are
/// chance at each (standard deviation); with a rest of `rest` nanoseconds at either end.
pub fn counted_roughly(
    spans: &[Span],
    watts: impl Fn(&str) -> f64,
    floor: f64,
    rest: f64,
    (step, chance): (f64, f64),
) -> String {
    let (first, last) = (spans[0].0 - rest, spans[spans.len() - 1].1 + rest);
    // The sum of twelve that are spread evenly is nearly normal (Marsaglia's xorshift).
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut normal = || {
        let mut even = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(|_| even()).sum::<f64>() - 6.0
    };
    let mut off = 0.0;
    let mut text =
        "#clscope-readings 1\ndomain,0,energy:1000000/16384:4294967296,pkg,0,package-0\n"
            .to_owned();
    let (mut energy, mut at, mut next) = (0.0, first, 0);
    let mut poll = first;
    let mut shown = 0u64;
    let mut until = |to: f64| {
        while at < to {
            // Before, in, or after the span that comes next.
            let (stop, power) = match spans.get(next) {
                Some((begin, _, _)) if at < *begin => (begin.min(to), floor),
                Some((_, end, name)) if at < *end => (end.min(to), watts(name)),
                Some(_) => {
                    next += 1;
                    continue;
                }
                None => (to, floor),
            };
            energy += power * (stop - at) * 1e-9;
            at = stop;
        }
        energy
    };
    let mut update = first;
    while poll < last {
        poll += step / 2.0;
        while update <= poll {
            shown = (4_294_960_000 + ((until(update) + off) * 16384.0) as i64).cast_unsigned()
                % 4_294_967_296;
            off += chance * normal();
            update += step;
        }
        text.push_str(&format!("0,{},{},{shown}\n", poll as u64, poll as u64 + 200));
    }
    text
}

#[test]
fn without_the_command_the_process_samples_itself() {
    let stage = Stage::new(Runtime::Pocl);
    let tree = Tree::new(&stage.join("tree"), SOON);
    let (root, trace) = (tree.root.display().to_string(), stage.trace("p").display().to_string());
    stage
        .app(Mode::Preload, "p", "two_powers 100")
        .env("CLSCOPE_SYSFS_ROOT", &root)
        .run()
        .success();
    let report = stage.clscope(["report", &trace, "--format", "json"]).run().success().stdout;
    let energy = serde_json::from_str::<Value>(&report).unwrap()["energy"].clone();
    // Counters that stand still are read, and told from such that work.
    assert!(!energy["sampler"]["sources"].as_array().unwrap().is_empty(), "{energy}");
    assert!(number(&energy["sampler"]["sources"][0]["reads"]) >= 2.0, "{energy}");
    stage
        .app(Mode::Preload, "off", "two_powers 50")
        .env("CLSCOPE_SYSFS_ROOT", &root)
        .env("CLSCOPE_SENSORS", "off")
        .run()
        .success();
    let files = std::fs::read_dir(stage.trace("off"))
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap());
    assert!(files.collect::<Vec<_>>().iter().all(|name| !name.starts_with("sensors")));
}

#[test]
fn snapshots_read_sensors_around_each_command() {
    let stage = Stage::new(Runtime::Pocl);
    let tree = Tree::new(&stage.join("tree"), SOON);
    let root = tree.root.display().to_string();
    let bare = stage.app(Mode::Bare, "b", "accumulate 20").run().success().stdout;
    let app = clscope_tests::artifacts().fixture("accumulate").display().to_string();
    let trace = stage.trace("t").display().to_string();
    let told = stage
        .clscope([
            "record",
            "-q",
            "-o",
            &trace,
            "--sysfs-root",
            &root,
            "--snapshot",
            "--",
            &app,
            "20",
        ])
        .run()
        .success();
    assert_eq!(told.stdout, bare);
    let report = stage.clscope(["report", &trace, "--format", "json"]).run().success().stdout;
    let report = serde_json::from_str::<Value>(&report).unwrap();
    // Commands that are waited for are all timed.
    assert_eq!(report["processes"][0]["device_timing"], "event");
    let notes = report["energy"]["notes"].to_string();
    // 20 launches, one more that paints, one read: before and after each, and once at the start.
    let count = notes
        .split("snapshots: ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|n| n.parse::<u32>().ok());
    assert_eq!(count, Some(2 * 22 + 1), "{notes}");
    assert!(notes.contains("waited for"), "{notes}");
}

/// What decides about a kernel's joules: three figures, and every reading with its prediction.
#[test]
fn readings_that_decide_about_a_kernel_are_shown() {
    let stage = Stage::new(Runtime::Pocl);
    emulated(&stage);
    let plain = energy_of(&stage, &[]);
    assert!(plain["explained"].is_null(), "only where it was asked for");
    let kernels = plain["classes"].as_array().unwrap().iter().filter(|c| c["kind"] == "kernel");
    let kernel = kernels.clone().find(|c| c["joules"].is_object()).unwrap_or(&plain["classes"][0]);
    let name = kernel["name"].as_str().unwrap();
    let device = energy_of(&stage, &["--explain-energy", name]);
    let of = &device["explained"];
    assert_eq!((of["kernel"].as_str(), of["absent"].as_str()), (Some(name), None), "{of}");
    assert!(of["names"].as_array().unwrap().iter().any(|n| n == name), "{of}");
    let readings = of["readings"].as_array().unwrap();
    assert_eq!(readings.len() as f64, number(&device["readings"]), "all that were used");
    let at = |r: &Value| number(&r["at_ns"]);
    assert!(readings.windows(2).all(|pair| at(&pair[0]) < at(&pair[1])), "in order of time");
    // The package draws 20 W whatever runs, and so do the predictions say.
    let mean = |field: &str| {
        readings.iter().map(|r| number(&r[field])).sum::<f64>() / readings.len() as f64
    };
    let (measured, predicted) = (mean("measured_watts"), mean("predicted_watts"));
    assert!((measured / predicted - 1.0).abs() < 0.05, "{measured} {predicted}");
    // The strongest come first, and are the strongest of all.
    let pull = |i: usize| number(&readings[i]["pull_watts"]).abs();
    let strongest: Vec<usize> =
        of["strongest"].as_array().unwrap().iter().map(|i| i.as_u64().unwrap() as usize).collect();
    assert!(strongest.windows(2).all(|pair| pull(pair[0]) >= pull(pair[1])), "{of}");
    let last = pull(*strongest.last().unwrap());
    let above = (0..readings.len()).filter(|i| pull(*i) > last).count();
    assert!(above < strongest.len(), "{above} are stronger than the last one named");
    // The same as text and as a plot.
    let report = |more: &[&str]| {
        stage.clscope(["report", "t.clscope", "--explain-energy", name]).args(more).run()
    };
    let text = report(&[]).success().stdout;
    for part in ["what decides about it", "readings of the run that move its power most", "+ above"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = report(&["--format", "html"]).success().stdout;
    for part in ["Measured and predicted power", "Measured less predicted", "class=\"dot\" r=\"5\""]
    {
        assert!(page.contains(part), "{part}");
    }
    // Every row has its reasons.
    for class in plain["classes"].as_array().unwrap() {
        let device = energy_of(&stage, &["--explain-energy", class["name"].as_str().unwrap()]);
        assert_eq!(device["explained"]["kernel"], class["name"]);
    }
    // One that there is not: which there are.
    let wrong = stage.clscope(["report", "t.clscope", "--explain-energy", "no_such"]).run();
    assert_eq!(wrong.status.code(), Some(1), "{}", wrong.stdout);
    assert!(
        wrong.stderr.contains("no kernel or transfer of that name") && wrong.stderr.contains(name)
    );
}
