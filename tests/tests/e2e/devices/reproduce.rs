//! `clscope-lab --reproduce` on real runtimes at small sizes: what is measured, drawn and put
//! beside the documents' numbers; what ends early, fails or has no experiment. Refuses to judge
//! times.

use clscope_testing::schema;
use clscope_tests::{Finished, Runtime, Stage};
use serde_json::Value;

/// The command, with binaries of kernels in the test's own folder.
fn clscope(stage: &Stage, line: &str) -> Finished {
    let line = format!("--sensors off --repeat 3 --reproduce {line}");
    stage.lab(line.split_whitespace()).run()
}

fn document(text: &str) -> Value {
    let broken = schema::text_breaches(text);
    assert!(broken.is_empty(), "{broken:#?}");
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

fn file(stage: &Stage, path: &str) -> String {
    std::fs::read_to_string(stage.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

#[test]
fn an_experiment_has_the_documents_axes_and_numbers() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let small = "--sweep blocks=1,2,width=1,4 --iterations 8";
        let run = clscope(&stage, &format!("000/fig4.7a {small} -o out")).success();
        for word in ["over work-items", "width 4", "199.96", "HD Graphics 620", "here: "] {
            assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
        }
        // In the terminal ours stands in the same line, before the document's.
        let row = run.stdout.lines().find(|l| l.contains("largest, add, single precision"));
        let words: Vec<&str> = row.unwrap().rsplit("GFLOP/s").next().unwrap().split(' ').collect();
        let words: Vec<&str> = words.into_iter().filter(|w| !w.is_empty()).collect();
        assert!(words.len() >= 2 && words.last() == Some(&"199.96"), "{words:?}");
        assert!(words[0].parse::<f64>().is_ok_and(|ours| ours > 0.0), "{words:?}");
        let of = document(&file(&stage, "out/reproduced.json"));
        let experiment = &of["experiments"][0];
        assert!(experiment["state"] == "measured", "{experiment}");
        let curves = experiment["curves"].as_array().unwrap();
        assert_eq!(curves.len(), 4, "two widths in two precisions: {curves:?}");
        // Twice the groups are twice the work-items.
        let x = |n: usize| curves[0]["points"][n]["x"].as_f64().unwrap();
        assert!(x(0) >= 1.0 && x(1) == 2.0 * x(0), "{curves:?}");
        let best = |case: &str| {
            let ours = curves.iter().filter(|c| c["name"].as_str().unwrap().contains(case));
            let points = ours.flat_map(|c| c["points"].as_array().unwrap());
            points.map(|p| p["y"]["value"].as_f64().unwrap()).fold(0.0, f64::max)
        };
        for (n, case, printed) in [(0, "/float/", 199.96), (1, "/double/", 49.98)] {
            let number = &experiment["numbers"][n];
            assert_eq!(number["printed"][0]["value"], printed);
            assert_eq!(number["here"]["value"], best(case), "{number}");
        }
        // The files of any run of `bench`, with the numbers as findings and the plot of the
        // document.
        let results = document(&file(&stage, "out/results.json"));
        let told = |f: &&Value| f["name"].as_str().unwrap().starts_with("reproduce/000/fig4.7a/");
        assert_eq!(results["findings"].as_array().unwrap().iter().filter(told).count(), 2);
        let page = file(&stage, "out/index.html");
        assert!(page.contains("199.96") || page.contains("200.0 GFLOP/s (HD Graphics 620)"));
        assert!(file(&stage, "out/000-fig4_7a.svg").contains("work-items"));
        // The table of the terminal is on the page.
        for word in ["<h2 id=\"experiment\">000/fig4.7a", "<th>HD Graphics 620", ">199.96"] {
            assert!(page.contains(word), "{word}");
        }
    }
}

#[test]
fn other_kinds_of_experiments_run_on_processors() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let all = |line: &str| {
            let run = clscope(&stage, &format!("{line} --format json")).success();
            document(&run.stdout)
        };
        let state = |line: &str| all(line)["experiments"][0].clone();
        // Products and sums: of mad where the device has no fma, and that is said.
        let of = all("000/fig4.4 --sweep blocks=1,2,width=1 --iterations 8");
        let units = of["device"]["compute_units"].as_u64().unwrap();
        let of = &of["experiments"][0];
        assert_eq!(of["state"], "measured", "{of}");
        assert!(of["numbers"][0]["here"]["value"].as_f64().unwrap() > 0.0, "{of}");
        let command = of["commands"][0].as_str().unwrap();
        let said = of["notes"][0].as_str().unwrap_or_default();
        let fma = command.contains("/float/fma/scalar --sweep blocks=1,2,width=1 --iterations 8");
        let mad = command.contains("/float/mad/scalar --sweep blocks=1,2,width=1 --iterations 8");
        assert!(fma && said.is_empty() || mad && said.contains("no single FMA"), "{of}");
        // A sweep of one axis with a quotient of two of its points: the document's 64 groups are
        // those of 4 units.
        let many = 64 * units.max(4) / 4;
        let of = state(&format!("002/fig12.3 --sweep blocks=1,{many}"));
        assert_eq!(of["state"], "measured");
        assert!(of["numbers"][0]["here"]["value"].as_f64().unwrap() > 0.0, "{of}");
        // The command is that of what ran.
        let command = format!("clscope-lab structure/store/1 --sweep blocks=1,{many} --repeat 3");
        assert_eq!(of["commands"][0], command);
        // Chains of products and sums, in four elements too, and loops with two conditions.
        for (line, numbers) in [
            ("002/fig10.1 --iterations 64", 5),
            ("002/fig11.4 --sweep precision=int,float --iterations 64", 18),
            ("002/fig9.1 --iterations 64", 3),
        ] {
            let of = state(line);
            assert_eq!(of["state"], "measured", "{of}");
            let all = of["numbers"].as_array().unwrap();
            assert_eq!(all.len(), numbers);
            assert!(all.iter().all(|n| n["here"]["value"].as_f64() > Some(0.0)), "{of}");
        }
        // A suite as it is; without a clock there are no cycles, and the reason is told.
        let of = state("001/tab6.7");
        assert!(of["numbers"][0]["here"].is_null() && !of["curves"][0]["points"][0].is_null());
        assert!(of["numbers"][0]["reason"].as_str().unwrap().contains("no clock"), "{of}");
        // The models' parameters and their worst quotients, from a grid of four points.
        let of = state("001/ch7 --sweep alpha=1,8,occupancy=1,4 --iterations 4");
        assert_eq!(of["state"], "measured", "{of}");
        let models = of["models"].as_array().unwrap();
        // All but that with contention, where none is seen, and those that need a clock.
        assert!(models.len() >= 5, "{models:?}");
        for model in models {
            let (over, under) = (model["over"].as_f64().unwrap(), model["under"].as_f64().unwrap());
            assert!(over >= under && under > 0.0, "{model}");
            assert!([1.0, 8.0].contains(&model["over_at"][0].as_f64().unwrap()), "{model}");
        }
        assert!(of["method"].as_str().unwrap().contains("clock"), "{of}");
        assert_eq!(of["numbers"][0]["printed"][4]["value"], 368.0, "Maxwell's memory latency");
        let latency = &of["numbers"][0];
        let known = latency["here"]["value"].as_f64().is_some_and(|x| x > 0.0);
        assert!(known || latency["reason"].as_str().unwrap().contains("no clock"), "{of}");
        // Models at accesses alone, a mix, and additions alone: a curve of each, and what stands at
        // the most work-items is that of the curve.
        let grid = "--sweep alpha=1,32,occupancy=1,4 --iterations 4";
        for (name, mixes) in [("001/fig7.8", 2), ("001/fig7.9", 1), ("001/fig4.12", 1)] {
            let of = state(&format!("{name} {grid}"));
            assert_eq!(of["state"], "measured", "{of}");
            let curves = of["curves"].as_array().unwrap();
            let measured = |c: &&Value| c["name"].as_str().unwrap().starts_with("measured, ");
            assert!(curves.iter().filter(measured).count() >= mixes, "{of}");
            let point = |c: &Value| c["points"].as_array().unwrap().last().unwrap().clone();
            assert!(curves.iter().all(|c| point(c)["y"]["value"].as_f64() > Some(0.0)), "{of}");
            for row in of["numbers"].as_array().unwrap() {
                let known = row["here"]["value"].as_f64().is_some_and(|x| x > 0.0);
                let why = row["reason"].as_str().unwrap_or_default();
                assert!(known || why.contains("no clock"), "{row}");
            }
        }
        let of = state("001/fig5.2 --sweep occupancy=8,512,544 --iterations 4");
        assert!(of["numbers"][0]["here"]["value"].as_f64() > Some(0.0), "{of}");
        // Several names, and patterns; counters that no processor has are said to be missing.
        let line = "002/fig12.[3] 002/fig9.? --sweep blocks=1,2 --iterations 8";
        assert!(!clscope(&stage, line).status.success(), "brackets are no pattern");
        let run =
            clscope(&stage, "002/fig12.3 002/fig9.1 --counters --iterations 8 --sweep blocks=1,2");
        let run = run.success();
        assert!(run.stdout.contains("\n002/fig9.1: ") && run.stdout.contains("\n002/fig12.3: "));
        assert!(run.stderr.contains("--counters: no counter of this device"), "{}", run.stderr);
        let run = clscope(&stage, "002/fig9.? --iterations 8").success();
        assert!(run.stdout.contains("\n002/fig9.3: ") && !run.stdout.contains("\n002/fig12.3: "));
        // Without a sensor there is no power.
        let of = state("004/fig6.4a --sweep cores=1,2");
        assert_eq!(of["state"], "not_available", "{of}");
        assert!(of["reason"].as_str().unwrap().contains("no power was read"), "{of}");
    }
}

/// Kernels without loops at several occupancies, and what a clock inside kernels shows.
#[test]
fn whole_kernels_and_a_clock_inside_them_are_measured() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let state = |line: &str| {
            let run = clscope(&stage, &format!("{line} --format json")).success();
            document(&run.stdout)["experiments"][0].clone()
        };
        let here = |of: &Value, n: usize| of["numbers"][n]["here"]["value"].as_f64();
        for (line, curves) in [
            ("001/fig3.6 --sweep tpb=16,64", 2),
            ("001/fig3.7 --sweep tpb=16,64", 2),
            ("001/fig3.9 --sweep tpb=16,64", 2),
            ("001/fig3.11 --sweep tpb=16,64", 2),
        ] {
            let of = state(line);
            assert_eq!(of["state"], "measured", "{of}");
            assert_eq!(of["curves"].as_array().unwrap().len(), curves, "{of}");
            let numbers = of["numbers"].as_array().unwrap();
            assert!((0..numbers.len()).all(|n| here(&of, n) > Some(0.0)), "{of}");
        }
        // Groups over time: no more items at once than were launched.
        let of = state("001/fig5.1 --iterations 200");
        assert_eq!(of["state"], "measured", "{of}");
        let points = of["curves"][0]["points"].as_array().unwrap();
        assert_eq!((points.len(), of["curves"].as_array().unwrap().len()), (100, 2));
        assert!((0..2).all(|n| (0.0..=100.0).contains(&here(&of, n).unwrap())), "{of}");
        // Three clocks of a launch: the groups run within what the host waits for.
        let of = state("000/fig4.10 --sweep blocks=1,4");
        assert_eq!(of["state"], "measured", "{of}");
        let curve = |name: &str| {
            let all = of["curves"].as_array().unwrap();
            let ours = all.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("{of}"));
            ours["points"].as_array().unwrap().clone()
        };
        for (kernel, host) in curve("kernel time").iter().zip(curve("host time")) {
            let of_point = |end: &str| [kernel, &host].map(|p| p["y"][end].as_f64());
            let ([kernel, host], [low, _]) = (of_point("value"), of_point("low"));
            assert!(kernel > Some(0.0) && host > Some(0.0), "{of}");
            // The rate of the kernels' clock is known by a pause, as well as the machine lets: the
            // interval says how well.
            assert!(low.is_none_or(|low| low < 1.1 * host.unwrap()), "{of}");
        }
        // Single accesses: percentiles rise, where the processor's clock waits for loads.
        let of = state("001/fig6.5 --sweep occupancy=8,64 --iterations 64");
        if cfg!(target_arch = "x86_64") {
            assert_eq!(of["state"], "measured", "{of}");
            // A machine that does something else meanwhile leaves some of them unknown.
            let rising: Vec<f64> = (2..6).filter_map(|n| here(&of, n)).collect();
            assert!(rising.is_sorted() && rising.last() != Some(&0.0), "{of}");
        }
        // What has another name, and an axis that no experiment has.
        assert!(state("001/fig3.10 --sweep tpb=16")["name"] == "001/fig3.9");
        let run = clscope(&stage, "001/fig3.6 --sweep size=4096");
        assert!(!run.status.success() && run.stderr.contains("along this axis"), "{}", run.stderr);
        // Transfers and the time after a load are watched; without a sensor that is said.
        for line in ["004/fig6.3 --window 0.1", "004/sec6.1.1.3"] {
            let of = state(line);
            assert_eq!(of["state"], "not_available", "{of}");
            assert!(of["reason"].as_str().unwrap().contains("no power was read"), "{of}");
        }
        // Neighbours that read every other word.
        let run = clscope(&stage, "001/fig4.3 --iterations 8").success();
        assert!(run.stdout.contains("stride of 2, latency"), "{}", run.stdout);
    }
}

#[test]
fn all_experiments_keep_to_a_budget_and_go_on_after_a_failure() {
    let stage = Stage::new(Runtime::Pocl);
    let of = |line: &str| {
        let run = clscope(&stage, line);
        (document(&file(&stage, "out/reproduced.json")), run)
    };
    // Nothing can be measured in a millisecond, and everything is named all the same.
    let (none, run) = of("all --budget 0.001 -o out");
    let run = run.success();
    let experiments = none["experiments"].as_array().unwrap();
    let states: Vec<&str> = experiments.iter().filter_map(|e| e["state"].as_str()).collect();
    assert!(states.len() > 60 && states.len() == experiments.len());
    assert!(
        states.iter().all(|s| ["cut_short", "not_reproducible", "computed"].contains(s)),
        "{states:?}"
    );
    assert!(run.stdout.contains("cut short: 000/") && run.stdout.contains("not reproducible: "));
    // No vector has three elements: what needs vectors fails, the rest goes on.
    let (some, run) = of("all --budget 10 --iterations 2 --sweep width=3 -o out");
    assert!(!run.status.success());
    assert!(run.stderr.contains("experiments failed: ") && run.stderr.contains("000/fig4.4"));
    let state = |name: &str| {
        let mut all = some["experiments"].as_array().unwrap().iter();
        all.find(|e| e["name"] == name).unwrap()["state"].as_str().unwrap().to_owned()
    };
    assert_eq!(state("000/fig4.4"), "failed");
    assert!(["measured", "cut_short"].contains(&state("000/fig4.3").as_str()));
    assert!(stage.join("out/000-fig4.3/index.html").exists(), "its own directory");
    // One page leads to those that there are, and names the others with their reasons.
    let index = file(&stage, "out/index.html");
    assert!(index.contains("<a href=\"000-fig4.3/index.html\">000/fig4.3</a>"));
    let alone = experiments.iter().filter_map(|e| e["name"].as_str());
    assert!(alone.clone().count() > 60 && alone.clone().all(|name| index.contains(name)));
    assert!(!index.contains("href=\"000-fig4.4/") && index.contains("not reproducible: "));
}

/// Numbers of the documents' figures and tables: document, kind, numbers; `A-B` counts the last part
/// up.
const CAPTIONS: [(&str, &str, &str); 9] = [
    ("000", "fig", "2.1-11 3.1-2 4.1-17"),
    ("000", "tab", "2.1-5 3.1-6 4.1-3 A.1"),
    ("001", "fig", "1.1-3 2.1-4 3.1-11 4.1-13 5.1-5 6.1-6 7.1-14"),
    ("001", "tab", "2.1-9 3.1-4 4.1-3 6.1-7 7.1"),
    ("002", "fig", "2.1-4 3.1 4.1 5.1 7.1-6 8.1-3 9.1-4 10.1-7 11.1-4 12.1-9 13.1"),
    ("003", "fig", "1-14"),
    ("003", "tab", "1-2"),
    ("004", "fig", "2.1 3.1-5 6.1-5"),
    ("004", "tab", "2.1 6.1"),
];

fn expanded(numbers: &str) -> Vec<String> {
    let each = |word: &str| {
        let Some((first, last)) = word.split_once('-') else { return vec![word.to_owned()] };
        let (chapter, first) = first.rsplit_once('.').map_or(("", first), |(c, n)| (c, n));
        let dot = if chapter.is_empty() { "" } else { "." };
        let count = |n: &str| n.parse::<u32>().unwrap();
        (count(first)..=count(last)).map(|n| format!("{chapter}{dot}{n}")).collect()
    };
    numbers.split(' ').flat_map(each).collect()
}

#[test]
fn every_figure_and_table_of_the_documents_is_listed_with_what_becomes_of_it() {
    let stage = Stage::new(Runtime::Pocl);
    let listed = clscope(&stage, "list").success().stdout;
    let lines: Vec<&str> = listed.lines().collect();
    let mut named = 0;
    for (document, kind, numbers) in CAPTIONS {
        for number in expanded(numbers) {
            let name = format!("{document}/{kind}{number}");
            // Parts of a figure may be listed by themselves.
            let is_it = |line: &&str| {
                let word = line.trim_start().split(' ').next().unwrap_or_default();
                line.starts_with("  0") && word.trim_end_matches(['a', 'b']) == name
            };
            let at = lines.iter().position(is_it).unwrap_or_else(|| panic!("no {name}"));
            let next = lines[at + 1].trim_start();
            let said = ["measured", "computed", "not reproducible: "];
            let shown = lines[at].contains("shown by ");
            assert!(shown || said.iter().any(|s| next.starts_with(s)), "{name}: {next}");
            named += lines.iter().filter(|line| is_it(line)).count();
        }
    }
    // Nothing is listed as a figure or table that no document has.
    let is_caption = |line: &&&str| {
        let word = line.split('/').nth(1).unwrap_or_default();
        line.starts_with("  0") && (word.starts_with("fig") || word.starts_with("tab"))
    };
    assert_eq!(lines.iter().filter(is_caption).count(), named);
}

/// Experiments about power, on sensors that are emulated: one after another has its figure.
#[test]
fn power_of_experiments_is_tried_by_emulation() {
    let stage = Stage::new(Runtime::Pocl);
    let run = |line: &str| {
        let words = format!("--repeat 3 --format json --reproduce {line}");
        let run = stage.lab(words.split_whitespace());
        document(&run.run().success().stdout)
    };
    // A package that draws 30 W whatever runs, by its own counter.
    let tree = crate::energy::Tree::with_planes(
        &stage.join("tree"),
        crate::energy::LATE,
        &[("intel-rapl:0", "package-0", 30.0)],
    );
    let root = tree.root.display().to_string();
    let small = "--sweep cores=1,2 --window 0.6";
    let of = tree.rises(|| run(&format!("004/fig6.4a {small} --sysfs-root {root}")));
    let of = &of["experiments"][0];
    assert_eq!(of["state"], "measured", "{of}");
    let points = of["curves"][0]["points"].as_array().unwrap();
    for point in points {
        let watts = point["y"]["value"].as_f64().unwrap();
        assert!((watts / 30.0 - 1.0).abs() < 0.15, "{watts} W: {of}");
    }
    // The same of readings that were given, and refused with the line where they are none.
    let readings = stage.join("readings");
    let mut text = crate::energy::flat_in_steps(0.0, 100e9, 45.0, 10e6);
    std::fs::write(&readings, &text).unwrap();
    let given =
        format!("004/fig6.4b --sweep lanes=1,2 --window 0.6 --readings {}", readings.display());
    let of = run(&given);
    let watts = of["experiments"][0]["curves"][0]["points"][0]["y"]["value"].as_f64();
    assert!(watts.is_some_and(|w| (w / 45.0 - 1.0).abs() < 0.15), "{of}");
    text.push_str("none\n");
    std::fs::write(&readings, text).unwrap();
    let of = run(&given);
    let why = of["experiments"][0]["reason"].as_str().unwrap();
    assert!(why.contains("readings:"), "{why}");
    // What is computed needs no sensor and no device, and stands beside the document.
    for (name, numbers) in
        [("000/tab2.4", 9), ("000/tab3.2", 8), ("000/tab3.4", 9), ("001/tab3.4", 6)]
    {
        let of = run(&format!("{name} --opencl /nowhere.so"));
        assert_eq!(of["device"], Value::Null, "{of}");
        let of = &of["experiments"][0];
        assert_eq!(of["state"], "computed", "{of}");
        let rows = of["numbers"].as_array().unwrap();
        assert_eq!(rows.len(), numbers);
        for row in rows {
            let [here, printed] = [&row["here"]["value"], &row["printed"][0]["value"]];
            let [here, printed] = [here, printed].map(|x| x.as_f64().unwrap());
            assert!((here - printed).abs() <= 0.001 * printed, "{row}");
        }
    }
}

/// Models of the documents with parameters of the user's.
#[test]
fn models_take_parameters() {
    let stage = Stage::new(Runtime::Pocl);
    let with = |name: &str, given: &str| {
        let of = document(
            &clscope(&stage, &format!("{name} --with {given} --format json")).success().stdout,
        );
        let of = of["experiments"][0].clone();
        assert_eq!(of["state"], "computed", "{of}");
        of
    };
    let of = |of: &Value, what: &str| {
        let numbers = of["numbers"].as_array().unwrap();
        let row = numbers.iter().find(|n| n["what"] == what);
        row.unwrap_or_else(|| panic!("no {what}: {of}"))["here"]["value"].as_f64().unwrap()
    };
    // The Mali: one batch of 512 items of 5e6 words at 600 MHz takes 0.533 s, as in the document.
    // Twice the words or half the clock are twice the time, and items that fill one batch of four
    // cores more are one batch more.
    let mali = |given: &str| with("002/fig13.1", given);
    let usual = mali("wl=512,gs=2,I=5e6,F=600e6,pd=38,cores=4");
    assert!((of(&usual, "time") - 0.533).abs() < 0.001, "{usual}");
    assert_eq!(of(&mali("wl=512"), "time"), of(&usual, "time"), "the document's are the rest");
    for twice in ["I=1e7", "F=300e6"] {
        let time = of(&mali(twice), "time");
        assert!((time / of(&usual, "time") - 2.0).abs() < 1e-9, "{twice}: {time}");
    }
    let full = of(&usual, "work-items of a full batch");
    let batches = |items: f64| of(&mali(&format!("wl={items}")), "batches");
    assert_eq!((batches(full), batches(full + 2.0), batches(3.0 * full)), (1.0, 2.0, 3.0));
    // Huang's: without a limit of bandwidth there is no delay, and a warp more does no harm.
    let huang = |given: &str| with("001/fig7.10", given);
    let rate = |n: u32, service: f64| {
        let found = huang(&format!("n={n},alpha=8,service={service}"));
        let delay = of(&found, "delay by bandwidth");
        (of(&found, "additions, round-robin"), delay)
    };
    assert_eq!(rate(4, 1e-9).1.round(), 0.0);
    assert!(rate(4, 0.5).1 < rate(8, 0.5).1, "more warps wait longer for memory");
    assert!(rate(8, 1e-9).0 > 1.5 * rate(4, 1e-9).0, "few warps hide nothing");
    assert!(of(&huang("alpha=0"), "additions, round-robin") == 0.0);
    for (line, said) in [
        ("002/fig13.1 --with gs=0", "gs=0: work-items of a group is a positive number"),
        ("002/fig13.1 --with alpha=1", "there is no parameter alpha: there are wl (work-items)"),
        ("002/fig13.1 --with gs", "gs"),
        ("002/fig13.1 001/fig7.10 --with n=1", "name one experiment that is a model"),
        ("000/fig4.4 --with n=1", "name one experiment that is a model"),
    ] {
        let refused = clscope(&stage, line);
        assert!(!refused.status.success() && refused.stderr.contains(said), "{}", refused.stderr);
    }
    let refused = stage.lab(["flop", "--with", "n=1"]).run();
    assert!(refused.stderr.contains("--reproduce"), "{}", refused.stderr);
}

#[test]
fn what_has_no_experiment_is_refused_with_the_nearest_names() {
    let stage = Stage::new(Runtime::Pocl);
    for (line, said) in [
        ("000/fig44", "the nearest are 000/fig4.4"),
        ("nonsense", "`clscope-lab --reproduce list` names all"),
        ("001/fig4.4", "001/fig4.4 cannot be reproduced: data sheets"),
        ("000/fig4.4 --full", "cannot be used with"),
        ("000/fig4.4 --sweep width=3", "experiments failed: 000/fig4.4"),
        ("list --format json", "the list of experiments is text"),
    ] {
        let refused = clscope(&stage, line);
        assert!(!refused.status.success() && refused.stderr.contains(said), "{}", refused.stderr);
    }
    let listed = clscope(&stage, "list").success().stdout;
    for word in [
        "000/fig4.7a  GFLOP/s over work-items",
        "clscope-lab flop/private/double/add/scalar --sweep blocks,width=1,2,4,8,16",
        "not reproducible: data sheets and no measurement",
        "the document has a picture alone",
    ] {
        assert!(listed.contains(word), "{word}: {listed}");
    }
}
