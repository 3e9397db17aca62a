//! Trace directories that are sound in every byte and unreasonable in what they say: times at the
//! ends of their range, steps of years, thousands of kernels, series, sources, processes, counters
//! of no width, names of a megabyte. Owns what is unreasonable; refuses to damage bytes, which
//! [`crate::fuzz`] does on top.
#![forbid(unsafe_code)]

use crate::folder::Files;
use crate::fuzz_made::files_of;
use crate::random::Random;
use clscope_analysis::testing::{CommandSpec, HostModel, ProcessBuilder, function};
use clscope_trace::defs::{Kernel, Queue, Thread};
use clscope_trace::file::{FileHeader, FileKind};
use clscope_trace::record::{CommandKind, Untimed};
use clscope_trace::sensors::{
    self, CounterSource, CounterWindow, CounterWindows, Event, Quantity, Reading, Readings, Record,
    Series, Updates,
};
use clscope_trace::{Clock, VERSION};

/// Bytes after which no process and no series is added.
const ENOUGH: usize = 6 << 20;

/// A number of things: mostly few, sometimes many.
fn count(random: &mut Random, many: usize) -> usize {
    match random.below(6) {
        0 => 1 + random.below(many),
        1 => 1 + random.below(many / 10 + 1),
        _ => 1 + random.below(4),
    }
}

/// A step in time, in ns: from one to years.
fn step(random: &mut Random) -> u64 {
    1u64 << match random.below(5) {
        0 => random.below(60),
        1 => 30 + random.below(20),
        _ => 10 + random.below(15),
    }
}

/// A number where a file has one.
fn number(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => i64::MAX as u64,
        3 => f64::NAN.to_bits(),
        4 => f64::INFINITY.to_bits(),
        5 => 1e300f64.to_bits(),
        _ => random.next() >> random.below(64),
    }
}

fn name(random: &mut Random, stem: &str, id: usize) -> String {
    match random.below(200) {
        0 => format!("{stem}{}", "x".repeat(1 << random.below(17))),
        1 => String::new(),
        2 => format!("{stem}\x1b[2J\u{202e}\n{id}"),
        _ => format!("{stem}{id}"),
    }
}

/// One process: its files, and how long it ran in ns.
fn process(random: &mut Random, pid: u32, host: HostModel) -> (Files, u64) {
    let threads = count(random, 200) as u32;
    let mut p = ProcessBuilder::standard(host, pid, threads);
    p.block_len(1 << (9 + random.below(8)));
    p.in_ring = random.below(3) == 0;
    let (kernels, queues) = (count(random, 3_000) as u32, count(random, 500) as u32);
    for id in 3..3 + kernels {
        p.define(Kernel { id, program: 1, name: name(random, "k", id as usize) });
    }
    for id in 3..3 + queues {
        let properties = u64::from(random.below(4) == 0);
        p.define(Queue { id, context: 1, device: 1, properties, ..Default::default() });
    }
    if random.below(4) == 0 {
        p.define(Thread { index: 0, tid: u32::MAX, name: name(random, "t", 0) });
    }
    // A thread's records come in order, and their times must fit into an i64.
    let mut now = 1_000u64;
    let commands = count(random, 20_000) as u64;
    let usual = step(random).min((1 << 60) / (commands + 1));
    for id in 1..=commands {
        let length = if random.below(50) == 0 { step(random) } else { usual };
        if now.saturating_add(length) > 1 << 61 {
            break;
        }
        let thread = random.below(threads as usize) as u32;
        let queue = 1 + random.below(2 + queues as usize) as u32;
        let kernel = 1 + random.below(2 + kernels as usize) as u32;
        let waits = [id.saturating_sub(1) as u32, random.next() as u32];
        let mut spec = match random.below(5) {
            0 => CommandSpec::transfer(id, queue, CommandKind::ReadBuffer, number(random)),
            1 => CommandSpec::sampled(id, queue, kernel, 1e-9, random.below(2) == 0),
            _ => CommandSpec::kernel(id, queue, kernel),
        };
        spec.waits = &waits[..random.below(3)];
        let (begin, end) = (now, now + length / 2);
        p.thread(thread).enqueue(begin, end, &spec);
        let stamp = |share: u64| host.raw + begin + length / 8 * share;
        match random.below(40) {
            0 => drop(p.thread(thread).untimed(end, id, Untimed::Failed)),
            1 => {
                let stamps = [number(random), number(random), number(random), number(random)];
                p.thread(thread).timing(end, id, stamps);
            }
            _ => drop(p.thread(thread).timing(end, id, [1, 2, 3, 7].map(stamp))),
        }
        now += length;
        if id % 16 == 0 {
            p.thread(thread).plain(function::FINISH, now, now + 1, 0, queue);
            now += 1;
        }
    }
    if random.below(4) > 0 {
        p.exit(now + 1, number(random));
    }
    (files_of(pid, p), now)
}

const PLANES: [&str; 7] = ["PKG", "PP0", "PP1", "DRAM", "GPU", "GPU card", ""];

fn series(random: &mut Random, id: u32) -> Series {
    let quantity = Quantity::from_u8(match random.below(4) {
        0 => 1 + random.below(8) as u8,
        1 => 2,
        _ => 1,
    });
    let own = |random: &mut Random, text: &str| (random.below(2) == 0).then(|| text.to_owned());
    Series {
        id,
        source: ["powercap", "nvml:ring:0", "nvml:gpm:0", "hwmon0"][random.below(4)].into(),
        name: if random.below(4) == 0 {
            "power-samples".into()
        } else {
            name(random, "s", id as usize)
        },
        quantity,
        plane: PLANES[random.below(PLANES.len())].into(),
        package: Some(0),
        pci: own(random, "0000:00:02.0"),
        device: own(random, "Test Device"),
        window_ns: (random.below(4) == 0).then(|| number(random)),
        ..Default::default()
    }
}

fn rows(random: &mut Random, host: HostModel, run: u64, quantity: Quantity) -> Vec<u8> {
    let mut out = Vec::new();
    // A block holds 16 MB.
    let readings = count(random, 40_000) as u64;
    let step = match random.below(3) {
        0 => step(random),
        _ => (run / readings.max(1)).max(1),
    };
    let mut time = host.raw.saturating_add(if random.below(8) == 0 { number(random) } else { 0 });
    let mut total = 0u64;
    for _ in 0..readings {
        time = time.saturating_add(if random.below(500) == 0 { self::step(random) } else { step });
        total = total.saturating_add(random.next() >> 44);
        let value = match (random.below(300), quantity) {
            (0, _) => number(random),
            (_, Quantity::Energy) => total,
            _ => random.next() >> 40,
        };
        let mean_over_us = if random.below(20) == 0 { random.next() as u32 } else { 0 };
        Reading { time, value, bracket_ns: random.next() as u32, mean_over_us }.append_to(&mut out);
    }
    out
}

fn counters(random: &mut Random, host: HostModel, run: u64, id: u32, payload: &mut Vec<u8>) {
    let names = count(random, 4_000);
    let figures = count(random, 2_000);
    let about = CounterSource {
        id,
        name: ["oa:i915:card0", "perf:1", "ncu:0"][random.below(3)].into(),
        pid: Some(1),
        pci: Some("0000:00:02.0".into()),
        counters: (0..names).map(|i| name(random, "A", i)).collect(),
        format: ["", "A32u40_A4u32_B8_C8"][random.below(2)].into(),
        generation: "gen9".into(),
        hz: number(random),
        period_ns: number(random),
        figures: (0..figures).map(|i| name(random, "F", i)).collect(),
        units: vec!["number".into(); figures],
        equations: (0..figures).map(|_| "A 0 READ 1 UADD".to_owned()).collect(),
        meanings: vec![String::new(); figures],
        ..Default::default()
    };
    sensors::encode(&about.into(), payload);
    let width = match random.below(6) {
        0 => 0,
        1 => u32::MAX,
        2 => 1 << random.below(31),
        _ => names as u32,
    };
    let mut rows = Vec::new();
    if width as usize <= names {
        let windows = count(random, (1 << 20) / (6 + width as usize) / 8 + 1) as u64;
        let step = (run / windows.max(1)).max(1);
        for i in 0..windows {
            let begin = host.raw + i * step;
            let counts = (0..width).map(|_| Some(random.next() >> 30)).collect();
            let times = if random.below(50) == 0 {
                (number(random), number(random))
            } else {
                (begin, begin + step)
            };
            let window = CounterWindow {
                host: Some(times),
                ticks: Some((i * 100, i * 100 + 100)),
                counts,
                command: if random.below(2) == 0 { i as u32 } else { 0 },
                ..Default::default()
            };
            window.append_to(&mut rows);
        }
    }
    sensors::encode(&Record::CounterWindows(CounterWindows::new(id, width, &rows)), payload);
}

/// A file of readings and counters of one host.
pub fn sensors_of(random: &mut Random, host: HostModel, run: u64) -> Vec<u8> {
    let header = FileHeader {
        version: VERSION,
        kind: FileKind::Sensors,
        pid: 1,
        ppid: 1,
        pid_ns: 0,
        incarnation: 0,
        segment: 0,
        clock: Clock::MonotonicRaw,
        host: [host.boot; 16],
        boot: [host.boot; 16],
        created: if random.below(8) == 0 { number(random) } else { host.raw },
    };
    let mut out = header.encode().to_vec();
    let mut sequence = 0;
    let mut put = |payload: &[u8], out: &mut Vec<u8>| {
        out.extend(sensors::block(sequence, payload));
        sequence += 1;
    };
    for (time, code) in [(0, "application-started"), (run, "application-ended")] {
        let event =
            Event { time: host.raw.saturating_add(time), code: code.into(), ..Default::default() };
        let mut payload = Vec::new();
        sensors::encode(&event.into(), &mut payload);
        put(&payload, &mut out);
    }
    for id in 0..count(random, 300) as u32 {
        if out.len() > ENOUGH {
            break;
        }
        let mut payload = Vec::new();
        let about = series(random, id);
        let quantity = about.quantity;
        sensors::encode(&about.into(), &mut payload);
        let rows = rows(random, host, run, quantity);
        sensors::encode(&Record::Readings(Readings::new(id, &rows)), &mut payload);
        if random.below(3) == 0 {
            let period_ns = f64::from_bits(number(random));
            sensors::encode(
                &Updates { series: id, period_ns, ..Default::default() }.into(),
                &mut payload,
            );
        }
        put(&payload, &mut out);
    }
    if random.below(2) == 0 {
        for id in 0..count(random, 20) as u32 {
            let mut payload = Vec::new();
            counters(random, host, run, id, &mut payload);
            put(&payload, &mut out);
        }
    }
    out
}

/// A `meta.json` with calibrations.
fn meta(random: &mut Random) -> Vec<u8> {
    let figure = ["1e308", "-1e308", "0", "1e-300", "14000000"][random.below(5)];
    format!(
        r#"{{"command":["app\u001b[2J"],"gpu_power":"pkg-pp0-dram","calibration":[{{"subject":{{"kind":"sensor","source":"powercap","domain":"s0"}},"host":"h","measured_at_s":1,"clscope":"0","figures":{{"update-period-ns":{{"value":{figure}}},"response-lag-ns":{{"value":{figure},"uncertainty":{figure}}},"response-window-ns":{{"value":{figure}}}}}}}]}}"#
    )
    .into_bytes()
}

/// A whole directory: some megabytes at most, mostly far less.
pub fn directory(random: &mut Random) -> Files {
    let mut files = Files::new();
    let boots = 1 + random.below(2) as u8;
    for boot in 1..=boots {
        let clock = if random.below(3) == 0 { Clock::Tsc } else { Clock::MonotonicRaw };
        let host = HostModel { boot, clock, rate: 2.1, ..HostModel::default() };
        let mut run = 1_000;
        let mut size = 0;
        for pid in 0..count(random, 60) as u32 {
            let (more, length) = process(random, 1 + pid + 1000 * u32::from(boot), host);
            run = run.max(length);
            size += more.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
            files.extend(more);
            if size > ENOUGH {
                break;
            }
        }
        for copy in 0..1 + random.below(2) {
            let name = if copy == 0 && boot == 1 {
                "sensors.clt".to_owned()
            } else {
                format!("sensors-{boot}-{copy}.clt")
            };
            files.push((name, sensors_of(random, host, run)));
        }
    }
    files.push(("meta.json".to_owned(), meta(random)));
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::analyse;

    // A part of every test run; the command runs for longer.
    #[test]
    fn unreasonable_traces_never_panic() {
        for seed in 0..12 {
            analyse(&directory(&mut Random(seed)));
        }
    }
}
