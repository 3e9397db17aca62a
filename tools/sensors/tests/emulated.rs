//! Every source over emulated trees: what is found, what is left out, what is reported, and what is
//! read while the tree changes. No sleeps: time is a counter, and the trees change between reads.

use clscope_sensors::doctor::{Observation, State, open_host};
use clscope_sensors::files::{Files, ReadAt, Roots, System};
use clscope_sensors::hwmon::Hwmon;
use clscope_sensors::rapl::perf::{Kernel, PerfCounter, PerfOpener, PerfPower, PowerPmu};
use clscope_sensors::rapl::powercap::Powercap;
use clscope_sensors::{
    EnergyUnit, Plane, Quantity, Range, RawNs, Reading, SensorError, SensorSource, Value,
};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

/// A tree below a temporary directory.
struct Tree {
    dir: TempDir,
    roots: Roots,
}

impl Tree {
    fn new() -> Tree {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::below(dir.path());
        Tree { dir, roots }
    }

    fn put(&self, path: &str, text: impl AsRef<[u8]>) -> &Tree {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn remove(&self, path: &str) {
        std::fs::remove_file(self.dir.path().join(path)).unwrap();
    }

    /// A powercap zone.
    fn zone(&self, place: &str, name: &str, energy: u64) -> &Tree {
        let base = format!("sys/class/powercap/{place}");
        self.put(&format!("{base}/name"), format!("{name}\n"))
            .put(&format!("{base}/max_energy_range_uj"), "262143328850\n")
            .put(&format!("{base}/energy_uj"), format!("{energy}\n"))
    }
}

/// The real files, but some paths refuse to open, as root-only files do for others.
struct Refusing(&'static str);

impl Files for Refusing {
    fn text(&self, path: &Path) -> io::Result<String> {
        System.text(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn ReadAt>> {
        if path.to_string_lossy().ends_with(self.0) {
            return Err(io::Error::from_raw_os_error(libc::EACCES));
        }
        System.open(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        System.list(path)
    }
    fn link_target_name(&self, path: &Path) -> io::Result<String> {
        System.link_target_name(path)
    }
}

fn read_all(source: &mut dyn SensorSource) -> (Vec<Reading>, Result<(), SensorError>) {
    let mut now = 0;
    let mut clock = || {
        now += 10;
        RawNs(now)
    };
    let mut got = Vec::new();
    let result = source.read(&mut clock, &mut |r| got.push(r));
    (got, result)
}

fn names(source: &dyn SensorSource) -> Vec<&str> {
    source.domains().iter().map(|d| d.name.as_str()).collect()
}

fn two_packages() -> Tree {
    let tree = Tree::new();
    // Indices against the order of the packages, and in both layouts: links and nested children.
    tree.zone("intel-rapl:0", "package-1", 100)
        .zone("intel-rapl:0:0", "dram", 101)
        .zone("intel-rapl:1", "psys", 500)
        .zone("intel-rapl:2", "package-0", 200)
        .zone("intel-rapl:2/intel-rapl:2:0", "core", 201)
        .zone("intel-rapl:2/intel-rapl:2:1", "uncore", 202)
        .zone("intel-rapl:2:1", "uncore", 202)
        .zone("intel-rapl-mmio:0", "package-0", 999)
        .put("sys/class/powercap/intel-rapl/enabled", "1");
    tree
}

#[test]
fn powercap_goes_by_names() {
    let tree = two_packages();
    let (mut source, problems) = Powercap::open(&System, &tree.roots).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let want =
        ["package-1", "package-1/dram", "psys", "package-0", "package-0/core", "package-0/uncore"];
    assert_eq!(names(&source), want);
    let planes: Vec<_> =
        source.domains().iter().map(|d| (d.plane.clone().unwrap(), d.package)).collect();
    assert_eq!(
        planes,
        [
            (Plane::Package, Some(1)),
            (Plane::Dram, Some(1)),
            (Plane::Platform, None),
            (Plane::Package, Some(0)),
            (Plane::Cores, Some(0)),
            (Plane::Graphics, Some(0)),
        ]
    );
    let range = Range::Wraps(262_143_328_850);
    assert_eq!(
        source.domains()[0].quantity,
        Quantity::Energy { unit: EnergyUnit::MICROJOULE, range }
    );
    let (got, result) = read_all(&mut source);
    result.unwrap();
    let values: Vec<_> = got.iter().map(|r| r.value).collect();
    assert_eq!(values, [100, 101, 500, 200, 201, 202].map(Value::Counter));
    assert!(got.iter().all(|r| r.stamp.before < r.stamp.after));
}

#[test]
fn amd_core_zone_is_one_core() {
    let tree = Tree::new();
    tree.zone("intel-rapl:0", "package-0", 1).zone("intel-rapl:0:0", "core", 1);
    tree.put("proc/cpuinfo", "vendor_id : AuthenticAMD\ncpu family : 25\nmodel : 97\n");
    let (source, _) = Powercap::open(&System, &tree.roots).unwrap();
    let core = &source.domains()[1];
    assert_eq!(core.plane, Some(Plane::SingleCore));
    assert!(core.includes.unwrap().contains("one core"));
}

#[test]
fn refused_powercap_says_what_helps() {
    let tree = two_packages();
    let error = Powercap::open(&Refusing("energy_uj"), &tree.roots).err().unwrap();
    assert!(matches!(error, SensorError::Denied { .. }), "{error:?}");
    assert_eq!(error.remedy(), Some("sudo clscope sensord"));
    assert!(error.to_string().contains("intel-rapl:0/energy_uj"), "{error}");
    // Only one zone refused: the others stand.
    let (source, problems) =
        Powercap::open(&Refusing("intel-rapl:1/energy_uj"), &tree.roots).unwrap();
    assert_eq!((source.domains().len(), problems.len()), (5, 1));
    let absent = Powercap::open(&System, &Tree::new().roots).err().unwrap();
    assert_eq!(absent.remedy(), Some("sudo modprobe intel_rapl_msr"));
    assert!(matches!(absent, SensorError::NotFound { .. }));
}

#[test]
fn broken_zones_are_problems_not_zeros() {
    let tree = two_packages();
    tree.put("sys/class/powercap/intel-rapl:0/max_energy_range_uj", "0");
    tree.remove("sys/class/powercap/intel-rapl:0:0/energy_uj");
    tree.put("sys/class/powercap/intel-rapl:1/name", "package-0");
    let (source, problems) = Powercap::open(&System, &tree.roots).unwrap();
    // The second zone of one name is left out, whichever it is.
    assert_eq!(names(&source), ["package-0", "package-0/core", "package-0/uncore"]);
    let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("max_energy_range_uj"), "{said:?}");
    assert!(said[1].contains("energy_uj"), "{said:?}");
    assert!(said[2].contains("repeats the name"), "{said:?}");
}

#[test]
fn zones_change_and_vanish_while_read() {
    let tree = two_packages();
    let (mut source, _) = Powercap::open(&System, &tree.roots).unwrap();
    tree.put("sys/class/powercap/intel-rapl:0/energy_uj", "150\n");
    assert_eq!(read_all(&mut source).0[0].value, Value::Counter(150));
    // Replaced by renaming, as a writer that wants no torn reads does it.
    let dir = tree.roots.sys.join("class/powercap/intel-rapl:0");
    std::fs::write(dir.join("new"), "160\n").unwrap();
    std::fs::rename(dir.join("new"), dir.join("energy_uj")).unwrap();
    assert_eq!(read_all(&mut source).0[0].value, Value::Counter(160));
    // Caught between cutting and filling: no reading, and no zero.
    for torn in ["", "x", "-5", "99999999999999999999"] {
        tree.put("sys/class/powercap/intel-rapl:0/energy_uj", torn);
        let (got, result) = read_all(&mut source);
        assert_eq!(got.len(), 5, "{torn}");
        assert!(matches!(result, Err(SensorError::Malformed { .. })), "{torn}");
    }
    tree.remove("sys/class/powercap/intel-rapl:0/energy_uj");
    let (got, result) = read_all(&mut source);
    assert_eq!(got.len(), 5);
    assert!(matches!(result, Err(SensorError::Vanished { .. })));
}

fn pmu_tree(mask: &str) -> Tree {
    let tree = Tree::new();
    let dir = "sys/bus/event_source/devices/power";
    tree.put(&format!("{dir}/type"), "9\n")
        .put(&format!("{dir}/cpumask"), mask)
        .put(&format!("{dir}/format/event"), "config:0-7\n");
    for (name, code) in [("cores", 1), ("pkg", 2), ("ram", 3), ("gpu", 4), ("psys", 5)] {
        let base = format!("{dir}/events/energy-{name}");
        tree.put(&base, format!("event=0x0{code}\n"))
            .put(&format!("{base}.unit"), "Joules\n")
            .put(&format!("{base}.scale"), "2.3283064365386962890625e-10\n");
    }
    for (cpu, package) in [(0, 0), (18, 1)] {
        tree.put(
            &format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id"),
            format!("{package}\n"),
        );
    }
    tree
}

/// Counters by script: config and cpu make the value; some configs are refused.
struct Script {
    refuse: fn(u64) -> Option<i32>,
}

struct Fixed(u64);

impl PerfCounter for Fixed {
    fn count(&self) -> io::Result<u64> {
        Ok(self.0)
    }
}

impl PerfOpener for Script {
    fn open(&self, pmu_type: u32, config: u64, cpu: u32) -> io::Result<Box<dyn PerfCounter>> {
        assert_eq!(pmu_type, 9);
        match (self.refuse)(config) {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(Box::new(Fixed((config << 32) + u64::from(cpu)))),
        }
    }
}

#[test]
fn perf_opens_every_event_on_every_package() {
    let tree = pmu_tree("0,18\n");
    let (mut source, problems) =
        PerfPower::open(&System, &tree.roots, &Script { refuse: |_| None }).unwrap();
    assert!(problems.is_empty());
    let want = [
        "package-0/core",
        "package-1/core",
        "package-0/uncore",
        "package-1/uncore",
        "package-0",
        "package-1",
        "psys",
        "package-0/dram",
        "package-1/dram",
    ];
    assert_eq!(names(&source), want);
    let (got, result) = read_all(&mut source);
    result.unwrap();
    assert_eq!(got[5].value, Value::Counter((2 << 32) + 18));
    let Quantity::Energy { unit, range: Range::Endless } = source.domains()[5].quantity else {
        panic!("{:?}", source.domains()[5])
    };
    assert_eq!(unit, EnergyUnit::power_of_two(32));
}

#[test]
fn perf_refusals_name_the_level() {
    let refuse = |_| Some(libc::EACCES);
    for (level, words) in [
        (Some("3\n"), "CAP_SYS_ADMIN"),
        (Some("2\n"), "CAP_PERFMON"),
        (Some("-1\n"), "security module"),
        (None, "cannot be read"),
    ] {
        let tree = pmu_tree("0\n");
        if let Some(level) = level {
            tree.put("proc/sys/kernel/perf_event_paranoid", level);
        }
        let error = PerfPower::open(&System, &tree.roots, &Script { refuse }).err().unwrap();
        assert!(error.to_string().contains(words), "{level:?}: {error}");
        assert_eq!(error.remedy(), Some("sudo clscope sensord"));
    }
    // One event refused by the hardware: the others stand.
    let tree = pmu_tree("0\n");
    let only_gpu = |config| (config == 4).then_some(libc::ENOENT);
    let (source, problems) =
        PerfPower::open(&System, &tree.roots, &Script { refuse: only_gpu }).unwrap();
    assert_eq!((source.domains().len(), problems.len()), (4, 1));
}

#[test]
fn perf_descriptions_that_make_no_sense_are_said() {
    let dir = "sys/bus/event_source/devices/power";
    let table = [
        ("events/energy-pkg", "umask=1"),
        ("events/energy-pkg.unit", "Watts"),
        ("events/energy-pkg.scale", "0"),
    ];
    for (file, text) in table {
        let tree = pmu_tree("0");
        tree.put(&format!("{dir}/{file}"), text);
        let pmu = PowerPmu::describe(&System, &tree.roots).unwrap();
        assert_eq!((pmu.events.len(), pmu.problems.len()), (4, 1), "{file}");
    }
    for (file, text) in [("type", "power"), ("cpumask", "all")] {
        let tree = pmu_tree("0");
        tree.put(&format!("{dir}/{file}"), text);
        let error = PowerPmu::describe(&System, &tree.roots).err().unwrap();
        assert!(matches!(error, SensorError::Malformed { .. }), "{file}: {error}");
    }
}

/// The kernel's own call, on the software PMU's CPU clock, which every machine has: opened
/// system-wide on CPU 0 as the energy events are. Where this is not allowed, the refusal must be
/// the typed one.
#[test]
fn the_real_system_call_counts_or_is_refused_in_words() {
    let tree = pmu_tree("0");
    let dir = "sys/bus/event_source/devices/power";
    // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, dressed up as package energy.
    tree.put(&format!("{dir}/type"), "1\n")
        .put(&format!("{dir}/events/energy-pkg"), "event=0x00\n");
    for name in ["cores", "ram", "gpu", "psys"] {
        tree.remove(&format!("{dir}/events/energy-{name}"));
    }
    let real_level =
        std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    tree.put("proc/sys/kernel/perf_event_paranoid", &real_level);
    match PerfPower::open(&System, &tree.roots, &Kernel) {
        Ok((mut source, _)) => {
            let mut last = 0;
            for _ in 0..3 {
                let (got, result) = read_all(&mut source);
                result.unwrap();
                let Value::Counter(count) = got[0].value else { panic!("{got:?}") };
                assert!(count > last, "{count} after {last}");
                last = count;
            }
        }
        Err(error) => assert!(matches!(error, SensorError::Denied { .. }), "{error:?}"),
    }
}

fn gpu_tree() -> Tree {
    let tree = Tree::new();
    let base = "sys/class/hwmon";
    tree.put(&format!("{base}/hwmon0/name"), "coretemp\n")
        .put(&format!("{base}/hwmon0/energy1_input"), "1\n")
        .put(&format!("{base}/hwmon1/name"), "xe\n")
        .put(&format!("{base}/hwmon1/energy2_input"), "4000\n")
        .put(&format!("{base}/hwmon1/device/uevent"), "DRIVER=xe\nPCI_SLOT_NAME=0000:03:00.0\n")
        .put(&format!("{base}/hwmon2/name"), "amdgpu\n")
        .put(&format!("{base}/hwmon2/power1_average"), "15000000\n")
        .put(&format!("{base}/hwmon2/power1_input"), "16000000\n")
        .put(&format!("{base}/hwmon2/freq1_input"), "1800000000\n")
        .put(&format!("{base}/hwmon2/temp1_input"), "-1000\n")
        .put(&format!("{base}/hwmon2/device/gpu_metrics"), [0x80u8, 0, 2, 1, 9, 9])
        .put(&format!("{base}/hwmon3/name"), "i915_gt1\n")
        .put(&format!("{base}/hwmon3/energy1_input"), "77\n");
    std::fs::create_dir_all(tree.dir.path().join("sys/devices/pci0000:00/0000:04:00.0")).unwrap();
    std::os::unix::fs::symlink(
        "../../../devices/pci0000:00/0000:04:00.0",
        tree.dir.path().join("sys/class/hwmon/hwmon3/device"),
    )
    .unwrap();
    tree
}

#[test]
fn hwmon_knows_its_drivers() {
    let tree = gpu_tree();
    let (mut sources, problems) = Hwmon::open(&System, &tree.roots).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    let got: Vec<&str> = sources.iter().map(|s| s.name()).collect();
    assert_eq!(
        got,
        ["hwmon:amdgpu:hwmon2", "hwmon:i915_gt1:0000:04:00.0", "hwmon:xe:0000:03:00.0"]
    );
    let amd = &mut sources[0];
    assert_eq!(amd.domains()[0].plane, Some(Plane::Apu));
    assert!(amd.domains()[0].includes.unwrap().contains("CPU"));
    let (readings, result) = read_all(amd);
    result.unwrap();
    let values: Vec<f64> = readings.iter().map(|r| r.value.magnitude()).collect();
    assert_eq!(values, [15e6, 16e6, 1800.0, -1000.0]);
    let xe = &sources[2];
    assert_eq!(names(xe), ["pkg/energy"]);
    assert_eq!(xe.domains()[0].device.as_ref().unwrap().pci.as_deref(), Some("0000:03:00.0"));
    // A discrete AMD card, and one that does not tell.
    tree.put("sys/class/hwmon/hwmon2/device/gpu_metrics", [0x80u8, 0, 1, 3]);
    let (sources, _) = Hwmon::open(&System, &tree.roots).unwrap();
    assert_eq!(
        (sources[0].domains()[0].plane.clone(), sources[0].domains()[0].includes),
        (Some(Plane::GpuCard), None)
    );
    tree.remove("sys/class/hwmon/hwmon2/device/gpu_metrics");
    let (sources, _) = Hwmon::open(&System, &tree.roots).unwrap();
    assert!(sources[0].domains()[0].includes.unwrap().contains("does not say"));
}

#[test]
fn hwmon_without_gpus_is_said() {
    let tree = Tree::new();
    tree.put("sys/class/hwmon/hwmon0/name", "coretemp\n");
    assert!(matches!(Hwmon::open(&System, &tree.roots), Err(SensorError::Unsupported { .. })));
    assert!(matches!(Hwmon::open(&System, &Tree::new().roots), Err(SensorError::NotFound { .. })));
}

/// A counter shared with the test, so that time can pass between reads.
struct Shared(Arc<AtomicU64>);

impl PerfCounter for Shared {
    fn count(&self) -> io::Result<u64> {
        Ok(self.0.load(Ordering::Relaxed))
    }
}

struct OneShared(Arc<AtomicU64>);

impl PerfOpener for OneShared {
    fn open(&self, _: u32, _: u64, _: u32) -> io::Result<Box<dyn PerfCounter>> {
        Ok(Box::new(Shared(Arc::clone(&self.0))))
    }
}

#[test]
fn doctor_opens_one_door_and_believes_no_dead_counter() {
    // powercap with packages: perf is left alone.
    let tree = two_packages();
    let refuse_all = Script { refuse: |_| Some(libc::EACCES) };
    let opened = open_host(&System, &tree.roots, &refuse_all);
    let states: Vec<_> = opened.findings.iter().map(|f| &f.state).collect();
    assert!(matches!(states[..], [State::Opened, State::Skipped(_), State::Absent]), "{states:?}");

    // A guest whose PMU has psys only, which reads 0 for ever.
    let tree = pmu_tree("0");
    for name in ["cores", "pkg", "ram", "gpu"] {
        tree.remove(&format!("sys/bus/event_source/devices/power/events/energy-{name}"));
    }
    let count = Arc::new(AtomicU64::new(0));
    let mut opened = open_host(&System, &tree.roots, &OneShared(Arc::clone(&count)));
    assert_eq!(opened.sources.len(), 1);
    let mut seen = Observation::new(&opened.sources);
    let mut decided = false;
    for ms in 0..=12u64 {
        decided = seen.read(&mut opened.sources, &mut || RawNs(ms * 100_000_000));
    }
    assert!(decided);
    seen.conclude(&mut opened.findings, &opened.finding_of);
    let finding = &opened.findings[opened.finding_of[0]];
    assert!(
        matches!(&finding.state, State::Dead(why) if why.contains("psys reads 0")),
        "{finding:?}"
    );
    // The same counter, alive.
    let mut seen = Observation::new(&opened.sources);
    for ms in 0..3u64 {
        count.fetch_add(1 << 20, Ordering::Relaxed);
        seen.read(&mut opened.sources, &mut || RawNs(ms * 1_000_000));
    }
    seen.conclude(&mut opened.findings, &opened.finding_of);
    assert_eq!(opened.findings[opened.finding_of[0]].state, State::Works);
}

#[test]
fn an_empty_machine_gives_findings_and_no_sources() {
    let opened = open_host(&System, &Tree::new().roots, &Script { refuse: |_| None });
    assert!(opened.sources.is_empty());
    let absent = opened.findings.iter().filter(|f| f.state == State::Absent).count();
    assert_eq!((absent, opened.findings.len()), (3, 3), "{:?}", opened.findings);
    assert!(opened.findings.iter().all(|f| f.why.is_some()));
}
