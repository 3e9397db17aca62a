//! Laws of what `explain` and `what-if` say, over kernels that were measured on a GPU and on CPUs
//! (`tools/models/tests/limits/`), and over transfers and gaps of every kind.

#[path = "limits/rows.rs"]
mod rows;

use clscope_mix::{Class, Tally};
use clscope_models::device::{Device, name};
use clscope_models::explain::{
    self, Explanatory, Lever, Measurement, Number, Options, Statement, Sure,
};
use clscope_models::facts::{OnDevice, Sized, Transfers};
use clscope_models::kernel::scaled;
use clscope_models::predict::{Change, predict};
use clscope_models::roofline::Resource;
use clscope_models::{Evidence, Figure, Kernel, Missing};
use clscope_trace::record::Direction;
use rows::{CPUS, GPU, Measured, asked};

const ALL: Options<'static> = Options { least_share: 0.0, access_rates: false, wanted: &|_| true };

fn explained(kernel: &Kernel, device: &Device) -> Explanatory {
    let on = OnDevice { kernels: vec![kernel.clone()], ..OnDevice::default() };
    explain::device(&on, Some(device), ALL).kernels.remove(0)
}

/// The limits of which one is built into each kernel.
fn limits_of(text: &str) -> Vec<Vec<String>> {
    let measured: Measured = serde_json::from_str(text).unwrap();
    measured.kernels.into_iter().map(|row| row.limits).collect()
}

/// Every kernel on its device, as it was counted and as less of it is known.
fn each(check: impl Fn(&Kernel, &Device)) {
    for text in CPUS.iter().chain([&GPU]) {
        let (device, kernels) = asked(text);
        for kernel in kernels {
            let without_mix = Kernel { mix: None, blocks: Vec::new(), ..kernel.clone() };
            let share = Figure::new(0.8, 0.75, 0.85, Evidence::Measured);
            let with_counters = Kernel {
                busy: [(Resource::Fp32, share)].into(),
                units_busy: Some(share),
                dram_share: Some(share),
                ..kernel.clone()
            };
            for kernel in [&kernel, &without_mix, &with_counters] {
                check(kernel, &device);
            }
        }
    }
}

/// Numbers of a text that no number beside it shows: digits that begin a word.
fn unnamed(text: &str, numbers: &[Number]) -> Vec<String> {
    let words = text.split(|c: char| c.is_whitespace() || "(),;:=/|".contains(c));
    // A number, and by how much rounding may change it.
    let digits = |word: &str| {
        let word = word.trim_start_matches(['+', '-', '~']);
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let word = word[..end].trim_end_matches('.');
        let decimals = word.split('.').nth(1).map_or(0, str::len);
        Some((word.parse::<f64>().ok()?, 0.51 * 0.1f64.powi(decimals as i32)))
    };
    let binary = [-40, -30, -20, -10].map(|power| 2f64.powi(power));
    let decimal = [1e-12, 1e-9, 1e-6, 1e-3, 1.0, 1e2, 1e3, 1e6, 1e9];
    let scales: Vec<f64> = decimal.into_iter().chain(binary).collect();
    let is_shown = |(shown, rounding): (f64, f64)| {
        numbers.iter().any(|n| {
            let Figure { value, low, high, .. } = n.value;
            // The longer side of an interval over its value is shown behind it, or both ends.
            let mut values =
                [value, (high - value).max(value - low) / value, low, high].into_iter();
            values.any(|v| scales.iter().any(|scale| (v * scale - shown).abs() <= rounding))
        })
    };
    words.filter_map(digits).filter(|n| !is_shown(*n)).map(|(n, _)| n.to_string()).collect()
}

/// A number that a sentence says stands beside it with its unit and interval. Joules have fields of
/// their own.
#[test]
fn numbers_of_sentences_are_values_too() {
    let statements = |of: &[Statement]| {
        for s in of.iter().filter(|s| !matches!(s.topic, "joules" | "rates")) {
            let lost = unnamed(&s.text, &s.numbers);
            assert!(lost.is_empty(), "{lost:?} of {}: {:?}", s.text, s.numbers);
            for n in &s.numbers {
                let Figure { value, low, high, .. } = n.value;
                assert!(low <= value && value <= high, "{n:?} of {}", s.text);
                assert!(!n.unit.is_empty() && !n.name.is_empty(), "{n:?}");
            }
        }
    };
    let levers = |of: &[Lever]| {
        for l in of {
            assert!(unnamed(&l.text, &l.numbers).is_empty(), "{l:?}");
        }
    };
    each(|kernel, device| {
        let found = explained(kernel, device);
        statements(&found.statements);
        levers(&found.levers);
    });
    let (mut device, _) = asked(GPU);
    for kind in ["gpu", "cpu"] {
        device.kind = kind.to_owned();
        let found = explain::device(&moved(), Some(&device), ALL);
        for of in &found.transfers {
            statements(&of.statements);
            levers(&of.levers);
        }
        let said = found.transfers.iter().map(|t| t.statements.len()).max();
        assert!(said >= Some(3), "{:#?}", found.transfers[0].statements);
        statements(&found.idle);
        levers(&found.idle_levers);
        assert!(!found.idle.is_empty() && !found.idle_levers.is_empty());
    }
}

/// Transfers from memory of every kind, and gaps.
fn moved() -> OnDevice {
    use clscope_analysis::host_memory::Class as Memory;
    let of = |rate: f64| {
        let each = [64u64, 4096, 1 << 20, 1 << 24].map(|bytes| {
            let ns = 3.0 * (9e3 + bytes as f64 / rate);
            (bytes, Sized { count: 3, timed: 3, ns, blocking: 3 })
        });
        Transfers { sizes: each.into(), ..Transfers::default() }
    };
    let by_memory = [
        (Memory::Pinned, of(50.0)),
        (Memory::Mapped, of(40.0)),
        (Memory::Application, of(5.0)),
        (Memory::Unknown, of(5.0)),
    ];
    let all = [Memory::Pinned, Memory::Mapped, Memory::Application, Memory::Unknown];
    let mut transfers = Transfers { by_memory: by_memory.into(), ..Transfers::default() };
    transfers.sizes = transfers.of_memory(&all).sizes;
    OnDevice {
        kernels: vec![Kernel::default()],
        transfers: [
            (Direction::HostToDevice, transfers.clone()),
            (Direction::DeviceToHost, transfers.clone()),
            (Direction::DeviceToDevice, transfers),
        ]
        .into(),
        gaps: vec![0.3e-3; 400].into_iter().chain([0.5, 0.25]).collect(),
        busy_s: Some(0.5),
        floor_watts: Some(Figure::new(80.0, 79.0, 81.0, Evidence::Measured)),
        ..OnDevice::default()
    }
}

/// What the sentence of the verdict names as next, the document has as next, launching and starting
/// groups with the rest.
#[test]
fn text_and_document_name_the_same_next_resource() {
    each(|kernel, device| {
        let found = explained(kernel, device);
        let verdict = found.statements.iter().find(|s| s.topic == "verdict").unwrap();
        let said = verdict.text.split("; next ").nth(1);
        let next = found.next.map(|next| next.resource.name());
        assert_eq!(said.map(|s| s.split(':').next().unwrap()), next, "{}", verdict.text);
        if let Some(next) = found.next {
            assert!(0.0 <= next.share && next.share <= next.most_share && next.most_share <= 1.0);
            assert!(Some(next.resource) != found.limit);
        }
        // A launch of which starting takes a tenth or more has that as a candidate.
        let share = |of: Resource| {
            let bound = found.bounds.iter().find(|b| b.resource == of)?;
            Some(bound.ns.value / found.time_ns?.value)
        };
        for of in [Resource::Groups, Resource::Launch] {
            let hidden = share(of).is_some_and(|s| (0.1..=1.0).contains(&s));
            let hidden = hidden && found.limit.is_some();
            assert!(!hidden || found.next.is_some() || found.limit == Some(of), "{verdict:?}");
        }
    });
}

/// Whatever is known of a kernel and its device, its time has a cause with how sure it is. What is not
/// certain has what would decide; where not even counts are there, the second cause stands beside it.
/// No figure comes from what nobody measured.
#[test]
fn a_cause_is_named_whatever_is_known() {
    let check = |kernel: &Kernel, device: Option<&Device>, on: &OnDevice| {
        let on = OnDevice { kernels: vec![kernel.clone()], ..on.clone() };
        let found = explain::device(&on, device, ALL).kernels.remove(0);
        let (limit, sure) = (found.limit.expect("a cause"), found.sure.expect("how sure"));
        let is_counted = kernel.mix.is_some() || !kernel.busy.is_empty();
        let is_open = found.sure != Some(Sure::Certain);
        assert_eq!(found.decide.is_some(), is_open, "{found:?}");
        assert!(is_counted || sure != Sure::Likely || found.next.is_some(), "{found:?}");
        // Without what competes only units that rest, and launches that do nothing, are certain.
        let alone = [Resource::Launch, Resource::IdleUnits, Resource::UnevenGroups];
        assert!(is_counted || sure != Sure::Certain || alone.contains(&limit), "{found:?}");
        let said = |of: Resource| of == limit || found.next.is_some_and(|next| next.resource == of);
        assert!(!said(Resource::UnevenGroups) || kernel.longest_group.is_some(), "{found:?}");
        if device.is_none() {
            let figures = found.bounds.len() + usize::from(found.modelled_time_ns.is_some());
            assert!(figures == 0 && found.levers.iter().all(|l| l.saves_ns.is_none()), "{found:?}");
            let verdict = found.statements.iter().find(|s| s.topic == "verdict").unwrap();
            let measured = kernel.dram_share.is_some() || kernel.groups().is_some();
            assert!(measured || !verdict.text.contains(" %"), "{}", verdict.text);
        }
        found
    };
    for text in CPUS.iter().chain([&GPU]) {
        let (device, _) = asked(text);
        let on = OnDevice {
            model: device.name.clone(),
            platform: device.platform.clone(),
            is_cpu: device.is_cpu(),
            compute_units: Some(device.compute_units),
            clock_mhz: Some(if device.is_cpu() { 2700 } else { 1980 }),
            ..OnDevice::default()
        };
        let nothing = OnDevice::default();
        let (mut all, mut right) = (0, 0);
        let (_, kernels) = asked(text);
        let limits = limits_of(text);
        for (kernel, limits) in kernels.iter().zip(&limits) {
            let by_counts = check(kernel, None, &on);
            all += 1;
            let name = serde_json::to_value(by_counts.limit).unwrap();
            right += usize::from(limits.iter().any(|l| name == l.as_str()));
        }
        // By what devices of the kind typically do most are right: of a GPU, whose compiler keeps
        // what is counted, more.
        let least = if device.is_cpu() { 70 } else { 80 };
        assert!(100 * right >= least * all, "{}: {right} of {all}", device.platform);
        each(|kernel, device| {
            for on in [&on, &nothing] {
                for known in [Some(device), None] {
                    let no_geometry = Kernel { items: None, local: None, ..kernel.clone() };
                    for kernel in [kernel, &no_geometry] {
                        check(kernel, known, on);
                    }
                }
            }
        });
    }
}

/// Few groups are certain only where more would help: one chain of results that wait for each other
/// takes as long in any number of groups, and in as few as there are.
#[test]
fn few_groups_are_certain_only_where_more_would_help() {
    let mut certain = 0;
    for text in CPUS.iter().chain([&GPU]) {
        let (device, kernels) = asked(text);
        for kernel in kernels.iter().filter(|k| k.local.is_some_and(|local| local >= 64)) {
            // The same groups, but as few as a third of the units.
            let groups = (u64::from(device.compute_units) / 3).max(1);
            let by = groups as f64 / kernel.groups().unwrap() as f64;
            let change = Change { scale: Some(by), ..Change::default() };
            let ns = predict(kernel, Some(&device), &change).unwrap().ns.value;
            let of = Kernel {
                items: Some(groups * kernel.local.unwrap()),
                mix: kernel.mix.as_ref().map(|mix| scaled(mix, by)),
                blocks: kernel.blocks.iter().map(|(b, n)| (b.clone(), n * by)).collect(),
                footprint: kernel.footprint.map(|bytes| bytes * by),
                time_ns: Some(Figure::exact(ns, Evidence::Measured)),
                total_ns: Some(ns * kernel.launches as f64),
                dram_bytes: None,
                longest_group: None,
                ..kernel.clone()
            };
            let found = explained(&of, &device);
            if (found.limit, found.sure) != (Some(Resource::FewGroups), Some(Sure::Certain)) {
                continue;
            }
            certain += 1;
            let smaller = Change { local: Some(of.local.unwrap() / 2), ..Change::default() };
            let spread = predict(&of, Some(&device), &smaller).unwrap().ns;
            assert!(spread.value < 0.8 * found.time_ns.unwrap().value, "{}: {spread:?}", of.name);
        }
    }
    assert!(certain >= 3, "{certain}");
}

/// One launch has one energy: that of the model, in whatever form it is shown.
#[test]
fn a_launch_has_one_energy_in_every_form() {
    let options = Options { access_rates: true, ..ALL };
    let mut seen = 0;
    let (device, kernels) = asked(GPU);
    for kernel in kernels {
        let on = OnDevice { kernels: vec![kernel], ..OnDevice::default() };
        let found = explain::device(&on, Some(&device), options).kernels.remove(0);
        let Some((rates, model)) = found.access_rates.as_ref().zip(found.modelled_joules) else {
            continue;
        };
        assert!((rates.joules / model.value - 1.0).abs() < 1e-9, "{rates:?} {model:?}");
        let joules = |s: &&Statement| s.text.contains("J a launch");
        assert_eq!(found.statements.iter().filter(joules).count(), 1, "{found:?}");
        seen += 1;
    }
    assert!(seen >= 70, "{seen}");
}

/// However the instructions of the longest group lie on its warps, the time of its longest warp is
/// between the ends of its bound.
#[test]
fn the_longest_group_lasts_as_its_longest_warp() {
    let (device, kernels) = asked(GPU);
    let latency = device.get(name::LATENCY_ADD).unwrap().value;
    let kernel = kernels.into_iter().find(|k| k.name == "uneven").unwrap();
    // 4096 groups of 8 warps with 32 sums that wait for each other, and one with 100 times as many.
    let (groups, warps, each) = (4096u64, 8u64, 32u64);
    for shares in [
        [1.0; 8],
        [8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [4.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
    ] {
        let mut mix = kernel.mix.clone().unwrap();
        let sums = groups * warps * each;
        mix.classes.clear();
        let tally =
            Tally { threads: 32 * sums, warps: Some(sums), flop: 32 * sums, ..Tally::default() };
        mix.classes.insert(Class::SingleArith, tally);
        let of = Kernel {
            mix: Some(mix),
            blocks: Vec::new(),
            items: Some(groups * warps * 32),
            local: Some(warps * 32),
            longest_group: Some(100.0),
            ..kernel.clone()
        };
        let bounds = clscope_models::roofline::bounds(&of, &device);
        let bound = bounds.by_resource(Resource::UnevenGroups).unwrap();
        let longest = shares.iter().copied().fold(0.0, f64::max);
        let truth = longest * 100.0 * each as f64 * latency;
        let most = bound.most.unwrap().value;
        let ends = 0.999 * bound.ns.value..=1.001 * most;
        assert!(ends.contains(&truth), "{truth} of {bound:?}");
        assert!(bound.ns.value <= most && most / bound.ns.value <= warps as f64 * 1.001);
    }
}

/// Savings are sums over all launches, are said to be, and are no more than all of them take.
#[test]
fn savings_are_of_all_launches_and_within_their_time() {
    each(|kernel, device| {
        let found = explained(kernel, device);
        let all = found.time_ns.unwrap().value * found.launches as f64;
        for lever in &found.levers {
            assert_eq!((lever.over.count, lever.over.what), (found.launches, "launches"));
            assert!(lever.over.words().starts_with("of all 8 launches") || found.launches != 8);
            // Launches in one save what lies between them, too.
            let is_within = lever.saves_ns.is_none_or(|s| s.high <= all * (1.0 + 1e-9));
            assert!(is_within || lever.text.contains("launches in one"), "{lever:?} of {all}");
        }
    });
}

/// No measurement is advised that the trace holds, whatever it holds.
#[test]
fn what_a_trace_holds_is_not_advised() {
    let single = Measurement::ALL.map(|m| vec![m]);
    let all = single.into_iter().chain([Vec::new(), Measurement::ALL.to_vec()]);
    let all: Vec<Vec<Measurement>> = all.collect();
    each(|kernel, device| {
        for held in &all {
            let kernel = Kernel {
                held: held.iter().copied().collect(),
                // Who counted instructions knows why one has none.
                uncounted: held.contains(&Measurement::Mix).then(|| "a binary".to_owned()),
                ..kernel.clone()
            };
            let found = explained(&kernel, device);
            let remedies = found.missing.iter().map(|m: &Missing| m.remedy.as_str());
            let texts = found.statements.iter().map(|s| s.text.as_str());
            let levers = found.levers.iter().map(|l| l.text.as_str());
            for text in remedies.chain(texts).chain(levers).chain(found.decide.as_deref()) {
                let advises =
                    |m: &&Measurement| text.contains(&format!("clscope record {}`", m.options()));
                assert_eq!(held.iter().find(advises), None, "{}: {text}", found.kernel);
            }
        }
    });
}

/// One function decides: a launch as it was recorded has in `what-if` the limit that `explain` names,
/// and takes as long as it did.
#[test]
fn what_if_at_the_recorded_configuration_has_the_cause_of_explain() {
    each(|kernel, device| {
        let found = explained(kernel, device);
        let clock_mhz = device.get(name::CLOCK).ok().map(|mhz| mhz.value);
        let none = Change::default();
        for change in [
            none,
            Change { local: kernel.local, ..none },
            Change { scale: Some(1.0), ..none },
            Change { clock_mhz, ..none },
        ] {
            let Ok(p) = predict(kernel, Some(device), &change) else { continue };
            let said = (p.measured_limit, p.limit, p.sure);
            assert_eq!(said, (found.limit, found.limit, found.sure), "{}: {p:?}", kernel.name);
        }
    });
}

/// Advice is for the types, devices and launches that it holds for.
#[test]
fn advice_holds_for_the_type_and_the_device() {
    type Holds = fn(&Kernel, &Device) -> bool;
    let is_gpu: Holds = |_, d| d.kind == "gpu";
    // What a text says, and what must be so.
    let table: &[(&str, Holds)] = &[
        ("native_divide", |k, _| k.mix.iter().any(|m| m.classes.contains_key(&Class::SingleDiv))),
        ("native_", |_, d| d.kind == "gpu"),
        ("native_ functions", |k, _| {
            let mix = k.mix.as_ref().unwrap();
            mix.classes.contains_key(&Class::SingleSpecial) && mix.total().warps.is_none()
        }),
        ("single precision", |k, _| {
            let doubles = [Class::DoubleFma, Class::DoubleArith, Class::DoubleSpecial];
            k.mix.iter().any(|m| doubles.iter().any(|c| m.classes.contains_key(c)))
        }),
        ("products of int", |k, _| k.mix.iter().any(|m| m.classes.contains_key(&Class::LongMul))),
        ("tiles in local memory", is_gpu),
        ("constant memory gives one word", is_gpu),
        ("banks", is_gpu),
        ("warp", is_gpu),
        ("lanes", is_gpu),
        ("pinned", is_gpu),
        ("more groups at once", is_gpu),
        ("smaller groups", |k, _| k.resources.required.is_none()),
        ("narrower types", |k, _| {
            let mix = k.mix.as_ref();
            mix.is_none_or(|m| m.classes.values().any(|t| t.bytes > t.threads))
        }),
    ];
    each(|kernel, device| {
        for required in [None, kernel.local] {
            for as_double in [false, true] {
                let mut kernel = kernel.clone();
                kernel.resources.required = required;
                if let Some(mix) = kernel.mix.as_mut().filter(|_| as_double) {
                    double(mix);
                    kernel.blocks.clear();
                }
                for lever in &explained(&kernel, device).levers {
                    for (word, holds) in table {
                        let is_said = lever.text.contains(word);
                        assert!(!is_said || holds(&kernel, device), "{}: {lever:?}", kernel.name);
                    }
                }
            }
        }
    });
}

/// The same in double precision.
fn double(mix: &mut clscope_mix::Mix) {
    for (of, to) in [
        (Class::SingleArith, Class::DoubleArith),
        (Class::SingleFma, Class::DoubleFma),
        (Class::SingleDiv, Class::DoubleDiv),
        (Class::SingleSpecial, Class::DoubleSpecial),
    ] {
        if let Some(tally) = mix.classes.remove(&of) {
            mix.classes.insert(to, tally);
        }
    }
}
