//! The energy model of document 004 on a device whose joules are known: an OpenCL library in front
//! of PoCL (fixture `metered`) lets the counter of an emulated package rise by so much for each
//! statement, transfer and second of an operating state.

use crate::energy::{LATE, Tree};
use clscope_tests::{Run, Runtime, Stage, While, artifacts};
use serde_json::Value;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Nanojoules of a statement, in the order of the experiment's rows.
const NANOJOULES: [f64; 14] = [
    1280.0, 3360.0, 3040.0, 1920.0, 960.0, 4160.0, 2720.0, 2080.0, 1600.0, 4800.0, 2880.0, 2400.0,
    4480.0, 1440.0,
];
/// Watts of transfers, and of the operating states, with their seconds.
const LINK: f64 = 40.0;
const STATES: [(f64, f64); 3] = [(30.0, 6.0), (22.0, 5.0), (15.0, 0.0)];

/// Nanojoules that a statement of a mixture takes more for each kind beside the first.
const TOGETHER: f64 = 900.0;

/// A stage whose `clscope-lab` finds the metered device, and the words that make it do so.
fn metered(stage: &Stage, together: f64) -> (Tree, impl Fn(&str) -> Run + '_) {
    let tree = Tree::with_planes(&stage.join("tree"), LATE, &[("intel-rapl:0", "package-0", 0.0)]);
    let root = tree.root.display().to_string();
    let counter = tree.root.join("sys/class/powercap/intel-rapl:0/energy_uj");
    let library = artifacts().fixture("metered.so").display().to_string();
    let states = STATES.map(|(watts, seconds)| format!("{watts}:{seconds}")).join(",");
    let run = move |line: &str| {
        let tree = match line.contains("--sysfs-root") {
            true => String::new(),
            false => format!("--sysfs-root {root} "),
        };
        let words = format!("--opencl {library} {tree}{line}");
        // The library knows kernels by what is built: no binary of an earlier run is there.
        let cache = stage.join("cache");
        if cache.exists() {
            std::fs::remove_dir_all(&cache).unwrap();
        }
        let run = stage.lab(words.split_whitespace());
        run.env("METERED_COUNTER", &counter)
            .env("METERED_NJ", NANOJOULES.map(|nj| nj.to_string()).join(","))
            .env("METERED_TOGETHER", together.to_string())
            .env("METERED_LINK", LINK.to_string())
            .env("METERED_STATES", &states)
    };
    (tree, run)
}

#[test]
fn known_joules_by_class_are_found_again() {
    let stage = Stage::new(Runtime::Pocl);
    let (_tree, run) = metered(&stage, 0.0);
    let small = "--iterations 1 --blocks 1 --tpb 64 --repeat 3 --window 0.8 --format json";
    let out = run(&format!("--reproduce 004/sec6.1 {small}")).run().success();
    assert_eq!(clscope_testing::schema::text_breaches(&out.stdout), Vec::<String>::new());
    let of: Value = serde_json::from_str(&out.stdout).unwrap();
    let of = &of["experiments"][0];
    assert_eq!(of["state"], "measured", "{of:#}");
    let rows = of["numbers"].as_array().unwrap();
    let here = |what: &str| {
        let row = rows.iter().find(|row| row["what"] == what);
        let row = row.unwrap_or_else(|| panic!("no {what}: {of:#}"));
        row["here"]["value"].as_f64().unwrap_or_else(|| panic!("{row:#}"))
    };
    let near = |what: &str, found: f64, truth: f64, within: f64| {
        assert!((found / truth - 1.0).abs() < within, "{what}: {found} of {truth}: {of:#}");
    };
    // Table 6.1.
    for (row, truth) in rows.iter().zip(NANOJOULES) {
        let what = row["what"].as_str().unwrap();
        near(what, here(what), truth, 0.02);
    }
    // What was not in the fit, and the sum of equation 6.1.
    assert!(here("mixtures left out of the fit: largest error") < 2.0, "{of:#}");
    near("idle", here("application: idle power"), STATES[0].0, 0.02);
    let (whole, sensor) =
        (here("application: all of equation 6.1"), here("application: by the sensor"));
    near("whole", whole, sensor, 0.03);
    let parts = ["of that kernels", "of that transfers", "application: idle power"].map(here);
    near("sum", parts.iter().sum(), whole, 1e-9);
    assert!(parts.iter().all(|watts| *watts > 1.0), "{parts:?}");
    // Kinds of a kernel's statements are all of it, each by its own joules.
    let kinds = [(0, "integer arithmetic"), (4, "float arithmetic"), (6, "float special")];
    let kinds = kinds.into_iter().chain([(13, "local memory"), (12, "global memory")]);
    let kinds: Vec<(f64, f64)> =
        kinds.map(|(k, what)| (NANOJOULES[k], here(&format!("of kernels, {what}")))).collect();
    near("kinds", kinds.iter().map(|(_, watts)| watts).sum(), parts[0], 1e-9);
    let joules: f64 = kinds.iter().map(|(nj, _)| nj).sum();
    for (nj, watts) in kinds {
        near("kind", watts, parts[0] * nj / joules, 0.03);
    }
    // 6 s in the first state, 5 s in the second, the rest in the last; pieces are of 0.4 s.
    let [(first, long), (second, longer), (last, _)] = STATES;
    let rest = first * long + second * longer + last * (20.0 - long - longer);
    near("rest", here("20 s without work, by operating states"), rest, 0.03);
}

/// The mean of a mixture's kinds, and what it takes more for their being different.
fn nanojoules(mixture: &[usize]) -> f64 {
    let mut kinds = mixture.to_vec();
    kinds.sort_unstable();
    kinds.dedup();
    let mean = mixture.iter().map(|k| NANOJOULES[*k]).sum::<f64>() / mixture.len() as f64;
    mean + TOGETHER * (kinds.len() - 1) as f64
}

#[test]
fn a_search_finds_the_mixture_that_draws_most() {
    let stage = Stage::new(Runtime::Pocl);
    let (_tree, run) = metered(&stage, TOGETHER);
    let small = "--iterations 1 --blocks 1 --tpb 64 --window 0.4";
    let out = run(&format!("virus {small} --budget 240 --format json")).run().success();
    assert_eq!(clscope_testing::schema::text_breaches(&out.stdout), Vec::<String>::new());
    let of: Value = serde_json::from_str(&out.stdout).unwrap();
    let best = &of["findings"][0];
    let text = best["text"].as_str().unwrap();
    // The options of the kernel that it names, back to kinds.
    let names = [
        "INT_ARITHMETIC",
        "INT_DIVISION",
        "INT_SPECIAL",
        "INT_OTHER",
        "FLOAT_ARITHMETIC",
        "FLOAT_DIVISION",
        "FLOAT_SPECIAL",
        "FLOAT_OTHER",
        "DOUBLE_ARITHMETIC",
        "DOUBLE_DIVISION",
        "DOUBLE_SPECIAL",
        "DOUBLE_OTHER",
        "MEMORY_GLOBAL",
        "MEMORY_LOCAL",
    ];
    let pair = |word: &str| {
        let name = word.strip_prefix("-DPAIR_")?.split('=').nth(1)?;
        names.iter().position(|n| *n == name)
    };
    let found: Vec<usize> = text.split(' ').filter_map(pair).collect();
    assert_eq!(found.len(), 5, "{text}");
    // All mixtures of five pairs.
    let mut most = 0.0f64;
    for n in 0..14usize.pow(5) {
        let mixture: Vec<usize> = (0..5).map(|at| n / 14usize.pow(at) % 14).collect();
        most = most.max(nanojoules(&mixture));
    }
    assert!(nanojoules(&found) > 0.98 * most, "{} of {most}: {text}", nanojoules(&found));
    let above = best["figures"].as_array().unwrap().iter().find(|f| f["name"] == "dynamic_power");
    // 64 items of 500 statements every 4 ms.
    let truth = 1e-9 * nanojoules(&found) * 64.0 * 500.0 / 4e-3;
    let watts = above.unwrap()["value"].as_f64().unwrap();
    assert!((watts / truth - 1.0).abs() < 0.1, "{watts} W of {truth}");
    // A tree without sensors: why there is none.
    let empty = stage.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let line = format!("virus --sysfs-root {} {small}", empty.display());
    let refused = stage.lab(line.split(' ')).run();
    let why = "no mixture's power was read; sensor: none";
    assert!(!refused.status.success() && refused.stderr.contains(why), "{}", refused.stderr);
}

/// Joules that the emulated counter shows.
fn joules(counter: &Path) -> f64 {
    // One write has all digits.
    let text = std::fs::read_to_string(counter).unwrap();
    text.trim().parse::<f64>().unwrap() * 1e-6
}

/// Seconds between readings of the meter.
const STEP: f64 = 0.04;

/// Writes what the device draws to a file, as a logger would, while the flag is set: by a clock of
/// its own, which shows 500 s at the start and goes `pace` times as fast as the host's. Now and then
/// a line is none, and once readings are missing for a while.
fn log(counter: &Path, mut file: File, pace: f64, goes_on: &AtomicBool) {
    file.write_all(b"Logger 3\nelapsed (s);P (mW)\n").unwrap();
    let begun = Instant::now();
    let (mut at, mut drawn, mut n) = (0.0, joules(counter), 0);
    while goes_on.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs_f64(STEP));
        let (now, all) = (begun.elapsed().as_secs_f64(), joules(counter));
        let milliwatts = 1e3 * (all - drawn) / (now - at);
        (at, drawn, n) = (now, all, n + 1);
        match n {
            30..45 => {}
            _ if n % 50 == 7 => file.write_all(b"overload;-\n").unwrap(),
            _ => writeln!(file, "{:.4};{milliwatts:.1}", 500.0 + pace * now).unwrap(),
        }
    }
}

#[test]
fn an_external_meter_is_a_sensor_of_a_benchmark() {
    let stage = Stage::new(Runtime::Pocl);
    let (tree, run) = metered(&stage, 0.0);
    let counter = tree.root.join("sys/class/powercap/intel-rapl:0/energy_uj");
    let parse = |text: &str| -> Value { serde_json::from_str(text).unwrap() };
    // One launch of 64 items of 500 statements every 4 ms, above the first state.
    let above = |kind: usize, groups: f64| 1e-9 * NANOJOULES[kind] * groups * 64.0 * 500.0 / 4e-3;
    let near = |what: &str, found: f64, truth: f64| {
        assert!((found / truth - 1.0).abs() < 0.05, "{what}: {found} of {truth} W");
    };
    let watts = |of: &Value, id: &str| {
        let case = of["cases"].as_array().unwrap().iter().find(|c| c["id"] == id);
        let case = case.unwrap_or_else(|| panic!("{id}: {of:#}"));
        let power = case["figures"].as_array().unwrap().iter().find(|f| f["name"] == "power");
        power.unwrap_or_else(|| panic!("{case:#}"))["value"].as_f64().unwrap()
    };
    // A command prints milliwatts with the host's time. It needs a while until it reads, and the
    // first line is no reading.
    let script =
        "sleep 2; read e < $0; p=${e#${e%%[!0]*}}; t=$(date +%s%N); echo time,mW; echo overload,- \n
        while sleep 0.03; do read e < $0; e=${e#${e%%[!0]*}}; n=$(date +%s%N)
        echo $n,$(((e-p)*1000000/(n-t))); p=$e; t=$n; done";
    std::fs::write(stage.join("meter.sh"), script).unwrap();
    let meter =
        format!("sh -c \"$(cat {})\" {}", stage.join("meter.sh").display(), counter.display());
    let small = "--iterations 1 --blocks 1 --tpb 64 --repeat 3 --window 1";
    let class = "classes/float/division";
    let words = format!("{class} {small} --gpu-power meter -o out --quiet");
    run(&words).args(["--meter", &meter]).run().success();
    let of = parse(&std::fs::read_to_string(stage.join("out/results.json")).unwrap());
    near("by a command", watts(&of, class), STATES[0].0 + above(5, 1.0));
    let source = of["power_source"].as_str().unwrap();
    for word in ["meter: P = P_meter", "by the arrival", "1 line of the table is no reading: 2"] {
        assert!(source.contains(word), "{word}: {source}");
    }
    let kept = std::fs::read_to_string(stage.join("out/meter.csv")).unwrap();
    assert!(kept.starts_with("time,mW\noverload,-"), "{kept}");
    // A processor's own sensor goes before it, and a meter that gives nothing is said.
    let out = run(&format!("{class} {small} --format json")).args(["--meter", "echo volts"]).run();
    let of = parse(&out.success().stdout);
    near("by RAPL", watts(&of, class), STATES[0].0 + above(5, 1.0));
    let source = of["power_source"].as_str().unwrap();
    assert!(source.starts_with("RAPL PKG") && source.contains("meter: no readings: "), "{source}");
    // An experiment of a document by a file that has a clock of its own, where there is no other
    // sensor: by the load, drift and all. Lines that are none and a gap are said.
    let empty = stage.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let log_file = stage.join("log.csv");
    let file = File::create(&log_file).unwrap();
    let experiment =
        "004/fig6.4a --sweep cores=12,16 --iterations 1 --tpb 64 --repeat 3 --window 4";
    let line = format!(
        "--reproduce {experiment} --format json -o figure --sysfs-root {}",
        empty.display()
    );
    let goes_on = AtomicBool::new(false);
    let out = std::thread::scope(|scope| {
        let logging = While::new(&goes_on);
        scope.spawn(|| log(&counter, file, 1.004, &goes_on));
        let out = run(&line).args(["--meter", &log_file.display().to_string()]).run();
        drop(logging);
        out.success()
    });
    let of = parse(&out.stdout);
    assert_eq!(of["experiments"][0]["state"], "measured", "{of:#}");
    let of = parse(&std::fs::read_to_string(stage.join("figure/results.json")).unwrap());
    let source = of["power_source"].as_str().unwrap();
    for word in
        ["placed by the load", "its clock", "no readings: ", "readings are missing in 1 gap"]
    {
        assert!(source.contains(word), "{word}: {source}");
    }
    let mixture = |groups| {
        let of = [0, 4, 0, 4, 3].map(|kind| above(kind, groups));
        STATES[0].0 + of.iter().sum::<f64>() / 5.0
    };
    for groups in [12.0, 16.0] {
        let id = format!("classes/mixture/arithmetic@cores={groups}");
        near(&id, watts(&of, &id), mixture(groups));
    }
    // What is no option of a run without sensors.
    let refused = stage.lab([class, "--sensors", "off", "--meter", "x"]).run();
    assert!(!refused.status.success() && refused.stderr.contains("--meter"), "{}", refused.stderr);
}

/// The clock that i915 shows, and what follows from it: operations of a cycle, and power by the
/// planes of the package that an integrated GPU has. Two kernels' places of the file.
#[test]
fn an_integrated_gpu_has_its_clock_and_operations_of_a_cycle() {
    const MHZ: f64 = 1050.0;
    let stage = Stage::new(Runtime::Pocl);
    let (tree, run) = metered(&stage, 0.0);
    let cores = Tree::with_planes(&tree.root, LATE, &[("intel-rapl:0:0", "core", 5.0)]);
    let card = tree.root.join("sys/class/drm/card1");
    for place in ["gt_act_freq_mhz", "gt/gt0/rps_act_freq_mhz"] {
        let file = card.join(place);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, format!("{MHZ:.0}\n")).unwrap();
        let case = "flop/private/float/mad/scalar";
        let words =
            format!("{case} --sensors always --window 1 --iterations 100 --blocks 1 --format json");
        let out = cores.rises(|| run(&words).env("METERED_GPU", "1").run().success().stdout);
        let of: Value = serde_json::from_str(&out).unwrap();
        assert!(of["power_source"].as_str().unwrap().starts_with("pkg-pp0: "), "{of:#}");
        let of = of["cases"].as_array().unwrap().iter().find(|c| c["id"] == case).unwrap();
        let figure = |name: &str| {
            let found = of["figures"].as_array().unwrap().iter().find(|f| f["name"] == name);
            found.unwrap_or_else(|| panic!("no {name}: {of:#}"))
        };
        let value = |name: &str| figure(name)["value"].as_f64().unwrap();
        assert_eq!(value("clock"), MHZ, "{place}");
        // What it executes draws nothing here: the first state, less the cores.
        let power = value("power");
        assert!((power / (STATES[0].0 - 5.0) - 1.0).abs() < 0.05, "{power} W");
        // Of the launches in the window of power: their rate at that clock.
        let per_cycle = 1e3 * value("steady_rate") / MHZ;
        assert_eq!(figure("rate_per_cycle")["unit"], "FLOP/cycle");
        assert!((value("rate_per_cycle") / per_cycle - 1.0).abs() < 1e-9, "{of:#}");
    }
}
