//! Verdicts on kernels that each have one limit built in (`tests/fixtures/apps/kernels/limits.c`), and on
//! those of suites of benchmarks (`suite.c` beside it), on what was counted and measured of them on a
//! device, with the parameters that `bench model` measured there: files of
//! `tools/models/tests/limits/`.

#[path = "limits/rows.rs"]
mod rows;

use clscope_mix::{Class, Instruction};
use clscope_models::device::{Device, name};
use clscope_models::energy;
use clscope_models::explain::{self, Options, Sure};
use clscope_models::facts::OnDevice;
use clscope_models::latency;
use clscope_models::predict::{Change, predict};
use clscope_models::roofline::{self, Family};
use rows::{CPUS, GPU, Measured, Row, SHARED, SPIRV, asked, kernel};
use std::collections::BTreeSet;

const ALL: Options<'static> = Options { least_share: 0.0, access_rates: false, wanted: &|_| true };

/// The verdict on each kernel: name, whether it is right, what was said.
fn judged(text: &str) -> (Device, Vec<(String, bool, String)>) {
    let measured: Measured = serde_json::from_str(text).unwrap();
    let device = Device::read(measured.device.to_string().as_bytes()).unwrap();
    let judge = |row: &Row| {
        let of = kernel(row);
        let on = OnDevice { kernels: vec![of], ..OnDevice::default() };
        let found = explain::device(&on, Some(&device), ALL).kernels.remove(0);
        let limit = serde_json::to_value(found.limit).unwrap();
        let limit = limit.as_str().unwrap_or("none").to_owned();
        let verdict = found.statements.iter().find(|s| s.topic == "verdict").unwrap();
        assert!(found.sure == Some(Sure::Certain) || found.decide.is_some() || limit == "launch");
        let is_right = row.limits.contains(&limit);
        assert!(found.sure != Some(Sure::Certain) || is_right, "{}: {}", row.name, verdict.text);
        (row.name.clone(), is_right, format!("{limit}: {}", verdict.text))
    };
    let rows = measured.kernels.iter().map(judge).collect();
    (device, rows)
}

/// At least so many of a hundred verdicts are right, and none of those that are called certain is
/// wrong.
fn mostly_right(text: &str, least: usize) {
    let (device, rows) = judged(text);
    assert!(rows.len() >= 16 && device.get(name::INT_DIV).is_ok(), "{} rows", rows.len());
    let wrong: Vec<String> =
        rows.iter().filter(|r| !r.1).map(|(name, _, said)| format!("{name}: {said}")).collect();
    let right = rows.len() - wrong.len();
    assert!(100 * right >= least * rows.len(), "{right} of {}: {wrong:#?}", rows.len());
}

#[test]
fn causes_that_are_built_in_are_named_on_a_cpu() {
    for device in CPUS {
        mostly_right(device, 90);
    }
    for device in SHARED {
        mostly_right(device, 95);
    }
}

/// Where nothing was counted, what a kernel's code does names more causes than none would.
#[test]
fn causes_are_named_by_code_alone() {
    let measured: Measured = serde_json::from_str(GPU).unwrap();
    let device = Device::read(measured.device.to_string().as_bytes()).unwrap();
    let right = |by_code: bool| {
        let is_right = |row: &&Row| {
            let mut of = kernel(row);
            of.by_code = rows::program(row).by_code(&row.name, row.items, Some(32));
            of.by_code = of.by_code.filter(|_| by_code);
            (of.mix, of.blocks, of.footprint) = (None, Vec::new(), None);
            let on = OnDevice { kernels: vec![of], ..OnDevice::default() };
            let found = explain::device(&on, Some(&device), ALL).kernels.remove(0);
            let limit = serde_json::to_value(found.limit).unwrap();
            row.limits.iter().any(|known| limit == known.as_str())
        };
        measured.kernels.iter().filter(is_right).count() * 100 / measured.kernels.len()
    };
    let (with, without) = (right(true), right(false));
    assert!(with >= 75 && with >= without + 25, "{with} of 100 are right, {without} without code");
}

/// Loops whose phis were read: what a turn takes over from the one before.
#[test]
fn loops_of_spirv_wait_for_what_they_carry() {
    let longest = |name: &str| {
        let function = SPIRV[0].functions.iter().find(|f| f.name == name && !f.kernel);
        let function = function.or_else(|| SPIRV[0].functions.iter().find(|f| f.name == name));
        let blocks = &SPIRV[0].blocks[function.unwrap().blocks.clone()];
        let latency = |of: &Instruction| match of.class {
            Class::SingleFma | Class::SingleDiv => 4.0,
            Class::LoadGlobal => 100.0,
            _ => 0.0,
        };
        blocks.iter().map(|b| latency::turn(b, latency).0).fold(0.0, f64::max)
    };
    // x waits for y of the turn before, w for the new x: 16 in three turns.
    assert!((longest("fused") - 16.0 / 3.0).abs() < 1.0, "{}", longest("fused"));
    // One dependent addition a turn, and one load.
    assert_eq!((longest("uneven"), longest("chain")), (4.0, 100.0));
}

/// Buffers that a kernel is given and does not read are no part of what it touches.
#[test]
fn arguments_that_are_read_are_known() {
    for (name, reads) in [("copy", vec![0, 2]), ("one_word", vec![2]), ("constants", vec![1, 2, 3])]
    {
        assert_eq!(SPIRV[0].arguments(name), Some(reads.into_iter().collect()), "{name}");
    }
}

/// A prediction and what was measured.
struct Judged {
    name: String,
    family: Family,
    /// Measured over predicted.
    ratio: f64,
    inside: bool,
    /// Its interval is that of its accesses, which may lie in any way, and not that of a family.
    open: bool,
}

/// Every kernel of a device whose time is predicted.
fn predicted(text: &str) -> Vec<Judged> {
    let measured: Measured = serde_json::from_str(text).unwrap();
    let device = Device::read(measured.device.to_string().as_bytes()).unwrap();
    let of = |row: &Row| {
        let kernel = kernel(row).on(&device);
        let bounds = roofline::bounds(&kernel, &device);
        let time = roofline::likely(&kernel, &device, &bounds)?;
        let family = Family::of(&device, roofline::dominant(&kernel, &device, &bounds)?);
        let ratio = row.time_ns / time.value;
        let name = format!("{} of {}: {ratio:.2}", row.name, device.platform);
        let inside = (time.low..=time.high).contains(&row.time_ns);
        let (least, most) = family.spread();
        let open = time.low < 0.999 * least * time.value || time.high > 1.001 * most * time.value;
        Some(Judged { name, family, ratio, inside, open })
    };
    measured.kernels.iter().filter_map(of).collect()
}

/// Nobody counts the longest of groups: a launch of which one group does nearly all is in no fit.
/// What is open has an interval of its own.
fn is_fitted(of: &Judged) -> bool {
    !of.name.starts_with("uneven") && !of.open
}

/// The least and the largest of what was measured over what is predicted.
fn ends<'j>(of: impl Iterator<Item = &'j Judged>) -> (f64, f64) {
    of.fold((f64::INFINITY, 0.0), |(low, high), j| (low.min(j.ratio), high.max(j.ratio)))
}

/// An interval from the kernels of a family holds so many of those that are left out of it in turn,
/// and those of the product are these intervals.
#[test]
fn intervals_of_times_hold_for_kernels_that_are_left_out() {
    let all: Vec<Judged> = CPUS.iter().chain([&GPU]).flat_map(|text| predicted(text)).collect();
    assert!(all.len() >= 60, "{} kernels", all.len());
    let others = |of: &Judged| {
        ends(all.iter().filter(|o| o.family == of.family && o.name != of.name && is_fitted(o)))
    };
    let held = |of: &&Judged| {
        let (low, high) = others(of);
        if of.open { of.inside } else { (low..=high).contains(&of.ratio) }
    };
    let left_out = all.iter().filter(held).count() as f64 / all.len() as f64;
    let inside = all.iter().filter(|j| j.inside).count() as f64 / all.len() as f64;
    let families: BTreeSet<_> = all.iter().map(|j| j.family).collect();
    let mut found = String::new();
    let mut is_product = true;
    for family in families {
        let (low, high) = ends(all.iter().filter(|j| j.family == family && is_fitted(j)));
        let (least, most) = family.spread();
        found += &format!("{family:?}: {low:.2} to {high:.2}, and not {least} to {most}\n");
        is_product &= (0.8..=1.0).contains(&(least / low)) && (1.0..=1.25).contains(&(most / high));
    }
    let mut wrong: Vec<f64> = all.iter().map(|j| (1.0 / j.ratio - 1.0).abs()).collect();
    wrong.sort_by(f64::total_cmp);
    let (median, most) = (wrong[wrong.len() / 2], wrong[wrong.len() * 9 / 10]);
    let mut rows: Vec<&str> = all.iter().map(|j| j.name.as_str()).collect();
    rows.sort_unstable();
    let all_of_it = format!(
        "left out {left_out:.3}, inside {inside:.3}, median {median:.2}, 90th percentile {most:.2}\n{found}{rows:#?}"
    );
    assert!(is_product, "{all_of_it}");
    assert!((0.9..=0.98).contains(&left_out) && inside >= 0.95, "{all_of_it}");
    assert!(median <= 0.25 && most <= 0.85, "{all_of_it}");
    let mut on_gpu: Vec<f64> = predicted(GPU).iter().map(|j| (1.0 / j.ratio - 1.0).abs()).collect();
    on_gpu.sort_by(f64::total_cmp);
    let (median, most) = (on_gpu[on_gpu.len() / 2], on_gpu[on_gpu.len() * 9 / 10]);
    assert!(
        median <= 0.1 && most <= 0.4,
        "median {median:.3}, 90th percentile {most:.3}: {all_of_it}"
    );
}

#[test]
fn causes_that_are_built_in_are_named_on_a_gpu() {
    mostly_right(GPU, 94);
}

/// More items with the same work each take no less time, and fewer no more, wherever the launch is
/// bound: one group waits as long as two.
#[test]
fn more_items_take_no_less_time() {
    for text in CPUS.iter().chain([&GPU]) {
        let (device, kernels) = asked(text);
        for kernel in kernels {
            let at = |by| {
                let change = Change { scale: Some(by), ..Change::default() };
                predict(&kernel, Some(&device), &change).unwrap().ns
            };
            let recorded = at(1.0).value;
            for (by, more) in [(0.001, -1.0), (0.1, -1.0), (0.5, -1.0), (2.0, 1.0), (100.0, 1.0)] {
                let ns = at(by);
                let is_so = more * (ns.value - recorded) >= -1e-6 * recorded;
                assert!(is_so, "{} {by} times: {ns:?}, {recorded} ns recorded", kernel.name);
                assert!(ns.low <= ns.value && ns.value <= ns.high, "{} {ns:?}", kernel.name);
            }
        }
    }
}

/// At a lower clock nothing is faster, whatever limits it; and of two clocks the lower one is slower.
#[test]
fn no_kernel_is_faster_at_a_lower_clock() {
    let (device, kernels) = asked(GPU);
    for kernel in kernels {
        let at = |mhz| {
            let change = Change { clock_mhz: Some(mhz), ..Change::default() };
            predict(&kernel, Some(&device), &change).unwrap().ns.value
        };
        let times = [at(1980.0), at(1700.0), at(1400.0), at(990.0)];
        assert!(times.windows(2).all(|w| w[1] >= 0.999 * w[0]), "{}: {times:?}", kernel.name);
    }
}

/// Groups smaller than a warp leave lanes idle: nothing becomes faster by that, but what waits for the
/// others of its group.
#[test]
fn lanes_that_rest_make_nothing_faster() {
    let (device, kernels) = asked(GPU);
    for kernel in kernels.iter().filter(|k| k.mix.as_ref().unwrap().barriers() == 0) {
        let of = |local| {
            let change = Change { local: Some(local), ..Change::default() };
            predict(kernel, Some(&device), &change).unwrap().ns
        };
        let (warp, two) = (of(32), of(2));
        assert!(two.value >= 0.99 * warp.value, "{}: {two:?} and {warp:?}", kernel.name);
        assert!(two.low <= two.value && two.value <= two.high, "{}: {two:?}", kernel.name);
    }
}

/// The ends of a bound lie on either side of it.
#[test]
fn bounds_lie_within_their_ends() {
    for text in CPUS.iter().chain([&GPU]) {
        let (device, kernels) = asked(text);
        for kernel in kernels {
            for b in roofline::bounds(&kernel, &device).bounds {
                let known = [Some(b.ns), b.most].into_iter().flatten();
                let holds = known.clone().all(|f| f.low <= f.value && f.value <= f.high);
                assert!(holds, "{}: {b:?}", kernel.name);
            }
        }
    }
}

/// The device's watts at rest before these kernels ran.
const IDLE_WATTS: f64 = 115.1;

/// Joules of kernels that are in no fit: the energy model knows microbenchmarks alone.
#[test]
fn joules_of_other_kernels_are_near_what_was_measured() {
    let measured: Measured = serde_json::from_str(GPU).unwrap();
    let device = Device::read(measured.device.to_string().as_bytes()).unwrap();
    let model = device.energy.as_ref().unwrap();
    let (mut errors, mut above, mut inside, mut rows) = (Vec::new(), Vec::new(), 0, Vec::new());
    for row in &measured.kernels {
        let Some((watts, ns)) = row.watts.zip(row.steady_ns) else { continue };
        let (kernel, seconds) = (kernel(row).on(&device), ns * 1e-9);
        let amounts = energy::of_launch(&kernel, &device, seconds).unwrap();
        let (joules, _) = model.joules(&amounts, seconds, IDLE_WATTS);
        let of = joules.value / seconds;
        errors.push((of / watts - 1.0).abs());
        // What hardly draws more than idle power has nothing above it to be judged by.
        if watts > 1.15 * IDLE_WATTS {
            above.push(((of - IDLE_WATTS) / (watts - IDLE_WATTS) - 1.0).abs());
        }
        inside += usize::from((joules.low..=joules.high).contains(&(watts * seconds)));
        rows.push(format!("{}: {of:.0} W for {watts:.0} W", row.name));
    }
    let held = inside as f64 / errors.len() as f64;
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (whole, dynamic) = (mean(&errors), mean(&above));
    errors.sort_by(f64::total_cmp);
    let (median, most) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
    let found = format!(
        "mean {whole:.3}, median {median:.3}, 90th percentile {most:.3}, above idle {dynamic:.3}, \
         inside {held:.3}: {rows:#?}"
    );
    // Numbers of some of them settle (`fused`, `polynomial`, `doubles`), which takes less than the fit.
    assert!(errors.len() >= 70 && whole <= 0.145 && median <= 0.085 && most <= 0.34, "{found}");
    assert!(dynamic <= 0.26 && held >= 0.9, "{found}");
}
