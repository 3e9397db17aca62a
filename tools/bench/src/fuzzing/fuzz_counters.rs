//! `fuzz-counters`: damaged streams of OA reports (raw, of i915, as igt's tools record them),
//! answers of drivers, files of counters, metric sets and their equations, through everything that
//! reads them; every call of a driver refused with any errno. Fails on a panic and on an input that
//! takes more than seconds. A seed names a run; the failing input is kept.
#![forbid(unsafe_code)]

use crate::fuzz::{Course, PATIENCE, damage};
use crate::random::Random;
use anyhow::Result;
use clscope_metrics::rpn::Equation;
use clscope_metrics::variables::{Provenance, Variables};
use clscope_metrics::xml;
use clscope_oa::config::{Node, Registers};
use clscope_oa::emulator::{Emulator, Read, Script};
use clscope_oa::open::{self, Wanted};
use clscope_oa::query::QueryReport;
use clscope_oa::stream::{Bare, DeviceInfo, Record, Records};
use clscope_oa::testing::{Writer, record, switch_id, timer_id};
use clscope_oa::topology::{Topology, synthesised_i915};
use clscope_oa::uapi::request;
use clscope_oa::{Accumulator, CounterSource, Counts, Format, Generation, Published};
use clscope_sensors::{RawNs, Roots, System};
use clscope_trace::sensors;
use std::collections::BTreeMap;
use std::path::Path;

const GENERATIONS: [Generation; 7] = [
    Generation::Gen7,
    Generation::Gen8,
    Generation::Gen9,
    Generation::Gen11,
    Generation::Gen12,
    Generation::Xe,
    Generation::Xe2,
];
const UUID: &str = "12994724-3a5a-4303-bb3c-ba0175d2c200";
/// A set with all that a file may hold.
const SET: &str = r#"<?xml version="1.0"?><metrics version="1"><set name="Compute" chipset="KBLGT2" symbol_name="ComputeBasic" hw_config_guid="12994724-3a5a-4303-bb3c-ba0175d2c200">
<counter name="Time" symbol_name="GpuTime" units="ns" equation="GPU_TIME 0 READ 1000000000 UMUL $GpuTimestampFrequency UDIV"/>
<counter name="Clocks" symbol_name="GpuCoreClocks" units="cycles" equation="GPU_CLOCK 0 READ"/>
<counter name="EU" symbol_name="EuActive" units="percent" max_equation="100" equation="A 7 READ $EuCoresTotalCount UDIV 100 UMUL $GpuCoreClocks FDIV"/>
<counter name="S" symbol_name="Sampler" availability="$SubsliceMask 0x09 AND" equation="B 0 READ C 3 READ UADD 2 &gt;&gt; $SliceMask 1 &lt;&lt; UMIN"/>
<register_config type="NOA" availability="$SliceMask 0x01 AND"><register type="NOA" address="0x00009888" value="0x104F00E0"/></register_config>
<register_config type="FLEX"><register type="FLEX" address="0x0000E458" value="0x00005004"/></register_config></set></metrics>"#;

/// What is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Bare,
    I915,
    Igt,
    Metrics,
    Equation,
    Topology,
    XeAnswers,
    Counters,
    Query,
}

type Input = (Kind, Vec<u8>);

/// Whole inputs of every kind.
fn made() -> Vec<Input> {
    let mut out = Vec::new();
    for format in Format::ALL {
        let layout = format.layout(Published::Tables);
        let mut writer = Writer::new(layout);
        writer.set_all(u64::MAX - 1000);
        let reports: Vec<Vec<u8>> = (0..20u32)
            .map(|i| {
                writer.advance(682, 37 * u64::from(i));
                writer.report(if i % 7 == 3 { switch_id() | 1 << 16 } else { timer_id() }, i / 7)
            })
            .collect();
        out.push((Kind::Bare, reports.concat()));
        let mut records: Vec<u8> = reports.iter().flat_map(|r| record(1, r)).collect();
        records.splice(0..0, record(2, &[]));
        records.extend(record(3, &[]));
        out.push((Kind::I915, records.clone()));
        let mut igt: Vec<u8> = record(1 << 16, &1u64.to_le_bytes());
        igt.extend(record((1 << 16) + 1, &[7; 336]));
        igt.extend(record((1 << 16) + 2, &synthesised_i915(1, 3, 8)));
        igt.extend(record((1 << 16) + 3, &[9; 16]));
        igt.extend(records);
        out.push((Kind::Igt, igt));
    }
    out.push((Kind::Metrics, SET.as_bytes().to_vec()));
    for equation in [
        "A 7 READ $EuCoresTotalCount UDIV 100 UMUL $GpuCoreClocks FDIV",
        "$SliceMask 1 << 3 >> 0x7 AND 2 OR 1 UGTE",
        "A 0 READ 5 FADD 2 FMAX",
    ] {
        out.push((Kind::Equation, equation.as_bytes().to_vec()));
    }
    out.push((Kind::Topology, synthesised_i915(2, 3, 8)));
    let mut answers = vec![0; 16 + 72 + 8];
    answers[8] = 1;
    answers[16 + 24..16 + 32].copy_from_slice(&19_200_000u64.to_le_bytes());
    answers[16 + 64] = 1;
    out.push((Kind::XeAnswers, answers));
    let mut file = Vec::new();
    let about = sensors::CounterSource {
        name: "oa:i915:card0".into(),
        counters: vec!["A7".into(), "A8".into()],
        hz: 12_000_000,
        ..Default::default()
    };
    sensors::encode(&about.into(), &mut file);
    let mut rows = Vec::new();
    for i in 0..4u64 {
        let counts = vec![Some(i), None];
        sensors::CounterWindow {
            host: Some((i * 10, i * 10 + 10)),
            command: i as u32,
            counts,
            ..Default::default()
        }
        .append_to(&mut rows);
    }
    sensors::encode(
        &sensors::Record::CounterWindows(sensors::CounterWindows::new(0, 2, &rows)),
        &mut file,
    );
    sensors::encode(
        &sensors::CounterReport { source: 0, command: 3, bytes: vec![1; 672] }.into(),
        &mut file,
    );
    let mut whole = vec![0; clscope_trace::file::HEADER_LEN];
    whole.extend(sensors::block(0, &file));
    out.push((Kind::Counters, whole));
    out.push((Kind::Query, vec![3; 672]));
    out
}

fn accumulate(
    reports: &mut dyn FnMut(&mut Accumulator),
    format: Format,
    generation: Generation,
) -> u64 {
    let mut sum = 0u64;
    for reading in [Published::Tables, Published::IgtTests] {
        let mut accumulator =
            Accumulator::new(format.layout(reading), generation, Some(12_000_000));
        reports(&mut accumulator);
        sum += accumulator.tally().intervals;
    }
    sum
}

/// Everything that the libraries do with an input; `choice` picks formats and pieces.
fn take((kind, bytes): &Input, random: &mut Random) {
    let format = Format::ALL[random.below(Format::ALL.len())];
    let generation = GENERATIONS[random.below(GENERATIONS.len())];
    let piece = 1 + random.below(700);
    match kind {
        Kind::Bare => {
            let feed = &mut |accumulator: &mut Accumulator| {
                let mut bare = Bare::new(accumulator.layout().bytes);
                bytes.chunks(piece).for_each(|part| {
                    bare.feed(part, &mut |report| {
                        let _ = accumulator.push(report);
                    })
                });
            };
            std::hint::black_box(accumulate(feed, format, generation));
        }
        Kind::I915 | Kind::Igt => {
            let feed = &mut |accumulator: &mut Accumulator| {
                let mut records = Records::new();
                for part in bytes.chunks(piece) {
                    let fed = records.feed(part, &mut |record| match record {
                        Record::Sample(report) => {
                            let _ = accumulator.push(report);
                        }
                        Record::ReportsLost => accumulator.reports_lost(),
                        Record::BufferLost => accumulator.buffer_lost(),
                        Record::DeviceInfo(info) => drop(DeviceInfo::parse(info)),
                        Record::Topology(topology) => drop(Topology::from_i915(topology)),
                        _ => {}
                    });
                    if let Err(error) = fed {
                        std::hint::black_box(error.to_string());
                        break;
                    }
                }
            };
            std::hint::black_box(accumulate(feed, format, generation));
            sample("i915", bytes, piece);
        }
        Kind::Metrics => {
            let text = String::from_utf8_lossy(bytes);
            let Ok(sets) = xml::parse("fuzzed", &text) else { return };
            let variables = variables(random);
            for set in sets.sets {
                let counts = Counts::zero(format.layout(Published::Tables));
                std::hint::black_box((
                    set.evaluate_all(&counts, &variables).len(),
                    set.registers(&variables).is_ok(),
                ));
            }
        }
        Kind::Equation => {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let words = format!(
                r#"<metrics><set symbol_name="S"><counter symbol_name="X" equation="{}"/></set></metrics>"#,
                escaped(&text)
            );
            if let Ok(equation) = Equation::parse(&text) {
                std::hint::black_box((equation.inputs().count(), equation.names().count()));
            }
            if let Ok(sets) = xml::parse("fuzzed", &words) {
                let mut counts = Counts::zero(format.layout(Published::Tables));
                counts.set_clocks(random.next(), random.next());
                sets.sets.iter().for_each(|s| drop(s.evaluate_all(&counts, &variables(random))));
            }
        }
        Kind::Topology => drop((Topology::from_i915(bytes), Topology::from_xe(bytes, 0))),
        Kind::XeAnswers => opened(
            "xe",
            &BTreeMap::from([(8, bytes.clone()), (3, bytes.clone()), (5, bytes.clone())]),
            None,
            None,
        ),
        Kind::Counters => {
            let rows: usize = sensors::Records::new(bytes)
                .map(|r| match r {
                    sensors::Record::CounterWindows(w) => w.iter().map(|w| w.counts.len()).sum(),
                    sensors::Record::CounterReport(r) => {
                        QueryReport::decode(&r.bytes).map_or(0, |r| r.counts().len())
                    }
                    _ => 0,
                })
                .sum();
            std::hint::black_box(rows);
        }
        Kind::Query => drop(QueryReport::decode(bytes)),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}

fn variables(random: &mut Random) -> Variables {
    let mut variables = Variables::new();
    for name in ["EuCoresTotalCount", "GpuTimestampFrequency", "SliceMask", "SubsliceMask"] {
        let value = [0, 1, 24, u64::MAX][random.below(4)];
        variables.set(name, value, Provenance::Driver);
    }
    variables
}

/// A damaged stream behind a sampler, in pieces as a driver gives them.
fn sample(driver: &str, bytes: &[u8], piece: usize) {
    let reads: Vec<Read> = bytes.chunks(piece).map(|part| Read::Bytes(part.to_vec())).collect();
    opened(driver, &BTreeMap::from([(1, synthesised_i915(1, 3, 8))]), Some(reads), None);
}

/// Opens a stream of an emulated GPU and reads it; one request may be refused.
fn opened(
    driver: &str,
    queries: &BTreeMap<u64, Vec<u8>>,
    reads: Option<Vec<Read>>,
    refused: Option<(u32, i32)>,
) {
    let script = Script {
        params: BTreeMap::from([(51, 12_000_000), (54, 7), (57, 12_000_000)]),
        queries: queries.clone(),
        errors: refused.into_iter().collect(),
        tick_bits: 36,
        reads: reads.unwrap_or_default().into(),
        ..Script::default()
    };
    let node = Node {
        card: "card0".into(),
        render: None,
        driver: driver.into(),
        pci: None,
        device_id: Some(if driver == "xe" { 0x64a0 } else { 0x5916 }),
    };
    let registers = Registers::default();
    let Ok(uuid) = UUID.parse() else { return };
    let wanted =
        Wanted { period_ns: 1_000_000, uuid, registers: Some(&registers), poll_ns: Some(1) };
    match open::open(
        &System,
        &Roots::below("/nonexistent".as_ref()),
        &node,
        Box::new(Emulator::new(script)),
        &wanted,
    ) {
        Ok(mut opened) => {
            let mut now = 1_000_000_000;
            let mut clock = || {
                now += 1000;
                RawNs(now)
            };
            let mut windows = 0u64;
            for _ in 0..3 {
                if let Err(error) = opened.sampler.read(&mut clock, &mut |_| windows += 1) {
                    std::hint::black_box(error.to_string());
                }
            }
            std::hint::black_box(windows);
        }
        // A refusal has words, and they are not empty.
        Err(error) => assert!(
            !error.to_string().is_empty() && error.remedy().is_none_or(|r| !r.is_empty()),
            "{error:?}"
        ),
    }
}

/// Every call of both drivers, refused with every errno there is.
fn refusals() {
    let mut units = vec![0; 16 + 72 + 8];
    units[8] = 1;
    units[16 + 24..16 + 32].copy_from_slice(&19_200_000u64.to_le_bytes());
    units[16 + 64] = 1;
    let mut gts = vec![0; 8 + 96];
    gts[20..24].copy_from_slice(&19_200_000u32.to_le_bytes());
    let xe = BTreeMap::from([(8, units), (3, gts)]);
    let i915 = BTreeMap::from([(1, synthesised_i915(1, 3, 8))]);
    for errno in 1..=133 {
        for request in [
            request::I915_GETPARAM,
            request::I915_REG_READ,
            request::I915_QUERY,
            request::I915_PERF_OPEN,
            request::I915_PERF_ADD_CONFIG,
            request::I915_PERF_REMOVE_CONFIG,
        ] {
            opened("i915", &i915, Some(vec![Read::Errno(errno)]), Some((request, errno)));
        }
        for request in
            [request::XE_OBSERVATION, request::XE_DEVICE_QUERY, request::XE_STREAM_STATUS]
        {
            opened("xe", &xe, Some(vec![Read::Errno(errno)]), Some((request, errno)));
        }
        opened("i915", &i915, Some(vec![Read::Errno(errno)]), None);
        opened("xe", &xe, Some(vec![Read::Errno(errno)]), None);
    }
}

fn damaged(corpus: &[Input], random: &mut Random) -> Input {
    let (kind, mut bytes) = corpus[random.below(corpus.len())].clone();
    for _ in 0..=random.below(6) {
        let other = &corpus[random.below(corpus.len())].1;
        damage(&mut bytes, other, random);
    }
    (kind, bytes)
}

/// Damages and reads.
///
/// # Errors
/// If an input makes a reader panic or take too long.
pub fn run(args: &Course) -> Result<()> {
    refusals();
    let corpus = made();
    let keep = |(kind, bytes): &Input, name: &Path| {
        Ok(std::fs::write(name.with_extension(format!("{kind:?}")), bytes)?)
    };
    let make = |random: &mut Random| damaged(&corpus, random);
    let what = "damaged inputs, every call refused with every errno,";
    args.run(("fuzz-counters", what), PATIENCE, make, take, keep)
}

#[cfg(test)]
mod tests {
    use super::*;

    // A part of every test run; the command runs for longer.
    #[test]
    fn damaged_counters_never_panic() {
        refusals();
        let corpus = made();
        let mut random = Random(42);
        for _ in 0..3_000 {
            let input = damaged(&corpus, &mut random);
            take(&input, &mut random);
        }
    }

    #[test]
    fn whole_inputs_are_what_they_should_be() {
        for (kind, bytes) in made() {
            match kind {
                Kind::Metrics => assert_eq!(
                    xml::parse("x", std::str::from_utf8(&bytes).unwrap()).unwrap().problems,
                    Vec::<String>::new()
                ),
                Kind::Equation => {
                    assert!(Equation::parse(std::str::from_utf8(&bytes).unwrap()).is_ok())
                }
                Kind::Topology => assert!(Topology::from_i915(&bytes).is_some()),
                Kind::Counters => assert_eq!(sensors::Records::new(&bytes).count(), 3),
                Kind::Query => assert!(QueryReport::decode(&bytes).is_some()),
                Kind::Igt | Kind::I915 => {
                    let mut samples = 0;
                    Records::new()
                        .feed(&bytes, &mut |r| {
                            samples += usize::from(matches!(r, Record::Sample(_)))
                        })
                        .unwrap();
                    assert_eq!(samples, 20);
                }
                Kind::Bare | Kind::XeAnswers => {}
            }
        }
    }
}
