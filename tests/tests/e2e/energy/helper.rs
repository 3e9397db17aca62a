//! Sensors that the user may not read, by way of `clscope sensord`: its counters become joules, and
//! what cannot count does not stand in for it.

use crate::energy::{SOON, Tree, energy};
use clscope_tests::{Running, Runtime, Stage, Stream};
use std::path::Path;

/// A helper that hands out the counters of a tree, and what it says.
struct Helper {
    process: Running,
    socket: String,
}

impl Helper {
    /// `None` where the tests run as a user whose helper clients would not believe.
    fn start(stage: &Stage, tree: &Tree) -> Option<Self> {
        // SAFETY: these calls cannot fail and take no arguments.
        let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
        if user != 0 {
            clscope_tests::skip(
                "clscope sensord: only root can start a helper that clients believe",
                false,
            );
            return None;
        }
        let (root, socket) =
            (tree.root.display().to_string(), stage.join("s.sock").display().to_string());
        let group = group.to_string();
        let mut process = stage
            .clscope(["sensord", &group, "--socket", &socket])
            .args(["--sysfs-root", &root])
            .begin();
        let first = process.line(Stream::Err).expect("what it offers");
        assert!(first.contains("4 energy counters"), "{first}");
        Some(Self { process, socket })
    }

    /// Ends it when it was asked.
    fn asked(mut self) {
        while !self
            .process
            .line(Stream::Err)
            .expect("that it was asked")
            .contains("given to user 0")
        {}
        self.process.signal(libc::SIGTERM);
        assert!(!self.process.end().success());
    }
}

#[test]
fn a_helper_hands_counters_to_its_group() {
    let stage = Stage::new(Runtime::Pocl);
    let tree = Tree::new(&stage.join("tree"), SOON);
    let Some(helper) = Helper::start(&stage, &tree) else { return };
    let options = ["--sensors", "rapl", "--socket", &helper.socket, "--idle-window", "0.2"];
    tree.record(&stage, &options, &[0, 0]);
    helper.asked();
    let energy = energy(&stage, &[]);
    assert_eq!(energy["devices"][0]["formula"], "pkg", "{energy}");
    assert_eq!(energy["devices"][0]["sensors"][0], "helper package-0", "{energy}");
}

/// Some virtual machines show a platform counter that opens and reads 0 for ever.
#[test]
fn a_counter_that_never_counts_does_not_stand_in_for_the_helper() {
    let stage = Stage::new(Runtime::Pocl);
    let tree = Tree::new(&stage.join("tree"), SOON);
    let pmu = stage.join("power");
    std::fs::create_dir_all(pmu.join("events")).unwrap();
    std::fs::create_dir_all(pmu.join("format")).unwrap();
    for (name, text) in [
        ("type", "1234567"),
        ("cpumask", "0"),
        ("format/event", "config:0-7"),
        ("events/energy-psys", "event=0x05"),
        ("events/energy-psys.unit", "Joules"),
        ("events/energy-psys.scale", "2.3283064365386962890625e-10"),
    ] {
        std::fs::write(pmu.join(name), format!("{text}\n")).unwrap();
    }
    let shim = clscope_tests::artifacts().fixture("psys_shim.so");
    let with_psys = |options: &[&str], trace: &Path| {
        stage
            .clscope(["record", "-q", "-f", "-o"])
            .arg(trace)
            .args(options)
            .arg("--")
            .arg(clscope_tests::artifacts().fixture("two_powers"))
            .arg("20")
            .env("LD_PRELOAD", &shim)
            .env("PSYS_TREE", &pmu)
            .run()
            .success()
            .stderr
    };
    // It is there, and said to be dead.
    let doctor = stage.clscope(["doctor"]).env("LD_PRELOAD", &shim).env("PSYS_TREE", &pmu).run();
    assert!(doctor.stdout.contains("psys reads 0"), "{}", doctor.stdout);
    let Some(helper) = Helper::start(&stage, &tree) else { return };
    let options = ["--sensors", "rapl", "--socket", &helper.socket];
    let told = with_psys(&options, &stage.trace("t"));
    assert!(!told.contains("--socket"), "{told}");
    helper.asked();
    let sources = energy(&stage, &[])["sampler"]["sources"].to_string();
    assert!(sources.contains("helper"), "{sources}");
    // The helper is gone: that was asked for by name, and is said.
    let told = with_psys(&["--sensors", "rapl"], &stage.trace("u"));
    assert!(!told.contains("--socket"), "{told}");
    let gone = stage.join("gone.sock").display().to_string();
    let told = with_psys(&["--sensors", "rapl", "--socket", &gone], &stage.trace("v"));
    assert!(told.contains(&format!("--socket {gone}: ")), "{told}");
    let told = with_psys(&["--sensors", "nvml", "--socket", &gone], &stage.trace("w"));
    assert!(told.contains("not asked"), "{told}");
}
