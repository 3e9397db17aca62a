//! Captured launches, measured when the application has ended (`clscope replay`): each gives what it
//! gave in the application, has the joules that it draws, and costs nothing but its own figure where
//! it crashes or does not end. What was measured stays, whatever ends the command.

use crate::energy::{LATE, Tree, energy_of, number};
use clscope_testing::Stream;
use clscope_tests::{Runtime, Stage, While, artifacts};
use clscope_trace::hash;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Watts at rest, and what each second of a processor adds to them in joules.
const IDLE: f64 = 5.0;
const BUSY: f64 = 20.0;

/// Records an application with its captures, in the trace `t`.
fn record(stage: &Stage, options: &[&str], app: &str, arguments: &[&str]) {
    let trace = stage.trace("t").display().to_string();
    let app = artifacts().fixture(app).display().to_string();
    let words = ["record", "-q", "-o", &trace, "--capture", "*", "--device-timing", "event"];
    let ran = stage.clscope(words).args(options).args(["--", &app]).args(arguments).run();
    ran.success();
}

/// What was measured, by the names of the kernels.
fn measured(stage: &Stage) -> Vec<Value> {
    let text = std::fs::read_to_string(stage.trace("t").join("measured.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn find_row<'r>(rows: &'r [Value], kernel: &str) -> &'r Value {
    let mut found = rows.iter().filter(|row| row["launch"]["name"] == kernel);
    found.next().unwrap_or_else(|| panic!("{kernel}: {rows:#?}"))
}

/// Ids that a folder of the system has an entry for each of.
fn numbers(path: &Path) -> impl Iterator<Item = u32> + use<> {
    let entries = std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
}

/// Processes that the one with an id has started and that are there.
fn children(of: u32) -> Vec<u32> {
    let lists = numbers(Path::new(&format!("/proc/{of}/task"))).filter_map(|thread| {
        std::fs::read_to_string(format!("/proc/{of}/task/{thread}/children")).ok()
    });
    let ids = |list: String| list.split(' ').filter_map(|id| id.parse().ok()).collect::<Vec<u32>>();
    lists.flat_map(ids).collect()
}

/// Nanoseconds that the processes have run which measure launches for the command with an id.
fn ran(of: u32) -> BTreeMap<u32, u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let proc = Path::new("/proc");
    let time = |process: u32| {
        let threads = proc.join(format!("{process}/task"));
        let of_thread = |thread: u32| {
            let text = read(&threads.join(format!("{thread}/schedstat")))?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        numbers(&threads).filter_map(of_thread).sum()
    };
    children(of).into_iter().map(|child| (child, time(child))).collect()
}

/// Records an application as [`record`] does, below a tree of sensors of which it knows nothing.
fn record_below_tree(runtime: Runtime, app: &str, arguments: &[&str]) -> (Stage, Tree) {
    let stage = Stage::new(runtime);
    let tree = Tree::with_planes(&stage.join("tree"), LATE, &[("intel-rapl:0", "package-0", IDLE)]);
    let root = tree.root.display().to_string();
    let options = ["--sensors", "rapl", "--sysfs-root", &root];
    tree.rises(|| record(&stage, &options, app, arguments));
    (stage, tree)
}

/// Measures the captures of the trace while the counter of the tree follows what the processor does
/// for them.
fn follow(stage: &Stage, tree: &Tree, options: &[&str]) -> String {
    let root = tree.root.display().to_string();
    let trace = stage.trace("t").display().to_string();
    let words = ["replay", &trace, "--sysfs-root", &root];
    let mut running = stage.clscope(words.iter().chain(options)).begin();
    let (goes_on, from, id) = (AtomicBool::new(false), Instant::now(), running.id());
    std::thread::scope(|scope| {
        let counting = While::new(&goes_on);
        scope.spawn(|| {
            let mut all: BTreeMap<u32, u64> = BTreeMap::new();
            while goes_on.load(Ordering::Relaxed) {
                for (process, time) in ran(id) {
                    let known = all.entry(process).or_default();
                    // A thread that has ended tells no more.
                    *known = time.max(*known);
                }
                let busy = all.values().sum::<u64>() as f64 * 1e-9;
                tree.draw(IDLE * from.elapsed().as_secs_f64() + BUSY * busy);
                std::thread::park_timeout(Duration::from_micros(500));
            }
        });
        let said = running.lines(Stream::Err).join("\n");
        let status = running.end();
        drop(counting);
        assert!(status.success(), "{said}");
        said
    })
}

/// Two kernels that do the same, one on what it finds, so that it is put back before each launch.
#[test]
fn captured_launches_have_the_joules_that_they_draw() {
    for runtime in Runtime::real() {
        let (stage, tree) = record_below_tree(runtime, "accumulate", &["40", "assign"]);
        let said = follow(&stage, &tree, &["--for", "30s"]);
        assert!(said.contains("measured 3 captured launches, "), "{said}");
        let rows = measured(&stage);
        assert_eq!(rows.len(), 3, "{rows:#?}");
        let joules = |name: &str| {
            let row = find_row(&rows, name);
            assert_eq!((&row["results"], &row["failed"]), (&"same".into(), &Value::Null));
            assert_eq!(row["on"]["is_same"], true, "{row:#}");
            assert!(row["sensor"].as_str().unwrap().starts_with("RAPL PKG"), "{row:#}");
            let windows = row["windows"].as_array().unwrap();
            assert!(!windows.is_empty(), "{row:#}");
            let of_window = |w: &Value| {
                let idle = number(&w["idle_watts"]["value"]);
                // The sampler's thread takes a part of a processor.
                assert!((IDLE * 0.9..IDLE + BUSY * 0.5).contains(&idle), "{row:#}");
                let aside = &w["restoring"];
                let restoring = match aside.is_null() {
                    true => 0.0,
                    false => (number(&aside["watts"]["value"]) - idle) * number(&aside["seconds"]),
                };
                let each = number(&w["seconds"]) / number(&w["launches"]);
                (number(&w["watts"]["value"]) - idle) * each - restoring
            };
            windows.iter().map(of_window).sum::<f64>() / windows.len() as f64
        };
        let (accumulate, assign) = (joules("accumulate"), joules("assign"));
        assert!(find_row(&rows, "accumulate")["windows"][0]["restoring"].is_object());
        assert!(find_row(&rows, "assign")["windows"][0]["restoring"].is_null());
        let ratio = accumulate / assign;
        // Putting back between launches wakes threads of the runtime, which neither alone does.
        assert!((0.6..2.5).contains(&ratio), "{accumulate} J, {assign} J");
        // A launch of some milliseconds of a processor's time.
        assert!(assign > 0.0 && assign < BUSY * 0.1, "{assign} J");
        // The report has them: a row each, and the run's own readings beside.
        let device = energy_of(&stage, &[]);
        let replays = device["replays"].as_array().unwrap();
        let row = replays.iter().find(|r| r["name"] == "assign").unwrap();
        assert_eq!((&row["failed"], row["batches"].as_u64() >= Some(3)), (&Value::Null, true));
        assert!(number(&row["joules_per_launch"]["value"]) >= assign, "{row:#} {assign}");
        // Once more: more of the same.
        follow(&stage, &tree, &["--for", "8s", "--kernels", "assign", "-q"]);
        assert_eq!(measured(&stage).len(), 4);
        let again = energy_of(&stage, &[]);
        let more = again["replays"].as_array().unwrap().iter().find(|r| r["name"] == "assign");
        assert!(more.unwrap()["batches"].as_u64() > row["batches"].as_u64(), "{again:#}");
    }
}

/// Reads and writes of two sizes, each some eight times as large: joules go with the bytes.
#[test]
fn transfers_have_the_joules_that_they_draw() {
    for runtime in Runtime::real() {
        let (stage, tree) = record_below_tree(runtime, "rounds", &["64", "4194304"]);
        let said = follow(&stage, &tree, &["--for", "20s"]);
        let rows = measured(&stage);
        let of = |command: &str, bytes: u64| {
            let is_it = |row: &&Value| {
                let transfer = &row["launch"]["transfer"];
                transfer["command"] == command && transfer["bytes"] == bytes
            };
            let row =
                rows.iter().find(is_it).unwrap_or_else(|| panic!("{command}: {said}\n{rows:#?}"));
            assert_eq!((&row["failed"], &row["on"]["is_same"]), (&Value::Null, &true.into()));
            let windows = row["windows"].as_array().unwrap();
            assert!(!windows.is_empty(), "{row:#}");
            let each = windows.iter().map(|w| {
                let idle = number(&w["idle_watts"]["value"]);
                (number(&w["watts"]["value"]) - idle) * number(&w["seconds"])
                    / number(&w["launches"])
            });
            each.sum::<f64>() / windows.len() as f64
        };
        for command in ["WriteBuffer", "ReadBuffer"] {
            let (small, large) = (of(command, 4 << 20), of(command, 32 << 20));
            // Copies of a processor that its caches hold in part, or not.
            assert!(small > 0.0 && (3.0..40.0).contains(&(large / small)), "{small} {large} J");
            assert!(large < BUSY * 0.2, "{large} J");
        }
        assert!(said.contains(" and 4 transfers, "), "{said}");
        let device = energy_of(&stage, &[]);
        let replays = device["replays"].as_array().unwrap();
        for way in ["host to device", "device to host"] {
            let of = replays.iter().filter(|row| row["name"] == way).collect::<Vec<_>>();
            assert!(of.len() == 2 && of.iter().all(|row| row["failed"].is_null()), "{device:#}");
        }
    }
}

/// What launches leave is put back where they would compute something else, and nowhere else, on a
/// machine that is busy with other things, too.
#[test]
fn a_busy_machine_changes_nothing_of_what_is_put_back() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        record(&stage, &["--sensors", "off"], "accumulate", &["3", "assign"]);
        let goes_on = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _busy = While::new(&goes_on);
            for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
                scope.spawn(|| {
                    while goes_on.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            stage.clscope(["replay", "-q", "t", "--for", "60s"]).run().success();
        });
        let rows = measured(&stage);
        for (kernel, is_put_back) in [("accumulate", true), ("assign", false)] {
            let row = find_row(&rows, kernel);
            assert_eq!(row["time"]["restored"], is_put_back, "{row:#}");
        }
    }
}

/// Puts another source into the place of a captured program.
fn replace(stage: &Stage, capture: &str, source: &str) {
    let folder = stage.trace("t").join("captures").join(capture);
    let path = folder.join("launch.json");
    let mut launch: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    std::fs::write(folder.join("other.cl"), source).unwrap();
    launch["program"]["files"] = json!([{
        "file": "other.cl", "language": "opencl-c", "bytes": source.len(),
        "hash": hash(source.as_bytes()),
    }]);
    std::fs::write(path, launch.to_string()).unwrap();
}

/// Writes to addresses that no process has.
const WILD: &str = "kernel void accumulate(global float *data, int rounds)
    { *(global float *)(16 + 4 * get_global_id(0)) = rounds; data[0] = 1; }";
/// Waits for what never comes.
const HANG: &str = "kernel void assign(global volatile float *data, int rounds)
    { while (data[0] != -1e30f) ; }";
/// Speaks.
const LOUD: &str = "kernel void paint(write_only image2d_t out) {
    int2 at = (int2)(get_global_id(0), get_global_id(1)); printf(\"spoken\\n\");
    write_imagef(out, at, 0.5f); }";

#[test]
fn a_launch_that_crashes_or_hangs_costs_its_own_figure() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        record(&stage, &["--sensors", "off"], "accumulate", &["3", "assign"]);
        replace(&stage, "accumulate.1", WILD);
        replace(&stage, "assign.1", HANG);
        replace(&stage, "paint.1", LOUD);
        let ran = stage.clscope(["replay", "t", "--for", "40s"]).run().success();
        assert_eq!(ran.stdout, "", "what kernels print goes nowhere");
        assert!(!ran.stderr.contains("spoken"), "{}", ran.stderr);
        let rows = measured(&stage);
        assert_eq!(rows.len(), 3, "{rows:#?}");
        let failed = |name: &str| find_row(&rows, name)["failed"].as_str().unwrap().to_owned();
        assert!(failed("accumulate").starts_with("its process was ended by "));
        let hang = failed("assign");
        assert!(hang.contains("the limit of 10 s for a launch"), "{hang}");
        assert!(hang.contains("while it ran for its results"), "{hang}");
        let paint = find_row(&rows, "paint");
        assert_eq!((&paint["failed"], &paint["results"]), (&Value::Null, &"same".into()));
        assert!(number(&paint["time"]["median_ns"]["value"]) > 0.0, "{paint:#}");
        for part in
            ["not measured: accumulate: its process was ended", "not measured: assign: its process"]
        {
            assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
        }
        // Reports go on.
        stage.clscope(["report", "t"]).run().success();
    }
}

#[test]
fn an_end_keeps_what_was_measured_and_leaves_no_process() {
    let stage = Stage::new(Runtime::Pocl);
    let tree = Tree::with_planes(&stage.join("tree"), LATE, &[("intel-rapl:0", "package-0", IDLE)]);
    let root = tree.root.display().to_string();
    record(&stage, &["--sensors", "off"], "accumulate", &["3", "assign"]);
    let trace = stage.trace("t");
    let kept = || std::fs::metadata(trace.join("measured.jsonl")).map_or(0, |m| m.len());
    for (signal, code) in [(libc::SIGINT, Some(130)), (libc::SIGKILL, None)] {
        let before = kept();
        let words = ["replay", "t", "--for", "30s", "--sysfs-root", &root];
        let (said, status) = tree.rises(|| {
            let mut running = stage.clscope(words).begin();
            while kept() == before {
                std::thread::yield_now();
            }
            running.signal(signal);
            let said = running.lines(Stream::Err).join("\n");
            (said, running.end())
        });
        assert_eq!(status.code(), code, "{said}");
        assert!(kept() > before);
        assert_eq!(said.contains("; interrupted"), signal == libc::SIGINT, "{said}");
    }
    assert!(measured(&stage).len() >= 2);
    let own = |line: &[u8]| String::from_utf8_lossy(line).contains("__replay");
    let trace = trace.display().to_string();
    let is_left = || {
        let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let mut lines = all.filter_map(|entry| {
            let folder = std::fs::read_link(entry.path().join("cwd")).ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            (own(&line) && trace.starts_with(&*folder.to_string_lossy())).then_some(line)
        });
        lines.next().is_some()
    };
    // Those of a command that was killed end by themselves.
    while is_left() {
        std::thread::yield_now();
    }
    // Nobody starts one by hand.
    let by_hand = stage.clscope(["__replay"]).run();
    assert_eq!(by_hand.status.code(), Some(1), "{}", by_hand.stderr);
    assert!(by_hand.stderr.contains("is started by"), "{}", by_hand.stderr);
}

/// Of two ranks that use one device at the same time the last to end measures; the other
/// says who is in the way, and what measures it later.
#[test]
fn of_two_ranks_on_one_device_the_last_to_end_measures() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime);
        let app = |name: &str| artifacts().fixture(name).display().to_string();
        let words = ["record", "--replay=3s", "--sensors", "off", "-o"];
        let first = stage.clscope(words).args(["first", "--", &app("stepwise")]);
        let mut first = first.env("PMIX_RANK", "0").limit(120).talk();
        first.hear();
        first.tell("20");
        let second = stage.clscope(words).args(["second", "--", &app("accumulate"), "20"]);
        let said = second.env("PMIX_RANK", "1").run().success().stderr;
        assert!(said.contains(" is recorded, too, and shares the device"), "{said}");
        assert!(said.contains("`clscope replay second.clscope`"), "{said}");
        let measured = |name: &str| {
            let file = stage.join(name).join("measured.jsonl");
            std::fs::read_to_string(file).map_or(0, |text| text.lines().count())
        };
        assert!(first.end().success());
        assert!(measured("first.clscope") > 0 && measured("second.clscope") == 0);
        stage.clscope(["replay", "second.clscope", "--for", "3s"]).run().success();
        assert!(measured("second.clscope") > 0);
    }
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_to_type() {
    let stage = Stage::new(Runtime::Pocl);
    let refused = |words: &[&str], part: &str| {
        let ran = stage.clscope(["replay"].iter().chain(words)).run();
        assert!(!ran.status.success(), "{words:?}");
        assert!(ran.stderr.contains(part), "{words:?} lacks {part}: {}", ran.stderr);
    };
    refused(&["nothing"], "nothing");
    for amount in ["5", "6:300", "0s", "10%"] {
        refused(&["t", "--for", amount], "expected a length of time above 0: 90s, 5m or 2h");
    }
    let app = artifacts().fixture("accumulate").display().to_string();
    let plain = ["record", "-q", "-o", "plain", "--sensors", "off", "--", &app];
    stage.clscope(plain).run().success();
    refused(&["plain"], "clscope record --capture '*' -- APP");
    record(&stage, &["--sensors", "off"], "accumulate", &["3"]);
    refused(&["t", "--kernels", "none"], "there are accumulate, paint");
    let quiet = stage.clscope(["replay", "t", "-q", "--kernels", "paint"]).run().success();
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    // SAFETY: this call cannot fail and takes no arguments.
    if unsafe { libc::geteuid() } != 0 {
        clscope_tests::skip("traces of other users: only root can make one", false);
        return;
    }
    let capture = stage.trace("t").join("captures/paint.1");
    std::os::unix::fs::chown(&capture, Some(12345), None).unwrap();
    refused(&["t", "--kernels", "paint"], "--trust");
    stage.clscope(["replay", "t", "--trust", "-q", "--kernels", "paint"]).run().success();
    // One capture alone is as much another's.
    let alone = ["kernel", "t.clscope/captures/paint.1", "--sensors", "off"];
    let ran = stage.clscope(alone).run();
    assert!(!ran.status.success() && ran.stderr.contains("--trust"), "{}", ran.stderr);
    stage.clscope(alone).arg("--trust").run().success();
}

/// Loaders differ in which variables they read: a driver is found by any of them.
#[test]
fn a_runtime_is_found_where_only_a_variable_names_its_driver() {
    let Some(Runtime::Intel(icd)) = Runtime::intel() else { return };
    let driver = std::fs::read_to_string(&icd).unwrap().trim().to_owned();
    let stage = Stage::new(Runtime::Intel(icd));
    record(&stage, &["--sensors", "off"], "accumulate", &["3"]);
    let empty = stage.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let run = |words: &[&str]| {
        let run = stage.clscope(words).env("OCL_ICD_VENDORS", &empty);
        run.env("OPENCL_VENDOR_PATH", &empty).env("OCL_ICD_FILENAMES", &driver).run().success()
    };
    let said = run(&["kernel", "t.clscope/captures/accumulate.1", "--sensors", "off"]).stdout;
    assert!(said.contains("the same as captured"), "{said}");
    run(&["replay", "t", "--kernels", "accumulate"]);
    let rows = measured(&stage);
    let last = rows.last().unwrap();
    assert_eq!((&last["failed"], &last["on"]["is_same"]), (&Value::Null, &true.into()));
}

/// Variables of the processes in which a command measures launches, until it ends.
fn variables_of_workers(running: &mut clscope_tests::Running) -> (Vec<Vec<String>>, String) {
    let (goes_on, id) = (AtomicBool::new(false), running.id());
    std::thread::scope(|scope| {
        let looking = While::new(&goes_on);
        let found = scope.spawn(|| {
            let mut all: BTreeMap<u32, Vec<String>> = BTreeMap::new();
            while goes_on.load(Ordering::Relaxed) {
                for child in children(id) {
                    let read = |name: &str| {
                        let bytes = std::fs::read(format!("/proc/{child}/{name}"));
                        String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
                    };
                    if read("cmdline").contains("__replay") {
                        let given = read("environ");
                        let given: Vec<String> = given.split('\0').map(str::to_owned).collect();
                        if given.len() > 1 {
                            all.insert(child, given);
                        }
                    }
                }
                std::thread::park_timeout(Duration::from_millis(1));
            }
            all.into_values().collect::<Vec<_>>()
        });
        let said = running.lines(Stream::Err).join("\n");
        drop(looking);
        (found.join().unwrap(), said)
    })
}

/// An application may choose its runtime and devices itself, and choose otherwise later: its launches
/// are measured under what it had at its first OpenCL call, at once and later.
#[test]
fn launches_are_measured_under_the_variables_that_their_application_has_set() {
    let stage = Stage::new(Runtime::Pocl);
    let app = artifacts().fixture("chooses").display().to_string();
    let mut cases =
        vec![("Portable Computing Language", None, vec!["POCL_MAX_PTHREAD_COUNT=1".to_owned()])];
    if let Some(Runtime::Intel(icd)) = Runtime::intel() {
        let driver = std::fs::read_to_string(&icd).unwrap().trim().to_owned();
        let own = format!("OCL_ICD_VENDORS={}", icd.display());
        cases.push(("Intel(R) OpenCL", None, vec![own, "POCL_MAX_PTHREAD_COUNT=2".to_owned()]));
        // Khronos's loader, which reads more variables, comes with the runtime.
        let folder = Path::new(&driver).parent().unwrap().to_owned();
        if folder.join("libOpenCL.so.1").is_file() {
            let none = stage.join("empty");
            std::fs::create_dir(&none).unwrap();
            let own = [
                format!("OCL_ICD_VENDORS={}", none.display()),
                format!("OCL_ICD_FILENAMES={driver}"),
            ];
            cases.push(("Intel(R) OpenCL", Some(folder), own.into()));
        }
    }
    for (platform, loader, own) in cases {
        let select = |run: clscope_tests::Run| match &loader {
            Some(folder) => run.env("LD_LIBRARY_PATH", folder),
            None => run,
        };
        let has_all = |found: &[Vec<String>], said: &str| {
            assert!(!found.is_empty(), "no process measured: {said}");
            let missing = found.iter().any(|given| own.iter().any(|one| !given.contains(one)));
            assert!(!missing, "{own:?}: {found:#?}");
        };
        let words =
            ["record", "-f", "-o", "t", "--replay=20s", "--keep-captures", "--sensors", "off"];
        let run = stage.clscope(words).args(["--", &app, "20"]).args(&own);
        let mut running = select(run).begin();
        let (found, said) = variables_of_workers(&mut running);
        assert!(running.end().success(), "{said}");
        has_all(&found, &said);
        let rows = measured(&stage);
        assert!(!rows.is_empty(), "{said}");
        for row in &rows {
            assert_eq!(
                (&row["failed"], &row["on"]["is_same"]),
                (&Value::Null, &true.into()),
                "{row:#}"
            );
            let name = row["on"]["platform"].as_str().unwrap();
            assert!(name.starts_with(platform), "{platform}: {row:#}");
        }
        // Later, and one capture alone: what chooses a library is taken from a trusted trace.
        let mut running = select(stage.clscope(["replay", "t", "--trust", "--for", "20s"])).begin();
        let (found, said) = variables_of_workers(&mut running);
        assert!(running.end().success(), "{said}");
        has_all(&found, &said);
        let capture = format!("t.clscope/captures/{}", kept(&stage)[0]);
        let alone = ["kernel", &capture, "--sensors", "off", "--trust", "--repeat", "10"];
        select(stage.clscope(alone)).run().success();
        // What is said now counts more.
        let (name, _) = own[0].split_once('=').unwrap();
        let run = select(stage.clscope(["replay", "t", "--trust", "--for", "5s"]));
        let mut running = run.env(name, "7").begin();
        let (found, said) = variables_of_workers(&mut running);
        running.end();
        let chosen = format!("{name}=7");
        assert!(found.iter().all(|given| given.contains(&chosen)), "{said}: {found:#?}");
    }
}

/// Captures that `record` made for measuring, by the names of their folders.
fn kept(stage: &Stage) -> Vec<String> {
    let all = crate::launches::captures::folders(&stage.trace("t"));
    all.into_iter().filter(|name| !name.ends_with(".jsonl")).collect()
}

/// Whatever keeps `record` from measuring a launch, its capture stays, and one line says how to go
/// on; what was measured is deleted.
#[test]
fn what_record_could_not_measure_stays_and_can_be_measured() {
    let stage = Stage::new(Runtime::Pocl);
    let tree = Tree::with_planes(&stage.join("tree"), LATE, &[("intel-rapl:0", "package-0", IDLE)]);
    let root = tree.root.display().to_string();
    let app = artifacts().fixture("rounds").display().to_string();
    let words = ["record", "-f", "-o", "t", "--replay=60s", "--sysfs-root", &root, "--", &app];
    let (said, status) = tree.rises(|| {
        let mut running = stage.clscope(words).args(["400"]).begin();
        let mut said = Vec::new();
        while let Some(line) = running.line(Stream::Err) {
            if line.contains("measuring 1 of") {
                running.signal(libc::SIGINT);
            }
            said.push(line);
        }
        (said.join("\n"), running.end())
    });
    // The application had ended.
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("; interrupted"), "{said}");
    let left = kept(&stage);
    let measured = measured_lines(&stage);
    assert!(!left.is_empty(), "{said}");
    let line = said.lines().find(|line| line.contains("left in the trace: ")).unwrap_or("");
    assert!(line.contains(&format!("left in the trace: {} captured", left.len())), "{said}");
    assert!(line.contains("`clscope replay t.clscope`"), "{said}");
    stage.clscope(["replay", "t.clscope", "--sysfs-root", &root, "--for", "1s"]).run().success();
    assert!(measured_lines(&stage) > measured);
    // Where nothing is in the way nothing is left, and nothing is said of it.
    let words = ["record", "-f", "-o", "t", "--replay=2s", "--sensors", "off", "--", &app];
    let whole = stage.clscope(words).args(["400"]).run().success().stderr;
    assert!(!whole.contains("left in the trace"), "{whole}");
    assert_eq!(kept(&stage), Vec::<String>::new(), "{whole}");
    assert!(measured_lines(&stage) > 0, "{whole}");
}

fn measured_lines(stage: &Stage) -> usize {
    let text = std::fs::read_to_string(stage.trace("t").join("measured.jsonl"));
    text.map_or(0, |text| text.lines().count())
}

/// An application that is ended before it has waited for any launch leaves no half capture.
#[test]
fn captures_that_are_not_whole_go_and_the_reason_is_said() {
    let stage = Stage::new(Runtime::Pocl);
    let app = artifacts().fixture("stepwise").display().to_string();
    let words = ["record", "-f", "-o", "t", "--replay=2s", "--sensors", "off", "--", &app];
    let mut app = stage.clscope(words).talk();
    let process: i32 = app.hear().trim().parse().unwrap();
    // Answered when the launches are made; nothing was waited for.
    assert_eq!(app.tell("leave 6"), "0");
    // SAFETY: a process of this test's own.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    app.end();
    assert_eq!(kept(&stage), Vec::<String>::new());
    assert_eq!(measured_lines(&stage), 0);
}

/// What a dry run says is what a recording can do: share of time, and the reason of the rest.
#[test]
fn a_dry_run_says_what_share_of_the_time_can_be_captured() {
    for runtime in Runtime::real() {
        let stage = Stage::new(runtime.clone());
        let known = stage.join("known");
        std::fs::create_dir_all(&known).unwrap();
        let (app, known) = (artifacts().fixture("captured"), known.display().to_string());
        for (case, share) in [("buffers", "100 %"), ("fine", "0 %")] {
            let words = ["record", "-f", "-o", "t", "--replay=plan"];
            let ran = stage.clscope(words).args(["--device-timing", "event", "--"]);
            let ran = ran.arg(&app).args([case, &known]).run().success();
            if ran.stdout.starts_with("skipped") {
                continue;
            }
            let said = format!("--replay can capture {share} of the kernels' device time");
            assert!(ran.stderr.contains(&said), "{runtime:?} {case}: {}", ran.stderr);
            let refused = ran.stderr.lines().any(|line| line.contains("cannot capture "));
            assert_eq!(refused, share == "0 %", "{runtime:?} {case}: {}", ran.stderr);
            assert!(!ran.stderr.contains("has no joules"), "{}", ran.stderr);
            assert_eq!(kept(&stage), Vec::<String>::new());
        }
    }
}

/// Kernels of one name and several programs are samples of their own: each has captures.
#[test]
fn kernels_of_one_name_are_captured_of_each_program() {
    let stage = Stage::new(Runtime::Pocl);
    let app = artifacts().fixture("named_alike").display().to_string();
    let words = ["record", "-f", "-o", "t", "--replay=plan", "--device-timing", "event", "--"];
    let said = stage.clscope(words).arg(&app).run().success().stderr;
    assert!(said.contains("--replay can capture 100 % of the kernels' device time"), "{said}");
    assert!(!said.contains("cannot capture"), "{said}");
}
