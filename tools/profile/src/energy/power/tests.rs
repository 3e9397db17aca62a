//! Tests of `power`.

use super::*;
use clscope_sensors::gpu_power::Formula;
use clscope_trace::sensors::Series as Described;

fn counter(plane: &str, watts: f64) -> Sensor {
    let points = (0..3000).map(|ms| (HostNs(ms * 1_000_000), watts * ms as f64 * 1e-3)).collect();
    let name = format!("package-0/{plane}");
    let series = Described {
        source: "powercap".into(),
        name,
        plane: plane.into(),
        quantity: Quantity::Energy,
        package: Some(0),
        ..Default::default()
    };
    Sensor {
        host: 0,
        series,
        points,
        starts: Vec::new(),
        windows: Vec::new(),
        period_ns: Some(1e6),
        dead: None,
        repeats: false,
    }
}

fn samples(pci: &str, name: &str) -> Sensor {
    let series = Described {
        source: "nvml:ring:0".into(),
        name: "power-samples".into(),
        plane: "GPU".into(),
        quantity: Quantity::Power,
        pci: Some(pci.into()),
        device: Some(name.into()),
        ..Default::default()
    };
    let points = (0..300).map(|i| (HostNs(i * 20_000_000), 200.0 + i as f64)).collect();
    Sensor {
        host: 0,
        series,
        points,
        starts: Vec::new(),
        windows: Vec::new(),
        period_ns: None,
        dead: None,
        repeats: false,
    }
}

fn readings(sensors: Vec<Sensor>) -> Readings {
    Readings { sensors, any: true, ..Readings::default() }
}

fn formula(
    device: &PhysicalDevice,
    readings: &Readings,
    choice: Choice,
) -> Result<&'static str, NoPower> {
    power_of(device, std::slice::from_ref(device), readings, choice).map(|p| p.formula)
}

#[test]
fn a_card_is_measured_by_its_own_sensor_only() {
    let mut gpu = PhysicalDevice::named("NVIDIA H200", "NVIDIA Corporation", Kind::Gpu);
    let both = readings(vec![
        counter("PKG", 50.0),
        counter("PP0", 20.0),
        samples("0000:06:00.0", "NVIDIA H200"),
    ]);
    gpu.pci = Some("0000:06:00.0".into());
    let power = power_of(&gpu, &[gpu.clone()], &both, Choice::Auto).unwrap();
    assert_eq!((power.formula, power.matched.as_str()), ("nvml", "PCI address 0000:06:00.0"));
    assert!((power.period - 0.02).abs() < 1e-9);
    gpu.pci = Some("0000:07:00.0".into());
    assert!(formula(&gpu, &both, Choice::Auto).unwrap_err().to_string().contains("NVML"));
    // Where the runtime reports no address, the name of the only GPU will do, and of one of two
    // it will not.
    gpu.pci = None;
    assert_eq!(formula(&gpu, &both, Choice::Auto), Ok("nvml"));
    assert!(power_of(&gpu, &[gpu.clone(), gpu.clone()], &both, Choice::Auto).is_err());
}

#[test]
fn the_most_that_a_sensor_saw_is_of_all_kinds_of_series() {
    let at = |i: i64| HostNs(i * 10_000_000);
    let seen =
        |series| Power::of_series(series, ResponseModel::lagged_samples(0.01), 0.01, 0.06).seen();
    assert_eq!(
        seen(Series::Instant(vec![(at(0), 30.0), (at(1), 90.0), (at(2), 40.0)])),
        Some(90.0)
    );
    assert_eq!(seen(Series::WindowMean(vec![(at(0), at(1), 70.0)])), Some(70.0));
    // 100 W, each reading seen twice, and a counter that begins again.
    let counted = |from: i64| (0..20).map(move |i| (at(from + i), (i / 2 * 2) as f64));
    let found = seen(Series::Cumulative(counted(0).chain(counted(20)).collect())).unwrap();
    assert!((found - 100.0).abs() < 1e-9, "{found}");
    assert_eq!(seen(Series::Cumulative(Vec::new())), None);
}

#[test]
fn the_limit_of_a_card_is_its_own() {
    let limit = |pci: &str, watts: f64| {
        let mut sensor = samples(pci, "NVIDIA H200");
        (sensor.series.source, sensor.series.name) = ("nvml:limit:0".into(), POWER_LIMIT.into());
        sensor.series.plane = String::new();
        sensor.points = vec![(HostNs(0), watts), (HostNs(1), watts - 100.0)];
        sensor
    };
    let mut gpu = PhysicalDevice::named("NVIDIA H200", "NVIDIA Corporation", Kind::Gpu);
    gpu.pci = Some("0000:06:00.0".into());
    let of = |sensors: Vec<Sensor>| {
        let all = readings(sensors);
        let power = power_of(&gpu, std::slice::from_ref(&gpu), &all, Choice::Auto);
        power.unwrap().limit
    };
    let own = || samples("0000:06:00.0", "NVIDIA H200");
    assert_eq!(of(vec![own(), limit("0000:06:00.0", 700.0)]), Some(700.0));
    assert_eq!(of(vec![own(), limit("0000:07:00.0", 700.0)]), None);
    assert_eq!(of(vec![own(), limit("0000:06:00.0", 0.0)]), None, "0 is no limit");
    assert_eq!(of(vec![own()]), None);
}

#[test]
fn a_calibrated_response_narrows_the_search() {
    use crate::calibration::{Entry, Subject};
    let mut all = readings(vec![samples("0000:06:00.0", "NVIDIA H200")]);
    let subject =
        || Subject::Sensor { source: "nvml:ring:0".into(), domain: "power-samples".into() };
    let entry = Entry::new(subject()).with(super::super::readings::LAG, 14e6, Some(1e6)).with(
        super::super::readings::DELAY,
        3e6,
        None,
    );
    all.calibrate(&[entry]);
    let (_, response, ..) = single(&all.sensors[0], &all);
    let range = |p: Parameter| {
        if let Parameter::Free { from, to, typical, .. } = p {
            [from, typical, to]
        } else {
            panic!("{p:?}")
        }
    };
    for (found, want) in [
        (range(response.lag), [0.012, 0.014, 0.016]),
        (range(response.delay), [0.0024, 0.003, 0.0036]),
    ] {
        assert!(found.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
    }
    // A calibrated window is tried beside the usual lag: the run decides.
    let windowed = Entry::new(subject()).with(super::super::readings::WINDOW, 30e6, Some(1e6));
    all.calibrated.clear();
    all.calibrate(&[windowed]);
    let (_, response, ..) = single(&all.sensors[0], &all);
    assert!(
        range(response.window).iter().zip([0.028, 0.030, 0.032]).all(|(a, b)| (a - b).abs() < 1e-9)
    );
    assert_eq!(response.lag, ResponseModel::lagged_samples(0.02).lag);
    // Of another sensor nothing is known.
    all.sensors[0].series.name = "other".into();
    let (_, free, ..) = single(&all.sensors[0], &all);
    assert_eq!(free, ResponseModel::lagged_samples(0.02));
}

#[test]
fn a_gpu_in_the_processor_is_measured_by_planes() {
    let mut gpu =
        PhysicalDevice::named("Intel(R) UHD Graphics 620", "Intel(R) Corporation", Kind::Gpu);
    gpu.pci = Some("0000:00:02.0".into());
    let planes =
        |names: &[(&str, f64)]| readings(names.iter().map(|(n, w)| counter(n, *w)).collect());
    let all = planes(&[("PKG", 20.0), ("PP0", 8.0), ("PP1", 5.0), ("DRAM", 2.0)]);
    assert_eq!(formula(&gpu, &all, Choice::Auto), Ok("pp1"));
    assert_eq!(formula(&gpu, &all, Choice::Fixed(Formula::PkgPp0Dram)), Ok("pkg-pp0-dram"));
    let Some((Series::WindowMean(rows), _)) = reference(&gpu, &all) else {
        panic!("its three domains exist")
    };
    assert!(rows.iter().all(|r| (r.2 - 10.0).abs() < 1e-6), "20 - 8 - 2 W");
    let no_pp1 = planes(&[("PKG", 20.0), ("PP0", 8.0)]);
    assert_eq!(formula(&gpu, &no_pp1, Choice::Auto), Ok("pkg-pp0"));
    assert!(reference(&gpu, &no_pp1).is_none());
    let mut dead = planes(&[("PKG", 20.0), ("PP0", 8.0), ("PP1", 5.0)]);
    dead.sensors[2].dead = Some("reads 0".into());
    assert_eq!(formula(&gpu, &dead, Choice::Auto), Ok("pkg-pp0"));
    let cpu = PhysicalDevice::named("cpu", "x", Kind::Cpu);
    assert_eq!(formula(&cpu, &all, Choice::Auto), Ok("pkg"));
    // A formula of GPUs is not passed over without a word.
    let asked = Choice::Fixed(Formula::PkgPp0Dram);
    let power = power_of(&cpu, std::slice::from_ref(&cpu), &all, asked).unwrap();
    assert_eq!(power.formula, "pkg");
    assert!(power.reason.contains("--gpu-power pkg-pp0-dram"), "{}", power.reason);
    let card = PhysicalDevice::named("NVIDIA H200", "NVIDIA Corporation", Kind::Gpu);
    let error = formula(&card, &all, asked).unwrap_err().to_string();
    assert!(error.contains("does not apply"), "{error}");
}

#[test]
fn dram_above_what_pkg_leaves_disproves_containment() {
    let planes =
        |dram| readings(vec![counter("PKG", 2.0), counter("PP0", 1.0), counter("DRAM", dram)]);
    assert!(matches!(containment(&planes(3.4), 0), Containment::Disproved { .. }));
    assert!(matches!(containment(&planes(0.4), 0), Containment::NotDisproved { .. }));
    assert_eq!(containment(&readings(vec![counter("PKG", 2.0)]), 0), Containment::Untested);
}
