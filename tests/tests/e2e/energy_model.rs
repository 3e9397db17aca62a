//! The energy model of document 004 on a device whose joules are known: an OpenCL library in front
//! of PoCL (fixture `metered`) lets the counter of an emulated package rise by so much for each
//! statement, transfer and second of an operating state.

use crate::energy::{LATE, Tree};
use clscope_tests::{Runtime, Stage, artifacts};
use serde_json::Value;

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

/// A stage whose `clscope bench` finds the metered device, and the words that make it do so.
fn metered(stage: &Stage, together: f64) -> (Tree, impl Fn(&str) -> clscope_tests::Finished + '_) {
    let tree = Tree::of(&stage.join("tree"), LATE, &[("intel-rapl:0", "package-0", 0.0)]);
    let root = tree.root.display().to_string();
    let counter = tree.root.join("sys/class/powercap/intel-rapl:0/energy_uj");
    let library = artifacts().fixture("metered.so").display().to_string();
    let states = STATES.map(|(watts, seconds)| format!("{watts}:{seconds}")).join(",");
    let run = move |line: &str| {
        let words = format!("bench --opencl {library} --build --sysfs-root {root} {line}");
        let run = stage.clscope(words.split_whitespace());
        run.env("METERED_COUNTER", &counter)
            .env("METERED_NJ", NANOJOULES.map(|nj| nj.to_string()).join(","))
            .env("METERED_TOGETHER", together.to_string())
            .env("METERED_LINK", LINK.to_string())
            .env("METERED_STATES", &states)
            .run()
    };
    (tree, run)
}

#[test]
fn known_joules_by_class_are_found_again() {
    let stage = Stage::new(Runtime::Pocl);
    let (_tree, run) = metered(&stage, 0.0);
    let small = "--iterations 1 --blocks 1 --tpb 64 --repeat 3 --window 0.8 --json";
    let out = run(&format!("--reproduce 004/sec6.1 {small}")).success();
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
    near("whole", whole, sensor, 0.05);
    let parts = ["of that kernels", "of that transfers", "application: idle power"].map(here);
    near("sum", parts.iter().sum(), whole, 1e-9);
    assert!(parts.iter().all(|watts| *watts > 1.0), "{parts:?}");
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
    let out = run(&format!("virus {small} --budget 240 --json")).success();
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
    let line = format!("bench virus --sysfs-root {} {small}", empty.display());
    let refused = stage.clscope(line.split(' ')).run();
    let why = "no mixture's power was read; sensor: none";
    assert!(!refused.status.success() && refused.stderr.contains(why), "{}", refused.stderr);
}
